//! Scoring: both profiles, always.
//!
//! `official`: values rounded to one decimal, averaged by pair and rounded, pairs averaged and rounded; a pair
//! without answers is skipped. `recipe`: the plain mean over all answers, not rounded. All in percent, summed in
//! plan order.
//!
//! What is scored: every answer. A text cut at the token limit is scored as it is, an empty one as empty, one
//! that a filter withheld as the text that came (mostly none): the model was asked and this is what its users
//! get, asking again would not change it, and leaving it out would raise the score of a model whose hard
//! questions are withheld. Failed and missing requests are in no score. All are counted.

use std::collections::BTreeMap;

use super::{Condition, LANGUAGES, Language, Modality, NAME};
use crate::benchmark::watch::SameAnswer;
use crate::benchmark::{BenchmarkScores, ConditionCounts, MetricValue, Scorer};
use crate::metric::text::{ccfqa_answer, exact_match, py_round, thinks_to_the_end};
use crate::metric::{Mean, best, f1};
use crate::types::{Planned, Profile, Response, Tags};

/// F1 on sets of code points.
pub(super) const F1_CHAR_SET: &str = "f1_char_set";
/// Its alternative average: the mean of the rounded row averages.
pub(super) const F1_CHAR_SET_ROW_MEAN: &str = "f1_char_set_row_mean";
/// Its average over the pairs of two languages.
pub(super) const F1_CHAR_SET_OFF_DIAGONAL: &str = "f1_char_set_off_diagonal";
/// F1 on sets of words.
pub(super) const F1_TOKEN_SET: &str = "f1_token_set";
/// Its average over the pairs of two languages.
pub(super) const F1_TOKEN_SET_OFF_DIAGONAL: &str = "f1_token_set_off_diagonal";
/// The share of answers that are the gold, code point for code point.
pub(super) const EXACT: &str = "exact";

/// Scores of answers, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    official: Mean,
    recipe: Mean,
    exact: Mean,
}

impl Cell {
    fn add(&mut self, value: Value) {
        self.official.add(value.official);
        self.recipe.add(value.recipe);
        self.exact.add(value.exact);
    }

    fn merge(mut self, other: &Self) -> Self {
        self.official.merge(&other.official);
        self.recipe.merge(&other.recipe);
        self.exact.merge(&other.exact);
        self
    }

    /// The official figure of a pair.
    fn pair(&self) -> Option<f64> {
        self.official.value().map(|value| py_round(value, 1))
    }
}

/// The scores of one answer, in percent.
#[derive(Clone, Copy, Debug)]
struct Value {
    official: f64,
    recipe: f64,
    exact: f64,
}

/// The official average of figures that are rounded themselves: those that are missing are skipped.
pub(super) fn macro_average(figures: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    figures.into_iter().flatten().collect::<Mean>().value().map(|value| py_round(value, 1))
}

/// Cells of all pairs of one modality, row by row.
#[derive(Debug)]
struct Grid {
    languages: Vec<&'static Language>,
    cells: Vec<Cell>,
    same: SameAnswer,
}

