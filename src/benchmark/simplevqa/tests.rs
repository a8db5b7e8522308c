//! The acceptance points of the protocol, and what a run makes of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::score::*;
use super::*;
use crate::benchmark::build::tests::section;
use crate::benchmark::judging::{JudgeCall, OnJudgeError};
use crate::metric::attempts::{Attempts, Grades};
use crate::metric::text::py_round;
use crate::metric::verdict::{Grade, grade};
use crate::prompt::sha256_hex;
use crate::types::{Digest, Outcome, Planned, testing};

fn fixture(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/simplevqa").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn figures_of_the_paper() -> toml::Table {
    toml::from_str(&fixture("tables.toml")).unwrap()
}

fn with_prompts(prompts: PromptSet, change: impl Fn(&mut BenchmarkConfig)) -> SimpleVqa {
    let mut config = section(NAME);
    change(&mut config);
    SimpleVqa::new(&config, prompts).unwrap()
}

fn built(change: impl Fn(&mut BenchmarkConfig)) -> SimpleVqa {
    with_prompts(crate::benchmark::harness_wording(NAME).unwrap(), change)
}

fn names(conditions: &[&str]) -> Vec<String> {
    conditions.iter().map(|&name| name.to_owned()).collect()
}

fn row(id: i64) -> Value {
    json!({
        "data_id": id, "image": format!("{id}.png"), "language": Language::of_id(id).code(), "question": format!("q{id}?"),
        "answer": format!("a{id}"), "atomic_question": format!("what {id}?"), "atomic_fact": format!("f{id}"),
        "vqa_category": {"task_category": "t", "subject_category": "d"},
    })
}

fn setup(on_error: OnJudgeError) -> JudgeSetup {
    JudgeSetup { name: "j".into(), runs: 1, on_error, ..JudgeSetup::default() }
}

fn reply(word: &str) -> String {
    format!("```json\n{{\"预测答案0\": \"{word}\"}}\n```")
}

const RIGHT: &str = "正确";
const WRONG: &str = "错误";
const NOT: &str = "未尝试";

/// Scores of items. `answer` gives outcome, text and the judge's reply for each request.
fn scored(
    benchmark: &SimpleVqa,
    judge: &JudgeSetup,
    ids: impl IntoIterator<Item = i64>,
    answer: impl Fn(i64, &str) -> (Outcome, String, String),
) -> BenchmarkScores {
    let mut scorer = benchmark.scorer(Some(judge));
    for id in ids {
        let sample = benchmark.sample(1, row(id)).unwrap();
        for draft in benchmark.requests(&sample) {
            let (planned, _) = draft.planned(Digest::of(sample.id.as_bytes()), NAME, &sample.id);
            let (outcome, text, reply) = answer(id, &planned.conditions[0]);
            let call = JudgeCall { run: 0, outcome: Outcome::Ok, reply, shortened: false };
            scorer.add(&planned, Some(&testing::response(outcome, &text)), &[call]);
        }
    }
    scorer.finish()
}

fn value(scores: &BenchmarkScores, metric: &str, condition: &str, group: &[(&str, &str)]) -> f64 {
    scores
        .find(metric, condition, group)
        .unwrap_or_else(|| panic!("{metric} {condition} {group:?}"))
        .value
        .unwrap()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
}

/// Point 1.
#[test]
fn golden_cases_of_the_official_scorer() {
    let golden: Value = serde_json::from_str(&fixture("golden.json")).unwrap();
    let cases = golden["metrics"].as_array().unwrap();
    assert_eq!(cases.len(), 20);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let mut grades = Grades::default();
        let mut add = |letter: char, n: u64| {
            let grade = match letter {
                'C' => Grade::Correct,
                'I' => Grade::Incorrect,
                _ => Grade::NotAttempted,
            };
            (0..n).for_each(|_| grades.add(Some(grade)));
        };
        let found: Option<Attempts> = match (&case["labels"], case.get("judge_value")) {
            (Value::String(letters), _) => {
                letters.chars().for_each(|letter| add(letter, 1));
                grades.official()
            }
            (Value::Object(counts), _) => {
                counts
                    .iter()
                    .for_each(|(letter, n)| add(letter.chars().next().unwrap(), n.as_u64().unwrap()));
                grades.official()
            }
            (_, Some(judged)) => {
                grade(&json!({"预测答案0": judged}).to_string()).ok().and_then(|(grade, _)| {
                    grades.add(Some(grade));
                    grades.official()
                })
            }
            // Two rows, the second without the model's key.
            _ if name == "missing_key_one_of_two" => {
                grades.add(grade(&reply(RIGHT)).ok().map(|(grade, _)| grade));
                grades.add(None);
                grades.official()
            }
            _ => grade("{}").ok().and_then(|_| grades.official()),
        };
        let result = &case["result"];
        let Some(found) = found else {
            assert!(result.get("raises").is_some(), "{name}");
            continue;
        };
        for (key, found) in [
            ("is_correct", found.correct),
            ("is_incorrect", found.incorrect),
            ("is_not_attempted", found.not_attempted),
            ("is_given_attempted", found.attempted),
            ("accuracy_given_attempted", found.correct_given_attempted),
            ("f1", found.f_score),
        ] {
            let expected = result[key].as_f64().unwrap_or_else(|| panic!("{name}: {result}"));
            assert!((found - expected).abs() < 1e-12, "{name} {key}: {found} instead of {expected}");
        }
    }
    let parses = golden["parse"].as_array().unwrap();
    assert_eq!(parses.len(), 5);
    for case in parses {
        let found = grade(case["raw"].as_str().unwrap());
        match &case["parsed"]["预测答案0"] {
            Value::String(word) => assert_eq!(found, grade(&reply(word))),
            _ => assert_eq!(found, Err("simplevqa:not_json"), "{case}"),
        }
    }
}

