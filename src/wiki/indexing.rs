//! Making an index: pages to sorted runs on all processors, runs to one file.
//!
//! The file, all numbers little-endian or in groups of seven bits:
//! - 8 bytes: name and version;
//! - postings: for each term, in the order of terms, pairs of the distance to the page before and the count there;
//! - the dictionary in blocks of [`BLOCK`] terms: for each term the distance to the one before (to 0 for the first of a
//!   block), the number of pages, the length of its postings;
//! - the first terms: for each block `u64` first term, `u64` place in the dictionary, `u64` place of its postings;
//! - the lengths: for each page `u32` how many terms it has;
//! - the foot: `u64` pages, terms, sum of lengths, place of the dictionary, place of the first terms, check of the store,
//!   and a check of these, the first terms and the lengths.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::place::{check, put_varint};
use super::store::Store;
use super::terms::{Term, terms};
use super::{Page, WikiError};

/// Name and version: what an index begins with.
pub(super) const MAGIC: [u8; 8] = *b"HWIDX\x00\x01\x00";
/// Terms of a block of the dictionary.
pub(super) const BLOCK: u64 = 64;
/// Bytes of the foot.
pub(super) const FOOT: usize = 56;
/// How often a term of the title counts: a page is about its title. Our choice.
const TITLE_COUNTS: u32 = 3;
/// Pages whose terms are sorted together: about 100 MB a thread for pages of 1,500 characters.
const RUN: u32 = 8192;

/// What an index holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFacts {
    /// Pages.
    pub pages: u64,
    /// Different terms.
    pub terms: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Makes the index of a store on `jobs` threads. `on` hears how many bytes of text were read each time.
