//! Published sets to files that can be read at any place: once, before any run.
//!
//! Some sets are published so that a clip can only be had by decoding all that stands before it: samples as lists of
//! numbers in Parquet, recordings of all languages in one column. This room walks such a set once, on all processors,
//! and leaves in the data folder `prepared/SET.jsonl` (rows) beside `prepared/SET/` (clips and images), with the record
//! `prepared/prepare.json`. Nothing is resampled, mixed or shortened.
//!
//! It knows which columns the published sets have ([`layout`]), no file formats of datasets and no codecs: rows and
//! media come from `dataset`, files of media are made by `media`.

mod counting;
mod ending;
mod error;
pub mod evidence;
mod files;
mod going;
pub mod layout;
mod part;
mod plan;
mod pool;
mod store;
mod verify;
mod work;

pub use error::PrepareError;
pub use plan::{Asked, Plan, PlannedSet, is_by_language, is_needed, plan};
pub use work::{Event, carry_out};
