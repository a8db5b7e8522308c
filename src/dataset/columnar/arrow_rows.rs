//! The rows of an Arrow file, without their media: of each batch only the buffers of other columns are read, and of
//! media whether they are there.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, layout};
use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::arrow::{ArrowFile, Batch, Part, read_at, reason};
use super::json::{Naming, Presence};
use super::shape::{Kind, Shapes, is_binary, leaves};
use crate::dataset::rows::{FileRows, Fingerprint};
use crate::dataset::{Row, RowError, Unit};
use crate::media::ReadError;

/// The heads of a batch: its nodes (length and nulls of every array) and its buffers (place and length).
pub(super) struct Heads {
    pub(super) nodes: Vec<(u64, u64)>,
    pub(super) buffers: Vec<(u64, u64)>,
}

impl Heads {
    /// Reads the heads of a batch, and checks that its buffers lie within it.
    pub(super) fn read(file: &mut File, part: &Part) -> Result<Self, ReadError> {
        let head = read_at(file, part.head, part.head_length)?;
        let message = arrow_ipc::root_as_message(&head).map_err(reason)?;
        let batch = message.header_as_record_batch().ok_or("was changed while it was read")?;
        let both = |a: i64, b: i64| Some((u64::try_from(a).ok()?, u64::try_from(b).ok()?));
        let nodes = batch.nodes().into_iter().flatten().map(|node| both(node.length(), node.null_count()));
        let buffers = batch.buffers().into_iter().flatten().map(|buffer| {
            both(buffer.offset(), buffer.length()).filter(|(place, length)| {
                place.checked_add(*length).is_some_and(|end| end <= part.body_length)
            })
        });
        let bad = "has a batch whose buffers lie outside it: get the file again";
        Ok(Self {
            nodes: nodes.collect::<Option<_>>().ok_or(bad)?,
            buffers: buffers.collect::<Option<_>>().ok_or(bad)?,
        })
    }
}

/// Buffers of a type itself, its validity included and its children not.
pub(super) fn buffers_of(kind: &DataType) -> usize {
    match kind {
        DataType::Null => 0,
        kind => layout(kind).buffers.len() + 1,
    }
}

/// Reads a batch's columns one after the other.
struct Load<'a> {
    file: &'a mut File,
    part: &'a Part,
    heads: &'a Heads,
    shapes: &'a Shapes,
    node: usize,
    buffer: usize,
    leaf: usize,
}

const FEW: &str = "has a batch with fewer columns than its schema: get the file again";

