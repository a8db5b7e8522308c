//! The acceptance cases of the protocol through the scorer: published figures out of answers and verdicts that must
//! give them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::score::*;
use super::tests::{CODES, built, jsonl, row, shared, value};
use super::*;
use crate::benchmark::judging::{JudgeCall, JudgeMode};
use crate::metric::text::py_round;
use crate::prompt::sha256_hex;
use crate::types::testing::response;
use crate::types::{Digest, Outcome, Planned, Response};

fn setup() -> JudgeSetup {
    JudgeSetup { name: "j".into(), runs: 1, ..JudgeSetup::default() }
}

fn says(reply: &str) -> [JudgeCall; 1] {
    [JudgeCall { run: 0, outcome: Outcome::Ok, reply: reply.to_owned(), shortened: false }]
}

fn planned(conditions: &[&str], src: &str, tgt: &str, gold: &str) -> Planned {
    let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Planned {
        request: Digest::of(format!("{src}-{tgt}").as_bytes()),
        benchmark: NAME.into(),
        conditions: conditions.iter().map(|name| (*name).to_owned()).collect(),
        sample: "1".into(),
        tags: Tags::from([tag("src", src), tag("tgt", tgt)]),
        gold: vec![gold.into()],
        judging: Tags::new(),
    }
}

/// The conditions that a pair of languages serves.
fn serves<'a>(one: &'a str, crossed: &'a str, same: bool) -> Vec<&'a str> {
    if same { vec![one, crossed] } else { vec![crossed] }
}

/// A thousand answers to a pair of languages: so many tenths of a percent of them are the gold, and so many are
/// called right.
fn thousand(scorer: &mut dyn Scorer, planned: &Planned, gold: u64, yes: u64) {
    let [right, wrong] = ["g", "x"].map(|text| response(Outcome::Ok, text));
    let [called, not] = [says(" Yes."), says("no")];
    for n in 0..1000 {
        let answer = if n < gold { &right } else { &wrong };
        scorer.add(planned, Some(answer), if n < yes { &called } else { &not });
    }
}

fn tenths(percent: f64) -> u64 {
    (percent * 10.0).round() as u64
}

/// Point 1.
#[test]
fn golden_vectors_score_as_the_official_function_says() {
    let golden: Vec<Value> =
        serde_json::from_str(include_str!("../../../tests/fixtures/ccfqa/golden.json")).unwrap();
    let half = 400.0 / 7.0;
    let recipe = [100.0, 0.0, 0.0, 100.0, 100.0, 50.0, half, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 50.0, 50.0, 0.0];
    assert_eq!(golden.len(), recipe.len());
    let of = |vector: &Value, key: &str| vector[key].as_str().unwrap().to_owned();
    let mut all = built(&["sqa", "xsqa"], &["eng"], |_| {}).scorer(None);
    for (vector, recipe) in golden.iter().zip(recipe) {
        let planned = planned(&["sqa", "xsqa"], "eng", "eng", &of(vector, "gold"));
        let answer = response(Outcome::Ok, &of(vector, "pred"));
        for strip in [true, false] {
            let mut scorer =
                built(&["sqa", "xsqa"], &["eng"], |config| config.strip_output = strip).scorer(None);
            scorer.add(&planned, Some(&answer), &[]);
            let scores = scorer.finish();
            for condition in ["sqa", "xsqa"] {
                assert_eq!(value(&scores, F1_CHAR_SET, condition, &[]), vector["f1"].as_f64(), "{vector}");
                let found = value(&scores, F1_TOKEN_SET, condition, &[]).unwrap();
                assert!((found - recipe).abs() < 1e-9, "{vector}: {found} {recipe}");
            }
        }
        all.add(&planned, Some(&answer), &[]);
    }
    let scores = all.finish();
    let f1: f64 = golden.iter().filter_map(|vector| vector["f1"].as_f64()).sum();
    assert_eq!(value(&scores, F1_CHAR_SET, "sqa", &[]), Some(py_round(f1 / 16.0, 1)));
    let mean = recipe.iter().sum::<f64>() / 16.0;
    assert!((value(&scores, F1_TOKEN_SET, "sqa", &[]).unwrap() - mean).abs() < 1e-9);
}

