//! Reading a store: a page or a sentence by its title, or a page by its number.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::WikiError;
use super::build::{BUCKET_BITS, BUCKETS, ENTRY, FOOT, MAGIC, MOST_RECORD, PLACE, StoreFacts};
use super::place::{check, part, read_at, u32_at, u64_at};

/// A store, open. Takes a quarter of a megabyte of memory, and can be read from many threads.
#[derive(Debug)]
pub struct Store {
    file: File,
    path: PathBuf,
    facts: StoreFacts,
    buckets: Vec<u32>,
    table: u64,
    order: u64,
    note: String,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    record: Vec<u8>,
    sentences: usize,
    title: std::ops::Range<usize>,
}

impl Store {
    /// Opens a store.
    pub fn open(path: &Path) -> Result<Self, WikiError> {
        let damaged = |reason: &str| WikiError::damaged(path, reason);
        let file = File::open(path).map_err(WikiError::io(path))?;
        let size = file.metadata().map_err(WikiError::io(path))?.len();
        let mut magic = [0; MAGIC.len()];
        let least = (MAGIC.len() + BUCKETS * 4 + FOOT) as u64;
        if size < least {
            return Err(damaged("is too short to be a store of pages"));
        }
        read_at(&file, &mut magic, 0).map_err(WikiError::io(path))?;
        if magic != MAGIC {
            let ours = magic.get(..6) == MAGIC.get(..6);
            return Err(damaged(if ours {
                "is a store of pages of another version"
            } else {
                "is no store of pages"
            }));
        }
        let foot = part(&file, size - FOOT as u64, FOOT).map_err(WikiError::io(path))?;
        let number = |at: usize| u64_at(&foot, at * 8).unwrap_or_default();
        let (pages, table, note) = (number(0), number(3), number(4));
        let length = |each: usize| pages.checked_mul(each as u64);
        let end = || {
            let order = table.checked_add(length(ENTRY)?)?;
            let buckets = order.checked_add(length(PLACE)?)?;
            let end = buckets.checked_add((BUCKETS * 4 + FOOT) as u64)?.checked_add(note)?;
            (end == size && u32::try_from(pages).is_ok()).then_some((order, buckets))
        };
        let (order, buckets) = end().ok_or_else(|| damaged("is cut short or damaged"))?;
        let checked = part(&file, buckets, (size - buckets) as usize).map_err(WikiError::io(path))?;
        let (checked, sum) = checked.split_at(checked.len() - 8);
        if u64_at(sum, 0) != Some(check(checked)) {
            return Err(damaged("is damaged at its end"));
        }
        let buckets: Vec<u32> = (0..BUCKETS).filter_map(|at| u32_at(checked, at * 4)).collect();
        let note = checked.get(BUCKETS * 4..checked.len() - (FOOT - 8)).unwrap_or_default();
        let note = String::from_utf8_lossy(note).into_owned();
        let facts = StoreFacts { pages, sentences: number(1), text: number(2) };
        Ok(Self { file, path: path.to_owned(), facts, buckets, table, order, note })
    }

    /// What it holds.
    pub fn facts(&self) -> StoreFacts {
        self.facts
    }

    /// What its maker noted.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// The page of a title, to the letter but for blanks, which the dump writes `_`. `None`: there is none.
    pub fn page(&self, title: &str) -> Result<Option<Page>, WikiError> {
        let found = self.exactly(title)?;
        if found.is_none() && title.contains(' ') {
            return self.exactly(&title.replace(' ', "_"));
        }
        Ok(found)
    }

    /// A sentence of a page, by its number. `None`: no such page or sentence.
    pub fn sentence(&self, title: &str, number: u32) -> Result<Option<String>, WikiError> {
        Ok(self.page(title)?.and_then(|page| page.sentence(number).map(str::to_owned)))
    }

