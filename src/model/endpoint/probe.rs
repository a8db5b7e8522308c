//! Asking an endpoint what it can do before anything is paid for: is it there, does it serve the model, does it
//! take clips and in which form, does it take images.
//!
//! Each question is at most a few tiny requests, sent once, past the gate and without retries: a probe that
//! waits for a server is no probe. Findings are data; whoever asked prints them.

use std::f64::consts::TAU;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::Url;
use serde::Serialize;
use serde_json::Value;

use super::client::Broken;
use super::dialect::Refusal;
use super::endpoint_model::EndpointModel;
use super::reply::{Cause, Classified, Heard, Reply, message_of, shorten};
use super::spec::{AudioForm, Dialect, EndpointSpec, TranscriptionText};
use super::{anthropic, gemini, openai};
use crate::config::nearest;
use crate::model::Prepared;
use crate::types::{
    AudioContent, AudioFile, AudioRef, Digest, Generation, ImageContent, ImageFile, ImageRef, Message, Part,
    PreparedAudio, PreparedImage, Prompt, Role, Window,
};

/// What is asked beyond whether the server is there and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Questions {
    /// Whether clips arrive.
    pub audio: bool,
    /// Whether images arrive.
    pub image: bool,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// One of the addresses.
    Address,
    /// The model's name.
    Model,
    /// A tiny request of text.
    Text,
    /// A tiny request with a clip.
    Audio,
    /// A tiny request with an image.
    Image,
}

/// How a question came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// A run would fail.
    Bad,
    /// The server doesn't say.
    Unknown,
}

/// One finding: a line for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub about: About,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found, in one line.
    pub text: String,
    /// What to change in the configuration, or to do.
    pub advice: Option<String>,
}

impl Finding {
    fn new(about: About, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { about, verdict, text: text.into(), advice: None }
    }

    fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// The text of every probe.
const QUESTION: &str = "Reply with the single word: ready";

impl EndpointModel {
    /// Asks the endpoint. The answers come in the order of [`About`].
    pub async fn probe(&self, questions: Questions) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut reachable = None;
        for base in &self.bases {
            let reply = self.transport.get(&listing(base, &self.spec), self.spec.timeout).await;
            let shown = super::spec_check::shown(base);
            match reply {
                Ok(reply) => {
                    let text = format!("{shown} answers");
                    findings.push(Finding::new(About::Address, Verdict::Good, text));
                    reachable.get_or_insert((base, reply));
                }
                Err(broken) => findings.push(unreachable(&shown, &broken)),
            }
        }
        let Some((base, listed)) = reachable else { return findings };
        let model = model_there(&listed, &self.spec);
        let lost = model.verdict == Verdict::Bad;
        findings.push(Finding { text: self.transport.scrub(&model.text), ..model });
        if lost {
            return findings;
        }
        let target = self.spec.dialect.target(base, &self.spec);
        let mut without_media = None;
        if self.spec.dialect != Dialect::Transcription {
            let told = self.tell(&target, &self.spec, &ask(&[])).await;
            findings.push(match &told {
                Ok(heard) => Finding::new(About::Text, Verdict::Good, said(heard)),
                Err(sentence) => Finding::new(About::Text, Verdict::Bad, sentence.clone())
                    .advice("nothing works without text: see the server's sentence"),
            });
            let Ok(heard) = told else { return findings };
            without_media = Some(heard.usage.prompt_tokens);
        }
        if questions.audio {
            findings.push(self.hears(&target, without_media).await);
        }
        if questions.image {
            findings.push(self.sees(&target, without_media).await);
        }
        findings
    }

    /// One request, sent once: the answer, or a sentence.
    async fn tell(&self, target: &Url, spec: &EndpointSpec, request: &Prepared) -> Result<Heard, String> {
        let mut request = request.clone();
        if spec.completions {
            request.prompt = Prompt::Raw { text: QUESTION.to_owned(), audio: Vec::new() };
        }
        let body = spec.dialect.encode(&request, spec).map_err(|refusal| match refusal {
            Refusal::Media(sentence) | Refusal::Request(sentence) => sentence,
        })?;
        let reply =
            self.transport.post(target, &body, spec.timeout).await.map_err(|broken| broken.message)?;
        match spec.dialect.classify(&reply) {
            Classified::Answer(heard) => Ok(heard),
            Classified::Retry { message, .. } | Classified::Fail { message } => {
                Err(self.transport.scrub(&message))
            }
        }
    }

