//! `harness score --predictions`: a file of predictions in the form of a benchmark's authors, without a run.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::exit::{self, Failure};
use super::print;
use crate::benchmark::{self, SubmissionAdded, SubmissionFault, SubmissionScorer};
use crate::config::{BenchmarkConfig, LimitBy, WindowRule, Wording};
use crate::types::{Profile, Window};

/// Problems that are told before giving up.
const TOLD: usize = 10;
/// Bytes of gold rows and predictions that are held at a time where the two files are not in one order.
const TOGETHER: usize = 16 << 20;
/// Bytes that are read at once from a file of predictions in another order.
const BLOCK: u64 = 1 << 20;
/// Bytes between two predictions that cost less to read than to read a second time.
const NEAR: u64 = 16 << 10;

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

/// A line that is not blank.
struct Line<'a> {
    text: &'a str,
    number: u64,
    /// Where it begins.
    at: u64,
}

/// Lines that are not blank, one after the other in one place.
struct Reading<'a> {
    path: &'a Path,
    file: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    at: u64,
}

impl<'a> Reading<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|e| failure(format!("{}: {e}", path.display())))?;
        let file = BufReader::with_capacity(1 << 20, file);
        Ok(Self { path, file, line: Vec::new(), number: 0, at: 0 })
    }

    fn next(&mut self) -> Result<Option<Line<'_>>, Failure> {
        let (path, mut number) = (self.path, self.number);
        loop {
            self.at += self.line.len() as u64;
            self.line.clear();
            number += 1;
            let length = self.file.read_until(b'\n', &mut self.line);
            if length.map_err(|e| failure(at(path, number, &e.to_string())))? == 0 {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        self.number = number;
        match std::str::from_utf8(&self.line) {
            // A file may begin with a byte order mark, of three bytes.
            Ok(text) => Ok(Some(match text.strip_prefix('\u{feff}') {
                Some(text) if self.at == 0 => Line { text, number, at: 3 },
                _ => Line { text, number, at: self.at },
            })),
            Err(_) => Err(failure(at(path, number, "not valid UTF-8: save the file as UTF-8"))),
        }
    }
}

fn at(path: &Path, number: u64, problem: &str) -> String {
    format!("{}:{number}: {problem}", path.display())
}

/// Whether it can be read more than once.
fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file())
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
    // The name of a pipe says nothing of the split.
    let named = if is_file(gold) { gold } else { Path::new("unknown") };
    let stem = named.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let config = section(asked.benchmark, named);
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

/// The ids of the gold: 8 bytes each.
#[derive(Default)]
struct GoldIds(Vec<i64>);

impl GoldIds {
    /// Of two rows with one id nobody can say which one a prediction is for.
    fn check(mut self, gold: &Path) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Err(failure(format!("{}: holds no rows", gold.display())));
        }
        self.0.sort_unstable();
        let mut problems = Problems::default();
        for same in self.0.chunk_by(|a, b| a == b).filter(|same| same.len() > 1) {
            let id = same.first().copied().unwrap_or_default();
            problems.add(&format!("{}: there are {} gold rows of id {id}", gold.display(), same.len()));
        }
        problems.check()
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
    let mut ids = GoldIds::default();
    let again = is_file(asked.file) && is_file(gold);
    loop {
        let (row, prediction) = match (rows.next()?, predictions.next()?) {
            (None, None) => break,
            (Some(row), Some(prediction)) => (row, prediction),
            // By their ids all that are missing are told, where both can be read again.
            _ if again => return Ok(None),
            (Some(row), None) => {
                let id = scorer.gold_id(row.text).map_err(|e| failure(at(gold, row.number, &e)))?;
                let ends = "the predictions end before it";
                problems.add(&format!("{}: there is no prediction of id {id}: {ends}", asked.file.display()));
                break;
            }
            (None, Some(prediction)) => {
                let problem = "the gold rows end before this prediction";
                problems.add(&at(asked.file, prediction.number, problem));
                break;
            }
        };
        match scorer.add(row.text, prediction.text) {
            Ok(SubmissionAdded::Scored(id)) => ids.0.push(id),
            Ok(SubmissionAdded::OtherId) => return Ok(None),
            Err(SubmissionFault::Gold(problem)) => problems.add(&at(gold, row.number, &problem)),
            Err(SubmissionFault::Prediction(problem)) => {
                problems.add(&at(asked.file, prediction.number, &problem));
            }
        }
    }
    problems.check()?;
    ids.check(gold)?;
    Ok(Some(scorer))
}

