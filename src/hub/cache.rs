//! The hub's cache on disk, in the layout of Python's `huggingface_hub`, so that each finds what the other has.
//!
//! ```text
//! models--org--name/
//!   blobs/<entity tag>               the files; `.incomplete` behind the name while they come
//!   snapshots/<commit>/<path>        links to them, relative
//!   refs/<revision>                  the commit that a branch or tag was last seen at
//!   trees/<commit>.json              the files of a commit with sizes and hashes
//! .locks/models--org--name/<entity tag>.lock
//! ```
//!
//! This module must not know the network.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::api::Entry;
use super::error::HubError;
use super::names::{below, is_commit, is_hex};
use crate::config::hub::is_repo;

/// The version of the listings that Python and we read and write.
const TREE_VERSION: u64 = 1;

/// Kinds of repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepoKind {
    /// A model.
    Model,
    /// A data set.
    Dataset,
}

impl RepoKind {
    /// As it stands in addresses of the API and in names of the cache.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

/// A repository of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    /// What kind it is.
    pub kind: RepoKind,
    /// `org/name`
    pub id: String,
}

impl Repo {
    /// A repository by its name, which is checked.
    pub fn new(kind: RepoKind, id: &str) -> Result<Self, HubError> {
        if is_repo(id) {
            return Ok(Self { kind, id: id.to_owned() });
        }
        Err(HubError::Name {
            what: "repository of the hub",
            found: id.to_owned(),
            expected: "owner/name, such as Qwen/Qwen2-Audio-7B-Instruct",
        })
    }

    fn folder(&self) -> String {
        format!("{}--{}", self.kind.plural(), self.id.replace('/', "--"))
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RepoKind::Model => f.write_str(&self.id),
            RepoKind::Dataset => write!(f, "datasets/{}", self.id),
        }
    }
}

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

#[derive(Deserialize, Serialize)]
struct TreeFile {
    format_version: u64,
    files: BTreeMap<String, TreeEntry>,
}

#[derive(Deserialize, Serialize)]
struct TreeEntry {
    size: u64,
    blob_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lfs_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lfs_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    xet_hash: Option<String>,
}

