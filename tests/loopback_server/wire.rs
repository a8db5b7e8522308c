//! HTTP as it comes: pipelined, chunked, cut, too large, not HTTP at all; and what is counted of it.

use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

use serde_json::json;
use sha2::Digest as _;

use crate::client::{CHAT, Client, chat, get, post, request, server};
use crate::loopback::{Loopback, Options, Piece, base64, right_answer};

fn bytes_of(question: &str) -> Vec<u8> {
    chat(question).to_string().into_bytes()
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = server("--latency 5ms");
    let mut client = Client::new(&server);
    let requests: Vec<u8> =
        (0..5).flat_map(|i| request(CHAT, "", &bytes_of(&format!("question {i}")))).collect();
    client.send(&requests).unwrap();
    for i in 0..5 {
        let once = client.receive().unwrap();
        assert_eq!(once.body, post(&server, CHAT, "", &chat(&format!("question {i}"))).unwrap().body);
    }
    assert_eq!(server.counters().repeats, 5);
}

#[test]
fn requests_cut_anywhere_are_understood() {
    let server = server("");
    let whole = post(&server, CHAT, "", &chat("?")).unwrap().body;
    let bytes = request(CHAT, "", &bytes_of("?"));
    for step in [1000, 7777] {
        let mut client = Client::new(&server);
        for chunk in bytes.chunks(step) {
            client.send(chunk).unwrap();
        }
        assert_eq!(client.receive().unwrap().body, whole);
    }
    let mut client = Client::new(&server);
    let small = request("/v1/completions", "", b"{\"prompt\":\"?\"}");
    for byte in &small {
        client.send(&[*byte]).unwrap();
    }
    assert_eq!(client.receive().unwrap().status, 200);
}

#[test]
fn chunked_bodies_are_understood() {
    let server = server("--strict");
    let whole = post(&server, CHAT, "", &chat("?")).unwrap().body;
    let mut bytes = format!(
        "POST {CHAT} HTTP/1.1\r\ncontent-type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for chunk in bytes_of("?").chunks(1234) {
        bytes.extend(format!("{:X};note=1\r\n", chunk.len()).bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\ntrailer: x\r\n\r\n");
    let mut client = Client::new(&server);
    for _ in 0..2 {
        client.send(&bytes).unwrap();
        assert_eq!(client.receive().unwrap().body, whole);
    }
}

#[test]
fn a_client_that_waits_gets_its_go_ahead() {
    let server = server("--max-body 100000");
    let mut client = Client::new(&server);
    let body = bytes_of("?");
    let head = |length: usize| {
        format!("POST {CHAT} HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n")
    };
    client.send(head(body.len()).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 100);
    client.send(&body).unwrap();
    assert_eq!(client.receive().unwrap().status, 200);
    client.send(head(100_001).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 413);
}

#[test]
fn large_bodies_are_refused_while_they_are_sent() {
    let server = server("--max-body 1000");
    let mut client = Client::new(&server);
    let response = client.ask(CHAT, "", &vec![b' '; 3_000_000]).unwrap();
    assert_eq!((response.status, response.header("connection")), (413, Some("close")));
    assert_eq!(server.counters().by_path[CHAT]["413"], 1);
    assert_eq!(post(&server, CHAT, "", &json!({"messages": []})).unwrap().status, 200);
}

#[test]
fn connections_are_kept_or_closed() {
    for (options, headers, kept) in
        [("", "", true), ("--close", "", false), ("", "connection: close\r\n", false)]
    {
        let server = server(options);
        let mut client = Client::new(&server);
        let response = client.ask(CHAT, headers, &bytes_of("?")).unwrap();
        assert_eq!(response.header("connection"), if kept { None } else { Some("close") });
        if kept {
            assert_eq!(client.ask(CHAT, "", &bytes_of("?")).unwrap().status, 200);
        } else {
            assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
        }
        assert_eq!(server.counters().connections, 1);
    }
}

#[test]
fn what_is_not_understood_gets_a_sentence() {
    let server = server("");
    for (bytes, status) in [
        (&b"hello\r\n\r\n"[..], 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}{}\r\n", 400),
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404),
        (b"GET /v1/messages HTTP/1.1\r\n\r\n", 405),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n[]", 400),
        (b"POST /v1/messages HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/audio/transcriptions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", 400),
    ] {
        let mut client = Client::new(&server);
        client.send(bytes).unwrap();
        let response = client.receive().unwrap();
        assert_eq!(response.status, status, "{}", String::from_utf8_lossy(bytes));
        assert!(response.json()["error"]["message"].is_string());
    }
    let mut client = Client::new(&server);
    client.send(&vec![b'x'; 40_000]).unwrap();
    assert_eq!(client.receive().unwrap().status, 431);
}

#[test]
fn latency_is_kept_by_many_at_once() {
    let server = server("--latency 100ms");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for i in 0..32 {
            let server = &server;
            scope.spawn(move || {
                assert_eq!(post(server, CHAT, "", &chat(&i.to_string())).unwrap().status, 200);
            });
        }
    });
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(100) && took < Duration::from_secs(2), "{took:?}");
    assert!(server.counters().max_in_flight > 16, "{}", server.counters().max_in_flight);
}

