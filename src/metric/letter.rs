//! The letter that an answer to a question of four options gives: A, B, C or D.
//!
//! Three readings exist. [`official`] is the only rule that the authors of Belebele published, and is easily thrown by
//! form ("Answer: D" reads as A). [`recipe`] reads what an answer says and never guesses. [`lenient`] also takes an
//! option that is written out. Every finding names the rule that gave it: what no rule reads is unparsed, and counted.

mod clean;

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;

use super::text::{Signs, normalise};
use clean::{before_the_next_question, without_control_tokens, without_math, without_thoughts};

/// What was found in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// `A` to `D`; `None` where the answer is unparsed.
    pub letter: Option<char>,
    /// The rule that found it, or that refused: `R0` (empty or an unfinished thought), `R1` bare, `R2` cue, `R3` label
    /// at the head, `R4` in brackets, `R5` short, `R6` the option's text, `R7` nothing; `R2x`, `R3x` and `R4x` where
    /// several letters are named. Of the official reading: `official:…`.
    pub rule: &'static str,
}

impl Found {
    fn some(letter: char, rule: &'static str) -> Self {
        Self { letter: Some(letter.to_ascii_uppercase()), rule }
    }

    fn none(rule: &'static str) -> Self {
        Self { letter: None, rule }
    }
}

/// The rule of facebookresearch/belebele (`sample_zero_shot_instructions.md`): without round brackets the answer is a
/// letter, or begins with one. `strip_prefix` removes "The correct answer is " before, as the authors did at times.
pub fn official(output: &str, strip_prefix: bool) -> Found {
    const PREFIX: &str = "The correct answer is ";
    let begins = output.chars().next().is_some_and(is_capital);
    let output = match output.strip_prefix(PREFIX) {
        Some(rest) if strip_prefix && !begins => rest,
        _ => output,
    };
    let mut rest = output.chars().filter(|c| !matches!(c, '(' | ')'));
    match (rest.next(), rest.next()) {
        (Some(letter), None) if is_capital(letter) => Found::some(letter, "official:bare"),
        (Some(letter), Some(_)) if is_capital(letter) => Found::some(letter, "official:first_character"),
        (Some(_), _) => Found::none("official:none"),
        (None, _) => Found::none("official:empty"),
    }
}

/// The reading of the recipe: R1 to R5, in this order.
pub fn recipe(output: &str) -> Found {
    read(output, &[])
}

/// The same, and where nothing is found an option that is written out: exactly one of `options` (A first) is held by
/// the answer, signs and case aside.
pub fn lenient<S: AsRef<str>>(output: &str, options: &[S]) -> Found {
    let options: Vec<&str> = options.iter().map(AsRef::as_ref).collect();
    read(output, &options)
}

/// Whether an answer that gives no letter says that nothing was heard, or that it will not answer. For counting only.
pub fn is_refusal(output: &str) -> bool {
    const SIGNS: [&str; 16] = [
        "can t hear",
        "cannot hear",
        "unable to hear",
        "can t listen",
        "cannot listen",
        "unable to listen",
        "no audio",
        "can t process audio",
        "cannot process audio",
        "unable to process audio",
        "don t have access",
        "can t assist",
        "cannot assist",
        "i m sorry",
        "i am sorry",
        "as an ai",
    ];
    let said = normalise(output, Signs::Blank);
    SIGNS.iter().any(|sign| said.contains(sign))
}

fn read(output: &str, options: &[&str]) -> Found {
    let Some(text) = Text::clean(output) else { return Found::none("R0") };
    text.bare()
        .or_else(|| text.cue())
        .or_else(|| text.head())
        .or_else(|| text.wrapped())
        .or_else(|| text.short())
        .or_else(|| by_option(output, options))
        .unwrap_or(Found::none("R7"))
}

fn is_capital(c: char) -> bool {
    ('A'..='D').contains(&c)
}

