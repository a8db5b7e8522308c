//! Requests of a stage, sorted by its journal into those that need work and those that need none.

use super::digests::DigestSet;
use super::journal::{Journal, Near};
use crate::types::Digest;

/// Sorts requests.
pub struct Sorter<'a> {
    journal: &'a Journal,
    todo: DigestSet,
    answered: Vec<u64>,
    near: Near,
}

/// How the requests of a stage stand.
#[derive(Debug)]
pub struct Sorted {
    /// Requests that are still to be asked.
    pub todo: DigestSet,
    /// How many need no work, by section.
    pub answered: Vec<u64>,
}

impl<'a> Sorter<'a> {
    /// For the requests of so many sections.
    pub fn new(journal: &'a Journal, sections: usize) -> Self {
        Self { journal, todo: DigestSet::default(), answered: vec![0; sections], near: Near::default() }
    }

    /// The next request.
    pub fn take(&mut self, section: Option<usize>, request: Digest) {
        if !self.journal.is_answered(&request, &mut self.near) {
            self.todo.insert(request);
            return;
        }
        if let Some(count) = section.and_then(|section| self.answered.get_mut(section)) {
            *count += 1;
        }
    }

    /// How they stand.
    pub fn finish(self) -> Sorted {
        Sorted { todo: self.todo, answered: self.answered }
    }
}
