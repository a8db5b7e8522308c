//! Secrets that can be used but not shown.
//!
//! A key must never reach a log, an error, a manifest or a journal. Whoever prints, debugs or serialises an
//! [`ApiKey`] gets `***`; only [`ApiKey::expose`] gives the text, and only what sends it calls that.

use std::fmt;

use serde::{Serialize, Serializer};

/// What is shown in place of a secret.
pub const REDACTED: &str = "***";

/// The key of a server, or another text that must not be seen. There is no way to read one from a file: it
/// comes from the environment variable that the configuration names.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key from its text. White space around it, such as the line end of a key file, is dropped.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// The text, for the header that carries it and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Puts `***` in place of the key wherever it stands in `text`, for servers that quote it in their errors.
    pub fn scrub(&self, text: &str) -> String {
        if self.0.len() >= 8 {
            return text.replace(&self.0, REDACTED);
        }
        // A short one, often `x` or `none` for a server that wants no key, would blot out parts of words.
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&self.0).filter(|_| !self.0.is_empty()) {
            let (before, after) = (&rest[..at], &rest[at + self.0.len()..]);
            let within = before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
            clean.push_str(before);
            clean.push_str(if within { &self.0 } else { REDACTED });
            rest = after;
        }
        clean + rest
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for ApiKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_shows_itself_nowhere() {
        let key = ApiKey::new(" sk-0123456789 \n");
        assert_eq!(key.expose(), "sk-0123456789");
        assert_eq!(format!("{key} {key:?} {:#?}", Some(&key)), "*** *** Some(\n    ***,\n)");
        assert_eq!(serde_json::to_string(&key).unwrap(), "\"***\"");
        assert_eq!(
            key.scrub("Incorrect API key provided: sk-0123456789."),
            "Incorrect API key provided: ***."
        );
    }

    #[test]
    fn a_short_key_does_not_blot_out_parts_of_words() {
        assert_eq!(ApiKey::new("on").scrub("once, on (on) none"), "once, *** (***) none");
        assert_eq!(ApiKey::new("é").scrub("é été"), "*** été");
        assert_eq!(ApiKey::new("").scrub("text"), "text");
    }
}
