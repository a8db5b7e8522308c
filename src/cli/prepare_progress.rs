//! Progress of preparing: a bar on a terminal, else a plain line every few seconds.

use std::io::IsTerminal as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use indicatif::ProgressBar;

use super::progress::{EVERY, pace, style};
use crate::prepare::Event;
use crate::types::size;

/// What the user sees.
pub(super) struct PrepareProgress {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    /// Bytes of published files, in all, done, and done now.
    total: u64,
    done: u64,
    now: u64,
    rows: u64,
    begun: Instant,
    last: Instant,
}

impl PrepareProgress {
    pub(super) fn new(total: u64) -> Self {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            let template =
                "{bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} left {eta} {msg}";
            bar.set_style(style(template));
            bar
        });
        Self { bar, state: Mutex::new(State { total, done: 0, now: 0, rows: 0, begun: now, last: now }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn on(&self, event: Event<'_>) {
        match event {
            Event::Rows { rows, bytes, now } => {
                let mut state = self.state();
                state.done += bytes;
                state.rows += rows;
                if now {
                    state.now += bytes;
                }
                if let Some(bar) = &self.bar {
                    bar.set_position(state.done);
                    bar.set_message(format!("{} rows", state.rows));
                    if !now {
                        bar.reset_eta();
                    }
                } else if state.last.elapsed() >= EVERY {
                    state.last = Instant::now();
                    eprintln!("{}", state.plain());
                }
            }
            Event::Set { name, counts } => {
                let line = format!("{name}: {} rows, {} files", counts.rows, counts.files);
                match &self.bar {
                    Some(bar) => bar.println(line),
                    None => eprintln!("{line}"),
                }
            }
        }
    }

    /// Bytes that were worked on now, and for how long.
    pub(super) fn finish(&self) -> (u64, f64) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let state = self.state();
        (state.now, state.begun.elapsed().as_secs_f64())
    }
}

impl State {
    fn plain(&self) -> String {
        let (rate, left) = pace(self.now, self.total.saturating_sub(self.done), Some(self.begun));
        format!(
            "prepared {} of {} ({} rows), {}/s{left}",
            size(self.done),
            size(self.total),
            self.rows,
            size(rate as u64)
        )
    }
}
