//! A file while it comes: written from the front, hashed as it is written, gone on with where it ended.
//!
//! Bytes are written at their place, never appended: where a file system keeps no locks and two processes write the
//! same file, both write the same bytes to the same places, and the hash at the end decides.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::types::hex;

/// What the bytes of a file must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Nothing is published to check against.
    None,
    /// Their SHA-256.
    Sha256(String),
    /// The id of their git blob.
    GitBlob {
        id: String,
        /// The size, which is part of what git hashes.
        bytes: u64,
    },
}

/// The hashes of bytes so far.
#[derive(Clone, Debug)]
struct Hashes {
    sha256: Sha256,
    git: Option<Sha1>,
}

impl Hashes {
    fn new(check: &Check) -> Self {
        let git = match check {
            Check::GitBlob { bytes, .. } => Some(Sha1::new_with_prefix(format!("blob {bytes}\0"))),
            _ => None,
        };
        Self { sha256: Sha256::new(), git }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(git) = &mut self.git {
            git.update(bytes);
        }
    }
}

/// The hashes of a whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) bytes: u64,
    pub(super) sha256: String,
    git: Option<String>,
}

impl Sums {
    /// The sums of a file that is there.
    pub(super) fn of(path: &Path, check: &Check) -> io::Result<Self> {
        let mut hashes = Hashes::new(check);
        let bytes = hash(&mut File::open(path)?, &mut hashes)?;
        Ok(Self::new(bytes, hashes))
    }

    fn new(bytes: u64, hashes: Hashes) -> Self {
        Self {
            bytes,
            sha256: hex(&hashes.sha256.finalize()),
            git: hashes.git.map(|git| hex(&git.finalize())),
        }
    }

    /// Whether they are what they must be; else the kind of hash, what was expected and what was found.
    pub(super) fn meet(&self, check: &Check) -> Result<(), (&'static str, String, String)> {
        match (check, &self.git) {
            (Check::Sha256(wanted), _) if *wanted != self.sha256 => {
                Err(("sha256", wanted.clone(), self.sha256.clone()))
            }
            (Check::GitBlob { id, .. }, Some(git)) if id != git => Err(("git blob", id.clone(), git.clone())),
            _ => Ok(()),
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Sink {
    path: PathBuf,
    file: File,
    len: u64,
    hashes: Hashes,
    check: Check,
}

impl Sink {
    /// Opens the file and hashes what is there already, of which there may be at most `most` bytes.
    pub(super) fn open(path: &Path, check: &Check, most: Option<u64>) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut hashes = Hashes::new(check);
        let len = hash(&mut file, &mut hashes)?;
        let mut sink = Self { path: path.to_owned(), file, len, hashes, check: check.clone() };
        if most.is_some_and(|most| len > most) {
            sink.restart()?;
        }
        Ok(sink)
    }

    /// Bytes that are there.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Writes more bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hashes.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Begins anew, in a new file: where locks do not hold, another process may have the old one.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        std::fs::remove_file(&self.path)?;
        *self = Self {
            path: self.path.clone(),
            file: OpenOptions::new().create_new(true).read(true).write(true).open(&self.path)?,
            len: 0,
            hashes: Hashes::new(&self.check),
            check: self.check.clone(),
        };
        Ok(())
    }

    /// The sums of what is there.
    pub(super) fn sums(&self) -> Sums {
        Sums::new(self.len, self.hashes.clone())
    }

    /// Gives the file its name.
    pub(super) fn finish(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, target)
    }
}

fn hash(file: &mut File, hashes: &mut Hashes) -> io::Result<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(n) => {
                hashes.update(buffer.get(..n).unwrap_or_default());
                bytes += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // printf 'hello world\n' | git hash-object --stdin; … | sha256sum
    const GIT: &str = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad";
    const SHA256: &str = "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447";

    #[test]
    fn a_file_that_is_gone_on_with_has_the_hashes_of_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (partial, target) = (dir.path().join("x.incomplete"), dir.path().join("x"));
        let check = Check::GitBlob { id: GIT.into(), bytes: 12 };
        let mut sink = Sink::open(&partial, &check, Some(12)).unwrap();
        sink.write(b"hello ").unwrap();
        drop(sink);
        let mut sink = Sink::open(&partial, &check, Some(12)).unwrap();
        assert_eq!(sink.len(), 6);
        assert!(sink.sums().meet(&check).is_err());
        sink.write(b"world\n").unwrap();
        let sums = sink.sums();
        assert_eq!((sums.bytes, sums.sha256.as_str()), (12, SHA256));
        assert_eq!(sums.meet(&check), Ok(()));
        assert_eq!(sums.meet(&Check::Sha256(SHA256.into())), Ok(()));
        assert_eq!(sums.meet(&Check::Sha256("0".repeat(64))).unwrap_err().0, "sha256");
        sink.finish(&target).unwrap();
        assert_eq!(Sums::of(&target, &check).unwrap(), sums);
        assert!(!partial.exists());
    }

    #[test]
    fn more_than_the_file_can_have_is_thrown_away() {
        let dir = tempfile::tempdir().unwrap();
        let partial = dir.path().join("x.incomplete");
        std::fs::write(&partial, "too long").unwrap();
        assert_eq!(Sink::open(&partial, &Check::None, Some(3)).unwrap().len(), 0);
    }
}
