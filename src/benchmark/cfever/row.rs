//! A row of claims: as it is published, or with the pages and sentences that `harness prepare cfever` found for it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node::{Node, gold_sets};
use crate::metric::fever::{Gold, Label, Sentence};

/// A sentence that a model is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The title of its page.
    pub page: String,
    /// Its number there.
    pub line: i64,
    /// Its text.
    pub text: String,
}

/// A worked example that stands before the question: a claim of the train split, its label, and sentences with those
/// that it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shot {
    /// The claim's id in the train split.
    pub id: i64,
    /// The claim.
    pub claim: String,
    /// Its label.
    pub label: String,
    /// The sentences.
    #[serde(default)]
    pub candidates: Vec<Candidate>,
    /// The numbers, from 1, of those that it rests on.
    #[serde(default)]
    pub evidence: Vec<usize>,
}

/// What `retrieval` is in rows that hold worked examples and no sentences.
pub const NO_RETRIEVAL: &str = "none";

/// A row, as it is written and read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Where the pages come from: `published` or `own`; [`NO_RETRIEVAL`] where none were looked for.
    pub retrieval: String,
    /// The titles of the pages that were found, the best first.
    pub pages: Vec<String>,
    /// The sentences of these pages, the best first.
    pub bm25: Vec<Candidate>,
    /// The sentences of the gold, and others of the same pages; of an undecidable claim those that were found.
    #[serde(default)]
    pub oracle: Vec<Candidate>,
    /// Worked examples, the same in every row.
    #[serde(default)]
    pub shots: Vec<Shot>,
}

/// What a row says.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) claim: String,
    /// Absent in the test split, whose labels are not published.
    pub(super) gold: Option<Gold<'static>>,
    pub(super) domain: Option<String>,
    /// Absent in rows as they are published.
    pub(super) found: Option<Found>,
}

impl Row {
    pub(super) fn read(row: &Value) -> Result<Self, String> {
        let id = row.get("id").and_then(Value::as_i64).ok_or("the row has no `id` that is a whole number")?;
        let claim = row.get("claim").and_then(Value::as_str).filter(|claim| !claim.trim().is_empty());
        let claim = claim.ok_or_else(|| format!("row {id} has no `claim`"))?.to_owned();
        let gold = match row.get("label") {
            None | Some(Value::Null) => None,
            Some(label) => Some(gold(label, row.get("evidence")).map_err(|e| format!("row {id}: {e}"))?),
        };
        let found = match row.get("found") {
            None => None,
            // A list of the values alone would be read as well.
            Some(found) if !found.is_object() => {
                return Err(format!("row {id}: `found` is not what `harness prepare` writes: not an object"));
            }
            Some(found) => {
                let read = Found::deserialize(found);
                Some(
                    read.map_err(|e| format!("row {id}: `found` is not what `harness prepare` writes: {e}"))?,
                )
            }
        };
        let domain = row.get("domain").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { id, claim, gold, domain, found })
    }
}

fn gold(label: &Value, evidence: Option<&Value>) -> Result<Gold<'static>, String> {
    let found = label.as_str().and_then(Label::exact);
    let label =
        found.ok_or_else(|| format!("`label` is {label}; expected supports, refutes or NOT ENOUGH INFO"))?;
    let evidence = match evidence {
        Some(evidence) => node(evidence),
        None if label.is_verifiable() => return Err("there is no `evidence`".to_owned()),
        None => Node::List(Vec::new()),
    };
    Ok(Gold { label, sets: gold_sets(label, evidence)? })
}

/// A value as evidence is read from.
fn node(value: &Value) -> Node<'static> {
    match value {
        Value::Null => Node::Null,
        Value::Bool(value) => Node::Bool(*value),
        Value::Number(number) if number.is_u64() && !number.is_i64() => Node::Long,
        Value::Number(number) => {
            number.as_i64().map_or(Node::Float(number.as_f64().unwrap_or_default()), Node::Int)
        }
        Value::String(text) => Node::Text(Cow::Owned(text.clone())),
        Value::Array(items) => Node::List(items.iter().map(node).collect()),
        Value::Object(fields) => Node::Object { empty: fields.is_empty() },
    }
}

/// The gold of a row of claims, for those who look for evidence: the label, and the sentences by sets.
pub fn gold_of(row: &Value) -> Result<Option<Gold<'static>>, String> {
    Row::read(row).map(|row| row.gold)
}

/// The sentences of the sets, each once, in their order.
pub fn distinct<'a>(gold: &'a Gold<'_>) -> Vec<&'a Sentence<'a>> {
    let mut found: Vec<&Sentence<'_>> = Vec::new();
    for sentence in gold.sets.iter().flatten() {
        if !found.contains(&sentence) {
            found.push(sentence);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_shapes_of_evidence_are_read() {
        let row = json!({"id": 5, "claim": "甲", "label": "supports", "domain": "其他",
            "evidence": [[[9, 8, "甲湖", 0], [9, 8, "乙_(山)", 3]], [[1, 2, "丙", 7]]]});
        let read = Row::read(&row).unwrap();
        let gold = read.gold.unwrap();
        assert_eq!(gold.sets[0], [Sentence::new("甲湖", 0), Sentence::new("乙_(山)", 3)]);
        assert_eq!(distinct(&gold).len(), 3);
        for evidence in [json!([[54, null, null, null]]), json!([[[54, null, null, null]]]), json!([])] {
            let row = json!({"id": 5, "claim": "甲", "label": "NOT ENOUGH INFO", "evidence": evidence});
            assert_eq!(Row::read(&row).unwrap().gold.unwrap().sets, Vec::<Vec<Sentence<'_>>>::new());
        }
        let test = json!({"id": 5, "claim": "甲"});
        assert!(Row::read(&test).unwrap().gold.is_none());
    }

    #[test]
    fn wrong_rows_get_a_sentence() {
        let error = |row: Value| Row::read(&row).unwrap_err();
        assert!(error(json!({"claim": "x"})).contains("no `id`"));
        assert!(error(json!({"id": 1, "claim": " "})).contains("row 1 has no `claim`"));
        let with = |label: &str, evidence: Value| {
            error(json!({"id": 1, "claim": "x", "label": label, "evidence": evidence}))
        };
        assert!(with("SUPPORTS", json!([])).contains("`label` is \"SUPPORTS\"; expected supports"));
        assert!(
            with("refutes", json!([[1, 2, "p", 0]])).contains("set 1 of `evidence` holds a whole number")
        );
        assert!(with("refutes", json!([[[1, 2, "p"]]])).contains("a list of 3"));
        assert!(
            with("refutes", json!([[[1, 2, "p", "0"]]])).contains("a string as page and a string as line")
        );
        assert!(with("refutes", json!({})).contains("must be a list of sets, found an object"));
        assert!(error(json!({"id": 1, "claim": "x", "found": {"pages": 1}})).contains("`found` is not what"));
    }
}
