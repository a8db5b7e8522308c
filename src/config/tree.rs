//! A configuration as a tree whose every key and value knows where it was written.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{COMMAND_LINE, Place, Problem, Source};

/// One step into a configuration: a key, or the place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A key of a section.
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// A value with the places of its key and itself.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Which of the sources it is written in.
    pub(super) source: usize,
    /// Where its key is.
    pub(super) key: Option<Range<usize>>,
    /// Where the value is.
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// A TOML value. Numbers are read as far as they fit.
#[derive(Clone, Debug)]
pub(super) enum Value {
    String(String),
    /// `None` when it is beyond 64 bits.
    Integer(Option<i64>),
    Float(f64),
    Boolean(bool),
    Datetime,
    Array(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Node {
    /// An empty section.
    pub(super) fn section(source: usize, key: Option<Range<usize>>, span: Range<usize>) -> Self {
        Self { source, key, span, value: Value::Table(BTreeMap::new()) }
    }

    fn from_table(source: usize, span: Range<usize>, table: &DeTable<'_>) -> Self {
        let nodes = table.iter().map(|(key, value)| {
            let mut node = Self::from_toml(source, 0, value);
            node.key = Some(key.span());
            (key.get_ref().to_string(), node)
        });
        Self { source, key: None, span, value: Value::Table(nodes.collect()) }
    }

    /// A node of a parsed value that begins `offset` bytes into its source.
    pub(super) fn from_toml(source: usize, offset: usize, value: &Spanned<DeValue<'_>>) -> Self {
        let moved = |span: Range<usize>| span.start + offset..span.end + offset;
        let span = moved(value.span());
        let value = match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(number) => {
                Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok())
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Boolean(*flag),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(items) => {
                Value::Array(items.iter().map(|item| Self::from_toml(source, offset, item)).collect())
            }
            DeValue::Table(table) => {
                let nodes = table.iter().map(|(key, value)| {
                    let mut node = Self::from_toml(source, offset, value);
                    node.key = Some(moved(key.span()));
                    (key.get_ref().to_string(), node)
                });
                Value::Table(nodes.collect())
            }
        };
        Self { source, key: None, span, value }
    }

    /// The value under a key, or of an item of a list.
    pub(super) fn get(&self, step: &Step) -> Option<&Self> {
        match (&self.value, step) {
            (Value::Table(table), Step::Key(key)) => table.get(key),
            (Value::Array(items), Step::Index(index)) => items.get(*index),
            _ => None,
        }
    }

    /// The value under a key of a section.
    pub(super) fn key(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(table) => table.get(key),
            _ => None,
        }
    }

    /// The text of a string.
    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// A number.
    pub(super) fn as_f64(&self) -> Option<f64> {
        match self.value {
            Value::Float(number) => Some(number),
            Value::Integer(number) => number.map(|number| number as f64),
            _ => None,
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::Array(items) => items,
            _ => &[],
        }
    }

    /// What it is, in words.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::String(_) => "a string",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a decimal number",
            Value::Boolean(_) => "true or false",
            Value::Datetime => "a date",
            Value::Array(_) => "a list",
            Value::Table(_) => "a section",
        }
    }

    /// The plain value, to be read into types.
    pub(super) fn to_toml(&self) -> toml::Value {
        match &self.value {
            Value::String(text) => toml::Value::String(text.clone()),
            Value::Integer(number) => toml::Value::Integer(number.unwrap_or(i64::MAX)),
            Value::Float(number) => toml::Value::Float(*number),
            Value::Boolean(flag) => toml::Value::Boolean(*flag),
            // No key is a date, so the check has refused it already; a string is refused as well.
            Value::Datetime => toml::Value::String("a date".to_owned()),
            Value::Array(items) => toml::Value::Array(items.iter().map(Self::to_toml).collect()),
            Value::Table(table) => {
                toml::Value::Table(table.iter().map(|(key, node)| (key.clone(), node.to_toml())).collect())
            }
        }
    }
}

/// Reads a TOML file into a tree. All syntax errors of the file come together, one a line at most, because a
/// slip often looks like several.
pub(super) fn parse(sources: &[Source]) -> Result<Node, Vec<Problem>> {
    let Some(file) = sources.first() else { return Ok(Node::section(0, None, 0..0)) };
    if let Some(at) = too_deep(&file.text) {
        let problem = Problem::new(file.place(&(at..at + 1)), "this key has too many parts");
        return Err(vec![problem.help("no key has more than three: section.section.key")]);
    }
    let (table, errors) = DeTable::parse_recoverable(&file.text);
    if errors.is_empty() {
        return Ok(Node::from_table(0, table.span(), table.get_ref()));
    }
    let mut problems: Vec<Problem> = Vec::new();
    for error in &errors {
        let problem = syntax(file, 0, error);
        let line = |problem: &Problem| problem.place.spot.as_ref().map(|spot| spot.line);
        if problems.last().is_none_or(|last| line(last) != line(&problem)) {
            problems.push(problem);
        }
    }
    Err(problems)
}

