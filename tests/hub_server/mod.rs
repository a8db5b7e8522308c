//! A small Hugging Face hub on this machine: its API, its files, a second host that large files come from, and a
//! third one for plain files, with faults on demand and a log of who asked what and got how many bytes.
//!
//! One thread serves one connection with blocking calls. The library knows nothing of it.

#![allow(dead_code, reason = "each test uses a part of this")]

mod http;
mod repo;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use repo::{Repo, git_blob, sha256};

use http::Request;

/// The only token that private repositories take.
pub(crate) const TOKEN: &str = "hf_loopback_secret_token";

/// Files on a page of a listing.
const PAGE: usize = 3;

/// Which of the three hosts was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// The hub.
    Hub,
    /// Where the hub sends readers of large files.
    Cdn,
    /// Plain files.
    Web,
}

/// Something that goes wrong once, with the first request whose path holds a text.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// An error, with this `Retry-After`.
    Status(u16, Option<&'static str>),
    /// The connection ends after so many bytes of the body.
    Drop(usize),
    /// Nothing more comes after so many bytes of the body.
    Stall(usize),
    /// One byte is another than it should be.
    Wrong,
    /// The whole file comes, whatever part was asked for.
    NoRanges,
}

/// A file of the third host.
#[derive(Clone, Debug)]
pub(crate) struct WebFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) etag: Option<String>,
}

/// A request as it was answered.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) host: Host,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) authorization: Option<String>,
    /// Bytes of the body that were written.
    pub(crate) sent: u64,
}

struct State {
    addresses: [SocketAddr; 3],
    repos: Mutex<BTreeMap<String, Repo>>,
    web: Mutex<BTreeMap<String, WebFile>>,
    faults: Mutex<Vec<(String, Fault)>>,
    log: Mutex<Vec<Logged>>,
    /// Bodies come in pieces of so many bytes with such a wait between them.
    pace: Mutex<Option<(usize, Duration)>>,
    closed: AtomicBool,
}

/// The server; it closes when it is dropped.
pub(crate) struct HubServer {
    state: Arc<State>,
}

impl HubServer {
    /// A hub without repositories.
    pub(crate) fn start() -> Self {
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let state = Arc::new(State {
            addresses: [0, 1, 2].map(|n: usize| listeners[n].local_addr().expect("an address")),
            repos: Mutex::default(),
            web: Mutex::default(),
            faults: Mutex::default(),
            log: Mutex::default(),
            pace: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        for (listener, host) in listeners.into_iter().zip([Host::Hub, Host::Cdn, Host::Web]) {
            let state = Arc::clone(&state);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if state.closed.load(Ordering::SeqCst) {
                        return;
                    }
                    let state = Arc::clone(&state);
                    std::thread::spawn(move || serve(&state, host, &stream));
                }
            });
        }
        Self { state }
    }

    /// The address of a host.
    pub(crate) fn url(&self, host: Host) -> String {
        format!("http://{}", self.state.addresses[host as usize])
    }

    /// Puts a repository there, or another version of it: `datasets/org/name` or `models/org/name`.
    pub(crate) fn put(&self, name: &str, repo: Repo) {
        self.state.repos.lock().unwrap().insert(name.to_owned(), repo);
    }

    /// Puts a plain file there; its entity tag is that of its content.
    pub(crate) fn put_web(&self, path: &str, bytes: &[u8]) {
        let file = WebFile { bytes: bytes.to_vec(), etag: Some(format!("\"{}\"", &sha256(bytes)[..16])) };
        self.state.web.lock().unwrap().insert(path.to_owned(), file);
    }

    /// Puts a plain file there that the server says nothing of.
    pub(crate) fn put_web_without_etag(&self, path: &str, bytes: &[u8]) {
        self.state.web.lock().unwrap().insert(path.to_owned(), WebFile { bytes: bytes.to_vec(), etag: None });
    }

    /// Lets the next GET whose path holds `part` go wrong.
    pub(crate) fn fault(&self, part: &str, fault: Fault) {
        self.state.faults.lock().unwrap().push((part.to_owned(), fault));
    }

    /// Faults that did not happen yet.
    pub(crate) fn faults_left(&self) -> usize {
        self.state.faults.lock().unwrap().len()
    }

    /// Sends bodies slowly.
    pub(crate) fn pace(&self, piece: usize, wait: Duration) {
        *self.state.pace.lock().unwrap() = Some((piece, wait));
    }

    /// Sends bodies as fast as can be.
    pub(crate) fn full_speed(&self) {
        *self.state.pace.lock().unwrap() = None;
    }

    /// What was asked since the last call.
    pub(crate) fn take_log(&self) -> Vec<Logged> {
        std::mem::take(&mut self.state.log.lock().unwrap())
    }

    /// Bytes that were sent for GETs whose path holds `part`, so far.
    pub(crate) fn sent(&self, part: &str) -> u64 {
        let log = self.state.log.lock().unwrap();
        log.iter().filter(|l| l.method == "GET" && l.path.contains(part)).map(|l| l.sent).sum()
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        for address in self.state.addresses {
            drop(TcpStream::connect(address));
        }
    }
}

