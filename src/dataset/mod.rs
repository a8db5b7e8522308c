//! Published file formats to rows, and names of media to what can be read.
//!
//! The only room that knows file formats of datasets: JSON Lines, JSON arrays, CSV, TSV, Parquet and Arrow, as one
//! file, as shards, and as folders that the `datasets` library saved. It gives rows as JSON values with the place they
//! stand at; what a row means is the benchmark's business. Media never enter a row: in their place stands a name,
//! which [`Dataset::media`] turns into something that can be read later. It must not know protocols, codecs or models.

mod base64;
#[cfg(feature = "parquet")]
mod columnar;
mod cursor;
pub mod fetched;
mod files;
mod find;
mod format;
mod inside;
mod json_array;
mod jsonl;
mod logs;
mod names;
pub mod prepared;
mod rows;
mod table;
mod text_media;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use find::Choice;
pub use logs::{LogHead, log_rows};
pub use names::MediaNameError;
pub use rows::{Fingerprint, FingerprintKind, Rows};

use crate::media::{Cause, FileFacts, MediaSource, ReadError, ReadMedia};
use crate::types::{Digest, bounded, joined_names};
use files::DataFile;
use inside::Inside;

/// A dataset that cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Nothing is there.
    #[error("{}: no such file or folder", .0.display())]
    Missing(PathBuf),
    /// A folder without a file that could be the index.
    #[error(
        "{}: the folder holds no file that is surely the dataset (looked for {}; found {}); name the file itself as \
         `data`", .folder.display(), .looked_for.join(", "), or_nothing(.found)
    )]
    NoIndex {
        /// The folder.
        folder: PathBuf,
        /// What was looked for.
        looked_for: Vec<String>,
        /// Data files that are there.
        found: Vec<String>,
    },
    /// A file that is never taken for the dataset.
    #[error("{}: not the dataset but another file beside it (a preview or a copy): name the dataset itself", .0.display())]
    Ignored(PathBuf),
    /// Shards are missing.
    #[error("{}: {reason}: fetch the missing files, or name one shard as `data` to use it alone", .folder.display())]
    Shards {
        /// Their folder.
        folder: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// Published files that must be prepared first.
    #[error("{}: {what}: run `{command}`", .folder.display())]
    Unprepared {
        /// The data folder.
        folder: PathBuf,
        /// What is not prepared.
        what: String,
        /// The command that prepares it.
        command: String,
    },
    /// A file of a kind that is not read.
    #[error("{}: is {reason}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        reason: String,
    },
    /// A file that breaks its format.
    #[error("{}: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

fn or_nothing(found: &[String]) -> String {
    match found.len() {
        0 => "none".to_owned(),
        1..=6 => found.join(", "),
        more => {
            format!("{} and {} more", found.iter().take(5).cloned().collect::<Vec<_>>().join(", "), more - 5)
        }
    }
}

/// How the rows of a format are counted, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// By the line that they begin on.
    Line,
    /// By themselves.
    Row,
}

/// A row of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The file.
    pub file: Arc<Path>,
    /// The line it begins on (JSON Lines), or its number, from 1.
    pub line: u64,
    /// Which of these.
    pub unit: Unit,
    /// The same, counted through all files of the dataset.
    pub number: u64,
    /// The row.
    pub value: serde_json::Value,
}

impl Row {
    fn new(file: &Arc<Path>, line: u64, unit: Unit, value: serde_json::Value) -> Self {
        Self { file: Arc::clone(file), line, unit, number: line, value }
    }

    /// What an error at this row's place needs to know of it.
    pub fn place(&self) -> Place {
        Place { file: Arc::clone(&self.file), line: self.line, unit: self.unit }
    }
}

/// Where a row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    file: Arc<Path>,
    line: u64,
    unit: Unit,
}

impl Place {
    /// An error of the row that stands here.
    pub fn error(&self, message: impl Into<String>) -> RowError {
        let message: String = message.into();
        RowError::new(&self.file, self.line, self.unit, message)
    }
}

/// A row that cannot be read. The others can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{}: {message}", .file.display(), match .unit { Unit::Line => ":", Unit::Row => ": row " }, .line)]
pub struct RowError {
    /// The file.
    pub file: PathBuf,
    /// The line or row, from 1.
    pub line: u64,
    /// Which of these.
    pub unit: Unit,
    /// What is wrong.
    pub message: String,
    /// Whether it may be read at another time: the system did not give it. What is wrong with a content stays.
    pub may_pass: bool,
}

impl RowError {
    fn new(file: &Path, line: u64, unit: Unit, message: impl Into<ReadError>) -> Self {
        let error: ReadError = message.into();
        let may_pass = error.cause == Cause::System;
        Self { file: file.to_owned(), line, unit, message: bounded(error.into()), may_pass }
    }

    /// The same of what stands in the row.
    fn why(self) -> ReadError {
        let cause = if self.may_pass { Cause::System } else { Cause::Content };
        ReadError::new(cause, self.message)
    }

    /// A file that can no longer be opened.
    fn of_file(file: &Path, message: ReadError) -> Self {
        Self::new(file, 1, Unit::Row, message)
    }
}

