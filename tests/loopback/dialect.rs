//! The paths and the response shapes of the dialects, as their servers write them.

use std::time::Duration;

use serde_json::{Value, json};

use super::content::Sum;
use super::http::{Head, Reply};

/// The time that all responses bear, so that equal requests get equal bytes: 14 November 2023.
const CREATED: u64 = 1_700_000_000;

/// Who is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Chat completions of `OpenAI`, vLLM, `SGLang`, llama.cpp…
    Chat,
    /// Raw completions.
    Completions,
    /// Chat completions of Azure.
    Azure,
    /// Gemini's `generateContent`.
    Gemini,
    /// Anthropic's messages.
    Anthropic,
    /// `OpenAI`'s transcriptions.
    Transcription,
}

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// An answer of a model; the model's name where it is in the path.
    Answer(Dialect, Option<String>),
    /// The list of models, or one of them.
    Models(Dialect, Option<String>),
    /// The server's counters.
    Counters,
    /// The end.
    Shutdown,
    /// A sign of life.
    Health,
    /// A path that exists, asked with the wrong method.
    WrongMethod(&'static str),
    /// Nothing.
    Unknown,
}

impl Route {
    /// What a request asks for.
    pub(crate) fn of(head: &Head) -> Self {
        let path = head.path.trim_end_matches('/');
        let listing = || {
            let asker =
                if head.header("anthropic-version").is_some() { Dialect::Anthropic } else { Dialect::Chat };
            if path.starts_with("/v1beta/") { Dialect::Gemini } else { asker }
        };
        let (route, method) = match path {
            "/v1/chat/completions" => (Self::Answer(Dialect::Chat, None), "POST"),
            "/openai/v1/chat/completions" => (Self::Answer(Dialect::Azure, None), "POST"),
            "/v1/completions" => (Self::Answer(Dialect::Completions, None), "POST"),
            "/v1/messages" => (Self::Answer(Dialect::Anthropic, None), "POST"),
            "/v1/audio/transcriptions" => (Self::Answer(Dialect::Transcription, None), "POST"),
            "/v1/models" | "/v1beta/models" => (Self::Models(listing(), None), "GET"),
            "/counters" => (Self::Counters, "GET"),
            "/shutdown" => (Self::Shutdown, "POST"),
            "/health" => (Self::Health, "GET"),
            _ => {
                if let Some(model) =
                    path.strip_prefix("/v1beta/models/").or_else(|| path.strip_prefix("/v1/models/"))
                {
                    match model.strip_suffix(":generateContent") {
                        Some(model) => (Self::Answer(Dialect::Gemini, Some(model.to_owned())), "POST"),
                        None if model.contains(':') => return Self::Unknown,
                        None => (Self::Models(listing(), Some(model.to_owned())), "GET"),
                    }
                } else if let Some((deployment, "chat/completions")) =
                    path.strip_prefix("/openai/deployments/").and_then(|rest| rest.split_once('/'))
                {
                    (Self::Answer(Dialect::Azure, Some(deployment.to_owned())), "POST")
                } else {
                    return Self::Unknown;
                }
            }
        };
        if head.method == method { route } else { Self::WrongMethod(method) }
    }
}

impl Dialect {
    /// The key that a request bears, in the place where this dialect has it.
    pub(crate) fn key(self, head: &Head) -> Option<&str> {
        let bearer = || head.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        match self {
            Self::Chat | Self::Completions | Self::Transcription => bearer(),
            Self::Azure => head.header("api-key").or_else(bearer),
            Self::Gemini => head.header("x-goog-api-key").or_else(|| head.parameter("key")),
            Self::Anthropic => head.header("x-api-key"),
        }
    }

