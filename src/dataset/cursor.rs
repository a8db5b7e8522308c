//! Reading media inside a file in the order of the plan.
//!
//! A file in columns or in lines is decoded forwards: its pages hold many rows, and to read row 17 the reader passes
//! rows 0 to 16 of its group. A [`Cursor`] stands in one column of one file. Who asks for the rows in order has each
//! decoded once. Several who ask at once are served from the lowest row up, whatever order they come in. Rows that
//! were passed are kept for a while, up to a number of bytes. Who asks for a row that was passed long ago makes the
//! cursor start again, at the beginning of that row's group.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::media::{MediaContent, ReadError};

/// The most bytes of passed rows that all cursors keep together.
const KEPT_BYTES: usize = 64 << 20;
/// What a cursor may keep even so.
const OWN_BYTES: usize = 4 << 20;
/// Cursors that are kept open at least: as many columns as a row of a published set has, for two files.
const OPEN: usize = 16;

/// Cursors that are kept open.
static ROOM: AtomicUsize = AtomicUsize::new(OPEN);

/// Keeps at least so many cursors open: for those who read many files at once.
pub(super) fn keep_open(cursors: usize) {
    ROOM.fetch_max(cursors, Ordering::Relaxed);
}

/// Closes the cursors of a dataset.
pub(super) fn forget(dataset: u64) {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let (gone, kept) = pool.drain(..).partition(|((of, _, _), _)| *of == dataset);
    *pool = kept;
    drop(pool);
    // Their files are closed while no one waits for the pool.
    drop::<VecDeque<_>>(gone);
}

/// Bytes of passed rows that are kept now.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// A row, as far as it was decoded.
pub(super) trait Cells: Send + Sync {
    /// Bytes that it takes in memory.
    fn weight(&self) -> usize;

    /// The media at a place below the cursor's column.
    fn media(&self, path: &[&str]) -> Result<MediaContent, ReadError>;
}

/// A row that was decoded, or why it was not.
pub(super) type Decoded = Result<Arc<dyn Cells>, ReadError>;

/// Gives the rows of a file from some row on.
pub(super) trait Forward: Send {
    /// The next row and its number, from 0; `None` behind the last.
    fn next_row(&mut self) -> Option<(u64, Decoded)>;
}

/// Starts a [`Forward`] somewhere.
pub(super) trait Start: Send + Sync {
    /// At a row, or before it.
    fn start(&self, row: u64) -> Result<Box<dyn Forward>, ReadError>;

    /// Whether it is better to start at `to` than to go on from `from`, a row before it.
    fn leaps(&self, from: u64, to: u64) -> bool;
}

/// How much was decoded: for tests and for those who look for the cause of slowness.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) rows: AtomicU64,
    pub(super) starts: AtomicU64,
}

/// Stands in a column of a file.
pub(super) struct Cursor {
    start: Box<dyn Start>,
    counts: Arc<Counts>,
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Default)]
struct State {
    /// The rows that are waited for, and by how many.
    waiting: BTreeMap<u64, usize>,
    /// Someone is decoding.
    busy: bool,
    forward: Option<Box<dyn Forward>>,
    /// The row that comes next.
    next: u64,
    kept: VecDeque<(u64, Decoded)>,
    bytes: usize,
}

impl State {
    fn find(&self, row: u64) -> Option<&Decoded> {
        self.kept.iter().rev().find(|(kept, _)| *kept == row).map(|(_, decoded)| decoded)
    }

