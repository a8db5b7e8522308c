//! Progress: a bar a benchmark on a terminal, else a plain line every few seconds.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::run::generate::{Event, Observer};
use crate::types::Outcome;

/// How often a plain line is written.
const EVERY: Duration = Duration::from_secs(5);

/// Sentences on failures that are shown a benchmark; the journal has all.
const SHOWN_FAILURES: u64 = 5;

struct Line {
    label: String,
    total: u64,
    done: u64,
    here: u64,
    failures: u64,
    first: Option<Instant>,
    outcomes: BTreeMap<Outcome, u64>,
    bar: Option<ProgressBar>,
}

/// What the user sees of a generate stage.
pub(super) struct Progress {
    lines: Vec<Line>,
    bars: Option<MultiProgress>,
    last: Instant,
}

impl Progress {
    /// Progress over sections: label and total, and what is answered already.
    pub(super) fn new(sections: impl Iterator<Item = ((String, u64), u64)>) -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        let sections = sections.collect::<Vec<_>>();
        let width = sections.iter().map(|((label, _), _)| label.chars().count()).max().unwrap_or_default();
        let lines = sections
            .into_iter()
            .map(|((label, total), done)| {
                let bar = bars.as_ref().map(|bars| {
                    let bar = bars.add(ProgressBar::new(total).with_position(done));
                    let style = ProgressStyle::with_template(
                        "{prefix} {bar:30} {pos}/{len} {per_sec} left {eta} {msg}",
                    );
                    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                    bar.set_prefix(format!("{label:width$}"));
                    bar.reset_eta();
                    bar
                });
                Line { label, total, done, here: 0, failures: 0, first: None, outcomes: BTreeMap::new(), bar }
            })
            .collect();
        Self { lines, bars, last: Instant::now() }
    }

    /// The last state of every section.
    pub(super) fn finish(&mut self) {
        for line in &self.lines {
            if let Some(bar) = &line.bar {
                bar.abandon();
            } else if line.here > 0 {
                eprintln!("{}", line.plain());
            }
        }
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

impl Line {
    fn counts(&self) -> String {
        let counts = self.outcomes.iter().map(|(outcome, n)| format!("{} {n}", outcome.as_str()));
        counts.collect::<Vec<_>>().join(", ")
    }

    fn plain(&self) -> String {
        let share = 100 * self.done / self.total.max(1);
        let seconds = self.first.map_or(0.0, |first| first.elapsed().as_secs_f64());
        let rate = if seconds > 0.0 { self.here as f64 / seconds } else { 0.0 };
        let left = self.total.saturating_sub(self.done);
        let eta = match left {
            0 => String::new(),
            _ if rate > 0.0 => format!(", {} left", duration(left as f64 / rate)),
            _ => ", time left unknown".to_owned(),
        };
        format!(
            "{}: {}/{} ({share} %), {rate:.1}/s{eta}; {}",
            self.label,
            self.done,
            self.total,
            self.counts()
        )
    }
}

fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

impl Observer for Progress {
    fn on(&mut self, event: Event) {
        let Event::Response { section, outcome, error } = event;
        let Some(line) = self.lines.get_mut(section) else { return };
        line.first.get_or_insert_with(Instant::now);
        line.done += 1;
        line.here += 1;
        *line.outcomes.entry(outcome).or_default() += 1;
        if let Some(bar) = &line.bar {
            bar.set_position(line.done);
            bar.set_message(line.counts());
        }
        let mut say = None;
        if !outcome.is_answer() {
            line.failures += 1;
            if line.failures <= SHOWN_FAILURES {
                say = Some(format!(
                    "{} in {}: {}",
                    outcome.as_str(),
                    line.label,
                    error.unwrap_or_else(|| "no reason was given".to_owned())
                ));
            } else if line.failures == SHOWN_FAILURES + 1 {
                say =
                    Some(format!("{}: further failures are not shown; responses.jsonl has all", line.label));
            }
        }
        let plain = line.bar.is_none() && self.last.elapsed() >= EVERY;
        let text = plain.then(|| line.plain());
        if let Some(say) = say {
            self.say(&say);
        }
        if let Some(text) = text {
            self.last = Instant::now();
            eprintln!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(4.4), "4 s");
        assert_eq!(duration(64.0), "1 min 04 s");
        assert_eq!(duration(7261.0), "2 h 01 min");
    }

    #[test]
    fn a_line_counts_what_was_done_before() {
        let mut progress = Progress::new([(("demo".to_owned(), 4), 1)].into_iter());
        progress.on(Event::Response { section: 0, outcome: Outcome::Ok, error: None });
        let line = progress.lines[0].plain();
        assert!(line.starts_with("demo: 2/4 (50 %)") && line.ends_with("ok 1"), "{line}");
    }
}
