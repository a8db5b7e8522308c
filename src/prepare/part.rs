//! The journal of a part of a set: a line a row that is done, written as it is done, so that a process that was killed
//! goes on behind the last of them.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PrepareError;
use super::counting::FileNote;
use crate::dataset::prepared::SourceRecord;

/// What a part is of. A journal of another is begun anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The version of how rows are made.
    pub(super) version: u32,
    pub(super) sources: Vec<SourceRecord>,
    pub(super) part: String,
}

/// A row that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The row as it will be written; null where it could not be read.
    pub(super) row: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<FileNote>,
    #[serde(default)]
    pub(super) absent: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) problems: Vec<String>,
}

/// A journal that is written to.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Rows that are done.
    pub(super) done: u64,
}

impl Journal {
    /// Opens a journal and keeps of it what is whole and whose files are there.
    pub(super) fn open(path: &Path, head: &Head, to: &Path) -> Result<Self, PrepareError> {
        let disk = || PrepareError::disk(path);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(disk())?;
        let (mut end, mut done) = (0, 0);
        let mut reader = BufReader::new(&file);
        let mut text = Vec::new();
        let mut first = true;
        loop {
            text.clear();
            let length = reader.read_until(b'\n', &mut text).map_err(disk())?;
            if !text.ends_with(b"\n") {
                break;
            }
            if std::mem::take(&mut first) {
                if serde_json::from_slice::<Head>(&text).ok().as_ref() != Some(head) {
                    break;
                }
            } else {
                let Ok(line) = serde_json::from_slice::<Line>(&text) else { break };
                let there = |file: &FileNote| {
                    std::fs::metadata(to.join(&file.name)).is_ok_and(|meta| meta.len() == file.bytes)
                };
                if !line.files.iter().all(there) {
                    break;
                }
                done += 1;
            }
            end += length as u64;
        }
        drop(reader);
        file.set_len(end).map_err(disk())?;
        file.seek(SeekFrom::Start(end)).map_err(disk())?;
        let mut journal = Self { path: path.to_owned(), file, done };
        if end == 0 {
            journal.write(head)?;
        }
        Ok(journal)
    }

    fn write(&mut self, what: &impl Serialize) -> Result<(), PrepareError> {
        let mut text = serde_json::to_vec(what).map_err(|_| PrepareError::Internal("a row is no JSON"))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(PrepareError::disk(&self.path))
    }

    /// A row is done.
    pub(super) fn add(&mut self, line: &Line) -> Result<(), PrepareError> {
        self.write(line)?;
        self.done += 1;
        Ok(())
    }
}

/// The rows of a journal.
pub(super) fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Line, PrepareError>>, PrepareError> {
    let file = File::open(path).map_err(PrepareError::disk(path))?;
    let path = path.to_owned();
    Ok(BufReader::new(file).split(b'\n').skip(1).map(move |text| {
        let text = text.map_err(PrepareError::disk(&path))?;
        serde_json::from_slice(&text)
            .map_err(|_| PrepareError::Internal("a journal of prepared rows is damaged"))
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(n: u64, files: &[&str]) -> Line {
        let files = files.iter().map(|name| FileNote {
            name: (*name).to_owned(),
            bytes: 3,
            seconds: 0.5,
            form: crate::media::Form::Pcm16.into(),
            beyond: 0,
        });
        Line { row: json!({"n": n}), files: files.collect(), absent: n, problems: vec!["p".to_owned()] }
    }

    #[test]
    fn a_journal_goes_on_behind_what_is_whole_and_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let head = |part: &str| Head { version: 1, sources: Vec::new(), part: part.to_owned() };
        for name in ["a", "b", "c"] {
            std::fs::write(dir.path().join(name), "abc").unwrap();
        }
        let open = || Journal::open(&path, &head("x"), dir.path()).unwrap();
        let mut journal = open();
        for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
            journal.add(&line(n as u64, &[name])).unwrap();
        }
        assert_eq!(open().done, 3);
        // Torn anywhere, the whole lines before the tear are kept.
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let lines = ends.iter().filter(|end| **end < cut).count() as u64;
            assert_eq!(open().done, lines.saturating_sub(1), "{cut}");
        }
        std::fs::write(&path, &whole).unwrap();
        std::fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(open().done, 1);
        let kept: Vec<Line> = lines(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(kept, [line(0, &["a"])]);
        assert_eq!(Journal::open(&path, &head("y"), dir.path()).unwrap().done, 0);
    }
}
