//! The rules on made-up titles, their definitions word for word, and the reference cases where they are at hand.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

type Set = Vec<Sentence<'static>>;

fn sentences(list: &[(&'static str, i64)]) -> Set {
    list.iter().map(|&(page, line)| Sentence::new(page, line)).collect()
}

fn gold(label: Label, sets: &[&[(&'static str, i64)]]) -> Gold<'static> {
    Gold { label, sets: sets.iter().map(|set| sentences(set)).collect() }
}

fn said(label: &'static str, evidence: &[(&'static str, i64)]) -> Prediction<'static> {
    Prediction { label: label.into(), evidence: sentences(evidence) }
}

#[test]
fn a_set_must_be_within_the_first_five() {
    let gold = gold(Label::Supports, &[&[("甲湖", 0), ("乙山_(測試)", 3)], &[("丙", 1)]]);
    let check = |evidence: &[(&'static str, i64)], cap, strict, precision, recipe_match| {
        let said = said("SUPPORTS", evidence);
        let found = official(&gold, &said, cap);
        assert_eq!((found.strict, found.recall), (strict, Some(strict)), "{evidence:?}");
        assert_eq!(found.precision, Some(precision), "{evidence:?}");
        let recipe = recipe(&gold, &said);
        assert_eq!(
            (recipe.evidence, recipe.fever),
            (recipe_match, false),
            "the recipe compares to the letter"
        );
    };
    check(&[("乙山_(測試)", 3), ("甲湖", 0)], Some(CAP), true, 1.0, true);
    check(&[("甲湖", 0)], Some(CAP), false, 1.0, false);
    check(&[("甲湖", 0), ("丙", 0)], Some(CAP), false, 0.5, false);
    check(&[("甲湖", 0), ("丙", 1)], Some(CAP), true, 1.0, false);
    check(&[], Some(CAP), false, 1.0, false);
    let six = [("x", 0), ("x", 1), ("x", 2), ("x", 3), ("x", 4), ("丙", 1)];
    check(&six, Some(CAP), false, 0.0, false);
    check(&six, Some(6), true, 1.0 / 6.0, false);
    check(&six, None, true, 1.0 / 6.0, false);
    // Repeats eat the cap and count each time.
    check(&[("丙", 2), ("丙", 2), ("丙", 2), ("丙", 2), ("丙", 2), ("丙", 1)], Some(CAP), false, 0.0, false);
    check(&[("丙", 1), ("丙", 1), ("丙", 9)], Some(CAP), true, 2.0 / 3.0, false);
    check(&[("丙", 1), ("丙", 1)], Some(CAP), true, 1.0, true);
    check(&[("甲湖", 3), ("乙山（測試）", 3), ("臺", 0)], Some(CAP), false, 0.0, false);
}

#[test]
fn labels_are_compared_in_upper_case_and_not_trimmed() {
    let nei = gold(Label::NotEnoughInfo, &[]);
    for (label, right) in [
        ("NOT ENOUGH INFO", true),
        ("not enough info", true),
        ("NEI", false),
        ("NOT_ENOUGH_INFO", false),
        (" NOT ENOUGH INFO", false),
        ("NOT ENOUGH İNFO", false),
    ] {
        let found = official(&nei, &said(label, &[("x", 0)]), Some(CAP));
        assert_eq!(found, Finding { label: right, strict: right, precision: None, recall: None }, "{label}");
        assert_eq!(recipe(&nei, &said(label, &[])), RecipeFinding { evidence: false, fever: false });
    }
    assert_eq!(Label::upper("ſupports"), Some(Label::Supports), "as Python's upper() has it");
    assert_eq!(Label::exact("SUPPORTS"), None);
}

#[test]
fn means_of_nothing_are_those_of_the_scorer() {
    assert_eq!(Tally::default().figures(), None);
    assert_eq!((RecipeTally::default().figures(), PageTally::default().figures()), (None, None));
    let mut tally = Tally::default();
    tally.add(&official(&gold(Label::NotEnoughInfo, &[]), &said("x", &[]), Some(CAP)));
    let found = tally.figures().unwrap();
    assert_eq!((found.precision, found.recall, found.f1, found.strict), (1.0, 0.0, 0.0, 0.0));
    tally.add(&official(&gold(Label::Refutes, &[&[("甲", 0)]]), &said("refutes", &[("乙", 0)]), Some(CAP)));
    assert_eq!(tally.figures().unwrap().f1, 0.0, "no division by zero");
    let empty = official(&gold(Label::Refutes, &[]), &said("refutes", &[]), Some(CAP));
    assert_eq!((empty.recall, empty.strict), (Some(true), false));
}

#[test]
fn pages_count_once_and_the_order_matters_for_k() {
    let gold = gold(Label::Supports, &[&[("甲", 0), ("乙", 3)], &[("丙", 1)]]);
    let of = |ranked: &[&str], k| pages(&gold, ranked, k).map(|found| (found.recall, found.precision));
    assert_eq!(of(&["甲", "丁", "乙"], None), Some((true, 2.0 / 3.0)));
    assert_eq!(of(&["甲", "丁", "乙"], Some(2)), Some((false, 0.5)));
    assert_eq!(of(&["丙", "丙"], None), Some((true, 1.0)));
    assert_eq!(of(&[], None), Some((false, 1.0)));
    let nei = Gold { label: Label::NotEnoughInfo, sets: Vec::new() };
    assert_eq!(pages(&nei, &["甲"], None), None);
    let ranked = sentences(&[("x", 0), ("丙", 1)]);
    assert_eq!(sentence_recall(&gold, &ranked, Some(1)), Some(false));
    assert_eq!(sentence_recall(&gold, &ranked, Some(5)), Some(true));
    assert_eq!(sentence_recall(&nei, &ranked, None), None);
}

#[test]
fn confusion_has_a_column_for_labels_outside_the_three() {
    let mut confusion = Confusion::default();
    let (s, r, n) = (Label::Supports, Label::Refutes, Label::NotEnoughInfo);
    for (gold, said) in [(s, Some(s)), (s, Some(r)), (s, None), (r, Some(r)), (n, Some(s))] {
        confusion.add(gold, said);
    }
    assert_eq!(confusion.claims(s), 3);
    assert_eq!(confusion.of(s, None), 1);
    assert_eq!(confusion.class(s), (Some(0.5), Some(1.0 / 3.0)));
    assert_eq!(confusion.class(n), (None, Some(0.0)));
    let expect = (f1(0.5, 1.0 / 3.0) + f1(0.5, 1.0) + 0.0) / 3.0;
    assert_eq!(confusion.macro_f1(), Some(expect));
    assert_eq!(Confusion::default().macro_f1(), None);
}

fn any_sentences(most: usize) -> impl Strategy<Value = Set> {
    prop::collection::vec(("[甲乙]", 0i64..3).prop_map(|(page, line)| Sentence::new(page, line)), 0..most)
}

fn any_gold() -> impl Strategy<Value = Gold<'static>> {
    let label = prop::sample::select(&Label::ALL[..]);
    (label, prop::collection::vec(any_sentences(4), 0..4)).prop_map(|(label, sets)| Gold { label, sets })
}

proptest! {
    /// The definitions of the protocol, on sets.
    #[test]
    fn findings_are_their_definitions(gold in any_gold(), evidence in any_sentences(9), word in "supports|REFUTES|not enough info|x", cap in 0usize..9) {
        let said = Prediction { label: word.clone().into(), evidence: evidence.clone() };
        let found = official(&gold, &said, Some(cap));
        let seen: BTreeSet<_> = evidence.iter().take(cap).collect();
        let sets: Vec<BTreeSet<_>> = gold.sets.iter().map(|set| set.iter().collect()).collect();
        let label = word.to_uppercase() == gold.label.as_str().to_uppercase();
        let some = sets.iter().any(|set| set.is_subset(&seen));
        prop_assert_eq!(found.label, label);
        if gold.label == Label::NotEnoughInfo {
            prop_assert_eq!((found.strict, found.precision, found.recall), (label, None, None));
        } else {
            prop_assert_eq!(found.strict, label && some);
            prop_assert_eq!(found.recall, Some(some || sets.is_empty()));
            let first = &evidence[..cap.min(evidence.len())];
            let right = first.iter().filter(|s| sets.iter().any(|set| set.contains(s))).count();
            let precision = if first.is_empty() { 1.0 } else { right as f64 / first.len() as f64 };
            prop_assert_eq!(found.precision, Some(precision));
        }
        let all: BTreeSet<_> = evidence.iter().collect();
        let equal = gold.label != Label::NotEnoughInfo && sets.contains(&all);
        prop_assert_eq!(recipe(&gold, &said).evidence, equal);
        prop_assert_eq!(recipe(&gold, &said).fever, equal && word == gold.label.as_str());
    }

    /// More sentences never lose a set, and every figure stays on its scale.
    #[test]
    fn a_wider_cap_never_loses(claims in prop::collection::vec((any_gold(), any_sentences(9)), 1..12), cap in 0usize..8) {
        let mut tallies = [Tally::default(); 3];
        for (gold, evidence) in &claims {
            let said = Prediction { label: gold.label.as_str().into(), evidence: evidence.clone() };
            for (tally, cap) in tallies.iter_mut().zip([Some(cap), Some(cap + 1), None]) {
                tally.add(&official(gold, &said, cap));
            }
        }
        prop_assert!(tallies[0].strict <= tallies[1].strict && tallies[1].strict <= tallies[2].strict);
        prop_assert!(tallies[0].found <= tallies[1].found);
        let f = tallies[0].figures().unwrap();
        for value in [f.strict, f.label_accuracy, f.precision, f.recall, f.f1] {
            prop_assert!((0.0..=1.0).contains(&value));
        }
        prop_assert!(f.strict <= f.label_accuracy && f.label_accuracy == 1.0);
    }
}

/// The reference files, where they are at hand.
fn reference(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols/cfever").join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!("skipped: {} is not there", path.display());
    }
    text
}

fn read_gold(gold: &Value) -> Gold<'static> {
    let label = Label::exact(gold["label"].as_str().unwrap()).unwrap();
    let sets = if label.is_verifiable() { gold["evidence"].as_array().unwrap().clone() } else { Vec::new() };
    let read = |item: &Value| Sentence::new(item[2].as_str().unwrap().to_owned(), item[3].as_i64().unwrap());
    let set = |set: &Value| set.as_array().unwrap().iter().map(read).collect();
    Gold { label, sets: sets.iter().map(set).collect() }
}

fn read_prediction(row: &Value) -> Prediction<'static> {
    let items = row["predicted_evidence"].as_array().unwrap();
    let read = |item: &Value| Sentence::new(item[0].as_str().unwrap().to_owned(), item[1].as_i64().unwrap());
    let label = row["predicted_label"].as_str().unwrap().to_owned();
    Prediction { label: label.into(), evidence: items.iter().map(read).collect() }
}

