//! Parquet: rows without their media, and media by row.
//!
//! For rows the leaves that hold media are left unread wherever the file's footer or another leaf tells that they are
//! there, so that a plan over hundreds of gigabytes reads a few megabytes. A group of rows that cannot be read gives an
//! error for each of its rows that is left, and the next group goes on.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    RowSelection, RowSelector,
};

use super::cells::rows_of;
use super::json::{Naming, Presence};
use super::shape::{Kind, Media, Shapes};
use super::watched::{Failed, Watched};
use crate::dataset::cursor::{Decoded, Forward, Start};
use crate::dataset::rows::{FileRows, Fingerprint, FingerprintKind};
use crate::dataset::{DatasetError, Row, RowError, Unit};
use crate::media::{Cause, ReadError};
use crate::types::Digest;

/// Bytes of rows that are decoded at once.
const BATCH_BYTES: u64 = 4 << 20;
/// Rows that are decoded at once, at most: without media and with them.
const BATCH: u64 = 1024;
const BATCH_WITH_MEDIA: u64 = 8;

/// A Parquet file whose footer was read.
pub(in crate::dataset) struct ParquetFile {
    path: Arc<Path>,
    /// How media names begin.
    name: String,
    meta: ArrowReaderMetadata,
    pub(super) shapes: Shapes,
    /// The rows of each group.
    groups: Vec<Range<u64>>,
    fingerprint: Fingerprint,
}

/// A panic of the decoder, as an error: files may be damaged in ways that its authors did not think of.
fn guarded<T, E: for<'a> From<&'a str>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("the Parquet decoder failed on it".into()))
}

/// The library's words, without its prefix.
fn reason(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("Parquet argument error: ").unwrap_or(&text);
    text.strip_prefix("Parquet error: ").unwrap_or(text).trim_end_matches('.').to_owned()
}

