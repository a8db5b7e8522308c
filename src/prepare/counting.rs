//! What was written, added up: each file once, however many rows name it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::dataset::prepared::{Counts, Sentences};
use crate::media::Form;

/// Problems that a record names; the others are counted.
const NAMED: usize = 10;

/// A file that a row names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FileNote {
    /// Its name in the data folder.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Seconds of audio; 0 where the header is not read.
    pub(super) seconds: f64,
    pub(super) form: FormNote,
    /// Samples beyond full scale.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) beyond: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How a file holds what was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FormNote {
    Original,
    Pcm16,
    Float32,
    Rounded,
}

impl From<Form> for FormNote {
    fn from(form: Form) -> Self {
        match form {
            Form::Original => Self::Original,
            Form::Pcm16 => Self::Pcm16,
            Form::Float32 => Self::Float32,
            Form::Rounded => Self::Rounded,
        }
    }
}

/// Adds up a set.
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) counts: Counts,
    pub(super) problems: Vec<String>,
    /// The list of files, a line each.
    pub(super) list: Vec<u8>,
    seconds: f64,
    seen: HashSet<[u8; 16]>,
    keys: HashSet<[u8; 16]>,
    passages: HashSet<[u8; 16]>,
}

/// A short hash of a name: sets have millions.
pub(super) fn hash(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut out);
    out
}

impl Counting {
    pub(super) fn file(&mut self, file: &FileNote) {
        if !self.seen.insert(hash(&file.name)) {
            return;
        }
        // A number and a text are always JSON.
        let line = serde_json::to_string(&(file.bytes, &file.name)).unwrap_or_default();
        self.list.extend(line.bytes().chain([b'\n']));
        let counts = &mut self.counts;
        counts.files += 1;
        counts.file_bytes += file.bytes;
        self.seconds += file.seconds;
        counts.audio_ms = (self.seconds * 1000.0).round() as u64;
        counts.loud += u64::from(file.beyond > 0);
        counts.beyond += file.beyond;
        *match file.form {
            FormNote::Original => &mut counts.original,
            FormNote::Pcm16 => &mut counts.pcm16,
            FormNote::Float32 => &mut counts.float32,
            FormNote::Rounded => &mut counts.rounded,
        } += 1;
    }

    /// Whether a row names a file of the data folder.
    pub(super) fn has(&self, name: &str) -> bool {
        self.seen.contains(&hash(name))
    }

    pub(super) fn problem(&mut self, problem: String) {
        self.counts.problems += 1;
        if self.problems.len() < NAMED {
            self.problems.push(problem);
        }
    }

    /// What is recorded of a passage, which other rows may ask about too.
    pub(super) fn sentences(&mut self, passage: &str, found: Sentences) {
        if self.passages.insert(hash(passage)) {
            *self.counts.sentences.get_or_insert_default() += found;
        }
    }

    /// Whether a row of this key came already.
    pub(super) fn again(&mut self, key: &str) -> bool {
        !self.keys.insert(hash(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_counted_once_however_many_rows_ask_about_it() {
        let mut counting = Counting::default();
        assert_eq!(counting.counts.sentences, None);
        let found = Sentences { recorded: 3, missing: 1, several: 2 };
        for passage in ["a", "b", "a"] {
            counting.sentences(passage, found);
        }
        assert_eq!(counting.counts.sentences, Some(Sentences { recorded: 6, missing: 2, several: 4 }));
    }
}
