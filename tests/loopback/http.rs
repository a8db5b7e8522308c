//! HTTP/1.1 by hand: requests are read through one reused buffer, and bodies are shown to their reader in place.
//!
//! Keep-alive, pipelining, chunked bodies and `Expect: 100-continue` are here; it must not know any dialect.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

/// The size of the buffer: large enough that a 400 kB body takes few system calls, small enough to stay in cache.
const BUFFER: usize = 128 << 10;

/// The longest head of a request.
const MAX_HEAD: usize = 32 << 10;

/// Why a request cannot be read.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The client went away, or the server is stopping.
    Gone,
    /// The request is not HTTP as it should be: a status and a sentence.
    Bad(u16, String),
}

impl From<io::Error> for Trouble {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// So many bytes.
    Fixed(u64),
    /// In chunks.
    Chunked,
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    /// `GET`, `POST`…
    pub(crate) method: String,
    /// The path without query.
    pub(crate) path: String,
    /// What follows the question mark.
    pub(crate) query: String,
    /// The body's length.
    pub(crate) length: Length,
    /// Whether the client waits for a go-ahead.
    pub(crate) expects: bool,
    /// Whether the connection ends with this exchange.
    pub(crate) close: bool,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The value of a header; names are lower-case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, v)| v)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Trouble> {
        let bad = |why: &str| Trouble::Bad(400, format!("{why}; expected an HTTP/1.1 request"));
        let text = std::str::from_utf8(bytes).map_err(|_| bad("the head is not UTF-8 text"))?;
        let mut lines = text.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return Err(bad("the first line is not a method, a path and a version"));
        };
        let old = match version {
            "HTTP/1.1" => false,
            "HTTP/1.0" => true,
            _ => return Err(Trouble::Bad(505, "this server speaks HTTP/1.1 only".to_owned())),
        };
        let mut headers = Vec::with_capacity(12);
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or_else(|| bad("a header has no colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut head = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            length: Length::Fixed(0),
            expects: false,
            close: old,
            headers,
        };
        if let Some(value) = head.header("connection") {
            head.close =
                value.eq_ignore_ascii_case("close") || (old && !value.eq_ignore_ascii_case("keep-alive"));
        }
        head.expects = head.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"));
        head.length = match (head.header("transfer-encoding"), head.header("content-length")) {
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => Length::Chunked,
            (None, Some(length)) => {
                Length::Fixed(length.parse().map_err(|_| bad("the content-length is not a number"))?)
            }
            (None, None) => Length::Fixed(0),
            _ => return Err(bad("the body's length is not one of content-length and chunked")),
        };
        Ok(head)
    }
}

