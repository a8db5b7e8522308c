//! Answers that exist already: another tool's output files in place of a model.
//!
//! The files are read whole before anything else, since only then is it known which answer belongs to which request.
//! An answer belongs to the request that its fields name, and to no other: what could belong to two is refused, and
//! a request without an answer is a failure, never an empty answer. Media are not looked at. This module must not
//! know benchmarks or journals; what is planned is told to it.

mod fields;
mod matching;
mod read;

use std::collections::HashMap;
use std::path::PathBuf;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use fields::{FIELDS, FieldMap};
pub use matching::{Asked, MatchError, Matched, Matcher};
pub use read::{Answers, ReplayError};

use super::{Answer, AudioNeed, ImageNeed, MediaLimits, Model, ModelIdentity, Prepared};
use crate::types::{Digest, Outcome, Usage};

/// The name of this kind of model.
pub const KIND: &str = "replay";

/// Tools whose output files are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Preset {
    /// The output files of CCFQA's authors (`lang_a` is the answer).
    #[serde(rename = "ccfqa")]
    Ccfqa,
    /// `AudioBench`'s logs: with predictions, or with the details of a judge's scores.
    #[serde(rename = "audiobench")]
    AudioBench,
    /// lmms-eval's `*_samples_*.jsonl` (`--log_samples`).
    #[serde(rename = "lmms-eval")]
    LmmsEval,
    /// Inspect's `.eval` and `.json` logs.
    #[serde(rename = "inspect")]
    Inspect,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ccfqa, Self::AudioBench, Self::LmmsEval, Self::Inspect];

    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ccfqa => "ccfqa",
            Self::AudioBench => "audiobench",
            Self::LmmsEval => "lmms-eval",
            Self::Inspect => "inspect",
        }
    }

    /// What answers are matched by, unless the config says it.
    pub fn match_by(self) -> MatchBy {
        match self {
            // What the authors' `id` counts is not documented; questions are unique within a language.
            Self::Ccfqa => MatchBy::Question,
            // Neither has ids: the order of the data is all there is.
            Self::AudioBench | Self::LmmsEval => MatchBy::Row,
            Self::Inspect => MatchBy::Id,
        }
    }
}

/// What tells whose answer it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MatchBy {
    /// The sample's id.
    #[default]
    Id,
    /// The text of the question.
    Question,
    /// The place of the sample's row in the data.
    Row,
}

impl MatchBy {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Question => "question",
            Self::Row => "row",
        }
    }
}

/// What is to be read, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaySpec {
    /// The name for tables.
    pub name: String,
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// The tool that wrote them.
    pub preset: Option<Preset>,
    /// Where the fields stand, beyond what the preset says.
    pub fields: FieldMap,
    /// What answers are matched by, where it is not the preset's.
    pub match_by: Option<MatchBy>,
}

/// A file of answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayFile {
    /// Its name, without folders.
    pub name: String,
    /// Its hash.
    pub blake3: Digest,
    /// Answers in it.
    pub answers: u64,
}

/// What became of the answers of files, for the manifest and the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayFacts {
    /// The files.
    pub files: Vec<ReplayFile>,
    /// The preset; empty where there is none.
    pub preset: String,
    /// The models that the files name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// What answers were matched by: `id`, `question, src, tgt`…
    pub matched_by: String,
    /// What was compared beside it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub compared: String,
    /// Answers in all.
    pub answers: u64,
    /// Requests that have their answer.
    pub taken: u64,
    /// Answers that belong to no request of the run.
    pub unclaimed: u64,
    /// Requests that no answer belongs to.
    pub unanswered: u64,
    /// Answers whose question or reference is not that of the sample that they name: they are not taken.
    pub contradicting: u64,
    /// Answers that stand there twice, in the same words.
    pub repeated: u64,
    /// Samples of later epochs, which are not taken.
    pub later_epochs: u64,
    /// Requests that failed in the other tool.
    pub failed: u64,
    /// Rows that cannot be read or hold no answer.
    pub unreadable: u64,
    /// Sentences on what is wrong, the first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentences: Vec<String>,
}