/// Point 3, where the protocols are at hand.
#[test]
fn official_prompts_are_filled_as_the_scripts_fill_them() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols/simplevqa/prompts.toml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let blocks: toml::Table = toml::from_str(&text).unwrap();
    let mut prompts = crate::benchmark::harness_wording(NAME).unwrap();
    let pins = Pins::embedded().unwrap();
    let mut checked = 0;
    for (name, block) in &blocks {
        let (Some(text), Some(sha256)) = (block.get("text"), block.get("sha256")) else { continue };
        let (text, sha256) = (text.as_str().unwrap(), sha256.as_str().unwrap());
        assert_eq!(sha256_hex(text), sha256, "{name}");
        assert_eq!(text.chars().count() as i64, block["chars"].as_integer().unwrap(), "{name}");
        assert!(pins.of(NAME).any(|pin| pin.name == *name && pin.sha256 == sha256), "{name}");
        checked += 1;
        let ours = match name.as_str() {
            "judge_simpleqa_ancestor" => continue,
            "judge_candidate_line" => text.replacen("{}", "{index}", 1).replacen("{}", "{response}", 1),
            _ if name.starts_with("vqa_") => text.replace("[<question>]", "{question}"),
            _ => text.replace("{{", "{").replace("}}", "}"),
        };
        prompts.put(name, ours, "official".to_owned(), sha256.to_owned());
    }
    assert_eq!(checked, 9);
    let check = |example: &str, text: &str| {
        let example = &blocks[example];
        assert_eq!(text.chars().count() as i64, example["chars"].as_integer().unwrap());
        assert_eq!(sha256_hex(text), example["sha256"].as_str().unwrap());
    };
    let asked = |variant: Variant, id: i64, question: &str| {
        let benchmark = with_prompts(prompts.clone(), |config| config.variant = Some(variant));
        assert!(!benchmark.prompt_departures().iter().any(|text| text.contains("other words")));
        let mut row = row(id);
        row["question"] = question.into();
        let drafts = benchmark.requests(&Sample { id: id.to_string(), row });
        let Prompt::Chat(messages) = &drafts[0].prompt else { panic!("a chat") };
        let Part::Text(text) = messages[0].parts[1].clone() else { panic!("a text") };
        text
    };
    check("example_question_cn", &asked(Variant::NamedEntity, 0, "图中是什么？"));
    check("example_confidence_en", &asked(Variant::WithConfidence, 1012, "What is shown?"));
    let benchmark = with_prompts(prompts.clone(), |_| {});
    let setup = setup(OnJudgeError::Fail);
    let judge = benchmark.judging(&setup).unwrap().unwrap();
    let planned = planned(&benchmark, 0, "Q", "A");
    let asked = judge.question(&planned, &testing::response(Outcome::Ok, "P")).unwrap();
    let Prompt::Chat(messages) = asked.prompt else { panic!("a chat") };
    assert_eq!(messages.len(), 1, "no system message");
    let Part::Text(text) = &messages[0].parts[0] else { panic!("a text") };
    check("example_judge", text);
}

fn planned(benchmark: &SimpleVqa, id: i64, question: &str, answer: &str) -> Planned {
    let mut row = row(id);
    (row["question"], row["answer"]) = (question.into(), answer.into());
    let sample = Sample { id: id.to_string(), row };
    let draft = benchmark.requests(&sample).remove(0);
    draft.planned(Digest::of(b"x"), NAME, &sample.id).0
}

