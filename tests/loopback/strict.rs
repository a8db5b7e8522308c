//! Checks the exact wire form of each dialect (`--strict`): what the real servers refuse, and what they take
//! but hardly as it was meant (a format that the bytes are not).
//!
//! Each check gives one sentence that begins with the place in the body.

use serde_json::{Map, Value};

use super::dialect::Dialect;
use super::http::Head;
use super::multipart::Field;

type Check = Result<(), String>;

/// Whether the head of a request is as its dialect asks.
pub(crate) fn head(dialect: Dialect, head: &Head) -> Check {
    let content_type = head.header("content-type").unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let expected = if dialect == Dialect::Transcription { "multipart/form-data" } else { "application/json" };
    if !kind.eq_ignore_ascii_case(expected) {
        return Err(format!("content-type is `{content_type}`; expected {expected}"));
    }
    match dialect {
        Dialect::Azure if head.path.starts_with("/openai/deployments/") => {
            let version = head.parameter("api-version").unwrap_or_default();
            let date = version.get(..10).unwrap_or_default();
            let digits = date.bytes().enumerate().all(|(i, byte)| match i {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
            if date.is_empty() || !digits {
                return Err(format!(
                    "api-version is `{version}`; expected a version such as 2025-01-01-preview in the query"
                ));
            }
        }
        Dialect::Anthropic if head.header("anthropic-version") != Some("2023-06-01") => {
            return Err("anthropic-version: expected the header with 2023-06-01".to_owned());
        }
        _ => {}
    }
    let place = match dialect {
        Dialect::Azure => "api-key",
        Dialect::Gemini => "x-goog-api-key",
        Dialect::Anthropic => "x-api-key",
        _ => return Ok(()),
    };
    if dialect.key(head).is_none_or(str::is_empty) {
        Err(format!("{place}: expected the header with a key"))
    } else {
        Ok(())
    }
}

/// Whether a JSON body is as its dialect asks.
pub(crate) fn body(dialect: Dialect, body: &[u8]) -> Check {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not valid JSON: {error}"))?;
    let root = object(&value, "the body")?;
    match dialect {
        Dialect::Chat => chat(root, true),
        Dialect::Azure => chat(root, false),
        Dialect::Completions => completion(root),
        Dialect::Gemini => gemini(root),
        Dialect::Anthropic => anthropic(root),
        Dialect::Transcription => Ok(()),
    }
}

/// Whether a transcription's form is as it should be.
pub(crate) fn form(fields: &[Field<'_>]) -> Check {
    for field in fields {
        let name = field.name.as_str();
        let text = std::str::from_utf8(field.bytes).unwrap_or_default();
        if name != "file" && text.is_empty() {
            return Err(format!("{name}: expected a text"));
        }
        match name {
            "file" => {
                if field.file.as_deref().is_none_or(|file| !file.contains('.')) {
                    return Err(
                        "file: expected a file name with an ending, by which the format is known".to_owned()
                    );
                }
                let declared = field.content_type.as_deref().unwrap_or("application/octet-stream");
                let ending =
                    field.file.as_deref().and_then(|file| file.rsplit('.').next()).unwrap_or_default();
                sniffed(field.bytes, ending, "file")?;
                if declared != "application/octet-stream" && !declared.starts_with("audio/") {
                    return Err(format!("file: its content-type is `{declared}`; expected audio/…"));
                }
            }
            "temperature" => match text.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => {}
                _ => return Err(format!("temperature: `{text}` is not a number from 0 to 1")),
            },
            "response_format" => one_of(text, &["json", "text", "verbose_json", "srt", "vtt"], name)?,
            "language"
                if !(2..=3).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_lowercase()) =>
            {
                return Err(format!("language: `{text}` is not an ISO 639-1 code such as en"));
            }
            _ => {}
        }
    }
    for name in ["file", "model"] {
        match fields.iter().filter(|field| field.name == name).count() {
            1 => {}
            count => return Err(format!("{name}: expected one such field, found {count}")),
        }
    }
    Ok(())
}

fn chat(root: &Map<String, Value>, model: bool) -> Check {
    if model || root.contains_key("model") {
        text(root, "model", "")?;
    }
    sampling(root)?;
    if root.contains_key("max_tokens") && root.contains_key("max_completion_tokens") {
        return Err("max_tokens and max_completion_tokens: expected one of them".to_owned());
    }
    for (i, message) in array(root, "messages", "")?.iter().enumerate() {
        let at = format!("messages[{i}]");
        let message = object(message, &at)?;
        let role = text(message, "role", &at)?;
        one_of(role, &["system", "developer", "user", "assistant", "tool"], &format!("{at}.role"))?;
        match message.get("content") {
            Some(Value::String(_)) => {}
            Some(Value::Array(parts)) if !parts.is_empty() => {
                for (j, part) in parts.iter().enumerate() {
                    chat_part(object(part, &at)?, role, &format!("{at}.content[{j}]"))?;
                }
            }
            _ => return Err(format!("{at}.content: expected a text or a list of parts")),
        }
    }
    Ok(())
}

fn chat_part(part: &Map<String, Value>, role: &str, at: &str) -> Check {
    let kind = text(part, "type", at)?;
    if kind != "text" && role != "user" {
        return Err(format!("{at}: expected only text in a message of the {role}"));
    }
    only(part, &["type", kind], at)?;
    match kind {
        "text" => string(part, "text", at).map(|_| ()),
        "input_audio" => {
            let at = format!("{at}.input_audio");
            let audio = object(part.get("input_audio").unwrap_or(&Value::Null), &at)?;
            only(audio, &["data", "format"], &at)?;
            let data = text(audio, "data", &at)?;
            if data.starts_with("data:") {
                return Err(format!("{at}.data: bare base64 belongs here, not a data: URL"));
            }
            sniffed(
                &decoded_start(data, &format!("{at}.data"))?,
                text(audio, "format", &at)?,
                &format!("{at}.format"),
            )
        }
        "audio_url" | "image_url" => {
            let at = format!("{at}.{kind}");
            let url = object(part.get(kind).unwrap_or(&Value::Null), &at)?;
            if let Some(detail) = url.get("detail") {
                one_of(
                    detail.as_str().unwrap_or_default(),
                    &["auto", "low", "high"],
                    &format!("{at}.detail"),
                )?;
            }
            only(url, if kind == "audio_url" { &["url"] } else { &["url", "detail"] }, &at)?;
            let at = format!("{at}.url");
            let family = kind.split('_').next().unwrap_or_default();
            let (mime, data) = text(url, "url", &at)?
                .strip_prefix("data:")
                .and_then(|rest| rest.split_once(";base64,"))
                .ok_or_else(|| format!("{at}: expected data:{family}/…;base64,…"))?;
            if mime.split('/').next() != Some(family) {
                return Err(format!("{at}: its type is `{mime}`; expected {family}/…"));
            }
            sniffed(&decoded_start(data, &at)?, mime, &at)
        }
        _ => Err(format!("{at}.type: `{kind}` is none of text, input_audio, audio_url, image_url")),
    }
}

fn completion(root: &Map<String, Value>) -> Check {
    text(root, "model", "")?;
    sampling(root)?;
    match root.get("prompt") {
        Some(Value::String(_)) => Ok(()),
        _ => Err("prompt: expected one text".to_owned()),
    }
}

/// Settings that chat and raw completions share.
fn sampling(root: &Map<String, Value>) -> Check {
    number(root, "temperature", 0.0, 2.0)?;
    number(root, "top_p", f64::MIN_POSITIVE, 1.0)?;
    number(root, "repetition_penalty", f64::MIN_POSITIVE, 2.0)?;
    number(root, "frequency_penalty", -2.0, 2.0)?;
    number(root, "presence_penalty", -2.0, 2.0)?;
    whole(root, "max_tokens", 1)?;
    whole(root, "max_completion_tokens", 1)?;
    whole(root, "n", 1)?;
    whole(root, "seed", i64::MIN)?;
    whole(root, "top_k", -1)?;
    match root.get("stop") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(Value::Array(stops)) if stops.iter().all(Value::is_string) => {}
        Some(_) => return Err("stop: expected a text or a list of texts".to_owned()),
    }
    let stream = match root.get("stream") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(stream)) => *stream,
        Some(_) => return Err("stream: expected true or false".to_owned()),
    };
    if root.get("stream_options").is_some_and(|options| !options.is_null()) && !stream {
        return Err("stream_options: only allowed with stream = true".to_owned());
    }
    Ok(())
}

