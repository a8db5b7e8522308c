//! A row of SimpleVQA. The column of categories was never documented: objects, JSON and Python's way of writing a
//! dictionary are read, and what cannot be read is no category.

use serde_json::{Map, Value};

use super::Language;
use crate::types::shown;

/// What stands in a text field where the authors' pipeline failed.
const FAILED: [&str; 2] = ["答案解析失败", "访问异常，需重试"];

/// What a row asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: i64,
    /// The name of the image.
    pub(super) image: Option<String>,
    pub(super) language: Language,
    pub(super) question: String,
    pub(super) answer: String,
    /// The simpler question behind it and its answer, where there is one.
    pub(super) atomic: Option<(String, String)>,
    /// What the rows call task and domain.
    pub(super) task: Option<String>,
    pub(super) domain: Option<String>,
}

impl Row {
    /// Reads a row. `other` says that the data are not the published ones, whose ids tell the language.
    pub(super) fn read(row: &Value, other: bool) -> Result<Self, String> {
        let fields = row.as_object().ok_or("a row must be a JSON object")?;
        // The table of VLMEvalKit numbers the rows in another column.
        let named = fields.get("data_id").filter(|id| !id.is_null()).or_else(|| fields.get("index"));
        let id = match named {
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        let id = id.ok_or("`data_id` (or `index` where it is absent) must be a whole number")?;
        let question = text(fields, "question")?.ok_or("the row has no `question`")?;
        let answer = text(fields, "answer")?.ok_or("the row has no `answer`")?;
        let by_id = Language::of_id(id);
        let language = match text(fields, "language")? {
            None => by_id,
            Some(code) => Language::parse(&code)
                .ok_or_else(|| format!("`language` must be CN or EN, found `{}`", shown(&code)))?,
        };
        if language != by_id && !other {
            return Err(format!(
                "`language` is {} and data_id {id} is of the other half: published rows below {} are Chinese, the rest \
                 English; get the data again, or set `allow_other_data = true`",
                language.code(),
                Language::FIRST_ENGLISH
            ));
        }
        let usable = |text: Option<String>| text.filter(|text| !FAILED.contains(&text.trim()));
        let atomic = usable(text(fields, "atomic_question")?).zip(usable(text(fields, "atomic_fact")?));
        let categories = categories(fields.get("vqa_category"));
        let category = |name: &str| categories.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            id,
            image: image(fields.get("image")),
            language,
            question,
            answer,
            atomic,
            task: category("task_category"),
            domain: category("subject_category"),
        })
    }

    /// The atomic question and fact of an item whose question is another one.
    pub(super) fn composite(&self) -> Option<(&str, &str)> {
        let (question, fact) = self.atomic.as_ref()?;
        (question.trim() != self.question.trim()).then_some((question, fact))
    }
}

/// A text that is there and not empty.
fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        // An answer may have been written as a number.
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(format!("`{name}` must be a string")),
    }
}

