//! The last prompts with their keys and values. The next ones often begin like one of them (worked examples, a passage with
//! several questions): what they have in common is taken over, and only the rest is computed. What prompts of one batch have
//! in common is settled elsewhere (`generate.rs`). This module must not know samples nor texts.

use std::collections::VecDeque;

use candle_core::Result;

use super::nn::cache::Cache;

/// A shorter beginning is not worth a copy.
const LEAST: usize = 32;
/// The most prompts: those of several examples or conditions come in turn.
pub(super) const MOST_PROMPTS: usize = 4;
/// The most memory for all of them.
const MOST_BYTES: usize = 256 << 20;

/// Prompts that were computed last, the latest first.
#[derive(Debug, Default)]
pub(super) struct KeptPrompts {
    kept: VecDeque<Kept>,
    taken_over: u64,
}

#[derive(Debug)]
struct Kept {
    ids: Vec<u32>,
    /// One row, a column for each id.
    cache: Cache,
}

/// Tokens that two prompts have in common at their beginnings.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl KeptPrompts {
    /// Takes over into a row of a cache, from a column on, what a prompt begins with, and tells how many tokens these are.
    /// Its last token is always left to be computed: what follows it is wanted.
    pub(super) fn take_over(&mut self, ids: &[u32], cache: &Cache, place: (usize, usize)) -> Result<usize> {
        let computed = ids.len().saturating_sub(1);
        let known = self.kept.iter().map(|kept| (common(&kept.ids, ids).min(computed), kept));
        let Some((tokens, kept)) =
            known.max_by_key(|(tokens, _)| *tokens).filter(|(tokens, _)| *tokens >= LEAST)
        else {
            return Ok(0);
        };
        cache.copy_from(&kept.cache, tokens, place)?;
        self.taken_over += tokens as u64;
        Ok(tokens)
    }

    /// Keeps a prompt that stands in a row of a cache from a column on, as much of it as there is room for, in place of the
    /// one that it has the most of; the oldest ones go.
    pub(super) fn keep(&mut self, ids: &[u32], cache: &Cache, place: (usize, usize)) -> Result<()> {
        self.keep_within(ids, cache, place, MOST_BYTES / cache.bytes_of_token()?.max(1))
    }

    /// The same with room for so many tokens.
    fn keep_within(
        &mut self,
        ids: &[u32],
        cache: &Cache,
        (row, column): (usize, usize),
        room: usize,
    ) -> Result<()> {
        let ids = ids.get(..ids.len().min(room)).unwrap_or_default();
        if ids.len() < LEAST {
            return Ok(());
        }
        let cache = cache.cut(row, column, ids.len())?;
        let alike = |kept: &Kept| common(&kept.ids, ids) * 2 >= kept.ids.len().min(ids.len());
        if let Some(at) = self.kept.iter().position(alike) {
            self.kept.remove(at);
        }
        self.kept.push_front(Kept { ids: ids.to_vec(), cache });
        let mut held = 0;
        let within = self.kept.iter().take(MOST_PROMPTS).take_while(|kept| {
            held += kept.ids.len();
            held <= room
        });
        let within = within.count();
        self.kept.truncate(within);
        Ok(())
    }

    /// Forgets all prompts.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
    }

    /// How many tokens were taken over so far.
    pub(super) fn taken_over(&self) -> u64 {
        self.taken_over
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};

    use super::*;

    /// A cache of one layer in which each token's key is its id.
    fn cache(ids: &[u32]) -> Cache {
        let cache = Cache::new(1, (2, 1, ids.len() + 3, 1), DType::F32, &Device::Cpu).unwrap();
        let keys: Vec<f32> = ids.iter().map(|&id| id as f32).collect();
        let keys = Tensor::from_vec(keys, (1, ids.len(), 1), &Device::Cpu).unwrap();
        cache.write_row(0, 1, 3, &keys, &keys).unwrap();
        cache
    }

    fn keys(cache: &Cache, row: usize, from: usize, to: usize) -> Vec<f32> {
        cache.row(0, row, from, to).unwrap().0.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn the_beginning_is_taken_over_but_for_the_last_token() {
        let mut kept = KeptPrompts::default();
        let first: Vec<u32> = (0..50).collect();
        kept.keep(&first, &cache(&first), (1, 3)).unwrap();
        let empty = || Cache::new(1, (2, 1, 60, 1), DType::F32, &Device::Cpu).unwrap();
        let into = empty();
        let next: Vec<u32> = (0..40).chain(900..910).collect();
        assert_eq!(kept.take_over(&next, &into, (0, 5)).unwrap(), 40);
        assert_eq!(keys(&into, 0, 5, 45), (0..40).map(|id| id as f32).collect::<Vec<_>>());
        assert_eq!(keys(&into, 0, 45, 50), [0.0; 5]);
        assert_eq!(keys(&into, 1, 0, 60), [0.0; 60]);
        assert_eq!(kept.take_over(&first, &empty(), (0, 0)).unwrap(), 49, "the same prompt again");
        assert_eq!(kept.take_over(&first[..33], &empty(), (0, 0)).unwrap(), 32);
        assert_eq!(kept.take_over(&first[..32], &empty(), (0, 0)).unwrap(), 0, "too little to copy");
        assert_eq!(kept.take_over(&[7; 50], &empty(), (0, 0)).unwrap(), 0);
        assert_eq!(kept.taken_over(), 40 + 49 + 32);
        kept.forget();
        assert_eq!(kept.take_over(&first, &empty(), (0, 0)).unwrap(), 0);
    }

    #[test]
    fn prompts_that_are_alike_replace_each_other_and_the_oldest_go() {
        let mut kept = KeptPrompts::default();
        let prompt =
            |family: u32, end: u32| -> Vec<u32> { (0..40).map(|n| 1000 * family + n).chain([end]).collect() };
        for family in 0..=MOST_PROMPTS as u32 {
            for end in [1, 2] {
                let ids = prompt(family, end);
                kept.keep(&ids, &cache(&ids), (1, 3)).unwrap();
            }
        }
        assert_eq!(kept.kept.len(), MOST_PROMPTS);
        let into = Cache::new(1, (1, 1, 41, 1), DType::F32, &Device::Cpu).unwrap();
        assert_eq!(kept.take_over(&prompt(0, 3), &into, (0, 0)).unwrap(), 0);
        for family in 1..=MOST_PROMPTS as u32 {
            assert_eq!(kept.take_over(&prompt(family, 3), &into, (0, 0)).unwrap(), 40);
            assert_eq!(keys(&into, 0, 39, 40), [1000.0 * family as f32 + 39.0]);
        }
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut kept = KeptPrompts::default();
        let (first, second): (Vec<u32>, Vec<u32>) = ((0..60).collect(), (100..160).collect());
        for ids in [&first, &second] {
            kept.keep_within(ids, &cache(ids), (1, 3), 100).unwrap();
        }
        assert_eq!((kept.kept.len(), kept.kept[0].ids.len()), (1, 60), "the latest one alone fits");
        kept.keep_within(&first, &cache(&first), (1, 3), 50).unwrap();
        assert_eq!((kept.kept.len(), kept.kept[0].ids.len()), (1, 50), "as much of it as fits");
        assert_eq!(cache(&[0]).bytes_of_token().unwrap(), 8);
    }
}
