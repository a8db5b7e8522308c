//! The HTTP client of downloads: asks, follows redirects, and tells failures that pass from those that stay.
//!
//! The user's token goes to the hub's own origin (scheme, host and port) and nowhere else, which is why redirects
//! are followed here and not by the library: the hub sends large files' readers on to other hosts. Connections
//! that fall silent are given up. When the hub asks to wait, all files wait. Certificates are the system's
//! (`SSL_CERT_FILE` moves them).

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, IF_RANGE, LOCATION, RANGE};
use reqwest::{Method, NoProxy, Proxy, Response, StatusCode, Url};
use tokio::time::Instant;

use super::error::HubError;
use super::retry::{LONGEST, wait_asked};
use crate::config::hub::HubSettings;
use crate::config::secret::ApiKey;
use crate::http;

/// Redirects that are followed for one file.
const REDIRECTS: usize = 10;

/// The largest text (listing, error) that is read.
const LARGEST_TEXT: usize = 64 << 20;

/// An attempt that failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// It may go better next time.
    Again {
        why: String,
        /// How long the server asks to wait.
        after: Option<Duration>,
    },
    /// The server has nothing from this byte on.
    NoSuchRange,
    /// It will stay so.
    Final(HubError),
}

impl Fault {
    fn again(why: impl Into<String>) -> Self {
        Self::Again { why: why.into(), after: None }
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Ask {
    /// The first byte that is wanted.
    pub(super) from: u64,
    /// The version that the earlier bytes are of, where the server told it.
    pub(super) if_range: Option<String>,
}

/// An answer whose head has come.
#[derive(Debug)]
pub(super) struct Reply {
    response: Response,
    /// What the hub says of the file, whoever sends its bytes.
    pub(super) linked: Linked,
    stall: Duration,
}

/// The hub's own headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Linked {
    pub(super) commit: Option<String>,
    pub(super) etag: Option<String>,
    pub(super) size: Option<u64>,
}

impl Reply {
    pub(super) fn is_partial(&self) -> bool {
        self.response.status() == StatusCode::PARTIAL_CONTENT
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        http::header(self.response.headers(), name)
    }

    /// The length of the body, where the server tells it.
    pub(super) fn length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match tokio::time::timeout(self.stall, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(Fault::again(format!("the connection broke ({})", chain(error)))),
            Err(_) => Err(Fault::again(silent(self.stall))),
        }
    }
}

fn silent(stall: Duration) -> String {
    format!("nothing came for {:.0} s", stall.as_secs_f64().max(1.0))
}

/// The client.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Url,
    token: Option<ApiKey>,
    stall: Duration,
    /// Before this nothing is asked of the hub.
    not_before: Mutex<Option<Instant>>,
}

