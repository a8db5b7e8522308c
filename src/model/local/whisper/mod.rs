//! Whisper: speech to text, from a folder in the layout of Hugging Face.
//!
//! It follows `WhisperForConditionalGeneration` of transformers 5.24.0 without timestamps: the control tokens are forced,
//! the language is given or is the likeliest at the start, suppressed tokens are never written. A clip longer than 30 s is
//! heard in windows one after the other, each by itself; a clip has the language of its first window. Decoding is greedy
//! unless the request asks for more; the fallback of the original implementation is there and off ([`Fallback`]).

mod config;
mod decode;
mod decoder;

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Result, Tensor};

pub use config::{Task, WHISPER};
pub use decode::{Fallback, Settings, WindowTranscript};

use super::audio_encoder::{AudioEncoder, Kind};
use super::device::DtypeChoice;
use super::engine::{Checked, Engine, Inventory, Reply, SpeechSpec};
use super::error::LoadError;
use super::generate::{End, Generated};
use super::tokenizer::TextTokenizer;
use super::weights::{Checkpoint, Names};
use crate::model::{AudioNeed, Prepared};
use crate::types::{LogMel, Part, Prompt};
use config::{Control, WhisperConfig};
use decoder::WhisperDecoder;

/// The longest clip in seconds: its windows' features are held together.
const LONGEST_SECONDS: f64 = 3600.0;

/// Windows that go through the encoder at once.
const ENCODED_AT_ONCE: usize = 4;

/// Memory for what the decoder keeps of windows that are decoded together.
const MOST_BYTES: usize = 2 << 30;

/// A folder that was checked and whose weights were not read.
pub(super) struct CheckedWhisper {
    config: WhisperConfig,
    tokenizer: TextTokenizer,
    control: Control,
    checkpoint: Checkpoint,
    inventory: Inventory,
    spec: SpeechSpec,
}

impl CheckedWhisper {
    /// Checks everything of a folder but the values of its weights.
    pub(super) fn read(folder: &Path) -> std::result::Result<Self, LoadError> {
        let config = WhisperConfig::read(folder)?;
        super::config::check_preprocessor(folder, config.encoder.num_mel_bins)?;
        let tokenizer = TextTokenizer::read(folder, config.vocabulary)?;
        let control = Control::read(folder, &config, &tokenizer)?;
        let checkpoint = Checkpoint::open(folder, Names::Plain)?;
        let mut shapes = BTreeMap::new();
        AudioEncoder::shapes(&config.encoder, Kind::Whisper, &mut shapes);
        WhisperDecoder::shapes(&config, &mut shapes);
        // The output layer is the embedding; some files hold it twice.
        let report = checkpoint.compare(&shapes, &["proj_out.weight"]);
        if !report.is_empty() {
            return Err(LoadError::Tensors { folder: folder.to_path_buf(), report });
        }
        let bins = Some(config.encoder.num_mel_bins);
        let inventory = Inventory::of(&checkpoint, WHISPER, bins, (config.vocabulary, config.positions))?;
        Ok(Self { config, tokenizer, control, checkpoint, inventory, spec: SpeechSpec::default() })
    }

    fn bring(self, dtype: DType, device: &Device) -> std::result::Result<Whisper, LoadError> {
        let Self { config, tokenizer, control, checkpoint, spec, .. } = self;
        let weights = checkpoint.map(dtype, device)?;
        let parts = || -> Result<(AudioEncoder, WhisperDecoder)> {
            Ok((
                AudioEncoder::load(&config.encoder, Kind::Whisper, &weights)?,
                WhisperDecoder::load(&config, &weights)?,
            ))
        };
        let (encoder, decoder) = parts().map_err(|error| checkpoint.failed(&error))?;
        let row = config.layers * 2 * config.encoder.max_source_positions * config.encoder.d_model;
        let rows = (MOST_BYTES / (row * dtype.size_in_bytes()).max(1)).clamp(1, 16);
        Ok(Whisper { config, tokenizer, control, encoder, decoder, spec, rows })
    }
}

