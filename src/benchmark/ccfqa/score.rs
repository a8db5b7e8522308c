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

use super::asr::{AsrScorer, is_asr};
use super::{Condition, LANGUAGES, Language, Modality, NAME};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::judging::{JudgeCall, JudgeKind, JudgeScores, JudgeSetup, OnJudgeError};
use crate::benchmark::watch::SameAnswer;
use crate::benchmark::{BenchmarkScores, ConditionCounts, MetricValue, Scorer};
use crate::metric::consistency::consistency;
use crate::metric::text::{ccfqa_answer, contains_norm, exact_match, py_round, thinks_to_the_end};
use crate::metric::verdict::{YesNo, yes_no};
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

/// What the judge is told beside answer and reference: the written question, in its own language.
pub(super) const QUESTION: &str = "src_q";
/// The share of answers that the judge calls right.
pub(super) const LLM_ACCURACY: &str = "llm_accuracy";
/// The same where the judge is no model but a string match.
pub(super) const MATCH_ACCURACY: &str = "match_accuracy";
/// How much of the better condition's accuracy the other one keeps. Its condition names both: `qa/xqa`.
pub(super) const CONSISTENCY: &str = "consistency";

/// The conditions that are compared: across languages, then across modalities.
pub(super) const COMPARED: [(Condition, Condition); 4] = [
    (Condition::Qa, Condition::Xqa),
    (Condition::Sqa, Condition::Xsqa),
    (Condition::Qa, Condition::Sqa),
    (Condition::Xqa, Condition::Xsqa),
];

/// The paper's groups of clips by length in seconds: above the first, up to the second.
pub(super) const SECONDS: [(&str, f64, f64); 3] =
    [("0-5", 0.0, 5.0), ("5-10", 5.0, 10.0), ("10-30", 10.0, 30.0)];

/// What a judge said of answers, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Verdicts {
    yes: u64,
    no: u64,
    other: u64,
    /// Answers with a verdict at least, however often each was judged.
    answers: u64,
    /// Answers without one.
    unjudged: u64,
}

impl Verdicts {
    fn merge(&mut self, other: &Self) {
        self.yes += other.yes;
        self.no += other.no;
        self.other += other.other;
        self.answers += other.answers;
        self.unjudged += other.unjudged;
    }

    fn calls(&self) -> u64 {
        self.yes + self.no + self.other
    }

    fn n(&self) -> u64 {
        self.answers
    }

    /// Of one answer, whose verdicts are complete.
    fn of_one(self) -> Self {
        let judged = self.calls() > 0;
        Self { answers: u64::from(judged), unjudged: u64::from(!judged), ..self }
    }

    /// The share of yes, in percent; nothing where nothing was judged.
    fn share(&self) -> Option<f64> {
        (self.calls() > 0).then(|| self.yes as f64 / self.calls() as f64 * 100.0)
    }
}

/// Scores of answers, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    verdicts: Verdicts,
    official: Mean,
    recipe: Mean,
    exact: Mean,
}

impl Cell {
    fn add(&mut self, value: Value) {
        self.verdicts.merge(&value.verdicts);
        self.official.add(value.official);
        self.recipe.add(value.recipe);
        self.exact.add(value.exact);
    }

    fn merge(mut self, other: &Self) -> Self {
        self.verdicts.merge(&other.verdicts);
        self.official.merge(&other.official);
        self.recipe.merge(&other.recipe);
        self.exact.merge(&other.exact);
        self
    }

    /// The official figure of a pair.
    fn pair(&self) -> Option<f64> {
        self.official.value().map(|value| py_round(value, 1))
    }

    /// The official accuracy of a pair.
    fn pair_accuracy(&self) -> Option<f64> {
        self.verdicts.share().map(|value| py_round(value, 1))
    }
}

/// The scores of one answer, in percent.
#[derive(Clone, Copy, Debug)]
struct Value {
    official: f64,
    recipe: f64,
    exact: f64,
    verdicts: Verdicts,
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
    /// By length of the clip.
    seconds: [Cell; 3],
}

/// Scores of one section.
#[derive(Debug)]
pub(super) struct CcfqaScorer {
    profile: Profile,
    strip_output: bool,
    judge: Option<JudgeSetup>,
    judged: JudgeScores,
    text: Grid,
    speech: Grid,
    tallies: Vec<Tally>,
    asr: Option<AsrScorer>,
    unplaced: u64,
}

