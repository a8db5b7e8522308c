//! Clients for model servers.
//!
//! An [`EndpointModel`] sends each request as an HTTP request of the server's dialect, tries again what can go
//! better next time, and makes an outcome of every reply: nothing is lost, nothing is changed silently. The
//! way of a request:
//!
//! `dialect` (pure: request -> body) -> `flow` (may it go, and where to) -> `client` (I/O) ->
//! `dialect` (pure: status, headers and body -> what it means) -> `retry` (again, and when) or an answer.
//!
//! This room is the only one that knows JSON dialects and HTTP. It must not know benchmarks, journals, codecs
//! (media come as whole files with base64 of their own) or the config file, and it reads no environment
//! variable: proxies, keys and certificates are in the [`EndpointSpec`].

mod anthropic;
mod azure;
mod body;
mod client;
mod dialect;
mod doorman;
mod endpoint_model;
mod flow;
mod gemini;
mod openai;
mod probe;
mod reply;
mod retry;
mod spec;
mod spec_check;
mod sse;
mod stats;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
mod transcription;

pub use doorman::Doorman;
pub use endpoint_model::EndpointModel;
pub use probe::{About, Finding, Questions, Verdict};
pub use reply::Cause;
pub use spec::{
    AudioForm, Concurrency, Dialect, EndpointSpec, ImageDetail, Limits, MaxTokensField, Retries, Send,
    SystemRole, Transcription, TranscriptionText,
};
pub use spec_check::EndpointError;
pub use stats::{AddressStats, EndpointStats};
