//! When a download is tried again, and how long it waits before. No clock is read here.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use crate::http;

/// Attempts in a row that bring no byte before a file is given up.
pub(super) const ATTEMPTS: u32 = 7;

/// Attempts at a listing: who waits for one has nothing else to do, and the cache may serve instead.
pub(super) const ATTEMPTS_AT_LISTING: u32 = 5;

/// The longest wait that a server may ask for.
pub(super) const LONGEST: Duration = Duration::from_mins(10);

const FIRST: Duration = Duration::from_millis(400);
const MOST: Duration = Duration::from_secs(30);

/// The attempts at one file.
#[derive(Debug)]
pub(super) struct Backoff {
    /// Waits are drawn from it: tasks of an array that began together do not come back together.
    seed: String,
    failures: u32,
    most: u32,
    draws: u64,
}

impl Backoff {
    pub(super) fn new(what: &str, most: u32) -> Self {
        Self { seed: format!("{} {what}", std::process::id()), failures: 0, most, draws: 0 }
    }

    /// The last attempt brought something, so the count begins anew.
    pub(super) fn progress(&mut self) {
        self.failures = 0;
    }

    /// The wait before the next attempt, or `None` where this was the last.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        self.failures += 1;
        if self.failures >= self.most || asked.is_some_and(|wait| wait > LONGEST) {
            return None;
        }
        let doubled = FIRST.saturating_mul(1 << (self.failures - 1).min(20)).min(MOST);
        // Between half of it and all of it; what the server asks for is never undercut.
        let wait = doubled.mul_f64(0.5 + self.draw() / 2.0);
        Some(asked.map_or(wait, |asked| asked + wait.min(FIRST)))
    }

    /// A number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.draws += 1;
        let hash = blake3::hash(format!("{} {}", self.seed, self.draws).as_bytes());
        f64::from(u32::from_le_bytes(hash.as_bytes()[..4].try_into().unwrap_or_default()))
            / f64::from(u32::MAX)
    }
}

/// How long a server asks to wait: `Retry-After` in seconds or as a date, else the hub's `RateLimit`, whose `t` is
/// the time until the limit is lifted.
pub(super) fn wait_asked(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if let Some(wait) = http::retry_after(headers, now) {
        return Some(wait);
    }
    let limit = http::header(headers, "ratelimit")?;
    let part = limit.split(';').find_map(|part| part.trim().strip_prefix("t="))?;
    part.parse::<u64>().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &[(&'static str, &str)]) -> Option<u64> {
        let map = headers
            .iter()
            .map(|(name, value)| (reqwest::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        wait_asked(&map, "2026-11-30T12:00:00Z".parse().unwrap()).map(|wait| wait.as_secs())
    }

    #[test]
    fn servers_ask_in_three_ways() {
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&[("retry-after", "7")]), Some(7));
        assert_eq!(asked(&[("retry-after", "Mon, 30 Nov 2026 12:00:30 GMT")]), Some(30));
        assert_eq!(asked(&[("ratelimit", "\"api\";r=0;t=55")]), Some(55));
        assert_eq!(asked(&[("retry-after", "-3")]), None);
        assert_eq!(asked(&[("retry-after", "soon"), ("ratelimit", "x")]), None);
    }

    #[test]
    fn waits_grow_and_end() {
        let mut backoff = Backoff::new("a", ATTEMPTS);
        let waits: Vec<Duration> = std::iter::from_fn(|| backoff.next(None)).collect();
        assert_eq!(waits.len(), ATTEMPTS as usize - 1);
        for (n, wait) in waits.iter().enumerate() {
            let most = FIRST.saturating_mul(1 << n).min(MOST);
            assert!(*wait <= most && *wait >= most / 2, "{n}: {wait:?}");
        }
        backoff.progress();
        let wait = backoff.next(Some(Duration::from_secs(3))).unwrap();
        assert!(wait >= Duration::from_secs(3) && wait <= Duration::from_secs(3) + FIRST);
        assert_eq!(Backoff::new("b", ATTEMPTS).next(Some(LONGEST * 2)), None);
    }
}