impl Checked for CheckedWhisper {
    fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    fn audio(&self) -> (AudioNeed, f64) {
        (AudioNeed::LogMelWindows { bins: self.config.encoder.num_mel_bins }, LONGEST_SECONDS)
    }

    fn on_disk(&self) -> DType {
        self.checkpoint.dtype()
    }

    fn listen(&mut self, spec: &SpeechSpec) -> std::result::Result<(), String> {
        if let Some(language) = &spec.language {
            language_id(&self.control, language)?;
        }
        self.spec = spec.clone();
        Ok(())
    }

    fn load(
        self: Box<Self>,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Box<dyn Engine>, LoadError> {
        Ok(Box::new(self.bring(dtype, device)?))
    }
}

/// The token of a language by its code; nothing for English in a model that knows no other.
fn language_id(control: &Control, language: &str) -> std::result::Result<Option<u32>, String> {
    if control.languages.is_empty() && language == "en" {
        return Ok(None);
    }
    if let Some(&id) = control.languages.get(language) {
        return Ok(Some(id));
    }
    let known: Vec<&str> = control.languages.keys().map(String::as_str).collect();
    Err(match known.len() {
        0 => format!("the model knows English only, not `{language}`"),
        _ => format!("the model knows no language `{language}`; it knows {}", known.join(", ")),
    })
}

/// A clip to be transcribed.
#[derive(Clone, Copy, Debug)]
pub struct Speech<'a> {
    /// Log-mel features of its windows, in order: at least one.
    pub windows: &'a [LogMel],
    /// The language by its code (`en`, `de`…); the likeliest where it is not given.
    pub language: Option<&'a str>,
    /// What is to be done with it.
    pub task: Task,
}

/// What was heard in a clip.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// The windows' texts, one behind the other, without blanks at either end.
    pub text: String,
    /// The code of the language that was given or found.
    pub language: String,
    /// The tokens of all windows, control tokens included: those of each window begin with the start token.
    pub tokens: Vec<u32>,
    /// The windows.
    pub windows: Vec<WindowTranscript>,
}

/// A loaded model.
pub struct Whisper {
    config: WhisperConfig,
    tokenizer: TextTokenizer,
    control: Control,
    encoder: AudioEncoder,
    decoder: WhisperDecoder,
    spec: SpeechSpec,
    /// Windows that are decoded together.
    rows: usize,
}

impl Whisper {
    /// Loads a folder.
    pub fn load(folder: &Path, dtype: DtypeChoice, device: &Device) -> std::result::Result<Self, LoadError> {
        let checked = CheckedWhisper::read(folder)?;
        let dtype = dtype.resolve(device, checked.on_disk());
        checked.bring(dtype, device)
    }

    /// Mel bands of the features that it takes.
    pub fn bins(&self) -> usize {
        self.config.encoder.num_mel_bins
    }

    /// The codes of the languages that it knows; none where it knows English only.
    pub fn languages(&self) -> impl Iterator<Item = &str> {
        self.control.languages.keys().map(String::as_str)
    }

