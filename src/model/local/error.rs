//! What can be wrong with a model's folder, in sentences.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::device::DeviceError;

/// How many tensor names of a kind an error lists.
const LISTED: usize = 10;

/// Why a local model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder is not there.
    #[error(
        "{}: no such folder; name the folder of a Hugging Face checkpoint with config.json, tokenizer.json and \
         *.safetensors (of a text model a GGUF file serves as well), or the model's name on the hub, as `owner/name`",
        .0.display()
    )]
    NoFolder(PathBuf),
    /// A file that must be there is not.
    #[error("{}: {file} is missing; {remedy}", .folder.display())]
    FileMissing {
        /// The model's folder.
        folder: PathBuf,
        /// The file, or the files of which one is needed.
        file: String,
        /// What to do.
        remedy: String,
    },
    /// A file cannot be read.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {problem}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        problem: String,
    },
    /// Files of the folder do not fit each other, or hold what this program does not support.
    #[error("{}: {problem}", .folder.display())]
    Unfit {
        /// The model's folder.
        folder: PathBuf,
        /// What does not fit.
        problem: String,
    },
    /// The tensors are not those of the architecture.
    #[error("{}: the weights do not fit config.json: {}", .folder.display(), .report)]
    Tensors {
        /// The model's folder.
        folder: PathBuf,
        /// All differences.
        report: TensorReport,
    },
    /// The device or number format cannot be had.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What a recogniser of speech was told makes no sense to the model.
    #[error("{}: {problem}", .folder.display())]
    Speech {
        /// The model's folder.
        folder: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The weights could not be brought to the device.
    #[error("{}: the weights cannot be loaded: {problem}", .folder.display())]
    Weights {
        /// The model's folder.
        folder: PathBuf,
        /// What candle said.
        problem: String,
    },
}

impl LoadError {
    /// The key of `[model]` in a config that the error is about.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Device(error) => error.key(),
            Self::Speech { .. } => "transcription",
            _ => "weights",
        }
    }
}

/// How the tensors of a checkpoint differ from those that its config asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorReport {
    /// Names that are asked for and not there.
    pub missing: Vec<String>,
    /// Names that are there and not asked for.
    pub unexpected: Vec<String>,
    /// `name: expected [..], found [..]`.
    pub misshapen: Vec<String>,
}

impl TensorReport {
    /// Whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshapen.is_empty()
    }
}

impl std::fmt::Display for TensorReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        let kinds =
            [("missing", &self.missing), ("wrong shape", &self.misshapen), ("unexpected", &self.unexpected)];
        for (kind, names) in kinds {
            if names.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push_str("; ");
            }
            let _ = write!(text, "{} {kind} ({}", names.len(), names[..names.len().min(LISTED)].join(", "));
            if names.len() > LISTED {
                let _ = write!(text, " and {} more", names.len() - LISTED);
            }
            text.push(')');
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_shortened_but_counted() {
        let report = TensorReport {
            missing: (0..12).map(|layer| format!("layers.{layer}")).collect(),
            unexpected: vec!["adapter.weight".to_owned()],
            misshapen: Vec::new(),
        };
        let text = report.to_string();
        assert!(text.starts_with("12 missing (layers.0, "), "{text}");
        assert!(text.contains("layers.9 and 2 more); 1 unexpected (adapter.weight)"), "{text}");
        assert!(!report.is_empty() && TensorReport::default().is_empty());
    }
}
