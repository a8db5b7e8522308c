//! Several clips as one: each decoded, mixed to mono and brought to one rate by itself, then set one behind the other.

use bytes::Bytes;

use super::audio::DecodeSpec;
use super::content::Content;
use super::source::{MediaSource, SampleValues};
use super::{sentence, wav};
use crate::types::{AudioSource, Window};

/// The rate of joined clips, in Hz: the one that recognisers of speech and language models hear.
const RATE: u32 = 16_000;

/// Clips that were joined.
pub(super) struct Joint {
    /// A WAV file of floats.
    pub(super) file: Bytes,
    /// What was done, by name.
    pub(super) steps: Vec<String>,
}

/// Joins clips, with so many milliseconds of silence between them. An error is a sentence that reads well after the
/// name of the whole.
pub(super) fn join(pieces: &[MediaSource], gap_ms: u32) -> Result<Joint, String> {
    let spec = DecodeSpec { rate: RATE, window: Window::Whole, max_seconds: f64::INFINITY };
    let gap =
        usize::try_from(u64::from(gap_ms) * u64::from(RATE) / 1000).map_err(|_| "is too long".to_owned())?;
    let mut steps = Vec::new();
    let mut samples: Vec<f32> = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let clip = Content::open(piece).and_then(|content| content.decode(&spec).map_err(sentence));
        let clip = clip.map_err(|reason| format!("{piece}: {reason}"))?;
        for step in clip.record.steps {
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
        if number > 0 {
            samples.resize(samples.len() + gap, 0.0);
        }
        samples.extend_from_slice(&clip.samples);
    }
    let mut cut = 0_u64;
    for sample in &mut samples {
        if sample.abs() > 1.0 {
            cut += 1;
            *sample = sample.clamp(-1.0, 1.0);
        }
    }
    if cut > 0 {
        steps.push(format!("clip:{cut}"));
    }
    if pieces.len() > 1 {
        let gap = if gap_ms > 0 { format!("+{gap_ms}ms") } else { String::new() };
        steps.push(format!("join:{}{gap}", pieces.len()));
    }
    Ok(Joint { file: wav::container(&SampleValues::F32(samples), RATE)?, steps })
}

/// What joined clips come to, by their headers; nothing is decoded.
pub(super) fn probe(pieces: &[MediaSource], gap_ms: u32) -> Result<AudioSource, String> {
    let mut frames = u64::from(gap_ms) * u64::from(RATE) / 1000 * pieces.len().saturating_sub(1) as u64;
    for piece in pieces {
        let source = super::probe(piece).map_err(|reason| format!("{piece}: {reason}"))?;
        let seconds = source.frames as f64 / f64::from(source.rate.max(1));
        frames = frames.saturating_add((seconds * f64::from(RATE)).round() as u64);
    }
    Ok(AudioSource { format: "wav".to_owned(), rate: RATE, channels: 1, bits: 32, frames })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{Preparer, Transcode};
    use crate::model::{AudioNeed, MediaLimits};
    use crate::types::{AudioContent, AudioRef};

    fn file(dir: &std::path::Path, name: &str, rate: u32, samples: Vec<f32>) -> MediaSource {
        let path = dir.join(name);
        std::fs::write(&path, wav::container(&SampleValues::F32(samples), rate).unwrap()).unwrap();
        path.into()
    }

    #[test]
    fn clips_of_mixed_rates_have_the_length_of_both() {
        let dir = tempfile::tempdir().unwrap();
        let high = file(dir.path(), "a.wav", 48_000, vec![0.25; 48_000]);
        let low = file(dir.path(), "b.wav", 16_000, vec![-0.5; 16_000]);
        for (gap, expect, steps) in [
            (0, 32_000, vec!["resample:soxr_hq", "join:2"]),
            (200, 35_200, vec!["resample:soxr_hq", "join:2+200ms"]),
        ] {
            let joint = join(&[high.clone(), low.clone()], gap).unwrap();
            let spec = DecodeSpec { rate: 16_000, window: Window::Whole, max_seconds: 30.0 };
            let clip = super::super::audio::decode_bytes(&joint.file, &spec).unwrap();
            assert!(clip.samples.len().abs_diff(expect) <= 2, "{}", clip.samples.len());
            assert!((clip.samples[8_000] - 0.25).abs() < 1e-3 && clip.samples[expect - 100] == -0.5);
            assert_eq!(joint.steps, steps);
            assert_eq!(probe(&[high.clone(), low.clone()], gap).unwrap().frames, expect as u64);
        }
    }

    #[test]
    fn one_clip_alone_is_brought_to_the_rate_of_several() {
        let dir = tempfile::tempdir().unwrap();
        let high = file(dir.path(), "a.wav", 48_000, vec![0.25; 48_000]);
        let joint = join(std::slice::from_ref(&high), 200).unwrap();
        assert_eq!(joint.steps, ["resample:soxr_hq"]);
        let source = super::super::audio::probe_bytes(&joint.file).unwrap();
        assert_eq!(source.rate, 16_000);
        assert!(source.frames.abs_diff(16_000) <= 2, "{source:?}");
    }

    #[test]
    fn what_is_too_loud_is_cut_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let loud = file(dir.path(), "a.wav", 16_000, vec![0.5, 1.2, -1.5, 1.0]);
        let joint = join(&[loud.clone(), loud], 0).unwrap();
        assert_eq!(joint.steps, ["clip:4", "join:2"]);
    }

    #[test]
    fn a_model_gets_joined_clips_as_one_and_the_record_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let one = file(dir.path(), "a.wav", 16_000, vec![0.5; 8_000]);
        let other = file(dir.path(), "b.wav", 8_000, vec![0.25; 4_000]);
        let audio = AudioNeed::File { formats: vec!["wav".to_owned()], max_bytes: u64::MAX };
        let limits = MediaLimits { audio, max_seconds: 30.0, images: crate::model::ImageNeed::None };
        let whole = AudioRef { name: "x".to_owned(), window: Window::Whole };
        let preparer = Preparer::new(&limits, Transcode::Never).unwrap();
        let ready =
            preparer.audio(&MediaSource::joined(vec![one.clone(), other.clone()], 0), &whole).unwrap();
        assert_eq!(ready.record.steps, ["resample:soxr_hq", "join:2", "encode:wav16"]);
        assert_eq!((ready.record.samples, ready.record.rate), (16_000, 16_000));
        let AudioContent::File(sent) = &ready.audio.content else { panic!("a file") };
        assert_eq!(sent.seconds, 1.0);
        // In another order it is another clip.
        let turned = preparer.audio(&MediaSource::joined(vec![other, one], 0), &whole).unwrap();
        assert_ne!(turned.audio.digest, ready.audio.digest);
        let limits = MediaLimits { audio: AudioNeed::LogMel { bins: 80 }, ..limits };
        let preparer = Preparer::new(&limits, Transcode::Never).unwrap();
        let gone = MediaSource::joined(vec![dir.path().join("gone.wav").into()], 0);
        let error = preparer.audio(&gone, &whole).unwrap_err().to_string();
        assert!(error.contains("gone.wav"), "{error}");
        let heard =
            MediaSource::joined(vec![dir.path().join("a.wav").into(), dir.path().join("b.wav").into()], 0);
        let ready = preparer.audio(&heard, &whole).unwrap();
        assert_eq!(ready.record.steps, ["resample:soxr_hq", "join:2"]);
    }
}
