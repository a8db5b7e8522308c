//! CFEVER's claims with the sentences that a model is shown: dump to store, store to index, claims to rows.
//!
//! Leaves in the data folder `wiki/pages.bin` and, where our own search is asked for, `wiki/index.bin`; and
//! `evidence/SPLIT.jsonl`, the published rows with `found` added, beside the record `evidence/prepare.json`. Each is
//! made once: what is there and was made of the same files in the same way is kept.

mod bare;
mod claims;
mod shots;
mod sources;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::PrepareError;
use crate::benchmark::cfever::NAME;
use crate::dataset::prepared::{SourceRecord, hash_of};
use crate::wiki::{Index, Store, StoreBuilder, WikiError, build_index, dump};
pub use bare::CLAIMS;
use claims::{Facts, MissingGold, Wiki};
use sources::Sources;

/// The folder of store and index, in a data folder.
pub const WIKI: &str = "wiki";
/// The folder of the rows.
pub const EVIDENCE: &str = "evidence";
/// The record beside the rows.
const RECORD: &str = "prepare.json";
/// The version of store note, rows and record.
const VERSION: u32 = 2;
/// Problems that are told one by one.
const TOLD: usize = 20;
/// The files of the authors' dump.
const DUMP_FILES: u64 = 24;
/// The pages of each, but for the last.
const DUMP_PAGES: u64 = 50_000;

/// Where the pages for a claim come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retrieval {
    /// The pages that the authors published.
    Published,
    /// Our own search: titles that stand in the claim, and BM25 over all pages.
    Own,
}

impl Retrieval {
    /// The name that rows and tables use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Own => "own",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct EvidenceAsked {
    /// The data folder.
    pub data: PathBuf,
    /// The folder that is written to; the data folder itself where it is `None`.
    pub to: Option<PathBuf>,
    /// Where pages come from: the published ones where they are there, our own search else.
    pub retrieval: Option<Retrieval>,
    /// How rows are made.
    pub settings: Settings,
    /// Whether rows are to have no sentences, for claims that are judged alone: then no pages need be there.
    pub bare: bool,
    /// Threads.
    pub jobs: NonZeroUsize,
}

/// How rows are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Pages a claim.
    pub pages: usize,
    /// Sentences a claim, in each condition.
    pub sentences: usize,
    /// Worked examples.
    pub shots: usize,
    /// Seed of the draw of these.
    pub seed: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvidenceDone {
    /// Sentences on what was made or is there already.
    pub lines: Vec<String>,
    /// What a user should know, though nothing need be wrong.
    pub warnings: Vec<String>,
    /// What is wrong with the data, the first problems.
    pub problems: Vec<String>,
    /// All problems.
    pub count: u64,
    /// The files of rows.
    pub rows: Vec<PathBuf>,
}

impl EvidenceDone {
    fn problem(&mut self, problem: String) {
        self.count += 1;
        if self.problems.len() < TOLD {
            self.problems.push(problem);
        }
    }
}

/// What is wrong with a dump, as it stands in the note of the store that was made of it: it is said each time, not only
/// when the store is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct DumpFaults {
    /// Pages that a later one of the same title supersedes.
    superseded: u64,
    /// Lines that are no pages.
    problems: u64,
    /// The first of them.
    first: Vec<String>,
}

impl DumpFaults {
    fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn add(&mut self, problem: String) {
        self.problems += 1;
        if self.first.len() < TOLD {
            self.first.push(problem);
        }
    }

    fn tell(&self, done: &mut EvidenceDone) {
        match self.superseded {
            0 => {}
            1 => done.lines.push("the dump has one page twice, of which the later one counts".to_owned()),
            n => done.lines.push(format!("the dump has {n} pages again later, of which the last ones count")),
        }
        done.count += self.problems;
        let room = TOLD.saturating_sub(done.problems.len());
        done.problems.extend(self.first.iter().take(room).cloned());
    }
}

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceEvent {
    /// A stage begins, with so many units to be done.
    Begins(&'static str, u64),
    /// So many units more are done.
    Done(u64),
}

type On<'a> = &'a (dyn Fn(EvidenceEvent) + Sync);

impl From<WikiError> for PrepareError {
    fn from(error: WikiError) -> Self {
        match error {
            WikiError::Io { path, source } => Self::Disk { path, source },
            WikiError::Damaged { .. } | WikiError::TooMuch { .. } => Self::Evidence(error.to_string()),
        }
    }
}

/// What the rows were made of, and how.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    version: u32,
    benchmark: String,
    retrieval: Retrieval,
    settings: Settings,
    store: String,
    sources: Vec<SourceRecord>,
    facts: Vec<Facts>,
}

