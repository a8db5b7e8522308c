//! Python string literals: just enough of the language to cut a prompt out of a script as the script itself has it.

use thiserror::Error;

/// A piece of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text, escapes resolved.
    Text(String),
    /// The expression of a field of an f-string, without its braces.
    Field(String),
}

/// Why there is no string.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LiteralError {
    /// Something else stands there.
    #[error("no string literal begins there")]
    NoString,
    /// The file or line ends before the string does.
    #[error("the string literal does not end")]
    Unclosed,
    /// A literal of bytes, or another kind that is not read.
    #[error("a string literal with the prefix `{0}` is not read")]
    Prefix(String),
    /// An escape that has no character.
    #[error("the escape `\\{0}` is not read")]
    Escape(String),
    /// A field that formats its value.
    #[error("the field `{{{0}}}` of an f-string is not read: it converts or formats its value")]
    Field(String),
}

/// The string that begins at the start of `source`, blanks and opening brackets left out: one literal, or several
/// that stand next to each other.
pub(super) fn literal(source: &str) -> Result<Vec<Piece>, LiteralError> {
    let mut reader = Reader { rest: source };
    let mut bracketed = false;
    loop {
        reader.skip_blanks(bracketed);
        if !reader.take("(") {
            break;
        }
        bracketed = true;
    }
    let mut pieces = Vec::new();
    let mut found = false;
    while let Some(kind) = reader.opening()? {
        found = true;
        reader.body(&kind, &mut pieces)?;
        reader.skip_blanks(bracketed);
    }
    if found { Ok(pieces) } else { Err(LiteralError::NoString) }
}

/// What the beginning of a literal says.
struct Kind {
    delimiter: &'static str,
    raw: bool,
    fields: bool,
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest.strip_prefix(prefix);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Blanks and joined lines; within brackets also line ends and comments.
    fn skip_blanks(&mut self, bracketed: bool) {
        loop {
            let before = self.rest;
            self.rest = self.rest.trim_start_matches([' ', '\t', '\x0c']);
            self.take("\\\n");
            if bracketed {
                self.take("\n");
                if self.rest.starts_with('#') {
                    self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
                }
            }
            if self.rest == before {
                return;
            }
        }
    }

