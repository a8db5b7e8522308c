//! What is kept in memory of a journal: where the responses stand. Texts stay on disk.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;

use super::cost;
use super::digests::DigestMap;
use crate::types::{Digest, Outcome, Usage};

/// The part of a response that the index needs.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    pub(super) key: Digest,
    pub(super) request: Digest,
    #[serde(borrow)]
    pub(super) benchmark: Cow<'a, str>,
    pub(super) outcome: Outcome,
    pub(super) usage: Usage,
    #[serde(default, borrow)]
    pub(super) media: Vec<LineMedia<'a>>,
    #[serde(default)]
    pub(super) reused_from: Option<Digest>,
}

/// The part of a media record that the index needs.
#[derive(Deserialize)]
pub(super) struct LineMedia<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    pub(super) bytes: u64,
    pub(super) modified: Option<u64>,
}

impl Line<'_> {
    /// A number that stands for the section and the media: names, sizes and times of change.
    pub(super) fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.benchmark.hash(&mut hasher);
        for media in &self.media {
            (&*media.name, media.bytes, media.modified).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Where a response stands and what it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) outcome: Outcome,
    /// Whether its media are as they were.
    pub(super) as_it_was: bool,
}

/// A response, as the index takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    request: Digest,
    /// Of an answer.
    key: Option<Digest>,
    place: Place,
    /// What was spent on it.
    usage: Option<Usage>,
}

impl Entry {
    /// A line of `bytes` bytes that stands at `offset`.
    pub(super) fn new(line: &Line<'_>, offset: u64, bytes: u32, as_it_was: bool) -> Self {
        Self {
            request: line.request,
            key: line.outcome.is_answer().then_some(line.key),
            place: Place { offset, bytes, outcome: line.outcome, as_it_was },
            usage: line.reused_from.is_none().then_some(line.usage),
        }
    }
}

/// The places of a journal's responses: 100 bytes for each.
#[derive(Debug, Default)]
pub(super) struct Index {
    places: Vec<Place>,
    /// The latest response to each planned request.
    by_request: DigestMap<u32>,
    /// The latest answer under each key.
    by_key: DigestMap<u32>,
    spent: Usage,
}

impl Index {
    /// Makes room for the first `responses`; nothing where there are some already.
    pub(super) fn reserve(&mut self, responses: usize) {
        if self.places.is_empty() {
            self.places.reserve(responses);
            self.by_request.reserve(responses);
            self.by_key.reserve(responses);
        }
    }

    /// The next response.
    pub(super) fn insert(&mut self, entry: Entry) {
        if let Some(usage) = &entry.usage {
            cost::add(&mut self.spent, usage);
        }
        // Four billion responses are beyond any run; those that came after them would be asked again.
        let Ok(number) = u32::try_from(self.places.len()) else { return };
        // The latest counts, even if it is a failure: a request is asked again only where its media have
        // changed, and then the earlier answer is one to other media. It stays under its key.
        self.places.push(entry.place);
        self.by_request.insert(entry.request, number);
        if let Some(key) = entry.key {
            self.by_key.insert(key, number);
        }
    }

    pub(super) fn requests(&self) -> usize {
        self.by_request.len()
    }

    pub(super) fn spent(&self) -> Usage {
        self.spent
    }

    pub(super) fn request(&self, request: &Digest) -> Option<&Place> {
        self.places.get(*self.by_request.get(request)? as usize)
    }

    pub(super) fn key(&self, key: &Digest) -> Option<&Place> {
        self.places.get(*self.by_key.get(key)? as usize)
    }
}
