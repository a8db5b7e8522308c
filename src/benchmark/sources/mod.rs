//! What each paper's published data are: where they lie, in which revision, under which licence, and what must be
//! found in them. Pure data, embedded; getting the files is another room's work.
//!
//! This module must not open files or sockets, and must not know what rows mean.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::prompt::official;

/// The name of the parts that hold the upstream files which official prompts are cut from.
pub const PROMPTS_PART: &str = "prompts";

/// The embedded descriptions, by benchmark.
const FILES: [(&str, &str); 5] = [
    ("ccfqa", include_str!("ccfqa.toml")),
    ("cp-bench", include_str!("cp-bench.toml")),
    ("cfever", include_str!("cfever.toml")),
    ("2m-belebele", include_str!("2m-belebele.toml")),
    ("simplevqa", include_str!("simplevqa.toml")),
];

/// The published data of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// The benchmark.
    pub benchmark: String,
    /// The licence of the data, in words; parts may have their own.
    pub licence: String,
    /// What a user should know before using them.
    pub note: Option<String>,
    /// Files that hold rows of the data a second time, by names with `*`: previews and copies that are never read.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// What can be fetched, in order; the parts called [`PROMPTS_PART`] come last.
    #[serde(rename = "part")]
    pub parts: Vec<SourcePart>,
    /// What must be found in the data.
    pub expect: Expect,
}

/// A part of the data that can be fetched by itself. Several parts may share a name: they belong together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePart {
    /// The name for `--only`.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// Its licence where it is not that of the whole.
    pub licence: Option<String>,
    /// Where it is published.
    pub origin: Origin,
    /// Its files.
    #[serde(rename = "file")]
    pub files: Vec<SourceFile>,
    /// Whether paths hold `{language}`, and the part can be had by language.
    #[serde(default)]
    pub per_language: bool,
    /// Whether it is fetched only where it is asked for by name.
    #[serde(default)]
    pub optional: bool,
    /// The part that it can stand in for.
    pub instead_of: Option<String>,
}

/// Where files are published.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Origin {
    /// A repository of the Hugging Face hub.
    Hub {
        /// `owner/name`
        repo: String,
        /// A commit of 40 hexadecimal digits, or `main` where none is known: then what is fetched is not pinned,
        /// and whoever fetches says so and records the commit.
        revision: String,
        /// What kind of repository it is.
        kind: HubKind,
        /// How the commit of `main` began when this description was written.
        seen: Option<String>,
    },
    /// Files below an address.
    Https {
        /// The address, with a slash at its end.
        base: String,
    },
    /// A repository on GitHub at a commit.
    #[serde(rename = "github")]
    GitHub {
        /// `owner/name`
        repo: String,
        /// The commit, 40 hexadecimal digits.
        commit: String,
    },
    /// Something that only a person can get.
    Manual {
        /// The page to begin at.
        page: String,
        /// What to do there.
        steps: String,
    },
}

/// A kind of repository of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HubKind {
    /// A data set.
    Dataset,
    /// A model.
    Model,
}

/// A file, or files where its path is a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// Its path within the origin. It may hold `{language}`; in a repository of the hub `*` stands for any
    /// characters, slashes too.
    pub path: String,
    /// Its place in the data folder where that is not its path; a name that ends in `/` is a folder.
    pub to: Option<String>,
    /// Its size.
    pub bytes: Option<u64>,
    /// Its SHA-256, in hexadecimal.
    pub sha256: Option<String>,
    /// How it is unpacked, into the data folder, where it is an archive.
    pub unpack: Option<Unpack>,
    /// Files that the pattern fits and that are not wanted.
    #[serde(default)]
    pub exclude: Vec<String>,
}

/// A format of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Unpack {
    /// A tar archive, compressed with gzip.
    #[serde(rename = "tar.gz")]
    TarGz,
    /// A zip archive.
    #[serde(rename = "zip")]
    Zip,
}

