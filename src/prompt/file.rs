//! Prompt files: TOML text to a [`PromptSet`], and the wordings that the program carries.

use std::collections::BTreeMap;

use thiserror::Error;
use toml::{Table, Value};

use super::{PromptSet, sha256_hex};

/// The status of the wordings that the program carries.
pub const HARNESS_WORDING: &str = "harness wording";

/// What can be wrong with a prompt file.
#[derive(Debug, Error)]
pub enum PromptError {
    /// Not TOML.
    #[error("not a TOML file: {0}")]
    Toml(#[from] toml::de::Error),
    /// Something that holds no text.
    #[error(
        "`{0}` holds no text: put `{0} = \"…\"` under `[texts]`, or write a block `[{0}]` with `text = \"…\"`"
    )]
    NoText(String),
    /// A text under `[texts]` and as a block.
    #[error("the text `{0}` is there twice, under `[texts]` and as a block: keep one")]
    Twice(String),
    /// A text that is not the one its hash was taken of.
    #[error(
        "the text `{name}` has the SHA-256 {found}, not the {expected} that stands beside it: it was changed or cut wrongly"
    )]
    Hash {
        /// The text's name.
        name: String,
        /// The hash in the file.
        expected: String,
        /// The hash of the text.
        found: String,
    },
    /// No texts at all.
    #[error("no prompt texts: put `name = \"…\"` under `[texts]`")]
    Empty,
}

impl PromptSet {
    /// The texts of a prompt file. They stand under `[texts]` as `name = "…"`, or each in a block `[name]` with
    /// `text = "…"`; a block's `sha256`, where there is one, must be that of its text, and its other keys are
    /// notes. `status` says in tables where the texts came from.
    pub fn parse(toml_text: &str, status: impl Into<String>) -> Result<Self, PromptError> {
        Self::read(toml_text, status.into(), false)
    }

    /// The texts of a prompt file of this program, which are [`HARNESS_WORDING`]; a block's own `status` is believed.
    pub fn parse_own(toml_text: &str) -> Result<Self, PromptError> {
        Self::read(toml_text, HARNESS_WORDING.to_owned(), true)
    }

    fn read(toml_text: &str, status: String, believed: bool) -> Result<Self, PromptError> {
        let mut texts = BTreeMap::new();
        let mut own = Vec::new();
        for (name, value) in toml::from_str::<Table>(toml_text)? {
            let Value::Table(block) = value else { return Err(PromptError::NoText(name)) };
            if let Some(Value::String(status)) = block.get("status").filter(|_| believed && name != "texts") {
                own.push((name.clone(), status.clone()));
            }
            let found =
                if name == "texts" { listed(block)? } else { vec![(name.clone(), text_of(&name, &block)?)] };
            for (name, text) in found {
                if texts.insert(name.clone(), text).is_some() {
                    return Err(PromptError::Twice(name));
                }
            }
        }
        if texts.is_empty() {
            return Err(PromptError::Empty);
        }
        let mut set = Self::new(status, texts);
        for (name, status) in own {
            let text = set.get(&name).unwrap_or_default().to_owned();
            let sha256 = sha256_hex(&text);
            set.put(&name, text, status, sha256);
        }
        Ok(set)
    }
}

/// The texts of `[texts]`.
fn listed(block: Table) -> Result<Vec<(String, String)>, PromptError> {
    block
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            _ => Err(PromptError::NoText(name)),
        })
        .collect()
}

/// The text of a block.
fn text_of(name: &str, block: &Table) -> Result<String, PromptError> {
    let Some(Value::String(text)) = block.get("text") else {
        return Err(PromptError::NoText(name.to_owned()));
    };
    if let Some(expected) = block.get("sha256") {
        let expected = expected.as_str().map_or_else(|| expected.to_string(), str::to_lowercase);
        let found = sha256_hex(text);
        if expected != found {
            return Err(PromptError::Hash { name: name.to_owned(), expected, found });
        }
    }
    Ok(text.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> String {
        PromptSet::parse(text, "x").unwrap_err().to_string()
    }

    #[test]
    fn texts_stand_in_a_list_or_in_blocks() {
        let text = "[texts]\na = \"1\"\n[b]\ntext = \"\"\"two\nlines\"\"\"\nuse = \"a note\"";
        let set = PromptSet::parse(text, "my.toml").unwrap();
        assert_eq!((set.get("a"), set.get("b"), set.get("c")), (Some("1"), Some("two\nlines"), None));
        assert_eq!(set.info("a").unwrap().status, "my.toml");
    }

    #[test]
    fn only_files_of_this_program_say_what_their_texts_are() {
        let text = "[texts]\na = \"1\"\n[b]\ntext = \"2\"\nstatus = \"official (paper)\"";
        let own = PromptSet::parse_own(text).unwrap();
        assert_eq!((own.status("a"), own.status("b")), (HARNESS_WORDING, "official (paper)"));
        assert_eq!(PromptSet::parse(text, "my.toml").unwrap().status("b"), "my.toml");
    }

    #[test]
    fn errors_name_the_text() {
        assert!(error("a = 1").starts_with("`a` holds no text"));
        assert!(error("[texts]\na = 1").starts_with("`a` holds no text"));
        assert!(error("[a]\ntxt = \"x\"").starts_with("`a` holds no text"));
        assert!(error("[texts]\na = \"1\"\n[a]\ntext = \"2\"").contains("`a` is there twice"));
        assert!(error("[a]\ntext = \"1\"\nsha256 = \"00\"").contains("`a` has the SHA-256 6b86b273ff34f"));
        assert!(error("").starts_with("no prompt texts"));
        assert!(error("[a").starts_with("not a TOML file"));
    }

    #[test]
    fn harness_wording_is_the_one_that_was_agreed() {
        let set = crate::benchmark::harness_wording("ccfqa").unwrap();
        for (name, sha256) in [
            ("speech_system", "20597f5a04f13745a3a071233a4ed37d27c6dd1bef5e7f3d1a0e22c8c47f4ab0"),
            ("speech_user", "f660fd6f7c0de9c09d14ed3be02f0ef48dcf9842e1530f2349d17fffa8663e60"),
            ("text_system", "3bfe813b7a0e61b57d659fd3302972f52bf22d56e0f502f8658a1b42c8805816"),
            ("text_user", "253e75c2591dd7591d60fd6f245e24566b95a01f7232b712ede084f480c2790d"),
            ("asr", "d464b5a57d99a5ca8cb19cd020ccefc6f9c6055de409430fc45f3a8eef329ae6"),
            ("judge", "d846ad74cd03ce8d1316be834ac9216a0da3eeb042f7e1ac7d4df6e9a879f95e"),
        ] {
            assert_eq!(set.info(name).unwrap().sha256, sha256, "{name}");
        }
        assert_eq!(set.names().count(), 6);
        assert_eq!(crate::benchmark::harness_wording("manifest").unwrap().names().count(), 0);
    }

    proptest! {
        #[test]
        fn any_file_gives_a_set_or_a_sentence(text: String, key in "[a-z]{1,3}", value in "\\PC{0,20}") {
            let _ = PromptSet::parse(&text, "x");
            let block = format!("[texts]\n{key} = {}", Value::String(value.clone()));
            let set = PromptSet::parse(&block, "x").unwrap();
            prop_assert_eq!(set.get(&key), Some(value.as_str()));
        }
    }
}