    fn exactly(&self, title: &str) -> Result<Option<Page>, WikiError> {
        let hash = check(title.as_bytes());
        let bucket = (hash >> (64 - BUCKET_BITS)) as usize;
        let of = |at: usize| self.buckets.get(at).copied().unwrap_or_default();
        let (from, to) = (u64::from(of(bucket)), u64::from(of(bucket + 1)));
        if to <= from || to > self.facts.pages {
            return Ok(None);
        }
        let io = WikiError::io(&self.path);
        let length = (to - from) as usize * ENTRY;
        let entries = part(&self.file, self.table + from * ENTRY as u64, length).map_err(io)?;
        // The later one of equal titles counts.
        for entry in entries.as_chunks::<ENTRY>().0.iter().rev() {
            if u64_at(entry, 0) != Some(hash) {
                continue;
            }
            let (at, length, sum) = (u64_at(entry, 8), u32_at(entry, 16), u32_at(entry, 20));
            let page = self.record(at.unwrap_or_default(), length.unwrap_or_default(), sum)?;
            if page.title() == title {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// A page by its number, from 0, in the order of the dump, each title once. `None` beyond the last one.
    pub fn by_number(&self, number: u32) -> Result<Option<Page>, WikiError> {
        if u64::from(number) >= self.facts.pages {
            return Ok(None);
        }
        let mut place = [0; PLACE];
        read_at(&self.file, &mut place, self.order + u64::from(number) * PLACE as u64)
            .map_err(WikiError::io(&self.path))?;
        let (at, length, sum) = (u64_at(&place, 0), u32_at(&place, 8), u32_at(&place, 12));
        self.record(at.unwrap_or_default(), length.unwrap_or_default(), sum).map(Some)
    }

    fn record(&self, at: u64, length: u32, sum: Option<u32>) -> Result<Page, WikiError> {
        let damaged = || WikiError::damaged(&self.path, format!("the page at byte {at} is damaged"));
        let end = at.checked_add(u64::from(length)).ok_or_else(damaged)?;
        if end > self.table || length > MOST_RECORD as u32 {
            return Err(damaged());
        }
        let record = part(&self.file, at, length as usize).map_err(WikiError::io(&self.path))?;
        if sum != Some(check(&record) as u32) {
            return Err(damaged());
        }
        Page::new(record).ok_or_else(damaged)
    }
}

impl Page {
    /// A page from its record; `None` where it is damaged.
    fn new(record: Vec<u8>) -> Option<Self> {
        let title = u32_at(&record, 0)? as usize;
        let sentences = u32_at(&record, 4)? as usize;
        let begin = sentences.checked_mul(8)?.checked_add(8)?;
        let end = begin.checked_add(title)?;
        let page = Self { sentences, title: begin..end, record };
        std::str::from_utf8(page.record.get(begin..end)?).ok()?;
        let text = page.record.get(end..)?;
        let last = if sentences == 0 { 0 } else { u32_at(&page.record, begin - 4)? as usize };
        (last == text.len()).then_some(page)
    }

    /// The title.
    pub fn title(&self) -> &str {
        let bytes = self.record.get(self.title.clone()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The sentences with their numbers, empty ones too.
    pub fn sentences(&self) -> impl Iterator<Item = (u32, &str)> {
        (0..self.sentences).filter_map(|at| self.at(at))
    }

    /// The sentence of a number.
    pub fn sentence(&self, number: u32) -> Option<&str> {
        // Mostly sentence n stands at place n.
        let guess = self.at(number as usize).filter(|(found, _)| *found == number);
        guess.or_else(|| self.sentences().find(|(found, _)| *found == number)).map(|(_, text)| text)
    }

    fn at(&self, at: usize) -> Option<(u32, &str)> {
        if at >= self.sentences {
            return None;
        }
        let place = at * 8 + 8;
        let number = u32_at(&self.record, place)?;
        let begin = if at == 0 { 0 } else { u32_at(&self.record, place - 4)? as usize };
        let end = u32_at(&self.record, place + 4)? as usize;
        let text = self.record.get(self.title.end..)?.get(begin..end)?;
        Some((number, std::str::from_utf8(text).ok()?))
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
