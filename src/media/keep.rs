//! What a dataset holds of a clip or image, as a file of its own: the bytes as they are, or, for samples without a
//! container, the smallest WAV file that holds the same values.

use std::io::Cursor;

use bytes::Bytes;

use super::source::{MediaContent, RawSamples, SampleValues};
use super::{audio, image, sentence, wav};
use crate::types::AudioSource;

/// How a file holds what a dataset held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The same bytes.
    Original,
    /// Samples as 16-bit integers, with the same values.
    Pcm16,
    /// Samples as 32-bit floats, with the same values.
    Float32,
    /// Samples of 64 bits that were rounded to floats of 32.
    Rounded,
}

/// A clip or image as a file.
#[derive(Clone, Debug, PartialEq)]
pub struct AsFile {
    /// The file.
    pub bytes: Bytes,
    /// The suffix of its name, by its content: `wav`, `png`…
    pub suffix: &'static str,
    /// How it holds the content.
    pub form: Form,
    /// What the header says, for audio whose headers are read.
    pub audio: Option<AudioSource>,
    /// Samples beyond full scale; they are kept, and only looked for in samples without a container.
    pub beyond: u64,
}

/// Makes a file of what a dataset holds. An error is a sentence that reads well after the media's name.
pub fn as_file(content: MediaContent) -> Result<AsFile, String> {
    match content {
        MediaContent::File(bytes) => original(&bytes),
        MediaContent::Samples(samples) => of_samples(samples),
    }
}

fn original(bytes: &Bytes) -> Result<AsFile, String> {
    let original =
        |suffix, audio| AsFile { bytes: bytes.clone(), suffix, form: Form::Original, audio, beyond: 0 };
    if let Ok(format) = image::format(bytes) {
        return Ok(original(if format == "jpeg" { "jpg" } else { format }, None));
    }
    match audio::format(&mut Cursor::new(bytes)).map_err(sentence)? {
        Ok(format @ ("wav" | "flac")) => {
            let source = audio::probe_bytes(bytes).map_err(sentence)?;
            Ok(original(format, Some(source)))
        }
        Ok(format) => Ok(original(format, None)),
        // What it should have been is not known here: a clip or an image.
        Err(other) => Err(other.of_neither()),
    }
}

fn of_samples(samples: RawSamples) -> Result<AsFile, String> {
    let RawSamples { rate, values } = samples;
    let narrow = match &values {
        SampleValues::I16(_) => None,
        SampleValues::F32(values) => sixteen_bits(values, f64::from),
        SampleValues::F64(values) => sixteen_bits(values, |value| value),
    };
    let (form, beyond) = match (&values, &narrow) {
        (SampleValues::I16(_), _) | (_, Some(_)) => (Form::Pcm16, 0),
        (SampleValues::F32(values), None) => {
            if !values.iter().all(|value| value.is_finite()) {
                return Err(NOT_FINITE.to_owned());
            }
            (Form::Float32, values.iter().filter(|value| value.abs() > 1.0).count() as u64)
        }
        (SampleValues::F64(values), None) => {
            if !values.iter().all(|value| (*value as f32).is_finite()) {
                return Err(NOT_FINITE.to_owned());
            }
            let same = values.iter().all(|value| f64::from(*value as f32) == *value);
            let beyond = values.iter().filter(|value| value.abs() > 1.0).count() as u64;
            (if same { Form::Float32 } else { Form::Rounded }, beyond)
        }
    };
    let values = narrow.map_or(values, SampleValues::I16);
    let bytes = wav::container(&values, rate)?;
    let source = audio::probe_bytes(&bytes).map_err(sentence)?;
    Ok(AsFile { bytes, suffix: "wav", form, audio: Some(source), beyond })
}

const NOT_FINITE: &str = "has samples that are no finite numbers (NaN or infinity), which cannot be played";

