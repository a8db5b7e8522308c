//! The sentences of a few pages that fit a text best: the second stage of a search.

use std::collections::HashMap;

use super::index::{B, K1};
use super::terms::{Term, counted};

/// Ranks sentences, each given with the title of its page, and gives the places of the `k` best ones, the best first.
///
/// BM25 with title and sentence as the text, and the sentences given as the collection: words that all of them share
/// tell nothing apart. Of equals the earlier one goes first, so sentences of better pages do.
pub fn best_sentences(text: &str, sentences: &[(&str, &str)], k: usize) -> Vec<usize> {
    let asked: HashMap<Term, u32> = counted(text).into_iter().collect();
    let mut with: HashMap<Term, u32> = HashMap::new();
    let mut all = Vec::with_capacity(sentences.len());
    for (title, sentence) in sentences {
        let terms = counted(&format!("{title} {sentence}"));
        let length: u32 = terms.iter().map(|(_, count)| count).sum();
        let shared: Vec<(Term, u32)> =
            terms.into_iter().filter(|(term, _)| asked.contains_key(term)).collect();
        for (term, _) in &shared {
            *with.entry(*term).or_default() += 1;
        }
        all.push((shared, length as f32));
    }
    let n = all.len().max(1) as f32;
    let mean = (all.iter().map(|(_, length)| length).sum::<f32>() / n).max(1.0);
    let score = |(shared, length): &(Vec<(Term, u32)>, f32)| {
        let norm = K1 * (1.0 - B + B * length / mean);
        let of = |(term, count): &(Term, u32)| {
            let with = with.get(term).copied().unwrap_or_default() as f32;
            let weight = (1.0 + (n - with + 0.5) / (with + 0.5)).ln();
            let asked = asked.get(term).copied().unwrap_or_default() as f32;
            asked * weight * *count as f32 * (K1 + 1.0) / (*count as f32 + norm)
        };
        shared.iter().map(of).sum::<f32>()
    };
    let mut ranked: Vec<(usize, f32)> = all.iter().map(score).enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked.truncate(k);
    ranked.into_iter().map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_that_says_it_goes_first() {
        let sentences = [
            ("甲湖", "甲湖位於北方。"),
            ("甲湖", "面積十平方公里。"),
            ("乙山", "乙山高三百公尺。"),
            ("甲湖", "每年有魚。"),
        ];
        assert_eq!(best_sentences("甲湖的面積有十平方公里", &sentences, 2)[0], 1);
        assert_eq!(best_sentences("乙山高三百公尺", &sentences, 9)[0], 2);
        assert_eq!(best_sentences("乙山高三百公尺", &sentences, 9).len(), 4);
        // Nothing shared: in the order given.
        assert_eq!(best_sentences("xyz", &sentences, 3), [0, 1, 2]);
        assert!(best_sentences("甲", &[], 3).is_empty());
        assert!(best_sentences("", &sentences, 0).is_empty());
    }
}