impl ReplayFacts {
    /// Sentences for those who run it, and for the tables: whence the answers, how matched, and every count that is
    /// not zero.
    pub fn notes(&self) -> Vec<String> {
        let files = self.files.iter().map(|file| format!("{} (blake3 {})", file.name, file.blake3.short()));
        let tool = match self.preset.as_str() {
            "" => String::new(),
            preset => format!(", read as those of {preset}"),
        };
        let models = match self.models.as_slice() {
            [] => String::new(),
            models => format!(", which name the model {}", models.join(" and ")),
        };
        let compared = match self.compared.as_str() {
            "" => String::new(),
            compared => format!(" and compared by {compared}"),
        };
        let mut notes = vec![
            format!(
                "answers were not asked for: they come from {}{tool}{models}; matched by {}{compared}",
                files.collect::<Vec<_>>().join(", "),
                self.matched_by
            ),
            format!("answers in the files: {}, requests that have theirs: {}", self.answers, self.taken),
        ];
        let counts = [
            (
                self.unanswered,
                "requests have no answer in the files: they count as failed, and are in no score",
            ),
            (self.failed, "answers are failures of the tool that wrote them: they count as failed here too"),
            (self.unclaimed, "answers belong to no request of this run"),
            (
                self.contradicting,
                "answers hold another question or reference than the sample that they name, and are not taken",
            ),
            (self.repeated, "answers stand there twice, in the same words"),
            (self.later_epochs, "answers are of later epochs, and are not taken"),
            (self.unreadable, "rows of the files cannot be read or hold no answer"),
        ];
        notes.extend(counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!("{n} {text}")));
        notes
    }
}

/// Answers, each with the request that it belongs to.
pub struct Replay {
    identity: ModelIdentity,
    limits: MediaLimits,
    answers: Answers,
    /// By the id of the request, which is its key.
    taken: HashMap<Digest, Result<usize, String>>,
}

impl Replay {
    /// Requests that are worked on at once: enough that the journal is what is waited for.
    const BATCH: usize = 256;

    /// The answers with what a matcher found.
    pub fn new(answers: Answers, matched: Matched) -> Self {
        Self {
            identity: answers.identity().clone(),
            limits: limits(),
            answers,
            taken: matched.into_requests(),
        }
    }

    fn one(&self, request: &Digest) -> Answer {
        let failed = |sentence: String| Answer { attempts: 0, ..Answer::failed(sentence) };
        let stored = match self.taken.get(request) {
            None => return failed("no answer in the files belongs to it".to_owned()),
            Some(Err(sentence)) => return failed(sentence.clone()),
            Some(Ok(at)) => self.answers.get(*at),
        };
        let Some(stored) = stored else { return failed("no answer in the files belongs to it".to_owned()) };
        match &stored.answer {
            Err(sentence) => failed(stored.place.error(sentence.clone()).to_string()),
            Ok(text) => Answer {
                outcome: match stored.outcome {
                    Outcome::Ok if text.trim().is_empty() => Outcome::Empty,
                    outcome => outcome,
                },
                text: text.clone(),
                language: None,
                tokens: None,
                usage: stored.usage,
                seconds: 0.0,
                attempts: 0,
                error: None,
                media_bytes: None,
                answered_as: None,
            },
        }
    }
}

/// Nothing is prepared for answers that are there already.
pub(super) fn limits() -> MediaLimits {
    MediaLimits { audio: AudioNeed::Unread, max_seconds: f64::INFINITY, images: ImageNeed::File }
}

impl Model for Replay {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn accepts(&self) -> &MediaLimits {
        &self.limits
    }

    fn batch_size(&self) -> usize {
        Self::BATCH
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn gives_up(&self) -> bool {
        false
    }

    fn answer(&self, batch: Vec<Prepared>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(std::future::ready(batch.iter().map(|prepared| self.one(&prepared.key)).collect()))
    }
}

/// An answer as it stands in a file.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Where it stands.
    pub(super) place: crate::dataset::Place,
    /// The id, question or place of its sample.
    pub(super) key: String,
    /// The values of the tags that answers are told apart by.
    pub(super) tags: Vec<String>,
    pub(super) condition: Option<String>,
    pub(super) benchmark: Option<String>,
    /// What is compared: the question and the references, where they are there and not the key.
    pub(super) question: Option<String>,
    pub(super) references: Vec<String>,
    /// The answer, or the sentence of a failure.
    pub(super) answer: Result<String, String>,
    pub(super) outcome: Outcome,
    pub(super) usage: Usage,
}

#[cfg(test)]
mod tests;