/// Where a prediction lies in its file.
#[derive(Clone, Copy)]
struct Place {
    id: i64,
    at: u64,
    length: u32,
    /// The number of its line; of lines beyond what this holds the last that it holds.
    number: u32,
}

impl Place {
    fn end(&self) -> u64 {
        self.at + u64::from(self.length)
    }
}

/// The places of all predictions, by id.
fn places(file: &Path, scorer: &dyn SubmissionScorer) -> Result<Vec<Place>, Failure> {
    let mut problems = Problems::default();
    let mut places: Vec<Place> = Vec::new();
    let mut reading = Reading::open(file)?;
    while let Some(line) = reading.next()? {
        let number = u32::try_from(line.number).unwrap_or(u32::MAX);
        match (scorer.id(line.text), u32::try_from(line.text.len())) {
            (Ok(id), Ok(length)) => places.push(Place { id, at: line.at, length, number }),
            (Err(problem), _) => problems.add(&at(file, line.number, &problem)),
            (_, Err(_)) => problems.add(&at(file, line.number, "longer than a prediction can be")),
        }
    }
    places.sort_unstable_by_key(|place| (place.id, place.number));
    for (first, second) in places.iter().zip(places.iter().skip(1)) {
        if first.id == second.id {
            let problem = format!("there are two predictions of id {}", second.id);
            problems.add(&at(file, u64::from(second.number), &problem));
        }
    }
    problems.check()?;
    Ok(places)
}

/// A gold row and where the prediction for it lies.
struct Pair {
    /// The place of the row in [`Batch::rows`].
    row: Range<usize>,
    /// The number of its line.
    number: u64,
    place: Place,
    /// The place of the prediction in [`Batch::predictions`].
    prediction: Range<usize>,
}

/// Gold rows that are scored together. The predictions for them are read in the order that they lie in: in the order of
/// the gold each would cost a reading of its own.
struct Batch<'a> {
    gold: &'a Path,
    path: &'a Path,
    file: File,
    pairs: Vec<Pair>,
    rows: String,
    predictions: Vec<u8>,
    /// Bytes that both will hold.
    bytes: usize,
    block: Vec<u8>,
}

