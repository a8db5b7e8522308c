//! The cheapest client that can be: ready-made bodies over blocking connections, each answer checked.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::loopback::{Piece, base64, cpu_seconds, right_answer};

/// How to post.
#[derive(clap::Args)]
#[group(id = "blast")]
pub(crate) struct Options {
    /// Be a client instead and post to this URL, such as `http://127.0.0.1:8000/v1/chat/completions`.
    #[arg(long = "blast", value_name = "URL", help_heading = "Client")]
    pub(crate) url: Option<String>,
    /// How many requests in all.
    #[arg(long, default_value_t = 20_000, help_heading = "Client")]
    requests: u64,
    /// How many connections, each with one request at a time.
    #[arg(long, default_value_t = 64, help_heading = "Client")]
    connections: u64,
    /// The size of each clip in bytes; the default is 10 s of 16 kHz 16-bit sound.
    #[arg(long, default_value_t = 320_044, help_heading = "Client")]
    clip_bytes: usize,
}

/// Distinct clips, sent in turn.
const CLIPS: u64 = 20;

/// One answer in so many is checked.
const CHECKED: u64 = 64;

/// A body but for its first lines: base64 of a clip and what closes it.
struct Clip {
    base64: String,
}

impl Clip {
    /// A WAV header followed by noise.
    fn new(seed: u64, bytes: usize) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut wav =
            b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\0\0\0\0"
                .to_vec();
        wav.resize_with(bytes.max(44), || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        });
        Self { base64: base64(&wav) }
    }
}

const CLOSING: &str = "\",\"format\":\"wav\"}}]}]}";

fn opening(question: &str) -> String {
    format!(
        "{{\"model\":\"loopback\",\"temperature\":0.0,\"max_tokens\":64,\"messages\":[{{\"role\":\"user\",\"content\":[\
         {{\"type\":\"text\",\"text\":\"{question}\"}},{{\"type\":\"input_audio\",\"input_audio\":{{\"data\":\""
    )
}

/// Posts, and prints what came of it.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let url = options.url.as_deref().unwrap_or_default();
    let invalid =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("`{url}`: expected http://host:port/path"));
    let (host, path) =
        url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).ok_or_else(invalid)?;
    let clips: Vec<_> = (0..CLIPS).map(|seed| Clip::new(seed + 1, options.clip_bytes)).collect();
    let before = server_counters(host).ok();
    let [next, checked, wrong, refused] = [const { AtomicU64::new(0) }; 4];
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let mut times: Vec<Duration> = Vec::new();
    std::thread::scope(|scope| -> io::Result<()> {
        let workers: Vec<_> = (0..options.connections)
            .map(|_| {
                scope.spawn(|| -> io::Result<Vec<Duration>> {
                    let mut connection = Connection::open(host)?;
                    let mut times = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= options.requests {
                            return Ok(times);
                        }
                        let clip = &clips[(number % CLIPS) as usize];
                        let question = format!("question {number:09}");
                        let sent = Instant::now();
                        let response = connection.post(host, path, &question, clip)?;
                        times.push(sent.elapsed());
                        if response.get(9..12) != Some(b"200") {
                            refused.fetch_add(1, Ordering::Relaxed);
                        } else if number.is_multiple_of(CHECKED) {
                            // Checking all would cost as much again as sending.
                            let right =
                                right_answer(&[Piece::Text(&question), Piece::Media(clip.base64.as_bytes())]);
                            let bad = !String::from_utf8_lossy(response).contains(&right);
                            checked.fetch_add(1, Ordering::Relaxed);
                            wrong.fetch_add(u64::from(bad), Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            let done = worker.join().map_err(|_| io::Error::other("a connection's thread panicked"))?;
            times.extend(done?);
        }
        Ok(())
    })?;
    let wall = begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| {
        times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    let count = options.requests as f64;
    let body = opening("question 000000000").len() + CLOSING.len() + clips[0].base64.len();
    let mut out = io::stdout();
    writeln!(
        out,
        "requests       {} of {body} bytes over {} connections",
        options.requests, options.connections
    )?;
    writeln!(out, "not 200        {}", refused.into_inner())?;
    writeln!(out, "wrong answers  {} of {} checked", wrong.into_inner(), checked.into_inner())?;
    writeln!(
        out,
        "wall           {wall:.3} s, {:.0} requests/s, {:.2} GB/s",
        count / wall,
        count * body as f64 / wall / 1e9
    )?;
    writeln!(out, "latency        median {:.2} ms, 99 % {:.2} ms", at(0.5), at(0.99))?;
    let each = |cpu: f64| format!("{cpu:.2} CPU-s, {:.3} CPU-s per 1000 requests", cpu / count * 1e3);
    if let Some((before, after)) = cpu.zip(cpu_seconds()) {
        writeln!(out, "client         {}", each(after - before))?;
    }
    if let Some((before, after)) = before.zip(server_counters(host).ok()) {
        let cpu = |counters: &serde_json::Value| counters["cpu_seconds"].as_f64();
        if let Some((before, after)) = cpu(&before).zip(cpu(&after)) {
            writeln!(out, "server         {}", each(after - before))?;
        }
    }
    Ok(())
}

fn server_counters(host: &str) -> io::Result<serde_json::Value> {
    let mut connection = Connection::open(host)?;
    connection.stream.write_all(format!("GET /counters HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes())?;
    let response = connection.response()?;
    let body = response.iter().position(|byte| *byte == b'{').unwrap_or(response.len());
    Ok(serde_json::from_slice(&response[body..])?)
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(host: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(host)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(8 << 10) })
    }

    fn post(&mut self, host: &str, path: &str, question: &str, clip: &Clip) -> io::Result<&[u8]> {
        let opening = opening(question);
        let length = opening.len() + clip.base64.len() + CLOSING.len();
        let head = format!(
            "POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{opening}"
        );
        let parts = [head.as_bytes(), clip.base64.as_bytes(), CLOSING.as_bytes()];
        let mut slices = parts.map(IoSlice::new);
        let mut left = &mut slices[..];
        while !left.is_empty() {
            match self.stream.write_vectored(left)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut left, written),
            }
        }
        self.response()
    }

    /// The next response with its head; only those with a content-length.
    fn response(&mut self) -> io::Result<&[u8]> {
        self.buffer.clear();
        let mut chunk = [0; 8 << 10];
        loop {
            let read = self.stream.read(&mut chunk)?;
            if read == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
            self.buffer.extend_from_slice(&chunk[..read]);
            let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&self.buffer[..end]);
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let length = length.ok_or_else(|| io::Error::other("the response has no content-length"))?;
            if self.buffer.len() >= end + 4 + length {
                return Ok(&self.buffer);
            }
        }
    }
}
