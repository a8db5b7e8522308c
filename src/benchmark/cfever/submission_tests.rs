use super::super::score;
use super::*;

const GOLD: &str = r#"{"id": 7, "label": "supports", "claim": "甲", "domain": "其他", "evidence": [[[1, 2, "甲湖", 0], [1, 2, "乙", 3]]]}"#;
const NEI: &str =
    r#"{"id": 7, "label": "NOT ENOUGH INFO", "claim": "甲", "evidence": [[1, null, null, null]]}"#;

fn scored(pairs: &[(&str, &str)]) -> BenchmarkScores {
    let mut scorer = Box::new(Scorer::default());
    for (gold, prediction) in pairs {
        assert_eq!(scorer.add(gold, prediction), Ok(SubmissionAdded::Scored));
    }
    scorer.finish()
}

fn value(scores: &BenchmarkScores, metric: &str) -> f64 {
    scores.find(metric, CONDITION, &[]).unwrap_or_else(|| panic!("{metric}")).value.unwrap()
}

fn line(label: &str, evidence: &str) -> String {
    format!(r#"{{"id": 7, "predicted_label": {label}, "predicted_evidence": {evidence}}}"#)
}

#[test]
fn a_file_is_scored_by_both_readings() {
    let right = line("\"SUPPORTS\"", r#"[["乙", 3], ["甲湖", 0], ["x", 1]]"#);
    let exact = line("\"supports\"", r#"[["乙", 3], ["甲湖", 0]]"#);
    let wrong = line("\"refutes\"", r#"[["乙", 3]]"#);
    let nei = line("\"NOT ENOUGH INFO\"", "[]");
    let scores = scored(&[(GOLD, &right), (GOLD, &exact), (GOLD, &wrong), (NEI, &nei)]);
    assert_eq!(value(&scores, score::LABEL_ACCURACY), 75.0);
    assert_eq!(value(&scores, score::FEVER_SCORE), 75.0);
    assert!((value(&scores, score::PRECISION) - (2.0 / 3.0 + 1.0 + 1.0) / 3.0 * 100.0).abs() < 1e-9);
    assert!((value(&scores, score::RECALL) - 200.0 / 3.0).abs() < 1e-9);
    assert_eq!(value(&scores, score::RECIPE_FEVER), 25.0);
    assert_eq!(value(&scores, score::RECIPE_RECALL), 25.0);
    let domain = scores.find(score::FEVER_SCORE, CONDITION, &[("domain", "其他")]).unwrap();
    assert_eq!((domain.n, domain.counts["right"]), (3, 2));
    let label = scores.find(score::LABEL_PRECISION, CONDITION, &[("label", "supports")]).unwrap();
    assert_eq!((label.counts["supports"], label.counts["refutes"], label.value), (2, 1, Some(100.0)));
}

#[test]
fn pages_alone_are_scored_as_pages() {
    let scores = scored(&[
        (GOLD, r#"{"id": 7, "predicted_pages": ["甲湖", "丙", "乙"]}"#),
        (NEI, r#"{"id": 7, "predicted_pages": ["甲湖"], "label": "NOT ENOUGH INFO"}"#),
    ]);
    let of = |metric, k: &[(&str, &str)]| scores.find(metric, CONDITION, k).unwrap().value.unwrap();
    assert_eq!(of(score::PAGE_RECALL, &[("k", "1")]), 0.0);
    assert_eq!(of(score::PAGE_RECALL, &[("k", "3")]), 100.0);
    assert!((of(score::PAGE_PRECISION, &[]) - 200.0 / 3.0).abs() < 1e-9);
    assert!(scores.find(score::LABEL_ACCURACY, CONDITION, &[]).is_none(), "nothing else was predicted");
}

#[test]
fn gold_in_the_predictions_is_never_used() {
    let plain = line("\"refutes\"", r#"[["乙", 3]]"#);
    let carried = plain.replacen('{', r#"{"label": "refutes", "evidence": [[[1, 2, "乙", 3]]], "#, 1);
    let (with, without) = (scored(&[(GOLD, &carried)]), scored(&[(GOLD, &plain)]));
    assert_eq!(with.metrics, without.metrics);
    assert!(with.warnings[0].contains("1 predictions carry `label` or `evidence`"), "{:?}", with.warnings);
    assert!(without.warnings.is_empty());
}

#[test]
fn malformed_predictions_are_refused_with_their_id_and_what_the_scorer_would_do() {
    const STOPS: &str = "would have stopped here (AssertionError)";
    const TYPE: &str = "would have stopped here (TypeError)";
    const MISS: &str = "would have counted a miss";
    const PASS: &str = "would not have looked at it";
    #[track_caller]
    fn check(gold: &str, prediction: &str, parts: &[&str]) {
        let error = Scorer::default().add(gold, prediction).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }
    let (right, wrong) = ("\"supports\"", "\"refutes\"");
    let null = "`predicted_evidence` must be a list, found null: write [] for none";
    check(GOLD, &line(right, "null"), &["prediction of id 7", null, TYPE]);
    check(GOLD, &line(wrong, "null"), &[null, TYPE]);
    check(NEI, &line(wrong, "null"), &[null, PASS]);
    check(NEI, &line("\"NOT ENOUGH INFO\"", "null"), &[null, TYPE]);
    let item = "item 1 of `predicted_evidence` must be [page, line]";
    check(GOLD, &line(right, r#"[["甲", "0"]]"#), &[item, "found [a string, a string]", STOPS]);
    check(GOLD, &line(wrong, r#"[["甲", "0"]]"#), &[item, MISS]);
    check(NEI, &line(wrong, r#"[["甲", "0"]]"#), &[item, PASS]);
    check(GOLD, &line(right, r#"[["甲", 0, 1]]"#), &["found a list of 3", STOPS]);
    check(GOLD, &line(right, r#"[["甲", true]]"#), &["found [a string, true or false]", STOPS]);
    check(GOLD, &line(right, r#"[["甲", 0.0]]"#), &["a number with a fraction", STOPS]);
    check(GOLD, &line(right, r#"["甲"]"#), &["found a string", STOPS]);
    check(GOLD, &line(right, r#""甲""#), &["must be a list, found a string", STOPS]);
    check(
        GOLD,
        &line("7", "[]"),
        &["`predicted_label` must be a string, found a whole number", "AttributeError"],
    );
    check(GOLD, r#"{"id": 7, "predicted_label": "supports"}"#, &["there is no `predicted_evidence`", STOPS]);
    check(GOLD, r#"{"id": 7, "predicted_evidence": []}"#, &["there is no `predicted_label`", STOPS]);
    check(GOLD, r#"{"id": "7", "predicted_evidence": []}"#, &["`id` must be a whole number, found a string"]);
    check(GOLD, r#"{"predicted_evidence": []}"#, &["the prediction has no `id`"]);
    check(GOLD, r#"{"id": 7, "predicted_pages": ["x", 1]}"#, &["must hold titles, found a whole number"]);
    check(GOLD, "{", &["not a row of this form"]);
    check(r#"{"id": 7}"#, &line(right, "[]"), &["gold row 7: the row has no `label`"]);
    let other = line(right, "[]").replace('7', "8");
    assert_eq!(Scorer::default().add(GOLD, &other), Ok(SubmissionAdded::OtherId));
    assert_eq!(Scorer::default().id(&other), Ok(8));
    assert_eq!(Scorer::default().gold_id(GOLD), Ok(7));
}

#[test]
fn escaped_titles_are_the_titles_they_stand_for() {
    let escaped = line("\"supports\"", r#"[["\u4e59", 3], ["\u7532\u6e56", 0]]"#);
    assert_eq!(value(&scored(&[(GOLD, &escaped)]), score::FEVER_SCORE), 100.0);
}

/// The published dev files, where the fetched data are at hand.
#[test]
fn published_dev_files_have_their_known_figures() {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cfever");
    let reference = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/protocols/cfever/reference_expected.json");
    let read = |path: &std::path::Path| std::fs::read_to_string(path).ok();
    let baseline = data.join("simple_baseline/data");
    let files = (
        read(&data.join("data/dev.jsonl")),
        read(&baseline.join("dumb_dev_pred.jsonl")),
        read(&baseline.join("bm25_test/dev_doc10.jsonl")),
        read(&reference),
    );
    let (Some(gold), Some(dumb), Some(pages), Some(expected)) = files else {
        eprintln!(
            "skipped: {} holds not all of the published files, or {} is not there",
            data.display(),
            reference.display()
        );
        return;
    };
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let of = |predictions: &str| {
        let pairs: Vec<_> = gold.lines().zip(predictions.lines()).collect();
        scored(&pairs)
    };
    let near = |found: f64, expect: &serde_json::Value, scale: f64| {
        let expect = expect.as_f64().unwrap() * scale;
        assert!((found - expect).abs() < 1e-10, "{found} instead of {expect}");
    };
    let block = |name: &str, scores: &BenchmarkScores| {
        let figures = &expected[name]["scorers"]["cfever_eval"];
        for (metric, key) in [
            (score::FEVER_SCORE, "strict"),
            (score::LABEL_ACCURACY, "label_acc"),
            (score::PRECISION, "precision"),
            (score::RECALL, "recall"),
            (score::F1, "f1"),
        ] {
            near(value(scores, metric), &figures[key], 100.0);
        }
        if let Some(recipe) = expected[name].get("recipe") {
            near(value(scores, score::RECIPE_RECALL), &recipe["recall_pct"], 1.0);
            near(value(scores, score::RECIPE_FEVER), &recipe["fever_pct"], 1.0);
        }
    };
    block("dev_dumb_dev_pred", &of(&dumb));
    let rows: Vec<serde_json::Value> = gold.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let nei = |row: &serde_json::Value| {
        serde_json::json!({"id": row["id"], "predicted_label": "NOT ENOUGH INFO", "predicted_evidence": []})
            .to_string()
    };
    block("dev_all_nei_empty", &of(&rows.iter().map(nei).collect::<Vec<_>>().join("\n")));
    let oracle = |row: &serde_json::Value| {
        let sets = row["evidence"].as_array().unwrap();
        let nested = sets.iter().filter(|set| set[0].is_array());
        let smallest = nested.min_by_key(|set| set.as_array().unwrap().len());
        let items = smallest.and_then(|set| set.as_array()).cloned().unwrap_or_default();
        let evidence: Vec<_> = items.iter().map(|item| serde_json::json!([item[2], item[3]])).collect();
        serde_json::json!({"id": row["id"], "predicted_label": row["label"], "predicted_evidence": evidence})
            .to_string()
    };
    block("dev_oracle_smallest_set", &of(&rows.iter().map(oracle).collect::<Vec<_>>().join("\n")));
    // The file of pages has gold in it and no labels of its own.
    let scores = of(&pages);
    for k in ["1", "3", "5", "7", "10"] {
        for (metric, key) in
            [(score::PAGE_RECALL, "recall"), (score::PAGE_PRECISION, "precision"), (score::PAGE_F1, "f1")]
        {
            let found = scores.find(metric, CONDITION, &[("k", k)]).unwrap().value.unwrap();
            near(found, &expected["dev_bm25_doc_retrieval"][k][key], 100.0);
        }
    }
}
