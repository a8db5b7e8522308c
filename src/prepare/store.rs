//! Clips and images to files, each whole or not at all, under a name that says what they are and changes with their
//! content: the same clip of several rows is one file, and what is there needs not be written again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::PrepareError;
use super::counting::FileNote;
use crate::dataset::Dataset;
use crate::dataset::prepared::FOLDER;
use crate::media::{self, EMPTY_SAMPLES, NO_SAMPLES};

/// Tells files that are being written apart, within this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

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
            Err(sentence) => return Ok(self.broken(format!("{name}: {sentence}"))),
        };
        let file = match media::as_file(content) {
            Ok(file) => file,
            Err(sentence) => return Ok(self.broken(format!("{name}: {sentence}"))),
        };
        let audio = file.audio.as_ref().filter(|audio| audio.rate > 0);
        let seconds = audio.map(|audio| audio.frames as f64 / f64::from(audio.rate));
        let place = if source.is_embedded() || !self.in_place {
            let hash = blake3::hash(&file.bytes).to_hex();
            let hash = hash.get(..16).unwrap_or(&hash);
            let place = format!("{FOLDER}/{}/{stem}-{hash}.{}", self.set, file.suffix);
            write(&self.to.join(&place), &file.bytes)?;
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

/// Writes a file whole or not at all, unless it is there: its name changes with its content.
fn write(path: &Path, bytes: &[u8]) -> Result<(), PrepareError> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() == bytes.len() as u64) {
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
