//! Anthropic's messages: text and images, no audio.
//!
//! Source: Anthropic's API reference (messages, errors, stop reasons).

use reqwest::Url;
use serde_json::{Value, json};

use super::body::{Body, Json, Object};
use super::dialect::{Piece, Refusal, Turn, check_unsent, finish, image_type, join, turns};
use super::reply::{Classified, Reply, count, message_of};
use super::spec::EndpointSpec;
use crate::model::Prepared;
use crate::types::{Outcome, Role, Usage};

/// `BASE/v1/messages`
pub(super) fn target(base: &Url) -> Url {
    join(base, &["v1", "messages"])
}

/// What the server says about the model: `BASE/v1/models/MODEL`.
pub(super) fn listing(base: &Url, spec: &EndpointSpec) -> Url {
    let mut root = base.clone();
    if let Some(path) = base.path().trim_end_matches('/').strip_suffix("/messages") {
        root.set_path(path);
    }
    join(&join(&root, &["v1"]), &["models", &spec.model])
}

/// The body of a message.
pub(super) fn encode(request: &Prepared, spec: &EndpointSpec) -> Result<Body, Refusal> {
    check_unsent(spec, &request.generation)?;
    if !request.audio.is_empty() {
        return Err(Refusal::Media(
            "Anthropic's models take no audio; transcribe the clips first, or ask another model".to_owned(),
        ));
    }
    let generation = &request.generation;
    let turns = turns(request, spec)?;
    let (system, rest): (Vec<_>, Vec<_>) = turns.iter().partition(|turn| turn.role == Role::System);
    let mut body =
        Object::new().with("model", spec.model.as_str()).with("max_tokens", generation.max_new_tokens);
    let system: Vec<String> = system.iter().filter_map(|turn| turn.text()).collect();
    if !system.is_empty() {
        body.set("system", system.join("\n\n"));
    }
    body.set("messages", Json::List(rest.iter().map(|turn| message(turn)).collect()));
    if let Some(temperature) = generation.temperature.filter(|_| spec.send.temperature) {
        body.set("temperature", temperature);
    }
    // Newer models refuse temperature and top_p together; 1 is their default.
    if spec.send.top_p && generation.top_p != 1.0 {
        body.set("top_p", generation.top_p);
    }
    if spec.send.top_k && generation.top_k > 0 {
        body.set("top_k", generation.top_k);
    }
    if !generation.stop.is_empty() {
        body.set("stop_sequences", generation.stop.clone());
    }
    Ok(finish(body, spec))
}

fn message(turn: &Turn<'_>) -> Json {
    let part = |piece: &Piece<'_>| match piece {
        Piece::Image(file) => {
            let source = Object::new()
                .with("type", "base64")
                .with("media_type", image_type(&file.format))
                .with("data", Json::Media { prefix: String::new(), base64: file.base64() });
            Some(Json::from(Object::new().with("type", "image").with("source", source)))
        }
        // Empty blocks of text are refused.
        Piece::Text(text) if text.is_empty() => None,
        Piece::Text(text) => Some(Json::from(json!({"type": "text", "text": text}))),
        // Requests with audio are refused before.
        Piece::Audio(_) => None,
    };
    let content = match turn.text() {
        Some(text) => Json::from(text),
        None => Json::List(turn.pieces.iter().filter_map(part).collect()),
    };
    Object::new().with("role", turn.role.as_str()).with("content", content).into()
}

/// What a reply means.
pub(super) fn classify(reply: &Reply) -> Classified {
    let body = match reply.json() {
        Ok(body) => body,
        Err(classified) => return classified,
    };
    if !reply.status.is_success()
        || body.get("type").and_then(Value::as_str) == Some("error")
        || body.get("error").is_some_and(|error| !error.is_null())
    {
        return fault(reply, &body);
    }
    let usage = Usage {
        prompt_tokens: ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]
            .iter()
            .map(|key| count(&body, &["usage", key]))
            .fold(0, u64::saturating_add),
        audio_tokens: 0,
        completion_tokens: count(&body, &["usage", "output_tokens"]),
    };
    let Some(blocks) = body.get("content").and_then(Value::as_array) else {
        return Classified::malformed("the reply has no content");
    };
    let text = blocks
        .iter()
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
        .filter_map(|block| block.get("text").and_then(Value::as_str))
        .collect();
    let outcome = match body.get("stop_reason").and_then(Value::as_str) {
        Some("max_tokens" | "model_context_window_exceeded") => Outcome::Length,
        // The provider's classifiers stepped in; a refusal in the model's own words ends with `end_turn`.
        Some("refusal") => Outcome::ContentFilter,
        _ => Outcome::Ok,
    };
    Classified::heard(outcome, text, usage).by(body.get("model"))
}

