//! A local model as a [`Model`]: one thread owns it and works on one batch at a time, off the async threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

use candle_core::{DType, Device};
use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt as _};

use super::device::{DeviceChoice, DtypeChoice, dtype_name};
use super::engine::{self, Checked, Engine, Inventory, Reply, SpeechSpec};
use super::error::LoadError;
use super::first_line;
use super::generate::End;
use crate::model::{Answer, MediaLimits, Model, ModelIdentity, Prepared};
use crate::types::{Outcome, Usage};

/// Which local model to load, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalSpec {
    /// The folder of the checkpoint, or a GGUF file.
    pub dir: PathBuf,
    /// The architecture: `qwen2_audio`, `whisper`, `qwen2_5_vl`, `llama`, `qwen2`, `qwen3` or `gemma3`.
    pub architecture: String,
    /// `auto`, `cpu`, `cuda`, `cuda:N` or `metal`.
    pub device: String,
    /// `auto`, `f32`, `f16` or `bf16`.
    pub dtype: String,
    /// Requests that go through the model together.
    pub batch_size: usize,
    /// The longest clip in seconds; the model itself may take less.
    pub max_seconds: f64,
    /// The name for tables.
    pub name: String,
    /// What a recogniser of speech is told.
    pub speech: SpeechSpec,
}

/// Checks a model's files without reading its weights.
pub fn check(path: &Path) -> Result<Inventory, LoadError> {
    engine::read(path, None).map(|checked| checked.inventory().clone())
}

/// A batch for the thread, and where its answers go.
struct Job {
    batch: Vec<Prepared>,
    reply: oneshot::Sender<Vec<Answer>>,
}

/// A local model, loaded.
#[derive(Debug)]
pub struct LocalModel {
    identity: ModelIdentity,
    limits: MediaLimits,
    batch_size: usize,
    jobs: mpsc::Sender<Job>,
}

/// A local model that was looked at: its files fit each other and its device is open; no weights were read.
pub struct Inspected {
    /// Who it will be.
    pub identity: ModelIdentity,
    /// What it will accept.
    pub limits: MediaLimits,
    /// What its folder holds.
    pub inventory: Inventory,
    spec: LocalSpec,
    checked: Box<dyn Checked>,
    device: Device,
    dtype: DType,
}

impl Inspected {
    /// Looks at a folder and opens the device.
    pub fn new(spec: &LocalSpec) -> Result<Self, LoadError> {
        let device: DeviceChoice = spec.device.parse()?;
        let dtype: DtypeChoice = spec.dtype.parse()?;
        let mut checked = engine::read(&spec.dir, Some(&spec.architecture))?;
        checked
            .listen(&spec.speech)
            .map_err(|problem| LoadError::Speech { folder: spec.dir.clone(), problem })?;
        let (device, device_name) = device.open()?;
        let inventory = checked.inventory().clone();
        let dtype = dtype.resolve(&device, checked.on_disk());
        let (audio, longest) = checked.audio();
        Ok(Self {
            identity: ModelIdentity {
                name: spec.name.clone(),
                kind: "local".to_owned(),
                model: format!("{}{}", inventory.architecture, spec.speech.words()),
                revision: inventory.digest.to_string(),
                dtype: dtype_name(dtype).to_owned(),
                device: device_name,
            },
            limits: MediaLimits {
                audio,
                max_seconds: spec.max_seconds.min(longest),
                images: checked.images(),
            },
            inventory,
            spec: spec.clone(),
            checked,
            device,
            dtype,
        })
    }

    /// A line for people: architecture, size, formats, device.
    pub fn about(&self) -> String {
        let Inventory { architecture, parameters, dtypes, bytes, .. } = &self.inventory;
        format!(
            "{architecture}, {}, {} on disk ({}), {} on {}",
            scaled(*parameters as f64, 1e3, &["", "thousand ", "million ", "billion "], "parameters"),
            dtypes.join(" and "),
            scaled(*bytes as f64, 1e3, &["", "k", "M", "G"], "B"),
            self.identity.dtype,
            self.identity.device
        )
    }
}

/// A number in the largest unit that leaves it at 1 or more.
fn scaled(value: f64, step: f64, units: &[&str], what: &str) -> String {
    let (mut value, mut unit) = (value, 0);
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = usize::from(unit > 0);
    format!("{value:.digits$} {}{what}", units.get(unit).unwrap_or(&""))
}

