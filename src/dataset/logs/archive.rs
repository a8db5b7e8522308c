//! Inspect's `.eval` logs: a ZIP archive with one JSON file a sample in `samples/`, and the head of the log beside them.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use zip::ZipArchive;
use zip::result::ZipError;

use super::finite::Finite;
use super::{LogHead, Visit, inspect_head};
use crate::dataset::{DatasetError, Row, RowError, Unit};
use crate::types::shown;

/// The key of the samples in Inspect's JSON logs.
pub(super) const LIST: &str = "samples";

/// Where the head stands: at the end of a finished log, and at the beginning of one that was begun.
const HEADS: [&str; 3] = ["header.json", "_journal/start.json", "start.json"];

/// The largest file of a sample, unpacked. Transcripts with recordings in them have some hundred megabytes.
const MOST: u64 = 4 << 30;

/// What is kept of a sample: not its transcript.
#[derive(Deserialize)]
struct Sample {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    epoch: Value,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    target: Value,
    #[serde(default)]
    output: Value,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    attachments: Value,
}

/// The samples of an archive, in its order.
pub(super) fn rows(path: &Path, visit: Visit<'_>) -> Result<LogHead, DatasetError> {
    let damaged = |e: &ZipError| DatasetError::Damaged { path: path.to_owned(), reason: sentence(e) };
    let open = File::open(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
    let mut archive = ZipArchive::new(BufReader::new(open)).map_err(|e| damaged(&e))?;
    let file: Arc<Path> = path.into();
    let head = HEADS.iter().find_map(|name| json::<Value>(archive.by_name(name).ok()?).ok());
    let Some(head) = head else {
        let reason = format!("an archive without {}, so no log of Inspect: unpack it", HEADS.join(" or "));
        return Err(DatasetError::Format { path: path.to_owned(), reason });
    };
    let mut number = 0;
    for at in 0..archive.len() {
        let entry = match archive.by_index(at) {
            Ok(entry) => entry,
            Err(e) => {
                // Its name is not known, so it may have been a sample.
                number += 1;
                visit(Err(RowError::new(path, number, Unit::Row, sentence(&e))));
                continue;
            }
        };
        let name = match entry.name() {
            Ok(name) => name.into_owned(),
            Err(e) => {
                number += 1;
                visit(Err(RowError::new(path, number, Unit::Row, sentence(&e))));
                continue;
            }
        };
        let sample = name.starts_with("samples/")
            && Path::new(&name).extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("json"));
        if !sample {
            continue;
        }
        number += 1;
        visit(match json::<Sample>(entry) {
            Ok(sample) => Ok(Row::new(&file, number, Unit::Row, value(sample))),
            Err(reason) => Err(RowError::new(path, number, Unit::Row, format!("{}: {reason}", shown(&name)))),
        });
    }
    Ok(inspect_head(&head))
}

fn value(sample: Sample) -> Value {
    let Sample { id, epoch, input, target, output, error, attachments } = sample;
    let fields = [
        ("id", id),
        ("epoch", epoch),
        ("input", input),
        ("target", target),
        ("output", output),
        ("error", error),
        ("attachments", attachments),
    ];
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn json<T: serde::de::DeserializeOwned>(entry: impl Read) -> Result<T, String> {
    let reader = BufReader::with_capacity(1 << 16, Finite::new(entry.take(MOST)));
    serde_json::from_reader(reader).map_err(|e| format!("cannot be read: {e}"))
}

fn sentence(error: &ZipError) -> String {
    match error {
        ZipError::UnsupportedArchive(what) => format!(
            "holds a file that is packed in a way that is not read ({what}): write the log anew as JSON, with `inspect log \
             convert`"
        ),
        other => format!("a damaged archive: {other}"),
    }
}
