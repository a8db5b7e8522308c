//! The two F1 scores of CCFQA. They share a name and little else: always say which one is meant.

use std::collections::HashSet;

use super::text::{py_round, words};

/// `f1_char_set`: the F1 of the official script, in percent, rounded to one decimal as Python rounds.
///
/// Works on the *set* of Unicode code points of each string as it is: no lower-casing, trimming, punctuation
/// removal or normalisation, the same for every language, and "aab" equals "abb". Both empty: 100; exactly one
/// empty, or nothing shared: 0. (CCFQA, `output/vllm_eval.py`.)
pub fn char_set(gold: &str, answer: &str) -> f64 {
    match (gold.is_empty(), answer.is_empty()) {
        (true, true) => return 100.0,
        (true, false) | (false, true) => return 0.0,
        (false, false) => {}
    }
    let (gold, answer) = (code_points(gold), code_points(answer));
    let shared = shared(&gold, &answer) as f64;
    let (precision, recall) = (shared / answer.len() as f64, shared / gold.len() as f64);
    if shared == 0.0 {
        return 0.0;
    }
    py_round(2.0 * precision * recall / (precision + recall) * 100.0, 1)
}

/// `f1_token_set`: the F1 of the scoring recipe, from 0 to 1, not rounded.
///
/// Works on the *set* of lower-cased words, split at white space as Python's `str.split()` does; punctuation
/// stays. Both sets empty: 1; exactly one empty, or nothing shared: 0.
pub fn token_set(gold: &str, answer: &str) -> f64 {
    let (gold, answer) = (gold.to_lowercase(), answer.to_lowercase());
    let (gold, answer): (HashSet<&str>, HashSet<&str>) = (words(&gold).collect(), words(&answer).collect());
    if gold.is_empty() && answer.is_empty() {
        return 1.0;
    }
    let shared = gold.intersection(&answer).count() as f64;
    if shared == 0.0 {
        return 0.0;
    }
    let (precision, recall) = (shared / answer.len() as f64, shared / gold.len() as f64);
    2.0 * precision * recall / (precision + recall)
}

/// The code points of a text, sorted, each once.
fn code_points(text: &str) -> Vec<char> {
    let mut points: Vec<char> = text.chars().collect();
    points.sort_unstable();
    points.dedup();
    points
}

/// How many items two sorted lists without repeats share.
fn shared(left: &[char], right: &[char]) -> usize {
    let mut right = right.iter().peekable();
    left.iter()
        .filter(|&item| {
            while right.next_if(|&other| other < item).is_some() {}
            right.next_if_eq(&item).is_some()
        })
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Golden {
        gold: String,
        pred: String,
        f1: f64,
    }

    #[test]
    fn golden_values_of_the_official_function() {
        let golden: Vec<Golden> =
            serde_json::from_str(include_str!("../../tests/fixtures/ccfqa/golden.json")).unwrap();
        let recipe =
            [100.0, 0.0, 0.0, 100.0, 100.0, 50.0, 400.0 / 7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 50.0, 50.0, 0.0];
        assert_eq!(golden.len(), recipe.len());
        for (Golden { gold, pred, f1 }, recipe) in golden.into_iter().zip(recipe) {
            assert_eq!(char_set(&gold, &pred), f1, "{gold:?} {pred:?}");
            assert!((token_set(&gold, &pred) * 100.0 - recipe).abs() < 1e-9, "{gold:?} {pred:?}");
        }
    }

    #[test]
    fn blanks_and_control_characters_count_in_the_official_f1() {
        assert!(char_set(" 北山", "北山") < 100.0);
        assert_eq!(char_set(" ", ""), 0.0);
        assert_eq!(token_set(" ", ""), 1.0);
        assert_eq!(token_set("a\u{1f}b", "b a"), 1.0);
    }

    /// The definition, word for word, on hash sets.
    fn plain(gold: &str, answer: &str) -> f64 {
        let (g, p): (HashSet<char>, HashSet<char>) = (gold.chars().collect(), answer.chars().collect());
        let tp = g.intersection(&p).count() as f64;
        match (g.len(), p.len()) {
            (0, 0) => 100.0,
            (0, _) | (_, 0) => 0.0,
            _ if tp == 0.0 => 0.0,
            (gs, ps) => {
                let (precision, recall) = (tp / ps as f64, tp / gs as f64);
                format!("{:.1}", 2.0 * precision * recall / (precision + recall) * 100.0).parse().unwrap()
            }
        }
    }

    proptest! {
        #[test]
        fn char_set_is_its_definition(gold in "\\PC{0,40}", answer in "[a-f蓝天\u{0301}\u{8} ]{0,12}") {
            prop_assert_eq!(char_set(&gold, &answer), plain(&gold, &answer));
            prop_assert_eq!(char_set(&answer, &answer), 100.0);
        }

        #[test]
        fn values_stay_on_their_scales(gold: String, answer: String) {
            prop_assert!((0.0..=100.0).contains(&char_set(&gold, &answer)));
            prop_assert!((0.0..=1.0).contains(&token_set(&gold, &answer)));
            prop_assert_eq!(char_set(&gold, &answer), char_set(&answer, &gold));
            prop_assert_eq!(token_set(&gold, &gold), 1.0);
        }
    }
}
