//! The exact wording of the papers' authors: where it stands upstream, how it is cut out, and the hash that it must
//! have.
//!
//! The words are not part of this program. They are cut out of files that were fetched at pinned commits, and a
//! string whose hash is another than the pinned one is refused. This module is given the files' texts; it must not
//! open files, and knows benchmarks by name only.

mod cut;
mod python;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use thiserror::Error;

use super::{places, sha256_hex};
pub use cut::{Cut, CutError, Fill, Step};
pub use python::LiteralError;

/// The folder in a data folder that upstream files are in.
pub const FOLDER: &str = "official";

/// The version of the pins' format.
const VERSION: u32 = 1;

/// The pins that the program carries.
const EMBEDDED: &str = include_str!("../../../prompts/official.toml");

/// Where a string comes from, as far as its words go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The authors' words.
    Official,
    /// Made of the authors' words by rule, where they publish none for the purpose.
    Reconstructed,
    /// Words of the work that the paper builds on: never used unless asked for.
    Ancestor,
}

impl Standing {
    /// The word for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Official => "official",
            Self::Reconstructed => "reconstructed",
            Self::Ancestor => "ancestor",
        }
    }

    /// Whether a string of this standing takes the place of our own wording by itself.
    pub fn replaces(self) -> bool {
        self != Self::Ancestor
    }
}

/// An upstream file at a commit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamFile {
    /// The name that texts call it by.
    id: String,
    /// `owner/name` on GitHub.
    pub repository: String,
    /// The commit, 40 hexadecimal digits.
    pub commit: String,
    /// Its path in the repository.
    pub path: String,
    /// Its licence, in words.
    pub licence: String,
    /// Its size, where it is known.
    pub bytes: Option<u64>,
    /// Its SHA-256, where it is known.
    pub sha256: Option<String>,
}

impl UpstreamFile {
    /// Its place in a data folder: `official/<owner>+<name>/<commit>/<path>`.
    pub fn place(&self) -> String {
        format!("{FOLDER}/{}/{}/{}", self.repository.replace('/', "+"), self.commit, self.path)
    }

    /// The repository and the commit, cut short, for tables.
    pub fn short(&self) -> String {
        format!("{}@{}", self.repository, self.commit.get(..7).unwrap_or(&self.commit))
    }
}

/// A string of a benchmark, pinned.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The benchmark.
    pub benchmark: String,
    /// The name of the prompt text.
    pub name: String,
    /// Where its words come from.
    pub status: Standing,
    file: Option<String>,
    of: Option<String>,
    cut: Option<Cut>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    fill: Fill,
    /// The places that it has.
    pub places: Vec<String>,
    /// SHA-256 of the string as the upstream program has it, in hexadecimal.
    pub sha256: String,
}

/// A pinned string with the file that it comes out of, and the string where that file was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The pin.
    pub pin: Pin,
    /// The file.
    pub file: UpstreamFile,
    /// The string as a template of this program; `None` where the file is not there.
    pub text: Option<String>,
}

impl Found {
    /// What tables say of the text: `official (owner/name@commit)`.
    pub fn status(&self) -> String {
        format!("{} ({})", self.pin.status.as_str(), self.file.short())
    }
}