impl LocalModel {
    /// Looks at a folder and loads its model.
    pub fn load(spec: &LocalSpec) -> Result<Self, LoadError> {
        Self::from_inspected(Inspected::new(spec)?)
    }

    /// Loads a model that was looked at. This takes as long as reading its weights takes: call it off the async
    /// threads.
    pub fn from_inspected(inspected: Inspected) -> Result<Self, LoadError> {
        let Inspected { identity, limits, spec, checked, device, dtype, .. } = inspected;
        let model = checked.load(dtype, &device)?;
        let weights = |problem: String| LoadError::Weights { folder: spec.dir.clone(), problem };
        // One thread for each physical core: more slow the kernels down.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(candle_core::utils::get_num_threads())
            .thread_name(|index| format!("local-model-{index}"))
            .build()
            .map_err(|error| weights(error.to_string()))?;
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("local-model".to_owned())
            .spawn(move || {
                let mut model = model;
                pool.install(move || {
                    while let Ok(job) = queue.recv() {
                        // The asker may be gone; then nobody wants the answers.
                        let _ = job.reply.send(answer_batch(&mut *model, &job.batch));
                    }
                });
            })
            .map_err(|error| weights(error.to_string()))?;
        Ok(Self { identity, limits, batch_size: spec.batch_size.max(1), jobs })
    }
}

impl Model for LocalModel {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn accepts(&self) -> &MediaLimits {
        &self.limits
    }

    fn batch_size(&self) -> usize {
        self.batch_size
    }

    fn concurrency(&self) -> usize {
        1
    }

    fn answer(&self, batch: Vec<Prepared>) -> BoxFuture<'_, Vec<Answer>> {
        const GONE: &str = "the local model's thread has ended; start the run again";
        let count = batch.len();
        let (reply, answers) = oneshot::channel();
        let sent = self.jobs.send(Job { batch, reply }).is_ok();
        async move {
            let answers = if sent { answers.await.ok() } else { None };
            answers.unwrap_or_else(|| vec![Answer::failed(GONE); count])
        }
        .boxed()
    }
}

/// Answers a batch, and if it fails as a whole, request by request.
fn answer_batch(model: &mut dyn Engine, batch: &[Prepared]) -> Vec<Answer> {
    if batch.is_empty() {
        return Vec::new();
    }
    match attempt(model, batch, 1) {
        Ok(answers) => answers,
        Err(sentence) if batch.len() == 1 => vec![Answer::failed(sentence)],
        Err(sentence) => {
            tracing::warn!(
                requests = batch.len(),
                error = sentence,
                "a batch failed; its requests are tried alone"
            );
            batch
                .iter()
                .map(|request| {
                    let answers = attempt(model, std::slice::from_ref(request), 2);
                    let failed = |sentence| Answer { attempts: 2, ..Answer::failed(sentence) };
                    answers.map_or_else(failed, |mut answers| match answers.pop() {
                        Some(answer) => answer,
                        None => failed("the model gave no answer".to_owned()),
                    })
                })
                .collect()
        }
    }
}

/// One try at a batch. An error or a panic of the device fails it as a whole.
fn attempt(model: &mut dyn Engine, batch: &[Prepared], attempts: u32) -> Result<Vec<Answer>, String> {
    let start = Instant::now();
    let results = catch_unwind(AssertUnwindSafe(|| model.answer(batch)))
        .map_err(|_| "the local model panicked; this is a bug of the harness".to_owned())?
        .map_err(|error| format!("the local model failed: {}", first_line(&error)))?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(results
        .into_iter()
        .map(|result| match result {
            Ok(reply) => Answer { seconds, attempts, ..answer_of(reply) },
            Err(sentence) => Answer { seconds, attempts, ..Answer::failed(sentence) },
        })
        .collect())
}

/// What a run keeps of a response.
fn answer_of(reply: Reply) -> Answer {
    let Reply { prompt_tokens, audio_tokens, completion_tokens, language, generated } = reply;
    let outcome = if generated.text.trim().is_empty() {
        Outcome::Empty
    } else if generated.end == End::Limit {
        Outcome::Length
    } else {
        Outcome::Ok
    };
    Answer {
        outcome,
        usage: Usage {
            prompt_tokens: prompt_tokens as u64,
            audio_tokens: audio_tokens as u64,
            completion_tokens: completion_tokens as u64,
        },
        text: generated.text,
        language,
        tokens: Some(generated.ids),
        seconds: 0.0,
        attempts: 1,
        error: None,
        media_bytes: None,
        answered_as: None,
    }
}
