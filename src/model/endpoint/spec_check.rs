//! What is wrong with a spec, found before anything is sent; and the identity that it makes.

use std::path::PathBuf;

use reqwest::Url;
use thiserror::Error;

use super::spec::{Dialect, EndpointSpec};
use crate::model::ModelIdentity;

/// Why there is no client for an endpoint.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// No address is given.
    #[error("the endpoint has no base_url; give the address of its API, such as http://localhost:8000/v1")]
    NoAddress,
    /// An address is none.
    #[error("base_url {shown}: {reason}; expected an address such as http://localhost:8000/v1")]
    Address {
        /// The address, without what may be a secret.
        shown: String,
        /// What is wrong.
        reason: String,
    },
    /// The model's name is missing.
    #[error("the endpoint's model has no name; say which model the server is asked for")]
    NoModel,
    /// A header cannot be sent.
    #[error(
        "header `{name}` has a name or a value that HTTP does not allow; check it (and the key) for stray characters"
    )]
    Header {
        /// The header's name.
        name: String,
    },
    /// A limit that lets nothing through.
    #[error("{what} must be at least {least}")]
    TooSmall {
        /// The setting.
        what: &'static str,
        /// The least that makes sense.
        least: &'static str,
    },
    /// A field of `extra_body` that the program itself sets.
    #[error("extra_body must not set `{0}`: the request does; use the endpoint's own settings")]
    ReservedField(String),
    /// Settings that don't go together.
    #[error("{0}")]
    Mismatch(&'static str),
    /// The proxy's address is none.
    #[error("the proxy's address cannot be used; expected one such as http://proxy:3128")]
    Proxy,
    /// The certificates cannot be used.
    #[error("{}: cannot use the certificates: {reason}; expected a PEM file", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The HTTP client could not be made.
    #[error("cannot make an HTTP client: {reason}")]
    Client {
        /// What is wrong.
        reason: String,
    },
}

/// Fields that the request is made of.
const RESERVED: [&str; 6] = ["model", "messages", "contents", "prompt", "stream", "file"];

/// The addresses of a spec that makes sense.
pub(super) fn check(spec: &EndpointSpec) -> Result<Vec<Url>, EndpointError> {
    if spec.base_urls.is_empty() {
        return Err(EndpointError::NoAddress);
    }
    if spec.model.trim().is_empty() {
        return Err(EndpointError::NoModel);
    }
    let small = |what, least| Err(EndpointError::TooSmall { what, least });
    if spec.concurrency.min == 0 || spec.concurrency.max < spec.concurrency.min {
        return small("concurrency", "1, and its max at least its min");
    }
    if spec.retries.max_attempts == 0 {
        return small("max_attempts", "1");
    }
    if spec.rpm == Some(0) || spec.tpm == Some(0) {
        return small("a rate", "1");
    }
    if spec.timeout.is_zero() || spec.deadline.is_zero() {
        return small("timeout and deadline", "a moment");
    }
    let chat = matches!(spec.dialect, Dialect::OpenAi | Dialect::Azure);
    if spec.completions && !chat {
        return Err(EndpointError::Mismatch("only OpenAI-compatible servers have /completions"));
    }
    if spec.stream && !chat {
        return Err(EndpointError::Mismatch("streams are read from OpenAI-compatible servers only"));
    }
    // A transcription's prompt is a setting, but then it has a place of its own.
    if let Some(field) = RESERVED.iter().find(|field| spec.extra_body.contains_key(**field)) {
        return Err(EndpointError::ReservedField((*field).to_owned()));
    }
    spec.base_urls.iter().map(|text| address(text)).collect()
}

pub(super) fn address(text: &str) -> Result<Url, EndpointError> {
    let url = Url::parse(text.trim()).map_err(|error| EndpointError::Address {
        // What cannot be parsed cannot be stripped of secrets either.
        shown: if text.contains(['@', '?']) { "(not shown)".to_owned() } else { format!("`{text}`") },
        reason: error.to_string(),
    })?;
    let wrong = |reason: &str| {
        Err(EndpointError::Address { shown: format!("`{}`", shown(&url)), reason: reason.into() })
    };
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return wrong("it is no HTTP address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("it holds credentials, which belong into the variable of api_key_env or into headers");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong(
            "it holds a query, which belongs into api_version, the variable of api_key_env or headers",
        );
    }
    Ok(url)
}

