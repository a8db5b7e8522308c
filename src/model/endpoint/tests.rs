//! Requests through the whole room, against a server that looks at every byte.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::dialect::testing::{clip, request, text};
use super::testing::{Act, Received, Server, says, status};
use super::*;
use crate::config::secret::ApiKey;
use crate::model::{Answer, Model as _, Prepared};
use crate::types::{AudioContent, AudioFile, Digest, Outcome, Part, PreparedAudio, Role};

fn spec(server: &Server) -> EndpointSpec {
    let mut spec = EndpointSpec::new(Dialect::OpenAi, server.url(), "m");
    spec.retries = Retries {
        max_attempts: 40,
        base_delay: Duration::from_millis(2),
        max_delay: Duration::from_millis(20),
    };
    spec
}

/// A question with a number, which the answer must bring back.
fn question(number: usize) -> Prepared {
    let mut request = request(&[(Role::User, &[text(&format!("question {number}")), clip()])]);
    request.key = Digest::of(&number.to_le_bytes());
    request
}

/// The answer that belongs to a request: made of what the request asks.
fn echo(received: &Received) -> Act {
    let body: Value = serde_json::from_slice(&received.body).expect("the body is JSON");
    says(&format!("re: {}", body["messages"][0]["content"][0]["text"].as_str().unwrap()))
}

async fn ask(model: &EndpointModel, request: Prepared) -> Answer {
    model.answer(vec![request]).await.pop().unwrap()
}

async fn ask_all(model: &EndpointModel, count: usize) -> Vec<Answer> {
    futures::stream::iter((0..count).map(|number| ask(model, question(number))))
        .buffered(model.concurrency())
        .collect()
        .await
}

fn all_own(answers: &[Answer]) {
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.error, None);
        assert_eq!(
            (answer.outcome, answer.text.as_str()),
            (Outcome::Ok, format!("re: question {number}").as_str())
        );
    }
}

