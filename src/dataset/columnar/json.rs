//! Arrow values to JSON, and the names of media in place of media.
//!
//! Numbers that are not finite become null (pandas writes missing numbers so), dates and times become ISO 8601 text,
//! decimals become text with all their digits.

use arrow_array::cast::AsArray as _;
use arrow_array::temporal_conversions as temporal;
use arrow_array::types as t;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use serde_json::{Map, Number, Value};

use super::shape::{Kind, Media, Shape};
use crate::dataset::base64;

/// A float as JSON: the shortest decimal that gives it back; null where it is not finite.
fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn float32(value: f32) -> Value {
    value.to_string().parse().map_or(Value::Null, float)
}

/// An element of an array.
pub(super) fn json(array: &dyn Array, at: usize) -> Value {
    macro_rules! number {
        ($kind:ty) => {
            Value::from(array.as_primitive::<$kind>().value(at))
        };
    }
    macro_rules! dated {
        ($kind:ty, $call:ident) => {
            array.as_primitive::<$kind>().$call(at).map_or(Value::Null, |v| Value::String(format!("{v:?}")))
        };
    }
    macro_rules! text {
        ($value:expr) => {
            Value::String($value.to_owned())
        };
    }
    if at >= array.len() || array.is_null(at) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(at)),
        DataType::Int8 => number!(t::Int8Type),
        DataType::Int16 => number!(t::Int16Type),
        DataType::Int32 => number!(t::Int32Type),
        DataType::Int64 => number!(t::Int64Type),
        DataType::UInt8 => number!(t::UInt8Type),
        DataType::UInt16 => number!(t::UInt16Type),
        DataType::UInt32 => number!(t::UInt32Type),
        DataType::UInt64 => number!(t::UInt64Type),
        DataType::Float16 => float32(array.as_primitive::<t::Float16Type>().value(at).to_f32()),
        DataType::Float32 => float32(array.as_primitive::<t::Float32Type>().value(at)),
        DataType::Float64 => float(array.as_primitive::<t::Float64Type>().value(at)),
        DataType::Utf8 => text!(array.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => text!(array.as_string::<i64>().value(at)),
        DataType::Utf8View => text!(array.as_string_view().value(at)),
        DataType::Decimal32(..) => text!(array.as_primitive::<t::Decimal32Type>().value_as_string(at)),
        DataType::Decimal64(..) => text!(array.as_primitive::<t::Decimal64Type>().value_as_string(at)),
        DataType::Decimal128(..) => text!(array.as_primitive::<t::Decimal128Type>().value_as_string(at)),
        DataType::Decimal256(..) => text!(array.as_primitive::<t::Decimal256Type>().value_as_string(at)),
        DataType::Date32 => dated!(t::Date32Type, value_as_date),
        DataType::Date64 => dated!(t::Date64Type, value_as_date),
        DataType::Time32(TimeUnit::Second) => dated!(t::Time32SecondType, value_as_time),
        DataType::Time32(_) => dated!(t::Time32MillisecondType, value_as_time),
        DataType::Time64(TimeUnit::Microsecond) => dated!(t::Time64MicrosecondType, value_as_time),
        DataType::Time64(_) => dated!(t::Time64NanosecondType, value_as_time),
        DataType::Timestamp(unit, zone) => {
            let moment = match unit {
                TimeUnit::Second => temporal::timestamp_s_to_datetime(
                    array.as_primitive::<t::TimestampSecondType>().value(at),
                ),
                TimeUnit::Millisecond => temporal::timestamp_ms_to_datetime(
                    array.as_primitive::<t::TimestampMillisecondType>().value(at),
                ),
                TimeUnit::Microsecond => temporal::timestamp_us_to_datetime(
                    array.as_primitive::<t::TimestampMicrosecondType>().value(at),
                ),
                TimeUnit::Nanosecond => temporal::timestamp_ns_to_datetime(
                    array.as_primitive::<t::TimestampNanosecondType>().value(at),
                ),
            };
            // With a zone, the value is a moment in UTC.
            let mark = if zone.is_some() { "Z" } else { "" };
            moment.map_or(Value::Null, |moment| Value::String(format!("{moment:?}{mark}")))
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(at)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(at)),
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(at)),
        DataType::ListView(_) => list(&array.as_list_view::<i32>().value(at)),
        DataType::LargeListView(_) => list(&array.as_list_view::<i64>().value(at)),
        DataType::Struct(_) => {
            let fields = array.as_struct();
            let names = fields.fields().iter().map(|field| field.name().clone());
            Value::Object(
                names.zip(fields.columns()).map(|(name, column)| (name, json(column, at))).collect(),
            )
        }
        DataType::Map(..) => map(array, at),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = json(dictionary.keys(), at).as_u64().and_then(|key| usize::try_from(key).ok());
            key.map_or(Value::Null, |key| json(dictionary.values(), key))
        }
        // Durations, intervals, unions: nothing that is published so is known.
        other => Value::String(format!("({other} value)")),
    }
}

fn list(values: &ArrayRef) -> Value {
    Value::Array((0..values.len()).map(|at| json(values, at)).collect())
}

fn map(array: &dyn Array, at: usize) -> Value {
    let entries = array.as_map().value(at);
    let [keys, values] = entries.columns() else { return Value::Null };
    let key = |at: usize| match json(keys, at) {
        Value::String(key) => key,
        other => other.to_string(),
    };
    Value::Object((0..entries.len()).map(|at| (key(at), json(values, at))).collect())
}

