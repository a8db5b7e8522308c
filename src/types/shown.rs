//! Texts from outside as they stand in sentences: names, ids and values may be of any length and hold anything, and a
//! sentence must stay one.

use std::borrow::Cow;

/// The most characters of a text that stand whole in a sentence.
const WHOLE: usize = 256;

/// Characters of a longer one that are kept at its beginning and at its end.
const ENDS: (usize, usize) = (80, 20);

/// The most characters of a whole sentence, and what is kept of a longer one.
const SENTENCE: usize = 2000;
const SENTENCE_ENDS: (usize, usize) = (600, 400);

/// A name or value from outside as it is shown in a sentence: without control characters, and where it is long its
/// beginning, its end and its length.
pub fn shown(text: &str) -> Cow<'_, str> {
    let short = shortened(text, WHOLE, ENDS);
    if short.contains(char::is_control) {
        return short.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    short
}

/// A sentence that holds words of others, such as those of a parser: as it is, or shortened where it is longer than any
/// sentence of ours.
pub fn bounded(sentence: String) -> String {
    match shortened(&sentence, SENTENCE, SENTENCE_ENDS) {
        Cow::Owned(short) => short,
        Cow::Borrowed(_) => sentence,
    }
}

fn shortened(text: &str, whole: usize, (first, last): (usize, usize)) -> Cow<'_, str> {
    // A text has no more characters than bytes, so most are not counted.
    if text.len() <= whole {
        return Cow::Borrowed(text);
    }
    let count = text.chars().count();
    if count <= whole {
        return Cow::Borrowed(text);
    }
    let start: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(count.saturating_sub(last)).collect();
    Cow::Owned(format!("{start}…{end} ({count} characters)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_stay_and_long_ones_keep_their_ends() {
        assert!(matches!(shown("clips/ä.wav"), Cow::Borrowed("clips/ä.wav")));
        assert!(matches!(shown(&"é".repeat(256)), Cow::Borrowed(_)));
        let long = format!("{}{}", "é".repeat(10_000), "/the-end-of-it.wav");
        assert_eq!(shown(&long), format!("{}…éé/the-end-of-it.wav (10018 characters)", "é".repeat(80)));
        assert_eq!(shown("a\nb\u{1b}c\u{85}"), "a b c ");
        let sentence = "word ".repeat(300);
        assert_eq!(bounded(sentence.clone()), sentence);
        let long = bounded("word ".repeat(10_000));
        assert!(long.starts_with("word word") && long.ends_with("word  (50000 characters)"), "{long}");
        assert_eq!(long.chars().count(), 600 + 1 + 400 + " (50000 characters)".len());
    }

    proptest::proptest! {
        #[test]
        fn what_is_shown_is_one_short_line(text in "\\PC{0,40}[\\n\\r\\ta]{0,3}", times in 1..200_usize) {
            let text = text.repeat(times);
            let short = shown(&text);
            proptest::prop_assert!(short.chars().count() <= WHOLE && !short.contains('\n'));
            proptest::prop_assert!(bounded(text).chars().count() <= SENTENCE);
        }
    }
}
