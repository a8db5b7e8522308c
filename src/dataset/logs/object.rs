//! A JSON object of which one key holds the list of samples. Elements are read one at a time, none is held.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::finite::Finite;
use super::{LogHead, Visit, inspect_head};
use crate::dataset::{DatasetError, Row, RowError, Unit};

/// Reads the object.
struct Object<'a, 'b> {
    file: &'a Arc<Path>,
    list: &'a str,
    rows: &'a mut u64,
    found: &'a mut bool,
    visit: Visit<'b>,
}

/// The rows of the list, in order. What is wrong with the JSON ends the file there, and is told as its last row.
pub(super) fn rows(path: &Path, list: &str, visit: Visit<'_>) -> Result<LogHead, DatasetError> {
    let open = File::open(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
    let reader = BufReader::with_capacity(1 << 16, Finite::new(open));
    let mut json = serde_json::Deserializer::from_reader(reader);
    let (mut rows, mut found) = (0, false);
    let file: Arc<Path> = path.into();
    let read = Object { file: &file, list, rows: &mut rows, found: &mut found, visit: &mut *visit }
        .deserialize(&mut json);
    match read.and_then(|head| json.end().map(|()| head)) {
        Ok(head) if found => Ok(inspect_head(&head)),
        Ok(_) => Err(DatasetError::Format {
            path: path.to_owned(),
            reason: format!("a JSON object without the list `{list}` in which its samples should stand"),
        }),
        Err(e) => {
            let message = format!("not valid JSON behind this row: {e}");
            visit(Err(RowError::new(path, rows, Unit::Row, message)));
            Ok(LogHead { unfinished: true, ..LogHead::default() })
        }
    }
}

impl<'de> DeserializeSeed<'de> for Object<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Self { file, list, rows, found, visit } = self;
        let mut head = serde_json::Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == list {
                *found = true;
                map.next_value_seed(List { file, rows: &mut *rows, visit: &mut *visit })?;
            } else if key == "eval" || key == "status" {
                head.insert(key, map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(head))
    }
}

/// Reads the list.
struct List<'a, 'b> {
    file: &'a Arc<Path>,
    rows: &'a mut u64,
    visit: Visit<'b>,
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of samples")
    }

    // A log that was ended before its first sample has null here.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<Value>()? {
            *self.rows += 1;
            (self.visit)(if value.is_object() {
                Ok(Row::new(self.file, *self.rows, Unit::Row, value))
            } else {
                Err(RowError::new(self.file, *self.rows, Unit::Row, "expected a JSON object".to_owned()))
            });
        }
        Ok(())
    }
}
