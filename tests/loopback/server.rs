//! Listening, connections as threads, going down for a while, and stopping.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::counters::{Counters, Memory};
use super::exchange;
use super::http::Connection;
use super::options::Options;
use super::originals::{self, Sha};

/// Connections that wait to be accepted: all of a client's may come at once.
const BACKLOG: i32 = 1024;

/// The stack of a connection's thread; the deepest use is parsing a body strictly.
const STACK: usize = 512 << 10;

/// A running server; dropping it stops it.
pub(crate) struct Loopback {
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Loopback {
    /// Starts a server in threads of this process.
    pub(crate) fn start(mut options: Options) -> io::Result<Self> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        if options.fail_first.is_some() && options.faults.is_empty() {
            options.faults.push("500".parse().map_err(invalid)?);
        }
        let total: f64 = options.faults.iter().map(|rate| rate.rate).sum();
        if total > 1.0 + 1e-9 {
            return Err(invalid(format!("the rates of the faults add up to {total}; expected at most 1")));
        }
        let log = match &options.log {
            Some(path) => Some(Mutex::new(File::create(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: cannot write the log: {error}", path.display()))
            })?)),
            None => None,
        };
        let originals = options.originals.as_deref().map(originals::list).transpose()?;
        let reserve = bind(SocketAddr::new(options.host, options.port))?;
        let addr =
            reserve.local_addr()?.as_socket().ok_or_else(|| io::Error::other("the socket has no address"))?;
        let listener = listen(addr)?;
        let shared = Arc::new(Shared {
            addr,
            options,
            originals,
            log,
            started: Instant::now(),
            memory: Mutex::default(),
            peers: Mutex::default(),
            peers_changed: Condvar::new(),
            down: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            asked_to_stop: Mutex::new(false),
            stop_asked: Condvar::new(),
            sequence: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::Builder::new().name("loopback".to_owned()).spawn(move || {
            accept(&accepting, listener);
            drop(reserve);
        })?;
        Ok(Self { addr, shared, acceptor: Some(acceptor) })
    }

    /// The address as a URL without a path.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it saw so far.
    pub(crate) fn counters(&self) -> Counters {
        self.shared.memory().snapshot()
    }

    /// Waits until someone posts to `/shutdown`.
    pub(crate) fn wait(&self) {
        let mut asked = lock(&self.shared.asked_to_stop);
        while !*asked {
            asked = self.shared.stop_asked.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.wake_acceptor();
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.shared.reset_all();
        let peers = lock(&self.shared.peers);
        let _ = self
            .shared
            .peers_changed
            .wait_timeout_while(peers, Duration::from_secs(5), |peers| !peers.is_empty());
    }
}

/// What all threads share.
pub(crate) struct Shared {
    addr: SocketAddr,
    /// How the server behaves.
    pub(crate) options: Options,
    /// The media that are to arrive, where they are told.
    pub(crate) originals: Option<HashSet<Sha>>,
    /// The log, where one is asked for.
    pub(crate) log: Option<Mutex<File>>,
    /// When the server started.
    pub(crate) started: Instant,
    memory: Mutex<Memory>,
    peers: Mutex<HashMap<u64, Peer>>,
    peers_changed: Condvar,
    down: AtomicBool,
    stopping: AtomicBool,
    asked_to_stop: Mutex<bool>,
    stop_asked: Condvar,
    sequence: AtomicU64,
}

/// A connection, as others see it.
struct Peer {
    stream: Arc<TcpStream>,
    reset: Arc<AtomicBool>,
    thread: Thread,
}

/// A poisoned lock guards nothing worse than counters.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The counters.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    /// Asks whoever waits for it to stop the server.
    fn ask_to_stop(&self) {
        *lock(&self.asked_to_stop) = true;
        self.stop_asked.notify_all();
    }

    /// Makes the server refuse new connections, and then reset those it has, for the time set.
    pub(crate) fn go_down(&self) {
        self.down.store(true, Ordering::SeqCst);
        self.wake_acceptor();
    }

    fn refusing(&self) -> bool {
        self.down.load(Ordering::SeqCst) || self.stopping.load(Ordering::SeqCst)
    }

    fn wake_acceptor(&self) {
        // A connection of our own ends its wait; it sees why before it serves anyone.
        let _ = TcpStream::connect_timeout(&self.addr, Duration::from_millis(500));
    }

    fn reset_all(&self) {
        for peer in lock(&self.peers).values() {
            peer.reset.store(true, Ordering::SeqCst);
            let _ = SockRef::from(&*peer.stream).set_linger(Some(Duration::ZERO));
            // Ends a read without telling the client; the thread then drops the socket, which resets it.
            let _ = peer.stream.shutdown(Shutdown::Read);
            peer.thread.unpark();
        }
    }
}

/// A socket that is bound but does not listen: connections to it are refused, and its port is kept.
fn bind(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket
        .bind(&addr.into())
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}")))?;
    Ok(socket)
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = bind(addr)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn accept(shared: &Arc<Shared>, listener: TcpListener) {
    let mut listener = Some(listener);
    loop {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        if shared.down.load(Ordering::SeqCst) {
            // First the listener: a client that was reset must find the door closed.
            drop(listener.take());
            shared.reset_all();
            let until = Instant::now() + shared.options.down_for;
            while Instant::now() < until && !shared.stopping.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5).min(until - Instant::now().min(until)));
            }
            shared.down.store(false, Ordering::SeqCst);
        }
        let Some(open) = &listener else {
            listener = listen(shared.addr).ok();
            if listener.is_none() {
                thread::sleep(Duration::from_millis(20));
            }
            continue;
        };
        match open.accept() {
            Ok((stream, _)) if shared.refusing() => {
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            }
            Ok((stream, _)) => serve(shared, stream),
            // Out of descriptors, or the client is gone already: give the others time to end.
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Serves a connection in a thread of its own.
fn serve(shared: &Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    shared.memory().counters.connections += 1;
    let id = shared.sequence.fetch_add(1, Ordering::Relaxed);
    let shared = Arc::clone(shared);
    let stream = Arc::new(stream);
    let _ = thread::Builder::new().name(format!("loopback-{id}")).stack_size(STACK).spawn(move || {
        let reset = Arc::new(AtomicBool::new(false));
        let peer = Peer { stream: Arc::clone(&stream), reset: Arc::clone(&reset), thread: thread::current() };
        lock(&shared.peers).insert(id, peer);
        let mut asked = false;
        if !shared.refusing() {
            let wire = Wire { stream: &stream, reset: &reset, id };
            asked = exchange::converse(&shared, &wire, &mut Connection::new(&stream));
        }
        lock(&shared.peers).remove(&id);
        drop(stream);
        shared.peers_changed.notify_all();
        if asked {
            // Only now, so that who asked sees an orderly end of its connection.
            shared.ask_to_stop();
        }
    });
}

/// A connection, as its own thread sees it.
pub(crate) struct Wire<'a> {
    /// The socket.
    pub(crate) stream: &'a TcpStream,
    reset: &'a AtomicBool,
    /// The number of the connection.
    pub(crate) id: u64,
}

impl Wire<'_> {
    /// Whether the server wants this connection to end at once.
    pub(crate) fn was_reset(&self) -> bool {
        self.reset.load(Ordering::SeqCst)
    }

    /// Makes the connection end in a reset when it is dropped.
    pub(crate) fn make_reset(&self) {
        let _ = SockRef::from(self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Waits; false where the connection is to end at once.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            if self.was_reset() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left);
        }
    }

    /// Whether the client has closed its side.
    pub(crate) fn client_left(&self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let peeked = self.stream.peek(&mut [0]);
        let blocking = self.stream.set_nonblocking(false);
        match peeked {
            Ok(0) => true,
            Ok(_) => blocking.is_err(),
            Err(error) => error.kind() != io::ErrorKind::WouldBlock || blocking.is_err(),
        }
    }
}
