//! The few plain types that everything passes through: samples, requests, outcomes, responses.
//!
//! They are data with constructors; no room's rules live here. This module must not know files, codecs,
//! dialects, benchmarks or candle.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod buffers;
mod media;
mod shown;

pub use buffers::{buffer, share};
pub use media::{
    AudioContent, AudioFile, AudioRecord, AudioSource, ImageContent, ImageFile, ImageRecord, ImageSource,
    LogMel, MediaRecord, PreparedAudio, PreparedImage, RgbImage, SentFile,
};
pub use shown::{bounded, shown};

/// A number of bytes for people, in units of 1000.
pub fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} bytes"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => (1e9, "GB"),
        _ => (1e12, "TB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A 32-byte blake3 hash, written as 64 hexadecimal digits on disk.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The first 12 hexadecimal digits, for people.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;
        impl serde::de::Visitor<'_> for Hex {
            type Value = Digest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
                blake3::Hash::from_hex(text.as_bytes())
                    .map(|hash| Digest(*hash.as_bytes()))
                    .map_err(|_| E::custom(format!("expected 64 hexadecimal digits, found `{text}`")))
            }
        }
        deserializer.deserialize_str(Hex)
    }
}

/// Who speaks in a message of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions before the conversation.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name that chat templates and dialects use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Which part of a clip is used. The length of `First` and `Last` is the model's `max_seconds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// The whole clip; one longer than the model takes is a `media_error`, never cut silently.
    #[default]
    Whole,
    /// The first `max_seconds` of the clip.
    First,
    /// The last `max_seconds` of the clip.
    Last,
}

impl Window {
    /// The name used in configs, journals and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

/// Which clip, and how it is to be cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioRef {
    /// The name the dataset gives the clip, relative to its media folder. The dataset knows where it is.
    pub name: String,
    /// Which part of it is used.
    pub window: Window,
}

impl AudioRef {
    /// Clips one after the other, with so much silence between them. One alone is brought to the rate of several too.
    pub fn joined(names: &[&str], gap_ms: u32, window: Window) -> Self {
        Self { name: format!("{JOINED}{gap_ms}:{}", serde_json::json!(names)), window }
    }

    /// The clips that it is made of: itself, where it is not joined.
    pub fn pieces(&self) -> Vec<Self> {
        match joined_names(&self.name) {
            None => vec![self.clone()],
            Some((_, names)) => names.into_iter().map(|name| Self { name, window: self.window }).collect(),
        }
    }
}

/// What names of joined clips begin with.
const JOINED: &str = "join:";

/// The milliseconds of silence between joined clips, and their names, of a name that [`AudioRef::joined`] gave.
pub fn joined_names(name: &str) -> Option<(u32, Vec<String>)> {
    let (gap, names) = name.strip_prefix(JOINED)?.split_once(':')?;
    Some((gap.parse().ok()?, serde_json::from_str(names).ok()?))
}

/// Names with their numbers, in words: `a (2), b (1)`.
pub fn counted(names: &BTreeMap<String, u64>) -> String {
    names.iter().map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ")
}

/// The first names of many, and how many more there are: `a, b and 3 more`.
pub fn listed(names: &[String], most: usize) -> String {
    let first = names.get(..most).unwrap_or(names).join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Which image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    /// The name the dataset gives the image, relative to its media folder.
    pub name: String,
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// A clip.
    Audio(AudioRef),
    /// An image.
    Image(ImageRef),
}

/// One turn of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![Part::Text(text.into())] }
    }
}

/// What a model is asked: a chat that goes through the model's own template, or a string with control tokens
/// that is sent as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prompt {
    /// Messages; the model's chat template makes the string.
    Chat(Vec<Message>),
    /// A finished prompt string; its audio placeholders belong to `audio` in order.
    Raw {
        /// The string, control tokens included.
        text: String,
        /// The clips that its placeholders stand for.
        audio: Vec<AudioRef>,
    },
}

impl Prompt {
    /// The clips of the prompt, in order.
    pub fn audio(&self) -> Vec<&AudioRef> {
        match self {
            Self::Raw { audio, .. } => audio.iter().collect(),
            Self::Chat(messages) => messages
                .iter()
                .flat_map(|message| &message.parts)
                .filter_map(|part| match part {
                    Part::Audio(audio) => Some(audio),
                    Part::Text(_) | Part::Image(_) => None,
                })
                .collect(),
        }
    }