/// Point 4.
#[test]
fn tasks_and_domains_are_those_of_table_2() {
    let tables = figures_of_the_paper();
    for (key, ours) in [("task", &TASKS), ("domain", &DOMAINS)] {
        let theirs = tables[key].as_array().unwrap();
        assert_eq!(ours.iter().map(|(.., count)| count).sum::<u64>(), ITEMS);
        assert_eq!(theirs.len(), ours.len());
        for ((code, name, count), theirs) in ours.iter().zip(theirs) {
            assert_eq!((*code, *name), (theirs["code"].as_str().unwrap(), theirs["name"].as_str().unwrap()));
            assert_eq!(*count as i64, theirs["count"].as_integer().unwrap());
            let percent = theirs["percent"].as_float().unwrap();
            assert_eq!(py_round(100.0 * *count as f64 / ITEMS as f64, 2), percent, "{code}");
        }
    }
}

/// Point 5: a table's overall figure is that of pooled answers, not the mean of the two languages.
#[test]
fn languages_are_pooled() {
    let tables = figures_of_the_paper();
    let results = tables["result"].as_array().unwrap();
    let doubao =
        results.iter().find(|result| result["model"].as_str() == Some("Doubao-vision-pro-128k")).unwrap();
    let share = |group: &str, key: &str| doubao[group][key].as_float().unwrap() / 100.0;
    let counts = |group: &str, n: f64| {
        let correct = (share(group, "co") * n).round();
        (correct as u64, (correct / share(group, "cga")).round() as u64, n as u64)
    };
    let (cn, en) = (counts("cn", 1012.0), counts("en", 1013.0));
    let pooled = Grades {
        correct: cn.0 + en.0,
        incorrect: cn.1 + en.1 - cn.0 - en.0,
        not_attempted: cn.2 + en.2 - cn.1 - en.1,
        n: cn.2 + en.2,
    };
    let f_score = pooled.official().unwrap().f_score * 100.0;
    assert_eq!(py_round(f_score, 1), 44.4);
    assert_eq!(doubao["overall"]["f"].as_float(), Some(44.3));
    assert_eq!(py_round((share("cn", "f") + share("en", "f")) * 50.0, 1), 43.8);
    // The same of a run: the whole is neither half nor their mean.
    let benchmark = built(|_| {});
    let ids = (0..3).chain(1012..1013);
    let scores = scored(&benchmark, &setup(OnJudgeError::Fail), ids, |id, _| {
        (Outcome::Ok, "x".into(), reply(if id < 2 { RIGHT } else { WRONG }))
    });
    near(value(&scores, CORRECT, "original", &[]), 50.0);
    near(value(&scores, "correct_exact", "original", &[("language", "CN")]), 200.0 / 3.0);
    near(value(&scores, CORRECT, "original", &[("language", "CN")]), 66.67);
    near(value(&scores, CORRECT, "original", &[("language", "EN")]), 0.0);
}

/// Point 6.
#[test]
fn table_5_is_of_569_items() {
    let tables = figures_of_the_paper();
    let mut checked = 0;
    for result in tables["cfq"]["result"].as_array().unwrap() {
        let counts = result["implied_correct_of_569"].as_array().unwrap();
        for (key, count) in ["co_origin", "co_atomic", "co_atomic_given"].iter().zip(counts) {
            let percent = py_round(100.0 * count.as_integer().unwrap() as f64 / 569.0, 2);
            assert_eq!(result[*key].as_float(), Some(percent));
            checked += 1;
        }
    }
    assert_eq!(checked, 9);
}

/// All figures of the page are in the file that tables compare with.
#[test]
fn published_figures_are_those_of_the_page() {
    let (tables, published) = (figures_of_the_paper(), crate::benchmark::published(NAME).unwrap());
    let metrics =
        [("co", CORRECT), ("na", NOT_ATTEMPTED), ("in", INCORRECT), ("cga", GIVEN_ATTEMPTED), ("f", F_SCORE)];
    let mut checked = 0;
    let mut check = |model: &str, metric: &str, group: &[(&str, &str)], expected: &toml::Value| {
        let found = published.find(model, "original", metric, group);
        let found = found.unwrap_or_else(|| panic!("{model} {metric} {group:?}")).value;
        assert_eq!(Some(found), expected.as_float().or(expected.as_integer().map(|n| n as f64)));
        checked += 1;
    };
    for result in tables["result"].as_array().unwrap() {
        let model = result["model"].as_str().unwrap();
        for (section, group) in
            [("overall", &[][..]), ("cn", &[("language", "CN")][..]), ("en", &[("language", "EN")][..])]
        {
            for (key, expected) in result[section].as_table().unwrap() {
                let metric = metrics.iter().find(|(short, _)| short == key).unwrap().1;
                check(model, metric, group, expected);
            }
        }
        for (section, key) in [("task_f", "task"), ("domain_f", "domain")] {
            for (code, expected) in result[section].as_table().unwrap() {
                check(model, F_SCORE, &[(key, code)], expected);
            }
        }
    }
    assert_eq!(checked, 18 * (5 + 3 + 3 + 9 + 9));
    let of = |metric: &str| published.figures().iter().filter(|figure| figure.metric == metric).count();
    assert_eq!((of(CFQ_CORRECT), of(ACCURACY)), (9, 59));
    assert_eq!(published.figures().len(), checked + 9 + 59);
}

