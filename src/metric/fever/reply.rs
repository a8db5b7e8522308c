//! What a language model's reply says of a claim: a label, and the numbers of the sentences that it rests on.
//!
//! Replies are asked for as a JSON object. Every reading names the rule that gave it, and counts what it passed over;
//! a reply that no rule reads has no label, which is wrong whatever the claim: it is never taken for "not enough
//! information", which would be right a third of the time.

use serde_json::{Map, Value};

use super::{CAP, Label};

/// The whole reply is the object.
pub const JSON: &str = "cfever:json";
/// The object stands in other text, or in a code fence.
pub const JSON_IN_TEXT: &str = "cfever:json_in_text";
/// The whole reply is the word of a label.
pub const BARE_LABEL: &str = "cfever:bare_label";
/// There is no object.
pub const NO_JSON: &str = "cfever:no_json";
/// The object has no label.
pub const NO_LABEL: &str = "cfever:no_label";
/// The label is none of the three.
pub const UNKNOWN_LABEL: &str = "cfever:unknown_label";
/// The reply ends while the model still thinks: what stands there is no answer.
pub const UNFINISHED: &str = "cfever:unfinished_thought";

/// Objects that are looked at, from the end of a reply.
const LOOKED_AT: usize = 64;

/// What a reply says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The label; `None` where it cannot be read.
    pub label: Option<Label>,
    /// The numbers of sentences, from 1, each once, at most five, the best first.
    pub evidence: Vec<usize>,
    /// The rule that read it, or that failed.
    pub rule: &'static str,
    /// Items of the evidence that hold numbers in another form than they were asked for.
    pub other_form: u32,
    /// Items of the evidence that are no number of a sentence.
    pub unknown: u32,
    /// Items that were there already.
    pub repeated: u32,
    /// Items beyond the fifth.
    pub cut: u32,
}

/// Reads a reply to a question with so many numbered sentences.
pub fn read(reply: &str, sentences: usize) -> Reply {
    let text = reply.rsplit("</think>").next().unwrap_or(reply).trim();
    let (object, rule) = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => (Some(object), JSON),
        _ => (last_object(text), JSON_IN_TEXT),
    };
    if rule != JSON && text.contains("<think>") {
        return Reply { rule: UNFINISHED, ..Reply::default() };
    }
    let Some(object) = object else {
        let label = label(text);
        let rule = if label.is_some() { BARE_LABEL } else { NO_JSON };
        return Reply { label, rule, ..Reply::default() };
    };
    let mut found = Reply { rule, ..Reply::default() };
    match field(&object, "label") {
        None | Some(Value::Null) => found.rule = NO_LABEL,
        Some(Value::String(word)) => found.label = label(word),
        Some(_) => {}
    }
    if found.label.is_none() && found.rule == rule {
        found.rule = UNKNOWN_LABEL;
    }
    match field(&object, "evidence") {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => items.iter().for_each(|item| found.add(item, sentences)),
        Some(item) => found.add(item, sentences),
    }
    found
}

impl Reply {
    fn add(&mut self, item: &Value, sentences: usize) {
        if let Some(number) = number(item) {
            return self.add_number(number, sentences);
        }
        match numbers(item) {
            None => self.unknown += 1,
            Some(numbers) => {
                self.other_form += 1;
                for number in numbers {
                    self.add_number(number, sentences);
                }
            }
        }
    }

    fn add_number(&mut self, number: u64, sentences: usize) {
        let number = usize::try_from(number).ok();
        match number.filter(|number| (1..=sentences).contains(number)) {
            None => self.unknown += 1,
            Some(number) if self.evidence.contains(&number) => self.repeated += 1,
            Some(_) if self.evidence.len() >= CAP => self.cut += 1,
            Some(number) => self.evidence.push(number),
        }
    }
}

/// The number of an item in the form that was asked for.
fn number(item: &Value) -> Option<u64> {
    match item {
        Value::Number(number) => number.as_u64(),
        // `3` and `[3]`, as the prompt writes it before each sentence.
        Value::String(text) => text.trim().trim_start_matches('[').trim_end_matches(']').trim().parse().ok(),
        _ => None,
    }
}

/// The numbers of an item in another form that can mean nothing else: `2.0`, a list of one, a string of several. Where a
/// part of it is no number it has none.
fn numbers(item: &Value) -> Option<Vec<u64>> {
    match item {
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
            (0.0..=1e6).contains(&number).then(|| vec![number as u64])
        }
        Value::String(text) => text.split([',', '，', '、', ';', '；']).map(numbered).collect(),
        Value::Array(items) => match items.as_slice() {
            [Value::Array(_)] => None,
            [one] => number(one).map(|number| vec![number]).or_else(|| numbers(one)),
            _ => None,
        },
        _ => None,
    }
}

