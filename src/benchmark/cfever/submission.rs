//! Files of predictions in the authors' form, against gold rows: one object a line, `id`, `predicted_label` and
//! `predicted_evidence`, a flat list of `[page, line]`; or `predicted_pages` of a page retriever.
//!
//! Gold that stands in the predictions is never used. A malformed prediction is a sentence with its id, and with what
//! the published scorer would have made of it: it checks the form only where the label is right.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::node::{Node, gold_sets};
use super::published_scorer::Published;
use super::score::{Sheet, scores_of};
use crate::benchmark::{BenchmarkScores, SubmissionAdded, SubmissionFault, SubmissionScorer};
use crate::metric::fever::{Gold, Label, Prediction, Sentence, pages};
use crate::types::{Profile, shown};

/// The condition that figures of a submission have.
pub(super) const CONDITION: &str = "predictions";

#[derive(Deserialize)]
struct GoldLine<'a> {
    id: i64,
    #[serde(borrow, default)]
    label: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    evidence: Option<Node<'a>>,
    #[serde(borrow, default)]
    domain: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct PredictionLine<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<Node<'a>>,
    #[serde(borrow, default, deserialize_with = "there")]
    predicted_label: Option<Node<'a>>,
    #[serde(borrow, default, deserialize_with = "there")]
    predicted_evidence: Option<Node<'a>>,
    #[serde(borrow, default, deserialize_with = "there")]
    predicted_pages: Option<Node<'a>>,
    #[serde(default)]
    label: Option<IgnoredAny>,
    #[serde(default)]
    evidence: Option<IgnoredAny>,
}

/// What a prediction is found by; reading the rest would take most of the time.
#[derive(Deserialize)]
struct IdLine<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<Node<'a>>,
}

/// What a gold row is found by.
#[derive(Deserialize)]
struct GoldIdLine {
    id: i64,
}

/// A key that is there, be it null.
fn there<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Node<'a>>, D::Error> {
    Node::deserialize(deserializer).map(Some)
}

fn whole(id: Option<&Node<'_>>) -> Result<i64, String> {
    match id {
        Some(Node::Int(id)) => Ok(*id),
        Some(other) => Err(format!("`id` must be a whole number, found {}", other.kind())),
        None => Err("the prediction has no `id`".to_owned()),
    }
}

fn read<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, String> {
    // A list of the values alone would be read as well, without a word of what is which.
    match line.trim_start().chars().next() {
        Some('{') => {}
        Some('[') => return Err("expected one object a line, found a list".to_owned()),
        _ => return Err("not a row of this form: expected one object a line".to_owned()),
    }
    serde_json::from_str(line).map_err(|e| format!("not a row of this form: {e}"))
}

/// A part that every prediction of a file has, or none: a row without it would fall out of its figures unnoticed.
#[derive(Debug, Default)]
struct Part {
    /// Whether there is a prediction with it.
    there: bool,
    /// The first prediction without it.
    without: Option<i64>,
}

impl Part {
    /// One prediction more. Gives one that lacks what another has: this one, or the first of those before it.
    fn lacking(&mut self, id: i64, there: bool) -> Option<i64> {
        if !there {
            self.without.get_or_insert(id);
            return self.there.then_some(id);
        }
        let is_first = !std::mem::replace(&mut self.there, true);
        self.without.filter(|_| is_first)
    }
}

fn lacks(id: i64, what: &str) -> SubmissionFault {
    SubmissionFault::Prediction(format!(
        "prediction of id {id}: there is no {what}, though others of this file have it: every prediction must have it, \
         or none"
    ))
}

/// Scores predictions as they come.
#[derive(Debug, Default)]
pub(super) struct Scorer {
    sheet: Sheet,
    /// Labels and evidence.
    labels: Part,
    pages: Part,
    /// Predictions that carry gold.
    carried: u64,
    /// Predictions of a label.
    labelled: u64,
    /// Of these, those that name sentences.
    with_evidence: u64,
}

impl SubmissionScorer for Scorer {
    fn gold_id(&self, line: &str) -> Result<i64, String> {
        read::<GoldIdLine>(line).map(|gold| gold.id)
    }

