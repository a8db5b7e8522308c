//! Endpoints through the binary and their configs: secrets stay out of everything, and the probe tells what to
//! change. The server is the loopback one, in this process.

#![cfg(feature = "endpoint")]

mod common;
#[path = "loopback/mod.rs"]
mod loopback;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Finished, finish, harness, wav};
use loopback::{Loopback, Options};

const KEY: &str = "sk-k3y-0123456789abcdef";
const GATEWAY: &str = "g4teway-9876543210";

/// A folder with a config of an endpoint, one clip and rows that ask about it.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(model: &str, rows: &str) -> Self {
        let bench = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        let config = format!(
            "{model}\n[generation]\nmax_new_tokens = 16\n\n[[benchmark]]\nname = \"manifest\"\n\
             data = \"rows.jsonl\"\nmetrics = [\"exact_match\"]\n"
        );
        std::fs::write(bench.path("c.toml"), config).expect("the config is written");
        std::fs::write(bench.path("rows.jsonl"), rows).expect("rows are written");
        let clip = wav((0..16_000).map(|n| n % 101 * 50));
        std::fs::write(bench.path("clip.wav"), clip).expect("a clip is written");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = harness();
        command.arg(verb).arg(self.path("c.toml")).arg("--results").arg(self.path("results"));
        command
    }

    fn probe(&self) -> Finished {
        finish(self.command("check").arg("--probe").env("TEST_KEY", KEY))
    }
}

const SPOKEN: &str = r#"{"id": "1", "audio": "clip.wav", "question": "What is said?", "reference": "x"}"#;
const WRITTEN: &str = r#"{"id": "1", "question": "What is two and two?", "reference": "4"}"#;

fn start(options: &str) -> Loopback {
    Loopback::start(Options::of(options)).expect("the server starts")
}

fn model(kind: &str, url: &str, more: &str) -> String {
    format!(
        "[model]\nkind = \"{kind}\"\nmodel = \"m\"\nbase_url = \"{url}\"\napi_key_env = \"TEST_KEY\"\n{more}\n\
         [model.flow]\nmax_attempts = 2\ntimeout_seconds = 20\npatience_seconds = 1\n"
    )
}

/// All files below a folder, with their content.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else {
            let bytes = std::fs::read(&entry).expect("a file");
            found.push((entry, bytes));
        }
    }
    found
}

#[track_caller]
fn holds_no_secret(name: &str, bytes: &[u8]) {
    for secret in [KEY, GATEWAY] {
        let there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!there, "{name} holds {secret}");
    }
}

#[test]
fn secrets_reach_the_server_and_nothing_else() {
    // One server takes the key; one does not, and says so in its errors.
    for (options, code) in [(format!("--key {KEY}"), 0), ("--key another-0123456789".to_owned(), 1)] {
        let server = start(&options);
        let headers = "[model.endpoint]\nheaders = { x-gateway-key = \"Bearer $TEST_GATEWAY\" }";
        let bench = Bench::new(&model("openai", &server.url(), headers), WRITTEN);
        let mut command = bench.command("run");
        command.env("TEST_KEY", KEY).env("TEST_GATEWAY", GATEWAY).env("HARNESS_LOG", "trace");
        let run = finish(&mut command).exits_with(code);
        holds_no_secret("standard output", run.stdout.as_bytes());
        holds_no_secret("standard error", run.stderr.as_bytes());
        assert_eq!(server.counters().answered, u64::from(code == 0), "{}", run.stderr);
        let left = files(&bench.path("results"));
        assert!(left.len() >= 5, "{left:?}");
        for (path, bytes) in &left {
            holds_no_secret(&path.display().to_string(), bytes);
        }
        let manifest = std::fs::read_to_string(bench.path("results/c/manifest.json")).expect("a manifest");
        assert!(manifest.contains("TEST_KEY") && manifest.contains("Bearer $TEST_GATEWAY"), "{manifest}");
    }
}

#[test]
fn a_variable_that_is_not_set_is_named_with_its_line() {
    let bench = Bench::new(&model("openai", "http://127.0.0.1:9/v1", ""), WRITTEN);
    let unset = finish(bench.command("run").env_remove("TEST_KEY")).exits_with(2);
    let unset = unset.says("c.toml:5:15").says("the environment variable `TEST_KEY` is not set");
    assert!(!unset.stderr.contains("panicked"), "{}", unset.stderr);
    assert!(!bench.path("results").exists(), "nothing is begun without the key");
    finish(bench.command("run").env("TEST_KEY", " ")).exits_with(2).says("`TEST_KEY` is empty");
    // A check goes on without the key, and tells all.
    finish(bench.command("check").arg("--probe").env_remove("TEST_KEY"))
        .exits_with(2)
        .says("`TEST_KEY` is not set")
        .prints("1 request")
        .prints("not asked: the problems with the model come first");
}