/// Point 2: 64,000 answers and verdicts that have the published figure in each pair.
#[test]
fn the_published_pairs_give_the_published_averages() {
    let published = crate::benchmark::published(NAME).unwrap();
    let benchmark = built(&["sqa", "xsqa"], &[], |_| {});
    let setup = setup();
    let mut scorer = benchmark.scorer(Some(&setup));
    let pairs = CODES.iter().flat_map(|&src| CODES.iter().map(move |&tgt| (src, tgt)));
    for (src, tgt) in pairs {
        let figure = |metric: &str| {
            let group = [("src", src), ("tgt", tgt)];
            tenths(published.find("Qwen2.5-Omni-7B", "xsqa", metric, &group).unwrap().value)
        };
        let planned = planned(&serves("sqa", "xsqa", src == tgt), src, tgt, "g");
        thousand(&mut *scorer, &planned, figure(F1_CHAR_SET), figure(LLM_ACCURACY));
    }
    let scores = scorer.finish();
    let of = |metric: &str, condition: &str, group: &[_]| value(&scores, metric, condition, group).unwrap();
    for (metric, diagonal, all, cross, row_mean) in
        [(F1_CHAR_SET, 44.0, 38.5, 37.7, 38.5), (LLM_ACCURACY, 33.2, 29.6, 29.0, 29.5)]
    {
        assert_eq!(of(metric, "sqa", &[]), diagonal, "{metric}");
        assert_eq!(of(metric, "xsqa", &[]), all, "{metric}");
        assert_eq!(of(&format!("{metric}_off_diagonal"), "xsqa", &[]), cross, "{metric}");
        assert_eq!(of(&format!("{metric}_row_mean"), "xsqa", &[]), row_mean, "{metric}");
        for code in CODES {
            let theirs = published.find("Qwen2.5-Omni-7B", "xsqa", metric, &[("src", code)]).unwrap();
            assert_eq!(of(metric, "xsqa", &[("src", code)]), theirs.value, "{metric} {code}");
        }
    }
    let overall = scores.find(LLM_ACCURACY, "xsqa", &[]).unwrap();
    assert_eq!((overall.n, scores.judge.as_ref().unwrap().calls), (64_000, 64_000));
    let tables = benchmark.tables(&scores, &published, Some("Qwen2.5-Omni-7B"));
    let differences = tables
        .iter()
        .filter(|table| table.name.ends_with("differences") || table.name.contains("differences-"));
    let differences: Vec<_> = differences.collect();
    assert_eq!(differences.len(), 2, "of F1 and of accuracy");
    for table in differences {
        let shown = table.markdown();
        assert!(!shown.contains("+0.1") && !shown.contains("-0.1"), "{shown}");
    }
}

/// Point 3: every answer is the gold of the source language, and the judge compares strings.
#[test]
fn echo_of_the_source_gold_is_judged_as_the_official_script_does() {
    let Some(text) = shared("sample.jsonl") else { return };
    let benchmark = built(&["sqa", "xsqa"], &[], |config| config.strip_output = false);
    let setup = setup();
    let mut scorer = benchmark.scorer(Some(&setup));
    for (line, row) in (1..).zip(jsonl(&text)) {
        let sample = benchmark.sample(line, row).unwrap();
        for draft in benchmark.requests(&sample) {
            let answer = sample.row[&draft.tags["src"]]["answer"].as_str().unwrap().to_owned();
            let reply = if draft.gold == [answer.as_str()] { "Yes" } else { "no." };
            let (planned, _) = draft.planned(Digest::of(sample.id.as_bytes()), NAME, &sample.id);
            scorer.add(&planned, Some(&response(Outcome::Ok, &answer)), &says(reply));
        }
    }
    let scores = scorer.finish();
    let of = |metric: &str, condition: &str, group: &[_]| value(&scores, metric, condition, group).unwrap();
    assert_eq!((of(F1_CHAR_SET, "xsqa", &[]), of(LLM_ACCURACY, "xsqa", &[])), (35.0, 26.8));
    assert_eq!((of(F1_CHAR_SET, "sqa", &[]), of(LLM_ACCURACY, "sqa", &[])), (100.0, 100.0));
    assert!((of("llm_accuracy_micro", "xsqa", &[]) - 26.796_875).abs() < 1e-12);
    assert!((of(F1_TOKEN_SET, "xsqa", &[]) - 28.466_703_869).abs() < 1e-9);
    let rows = CODES.map(|code| {
        let group = [("src", code)];
        (of(F1_CHAR_SET, "xsqa", &group), of(LLM_ACCURACY, "xsqa", &group))
    });
    assert_eq!(
        rows,
        [
            (33.4, 26.9),
            (42.9, 30.0),
            (43.0, 29.4),
            (29.2, 24.7),
            (26.9, 23.4),
            (26.6, 23.4),
            (43.2, 29.7),
            (34.5, 26.9)
        ]
    );
    for (src, tgt, f1, accuracy) in
        [("cmn", "yue", 66.4, 35.0), ("eng", "fra", 81.1, 37.5), ("eng", "spa", 82.5, 40.0)]
    {
        let group = [("src", src), ("tgt", tgt)];
        assert_eq!((of(F1_CHAR_SET, "xsqa", &group), of(LLM_ACCURACY, "xsqa", &group)), (f1, accuracy));
    }
}