    /// The body of an error.
    pub(crate) fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::Chat | Self::Completions | Self::Transcription => {
                let (kind, code) = match status {
                    401 => ("invalid_request_error", "invalid_api_key"),
                    403 => ("permission_error", "forbidden"),
                    404 => ("invalid_request_error", "model_not_found"),
                    408 => ("timeout", "request_timeout"),
                    413 => ("invalid_request_error", "request_too_large"),
                    429 => ("requests", "rate_limit_exceeded"),
                    500.. => ("server_error", "server_error"),
                    _ => ("invalid_request_error", "invalid_request"),
                };
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Self::Azure => json!({"error": {"code": status.to_string(), "message": message}}),
            Self::Gemini => {
                let name = match status {
                    401 => "UNAUTHENTICATED",
                    403 => "PERMISSION_DENIED",
                    404 => "NOT_FOUND",
                    408 => "DEADLINE_EXCEEDED",
                    409 => "ABORTED",
                    429 => "RESOURCE_EXHAUSTED",
                    500 => "INTERNAL",
                    501.. => "UNAVAILABLE",
                    _ => "INVALID_ARGUMENT",
                };
                json!({"error": {"code": status, "message": message, "status": name}})
            }
            Self::Anthropic => {
                let kind = match status {
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    408 => "timeout_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    503 | 529 => "overloaded_error",
                    500.. => "api_error",
                    _ => "invalid_request_error",
                };
                json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"})
            }
        }
    }

    /// The response to a prompt that the filter refused.
    pub(crate) fn prompt_filtered(self, model: &str) -> Reply {
        let message = "The prompt was filtered (the loopback server was told to).";
        match self {
            Self::Azure => Reply::json(
                400,
                &json!({"error": {"message": message, "type": null, "param": "prompt", "code": "content_filter", "status": 400,
                    "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {
                        "hate": {"filtered": true, "severity": "high"}, "violence": {"filtered": false, "severity": "safe"}}}}}),
            ),
            Self::Gemini => Reply::json(
                200,
                &json!({"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": model,
                    "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1}}),
            ),
            Self::Anthropic => {
                Reply::json(400, &self.error(400, "Output blocked by content filtering policy"))
            }
            Self::Chat | Self::Completions | Self::Transcription => Reply::json(
                400,
                &json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": "content_filter"}}),
            ),
        }
    }

    /// A 429 that says in this dialect's own way when the limit resets, without `Retry-After`.
    pub(crate) fn limit_reset(self, wait: Duration) -> Reply {
        let seconds = wait.as_secs_f64();
        let mut body = self.error(429, "Rate limit reached");
        let mut headers = Vec::new();
        match self {
            Self::Anthropic => {
                let at = jiff::Timestamp::now().checked_add(wait).unwrap_or_default();
                headers.push(("anthropic-ratelimit-requests-remaining", "0".to_owned()));
                headers.push(("anthropic-ratelimit-requests-reset", at.to_string()));
            }
            Self::Gemini => {
                body["error"]["details"] = json!([{
                    "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")}]);
            }
            Self::Azure => {
                headers.push(("x-ratelimit-remaining-requests", "0".to_owned()));
                headers.push(("x-ratelimit-reset-requests", wait.as_secs_f64().ceil().to_string()));
            }
            Self::Chat | Self::Completions | Self::Transcription => {
                let reset = if wait.as_millis() < 1000 {
                    format!("{}ms", wait.as_millis())
                } else {
                    format!("{seconds}s")
                };
                headers.push(("x-ratelimit-remaining-requests", "0".to_owned()));
                headers.push(("x-ratelimit-reset-requests", reset));
            }
        }
        let mut reply = Reply::json(429, &body);
        reply.headers = headers;
        reply
    }

    /// The list of models, or one of them.
    pub(crate) fn models(self, names: &[String], one: Option<&str>) -> Reply {
        let item = |name: &str| match self {
            Self::Gemini => json!({"name": format!("models/{name}"), "displayName": name, "version": "1",
                "inputTokenLimit": 1_048_576, "outputTokenLimit": 8192, "supportedGenerationMethods": ["generateContent"]}),
            Self::Anthropic => {
                json!({"type": "model", "id": name, "display_name": name, "created_at": "2023-11-14T22:13:20Z"})
            }
            _ => json!({"id": name, "object": "model", "created": CREATED, "owned_by": "loopback"}),
        };
        if let Some(one) = one {
            if !names.is_empty() && !names.iter().any(|name| name == one) {
                return Reply::json(404, &self.error(404, &format!("The model `{one}` does not exist")));
            }
            return Reply::json(200, &item(one));
        }
        if names.is_empty() {
            return Reply::json(404, &self.error(404, "every model is served: there is no list"));
        }
        let items: Vec<_> = names.iter().map(|name| item(name)).collect();
        let body = match self {
            Self::Gemini => json!({ "models": items }),
            Self::Anthropic => json!({"data": items, "has_more": false}),
            _ => json!({"object": "list", "data": items}),
        };
        Reply::json(200, &body)
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// By itself.
    Stop,
    /// At the token limit.
    Length,
    /// By the filter.
    Filter,
    /// By the model's refusal.
    Refusal,
    /// Without any choice.
    NoChoice,
}

