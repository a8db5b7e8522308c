//! Text: post-processing of answers, normalisation, exact match, Python's rounding and white space.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Python's `round(value, decimals)`: the exact binary value to so many decimals, ties to even.
///
/// Multiplying, rounding and dividing does not give the same: 0.15 is a little less than 15/100 and rounds down.
pub fn py_round(value: f64, decimals: u8) -> f64 {
    format!("{value:.precision$}", precision = usize::from(decimals)).parse().unwrap_or(value)
}

/// What Python's `str.split()` splits at: Unicode white space and the four separators U+001C to U+001F.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// The words of a text, as Python's `str.split()` gives them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// A text without white space at its ends, as Python's `str.strip()` gives it.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// CCFQA's post-processing of an answer: what follows the last `</think>`, every line feed deleted, and of
/// that what follows the last `": "`. No trimming.
///
/// The last step also cuts "Star Wars: A New Hope" to "A New Hope"; it is kept because the published figures
/// were made so.
pub fn ccfqa_answer(text: &str) -> String {
    let spoken = text.rsplit("</think>").next().unwrap_or(text).replace('\n', "");
    match spoken.rfind(": ") {
        Some(at) => spoken[at + 2..].to_owned(),
        None => spoken,
    }
}

/// Whether a text opens `<think>` and never closes it: its end was cut off, and no answer follows.
pub fn thinks_to_the_end(text: &str) -> bool {
    text.rfind("<think>").is_some_and(|open| !text[open..].contains("</think>"))
}

/// What becomes of characters that are neither letters, digits, marks nor white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// They become a blank: "rock'n'roll" is three words.
    Blank,
    /// They go: "rock'n'roll" is one word.
    Remove,
}

/// A text in a form that forgives spelling: NFKC, lower-cased, `signs` (punctuation, symbols, control
/// characters) blanked or removed, white space collapsed to single blanks and trimmed.
///
/// Letters, digits and combining marks on them stay, in every script. Invisible format characters (soft hyphen,
/// joiners, direction marks, byte order mark, variation selectors) are always removed, so that they split no word.
pub fn normalise(text: &str, signs: Signs) -> String {
    let folded: String = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.nfkc().collect::<String>().to_lowercase().nfkc().collect()
    };
    let mut out = String::with_capacity(folded.len());
    let mut blank = false;
    let mut after_letter = false;
    for c in folded.chars() {
        if is_invisible(c) {
            continue;
        }
        if c.is_alphanumeric() || (after_letter && is_combining_mark(c)) {
            if blank && !out.is_empty() {
                out.push(' ');
            }
            out.push(c);
            (blank, after_letter) = (false, true);
        } else {
            blank |= is_space(c) || signs == Signs::Blank;
            after_letter = false;
        }
    }
    out
}

/// Characters that are never seen and carry no word: soft hyphen, joiners, direction marks, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0100}'..='\u{e01ef}')
}

