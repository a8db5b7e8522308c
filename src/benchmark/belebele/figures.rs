//! Figures out of counted answers: means over runs, and shares of languages in whole numbers.

use crate::metric::Mean;

/// The readings of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Official,
    Recipe,
    Lenient,
}

impl Reading {
    pub(super) const ALL: [Self; 3] = [Self::Official, Self::Recipe, Self::Lenient];

    /// Its own of three counts.
    pub(super) fn of(self, [official, recipe, lenient]: [u64; 3]) -> u64 {
        match self {
            Self::Official => official,
            Self::Recipe => recipe,
            Self::Lenient => lenient,
        }
    }
}

/// The answers of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// Right ones by reading.
    pub(super) right: [u64; 3],
    pub(super) answers: u64,
}

/// The answers to a group of questions, by run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(pub(super) Vec<Run>);

impl Runs {
    pub(super) fn add(&mut self, run: usize, right: [bool; 3]) {
        if self.0.len() <= run {
            self.0.resize(run + 1, Run::default());
        }
        if let Some(found) = self.0.get_mut(run) {
            found.answers += 1;
            for (count, right) in found.right.iter_mut().zip(right) {
                *count += u64::from(right);
            }
        }
    }

    /// The mean over runs of right answers in answers; runs without an answer have none.
    pub(super) fn accuracy(&self, reading: Reading) -> Option<f64> {
        let of_run = |run: &Run| run.right(reading) as f64 / run.answers as f64;
        self.0.iter().filter(|run| run.answers > 0).map(of_run).collect::<Mean>().value()
    }

    /// Whether so many tenths of all answers of all runs are right: exact where the mean of shares is not.
    pub(super) fn reaches(&self, reading: Reading, tenths: u64) -> bool {
        self.answers() > 0 && 10 * self.right(reading) >= tenths * self.answers()
    }

    pub(super) fn right(&self, reading: Reading) -> u64 {
        self.0.iter().map(|run| run.right(reading)).sum()
    }

    pub(super) fn answers(&self) -> u64 {
        self.0.iter().map(|run| run.answers).sum()
    }
}

impl Run {
    fn right(&self, reading: Reading) -> u64 {
        reading.of(self.right)
    }
}

/// The unweighted mean over languages.
pub(super) fn average<'a>(languages: impl IntoIterator<Item = &'a Runs>, reading: Reading) -> Option<f64> {
    languages.into_iter().filter_map(|runs| runs.accuracy(reading)).collect::<Mean>().value()
}

/// The share of languages that reach so many tenths; `None` of fewer than two.
pub(super) fn share_reaching<'a>(
    languages: impl IntoIterator<Item = &'a Runs>,
    reading: Reading,
    tenths: u64,
) -> Option<f64> {
    let reached: Vec<bool> = languages
        .into_iter()
        .filter(|runs| runs.answers() > 0)
        .map(|runs| runs.reaches(reading, tenths))
        .collect();
    let count = reached.iter().filter(|reached| **reached).count();
    (reached.len() > 1).then(|| count as f64 / reached.len() as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn runs(of: &[(u64, u64)]) -> Runs {
        Runs(of.iter().map(|&(right, answers)| Run { right: [right; 3], answers }).collect())
    }

    #[test]
    fn half_is_enough_and_a_hair_less_is_not() {
        let reaches = |of: &[(u64, u64)], tenths| runs(of).reaches(Reading::Recipe, tenths);
        assert!(reaches(&[(450, 900)], 5) && !reaches(&[(449, 900)], 5));
        assert!(reaches(&[(449, 900), (450, 900), (451, 900)], 5));
        assert!(!reaches(&[(449, 900), (450, 900), (450, 900)], 5));
        assert!(reaches(&[(630, 900)], 7) && !reaches(&[(629, 900)], 7));
        assert!(!reaches(&[], 5) && !reaches(&[(0, 0)], 5));
    }

    #[test]
    fn means_are_over_runs_then_over_languages() {
        let seeds = runs(&[(60, 100), (62, 100), (64, 100)]);
        assert!((seeds.accuracy(Reading::Official).unwrap() - 0.62).abs() < 1e-12);
        let (many, few) = (runs(&[(720, 900)]), runs(&[(4, 10)]));
        assert!((average([&many, &few], Reading::Recipe).unwrap() - 0.6).abs() < 1e-12);
        assert_eq!(share_reaching([&many, &few], Reading::Recipe, 5), Some(0.5));
        assert_eq!(share_reaching([&many], Reading::Recipe, 5), None);
        assert_eq!(average([], Reading::Recipe), None);
        // A run that failed as a whole has no share in the mean.
        assert_eq!(runs(&[(1, 2), (0, 0)]).accuracy(Reading::Recipe), Some(0.5));
    }

    proptest! {
        #[test]
        fn whole_numbers_agree_with_fractions(right in 0_u64..2000, more in 0_u64..2000, tenths in 0_u64..11) {
            let answers = right + more;
            prop_assume!(answers > 0);
            let exact = right as f64 * 10.0 >= tenths as f64 * answers as f64;
            prop_assert_eq!(runs(&[(right, answers)]).reaches(Reading::Recipe, tenths), exact);
        }
    }
}
