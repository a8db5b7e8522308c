//! Scoring of SimpleVQA: correct, incorrect and not attempted, by group, with both roundings; composite questions; and
//! calibration.
//!
//! An answer that a filter withheld, or that is empty, is not attempted. Calls of the judge that failed and replies that the authors' scorer
//! would stop at are judge errors, a class of their own: what becomes of them is the config's to say.

use std::collections::{BTreeMap, BTreeSet};

use super::judging::{candidate, is_blocked};
use super::{Condition, DOMAINS, ITEMS, NAME, TASKS};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::judging::{JudgeCall, JudgeKind, JudgeScores, JudgeSetup, OnJudgeError};
use crate::benchmark::watch::SameAnswer;
use crate::benchmark::{BenchmarkScores, ConditionCounts, MetricValue, Scorer};
use crate::metric::Mean;
use crate::metric::attempts::{Attempts, Calibration, Grades, stated};
use crate::metric::text::contains_norm;
use crate::metric::verdict::{Grade, grade};
use crate::types::{Planned, Profile, Response, Tags};

pub(super) const CORRECT: &str = "correct";
pub(super) const INCORRECT: &str = "incorrect";
pub(super) const NOT_ATTEMPTED: &str = "not_attempted";
pub(super) const GIVEN_ATTEMPTED: &str = "correct_given_attempted";
pub(super) const F_SCORE: &str = "f_score";
/// What the names of figures end with that are not rounded.
pub(super) const EXACT: &str = "_exact";
/// CO of the items with a simpler question behind theirs.
pub(super) const CFQ_CORRECT: &str = "cfq_correct";
/// Wrong answers to composite questions, by cause.
pub(super) const ATTRIBUTION: &str = "cfq_attribution";
/// One composite question.
pub(super) const CFQ_ITEM: &str = "cfq_item";
/// The share of right answers of about one confidence.
pub(super) const ACCURACY: &str = "accuracy";
/// The mean confidence of these.
pub(super) const CONFIDENCE: &str = "mean_confidence";
/// The expected calibration error.
pub(super) const CALIBRATION_ERROR: &str = "calibration_error";

/// The tag of composite questions.
pub(super) const CFQ: &str = "cfq";
/// The groups that figures are given for, beside the whole.
pub(super) const GROUPS: [&str; 3] = ["language", "task", "domain"];

/// Samples with judge errors that are named.
const NAMED: usize = 5;

/// Why a composite question was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The simpler question is not answered either, and the answer told helps, or was not told.
    Image,
    /// The simpler question is answered, or was not asked, and the question is not even with its answer told.
    Knowledge,
    /// Both.
    Both,
    /// Neither, of those that were looked for.
    Unnamed,
}

impl Cause {
    pub(super) const ALL: [Self; 4] = [Self::Image, Self::Knowledge, Self::Both, Self::Unnamed];

    /// Whether it can be found where these questions are asked beside the original one.
    fn shows(self, atomic: bool, hinted: bool) -> bool {
        match self {
            Self::Image => atomic,
            Self::Knowledge => hinted,
            Self::Both => atomic && hinted,
            Self::Unnamed => atomic || hinted,
        }
    }

    fn of(atomic: bool, hinted: bool) -> Self {
        match (atomic, hinted) {
            (false, true) => Self::Image,
            (true, false) => Self::Knowledge,
            (false, false) => Self::Both,
            (true, true) => Self::Unnamed,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Knowledge => "knowledge",
            Self::Both => "both",
            Self::Unnamed => "unnamed",
        }
    }
}

/// What is counted for one condition.
#[derive(Debug)]
struct Tally {
    condition: Condition,
    counts: ConditionCounts,
    with_confidence: bool,
    /// Grades by group and judging run.
    groups: BTreeMap<Tags, Vec<Grades>>,
    blocked: u64,
    judge_errors: u64,
    calibration: Calibration,
    /// Answers whose confidence could not be read.
    unstated: u64,
}

/// The grades of a composite question, by condition: original, atomic, hinted.
type Composite = [Option<Grade>; 3];

/// What a file of categories was given for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mapped {
    pub(super) task: bool,
    pub(super) domain: bool,
    /// The ids of composite questions that it names, each once.
    pub(super) composites: u64,
}