/// Rows of one file that can be read apart from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    file: usize,
    part: usize,
    /// The rows of the files before this one, as far as they are counted.
    pub before: u64,
    /// The rows, counted from 0 in their file; `None` where they are not counted before they are read.
    pub rows: Option<Range<u64>>,
}

/// Keeps at least so many columns of media open, in all datasets together: for those who read on many threads.
pub fn keep_open(columns: usize) {
    cursor::keep_open(columns);
}

/// A dataset on disk: files of rows, and media in a folder or within these files.
#[derive(Clone)]
pub struct Dataset {
    files: Arc<[DataFile]>,
    index: PathBuf,
    media: PathBuf,
    inside: Arc<Inside>,
    prepared: Arc<[prepared::NamedSet]>,
    /// Published files beside them of which nothing was prepared.
    left_out: Arc<[PathBuf]>,
    /// Folders in that of the media, where an archive may have put them.
    below: Arc<[PathBuf]>,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.files.len();
        f.debug_struct("Dataset").field("index", &self.index).field("files", &count).finish_non_exhaustive()
    }
}

impl Dataset {
    /// Finds the rows of a dataset: [`Dataset::choose`] without any particular choice.
    pub fn open(data: &Path, media: Option<&Path>) -> Result<Self, DatasetError> {
        Self::choose(data, media, &Choice::default())
    }

