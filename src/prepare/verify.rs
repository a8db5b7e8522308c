//! Whether published files are the ones that were fetched: what is made of others would pass for the published set.
//!
//! A file is hashed from its front to its end by one thread, beside those that read it, and its set does not end before
//! that was right. It cannot be hashed as it is read: columns are read out of order and in part, and SHA-256, which is what
//! the hub publishes, takes all bytes in theirs. It cannot be hashed by several threads either, as blake3 can. To begin both
//! at once costs no wait before the first clip and, since whichever comes second at a place finds it in the system's cache,
//! mostly one read of the disk. Several files are hashed at the same time.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use super::PrepareError;
use super::work::Work;
use crate::types::hex;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

impl Work<'_> {
    /// Reads a file, and is an error where it is another than was fetched.
    pub(super) fn verify(&self, set: usize, file: &Path, fetched: &str) -> Result<(), PrepareError> {
        let path = self.plan.data.join(file);
        let found = match sha256(&path, &self.pool.stop) {
            Ok(Some(found)) => found,
            // Told to stop.
            Ok(None) => return Ok(()),
            Err(source) => return Err(PrepareError::Read { path, source }),
        };
        if !found.eq_ignore_ascii_case(fetched) {
            let benchmark = self.plan.benchmark;
            return Err(PrepareError::Changed { path, fetched: fetched.to_owned(), found, benchmark });
        }
        self.done(set)
    }
}

/// The SHA-256 of a file; `None` where it was told to stop.
fn sha256(path: &Path, stop: &AtomicBool) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE];
    while !stop.load(Ordering::Relaxed) {
        match file.read(&mut piece) {
            Ok(0) => return Ok(Some(hex(&hasher.finalize()))),
            Ok(read) => hasher.update(piece.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_to_its_end_or_until_all_stop() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let stop = AtomicBool::new(false);
        // printf abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&path, &stop).unwrap().as_deref(), Some(abc));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(sha256(&path, &stop).unwrap(), None);
        stop.store(false, Ordering::Relaxed);
        assert!(sha256(&dir.path().join("y"), &stop).is_err());
    }
}