impl Client {
    pub(super) fn new(settings: &HubSettings) -> Result<Self, HubError> {
        http::install_tls();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("harness/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .no_proxy()
            // One connection a file: streams of one HTTP/2 connection would share its window and its fate.
            .http1_only()
            .connect_timeout(settings.stall.min(Duration::from_secs(20)));
        let except = settings.no_proxy.as_deref().and_then(NoProxy::from_string);
        for (address, make) in [
            (&settings.http_proxy, Proxy::http as fn(String) -> reqwest::Result<Proxy>),
            (&settings.https_proxy, Proxy::https),
        ] {
            if let Some(address) = address {
                // The error would show the address, and with it what credentials it holds.
                let proxy = make(address.expose().to_owned()).map_err(|_| {
                    HubError::Client("the proxy's address cannot be read; check HTTPS_PROXY".into())
                })?;
                builder = builder.proxy(proxy.no_proxy(except.clone()));
            }
        }
        let endpoint = Url::parse(&settings.endpoint)
            .map_err(|error| HubError::Client(format!("HF_ENDPOINT is no address: {error}")))?;
        let http = builder.build().map_err(|error| HubError::Client(chain(error)))?;
        let mut token = settings.token.clone();
        if token.as_ref().is_some_and(|token| header_of(token).is_none()) {
            tracing::warn!("the hub's token holds characters that no token has; it is not sent");
            token = None;
        }
        Ok(Self { http, endpoint, token, stall: settings.stall, not_before: Mutex::new(None) })
    }

    /// The hub's address with parts of a path behind it.
    pub(super) fn hub_url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    /// Whether an address is the hub's own.
    pub(super) fn is_hub(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin()
    }

    /// Asks for a file, from some byte on. `what` is its name for people.
    pub(super) async fn get(&self, url: &Url, ask: &Ask, what: &str) -> Result<Reply, Fault> {
        self.send(Method::GET, url, ask, what).await
    }

    /// Asks for a file's size alone.
    pub(super) async fn size(&self, url: &Url, what: &str) -> Result<Option<u64>, Fault> {
        let reply = self.send(Method::HEAD, url, &Ask::default(), what).await?;
        Ok(reply.linked.size.or_else(|| reply.length()))
    }

    /// Asks for a text and reads it, with its headers.
    pub(super) async fn text(&self, url: &Url, what: &str) -> Result<(HeaderMap, Vec<u8>), Fault> {
        let mut reply = self.send(Method::GET, url, &Ask::default(), what).await?;
        let mut body = Vec::new();
        while let Some(chunk) = reply.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST_TEXT {
                return Err(Fault::Final(self.odd(
                    url,
                    what,
                    format!("it sends more than {} MB", LARGEST_TEXT >> 20),
                )));
            }
        }
        Ok((std::mem::take(reply.response.headers_mut()), body))
    }

    /// A reply that is not what it should be.
    pub(super) fn odd(&self, url: &Url, what: &str, why: impl Into<String>) -> HubError {
        HubError::Reply { what: what.to_owned(), host: host(url), why: self.scrub(&why.into()) }
    }

