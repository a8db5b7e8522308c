//! Arrow IPC, as streams (what `save_to_disk` of the `datasets` library writes) and as files: where its batches lie.
//!
//! Both forms are messages one after the other; the file form has a magic in front and a footer behind, which is not
//! needed. Only the heads of the messages are read here, so that an index of a file of many gigabytes takes
//! milliseconds. Batches are written with a thousand rows and more, media included: they are never read whole unless
//! they are compressed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{MessageHeader, MetadataVersion};
use arrow_schema::{DataType, SchemaRef};

use super::cells::rows_of;
use super::shape::{Media, Shapes};
use crate::dataset::DatasetError;
use crate::dataset::cursor::{Cells, Decoded, Forward, Start};
use crate::dataset::rows::{Fingerprint, FingerprintKind};
use crate::media::ReadError;
use crate::types::Digest;

/// The largest head of a message, in bytes: heads hold no data.
const MOST_HEAD: u64 = 64 << 20;
/// Begins and ends the file form.
pub(super) const MAGIC: &[u8; 6] = b"ARROW1";

/// A message with data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Where its head is.
    pub(super) head: u64,
    pub(super) head_length: u64,
    /// Where its data are.
    pub(super) body: u64,
    pub(super) body_length: u64,
}

/// A batch of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) part: Part,
    /// Its first row in the file, and the one behind its last.
    pub(super) first: u64,
    pub(super) end: u64,
}

/// An Arrow file whose messages were found.
pub(in crate::dataset) struct ArrowFile {
    pub(super) path: Arc<Path>,
    /// How media names begin.
    pub(super) name: String,
    pub(super) schema: SchemaRef,
    pub(super) shapes: Shapes,
    pub(super) batches: Vec<Batch>,
    /// Whether batches must be read whole: they are compressed, or have columns that lie in no simple way.
    pub(super) whole: bool,
    version: MetadataVersion,
    dictionaries: HashMap<i64, ArrayRef>,
    fingerprint: Fingerprint,
}

/// The library's words, in ours.
pub(super) fn reason(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Reads a part of a file.
pub(super) fn read_at(file: &mut (impl Read + Seek), place: u64, length: u64) -> Result<Vec<u8>, ReadError> {
    let cannot = |e: std::io::Error| ReadError::system(&e);
    file.seek(SeekFrom::Start(place)).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err("is cut short: get the file again".into()) }
}