fn gemini(root: &Map<String, Value>) -> Check {
    let fields = [
        "contents",
        "systemInstruction",
        "system_instruction",
        "generationConfig",
        "generation_config",
        "safetySettings",
        "safety_settings",
        "tools",
        "toolConfig",
        "cachedContent",
        "labels",
    ];
    only(root, &fields, "the body")?;
    if let Some(config) = root.get("generationConfig").or_else(|| root.get("generation_config")) {
        let at = "generationConfig";
        let config = object(config, at)?;
        let fields = [
            "temperature",
            "topP",
            "topK",
            "maxOutputTokens",
            "stopSequences",
            "seed",
            "candidateCount",
            "responseMimeType",
            "responseSchema",
            "presencePenalty",
            "frequencyPenalty",
            "thinkingConfig",
            "mediaResolution",
            "responseModalities",
            "responseLogprobs",
            "logprobs",
        ];
        only(config, &fields, at)?;
        number(config, "temperature", 0.0, 2.0)?;
        number(config, "topP", 0.0, 1.0)?;
        whole(config, "topK", 1)?;
        whole(config, "maxOutputTokens", 1)?;
        whole(config, "seed", i64::from(i32::MIN))?;
    }
    for key in ["systemInstruction", "system_instruction"] {
        if let Some(system) = root.get(key) {
            for (i, part) in array(object(system, key)?, "parts", key)?.iter().enumerate() {
                let at = format!("{key}.parts[{i}]");
                string(object(part, &at)?, "text", &at)?;
            }
        }
    }
    for (i, content) in array(root, "contents", "")?.iter().enumerate() {
        let at = format!("contents[{i}]");
        let content = object(content, &at)?;
        only(content, &["role", "parts"], &at)?;
        if let Some(role) = content.get("role") {
            one_of(role.as_str().unwrap_or_default(), &["user", "model"], &format!("{at}.role"))?;
        }
        for (j, part) in array(content, "parts", &at)?.iter().enumerate() {
            let at = format!("{at}.parts[{j}]");
            let part = object(part, &at)?;
            only(part, &["text", "inlineData", "inline_data"], &at)?;
            if part.len() != 1 {
                return Err(format!("{at}: expected one of text and inline_data"));
            }
            let Some(data) = part.get("inlineData").or_else(|| part.get("inline_data")) else {
                string(part, "text", &at)?;
                continue;
            };
            let at = format!("{at}.inline_data");
            let data = object(data, &at)?;
            only(data, &["mimeType", "mime_type", "data"], &at)?;
            let mime = text(data, if data.contains_key("mimeType") { "mimeType" } else { "mime_type" }, &at)?;
            sniffed(&decoded_start(text(data, "data", &at)?, &at)?, mime, &at)?;
        }
    }
    Ok(())
}

