//! From a place in a row to the column of media that it is in.

use std::sync::Arc;

use super::arrow::ArrowFile;
use super::cells::{field_of, why_not};
use super::parquet::ParquetFile;
use super::shape::{Kind, Media, Shapes};
use crate::dataset::cursor::{Cursor, Decoded, Start};
use crate::media::{MediaContent, ReadError};

impl Shapes {
    /// The column at the beginning of a path, the rest of the path, and the media at its end.
    fn locate<'p, 's>(&self, path: &'p [&'s str]) -> Option<(usize, &'p [&'s str], &Media)> {
        let (column, rest) = field_of(path, &self.columns.iter().map(|(name, _)| name))?;
        let media = self.columns.get(column)?.1.as_ref()?.media_at(rest)?;
        Some((column, rest, media))
    }

    /// Why the samples at a path are not read, by their type; `None` where they are, and for other media.
    fn odd_samples(&self, path: &[&str]) -> Option<String> {
        match &self.locate(path)?.2.kind {
            Kind::Samples { of, .. } => why_not(of),
            Kind::File { .. } | Kind::Binary | Kind::Base64 => None,
        }
    }
}

impl ParquetFile {
    /// Why the samples at a path are not read, by their type; `None` where they are, and for other media.
    pub(in crate::dataset) fn odd_samples(&self, path: &[&str]) -> Option<String> {
        self.shapes.odd_samples(path)
    }

    /// The column of media at a path.
    pub(in crate::dataset) fn media_at(&self, path: &[&str]) -> Option<usize> {
        self.shapes.locate(path).map(|(_, _, media)| media.id)
    }

    /// The row of the column that media are in.
    pub(in crate::dataset) fn row_of<'p, 's>(
        self: &Arc<Self>,
        row: u64,
        path: &'p [&'s str],
        cursor: impl FnOnce(usize, &dyn Fn() -> Box<dyn Start>) -> Arc<Cursor>,
    ) -> Option<(Decoded, &'p [&'s str])> {
        let (_, rest, media) = self.shapes.locate(path)?;
        Some((cursor(media.id, &|| self.start(media)).row(row), rest))
    }
}

impl ArrowFile {
    /// Why the samples at a path are not read, by their type; `None` where they are, and for other media.
    pub(in crate::dataset) fn odd_samples(&self, path: &[&str]) -> Option<String> {
        self.shapes.odd_samples(path)
    }

    /// The column of media at a path.
    pub(in crate::dataset) fn media_at(&self, path: &[&str]) -> Option<usize> {
        self.shapes.locate(path).map(|(_, _, media)| media.id)
    }

    /// The media at a place in a row, read from there, where batches need not be read whole.
    pub(in crate::dataset) fn media(&self, row: u64, path: &[&str]) -> Result<MediaContent, ReadError> {
        let (column, rest, media) = self.shapes.locate(path).ok_or("there is no such column of media")?;
        let batch = self.batch_of(row).ok_or_else(|| format!("the file has no row {row}"))?;
        self.walk(batch, row, column, rest, media)
    }

    /// The row of the column that media are in, where batches must be read whole.
    pub(in crate::dataset) fn row_of<'p, 's>(
        self: &Arc<Self>,
        row: u64,
        path: &'p [&'s str],
        cursor: impl FnOnce(usize, &dyn Fn() -> Box<dyn Start>) -> Arc<Cursor>,
    ) -> Option<(Decoded, &'p [&'s str])> {
        let (column, rest, media) = self.shapes.locate(path).filter(|_| self.whole)?;
        Some((cursor(media.id, &|| self.start(column, media)).row(row), rest))
    }
}
