//! From a `[model]` section to a model: first a look that is quick and complete, then the loading.

use super::replay::{self, Answers, Matched, Replay, ReplayError, ReplaySpec};
use super::{MediaLimits, Model, ModelIdentity};
use crate::config::secret::Secrets;
use crate::config::{EndpointConfig, LocalConfig, ModelConfig, ReplayConfig};
use crate::types::Generation;

#[cfg(feature = "endpoint")]
use super::endpoint::{EndpointError, EndpointModel};
#[cfg(feature = "local")]
use super::local::{Inspected, LoadError, LocalModel, LocalSpec, SpeechSpec};

/// A model that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The build lacks what the model needs.
    #[error(
        "this build of harness has no models of the kind `{kind}`; build it with the cargo feature `{feature}` \
         (it is a default feature), or name another kind of model"
    )]
    NotBuilt {
        /// The kind that is asked for.
        kind: &'static str,
        /// The feature that it needs.
        feature: &'static str,
    },
    /// The section lacks the keys of its kind, which no loaded configuration does.
    #[error("the section lacks the keys that its kind needs; load it from a configuration file")]
    Incomplete,
    /// Answers that were not matched with the requests of a run.
    #[error("answers of files have to be matched with the requests of a run first")]
    Unmatched,
    /// Answers that exist already.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A local model.
    #[cfg(feature = "local")]
    #[error(transparent)]
    Local(#[from] LoadError),
    /// An endpoint.
    #[cfg(feature = "endpoint")]
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl ModelError {
    /// The key of `[model]` that is to be looked at.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NotBuilt { .. } | Self::Incomplete | Self::Unmatched => "kind",
            Self::Replay(error) => error.key(),
            #[cfg(feature = "local")]
            Self::Local(error) => error.key(),
            #[cfg(feature = "endpoint")]
            Self::Endpoint(error) => match error {
                EndpointError::NoAddress | EndpointError::Address { .. } => "base_url",
                EndpointError::NoModel => "model",
                EndpointError::TooSmall { .. } => "flow",
                EndpointError::Header { .. }
                | EndpointError::ReservedField(_)
                | EndpointError::Mismatch(_)
                | EndpointError::Proxy
                | EndpointError::Certificates { .. } => "endpoint",
                EndpointError::Client { .. } => "kind",
            },
        }
    }
}

/// A model that was looked at and can be loaded.
pub struct Opened {
    /// Who it is.
    pub identity: ModelIdentity,
    /// Who it is by itself, where `identity` is that of a cascade.
    pub alone: Option<ModelIdentity>,
    /// What it accepts.
    pub limits: MediaLimits,
    /// A line for people: size, formats, device, address.
    pub about: String,
    inner: Inner,
}

/// What is loaded.
enum Inner {
    Replay(Box<Answers>, Option<Box<Matched>>),
    #[cfg(feature = "local")]
    Local(Box<Inspected>),
    #[cfg(feature = "endpoint")]
    Endpoint(Box<EndpointModel>),
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("identity", &self.identity)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Opened {
    /// Why it would refuse every request with these settings, if it would.
    #[cfg_attr(
        not(feature = "endpoint"),
        expect(unused_variables, reason = "only endpoints refuse settings")
    )]
    pub fn refuses(&self, generation: &Generation) -> Option<String> {
        #[cfg(feature = "endpoint")]
        if let Some(endpoint) = self.endpoint() {
            return endpoint.refuses(generation);
        }
        None
    }

    /// The model where it is an endpoint, to be probed.
    #[cfg(feature = "endpoint")]
    pub fn endpoint(&self) -> Option<&EndpointModel> {
        match &self.inner {
            Inner::Endpoint(model) => Some(model),
            _ => None,
        }
    }

    /// The answers, where they exist already: they are to be matched with the requests of the run.
    pub fn answers(&self) -> Option<&Answers> {
        match &self.inner {
            Inner::Replay(answers, _) => Some(answers),
            #[cfg(any(feature = "local", feature = "endpoint"))]
            _ => None,
        }
    }

    /// Takes what was matched of the answers. Without it they cannot be loaded.
    pub fn match_with(&mut self, found: Matched) {
        match &mut self.inner {
            Inner::Replay(_, matched) => *matched = Some(Box::new(found)),
            #[cfg(any(feature = "local", feature = "endpoint"))]
            _ => {}
        }
    }
}

