//! Cutting a string out of an upstream file, and the steps that make one string of another.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use super::python::{LiteralError, Piece, literal};

/// Where a string stands in its file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Cut {
    /// A string literal of Python.
    Python {
        /// The line from which on `after` is looked for, counted from 1.
        line: Option<usize>,
        /// What stands before the literal; nothing means that it begins the line.
        #[serde(default)]
        after: String,
        /// The places that expressions in fields of f-strings become. A plain name stands for itself.
        #[serde(default)]
        expressions: BTreeMap<String, String>,
    },
    /// Lines of the file, without the line end of the last.
    Lines {
        /// The first line, counted from 1.
        from: usize,
        /// The last line.
        to: usize,
        /// What the string begins after, within these lines.
        after: Option<String>,
        /// What the string ends before.
        before: Option<String>,
    },
    /// A string of a JSON file, by its JSON pointer.
    Json(String),
}

/// A step from a string to another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// What stands after the first and before the next second text.
    Between(String, String),
    /// Every first text becomes the second.
    Replace(String, String),
    /// A text goes before.
    Prepend(String),
    /// Blanks and line ends at both ends go.
    Strip,
    /// Blanks at the beginning of every line go.
    Dedent,
}

/// How the upstream program fills a string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    /// By its `{name}` places, every other brace as it is.
    #[default]
    Places,
    /// By Python's `str.format`: `{{` and `}}` stand for braces. These names are for places that have none.
    Format(Vec<String>),
    /// By replacing texts: which, and the place that each is.
    Marks(BTreeMap<String, String>),
}

/// Why a string cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CutError {
    /// The file is shorter.
    #[error("it has no line {0}")]
    NoLine(usize),
    /// An anchor is not there.
    #[error("`{}` is not there{}", .anchor.escape_debug(), .line.map(|n| format!(" from line {n} on")).unwrap_or_default())]
    NoAnchor {
        /// The anchor.
        anchor: String,
        /// From which line on it was looked for.
        line: Option<usize>,
    },
    /// No literal after the anchor.
    #[error("after `{}`: {source}", .anchor.escape_debug())]
    Literal {
        /// The anchor.
        anchor: String,
        /// What is wrong.
        source: LiteralError,
    },
    /// A field that is no place.
    #[error("the field `{{{0}}}` has no place: name one under `expressions`")]
    Expression(String),
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// No string at the pointer.
    #[error("no string stands at `{0}`")]
    NoString(String),
    /// A text that `str.format` would refuse.
    #[error("Python's str.format would not fill it: {0}")]
    Format(String),
}

impl Cut {
    /// The string. Line ends are `\n`, as Python reads its files.
    pub(super) fn apply(&self, file: &str) -> Result<String, CutError> {
        let file = file.strip_prefix('\u{feff}').unwrap_or(file).replace("\r\n", "\n").replace('\r', "\n");
        match self {
            Self::Python { line, after, expressions } => {
                let anchor = || after.clone();
                let from = &file[line_start(&file, line.unwrap_or(1))?..];
                let at = from.find(after.as_str());
                let at = at.ok_or_else(|| CutError::NoAnchor { anchor: anchor(), line: *line })?;
                let pieces = literal(&from[at + after.len()..])
                    .map_err(|source| CutError::Literal { anchor: anchor(), source })?;
                join(pieces, expressions)
            }
            Self::Lines { from, to, after, before } => {
                let start = line_start(&file, *from)?;
                line_start(&file, *to)?;
                let lines: Vec<&str> =
                    file[start..].split('\n').take((to + 1).saturating_sub(*from)).collect();
                let text = lines.join("\n");
                let text = match after {
                    Some(after) => behind(&text, after)?,
                    None => &text,
                };
                match before {
                    Some(before) => Ok(ahead(text, before)?.to_owned()),
                    None => Ok(text.to_owned()),
                }
            }
            Self::Json(pointer) => {
                let value: serde_json::Value =
                    serde_json::from_str(&file).map_err(|e| CutError::Json(e.to_string()))?;
                let found = value.pointer(pointer).and_then(|value| value.as_str());
                found.map(str::to_owned).ok_or_else(|| CutError::NoString(pointer.clone()))
            }
        }
    }
}

