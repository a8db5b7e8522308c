//! A row of `test.jsonl` as it is: strings raw, with their stray blanks, tabs and control characters.

use serde_json::{Map, Value};

/// What a row says of the item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// Unique within the data.
    pub(super) index: i64,
    /// Where the question came from: `mooc` or `mkqa`.
    pub(super) source: &'a str,
    /// Its topic.
    pub(super) label: &'a str,
}

/// What a row says in one language; a field that is missing or wrong is a sentence.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// The name of the clip.
    pub(super) audio: Result<&'a str, String>,
    /// The question.
    pub(super) question: Result<&'a str, String>,
    /// The one gold answer.
    pub(super) answer: Result<&'a str, String>,
}

impl<'a> Row<'a> {
    pub(super) fn read(row: &'a Value) -> Result<Self, String> {
        let row = object(row)?;
        let index = match row.get("index") {
            Some(value) => value
                .as_i64()
                .ok_or_else(|| format!("`index` must be a whole number, found {}", kind(value)))?,
            None => return Err("the row has no `index`: expected a whole number".to_owned()),
        };
        Ok(Self { index, source: string(row, "source", "source")?, label: string(row, "label", "label")? })
    }
}

impl<'a> Entry<'a> {
    pub(super) fn read(row: &'a Value, language: &str) -> Result<Self, String> {
        let entry = match object(row)?.get(language) {
            Some(Value::Object(entry)) => entry,
            Some(other) => {
                return Err(format!(
                    "`{language}` must be an object with `audio`, `question` and `answer`, found {}",
                    kind(other)
                ));
            }
            None => {
                return Err(format!(
                    "the row has no `{language}`: add it, or name the `languages` that the data have"
                ));
            }
        };
        let field = |name: &str| string(entry, name, &format!("{language}.{name}"));
        Ok(Self { audio: field("audio"), question: field("question"), answer: field("answer") })
    }
}

fn object(row: &Value) -> Result<&Map<String, Value>, String> {
    row.as_object().ok_or_else(|| format!("a row must be a JSON object, found {}", kind(row)))
}

/// A string that is there and not empty. `path` names it in sentences.
fn string<'a>(object: &'a Map<String, Value>, name: &str, path: &str) -> Result<&'a str, String> {
    match object.get(name) {
        Some(Value::String(text)) if text.is_empty() => Err(format!("`{path}` is empty")),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("`{path}` must be a string, found {}", kind(other))),
        None => Err(format!("the row has no `{path}`")),
    }
}

/// What a JSON value is, in words.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("{value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