    /// The images of the prompt, in order.
    pub fn images(&self) -> Vec<&ImageRef> {
        match self {
            Self::Raw { .. } => Vec::new(),
            Self::Chat(messages) => messages
                .iter()
                .flat_map(|message| &message.parts)
                .filter_map(|part| match part {
                    Part::Image(image) => Some(image),
                    Part::Text(_) | Part::Audio(_) => None,
                })
                .collect(),
        }
    }

    /// Whether the prompt holds an image.
    pub fn has_image(&self) -> bool {
        !self.images().is_empty()
    }
}

/// Generation settings, resolved: every value is the one that is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// 0 is greedy decoding; above 0 the logits are divided by it and a token is drawn. Where it is absent an endpoint is
    /// not told, and draws as it does by itself; so it is with the other settings of the draw that are off.
    pub temperature: Option<f64>,
    /// Nucleus sampling: the smallest set of tokens with at least this probability; 1 is off.
    pub top_p: f64,
    /// The number of most likely tokens to draw from; 0 is off.
    pub top_k: usize,
    /// Divides positive and multiplies negative logits of tokens seen before; 1 is off.
    pub repetition_penalty: f64,
    /// The most tokens a response may have; reaching it gives the outcome `length`.
    pub max_new_tokens: usize,
    /// Strings that end a response; they are not part of its text.
    pub stop: Vec<String>,
}

impl Default for Generation {
    /// Greedy decoding of at most 256 tokens.
    fn default() -> Self {
        Self {
            temperature: Some(0.0),
            top_p: 1.0,
            top_k: 0,
            repetition_penalty: 1.0,
            max_new_tokens: 256,
            stop: Vec::new(),
        }
    }
}

impl Generation {
    /// Whether the most likely token is always taken. What an endpoint does by itself is not known to be so.
    pub fn greedy(&self) -> bool {
        self.temperature == Some(0.0)
    }

    /// The temperature with its name, in words.
    pub fn temperature_by_name(&self) -> String {
        match self.temperature {
            Some(temperature) => format!("temperature {temperature}"),
            None => "the server's own temperature".to_owned(),
        }
    }

    /// The temperature in words.
    pub fn temperature_in_words(&self) -> String {
        self.temperature.map_or_else(|| "the server's own".to_owned(), |temperature| temperature.to_string())
    }
}

/// Names and values that groups of a table are made of: `src`, `tgt`, `category`…
pub type Tags = BTreeMap<String, String>;

/// The tag of a request that has a seed of its own in place of the run's: one of a benchmark's several runs.
pub const SEED: &str = "seed";

/// One item of a benchmark: where it came from, its gold and its tags. No media bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Unique within its benchmark section.
    pub id: String,
    /// The row of the dataset, as read.
    pub row: serde_json::Value,
}

/// Which reading of a paper's scoring is meant: they differ in all five papers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// What the authors' tools do.
    #[default]
    Official,
    /// The scoring recipe of this product.
    Recipe,
}

impl Profile {
    /// The name used in configs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Official => "official",
            Self::Recipe => "recipe",
        }
    }
}

/// One line of a run's plan: a request as scoring sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Hash of all that is known of the request before its media are read; responses name it.
    pub request: Digest,
    /// The label of the benchmark section.
    pub benchmark: String,
    /// The conditions that it serves: a same-language pair serves both `sqa` and `xsqa`.
    pub conditions: Vec<String>,
    /// The sample that it asks about.
    pub sample: String,
    /// What tables group by.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// The reference answers; several are alternatives.
    pub gold: Vec<String>,
    /// What a judge is told beside answer and references, by the name of its place in the judge's prompt.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub judging: Tags,
}