/// Point 7.
#[test]
fn a_reply_that_cannot_be_read_is_a_class_of_its_own() {
    let benchmark = built(|_| {});
    let run = |on_error| {
        scored(&benchmark, &setup(on_error), 5..8, |id, _| {
            let reply = match id {
                5 => reply(RIGHT),
                6 => reply(WRONG),
                _ => "我认为正确".to_owned(),
            };
            (Outcome::Ok, "x".into(), reply)
        })
    };
    let n = |scores: &BenchmarkScores| scores.find(F_SCORE, "original", &[]).unwrap().n;
    let failed = run(OnJudgeError::Fail);
    assert!(
        failed.warnings[0]
            .starts_with("judge_error = 1 (data_id 7): they are in no score, and the run is incomplete")
    );
    let judged = failed.judge.as_ref().unwrap();
    assert_eq!((judged.unparsed, judged.unusable, judged.unheard(), n(&failed)), (1, 1, 0, 2));
    let not_attempted = run(OnJudgeError::Na);
    assert_eq!(n(&not_attempted), 3);
    near(value(&not_attempted, NOT_ATTEMPTED, "original", &[]), 33.33);
    let excluded = run(OnJudgeError::Exclude);
    assert_eq!(n(&excluded), 2);
    near(value(&excluded, NOT_ATTEMPTED, "original", &[]), 0.0);
    for scores in [failed, not_attempted, excluded] {
        let tables = benchmark.tables(&scores, &Published::default(), None);
        assert!(tables[0].notes.contains(&"judge_error = 1".to_owned()), "{:?}", tables[0].notes);
    }
    let call = JudgeCall { run: 0, outcome: Outcome::RequestError, reply: String::new(), shortened: false };
    let mut scorer = benchmark.scorer(Some(&setup(OnJudgeError::Wrong)));
    scorer.add(&planned(&benchmark, 1, "Q", "A"), Some(&testing::response(Outcome::Ok, "P")), &[call]);
    let scores = scorer.finish();
    near(value(&scores, INCORRECT, "original", &[]), 100.0);
    assert_eq!(scores.judge.unwrap().unheard(), 1);
}

/// Point 8, as far as it is this room's: rows, halves, the order of parts.
#[test]
fn other_data_are_found_out_and_the_image_comes_first() {
    let benchmark = built(|_| {});
    let differs = |ids: &[i64]| {
        let mut check = benchmark.data_check().unwrap();
        for id in ids {
            check.add(&row(*id), &crate::benchmark::data_check::NoMedia);
        }
        check.finish().join("; ")
    };
    let all: Vec<i64> = (0..2025).collect();
    assert_eq!(differs(&all), "");
    assert!(differs(&all[..2024]).contains("2,024 rows instead of 2,025"));
    let mut check = benchmark.data_check().unwrap();
    for id in 0..2025 {
        let mut row = row(id);
        row["language"] = if id < 1000 { "CN" } else { "EN" }.into();
        check.add(&row, &crate::benchmark::data_check::NoMedia);
    }
    assert!(check.finish().join("; ").contains("rows by language: CN 1000 instead of 1012"));
    let mut wrong = row(0);
    wrong["language"] = "EN".into();
    assert!(benchmark.sample(1, wrong.clone()).unwrap_err().contains("of the other half"));
    assert!(built(|config| config.allow_other_data = true).sample(1, wrong).is_ok());
    let mut blind = row(0);
    blind.as_object_mut().unwrap().remove("image");
    assert!(benchmark.sample(1, blind.clone()).unwrap_err().contains("no `image`"));
    assert!(built(|config| config.conditions = names(&["text_only"])).sample(1, blind).is_ok());

    assert!(!benchmark.has_clips(), "tables of images say nothing of clips");
    let drafts = benchmark.requests(&Sample { id: "0".into(), row: row(0) });
    let Prompt::Chat(messages) = &drafts[0].prompt else { panic!("a chat") };
    assert_eq!((drafts.len(), messages.len(), messages[0].role), (1, 1, Role::User));
    assert!(
        matches!(messages[0].parts.as_slice(), [Part::Image(image), Part::Text(_)] if image.name == "0.png")
    );
}

