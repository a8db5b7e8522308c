//! Where the fields of an answer stand in a row: by the paths of a config, or as a tool writes them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Preset;
use crate::types::{Outcome, Usage, shown};

/// The names that a field map knows; every other name is a tag of the benchmark, such as `src` or `category`.
pub const FIELDS: [&str; 9] =
    ["id", "row", "question", "reference", "answer", "condition", "benchmark", "finish", "error"];

/// Our names of fields, each with the path at which a row has it: keys joined by dots, numbers for places in lists.
pub type FieldMap = BTreeMap<String, String>;

/// What `AudioBench` writes in place of an answer when the model's call failed.
const AUDIOBENCH_FAILED: &str = "Dummy model generation.";

/// Begins a text that Inspect keeps elsewhere in the sample.
const ATTACHMENT: &str = "attachment://";

/// The fields of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields {
    pub(super) id: Option<String>,
    /// The place of the sample's row in the data, from 0.
    pub(super) row: Option<u64>,
    pub(super) question: Option<String>,
    pub(super) references: Vec<String>,
    pub(super) condition: Option<String>,
    pub(super) benchmark: Option<String>,
    /// The values of the tags, in the order of [`Reader::tags`].
    pub(super) tags: Vec<Option<String>>,
    pub(super) outcome: Option<Outcome>,
    /// The sentence of a failure.
    pub(super) failed: Option<String>,
    pub(super) text: Option<String>,
    pub(super) usage: Usage,
    /// From 1, where answers are repeated.
    pub(super) epoch: Option<u64>,
}

/// Reads the fields of rows.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    preset: Option<Preset>,
    fields: FieldMap,
    tags: Vec<String>,
}

impl Reader {
    /// For rows of a tool, with paths that replace its own.
    pub(super) fn new(preset: Option<Preset>, fields: &FieldMap) -> Self {
        let mut tags: Vec<String> =
            fields.keys().filter(|name| !FIELDS.contains(&name.as_str())).cloned().collect();
        if preset == Some(Preset::Ccfqa) {
            tags.extend(["src", "tgt"].map(str::to_owned));
        }
        tags.sort_unstable();
        tags.dedup();
        Self { preset, fields: fields.clone(), tags }
    }

    /// The tags that answers are told apart by.
    pub(super) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Whether rows may have a field.
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
            || match self.preset {
                None => false,
                Some(Preset::Ccfqa) => matches!(field, "id" | "question" | "reference"),
                Some(Preset::AudioBench) => matches!(field, "question" | "reference"),
                Some(Preset::LmmsEval) => matches!(field, "id" | "row" | "question" | "reference"),
                Some(Preset::Inspect) => matches!(field, "id" | "row" | "question" | "reference" | "error"),
            }
    }

    /// The key of the list of samples, where a file may be one object.
    pub(super) fn list(&self) -> Option<&'static str> {
        match self.preset? {
            Preset::AudioBench => Some("details"),
            Preset::Inspect => Some("samples"),
            Preset::Ccfqa | Preset::LmmsEval => None,
        }
    }

    /// How the answer's field is called, for sentences.
    pub(super) fn answer_name(&self) -> &str {
        let of_preset = match self.preset {
            None => "answer",
            Some(Preset::Ccfqa) => "lang_a",
            Some(Preset::AudioBench) => "model_prediction",
            Some(Preset::LmmsEval) => "resps",
            Some(Preset::Inspect) => "output",
        };
        self.fields.get("answer").map_or(of_preset, String::as_str)
    }

    /// The fields of a row. The error says what is wrong with it.
    pub(super) fn read(&self, row: &Value) -> Result<Fields, String> {
        let mut found = match self.preset {
            None => Fields::default(),
            Some(Preset::Ccfqa) => ccfqa(row, &self.tags),
            Some(Preset::AudioBench) => audiobench(row),
            Some(Preset::LmmsEval) => lmms_eval(row)?,
            Some(Preset::Inspect) => inspect(row),
        };
        found.tags.resize(self.tags.len(), None);
        for (name, path) in &self.fields {
            let value = at(row, path);
            let text = || value.and_then(scalar);
            match name.as_str() {
                "id" => found.id = text(),
                "row" => {
                    let number = text().map(|text| {
                        text.trim().parse().map_err(|_| format!("`{path}` must be a whole number from 0"))
                    });
                    found.row = number.transpose()?;
                }
                "question" => found.question = text(),
                "reference" => found.references = value.map(texts).unwrap_or_default(),
                "condition" => found.condition = text(),
                "benchmark" => found.benchmark = text(),
                "finish" => found.outcome = text().map(|reason| outcome_of(&reason)).transpose()?,
                "error" => found.failed = text().filter(|text| !text.trim().is_empty()),
                "answer" => found.text = text(),
                tag => {
                    let at = self.tags.iter().position(|known| known == tag);
                    if let Some(place) = at.and_then(|at| found.tags.get_mut(at)) {
                        *place = text();
                    }
                }
            }
        }
        Ok(found)
    }
}

