//! `harness fetch` and models of the hub, through the binary, against a hub on this machine.

#![cfg(feature = "hub")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod archive;
#[path = "../common/mod.rs"]
mod common;
mod faults;
#[path = "../hub_server/mod.rs"]
mod hub_server;
mod models;
mod python;
mod safety;
mod scene;
mod whole;