#[test]
fn conditions_ask_what_they_say() {
    let all = names(&["original", "atomic", "hinted", "text_only"]);
    let texts = |variant, id: i64, change: &dyn Fn(&mut Value)| -> Vec<(String, String, String, bool)> {
        let benchmark = built(|config| (config.conditions, config.variant) = (all.clone(), Some(variant)));
        let mut row = row(id);
        change(&mut row);
        let drafts = benchmark.requests(&Sample { id: id.to_string(), row });
        let of = |draft: &Draft| {
            let Prompt::Chat(messages) = &draft.prompt else { panic!("a chat") };
            let Some(Part::Text(text)) = messages[0].parts.last() else { panic!("a text") };
            let asked = draft.judging["question"].clone();
            (text.clone(), asked, draft.gold[0].clone(), draft.prompt.has_image())
        };
        drafts.iter().map(of).collect()
    };
    let bare = texts(Variant::Bare, 1012, &|_| {});
    let hinted = "Known: the answer to the question \"what 1012?\" is \"f1012\".\nq1012?";
    let row = |text: &str, asked: &str, gold: &str, image| {
        (text.to_owned(), asked.to_owned(), gold.to_owned(), image)
    };
    assert_eq!(
        bare,
        [
            row("q1012?", "q1012?", "a1012", true),
            row("what 1012?", "what 1012?", "f1012", true),
            row(hinted, "q1012?", "a1012", true),
            row("q1012?", "q1012?", "a1012", false),
        ]
    );
    // Items whose atomic question is the question itself have no more to ask.
    assert_eq!(texts(Variant::Bare, 0, &|row| row["atomic_question"] = "q0?".into()).len(), 2);
    let entity = texts(Variant::NamedEntity, 0, &|_| {});
    assert!(
        entity[0].0.starts_with("请看图回答问题")
            && entity[0].0.ends_with("q0?")
            && !entity[0].0.contains("JSON")
    );
    assert!(entity[2].0.contains("已知：对于“what 0?”这个问题，答案是“f0”。\nq0?"));
    assert!(entity[3].0.contains("confidence_score"), "the scripts ask text models for their confidence");
    // Braces of questions are no places.
    let braces = texts(Variant::NamedEntity, 0, &|row| row["question"] = "{question} {answer}?".into());
    assert!(braces[0].0.ends_with("{question} {answer}?"));
}

#[test]
fn composite_questions_tell_looking_from_knowing() {
    let benchmark = built(|config| config.conditions = names(&["original", "atomic", "hinted"]));
    // Right answers by item: original, atomic, hinted.
    let right = [
        (true, true, true),
        (false, false, true),
        (false, true, false),
        (false, false, false),
        (false, true, true),
    ];
    let scores = scored(&benchmark, &setup(OnJudgeError::Fail), 0..5, |id, condition| {
        let (original, atomic, hinted) = right[id as usize];
        let right = match condition {
            "original" => original,
            "atomic" => atomic,
            _ => hinted,
        };
        (
            Outcome::Ok,
            format!("{id} {condition}"),
            reply(if right {
                RIGHT
            } else if id == 3 {
                NOT
            } else {
                WRONG
            }),
        )
    });
    for (condition, expected) in [("original", 20.0), ("atomic", 60.0), ("hinted", 60.0)] {
        near(value(&scores, CFQ_CORRECT, condition, &[]), expected);
    }
    for cause in ["image", "knowledge", "both", "unnamed"] {
        near(value(&scores, ATTRIBUTION, "cfq", &[("cause", cause)]), 25.0);
    }
    let tables = benchmark.tables(&scores, &crate::benchmark::published(NAME).unwrap(), Some("GPT-4o"));
    let table = |name: &str| tables.iter().find(|table| table.name == name).unwrap().markdown();
    assert!(table("simplevqa-cfq").contains("| CO, original "), "{}", table("simplevqa-cfq"));
    assert!(table("simplevqa-cfq").contains("56.24"));
    assert!(table("simplevqa-cfq-items").contains("| 2       | wrong    | right  | wrong  | knowledge |"));
    // With the paper's ids only these are asked.
    let few = built(|config| {
        config.conditions = names(&["atomic"]);
        config.categories = Some(Categories { cfq: names(&["3"]), ..Categories::default() });
    });
    assert_eq!(few.requests(&Sample { id: "2".into(), row: row(2) }).len(), 0);
    assert_eq!(few.requests(&Sample { id: "3".into(), row: row(3) }).len(), 1);
}

