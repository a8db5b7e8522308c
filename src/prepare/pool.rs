//! Who does what. All threads are alike, and each takes what is most urgent: a clip that waits to be made; else the next
//! row of a part that is being read; else a part that is not begun; or a published file that is to be verified.
//!
//! A part is read from the front by one thread at a time, for its decoder can only go forwards. What comes after that,
//! taking the samples out, making a file of them, hashing and writing it, is most of the work, and is done clip by clip on
//! all threads: a file of one row group, or of few rows, keeps them busy as well as one of many.
//!
//! Memory is bounded: rows whose clips are not made yet take at most [`AHEAD_BYTES`] a thread, and since the size of a row
//! is only known when it was read, one row a thread more. Besides, each thread holds the clip that it makes, as samples and
//! as a file; rows that wait for an earlier one hold no media. What `dataset` keeps of passed rows is bounded there (64 MiB).

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::PrepareError;
use super::going::Going;
use super::layout::At;
use super::part::{Head, Journal, Line};
use super::store::{AGAIN, Kept, STAYS, Store, Target, Want, make};
use super::work::{Event, Part, Under, Work};
use crate::dataset::{Dataset, MediaNameError, Row, RowError};
use crate::media::MediaSource;

/// Bytes of rows that are read before their clips are made, for each thread.
const AHEAD_BYTES: usize = 16 << 20;
/// Rows that are begun and not noted as done, for each thread.
const AHEAD_ROWS: usize = 64;
/// The version of how rows are made: journals of another are begun anew.
const ROWS_VERSION: u32 = 2;

/// What is begun by whoever has nothing else to do.
#[derive(Debug)]
pub(super) enum Task {
    /// A published file is compared with the hash that it had when it was fetched.
    Verify { set: usize, file: PathBuf, sha256: String },
    /// A part is read.
    Part(Part),
}

/// What a thread does.
enum Job {
    Clip(Clip),
    Read(Reading),
    Begin(Task),
}

/// A part that is being read.
struct Reading {
    going: Arc<Going>,
    /// With readers of its own.
    dataset: Dataset,
    rows: Box<dyn Iterator<Item = Result<Row, RowError>> + Send>,
    /// The row that comes next, counted from 0 in the part.
    next: u64,
}

/// A row that was read, and is done when all media that it asks for are made.
struct Begun {
    going: Arc<Going>,
    /// Its number in the part.
    number: u64,
    /// Its number among the rows of its files, from 1.
    row: u64,
    value: Mutex<Value>,
    wants: Vec<Want>,
    sources: Vec<Result<MediaSource, MediaNameError>>,
    made: Mutex<Vec<Option<Kept>>>,
    left: AtomicUsize,
    /// Bytes that it holds of what was read.
    bytes: usize,
}

/// One of the media of a row.
struct Clip {
    row: Arc<Begun>,
    number: usize,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    clips: VecDeque<Clip>,
    /// Parts that wait to be read on, those that were begun first in front.
    readings: VecDeque<Reading>,
    /// Parts that are not read to their end.
    open: usize,
    /// Rows that are begun and not noted, and bytes that they hold.
    rows: usize,
    bytes: usize,
}