impl Batch<'_> {
    fn add(&mut self, row: &Line<'_>, place: Place) {
        let begin = self.rows.len();
        self.rows.push_str(row.text);
        self.bytes += row.text.len() + place.length as usize;
        let (row, number) = (begin..self.rows.len(), row.number);
        self.pairs.push(Pair { row, number, place, prediction: 0..0 });
    }

    /// Reads the predictions of all pairs.
    fn read(&mut self) -> std::io::Result<()> {
        self.predictions.clear();
        self.pairs.sort_unstable_by_key(|pair| pair.place.at);
        let mut pairs = self.pairs.as_mut_slice();
        while let Some(first) = pairs.first() {
            let begin = first.place.at;
            let mut end = first.place.end();
            let near = |pair: &&Pair| {
                let fits = pair.place.at <= end + NEAR && pair.place.end() <= begin + BLOCK;
                end = if fits { end.max(pair.place.end()) } else { end };
                fits
            };
            let count = 1 + pairs.iter().skip(1).take_while(near).count();
            let (these, rest) = std::mem::take(&mut pairs).split_at_mut(count);
            pairs = rest;
            self.block.resize((end - begin) as usize, 0);
            self.file.seek(SeekFrom::Start(begin))?;
            self.file.read_exact(&mut self.block)?;
            for pair in these {
                let from = (pair.place.at - begin) as usize;
                let bytes = self.block.get(from..from + pair.place.length as usize).unwrap_or_default();
                let begin = self.predictions.len();
                self.predictions.extend_from_slice(bytes);
                pair.prediction = begin..self.predictions.len();
            }
        }
        self.pairs.sort_unstable_by_key(|pair| pair.number);
        Ok(())
    }

    /// Scores the pairs in the order of the gold, and forgets them.
    fn score(&mut self, scorer: &mut dyn SubmissionScorer, problems: &mut Problems) -> Result<(), Failure> {
        let (gold, path) = (self.gold, self.path);
        self.read().map_err(|e| failure(format!("{}: {e}", path.display())))?;
        for pair in self.pairs.drain(..) {
            let number = u64::from(pair.place.number);
            let row = self.rows.get(pair.row).unwrap_or_default();
            let prediction = self.predictions.get(pair.prediction).unwrap_or_default();
            let added = std::str::from_utf8(prediction).map(|prediction| scorer.add(row, prediction));
            match added {
                Ok(Ok(SubmissionAdded::Scored(_))) => {}
                Ok(Err(SubmissionFault::Gold(problem))) => problems.add(&at(gold, pair.number, &problem)),
                Ok(Err(SubmissionFault::Prediction(problem))) => problems.add(&at(path, number, &problem)),
                Ok(Ok(SubmissionAdded::OtherId)) | Err(_) => {
                    problems.add(&at(path, number, "was changed while it was read: score it again"));
                }
            }
        }
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// The predictions by their ids, in the order of the gold. Takes 33 bytes a row, and the bytes of one batch.
fn by_id(asked: &Predictions<'_>, gold: &Path) -> Result<Box<dyn SubmissionScorer>, Failure> {
    for path in [asked.file, gold] {
        if !is_file(path) {
            return Err(failure(format!(
                "{}: can be read only once, and the predictions are not in the order of the gold, row by row: save it to a \
                 file, and name that",
                path.display()
            )));
        }
    }
    let mut scorer = benchmark::submission_scorer(asked.benchmark).map_err(failure)?;
    let places = places(asked.file, &*scorer)?;
    let mut taken = vec![false; places.len()];
    let mut problems = Problems::default();
    let mut ids = GoldIds::default();
    let mut rows = Reading::open(gold)?;
    let file = File::open(asked.file).map_err(|e| failure(format!("{}: {e}", asked.file.display())))?;
    let mut batch = Batch {
        gold,
        path: asked.file,
        file,
        pairs: Vec::new(),
        rows: String::new(),
        predictions: Vec::new(),
        bytes: 0,
        block: Vec::new(),
    };
    while let Some(row) = rows.next()? {
        let id = scorer.gold_id(row.text).map_err(|problem| failure(at(gold, row.number, &problem)))?;
        ids.0.push(id);
        let found = places.binary_search_by_key(&id, |place| place.id).ok();
        let Some((found, place)) = found.and_then(|found| Some((found, places.get(found)?))) else {
            problems.add(&format!("{}: there is no prediction of id {id}", asked.file.display()));
            continue;
        };
        if let Some(taken) = taken.get_mut(found) {
            *taken = true;
        }
        batch.add(&row, *place);
        if batch.bytes >= TOGETHER {
            batch.score(&mut *scorer, &mut problems)?;
        }
    }
    batch.score(&mut *scorer, &mut problems)?;
    ids.check(gold)?;
    for (place, _) in places.iter().zip(taken).filter(|(_, taken)| !taken) {
        let problem = format!("id {} is not among the gold rows", place.id);
        problems.add(&at(asked.file, u64::from(place.number), &problem));
    }
    problems.check()?;
    Ok(scorer)
}
