//! CCFQA as Parquet: a row an utterance, to be put together to a row an item, as the authors' own `test.jsonl` has them.
//!
//! Column names are those that third-party loaders use; they are not verified, so several are looked for. Where the
//! authors' `jsonl/test.jsonl` lies beside the Parquet files, check texts against it with `harness data`.

use std::path::Path;

use serde_json::{Map, Value};

use super::{At, Look, Made, first, is_text, name_in, one, test, text};
use crate::prepare::PrepareError;
use crate::prepare::store::{Store, plain};

/// Two-letter codes and others for the codes of the benchmark.
const CODES: [(&str, &str); 10] = [
    ("zh", "cmn"),
    ("zho", "cmn"),
    ("en", "eng"),
    ("fr", "fra"),
    ("ja", "jpn"),
    ("ko", "kor"),
    ("ru", "rus"),
    ("es", "spa"),
    ("zh-yue", "yue"),
    ("zh-hk", "yue"),
];

pub(super) fn look(data: &Path) -> Result<Look, PrepareError> {
    // Rows as lines may lie beside them, for the recordings of the archive.
    if let Ok(dataset) = one(data, &["*.jsonl", "*.json"], "ccfqa")
        && !is_text(&dataset)
    {
        return Ok(test(dataset));
    }
    let dataset = one(data, &[], "ccfqa")?;
    if is_text(&dataset) {
        let sentence = format!(
            "{} names recordings that are files already (the layout of the archive): nothing needs to be prepared",
            dataset.index().display()
        );
        return Ok(Look::Nothing(sentence));
    }
    Ok(test(dataset))
}

pub(super) fn row(row: &Map<String, Value>, at: At<'_>, store: &mut Store) -> Result<Made, PrepareError> {
    let mut missing = Vec::new();
    let mut field = |what: &str, paths: &[&str]| {
        let found = first(row, paths).and_then(text);
        if found.is_none() {
            missing.push(what.to_owned());
        }
        found
    };
    let index = field("index", &["index", "id"]);
    let language = field("language", &["lang", "language", "src_lang"]).unwrap_or_default();
    let language = language.to_ascii_lowercase();
    let language =
        CODES.iter().find(|(code, _)| *code == language).map_or(language.as_str(), |(_, code)| code);
    let of = |suffix: &str| {
        let short = CODES.iter().find(|(_, code)| *code == language).map_or(language, |(short, _)| short);
        [format!("{language}_{suffix}"), format!("{short}_{suffix}")]
    };
    let (q, a) = (of("q"), of("a"));
    let question = field("question", &[&q[0], &q[1], "src_q", "question"]);
    let answer = field("answer", &[&a[0], &a[1], "src_a", "answer"]);
    let label = field("label", &["label", "category"]);
    if !missing.is_empty() {
        store.problems.push(format!("row {}: it has no {}", at.row, missing.join(", no ")));
    }
    let number = index.as_deref().and_then(|index| index.parse::<i64>().ok());
    // Items up to 999 came from one source, those from 1001 on from the other.
    let source = first(row, &["source"])
        .and_then(text)
        .or_else(|| number.map(|number| if number < 1000 { "mooc" } else { "mkqa" }.to_owned()));
    let index = index.unwrap_or_else(|| format!("row-{}", at.row));
    let audio = if let Some(name) = first(row, &["audio", "src_audio"]).and_then(name_in) {
        store.keep(name, &plain(&format!("{language}_{index}")))?
    } else {
        store.problems.push(format!("row {}: it has no recording", at.row));
        None
    };
    let mut entry = Map::new();
    entry.insert("audio".to_owned(), audio.map(|saved| saved.name).into());
    entry.insert("question".to_owned(), question.into());
    entry.insert("answer".to_owned(), answer.into());
    let mut out = Map::new();
    out.insert("index".to_owned(), number.map_or_else(|| Value::from(index.as_str()), Value::from));
    out.insert("source".to_owned(), source.into());
    out.insert("label".to_owned(), label.into());
    out.insert(language.to_owned(), Value::Object(entry));
    Ok(Made { row: Value::Object(out), key: format!("{index}\0{language}") })
}

/// Items of utterances, in the order of their index.
pub(super) fn join(rows: Vec<Value>, problems: &mut Vec<String>) -> Vec<Value> {
    let mut items: std::collections::BTreeMap<(i64, String), Map<String, Value>> =
        std::collections::BTreeMap::new();
    for row in rows {
        let Value::Object(row) = row else { continue };
        let index = row.get("index").cloned().unwrap_or_default();
        let key = (index.as_i64().unwrap_or(i64::MAX), index.to_string());
        let item = items.entry(key).or_default();
        for (name, value) in row {
            match item.get(&name) {
                None | Some(Value::Null) => {
                    item.insert(name, value);
                }
                Some(other) if *other != value && ["source", "label"].contains(&&*name) => {
                    problems.push(format!(
                        "item {index}: its {name} is {other} in one row and {value} in another"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    items.into_values().map(Value::Object).collect()
}