/// Scores of one section.
pub(super) struct SimpleVqaScorer {
    judge: Option<JudgeSetup>,
    profile: Profile,
    mapped: Mapped,
    judged: JudgeScores,
    tallies: Vec<Tally>,
    /// Samples by group, of the first condition that asks all.
    planned: BTreeMap<(&'static str, String), u64>,
    samples: u64,
    /// Of these the composite ones.
    composite_samples: u64,
    composites: BTreeMap<String, Composite>,
    /// Samples with judge errors, and the first of them in the order of the plan.
    failing: BTreeSet<String>,
    named: Vec<String>,
    same: SameAnswer,
}

/// What came of judging an answer once.
#[derive(Clone, Copy)]
enum Judged {
    Grade(Grade),
    /// What counts in place of a verdict that could not be had.
    Assumed(Grade),
    /// In no score.
    Left,
}

/// The verdict of an answer that is judged several times: the first that the judge gave, and what counts in its place only
/// where no judging gave one.
fn first_verdict(judged: &[Judged]) -> Option<Grade> {
    let given = judged.iter().find_map(|judged| match judged {
        Judged::Grade(grade) => Some(*grade),
        Judged::Assumed(_) | Judged::Left => None,
    });
    let assumed = || {
        judged.iter().find_map(|judged| match judged {
            Judged::Assumed(grade) => Some(*grade),
            Judged::Grade(_) | Judged::Left => None,
        })
    };
    given.or_else(assumed)
}

impl SimpleVqaScorer {
    pub(super) fn new(
        conditions: Vec<(Condition, bool)>,
        judge: Option<&JudgeSetup>,
        profile: Profile,
        mapped: Mapped,
    ) -> Self {
        let tally = |(condition, with_confidence): (Condition, bool)| Tally {
            condition,
            counts: ConditionCounts::new(condition.name()),
            with_confidence,
            groups: BTreeMap::new(),
            blocked: 0,
            judge_errors: 0,
            calibration: Calibration::default(),
            unstated: 0,
        };
        Self {
            judge: judge.cloned(),
            profile,
            mapped,
            judged: JudgeScores::default(),
            tallies: conditions.into_iter().map(tally).collect(),
            planned: BTreeMap::new(),
            samples: 0,
            composite_samples: 0,
            composites: BTreeMap::new(),
            failing: BTreeSet::new(),
            named: Vec::new(),
            same: SameAnswer::default(),
        }
    }

    /// What the judge says of an answer, by run, and how often it was in error.
    fn judge(
        &mut self,
        judge: &JudgeSetup,
        planned: &Planned,
        text: &str,
        calls: &[JudgeCall],
    ) -> (Vec<Judged>, u64) {
        if judge.kind == JudgeKind::Match {
            let right = contains_norm(text, &planned.gold);
            return (vec![Judged::Grade(if right { Grade::Correct } else { Grade::Incorrect })], 0);
        }
        self.judged.count(judge.runs, calls);
        let mut errors = 0;
        let mut found = Vec::new();
        for run in 0..judge.runs {
            let reply = calls.iter().find(|call| call.run == run).and_then(JudgeCall::heard);
            let read = reply.map(grade);
            if let Some(read) = read {
                let (rule, parsed) = match read {
                    Ok((_, rule)) => (rule, true),
                    Err(rule) => (rule, false),
                };
                self.judged.rule(rule, parsed);
                self.judged.unusable += u64::from(!parsed);
            }
            found.push(match (read, judge.on_error) {
                (Some(Ok((grade, _))), _) => Judged::Grade(grade),
                (_, error) => {
                    errors += 1;
                    match error {
                        OnJudgeError::Fail | OnJudgeError::Exclude => Judged::Left,
                        OnJudgeError::Wrong => Judged::Assumed(Grade::Incorrect),
                        OnJudgeError::Na => Judged::Assumed(Grade::NotAttempted),
                    }
                }
            });
        }
        (found, errors)
    }

    /// Counts the samples of the first condition that asks all of them.
    fn place(&mut self, planned: &Planned) {
        let first = self.tallies.iter().find(|tally| !tally.condition.is_composite());
        if first.is_some_and(|tally| planned.conditions.iter().any(|name| name == tally.condition.name())) {
            self.samples += 1;
            self.composite_samples += u64::from(planned.tags.contains_key(CFQ));
            for key in ["task", "domain"] {
                if let Some(value) = planned.tags.get(key) {
                    *self.planned.entry((key, value.clone())).or_default() += 1;
                }
            }
        }
    }