    /// Transcribes clips together, in order. A clip that is wrong in itself fails alone; an error of the device fails all.
    pub fn transcribe(
        &self,
        clips: &[Speech<'_>],
        settings: &Settings<'_>,
    ) -> Result<Vec<std::result::Result<Transcript, String>>> {
        let all = vec![*settings; clips.len()];
        self.transcribe_each(clips, &all)
    }

    /// The same with settings for each clip.
    fn transcribe_each(
        &self,
        clips: &[Speech<'_>],
        settings: &[Settings<'_>],
    ) -> Result<Vec<std::result::Result<Transcript, String>>> {
        let mut found: Vec<std::result::Result<Found, String>> =
            clips.iter().map(|clip| Found::new(&self.control, clip)).collect();
        // The windows of all clips that are right, in order.
        let places: Vec<(usize, usize)> = (0..clips.len())
            .filter(|&clip| found[clip].is_ok())
            .flat_map(|clip| (0..clips[clip].windows.len()).map(move |window| (clip, window)))
            .collect();
        for places in places.chunks(self.rows) {
            let heard = self.hear(places.iter().map(|&(clip, window)| &clips[clip].windows[window]))?;
            let mut asks = Vec::with_capacity(places.len());
            for (row, &(clip, window)) in places.iter().enumerate() {
                let known = found[clip].as_ref().ok().and_then(|found| found.language);
                // A later window of a clip whose first one is in this batch has that one's language.
                let leader =
                    (row.saturating_sub(window)..=row).find(|&other| places[other].0 == clip).unwrap_or(row);
                asks.push(decode::Ask {
                    language: known,
                    leader,
                    window,
                    task: clips[clip].task,
                    settings: &settings[clip],
                });
            }
            for (&(clip, _), result) in places.iter().zip(self.decode(&heard, &asks)?) {
                if let Ok(known) = &mut found[clip] {
                    match result {
                        Ok((language, window)) => {
                            known.language = known.language.or(language);
                            known.windows.push(window);
                        }
                        Err(sentence) => found[clip] = Err(sentence),
                    }
                }
            }
        }
        Ok(found.into_iter().map(|found| found.map(|found| found.finish(&self.control))).collect())
    }

    /// What the encoder makes of windows: normed vectors, (1500, width) each.
    fn hear<'a>(&self, windows: impl Iterator<Item = &'a LogMel>) -> Result<Vec<Tensor>> {
        let windows: Vec<&LogMel> = windows.collect();
        let mut heard = Vec::with_capacity(windows.len());
        for windows in windows.chunks(ENCODED_AT_ONCE) {
            heard.extend(self.encoder.encode(windows)?);
        }
        Ok(heard)
    }

    /// The encoder's output for windows: one vector for each of 1500 positions.
    pub fn audio_vectors(&self, windows: &[LogMel]) -> Result<Vec<Vec<Vec<f32>>>> {
        self.hear(windows.iter())?.iter().map(|heard| heard.to_dtype(DType::F32)?.to_vec2()).collect()
    }

    /// The logits behind each token of `ids`, which begin with the start token, over one window.
    pub fn logits(&self, window: &LogMel, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        let heard = self.hear(std::iter::once(window))?;
        let mut state = self.decoder.begin(&heard, ids.len())?;
        ids.iter()
            .map(|&id| {
                let hidden = self.decoder.step(&[id], &mut state)?;
                Ok(self.decoder.logits(&hidden)?.swap_remove(0))
            })
            .collect()
    }

    /// The id of a token.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.id(token)
    }

    /// Language and task of a prompt: those of a finished prompt of control tokens; of a chat those of the config.
    fn wish(&self, prompt: &Prompt) -> std::result::Result<(Option<&str>, Task), String> {
        match prompt {
            Prompt::Raw { text, .. } => {
                let (mut language, mut task) = (None, Task::default());
                for id in self.tokenizer.encode(text.trim())? {
                    if let Some(code) = self.control.language(id) {
                        language = Some(code);
                    } else if self.control.tasks.is_some_and(|(_, translate)| translate == id) {
                        task = Task::Translate;
                    } else if id != self.control.start
                        && id != self.control.no_timestamps
                        && self.control.tasks.is_none_or(|(transcribe, _)| transcribe != id)
                    {
                        return Err(format!(
                            "a finished prompt for Whisper is made of control tokens, such as \
                             `<|startoftranscript|><|de|><|transcribe|><|notimestamps|>`; found `{text}`"
                        ));
                    }
                }
                Ok((language, task))
            }
            Prompt::Chat(messages) => {
                let texts = messages.iter().flat_map(|message| &message.parts);
                let words =
                    texts.filter(|part| matches!(part, Part::Text(text) if !text.trim().is_empty())).count();
                if words > 0 && !self.spec.drop_text {
                    return Err("a transcription takes a clip and no text; to leave the text away, set text = \"drop\" \
                                under [model.transcription]"
                        .to_owned());
                }
                Ok((self.spec.language.as_deref(), Task::Transcribe))
            }
        }
    }
}

/// What is known of a clip so far.
struct Found {
    language: Option<u32>,
    windows: Vec<WindowTranscript>,
}

impl Found {
    fn new(control: &Control, clip: &Speech<'_>) -> std::result::Result<Self, String> {
        if clip.windows.is_empty() {
            return Err("the clip has no windows".to_owned());
        }
        if clip.task == Task::Translate && control.tasks.is_none() {
            return Err("the model knows English only, and translates nothing".to_owned());
        }
        let language = clip.language.map(|language| language_id(control, language)).transpose()?.flatten();
        Ok(Self { language, windows: Vec::new() })
    }