/// Floats as 16-bit integers, where each is a multiple of 1/32768 within full scale: then nothing is lost.
fn sixteen_bits<T: Copy>(values: &[T], wide: impl Fn(T) -> f64) -> Option<Vec<i16>> {
    let mut out = Vec::with_capacity(values.len());
    // In pieces, so that floats of finer steps are found out at the first of them.
    for piece in values.chunks(1024) {
        let mut exact = true;
        out.extend(piece.iter().map(|value| {
            let scaled = wide(*value) * 32768.0;
            let narrow = scaled as i16;
            exact &= f64::from(narrow) == scaled;
            narrow
        }));
        if !exact {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::audio::{DecodeSpec, decode_bytes};
    use crate::types::Window;

    fn of(values: SampleValues) -> Result<AsFile, String> {
        as_file(MediaContent::Samples(RawSamples { rate: 48_000, values }))
    }

    fn decoded(file: &AsFile) -> Vec<f32> {
        let spec = DecodeSpec { rate: 48_000, window: Window::Whole, max_seconds: 30.0 };
        decode_bytes(&file.bytes, &spec).unwrap().samples
    }

    #[test]
    fn samples_take_sixteen_bits_only_where_nothing_is_lost() {
        let fine = vec![-1.0_f32, 0.5, 1.0 / 32768.0, 32767.0 / 32768.0];
        let file = of(SampleValues::F32(fine.clone())).unwrap();
        assert_eq!((file.form, file.bytes.len(), file.beyond), (Form::Pcm16, 44 + 8, 0));
        assert_eq!(decoded(&file), fine);
        for odd in [1.0_f32, 0.1, -1.25, 1.0 / 65536.0] {
            let file = of(SampleValues::F32(vec![0.25, odd])).unwrap();
            assert_eq!((file.form, file.bytes.len()), (Form::Float32, 44 + 8));
            assert_eq!(file.beyond, u64::from(odd < -1.0));
            assert_eq!(decoded(&file), [0.25, odd]);
        }
        let whole = of(SampleValues::F64(vec![0.5, -0.25])).unwrap();
        assert_eq!((whole.form, decoded(&whole)), (Form::Pcm16, vec![0.5, -0.25]));
        assert_eq!(of(SampleValues::F64(vec![0.1_f32.into()])).unwrap().form, Form::Float32);
        let rounded = of(SampleValues::F64(vec![0.1])).unwrap();
        assert_eq!((rounded.form, decoded(&rounded)), (Form::Rounded, vec![0.1]));
        assert_eq!(of(SampleValues::I16(vec![7, -8])).unwrap().form, Form::Pcm16);
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for values in [
            SampleValues::F32(vec![0.5, f32::NAN]),
            SampleValues::F32(vec![f32::INFINITY]),
            SampleValues::F64(vec![f64::NAN]),
            SampleValues::F64(vec![1e300]),
        ] {
            assert!(of(values).unwrap_err().contains("no finite numbers"));
        }
    }

    #[test]
    fn files_keep_their_bytes_and_are_named_by_their_content() {
        let check = |bytes: &'static [u8], suffix: &str| {
            let file = as_file(MediaContent::File(Bytes::from_static(bytes))).unwrap();
            assert_eq!((&*file.bytes, file.suffix, file.form), (bytes, suffix, Form::Original));
        };
        check(b"\x89PNG\r\n\x1a\n\0\0", "png");
        check(b"\xff\xd8\xff\xe0\0\x10JFIF", "jpg");
        check(b"ID3\x04\0\0\0\0\0\0\xff\xfb\x90\0", "mp3");
        let cut = as_file(MediaContent::File(Bytes::from_static(b"RIFF\x10\0\0\0WAVE"))).unwrap_err();
        assert!(!cut.is_empty());
        let refused = |bytes| as_file(MediaContent::File(Bytes::from_static(bytes))).unwrap_err();
        assert!(refused(b"<html>").contains("is a web page (HTML), no clip and no image"));
        let garbage = refused(b"\x01\x02\x03garbage");
        assert!(garbage.starts_with("is no clip and no image") && !garbage.contains("ffmpeg"), "{garbage}");
    }

    proptest::proptest! {
        #[test]
        fn every_sixteen_bit_value_comes_back(values in proptest::collection::vec(proptest::num::i16::ANY, 1..50)) {
            let floats = values.iter().map(|value| f32::from(*value) / 32768.0).collect::<Vec<_>>();
            let file = of(SampleValues::F32(floats.clone())).unwrap();
            proptest::prop_assert_eq!(file.form, Form::Pcm16);
            proptest::prop_assert_eq!(decoded(&file), floats);
        }

        #[test]
        fn any_finite_float_comes_back(values in proptest::collection::vec(-2.0_f32..2.0, 1..50)) {
            proptest::prop_assert_eq!(decoded(&of(SampleValues::F32(values.clone())).unwrap()), values);
        }
    }
}
