//! One file over HTTP: gone on with where it ended, tried again where that may help, checked before it gets its name.
//!
//! Bytes of two versions are never put together: a server that tells the version of a file (an entity tag or a
//! date) is asked for just that one, the length that it states must stay the same, and what is published with a
//! hash must have it. Where a file that was gone on with turns out wrong, it is fetched once more from the front.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::cache::{incomplete, make_parent, open_lock, write_beside};
use super::client::{Ask, Client, Fault, Linked, Reply, plain_etag};
use super::error::HubError;
use super::retry::{ATTEMPTS, Backoff};
use super::sink::{Check, Sink, Sums};
use super::{Event, Observer, look};

/// Chunks that wait for the disk.
const WAITING: usize = 32;

/// A file to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Its name for people, which tells it apart from others.
    pub(super) name: String,
    /// Its address.
    pub(super) url: Url,
    /// Where it goes.
    pub(super) target: PathBuf,
    /// Its size, where it is published.
    pub(super) bytes: Option<u64>,
    /// What its bytes must be.
    pub(super) check: Check,
    /// What the hub must say of it; empty for other servers.
    pub(super) linked: Linked,
    /// Whether the version is kept beside what came, for the next attempt. Not where the name is the version.
    pub(super) versioned: bool,
}

/// Which version of a file the bytes so far are of; kept beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    url: String,
    etag: Option<String>,
    modified: Option<String>,
    bytes: Option<u64>,
}

impl Version {
    fn of(reply: &Reply, url: &Url, bytes: Option<u64>) -> Self {
        let text = |name| reply.header(name).map(str::to_owned);
        // A signed address is a secret, and the next one is another.
        let mut url = url.clone();
        url.set_query(None);
        Self { url: url.into(), etag: text("etag"), modified: text("last-modified"), bytes }
    }

    /// What `If-Range` takes: a strong tag, else the date.
    fn condition(&self) -> Option<String> {
        let strong = self.etag.as_ref().filter(|etag| etag.starts_with('"'));
        strong.or(self.modified.as_ref()).cloned()
    }

    /// Whether both tell of one version. Where neither tells anything, nothing can be relied on.
    fn same(&self, other: &Self) -> bool {
        let etags = self.etag.as_deref().map(plain_etag).zip(other.etag.as_deref().map(plain_etag));
        let dates = self.modified.as_ref().zip(other.modified.as_ref());
        let sizes = self.bytes.zip(other.bytes).is_none_or(|(a, b)| a == b);
        let known = match (etags, dates) {
            (Some((a, b)), _) => a == b,
            (None, Some((a, b))) => a == b,
            (None, None) => false,
        };
        self.url == other.url && sizes && known
    }
}

/// Fetches a file. Where it was there already nobody should ask.
pub(super) async fn fetch(client: &Client, job: &Job, observer: &dyn Observer) -> Result<Sums, HubError> {
    let partial = incomplete(&job.target);
    make_parent(&partial)?;
    let sidecar = partial.with_added_extension("json");
    let done = fetch_beside(client, job, &partial, &sidecar, observer).await;
    if let Err(error) = &done {
        // Kept is what a later attempt goes on with.
        let is_empty = || std::fs::metadata(&partial).is_ok_and(|meta| meta.len() == 0);
        if matches!(error, HubError::Corrupt { .. }) || is_empty() {
            let _ = std::fs::remove_file(&partial);
            let _ = std::fs::remove_file(&sidecar);
        }
    }
    done
}