/// One line of `responses.jsonl`: an outcome with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Hash of all that can change the answer, media content included.
    pub key: Digest,
    /// The planned request that it answers.
    pub request: Digest,
    /// The label of the benchmark section.
    pub benchmark: String,
    /// The sample.
    pub sample: String,
    /// The request's tags, for people who read the journal.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// What came of it.
    pub outcome: Outcome,
    /// The model's text, without special tokens.
    pub text: String,
    /// The language that a recogniser of speech heard, where it was told none and names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The sentence of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The generated token ids, where the model shows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<u32>>,
    /// Tokens counted.
    pub usage: Usage,
    /// Seconds the model worked on it; for a batch, the batch's time.
    pub seconds: f64,
    /// How often it was tried.
    pub attempts: u32,
    /// The clips and images, and what was done to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediaRecord>,
    /// Bytes of media in the request's body, for endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_bytes: Option<u64>,
    /// The earlier request with the same key whose answer this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_from: Option<Digest>,
    /// For a judge's reply: what it is about and what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeRecord>,
    /// The model that an endpoint says has answered, where that is not the name that it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_as: Option<String>,
    /// When it was written.
    pub time: String,
}

impl Response {
    /// An answer of no request in particular: as one stands in a plan before any is there, to count what comes of it.
    pub fn stand_in() -> Self {
        Self {
            key: Digest::default(),
            request: Digest::default(),
            benchmark: String::new(),
            sample: String::new(),
            tags: Tags::new(),
            outcome: Outcome::Ok,
            text: String::new(),
            language: None,
            error: None,
            tokens: None,
            usage: Usage::default(),
            seconds: 0.0,
            attempts: 1,
            media: Vec::new(),
            media_bytes: None,
            reused_from: None,
            judge: None,
            answered_as: None,
            time: String::new(),
        }
    }
}

/// What a judge's reply is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The key of the response that was judged.
    pub response: Digest,
    /// Which of the judge's runs, from 0.
    pub run: u32,
    /// How often it was asked before in that run, for replies that could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Whether the answer was shortened to fit the judge's context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A judge's reply, as the journal keeps it beside the text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgeRecord {
    /// What it is about.
    pub about: About,
    /// The verdict: 1 or 0 for right or wrong, a rating; absent where the reply could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The rule that read it, or that failed; empty where there was no reply.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// The seed of the call: that of the judge plus the number of the run, and 1000 for each time it was asked before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What came of a request: a closed set. Only the first four are answers of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model answered and ended by itself.
    Ok,
    /// The model was cut at `max_new_tokens`.
    Length,
    /// The provider's filter withheld the answer.
    ContentFilter,
    /// The model answered with nothing but white space.
    Empty,
    /// The media of the request could not be read, or are more than the model takes.
    MediaError,
    /// The request failed.
    RequestError,
}

impl Outcome {
    /// All outcomes, in the order of tables.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::Length, Self::ContentFilter, Self::Empty, Self::MediaError, Self::RequestError];

    /// The name used on disk and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Empty => "empty",
            Self::MediaError => "media_error",
            Self::RequestError => "request_error",
        }
    }

    /// Whether there is a reply of the model itself to be read, if only an empty one.
    pub fn is_reply(self) -> bool {
        matches!(self, Self::Ok | Self::Length | Self::Empty)
    }

    /// Whether the model was heard. Failures are not: they are never scored, and a resumed run tries them again.
    pub fn is_answer(self) -> bool {
        !matches!(self, Self::MediaError | Self::RequestError)
    }
}

/// Tokens of a request, as counted by the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of the prompt, those of media included.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that stand for audio.
    pub audio_tokens: u64,
    /// Tokens of the response.
    pub completion_tokens: u64,
}

/// What tests of several rooms make.
#[cfg(test)]
pub(crate) mod testing {
    use super::{Outcome, Response};

    /// A response of no request in particular.
    pub(crate) fn response(outcome: Outcome, text: &str) -> Response {
        Response { outcome, text: text.to_owned(), ..Response::stand_in() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_clips_keep_their_names() {
        let names = ["a b/c:1.wav", "\"é\".flac"];
        let joined = AudioRef::joined(&names, 200, Window::First);
        assert_eq!(joined_names(&joined.name), Some((200, names.map(str::to_owned).to_vec())));
        let pieces: Vec<String> = joined.pieces().into_iter().map(|piece| piece.name).collect();
        assert_eq!(pieces, names);
        let one = AudioRef::joined(&["a.wav"], 200, Window::Whole);
        assert_eq!((one.name.as_str(), one.pieces()[0].name.as_str()), ("join:200:[\"a.wav\"]", "a.wav"));
        for other in ["a.wav", "join:", "join:1:x", "join:-1:[]", "join:1:[1]"] {
            assert_eq!(joined_names(other), None, "{other}");
        }
    }
}