/// What can be wrong with official prompts.
#[derive(Debug, Error)]
pub enum OfficialError {
    /// The pins cannot be read.
    #[error("prompts/official.toml: {0}")]
    Pins(String),
    /// A file that cannot be read.
    #[error("{place}: {reason}")]
    Read {
        /// Benchmark and name.
        prompt: String,
        /// The file's place in the data folder.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A file that a string cannot be cut out of.
    #[error("the official prompt {prompt} cannot be cut out of {place}: {source}; fetch the file again")]
    Cut {
        /// Benchmark and name.
        prompt: String,
        /// The file's place in the data folder.
        place: String,
        /// What is wrong.
        source: CutError,
    },
    /// A string that is another than the pinned one.
    #[error(
        "the official prompt {prompt}, cut out of {place}, has the SHA-256 {found}, not the pinned {expected}: the \
         file is not the one of the pinned commit; fetch it again"
    )]
    Hash {
        /// Benchmark and name.
        prompt: String,
        /// The file's place in the data folder.
        place: String,
        /// The pinned hash.
        expected: String,
        /// The hash of what was cut out.
        found: String,
    },
    /// A string with other places than the pinned ones.
    #[error("the official prompt {prompt} has the places {found}, not {expected}")]
    Places {
        /// Benchmark and name.
        prompt: String,
        /// The places that it should have.
        expected: String,
        /// The places that it has.
        found: String,
    },
}

impl OfficialError {
    /// The prompt that it is about, by benchmark and name.
    pub fn prompt(&self) -> Option<&str> {
        match self {
            Self::Read { prompt, .. }
            | Self::Cut { prompt, .. }
            | Self::Hash { prompt, .. }
            | Self::Places { prompt, .. } => Some(prompt),
            Self::Pins(_) => None,
        }
    }
}

/// All pins.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    version: u32,
    #[serde(default, rename = "file")]
    files: Vec<UpstreamFile>,
    #[serde(default, rename = "text")]
    texts: Vec<Pin>,
}

impl Pins {
    /// The pins that the program carries.
    pub fn embedded() -> Result<Self, OfficialError> {
        Self::parse(EMBEDDED)
    }

    /// Pins out of a TOML text.
    pub fn parse(text: &str) -> Result<Self, OfficialError> {
        let pins: Self = toml::from_str(text).map_err(|e| OfficialError::Pins(e.to_string()))?;
        if pins.version != VERSION {
            return Err(OfficialError::Pins(format!(
                "version {} of the format; this program reads version {VERSION}",
                pins.version
            )));
        }
        for pin in &pins.texts {
            let wrong = |what: &str| OfficialError::Pins(format!("{}/{}: {what}", pin.benchmark, pin.name));
            match (&pin.cut, &pin.file, &pin.of) {
                (Some(_), Some(_), None) | (None, None, Some(_)) => {}
                _ => return Err(wrong("give `file` and `cut`, or `of`")),
            }
            let same = |other: &&Pin| (&other.benchmark, &other.name) == (&pin.benchmark, &pin.name);
            if pins.texts.iter().filter(same).count() > 1 {
                return Err(wrong("is there twice"));
            }
            pins.file_of(pin).ok_or_else(|| wrong("comes out of no file that is listed"))?;
        }
        Ok(pins)
    }

    /// The pins of a benchmark.
    pub fn of<'a>(&'a self, benchmark: &'a str) -> impl Iterator<Item = &'a Pin> {
        self.texts.iter().filter(move |pin| pin.benchmark == benchmark)
    }

    fn named(&self, benchmark: &str, name: &str) -> Option<&Pin> {
        self.texts.iter().find(|pin| pin.benchmark == benchmark && pin.name == name)
    }

    /// The chain from a string to the one that is cut out of a file, itself first. A circle gives none.
    fn chain<'a>(&'a self, pin: &'a Pin) -> Option<Vec<&'a Pin>> {
        let mut chain = vec![pin];
        while let Some(of) = chain.last()?.of.as_ref() {
            let next = self.named(&pin.benchmark, of)?;
            if chain.len() > self.texts.len() {
                return None;
            }
            chain.push(next);
        }
        Some(chain)
    }

    fn file_of(&self, pin: &Pin) -> Option<&UpstreamFile> {
        let id = self.chain(pin)?.last()?.file.as_ref()?;
        self.files.iter().find(|file| file.id == *id)
    }

