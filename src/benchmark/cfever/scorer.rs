//! Scoring a run: replies to labels and evidence, and these to figures.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::score::{Sheet, replies, scores_of};
use super::{Condition, written};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::judging::JudgeCall;
use crate::benchmark::{BenchmarkScores, ConditionCounts, Scorer};
use crate::metric::fever::reply::{self, Reply};
use crate::metric::fever::{Gold, Label, Prediction, Sentence, pages};
use crate::types::{Planned, Profile, Response};

/// The sets of the gold, in a planned request.
pub(super) const GOLD: &str = "gold";
/// Page and number of the sentences that are shown, by which the numbers of a reply are read.
pub(super) const SHOWN: &str = "shown";
/// The titles of the pages that were found.
pub(super) const PAGES: &str = "pages";
/// The claim.
pub(super) const CLAIM: &str = "claim";

/// What is counted of a condition.
struct State {
    condition: Condition,
    counts: ConditionCounts,
    sheet: Sheet,
    rules: BTreeMap<String, u64>,
    answers: u64,
    unparsed: u64,
    /// Answers about claims without gold.
    unlabelled: u64,
    /// The most sentences that were shown with a claim.
    most_shown: usize,
    /// Claims that should have been shown sentences and were shown none.
    bare: u64,
}

/// Scores of one section.
pub(super) struct CfeverScorer {
    states: Vec<State>,
    profile: Profile,
    /// The most sentences that may be shown.
    candidates: usize,
}

impl CfeverScorer {
    pub(super) fn new(conditions: &[Condition], profile: Profile, candidates: usize) -> Self {
        let state = |condition: &Condition| State {
            condition: *condition,
            counts: ConditionCounts::new(condition.name()),
            sheet: Sheet::default(),
            rules: BTreeMap::new(),
            answers: 0,
            unparsed: 0,
            unlabelled: 0,
            most_shown: 0,
            bare: 0,
        };
        Self { states: conditions.iter().map(state).collect(), profile, candidates }
    }
}

/// A list of sentences as [`SHOWN`] has it.
fn sentences(list: &Value) -> Vec<Sentence<'static>> {
    let sentence =
        |item: &Value| Some(Sentence::new(item.get(0)?.as_str()?.to_owned(), item.get(1)?.as_i64()?));
    list.as_array().into_iter().flatten().filter_map(sentence).collect()
}

fn told(planned: &Planned, name: &str) -> Option<Value> {
    serde_json::from_str(planned.judging.get(name)?).ok()
}

fn shown(planned: &Planned) -> Vec<Sentence<'static>> {
    told(planned, SHOWN).as_ref().map(sentences).unwrap_or_default()
}

fn gold(planned: &Planned) -> Option<Gold<'static>> {
    let label = Label::exact(planned.gold.first()?)?;
    let sets = told(planned, GOLD)?;
    let sets = sets.as_array()?.iter().map(sentences).collect();
    Some(Gold { label, sets })
}

