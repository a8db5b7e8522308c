//! A small HTTP/1.1 server for tests: it takes requests apart byte by byte and answers as it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Received {
    /// `POST /v1/chat/completions`
    pub(super) line: String,
    /// Header lines in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Which connection it came on.
    pub(super) connection: usize,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What to do with a request.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Answer with a status, header lines and a body.
    Say(u16, String, String),
    /// Announce more bytes than come, then close.
    Cut(String),
    /// Close without a word.
    Close,
    /// Say nothing for this long, then close.
    Stall(Duration),
    /// Bytes as they are, then close.
    Bytes(&'static str),
    /// Answer after a while.
    Later(Duration, Box<Act>),
}

/// A chat completion that says `text`.
pub(super) fn says(text: &str) -> Act {
    Act::Say(
        200,
        String::new(),
        serde_json::json!({
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2},
        })
        .to_string(),
    )
}

/// A status with an OpenAI error body.
pub(super) fn status(code: u16, headers: &str, message: &str) -> Act {
    Act::Say(code, headers.to_owned(), serde_json::json!({"error": {"message": message}}).to_string())
}

type Handler = dyn Fn(usize, &Received) -> Act + std::marker::Send + Sync;

/// A server that lives as long as this.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    accept: JoinHandle<()>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Server {
    /// Answers by the number of a request and what it holds.
    pub(super) async fn start(
        handler: impl Fn(usize, &Received) -> Act + std::marker::Send + Sync + 'static,
    ) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), handler).await
    }

    /// The same at an address that was used before.
    pub(super) async fn at(
        address: SocketAddr,
        handler: impl Fn(usize, &Received) -> Act + std::marker::Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(handler);
        let accept = tokio::spawn(accept(listener, Arc::clone(&received), handler, Arc::clone(&connections)));
        Self { address, received, accept, connections }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What came so far.
    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Closes everything, as a server that is killed.
    pub(super) fn stop(&self) {
        self.accept.abort();
        self.connections.lock().unwrap().iter().for_each(JoinHandle::abort);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(
    listener: TcpListener,
    received: Arc<Mutex<Vec<Received>>>,
    handler: Arc<Handler>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
) {
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        let (received, handler) = (Arc::clone(&received), Arc::clone(&handler));
        let task = tokio::spawn(async move {
            drop(serve(stream, connection, &received, &*handler).await);
        });
        connections.lock().unwrap().push(task);
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    received: &Mutex<Vec<Received>>,
    handler: &Handler,
) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let line = lines.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let mut request = Received { line, headers, body: Vec::new(), connection };
        // Bodies have an exact length; a chunked one fails here.
        let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
        assert!(request.header("transfer-encoding").is_none(), "{head}");
        request.body = vec![0; length];
        stream.read_exact(&mut request.body).await?;
        let number = {
            let mut received = received.lock().unwrap();
            received.push(request.clone());
            received.len() - 1
        };
        let mut act = handler(number, &request);
        while let Act::Later(wait, then) = act {
            tokio::time::sleep(wait).await;
            act = *then;
        }
        match act {
            Act::Say(status, headers, body) => {
                let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).await?;
            }
            Act::Cut(body) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len() + 100);
                stream.write_all((head + &body).as_bytes()).await?;
                return Ok(());
            }
            Act::Close => return Ok(()),
            Act::Stall(wait) => {
                tokio::time::sleep(wait).await;
                return Ok(());
            }
            Act::Bytes(bytes) => {
                stream.write_all(bytes.as_bytes()).await?;
                return Ok(());
            }
            Act::Later(..) => unreachable!("taken apart above"),
        }
    }
}