/// Point 5: consistency out of verdicts that give the published averages.
#[test]
fn published_averages_give_the_derived_consistencies() {
    // QA, XQA, SQA, XSQA; then QA/XQA, SQA/XSQA, QA/SQA, XQA/XSQA.
    for (averages, expect) in [
        ([64.4, 62.2, 40.4, 38.6], [96.6, 95.5, 62.7, 62.1]),
        ([13.8, 15.3, 22.0, 5.7], [90.2, 25.9, 62.7, 37.3]),
        ([30.6, 19.2, 17.0, 10.7], [62.7, 62.9, 55.6, 55.7]),
        ([38.2, 34.5, 33.2, 29.5], [90.3, 88.9, 86.9, 85.5]),
    ] {
        let languages = ["cmn", "eng", "fra", "jpn", "kor"];
        let benchmark = built(&["qa", "xqa", "sqa", "xsqa"], &languages, |_| {});
        let setup = setup();
        let mut scorer = benchmark.scorer(Some(&setup));
        let [qa, xqa, sqa, xsqa] = averages;
        for (one, crossed, same, all) in [("qa", "xqa", qa, xqa), ("sqa", "xsqa", sqa, xsqa)] {
            // What the pairs of two languages share, so that all pairs have their average.
            let mut left = 25 * tenths(all) - 5 * tenths(same);
            let mut cells = 20;
            for src in languages {
                for tgt in languages {
                    let yes = if src == tgt { tenths(same) } else { left / cells };
                    if src != tgt {
                        left -= yes;
                        cells -= 1;
                    }
                    let planned = planned(&serves(one, crossed, src == tgt), src, tgt, "g");
                    thousand(&mut *scorer, &planned, 500, yes);
                }
            }
            assert_eq!((left, cells), (0, 0));
        }
        let scores = scorer.finish();
        for (condition, average) in ["qa", "xqa", "sqa", "xsqa"].into_iter().zip(averages) {
            assert_eq!(value(&scores, LLM_ACCURACY, condition, &[]), Some(average), "{condition}");
        }
        let found = ["qa/xqa", "sqa/xsqa", "qa/sqa", "xqa/xsqa"]
            .map(|conditions| py_round(value(&scores, CONSISTENCY, conditions, &[]).unwrap(), 1));
        assert_eq!(found, expect);
    }
}

/// Points 6 and 7: what is scored and what the judge sees is what the post-processing leaves; what the judge says.
#[test]
fn post_processing_and_verdicts_are_those_of_the_official_scripts() {
    let benchmark = built(&["sqa"], &["eng"], |_| {});
    let setup = setup();
    let judge = benchmark.judging(&setup).unwrap().unwrap();
    for (text, left) in [
        ("Star Wars: A New Hope", "A New Hope"),
        ("Paris\nFrance", "ParisFrance"),
        ("<think>x: y</think> Rome", " Rome"),
        ("12:30", "12:30"),
    ] {
        let planned = planned(&["sqa"], "eng", "eng", left);
        let answer = response(Outcome::Ok, text);
        let mut scorer = benchmark.scorer(Some(&setup));
        scorer.add(&planned, Some(&answer), &says("yes"));
        assert_eq!(value(&scorer.finish(), EXACT, "sqa", &[]), Some(100.0), "{text:?}");
        let Prompt::Chat(messages) = judge.question(&planned, &answer).unwrap().prompt else {
            panic!("a chat")
        };
        let Some(Part::Text(asked)) = messages.last().unwrap().parts.first() else { panic!("a text") };
        assert!(
            asked.matches(left).count() == 2 && !asked.contains("Star Wars") && !asked.contains("x: y"),
            "{asked}"
        );
    }
    for (reply, accuracy, parsed) in [
        (" Yes.", 100.0, Some(1.0)),
        ("No", 0.0, Some(0.0)),
        ("unknown", 0.0, Some(0.0)),
        ("yes and no", 100.0, Some(1.0)),
        ("", 0.0, None),
        ("<think>no</think>\nyes", 100.0, Some(1.0)),
    ] {
        let mut scorer = benchmark.scorer(Some(&setup));
        scorer.add(&planned(&["sqa"], "eng", "eng", "g"), Some(&response(Outcome::Ok, "g")), &says(reply));
        let scores = scorer.finish();
        assert_eq!(value(&scores, LLM_ACCURACY, "sqa", &[]), Some(accuracy), "{reply:?}");
        assert_eq!(scores.judge.unwrap().unparsed, u64::from(parsed.is_none()), "{reply:?}");
        assert_eq!(judge.finding(reply).value, parsed, "{reply:?}");
    }
}