type Pair = (Gold<'static>, Prediction<'static>);

fn figures(pairs: &[Pair], cap: Option<usize>) -> Figures {
    let mut tally = Tally::default();
    for (gold, said) in pairs {
        tally.add(&official(gold, said, cap));
    }
    tally.figures().unwrap()
}

#[track_caller]
fn same(found: Figures, expect: &Value) {
    let all = [
        ("strict", found.strict),
        ("label_acc", found.label_accuracy),
        ("precision", found.precision),
        ("recall", found.recall),
        ("f1", found.f1),
    ];
    for (name, value) in all {
        let expect = expect[name].as_f64().unwrap();
        assert!((value - expect).abs() < 1e-12, "{name}: {value} instead of {expect}");
    }
}

/// Compares an aggregate block: figures by cap, counts, and the recipe in percent.
#[track_caller]
fn same_block(pairs: &[Pair], block: &Value) {
    for scorer in ["pypi_2_0_39", "cfever_eval"] {
        same(figures(pairs, Some(CAP)), &block["scorers"][scorer]);
    }
    for (name, cap) in [("cap_none", None), ("cap_1", Some(1)), ("cap_3", Some(3))] {
        if block.get(name).is_some() {
            same(figures(pairs, cap), &block[name]);
        }
    }
    let (mut tally, mut by_recipe) = (Tally::default(), RecipeTally::default());
    for (gold, said) in pairs {
        tally.add(&official(gold, said, Some(CAP)));
        by_recipe.add(recipe(gold, said));
    }
    let count = |name: &str| block["counts"][name].as_u64().unwrap();
    assert_eq!((tally.strict, tally.labels), (count("strict"), count("label")));
    assert_eq!((tally.verifiable, tally.claims), (count("verifiable"), count("total")));
    let (recall, fever) = by_recipe.figures().unwrap();
    let percent = [("recall_pct", recall), ("fever_pct", fever)];
    for (name, value) in percent {
        if let Some(expect) = block["recipe"].get(name).and_then(Value::as_f64) {
            assert!((value * 100.0 - expect).abs() < 1e-12, "{name}: {value}");
        }
    }
    for (name, value) in [("evidence_match", by_recipe.evidence), ("fever_correct", by_recipe.fever)] {
        if let Some(expect) = block["recipe"].get(name).and_then(Value::as_u64) {
            assert_eq!(value, expect, "{name}");
        }
    }
}

