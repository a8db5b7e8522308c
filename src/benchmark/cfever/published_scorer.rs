//! What the published scorer makes of a malformed prediction: `fever_score` of CFEVER's `eval_sent_retrieval_rte.py`, run by
//! Python 3.
//!
//! It asks first whether `predicted_evidence` is there, then compares labels, and only where these are equal looks at the
//! form; then it counts precision and recall of claims with evidence. What it does not look at it counts as Python
//! compares things: `true` is 1, and `1.0` is 1.

use std::fmt;

use super::node::Node;
use crate::metric::fever::{CAP, Gold};

/// What it would have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// The run ends with this error.
    Stops(&'static str),
    /// The item is a sentence that is no evidence.
    Misses,
    /// The item is the sentence of the gold with this number.
    Counts(i64),
    /// It is not looked at.
    Passes,
    /// Its form is looked at and found to be right, and then nothing comes of it.
    Takes,
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stops(error) => write!(f, "the published scorer would have stopped here ({error})"),
            Self::Misses => f.write_str("the published scorer would have counted a miss"),
            Self::Counts(line) => write!(f, "the published scorer would have counted it as line {line}"),
            Self::Passes => f.write_str("the published scorer would not have looked at it"),
            Self::Takes => f.write_str("the published scorer would have let it pass"),
        }
    }
}

const ASSERTION: Published = Published::Stops("AssertionError");
const TYPE: Published = Published::Stops("TypeError");

impl Published {
    /// Of a prediction without `predicted_evidence`.
    pub(super) const NO_EVIDENCE: Self = ASSERTION;

    /// Of a label that is none, or not there, where `predicted_evidence` is there or not.
    pub(super) fn of_label(label: Option<&Node<'_>>, evidence: bool) -> Self {
        match label {
            _ if !evidence => ASSERTION,
            None => Self::Stops("KeyError"),
            // It has no `upper`.
            Some(_) => Self::Stops("AttributeError"),
        }
    }

    /// Of evidence that is no list. `right`: the label is.
    pub(super) fn of_evidence(evidence: &Node<'_>, gold: &Gold<'_>, right: bool) -> Self {
        let verifiable = gold.label.is_verifiable();
        match evidence {
            _ if !right && verifiable => TYPE,
            _ if !right => Self::Passes,
            // Without anything in it its form is not looked at; a list cannot be in it, nor a part be taken of it.
            Node::Text(text) if text.is_empty() && !verifiable => Self::Takes,
            Node::Object { empty: true } if !verifiable => Self::Takes,
            Node::Text(text) if !text.is_empty() => ASSERTION,
            // Characters and keys are no lists.
            Node::Object { empty: false } => ASSERTION,
            // It has no length, or there the empty one fails.
            _ => TYPE,
        }
    }

    /// Of a list of evidence whose item at `at` is no sentence. `raw`: the line.
    pub(super) fn of_items(items: &[Node<'_>], at: usize, gold: &Gold<'_>, right: bool, raw: &str) -> Self {
        if right && !items.iter().all(|item| has_form(item, raw)) {
            return ASSERTION;
        }
        if !gold.label.is_verifiable() || at >= CAP {
            return if right { Self::Takes } else { Self::Passes };
        }
        let Some(Node::List(parts)) = items.get(at) else { return Self::Misses };
        let [Node::Text(page), line] = parts.as_slice() else { return Self::Misses };
        let equal = |known: i64| match line {
            Node::Bool(value) => known == i64::from(*value),
            // No line of the gold is so long that its number is not exact.
            Node::Float(number) => known as f64 == *number,
            _ => false,
        };
        let mut sentences = gold.sets.iter().flatten();
        let same = sentences.find(|sentence| sentence.page == *page && equal(sentence.line));
        same.map_or(Self::Misses, |sentence| Self::Counts(sentence.line))
    }
}

/// Whether an item is to the scorer a list of a string and a whole number.
fn has_form(item: &Node<'_>, raw: &str) -> bool {
    let Node::List(parts) = item else { return false };
    match parts.as_slice() {
        [Node::Text(_), Node::Int(_) | Node::Long | Node::Bool(_)] => true,
        [Node::Text(_), Node::Float(number)] => number.abs() >= 1e18 && has_long_number(raw),
        _ => false,
    }
}

/// Whether a whole number of more than 18 digits stands in a line: our reader gives one of more than 64 bits as if it had
/// a fraction.
fn has_long_number(line: &str) -> bool {
    let bytes = line.as_bytes();
    let part = |byte: &&u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    let mut at = 0;
    while at < bytes.len() {
        let number = bytes.iter().skip(at).take_while(part).count();
        let text = line.get(at..at + number).unwrap_or_default().trim_start_matches('-');
        if text.len() > 18 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
        at += number.max(1);
    }
    false
}
