//! JSON Lines: one object a line, in UTF-8. A line that cannot be read is an error of its own; the rest goes on.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{DatasetError, Row, RowError};

/// The longest line that is read, in bytes. Longer ones are not rows of an index but embedded media.
const MAX_LINE: usize = 64 << 20;

/// The rows of a JSONL file, one at a time. Empty lines are passed over.
#[derive(Debug)]
pub struct JsonlRows {
    path: PathBuf,
    reader: BufReader<File>,
    line: u64,
    hasher: blake3::Hasher,
    bytes: u64,
    buffer: Vec<u8>,
    done: bool,
}

impl JsonlRows {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        let file = File::open(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(1 << 16, file),
            line: 0,
            hasher: blake3::Hasher::new(),
            bytes: 0,
            buffer: Vec::new(),
            done: false,
        })
    }

    /// Size and blake3 hash of what was read so far: of the whole file once the rows are at their end.
    pub fn fingerprint(&self) -> (u64, crate::types::Digest) {
        (self.bytes, crate::types::Digest(*self.hasher.finalize().as_bytes()))
    }

    /// What [`fingerprint`](Self::fingerprint) gives of the whole file, without reading rows.
    pub fn fingerprint_of(path: &Path) -> Result<(u64, crate::types::Digest), DatasetError> {
        let io = |source| DatasetError::Io { path: path.to_owned(), source };
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path).map_err(io)?).map_err(io)?;
        Ok((hasher.count(), crate::types::Digest(*hasher.finalize().as_bytes())))
    }

    fn error(&self, message: impl Into<String>) -> RowError {
        RowError { file: self.path.clone(), line: self.line, message: message.into() }
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
        if self.buffer.len() > MAX_LINE {
            return Err(self.error(format!("the line is longer than {} MiB", MAX_LINE >> 20)));
        }
        let text = std::str::from_utf8(&self.buffer)
            .map_err(|e| self.error(format!("not UTF-8 at byte {} of the line", e.valid_up_to() + 1)))?;
        let text = if self.line == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        match serde_json::from_str::<Value>(text) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(other) => Err(self.error(format!("expected a JSON object, found {}", kind_of(&other)))),
            Err(e) => Err(self.error(format!("not valid JSON at column {}: {}", e.column(), reason(&e)))),
        }
    }
}

impl Iterator for JsonlRows {
    type Item = Result<Row, RowError>;

    fn next(&mut self) -> Option<Self::Item> {
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
                    return Some(Err(self.error(format!("cannot be read: {e}"))));
                }
            }
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(self.parse().map(|value| Row { line: self.line, value }));
        }
        None
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
        JsonlRows::open(&path).unwrap().collect()
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
    fn fingerprint_is_that_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, "{}\n{}\n").unwrap();
        let mut rows = JsonlRows::open(&path).unwrap();
        assert_eq!(rows.by_ref().count(), 2);
        assert_eq!(rows.fingerprint(), (6, crate::types::Digest::of(b"{}\n{}\n")));
        assert_eq!(JsonlRows::fingerprint_of(&path).unwrap(), rows.fingerprint());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_to_the_end(content in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let lines = content.split(|&b| b == b'\n').count();
            proptest::prop_assert!(rows(&content).len() <= lines);
        }
    }
}
