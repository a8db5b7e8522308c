//! The work: parts of sets (a row group, a batch, a file of text) are walked by as many threads as are asked for, each
//! with readers of its own. The one that ends a set's last part writes its rows and its record.

use std::collections::{HashSet, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::PrepareError;
use super::counting::Counting;
use super::layout::At;
use super::part::{self, Head, Journal, Line};
use super::plan::{Plan, PlannedSet};
use super::store::{Store, plain, sweep, sync_folder};
use crate::dataset::fetched::Fetched;
use crate::dataset::prepared::{Counts, FOLDER, ListRecord, RECORD, Record, SetRecord, VERSION, list_path};
use crate::dataset::{Stretch, keep_open};
use crate::types::Digest;

/// Where parts are kept until their set is whole.
const WORK: &str = ".work";
/// The version of how rows are made: journals of another are begun anew.
const ROWS_VERSION: u32 = 2;
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

/// A part of a set.
struct Part {
    set: usize,
    source: usize,
    stretch: Stretch,
    /// Bytes of the published file that it stands for.
    bytes: u64,
    journal: PathBuf,
}

/// A set under way.
struct Under<'a> {
    set: &'a PlannedSet,
    left: AtomicUsize,
    journals: Vec<PathBuf>,
}

struct Work<'a> {
    plan: &'a Plan,
    prepared: PathBuf,
    sets: Vec<Under<'a>>,
    queue: Mutex<VecDeque<Part>>,
    stop: AtomicBool,
    record: Mutex<Record>,
    observe: &'a (dyn Fn(Event<'_>) + Sync),
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
pub fn carry_out(
    plan: &Plan,
    jobs: NonZeroUsize,
    observe: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), PrepareError> {
    let prepared = plan.to.join(FOLDER);
    let work = prepared.join(WORK);
    std::fs::create_dir_all(&work).map_err(PrepareError::disk(&work))?;
    let _lock = lock(&prepared)?;
    // Another process may have ended meanwhile.
    let record = Record::read(&plan.to).map_err(PrepareError::Prepared)?.unwrap_or_else(|| Record {
        version: VERSION,
        program: String::new(),
        benchmark: plan.benchmark.to_owned(),
        sets: std::collections::BTreeMap::new(),
    });
    let record = Record { program: format!("harness {}", env!("CARGO_PKG_VERSION")), ..record };
    as_fetched(plan, jobs)?;
    let mut queue = VecDeque::new();
    let mut sets = Vec::new();
    sweep(&prepared);
    for set in plan.sets.iter().filter(|set| set.done.is_none()) {
        let folder = prepared.join(&set.name);
        std::fs::create_dir_all(&folder).map_err(PrepareError::disk(&folder))?;
        sweep(&folder);
        let journals = parts(set, sets.len(), &work, &mut queue);
        sets.push(Under { set, left: AtomicUsize::new(journals.len()), journals });
    }
    keep_open(jobs.get() * COLUMNS);
    let work = Work {
        plan,
        prepared: prepared.clone(),
        sets,
        queue: Mutex::new(queue),
        stop: AtomicBool::new(false),
        record: Mutex::new(record),
        observe,
    };
    // A set without parts has no one to end it.
    for set in work.sets.iter().filter(|set| set.journals.is_empty()) {
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

/// An error where a file that is to be read is another than was fetched. Each is read for that, on all threads: what is
/// made of it would pass for the published set.
fn as_fetched(plan: &Plan, jobs: NonZeroUsize) -> Result<(), PrepareError> {
    let fetched = Fetched::read(&plan.data);
    let sources = plan.sets.iter().filter(|set| set.done.is_none()).flat_map(|set| &set.sources);
    let queue = Mutex::new(sources.map(|source| &source.path).collect::<std::collections::BTreeSet<_>>());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
    let look = || -> Result<(), PrepareError> {
        while let Some(file) = next() {
            let path = plan.data.join(file);
            let differs = fetched
                .differs(&plan.data, file)
                .map_err(|source| PrepareError::Read { path: path.clone(), source })?;
            if let Some((fetched, found)) = differs {
                return Err(PrepareError::Changed { path, fetched, found, benchmark: plan.benchmark });
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.get()).map(|_| scope.spawn(look)).collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or(Err(PrepareError::Internal("a thread that reads published files panicked")))
        });
        joined.collect::<Result<(), _>>()
    })
}

