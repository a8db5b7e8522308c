//! The HTTP client of an endpoint: sends bodies, reads replies, and says in one sentence what broke.
//!
//! Decisions: one client an endpoint, its pool as wide as the endpoint's limit; HTTP/2 where TLS negotiates
//! it, HTTP/1.1 with keep-alive otherwise; no redirects, for a key must not follow one to another host; no
//! automatic decompression and no retries below ours, so that what is counted is what was sent; a proxy only
//! where the spec names one, for this room reads no environment. TLS is rustls with ring, whose provider is
//! installed here since nothing else may be counted on to have done it. Certificates are the system's
//! (whose place `SSL_CERT_FILE` can tell the TLS library) or the bundle that the spec names.

use std::error::Error as _;
use std::io::ErrorKind;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, Proxy, RequestBuilder, Url};

use super::body::Body;
use super::reply::{Cause, Reply, shorten};
use super::spec::EndpointSpec;
use super::spec_check::EndpointError;
use crate::config::secret::ApiKey;
use crate::http::{self, chain};

/// The largest reply that is read; an answer is text.
const LARGEST_REPLY: usize = 64 << 20;

/// An attempt that brought no reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Broken {
    pub(super) cause: Cause,
    pub(super) message: String,
    /// Trying again is no use: the server's certificate is not trusted.
    pub(super) for_good: bool,
}

/// The client.
#[derive(Debug)]
pub(super) struct Transport {
    client: Client,
    secrets: Vec<ApiKey>,
}

impl Transport {
    pub(super) fn new(spec: &EndpointSpec, bases: &[Url]) -> Result<Self, EndpointError> {
        http::install_tls();
        let secure = bases.iter().any(|base| base.scheme() == "https");
        let mut builder = Client::builder()
            .user_agent(concat!("harness/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(spec)?)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .no_proxy()
            .connect_timeout(spec.timeout.min(Duration::from_secs(20)))
            .pool_max_idle_per_host(spec.concurrency.max)
            // uvicorn, under which vLLM runs, closes connections that were idle for 5 s; who writes at that
            // very moment loses a request.
            .pool_idle_timeout(Duration::from_secs(if secure { 60 } else { 4 }))
            .http2_keep_alive_interval(Duration::from_secs(20))
            .http2_adaptive_window(true);
        let mut secrets: Vec<ApiKey> = spec.key.iter().cloned().collect();
        secrets.extend(spec.extra_headers.iter().map(|(_, value)| value.clone()));
        secrets.extend(spec.secrets.iter().cloned());
        let mut proxied_securely = false;
        if let Some(proxy) = &spec.proxy {
            proxied_securely = proxy.expose().starts_with("https");
            let proxy = Proxy::all(proxy.expose()).map_err(|_| EndpointError::Proxy)?;
            builder = builder.proxy(proxy);
            secrets.extend(spec.proxy.clone());
        }
        if let Some(path) = &spec.ca_bundle {
            let unreadable = |reason: String| EndpointError::Certificates { path: path.clone(), reason };
            let pem = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
            let certificates =
                Certificate::from_pem_bundle(&pem).map_err(|error| unreadable(chain(&error)))?;
            if certificates.is_empty() {
                return Err(unreadable("it holds no certificate".to_owned()));
            }
            builder = builder.tls_certs_only(certificates);
        } else if !secure && !proxied_securely {
            // Reading the system's certificates takes longer than all the rest of the start.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| EndpointError::Client { reason: chain(&error) })?;
        Ok(Self { client, secrets })
    }

    /// A reply without the secrets that it quotes.
    pub(super) fn clean(&self, reply: Reply) -> Reply {
        match std::str::from_utf8(&reply.body) {
            Ok(text) => Reply { body: self.scrub(text).into(), ..reply },
            Err(_) => reply,
        }
    }

    /// Sends a body and reads the reply, within the time.
    pub(super) async fn post(&self, url: &Url, body: &Body, time: Duration) -> Result<Reply, Broken> {
        let request = self
            .client
            .post(url.clone())
            .header(CONTENT_TYPE, body.content_type.as_str())
            .body(reqwest::Body::wrap(body.frames()));
        self.exchange(request, time).await
    }

    /// Asks for what is at an address.
    pub(super) async fn get(&self, url: &Url, time: Duration) -> Result<Reply, Broken> {
        self.exchange(self.client.get(url.clone()), time).await
    }

    async fn exchange(&self, request: RequestBuilder, time: Duration) -> Result<Reply, Broken> {
        let exchange = async {
            let mut response = request.send().await.map_err(|error| self.broken(error))?;
            let status = response.status();
            let headers = std::mem::take(response.headers_mut());
            // Nearly every reply is one chunk, which is taken as it is.
            let mut first = Bytes::new();
            let mut rest = BytesMut::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(error))? {
                if first.is_empty() {
                    first = chunk;
                    continue;
                }
                if rest.is_empty() {
                    rest.extend_from_slice(&first);
                }
                rest.extend_from_slice(&chunk);
                if rest.len() > LARGEST_REPLY {
                    let message = format!("the reply has more than {} MB", LARGEST_REPLY >> 20);
                    return Err(Broken { cause: Cause::Malformed, message, for_good: false });
                }
            }
            let body = if rest.is_empty() { first } else { rest.freeze() };
            Ok(Reply { status, headers, body, at: Timestamp::now() })
        };
        tokio::time::timeout(time, exchange).await.unwrap_or_else(|_| {
            let message = format!("no whole answer within {:.1} s", time.as_secs_f64());
            Err(Broken { cause: Cause::Timeout, message, for_good: false })
        })
    }

    fn broken(&self, error: reqwest::Error) -> Broken {
        let error = error.without_url();
        let (cause, for_good) = classify(&error);
        let mut message = format!("{}: {}", cause.as_str(), self.scrub(&shorten(&chain(&error))));
        match for_good {
            Lasting::Certificate => {
                message.push_str("; name a ca_bundle with the certificate that signs it");
            }
            Lasting::NoTls => {
                message.push_str("; the server does not speak HTTPS at this port: write http://");
            }
            Lasting::No => {}
        }
        let for_good = for_good != Lasting::No;
        Broken { cause, message, for_good }
    }

    /// An answer without the keys that it may quote: what is journaled is published.
    pub(super) fn scrub_answer(&self, text: &mut String) {
        for secret in &self.secrets {
            secret.scrub_answer(text);
        }
    }

    /// A text without the secrets that it may quote.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.scrub(&text))
    }
}

fn headers(spec: &EndpointSpec) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(if spec.stream { "*/*" } else { "application/json" }));
    let own = spec.dialect.headers(spec).into_iter().map(|(name, value)| (name.to_owned(), value));
    let extra = spec.extra_headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    for (name, value) in own.chain(extra) {
        let invalid = || EndpointError::Header { name: name.clone() };
        let header = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// What will stay broken until the config changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lasting {
    /// Nothing that is known to.
    No,
    /// A certificate that no known authority signs.
    Certificate,
    /// What answers is no TLS: most often plain HTTP.
    NoTls,
}

