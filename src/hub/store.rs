//! The hub as the rest of the program sees it: what a revision holds, and its files on this machine.
//!
//! Nothing is asked that is known: a commit never changes, so a commit whose listing is in the cache is looked up
//! without a request. Where the hub cannot be reached, what the cache has seen last is taken, and said so.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::api::{self, Entry};
use super::cache::{Cache, Repo, make_parent};
use super::client::{Client, Linked};
use super::download::{self, Job};
use super::error::HubError;
use super::names::{below, is_commit};
use super::sink::{Check, Sums};
use super::{Event, Observer};
use crate::config::hub::HubSettings;

/// The hub and its cache.
#[derive(Debug)]
pub struct Hub {
    settings: HubSettings,
    cache: Cache,
    client: OnceLock<Client>,
}

/// Whether a branch may have moved since it was seen last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Asks the hub where a branch is now.
    Now,
    /// Takes where it was seen last, if that is known.
    Known,
}

/// What a revision of a repository holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The repository.
    pub repo: Repo,
    /// The revision that was asked for.
    pub revision: String,
    /// Its commit.
    pub commit: String,
    /// Its files.
    pub entries: Vec<Entry>,
    /// Why it is not the newest, where the hub could not be asked.
    pub stale: Option<String>,
}

impl Hub {
    /// The hub as the environment describes it. Nothing is asked yet.
    pub fn new(settings: HubSettings) -> Self {
        let cache = Cache::new(&settings.cache);
        Self { settings, cache, client: OnceLock::new() }
    }

