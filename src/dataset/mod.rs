//! Published file formats to rows, and names of media to files.
//!
//! The only room that knows file formats of datasets. It gives rows as JSON values with the line they stand
//! on; what a row means is the benchmark's business. It must not know protocols, codecs or models.

mod jsonl;
mod names;

use std::path::{Path, PathBuf};

pub use jsonl::JsonlRows;
pub use names::MediaNameError;

use crate::media::MediaSource;

/// A dataset that cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// Nothing is there.
    #[error("{}: no such file or folder", .0.display())]
    Missing(PathBuf),
    /// A folder without a file that could be the index.
    #[error(
        "{}: the folder holds no JSONL file that can be read as the dataset's index (looked for {}); name the \
         file itself as `data`",
        .folder.display(), .looked_for.join(", ")
    )]
    NoIndex {
        /// The folder.
        folder: PathBuf,
        /// What was looked for.
        looked_for: Vec<String>,
    },
    /// A file of a kind that is not read.
    #[error("{}: not a JSONL file; expected one JSON object a line in a file that ends in .jsonl", .0.display())]
    Format(PathBuf),
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A row of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The line it begins on, from 1.
    pub line: u64,
    /// The row.
    pub value: serde_json::Value,
}

/// A row that cannot be read. The others can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {message}", .file.display())]
pub struct RowError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

/// A dataset on disk: an index file and a folder of media.
#[derive(Clone, Debug)]
pub struct Dataset {
    index: PathBuf,
    media: PathBuf,
}

impl Dataset {
    /// Finds the index of a dataset. `data` is the index file, or a folder that holds `test.jsonl`,
    /// `jsonl/test.jsonl`, `manifest.jsonl` or a single JSONL file. Media names are relative to `media`, or
    /// else to the folder of the data.
    pub fn open(data: &Path, media: Option<&Path>) -> Result<Self, DatasetError> {
        let meta = std::fs::metadata(data).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => DatasetError::Missing(data.to_owned()),
            _ => DatasetError::Io { path: data.to_owned(), source },
        })?;
        let index = if meta.is_dir() { find_index(data)? } else { data.to_owned() };
        if !index
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("jsonl") || e.eq_ignore_ascii_case("ndjson"))
        {
            return Err(DatasetError::Format(index));
        }
        let media = match media {
            Some(folder) => {
                if !folder.is_dir() {
                    return Err(DatasetError::Missing(folder.to_owned()));
                }
                folder.to_owned()
            }
            None if meta.is_dir() => data.to_owned(),
            None => index.parent().map(Path::to_owned).unwrap_or_default(),
        };
        Ok(Self { index, media })
    }

    /// The index file.
    pub fn index(&self) -> &Path {
        &self.index
    }

    /// Where a clip or image is. Names are relative to the folder of the media, and stay in it.
    pub fn media(&self, name: &str) -> Result<MediaSource, MediaNameError> {
        names::within(&self.media, name).map(MediaSource::File)
    }

    /// The rows, one at a time, from the beginning.
    pub fn rows(&self) -> Result<JsonlRows, DatasetError> {
        JsonlRows::open(&self.index)
    }
}

/// The index file of a folder.
fn find_index(folder: &Path) -> Result<PathBuf, DatasetError> {
    const KNOWN: [&str; 3] = ["test.jsonl", "jsonl/test.jsonl", "manifest.jsonl"];
    if let Some(found) = KNOWN.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
        return Ok(found);
    }
    let entries = std::fs::read_dir(folder)
        .map_err(|source| DatasetError::Io { path: folder.to_owned(), source })?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jsonl")))
        .collect::<Vec<_>>();
    match <[PathBuf; 1]>::try_from(entries) {
        Ok([only]) => Ok(only),
        Err(_) => Err(DatasetError::NoIndex {
            folder: folder.to_owned(),
            looked_for: KNOWN
                .iter()
                .map(ToString::to_string)
                .chain(["a single *.jsonl".to_owned()])
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}\n").unwrap();
        }
        dir
    }

    #[test]
    fn index_of_a_folder_is_found_and_media_are_relative_to_the_folder() {
        let dir = folder(&["jsonl/test.jsonl", "other.jsonl"]);
        let data = Dataset::open(dir.path(), None).unwrap();
        assert_eq!(data.index(), dir.path().join("jsonl/test.jsonl"));
        assert_eq!(data.media("eng/1.wav").unwrap().file(), dir.path().join("eng/1.wav"));
    }

    #[test]
    fn media_are_relative_to_the_folder_of_an_index_file() {
        let dir = folder(&["x/rows.jsonl"]);
        let data = Dataset::open(&dir.path().join("x/rows.jsonl"), None).unwrap();
        assert_eq!(data.media("a.wav").unwrap().file(), dir.path().join("x/a.wav"));
        let other = Dataset::open(&dir.path().join("x"), Some(dir.path())).unwrap();
        assert_eq!(other.media("a.wav").unwrap().file(), dir.path().join("a.wav"));
    }

    #[test]
    fn what_cannot_be_an_index_is_refused_with_a_sentence() {
        let dir = folder(&["a.jsonl", "b.jsonl", "c.csv"]);
        let two = Dataset::open(dir.path(), None).unwrap_err().to_string();
        assert!(two.contains("name the file itself"), "{two}");
        let csv = Dataset::open(&dir.path().join("c.csv"), None).unwrap_err().to_string();
        assert!(csv.contains("not a JSONL file"), "{csv}");
        let none = Dataset::open(&dir.path().join("none"), None).unwrap_err().to_string();
        assert!(none.contains("no such file"), "{none}");
    }
}
