//! What a judge's reply says, by the rules of each paper. Every finding names the rule that gave it.
//!
//! A reply that no rule reads is unparsed: it is counted and never guessed.

use serde_json::Value;

/// The last part of a reply: what follows the last `</think>`.
fn spoken(reply: &str) -> &str {
    reply.rsplit("</think>").next().unwrap_or(reply)
}

/// What CCFQA's judge says of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YesNo {
    /// It is right.
    Yes,
    /// It is not.
    No,
    /// Neither word is there.
    Other,
}

impl YesNo {
    /// The rule that gave it.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Yes => "ccfqa:contains_yes",
            Self::No => "ccfqa:contains_no",
            Self::Other => "ccfqa:neither",
        }
    }
}

/// CCFQA, `output/vllm_eval.py`: what follows the last `</think>`, line feeds deleted, lower-cased; `yes` anywhere in
/// it is yes, else `no` anywhere is no. "Not sure" and "unknown" are no.
pub fn yes_no(reply: &str) -> YesNo {
    let reply = spoken(reply).replace('\n', "").to_lowercase();
    if reply.contains("yes") {
        YesNo::Yes
    } else if reply.contains("no") {
        YesNo::No
    } else {
        YesNo::Other
    }
}

/// How CP-Bench's ratings are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RatingRule {
    /// The number behind the last `Rating`, with nothing but signs and white space between them.
    #[default]
    Lenient,
    /// As `AudioBench` has it: the last word is a number.
    StrictAudioBench,
}

/// The highest rating of CP-Bench's judge; the lowest is 0.
pub const MOST_RATING: f64 = 5.0;

/// A rating and the rule that gave it, or why there is none.
pub type Rating = Result<(f64, &'static str), &'static str>;

/// CP-Bench: a rating from 0 to 5. A value that is not finite or out of this range is no rating.
pub fn rating(reply: &str, rule: RatingRule) -> Rating {
    let (found, name) = match rule {
        RatingRule::Lenient => (number_behind_rating(reply), "cp-bench:lenient"),
        RatingRule::StrictAudioBench => {
            (super::text::words(reply).last().and_then(python_float), "cp-bench:strict_audiobench")
        }
    };
    match found {
        None => Err("cp-bench:no_rating"),
        Some(value) if !value.is_finite() => Err("cp-bench:not_finite"),
        Some(value) if !(0.0..=MOST_RATING).contains(&value) => Err("cp-bench:out_of_range"),
        Some(value) => Ok((value, name)),
    }
}

/// The last match of `Rating\W*(\d+(?:\.\d+)?)`.
fn number_behind_rating(reply: &str) -> Option<f64> {
    const WORD: &str = "Rating";
    let mut found = None;
    let mut rest = reply;
    while let Some(at) = rest.find(WORD) {
        rest = rest.get(at + WORD.len()..).unwrap_or_default();
        let number = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
        let whole = digits(number);
        if whole == 0 {
            continue;
        }
        let fraction = number.get(whole..).and_then(|tail| tail.strip_prefix('.')).map_or(0, digits);
        let end = if fraction == 0 { whole } else { whole + 1 + fraction };
        found = number.get(..end).and_then(|text| in_ascii(text).parse().ok());
        rest = number.get(end..).unwrap_or_default();
    }
    found
}

/// How many bytes the decimal digits take that a text begins with.
fn digits(text: &str) -> usize {
    text.chars().take_while(|c| decimal(*c).is_some()).map(char::len_utf8).sum()
}

/// The digit 0 of each script that has decimal digits; the other nine follow it. Unicode's category Nd, which is what
/// Python's `\d` and `float` take.
const ZEROS: [u32; 66] = [
    0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0, 0x10D30,
    0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730, 0x118E0,
    0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC,
    0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
];

/// The value of a decimal digit of any script.
fn decimal(c: char) -> Option<u32> {
    let zero = ZEROS.get(ZEROS.partition_point(|zero| *zero <= u32::from(c)).checked_sub(1)?)?;
    Some(u32::from(c) - zero).filter(|value| *value < 10)
}

/// A text with its decimal digits as ASCII has them.
fn in_ascii(text: &str) -> String {
    text.chars().map(|c| decimal(c).and_then(|value| char::from_digit(value, 10)).unwrap_or(c)).collect()
}

/// What Python's `float` makes of a word.
fn python_float(word: &str) -> Option<f64> {
    let word = in_ascii(word);
    let bytes = word.as_bytes();
    let between_digits = |at: usize| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        digit(at.checked_sub(1)) && digit(at.checked_add(1))
    };
    if word.match_indices('_').any(|(at, _)| !between_digits(at)) {
        return None;
    }
    word.replace('_', "").parse().ok()
}

