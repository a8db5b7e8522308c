//! Media inside a dataset's files, by name: `test-00000-of-00008.parquet#17.audio` is the column `audio` of row 17,
//! counted from 0. Below the column come the fields and the numbers of list items, each after a dot.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cursor::{Cells, Counts, Decoded};
use super::files::DataFile;
use super::names::MediaNameError;
use crate::media::{MediaContent, ReadError, ReadMedia};

/// Tells the datasets of the process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The files of a dataset, as something that media are read from.
pub(super) struct Inside {
    id: u64,
    files: Arc<[DataFile]>,
    by_name: HashMap<String, usize>,
    pub(super) counts: Arc<Counts>,
}

/// A place in a file.
struct Place<'f, 'n> {
    number: usize,
    file: &'f DataFile,
    row: u64,
    path: Vec<&'n str>,
}

impl Inside {
    pub(super) fn new(files: Arc<[DataFile]>) -> Self {
        let by_name =
            files.iter().enumerate().map(|(number, file)| (file.name().to_owned(), number)).collect();
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), files, by_name, counts: Arc::default() }
    }

    fn place<'n>(&self, name: &'n str) -> Option<Place<'_, 'n>> {
        // Names of files and columns may hold `#` too.
        name.match_indices('#').find_map(|(at, _)| {
            let number = *self.by_name.get(name.get(..at)?)?;
            let (row, path) = name.get(at + 1..)?.split_once('.')?;
            let row = row.parse().ok().filter(|_| row.bytes().all(|byte| byte.is_ascii_digit()))?;
            Some(Place { number, file: self.files.get(number)?, row, path: path.split('.').collect() })
        })
    }

    /// The file that a name points into; `None` for names that are no places.
    pub(super) fn file(&self, name: &str) -> Option<Result<&DataFile, MediaNameError>> {
        let place = self.place(name)?;
        if place.file.has_media_at(&place.path) {
            return Some(Ok(place.file));
        }
        let reason = format!("the file has no column of media `{}`", place.path.join("."));
        Some(Err(MediaNameError::Place { name: name.to_owned(), reason }))
    }

    /// Why the samples that a name points to are not read, by the type of their column; `None` for all other names.
    pub(super) fn odd_samples(&self, name: &str) -> Option<String> {
        let place = self.place(name)?;
        place.file.odd_samples(&place.path)
    }
}

impl Inside {
    /// The row that a name points into, read now; `None` for names that are no places, and for media that are read from
    /// their place.
    pub(super) fn ahead(&self, name: &str) -> Option<(&DataFile, Ahead)> {
        let place = self.place(name).filter(|place| place.file.has_media_at(&place.path))?;
        let (row, path) = place.file.row_of((self.id, place.number), place.row, &place.path, &self.counts)?;
        let path = path.iter().map(|step| (*step).to_owned()).collect();
        Some((place.file, Ahead { row, path }))
    }
}

/// Media in a row that is read already: to take them out of it needs no cursor, and nobody to wait for.
pub(super) struct Ahead {
    row: Decoded,
    path: Vec<String>,
}

impl Ahead {
    /// The row, where it could be read.
    pub(super) fn cells(&self) -> Option<&Arc<dyn Cells>> {
        self.row.as_ref().ok()
    }
}

impl ReadMedia for Ahead {
    fn read_media(&self, _: &str) -> Result<MediaContent, ReadError> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        self.row.as_ref().map_err(Clone::clone)?.media(&path)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        super::cursor::forget(self.id);
    }
}

impl ReadMedia for Inside {
    fn read_media(&self, name: &str) -> Result<MediaContent, ReadError> {
        let place = self.place(name).ok_or("is no place in a file of the dataset")?;
        place.file.media((self.id, place.number), place.row, &place.path, &self.counts)
    }
}
