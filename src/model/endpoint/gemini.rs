//! Google's Gemini: `generateContent` with inline media.
//!
//! Source: the Gemini API reference (models.generateContent, `FinishReason`, `BlockReason`) and its error details
//! of `google.rpc` (`RetryInfo`, `QuotaFailure`).

use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use super::body::{Body, Json, Object};
use super::dialect::{Piece, Refusal, Turn, check_unsent, finish, image_type, join, seed, top_p, turns};
use super::reply::{Cause, Classified, Reply, count, message_of};
use super::retry::duration;
use super::spec::EndpointSpec;
use crate::model::Prepared;
use crate::types::{Outcome, Role, Usage};

/// `BASE/v1beta/models/MODEL:generateContent`
pub(super) fn target(base: &Url, spec: &EndpointSpec) -> Url {
    let call = format!("{}:generateContent", model(spec));
    api(base, spec, &call)
}

/// The address of something about models.
pub(super) fn api(base: &Url, spec: &EndpointSpec, call: &str) -> Url {
    let version = spec.api_version.as_deref().unwrap_or("v1beta");
    join(&join(base, &[version]), &["models", call])
}

/// The model's name without the collection that lists put before it.
pub(super) fn model(spec: &EndpointSpec) -> &str {
    spec.model.strip_prefix("models/").unwrap_or(&spec.model)
}

/// The body of a `generateContent`.
pub(super) fn encode(request: &Prepared, spec: &EndpointSpec) -> Result<Body, Refusal> {
    check_unsent(spec, &request.generation)?;
    let turns = turns(request, spec)?;
    let (system, rest): (Vec<_>, Vec<_>) = turns.iter().partition(|turn| turn.role == Role::System);
    let content = |turn: &&Turn<'_>| {
        let role = if turn.role == Role::Assistant { "model" } else { "user" };
        Json::from(Object::new().with("role", role).with("parts", parts(turn)))
    };
    let mut body = Object::new();
    if !system.is_empty() {
        let parts: Vec<Value> =
            system.iter().filter_map(|turn| turn.text()).map(|text| json!({"text": text})).collect();
        body.set("system_instruction", json!({"parts": parts}));
    }
    body.set("contents", Json::List(rest.iter().map(content).collect()));
    body.set("generationConfig", config(request, spec));
    Ok(finish(body, spec))
}

fn parts(turn: &Turn<'_>) -> Json {
    let inline = |mime_type: String, base64| {
        let data = Json::Media { prefix: String::new(), base64 };
        let inline = Object::new().with("mime_type", mime_type).with("data", data);
        Object::new().with("inline_data", inline).into()
    };
    let part = |piece: &Piece<'_>| match piece {
        Piece::Text(text) => Json::from(json!({"text": text})),
        Piece::Audio(file) => inline(audio_type(&file.format), file.base64()),
        Piece::Image(file) => inline(image_type(&file.format), file.base64()),
    };
    Json::List(turn.pieces.iter().map(part).collect())
}

/// Gemini's names for the types of clips.
fn audio_type(format: &str) -> String {
    format!("audio/{format}")
}

fn config(request: &Prepared, spec: &EndpointSpec) -> Object {
    let generation = &request.generation;
    let mut config = Object::new().with("maxOutputTokens", generation.max_new_tokens);
    if let Some(temperature) = generation.temperature.filter(|_| spec.send.temperature) {
        config.set("temperature", temperature);
    }
    if let Some(top_p) = top_p(generation, spec) {
        config.set("topP", top_p);
    }
    // 0 is not a value of topK: off is not said.
    if spec.send.top_k && generation.top_k > 0 {
        config.set("topK", generation.top_k);
    }
    if spec.send.seed {
        config.set("seed", seed(request));
    }
    if !generation.stop.is_empty() {
        config.set("stopSequences", generation.stop.clone());
    }
    config
}

