//! Writing a store: pages as they come, then the table of titles.
//!
//! The file, all numbers little-endian:
//! - 8 bytes: name and version;
//! - a record a page: `u32` length of the title, `u32` number of sentences, for each sentence `u32` number and `u32` end
//!   of its text, then the title and the texts;
//! - the table, sorted: for each page `u64` hash of the title, `u64` place and `u32` length of its record, `u32` check;
//! - the order: for each page the `u64` place and `u32` length of its record, `u32` check;
//! - the buckets: for each value of the first 16 bits of a hash, `u32` how many pages have less, and one more at the end;
//! - a note of the caller's, mostly what the store was made from;
//! - the foot: `u64` pages, sentences, bytes of text, place of the table, length of the note, and a check of these, the
//!   buckets and the note.
//!
//! Of several pages of one title the last counts: the records of earlier ones lie in the file, and nothing leads to them.

use std::io::Write;

use super::place::{check, more_of_check};

/// Name and version: what a store begins with.
pub(super) const MAGIC: [u8; 8] = *b"HWIKI\x00\x02\x00";
/// The table has a bucket for each value of so many first bits of a hash.
pub(super) const BUCKET_BITS: u32 = 16;
/// Buckets, and one more.
pub(super) const BUCKETS: usize = (1 << BUCKET_BITS) + 1;
/// Bytes of a page in the table.
pub(super) const ENTRY: usize = 24;
/// Bytes of a page in the order.
pub(super) const PLACE: usize = 16;
/// Bytes of the foot.
pub(super) const FOOT: usize = 48;
/// The largest record: longer pages are damage.
pub(super) const MOST_RECORD: usize = 1 << 28;

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFacts {
    /// Pages.
    pub pages: u64,
    /// Sentences.
    pub sentences: u64,
    /// Bytes of titles and sentences.
    pub text: u64,
}

/// Writes a store.
#[derive(Debug)]
pub struct StoreBuilder<W> {
    out: W,
    at: u64,
    facts: StoreFacts,
    entries: Vec<Entry>,
    superseded: u64,
    record: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    /// More of the hash, so that two titles are never taken for one.
    more: u64,
    sentences: u32,
    at: u64,
    length: u32,
    check: u32,
}

impl<W: Write> StoreBuilder<W> {
    /// Begins a store.
    pub fn new(mut out: W) -> std::io::Result<Self> {
        out.write_all(&MAGIC)?;
        let at = MAGIC.len() as u64;
        Ok(Self {
            out,
            at,
            facts: StoreFacts::default(),
            entries: Vec::new(),
            superseded: 0,
            record: Vec::new(),
        })
    }

    /// A page. Of two of one title the later one counts. `false`: it is longer than a page can be, and left out.
    pub fn add(&mut self, title: &str, sentences: &[(u32, &str)]) -> std::io::Result<bool> {
        let text: usize = sentences.iter().map(|(_, text)| text.len()).sum();
        let head = 8 + 8 * sentences.len() + title.len();
        if head.saturating_add(text) > MOST_RECORD {
            return Ok(false);
        }
        let record = &mut self.record;
        record.clear();
        record.extend((title.len() as u32).to_le_bytes());
        record.extend((sentences.len() as u32).to_le_bytes());
        let mut end = 0;
        for (number, text) in sentences {
            end += text.len() as u32;
            record.extend(number.to_le_bytes());
            record.extend(end.to_le_bytes());
        }
        record.extend(title.as_bytes());
        for (_, text) in sentences {
            record.extend(text.as_bytes());
        }
        self.out.write_all(record)?;
        let length = record.len() as u32;
        self.entries.push(Entry {
            hash: check(title.as_bytes()),
            more: more_of_check(title.as_bytes()),
            sentences: sentences.len() as u32,
            at: self.at,
            length,
            check: check(record) as u32,
        });
        self.at += u64::from(length);
        self.facts.pages += 1;
        self.facts.sentences += sentences.len() as u64;
        self.facts.text += (title.len() + text) as u64;
        Ok(true)
    }

    /// How many pages came so far that a later one of the same title supersedes.
    pub fn superseded(&mut self) -> u64 {
        self.entries.sort_unstable_by_key(|entry| (entry.hash, entry.more, entry.at));
        let mut kept: Vec<Entry> = Vec::with_capacity(self.entries.len());
        for entry in self.entries.drain(..) {
            match kept.last_mut() {
                Some(last) if (last.hash, last.more) == (entry.hash, entry.more) => {
                    let earlier = std::mem::replace(last, entry);
                    let sentences = u64::from(earlier.sentences);
                    self.superseded += 1;
                    self.facts.pages -= 1;
                    self.facts.sentences -= sentences;
                    self.facts.text -= u64::from(earlier.length).saturating_sub(8 + 8 * sentences);
                }
                _ => kept.push(entry),
            }
        }
        self.entries = kept;
        self.superseded
    }

    /// Writes the table and the foot. `note` is kept with the store.
    pub fn finish(mut self, note: &str) -> std::io::Result<(W, StoreFacts)> {
        self.superseded();
        let table = self.at;
        self.entries.sort_unstable_by_key(|entry| entry.at);
        let mut order = Vec::with_capacity(self.entries.len() * PLACE);
        for entry in &self.entries {
            order.extend(entry.at.to_le_bytes());
            order.extend(entry.length.to_le_bytes());
            order.extend(entry.check.to_le_bytes());
        }
        self.entries.sort_unstable_by_key(|entry| (entry.hash, entry.at));
        let mut counts = vec![0u32; BUCKETS];
        for entry in &self.entries {
            if let Some(count) = counts.get_mut((entry.hash >> (64 - BUCKET_BITS)) as usize + 1) {
                *count += 1;
            }
            self.out.write_all(&entry.hash.to_le_bytes())?;
            self.out.write_all(&entry.at.to_le_bytes())?;
            self.out.write_all(&entry.length.to_le_bytes())?;
            self.out.write_all(&entry.check.to_le_bytes())?;
        }
        self.out.write_all(&order)?;
        let mut less = 0u32;
        let mut checked = Vec::with_capacity(BUCKETS * 4 + note.len() + FOOT);
        for count in counts {
            less += count;
            checked.extend(less.to_le_bytes());
        }
        checked.extend(note.as_bytes());
        let StoreFacts { pages, sentences, text } = self.facts;
        for number in [pages, sentences, text, table, note.len() as u64] {
            checked.extend(number.to_le_bytes());
        }
        checked.extend(check(&checked).to_le_bytes());
        self.out.write_all(&checked)?;
        self.out.flush()?;
        Ok((self.out, self.facts))
    }
}
