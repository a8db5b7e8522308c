//! Pages as they are published: a JSON object a line with `id` (the title), `text` and `lines`, whose sentences are
//! numbered.

use std::borrow::Cow;
use std::io::{self, BufRead};

use serde::Deserialize;

/// A page of a dump.
#[derive(Debug, Deserialize)]
pub struct DumpPage<'a> {
    /// The title, with `_` for blanks.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The sentences: number, tab, sentence, and what may follow a further tab; a line each.
    #[serde(borrow)]
    pub lines: Cow<'a, str>,
}

impl<'a> DumpPage<'a> {
    /// Reads a line of a dump.
    pub fn read(line: &'a str) -> Result<Self, String> {
        // A list of the values alone would be read as well.
        if !line.trim_start().starts_with('{') {
            return Err("not a page (expected an object with `id` and `lines`)".to_owned());
        }
        serde_json::from_str(line).map_err(|e| format!("not a page (expected `id` and `lines`): {e}"))
    }

    /// The sentences with their numbers.
    pub fn sentences(&self) -> Vec<(u32, &str)> {
        sentences(&self.lines)
    }
}

/// The sentences of a page's `lines`, as the authors' code reads them: split before each line that begins with an ASCII
/// digit (so that a sentence with a line end goes on, unless a digit follows); of each piece what stands between the
/// first two tabs. Reading stops at a piece without a tab. Of two sentences with one number the last counts. A number
/// that is not one is passed over: nothing can name it.
pub fn sentences(lines: &str) -> Vec<(u32, &str)> {
    let mut found: Vec<(u32, &str)> = Vec::new();
    let mut greatest = None;
    for piece in Pieces(Some(lines)) {
        let mut fields = piece.split('\t');
        let (Some(number), Some(sentence)) = (fields.next(), fields.next()) else { break };
        // Written in one way only, as the number of a sentence is compared.
        let plain = number == "0" || !number.starts_with(['0', '+']);
        let Some(number) = number.parse().ok().filter(|_| plain) else { continue };
        // Numbers rise, but for damage.
        if greatest.is_none_or(|greatest| greatest < number) {
            greatest = Some(number);
            found.push((number, sentence));
        } else {
            match found.iter_mut().find(|(other, _)| *other == number) {
                Some(earlier) => earlier.1 = sentence,
                None => found.push((number, sentence)),
            }
        }
    }
    found
}

/// The pieces of a text, cut at line ends that an ASCII digit follows.
struct Pieces<'a>(Option<&'a str>);

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.take()?;
        let bytes = rest.as_bytes();
        let cut =
            memchr::memchr_iter(b'\n', bytes).find(|at| bytes.get(at + 1).is_some_and(u8::is_ascii_digit));
        match cut.and_then(|at| Some((rest.get(..at)?, rest.get(at + 1..)?))) {
            Some((piece, rest)) => {
                self.0 = Some(rest);
                Some(piece)
            }
            None => Some(rest),
        }
    }
}

/// Calls `on` with each line that is not blank, and its number from 1; `false` stops. A line that is not UTF-8 is an
/// error of its own.
pub fn each_line(
    mut reader: impl BufRead,
    mut on: impl FnMut(u64, Result<&str, String>) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        match std::str::from_utf8(&line) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => on(number, Ok(text.trim_end_matches(['\n', '\r'])))?,
            Err(_) => on(number, Err("not UTF-8".to_owned()))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sentences_are_cut_as_the_authors_cut_them() {
        for (lines, expect) in [
            ("0\t甲湖面積大。\t甲湖\n1\t湖水深。", &[(0, "甲湖面積大。"), (1, "湖水深。")][..]),
            ("0\t一\n二\t三\n1\t四", &[(0, "一\n二"), (1, "四")]),
            // A sentence that holds a line end and a digit is cut there, and the rest ends the page.
            ("0\t建於\n1900年。\n2\t二", &[(0, "建於")]),
            ("0\t\n1\t有", &[(0, ""), (1, "有")]),
            ("0\ta\n0\tb\n10\tc\n9\td\n10\te", &[(0, "b"), (10, "e"), (9, "d")]),
            ("0a\tx\n1\ty\n01\tz", &[(1, "y")]),
            ("0\ta\r\n\n1\tb\n\n", &[(0, "a\r\n"), (1, "b\n\n")]),
            ("0\ta\n１\tb", &[(0, "a\n１")]),
            ("", &[]),
            ("no tab", &[]),
            ("99999999999\tx", &[]),
        ] {
            assert_eq!(sentences(lines), expect, "{lines:?}");
        }
    }

    #[test]
    fn pages_and_lines_are_read() {
        let page = DumpPage::read(r#"{"id": "甲_(湖)", "text": "x", "lines": "0\t\"一\"\n1\t二"}"#).unwrap();
        assert_eq!((&*page.id, page.sentences()), ("甲_(湖)", vec![(0, "\"一\""), (1, "二")]));
        assert!(DumpPage::read("{\"id\": 1}").unwrap_err().contains("expected `id` and `lines`"));
        assert!(DumpPage::read(r#"["甲", "0\t一"]"#).unwrap_err().contains("expected an object"));
        let mut seen = Vec::new();
        let text = b"a\r\n\n \n\xff\nb";
        each_line(&text[..], |number, line| {
            seen.push((number, line.map(str::to_owned)));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(1, Ok("a".into())), (4, Err("not UTF-8".into())), (5, Ok("b".into()))]);
    }

    proptest! {
        #[test]
        fn numbered_sentences_come_back(texts in prop::collection::vec("[^\\n\\t]{0,12}", 0..9)) {
            let lines: Vec<String> = texts.iter().enumerate().map(|(n, text)| format!("{n}\t{text}\tlink")).collect();
            let joined = lines.join("\n");
            let found: Vec<String> = sentences(&joined).into_iter().map(|(_, text)| text.to_owned()).collect();
            prop_assert_eq!(found, texts);
        }

        #[test]
        fn any_text_is_read(lines: String) {
            let found = sentences(&lines);
            let mut numbers: Vec<u32> = found.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), found.len());
        }
    }
}