fn cases() -> Option<Vec<Value>> {
    let text = reference("reference_cases.jsonl")?;
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn reference_cases_one_by_one() {
    let Some(cases) = cases() else { return };
    assert_eq!(cases.len(), 42);
    for case in &cases {
        let pair = (read_gold(&case["gold"]), read_prediction(&case["prediction"]));
        let pairs = std::slice::from_ref(&pair);
        for scorer in ["pypi_2_0_39", "cfever_eval"] {
            same(figures(pairs, Some(CAP)), &case["expected"][scorer]);
        }
        same(figures(pairs, None), &case["no_cap"]);
        same(figures(pairs, Some(1)), &case["cap_1"]);
        let found = official(&pair.0, &pair.1, Some(CAP));
        let parts = &case["parts"];
        assert_eq!(parts["label_correct"], found.label, "{}", case["case"]);
        assert_eq!(parts["strictly_correct"], found.strict, "{}", case["case"]);
        for (name, value) in [
            ("precision_pair", found.precision),
            ("recall_pair", found.recall.map(|found| f64::from(u8::from(found)))),
        ] {
            let (expect, counted) = (parts[name][0].as_f64().unwrap(), parts[name][1].as_f64().unwrap());
            match value {
                Some(value) => assert!(counted == 1.0 && (value - expect).abs() < 1e-12, "{name}"),
                None => assert_eq!(counted, 0.0, "{name}"),
            }
        }
        let found = recipe(&pair.0, &pair.1);
        assert_eq!(case["recipe"]["evidence_match"], found.evidence, "{}", case["case"]);
        assert_eq!(case["recipe"]["fever_correct"], found.fever, "{}", case["case"]);
    }
}

#[test]
fn reference_aggregates() {
    let (Some(cases), Some(expected)) = (cases(), reference("reference_expected.json")) else { return };
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for name in ["well_formed_cases", "only_gold_nei", "zero_precision_and_recall"] {
        let block = &expected[&format!("aggregate_{name}")];
        let named = block["cases"].as_array().unwrap();
        let case = |name: &Value| cases.iter().find(|case| case["case"] == *name).unwrap();
        let pair = |case: &Value| (read_gold(&case["gold"]), read_prediction(&case["prediction"]));
        let pairs: Vec<Pair> = named.iter().map(|name| pair(case(name))).collect();
        same_block(&pairs, block);
    }
    let Some(slice) = reference("slice500.jsonl") else { return };
    let rows: Vec<Value> = slice.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pairs: Vec<Pair> = rows.iter().map(|row| (read_gold(&row["gold"]), read_prediction(row))).collect();
    let block = &expected["slice500"];
    same_block(&pairs, block);
    let mut confusion = Confusion::default();
    for (gold, said) in &pairs {
        confusion.add(gold.label, Label::upper(&said.label));
    }
    for label in Label::ALL {
        let of_label: Vec<Pair> = pairs.iter().filter(|(gold, _)| gold.label == label).cloned().collect();
        same_block(&of_label, &block["by_gold_label"][label.as_str()]);
        for other in Label::ALL {
            let expect = block["confusion_gold_pred"][label.as_str()][other.as_str()].as_u64().unwrap();
            assert_eq!(confusion.of(label, Some(other)), expect);
        }
        assert_eq!(confusion.of(label, None), 0);
    }
}
