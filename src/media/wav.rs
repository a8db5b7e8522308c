//! Samples to a WAV file of 16-bit PCM, the one thing that a clip may be turned into on its way to an endpoint.

use std::io::Cursor;

use bytes::Bytes;

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

#[cfg(test)]
mod tests {
    use super::*;

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