    /// What is to be said of the categories of a kind, and whether they are in no figures.
    fn miscounted(
        &self,
        key: &'static str,
        mapped: bool,
        published: &[(&str, &str, u64)],
    ) -> Option<(String, bool)> {
        let count = |code: &str| self.planned.get(&(key, code.to_owned())).copied().unwrap_or_default();
        let all: u64 = published.iter().map(|(code, ..)| count(code)).sum();
        if all == 0 {
            let sentence = format!(
                "the categories file names no {key} of these rows, so there are no figures by {key}: compare its names \
                 with those that `harness data` lists"
            );
            return (mapped && self.samples > 0).then_some((sentence, true));
        }
        if self.samples != ITEMS {
            let sentence = format!(
                "the counts by {key} are not compared with the paper's Table 2, for these are {} of its {ITEMS} items",
                self.samples
            );
            return Some((sentence, false));
        }
        let wrong: Vec<String> = published
            .iter()
            .filter(|(code, _, expected)| count(code) != *expected)
            .map(|(code, _, expected)| format!("{code} {} instead of {expected}", count(code)))
            .collect();
        (!wrong.is_empty()).then(|| {
            let sentence = format!(
                "the categories file gives other counts by {key} than the paper's Table 2, so there are no figures by \
                 {key}: {}",
                wrong.join(", ")
            );
            (sentence, true)
        })
    }

    fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(self.same.warning("questions about images"));
        let errors: u64 = self.tallies.iter().map(|tally| tally.judge_errors).sum();
        if let (Some(judge), true) = (&self.judge, errors > 0) {
            // An answer may fail in each of several judging runs, and an item in each of several conditions.
            let items = self.failing.len();
            let of = if errors == items as u64 { String::new() } else { format!("{items} items: ") };
            let more = items.saturating_sub(self.named.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let became = match judge.on_error {
                OnJudgeError::Fail => {
                    "they are in no score, and the run is incomplete: set on_error under [judge] to \"na\" or \
                     \"exclude\", or judge again under another name"
                }
                OnJudgeError::Exclude => "they are in no score",
                OnJudgeError::Wrong => "they count as incorrect",
                OnJudgeError::Na => "they count as not attempted",
            };
            let named = self.named.join(", ");
            found.push(format!("judge_error = {errors} ({of}data_id {named}{more}): {became}"));
        }
        found
    }
}

/// The groups that an answer is in.
fn groups_of(tags: &Tags) -> Vec<Tags> {
    let of = |key: &&str| Some(Tags::from([((*key).to_owned(), tags.get(*key)?.clone())]));
    std::iter::once(Tags::new()).chain(GROUPS.iter().filter_map(of)).collect()
}

impl Scorer for SimpleVqaScorer {
    fn add(&mut self, planned: &Planned, response: Option<&Response>, calls: &[JudgeCall]) {
        self.place(planned);
        let Some(condition) = Condition::of(planned) else {
            return;
        };
        let Some(at) = self.tallies.iter().position(|tally| tally.condition == condition) else { return };
        if let Some(tally) = self.tallies.get_mut(at) {
            tally.counts.count(response.map(|response| response.outcome));
        }
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        self.same.add(&response.text, &planned.sample, &planned.gold);
        let Some(judge) = self.judge.clone() else { return };
        let with_confidence = self.tallies.get(at).is_some_and(|tally| tally.with_confidence);
        let blocked = is_blocked(response.outcome);
        let (judged, errors) = if blocked {
            (vec![Judged::Grade(Grade::NotAttempted); judge.runs.max(1) as usize], 0)
        } else {
            self.judge(&judge, planned, &candidate(&response.text, with_confidence), calls)
        };
        if errors > 0 && self.failing.insert(planned.sample.clone()) && self.named.len() < NAMED {
            self.named.push(planned.sample.clone());
        }
        let Some(tally) = self.tallies.get_mut(at) else { return };
        tally.blocked += u64::from(blocked);
        tally.judge_errors += errors;
        for group in groups_of(&planned.tags) {
            let runs = tally.groups.entry(group).or_default();
            runs.resize(runs.len().max(judged.len()), Grades::default());
            for (grades, judged) in runs.iter_mut().zip(&judged) {
                if let Judged::Grade(grade) | Judged::Assumed(grade) = judged {
                    grades.add(Some(*grade));
                }
            }
        }
        // Items and confidences are counted once, however often they are judged.
        let first = first_verdict(&judged);
        if with_confidence {
            match (stated(&response.text).and_then(|stated| stated.confidence), first) {
                (None, _) => tally.unstated += 1,
                (Some(confidence), Some(grade)) => tally.calibration.add(confidence, grade == Grade::Correct),
                (Some(_), None) => {}
            }
        }
        if planned.tags.contains_key(CFQ) && condition != Condition::TextOnly {
            let item = self.composites.entry(planned.sample.clone()).or_default();
            if let Some(slot) = item.get_mut(condition as usize) {
                *slot = first;
            }
        }
    }