fn anthropic(root: &Map<String, Value>) -> Check {
    let fields = [
        "model",
        "messages",
        "max_tokens",
        "system",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "stream",
        "metadata",
        "thinking",
        "tools",
        "tool_choice",
        "service_tier",
    ];
    only(root, &fields, "the body")?;
    text(root, "model", "")?;
    if !root.contains_key("max_tokens") {
        return Err("max_tokens: this field is required".to_owned());
    }
    whole(root, "max_tokens", 1)?;
    number(root, "temperature", 0.0, 1.0)?;
    number(root, "top_p", 0.0, 1.0)?;
    whole(root, "top_k", 0)?;
    match root.get("system") {
        None | Some(Value::String(_)) => {}
        Some(Value::Array(blocks)) => {
            for (i, block) in blocks.iter().enumerate() {
                anthropic_block(block, false, &format!("system[{i}]"))?;
            }
        }
        Some(_) => return Err("system: expected a text or a list of text blocks".to_owned()),
    }
    for (i, message) in array(root, "messages", "")?.iter().enumerate() {
        let at = format!("messages[{i}]");
        let message = object(message, &at)?;
        let role = text(message, "role", &at)?;
        one_of(role, &["user", "assistant"], &format!("{at}.role"))?;
        if i == 0 && role != "user" {
            return Err(format!("{at}.role: expected the first message to be the user's"));
        }
        match message.get("content") {
            Some(Value::String(text)) if !text.is_empty() => {}
            Some(Value::Array(blocks)) if !blocks.is_empty() => {
                for (j, block) in blocks.iter().enumerate() {
                    anthropic_block(block, role == "user", &format!("{at}.content[{j}]"))?;
                }
            }
            _ => return Err(format!("{at}.content: expected a text or a list of blocks, not empty")),
        }
    }
    Ok(())
}

fn anthropic_block(block: &Value, images: bool, at: &str) -> Check {
    let block = object(block, at)?;
    match text(block, "type", at)? {
        "text" => text(block, "text", at).map(|_| ()),
        "image" if images => {
            let at = format!("{at}.source");
            let source = object(block.get("source").unwrap_or(&Value::Null), &at)?;
            only(source, &["type", "media_type", "data"], &at)?;
            one_of(text(source, "type", &at)?, &["base64"], &format!("{at}.type"))?;
            let mime = text(source, "media_type", &at)?;
            let allowed = ["image/jpeg", "image/png", "image/gif", "image/webp"];
            one_of(mime, &allowed, &format!("{at}.media_type"))?;
            sniffed(&decoded_start(text(source, "data", &at)?, &at)?, mime, &at)
        }
        kind => Err(format!(
            "{at}.type: `{kind}` is not allowed here; expected text or, in a user's message, image"
        )),
    }
}

