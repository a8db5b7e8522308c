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

/// Where a response stands and what it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    /// Stands for the media and their state: see [`mark`].
    pub(super) mark: u64,
    pub(super) bytes: u32,
    pub(super) outcome: Outcome,
}

/// A number that stands for media, by names, sizes and times of change.
pub(super) fn mark<'a>(media: impl Iterator<Item = (&'a str, u64, Option<u64>)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    media.for_each(|facts| facts.hash(&mut hasher));
    hasher.finish()
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
    /// A line that stands at `offset`.
    pub(super) fn insert(&mut self, line: &Line<'_>, offset: u64, bytes: u32) {
        let media = line.media.iter().map(|media| (&*media.name, media.bytes, media.modified));
        let place = Place { offset, mark: mark(media), bytes, outcome: line.outcome };
        if line.reused_from.is_none() {
            cost::add(&mut self.spent, &line.usage);
        }
        // Four billion responses are beyond any run; those that came after them would be asked again.
        let Ok(number) = u32::try_from(self.places.len()) else { return };
        // The latest counts, even if it is a failure: a request is asked again only where its media have
        // changed, and then the earlier answer is one to other media. It stays under its key.
        self.places.push(place);
        self.by_request.insert(line.request, number);
        if line.outcome.is_answer() {
            self.by_key.insert(line.key, number);
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