/// Where a dotted key goes deeper than any key can: each part is a table in a table, and the parser's stack
/// ends before its patience. (It guards itself against deep brackets.)
pub(super) fn too_deep(text: &str) -> Option<usize> {
    const MOST: usize = 100;
    let mut chars = text.char_indices().peekable();
    let (mut parts, mut after_key, mut blank) = (0, false, false);
    while let Some((at, c)) = chars.next() {
        let key = c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '"' | '\'');
        if key {
            if after_key && blank {
                parts = 0;
            }
            if matches!(c, '"' | '\'') {
                let mut escaped = false;
                while let Some((_, next)) = chars.next_if(|(_, next)| *next != '\n') {
                    if next == c && !escaped {
                        break;
                    }
                    escaped = c == '"' && next == '\\' && !escaped;
                }
            }
            after_key = true;
        } else if c == '.' && after_key {
            parts += 1;
            if parts > MOST {
                return Some(at);
            }
            after_key = false;
        } else if !matches!(c, ' ' | '\t') {
            (parts, after_key) = (0, false);
        }
        blank = matches!(c, ' ' | '\t');
    }
    None
}

/// A syntax error as a problem.
pub(super) fn syntax(source: &Source, offset: usize, error: &toml::de::Error) -> Problem {
    let span = error.span().unwrap_or_default();
    let range = span.start + offset..span.end + offset;
    let place = source.place(&range);
    let marked = source.text.get(range).unwrap_or_default().trim();
    let found = error.message();
    let said = |part: &str| found.contains(part);
    // The parser's own words where they are clear, plainer ones where they are not.
    let (message, help) = if said("string values must be quoted") && marked.is_empty() {
        ("a value is missing", "write key = value on one line")
    } else if said("string values must be quoted") {
        ("this is neither a number nor a text in quotes", "write text in quotes: key = \"text\"")
    } else if said("duplicate key") {
        ("this is here twice", "keep one of the two; only [[benchmark]] sections may repeat")
    } else if said("escape") {
        (found, "write paths with / or in single quotes: 'C:\\data'; in \"…\" a backslash begins an escape")
    } else if said("unclosed table") {
        ("the name of a section does not end", "close it with ], or with ]] for [[benchmark]]")
    } else if said("string") {
        (found, "close the quote on the same line; a longer text goes between \"\"\" and \"\"\"")
    } else {
        (found, "write key = value, with text in quotes, and each section as [section] on its own line")
    };
    Problem::new(place, format!("not valid TOML: {message}")).help(help)
}

/// Finds where keys of a configuration were written, for checks that come after it was read: a data file that
/// does not exist is reported at the line that names it.
#[derive(Clone, Debug)]
pub struct Locator {
    pub(super) sources: Vec<Source>,
    pub(super) root: Node,
}

impl Locator {
    /// Where the value under a path of keys is written; for one that was left out, its nearest section.
    ///
    /// `locator.place(&["benchmark".into(), 0.into(), "data".into()])`
    pub fn place(&self, path: &[Step]) -> Place {
        let mut node = &self.root;
        for (depth, step) in path.iter().enumerate() {
            match node.get(step) {
                Some(next) => node = next,
                None if depth == 0 => return self.whole(),
                None => return self.header(node),
            }
        }
        if path.is_empty() { self.whole() } else { self.value(node) }
    }

    /// A problem with the value under a path of keys: a sentence that says what is wrong and what to do.
    pub fn problem(&self, path: &[Step], message: impl Into<String>) -> Problem {
        Problem::new(self.place(path), message)
    }

    /// The file as a whole.
    pub(super) fn whole(&self) -> Place {
        self.sources.first().map_or_else(|| Place { source: String::new(), spot: None }, Source::whole)
    }

    /// Where a node's value is, or the header of a section.
    pub(super) fn value(&self, node: &Node) -> Place {
        match node.value {
            Value::Table(_) => self.header(node),
            _ => self.at(node.source, &node.span),
        }
    }

    /// Where a node's key is, or its value where it has none.
    pub(super) fn header(&self, node: &Node) -> Place {
        let range = match (&node.key, &node.value) {
            // Items of `[[benchmark]]` have no key of their own; their span is their header.
            (Some(key), _) => key,
            (None, _) => &node.span,
        };
        self.at(node.source, range)
    }

    fn at(&self, source: usize, range: &Range<usize>) -> Place {
        self.sources.get(source).map_or_else(|| self.whole(), |source| source.place(range))
    }

    /// Sorts problems as people read: the file from top to bottom, then the command line.
    pub(super) fn order(place: &Place) -> (bool, Option<(usize, usize)>) {
        (place.source == COMMAND_LINE, place.spot.as_ref().map(|spot| (spot.line, spot.column)))
    }

    /// The text that a node was written as.
    pub(super) fn text(&self, node: &Node) -> Option<&str> {
        self.sources.get(node.source)?.text.get(node.span.clone())
    }
}