/// The value at a path: a key as it stands, else keys and places in lists joined by dots. Null is nothing.
fn at<'a>(row: &'a Value, path: &str) -> Option<&'a Value> {
    let whole = row.get(path);
    let value = whole.or_else(|| {
        path.split('.').try_fold(row, |value, key| match value {
            Value::Array(list) => list.get(key.parse::<usize>().ok()?),
            other => other.get(key),
        })
    });
    value.filter(|value| !value.is_null())
}

/// A text, a number or a truth value as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text, or a list of texts.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().filter_map(scalar).collect(),
        other => scalar(other).into_iter().collect(),
    }
}

/// The first of these keys that has a text; of an object, its `text`.
fn first(row: &Value, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| {
        let value = row.get(*key)?;
        scalar(value.get("text").unwrap_or(value))
    })
}

/// The outcome of an answer by the reason for which it ended, in the words of servers and tools.
fn outcome_of(reason: &str) -> Result<Outcome, String> {
    match reason.trim().to_lowercase().as_str() {
        "" | "ok" | "stop" | "eos" | "end_turn" | "stop_sequence" | "empty" => Ok(Outcome::Ok),
        "length" | "max_tokens" | "model_length" => Ok(Outcome::Length),
        "content_filter" | "safety" | "refusal" => Ok(Outcome::ContentFilter),
        _ => Err(format!(
            "the answer's end `{}` is not known: expected stop, length or content_filter, in the words of a server",
            shown(reason)
        )),
    }
}

/// A row of the authors' `*_test_x.jsonl`: a row of the crossed data, with `lang_a` added.
fn ccfqa(row: &Value, tags: &[String]) -> Fields {
    let src = first(row, &["src_lang", "lang"]);
    let tgt = first(row, &["tgt_lang"]).or_else(|| src.clone());
    let question = first(row, &["src_q"])
        .or_else(|| first(row, &[&format!("{}_q", src.as_deref().unwrap_or_default())]));
    let tag = |name: &String| match name.as_str() {
        "src" => src.clone(),
        "tgt" => tgt.clone(),
        _ => None,
    };
    Fields {
        id: first(row, &["index", "id"]),
        question,
        references: row.get("tgt_a").map(texts).unwrap_or_default(),
        tags: tags.iter().map(tag).collect(),
        text: row.get("lang_a").and_then(scalar),
        ..Fields::default()
    }
}

/// An element of a log with predictions, or of the details of a judge's scores.
fn audiobench(row: &Value) -> Fields {
    let text = row.get("model_prediction").and_then(scalar);
    let failed = text.as_deref() == Some(AUDIOBENCH_FAILED);
    Fields {
        question: first(row, &["text", "instruction", "question"]),
        references: first(row, &["answer", "reference"]).into_iter().collect(),
        failed: failed.then(|| {
            format!(
                "AudioBench writes `{AUDIOBENCH_FAILED}` where the model's call failed: this is no answer"
            )
        }),
        text,
        ..Fields::default()
    }
}

