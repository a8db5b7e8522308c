//! The embedded descriptions are read and hold together.

use std::collections::BTreeSet;

use super::*;

fn all() -> Vec<Sources> {
    names().map(|name| sources(name).unwrap()).collect()
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A relative path that stays where it is.
fn is_tame(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with('/')
        && !path.contains('\\')
        && path.split('/').all(|step| step != "..")
}

#[test]
fn every_description_is_of_its_benchmark_and_says_its_licence() {
    assert_eq!(names().collect::<BTreeSet<_>>().len(), 5);
    for (name, sources) in names().zip(all()) {
        assert_eq!(sources.benchmark, name);
        assert!(sources.licence.len() > 5, "{name}");
        assert!(!sources.parts.is_empty(), "{name}");
        assert!(sources.parts.iter().any(|part| !part.optional), "{name}");
    }
    assert_eq!(
        sources("x").unwrap_err().to_string(),
        "no published data are known of `x`; they are of ccfqa, cp-bench, cfever, 2m-belebele, simplevqa"
    );
}

#[test]
fn parts_have_names_of_their_own_and_places_of_their_own() {
    for sources in all() {
        let data: Vec<_> = sources.parts.iter().filter(|part| part.name != PROMPTS_PART).collect();
        let names: BTreeSet<_> = data.iter().map(|part| &part.name).collect();
        assert_eq!(names.len(), data.len(), "{}", sources.benchmark);
        let mut places = BTreeSet::new();
        for part in &sources.parts {
            assert!(!part.files.is_empty() && !part.about.is_empty(), "{}", part.name);
            if let Some(other) = &part.instead_of {
                assert!(part.optional && names.contains(other), "{}", part.name);
            }
            for file in &part.files {
                let place = file.to.as_ref().unwrap_or(&file.path);
                assert!(is_tame(&file.path) && is_tame(place), "{file:?}");
                assert!(part.instead_of.is_some() || places.insert(place.clone()), "{place} twice");
                assert_eq!(file.path.contains("{language}"), part.per_language, "{file:?}");
                assert_eq!(place.contains("{language}"), part.per_language, "{file:?}");
                assert!(file.sha256.as_ref().is_none_or(|hash| is_hex(hash, 64)), "{file:?}");
                let patterns_ok = matches!(part.origin, Origin::Hub { .. } | Origin::Manual { .. });
                assert!(patterns_ok || !file.path.contains('*'), "{file:?}");
            }
        }
    }
}

#[test]
fn origins_are_pinned_where_a_commit_is_known() {
    for part in all().iter().flat_map(|sources| &sources.parts) {
        match &part.origin {
            Origin::Hub { repo, revision, seen, .. } => {
                assert!(revision == "main" || is_hex(revision, 40), "{revision}");
                assert!(seen.as_ref().is_none_or(|seen| is_hex(seen, seen.len()) && revision == "main"));
                assert_eq!(repo.split('/').count(), 2, "{repo}");
            }
            Origin::GitHub { repo, commit } => {
                assert!(is_hex(commit, 40), "{commit}");
                assert_eq!(repo.split('/').count(), 2, "{repo}");
            }
            Origin::Https { base } => assert!(base.starts_with("https://") && base.ends_with('/'), "{base}"),
            Origin::Manual { page, steps } => assert!(page.starts_with("https://") && !steps.is_empty()),
        }
    }
}

#[test]
fn expected_counts_add_up() {
    for sources in all() {
        let expect = &sources.expect;
        let languages: BTreeSet<_> = expect.languages.iter().collect();
        assert_eq!(languages.len(), expect.languages.len(), "{}", sources.benchmark);
        for (column, counts) in &expect.counts {
            assert_eq!(Some(counts.values().sum()), expect.rows, "{} {column}", sources.benchmark);
        }
        let places: Vec<&str> = sources
            .parts
            .iter()
            .flat_map(|part| &part.files)
            .map(|file| file.to.as_deref().unwrap_or(&file.path))
            .collect();
        for file in &expect.files {
            assert!(places.contains(&file.path.as_str()), "{}", file.path);
        }
    }
    let of = |name| sources(name).unwrap().expect;
    assert_eq!(
        (of("ccfqa").rows, of("ccfqa").languages.len(), of("ccfqa").counts["label"].len()),
        (Some(1000), 8, 20)
    );
    assert_eq!(of("2m-belebele").languages.len(), 73);
    assert_eq!(of("cfever").counts["domain"].len(), 12);
    assert_eq!(of("simplevqa").rows, Some(2025));
    assert_eq!(of("cp-bench"), Expect::default());
}

#[test]
fn prompts_are_a_part_with_places_of_their_own() {
    let ccfqa = sources("ccfqa").unwrap();
    let prompts: Vec<_> = ccfqa.parts.iter().filter(|part| part.name == PROMPTS_PART).collect();
    assert_eq!(prompts.len(), 2, "two commits");
    for part in prompts {
        let Origin::GitHub { commit, .. } = &part.origin else { panic!("{:?}", part.origin) };
        let place = format!("official/yxduir+ccfqa/{commit}/{}", part.files[0].path);
        assert_eq!(part.files[0].to.as_deref(), Some(place.as_str()));
    }
    let optional = |benchmark: &str| {
        let parts = sources(benchmark).unwrap().parts;
        parts.iter().filter(|part| part.name == PROMPTS_PART).map(|part| part.optional).collect::<Vec<_>>()
    };
    assert_eq!(optional("ccfqa"), [false, false]);
    assert_eq!(optional("simplevqa"), [false, true], "the prompts of an ancestor are for those who ask");
    assert_eq!(optional("cp-bench"), [true]);
    assert_eq!(optional("2m-belebele"), [false]);
    assert!(sources("cfever").unwrap().parts.iter().all(|part| part.name != PROMPTS_PART));
}

#[test]
fn splits_and_files_to_ignore_are_told_to_whoever_reads_the_data() {
    let of = |name: &str| sources(name).unwrap();
    assert_eq!(split(&of("cfever")), Some("dev"), "its test split has no labels");
    for name in ["ccfqa", "cp-bench", "2m-belebele", "simplevqa"] {
        assert_eq!(split(&of(name)), None, "{name}");
    }
    assert!(of("simplevqa").ignore.iter().any(|pattern| pattern == "view_*"));
    // Gold is of columns that the descriptions of rows know.
    for name in ["ccfqa", "cfever", "2m-belebele", "simplevqa"] {
        assert!(!of(name).expect.gold.is_empty(), "{name}");
    }
}
