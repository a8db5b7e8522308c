//! Progress: a bar a benchmark on a terminal, else a plain line every few seconds.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::run::cost::Account;
use crate::run::generate::{Event, Observer};
use crate::types::{Outcome, Usage};

/// How often a plain line is written.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// How often where nothing happens.
const EVERY_QUIET: Duration = Duration::from_secs(30);

/// How often the counts of a bar are made.
const DRAWN: Duration = Duration::from_millis(50);

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
    shown: Option<Instant>,
}

/// Says lines above the bars, where there are bars; shared by those who have something to say beside a stage.
#[derive(Clone, Default)]
pub(super) struct Voice(Arc<Mutex<Option<MultiProgress>>>);

impl Voice {
    /// Says it.
    pub(super) fn say(&self, text: &str) {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(bars) => {
                let _ = bars.println(text);
            }
            None => eprintln!("{text}"),
        }
    }
}

/// What the user sees of a generate stage.
pub(super) struct Progress {
    lines: Vec<Line>,
    bars: Option<MultiProgress>,
    /// The bar that holds no bar, but what the model says of itself.
    foot: Option<ProgressBar>,
    account: Account,
    /// What stands at the foot.
    status: String,
    /// The section that was answered in last.
    current: usize,
    last: Instant,
    /// What the last plain line said, without its rates.
    said: (u64, String),
    /// The journal, as people call it.
    journal: String,
}

impl Progress {
    /// Progress over sections: label and total, and what is answered already.
    pub(super) fn new(sections: impl Iterator<Item = ((String, u64), u64)>, account: Account) -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        let sections = sections.collect::<Vec<_>>();
        let width = sections.iter().map(|((label, _), _)| label.chars().count()).max().unwrap_or_default();
        let lines = sections
            .into_iter()
            .map(|((label, total), done)| {
                let bar = bars.as_ref().map(|bars| {
                    let bar = bars.add(ProgressBar::new(total).with_position(done));
                    bar.set_style(style("{prefix} {bar:30} {pos}/{len} {per_sec} left {eta} {msg}"));
                    bar.set_prefix(format!("{label:width$}"));
                    bar.reset_eta();
                    bar
                });
                Line {
                    label,
                    total,
                    done,
                    here: 0,
                    failures: 0,
                    first: None,
                    outcomes: BTreeMap::new(),
                    bar,
                    shown: None,
                }
            })
            .collect();
        let foot = bars.as_ref().map(|bars| {
            let foot = bars.add(ProgressBar::new_spinner());
            foot.set_style(style("{msg}"));
            foot
        });
        Self {
            lines,
            bars,
            foot,
            account,
            status: String::new(),
            current: 0,
            last: Instant::now(),
            said: (0, String::new()),
            journal: "responses.jsonl".to_owned(),
        }
    }

    /// From now on a voice speaks above these bars.
    pub(super) fn lend(&self, voice: &Voice) {
        voice.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.bars);
    }

    /// The last state of every section.
    pub(super) fn finish(&mut self) {
        for line in &self.lines {
            if let Some(bar) = &line.bar {
                bar.abandon();
            } else if line.here > 0 {
                eprintln!("{}{}", line.plain(), self.foot_text());
            }
        }
        if let Some(foot) = &self.foot {
            foot.abandon();
        }
    }

    /// The foot as the end of a plain line.
    fn foot_text(&self) -> String {
        if self.status.is_empty() { String::new() } else { format!("; {}", self.status) }
    }

    /// A plain line now and then: every few seconds while something happens, else less often.
    fn plain(&mut self) {
        let since = self.last.elapsed();
        if self.bars.is_some() || since < EVERY {
            return;
        }
        let Some(line) = self.lines.get(self.current) else { return };
        let done = self.lines.iter().map(|line| line.done).sum();
        // A wait is told by its seconds, which change all the time.
        let still: String = self.status.chars().filter(|c| !c.is_ascii_digit()).collect();
        let news = (done, still);
        if news == self.said && since < EVERY_QUIET {
            return;
        }
        eprintln!("{}{}", line.plain(), self.foot_text());
        self.last = Instant::now();
        self.said = news;
    }

    /// Progress of a stage that writes another journal than that of responses.
    pub(super) fn journaled_in(self, journal: String) -> Self {
        Self { journal, ..self }
    }

    fn tick(&mut self, status: Option<String>, spent: &Usage) {
        let mut parts: Vec<String> = status.into_iter().collect();
        let Account { price, before, .. } = self.account;
        let cost = self.account.cost(spent);
        let spent = self.account.own(spent);
        if spent.prompt_tokens + spent.completion_tokens > 0 {
            let (input, output) = (count(spent.prompt_tokens), count(spent.completion_tokens));
            parts.push(format!("{input} tokens in, {output} out"));
        }
        if price.is_some() || before > 0.0 {
            let most = price.and_then(|price| price.max_cost).map(|most| format!(" of {most}"));
            let before =
                if before > 0.0 { format!(" ({before:.4} of it for transcripts)") } else { String::new() };
            parts.push(format!("cost {cost:.4}{}{before}", most.unwrap_or_default()));
        }
        self.status = parts.join("; ");
        if let Some(foot) = &self.foot {
            foot.set_message(self.status.clone());
        }
        for bar in self.lines.iter().filter_map(|line| line.bar.as_ref()) {
            bar.tick();
        }
        self.plain();
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
        let (rate, eta) = pace(self.here, self.total.saturating_sub(self.done), self.first);
        format!(
            "{}: {}/{} ({share} %), {rate:.1}/s{eta}; {}",
            self.label,
            self.done,
            self.total,
            self.counts()
        )
    }
}