/// What must be found in the data that a paper's figures are of. What is not published is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The split that the figures are of.
    pub split: Option<String>,
    /// The rows of that split.
    pub rows: Option<u64>,
    /// The rows of each language, where every language has its own.
    pub rows_a_language: Option<u64>,
    /// The columns that name a row between them.
    #[serde(default)]
    pub unique: Vec<String>,
    /// Whether rows may be the same but for these columns: then copies are not looked for.
    #[serde(default)]
    pub repeats: bool,
    /// The languages, by the codes that the data use.
    #[serde(default)]
    pub languages: Vec<String>,
    /// Rows of the split by the value of a column.
    #[serde(default)]
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// The reference answers that every row must have.
    #[serde(default)]
    pub gold: Vec<Gold>,
    /// Rows of single files, by their place in the data folder.
    #[serde(default, rename = "file")]
    pub files: Vec<ExpectFile>,
}

/// A column that must hold a reference answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gold {
    /// The column, or the path to it with dots. `{language}` stands for each language that a row has.
    pub column: String,
    /// What it may be: numbers however they are written; anything but nothing where none is named.
    #[serde(default)]
    pub values: Vec<String>,
}

/// What must be found in a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectFile {
    /// Its place in the data folder.
    pub path: String,
    /// Its rows.
    pub rows: u64,
}

/// Data of which nothing is known.
#[derive(Debug, Error)]
pub enum SourcesError {
    /// No such benchmark, or one without published data.
    #[error("no published data are known of `{0}`; they are of {known}", known = names().collect::<Vec<_>>().join(", "))]
    Unknown(String),
    /// A description of this program that cannot be read.
    #[error("the description of the published data of `{benchmark}` is damaged: {source}")]
    Damaged {
        /// The benchmark.
        benchmark: String,
        /// What is wrong.
        source: toml::de::Error,
    },
    /// Pins of prompts that cannot be read.
    #[error(transparent)]
    Prompts(#[from] official::OfficialError),
}

/// The benchmarks that published data are known of.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().map(|(name, _)| name)
}

/// The published data of a benchmark, with the upstream files of its official prompts.
pub fn sources(benchmark: &str) -> Result<Sources, SourcesError> {
    let unknown = || SourcesError::Unknown(benchmark.to_owned());
    let (_, text) = FILES.into_iter().find(|(name, _)| *name == benchmark).ok_or_else(unknown)?;
    let mut sources: Sources = toml::from_str(text)
        .map_err(|source| SourcesError::Damaged { benchmark: benchmark.to_owned(), source })?;
    sources.parts.extend(prompt_parts(benchmark)?);
    Ok(sources)
}

/// The split of a benchmark's data that its figures are of, where a folder must be asked for it by name: `test` is what
/// is taken anyway.
pub fn split(sources: &Sources) -> Option<&str> {
    sources.expect.split.as_deref().filter(|split| *split != "test")
}

/// A part for each commit that official prompts of the benchmark are cut from.
fn prompt_parts(benchmark: &str) -> Result<Vec<SourcePart>, official::OfficialError> {
    let mut parts: Vec<SourcePart> = Vec::new();
    for (file, replaces) in official::files(benchmark)? {
        let origin = Origin::GitHub { repo: file.repository.clone(), commit: file.commit.clone() };
        let to = SourceFile {
            path: file.path.clone(),
            to: Some(file.place()),
            bytes: file.bytes,
            sha256: file.sha256.clone(),
            unpack: None,
            exclude: Vec::new(),
        };
        if let Some(part) = parts.iter_mut().find(|part| part.origin == origin) {
            part.files.push(to);
            part.optional &= !replaces;
            continue;
        }
        parts.push(SourcePart {
            name: PROMPTS_PART.to_owned(),
            about: "upstream files that official prompts are cut from".to_owned(),
            licence: Some(file.licence.clone()),
            origin,
            files: vec![to],
            per_language: false,
            // Words that no run uses by itself are for those who ask for them.
            optional: !replaces,
            instead_of: None,
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
