//! Answers that are right, wrong or not attempted: SimpleVQA's figures, as its scorer rounds them and exact; and how
//! well stated confidence agrees with being right.

use serde_json::Value;

use super::text::{py_round, strip};
use super::verdict::Grade;

/// Answers by grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grades {
    /// Right ones.
    pub correct: u64,
    /// Wrong ones.
    pub incorrect: u64,
    /// Those that give nothing to judge.
    pub not_attempted: u64,
    /// All answers: those without a grade with them.
    pub n: u64,
}

/// The figures of graded answers, as shares of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempts {
    /// CO: right answers of all.
    pub correct: f64,
    /// IN: wrong ones.
    pub incorrect: f64,
    /// NA: those not attempted.
    pub not_attempted: f64,
    /// Those attempted.
    pub attempted: f64,
    /// CGA: right answers of those attempted; 0 where none was.
    pub correct_given_attempted: f64,
    /// F: the harmonic mean of CO and CGA; 0 where both are 0.
    pub f_score: f64,
}

impl Grades {
    /// One answer more; `None` has no grade and still counts.
    pub fn add(&mut self, grade: Option<Grade>) {
        self.n += 1;
        match grade {
            Some(Grade::Correct) => self.correct += 1,
            Some(Grade::Incorrect) => self.incorrect += 1,
            Some(Grade::NotAttempted) => self.not_attempted += 1,
            None => {}
        }
    }

    /// As `simpleVQA_eval.py` computes: CO, IN and NA rounded to four decimals, the rest of the rounded ones. `None` of
    /// no answers.
    pub fn official(&self) -> Option<Attempts> {
        let share = |count: u64| py_round(count as f64 / self.n as f64, 4);
        let (correct, incorrect) = (share(self.correct), share(self.incorrect));
        let attempted = py_round(correct + incorrect, 4);
        self.figures(correct, incorrect, share(self.not_attempted), attempted)
    }

    /// By the definitions, without rounding. `None` of no answers.
    pub fn exact(&self) -> Option<Attempts> {
        let share = |count: u64| count as f64 / self.n as f64;
        let attempted = self.correct + self.incorrect;
        let mut figures = self.figures(
            share(self.correct),
            share(self.incorrect),
            share(self.not_attempted),
            share(attempted),
        )?;
        // Of the counts: a quotient of rounded quotients would differ in its last digit.
        let of = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        figures.correct_given_attempted = of(self.correct, attempted);
        figures.f_score = of(2 * self.correct, self.n + attempted);
        Some(figures)
    }

    fn figures(&self, correct: f64, incorrect: f64, not_attempted: f64, attempted: f64) -> Option<Attempts> {
        let given = if attempted > 0.0 { correct / attempted } else { 0.0 };
        let sum = given + correct;
        let f_score = if sum > 0.0 { 2.0 * given * correct / sum } else { 0.0 };
        (self.n > 0).then_some(Attempts {
            correct,
            incorrect,
            not_attempted,
            attempted,
            correct_given_attempted: given,
            f_score,
        })
    }
}

/// An answer that states its confidence: what the official scripts make of such a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    /// The answer.
    pub answer: String,
    /// The confidence, from 0 to 100. `None` where it is no number within these.
    pub confidence: Option<f64>,
}

/// Reads a reply of the form `{"answer": …, "confidence_score": …}`, code fences taken off. `None` where it is none,
/// or has no answer.
pub fn stated(reply: &str) -> Option<Stated> {
    let mut text = reply.to_owned();
    for fence in ["```json", "```python", "```"] {
        text = text.replace(fence, "");
    }
    let Ok(Value::Object(fields)) = serde_json::from_str(strip(&text)) else { return None };
    let answer = match fields.get("answer")? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // Prompts of models that only read ask for it in quotes.
    let confidence = match fields.get("confidence_score") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => strip(text).trim_end_matches('%').parse().ok(),
        _ => None,
    };
    Some(Stated { answer, confidence: confidence.filter(|value| (0.0..=100.0).contains(value)) })
}

/// Answers of about the same confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Answers.
    pub n: u64,
    /// Right ones among them.
    pub correct: u64,
    /// The sum of their confidences.
    confidence: f64,
}

impl Bin {
    /// The share of right answers; `None` of no answers.
    pub fn accuracy(&self) -> Option<f64> {
        (self.n > 0).then(|| self.correct as f64 / self.n as f64)
    }

    /// The mean confidence, as a share of 1; `None` of no answers.
    pub fn confidence(&self) -> Option<f64> {
        (self.n > 0).then(|| self.confidence / 100.0 / self.n as f64)
    }
}

/// Answers by the confidence that they state, in bins around 0, 5, … 100; halves go as Python rounds them, to the even
/// bin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    bins: [Bin; 21],
}

impl Calibration {
    /// One answer more, of a confidence from 0 to 100. Values outside are taken to be the nearest within.
    pub fn add(&mut self, confidence: f64, correct: bool) {
        // No number at all counts as none.
        let confidence = if confidence.is_nan() { 0.0 } else { confidence.clamp(0.0, 100.0) };
        if let Some(bin) = self.bins.get_mut((confidence / 5.0).round_ties_even() as usize) {
            bin.n += 1;
            bin.correct += u64::from(correct);
            bin.confidence += confidence;
        }
    }

