//! Carries out a plan: several files at once, each fetched, put in its place, unpacked and noted in the record.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use futures::StreamExt as _;

use super::cache::place;
use super::client::Linked;
use super::download::{self, Job, Lock, blocking};
use super::error::HubError;
use super::plan::{FilePlan, PartPlan, Plan, Source, verified};
use super::record::{FileRecord, Record, Unpacked};
use super::sink::{Check, Sums};
use super::store::Hub;
use super::{Event, Observer, unpack};
use crate::media::FileFacts;

/// How to carry it out.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// Files that are fetched at once.
    pub jobs: usize,
    /// Read files that are there already and check their hashes again.
    pub verify: bool,
}

/// Keeps other processes from a data folder while it is held; waits for one that is at work there.
#[derive(Debug)]
pub struct FolderLock {
    _lock: Lock,
}

/// Makes a data folder and takes its lock.
pub async fn lock_folder(folder: &Path, observer: &dyn Observer) -> Result<FolderLock, HubError> {
    let path = folder.join(".fetch.lock");
    Ok(FolderLock { _lock: download::lock(&path, &folder.to_string_lossy(), observer).await? })
}

/// Fetches what is missing. One file that cannot be had does not keep the others; what failed is told by name. The
/// record is kept up to date, also where this is dropped in the middle; it should be written then.
pub async fn carry_out(
    hub: &Hub,
    plan: &Plan,
    record: &Mutex<Record>,
    orders: Orders,
    observer: &dyn Observer,
) -> Vec<(String, HubError)> {
    let mut left: HashMap<(String, String), usize> = HashMap::new();
    for part in &plan.parts {
        begin(part, record);
        for file in part.files.iter().filter(|file| !file.done || orders.verify) {
            *left.entry((part.origin.clone(), file.set.clone())).or_default() += 1;
        }
    }
    let work = plan.parts.iter().flat_map(|part| part.files.iter().map(move |file| (part, file)));
    let work = work.filter(|(_, file)| !file.done || orders.verify);
    // Files of one content are one download: the others wait for it here and not in a place of their own, which another
    // file can have meanwhile.
    let work = together(work, |(_, file)| file.content());
    let group = |files: Vec<(&'_ PartPlan, &'_ FilePlan)>| {
        let files: Vec<_> =
            files.into_iter().map(|(part, file)| (part.origin.clone(), file.clone())).collect();
        // Each file is told of as it is done, not when the last of its group is.
        futures::stream::unfold((files.into_iter(), None), move |(mut files, mut came)| async move {
            let (part, file) = files.next()?;
            let known = {
                let record = record.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let path = recorded_path(&file);
                record.file(&plan.folder, &part, &file.set, &path).cloned()
            };
            let carrier =
                Carrier { hub, plan, file: &file, known, came: came.take(), verify: orders.verify, observer };
            let result = carrier.carry().await;
            observer.on(&file.name, if result.is_ok() { Event::Done } else { Event::Failed });
            came = result
                .as_ref()
                .ok()
                .map(|found| Came { sha256: found.sha256.clone(), path: plan.folder.join(&found.path) });
            Some(((part, file, result), (files, came)))
        })
        .boxed()
    };
    let mut failed = Vec::new();
    let groups = futures::stream::iter(work.into_iter().map(group));
    let mut results = groups.flatten_unordered(orders.jobs.max(1));
    while let Some((origin, file, result)) = results.next().await {
        match result {
            Ok(found) => {
                let last = left.get_mut(&(origin.clone(), file.set.clone())).is_some_and(|left| {
                    *left = left.saturating_sub(1);
                    *left == 0
                });
                let mut record = record.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                record.note(&origin, &file.set, found, last);
                if last && let Err(error) = record.write(&plan.folder) {
                    failed.push((file.name, error));
                }
            }
            Err(error) => {
                let ends = error.ends_all();
                failed.push((file.name, error));
                if ends {
                    break;
                }
            }
        }
    }
    failed
}

