//! `manifest.json`: what a run is made of, so that it can be scored, traced and repeated without the config.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::{FolderError, write_whole};
use super::plan::PlanHashes;
use crate::config::{LocalConfig, RunConfig};
use crate::dataset::FingerprintKind;
use crate::model::ModelIdentity;
use crate::model::replay::ReplayFacts;
use crate::prompt::PromptSet;
use crate::types::Digest;

/// The version of the manifest's format that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// A manifest that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a manifest.
    #[error("{}: not a run's manifest: {reason}; move the run's folder away or give the run another name", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another version.
    #[error(
        "{}: written in version {found} of the manifest's format, this program reads version {VERSION}; use the \
         version of harness that wrote it", .path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the file names.
        found: u64,
    },
}

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`VERSION`]
    pub version: u32,
    /// The run's name.
    pub run: String,
    /// The version of this program that planned the run last.
    pub harness: String,
    /// When the run began.
    pub created: String,
    /// When it was planned last.
    pub planned: String,
    /// Tells whether the run's `plan.jsonl` is still the right one.
    #[serde(default)]
    pub plan: Option<PlanHashes>,
    /// The times that answers were made: with which version, where. More than one after a resume.
    pub sessions: Vec<Session>,
    /// The configuration, resolved.
    pub config: RunConfig,
    /// The model.
    pub model: ModelIdentity,
    /// Of answers that existed already: whence, and how they were matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayFacts>,
    /// The benchmarks, in the order of the config.
    pub benchmarks: Vec<ManifestBenchmark>,
}

/// One time that answers were made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// When it began.
    pub begun: String,
    /// The version of this program.
    pub harness: String,
    /// The machine.
    pub host: Host,
    /// The device of a local model.
    pub device: String,
    /// Requests that went through the model together.
    pub batch_size: usize,
    /// The models that an endpoint said have answered, where they are not the one that it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered_as: Vec<String>,
}

impl Session {
    /// A session of this program on this machine, with a model.
    pub fn new(begun: String, model: &ModelIdentity, local: Option<&LocalConfig>) -> Self {
        Self {
            begun,
            harness: env!("CARGO_PKG_VERSION").to_owned(),
            host: Host::here(),
            device: model.device.clone(),
            batch_size: local.map_or(1, |local| local.batch_size),
            answered_as: Vec::new(),
        }
    }
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Processors this process may use.
    pub cpus: usize,
}

impl Host {
    /// This machine.
    pub fn here() -> Self {
        Self {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// One `[[benchmark]]` section as planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestBenchmark {
    /// The section's label.
    pub label: String,
    /// The benchmark's name.
    pub name: String,
    /// The dataset's index file.
    pub dataset: DatasetFacts,
    /// The prompt texts in use, in full.
    pub prompts: PromptSet,
    /// Samples that were taken.
    pub samples: u64,
    /// Requests in all.
    pub requests: u64,
    /// Requests by condition; one that serves two conditions counts in both.
    pub conditions: Vec<(String, u64)>,
}

/// A dataset as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetFacts {
    /// The file of its rows; of several, the first.
    pub index: PathBuf,
    /// How many files hold its rows.
    #[serde(default = "one")]
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// Their blake3 hash.
    pub blake3: Digest,
    /// What the hash is of: all content, or, of files that hold media, what tells them apart in no time.
    #[serde(default)]
    pub hashed: FingerprintKind,
    /// Samples in it, whether taken or not.
    pub samples: u64,
    /// How they differ from the published data, where all were taken and something is published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// Rows that could not be read.
    pub unreadable_rows: u64,
    /// What is wrong with the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

fn one() -> usize {
    1
}

impl Manifest {
    /// Where the manifest of a run folder is.
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("manifest.json")
    }

    /// Reads the manifest of a run folder; `None` where there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, ManifestError> {
        let path = Self::path(folder);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ManifestError::Io { path, source }),
        };
        let format =
            |path: PathBuf, e: serde_json::Error| ManifestError::Format { path, reason: e.to_string() };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| format(path.clone(), e))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {
                serde_json::from_value(value).map(Some).map_err(|e| format(path, e))
            }
            Some(found) => Err(ManifestError::Version { path, found }),
            None => Err(ManifestError::Format { path, reason: "it names no version".to_owned() }),
        }
    }

    /// Writes the manifest whole or not at all.
    pub fn write(&self, folder: &Path) -> Result<(), FolderError> {
        write_whole(&Self::path(folder), |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        })
    }
}
