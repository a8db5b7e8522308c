//! Servers that are started for a stage: they are there when they are asked, come back when they die, and nothing of them
//! is left, however the run ends.

#![cfg(all(feature = "endpoint", unix))]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;
#[path = "loopback/mod.rs"]
mod loopback;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Finished, Place, finish, harness, wav};
use loopback::{Loopback, Options};

/// The server as a process: this file's own program, told by its environment to be one.
#[test]
fn a_server_for_the_other_tests() {
    let Ok(options) = std::env::var("TEST_SERVER") else { return };
    let server = Loopback::start(Options::of(&options)).unwrap();
    println!("serving at {}", server.url());
    let Ok(after) = std::env::var("TEST_SERVER_DIES_AFTER") else { return server.wait() };
    let (after, deaths) = (after.parse::<u64>().unwrap(), std::env::var("TEST_SERVER_DEATHS").unwrap());
    loop {
        let died = std::fs::read_to_string(&deaths).unwrap_or_default();
        if server.counters().requests >= after && died.is_empty() {
            std::fs::write(&deaths, "died\n").unwrap();
            println!("out of memory, as it happens");
            std::process::exit(3);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A port that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Whether a process is there.
fn lives(pid: &str) -> bool {
    Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().unwrap().success()
}

/// Waits until something holds.
#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A shell's command that serves, after what it does before; `$PIDS` is told its processes.
const SERVE: &str = "echo $$ >> \"$PIDS\"; sleep 1000 & echo $! >> \"$PIDS\"; \
                     exec \"$PROGRAM\" a_server_for_the_other_tests --exact --nocapture";

/// Questions on a recording for a model whose server is to be started.
struct Bench {
    place: Place,
    port: u16,
}

impl Bench {
    /// `server` stands under `[model.server]`, `more` behind it.
    fn new(rows: usize, server: &str, more: &str) -> Self {
        let row = |n: usize| {
            format!(
                "{{\"id\":\"q{n}\",\"audio\":\"a.wav\",\"question\":\"Question {n}?\",\"reference\":\"r\",\
                 \"category\":\"C\",\"set\":\"long\"}}\n"
            )
        };
        let place = Place::new(&(0..rows).map(row).collect::<String>());
        std::fs::write(place.path("a.wav"), wav((0..8000).map(|sample| sample % 3001))).unwrap();
        let port = free_port();
        let config = format!(
            "[model]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nrevision = \"1\"\n\
             api_key_env = \"TEST_KEY\"\n\n[model.flow]\nconcurrency = 4\ndelay_seconds = 0.02\n\
             max_delay_seconds = 0.2\npatience_seconds = 0\n\n[model.server]\n{server}\n\n\
             [generation]\nmax_new_tokens = 64\n\n{more}\n\
             [[benchmark]]\nname = \"cp-bench\"\ndata = \"rows.jsonl\"\n"
        );
        std::fs::write(place.path("c.toml"), config).unwrap();
        Self { place, port }
    }

    /// A bench whose server is a shell's script.
    fn with_script(rows: usize, script: &str, server: &str) -> Self {
        Self::new(
            rows,
            &format!("command = [\"sh\", \"-c\", '''{script}''']\nstop_seconds = 5\n{server}"),
            "",
        )
    }

    fn command(&self, verb: &str, options: &str) -> Command {
        let mut command = self.place.command(verb, &[]);
        command
            .env("TEST_KEY", "sk-test-0123456789")
            .env("PROGRAM", std::env::current_exe().unwrap())
            .env("PIDS", self.place.path("pids"))
            .env("TEST_SERVER", format!("--port {} {options}", self.port));
        command
    }

    fn run(&self, options: &str) -> Finished {
        finish(&mut self.command("run", options))
    }

    fn start(&self, options: &str) -> Child {
        let mut command = self.command("run", options);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.result(name)).unwrap_or_default()
    }

    /// The processes that servers have told.
    fn pids(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.place.path("pids")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Checks that nothing of any server is left.
    #[track_caller]
    fn nothing_is_left(&self) {
        let pids = self.pids();
        assert!(!pids.is_empty(), "no server told its processes");
        until("the processes of the servers are gone", || pids.iter().all(|pid| !lives(pid)));
        assert!(!listens(self.port));
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

#[test]
fn the_model_s_server_is_gone_before_the_judge_s_begins_and_a_second_run_starts_none() {
    let bench = Bench::new(12, "command = [\"sh\", \"-c\", '''SERVE''']", "JUDGE");
    bench.place.edit("SERVE", &SERVE.replace("exec", "echo key $TEST_KEY; exec"));
    // The same port: were the model's server still there, the judge's could not begin.
    let judge = format!(
        "[judge]\nname = \"ann\"\nruns = 2\n\n[judge.model]\nkind = \"openai\"\nmodel = \"j\"\n\
         base_url = \"http://127.0.0.1:{port}/v1\"\nrevision = \"1\"\n\n\
         [judge.server]\ncommand = [\"sh\", \"-c\", '''{serve}''']\n\
         env = {{ TEST_SERVER = \"--port {port} --seeded --answers Rating:1,Rating:5\", VLLM_AUTH = \"Bearer $TEST_KEY\" }}\n\n\
         [judge.generation]\ntemperature = 1.0\n",
        // It comes from a variable that holds a secret by its name, and is told under another.
        serve = SERVE.replace("exec", "echo auth $VLLM_AUTH; exec"),
        port = bench.port
    );
    bench.place.edit("JUDGE", &judge);
    let done = bench.run("").exits_with(0).says("starting server sh").says("server ready after");
    assert!(done.stderr.contains("judge ann: 24 calls"), "{}", done.stderr);
    assert_eq!(done.stderr.matches("stopping server").count(), 2, "{}", done.stderr);
    assert_eq!(bench.place.responses().len(), 12);
    bench.nothing_is_left();
    assert_eq!(bench.pids().len(), 4, "two servers with a process of their own each");

    let log = bench.log("server.log");
    assert!(log.contains("starting: sh -c") && log.contains("serving at http://127.0.0.1"), "{log}");
    assert!(log.contains("key ***") && log.trim_end().ends_with("stopped"), "{log}");
    let judge_log = bench.log("judge-server.log");
    assert!(judge_log.contains("ready") && judge_log.contains("auth Bearer ***"), "{judge_log}");
    for entry in std::fs::read_dir(bench.place.path("results/c")).unwrap().flatten() {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&text).contains("sk-test"),
            "{} holds the key",
            entry.path().display()
        );
    }

    // Nothing is left to ask: no server is started.
    bench.run("").exits_with(0);
    let mut judge = harness();
    judge
        .args(["judge", "c", "--results"])
        .arg(bench.place.path("results"))
        .env("TEST_KEY", "sk-test-0123456789");
    finish(&mut judge).exits_with(0);
    assert_eq!((bench.log("server.log"), bench.log("judge-server.log")), (log, judge_log));
    assert_eq!(bench.pids().len(), 4);
}

#[test]
fn a_server_that_dies_is_started_again_and_no_request_is_lost() {
    let bench = Bench::with_script(60, SERVE, "");
    let with_death = |verb: &str| {
        let mut command = bench.command(verb, "--latency 10ms");
        command.env("TEST_SERVER_DIES_AFTER", "20").env("TEST_SERVER_DEATHS", bench.place.path("deaths"));
        command
    };
    // There is no patience with servers that are down: it does not run meanwhile.
    let done = finish(&mut with_death("run")).exits_with(0);
    for text in [
        "the server ended with exit code 3; it is started again (1 of 2)",
        "  | out of memory, as it happens",
        "server ready again after",
    ] {
        assert!(done.stderr.contains(text), "{text}: {}", done.stderr);
    }
    let responses = bench.place.responses();
    assert_eq!(responses.len(), 60);
    assert!(responses.iter().all(|response| response["outcome"] == "ok"));
    bench.nothing_is_left();

    // Without restarts the run ends there, and what was answered is kept.
    let bench = Bench::with_script(60, SERVE, "restarts = 0");
    let mut command = bench.command("run", "--latency 10ms");
    command.env("TEST_SERVER_DIES_AFTER", "20").env("TEST_SERVER_DEATHS", bench.place.path("deaths"));
    let done = finish(&mut command).exits_with(3).says("the server ended with exit code 3");
    assert!(
        done.stderr.contains("  | out of memory") && done.stderr.contains("server.log"),
        "{}",
        done.stderr
    );
    let kept = bench.place.responses();
    assert!((1..60).contains(&kept.len()), "{}", kept.len());
    assert!(kept.iter().all(|response| response["outcome"] == "ok"), "none is failed by it");
    bench.nothing_is_left();
    bench.run("").exits_with(0);
    assert_eq!(bench.place.responses().len(), 60);
    assert!(bench.log("server.log").matches("starting: ").count() == 2, "the log is gone on with");
}

#[test]
fn a_server_that_never_gets_ready_ends_the_run_with_its_last_lines() {
    let stuck = "echo $$ >> \"$PIDS\"; echo loading weights; sleep 1000";
    let bench = Bench::with_script(1, stuck, "ready_seconds = 1.5");
    bench.run("").exits_with(3).says("not ready within 1.5 s").says("  | loading weights").says("server.log");
    bench.nothing_is_left();

    let bench = Bench::with_script(1, "echo no such model >&2; exit 7", "restarts = 1");
    bench
        .run("")
        .exits_with(3)
        .says("it is started again (1 of 1)")
        .says("the server ended with exit code 7 (it was started 2 times)")
        .says("  | no such model");

    let bench = Bench::new(1, "command = [\"no-such-program\", \"serve\"]", "");
    let done = bench.run("").exits_with(3).says("the server cannot be started: `no-such-program`: ");
    assert!(!done.stderr.contains("started again"), "{}", done.stderr);

    let bench =
        Bench::with_script(1, SERVE, "ready_url = \"http://127.0.0.1:PORT/no/such/page\"\nready_seconds = 3");
    bench.place.edit("PORT", &bench.port.to_string());
    bench.run("").exits_with(3).says("/no/such/page answers 404");
    bench.nothing_is_left();
}

#[test]
fn somebody_else_s_server_is_refused_or_used_and_left_running() {
    let bench = Bench::with_script(3, SERVE, "");
    let other = Loopback::start(Options::of(&format!("--port {}", bench.port))).unwrap();
    bench
        .run("")
        .exits_with(3)
        .says(&format!("somebody listens at http://127.0.0.1:{}", bench.port))
        .says("reuse = true");
    assert_eq!(other.counters().requests, 0);
    bench.place.edit("stop_seconds = 5", "reuse = true");
    bench.run("").exits_with(0).says("it is used, and left running");
    assert!(bench.pids().is_empty() && listens(bench.port));
    assert_eq!(bench.place.responses().len(), 3);
}

#[test]
fn no_end_of_a_run_leaves_a_server() {
    // While it waits for the server.
    let stuck = "echo $$ >> \"$PIDS\"; sleep 1000 & echo $! >> \"$PIDS\"; wait";
    for (name, code) in [("INT", Some(130)), ("TERM", Some(143)), ("KILL", None)] {
        let bench = Bench::with_script(1, stuck, "");
        let mut child = bench.start("");
        until("the server is started", || bench.pids().len() == 2);
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), code, "{name}");
        bench.nothing_is_left();
    }
    // While requests are under way.
    for (name, twice, code) in [("INT", true, Some(130)), ("TERM", false, Some(143)), ("KILL", false, None)] {
        let bench = Bench::with_script(40, SERVE, "");
        let mut child = bench.start("--latency 100ms");
        until("some are answered", || bench.place.responses().len() > 2);
        signal(&child, name);
        if twice {
            std::thread::sleep(Duration::from_millis(20));
            signal(&child, name);
        }
        assert_eq!(child.wait().unwrap().code(), code, "{name}");
        bench.nothing_is_left();
        let before = bench.place.responses().len();
        assert!(before < 40, "{name} came in the middle");
        bench.run("").exits_with(0);
        assert_eq!(bench.place.responses().len(), 40);
    }
}

/// A batch system that ends a job tells all of its processes, the server too: that is no death to be mended.
#[test]
fn a_server_that_ends_with_its_job_is_not_started_again() {
    let bench = Bench::with_script(40, SERVE, "");
    let mut child = bench.start("--latency 100ms");
    until("some are answered", || bench.place.responses().len() > 2);
    signal(&child, "TERM");
    // The harness has heard it first here; else it would say that the server died.
    std::thread::sleep(Duration::from_millis(30));
    for pid in bench.pids() {
        let _ = Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap();
    }
    assert_eq!(child.wait().unwrap().code(), Some(143));
    bench.nothing_is_left();
    assert_eq!(bench.pids().len(), 2, "one server");
    bench.run("").exits_with(0);
    assert_eq!(bench.place.responses().len(), 40);
}

#[test]
fn a_server_that_does_not_want_to_end_is_killed_with_all_that_it_has_started() {
    // One child ignores the signal, another leaves the group.
    let stubborn = format!(
        "trap '' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID') >> \"$PIDS\"; while :; do sleep 1; done) & {SERVE}"
    );
    let bench = Bench::with_script(2, &stubborn, "");
    bench.place.edit("stop_seconds = 5", "stop_seconds = 0.5");
    bench.run("").exits_with(0);
    assert_eq!(bench.pids().len(), 3);
    bench.nothing_is_left();

    if cfg!(target_os = "linux") && PathBuf::from("/usr/bin/setsid").exists() {
        let escaped = SERVE.replace(
            "sleep 1000 & echo $! >> \"$PIDS\"; ",
            "setsid sh -c 'echo $$ >> \"$PIDS\"; exec sleep 1000' & ",
        );
        let bench = Bench::with_script(2, &escaped, "");
        bench.run("").exits_with(0);
        until("it has told its number", || bench.pids().len() == 2);
        bench.nothing_is_left();
    }
}