/// What is known of a column of media without its media being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The media were not read, and are there wherever their place is.
    All,
    /// There are none; a path may be.
    None,
    /// The media were read with the row.
    Read,
}

/// How the rows of a batch are written.
pub(super) struct Naming<'a> {
    /// The file, as media names begin.
    pub(super) file: &'a str,
    /// By number of the column of media.
    pub(super) presence: &'a [Presence],
}

impl Naming<'_> {
    /// The value of a column in a row. `array` is `None` where all of it was left unread. `place` is the place of
    /// the value, as a media name writes it.
    pub(super) fn value(
        &self,
        shape: &Shape,
        array: Option<&dyn Array>,
        at: usize,
        place: &mut String,
    ) -> Result<Value, String> {
        if array.is_some_and(|array| at >= array.len() || array.is_null(at)) {
            return Ok(Value::Null);
        }
        match (shape, array) {
            (Shape::Media(media), array) => self.media(media, array, at, place),
            // All of it was left unread, which is only done where all of it is there.
            (Shape::Struct(fields), None) => {
                let fields = fields.iter().map(|(name, shape)| {
                    let value = below(place, name, |place| self.value(shape, None, at, place))?;
                    Ok((name.clone(), value))
                });
                fields.collect::<Result<_, String>>().map(Value::Object)
            }
            (Shape::Plain | Shape::List(_), None) => Ok(Value::Null),
            (Shape::Plain, Some(array)) => Ok(json(array, at)),
            (Shape::Struct(fields), Some(array)) => {
                let Some(columns) = array.as_struct_opt() else { return Ok(json(array, at)) };
                let mut object = Map::new();
                for (name, shape) in fields {
                    let column = columns.column_by_name(name).map(AsRef::as_ref);
                    let value = below(place, name, |place| self.value(shape, column, at, place))?;
                    object.insert(name.clone(), value);
                }
                Ok(Value::Object(object))
            }
            (Shape::List(item), Some(array)) => {
                let Some(values) = items(array, at) else { return Ok(json(array, at)) };
                let each = (0..values.len()).map(|index| {
                    below(place, &index.to_string(), |place| self.value(item, Some(&*values), index, place))
                });
                each.collect::<Result<_, _>>().map(Value::Array)
            }
        }
    }

    fn name(&self, place: &str) -> Value {
        Value::String(format!("{}#{place}", self.file))
    }

    fn media(
        &self,
        media: &Media,
        array: Option<&dyn Array>,
        at: usize,
        place: &mut String,
    ) -> Result<Value, String> {
        let presence = self.presence.get(media.id).copied().unwrap_or(Presence::Read);
        match &media.kind {
            Kind::Binary => Ok(self.name(place)),
            Kind::Base64 => match array.map(|array| json(array, at)) {
                Some(Value::String(text)) if !base64::is_image(&text) => Ok(Value::String(text)),
                Some(Value::Null) => Ok(Value::Null),
                _ => Ok(self.name(place)),
            },
            Kind::File { .. } => {
                let column = |name| array?.as_struct_opt()?.column_by_name(name);
                let there = match presence {
                    Presence::All => true,
                    Presence::None => false,
                    Presence::Read => column("bytes").is_some_and(|bytes| bytes.is_valid(at)),
                };
                if there {
                    return Ok(self.name(place));
                }
                match column("path").map(|path| json(path, at)) {
                    Some(Value::String(path)) if !path.is_empty() => Ok(Value::String(path)),
                    _ => Err(format!(
                        "`{}` holds neither bytes nor a path: the set was saved without its media; get it again",
                        place.split_once('.').map_or(&**place, |(_, column)| column)
                    )),
                }
            }
            Kind::Samples { field, .. } => {
                let Some(columns) = array.and_then(|array| array.as_struct_opt()) else {
                    return Ok(Value::Null);
                };
                let mut object = Map::new();
                for (name, column) in columns.fields().iter().zip(columns.columns()) {
                    if name.name() != field {
                        object.insert(name.name().clone(), json(column, at));
                    }
                }
                let samples = columns.column_by_name(field);
                let there = presence != Presence::Read || samples.is_some_and(|column| column.is_valid(at));
                let name =
                    if there { below(place, field, |place| Ok(self.name(place)))? } else { Value::Null };
                object.insert(field.clone(), name);
                Ok(Value::Object(object))
            }
        }
    }
}

/// The items of a list.
pub(super) fn items(array: &dyn Array, at: usize) -> Option<ArrayRef> {
    if at >= array.len() {
        return None;
    }
    match array.data_type() {
        DataType::List(_) => Some(array.as_list::<i32>().value(at)),
        DataType::LargeList(_) => Some(array.as_list::<i64>().value(at)),
        DataType::FixedSizeList(..) => Some(array.as_fixed_size_list().value(at)),
        DataType::ListView(_) => Some(array.as_list_view::<i32>().value(at)),
        DataType::LargeListView(_) => Some(array.as_list_view::<i64>().value(at)),
        _ => None,
    }
}

fn below<T>(
    place: &mut String,
    step: &str,
    then: impl FnOnce(&mut String) -> Result<T, String>,
) -> Result<T, String> {
    let length = place.len();
    place.push('.');
    place.push_str(step);
    let made = then(place);
    place.truncate(length);
    made
}