    async fn send(&self, method: Method, url: &Url, ask: &Ask, what: &str) -> Result<Reply, Fault> {
        let mut url = url.clone();
        let mut linked = Linked::default();
        for _ in 0..=REDIRECTS {
            self.wait_for_hub(&url).await;
            let mut request =
                self.http.request(method.clone(), url.clone()).header(ACCEPT_ENCODING, "identity");
            if ask.from > 0 {
                request = request.header(RANGE, format!("bytes={}-", ask.from));
                if let Some(version) = &ask.if_range {
                    request = request.header(IF_RANGE, version.as_str());
                }
            }
            if let Some(header) = self.token.as_ref().filter(|_| self.is_hub(&url)).and_then(header_of) {
                request = request.header(AUTHORIZATION, header);
            }
            let response = match tokio::time::timeout(self.stall, request.send()).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(self.broken(error, &url)),
                Err(_) => return Err(Fault::again(format!("{}: {}", host(&url), silent(self.stall)))),
            };
            if self.is_hub(&url) {
                linked.take(response.headers());
            }
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
                return self.judge(response, &url, linked, what).await;
            }
            let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(next) = target.and_then(|target| url.join(target).ok()) else {
                return Err(Fault::Final(self.odd(&url, what, "it redirects to nowhere")));
            };
            let secure = |url: &Url| url.scheme() == "https";
            if !matches!(next.scheme(), "http" | "https") || (secure(&url) && !secure(&next)) {
                return Err(Fault::Final(self.odd(
                    &url,
                    what,
                    "it redirects to an address that is not secure",
                )));
            }
            url = next;
        }
        Err(Fault::Final(self.odd(&url, what, format!("it redirects more than {REDIRECTS} times"))))
    }

    async fn judge(&self, response: Response, url: &Url, linked: Linked, what: &str) -> Result<Reply, Fault> {
        let status = response.status();
        if status == StatusCode::OK || status == StatusCode::PARTIAL_CONTENT {
            return Ok(Reply { response, linked, stall: self.stall });
        }
        if status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Err(Fault::NoSuchRange);
        }
        let passes = matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error();
        // The hub signs the addresses of other hosts for a short time: the next attempt gets a new one.
        let expired = status == StatusCode::FORBIDDEN && !self.is_hub(url) && linked != Linked::default();
        if passes || expired {
            let after = wait_asked(response.headers(), Timestamp::now());
            if status == StatusCode::TOO_MANY_REQUESTS && self.is_hub(url) {
                self.hold(after.unwrap_or(Duration::from_secs(1)));
            }
            let mut why = format!("{} answers {}", host(url), status.as_u16());
            if let Some(after) = after.filter(|after| *after > LONGEST) {
                why = format!("{why} and asks to wait {} min", after.as_secs() / 60);
            }
            return Err(Fault::Again { why, after });
        }
        Err(Fault::Final(self.refusal(response, url, what).await))
    }

    async fn refusal(&self, mut response: Response, url: &Url, what: &str) -> HubError {
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let (code, message) = (header("x-error-code").unwrap_or_default(), header("x-error-message"));
        let status = response.status().as_u16();
        let mut told = message.unwrap_or_default();
        if told.is_empty() {
            // The first words of an error that is a text.
            let chunk = tokio::time::timeout(Duration::from_secs(2), response.chunk()).await;
            if let Ok(Ok(Some(bytes))) = chunk {
                String::from_utf8_lossy(&bytes).trim().clone_into(&mut told);
            }
        }
        let told: String = self.scrub(&told).split_whitespace().collect::<Vec<_>>().join(" ");
        let told = if told.is_empty() || told.starts_with(['<', '{']) {
            String::new()
        } else {
            format!(" ({})", told.chars().take(160).collect::<String>())
        };
        let help = match (status, code.as_str()) {
            _ if !self.is_hub(url) => "check the address in a browser; it may have moved".to_owned(),
            (_, "GatedRepo") => format!(
                "its owner wants you to accept conditions first: do so on its page at {}, then set HF_TOKEN to a \
                 token of yours",
                self.endpoint
            ),
            (_, "RevisionNotFound") => "there is no such revision; check its name".to_owned(),
            (_, "EntryNotFound") => "there is no such file in that revision".to_owned(),
            (401, _) if self.token.is_none() => {
                "there is no such repository, or it is private: check its name, or set HF_TOKEN".to_owned()
            }
            (401 | 403, _) => {
                "the token in HF_TOKEN (or of `hf auth login`) may not read it; check it".to_owned()
            }
            (404, _) => "there is no such repository, revision or file; check the names".to_owned(),
            _ => "the request is not understood there; check HF_ENDPOINT".to_owned(),
        };
        HubError::Refused { what: what.to_owned(), host: host(url), status, told, help }
    }

    fn broken(&self, error: reqwest::Error, url: &Url) -> Fault {
        let text = self.scrub(&chain(error));
        if text.contains("invalid peer certificate") {
            return Fault::Final(HubError::Client(format!(
                "the certificate of {} is not trusted ({text}); name a file of certificates that is, in SSL_CERT_FILE",
                host(url)
            )));
        }
        Fault::again(format!("{}: {text}", host(url)))
    }

    /// Lets everything that asks the hub wait.
    fn hold(&self, wait: Duration) {
        let until = Instant::now() + wait.min(LONGEST);
        let mut held = self.not_before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *held = Some(held.map_or(until, |held| held.max(until)));
    }

    async fn wait_for_hub(&self, url: &Url) {
        if !self.is_hub(url) {
            return;
        }
        let held = *self.not_before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(until) = held {
            tokio::time::sleep_until(until).await;
        }
    }

    /// A text without the token that a server may quote.
    fn scrub(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| token.scrub(text))
    }
}

impl Linked {
    fn take(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
        let etag = text("x-linked-etag").or_else(|| text("etag")).map(plain_etag);
        self.commit = self.commit.take().or_else(|| text("x-repo-commit").map(str::to_owned));
        self.etag = self.etag.take().or_else(|| etag.map(str::to_owned));
        self.size = self.size.or_else(|| text("x-linked-size").and_then(|size| size.parse().ok()));
    }
}

/// An entity tag without its mark of weakness and its quotes.
pub(super) fn plain_etag(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

fn header_of(token: &ApiKey) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or("the server").to_owned()
}

/// The text of an error and of what caused it, without the address: signed ones are secrets.
fn chain(error: reqwest::Error) -> String {
    http::chain(&error.without_url())
}