/// What a reply says, the numbers of sentences turned into sentences.
fn prediction(reply: &Reply, shown: &[Sentence<'static>]) -> Prediction<'static> {
    let sentence = |number: &usize| shown.get(number.checked_sub(1)?).cloned();
    Prediction {
        label: written(reply.label).into(),
        evidence: reply.evidence.iter().filter_map(sentence).collect(),
    }
}

impl State {
    fn count(&mut self, rule: &str, n: u64) {
        if n > 0 {
            *self.rules.entry(rule.to_owned()).or_default() += n;
        }
    }

    fn add(&mut self, planned: &Planned, response: Option<&Response>) {
        self.counts.count(response.map(|response| response.outcome));
        let (gold, shown) = (gold(planned), shown(planned));
        self.most_shown = self.most_shown.max(shown.len());
        self.bare += u64::from(self.condition.has_evidence() && shown.is_empty());
        // What a search found does not depend on the answer.
        if let Some(gold) = &gold {
            if self.condition.has_evidence() {
                self.sheet.add_shown(gold, &shown);
            }
            if let Some(found) = told(planned, PAGES) {
                let titles: Vec<&str> =
                    found.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                self.sheet.add_pages(|k| pages(gold, &titles, k));
            }
        }
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        let reply = reply::read(&response.text, shown.len());
        self.answers += 1;
        self.unparsed += u64::from(reply.label.is_none());
        self.count(reply.rule, 1);
        self.count("evidence: in another form", u64::from(reply.other_form));
        self.count("evidence: no number of a sentence", u64::from(reply.unknown));
        self.count("evidence: repeated", u64::from(reply.repeated));
        self.count("evidence: beyond the fifth", u64::from(reply.cut));
        match gold {
            Some(gold) => {
                let domain = planned.tags.get("domain").map(String::as_str);
                self.sheet.add(&gold, &prediction(&reply, &shown), reply.label, domain);
            }
            None => self.unlabelled += 1,
        }
    }
}

impl Scorer for CfeverScorer {
    fn add(&mut self, planned: &Planned, response: Option<&Response>, _calls: &[JudgeCall]) {
        let of = |state: &&mut State| planned.conditions.iter().any(|name| name == state.condition.name());
        if let Some(state) = self.states.iter_mut().find(of) {
            state.add(planned, response);
        }
    }

    fn finish(self: Box<Self>) -> BenchmarkScores {
        let (mut metrics, mut warnings) = (Vec::new(), Vec::new());
        for state in &self.states {
            let name = state.condition.name();
            metrics.extend(state.sheet.metrics(name, state.condition.has_evidence()));
            let mut counts = state.rules.clone();
            counts.insert("unparsed".to_owned(), state.unparsed);
            metrics.push(replies(name, counts, state.answers));
            if state.unparsed * 10 > state.answers {
                warnings.push(format!(
                    "{name}: {} of {} replies have no label that can be read; they count as wrong",
                    state.unparsed, state.answers
                ));
            }
            if state.bare > 0 {
                warnings.push(format!(
                    "{name}: {} of {} claims were shown no sentence, for their rows hold none: `harness prepare cfever` says \
                     which pages its dump lacks",
                    state.bare, state.counts.planned
                ));
            }
            if state.most_shown > 0 && state.most_shown < self.candidates {
                warnings.push(format!(
                    "{name}: no claim was shown more than {} sentences: the rows hold no more, though `max_candidates` is \
                     {} (harness prepare cfever --sentences)",
                    state.most_shown, self.candidates
                ));
            }
            if state.unlabelled > 0 {
                warnings.push(format!(
                    "{name}: {} answers are about claims without labels, and in no score: the authors score the test \
                     split, from the file that `harness export` writes",
                    state.unlabelled
                ));
            }
        }
        let counts = self.states.into_iter().map(|state| state.counts).collect();
        scores_of(self.profile, counts, metrics, warnings)
    }
}

/// A line of a submission. Without a readable label it holds one that is always wrong.
pub(super) fn submission_line(planned: &Planned, response: Option<&Response>) -> Value {
    let shown = shown(planned);
    let text = response.filter(|response| response.outcome.is_answer()).map(|response| &*response.text);
    let said = prediction(&reply::read(text.unwrap_or_default(), shown.len()), &shown);
    let evidence: Vec<Value> =
        said.evidence.iter().map(|sentence| json!([sentence.page, sentence.line])).collect();
    let mut line = Map::new();
    let id = planned.sample.parse::<i64>().map_or_else(|_| Value::from(&*planned.sample), Value::from);
    line.insert("id".to_owned(), id);
    if let Some(claim) = planned.judging.get(CLAIM) {
        line.insert("claim".to_owned(), Value::from(claim.as_str()));
    }
    line.insert("predicted_label".to_owned(), Value::from(&*said.label));
    line.insert("predicted_evidence".to_owned(), Value::from(evidence));
    Value::Object(line)
}
