//! The journal of a run: `responses.jsonl`, append-only, one line a response.
//!
//! The first line is a header with the format's version. A line counts once it is whole: a torn last line,
//! which a killed process leaves behind, is cut off when the journal is opened for writing, and its request
//! is done again. Nothing is ever rewritten; a later response to a request replaces an earlier one for those
//! who read. The journal must not know what the texts in it mean.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

pub use super::journal_index::Near;
use super::journal_index::{Entry, Index, Line, LineMedia, Place};
use super::journal_io::{Reader, Syncer};
use super::journal_scan::{Scan, scan};
use crate::types::{Digest, JudgeRecord, MediaRecord, Outcome, Response, Tags, Usage};

pub use super::journal_scan::Unchanged;

/// The version of the journal's format that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

const FORMAT: &str = "harness-responses";

/// How long written lines may wait before the disk is told to keep them.
const SYNC_EVERY: Duration = Duration::from_secs(2);

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A write failed; what was written before is safe.
    #[error(
        "{}: the response could not be written: {source}; all earlier responses are kept. Make room or mend the \
         folder, then run the same command again: it goes on from there", .path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a journal.
    #[error(
        "{}: the first line is not the header of a response journal; move the file away or give the run another \
         name", .0.display()
    )]
    Header(PathBuf),
    /// A line that begins like a response and is none.
    #[error(
        "{}: the line at byte {offset} is not a whole response ({reason}); it was damaged or edited: delete that \
         line, and its request is done again", .path.display()
    )]
    Response {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Another version.
    #[error(
        "{}: written in version {found} of the journal's format, this program reads version {VERSION}; use the \
         version of harness that wrote it, or give the run another name", .path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the header names.
        found: u64,
    },
}

#[derive(Deserialize)]
struct Header {
    format: String,
    version: u64,
}

/// The part of a response that scoring needs.
#[derive(Deserialize)]
struct Scored {
    key: Digest,
    request: Digest,
    outcome: Outcome,
    text: String,
    usage: Usage,
    seconds: f64,
    attempts: u32,
    #[serde(default)]
    media: Vec<MediaRecord>,
    #[serde(default)]
    media_bytes: Option<u64>,
    #[serde(default)]
    reused_from: Option<Digest>,
    #[serde(default)]
    judge: Option<JudgeRecord>,
    #[serde(default)]
    answered_as: Option<String>,
}

impl From<Scored> for Response {
    fn from(scored: Scored) -> Self {
        let Scored { key, request, outcome, text, usage, seconds, attempts, media, .. } = scored;
        Self {
            key,
            request,
            benchmark: String::new(),
            sample: String::new(),
            tags: Tags::new(),
            outcome,
            text,
            language: None,
            error: None,
            tokens: None,
            usage,
            seconds,
            attempts,
            media,
            media_bytes: scored.media_bytes,
            reused_from: scored.reused_from,
            judge: scored.judge,
            answered_as: scored.answered_as,
            time: String::new(),
        }
    }
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Where the next line goes: the end of the last whole one.
    end: u64,
    index: Index,
    reader: RefCell<Reader>,
    damaged: Vec<u64>,
    torn: bool,
    unsynced: bool,
    last_sync: Instant,
    syncer: Syncer,
    /// The models that answers of this process are of, where they are not those that were asked for.
    answered_as: BTreeSet<String>,
}

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It needs no work.
    Answered,
    /// It was asked, and the model or its media failed.
    Failed,
    /// It was not asked, or its media have changed since.
    Unasked,
}

impl Journal {
    /// Opens a journal to go on with it, making it if it is not there. A torn last line is cut off.
    /// `unchanged` tells whether the media of responses are as they were.
    pub fn append_to(path: &Path, unchanged: Unchanged<'_>) -> Result<Self, JournalError> {
        let io = |source| JournalError::Io { path: path.to_owned(), source };
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
        let mut journal = Self::over(path, file, unchanged)?;
        journal.file.set_len(journal.end).map_err(io)?;
        if journal.end == 0 {
            journal.write_line(header_line())?;
            journal.sync()?;
        }
        Ok(journal)
    }

    /// Opens a journal to read it. `None` where there is none. A torn last line is passed over. Media are not
    /// looked at.
    pub fn read(path: &Path) -> Result<Option<Self>, JournalError> {
        match File::open(path) {
            Ok(file) => Self::over(path, file, &|_, _, _| true).map(Some),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(JournalError::Io { path: path.to_owned(), source }),
        }
    }

