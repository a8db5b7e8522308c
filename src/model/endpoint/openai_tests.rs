use proptest::prelude::*;

use super::super::dialect::testing::{clip, encoded, image, media_refused, request, request_refused, text};
use super::super::reply::testing::{failed, reply, retried};
use super::*;
use crate::model::endpoint::{Dialect, ImageDetail, MaxTokensField};
use crate::types::{Part, Role};

fn spec() -> EndpointSpec {
    EndpointSpec::new(Dialect::OpenAi, "http://host:8000/v1", "m")
}

fn heard(body: &str) -> (Outcome, String, Usage) {
    match classify(&reply(200, &[], body.to_owned())) {
        Classified::Answer(heard) => (heard.outcome, heard.text, heard.usage),
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn the_wire_form_for_vllm() {
    let request = request(&[
        (Role::System, &[text("be brief")]),
        (Role::User, &[clip(), text("why?"), image()]),
        (Role::Assistant, &[text("so")]),
        (Role::User, &[text("a"), text("b")]),
    ]);
    let body = spec().dialect.encode(&request, &spec()).unwrap();
    // The order of keys is the program's; servers don't mind, but the bytes are what is sent.
    assert_eq!(
        String::from_utf8(body.bytes()).unwrap(),
        concat!(
            r#"{"model":"m","messages":[{"role":"system","content":"be brief"},"#,
            r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},"#,
            r#"{"type":"text","text":"why?"},"#,
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}}]},"#,
            r#"{"role":"assistant","content":"so"},{"role":"user","content":"ab"}],"#,
            r#""max_tokens":256,"temperature":0.0,"top_k":-1,"repetition_penalty":1.0,"seed":443}"#,
        )
    );
    assert_eq!(body.media_bytes(), 12);
}

#[test]
fn the_wire_form_for_openai() {
    let mut spec = EndpointSpec::new(Dialect::OpenAi, "https://api.openai.com/v1", "gpt-4o");
    spec.max_tokens_field = MaxTokensField::MaxCompletionTokens;
    spec.image_detail = Some(ImageDetail::High);
    spec.extra_body.insert("modalities".into(), json!(["text"]));
    spec.extra_body.insert("temperature".into(), json!(1));
    let mut request = request(&[(Role::User, &[image()])]);
    request.generation.temperature = Some(0.7);
    request.generation.stop = vec!["\n".into(), "Q:".into()];
    let seed = seed(&request);
    let expected = json!({
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H", "detail": "high"}},
        ]}],
        "max_completion_tokens": 256, "temperature": 1, "top_p": 1.0, "seed": seed, "stop": ["\n", "Q:"],
        "modalities": ["text"],
    });
    assert_eq!(encoded(&request, &spec), expected);
}

/// Where the server draws as it does by itself, nothing is sent that would turn its own settings off.
#[test]
fn a_temperature_that_is_the_server_s_own_is_not_sent() {
    let mut request = request(&[(Role::User, &[text("why?")])]);
    request.generation.temperature = None;
    let keys = |request: &Prepared| {
        encoded(request, &spec())
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<std::collections::BTreeSet<_>>()
    };
    let bare = ["max_tokens", "messages", "model", "seed"].map(str::to_owned);
    assert_eq!(keys(&request), bare.clone().into());
    (request.generation.top_p, request.generation.top_k) = (0.9, 20);
    request.generation.repetition_penalty = 1.1;
    let said = ["top_p", "top_k", "repetition_penalty"].map(str::to_owned);
    assert_eq!(keys(&request), bare.into_iter().chain(said).collect());
    // Draws of one model are draws: two requests have two seeds.
    let other = Prepared { key: crate::types::Digest([9; 32]), ..request.clone() };
    assert_ne!(seed(&request), seed(&other));
}

