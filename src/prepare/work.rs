//! The work as a whole: what is to be done, in which order it is begun, and the threads that do it (`pool.rs`).

use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PrepareError;
use super::files::{Files, sweep};
use super::plan::{Plan, PlannedSet};
use super::pool::{Pool, Task};
use super::store::plain;
use crate::dataset::fetched::FetchRecord;
use crate::dataset::prepared::{Counts, FOLDER, Record, VERSION};
use crate::dataset::{Stretch, keep_open};

/// Where parts are kept until their set is whole.
const WORK: &str = ".work";
/// Columns of media that a row may have.
const COLUMNS: usize = 8;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Rows are done, which stand for so many bytes of the published files; or they were done earlier.
    Rows {
        /// Rows.
        rows: u64,
        /// Bytes of published files.
        bytes: u64,
        /// Whether they were done now.
        now: bool,
    },
    /// A set is done.
    Set {
        /// Its name.
        name: &'a str,
        /// What was found and written.
        counts: &'a Counts,
    },
}

/// A part of a set: rows that can be read apart from others (a row group, a batch, a file of text).
#[derive(Debug)]
pub(super) struct Part {
    pub(super) set: usize,
    pub(super) source: usize,
    pub(super) stretch: Stretch,
    /// Bytes of the published file that it stands for.
    pub(super) bytes: u64,
    pub(super) journal: PathBuf,
}

/// A set under way.
pub(super) struct Under<'a> {
    pub(super) set: &'a PlannedSet,
    /// Parts that are not done, and files that are not verified.
    pub(super) left: AtomicUsize,
    pub(super) journals: Vec<PathBuf>,
    pub(super) files: Files,
}

pub(super) struct Work<'a> {
    pub(super) plan: &'a Plan,
    pub(super) prepared: PathBuf,
    pub(super) sets: Vec<Under<'a>>,
    pub(super) pool: Pool,
    pub(super) record: Mutex<Record>,
    pub(super) observe: &'a (dyn Fn(Event<'_>) + Sync),
}

/// Holds the folder.
fn lock(folder: &Path) -> Result<File, PrepareError> {
    let path = folder.join(".lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(PrepareError::disk(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(PrepareError::Locked(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(PrepareError::Disk { path, source }),
    }
}

/// Does what is planned and not done, on so many threads. What was begun earlier goes on where it was.
///
/// Rows that are read and whose clips are not made yet take at most 16 MiB a thread, and one row a thread more; see
/// `pool.rs`.
pub fn carry_out(
    plan: &Plan,
    jobs: NonZeroUsize,
    observe: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), PrepareError> {
    let prepared = plan.to.join(FOLDER);
    std::fs::create_dir_all(&prepared).map_err(PrepareError::disk(&prepared))?;
    let _lock = lock(&prepared)?;
    let work = set_up(plan, jobs, observe)?;
    // A set of which nothing is to be done has no one to end it.
    for set in work.sets.iter().filter(|set| set.left.load(Ordering::Relaxed) == 0) {
        work.end(set)?;
    }
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.get()).map(|_| scope.spawn(|| work.run())).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or(Err(PrepareError::Internal("a thread that prepares data panicked")))
        });
        joined.collect::<Vec<_>>()
    });
    done.into_iter().collect::<Result<(), _>>()?;
    // Only where nothing is left in it.
    let _ = std::fs::remove_dir(prepared.join(WORK));
    Ok(())
}

/// What is to be done, and what is done of it. Nothing is begun.
pub(super) fn set_up<'a>(
    plan: &'a Plan,
    jobs: NonZeroUsize,
    observe: &'a (dyn Fn(Event<'_>) + Sync),
) -> Result<Work<'a>, PrepareError> {
    let prepared = plan.to.join(FOLDER);
    let work = prepared.join(WORK);
    std::fs::create_dir_all(&work).map_err(PrepareError::disk(&work))?;
    // Another process may have ended meanwhile.
    let record = Record::read(&plan.to).map_err(PrepareError::Prepared)?.unwrap_or_else(|| Record {
        version: VERSION,
        program: String::new(),
        benchmark: plan.benchmark.to_owned(),
        sets: std::collections::BTreeMap::new(),
    });
    let record = Record { program: format!("harness {}", env!("CARGO_PKG_VERSION")), ..record };
    let fetched = FetchRecord::read(&plan.data)?.map(|record| record.hashes()).unwrap_or_default();
    let mut tasks = VecDeque::new();
    let mut sets = Vec::new();
    sweep(&prepared);
    for set in plan.sets.iter().filter(|set| set.done.is_none()) {
        let folder = prepared.join(&set.name);
        std::fs::create_dir_all(&folder).map_err(PrepareError::disk(&folder))?;
        sweep(&folder);
        let number = sets.len();
        let verified = tasks.len();
        // Before its parts, so that a file is hashed while it is read: see `verify`.
        tasks.extend(set.sources.iter().filter_map(|source| {
            let sha256 = fetched.get(&source.path)?.clone();
            Some(Task::Verify { set: number, file: source.path.clone(), sha256 })
        }));
        let verified = tasks.len() - verified;
        let journals = parts(set, number, &work, &mut tasks);
        let left = AtomicUsize::new(journals.len() + verified);
        sets.push(Under { set, left, journals, files: Files::default() });
    }
    keep_open(jobs.get() * COLUMNS);
    let record = Mutex::new(record);
    Ok(Work { plan, prepared, sets, pool: Pool::new(tasks, jobs), record, observe })
}

/// Puts the parts of a set into the queue, and gives their journals.
fn parts(set: &PlannedSet, number: usize, work: &Path, tasks: &mut VecDeque<Task>) -> Vec<PathBuf> {
    let mut journals = Vec::new();
    for (source, from) in set.from.iter().enumerate() {
        let stretches = from.dataset.stretches();
        let rows = |stretch: &Stretch| stretch.rows.as_ref().map_or(1, |rows| rows.end - rows.start);
        let all: u64 = stretches.iter().map(rows).sum();
        let sizes = from.dataset.paths().filter_map(|path| std::fs::metadata(path).ok());
        let size: u64 = sizes.map(|meta| meta.len()).sum();
        for stretch in stretches {
            let journal = work.join(format!("{}-{}.jsonl", plain(&set.name), journals.len()));
            let bytes = (size as f64 * rows(&stretch) as f64 / all.max(1) as f64) as u64;
            tasks.push_back(Task::Part(Part {
                set: number,
                source,
                stretch,
                bytes,
                journal: journal.clone(),
            }));
            journals.push(journal);
        }
    }
    journals
}