/// What broke, and whether it will stay so.
fn classify(whole: &reqwest::Error) -> (Cause, Lasting) {
    let mut link: Option<&(dyn std::error::Error + 'static)> = whole.source();
    while let Some(error) = link {
        match of_link(error) {
            // Reset while it was being made is no connection: nothing was sent.
            Some((Cause::Reset, _)) if whole.is_connect() => return (Cause::Connect, Lasting::No),
            Some(found) => return found,
            None => link = error.source(),
        }
    }
    let cause = match whole {
        error if error.is_connect() => Cause::Connect,
        error if error.is_timeout() => Cause::Timeout,
        _ => Cause::Reset,
    };
    (cause, Lasting::No)
}

fn of_link(error: &(dyn std::error::Error + 'static)) -> Option<(Cause, Lasting)> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        let lasting = match error {
            rustls::Error::InvalidCertificate(_) => Lasting::Certificate,
            rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => Lasting::NoTls,
            _ => Lasting::No,
        };
        return Some((Cause::Tls, lasting));
    }
    if let Some(error) = error.downcast_ref::<std::io::Error>() {
        if let Some(found) = error.get_ref().and_then(|inner| of_link(inner)) {
            return Some(found);
        }
        let cause = match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                Cause::Connect
            }
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Cause::Reset,
            _ => return None,
        };
        return Some((cause, Lasting::No));
    }
    let text = error.to_string();
    if text.starts_with("dns error") {
        return Some((Cause::Dns, Lasting::No));
    }
    text.starts_with("invalid HTTP").then_some((Cause::Malformed, Lasting::No))
}
