//! Files in columns: Parquet, and both forms of Arrow IPC.
//!
//! Media columns are left unread until someone asks for one of their media. Only this module knows the Arrow and
//! Parquet libraries.

mod arrow;
mod arrow_rows;
mod arrow_walk;
mod cells;
mod json;
mod parquet;
mod place;
mod shape;
mod watched;

pub(super) use arrow::ArrowFile;
pub(super) use parquet::ParquetFile;
