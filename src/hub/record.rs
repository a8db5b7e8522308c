//! The record of a fetch, as it is written and relied on: what form it has is the data folder's business
//! ([`crate::dataset::fetched`]). A later fetch reads it and asks nothing over the network where all is there.

use std::path::Path;

use super::cache::write_beside;
use super::download::blocking;
use super::error::HubError;
use super::look;
use super::names::below;
use super::sink::{Check, Sums};
pub use crate::dataset::fetched::{
    FetchRecord as Record, FileRecord, OriginRecord, RecordError, SetRecord, Unpacked, VERSION, Verified,
};
use crate::media::FileFacts;

impl From<RecordError> for HubError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Io { path, source } => Self::io(&path, "cannot be read")(source),
            RecordError::Damaged { path, why } => Self::Record { path, why },
        }
    }
}

impl Record {
    /// A record of nothing yet.
    pub fn new(benchmark: &str, licence: &str) -> Self {
        Self {
            version: VERSION,
            benchmark: benchmark.to_owned(),
            harness: env!("CARGO_PKG_VERSION").to_owned(),
            time: String::new(),
            licence: licence.to_owned(),
            origins: std::collections::BTreeMap::new(),
        }
    }

    /// Writes the record whole or not at all.
    pub fn write(&mut self, folder: &Path) -> Result<(), HubError> {
        self.time = jiff::Timestamp::now().to_string();
        env!("CARGO_PKG_VERSION").clone_into(&mut self.harness);
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| HubError::Internal(error.to_string()))?;
        text.push(b'\n');
        write_beside(&Self::path(folder), &text)
    }

    /// Reads files again that may have changed since their hashes were taken: those with another time of change. Says
    /// whether there was news to be noted.
    pub async fn look_again(&mut self, folder: &Path) -> Result<bool, HubError> {
        let sets = self.origins.values_mut().flat_map(|origin| origin.sets.values_mut());
        let mut noted = false;
        for file in sets.flat_map(|set| &mut set.files).filter(|file| file.unpacked.is_none()) {
            let path = folder.join(&file.path);
            let Ok(now) = FileFacts::of(&path) else { continue };
            if now.bytes != file.bytes || (now.modified.is_some() && now.modified == file.modified) {
                continue;
            }
            let sums = {
                let path = path.clone();
                blocking(move || Sums::of(&path, &Check::None)).await?
            };
            let sums = sums.map_err(HubError::io(&path, "cannot be read"))?;
            file.changed = sums.sha256 != file.sha256;
            if !file.changed {
                file.modified = now.modified;
                noted = true;
            }
        }
        Ok(noted)
    }

    /// A file at a place in the data folder, whatever it is now.
    pub(super) fn at(&self, origin: &str, path: &Path) -> Option<&FileRecord> {
        let mut files = self.origins.get(origin)?.sets.values().flat_map(|set| &set.files);
        files.find(|file| file.unpacked.is_none() && file.path == path)
    }

    /// The files of a set, if all of them are there in their sizes.
    pub(super) fn complete(&self, folder: &Path, origin: &str, set: &str) -> Option<&[FileRecord]> {
        let SetRecord { complete, files } = self.origins.get(origin)?.sets.get(set)?;
        (*complete && files.iter().all(|file| file.is_there(folder))).then_some(files)
    }

    /// A file that was checked when it came, if it is there still.
    pub(super) fn file(&self, folder: &Path, origin: &str, set: &str, path: &Path) -> Option<&FileRecord> {
        let files = &self.origins.get(origin)?.sets.get(set)?.files;
        files.iter().find(|file| file.path == path).filter(|file| file.is_there(folder))
    }

    /// Notes a file; `complete` says whether it was the last of its set.
    pub(super) fn note(&mut self, origin: &str, set: &str, file: FileRecord, complete: bool) {
        let set = self.origins.entry(origin.to_owned()).or_default().sets.entry(set.to_owned()).or_default();
        set.files.retain(|known| known.path != file.path);
        set.files.push(file);
        if complete {
            set.files.sort_by(|a, b| a.path.cmp(&b.path));
        }
        set.complete = complete;
    }
}

