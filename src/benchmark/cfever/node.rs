//! JSON whose shape cannot be trusted: evidence as it stands in data and submissions, borrowed from its line.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::metric::fever::{Label, Sentence};

/// A value, as far as evidence needs it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number that is written without a fraction and that no `i64` holds.
    Long,
    /// A number with a fraction or an exponent, or a whole one of more than 64 bits.
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    /// An object, and whether it has no fields.
    Object {
        empty: bool,
    },
}

impl Node<'_> {
    /// What it is, for a sentence.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Int(_) => "a whole number",
            Self::Long => "a number of more than 63 bits",
            Self::Float(_) => "a number with a fraction",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object { .. } => "an object",
        }
    }
}

struct NodeVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for NodeVisitor<'a> {
    type Value = Node<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node<'a>, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node<'a>, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node<'a>, E> {
        Ok(Node::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node<'a>, E> {
        Ok(i64::try_from(number).map_or(Node::Long, Node::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node<'a>, E> {
        Ok(Node::Float(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Node<'a>, E> {
        Ok(Node::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node<'a>, E> {
        Ok(Node::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node<'a>, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = list.next_element()? {
            found.push(item);
        }
        Ok(Node::List(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'a>, A::Error> {
        let mut empty = true;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            empty = false;
        }
        Ok(Node::Object { empty })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor(PhantomData))
    }
}

/// The sets of a gold row. An undecidable claim has none, in whichever shape its nulls stand: the data write them one
/// level flatter than sets.
pub(super) fn gold_sets<'a>(label: Label, evidence: Node<'a>) -> Result<Vec<Vec<Sentence<'a>>>, String> {
    let Node::List(sets) = evidence else {
        return Err(format!("`evidence` must be a list of sets, found {}", evidence.kind()));
    };
    if !label.is_verifiable() {
        return Ok(Vec::new());
    }
    let set = |(number, set): (usize, Node<'a>)| match set {
        Node::List(items) => items.into_iter().map(|item| gold_sentence(number, item)).collect(),
        other => Err(format!("set {} of `evidence` must be a list, found {}", number + 1, other.kind())),
    };
    sets.into_iter().enumerate().map(set).collect()
}

fn gold_sentence(set: usize, item: Node<'_>) -> Result<Sentence<'_>, String> {
    let expected = "[annotation, evidence, page, line] with a string and a whole number at the end";
    let wrong = |found: &str| format!("set {} of `evidence` holds {found}; expected {expected}", set + 1);
    let Node::List(parts) = item else { return Err(wrong(item.kind())) };
    let length = parts.len();
    let mut parts = parts.into_iter().skip(2);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Node::Text(page)), Some(Node::Int(line)), None) => Ok(Sentence { page, line }),
        _ if length != 4 => Err(wrong(&format!("a list of {length}"))),
        (page, line, _) => {
            let kind = |node: Option<Node<'_>>| node.map_or("nothing", |node| node.kind());
            Err(wrong(&format!("{} as page and {} as line", kind(page), kind(line))))
        }
    }
}