/// Fetches a file to a place beside its own, and gives it its name when it is whole and right.
async fn fetch_beside(
    client: &Client,
    job: &Job,
    partial: &Path,
    sidecar: &Path,
    observer: &dyn Observer,
) -> Result<Sums, HubError> {
    let mut sink = {
        let (path, check, most) = (partial.to_owned(), job.check.clone(), job.bytes);
        blocking(move || Sink::open(&path, &check, most))
            .await?
            .map_err(HubError::io(partial, "cannot be written"))?
    };
    let mut version = job.versioned.then(|| read_version(sidecar)).flatten();
    if job.versioned && version.is_none() && sink.len() > 0 {
        sink.restart().map_err(HubError::io(partial, "cannot be written"))?;
    }
    observer.on(&job.name, Event::Begin { bytes: job.bytes, have: sink.len() });
    let mut backoff = Backoff::new(&job.name, ATTEMPTS);
    // Whether the bytes so far may be wrong ones of an earlier attempt.
    let mut resumed = sink.len() > 0;
    let mut size = job.bytes;
    loop {
        let before = sink.len();
        let whole = size == Some(before) && (before > 0 || job.bytes == Some(0));
        let attempt = if whole {
            Ok(())
        } else {
            let mut attempt =
                Attempt { client, job, observer, version: &mut version, sidecar, size: &mut size };
            let (back, outcome) = attempt.run(sink).await?;
            sink = back;
            outcome
        };
        let (why, after) = match attempt {
            Ok(()) => match meets(&sink.sums(), job, partial)? {
                Ok(()) => break,
                Err(_) if resumed => {
                    observer.on(&job.name, Event::Discard(sink.len()));
                    observer.on(
                        &job.name,
                        Event::Note("what was there does not fit; it is fetched from the front"),
                    );
                    sink.restart().map_err(HubError::io(partial, "cannot be written"))?;
                    (resumed, version) = (false, None);
                    continue;
                }
                Err((hash, expected, found)) => {
                    return Err(HubError::Corrupt { what: job.name.clone(), hash, expected, found });
                }
            },
            Err(Fault::Final(error)) => return Err(error),
            Err(Fault::NoSuchRange) => {
                observer.on(&job.name, Event::Discard(sink.len()));
                sink.restart().map_err(HubError::io(partial, "cannot be written"))?;
                (resumed, version) = (false, None);
                ("the file is shorter than what came of it".to_owned(), None)
            }
            Err(Fault::Again { why, after }) => (why, after),
        };
        if sink.len() > before {
            backoff.progress();
        }
        let Some(wait) = backoff.next(after) else {
            return Err(HubError::GivenUp { what: job.name.clone(), why, attempts: ATTEMPTS });
        };
        observer.on(&job.name, Event::Note(&format!("{why}; next attempt in {:.1} s", wait.as_secs_f64())));
        sleep(wait).await;
    }
    let (sums, target) = (sink.sums(), job.target.clone());
    blocking(move || sink.finish(&target)).await?.map_err(HubError::io(&job.target, "cannot be written"))?;
    let _ = std::fs::remove_file(sidecar);
    Ok(sums)
}

/// Whether the bytes that came are right: by their hash, or where none is published by whether they can be what the
/// file's name says; else what was expected and what was found.
fn meets(
    sums: &Sums,
    job: &Job,
    partial: &Path,
) -> Result<Result<(), (&'static str, String, String)>, HubError> {
    if job.check == Check::None {
        let odd = look::odd(partial, &job.target).map_err(HubError::io(partial, "cannot be read"))?;
        return Ok(odd.map_or(Ok(()), |odd| Err(("content", odd.expected.to_owned(), odd.found.to_owned()))));
    }
    Ok(sums.meet(&job.check))
}

/// One attempt.
struct Attempt<'a> {
    client: &'a Client,
    job: &'a Job,
    observer: &'a dyn Observer,
    version: &'a mut Option<Version>,
    sidecar: &'a Path,
    size: &'a mut Option<u64>,
}