/// What a reply means.
pub(super) fn classify(reply: &Reply) -> Classified {
    let body = match reply.json() {
        Ok(body) => body,
        Err(classified) => return classified,
    };
    let first = body.get(0).unwrap_or(&body);
    if let Some(error) = first.get("error") {
        return fault(reply, error, &message_of(&body));
    }
    if !reply.status.is_success() {
        return reply.by_status(&message_of(&body));
    }
    let usage = usage(&body);
    let Some(candidate) = body.get("candidates").and_then(|candidates| candidates.get(0)) else {
        let blocked = body.get("promptFeedback").and_then(|feedback| feedback.get("blockReason"));
        return match blocked {
            Some(_) => Classified::filtered(usage),
            None => Classified::malformed("the reply has no candidates"),
        };
    };
    let parts = candidate.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
    let text: String = parts
        .into_iter()
        .flatten()
        // Thoughts are not the answer.
        .filter(|part| part.get("thought").and_then(Value::as_bool) != Some(true))
        .filter_map(|part| part.get("text").and_then(Value::as_str))
        .collect();
    let version = body.get("modelVersion");
    match candidate.get("finishReason").and_then(Value::as_str).unwrap_or("STOP") {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => Classified::heard(Outcome::Ok, text, usage).by(version),
        "MAX_TOKENS" => Classified::heard(Outcome::Length, text, usage).by(version),
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "IMAGE_SAFETY" => Classified::heard(Outcome::ContentFilter, text, usage).by(version),
        reason => Classified::Retry {
            cause: Cause::Server,
            message: format!("the server broke the answer off (finishReason `{reason}`)"),
            after: None,
        },
    }
}

/// What an error object means. The wait it asks for stands in its details.
fn fault(reply: &Reply, error: &Value, message: &str) -> Classified {
    let details = || error.get("details").and_then(Value::as_array).into_iter().flatten();
    let daily = details()
        .filter_map(|detail| detail.get("violations").and_then(Value::as_array))
        .flatten()
        .filter_map(|violation| violation.get("quotaId").and_then(Value::as_str))
        .any(|quota| quota.contains("PerDay"));
    if daily {
        return Classified::Fail { message: format!("the quota of the day is used up: {message}") };
    }
    // A wrong key is an invalid argument to Gemini.
    let wrong_key =
        details().any(|detail| detail.get("reason").and_then(Value::as_str) == Some("API_KEY_INVALID"));
    let code = match error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()) {
        _ if wrong_key => 401,
        Some(code) if (400..600).contains(&code) => code,
        _ => reply.status.as_u16(),
    };
    match reply.by_code(code, message) {
        Classified::Retry { cause, message, after } => {
            let delay: Option<Duration> = details()
                .find_map(|detail| detail.get("retryDelay").and_then(Value::as_str))
                .and_then(duration);
            Classified::Retry { cause, message, after: after.or(delay) }
        }
        other => other,
    }
}

