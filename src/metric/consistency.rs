//! Consistency between two tasks of CCFQA.

/// `100 * min(a, b) / max(a, b)` of two task averages, in percent: how much of the better task's accuracy the
/// other one keeps.
///
/// CCFQA publishes no code for it; min over max is what its printed values force (two models score higher on
/// the harder task). It is a ratio of averages, not an agreement of items. `None` where it has no meaning:
/// both zero, a negative value, or not a number.
pub fn consistency(a: f64, b: f64) -> Option<f64> {
    let (low, high) = if a <= b { (a, b) } else { (b, a) };
    (low >= 0.0 && high > 0.0 && high.is_finite()).then(|| 100.0 * low / high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::text::py_round;

    fn check(a: f64, b: f64, expect: f64) {
        assert_eq!(consistency(a, b).map(|v| py_round(v, 1)), Some(expect), "{a} {b}");
        assert_eq!(consistency(b, a), consistency(a, b));
    }

    #[test]
    fn ratios_of_the_published_averages() {
        // QA/XQA, SQA/XSQA, QA/SQA, XQA/XSQA of the LLM accuracies.
        let gpt = [64.4, 62.2, 40.4, 38.6];
        let phi = [13.8, 15.3, 22.0, 5.7];
        let qwen2 = [30.6, 19.2, 17.0, 10.7];
        let omni = [38.2, 34.5, 33.2, 29.5];
        for ([qa, xqa, sqa, xsqa], expect) in [
            (gpt, [96.6, 95.5, 62.7, 62.1]),
            (phi, [90.2, 25.9, 62.7, 37.3]),
            (qwen2, [62.7, 62.9, 55.6, 55.7]),
            (omni, [90.3, 88.9, 86.9, 85.5]),
        ] {
            let pairs = [(qa, xqa), (sqa, xsqa), (qa, sqa), (xqa, xsqa)];
            pairs.iter().zip(expect).for_each(|(&(a, b), expect)| check(a, b, expect));
        }
    }

    #[test]
    fn meaningless_ratios_are_none() {
        for (a, b) in [(0.0, 0.0), (-1.0, 5.0), (f64::NAN, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY)] {
            assert_eq!(consistency(a, b), None, "{a} {b}");
        }
        assert_eq!(consistency(0.0, 5.0), Some(0.0));
    }

    proptest! {
        #[test]
        fn lies_between_0_and_100(a: f64, b: f64) {
            prop_assert!(consistency(a, b).is_none_or(|v| (0.0..=100.0).contains(&v)));
        }
    }
}