    fn over(path: &Path, file: File, unchanged: Unchanged<'_>) -> Result<Self, JournalError> {
        let Scan { end, index, damaged, torn } = scan(path, &file, unchanged)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            end,
            index,
            reader: RefCell::default(),
            damaged,
            torn,
            unsynced: false,
            last_sync: Instant::now(),
            syncer: Syncer::default(),
            answered_as: BTreeSet::new(),
        })
    }

    /// Lines in the middle that are not responses, by number: their requests are done again.
    pub fn damaged_lines(&self) -> &[u64] {
        &self.damaged
    }

    /// A few words on the lines in the middle that are not responses, for a sentence: how many, and where the first is.
    pub fn damage(&self) -> Option<String> {
        let first = self.damaged.first()?;
        Some(format!("{}: {} damaged lines (the first is line {first})", self.name(), self.damaged.len()))
    }

    /// How people call it: its path in the run's folder; of transcripts, which are not in there, the whole path.
    pub fn name(&self) -> String {
        let mut names = self.path.iter().rev().map(std::ffi::OsStr::to_string_lossy);
        let file = names.next().unwrap_or_default();
        match names.next() {
            Some(folder) if folder == "verdicts" => format!("{folder}/{file}"),
            _ if names.next().is_some_and(|folder| folder == "transcripts") => {
                self.path.display().to_string()
            }
            _ => file.into_owned(),
        }
    }

    /// Requests that have a response.
    pub fn len(&self) -> usize {
        self.index.requests()
    }

    /// Whether no request has a response.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a torn last line was found.
    pub fn was_torn(&self) -> bool {
        self.torn
    }

    /// Tokens of all that was asked, repeated requests included.
    pub fn spent(&self) -> Usage {
        self.index.spent()
    }

    /// The models that endpoints said have answered since the journal was opened, where they are not those that were
    /// asked for.
    pub fn answered_as(&self) -> Vec<String> {
        self.answered_as.iter().cloned().collect()
    }

    /// The latest response to a request.
    pub fn response(&self, request: &Digest) -> Result<Option<Response>, JournalError> {
        self.index.request(request).map(|place| self.load(place)).transpose()
    }

    /// The latest response to a request, as scoring needs it: without what stands there for people who read the
    /// journal (section, sample, tags, time, tokens' ids), which takes half of the time to read.
    pub fn to_score(&self, request: &Digest) -> Result<Option<Response>, JournalError> {
        let Some(place) = self.index.request(request) else { return Ok(None) };
        let scored: Scored = self.load_as(place)?;
        Ok(Some(scored.into()))
    }

    /// The latest answer under a key.
    pub fn answer(&self, key: &Digest) -> Result<Option<Response>, JournalError> {
        self.index.key(key).map(|place| self.load(place)).transpose()
    }

    /// How a request stands, of those that are looked at in plan order.
    pub fn stand(&self, request: &Digest, near: &mut Near) -> Stand {
        match self.index.request_near(request, near) {
            Some(place) if !place.outcome.is_answer() => Stand::Failed,
            Some(place) if place.as_it_was => Stand::Answered,
            Some(_) | None => Stand::Unasked,
        }
    }

    fn load(&self, place: &Place) -> Result<Response, JournalError> {
        self.load_as(place)
    }

    fn load_as<T: serde::de::DeserializeOwned>(&self, place: &Place) -> Result<T, JournalError> {
        let io = |source| JournalError::Io { path: self.path.clone(), source };
        let mut reader = self.reader.borrow_mut();
        let line = reader.read(&self.file, place.offset, place.bytes as usize, self.end).map_err(io)?;
        serde_json::from_slice(line).map_err(|e| JournalError::Response {
            path: self.path.clone(),
            offset: place.offset,
            reason: e.to_string(),
        })
    }

    /// Writes a response as one line. On failure the journal is as it was before.
    pub fn append(&mut self, response: &Response) -> Result<(), JournalError> {
        let mut line = Vec::with_capacity(1024);
        serde_json::to_writer(&mut line, response)
            .map_err(|e| JournalError::Write { path: self.path.clone(), source: e.into() })?;
        let offset = self.end;
        let bytes = self.write_line(line)?;
        let media = response.media.iter().map(|record| LineMedia {
            name: record.name.as_str().into(),
            bytes: record.bytes,
            modified: record.modified,
        });
        let line = Line {
            key: response.key,
            request: response.request,
            benchmark: response.benchmark.as_str().into(),
            outcome: response.outcome,
            usage: response.usage,
            media: media.collect(),
            reused_from: response.reused_from,
        };
        self.index.insert(Entry::new(&line, offset, bytes, true));
        if let Some(model) = response.answered_as.as_ref().filter(|model| !self.answered_as.contains(*model))
        {
            self.answered_as.insert(model.clone());
        }
        if self.last_sync.elapsed() >= SYNC_EVERY {
            let write = |source| JournalError::Write { path: self.path.clone(), source };
            self.syncer.begin(&self.file).map_err(write)?;
            self.last_sync = Instant::now();
        }
        Ok(())
    }

    fn write_line(&mut self, mut line: Vec<u8>) -> Result<u32, JournalError> {
        line.push(b'\n');
        let written = u32::try_from(line.len())
            .map_err(std::io::Error::other)
            .and_then(|bytes| {
                self.file.seek(SeekFrom::Start(self.end))?;
                self.file.write_all(&line)?;
                Ok(bytes)
            })
            .map_err(|source| {
                // A part of the line may stand there; without this the next one would be glued to it.
                let _ = self.file.set_len(self.end);
                JournalError::Write { path: self.path.clone(), source }
            })?;
        self.end += u64::from(written);
        self.unsynced = true;
        Ok(written)
    }

    /// Tells the disk to keep what was written, and waits for it.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        let write = |source| JournalError::Write { path: self.path.clone(), source };
        self.syncer.end().map_err(write)?;
        if std::mem::take(&mut self.unsynced) {
            self.file.sync_data().map_err(write)?;
        }
        self.last_sync = Instant::now();
        Ok(())
    }
}