#[test]
fn the_probe_asks_every_dialect_in_its_own_words() {
    for (kind, path, more, rows, lines) in [
        ("openai", "/v1", "", SPOKEN, &["model     good", "text      good", "audio     good"][..]),
        ("azure", "", "", SPOKEN, &["model     ?", "text      good", "audio     good"]),
        ("gemini", "", "", SPOKEN, &["text      good", "audio     good"]),
        ("anthropic", "", "", WRITTEN, &["text      good"]),
        (
            "transcription",
            "/v1",
            "[model.transcription]\ntext = \"drop\"",
            SPOKEN,
            &["model     good", "audio     good"],
        ),
    ] {
        let server = start(&format!("--key {KEY} --models m"));
        let bench = Bench::new(&model(kind, &format!("{}{path}", server.url()), more), rows);
        let mut found = bench.probe().exits_with(0).prints("address   good").prints("all is well");
        for line in lines {
            found = found.prints(line);
        }
        assert!(!bench.path("results").exists(), "a check leaves nothing");
    }
}

#[test]
fn the_probe_says_what_to_change() {
    let server = start("--models other");
    let bench = Bench::new(&model("openai", &server.url(), ""), SPOKEN);
    bench.probe().exits_with(3).prints("has no model `m`; it has other; set model = \"other\"");

    let server = start("--models m --takes audio_url");
    let bench = Bench::new(&model("openai", &server.url(), ""), SPOKEN);
    bench.probe().exits_with(3).prints("set form = \"audio_url\" under [model.audio]");
    let bench = Bench::new(&model("openai", &server.url(), "[model.audio]\nform = \"audio_url\""), SPOKEN);
    bench.probe().exits_with(0).prints("audio     good");

    let server = start("--models m --deaf");
    let bench = Bench::new(&model("openai", &server.url(), ""), SPOKEN);
    bench.probe().exits_with(3).prints("the clip did not reach the model");

    let server = start("--key another-0123456789");
    let bench = Bench::new(&model("openai", &server.url(), ""), WRITTEN);
    let found = bench.probe().exits_with(3).prints("check the environment variable that holds the key");
    holds_no_secret("the probe", found.stdout.as_bytes());

    // Nobody is there: a port that was free a moment ago.
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("its address")
    };
    let bench = Bench::new(&model("openai", &format!("http://{gone}/v1"), ""), WRITTEN);
    bench.probe().exits_with(3).prints("start the server").says("see the probe");
}

#[test]
fn a_setting_that_would_not_be_sent_is_told_before_anything_is_asked() {
    let server = start("");
    let bench =
        Bench::new(&model("openai", &server.url(), "[model.endpoint]\nsend = [\"temperature\"]"), WRITTEN);
    let run = |set: &str| finish(bench.command("run").env("TEST_KEY", KEY).args(["--set", set]));
    run("generation.top_k=1").exits_with(2).says("c.toml:13:2: the setting top_k = 1 is not sent");
    assert_eq!(server.counters().answered, 0);
    run("generation.top_k=0").exits_with(0);
}

#[test]
fn a_run_goes_on_only_with_the_same_endpoint() {
    let (server, other) = (start(""), start(""));
    let bench = Bench::new(&model("openai", &server.url(), ""), WRITTEN);
    let run = |set: &str| finish(bench.command("run").env("TEST_KEY", KEY).args(["--set", set]));
    run("model.flow.concurrency=4").exits_with(0);
    // How fast it is asked is no part of a run; where, and what is sent, is.
    run("model.flow.concurrency=2").exits_with(0).says("1 of them answered");
    run(&format!("model.base_url={}", other.url())).exits_with(2).says("the endpoint was http://127.0.0.1");
    run("model.endpoint.send=[\"seed\"]").exits_with(2).says("the endpoint was");
    run("model.model=n").exits_with(2).says("the model was m and is now n");
    run("model.kind=gemini").exits_with(2).says("the model's kind was openai and is now gemini");
    assert_eq!((server.counters().answered, other.counters().answered), (1, 0));
}
