//! What is asked, and what a run makes of the answers.

use super::*;
use crate::benchmark::build::tests::section;
use crate::benchmark::{ConditionCounts, harness_wording};
use crate::prompt::sha256_hex;
use crate::types::{Digest, Outcome, Part, testing};

fn built(change: impl Fn(&mut BenchmarkConfig)) -> Cfever {
    let mut config = section(NAME);
    config.data = "data/cfever/evidence/dev.jsonl".into();
    config.conditions = ["claim_only", "bm25", "oracle"].map(str::to_owned).into();
    change(&mut config);
    Cfever::new(&config, harness_wording(NAME).unwrap()).unwrap()
}

fn candidate(page: &str, line: i64, text: &str) -> Value {
    json!({"page": page, "line": line, "text": text})
}

fn row() -> Value {
    json!({
        "id": 5, "claim": "甲湖比乙山大。", "label": "refutes", "domain": "世界地理",
        "evidence": [[[1, 2, "甲湖", 0], [1, 2, "乙山_(測試)", 0]], [[3, 4, "丙", 9]]],
        "found": {
            "retrieval": "own",
            "pages": ["甲湖", "丁", "乙山_(測試)"],
            "bm25": [
                candidate("甲湖", 0, "甲湖面積十平方公里。"),
                candidate("乙山_(測試)", 0, "乙山高三百公尺。"),
                candidate("丁", 1, "丁\n是 人。"),
            ],
            "oracle": [
                candidate("甲湖", 0, "甲湖面積十平方公里。"),
                candidate("乙山_(測試)", 0, "乙山高三百公尺。"),
                candidate("丙", 9, "丙。"),
                candidate("甲湖", 2, "湖水深。"),
            ],
            "shots": [
                {"id": 91, "claim": "一。", "label": "supports", "candidates": [candidate("壹", 0, "壹。")], "evidence": [1]},
                {"id": 92, "claim": "二。", "label": "NOT ENOUGH INFO"},
            ],
        },
    })
}

fn texts(prompt: &Prompt) -> Vec<(Role, String)> {
    let Prompt::Chat(messages) = prompt else { panic!("a chat") };
    let text = |message: &Message| match message.parts.as_slice() {
        [Part::Text(text)] => (message.role, text.clone()),
        parts => panic!("{parts:?}"),
    };
    messages.iter().map(text).collect()
}

fn drafts(benchmark: &Cfever, row: Value) -> Vec<Draft> {
    let sample = benchmark.sample(1, row).unwrap();
    benchmark.requests(&sample)
}

#[test]
fn questions_are_the_agreed_ones_to_the_byte() {
    let benchmark = built(|_| {});
    let row = Row::read(&row()).unwrap();
    let shown = [&row.found.as_ref().unwrap().bm25[0], &row.found.as_ref().unwrap().bm25[1]];
    let with = benchmark.question(Condition::Bm25, &row.claim, shown);
    assert_eq!(sha256_hex(&with), "10a7597e403d20e43320b8deaffab917b7a0f603b5bdff4cb3615a50fd945815");
    let bare = benchmark.question(Condition::ClaimOnly, &row.claim, []);
    assert_eq!(sha256_hex(&bare), "b8bd639adb1d8db0eca49f89497c8e810a6035f3d8685520d72567ee3ae511f2");
    for (name, sha256) in [
        ("claim_only", "8de49b5c3bd8a6ce11471d393c68d24aac112cb8e1d9be72c329fd3a6c85bad9"),
        ("with_evidence", "26723b4f53c7f6a77aa049f0fb20e09265a121fe91fde08b559ef8b8f28448ba"),
        ("candidate_line", "89b41f7d3bed692718444199db210a11c778368a88709c2818c8f815cdb246d7"),
    ] {
        assert_eq!(benchmark.prompts.info(name).unwrap().sha256, sha256, "{name}");
    }
}

