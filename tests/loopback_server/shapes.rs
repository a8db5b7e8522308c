//! Each dialect's requests are understood and its responses have the shape of the real server's.

use serde_json::{Value, json};

use crate::client::{CHAT, Client, Response, chat, clip, get, post, server};
use crate::loopback::{Piece, base64, right_answer};

/// The right answer to a question about the clip, in all JSON dialects.
fn right(question: &str) -> String {
    right_answer(&[Piece::Text(question), Piece::Media(base64(&clip()).as_bytes())])
}

/// Tokens of the clip, as documented.
fn clip_tokens() -> u64 {
    (clip().len() as u64).div_ceil(1280)
}

fn events(response: &Response) -> Vec<Value> {
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let mut events: Vec<_> =
        response.text().split("\n\n").map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!((events.pop(), events.pop()), (Some(None), Some(Some("[DONE]"))));
    events.into_iter().map(|event| serde_json::from_str(event.unwrap()).unwrap()).collect()
}

#[test]
fn chat_completions() {
    let server = server("--strict");
    let response = post(&server, CHAT, "", &chat("what?")).unwrap();
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let body = response.json();
    assert_eq!(body["choices"][0]["message"]["content"], right("what?"));
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("m")));
    assert_eq!(body["usage"]["prompt_tokens_details"]["audio_tokens"], clip_tokens());
    assert_eq!(body["usage"]["prompt_tokens"], clip_tokens() + 2);
    assert_eq!(body["usage"]["completion_tokens"], (right("what?").len() as u64).div_ceil(4));
}

#[test]
fn chat_with_data_urls() {
    let server = server("--strict");
    let audio = base64(&clip());
    let png = base64(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR and so on");
    let body = json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [
        {"type": "audio_url", "audio_url": {"url": format!("data:audio/wav;base64,{audio}")}},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{png}")}},
        {"type": "text", "text": "what?"}]}]});
    let body = post(&server, CHAT, "", &body).unwrap().json();
    let pieces = [
        Piece::Text("s"),
        Piece::Media(audio.as_bytes()),
        Piece::Media(png.as_bytes()),
        Piece::Text("what?"),
    ];
    assert_eq!(body["choices"][0]["message"]["content"], right_answer(&pieces));
    // One token for the image, one for `s`, two for the question: texts are counted together.
    assert_eq!(body["usage"]["prompt_tokens"], clip_tokens() + 1 + 2);
}

#[test]
fn streamed_chat() {
    let server = server("--strict");
    let mut body = chat("what?");
    body["stream"] = json!(true);
    let without = events(&post(&server, CHAT, "", &body).unwrap());
    body["stream_options"] = json!({"include_usage": true});
    let with = events(&post(&server, CHAT, "", &body).unwrap());
    assert_eq!(with.len(), without.len() + 1);
    let text: String =
        with.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, right("what?"));
    let reasons: Vec<_> =
        with.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["stop"]);
    let last = with.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["prompt_tokens"]), (&json!([]), &json!(clip_tokens() + 2)));
    assert!(without.iter().all(|event| event["usage"].is_null()));
}

#[test]
fn raw_completions() {
    let server = server("--strict");
    let mut body = json!({"model": "m", "prompt": "<|im_start|>"});
    let whole = post(&server, "/v1/completions", "", &body).unwrap().json();
    let right = right_answer(&[Piece::Text("<|im_start|>")]);
    assert_eq!((&whole["choices"][0]["text"], &whole["object"]), (&json!(right), &json!("text_completion")));
    body["stream"] = json!(true);
    let events = events(&post(&server, "/v1/completions", "", &body).unwrap());
    let text: String = events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, right);
}