/// How fast work goes, in units a second, and when it ends, as the rest of a sentence: `now` units were done since
/// `begun`, and `left` are to be done.
pub(super) fn pace(now: u64, left: u64, begun: Option<Instant>) -> (f64, String) {
    let seconds = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
    let rate = if seconds > 0.0 { now as f64 / seconds } else { 0.0 };
    let end = match left {
        0 => String::new(),
        _ if rate > 0.0 => format!(", {} left", duration(left as f64 / rate)),
        _ => ", time left unknown".to_owned(),
    };
    (rate, end)
}

/// A bar's style.
pub(super) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// `1 request`, `2 requests`.
pub(super) fn plural(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

impl Observer for Progress {
    fn on(&mut self, event: Event) {
        match event {
            Event::Tick { status, spent } => self.tick(status, &spent),
            Event::Response { section, outcome, error } => self.response(section, outcome, error),
        }
    }
}

impl Progress {
    fn response(&mut self, section: usize, outcome: Outcome, error: Option<String>) {
        let Some(line) = self.lines.get_mut(section) else { return };
        self.current = section;
        line.first.get_or_insert_with(Instant::now);
        line.done += 1;
        line.here += 1;
        *line.outcomes.entry(outcome).or_default() += 1;
        if let Some(bar) = &line.bar {
            bar.set_position(line.done);
            // Texts are drawn at most twenty times a second, and made as often.
            if line.shown.is_none_or(|shown| shown.elapsed() >= DRAWN) || line.done >= line.total {
                line.shown = Some(Instant::now());
                bar.set_message(line.counts());
            }
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
                let (label, journal) = (&line.label, &self.journal);
                say = Some(format!("{label}: further failures are not shown; {journal} has all"));
            }
        }
        if let Some(say) = say {
            self.say(&say);
        }
    }
}

/// A number of tokens, short.
fn count(tokens: u64) -> String {
    match tokens {
        0..=9_999 => tokens.to_string(),
        10_000..=9_999_999 => format!("{:.1} k", tokens as f64 / 1e3),
        _ => format!("{:.1} M", tokens as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::cost::Price;

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(4.4), "4 s");
        assert_eq!(duration(64.0), "1 min 04 s");
        assert_eq!(duration(7261.0), "2 h 01 min");
    }

    #[test]
    fn a_line_counts_what_was_done_before() {
        let mut progress = Progress::new([(("demo".to_owned(), 4), 1)].into_iter(), Account::default());
        progress.on(Event::Response { section: 0, outcome: Outcome::Ok, error: None });
        let line = progress.lines[0].plain();
        assert!(line.starts_with("demo: 2/4 (50 %)") && line.ends_with("ok 1"), "{line}");
        let price = Price { input_per_million: 1.0, output_per_million: 2.0, max_cost: Some(3.0) };
        progress.account = Account::from(Some(price));
        let spent = Usage { prompt_tokens: 20_000, audio_tokens: 0, completion_tokens: 500 };
        progress.tick(Some("3 retries".to_owned()), &spent);
        assert_eq!(progress.status, "3 retries; 20.0 k tokens in, 500 out; cost 0.0210 of 3");
        let others = Usage { completion_tokens: 500, ..Usage::default() };
        progress.account = Account { before: 0.5, others, ..progress.account };
        progress.tick(None, &spent);
        assert_eq!(
            progress.status,
            "20.0 k tokens in, 0 out; cost 0.5200 of 3 (0.5000 of it for transcripts)"
        );
    }
}
