//! What tests share: the fixtures' folder and a reader of their arrays.

#[path = "../../../tests/support/flac_writer.rs"]
pub(super) mod flac_writer;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

/// The path of a fixture.
pub(super) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A JSON fixture.
pub(super) fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path(name)).unwrap()).unwrap()
}

/// The f32 arrays of a safetensors fixture, with their shapes.
pub(super) fn arrays(name: &str) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let bytes = std::fs::read(path(name)).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let body = &bytes[8 + header_len..];
    let list = |value: &Value| -> Vec<usize> {
        value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect()
    };
    header
        .into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, entry)| {
            assert_eq!(entry["dtype"], "F32");
            let span = list(&entry["data_offsets"]);
            let values = body[span[0]..span[1]]
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect();
            (name, (list(&entry["shape"]), values))
        })
        .collect()
}

/// A plain WAV file of integer samples.
pub(super) fn wav_of(channels: &[Vec<i32>], bits: u16, rate: u32) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels: channels.len() as u16,
        sample_rate: rate,
        bits_per_sample: bits,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = std::io::Cursor::new(Vec::new());
    // hound would write the extensible header for 24 bits and more than two channels; so do other tools.
    let mut writer = hound::WavWriter::new(&mut file, spec).unwrap();
    for frame in 0..channels[0].len() {
        for channel in channels {
            writer.write_sample(channel[frame]).unwrap();
        }
    }
    writer.finalize().unwrap();
    file.into_inner()
}