/// Point 8: what the judge is asked is the official rendering, byte for byte.
#[test]
fn the_judge_is_asked_in_the_official_rendering() {
    let Some(text) = shared("prompts.toml") else { return };
    let file: toml::Table = toml::from_str(&text).unwrap();
    let texts = ["judge_raw", "judge_chat"].map(|name| {
        let ours = if name == "judge_raw" { "judge_raw" } else { "judge" };
        (ours.to_owned(), file[name]["text"].as_str().unwrap().to_owned())
    });
    let wording = crate::benchmark::harness_wording(NAME).unwrap();
    let prompts = wording.with(&PromptSet::new("official", BTreeMap::from(texts)));
    let benchmark =
        Ccfqa::new(&crate::benchmark::section_with_defaults(NAME), prompts, Window::Whole).unwrap();
    let code_of = |name: &str| match name {
        "Yue Chinese" => "yue",
        name => LANGUAGES.iter().find(|language| language.name == name).unwrap().code,
    };
    let mut checked = 0;
    for example in file["example"].as_array().unwrap() {
        let name = example["prompt"].as_str().unwrap();
        let mode = match name {
            "judge_raw" => JudgeMode::Raw,
            "judge_chat" => JudgeMode::Chat,
            _ => continue,
        };
        let input = |key: &str| example["inputs"][key].as_str().unwrap();
        let setup = JudgeSetup { mode, ..setup() };
        let judge = benchmark.judging(&setup).unwrap().unwrap();
        let mut asked = planned(&["xsqa"], code_of(input("src")), code_of(input("tgt")), input("tgt_a"));
        asked.judging.insert(QUESTION.into(), input("src_q").into());
        let answer: Response = response(Outcome::Ok, input("lang_a"));
        let found = match judge.question(&asked, &answer).unwrap().prompt {
            Prompt::Raw { text, .. } => text,
            Prompt::Chat(messages) => match messages.as_slice() {
                [Message { parts, .. }] => match parts.as_slice() {
                    [Part::Text(text)] => text.clone(),
                    _ => panic!("one text"),
                },
                _ => panic!("one message"),
            },
        };
        assert_eq!(found, example["expected"].as_str().unwrap(), "{name}");
        assert_eq!(sha256_hex(&found), example["sha256"].as_str().unwrap(), "{name}");
        checked += 1;
    }
    assert!(checked > 0, "the specification has examples of the judge's prompts");
}

/// Point 9: what the tables of a run of two items say.
#[test]
fn tables_say_n_profiles_mode_prompt_status_and_unread_replies() {
    let benchmark = built(&["sqa", "xsqa"], &["eng", "fra"], |_| {});
    let setup = setup();
    let mut scorer = benchmark.scorer(Some(&setup));
    for index in 0..2 {
        let mut row = row();
        row["index"] = index.into();
        let sample = benchmark.sample(index, row).unwrap();
        for (at, draft) in benchmark.requests(&sample).into_iter().enumerate() {
            let (planned, _) = draft.planned(Digest::of(&[at as u8]), NAME, &sample.id);
            let reply = ["yes", "no", "maybe", "yes"][at % 4];
            scorer.add(&planned, Some(&response(Outcome::Ok, "x")), &says(reply));
        }
    }
    let mut scores = scorer.finish();
    scores.prompts = benchmark.prompts();
    let judged = scores.judge.as_mut().unwrap();
    (judged.judge, judged.mode) = ("ann".into(), JudgeMode::Chat);
    judged.prompts = benchmark.judging(&setup).unwrap().unwrap().prompts();
    let tables = benchmark.tables(&scores, &Published::default(), None);
    let text: String = tables.iter().map(Table::markdown).collect();
    for part in [
        "answers a pair: 2",
        "official",
        "recipe",
        "asked in mode chat",
        "judge (harness wording, sha256 ",
        "speech_user (harness wording, sha256 ",
        "ccfqa:neither 2",
        "unparsed 2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let main = tables[0].markdown();
    assert!(main.contains("llm_accuracy ") && main.contains("llm_accuracy_micro"), "{main}");
}
