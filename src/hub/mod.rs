//! Downloads: files of the Hugging Face hub and files over plain HTTPS, each byte once, checked, and found again.
//!
//! Files of the hub live in the cache of Python's `huggingface_hub`, in its layout, so that what one downloaded the
//! other finds (`cache`). The client is our own, on the HTTP library that endpoints use as well: the `hf-hub` crate
//! begins a broken download anew, checks no hash, knows no offline mode, gives up on a lock that another process
//! holds for long, posts telemetry, and brings a second TLS library and some ninety crates.
//!
//! The way of a file: a listing names it with size and hash (`api`), `download` gets it into a file beside its
//! place, going on where an earlier attempt ended, `sink` writes and hashes, and only what is whole and right gets
//! its name. [`plan`](plan::plan) makes of a benchmark's [`Sources`](crate::benchmark::sources::Sources) what is to
//! be done, [`carry_out`](carry_out::carry_out) does it, and `fetch.json` ([`record`]) remembers it.
//!
//! This room must not know what is in the files: no dataset format, no protocol, no model. It reads no environment
//! ([`crate::config::hub`] does) and prints nothing ([`Observer`] hears what happens).

mod api;
mod cache;
pub mod carry_out;
mod choice;
mod client;
mod disk;
mod download;
mod error;
mod look;
mod models;
mod names;
pub mod plan;
pub mod record;
mod retry;
mod sink;
mod store;
mod unpack;

pub use api::Entry;
pub use cache::{Cache, Repo, RepoKind};
pub use disk::free as free_space;
pub use error::HubError;
pub use models::ModelFiles;
pub use store::{Hub, Listing, Lookup};

/// What happens to files while they are fetched.
#[derive(Debug)]
pub enum Event<'a> {
    /// Work on a file begins; so many of its bytes are there already.
    Begin {
        /// Its size, where it is known.
        bytes: Option<u64>,
        /// What is there.
        have: u64,
    },
    /// Bytes have come.
    Bytes(u64),
    /// Bytes that were there are of no use after all.
    Discard(u64),
    /// Something that the user should know while it lasts: a wait, another attempt.
    Note(&'a str),
    /// The file is there and right.
    Done,
    /// The file cannot be had.
    Failed,
}

/// Hears what happens; files are told apart by their names.
pub trait Observer: Send + Sync {
    /// Something happens to a file.
    fn on(&self, file: &str, event: Event<'_>);
}

/// Who listens to nothing.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Observer for Quiet {
    fn on(&self, _: &str, _: Event<'_>) {}
}
