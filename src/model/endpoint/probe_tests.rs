use serde_json::json;

use super::super::testing::{Act, Received, Server, status};
use super::*;
use crate::config::secret::ApiKey;

fn spec(server: &Server) -> EndpointSpec {
    EndpointSpec::new(Dialect::OpenAi, server.url(), "qwen2-audio")
}

async fn findings(spec: EndpointSpec, audio: bool, image: bool) -> Vec<Finding> {
    EndpointModel::new(spec).unwrap().probe(Questions { audio, image }).await
}

fn say(body: &Value) -> Act {
    Act::Say(200, String::new(), body.to_string())
}

fn models(ids: &[&str]) -> Act {
    let data: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
    say(&json!({"object": "list", "data": data}))
}

/// A server like vLLM: 12 tokens of text, 25 for a clip, 16 for an image.
fn vllm(received: &Received, takes: AudioForm, deaf: bool) -> Act {
    if received.line == "GET /v1/models" {
        return models(&["qwen2-audio"]);
    }
    let body: Value = serde_json::from_slice(&received.body).unwrap();
    let content = &body["messages"][0]["content"];
    let mut tokens = 12;
    for part in content.as_array().into_iter().flatten() {
        match part["type"].as_str().unwrap() {
            "text" => {}
            "image_url" => tokens += 16,
            "input_audio" if takes != AudioForm::InputAudio => return status(400, "", "no input_audio here"),
            "audio_url" if takes != AudioForm::AudioUrl => return status(400, "", "no audio_url here"),
            _ => tokens += if deaf { 0 } else { 25 },
        }
    }
    say(&json!({
        "choices": [{"message": {"content": "ready"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 1},
    }))
}

fn shown(findings: &[Finding]) -> Vec<(About, Verdict)> {
    findings.iter().map(|finding| (finding.about, finding.verdict)).collect()
}

#[tokio::test]
async fn an_endpoint_that_does_all() {
    let server = Server::start(|_, received| vllm(received, AudioForm::InputAudio, false)).await;
    let found = findings(spec(&server), true, true).await;
    let all = [About::Address, About::Model, About::Text, About::Audio, About::Image];
    assert_eq!(shown(&found), all.map(|about| (about, Verdict::Good)), "{found:?}");
    assert_eq!(found[2].text, "outcome ok, `ready`, 12 prompt and 1 answer tokens");
    assert_eq!(found[3].text, "outcome ok, `ready`, 37 prompt and 1 answer tokens; the clip takes 25 tokens");
    assert_eq!(server.received().len(), 4);
}

#[tokio::test]
async fn the_form_that_is_taken_is_found() {
    let server = Server::start(|_, received| vllm(received, AudioForm::AudioUrl, false)).await;
    let found = findings(spec(&server), true, false).await.pop().unwrap();
    assert_eq!((found.about, found.verdict), (About::Audio, Verdict::Bad));
    assert_eq!(
        found.text,
        "the server refuses clips as input_audio and takes them as audio_url: the server refuses the request \
         (400): no input_audio here"
    );
    assert_eq!(found.advice.unwrap(), "set form = \"audio_url\" under [model.audio]");
}

#[tokio::test]
async fn a_clip_that_does_not_arrive_is_noticed() {
    let server = Server::start(|_, received| vllm(received, AudioForm::InputAudio, true)).await;
    let found = findings(spec(&server), true, false).await.pop().unwrap();
    assert_eq!(found.verdict, Verdict::Bad);
    assert_eq!(found.text, "the clip did not reach the model: 12 prompt tokens with it, 12 without");
}

#[tokio::test]
async fn a_wrong_name_and_a_wrong_key_are_told() {
    let server = Server::start(|_, _| models(&["Qwen2-Audio", "whisper"])).await;
    let found = findings(spec(&server), true, true).await;
    assert_eq!(shown(&found), [(About::Address, Verdict::Good), (About::Model, Verdict::Bad)]);
    assert_eq!(found[1].text, "the server has no model `qwen2-audio`; it has Qwen2-Audio, whisper");
    assert_eq!(found[1].advice.as_deref(), Some("did you mean model = \"Qwen2-Audio\"?"));

    let server = Server::start(|_, received| {
        status(401, "", &format!("wrong key {}", received.header("authorization").unwrap()))
    })
    .await;
    let spec = EndpointSpec { key: Some(ApiKey::new("sk-0123456789")), ..spec(&server) };
    let found = findings(spec, true, true).await.pop().unwrap();
    assert_eq!(found.text, "the server does not accept the key (401): wrong key Bearer ***");
}

#[tokio::test]
async fn what_is_not_there_is_told_at_once() {
    let server = Server::start(|_, _| models(&["qwen2-audio"])).await;
    let mut spec = spec(&server);
    server.stop();
    drop(server);
    spec.base_urls.push("http://no-such-host.invalid/v1".to_owned());
    let found = findings(spec, true, true).await;
    assert_eq!(shown(&found), [(About::Address, Verdict::Bad), (About::Address, Verdict::Bad)]);
    assert_eq!(found[0].advice.as_deref(), Some("start the server, or correct the port in base_url"));
    assert_eq!(found[1].advice.as_deref(), Some("correct the host's name in base_url"), "{found:?}");
}

#[tokio::test]
async fn other_dialects_are_asked_in_their_own_words() {
    let server = Server::start(|_, received| match received.line.as_str() {
        "GET /v1beta/models/g" => say(&json!({"name": "models/g"})),
        "GET /v1/models/c" => say(&json!({"id": "c", "type": "model"})),
        "GET /v1/models" => models(&["w"]),
        "POST /v1beta/models/g:generateContent" => say(&json!({
            "candidates": [{"content": {"parts": [{"text": "ready"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 40, "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 32}]},
        })),
        "POST /v1/messages" => {
            say(&json!({"content": [{"type": "text", "text": "ready"}], "stop_reason": "end_turn"}))
        }
        "POST /v1/audio/transcriptions" => say(&json!({"text": "beep"})),
        other => panic!("{other}"),
    })
    .await;
    let base = format!("http://{}", server.address);
    for (dialect, model, audio) in [
        (Dialect::Gemini, "g", Verdict::Good),
        (Dialect::Anthropic, "c", Verdict::Bad),
        (Dialect::Transcription, "w", Verdict::Good),
    ] {
        let found = findings(EndpointSpec::new(dialect, base.clone(), model), true, false).await;
        assert_eq!((found[1].about, found[1].verdict), (About::Model, Verdict::Good), "{found:?}");
        assert_eq!(
            (found.last().unwrap().about, found.last().unwrap().verdict),
            (About::Audio, audio),
            "{found:?}"
        );
    }
    let listed = |base: &str| openai::listing(&Url::parse(base).unwrap()).to_string();
    assert_eq!(listed("http://h"), "http://h/v1/models");
    assert_eq!(listed("http://h/v1/"), "http://h/v1/models");
    assert_eq!(listed("http://h/v1/chat/completions"), "http://h/v1/models");
}

#[test]
fn the_probes_are_what_they_say() {
    let reader = hound::WavReader::new(std::io::Cursor::new(tone())).unwrap();
    let spec = reader.spec();
    assert_eq!(
        (spec.channels, spec.sample_rate, spec.bits_per_sample, reader.duration()),
        (1, 16_000, 16, 16_000)
    );
    assert!(picture().starts_with(b"\x89PNG\r\n\x1a\n") && picture().ends_with(b"IEND\xAE\x42\x60\x82"));
}
