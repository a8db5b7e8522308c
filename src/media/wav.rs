//! Samples to WAV files: of 16-bit PCM, the one thing that a clip may be turned into on its way to an endpoint, and
//! a container for samples that a dataset holds without one.

use std::io::Cursor;

use bytes::Bytes;

use super::source::SampleValues;

/// A mono file, and how many samples were beyond full scale and had to be cut.
pub(super) fn encode(samples: &[f32], rate: u32) -> Result<(Bytes, u64), hound::Error> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = Cursor::new(Vec::with_capacity(44 + 2 * samples.len()));
    let mut writer = hound::WavWriter::new(&mut file, spec)?;
    let mut cut = 0;
    {
        let count = u32::try_from(samples.len()).map_err(|_| hound::Error::TooWide)?;
        let mut fast = writer.get_i16_writer(count);
        for sample in samples {
            // 16-bit sources were divided by 32768: they come back exactly.
            let value = (sample * 32768.0).round();
            cut += u64::from(!(-32768.0..=32767.0).contains(&value));
            fast.write_sample(value.clamp(-32768.0, 32767.0) as i16);
        }
        fast.flush()?;
    }
    writer.finalize()?;
    Ok((file.into_inner().into(), cut))
}

/// A mono file of samples as they are. Values of 64 bits become floats of 32, which is what decoding gives anyway.
pub(super) fn container(values: &SampleValues, rate: u32) -> Result<Bytes, String> {
    let (tag, width, count) = match values {
        SampleValues::I16(values) => (1_u16, 2_u32, values.len()),
        SampleValues::F32(values) => (3, 4, values.len()),
        SampleValues::F64(values) => (3, 4, values.len()),
    };
    let too_long = || format!("has {count} samples, more than a WAV file holds: leave the row out");
    let size = u32::try_from(count).ok().and_then(|count| count.checked_mul(width)).ok_or_else(too_long)?;
    let riff = size.checked_add(36).ok_or_else(too_long)?;
    let mut out = Vec::with_capacity(44 + size as usize);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&riff.to_le_bytes());
    out.extend_from_slice(b"WAVEfmt \x10\0\0\0");
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&1_u16.to_le_bytes());
    out.extend_from_slice(&rate.to_le_bytes());
    out.extend_from_slice(&rate.saturating_mul(width).to_le_bytes());
    out.extend_from_slice(&(width as u16).to_le_bytes());
    out.extend_from_slice(&(width as u16 * 8).to_le_bytes());
    out.extend_from_slice(b"data");
    out.extend_from_slice(&size.to_le_bytes());
    match values {
        SampleValues::I16(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        SampleValues::F32(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        SampleValues::F64(values) => {
            out.extend(values.iter().flat_map(|value| (*value as f32).to_le_bytes()));
        }
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::audio::{DecodeSpec, decode_bytes};
    use crate::types::Window;

    #[test]
    fn samples_without_a_container_come_back_exactly() {
        let spec = DecodeSpec { rate: 48_000, window: Window::Whole, max_seconds: 30.0 };
        let check = |values: SampleValues, expected: &[f32]| {
            let file = container(&values, 48_000).unwrap();
            assert_eq!(decode_bytes(&file, &spec).unwrap().samples, expected);
            assert_eq!(hound::WavReader::new(Cursor::new(file.to_vec())).unwrap().spec().sample_rate, 48_000);
        };
        check(SampleValues::I16(vec![-32768, 1]), &[-1.0, 1.0 / 32768.0]);
        check(SampleValues::F32(vec![1.25, -0.1]), &[1.25, -0.1]);
        check(SampleValues::F64(vec![0.1, -2.0]), &[0.1, -2.0]);
    }

    #[test]
    fn sixteen_bit_samples_come_back_exactly_and_louder_ones_are_counted() {
        let values = [-32768_i16, -1, 0, 1, 12345, 32767];
        let samples: Vec<f32> = values.iter().map(|value| f32::from(*value) / 32768.0).collect();
        let (file, cut) = encode(&samples, 8000).unwrap();
        let mut reader = hound::WavReader::new(Cursor::new(file.to_vec())).unwrap();
        assert_eq!(reader.spec().sample_rate, 8000);
        assert_eq!(reader.samples::<i16>().map(Result::unwrap).collect::<Vec<_>>(), values);
        assert_eq!(cut, 0);
        assert_eq!(encode(&[1.0, -1.5, 0.5], 8000).unwrap().1, 2);
    }
}
