//! Chat completions as OpenAI defines them and as vLLM, `SGLang`, llama.cpp, mistral.rs and `DashScope` serve
//! them.
//!
//! Sources: OpenAI's API reference (chat completions, completions) and vLLM's OpenAI-compatible server, whose
//! fields `audio_url`, `top_k` and `repetition_penalty` go beyond it.

use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::body::{Body, Json, Object};
use super::dialect::{
    Piece, Refusal, Turn, audio_type, check_unsent, finish, header, image_type, join, seed, top_p, turns,
};
use super::reply::{Cause, Classified, Reply, count, message_of};
use super::spec::{AudioForm, EndpointSpec};
use super::sse;
use crate::model::Prepared;
use crate::types::{AudioFile, Generation, Outcome, Prompt, Usage};

/// `BASE/chat/completions`; a base without a path is given `/v1`.
pub(super) fn target(base: &Url, spec: &EndpointSpec) -> Url {
    api(base, if spec.completions { &["completions"] } else { &["chat", "completions"] })
}

/// An address of the API.
pub(super) fn api(base: &Url, call: &[&str]) -> Url {
    if base.path().trim_matches('/').is_empty() { join(&join(base, &["v1"]), call) } else { join(base, call) }
}

/// The list of models of the API that a base belongs to.
pub(super) fn listing(base: &Url) -> Url {
    let mut root = base.clone();
    for call in ["/chat/completions", "/completions", "/audio/transcriptions"] {
        if let Some(path) = base.path().trim_end_matches('/').strip_suffix(call) {
            root.set_path(path);
            break;
        }
    }
    api(&root, &["models"])
}

/// The body of a chat completion, or of a completion of a prompt string.
pub(super) fn encode(request: &Prepared, spec: &EndpointSpec) -> Result<Body, Refusal> {
    let body = Object::new().with("model", spec.model.as_str());
    Ok(finish(fields(request, spec, body)?, spec))
}

/// The fields that Azure has too.
pub(super) fn fields(request: &Prepared, spec: &EndpointSpec, mut body: Object) -> Result<Object, Refusal> {
    check_unsent(spec, &request.generation)?;
    if spec.completions {
        body.set("prompt", prompt(request)?);
    } else {
        let messages = turns(request, spec)?.iter().map(|turn| message(turn, spec)).collect();
        body.set("messages", Json::List(messages));
    }
    settings(&mut body, request, spec);
    Ok(body)
}

fn prompt(request: &Prepared) -> Result<&str, Refusal> {
    match &request.prompt {
        Prompt::Raw { text, audio } if audio.is_empty() => Ok(text),
        Prompt::Raw { .. } => {
            Err(Refusal::Media("/completions takes no audio; ask as a chat, or use a local model".into()))
        }
        Prompt::Chat(_) => Err(Refusal::Request(
            "/completions takes finished prompt strings and the request is a chat; set completions = false"
                .into(),
        )),
    }
}

fn settings(body: &mut Object, request: &Prepared, spec: &EndpointSpec) {
    let Generation { temperature, top_p: _, top_k, repetition_penalty, max_new_tokens, stop } =
        &request.generation;
    if spec.completions {
        body.set("max_tokens", *max_new_tokens);
    } else {
        body.set(spec.max_tokens_field.as_str(), *max_new_tokens);
    }
    // Where the server draws as it does by itself, what is off is not said: saying so would turn its own setting off.
    let own = temperature.is_none();
    if let Some(temperature) = temperature.filter(|_| spec.send.temperature) {
        body.set("temperature", temperature);
    }
    if let Some(top_p) = top_p(&request.generation, spec) {
        body.set("top_p", top_p);
    }
    if spec.send.top_k && (!own || *top_k != 0) {
        // vLLM and SGLang turn it off by -1.
        body.set("top_k", if *top_k == 0 { json!(-1) } else { json!(top_k) });
    }
    if spec.send.repetition_penalty && (!own || *repetition_penalty != 1.0) {
        body.set("repetition_penalty", *repetition_penalty);
    }
    if spec.send.seed {
        body.set("seed", seed(request));
    }
    if !stop.is_empty() {
        body.set("stop", stop.clone());
    }
    if spec.stream {
        body.set("stream", true);
        body.set("stream_options", json!({"include_usage": true}));
    }
}

