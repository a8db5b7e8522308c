//! What is asked of servers while they are being started: is somebody there, are they ready. Requests wait meanwhile.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;

use super::client::Transport;
use super::flow::Flow;
use super::probe::listing;
use super::spec::EndpointSpec;
use super::spec_check::{self, EndpointError};

/// How long a connection may take that tells whether an address is taken.
const KNOCK: Duration = Duration::from_secs(2);
/// How long an answer may take that tells whether a server is ready.
const ANSWER: Duration = Duration::from_secs(3);

/// Stands before the door of an endpoint.
#[derive(Debug)]
pub struct Doorman {
    // Its own: connections belong to the threads that made them.
    transport: Transport,
    urls: Vec<Url>,
    /// Whether the URL was named: then it must answer with success.
    named: bool,
    flow: Arc<Flow>,
}

impl Doorman {
    pub(super) fn new(
        spec: &EndpointSpec,
        bases: &[Url],
        url: Option<&str>,
        flow: Arc<Flow>,
    ) -> Result<Self, EndpointError> {
        let urls = match url {
            Some(url) => vec![spec_check::address(url)?],
            None => bases.iter().map(|base| listing(base, spec)).collect(),
        };
        Ok(Self { transport: Transport::new(spec, bases)?, urls, named: url.is_some(), flow })
    }

    /// Where it is asked whether the servers are ready, without secrets.
    pub fn shown(&self) -> String {
        self.urls.iter().map(spec_check::shown).collect::<Vec<_>>().join(" and ")
    }

    /// The address at which somebody listens already, if somebody does.
    pub fn taken(&self) -> Option<String> {
        let listens = |url: &&Url| {
            let Some((host, port)) = url.host_str().zip(url.port_or_known_default()) else { return false };
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let addresses = (host, port).to_socket_addrs().into_iter().flatten();
            addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, KNOCK).is_ok())
        };
        self.urls.iter().find(listens).map(spec_check::shown)
    }

    /// Whether all servers are ready. A URL that was named must answer with success; else any answer but a fault of
    /// the server counts, for some servers list no models, or want a key for it.
    pub async fn ready(&self) -> Result<(), String> {
        for url in &self.urls {
            let reply = self.transport.get(url, ANSWER).await.map_err(|broken| broken.message)?;
            let good = if self.named { reply.status.is_success() } else { reply.status.as_u16() < 500 };
            if !good {
                return Err(format!("{} answers {}", spec_check::shown(url), reply.status.as_u16()));
            }
        }
        Ok(())
    }

    /// Tells that the servers are looked after: requests do not fail before it could be noticed that one is gone.
    pub fn attend(&self) {
        self.flow.attend();
    }

    /// Holds all requests back; `why` is what those who watch are shown.
    pub fn hold(&self, why: String) {
        self.flow.hold(why);
    }

    /// Lets them go.
    pub fn release(&self) {
        self.flow.release();
    }
}
