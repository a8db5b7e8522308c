//! Searching an index: the pages that share the most telling words with a text, by BM25.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::WikiError;
use super::indexing::{BLOCK, FOOT, MAGIC};
use super::place::{check, part, read_at, take_varint, u32_at, u64_at};
use super::store::Store;
use super::terms::{Term, counted};

/// BM25 with the values that Anserini and Pyserini have by default.
pub(super) const K1: f32 = 0.9;
pub(super) const B: f32 = 0.4;

/// Bytes of a block in the list of first terms.
const FIRST: usize = 24;

/// An index, open. Takes 4 bytes a page and 24 bytes for 64 terms of memory.
#[derive(Debug)]
pub struct Index {
    file: File,
    path: PathBuf,
    firsts: Vec<(Term, u64, u64)>,
    /// What a page's length does to the weight of its terms.
    norms: Vec<f32>,
    dictionary: u64,
    dictionary_end: u64,
}

/// A page that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Its number in the store.
    pub page: u32,
    /// How well it fits.
    pub score: f32,
}

impl Eq for Hit {}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The better hit is less, so that a sorted list begins with the best; of equals the earlier page.
impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.page.cmp(&other.page))
    }
}

impl Index {
    /// Opens the index of a store.
    pub fn open(path: &Path, store: &Store) -> Result<Self, WikiError> {
        let damaged = |reason: &str| WikiError::damaged(path, reason);
        let io = || WikiError::io(path);
        let file = File::open(path).map_err(io())?;
        let size = file.metadata().map_err(io())?.len();
        let mut magic = [0; MAGIC.len()];
        if size < (MAGIC.len() + FOOT) as u64 {
            return Err(damaged("is too short to be an index of pages"));
        }
        read_at(&file, &mut magic, 0).map_err(io())?;
        if magic != MAGIC {
            return Err(damaged("is no index of pages, or one of another version"));
        }
        let foot = part(&file, size - FOOT as u64, FOOT).map_err(io())?;
        let number = |at: usize| u64_at(&foot, at * 8).unwrap_or_default();
        let (pages, terms, sum, dictionary, firsts_at) =
            (number(0), number(1), number(2), number(3), number(4));
        let blocks = terms.div_ceil(BLOCK);
        let whole = || {
            let end = blocks.checked_mul(FIRST as u64)?.checked_add(pages.checked_mul(4)?)?;
            let end = end.checked_add(firsts_at)?.checked_add(FOOT as u64)?;
            (end == size && dictionary <= firsts_at && u32::try_from(pages).is_ok()).then_some(())
        };
        whole().ok_or_else(|| damaged("is cut short or damaged"))?;
        let checked = part(&file, firsts_at, (size - firsts_at) as usize).map_err(io())?;
        let (checked, check_of) = checked.split_at(checked.len() - 8);
        if u64_at(check_of, 0) != Some(check(checked)) {
            return Err(damaged("is damaged at its end"));
        }
        if pages != store.facts().pages || number(5) != check(store.note().as_bytes()) {
            return Err(damaged("is the index of other pages"));
        }
        let block = |at: usize| {
            let of = |field: usize| u64_at(checked, at * FIRST + field * 8);
            Some((of(0)?, of(1)?, of(2)?))
        };
        let firsts = (0..blocks as usize).filter_map(block).collect();
        let lengths = blocks as usize * FIRST;
        let mean = if pages == 0 { 1.0 } else { (sum as f64 / pages as f64).max(1.0) };
        let norm = |at: usize| {
            let length = u32_at(checked, lengths + at * 4)?;
            Some(K1 * (1.0 - B + B * (f64::from(length) / mean) as f32))
        };
        let norms = (0..pages as usize).filter_map(norm).collect();
        Ok(Self { file, path: path.to_owned(), firsts, norms, dictionary, dictionary_end: firsts_at })
    }

    /// Someone who searches: takes 4 bytes a page. One a thread.
    pub fn searcher(&self) -> Searcher<'_> {
        Searcher { index: self, scores: vec![0.0; self.norms.len()], touched: Vec::new() }
    }

    /// The number of pages with a term, and the place and length of its postings.
    fn find(&self, term: Term) -> Result<Option<(u64, u64, usize)>, WikiError> {
        let block = self.firsts.partition_point(|(first, ..)| *first <= term);
        let before = block.checked_sub(1).and_then(|block| self.firsts.get(block)).copied();
        let Some((_, at, mut postings)) = before else { return Ok(None) };
        let all = self.dictionary_end - self.dictionary;
        let end = self.firsts.get(block).map_or(all, |(_, at, _)| *at);
        let damaged = || WikiError::damaged(&self.path, "its dictionary is damaged");
        if at > end || end > all {
            return Err(damaged());
        }
        let bytes = part(&self.file, self.dictionary + at, (end - at) as usize);
        let bytes = bytes.map_err(WikiError::io(&self.path))?;
        let (mut rest, mut found) = (&bytes[..], 0u64);
        while !rest.is_empty() {
            let mut number = || take_varint(&mut rest).ok_or_else(damaged);
            found = found.wrapping_add(number()?);
            let (pages, length) = (number()?, number()?);
            let after = postings.checked_add(length).filter(|end| *end <= self.dictionary);
            let after = after.ok_or_else(damaged)?;
            if found == term {
                return Ok(Some((pages, postings, length as usize)));
            }
            if found > term {
                break;
            }
            postings = after;
        }
        Ok(None)
    }
}

/// Searches an index.
#[derive(Debug)]
pub struct Searcher<'a> {
    index: &'a Index,
    scores: Vec<f32>,
    touched: Vec<u32>,
}

impl Searcher<'_> {
    /// The `k` pages that fit a text best, the best first.
    pub fn search(&mut self, text: &str, k: usize) -> Result<Vec<Hit>, WikiError> {
        let done = self.add_up(text);
        let mut best: BinaryHeap<Hit> = BinaryHeap::with_capacity(k + 1);
        for page in self.touched.drain(..) {
            let Some(score) = self.scores.get_mut(page as usize) else { continue };
            let hit = Hit { page, score: std::mem::take(score) };
            // The top of the heap is the worst of the best.
            if best.len() < k {
                best.push(hit);
            } else if best.peek().is_some_and(|worst| hit < *worst) {
                best.pop();
                best.push(hit);
            }
        }
        done?;
        Ok(best.into_sorted_vec())
    }

    fn add_up(&mut self, text: &str) -> Result<(), WikiError> {
        let index = self.index;
        let damaged = || WikiError::damaged(&index.path, "its postings are damaged");
        let all = index.norms.len() as f32;
        for (term, asked) in counted(text) {
            let Some((pages, at, length)) = index.find(term)? else { continue };
            let bytes = part(&index.file, at, length).map_err(WikiError::io(&index.path))?;
            let weight = asked as f32 * (1.0 + (all - pages as f32 + 0.5) / (pages as f32 + 0.5)).ln();
            let (mut rest, mut page) = (&bytes[..], 0u64);
            for _ in 0..pages {
                page = page.saturating_add(take_varint(&mut rest).ok_or_else(damaged)?);
                let count = take_varint(&mut rest).ok_or_else(damaged)? as f32;
                let place = page as usize;
                let (Some(score), Some(norm)) = (self.scores.get_mut(place), index.norms.get(place)) else {
                    return Err(damaged());
                };
                if *score == 0.0 {
                    self.touched.push(page as u32);
                }
                *score += weight * count * (K1 + 1.0) / (count + norm);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