/// A number with the signs of a list around it, or with the prompt's word for it: `[3]`, `3.`, `３`, `編號3`.
fn numbered(text: &str) -> Option<u64> {
    let edge = |c: char| c.is_whitespace() || ['[', ']', '［', '］', '【', '】', ':', '：'].contains(&c);
    let text = text.trim_matches(edge);
    let text = text.strip_prefix("編號").or_else(|| text.strip_prefix("编号")).unwrap_or(text);
    let text = text.trim_matches(edge);
    let text = text.strip_suffix(['.', '．', '。']).unwrap_or(text);
    let digit = |c: char| match c {
        '0'..='9' => Some(c),
        '０'..='９' => char::from_u32(u32::from(c) - u32::from('０') + u32::from('0')),
        _ => None,
    };
    text.chars().map(digit).collect::<Option<String>>()?.parse().ok()
}

/// A field, its name in any case.
fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        object.iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value)
    })
}

/// The last object of a text that has a label; else the last one.
fn last_object(text: &str) -> Option<Map<String, Value>> {
    let mut last = None;
    for (at, _) in text.rmatch_indices('{').take(LOOKED_AT) {
        let rest = text.get(at..).unwrap_or_default();
        let value = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next();
        let Some(Ok(Value::Object(object))) = value else { continue };
        if field(&object, "label").is_some() {
            return Some(object);
        }
        last = last.or(Some(object));
    }
    last
}

/// The label that a text stands for: one of the data in any case, with or without the Chinese word in brackets that the
/// prompt has behind each, or that word alone. Nothing else may stand there: a list of the choices is no answer.
pub fn label(text: &str) -> Option<Label> {
    let Some((before, within)) = text.split_once(['(', '（']) else { return word(text) };
    let label = word(before)?;
    // Of the same label, and the last thing that is said.
    (word(within) == Some(label)).then_some(label)
}

