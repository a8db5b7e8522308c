//! Pieces are found whatever the dialect, the order of fields, the escaping and the cutting.

use super::super::content::{Piece, right_answer};
use super::*;
use proptest::prelude::*;

fn scan(body: &[u8], step: usize) -> Result<Content, Wrong> {
    let mut scan = Scan::new();
    for chunk in body.chunks(step) {
        scan.feed(chunk)?;
    }
    scan.finish()
}

fn answer(body: &str) -> String {
    scan(body.as_bytes(), 5).unwrap().sum().answer()
}

#[test]
fn pieces_are_found_in_each_dialect() {
    let expected = right_answer(&[Piece::Text("be brief"), Piece::Text("what?"), Piece::Media(b"UklGRg==")]);
    for body in [
        r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":[
            {"type":"text","text":"what?"},{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]}"#,
        r#"{"messages":[{"content":"be brief"},{"content":[{"text":"wh\u0061t?"},
            {"type":"audio_url","audio_url":{"url":"data:audio/wav;base64,UklGRg=="}}]}],"stop":["text"]}"#,
        r#"{"contents":[{"role":"user","parts":[{"text":"what?"},{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}}]}],
            "systemInstruction":{"parts":[{"text":"be brief"}]}}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"what?"},{"type":"image","source":
            {"type":"base64","media_type":"image/png","data":"UklGRg=="}}]}],"system":"be brief"}"#,
    ] {
        assert_eq!(answer(body), expected, "{body}");
    }
    assert_eq!(answer(r#"{"prompt":["a","b"]}"#), right_answer(&[Piece::Text("a"), Piece::Text("b")]));
}

#[test]
fn kinds_are_known_whatever_the_order_of_the_fields() {
    for body in [
        r#"{"contents":[{"parts":[{"inline_data":{"data":"AAAA","mime_type":"image/png"}}]}]}"#,
        r#"{"contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}}]}]}"#,
    ] {
        let sum = scan(body.as_bytes(), 3).unwrap().sum();
        assert_eq!((sum.image_bytes, sum.audio_bytes), (3, 0), "{body}");
    }
}

#[test]
fn settings_are_found() {
    let body =
        br#"{"model":"a","seed":7,"stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    let content = scan(body, 4).unwrap();
    assert_eq!(content.model.as_deref(), Some("a"));
    assert!(content.stream && content.include_usage && content.seed == Mixer::of(b"7"));
}

#[test]
fn what_is_no_json_object_is_refused() {
    for body in
        ["", "[]", "{", r#"{"a":1,}"#, r#"{"a" 1}"#, r#"{"a":[}"#, "{} x", r#"{"a":"\q"}"#, r#"{"a":"b"#]
    {
        assert!(scan(body.as_bytes(), 2).is_err(), "{body}");
    }
    assert!(scan("{\"a\":".repeat(1000).as_bytes(), 100).is_err());
}

#[test]
fn a_url_that_holds_no_data_counts_as_a_whole() {
    let long = format!("http://x/{}", "a,".repeat(1000));
    for url in ["http://x/y.wav", "d", "", long.as_str()] {
        let body = format!(r#"{{"messages":[{{"content":[{{"audio_url":{{"url":"{url}"}}}}]}}]}}"#);
        assert_eq!(answer(&body), right_answer(&[Piece::Media(url.as_bytes())]), "{url}");
    }
}

proptest! {
    #[test]
    fn texts_survive_any_escaping_and_cutting(text in "\\PC{0,40}[\u{0}-\u{1f}\"\\\\😀é]{0,6}", step in 1_usize..9) {
        let plain = serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string();
        let ascii: String = plain.encode_utf16().map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
            _ => format!("\\u{unit:04x}"),
        }).collect();
        let expected = right_answer(&[Piece::Text(&text)]);
        for body in [plain, ascii] {
            prop_assert_eq!(&scan(body.as_bytes(), step).unwrap().sum().answer(), &expected);
        }
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), step in 1_usize..9) {
        let _ = scan(&bytes, step);
    }
}
