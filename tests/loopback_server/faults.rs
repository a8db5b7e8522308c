//! Each kind of fault does what it says, to the requests that its seed says.

use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{CHAT, Client, Response, chat, post, server};
use crate::loopback::fault::Fault;

const GEMINI: &str = "/v1beta/models/g:generateContent";

/// The response of a server that always fails so.
fn failing(options: &str, path: &str, body: &Value) -> Response {
    post(&server(&format!("--fault {options}")), path, "", body)
        .unwrap_or_else(|error| panic!("{options}: {error}"))
}

fn gemini() -> Value {
    json!({"contents": [{"parts": [{"text": "?"}]}]})
}

fn anthropic() -> Value {
    json!({"model": "c", "max_tokens": 5, "messages": [{"role": "user", "content": "?"}]})
}

#[test]
fn statuses_come_with_the_errors_of_their_dialect() {
    for status in [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 529] {
        let kind = status.to_string();
        let response = failing(&kind, CHAT, &chat("?"));
        assert_eq!(response.status, status);
        assert!(response.json()["error"]["message"].as_str().unwrap().contains(&kind));
        let response = failing(&kind, GEMINI, &gemini());
        assert_eq!((response.status, &response.json()["error"]["code"]), (status, &json!(status)));
        let response = failing(&kind, "/v1/messages", &anthropic());
        assert_eq!((response.status, &response.json()["type"]), (status, &json!("error")));
    }
    assert_eq!(failing("429", GEMINI, &gemini()).json()["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(failing("529", "/v1/messages", &anthropic()).json()["error"]["type"], "overloaded_error");
}

#[test]
fn limits_say_when_to_come_back() {
    let header = |options: &str, path: &str, body: &Value, name: &str| {
        let response = failing(options, path, body);
        assert_eq!(response.status, 429);
        response.header(name).map(str::to_owned)
    };
    let chat = chat("?");
    assert_eq!(header("429 --retry-after 1500ms", CHAT, &chat, "retry-after").as_deref(), Some("2"));
    assert_eq!(header("429-ms --retry-after 1500ms", CHAT, &chat, "retry-after-ms").as_deref(), Some("1500"));
    assert_eq!(header("429-bare", CHAT, &chat, "retry-after"), None);
    let reset = "x-ratelimit-reset-requests";
    assert_eq!(header("429-reset --retry-after 20ms", CHAT, &chat, reset).as_deref(), Some("20ms"));
    assert_eq!(header("429-reset --retry-after 6s", CHAT, &chat, reset).as_deref(), Some("6s"));
    let date = header("429-date --retry-after 30s", CHAT, &chat, "retry-after").unwrap();
    let at = jiff::fmt::rfc2822::parse(&date).unwrap().timestamp();
    let seconds = at.duration_since(jiff::Timestamp::now()).as_secs_f64();
    assert!((28.0..31.0).contains(&seconds), "{date}");
    let at = header(
        "429-reset --retry-after 30s",
        "/v1/messages",
        &anthropic(),
        "anthropic-ratelimit-requests-reset",
    );
    let seconds =
        at.unwrap().parse::<jiff::Timestamp>().unwrap().duration_since(jiff::Timestamp::now()).as_secs_f64();
    assert!((28.0..31.0).contains(&seconds));
    let body = failing("429-reset --retry-after 1500ms", GEMINI, &gemini()).json();
    assert_eq!(body["error"]["details"][0]["retryDelay"], "1.5s");
}

#[test]
fn coming_back_too_early_is_counted() {
    let server = server("--fail-first 1 --fault 429-ms=1 --retry-after 400ms");
    for (question, wait, early) in [("patient", 420, 0), ("hasty", 0, 1)] {
        assert_eq!(post(&server, CHAT, "", &chat(question)).unwrap().status, 429);
        std::thread::sleep(Duration::from_millis(wait));
        assert_eq!(post(&server, CHAT, "", &chat(question)).unwrap().status, 200);
        assert_eq!(server.counters().early, early, "{question}");
    }
}

#[test]
fn bodies_that_are_not_what_the_status_says() {
    let response = failing("200-error", CHAT, &chat("?"));
    assert_eq!((response.status, &response.json()["error"]["type"]), (200, &json!("server_error")));
    let response = failing("200-refused", GEMINI, &gemini());
    assert_eq!((response.status, &response.json()["error"]["code"]), (200, &json!(400)));
    let response = failing("truncated-json", CHAT, &chat("?"));
    assert_eq!(response.status, 200);
    assert!(serde_json::from_slice::<Value>(&response.body).unwrap_err().is_eof());
    let response = failing("wrong-content-type", CHAT, &chat("?"));
    assert_eq!((response.status, response.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    assert!(response.json()["choices"][0]["message"]["content"].is_string());
    for (kind, status) in [("html", 502), ("html-200", 200)] {
        let response = failing(kind, CHAT, &chat("?"));
        assert_eq!((response.status, response.header("content-type")), (status, Some("text/html")));
        assert!(response.text().starts_with("<html>"));
    }
}

#[test]
fn answers_that_are_none() {
    let choice = |kind: &str| failing(kind, CHAT, &chat("?")).json()["choices"][0].clone();
    assert_eq!(failing("empty-choices", CHAT, &chat("?")).json()["choices"], json!([]));
    assert_eq!(choice("empty-text")["message"]["content"], "");
    assert_eq!(choice("length")["finish_reason"], "length");
    assert!(!choice("length")["message"]["content"].as_str().unwrap().is_empty());
    assert_eq!(choice("content-filter")["finish_reason"], "content_filter");
    assert!(
        choice("refusal")["message"]["refusal"].is_string()
            && choice("refusal")["message"]["content"].is_null()
    );

    let candidate = |kind: &str| failing(kind, GEMINI, &gemini()).json()["candidates"][0].clone();
    assert!(failing("empty-choices", GEMINI, &gemini()).json()["candidates"].is_null());
    assert_eq!(candidate("empty-text")["content"]["parts"][0]["text"], "");
    assert_eq!(candidate("length")["finishReason"], "MAX_TOKENS");
    assert_eq!(candidate("content-filter")["finishReason"], "SAFETY");
    assert_eq!(candidate("refusal")["finishReason"], "PROHIBITED_CONTENT");

    let message = |kind: &str| failing(kind, "/v1/messages", &anthropic()).json();
    assert_eq!(message("empty-choices")["content"], json!([]));
    assert_eq!(message("length")["stop_reason"], "max_tokens");
    assert_eq!(message("refusal")["stop_reason"], "refusal");
}

#[test]
fn the_filter_refuses_prompts_in_each_dialects_way() {
    let azure = "/openai/deployments/d/chat/completions?api-version=2025-01-01";
    for kind in ["content-filter-prompt", "content-filter-400"] {
        let response = failing(kind, azure, &chat("?"));
        assert_eq!((response.status, &response.json()["error"]["code"]), (400, &json!("content_filter")));
    }
    let body = failing("content-filter", azure, &chat("?")).json();
    assert_eq!(body["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(body["choices"][0]["content_filter_results"]["hate"]["filtered"], true);
    let response = failing("content-filter-prompt", GEMINI, &gemini());
    assert_eq!((response.status, &response.json()["promptFeedback"]["blockReason"]), (200, &json!("SAFETY")));
}

#[test]
fn streams_fail_as_streams() {
    let mut body = chat("?");
    body["stream"] = json!(true);
    let response = failing("200-error", CHAT, &body);
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(response.text().starts_with("data: {\"error\""), "{}", response.text());
    assert!(!failing("truncated-json", CHAT, &body).text().contains("[DONE]"));
    assert!(failing("content-filter", CHAT, &body).text().contains("\"finish_reason\":\"content_filter\""));
    let error = post(&server("--fault reset"), CHAT, "", &body).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn resets_come_early_or_in_the_middle() {
    let server_early = server("--fault reset-early");
    let mut client = Client::new(&server_early);
    client.send(&crate::client::request(CHAT, "", chat("?").to_string().as_bytes())).unwrap();
    let mut rest = Vec::new();
    let error = client.stream.read_to_end(&mut rest).unwrap_err();
    assert_eq!((error.kind(), rest.len()), (ErrorKind::ConnectionReset, 0));
    assert_eq!(server_early.counters().by_path[CHAT]["reset-early"], 1);

    let server_middle = server("--fault reset");
    let mut client = Client::new(&server_middle);
    client.send(&crate::client::request(CHAT, "", chat("?").to_string().as_bytes())).unwrap();
    let error = client.stream.read_to_end(&mut rest).unwrap_err();
    let text = String::from_utf8(rest).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length: usize =
        head.split_once("content-length: ").unwrap().1.split("\r\n").next().unwrap().parse().unwrap();
    assert_eq!((error.kind(), body.len()), (ErrorKind::ConnectionReset, length / 2));
}

#[test]
fn a_stall_lasts_until_the_client_gives_up() {
    let server = server("--fault stall");
    let mut client = Client::new(&server);
    client.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let error = client.ask(CHAT, "", chat("?").to_string().as_bytes()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    drop(client);
    let begun = Instant::now();
    while server.counters().faults.get("stall") != Some(&1) {
        assert!(begun.elapsed() < Duration::from_secs(5), "the stall is not counted");
        std::thread::sleep(Duration::from_millis(10));
    }
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(2), "a stalled connection holds the server up");
}

#[test]
fn a_slow_body_arrives_whole() {
    let server = server("--fault slow-body --slow-body 300ms");
    let begun = Instant::now();
    let response = post(&server, CHAT, "", &chat("?")).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(response.json()["choices"][0]["message"]["content"].is_string());
    assert_eq!(server.counters().answered, 1);
}

/// All kinds keep what they promise about being an answer: only then is a content counted as answered.
#[test]
fn only_right_answers_count_as_such() {
    for kind in Fault::names().filter(|kind| *kind != "stall") {
        let server = server(&format!("--fail-first 1 --fault {kind}=1 --slow-body 20ms"));
        let _ = post(&server, CHAT, "", &chat("?"));
        let counters = server.counters();
        assert_eq!(counters.answered, u64::from(kind == "slow-body"), "{kind}");
        assert_eq!(counters.faults.values().sum::<u64>(), 1, "{kind}");
        assert_eq!(post(&server, CHAT, "", &chat("?")).unwrap().status, 200, "{kind}");
        assert_eq!(server.counters().answered, 1, "{kind}");
        assert_eq!(server.counters().repeats, u64::from(kind == "slow-body"), "{kind}");
    }
}

/// Attempts until each of 60 questions is answered.
fn attempts(options: &str, reversed: bool) -> Vec<u32> {
    let server = server(options);
    let mut client = Client::new(&server);
    let mut order: Vec<usize> = (0..60).collect();
    if reversed {
        order.reverse();
    }
    let mut attempts = vec![0; order.len()];
    while !order.is_empty() {
        order.retain(|i| {
            attempts[*i] += 1;
            let body =
                json!({"model": "m", "messages": [{"role": "user", "content": format!("question {i}")}]});
            client.ask(CHAT, "", body.to_string().as_bytes()).unwrap().status != 200
        });
    }
    let counters = server.counters();
    assert_eq!((counters.distinct, counters.answered, counters.repeats), (60, 60, 0));
    attempts
}

#[test]
fn faults_depend_on_seed_content_and_attempt_alone() {
    let options = "--fault 500=0.3,429-bare=0.3 --seed 1";
    let once = attempts(options, false);
    assert_eq!(once, attempts(options, true));
    assert_ne!(once, attempts("--fault 500=0.3,429-bare=0.3 --seed 2", false));
    let total: u32 = once.iter().sum();
    assert!((100..220).contains(&total), "60 questions at 60 % need about 150 attempts, not {total}");
    assert!(attempts("--fail-first 2", false).iter().all(|attempts| *attempts == 3));
}

#[test]
fn the_server_goes_down_and_comes_back() {
    let server = server("--down-after 3 --down-for 400ms --latency 100ms");
    let mut idle = Client::new(&server);
    let mut kept = Client::new(&server);
    for question in ["a", "b"] {
        assert_eq!(kept.ask(CHAT, "", chat(question).to_string().as_bytes()).unwrap().status, 200);
    }
    let begun = Instant::now();
    let error = kept.ask(CHAT, "", chat("c").to_string().as_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(idle.receive().is_err(), "an idle connection outlives the server");
    let mut refused = 0;
    while let Err(error) = std::net::TcpStream::connect(server.addr) {
        assert!(matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset), "{error}");
        refused += 1;
        std::thread::sleep(Duration::from_millis(10));
        assert!(begun.elapsed() < Duration::from_secs(5), "the server stays down");
    }
    assert!(
        refused > 0 && begun.elapsed() >= Duration::from_millis(350),
        "{refused} in {:?}",
        begun.elapsed()
    );
    assert_eq!(post(&server, CHAT, "", &chat("c")).unwrap().status, 200);
    let counters = server.counters();
    assert_eq!((counters.answered, counters.by_path[CHAT]["down"]), (3, 1));
}