/// Makes store, index and rows, as far as they are not there.
pub fn prepare_evidence(asked: &EvidenceAsked, on: On<'_>) -> Result<EvidenceDone, PrepareError> {
    if asked.bare {
        return bare::prepare(asked, on);
    }
    let sources = Sources::find(&asked.data, asked.retrieval, asked.settings.shots > 0)?;
    let to = asked.to.as_ref().unwrap_or(&asked.data);
    let wiki = to.join(WIKI);
    std::fs::create_dir_all(&wiki).map_err(PrepareError::disk(&wiki))?;
    let _lock = lock(&wiki)?;
    let mut done = EvidenceDone::default();
    let store = store(&asked.data, &sources, &wiki.join("pages.bin"), on, &mut done)?;
    let index = match sources.retrieval {
        Retrieval::Published => None,
        Retrieval::Own => Some(index(&store, &wiki.join("index.bin"), asked.jobs, on, &mut done)?),
    };
    rows(asked, to, &sources, &store, index.as_ref(), on, &mut done)?;
    Ok(done)
}

/// Held while files are made.
fn lock(folder: &Path) -> Result<File, PrepareError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(PrepareError::disk(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(PrepareError::Locked(folder.to_owned())),
        Err(std::fs::TryLockError::Error(e)) => Err(PrepareError::disk(&path)(e)),
    }
}

/// Counts the bytes that go through it.
struct Counted<'a, R> {
    inner: R,
    on: On<'a>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(into)?;
        (self.on)(EvidenceEvent::Done(read as u64));
        Ok(read)
    }
}

fn store(
    data: &Path,
    sources: &Sources,
    path: &Path,
    on: On<'_>,
    done: &mut EvidenceDone,
) -> Result<Store, PrepareError> {
    let mut note = format!("cfever {VERSION}\n");
    let mut bytes = 0;
    for dump in &sources.dump {
        let source = SourceRecord::of(data, dump).map_err(PrepareError::disk(dump))?;
        bytes += source.bytes;
        note.push_str(&serde_json::to_string(&source).unwrap_or_default());
        note.push('\n');
    }
    if let Ok(store) = Store::open(path)
        && let Some(faults) = store.note().strip_prefix(&note).and_then(DumpFaults::read)
    {
        let facts = store.facts();
        done.lines.push(format!("{}: {} pages, made already", path.display(), facts.pages));
        faults.tell(done);
        done.warnings.extend(other_dump(sources, facts.pages + faults.superseded));
        return Ok(store);
    }
    on(EvidenceEvent::Begins("pages", bytes));
    let part = path.with_extension("part");
    let _unfinished = Unfinished(&part);
    let disk = || PrepareError::disk(&part);
    let out = BufWriter::with_capacity(1 << 20, File::create(&part).map_err(disk())?);
    let mut builder = StoreBuilder::new(out).map_err(disk())?;
    let mut faults = DumpFaults::default();
    for dump in &sources.dump {
        let read = |source| PrepareError::Read { path: dump.clone(), source };
        let file = File::open(dump).map_err(read)?;
        let reader = BufReader::with_capacity(1 << 20, Counted { inner: file, on });
        let mut failed = None;
        let walked = dump::each_line(reader, |number, line| {
            let page = line.and_then(dump::DumpPage::read);
            let at = || format!("{}:{number}", dump.display());
            match page {
                // The dumps of FEVER begin with a page without a title.
                Ok(page) if page.id.is_empty() => {}
                Ok(page) => match builder.add(&page.id, &page.sentences()) {
                    Ok(true) => {}
                    Ok(false) => faults.add(format!("{}: the page is longer than a page can be", at())),
                    Err(e) => {
                        failed = Some(e);
                        return Err(std::io::ErrorKind::Other.into());
                    }
                },
                Err(problem) => faults.add(format!("{}: {problem}", at())),
            }
            Ok(())
        });
        if let Some(e) = failed {
            return Err(disk()(e));
        }
        walked.map_err(read)?;
    }
    faults.superseded = builder.superseded();
    note.push_str(&serde_json::to_string(&faults).unwrap_or_default());
    let (out, facts) = builder.finish(&note).map_err(disk())?;
    finish(out, &part, path)?;
    done.lines.push(format!("{}: {} pages, {} sentences", path.display(), facts.pages, facts.sentences));
    faults.tell(done);
    done.warnings.extend(other_dump(sources, facts.pages + faults.superseded));
    Ok(Store::open(path)?)
}

/// How a dump of so many pages differs from the authors'. It may be meant to.
fn other_dump(sources: &Sources, pages: u64) -> Option<String> {
    let (files, most) = (sources.dump.len() as u64, DUMP_FILES * DUMP_PAGES);
    let is_theirs = files == DUMP_FILES && pages <= most && pages > most - DUMP_PAGES;
    let many = if files == 1 { "file" } else { "files" };
    (!is_theirs).then(|| {
        format!(
            "the dump is of {files} {many} with {pages} pages in all, the authors' of {DUMP_FILES} files with {DUMP_PAGES} \
             each: where it is not meant to be another, parts of it are not there"
        )
    })
}

