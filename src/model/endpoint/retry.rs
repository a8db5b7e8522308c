//! When a request is tried again, and how long it waits before.
//!
//! Waits are drawn with full jitter, from a generator that is seeded by the request's key: the same run waits
//! the same. A server that says how long to wait is obeyed. No clock is read here.

use std::time::Duration;

use jiff::Timestamp;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use reqwest::header::{HeaderMap, HeaderName};

use super::spec::Retries;
use crate::http;
use crate::types::Digest;

/// The longest wait that a header may ask for; more is a number that means something else.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// The waits of one request.
#[derive(Debug)]
pub(super) struct Backoff {
    policy: Retries,
    random: ChaCha8Rng,
    waits: u32,
    failures: u32,
}

impl Backoff {
    /// The waits of the request with this key.
    pub(super) fn new(policy: Retries, key: &Digest) -> Self {
        Self { policy, random: ChaCha8Rng::from_seed(key.0), waits: 0, failures: 0 }
    }

    /// Counts an attempt that failed by the server's or the network's fault; false when that was the last.
    pub(super) fn spend(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures < self.policy.max_attempts
    }

    /// The next wait. Where the server asks for one it is at least that, and up to a tenth (or the first
    /// wait, where that is less) longer, so that not all come back at the same moment.
    pub(super) fn wait(&mut self, asked: Option<Duration>) -> Duration {
        let most = if let Some(asked) = asked {
            (asked / 10).min(self.policy.base_delay)
        } else {
            let doubled = self.policy.base_delay.saturating_mul(1 << self.waits.min(30));
            self.waits = self.waits.saturating_add(1);
            doubled.min(self.policy.max_delay)
        };
        asked.unwrap_or_default() + most.mul_f64(self.random.random::<f64>())
    }
}

/// How long a server asks to wait, by its headers: `retry-after-ms`, `retry-after` in seconds or as a date,
/// else the time until a limit that is used up is reset.
pub(super) fn wait_asked(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    asked(headers, now).map(|wait| wait.min(LONGEST))
}

fn asked(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let milliseconds = http::header(headers, "retry-after-ms").and_then(http::seconds);
    if let Some(wait) = milliseconds.map(|wait| wait / 1000).or_else(|| http::retry_after(headers, now)) {
        return Some(wait);
    }
    // x-ratelimit-reset-requests, anthropic-ratelimit-input-tokens-reset, ratelimit-reset…
    let resets: Vec<(bool, Duration)> = headers
        .iter()
        .filter(|(name, _)| name.as_str().contains("ratelimit") && name.as_str().contains("reset"))
        .filter_map(|(name, value)| Some((used_up(name, headers), reset(value.to_str().ok()?.trim(), now)?)))
        .collect();
    let exhausted = resets.iter().filter(|(used_up, _)| *used_up).map(|(_, wait)| *wait).max();
    // Where no limit is said to be used up, the nearest reset may be the one.
    exhausted.or_else(|| resets.iter().map(|(_, wait)| *wait).min())
}

/// Whether the limit that a reset header belongs to has nothing left.
fn used_up(reset: &HeaderName, headers: &HeaderMap) -> bool {
    let remaining = reset.as_str().replace("reset", "remaining");
    headers.get(remaining).and_then(|value| value.to_str().ok()).is_some_and(|value| value.trim() == "0")
}

/// A reset header: a duration (`6m0s`, `120ms`, `1.5`), a date (RFC 3339) or a Unix time in s or ms.
fn reset(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(then) = value.parse::<Timestamp>() {
        return Some(http::until(then, now));
    }
    if let Ok(number) = value.parse::<f64>() {
        let unix = |milliseconds: f64| {
            Timestamp::from_millisecond(milliseconds as i64).ok().map(|then| http::until(then, now))
        };
        return match number {
            _ if number > 1e11 => unix(number),
            _ if number > 1e9 => unix(number * 1e3),
            _ => http::seconds(value),
        };
    }
    duration(value)
}

