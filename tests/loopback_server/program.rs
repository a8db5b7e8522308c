//! The server as a program: what it prints, how it ends, and its client.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The example, where it was built: `cargo test` does, `cargo test --test loopback_server` does not.
fn program() -> Option<PathBuf> {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("loopback_server{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        println!("skipped: {} is not built; `cargo build --example loopback_server` does", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn it_prints_its_address_and_ends_when_asked() {
    let Some(program) = program() else { return };
    let mut server =
        Command::new(&program).args(["--fault", "500=0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let addr = line.trim().strip_prefix("http://").unwrap().to_owned();

    let url = format!("http://{addr}/v1/chat/completions");
    let client = Command::new(&program)
        .args(["--blast", &url, "--requests", "300", "--connections", "8", "--clip-bytes", "20000"])
        .output()
        .unwrap();
    let printed = String::from_utf8(client.stdout).unwrap();
    assert!(client.status.success(), "{printed}");
    assert!(printed.contains("not 200        0\nwrong answers  0 of 5 checked\n"), "{printed}");

    let mut stream = TcpStream::connect(&addr).unwrap();
    stream.write_all(b"POST /shutdown HTTP/1.1\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("{\"stopping\":true}"), "{response}");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(server.wait().unwrap().success());
    let counters: serde_json::Value = serde_json::from_str(&rest).unwrap();
    assert_eq!((&counters["answered"], &counters["repeats"]), (&300.into(), &0.into()));
}

#[test]
fn wrong_arguments_get_a_sentence() {
    let Some(program) = program() else { return };
    for (arguments, expected) in [
        (["--fault", "999=1"], "the kinds are 400, 401"),
        (["--fault", "429=2"], "expected 0 to 1"),
        (["--host", "0.0.0.0"], "not a loopback address"),
        (["--latency", "5"], "expected a number and ms, s or m"),
        (["--log", "/nowhere/at/all"], "cannot write the log"),
        (["--blast", "ftp://x"], "expected http://host:port/path"),
    ] {
        let run = Command::new(&program).args(arguments).output().unwrap();
        let error = String::from_utf8(run.stderr).unwrap();
        assert!(!run.status.success() && error.contains(expected), "{arguments:?}: {error}");
    }
}
