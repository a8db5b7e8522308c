//! What stands in the folder `prepared` of a data folder: a published set as files that can be read at any place, beside
//! its rows, and the record of what it was made from.
//!
//! Only the layout is known here: who makes such files is another room.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::DatasetError;
use crate::media::FileFacts;
use crate::types::Digest;

/// The folder, in a data folder.
pub const FOLDER: &str = "prepared";
/// The record, in that folder.
pub const RECORD: &str = "prepare.json";
/// The version of the record's form.
pub const VERSION: u32 = 1;

/// The record: what was prepared from what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of its form.
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// The benchmark.
    pub benchmark: String,
    /// The sets: languages, or a split. The rows of set `x` are in `prepared/x.jsonl`.
    pub sets: BTreeMap<String, SetRecord>,
}

/// One set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRecord {
    /// What it was made from.
    pub sources: Vec<SourceRecord>,
    /// The size of its file of rows.
    pub bytes: u64,
    /// The blake3 hash of that file, whose rows name their media by content.
    pub blake3: Digest,
    /// What was found.
    pub counts: Counts,
    /// The first problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A file that a set was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Its place in the data folder.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed, in nanoseconds since 1970, where the file system says.
    pub modified: Option<u64>,
}

/// What was found in a set, and what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows.
    pub rows: u64,
    /// Files of media.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Milliseconds of audio in them.
    pub audio_ms: u64,
    /// Files that are the bytes that were published.
    pub original: u64,
    /// Files of samples as 16-bit integers, the same values.
    pub pcm16: u64,
    /// Files of samples as 32-bit floats, the same values.
    pub float32: u64,
    /// Files of samples of 64 bits that were rounded to floats of 32.
    pub rounded: u64,
    /// Files with samples beyond full scale, which are kept.
    pub loud: u64,
    /// Such samples.
    pub beyond: u64,
    /// Places without media where media could stand.
    pub absent: u64,
    /// Places whose media cannot be read, rows that cannot, and rows that are not what was published.
    pub problems: u64,
}

impl SourceRecord {
    /// The record of a file of a data folder.
    pub fn of(data: &Path, path: &Path) -> std::io::Result<Self> {
        let facts = FileFacts::of(path)?;
        let path = path.strip_prefix(data).unwrap_or(path).to_owned();
        Ok(Self { path, bytes: facts.bytes, modified: facts.modified })
    }
}

impl Record {
    /// Reads the record of a data folder; `None` where nothing was prepared.
    pub fn read(folder: &Path) -> Result<Option<Self>, DatasetError> {
        let path = folder.join(FOLDER).join(RECORD);
        let text = match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| DatasetError::Io { path: path.clone(), source })?,
        };
        let damaged = |reason: String| DatasetError::Damaged { path: path.clone(), reason };
        let value: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|e| damaged(format!("is not valid JSON ({e}): delete it and prepare the data again")))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) if version > u64::from(VERSION) => {
                return Err(damaged(format!(
                    "is of version {version}, which a newer harness wrote: use that one, or delete the folder \
                     `{FOLDER}` and prepare the data again"
                )));
            }
            _ => return Err(damaged("has no version that is known: prepare the data again".to_owned())),
        }
        serde_json::from_value(value)
            .map(Some)
            .map_err(|e| damaged(format!("is no record of prepared data ({e}): prepare them again")))
    }
}

/// The rows that were prepared in a data folder: those of a split, or of `test`, or of all sets. `None` where there
/// are none. Rows that were made from other files than those that lie in the folder now are refused.
pub(super) fn find(folder: &Path, split: Option<&str>) -> Result<Option<Vec<PathBuf>>, DatasetError> {
    let Some(record) = Record::read(folder)? else { return Ok(None) };
    let wanted: Vec<&str> = match split {
        Some(split) => vec![split],
        None if record.sets.contains_key("test") => vec!["test"],
        None => record.sets.keys().map(String::as_str).collect(),
    };
    let mut found = Vec::new();
    for name in wanted {
        let Some(set) = record.sets.get(name) else { continue };
        let path = folder.join(FOLDER).join(format!("{name}.jsonl"));
        let again = format!(
            "prepare the data again with `harness prepare {} --data {}`",
            record.benchmark,
            folder.display()
        );
        // A part of the sets must not pass for all of them.
        let Ok(facts) = FileFacts::of(&path) else {
            return Err(DatasetError::Damaged { path, reason: format!("was prepared and is gone: {again}") });
        };
        if facts.bytes != set.bytes {
            let reason = format!("is not the file that was prepared (its size is another): {again}");
            return Err(DatasetError::Damaged { path, reason });
        }
        // A source that is gone made room; one that is another has other rows.
        let changed = set.sources.iter().find(|source| {
            FileFacts::of(&folder.join(&source.path)).is_ok_and(|now| now.bytes != source.bytes)
        });
        if let Some(source) = changed {
            let reason = format!(
                "was prepared from another {} than the one that is there now: {again}",
                source.path.display()
            );
            return Err(DatasetError::Damaged { path, reason });
        }
        found.push(path);
    }
    Ok((!found.is_empty()).then_some(found))
}

