//! Media inside a dataset's files, by name: `test-00000-of-00008.parquet#17.audio` is the column `audio` of row 17,
//! counted from 0. Below the column come the fields and the numbers of list items, each after a dot.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cursor::Counts;
use super::files::DataFile;
use super::names::MediaNameError;
use crate::media::{MediaContent, ReadMedia};

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
}

impl Drop for Inside {
    fn drop(&mut self) {
        super::cursor::forget(self.id);
    }
}

impl ReadMedia for Inside {
    fn read_media(&self, name: &str) -> Result<MediaContent, String> {
        let place = self.place(name).ok_or("is no place in a file of the dataset")?;
        place.file.media((self.id, place.number), place.row, &place.path, &self.counts)
    }
}
