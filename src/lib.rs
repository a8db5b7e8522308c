//! `harness` evaluates models that take audio and images, by the protocols of published benchmarks, and
//! regenerates the papers' tables.
//!
//! Data travels one way: `config` -> plan -> generate -> (judge) -> score -> report. ARCHITECTURE.md has the
//! map and what each room must not know.

pub mod benchmark;
pub mod cli;
pub mod config;
pub mod dataset;
#[cfg(any(feature = "endpoint", feature = "hub"))]
mod http;
#[cfg(feature = "hub")]
pub mod hub;
pub mod languages;
pub mod media;
pub mod metric;
pub mod model;
pub mod prepare;
pub mod prompt;
pub mod report;
pub mod run;
#[cfg(all(feature = "endpoint", unix))]
pub mod server;
pub mod survey;
pub mod types;
pub mod wiki;