/// Looks at a model. Of a local one: its files, their names, shapes and digest; weights are not read. Of an
/// endpoint: its settings; nothing is sent.
pub fn open(config: &ModelConfig, secrets: &Secrets) -> Result<Opened, ModelError> {
    match (&config.local, &config.endpoint, &config.replay) {
        (Some(local), None, None) => open_local(config, local),
        (None, Some(endpoint), None) => open_endpoint(config, endpoint, secrets),
        (None, None, Some(replay)) => open_replay(config, replay),
        _ => Err(ModelError::Incomplete),
    }
}

fn open_replay(config: &ModelConfig, replay: &ReplayConfig) -> Result<Opened, ModelError> {
    let answers = Answers::read(&ReplaySpec {
        name: config.name.clone(),
        files: replay.files.clone(),
        preset: replay.preset,
        fields: replay.fields.clone(),
        match_by: replay.match_by,
    })?;
    Ok(Opened {
        alone: None,
        identity: answers.identity().clone(),
        limits: replay::limits(),
        about: answers.about(),
        inner: Inner::Replay(Box::new(answers), None),
    })
}

/// Whether a model takes finished prompt strings with the control tokens of the Qwen2-Audio family: the local one
/// does, and a server where it is asked for completions. Others put chats through a template of their own.
pub fn takes_finished_prompts(config: &ModelConfig) -> bool {
    let local = config.local.as_ref().is_some_and(|local| local.architecture == "qwen2_audio");
    local || config.endpoint.as_ref().is_some_and(|endpoint| endpoint.wire.completions)
}

/// How a local model draws by itself, where its files say it: temperature, top-p, top-k and repetition penalty.
#[cfg(feature = "local")]
pub fn own_sampling(local: &LocalConfig) -> Result<Generation, ModelError> {
    Ok(super::local::config::own_sampling(&local.weights)?)
}

/// The same for a build without local models.
#[cfg(not(feature = "local"))]
pub fn own_sampling(_local: &LocalConfig) -> Result<Generation, ModelError> {
    Err(ModelError::NotBuilt { kind: "local", feature: "local" })
}

/// Loads a model that was looked at.
pub fn load(opened: Opened) -> Result<Box<dyn Model>, ModelError> {
    match opened.inner {
        Inner::Replay(answers, matched) => {
            let matched = matched.ok_or(ModelError::Unmatched)?;
            let model: Box<dyn Model> = Box::new(Replay::new(*answers, *matched));
            Ok(model)
        }
        #[cfg(feature = "local")]
        Inner::Local(seen) => {
            let model: Box<dyn Model> = Box::new(LocalModel::from_inspected(*seen)?);
            Ok(model)
        }
        #[cfg(feature = "endpoint")]
        Inner::Endpoint(model) => Ok(model),
    }
}

#[cfg(not(feature = "local"))]
fn open_local(config: &ModelConfig, _local: &LocalConfig) -> Result<Opened, ModelError> {
    Err(ModelError::NotBuilt { kind: config.kind.as_str(), feature: "local" })
}

#[cfg(feature = "local")]
fn open_local(config: &ModelConfig, local: &LocalConfig) -> Result<Opened, ModelError> {
    let spec = LocalSpec {
        dir: local.weights.clone(),
        architecture: local.architecture.clone(),
        device: local.device.clone(),
        dtype: local.dtype.clone(),
        batch_size: local.batch_size,
        max_seconds: config.audio.max_seconds,
        name: config.name.clone(),
        speech: SpeechSpec {
            language: local.transcription.language.clone(),
            drop_text: local.transcription.text == crate::config::endpoint::TranscriptionText::Drop,
            fallback: local.transcription.fallback,
        },
    };
    let seen = Inspected::new(&spec)?;
    Ok(Opened {
        alone: None,
        identity: seen.identity.clone(),
        limits: seen.limits.clone(),
        about: seen.about(),
        inner: Inner::Local(Box::new(seen)),
    })
}