    fn finish(self: Box<Self>) -> BenchmarkScores {
        let mut warnings = self.warnings();
        let mut left_out = Vec::new();
        for (key, mapped, published) in
            [("task", self.mapped.task, &TASKS), ("domain", self.mapped.domain, &DOMAINS)]
        {
            if let Some((sentence, out)) = self.miscounted(key, mapped, published) {
                warnings.push(sentence);
                if out {
                    left_out.push(key);
                }
            }
        }
        let unknown = self.mapped.composites.saturating_sub(self.composite_samples);
        if unknown > 0 && self.samples > 0 {
            // Of a part of the set nobody knows which ids the other part has.
            warnings.push(if self.composite_samples == 0 && self.samples == ITEMS {
                "none of the ids under cfq is that of an item with another atomic question: the file of categories counts \
                 in other numbers than data_id"
                    .to_owned()
            } else {
                format!(
                    "ids under cfq of no item of this run with another atomic question: {unknown} of {}",
                    self.mapped.composites
                )
            });
        }
        let mut metrics = Vec::new();
        for tally in &self.tallies {
            let groups =
                tally.groups.iter().filter(|(tags, _)| !left_out.iter().any(|key| tags.contains_key(*key)));
            for (group, runs) in groups {
                metrics.extend(figures(tally, group, runs));
            }
            if tally.with_confidence && (tally.calibration.n() > 0 || tally.unstated > 0) {
                metrics.extend(calibration(tally));
            }
        }
        let asks = |condition: Condition| self.tallies.iter().any(|tally| tally.condition == condition);
        let (atomic, hinted) = (asks(Condition::Atomic), asks(Condition::Hinted));
        if (atomic || hinted) && asks(Condition::Original) {
            metrics.extend(composites(&self.composites, atomic, hinted));
        }
        let model = self.judge.as_ref().is_some_and(|judge| judge.kind == JudgeKind::Model);
        BenchmarkScores {
            label: NAME.to_owned(),
            benchmark: NAME.to_owned(),
            profile: self.profile,
            warnings,
            tells_withheld: true,
            conditions: self.tallies.into_iter().map(|tally| tally.counts).collect(),
            metrics,
            judge: model.then_some(self.judged),
            ..BenchmarkScores::default()
        }
    }
}

fn figure(metric: &str, condition: &str, group: Tags, value: Option<f64>, n: u64) -> MetricValue {
    MetricValue {
        metric: metric.to_owned(),
        profile: None,
        condition: condition.to_owned(),
        group,
        value,
        n,
        counts: BTreeMap::new(),
    }
}

fn tags(key: &str, value: &impl ToString) -> Tags {
    Tags::from([(key.to_owned(), value.to_string())])
}

/// The figures of a group, in percent: means over judging runs, where there are several.
fn figures(tally: &Tally, group: &Tags, runs: &[Grades]) -> Vec<MetricValue> {
    type Part = fn(&Attempts) -> f64;
    const PARTS: [(&str, Part); 5] = [
        (CORRECT, |a| a.correct),
        (INCORRECT, |a| a.incorrect),
        (NOT_ATTEMPTED, |a| a.not_attempted),
        (GIVEN_ATTEMPTED, |a| a.correct_given_attempted),
        (F_SCORE, |a| a.f_score),
    ];
    let mut found = Vec::new();
    let n = runs.iter().map(|grades| grades.n).max().unwrap_or_default();
    for (metric, part) in PARTS {
        for (profile, ending) in [(Profile::Official, ""), (Profile::Recipe, EXACT)] {
            let of = |grades: &Grades| match profile {
                Profile::Official => grades.official(),
                Profile::Recipe => grades.exact(),
            };
            let mean: Mean = runs.iter().filter_map(of).map(|attempts| part(&attempts) * 100.0).collect();
            let name = format!("{metric}{ending}");
            let mut value = figure(&name, tally.condition.name(), group.clone(), mean.value(), n);
            value.profile = Some(profile);
            if metric == F_SCORE && profile == Profile::Official {
                let sum = |of: fn(&Grades) -> u64| runs.iter().map(of).sum();
                value.counts = BTreeMap::from([
                    ("correct".to_owned(), sum(|grades| grades.correct)),
                    ("incorrect".to_owned(), sum(|grades| grades.incorrect)),
                    ("not_attempted".to_owned(), sum(|grades| grades.not_attempted)),
                ]);
                if group.is_empty() {
                    value.counts.insert("blocked".to_owned(), tally.blocked);
                    value.counts.insert("judge_error".to_owned(), tally.judge_errors);
                }
            }
            found.push(value);
        }
    }
    found
}

fn calibration(tally: &Tally) -> Vec<MetricValue> {
    let name = tally.condition.name();
    let mut found = Vec::new();
    for (middle, bin) in tally.calibration.bins() {
        let percent = |share: Option<f64>| share.map(|share| share * 100.0);
        let mut accuracy =
            figure(ACCURACY, name, tags("confidence", &middle), percent(bin.accuracy()), bin.n);
        accuracy.counts = BTreeMap::from([("correct".to_owned(), bin.correct)]);
        found.push(accuracy);
        found.push(figure(CONFIDENCE, name, tags("confidence", &middle), percent(bin.confidence()), bin.n));
    }
    let error = tally.calibration.error().map(|error| error * 100.0);
    let mut error = figure(CALIBRATION_ERROR, name, Tags::new(), error, tally.calibration.n());
    error.counts = BTreeMap::from([("unreadable".to_owned(), tally.unstated)]);
    found.push(error);
    found
}

/// CO of composite questions by condition, the causes of wrong answers that the questions asked tell, and each item.
fn composites(items: &BTreeMap<String, Composite>, asks_atomic: bool, asks_hinted: bool) -> Vec<MetricValue> {
    let conditions = [Condition::Original, Condition::Atomic, Condition::Hinted];
    let mut found = Vec::new();
    for (at, condition) in conditions.into_iter().enumerate() {
        let graded = items.values().filter_map(|item| *item.get(at)?);
        let (right, n) =
            graded.fold((0, 0), |(right, n), grade| (right + u64::from(grade == Grade::Correct), n + 1));
        if n > 0 {
            let value = Some(right as f64 / n as f64 * 100.0);
            let mut value = figure(CFQ_CORRECT, condition.name(), Tags::new(), value, n);
            value.counts = BTreeMap::from([("correct".to_owned(), right)]);
            found.push(value);
        }
    }
    let right = |grade: Option<Grade>| grade.map(|grade| grade == Grade::Correct);
    let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
    let mut wrong = 0;
    let mut each = Vec::new();
    for (sample, [original, atomic, hinted]) in items {
        let mut item = figure(CFQ_ITEM, CFQ, tags("item", &sample), None, 1);
        let graded = [("original", right(*original)), ("atomic", right(*atomic)), ("hinted", right(*hinted))];
        let known = graded.into_iter().filter_map(|(name, right)| Some((name.to_owned(), u64::from(right?))));
        item.counts = known.collect();
        // A question that is not asked shows no cause.
        let shown = |asks: bool, right: Option<bool>| if asks { right } else { Some(true) };
        if let (Some(false), Some(atomic), Some(hinted)) =
            (right(*original), shown(asks_atomic, right(*atomic)), shown(asks_hinted, right(*hinted)))
        {
            let cause = Cause::of(atomic, hinted);
            *causes.entry(cause).or_default() += 1;
            wrong += 1;
            item.group.insert("cause".to_owned(), cause.name().to_owned());
        }
        each.push(item);
    }
    for cause in Cause::ALL.into_iter().filter(|cause| cause.shows(asks_atomic, asks_hinted)) {
        let count = causes.get(&cause).copied().unwrap_or_default();
        let share = (wrong > 0).then(|| count as f64 / wrong as f64 * 100.0);
        let mut value = figure(ATTRIBUTION, CFQ, tags("cause", &cause.name()), share, wrong);
        value.counts = BTreeMap::from([("items".to_owned(), count)]);
        found.push(value);
    }
    // In the order of ids, which are numbers.
    each.sort_by_key(|item| item.group.get("item").and_then(|id| id.parse::<i64>().ok()));
    found.extend(each);
    found
}
