//! The model behind an endpoint: one request's way through encoding, the gate, attempts and waits, to its
//! answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::Url;
use tokio::time::Instant;

use super::body::Body;
use super::client::{Broken, Transport};
use super::dialect::{Refusal, check_unsent};
use super::doorman::Doorman;
use super::flow::{Flow, GivenUp, Permit, Rules, Signal};
use super::reply::{Cause, Classified, Heard};
use super::retry::Backoff;
use super::spec::EndpointSpec;
use super::spec_check::{self, EndpointError};
use super::stats::EndpointStats;
use crate::model::{Answer, AudioNeed, ImageNeed, MediaLimits, Model, ModelIdentity, Prepared};
use crate::types::{Generation, Outcome, Prompt, Usage};

/// A model behind one or several servers.
#[derive(Debug)]
pub struct EndpointModel {
    pub(super) spec: EndpointSpec,
    pub(super) transport: Transport,
    pub(super) bases: Vec<Url>,
    targets: Vec<Url>,
    shown: Vec<String>,
    identity: ModelIdentity,
    limits: MediaLimits,
    flow: Arc<Flow>,
    counts: Mutex<EndpointStats>,
}

impl EndpointModel {
    /// The model that a spec describes. Nothing is sent yet.
    pub fn new(spec: EndpointSpec) -> Result<Self, EndpointError> {
        let bases = spec_check::check(&spec)?;
        let transport = Transport::new(&spec, &bases)?;
        let limits = &spec.limits;
        Ok(Self {
            transport,
            targets: bases.iter().map(|base| spec.dialect.target(base, &spec)).collect(),
            shown: bases.iter().map(spec_check::shown).collect(),
            identity: spec_check::identity(&spec, &bases),
            limits: MediaLimits {
                audio: if limits.audio_formats.is_empty() {
                    AudioNeed::None
                } else {
                    AudioNeed::File {
                        formats: limits.audio_formats.clone(),
                        max_bytes: limits.max_audio_bytes,
                    }
                },
                max_seconds: limits.max_seconds,
                images: if limits.image_formats.is_empty() { ImageNeed::None } else { ImageNeed::File },
            },
            flow: Flow::new(Rules::from(&spec), bases.len()),
            counts: Mutex::default(),
            bases,
            spec,
        })
    }

    /// What it was made from.
    pub fn spec(&self) -> &EndpointSpec {
        &self.spec
    }

    /// What stands before its door while its servers are started: asks whether they are ready, by `url` where it is
    /// given, and holds requests back until they are.
    pub fn doorman(&self, url: Option<&str>) -> Result<Doorman, EndpointError> {
        Doorman::new(&self.spec, &self.bases, url, Arc::clone(&self.flow))
    }

    /// Why no request with these settings would be sent, if so: a setting is asked for that is not sent.
    pub fn refuses(&self, generation: &Generation) -> Option<String> {
        match check_unsent(&self.spec, generation) {
            Ok(()) => None,
            Err(Refusal::Media(sentence) | Refusal::Request(sentence)) => Some(sentence),
        }
    }

    /// How it stands: for progress lines, cost limits and alarms.
    pub fn stats(&self) -> EndpointStats {
        let counts = self.counts().clone();
        counts.with(self.flow.state(), &self.shown)
    }