impl Cache {
    /// The cache in a folder, which need not be there.
    pub fn new(root: &Path) -> Self {
        // Links into it must hold wherever they stand.
        Self { root: std::path::absolute(root).unwrap_or_else(|_| root.to_owned()) }
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn repo(&self, repo: &Repo) -> PathBuf {
        self.root.join(repo.folder())
    }

    /// Where the bytes of a file are.
    pub(super) fn blob(&self, repo: &Repo, entry: &Entry) -> PathBuf {
        self.repo(repo).join("blobs").join(entry.etag())
    }

    /// The folder of a commit's files.
    pub fn snapshot(&self, repo: &Repo, commit: &str) -> PathBuf {
        self.repo(repo).join("snapshots").join(commit)
    }

    /// The file that whoever fetches a blob holds a lock on.
    pub(super) fn lock(&self, repo: &Repo, entry: &Entry) -> PathBuf {
        self.root.join(".locks").join(repo.folder()).join(format!("{}.lock", entry.etag()))
    }

    /// The commit that a revision was last seen at.
    pub(super) fn commit(&self, repo: &Repo, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let path = self.repo(repo).join("refs").join(below(revision)?);
        let commit = std::fs::read_to_string(path).ok()?.trim().to_owned();
        is_commit(&commit).then_some(commit)
    }

    /// Notes the commit that a revision is at.
    pub(super) fn note(&self, repo: &Repo, revision: &str, commit: &str) -> Result<(), HubError> {
        if revision == commit || self.commit(repo, revision).as_deref() == Some(commit) {
            return Ok(());
        }
        let name = below(revision).ok_or_else(|| HubError::Name {
            what: "revision",
            found: revision.to_owned(),
            expected: "a branch, a tag or a commit",
        })?;
        write_beside(&self.repo(repo).join("refs").join(name), commit.as_bytes())
    }

    /// Where a file of a commit is, if all of it is there.
    pub(super) fn find(&self, repo: &Repo, commit: &str, entry: &Entry) -> Option<PathBuf> {
        let path = self.snapshot(repo, commit).join(below(&entry.path)?);
        let found = std::fs::metadata(&path).ok()?;
        (found.is_file() && found.len() == entry.bytes).then_some(path)
    }

    /// How many bytes of a file are there: all, some, or none.
    pub(super) fn have(&self, repo: &Repo, commit: &str, entry: &Entry) -> u64 {
        let blob = self.blob(repo, entry);
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        if self.find(repo, commit, entry).is_some() || length(&blob) == entry.bytes && blob.exists() {
            return entry.bytes;
        }
        length(&incomplete(&blob)).min(entry.bytes)
    }

    /// Makes the link in a commit's folder that stands for a file whose blob is there.
    pub(super) fn link(&self, repo: &Repo, commit: &str, entry: &Entry) -> Result<PathBuf, HubError> {
        if let Some(found) = self.find(repo, commit, entry) {
            return Ok(found);
        }
        let below = below(&entry.path)
            .ok_or_else(|| HubError::Unsafe { origin: repo.to_string(), name: entry.path.clone() })?;
        let depth = below.components().count();
        let path = self.snapshot(repo, commit).join(&below);
        make_parent(&path)?;
        let mut target = PathBuf::new();
        (0..=depth).for_each(|_| target.push(".."));
        target.extend(["blobs", entry.etag()]);
        place(&target, &self.blob(repo, entry), &path)?;
        Ok(path)
    }

    /// The files of a commit as an earlier listing had them, if they can be relied on.
    pub(super) fn tree(&self, repo: &Repo, commit: &str) -> Option<Vec<Entry>> {
        let path = self.repo(repo).join("trees").join(format!("{commit}.json"));
        let tree: TreeFile = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        if tree.format_version != TREE_VERSION {
            return None;
        }
        let entry = |(path, found): (String, TreeEntry)| {
            let entry = Entry {
                path,
                bytes: found.lfs_size.unwrap_or(found.size),
                blob_id: found.blob_id,
                sha256: found.lfs_sha256,
                xet_hash: found.xet_hash,
            };
            entry.checked(&repo.to_string()).ok()
        };
        tree.files.into_iter().map(entry).collect()
    }

    /// The files of a commit that are here: what can be known where no listing was kept, as by older versions of
    /// Python's library. Whether these are all is not known.
    pub(super) fn found(&self, repo: &Repo, commit: &str) -> Vec<Entry> {
        let root = self.snapshot(repo, commit);
        let (mut folders, mut entries) = (vec![String::new()], Vec::new());
        while let Some(folder) = folders.pop() {
            for found in std::fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
                let name = found.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let Ok(meta) = std::fs::metadata(found.path()) else { continue };
                if meta.is_dir() {
                    folders.push(path);
                    continue;
                }
                // The link's target is named by the entity tag.
                let target = std::fs::read_link(found.path()).ok();
                let etag = target.and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned()));
                let sha256 = etag.clone().filter(|etag| is_hex(etag, 64));
                let blob_id = etag.filter(|etag| is_hex(etag, 40)).unwrap_or_else(|| "0".repeat(40));
                let entry = Entry { path, bytes: meta.len(), blob_id, sha256, xet_hash: None };
                entries.extend(entry.checked(&repo.to_string()).ok());
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries
    }

    /// Keeps the files of a commit.
    pub(super) fn keep_tree(&self, repo: &Repo, commit: &str, entries: &[Entry]) -> Result<(), HubError> {
        let file = |entry: &Entry| {
            let found = TreeEntry {
                size: entry.bytes,
                blob_id: entry.blob_id.clone(),
                lfs_sha256: entry.sha256.clone(),
                lfs_size: entry.sha256.as_ref().map(|_| entry.bytes),
                xet_hash: entry.xet_hash.clone(),
            };
            (entry.path.clone(), found)
        };
        let tree = TreeFile { format_version: TREE_VERSION, files: entries.iter().map(file).collect() };
        let path = self.repo(repo).join("trees").join(format!("{commit}.json"));
        let text = serde_json::to_vec_pretty(&tree).map_err(|error| HubError::Internal(error.to_string()))?;
        write_beside(&path, &text)
    }

    /// Tells backup programs that the folder can be had again (<https://bford.info/cachedir/>).
    pub(super) fn tag(&self) -> Result<(), HubError> {
        let path = self.root.join("CACHEDIR.TAG");
        if path.exists() {
            return Ok(());
        }
        write_beside(
            &path,
            b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of files of the Hugging Face hub.\n",
        )
    }
}

