//! The rows of a dataset: those of its files, one file after the other.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::files::DataFile;
use super::{DatasetError, Row, RowError};
use crate::media::ReadError;
use crate::types::Digest;

/// What a fingerprint was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FingerprintKind {
    /// Every byte of the files.
    #[default]
    Content,
    /// The footer of each Parquet file (schema, places, sizes and statistics of every column chunk) and its size.
    /// To hash hundreds of gigabytes of media would take longer than the plan.
    ParquetFooter,
    /// The heads of all messages of each Arrow file (schema, lengths and places of every buffer) and its size.
    ArrowHeads,
}

impl FingerprintKind {
    /// What the hash is of, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::ParquetFooter => "footer and size",
            Self::ArrowHeads => "message heads and size",
        }
    }
}

/// Tells a dataset from others, and from itself at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// What it was made of.
    pub kind: FingerprintKind,
    /// The size of the files in bytes.
    pub bytes: u64,
    /// The blake3 hash. Of several files: of their names and hashes.
    pub blake3: Digest,
}

/// The rows of one file. What follows an error may still be read.
pub(super) trait FileRows: Send {
    /// The next row.
    fn next_row(&mut self) -> Option<Result<Row, RowError>>;

    /// The file's fingerprint, once the rows are at their end.
    fn fingerprint(&self) -> Fingerprint;
}

/// The rows of a dataset, in order.
pub struct Rows {
    files: Arc<[DataFile]>,
    file: usize,
    open: Option<Box<dyn FileRows>>,
    /// Why the first file cannot be opened, where others can be.
    failed: Option<RowError>,
    /// Rows, or lines, of the files before this one.
    before: u64,
    /// The last one of this file.
    last: u64,
    parts: Vec<(String, Fingerprint)>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("file", &self.file).field("last", &self.last).finish_non_exhaustive()
    }
}

impl Rows {
    pub(super) fn new(files: Arc<[DataFile]>) -> Result<Self, DatasetError> {
        let mut rows =
            Self { files, file: 0, open: None, failed: None, before: 0, last: 0, parts: Vec::new() };
        match rows.files.first().map(DataFile::rows).transpose() {
            Ok(open) => rows.open = open,
            // Of several files the others can still be read.
            Err(error) if rows.files.len() > 1 => rows.failed = Some(rows.cannot_open(&error)),
            Err(error) => return Err(error),
        }
        Ok(rows)
    }

    /// That the current file cannot be opened.
    fn cannot_open(&self, error: &DatasetError) -> RowError {
        let path = self.files.get(self.file).map_or(Path::new(""), |file| &**file.path());
        let sentence = format!("none of its rows can be read: {error}");
        let error = match error {
            DatasetError::Io { source, .. } => ReadError::system(source).in_words(|_| sentence),
            _ => sentence.into(),
        };
        RowError::of_file(path, error)
    }

    /// The fingerprint of what was read so far: of the whole dataset once the rows are at their end.
    pub fn fingerprint(&self) -> Fingerprint {
        let name = self.files.get(self.file).map(|file| file.name().to_owned()).unwrap_or_default();
        let open = self.open.as_ref().map(|open| (name, open.fingerprint()));
        let parts: Vec<_> = self.parts.iter().chain(&open).collect();
        match &*parts {
            [(_, only)] => *only,
            parts => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(b"harness shards 1\0");
                for (name, part) in parts {
                    hasher.update(&(name.len() as u64).to_le_bytes());
                    hasher.update(name.as_bytes());
                    hasher.update(&part.blake3.0);
                }
                Fingerprint {
                    kind: parts.first().map_or_else(FingerprintKind::default, |(_, part)| part.kind),
                    bytes: parts.iter().map(|(_, part)| part.bytes).sum(),
                    blake3: Digest(*hasher.finalize().as_bytes()),
                }
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Result<Row, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            if let Some(row) = self.open.as_mut().and_then(|open| open.next_row()) {
                let line = row.as_ref().map_or_else(|error| error.line, |row| row.line);
                self.last = self.last.max(line);
                return Some(row.map(|row| Row { number: self.before + row.line, ..row }));
            }
            let file = self.files.get(self.file)?;
            if self.file + 1 >= self.files.len() {
                // Stays open for its fingerprint.
                return None;
            }
            match self.open.take() {
                Some(open) => self.parts.push((file.name().to_owned(), open.fingerprint())),
                // The rows of a file that could not be opened are counted where they are known, so that those behind
                // it keep their numbers.
                None => self.last = file.stretches().last().map_or(0, |rows| rows.end),
            }
            self.before += self.last;
            self.last = 0;
            self.file += 1;
            match self.files.get(self.file)?.rows() {
                Ok(rows) => self.open = Some(rows),
                Err(error) => return Some(Err(self.cannot_open(&error))),
            }
        }
    }
}