impl CcfqaScorer {
    pub(super) fn new(
        languages: &[&'static Language],
        conditions: Vec<Condition>,
        asr: bool,
        profile: Profile,
        strip_output: bool,
        judge: Option<&JudgeSetup>,
    ) -> Self {
        let tally = |condition: Condition| Tally {
            condition,
            counts: ConditionCounts::new(condition.name()),
            all: Cell::default(),
            cross: Cell::default(),
            changed: 0,
            emptied: 0,
            unfinished: 0,
            seconds: [Cell::default(); 3],
        };
        Self {
            profile,
            strip_output,
            judge: judge.cloned(),
            judged: JudgeScores::default(),
            text: Grid::new(languages),
            speech: Grid::new(languages),
            tallies: conditions.into_iter().map(tally).collect(),
            asr: asr.then(|| AsrScorer::new(languages)),
            unplaced: 0,
        }
    }

    /// What the judge says of an answer.
    fn verdicts(&mut self, answer: &str, gold: &[String], calls: &[JudgeCall]) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let Some(judge) = &self.judge else { return verdicts };
        if judge.kind == JudgeKind::Match {
            let right = contains_norm(answer, gold);
            return Verdicts { yes: u64::from(right), no: u64::from(!right), ..verdicts }.of_one();
        }
        self.judged.count(judge.runs, calls);
        for run in 0..judge.runs {
            match (calls.iter().find(|call| call.run == run).and_then(JudgeCall::heard), judge.on_error) {
                (Some(reply), _) => {
                    let verdict = yes_no(reply);
                    self.judged.rule(verdict.rule(), verdict != YesNo::Other);
                    match verdict {
                        YesNo::Yes => verdicts.yes += 1,
                        YesNo::No => verdicts.no += 1,
                        YesNo::Other => verdicts.other += 1,
                    }
                }
                (None, OnJudgeError::Wrong | OnJudgeError::Na) => verdicts.no += 1,
                (None, OnJudgeError::Fail | OnJudgeError::Exclude) => {}
            }
        }
        verdicts.of_one()
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
    fn add(&mut self, planned: &Planned, response: Option<&Response>, calls: &[JudgeCall]) {
        if let Some(asr) = self.asr.as_mut().filter(|_| is_asr(planned)) {
            return asr.add(planned, response);
        }
        let serves = |tally: &&mut Tally| planned.conditions.iter().any(|c| c == tally.condition.name());
        for tally in self.tallies.iter_mut().filter(serves) {
            tally.counts.count(response.map(|response| response.outcome));
        }
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        let Some(condition) = Condition::of(planned) else {
            return;
        };
        let answer = if self.strip_output { ccfqa_answer(&response.text) } else { response.text.clone() };
        let tag = |key: &str| planned.tags.get(key).map(String::as_str).unwrap_or_default();
        let (src, tgt) = (tag("src"), tag("tgt"));
        let official = best(&planned.gold, |gold| f1::char_set(gold, &answer));
        let recipe = best(&planned.gold, |gold| f1::token_set(gold, &answer) * 100.0);
        let verdicts = self.verdicts(&answer, &planned.gold, calls);
        let grid = match condition.modality() {
            Modality::Text => &mut self.text,
            Modality::Speech => &mut self.speech,
        };
        let (Some(official), Some(recipe), Some(cell)) = (official, recipe, grid.at(src, tgt)) else {
            self.unplaced += 1;
            return;
        };
        let exact = if exact_match(&answer, &planned.gold) { 100.0 } else { 0.0 };
        let value = Value { official, recipe, exact, verdicts };
        let bucket = bucket(response);
        cell.add(value);
        grid.same.add(&response.text, &planned.sample, &planned.gold);
        for tally in self.tallies.iter_mut().filter(serves) {
            tally.all.add(value);
            if let Some(cell) = bucket.and_then(|at| tally.seconds.get_mut(at)) {
                cell.add(value);
            }
            if src != tgt {
                tally.cross.add(value);
            }
            tally.changed += u64::from(answer != response.text);
            tally.emptied += u64::from(answer.is_empty() && !response.text.is_empty());
            tally.unfinished += u64::from(thinks_to_the_end(&response.text));
        }
    }

    fn finish(mut self: Box<Self>) -> BenchmarkScores {
        let mut metrics = Vec::new();
        let asr = self.asr.take().map(AsrScorer::finish);
        let accuracy = self.judge.as_ref().map(|judge| match judge.kind {
            JudgeKind::Model => LLM_ACCURACY,
            JudgeKind::Match => MATCH_ACCURACY,
        });
        for tally in &self.tallies {
            let grid = match tally.condition.modality() {
                Modality::Text => &self.text,
                Modality::Speech => &self.speech,
            };
            metrics.extend(figures(tally, grid, accuracy));
        }
        if let Some(metric) = accuracy {
            metrics.extend(consistencies(&metrics, metric, &self.tallies));
        }
        let model = self.judge.as_ref().is_some_and(|judge| judge.kind == JudgeKind::Model);
        let mut warnings = self.warnings();
        let mut conditions: Vec<_> = self.tallies.into_iter().map(|tally| tally.counts).collect();
        if let Some((counts, figures, said)) = asr {
            conditions.push(counts);
            metrics.extend(figures);
            warnings.extend(said);
        }
        BenchmarkScores {
            label: NAME.to_owned(),
            benchmark: NAME.to_owned(),
            profile: self.profile,
            warnings,
            conditions,
            metrics,
            judge: model.then_some(self.judged),
            ..BenchmarkScores::default()
        }
    }
}

/// Puts figures of one condition in the form of `scores.json`.
struct Sheet {
    condition: &'static str,
    /// The name of the judge's figure, where there is a judge.
    accuracy: Option<&'static str>,
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