/// The bytes of the footer, from the end of a file.
fn footer(file: &mut File, size: u64) -> Result<Vec<u8>, String> {
    let cut = "is cut short or no Parquet file: fetch it again";
    let mut end = [0; 8];
    file.seek(SeekFrom::Start(size.checked_sub(8).ok_or(cut)?)).map_err(|e| e.to_string())?;
    file.read_exact(&mut end).map_err(|e| e.to_string())?;
    let [a, b, c, d, magic @ ..] = end;
    match &magic {
        b"PAR1" => {}
        b"PARE" => return Err("is an encrypted Parquet file, which is not read: decrypt it".to_owned()),
        _ => return Err(format!("does not end as a Parquet file does; it {cut}")),
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let start = (size - 8).checked_sub(length).filter(|start| *start >= 4);
    let start =
        start.ok_or_else(|| format!("declares a footer of {length} bytes, more than it has; it {cut}"))?;
    file.seek(SeekFrom::Start(start)).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

impl ParquetFile {
    /// Reads the footer of a file. Media names begin with `name`.
    pub(in crate::dataset) fn open(path: &Path, name: String) -> Result<Self, DatasetError> {
        let io = |source| DatasetError::Io { path: path.to_owned(), source };
        let damaged = |reason| DatasetError::Damaged { path: path.to_owned(), reason };
        let mut file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let footer = footer(&mut file, size).map_err(damaged)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"harness parquet footer 1\0");
        hasher.update(&size.to_le_bytes());
        hasher.update(&footer);
        let fingerprint = Fingerprint {
            kind: FingerprintKind::ParquetFooter,
            bytes: size,
            blake3: Digest(*hasher.finalize().as_bytes()),
        };
        let meta = guarded(|| {
            let load = |options| ArrowReaderMetadata::load(&file, options);
            load(ArrowReaderOptions::new())
                // The schema that a writer left for Arrow may be wrong or newer than this program.
                .or_else(|_| load(ArrowReaderOptions::new().with_skip_arrow_metadata(true)))
                .map_err(|e| format!("its footer cannot be read ({}): fetch the file again", reason(e)))
        })
        .map_err(damaged)?;
        let mut groups = Vec::new();
        let mut rows = 0_u64;
        for group in meta.metadata().row_groups() {
            let count = u64::try_from(group.num_rows()).ok().and_then(|count| rows.checked_add(count));
            let end =
                count.ok_or_else(|| damaged("its footer declares impossible numbers of rows".to_owned()))?;
            groups.push(rows..end);
            rows = end;
        }
        let shapes = Shapes::of(meta.schema());
        Ok(Self { path: path.into(), name, meta, shapes, groups, fingerprint })
    }

    /// The group that a row is in.
    fn group_of(&self, row: u64) -> Option<usize> {
        let group = self.groups.partition_point(|rows| rows.end <= row);
        (group < self.groups.len()).then_some(group)
    }

    /// What the footer tells of a column of media in a group.
    fn presence(&self, group: usize, media: &Media) -> Presence {
        let leaf =
            self.meta.metadata().row_groups().get(group).and_then(|g| g.columns().get(media.heavy.start));
        let nulls = leaf.and_then(|leaf| leaf.statistics()?.null_count_opt());
        let values = leaf.and_then(|leaf| u64::try_from(leaf.num_values()).ok());
        match &media.kind {
            // The rate stands beside them.
            Kind::Samples { .. } => Presence::All,
            Kind::File { path: true } if nulls == Some(0) => Presence::All,
            Kind::File { path: true } if nulls.is_some() && nulls == values => Presence::None,
            Kind::File { path: false } | Kind::Binary if nulls == Some(0) && !media.in_list => Presence::All,
            Kind::File { .. } | Kind::Binary | Kind::Base64 => Presence::Read,
        }
    }

    fn builder(&self) -> Result<(ParquetRecordBatchReaderBuilder<Watched>, Failed), ReadError> {
        let file = File::open(&self.path).map_err(|e| ReadError::system(&e))?;
        let (file, failed) = Watched::new(file);
        Ok((ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.meta.clone()), failed))
    }

    /// Rows of which the given leaves take up to a number of bytes.
    fn batch(&self, group: usize, leaves: &[usize], most: u64) -> usize {
        let Some(group) = self.meta.metadata().row_groups().get(group) else { return 1 };
        let bytes = |leaf: &usize| u64::try_from(group.columns().get(*leaf)?.uncompressed_size()).ok();
        let bytes: u64 = leaves.iter().filter_map(bytes).sum();
        let rows = u64::try_from(group.num_rows()).unwrap_or(1).max(1);
        (BATCH_BYTES / (bytes / rows).max(1)).clamp(1, most) as usize
    }

    /// A reader of a group's rows, with what is left out of them.
    fn rows_of_group(&self, group: usize) -> Result<Group, ReadError> {
        let presence: Vec<_> = self.shapes.media.iter().map(|media| self.presence(group, media)).collect();
        let mut keep = vec![true; self.meta.parquet_schema().num_columns()];
        for (media, presence) in self.shapes.media.iter().zip(&presence) {
            if *presence != Presence::Read {
                for leaf in media.heavy.clone() {
                    if let Some(keep) = keep.get_mut(leaf) {
                        *keep = false;
                    }
                }
            }
        }
        let leaves: Vec<_> =
            keep.iter().enumerate().filter(|(_, keep)| **keep).map(|(leaf, _)| leaf).collect();
        let with_media = presence.contains(&Presence::Read);
        let size = self.batch(group, &leaves, if with_media { BATCH_WITH_MEDIA } else { BATCH });
        let (builder, failed) = self.builder()?;
        let mask = ProjectionMask::leaves(builder.parquet_schema(), leaves);
        let reader = builder.with_projection(mask).with_row_groups(vec![group]).with_batch_size(size).build();
        let reader = reader.map_err(|error| failed.or_content(reason(error)))?;
        Ok(Group { reader, presence, failed })
    }

    /// The rows of each group.
    pub(in crate::dataset) fn stretches(&self) -> Vec<Range<u64>> {
        self.groups.clone()
    }

    /// The rows.
    pub(in crate::dataset) fn rows(self: &Arc<Self>) -> Box<dyn FileRows> {
        self.rows_of(0)
    }

    /// The rows from a group on.
    pub(in crate::dataset) fn rows_of(self: &Arc<Self>, group: usize) -> Box<dyn FileRows> {
        Box::new(ParquetRows {
            file: Arc::clone(self),
            group,
            open: None,
            lost: 0..0,
            reason: None,
            batch: None,
            next: 0,
        })
    }

    /// What starts a cursor in a column of media.
    pub(super) fn start(self: &Arc<Self>, media: &Media) -> Box<dyn Start> {
        Box::new(Arc::new(ParquetStart { file: Arc::clone(self), media: media.clone() }))
    }
}