/// An answer before it has a shape.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// Who answers.
    pub(crate) model: &'a str,
    /// The key of the request's content.
    pub(crate) key: u64,
    /// The text.
    pub(crate) text: &'a str,
    /// How it ended.
    pub(crate) finish: Finish,
    /// What the prompt's tokens are counted from.
    pub(crate) sum: Sum,
}

/// What a model says instead of an answer.
const REFUSAL: &str = "I can't help with that.";

impl Turn<'_> {
    fn completion_tokens(&self) -> u64 {
        (self.text.len() as u64).div_ceil(4)
    }

    fn prompt_tokens(&self) -> u64 {
        self.sum.text_tokens() + self.sum.audio_tokens() + self.sum.image_tokens()
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens(), self.completion_tokens());
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": {"audio_tokens": self.sum.audio_tokens(), "cached_tokens": 0},
            "completion_tokens_details": {"audio_tokens": 0, "reasoning_tokens": 0}})
    }

    fn finish_reason(&self) -> &'static str {
        match self.finish {
            Finish::Length => "length",
            Finish::Filter => "content_filter",
            Finish::Stop | Finish::Refusal | Finish::NoChoice => "stop",
        }
    }

    /// The response in one piece.
    pub(crate) fn whole(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::Chat | Dialect::Azure => self.chat(dialect),
            Dialect::Completions => self.completion("cmpl"),
            Dialect::Gemini => self.gemini(),
            Dialect::Anthropic => self.anthropic(),
            Dialect::Transcription => self.transcription(),
        }
    }

    fn chat(&self, dialect: Dialect) -> Value {
        let (content, refusal) = match self.finish {
            Finish::Refusal => (Value::Null, json!(REFUSAL)),
            Finish::Filter => (Value::Null, Value::Null),
            _ => (json!(self.text), Value::Null),
        };
        let mut choice = json!({"index": 0, "message": {"role": "assistant", "content": content, "refusal": refusal},
            "logprobs": null, "finish_reason": self.finish_reason()});
        let mut body = json!({"id": format!("chatcmpl-{:016x}", self.key), "object": "chat.completion", "created": CREATED,
            "model": self.model, "choices": [], "usage": self.usage(), "system_fingerprint": "fp_loopback"});
        if dialect == Dialect::Azure {
            let filtered = self.finish == Finish::Filter;
            choice["content_filter_results"] =
                json!({"hate": {"filtered": filtered, "severity": if filtered { "high" } else { "safe" }}});
            body["prompt_filter_results"] = json!([{"prompt_index": 0, "content_filter_results": {
                "hate": {"filtered": false, "severity": "safe"}}}]);
        }
        if self.finish != Finish::NoChoice {
            body["choices"] = json!([choice]);
        }
        body
    }

    fn completion(&self, prefix: &str) -> Value {
        let text = if matches!(self.finish, Finish::Filter | Finish::Refusal) { "" } else { self.text };
        let reason = if self.finish == Finish::Refusal { "content_filter" } else { self.finish_reason() };
        let choices = match self.finish {
            Finish::NoChoice => json!([]),
            _ => json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": reason}]),
        };
        json!({"id": format!("{prefix}-{:016x}", self.key), "object": "text_completion", "created": CREATED,
            "model": self.model, "choices": choices, "usage": self.usage()})
    }

    fn gemini(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens(), self.completion_tokens());
        let mut details = vec![json!({"modality": "TEXT", "tokenCount": self.sum.text_tokens()})];
        for (modality, tokens) in [("AUDIO", self.sum.audio_tokens()), ("IMAGE", self.sum.image_tokens())] {
            if tokens > 0 {
                details.push(json!({"modality": modality, "tokenCount": tokens}));
            }
        }
        let reason = match self.finish {
            Finish::Length => "MAX_TOKENS",
            Finish::Filter => "SAFETY",
            Finish::Refusal => "PROHIBITED_CONTENT",
            Finish::Stop | Finish::NoChoice => "STOP",
        };
        let mut candidate = json!({"finishReason": reason, "index": 0});
        if !matches!(self.finish, Finish::Filter | Finish::Refusal) {
            candidate["content"] = json!({"role": "model", "parts": [{"text": self.text}]});
        }
        let mut body = json!({"usageMetadata": {"promptTokenCount": prompt, "candidatesTokenCount": completion,
                "totalTokenCount": prompt + completion, "promptTokensDetails": details},
            "modelVersion": self.model, "responseId": format!("{:016x}", self.key)});
        if self.finish != Finish::NoChoice {
            body["candidates"] = json!([candidate]);
        }
        body
    }

    fn anthropic(&self) -> Value {
        let reason = match self.finish {
            Finish::Length => "max_tokens",
            Finish::Filter | Finish::Refusal => "refusal",
            Finish::Stop | Finish::NoChoice => "end_turn",
        };
        let content = match self.finish {
            Finish::Stop | Finish::Length => json!([{"type": "text", "text": self.text}]),
            Finish::Filter | Finish::Refusal | Finish::NoChoice => json!([]),
        };
        json!({"id": format!("msg_{:016x}", self.key), "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": reason, "stop_sequence": null,
            "usage": {"input_tokens": self.prompt_tokens(), "output_tokens": self.completion_tokens(),
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}})
    }

    fn transcription(&self) -> Value {
        let (input, output) = (self.prompt_tokens(), self.completion_tokens());
        let usage = json!({"type": "tokens", "input_tokens": input, "output_tokens": output, "total_tokens": input + output,
            "input_token_details": {"text_tokens": self.sum.text_tokens(), "audio_tokens": self.sum.audio_tokens()}});
        if self.finish == Finish::NoChoice {
            json!({ "usage": usage })
        } else {
            json!({"text": self.text, "usage": usage})
        }
    }

    /// The response as server-sent events of the dialects that stream here.
    pub(crate) fn events(&self, dialect: Dialect, include_usage: bool) -> Vec<u8> {
        let raw = dialect == Dialect::Completions;
        let (prefix, object) =
            if raw { ("cmpl", "text_completion") } else { ("chatcmpl", "chat.completion.chunk") };
        let chunk = |choices: Value| {
            json!({"id": format!("{prefix}-{:016x}", self.key), "object": object, "created": CREATED,
                "model": self.model, "choices": choices})
        };
        let choice = |field: &str, text: &str, finish: Value| {
            if raw {
                json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}])
            } else {
                json!([{"index": 0, "delta": {field: text}, "logprobs": null, "finish_reason": finish}])
            }
        };
        let mut chunks = Vec::new();
        let (field, text) = match self.finish {
            Finish::Refusal => ("refusal", REFUSAL),
            Finish::Filter => ("content", ""),
            _ => ("content", self.text),
        };
        if self.finish == Finish::NoChoice {
            chunks.push(chunk(json!([])));
        } else {
            if !raw {
                chunks.push(chunk(json!([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}])));
            }
            let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            for part in [&text[..middle], &text[middle..]].into_iter().filter(|part| !part.is_empty()) {
                chunks.push(chunk(choice(field, part, Value::Null)));
            }
            let finish = json!(self.finish_reason());
            chunks.push(chunk(if raw {
                choice("", "", finish)
            } else {
                json!([{"index": 0, "delta": {}, "finish_reason": finish}])
            }));
        }
        if include_usage {
            let mut last = chunk(json!([]));
            last["usage"] = self.usage();
            chunks.push(last);
        }
        sse(&chunks)
    }
}

/// Server-sent events, closed as `OpenAI` closes them.
pub(crate) fn sse(chunks: &[Value]) -> Vec<u8> {
    let mut out = String::new();
    for chunk in chunks {
        out.push_str("data: ");
        out.push_str(&chunk.to_string());
        out.push_str("\n\n");
    }
    out.push_str("data: [DONE]\n\n");
    out.into_bytes()
}
