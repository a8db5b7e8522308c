//! Requests of a stage, sorted by its journal into those that need work and those that need none.

use super::digests::DigestSet;
use super::journal::Journal;
use crate::types::Digest;

/// Sorts requests.
pub struct Sorter<'a> {
    journal: &'a Journal,
    done: DigestSet,
    pending: DigestSet,
    answered: Vec<u64>,
}

/// How the requests of a stage stand.
#[derive(Debug)]
pub struct Sorted {
    /// Requests that need no work.
    pub done: DigestSet,
    /// How many these are, by section.
    pub answered: Vec<u64>,
    /// Different requests that are still to be asked.
    pub pending: u64,
}

impl<'a> Sorter<'a> {
    /// For the requests of so many sections.
    pub fn new(journal: &'a Journal, sections: usize) -> Self {
        let mut done = DigestSet::default();
        done.reserve(journal.len());
        Self { journal, done, pending: DigestSet::default(), answered: vec![0; sections] }
    }

    /// The next request.
    pub fn take(&mut self, section: Option<usize>, request: Digest) {
        if !self.journal.is_answered(&request) {
            self.pending.insert(request);
            return;
        }
        self.done.insert(request);
        if let Some(count) = section.and_then(|section| self.answered.get_mut(section)) {
            *count += 1;
        }
    }

    /// How they stand.
    pub fn finish(self) -> Sorted {
        Sorted { done: self.done, answered: self.answered, pending: self.pending.len() as u64 }
    }
}
