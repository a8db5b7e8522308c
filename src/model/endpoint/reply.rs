//! What a server said, and what that means: the part that all dialects share.
//!
//! HTTP status and body are looked at together: servers send errors with status 200, proxies send web pages,
//! filters answer with status 400. No I/O happens here, so every odd reply that was ever seen can be a test.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use serde::Serialize;
use serde_json::Value;

use super::retry::wait_asked;
use crate::types::{Outcome, Usage};

/// A reply as it came.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// When it came, for waits that are given as a point in time.
    pub(super) at: Timestamp,
}

/// Why an attempt is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The server takes no more requests or tokens for now (429).
    RateLimit,
    /// The server has too much to do (503, 529).
    Overloaded,
    /// What stands before the server does not reach it (502, 504).
    Gateway,
    /// Another fault of the server (5xx, 408, 409, an error in a body of status 200).
    Server,
    /// A reply that is cut short, is no JSON, or lacks an answer.
    Malformed,
    /// A web page in place of an answer, as proxies send them.
    Html,
    /// No answer within the time of an attempt.
    Timeout,
    /// The connection broke.
    Reset,
    /// No connection could be made: refused, unreachable, or too slow.
    Connect,
    /// The host's name could not be resolved.
    Dns,
    /// The secure connection failed.
    Tls,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::RateLimit,
        Self::Overloaded,
        Self::Gateway,
        Self::Server,
        Self::Malformed,
        Self::Html,
        Self::Timeout,
        Self::Reset,
        Self::Connect,
        Self::Dns,
        Self::Tls,
    ];

    /// The name shown in progress lines and counts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate limit",
            Self::Overloaded => "overloaded",
            Self::Gateway => "gateway error",
            Self::Server => "server error",
            Self::Malformed => "malformed reply",
            Self::Html => "web page",
            Self::Timeout => "timeout",
            Self::Reset => "connection broken",
            Self::Connect => "no connection",
            Self::Dns => "unknown host",
            Self::Tls => "TLS",
        }
    }
}

/// What a reply means.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Classified {
    /// The model was heard, or its provider's filter was.
    Answer(Heard),
    /// It may go better next time.
    Retry { cause: Cause, message: String, after: Option<Duration> },
    /// It never will.
    Fail { message: String },
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heard {
    pub(super) outcome: Outcome,
    pub(super) text: String,
    pub(super) usage: Usage,
    /// The language that a recogniser of speech names.
    pub(super) language: Option<String>,
    /// The text came in a field for refusals. It is an answer all the same: scoring decides what it is worth.
    pub(super) refusal: bool,
    /// The model that has answered, where the reply names one.
    pub(super) model: Option<String>,
}

impl Classified {
    /// An answer that ended as the outcome says; nothing but white space is `empty`.
    pub(super) fn heard(outcome: Outcome, text: String, usage: Usage) -> Self {
        let empty = outcome == Outcome::Ok && text.trim().is_empty();
        let outcome = if empty { Outcome::Empty } else { outcome };
        Self::Answer(Heard { outcome, text, usage, language: None, refusal: false, model: None })
    }

    /// The same with the model that has answered, where the value names one.
    pub(super) fn by(self, model: Option<&Value>) -> Self {
        let model = model.and_then(Value::as_str).map(shorten).filter(|model| !model.is_empty());
        self.with(|heard| Heard { model, ..heard })
    }

    /// The same, of an answer with a language that was heard.
    pub(super) fn in_language(self, language: Option<String>) -> Self {
        self.with(|heard| Heard { language, ..heard })
    }

    fn with(self, more: impl FnOnce(Heard) -> Heard) -> Self {
        match self {
            Self::Answer(heard) => Self::Answer(more(heard)),
            other => other,
        }
    }

    /// An answer that the provider's filter withheld.
    pub(super) fn filtered(usage: Usage) -> Self {
        Self::heard(Outcome::ContentFilter, String::new(), usage)
    }

    /// A reply that may be whole next time.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::Retry { cause: Cause::Malformed, message: message.into(), after: None }
    }
}

