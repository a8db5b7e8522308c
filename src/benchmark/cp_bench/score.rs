//! Scoring of CP-Bench: ratings of 0 to 5 times 20, five judging runs, the window rule.
//!
//! The score of a run is the mean over items, the score the mean over runs. A reply without a rating scores 0 and
//! stays in the mean, as in the judge's published code; calls that failed are in no score. Answers that a filter
//! withheld score 0 without a judge in the headline and are left out in a second figure. They alone make no score where
//! there are answers for a judge and none of them has a verdict.

use std::collections::BTreeMap;

use super::{CONDITION, NAME, rating_rule};
use crate::benchmark::judging::{JudgeCall, JudgeKind, JudgeScores, JudgeSetup, OnJudgeError};
use crate::benchmark::watch::SameAnswer;
use crate::benchmark::{BenchmarkScores, ConditionCounts, MetricValue, Scorer};
use crate::metric::text::contains_norm;
use crate::metric::verdict::{MOST_RATING, rating};
use crate::metric::{Mean, Spread};
use crate::types::{Outcome, Planned, Profile, Response, Tags};

/// The headline: the better window's score where there are two.
pub(super) const SCORE: &str = "judge_score";
/// The standard deviation of its runs.
pub(super) const SCORE_SD: &str = "judge_score_sd";
/// Answers that a filter withheld left out.
pub(super) const UNBLOCKED: &str = "judge_score_without_blocked";
/// The better window of each item.
pub(super) const MEAN_OF_MAX: &str = "judge_score_mean_of_max";
/// One window.
pub(super) const BY_WINDOW: &str = "judge_score_window";
/// One judging run.
pub(super) const BY_RUN: &str = "judge_score_run";
/// The share of replies with a rating.
pub(super) const SUCCESS: &str = "judge_success_rate";

/// The windows that a clip can be asked in.
pub(super) const WINDOWS: [&str; 3] = ["whole", "first", "last"];

/// Scores of one group in one window.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// By judging run.
    runs: Vec<Mean>,
    unblocked: Vec<Mean>,
    /// Items with a score at least.
    items: u64,
    /// Answers without any: in no score.
    unjudged: u64,
    blocked: u64,
}

impl Cell {
    fn add(&mut self, scores: &[Option<f64>], blocked: bool) {
        let judged = scores.iter().any(Option::is_some);
        self.items += u64::from(judged);
        self.unjudged += u64::from(!judged);
        self.blocked += u64::from(blocked);
        let runs = self.runs.len().max(scores.len());
        self.runs.resize(runs, Mean::default());
        self.unblocked.resize(runs, Mean::default());
        for ((score, run), unblocked) in scores.iter().zip(&mut self.runs).zip(&mut self.unblocked) {
            let Some(score) = score else { continue };
            run.add(*score);
            if !blocked {
                unblocked.add(*score);
            }
        }
    }

    /// Whether no answer is for a judge.
    fn all_blocked(&self) -> bool {
        self.items + self.unjudged == self.blocked
    }

    /// Whether the zeros of blocked answers are not all that is there, unless no answer is for a judge.
    fn judged(&self) -> bool {
        self.all_blocked() || self.unblocked.iter().any(|run| run.n() > 0)
    }

    /// The scores of the judging runs. One has none where all that a judge should have heard is without a verdict.
    fn by_run(&self) -> Vec<Mean> {
        let all_blocked = self.all_blocked();
        let runs = self.runs.iter().zip(&self.unblocked);
        runs.map(|(run, judged)| if all_blocked || judged.n() > 0 { *run } else { Mean::default() }).collect()
    }

    fn spread(runs: &[Mean]) -> Option<Spread> {
        Spread::of(&runs.iter().filter_map(Mean::value).collect::<Vec<_>>())
    }

    fn score(&self) -> Option<f64> {
        Some(Self::spread(&self.by_run())?.mean)
    }

    /// Items that the score is made of.
    fn n(&self) -> u64 {
        if self.judged() { self.items } else { 0 }
    }
}

