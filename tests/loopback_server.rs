//! The loopback server does what it says: shapes, faults, HTTP, counters.

#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]
#![expect(clippy::print_stdout, reason = "a skipped test says so")]

#[path = "loopback_server/client.rs"]
mod client;
#[path = "loopback_server/faults.rs"]
mod faults;
#[path = "loopback/mod.rs"]
mod loopback;
#[path = "loopback_server/program.rs"]
mod program;
#[path = "loopback_server/shapes.rs"]
mod shapes;
#[path = "loopback_server/wire.rs"]
mod wire;