    /// The figures of a group: the official ones are given, F1 and accuracy; the others are plain means.
    fn group(&mut self, group: &[(&str, &str)], official: [Option<f64>; 2], cell: &Cell) {
        let [official, judged] = official;
        let n = cell.official.n();
        self.push(F1_CHAR_SET, Some(Profile::Official), group, official, n);
        self.push(F1_TOKEN_SET, Some(Profile::Recipe), group, cell.recipe.value(), n);
        self.push(EXACT, None, group, cell.exact.value(), n);
        if let Some(accuracy) = self.accuracy {
            let n = cell.verdicts.n();
            self.push(accuracy, Some(Profile::Official), group, judged, n);
            if let Some(figure) = self.metrics.last_mut() {
                let Verdicts { yes, no, other, unjudged, .. } = cell.verdicts;
                let unjudged = (unjudged > 0).then_some(("unjudged", unjudged));
                let counts = [("yes", yes), ("no", no), ("other", other)].into_iter().chain(unjudged);
                figure.counts = counts.map(|(name, count)| (name.to_owned(), count)).collect();
            }
            let micro = format!("{accuracy}_micro");
            self.push(&micro, Some(Profile::Recipe), group, cell.verdicts.share(), n);
        }
    }
}

/// All figures of a condition: as a whole, by source, by answer language, by pair.
fn figures(tally: &Tally, grid: &Grid, accuracy: Option<&'static str>) -> Vec<MetricValue> {
    let mut sheet = Sheet { condition: tally.condition.name(), accuracy, metrics: Vec::new() };
    let crosses = tally.condition.crosses();
    let pairs: Vec<_> = grid.pairs().filter(|(src, tgt, _)| crosses || src == tgt).collect();
    let average = |of: &dyn Fn(&Language, &Language) -> bool| {
        let cells = || pairs.iter().filter(|(src, tgt, _)| of(src, tgt)).map(|(_, _, cell)| cell);
        [
            macro_average(cells().map(|cell| cell.pair())),
            macro_average(cells().map(|cell| cell.pair_accuracy())),
        ]
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
        let rows: Vec<_> = LANGUAGES.iter().map(|language| average(&|src, _| src == language)).collect();
        let n = tally.all.official.n();
        let [f1, judged] =
            [0, 1].map(|at| macro_average(rows.iter().map(|row| row.get(at).copied().flatten())));
        sheet.push(F1_CHAR_SET_ROW_MEAN, Some(Profile::Official), &[], f1, n);
        if let Some(accuracy) = accuracy {
            let n = tally.all.verdicts.n();
            sheet.push(&format!("{accuracy}_row_mean"), Some(Profile::Official), &[], judged, n);
            let [_, cross] = average(&|src, tgt| src != tgt);
            let n = tally.cross.verdicts.n();
            sheet.push(&format!("{accuracy}_off_diagonal"), Some(Profile::Official), &[], cross, n);
        }
        let n = tally.cross.official.n();
        let [cross, _] = average(&|src, tgt| src != tgt);
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
        let official = [cell.pair(), cell.pair_accuracy()];
        sheet.group(&[("src", src.code), ("tgt", tgt.code)], official, cell);
    }
    // By the length of the clip: plain means, since no formula is published.
    for ((name, ..), cell) in SECONDS.iter().zip(&tally.seconds) {
        if cell.official.n() > 0 {
            sheet.group(&[("seconds", name)], [cell.official.value(), cell.verdicts.share()], cell);
        }
    }
    sheet.metrics
}

/// The group of an answer by the length of its clip, where that is known.
fn bucket(response: &Response) -> Option<usize> {
    let source = &response.media.first()?.audio.as_ref()?.source;
    let seconds = source.frames as f64 / f64::from(source.rate);
    SECONDS.iter().position(|(_, above, to)| seconds > *above && seconds <= *to)
}

/// Ratios of the accuracies of two conditions.
fn consistencies(metrics: &[MetricValue], accuracy: &str, tallies: &[Tally]) -> Vec<MetricValue> {
    let of = |condition: Condition| {
        let tally = tallies.iter().find(|tally| tally.condition == condition)?;
        let name = condition.name();
        let of = |m: &&MetricValue| m.metric == accuracy && m.condition == name && m.group.is_empty();
        Some((metrics.iter().find(of)?.value?, tally.all.verdicts.n()))
    };
    let ratio = |(one, other): (Condition, Condition)| {
        let ((a, n), (b, m)) = (of(one)?, of(other)?);
        Some(MetricValue {
            metric: CONSISTENCY.to_owned(),
            profile: None,
            condition: format!("{}/{}", one.name(), other.name()),
            group: Tags::new(),
            value: consistency(a, b),
            n: n.min(m),
            counts: BTreeMap::new(),
        })
    };
    COMPARED.into_iter().filter_map(ratio).collect()
}
