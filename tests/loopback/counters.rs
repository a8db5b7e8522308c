//! What the server saw: counts by path and status, and the history of each content.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde::Serialize;

/// What the server saw so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Counters {
    /// Requests for an answer.
    pub(crate) requests: u64,
    /// Requests by path and by status, or by the fault where there was no status.
    pub(crate) by_path: BTreeMap<String, BTreeMap<String, u64>>,
    /// Faults by kind.
    pub(crate) faults: BTreeMap<String, u64>,
    /// Distinct contents that were asked.
    pub(crate) distinct: u64,
    /// Distinct contents that were answered: right, in the right form and to the end.
    pub(crate) answered: u64,
    /// Contents that were answered more than once: work that was paid for again.
    pub(crate) repeats: u64,
    /// Attempts that came before the time that a 429 had asked for.
    pub(crate) early: u64,
    /// Requests that ended before their response: the client went away, or the server went down.
    pub(crate) gone: u64,
    /// Requests under way now.
    pub(crate) in_flight: u64,
    /// The most requests under way at once.
    pub(crate) max_in_flight: u64,
    /// Connections accepted.
    pub(crate) connections: u64,
    /// Bytes of request bodies.
    pub(crate) bytes_in: u64,
    /// Bytes of responses.
    pub(crate) bytes_out: u64,
    /// Requests that held media.
    pub(crate) with_media: u64,
    /// Bytes of media, decoded.
    pub(crate) media_bytes: u64,
    /// Media whose SHA-256 is in the list of `--originals`; 0 without a list.
    pub(crate) media_original: u64,
    /// Media whose SHA-256 is not in it.
    pub(crate) media_other: u64,
    /// Seconds from the first request to the last.
    pub(crate) seconds: f64,
    /// CPU seconds of the whole process, where the system says.
    pub(crate) cpu_seconds: Option<f64>,
}

/// The history of one content.
#[derive(Debug, Default)]
struct History {
    attempts: u32,
    answers: u32,
    not_before: Option<Instant>,
}

/// The server's memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The counts.
    pub(crate) counters: Counters,
    contents: HashMap<u64, History>,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// Clocks and timers of both sides may differ by so much.
const TOLERANCE: Duration = Duration::from_millis(5);

impl Memory {
    /// A request for an answer arrived whole; returns how many there were.
    pub(crate) fn arrival(&mut self, bytes: u64) -> u64 {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.counters.bytes_in += bytes;
        self.counters.requests += 1;
        self.counters.requests
    }

    /// The number of this attempt at a content, from 0.
    pub(crate) fn attempt(&mut self, key: u64) -> u32 {
        let history = self.contents.entry(key).or_insert_with(|| {
            self.counters.distinct += 1;
            History::default()
        });
        if history.not_before.take().is_some_and(|at| Instant::now() + TOLERANCE < at) {
            self.counters.early += 1;
        }
        let attempt = history.attempts;
        history.attempts += 1;
        attempt
    }

    /// A content was told to come back later.
    pub(crate) fn wait(&mut self, key: u64, wait: Duration) {
        if let Some(history) = self.contents.get_mut(&key) {
            history.not_before = Instant::now().checked_add(wait);
        }
    }

    /// A content was answered.
    pub(crate) fn answered(&mut self, key: u64) {
        if let Some(history) = self.contents.get_mut(&key) {
            history.answers += 1;
            match history.answers {
                1 => self.counters.answered += 1,
                2 => self.counters.repeats += 1,
                _ => {}
            }
        }
    }

    /// A request ended before its response.
    pub(crate) fn gone(&mut self, path: &str) {
        self.counters.gone += 1;
        self.ended(path, "gone".to_owned());
    }

    /// How a request ended.
    pub(crate) fn ended(&mut self, path: &str, status: String) {
        let by_path = &mut self.counters.by_path;
        if !by_path.contains_key(path) {
            by_path.insert(path.to_owned(), BTreeMap::new());
        }
        if let Some(statuses) = by_path.get_mut(path) {
            *statuses.entry(status).or_default() += 1;
        }
    }

    /// The counts now.
    pub(crate) fn snapshot(&self) -> Counters {
        let seconds = self.first.zip(self.last).map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        Counters { seconds, cpu_seconds: cpu_seconds(), ..self.counters.clone() }
    }
}

/// CPU seconds of this process, user and system, in steps of 10 ms; Linux only.
pub(crate) fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; user and system time are the 14th and 15th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}
