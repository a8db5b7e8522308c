//! A minimal HTTP client that sees every byte, and bodies to send with it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::loopback::{Loopback, Options, base64};

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// A server with these options.
pub(crate) fn server(options: &str) -> Loopback {
    Loopback::start(Options::of(options)).unwrap()
}

/// A clip from the fixtures.
pub(crate) fn clip() -> Vec<u8> {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/audio/tone1_16k_odd.wav");
    std::fs::read(path).unwrap()
}

/// A chat with a question and the clip.
pub(crate) fn chat(question: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": [
        {"type": "text", "text": question},
        {"type": "input_audio", "input_audio": {"data": base64(&clip()), "format": "wav"}}]}]})
}

/// A response, whole.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A connection that is kept.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    ahead: Vec<u8>,
}

impl Client {
    pub(crate) fn new(server: &Loopback) -> Self {
        let stream = TcpStream::connect(server.addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut chunk = [0; 4096];
        let read = loop {
            match self.stream.read(&mut chunk) {
                // A read with a timeout is not taken up again by the system.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.ahead.extend_from_slice(&chunk[..read]);
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < bytes {
            self.fill()?;
        }
        Ok(self.ahead.drain(..bytes).collect())
    }

    fn until(&mut self, end: &str) -> io::Result<String> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.ahead, end.as_bytes()) {
                let text = self.take(at + end.len())?;
                return Ok(String::from_utf8(text[..at].to_vec()).unwrap());
            }
            self.fill()?;
        }
    }

    pub(crate) fn receive(&mut self) -> io::Result<Response> {
        let head = self.until("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let mut response = Response { status, headers, body: Vec::new() };
        if let Some(length) = response.header("content-length") {
            response.body = self.take(length.parse().unwrap())?;
        } else if response.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.until("\r\n")?, 16).unwrap();
                response.body.extend(self.take(size)?);
                assert_eq!(self.until("\r\n")?, "");
                if size == 0 {
                    break;
                }
            }
        }
        Ok(response)
    }

    pub(crate) fn ask(&mut self, path: &str, headers: &str, body: &[u8]) -> io::Result<Response> {
        self.send(&request(path, headers, body))?;
        self.receive()
    }
}

/// A request as bytes; `headers` each end with a line break.
pub(crate) fn request(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let kind = if headers.contains("content-type") { "" } else { "content-type: application/json\r\n" };
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\n{kind}{headers}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Posts JSON over a fresh connection.
pub(crate) fn post(server: &Loopback, path: &str, headers: &str, body: &Value) -> io::Result<Response> {
    Client::new(server).ask(path, headers, body.to_string().as_bytes())
}

/// Gets over a fresh connection.
pub(crate) fn get(server: &Loopback, path: &str, headers: &str) -> Response {
    let mut client = Client::new(server);
    client.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").as_bytes()).unwrap();
    client.receive().unwrap()
}