fn message(turn: &Turn<'_>, spec: &EndpointSpec) -> Json {
    // A string where there is only text: every server and every template takes that.
    let content = match turn.text() {
        Some(text) => Json::from(text),
        None => Json::List(turn.pieces.iter().map(|piece| part(piece, spec)).collect()),
    };
    Object::new().with("role", turn.role.as_str()).with("content", content).into()
}

fn part(piece: &Piece<'_>, spec: &EndpointSpec) -> Json {
    let object = match piece {
        Piece::Text(text) => Object::new().with("type", "text").with("text", text.as_ref()),
        Piece::Audio(file) => audio(file, spec.audio_form),
        Piece::Image(file) => {
            let prefix = format!("data:{};base64,", image_type(&file.format));
            let mut url = Object::new().with("url", Json::Media { prefix, base64: file.base64() });
            if let Some(detail) = spec.image_detail {
                url.set("detail", detail.as_str());
            }
            Object::new().with("type", "image_url").with("image_url", url)
        }
    };
    object.into()
}

fn audio(file: &AudioFile, form: AudioForm) -> Object {
    let data = |prefix: String| Json::Media { prefix, base64: file.base64() };
    let url = || format!("data:{};base64,", audio_type(&file.format));
    let input = |prefix: String| {
        let input = Object::new().with("data", data(prefix)).with("format", file.format.as_str());
        Object::new().with("type", "input_audio").with("input_audio", input)
    };
    match form {
        AudioForm::InputAudio => input(String::new()),
        AudioForm::InputAudioUrl => input(url()),
        AudioForm::AudioUrl => {
            Object::new().with("type", "audio_url").with("audio_url", Object::new().with("url", data(url())))
        }
    }
}

/// What a reply means.
pub(super) fn classify(reply: &Reply) -> Classified {
    let declared = header(&reply.headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    if reply.status.is_success()
        && (declared.starts_with("text/event-stream") || sse::looks_like(&reply.body))
    {
        return match sse::assemble(&reply.body) {
            Ok(body) => classify_json(reply, &body).by(body.get("model")),
            Err(message) => Classified::malformed(message),
        };
    }
    match reply.json() {
        Ok(body) => classify_json(reply, &body).by(body.get("model")),
        Err(classified) => classified,
    }
}

fn classify_json(reply: &Reply, body: &Value) -> Classified {
    if let Some(error) = error_of(reply, body) {
        return error;
    }
    let usage = usage(body);
    let Some(choice) = body.get("choices").and_then(|choices| choices.get(0)) else {
        if filters_of(body.get("prompt_filter_results")) {
            return Classified::filtered(usage);
        }
        return Classified::malformed("the reply has no choices");
    };
    // Routers report a fault of the server behind them inside the choice.
    if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
        return fault(reply, error, &message_of(error));
    }
    let message = choice.get("message").unwrap_or(&Value::Null);
    let text = text_of(choice, message);
    let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or("stop");
    let outcome = match reason {
        "length" | "max_tokens" => Outcome::Length,
        "content_filter" | "safety" | "recitation" => Outcome::ContentFilter,
        "abort" | "error" | "insufficient_system_resource" => {
            return Classified::Retry {
                cause: Cause::Server,
                message: format!("the server broke the answer off (finish_reason `{reason}`)"),
                after: None,
            };
        }
        _ => Outcome::Ok,
    };
    let refusal = message.get("refusal").and_then(Value::as_str).filter(|refusal| !refusal.is_empty());
    match (text, refusal) {
        (Some(text), _) if !text.trim().is_empty() => Classified::heard(outcome, text, usage),
        (_, Some(refusal)) => match Classified::heard(outcome, refusal.to_owned(), usage) {
            Classified::Answer(heard) => Classified::Answer(super::reply::Heard { refusal: true, ..heard }),
            other => other,
        },
        (Some(text), None) => Classified::heard(outcome, text, usage),
        // Neither a text nor a null: this is no chat completion.
        (None, None) if message.is_null() => Classified::malformed("the reply's choice has no message"),
        (None, None) => Classified::heard(outcome, String::new(), usage),
    }
}

