use super::super::score;
use super::*;
use crate::report::published::Published;

const GOLD: &str = r#"{"id": 7, "label": "supports", "claim": "甲", "domain": "其他", "evidence": [[[1, 2, "甲湖", 0], [1, 2, "乙", 3]]]}"#;
const NEI: &str =
    r#"{"id": 7, "label": "NOT ENOUGH INFO", "claim": "甲", "evidence": [[1, null, null, null]]}"#;

fn scored(pairs: &[(&str, &str)]) -> BenchmarkScores {
    let mut scorer = Box::new(Scorer::default());
    for (gold, prediction) in pairs {
        let added = scorer.add(gold, prediction).unwrap();
        assert!(matches!(added, SubmissionAdded::Scored(_)), "{gold} {prediction}");
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
        let error = Scorer::default().add(gold, prediction).unwrap_err().to_string();
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
    check(GOLD, &line(right, r#"["甲"]"#), &["found a string", STOPS]);
    check(GOLD, &line(right, r#""甲""#), &["must be a list, found a string", STOPS]);
    check(
        GOLD,
        &line("7", "[]"),
        &["`predicted_label` must be a string, found a whole number", "AttributeError"],
    );
    check(GOLD, r#"{"id": 7, "predicted_label": "supports"}"#, &["there is no `predicted_evidence`", STOPS]);
    check(GOLD, r#"{"id": 7, "predicted_evidence": []}"#, &["there is no `predicted_label`", "(KeyError)"]);
    check(GOLD, r#"{"id": 7}"#, &["there is no `predicted_label`", STOPS]);
    check(GOLD, r#"{"id": 7, "predicted_label": null}"#, &["must be a string, found null", STOPS]);
    check(GOLD, r#"{"id": "7", "predicted_evidence": []}"#, &["`id` must be a whole number, found a string"]);
    check(GOLD, r#"{"predicted_evidence": []}"#, &["the prediction has no `id`"]);
    check(GOLD, r#"{"id": 7, "predicted_pages": ["x", 1]}"#, &["must hold titles, found a whole number"]);
    check(GOLD, "{", &["not a row of this form"]);
    check(GOLD, "7", &["not a row of this form: expected one object a line"]);
    check(
        GOLD,
        r#"[7, "supports", [["甲湖", 0], ["乙", 3]]]"#,
        &["expected one object a line, found a list"],
    );
    check(GOLD, &format!("[{}]", line(right, "[]")), &["expected one object a line, found a list"]);
    for (gold, part) in [
        (r#"[7, "supports", [], "x"]"#, "expected one object a line"),
        (r#"{"id": 7}"#, "gold row 7: the row has no `label`"),
    ] {
        let fault = Scorer::default().add(gold, &line(right, "[]")).unwrap_err();
        assert!(matches!(&fault, SubmissionFault::Gold(told) if told.contains(part)), "{fault:?}");
    }
    let other = line(right, "[]").replace('7', "8");
    assert_eq!(Scorer::default().add(GOLD, &other), Ok(SubmissionAdded::OtherId));
    assert_eq!(Scorer::default().id(&other), Ok(8));
    assert_eq!(Scorer::default().gold_id(GOLD), Ok(7));
}

/// What became of each prediction when the authors' script was run on it (Python 3.11): the error, or FEVER Score,
/// precision and recall. The columns: gold supports and label right, label wrong; gold undecidable and label right, wrong.
#[test]
fn malformed_evidence_is_said_to_come_to_what_it_comes_to() {
    const A: &str = "AssertionError";
    const T: &str = "TypeError";
    const TABLE: [(&str, [&str; 4]); 26] = [
        (r#"[["甲",true]]"#, ["1 1 1", "0 1 1", "1", "0"]),
        (r#"[["甲",1.0]]"#, [A, "0 1 1", A, "0"]),
        (r#"[["甲",1.5]]"#, [A, "0 0 0", A, "0"]),
        (r#"[["甲",false]]"#, ["0 0 0", "0 0 0", "1", "0"]),
        (r#"[["甲","1"]]"#, [A, "0 0 0", A, "0"]),
        (r#"[["甲",1,2]]"#, [A, "0 0 0", A, "0"]),
        (r#"["甲",1]"#, [A, "0 0 0", A, "0"]),
        ("null", [T, T, T, "0"]),
        ("{}", [T, T, "1", "0"]),
        (r#"{"a":1}"#, [A, T, A, "0"]),
        (r#""""#, [T, T, "1", "0"]),
        (r#""甲""#, [A, T, A, "0"]),
        ("5", [T, T, T, "0"]),
        ("0", [T, T, T, "0"]),
        ("false", [T, T, T, "0"]),
        ("1.5", [T, T, T, "0"]),
        (r#"[{"page":"甲","line":1}]"#, [A, "0 0 0", A, "0"]),
        ("[null]", [A, "0 0 0", A, "0"]),
        (r#"[["甲",18446744073709551616]]"#, ["0 0 0", "0 0 0", "1", "0"]),
        (r#"[["甲",9223372036854775808]]"#, ["0 0 0", "0 0 0", "1", "0"]),
        (r#"[["甲",1e30]]"#, [A, "0 0 0", A, "0"]),
        (r#"[["a",0],["a",0],["a",0],["a",0],["a",0],["a","1"]]"#, [A, "0 0 0", A, "0"]),
        (r#"["ab"]"#, [A, "0 0 0", A, "0"]),
        ("[[3,1]]", [A, "0 0 0", A, "0"]),
        ("[[null,null]]", [A, "0 0 0", A, "0"]),
        (r#"[["甲",true],["甲","1"]]"#, [A, "0 0.5 1", A, "0"]),
    ];
    let golds = [("supports", r#"[[[1, 1, "甲", 1]]]"#), ("NOT ENOUGH INFO", "[[1, null, null, null]]")];
    for (evidence, columns) in TABLE {
        let cases = golds.iter().flat_map(|gold| [(gold, gold.0), (gold, "refutes")]);
        for (((label, sets), said), came) in cases.zip(columns) {
            let gold = format!(r#"{{"id": 7, "label": "{label}", "evidence": {sets}}}"#);
            let error = Scorer::default().add(&gold, &line(&format!("\"{said}\""), evidence)).unwrap_err();
            let error = error.to_string();
            let told = error.rsplit("; ").next().unwrap();
            let expect: &[&str] = match came {
                error if error.ends_with("Error") => &[error],
                "0 0 0" => &["counted a miss", "would not have looked at it"],
                "0" => &["would not have looked at it"],
                "1" => &["would have let it pass"],
                _ => &["would have counted it as line 1"],
            };
            assert!(
                expect.iter().any(|part| told.contains(part)),
                "{label} {said} {evidence}: {came}: {told}"
            );
            assert_eq!(
                told.contains("stopped"),
                came.ends_with("Error"),
                "{label} {said} {evidence}: {told}"
            );
        }
    }
    // The sixth is cut off where the label is wrong.
    let sixth = line("\"refutes\"", TABLE[21].0);
    let error = Scorer::default().add(GOLD, &sixth).unwrap_err().to_string();
    assert!(error.contains("would not have looked at it"), "{error}");
}

/// A row that lacks what others have would fall out of their figures.
#[test]
fn every_prediction_of_a_file_has_the_same_parts() {
    let id = |id: i64, text: &str| text.replace("\"id\": 7", &format!("\"id\": {id}"));
    let pages = r#"{"id": 7, "predicted_pages": ["甲湖"]}"#.to_owned();
    let label = line("\"supports\"", "[]");
    let both = pages.replace('}', r#", "predicted_label": "supports", "predicted_evidence": []}"#);
    let errors = |lines: &[&str]| {
        let mut scorer = Scorer::default();
        let add = |(at, line): (i64, &&str)| scorer.add(&id(at, GOLD), &id(at, line)).err();
        (1..).zip(lines).filter_map(add).map(|fault| fault.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(errors(&[&*pages, &*pages]), Vec::<String>::new());
    assert_eq!(errors(&[&*both, &*both]), Vec::<String>::new());
    let label_lacks = "there is no `predicted_label`";
    for (lines, told) in [
        // The first row with a label speaks for all those before it.
        (&[&*pages, &*pages, &*both, &*both][..], &[(1, label_lacks)][..]),
        (&[&*both, &*pages, &*pages], &[(2, label_lacks), (3, label_lacks)]),
        (&[&*label, &*label, &*both], &[(1, "there is no `predicted_pages`")]),
        (&[&*both, &*label], &[(2, "there is no `predicted_pages`")]),
        (&[&*pages, r#"{"id": 7}"#], &[(2, "there is no `predicted_pages`")]),
    ] {
        let found = errors(lines);
        assert_eq!(found.len(), told.len(), "{found:?}");
        for (error, (id, part)) in found.iter().zip(told) {
            assert!(error.starts_with(&format!("prediction of id {id}: {part}")), "{error}");
        }
    }
}

#[test]
fn without_any_sentence_the_figures_stand_with_what_they_mean() {
    let (nei, wrong) = (line("\"NOT ENOUGH INFO\"", "[]"), line("\"refutes\"", "[]"));
    let pairs: [(&str, &str); 3] = [(NEI, &nei), (GOLD, &nei), (GOLD, &wrong)];
    let scores = scored(&pairs);
    for (metric, expect) in [
        (score::LABEL_ACCURACY, 100.0 / 3.0),
        (score::FEVER_SCORE, 100.0 / 3.0),
        (score::PRECISION, 100.0),
        (score::RECALL, 0.0),
        (score::F1, 0.0),
        (score::RECIPE_FEVER, 0.0),
    ] {
        assert!((value(&scores, metric) - expect).abs() < 1e-9, "{metric}");
    }
    assert!(scores.warnings[0].contains("no prediction names a sentence"), "{:?}", scores.warnings);
    let table = super::super::tables::all(&scores, &Published::default(), None, "dev").remove(0).markdown();
    let row = table.lines().find(|row| row.contains("| official")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[3..8], ["33.33", "33.33", "100.00", "0.00", "0.00"], "{table}");
    assert!(table.contains("warning: no prediction names a sentence"), "{table}");
    let one = line("\"supports\"", r#"[["x", 0]]"#);
    assert_eq!(value(&scored(&[(NEI, &nei), (GOLD, &one)]), score::FEVER_SCORE), 50.0);
}

#[test]
fn figures_are_given_for_every_cap() {
    let late = line("\"supports\"", r#"[["x", 1], ["乙", 3], ["甲湖", 0], ["y", 1]]"#);
    let scores = scored(&[(GOLD, &late)]);
    let of = |metric, cap| scores.find(metric, CONDITION, &[("cap", cap)]).unwrap().value.unwrap();
    assert_eq!(["1", "3", "none"].map(|cap| of(score::FEVER_SCORE, cap)), [0.0, 100.0, 100.0]);
    assert_eq!(["1", "3", "none"].map(|cap| of(score::RECALL, cap)), [0.0, 100.0, 100.0]);
    assert_eq!(["1", "none"].map(|cap| of(score::PRECISION, cap)), [0.0, 50.0]);
    assert!((of(score::PRECISION, "3") - 200.0 / 3.0).abs() < 1e-9);
    assert!((of(score::F1, "3") - 80.0).abs() < 1e-9);
    assert_eq!(["1", "3", "none"].map(|cap| of(score::LABEL_ACCURACY, cap)), [100.0; 3]);
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
    let all_nei = rows.iter().map(nei).collect::<Vec<_>>().join("\n");
    let pairs: Vec<_> = gold.lines().zip(all_nei.lines()).collect();
    block("dev_all_nei_empty", &scored(&pairs));
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