/// What SimpleVQA's judge says of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grade {
    /// 正确
    Correct,
    /// 错误
    Incorrect,
    /// 未尝试
    NotAttempted,
}

impl Grade {
    /// The grade of one of the judge's three words.
    fn of(word: &str) -> Option<Self> {
        match word {
            "正确" => Some(Self::Correct),
            "错误" => Some(Self::Incorrect),
            "未尝试" => Some(Self::NotAttempted),
            _ => None,
        }
    }
}

/// A grade and the rule that gave it, or why there is none.
pub type Graded = Result<(Grade, &'static str), &'static str>;

/// SimpleVQA's judge reply for one answer, as the official scripts read it: code fences removed, a missing last brace
/// added, the first value of the JSON object taken whatever its key. A reply that stops the official scorer is
/// unparsed here. So are some that Python reads beyond what JSON allows: `NaN` and `Infinity`, halves of pairs of UTF-16,
/// objects nested more than 127 deep. No verdict has any of these, and `judge.retries` asks again for a reply that
/// cannot be read.
pub fn grade(reply: &str) -> Graded {
    let mut text = reply.to_owned();
    for fence in ["```json", "```python", "```"] {
        text = text.replace(fence, "");
    }
    let mut text = super::text::strip(&text).to_owned();
    if !text.ends_with('}') {
        text.push('}');
    }
    let Ok(Value::Object(values)) = serde_json::from_str(&text) else { return Err("simplevqa:not_json") };
    let plain = |word: &str| word.replace("**", "");
    match values.values().next() {
        None => Err("simplevqa:no_value"),
        Some(Value::Object(fields)) => match fields.get("conclusion") {
            Some(Value::String(word)) => Grade::of(&plain(word))
                .map(|grade| (grade, "simplevqa:conclusion"))
                .ok_or("simplevqa:unknown_conclusion"),
            _ => Err("simplevqa:no_conclusion"),
        },
        Some(Value::String(word)) => match Grade::of(word) {
            Some(grade) => Ok((grade, "simplevqa:word")),
            None if plain(word).chars().count() > 3 => Ok((Grade::NotAttempted, "simplevqa:long_text")),
            None => {
                Grade::of(&plain(word)).map(|grade| (grade, "simplevqa:word")).ok_or("simplevqa:unknown_word")
            }
        },
        Some(_) => Err("simplevqa:no_conclusion"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Python's `\d` and `float` take the decimal digits of every script.
    #[test]
    fn ratings_in_other_scripts_are_read() {
        let lenient = |reply: &str| rating(reply, RatingRule::Lenient).ok().map(|(value, _)| value);
        let strict = |reply: &str| rating(reply, RatingRule::StrictAudioBench).ok().map(|(value, _)| value);
        for (reply, expect) in [
            ("Rating\u{ff1a}\u{ff14}", Some(4.0)),
            ("Rating: \u{663}.\u{665}", Some(3.5)),
            ("Rating: \u{b2}", None),
        ] {
            assert_eq!(lenient(reply), expect, "{reply}");
        }
        assert_eq!(
            (strict("x \u{ff14}"), strict("x \u{96b}"), strict("x \u{b2}")),
            (Some(4.0), Some(5.0), None)
        );
        assert!(ZEROS.is_sorted());
        assert_eq!((decimal('/'), decimal('0'), decimal('9'), decimal(':')), (None, Some(0), Some(9), None));
    }

    #[test]
    fn ccfqa_verdicts() {
        for (reply, expect) in [
            (" Yes.", YesNo::Yes),
            ("No", YesNo::No),
            ("unknown", YesNo::No),
            ("not sure", YesNo::No),
            ("yes and no", YesNo::Yes),
            ("", YesNo::Other),
            ("<think>no</think>\nyes", YesNo::Yes),
            ("y\nes", YesNo::Yes),
            ("Да", YesNo::Other),
        ] {
            assert_eq!(yes_no(reply), expect, "{reply:?}");
        }
    }

    #[test]
    fn cp_bench_ratings() {
        const NONE: &str = "cp-bench:no_rating";
        const RANGE: &str = "cp-bench:out_of_range";
        let check = |reply: &str, lenient: Result<f64, &str>, strict: Result<f64, &str>| {
            let values = |rule| rating(reply, rule).map(|(value, _)| value);
            assert_eq!(values(RatingRule::Lenient), lenient, "{reply:?}");
            assert_eq!(values(RatingRule::StrictAudioBench), strict, "{reply:?}");
        };
        check("Explanation: fine\nRating: 4", Ok(4.0), Ok(4.0));
        check("Explanation: ok\nRating: (3)", Ok(3.0), Err(NONE));
        check("Rating: 3\n\nThe answer names the wrong city.", Ok(3.0), Err(NONE));
        check("Rating: 2.5", Ok(2.5), Ok(2.5));
        check("4", Err(NONE), Ok(4.0));
        check("Rating: 10", Err(RANGE), Err(RANGE));
        check("Rating: nan", Err(NONE), Err("cp-bench:not_finite"));
        check("Rating: inf", Err(NONE), Err("cp-bench:not_finite"));
        check("", Err(NONE), Err(NONE));
        check("Rating: 5 was too much. **Rating**: **2**", Ok(2.0), Err(NONE));
        check("RatingRating: 1. 5", Ok(1.0), Ok(5.0));
        check("Rating scale: 4", Err(NONE), Ok(4.0));
        check("Rating: 3.", Ok(3.0), Ok(3.0));
        check("Rating: -1", Ok(1.0), Err(RANGE));
        check("Rating: 1_0", Ok(1.0), Err(RANGE));
        check("Rating: _3", Err(NONE), Err(NONE));
    }

    #[test]
    fn simplevqa_grades() {
        use Grade::{Correct, Incorrect, NotAttempted};
        for (reply, expect) in [
            (r#"{"预测答案0": {"conclusion": "正确"}}"#, Ok(Correct)),
            ("```json\n{\"x\": {\"conclusion\": \"**错误**\"}}\n```", Ok(Incorrect)),
            (r#"{"a": "未尝试""#, Ok(NotAttempted)),
            (r#"{"a": {"conclusion": "未尝试"}"#, Err("simplevqa:not_json")),
            (r#"{"a": "正确"}"#, Ok(Correct)),
            (r#"{"a": "**正确**"}"#, Ok(Correct)),
            (r#"{"a": "【正确】"}"#, Ok(NotAttempted)),
            (r#"{"a": "CORRECT"}"#, Ok(NotAttempted)),
            (r#"{"a": "正确。"}"#, Err("simplevqa:unknown_word")),
            (r#"{"a": {"conclusion": " 正确"}}"#, Err("simplevqa:unknown_conclusion")),
            (r#"{"a": {"conclusion": "这个回答是正确的"}}"#, Err("simplevqa:unknown_conclusion")),
            (r#"{"a": null}"#, Err("simplevqa:no_conclusion")),
            (r#"{"a": {"conclusion": "正确"}} done"#, Err("simplevqa:not_json")),
            ("{}", Err("simplevqa:no_value")),
            ("", Err("simplevqa:not_json")),
            ("[\"正确\"]", Err("simplevqa:not_json")),
        ] {
            assert_eq!(grade(reply).map(|(grade, _)| grade), expect, "{reply:?}");
        }
    }

    const PIECES: [&str; 12] = ["Rating", ":", " ", "(", "3", ".", "_", "\n", "{", "}", "\"正确\"", "（４）"];

    proptest! {
        #[test]
        fn any_reply_is_read(
            pieces in proptest::collection::vec(prop::sample::select(&PIECES[..]), 0..12),
            tail: String,
        ) {
            let reply = pieces.concat() + &tail;
            let _ = (yes_no(&reply), grade(&reply));
            for rule in [RatingRule::Lenient, RatingRule::StrictAudioBench] {
                if let Ok((value, _)) = rating(&reply, rule) {
                    prop_assert!((0.0..=5.0).contains(&value));
                }
            }
        }

        #[test]
        fn a_rating_at_the_end_is_found(before in "[a-z \\n]{0,30}", value in 0_u32..=5) {
            let reply = format!("{before}\nRating: {value}");
            prop_assert_eq!(rating(&reply, RatingRule::Lenient).map(|(v, _)| v), Ok(f64::from(value)));
            prop_assert_eq!(rating(&reply, RatingRule::StrictAudioBench).map(|(v, _)| v), Ok(f64::from(value)));
        }
    }
}
