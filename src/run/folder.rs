//! The folder of a run: its files, its lock, and writing them whole.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A run folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
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
    /// Another process works on the run.
    #[error(
        "{}: another harness process is working on this run; wait for it or stop it, or give this run another \
         name with --name", .0.display()
    )]
    Locked(PathBuf),
    /// Another process transcribes, and its transcripts are those of this run too.
    #[error(
        "{}: another run is transcribing with this recogniser, and its transcripts serve this run too; wait for it or stop \
         it, then give the same command again", .0.display()
    )]
    Transcribing(PathBuf),
    /// There is no run to go on with.
    #[error("{}: no run is there to resume; leave --resume out to begin one", .0.display())]
    NothingToResume(PathBuf),
    /// There is no run.
    #[error("{}: no run is there{}", .path.display(), .known)]
    NoRun {
        /// The folder that was looked for.
        path: PathBuf,
        /// A sentence on which runs there are.
        known: String,
    },
}

impl FolderError {
    fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, action, source }
    }
}

/// How to treat a run folder that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Go on where there is a run, else begin one.
    Either,
    /// Go on; refuse where there is none.
    Resume,
    /// Set an earlier run aside under another name and begin anew.
    Fresh,
}

/// An open run folder. While it is held no other process can write to it.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    _lock: File,
    resumed: bool,
    set_aside: Option<PathBuf>,
}

impl RunFolder {
    /// Makes or opens the folder and locks it.
    pub fn open(path: &Path, begin: Begin) -> Result<Self, FolderError> {
        let holds_run = path.join("manifest.json").exists() || path.join("responses.jsonl").exists();
        if begin == Begin::Resume && !holds_run {
            return Err(FolderError::NothingToResume(path.to_owned()));
        }
        std::fs::create_dir_all(path).map_err(FolderError::io(path, "the run's folder cannot be made"))?;
        let mut lock = lock(path)?;
        let mut set_aside = None;
        if begin == Begin::Fresh && holds_run {
            let aside = free_name(path);
            std::fs::rename(path, &aside)
                .map_err(FolderError::io(path, "the earlier run cannot be set aside"))?;
            std::fs::create_dir_all(path)
                .map_err(FolderError::io(path, "the run's folder cannot be made"))?;
            lock = self::lock(path)?;
            set_aside = Some(aside);
        }
        Ok(Self { path: path.to_owned(), _lock: lock, resumed: holds_run && set_aside.is_none(), set_aside })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a run was there already.
    pub fn resumed(&self) -> bool {
        self.resumed
    }

    /// Where an earlier run was moved to.
    pub fn set_aside(&self) -> Option<&Path> {
        self.set_aside.as_deref()
    }
}

fn lock(folder: &Path) -> Result<File, FolderError> {
    let path = folder.join(".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(FolderError::io(&path, "cannot be written"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(FolderError::Locked(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(FolderError::Io {
            path,
            action: "the folder cannot be locked (some network file systems cannot; name another place with --results)",
            source,
        }),
    }
}

/// The first free name of the form `run.old-N`.
fn free_name(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    (1..10_000_u32)
        .map(|n| path.with_file_name(format!("{name}.old-{n}")))
        .find(|candidate| !candidate.exists())
        .unwrap_or_else(|| path.with_file_name(format!("{name}.old")))
}

/// Writes a file whole or not at all: beside it first, then over it.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
) -> Result<(), FolderError> {
    let beside = path.with_added_extension("partial");
    let result = (|| {
        let mut file = std::io::BufWriter::new(File::create(&beside)?);
        write(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        std::fs::rename(&beside, path)
    })();
    result.map_err(|source| {
        let _ = std::fs::remove_file(&beside);
        FolderError::Io {
            path: path.to_owned(),
            action: "cannot be written (make room or mend the folder, then give the same command again)",
            source,
        }
    })
}

/// The folder of a finished or unfinished run: a path, or a name in the results folder.
pub fn find_run(run: &str, results: &Path) -> Result<PathBuf, FolderError> {
    let as_path = PathBuf::from(run);
    let by_name = results.join(run);
    let found = [by_name.clone(), as_path].into_iter().find(|path| path.join("manifest.json").is_file());
    found.ok_or_else(|| {
        let mut known = std::fs::read_dir(results)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("manifest.json").is_file())
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect::<Vec<_>>();
        known.sort();
        let known = if known.is_empty() {
            format!("; {} holds none", results.display())
        } else {
            format!("; {} holds {}", results.display(), known.join(", "))
        };
        FolderError::NoRun { path: by_name, known }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_is_refused_and_a_fresh_run_sets_the_old_one_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        assert!(matches!(RunFolder::open(&path, Begin::Resume), Err(FolderError::NothingToResume(_))));
        let first = RunFolder::open(&path, Begin::Either).unwrap();
        assert!(!first.resumed());
        assert!(matches!(RunFolder::open(&path, Begin::Either), Err(FolderError::Locked(_))));
        drop(first);
        std::fs::write(path.join("manifest.json"), "{}").unwrap();
        let second = RunFolder::open(&path, Begin::Either).unwrap();
        assert!(second.resumed());
        drop(second);
        let third = RunFolder::open(&path, Begin::Fresh).unwrap();
        assert!(!third.resumed());
        assert_eq!(third.set_aside().unwrap(), dir.path().join("run.old-1"));
        assert!(dir.path().join("run.old-1/manifest.json").exists());
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_whole(&path, |out| out.write_all(b"one")).unwrap();
        let failed = write_whole(&path, |out| {
            out.write_all(b"two")?;
            Err(std::io::Error::other("disk full"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert!(!dir.path().join("a.json.partial").exists());
    }

    #[test]
    fn runs_are_found_by_name_and_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("demo");
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("manifest.json"), "{}").unwrap();
        assert_eq!(find_run("demo", dir.path()).unwrap(), run);
        assert_eq!(find_run(run.to_str().unwrap(), Path::new("nowhere")).unwrap(), run);
        let error = find_run("dem", dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("holds demo"), "{error}");
    }
}
