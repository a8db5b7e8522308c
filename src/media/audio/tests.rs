//! Decoding against the fixtures: what soundfile and librosa read from the same files.

use super::*;
use mel::MelExtractor;

const RATE: u32 = 16_000;

pub(super) fn spec(window: Window, max_seconds: f64) -> DecodeSpec {
    DecodeSpec { rate: RATE, window, max_seconds }
}

fn whole(name: &str) -> Clip {
    decode_file(&fixtures::path(&format!("audio/{name}")), &spec(Window::Whole, 60.0)).unwrap()
}

fn native(name: &str, rate: u32) -> Clip {
    let spec = DecodeSpec { rate, window: Window::Whole, max_seconds: f64::INFINITY };
    decode_file(&fixtures::path(&format!("audio/{name}")), &spec).unwrap()
}

#[test]
fn files_are_read_as_soundfile_reads_them() {
    let json = fixtures::json("audio/audio.json");
    for (name, entry) in json.as_object().unwrap() {
        let rate = entry["rate"].as_u64().unwrap() as u32;
        let clip = native(name, rate);
        let source = probe_file(&fixtures::path(&format!("audio/{name}"))).unwrap();
        assert_eq!(source, clip.record.source);
        assert_eq!(source.rate, rate);
        assert_eq!(source.frames, entry["frames"].as_u64().unwrap());
        assert_eq!(u64::from(source.channels), entry["channels"].as_u64().unwrap());
        assert_eq!(source.bits, if entry["subtype"] == "FLOAT" { 32 } else { 16 });
        assert_eq!(Some(source.format.as_str()), name.rsplit('.').next());
        assert_eq!(clip.samples.len() as u64, source.frames);
        if source.channels > 1 {
            continue;
        }
        let sum: f64 = clip.samples.iter().map(|sample| f64::from(*sample)).sum();
        let squares: f64 = clip.samples.iter().map(|sample| f64::from(*sample).powi(2)).sum();
        assert!((sum - entry["sum_ch0"].as_f64().unwrap()).abs() < 1e-9, "{name}");
        assert!((squares - entry["sumsq_ch0"].as_f64().unwrap()).abs() < 1e-9, "{name}");
        for (ours, theirs) in clip.samples.iter().zip(entry["first16_ch0"].as_array().unwrap()) {
            assert!((f64::from(*ours) - theirs.as_f64().unwrap()).abs() < 1e-6, "{name}");
        }
    }
}

/// Signal over difference in dB, without the first and last 400 samples.
fn snr(ours: &[f32], theirs: &[f32]) -> f64 {
    let inner = 400..ours.len() - 400;
    let pairs = ours[inner.clone()].iter().zip(&theirs[inner]);
    let (signal, noise) = pairs.fold((0.0, 0.0), |(signal, noise), (ours, theirs)| {
        let (ours, theirs) = (f64::from(*ours), f64::from(*theirs));
        (signal + theirs * theirs, noise + (ours - theirs).powi(2))
    });
    10.0 * (signal / noise).log10()
}

#[test]
fn resampling_agrees_with_soxr() {
    for (key, (_, theirs)) in fixtures::arrays("mel.safetensors") {
        if let Some(name) = key.strip_suffix("/wave16k") {
            let ours = whole(name);
            assert_eq!(ours.samples.len(), theirs.len());
            assert!(ours.record.steps.contains(&"resample:soxr_hq".to_owned()));
            let snr = snr(&ours.samples, &theirs);
            println!("{name}: {snr:.1} dB");
            assert!(snr > 60.0, "{name}: {snr} dB");
        }
    }
}