/// A line of a samples file. The answer is the reply as it came, where it is kept, else what filters made of it.
fn lmms_eval(row: &Value) -> Result<Fields, String> {
    let only = |value: &Value| -> Result<Option<String>, String> {
        let mut value = value;
        while let Value::Array(list) = value {
            match list.as_slice() {
                [] => return Ok(None),
                [one] => value = one,
                [first, rest @ ..] if rest.iter().all(|other| other == first) => value = first,
                several => return Err(format!("holds {} different replies: one is expected", several.len())),
            }
        }
        match value {
            Value::String(text) => Ok(Some(text.clone())),
            Value::Null => Ok(None),
            _ => Err("holds likelihoods, not a reply in words".to_owned()),
        }
    };
    let reply = |key: &str| row.get(key).map(only).transpose().map_err(|e| format!("`{key}` {e}"));
    let text = match reply("resps")?.flatten() {
        Some(text) => Some(text),
        None => reply("filtered_resps")?.flatten(),
    };
    let number = row.get("doc_id").and_then(Value::as_u64);
    let input = row.get("input").or_else(|| row.pointer("/arguments/0"));
    Ok(Fields {
        id: row.get("doc_id").and_then(scalar),
        row: number,
        question: input.and_then(|input| texts(input).into_iter().next()),
        references: row.get("target").map(texts).unwrap_or_default(),
        text,
        ..Fields::default()
    })
}

/// A sample of a log.
fn inspect(row: &Value) -> Fields {
    let id = row.get("id").and_then(scalar);
    let output = row.get("output");
    let choice = output.and_then(|output| output.pointer("/choices/0"));
    let completion = output.and_then(|output| output.get("completion")).and_then(scalar);
    let text = choice.and_then(|choice| choice.pointer("/message/content")).map(content).or(completion);
    let reason = choice.and_then(|choice| choice.get("stop_reason")).and_then(Value::as_str);
    let failed = [row.pointer("/error/message"), output.and_then(|output| output.get("error"))];
    let tokens =
        |name: &str| output.and_then(|output| output.get("usage")?.get(name)?.as_u64()).unwrap_or_default();
    Fields {
        // Ids that Inspect gives itself count the rows from 1.
        row: row.get("id").and_then(Value::as_u64).and_then(|id| id.checked_sub(1)),
        id,
        question: row.get("input").map(|input| asked(row, input)),
        references: row.get("target").map(texts).unwrap_or_default(),
        outcome: Some(match reason {
            Some("max_tokens" | "model_length") => Outcome::Length,
            Some("content_filter") => Outcome::ContentFilter,
            _ => Outcome::Ok,
        }),
        failed: failed.into_iter().flatten().find_map(scalar),
        text: text.map(|text| attached(row, text)),
        usage: Usage {
            prompt_tokens: tokens("input_tokens"),
            audio_tokens: 0,
            completion_tokens: tokens("output_tokens"),
        },
        epoch: row.get("epoch").and_then(Value::as_u64),
        ..Fields::default()
    }
}

/// The text of a message: its content, or the text parts of it.
fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |part: &Value| {
                let text = part.get("type").and_then(Value::as_str) == Some("text");
                part.get("text").filter(|_| text).and_then(scalar)
            };
            parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// What was asked: the input, or the last message of it.
fn asked(row: &Value, input: &Value) -> String {
    let text = match input {
        Value::Array(messages) => {
            messages.last().and_then(|message| message.get("content")).map(content).unwrap_or_default()
        }
        other => scalar(other).unwrap_or_default(),
    };
    attached(row, text)
}

/// A text that stands in the sample's attachments, where it is the name of one.
fn attached(row: &Value, text: String) -> String {
    let kept = text.strip_prefix(ATTACHMENT).and_then(|name| row.get("attachments")?.get(name)?.as_str());
    kept.map_or(text, str::to_owned)
}
