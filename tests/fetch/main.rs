//! `harness fetch` and models of the hub, through the binary, against a hub on this machine.

#![cfg(feature = "hub")]

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