    async fn hears(&self, target: &Url, without: Option<u64>) -> Finding {
        let finding = |verdict, text: String| Finding::new(About::Audio, verdict, text);
        let formats = &self.spec.limits.audio_formats;
        if self.spec.completions || formats.is_empty() {
            return finding(Verdict::Bad, "this endpoint takes no audio".to_owned())
                .advice("ask another model, or transcribe the clips first");
        }
        if !formats.iter().any(|format| format == "wav") {
            let text = format!("not asked: the probe is a wav and the endpoint takes {}", formats.join(", "));
            return finding(Verdict::Unknown, text);
        }
        let request = ask(&[Part::Audio(AudioRef { name: "probe.wav".into(), window: Window::Whole })]);
        let mut spec = self.spec.clone();
        if spec.transcription.text == TranscriptionText::Refuse {
            spec.transcription.text = TranscriptionText::Drop;
        }
        let first = match self.tell(target, &spec, &request).await {
            Ok(heard) => return arrived(About::Audio, "clip", &heard, without),
            Err(sentence) => sentence,
        };
        if matches!(spec.dialect, Dialect::OpenAi | Dialect::Azure) {
            for form in AudioForm::ALL.into_iter().filter(|form| *form != self.spec.audio_form) {
                spec.audio_form = form;
                if let Ok(heard) = self.tell(target, &spec, &request).await {
                    let found = arrived(About::Audio, "clip", &heard, without);
                    if found.verdict != Verdict::Bad {
                        let text = format!(
                            "the server refuses clips as {} and takes them as {}: {first}",
                            self.spec.audio_form.as_str(),
                            form.as_str()
                        );
                        return finding(Verdict::Bad, text)
                            .advice(format!("set form = \"{}\" under [model.audio]", form.as_str()));
                    }
                }
            }
        }
        finding(Verdict::Bad, first).advice(
            "check that the model hears and that the server has its audio parts (for vLLM: pip install \
             vllm[audio])",
        )
    }

    async fn sees(&self, target: &Url, without: Option<u64>) -> Finding {
        let finding = |verdict, text: String| Finding::new(About::Image, verdict, text);
        let formats = &self.spec.limits.image_formats;
        if self.spec.completions || formats.is_empty() {
            return finding(Verdict::Bad, "this endpoint takes no images".to_owned())
                .advice("ask another model");
        }
        if !formats.iter().any(|format| format == "png") {
            let text = format!("not asked: the probe is a png and the endpoint takes {}", formats.join(", "));
            return finding(Verdict::Unknown, text);
        }
        let request = ask(&[Part::Image(ImageRef { name: "probe.png".into() })]);
        match self.tell(target, &self.spec, &request).await {
            Ok(heard) => arrived(About::Image, "image", &heard, without),
            Err(sentence) => finding(Verdict::Bad, sentence).advice("check that the model sees images"),
        }
    }
}

/// Whether an answer shows that its media reached the model: they cost tokens.
fn arrived(about: About, what: &str, heard: &Heard, without: Option<u64>) -> Finding {
    let with = heard.usage.prompt_tokens;
    match without {
        _ if heard.usage.audio_tokens > 0 && about == About::Audio => {
            let text = format!("{}; {} of its tokens are audio", said(heard), heard.usage.audio_tokens);
            Finding::new(about, Verdict::Good, text)
        }
        Some(without) if with > 0 && without > 0 && with <= without.saturating_add(2) => {
            let text = format!(
                "the {what} did not reach the model: {with} prompt tokens with it, {without} without"
            );
            Finding::new(about, Verdict::Bad, text)
                .advice(format!("check the server's chat template: it drops the {what} without a word"))
        }
        Some(without) if with > without && without > 0 => {
            let text = format!("{}; the {what} takes {} tokens", said(heard), with - without);
            Finding::new(about, Verdict::Good, text)
        }
        // A transcription has no text to compare with, and some servers count nothing.
        _ => Finding::new(about, Verdict::Good, said(heard)),
    }
}

fn said(heard: &Heard) -> String {
    format!(
        "outcome {}, `{}`, {} prompt and {} answer tokens",
        heard.outcome.as_str(),
        shorten(&heard.text),
        heard.usage.prompt_tokens,
        heard.usage.completion_tokens
    )
}

fn unreachable(shown: &str, broken: &Broken) -> Finding {
    let advice = match broken.cause {
        Cause::Connect => "start the server, or correct the port in base_url",
        Cause::Dns => "correct the host's name in base_url",
        Cause::Tls => "name a ca_bundle, or check whether the server speaks HTTPS at all",
        Cause::Malformed => "this is no HTTP server: correct the port in base_url, or write https://",
        _ => "check that the server is up and reachable from here",
    };
    Finding::new(About::Address, Verdict::Bad, format!("{shown}: {}", broken.message)).advice(advice)
}