impl Load<'_> {
    fn node(&mut self) -> Result<(usize, usize), String> {
        let (length, nulls) = *self.heads.nodes.get(self.node).ok_or(FEW)?;
        self.node += 1;
        let size = |n| usize::try_from(n).map_err(|_| FEW.to_owned());
        Ok((size(length)?, size(nulls)?))
    }

    /// The next buffer.
    fn bytes(&mut self) -> Result<Buffer, ReadError> {
        let (place, length) = *self.heads.buffers.get(self.buffer).ok_or(FEW)?;
        self.buffer += 1;
        if length == 0 {
            return Ok(Buffer::from_vec(Vec::<u8>::new()));
        }
        Ok(Buffer::from_vec(read_at(self.file, self.part.body + place, length)?))
    }

    /// The bits that tell which elements are there; none where all are.
    fn validity(&mut self, nulls: usize) -> Result<Option<Buffer>, ReadError> {
        let bytes = self.bytes()?;
        Ok((nulls > 0 && !bytes.is_empty()).then_some(bytes))
    }

    /// Passes over the columns below a field.
    fn pass(&mut self, kind: &DataType) {
        match kind {
            DataType::Struct(fields) => fields.iter().for_each(|field| self.pass_whole(field.data_type())),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => self.pass_whole(item.data_type()),
            _ => {}
        }
    }

    fn pass_whole(&mut self, kind: &DataType) {
        self.node += 1;
        self.buffer += buffers_of(kind);
        self.pass(kind);
    }

    /// A column; in place of media, flags that tell where they are.
    fn column(&mut self, field: &Field) -> Result<(DataType, ArrayData), ReadError> {
        let first = self.leaf;
        let below = leaves(field.data_type());
        let is_media = self.shapes.media.iter().any(|media| {
            let right = match media.kind {
                Kind::Samples { .. } => !matches!(field.data_type(), DataType::Struct(_)),
                Kind::File { .. } | Kind::Binary => is_binary(field.data_type()),
                Kind::Base64 => false,
            };
            media.heavy.start == first && media.heavy.len() == below && right
        });
        if is_media {
            self.leaf += below;
            return self.flags(field.data_type());
        }
        let (length, nulls) = self.node()?;
        if *field.data_type() == DataType::Null {
            self.leaf += 1;
            return Ok((DataType::Null, ArrayData::new_null(&DataType::Null, length)));
        }
        let validity = self.validity(nulls)?;
        let own = (1..buffers_of(field.data_type())).map(|_| self.bytes()).collect::<Result<Vec<_>, _>>()?;
        let mut children = Vec::new();
        let kind = match field.data_type() {
            DataType::Struct(fields) => {
                let fields = fields.iter().map(|field| self.child(field, &mut children));
                DataType::Struct(fields.collect::<Result<Fields, _>>()?)
            }
            DataType::List(item) => DataType::List(self.child(item, &mut children)?),
            DataType::LargeList(item) => DataType::LargeList(self.child(item, &mut children)?),
            DataType::FixedSizeList(item, size) => {
                DataType::FixedSizeList(self.child(item, &mut children)?, *size)
            }
            DataType::Map(item, sorted) => DataType::Map(self.child(item, &mut children)?, *sorted),
            other => {
                self.leaf += 1;
                other.clone()
            }
        };
        build(kind, length, validity, own, children)
    }

    fn child(&mut self, field: &FieldRef, children: &mut Vec<ArrayData>) -> Result<FieldRef, ReadError> {
        let (kind, data) = self.column(field)?;
        children.push(data);
        // Damaged files may have nulls where the schema allows none.
        Ok(Arc::new(Field::new(field.name(), kind, true)))
    }

    /// Flags in place of a column, null where it is null.
    fn flags(&mut self, kind: &DataType) -> Result<(DataType, ArrayData), ReadError> {
        let (length, nulls) = self.node()?;
        let validity = self.validity(nulls)?;
        self.buffer += buffers_of(kind).saturating_sub(1);
        self.pass(kind);
        // Each element takes some bytes of the batch, if only an offset.
        if length as u64 > self.part.body_length {
            return Err(FEW.into());
        }
        let flags = Buffer::from_vec(vec![0_u8; length.div_ceil(8)]);
        build(DataType::Boolean, length, validity, vec![flags], Vec::new())
    }
}

/// An array of its parts, checked: the file may be damaged.
fn build(
    kind: DataType,
    length: usize,
    validity: Option<Buffer>,
    own: Vec<Buffer>,
    children: Vec<ArrayData>,
) -> Result<(DataType, ArrayData), ReadError> {
    let builder = ArrayData::builder(kind.clone())
        .len(length)
        .null_bit_buffer(validity)
        .buffers(own)
        .child_data(children)
        .align_buffers(true);
    // Offsets and text are checked by this.
    let data =
        builder.build().map_err(|e| format!("cannot be decoded: {}; get the file again", reason(e)))?;
    Ok((kind, data))
}