impl Grid {
    fn new(languages: &[&'static Language]) -> Self {
        let cells = vec![Cell::default(); languages.len() * languages.len()];
        Self { languages: languages.to_vec(), cells, same: SameAnswer::default() }
    }

    fn at(&mut self, src: &str, tgt: &str) -> Option<&mut Cell> {
        let place = |code: &str| self.languages.iter().position(|language| language.code == code);
        let at = place(src)? * self.languages.len() + place(tgt)?;
        self.cells.get_mut(at)
    }

    /// All cells with their languages, row by row.
    fn pairs(&self) -> impl Iterator<Item = (&'static Language, &'static Language, &Cell)> {
        let languages = &self.languages;
        let pairs = languages.iter().flat_map(move |&src| languages.iter().map(move |&tgt| (src, tgt)));
        pairs.zip(&self.cells).map(|((src, tgt), cell)| (src, tgt, cell))
    }
}

/// What is counted for one condition.
#[derive(Debug)]
struct Tally {
    condition: Condition,
    counts: ConditionCounts,
    all: Cell,
    cross: Cell,
    changed: u64,
    emptied: u64,
    unfinished: u64,
}

/// Scores of one section.
#[derive(Debug)]
pub(super) struct CcfqaScorer {
    profile: Profile,
    strip_output: bool,
    text: Grid,
    speech: Grid,
    tallies: Vec<Tally>,
    unplaced: u64,
}

impl CcfqaScorer {
    pub(super) fn new(
        languages: &[&'static Language],
        conditions: Vec<Condition>,
        profile: Profile,
        strip_output: bool,
    ) -> Self {
        let tally = |condition: Condition| Tally {
            condition,
            counts: ConditionCounts::new(condition.name()),
            all: Cell::default(),
            cross: Cell::default(),
            changed: 0,
            emptied: 0,
            unfinished: 0,
        };
        Self {
            profile,
            strip_output,
            text: Grid::new(languages),
            speech: Grid::new(languages),
            tallies: conditions.into_iter().map(tally).collect(),
            unplaced: 0,
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(self.text.same.warning("written questions"));
        found.extend(self.speech.same.warning("spoken questions"));
        for tally in self.tallies.iter().filter(|tally| tally.unfinished > 0) {
            found.push(format!(
                "{}: {} answers end inside `<think>` and are scored as they are: allow more new tokens",
                tally.condition.name(),
                tally.unfinished
            ));
        }
        if self.unplaced > 0 {
            found.push(format!(
                "{} planned requests name no pair of languages of this section or no gold, and are in no score",
                self.unplaced
            ));
        }
        found
    }
}

impl Scorer for CcfqaScorer {
    fn add(&mut self, planned: &Planned, response: Option<&Response>) {
        let serves = |tally: &&mut Tally| planned.conditions.iter().any(|c| c == tally.condition.name());
        for tally in self.tallies.iter_mut().filter(serves) {
            tally.counts.count(response.map(|response| response.outcome));
        }
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        let Some(condition) = planned.conditions.iter().find_map(|name| Condition::parse(name)) else {
            return;
        };
        let grid = match condition.modality() {
            Modality::Text => &mut self.text,
            Modality::Speech => &mut self.speech,
        };
        let answer = if self.strip_output { ccfqa_answer(&response.text) } else { response.text.clone() };
        let tag = |key: &str| planned.tags.get(key).map(String::as_str).unwrap_or_default();
        let (src, tgt) = (tag("src"), tag("tgt"));
        let official = best(&planned.gold, |gold| f1::char_set(gold, &answer));
        let recipe = best(&planned.gold, |gold| f1::token_set(gold, &answer) * 100.0);
        let (Some(official), Some(recipe), Some(cell)) = (official, recipe, grid.at(src, tgt)) else {
            self.unplaced += 1;
            return;
        };
        let exact = if exact_match(&answer, &planned.gold) { 100.0 } else { 0.0 };
        let value = Value { official, recipe, exact };
        cell.add(value);
        grid.same.add(&response.text, &planned.sample, &planned.gold);
        for tally in self.tallies.iter_mut().filter(serves) {
            tally.all.add(value);
            if src != tgt {
                tally.cross.add(value);
            }
            tally.changed += u64::from(answer != response.text);
            tally.emptied += u64::from(answer.is_empty() && !response.text.is_empty());
            tally.unfinished += u64::from(thinks_to_the_end(&response.text));
        }
    }

    fn finish(self: Box<Self>) -> BenchmarkScores {
        let mut metrics = Vec::new();
        for tally in &self.tallies {
            let grid = match tally.condition.modality() {
                Modality::Text => &self.text,
                Modality::Speech => &self.speech,
            };
            metrics.extend(figures(tally, grid));
        }
        BenchmarkScores {
            label: NAME.to_owned(),
            benchmark: NAME.to_owned(),
            profile: self.profile,
            warnings: self.warnings(),
            conditions: self.tallies.into_iter().map(|tally| tally.counts).collect(),
            metrics,
            ..BenchmarkScores::default()
        }
    }
}

/// Puts figures of one condition in the form of `scores.json`.
struct Sheet {
    condition: &'static str,
    metrics: Vec<MetricValue>,
}

impl Sheet {
    fn push(
        &mut self,
        metric: &str,
        profile: Option<Profile>,
        group: &[(&str, &str)],
        value: Option<f64>,
        n: u64,
    ) {
        self.metrics.push(MetricValue {
            metric: metric.to_owned(),
            profile,
            condition: self.condition.to_owned(),
            group: group.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect::<Tags>(),
            value,
            n,
            counts: BTreeMap::new(),
        });
    }

    /// The three figures of a group: the official one is given, the others are plain means.
    fn group(&mut self, group: &[(&str, &str)], official: Option<f64>, cell: &Cell) {
        let n = cell.official.n();
        self.push(F1_CHAR_SET, Some(Profile::Official), group, official, n);
        self.push(F1_TOKEN_SET, Some(Profile::Recipe), group, cell.recipe.value(), n);
        self.push(EXACT, None, group, cell.exact.value(), n);
    }
}

/// All figures of a condition: as a whole, by source, by answer language, by pair.
fn figures(tally: &Tally, grid: &Grid) -> Vec<MetricValue> {
    let mut sheet = Sheet { condition: tally.condition.name(), metrics: Vec::new() };
    let crosses = tally.condition.crosses();
    let pairs: Vec<_> = grid.pairs().filter(|(src, tgt, _)| crosses || src == tgt).collect();
    let average = |of: &dyn Fn(&Language, &Language) -> bool| {
        macro_average(pairs.iter().filter(|(src, tgt, _)| of(src, tgt)).map(|(_, _, cell)| cell.pair()))
    };
    sheet.group(&[], average(&|_, _| true), &tally.all);
    if let Some(overall) = sheet.metrics.first_mut() {
        let answered = pairs.iter().filter(|(_, _, cell)| cell.official.n() > 0).count() as u64;
        overall.counts = BTreeMap::from([
            ("pairs".to_owned(), answered),
            ("pairs_without_answers".to_owned(), pairs.len() as u64 - answered),
            ("changed_by_post_processing".to_owned(), tally.changed),
            ("emptied_by_post_processing".to_owned(), tally.emptied),
        ]);
    }
    if crosses {
        let rows = LANGUAGES.iter().map(|language| average(&|src, _| src == language));
        let n = tally.all.official.n();
        sheet.push(F1_CHAR_SET_ROW_MEAN, Some(Profile::Official), &[], macro_average(rows), n);
        let n = tally.cross.official.n();
        let cross = average(&|src, tgt| src != tgt);
        sheet.push(F1_CHAR_SET_OFF_DIAGONAL, Some(Profile::Official), &[], cross, n);
        let cross = tally.cross.recipe.value();
        sheet.push(F1_TOKEN_SET_OFF_DIAGONAL, Some(Profile::Recipe), &[], cross, n);
        for key in ["src", "tgt"] {
            for &language in &grid.languages {
                let of = |src: &Language, tgt: &Language| (if key == "src" { src } else { tgt }) == language;
                let cells = pairs.iter().filter(|(src, tgt, _)| of(src, tgt)).map(|(_, _, cell)| *cell);
                let cell = cells.fold(Cell::default(), Cell::merge);
                sheet.group(&[(key, language.code)], average(&of), &cell);
            }
        }
    }
    for (src, tgt, cell) in &pairs {
        sheet.group(&[("src", src.code), ("tgt", tgt.code)], cell.pair(), cell);
    }
    sheet.metrics
}
