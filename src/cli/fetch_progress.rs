//! Progress of downloads: a bar for all and one for each file under way on a terminal, else a plain line every few
//! seconds.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar};

use super::progress::{EVERY, pace, style};
use crate::hub::{Event, Observer};
use crate::types::size;

/// What the user sees of downloads.
pub(super) struct FetchProgress {
    bars: Option<MultiProgress>,
    state: Mutex<State>,
}

struct State {
    files: HashMap<String, FileState>,
    /// Files in all, and their bytes as far as known.
    total: (usize, u64),
    ended: usize,
    /// Bytes that came now.
    came: u64,
    /// Bytes that are there.
    there: u64,
    begun: Instant,
    last: Instant,
    bar: Option<ProgressBar>,
}

struct FileState {
    there: u64,
    bar: Option<ProgressBar>,
}

impl FetchProgress {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            bars: std::io::stderr().is_terminal().then(MultiProgress::new),
            state: Mutex::new(State {
                files: HashMap::new(),
                total: (0, 0),
                ended: 0,
                came: 0,
                there: 0,
                begun: now,
                last: now,
                bar: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work begins: so many files of so many bytes.
    pub(super) fn begin(&self, files: usize, bytes: u64) {
        let mut state = self.state();
        (state.total, state.begun, state.last) = ((files, bytes), Instant::now(), Instant::now());
        state.bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new(bytes));
            bar.set_style(style(
                "{prefix} {bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} left {eta}",
            ));
            bar.set_prefix("all");
            bar
        });
    }

    /// The last state.
    pub(super) fn finish(&self) {
        let state = self.state();
        for bar in state.files.values().filter_map(|file| file.bar.as_ref()) {
            bar.finish_and_clear();
        }
        match &state.bar {
            Some(bar) => bar.finish_and_clear(),
            None if state.came > 0 => eprintln!("{}", state.plain()),
            None => {}
        }
    }

    /// Bytes that came.
    pub(super) fn came(&self) -> u64 {
        self.state().came
    }

    fn say(&self, text: &str) {
        match &self.bars {
            Some(bars) => {
                let _ = bars.println(text);
            }
            None => eprintln!("{text}"),
        }
    }
}

impl State {
    fn plain(&self) -> String {
        let (files, bytes) = self.total;
        let (rate, left) = pace(self.came, bytes.saturating_sub(self.there), Some(self.begun));
        format!(
            "fetched {} of {} ({} of {files} files), {}/s{left}",
            size(self.there),
            size(bytes.max(self.there)),
            self.ended,
            size(rate as u64)
        )
    }

    /// Bytes of a file that have come to be there, or were there.
    fn add(&mut self, file: &str, bytes: u64) {
        self.there += bytes;
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
        if let Some(file) = self.files.get_mut(file) {
            file.there += bytes;
            if let Some(bar) = &file.bar {
                bar.inc(bytes);
            }
        }
    }

    /// Bytes of a file that are no longer there.
    fn take(&mut self, file: &str, bytes: u64) {
        self.there = self.there.saturating_sub(bytes);
        if let Some(bar) = &self.bar {
            bar.set_position(self.there);
        }
        if let Some(file) = self.files.get_mut(file) {
            file.there = file.there.saturating_sub(bytes);
            if let Some(bar) = &file.bar {
                bar.set_position(file.there);
            }
        }
    }
}

impl Observer for FetchProgress {
    fn on(&self, file: &str, event: Event<'_>) {
        let mut state = self.state();
        match event {
            Event::Begin { bytes, have } => {
                let bar =
                    self.bars.as_ref().zip(bytes).filter(|(_, bytes)| *bytes > have).map(|(bars, bytes)| {
                        let bar = bars.add(ProgressBar::new(bytes));
                        bar.set_style(style("  {bar:20} {decimal_bytes}/{decimal_total_bytes} {msg}"));
                        bar.set_message(file.to_owned());
                        bar
                    });
                state.files.insert(file.to_owned(), FileState { there: 0, bar });
                state.add(file, have);
                if let Some(bar) = &state.bar {
                    bar.reset_eta();
                }
            }
            Event::Bytes(bytes) => {
                state.came += bytes;
                state.add(file, bytes);
                if self.bars.is_none() && state.last.elapsed() >= EVERY {
                    state.last = Instant::now();
                    let line = state.plain();
                    drop(state);
                    self.say(&line);
                }
            }
            Event::Discard(bytes) => state.take(file, bytes),
            Event::Note(text) => {
                drop(state);
                self.say(&format!("{file}: {text}"));
            }
            Event::Done | Event::Failed => {
                state.ended += usize::from(matches!(event, Event::Done));
                if let Some(bar) = state.files.remove(file).and_then(|file| file.bar) {
                    bar.finish_and_clear();
                }
            }
        }
    }
}
