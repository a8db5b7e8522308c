//! Files on disk, each whole or not at all, under a name that changes with its content: the same clip of several rows is
//! one file, and what is there needs not be written again.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::PrepareError;
use crate::dataset::prepared::{FOLDER, ListRecord, list_path};
use crate::types::Digest;

/// Tells files that are being written apart, within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Files that are synced at once.
const SYNCING: usize = 8;

/// The files of a set that are whole, or being written by some thread: each is written once, whichever threads want it.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// By a hash of the name, whether it is whole.
    known: Mutex<HashMap<[u8; 16], bool>>,
    turn: Condvar,
}

impl Files {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 16], bool>> {
        super::pool::lock(&self.known)
    }

    /// Writes a file of the data folder, unless it is whole. Who comes while another thread writes it waits: a row must not
    /// be noted as done before its files are there, and a file that was synced must not be written over.
    pub(super) fn write(&self, to: &Path, name: &str, bytes: &[u8]) -> Result<(), PrepareError> {
        let key = super::counting::hash(name);
        let mut known = self.lock();
        loop {
            match known.get(&key).copied() {
                Some(true) => return Ok(()),
                Some(false) => known = self.turn.wait(known).unwrap_or_else(PoisonError::into_inner),
                None => break,
            }
        }
        known.insert(key, false);
        drop(known);
        let mut claim = Claim { files: self, key, whole: false };
        write(&to.join(name), bytes)?;
        claim.whole = true;
        Ok(())
    }

    /// Forgets all: the set is done.
    pub(super) fn clear(&self) {
        *self.lock() = HashMap::new();
    }
}

/// Whoever waits goes on when this is dropped, however the writing ended.
struct Claim<'a> {
    files: &'a Files,
    key: [u8; 16],
    whole: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut known = self.files.lock();
        if self.whole {
            known.insert(self.key, true);
        } else {
            known.remove(&self.key);
        }
        drop(known);
        self.files.turn.notify_all();
    }
}

/// What the name of a file has of its content.
pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().chars().take(16).collect()
}

/// Whether a file that was written holds what its name says; of a file of the publisher's nothing is known.
pub(super) fn holds_its_content(to: &Path, name: &str) -> bool {
    if !name.starts_with(FOLDER) {
        return true;
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let named = stem.rsplit_once('-').map(|(_, hash)| hash);
    std::fs::read(to.join(name)).is_ok_and(|bytes| named == Some(&*hash(&bytes)))
}

/// Writes a file whole or not at all, unless it is there: its name changes with its content.
fn write(path: &Path, bytes: &[u8]) -> Result<(), PrepareError> {
    // Of the right size it may still hold something else, where an earlier process ended with the power.
    let there = || std::fs::metadata(path).is_ok_and(|meta| meta.len() == bytes.len() as u64);
    if there() && std::fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let beside = partial(path);
    let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|source| {
        // The room that it took may be what others lack.
        let _ = std::fs::remove_file(&beside);
        PrepareError::Disk { path: path.to_owned(), source }
    })
}

/// Makes sure that files that were written outlast the power, and their names too. Several at once: a file system
/// takes them together.
pub(super) fn sync(to: &Path, names: &[&str]) -> Result<(), PrepareError> {
    let one = |name: &str| {
        let path = to.join(name);
        let synced = OpenOptions::new().write(true).open(&path).and_then(|file| file.sync_all());
        synced.map_err(PrepareError::disk(&path))
    };
    let each = names.len().div_ceil(SYNCING).max(1);
    std::thread::scope(|scope| {
        let all = |names: &[&str]| names.iter().try_for_each(|name| one(name));
        let threads: Vec<_> = names.chunks(each).map(|names| scope.spawn(move || all(names))).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or(Err(PrepareError::Internal("a thread that syncs files panicked")))
        });
        joined.collect::<Result<(), _>>()
    })?;
    let folders: HashSet<_> = names.iter().filter_map(|name| Path::new(name).parent()).collect();
    folders.into_iter().try_for_each(|folder| sync_folder(&to.join(folder)))
}

/// Makes sure that the names in a folder outlast the power, where the system can be told so.
pub(super) fn sync_folder(folder: &Path) -> Result<(), PrepareError> {
    if cfg!(unix) {
        // File systems that cannot do this say so; nothing else can be done then.
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        return synced.or_else(unsupported).map_err(PrepareError::disk(folder));
    }
    Ok(())
}

fn unsupported(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    }
}

/// A place for what is not whole yet.
fn partial(path: &Path) -> PathBuf {
    path.with_added_extension(format!("{}.partial", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Removes what an interrupted process left half written.
pub(super) fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|suffix| suffix == "partial") {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The files in the folder of a set that its list names, if it is the list that the record of the set tells of: those that
/// an earlier call wrote.
pub(super) fn listed(to: &Path, set: &str, record: &ListRecord) -> Vec<String> {
    let text = std::fs::read(list_path(to, set)).ok();
    let text = text.filter(|text| Digest::of(text) == record.blake3).unwrap_or_default();
    let folder = format!("{FOLDER}/{set}/");
    let lines = text.split(|byte| *byte == b'\n');
    let named = lines.filter_map(|line| serde_json::from_slice::<(u64, String)>(line).ok());
    let inside = named.filter_map(|(_, name)| Some(name.strip_prefix(folder.as_str())?.to_owned()));
    inside.filter(|name| !name.contains(['/', '\\'])).collect()
}

/// Removes those of a set's earlier files that no row names any longer: they are of other sources. All else in the folder
/// stays, however it is called: it was not written here.
pub(super) fn clear_out(folder: &Path, earlier: &[String], is_named: impl Fn(&str) -> bool) {
    for name in earlier.iter().filter(|name| !is_named(name)) {
        let path = folder.join(name);
        // What was put in the place of such a file is a user's too.
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_many_want_is_written_once_and_is_there_for_all() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(FOLDER)).unwrap();
        let (files, bytes) = (Files::default(), vec![7; 1 << 20]);
        let name = format!("{FOLDER}/a.wav");
        let there = || std::fs::metadata(dir.path().join(&name)).map(|meta| meta.len()).ok();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    files.write(dir.path(), &name, &bytes).unwrap();
                    assert_eq!(there(), Some(1 << 20));
                });
            }
        });
        // What is known to be whole is not looked at again, until the set is done.
        std::fs::remove_file(dir.path().join(&name)).unwrap();
        files.write(dir.path(), &name, &bytes).unwrap();
        assert_eq!(there(), None);
        files.clear();
        files.write(dir.path(), &name, &bytes).unwrap();
        assert_eq!(there(), Some(1 << 20));
        // Who fails leaves the file to the next.
        let other = format!("{FOLDER}/none/b.wav");
        assert!(files.write(dir.path(), &other, &bytes).unwrap_err().is_disk());
        std::fs::create_dir(dir.path().join(FOLDER).join("none")).unwrap();
        files.write(dir.path(), &other, &bytes).unwrap();
    }

    #[test]
    fn a_file_of_the_right_size_with_other_content_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        let name = format!("{FOLDER}/a-{}.wav", hash(b"sound"));
        let path = dir.path().join(&name);
        // As a file may be after the power was cut.
        std::fs::write(&path, [0; 5]).unwrap();
        assert!(!holds_its_content(dir.path(), &name));
        write(&path, b"sound").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"sound");
        assert!(holds_its_content(dir.path(), &name) && holds_its_content(dir.path(), "eng/1.wav"));
        sync(dir.path(), &[&name]).unwrap();
        assert!(sync(dir.path(), &[&name, "prepared/none.wav"]).unwrap_err().is_disk());
    }
}
