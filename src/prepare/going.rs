//! A part that is being made: rows become ready in any order and are noted in theirs.

use std::collections::BTreeMap;
use std::sync::{Mutex, TryLockError};

use super::PrepareError;
use super::part::{Journal, Line};
use super::pool::lock;
use super::work::{Event, Part};

type Observe<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// A part that is being made.
#[derive(Debug)]
pub(super) struct Going {
    pub(super) part: Part,
    ready: Mutex<Ready>,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Ready {
    /// Rows that are made, by their numbers in the part, and not noted.
    lines: BTreeMap<u64, Line>,
    /// The number of rows, once it is known.
    all: Option<u64>,
}

#[derive(Debug)]
struct Noted {
    /// Its `done` is the number of the row that is noted next.
    journal: Journal,
    ended: bool,
    /// Bytes that a row stands for, and what was told of those of the part.
    each: f64,
    exact: f64,
    told: u64,
}

impl Noted {
    /// Bytes that were not told of, for so many rows more.
    fn tell(&mut self, rows: u64) -> u64 {
        self.exact += self.each * rows as f64;
        let bytes = (self.exact as u64).saturating_sub(self.told);
        self.told += bytes;
        bytes
    }
}

impl Going {
    /// A part whose journal has what an earlier process did.
    pub(super) fn new(part: Part, journal: Journal, observe: Observe<'_>) -> Self {
        let rows = part.stretch.rows.as_ref().map(|rows| (rows.end - rows.start).max(1));
        let each = rows.map_or(0.0, |rows| part.bytes as f64 / rows as f64);
        let mut noted = Noted { journal, ended: false, each, exact: 0.0, told: 0 };
        let done = noted.journal.done;
        if done > 0 {
            let bytes = noted.tell(done);
            observe(Event::Rows { rows: done, bytes, now: false });
        }
        Self { part, ready: Mutex::default(), noted: Mutex::new(noted) }
    }

    /// A row is made.
    pub(super) fn ready(&self, number: u64, line: Line) {
        lock(&self.ready).lines.insert(number, line);
    }

    /// The part has so many rows.
    pub(super) fn ends_at(&self, rows: u64) {
        lock(&self.ready).all = Some(rows);
    }

    /// Notes the rows that are ready and whose turn it is. Where another thread is at it, that one notes them: it looks
    /// again when it is done, so that nobody waits while files are synced. `true` where the part is ended by it.
    pub(super) fn settle(&self, observe: Observe<'_>) -> Result<bool, PrepareError> {
        let mut by_this = false;
        loop {
            let mut noted = match self.noted.try_lock() {
                Ok(noted) => noted,
                // Whoever panicked stops all.
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return Ok(by_this),
            };
            loop {
                let line = lock(&self.ready).lines.remove(&noted.journal.done);
                let Some(line) = line else { break };
                noted.journal.add(&line)?;
                let bytes = noted.tell(1);
                observe(Event::Rows { rows: 1, bytes, now: true });
            }
            let next = noted.journal.done;
            if !noted.ended && lock(&self.ready).all == Some(next) {
                // The record must not say of media that they are there before they are.
                noted.journal.mark()?;
                noted.ended = true;
                by_this = true;
                let bytes = self.part.bytes.saturating_sub(noted.told);
                observe(Event::Rows { rows: 0, bytes, now: true });
            }
            let ended = noted.ended;
            drop(noted);
            let ready = lock(&self.ready);
            if ended || (!ready.lines.contains_key(&next) && ready.all != Some(next)) {
                return Ok(by_this);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::dataset::Dataset;
    use crate::prepare::part::{self, Head};

    fn line(n: u64) -> Line {
        Line { row: n.into(), files: Vec::new(), absent: 0, problems: Vec::new(), faults: 0 }
    }

    fn going(dir: &Path) -> Going {
        std::fs::write(dir.join("test.jsonl"), "{}\n").unwrap();
        let stretch = Dataset::open(dir, None).unwrap().stretches().remove(0);
        let journal = dir.join("j");
        let head = Head { version: 1, sources: Vec::new(), part: String::new() };
        let part = Part { set: 0, source: 0, stretch, bytes: 100, journal: journal.clone() };
        Going::new(part, Journal::open(&journal, &head, dir).unwrap(), &|_| {})
    }

    fn noted(dir: &Path) -> Vec<u64> {
        part::lines(&dir.join("j")).unwrap().map(|line| line.unwrap().row.as_u64().unwrap()).collect()
    }

    #[test]
    fn rows_are_noted_in_their_order_and_the_part_ends_once() {
        let dir = tempfile::tempdir().unwrap();
        let going = going(dir.path());
        let settle = || going.settle(&|_| {}).unwrap();
        for (number, rows) in [(2, 0), (1, 0), (0, 3), (3, 4)] {
            going.ready(number, line(number));
            assert!(!settle(), "more may come");
            assert_eq!(noted(dir.path()).len(), rows, "{number}");
        }
        going.ready(5, line(5));
        going.ends_at(6);
        assert!(!settle(), "row 4 is not made");
        going.ready(4, line(4));
        assert!(settle());
        assert!(!settle(), "it is ended once");
        assert_eq!(noted(dir.path()), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn whoever_settles_nothing_is_left_and_one_ends_the_part() {
        let dir = tempfile::tempdir().unwrap();
        let going = going(dir.path());
        let (next, ended, bytes) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        going.ends_at(2000);
        let observe = |event: Event<'_>| {
            if let Event::Rows { bytes: more, .. } = event {
                bytes.fetch_add(more, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= 2000 {
                            break;
                        }
                        going.ready(number, line(number));
                        ended.fetch_add(u64::from(going.settle(&observe).unwrap()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        assert_eq!(bytes.load(Ordering::Relaxed), 100, "all bytes of the part were told, once");
        assert_eq!(noted(dir.path()), (0..2000).collect::<Vec<_>>());
    }
}