/// The name of a file that is not whole yet.
pub(super) fn incomplete(path: &Path) -> PathBuf {
    path.with_added_extension("incomplete")
}

/// Makes the folder of a file.
pub(super) fn make_parent(path: &Path) -> Result<(), HubError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(HubError::io(folder, "the folder cannot be made"))
}

/// Writes a small file whole or not at all.
pub(super) fn write_beside(path: &Path, content: &[u8]) -> Result<(), HubError> {
    make_parent(path)?;
    let beside = path.with_added_extension(format!("{}.tmp", std::process::id()));
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        HubError::io(path, "cannot be written")(error)
    })
}

/// Puts a link to `target` at `path`, over an older link; where links are impossible, a copy of `file`.
pub(super) fn place(target: &Path, file: &Path, path: &Path) -> Result<(), HubError> {
    if std::fs::read_link(path).is_ok_and(|old| old == target) {
        return Ok(());
    }
    // Made beside and moved there: another process may do the same at this moment.
    let beside = path.with_added_extension(format!("{}.link", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    let made = link(target, &beside).or_else(|_| std::fs::copy(file, &beside).map(drop));
    made.and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        HubError::io(path, "neither a link nor a copy can be made here")(error)
    })
}

#[cfg(unix)]
fn link(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// Opens a file to hold a lock on.
pub(super) fn open_lock(path: &Path) -> Result<File, HubError> {
    make_parent(path)?;
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(HubError::io(path, "cannot be written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> Entry {
        Entry { path: path.into(), bytes: 3, blob_id: "b".repeat(40), sha256: None, xet_hash: None }
    }

    #[test]
    fn files_are_where_python_puts_them() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let repo = Repo::new(RepoKind::Dataset, "org/name").unwrap();
        let (commit, entry) = ("c".repeat(40), entry("data/sub/x.bin"));
        let blob = cache.blob(&repo, &entry);
        assert_eq!(blob, dir.path().join(format!("datasets--org--name/blobs/{}", "b".repeat(40))));
        assert_eq!(cache.have(&repo, &commit, &entry), 0);
        make_parent(&blob).unwrap();
        std::fs::write(incomplete(&blob), "ab").unwrap();
        assert_eq!(cache.have(&repo, &commit, &entry), 2);
        std::fs::write(&blob, "abc").unwrap();
        assert_eq!(cache.have(&repo, &commit, &entry), 3);
        assert_eq!(cache.find(&repo, &commit, &entry), None);
        let path = cache.link(&repo, &commit, &entry).unwrap();
        assert_eq!(path, dir.path().join(format!("datasets--org--name/snapshots/{commit}/data/sub/x.bin")));
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        #[cfg(unix)]
        assert_eq!(std::fs::read_link(&path).unwrap(), Path::new("../../../../blobs").join("b".repeat(40)));
        assert_eq!(cache.link(&repo, &commit, &entry).unwrap(), path);
        assert_eq!(cache.found(&repo, &commit), [entry]);
        assert_eq!(cache.found(&repo, &"d".repeat(40)), []);
    }

    #[test]
    fn revisions_and_listings_are_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        let repo = Repo::new(RepoKind::Model, "org/name").unwrap();
        let commit = "c".repeat(40);
        assert_eq!(cache.commit(&repo, "refs/pr/1"), None);
        cache.note(&repo, "refs/pr/1", &commit).unwrap();
        assert_eq!(cache.commit(&repo, "refs/pr/1").as_deref(), Some(commit.as_str()));
        assert!(cache.note(&repo, "../x", &commit).is_err());
        assert_eq!(cache.commit(&repo, "../../x"), None);

        let mut large = entry("l");
        large.sha256 = Some("d".repeat(64));
        let entries = vec![entry("a"), large];
        assert_eq!(cache.tree(&repo, &commit), None);
        cache.keep_tree(&repo, &commit, &entries).unwrap();
        assert_eq!(cache.tree(&repo, &commit), Some(entries));
        let path = dir.path().join(format!("models--org--name/trees/{commit}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"a\"", "\"../a\"")).unwrap();
        assert_eq!(cache.tree(&repo, &commit), None, "a listing that leads out is not read");
    }
}