fn usage(body: &Value) -> Usage {
    let tokens = |key: &str| count(body, &["usageMetadata", key]);
    let details = body.get("usageMetadata").and_then(|usage| usage.get("promptTokensDetails"));
    let audio = details
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|detail| detail.get("modality").and_then(Value::as_str) == Some("AUDIO"))
        .map(|detail| count(detail, &["tokenCount"]))
        .fold(0, u64::saturating_add);
    Usage {
        prompt_tokens: tokens("promptTokenCount"),
        audio_tokens: audio,
        completion_tokens: tokens("candidatesTokenCount").saturating_add(tokens("thoughtsTokenCount")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::testing::{clip, encoded, image, request, text};
    use super::super::reply::testing::{failed, reply, retried};
    use super::*;
    use crate::model::endpoint::Dialect;

    fn spec() -> EndpointSpec {
        EndpointSpec::new(Dialect::Gemini, "https://generativelanguage.googleapis.com", "gemini-2.5-flash")
    }

    fn heard(body: &str) -> (Outcome, String, Usage) {
        match classify(&reply(200, &[], body.to_owned())) {
            Classified::Answer(heard) => (heard.outcome, heard.text, heard.usage),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_version_that_answered_is_named() {
        let body =
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"modelVersion":"gemini-2.5-flash-001"}"#;
        match classify(&reply(200, &[], body)) {
            Classified::Answer(heard) => assert_eq!(heard.model.as_deref(), Some("gemini-2.5-flash-001")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_wire_form() {
        let mut request = request(&[
            (Role::System, &[text("be brief")]),
            (Role::User, &[clip(), image(), text("why?")]),
            (Role::Assistant, &[text("so")]),
            (Role::User, &[text("and?")]),
        ]);
        request.generation.stop = vec!["\n".into()];
        let expected = json!({
            "system_instruction": {"parts": [{"text": "be brief"}]},
            "contents": [
                {"role": "user", "parts": [
                    {"inline_data": {"mime_type": "audio/wav", "data": "UklGRg=="}},
                    {"inline_data": {"mime_type": "image/png", "data": "UE5H"}},
                    {"text": "why?"},
                ]},
                {"role": "model", "parts": [{"text": "so"}]},
                {"role": "user", "parts": [{"text": "and?"}]},
            ],
            "generationConfig": {
                "maxOutputTokens": 256, "temperature": 0.0, "seed": 443, "stopSequences": ["\n"],
                "thinkingConfig": {"thinkingBudget": 0},
            },
        });
        let mut spec = spec();
        spec.extra_body.insert("generationConfig".into(), json!({"thinkingConfig": {"thinkingBudget": 0}}));
        assert_eq!(encoded(&request, &spec), expected);
        request.generation.temperature = Some(0.5);
        request.generation.top_k = 40;
        let config = &encoded(&request, &spec)["generationConfig"];
        assert_eq!((&config["topP"], &config["topK"]), (&json!(1.0), &json!(40)));
    }

    #[test]
    fn the_address_names_the_model() {
        let expected =
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent";
        let mut spec = spec();
        for base in ["", "/", "/v1beta", "/v1beta/"] {
            let base = Url::parse(&format!("https://generativelanguage.googleapis.com{base}")).unwrap();
            assert_eq!(target(&base, &spec).as_str(), expected);
        }
        spec.model = "models/gemini-2.5-flash".into();
        let base = Url::parse("https://generativelanguage.googleapis.com").unwrap();
        assert_eq!(target(&base, &spec).as_str(), expected);
    }

    #[test]
    fn answers() {
        let body = r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"Par"},{"text":"is"}],
            "role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":330,
            "candidatesTokenCount":2,"thoughtsTokenCount":7,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10},
            {"modality":"AUDIO","tokenCount":320}]}}"#;
        let usage = Usage { prompt_tokens: 330, audio_tokens: 320, completion_tokens: 9 };
        assert_eq!(heard(body), (Outcome::Ok, "Paris".into(), usage));
        let check = |body: &str, expected: Outcome| assert_eq!(heard(body).0, expected, "{body}");
        check(
            r#"{"candidates":[{"content":{"parts":[{"text":"Pa"}]},"finishReason":"MAX_TOKENS"}]}"#,
            Outcome::Length,
        );
        check(
            r#"{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}]}"#,
            Outcome::Length,
        );
        check(
            r#"{"candidates":[{"finishReason":"SAFETY","safetyRatings":[{"blocked":true}]}]}"#,
            Outcome::ContentFilter,
        );
        check(r#"{"candidates":[{"finishReason":"RECITATION"}]}"#, Outcome::ContentFilter);
        check(r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}"#, Outcome::ContentFilter);
        check(r#"{"candidates":[{"content":{},"finishReason":"STOP"}]}"#, Outcome::Empty);
    }

    #[test]
    fn errors() {
        let limited = r#"{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[
            {"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":
            "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17.5s"}]}}"#;
        let (cause, _, after) = retried(classify(&reply(429, &[], limited)));
        assert_eq!((cause, after), (Cause::RateLimit, Some(Duration::from_millis(17_500))));
        let daily = limited.replace("PerMinute", "PerDay");
        assert_eq!(
            failed(classify(&reply(429, &[], daily))),
            "the quota of the day is used up: Quota exceeded"
        );
        // As the server sends it where a stream was asked for, and with status 200.
        let wrapped = format!("[{limited}]");
        assert_eq!(retried(classify(&reply(200, &[], wrapped))).0, Cause::RateLimit);
        let busy = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
        assert_eq!(retried(classify(&reply(503, &[], busy))).0, Cause::Overloaded);
        let key = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[
            {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#;
        assert!(failed(classify(&reply(400, &[], key))).starts_with("the server does not accept the key"));
        assert_eq!(retried(classify(&reply(200, &[], "{}"))).0, Cause::Malformed);
        let other = r#"{"candidates":[{"finishReason":"OTHER"}]}"#;
        assert_eq!(retried(classify(&reply(200, &[], other))).0, Cause::Server);
        assert_eq!(retried(classify(&reply(200, &[], r#"{"candidates":[{"con"#))).0, Cause::Malformed);
    }
}
