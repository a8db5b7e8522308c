use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::media::audio::{DecodeSpec, decode_file, fixtures};
use crate::types::Window;

/// Samples at 16 kHz of a fixture: of its file, or as librosa resampled it.
fn wave(name: &str) -> Vec<f32> {
    if let Some((_, wave)) = fixtures::arrays("mel.safetensors").remove(&format!("{name}/wave16k")) {
        return wave;
    }
    let spec = DecodeSpec { rate: RATE, window: Window::Whole, max_seconds: 60.0 };
    decode_file(&fixtures::path(&format!("audio/{name}")), &spec).unwrap().samples
}

fn compute(bins: usize, samples: &[f32]) -> LogMel {
    MelExtractor::new(bins).unwrap().compute(samples).unwrap()
}

/// Against the float64 path of the reference, on `name`, or a part of it.
fn check_f64(name: &str, cut: &str) {
    let arrays = fixtures::arrays("mel_f64.safetensors");
    let mut samples = wave(name);
    match cut {
        "#first30" => samples.truncate(MAX_SAMPLES),
        "#last30" => drop(samples.drain(..samples.len() - MAX_SAMPLES)),
        _ => {}
    }
    let (_, frames) = &arrays[&format!("{name}{cut}/frames")];
    for bins in [80, 128] {
        let mel = compute(bins, &samples);
        let (shape, expected) = &arrays[&format!("{name}{cut}@{bins}")];
        assert_eq!(shape, &[bins, frames.len()]);
        for (bin, row) in expected.chunks_exact(frames.len()).enumerate() {
            for (value, frame) in row.iter().zip(frames) {
                let ours = mel.data[bin * FRAMES + *frame as usize];
                assert!(
                    (ours - value).abs() < 1e-6,
                    "{name}{cut}@{bins} bin {bin} frame {frame}: {ours} {value}"
                );
            }
        }
    }
}

#[test]
fn matches_the_reference_in_float64() {
    for name in ["q_capital_16k.wav", "tiny_0s05_16k.wav", "tone1_16k_odd.wav", "tone3_16k.wav"] {
        check_f64(name, "");
    }
}

#[test]
fn matches_the_reference_in_float64_on_long_clips() {
    check_f64("tone30_16k.flac", "");
    check_f64("tone47_16k.flac", "#first30");
    check_f64("tone47_16k.flac", "#last30");
}

#[test]
fn matches_the_reference_in_float64_on_resampled_clips() {
    for name in ["tone3_8k.wav", "tone2_22k05_float.wav", "tone3_44k1_stereo.wav"] {
        check_f64(name, "");
    }
}

