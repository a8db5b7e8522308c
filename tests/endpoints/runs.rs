//! What a user meets beside faults: cost limits, signals, deaf servers, images, clips that are not taken.

use std::time::{Duration, Instant};

use sha2::Digest as _;

use crate::common::{Finished, finish};
use crate::loopback::{Loopback, Options, Piece, base64, right_answer};
use crate::scene::Scene;

#[test]
fn clips_go_untouched_and_the_journal_says_what_was_sent() {
    let server = Loopback::start(Options::of("--strict --takes input_audio")).unwrap();
    let scene = Scene::new(40, &server.url(), "");
    let done = scene.run(&[]).exits_with(0);
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
    scene.is_whole(40, "a plain run");
    let counters = server.counters();
    assert_eq!((counters.requests, counters.with_media), (40, 40));
    for response in scene.place.responses() {
        let media = &response["media"][0];
        let file = std::fs::read(scene.place.path(media["name"].as_str().unwrap())).unwrap();
        assert_eq!(media["sent"]["format"], "wav");
        assert_eq!(media["sent"]["bytes"], file.len());
        assert_eq!(media["digest"], blake3::hash(&file).to_hex().to_string());
        assert_eq!(media["audio"]["steps"], serde_json::json!([]));
        assert_eq!(response["media_bytes"], base64(&file).len());
    }
    let usage = &scene.place.scores()["benchmarks"][0]["usage"];
    assert_eq!(usage["requests"], 40);
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 40 && usage["cost"].is_null());
    // Nothing is left to do the second time.
    scene.run(&[]).exits_with(0).says("40 of them answered");
    assert_eq!(server.counters().requests, 40);
}

#[test]
fn a_changed_clip_is_asked_about_again() {
    let server = Loopback::start(Options::default()).unwrap();
    let scene = Scene::new(40, &server.url(), "");
    scene.run(&[]).exits_with(0);
    std::fs::write(scene.place.path("clips/3.wav"), crate::scene::clip(77, 5000)).unwrap();
    scene.run(&[]).exits_with(0).says("38 of them answered");
    assert_eq!(server.counters().requests, 42);
}

#[test]
fn a_cost_limit_stops_the_run_and_a_higher_one_goes_on() {
    let server = Loopback::start(Options::of("--latency 5ms")).unwrap();
    let scene = Scene::new(100, &server.url(), "concurrency = 4");
    scene.run(&["--max-cost", "1"]).exits_with(2).says("--max-cost needs prices");
    scene.place.edit(
        "[generation]",
        "[model.price]\ninput_per_million = 1000\noutput_per_million = 2000\n\n[generation]",
    );
    let stopped =
        scene.run(&["--max-cost", "1"]).exits_with(1).says("stopped: the run has cost 1.").says("--max-cost");
    assert_eq!(stopped.stdout, "", "no tables of half a run");
    let before = scene.place.responses().len();
    assert!((2..100).contains(&before), "{before}");
    // What was spent counts: the same limit stops at once.
    scene.run(&["--max-cost", "1"]).exits_with(1).says("stopped: the run has cost 1.");
    assert_eq!(scene.place.responses().len(), before);
    scene.run(&["--max-cost", "1000"]).exits_with(0);
    scene.is_whole(100, "after the limit");
    let usage = &scene.place.scores()["benchmarks"][0]["usage"];
    let (input, output) = (
        usage["prompt_tokens"].as_u64().unwrap() as f64,
        usage["completion_tokens"].as_u64().unwrap() as f64,
    );
    let cost = usage["cost"].as_f64().unwrap();
    assert!((cost - (input / 1e3 + output / 500.0)).abs() < 1e-9, "{cost}");
    assert_eq!(server.counters().repeats, 0);
}

