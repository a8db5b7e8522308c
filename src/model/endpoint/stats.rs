//! Counts of an endpoint: for progress lines, cost limits and alarms.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::flow::FlowState;
use super::reply::{Cause, Heard};
use crate::types::{Outcome, Usage};

/// An endpoint as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EndpointStats {
    /// Requests that have ended.
    pub requests: u64,
    /// What came of them.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Answers that came in a field for refusals.
    pub refusals: u64,
    /// Attempts that were sent.
    pub attempts: u64,
    /// Attempts that failed and might have gone better next time, by cause.
    pub retries: BTreeMap<Cause, u64>,
    /// Requests that wait to be tried again.
    pub waiting: u64,
    /// Tokens of all answers that were heard.
    pub tokens: Usage,
    /// Bytes of bodies, all attempts counted whole.
    pub bytes_sent: u64,
    /// How many of these bytes are media. None at all after a run with media is an alarm.
    pub media_bytes_sent: u64,
    /// Requests that may be under way at once, now.
    pub limit: usize,
    /// Attempts that are under way.
    pub in_flight: usize,
    /// How long everything has been waiting for a server that is down.
    pub paused_for: Option<Duration>,
    /// What the server was last heard, or not heard, to say.
    pub paused_why: Option<String>,
    /// Why nothing is sent, where whoever starts the server holds everything back.
    pub held: Option<String>,
    /// Patience has ended: requests fail without being sent.
    pub given_up: bool,
    /// The addresses, in the order of the spec.
    pub addresses: Vec<AddressStats>,
}

/// One address as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AddressStats {
    /// The address, without secrets.
    pub url: String,
    /// Attempts that are under way.
    pub in_flight: usize,
    /// Attempts that were sent to it.
    pub sent: u64,
    /// How long it has been down.
    pub down_for: Option<Duration>,
}

impl EndpointStats {
    pub(super) fn heard(&mut self, heard: &Heard) {
        self.end(heard.outcome);
        self.refusals += u64::from(heard.refusal);
        let Usage { prompt_tokens, audio_tokens, completion_tokens } = heard.usage;
        let tokens = &mut self.tokens;
        tokens.prompt_tokens = tokens.prompt_tokens.saturating_add(prompt_tokens);
        tokens.audio_tokens = tokens.audio_tokens.saturating_add(audio_tokens);
        tokens.completion_tokens = tokens.completion_tokens.saturating_add(completion_tokens);
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        self.requests += 1;
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    pub(super) fn retried(&mut self, cause: Cause) {
        *self.retries.entry(cause).or_default() += 1;
    }

    /// How it stands, in words. `patience` is how long everything waits for a server that is down, `most` the
    /// most requests that may be under way at once.
    pub fn in_words(&self, patience: Duration, most: usize) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(held) = &self.held {
            parts.push(held.clone());
        } else if let Some(paused) = self.paused_for {
            let (now, most) = (paused.as_secs(), patience.as_secs());
            let why = self.paused_why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
            parts.push(if self.given_up {
                format!("server is down, given up after {now} s{why}")
            } else {
                format!("server is down, waiting since {now} s (up to {most} s){why}")
            });
        } else {
            for address in self.addresses.iter().filter(|_| self.addresses.len() > 1) {
                if let Some(down) = address.down_for {
                    parts.push(format!("{} is down since {} s", address.url, down.as_secs()));
                }
            }
        }
        let retries: u64 = self.retries.values().sum();
        if retries > 0 {
            let mut causes: Vec<_> = self.retries.iter().collect();
            causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let causes: Vec<_> =
                causes.iter().take(3).map(|(cause, count)| format!("{} {count}", cause.as_str())).collect();
            parts.push(format!("{retries} retries ({})", causes.join(", ")));
        }
        if self.limit < most {
            parts.push(format!("{} of {most} at once", self.limit));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The counts with the state of the flow.
    pub(super) fn with(mut self, flow: FlowState, urls: &[String]) -> Self {
        self.limit = flow.limit;
        self.in_flight = flow.in_flight;
        self.paused_for = flow.paused_for;
        self.paused_why = flow.why;
        self.given_up = flow.given_up;
        self.held = flow.held;
        self.addresses = urls
            .iter()
            .zip(flow.addresses)
            .map(|(url, state)| AddressStats {
                url: url.clone(),
                in_flight: state.in_flight,
                sent: state.sent,
                down_for: state.down_for,
            })
            .collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_is_unusual() {
        let mut stats = EndpointStats { limit: 64, ..EndpointStats::default() };
        let words = |stats: &EndpointStats| stats.in_words(Duration::from_mins(10), 64);
        assert_eq!(words(&stats), None);
        stats.limit = 31;
        (0..3).for_each(|_| stats.retried(Cause::RateLimit));
        stats.retried(Cause::Reset);
        let expected = format!(
            "4 retries ({} 3, {} 1); 31 of 64 at once",
            Cause::RateLimit.as_str(),
            Cause::Reset.as_str()
        );
        assert_eq!(words(&stats), Some(expected));
        stats.retries.clear();
        stats.limit = 64;
        stats.paused_for = Some(Duration::from_secs(12));
        assert_eq!(words(&stats).as_deref(), Some("server is down, waiting since 12 s (up to 600 s)"));
        stats.held = Some("waiting for server".to_owned());
        assert_eq!(words(&stats).as_deref(), Some("waiting for server"));
    }
}
