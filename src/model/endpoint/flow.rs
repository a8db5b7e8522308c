//! Who may send, when, and to which address.
//!
//! One gate stands before all addresses of an endpoint. Requests queue at it in order; the first one waits
//! until there is room under the limit of requests under way, until the rates allow another one, and until a
//! server is up. The limit adapts as TCP's does: one more for each round that went well, a third less, once
//! a round, when the server has too much to do.
//!
//! A server is down when it cannot be reached, or when three faults in a row are all that is heard of it for
//! a second. One of several is left out; when all are down everything pauses. A request is sent as a probe
//! now and then, and what it finds decides. Giving up a wait, by dropping it, is safe at any moment.
//!
//! One of several servers that fails whatever it is asked, while another one answers, is left out in the same way: it
//! would be the least loaded one. What a server has failed is tried at another one first.
//!
//! Who starts the servers himself can hold the gate while they are not there: nothing is sent then, patience does not
//! run, and when it is released all servers count as up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::reply::Cause;
use super::spec::{Concurrency, EndpointSpec};

/// Faults in a row after which a server that answers nothing else counts as down.
const STRIKES: u32 = 3;
/// How long nothing else may have been heard of it by then.
const SILENCE: Duration = Duration::from_secs(1);
/// The wait before the first probe; it doubles up to the longest.
const FIRST_PROBE: Duration = Duration::from_millis(250);
const LONGEST_PROBE: Duration = Duration::from_secs(5);
/// The least patience with servers that somebody attends to: the time that he has to notice that one is gone.
const ATTENDED: Duration = Duration::from_secs(30);
/// What is left of the limit when the server has too much to do.
const BACK_OFF: f64 = 0.7;

/// The rules of an endpoint's flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) concurrency: Concurrency,
    pub(super) rpm: Option<u32>,
    pub(super) tpm: Option<u32>,
    pub(super) patience: Duration,
}

impl From<&EndpointSpec> for Rules {
    fn from(spec: &EndpointSpec) -> Self {
        Self { concurrency: spec.concurrency, rpm: spec.rpm, tpm: spec.tpm, patience: spec.patience }
    }
}

/// How an attempt ended, as far as the flow is concerned.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    /// The server did its work, whatever the answer.
    Good,
    /// It didn't.
    Fault { cause: Cause, message: String },
}

/// Every server has been down for longer than patience lasts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GivenUp {
    pub(super) down_for: Duration,
    pub(super) why: String,
}

/// One address as it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AddressState {
    pub(super) in_flight: usize,
    pub(super) sent: u64,
    pub(super) down_for: Option<Duration>,
}

/// The flow as it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FlowState {
    pub(super) limit: usize,
    pub(super) in_flight: usize,
    pub(super) paused_for: Option<Duration>,
    pub(super) why: Option<String>,
    pub(super) given_up: bool,
    pub(super) held: Option<String>,
    pub(super) addresses: Vec<AddressState>,
}

/// The gate.
#[derive(Debug)]
pub(super) struct Flow {
    rules: Rules,
    state: Mutex<State>,
    /// Held by the one who is next.
    gate: tokio::sync::Mutex<()>,
    /// Tells the one who is next that something has changed.
    change: Notify,
}

#[derive(Debug)]
struct State {
    limit: f64,
    in_flight: usize,
    /// Attempts sent before this don't reduce the limit again: they were sent under the old one.
    reduced: Option<Instant>,
    addresses: Vec<Address>,
    turn: usize,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Tokens of a request: a moving mean.
    mean_tokens: Option<f64>,
    paused: Option<Instant>,
    given_up: bool,
    /// Whether nothing more is sent.
    closed: bool,
    /// Why nothing may be sent.
    held: Option<String>,
    /// Whether somebody starts the servers again when they die.
    attended: bool,
}

#[derive(Debug)]
struct Address {
    in_flight: usize,
    sent: u64,
    strikes: u32,
    heard: Instant,
    down: Option<Down>,
}