/// A duration of numbers with units, as Go and protobuf write them: `1h2m3.5s`, `250ms`, `17s`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        total += number.parse::<f64>().ok()?
            * match unit {
                "d" => 86400.0,
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = after;
    }
    Duration::try_from_secs_f64(total).ok().map(|wait| wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::reply::testing::reply;
    use super::*;

    fn asked(headers: &[(&'static str, &str)]) -> Option<f64> {
        let reply = reply(429, headers, "");
        wait_asked(&reply.headers, reply.at).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn all_ways_to_ask_for_a_wait_are_understood() {
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&[("retry-after", "2")]), Some(2.0));
        assert_eq!(asked(&[("retry-after", "0.25")]), Some(0.25));
        assert_eq!(asked(&[("retry-after", "9"), ("retry-after-ms", "150")]), Some(0.15));
        // The replies of these tests come at 12:00:00 of 30 November 2026.
        assert_eq!(asked(&[("retry-after", "Mon, 30 Nov 2026 12:00:30 GMT")]), Some(30.0));
        assert_eq!(asked(&[("retry-after", "Mon, 30 Nov 2026 11:00:00 GMT")]), Some(0.0));
        let skewed =
            [("date", "Mon, 30 Nov 2026 13:00:00 GMT"), ("retry-after", "Mon, 30 Nov 2026 13:00:05 GMT")];
        assert_eq!(asked(&skewed), Some(5.0));
        assert_eq!(asked(&[("retry-after", "soon")]), None);
        assert_eq!(asked(&[("retry-after", "-1")]), None);
        assert_eq!(asked(&[("retry-after", "1e300")]), None);
        assert_eq!(asked(&[("retry-after", "NaN")]), None);
    }

    #[test]
    fn the_limit_that_is_used_up_says_when() {
        let headers = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-remaining-tokens", "99"),
            ("x-ratelimit-reset-tokens", "20ms"),
        ];
        assert_eq!(asked(&headers), Some(360.0));
        assert_eq!(asked(&headers[1..]), Some(0.02));
        assert_eq!(asked(&[("anthropic-ratelimit-tokens-reset", "2026-11-30T12:00:08Z")]), Some(8.0));
        assert_eq!(asked(&[("x-ratelimit-reset", "1796040010")]), Some(10.0));
        assert_eq!(asked(&[("x-ratelimit-reset", "1796040010500")]), Some(10.5));
        assert_eq!(asked(&[("ratelimit-reset", "12")]), Some(12.0));
        assert_eq!(asked(&[("retry-after", "3"), ("x-ratelimit-reset", "12")]), Some(3.0));
    }

    #[test]
    fn durations_with_units() {
        let check = |text, expected: Option<f64>| {
            assert_eq!(duration(text).map(|wait| wait.as_secs_f64()), expected, "{text}");
        };
        check("17s", Some(17.0));
        check("17.5s", Some(17.5));
        check("1h2m3.5s", Some(3723.5));
        check("250ms", Some(0.25));
        check("5", None);
        check("s", None);
        check("1x", None);
        check("", None);
        check("1.2.3s", None);
    }

    #[test]
    fn waits_double_up_to_the_most_and_repeat_with_the_key() {
        let policy = Retries {
            max_attempts: 3,
            base_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(1),
        };
        let waits = |key: &[u8]| {
            let mut backoff = Backoff::new(policy, &Digest::of(key));
            (0..40).map(|_| backoff.wait(None)).collect::<Vec<_>>()
        };
        let first = waits(b"a");
        assert_eq!(first, waits(b"a"));
        assert_ne!(first, waits(b"b"));
        for (index, wait) in first.iter().enumerate() {
            assert!(*wait <= Duration::from_millis(100 << index.min(4)).min(policy.max_delay));
        }
        assert!(first.iter().any(|wait| *wait > Duration::from_millis(500)));

        let mut backoff = Backoff::new(policy, &Digest::of(b"a"));
        let asked = backoff.wait(Some(Duration::from_secs(20)));
        assert!(asked >= Duration::from_secs(20) && asked <= Duration::from_millis(20_100), "{asked:?}");
        assert_eq!((backoff.spend(), backoff.spend(), backoff.spend()), (true, true, false));
    }

    proptest! {
        #[test]
        fn no_header_breaks_it(
            name in "(x-)?ratelimit-(reset|remaining)(-[a-z]{1,3})?|retry-after(-ms)?|date",
            value in "[ -~]{0,24}|[0-9]{1,25}|[0-9.]{1,6}(ms|s|m|h)",
        ) {
            let mut reply = reply(429, &[], "");
            reply.headers.insert(HeaderName::try_from(name).unwrap(), value.parse().unwrap());
            if let Some(wait) = wait_asked(&reply.headers, reply.at) {
                prop_assert!(wait <= LONGEST);
            }
        }
    }
}