#[test]
fn one_question_beside_the_original_tells_one_cause() {
    // Right answers by item: original, and the other question.
    let right = [(true, true), (false, false), (false, true), (false, false)];
    let of = |other: &str| {
        let benchmark = built(|config| config.conditions = names(&["original", other]));
        let scores = scored(&benchmark, &setup(OnJudgeError::Fail), 0..4, |id, condition| {
            let right = right[id as usize];
            let right = if condition == "original" { right.0 } else { right.1 };
            (Outcome::Ok, format!("{id} {condition}"), reply(if right { RIGHT } else { WRONG }))
        });
        let tables = benchmark.tables(&scores, &Published::default(), None);
        let table = tables.iter().find(|table| table.name == "simplevqa-cfq").unwrap().markdown();
        (scores, table)
    };
    let (image, knowledge) =
        ("| wrong for want of understanding the image", "| wrong for want of background knowledge");
    let (scores, table) = of("atomic");
    near(value(&scores, ATTRIBUTION, "cfq", &[("cause", "image")]), 200.0 / 3.0);
    near(value(&scores, ATTRIBUTION, "cfq", &[("cause", "unnamed")]), 100.0 / 3.0);
    assert!(scores.find(ATTRIBUTION, "cfq", &[("cause", "knowledge")]).is_none());
    assert!(
        table.contains(image) && !table.contains(knowledge) && !table.contains("| CO, hinted"),
        "{table}"
    );
    assert!(table.contains("`hinted` was not asked"), "{table}");
    let (scores, table) = of("hinted");
    near(value(&scores, ATTRIBUTION, "cfq", &[("cause", "knowledge")]), 200.0 / 3.0);
    assert!(scores.find(ATTRIBUTION, "cfq", &[("cause", "image")]).is_none());
    assert!(
        !table.contains(image) && table.contains(knowledge) && !table.contains("| CO, atomic"),
        "{table}"
    );
}

#[test]
fn items_and_confidences_go_by_the_first_run_with_a_verdict() {
    let benchmark = built(|config| {
        config.conditions = names(&["original", "atomic"]);
        config.variant = Some(Variant::WithConfidence);
    });
    let judge = JudgeSetup { runs: 3, ..setup(OnJudgeError::Exclude) };
    let mut scorer = benchmark.scorer(Some(&judge));
    for id in 0..7 {
        let sample = benchmark.sample(1, row(id)).unwrap();
        let text = format!("{{\"answer\": \"x{id}\", \"confidence_score\": 90}}");
        for draft in benchmark.requests(&sample) {
            let (planned, _) = draft.planned(Digest::of(sample.id.as_bytes()), NAME, &sample.id);
            let calls = [0, 1, 2].map(|run| JudgeCall {
                run,
                outcome: Outcome::Ok,
                reply: if run == 0 { "?".to_owned() } else { reply(RIGHT) },
                shortened: false,
            });
            scorer.add(&planned, Some(&testing::response(Outcome::Ok, &text)), &calls);
        }
    }
    let mut scores = scorer.finish();
    for (metric, group) in [(CFQ_CORRECT, &[][..]), (ACCURACY, &[("confidence", "90")][..])] {
        let found = scores.find(metric, "original", group).unwrap();
        assert_eq!((found.value, found.n), (Some(100.0), 7), "{metric}");
    }
    // Calls and items are counted apart: one call in each of two conditions.
    let told = "judge_error = 14 (7 items: data_id 0, 1, 2, 3, 4 and 2 more): they are in no score";
    assert!(scores.warnings.iter().any(|warning| warning == told), "{:?}", scores.warnings);
    scores.judge.as_mut().unwrap().runs = 3;
    let tables = benchmark.tables(&scores, &Published::default(), None);
    let says = |name: &str| {
        let table = tables.iter().find(|table| table.name == format!("simplevqa-{name}")).unwrap();
        table.notes.iter().any(|note| note.starts_with("of 3 judging runs the first with a verdict"))
    };
    assert!(says("cfq") && says("cfq-items") && says("calibration-original") && !says("main"));
}

/// What counts in place of a verdict does so only where no judging gave one.
#[test]
fn a_verdict_goes_before_what_counts_in_place_of_one() {
    let benchmark = built(|config| {
        config.conditions = names(&["original", "atomic"]);
        config.variant = Some(Variant::WithConfidence);
    });
    for on_error in [OnJudgeError::Na, OnJudgeError::Wrong] {
        let judge = JudgeSetup { runs: 2, ..setup(on_error) };
        let mut scorer = benchmark.scorer(Some(&judge));
        for id in 0..4 {
            let sample = benchmark.sample(1, row(id)).unwrap();
            let text = format!("{{\"answer\": \"x{id}\", \"confidence_score\": 90}}");
            for draft in benchmark.requests(&sample) {
                let (planned, _) = draft.planned(Digest::of(sample.id.as_bytes()), NAME, &sample.id);
                // The first judging can never be read, the second not for the last item.
                let calls = [0, 1].map(|run| JudgeCall {
                    run,
                    outcome: Outcome::Ok,
                    reply: if run == 0 || id == 3 { "?".to_owned() } else { reply(RIGHT) },
                    shortened: false,
                });
                scorer.add(&planned, Some(&testing::response(Outcome::Ok, &text)), &calls);
            }
        }
        let scores = scorer.finish();
        for (metric, group) in [(CFQ_CORRECT, &[][..]), (ACCURACY, &[("confidence", "90")][..])] {
            let found = scores.find(metric, "original", group).unwrap();
            assert_eq!((found.value, found.n), (Some(75.0), 4), "{metric} {on_error:?}");
        }
        // The figures by judging run have both: none of four right, and three.
        near(value(&scores, CORRECT, "original", &[]), 37.5);
    }
}

