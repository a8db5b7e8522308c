//! Examples: drawn from the English training set that `assemble_training_set.py` of facebookresearch/belebele makes.
//!
//! The file's order is that of an unsorted listing of folders, so questions are sorted before five are drawn; the draw
//! depends on the seed and on the set of questions alone. What was drawn stands among the run's prompt texts, so the
//! manifest holds it and scoring needs no training set.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::row::gold;
use crate::metric::bootstrap::draw;
use crate::prompt::{PromptSet, sha256_hex};

/// What the names of these texts begin with; the seed follows.
const PREFIX: &str = "shots_seed_";

/// A question of the training set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shot {
    /// Data set, passage and question, as the file names them.
    pub(super) id: String,
    pub(super) gold: char,
    pub(super) passage: String,
    pub(super) query: String,
    pub(super) options: [String; 4],
}

/// Whether a prompt text holds examples.
pub(super) fn is_shots(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The name of the text that holds the examples of a seed.
pub(super) fn name_of(seed: u64) -> String {
    format!("{PREFIX}{seed}")
}

/// The examples of a seed.
pub(super) fn of(prompts: &PromptSet, seed: u64) -> Option<Vec<Shot>> {
    serde_json::from_str(prompts.get(&name_of(seed))?).ok()
}

/// What a question is sorted by, and its place in the file.
type Key = ([String; 5], u64);

/// Draws examples in two walks over the training set: the first for what questions are sorted by, the second for the
/// ones that were drawn.
#[derive(Debug)]
pub struct Draw {
    shots: usize,
    seeds: Vec<u64>,
    keys: Vec<Key>,
    chosen: Option<Vec<Vec<u64>>>,
    found: Vec<(u64, Shot)>,
}

impl Draw {
    /// So many examples for each seed.
    pub fn new(shots: usize, seeds: &[u64]) -> Self {
        Self { shots, seeds: seeds.to_vec(), keys: Vec::new(), chosen: None, found: Vec::new() }
    }

    /// A row of the first walk, by its number in the file.
    pub fn look(&mut self, number: u64, row: &Value) -> Result<(), String> {
        if field(row, "split")? == "train" {
            self.keys.push((key(row)?, number));
        }
        Ok(())
    }

    /// Between the walks: draws. An error is a sentence that reads well after the file's name.
    pub fn draw(&mut self) -> Result<(), String> {
        let mut keys = std::mem::take(&mut self.keys);
        if keys.len() < self.shots {
            return Err(format!(
                "has {} questions of the split `train`, and {} examples are asked for: make it with \
                 assemble_training_set.py of facebookresearch/belebele",
                keys.len(),
                self.shots
            ));
        }
        keys.sort_unstable();
        let of_seed = |seed: &u64| {
            let places = draw(*seed, self.shots, keys.len());
            places.into_iter().filter_map(|place| Some(keys.get(place)?.1)).collect()
        };
        self.chosen = Some(self.seeds.iter().map(of_seed).collect());
        Ok(())
    }

    /// A row of the second walk.
    pub fn take(&mut self, number: u64, row: &Value) -> Result<(), String> {
        let wanted = self.chosen.iter().flatten().flatten().any(|chosen| *chosen == number);
        if wanted && !self.found.iter().any(|(found, _)| *found == number) {
            self.found.push((number, shot(row)?));
        }
        Ok(())
    }

    /// Puts what was drawn among the prompt texts; `file` is the name of the training set's file.
    pub fn put(self, prompts: &mut PromptSet, file: &str) -> Result<(), String> {
        for (seed, places) in self.seeds.iter().zip(self.chosen.into_iter().flatten()) {
            let shot =
                |place: &u64| self.found.iter().find(|(number, _)| number == place).map(|(_, shot)| shot);
            let shots: Option<Vec<&Shot>> = places.iter().map(shot).collect();
            let shots = shots.ok_or("was changed while it was read: run again when it is whole")?;
            let text = serde_json::to_string(&shots).map_err(|e| e.to_string())?;
            let ids: Vec<String> = shots.iter().map(|shot| format!("{}={}", shot.id, shot.gold)).collect();
            let sha256 = sha256_hex(&text);
            prompts.put(&name_of(*seed), text, format!("drawn from {file}: {}", ids.join(", ")), sha256);
        }
        Ok(())
    }
}

fn field<'a>(row: &'a Value, name: &str) -> Result<&'a str, String> {
    row.get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("there is no column `{name}`: is it a belebele_training_set.tsv?"))
}

