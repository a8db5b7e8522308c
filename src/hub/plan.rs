//! From what a benchmark publishes to what is to be done: which files, how large, from where, and what is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt as _;
use reqwest::Url;

use super::api::Entry;
use super::cache::{Repo, RepoKind, incomplete};
pub use super::choice::Choice;
use super::choice::languages;
use super::client::Fault;
use super::download::blocking;
use super::error::HubError;
use super::names::{below, fits, is_commit};
use super::record::{FileRecord, Record, Verified};
use super::sink::{Check, Sums};
use super::store::{Hub, Listing, Lookup};
use super::{Observer, disk, look};
use crate::benchmark::sources::{HubKind, Origin, SourceFile, SourcePart, Sources, Unpack};
use crate::config::env;
use crate::config::hub::GITHUB_RAW;
use crate::types::{listed, size};

/// Sizes that are asked for at once.
const ASKED: usize = 8;
/// Files that a note names.
const NAMED: usize = 4;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The data folder.
    pub folder: PathBuf,
    /// Parts, in order.
    pub parts: Vec<PartPlan>,
    /// What a person has to do.
    pub by_hand: Vec<ByHand>,
    /// Parts that are there to be asked for: name and what it is.
    pub optional: Vec<(String, String)>,
    pub(super) command: String,
}

/// A part that only a person can get.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// The page to begin at.
    pub page: String,
    /// What to do there.
    pub steps: String,
    /// The part that stands in for it, if there is one.
    pub instead: Option<String>,
    /// Whether its files are there.
    pub there: bool,
}

/// A part.
#[derive(Clone, Debug)]
pub struct PartPlan {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its licence where it is not that of the whole.
    pub licence: Option<String>,
    /// Where it comes from, for people.
    pub from: String,
    /// Its files.
    pub files: Vec<FilePlan>,
    /// What should be known: a revision that is not pinned, a hub that could not be asked.
    pub notes: Vec<String>,
    /// Its key in the record.
    pub(super) origin: String,
    pub(super) revision: Option<String>,
    pub(super) commit: Option<String>,
}

/// A file.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// Its name for people.
    pub name: String,
    /// Its place in the data folder; for an archive the folder that it is unpacked into.
    pub to: PathBuf,
    /// Its size, where it is known.
    pub bytes: Option<u64>,
    /// Bytes that are here.
    pub have: u64,
    /// Whether it is an archive to be unpacked.
    pub unpack: bool,
    /// Whether there is nothing left to do.
    pub done: bool,
    pub(super) set: String,
    pub(super) source: Source,
}

impl FilePlan {
    /// What tells the content of a file that is to be fetched, where that is known before it comes.
    pub(super) fn content(&self) -> Option<String> {
        match &self.source {
            Source::Hub { listing, entry } => Some(format!("{} {}", listing.repo, entry.etag())),
            Source::Web { check: Check::Sha256(sha256), .. } => Some(sha256.clone()),
            Source::Web { .. } | Source::Recorded(_) => None,
        }
    }
}

/// Where a file comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The record says that it is there.
    Recorded(FileRecord),
    /// A file of the hub.
    Hub { listing: Arc<Listing>, entry: Entry },
    /// A file at an address.
    Web {
        url: Url,
        check: Check,
        /// The mirror that is asked in place of its origin.
        via: Option<String>,
        /// Whether it takes the place of what an earlier fetch left there, which is not the file.
        instead: bool,
    },
}

impl PartPlan {
    /// Bytes of its files, those of unknown size left out.
    pub fn bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.bytes).sum()
    }

    /// Bytes that are here.
    pub fn have(&self) -> u64 {
        self.files.iter().map(|file| file.have).sum()
    }

    /// Whether nothing is left to do.
    pub fn done(&self) -> bool {
        self.files.iter().all(|file| file.done)
    }

    /// Whether it comes through the hub's cache.
    pub fn is_hub(&self) -> bool {
        self.origin.starts_with("hub:")
    }

    /// Files whose size is not known.
    pub fn unsized_files(&self) -> usize {
        self.files.iter().filter(|file| file.bytes.is_none()).count()
    }
}