#[test]
fn stated_confidence_is_compared_with_being_right() {
    let benchmark = built(|config| config.variant = Some(Variant::WithConfidence));
    let scores = scored(&benchmark, &setup(OnJudgeError::Fail), 0..4, |id, _| {
        let text = match id {
            3 => "no JSON".to_owned(),
            id => format!("{{\"answer\": \"x{id}\", \"confidence_score\": {}}}", [90, 91, 20][id as usize]),
        };
        (Outcome::Ok, text, reply(if id == 0 { RIGHT } else { WRONG }))
    });
    near(value(&scores, ACCURACY, "original", &[("confidence", "90")]), 50.0);
    near(value(&scores, ACCURACY, "original", &[("confidence", "20")]), 0.0);
    assert_eq!(scores.find(ACCURACY, "original", &[("confidence", "50")]).unwrap().value, None);
    let error = scores.find(CALIBRATION_ERROR, "original", &[]).unwrap();
    assert_eq!((error.n, error.counts["unreadable"]), (3, 1));
    near(error.value.unwrap(), (2.0 * 40.5 + 20.0) / 3.0);
    let tables = benchmark.tables(&scores, &Published::default(), None);
    assert!(
        tables.iter().any(|table| table.name == "simplevqa-calibration-original" && table.rows.len() == 21)
    );
    let figures = benchmark.figures(&scores);
    assert_eq!((figures.len(), figures[0].svg.matches("<circle").count()), (1, 2));
    // The judge sees the answer alone, and what the scripts put in place of one that cannot be read.
    let setup = setup(OnJudgeError::Fail);
    let judge = benchmark.judging(&setup).unwrap().unwrap();
    let planned = planned(&benchmark, 0, "Q", "A");
    let asked = |text: &str| {
        let question = judge.question(&planned, &testing::response(Outcome::Ok, text)).unwrap();
        let Prompt::Chat(messages) = question.prompt else { panic!("a chat") };
        let Part::Text(text) = messages[0].parts[0].clone() else { panic!("a text") };
        text
    };
    assert!(asked("{\"answer\": \"Rome\", \"confidence_score\": 5}").contains("[预测答案0]：Rome\n"));
    assert!(asked("Rome").contains("[预测答案0]：答案解析失败"));
    assert_eq!(judge.question(&planned, &testing::response(Outcome::ContentFilter, "")), None);
    assert_eq!(judge.question(&planned, &testing::response(Outcome::RequestError, "")), None);
}

