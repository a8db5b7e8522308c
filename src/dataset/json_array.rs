//! A JSON file that holds one array of objects. It is cut into its elements without being held: an element that is
//! not valid JSON is an error of its own, and a file of many gigabytes takes the memory of its largest element.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use super::jsonl::{MAX_LINE, object};
use super::rows::{FileRows, Fingerprint, FingerprintKind};
use super::{DatasetError, Row, RowError, Unit};
use crate::media::ReadError;
use crate::types::Digest;

/// The elements of a file.
pub(super) struct JsonArrayRows {
    path: Arc<Path>,
    reader: BufReader<File>,
    hasher: blake3::Hasher,
    bytes: u64,
    row: u64,
    state: State,
    element: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the array.
    Before,
    /// In it.
    Inside,
    /// Behind it, or behind an error that nothing can follow.
    Done,
}

impl JsonArrayRows {
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        let file = File::open(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
        Ok(Self {
            path: path.into(),
            reader: BufReader::with_capacity(1 << 16, file),
            hasher: blake3::Hasher::new(),
            bytes: 0,
            row: 0,
            state: State::Before,
            element: Vec::new(),
        })
    }

    fn error(&self, message: impl Into<ReadError>) -> RowError {
        RowError::new(&self.path, self.row, Unit::Row, message)
    }

    /// The next bytes, up to the end of an element; `None` at the end of the file.
    fn element(&mut self) -> std::io::Result<Option<End>> {
        self.element.clear();
        let (mut depth, mut text, mut escaped) = (0_u64, false, false);
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let mut end = None;
            let mut taken = 0;
            for &byte in chunk {
                taken += 1;
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if text => escaped = true,
                    b'"' => text = !text,
                    _ if text => {}
                    b'[' if self.state == State::Before => {
                        // What stands in front of it is at most a byte order mark.
                        self.state = State::Inside;
                        self.element.clear();
                        continue;
                    }
                    b'[' | b'{' => depth += 1,
                    b']' if depth == 0 => end = Some(End::Array),
                    b',' if depth == 0 => end = Some(End::Element),
                    b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if end.is_some() {
                    break;
                }
                if self.element.len() <= MAX_LINE {
                    self.element.push(byte);
                }
            }
            self.hasher.update(chunk.get(..taken).unwrap_or_default());
            self.bytes += taken as u64;
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(end);
            }
        }
    }

    /// Reads the rest, for the fingerprint.
    fn drain(&mut self) {
        while let Ok(chunk) = self.reader.fill_buf() {
            let length = chunk.len();
            if length == 0 {
                break;
            }
            self.hasher.update(chunk);
            self.bytes += length as u64;
            self.reader.consume(length);
        }
    }
}

/// How an element ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Element,
    Array,
}

impl FileRows for JsonArrayRows {
    fn next_row(&mut self) -> Option<Result<Row, RowError>> {
        if self.state == State::Done {
            return None;
        }
        self.row += 1;
        let end = match self.element() {
            Ok(end) => end,
            Err(e) => {
                self.state = State::Done;
                return Some(Err(self.error(ReadError::system(&e))));
            }
        };
        if end != Some(End::Element) {
            self.state = State::Done;
            self.drain();
        }
        let blank = self.element.iter().all(u8::is_ascii_whitespace);
        if end.is_none() {
            return Some(Err(self.error("the file ends within its array: it is cut short; get it again")));
        }
        if blank && end == Some(End::Array) {
            return None;
        }
        let value = object(&self.element).map_err(|message| self.error(message));
        Some(value.map(|value| Row::new(&self.path, self.row, Unit::Row, value)))
    }

    fn fingerprint(&self) -> Fingerprint {
        let blake3 = Digest(*self.hasher.finalize().as_bytes());
        Fingerprint { kind: FingerprintKind::Content, bytes: self.bytes, blake3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(content: &str) -> Vec<Result<serde_json::Value, String>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.json");
        std::fs::write(&path, content).unwrap();
        let mut rows = JsonArrayRows::open(&path).unwrap();
        let got = std::iter::from_fn(|| rows.next_row());
        let got = got.map(|row| row.map(|row| row.value).map_err(|e| e.to_string())).collect();
        assert_eq!(rows.fingerprint().blake3, Digest::of(content.as_bytes()));
        got
    }

    #[test]
    fn elements_are_cut_where_they_end() {
        let got = rows("\u{feff}[ {\"a\": \"],{\\\"\"},\n {\"b\": [1, [2]], \"c\": {}} ]\n");
        assert_eq!(got.len(), 2);
        assert_eq!(got[0].as_ref().unwrap()["a"], "],{\"");
        assert_eq!(got[1].as_ref().unwrap()["b"][1][0], 2);
        assert!(rows("[]").is_empty());
    }

    #[test]
    fn a_bad_element_harms_no_other_and_a_cut_file_is_told() {
        let got = rows("[{\"a\": 1}, nonsense, {\"a\": 3}");
        assert_eq!(got.len(), 3);
        assert!(got[1].as_ref().unwrap_err().contains("row 2: not valid JSON"), "{got:?}");
        assert!(got[2].as_ref().unwrap_err().contains("ends within its array"), "{got:?}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(content in "\\[[\\[\\]{}\",\\\\a1: ]{0,60}") {
            rows(&content);
        }
    }
}