/// Checks that a text is base64 through and through, and gives its first bytes.
fn decoded_start(data: &str, at: &str) -> Result<Vec<u8>, String> {
    let digits = data.trim_end_matches('=');
    // Without an early end the compiler checks many bytes at once.
    let invalid = digits.bytes().fold(false, |invalid, byte| {
        invalid | !(byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
    });
    if data.is_empty() || !data.len().is_multiple_of(4) || data.len() - digits.len() > 2 || invalid {
        return Err(format!("{at}: expected standard base64 with padding"));
    }
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let start = digits.as_bytes().chunks_exact(4).take(8);
    Ok(start
        .flat_map(|group| {
            let bits = group.iter().fold(0_u32, |bits, byte| bits << 6 | u32::from(value(*byte)));
            [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]
        })
        .collect())
}

/// Checks that bytes are what they are declared to be: a format, an ending or a MIME type.
fn sniffed(bytes: &[u8], declared: &str, at: &str) -> Check {
    let riff = |kind: &[u8]| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(kind);
    let found: &[&str] = if riff(b"WAVE") {
        &["wav", "audio/wav", "audio/x-wav", "audio/wave"]
    } else if riff(b"WEBP") {
        &["image/webp"]
    } else if bytes.starts_with(b"fLaC") {
        &["flac", "audio/flac", "audio/x-flac"]
    } else if bytes.starts_with(b"OggS") {
        &["ogg", "opus", "oga", "audio/ogg", "audio/opus"]
    } else if bytes.starts_with(b"\x89PNG") {
        &["image/png"]
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        &["image/jpeg"]
    } else if bytes.starts_with(b"GIF8") {
        &["image/gif"]
    } else if bytes.starts_with(b"ID3") || matches!(bytes, [0xff, second, ..] if second & 0xe0 == 0xe0) {
        &["mp3", "mpeg", "mpga", "audio/mp3", "audio/mpeg"]
    } else {
        return Err(format!("{at}: declared `{declared}`, but its first bytes are of no known format"));
    };
    if found.contains(&declared) {
        Ok(())
    } else {
        Err(format!("{at}: declared `{declared}`, but its bytes are {}", found[0]))
    }
}

fn path(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{at}: expected an object"))
}

fn array<'a>(object: &'a Map<String, Value>, key: &str, at: &str) -> Result<&'a Vec<Value>, String> {
    let array = object.get(key).and_then(Value::as_array).filter(|array| !array.is_empty());
    array.ok_or_else(|| format!("{}: expected a list that is not empty", path(at, key)))
}

fn string<'a>(object: &'a Map<String, Value>, key: &str, at: &str) -> Result<&'a str, String> {
    object.get(key).and_then(Value::as_str).ok_or_else(|| format!("{}: expected a text", path(at, key)))
}

fn text<'a>(object: &'a Map<String, Value>, key: &str, at: &str) -> Result<&'a str, String> {
    match string(object, key, at)? {
        "" => Err(format!("{}: expected a text that is not empty", path(at, key))),
        text => Ok(text),
    }
}

fn one_of(value: &str, allowed: &[&str], at: &str) -> Check {
    if allowed.contains(&value) {
        Ok(())
    } else {
        Err(format!("{at}: `{value}` is none of {}", allowed.join(", ")))
    }
}

fn only(object: &Map<String, Value>, allowed: &[&str], at: &str) -> Check {
    match object.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(key) => Err(format!("{at}: unknown field `{key}`")),
        None => Ok(()),
    }
}

fn number(object: &Map<String, Value>, key: &str, low: f64, high: f64) -> Check {
    match object.get(key) {
        None | Some(Value::Null) => Ok(()),
        Some(value) if value.as_f64().is_some_and(|number| (low..=high).contains(&number)) => Ok(()),
        Some(value) => Err(format!("{key}: {value} is out of range")),
    }
}

fn whole(object: &Map<String, Value>, key: &str, low: i64) -> Check {
    match object.get(key) {
        None | Some(Value::Null) => Ok(()),
        Some(value) if value.as_i64().is_some_and(|number| number >= low) => Ok(()),
        Some(value) => Err(format!("{key}: {value} is not a whole number in range")),
    }
}

#[cfg(test)]
mod tests;
