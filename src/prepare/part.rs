//! The journal of a part of a set: a line a row that is done, written as it is done, so that a process that was killed
//! goes on behind the last of them.
//!
//! Files are synced many at once, and a mark in the journal says that those of the lines before it were. Behind the last
//! mark a file may be there in its size and hold nothing, after the power was cut: its content is read again. A line
//! with a fault, something that could not be read and may be read another time, ends what is kept.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PrepareError;
use super::counting::FileNote;
use super::files::{holds_its_content, sync};
use crate::dataset::prepared::{FOLDER, SourceRecord};

/// What a part is of. A journal of another is begun anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The version of how rows are made.
    pub(super) version: u32,
    pub(super) sources: Vec<SourceRecord>,
    pub(super) part: String,
}

/// Lines between two marks.
const BETWEEN: usize = 256;

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
    /// Those of the problems that may pass.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) faults: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// That the files of all lines before are synced.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    synced: u64,
}

/// A journal that is written to.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// The data folder.
    to: PathBuf,
    /// The files of the lines since the last mark, and the number of these lines.
    loose: HashSet<String>,
    lines: usize,
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
        // Where the lines since the last mark begin, and their files.
        let mut loose: Vec<(u64, Vec<FileNote>)> = Vec::new();
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
            } else if serde_json::from_slice::<Mark>(&text).is_ok() {
                loose.clear();
            } else {
                let Ok(line) = serde_json::from_slice::<Line>(&text) else { break };
                let there = |file: &FileNote| {
                    std::fs::metadata(to.join(&file.name)).is_ok_and(|meta| meta.len() == file.bytes)
                };
                if line.faults > 0 || !line.files.iter().all(there) {
                    break;
                }
                loose.push((end, line.files));
                done += 1;
            }
            end += length as u64;
        }
        drop(reader);
        let holds = |files: &[FileNote]| files.iter().all(|file| holds_its_content(to, &file.name));
        if let Some(first) = loose.iter().position(|(_, files)| !holds(files)) {
            done -= (loose.len() - first) as u64;
            end = loose.get(first).map_or(end, |(start, _)| *start);
            loose.truncate(first);
        }
        file.set_len(end).map_err(disk())?;
        file.seek(SeekFrom::Start(end)).map_err(disk())?;
        let lines = loose.len();
        let loose = loose.into_iter().flat_map(|(_, files)| files).map(|file| file.name).collect();
        let mut journal = Self { path: path.to_owned(), file, to: to.to_owned(), loose, lines, done };
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
        self.lines += 1;
        self.loose.extend(line.files.iter().map(|file| file.name.clone()));
        if self.lines >= BETWEEN { self.mark() } else { Ok(()) }
    }

    /// Makes sure that the files of all lines outlast the power, and says so.
    pub(super) fn mark(&mut self) -> Result<(), PrepareError> {
        if self.lines == 0 {
            return Ok(());
        }
        // Files of the publisher's are not ours to sync.
        let ours = self.loose.iter().filter(|name| name.starts_with(FOLDER));
        sync(&self.to, &ours.map(String::as_str).collect::<Vec<_>>())?;
        self.write(&Mark { synced: self.done })?;
        self.loose.clear();
        self.lines = 0;
        Ok(())
    }
}

/// The rows of a journal.
pub(super) fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Line, PrepareError>>, PrepareError> {
    let file = File::open(path).map_err(PrepareError::disk(path))?;
    let path = path.to_owned();
    Ok(BufReader::new(file).split(b'\n').skip(1).filter_map(move |text| {
        let text = match text {
            Ok(text) => text,
            Err(error) => return Some(Err(PrepareError::disk(&path)(error))),
        };
        if serde_json::from_slice::<Mark>(&text).is_ok() {
            return None;
        }
        let line = serde_json::from_slice(&text);
        Some(line.map_err(|_| PrepareError::Internal("a journal of prepared rows is damaged")))
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
        let problems = vec!["p".to_owned()];
        Line { row: json!({"n": n}), files: files.collect(), absent: n, problems, faults: 0 }
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

    #[test]
    fn what_could_not_be_read_is_tried_again_with_all_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let head = Head { version: 1, sources: Vec::new(), part: String::new() };
        let mut journal = Journal::open(&path, &head, dir.path()).unwrap();
        for n in 0..4 {
            journal.add(&Line { faults: u64::from(n == 2), ..line(n, &[]) }).unwrap();
        }
        journal.mark().unwrap();
        assert_eq!(lines(&path).unwrap().count(), 4, "they are the rows until then");
        assert_eq!(Journal::open(&path, &head, dir.path()).unwrap().done, 2);
    }

    #[test]
    fn files_behind_the_last_mark_must_hold_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j");
        let head = Head { version: 1, sources: Vec::new(), part: String::new() };
        std::fs::create_dir(dir.path().join(FOLDER)).unwrap();
        let name = |n: u8| {
            let hash: String = blake3::hash(&[n; 3]).to_hex().chars().take(16).collect();
            format!("{FOLDER}/x-{hash}.wav")
        };
        let zero = |n: u8| std::fs::write(dir.path().join(name(n)), [0; 3]).unwrap();
        let mut journal = Journal::open(&path, &head, dir.path()).unwrap();
        for n in 1..=4 {
            std::fs::write(dir.path().join(name(n)), [n; 3]).unwrap();
            journal.add(&line(n.into(), &[&name(n)])).unwrap();
            if n == 2 {
                journal.mark().unwrap();
            }
        }
        drop(journal);
        let open = || Journal::open(&path, &head, dir.path()).unwrap();
        assert_eq!(open().done, 4);
        // A file before the mark was synced, and is looked at by its size alone.
        zero(1);
        assert_eq!(open().done, 4);
        zero(4);
        assert_eq!(open().done, 3);
        // Where a line before the mark is lost, the mark is lost with it.
        std::fs::remove_file(dir.path().join(name(2))).unwrap();
        assert_eq!(open().done, 0);
    }
}