/// A group of items: all of them, a category, a set, a category of a set.
#[derive(Clone, Debug, Default)]
struct Group {
    windows: BTreeMap<usize, Cell>,
    /// The better window of each item.
    best: Mean,
}

/// The mean score of an item in each window, until both are known.
#[derive(Debug, Default)]
struct Item {
    scores: Vec<f64>,
    groups: Vec<Tags>,
}

/// Scores of one section.
pub(super) struct CpBenchScorer {
    judge: Option<JudgeSetup>,
    profile: Profile,
    counts: ConditionCounts,
    judged: JudgeScores,
    groups: BTreeMap<Tags, Group>,
    items: BTreeMap<String, Item>,
    same: SameAnswer,
}

impl CpBenchScorer {
    pub(super) fn new(judge: Option<&JudgeSetup>, profile: Profile) -> Self {
        Self {
            judge: judge.cloned(),
            profile,
            counts: ConditionCounts::new(CONDITION),
            judged: JudgeScores::default(),
            groups: BTreeMap::new(),
            items: BTreeMap::new(),
            same: SameAnswer::default(),
        }
    }

    /// The scores of an answer by judging run; nothing where a run has none.
    fn scores(
        &mut self,
        judge: &JudgeSetup,
        planned: &Planned,
        text: &str,
        calls: &[JudgeCall],
    ) -> Vec<Option<f64>> {
        if judge.kind == JudgeKind::Match {
            let right = contains_norm(text, &planned.gold);
            return vec![Some(if right { 100.0 } else { 0.0 })];
        }
        self.judged.count(judge.runs, calls);
        let mut scores = Vec::new();
        for run in 0..judge.runs {
            let reply = calls.iter().find(|call| call.run == run).and_then(JudgeCall::heard);
            scores.push(match (reply, judge.on_error) {
                (None, OnJudgeError::Wrong | OnJudgeError::Na) => Some(0.0),
                (None, OnJudgeError::Fail | OnJudgeError::Exclude) => None,
                (Some(reply), _) => Some(match rating(reply, rating_rule(judge.rating)) {
                    Ok((value, rule)) => {
                        self.judged.rule(rule, true);
                        value * (100.0 / MOST_RATING)
                    }
                    Err(rule) => {
                        self.judged.rule(rule, false);
                        0.0
                    }
                }),
            });
        }
        scores
    }
}

/// The groups that an item is in.
fn groups_of(tags: &Tags) -> Vec<Tags> {
    let only = |keys: &[&str]| -> Option<Tags> {
        keys.iter().map(|key| Some(((*key).to_owned(), tags.get(*key)?.clone()))).collect()
    };
    std::iter::once(Tags::new())
        .chain([&["category"][..], &["set"], &["category", "set"]].into_iter().filter_map(only))
        .collect()
}

impl Scorer for CpBenchScorer {
    fn add(&mut self, planned: &Planned, response: Option<&Response>, calls: &[JudgeCall]) {
        self.counts.count(response.map(|response| response.outcome));
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        self.same.add(&response.text, &planned.sample, &planned.gold);
        let Some(judge) = self.judge.clone() else { return };
        let blocked = response.outcome == Outcome::ContentFilter;
        let scores = if blocked {
            vec![Some(0.0); judge.runs.max(1) as usize]
        } else {
            self.scores(&judge, planned, &response.text, calls)
        };
        let window =
            planned.tags.get("window").and_then(|name| WINDOWS.iter().position(|known| known == name));
        let groups = groups_of(&planned.tags);
        for group in &groups {
            let group = self.groups.entry(group.clone()).or_default();
            group.windows.entry(window.unwrap_or_default()).or_default().add(&scores, blocked);
        }
        if let Some(mean) = scores.iter().flatten().copied().collect::<Mean>().value() {
            let item = self.items.entry(planned.sample.clone()).or_default();
            item.scores.push(mean);
            item.groups = groups;
        }
    }

