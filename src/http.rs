//! What the two HTTP clients have in common, that of endpoints and that of downloads. It must not know what is asked.

use std::error::Error as _;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Makes rustls with ring the library's TLS. Another part of the program may have done so, which serves as well.
pub(crate) fn install_tls() {
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// The text of an error and of what caused it, each once.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut link = error.source();
    while let Some(error) = link {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        link = error.source();
    }
    text
}

/// A header's value, where it is text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A number of seconds that is a time to wait.
pub(crate) fn seconds(value: &str) -> Option<Duration> {
    let number = value.parse::<f64>().ok().filter(|number| *number >= 0.0)?;
    Duration::try_from_secs_f64(number).ok()
}

/// The time from `now` to `then`; nothing when that is past.
pub(crate) fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

/// How long `Retry-After` asks to wait: in seconds, or to a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = header(headers, RETRY_AFTER.as_str())?;
    if let Some(wait) = seconds(value) {
        return Some(wait);
    }
    let date = |value: &str| jiff::fmt::rfc2822::parse(value).ok().map(|zoned| zoned.timestamp());
    // The server's own clock where it tells: only the difference matters.
    let now = header(headers, DATE.as_str()).and_then(date).unwrap_or(now);
    date(value).map(|then| until(then, now))
}