    fn counts(&self) -> MutexGuard<'_, EndpointStats> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn request(&self, request: Prepared) -> Answer {
        let body = match self.spec.dialect.encode(&request, &self.spec) {
            Ok(body) => body,
            Err(refusal) => {
                let (outcome, error) = match refusal {
                    Refusal::Media(error) => (Outcome::MediaError, error),
                    Refusal::Request(error) => (Outcome::RequestError, error),
                };
                return self.failed(outcome, error, 0, Duration::ZERO);
            }
        };
        let guess = guess_tokens(&request);
        let mut backoff = Backoff::new(self.spec.retries, &request.key);
        let mut attempts = 0_u32;
        // Time in attempts and in waits between them: not in the queue, not in pauses.
        let mut spent = Duration::ZERO;
        // Addresses that have refused it, and the one that has failed it last.
        let (mut refused, mut avoid) = (Vec::new(), Vec::new());
        loop {
            let permit = match self.flow.acquire(guess, &avoid).await {
                Ok(permit) => permit,
                Err(given_up) => {
                    return self.failed(Outcome::RequestError, self.sentence(&given_up), attempts, spent);
                }
            };
            attempts = attempts.saturating_add(1);
            let time = self.spec.timeout.min(self.spec.deadline.saturating_sub(spent));
            let started = Instant::now();
            let classified = self.attempt(&body, &permit, time).await;
            let took = started.elapsed();
            let address = permit.address();
            // One of several servers may lack the model, or another key.
            let elsewhere = matches!(&classified, Classified::Fail { .. })
                && !refused.contains(&address)
                && refused.len() + 1 < self.targets.len();
            let down = settle(permit, &classified, elsewhere);
            let (cause, message, after) = match classified {
                Classified::Answer(heard) => {
                    let mut answer = self.heard(heard, attempts, took);
                    // Servers repeat the language that they were told, by the config or by a finished prompt.
                    if self.spec.transcription.language.is_some()
                        || matches!(request.prompt, Prompt::Raw { .. })
                    {
                        answer.language = None;
                    }
                    return Answer { media_bytes: Some(body.media_bytes()), ..answer };
                }
                Classified::Fail { message } if elsewhere => {
                    tracing::debug!(attempts, %message, "refused by one of several servers");
                    refused.push(address);
                    avoid.clone_from(&refused);
                    spent += took;
                    continue;
                }
                Classified::Fail { message } => {
                    return self.failed(Outcome::RequestError, message, attempts, spent + took);
                }
                Classified::Retry { cause, message, after } => (cause, message, after),
            };
            self.counts().retried(cause);
            avoid.clone_from(&refused);
            avoid.push(address);
            tracing::debug!(cause = cause.as_str(), attempts, down, %message, "an attempt failed");
            if down {
                // The gate makes it wait, as long as patience lasts, unless another server is up.
                continue;
            }
            spent += took;
            // Rate limits and overload end by themselves: only the deadline bounds them.
            let bounded = matches!(cause, Cause::RateLimit | Cause::Overloaded);
            if !bounded && !backoff.spend() {
                let error = format!("gave up after {}: {message}", times(attempts));
                return self.failed(Outcome::RequestError, error, attempts, spent);
            }
            let wait = backoff.wait(after);
            if spent + wait >= self.spec.deadline {
                let seconds = self.spec.deadline.as_secs_f64();
                let error = match after {
                    Some(after) if after > self.spec.deadline / 2 => format!(
                        "the server asks to wait {:.0} s, more than is left of the deadline of {seconds:.0} s: {message}",
                        after.as_secs_f64()
                    ),
                    _ => format!("the deadline of {seconds:.0} s ended after {}: {message}", times(attempts)),
                };
                return self.failed(Outcome::RequestError, error, attempts, spent);
            }
            spent += wait;
            self.wait(wait).await;
        }
    }

    async fn wait(&self, wait: Duration) {
        /// Counts as waiting for as long as it lives, even if the request is dropped.
        struct Waiting<'a>(&'a EndpointModel);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                let mut counts = self.0.counts();
                counts.waiting = counts.waiting.saturating_sub(1);
            }
        }
        self.counts().waiting += 1;
        let _waiting = Waiting(self);
        tokio::time::sleep(wait).await;
    }

    async fn attempt(&self, body: &Body, permit: &Permit, time: Duration) -> Classified {
        {
            let mut counts = self.counts();
            counts.attempts += 1;
            counts.bytes_sent = counts.bytes_sent.saturating_add(body.len());
            counts.media_bytes_sent = counts.media_bytes_sent.saturating_add(body.media_bytes());
        }
        let Some(target) = self.targets.get(permit.address()) else {
            return Classified::Fail { message: "no such address".to_owned() };
        };
        match self.transport.post(target, body, time).await {
            Ok(reply) => match self.spec.dialect.classify(&reply) {
                answer @ Classified::Answer(_) => answer,
                // Servers quote keys in what they say. What is cut to a length must be clean before.
                _ => match self.spec.dialect.classify(&self.transport.clean(reply)) {
                    Classified::Fail { message } => {
                        Classified::Fail { message: self.transport.scrub(&message) }
                    }
                    Classified::Retry { cause, message, after } => {
                        Classified::Retry { cause, message: self.transport.scrub(&message), after }
                    }
                    answer @ Classified::Answer(_) => answer,
                },
            },
            Err(Broken { message, for_good: true, .. }) => Classified::Fail { message },
            Err(Broken { cause, message, .. }) => Classified::Retry { cause, message, after: None },
        }
    }

    fn heard(&self, mut heard: Heard, attempts: u32, took: Duration) -> Answer {
        self.counts().heard(&heard);
        self.transport.scrub_answer(&mut heard.text);
        let asked = self.spec.model.trim_start_matches("models/");
        let answered_as = heard.model.filter(|model| model.trim_start_matches("models/") != asked);
        Answer {
            outcome: heard.outcome,
            text: heard.text,
            language: heard.language,
            tokens: None,
            usage: heard.usage,
            seconds: took.as_secs_f64(),
            attempts,
            error: None,
            media_bytes: None,
            answered_as: answered_as.map(|model| self.transport.scrub(&model)),
        }
    }

    fn failed(&self, outcome: Outcome, error: String, attempts: u32, spent: Duration) -> Answer {
        self.counts().end(outcome);
        Answer { outcome, seconds: spent.as_secs_f64(), attempts, ..Answer::failed(error) }
    }

    fn sentence(&self, given_up: &GivenUp) -> String {
        let (through, what) = match &self.spec.proxy {
            Some(_) => (", asked through the proxy of the config,", "see whether proxy and server run"),
            None => ("", "start the server again"),
        };
        format!(
            "{}{through} has been down for {:.0} s ({}); {what} and resume the run",
            self.shown.join(" and "),
            given_up.down_for.as_secs_f64(),
            given_up.why
        )
    }
}

