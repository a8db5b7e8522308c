//! Secrets that can be used but not shown.
//!
//! A key must never reach a log, an error, a manifest or a journal. Whoever prints, debugs or serialises an
//! [`ApiKey`] gets `***`; only [`ApiKey::expose`] gives the text, and only what sends it calls that.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use super::resolved::ModelConfig;
use super::tree::Step;

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

    /// Puts `***` in place of a key that no word can be, wherever it stands in an answer; answers are never changed for a
    /// short one, such as `token` or `none` of a server that wants no key.
    pub fn scrub_answer(&self, text: &mut String) {
        if self.0.len() >= 16 && text.contains(&self.0) {
            *text = text.replace(&self.0, REDACTED);
        }
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

/// The secrets of a model: what the variables hold that its configuration names.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The key.
    pub key: Option<ApiKey>,
    /// Headers with their values, by name.
    pub headers: Vec<(String, ApiKey)>,
    /// The proxy's address, which may hold credentials.
    pub proxy: Option<ApiKey>,
    /// What the variables hold that stand within headers and the proxy's address: servers quote a token without the
    /// words before it.
    pub parts: Vec<ApiKey>,
    /// Variables of the environment of a server that is started, by name.
    pub server_env: Vec<(String, ApiKey)>,
    /// What the variables hold that stand within these and are secrets by their own names, whatever the server's are
    /// called.
    pub server_parts: Vec<ApiKey>,
}

impl Secrets {
    /// All that must be shown nowhere.
    pub fn all(&self) -> Vec<ApiKey> {
        let headers = self.headers.iter().map(|(_, value)| value);
        let variables =
            self.server_env.iter().filter(|(name, _)| holds_secrets(name)).map(|(_, value)| value);
        self.key
            .iter()
            .chain(headers)
            .chain(&self.proxy)
            .chain(&self.parts)
            .chain(variables)
            .chain(&self.server_parts)
            .cloned()
            .collect()
    }
}

/// A secret that is not there.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct SecretError {
    /// Which variable lacks what, and what to do. Names no value.
    message: String,
    /// The keys to the value that names the variable.
    pub path: Vec<Step>,
}

impl SecretError {
    fn new(variable: &str, wrong: &str, path: &[&str]) -> Self {
        // Some put the key where its variable's name belongs.
        let shown = if looks_like_a_name(variable) {
            format!("the environment variable `{variable}`")
        } else {
            "the environment variable that is named here".to_owned()
        };
        let name = if looks_like_a_name(variable) { variable } else { "NAME" };
        Self {
            message: format!("{shown} {wrong}; set it to the secret: export {name}=…"),
            path: path.iter().map(|key| Step::from(*key)).collect(),
        }
    }
}

/// Reads the secrets that a model's configuration names; all that are missing are told together.
pub fn secrets(model: &ModelConfig) -> Result<Secrets, Vec<SecretError>> {
    secrets_from(model, super::env::named)
}

/// Why a variable gives no secret.
pub(super) type Lookup = Result<String, &'static str>;