/// Where a line begins, in bytes.
fn line_start(text: &str, line: usize) -> Result<usize, CutError> {
    match line {
        0 => Err(CutError::NoLine(0)),
        1 => Ok(0),
        n => text.match_indices('\n').nth(n - 2).map(|(at, _)| at + 1).ok_or(CutError::NoLine(n)),
    }
}

fn no_anchor(anchor: &str) -> CutError {
    CutError::NoAnchor { anchor: anchor.to_owned(), line: None }
}

fn behind<'a>(text: &'a str, anchor: &str) -> Result<&'a str, CutError> {
    text.split_once(anchor).map(|(_, after)| after).ok_or_else(|| no_anchor(anchor))
}

fn ahead<'a>(text: &'a str, anchor: &str) -> Result<&'a str, CutError> {
    text.split_once(anchor).map(|(before, _)| before).ok_or_else(|| no_anchor(anchor))
}

/// A literal as a template: every field is a place.
fn join(pieces: Vec<Piece>, expressions: &BTreeMap<String, String>) -> Result<String, CutError> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(&piece),
            Piece::Field(expression) => {
                let plain = expression.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                let place = match expressions.get(&expression) {
                    Some(place) => place,
                    None if plain => &expression,
                    None => return Err(CutError::Expression(expression)),
                };
                text.push('{');
                text.push_str(place);
                text.push('}');
            }
        }
    }
    Ok(text)
}

impl Step {
    /// The string after the step.
    pub(super) fn apply(&self, text: &str) -> Result<String, CutError> {
        Ok(match self {
            Self::Between(after, before) => ahead(behind(text, after)?, before)?.to_owned(),
            Self::Replace(from, to) => {
                if !text.contains(from.as_str()) {
                    return Err(no_anchor(from));
                }
                text.replace(from.as_str(), to)
            }
            Self::Prepend(before) => format!("{before}{text}"),
            Self::Strip => text.trim().to_owned(),
            Self::Dedent => {
                text.split('\n').map(|line| line.trim_start_matches(' ')).collect::<Vec<_>>().join("\n")
            }
        })
    }
}

impl Fill {
    /// The string as a template of this program.
    pub(super) fn to_template(&self, text: &str) -> Result<String, CutError> {
        match self {
            Self::Places => Ok(text.to_owned()),
            Self::Marks(marks) => marks.iter().try_fold(text.to_owned(), |text, (mark, place)| {
                Step::Replace(mark.clone(), format!("{{{place}}}")).apply(&text)
            }),
            Self::Format(names) => format_to_template(text, names),
        }
    }
}