/// Puts the parts of a set into the queue, and gives their journals.
fn parts(set: &PlannedSet, number: usize, work: &Path, queue: &mut VecDeque<Part>) -> Vec<PathBuf> {
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
            queue.push_back(Part { set: number, source, stretch, bytes, journal: journal.clone() });
            journals.push(journal);
        }
    }
    journals
}

impl Work<'_> {
    /// Works on parts until none is left.
    fn run(&self) -> Result<(), PrepareError> {
        // Others stop when this one fails or panics.
        let guard = StopOnDrop(&self.stop);
        while !self.stop.load(Ordering::Relaxed) {
            let part = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(part) = part else { break };
            let under = self.sets.get(part.set).ok_or(PrepareError::Internal("a part has no set"))?;
            if !self.walk(&part, under)? {
                break;
            }
            if under.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.end(under)?;
            }
        }
        std::mem::forget(guard);
        Ok(())
    }

    /// Walks the rows of a part; `false` where it was told to stop.
    fn walk(&self, part: &Part, under: &Under<'_>) -> Result<bool, PrepareError> {
        let source = under.set.from.get(part.source).ok_or(PrepareError::Internal("a part has no source"))?;
        let head = Head {
            version: ROWS_VERSION,
            sources: under.set.sources.clone(),
            part: format!("{:?} {:?}", part.source, part.stretch),
        };
        let mut journal = Journal::open(&part.journal, &head, &self.plan.to)?;
        let mut store = Store {
            dataset: source.dataset.apart(),
            to: &self.plan.to,
            in_place: source.in_place,
            set: &under.set.name,
            files: Vec::new(),
            absent: 0,
            problems: Vec::new(),
            faults: 0,
            whole: HashSet::new(),
        };
        let rows =
            source.dataset.rows_of(&part.stretch).map_err(|e| PrepareError::Data(e, self.plan.benchmark))?;
        let each =
            part.stretch.rows.as_ref().map(|rows| part.bytes as f64 / (rows.end - rows.start).max(1) as f64);
        // What was told of the bytes of this part.
        let (mut told, mut exact) = (0, 0.0);
        let mut tell = |rows: u64, now: bool| {
            exact += each.unwrap_or(0.0) * rows as f64;
            let bytes = (exact as u64).saturating_sub(told);
            told += bytes;
            (self.observe)(Event::Rows { rows, bytes, now });
            told
        };
        let done = journal.done;
        let mut sum = if done > 0 { tell(done, false) } else { 0 };
        for row in rows.skip(usize::try_from(done).unwrap_or(usize::MAX)) {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let row = match row {
                Err(e) => {
                    store.problems.push(e.to_string());
                    store.faults += 1;
                    Value::Null
                }
                Ok(row) => {
                    let at = At {
                        set: &under.set.name,
                        label: source.label.as_deref(),
                        row: part.stretch.before + row.line,
                    };
                    let made = self.plan.layout.row(row.value, at, &mut store)?;
                    serde_json::json!([made.key, made.row])
                }
            };
            journal.add(&Line {
                row,
                files: std::mem::take(&mut store.files),
                absent: std::mem::take(&mut store.absent),
                problems: std::mem::take(&mut store.problems),
                faults: std::mem::take(&mut store.faults),
            })?;
            sum = tell(1, true);
        }
        // The record must not say of media that they are there before they are.
        journal.mark()?;
        (self.observe)(Event::Rows { rows: 0, bytes: part.bytes.saturating_sub(sum), now: true });
        Ok(true)
    }

    /// Writes the rows and the record of a set whose parts are done.
    fn end(&self, under: &Under<'_>) -> Result<(), PrepareError> {
        let name = &under.set.name;
        let path = self.prepared.join(format!("{name}.jsonl"));
        let mut counting = Counting::default();
        let (bytes, blake3) = match self.plan.layout.joins() {
            None => whole(&path, |write| gather(under, &mut counting, write))?,
            Some(join) => {
                let mut rows = Vec::new();
                gather(under, &mut counting, &mut |row| {
                    rows.push(row.clone());
                    Ok(())
                })?;
                let mut problems = Vec::new();
                let rows = join(rows, &mut problems);
                for problem in problems {
                    counting.problem(problem);
                }
                counting.counts.rows = rows.len() as u64;
                whole(&path, |write| rows.iter().try_for_each(write))?
            }
        };
        let list = beside_and_synced(&list_path(&self.plan.to, name), &counting.list)?;
        sync_folder(&self.prepared)?;
        let set = SetRecord {
            sources: under.set.sources.clone(),
            bytes,
            blake3,
            list,
            counts: counting.counts,
            problems: counting.problems,
        };
        {
            let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            record.sets.insert(name.clone(), set);
            let text = serde_json::to_vec_pretty(&*record);
            let text = text.map_err(|_| PrepareError::Internal("the record is no JSON"))?;
            beside_and_synced(&self.prepared.join(RECORD), &text)?;
            sync_folder(&self.prepared)?;
        }
        // What could not be read is tried again from the first row of its part on; the other parts are kept for that.
        if counting.counts.faults == 0 {
            for journal in &under.journals {
                let _ = std::fs::remove_file(journal);
            }
        }
        (self.observe)(Event::Set { name, counts: &counting.counts });
        Ok(())
    }
}

