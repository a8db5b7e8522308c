//! The files of a dataset, opened as what they are.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "parquet")]
use super::columnar::{ArrowFile, ParquetFile};
use super::cursor::{self, Counts, Cursor, Decoded};
use super::format::{Format, format};
use super::json_array::JsonArrayRows;
use super::jsonl::JsonlRows;
use super::rows::FileRows;
use super::table::TableRows;
use super::text_media::{NamedRows, TextStart};
use super::{DatasetError, base64};
use crate::media::{MediaContent, ReadError};

/// A file of rows.
#[derive(Clone)]
pub(super) struct DataFile {
    path: Arc<Path>,
    /// Its name in the data folder, as media names begin.
    name: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Text(Format),
    #[cfg(feature = "parquet")]
    Parquet(Arc<ParquetFile>),
    #[cfg(feature = "parquet")]
    Arrow(Arc<ArrowFile>),
}

impl DataFile {
    pub(super) fn open(path: &Path, name: String) -> Result<Self, DatasetError> {
        let kind = match format(path)? {
            #[cfg(feature = "parquet")]
            Format::Parquet => Kind::Parquet(Arc::new(ParquetFile::open(path, name.clone())?)),
            #[cfg(feature = "parquet")]
            Format::Arrow => Kind::Arrow(Arc::new(ArrowFile::open(path, name.clone())?)),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet | Format::Arrow => {
                return Err(DatasetError::Format {
                    path: path.to_owned(),
                    reason: "a Parquet or Arrow file, and this build reads none: build with `cargo build --release \
                             --features parquet`"
                        .to_owned(),
                });
            }
            text => Kind::Text(text),
        };
        Ok(Self { path: path.into(), name, kind })
    }

    pub(super) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is JSON or a table of text.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text(_))
    }

    /// The rows, with names in place of media.
    pub(super) fn rows(&self) -> Result<Box<dyn FileRows>, DatasetError> {
        match &self.kind {
            Kind::Text(_) => Ok(Box::new(NamedRows::new(self.text()?, self.name.clone()))),
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => Ok(file.rows()),
            #[cfg(feature = "parquet")]
            Kind::Arrow(file) => Ok(file.rows()),
        }
    }

    /// Stretches of rows that can be read apart from each other at no cost; none where the rows are not numbered.
    pub(super) fn stretches(&self) -> Vec<Range<u64>> {
        match &self.kind {
            Kind::Text(_) => Vec::new(),
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => file.stretches(),
            #[cfg(feature = "parquet")]
            Kind::Arrow(file) => file.stretches(),
        }
    }

    /// The rows from the beginning of a stretch on; of a file without stretches, all.
    pub(super) fn rows_of(&self, stretch: usize) -> Result<Box<dyn FileRows>, DatasetError> {
        match &self.kind {
            Kind::Text(_) => self.rows(),
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => Ok(file.rows_of(stretch)),
            #[cfg(feature = "parquet")]
            Kind::Arrow(file) => Ok(file.rows_of(stretch)),
        }
    }

    /// The rows of a text file as they stand there.
    pub(super) fn text(&self) -> Result<Box<dyn FileRows>, DatasetError> {
        match &self.kind {
            Kind::Text(Format::JsonArray) => Ok(Box::new(JsonArrayRows::open(&self.path)?)),
            Kind::Text(Format::Table(separator)) => Ok(Box::new(TableRows::open(&self.path, *separator)?)),
            _ => Ok(Box::new(JsonlRows::open(&self.path)?)),
        }
    }

    /// Whether a place in a row can hold media.
    pub(super) fn has_media_at(&self, path: &[&str]) -> bool {
        match &self.kind {
            Kind::Text(_) => path.first().is_some_and(|column| base64::is_image_name(column)),
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => file.media_at(path).is_some(),
            #[cfg(feature = "parquet")]
            Kind::Arrow(file) => file.media_at(path).is_some(),
        }
    }

    /// Why the samples at a place in a row are not read, by the type of their column; `None` where they are, and for other
    /// media.
    #[cfg_attr(not(feature = "parquet"), expect(unused_variables, reason = "text holds no samples"))]
    pub(super) fn odd_samples(&self, path: &[&str]) -> Option<String> {
        match &self.kind {
            Kind::Text(_) => None,
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => file.odd_samples(path),
            #[cfg(feature = "parquet")]
            Kind::Arrow(file) => file.odd_samples(path),
        }
    }

    /// The media at a place in a row. `place` tells this file from all others.
    pub(super) fn media(
        &self,
        place: (u64, usize),
        row: u64,
        path: &[&str],
        counts: &Arc<Counts>,
    ) -> Result<MediaContent, ReadError> {
        match (self.row_of(place, row, path, counts), &self.kind) {
            (Some((row, path)), _) => row?.media(path),
            #[cfg(feature = "parquet")]
            (None, Kind::Arrow(file)) => file.media(row, path),
            (None, _) => Err("there is no such column of media".into()),
        }
    }

    /// The row that media are in, read now, and the path that leads to them in it; `None` where each of the media is read
    /// from its place, and nothing is to be read before it.
    pub(super) fn row_of<'p, 's>(
        &self,
        (dataset, number): (u64, usize),
        row: u64,
        path: &'p [&'s str],
        counts: &Arc<Counts>,
    ) -> Option<(Decoded, &'p [&'s str])> {
        let cursor = |column: usize, start: &dyn Fn() -> Box<dyn cursor::Start>| {
            cursor::cursor((dataset, number, column), || Cursor::new(start(), Arc::clone(counts)))
        };
        match &self.kind {
            Kind::Text(_) => Some((cursor(0, &|| Box::new(TextStart { file: self.clone() })).row(row), path)),
            #[cfg(feature = "parquet")]
            Kind::Parquet(file) => file.row_of(row, path, cursor),
            #[cfg(feature = "parquet")]
            Kind::Arrow(file) => file.row_of(row, path, cursor),
        }
    }
}