pub(super) fn secrets_from(
    model: &ModelConfig,
    lookup: impl Fn(&str) -> Lookup,
) -> Result<Secrets, Vec<SecretError>> {
    let mut found = Secrets::default();
    let mut errors = Vec::new();
    let Some(endpoint) = &model.endpoint else { return Ok(found) };
    let parts = std::cell::RefCell::new(Vec::new());
    let lookup = |name: &str| {
        let text = lookup(name)?;
        parts.borrow_mut().push(ApiKey::new(&text));
        Ok(text)
    };
    if let Some(variable) = &endpoint.api_key_env {
        match lookup(variable) {
            Ok(text) => found.key = Some(ApiKey::new(text)),
            Err(wrong) => errors.push(SecretError::new(variable, wrong, &["model", "api_key_env"])),
        }
    }
    for (name, text) in &endpoint.wire.headers {
        match Template::parse(text).map(|template| template.fill(lookup)) {
            Ok(Ok(value)) => found.headers.push((name.clone(), ApiKey::new(value))),
            Ok(Err((variable, wrong))) => {
                errors.push(SecretError::new(&variable, wrong, &["model", "endpoint", "headers", name]));
            }
            // The check of the file has refused it.
            Err(_) => {}
        }
    }
    if let Some(Ok(template)) = endpoint.wire.proxy.as_deref().map(Template::parse) {
        match template.fill(lookup) {
            Ok(value) => found.proxy = Some(ApiKey::new(value)),
            Err((variable, wrong)) => {
                errors.push(SecretError::new(&variable, wrong, &["model", "endpoint", "proxy"]));
            }
        }
    }
    // What a server of our own has in its environment is mostly no secret; the token for its models it inherits.
    found.parts.clone_from(&parts.borrow());
    if endpoint.server.is_some() {
        found.server_parts.extend(lookup(super::env::HF_TOKEN).ok().map(ApiKey::new));
    }
    for (name, text) in endpoint.server.iter().flat_map(|server| &server.env) {
        let Ok(template) = Template::parse(text) else { continue };
        for variable in template.variables().filter(|variable| holds_secrets(variable)) {
            // One that is not set is told below.
            found.server_parts.extend(lookup(variable).ok().map(ApiKey::new));
        }
        match template.fill(lookup) {
            Ok(value) => found.server_env.push((name.clone(), ApiKey::new(value))),
            Err((variable, wrong)) => {
                errors.push(SecretError::new(&variable, wrong, &["model", "server", "env", name]));
            }
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

/// A text with places for environment variables: `Bearer $TOKEN`; `$$` is a dollar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Variable(String),
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            pieces.push(Piece::Text(before.to_owned()));
            if let Some(more) = after.strip_prefix('$') {
                pieces.push(Piece::Text("$".to_owned()));
                rest = more;
                continue;
            }
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            let (name, more) = after.split_at(end);
            if !is_variable(name) {
                return Err("a `$` is not followed by the name of a variable");
            }
            pieces.push(Piece::Variable(name.to_owned()));
            rest = more;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// The variables that it names.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text with what the variables hold, or the first one that holds nothing.
    fn fill(&self, lookup: impl Fn(&str) -> Lookup) -> Result<String, (String, &'static str)> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                // A line end, as of a file that was read into the variable, is no part of a secret.
                Piece::Variable(name) => {
                    text.push_str(lookup(name).map_err(|wrong| (name.clone(), wrong))?.trim());
                }
            }
        }
        Ok(text)
    }
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_variable(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether it looks like one, too, rather than like a key.
fn looks_like_a_name(text: &str) -> bool {
    is_variable(text) && text.len() <= 64 && !text.contains(|c: char| c.is_ascii_lowercase())
        || is_variable(text) && text.len() < 16
}

/// Whether a key of a file, a header or a variable is one whose value is a secret by its name: `api_key`, `PGPASSWORD`.
pub(super) fn holds_secrets(name: &str) -> bool {
    const WORDS: [&str; 3] = ["key", "keys", "cookie"];
    const ENDS: [&str; 8] =
        ["apikey", "token", "secret", "password", "passwd", "authorization", "credential", "credentials"];
    let name = name.to_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| WORDS.contains(&word) || ENDS.iter().any(|end| word.ends_with(end)))
}

/// Whether an option of a command takes a secret, by its name: `--api-key`, `--hf-token`.
pub(super) fn is_secret_option(name: &str) -> bool {
    let Some(name) = name.strip_prefix('-') else { return false };
    let name = name.to_lowercase().replace('_', "-");
    ["api-key", "apikey", "hf-token", "auth-token", "access-token", "password", "secret"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// A line of a configuration as it may be shown: values that are secrets by their names, credentials in
/// addresses, and what stands in the place of a variable's name but is none, become asterisks. The characters
/// keep their number, so that a caret still points at its place.
pub(super) fn mask(line: &str) -> Cow<'_, str> {
    let mut secret: Vec<(usize, usize)> = Vec::new();
    for (at, _) in line.match_indices('=') {
        let before = line[..at].trim_end();
        let name = before.trim_end_matches(['"', '\'']);
        let start = name
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
            .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
        let name = &name[start..];
        let value = at + 1 + (line[at + 1..].len() - line[at + 1..].trim_start().len());
        let text = &line[value..];
        let (inner, length) = match text.chars().next() {
            Some(quote @ ('"' | '\'')) => (value + 1, text[1..].find(quote).unwrap_or(text.len() - 1)),
            _ => (value, text.find([',', '}']).unwrap_or(text.len())),
        };
        let shown = &line[inner..inner + length];
        let named = match name {
            "api_key_env" => !looks_like_a_name(shown),
            _ => holds_secrets(name) && !shown.starts_with('$') && !shown.starts_with("Bearer $"),
        };
        if named {
            secret.push((inner, inner + length));
        }
    }
    for (at, _) in line.match_indices("://") {
        let start = at + 3;
        let end = line[start..].find(['/', '"', '\'', ' ', ',']).map_or(line.len(), |end| start + end);
        if let Some(sign) = line[start..end].rfind('@') {
            secret.push((start, start + sign));
        }
    }
    // What stands behind an option that takes a secret, in a list of arguments.
    let quotes: Vec<usize> = line.match_indices(['"', '\'']).map(|(at, _)| at).collect();
    let words: Vec<(usize, usize)> = quotes
        .chunks_exact(2)
        .filter_map(|pair| if let [start, end] = pair { Some((start + 1, *end)) } else { None })
        .collect();
    for pair in words.windows(2) {
        if let [(start, end), value] = pair
            && is_secret_option(&line[*start..*end])
        {
            secret.push(*value);
        }
    }
    if secret.is_empty() {
        return Cow::Borrowed(line);
    }
    let hidden = |at: usize| secret.iter().any(|(start, end)| (*start..*end).contains(&at));
    Cow::Owned(line.char_indices().map(|(at, c)| if hidden(at) { '*' } else { c }).collect())
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
    fn lines_are_shown_without_their_secrets() {
        for (line, shown) in [
            ("api_key = \"sk-123\"", "api_key = \"******\""),
            ("model.api_key=sk-123", "model.api_key=******"),
            ("api_key_env = \"OPENAI_API_KEY\"", "api_key_env = \"OPENAI_API_KEY\""),
            ("api_key_env = 'sk-abcdefghijklmnop'", "api_key_env = '*******************'"),
            (
                "headers = { Authorization = \"Bearer x\", a = \"b\" }",
                "headers = { Authorization = \"********\", a = \"b\" }",
            ),
            ("\"x-api-key\" = \"$KEY\"", "\"x-api-key\" = \"$KEY\""),
            ("base_url = \"http://me:pass@host/v1\"", "base_url = \"http://*******@host/v1\""),
            ("base_url = 'http://host/v1?key=abc'", "base_url = 'http://host/v1?key=****"),
            ("max_new_tokens = 5", "max_new_tokens = 5"),
            (
                "command = [\"serve\", \"--api-key\", \"sk-1\"]",
                "command = [\"serve\", \"--api-key\", \"****\"]",
            ),
            ("command = ['serve', '--api_key=sk-1', '-v']", "command = ['serve', '--api_key=*****, '-v']"),
            ("é = 1 = token=", "é = 1 = token="),
        ] {
            assert_eq!(mask(line), shown);
            assert_eq!(mask(line).chars().count(), line.chars().count());
        }
    }

    #[test]
    fn templates_name_variables() {
        let lookup = |name: &str| if name == "A" { Ok("a\n".to_owned()) } else { Err("is not set") };
        let fill = |text: &str| Template::parse(text).unwrap().fill(lookup);
        assert_eq!(fill("Bearer $A-$$A"), Ok("Bearer a-$A".to_owned()));
        assert_eq!(fill("$B"), Err(("B".to_owned(), "is not set")));
        assert!(Template::parse("$").is_err() && Template::parse("a $1").is_err());
    }

    #[test]
    fn a_key_in_the_place_of_a_name_is_not_shown() {
        let shown = |variable: &str| SecretError::new(variable, "is not set", &["model"]).to_string();
        assert_eq!(
            shown("OPENAI_API_KEY"),
            "the environment variable `OPENAI_API_KEY` is not set; set it to the secret: export OPENAI_API_KEY=…"
        );
        assert!(!shown("abcdef0123456789abcdef").contains("abcdef"));
    }

    #[test]
    fn a_short_key_does_not_blot_out_parts_of_words() {
        let mut answer = "my key is sk-0123456789abcdef.".to_owned();
        ApiKey::new("sk-0123456789abcdef").scrub_answer(&mut answer);
        assert_eq!(answer, "my key is ***.");
        let mut answer = "a token".to_owned();
        ApiKey::new("token").scrub_answer(&mut answer);
        assert_eq!(answer, "a token");
        assert_eq!(ApiKey::new("on").scrub("once, on (on) none"), "once, *** (***) none");
        assert_eq!(ApiKey::new("é").scrub("é été"), "*** été");
        assert_eq!(ApiKey::new("").scrub("text"), "text");
    }
}