/// An address as it may be shown.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for addresses without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// Who an endpoint is: its addresses (or the revision that stands for them) and every setting of the wire form
/// that can change an answer. How fast and how often it is asked is no part of it.
pub(super) fn identity(spec: &EndpointSpec, bases: &[Url]) -> ModelIdentity {
    let mut addresses: Vec<String> = bases.iter().map(shown).collect();
    addresses.sort();
    addresses.dedup();
    let mut parts = vec![spec.revision.clone().unwrap_or_else(|| addresses.join(" "))];
    let mut part = |name: &str, value: &str| parts.push(format!("{name}={value}"));
    if let Some(version) = &spec.api_version {
        part("api_version", version);
    }
    match spec.dialect {
        Dialect::Transcription => {
            let words = serde_json::to_string(&spec.transcription).unwrap_or_default();
            part("transcription", &words);
        }
        Dialect::OpenAi | Dialect::Azure => {
            if spec.completions {
                part("call", "completions");
            }
            part("audio_form", spec.audio_form.as_str());
            if let Some(detail) = spec.image_detail {
                part("image_detail", detail.as_str());
            }
        }
        Dialect::Gemini | Dialect::Anthropic => {}
    }
    if spec.system_role == super::spec::SystemRole::Fold {
        part("system_role", "fold");
    }
    let sent = [
        (spec.send.temperature, "temperature"),
        (spec.send.top_p, "top_p"),
        (spec.send.seed, "seed"),
        (spec.send.top_k, "top_k"),
        (spec.send.repetition_penalty, "repetition_penalty"),
    ];
    let sent: Vec<&str> = sent.iter().filter(|(sent, _)| *sent).map(|(_, name)| *name).collect();
    part("send", &sent.join(","));
    if !spec.extra_body.is_empty() {
        part("extra_body", &sorted(&serde_json::Value::Object(spec.extra_body.clone())));
    }
    ModelIdentity {
        name: spec.name.clone(),
        kind: spec.dialect.as_str().to_owned(),
        model: spec.model.clone(),
        revision: parts.join("; "),
        dtype: String::new(),
        device: String::new(),
    }
}

/// JSON with keys in order, so that their order in a file does not matter.
fn sorted(value: &serde_json::Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::config::secret::ApiKey;

    fn spec() -> EndpointSpec {
        EndpointSpec::new(Dialect::OpenAi, "http://host:8000/v1/", "m")
    }

    #[test]
    fn what_makes_no_sense_is_found_first() {
        let check = |change: &dyn Fn(&mut EndpointSpec), expected: &str| {
            let mut spec = spec();
            change(&mut spec);
            let found = check(&spec).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{found}");
        };
        check(&|spec| spec.base_urls.clear(), "the endpoint has no base_url");
        check(&|spec| spec.base_urls.push("host:8000".into()), "base_url `host:8000`: it is no HTTP address");
        check(&|spec| spec.base_urls.push("/v1".into()), "base_url `/v1`: relative URL");
        check(&|spec| spec.model = " ".into(), "the endpoint's model has no name");
        check(&|spec| spec.concurrency.min = 0, "concurrency must be at least 1");
        check(&|spec| spec.concurrency.max = 0, "concurrency must be at least 1");
        check(&|spec| spec.retries.max_attempts = 0, "max_attempts must be at least 1");
        check(&|spec| spec.rpm = Some(0), "a rate must be at least 1");
        check(&|spec| spec.timeout = Duration::ZERO, "timeout and deadline must be at least");
        check(
            &|spec| drop(spec.extra_body.insert("messages".into(), json!([]))),
            "extra_body must not set `messages`",
        );
        check(
            &|spec| {
                spec.dialect = Dialect::Gemini;
                spec.stream = true;
            },
            "streams are read",
        );
    }

    #[test]
    fn secrets_in_addresses_are_refused_and_not_shown() {
        for address in ["http://user:s3cret@host/v1", "http://host/v1?key=s3cret", "http://ho st/?key=s3cret"]
        {
            let error = check(&EndpointSpec { base_urls: vec![address.into()], ..spec() }).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_identity_holds_what_changes_answers_and_nothing_else() {
        let of = |spec: &EndpointSpec| identity(spec, &check(spec).unwrap());
        let first = of(&spec());
        assert_eq!((first.kind.as_str(), first.model.as_str(), first.name.as_str()), ("openai", "m", "m"));
        assert_eq!(
            first.revision,
            "http://host:8000/v1; audio_form=input_audio; send=temperature,top_p,seed,top_k,repetition_penalty"
        );
        let same = |change: &dyn Fn(&mut EndpointSpec)| {
            let mut spec = spec();
            change(&mut spec);
            of(&spec) == first
        };
        assert!(same(&|spec| spec.key = Some(ApiKey::new("sk-0123456789"))));
        assert!(same(&|spec| spec.timeout *= 2));
        assert!(same(&|spec| spec.rpm = Some(3)));
        assert!(same(&|spec| spec.base_urls.push("http://host:8000/v1".into())));
        assert!(!same(&|spec| spec.base_urls.push("http://other/v1".into())));
        assert!(!same(&|spec| spec.send.top_k = false));
        assert!(!same(&|spec| spec.completions = true));
        assert!(!same(&|spec| drop(spec.extra_body.insert("a".into(), json!(1)))));
        let named = |addresses: &[&str]| {
            let base_urls = addresses.iter().map(|&address| address.to_owned()).collect();
            of(&EndpointSpec { base_urls, revision: Some("v2".into()), ..spec() })
        };
        assert_eq!(named(&["http://a"]), named(&["http://b", "http://c"]));
        let body = |json: serde_json::Value| {
            of(&EndpointSpec { extra_body: json.as_object().unwrap().clone(), ..spec() })
        };
        assert_eq!(
            body(json!({"a": 1, "b": {"c": 2, "d": 3}})),
            body(json!({"b": {"d": 3, "c": 2}, "a": 1}))
        );
    }
}