/// The label of a word; signs around it do not count.
fn word(text: &str) -> Option<Label> {
    let edge = |c: char| c.is_whitespace() || (!c.is_alphanumeric() && c != '_');
    let word = text.trim_matches(edge).to_lowercase().replace(['_', '-'], " ");
    match &*word.split_whitespace().collect::<Vec<_>>().join(" ") {
        "supports" | "support" | "supported" | "支持" => Some(Label::Supports),
        "refutes" | "refute" | "refuted" | "反駁" | "反驳" => Some(Label::Refutes),
        "not enough info" | "not enough information" | "nei" | "資訊不足" | "资讯不足" | "信息不足" => {
            Some(Label::NotEnoughInfo)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, label: Option<Label>, evidence: &[usize], rule: &str) {
        let found = read(text, 12);
        assert_eq!((found.label, &*found.evidence, found.rule), (label, evidence, rule), "{text}");
    }

    #[test]
    fn replies_are_read_by_named_rules() {
        let (s, r, n) = (Some(Label::Supports), Some(Label::Refutes), Some(Label::NotEnoughInfo));
        check(r#"{"label": "supports", "evidence": [3, 1]}"#, s, &[3, 1], JSON);
        check(r#" {"Label": " REFUTES ", "evidence": 2} "#, r, &[2], JSON);
        check(r#"{"label": "refutes（反駁）", "evidence": ["[4]", "5"]}"#, r, &[4, 5], JSON);
        check(r#"{"label": "NOT_ENOUGH_INFO", "evidence": null}"#, n, &[], JSON);
        check(r#"{"label": "資訊不足"}"#, n, &[], JSON);
        check("```json\n{\"label\": \"NOT ENOUGH INFO\", \"evidence\": []}\n```", n, &[], JSON_IN_TEXT);
        check(r#"<think>{"label": "supports"}</think>{"label": "refutes"}"#, r, &[], JSON);
        check(r#"first {"label": "supports"}, then {"label": "refutes"} {}"#, r, &[], JSON_IN_TEXT);
        check("答案：{\"label\": \"supports\", \"evidence\": [1]}。", s, &[1], JSON_IN_TEXT);
        check("支持。", s, &[], BARE_LABEL);
        check("\"refutes\"", r, &[], BARE_LABEL);
        check("It supports the claim", None, &[], NO_JSON);
        check("", None, &[], NO_JSON);
        check("{\"label\": \"supports\"", None, &[], NO_JSON);
        check(r#"{"evidence": [1]}"#, None, &[1], NO_LABEL);
        check(r#"{"label": null}"#, None, &[], NO_LABEL);
        check(r#"{"label": "maybe"}"#, None, &[], UNKNOWN_LABEL);
        check(r#"{"label": ["supports"]}"#, None, &[], UNKNOWN_LABEL);
    }

    #[test]
    fn a_list_of_the_choices_is_no_answer() {
        let choices = "supports（支持）、refutes（反駁）、NOT ENOUGH INFO（資訊不足）";
        check(choices, None, &[], NO_JSON);
        check(&format!("{{\"label\": \"{choices}\"}}"), None, &[], UNKNOWN_LABEL);
        check("supports（支持）或refutes（反駁）", None, &[], NO_JSON);
        check("supports（反駁）", None, &[], NO_JSON);
        check("supports (or refutes)", None, &[], NO_JSON);
        check("supports / refutes / NOT ENOUGH INFO", None, &[], NO_JSON);
        check("refutes（反駁）。", Some(Label::Refutes), &[], BARE_LABEL);
        check("反駁 (refutes)", Some(Label::Refutes), &[], BARE_LABEL);
        check("（支持）", None, &[], NO_JSON);
    }

    #[test]
    fn a_thought_that_does_not_end_is_no_answer() {
        let cut = r#"<think>The label may be {"label": "supports", "evidence": [4]} but"#;
        check(cut, None, &[], UNFINISHED);
        check("<think>supports", None, &[], UNFINISHED);
        check(&format!("first.</think> {cut}"), None, &[], UNFINISHED);
        check(&format!("{cut}</think>supports"), Some(Label::Supports), &[], BARE_LABEL);
        let within = r#"{"label": "supports", "evidence": [1], "why": "<think>"}"#;
        check(within, Some(Label::Supports), &[1], JSON);
    }

    #[test]
    fn what_is_passed_over_is_counted() {
        let reply =
            r#"{"label": "supports", "evidence": [1, 13, 0, -2, 1.5, "x", [2], 2, 2, 3, 4, 5, 6, 7]}"#;
        let found = read(reply, 12);
        assert_eq!(found.evidence, [1, 2, 3, 4, 5]);
        assert_eq!((found.unknown, found.repeated, found.cut), (5, 2, 2));
    }

    #[test]
    fn numbers_in_another_form_are_read_and_counted() {
        let read = |evidence: &str| {
            let found = read(&format!(r#"{{"label": "supports", "evidence": {evidence}}}"#), 12);
            (found.evidence, found.other_form, found.unknown)
        };
        for (evidence, numbers, forms) in [
            (r#""1, 2""#, &[1, 2][..], 1),
            (r#""[1, 3]""#, &[1, 3], 1),
            (r#""1、[3]；4""#, &[1, 3, 4], 1),
            ("[[1], [2]]", &[1, 2], 2),
            (r#"[["2"], ["編號4"]]"#, &[2, 4], 2),
            ("[1.0, 2.0]", &[1, 2], 2),
            (r#"["１", "１２．"]"#, &[1, 12], 2),
            (r#"["2.", "编号3", "編號：[4]"]"#, &[2, 3, 4], 3),
            (r#"[1, "[2]", "3"]"#, &[1, 2, 3], 0),
        ] {
            assert_eq!(read(evidence), (numbers.to_vec(), forms, 0), "{evidence}");
        }
        for unknown in [
            r#""1 and 2""#,
            r#""1-3""#,
            r#""1.5""#,
            r#""甲, 1""#,
            r#""編號""#,
            r#""""#,
            "[[1, 2]]",
            "[[[1]]]",
            "[[]]",
            "[1.5]",
            "[true]",
            r#"[{"n": 1}]"#,
        ] {
            assert_eq!(read(unknown), (Vec::new(), 0, 1), "{unknown}");
        }
        assert_eq!(read(r#""1, 13""#), (vec![1], 1, 1), "the thirteenth was not shown");
    }

    proptest! {
        #[test]
        fn any_reply_gives_valid_numbers(text in "[\\PC]{0,60}|[{}\\[\\]\":,a-z0-9 ]{0,60}", sentences in 0usize..9) {
            let found = read(&text, sentences);
            prop_assert!(found.evidence.len() <= CAP);
            prop_assert!(found.evidence.iter().all(|number| (1..=sentences).contains(number)));
            let failed = [NO_JSON, NO_LABEL, UNKNOWN_LABEL, UNFINISHED].contains(&found.rule);
            prop_assert_eq!(found.label.is_none(), failed);
        }

        #[test]
        fn what_was_asked_for_is_read_back(
            label in prop::sample::select(&Label::ALL[..]),
            numbers in prop::collection::vec(1usize..20, 0..8),
            before in "[^{}]{0,20}", after in "[^{}]{0,20}",
        ) {
            let object = serde_json::json!({"label": label.as_str(), "evidence": numbers});
            let found = read(&format!("{before}{object}{after}"), 19);
            let mut expect: Vec<usize> = Vec::new();
            for number in numbers {
                if !expect.contains(&number) { expect.push(number); }
            }
            expect.truncate(CAP);
            prop_assert_eq!(found.label, Some(label));
            prop_assert_eq!(found.evidence, expect);
        }
    }
}
