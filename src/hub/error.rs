//! Why something cannot be had.

use std::path::{Path, PathBuf};

/// A download that failed, or that cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A name that cannot be one.
    #[error("`{found}` is no {what}; expected {expected}")]
    Name {
        /// What it should be.
        what: &'static str,
        /// What it is.
        found: String,
        /// What one looks like.
        expected: &'static str,
    },
    /// A name that the published data do not have.
    #[error("unknown {what} `{found}`: {hint}there are {known}")]
    Unknown {
        /// What kind of name it is.
        what: &'static str,
        /// The name.
        found: String,
        /// The nearest one, as the beginning of a sentence.
        hint: String,
        /// Those that there are.
        known: String,
    },
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
    /// Something is not in the cache, and the network may not be used.
    #[error("{what} is not in the hub's cache ({}), and HF_HUB_OFFLINE is set; where there is a network: {remedy}", .cache.display())]
    Offline {
        /// The file or listing, with repository and revision.
        what: String,
        /// The cache.
        cache: PathBuf,
        /// The command to give.
        remedy: String,
    },
    /// The network may not be used.
    #[error("{what} is not there, and HF_HUB_OFFLINE is set; give the same command where there is a network")]
    OfflineFile {
        /// The file.
        what: String,
    },
    /// A server says no.
    #[error("{what}: {host} answers {status}{told}; {help}")]
    Refused {
        /// What was asked for.
        what: String,
        /// The server.
        host: String,
        /// The status.
        status: u16,
        /// What the server says of it.
        told: String,
        /// What to do.
        help: String,
    },
    /// It was tried often enough.
    #[error(
        "{what}: {why}; given up after {attempts} attempts. What came is kept: the same command goes on from there"
    )]
    GivenUp {
        /// What was asked for.
        what: String,
        /// The last failure.
        why: String,
        /// How often it was tried without a byte coming.
        attempts: u32,
    },
    /// A reply that is not what the hub replies.
    #[error("{what}: {host} does not answer as the hub does: {why}; check HF_ENDPOINT and your proxy")]
    Reply {
        /// What was asked for.
        what: String,
        /// The server.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// The bytes are not those that were published.
    #[error(
        "{what}: the bytes that came are not the published file: {hash} expected {expected}, found {found}. It was \
         thrown away; try again, and if it stays so, the file was changed where it is published, or something on \
         the way changes it"
    )]
    Corrupt {
        /// The file.
        what: String,
        /// The kind of hash, or `bytes`.
        hash: &'static str,
        /// As published.
        expected: String,
        /// As found.
        found: String,
    },
    /// A server that speaks of another file than was asked for, before any of its bytes is taken.
    #[error(
        "{what}: the server speaks of another file than the published one: {kind} expected {expected}, found {found}. \
         Nothing of it was taken; try again, and if it stays so, the file was changed where it is published, or the \
         server (HF_ENDPOINT, HARNESS_MIRRORS) has another version of it"
    )]
    Other {
        /// The file.
        what: String,
        /// What it says of it: its commit, entity tag or size.
        kind: &'static str,
        /// As published.
        expected: String,
        /// As found.
        found: String,
    },
    /// A file of the user's, or one that was changed.
    #[error(
        "{}: a file is there that is not the published one ({why}); move it away, then give the same command again",
        .path.display()
    )]
    InTheWay {
        /// The file.
        path: PathBuf,
        /// How that is known.
        why: String,
    },
    /// A name that would leave its folder.
    #[error(
        "{origin} holds the file name `{name}`, which leads out of its folder; nothing is fetched from it"
    )]
    Unsafe {
        /// The listing or archive.
        origin: String,
        /// The name.
        name: String,
    },
    /// An archive that cannot be unpacked.
    #[error("{}: {why}", .archive.display())]
    Archive {
        /// The archive.
        archive: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// Nothing fits a pattern.
    #[error(
        "no file fits `{pattern}` in {origin}; it was published under another name or withdrawn: look at {page}"
    )]
    Nothing {
        /// The pattern.
        pattern: String,
        /// The repository with its revision.
        origin: String,
        /// Where a person can look.
        page: String,
    },
    /// Two files for one place.
    #[error("two files of the published data would become `{}`; fetch their parts one by one, each with its own --to", .0.display())]
    Clash(PathBuf),
    /// A choice that cannot be carried out.
    #[error("{0}")]
    Choice(String),
    /// The disk is too small.
    #[error(
        "{}: {needed} more are needed there and {free} are free; make room, {other}", .path.display()
    )]
    Space {
        /// The folder.
        path: PathBuf,
        /// What is needed, for people.
        needed: String,
        /// What is free, for people.
        free: String,
        /// What else can be done.
        other: String,
    },
    /// The disk is full.
    #[error("{}: the disk is full; make room, then give the same command again: it goes on from there", .0.display())]
    Full(PathBuf),
    /// The system refused.
    #[error("{}: {action}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A record that cannot be read.
    #[error("{}: {why}; move it away, then give the same command again: files that are there are checked, not fetched again", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A thread ended early.
    #[error("internal error: {0}; please report this")]
    Internal(String),
}

impl HubError {
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::Full(path),
            _ => Self::Io { path, action, source },
        }
    }

    /// Whether going on with other files is no use.
    pub(super) fn ends_all(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Client(_))
    }

    /// Whether it is the disk's fault: the folder, not the network or what was asked for.
    pub fn is_disk(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Space { .. } | Self::Io { .. } | Self::Record { .. })
    }

    /// Whether what was asked for cannot be: a name that is wrong, a file that is in the way.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Name { .. }
                | Self::Unknown { .. }
                | Self::InTheWay { .. }
                | Self::Clash(_)
                | Self::Choice(_)
        )
    }
}