    /// The prefix and the opening quotes of a literal, if one begins here.
    fn opening(&mut self) -> Result<Option<Kind>, LiteralError> {
        let letters = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (prefix, quotes) = self.rest.split_at(letters);
        let Some(delimiter) = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|d| quotes.starts_with(d)) else {
            return Ok(None);
        };
        let (raw, fields) = match prefix.to_ascii_lowercase().as_str() {
            "" | "u" => (false, false),
            "r" => (true, false),
            "f" => (false, true),
            "rf" | "fr" => (true, true),
            _ => return Err(LiteralError::Prefix(prefix.to_owned())),
        };
        self.rest = &quotes[delimiter.len()..];
        Ok(Some(Kind { delimiter, raw, fields }))
    }

    /// The text of a literal up to its closing quotes.
    fn body(&mut self, kind: &Kind, pieces: &mut Vec<Piece>) -> Result<(), LiteralError> {
        let mut text = match pieces.pop() {
            Some(Piece::Text(text)) => text,
            other => {
                pieces.extend(other);
                String::new()
            }
        };
        loop {
            if self.take(kind.delimiter) {
                pieces.push(Piece::Text(text));
                return Ok(());
            }
            match self.next().ok_or(LiteralError::Unclosed)? {
                '\n' if kind.delimiter.len() == 1 => return Err(LiteralError::Unclosed),
                '\\' if kind.raw => {
                    text.push('\\');
                    text.push(self.next().ok_or(LiteralError::Unclosed)?);
                }
                '\\' => self.escape(&mut text)?,
                '{' if kind.fields && !self.take("{") => {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Field(self.field()?));
                }
                '}' if kind.fields && !self.take("}") => return Err(LiteralError::Field("}".to_owned())),
                other => text.push(other),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, text: &mut String) -> Result<(), LiteralError> {
        let next = self.next().ok_or(LiteralError::Unclosed)?;
        let simple = match next {
            '\n' => return Ok(()),
            '\\' | '\'' | '"' => next,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.code(2, 16, "x")?,
            'u' => self.code(4, 16, "u")?,
            'U' => self.code(8, 16, "U")?,
            'N' => return Err(LiteralError::Escape("N".to_owned())),
            '0'..='7' => {
                let more = self.rest.chars().take(2).take_while(|c| c.is_digit(8)).count();
                let digits = format!("{next}{}", &self.rest[..more]);
                self.rest = &self.rest[more..];
                let code = u32::from_str_radix(&digits, 8).ok().and_then(char::from_u32);
                code.ok_or(LiteralError::Escape(digits))?
            }
            // Python keeps the backslash of an escape that it does not know.
            other => {
                text.push('\\');
                other
            }
        };
        text.push(simple);
        Ok(())
    }

    /// A character by its number, in exactly so many digits.
    fn code(&mut self, digits: usize, radix: u32, letter: &str) -> Result<char, LiteralError> {
        let wrong = || LiteralError::Escape(letter.to_owned());
        let number =
            self.rest.get(..digits).filter(|n| n.chars().all(|c| c.is_digit(radix))).ok_or_else(wrong)?;
        let code = u32::from_str_radix(number, radix).ok().and_then(char::from_u32).ok_or_else(wrong)?;
        self.rest = &self.rest[digits..];
        Ok(code)
    }

    /// The expression of a field, up to and without its closing brace.
    fn field(&mut self) -> Result<String, LiteralError> {
        let (mut expression, mut depth, mut quote) = (String::new(), 0_usize, None);
        loop {
            let next = self.next().ok_or(LiteralError::Unclosed)?;
            if let Some(open) = quote {
                quote = (next != open).then_some(open);
                expression.push(next);
                continue;
            }
            match next {
                '\'' | '"' => quote = Some(next),
                '(' | '[' | '{' => depth += 1,
                '}' if depth == 0 => return Ok(expression.trim().to_owned()),
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                ':' | '!' if depth == 0 && !self.rest.starts_with('=') => {
                    return Err(LiteralError::Field(expression));
                }
                _ => {}
            }
            expression.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(source: &str) -> String {
        let pieces = literal(source).unwrap();
        let show = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Field(expression) => format!("<{expression}>"),
        };
        pieces.iter().map(show).collect()
    }

    #[test]
    fn plain_strings() {
        for (source, expect) in [
            ("'a'", "a"),
            ("  \"it's\" + x", "it's"),
            ("'''two\nlines''' .strip()", "two\nlines"),
            ("\"\"\"a \"quoted\" word\"\"\"", "a \"quoted\" word"),
            ("''", ""),
            ("\"\"\"\\\n    indented\"\"\"", "    indented"),
            ("u'x'", "x"),
            ("'{not} {{a field}}'", "{not} {{a field}}"),
        ] {
            assert_eq!(text(source), expect, "{source}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(text(r#"'\n\t\\\'\"\x41\u00e9\U0001F600\101\0'"#), "\n\t\\'\"Aé😀A\0");
        assert_eq!(text(r"'\d\ä'"), r"\d\ä", "unknown escapes keep their backslash");
        assert_eq!(text(r"r'\n\''"), r"\n\'");
        for (source, escape) in
            [(r"'\N{DASH}'", "N"), (r"'\x4'", "x"), (r"'\ud83d'", "u"), (r"'\U99999999'", "U")]
        {
            assert_eq!(literal(source), Err(LiteralError::Escape(escape.to_owned())));
        }
    }

    #[test]
    fn neighbours_are_one_string() {
        assert_eq!(text("'a' \"b\" + 'c'"), "ab");
        assert_eq!(text("(\n  'a'  # a comment with a ' in it\n  f'{b}'\n  'c'\n) 'd'"), "a<b>c");
        assert_eq!(text("'a' \\\n 'b'"), "ab");
        assert_eq!(text("'a'\n'b'"), "a", "without brackets the line end ends the string");
    }

    #[test]
    fn fields_of_f_strings() {
        assert_eq!(
            text("f'{{x}} { names[src] }{f(a, {1: 2})}{d[\"}\"]}'"),
            "{x} <names[src]><f(a, {1: 2})><d[\"}\"]>"
        );
        assert_eq!(text("rf'\\d{x}'"), "\\d<x>");
        assert_eq!(text("f'{a != b}'"), "<a != b>");
        for source in ["f'{x!r}'", "f'{x:>3}'", "f'}'"] {
            assert!(matches!(literal(source), Err(LiteralError::Field(_))), "{source}");
        }
    }

    #[test]
    fn what_is_no_string_is_said() {
        for (source, expect) in [
            ("x", LiteralError::NoString),
            ("", LiteralError::NoString),
            ("(", LiteralError::NoString),
            ("'a", LiteralError::Unclosed),
            ("'a\n'", LiteralError::Unclosed),
            ("'a\\", LiteralError::Unclosed),
            ("f'{a", LiteralError::Unclosed),
            ("b'a'", LiteralError::Prefix("b".to_owned())),
        ] {
            assert_eq!(literal(source), Err(expect), "{source}");
        }
    }

    proptest! {
        #[test]
        fn any_source_gives_a_string_or_an_error(source in "\\PC{0,40}", quoted in "[fr]?'[\\\\{}a'\"xuN0-9é\n]{0,20}'?") {
            let _ = literal(&source);
            let _ = literal(&quoted);
        }

        #[test]
        fn what_is_quoted_comes_back(value in "[^\\\\'\r]{0,40}") {
            prop_assert_eq!(literal(&format!("'''{value}'''")).unwrap(), vec![Piece::Text(value)]);
        }
    }
}