    /// The bins, each with its middle.
    pub fn bins(&self) -> impl Iterator<Item = (u64, &Bin)> {
        (0..).step_by(5).zip(&self.bins)
    }

    /// All answers.
    pub fn n(&self) -> u64 {
        self.bins.iter().map(|bin| bin.n).sum()
    }

    /// The expected calibration error: how far accuracy and mean confidence of a bin are apart, weighted by its
    /// answers, as a share of 1. `None` of no answers.
    pub fn error(&self) -> Option<f64> {
        let all = self.n();
        let apart = self.bins.iter().filter_map(|bin| {
            let gap = (bin.accuracy()? - bin.confidence()?).abs();
            Some(gap * bin.n as f64 / all as f64)
        });
        (all > 0).then(|| apart.sum())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grades(correct: u64, incorrect: u64, not_attempted: u64) -> Grades {
        Grades { correct, incorrect, not_attempted, n: correct + incorrect + not_attempted }
    }

    #[test]
    fn both_roundings_of_the_specification() {
        let large = grades(956, 911, 158);
        let exact = large.exact().unwrap();
        assert_eq!(exact.correct, 956.0 / 2025.0);
        assert_eq!(exact.correct_given_attempted, 956.0 / 1867.0);
        assert_eq!(exact.f_score, 0.491_264_131_551_901_35);
        assert_eq!(large.official().unwrap().f_score, 0.491_259_105_098_855_4);
        assert_eq!(grades(1, 1, 1).exact().unwrap().f_score, 0.4);
        assert_eq!(Grades::default().official(), None);
        assert_eq!(Grades::default().exact(), None);
    }

    #[test]
    fn stated_confidences_are_read_as_the_scripts_do() {
        let check = |reply: &str, expected: Option<(&str, Option<f64>)>| {
            let expected =
                expected.map(|(answer, confidence)| Stated { answer: answer.to_owned(), confidence });
            assert_eq!(stated(reply), expected, "{reply}");
        };
        check("```json\n{\"answer\": \"北京\", \"confidence_score\": 95}\n```", Some(("北京", Some(95.0))));
        check("{\"answer\": \"x\", \"confidence_score\": \"80\"}", Some(("x", Some(80.0))));
        check("{\"answer\": \"x\", \"confidence_score\": \"80%\"}", Some(("x", Some(80.0))));
        check("{\"answer\": \"x\", \"confidence_score\": 101}", Some(("x", None)));
        check("{\"answer\": 7}", Some(("7", None)));
        check("{\"confidence_score\": 5}", None);
        check("Paris, I am sure", None);
        check("{'answer': 'x'}", None);
    }

    #[test]
    fn bins_lie_around_fives() {
        let mut calibration = Calibration::default();
        for (confidence, correct) in [(0.0, false), (2.4, true), (97.5, true), (100.0, true), (96.0, false)] {
            calibration.add(confidence, correct);
        }
        let found: Vec<(u64, u64, u64)> = calibration
            .bins()
            .filter(|(_, bin)| bin.n > 0)
            .map(|(at, bin)| (at, bin.n, bin.correct))
            .collect();
        assert_eq!(found, [(0, 2, 1), (95, 1, 0), (100, 2, 2)]);
        let expected = (2.0 * (0.5_f64 - 0.012) + 0.96 + 2.0 * (1.0_f64 - 0.9875)) / 5.0;
        assert!((calibration.error().unwrap() - expected).abs() < 1e-12);
        assert_eq!(Calibration::default().error(), None);
        // Python's round(18.5) and round(0.5).
        let mut halves = Calibration::default();
        halves.add(92.5, true);
        halves.add(2.5, true);
        let found: Vec<u64> = halves.bins().filter(|(_, bin)| bin.n > 0).map(|(at, _)| at).collect();
        assert_eq!(found, [0, 90]);
    }

    proptest! {
        #[test]
        fn figures_are_shares(correct in 0_u64..3000, incorrect in 0_u64..3000, not_attempted in 0_u64..3000, ungraded in 0_u64..10) {
            let mut grades = grades(correct, incorrect, not_attempted);
            grades.n += ungraded;
            for figures in [grades.official(), grades.exact()].into_iter().flatten() {
                for value in [figures.correct, figures.correct_given_attempted, figures.f_score] {
                    prop_assert!((0.0..=1.0).contains(&value));
                }
            }
            if let (Some(official), Some(exact)) = (grades.official(), grades.exact()) {
                prop_assert!((official.correct - exact.correct).abs() <= 5.1e-5);
            }
        }

        #[test]
        fn any_reply_and_confidence_is_taken(reply: String, confidence: f64) {
            let _ = stated(&reply);
            let mut calibration = Calibration::default();
            calibration.add(confidence, true);
            prop_assert!(calibration.error().is_none_or(|error| (0.0..=1.0).contains(&error)));
        }
    }
}
