//! One of the media of an Arrow file, read from its place: a few bytes of offsets, then the media and nothing else.
//! It does not matter in which order they are asked for.

use std::fs::File;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;

use super::arrow::{ArrowFile, Batch, read_at};
use super::arrow_rows::{Heads, buffers_of};
use super::cells::{field_of, samples, steps_to};
use super::shape::{Kind, Media, is_binary, is_text};
use crate::dataset::base64;
use crate::media::{Cause, MediaContent, NO_SAMPLES, ReadError};

const NOWHERE: &str = "there is no such place in the row";
const NULL: &str = "is null: the row holds no media there";
const OUTSIDE: &str = "lies outside its batch: get the file again";

impl ArrowFile {
    /// The media of a row, at a path that begins with the column. Not for files whose batches must be read whole.
    pub(super) fn walk(
        &self,
        batch: &Batch,
        row: u64,
        column: usize,
        path: &[&str],
        media: &Media,
    ) -> Result<MediaContent, ReadError> {
        let mut file = File::open(&self.path).map_err(|e| ReadError::system(&e))?;
        let heads = Heads::read(&mut file, &batch.part)?;
        let mut walk = Walk { file, body: batch.part.body, heads, node: 0, buffer: 0 };
        let fields = self.schema.fields();
        fields.iter().take(column).for_each(|field| walk.pass(field.data_type()));
        let field = fields.get(column).ok_or(NOWHERE)?;
        walk.find(field.data_type(), row - batch.first, path, &media.kind)
    }
}

struct Walk {
    file: File,
    body: u64,
    heads: Heads,
    /// The node and the buffer that come next.
    node: usize,
    buffer: usize,
}

impl Walk {
    fn pass(&mut self, kind: &DataType) {
        self.node += 1;
        self.buffer += buffers_of(kind);
        match kind {
            DataType::Struct(fields) => fields.iter().for_each(|field| self.pass(field.data_type())),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => self.pass(item.data_type()),
            _ => {}
        }
    }

    /// A part of a buffer.
    fn bytes(&mut self, buffer: usize, start: u64, length: u64) -> Result<Vec<u8>, ReadError> {
        let (place, all) = *self.heads.buffers.get(buffer).ok_or(OUTSIDE)?;
        if start.checked_add(length).is_none_or(|end| end > all) {
            return Err(OUTSIDE.into());
        }
        read_at(&mut self.file, self.body + place + start, length)
    }

    /// Enters an array: its first own buffer, if its element is there.
    fn enter(&mut self, kind: &DataType, at: u64) -> Result<usize, ReadError> {
        let (length, nulls) = *self.heads.nodes.get(self.node).ok_or(OUTSIDE)?;
        let validity = self.buffer;
        self.node += 1;
        self.buffer += buffers_of(kind);
        if at >= length {
            return Err(NOWHERE.into());
        }
        if *kind == DataType::Null {
            return Err(NULL.into());
        }
        if nulls > 0 && self.heads.buffers.get(validity).is_some_and(|(_, length)| *length > 0) {
            let byte = self.bytes(validity, at / 8, 1)?.first().copied().unwrap_or_default();
            if byte >> (at % 8) & 1 == 0 {
                return Err(NULL.into());
            }
        }
        Ok(validity + 1)
    }

    /// Two offsets that stand one after the other.
    fn offsets(&mut self, buffer: usize, at: u64, wide: bool) -> Result<(u64, u64), ReadError> {
        let width = if wide { 8 } else { 4 };
        let bytes = self.bytes(buffer, at.checked_mul(width).ok_or(OUTSIDE)?, 2 * width)?;
        let (from, to) = bytes.split_at_checked(width as usize).ok_or(OUTSIDE)?;
        let offset =
            |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        let (from, to) = (offset(from), offset(to));
        if from <= to { Ok((from, to)) } else { Err(OUTSIDE.into()) }
    }