fn format_to_template(text: &str, names: &[String]) -> Result<String, CutError> {
    let mut names = names.iter();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
            out.push_str(&rest[..1]);
            rest = after;
            continue;
        }
        let Some((field, after)) = rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) else {
            return Err(CutError::Format("a single brace".to_owned()));
        };
        let name = match field {
            "" => names.next().ok_or_else(|| CutError::Format("a place without a name".to_owned()))?.as_str(),
            name => name,
        };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(CutError::Format(format!("the field `{{{name}}}`")));
        }
        out.push('{');
        out.push_str(name);
        out.push('}');
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str) -> Cut {
        #[derive(Deserialize)]
        struct Holder {
            cut: Cut,
        }
        toml::from_str::<Holder>(text).unwrap().cut
    }

    #[test]
    fn literals_are_found_by_line_and_anchor() {
        let file = "\u{feff}# ask = 'old'\r\nask = f'''Dear {NAMES[a]},\r\n{b}?'''\r\n";
        let first = cut("cut.python = { after = 'ask = ' }");
        assert_eq!(first.apply(file).unwrap(), "old");
        let second = cut("cut.python = { line = 2, after = 'ask = ', expressions = { 'NAMES[a]' = 'who' } }");
        assert_eq!(second.apply(file).unwrap(), "Dear {who},\n{b}?");
        let unnamed = cut("cut.python = { line = 2, after = 'ask = ' }").apply(file).unwrap_err();
        assert_eq!(unnamed.to_string(), "the field `{NAMES[a]}` has no place: name one under `expressions`");
        let none = cut("cut.python = { line = 3, after = 'ask = ' }").apply(file).unwrap_err();
        assert_eq!(none.to_string(), "`ask = ` is not there from line 3 on");
        let far = cut("cut.python = { line = 9 }").apply(file).unwrap_err();
        assert_eq!(far.to_string(), "it has no line 9");
        let no_literal = cut("cut.python = { after = 'ask' }").apply(file).unwrap_err();
        assert_eq!(no_literal.to_string(), "after `ask`: no string literal begins there");
    }

    #[test]
    fn lines_are_cut_between_anchors() {
        let file = "one\ntwo `three` four\nfive";
        assert_eq!(cut("cut.lines = { from = 2, to = 3 }").apply(file).unwrap(), "two `three` four\nfive");
        assert_eq!(
            cut("cut.lines = { from = 2, to = 2, after = '`', before = '`' }").apply(file).unwrap(),
            "three"
        );
        assert_eq!(cut("cut.lines = { from = 2, to = 4 }").apply(file), Err(CutError::NoLine(4)));
        assert_eq!(cut("cut.lines = { from = 0, to = 1 }").apply(file), Err(CutError::NoLine(0)));
        assert!(cut("cut.lines = { from = 1, to = 1, after = '`' }").apply(file).is_err());
        assert_eq!(cut("cut.lines = { from = 3, to = 1 }").apply(file).unwrap(), "");
    }

    #[test]
    fn strings_of_json_are_cut_by_pointer() {
        let file = r#"{"a": [{"b": "x\ny"}, 3]}"#;
        assert_eq!(cut("cut.json = '/a/0/b'").apply(file).unwrap(), "x\ny");
        assert_eq!(
            cut("cut.json = '/a/1'").apply(file).unwrap_err().to_string(),
            "no string stands at `/a/1`"
        );
        assert!(cut("cut.json = '/a'").apply("{").unwrap_err().to_string().starts_with("it is not JSON"));
    }

    #[test]
    fn steps_make_one_string_of_another() {
        let between = Step::Between("<s>".to_owned(), "</s>".to_owned());
        assert_eq!(between.apply("a<s>b</s>c</s>").unwrap(), "b");
        assert!(between.apply("a<s>b").is_err());
        assert_eq!(Step::Replace("a ".to_owned(), String::new()).apply("a a b").unwrap(), "b");
        assert!(Step::Replace("x".to_owned(), String::new()).apply("b").is_err(), "a step that does nothing");
        assert_eq!(Step::Prepend("{q}\n".to_owned()).apply("b").unwrap(), "{q}\nb");
        assert_eq!(Step::Strip.apply("\n b\n").unwrap(), "b");
        assert_eq!(Step::Dedent.apply("  a\n\n    b c").unwrap(), "a\n\nb c");
    }

    #[test]
    fn other_ways_of_filling_become_places() {
        let format = |text: &str, names: &[&str]| {
            Fill::Format(names.iter().map(|&n| n.to_owned()).collect()).to_template(text)
        };
        assert_eq!(format("{{\"a\": {q}}} {}", &["n"]).unwrap(), "{\"a\": {q}} {n}");
        assert!(format("{}", &[]).is_err());
        assert!(format("a } b", &[]).is_err());
        assert!(format("{a", &[]).is_err());
        assert!(format("{a!r}", &[]).is_err());
        let marks = Fill::Marks([("[<q>]".to_owned(), "q".to_owned())].into());
        assert_eq!(marks.to_template("[<q>]? {{}}").unwrap(), "{q}? {{}}");
        assert!(marks.to_template("nothing").is_err());
        assert_eq!(Fill::Places.to_template("{a} {{").unwrap(), "{a} {{");
    }

    proptest! {
        #[test]
        fn any_file_gives_a_string_or_an_error(file: String, after in "\\PC{0,2}", line in 0_usize..4, to in 0_usize..4) {
            let _ = Cut::Python { line: Some(line), after: after.clone(), expressions: BTreeMap::new() }.apply(&file);
            let _ = Cut::Lines { from: line, to, after: Some(after), before: None }.apply(&file);
            let _ = Fill::Format(vec!["n".to_owned()]).to_template(&file);
        }
    }
}