impl Reply {
    /// The body as JSON, or what to make of it without.
    pub(super) fn json(&self) -> Result<Value, Classified> {
        if self.status.is_redirection() {
            return Err(Classified::Fail {
                message: format!(
                    "the server redirects ({}); put the final address into the config, keys are not sent on",
                    self.status.as_u16()
                ),
            });
        }
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Err(if self.status.is_success() {
                Classified::malformed("the reply is empty")
            } else {
                self.by_status("without a message")
            });
        }
        match serde_json::from_slice(&self.body) {
            Ok(value) => Ok(value),
            Err(_) if self.is_html() => {
                let title = self.title();
                Err(match self.by_status(&format!("with a web page{title}")) {
                    // Whatever status a proxy puts on its page, it is the page that should be counted.
                    Classified::Retry { cause: Cause::Server, message, after } => {
                        Classified::Retry { cause: Cause::Html, message, after }
                    }
                    other => other,
                })
            }
            Err(_) if !self.status.is_success() => {
                Err(self.by_status(&shorten(&String::from_utf8_lossy(&self.body))))
            }
            Err(error) if error.is_eof() => Err(Classified::malformed(format!(
                "the reply is cut short after {} bytes of JSON",
                self.body.len()
            ))),
            Err(_) if self.encoding().is_some() => Err(Classified::malformed(format!(
                "the reply is compressed ({}), which was not asked for: see what stands before the server",
                self.encoding().unwrap_or_default()
            ))),
            Err(error) => Err(Classified::malformed(format!(
                "the reply is no JSON ({error}): {}",
                shorten(&String::from_utf8_lossy(&self.body))
            ))),
        }
    }

    /// What an error means, by the status and the server's message.
    pub(super) fn by_status(&self, message: &str) -> Classified {
        self.by_code(self.status.as_u16(), message)
    }

    /// The same for a status that stands in the body.
    pub(super) fn by_code(&self, code: u16, message: &str) -> Classified {
        let shown = if message.is_empty() { "without a message" } else { message };
        let sentence = |what: &str| format!("{what} ({code}): {shown}");
        let retry = |cause, what: &str| Classified::Retry {
            cause,
            message: sentence(what),
            after: wait_asked(&self.headers, self.at),
        };
        match code {
            200..=299 => retry(Cause::Server, "the server answered with an error"),
            408 => retry(Cause::Server, "the server timed out"),
            409 | 425 => retry(Cause::Server, "the server is not ready for the request"),
            429 => retry(Cause::RateLimit, "the server limits the rate"),
            502 | 504 => retry(Cause::Gateway, "the server is not reached by what stands before it"),
            503 | 529 => retry(Cause::Overloaded, "the server is not available"),
            500..=599 => retry(Cause::Server, "the server failed"),
            401 => Classified::Fail { message: sentence("the server does not accept the key") },
            403 => Classified::Fail { message: sentence("the server forbids the request") },
            404 => Classified::Fail { message: sentence("the server knows no such address or model") },
            413 => Classified::Fail { message: sentence("the request is too large for the server") },
            _ => Classified::Fail { message: sentence("the server refuses the request") },
        }
    }

    /// How the body is compressed, if it is.
    fn encoding(&self) -> Option<&str> {
        let value = self.headers.get(CONTENT_ENCODING)?.to_str().ok()?.trim();
        (!value.is_empty() && value != "identity").then_some(value)
    }

    fn is_html(&self) -> bool {
        let declared = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.to_ascii_lowercase().contains("html"));
        declared || self.body.trim_ascii_start().first() == Some(&b'<')
    }

    /// The title of a web page, which says most of what it says.
    fn title(&self) -> String {
        let page = String::from_utf8_lossy(&self.body);
        let title = page
            .split_once("<title>")
            .and_then(|(_, rest)| rest.split_once("</title>"))
            .map(|(title, _)| shorten(title));
        title.map_or_else(String::new, |title| format!(" titled `{title}`"))
    }
}

/// The text of a server's message, without control characters, in at most 300 characters and one line.
pub(super) fn shorten(text: &str) -> String {
    const MOST: usize = 300;
    let mut short = String::new();
    let mut count = 0;
    // Codes that move a terminal's cursor, or colour it, are no part of a message.
    let plain: String = text.chars().filter(|c| !c.is_control() || c.is_whitespace()).collect();
    for word in plain.split_whitespace() {
        let space = usize::from(count > 0);
        let length = word.chars().count();
        if count + space + length > MOST {
            short.extend(word.chars().take(if count == 0 { MOST } else { 0 }));
            short.push('…');
            break;
        }
        if space == 1 {
            short.push(' ');
        }
        short.push_str(word);
        count += space + length;
    }
    short
}

/// The server's message in a JSON body: what the servers call it differs.
pub(super) fn message_of(body: &Value) -> String {
    let error = match body {
        // Gemini wraps errors of streamed calls in an array.
        Value::Array(items) => items.first().unwrap_or(&Value::Null),
        other => other,
    };
    let inner = error.get("error").unwrap_or(error);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        // FastAPI's validation errors are a list; vLLM and proxies pass them on.
        other => Some(other.to_string()),
    };
    let named = ["message", "detail", "error", "msg", "error_msg", "errors", "object"]
        .iter()
        .filter_map(|name| inner.get(name).or_else(|| error.get(name)))
        .find_map(text);
    shorten(&named.or_else(|| text(inner)).unwrap_or_default())
}

