//! SimpleVQA: one Parquet file, images as base64 or as structs of the `datasets` library. The preview beside it holds
//! rows of it a second time.

use std::path::Path;

use serde_json::{Map, Value};

use super::{At, Look, Made, one, test, text};
use crate::benchmark::sources;
use crate::prepare::PrepareError;
use crate::prepare::store::{Store, plain};

pub(super) fn look(data: &Path) -> Result<Look, PrepareError> {
    let ignore = sources::sources("simplevqa")?.ignore;
    one(data, &ignore.iter().map(String::as_str).collect::<Vec<_>>(), "simplevqa").map(test)
}

pub(super) fn row(mut row: Map<String, Value>, at: At<'_>, store: &mut Store) -> Result<Made, PrepareError> {
    // The table of VLMEvalKit numbers the rows in another column.
    let id = row.get("data_id").and_then(text).or_else(|| row.get("index").and_then(text));
    if id.is_none() {
        store.problems.push(format!("row {}: it has neither data_id nor index", at.row));
    }
    let id = id.unwrap_or_else(|| format!("row-{}", at.row));
    if let Some(image) = row.get_mut("image") {
        let name = match image {
            Value::String(name) => Some(name.clone()),
            Value::Object(fields) => fields.get("bytes").or(fields.get("path")).and_then(text),
            _ => None,
        };
        let saved = if let Some(name) = name {
            store.keep(&name, &plain(&id))?
        } else {
            store.problems.push(format!("row {}: it has no image", at.row));
            None
        };
        *image = saved.map(|saved| saved.name).into();
    }
    Ok(Made { row: Value::Object(row), key: id })
}
