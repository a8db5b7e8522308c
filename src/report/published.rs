//! The papers' figures: `results/published/<benchmark>.toml`, each with its source and status.

/// The published figures of one benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {}
