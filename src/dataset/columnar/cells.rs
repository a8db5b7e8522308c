//! A row of a column of media, decoded: where in it the media are, and what they are.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int16Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use bytes::Bytes;

use super::json::{items, json};
use super::shape::{Kind, Shape};
use crate::dataset::base64;
use crate::dataset::cursor::Cells;
use crate::media::{EMPTY_SAMPLES, MediaContent, NO_SAMPLES, RawSamples, ReadError, SampleValues};

/// A row of one column.
pub(super) struct RowCells {
    /// One element.
    pub(super) column: ArrayRef,
    pub(super) kind: Kind,
    pub(super) weight: usize,
}

impl Cells for RowCells {
    fn weight(&self) -> usize {
        self.weight
    }

    fn media(&self, path: &[&str]) -> Result<MediaContent, ReadError> {
        find(&self.column, 0, path, &self.kind)
    }
}

/// The steps of a path that lead to the struct or value of a kind.
pub(super) fn steps_to<'p, 's>(path: &'p [&'s str], kind: &Kind) -> Option<&'p [&'s str]> {
    match kind {
        Kind::Samples { field, .. } => {
            path.split_last().filter(|(last, _)| *last == field).map(|(_, rest)| rest)
        }
        Kind::File { .. } | Kind::Binary | Kind::Base64 => Some(path),
    }
}

/// Splits a path after the field of a struct that it begins with: names may hold dots.
pub(super) fn field_of<'p, 's, N: AsRef<str>>(
    path: &'p [&'s str],
    names: &(impl Iterator<Item = N> + Clone),
) -> Option<(usize, &'p [&'s str])> {
    (1..=path.len()).find_map(|length| {
        let (name, rest) = path.split_at_checked(length)?;
        let name = name.join(".");
        Some((names.clone().position(|field| field.as_ref() == name)?, rest))
    })
}

fn find(array: &dyn Array, at: usize, path: &[&str], kind: &Kind) -> Result<MediaContent, ReadError> {
    const NOWHERE: &str = "there is no such place in the row";
    if at >= array.len() {
        return Err(NOWHERE.into());
    }
    if array.is_null(at) {
        return Err("is null: the row holds no media there".into());
    }
    if steps_to(path, kind).is_some_and(<[&str]>::is_empty) {
        return extract(array, at, kind);
    }
    if let Some(columns) = array.as_struct_opt() {
        let fields = columns.fields().iter().map(|field| field.name());
        let (index, rest) = field_of(path, &fields).ok_or(NOWHERE)?;
        return find(columns.columns().get(index).ok_or(NOWHERE)?, at, rest, kind);
    }
    let (first, rest) = path.split_first().ok_or(NOWHERE)?;
    let index = first.parse().map_err(|_| NOWHERE)?;
    let items = items(array, at).ok_or(NOWHERE)?;
    find(&items, index, rest, kind)
}

/// The bytes of an element.
fn binary(array: &dyn Array, at: usize) -> Option<Bytes> {
    if at >= array.len() || array.is_null(at) {
        return None;
    }
    let bytes = match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(at),
        DataType::LargeBinary => array.as_binary::<i64>().value(at),
        DataType::BinaryView => array.as_binary_view().value(at),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(at),
        _ => return None,
    };
    Some(Bytes::copy_from_slice(bytes))
}

fn extract(array: &dyn Array, at: usize, kind: &Kind) -> Result<MediaContent, ReadError> {
    const NO_BYTES: &str = "holds no bytes: the set was saved without its media; get it again";
    match kind {
        Kind::Binary => Ok(binary(array, at).map(MediaContent::File).ok_or(NO_BYTES)?),
        Kind::File { .. } => {
            let bytes =
                array.as_struct_opt().and_then(|columns| binary(columns.column_by_name("bytes")?, at));
            Ok(bytes.map(MediaContent::File).ok_or(NO_BYTES)?)
        }
        Kind::Base64 => {
            Ok(base64::decode(json(array, at).as_str().ok_or("holds no text in place of an image")?)?)
        }
        Kind::Samples { field, .. } => {
            let columns = array.as_struct_opt().ok_or("holds no samples")?;
            let rate = columns.column_by_name("sampling_rate").map(|column| json(column, at));
            let list = columns.column_by_name(field).filter(|list| list.is_valid(at));
            let values =
                list.and_then(|list| items(list, at)).ok_or_else(|| ReadError::nothing(NO_SAMPLES))?;
            samples(&values, rate.and_then(|rate| rate.as_f64()))
        }
    }
}

/// Samples from their array and rate.
pub(super) fn samples(values: &ArrayRef, rate: Option<f64>) -> Result<MediaContent, ReadError> {
    let rate = rate.filter(|rate| rate.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(rate));
    let rate = rate.ok_or("has no `sampling_rate` that is a whole number of Hz")? as u32;
    if values.null_count() > 0 {
        return Err("has samples that are null: get the file again".into());
    }
    if values.is_empty() {
        return Err(ReadError::nothing(EMPTY_SAMPLES));
    }
    let values = match values.data_type() {
        DataType::Int16 => SampleValues::I16(values.as_primitive::<Int16Type>().values().to_vec()),
        // Each is a float of 32 bits too.
        DataType::Float16 => SampleValues::F32(
            values.as_primitive::<Float16Type>().values().iter().map(|value| value.to_f32()).collect(),
        ),
        DataType::Float32 => SampleValues::F32(values.as_primitive::<Float32Type>().values().to_vec()),
        DataType::Float64 => SampleValues::F64(values.as_primitive::<Float64Type>().values().to_vec()),
        other => return Err(odd(other).into()),
    };
    Ok(MediaContent::Samples(RawSamples { rate, values }))
}

/// What is said of samples of a type that is not read: of other integers nobody knows which of them is full scale.
fn odd(kind: &DataType) -> String {
    format!("has samples of type {kind}; expected floats or 16-bit integers")
}

/// Why samples of a type are not read, if they are not.
pub(super) fn why_not(kind: &DataType) -> Option<String> {
    let are_read =
        matches!(kind, DataType::Int16 | DataType::Float16 | DataType::Float32 | DataType::Float64);
    (!are_read).then(|| odd(kind))
}

impl Shape {
    /// The media at the end of a path below this shape.
    pub(super) fn media_at(&self, path: &[&str]) -> Option<&super::shape::Media> {
        match self {
            Self::Plain => None,
            Self::Media(media) => {
                steps_to(path, &media.kind).is_some_and(<[&str]>::is_empty).then_some(media)
            }
            Self::Struct(fields) => {
                let (index, rest) = field_of(path, &fields.iter().map(|(name, _)| name))?;
                fields.get(index)?.1.media_at(rest)
            }
            Self::List(item) => {
                let (first, rest) = path.split_first()?;
                first.parse::<u32>().ok()?;
                item.media_at(rest)
            }
        }
    }
}

/// A batch's column, cut into rows.
pub(super) fn rows_of(column: &ArrayRef, kind: &Kind) -> Vec<Arc<dyn Cells>> {
    let weight = column.get_array_memory_size() / column.len().max(1);
    (0..column.len())
        .map(|at| -> Arc<dyn Cells> {
            Arc::new(RowCells { column: column.slice(at, 1), kind: kind.clone(), weight })
        })
        .collect()
}
