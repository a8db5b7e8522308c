//! The process that serves a model, for as long as a stage asks it.
//!
//! A server is started behind a guard (see `guard`): this same program in another role, which holds the server's whole
//! process group. The harness holds the other end of the guard's standard input. When that end closes, because the stage
//! is over or because the harness ended in any way whatever, `kill -9` included, the guard ends the server and all that
//! it has started. A supervisor (see `supervise`) waits until the server is ready, keeps its log, and starts it again
//! when it dies.
//!
//! This room must not know HTTP, dialects, benchmarks or configs, and it prints nothing: whoever starts a server says how
//! it is asked whether it is ready, and is told what happens.

mod guard;
mod log;
mod supervise;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::config::secret::ApiKey;

pub use guard::guard;
pub use supervise::Supervisor;

/// The exit code of a guard whose command is there but cannot be run.
pub const NOT_RUNNABLE: u8 = 126;
/// The exit code of a guard whose command is not there.
pub const NOT_FOUND: u8 = 127;

/// A server to be started.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables of its environment beside those of this process.
    pub env: Vec<(String, ApiKey)>,
    /// Its working folder; that of this process by default.
    pub folder: Option<PathBuf>,
    /// The file that its output is appended to.
    pub log: PathBuf,
    /// What must not stand in that file.
    pub secrets: Vec<ApiKey>,
    /// How long it may take until it is ready.
    pub ready_within: Duration,
    /// How long it has to end by itself once it was asked to.
    pub grace: Duration,
    /// How often it is started again when it dies.
    pub restarts: u32,
    /// This program in the role of a guard: the words before the number of grace seconds and the command.
    pub guard: Vec<OsString>,
}

/// Asks whether the server is ready; the error says what is missing.
pub type Ready = Box<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send>;

/// What happens to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It is not ready yet.
    Waiting {
        /// How long it has been starting.
        since: Duration,
        /// The last line that it wrote.
        last: String,
        /// Whether it was ready before, and has died.
        again: bool,
    },
    /// It can be asked.
    Ready {
        /// How long that took.
        after: Duration,
    },
    /// It died and is started again.
    Died {
        /// How it ended.
        how: String,
        /// Its last lines.
        last: Vec<String>,
        /// Which of its restarts this is, from 1.
        restart: u32,
        /// How many it has.
        of: u32,
    },
    /// It will never be ready again.
    Failed(ServerError),
}

/// A server that cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ServerError {
    /// The log.
    #[error("{}: the server's log cannot be written: {reason}", .path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The system starts no process.
    #[error("the server cannot be started: {0}")]
    Start(String),
    /// It died and has no restarts left.
    #[error(
        "the server {how}{}; all that it wrote is in {}; its last lines{}", tried(*.starts), .log.display(), lines(.last)
    )]
    Died {
        /// How it ended.
        how: String,
        /// How often it was started.
        starts: u32,
        /// Its last lines.
        last: Vec<String>,
        /// Where all lines are.
        log: PathBuf,
    },
    /// It ran and never got ready.
    #[error(
        "the server was not ready within {:.1} s ({why}): give it more time with ready_seconds, or name what answers once \
         it is ready with ready_url; all that it wrote is in {}; its last lines{}",
        .within.as_secs_f64(), .log.display(), lines(.last)
    )]
    NeverReady {
        /// How long it had.
        within: Duration,
        /// What was missing at last.
        why: String,
        /// Its last lines.
        last: Vec<String>,
        /// Where all lines are.
        log: PathBuf,
    },
}

/// ` (started 3 times)`
fn tried(starts: u32) -> String {
    if starts > 1 { format!(" (it was started {starts} times)") } else { String::new() }
}

/// Lines, indented below a sentence.
pub fn lines(lines: &[String]) -> String {
    if lines.is_empty() {
        return ": none".to_owned();
    }
    lines.iter().fold(":".to_owned(), |text, line| format!("{text}\n  | {line}"))
}
