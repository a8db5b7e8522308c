//! What keeps data from being prepared.

use std::io;
use std::path::{Path, PathBuf};

use crate::benchmark::sources::SourcesError;
use crate::dataset::DatasetError;
use crate::dataset::fetched::RecordError;

/// Data that cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// No such benchmark.
    #[error(transparent)]
    Unknown(#[from] SourcesError),
    /// The published files cannot be used.
    #[error("{0}; get the data with `harness fetch {1}`")]
    Data(DatasetError, &'static str),
    /// The files that were prepared earlier cannot be used.
    #[error(transparent)]
    Prepared(DatasetError),
    /// The published files are not there.
    #[error("{}: holds {what}: {remedy}", .folder.display())]
    Missing {
        /// The data folder.
        folder: PathBuf,
        /// What it holds instead.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The record of the fetch cannot be used.
    #[error(transparent)]
    Fetched(#[from] RecordError),
    /// Languages were named that cannot be.
    #[error("--languages: {0}")]
    Languages(String),
    /// The folder holds something else.
    #[error("{}: was prepared for {found}: name another folder with --to", .folder.display())]
    Other {
        /// The folder.
        folder: PathBuf,
        /// The benchmark that it was prepared for.
        found: String,
    },
    /// Another process is at it.
    #[error("{}: another harness prepares data in this folder: wait for it, or name another folder with --to", .0.display())]
    Locked(PathBuf),
    /// The system refused.
    #[error("{}: {}", .path.display(), disk(.source))]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A published file is not the one that was fetched.
    #[error(
        "{}: was changed since it was fetched: its sha256 is {found}, that of fetch.json {fetched}; move it away and \
         get it again with `harness fetch {benchmark}`. Data that are meant to differ need a folder without fetch.json",
        .path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What it was.
        fetched: String,
        /// What it is.
        found: String,
        /// The benchmark.
        benchmark: &'static str,
    },
    /// Claims, or pages of Wikipedia, that are not what they should be: a sentence.
    #[error("{0}")]
    Evidence(String),
    /// A bug.
    #[error("{0}: this is a bug in harness; what is done is kept, and the same command goes on from there")]
    Internal(&'static str),
}

fn disk(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full: make room, or name another folder with --to; what is done is kept, and the same command \
             goes on from there"
                .to_owned()
        }
        _ => format!("cannot be written: {source}"),
    }
}

impl PrepareError {
    pub(super) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Disk { path, source }
    }

    /// Whether the folder is the cause, not what was asked for.
    pub fn is_disk(&self) -> bool {
        matches!(self, Self::Disk { .. } | Self::Locked(_) | Self::Internal(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_sentence_that_says_what_to_do() {
        let error = PrepareError::disk(Path::new("x/a.wav"))(io::ErrorKind::StorageFull.into());
        assert!(error.is_disk());
        assert!(error.to_string().starts_with("x/a.wav: the disk is full: make room"), "{error}");
        let error = PrepareError::disk(Path::new("x"))(io::ErrorKind::PermissionDenied.into());
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
}
