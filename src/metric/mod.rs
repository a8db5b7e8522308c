//! Metrics: pure functions from values to values. No I/O, no async, no clock; they cannot panic on any input.
//!
//! Every function says which unit it works on (code points, words by white space, tokens), what it does to the
//! strings first, and on which scale its value is. Nothing here knows benchmarks, outcomes or tables.

pub mod attempts;
pub mod bootstrap;
pub mod consistency;
pub mod edit;
pub mod f1;
pub mod fever;
pub mod letter;
pub mod text;
pub mod verdict;

/// A running mean: the sum in the order of addition, in f64.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    n: u64,
}

impl Mean {
    /// One value more.
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.n += 1;
    }

    /// All values of another mean.
    pub fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.n += other.n;
    }

    /// The mean; `None` of nothing.
    pub fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }

    /// How many values it is made of.
    pub fn n(&self) -> u64 {
        self.n
    }
}

impl FromIterator<f64> for Mean {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut mean = Self::default();
        values.into_iter().for_each(|value| mean.add(value));
        mean
    }
}

/// Mean and standard deviation of the values of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the sample: the sum of squares divided by one less than there are values. `None` of
    /// one value.
    pub sd: Option<f64>,
    /// How many values there are.
    pub n: usize,
}

impl Spread {
    /// Of these values; `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = values.iter().copied().collect::<Mean>().value()?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt());
        Some(Self { mean, sd, n: values.len() })
    }
}

/// The best score of an answer over alternative references; `None` without references.
pub fn best<S: AsRef<str>>(references: &[S], score: impl Fn(&str) -> f64) -> Option<f64> {
    references.iter().map(|reference| score(reference.as_ref())).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_of_nothing_is_nothing() {
        assert_eq!(Mean::default().value(), None);
        assert_eq!([1.0, 2.0, 6.0].into_iter().collect::<Mean>().value(), Some(3.0));
    }

    #[test]
    fn spread_is_that_of_a_sample() {
        let spread = Spread::of(&[50.0, 60.0, 40.0, 50.0, 40.0]).unwrap();
        assert_eq!((spread.mean, spread.n), (48.0, 5));
        assert!((spread.sd.unwrap() - 8.366_600_265_340_756).abs() < 1e-12);
        assert_eq!(Spread::of(&[1.0]).unwrap().sd, None);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn best_reference_counts() {
        assert_eq!(best(&["a", "bcd"], |r| r.len() as f64), Some(3.0));
        assert_eq!(best::<&str>(&[], |_| 1.0), None);
    }
}
