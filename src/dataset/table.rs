//! CSV and TSV: the first line names the keys, every value is text. Fields in quotes may hold line breaks and be many
//! megabytes long, as images in base64 are.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::jsonl::MAX_LINE;
use super::rows::{FileRows, Fingerprint, FingerprintKind};
use super::{DatasetError, Row, RowError, Unit};
use crate::media::ReadError;
use crate::types::{Digest, shown};

/// What stands between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Comma,
    Tab,
}

impl Separator {
    fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Tab => b'\t',
        }
    }
}

/// Hashes what is read, and refuses to read on when a row has become too long: an open quote swallows the rest of a
/// file.
struct Watched {
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
    allowed: u64,
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes > self.allowed {
            // What is wrong is in the file: it will not pass.
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!(
                    "the row is longer than {} MiB: a quote that was opened is not closed",
                    MAX_LINE >> 20
                ),
            ));
        }
        let read = self.file.read(into)?;
        self.hasher.update(into.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

/// The rows of a table.
pub(super) struct TableRows {
    path: Arc<Path>,
    reader: csv::Reader<Watched>,
    header: Vec<String>,
    record: csv::ByteRecord,
    /// The number of the last row, the first line not counted.
    row: u64,
    done: bool,
}

impl TableRows {
    pub(super) fn open(path: &Path, separator: Separator) -> Result<Self, DatasetError> {
        let file = File::open(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
        let watched = Watched { file, hasher: blake3::Hasher::new(), bytes: 0, allowed: MAX_LINE as u64 };
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator.byte())
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(watched);
        let damaged = |reason| DatasetError::Damaged { path: path.to_owned(), reason };
        let mut record = csv::ByteRecord::new();
        let found = reader.read_byte_record(&mut record).map_err(|e| damaged(sentence(&e).into()))?;
        if !found {
            return Err(damaged("is empty: its first line must name the columns".to_owned()));
        }
        let mut header = Vec::new();
        for (index, name) in record.iter().enumerate() {
            let name = std::str::from_utf8(name).map_err(|_| {
                damaged(
                    "is not UTF-8: save it as UTF-8, with the names of the columns in the first line"
                        .to_owned(),
                )
            })?;
            let name = if index == 0 { name.strip_prefix('\u{feff}').unwrap_or(name) } else { name };
            if header.iter().any(|earlier| earlier == name) {
                return Err(damaged(format!(
                    "its first line names `{}` twice: give each column its own name",
                    shown(name)
                )));
            }
            header.push(name.to_owned());
        }
        Ok(Self { path: path.into(), reader, header, record, row: 0, done: false })
    }

    fn value(&self) -> Result<Value, String> {
        if self.record.len() != self.header.len() {
            return Err(format!(
                "has {} fields, and the first line names {}: a quote or a separator is out of place",
                self.record.len(),
                self.header.len()
            ));
        }
        let mut object = Map::new();
        for (name, field) in self.header.iter().zip(&self.record) {
            let text = std::str::from_utf8(field).map_err(|_| format!("`{}` is not UTF-8", shown(name)))?;
            object.insert(name.clone(), Value::String(text.to_owned()));
        }
        Ok(Value::Object(object))
    }
}

/// The library's words without its position, which is ours to give.
fn sentence(error: &csv::Error) -> ReadError {
    match error.kind() {
        csv::ErrorKind::Io(e) => ReadError::system(e),
        other => format!("cannot be read: {other:?}").into(),
    }
}

impl FileRows for TableRows {
    fn next_row(&mut self) -> Option<Result<Row, RowError>> {
        if self.done {
            return None;
        }
        let watched = self.reader.get_mut();
        watched.allowed = watched.bytes.saturating_add(MAX_LINE as u64);
        match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => {
                self.done = true;
                None
            }
            Ok(true) => {
                self.row += 1;
                Some(match self.value() {
                    Ok(value) => Ok(Row::new(&self.path, self.row, Unit::Row, value)),
                    Err(message) => Err(RowError::new(&self.path, self.row, Unit::Row, message)),
                })
            }
            Err(e) => {
                self.done = true;
                Some(Err(RowError::new(&self.path, self.row + 1, Unit::Row, sentence(&e))))
            }
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let watched = self.reader.get_ref();
        let blake3 = Digest(*watched.hasher.finalize().as_bytes());
        Fingerprint { kind: FingerprintKind::Content, bytes: watched.bytes, blake3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Got = Result<(u64, Value), String>;

    fn rows(content: &[u8], separator: Separator) -> Result<Vec<Got>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        std::fs::write(&path, content).unwrap();
        let mut rows = TableRows::open(&path, separator).map_err(|e| e.to_string())?;
        let got = std::iter::from_fn(|| rows.next_row());
        let got = got.map(|row| row.map(|row| (row.line, row.value)).map_err(|e| e.to_string())).collect();
        assert_eq!(rows.fingerprint().blake3, Digest::of(content));
        Ok(got)
    }

    #[test]
    fn quotes_line_breaks_and_long_fields_are_read() {
        let long = "x".repeat(3 << 20);
        let content = format!("\u{feff}id,text\r\n1,\"a \"\"b\"\"\nc, d\"\r\n2,{long}\r\n3,\n");
        let got = rows(content.as_bytes(), Separator::Comma).unwrap();
        assert_eq!(got[0], Ok((1, serde_json::json!({"id": "1", "text": "a \"b\"\nc, d"}))));
        assert_eq!(got[1].as_ref().unwrap().0, 2);
        assert_eq!(got[1].as_ref().unwrap().1["text"].as_str().unwrap().len(), 3 << 20);
        assert_eq!(got[2].as_ref().unwrap().1["text"], "");
        let tabs = rows(b"a\tb\n1\t\"x\ty\"\n", Separator::Tab).unwrap();
        assert_eq!(tabs[0].as_ref().unwrap().1, serde_json::json!({"a": "1", "b": "x\ty"}));
    }

    #[test]
    fn rows_of_another_length_other_encodings_and_double_names_are_told() {
        let got = rows(b"a,b\n1\n\xff,2\n3,4\n", Separator::Comma).unwrap();
        assert!(
            got[0].as_ref().unwrap_err().contains(": row 1: has 1 fields, and the first line names 2"),
            "{got:?}"
        );
        assert!(got[1].as_ref().unwrap_err().contains(": row 2: `a` is not UTF-8"), "{got:?}");
        assert_eq!(got[2].as_ref().unwrap().1["b"], "4");
        assert!(rows(b"a,a\n", Separator::Comma).unwrap_err().contains("names `a` twice"));
        assert!(rows(b"", Separator::Comma).unwrap_err().contains("is empty"));
    }

    #[test]
    fn an_open_quote_does_not_swallow_a_large_file() {
        let mut content = b"a,b\n1,\"".to_vec();
        content.resize(MAX_LINE + (1 << 20), b'x');
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        std::fs::write(&path, content).unwrap();
        let mut rows = TableRows::open(&path, Separator::Comma).unwrap();
        let error = rows.next_row().unwrap().unwrap_err().to_string();
        assert!(error.contains("is not closed"), "{error}");
        assert!(rows.next_row().is_none());
    }
}