    /// The upstream files of a benchmark, each once.
    pub fn files(&self, benchmark: &str) -> Vec<UpstreamFile> {
        let ids: BTreeSet<&str> =
            self.of(benchmark).filter_map(|pin| Some(self.file_of(pin)?.id.as_str())).collect();
        self.files.iter().filter(|file| ids.contains(file.id.as_str())).cloned().collect()
    }

    /// The strings of a benchmark, cut and checked. `read` gives the text of a file, or `None` where it is not
    /// there; it is asked once for each file. The first string that is wrong is the error.
    pub fn find(
        &self,
        benchmark: &str,
        read: impl FnMut(&UpstreamFile) -> Result<Option<String>, String>,
    ) -> Result<Vec<Found>, OfficialError> {
        let each = self.find_each(benchmark, read).into_iter();
        each.map(|(pin, file, text)| Ok(Found { pin, file, text: text? })).collect()
    }

    /// As [`Pins::find`], with what is wrong with each string beside it.
    pub fn find_each(
        &self,
        benchmark: &str,
        mut read: impl FnMut(&UpstreamFile) -> Result<Option<String>, String>,
    ) -> Vec<(Pin, UpstreamFile, Result<Option<String>, OfficialError>)> {
        let files: BTreeMap<String, Result<Option<String>, String>> =
            self.files(benchmark).iter().map(|file| (file.id.clone(), read(file))).collect();
        let mut found = Vec::new();
        for pin in self.of(benchmark) {
            // Checked when the pins were read.
            let (Some(file), Some(chain)) = (self.file_of(pin), self.chain(pin)) else { continue };
            let text = match files.get(&file.id) {
                None | Some(Ok(None)) => Ok(None),
                Some(Ok(Some(upstream))) => pin.make(&chain, file, upstream).map(Some),
                Some(Err(reason)) => {
                    let (prompt, place) = (pin.full_name(), file.place());
                    Err(OfficialError::Read { prompt, place, reason: reason.clone() })
                }
            };
            found.push((pin.clone(), file.clone(), text));
        }
        found
    }
}

impl Pin {
    /// Benchmark and name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.benchmark, self.name)
    }

    /// The string out of the text of its file, by its chain: checked, and as a template of this program.
    fn make(&self, chain: &[&Pin], file: &UpstreamFile, upstream: &str) -> Result<String, OfficialError> {
        let prompt = || self.full_name();
        let wrong = |source| OfficialError::Cut { prompt: prompt(), place: file.place(), source };
        let mut text = String::new();
        for pin in chain.iter().rev() {
            if let Some(cut) = &pin.cut {
                text = cut.apply(upstream).map_err(wrong)?;
            }
            text = pin.steps.iter().try_fold(text, |text, step| step.apply(&text)).map_err(wrong)?;
        }
        let found = sha256_hex(&text);
        if found != self.sha256 {
            let (place, expected) = (file.place(), self.sha256.clone());
            return Err(OfficialError::Hash { prompt: prompt(), place, expected, found });
        }
        let template = self.fill.to_template(&text).map_err(wrong)?;
        let found: BTreeSet<&str> = places(&template).into_iter().collect();
        let expected: BTreeSet<&str> = self.places.iter().map(String::as_str).collect();
        if found != expected {
            let show = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
            return Err(OfficialError::Places {
                prompt: prompt(),
                expected: show(expected),
                found: show(found),
            });
        }
        Ok(template)
    }
}

/// The upstream files that prompts of a benchmark are cut from, and whether any of them takes the place of our own
/// wording.
pub fn files(benchmark: &str) -> Result<Vec<(UpstreamFile, bool)>, OfficialError> {
    let pins = Pins::embedded()?;
    let files = pins.files(benchmark).into_iter();
    let files = files.map(|file| {
        let of_file = |pin: &&Pin| pins.file_of(pin) == Some(&file);
        let replaces = pins.of(benchmark).filter(of_file).any(|pin| pin.status.replaces());
        (file, replaces)
    });
    Ok(files.collect())
}

#[cfg(test)]
mod tests;