type Write<'a> = &'a mut dyn FnMut(&Value) -> Result<(), PrepareError>;

/// Gives the rows of all parts, and counts what they hold.
fn gather(under: &Under<'_>, counting: &mut Counting, write: Write<'_>) -> Result<(), PrepareError> {
    for journal in &under.journals {
        for line in part::lines(journal)? {
            let line = line?;
            line.files.iter().for_each(|file| counting.file(file));
            counting.counts.absent += line.absent;
            counting.counts.faults += line.faults;
            line.problems.into_iter().for_each(|problem| counting.problem(problem));
            let Value::Array(pair) = line.row else { continue };
            let [Value::String(key), row] = &*pair else { continue };
            if counting.again(key) {
                counting.problem(format!("a row is there twice: {}", key.replace('\0', ", ")));
            }
            counting.counts.rows += 1;
            write(row)?;
        }
    }
    Ok(())
}

/// Writes a file of rows whole, and gives its size and hash.
fn whole(
    path: &Path,
    fill: impl FnOnce(Write<'_>) -> Result<(), PrepareError>,
) -> Result<(u64, Digest), PrepareError> {
    let beside = path.with_added_extension("partial");
    let mut file = BufWriter::new(File::create(&beside).map_err(PrepareError::disk(&beside))?);
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    fill(&mut |row| {
        let mut text = serde_json::to_vec(row).map_err(|_| PrepareError::Internal("a row is no JSON"))?;
        text.push(b'\n');
        hasher.update(&text);
        bytes += text.len() as u64;
        file.write_all(&text).map_err(PrepareError::disk(path))
    })?;
    let synced =
        file.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|file| file.sync_all());
    synced.and_then(|()| std::fs::rename(&beside, path)).map_err(PrepareError::disk(path))?;
    Ok((bytes, Digest(*hasher.finalize().as_bytes())))
}

/// Writes a small file whole or not at all, and gives its size and hash.
fn beside_and_synced(path: &Path, text: &[u8]) -> Result<ListRecord, PrepareError> {
    let beside = path.with_added_extension("partial");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&beside, path)).map_err(PrepareError::disk(path))?;
    Ok(ListRecord { bytes: text.len() as u64, blake3: Digest::of(text) })
}

/// Tells the others to stop, unless it is forgotten.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
