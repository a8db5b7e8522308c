//! `fetch.json` in a data folder: what was fetched, from where, in which version, and how it was checked.
//!
//! Only its form is known here: who fetches is another room, which a build may lack, and who prepares data reads it too.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The version of the record's format that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// What was fetched into a data folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchRecord {
    /// [`VERSION`]
    pub version: u32,
    /// The benchmark.
    pub benchmark: String,
    /// The version of this program that wrote it last.
    pub harness: String,
    /// When that was.
    pub time: String,
    /// The licence of the data, in words.
    pub licence: String,
    /// What was fetched, by where it came from.
    pub origins: BTreeMap<String, OriginRecord>,
}

/// Files of one origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginRecord {
    /// The revision that was asked for, where there are revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The commit that it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The files, by what they were asked for as.
    pub sets: BTreeMap<String, SetRecord>,
}

/// Files that were asked for together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRecord {
    /// Whether these are all.
    pub complete: bool,
    /// The files.
    pub files: Vec<FileRecord>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its place: in the data folder, or in the hub's cache where it was only unpacked here.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 as found.
    pub sha256: String,
    /// When it was last changed as its hash was taken, in nanoseconds since 1970, where the file system says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
    /// Whether it was found to be another file since.
    #[serde(skip)]
    pub changed: bool,
    /// What it was checked against.
    pub verified: Verified,
    /// The host that sent it in place of its origin, where nothing published vouches for what came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The files that were unpacked from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked: Option<Unpacked>,
}

/// What the bytes of a file were checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// A published SHA-256.
    Sha256,
    /// The id of the git blob at the commit.
    GitBlob,
    /// Nothing: no hash is published.
    NotVerified,
}

/// What an archive held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// The list of what was unpacked, in the data folder.
    pub list: PathBuf,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A record that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The system refused.
    #[error("{}: cannot be read: {source}", .path.display())]
    Io {
        /// The record.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no record, or one of another version.
    #[error(
        "{}: {why}; without it nothing tells whether the files beside it are the published ones: move it away, and give \
         `harness fetch` again, which checks files that are there", .path.display()
    )]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl FetchRecord {
    /// Where the record of a data folder is.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("fetch.json")
    }

    /// Reads the record of a data folder; `None` where there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, RecordError> {
        let path = Self::path(folder);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RecordError::Io { path, source }),
        };
        let damaged = |why: String| RecordError::Damaged { path: path.clone(), why };
        let value: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|error| damaged(format!("this is no record of a fetch: {error}")))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            found => {
                let found = found.map_or("none".to_owned(), |found| found.to_string());
                return Err(damaged(format!(
                    "written in version {found} of the record's format, this program reads version {VERSION}"
                )));
            }
        }
        serde_json::from_value(value).map(Some).map_err(|error| damaged(error.to_string()))
    }

    /// The SHA-256 of each file of the data folder, by its place. Of an archive the hash is not that of what was unpacked.
    pub fn hashes(&self) -> BTreeMap<PathBuf, String> {
        let sets = self.origins.values().flat_map(|origin| origin.sets.values());
        let files = sets.flat_map(|set| &set.files).filter(|file| file.unpacked.is_none());
        files.map(|file| (file.path.clone(), file.sha256.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_hashes_of_their_fetch_and_archives_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(FetchRecord::read(dir.path()).unwrap(), None);
        let text = r#"{"version": 1, "benchmark": "b", "harness": "0", "time": "", "licence": "CC0", "origins": {"o": {
            "sets": {"s": {"complete": true, "files": [
                {"path": "a/x", "bytes": 3, "sha256": "abc", "verified": "sha256"},
                {"path": "y.gz", "bytes": 9, "sha256": "0", "verified": "git_blob",
                 "unpacked": {"list": "l", "files": 1, "bytes": 2}}]}}}}}"#;
        std::fs::write(FetchRecord::path(dir.path()), text).unwrap();
        let record = FetchRecord::read(dir.path()).unwrap().unwrap();
        assert_eq!(record.hashes(), BTreeMap::from([("a/x".into(), "abc".to_owned())]));
    }

    #[test]
    fn other_versions_and_other_files_are_refused_with_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let error = |text: &str| {
            std::fs::write(FetchRecord::path(dir.path()), text).unwrap();
            FetchRecord::read(dir.path()).unwrap_err().to_string()
        };
        assert!(error("{").contains("no record of a fetch"));
        assert!(error("{\"version\": 7}").contains("version 7"));
        assert!(error("{}").contains("version none"));
        assert!(error("{\"version\": 1}").contains("move it away"));
    }
}