/// An answer.
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

fn serve(state: &State, host: Host, stream: &TcpStream) {
    let mut reader = std::io::BufReader::new(stream.try_clone().expect("a stream"));
    while let Some(request) = Request::read(&mut reader) {
        let mut fault = None;
        if request.method == "GET" {
            let mut faults = state.faults.lock().unwrap();
            let hit = faults.iter().position(|(part, _)| request.target.contains(part.as_str()));
            fault = hit.map(|at| faults.remove(at).1);
        }
        let mut answer = match &fault {
            Some(Fault::Status(status, after)) => {
                let answer = Answer::new(*status, "trouble");
                after.map_or_else(
                    || Answer::new(*status, "trouble"),
                    |after| answer.with("Retry-After", after),
                )
            }
            _ => match host {
                Host::Hub => on_hub(state, &request),
                Host::Cdn => on_cdn(state, &request, fault.as_ref()),
                Host::Web => on_web(state, &request, fault.as_ref()),
            },
        };
        if matches!(fault, Some(Fault::Wrong))
            && let Some(byte) = answer.body.last_mut()
        {
            *byte ^= 1;
        }
        let at = {
            let mut log = state.log.lock().unwrap();
            log.push(Logged {
                host,
                method: request.method.clone(),
                path: request.target.clone(),
                status: answer.status,
                authorization: request.header("authorization").map(str::to_owned),
                sent: 0,
            });
            log.len() - 1
        };
        if !send(state, stream, &request, &answer, fault.as_ref(), at) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

/// Writes an answer; false where the connection ends with it.
fn send(
    state: &State,
    mut stream: &TcpStream,
    request: &Request,
    answer: &Answer,
    fault: Option<&Fault>,
    at: usize,
) -> bool {
    let mut head = format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    if stream.write_all(head.as_bytes()).is_err() {
        return false;
    }
    if request.method == "HEAD" {
        return true;
    }
    let end = match fault {
        Some(Fault::Drop(bytes) | Fault::Stall(bytes)) => (*bytes).min(answer.body.len()),
        _ => answer.body.len(),
    };
    let pace = *state.pace.lock().unwrap();
    // Answers about files come at once; only the files themselves are slow.
    let slow = pace.filter(|_| answer.body.len() > 4096);
    for piece in answer.body[..end].chunks(slow.map_or(64 << 10, |(piece, _)| piece)) {
        if stream.write_all(piece).is_err() {
            return false;
        }
        if let Some(logged) = state.log.lock().unwrap().get_mut(at) {
            logged.sent += piece.len() as u64;
        }
        if let Some((_, wait)) = slow {
            std::thread::sleep(wait);
        }
    }
    match fault {
        Some(Fault::Drop(_)) => false,
        Some(Fault::Stall(_)) => {
            std::thread::sleep(Duration::from_secs(20));
            false
        }
        _ => true,
    }
}

/// `/api/models/org/name/revision/REV`, `/api/…/tree/COMMIT`, `/[datasets/]org/name/resolve/REV/PATH`
fn on_hub(state: &State, request: &Request) -> Answer {
    let parts: Vec<&str> = request.path().trim_start_matches('/').split('/').collect();
    let repos = state.repos.lock().unwrap();
    let (name, rest) = match parts.as_slice() {
        ["api", kind, owner, name, rest @ ..] => (format!("{kind}/{owner}/{name}"), rest),
        ["datasets", owner, name, rest @ ..] => (format!("datasets/{owner}/{name}"), rest),
        [owner, name, rest @ ..] => (format!("models/{owner}/{name}"), rest),
        _ => return Answer::new(404, "Not Found"),
    };
    let token = format!("Bearer {TOKEN}");
    let found =
        repos.get(&name).filter(|repo| !repo.private || request.header("authorization") == Some(&token));
    let Some(repo) = found else {
        return Answer::new(401, "Invalid username or password.").with("X-Error-Code", "RepoNotFound");
    };
    let known = |revision: &str| revision == "main" || revision == repo.commit();
    match rest {
        ["revision", revision] if known(revision) => {
            let siblings: Vec<_> =
                repo.files.keys().map(|path| serde_json::json!({ "rfilename": path })).collect();
            let id = name.split_once('/').map_or("", |(_, id)| id);
            let info = serde_json::json!({ "id": id, "sha": repo.commit(), "siblings": siblings, "private": false,
                "gated": false, "disabled": false, "downloads": 0, "likes": 0, "tags": [] });
            Answer::new(200, info.to_string()).with("Content-Type", "application/json")
        }
        ["tree", revision] if known(revision) => {
            let from: usize = request.query("cursor").and_then(|from| from.parse().ok()).unwrap_or(0);
            let rows = repo.rows();
            let page: Vec<_> = rows.iter().skip(from).take(PAGE).collect();
            let answer = Answer::new(200, serde_json::json!(page).to_string())
                .with("Content-Type", "application/json");
            if from + PAGE >= rows.len() {
                return answer;
            }
            let host = state.addresses[Host::Hub as usize];
            let next = format!(
                "<http://{host}{}?recursive=true&cursor={}>; rel=\"next\"",
                request.path(),
                from + PAGE
            );
            answer.with("Link", next)
        }
        ["revision" | "tree", ..] => {
            Answer::new(404, "no such revision").with("X-Error-Code", "RevisionNotFound")
        }
        ["resolve", revision, path @ ..] if known(revision) => {
            let path = http::unescape(&path.join("/"));
            let Some(bytes) = repo.files.get(&path) else {
                let answer = Answer::new(404, "Entry not found").with("X-Error-Code", "EntryNotFound");
                return answer.with("X-Repo-Commit", repo.commit());
            };
            if let Some(etag) = &repo.own_etag {
                return part(request, bytes, Some(&format!("\"{etag}\"")), None);
            }
            if !repo.is_large(&path) {
                let etag = format!("\"{}\"", git_blob(bytes));
                return part(request, bytes, None, None)
                    .with("ETag", etag)
                    .with("X-Repo-Commit", repo.commit());
            }
            let sha256 = repo.sha256_of(&path);
            let cdn = state.addresses[Host::Cdn as usize];
            Answer::new(302, "")
                .with("Location", format!("http://{cdn}/{name}/{path}?signature=very-secret"))
                .with("X-Linked-Etag", format!("\"{sha256}\""))
                .with("X-Linked-Size", bytes.len().to_string())
                .with("X-Repo-Commit", repo.commit())
        }
        _ => Answer::new(404, "Not Found").with("X-Error-Code", "RevisionNotFound"),
    }
}

fn on_cdn(state: &State, request: &Request, fault: Option<&Fault>) -> Answer {
    let path = http::unescape(request.path().trim_start_matches('/'));
    let repos = state.repos.lock().unwrap();
    let found = repos
        .iter()
        .find_map(|(name, repo)| repo.files.get(path.strip_prefix(name.as_str())?.trim_start_matches('/')));
    if request.header("authorization").is_some() {
        return Answer::new(400, "only one authentication mechanism is allowed");
    }
    match found {
        Some(bytes) => part(request, bytes, Some("\"cdn\""), fault),
        None => Answer::new(404, "no such key"),
    }
}

fn on_web(state: &State, request: &Request, fault: Option<&Fault>) -> Answer {
    let web = state.web.lock().unwrap();
    match web.get(request.path()) {
        Some(file) => part(request, &file.bytes, file.etag.as_deref(), fault),
        None => Answer::new(404, "404: Not Found"),
    }
}

/// A file, or the part of it that is asked for.
fn part(request: &Request, bytes: &[u8], etag: Option<&str>, fault: Option<&Fault>) -> Answer {
    let asked = request.header("range").and_then(|range| range.strip_prefix("bytes="));
    let from = asked.and_then(|range| range.trim_end_matches('-').parse::<usize>().ok());
    let still = request.header("if-range").is_none_or(|wanted| Some(wanted) == etag);
    let answer = match from.filter(|_| still && !matches!(fault, Some(Fault::NoRanges))) {
        Some(from) if from >= bytes.len() => Answer::new(416, ""),
        Some(from) => Answer::new(206, &bytes[from..])
            .with("Content-Range", format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len())),
        None => Answer::new(200, bytes),
    };
    match etag {
        Some(etag) => answer.with("ETag", etag),
        None => answer,
    }
}
