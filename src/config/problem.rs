//! What is wrong with a configuration, and where: the offending line is quoted with a caret under it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::types::bounded;

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What went wrong and what to do.
        reason: String,
    },
    /// The text is not a usable configuration.
    #[error("{}", Listed(problems))]
    Invalid {
        /// Everything that was found wrong, in the order of the file. Never empty.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// What was found wrong in the text; empty when it could not be read.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid { problems } => problems,
        }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self::Invalid { problems: vec![problem] }
    }
}

/// Problems one below the other, with a blank line between.
struct Listed<'a>(&'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// One thing that is wrong, where it is, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// What is wrong: one sentence, without a full stop.
    pub message: String,
    /// What to do about it, where the message doesn't say so.
    pub help: Option<String>,
    /// Where it is.
    pub place: Place,
}

impl Problem {
    pub(super) fn new(place: Place, message: impl Into<String>) -> Self {
        Self { message: bounded(message.into()), help: None, place }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        let number = self.place.spot.as_ref().map(|spot| spot.line.to_string()).unwrap_or_default();
        let gutter = number.len();
        if let Some(spot) = &self.place.spot {
            write!(f, "\n{:gutter$} |\n{number} | {}\n", "", spot.quote)?;
            write!(
                f,
                "{:gutter$} | {:indent$}{:^<width$}",
                "",
                "",
                "",
                indent = spot.indent,
                width = spot.width
            )?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n{:gutter$} = {help}", "")?;
        }
        Ok(())
    }
}

/// A place in a configuration file or in a `--set` on the command line. Shows as `file:line:column`.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The file as it was named, or `--set`.
    pub source: String,
    /// The spot in it; absent where the file as a whole is meant.
    pub spot: Option<Box<Spot>>,
}

/// A spot in a text, with the line that it is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The line as it is shown: cut where it is long, control characters replaced.
    quote: String,
    /// Terminal cells before the caret.
    indent: usize,
    /// Carets.
    width: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        match &self.spot {
            Some(spot) if self.source == COMMAND_LINE => write!(f, ": column {}", spot.column),
            Some(spot) => write!(f, ":{}:{}", spot.line, spot.column),
            None => Ok(()),
        }
    }
}

/// The source name of overrides.
pub(super) const COMMAND_LINE: &str = "--set";

/// A text that problems point into.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

/// Characters of a long line that are shown, and how many of them stand before the caret.
const SHOWN: usize = 100;
const SHOWN_BEFORE: usize = 60;

impl Source {
    /// The text as a whole.
    pub(super) fn whole(&self) -> Place {
        Place { source: self.name.clone(), spot: None }
    }

    /// The place of a range of bytes. A range that is outside the text or splits a character is moved to the
    /// nearest one that isn't.
    pub(super) fn place(&self, range: &Range<usize>) -> Place {
        let text = self.text.as_str();
        let start = text.floor_char_boundary(range.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[line_start..].find('\n').map_or(text.len(), |at| line_start + at);
        let line = super::secret::mask(text[line_start..line_end].trim_end_matches('\r'));
        // Past the end of the line means on its line break.
        let before = text[line_start..start].chars().count().min(line.chars().count());
        let end = text.floor_char_boundary(range.end).clamp(start, line_end);
        let marked = text[start..end].trim_end().chars().count();

        let skipped = if line.chars().count() > SHOWN { before.saturating_sub(SHOWN_BEFORE) } else { 0 };
        let mut quote: String = line.chars().skip(skipped).take(SHOWN).map(visible).collect();
        if line.chars().count() > skipped + SHOWN {
            quote.push('…');
        }
        let cells =
            |from: usize, count: usize| quote.chars().skip(from).take(count).map(cells).sum::<usize>();
        let mut indent = cells(0, before - skipped);
        let width = cells(before - skipped, marked).max(1);
        if skipped > 0 {
            quote.insert(0, '…');
            indent += 1;
        }
        let line = text[..line_start].matches('\n').count() + 1;
        let spot = Spot { line, column: before + 1, quote, indent, width };
        Place { source: self.name.clone(), spot: Some(Box::new(spot)) }
    }
}

/// A character as it may be sent to a terminal: one that takes exactly its cells.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{FFFD}',
        c => c,
    }
}

/// The terminal cells of a character: CJK and emoji take two. Rough, and only for carets.
fn cells(c: char) -> usize {
    let wide = matches!(u32::from(c),
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD);
    if wide { 2 } else { 1 }
}

/// The known word that is closest to a mistyped one, if one is close enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let word = plain(word);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Known names in the order in which they are like a mistyped one: the most alike first.
pub fn by_likeness<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&word, &name.to_lowercase());
    let mut found: Vec<_> = known.into_iter().map(|name| (likeness(name), name)).collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_likeness() {
        let names = ["GPT-4o", "Qwen2.5-Omni-3B", "Qwen2-Audio", "Qwen2.5-Omni-7B"];
        assert_eq!(by_likeness("qwen2-audoi", names)[0], "Qwen2-Audio");
        assert_eq!(by_likeness("Qwen2.5-Omni-7B-Instruct", names)[0], "Qwen2.5-Omni-7B");
        assert_eq!(by_likeness("", names).len(), 4);
    }

    fn show(text: &str, range: Range<usize>) -> String {
        let source = Source { name: "x.toml".to_owned(), text: text.to_owned() };
        Problem::new(source.place(&range), "wrong").help("do better").to_string()
    }

    #[test]
    fn a_problem_quotes_its_line() {
        let text = "a = 1\nbb = \"x\"\r\nc = 2";
        assert_eq!(show(text, 11..14), "x.toml:2:6: wrong\n  |\n2 | bb = \"x\"\n  |      ^^^\n  = do better");
    }

    #[test]
    fn tabs_and_wide_characters_keep_the_caret_in_place() {
        let text = "\t\"東京\" = 1";
        let at = text.find('1').unwrap();
        assert_eq!(
            show(text, at..at + 1),
            "x.toml:1:9: wrong\n  |\n1 |  \"東京\" = 1\n  |           ^\n  = do better"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_caret() {
        let text = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let shown = show(&text, 500..501);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "x.toml:1:501: wrong");
        assert_eq!(lines[2], format!("1 | …{}!{}…", "a".repeat(60), "b".repeat(39)));
        assert_eq!(lines[3], format!("  | {}^", " ".repeat(61)));
    }

    #[test]
    fn any_range_has_a_place() {
        for text in ["", "\n", "é\r\n", "a\nb"] {
            for start in 0..6 {
                for end in 0..6 {
                    let _ = show(text, start..end);
                }
            }
        }
        assert!(show("a\n", 2..2).starts_with("x.toml:2:1: "));
    }

    #[test]
    fn the_nearest_word_is_close() {
        let known = ["temperature", "top_p", "top_k"];
        assert_eq!(nearest("temprature", known), Some("temperature"));
        assert_eq!(nearest("Top-K", known), Some("top_k"));
        assert_eq!(nearest("frobnicate", known), None);
        assert_eq!(nearest("", known), None);
    }
}
