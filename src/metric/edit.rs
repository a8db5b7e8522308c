//! Word and character error rates, with their substitutions, insertions and deletions.

use std::collections::HashMap;

use super::Mean;
use super::text::{Signs, is_space, normalise, whisper_basic, words};

/// The errors of one hypothesis, or of many added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Reference items that became others.
    pub substitutions: u64,
    /// Items that the reference does not have.
    pub insertions: u64,
    /// Reference items that are missing.
    pub deletions: u64,
    /// Items of the reference.
    pub reference: u64,
}

impl Edits {
    /// All errors.
    pub fn errors(&self) -> u64 {
        self.substitutions + self.insertions + self.deletions
    }

    /// Errors per reference item, above 1 where much was inserted; `None` for an empty reference.
    pub fn rate(&self) -> Option<f64> {
        (self.reference > 0).then(|| self.errors() as f64 / self.reference as f64)
    }
}

/// What happens to both strings before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normaliser {
    /// Nothing.
    None,
    /// NFKC, lower-cased, punctuation and symbols removed ("don't" is "dont"), white space collapsed. For
    /// character errors white space is dropped altogether.
    Basic,
    /// Whisper's: punctuation becomes a blank ("l'eau" is two words), and what stands in brackets goes. For character
    /// errors white space is dropped altogether.
    Whisper,
}

impl Normaliser {
    /// The name used in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "basic",
            Self::Whisper => "whisper",
        }
    }

    /// A sentence for people on what it does.
    pub fn about(self) -> &'static str {
        match self {
            Self::None => "none: strings as they are, words split at white space",
            Self::Basic => {
                "basic: NFKC, lower-cased, punctuation and symbols removed, white space collapsed \
                 (dropped for characters)"
            }
            Self::Whisper => {
                "whisper: Whisper's BasicTextNormalizer: lower-cased, without what stands in brackets, NFKC, marks, \
                 symbols and punctuation taken for blanks, white space collapsed (dropped for characters)"
            }
        }
    }

    fn apply(self, text: &str) -> String {
        match self {
            Self::None => text.to_owned(),
            Self::Basic => normalise(text, Signs::Remove),
            Self::Whisper => whisper_basic(text),
        }
    }
}

/// Errors of an answer in words, split at white space.
pub fn word_edits(reference: &str, answer: &str, normaliser: Normaliser) -> Edits {
    let (reference, answer) = (normaliser.apply(reference), normaliser.apply(answer));
    let mut numbers = HashMap::new();
    let mut number = |text| -> Vec<usize> {
        words(text)
            .map(|word| {
                let next = numbers.len();
                *numbers.entry(word).or_insert(next)
            })
            .collect()
    };
    let (reference, answer) = (number(reference.as_str()), number(answer.as_str()));
    edits(&reference, &answer)
}

/// Errors of an answer in code points.
pub fn char_edits(reference: &str, answer: &str, normaliser: Normaliser) -> Edits {
    let points = |text: &str| -> Vec<char> {
        let drop = |c: &char| normaliser != Normaliser::None && is_space(*c);
        normaliser.apply(text).chars().filter(|c| !drop(c)).collect()
    };
    edits(&points(reference), &points(answer))
}

/// The errors against the reference with the fewest of them, the first of equals; `None` without references.
pub fn best_edits<S: AsRef<str>>(references: &[S], errors: impl Fn(&str) -> Edits) -> Option<Edits> {
    references.iter().map(|reference| errors(reference.as_ref())).min_by_key(Edits::errors)
}

/// Error rates over many samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorRate {
    total: Edits,
    mean: Mean,
    samples: u64,
}

impl ErrorRate {
    /// One sample more.
    pub fn add(&mut self, edits: Edits) {
        self.samples += 1;
        self.total.substitutions += edits.substitutions;
        self.total.insertions += edits.insertions;
        self.total.deletions += edits.deletions;
        self.total.reference += edits.reference;
        if let Some(rate) = edits.rate() {
            self.mean.add(rate);
        }
    }

    /// All errors of all samples over the items of all references; insertions into empty references are in it.
    /// `None` while all references are empty.
    pub fn corpus(&self) -> Option<f64> {
        self.total.rate()
    }

    /// The mean of the samples' own rates, those with an empty reference left out, as they have none.
    pub fn mean(&self) -> Option<f64> {
        self.mean.value()
    }

    /// The errors of all samples.
    pub fn total(&self) -> Edits {
        self.total
    }

    /// All samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Samples with an empty reference: in the corpus rate, not in the mean.
    pub fn empty_references(&self) -> u64 {
        self.samples - self.mean.n()
    }
}

