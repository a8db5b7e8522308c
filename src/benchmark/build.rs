//! From a `[[benchmark]]` section to a benchmark, and the catalogue of all that there are.

use std::path::Path;

use thiserror::Error;

use super::belebele::{self, Belebele};
use super::ccfqa::{self, Ccfqa};
use super::cfever::{self, Cfever};
use super::cp_bench::{self, CpBench};
use super::manifest::{self, Manifest};
use super::simplevqa::{self, SimpleVqa};
use super::sources::{self, Expect};
use super::{Benchmark, SubmissionScorer};
use crate::config::{BenchmarkConfig, WindowRule};
use crate::prompt::{PromptError, PromptSet, places};
use crate::report::published::{Published, PublishedError};
use crate::types::{Window, shown};

/// What `harness list` says of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name that configs use.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// The paper that it follows; empty where there is none.
    pub paper: &'static str,
    /// Conditions, each with what it asks.
    pub conditions: Vec<(&'static str, &'static str)>,
    /// The conditions that run when none are named.
    pub default_conditions: Vec<&'static str>,
    /// The names of its metrics.
    pub metrics: Vec<&'static str>,
    /// Our own wording of its prompts, as a prompt file; empty where it needs none.
    pub wording: &'static str,
    /// The paper's figures, as a file of published figures; empty where there are none.
    pub published: &'static str,
    /// What data it needs and where they are published; empty where they are the user's own.
    pub data: &'static str,
}

/// A prompt text that a benchmark knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptText {
    /// Its name in prompt files.
    pub name: &'static str,
    /// The places that it may hold.
    pub places: &'static [&'static str],
    /// The places that it must hold.
    pub must: &'static [&'static str],
    /// Whether it is a finished prompt string with control tokens, for models that take such.
    pub finished: bool,
}

impl PromptText {
    /// The text of a message.
    pub(super) const fn message(
        name: &'static str,
        places: &'static [&'static str],
        must: &'static [&'static str],
    ) -> Self {
        Self { name, places, must, finished: false }
    }

    /// Whether it is for a judge.
    pub fn for_judge(&self) -> bool {
        self.name.starts_with("judge")
    }

    /// A finished prompt string.
    pub(super) const fn finished(
        name: &'static str,
        places: &'static [&'static str],
        must: &'static [&'static str],
    ) -> Self {
        Self { name, places, must, finished: true }
    }
}

/// Why a section gives no benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// A name that is not known: of a benchmark, condition, language, metric or field.
    #[error("unknown {what} `{}`: {}there are {}", shown(.found), hint(.found, .known), .known.join(", "))]
    Unknown {
        /// What kind of name it is.
        what: &'static str,
        /// The name.
        found: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// A key that the benchmark has no use for.
    #[error("`{key}` means nothing to the benchmark `{benchmark}`: remove it")]
    Useless {
        /// The benchmark.
        benchmark: &'static str,
        /// The key.
        key: &'static str,
    },
    /// A judge that the benchmark cannot be judged by.
    #[error("{0}")]
    Judge(String),
    /// A benchmark whose authors score no files of predictions.
    #[error("`{0}` has no form of files of predictions: those of `cfever` can be scored")]
    NoSubmissions(String),
    /// A prompt text that is needed and not there.
    #[error("the prompt texts hold no `{0}`, which the conditions asked for need: add it to the prompt file")]
    MissingText(&'static str),
    /// A place that nothing fills.
    #[error("the prompt text `{text}` has a place `{{{}}}` that nothing fills: it may hold {}", shown(.place), braced(.known))]
    UnknownPlace {
        /// The text.
        text: &'static str,
        /// The place.
        place: String,
        /// The places that it may hold.
        known: Vec<&'static str>,
    },
    /// A place without which the question would not be asked.
    #[error("the prompt text `{text}` has no place `{{{place}}}`: without it nothing would be asked")]
    MissingPlace {
        /// The text.
        text: &'static str,
        /// The place.
        place: &'static str,
    },
}

impl BuildError {
    /// The key of `[[benchmark]]` in a config that the error is about.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Unknown { what: "condition", .. } => "conditions",
            Self::Unknown { what: "language", .. } => "languages",
            Self::Unknown { what: "task" | "domain", .. } => "categories",
            Self::Unknown { what: "metric", .. } => "metrics",
            Self::Unknown { what: "field", .. } => "fields",
            Self::Unknown { what: "prompt text", .. }
            | Self::MissingText(_)
            | Self::UnknownPlace { .. }
            | Self::MissingPlace { .. } => "prompt",
            Self::Unknown { .. } | Self::Judge(_) | Self::NoSubmissions(_) => "name",
            Self::Useless { key, .. } => key,
        }
    }

    /// An unknown name.
    pub(super) fn unknown(what: &'static str, found: &str, known: Vec<&'static str>) -> Self {
        Self::Unknown { what, found: found.to_owned(), known }
    }
}

