//! Files of answers, read whole.

use std::fs::File;
use std::path::PathBuf;

use super::fields::{Fields, Reader};
use super::{KIND, MatchBy, ReplayFacts, ReplayFile, ReplaySpec, Stored};
use crate::dataset::{DatasetError, Row, log_rows};
use crate::model::ModelIdentity;
use crate::types::{Digest, Outcome, bounded};

/// Sentences that are kept; the rest is counted.
pub(super) const KEPT: usize = 20;

/// Files of answers that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file.
    #[error(transparent)]
    File(#[from] DatasetError),
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nothing says where answers stand.
    #[error(
        "nothing says how the files are to be read: name the tool that wrote them with `preset`, or the places of their \
         fields: fields = {{ id = \"…\", answer = \"…\" }}"
    )]
    NoFields,
    /// Answers are to be matched by what the files do not have.
    #[error("answers are to be matched by `{field}`, and nothing says where it stands: add it to `fields`")]
    NoKey {
        /// The field.
        field: &'static str,
    },
    /// No answer at all.
    #[error("the files hold no answer: {reason}")]
    Nothing {
        /// Why.
        reason: String,
    },
}

impl ReplayError {
    /// The key of `[model]` that is to be looked at.
    pub fn key(&self) -> &'static str {
        match self {
            Self::File(_) | Self::Io { .. } | Self::Nothing { .. } => "files",
            Self::NoFields => "preset",
            Self::NoKey { .. } => "fields",
        }
    }
}

/// The answers of files.
#[derive(Clone, Debug)]
pub struct Answers {
    identity: ModelIdentity,
    pub(super) stored: Vec<Stored>,
    pub(super) tags: Vec<String>,
    pub(super) by: MatchBy,
    pub(super) facts: ReplayFacts,
}

impl Answers {
    /// Reads the files. Rows that cannot be read are counted and told; the others are taken.
    pub fn read(spec: &ReplaySpec) -> Result<Self, ReplayError> {
        let reader = Reader::new(spec.preset, &spec.fields);
        if spec.preset.is_none() && !spec.fields.contains_key("answer") {
            return Err(ReplayError::NoFields);
        }
        let by = spec.match_by.or(spec.preset.map(super::Preset::match_by)).unwrap_or_default();
        // The order of rows is always there.
        if by != MatchBy::Row && !reader.has(by.as_str()) {
            return Err(ReplayError::NoKey { field: by.as_str() });
        }
        let mut reading = Reading { reader, by, stored: Vec::new(), rows: 0, facts: ReplayFacts::default() };
        let mut hasher = blake3::Hasher::new();
        for path in &spec.files {
            let before = reading.stored.len();
            let io = |source| ReplayError::Io { path: path.clone(), source };
            let head = log_rows(path, reading.reader.list(), &mut |row| reading.take(row))?;
            let mut of_file = blake3::Hasher::new();
            of_file.update_reader(File::open(path).map_err(io)?).map_err(io)?;
            let blake3 = Digest(*of_file.finalize().as_bytes());
            hasher.update(&blake3.0);
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if head.unfinished {
                reading.say(format!("{}: the log was not finished, or was cut", path.display()));
            }
            if let Some(model) = head.model.filter(|model| !reading.facts.models.contains(model)) {
                reading.facts.models.push(model);
            }
            let answers = (reading.stored.len() - before) as u64;
            reading.facts.files.push(ReplayFile { name, blake3, answers });
        }
        let Reading { reader, stored, mut facts, .. } = reading;
        if stored.is_empty() {
            let reason = facts.sentences.into_iter().next();
            return Err(ReplayError::Nothing {
                reason: reason.unwrap_or_else(|| "they are empty".to_owned()),
            });
        }
        facts.answers = stored.len() as u64;
        facts.preset = spec.preset.map(|preset| preset.as_str().to_owned()).unwrap_or_default();
        // How files are read is part of what is answered.
        let how = format!("{:?}", (spec.preset, &spec.fields, by));
        hasher.update(how.as_bytes());
        let identity = ModelIdentity {
            name: spec.name.clone(),
            kind: KIND.to_owned(),
            model: facts.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", "),
            revision: Digest(*hasher.finalize().as_bytes()).to_string(),
            dtype: String::new(),
            device: String::new(),
        };
        Ok(Self { identity, stored, tags: reader.tags().to_vec(), by, facts })
    }

    /// Who answers: the files.
    pub fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    /// A line for people.
    pub fn about(&self) -> String {
        let files = self.facts.files.len();
        format!(
            "{} answers in {}",
            self.stored.len(),
            if files == 1 { "a file".to_owned() } else { format!("{files} files") }
        )
    }

    pub(super) fn get(&self, at: usize) -> Option<&Stored> {
        self.stored.get(at)
    }
}

struct Reading {
    reader: Reader,
    by: MatchBy,
    stored: Vec<Stored>,
    /// Rows so far: the order of the data, where nothing else tells it.
    rows: u64,
    facts: ReplayFacts,
}

impl Reading {
    fn say(&mut self, sentence: String) {
        if self.facts.sentences.len() < KEPT {
            self.facts.sentences.push(sentence);
        }
    }

    fn take(&mut self, row: Result<Row, crate::dataset::RowError>) {
        let at = self.rows;
        self.rows += 1;
        let read = row.and_then(|row| {
            let place = row.place();
            let fields = self.reader.read(&row.value).map_err(|e| place.error(e))?;
            self.stored(at, place, fields)
        });
        match read {
            Ok(Some(stored)) => self.stored.push(stored),
            Ok(None) => self.facts.later_epochs += 1,
            Err(error) => {
                self.facts.unreadable += 1;
                self.say(error.to_string());
            }
        }
    }

    /// `None` for a sample of a later epoch.
    fn stored(
        &self,
        at: u64,
        place: crate::dataset::Place,
        fields: Fields,
    ) -> Result<Option<Stored>, crate::dataset::RowError> {
        let Fields { id, row, question, references, condition, benchmark, tags, .. } = fields;
        if fields.epoch.is_some_and(|epoch| epoch > 1) {
            return Ok(None);
        }
        let missing = |what: &str| place.error(format!("the row has no {what}"));
        let key = match self.by {
            MatchBy::Id => id.ok_or_else(|| missing("id, by which its sample is known"))?,
            MatchBy::Question => {
                let question = question.clone().filter(|question| !question.trim().is_empty());
                question.ok_or_else(|| missing("question, by which its sample is known"))?.trim().to_owned()
            }
            MatchBy::Row => row.unwrap_or(at).to_string(),
        };
        let names = self.reader.tags().iter().zip(tags);
        let tags = names
            .map(|(name, value)| {
                value.ok_or_else(|| missing(&format!("`{name}`, by which its request is known")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let wanted = |value: Option<String>, field: &str| match value {
            None if self.reader.has(field) => {
                Err(missing(&format!("`{field}`, by which its request is known")))
            }
            value => Ok(value),
        };
        let condition = wanted(condition, "condition")?;
        let benchmark = wanted(benchmark, "benchmark")?;
        let answer = match (fields.failed, fields.text) {
            (Some(sentence), _) => Err(format!("the request failed there: {}", bounded(sentence))),
            (None, Some(text)) => Ok(text),
            (None, None) => return Err(missing(&format!("answer (`{}`)", self.reader.answer_name()))),
        };
        Ok(Some(Stored {
            question: question.filter(|_| self.by != MatchBy::Question),
            key,
            tags,
            condition,
            benchmark,
            references,
            answer,
            outcome: fields.outcome.unwrap_or(Outcome::Ok),
            usage: fields.usage,
            place,
        }))
    }
}
