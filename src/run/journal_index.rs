//! What is kept in memory of a journal: where the responses stand. Texts stay on disk.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::OnceLock;

use hashbrown::hash_table::{Entry as TableEntry, HashTable};
use serde::Deserialize;

use super::cost;
use super::digests::first_bytes;
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

/// The digests under which a response is found, and where it stands.
#[derive(Debug)]
struct Held {
    request: Digest,
    /// Of an answer.
    key: Option<Digest>,
    place: Place,
    /// Whether a later response to the same request has come.
    replaced: bool,
}

/// Where a response was found: the next one that is asked for often stands behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Near(usize);

/// The places of a journal's responses: 100 bytes for each. The tables hold numbers alone, so that looking
/// digests up in the order of the journal, as a plan does, goes through memory from one end to the other.
#[derive(Debug, Default)]
pub(super) struct Index {
    held: Vec<Held>,
    /// The latest response to each planned request.
    by_request: HashTable<u32>,
    /// The latest answer under each key; made when the first one is asked for.
    by_key: OnceLock<HashTable<u32>>,
    spent: Usage,
}

impl Index {
    /// Makes room for the first `responses`; nothing where there are some already.
    pub(super) fn reserve(&mut self, responses: usize) {
        if self.held.is_empty() {
            self.held.reserve(responses);
            self.by_request.reserve(responses, |_| 0);
        }
    }

    /// The next response.
    pub(super) fn insert(&mut self, entry: Entry) {
        if let Some(usage) = &entry.usage {
            cost::add(&mut self.spent, usage);
        }
        // Four billion responses are beyond any run; those that came after them would be asked again.
        let Ok(number) = u32::try_from(self.held.len()) else { return };
        // The latest counts, even if it is a failure: a request is asked again only where its media have
        // changed, and then the earlier answer is one to other media. It stays under its key.
        let Entry { request, key, place, .. } = entry;
        self.held.push(Held { request, key, place, replaced: false });
        let earlier = put(&mut self.by_request, &self.held, number, Held::request);
        if let Some(earlier) = earlier.and_then(|earlier| self.held.get_mut(earlier as usize)) {
            earlier.replaced = true;
        }
        if let Some(by_key) = self.by_key.get_mut() {
            put(by_key, &self.held, number, Held::key);
        }
    }

    pub(super) fn requests(&self) -> usize {
        self.by_request.len()
    }

    pub(super) fn spent(&self) -> Usage {
        self.spent
    }

    pub(super) fn request(&self, request: &Digest) -> Option<&Place> {
        Some(&self.held.get(find(&self.by_request, &self.held, request, Held::request)?)?.place)
    }

    /// The response to a request that is looked for in the order of a plan.
    pub(super) fn request_near(&self, request: &Digest, near: &mut Near) -> Option<&Place> {
        let next = self.held.get(near.0).filter(|held| held.request == *request && !held.replaced);
        if next.is_none() {
            near.0 = find(&self.by_request, &self.held, request, Held::request)?;
        }
        let held = self.held.get(near.0)?;
        near.0 += 1;
        Some(&held.place)
    }

    pub(super) fn key(&self, key: &Digest) -> Option<&Place> {
        let by_key = self.by_key.get_or_init(|| {
            let mut by_key = HashTable::with_capacity(self.held.len());
            for number in 0..u32::try_from(self.held.len()).unwrap_or(u32::MAX) {
                put(&mut by_key, &self.held, number, Held::key);
            }
            by_key
        });
        Some(&self.held.get(find(by_key, &self.held, key, Held::key)?)?.place)
    }
}

impl Held {
    #[expect(clippy::unnecessary_wraps, reason = "keys have the same form, and not every response has one")]
    fn request(&self) -> Option<&Digest> {
        Some(&self.request)
    }

    fn key(&self) -> Option<&Digest> {
        self.key.as_ref()
    }
}

/// A digest of a response, if it has one.
type Of = fn(&Held) -> Option<&Digest>;

/// Puts a response into a table, in place of an earlier one under the same digest; gives that one's number.
fn put(table: &mut HashTable<u32>, held: &[Held], number: u32, of: Of) -> Option<u32> {
    let of = |number: u32| held.get(number as usize).and_then(of);
    let new = of(number)?;
    let hash = |number: &u32| of(*number).map_or(0, first_bytes);
    match table.entry(first_bytes(new), |earlier| of(*earlier) == Some(new), hash) {
        TableEntry::Occupied(mut earlier) => Some(std::mem::replace(earlier.get_mut(), number)),
        TableEntry::Vacant(place) => {
            place.insert(number);
            None
        }
    }
}

fn find(table: &HashTable<u32>, held: &[Held], digest: &Digest, of: Of) -> Option<usize> {
    let is = |number: &u32| held.get(*number as usize).and_then(of) == Some(digest);
    Some(*table.find(first_bytes(digest), is)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digest(what: &str, number: u8) -> Digest {
        Digest::of(format!("{what}{number}").as_bytes())
    }

    proptest! {
        /// Against plain lists: whatever the order, whether asked near or not, before and after more lines come.
        #[test]
        fn the_latest_response_is_found(
            lines in proptest::collection::vec((0_u8..12, 0_u8..12, any::<bool>()), 0..60),
            asked in proptest::collection::vec(0_u8..14, 0..60),
            split in 0_usize..60,
        ) {
            let mut index = Index::default();
            let mut near = Near::default();
            let split = split.min(lines.len());
            for end in [split, lines.len()] {
                let begin = index.held.len();
                for (at, (request, key, answer)) in lines.iter().enumerate().take(end).skip(begin) {
                    let outcome = if *answer { Outcome::Ok } else { Outcome::RequestError };
                    index.insert(Entry {
                        request: digest("r", *request),
                        key: answer.then(|| digest("k", *key)),
                        place: Place { offset: at as u64, bytes: 1, outcome, as_it_was: true },
                        usage: None,
                    });
                }
                let known = lines.get(..end).unwrap();
                for number in &asked {
                    let latest = known.iter().rposition(|line| line.0 == *number).map(|at| at as u64);
                    let request = digest("r", *number);
                    prop_assert_eq!(index.request(&request).map(|place| place.offset), latest);
                    prop_assert_eq!(index.request_near(&request, &mut near).map(|place| place.offset), latest);
                    let latest = known.iter().rposition(|line| line.1 == *number && line.2).map(|at| at as u64);
                    prop_assert_eq!(index.key(&digest("k", *number)).map(|place| place.offset), latest);
                }
            }
        }
    }
}
