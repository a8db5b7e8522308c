//! `harness prepare cfever`: the pages and sentences that claims are shown with.

use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use super::exit::{self, Failure};
use super::print;
use super::progress::{EVERY, duration, style};
use crate::prepare::evidence::{EvidenceAsked, EvidenceEvent, Retrieval, Settings, prepare_evidence};

/// The benchmark whose claims these are.
pub(super) const BENCHMARK: &str = crate::benchmark::cfever::NAME;

/// Where pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RetrievalArg {
    /// The pages that the authors published.
    Published,
    /// Our own search over all pages: titles that stand in the claim, and BM25.
    Own,
}

/// What only claims with evidence have.
#[derive(Debug, Default, Args)]
pub(super) struct EvidenceArgs {
    /// cfever: where the pages for a claim come from [default: published, where these are in the data folder].
    #[arg(long, value_enum, value_name = "FROM")]
    retrieval: Option<RetrievalArg>,
    /// cfever: pages a claim [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pages: Option<u32>,
    /// cfever: sentences a claim that the rows hold; a config takes as many of them as it says [default: 50].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    sentences: Option<u32>,
    /// cfever: worked examples, drawn from the train split [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=32))]
    shots: Option<u32>,
    /// cfever: the seed of that draw [default: 443].
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// cfever: rows without sentences, for the condition `claim_only` alone; no pages of Wikipedia are needed.
    #[arg(long, conflicts_with_all = ["retrieval", "pages", "sentences"])]
    no_evidence: bool,
}

impl EvidenceArgs {
    /// A key that is given, for benchmarks that have no use for it.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--retrieval", self.retrieval.is_some()),
            ("--pages", self.pages.is_some()),
            ("--sentences", self.sentences.is_some()),
            ("--shots", self.shots.is_some()),
            ("--seed", self.seed.is_some()),
            ("--no-evidence", self.no_evidence),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(key, _)| key)
    }
}

/// `harness prepare cfever`
pub(super) fn prepare(
    args: &EvidenceArgs,
    data: Option<PathBuf>,
    to: Option<PathBuf>,
    jobs: NonZeroUsize,
) -> Result<u8, Failure> {
    let asked = EvidenceAsked {
        data: data.unwrap_or_else(|| PathBuf::from("data").join(BENCHMARK)),
        to,
        retrieval: args.retrieval.map(|from| match from {
            RetrievalArg::Published => Retrieval::Published,
            RetrievalArg::Own => Retrieval::Own,
        }),
        settings: Settings {
            pages: args.pages.map_or(10, |n| n as usize),
            sentences: args.sentences.map_or(50, |n| n as usize),
            shots: args.shots.map_or(0, |n| n as usize),
            seed: args.seed.unwrap_or(443),
        },
        bare: args.no_evidence,
        jobs,
    };
    let progress = Progress(Mutex::new(None));
    let done = prepare_evidence(&asked, &|event| progress.on(event));
    progress.finish();
    let done = done?;
    print(&format!("{}\n", done.lines.join("\n")))?;
    for warning in &done.warnings {
        eprintln!("warning: {warning}");
    }
    for problem in &done.problems {
        eprintln!("{problem}");
    }
    let more = done.count - done.problems.len() as u64;
    if more > 0 {
        eprintln!("and {more} more");
    }
    for rows in &done.rows {
        print(&format!("name it in a config: data = \"{}\"\n", rows.display()))?;
    }
    Ok(if done.count > 0 { exit::INCOMPLETE } else { exit::DONE })
}

/// A bar a stage on a terminal, else a plain line every few seconds.
struct Progress(Mutex<Option<Stage>>);

struct Stage {
    name: &'static str,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    begun: Instant,
    last: Instant,
}

impl Progress {
    fn on(&self, event: EvidenceEvent) {
        let mut stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            EvidenceEvent::Begins(name, total) => {
                if let Some(stage) = stage.take() {
                    stage.end();
                }
                let bar = std::io::stderr().is_terminal().then(|| {
                    let bar = ProgressBar::new(total);
                    bar.set_style(style("{msg:10} {bar:30} {percent}% left {eta}"));
                    bar.set_message(name);
                    bar
                });
                let now = Instant::now();
                *stage = Some(Stage { name, total, done: 0, bar, begun: now, last: now });
            }
            EvidenceEvent::Done(units) => {
                let Some(stage) = stage.as_mut() else { return };
                stage.done += units;
                if let Some(bar) = &stage.bar {
                    bar.set_position(stage.done);
                } else if stage.last.elapsed() >= EVERY {
                    stage.last = Instant::now();
                    eprintln!("{}: {} %", stage.name, stage.done * 100 / stage.total.max(1));
                }
            }
        }
    }

    fn finish(&self) {
        if let Some(stage) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            stage.end();
        }
    }
}

impl Stage {
    fn end(self) {
        let line = format!("{}: {}", self.name, duration(self.begun.elapsed().as_secs_f64()));
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                bar.finish_and_clear();
            }
            None => eprintln!("{line}"),
        }
    }
}