fn fault(reply: &Reply, body: &Value) -> Classified {
    let message = message_of(body);
    if !reply.status.is_success() {
        return reply.by_status(&message);
    }
    // Status 200 with an error: its type tells the status.
    let kind = body.get("error").and_then(|error| error.get("type")).and_then(Value::as_str);
    let code = match kind.unwrap_or_default() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    };
    reply.by_code(code, &message)
}

#[cfg(test)]
mod tests {
    use super::super::dialect::testing::{clip, encoded, image, media_refused, request, text};
    use super::super::reply::testing::{failed, reply, retried};
    use super::*;
    use crate::model::endpoint::{Cause, Dialect};

    fn spec() -> EndpointSpec {
        EndpointSpec::new(Dialect::Anthropic, "https://api.anthropic.com", "claude-sonnet-4-5")
    }

    fn heard(body: &str) -> (Outcome, String, Usage) {
        match classify(&reply(200, &[], body.to_owned())) {
            Classified::Answer(heard) => (heard.outcome, heard.text, heard.usage),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_version_that_answered_is_named() {
        let body = r#"{"model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"a"}]}"#;
        match classify(&reply(200, &[], body)) {
            Classified::Answer(heard) => {
                assert_eq!(heard.model.as_deref(), Some("claude-sonnet-4-5-20250929"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_wire_form() {
        let mut request = request(&[
            (Role::System, &[text("be brief")]),
            (Role::User, &[image(), text("why?")]),
            (Role::Assistant, &[text("so")]),
        ]);
        let expected = json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 256,
            "system": "be brief",
            "messages": [
                {"role": "user", "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "UE5H"}},
                    {"type": "text", "text": "why?"},
                ]},
                {"role": "assistant", "content": "so"},
            ],
            "temperature": 0.0,
        });
        assert_eq!(encoded(&request, &spec()), expected);
        request.generation.top_p = 0.9;
        request.generation.top_k = 5;
        request.generation.stop = vec!["\n".into()];
        let body = encoded(&request, &spec());
        assert_eq!(body["top_p"], json!(0.9));
        assert_eq!(body["top_k"], json!(5));
        assert_eq!(body["stop_sequences"], json!(["\n"]));
        let base = |base: &str| target(&Url::parse(base).unwrap()).to_string();
        assert_eq!(base("https://api.anthropic.com"), "https://api.anthropic.com/v1/messages");
        assert_eq!(base("https://api.anthropic.com/v1/"), "https://api.anthropic.com/v1/messages");
    }

    #[test]
    fn audio_is_refused() {
        let request = request(&[(Role::User, &[clip()])]);
        assert!(media_refused(&request, &spec()).starts_with("Anthropic's models take no audio"));
    }

    #[test]
    fn the_headers_carry_key_and_version() {
        let spec = EndpointSpec { key: Some(crate::config::secret::ApiKey::new("k")), ..spec() };
        let expected = [("x-api-key", "k".to_owned()), ("anthropic-version", "2023-06-01".to_owned())];
        assert_eq!(spec.dialect.headers(&spec), expected);
    }

    #[test]
    fn answers() {
        let body = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm"},
            {"type":"text","text":"Par"},{"type":"text","text":"is"}],"stop_reason":"end_turn","usage":
            {"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":0,"output_tokens":3}}"#;
        let usage = Usage { prompt_tokens: 15, audio_tokens: 0, completion_tokens: 3 };
        assert_eq!(heard(body), (Outcome::Ok, "Paris".into(), usage));
        let ended = |reason: &str| heard(&body.replace("end_turn", reason)).0;
        assert_eq!(ended("max_tokens"), Outcome::Length);
        assert_eq!(ended("model_context_window_exceeded"), Outcome::Length);
        assert_eq!(ended("refusal"), Outcome::ContentFilter);
        assert_eq!(ended("stop_sequence"), Outcome::Ok);
        assert_eq!(heard(r#"{"content":[],"stop_reason":"end_turn"}"#).0, Outcome::Empty);
        assert_eq!(heard(r#"{"content":[],"stop_reason":"refusal"}"#).0, Outcome::ContentFilter);
    }

    #[test]
    fn errors() {
        let error = |kind: &str| {
            format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"Oh"}},"request_id":"r"}}"#)
        };
        for status in [200, 529] {
            let (cause, message, _) = retried(classify(&reply(status, &[], error("overloaded_error"))));
            assert_eq!(
                (cause, message.as_str()),
                (Cause::Overloaded, "the server is not available (529): Oh")
            );
        }
        let limited = reply(429, &[("retry-after", "3")], error("rate_limit_error"));
        assert_eq!(retried(classify(&limited)).2.unwrap().as_secs(), 3);
        assert_eq!(retried(classify(&reply(200, &[], error("api_error")))).0, Cause::Server);
        for kind in ["invalid_request_error", "authentication_error", "not_found_error", "request_too_large"]
        {
            assert!(failed(classify(&reply(200, &[], error(kind)))).ends_with("): Oh"));
        }
        assert_eq!(retried(classify(&reply(200, &[], "{}"))).0, Cause::Malformed);
    }
}
