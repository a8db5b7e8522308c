//! A fast mock of model servers on this machine: all dialects, faults on demand, right answers that depend on
//! every byte of the request.
//!
//! Tests and benchmarks of the endpoint client run against it in-process ([`Loopback::start`]);
//! `examples/loopback_server.rs` is the same as a program. One thread serves one connection with blocking calls:
//! for a thousand connections that is cheap enough, and stalls, drips and resets read as what they are. The library knows nothing of it.
//!
//! ```ignore
//! #[path = "loopback/mod.rs"]
//! mod loopback;
//!
//! let server = Loopback::start(Options::of("--fault 429=60%,reset=5% --seed 1 --retry-after 50ms"))?;
//! // … send requests to server.url() …
//! let expected = right_answer(&[Piece::Text("What is said?"), Piece::Media(base64(&wav).as_bytes())]);
//! assert_eq!((server.counters().answered, server.counters().repeats), (200, 0));
//! ```
//!
//! What the right answer to a request is: [`content`]. What can go wrong: [`fault`]. What can be set: [`options`].

// Each program that includes this uses another part of it, so an expectation would be unmet in some.
#![allow(dead_code, unused_imports)]

pub(crate) mod content;
mod counters;
pub(crate) mod dialect;
mod exchange;
pub(crate) mod fault;
mod hash;
mod http;
mod multipart;
pub(crate) mod options;
mod originals;
mod scan;
mod server;
mod strict;

pub(crate) use content::{Piece, base64, right_answer};
pub(crate) use counters::{Counters, cpu_seconds};
pub(crate) use options::Options;
pub(crate) use server::Loopback;