    fn finish(self, control: &Control) -> Transcript {
        let text: String = self.windows.iter().map(|window| window.text.as_str()).collect();
        let language = self.language.and_then(|id| control.language(id)).unwrap_or("en").to_owned();
        let tokens = self.windows.iter().flat_map(|window| &window.tokens).copied().collect();
        Transcript { text: text.trim().to_owned(), language, tokens, windows: self.windows }
    }
}

impl Engine for Whisper {
    fn answer(&mut self, requests: &[Prepared]) -> Result<Vec<std::result::Result<Reply, String>>> {
        let mut clips = Vec::new();
        let mut settings = Vec::new();
        let mut sentences = Vec::with_capacity(requests.len());
        for request in requests {
            sentences.push(self.speech(request).map(|speech| {
                clips.push(speech);
                settings.push(Settings {
                    max_tokens: request.generation.max_new_tokens,
                    generation: Some(&request.generation),
                    seed: request.seed,
                    key: request.key,
                    fallback: if self.spec.fallback { Some(Fallback::default()) } else { None },
                });
            }));
        }
        let mut transcripts = clips.iter().zip(self.transcribe_each(&clips, &settings)?);
        Ok(sentences
            .into_iter()
            .map(|sentence| {
                sentence?;
                let Some((clip, transcript)) = transcripts.next() else {
                    return Err("the batch gave too few answers".to_owned());
                };
                let transcript = transcript?;
                // One that was told, or the only one that the model knows, was not heard.
                let heard = clip.language.is_none() && !self.control.languages.is_empty();
                let language = heard.then_some(transcript.language);
                let cut = transcript.windows.iter().any(|window| !window.ended);
                let end = if cut { End::Limit } else { End::Token };
                let prompt_tokens: usize =
                    transcript.windows.iter().map(|window| window.control_tokens).sum();
                let completion_tokens = transcript.tokens.len() - prompt_tokens;
                // The control tokens stay: they record language and task.
                let generated = Generated { ids: transcript.tokens, text: transcript.text, end };
                Ok(Reply { prompt_tokens, audio_tokens: 0, completion_tokens, language, generated })
            })
            .collect())
    }
}

impl Whisper {
    /// The clip of a request.
    fn speech<'a>(&'a self, request: &'a Prepared) -> std::result::Result<Speech<'a>, String> {
        let [clip] = &request.audio[..] else {
            return Err(format!("a transcription takes one clip, not {}", request.audio.len()));
        };
        let generation = &request.generation;
        if generation.max_new_tokens == 0 {
            return Err("max_new_tokens is 0; a transcript needs at least one token".to_owned());
        }
        if !generation.stop.is_empty() {
            return Err("Whisper takes no stop strings; leave `stop` out".to_owned());
        }
        let windows = clip.windows().ok_or("a clip came as a file, and the local model takes features")?;
        let (language, task) = self.wish(&request.prompt)?;
        Ok(Speech { windows, language, task })
    }
}
