//! `harness score --predictions`: a file of predictions in the form of a benchmark's authors, without a run.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::exit::{self, Failure};
use super::print;
use crate::benchmark::{self, SubmissionAdded, SubmissionScorer};
use crate::config::{BenchmarkConfig, LimitBy, WindowRule, Wording};
use crate::types::{Profile, Window};

/// Problems that are told before giving up.
const TOLD: usize = 10;

/// What to score.
pub(super) struct Predictions<'a> {
    pub(super) benchmark: &'a str,
    pub(super) file: &'a Path,
    /// The gold; the dev split in the benchmark's data folder where it is not named.
    pub(super) gold: Option<&'a Path>,
    /// Whether scores are printed as JSON in place of tables.
    pub(super) json: bool,
}

fn failure(message: impl std::fmt::Display) -> Failure {
    Failure::new(exit::USAGE, format!("error: {message}"))
}

/// Lines that are not blank, with their numbers.
struct Reading<'a> {
    path: &'a Path,
    lines: Lines<BufReader<File>>,
    number: u64,
}

impl<'a> Reading<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|e| failure(format!("{}: {e}", path.display())))?;
        Ok(Self { path, lines: BufReader::with_capacity(1 << 20, file).lines(), number: 0 })
    }

    fn next(&mut self) -> Result<Option<String>, Failure> {
        for line in self.lines.by_ref() {
            self.number += 1;
            let line = line.map_err(|e| failure(format!("{}:{}: {e}", self.path.display(), self.number)))?;
            if !line.trim().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    fn at(&self, problem: &str) -> String {
        format!("{}:{}: {problem}", self.path.display(), self.number)
    }
}

/// Scores the file and prints its tables.
pub(super) fn score(asked: &Predictions<'_>) -> Result<u8, Failure> {
    let usual =
        ["data/dev.jsonl", "dev.jsonl"].map(|name| PathBuf::from("data").join(asked.benchmark).join(name));
    let found = || usual.iter().find(|path| path.is_file()).map(PathBuf::as_path);
    let scorer = benchmark::submission_scorer(asked.benchmark).map_err(failure)?;
    let gold = asked.gold.or_else(found).ok_or_else(|| {
        failure(format!("{}: no such file; name the gold rows with --data", usual[0].display()))
    })?;
    let ordered = in_order(asked, gold, scorer)?;
    let sorted = ordered.is_none();
    let scores = match ordered {
        Some(scorer) => scorer.finish(),
        None => by_id(asked, gold)?.finish(),
    };
    for warning in &scores.warnings {
        eprintln!("warning: {warning}");
    }
    if asked.json {
        let text = serde_json::to_string_pretty(&scores).map_err(failure)?;
        print(&format!("{text}\n"))?;
        return Ok(exit::DONE);
    }
    let stem = gold.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let config = section(asked.benchmark, gold);
    let wording = benchmark::harness_wording(asked.benchmark).map_err(failure)?;
    let built = benchmark::build(&config, wording, Window::Whole).map_err(failure)?;
    let published = benchmark::published(asked.benchmark).map_err(failure)?;
    let mut tables = built.tables(&scores, &published, None);
    if let Some(first) = tables.first_mut() {
        let order = if sorted { "; predictions were put in the order of the gold" } else { "" };
        let of =
            format!("{} against the gold of {} (split {stem}){order}", asked.file.display(), gold.display());
        first.notes.insert(0, of);
        first.notes.retain(|note| !note.starts_with("rows that could not be read"));
    }
    print(&tables.iter().map(crate::report::table::Table::markdown).collect::<Vec<_>>().join("\n"))?;
    Ok(exit::DONE)
}

/// The section that tables are made for.
fn section(name: &str, gold: &Path) -> BenchmarkConfig {
    BenchmarkConfig {
        label: name.to_owned(),
        name: name.to_owned(),
        data: gold.to_owned(),
        media: None,
        conditions: Vec::new(),
        languages: Vec::new(),
        profile: Profile::Official,
        limit: None,
        limit_by: LimitBy::First,
        prompt: Wording::Harness,
        allow_other_data: true,
        strip_output: true,
        metrics: Vec::new(),
        fields: std::collections::BTreeMap::new(),
        windows: WindowRule::Model,
        max_candidates: None,
        shots: 0,
        variant: None,
        categories_file: None,
        categories: None,
        belebele: None,
        system: None,
    }
}

/// Problems, told together.
#[derive(Default)]
struct Problems(Vec<String>, u64);

impl Problems {
    fn add(&mut self, problem: &str) {
        self.1 += 1;
        if self.0.len() < TOLD {
            self.0.push(format!("error: {problem}"));
        }
    }

    fn check(mut self) -> Result<(), Failure> {
        if self.1 == 0 {
            return Ok(());
        }
        let more = self.1 - self.0.len() as u64;
        if more > 0 {
            self.0.push(format!("error: and {more} more; nothing was scored"));
        }
        Err(Failure::new(exit::USAGE, self.0.join("\n")))
    }
}

/// Both files line by line. `None` where they are not in one order.
fn in_order(
    asked: &Predictions<'_>,
    gold: &Path,
    mut scorer: Box<dyn SubmissionScorer>,
) -> Result<Option<Box<dyn SubmissionScorer>>, Failure> {
    let (mut rows, mut predictions) = (Reading::open(gold)?, Reading::open(asked.file)?);
    let mut problems = Problems::default();
    loop {
        match (rows.next()?, predictions.next()?) {
            (None, None) => break,
            (Some(row), Some(prediction)) => match scorer.add(&row, &prediction) {
                Ok(SubmissionAdded::Scored) => {}
                Ok(SubmissionAdded::OtherId) => return Ok(None),
                Err(problem) => problems.add(&predictions.at(&problem)),
            },
            _ => return Ok(None),
        }
    }
    problems.check()?;
    if rows.number == 0 {
        return Err(failure(format!("{}: holds no rows", gold.display())));
    }
    Ok(Some(scorer))
}

/// The predictions by their ids, in the order of the gold. Takes some 40 bytes a prediction.
fn by_id(asked: &Predictions<'_>, gold: &Path) -> Result<Box<dyn SubmissionScorer>, Failure> {
    let mut scorer = benchmark::submission_scorer(asked.benchmark).map_err(failure)?;
    let mut problems = Problems::default();
    let io = |e: std::io::Error| failure(format!("{}: {e}", asked.file.display()));
    let mut places: HashMap<i64, (u64, u32)> = HashMap::new();
    let mut reader = BufReader::with_capacity(1 << 20, File::open(asked.file).map_err(io)?);
    let (mut at, mut line, mut number) = (0u64, String::new(), 0u64);
    loop {
        line.clear();
        let length = reader.read_line(&mut line).map_err(io)?;
        if length == 0 {
            break;
        }
        number += 1;
        let place = (at, length as u32);
        at += length as u64;
        if line.trim().is_empty() {
            continue;
        }
        let shown = asked.file.display();
        match scorer.id(&line) {
            Ok(id) if places.insert(id, place).is_some() => {
                problems.add(&format!("{shown}:{number}: there are two predictions of id {id}"));
            }
            Ok(_) => {}
            Err(problem) => problems.add(&format!("{shown}:{number}: {problem}")),
        }
    }
    problems.check()?;
    let mut problems = Problems::default();
    let mut rows = Reading::open(gold)?;
    let mut file = reader.into_inner();
    while let Some(row) = rows.next()? {
        let id = scorer.gold_id(&row).map_err(|problem| failure(rows.at(&problem)))?;
        let Some((at, length)) = places.remove(&id) else {
            problems.add(&format!("{}: there is no prediction of id {id}", asked.file.display()));
            continue;
        };
        let mut line = vec![0; length as usize];
        file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut line)).map_err(io)?;
        let line = String::from_utf8_lossy(&line);
        if let Err(problem) = scorer.add(&row, &line) {
            problems.add(&format!("{}: {problem}", asked.file.display()));
        }
    }
    let mut left: Vec<i64> = places.into_keys().collect();
    left.sort_unstable();
    for id in left {
        problems.add(&format!("{}: id {id} is not among the gold rows", asked.file.display()));
    }
    problems.check()?;
    Ok(scorer)
}
