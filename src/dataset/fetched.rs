//! What `fetch.json` in a data folder says of its files: the hash that each had when it was fetched.
//!
//! Only where it stands is known here: who fetches is another room. A folder without a record, or with one that cannot be
//! read, says nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::types::hex;

/// The hashes of the files of a data folder, by their place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched(BTreeMap<PathBuf, String>);

#[derive(Deserialize)]
struct Record {
    origins: BTreeMap<String, OriginRecord>,
}

#[derive(Deserialize)]
struct OriginRecord {
    sets: BTreeMap<String, SetRecord>,
}

#[derive(Deserialize)]
struct SetRecord {
    files: Vec<FileRecord>,
}

#[derive(Deserialize)]
struct FileRecord {
    path: PathBuf,
    sha256: String,
    /// Of an archive the hash is not that of what was unpacked.
    unpacked: Option<serde::de::IgnoredAny>,
}

impl Fetched {
    /// Reads the record of a data folder.
    pub fn read(folder: &Path) -> Self {
        let text = std::fs::read(folder.join("fetch.json")).unwrap_or_default();
        let Ok(record) = serde_json::from_slice::<Record>(&text) else { return Self::default() };
        let sets = record.origins.into_values().flat_map(|origin| origin.sets.into_values());
        let files = sets.flat_map(|set| set.files).filter(|file| file.unpacked.is_none());
        Self(files.map(|file| (file.path, file.sha256)).collect())
    }

    /// Reads a file, by its place in the folder, and compares it with its hash: what it was and what it is now, where
    /// that differs.
    pub fn differs(&self, folder: &Path, file: &Path) -> io::Result<Option<(String, String)>> {
        let Some(was) = self.0.get(file) else { return Ok(None) };
        let mut hasher = Sha256::new();
        io::copy(&mut std::fs::File::open(folder.join(file))?, &mut Hashing(&mut hasher))?;
        let is = hex(&hasher.finalize());
        Ok((!was.eq_ignore_ascii_case(&is)).then(|| (was.clone(), is)))
    }
}

/// Hashes what is written to it.
struct Hashing<'a>(&'a mut Sha256);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compared_with_the_hashes_of_their_fetch() {
        let dir = tempfile::tempdir().unwrap();
        let fetched = |text: &str| {
            std::fs::write(dir.path().join("fetch.json"), text).unwrap();
            Fetched::read(dir.path())
        };
        assert_eq!(Fetched::read(dir.path()), Fetched::default());
        for text in ["", "{", "[]", "{\"origins\": 1}"] {
            assert_eq!(fetched(text), Fetched::default());
        }
        // printf abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let fetched = fetched(&format!(
            "{{\"origins\": {{\"o\": {{\"sets\": {{\"s\": {{\"complete\": true, \"files\": [\
             {{\"path\": \"a/x\", \"sha256\": \"{abc}\"}}, \
             {{\"path\": \"y.gz\", \"sha256\": \"0\", \"unpacked\": {{\"files\": 1}}}}]}}}}}}}}}}"
        ));
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(dir.path().join("a/x"), "abc").unwrap();
        let differs = |name: &str| fetched.differs(dir.path(), Path::new(name)).unwrap();
        assert_eq!(differs("a/x"), None);
        std::fs::write(dir.path().join("a/x"), "abd").unwrap();
        assert_eq!(differs("a/x").unwrap().0, abc);
        assert_eq!((differs("y.gz"), differs("z")), (None, None), "nothing is known of these");
        std::fs::remove_file(dir.path().join("a/x")).unwrap();
        assert!(fetched.differs(dir.path(), Path::new("a/x")).is_err());
    }
}