#[cfg(not(feature = "endpoint"))]
fn open_endpoint(
    config: &ModelConfig,
    _endpoint: &EndpointConfig,
    _secrets: &Secrets,
) -> Result<Opened, ModelError> {
    Err(ModelError::NotBuilt { kind: config.kind.as_str(), feature: "endpoint" })
}

#[cfg(feature = "endpoint")]
fn open_endpoint(
    config: &ModelConfig,
    endpoint: &EndpointConfig,
    secrets: &Secrets,
) -> Result<Opened, ModelError> {
    let spec = super::endpoint_spec::spec(config, endpoint, secrets).ok_or(ModelError::Incomplete)?;
    let about = super::endpoint_spec::about(&spec);
    let model = EndpointModel::new(spec)?;
    Ok(Opened {
        alone: None,
        identity: model.identity().clone(),
        limits: model.accepts().clone(),
        about,
        inner: Inner::Endpoint(Box::new(model)),
    })
}

/// A kind of model, for `harness list`.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in `[model] kind`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Whether this build has it.
    pub built: bool,
    /// Its architectures, with what they are.
    pub architectures: &'static [(&'static str, &'static str)],
}

const fn endpoint(name: &'static str, about: &'static str) -> Kind {
    Kind { name, about, built: cfg!(feature = "endpoint"), architectures: &[] }
}

/// The kinds of models.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "local",
        about: "a model in a folder of this machine, run in candle on CPU, CUDA or Metal",
        built: cfg!(feature = "local"),
        architectures: &[
            ("qwen2_audio", "Qwen2-Audio (speech and sound in, text out)"),
            ("whisper", "Whisper (speech in, its words out)"),
            ("qwen2_5_vl", "Qwen2.5-VL (images and text in, text out)"),
            ("llama", "Llama, SmolLM2 and their like (text; safetensors or GGUF)"),
            ("qwen2", "Qwen2 and Qwen2.5 (text; safetensors or GGUF)"),
            ("qwen3", "Qwen3, dense (text; safetensors or GGUF)"),
            ("gemma3", "Gemma 3 (text; safetensors or GGUF)"),
        ],
    },
    endpoint(
        "openai",
        "a server of chat completions: OpenAI, vLLM, SGLang, llama.cpp, DashScope… (text, audio, images)",
    ),
    endpoint("azure", "OpenAI's models behind the deployment addresses of Azure (text, audio, images)"),
    endpoint("gemini", "Google's generateContent (text, audio, images)"),
    endpoint("anthropic", "Anthropic's messages (text, images)"),
    endpoint("transcription", "audio transcriptions of OpenAI and vLLM (a clip in, its words out)"),
    Kind {
        name: "cascade",
        about: "a recogniser of speech with a model behind it that answers by the transcript; each of any kind above",
        built: cfg!(any(feature = "local", feature = "endpoint")),
        architectures: &[],
    },
    Kind {
        name: replay::KIND,
        about: "answers that exist already: output files of CCFQA's authors, AudioBench, lmms-eval, Inspect, or your own",
        built: true,
        architectures: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModelKind;

    #[test]
    fn every_architecture_is_listed() {
        let listed: Vec<&str> =
            KINDS.iter().flat_map(|kind| kind.architectures).map(|(name, _)| *name).collect();
        assert_eq!(listed, crate::config::ARCHITECTURES.map(|(name, _)| name));
    }

    #[test]
    fn every_kind_is_listed() {
        let listed: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(listed, ModelKind::ALL.map(ModelKind::as_str));
    }
}
