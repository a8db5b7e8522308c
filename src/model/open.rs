//! From a `[model]` section to a model: first a look that is quick and complete, then the loading.

use super::{MediaLimits, Model, ModelIdentity};
use crate::config::{ModelConfig, ModelKind};

/// A model that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The build lacks what the model needs.
    #[error(
        "this build of harness has no local models; build it with the cargo feature `local` (it is a default \
         feature), or name another kind of model"
    )]
    NotBuilt,
    /// A local model.
    #[cfg(feature = "local")]
    #[error(transparent)]
    Local(#[from] super::local::LoadError),
}

impl ModelError {
    /// The key of `[model]` that is to be looked at.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NotBuilt => "kind",
            #[cfg(feature = "local")]
            Self::Local(error) => error.key(),
        }
    }
}

/// A model that was looked at and can be loaded.
pub struct Opened {
    /// Who it is.
    pub identity: ModelIdentity,
    /// What it accepts.
    pub limits: MediaLimits,
    /// A line for people: size, formats, device.
    pub about: String,
    loader: Loader,
}

type Loader = Box<dyn FnOnce() -> Result<Box<dyn Model>, ModelError> + Send>;

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened")
            .field("identity", &self.identity)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Looks at a model: its files, their names, shapes and digest. Weights are not read.
pub fn open(config: &ModelConfig) -> Result<Opened, ModelError> {
    match config.kind {
        ModelKind::Local => open_local(config),
    }
}

/// Loads a model that was looked at.
pub fn load(opened: Opened) -> Result<Box<dyn Model>, ModelError> {
    (opened.loader)()
}

#[cfg(not(feature = "local"))]
fn open_local(_config: &ModelConfig) -> Result<Opened, ModelError> {
    Err(ModelError::NotBuilt)
}

#[cfg(feature = "local")]
fn open_local(config: &ModelConfig) -> Result<Opened, ModelError> {
    use super::local::{Inspected, LocalModel, LocalSpec};
    let spec = LocalSpec {
        dir: config.weights.clone(),
        architecture: config.architecture.clone(),
        device: config.device.clone(),
        dtype: config.dtype.clone(),
        batch_size: config.batch_size,
        max_seconds: config.audio.max_seconds,
        name: config.name.clone(),
    };
    let seen = Inspected::new(&spec)?;
    Ok(Opened {
        identity: seen.identity.clone(),
        limits: seen.limits.clone(),
        about: seen.about(),
        loader: Box::new(move || {
            let model: Box<dyn Model> = Box::new(LocalModel::from_inspected(seen)?);
            Ok(model)
        }),
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

/// The kinds of models.
pub const KINDS: &[Kind] = &[Kind {
    name: "local",
    about: "a model in a folder of this machine, run in candle on CPU, CUDA or Metal",
    built: cfg!(feature = "local"),
    architectures: &[("qwen2_audio", "Qwen2-Audio (speech and sound in, text out)")],
}];