/// The first line, without its end.
pub(super) fn header_line() -> Vec<u8> {
    format!("{{\"format\":\"{FORMAT}\",\"version\":{VERSION}}}").into_bytes()
}

pub(super) fn check_header(path: &Path, line: &[u8]) -> Result<(), JournalError> {
    match serde_json::from_slice::<Header>(line) {
        Ok(header) if header.format != FORMAT => Err(JournalError::Header(path.to_owned())),
        Ok(header) if header.version != u64::from(VERSION) => {
            Err(JournalError::Version { path: path.to_owned(), found: header.version })
        }
        Ok(_) => Ok(()),
        Err(_) => Err(JournalError::Header(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::testing;

    const SAME: Unchanged<'static> = &|_, _, _| true;

    fn response(request: &str, outcome: Outcome, text: &str) -> Response {
        Response {
            key: Digest::of(format!("key of {request}").as_bytes()),
            request: Digest::of(request.as_bytes()),
            benchmark: "b".into(),
            sample: request.into(),
            ..testing::response(outcome, text)
        }
    }

    fn text_of(journal: &Journal, request: &str) -> Option<String> {
        journal.response(&Digest::of(request.as_bytes())).unwrap().map(|r| r.text)
    }

    #[test]
    fn responses_are_found_again_and_the_latest_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let mut journal = Journal::append_to(&path, SAME).unwrap();
        journal.append(&response("a", Outcome::RequestError, "")).unwrap();
        journal.append(&response("b", Outcome::Ok, "line\nbreak \u{2028}")).unwrap();
        journal.append(&response("a", Outcome::Ok, "second")).unwrap();
        drop(journal);
        let journal = Journal::append_to(&path, SAME).unwrap();
        assert_eq!(text_of(&journal, "a").as_deref(), Some("second"));
        assert_eq!(text_of(&journal, "b").as_deref(), Some("line\nbreak \u{2028}"));
        assert_eq!(text_of(&journal, "c"), None);
        assert_eq!(journal.answer(&Digest::of(b"key of b")).unwrap().unwrap().sample, "b");
    }

    /// Whatever is left out of a response for scoring, all that scores are made of is there.
    #[test]
    fn what_scoring_reads_is_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::append_to(&dir.path().join("r.jsonl"), SAME).unwrap();
        let media = MediaRecord {
            name: "a.wav".into(),
            digest: Digest([7; 32]),
            bytes: 3,
            modified: None,
            audio: None,
            image: None,
            sent: None,
        };
        let about = crate::types::About { response: Digest([8; 32]), run: 2, attempt: 1, shortened: true };
        let written = Response {
            media: vec![media],
            media_bytes: Some(3),
            usage: Usage { prompt_tokens: 1, audio_tokens: 2, completion_tokens: 3 },
            seconds: 0.5,
            attempts: 4,
            reused_from: Some(Digest([9; 32])),
            judge: Some(JudgeRecord { about, value: Some(1.0), rule: "r".into(), seed: Some(3) }),
            answered_as: Some("m-2".into()),
            error: Some("none".into()),
            time: "now".into(),
            ..response("a", Outcome::Length, "text")
        };
        journal.append(&written).unwrap();
        let scored = journal.to_score(&Digest::of(b"a")).unwrap().unwrap();
        let bare = Response {
            benchmark: String::new(),
            sample: String::new(),
            error: None,
            time: String::new(),
            ..written
        };
        assert_eq!(scored, bare);
        assert_eq!(journal.to_score(&Digest::of(b"b")).unwrap(), None);
    }

    #[test]
    fn a_later_failure_counts_and_the_earlier_answer_stays_under_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::append_to(&dir.path().join("r.jsonl"), SAME).unwrap();
        journal.append(&response("a", Outcome::Ok, "heard")).unwrap();
        journal.append(&response("a", Outcome::MediaError, "")).unwrap();
        let latest = journal.response(&Digest::of(b"a")).unwrap();
        assert_eq!(latest.map(|response| response.outcome), Some(Outcome::MediaError));
        assert_eq!(journal.answer(&Digest::of(b"key of a")).unwrap().unwrap().text, "heard");
    }

    #[test]
    fn a_file_of_one_open_line_is_not_taken_for_a_torn_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        std::fs::write(&path, "somebody's notes").unwrap();
        assert!(matches!(Journal::append_to(&path, SAME), Err(JournalError::Header(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"somebody's notes");
    }

    #[test]
    fn a_journal_torn_at_any_byte_loses_only_the_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let mut journal = Journal::append_to(&path, SAME).unwrap();
        let header = journal.end;
        journal.append(&response("a", Outcome::Ok, "one")).unwrap();
        let first = journal.end;
        journal.append(&response("b", Outcome::Ok, "two")).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::append_to(&path, SAME).unwrap();
            let cut = cut as u64;
            let whole_lines = [header, first, whole.len() as u64].iter().filter(|&&e| e <= cut).count();
            assert_eq!(text_of(&journal, "a").is_some(), whole_lines >= 2, "cut at {cut}");
            assert_eq!(text_of(&journal, "b").is_some(), whole_lines >= 3, "cut at {cut}");
            journal.append(&response("c", Outcome::Ok, "three")).unwrap();
            drop(journal);
            let again = Journal::read(&path).unwrap().unwrap();
            assert!(!again.was_torn() && again.damaged_lines().is_empty(), "cut at {cut}");
            assert_eq!(text_of(&again, "c").as_deref(), Some("three"), "cut at {cut}");
        }
    }

    #[test]
    fn damaged_lines_are_counted_and_the_rest_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let mut journal = Journal::append_to(&path, SAME).unwrap();
        journal.append(&response("a", Outcome::Ok, "one")).unwrap();
        drop(journal);
        let mut content = std::fs::read(&path).unwrap();
        content.extend_from_slice(b"\0\0\0\n");
        std::fs::write(&path, &content).unwrap();
        let mut journal = Journal::append_to(&path, SAME).unwrap();
        assert_eq!(journal.damaged_lines(), [3]);
        assert_eq!(journal.damage().as_deref(), Some("r.jsonl: 1 damaged lines (the first is line 3)"));
        journal.append(&response("b", Outcome::Ok, "two")).unwrap();
        assert_eq!(text_of(&journal, "a").as_deref(), Some("one"));
        assert_eq!(text_of(&journal, "b").as_deref(), Some("two"));
    }

    #[test]
    fn other_files_and_other_versions_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        std::fs::write(&path, "{\"id\":1}\n").unwrap();
        assert!(matches!(Journal::append_to(&path, SAME), Err(JournalError::Header(_))));
        std::fs::write(&path, "{\"format\":\"harness-responses\",\"version\":2}\n").unwrap();
        let error = Journal::append_to(&path, SAME).unwrap_err().to_string();
        assert!(error.contains("version 2") && error.contains("another name"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap().len(), 43, "nothing was changed");
    }
}