/// "did you mean `x`? " where a known name is near.
fn hint(found: &str, known: &[&'static str]) -> String {
    let found = found.to_lowercase();
    // Short names need the count of slips, long ones the likeness: `wre` is as far from `wer` as any by likeness.
    let nearness = |name: &str| match strsim::damerau_levenshtein(&found, name) {
        0 | 1 if name.len() > 2 => 1.0,
        _ => strsim::jaro_winkler(&found, name),
    };
    let near = known
        .iter()
        .map(|name| (nearness(name), name))
        .filter(|(nearness, _)| *nearness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    near.map(|(_, name)| format!("did you mean `{name}`? ")).unwrap_or_default()
}

fn braced(names: &[&'static str]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ")
}

/// All benchmarks.
pub fn catalogue() -> Vec<Entry> {
    vec![
        ccfqa::entry(),
        cp_bench::entry(),
        cfever::entry(),
        belebele::entry(),
        simplevqa::entry(),
        manifest::entry(),
    ]
}

/// Our own wording of a benchmark's prompts; an empty set for one that needs none.
pub fn harness_wording(name: &str) -> Result<PromptSet, PromptError> {
    match entry(name).map(|entry| entry.wording) {
        None | Some("") => Ok(PromptSet::default()),
        Some(wording) => PromptSet::parse_own(wording),
    }
}

/// All benchmarks with prompts of their own.
pub fn with_prompts() -> Vec<&'static str> {
    catalogue().into_iter().filter(|entry| !entry.wording.is_empty()).map(|entry| entry.name).collect()
}

/// All prompt texts that a benchmark knows, those for judging included.
pub fn known_texts(benchmark: &str) -> &'static [PromptText] {
    match benchmark {
        ccfqa::NAME => &ccfqa::TEXTS,
        cp_bench::NAME => &cp_bench::TEXTS,
        belebele::NAME => &belebele::TEXTS,
        cfever::NAME => &cfever::TEXTS,
        simplevqa::NAME => &simplevqa::TEXTS,
        _ => &[],
    }
}

/// The published figures of a benchmark; none for one without a paper.
pub fn published(name: &str) -> Result<Published, PublishedError> {
    match entry(name).map(|entry| entry.published) {
        None | Some("") => Ok(Published::default()),
        Some(figures) => Published::parse(name, figures),
    }
}

/// The entry of a benchmark.
pub fn entry(name: &str) -> Option<Entry> {
    catalogue().into_iter().find(|entry| entry.name == name)
}

/// The benchmark of a section. `prompts` are the texts in use, `window` which part of long clips models get.
pub fn build(
    config: &BenchmarkConfig,
    prompts: PromptSet,
    window: Window,
) -> Result<Box<dyn Benchmark>, BuildError> {
    match config.name.as_str() {
        ccfqa::NAME => Ok(Box::new(Ccfqa::new(config, prompts, window)?)),
        cp_bench::NAME => Ok(Box::new(CpBench::new(config, prompts, window)?)),
        belebele::NAME => Ok(Box::new(Belebele::new(config, prompts, window)?)),
        cfever::NAME => Ok(Box::new(Cfever::new(config, prompts)?)),
        simplevqa::NAME => Ok(Box::new(SimpleVqa::new(config, prompts)?)),
        manifest::NAME => Ok(Box::new(Manifest::new(config, &prompts, window)?)),
        other => Err(unknown_benchmark(other)),
    }
}

/// The prompt texts that a benchmark needs for these conditions; those of its default conditions when there are
/// none. [`build`] checks a set against them.
pub fn prompt_texts(benchmark: &str, conditions: &[String]) -> Result<Vec<PromptText>, BuildError> {
    match benchmark {
        ccfqa::NAME => ccfqa::prompt_texts(conditions),
        cp_bench::NAME => Ok(cp_bench::prompt_texts()),
        belebele::NAME => Ok(belebele::prompt_texts()),
        cfever::NAME => cfever::prompt_texts(conditions),
        simplevqa::NAME => simplevqa::prompt_texts(conditions),
        manifest::NAME => Ok(Vec::new()),
        other => Err(unknown_benchmark(other)),
    }
}

/// What must be found in the rows of a file, for a benchmark's figures: where splits differ, what is published of its own.
pub fn expected(benchmark: &str, file: &Path) -> Option<Expect> {
    match benchmark {
        cfever::NAME => cfever::expected(file),
        other => sources::sources(other).ok().map(|sources| sources.expect),
    }
}

/// A scorer of files of predictions in the form of a benchmark's authors.
pub fn submission_scorer(benchmark: &str) -> Result<Box<dyn SubmissionScorer>, BuildError> {
    match benchmark {
        cfever::NAME => Ok(cfever::submission_scorer()),
        known if entry(known).is_some() => Err(BuildError::NoSubmissions(known.to_owned())),
        other => Err(unknown_benchmark(other)),
    }
}

fn unknown_benchmark(name: &str) -> BuildError {
    BuildError::unknown("benchmark", name, catalogue().into_iter().map(|entry| entry.name).collect())
}

/// Refuses keys that are given and that a benchmark has no use for: of those that not every benchmark reads, all but the
/// ones that it does `read`. So a key that is new is refused wherever nobody thought of it, not passed over.
pub(super) fn check_keys(
    benchmark: &'static str,
    config: &BenchmarkConfig,
    read: &[&str],
) -> Result<(), BuildError> {
    let given = [
        ("metrics", !config.metrics.is_empty()),
        ("languages", !config.languages.is_empty()),
        ("fields", !config.fields.is_empty()),
        ("system", config.system.is_some()),
        ("windows", config.windows != WindowRule::Model),
        ("max_candidates", config.max_candidates.is_some()),
        ("shots", config.shots > 0),
        ("variant", config.variant.is_some()),
        ("categories", config.categories_file.is_some()),
        ("belebele", config.belebele.is_some()),
    ];
    match given.into_iter().find(|(key, given)| *given && !read.contains(key)) {
        Some((key, _)) => Err(BuildError::Useless { benchmark, key }),
        None => Ok(()),
    }
}

/// Checks names of a kind against those that there are.
pub(super) fn check_names<'a>(
    what: &'static str,
    names: impl IntoIterator<Item = &'a String>,
    known: &[&'static str],
) -> Result<(), BuildError> {
    match names.into_iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(BuildError::unknown(what, name, known.to_vec())),
        None => Ok(()),
    }
}