/// An unsigned number of a JSON object, 0 where it isn't there.
pub(super) fn count(value: &Value, path: &[&str]) -> u64 {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A reply from literals.
    pub(in super::super) fn reply(
        status: u16,
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect(),
            body: body.into(),
            at: "2026-11-30T12:00:00Z".parse().unwrap(),
        }
    }

    /// The cause and message of a retry.
    pub(in super::super) fn retried(classified: Classified) -> (Cause, String, Option<Duration>) {
        match classified {
            Classified::Retry { cause, message, after } => (cause, message, after),
            other => panic!("expected a retry, found {other:?}"),
        }
    }

    /// The message of a failure.
    pub(in super::super) fn failed(classified: Classified) -> String {
        match classified {
            Classified::Fail { message } => message,
            other => panic!("expected a failure, found {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::testing::{failed, reply, retried};
    use super::*;

    #[test]
    fn statuses_decide_what_is_tried_again() {
        for code in [408, 409, 425, 429, 500, 502, 503, 504, 520, 529] {
            retried(reply(code, &[], "").json().unwrap_err());
        }
        for code in [301, 302, 307, 400, 401, 402, 403, 404, 405, 413, 415, 422] {
            failed(reply(code, &[], "").json().unwrap_err());
        }
        assert_eq!(retried(reply(429, &[], "").json().unwrap_err()).0, Cause::RateLimit);
        assert_eq!(retried(reply(503, &[], "").json().unwrap_err()).0, Cause::Overloaded);
        assert_eq!(retried(reply(502, &[], "").json().unwrap_err()).0, Cause::Gateway);
    }

    #[test]
    fn a_wait_that_the_server_asks_for_is_taken() {
        let (_, _, after) = retried(reply(429, &[("retry-after", "7")], "{").json().unwrap_err());
        assert_eq!(after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn bodies_that_are_no_json_are_told_apart() {
        let (cause, message, _) =
            retried(reply(200, &[], r#"{"choices":[{"message":{"content":"he"#).json().unwrap_err());
        assert_eq!(
            (cause, message.as_str()),
            (Cause::Malformed, "the reply is cut short after 37 bytes of JSON")
        );

        let page = "<html><head><title>502 Bad\n Gateway</title></head></html>";
        let (cause, message, _) =
            retried(reply(200, &[("content-type", "text/html")], page).json().unwrap_err());
        assert_eq!(cause, Cause::Html);
        assert_eq!(
            message,
            "the server answered with an error (200): with a web page titled `502 Bad Gateway`"
        );
        assert_eq!(retried(reply(500, &[], page).json().unwrap_err()).0, Cause::Html);
        assert_eq!(retried(reply(503, &[], page).json().unwrap_err()).0, Cause::Overloaded);
        assert!(failed(reply(404, &[], page).json().unwrap_err()).contains("no such address or model (404)"));

        assert_eq!(retried(reply(200, &[], " \n").json().unwrap_err()).1, "the reply is empty");
        let gzip = retried(
            reply(200, &[("content-encoding", "gzip")], b"\x1f\x8b\x08".as_slice()).json().unwrap_err(),
        );
        assert!(gzip.1.starts_with("the reply is compressed (gzip)"), "{}", gzip.1);
        let (cause, message, _) = retried(reply(200, &[], "upstream error").json().unwrap_err());
        assert_eq!(cause, Cause::Malformed);
        assert!(message.ends_with(": upstream error"), "{message}");
        assert!(failed(reply(400, &[], "bad audio").json().unwrap_err()).ends_with("(400): bad audio"));
    }

    #[test]
    fn messages_are_found_under_all_their_names() {
        for body in [
            json!({"error": {"message": "no such  model"}}),
            json!([{"error": {"message": "no such model"}}]),
            json!({"error": "no such model"}),
            json!({"detail": "no such model"}),
            json!({"object": "error", "message": "no such model", "code": 404}),
            json!({"type": "error", "error": {"type": "not_found_error", "message": "no such model"}}),
            json!("no such model"),
        ] {
            assert_eq!(message_of(&body), "no such model", "{body}");
        }
        assert_eq!(message_of(&json!({"detail": [{"loc": ["body"]}]})), r#"[{"loc":["body"]}]"#);
        assert_eq!(message_of(&json!(null)), "");
    }

    #[test]
    fn long_messages_are_cut_at_a_word() {
        assert_eq!(shorten(" a\n b\t c "), "a b c");
        assert_eq!(shorten("\u{1b}[31mred\u{7} \u{9b}x"), "[31mred x");
        let long = shorten(&"word ".repeat(100));
        assert!(long.ends_with("word…") && long.chars().count() <= 301, "{long}");
        assert_eq!(shorten(&"é".repeat(400)).chars().count(), 301);
    }
}