    fn id(&self, line: &str) -> Result<i64, String> {
        whole(read::<IdLine<'_>>(line)?.id.as_ref())
    }

    fn add(&mut self, gold: &str, raw: &str) -> Result<SubmissionAdded, SubmissionFault> {
        let gold = read::<GoldLine<'_>>(gold).map_err(SubmissionFault::Gold)?;
        let mut line = read::<PredictionLine<'_>>(raw).map_err(SubmissionFault::Prediction)?;
        let id = whole(line.id.as_ref()).map_err(SubmissionFault::Prediction)?;
        if id != gold.id {
            return Ok(SubmissionAdded::OtherId);
        }
        let domain = gold.domain.clone();
        let gold = labelled(gold).map_err(|e| SubmissionFault::Gold(format!("gold row {id}: {e}")))?;
        self.carried += u64::from(line.label.is_some() || line.evidence.is_some());
        let of_row =
            |problem: String| SubmissionFault::Prediction(format!("prediction of id {id}: {problem}"));
        let list = line.predicted_pages.take();
        let ranked = match &list {
            Some(list) => Some(titles(list).map_err(of_row)?),
            None => None,
        };
        let predicts = line.predicted_label.is_some() || line.predicted_evidence.is_some();
        match self.labels.lacking(id, predicts) {
            // Of this row itself `checked` says more.
            Some(other) if other == id => {}
            Some(other) => return Err(lacks(other, "`predicted_label`")),
            None => {
                if let Some(other) = self.pages.lacking(id, ranked.is_some()) {
                    return Err(lacks(other, "`predicted_pages`"));
                }
            }
        }
        // A page retriever predicts nothing else, in all of its file.
        if ranked.is_none() || self.labels.there {
            let prediction = checked(&gold, line, raw).map_err(of_row)?;
            self.labelled += 1;
            self.with_evidence += u64::from(!prediction.evidence.is_empty());
            let label = Label::upper(&prediction.label);
            self.sheet.add(&gold, &prediction, label, domain.as_deref());
        }
        if let Some(ranked) = ranked {
            self.sheet.add_pages(|k| pages(&gold, &ranked, k));
        }
        Ok(SubmissionAdded::Scored(id))
    }

    fn finish(self: Box<Self>) -> BenchmarkScores {
        let mut warnings = Vec::new();
        if self.carried > 0 {
            warnings.push(format!(
                "{} predictions carry `label` or `evidence`: they were left out, the gold file alone counts",
                self.carried
            ));
        }
        if self.labelled > 0 && self.with_evidence == 0 {
            warnings.push(
                "no prediction names a sentence: right undecidable claims alone make the FEVER Score, and naming nothing \
                 counts as a precision of 100. Answers to claims alone are no FEVER submission: the published FEVER Scores \
                 are of systems with evidence"
                    .to_owned(),
            );
        }
        let metrics = self.sheet.metrics(CONDITION, true);
        scores_of(Profile::Official, Vec::new(), metrics, warnings)
    }
}

fn labelled(line: GoldLine<'_>) -> Result<Gold<'_>, String> {
    let label = line.label.as_deref().ok_or("the row has no `label`: only labelled data can be scored")?;
    let label = Label::exact(label).ok_or_else(|| {
        format!("`label` is `{}`; expected supports, refutes or NOT ENOUGH INFO", shown(label))
    })?;
    let evidence = line.evidence.ok_or("the row has no `evidence`")?;
    Ok(Gold { label, sets: gold_sets(label, evidence)? })
}

fn titles<'a>(list: &'a Node<'a>) -> Result<Vec<&'a str>, String> {
    let Node::List(items) = list else {
        return Err(format!("`predicted_pages` must be a list of titles, found {}", list.kind()));
    };
    let title = |item: &'a Node<'a>| match item {
        Node::Text(title) => Ok(&**title),
        other => Err(format!("`predicted_pages` must hold titles, found {}", other.kind())),
    };
    items.iter().map(title).collect()
}

/// The prediction of a line, or what is wrong with it and what the published scorer would have made of that.
fn checked<'a>(gold: &Gold<'_>, line: PredictionLine<'a>, raw: &str) -> Result<Prediction<'a>, String> {
    let there = line.predicted_evidence.is_some();
    let label = match line.predicted_label {
        Some(Node::Text(label)) => label,
        other => {
            let published = Published::of_label(other.as_ref(), there);
            let problem = other.map_or_else(
                || "there is no `predicted_label`".to_owned(),
                |other| format!("`predicted_label` must be a string, found {}", other.kind()),
            );
            return Err(format!("{problem}; {published}"));
        }
    };
    let right = Label::upper(&label) == Some(gold.label);
    let items = match line.predicted_evidence {
        Some(Node::List(items)) => items,
        None => {
            let published = Published::NO_EVIDENCE;
            return Err(format!("there is no `predicted_evidence`: write [] for none; {published}"));
        }
        Some(other) => {
            let none = if other == Node::Null { ": write [] for none" } else { "" };
            let problem = format!("`predicted_evidence` must be a list, found {}{none}", other.kind());
            return Err(format!("{problem}; {}", Published::of_evidence(&other, gold, right)));
        }
    };
    if let Some((at, found)) = items.iter().enumerate().find_map(|(at, item)| Some((at, malformed(item)?))) {
        let published = Published::of_items(&items, at, gold, right, raw);
        return Err(format!(
            "item {} of `predicted_evidence` must be [page, line], a string and a whole number, found {found}; \
             {published}",
            at + 1
        ));
    }
    let evidence = items.into_iter().filter_map(sentence).collect();
    Ok(Prediction { label, evidence })
}

/// What an item is, where it is no sentence.
fn malformed(item: &Node<'_>) -> Option<String> {
    match item {
        Node::List(parts) => match parts.as_slice() {
            [Node::Text(_), Node::Int(_)] => None,
            [page, line] => Some(format!("[{}, {}]", page.kind(), line.kind())),
            parts => Some(format!("a list of {}", parts.len())),
        },
        other => Some(other.kind().to_owned()),
    }
}

fn sentence(item: Node<'_>) -> Option<Sentence<'_>> {
    let Node::List(parts) = item else { return None };
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next()) {
        (Some(Node::Text(page)), Some(Node::Int(line))) => Some(Sentence { page, line }),
        _ => None,
    }
}

#[cfg(test)]
#[path = "submission_tests.rs"]
mod tests;
