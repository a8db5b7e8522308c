//! What passes the strict checks and what does not.

use super::super::content::base64;
use super::*;
use serde_json::json;

fn wav() -> String {
    base64(b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0")
}

fn check(dialect: Dialect, value: &Value) -> Check {
    body(dialect, value.to_string().as_bytes())
}

fn chat_with(part: &Value) -> Value {
    json!({"model": "m", "temperature": 0.0, "max_tokens": 8, "messages": [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "?"}, part]}]})
}

#[test]
fn right_bodies_pass() {
    let audio = json!({"type": "input_audio", "input_audio": {"data": wav(), "format": "wav"}});
    let url = json!({"type": "audio_url", "audio_url": {"url": format!("data:audio/wav;base64,{}", wav())}});
    let png = base64(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{png}"), "detail": "low"}});
    for part in [audio, url, image] {
        assert_eq!(check(Dialect::Chat, &chat_with(&part)), Ok(()), "{part}");
    }
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "?"}, {"inline_data": {"mime_type": "audio/wav", "data": wav()}}]}],
        "systemInstruction": {"parts": [{"text": "s"}]}, "generationConfig": {"temperature": 0, "maxOutputTokens": 5}});
    assert_eq!(check(Dialect::Gemini, &gemini), Ok(()));
    let anthropic = json!({"model": "c", "max_tokens": 5, "system": "s", "messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}}, {"type": "text", "text": "?"}]}]});
    assert_eq!(check(Dialect::Anthropic, &anthropic), Ok(()));
    assert_eq!(check(Dialect::Completions, &json!({"model": "m", "prompt": "a"})), Ok(()));
}

#[test]
fn wrong_parts_get_a_sentence() {
    let cases = [
        (
            json!({"type": "input_audio", "input_audio": {"data": format!("data:audio/wav;base64,{}", wav()), "format": "wav"}}),
            "bare base64",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": wav(), "format": "mp3"}}),
            "its bytes are wav",
        ),
        (json!({"type": "input_audio", "input_audio": {"data": "UklGRg", "format": "wav"}}), "padding"),
        (json!({"type": "input_audio", "input_audio": {"data": "A==="}}), "padding"),
        (json!({"type": "input_audio", "audio": {}}), "unknown field"),
        (json!({"type": "audio_url", "audio_url": {"url": "http://x/a.wav"}}), "data:audio/"),
        (
            json!({"type": "audio_url", "audio_url": {"url": format!("data:image/png;base64,{}", wav())}}),
            "expected audio/",
        ),
        (
            json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{}", base64(b"\xff\xd8\xff\xe0zz"))}}),
            "image/jpeg",
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "max"}}),
            "detail",
        ),
        (json!({"type": "audio", "audio": "x"}), "none of"),
    ];
    for (part, expected) in cases {
        let error = check(Dialect::Chat, &chat_with(&part)).unwrap_err();
        assert!(error.contains(expected) && error.starts_with("messages[1].content[1]"), "{part}: {error}");
    }
}

#[test]
fn wrong_bodies_get_a_sentence() {
    let message = json!([{"role": "user", "content": "?"}]);
    let cases = [
        (Dialect::Chat, json!({"messages": message}), "model"),
        (Dialect::Chat, json!({"model": "m", "messages": []}), "messages"),
        (
            Dialect::Chat,
            json!({"model": "m", "messages": [{"role": "bot", "content": "?"}]}),
            "messages[0].role",
        ),
        (Dialect::Chat, json!({"model": "m", "messages": message, "temperature": "0"}), "temperature"),
        (
            Dialect::Chat,
            json!({"model": "m", "messages": message, "max_tokens": 1, "max_completion_tokens": 1}),
            "max_tokens",
        ),
        (Dialect::Chat, json!({"model": "m", "messages": message, "stream_options": {}}), "stream_options"),
        (Dialect::Chat, json!({"model": "m", "messages": message, "seed": 1.5}), "seed"),
        (Dialect::Completions, json!({"model": "m", "prompt": null}), "prompt"),
        (Dialect::Gemini, json!({"contents": [], "model": "m"}), "the body: unknown field `model`"),
        (
            Dialect::Gemini,
            json!({"contents": [{"role": "assistant", "parts": [{"text": "?"}]}]}),
            "contents[0].role",
        ),
        (
            Dialect::Gemini,
            json!({"contents": [{"parts": [{"text": "?"}]}], "generationConfig": {"max_tokens": 1}}),
            "generationConfig",
        ),
        (Dialect::Anthropic, json!({"model": "m", "messages": message}), "max_tokens"),
        (
            Dialect::Anthropic,
            json!({"model": "m", "max_tokens": 1, "seed": 1, "messages": message}),
            "the body: unknown field `seed`",
        ),
        (
            Dialect::Anthropic,
            json!({"model": "m", "max_tokens": 1, "messages": [{"role": "system", "content": "?"}]}),
            "messages[0].role",
        ),
        (
            Dialect::Anthropic,
            json!({"model": "m", "max_tokens": 1, "temperature": 1.5, "messages": message}),
            "temperature",
        ),
    ];
    for (dialect, value, expected) in cases {
        let error = check(dialect, &value).unwrap_err();
        assert!(error.starts_with(expected), "{value}: {error}");
    }
    assert!(body(Dialect::Chat, b"{\"model\": \"\\ud800\"}").is_err());
}

#[test]
fn base64_is_told_from_everything_else() {
    for byte in 0..=127_u8 {
        let text = format!("AAAA{}AAA", char::from(byte));
        let expected = byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
        assert_eq!(decoded_start(&text, "x").is_ok(), expected, "{byte}");
    }
    assert_eq!(decoded_start("Zm9vYmFy", "x").unwrap(), b"foobar");
    assert!(decoded_start("AAAAAAé", "x").is_err());
}