/// The address that tells whether the model is there; for Azure, which has none, any of the server's.
pub(super) fn listing(base: &Url, spec: &EndpointSpec) -> Url {
    match spec.dialect {
        Dialect::OpenAi | Dialect::Transcription => openai::listing(base),
        Dialect::Azure => base.clone(),
        Dialect::Gemini => gemini::api(base, spec, gemini::model(spec)),
        Dialect::Anthropic => anthropic::listing(base, spec),
    }
}

fn model_there(reply: &Reply, spec: &EndpointSpec) -> Finding {
    let finding = |verdict, text: String| Finding::new(About::Model, verdict, text);
    let model = &spec.model;
    if spec.dialect == Dialect::Azure {
        return finding(Verdict::Unknown, "Azure lists no deployments: the first request tells".to_owned());
    }
    let body = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    let wrong_key = || {
        let text =
            format!("the server does not accept the key ({}): {}", reply.status.as_u16(), message_of(&body));
        finding(Verdict::Bad, text).advice("check the environment variable that holds the key")
    };
    match reply.status.as_u16() {
        401 | 403 => return wrong_key(),
        400 if message_of(&body).contains("API key") => return wrong_key(),
        200 => {}
        404 if matches!(spec.dialect, Dialect::Gemini | Dialect::Anthropic) => {
            let text = format!("the server knows no model `{model}`: {}", message_of(&body));
            return finding(Verdict::Bad, text).advice("correct the model's name");
        }
        code => {
            return finding(
                Verdict::Unknown,
                format!("the server does not say which models it has ({code})"),
            );
        }
    }
    let Some(list) = body.get("data").and_then(Value::as_array) else {
        return if matches!(spec.dialect, Dialect::Gemini | Dialect::Anthropic) && body.is_object() {
            finding(Verdict::Good, format!("the server has `{model}`"))
        } else {
            finding(Verdict::Unknown, "the server does not say which models it has".to_owned())
        };
    };
    let ids: Vec<&str> = list.iter().filter_map(|item| item.get("id").and_then(Value::as_str)).collect();
    if ids.contains(&model.as_str()) {
        return finding(Verdict::Good, format!("the server has `{model}`"));
    }
    let some = shorten(&ids.iter().take(20).copied().collect::<Vec<_>>().join(", "));
    let missing = finding(Verdict::Bad, format!("the server has no model `{model}`; it has {some}"));
    match (ids.as_slice(), nearest(model, ids.iter().copied())) {
        ([only], _) => missing.advice(format!("set model = \"{only}\"")),
        (_, Some(near)) => missing.advice(format!("did you mean model = \"{near}\"?")),
        _ => missing.advice("correct the model's name"),
    }
}

/// A request of the question and, before it, media.
fn ask(media: &[Part]) -> Prepared {
    let mut parts = media.to_vec();
    parts.push(Part::Text(QUESTION.to_owned()));
    let (clip, picture) = (Bytes::from(tone()), Bytes::from(picture()));
    let audio = parts.iter().filter(|part| matches!(part, Part::Audio(_))).map(|_| PreparedAudio {
        digest: Digest::of(&clip),
        content: AudioContent::File(Arc::new(AudioFile::new(clip.clone(), "wav", 1.0))),
    });
    let images = parts.iter().filter(|part| matches!(part, Part::Image(_))).map(|_| PreparedImage {
        digest: Digest::of(&picture),
        content: ImageContent::File(Arc::new(ImageFile::new(picture.clone(), "png"))),
    });
    Prepared {
        key: Digest::of(QUESTION.as_bytes()),
        audio: audio.collect(),
        images: images.collect(),
        prompt: Prompt::Chat(vec![Message { role: Role::User, parts: parts.clone() }]),
        generation: Generation { max_new_tokens: 16, ..Generation::default() },
        seed: 0,
        exact_seed: false,
    }
}

/// A WAV of one second at 440 Hz: mono, 16 bits, 16 kHz.
fn tone() -> Vec<u8> {
    const RATE: u32 = 16_000;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + RATE * 2).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    wav.extend([1, 0, 1, 0]);
    wav.extend(RATE.to_le_bytes());
    wav.extend((RATE * 2).to_le_bytes());
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend((RATE * 2).to_le_bytes());
    for sample in 0..RATE {
        let phase = f64::from(sample) * 440.0 * TAU / f64::from(RATE);
        wav.extend(((phase.sin() * 8000.0) as i16).to_le_bytes());
    }
    wav
}

/// A PNG of 64 x 64 red pixels.
fn picture() -> Vec<u8> {
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAT0lEQVR42u3PQQkAAAgEsEty/aMYywi+hcEKLNO+Fg\
         EBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGBywLKp0DxvxLbjwAAAABJRU5ErkJg\
         gg==";
    base64_simd::STANDARD.decode_to_vec(PNG).unwrap_or_default()
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
