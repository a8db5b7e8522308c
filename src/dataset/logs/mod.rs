//! Logs of other tools to rows: what a model answered there. Beside the formats of datasets these are an object whose
//! key holds the list of samples, and Inspect's archives of one file a sample.
//!
//! Logs of Python programs hold `NaN` and `Infinity`, which JSON does not know: they are read as numbers.

mod archive;
mod finite;
mod object;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::format::{self, Format};
use super::jsonl::{MAX_LINE, object as json_object};
use super::{Dataset, DatasetError, Row, RowError, Unit};
use finite::Finite;

/// What a log says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHead {
    /// The model, where the log names one.
    pub model: Option<String>,
    /// Whether the log says that it ended before its end.
    pub unfinished: bool,
}

/// Takes the rows of a log, and those that cannot be read.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Result<Row, RowError>);

/// The rows of a log, one at a time. `list` is the key of the samples where the log may be one JSON object. Archives
/// are read where they are Inspect's.
pub fn log_rows(path: &Path, list: Option<&str>, visit: Visit<'_>) -> Result<LogHead, DatasetError> {
    let io = |source| DatasetError::Io { path: path.to_owned(), source };
    let mut head = Vec::new();
    File::open(path).map_err(io)?.take(4096).read_to_end(&mut head).map_err(io)?;
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
    if head.starts_with(b"PK\x03\x04") && list == Some(archive::LIST) {
        return archive::rows(path, visit);
    }
    let lines = path.extension().is_some_and(|suffix| suffix == "jsonl" || suffix == "ndjson");
    if let Some(list) = list.filter(|_| text.starts_with(b"{") && !lines) {
        return object::rows(path, list, visit);
    }
    if format::format(path)? == Format::Jsonl {
        return lines_of(path, visit);
    }
    Dataset::open(path, None)?.rows()?.for_each(visit);
    Ok(LogHead::default())
}

/// The lines of a JSONL file.
fn lines_of(path: &Path, visit: Visit<'_>) -> Result<LogHead, DatasetError> {
    let io = |source| DatasetError::Io { path: path.to_owned(), source };
    let file: Arc<Path> = path.into();
    let mut reader = BufReader::with_capacity(1 << 16, Finite::new(File::open(path).map_err(io)?));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        // What is longer than any row is read to its end and not kept.
        let read = reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line).map_err(io)?;
        if read == 0 {
            break;
        }
        if line.len() > MAX_LINE && line.last() != Some(&b'\n') {
            reader.skip_until(b'\n').map_err(io)?;
        }
        let content = line.strip_suffix(b"\n").unwrap_or(&line);
        if content.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        visit(match json_object(content) {
            Ok(value) => Ok(Row::new(&file, number, Unit::Line, value)),
            Err(message) => Err(RowError::new(path, number, Unit::Line, message)),
        });
    }
    Ok(LogHead::default())
}

/// The head of an Inspect log.
fn inspect_head(head: &Value) -> LogHead {
    let model = head.pointer("/eval/model").and_then(Value::as_str).map(str::to_owned);
    let status = head.get("status").and_then(Value::as_str);
    LogHead { model, unfinished: status.is_some_and(|status| status != "success") }
}

#[cfg(test)]
mod tests;
