//! What answers requests: the `Model` trait, its identity and its limits.

#[cfg(feature = "local")]
pub mod local;
