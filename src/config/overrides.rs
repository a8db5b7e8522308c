//! `--set generation.temperature=0.7`: values from the command line that replace those of the file.

use std::ops::Range;
use std::str::FromStr;

use toml::de::DeValue;

use super::problem::{COMMAND_LINE, ConfigError, Problem, Source, nearest};
use super::schema;
use super::tree::{Node, Value, syntax, too_deep};
use crate::types::shown;

/// A value that replaces one of the file: a path of keys, `=`, and a TOML value or a bare text.
///
/// `benchmark.0.limit=5` names a `[[benchmark]]` section by its place, from 0; `benchmark.ccfqa.limit=5` by its
/// label. A key that holds a dot is put in quotes. Paths in an override are relative to the current folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    text: String,
    path: Vec<Segment>,
    value: usize,
}

/// A key of the path, and where it stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    key: String,
    range: Range<usize>,
}

impl Override {
    /// Reads `key.key=value`. Whether the key exists is found out when it is applied.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if let Some(at) = too_deep(text) {
            return Err(wrong(text, at..at + 1, "this key has too many parts"));
        }
        let mut path = Vec::new();
        let mut at = 0;
        loop {
            let rest = &text[at..];
            let start = at + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
            let (key, end) = if let Some(quote @ ('"' | '\'')) = text[start..].chars().next() {
                let inner = start + 1;
                let Some(length) = text[inner..].find(quote) else {
                    return Err(wrong(text, start..text.len(), "a quoted key does not end"));
                };
                (&text[inner..inner + length], inner + length + 1)
            } else {
                let length = text[start..].find(['.', '=']).unwrap_or(text.len() - start);
                (text[start..start + length].trim_end(), start + length)
            };
            if key.is_empty() {
                return Err(wrong(text, start..start, "a key is missing"));
            }
            path.push(Segment { key: key.to_owned(), range: start..end });
            let rest = text[end..].trim_start_matches([' ', '\t']);
            let next = text.len() - rest.len() + 1;
            match rest.chars().next() {
                Some('.') => at = next,
                Some('=') => return Ok(Self { text: text.to_owned(), path, value: next }),
                Some(_) => {
                    return Err(wrong(text, next - 1..next, "expected `.` or `=` after the quoted key"));
                }
                None => return Err(wrong(text, text.len()..text.len(), "expected `=` and a value")),
            }
        }
    }

    pub(super) fn source(&self) -> Source {
        source(&self.text)
    }

    /// Puts the value into the tree; `index` is the override's place among the sources.
    pub(super) fn apply(&self, root: &mut Node, index: usize) -> Result<(), Problem> {
        let source = self.source();
        let mut node = root;
        let mut schema = Some(schema::root());
        for segment in &self.path {
            let place = || source.place(&segment.range);
            let wanted_list = schema.is_some_and(|schema| schema::type_of(schema) == "array");
            let kind = node.kind();
            match &mut node.value {
                Value::Table(table) => {
                    schema = schema.and_then(|section| schema::key(section, &segment.key));
                    node = table.entry(segment.key.clone()).or_insert_with(|| {
                        let list = schema.is_some_and(|schema| schema::type_of(schema) == "array");
                        let mut node =
                            Node::section(index, Some(segment.range.clone()), segment.range.clone());
                        if list {
                            node.value = Value::Array(Vec::new());
                        }
                        node
                    });
                }
                Value::Array(items) => {
                    let Some(at) = find(items, &segment.key) else {
                        return Err(Problem::new(
                            place(),
                            format!("there is no `{}` in this list", shown(&segment.key)),
                        )
                        .help(there_is(items, &segment.key)));
                    };
                    schema = schema.and_then(|list| list.get("items"));
                    node = match items.get_mut(at) {
                        Some(item) => item,
                        None => return Err(Problem::new(place(), "there is no such item")),
                    };
                }
                _ if wanted_list => return Err(Problem::new(place(), "the file has no list here")),
                _ => {
                    return Err(Problem::new(place(), format!("nothing can be set inside {kind}"))
                        .help("set the key itself: leave out the last part of the path"));
                }
            }
        }
        let text_alone =
            |schema| schema::of_either(schema, false).is_none() && schema::type_of(schema) == "string";
        let wants_text = schema.is_some_and(text_alone);
        let mut new = self.value(index, wants_text)?;
        new.key = self.path.last().map(|segment| segment.range.clone());
        *node = new;
        Ok(())
    }

    /// The value: TOML where it is TOML, else the text as it stands. Where a text is wanted, a scalar is taken
    /// as it was typed, so `run.name=2026` needs no quotes.
    fn value(&self, index: usize, wants_text: bool) -> Result<Node, Problem> {
        let typed = self.text.get(self.value..).unwrap_or_default();
        let offset = self.value + (typed.len() - typed.trim_start().len());
        let typed = typed.trim();
        let bare = || Node {
            source: index,
            key: None,
            span: offset..offset + typed.len(),
            value: Value::String(typed.to_owned()),
        };
        let must_be_toml = typed.starts_with(['[', '{', '"', '\'']);
        match DeValue::parse(typed) {
            Ok(value) => {
                let node = Node::from_toml(index, offset, &value);
                let scalar = !matches!(node.value, Value::String(_) | Value::Array(_) | Value::Table(_));
                Ok(if wants_text && scalar { bare() } else { node })
            }
            Err(error) if must_be_toml => Err(syntax(&self.source(), offset, &error)),
            Err(_) => Ok(bare()),
        }
    }
}

impl FromStr for Override {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::parse(text)
    }
}

fn source(text: &str) -> Source {
    Source { name: COMMAND_LINE.to_owned(), text: text.to_owned() }
}

fn wrong(text: &str, range: Range<usize>, message: &str) -> ConfigError {
    Problem::new(source(text).place(&range), message)
        .help("write section.key=value, for example generation.temperature=0.7 or benchmark.0.limit=5")
        .into()
}

/// The item of a list that a key names: its place, or its label.
fn find(items: &[Node], key: &str) -> Option<usize> {
    match key.parse::<usize>() {
        Ok(index) => (index < items.len()).then_some(index),
        Err(_) => items.iter().position(|item| label(item) == Some(key)),
    }
}

/// The label of a `[[benchmark]]` section.
pub(super) fn label(section: &Node) -> Option<&str> {
    section.key("label").or_else(|| section.key("name")).and_then(Node::as_str)
}

/// What a list holds, for one who named something else.
fn there_is(items: &[Node], key: &str) -> String {
    if items.is_empty() {
        return "the list is empty".to_owned();
    }
    let labels: Vec<&str> = items.iter().filter_map(label).collect();
    if let Some(near) = nearest(key, labels.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let listed: Vec<String> = items
        .iter()
        .enumerate()
        .map(|(index, item)| label(item).map_or(index.to_string(), |label| format!("{index} ({label})")))
        .collect();
    format!("there are: {}", listed.join(", "))
}