/// The data folder of a file of rows that was prepared: its media are named from there.
pub(super) fn data_folder(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    let is = folder.file_name().is_some_and(|name| name == FOLDER) && folder.join(RECORD).is_file();
    if is { folder.parent() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Choice, Dataset};

    fn record(sets: &[(&str, &str)]) -> Record {
        let sets = sets.iter().map(|(name, rows)| {
            let source = SourceRecord { path: "x.parquet".into(), bytes: 3, modified: None };
            let set = SetRecord {
                sources: vec![source],
                bytes: rows.len() as u64,
                blake3: Digest::of(rows.as_bytes()),
                counts: Counts::default(),
                problems: Vec::new(),
            };
            ((*name).to_owned(), set)
        });
        Record { version: 1, program: "x".into(), benchmark: "b".into(), sets: sets.collect() }
    }

    fn prepared(sets: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        for (name, rows) in sets {
            std::fs::write(folder.join(format!("{name}.jsonl")), rows).unwrap();
        }
        std::fs::write(folder.join(RECORD), serde_json::to_vec(&record(sets)).unwrap()).unwrap();
        dir
    }

    fn rows(data: &Path, split: Option<&str>) -> Vec<String> {
        let choice = Choice { split, ..Choice::default() };
        let data = Dataset::choose(data, None, &choice).unwrap();
        data.rows().unwrap().map(|row| row.unwrap().value["id"].to_string()).collect()
    }

    #[test]
    fn prepared_rows_go_before_published_ones_and_name_media_from_the_data_folder() {
        let dir = prepared(&[("test", "{\"id\": 1}\n")]);
        std::fs::write(dir.path().join("test.jsonl"), "{\"id\": 2}\n").unwrap();
        assert_eq!(rows(dir.path(), None), ["1"]);
        let file = dir.path().join("prepared/test.jsonl");
        let data = Dataset::open(&file, None).unwrap();
        assert_eq!(data.media("prepared/a.wav").unwrap().file(), dir.path().join("prepared/a.wav"));
        // Half a set is none: without its record the published rows are read.
        std::fs::remove_file(dir.path().join("prepared/prepare.json")).unwrap();
        assert_eq!(rows(dir.path(), None), ["2"]);
    }

    #[test]
    fn languages_are_read_one_after_the_other_or_by_name() {
        let dir = prepared(&[("b_Latn", "{\"id\": 2}\n"), ("a_Latn", "{\"id\": 1}\n")]);
        assert_eq!(rows(dir.path(), None), ["1", "2"]);
        assert_eq!(rows(dir.path(), Some("b_Latn")), ["2"]);
    }

    #[test]
    fn rows_of_other_sources_are_refused() {
        let dir = prepared(&[("test", "{\"id\": 1}\n")]);
        std::fs::write(dir.path().join("x.parquet"), "abc").unwrap();
        assert_eq!(rows(dir.path(), None), ["1"]);
        std::fs::write(dir.path().join("x.parquet"), "abcd").unwrap();
        let error = Dataset::open(dir.path(), None).unwrap_err().to_string();
        assert!(error.contains("another x.parquet than the one that is there now"), "{error}");
        assert!(error.contains("harness prepare b --data"), "{error}");
        std::fs::remove_file(dir.path().join("x.parquet")).unwrap();
        std::fs::write(dir.path().join("prepared/test.jsonl"), "{}").unwrap();
        assert!(Dataset::open(dir.path(), None).unwrap_err().to_string().contains("its size is another"));
        let path = dir.path().join("prepared/prepare.json");
        for (text, expected) in
            [("{", "not valid JSON"), ("{\"version\": 9}", "a newer harness"), ("{}", "no version")]
        {
            std::fs::write(&path, text).unwrap();
            let error = Dataset::open(dir.path(), None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