#[test]
fn azure() {
    let server = server("--strict --key k");
    let path = "/openai/deployments/gpt/chat/completions";
    let mut body = chat("what?");
    body.as_object_mut().unwrap().remove("model");
    let right_path = format!("{path}?api-version=2025-01-01-preview");
    let response = post(&server, &right_path, "api-key: k\r\n", &body).unwrap();
    let answer = response.json();
    assert_eq!(answer["choices"][0]["message"]["content"], right("what?"));
    assert_eq!(answer["choices"][0]["content_filter_results"]["hate"]["filtered"], false);
    assert_eq!(answer["model"], "gpt");
    let unversioned = post(&server, path, "api-key: k\r\n", &body).unwrap();
    assert_eq!(unversioned.status, 400);
    assert!(unversioned.text().contains("api-version"), "{}", unversioned.text());
    let keyless = post(&server, &right_path, "", &body).unwrap();
    assert_eq!((keyless.status, &keyless.json()["error"]["code"]), (401, &json!("401")));
}

#[test]
fn gemini() {
    let server = server("--strict --key k");
    let body = json!({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [{"role": "user", "parts": [
        {"text": "what?"}, {"inline_data": {"mime_type": "audio/wav", "data": base64(&clip())}}]}]});
    let response =
        post(&server, "/v1beta/models/g-2:generateContent", "x-goog-api-key: k\r\n", &body).unwrap();
    let answer = response.json();
    let audio = base64(&clip());
    let pieces = [Piece::Text("s"), Piece::Text("what?"), Piece::Media(audio.as_bytes())];
    assert_eq!(answer["candidates"][0]["content"]["parts"][0]["text"], right_answer(&pieces));
    assert_eq!(
        (&answer["candidates"][0]["finishReason"], &answer["modelVersion"]),
        (&json!("STOP"), &json!("g-2"))
    );
    assert_eq!(
        answer["usageMetadata"]["promptTokensDetails"][1],
        json!({"modality": "AUDIO", "tokenCount": clip_tokens()})
    );
    let refused =
        post(&server, "/v1beta/models/g-2:generateContent", "x-goog-api-key: z\r\n", &body).unwrap();
    assert_eq!((refused.status, &refused.json()["error"]["status"]), (401, &json!("UNAUTHENTICATED")));
}

#[test]
fn anthropic() {
    let server = server("--strict");
    let png = base64(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let body = json!({"model": "c", "max_tokens": 9, "messages": [{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
        {"type": "text", "text": "what?"}]}], "system": "s"});
    let headers = "x-api-key: k\r\nanthropic-version: 2023-06-01\r\n";
    let answer = post(&server, "/v1/messages", headers, &body).unwrap().json();
    let pieces = [Piece::Text("s"), Piece::Media(png.as_bytes()), Piece::Text("what?")];
    assert_eq!(answer["content"], json!([{"type": "text", "text": right_answer(&pieces)}]));
    assert_eq!((&answer["stop_reason"], &answer["usage"]["input_tokens"]), (&json!("end_turn"), &json!(3)));
    let refused = post(&server, "/v1/messages", "x-api-key: k\r\n", &body).unwrap();
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (400, &json!("invalid_request_error")));
}