/// A change of one item for another, in the units of [`banded`]: one error.
const SUBSTITUTION: u64 = 1 << 32;
/// An item too many or too few: one error, and one unit more, which decides between alignments of equal errors.
const INDEL: u64 = SUBSTITUTION + 1;
/// More than any alignment costs.
const FAR: u64 = 1 << 62;

/// The fewest errors that turn `reference` into `hypothesis`. Of several alignments with that many errors the
/// one with the most substitutions counts, which makes the three counts unique.
///
/// Time grows with length times errors and memory with the shorter length (8 bytes an item), so two texts of
/// 100,000 characters are no problem unless they have nothing in common.
pub fn edits<T: Eq>(reference: &[T], hypothesis: &[T]) -> Edits {
    let (r, h) = without_common_ends(reference, hypothesis);
    let (long, short) = if r.len() >= h.len() { (r, h) } else { (h, r) };
    let gap = long.len() - short.len();
    let mut slack = 8;
    let cost = loop {
        let cost = banded(long, short, slack);
        // All alignments with at most this many errors stay inside the band, so the best one was seen.
        let seen = (gap + 2 * slack) as u64;
        if cost / SUBSTITUTION <= seen || slack >= short.len() {
            break cost;
        }
        slack *= 2;
    };
    let (errors, indels, gap) = (cost / SUBSTITUTION, cost % SUBSTITUTION, gap as u64);
    let (only_long, only_short) = (indels.midpoint(gap), indels.saturating_sub(gap) / 2);
    let (deletions, insertions) =
        if r.len() >= h.len() { (only_long, only_short) } else { (only_short, only_long) };
    Edits {
        substitutions: errors.saturating_sub(indels),
        insertions,
        deletions,
        reference: reference.len() as u64,
    }
}

/// Both lists without the items that they begin and end with alike: they cost nothing in a best alignment.
fn without_common_ends<'a, T: Eq>(left: &'a [T], right: &'a [T]) -> (&'a [T], &'a [T]) {
    let same = |(a, b): &(&T, &T)| a == b;
    let start = left.iter().zip(right).take_while(same).count();
    let (left, right) = (&left[start..], &right[start..]);
    let end = left.iter().rev().zip(right.iter().rev()).take_while(same).count();
    (&left[..left.len() - end], &right[..right.len() - end])
}