#[derive(Debug)]
struct Down {
    since: Instant,
    why: String,
    wait: Duration,
    next: Instant,
    probing: bool,
}

/// A rate: what flows in is what may be spent. It may be overdrawn by one request, and then nothing is sent
/// until that is made good.
#[derive(Debug)]
struct Bucket {
    per_second: f64,
    most: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_minute: u32, burst: Duration, now: Instant) -> Self {
        let per_second = f64::from(per_minute.max(1)) / 60.0;
        let most = (per_second * burst.as_secs_f64()).max(1.0);
        Self { per_second, most, level: most, at: now }
    }

    /// When at least `need` is there: now, or later.
    fn ready(&mut self, need: f64, now: Instant) -> Option<Instant> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.most);
        self.at = now;
        // A part of a nanosecond's flow is missing when a timer fires exactly on time.
        let missing = need - self.level;
        (missing > 1e-6).then(|| now + Duration::from_secs_f64(missing / self.per_second))
    }
}

enum Next {
    Go(usize, bool),
    /// Until the moment, or until something changes.
    Wait(Option<Instant>),
    GiveUp(GivenUp),
}

impl Flow {
    pub(super) fn new(rules: Rules, addresses: usize) -> Arc<Self> {
        let now = Instant::now();
        let address = || Address { in_flight: 0, sent: 0, strikes: 0, heard: now, down: None };
        Arc::new(Self {
            rules,
            state: Mutex::new(State {
                limit: rules.concurrency.max.max(1) as f64,
                in_flight: 0,
                reduced: None,
                addresses: (0..addresses).map(|_| address()).collect(),
                turn: 0,
                requests: rules.rpm.map(|rpm| Bucket::new(rpm, Duration::from_secs(1), now)),
                tokens: rules.tpm.map(|tpm| Bucket::new(tpm, Duration::from_secs(5), now)),
                mean_tokens: None,
                paused: None,
                given_up: false,
                closed: false,
                held: None,
                attended: false,
            }),
            gate: tokio::sync::Mutex::new(()),
            change: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the permission to send one attempt. `tokens` is a guess at what it costs, used until the
    /// server has told what requests cost. The addresses to `avoid` are taken where no other one is up.
    pub(super) async fn acquire(self: &Arc<Self>, tokens: u64, avoid: &[usize]) -> Result<Permit, GivenUp> {
        let _first = self.gate.lock().await;
        loop {
            let until = {
                let now = Instant::now();
                let mut state = self.lock();
                match state.next(&self.rules, avoid, now) {
                    Next::Go(address, probe) => {
                        let booked = state.book(address, probe, tokens);
                        let flow = Arc::clone(self);
                        return Ok(Permit { flow, address, probe, booked, sent: now, open: true });
                    }
                    Next::GiveUp(given_up) => return Err(given_up),
                    Next::Wait(until) => until,
                }
            };
            match until {
                Some(until) => drop(tokio::time::timeout_at(until, self.change.notified()).await),
                None => self.change.notified().await,
            }
        }
    }

    /// Lets nothing more be sent: who waits, waits on.
    pub(super) fn close(&self) {
        self.lock().closed = true;
    }

    /// Somebody looks after the servers, and will hold the gate when they are gone.
    pub(super) fn attend(&self) {
        self.lock().attended = true;
    }

    /// Lets nothing be sent until it is released.
    pub(super) fn hold(&self, why: String) {
        self.lock().held = Some(why);
    }

    /// The servers are there.
    pub(super) fn release(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        (state.held, state.paused, state.given_up) = (None, None, false);
        for address in &mut state.addresses {
            (address.strikes, address.heard, address.down) = (0, now, None);
        }
        drop(state);
        self.change.notify_one();
    }

    /// How things stand.
    pub(super) fn state(&self) -> FlowState {
        let now = Instant::now();
        let state = self.lock();
        let address = |address: &Address| AddressState {
            in_flight: address.in_flight,
            sent: address.sent,
            down_for: address.down.as_ref().map(|down| now.saturating_duration_since(down.since)),
        };
        FlowState {
            limit: state.limit as usize,
            in_flight: state.in_flight,
            paused_for: state.paused.map(|since| now.saturating_duration_since(since)),
            why: state.paused.and_then(|_| state.why()),
            given_up: state.given_up,
            held: state.held.clone(),
            addresses: state.addresses.iter().map(address).collect(),
        }
    }
}

impl State {
    fn next(&mut self, rules: &Rules, avoid: &[usize], now: Instant) -> Next {
        if self.closed || self.held.is_some() {
            return Next::Wait(None);
        }
        let patience = if self.attended { rules.patience.max(ATTENDED) } else { rules.patience };
        let paused_until = self.paused.map(|since| since + patience);
        if paused_until.is_some_and(|until| until <= now) {
            self.given_up = true;
        }
        let due = |address: &Address| match &address.down {
            Some(down) => !down.probing && down.next <= now,
            None => false,
        };
        let choice = if let Some(index) = self.addresses.iter().position(due) {
            Some((index, true))
        } else {
            // The least loaded one; among equals, in turn.
            let count = self.addresses.len().max(1);
            let turn = self.turn;
            let up = self.addresses.iter().enumerate().filter(|(_, address)| address.down.is_none());
            up.min_by_key(|(index, address)| {
                let in_turn = (index + count - turn % count) % count;
                (avoid.contains(index), address.in_flight, in_turn)
            })
            .map(|(index, _)| (index, false))
        };
        let Some((index, probe)) = choice else {
            if self.given_up {
                let since = self.paused.unwrap_or(now);
                let why = self.why().unwrap_or_default();
                return Next::GiveUp(GivenUp { down_for: now.saturating_duration_since(since), why });
            }
            let probes = self.addresses.iter().filter_map(|address| address.down.as_ref());
            let next = probes.filter(|down| !down.probing).map(|down| down.next).min();
            return Next::Wait(next.into_iter().chain(paused_until).min());
        };
        if self.in_flight >= (self.limit as usize).max(1) {
            return Next::Wait(None);
        }
        let requests = self.requests.as_mut().and_then(|bucket| bucket.ready(1.0, now));
        let tokens = self.tokens.as_mut().and_then(|bucket| bucket.ready(1.0, now));
        match requests.into_iter().chain(tokens).max() {
            Some(until) => Next::Wait(Some(until)),
            None => Next::Go(index, probe),
        }
    }

    /// Takes what an attempt takes; the tokens that were booked for it.
    fn book(&mut self, index: usize, probe: bool, guess: u64) -> f64 {
        self.in_flight += 1;
        self.turn = index + 1;
        if let Some(address) = self.addresses.get_mut(index) {
            address.in_flight += 1;
            address.sent += 1;
            if let Some(down) = address.down.as_mut().filter(|_| probe) {
                down.probing = true;
            }
        }
        if let Some(bucket) = &mut self.requests {
            bucket.level -= 1.0;
        }
        let booked = self.mean_tokens.unwrap_or(guess as f64);
        if let Some(bucket) = &mut self.tokens {
            bucket.level -= booked;
        }
        booked
    }

    fn why(&self) -> Option<String> {
        self.addresses.iter().filter_map(|address| address.down.as_ref()).map(|down| down.why.clone()).next()
    }

    fn adapt(&mut self, rules: &Concurrency, signal: &Signal, sent: Instant, now: Instant) {
        if !rules.adaptive {
            return;
        }
        match signal {
            // Only when the limit is what holds the rate down does a good end say anything about it.
            Signal::Good if self.in_flight + 1 >= self.limit as usize => {
                self.limit = (self.limit + 1.0 / self.limit.max(1.0)).min(rules.max.max(1) as f64);
            }
            Signal::Fault {
                cause: Cause::RateLimit | Cause::Overloaded | Cause::Gateway | Cause::Timeout,
                ..
            } if self.reduced.is_none_or(|reduced| sent >= reduced) => {
                let least = rules.min.clamp(1, rules.max.max(1)) as f64;
                self.limit = (self.limit * BACK_OFF).max(least);
                self.reduced = Some(now);
            }
            _ => {}
        }
    }

    /// What an end says about the server; true when it is down.
    fn judge(&mut self, index: usize, probe: bool, signal: &Signal, sent: Instant, now: Instant) -> bool {
        let heard = self.addresses.get(index).map(|address| address.heard);
        let others = self.addresses.iter().enumerate().filter(|(other, _)| *other != index);
        let others_answer =
            others.into_iter().any(|(_, other)| other.down.is_none() && Some(other.heard) > heard);
        let Some(address) = self.addresses.get_mut(index) else { return false };
        let (unreachable, strike, message) = match signal {
            Signal::Good => (false, false, ""),
            Signal::Fault { cause, message } => (
                matches!(cause, Cause::Connect | Cause::Dns),
                matches!(cause, Cause::Overloaded | Cause::Gateway | Cause::Reset | Cause::Tls)
                    || (matches!(cause, Cause::Timeout) && (probe || address.heard <= sent))
                    || (others_answer && *cause != Cause::RateLimit),
                message.as_str(),
            ),
        };
        if !unreachable && !strike {
            address.strikes = 0;
            address.heard = now;
            // Only a probe tells that it is back: what was sent before may end well on a server that closes.
            if probe {
                address.down = None;
            }
        } else {
            address.strikes = address.strikes.saturating_add(1);
            let silent = now.saturating_duration_since(address.heard) >= SILENCE;
            match &mut address.down {
                Some(down) if probe => {
                    down.probing = false;
                    down.wait = (down.wait * 2).min(LONGEST_PROBE);
                    down.next = now + down.wait;
                    message.clone_into(&mut down.why);
                }
                None if unreachable || (address.strikes >= STRIKES && silent) => {
                    address.down = Some(Down {
                        since: now,
                        why: message.to_owned(),
                        wait: FIRST_PROBE,
                        next: now + FIRST_PROBE,
                        probing: false,
                    });
                }
                Some(_) | None => {}
            }
        }
        let down = address.down.is_some();
        if self.addresses.iter().all(|address| address.down.is_some()) {
            self.paused.get_or_insert(now);
        } else {
            self.paused = None;
            self.given_up = false;
        }
        down
    }
}

/// The permission to send one attempt. Dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Permit {
    flow: Arc<Flow>,
    address: usize,
    probe: bool,
    booked: f64,
    sent: Instant,
    open: bool,
}

impl Permit {
    /// The index of the address to send to.
    pub(super) fn address(&self) -> usize {
        self.address
    }

    /// Tells how the attempt ended and what it cost; true when the server was found down.
    pub(super) fn finish(mut self, signal: &Signal, tokens: Option<u64>) -> bool {
        let now = Instant::now();
        let mut state = self.flow.lock();
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            let tokens = tokens as f64;
            if let Some(bucket) = &mut state.tokens {
                bucket.level += self.booked - tokens;
            }
            state.mean_tokens = Some(state.mean_tokens.map_or(tokens, |mean| mean + (tokens - mean) * 0.1));
        }
        state.release(self.address);
        state.adapt(&self.flow.rules.concurrency, signal, self.sent, now);
        let down = state.judge(self.address, self.probe, signal, self.sent, now);
        drop(state);
        self.open = false;
        self.flow.change.notify_one();
        down
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let mut state = self.flow.lock();
        state.release(self.address);
        if let Some(down) = state.addresses.get_mut(self.address).and_then(|address| address.down.as_mut())
            && self.probe
        {
            down.probing = false;
        }
        drop(state);
        self.flow.change.notify_one();
    }
}

impl State {
    fn release(&mut self, index: usize) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(address) = self.addresses.get_mut(index) {
            address.in_flight = address.in_flight.saturating_sub(1);
        }
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