pub fn build_index(
    store: &Store,
    path: &Path,
    jobs: NonZeroUsize,
    on: &(dyn Fn(u64) + Sync),
) -> Result<IndexFacts, WikiError> {
    let io = WikiError::io(path);
    let pages = u32::try_from(store.facts().pages)
        .map_err(|_| WikiError::TooMuch { what: "more pages than an index holds", path: path.to_owned() })?;
    // Runs go to one file beside the index, which is removed from the folder as soon as it is open where that can be.
    let runs_path = path.with_extension("runs");
    let runs = File::options().read(true).write(true).create(true).truncate(true).open(&runs_path);
    let runs = runs.map_err(WikiError::io(&runs_path))?;
    let _remove = Remove(&runs_path);
    let shared = Mutex::new(Runs { file: BufWriter::with_capacity(1 << 20, runs), at: 0, parts: Vec::new() });
    let next = AtomicU32::new(0);
    let stop = AtomicBool::new(false);
    let work = || -> Result<Vec<(u32, Vec<u32>)>, WikiError> {
        let mut lengths = Vec::new();
        loop {
            let first = next.fetch_add(RUN, Ordering::Relaxed);
            if first >= pages || stop.load(Ordering::Relaxed) {
                return Ok(lengths);
            }
            let done =
                one_run(store, first, pages.min(first.saturating_add(RUN)), on).and_then(|(bytes, of)| {
                    let mut runs = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    runs.add(first, &bytes).map_err(WikiError::io(&runs_path))?;
                    lengths.push((first, of));
                    Ok(())
                });
            if let Err(e) = done {
                stop.store(true, Ordering::Relaxed);
                return Err(e);
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.get()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut lengths = vec![0; pages as usize];
    for result in results {
        let done = result.map_err(|_| WikiError::damaged(path, "a thread that made it ended early"))??;
        for (first, of) in done {
            if let Some(place) = lengths.get_mut(first as usize..first as usize + of.len()) {
                place.copy_from_slice(&of);
            }
        }
    }
    let mut runs = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    runs.file.flush().map_err(WikiError::io(&runs_path))?;
    runs.parts.sort_unstable();
    let part = path.with_extension("part");
    let _remove_part = Remove(&part);
    let out = BufWriter::with_capacity(1 << 20, File::create(&part).map_err(WikiError::io(&part))?);
    let facts = merge(&runs.parts, &runs_path, out, &lengths, check(store.note().as_bytes()));
    let facts = facts.map_err(WikiError::io(&part))?;
    std::fs::rename(&part, path).map_err(io)?;
    Ok(facts)
}

/// Removes a file at the end.
struct Remove<'a>(&'a Path);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

/// Runs that lie behind each other in one file.
struct Runs {
    file: BufWriter<File>,
    at: u64,
    /// First page, place, length.
    parts: Vec<(u32, u64, u64)>,
}

impl Runs {
    fn add(&mut self, first: u32, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.parts.push((first, self.at, bytes.len() as u64));
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// The sorted terms of some pages (term, length in bytes, number of pages, postings), and the lengths of these pages.
fn one_run(
    store: &Store,
    from: u32,
    to: u32,
    on: &(dyn Fn(u64) + Sync),
) -> Result<(Vec<u8>, Vec<u32>), WikiError> {
    // Term, page, count: sorting sorts by term, then by page.
    let mut all: Vec<(Term, u32, u32)> = Vec::new();
    let mut lengths = Vec::with_capacity((to - from) as usize);
    let mut page_terms = Vec::new();
    let mut bytes = 0;
    for number in from..to {
        let page = store.by_number(number)?;
        let Some(page) = page else { break };
        bytes += page_text(&page, &mut page_terms);
        lengths.push(page_terms.len() as u32);
        page_terms.sort_unstable();
        for same in page_terms.chunk_by(|a, b| a == b) {
            all.extend(same.first().map(|term| (*term, number, same.len() as u32)));
        }
        if number % 512 == 511 {
            on(std::mem::take(&mut bytes));
        }
    }
    on(bytes);
    all.sort_unstable();
    let mut out = Vec::with_capacity(all.len() * 4);
    let (mut postings, mut before_term) = (Vec::new(), 0);
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let Some((term, ..)) = same.first() else { continue };
        postings.clear();
        let mut before = from;
        for (_, page, count) in same {
            put_varint(&mut postings, u64::from(page - before));
            put_varint(&mut postings, u64::from(*count));
            before = *page;
        }
        put_varint(&mut out, term - before_term);
        before_term = *term;
        put_varint(&mut out, same.len() as u64);
        put_varint(&mut out, u64::from(before));
        put_varint(&mut out, postings.len() as u64);
        out.extend(&postings);
    }
    Ok((out, lengths))
}

/// The terms of a page, those of its title several times; gives the bytes of its text.
fn page_text(page: &Page, into: &mut Vec<Term>) -> u64 {
    into.clear();
    for _ in 0..TITLE_COUNTS {
        terms(page.title(), |term| into.push(term));
    }
    let mut bytes = page.title().len();
    for (_, sentence) in page.sentences() {
        bytes += sentence.len();
        terms(sentence, |term| into.push(term));
    }
    bytes as u64
}

/// A run that is being read.
struct Reading {
    input: io::Take<BufReader<File>>,
    first: u32,
    term: Term,
    pages: u64,
    last: u32,
    postings: Vec<u8>,
}

impl Reading {
    /// The next term; `false` at the end.
    fn next(&mut self) -> io::Result<bool> {
        if self.input.limit() == 0 {
            return Ok(false);
        }
        self.term = self.term.wrapping_add(self.varint()?);
        self.pages = self.varint()?;
        self.last = self.varint()? as u32;
        let length = self.varint()? as usize;
        self.postings.resize(length, 0);
        self.input.read_exact(&mut self.postings)?;
        Ok(true)
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.input.read_exact(&mut byte)?;
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(number);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// The runs, in the order of their pages, to the file.
fn merge(
    parts: &[(u32, u64, u64)],
    runs: &Path,
    mut out: BufWriter<File>,
    lengths: &[u32],
    store: u64,
) -> io::Result<IndexFacts> {
    let mut open = Vec::with_capacity(parts.len());
    let mut heap = BinaryHeap::new();
    for (number, (first, at, length)) in parts.iter().enumerate() {
        let mut file = File::open(runs)?;
        file.seek(SeekFrom::Start(*at))?;
        let input = BufReader::with_capacity(1 << 16, file).take(*length);
        let mut run = Reading { input, first: *first, term: 0, pages: 0, last: 0, postings: Vec::new() };
        if run.next()? {
            heap.push(Reverse((run.term, number)));
        }
        open.push(run);
    }
    out.write_all(&MAGIC)?;
    let mut at = MAGIC.len() as u64;
    let (mut dictionary, mut firsts, mut postings) = (Vec::new(), Vec::new(), Vec::new());
    let (mut count, mut before_term) = (0u64, 0);
    while let Some(Reverse((term, _))) = heap.peek().copied() {
        postings.clear();
        let (mut pages, mut last) = (0, 0);
        while let Some(Reverse((same, number))) = heap.peek().copied().filter(|top| top.0.0 == term) {
            heap.pop();
            let Some(run) = open.get_mut(number) else { continue };
            // The first distance counts from the first page of the run, the others are between pages.
            let mut rest = &run.postings[..];
            let distance = super::place::take_varint(&mut rest).ok_or(io::ErrorKind::InvalidData)?;
            put_varint(&mut postings, u64::from(run.first) + distance - u64::from(last));
            postings.extend(rest);
            pages += run.pages;
            last = run.last;
            if run.next()? {
                debug_assert!(run.term > same);
                heap.push(Reverse((run.term, number)));
            }
        }
        if count.is_multiple_of(BLOCK) {
            for number in [term, dictionary.len() as u64, at] {
                firsts.extend(u64::to_le_bytes(number));
            }
            before_term = 0;
        }
        put_varint(&mut dictionary, term - before_term);
        put_varint(&mut dictionary, pages);
        put_varint(&mut dictionary, postings.len() as u64);
        out.write_all(&postings)?;
        at += postings.len() as u64;
        before_term = term;
        count += 1;
    }
    let dictionary_at = at;
    out.write_all(&dictionary)?;
    let firsts_at = at + dictionary.len() as u64;
    let mut checked = firsts;
    for length in lengths {
        checked.extend(length.to_le_bytes());
    }
    let sum: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
    for number in [lengths.len() as u64, count, sum, dictionary_at, firsts_at, store] {
        checked.extend(number.to_le_bytes());
    }
    checked.extend(check(&checked).to_le_bytes());
    out.write_all(&checked)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    let bytes = firsts_at + checked.len() as u64;
    Ok(IndexFacts { pages: lengths.len() as u64, terms: count, bytes })
}