impl Attempt<'_> {
    /// Goes on with a file as far as it comes. The outer error is for good; the inner one says how the attempt
    /// ended.
    async fn run(&mut self, mut sink: Sink) -> Result<(Sink, Result<(), Fault>), HubError> {
        let job = self.job;
        let failed = || HubError::io(&job.target, "cannot be written");
        let ask = Ask { from: sink.len(), if_range: self.version.as_ref().and_then(Version::condition) };
        let mut reply = match self.client.get(&job.url, &ask, &job.name).await {
            Ok(reply) => reply,
            Err(fault) => return Ok((sink, Err(fault))),
        };
        self.as_listed(&reply.linked)?;
        let whole = match self.whole(&reply, sink.len()) {
            Ok(whole) => whole,
            Err(fault) => return Ok((sink, Err(fault))),
        };
        let found = Version::of(&reply, &job.url, whole);
        if reply.is_partial() && sink.len() > 0 {
            let other_size = whole.zip(job.bytes).is_some_and(|(found, wanted)| found != wanted);
            let other = job.versioned && !self.version.as_ref().is_some_and(|known| known.same(&found));
            if other_size || other {
                self.observer.on(&job.name, Event::Discard(sink.len()));
                sink.restart().map_err(failed())?;
                *self.version = None;
                let why = "the file was changed since the earlier attempt".to_owned();
                return Ok((sink, Err(Fault::Again { why, after: Some(Duration::ZERO) })));
            }
        } else if sink.len() > 0 {
            // All of it comes again: the server cannot go on, or it has another version now.
            self.observer.on(&job.name, Event::Discard(sink.len()));
            sink.restart().map_err(failed())?;
        }
        if let Some((found, wanted)) = whole.zip(job.bytes).filter(|(found, wanted)| found != wanted) {
            return Err(self.other("bytes", wanted.to_string(), found.to_string()));
        }
        *self.size = job.bytes.or(whole);
        if job.versioned {
            let text = serde_json::to_vec(&found).map_err(|error| HubError::Internal(error.to_string()))?;
            write_beside(self.sidecar, &text)?;
            *self.version = Some(found);
        }
        self.body(&mut reply, sink).await
    }

    async fn body(&self, reply: &mut Reply, mut sink: Sink) -> Result<(Sink, Result<(), Fault>), HubError> {
        let (job, size) = (self.job, *self.size);
        let mut len = sink.len();
        // The disk has its own thread: neither waits for the other, and hashing goes beside both.
        let (to_disk, mut chunks) = mpsc::channel::<Bytes>(WAITING);
        let writer = tokio::task::spawn_blocking(move || {
            let mut result = Ok(());
            while let Some(chunk) = chunks.blocking_recv() {
                if let Err(error) = sink.write(&chunk) {
                    result = Err(error);
                    break;
                }
            }
            (sink, result)
        });
        let outcome = loop {
            match reply.chunk().await {
                Ok(Some(chunk)) => {
                    len += chunk.len() as u64;
                    if size.is_some_and(|size| len > size) {
                        break Err(Fault::Final(HubError::Corrupt {
                            what: job.name.clone(),
                            hash: "bytes",
                            expected: size.unwrap_or_default().to_string(),
                            found: "more".to_owned(),
                        }));
                    }
                    self.observer.on(&job.name, Event::Bytes(chunk.len() as u64));
                    if to_disk.send(chunk).await.is_err() {
                        // The writer says why.
                        break Ok(());
                    }
                }
                Ok(None) if size.is_none_or(|size| len == size) => break Ok(()),
                Ok(None) => break Err(Fault::Again { why: "the file ended early".to_owned(), after: None }),
                Err(fault) => break Err(fault),
            }
        };
        drop(to_disk);
        let (sink, written) = writer.await.map_err(|error| HubError::Internal(error.to_string()))?;
        written.map_err(HubError::io(&job.target, "cannot be written"))?;
        Ok((sink, outcome))
    }

    /// That the server speaks of another file than was asked for. Nothing of it came.
    fn other(&self, kind: &'static str, expected: String, found: String) -> HubError {
        HubError::Other { what: self.job.name.clone(), kind, expected, found }
    }

    /// Checks that the hub speaks of the file that its listing named. A mirror may have entity tags of its own: one that is
    /// no hash of the listed kind says nothing of the bytes, whose own hash decides.
    fn as_listed(&self, found: &Linked) -> Result<(), HubError> {
        let wanted = &self.job.linked;
        match (&wanted.commit, &found.commit) {
            (Some(wanted), Some(found)) if wanted != found => {
                return Err(self.other("commit", wanted.clone(), found.clone()));
            }
            _ => {}
        }
        match (&wanted.etag, &found.etag) {
            (Some(wanted), Some(found)) if wanted != found && is_hash_like(found, wanted) => {
                return Err(self.other("entity tag", wanted.clone(), found.clone()));
            }
            _ => {}
        }
        match (wanted.size, found.size) {
            (Some(wanted), Some(found)) if wanted != found => {
                Err(self.other("bytes", wanted.to_string(), found.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The size of the whole file as the reply tells it, which must begin where it was asked to.
    fn whole(&self, reply: &Reply, from: u64) -> Result<Option<u64>, Fault> {
        if !reply.is_partial() {
            return Ok(reply.length());
        }
        let odd = |why: &str| Fault::Final(self.client.odd(&self.job.url, &self.job.name, why));
        let range = reply.header("content-range").and_then(content_range);
        let (first, whole) = range.ok_or_else(|| odd("it sends a part without saying which"))?;
        if first != from {
            return Err(odd("it sends another part than was asked for"));
        }
        Ok(whole)
    }
}

/// Whether a text is a hash of the same kind as another one: as many hexadecimal digits.
fn is_hash_like(text: &str, other: &str) -> bool {
    text.len() == other.len() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `bytes 5-9/10` gives 5 and 10; the size may be `*`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, whole) = text.strip_prefix("bytes")?.trim_start().split_once('/')?;
    let first = range.split_once('-')?.0.trim().parse().ok()?;
    match whole.trim() {
        "*" => Some((first, None)),
        whole => Some((first, Some(whole.parse().ok()?))),
    }
}

fn read_version(path: &Path) -> Option<Version> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Does what takes the disk's time in a thread that may wait.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HubError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| HubError::Internal(error.to_string()))
}

/// Waits until no other process holds a lock on a file. Where the file system knows no locks, it is gone on
/// without one: see [`super::sink`] for why that does no harm.
pub(super) async fn lock(path: &Path, name: &str, observer: &dyn Observer) -> Result<Lock, HubError> {
    let file = match open_lock(path) {
        Ok(file) => file,
        // What may only be read may still be all there.
        Err(HubError::Io { source, .. })
            if matches!(
                source.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            return Ok(Lock { file: None, path: PathBuf::new() });
        }
        Err(error) => return Err(error),
    };
    let mut told = false;
    loop {
        let (locked, ours) = {
            let mut held = held();
            let locked = file.try_lock();
            let ours = if locked.is_ok() { held.insert(path.to_owned()) } else { held.contains(path) };
            (locked, ours)
        };
        match locked {
            Ok(()) => return Ok(Lock { file: Some(file), path: path.to_owned() }),
            Err(std::fs::TryLockError::WouldBlock) => {
                // Files of the same content are one in the cache: that this process waits for itself need not be told.
                if !ours && !std::mem::replace(&mut told, true) {
                    observer.on(name, Event::Note("another process is fetching it; waiting for that one"));
                }
                sleep(Duration::from_millis(200)).await;
            }
            Err(std::fs::TryLockError::Error(error)) => {
                tracing::warn!("{}: the file system keeps no locks ({error})", path.display());
                return Ok(Lock { file: None, path: PathBuf::new() });
            }
        }
    }
}

/// A lock, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: Option<std::fs::File>,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut held = held();
        if self.file.take().is_some() {
            held.remove(&self.path);
        }
    }
}