/// A group of rows that is being read.
struct Group {
    reader: ParquetRecordBatchReader,
    /// What is known of its columns of media.
    presence: Vec<Presence>,
    failed: Failed,
}

/// The rows of a file.
struct ParquetRows {
    file: Arc<ParquetFile>,
    /// The group that is opened next.
    group: usize,
    open: Option<Group>,
    batch: Option<(Arc<RecordBatch>, usize)>,
    /// The row that comes next, from 0.
    next: u64,
    /// Rows that cannot be read, and why.
    lost: Range<u64>,
    reason: Option<ReadError>,
}

impl ParquetRows {
    /// The next batch of the open group; `None` at its end.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        let Some(Group { reader, failed, .. }) = &mut self.open else { return Ok(None) };
        guarded(|| reader.next().transpose().map_err(|error| failed.or_content(reason(error))))
    }

    /// Gives up the rows of the current group that are left.
    fn lose(&mut self, error: ReadError) {
        let group = self.group.saturating_sub(1);
        let end = self.file.groups.get(group).map_or(self.next, |rows| rows.end);
        self.lost = self.next..end;
        self.next = end;
        self.open = None;
        self.batch = None;
        // Another copy of the file helps only where this one is bad.
        let again = if error.cause == Cause::System { "" } else { "; get the file again" };
        let words = |reason: &str| {
            format!(
                "cannot be read, like all rows up to {end}, the end of row group {group}: {reason}{again}"
            )
        };
        self.reason = Some(error.in_words(words));
    }

    fn row(&self, batch: &RecordBatch, at: usize, row: u64) -> Result<serde_json::Value, String> {
        let presence = self.open.as_ref().map(|open| &*open.presence).unwrap_or_default();
        let naming = Naming { file: &self.file.name, presence };
        let schema = batch.schema_ref();
        // The columns of the batch are those of the file, less those that were left out whole.
        let mut columns = schema.fields().iter().zip(batch.columns()).peekable();
        let mut object = serde_json::Map::new();
        let mut place = row.to_string();
        let length = place.len();
        for (name, shape) in &self.file.shapes.columns {
            let column =
                columns.next_if(|(field, _)| field.name() == name).map(|(_, column)| column.as_ref());
            let Some(shape) = shape else { continue };
            place.push('.');
            place.push_str(name);
            object.insert(name.clone(), naming.value(shape, column, at, &mut place)?);
            place.truncate(length);
        }
        Ok(serde_json::Value::Object(object))
    }
}

