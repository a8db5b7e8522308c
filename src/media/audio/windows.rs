//! Long clips in windows of at most 30 s, for models that hear no more at once.
//!
//! A window ends where the clip is quietest within the window's last five seconds, so that a word is seldom cut in two.
//! Nothing is left out and nothing heard twice. It takes samples and gives parts: it must not know files or models.

use std::ops::Range;

/// Samples of a whole window: 30 s at 16 kHz.
const WINDOW: usize = 480_000;
/// The end of a window may be moved back by so many samples.
const LEEWAY: usize = 80_000;
/// Samples of a step of the search: 20 ms.
const STEP: usize = 320;
/// Steps whose loudness is taken together: 100 ms.
const STEPS: usize = 5;

/// The windows of a clip at 16 kHz, one behind the other. A clip of at most 30 s, an empty one too, is one window.
pub fn cut(samples: &[f32]) -> Vec<&[f32]> {
    let mut rest = samples;
    let mut windows = Vec::new();
    while rest.len() > WINDOW {
        let (window, later) = rest.split_at(quietest(rest, WINDOW - LEEWAY..WINDOW));
        windows.push(window);
        rest = later;
    }
    windows.push(rest);
    windows
}

/// The middle of the quietest 100 ms within a range; of equals the last.
fn quietest(samples: &[f32], range: Range<usize>) -> usize {
    let loudness: Vec<f64> = samples
        .get(range.clone())
        .unwrap_or_default()
        .chunks_exact(STEP)
        .map(|step| step.iter().map(|&x| f64::from(x) * f64::from(x)).sum())
        .collect();
    let mut best = (f64::INFINITY, range.end);
    for (index, steps) in loudness.windows(STEPS).enumerate() {
        let sum: f64 = steps.iter().sum();
        if sum <= best.0 {
            best = (sum, range.start + index * STEP + STEPS * STEP / 2);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_clips_are_one_window() {
        for length in [0, 1, 321, WINDOW] {
            assert_eq!(cut(&vec![0.5; length]).iter().map(|w| w.len()).collect::<Vec<_>>(), [length]);
        }
    }

    #[test]
    fn long_clips_are_cut_where_they_are_quietest_and_nothing_is_lost() {
        let mut samples: Vec<f32> = (0..1_200_000).map(|i| (i as f32 * 0.3).sin()).collect();
        // A pause of 0.2 s at 27 s, and one at 55 s.
        samples[430_400..433_600].fill(0.001);
        samples[878_400..881_600].fill(0.0);
        let windows = cut(&samples);
        assert_eq!(windows.concat(), samples);
        assert!(windows.iter().all(|window| window.len() <= WINDOW));
        let lengths: Vec<usize> = windows.iter().map(|window| window.len()).collect();
        assert!((430_400..433_600).contains(&lengths[0]), "{lengths:?}");
        assert!((878_400..881_600).contains(&(lengths[0] + lengths[1])), "{lengths:?}");
        assert_eq!(lengths.len(), 3);
    }

    proptest::proptest! {
        #[test]
        fn any_samples_are_cut_whole(length in 0..1_500_000_usize, value in proptest::num::f32::ANY) {
            let samples = vec![value; length];
            let windows = cut(&samples);
            proptest::prop_assert_eq!(windows.iter().map(|w| w.len()).sum::<usize>(), length);
            proptest::prop_assert!(windows.iter().all(|w| w.len() <= WINDOW));
        }
    }
}