/// A connection and what was read from it ahead.
pub(crate) struct Connection<'a> {
    stream: &'a TcpStream,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<'a> Connection<'a> {
    /// A fresh connection.
    pub(crate) fn new(stream: &'a TcpStream) -> Self {
        Self { stream, buffer: vec![0; BUFFER].into_boxed_slice(), start: 0, end: 0 }
    }

    /// What was read and not yet used.
    fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn advance(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Reads more; an end of the stream is trouble here.
    fn fill(&mut self) -> Result<(), Trouble> {
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start.., 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => Err(Trouble::Gone),
            Ok(read) => {
                self.end += read;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(_) => Err(Trouble::Gone),
        }
    }

    /// The head of the next request; [`Trouble::Gone`] where the client is done.
    pub(crate) fn head(&mut self) -> Result<Head, Trouble> {
        let mut seen = 0;
        loop {
            let ahead = self.ahead();
            if let Some(at) = memchr::memmem::find(&ahead[seen..], b"\r\n\r\n") {
                let length = seen + at;
                let head = Head::parse(&ahead[..length]);
                self.advance(length + 4);
                return head;
            }
            if ahead.len() > MAX_HEAD {
                return Err(Trouble::Bad(431, "the head of the request is longer than 32 KiB".to_owned()));
            }
            seen = ahead.len().saturating_sub(3);
            self.fill()?;
        }
    }

    /// Shows the body to `take` as it arrives and returns its size; one beyond `max` is trouble.
    pub(crate) fn body(
        &mut self,
        length: Length,
        max: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<u64, Trouble> {
        let over =
            || Trouble::Bad(413, format!("the body is larger than {max} bytes, the most that is taken here"));
        match length {
            Length::Fixed(size) if size > max => Err(over()),
            Length::Fixed(size) => {
                self.stretch(size, &mut take)?;
                Ok(size)
            }
            Length::Chunked => {
                let mut total = 0_u64;
                loop {
                    let line = self.line()?;
                    let digits = line.split(';').next().unwrap_or_default().trim();
                    let size = u64::from_str_radix(digits, 16)
                        .map_err(|_| Trouble::Bad(400, format!("`{digits}` is not the size of a chunk")))?;
                    total = total.saturating_add(size);
                    if total > max {
                        return Err(over());
                    }
                    if size == 0 {
                        while !self.line()?.is_empty() {}
                        return Ok(total);
                    }
                    self.stretch(size, &mut take)?;
                    if !self.line()?.is_empty() {
                        return Err(Trouble::Bad(400, "a chunk is longer than its size says".to_owned()));
                    }
                }
            }
        }
    }

    fn stretch(&mut self, size: u64, take: &mut impl FnMut(&[u8])) -> Result<(), Trouble> {
        let mut left = size;
        while left > 0 {
            if self.ahead().is_empty() {
                self.fill()?;
            }
            let ahead = self.ahead();
            let part = ahead.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            take(&ahead[..part]);
            self.advance(part);
            left -= part as u64;
        }
        Ok(())
    }

    /// A short line of the framing.
    fn line(&mut self) -> Result<String, Trouble> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', self.ahead()) {
                let line = String::from_utf8_lossy(&self.ahead()[..at]).trim_end_matches('\r').to_owned();
                self.advance(at + 1);
                return Ok(line);
            }
            if self.ahead().len() > 1024 {
                return Err(Trouble::Bad(400, "a line between chunks is longer than 1 KiB".to_owned()));
            }
            self.fill()?;
        }
    }

    /// Gives a client that waits for it the go-ahead.
    pub(crate) fn go_ahead(&self) -> Result<(), Trouble> {
        let mut stream = self.stream;
        Ok(stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?)
    }

    /// Reads and forgets for a while what a client still sends, so that it can read the refusal before the
    /// connection breaks.
    pub(crate) fn linger(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let _ = self.stream.set_read_timeout(Some(std::time::Duration::from_millis(500)));
        let mut left = 64_usize << 20;
        while let Ok(read @ 1..) = self.stream.read(&mut self.buffer) {
            left = left.saturating_sub(read);
            if left == 0 {
                return;
            }
        }
    }
}

/// A response before it is written.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: u16,
    /// The type of the body.
    pub(crate) content_type: &'static str,
    /// More headers.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// Whether the body goes in chunks.
    pub(crate) chunked: bool,
}

impl Reply {
    /// A JSON body.
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string().into_bytes())
    }

    /// Any body.
    pub(crate) fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status, content_type, headers: Vec::new(), body, chunked: false }
    }

    /// The head and the framed body as they go over the wire.
    pub(crate) fn wire(&self, close: bool) -> (Vec<u8>, Vec<u8>) {
        let mut head = Vec::with_capacity(512 + self.body.len());
        let _ = write!(
            head,
            "HTTP/1.1 {} {}\r\ncontent-type: {}\r\n",
            self.status,
            reason(self.status),
            self.content_type
        );
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if close {
            head.extend_from_slice(b"connection: close\r\n");
        }
        if !self.chunked {
            let _ = write!(head, "content-length: {}\r\n\r\n", self.body.len());
            return (head, self.body.clone());
        }
        head.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        // Chunks that end in the middle of lines and characters, as a proxy may cut them.
        let mut body = Vec::with_capacity(self.body.len() + 256);
        for chunk in self.body.chunks(97) {
            let _ = write!(body, "{:x}\r\n", chunk.len());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        (head, body)
    }
}

/// The phrase of a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Payload Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        529 => "Site Overloaded",
        _ => "Error",
    }
}