impl FileRows for ParquetRows {
    fn next_row(&mut self) -> Option<Result<Row, RowError>> {
        loop {
            let path: &Arc<Path> = &self.file.path;
            if let Some(row) = self.lost.next() {
                let reason = self.reason.clone().unwrap_or_else(|| "cannot be read".into());
                return Some(Err(RowError::new(path, row + 1, Unit::Row, reason)));
            }
            if let Some((batch, at)) = &mut self.batch {
                if *at < batch.num_rows() {
                    let (batch, at) = (Arc::clone(batch), std::mem::replace(at, *at + 1));
                    let row = self.next;
                    self.next += 1;
                    let value = self.row(&batch, at, row);
                    let path = Arc::clone(&self.file.path);
                    return Some(match value {
                        Ok(value) => Ok(Row::new(&path, row + 1, Unit::Row, value)),
                        Err(message) => Err(RowError::new(&path, row + 1, Unit::Row, message)),
                    });
                }
                self.batch = None;
            }
            match self.next_batch() {
                Ok(Some(batch)) => self.batch = Some((Arc::new(batch), 0)),
                Ok(None) => {
                    let open = self.open.take().is_some();
                    let end = self.group.checked_sub(1).and_then(|group| self.file.groups.get(group));
                    if open && end.is_some_and(|rows| self.next < rows.end) {
                        self.lose("it holds fewer rows than its footer declares".into());
                        continue;
                    }
                    let rows = self.file.groups.get(self.group)?.clone();
                    self.next = rows.start;
                    let file = Arc::clone(&self.file);
                    let group = self.group;
                    self.group += 1;
                    match guarded(|| file.rows_of_group(group)) {
                        Ok(open) => self.open = Some(open),
                        Err(reason) => self.lose(reason),
                    }
                }
                Err(reason) => self.lose(reason),
            }
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.file.fingerprint
    }
}

/// Starts in a column of media.
struct ParquetStart {
    file: Arc<ParquetFile>,
    media: Media,
}

impl ParquetStart {
    /// A reader of the column from a row on, which decodes at most so many rows at once; with that number.
    fn reader(&self, row: u64, most: u64) -> Result<(ParquetRecordBatchReader, Failed, u64), ReadError> {
        let none = || format!("the file has no row {row}");
        let group = self.file.group_of(row).ok_or_else(none)?;
        let rows = self.file.groups.get(group).ok_or_else(none)?;
        let last = self.file.groups.last().ok_or_else(none)?.end;
        // Samples need the rate beside them.
        let leaves = match self.media.kind {
            Kind::Samples { .. } => self.media.leaves.clone(),
            _ => self.media.heavy.clone(),
        };
        let leaves: Vec<usize> = leaves.collect();
        let size = self.file.batch(group, &leaves, most);
        let count = |n: u64| usize::try_from(n).map_err(|_| none());
        let selection = RowSelection::from(vec![
            RowSelector::skip(count(row - rows.start)?),
            RowSelector::select(count(last - row)?),
        ]);
        let (builder, failed) = self.file.builder()?;
        let mask = ProjectionMask::leaves(builder.parquet_schema(), leaves);
        let reader = builder
            .with_projection(mask)
            .with_row_groups((group..self.file.groups.len()).collect())
            .with_row_selection(selection)
            .with_batch_size(size)
            .build()
            .map_err(|error| failed.or_content(reason(error)))?;
        Ok((reader, failed, size as u64))
    }
}

impl Start for Arc<ParquetStart> {
    fn start(&self, row: u64) -> Result<Box<dyn Forward>, ReadError> {
        let (reader, failed, size) = self.reader(row, BATCH_WITH_MEDIA)?;
        let rows = Vec::new().into_iter();
        Ok(Box::new(ParquetForward {
            start: Self::clone(self),
            reader,
            failed,
            size,
            narrow_to: None,
            next: row,
            rows,
        }))
    }

    fn leaps(&self, from: u64, to: u64) -> bool {
        self.file.group_of(from) < self.file.group_of(to)
    }
}

struct ParquetForward {
    start: Arc<ParquetStart>,
    reader: ParquetRecordBatchReader,
    failed: Failed,
    /// Rows that the reader decodes at once.
    size: u64,
    /// Up to this row they are decoded one by one, after an error.
    narrow_to: Option<u64>,
    next: u64,
    rows: std::vec::IntoIter<Arc<dyn crate::dataset::cursor::Cells>>,
}

impl ParquetForward {
    fn batch(&mut self) -> Option<Result<RecordBatch, ReadError>> {
        let Self { reader, failed, .. } = self;
        guarded(|| reader.next().transpose().map_err(|error| failed.or_content(reason(error)))).transpose()
    }
}

impl Forward for ParquetForward {
    fn next_row(&mut self) -> Option<(u64, Decoded)> {
        let row = self.next;
        self.next += 1;
        if let Some(cells) = self.rows.next() {
            return Some((row, Ok(cells)));
        }
        if self.narrow_to.is_some_and(|end| row >= end)
            && let Ok((reader, failed, size)) = self.start.reader(row, BATCH_WITH_MEDIA)
        {
            (self.reader, self.failed, self.size, self.narrow_to) = (reader, failed, size, None);
        }
        let mut batch = self.batch()?;
        // One bad page fails all rows that are decoded with it: those before it are read one by one.
        if batch.is_err()
            && self.size > 1
            && let Ok((reader, failed, size)) = self.start.reader(row, 1)
        {
            (self.reader, self.failed) = (reader, failed);
            (self.narrow_to, self.size) = (Some(row + self.size), size);
            batch = self.batch()?;
        }
        match batch {
            Err(e) if e.cause == Cause::System => {
                Some((row, Err(e.in_words(|e| format!("cannot be read: {e}")))))
            }
            Err(e) => Some((row, Err(e.in_words(|e| format!("cannot be decoded: {e}; get the file again"))))),
            Ok(batch) => {
                self.rows = rows_of(batch.columns().first()?, &self.start.media.kind).into_iter();
                Some((row, Ok(self.rows.next()?)))
            }
        }
    }
}
