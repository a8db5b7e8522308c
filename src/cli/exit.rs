//! Exit codes, and which error has which.

use crate::config::ConfigError;
use crate::model::ModelError;
use crate::run::folder::FolderError;
use crate::run::generate::GenerateError;
use crate::run::journal::JournalError;
use crate::run::judge::JudgeError;
use crate::run::manifest::ManifestError;
use crate::run::plan::PlanError;
use crate::run::score::ScoreError;
use crate::run::transcripts::TranscriptsError;

/// Done.
pub(super) const DONE: u8 = 0;
/// Done, but requests failed or rows were unreadable.
pub(super) const INCOMPLETE: u8 = 1;
/// The command line, the config or its data are wrong.
pub(super) const USAGE: u8 = 2;
/// The model cannot be loaded.
pub(super) const MODEL: u8 = 3;
/// The run's folder cannot be used.
pub(super) const FOLDER: u8 = 4;
/// Stopped by Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;
/// Stopped by SIGTERM.
pub(super) const TERMINATED: u8 = 143;

/// Why a command ends, and with which code.
#[derive(Debug)]
pub(super) struct Failure {
    /// The exit code.
    pub(super) code: u8,
    /// What is printed; empty where it was printed already.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn error(code: u8, error: &impl ToString) -> Self {
        Self::new(code, format!("error: {}", error.to_string()))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::error(USAGE, &error)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::error(MODEL, &error)
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        let code = match error {
            FolderError::NothingToResume(_) | FolderError::NoRun { .. } => USAGE,
            FolderError::Io { .. } | FolderError::Locked(_) | FolderError::Transcribing(_) => FOLDER,
        };
        Self::error(code, &error)
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::error(FOLDER, &error)
    }
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        Self::error(FOLDER, &error)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Folder(error) => error.into(),
            error => Self::error(USAGE, &error),
        }
    }
}

impl From<GenerateError> for Failure {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Journal(error) => error.into(),
            GenerateError::Plan(error) => error.into(),
            error @ GenerateError::Model { .. } => Self::error(MODEL, &error),
            error @ GenerateError::Internal(_) => Self::error(FOLDER, &error),
        }
    }
}

impl From<JudgeError> for Failure {
    fn from(error: JudgeError) -> Self {
        match error {
            JudgeError::Journal(error) => error.into(),
            JudgeError::Folder(error) => error.into(),
            JudgeError::Plan(_) | JudgeError::File { .. } => Self::error(FOLDER, &error),
            JudgeError::Benchmark { .. }
            | JudgeError::Nothing(_)
            | JudgeError::NoResponses(_)
            | JudgeError::Other { .. }
            | JudgeError::Unowned { .. } => Self::error(USAGE, &error),
        }
    }
}

impl From<TranscriptsError> for Failure {
    fn from(error: TranscriptsError) -> Self {
        match error {
            TranscriptsError::Journal(error) => error.into(),
            TranscriptsError::Plan(error) => error.into(),
            TranscriptsError::Folder(error) => error.into(),
            error @ TranscriptsError::File { .. } => Self::error(FOLDER, &error),
        }
    }
}

impl From<ScoreError> for Failure {
    fn from(error: ScoreError) -> Self {
        let code = match error {
            ScoreError::NoManifest(_) | ScoreError::NoScores(_) | ScoreError::NoJudge { .. } => USAGE,
            _ => FOLDER,
        };
        Self::error(code, &error)
    }
}