    /// Finds the rows of a dataset. `data` is a file, or a folder in which the file or its shards are found (see
    /// `docs/config.md`). Media names are relative to `media`, or else to the folder of the data. Every file is
    /// opened, its format found and its footer read; no rows are.
    pub fn choose(data: &Path, media: Option<&Path>, choice: &Choice<'_>) -> Result<Self, DatasetError> {
        let meta = std::fs::metadata(data).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => DatasetError::Missing(data.to_owned()),
            _ => DatasetError::Io { path: data.to_owned(), source },
        })?;
        let (base, paths) = if meta.is_dir() {
            (data.to_owned(), find::find(data, choice)?)
        } else if choice.ignores(data) {
            return Err(DatasetError::Ignored(data.to_owned()));
        } else {
            prepared::check_file(data, choice)?;
            let base = prepared::data_folder(data).or(data.parent());
            (base.map(Path::to_owned).unwrap_or_default(), vec![data.to_owned()])
        };
        for path in &paths {
            prepared::check_claims(path)?;
        }
        let open = |path: &PathBuf| {
            let name = path.strip_prefix(&base).unwrap_or(path);
            let name: Vec<_> = name.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            DataFile::open(path, name.join("/"))
        };
        let files: Arc<[DataFile]> = paths.iter().map(open).collect::<Result<_, _>>()?;
        let media = match media {
            Some(folder) if !folder.is_dir() => return Err(DatasetError::Missing(folder.to_owned())),
            Some(folder) => folder.to_owned(),
            None => base,
        };
        let (prepared, left_out) = prepared::sets_of(&paths)?;
        // Whoever is not lenient was refused already.
        let left_out = if choice.lenient { left_out.into() } else { Arc::default() };
        let below = names::folders(&media).into();
        let index = paths.into_iter().next().unwrap_or_else(|| data.to_owned());
        let inside = Arc::new(Inside::new(Arc::clone(&files)));
        Ok(Self { inside, files, index, media, prepared: prepared.into(), left_out, below })
    }

    /// The sets that its files are, where they were prepared, with what was found then.
    pub fn prepared(&self) -> &[prepared::NamedSet] {
        &self.prepared
    }

    /// What preparing it could not do, in fragments of sentences: the rows and media that it lacks for that.
    pub fn unprepared(&self) -> Vec<String> {
        let with = self.prepared.iter().filter(|(_, set)| set.counts.problems > 0);
        let fragment = |(name, set): &prepared::NamedSet| {
            let problems = match set.counts.problems {
                1 => "a problem".to_owned(),
                n => format!("{n} problems"),
            };
            let first = set.problems.first().map(|first| format!(", the first: {first}")).unwrap_or_default();
            let again = if set.counts.faults > 0 {
                "; `harness prepare` tries again what could not be read"
            } else {
                ""
            };
            format!("preparing {name} left {problems}{first}{again}")
        };
        let left_out = self.left_out.iter().map(|path| format!("nothing was prepared of {}", path.display()));
        with.map(fragment).chain(left_out).collect()
    }

    /// Whether a name is a place in one of its files that holds media.
    pub fn holds(&self, name: &str) -> bool {
        matches!(self.inside.file(name), Some(Ok(_)))
    }

    /// Why the samples at a place in one of its files cannot be read, by the type of their column alone: a sentence that
    /// reads well after the name. `None` where they can, and for all other names.
    pub fn odd_samples(&self, name: &str) -> Option<String> {
        self.inside.odd_samples(name)
    }

    /// The file of the rows; of several, the first.
    pub fn index(&self) -> &Path {
        &self.index
    }

    /// The number of files that hold rows.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Where a clip or image is: within a file of the dataset, or in a file of its own, whose name must be relative to
    /// the folder of the media and stay in it. What is not there may be in one of the folders in that one: archives are
    /// published with a folder around their files and without. A name of joined clips gives these, one after the other.
    pub fn media(&self, name: &str) -> Result<MediaSource, MediaNameError> {
        if let Some((gap_ms, names)) = joined_names(name) {
            let pieces = names.iter().map(|name| self.media(name)).collect::<Result<Vec<_>, _>>()?;
            return Ok(MediaSource::joined(pieces, gap_ms));
        }
        if let Some(file) = self.inside.file(name) {
            let reader: Arc<dyn ReadMedia> = Arc::clone(&self.inside) as _;
            return Ok(MediaSource::embedded(Arc::clone(file?.path()), name, reader));
        }
        let path = names::within(&self.media, name)?;
        if path.exists() {
            return Ok(MediaSource::File(path));
        }
        let mut others = self.below.iter().map(|folder| folder.join(name)).filter(|path| path.is_file());
        let other = others.next().filter(|_| others.next().is_none());
        Ok(MediaSource::File(other.unwrap_or(path)))
    }

    /// The same of several names, with the rows that they stand in read now, where rows can only be read one after the
    /// other: what is left is to take the media out of them, which any thread can do. With it comes the number of bytes
    /// that these rows take until the last of their sources is dropped.
    pub fn read_ahead<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> (Vec<Result<MediaSource, MediaNameError>>, usize) {
        // Media of one column are in one row; its cells are told by their address.
        let mut rows = HashMap::new();
        let source = |name: &'n str| {
            let Some((file, ahead)) = self.inside.ahead(name) else { return self.media(name) };
            if let Some(cells) = ahead.cells() {
                rows.insert(Arc::as_ptr(cells).cast::<()>().addr(), cells.weight());
            }
            Ok(MediaSource::embedded(Arc::clone(file.path()), name, Arc::new(ahead)))
        };
        let sources = names.map(source).collect();
        (sources, rows.into_values().sum())
    }

    /// A hash that changes with the rows, without reading them: of the content of text files, and of the size and time
    /// of change of others.
    pub fn state(&self) -> Result<Digest, DatasetError> {
        let mut hasher = blake3::Hasher::new();
        for file in self.files.iter() {
            let io = |source| DatasetError::Io { path: file.path().to_path_buf(), source };
            hasher.update(&(file.name().len() as u64).to_le_bytes());
            hasher.update(file.name().as_bytes());
            if file.is_text() {
                let mut content = blake3::Hasher::new();
                content.update_reader(std::fs::File::open(file.path()).map_err(io)?).map_err(io)?;
                hasher.update(content.finalize().as_bytes());
            } else {
                let facts = FileFacts::of(file.path()).map_err(io)?;
                hasher.update(&facts.bytes.to_le_bytes());
                hasher.update(&facts.modified.unwrap_or_default().to_le_bytes());
            }
        }
        Ok(Digest(*hasher.finalize().as_bytes()))
    }

    /// The rows, one at a time, from the beginning.
    pub fn rows(&self) -> Result<Rows, DatasetError> {
        Rows::new(Arc::clone(&self.files))
    }

    /// Stretches of rows, each within one file, that can be read apart from each other: the row groups of Parquet, the
    /// batches of Arrow; a file of text is one stretch, whose rows are not counted.
    pub fn stretches(&self) -> Vec<Stretch> {
        let mut before = 0;
        let mut found = Vec::new();
        for (file, data) in self.files.iter().enumerate() {
            let parts = data.stretches();
            let end = parts.last().map_or(0, |rows| rows.end);
            if data.is_text() {
                found.push(Stretch { file, part: 0, before, rows: None });
            }
            let counted = parts.into_iter().enumerate();
            found.extend(counted.map(|(part, rows)| Stretch { file, part, before, rows: Some(rows) }));
            before += end;
        }
        found
    }

    /// The rows of a stretch. Their `number` is counted through their file alone.
    pub fn rows_of(
        &self,
        stretch: &Stretch,
    ) -> Result<impl Iterator<Item = Result<Row, RowError>> + Send + use<>, DatasetError> {
        let file = self.files.get(stretch.file).ok_or_else(|| DatasetError::Missing(self.index.clone()))?;
        let mut rows = file.rows_of(stretch.part)?;
        let end = stretch.rows.as_ref().map_or(u64::MAX, |rows| rows.end);
        Ok(std::iter::from_fn(move || rows.next_row()).take_while(move |row| match row {
            Ok(row) => row.line <= end,
            Err(error) => error.line <= end,
        }))
    }

    /// The same dataset with readers of its own: who reads another part of it at the same time neither waits for
    /// those who read this one nor makes them begin anew.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { inside: Arc::new(Inside::new(Arc::clone(&self.files))), ..self.clone() }
    }

    /// The files of the rows.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| &**file.path())
    }

    /// How many rows were decoded to read media within files, and how often a file was begun anew for that: as often
    /// as files and row groups were walked, when media are asked for in the order of the rows.
    pub fn decoded(&self) -> (u64, u64) {
        let counts = &self.inside.counts;
        (counts.rows.load(Ordering::Relaxed), counts.starts.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
#[path = "dataset_tests.rs"]
mod tests;
