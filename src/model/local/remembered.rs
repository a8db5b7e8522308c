//! What encoders made of the clips and images that were used last, so that each is encoded once however many prompts
//! have it. This module must not know encoders.

use std::collections::HashMap;

use candle_core::{Result, Tensor};

use crate::types::Digest;

/// The most clips and bytes that are remembered after they were encoded.
const MOST_CLIPS: usize = 256;
const MOST_BYTES: usize = 512 << 20;

/// Vectors of the clips or images that were used last.
#[derive(Default)]
pub(super) struct Remembered {
    clips: HashMap<Digest, (Tensor, u64)>,
    bytes: usize,
    clock: u64,
    computed: u64,
}

impl Remembered {
    /// The vectors of what has this digest.
    fn get(&mut self, digest: Digest) -> Option<Tensor> {
        self.clock += 1;
        let (vectors, used) = self.clips.get_mut(&digest)?;
        *used = self.clock;
        Some(vectors.clone())
    }

    /// Remembers vectors, and forgets those that were used longest ago where there are too many.
    fn put(&mut self, digest: Digest, vectors: &Tensor) {
        let size = |vectors: &Tensor| vectors.elem_count() * vectors.dtype().size_in_bytes();
        self.clock += 1;
        self.computed += 1;
        self.bytes += size(vectors);
        if let Some((old, _)) = self.clips.insert(digest, (vectors.clone(), self.clock)) {
            self.bytes -= size(&old);
        }
        while self.clips.len() > MOST_CLIPS || self.bytes > MOST_BYTES {
            let oldest = self.clips.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest);
            let Some((old, _)) = oldest.and_then(|digest| self.clips.remove(&digest)) else { break };
            self.bytes -= size(&old);
        }
    }

    /// The vectors of media, remembered or computed: so many together as `fits` lets go with what a batch weighs already
    /// and what the next one weighs, and at least one.
    pub(super) fn all<M: Copy>(
        &mut self,
        media: &[(Digest, M)],
        weight: impl Fn(M) -> usize,
        fits: impl Fn(usize, usize) -> bool,
        mut encode: impl FnMut(&[M]) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        let mut found: Vec<Option<Tensor>> = media.iter().map(|(digest, _)| self.get(*digest)).collect();
        let missing: Vec<usize> = (0..media.len()).filter(|&index| found[index].is_none()).collect();
        let mut start = 0;
        while start < missing.len() {
            let (mut end, mut total) = (start, 0);
            while end < missing.len() {
                let next = weight(media[missing[end]].1);
                if end > start && !fits(total, next) {
                    break;
                }
                total += next;
                end += 1;
            }
            let batch: Vec<M> = missing[start..end].iter().map(|&index| media[index].1).collect();
            for (&index, vectors) in missing[start..end].iter().zip(encode(&batch)?) {
                self.put(media[index].0, &vectors);
                found[index] = Some(vectors);
            }
            start = end;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// How many vectors it was given so far.
    pub(super) fn computed(&self) -> u64 {
        self.computed
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    #[test]
    fn the_clips_used_last_are_remembered() {
        let mut remembered = Remembered::default();
        let digest = |number: usize| Digest::of(&number.to_le_bytes());
        let vectors = Tensor::zeros((4, 2), DType::F32, &Device::Cpu).unwrap();
        for number in 0..MOST_CLIPS {
            remembered.put(digest(number), &vectors);
        }
        assert!(remembered.get(digest(0)).is_some());
        remembered.put(digest(MOST_CLIPS), &vectors);
        assert!(remembered.get(digest(0)).is_some() && remembered.get(digest(1)).is_none());
        assert_eq!(remembered.bytes, MOST_CLIPS * 32);
        let large = Tensor::zeros((MOST_BYTES / 4, 1), DType::F32, &Device::Cpu).unwrap();
        remembered.put(digest(9999), &large);
        assert_eq!((remembered.clips.len(), remembered.bytes), (1, MOST_BYTES));
    }
}