/// The name of the image: as it is, or in the structure of the `datasets` library.
fn image(value: Option<&Value>) -> Option<String> {
    let name = match value? {
        Value::String(name) => name,
        Value::Object(fields) => ["bytes", "path"].iter().find_map(|key| fields.get(*key)?.as_str())?,
        _ => return None,
    };
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// The categories of a row: an object, or one as text in JSON or as Python writes it.
fn categories(value: Option<&Value>) -> Map<String, Value> {
    let found = match value {
        Some(Value::Object(fields)) => Some(fields.clone()),
        Some(Value::String(text)) => serde_json::from_str(text).ok().or_else(|| python_dictionary(text)),
        _ => None,
    };
    found.unwrap_or_default()
}

/// A dictionary of strings as Python writes it: `{'a': 'b', "c": "it's"}`. What stands in place of a string (`None`, `True`, a
/// number) is null: it is no category, and takes none from the others.
fn python_dictionary(text: &str) -> Option<Map<String, Value>> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut found = Map::new();
    while !rest.is_empty() {
        let (key, after) = python_string(rest)?;
        let after = after.trim_start().strip_prefix(':')?.trim_start();
        let (value, after) = match python_word(after) {
            Some(after) => (Value::Null, after),
            None => python_string(after).map(|(text, after)| (Value::String(text), after))?,
        };
        found.insert(key, value);
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(found)
}

/// What follows the word or number that a text begins with.
fn python_word(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    let rest = text.trim_start_matches(is_part);
    (rest.len() < text.len()).then_some(rest)
}

/// The string that a text begins with, as Python writes it, and what follows.
fn python_string(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((out, text.get(at + 1..)?)),
            '\\' => {
                let (at, escaped) = chars.next()?;
                let digits = match escaped {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                out.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'x' | 'u' | 'U' => {
                        let code = u32::from_str_radix(text.get(at + 1..at + 1 + digits)?, 16).ok()?;
                        // Half of a pair that stands alone is no character.
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    other => other,
                });
                for _ in 0..digits {
                    chars.next();
                }
            }
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn row(change: impl Fn(&mut Map<String, Value>)) -> Result<Row, String> {
        let mut row = json!({
            "data_id": 0, "image": "0.png", "language": "CN", "question": "q", "answer": "a",
            "atomic_question": "q2", "atomic_fact": "f", "vqa_category": {"task_category": "t"},
        });
        change(row.as_object_mut().unwrap());
        Row::read(&row, false)
    }

    #[test]
    fn rows_are_read_in_every_form_of_their_columns() {
        let plain = row(|_| {}).unwrap();
        assert_eq!((plain.id, plain.language, plain.task.as_deref()), (0, Language::Cn, Some("t")));
        assert_eq!(plain.composite(), Some(("q2", "f")));
        assert_eq!(row(|row| drop(row.insert("data_id".into(), json!("0")))).unwrap(), plain);
        for (categories, task) in [
            (json!("{\"task_category\": \"t\"}"), Some("t")),
            (json!("{'task_category': 't', 'x': \"it's\", 'y': 'a\\'b',}"), Some("t")),
            (json!("{}"), None),
            (json!("{'task_category': None}"), None),
            (json!("{'subject_category': None, 'n': -1.5e3, 'b': True, 'task_category': 't'}"), Some("t")),
            (json!("{'subject_category': None, 'task_category': '\\x74'}"), Some("t")),
            (json!("{'x': '\\u4e2d', 'task_category': '\\U00000074', 'y': 1}"), Some("t")),
            (json!("{'task_category': '\\x7', 'x': 'y'}"), None),
            (json!("{'x': {'y': 1}, 'task_category': 't'}"), None),
            (json!("anything"), None),
            (Value::Null, None),
            (json!(7), None),
        ] {
            let read = row(|row| drop(row.insert("vqa_category".into(), categories.clone()))).unwrap();
            assert_eq!(read.task.as_deref(), task, "{categories}");
        }
        let structure = json!({"bytes": "test.parquet#0.image", "path": null});
        let read = row(|row| drop(row.insert("image".into(), structure.clone()))).unwrap();
        assert_eq!(read.image.as_deref(), Some("test.parquet#0.image"));
        let same = row(|row| drop(row.insert("atomic_question".into(), json!(" q ")))).unwrap();
        assert_eq!(same.composite(), None);
        let failed = row(|row| drop(row.insert("atomic_fact".into(), json!("答案解析失败")))).unwrap();
        assert_eq!(failed.composite(), None);
    }

    #[test]
    fn rows_of_the_table_of_vlmevalkit_are_named_by_their_index() {
        let table = json!({"index": "1012", "image": "t.tsv#0.image", "question": "q", "answer": "a"});
        let read = Row::read(&table, true).unwrap();
        assert_eq!((read.id, read.language, read.task), (1012, Language::En, None));
        let both = json!({"index": 7, "data_id": 3, "question": "q", "answer": "a"});
        assert_eq!(Row::read(&both, true).unwrap().id, 3);
    }

    #[test]
    fn what_is_missing_or_in_the_wrong_half_is_named() {
        let error =
            |key: &str, value: Value| row(|row| drop(row.insert(key.into(), value.clone()))).unwrap_err();
        assert!(error("data_id", json!("x")).contains("must be a whole number"));
        assert!(error("data_id", Value::Null).contains("`data_id` (or `index` where it is absent) must be"));
        assert!(error("question", json!("")).contains("no `question`"));
        assert!(error("answer", json!([])).contains("`answer` must be a string"));
        assert!(error("language", json!("FR")).contains("must be CN or EN, found `FR`"));
        let long = error("language", json!("F".repeat(10_000)));
        assert!(long.len() < 250 && long.contains("(10000 characters)"), "{long}");
        assert!(error("language", json!("EN")).contains("data_id 0 is of the other half"));
        assert!(error("data_id", json!(1012)).contains("data_id 1012 is of the other half"));
        let other = json!({"data_id": 5000, "language": "CN", "question": "q", "answer": "a"});
        assert_eq!(Row::read(&other, true).unwrap().language, Language::Cn);
    }

    #[test]
    fn escapes_of_python_are_characters() {
        let read = |text| python_string(text).map(|(text, rest)| (text, rest.to_owned()));
        let is = |text: &str, rest: &str| Some((text.to_owned(), rest.to_owned()));
        assert_eq!(read(r"'a\'\xe9\u4e2d\U0001f600\n' b"), is("a'\u{e9}\u{4e2d}\u{1f600}\n", " b"));
        assert_eq!(read(r"'\ud800!'"), is("\u{fffd}!", ""));
        assert_eq!(read(r"'\u4e'"), None);
    }

    proptest! {
        #[test]
        fn any_text_of_categories_is_taken(text in "[{}'\":, a\\\\n]{0,30}") {
            let _ = categories(Some(&Value::String(text)));
        }

        #[test]
        fn strings_of_python_come_back(key in "[a-z]{1,5}", value in "[^\\\\'\\p{C}]{0,10}") {
            let written = format!("{{'{key}': '{value}'}}");
            let read = python_dictionary(&written).unwrap();
            prop_assert_eq!(read[&key].as_str(), Some(&*value));
        }
    }
}
