//! `plan.jsonl`: the requests of a run as scoring sees them, one line each, below a header.
//!
//! It is written whole or not at all. A plan whose hash is that of the plan asked for need not be made again.

use std::io::{BufRead as _, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::types::{Digest, Planned};

/// The version of the plan's format.
pub const VERSION: u32 = 1;

const FORMAT: &str = "harness-plan";

/// Bytes that are read at once.
const READ: usize = 1 << 20;

/// What tells one plan from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanHashes {
    /// See [`Plan::digest`](super::plan::Plan::digest).
    pub made_of: Digest,
    /// The hash of the file.
    pub content: Digest,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u64,
    /// What the plan is made of; plans that have none are made anew.
    #[serde(default)]
    digest: Option<Digest>,
}

/// Where the plan of a run folder is.
pub fn plan_path(folder: &Path) -> PathBuf {
    folder.join("plan.jsonl")
}

/// Writes the first line.
pub(super) fn write_header(out: &mut dyn Write, digest: Digest) -> std::io::Result<()> {
    let header = Header { format: FORMAT.to_owned(), version: u64::from(VERSION), digest: Some(digest) };
    serde_json::to_writer(&mut *out, &header)?;
    out.write_all(b"\n")
}

/// Hashes what is read or written through it: in large pieces, since small ones are hashed slowly.
pub(super) struct Hashing<T> {
    inner: T,
    hasher: blake3::Hasher,
}

impl<T> Hashing<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, hasher: blake3::Hasher::new() }
    }

    /// The hash of what went through.
    pub(super) fn digest(&self) -> Digest {
        Digest(*self.hasher.finalize().as_bytes())
    }
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.hasher.update(bytes.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// Reads the labels and ids of the requests of a plan, in plan order. `false` where there is no plan of these
/// hashes, or one that cannot be read: it is made anew then.
pub fn read_ids(folder: &Path, hashes: &PlanHashes, visit: impl FnMut(&str, Digest)) -> bool {
    ids(folder, hashes, visit).is_some()
}

fn ids(folder: &Path, hashes: &PlanHashes, mut visit: impl FnMut(&str, Digest)) -> Option<()> {
    #[derive(Deserialize)]
    struct Ids<'a> {
        request: Digest,
        #[serde(borrow)]
        benchmark: std::borrow::Cow<'a, str>,
    }
    let file = std::fs::File::open(plan_path(folder)).ok()?;
    let mut reader = std::io::BufReader::with_capacity(1 << 18, Hashing::new(file));
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).ok()?;
    let header: Header = serde_json::from_slice(&line).ok()?;
    let wanted = Some(hashes.made_of);
    if header.format != FORMAT || header.version != u64::from(VERSION) || header.digest != wanted {
        return None;
    }
    // Reading and hashing take about as long as the rest: a thread does them.
    std::thread::scope(|scope| {
        let (lines_in, lines) = std::sync::mpsc::sync_channel::<Vec<u8>>(4);
        let reading = scope.spawn(move || {
            loop {
                let mut lines = Vec::with_capacity(READ + (READ >> 4));
                (&mut reader).take(READ as u64).read_to_end(&mut lines).ok()?;
                reader.read_until(b'\n', &mut lines).ok()?;
                // Nobody listens any more after a line that is none.
                if lines.is_empty() || lines_in.send(lines).is_err() {
                    return Some(reader.get_ref().digest());
                }
            }
        });
        for lines in lines {
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                let ids: Ids<'_> = serde_json::from_slice(line).ok()?;
                visit(&ids.benchmark, ids.request);
            }
        }
        (reading.join().ok()?? == hashes.content).then_some(())
    })
}

/// A plan file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}: {message}; run the config again to write the plan anew", .path.display())]
pub struct PlanFileError {
    path: std::path::PathBuf,
    line: u64,
    message: String,
}

/// Reads the plan of a run folder, one request at a time.
pub fn read_plan(
    folder: &Path,
) -> Result<impl Iterator<Item = Result<Planned, PlanFileError>>, PlanFileError> {
    use std::io::BufRead as _;
    let path = plan_path(folder);
    let error = {
        let path = path.clone();
        move |line: usize, message: String| PlanFileError {
            path: path.clone(),
            line: line as u64 + 1,
            message,
        }
    };
    let file = std::fs::File::open(&path).map_err(|e| error(0, e.to_string()))?;
    let mut lines = std::io::BufReader::with_capacity(1 << 18, file).lines().enumerate();
    let first = lines.next().and_then(|(_, line)| serde_json::from_str::<Header>(&line.ok()?).ok());
    match first {
        Some(header) if header.format == FORMAT && header.version == u64::from(VERSION) => {}
        Some(header) if header.format == FORMAT => {
            return Err(error(0, format!("written in version {}, expected {VERSION}", header.version)));
        }
        _ => return Err(error(0, "the first line is not the header of a plan".to_owned())),
    }
    Ok(lines.map(move |(number, line)| {
        let line = line.map_err(|e| error(number, e.to_string()))?;
        serde_json::from_str(&line).map_err(|e| error(number, e.to_string()))
    }))
}