/// The reference's default path rounds to float32 before its Fourier transform: quiet bands carry up to
/// 2.6e-5 of that, and the same code on another machine differs from these figures by 7e-5.
#[test]
fn matches_the_float32_path_as_far_as_it_is_exact() {
    let arrays = fixtures::arrays("mel.safetensors");
    for (key, (shape, expected)) in arrays.iter().filter(|(key, _)| key.ends_with("/mel")) {
        let (name, bins) = key.trim_end_matches("/mel").split_once('@').unwrap();
        let mel = compute(bins.parse().unwrap(), &wave(name));
        let columns = shape[1];
        assert_eq!(columns, mel.valid_frames + 4, "{key}");
        let mut worst: f32 = 0.0;
        let mut sum = 0.0;
        for (ours, theirs) in mel.data.chunks_exact(FRAMES).zip(expected.chunks_exact(columns)) {
            for (frame, value) in ours.iter().enumerate() {
                // The arrays end four frames after the sound; all later ones equal their last.
                let difference = (value - theirs[frame.min(columns - 1)]).abs();
                worst = worst.max(difference);
                sum += f64::from(difference);
            }
        }
        assert!(worst < 3e-5, "{key}: {worst}");
        assert!(sum / (mel.data.len() as f64) < 1e-6, "{key}: {sum}");
    }
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// The statistics that the reference has of each clip, on its default (float32) path.
fn check_statistics(key: &str, samples: &[f32]) {
    const ROUNDING: f64 = 3e-5;
    let json = fixtures::json("mel.json");
    let (entry, bins) = (&json[key], key.split_once('@').unwrap().1.parse().unwrap());
    let mel = compute(bins, samples);
    let near = |name: &str, ours: f64, tolerance: f64| {
        let theirs = entry[name].as_f64().unwrap();
        assert!((ours - theirs).abs() < tolerance, "{key} {name}: {ours} {theirs}");
    };
    let column = |frame: usize, step: usize| -> Vec<f64> {
        (0..bins).step_by(step).map(|bin| f64::from(mel.data[bin * FRAMES + frame])).collect()
    };
    let all_near = |name: &str, ours: Vec<f64>, theirs: Vec<f64>| {
        assert_eq!(ours.len(), theirs.len());
        for (our, their) in ours.iter().zip(theirs) {
            assert!((our - their).abs() < ROUNDING, "{key} {name}: {our} {their}");
        }
    };
    let values = || mel.data.iter().map(|value| f64::from(*value));
    let count = mel.data.len() as f64;
    let mean = values().sum::<f64>() / count;
    assert_eq!(entry["mask_frames"].as_u64().unwrap(), mel.valid_frames as u64);
    near("mean", mean, 1e-6);
    near("std", (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt(), 1e-6);
    near("norm", values().map(|value| value * value).sum::<f64>().sqrt(), 1e-3);
    near("min", values().fold(f64::MAX, f64::min), 1e-6);
    near("max", values().fold(f64::MIN, f64::max), 1e-6);
    all_near("bins_frame0", column(0, 1), floats(&entry["bins_frame0"]));
    let row = |bin: usize| values().skip(bin * FRAMES).take(12).collect::<Vec<f64>>();
    all_near("row0_first12", row(0), floats(&entry["row0_first12"]));
    all_near("row_mid_first12", row(bins / 2), floats(&entry["row_mid_first12"]));
    for (frame, expected) in entry["frames_at"].as_object().unwrap() {
        all_near("frames_at", column(frame.parse().unwrap(), 16), floats(expected));
    }
    for (i, expected) in floats(&entry["frame_norms_every50"]).into_iter().enumerate() {
        let ours = column(i * 50, 1).iter().map(|value| value * value).sum::<f64>().sqrt();
        assert!((ours - expected).abs() < 1e-4, "{key} norm of frame {}: {ours} {expected}", i * 50);
    }
}

#[test]
fn statistics_match_the_reference() {
    for name in [
        "q_capital_16k.wav",
        "tiny_0s05_16k.wav",
        "tone1_16k_odd.wav",
        "tone3_16k.wav",
        "tone3_8k.wav",
        "tone2_22k05_float.wav",
        "tone3_44k1_stereo.wav",
    ] {
        for bins in [80, 128] {
            check_statistics(&format!("{name}@{bins}"), &wave(name));
        }
    }
    // The reference cuts a longer clip to its first 30 s.
    for bins in [80, 128] {
        check_statistics(&format!("tone30_16k.flac@{bins}"), &wave("tone30_16k.flac"));
        check_statistics(&format!("tone47_16k.flac@{bins}"), &wave("tone47_16k.flac")[..MAX_SAMPLES]);
    }
}

#[test]
fn filters_match_the_reference() {
    let arrays = fixtures::arrays("mel.safetensors");
    for bins in [80, 128] {
        let (shape, expected) = &arrays[&format!("mel_filters_{bins}")];
        assert_eq!(shape, &[FREQUENCIES, bins]);
        let mut ours = vec![0.0; FREQUENCIES * bins];
        for (bin, band) in bands(bins).iter().enumerate() {
            for (i, weight) in band.weights.iter().enumerate() {
                ours[(band.first + i) * bins + bin] = *weight as f32;
            }
        }
        for (our, their) in ours.iter().zip(expected) {
            assert!((our - their).abs() < 1e-8, "{our} {their}");
        }
    }
}

#[test]
fn logarithms_are_right() {
    for exponent in -100..60 {
        let values: [f64; LANES] =
            std::array::from_fn(|i| 10_f64.powf(f64::from(exponent) / 10.0) * (1.0 + i as f64 / 8.0));
        for (log, value) in log10(values).iter().zip(values) {
            assert!((f64::from(*log) - value.log10()).abs() < 1.5e-6, "{value}");
        }
    }
}

#[test]
fn silence_is_the_floor() {
    // log10(1e-10) = -10, and (-10 + 4) / 4.
    for samples in [vec![], vec![0.0], vec![0.0; MAX_SAMPLES]] {
        let mel = compute(80, &samples);
        assert_eq!(mel.data.len(), 80 * FRAMES);
        assert_eq!(mel.valid_frames, samples.len().div_ceil(HOP));
        assert!(mel.data.iter().all(|value| (value + 1.5).abs() < 1e-6));
    }
}

#[test]
fn one_sample_reaches_the_frames_around_it() {
    let mel = compute(80, &[0.5]);
    assert_eq!(mel.valid_frames, 1);
    let floor = mel.data[FRAMES - 1];
    // Frame 0 is centred on it, frame 1 begins 40 samples before it, frame 2 begins 120 after it.
    assert!(mel.data[0] > floor && mel.data[1] > floor);
    assert_eq!(mel.data[2], floor);
}

#[test]
fn frames_past_the_sound_are_computed_as_long_as_they_reach_back_to_it() {
    // 6400 samples end at the centre of frame 40, which half hears them; frame 41 begins 40 samples before.
    let samples: Vec<f32> = (0..6400).map(|i| (i as f32 * 0.3).sin()).collect();
    let mel = compute(128, &samples);
    let floor = mel.data[FRAMES - 1];
    let column = |frame: usize| (0..128).map(|bin| mel.data[bin * FRAMES + frame]).fold(floor, f32::max);
    assert_eq!(mel.valid_frames, 40);
    assert!(column(40) > floor && column(41) > floor);
    assert_eq!(column(42), floor);
}

#[test]
fn wrong_sizes_are_refused() {
    assert_eq!(MelExtractor::new(64).err(), Some(MelError::Bins(64)));
    let result = MelExtractor::new(80).unwrap().compute(&vec![0.0; MAX_SAMPLES + 1]);
    assert_eq!(result.err(), Some(MelError::TooLong(MAX_SAMPLES + 1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Where the work is split between threads and where silence is skipped must not show: zeros that are
    /// written out give what zeros that are implied give.
    #[test]
    fn implied_silence_is_silence(length in 0_usize..200_000, zeros in 0_usize..200_000) {
        let mut samples: Vec<f32> = (0..length).map(|i| ((i * i % 977) as f32 / 977.0) - 0.5).collect();
        let short = compute(80, &samples);
        samples.resize(length + zeros, 0.0);
        prop_assert_eq!(short.data, compute(80, &samples).data);
    }
}