/// Checks a set of texts: no names that are not `known`, all that are `needed`, and in each its places.
pub(super) fn check_prompts(
    prompts: &PromptSet,
    known: &[PromptText],
    needed: &[PromptText],
) -> Result<(), BuildError> {
    for name in prompts.names() {
        let Some(text) = known.iter().find(|text| text.name == name) else {
            let known = known.iter().map(|text| text.name).collect();
            return Err(BuildError::unknown("prompt text", name, known));
        };
        let found = places(prompts.get(name).unwrap_or_default());
        if let Some(place) = found.iter().find(|place| !text.places.contains(place)) {
            let (place, known) = ((*place).to_owned(), text.places.to_vec());
            return Err(BuildError::UnknownPlace { text: text.name, place, known });
        }
        if let Some(place) = text.must.iter().find(|place| !found.contains(place)) {
            return Err(BuildError::MissingPlace { text: text.name, place });
        }
    }
    match needed.iter().find(|text| prompts.get(text.name).is_none()) {
        Some(text) => Err(BuildError::MissingText(text.name)),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{LimitBy, WindowRule, Wording};
    use crate::types::Profile;

    /// A section with defaults.
    pub(crate) fn section(name: &str) -> BenchmarkConfig {
        BenchmarkConfig {
            label: name.to_owned(),
            name: name.to_owned(),
            data: "data".into(),
            media: None,
            conditions: Vec::new(),
            languages: Vec::new(),
            profile: Profile::Official,
            limit: None,
            limit_by: LimitBy::First,
            prompt: Wording::Found,
            strip_output: true,
            allow_other_data: false,
            metrics: Vec::new(),
            windows: WindowRule::Model,
            max_candidates: None,
            shots: 0,
            fields: BTreeMap::new(),
            system: None,
            belebele: (name == belebele::NAME).then(belebele::defaults),
            variant: None,
            categories_file: None,
            categories: None,
        }
    }

    fn error(change: impl Fn(&mut BenchmarkConfig)) -> String {
        let mut config = section("ccfqa");
        change(&mut config);
        let prompts = harness_wording(&config.name).unwrap();
        build(&config, prompts, Window::Whole).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn unknown_names_get_the_nearest_known_one() {
        for (expect, change) in [
            ("", (|_| {}) as fn(&mut BenchmarkConfig)),
            (
                "unknown benchmark `ccqfa`: did you mean `ccfqa`? there are ccfqa, cp-bench, cfever, 2m-belebele, \
                 simplevqa, manifest",
                |c| {
                    c.name = "ccqfa".into();
                },
            ),
            ("unknown condition `xsqaa`: did you mean `xsqa`? there are qa, xqa, sqa, xsqa, asr", |c| {
                c.conditions = vec!["sqa".into(), "xsqaa".into()];
            }),
            ("unknown language `zzz`: there are cmn, eng, fra, jpn, kor, rus, spa, yue", |c| {
                c.languages = vec!["zzz".into()];
            }),
            ("`metrics` means nothing to the benchmark `ccfqa`: remove it", |c| {
                c.metrics = vec!["wer".into()];
            }),
            (
                "unknown metric `wre`: did you mean `wer`? there are exact_match, contains, f1_token_set, \
                 f1_char_set, wer, wer_raw, cer, cer_raw",
                |c| (c.name, c.metrics) = ("manifest".into(), vec!["wre".into()]),
            ),
            (
                "unknown field `questoin`: did you mean `question`? there are id, question, messages, audio, image, \
                 text, reference, category, set, language",
                |c| {
                    c.name = "manifest".into();
                    c.fields = [("questoin".into(), "prompt".into())].into();
                },
            ),
            ("`allow_other_data` means nothing to the benchmark `manifest`: remove it", |c| {
                (c.name, c.allow_other_data) = ("manifest".into(), true);
            }),
            ("`languages` means nothing to the benchmark `manifest`: remove it", |c| {
                (c.name, c.languages) = ("manifest".into(), vec!["eng".into()]);
            }),
        ] {
            assert_eq!(error(change), expect);
        }
    }

    #[test]
    fn prompt_texts_are_checked() {
        let full = [
            ("speech_system", "s"),
            ("speech_user", "{src} {tgt}"),
            ("text_system", "s"),
            ("text_user", "{question}"),
        ];
        let error = |conditions: &[&str], changes: &[(&str, Option<&str>)]| {
            let mut config = section("ccfqa");
            config.conditions = conditions.iter().map(|&c| c.to_owned()).collect();
            let mut texts: BTreeMap<String, String> =
                full.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
            for &(name, text) in changes {
                texts.remove(name);
                texts.extend(text.map(|text| (name.to_owned(), text.to_owned())));
            }
            let built = build(&config, PromptSet::new("mine", texts), Window::Whole);
            built.err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert_eq!(error(&[], &[]), "");
        assert_eq!(error(&[], &[("text_user", None), ("text_system", None)]), "");
        assert!(error(&["qa"], &[("text_user", None)]).starts_with("the prompt texts hold no `text_user`"));
        assert!(error(&[], &[("speech_user", None)]).starts_with("the prompt texts hold no `speech_user`"));
        let raw = ("speech_full", Some("<|AUDIO|>{src}{tgt}"));
        assert_eq!(error(&[], &[("speech_user", None), ("speech_system", None), raw]), "");
        assert_eq!(
            error(&[], &[("speech_usr", Some("x"))]),
            "unknown prompt text `speech_usr`: did you mean `speech_user`? there are speech_system, speech_user, \
             text_system, text_user, speech_full, asr, judge, judge_raw"
        );
        assert_eq!(
            error(&[], &[("speech_user", Some("{src} {target}"))]),
            "the prompt text `speech_user` has a place `{target}` that nothing fills: it may hold {src}, {tgt}"
        );
        assert_eq!(
            error(&[], &[("text_user", Some("in {tgt}"))]),
            "the prompt text `text_user` has no place `{question}`: without it nothing would be asked"
        );
    }

    #[test]
    fn official_prompts_are_among_the_texts_that_benchmarks_know() {
        let pins = crate::prompt::official::Pins::embedded().unwrap();
        for entry in catalogue() {
            for pin in pins.of(entry.name).filter(|pin| pin.status.replaces()) {
                let text = known_texts(entry.name).iter().find(|text| text.name == pin.name).unwrap();
                assert!(pin.places.iter().all(|place| text.places.contains(&place.as_str())), "{}", pin.name);
                assert!(text.must.iter().all(|place| pin.places.iter().any(|p| p == place)), "{}", pin.name);
            }
        }
    }

    #[test]
    fn prompts_of_all_benchmarks_can_be_read() {
        assert_eq!(with_prompts(), ["ccfqa", "cp-bench", "cfever", "2m-belebele", "simplevqa"]);
        for name in with_prompts() {
            assert!(harness_wording(name).unwrap().names().next().is_some(), "{name}");
        }
        let belebele = harness_wording("2m-belebele").unwrap();
        assert_eq!(
            belebele.info("instruction").unwrap().sha256,
            "1384fc5caf2218dd74f347bec054d63b4bdd2d5bdacbd40f02e32d4dd2c81015"
        );
        assert_eq!(belebele.status("block_hash"), crate::prompt::HARNESS_WORDING);
        assert!(belebele.status("instruction").starts_with("official"));
    }

    /// The texts are the agreed ones, where the protocols are at hand.
    #[test]
    fn prompts_of_unbuilt_benchmarks_are_the_agreed_ones() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols");
        if !folder.is_dir() {
            eprintln!("skipped: {} is not there", folder.display());
            return;
        }
        for name in ["cp-bench", "cfever", "2m-belebele"] {
            let text = std::fs::read_to_string(folder.join(name).join("prompts.toml")).unwrap();
            let agreed: toml::Table = toml::from_str(&text).unwrap();
            let ours = harness_wording(name).unwrap();
            // The system message of the recipe's judge has no model in the protocol.
            for text in ours.names().filter(|name| *name != "judge_recipe_system") {
                let block = &agreed[text];
                assert_eq!(block["product_repo"].as_bool(), Some(true), "{name}/{text}");
                // Our places are in lower case.
                let agreed = ["A", "B", "C", "D"].iter().fold(
                    block["text"].as_str().unwrap().to_owned(),
                    |text, place| {
                        text.replace(&format!("{{{place}}}"), &format!("{{{}}}", place.to_lowercase()))
                    },
                );
                assert_eq!(ours.get(text), Some(agreed.as_str()), "{name}/{text}");
            }
        }
    }

    #[test]
    fn catalogue_agrees_with_what_is_built() {
        for entry in catalogue() {
            let prompts = harness_wording(entry.name).unwrap();
            let benchmark = build(&section(entry.name), prompts.clone(), Window::Whole).unwrap();
            assert_eq!(benchmark.conditions(), entry.default_conditions);
            let mut all = section(entry.name);
            all.conditions = entry.conditions.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(build(&all, prompts.clone(), Window::Whole).unwrap().conditions(), all.conditions);
            let texts = prompt_texts(entry.name, &all.conditions).unwrap();
            assert!(texts.iter().all(|text| prompts.get(text.name).is_some()));
        }
        assert!(prompt_texts("x", &[]).is_err());
    }
}
