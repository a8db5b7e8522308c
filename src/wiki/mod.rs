//! Pages of Wikipedia on disk, and a search over them.
//!
//! A dump of a million pages is read once: into a [`Store`] that gives any page or sentence by its title, and into an
//! [`Index`] that finds pages by their words (BM25). Both are one file each, read at the places that are asked for:
//! opening one takes a few megabytes of memory, whatever the size of the dump. They are formats of our own, since what
//! is needed is little: titles to records and words to pages, written once, never changed. A database would bring
//! locks, pages and a log for that; a search engine some eighty crates, and word segmentation on a dictionary of
//! simplified characters, while these pages are in traditional ones (see [`terms`]).
//!
//! This room knows nothing of claims, labels or benchmarks.

mod build;
pub mod dump;
mod index;
mod indexing;
mod place;
mod search;
mod sentences;
mod store;
pub mod terms;

use std::io;
use std::path::{Path, PathBuf};

pub use build::{StoreBuilder, StoreFacts};
pub use index::{Hit, Index, Searcher};
pub use indexing::{IndexFacts, build_index};
pub use search::{pages_for, pages_named};
pub use sentences::best_sentences;
pub use store::{Page, Store};

/// A file of this room that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WikiError {
    /// Not what it should be.
    #[error("{}: {reason}: delete it and make it again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// More than the format holds.
    #[error("{}: {what}", .path.display())]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
}

impl WikiError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}
