//! JSON Lines: one object a line, in UTF-8. A line that cannot be read is an error of its own; the rest goes on.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::rows::{FileRows, Fingerprint, FingerprintKind};
use super::{DatasetError, Row, RowError, Unit};
use crate::media::ReadError;
use crate::types::Digest;

/// The longest line that is read, in bytes. Longer ones are not rows of an index but embedded media.
pub(super) const MAX_LINE: usize = 64 << 20;

/// The rows of a JSONL file, one at a time. Empty lines are passed over.
pub(super) struct JsonlRows {
    path: Arc<Path>,
    reader: BufReader<File>,
    line: u64,
    hasher: blake3::Hasher,
    bytes: u64,
    buffer: Vec<u8>,
    done: bool,
}

impl JsonlRows {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        let file = File::open(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
        Ok(Self {
            path: path.into(),
            reader: BufReader::with_capacity(1 << 16, file),
            line: 0,
            hasher: blake3::Hasher::new(),
            bytes: 0,
            buffer: Vec::new(),
            done: false,
        })
    }

    fn error(&self, message: impl Into<ReadError>) -> RowError {
        RowError::new(&self.path, self.line, Unit::Line, message)
    }

    /// Reads the next line into the buffer, without its end; `false` at the end of the file.
    fn read_line(&mut self) -> std::io::Result<bool> {
        self.buffer.clear();
        let mut read_any = false;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(read_any);
            }
            read_any = true;
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(chunk.len(), |at| at + 1);
            self.hasher.update(&chunk[..taken]);
            self.bytes += taken as u64;
            // An over-long line is read to its end but not kept.
            if self.buffer.len() <= MAX_LINE {
                self.buffer.extend_from_slice(&chunk[..end.unwrap_or(taken)]);
            }
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    fn parse(&self) -> Result<Value, RowError> {
        object(&self.buffer).map_err(|message| self.error(message))
    }
}

/// A JSON object out of bytes, or a sentence on what they are instead. A byte order mark is passed over.
pub(super) fn object(bytes: &[u8]) -> Result<Value, String> {
    if bytes.len() > MAX_LINE {
        return Err(format!("longer than {} MiB, which is no row but embedded media", MAX_LINE >> 20));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| format!("not UTF-8 at byte {} of the line", e.valid_up_to() + 1))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(other) => Err(format!("expected a JSON object, found {}", kind_of(&other))),
        Err(e) => Err(format!("not valid JSON at column {}: {}", e.column(), reason(&e))),
    }
}

impl FileRows for JsonlRows {
    fn next_row(&mut self) -> Option<Result<Row, RowError>> {
        while !self.done {
            self.line += 1;
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => {
                    self.done = true;
                    break;
                }
                Err(e) => {
                    // Nothing sensible can follow a read error.
                    self.done = true;
                    return Some(Err(self.error(ReadError::system(&e))));
                }
            }
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(self.parse().map(|value| Row::new(&self.path, self.line, Unit::Line, value)));
        }
        None
    }

    fn fingerprint(&self) -> Fingerprint {
        let blake3 = Digest(*self.hasher.finalize().as_bytes());
        Fingerprint { kind: FingerprintKind::Content, bytes: self.bytes, blake3 }
    }
}

/// serde's message without the position, which is said in our own words.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(content: &[u8]) -> Vec<Result<Row, RowError>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, content).unwrap();
        all(&mut JsonlRows::open(&path).unwrap())
    }

    fn all(rows: &mut JsonlRows) -> Vec<Result<Row, RowError>> {
        std::iter::from_fn(|| rows.next_row()).collect()
    }

    #[test]
    fn a_broken_line_is_an_error_of_its_own() {
        let got = rows(b"{\"a\":1}\n\n{\"a\":\r\n{\"a\":2}");
        assert_eq!(got.len(), 3);
        assert_eq!(got[0].as_ref().unwrap().line, 1);
        let error = got[1].as_ref().unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.message.starts_with("not valid JSON at column"), "{error}");
        assert_eq!(got[2].as_ref().unwrap().value["a"], 2, "the last line needs no newline");
    }

    #[test]
    fn byte_order_mark_control_characters_and_blanks_are_kept_or_passed_over() {
        let got = rows("\u{feff}{\"a\":\" x\\t\\b\"}\n  \n".as_bytes());
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].as_ref().unwrap().value["a"], " x\t\u{8}");
    }

    #[test]
    fn other_values_and_other_encodings_are_named() {
        let got = rows(b"[1]\n\"x\"\n{\"a\":\"\xff\"}\n");
        let messages = got.iter().map(|r| r.as_ref().unwrap_err().message.clone()).collect::<Vec<_>>();
        assert_eq!(messages[0], "expected a JSON object, found an array");
        assert_eq!(messages[1], "expected a JSON object, found a string");
        assert_eq!(messages[2], "not UTF-8 at byte 7 of the line");
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_without_being_held() {
        let mut content = vec![b'x'; MAX_LINE + (3 << 20)];
        content.extend_from_slice(b"\n{\"a\":1}\n");
        let got = rows(&content);
        let error = got[0].as_ref().unwrap_err();
        assert!(error.message.contains("longer than 64 MiB") && error.line == 1, "{error}");
        assert_eq!(got[1].as_ref().unwrap().value["a"], 1);
    }

    #[test]
    fn fingerprint_is_that_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, "{}\n{}\n").unwrap();
        let mut rows = JsonlRows::open(&path).unwrap();
        assert_eq!(all(&mut rows).len(), 2);
        let content = FingerprintKind::Content;
        let expected = Fingerprint { kind: content, bytes: 6, blake3: Digest::of(b"{}\n{}\n") };
        assert_eq!(rows.fingerprint(), expected);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_to_the_end(content in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let lines = content.split(|&b| b == b'\n').count();
            proptest::prop_assert!(rows(&content).len() <= lines);
        }
    }
}