#[tokio::test]
async fn a_request_on_the_wire() {
    let server = Server::start(|_, received| echo(received)).await;
    let key = ApiKey::new("sk-0123456789");
    let headers = vec![("X-Team".to_owned(), ApiKey::new("blue"))];
    let model =
        EndpointModel::new(EndpointSpec { key: Some(key), extra_headers: headers, ..spec(&server) }).unwrap();
    let audio = Bytes::from(vec![7; 300_000]);
    let mut asked = question(1);
    let file = Arc::new(AudioFile::new(audio.clone(), "wav", 10.0));
    asked.audio =
        vec![PreparedAudio { digest: Digest::of(&audio), content: AudioContent::File(Arc::clone(&file)) }];
    let answer = ask(&model, asked).await;
    assert_eq!((answer.outcome, answer.text.as_str(), answer.attempts), (Outcome::Ok, "re: question 1", 1));
    assert_eq!((answer.usage.prompt_tokens, answer.usage.completion_tokens), (10, 2));
    let received = server.received().remove(0);
    assert_eq!(received.line, "POST /v1/chat/completions");
    assert_eq!(received.header("authorization"), Some("Bearer sk-0123456789"));
    assert_eq!(received.header("x-team"), Some("blue"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.header("accept-encoding"), None);
    let body: Value = serde_json::from_slice(&received.body).unwrap();
    let data = body["messages"][0]["content"][1]["input_audio"]["data"].as_str().unwrap();
    assert_eq!(data.as_bytes(), file.base64());
    let stats = model.stats();
    assert_eq!((stats.requests, stats.attempts, stats.tokens.prompt_tokens), (1, 1, 10));
    assert_eq!(stats.bytes_sent, received.body.len() as u64);
    assert_eq!(stats.media_bytes_sent, 400_000);
    assert_eq!((stats.limit, stats.in_flight, stats.waiting), (16, 0, 0));
    assert_eq!(stats.addresses[0].url, server.url());
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = Server::start(|_, received| echo(received)).await;
    let mut spec = spec(&server);
    spec.concurrency = Concurrency { min: 1, max: 4, adaptive: true };
    let model = EndpointModel::new(spec).unwrap();
    all_own(&ask_all(&model, 100).await);
    let most = server.received().iter().map(|received| received.connection).max().unwrap();
    assert!(most < 8, "{most} connections for 4 at once");
}

#[tokio::test]
async fn every_fault_is_tried_again_until_the_answer_comes() {
    let page = "<html><title>502</title></html>";
    let sse = "data: {\"choices\":[{\"delta\":{\"content\":\"Par\"}}]}\n\n";
    let mut runs = Vec::new();
    let say = |code, headers: &str, body: &str| Act::Say(code, headers.to_owned(), body.to_owned());
    for (fault, cause) in [
        (status(429, "retry-after-ms: 5\r\n", "slow down"), Cause::RateLimit),
        (status(429, "", "slow down"), Cause::RateLimit),
        (status(500, "", "oh"), Cause::Server),
        (status(408, "", "oh"), Cause::Server),
        (status(409, "", "oh"), Cause::Server),
        (status(502, "", "oh"), Cause::Gateway),
        (status(503, "retry-after: 0\r\n", "loading"), Cause::Overloaded),
        (say(502, "content-type: text/html\r\n", page), Cause::Gateway),
        (say(200, "content-type: text/html\r\n", page), Cause::Html),
        (say(200, "", r#"{"error":{"message":"oh","code":500}}"#), Cause::Server),
        (say(200, "", r#"{"choices":[]}"#), Cause::Malformed),
        (say(200, "", r#"{"choices":[{"message":{"content":"Par"#), Cause::Malformed),
        (say(200, "", ""), Cause::Malformed),
        (say(200, "content-type: text/event-stream\r\n", sse), Cause::Malformed),
        (Act::Cut("{\"choices\":".to_owned()), Cause::Reset),
        (Act::Close, Cause::Reset),
        (Act::Stall(Duration::from_secs(5)), Cause::Timeout),
        (Act::Bytes("SSH-2.0-OpenSSH_9.6\r\n"), Cause::Malformed),
    ] {
        for percent in [20, 60] {
            runs.push(survives(fault.clone(), cause, percent));
        }
    }
    futures::future::join_all(runs).await;
}

/// A run in which so many of a hundred attempts end with the fault: every question gets its own answer.
async fn survives(fault: Act, cause: Cause, percent: u8) {
    let script = fault.clone();
    // Which attempts fail depends on their number alone.
    let server = Server::start(move |number, received| {
        if Digest::of(&number.to_le_bytes()).0[0] % 100 < percent { script.clone() } else { echo(received) }
    })
    .await;
    let mut spec = spec(&server);
    spec.timeout = Duration::from_millis(if cause == Cause::Timeout { 100 } else { 30_000 });
    spec.concurrency.min = 8;
    let model = EndpointModel::new(spec).unwrap();
    let count = 40;
    let answers = ask_all(&model, count).await;
    all_own(&answers);
    let stats = model.stats();
    let attempts: u64 = answers.iter().map(|answer| u64::from(answer.attempts)).sum();
    assert_eq!((stats.attempts, stats.requests), (attempts, count as u64), "{fault:?}");
    let retries: HashMap<_, _> = stats.retries.into_iter().collect();
    assert_eq!(retries, HashMap::from([(cause, attempts - count as u64)]), "{fault:?}");
}

#[tokio::test]
async fn what_never_goes_better_fails_at_once() {
    for code in [400, 401, 403, 404, 413, 422, 307] {
        let server = Server::start(move |_, _| status(code, "location: http://127.0.0.1:1/\r\n", "no")).await;
        let model = EndpointModel::new(spec(&server)).unwrap();
        let answer = ask(&model, question(1)).await;
        assert_eq!((answer.outcome, answer.attempts, answer.text.as_str()), (Outcome::RequestError, 1, ""));
        assert!(answer.error.unwrap().contains(&format!("({code})")));
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_key_that_the_server_quotes_is_not_shown() {
    let server = Server::start(|number, received| {
        let key = received.header("authorization").unwrap().to_owned();
        if number == 0 { status(500, "", &key) } else { status(401, "", &format!("wrong key: {key}")) }
    })
    .await;
    let mut spec = spec(&server);
    spec.key = Some(ApiKey::new("sk-0123456789"));
    let model = EndpointModel::new(spec.clone()).unwrap();
    let error = ask(&model, question(1)).await.error.unwrap();
    assert_eq!(error, "the server does not accept the key (401): wrong key: Bearer ***");
    let shown = format!("{model:?} {:?} {}", spec, serde_json::to_string(&spec).unwrap());
    assert!(!shown.contains("0123456789"), "{shown}");
}

#[tokio::test]
async fn a_key_that_an_answer_quotes_is_not_journaled() {
    let server = Server::start(|_, received| says(received.header("authorization").unwrap())).await;
    let key = Some(ApiKey::new("sk-0123456789abcdef"));
    let model = EndpointModel::new(EndpointSpec { key, ..spec(&server) }).unwrap();
    assert_eq!(ask(&model, question(1)).await.text, "Bearer ***");
}

#[tokio::test]
async fn attempts_and_deadline_end_a_request() {
    let server = Server::start(|_, _| status(500, "", "oh")).await;
    let mut spec = spec(&server);
    spec.retries.max_attempts = 3;
    let model = EndpointModel::new(spec.clone()).unwrap();
    let answer = ask(&model, question(1)).await;
    assert_eq!((answer.outcome, answer.attempts), (Outcome::RequestError, 3));
    assert_eq!(answer.error.unwrap(), "gave up after 3 attempts: the server failed (500): oh");
    assert_eq!(model.stats().outcomes[&Outcome::RequestError], 1);

    // A rate limit does not use attempts up, but the deadline ends it.
    let server = Server::start(|_, _| status(429, "retry-after-ms: 20\r\n", "slow down")).await;
    spec.base_urls = vec![server.url()];
    spec.deadline = Duration::from_millis(300);
    let model = EndpointModel::new(spec.clone()).unwrap();
    let answer = ask(&model, question(1)).await;
    assert!(answer.attempts > 3, "{answer:?}");
    assert!(answer.error.unwrap().starts_with("the deadline of 0 s ended after"));

    let server = Server::start(|_, _| status(429, "retry-after: 3600\r\n", "slow down")).await;
    spec.base_urls = vec![server.url()];
    spec.deadline = Duration::from_mins(1);
    let answer = ask(&EndpointModel::new(spec).unwrap(), question(1)).await;
    assert_eq!(
        answer.error.unwrap(),
        "the server asks to wait 3600 s, more than is left of the deadline of 60 s: the server limits the rate \
         (429): slow down"
    );
    assert_eq!(answer.attempts, 1);
}

#[tokio::test]
async fn time_in_the_queue_counts_towards_nothing() {
    let server =
        Server::start(|_, received| Act::Later(Duration::from_millis(60), Box::new(echo(received)))).await;
    let mut spec = spec(&server);
    spec.concurrency = Concurrency { min: 1, max: 2, adaptive: true };
    spec.timeout = Duration::from_millis(400);
    spec.deadline = Duration::from_millis(500);
    let model = EndpointModel::new(spec).unwrap();
    let start = Instant::now();
    // All at once, ten times as many as may be under way.
    let answers = model.answer((0..20).map(question).collect()).await;
    all_own(&answers);
    assert!(start.elapsed() > Duration::from_millis(590), "{:?}", start.elapsed());
    assert!(answers.iter().all(|answer| answer.attempts == 1));
}

#[tokio::test]
async fn a_server_that_dies_is_waited_for() {
    let slow =
        |_: usize, received: &Received| Act::Later(Duration::from_millis(20), Box::new(echo(received)));
    let server = Server::start(slow).await;
    let address = server.address;
    let mut spec = spec(&server);
    spec.retries.max_attempts = 3;
    let model = Arc::new(EndpointModel::new(spec).unwrap());
    let run = tokio::spawn({
        let model = Arc::clone(&model);
        async move { ask_all(&model, 200).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop();
    drop(server);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let stats = model.stats();
    assert!(stats.paused_for.unwrap() > Duration::from_secs(1), "{stats:?}");
    assert!(stats.paused_why.as_ref().unwrap().contains("no connection"), "{stats:?}");
    assert!(!run.is_finished());
    let server = Server::at(address, slow).await;
    all_own(&run.await.unwrap());
    assert_eq!(model.stats().paused_for, None);
    drop(server);
}

#[tokio::test]
async fn a_server_that_stays_away_fails_what_waits_with_a_sentence() {
    let server = Server::start(|_, received| echo(received)).await;
    let mut spec = spec(&server);
    spec.patience = Duration::from_millis(600);
    spec.concurrency.max = 2;
    let url = server.url();
    server.stop();
    drop(server);
    let model = EndpointModel::new(spec).unwrap();
    let answers = ask_all(&model, 30).await;
    for answer in answers {
        assert_eq!(answer.outcome, Outcome::RequestError);
        let error = answer.error.unwrap();
        assert!(error.starts_with(&format!("{url} has been down for 1 s (no connection: ")), "{error}");
        assert!(error.ends_with("; start the server again and resume the run"), "{error}");
        assert!(error.contains("Connection refused"), "{error}");
    }
    let stats = model.stats();
    assert!(stats.given_up && stats.attempts < 10, "{stats:?}");
}

#[tokio::test]
async fn several_servers_share_the_work_and_a_dead_one_is_left_out() {
    let slow = |_: usize, received: &Received| Act::Later(Duration::from_millis(5), Box::new(echo(received)));
    let (first, second, dead) =
        (Server::start(slow).await, Server::start(slow).await, Server::start(slow).await);
    let mut spec = spec(&first);
    spec.base_urls = [&first, &dead, &second].map(Server::url).to_vec();
    spec.retries.max_attempts = 1;
    dead.stop();
    drop(dead);
    let model = EndpointModel::new(spec).unwrap();
    all_own(&ask_all(&model, 200).await);
    let (first, second) = (first.received().len(), second.received().len());
    assert_eq!(first + second, 200);
    assert!(first.abs_diff(second) < 60, "{first} {second}");
    let stats = model.stats();
    assert!(stats.addresses[1].sent < 20 && stats.addresses[1].down_for.is_some(), "{stats:?}");
    assert_eq!(stats.paused_for, None);
}

#[tokio::test]
async fn a_request_can_be_dropped_at_any_moment() {
    let server = Server::start(|number, received| {
        if number % 3 == 0 {
            status(429, "", "slow down")
        } else {
            Act::Later(Duration::from_millis(10), Box::new(echo(received)))
        }
    })
    .await;
    let mut spec = spec(&server);
    spec.concurrency = Concurrency { min: 2, max: 4, adaptive: true };
    let model = EndpointModel::new(spec).unwrap();
    for number in 0..100 {
        let time = Duration::from_micros(number * 200);
        drop(tokio::time::timeout(time, model.answer((0..4).map(question).collect())).await);
    }
    all_own(&ask_all(&model, 20).await);
    let stats = model.stats();
    assert_eq!((stats.in_flight, stats.waiting), (0, 0));
}

#[tokio::test]
async fn media_that_are_not_taken_are_not_sent() {
    let server = Server::start(|_, received| echo(received)).await;
    let mut spec = spec(&server);
    spec.limits.max_seconds = 1.0;
    let model = EndpointModel::new(spec).unwrap();
    assert_eq!(model.accepts().max_seconds, 1.0);
    let answer = ask(&model, question(1)).await;
    assert_eq!((answer.outcome, answer.attempts), (Outcome::MediaError, 0));
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn other_dialects_go_the_same_way() {
    let server = Server::start(|_, received| {
        let body = match received.line.as_str() {
            "POST /v1beta/models/m:generateContent" => {
                assert_eq!(received.header("x-goog-api-key"), Some("key"));
                json!({"candidates": [{"content": {"parts": [{"text": "gemini"}]}, "finishReason": "STOP"}]})
            }
            "POST /v1/messages" => {
                assert_eq!(received.header("x-api-key"), Some("key"));
                assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
                json!({"content": [{"type": "text", "text": "anthropic"}], "stop_reason": "end_turn"})
            }
            "POST /openai/deployments/m/chat/completions?api-version=2025-01-01-preview" => {
                assert_eq!(received.header("api-key"), Some("key"));
                json!({"choices": [{"message": {"content": "azure"}, "finish_reason": "stop"}]})
            }
            "POST /v1/audio/transcriptions" => {
                let kind = received.header("content-type").unwrap();
                assert!(kind.starts_with("multipart/form-data; boundary=harness-"));
                json!({"text": "transcription"})
            }
            other => panic!("{other}"),
        };
        Act::Say(200, String::new(), body.to_string())
    })
    .await;
    for dialect in [Dialect::Azure, Dialect::Gemini, Dialect::Anthropic, Dialect::Transcription] {
        let mut spec = EndpointSpec::new(dialect, format!("http://{}", server.address), "m");
        spec.key = Some(ApiKey::new("key"));
        let part = if dialect == Dialect::Transcription { clip() } else { Part::Text("why?".into()) };
        let model = EndpointModel::new(spec).unwrap();
        let answer = ask(&model, request(&[(Role::User, &[part])])).await;
        assert_eq!(
            (answer.outcome, answer.text.as_str()),
            (Outcome::Ok, dialect.as_str()),
            "{:?}",
            answer.error
        );
        assert_eq!(model.identity().kind, dialect.as_str());
    }
}
