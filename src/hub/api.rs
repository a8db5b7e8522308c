//! The hub's API: which commit a revision is, and which files a commit has.
//!
//! Sources: the hub's API as Python's `huggingface_hub` uses it (`repo_info`, `list_repo_tree`).

use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde::Deserialize;
use tokio::time::sleep;

use super::cache::Repo;
use super::client::{Client, Fault};
use super::error::HubError;
use super::names::{below, is_commit, is_hex};
use super::retry::{ATTEMPTS_AT_LISTING as ATTEMPTS, Backoff};
use super::{Event, Observer};

/// Pages of a listing that are read; the hub has 1,000 files on a page.
const PAGES: usize = 20_000;

/// A file of a repository at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, with folders.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The id of its blob in git: of the file itself, or of the pointer to a large one.
    pub blob_id: String,
    /// The SHA-256 of a large file.
    pub sha256: Option<String>,
    /// What names a large file in the hub's other store; kept for Python.
    pub xet_hash: Option<String>,
}

impl Entry {
    /// The name of its blob in the cache: the entity tag that the hub gives it.
    pub fn etag(&self) -> &str {
        self.sha256.as_deref().unwrap_or(&self.blob_id)
    }

    /// An entry whose names are what they should be, or what is wrong.
    pub(super) fn checked(self, origin: &str) -> Result<Self, HubError> {
        if below(&self.path).is_none() {
            return Err(HubError::Unsafe { origin: origin.to_owned(), name: self.path });
        }
        let name = |what, found: &str, expected| HubError::Name { what, found: found.to_owned(), expected };
        if !is_hex(&self.blob_id, 40) {
            return Err(name("id of a git blob", &self.blob_id, "40 hexadecimal digits"));
        }
        if let Some(sha256) = self.sha256.as_deref().filter(|sha256| !is_hex(sha256, 64)) {
            return Err(name("SHA-256", sha256, "64 hexadecimal digits"));
        }
        Ok(self)
    }
}

#[derive(Deserialize)]
struct Info {
    sha: String,
}

#[derive(Deserialize)]
struct Row {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<Lfs>,
    #[serde(rename = "xetHash")]
    xet_hash: Option<String>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

/// The commit that a revision is now.
pub(super) async fn commit(
    client: &Client,
    repo: &Repo,
    revision: &str,
    observer: &dyn Observer,
) -> Result<String, HubError> {
    let what = format!("{repo} at {revision}");
    let (owner, name) = repo.id.split_once('/').unwrap_or((&repo.id, ""));
    let url = client.hub_url(["api", repo.kind.plural(), owner, name, "revision", revision]);
    let (_, body) = text(client, &url, &what, observer).await?;
    let info: Info =
        serde_json::from_slice(&body).map_err(|error| client.odd(&url, &what, error.to_string()))?;
    if is_commit(&info.sha) {
        return Ok(info.sha);
    }
    Err(client.odd(&url, &what, "it names no commit"))
}

/// All files of a commit.
pub(super) async fn tree(
    client: &Client,
    repo: &Repo,
    commit: &str,
    observer: &dyn Observer,
) -> Result<Vec<Entry>, HubError> {
    let what = format!("the files of {repo} at {}", commit.get(..7).unwrap_or(commit));
    let (owner, name) = repo.id.split_once('/').unwrap_or((&repo.id, ""));
    let mut url = client.hub_url(["api", repo.kind.plural(), owner, name, "tree", commit]);
    url.set_query(Some("recursive=true&expand=false"));
    let mut entries = Vec::new();
    for _ in 0..PAGES {
        let (headers, body) = text(client, &url, &what, observer).await?;
        let rows: Vec<Row> =
            serde_json::from_slice(&body).map_err(|error| client.odd(&url, &what, error.to_string()))?;
        for row in rows.into_iter().filter(|row| row.kind == "file") {
            let entry = Entry {
                path: row.path,
                bytes: row.lfs.as_ref().map_or(row.size, |lfs| lfs.size),
                blob_id: row.oid,
                sha256: row.lfs.map(|lfs| lfs.oid),
                xet_hash: row.xet_hash,
            };
            entries.push(entry.checked(&repo.to_string())?);
        }
        match next_page(&headers, &url) {
            None => return Ok(entries),
            Some(next) if client.is_hub(&next) && next != url => url = next,
            Some(_) => return Err(client.odd(&url, &what, "its next page is on another host")),
        }
    }
    Err(client.odd(&url, &what, format!("its listing has more than {PAGES} pages")))
}

/// `Link: <https://…>; rel="next"`
fn next_page(headers: &HeaderMap, url: &Url) -> Option<Url> {
    headers
        .get_all(LINK)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(", <"))
        .find(|link| link.contains("rel=\"next\""))
        .and_then(|link| link.trim_start_matches('<').split('>').next())
        .and_then(|target| url.join(target).ok())
}

async fn text(
    client: &Client,
    url: &Url,
    what: &str,
    observer: &dyn Observer,
) -> Result<(HeaderMap, Vec<u8>), HubError> {
    let mut backoff = Backoff::new(what, ATTEMPTS);
    loop {
        let (why, after) = match client.text(url, what).await {
            Ok(found) => return Ok(found),
            Err(Fault::Final(error)) => return Err(error),
            Err(Fault::NoSuchRange) => ("a range is refused that was not asked for".to_owned(), None),
            Err(Fault::Again { why, after }) => (why, after),
        };
        let Some(wait) = backoff.next(after) else {
            return Err(HubError::GivenUp { what: what.to_owned(), why, attempts: ATTEMPTS });
        };
        observer.on(what, Event::Note(&format!("{why}; next attempt in {:.1} s", wait.as_secs_f64())));
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found() {
        let url = Url::parse("https://h.example/api/x").unwrap();
        let next = |link: &str| {
            let headers = [(LINK, link.parse().unwrap())].into_iter().collect();
            next_page(&headers, &url).map(String::from)
        };
        assert_eq!(next("</api/x?c=2>; rel=\"next\"").as_deref(), Some("https://h.example/api/x?c=2"));
        let two = "<https://h.example/1>; rel=\"prev\", <https://h.example/3>; rel=\"next\"";
        assert_eq!(next(two).as_deref(), Some("https://h.example/3"));
        assert_eq!(next("<https://h.example/1>; rel=\"prev\""), None);
        assert_eq!(next_page(&HeaderMap::new(), &url), None);
    }

    #[test]
    fn entries_that_lead_out_or_have_odd_hashes_are_refused() {
        let entry = |path: &str, blob_id: &str, sha256: Option<&str>| Entry {
            path: path.into(),
            bytes: 1,
            blob_id: blob_id.into(),
            sha256: sha256.map(str::to_owned),
            xet_hash: None,
        };
        let good = "a".repeat(40);
        assert!(entry("d/x", &good, None).checked("r").is_ok());
        assert!(matches!(entry("../x", &good, None).checked("r"), Err(HubError::Unsafe { .. })));
        assert!(entry("x", "../../etc", None).checked("r").is_err());
        assert!(entry("x", &good, Some("ABC")).checked("r").is_err());
    }
}
