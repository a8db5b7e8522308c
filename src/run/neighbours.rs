//! Samples that share something, brought next to one another: what the first of them was asked with is still at hand for the
//! others, be it a clip that was read or the beginning of a prompt that a server remembers. It must not know what they share.

use std::collections::HashMap;

use crate::types::Sample;

/// The most samples that are held back: bounds memory where the end of what they are held within does not come.
const MOST: usize = 2048;

/// Samples that are held back until all of their neighbours may have come.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// What the held ones are held within.
    within: String,
    /// Those that share the same, by the place of their first one.
    groups: Vec<Vec<(u64, Sample)>>,
    places: HashMap<String, usize>,
    held: usize,
}

impl Neighbours {
    /// Takes a sample with the place of its row, what it is held within and what it shares; gives those whose turn it is. One
    /// that shares nothing is held back by nothing.
    pub(super) fn take(
        &mut self,
        row: u64,
        sample: Sample,
        shares: Option<(String, String)>,
    ) -> Vec<(u64, Sample)> {
        let Some((within, shared)) = shares else {
            let mut out = self.rest();
            out.push((row, sample));
            return out;
        };
        let out = if within == self.within && self.held < MOST { Vec::new() } else { self.rest() };
        self.within = within;
        let place = *self.places.entry(shared).or_insert(self.groups.len());
        match self.groups.get_mut(place) {
            Some(group) => group.push((row, sample)),
            None => self.groups.push(vec![(row, sample)]),
        }
        self.held += 1;
        out
    }

    /// Those that are still held back.
    pub(super) fn rest(&mut self) -> Vec<(u64, Sample)> {
        self.places.clear();
        self.held = 0;
        std::mem::take(&mut self.groups).into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(samples: &[(&str, &str)]) -> Vec<Vec<u64>> {
        let mut neighbours = Neighbours::default();
        let rows = |out: Vec<(u64, Sample)>| out.into_iter().map(|(row, _)| row).collect::<Vec<_>>();
        let mut out = Vec::new();
        for (row, (within, shared)) in (0..).zip(samples) {
            let sample = Sample { id: row.to_string(), row: serde_json::Value::Null };
            let shares = (!within.is_empty()).then(|| ((*within).to_owned(), (*shared).to_owned()));
            out.push(rows(neighbours.take(row, sample, shares)));
        }
        out.push(rows(neighbours.rest()));
        out
    }

    #[test]
    fn those_that_share_come_one_after_the_other_in_the_order_of_the_first() {
        let rows =
            [("en", "a"), ("en", "b"), ("en", "c"), ("en", "b"), ("en", "a"), ("de", "a"), ("de", "a")];
        assert_eq!(order(&rows).concat(), [0, 4, 1, 3, 2, 5, 6]);
        // The end of what they are held within lets them go.
        assert_eq!(order(&rows)[5], [0, 4, 1, 3, 2]);
    }

    #[test]
    fn what_shares_nothing_keeps_its_place_and_memory_is_bounded() {
        assert_eq!(order(&[("", ""), ("", "")]), [vec![0], vec![1], vec![]]);
        assert_eq!(order(&[("en", "a"), ("", ""), ("en", "a")]), [vec![], vec![0, 1], vec![], vec![2]]);
        let many = vec![("en", "a"); 2 * MOST + 1];
        let out = order(&many);
        assert!(out.iter().all(|rows| rows.len() <= MOST));
        assert_eq!(out.concat(), (0..=2 * MOST as u64).collect::<Vec<_>>());
    }
}
