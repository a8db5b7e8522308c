//! Requests of a stage, sorted by its journal into those that need work and those that need none.

use super::digests::DigestSet;
use super::journal::{Journal, Near, Stand};
use crate::types::Digest;

/// Sorts requests.
pub struct Sorter<'a> {
    journal: &'a Journal,
    todo: Todo,
    answered: Vec<u64>,
    near: Near,
}

/// Requests that are still to be asked.
#[derive(Clone, Debug, Default)]
pub struct Todo {
    /// Those that nobody was asked yet: they come first.
    pub fresh: DigestSet,
    /// Those that have failed before. What made them fail may well be in themselves, and must not keep the others from
    /// being asked.
    pub again: DigestSet,
}

impl Todo {
    /// How many they are.
    pub fn len(&self) -> usize {
        self.fresh.len() + self.again.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How the requests of a stage stand.
#[derive(Debug)]
pub struct Sorted {
    /// Requests that are still to be asked.
    pub todo: Todo,
    /// How many need no work, by section.
    pub answered: Vec<u64>,
}

impl<'a> Sorter<'a> {
    /// For the requests of so many sections.
    pub fn new(journal: &'a Journal, sections: usize) -> Self {
        Self { journal, todo: Todo::default(), answered: vec![0; sections], near: Near::default() }
    }

    /// The next request.
    pub fn take(&mut self, section: Option<usize>, request: Digest) {
        match self.journal.stand(&request, &mut self.near) {
            Stand::Answered => {}
            Stand::Failed => {
                self.todo.again.insert(request);
                return;
            }
            Stand::Unasked => {
                self.todo.fresh.insert(request);
                return;
            }
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