    /// The settings.
    pub fn settings(&self) -> &HubSettings {
        &self.settings
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The client; an error where nothing may be asked.
    pub(super) fn client(&self, what: &str) -> Result<&Client, HubError> {
        if self.settings.offline {
            return Err(HubError::OfflineFile { what: what.to_owned() });
        }
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::new(&self.settings)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// What a revision holds.
    pub async fn list(
        &self,
        repo: &Repo,
        revision: &str,
        lookup: Lookup,
        remedy: &str,
        observer: &dyn Observer,
    ) -> Result<Listing, HubError> {
        let name = HubError::Name {
            what: "revision",
            found: revision.to_owned(),
            expected: "a branch, a tag or a commit, such as main",
        };
        below(revision).ok_or(name)?;
        let listing = |commit: String, entries, stale| Listing {
            repo: repo.clone(),
            revision: revision.to_owned(),
            commit,
            entries,
            stale,
        };
        let known = || {
            let commit = self.cache.commit(repo, revision)?;
            Some((self.cache.tree(repo, &commit)?, commit))
        };
        if (lookup == Lookup::Known || is_commit(revision) || self.settings.offline)
            && let Some((entries, commit)) = known()
        {
            return Ok(listing(commit, entries, None));
        }
        // What is there without a listing, and why no more is known.
        let found = |why: &str| {
            let commit = self.cache.commit(repo, revision)?;
            let entries = self.cache.found(repo, &commit);
            let why =
                format!("{why}, and the cache holds no list of its files: what is there is taken to be all");
            (!entries.is_empty()).then(|| listing(commit, entries, Some(why)))
        };
        if self.settings.offline {
            if let Some(found) = found("HF_HUB_OFFLINE is set") {
                return Ok(found);
            }
            return Err(self.offline(&format!("the list of files of {repo} at {revision}"), remedy));
        }
        match self.ask(repo, revision, observer).await {
            Ok((commit, entries)) => Ok(listing(commit, entries, None)),
            Err(error @ HubError::GivenUp { .. }) => match known() {
                Some((entries, commit)) => Ok(listing(commit, entries, Some(error.to_string()))),
                None => found(&error.to_string()).ok_or(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn ask(
        &self,
        repo: &Repo,
        revision: &str,
        observer: &dyn Observer,
    ) -> Result<(String, Vec<Entry>), HubError> {
        let client = self.client(&repo.to_string())?;
        let commit = if is_commit(revision) {
            revision.to_owned()
        } else {
            api::commit(client, repo, revision, observer).await?
        };
        let entries = if let Some(entries) = self.cache.tree(repo, &commit) {
            entries
        } else {
            let entries = api::tree(client, repo, &commit, observer).await?;
            self.keep(self.cache.keep_tree(repo, &commit, &entries));
            entries
        };
        self.keep(self.cache.note(repo, revision, &commit));
        Ok((commit, entries))
    }

    /// The cache may be there to be read only; what is noted in it is a help, no need.
    fn keep(&self, written: Result<(), HubError>) {
        if let Err(error) = written.and_then(|()| self.cache.tag()) {
            tracing::info!("the hub's cache is not written to: {error}");
        }
    }

    /// An error on something that is not here.
    pub(super) fn offline(&self, what: &str, remedy: &str) -> HubError {
        HubError::Offline {
            what: what.to_owned(),
            cache: self.cache.root().to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    /// Gets a file of a listing into the cache, if it is not there, and gives its place in the commit's folder,
    /// with its sums where it came now.
    pub(super) async fn fetch(
        &self,
        listing: &Listing,
        entry: &Entry,
        remedy: &str,
        observer: &dyn Observer,
    ) -> Result<(PathBuf, Option<Sums>), HubError> {
        let (repo, commit) = (&listing.repo, &listing.commit);
        if let Some(path) = self.cache.find(repo, commit, entry) {
            observer.on(&entry.path, Event::Begin { bytes: Some(entry.bytes), have: entry.bytes });
            return Ok((path, None));
        }
        let blob = self.cache.blob(repo, entry);
        let whole = || std::fs::metadata(&blob).is_ok_and(|found| found.len() == entry.bytes);
        if !whole() && self.settings.offline {
            return Err(self.offline(&format!("{} of {repo} at {}", entry.path, listing.revision), remedy));
        }
        make_parent(&blob)?;
        let _lock = download::lock(&self.cache.lock(repo, entry), &entry.path, observer).await?;
        // Another process may have fetched it meanwhile.
        let sums = if whole() {
            observer.on(&entry.path, Event::Begin { bytes: Some(entry.bytes), have: entry.bytes });
            None
        } else {
            let client = self.client(&entry.path)?;
            let url = address(client, listing, entry);
            let job = Job {
                name: entry.path.clone(),
                url,
                target: blob,
                bytes: Some(entry.bytes),
                check: check_of(entry),
                linked: Linked {
                    commit: Some(commit.clone()),
                    etag: Some(entry.etag().to_owned()),
                    size: entry.sha256.as_ref().map(|_| entry.bytes),
                },
                versioned: false,
            };
            Some(download::fetch(client, &job, observer).await?)
        };
        Ok((self.cache.link(repo, commit, entry)?, sums))
    }

    /// Reads a file again and checks its hash.
    pub(super) fn verify(path: &std::path::Path, entry: &Entry) -> Result<Sums, HubError> {
        let check = check_of(entry);
        let sums = Sums::of(path, &check).map_err(HubError::io(path, "cannot be read"))?;
        match sums.meet(&check) {
            Ok(()) => Ok(sums),
            Err((hash, expected, found)) => {
                let why = format!("{hash} expected {expected}, found {found}");
                Err(HubError::InTheWay { path: std::fs::canonicalize(path).unwrap_or(path.to_owned()), why })
            }
        }
    }
}

fn check_of(entry: &Entry) -> Check {
    match &entry.sha256 {
        Some(sha256) => Check::Sha256(sha256.clone()),
        None => Check::GitBlob { id: entry.blob_id.clone(), bytes: entry.bytes },
    }
}

/// `ENDPOINT/[datasets/]org/name/resolve/COMMIT/PATH`
fn address(client: &Client, listing: &Listing, entry: &Entry) -> reqwest::Url {
    let kind = match listing.repo.kind {
        super::RepoKind::Model => None,
        super::RepoKind::Dataset => Some("datasets"),
    };
    let parts = kind.into_iter().chain(listing.repo.id.split('/'));
    client.hub_url(parts.chain(["resolve", &listing.commit]).chain(entry.path.split('/')))
}