    fn keep(&mut self, row: u64, decoded: Decoded) {
        let weight = decoded.as_ref().map_or(0, |cells| cells.weight());
        self.bytes += weight;
        HELD.fetch_add(weight, Ordering::Relaxed);
        self.kept.push_back((row, decoded));
        while self.kept.len() > 1
            && (self.kept.len() > 4096
                || (self.bytes > OWN_BYTES && HELD.load(Ordering::Relaxed) > KEPT_BYTES))
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, decoded)) = self.kept.pop_front() {
            let weight = decoded.map_or(0, |cells| cells.weight());
            self.bytes = self.bytes.saturating_sub(weight);
            HELD.fetch_sub(weight, Ordering::Relaxed);
        }
    }

    /// The row whose reader goes on: the lowest one ahead, or else the lowest.
    fn chosen(&self) -> Option<u64> {
        let ahead = self.waiting.range(self.next..).next();
        ahead.or_else(|| self.waiting.first_key_value()).map(|(row, _)| *row)
    }

    fn leave(&mut self, row: u64) {
        if let Some(count) = self.waiting.get_mut(&row) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&row);
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        HELD.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Cursor {
    pub(super) fn new(start: Box<dyn Start>, counts: Arc<Counts>) -> Self {
        Self { start, counts, state: Mutex::default(), turn: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row.
    pub(super) fn row(&self, row: u64) -> Decoded {
        let mut state = self.lock();
        *state.waiting.entry(row).or_default() += 1;
        let decoded = loop {
            if let Some(decoded) = state.find(row) {
                break decoded.clone();
            }
            if state.busy || state.chosen() != Some(row) {
                state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.busy = true;
            let (forward, next) = (state.forward.take(), state.next);
            drop(state);
            let step = self.step(forward, next, row);
            state = self.lock();
            state.busy = false;
            state.forward = step.forward;
            state.next = step.next;
            if let Some((number, decoded)) = step.decoded {
                state.keep(number, decoded);
            }
            self.turn.notify_all();
            if step.past {
                break state
                    .find(row)
                    .cloned()
                    .unwrap_or_else(|| Err(format!("the file has no row {row}").into()));
            }
        };
        state.leave(row);
        drop(state);
        self.turn.notify_all();
        decoded
    }

    /// Decodes one row, towards `row`.
    fn step(&self, forward: Option<Box<dyn Forward>>, next: u64, row: u64) -> Step {
        let failed = |error: ReadError| Step {
            forward: None,
            next: row.saturating_add(1),
            decoded: Some((row, Err(error))),
            past: true,
        };
        // The decoders are not ours, and files may be damaged in ways that their authors did not think of.
        let work = catch_unwind(AssertUnwindSafe(|| {
            let goes_on = forward.filter(|_| next <= row && !self.start.leaps(next, row));
            let mut forward = if let Some(forward) = goes_on {
                forward
            } else {
                self.counts.starts.fetch_add(1, Ordering::Relaxed);
                self.start.start(row)?
            };
            let got = forward.next_row();
            self.counts.rows.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ReadError>((forward, got))
        }));
        match work {
            Err(_) => failed("the decoder of its file failed on it: get the file again".into()),
            Ok(Err(error)) => failed(error),
            Ok(Ok((_, None))) => failed(format!("the file has no row {row}").into()),
            Ok(Ok((forward, Some((number, decoded))))) => {
                // After an error the decoder's state is unknown.
                let forward = decoded.is_ok().then_some(forward);
                let next = number.saturating_add(1);
                Step { forward, next, past: number >= row, decoded: Some((number, decoded)) }
            }
        }
    }
}

struct Step {
    forward: Option<Box<dyn Forward>>,
    next: u64,
    decoded: Option<(u64, Decoded)>,
    /// Whether the row that was asked for is reached.
    past: bool,
}

/// Which cursor: the dataset, the file in it, the column of media in that.
pub(super) type Key = (u64, usize, usize);

/// The cursors of the process that were used last. Those that are pushed out give their files and memory back.
static POOL: Mutex<VecDeque<(Key, Arc<Cursor>)>> = Mutex::new(VecDeque::new());

/// The cursor of a key, made where there is none.
pub(super) fn cursor(key: Key, make: impl FnOnce() -> Cursor) -> Arc<Cursor> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let found = pool.iter().rposition(|(other, _)| *other == key);
    let entry = match found.and_then(|at| pool.remove(at)) {
        Some(entry) => entry,
        None => (key, Arc::new(make())),
    };
    let cursor = Arc::clone(&entry.1);
    pool.push_back(entry);
    let pushed_out = if pool.len() > ROOM.load(Ordering::Relaxed) { pool.pop_front() } else { None };
    drop(pool);
    drop(pushed_out);
    cursor
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;