/// Puts together what has one key, in the order of the first of each; what has none stays alone.
pub(super) fn together<T, K: Eq + Hash>(
    items: impl Iterator<Item = T>,
    key: impl Fn(&T) -> Option<K>,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut known = HashMap::new();
    for item in items {
        let Some(key) = key(&item) else {
            groups.push(vec![item]);
            continue;
        };
        let at = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// A file of the same content that came just before.
#[derive(Clone, Debug)]
struct Came {
    sha256: String,
    /// Where it was put; that it is there is not sure where it was an archive.
    path: PathBuf,
}

/// Where the record has a file.
fn recorded_path(file: &FilePlan) -> PathBuf {
    match &file.source {
        Source::Recorded(known) => known.path.clone(),
        _ if file.unpack => PathBuf::from(&file.name),
        _ => file.to.clone(),
    }
}

/// Notes the origin's version. What was fetched in another version is no longer vouched for.
fn begin(part: &PartPlan, record: &Mutex<Record>) {
    let mut record = record.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let origin = record.origins.entry(part.origin.clone()).or_default();
    if origin.commit != part.commit {
        origin.sets.clear();
    }
    origin.commit.clone_from(&part.commit);
    origin.revision.clone_from(&part.revision);
}

struct Carrier<'a> {
    hub: &'a Hub,
    plan: &'a Plan,
    file: &'a FilePlan,
    /// What the record knows of it.
    known: Option<FileRecord>,
    /// The file before it in its group.
    came: Option<Came>,
    verify: bool,
    observer: &'a dyn Observer,
}

impl Carrier<'_> {
    async fn carry(&self) -> Result<FileRecord, HubError> {
        match &self.file.source {
            Source::Recorded(known) => self.again(known).await,
            Source::Hub { listing, entry } => {
                let (path, fresh) = self.hub.fetch(listing, entry, &self.plan.command, self.observer).await?;
                let check = match &entry.sha256 {
                    Some(sha256) => Check::Sha256(sha256.clone()),
                    None => Check::GitBlob { id: entry.blob_id.clone(), bytes: entry.bytes },
                };
                let known = self.known.as_ref().filter(|_| !self.verify);
                let sha256 = match (fresh, known, &self.came) {
                    (Some(sums), ..) => sums.sha256,
                    (None, Some(known), _) => known.sha256.clone(),
                    // The blob came, or was read, a moment ago.
                    (None, None, Some(came)) => came.sha256.clone(),
                    // Another program put it into the cache, or an earlier attempt that was not noted.
                    _ => {
                        let (path, entry) = (path.clone(), entry.clone());
                        blocking(move || Hub::verify(&path, &entry)).await??.sha256
                    }
                };
                if !self.file.unpack {
                    self.place(&path, &check).await?;
                }
                self.noted(&path, entry.bytes, sha256, &check).await
            }
            Source::Web { url, check, via, instead } => {
                let stored =
                    if self.file.unpack { PathBuf::from(&self.file.name) } else { self.file.to.clone() };
                let target = self.plan.folder.join(stored);
                let mut via = via.clone().filter(|_| *check == Check::None);
                let sums = if target.is_file() && !instead {
                    // What lies there came by whatever way the record says.
                    via = self.known.as_ref().and_then(|known| known.via.clone());
                    self.observer
                        .on(&self.file.name, Event::Begin { bytes: self.file.bytes, have: self.file.have });
                    self.sums(&target, check).await?
                } else if self.copied(&target).await? {
                    self.observer.on(&self.file.name, Event::Begin { bytes: self.file.bytes, have: 0 });
                    self.sums(&target, check).await?
                } else {
                    let job = Job {
                        name: self.file.name.clone(),
                        url: url.clone(),
                        target: target.clone(),
                        bytes: self.file.bytes,
                        check: check.clone(),
                        linked: Linked::default(),
                        versioned: true,
                    };
                    download::fetch(self.hub.client(&self.file.name)?, &job, self.observer).await?
                };
                let noted = self.noted(&target, sums.bytes, sums.sha256, check).await?;
                Ok(FileRecord { via, ..noted })
            }
        }
    }

    /// Whether the file was copied from the one of the same content that came before. A copy, so that who changes one file
    /// does not change the other.
    async fn copied(&self, target: &Path) -> Result<bool, HubError> {
        let Some(came) = self.came.as_ref().filter(|came| came.path.is_file()) else { return Ok(false) };
        super::cache::make_parent(target)?;
        let (from, target) = (came.path.clone(), target.to_owned());
        let copied = blocking(move || {
            let beside = target.with_added_extension(format!("{}.copy", std::process::id()));
            let copied = std::fs::copy(&from, &beside).and_then(|_| std::fs::rename(&beside, &target));
            copied.map_err(|error| {
                let _ = std::fs::remove_file(&beside);
                HubError::io(&target, "cannot be written")(error)
            })
        });
        copied.await?.map(|()| true)
    }

    /// Reads a file that the record vouches for, and checks that it has not changed.
    async fn again(&self, known: &FileRecord) -> Result<FileRecord, HubError> {
        // What was unpacked is checked by size only: the archive's hash is that of the archive.
        if known.unpacked.is_none() {
            let check = Check::Sha256(known.sha256.clone());
            self.observer.on(&self.file.name, Event::Begin { bytes: Some(known.bytes), have: known.bytes });
            self.sums(&self.plan.folder.join(&known.path), &check).await?;
        }
        Ok(known.clone())
    }

    async fn sums(&self, path: &Path, check: &Check) -> Result<Sums, HubError> {
        let sums = {
            let (path, check) = (path.to_owned(), check.clone());
            blocking(move || Sums::of(&path, &check)).await?
        };
        let sums = sums.map_err(HubError::io(path, "cannot be read"))?;
        sums.meet(check).map_err(|(hash, wanted, found)| HubError::InTheWay {
            path: path.to_owned(),
            why: format!("{hash} expected {wanted}, found {found}"),
        })?;
        Ok(sums)
    }

    /// Puts a link to a file of the cache into the data folder. A file of the user's is not replaced.
    async fn place(&self, cached: &Path, check: &Check) -> Result<(), HubError> {
        let path = self.plan.folder.join(&self.file.to);
        if std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_symlink()) {
            if path.is_dir() {
                return Err(HubError::InTheWay { path, why: "it is a folder".to_owned() });
            }
            return self.sums(&path, check).await.map(drop);
        }
        super::cache::make_parent(&path)?;
        place(cached, cached, &path)
    }

    async fn noted(
        &self,
        path: &Path,
        bytes: u64,
        sha256: String,
        check: &Check,
    ) -> Result<FileRecord, HubError> {
        let unpacked = if self.file.unpack { Some(self.unpacked(path, &sha256).await?) } else { None };
        let stored = recorded_path(self.file);
        let placed = if unpacked.is_none() { self.plan.folder.join(&stored) } else { path.to_owned() };
        Ok(FileRecord {
            path: stored,
            bytes,
            sha256,
            modified: FileFacts::of(&placed).ok().and_then(|facts| facts.modified),
            changed: false,
            verified: verified(check),
            via: None,
            unpacked,
        })
    }

    async fn unpacked(&self, archive: &Path, sha256: &str) -> Result<Unpacked, HubError> {
        if let Some(known) = self.known.as_ref().filter(|known| known.sha256 == sha256)
            && let Some(unpacked) = &known.unpacked
        {
            return Ok(unpacked.clone());
        }
        self.observer.on(&self.file.name, Event::Note("unpacking"));
        let (archive, name, sha256) = (archive.to_owned(), self.file.name.clone(), sha256.to_owned());
        let (folder, into) = (self.plan.folder.clone(), self.file.to.clone());
        blocking(move || unpack::tar_gz(&archive, &name, &sha256, &folder, &into)).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_one_key_stands_together_in_the_order_of_the_first() {
        let items = [(1, Some("a")), (2, None), (3, Some("b")), (4, Some("a")), (5, None), (6, Some("b"))];
        let groups = together(items.into_iter(), |(_, key)| *key);
        let numbers: Vec<Vec<i32>> =
            groups.iter().map(|group| group.iter().map(|(number, _)| *number).collect()).collect();
        assert_eq!(numbers, [vec![1, 4], vec![2], vec![3, 6], vec![5]]);
    }
}