/// What the threads share.
pub(super) struct Pool {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) stop: AtomicBool,
    most_bytes: usize,
    most_rows: usize,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(super) fn new(tasks: VecDeque<Task>, jobs: NonZeroUsize) -> Self {
        Self {
            state: Mutex::new(State { tasks, ..State::default() }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            most_bytes: AHEAD_BYTES.saturating_mul(jobs.get()),
            most_rows: AHEAD_ROWS.saturating_mul(jobs.get()),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// What can be done now.
    fn take(&self, state: &mut State) -> Option<Job> {
        if let Some(clip) = state.clips.pop_front() {
            return Some(Job::Clip(clip));
        }
        let room = state.rows == 0 || (state.bytes < self.most_bytes && state.rows < self.most_rows);
        if room && let Some(reading) = state.readings.pop_front() {
            return Some(Job::Read(reading));
        }
        // To verify takes no room.
        if !room && !matches!(state.tasks.front(), Some(Task::Verify { .. })) {
            return None;
        }
        let task = state.tasks.pop_front()?;
        state.open += usize::from(matches!(task, Task::Part(_)));
        Some(Job::Begin(task))
    }

    /// What is to be done next; `None` where nothing more will be, or all are to stop.
    fn next(&self) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let job = self.take(&mut state);
            if job.is_some() || (state.open == 0 && state.tasks.is_empty()) {
                return job;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Work<'_> {
    /// Works until nothing is left.
    pub(super) fn run(&self) -> Result<(), PrepareError> {
        // Others stop when this one fails or panics.
        let guard = StopOnDrop(&self.pool);
        while let Some(job) = self.pool.next() {
            match job {
                Job::Clip(clip) => self.clip(&clip)?,
                Job::Read(reading) => self.read(reading)?,
                Job::Begin(Task::Part(part)) => self.begin(part)?,
                Job::Begin(Task::Verify { set, file, sha256 }) => self.verify(set, &file, &sha256)?,
            }
        }
        std::mem::forget(guard);
        Ok(())
    }

    pub(super) fn under(&self, set: usize) -> Result<&Under<'_>, PrepareError> {
        self.sets.get(set).ok_or(PrepareError::Internal("a part has no set"))
    }

    /// A part of the work on a set is done; whoever does the last ends the set.
    pub(super) fn done(&self, set: usize) -> Result<(), PrepareError> {
        let under = self.under(set)?;
        if under.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            under.files.clear();
            self.end(under)?;
        }
        Ok(())
    }

    /// Begins to read a part, behind the rows that an earlier process did.
    fn begin(&self, part: Part) -> Result<(), PrepareError> {
        let under = self.under(part.set)?;
        let source = under.set.from.get(part.source).ok_or(PrepareError::Internal("a part has no source"))?;
        let head = Head {
            version: ROWS_VERSION,
            sources: under.set.sources.clone(),
            part: format!("{:?} {:?}", part.source, part.stretch),
        };
        let journal = Journal::open(&part.journal, &head, &self.plan.to)?;
        let rows =
            source.dataset.rows_of(&part.stretch).map_err(|e| PrepareError::Data(e, self.plan.benchmark))?;
        let done = journal.done;
        let rows = rows.skip(usize::try_from(done).unwrap_or(usize::MAX));
        let going = Arc::new(Going::new(part, journal, self.observe));
        let reading = Reading { going, dataset: source.dataset.apart(), rows: Box::new(rows), next: done };
        self.pool.change(|state| state.readings.push_back(reading));
        Ok(())
    }

    /// Reads a row of a part, and hands out what it asks for.
    fn read(&self, mut reading: Reading) -> Result<(), PrepareError> {
        let going = Arc::clone(&reading.going);
        let Some(row) = reading.rows.next() else {
            going.ends_at(reading.next);
            drop(reading);
            self.pool.change(|state| state.open = state.open.saturating_sub(1));
            return self.settle(&going);
        };
        let number = reading.next;
        reading.next += 1;
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                self.pool.change(|state| {
                    state.rows += 1;
                    state.readings.push_front(reading);
                });
                let then = if error.may_pass { AGAIN } else { STAYS };
                let line = Line {
                    row: Value::Null,
                    files: Vec::new(),
                    absent: 0,
                    problems: vec![format!("{error}; {then}")],
                    faults: u64::from(error.may_pass),
                };
                going.ready(number, line);
                return self.settle(&going);
            }
        };
        let place = going.part.stretch.before + row.line;
        let mut asking = Store::asking();
        self.plan.layout.row(row.value.clone(), self.at(&going, place)?, &mut asking)?;
        let wants = asking.wants();
        let (sources, bytes) = reading.dataset.read_ahead(wants.iter().map(|want| &*want.name));
        let clips = wants.len();
        let row = Arc::new(Begun {
            going,
            number,
            row: place,
            value: Mutex::new(row.value),
            wants,
            sources,
            made: Mutex::new(vec![None; clips]),
            left: AtomicUsize::new(clips),
            bytes,
        });
        self.pool.change(|state| {
            state.rows += 1;
            state.bytes += bytes;
            state.clips.extend((0..clips).map(|number| Clip { row: Arc::clone(&row), number }));
            state.readings.push_front(reading);
        });
        if clips == 0 { self.row_is_made(&row) } else { Ok(()) }
    }

    fn at(&self, going: &Going, row: u64) -> Result<At<'_>, PrepareError> {
        let set = self.under(going.part.set)?.set;
        let label = set.from.get(going.part.source).and_then(|source| source.label.as_deref());
        Ok(At { set: &set.name, label, row })
    }

    /// Makes one of the media of a row; with the last of them the row is made.
    fn clip(&self, clip: &Clip) -> Result<(), PrepareError> {
        let Clip { row, number } = clip;
        let under = self.under(row.going.part.set)?;
        let lost = PrepareError::Internal("a row has other media than it asked for");
        let (Some(want), Some(source)) = (row.wants.get(*number), row.sources.get(*number)) else {
            return Err(lost);
        };
        let from = under.set.from.get(row.going.part.source);
        let target = Target {
            to: &self.plan.to,
            set: &under.set.name,
            in_place: from.is_some_and(|from| from.in_place),
            files: &under.files,
        };
        let kept = make(source, want, target)?;
        if let Some(made) = lock(&row.made).get_mut(*number) {
            *made = Some(kept);
        }
        if row.left.fetch_sub(1, Ordering::AcqRel) == 1 { self.row_is_made(row) } else { Ok(()) }
    }

    /// All media of a row are made: the row is made of them, and noted when those before it are.
    fn row_is_made(&self, row: &Begun) -> Result<(), PrepareError> {
        self.pool.change(|state| state.bytes = state.bytes.saturating_sub(row.bytes));
        let kept: Option<Vec<_>> = std::mem::take(&mut *lock(&row.made)).into_iter().collect();
        let kept = kept.ok_or(PrepareError::Internal("a row lacks some of its media"))?;
        let mut store = Store::answering(row.wants.iter().cloned().zip(kept).collect());
        let value = std::mem::take(&mut *lock(&row.value));
        let made = self.plan.layout.row(value, self.at(&row.going, row.row)?, &mut store)?;
        let line = Line {
            row: serde_json::json!([made.key, made.row]),
            files: store.files,
            absent: store.absent,
            problems: store.problems,
            faults: store.faults,
        };
        row.going.ready(row.number, line);
        self.settle(&row.going)
    }

    /// Notes what is ready of a part, and ends it where all is.
    fn settle(&self, going: &Going) -> Result<(), PrepareError> {
        let observe = |event: Event<'_>| {
            if let Event::Rows { rows, now: true, .. } = event
                && rows > 0
            {
                // Others may be begun.
                self.pool.change(|state| state.rows = state.rows.saturating_sub(rows as usize));
            }
            (self.observe)(event);
        };
        if going.settle(&observe)? { self.done(going.part.set) } else { Ok(()) }
    }
}

/// Tells the others to stop, unless it is forgotten.
struct StopOnDrop<'a>(&'a Pool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
        // Under the lock: who is about to wait sees it.
        self.0.change(|_| {});
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