#[test]
fn a_deaf_server_is_noticed_last_of_all() {
    let server = Loopback::start(Options::of("--deaf")).unwrap();
    let scene = Scene::new(40, &server.url(), "");
    let done = scene.run(&[]).exits_with(0);
    let last = done.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("warning: manifest: the prompt tokens") && last.contains("did not arrive"),
        "{last}"
    );
    assert!(done.stdout.contains("warning: the prompt tokens"), "{}", done.stdout);
    let scores = scene.place.scores();
    assert_eq!(scores["benchmarks"][0]["warnings"].as_array().unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn a_second_signal_drops_what_is_under_way() {
    let server = Loopback::start(Options::of("--latency 120s")).unwrap();
    let scene = Scene::new(40, &server.url(), "concurrency = 8");
    let child = scene.place.start(&[]);
    let begun = Instant::now();
    let wait = |there: &dyn Fn() -> bool| {
        while !there() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the run does not get on");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait(&|| server.counters().in_flight == 8);
    for _ in 0..2 {
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(300));
    }
    let ended: Finished = child.wait_with_output().unwrap().into();
    ended.exits_with(130).says("is finished first").says("is dropped").says("give the same command again");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let quick = Loopback::start(Options::default()).unwrap();
    scene.turn_to(&quick);
    scene.run(&[]).exits_with(0);
    scene.is_whole(40, "after the signals");
}

#[test]
fn images_go_too_and_bad_ones_are_named() {
    let server = Loopback::start(Options::of("--strict")).unwrap();
    let scene = Scene::new(1, &server.url(), "");
    // Whole in its header, which is all that is looked at.
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde and so on";
    std::fs::write(scene.place.path("a.jpg"), png).unwrap();
    std::fs::write(scene.place.path("b.bmp"), b"BM and so on").unwrap();
    let wire = base64(png);
    let right = right_answer(&[Piece::Media(wire.as_bytes()), Piece::Text("What is seen?")]);
    let row = |id: &str, image: &str| {
        let row =
            serde_json::json!({"id": id, "image": image, "question": "What is seen?", "reference": right});
        format!("{row}\n")
    };
    std::fs::write(scene.place.path("rows.jsonl"), row("good", "a.jpg") + &row("bad", "b.bmp")).unwrap();
    // A header that says nothing of the size: the server is not asked.
    std::fs::write(scene.place.path("b.bmp"), &png[..30]).unwrap();
    let damaged = "b.bmp: is a png image whose header is damaged or cut short: get the file again";
    finish(&mut scene.place.command("check", &[])).exits_with(2).says("error: sample bad:").says(damaged);
    scene.run(&[]).exits_with(1).says(damaged);
    std::fs::write(scene.place.path("b.bmp"), b"BM and so on").unwrap();
    scene.run(&[]).exits_with(1).says("b.bmp: is a BMP image");
    let responses = scene.place.responses();
    let good = responses.iter().find(|r| r["sample"] == "good").unwrap();
    assert_eq!((good["outcome"].as_str(), good["text"].as_str()), (Some("ok"), Some(right.as_str())));
    assert_eq!(good["media"][0]["sent"], serde_json::json!({"format": "png", "bytes": png.len()}));
    let bad = responses.iter().find(|r| r["sample"] == "bad").unwrap();
    assert_eq!(bad["outcome"], "media_error");
    // Mended, it is asked; the good one is asked again once its file has changed.
    std::fs::write(scene.place.path("b.bmp"), b"GIF89a\x01\0\x01\0\0\0\0 and so on").unwrap();
    scene.run(&[]).exits_with(0).says("1 of them answered");
    std::fs::write(scene.place.path("a.jpg"), b"GIF89a\x01\0\x01\0\0\0\0 another").unwrap();
    scene.run(&[]).exits_with(0).says("1 of them answered");
    assert_eq!(server.counters().requests, 3);
}

#[test]
fn images_arrive_byte_for_byte_unless_the_config_changes_them() {
    let names =
        ["jpeg-420.jpg", "png-rgb.png", "gif.gif", "webp-lossy.webp", "named-jpeg.png", "jpeg-cut.jpg"];
    let folder = tempfile::tempdir().unwrap();
    let (mut list, mut rows) = (String::new(), String::new());
    let odd = crate::common::root().join("tests/fixtures/images/odd");
    for name in names {
        let hash = harness::types::hex(&sha2::Sha256::digest(std::fs::read(odd.join(name)).unwrap()));
        list.extend([format!("{hash}  {name}\n")]);
        let row =
            serde_json::json!({"id": name, "image": name, "question": "What is seen?", "reference": "x"});
        rows.extend([format!("{row}\n")]);
    }
    let originals = folder.path().join("list.sha256");
    std::fs::write(&originals, list).unwrap();
    let options = Options { originals: Some(originals), ..Options::of("--strict") };
    let server = Loopback::start(options).unwrap();
    let scene = Scene::new(1, &server.url(), "concurrency = 4");
    std::fs::write(scene.place.path("rows.jsonl"), rows).unwrap();
    for name in names {
        std::fs::copy(odd.join(name), scene.place.path(name)).unwrap();
    }
    scene.run(&[]).exits_with(0);
    let counters = server.counters();
    assert_eq!((counters.requests, counters.media_original, counters.media_other), (6, 6, 0));
    // Made smaller, none is the original; the one that is cut short cannot be.
    scene.place.edit("[model.audio]", "[model.image]\nmax_side = 9\n\n[model.audio]");
    scene.run(&["--name", "smaller"]).exits_with(1).says("jpeg-cut.jpg: is a jpeg image that is cut short");
    let counters = server.counters();
    assert_eq!((counters.requests, counters.media_original, counters.media_other), (11, 6, 5));
}

#[test]
fn windows_are_cut_where_the_config_allows_it() {
    let server = Loopback::start(Options::of("--strict")).unwrap();
    let scene = Scene::new(20, &server.url(), "");
    scene.place.edit("# audio", "window = \"first\"\nmax_seconds = 1\ntranscode = \"wav\"\nrate = 8000");
    scene.run(&[]).exits_with(0);
    for response in scene.place.responses() {
        assert_eq!(response["outcome"], "ok");
        let audio = &response["media"][0]["audio"];
        let long = audio["source"]["frames"].as_u64().unwrap() > 16_000;
        let steps = if long { vec!["resample:soxr_hq", "window:first", "encode:wav16"] } else { vec![] };
        assert_eq!(audio["steps"], serde_json::json!(steps), "{response}");
        let file = &response["media"][0]["bytes"];
        let sent = if long { &serde_json::json!(16_044) } else { file };
        assert_eq!(&response["media"][0]["sent"]["bytes"], sent, "{response}");
    }
}

/// The address of one server in the config becomes those of several.
fn several(scene: &Scene, servers: &[&Loopback]) {
    let urls: Vec<String> = servers.iter().map(|server| format!("{}/v1", server.url())).collect();
    let text = std::fs::read_to_string(scene.place.path("c.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("base_url")).unwrap().to_owned();
    scene.place.edit(&line, &format!("base_urls = {urls:?}"));
}

#[test]
fn a_sick_server_among_several_costs_no_answer() {
    for sick in ["--fault 500=100%", "--fault html-200=100%", "--models another"] {
        let healthy = Loopback::start(Options::of("--latency 20ms")).unwrap();
        let other = Loopback::start(Options::of(sick)).unwrap();
        let scene = Scene::new(200, &healthy.url(), "concurrency = 16\nmax_attempts = 5");
        several(&scene, &[&healthy, &other]);
        let done = scene.run(&[]);
        assert_eq!(done.code, Some(0), "{sick}: {}", done.stderr);
        scene.is_whole(200, sick);
        assert_eq!(healthy.counters().answered, 200, "{sick}");
    }
}

#[test]
fn a_signal_while_the_server_is_down_ends_the_run_at_once() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let scene = Scene::new(20, &format!("http://127.0.0.1:{port}"), "concurrency = 4");
    let mut child = scene.place.start(&[]);
    std::thread::sleep(Duration::from_millis(1500));
    let begun = Instant::now();
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(scene.place.responses().is_empty(), "nobody was asked, so nobody failed");
}

#[test]
fn a_token_within_a_header_is_shown_nowhere() {
    // A gateway that quotes what it was sent, behind words enough to cut the token in half.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{BufRead as _, Read as _, Write as _};
        for stream in listener.incoming() {
            let mut reader = std::io::BufReader::new(stream.unwrap());
            let (mut token, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) <= 2 {
                    break;
                }
                let (name, value) = line.split_once(':').unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "authorization" => token = value.trim().trim_start_matches("Bearer ").to_owned(),
                    "content-length" => length = value.trim().parse().unwrap(),
                    _ => {}
                }
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let message = format!("{token} {}{token}", "x".repeat(290 - token.len()));
            let body = serde_json::json!({"error": {"message": message}}).to_string();
            let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(reader.get_mut(), "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    let scene = Scene::new(1, &url, "");
    scene.place.edit(
        "[model.flow]",
        "[model.endpoint]\nheaders = { authorization = \"Bearer $HARNESS_TEST_GATEWAY\" }\n\n[model.flow]",
    );
    let token = "gateway-secret-12345";
    let done = crate::common::finish(scene.place.command("run", &[]).env("HARNESS_TEST_GATEWAY", token));
    let journal = std::fs::read_to_string(scene.place.result("responses.jsonl")).unwrap();
    assert!(journal.contains("***"), "{journal}");
    assert!(
        !journal.contains(&token[..9]) && !done.stderr.contains(&token[..9]),
        "{}\n{journal}",
        done.stderr
    );
}

#[test]
fn clips_whose_length_nobody_knows_are_refused_where_it_matters() {
    let server = Loopback::start(Options::default()).unwrap();
    let scene = Scene::new(1, &server.url(), "");
    std::fs::write(scene.place.path("clips/0.wav"), b"ID3\x04\0\0\0\0\0\0some frames").unwrap();
    scene.run(&[]).exits_with(0);
    scene.place.edit("# audio", "max_seconds = 30");
    scene.run(&["--fresh"]).exits_with(1).says("how long it is cannot be read from mp3").says("max_seconds");
}

#[test]
fn a_run_goes_on_when_nobody_reads_what_it_says() {
    let server = Loopback::start(Options::of("--latency 30ms")).unwrap();
    let scene = Scene::new(60, &server.url(), "concurrency = 4");
    let mut child = scene.place.start(&[]);
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    scene.is_whole(60, "without a reader");
}
