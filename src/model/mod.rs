//! What answers requests: the [`Model`] trait, its identity and its limits.
//!
//! A model gets requests whose media are ready and gives one answer each, in order. It must not know
//! benchmarks, journals or the config file.

#[cfg(feature = "endpoint")]
pub mod endpoint;
#[cfg(feature = "endpoint")]
mod endpoint_spec;
#[cfg(feature = "local")]
pub mod local;
mod open;
pub mod replay;
mod tokens;

pub use open::{KINDS, Kind, ModelError, Opened, load, open, own_sampling, takes_finished_prompts};
pub use tokens::{Tokens, TokensError};

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{Digest, Generation, Outcome, PreparedAudio, PreparedImage, Prompt, Usage};

/// Who a model is, as far as its answers can depend on it: part of every request's key.
#[derive(Default, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelIdentity {
    /// The name for tables.
    pub name: String,
    /// `local` or the dialect of an endpoint.
    pub kind: String,
    /// The architecture of a local model, or the model name that an endpoint is asked for.
    pub model: String,
    /// A digest of a local model's files, or an endpoint's address without secrets.
    pub revision: String,
    /// The number format of a local model's weights and arithmetic.
    pub dtype: String,
    /// The device of a local model. For people: not part of the key.
    pub device: String,
}

/// What audio a model wants.
#[derive(Clone, Debug, PartialEq)]
pub enum AudioNeed {
    /// The model hears nothing.
    None,
    /// Media are not read at all, and need not be there: the answers are there already. The key of such a request is
    /// its id.
    Unread,
    /// Log-mel features of a 30 s window, computed before the model is asked.
    LogMel {
        /// Mel bands.
        bins: usize,
    },
    /// Log-mel features of the whole clip, in windows of at most 30 s one after the other.
    LogMelWindows {
        /// Mel bands.
        bins: usize,
    },
    /// A whole file, untouched where its format is taken.
    File {
        /// The formats that are taken, by the names that sniffing gives them: `wav`, `mp3`…
        formats: Vec<String>,
        /// The most bytes that a file may have.
        max_bytes: u64,
    },
}

/// What images a model wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageNeed {
    /// The model sees nothing.
    None,
    /// A whole file, untouched but for what the config asks for.
    File,
    /// Pixels in a size that can be cut into patches.
    Pixels(PatchNeed),
}

/// The size that a model of patches wants of an image, and how it comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchNeed {
    /// The side of a patch in pixels.
    pub patch: u32,
    /// Patches a side that become one token: sides are multiples of `patch` times this.
    pub merge: u32,
    /// Images of fewer pixels are made larger.
    pub min_pixels: u64,
    /// Images of more pixels are made smaller.
    pub max_pixels: u64,
}

/// What a model accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaLimits {
    /// What audio it wants.
    pub audio: AudioNeed,
    /// The longest clip in seconds.
    pub max_seconds: f64,
    /// What images it wants.
    pub images: ImageNeed,
}

/// A request whose media are ready.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The request's key: the seed of its randomness.
    pub key: Digest,
    /// What is asked.
    pub prompt: Prompt,
    /// The clips of the prompt, in its order.
    pub audio: Vec<PreparedAudio>,
    /// The images of the prompt, in its order.
    pub images: Vec<PreparedImage>,
    /// How to generate.
    pub generation: Generation,
    /// The run's seed.
    pub seed: u64,
    /// Whether an endpoint is sent that seed as it is, though tokens are drawn: a judge's, whose runs have seeds of
    /// their own.
    pub exact_seed: bool,
}

/// What a model made of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What came of it.
    pub outcome: Outcome,
    /// The text, without special tokens; empty for failures.
    pub text: String,
    /// The language that a recogniser of speech heard, where it was told none and names it.
    pub language: Option<String>,
    /// The generated token ids, where the model shows them.
    pub tokens: Option<Vec<u32>>,
    /// Tokens counted.
    pub usage: Usage,
    /// Seconds the model worked on it; for a batch, the batch's time.
    pub seconds: f64,
    /// How often it was tried.
    pub attempts: u32,
    /// The sentence of a failure.
    pub error: Option<String>,
    /// Bytes of media in the request's body, for endpoints.
    pub media_bytes: Option<u64>,
    /// The model that an endpoint says has answered, where that is not the name that it was asked for.
    pub answered_as: Option<String>,
}

impl Answer {
    /// A failed request.
    pub fn failed(error: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::RequestError,
            text: String::new(),
            language: None,
            tokens: None,
            usage: Usage::default(),
            seconds: 0.0,
            attempts: 1,
            error: Some(error.into()),
            media_bytes: None,
            answered_as: None,
        }
    }
}

/// Something that answers requests.
pub trait Model: Send + Sync {
    /// Who it is.
    fn identity(&self) -> &ModelIdentity;

    /// What it accepts.
    fn accepts(&self) -> &MediaLimits;

    /// How many requests it is best given at once.
    fn batch_size(&self) -> usize;

    /// How many batches may be under way at once.
    fn concurrency(&self) -> usize;

    /// Nothing new is to be begun: requests that have not been sent yet will not be waited for.
    fn finish(&self) {}

    /// Whether nothing is under way of what was begun before [`Self::finish`]. `false` where that is not known.
    fn is_idle(&self) -> bool {
        false
    }

    /// How it stands, for those who watch a run: retries, limits, a server that is down. `None` where there is
    /// nothing to say.
    fn status(&self) -> Option<String> {
        None
    }

    /// Whether it is out of order when it has failed many requests in a row, so that the rest is not failed as well.
    fn gives_up(&self) -> bool {
        true
    }

    /// One answer for each request, in order. Never fails as a whole: what fails is an answer that says so.
    fn answer(&self, batch: Vec<Prepared>) -> BoxFuture<'_, Vec<Answer>>;
}