impl Plan {
    /// Whether nothing is left to do.
    pub fn done(&self) -> bool {
        self.parts.iter().all(PartPlan::done)
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &FilePlan> {
        self.parts.iter().flat_map(|part| &part.files)
    }

    /// An error where the disk is too small for what is missing, as far as its size is known.
    pub fn room(&self, hub: &Hub) -> Result<(), HubError> {
        let missing = |in_cache: bool| -> u64 {
            let files = self.files().filter(|file| matches!(file.source, Source::Hub { .. }) == in_cache);
            // Files of one content are one in the cache.
            let mut blobs = HashSet::new();
            let new =
                |file: &&FilePlan| !in_cache || file.content().is_none_or(|content| blobs.insert(content));
            files.filter(new).filter_map(|file| Some(file.bytes?.saturating_sub(file.have))).sum()
        };
        let (in_cache, here) = (missing(true), missing(false));
        let cache = hub.cache().root();
        let mut wanted = vec![(self.folder.as_path(), here), (cache, in_cache)];
        if disk::together(&self.folder, cache) {
            wanted =
                vec![(if in_cache > here { cache } else { &self.folder }, here.saturating_add(in_cache))];
        }
        for (path, needed) in wanted {
            room(
                path,
                needed,
                "fetch less with --only or --languages, or name another place with --to or HF_HUB_CACHE",
            )?;
        }
        Ok(())
    }
}

/// An error where a place has no room for so many bytes.
pub fn room(path: &Path, needed: u64, other: &str) -> Result<(), HubError> {
    match disk::free(path) {
        Some(free) if free < needed => Err(HubError::Space {
            path: path.to_owned(),
            needed: size(needed),
            free: size(free),
            other: other.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Finds out what is to be done. Asks the hub for listings that are not known, and servers for sizes that are not
/// published.
pub async fn plan(
    hub: &Hub,
    sources: &Sources,
    choice: &Choice,
    folder: &Path,
    record: &Record,
    observer: &dyn Observer,
) -> Result<Plan, HubError> {
    choice.check(sources)?;
    let languages = languages(sources, choice)?;
    let mut plan = Plan {
        folder: folder.to_owned(),
        parts: Vec::new(),
        by_hand: Vec::new(),
        optional: Vec::new(),
        command: choice.command.clone(),
    };
    for part in &sources.parts {
        if !choice.wants(part) {
            if part.optional && choice.parts.is_empty() {
                plan.optional.push((part.name.clone(), part.about.clone()));
            }
            continue;
        }
        if let Origin::Manual { page, steps } = &part.origin {
            let stands_in = |other: &&SourcePart| other.instead_of.as_deref() == Some(&part.name);
            plan.by_hand.push(ByHand {
                name: part.name.clone(),
                about: part.about.clone(),
                page: page.clone(),
                steps: steps.clone(),
                instead: sources.parts.iter().find(stands_in).map(|other| other.name.clone()),
                there: part.files.iter().all(|file| any_there(folder, &file.path)),
            });
            continue;
        }
        let planner = Planner { hub, choice, folder, record, observer };
        plan.parts.push(planner.part(part, &languages).await?);
    }
    let mut places = HashSet::new();
    for file in plan.files().filter(|file| !file.unpack) {
        if !places.insert(&file.to) {
            return Err(HubError::Clash(file.to.clone()));
        }
    }
    sizes(hub, &mut plan).await;
    Ok(plan)
}

/// Whether a file that fits a pattern is in the data folder.
fn any_there(folder: &Path, pattern: &str) -> bool {
    let Some((before, _)) = pattern.split_once('*') else { return folder.join(pattern).is_file() };
    let parent = before.rsplit_once('/').map_or("", |(parent, _)| parent);
    let entries = std::fs::read_dir(folder.join(parent)).into_iter().flatten().flatten();
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let full = |name: String| if parent.is_empty() { name } else { format!("{parent}/{name}") };
    entries.map(name).map(full).any(|name| fits(pattern, &name))
}

struct Planner<'a> {
    hub: &'a Hub,
    choice: &'a Choice,
    folder: &'a Path,
    record: &'a Record,
    observer: &'a dyn Observer,
}

/// One file of the description, its language filled in.
struct Wanted {
    file: SourceFile,
    set: String,
}

impl Planner<'_> {
    async fn part(&self, part: &SourcePart, languages: &[&str]) -> Result<PartPlan, HubError> {
        let mut plan = PartPlan {
            name: part.name.clone(),
            about: part.about.clone(),
            licence: part.licence.clone(),
            from: String::new(),
            files: Vec::new(),
            notes: Vec::new(),
            origin: String::new(),
            revision: None,
            commit: None,
        };
        if !self.choice.languages.is_empty() && !part.per_language {
            plan.notes.push("it is not published by language: all of it is fetched".to_owned());
        }
        let wanted = wanted(part, languages)?;
        match &part.origin {
            Origin::Hub { repo, revision, kind, seen } => {
                let kind = match kind {
                    HubKind::Dataset => RepoKind::Dataset,
                    HubKind::Model => RepoKind::Model,
                };
                let repo = Repo::new(kind, repo)?;
                self.of_hub(&mut plan, &repo, revision, wanted).await?;
                let moved = plan.commit.as_ref().zip(seen.as_ref());
                let moved = moved.filter(|(commit, seen)| !commit.starts_with(seen.as_str()));
                if let Some((_, seen)) = moved.filter(|_| self.choice.revision.is_none()) {
                    plan.notes.push(format!(
                        "it was {seen} when these data were described: files may have changed"
                    ));
                }
            }
            Origin::Https { base } => {
                plan.from = base.clone();
                plan.origin = base.clone();
                let base = base.trim_end_matches('/');
                self.of_web(&mut plan, base, base, wanted).await?;
            }
            Origin::GitHub { repo, commit } => {
                plan.from = format!("github.com/{repo} at {}", short(commit));
                plan.origin = format!("github:{repo}@{commit}");
                plan.commit = Some(commit.clone());
                let base = format!("{}/{repo}/{commit}", self.hub.settings().github);
                let published = format!("{GITHUB_RAW}/{repo}/{commit}");
                self.of_web(&mut plan, &published, &base, wanted).await?;
            }
            Origin::Manual { .. } => {}
        }
        Ok(plan)
    }

    /// Takes what the record says is there, and gives the rest.
    fn recorded(&self, plan: &mut PartPlan, wanted: Vec<Wanted>) -> Vec<Wanted> {
        let mut rest = Vec::new();
        for wanted in wanted {
            let Some(files) = self.record.complete(self.folder, &plan.origin, &wanted.set) else {
                rest.push(wanted);
                continue;
            };
            plan.files.extend(files.iter().map(|file| FilePlan {
                name: file.path.to_string_lossy().into_owned(),
                to: file.path.clone(),
                bytes: Some(file.bytes),
                have: file.bytes,
                unpack: file.unpacked.is_some(),
                done: true,
                set: wanted.set.clone(),
                source: Source::Recorded(file.clone()),
            }));
        }
        rest
    }

    async fn of_hub(
        &self,
        plan: &mut PartPlan,
        repo: &Repo,
        described: &str,
        wanted: Vec<Wanted>,
    ) -> Result<(), HubError> {
        let revision = self.choice.revision.as_deref().unwrap_or(described);
        plan.origin = format!("hub:{repo}");
        plan.revision = Some(revision.to_owned());
        let known = self.record.origins.get(&plan.origin);
        // A branch that was fetched before stays where it was then, unless it is asked for by name.
        let known = known.filter(|known| {
            known.revision.as_deref() == Some(revision)
                && (self.choice.revision.is_none() || is_commit(revision))
        });
        let mut rest = wanted;
        if let Some(known) = known {
            rest = self.recorded(plan, rest);
            plan.commit.clone_from(&known.commit);
        }
        let pinned = plan.commit.clone().filter(|commit| is_commit(commit));
        if !rest.is_empty() {
            let at = pinned.as_deref().unwrap_or(revision);
            let listing = self.hub.list(repo, at, Lookup::Now, &self.choice.command, self.observer).await?;
            plan.commit = Some(listing.commit.clone());
            if let Some(why) = &listing.stale {
                plan.notes.push(format!("the hub could not be asked ({why}); the cache's listing is used"));
            }
            let listing = Arc::new(listing);
            for wanted in rest {
                self.files_of(plan, &listing, &wanted)?;
            }
        }
        let commit = plan.commit.clone().unwrap_or_default();
        plan.from = format!("{}/{repo} at {}", self.hub.settings().endpoint, short(&commit));
        if !is_commit(revision) {
            plan.notes.push(format!(
                "`{revision}` is not pinned: it was {} when it was fetched, and may be another tomorrow",
                short(&commit)
            ));
        }
        Ok(())
    }

    fn files_of(&self, plan: &mut PartPlan, listing: &Arc<Listing>, wanted: &Wanted) -> Result<(), HubError> {
        let (file, repo) = (&wanted.file, &listing.repo);
        let before = plan.files.len();
        for entry in &listing.entries {
            let excluded = || file.exclude.iter().any(|pattern| fits(pattern, &entry.path));
            if !fits(&file.path, &entry.path) || excluded() {
                continue;
            }
            self.as_described(file, entry)?;
            let have = self.hub.cache().have(repo, &listing.commit, entry);
            plan.files.push(FilePlan {
                name: entry.path.clone(),
                to: place(file, &entry.path)?,
                bytes: Some(entry.bytes),
                have,
                unpack: file.unpack.is_some(),
                done: false,
                set: wanted.set.clone(),
                source: Source::Hub { listing: Arc::clone(listing), entry: entry.clone() },
            });
        }
        if plan.files.len() == before {
            let prefix = if repo.kind == RepoKind::Dataset { "datasets/" } else { "" };
            return Err(HubError::Nothing {
                pattern: file.path.clone(),
                origin: format!("{repo} at {}", short(&listing.commit)),
                page: format!(
                    "{}/{prefix}{}/tree/{}",
                    self.hub.settings().endpoint,
                    repo.id,
                    listing.revision
                ),
            });
        }
        Ok(())
    }

    /// Compares the hub's listing with what the description says, unless another revision is asked for.
    fn as_described(&self, file: &SourceFile, entry: &Entry) -> Result<(), HubError> {
        if self.choice.revision.is_some() {
            return Ok(());
        }
        let differ = |kind, expected: String, found: String| {
            Err(HubError::Other { what: entry.path.clone(), kind, expected, found })
        };
        match (file.bytes, &file.sha256, &entry.sha256) {
            (Some(wanted), ..) if wanted != entry.bytes => {
                differ("bytes", wanted.to_string(), entry.bytes.to_string())
            }
            (_, Some(wanted), Some(found)) if !wanted.eq_ignore_ascii_case(found) => {
                differ("sha256", wanted.clone(), found.clone())
            }
            _ => Ok(()),
        }
    }

    /// Plans files at an address, or at that of its mirror. `published` is the address that their publisher uses.
    async fn of_web(
        &self,
        plan: &mut PartPlan,
        published: &str,
        base: &str,
        wanted: Vec<Wanted>,
    ) -> Result<(), HubError> {
        let mirrored = self.hub.settings().mirrored(base);
        // The host alone: an address may hold what is secret.
        let host = |url: Url| url.host_str().map(str::to_owned);
        let via = if mirrored == published { None } else { Url::parse(&mirrored).ok().and_then(host) };
        let variable = if mirrored == base { env::HARNESS_GITHUB_RAW } else { env::HARNESS_MIRRORS };
        let base = mirrored.as_str();
        let mut unvouched = Vec::new();
        for Wanted { file, set } in self.recorded(plan, wanted) {
            if file.path.contains('*') {
                return Err(HubError::Choice(format!(
                    "`{}` has a `*`, and files at an address cannot be listed; name them one by one",
                    file.path
                )));
            }
            let to = place(&file, &file.path)?;
            // An archive is kept under its own name, and unpacked beside.
            let archive = below(&file.path).filter(|_| file.unpack.is_some());
            let stored = archive.clone().unwrap_or_else(|| to.clone());
            let no_address = || HubError::Choice(format!("`{base}` is no address of files"));
            let mut url = Url::parse(base).map_err(|_| no_address())?;
            url.path_segments_mut().map_err(|()| no_address())?.pop_if_empty().extend(file.path.split('/'));
            let check = match &file.sha256 {
                Some(sha256) => Check::Sha256(sha256.to_ascii_lowercase()),
                None => Check::None,
            };
            if check == Check::None {
                unvouched.push(stored.display().to_string());
            }
            let path = self.folder.join(&stored);
            let left = self.record.at(&plan.origin, &stored);
            let rubbish = check == Check::None && left.is_some_and(|left| left.is_rubbish(self.folder));
            let have = match std::fs::metadata(&path) {
                Ok(_) if rubbish => {
                    plan.notes.push(format!(
                        "{} came as something else in an earlier fetch, such as a web page: it is fetched again",
                        stored.display()
                    ));
                    0
                }
                Ok(found) => {
                    if left.is_some_and(|left| left.changed) {
                        let why =
                            "it was changed since it was fetched: its sha256 is not the one in fetch.json";
                        return Err(HubError::InTheWay { path, why: why.to_owned() });
                    }
                    let told = self.accept(&path, found.len(), &file, &url, &check).await?;
                    if !told {
                        plan.notes.push(format!(
                            "{} was there already, and nothing tells whether it is whole",
                            stored.display()
                        ));
                    }
                    found.len()
                }
                Err(_) => std::fs::metadata(incomplete(&path)).map_or(0, |found| found.len()),
            };
            plan.files.push(FilePlan {
                name: stored.to_string_lossy().into_owned(),
                to: if archive.is_some() { to } else { stored },
                bytes: file.bytes.or_else(|| (path.is_file() && !rubbish).then_some(have)),
                have: file.bytes.map_or(have, |bytes| have.min(bytes)),
                unpack: archive.is_some(),
                done: false,
                set,
                source: Source::Web { url, check, via: via.clone(), instead: rubbish },
            });
        }
        if let Some(via) = via.filter(|_| !unvouched.is_empty()) {
            plan.notes.push(format!(
                "it comes via {via} ({variable}), and no published hash vouches for {}",
                listed(&unvouched, NAMED)
            ));
        }
        Ok(())
    }

    /// Refuses a file that is there without a record and is not the published one. Says whether that could be known: a
    /// file that another program left cut must not pass for whole.
    async fn accept(
        &self,
        path: &Path,
        found: u64,
        file: &SourceFile,
        url: &Url,
        check: &Check,
    ) -> Result<bool, HubError> {
        let in_the_way = |why: String| HubError::InTheWay { path: path.to_owned(), why };
        if let Some(wanted) = file.bytes.filter(|wanted| *wanted != found) {
            return Err(in_the_way(format!("it has {found} bytes, the published one {wanted}")));
        }
        if *check == Check::None {
            let odd = look::odd(path, path).map_err(HubError::io(path, "cannot be read"))?;
            if let Some(look::Odd { expected, found }) = odd {
                return Err(in_the_way(format!("it should be {expected}, and is {found}")));
            }
        } else {
            let (path, check) = (path.to_owned(), check.clone());
            let sums = {
                let (path, check) = (path.clone(), check.clone());
                blocking(move || Sums::of(&path, &check)).await?
            };
            let sums = sums.map_err(HubError::io(&path, "cannot be read"))?;
            sums.meet(&check).map_err(|(hash, wanted, found)| {
                in_the_way(format!("{hash} {found}, the published one has {wanted}"))
            })?;
            return Ok(true);
        }
        if file.bytes.is_some() {
            return Ok(true);
        }
        // Neither size nor hash is published: its server knows the size.
        let name = path.to_string_lossy();
        if self.hub.settings().offline {
            return Err(in_the_way(
                "fetch.json says nothing of it, and its server cannot be asked for its size offline"
                    .to_owned(),
            ));
        }
        match self.hub.client(&name)?.size(url, &name).await {
            Ok(Some(wanted)) if wanted != found => {
                Err(in_the_way(format!("it has {found} bytes, the published one {wanted}")))
            }
            Ok(told) => Ok(told.is_some()),
            Err(Fault::Again { why, .. }) => {
                Err(HubError::GivenUp { what: name.into_owned(), why, attempts: 1 })
            }
            // A server that does not answer such questions.
            Err(Fault::Final(_) | Fault::NoSuchRange) => Ok(false),
        }
    }
}

/// The files of a part, one for each language where it is by language.
fn wanted(part: &SourcePart, languages: &[&str]) -> Result<Vec<Wanted>, HubError> {
    let fill = |file: &SourceFile, language: &str| {
        let text = |text: &String| text.replace("{language}", language);
        let file = SourceFile {
            path: text(&file.path),
            to: file.to.as_ref().map(text),
            exclude: file.exclude.iter().map(text).collect(),
            ..file.clone()
        };
        let to = file.to.as_deref().map(|to| format!(" -> {to}")).unwrap_or_default();
        let unpack = if file.unpack.is_some() { " unpacked" } else { "" };
        Wanted { set: format!("{}{to}{unpack}", file.path), file }
    };
    if part.files.iter().any(|file| file.unpack == Some(Unpack::Zip)) {
        return Err(HubError::Choice(format!(
            "the part `{}` is a zip archive, which is not unpacked here; leave it out with --only and get it by hand",
            part.name
        )));
    }
    if !part.per_language {
        return Ok(part.files.iter().map(|file| fill(file, "{language}")).collect());
    }
    let of_language = |language| part.files.iter().map(move |file| fill(file, language));
    Ok(languages.iter().flat_map(|language| of_language(language)).collect())
}

/// The place of a file in the data folder; of an archive the folder that it is unpacked into.
fn place(file: &SourceFile, path: &str) -> Result<PathBuf, HubError> {
    let refused = |name: &str| HubError::Unsafe {
        origin: "the description of the data".to_owned(),
        name: name.to_owned(),
    };
    let text = match (file.to.as_deref(), file.unpack.is_some()) {
        (None, true) => return Ok(PathBuf::new()),
        (Some(to), true) => to.trim_end_matches('/').to_owned(),
        (None, false) => path.to_owned(),
        (Some(to), false) if to.ends_with('/') => {
            format!("{to}{}", path.rsplit('/').next().unwrap_or(path))
        }
        (Some(to), false) => to.to_owned(),
    };
    if text.is_empty() && file.unpack.is_some() {
        return Ok(PathBuf::new());
    }
    below(&text).ok_or_else(|| refused(&text))
}

/// Asks for the sizes that are not published, of files that are not there. Who does not tell is asked again when
/// the file is fetched.
async fn sizes(hub: &Hub, plan: &mut Plan) {
    if hub.settings().offline {
        return;
    }
    let unknown = plan.parts.iter_mut().flat_map(|part| &mut part.files).filter(|file| file.bytes.is_none());
    let ask = |file: &mut FilePlan| {
        let found = match &file.source {
            Source::Web { url, .. } => Some((url.clone(), file.name.clone())),
            _ => None,
        };
        async move {
            let (url, name) = found?;
            hub.client(&name).ok()?.size(&url, &name).await.ok().flatten()
        }
    };
    let mut files: Vec<&mut FilePlan> = unknown.collect();
    let asked: Vec<_> = files.iter_mut().map(|file| ask(file)).collect();
    let found: Vec<Option<u64>> = futures::stream::iter(asked).buffered(ASKED).collect().await;
    for (file, bytes) in files.into_iter().zip(found) {
        file.bytes = bytes;
        file.have = bytes.map_or(file.have, |bytes| file.have.min(bytes));
    }
}

/// The beginning of a commit.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

/// What a file was checked against.
pub(super) fn verified(check: &Check) -> Verified {
    match check {
        Check::None => Verified::NotVerified,
        Check::Sha256(_) => Verified::Sha256,
        Check::GitBlob { .. } => Verified::GitBlob,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_small_is_said_before_anything_is_done() {
        let dir = tempfile::tempdir().unwrap();
        assert!(room(dir.path(), 0, "x").is_ok());
        #[cfg(unix)]
        {
            let error = room(&dir.path().join("new"), u64::MAX, "or name another place").unwrap_err();
            assert!(error.is_disk());
            let text = error.to_string();
            assert!(
                text.contains("more are needed there and") && text.ends_with("or name another place"),
                "{text}"
            );
        }
    }

    #[test]
    fn archives_go_into_folders_and_files_to_names() {
        let file = |to: Option<&str>, unpack| SourceFile {
            path: "d/x.bin".into(),
            to: to.map(str::to_owned),
            bytes: None,
            sha256: None,
            unpack,
            exclude: Vec::new(),
        };
        let check = |to, unpack, expected: &str| {
            assert_eq!(
                place(&file(to, unpack), "d/x.bin").unwrap(),
                Path::new(expected),
                "{to:?} {unpack:?}"
            );
        };
        check(None, None, "d/x.bin");
        check(Some("y"), None, "y");
        check(Some("e/"), None, "e/x.bin");
        check(None, Some(Unpack::TarGz), "");
        check(Some("audio/"), Some(Unpack::TarGz), "audio");
        check(Some("/"), Some(Unpack::TarGz), "");
        assert!(place(&file(Some("../y"), None), "d/x.bin").is_err());
        assert!(place(&file(Some("/y"), None), "d/x.bin").is_err());
    }
}