    fn finish(mut self: Box<Self>) -> BenchmarkScores {
        for item in self.items.values() {
            let best = item.scores.iter().copied().max_by(f64::total_cmp);
            for group in &item.groups {
                if let (Some(best), Some(group)) = (best, self.groups.get_mut(group)) {
                    group.best.add(best);
                }
            }
        }
        // Rows by category keep the window that won overall, so that rows and total agree.
        let overall = self.groups.get(&Tags::new()).cloned().unwrap_or_default();
        let won = overall
            .windows
            .iter()
            .filter_map(|(window, cell)| Some((*window, cell.score()?)))
            // Of two equal ones the first.
            .fold(None, |best: Option<(usize, f64)>, next| best.filter(|b| b.1 >= next.1).or(Some(next)));
        // Where no window has a score, what was not judged is still told.
        let first = overall.windows.keys().next().map(|window| (*window, 0.0));
        let won = won.or(first);
        let mut metrics = Vec::new();
        for (tags, group) in &self.groups {
            figures(&mut metrics, tags, group, won.map(|(window, _)| window));
        }
        let replies: u64 = self.judged.rules.values().sum();
        if replies > 0 {
            let value = 1.0 - self.judged.unparsed as f64 / replies as f64;
            metrics.push(figure(SUCCESS, Tags::new(), Some(value), replies));
        }
        let mut warnings = Vec::new();
        warnings.extend(self.same.warning("questions on recordings"));
        let model = self.judge.as_ref().is_some_and(|judge| judge.kind == JudgeKind::Model);
        BenchmarkScores {
            label: NAME.to_owned(),
            benchmark: NAME.to_owned(),
            profile: self.profile,
            warnings,
            tells_withheld: true,
            conditions: vec![self.counts],
            metrics,
            judge: model.then_some(self.judged),
            ..BenchmarkScores::default()
        }
    }
}

fn figure(metric: &str, group: Tags, value: Option<f64>, n: u64) -> MetricValue {
    MetricValue {
        metric: metric.to_owned(),
        profile: None,
        condition: CONDITION.to_owned(),
        group,
        value,
        n,
        counts: BTreeMap::new(),
    }
}

/// The figures of a group. `won` is the window whose score counts.
fn figures(metrics: &mut Vec<MetricValue>, tags: &Tags, group: &Group, won: Option<usize>) {
    let Some(cell) = won.and_then(|won| group.windows.get(&won)) else { return };
    let with = |key: &str, value: &str| {
        let mut tags = tags.clone();
        tags.insert(key.to_owned(), value.to_owned());
        tags
    };
    let runs = cell.by_run();
    let spread = Cell::spread(&runs);
    let mut score = figure(SCORE, tags.clone(), spread.map(|spread| spread.mean), cell.n());
    score.counts = BTreeMap::from([("blocked".to_owned(), cell.blocked)]);
    if cell.unjudged > 0 {
        score.counts.insert("unjudged".to_owned(), cell.unjudged);
    }
    metrics.push(score);
    metrics.push(figure(SCORE_SD, tags.clone(), spread.and_then(|spread| spread.sd), cell.n()));
    let unblocked = Cell::spread(&cell.unblocked).map(|spread| spread.mean);
    metrics.push(figure(UNBLOCKED, tags.clone(), unblocked, cell.items - cell.blocked));
    for (run, mean) in runs.iter().enumerate() {
        metrics.push(figure(BY_RUN, with("run", &(run + 1).to_string()), mean.value(), mean.n()));
    }
    if group.windows.len() > 1 {
        // The zeros of blocked windows are the better ones of nothing.
        let best = if group.windows.values().any(Cell::judged) { group.best } else { Mean::default() };
        metrics.push(figure(MEAN_OF_MAX, tags.clone(), best.value(), best.n()));
        for (window, cell) in &group.windows {
            let name = WINDOWS.get(*window).copied().unwrap_or_default();
            metrics.push(figure(BY_WINDOW, with("window", name), cell.score(), cell.n()));
        }
    }
}