fn index(
    store: &Store,
    path: &Path,
    jobs: NonZeroUsize,
    on: On<'_>,
    done: &mut EvidenceDone,
) -> Result<Index, PrepareError> {
    if let Ok(index) = Index::open(path, store) {
        done.lines.push(format!("{}: made already", path.display()));
        return Ok(index);
    }
    on(EvidenceEvent::Begins("index", store.facts().text));
    let facts = build_index(store, path, jobs, &|bytes| on(EvidenceEvent::Done(bytes)))?;
    done.lines.push(format!("{}: {} pages, {} terms", path.display(), facts.pages, facts.terms));
    Ok(Index::open(path, store)?)
}

fn rows(
    asked: &EvidenceAsked,
    to: &Path,
    sources: &Sources,
    store: &Store,
    index: Option<&Index>,
    on: On<'_>,
    done: &mut EvidenceDone,
) -> Result<(), PrepareError> {
    let folder = to.join(EVIDENCE);
    std::fs::create_dir_all(&folder).map_err(PrepareError::disk(&folder))?;
    let mut from = Vec::new();
    for path in sources.of_rows() {
        from.push(SourceRecord::of(&asked.data, path).map_err(PrepareError::disk(path))?);
    }
    let record = |facts| Record {
        version: VERSION,
        benchmark: NAME.to_owned(),
        retrieval: sources.retrieval,
        settings: asked.settings,
        store: store.note().to_owned(),
        sources: from.clone(),
        facts,
    };
    let record_path = folder.join(RECORD);
    let file = |facts: &Facts| folder.join(format!("{}.jsonl", facts.split));
    let is_whole = |facts: &Facts| {
        let path = file(facts);
        std::fs::metadata(&path).is_ok_and(|meta| meta.len() == facts.bytes)
            && hash_of(&path).is_ok_and(|hash| facts.blake3 == Some(hash))
    };
    let earlier = std::fs::read(&record_path).ok();
    let earlier: Option<Record> = earlier.and_then(|text| serde_json::from_slice(&text).ok());
    let facts = match earlier {
        Some(earlier) if earlier == record(earlier.facts.clone()) && earlier.facts.iter().all(is_whole) => {
            earlier.facts
        }
        _ => {
            let shots = match &sources.train {
                Some(train) => shots::draw(train, &asked.settings, Some(&mut Wiki::new(store, index)))?,
                None => Vec::new(),
            };
            let mut facts = Vec::new();
            for split in &sources.splits {
                on(EvidenceEvent::Begins(split.name, count_lines(&split.path)?));
                let path = folder.join(format!("{}.jsonl", split.name));
                facts.push(claims::write(asked, sources, split, store, index, &shots, &path, on, done)?);
            }
            let text = serde_json::to_vec_pretty(&record(facts.clone())).unwrap_or_default();
            write_whole(&record_path, &text)?;
            facts
        }
    };
    for facts in facts {
        done.lines.push(format!("{}: {}", file(&facts).display(), facts.describe(sources.retrieval)));
        if let Some(problem) = facts.other_dump() {
            done.problem(problem);
        }
        if let Some(problem) = facts.without_sentences() {
            done.problem(problem);
        }
        match facts.missing_gold() {
            None => {}
            Some(MissingGold::Few(warning)) => done.warnings.push(warning),
            Some(MissingGold::Many(problem)) => done.problem(problem),
        }
        done.rows.push(file(&facts));
    }
    Ok(())
}

fn count_lines(path: &Path) -> Result<u64, PrepareError> {
    let read = |source| PrepareError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(path).map_err(read)?);
    let mut lines = 0;
    loop {
        let bytes = reader.fill_buf().map_err(read)?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        let length = bytes.len();
        reader.consume(length);
    }
}

/// The other name of a file that is being written: what lies there is removed where the file does not come to its end.
struct Unfinished<'a>(&'a Path);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // Nothing lies there where the file has its own name.
        let _ = std::fs::remove_file(self.0);
    }
}

/// Ends a file that was written under another name: from now on it is there, and whole.
fn finish(out: BufWriter<File>, part: &Path, path: &Path) -> Result<(), PrepareError> {
    let file = out.into_inner().map_err(|e| PrepareError::disk(part)(e.into_error()))?;
    file.sync_all().map_err(PrepareError::disk(part))?;
    drop(file);
    std::fs::rename(part, path).map_err(PrepareError::disk(path))
}

/// Writes a file under another name first.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), PrepareError> {
    let part = path.with_extension("part");
    let _unfinished = Unfinished(&part);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    };
    write().map_err(PrepareError::disk(path))
}

#[cfg(test)]
mod tests;
