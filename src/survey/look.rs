//! What the check of the data asks of the media that rows name, answered by a dataset.

use crate::benchmark::LookAtMedia;
use crate::dataset::Dataset;
use crate::media::{MediaContent, SampleValues};
use crate::types::Digest;

/// Suffixes of media that rows of text name.
const SUFFIXES: [&str; 16] = [
    "wav", "flac", "mp3", "ogg", "opus", "m4a", "aac", "webm", "png", "jpg", "jpeg", "webp", "gif", "bmp",
    "tif", "tiff",
];

/// Whether a text looks like the name of a file of media.
pub(super) fn is_file_name(name: &str) -> bool {
    let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
    suffix.is_some_and(|suffix| SUFFIXES.iter().any(|known| known.eq_ignore_ascii_case(suffix)))
        && !name.contains("://")
        && !name.contains('\n')
}

impl LookAtMedia for Dataset {
    fn is_media(&self, name: &str) -> bool {
        self.holds(name) || is_file_name(name)
    }

    fn content(&self, name: &str) -> Option<Digest> {
        let mut hasher = blake3::Hasher::new();
        match self.media(name).ok()?.read().ok()? {
            MediaContent::File(bytes) => {
                hasher.update(&bytes);
            }
            MediaContent::Samples(samples) => {
                hasher.update(&samples.rate.to_le_bytes());
                match samples.values {
                    SampleValues::I16(values) => update(&mut hasher, values.iter().map(|v| v.to_le_bytes())),
                    SampleValues::F32(values) => update(&mut hasher, values.iter().map(|v| v.to_le_bytes())),
                    SampleValues::F64(values) => update(&mut hasher, values.iter().map(|v| v.to_le_bytes())),
                }
            }
        }
        Some(Digest(*hasher.finalize().as_bytes()))
    }
}

fn update<const N: usize>(hasher: &mut blake3::Hasher, values: impl Iterator<Item = [u8; N]>) {
    let bytes: Vec<u8> = values.flatten().collect();
    hasher.update(&bytes);
}
