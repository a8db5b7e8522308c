//! Images as base64 in files of text: rows get a name in their place, and the images are read when they are wanted.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::cursor::{Cells, Decoded, Forward, Start};
use super::files::DataFile;
use super::rows::{FileRows, Fingerprint};
use super::{DatasetError, Row, RowError, base64};
use crate::media::{MediaContent, ReadError};

/// Rows with names in place of images.
pub(super) struct NamedRows {
    rows: Box<dyn FileRows>,
    name: String,
}

impl NamedRows {
    pub(super) fn new(rows: Box<dyn FileRows>, name: String) -> Self {
        Self { rows, name }
    }
}

impl FileRows for NamedRows {
    fn next_row(&mut self) -> Option<Result<Row, RowError>> {
        let mut row = self.rows.next_row()?;
        if let Ok(Row { value: Value::Object(object), line, .. }) = &mut row {
            for (column, value) in object.iter_mut().filter(|(column, _)| base64::is_image_name(column)) {
                let place = format!("{}#{}.{column}", self.name, line.saturating_sub(1));
                match value {
                    Value::String(text) if base64::is_image(text) => *text = place,
                    Value::Array(items) => {
                        for (index, item) in items.iter_mut().enumerate() {
                            if let Value::String(text) = item
                                && base64::is_image(text)
                            {
                                *text = format!("{place}.{index}");
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        Some(row)
    }

    fn fingerprint(&self) -> Fingerprint {
        self.rows.fingerprint()
    }
}

/// Starts a cursor in a file of text: always at its beginning, since lines have to be counted.
pub(super) struct TextStart {
    pub(super) file: DataFile,
}

impl Start for TextStart {
    fn start(&self, row: u64) -> Result<Box<dyn Forward>, ReadError> {
        let rows = self.file.text().map_err(|e| match e {
            DatasetError::Io { source, .. } => ReadError::system(&source),
            other => other.to_string().into(),
        })?;
        Ok(Box::new(TextForward { rows, from: row }))
    }

    fn leaps(&self, _from: u64, _to: u64) -> bool {
        false
    }
}

struct TextForward {
    rows: Box<dyn FileRows>,
    /// Rows before this one are passed over.
    from: u64,
}

impl Forward for TextForward {
    fn next_row(&mut self) -> Option<(u64, Decoded)> {
        loop {
            let (line, row) = match self.rows.next_row()? {
                Ok(row) => (row.line, Ok(row.value)),
                Err(error) => (error.line, Err(error.why())),
            };
            let number = line.saturating_sub(1);
            if number < self.from {
                continue;
            }
            let cells = row.map(|value| -> Arc<dyn Cells> {
                let object = match value {
                    Value::Object(object) => object,
                    _ => Map::new(),
                };
                Arc::new(Images(object.into_iter().filter(|(key, _)| base64::is_image_name(key)).collect()))
            });
            return Some((number, cells));
        }
    }
}

/// The images of a row.
struct Images(Map<String, Value>);

impl Cells for Images {
    fn weight(&self) -> usize {
        let length = |value: &Value| value.as_str().map_or(0, str::len);
        self.0
            .values()
            .map(|value| value.as_array().map_or(length(value), |v| v.iter().map(length).sum()))
            .sum()
    }

    fn media(&self, path: &[&str]) -> Result<MediaContent, ReadError> {
        let (column, rest) = path.split_first().ok_or("there is no such place in the row")?;
        let value = self.0.get(*column);
        let value = match rest.first().map(|index| index.parse::<usize>()) {
            None => value,
            Some(index) => index.ok().and_then(|index| value?.get(index)),
        };
        Ok(base64::decode(value.and_then(Value::as_str).ok_or("there is no such place in the row")?)?)
    }
}
