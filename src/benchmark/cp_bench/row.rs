//! A row of CP-Bench. The published layout is not documented: nested or flat columns, with names that a config can
//! change.

use std::collections::BTreeMap;

use serde_json::Value;

/// The fields that a row may have, by our names; `[benchmark.fields]` gives them paths.
pub(super) const FIELDS: [&str; 6] = ["id", "audio", "question", "reference", "category", "set"];

/// Where a field stands when the config does not say it: this institute's nested and flat layouts, then a plain
/// manifest.
fn usual(field: &str) -> &'static [&'static str] {
    match field {
        "id" => &["id", "index", "other_attributes.id"],
        "audio" => &["context.audio", "audio", "context"],
        "question" => &["instruction.text", "question", "instruction"],
        "reference" => &["answer.text", "reference", "answer"],
        "category" => {
            &["category", "question_type", "other_attributes.category", "other_attributes.question_type"]
        }
        "set" => &["set", "other_attributes.set"],
        _ => &[],
    }
}

/// What a row asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: Option<String>,
    pub(super) audio: String,
    pub(super) question: String,
    pub(super) reference: String,
    /// `C`, `CP` or `DP`, where the data say it.
    pub(super) category: Option<String>,
    /// `long` or `short`, where the data say it.
    pub(super) set: Option<String>,
}

impl Row {
    /// Reads a row; `paths` are those of the config.
    pub(super) fn read(row: &Value, paths: &BTreeMap<String, String>) -> Result<Self, String> {
        let needed = |field: &str| {
            string(row, paths, field)?.ok_or_else(|| match paths.get(field) {
                Some(path) => format!("the row has no `{path}`, which the config names as its {field}"),
                None => format!(
                    "the row has no {field} (looked for {}): name the field under [benchmark.fields], for example \
                     {field} = \"{}\"",
                    usual(field).iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", "),
                    usual(field).first().unwrap_or(&field)
                ),
            })
        };
        Ok(Self {
            audio: needed("audio")?,
            question: needed("question")?,
            reference: needed("reference")?,
            id: string(row, paths, "id")?,
            category: string(row, paths, "category")?.map(|name| name.trim().to_uppercase()),
            set: string(row, paths, "set")?.map(|name| name.trim().to_lowercase()),
        })
    }
}

/// A field as text: a string or a whole number. Empty ones are not there.
fn string(row: &Value, paths: &BTreeMap<String, String>, field: &str) -> Result<Option<String>, String> {
    let given = paths.get(field).map(String::as_str);
    let candidates = given.as_ref().map_or_else(|| usual(field), std::slice::from_ref);
    let found = candidates.iter().find_map(|path| Some((path, at(row, path)?)));
    match found {
        None => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some((_, Value::Number(number))) if field != "audio" => Ok(Some(number.to_string())),
        Some((path, _)) => Err(format!("`{path}` must be a string")),
    }
}

/// The value at a path of keys joined by dots, unless it is null or, for a usual path, something else altogether.
fn at<'a>(row: &'a Value, path: &str) -> Option<&'a Value> {
    let value = path.split('.').try_fold(row, |value, key| value.get(key))?;
    // `context` is a clip in the flat layout and a struct in the nested one.
    (!value.is_null() && !value.is_object()).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_flat_and_plain_rows_are_read() {
        let nested = json!({"context": {"text": null, "audio": "a.wav"}, "instruction": {"audio": null, "text": "Q?"},
            "answer": {"audio": null, "text": "R"}, "other_attributes": {"question_type": "dp ", "id": 7}});
        let flat =
            json!({"context": "a.wav", "instruction": "Q?", "answer": "R", "category": "DP", "id": "7"});
        let plain = json!({"id": 7, "audio": "a.wav", "question": "Q?", "reference": "R", "category": "DP"});
        let none = BTreeMap::new();
        let expect = Row {
            id: Some("7".into()),
            audio: "a.wav".into(),
            question: "Q?".into(),
            reference: "R".into(),
            category: Some("DP".into()),
            set: None,
        };
        for row in [nested, flat, plain] {
            assert_eq!(Row::read(&row, &none).as_ref(), Ok(&expect), "{row}");
        }
    }

    #[test]
    fn fields_have_paths_and_what_is_missing_is_named() {
        let paths = BTreeMap::from([("audio".to_owned(), "clip.file".to_owned())]);
        let row = json!({"clip": {"file": "a.wav"}, "question": "Q?", "answer": "R", "set": "Long"});
        let read = Row::read(&row, &paths).unwrap();
        assert_eq!((read.audio.as_str(), read.set.as_deref()), ("a.wav", Some("long")));
        let error = Row::read(&json!({"question": "Q?"}), &paths).unwrap_err();
        assert_eq!(error, "the row has no `clip.file`, which the config names as its audio");
        let error = Row::read(&json!({"audio": "a.wav"}), &BTreeMap::new()).unwrap_err();
        assert!(error.contains("no question") && error.contains("`instruction.text`"), "{error}");
        let error = Row::read(&json!({"audio": ["a.wav"]}), &BTreeMap::new()).unwrap_err();
        assert_eq!(error, "`audio` must be a string");
    }
}