#[test]
fn answers_withheld_are_not_attempted_and_categories_must_fit_the_paper() {
    let map = |name: &str, code: &str| BTreeMap::from([(name.to_owned(), code.to_owned())]);
    let categories = Categories { task: map("t", "LS"), domain: map("d", "AR"), cfq: Vec::new() };
    let benchmark = built(|config| config.categories = Some(categories.clone()));
    let run = |ids: std::ops::Range<i64>| {
        scored(&benchmark, &setup(OnJudgeError::Fail), ids, |id, _| {
            let outcome = match id {
                0 => Outcome::ContentFilter,
                1 => Outcome::Empty,
                _ => Outcome::Ok,
            };
            (outcome, "x".into(), reply(RIGHT))
        })
    };
    let few = run(0..4);
    near(value(&few, NOT_ATTEMPTED, "original", &[]), 50.0);
    near(value(&few, CORRECT, "original", &[("task", "LS")]), 50.0);
    assert_eq!(few.find(F_SCORE, "original", &[]).unwrap().counts["blocked"], 2);
    assert_eq!(few.judge.as_ref().unwrap().calls, 2);
    assert!(
        few.warnings.iter().any(|text| text.contains("these are 4 of its 2025 items")),
        "{:?}",
        few.warnings
    );
    let notes = crate::benchmark::notes::common(&few).join("\n");
    assert!(!notes.contains("is scored as the text that came with it"), "{notes}");
    // A map that names nothing in the rows, and ids of nothing, are told.
    let none = Categories { task: map("other", "LS"), domain: BTreeMap::new(), cfq: vec!["99999".into()] };
    let benchmark_of_none = built(|config| config.categories = Some(none.clone()));
    let told = scored(&benchmark_of_none, &setup(OnJudgeError::Fail), 0..4, |_, _| {
        (Outcome::Ok, "x".into(), reply(RIGHT))
    });
    for text in ["names no task of these rows", "ids under cfq of no item of this run"] {
        assert!(told.warnings.iter().any(|warning| warning.contains(text)), "{text}: {:?}", told.warnings);
    }
    // Only the whole set tells that ids count in other numbers: a part may have left theirs out.
    let other =
        |told: &BenchmarkScores| told.warnings.iter().any(|text| text.contains("counts in other numbers"));
    assert!(!other(&told), "{:?}", told.warnings);
    let told = scored(&benchmark_of_none, &setup(OnJudgeError::Fail), 0..2025, |_, _| {
        (Outcome::Ok, "x".into(), reply(RIGHT))
    });
    assert!(other(&told), "{:?}", told.warnings);
    let some = Categories { cfq: names(&["1", "99999", "1"]), ..Categories::default() };
    let benchmark_of_some = built(|config| config.categories = Some(some.clone()));
    let told = scored(&benchmark_of_some, &setup(OnJudgeError::Fail), 0..4, |_, _| {
        (Outcome::Ok, "x".into(), reply(RIGHT))
    });
    let expected = "ids under cfq of no item of this run with another atomic question: 1 of 2";
    assert!(told.warnings.iter().any(|warning| warning == expected), "{:?}", told.warnings);
    let tables = benchmark.tables(&few, &crate::benchmark::published(NAME).unwrap(), Some("GPT-4o"));
    let tasks = tables.iter().find(|table| table.name == "simplevqa-task").unwrap().markdown();
    assert!(tasks.contains("LS: Logic & Science") && tasks.contains("58.7"), "{tasks}");
    // All 2,025 rows in one task are not the paper's.
    let all = run(0..2025);
    assert!(all.find(F_SCORE, "original", &[("task", "LS")]).is_none());
    let warned = |key: &str| {
        all.warnings
            .iter()
            .any(|text| text.contains(&format!("other counts by {key} than the paper's Table 2")))
    };
    assert!(warned("task") && warned("domain"), "{:?}", all.warnings);
    let wrong = Categories { task: map("t", "XX"), ..Categories::default() };
    let mut config = section(NAME);
    config.categories = Some(wrong);
    let error = SimpleVqa::new(&config, crate::benchmark::harness_wording(NAME).unwrap()).unwrap_err();
    assert_eq!((error.to_string().starts_with("unknown task `XX`"), error.key()), (true, "categories"));
}

#[test]
fn both_roundings_are_given_and_the_profile_chooses_the_headline() {
    let recipe = built(|config| config.profile = Profile::Recipe);
    let judge = JudgeSetup { kind: JudgeKind::Match, ..setup(OnJudgeError::Fail) };
    let scores = scored(&recipe, &judge, 0..3, |id, _| (Outcome::Ok, format!("a{}", id % 2), String::new()));
    // a0, a1, a0: the third answer does not hold its gold.
    near(value(&scores, "f_score_exact", "original", &[]), 200.0 / 3.0);
    near(value(&scores, F_SCORE, "original", &[]), 66.67);
    let mut table = BenchmarkScores { profile: Profile::Recipe, ..scores };
    let shown =
        |scores: &BenchmarkScores| recipe.tables(scores, &Published::default(), None)[0].rows[0][3].clone();
    assert_eq!(shown(&table), crate::report::table::Cell::Number(2.0 / 3.0 * 100.0, 1));
    table.profile = Profile::Official;
    assert_eq!(shown(&table), crate::report::table::Cell::Number(66.67, 1));
}

#[test]
fn only_what_the_benchmark_knows_is_taken() {
    let error = |change: fn(&mut BenchmarkConfig)| {
        let mut config = section(NAME);
        change(&mut config);
        SimpleVqa::new(&config, crate::benchmark::harness_wording(NAME).unwrap()).unwrap_err().to_string()
    };
    assert!(error(|c| c.conditions = vec!["atomc".into()]).contains("did you mean `atomic`?"));
    assert!(error(|c| c.languages = vec!["FR".into()]).contains("there are CN, EN"));
    assert!(error(|c| c.system = Some("x".into())).contains("`system` means nothing"));
    let mut other = section("ccfqa");
    other.variant = Some(Variant::Bare);
    let prompts = crate::benchmark::harness_wording("ccfqa").unwrap();
    let built = crate::benchmark::build(&other, prompts, crate::types::Window::Whole);
    assert!(built.err().unwrap().to_string().contains("`variant` means nothing to the benchmark `ccfqa`"));
    let raw = JudgeSetup { mode: JudgeMode::Raw, ..setup(OnJudgeError::Fail) };
    assert!(super::tests::built(|_| {}).judging(&raw).err().unwrap().to_string().contains("asked in chats"));
}