/// Gives the permit back with what the attempt taught; true when the server was found down.
fn settle(permit: Permit, classified: &Classified, elsewhere: bool) -> bool {
    match classified {
        Classified::Answer(heard) => {
            let Usage { prompt_tokens, completion_tokens, .. } = heard.usage;
            permit.finish(&Signal::Good, Some(prompt_tokens.saturating_add(completion_tokens)))
        }
        Classified::Fail { message } if elsewhere => {
            permit.finish(&Signal::Fault { cause: Cause::Server, message: message.clone() }, None)
        }
        Classified::Fail { .. } => permit.finish(&Signal::Good, None),
        Classified::Retry { cause, message, .. } => {
            permit.finish(&Signal::Fault { cause: *cause, message: message.clone() }, None)
        }
    }
}

fn times(attempts: u32) -> String {
    if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") }
}

/// A rough guess at a request's tokens, until the server has counted some: a token for three bytes of text,
/// 25 for a second of sound (Qwen2-Audio's rate), 1000 for an image, and a whole answer.
fn guess_tokens(request: &Prepared) -> u64 {
    use crate::types::{AudioContent, Part};
    let text = match &request.prompt {
        Prompt::Raw { text, .. } => text.len(),
        Prompt::Chat(messages) => messages
            .iter()
            .flat_map(|message| &message.parts)
            .map(|part| if let Part::Text(text) = part { text.len() } else { 0 })
            .sum(),
    };
    let seconds: f64 = request
        .audio
        .iter()
        .map(|clip| if let AudioContent::File(file) = &clip.content { file.seconds } else { 0.0 })
        .sum();
    let media = (seconds * 25.0) as u64 + 1000 * request.images.len() as u64;
    text as u64 / 3 + media + request.generation.max_new_tokens as u64
}

impl Model for EndpointModel {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn accepts(&self) -> &MediaLimits {
        &self.limits
    }

    fn batch_size(&self) -> usize {
        1
    }

    fn concurrency(&self) -> usize {
        self.spec.concurrency.max
    }

    fn finish(&self) {
        self.flow.close();
    }

    fn is_idle(&self) -> bool {
        self.flow.state().in_flight == 0
    }

    fn status(&self) -> Option<String> {
        self.stats().in_words(self.spec.patience, self.spec.concurrency.max)
    }

    fn answer(&self, batch: Vec<Prepared>) -> BoxFuture<'_, Vec<Answer>> {
        Box::pin(futures::future::join_all(batch.into_iter().map(|request| self.request(request))))
    }
}