impl FileRecord {
    /// Whether it is there in its size, and with it what was unpacked from it.
    fn is_there(&self, folder: &Path) -> bool {
        match &self.unpacked {
            Some(unpacked) => super::unpack::is_there(folder, unpacked, &self.sha256),
            None => {
                // A record that was tampered with is not followed out of the folder.
                below(&self.path.to_string_lossy()).is_some()
                    && !self.changed
                    && std::fs::metadata(folder.join(&self.path)).is_ok_and(|found| found.len() == self.bytes)
                    && !self.is_rubbish(folder)
            }
        }
    }

    /// Whether what came cannot be what its name says. Only of a file that was checked against nothing is this asked.
    pub(super) fn is_rubbish(&self, folder: &Path) -> bool {
        let path = folder.join(&self.path);
        self.verified == Verified::NotVerified
            && self.unpacked.is_none()
            && look::odd(&path, &self.path).is_ok_and(|odd| odd.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_complete_while_its_files_are_there() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), None);
        let mut record = Record::new("demo", "CC0");
        let file = FileRecord {
            path: "a/x".into(),
            bytes: 3,
            sha256: "s".into(),
            modified: None,
            changed: false,
            verified: Verified::NotVerified,
            via: None,
            unpacked: None,
        };
        record.note("o", "x", file.clone(), true);
        record.note("o", "part", file.clone(), false);
        record.note("o", "out", FileRecord { path: "../x".into(), ..file }, true);
        record.write(dir.path()).unwrap();
        let record = Record::read(dir.path()).unwrap().unwrap();
        assert!(record.complete(dir.path(), "o", "x").is_none());
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("a/x"), "abc").unwrap();
        assert_eq!(record.complete(dir.path(), "o", "x").unwrap().len(), 1);
        assert!(record.complete(dir.path(), "o", "part").is_none(), "others of the set are missing");
        assert!(record.file(dir.path(), "o", "part", Path::new("a/x")).is_some());
        assert!(
            record.complete(dir.path(), "o", "y").is_none()
                && record.complete(dir.path(), "p", "x").is_none()
        );
        assert!(record.complete(&dir.path().join("a"), "o", "out").is_none());
        std::fs::write(dir.path().join("a/x"), "ab").unwrap();
        assert!(record.complete(dir.path(), "o", "x").is_none());
    }

    #[tokio::test]
    async fn a_file_is_read_again_where_its_time_moved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.bin");
        std::fs::write(&path, "abc").unwrap();
        let sums = Sums::of(&path, &Check::None).unwrap();
        let file = FileRecord {
            path: "x.bin".into(),
            bytes: 3,
            sha256: sums.sha256,
            modified: FileFacts::of(&path).unwrap().modified,
            changed: false,
            verified: Verified::NotVerified,
            via: None,
            unpacked: None,
        };
        let mut record = Record::new("demo", "CC0");
        record.note("o", "x", file, true);
        assert!(!record.look_again(dir.path()).await.unwrap(), "nothing moved, nothing is read");
        let later = std::time::SystemTime::now() + std::time::Duration::from_mins(1);
        let touch = || std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        touch();
        assert!(record.look_again(dir.path()).await.unwrap());
        assert!(!record.look_again(dir.path()).await.unwrap(), "the new time was noted");
        assert!(record.complete(dir.path(), "o", "x").is_some());
        std::fs::write(&path, "abd").unwrap();
        assert!(!record.look_again(dir.path()).await.unwrap());
        assert!(record.complete(dir.path(), "o", "x").is_none());
        assert!(record.at("o", Path::new("x.bin")).unwrap().changed);
    }

    #[test]
    fn a_record_that_cannot_be_read_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let error = |text: &str| {
            std::fs::write(Record::path(dir.path()), text).unwrap();
            HubError::from(Record::read(dir.path()).unwrap_err()).to_string()
        };
        assert!(error("{").contains("no record of a fetch"));
        assert!(error("{\"version\": 1}").contains("move it away"));
    }
}
