//! What is kept ready: the last things that were asked for, up to a number and a size.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::source::MediaSource;
use crate::types::Window;

/// The most things that are kept.
const KEPT: usize = 256;

/// The most bytes that are kept. Requests on one clip stand next to each other in a plan, so little is enough;
/// the features of 30 s take 1.5 MB.
const KEPT_BYTES: usize = 64 << 20;

/// A place for a thing that is made once.
pub(super) type Slot<T> = Arc<OnceLock<T>>;

/// The things that were asked for last, by source and window.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    /// The one that was asked for last stands last.
    kept: Mutex<VecDeque<(MediaSource, Window, Slot<T>)>>,
    weigh: fn(&T) -> usize,
}

impl<T: Clone> Shelf<T> {
    /// An empty shelf; `weigh` gives the bytes that a thing takes.
    pub(super) fn new(weigh: fn(&T) -> usize) -> Self {
        Self { kept: Mutex::default(), weigh }
    }

    /// A thing that is there and made.
    pub(super) fn made(&self, source: &MediaSource, window: Window) -> Option<T> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, _, slot) = kept.iter().rev().find(|(s, w, _)| s == source && *w == window)?;
        slot.get().cloned()
    }

    /// The place of a thing. The first who comes makes it; who comes meanwhile waits for it.
    pub(super) fn slot(&self, source: &MediaSource, window: Window) -> Slot<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().rposition(|(s, w, _)| s == source && *w == window);
        if let Some(entry) = found.and_then(|index| kept.remove(index)) {
            let slot = Arc::clone(&entry.2);
            kept.push_back(entry);
            return slot;
        }
        let bytes = |kept: &VecDeque<(MediaSource, Window, Slot<T>)>| -> usize {
            kept.iter().filter_map(|(_, _, slot)| slot.get()).map(self.weigh).sum()
        };
        while kept.len() >= KEPT || (!kept.is_empty() && bytes(&kept) > KEPT_BYTES) {
            kept.pop_front();
        }
        let slot = Slot::default();
        kept.push_back((source.clone(), window, Arc::clone(&slot)));
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn source(name: &str) -> MediaSource {
        PathBuf::from(name).into()
    }

    fn names(shelf: &Shelf<usize>) -> Vec<String> {
        shelf.kept.lock().unwrap().iter().map(|(source, ..)| source.to_string()).collect()
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_they_are_too_heavy() {
        let shelf = Shelf::new(|weight: &usize| *weight);
        let put =
            |name: &str, weight: usize| *shelf.slot(&source(name), Window::Whole).get_or_init(|| weight);
        put("a", 30 << 20);
        put("b", 30 << 20);
        put("a", 0);
        assert_eq!(names(&shelf), ["b", "a"], "what is asked for again is young again");
        put("c", 30 << 20);
        put("d", 1);
        assert_eq!(names(&shelf), ["a", "c", "d"]);
        assert_eq!(shelf.made(&source("a"), Window::Whole), Some(30 << 20));
        assert_eq!(shelf.made(&source("a"), Window::First), None);
        for index in 0..2 * KEPT {
            put(&index.to_string(), 0);
        }
        assert_eq!(names(&shelf).len(), KEPT);
    }
}
