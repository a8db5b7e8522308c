//! The acceptance cases of the protocol that concern more than the scorer: published cells, prompts, parsing.

use std::path::{Path, PathBuf};

use super::tests::{OK, Windows, built, first, near, scored, setup, value};
use super::*;
use crate::prompt::sha256_hex;
use crate::types::testing::response;

/// A file beside the package that not every checkout has.
fn shared(name: &str) -> Option<toml::Table> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols/cp-bench").join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("skipped: {} is not there", path.display());
    }
    Some(toml::from_str(&text?).unwrap())
}

/// Point 1: the cells that are known stand beside ours, each with its status; others stay empty.
#[test]
fn published_cells_are_shown_with_their_status_and_others_are_empty() {
    let benchmark = built(WindowRule::Model, |_| {});
    let published = crate::benchmark::published(NAME).unwrap();
    let windows: Windows<'_> = &[(OK, &["Rating: 4"])];
    let items = ["C", "CP", "DP"].map(|category| (category, windows));
    let scores = scored(&benchmark, &setup(1), &items);
    let main = &benchmark.tables(&scores, &published, Some("GPT-4o (audio)"))[0];
    let column = |name: &str| main.columns.iter().position(|column| column == name).unwrap();
    let shown: Vec<(String, String, String)> = main
        .markdown()
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("published"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].to_owned(), cells[column("published")].to_owned(), cells[column("status")].to_owned())
        })
        .collect();
    let cell =
        |items: &str, value: &str, status: &str| (items.to_owned(), value.to_owned(), status.to_owned());
    for expect in [
        cell("C", "69.7", "unverified"),
        cell("CP", "67.5", "unverified"),
        cell("DP", "30.3", "unverified"),
        cell("all", "", ""),
        cell("long", "", ""),
        cell("long, C", "", ""),
    ] {
        assert!(shown.contains(&expect), "{expect:?}: {shown:#?}");
    }
    assert!(main.notes.iter().any(|note| note.contains("not compared with the paper")), "{:#?}", main.notes);
    let Some(tables) = shared("tables.toml") else { return };
    let cells = tables["paper_cell"].as_array().unwrap();
    for theirs in cells {
        let of = |key: &str| theirs[key].as_str().unwrap();
        assert_eq!(of("status"), "third_party_unverified");
        let group = [("category", of("question_type"))];
        let ours = published.find(of("model"), CONDITION, score::SCORE, &group).unwrap();
        assert_eq!(Some(ours.value), theirs["score"].as_float());
        assert_eq!(ours.status.as_str(), "unverified");
    }
    assert_eq!(cells.len(), 3);
}

/// Point 2: prompt strings and their renderings, byte for byte; what is not ours to give stands nowhere here.
#[test]
fn prompts_have_their_hashes_and_renderings_and_none_is_the_ancestor_s() {
    fn search(path: &Path, phrase: &str) {
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap().flatten() {
                search(&entry.path(), phrase);
            }
        } else if let Ok(text) = std::fs::read_to_string(path) {
            assert!(!text.contains(phrase), "{}", path.display());
        }
    }
    // Not in one piece here either.
    let phrase = ["Please be critical", "on the details"].join(" ");
    for part in ["src", "prompts", "configs", "docs", "scripts", "examples", "results/published", "tests"] {
        search(&Path::new(env!("CARGO_MANIFEST_DIR")).join(part), &phrase);
    }
    let Some(file) = shared("prompts.toml") else { return };
    let ours = crate::benchmark::harness_wording(NAME).unwrap();
    let mut checked = 0;
    for (name, block) in &file {
        let (Some(text), Some(hash)) = (block.get("text"), block.get("sha256")) else { continue };
        let text = text.as_str().unwrap();
        assert_eq!(sha256_hex(text), hash.as_str().unwrap(), "{name}");
        if TEXTS.iter().any(|known| known.name == name) {
            assert_eq!(ours.get(name), Some(text), "{name}");
        }
        checked += 1;
    }
    assert!(checked >= 5, "{checked}");
    let examples = file["example"].as_array().unwrap();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let inputs = example["inputs"].as_table().unwrap();
        let inputs: Vec<(&str, &str)> =
            inputs.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap())).collect();
        let template = file[example["prompt"].as_str().unwrap()]["text"].as_str().unwrap();
        let filled = fill(template, &inputs);
        assert_eq!(filled, example["expected"].as_str().unwrap());
        assert_eq!(sha256_hex(&filled), example["sha256"].as_str().unwrap());
    }
}

/// Point 3: ratings as they are journaled and as they are scored.
#[test]
fn replies_are_rated_by_the_rule_that_is_asked_for() {
    let benchmark = built(WindowRule::Model, |_| {});
    for (reply, lenient, strict) in [
        ("Explanation: fine\nRating: 4", Some(4.0), Some(4.0)),
        ("Explanation: ok\nRating: (3)", Some(3.0), None),
        ("Rating: 3\n\nThe answer names the wrong city.", Some(3.0), None),
        ("Rating: 2.5", Some(2.5), Some(2.5)),
        ("4", None, Some(4.0)),
        ("Rating: 10", None, None),
        ("Rating: nan", None, None),
        ("", None, None),
    ] {
        for (rating, expect) in [(RatingRead::Lenient, lenient), (RatingRead::StrictAudiobench, strict)] {
            let setup = JudgeSetup { rating, ..setup(1) };
            let judge = benchmark.judging(&setup).unwrap().unwrap();
            assert_eq!(judge.finding(reply).value, expect, "{reply:?} {rating:?}");
            let scores = scored(&benchmark, &setup, &[("C", &[(OK, &[reply])])]);
            near(value(&scores, score::SCORE, &[]), expect.unwrap_or(0.0) * 20.0);
            near(value(&scores, score::SUCCESS, &[]), if expect.is_some() { 1.0 } else { 0.0 });
            assert_eq!(scores.judge.unwrap().unparsed, u64::from(expect.is_none()));
        }
    }
}

/// Point 9: the answer is shortened to the budget of 3,584 tokens, from its end; the reference never is.
#[test]
fn an_answer_is_shortened_from_its_end_and_the_reference_is_not() {
    let benchmark = built(WindowRule::Model, |_| {});
    let narrow = JudgeSetup { context: Some(4096), ..setup(5) };
    let judge = benchmark.judging(&narrow).unwrap().unwrap();
    let mut planned = first(&benchmark, "C");
    planned.gold = vec!["reference ".repeat(300)];
    let words: Vec<String> = (0..4000).map(|n| format!("w{n}")).collect();
    let question = judge.question(&planned, &response(OK, &words.join(" "))).unwrap();
    let Prompt::Chat(messages) = question.prompt else { panic!("a chat") };
    let Some(Part::Text(asked)) = messages.last().unwrap().parts.first() else { panic!("a text") };
    assert!(question.shortened && asked.contains(&planned.gold[0]));
    assert!(asked.contains("w0 w1 w2") && !asked.contains("w3999"));
    assert!(crate::benchmark::judging::estimated_tokens(asked) <= 3584 + 1, "{}", asked.len());
}
