//! An eye on suspicious answers: a model that hears nothing often says the same thing to everything.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fewer answers than this are too few to be suspicious.
const ENOUGH: u64 = 10;

/// Counts equal answers. Holds about 40 bytes for each different text, never the texts.
#[derive(Debug, Default)]
pub(super) struct SameAnswer {
    answers: u64,
    texts: HashMap<u64, Seen>,
    /// The text that may be the majority, with its lead over all others (Boyer and Moore's vote).
    leader: (String, u64),
}

#[derive(Debug)]
struct Seen {
    answers: u64,
    sample_and_gold: (u64, u64),
    /// It answered different samples with different gold, or wrongly.
    spread: bool,
}

impl SameAnswer {
    /// One answer more.
    pub(super) fn add(&mut self, text: &str, sample: &str, gold: &[String]) {
        self.answers += 1;
        let found = (hash(sample), hash(gold));
        let seen = self.texts.entry(hash(text)).or_insert(Seen {
            answers: 0,
            sample_and_gold: found,
            spread: false,
        });
        seen.answers += 1;
        // To different samples with one gold a right answer is the same text, and no other one is.
        let right = |gold: &String| text.to_lowercase().contains(&gold.to_lowercase());
        let other = seen.sample_and_gold.1 != found.1 || !gold.iter().any(right);
        seen.spread |= seen.sample_and_gold.0 != found.0 && other;
        let (leader, lead) = &mut self.leader;
        if leader == text {
            *lead += 1;
        } else if *lead == 0 {
            text.clone_into(leader);
            *lead = 1;
        } else {
            *lead -= 1;
        }
    }

    /// A sentence when one text makes more than half of enough answers, across samples with different gold.
    /// `what` names the answers: "spoken questions".
    pub(super) fn warning(&self, what: &str) -> Option<String> {
        let seen = self.texts.get(&hash(self.leader.0.as_str()))?;
        let suspicious = self.answers >= ENOUGH && 2 * seen.answers > self.answers && seen.spread;
        suspicious.then(|| {
            format!(
                "{} of {} answers to {what} are the same text, {}, right or not: does the model get the media?",
                seen.answers,
                self.answers,
                quoted(&self.leader.0)
            )
        })
    }
}

/// The beginning of a text, for a sentence.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        return "empty".to_owned();
    }
    let clean = |c: char| if c.is_control() || c == '`' { ' ' } else { c };
    let short: String = text.chars().take(60).map(clean).collect();
    let more = if text.chars().nth(60).is_some() { "…" } else { "" };
    format!("`{short}{more}`")
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answers: &[(&str, usize)], samples: usize, expect: Option<&str>) {
        let mut watch = SameAnswer::default();
        let texts = answers.iter().flat_map(|&(text, n)| std::iter::repeat_n(text, n));
        for (i, text) in texts.enumerate() {
            let sample = (i % samples).to_string();
            watch.add(text, &sample, std::slice::from_ref(&sample));
        }
        let found = watch.warning("questions");
        match expect {
            Some(start) => assert!(found.as_deref().is_some_and(|text| text.starts_with(start)), "{found:?}"),
            None => assert_eq!(found, None),
        }
    }

    #[test]
    fn same_answer_to_different_samples_is_suspicious() {
        check(
            &[("yes", 10)],
            10,
            Some("10 of 10 answers to questions are the same text, `yes`, right or not"),
        );
        check(
            &[("a", 4), ("no\nidea", 6)],
            10,
            Some("6 of 10 answers to questions are the same text, `no idea`"),
        );
        check(&[("no", 6), ("a", 4)], 10, Some("6 of 10"));
        check(&[("", 11)], 5, Some("11 of 11 answers to questions are the same text, empty"));
    }

    #[test]
    fn few_answers_half_of_them_or_one_sample_are_not() {
        check(&[("yes", 9)], 9, None);
        check(&[("yes", 5), ("no", 5)], 10, None);
        check(&[("yes", 20)], 1, None);
        check(&[], 1, None);
    }
}