#[test]
fn the_model_that_answered_is_the_one_that_the_reply_names() {
    let named = |body: &str| match classify(&reply(200, &[], body.to_owned())) {
        Classified::Answer(heard) => heard.model,
        other => panic!("{body}: {other:?}"),
    };
    let choices = r#""choices":[{"message":{"content":"a"},"finish_reason":"stop"}]"#;
    let model = Some("gpt-4o-2024-08-06".to_owned());
    assert_eq!(named(&format!(r#"{{"model":"gpt-4o-2024-08-06",{choices}}}"#)), model);
    assert_eq!(named(&format!(r#"{{"model":"",{choices}}}"#)), None);
    assert_eq!(named(&format!(r#"{{"model":7,{choices}}}"#)), None);
    assert_eq!(named(&format!("{{{choices}}}")), None);
    let stream = format!(
        "data: {{\"model\":\"\",\"choices\":[]}}\n\ndata: {{\"model\":\"gpt-4o-2024-08-06\",{choices}}}\n\ndata: [DONE]\n\n"
    );
    assert_eq!(named(&stream), model);
    // What it says is kept, so it is kept short and on one line.
    let long = named(&format!(r#"{{"model":"a\u001b\n{}",{choices}}}"#, "b".repeat(1000))).unwrap();
    assert!(long.chars().count() <= 301 && !long.contains(char::is_control), "{long}");
}

#[test]
fn the_forms_of_a_clip() {
    let request = request(&[(Role::User, &[clip()])]);
    let part = |form| {
        let body = encoded(&request, &EndpointSpec { audio_form: form, ..spec() });
        body["messages"][0]["content"][0].clone()
    };
    let url = "data:audio/wav;base64,UklGRg==";
    assert_eq!(
        part(AudioForm::InputAudio),
        json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})
    );
    assert_eq!(part(AudioForm::AudioUrl), json!({"type": "audio_url", "audio_url": {"url": url}}));
    assert_eq!(
        part(AudioForm::InputAudioUrl),
        json!({"type": "input_audio", "input_audio": {"data": url, "format": "wav"}})
    );
}

#[test]
fn prompt_strings_go_as_they_are() {
    let mut spec = EndpointSpec { completions: true, ..spec() };
    let mut raw = request(&[(Role::User, &[text("why?")])]);
    assert!(request_refused(&raw, &spec).contains("set completions = false"));
    raw.prompt = Prompt::Raw { text: "<|im_start|>user\nwhy?".into(), audio: vec![] };
    let body = encoded(&raw, &spec);
    assert_eq!(body["prompt"], "<|im_start|>user\nwhy?");
    assert_eq!((&body["max_tokens"], &body["messages"]), (&json!(256), &Value::Null));
    let base = Url::parse("http://host").unwrap();
    assert_eq!(target(&base, &spec).as_str(), "http://host/v1/completions");
    spec.completions = false;
    assert_eq!(target(&base, &spec).as_str(), "http://host/v1/chat/completions");
    assert!(request_refused(&raw, &spec).contains("set completions = true"));
    let Part::Audio(audio) = clip() else { panic!() };
    raw.prompt = Prompt::Raw { text: "<|AUDIO|>".into(), audio: vec![audio] };
    spec.completions = true;
    assert!(media_refused(&raw, &spec).starts_with("/completions takes no audio"));
}

#[test]
fn a_stream_is_asked_for_and_read() {
    let spec = EndpointSpec { stream: true, ..spec() };
    let body = encoded(&request(&[(Role::User, &[text("why?")])]), &spec);
    assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Paris\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
    let usage = Usage { prompt_tokens: 7, audio_tokens: 0, completion_tokens: 1 };
    assert_eq!(heard(stream), (Outcome::Ok, "Paris".into(), usage));
    let cut = stream.split("data: {\"choices\":[{\"delta\":{},").next().unwrap();
    let sse = [("content-type", "text/event-stream")];
    assert_eq!(
        retried(classify(&reply(200, &sse, cut.to_owned()))).1,
        "the stream is cut short after 1 events"
    );
    let error = "data: {\"error\":{\"message\":\"Oh\",\"code\":500}}\n\n";
    assert_eq!(retried(classify(&reply(200, &sse, error))).1, "the server failed (500): Oh");
}

#[test]
fn answers_of_all_forms() {
    let whole = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":
        "Paris","refusal":null,"reasoning_content":"hm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":330,
        "completion_tokens":2,"prompt_tokens_details":{"audio_tokens":320,"cached_tokens":0}}}"#;
    let usage = Usage { prompt_tokens: 330, audio_tokens: 320, completion_tokens: 2 };
    assert_eq!(heard(whole), (Outcome::Ok, "Paris".into(), usage));
    let check = |body: &str, outcome: Outcome, text: &str| {
        let (found, said, _) = heard(body);
        assert_eq!((found, said.as_str()), (outcome, text), "{body}");
    };
    check(&whole.replace("\"stop\"", "\"length\""), Outcome::Length, "Paris");
    check(&whole.replace("\"stop\"", "\"content_filter\""), Outcome::ContentFilter, "Paris");
    check(&whole.replace("\"stop\"", "null"), Outcome::Ok, "Paris");
    let of = |message: &str, reason: &str| {
        format!(r#"{{"choices":[{{"message":{message},"finish_reason":"{reason}"}}]}}"#)
    };
    check(&of(r#"{"content":" \n"}"#, "stop"), Outcome::Empty, " \n");
    check(&of(r#"{"content":null}"#, "stop"), Outcome::Empty, "");
    check(&of(r#"{"content":null}"#, "length"), Outcome::Length, "");
    check(&of(r#"{"content":null}"#, "content_filter"), Outcome::ContentFilter, "");
    check(&of(r#"{"content":[{"type":"text","text":"Par"},{"text":"is"}]}"#, "stop"), Outcome::Ok, "Paris");
    check(&of(r#"{"content":null,"audio":{"id":"a","transcript":"Paris"}}"#, "stop"), Outcome::Ok, "Paris");
    check(r#"{"choices":[{"text":"Paris","index":0,"finish_reason":"length"}]}"#, Outcome::Length, "Paris");
    check(r#"{"error":null,"choices":[{"message":{"content":"Paris"}}]}"#, Outcome::Ok, "Paris");
}

#[test]
fn a_refusal_is_an_answer() {
    let body =
        r#"{"choices":[{"message":{"content":null,"refusal":"I can't help."},"finish_reason":"stop"}]}"#;
    match classify(&reply(200, &[], body)) {
        Classified::Answer(heard) => {
            assert_eq!(
                (heard.outcome, heard.text.as_str(), heard.refusal),
                (Outcome::Ok, "I can't help.", true)
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_in_bodies_of_status_200() {
    let retry = |body: &str, cause| assert_eq!(retried(classify(&reply(200, &[], body.to_owned()))).0, cause);
    let fail = |body: &str, part: &str| {
        let message = failed(classify(&reply(200, &[], body.to_owned())));
        assert!(message.contains(part), "{message}");
    };
    retry(r#"{"error":{"message":"slow down","code":429}}"#, Cause::RateLimit);
    retry(r#"{"error":{"message":"slow down","code":"429"}}"#, Cause::RateLimit);
    retry(r#"{"error":{"message":"slow down","type":"rate_limit_exceeded"}}"#, Cause::RateLimit);
    retry(r#"{"error":{"message":"busy","code":503}}"#, Cause::Overloaded);
    retry(r#"{"error":"upstream went away"}"#, Cause::Server);
    retry(r#"{"error":{"message":"oh","type":"server_error","code":null}}"#, Cause::Server);
    retry(
        r#"{"object":"error","message":"engine died","type":"InternalServerError","code":500}"#,
        Cause::Server,
    );
    retry(r#"{"choices":[]}"#, Cause::Malformed);
    retry(r#"{"choices":[{}]}"#, Cause::Malformed);
    retry("{}", Cause::Malformed);
    retry("[]", Cause::Malformed);
    retry("null", Cause::Malformed);
    retry(r#"{"choices":[{"error":{"message":"oh","code":502},"finish_reason":"error"}]}"#, Cause::Gateway);
    retry(r#"{"choices":[{"message":{"content":"Par"},"finish_reason":"abort"}]}"#, Cause::Server);
    fail(r#"{"error":{"message":"no mp3","code":400}}"#, "the server refuses the request (400): no mp3");
    fail(
        r#"{"object":"error","message":"no mp3","type":"BadRequestError","param":null,"code":400}"#,
        "(400): no mp3",
    );
    fail(r#"{"error":{"message":"no mp3","type":"invalid_request_error"}}"#, "(400): no mp3");
    fail(r#"{"code":"InvalidParameter","message":"no mp3","request_id":"r"}"#, "(400): no mp3");
    fail(
        r#"{"error":{"message":"bad key","code":"invalid_api_key"}}"#,
        "does not accept the key (401): bad key",
    );
}

#[test]
fn a_quota_that_is_used_up_fails_at_once() {
    let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    assert_eq!(
        failed(classify(&reply(429, &[("retry-after", "1")], body))),
        "the account's quota is used up: You exceeded your current quota"
    );
}

#[test]
fn http_errors_keep_the_servers_message() {
    let body = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":400}}"#;
    assert_eq!(
        failed(classify(&reply(400, &[], body))),
        "the server refuses the request (400): This model's maximum context length is 8192 tokens."
    );
    // A body that claims otherwise does not change what the status says.
    assert!(failed(classify(&reply(422, &[], r#"{"error":{"code":500}}"#))).contains("(422)"));
    assert_eq!(retried(classify(&reply(500, &[], r#"{"error":{"code":400}}"#))).0, Cause::Server);
    assert_eq!(
        failed(classify(&reply(400, &[], r#"{"detail":"x"}"#))),
        "the server refuses the request (400): x"
    );
    // DashScope's filter.
    let filtered = r#"{"error":{"code":"data_inspection_failed","message":"inappropriate content"}}"#;
    assert!(matches!(
        classify(&reply(400, &[], filtered)),
        Classified::Answer(heard) if heard.outcome == Outcome::ContentFilter
    ));
}

proptest! {
    #[test]
    fn no_body_breaks_any_dialect(
        status in 100_u16..600,
        body in "(\\{|\\[|\"choices\":|\"error\":|\"message\":|\"content\":|\"candidates\":|null|1|\"a\"|,|\\}|\\]){0,14}",
    ) {
        for dialect in Dialect::ALL {
            let classified = dialect.classify(&reply(status, &[], body.clone()));
            if !(200..300).contains(&status) {
                prop_assert!(!matches!(classified, Classified::Answer(_)), "{classified:?}");
            }
        }
    }
}