fn form(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, bytes) in fields {
        let file = if *name == "file" { "; filename=\"a.wav\"\r\ncontent-type: audio/wav" } else { "" };
        body.extend(format!("--b0\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n").bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b0--\r\n");
    body
}

#[test]
fn transcriptions() {
    let server = server("--strict");
    let path = "/v1/audio/transcriptions";
    let kind = "content-type: multipart/form-data; boundary=b0\r\n";
    let clip = clip();
    let mut client = Client::new(&server);
    let fields: [(&str, &[u8]); 4] =
        [("file", &clip), ("model", b"w"), ("language", b"en"), ("prompt", b"names")];
    let answer = client.ask(path, kind, &form(&fields)).unwrap().json();
    assert_eq!(answer["text"], right_answer(&[Piece::Text("names"), Piece::Media(&clip)]));
    assert_eq!(answer["usage"]["input_token_details"]["audio_tokens"], clip_tokens());
    let plain = client
        .ask(path, kind, &form(&[("model", b"w"), ("response_format", b"text"), ("file", &clip)]))
        .unwrap();
    assert_eq!(plain.text(), right_answer(&[Piece::Media(&clip)]) + "\n");
    for (fields, expected) in [
        (vec![("model", &b"w"[..])], "file"),
        (vec![("file", &clip[..])], "model"),
        (vec![("file", &clip[..]), ("model", b"w"), ("language", b"English")], "language"),
        (vec![("file", b"text, not sound"), ("model", b"w")], "file"),
    ] {
        let refused = client.ask(path, kind, &form(&fields)).unwrap();
        assert_eq!(refused.status, 400, "{expected}");
        assert!(
            refused.json()["error"]["message"].as_str().unwrap().starts_with(expected),
            "{}",
            refused.text()
        );
    }
}

#[test]
fn lists_of_models() {
    let server = server("--models a,b --key k");
    assert_eq!(get(&server, "/v1/models", "").status, 401);
    let list = get(&server, "/v1/models", "authorization: Bearer k\r\n").json();
    assert_eq!((&list["object"], &list["data"][1]["id"]), (&json!("list"), &json!("b")));
    assert_eq!(get(&server, "/v1/models/c", "authorization: Bearer k\r\n").status, 404);
    let list = get(&server, "/v1beta/models?key=k", "").json();
    assert_eq!(list["models"][0]["name"], "models/a");
    let list = get(&server, "/v1/models", "x-api-key: k\r\nanthropic-version: 2023-06-01\r\n").json();
    assert_eq!((&list["data"][0]["type"], &list["has_more"]), (&json!("model"), &json!(false)));
}

#[test]
fn what_a_server_lacks_is_refused() {
    let server = server("--models a,m --takes audio_url,image");
    let refused = post(&server, CHAT, "", &chat("what?")).unwrap();
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("InputAudio"), "{}", refused.text());
    let mut other = chat("what?");
    other["model"] = json!("other");
    let refused = post(&server, CHAT, "", &other).unwrap();
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[test]
fn strictness_can_be_done_without() {
    let mut body = chat("what?");
    body["messages"][0]["content"][1]["input_audio"]["format"] = json!("mp3");
    assert_eq!(post(&server(""), CHAT, "", &body).unwrap().status, 200);
    let refused = post(&server("--strict"), CHAT, "", &body).unwrap();
    assert_eq!(refused.status, 400);
    let message = "messages[0].content[1].input_audio.format: declared `mp3`, but its bytes are wav";
    assert_eq!(refused.json()["error"]["message"], message);
}

#[test]
fn a_deaf_server_shows_in_the_usage() {
    let body = post(&server("--deaf"), CHAT, "", &chat("what?")).unwrap().json();
    assert_eq!(body["usage"]["prompt_tokens"], 2);
    assert_eq!(body["choices"][0]["message"]["content"], right_answer(&[Piece::Text("what?")]));
}

#[test]
fn equal_requests_get_equal_bytes_and_others_do_not() {
    let (first, second) = (server(""), server(""));
    let body = |server, question: &str| post(server, CHAT, "", &chat(question)).unwrap().body;
    assert_eq!(body(&first, "a"), body(&first, "a"));
    assert_eq!(body(&first, "a"), body(&second, "a"));
    assert_ne!(body(&first, "a"), body(&first, "b"));
}

#[test]
fn answers_can_be_chosen_from_a_list() {
    let server = server("--answers A,B,C");
    let mut seen = std::collections::BTreeSet::new();
    for i in 0..40 {
        let ask = || post(&server, CHAT, "", &chat(&format!("question {i}"))).unwrap().json();
        let (once, again) = (ask(), ask());
        assert_eq!(once, again);
        seen.insert(once["choices"][0]["message"]["content"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.into_iter().collect::<String>(), "ABC");
}