/// A text as Whisper's `BasicTextNormalizer` leaves it, which keeps diacritics: lower-cased, without what stands in
/// brackets, NFKC, a blank for every mark, symbol and punctuation, and one blank for white space.
///
/// A mark is one that no letter takes up: the vowel signs of Hindi become blanks, as there.
pub fn whisper_basic(text: &str) -> String {
    let lower = text.to_lowercase();
    let plain = without_bracketed(&lower, &['<', '['], &['>', ']'], 0);
    let plain = without_bracketed(&plain, &['('], &[')'], 1);
    let spaced: String = plain.nfkc().map(|c| if is_sign(c) { ' ' } else { c }).collect();
    let mut out = String::with_capacity(spaced.len());
    for c in spaced.to_lowercase().chars() {
        if !is_space(c) {
            out.push(c);
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out
}

/// A text without what stands between an opening bracket and the next closing one, where that are `least` bytes at least.
/// Opening and closing brackets are ASCII.
fn without_bracketed(text: &str, opening: &[char], closing: &[char], least: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(opening) {
        let (before, bracket) = rest.split_at(at);
        out.push_str(before);
        let (sign, inside) = bracket.split_at(1);
        match inside.find(closing) {
            Some(end) if end >= least => rest = &inside[end + 1..],
            Some(_) => {
                out.push_str(sign);
                rest = inside;
            }
            None => {
                rest = bracket;
                break;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether a character is a mark, a symbol or punctuation by its Unicode category.
fn is_sign(c: char) -> bool {
    // Symbols that count as alphabetic: negative and squared Latin letters.
    let letter_like =
        matches!(c, '\u{1f130}'..='\u{1f149}' | '\u{1f150}'..='\u{1f169}' | '\u{1f170}'..='\u{1f189}');
    // Format characters and those for private use.
    let other = is_invisible(c)
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{e000}'..='\u{f8ff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0001}'..='\u{e007f}' | '\u{f0000}'..='\u{10ffff}');
    is_combining_mark(c) || letter_like || !(c.is_alphanumeric() || is_space(c) || c.is_control() || other)
}

/// `exact_match`: whether the answer is a reference, byte for byte.
pub fn exact_match<S: AsRef<str>>(answer: &str, references: &[S]) -> bool {
    references.iter().any(|reference| reference.as_ref() == answer)
}

/// `exact_match_norm`: whether the answer is a reference once both are [`normalise`]d with blanks for signs.
pub fn exact_match_norm<S: AsRef<str>>(answer: &str, references: &[S]) -> bool {
    let answer = normalise(answer, Signs::Blank);
    references.iter().any(|reference| normalise(reference.as_ref(), Signs::Blank) == answer)
}

/// `contains`: whether the answer holds a reference, byte for byte, anywhere in it, inside words too. An empty
/// reference is held by an empty answer only.
pub fn contains<S: AsRef<str>>(answer: &str, references: &[S]) -> bool {
    references.iter().any(|reference| {
        let reference = reference.as_ref();
        if reference.is_empty() { answer.is_empty() } else { answer.contains(reference) }
    })
}

/// `contains_norm`: whether the answer holds a reference as whole words and numbers, once both are [`normalise`]d with
/// blanks for signs: "1788" does not hold "8", nor "woman" "man". Scripts that write words together, or particles on
/// them, have no such ends: "서울은" holds "서울". "8,000" is "8000", and neither it nor "8.5" holds "8". An empty
/// reference is held by an empty answer only.
pub fn contains_norm<S: AsRef<str>>(answer: &str, references: &[S]) -> bool {
    let plain = |text: &str| normalise(&with_whole_numbers(text), Signs::Blank);
    let answer = plain(answer);
    references.iter().any(|reference| holds(&answer, &plain(reference.as_ref())))
}

/// Stands in a number for its point, which would become a blank: a letter of clicks, which no benchmark's language has.
const POINT: char = '\u{298}';

/// A text whose numbers are words of their own: without commas between thousands, and with [`POINT`] for a point. What has
/// signs of a number but not its form, as a date has, stays as it is.
fn with_whole_numbers(text: &str) -> String {
    let text: String = text.nfkc().collect();
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let run = from.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(from.len());
        let (run, behind) = from.split_at(run);
        let digits = run.trim_end_matches(['.', ',']);
        out.push_str(before);
        out.push_str(&number(digits).unwrap_or_else(|| digits.to_owned()));
        out.push_str(run.get(digits.len()..).unwrap_or_default());
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// A number in one word: `1,234.5` without its comma. `None` for what is none.
fn number(text: &str) -> Option<String> {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part) = text.split_once('.').map_or((text, None), |(whole, part)| (whole, Some(part)));
    let (first, groups) =
        whole.split_once(',').map_or((whole, None), |(first, groups)| (first, Some(groups)));
    let is_grouped = groups.is_none_or(|groups| {
        first.len() <= 3 && groups.split(',').all(|group| group.len() == 3 && is_digits(group))
    });
    if !is_digits(first) || !is_grouped || !part.is_none_or(is_digits) {
        return None;
    }
    let mut word = first.to_owned() + &groups.unwrap_or_default().replace(',', "");
    if let Some(part) = part {
        word.push(POINT);
        word.push_str(part);
    }
    Some(word)
}

/// Whether a text holds another whose ends are no places within a word or a number.
fn holds(text: &str, part: &str) -> bool {
    let (Some(first), Some(last)) = (part.chars().next(), part.chars().next_back()) else {
        return text.is_empty();
    };
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(part)) {
        let at = from + found;
        // Marks belong to the letter before them: "Москва" with a mark of stress is the same word.
        let is_letter = |c: &char| !is_combining_mark(*c);
        let before = text.get(..at).and_then(|before| before.chars().rfind(is_letter));
        let after = text.get(at + part.len()..).and_then(|after| after.chars().find(is_letter));
        let within = before.is_some_and(|c| adjoins(c, first)) || after.is_some_and(|c| adjoins(last, c));
        if !within {
            return true;
        }
        // The next one may begin within this one.
        from = at + first.len_utf8();
    }
    false
}

/// Whether two characters side by side are of one number, or of one word where words have blanks around them.
fn adjoins(left: char, right: char) -> bool {
    let is_numeric = |c: char| c.is_numeric() || c == POINT;
    (is_numeric(left) && is_numeric(right)) || (is_spaced(left) && is_spaced(right))
}

/// Whether a character is a letter of the scripts whose words stand apart: Latin, Greek, Cyrillic.
fn is_spaced(c: char) -> bool {
    let script = matches!(c,
        '\0'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}' | '\u{1d00}'..='\u{1fff}' | '\u{2c60}'..='\u{2c7f}'
        | '\u{2de0}'..='\u{2dff}' | '\u{a640}'..='\u{a69f}' | '\u{a720}'..='\u{a7ff}' | '\u{ab30}'..='\u{ab6f}');
    script && c.is_alphabetic() && c != POINT
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rounding_is_that_of_python() {
        // Left: round(x, 1) as Python prints it.
        for (value, expect) in [
            (0.05, 0.1),
            (0.15, 0.1),
            (0.25, 0.2),
            (0.35, 0.3),
            (0.75, 0.8),
            (2.5, 2.5),
            (29.55, 29.6),
            (38.525, 38.5),
            (-0.25, -0.2),
            (1e300, 1e300),
        ] {
            assert_eq!(py_round(value, 1), expect, "{value}");
        }
        assert_eq!(py_round(2.5, 0), 2.0);
        assert!(py_round(f64::NAN, 1).is_nan());
        assert_eq!(py_round(f64::INFINITY, 1), f64::INFINITY);
    }

    #[test]
    fn post_processing_is_that_of_the_official_script() {
        for (text, expect) in [
            ("Star Wars: A New Hope", "A New Hope"),
            ("Paris\nFrance", "ParisFrance"),
            ("<think>x: y</think> Rome", " Rome"),
            ("12:30", "12:30"),
            ("a: b: ", ""),
            ("a:\n b", "b"),
            ("<think>never closed", "<think>never closed"),
            ("a</think>b</think>", ""),
            ("", ""),
        ] {
            assert_eq!(ccfqa_answer(text), expect, "{text:?}");
        }
    }

    #[test]
    fn unclosed_thought_is_seen() {
        assert!(thinks_to_the_end("<think>a</think><think>b"));
        assert!(!thinks_to_the_end("<think>a</think> b"));
        assert!(!thinks_to_the_end("b"));
    }

    #[test]
    fn normal_form_keeps_words_of_every_script() {
        for (text, blank, remove) in [
            ("  The\tAnswer, is: 42! ", "the answer is 42", "the answer is 42"),
            ("rock'n'roll", "rock n roll", "rocknroll"),
            ("Ｆｕｌｌ　Ｗｉｄｔｈ１２", "full width12", "full width12"),
            ("CAFE\u{301} – Ёлка", "café ёлка", "café ёлка"),
            ("हिन्दी।", "हिन्दी", "हिन्दी"),
            ("co\u{ad}operate\u{200b}", "cooperate", "cooperate"),
            ("马可·波罗", "马可 波罗", "马可波罗"),
            ("I❤\u{fe0f}U", "i u", "iu"),
            ("?!", "", ""),
        ] {
            assert_eq!(normalise(text, Signs::Blank), blank, "{text:?}");
            assert_eq!(normalise(text, Signs::Remove), remove, "{text:?}");
        }
    }

    #[test]
    fn matches_raw_and_normalised() {
        let references = ["Paris", "the City of Light"];
        for (answer, raw, norm, held, held_norm) in [
            ("Paris", true, true, true, true),
            ("paris.", false, true, false, true),
            ("It is Paris.", false, false, true, true),
            ("THE CITY OF LIGHT!", false, true, false, true),
            ("Rome", false, false, false, false),
            ("", false, false, false, false),
        ] {
            assert_eq!(exact_match(answer, &references), raw, "{answer}");
            assert_eq!(exact_match_norm(answer, &references), norm, "{answer}");
            assert_eq!(contains(answer, &references), held, "{answer}");
            assert_eq!(contains_norm(answer, &references), held_norm, "{answer}");
        }
        assert!(contains("", &[""]) && !contains("a", &[""]) && !contains_norm("a", &["?"]));
        assert!(!exact_match::<&str>("", &[]));
    }

    /// What `BasicTextNormalizer` of transformers 5.24.0 gives.
    #[test]
    fn the_basic_normaliser_is_that_of_whisper() {
        for (text, expect) in [
            ("L'eau, c'est la vie!", "l eau c est la vie "),
            ("Don't stop [laughter] now", "don t stop now"),
            ("Who (softly) wrote “War & Peace”?", "who wrote war peace "),
            ("empty () brackets ( and (one", "empty brackets and one"),
            ("a <b] c [d> e", "a c e"),
            ("(a(b)c)", "c "),
            ("Qu’est-ce que c’est ?", "qu est ce que c est "),
            ("¿Cuántos años tiene?", " cuántos años tiene "),
            ("Сколько лет Ёлке №5?", "сколько лет ёлке no5 "),
            ("ＡＢＣ１２３，（全角）！", "abc123 全角 "),
            ("北京〔首都〕的人口？", "北京 首都 的人口 "),
            ("2,000 m² ≈ ½ ha", "2 000 m2 1 2 ha"),
            ("हिन्दी में", "ह न द म "),
            ("cafe\u{301} I\u{307}stanbul", "café i stanbul"),
            ("co\u{ad}op\u{200b}x", "co\u{ad}op\u{200b}x"),
            ("tab\tand\u{a0}nbsp\u{3000}end", "tab and nbsp end"),
            (" lead  trail ", " lead trail "),
            ("ΟΔΟΣ.", "οδος "),
            ("🅰🅱 ok ❤\u{fe0f}", " ok "),
            ("서울은 어디?", "서울은 어디 "),
            ("x\u{8}y", "x\u{8}y"),
            ("$5 + 3% = €", " 5 3 "),
            ("[a", " a"),
            ("東京タワー〜", "東京タワー "),
            ("Ⓐ①", "a1"),
            ("", ""),
        ] {
            assert_eq!(whisper_basic(text), expect, "{text:?}");
        }
    }

    #[test]
    fn a_reference_is_held_as_whole_words_and_numbers() {
        for (answer, reference, held) in [
            ("1788", "8", false),
            ("8", "8", true),
            ("It was 1788, or 8.", "8", true),
            ("the 8th of May", "8", true),
            ("8km", "8", true),
            ("18월", "8", false),
            ("8월", "8", true),
            ("第8章", "8", true),
            ("第18章", "8", false),
            ("a woman", "man", false),
            ("A woman; no man.", "man", true),
            ("mankind", "man", false),
            ("Überraschung", "rasch", false),
            ("cafés", "café", false),
            ("женщина", "жен", false),
            ("две женщины", "женщины", true),
            ("λόγος", "λόγο", false),
            ("서울은 수도다", "서울", true),
            ("他在北京市", "北京", true),
            ("東京タワー", "東京", true),
            ("用Python写的", "python", true),
            ("a aa a", "a a", false),
            ("xa a a", "a a", true),
            ("8,000 people", "8", false),
            ("8,000 people", "8000", true),
            ("8000", "8,000", true),
            ("1,234,567.25", "1234567.25", true),
            ("8.5", "8", false),
            ("8.5", "8.5", true),
            ("8.5", "5", false),
            ("it is 8.", "8", true),
            ("8, 9", "8", true),
            ("1,2,3", "2", true),
            ("12.05.1990", "1990", true),
            ("８，０００", "8000", true),
            ("约8.5万", "8.5", true),
            ("Москва\u{301} стоит", "Москва", true),
            ("man", "", false),
            ("?", "!", true),
        ] {
            assert_eq!(contains_norm(answer, &[reference]), held, "{answer} {reference}");
        }
        // Byte for byte it is another matter.
        assert!(contains("a woman", &["man"]));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_normal_forms_are_clean(text: String, other: String, decimals: u8, value: f64) {
            for signs in [Signs::Blank, Signs::Remove] {
                let normal = normalise(&text, signs);
                prop_assert!(normal.trim() == normal && !normal.contains("  "));
                prop_assert!(normal.chars().all(|c| c == ' ' || c.is_alphanumeric() || is_combining_mark(c)));
            }
            prop_assert!(!whisper_basic(&text).contains("  "));
            let answer = ccfqa_answer(&text);
            prop_assert!(!answer.contains('\n') && !answer.contains(": "));
            prop_assert!(exact_match(&text, &[&other, &text]) && contains(&text, &[&text]));
            prop_assert!(exact_match_norm(&text, &[&text]) && contains_norm(&text, &[&text]));
            let _ = (py_round(value, decimals), thinks_to_the_end(&text), words(&text).count());
        }

        #[test]
        fn words_are_those_of_python(text in "[a \t\u{1c}\u{1f}\u{85}\u{a0}\u{3000}\u{200b}]{0,20}") {
            let spaces = "\t \u{1c}\u{1d}\u{1e}\u{1f}\u{85}\u{a0}\u{3000}";
            let expect: Vec<&str> = text.split(|c| spaces.contains(c)).filter(|w| !w.is_empty()).collect();
            prop_assert_eq!(words(&text).collect::<Vec<_>>(), expect);
        }
    }
}