/// The columns of a batch, media left out. Columns that are left out of rows stand empty.
fn load(file: &ArrowFile, open: &mut File, batch: &Batch) -> Result<Vec<ArrayRef>, ReadError> {
    let rows = usize::try_from(batch.end - batch.first).map_err(|_| FEW)?;
    let columns: Vec<ArrayRef> = if file.whole {
        file.decode(batch, None)?.columns().to_vec()
    } else {
        let heads = Heads::read(open, &batch.part)?;
        let (shapes, part) = (&file.shapes, &batch.part);
        let mut load = Load { file: open, part, heads: &heads, shapes, node: 0, buffer: 0, leaf: 0 };
        let fields = file.schema.fields().iter();
        fields.map(|field| load.column(field).map(|(_, data)| make_array(data))).collect::<Result<_, _>>()?
    };
    if columns.iter().any(|column| column.len() != rows) {
        return Err("has a batch whose columns differ in length: get the file again".into());
    }
    Ok(columns)
}

/// The rows of a file.
pub(super) struct ArrowRows {
    file: Arc<ArrowFile>,
    open: Option<File>,
    batch: usize,
    columns: Vec<ArrayRef>,
    /// The row that comes next, and the one behind the last of the batch.
    next: u64,
    end: u64,
    /// Why the rest of the batch cannot be read.
    lost: Option<ReadError>,
}

impl ArrowFile {
    /// The rows.
    pub(in crate::dataset) fn rows(self: &Arc<Self>) -> Box<dyn FileRows> {
        self.rows_of(0)
    }

    /// The rows of each batch.
    pub(in crate::dataset) fn stretches(&self) -> Vec<Range<u64>> {
        self.batches.iter().map(|batch| batch.first..batch.end).collect()
    }

    /// The rows from a batch on.
    pub(in crate::dataset) fn rows_of(self: &Arc<Self>, batch: usize) -> Box<dyn FileRows> {
        let file = Arc::clone(self);
        Box::new(ArrowRows { file, open: None, batch, columns: Vec::new(), next: 0, end: 0, lost: None })
    }
}

impl ArrowRows {
    fn open(&mut self, batch: &Batch) -> Result<Vec<ArrayRef>, ReadError> {
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(File::open(&self.file.path).map_err(|e| ReadError::system(&e))?),
        };
        let file = &self.file;
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| load(file, open, batch)))
            .unwrap_or_else(|_| Err("makes the Arrow decoder fail: get the file again".into()))
    }

    fn value(&self, row: u64, at: usize) -> Result<serde_json::Value, String> {
        let presence = vec![Presence::Read; self.file.shapes.media.len()];
        let naming = Naming { file: &self.file.name, presence: &presence };
        let mut object = serde_json::Map::new();
        let mut place = row.to_string();
        let length = place.len();
        for ((name, shape), column) in self.file.shapes.columns.iter().zip(&self.columns) {
            let Some(shape) = shape else { continue };
            place.push('.');
            place.push_str(name);
            object.insert(name.clone(), naming.value(shape, Some(column.as_ref()), at, &mut place)?);
            place.truncate(length);
        }
        Ok(serde_json::Value::Object(object))
    }
}

impl FileRows for ArrowRows {
    fn next_row(&mut self) -> Option<Result<Row, RowError>> {
        while self.next >= self.end {
            let batch = *self.file.batches.get(self.batch)?;
            self.batch += 1;
            (self.next, self.end) = (batch.first, batch.end);
            self.lost = None;
            match self.open(&batch) {
                Ok(columns) => self.columns = columns,
                Err(error) => {
                    let words =
                        |reason: &str| format!("cannot be read, like all rows of its batch: it {reason}");
                    self.lost = Some(error.in_words(words));
                }
            }
        }
        let row = self.next;
        self.next += 1;
        let path: &Arc<Path> = self.file.path();
        let error = |error: ReadError| Some(Err(RowError::new(path, row + 1, Unit::Row, error)));
        if let Some(reason) = &self.lost {
            return error(reason.clone());
        }
        let first = self.file.batches.get(self.batch.saturating_sub(1)).map_or(0, |batch| batch.first);
        match self.value(row, (row - first) as usize) {
            Ok(value) => Some(Ok(Row::new(path, row + 1, Unit::Row, value))),
            Err(message) => error(message.into()),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.file.fingerprint()
    }
}