/// The locks that this process holds.
fn held() -> std::sync::MutexGuard<'static, HashSet<PathBuf>> {
    static HELD: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    HELD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for bad in ["", "bytes", "bytes */10", "5-9/10", "bytes 5-9/x", "bytes -/1"] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn who_waits_for_oneself_is_not_told_of_another_process() {
        struct Told(Mutex<Vec<String>>);
        impl Observer for Told {
            fn on(&self, _: &str, event: Event<'_>) {
                if let Event::Note(note) = event {
                    self.0.lock().unwrap().push(note.to_owned());
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let told = Told(Mutex::default());
        let wait = Duration::from_millis(500);
        // Two files of one content are one blob.
        let path = dir.path().join("blob.lock");
        let first = lock(&path, "a", &told).await.unwrap();
        assert!(tokio::time::timeout(wait, lock(&path, "b", &told)).await.is_err());
        assert_eq!(told.0.lock().unwrap().len(), 0);
        drop(first);
        drop(lock(&path, "b", &told).await.unwrap());
        // What this process did not lock through here may be another's.
        let other = open_lock(&path).unwrap();
        other.lock().unwrap();
        assert!(tokio::time::timeout(wait, lock(&path, "c", &told)).await.is_err());
        assert!(told.0.lock().unwrap()[0].contains("another process"));
    }

    #[test]
    fn versions_are_the_same_only_where_something_says_so() {
        let version = |etag: Option<&str>, modified: Option<&str>, bytes| Version {
            url: "u".into(),
            etag: etag.map(str::to_owned),
            modified: modified.map(str::to_owned),
            bytes,
        };
        let known = version(Some("\"a\""), Some("Monday"), Some(3));
        assert!(known.same(&version(Some("W/\"a\""), None, None)));
        assert!(known.same(&version(None, Some("Monday"), Some(3))));
        assert!(!known.same(&version(Some("\"b\""), Some("Monday"), Some(3))));
        assert!(!known.same(&version(Some("\"a\""), None, Some(4))));
        assert!(!version(None, None, Some(3)).same(&version(None, None, Some(3))));
        assert_eq!(known.condition().as_deref(), Some("\"a\""));
        assert_eq!(version(Some("W/\"a\""), Some("Monday"), None).condition().as_deref(), Some("Monday"));
    }
}