fn key(row: &Value) -> Result<[String; 5], String> {
    let part = |name: &str| field(row, name).map(str::to_owned);
    Ok([part("dataset")?, part("split")?, part("passage_id")?, part("question_id")?, part("question")?])
}

fn shot(row: &Value) -> Result<Shot, String> {
    let part = |name: &str| field(row, name).map(str::to_owned);
    Ok(Shot {
        id: format!("{}/{}/{}", part("dataset")?, part("passage_id")?, part("question_id")?),
        gold: gold(row.get("correct_answer_num").unwrap_or(&Value::Null))?,
        passage: part("passage")?,
        query: part("question")?,
        options: [part("answer1")?, part("answer2")?, part("answer3")?, part("answer4")?],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(n: u64) -> Vec<Value> {
        (0..n)
            .map(|n| {
                json!({"": n.to_string(), "dataset": if n % 2 == 0 { "race" } else { "sciq" },
                    "split": if n % 10 == 9 { "dev" } else { "train" }, "passage_id": format!("p{}", n / 2),
                    "question_id": format!("q{n}"), "passage": format!("P {n}\nof two lines"), "question": format!("Q {n}?"),
                    "answer1": "a", "answer2": "b", "answer3": "c", "answer4": "d",
                    "correct_answer": "a", "correct_answer_num": (n % 4 + 1).to_string()})
            })
            .collect()
    }

    fn drawn(rows: &[Value], seeds: &[u64]) -> PromptSet {
        let mut draw = Draw::new(5, seeds);
        for (number, row) in (1..).zip(rows) {
            draw.look(number, row).unwrap();
        }
        draw.draw().unwrap();
        for (number, row) in (1..).zip(rows) {
            draw.take(number, row).unwrap();
        }
        let mut prompts = PromptSet::default();
        draw.put(&mut prompts, "t.tsv").unwrap();
        prompts
    }

    #[test]
    fn the_same_seed_draws_the_same_in_any_order_of_the_file() {
        let mut rows = rows(200);
        let first = drawn(&rows, &[0, 1, 2]);
        rows.reverse();
        rows.swap(3, 77);
        let second = drawn(&rows, &[0, 1, 2]);
        let texts = |set: &PromptSet| [0, 1, 2].map(|seed| of(set, seed).unwrap());
        assert_eq!(texts(&first), texts(&second));
        let [zero, one, two] = texts(&first);
        assert!(zero != one && one != two && zero != two);
        for shots in [&zero, &one, &two] {
            assert_eq!(shots.len(), 5);
            let different: std::collections::HashSet<&str> =
                shots.iter().map(|shot| shot.id.as_str()).collect();
            assert_eq!(different.len(), 5);
            assert!(shots.iter().all(|shot| !shot.id.ends_with('9')), "of the training split");
        }
        let status = first.status(&name_of(0)).to_owned();
        assert!(zero.iter().all(|shot| status.contains(&format!("{}={}", shot.id, shot.gold))), "{status}");
        // A seed by itself draws what it draws among others.
        assert_eq!(of(&drawn(&rows, &[2]), 2).unwrap(), two);
    }

    #[test]
    fn what_cannot_be_drawn_from_is_said() {
        let mut draw = Draw::new(5, &[0]);
        let error = draw.look(1, &json!({"question": "x"})).unwrap_err();
        assert!(error.contains("no column `split`"), "{error}");
        for (number, row) in (1..).zip(&rows(4)) {
            draw.look(number, row).unwrap();
        }
        let error = draw.draw().unwrap_err();
        assert!(
            error.starts_with("has 4 questions") && error.contains("assemble_training_set.py"),
            "{error}"
        );
    }
}