#[test]
fn a_condition_is_a_request() {
    let benchmark = built(|config| (config.max_candidates, config.shots) = (Some(3), 2));
    let drafts = drafts(&benchmark, row());
    let conditions: Vec<&str> = drafts.iter().map(|draft| &*draft.conditions[0]).collect();
    assert_eq!(conditions, ["claim_only", "bm25", "oracle"]);
    let [claim_only, bm25, oracle] = drafts.as_slice() else { panic!("three") };
    assert_eq!(claim_only.tags["domain"], "世界地理");
    assert_eq!((&*bm25.tags["shots"], &*bm25.tags["retrieval"]), ("91,92", "own"));
    let turns = texts(&bm25.prompt);
    let roles: Vec<Role> = turns.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User, Role::Assistant, Role::User]);
    assert_eq!(turns[1].1, r#"{"label": "supports", "evidence": [1]}"#);
    assert_eq!(turns[3].1, r#"{"label": "NOT ENOUGH INFO", "evidence": []}"#);
    assert!(turns[4].1.contains("[3]《丁》丁 是 人。"), "a sentence is a line: {}", turns[4].1);
    assert_eq!(texts(&claim_only.prompt)[1].1, r#"{"label": "supports"}"#);
    // All gold is shown, in an order that does not tell it, and the cut takes others first.
    let shown: Value = serde_json::from_str(&oracle.judging[scorer::SHOWN]).unwrap();
    assert_eq!(shown, json!([["丙", 9], ["乙山_(測試)", 0], ["甲湖", 0]]));
    assert!(!claim_only.judging.contains_key(scorer::SHOWN));
    assert_eq!(bm25.gold, ["refutes"]);
}

#[test]
fn rows_without_what_a_condition_shows_are_refused() {
    let mut bare = row();
    bare.as_object_mut().unwrap().remove("found");
    let error = built(|_| {}).sample(1, bare.clone()).unwrap_err();
    assert!(error.contains("row 5 has no sentences for `bm25`: run `harness prepare cfever`"), "{error}");
    let claim_only = |config: &mut BenchmarkConfig| config.conditions.clear();
    assert_eq!(built(claim_only).sample(1, bare).unwrap().id, "5");
    let error = built(|config| config.shots = 3).sample(1, row()).unwrap_err();
    assert!(error.contains("holds 2 worked examples, and `shots` asks for 3"), "{error}");
    assert!(error.contains("`harness prepare cfever --shots 3` and name its evidence/dev.jsonl"), "{error}");
    // Examples without sentences will do where none are shown, and there alone.
    let mut examples = row();
    let shots = examples["found"]["shots"].take();
    examples["found"] = json!({"retrieval": "none", "pages": [], "bm25": [], "shots": shots});
    let error = built(|config| config.shots = 2).sample(1, examples.clone()).unwrap_err();
    assert!(error.contains("row 5 has no sentences for `bm25`"), "{error}");
    let with =
        |shots| move |config: &mut BenchmarkConfig| (config.conditions, config.shots) = (Vec::new(), shots);
    let drafts = drafts(&built(with(2)), examples.clone());
    assert_eq!((drafts.len(), &*drafts[0].tags["shots"]), (1, "91,92"));
    let error = built(with(3)).sample(1, examples).unwrap_err();
    assert!(error.contains("--shots 3 --no-evidence` and name its claims/dev.jsonl"), "{error}");
    let mut test = row();
    test.as_object_mut().unwrap().retain(|key, _| !["label", "evidence"].contains(&key.as_str()));
    let error = built(|_| {}).sample(1, test).unwrap_err();
    assert!(error.contains("no gold, which `oracle` shows"), "{error}");
}

fn answered(benchmark: &Cfever, row: Value, replies: &[(Outcome, &str)]) -> (BenchmarkScores, Vec<Value>) {
    let mut scorer = benchmark.scorer(None);
    let mut lines = Vec::new();
    for (draft, (outcome, text)) in drafts(benchmark, row).into_iter().zip(replies) {
        let (planned, _) = draft.planned(Digest::of(b"1"), NAME, "5");
        let response = testing::response(*outcome, text);
        scorer.add(&planned, Some(&response), &[]);
        lines.push(benchmark.export(&planned, Some(&response)).unwrap());
    }
    (scorer.finish(), lines)
}

const OK: Outcome = Outcome::Ok;

#[test]
fn numbers_of_a_reply_are_sentences_of_its_prompt() {
    let benchmark = built(|_| {});
    let reply = r#"{"label": "refutes", "evidence": [2, 1, 9]}"#;
    let replies =
        [(OK, r#"{"label": "refutes"}"#), (OK, reply), (OK, r#"{"label": "supports", "evidence": [1]}"#)];
    let (scores, lines) = answered(&benchmark, row(), &replies);
    let value =
        |metric, condition, group: &[_]| scores.find(metric, condition, group).map(|found| found.value);
    assert_eq!(value(score::FEVER_SCORE, "bm25", &[]), Some(Some(100.0)));
    assert_eq!(value(score::RECIPE_FEVER, "bm25", &[]), Some(Some(100.0)));
    assert_eq!(value(score::FEVER_SCORE, "oracle", &[]), Some(Some(0.0)));
    assert_eq!(value(score::RECALL, "oracle", &[]), Some(Some(100.0)), "the set of 丙 alone");
    assert_eq!(value(score::LABEL_ACCURACY, "claim_only", &[]), Some(Some(100.0)));
    assert_eq!(value(score::FEVER_SCORE, "claim_only", &[]), None);
    assert_eq!(value(score::PAGE_RECALL, "bm25", &[("k", "1")]), Some(Some(0.0)));
    assert_eq!(value(score::PAGE_RECALL, "bm25", &[("k", "3")]), Some(Some(100.0)));
    assert_eq!(value(score::CANDIDATE_RECALL, "bm25", &[]), Some(Some(100.0)));
    assert_eq!(
        lines[1],
        json!({"id": 5, "claim": "甲湖比乙山大。", "predicted_label": "refutes",
            "predicted_evidence": [["乙山_(測試)", 0], ["甲湖", 0]]})
    );
    assert_eq!(lines[0]["predicted_evidence"], json!([]));
    let tables = benchmark.tables(&scores, &crate::benchmark::published(NAME).unwrap(), None);
    let names: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
    let expect =
        ["main", "labels", "retrieval", "domains", "leaderboard"].map(|name| format!("cfever-{name}"));
    assert_eq!(names, expect);
    let main = tables[0].markdown();
    let row = main.lines().find(|line| line.contains("claim_only")).unwrap();
    assert!(row.contains(" 100.00 |") && row.contains("| NA "), "{main}");
    assert!(main.contains("dev split"), "{main}");
    assert!(main.contains("evidence: no number of a sentence 1"), "{main}");
    let board = tables[4].markdown();
    assert!(board.contains("test split") && board.contains("| GPT-4 (3-shot) "), "{board}");
    assert_eq!(tables[4].rows.len(), 7);
}

#[test]
fn unreadable_replies_are_wrong_and_counted_and_failures_are_not_scored() {
    let benchmark = built(|_| {});
    let nei = || {
        let mut row = row();
        row["label"] = json!("NOT ENOUGH INFO");
        row["evidence"] = json!([[1, null, null, null]]);
        row
    };
    let replies = [(OK, "no idea"), (Outcome::RequestError, ""), (Outcome::Empty, "")];
    let (scores, lines) = answered(&benchmark, nei(), &replies);
    let find = |metric, condition| scores.find(metric, condition, &[]);
    assert_eq!(find(score::LABEL_ACCURACY, "claim_only").unwrap().value, Some(0.0));
    assert!(find(score::LABEL_ACCURACY, "bm25").is_none());
    assert_eq!(find(score::LABEL_ACCURACY, "oracle").unwrap().value, Some(0.0));
    assert_eq!(find(score::REPLIES, "claim_only").unwrap().counts["cfever:no_json"], 1);
    assert_eq!(find(score::REPLIES, "claim_only").unwrap().counts["unparsed"], 1);
    let counts =
        |name: &str| scores.conditions.iter().find(|c| c.condition == name).map(ConditionCounts::unanswered);
    assert_eq!((counts("claim_only"), counts("bm25")), (Some(0), Some(1)));
    assert_eq!(lines[0]["predicted_label"], "unparsed");
    assert!(scores.warnings[0].contains("1 of 1 replies have no label"), "{:?}", scores.warnings);
}

#[test]
fn claims_that_were_shown_no_sentence_are_told() {
    let benchmark = built(|config| config.conditions = vec!["bm25".into()]);
    let mut bare = row();
    bare["found"]["bm25"] = json!([]);
    let (scores, _) = answered(&benchmark, bare, &[(OK, r#"{"label": "refutes", "evidence": []}"#)]);
    assert_eq!(scores.warnings.len(), 1, "{:?}", scores.warnings);
    assert!(
        scores.warnings[0].starts_with("bm25: 1 of 1 claims were shown no sentence"),
        "{:?}",
        scores.warnings
    );
}

/// A folder's name says nothing of what lies in it.
#[test]
fn the_split_is_that_of_the_file_of_the_rows() {
    let mut benchmark = built(|config| config.data = "test".into());
    assert_eq!(benchmark.split, "test");
    for (file, split) in [
        ("test/dev.jsonl", "dev"),
        ("d/cfever-dev.jsonl", "dev"),
        ("d/data/dev-00000-of-00001.parquet", "dev"),
        ("dev/test.jsonl", "test"),
        ("devtest.jsonl", "devtest"),
        ("dev-test.jsonl", "dev-test"),
        ("claims.jsonl", "claims"),
    ] {
        benchmark.rows_in(Path::new(file));
        assert_eq!(benchmark.split, split, "{file}");
        let expected = benchmark.data_check().unwrap().finish();
        assert_eq!(expected[0], "0 rows instead of 3,000", "{file}");
    }
}

#[test]
fn claims_without_labels_are_asked_and_exported_but_not_scored() {
    let benchmark = built(|config| {
        config.conditions = vec!["claim_only".into()];
        config.data = "data/test.jsonl".into();
    });
    // Of the test split no more than its size is published.
    let mut check = benchmark.data_check().unwrap();
    check.add(&json!({"id": 5, "claim": "甲。"}), &crate::benchmark::data_check::NoMedia);
    assert_eq!(check.finish(), ["1 row instead of 3,000"]);
    // Its claims repeat, its ids do not.
    let of = |ids: &[i64]| {
        let mut check = benchmark.data_check().unwrap();
        for id in ids {
            check.add(&json!({"id": id, "claim": "甲。"}), &crate::benchmark::data_check::NoMedia);
        }
        check.finish_part()
    };
    assert_eq!(of(&[5, 6, 7]), Vec::<String>::new());
    assert_eq!(of(&[5, 6, 5]), ["a row has the id of another"]);
    let (scores, lines) =
        answered(&benchmark, json!({"id": 5, "claim": "甲。"}), &[(OK, r#"{"label":"refutes"}"#)]);
    assert!(scores.find(score::LABEL_ACCURACY, "claim_only", &[]).is_none());
    assert!(scores.warnings[0].contains("harness export"), "{:?}", scores.warnings);
    assert_eq!(lines[0]["predicted_label"], "refutes");
}

#[test]
fn only_what_the_benchmark_knows_is_taken() {
    let error = |change: fn(&mut BenchmarkConfig)| {
        let mut config = section(NAME);
        change(&mut config);
        Cfever::new(&config, harness_wording(NAME).unwrap()).unwrap_err().to_string()
    };
    assert!(error(|c| c.conditions = vec!["gold".into()]).contains("unknown condition `gold`"));
    assert!(error(|c| c.languages = vec!["zho".into()]).contains("`languages` means nothing"));
    assert!(error(|c| c.system = Some("x".into())).contains("`system` means nothing"));
}