    fn find(
        &mut self,
        kind: &DataType,
        at: u64,
        path: &[&str],
        media: &Kind,
    ) -> Result<MediaContent, ReadError> {
        let there = steps_to(path, media).is_some_and(<[&str]>::is_empty);
        match kind {
            DataType::Struct(fields) => {
                self.enter(kind, at)?;
                if there {
                    return self.extract(fields, at, media);
                }
                let (index, rest) =
                    field_of(path, &fields.iter().map(|field| field.name())).ok_or(NOWHERE)?;
                fields.iter().take(index).for_each(|field| self.pass(field.data_type()));
                self.find(fields.get(index).ok_or(NOWHERE)?.data_type(), at, rest, media)
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
                if !path.is_empty() =>
            {
                let own = self.enter(kind, at)?;
                let (from, to) = self.range(kind, own, at)?;
                let (first, rest) = path.split_first().ok_or(NOWHERE)?;
                let index: u64 = first.parse().map_err(|_| NOWHERE)?;
                let at = from.checked_add(index).filter(|at| *at < to).ok_or(NOWHERE)?;
                self.find(item.data_type(), at, rest, media)
            }
            _ if there => self.value(kind, at, media),
            _ => Err(NOWHERE.into()),
        }
    }

    /// The elements of a list.
    fn range(&mut self, kind: &DataType, own: usize, at: u64) -> Result<(u64, u64), ReadError> {
        match kind {
            DataType::FixedSizeList(_, size) => {
                let size = u64::try_from(*size).map_err(|_| OUTSIDE)?;
                let from = at.checked_mul(size).ok_or(OUTSIDE)?;
                Ok((from, from.checked_add(size).ok_or(OUTSIDE)?))
            }
            DataType::LargeList(_) => self.offsets(own, at, true),
            _ => self.offsets(own, at, false),
        }
    }

    /// Binary, or text in base64.
    fn value(&mut self, kind: &DataType, at: u64, media: &Kind) -> Result<MediaContent, ReadError> {
        let own = self.enter(kind, at)?;
        let bytes = match kind {
            DataType::FixedSizeBinary(size) => {
                let size = u64::try_from(*size).map_err(|_| OUTSIDE)?;
                self.bytes(own, at.checked_mul(size).ok_or(OUTSIDE)?, size)?
            }
            kind if is_binary(kind) || is_text(kind) => {
                let wide = matches!(kind, DataType::LargeBinary | DataType::LargeUtf8);
                let (from, to) = self.offsets(own, at, wide)?;
                self.bytes(own + 1, from, to - from)?
            }
            _ => return Err(NOWHERE.into()),
        };
        match media {
            Kind::Base64 => Ok(base64::decode(&String::from_utf8(bytes).map_err(|_| "is not UTF-8")?)?),
            _ => Ok(MediaContent::File(Bytes::from(bytes))),
        }
    }

    /// The media of a struct that was entered.
    fn extract(&mut self, fields: &Fields, at: u64, media: &Kind) -> Result<MediaContent, ReadError> {
        let (mut rate, mut values) = (None, None);
        for field in fields {
            let (node, buffer) = (self.node, self.buffer);
            self.pass(field.data_type());
            let after = (self.node, self.buffer);
            (self.node, self.buffer) = (node, buffer);
            match media {
                Kind::File { .. } if field.name() == "bytes" => {
                    return self.value(field.data_type(), at, media).map_err(|error| {
                        if error == ReadError::from(NULL) {
                            "holds no bytes: the set was saved without its media; get it again".into()
                        } else {
                            error
                        }
                    });
                }
                Kind::Samples { field: name, .. } if field.name() == name => {
                    values = Some(self.numbers(field.data_type(), at)?);
                }
                Kind::Samples { .. } if field.name() == "sampling_rate" => {
                    let own = self.enter(field.data_type(), at)?;
                    let number = self.array(field, own, at, 1)?;
                    rate = super::json::json(&number, 0).as_f64();
                }
                _ => {}
            }
            (self.node, self.buffer) = after;
        }
        samples(&values.ok_or_else(|| ReadError::nothing(NO_SAMPLES))?, rate)
    }

    /// The numbers of a list.
    fn numbers(&mut self, kind: &DataType, at: u64) -> Result<ArrayRef, ReadError> {
        let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) = kind
        else {
            return Err("holds no list of samples".into());
        };
        let own = self.enter(kind, at).map_err(|error| match error.cause {
            Cause::System => error,
            Cause::Nothing | Cause::Content => ReadError::nothing(NO_SAMPLES),
        })?;
        let (from, to) = self.range(kind, own, at)?;
        let (length, nulls) = *self.heads.nodes.get(self.node).ok_or(OUTSIDE)?;
        if to > length {
            return Err(OUTSIDE.into());
        }
        if nulls > 0 {
            // One pass over the bits tells whether the nulls are in this list.
            let bits = self.bytes(self.buffer, from / 8, to.div_ceil(8).saturating_sub(from / 8))?;
            let base = from / 8 * 8;
            let null = |at: u64| {
                let bit = at - base;
                bits.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 == 0)
            };
            if (from..to).any(null) {
                return Err("has samples that are null: get the file again".into());
            }
        }
        self.array(item, self.buffer + 1, from, to - from)
    }

    /// Numbers of fixed width out of a buffer.
    fn array(&mut self, field: &Field, buffer: usize, from: u64, count: u64) -> Result<ArrayRef, ReadError> {
        let kind = field.data_type();
        let width = kind.primitive_width().ok_or("has samples or a rate that are no numbers")? as u64;
        let start = from.checked_mul(width).ok_or(OUTSIDE)?;
        let bytes = self.bytes(buffer, start, count.checked_mul(width).ok_or(OUTSIDE)?)?;
        let length = usize::try_from(count).map_err(|_| OUTSIDE)?;
        let data = ArrayData::builder(kind.clone()).len(length).add_buffer(Buffer::from_vec(bytes));
        let data = data.align_buffers(true).build().map_err(|e| format!("cannot be decoded: {e}"))?;
        Ok(make_array(data))
    }
}
