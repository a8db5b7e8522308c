//! Prompt files and templates, with their hashes.
//!
//! A prompt is a text with `{name}` places. Places are filled in one pass, so text that is put in is never
//! looked at again. This room must not know benchmarks or models.

mod file;
pub mod official;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::types::hex;
pub use file::{HARNESS_WORDING, PromptError};

/// A prompt text in use, for manifest and tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptInfo {
    /// Its name within its file.
    pub name: String,
    /// Where it came from: `harness wording`, the file that the config names, or `official` and `reconstructed`
    /// with repository and commit.
    pub status: String,
    /// SHA-256 of the text before places are filled, in hexadecimal; of official ones as it stands upstream.
    pub sha256: String,
}

/// The prompt texts of one benchmark, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptSet {
    status: String,
    texts: BTreeMap<String, String>,
    /// Of texts that have another origin than the rest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    origins: BTreeMap<String, TextOrigin>,
}

/// Where a single text came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TextOrigin {
    status: String,
    /// Of the text as it stands at its origin, where that writes places in another way.
    sha256: String,
}

impl PromptSet {
    /// A set of texts that share a status.
    pub fn new(status: impl Into<String>, texts: BTreeMap<String, String>) -> Self {
        Self { status: status.into(), texts, origins: BTreeMap::new() }
    }

    /// Puts a text of another origin in, in place of one of its name if there is one. `sha256` is that of the text
    /// as it stands at its origin.
    pub fn put(&mut self, name: &str, text: String, status: String, sha256: String) {
        self.texts.insert(name.to_owned(), text);
        self.origins.insert(name.to_owned(), TextOrigin { status, sha256 });
    }

    /// The set with the texts of another one, in place of its own of the same names.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        for name in other.names() {
            if let (Some(text), Some(info)) = (other.get(name), other.info(name)) {
                self.put(name, text.to_owned(), info.status, info.sha256);
            }
        }
        self
    }

    /// The texts of these names.
    #[must_use]
    pub fn only(&self, fits: impl Fn(&str) -> bool) -> Self {
        let mut part = self.clone();
        part.texts.retain(|name, _| fits(name));
        part.origins.retain(|name, _| fits(name));
        part
    }

    /// Where a text came from.
    pub fn status(&self, name: &str) -> &str {
        self.origins.get(name).map_or(&self.status, |origin| &origin.status)
    }

    /// A text, if the set holds it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// The names of the texts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }

    /// What manifest and tables say of a text.
    pub fn info(&self, name: &str) -> Option<PromptInfo> {
        let text = self.get(name)?;
        let sha256 = self.origins.get(name).map_or_else(|| sha256_hex(text), |origin| origin.sha256.clone());
        Some(PromptInfo { name: name.to_owned(), status: self.status(name).to_owned(), sha256 })
    }
}

/// SHA-256 of a text, in hexadecimal.
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Fills the `{name}` places of a template in one pass. A place without a value stays as it is: it is
/// [`places`] that finds unknown names when a prompt is loaded.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len() + values.iter().map(|(_, v)| v.len()).sum::<usize>());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        if let Some((name, value)) =
            place_at(rest).and_then(|name| values.iter().find(|(known, _)| *known == name))
        {
            out.push_str(value);
            rest = &rest[name.len() + 2..];
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// The names of the `{name}` places of a template, in order, with repeats.
pub fn places(template: &str) -> Vec<&str> {
    template.match_indices('{').filter_map(|(at, _)| place_at(&template[at..])).collect()
}

/// The name of the place that `text` begins with, if it begins with one.
fn place_at(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?;
    let name = &inner[..inner.find('}')?];
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (!name.is_empty() && name.chars().all(fits)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_another_set_keep_their_origin() {
        let set = |status: &str, texts: &[(&str, &str)]| {
            let texts = texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            PromptSet::new(status, texts.collect())
        };
        let both = set("ours", &[("a", "1"), ("judge", "2")]).with(&set("mine", &[("judge", "3")]));
        assert_eq!((both.get("judge"), both.status("judge"), both.status("a")), (Some("3"), "mine", "ours"));
        let judge = both.only(|name| name == "judge");
        assert_eq!(judge.names().collect::<Vec<_>>(), ["judge"]);
        assert_eq!(set("ours", &[("a", "1"), ("judge", "2")]).with(&judge), both);
    }

    #[test]
    fn text_that_is_put_in_is_not_filled_again() {
        let filled = fill("{a} {b} {c} {A} {", &[("a", "{b}"), ("b", "x")]);
        assert_eq!(filled, "{b} x {c} {A} {");
    }

    #[test]
    fn places_are_found_in_order() {
        assert_eq!(places("{question}\nin {src}, {src} {} {Not} {a b"), ["question", "src", "src"]);
    }

    #[test]
    fn texts_of_another_origin_keep_their_own_status_and_hash() {
        let texts = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into();
        let mut set = PromptSet::new("ours", texts);
        let plain = serde_json::to_string(&set).unwrap();
        assert_eq!(plain, r#"{"status":"ours","texts":{"a":"1","b":"2"}}"#, "as before origins were kept");
        set.put("b", "{q}".to_owned(), "official (x/y@1234567)".to_owned(), "00".to_owned());
        assert_eq!((set.status("a"), set.status("b")), ("ours", "official (x/y@1234567)"));
        assert_eq!((set.get("b"), set.info("b").unwrap().sha256.as_str()), (Some("{q}"), "00"));
        assert_eq!(set.info("a").unwrap().sha256, sha256_hex("1"));
        let back: PromptSet = serde_json::from_str(&serde_json::to_string(&set).unwrap()).unwrap();
        assert_eq!(back, set);
        let old: PromptSet = serde_json::from_str(&plain).unwrap();
        assert_eq!(old.status("b"), "ours");
    }

    #[test]
    fn hash_is_that_of_the_bytes() {
        assert_eq!(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