#[test]
fn more_at_once_than_allowed_get_503() {
    let server = server("--latency 600ms --max-concurrency 3");
    let mut clients: Vec<_> = (0..5).map(|_| Client::new(&server)).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&request(CHAT, "", &bytes_of(&i.to_string()))).unwrap();
    }
    let statuses: Vec<_> = clients.iter_mut().map(|client| client.receive().unwrap().status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 2, "{statuses:?}");
    let counters = server.counters();
    // The refused ones are gone at once, so they need not have met.
    assert!((4..=5).contains(&counters.max_in_flight), "{}", counters.max_in_flight);
    assert_eq!((counters.answered, counters.in_flight), (3, 0));
    // What was refused is no attempt: faults stay reproducible.
    assert_eq!(counters.distinct, 3);
}

#[test]
fn a_client_that_leaves_is_not_counted_as_answered() {
    let server = server("--latency 80ms");
    let mut client = Client::new(&server);
    client.send(&request(CHAT, "", &bytes_of("?"))).unwrap();
    drop(client);
    let begun = Instant::now();
    while server.counters().gone == 0 {
        assert!(begun.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((server.counters().answered, server.counters().in_flight), (0, 0));
    let mut client = Client::new(&server);
    client.send(&request(CHAT, "", &bytes_of("?"))[..5000]).unwrap();
    drop(client);
    while server.counters().gone == 1 {
        assert!(begun.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((server.counters().requests, server.counters().in_flight), (1, 0));
    assert_eq!(post(&server, CHAT, "", &chat("?")).unwrap().status, 200);
    assert_eq!((server.counters().answered, server.counters().repeats), (1, 0));
}

#[test]
fn media_that_arrive_are_told_from_the_originals() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.sha256");
    let image: Vec<u8> = (0..5000_u32).map(|i| (i * i % 251) as u8).collect();
    let hex = harness::types::hex(&sha2::Sha256::digest(&image));
    std::fs::write(&list, format!("{hex}  images/0.png\n")).unwrap();
    let server = Loopback::start(Options { originals: Some(list), ..Options::default() }).unwrap();
    let ask = |images: &[&[u8]]| {
        let part = |image: &&[u8]| {
            let url = format!("data:image/png;base64,{}", base64(image));
            json!({"type": "image_url", "image_url": {"url": url}})
        };
        let parts: Vec<_> = images.iter().map(part).collect();
        let body = json!({"model": "m", "messages": [{"role": "user", "content": parts}]});
        assert_eq!(post(&server, CHAT, "", &body).unwrap().status, 200);
    };
    ask(&[&image]);
    let mut changed = image.clone();
    changed[4999] ^= 1;
    ask(&[&image, &changed]);
    ask(&[&image[..4999]]);
    // A clip is none of them.
    assert_eq!(post(&server, CHAT, "", &chat("?")).unwrap().status, 200);
    let counters = server.counters();
    assert_eq!((counters.media_original, counters.media_other), (2, 3));
}

#[test]
fn counters_and_log_tell_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.jsonl");
    let mut options = Options::of("--fail-first 1");
    options.log = Some(log.clone());
    let server = Loopback::start(options).unwrap();
    for _ in 0..3 {
        let _ = post(&server, CHAT, "", &chat("?")).unwrap();
    }
    let counters = get(&server, "/counters", "").json();
    assert_eq!(counters, {
        let mut here = serde_json::to_value(server.counters()).unwrap();
        here["cpu_seconds"] = counters["cpu_seconds"].clone();
        here["connections"] = counters["connections"].clone();
        here
    });
    assert_eq!(counters["by_path"], json!({CHAT: {"200": 2, "500": 1}}));
    assert_eq!(counters["faults"], json!({"500": 1}));
    let numbers = ["requests", "distinct", "answered", "repeats", "with_media", "in_flight"];
    assert_eq!(numbers.map(|name| counters[name].as_u64().unwrap()), [3, 1, 1, 1, 3, 0]);
    assert_eq!(counters["bytes_in"], 3 * bytes_of("?").len());
    let lines: Vec<serde_json::Value> = std::fs::read_to_string(log)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["fault"], &lines[0]["attempt"], &lines[1]["attempt"]),
        (&json!("500"), &json!(0), &json!(1))
    );
    let clip = base64(&crate::client::clip());
    assert_eq!(lines[2]["answer"], right_answer(&[Piece::Text("?"), Piece::Media(clip.as_bytes())]));
}

#[test]
fn it_stops_when_asked_and_when_dropped() {
    let server = server("");
    let addr = server.addr;
    let _idle = Client::new(&server);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.wait());
        assert_eq!(post(&server, "/shutdown", "", &json!({})).unwrap().json(), json!({"stopping": true}));
        waiting.join().unwrap();
    });
    drop(server);
    let error = std::net::TcpStream::connect(addr).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn wrong_options_are_refused() {
    let error = Loopback::start(Options::of("--fault 429=0.6,500=0.6")).err().unwrap();
    assert!(error.to_string().contains("at most 1"), "{error}");
    let first = server("");
    let options = Options { port: first.addr.port(), ..Options::default() };
    let error = Loopback::start(options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}
