//! Runs against model servers: nothing is lost, nothing is asked twice, whatever the server does.

#![cfg(feature = "endpoint")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;
#[path = "endpoints/faults.rs"]
mod faults;
#[path = "endpoints/images.rs"]
mod images;
#[path = "endpoints/kills.rs"]
mod kills;
#[path = "loopback/mod.rs"]
mod loopback;
#[path = "endpoints/runs.rs"]
mod runs;
#[path = "endpoints/scene.rs"]
mod scene;