/// Whether a column lies in buffers of its own, in a way that the walk knows.
fn is_simple(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(..)
        | DataType::RunEndEncoded(..)
        | DataType::Union(..)
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::ListView(_)
        | DataType::LargeListView(_) => false,
        DataType::Struct(fields) => fields.iter().all(|field| is_simple(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => is_simple(item.data_type()),
        _ => true,
    }
}

/// Checks that buffers lie within their batch, which the library takes for granted, and the sizes that compressed
/// ones say they will have: memory for them is taken before they are unpacked.
fn check_buffers(batch: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    /// What any buffer may have, and how often the bytes that it takes in the file.
    const MOST: u64 = 64 << 20;
    const RATIO: u64 = 1024;
    let compressed = batch.compression().is_some();
    for buffer in batch.buffers().into_iter().flatten() {
        let place = usize::try_from(buffer.offset()).ok();
        let range = place.zip(usize::try_from(buffer.length()).ok());
        let range = range.and_then(|(place, length)| Some(place..place.checked_add(length)?));
        let bytes = range.and_then(|range| body.get(range));
        let bytes = bytes.ok_or("has a batch whose buffers lie outside it: get the file again")?;
        // -1 marks a buffer that is not compressed.
        let size = bytes.first_chunk().filter(|_| compressed).map(|size| i64::from_le_bytes(*size));
        let size = size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
        let packed = bytes.len() as u64;
        if size > MOST && size / RATIO > packed {
            return Err(format!("declares a buffer of {size} bytes in {packed}: get the file again"));
        }
    }
    Ok(())
}

impl ArrowFile {
    /// Finds the batches of a file. Media names begin with `name`.
    pub(in crate::dataset) fn open(path: &Path, name: String) -> Result<Self, DatasetError> {
        let io = |source| DatasetError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        // The decoder of dictionaries is not ours, and takes some things for granted.
        let index = || Self::index(path, name, BufReader::new(file), size);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(index))
            .unwrap_or_else(|_| Err("is damaged: the Arrow decoder failed on it; get it again".to_owned()))
            .map_err(|reason| DatasetError::Damaged { path: path.to_owned(), reason })
    }

    fn index(path: &Path, name: String, mut file: BufReader<File>, size: u64) -> Result<Self, String> {
        const CUT: &str = "is cut short: get the file again";
        let mut place = match read_at(&mut file, 0, 8.min(size))? {
            start if start.starts_with(MAGIC) => 8,
            _ => 0,
        };
        let mut schema: Option<SchemaRef> = None;
        let (mut batches, mut rows, mut compressed) = (Vec::new(), 0_u64, false);
        let (mut dictionaries, mut version) = (HashMap::new(), MetadataVersion::V5);
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"harness arrow heads 1\0");
        hasher.update(&size.to_le_bytes());
        loop {
            let mut length = read_at(&mut file, place, 4).map_err(|_| CUT)?;
            place += 4;
            // Before version 0.15 of Arrow there was no mark in front of the length.
            if length == [0xff; 4] {
                length = read_at(&mut file, place, 4).map_err(|_| CUT)?;
                place += 4;
            }
            let length = length.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            if length == 0 {
                break;
            }
            let head_length = u64::from(length);
            if head_length > MOST_HEAD || place + head_length > size {
                return Err(format!("is no Arrow file, or {CUT}"));
            }
            let head = read_at(&mut file, place, head_length)?;
            let bad =
                |e: &dyn std::fmt::Display| format!("is no Arrow file, or damaged at byte {place} ({e})");
            let message = arrow_ipc::root_as_message(&head).map_err(|e| bad(&e))?;
            let body_length = u64::try_from(message.bodyLength()).map_err(|e| bad(&e))?;
            let body = place + head_length;
            let end = body.checked_add(body_length).filter(|end| *end <= size).ok_or(CUT)?;
            let part = Part { head: place, head_length, body, body_length };
            hasher.update(&head);
            match message.header_type() {
                MessageHeader::Schema => {
                    version = message.version();
                    let found = message.header_as_schema().ok_or("has an empty schema")?;
                    let found = arrow_ipc::convert::try_fb_to_schema(found).map_err(|e| bad(&e))?;
                    schema.get_or_insert_with(|| Arc::new(found));
                }
                MessageHeader::DictionaryBatch => {
                    let schema = schema.as_ref().ok_or("has data before its schema")?;
                    let batch = message.header_as_dictionary_batch().ok_or("has an empty dictionary")?;
                    let bytes = Buffer::from_vec(read_at(&mut file, body, body_length)?);
                    if let Some(batch) = batch.data() {
                        check_buffers(&batch, &bytes)?;
                    }
                    read_dictionary(&bytes, batch, schema, &mut dictionaries, &version)
                        .map_err(|e| bad(&e))?;
                }
                MessageHeader::RecordBatch => {
                    let batch = message.header_as_record_batch().ok_or("has an empty batch")?;
                    let count = u64::try_from(batch.length()).map_err(|e| bad(&e))?;
                    let first = rows;
                    rows = rows.checked_add(count).ok_or("declares impossible numbers of rows")?;
                    compressed |= batch.compression().is_some();
                    batches.push(Batch { part, first, end: rows });
                }
                _ => {}
            }
            place = end;
        }
        let schema = schema.ok_or("is no Arrow file: it has no schema")?;
        let whole = compressed || !schema.fields().iter().all(|field| is_simple(field.data_type()));
        let blake3 = Digest(*hasher.finalize().as_bytes());
        Ok(Self {
            path: path.into(),
            name,
            shapes: Shapes::of(&schema),
            schema,
            batches,
            whole,
            version,
            dictionaries,
            fingerprint: Fingerprint { kind: FingerprintKind::ArrowHeads, bytes: size, blake3 },
        })
    }

    pub(super) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The batch that a row is in.
    pub(super) fn batch_of(&self, row: u64) -> Option<&Batch> {
        self.batches.get(self.batches.partition_point(|batch| batch.end <= row))
    }

    /// Columns of a batch, decoded from all of its bytes.
    pub(super) fn decode(&self, batch: &Batch, columns: Option<&[usize]>) -> Result<RecordBatch, ReadError> {
        let mut file = File::open(&self.path).map_err(|e| ReadError::system(&e))?;
        let head = read_at(&mut file, batch.part.head, batch.part.head_length)?;
        let message = arrow_ipc::root_as_message(&head).map_err(reason)?;
        let body = Buffer::from_vec(read_at(&mut file, batch.part.body, batch.part.body_length)?);
        let heads = message.header_as_record_batch().ok_or("was changed while it was read")?;
        check_buffers(&heads, &body)?;
        RecordBatchDecoder::try_new(&body, heads, Arc::clone(&self.schema), &self.dictionaries, &self.version)
            .and_then(|decoder| decoder.with_projection(columns).read_record_batch())
            .map_err(|e| format!("cannot be decoded: {}; get the file again", reason(e)).into())
    }

    /// What starts a cursor in a column whose batches must be read whole.
    pub(super) fn start(self: &Arc<Self>, column: usize, media: &Media) -> Box<dyn Start> {
        Box::new(WholeStart { file: Arc::clone(self), column, media: media.clone() })
    }
}

struct WholeStart {
    file: Arc<ArrowFile>,
    column: usize,
    media: Media,
}

impl Start for WholeStart {
    fn start(&self, row: u64) -> Result<Box<dyn Forward>, ReadError> {
        let batch = self.file.batch_of(row).ok_or_else(|| format!("the file has no row {row}"))?;
        let decoded = self.file.decode(batch, Some(&[self.column]))?;
        let column = decoded.columns().first().ok_or("the column is not there")?;
        let rows = rows_of(column, &self.media.kind).into_iter();
        Ok(Box::new(WholeForward { rows, next: batch.first }))
    }

    fn leaps(&self, from: u64, to: u64) -> bool {
        self.file.batch_of(from).map(|batch| batch.first) != self.file.batch_of(to).map(|batch| batch.first)
    }
}

/// The rows of one batch.
struct WholeForward {
    rows: std::vec::IntoIter<Arc<dyn Cells>>,
    next: u64,
}

impl Forward for WholeForward {
    fn next_row(&mut self) -> Option<(u64, Decoded)> {
        let row = self.next;
        self.next += 1;
        Some((row, Ok(self.rows.next()?)))
    }
}
