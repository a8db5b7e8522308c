//! How a run departs from the paper's protocol, as far as that is known.

use super::{Cfever, Condition, DEV};
use crate::benchmark::RunFacts;

impl Cfever {
    /// All sentences, the gravest first.
    pub(super) fn departures(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let mut found = Vec::new();
        if self.split == DEV {
            found.push(
                "dev split: the published figures are of the test split, whose labels are not published; they are not \
                 to be compared row by row"
                    .to_owned(),
            );
        } else {
            found.push(format!(
                "split `{}`, by the name of its file; the published figures are of the test split",
                self.split
            ));
        }
        if let Some((taken, all)) = facts.subset.filter(|(taken, all)| taken != all) {
            found.push(format!("a subset: {taken} of {all} claims"));
        }
        if !facts.data_differs.is_empty() {
            found.push(format!("other data than the published ones: {}", facts.data_differs.join("; ")));
        }
        found.push(
            "the prompts, shots and settings of the paper's language models are not published; nor is it known whether \
             they were shown evidence: the words are ours"
                .to_owned(),
        );
        let generation = facts.generation;
        if !generation.greedy() || generation.max_new_tokens != 256 {
            found.push(format!(
                "{} and at most {} tokens; our choice for this benchmark is 0 and 256",
                generation.temperature_by_name(),
                generation.max_new_tokens
            ));
        }
        if self.shots > 0 {
            let shots = self.shots;
            found.push(format!("{shots} worked examples of the train split before each claim, drawn by us"));
        }
        if self.conditions.contains(&Condition::Bm25) {
            found.push(format!(
                "`bm25` shows at most {} sentences of the pages found, those that fit the claim best, ranked by us",
                self.candidates
            ));
        }
        if self.conditions.contains(&Condition::Oracle) {
            found.push(
                "`oracle` shows the gold sentences, filled up with others to the same number whatever the label, as far as \
                 the pages go: a diagnosis, comparable with no published figure"
                    .to_owned(),
            );
        }
        found
    }
}
