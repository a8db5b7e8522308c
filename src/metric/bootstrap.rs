//! Confidence intervals by resampling groups: questions on one passage stand or fall together.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// What is counted in one group: right answers and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Right answers.
    pub right: u64,
    /// Answers.
    pub answers: u64,
}

/// How often groups are drawn.
pub const DRAWS: usize = 1000;

/// The middle 95 % of the shares of right answers in [`DRAWS`] draws of as many groups as there are, with replacement:
/// the percentile bootstrap. The same groups in the same order give the same interval on every machine. `None` with
/// fewer than two groups or no answers.
pub fn interval(groups: &[Counted], seed: u64) -> Option<(f64, f64)> {
    if groups.len() < 2 || groups.iter().all(|group| group.answers == 0) {
        return None;
    }
    let mut random = generator(seed);
    let mut shares = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut sum = Counted::default();
        for _ in groups {
            let place = below(&mut random, groups.len() as u64);
            let group = groups.get(usize::try_from(place).unwrap_or_default()).copied().unwrap_or_default();
            sum.right += group.right;
            sum.answers += group.answers;
        }
        if sum.answers > 0 {
            shares.push(sum.right as f64 / sum.answers as f64);
        }
    }
    shares.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * (shares.len().saturating_sub(1)) as f64).round();
        shares.get(place as usize).copied()
    };
    Some((at(0.025)?, at(0.975)?))
}

/// A generator of random numbers that is the same on every machine: `ChaCha8` with the seed in the first eight bytes
/// of its key, the lowest first.
pub fn generator(seed: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (byte, of_seed) in key.iter_mut().zip(seed.to_le_bytes()) {
        *byte = of_seed;
    }
    ChaCha8Rng::from_seed(key)
}

/// A number from 0 to below `bound`, each as likely: numbers beyond the last whole multiple are drawn again. 0 for a
/// bound of 0.
pub fn below(random: &mut ChaCha8Rng, bound: u64) -> u64 {
    if bound == 0 {
        return 0;
    }
    let most = u64::MAX - u64::MAX % bound;
    loop {
        let number = random.next_u64();
        if number < most {
            return number % bound;
        }
    }
}

/// `count` different numbers below `bound` in the order in which they are drawn; all of them, shuffled, where there
/// are no more.
pub fn draw(seed: u64, count: usize, bound: usize) -> Vec<usize> {
    let mut random = generator(seed);
    let mut taken = Vec::new();
    while taken.len() < count.min(bound) {
        let place = usize::try_from(below(&mut random, bound as u64)).unwrap_or_default();
        if !taken.contains(&place) {
            taken.push(place);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups(shares: &[(u64, u64)]) -> Vec<Counted> {
        shares.iter().map(|&(right, answers)| Counted { right, answers }).collect()
    }

    #[test]
    fn an_interval_is_around_the_share_and_repeats() {
        let half = groups(&[(1, 2); 400].map(|_| (1, 2)));
        assert_eq!(interval(&half, 0), Some((0.5, 0.5)), "all groups are alike");
        let mixed: Vec<Counted> =
            (0..400).map(|n| Counted { right: 2 * u64::from(n % 2 == 0), answers: 2 }).collect();
        let (low, high) = interval(&mixed, 0).unwrap();
        assert!(low > 0.43 && low < 0.48 && high > 0.52 && high < 0.57, "{low} {high}");
        assert_eq!(interval(&mixed, 0), Some((low, high)));
        assert_eq!(interval(&mixed[..1], 0), None);
        assert_eq!(interval(&groups(&[(0, 0), (0, 0)]), 0), None);
    }

    /// Written down once: another order of draws would be other examples in published runs.
    #[test]
    fn draws_never_change() {
        assert_eq!([draw(0, 5, 67_500), draw(1, 5, 67_500), draw(2, 5, 67_500)], DRAWN);
        assert_eq!(draw(0, 5, 2).len(), 2);
        assert_eq!(draw(0, 5, 0), [0_usize; 0]);
    }

    const DRAWN: [[usize; 5]; 3] = [
        [63_378, 20_755, 57_976, 61_480, 57_856],
        [44_907, 59_230, 20_958, 31_594, 19_360],
        [63_233, 35_841, 6_945, 49_497, 35_548],
    ];

    proptest! {
        #[test]
        fn draws_are_different_and_in_range(seed: u64, count in 0_usize..20, bound in 0_usize..40) {
            let drawn = draw(seed, count, bound);
            prop_assert_eq!(drawn.len(), count.min(bound));
            prop_assert!(drawn.iter().all(|place| *place < bound));
            let different: std::collections::HashSet<_> = drawn.iter().collect();
            prop_assert_eq!(different.len(), drawn.len());
        }

        #[test]
        fn intervals_are_shares(shares in prop::collection::vec((0_u64..5, 0_u64..5), 0..30), seed: u64) {
            let groups: Vec<Counted> =
                shares.iter().map(|&(a, b)| Counted { right: a.min(b), answers: b }).collect();
            if let Some((low, high)) = interval(&groups, seed) {
                prop_assert!(0.0 <= low && low <= high && high <= 1.0);
            }
        }
    }
}
