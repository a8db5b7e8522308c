//! Clips and images to files, each whole or not at all, under a name that says what they are and changes with their
//! content: the same clip of several rows is one file, and what is there needs not be written again.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::PrepareError;
use super::counting::FileNote;
use crate::dataset::Dataset;
use crate::dataset::prepared::FOLDER;
use crate::media::{self, EMPTY_SAMPLES, NO_SAMPLES};

/// Tells files that are being written apart, within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Files that are synced at once.
const SYNCING: usize = 8;

/// Writes the media of a set.
#[derive(Debug)]
pub(super) struct Store<'a> {
    pub(super) dataset: Dataset,
    /// The data folder of what is written, and whether it is that of the sources.
    pub(super) to: &'a Path,
    pub(super) in_place: bool,
    /// The set.
    pub(super) set: &'a str,
    /// What became of the current row.
    pub(super) files: Vec<FileNote>,
    pub(super) absent: u64,
    pub(super) problems: Vec<String>,
    /// Those of the problems that may pass: what could not be read.
    pub(super) faults: u64,
    /// Files that this one wrote or found whole.
    pub(super) whole: HashSet<String>,
}

/// A clip or image that has a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Saved {
    /// Its name in the data folder.
    pub(super) name: String,
    /// Its length, where it is audio whose header is read.
    pub(super) seconds: Option<f64>,
    /// Its rate, likewise.
    pub(super) rate: Option<u32>,
}

/// A name as a part of a file's name on any system.
pub(super) fn plain(text: &str) -> String {
    let plain = text.chars().take(60).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    plain.collect::<String>().trim_matches('-').to_owned()
}

impl Store<'_> {
    /// Writes a clip or image under a name that begins with `stem`; `None` where there is none, or it cannot be read,
    /// which is noted.
    pub(super) fn keep(&mut self, name: &str, stem: &str) -> Result<Option<Saved>, PrepareError> {
        let source = match self.dataset.media(name) {
            Ok(source) => source,
            Err(e) => return Ok(self.broken(e.to_string())),
        };
        let content = match source.read() {
            Ok(content) => content,
            Err(sentence) if sentence == NO_SAMPLES || sentence == EMPTY_SAMPLES => {
                self.absent += 1;
                return Ok(None);
            }
            Err(sentence) => {
                self.faults += 1;
                return Ok(self.broken(format!("{name}: {sentence}")));
            }
        };
        let file = match media::as_file(content) {
            Ok(file) => file,
            Err(sentence) => return Ok(self.broken(format!("{name}: {sentence}"))),
        };
        let audio = file.audio.as_ref().filter(|audio| audio.rate > 0);
        let seconds = audio.map(|audio| audio.frames as f64 / f64::from(audio.rate));
        let place = if source.is_embedded() || !self.in_place {
            let place = format!("{FOLDER}/{}/{stem}-{}.{}", self.set, hash(&file.bytes), file.suffix);
            if !self.whole.contains(&place) {
                write(&self.to.join(&place), &file.bytes)?;
                self.whole.insert(place.clone());
            }
            place
        } else {
            // A file of its own already.
            name.to_owned()
        };
        self.files.push(FileNote {
            name: place.clone(),
            bytes: file.bytes.len() as u64,
            seconds: seconds.unwrap_or(0.0),
            form: file.form.into(),
            beyond: file.beyond,
        });
        Ok(Some(Saved { name: place, seconds, rate: audio.map(|audio| audio.rate) }))
    }

    fn broken(&mut self, problem: String) -> Option<Saved> {
        self.problems.push(problem);
        None
    }
}

/// What the name of a file has of its content.
fn hash(bytes: &[u8]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