/// A letter in any case.
fn is_letter(c: char) -> bool {
    is_capital(c.to_ascii_uppercase())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What may stand before a letter, beside white space.
const OPENING: &str = "\"'“”‘’«»「『【[(<{";
/// What may stand behind one.
const CLOSING: &str = ")]}」』】>\"'’”»";
/// What is cut from both ends of a bare letter, beside white space.
const TRIMMED: &str = "\"'“”‘’«»‹›„‚「」『』【】()[]{}<>.,:;!?。、，：；！？";
/// What ends the mention of a letter.
const AFTER: &str = ".,;:!?)}]」』】>\"'’”。，、：；！？";
/// Words that go on behind a letter, which an article could not have behind it.
const REASONS: [&str; 9] = ["because", "since", "as", "for", "which", "and not", "based", "given", "due"];

fn is_opening(c: char) -> bool {
    c.is_whitespace() || OPENING.contains(c)
}

/// Kana, an ideograph or Hangul.
fn is_east_asian(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7af}'
        | '\u{20000}'..='\u{323af}')
}

/// Lower case where that is one character: places must stay the same.
fn fold(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

/// Letters of other scripts that look like ours.
fn latin(c: char) -> char {
    match c {
        '\u{410}' | '\u{391}' => 'A',
        '\u{412}' | '\u{392}' => 'B',
        '\u{421}' => 'C',
        c => c,
    }
}

/// Words before a letter that say that it is the answer.
const CUES: [&str; 37] = [
    "answer",
    "option",
    "choice",
    "i choose",
    "i select",
    "i pick",
    "i go with",
    "i would choose",
    "i would select",
    "i would pick",
    "i would go with",
    "i'd choose",
    "i'd select",
    "i'd pick",
    "i'd go with",
    "答案",
    "正确选项",
    "正確答案",
    "选",
    "选择",
    "正解",
    "答え",
    "정답",
    "답",
    "respuesta",
    "respuesta correcta",
    "réponse",
    "réponse correcte",
    "antwort",
    "risposta",
    "risposta corretta",
    "resposta",
    "resposta correta",
    "ответ",
    "відповідь",
    "الإجابة",
    "الإجابة الصحيحة",
];
const MORE_CUES: [&str; 9] =
    ["الجواب", "उत्तर", "jawaban", "jawabannya", "đáp án", "câu trả lời", "คำตอบ", "cevap", "jibu"];
/// Words between a cue and its letter.
const LINKS: [&str; 29] = [
    "is",
    "are",
    "would be",
    "should be",
    "must be",
    "=",
    ":",
    "-",
    "–",
    "是",
    "为",
    "為",
    "は",
    "은",
    "는",
    "es",
    "est",
    "ist",
    "lautet",
    "è",
    "é",
    "هي",
    "هو",
    "है",
    "adalah",
    "là",
    "คือ",
    "ni",
    "选项",
];
/// Links that are cues as well, or name a letter.
const MORE_LINKS: [&str; 3] = ["option", "choice", "letter"];
const MOST_LINKS: usize = 3;

/// A cue or link as it stands in a cleaned text: in lower case, and in capitals of which some became Latin ones.
fn forms(words: &[&str]) -> Vec<Vec<char>> {
    let clean = |text: String| text.nfkc().map(latin).map(fold).collect::<Vec<char>>();
    let mut all: Vec<Vec<char>> =
        words.iter().flat_map(|word| [clean((*word).to_owned()), clean(word.to_uppercase())]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

static CUE_FORMS: LazyLock<Vec<Vec<char>>> =
    LazyLock::new(|| forms(&CUES.iter().chain(&MORE_CUES).copied().collect::<Vec<_>>()));
static LINK_FORMS: LazyLock<Vec<Vec<char>>> =
    LazyLock::new(|| forms(&LINKS.iter().chain(&MORE_LINKS).copied().collect::<Vec<_>>()));

/// Whether a script puts blanks between words: only there a word ends where its letters do.
fn spaced(c: char) -> bool {
    matches!(c, 'a'..='z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' | '\u{400}'..='\u{52f}')
}

/// An answer without thoughts, markup and what imitates letters. Never empty.
struct Text {
    chars: Vec<char>,
    /// The same in lower case, place by place.
    folded: Vec<char>,
}

impl Text {
    /// `None` where nothing is left, or a thought was never ended.
    fn clean(output: &str) -> Option<Self> {
        let spoken = without_thoughts(output)?;
        let plain: String = spoken
            .nfkc()
            .filter(|c| {
                !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}'
                | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            })
            .map(|c| if c == '\u{2581}' { ' ' } else { latin(c) })
            .collect();
        let plain = without_math(without_control_tokens(plain.replace("\r\n", "\n").replace('\r', "\n")));
        let marked = |c: char| matches!(c, '*' | '_' | '`' | '~');
        let plain: String = plain.chars().filter(|c| !marked(*c)).collect();
        let lines =
            plain.split('\n').map(|line| line.trim_start_matches(|c: char| c == '#' || c.is_whitespace()));
        let plain = lines.collect::<Vec<_>>().join("\n");
        let text = before_the_next_question(plain.trim()).trim();
        let chars: Vec<char> = text.chars().collect();
        let folded = chars.iter().copied().map(fold).collect();
        (!chars.is_empty()).then_some(Self { chars, folded })
    }

    fn at(&self, place: usize) -> Option<char> {
        self.chars.get(place).copied()
    }

    fn before(&self, place: usize) -> Option<char> {
        place.checked_sub(1).and_then(|place| self.at(place))
    }

    /// The first place from `place` on whose character is not of this kind.
    fn skip(&self, mut place: usize, kind: impl Fn(char) -> bool) -> usize {
        while self.at(place).is_some_and(&kind) {
            place += 1;
        }
        place
    }

    fn skip_blanks(&self, place: usize) -> usize {
        self.skip(place, char::is_whitespace)
    }

    /// The end of `word` where it stands at a place; a blank in it stands for any white space. In scripts with blanks
    /// between words it must end there.
    fn word(&self, place: usize, word: &[char]) -> Option<usize> {
        let mut end = place;
        for &c in word {
            if c == ' ' {
                let next = self.skip_blanks(end);
                if next == end {
                    return None;
                }
                end = next;
            } else if self.folded.get(end) == Some(&c) || (c == '\'' && self.folded.get(end) == Some(&'’'))
            {
                end += 1;
            } else {
                return None;
            }
        }
        let ends = !word.last().is_some_and(|c| spaced(*c)) || !self.at(end).is_some_and(is_word);
        ends.then_some(end)
    }

    fn ascii_word(&self, place: usize, word: &str) -> Option<usize> {
        self.word(place, &word.chars().collect::<Vec<_>>())
    }

    /// Whether no letter, digit, apostrophe or hyphen touches the character.
    fn stands_alone(&self, place: usize) -> bool {
        let touches = |c: Option<char>| c.is_some_and(|c| is_word(c) || matches!(c, '\'' | '’' | '-'));
        !touches(self.before(place)) && !touches(self.at(place + 1))
    }

    /// R1: the text, or its first line, is a letter.
    fn bare(&self) -> Option<Found> {
        let first = self.chars.split(|c| *c == '\n').next().unwrap_or_default();
        [&self.chars[..], first].into_iter().find_map(|text| {
            let cut = |c: &&char| c.is_whitespace() || TRIMMED.contains(**c);
            let start = text.iter().take_while(cut).count();
            let end = text.iter().rev().take_while(cut).count();
            match text.get(start..text.len().saturating_sub(end)) {
                Some([letter]) if is_letter(*letter) => Some(Found::some(*letter, "R1")),
                _ => None,
            }
        })
    }

    /// R2: the last letter behind a word that says that it is the answer.
    fn cue(&self) -> Option<Found> {
        let mut last: Option<usize> = None;
        for place in 0..self.chars.len() {
            for cue in CUE_FORMS.iter() {
                // A word, not the end of one.
                let within =
                    cue.first().is_some_and(|c| spaced(*c)) && self.before(place).is_some_and(is_word);
                if within || self.denied(place) {
                    continue;
                }
                if let Some(end) = self.word(place, cue) {
                    self.letters_behind(end, MOST_LINKS, &mut last);
                }
            }
        }
        let place = last?;
        if self.another_follows(place) {
            return Some(Found::none("R2x"));
        }
        Some(Found::some(self.at(place)?, "R2"))
    }

    /// Whether the cue at a place is denied: "not option A".
    fn denied(&self, place: usize) -> bool {
        let words: Vec<String> = self
            .folded
            .get(place.saturating_sub(12)..place)
            .unwrap_or_default()
            .iter()
            .collect::<String>()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        matches!(words.as_slice(), [.., not] if not == "not")
            || matches!(words.as_slice(), [.., not, the] if not == "not" && the == "the")
    }

    /// Keeps the furthest letter that stands behind at most so many links.
    fn letters_behind(&self, place: usize, links: usize, last: &mut Option<usize>) {
        let letter = self.skip(place, is_opening);
        if self.is_named(letter) && last.is_none_or(|last| last < letter) {
            *last = Some(letter);
        }
        if links == 0 {
            return;
        }
        let place = self.skip_blanks(place);
        for link in LINK_FORMS.iter() {
            if let Some(end) = self.word(place, link) {
                self.letters_behind(end, links - 1, last);
            }
        }
        // "to the question is"
        if let Some(end) = self.ascii_word(place, "to the ") {
            let end = self.skip(end, |c| !c.is_whitespace());
            let end = self.skip_blanks(end);
            if let Some(end) = self.ascii_word(end, "is") {
                self.letters_behind(end, links - 1, last);
            }
        }
    }

    /// Whether a letter stands at a place that is no article: what follows tells.
    fn is_named(&self, place: usize) -> bool {
        let Some(letter) = self.at(place).filter(|c| is_letter(*c)) else { return false };
        let next = self.skip_blanks(place + 1);
        let Some(follows) = self.at(next) else { return true };
        let blanks = self.chars.get(place + 1..next).unwrap_or_default();
        let line_ends = blanks.contains(&'\n');
        if letter.is_ascii_lowercase() {
            return line_ends || matches!(follows, '.' | ')' | ']');
        }
        line_ends
            || AFTER.contains(follows)
            || matches!(follows, '-' | '–' | '—' | '(')
            || is_east_asian(follows)
            || (!blanks.is_empty() && REASONS.iter().any(|word| self.ascii_word(next, word).is_some()))
    }

    /// Whether the letter at a place is but the first of several: "A, B", "(A) or (B)".
    fn another_follows(&self, place: usize) -> bool {
        let behind = self.skip(place + 1, |c| c.is_whitespace() || CLOSING.contains(c));
        let mut next = behind;
        if matches!(self.at(next), Some(',' | '、' | '，' | '/' | '&')) {
            next = self.skip_blanks(next + 1);
        }
        for word in ["and", "or"] {
            next = self.ascii_word(next, word).unwrap_or(next);
        }
        let letter = self.skip(next, is_opening);
        next > behind && self.at(letter).is_some_and(is_capital) && self.stands_alone(letter)
    }

    /// R3: the text begins with a label.
    fn head(&self) -> Option<Found> {
        let place = self.skip(0, is_opening);
        let letter = self.at(place).filter(|c| is_letter(*c))?;
        let next = self.skip_blanks(place + 1);
        let blank = next > place + 1;
        let line_ends = self.chars.get(place + 1..next).unwrap_or_default().contains(&'\n');
        let sign = self.at(next);
        let dashed = blank
            && matches!(sign, Some('-' | '–' | '—'))
            && self.at(next + 1).is_some_and(char::is_whitespace);
        let is_label = match sign {
            Some(')' | ']' | '.' | ':') => true,
            _ if letter.is_ascii_lowercase() => false,
            None | Some(',' | ';' | '、' | '。' | '，') => true,
            Some(_) => line_ends || dashed,
        };
        if !is_label {
            return None;
        }
        if self.labels_several_lines() || self.label_follows(if line_ends { place + 1 } else { next + 1 }) {
            return Some(Found::none("R3x"));
        }
        Some(Found::some(letter, "R3"))
    }

    /// Whether lines begin with labels of different letters.
    fn labels_several_lines(&self) -> bool {
        let labels = self.chars.split(|c| *c == '\n').filter_map(|line| {
            let start = line.iter().take_while(|c| c.is_whitespace()).count();
            let line = line.get(start..)?;
            let line = line.strip_prefix(&['(']).or(line.strip_prefix(&['['])).unwrap_or(line);
            match line {
                [letter, ')' | ']' | '.' | ':', ..] if is_capital(*letter) => Some(*letter),
                _ => None,
            }
        });
        let mut labels = labels;
        let first = labels.next();
        labels.any(|label| Some(label) != first)
    }

    /// Whether another label stands at a place: "A, B", "A) and B)".
    fn label_follows(&self, place: usize) -> bool {
        let mut next = self.skip(place, |c| c.is_whitespace() || CLOSING.contains(c) || c == ',');
        for word in ["and", "or"] {
            next = self.ascii_word(next, word).map_or(next, |end| self.skip_blanks(end));
        }
        let letter = self.skip(next, |c| matches!(c, '(' | '[' | '{' | '【' | '「'));
        if !self.at(letter).is_some_and(is_capital) {
            return false;
        }
        let after = self.skip_blanks(letter + 1);
        let conjunction =
            || after > letter + 1 && ["and", "or"].iter().any(|word| self.ascii_word(after, word).is_some());
        match self.at(after) {
            None | Some(')' | '.' | ',' | ':' | ';') => true,
            Some(_) => conjunction(),
        }
    }

    /// R4: letters in brackets, all the same.
    fn wrapped(&self) -> Option<Found> {
        let mut found = None;
        for (place, open) in self.chars.iter().enumerate() {
            let close = match open {
                '(' => ')',
                '[' => ']',
                '【' => '】',
                '「' => '」',
                _ => continue,
            };
            let letter = self.skip_blanks(place + 1);
            let Some(name) = self.at(letter).filter(|c| is_letter(*c)) else { continue };
            if self.at(self.skip_blanks(letter + 1)) != Some(close) {
                continue;
            }
            let name = name.to_ascii_uppercase();
            match found {
                Some(earlier) if earlier != name => return Some(Found::none("R4x")),
                _ => found = Some(name),
            }
        }
        found.map(|letter| Found::some(letter, "R4"))
    }

    /// R5: a few words with one letter among them, and no word that denies it.
    fn short(&self) -> Option<Found> {
        let words: Vec<&[char]> =
            self.folded.split(|c| c.is_whitespace()).filter(|word| !word.is_empty()).collect();
        if words.len() > 5 || denies(&words) {
            return None;
        }
        let places: Vec<usize> = (0..self.chars.len())
            .filter(|place| self.at(*place).is_some_and(is_capital) && self.stands_alone(*place))
            .collect();
        let letter = self.at(*places.first()?)?;
        if !places.iter().all(|place| self.at(*place) == Some(letter)) {
            return None;
        }
        // An `A` before a word is an article.
        if letter == 'A' {
            let last = words.last()?;
            let last: Vec<char> = last.iter().copied().filter(|c| is_word(*c)).collect();
            if words.len() < 2 || last != ['a'] || places.len() > 1 {
                return None;
            }
        }
        Some(Found::some(letter, "R5"))
    }
}

/// Whether words say no.
fn denies(words: &[&[char]]) -> bool {
    let words: Vec<String> = words.iter().map(|word| word.iter().collect()).collect();
    let bare = |word: &str| word.trim_matches(|c: char| !is_word(c)).to_owned();
    words.iter().enumerate().any(|(place, word)| {
        let plain = bare(word);
        matches!(plain.as_str(), "not" | "nicht" | "pas" | "не")
            || plain.ends_with("n't")
            || plain.ends_with("n’t")
            || word.contains('不')
            || word.contains("ない")
            || (plain == "no" && words.get(place + 1).is_some_and(|next| bare(next) == "es"))
    })
}

/// R6: exactly one option is written out. One that is part of another written one does not count.
fn by_option(output: &str, options: &[&str]) -> Option<Found> {
    let said = normalise(&without_thoughts(output)?, Signs::Blank);
    let held: Vec<(usize, String)> = options
        .iter()
        .map(|option| normalise(option, Signs::Blank))
        .enumerate()
        .filter(|(_, option)| !option.is_empty() && said.contains(option.as_str()))
        .collect();
    let mut counted = held.iter().filter(|(place, option)| {
        !held
            .iter()
            .any(|(other, longer)| other != place && longer != option && longer.contains(option.as_str()))
    });
    let (place, _) = counted.next()?;
    if counted.next().is_some() {
        return None;
    }
    "ABCD".chars().nth(*place).map(|letter| Found::some(letter, "R6"))
}

#[cfg(test)]
#[path = "letter_tests.rs"]
mod tests;