/// The cost of the best alignment that never strays more than `slack` from the straight ways between the two
/// ends. `long` is at least as long as `short`.
fn banded<T: Eq>(long: &[T], short: &[T], slack: usize) -> u64 {
    let (gap, width) = (long.len() - short.len(), short.len());
    let below = gap.saturating_add(slack);
    // row[j]: cost of the first i items of `long` against the first j of `short`; what is outside the band is FAR.
    let mut row: Vec<u64> =
        (0..=width).map(|j| if j <= slack { INDEL.saturating_mul(j as u64) } else { FAR }).collect();
    for (i, item) in (1usize..).zip(long) {
        let (low, high) = (i.saturating_sub(below), i.saturating_add(slack).min(width));
        let start = low.max(1);
        let mut diagonal = row[start - 1];
        let mut left = if low == 0 { INDEL.saturating_mul(i as u64) } else { FAR };
        row[start - 1] = left;
        for (cell, other) in row[start..=high].iter_mut().zip(&short[start - 1..high]) {
            let kept = if item == other { diagonal } else { diagonal.saturating_add(SUBSTITUTION) };
            let best = kept.min(left.min(*cell).saturating_add(INDEL));
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(reference: &str, answer: &str, (substitutions, insertions, deletions): (u64, u64, u64)) {
        let found = word_edits(reference, answer, Normaliser::None);
        let reference = words(reference).count() as u64;
        assert_eq!(found, Edits { substitutions, insertions, deletions, reference });
    }

    #[test]
    fn counts_of_small_alignments() {
        check("", "", (0, 0, 0));
        check("a b c", "a b c", (0, 0, 0));
        check("a b c", "a x c", (1, 0, 0));
        check("a b c", "a c", (0, 0, 1));
        check("a c", "a b c", (0, 1, 0));
        check("", "a b", (0, 2, 0));
        check("a b", "", (0, 0, 2));
        // Two substitutions, not a deletion with an insertion, though both are two errors.
        check("a b", "b a", (2, 0, 0));
        check("the cat sat on the mat", "cat sat at the mat today", (1, 1, 1));
    }

    #[test]
    fn normalisers_do_what_they_say() {
        assert_eq!(word_edits("Don't stop!", "dont STOP", Normaliser::Basic).errors(), 0);
        assert_eq!(word_edits("Don't stop!", "dont STOP", Normaliser::None).substitutions, 2);
        assert_eq!(
            char_edits("ab cd.", "abcd", Normaliser::Basic),
            Edits { reference: 4, ..Edits::default() }
        );
        assert_eq!(char_edits("ab cd.", "abcd", Normaliser::None).deletions, 2);
        assert_eq!(char_edits("Ａ １", "a1", Normaliser::Basic).errors(), 0);
        let whisper = |reference: &str, answer: &str| word_edits(reference, answer, Normaliser::Whisper);
        assert_eq!(
            whisper("L'eau est là.", "l eau est là (rires)"),
            Edits { reference: 4, ..Edits::default() }
        );
        let joined = Edits { substitutions: 1, deletions: 1, reference: 2, insertions: 0 };
        assert_eq!(whisper("L'eau", "leau"), joined);
        assert_eq!(char_edits("L'eau", "leau", Normaliser::Whisper).errors(), 0);
    }

    #[test]
    fn corpus_and_mean_differ_and_empty_references_are_told() {
        let mut rate = ErrorRate::default();
        assert_eq!((rate.corpus(), rate.mean()), (None, None));
        rate.add(word_edits("a b c d", "a b c d", Normaliser::None));
        rate.add(word_edits("a", "b", Normaliser::None));
        rate.add(word_edits("", "", Normaliser::None));
        assert_eq!((rate.corpus(), rate.mean()), (Some(0.2), Some(0.5)));
        rate.add(word_edits("", "x y", Normaliser::None));
        assert_eq!((rate.corpus(), rate.mean()), (Some(0.6), Some(0.5)));
        assert_eq!((rate.samples(), rate.empty_references(), rate.total().insertions), (4, 2, 2));
    }

    #[test]
    fn reference_with_the_fewest_errors_counts() {
        let errors = |r: &str| word_edits(r, "a b", Normaliser::None);
        assert_eq!(best_edits(&["x y z", "a c", "b b"], errors), Some(errors("a c")));
        assert_eq!(best_edits::<&str>(&[], errors), None);
    }

    #[test]
    fn long_texts_take_bounded_memory_and_little_time() {
        let reference: Vec<u32> = (0..100_000).collect();
        let mut hypothesis = reference.clone();
        hypothesis.remove(99_990);
        hypothesis.insert(10, 7);
        hypothesis[50_000] = 0;
        let found = edits(&reference, &hypothesis);
        assert_eq!(found, Edits { substitutions: 1, insertions: 1, deletions: 1, reference: 100_000 });
        assert_eq!(edits(&reference, &reference[..5]).deletions, 99_995);
    }

    /// (errors, insertions + deletions) by the whole table.
    fn plain(r: &[u8], h: &[u8]) -> (u64, u64) {
        let mut table = vec![vec![(0, 0); h.len() + 1]; r.len() + 1];
        for i in 0..=r.len() {
            for j in 0..=h.len() {
                let plus = |(e, n): (u64, u64), indel| (e + 1, n + indel);
                let mut ways = Vec::new();
                if i > 0 && j > 0 {
                    let same = r[i - 1] == h[j - 1];
                    ways.push(if same { table[i - 1][j - 1] } else { plus(table[i - 1][j - 1], 0) });
                }
                if i > 0 {
                    ways.push(plus(table[i - 1][j], 1));
                }
                if j > 0 {
                    ways.push(plus(table[i][j - 1], 1));
                }
                table[i][j] = ways.into_iter().min().unwrap_or_default();
            }
        }
        table[r.len()][h.len()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn counts_are_those_of_the_whole_table(
            r in prop::collection::vec(0u8..4, 0..60),
            h in prop::collection::vec(0u8..4, 0..60),
        ) {
            let found = edits(&r, &h);
            let (errors, indels) = plain(&r, &h);
            prop_assert_eq!((found.errors(), found.insertions + found.deletions), (errors, indels));
            prop_assert_eq!(found.reference + found.insertions, h.len() as u64 + found.deletions);
            let back = edits(&h, &r);
            prop_assert_eq!((back.substitutions, back.insertions), (found.substitutions, found.deletions));
        }

        #[test]
        fn any_text_can_be_scored(reference: String, answer: String) {
            for normaliser in [Normaliser::None, Normaliser::Basic, Normaliser::Whisper] {
                let mut rate = ErrorRate::default();
                rate.add(word_edits(&reference, &answer, normaliser));
                rate.add(char_edits(&reference, &answer, normaliser));
                prop_assert!(rate.corpus().is_none_or(|v| v >= 0.0));
                prop_assert_eq!(word_edits(&answer, &answer, normaliser).errors(), 0);
            }
        }
    }
}