/// The text of a choice: of a chat (a string, parts, or the transcript of a spoken answer) or a completion.
fn text_of(choice: &Value, message: &Value) -> Option<String> {
    match message.get("content") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(parts)) => {
            Some(parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect())
        }
        _ => {
            let spoken = message.get("audio").and_then(|audio| audio.get("transcript"));
            spoken.or_else(|| choice.get("text")).and_then(Value::as_str).map(str::to_owned)
        }
    }
}

/// What an error means, if the reply is one.
pub(super) fn error_of(reply: &Reply, body: &Value) -> Option<Classified> {
    let error = body.get("error").filter(|error| !error.is_null());
    let is_error = error.is_some()
        || !reply.status.is_success()
        // vLLM's older form, and DashScope's.
        || body.get("object").and_then(Value::as_str) == Some("error")
        || (body.get("choices").is_none() && body.get("code").is_some() && body.get("message").is_some());
    is_error.then(|| fault(reply, error.unwrap_or(body), &message_of(body)))
}

/// What an error object means.
fn fault(reply: &Reply, error: &Value, message: &str) -> Classified {
    let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let inner = error.get("innererror").and_then(|inner| inner.get("code")).and_then(Value::as_str);
    let words = [word("code"), word("type"), word("status"), inner.unwrap_or_default()];
    let is = |names: &[&str]| words.iter().any(|word| names.contains(word));
    if is(&[
        "content_filter",
        "content_policy_violation",
        "ResponsibleAIPolicyViolation",
        "data_inspection_failed",
    ]) || is(&["DataInspectionFailed"])
    {
        return Classified::filtered(Usage::default());
    }
    if is(&["insufficient_quota", "billing_hard_limit_reached", "Arrearage", "access_terminated"]) {
        return Classified::Fail { message: format!("the account's quota is used up: {message}") };
    }
    if !reply.status.is_success() {
        return reply.by_status(message);
    }
    // Status 200 with an error in the body: the code there is the status that should have been sent.
    let number =
        |key: &str| error.get(key).and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let code = number("code").or_else(|| number("status")).and_then(|code| u16::try_from(code).ok());
    match code.filter(|code| (400..600).contains(code)) {
        Some(code) => reply.by_code(code, message),
        None if is(&["rate_limit_exceeded", "rate_limit_error", "RateLimitExceeded", "Throttling"]) => {
            reply.by_code(429, message)
        }
        None if is(&["overloaded_error", "server_overloaded", "engine_overloaded"]) => {
            reply.by_code(503, message)
        }
        None if is(&["invalid_request_error", "BadRequestError", "InvalidParameter"]) => {
            reply.by_code(400, message)
        }
        None if is(&["authentication_error", "invalid_api_key", "InvalidApiKey"]) => {
            reply.by_code(401, message)
        }
        None if is(&["model_not_found", "NotFoundError", "ModelNotFound"]) => reply.by_code(404, message),
        None => reply.by_status(message),
    }
}

/// Whether a list of Azure's filter results holds one that filtered.
pub(super) fn filters_of(results: Option<&Value>) -> bool {
    match results {
        Some(Value::Object(object)) => {
            object.get("filtered").and_then(Value::as_bool) == Some(true)
                || object.values().any(|value| filters_of(Some(value)))
        }
        Some(Value::Array(items)) => items.iter().any(|item| filters_of(Some(item))),
        _ => false,
    }
}

fn usage(body: &Value) -> Usage {
    Usage {
        prompt_tokens: count(body, &["usage", "prompt_tokens"]),
        audio_tokens: count(body, &["usage", "prompt_tokens_details", "audio_tokens"]),
        completion_tokens: count(body, &["usage", "completion_tokens"]),
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
