//! What all dialects have in common: the way from a request to turns with media, and the one place that
//! knows which dialect does what.
//!
//! Everything here is pure: no socket, no clock, no randomness.

use std::borrow::Cow;

use reqwest::Url;
use reqwest::header::HeaderMap;

use super::body::{Body, Object};
use super::reply::{Classified, Reply};
use super::spec::{Dialect, EndpointSpec, SystemRole};
use super::{anthropic, azure, gemini, openai, transcription};
use crate::config::secret::ApiKey;
use crate::model::Prepared;
use crate::types::{AudioContent, AudioFile, Generation, ImageFile, Part, Prompt, Role};

/// Why a request cannot be put into a body: nothing is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Refusal {
    /// Its media are not what the endpoint takes.
    Media(String),
    /// It asks for something that the endpoint is not told to do.
    Request(String),
}

impl Dialect {
    /// The address that requests go to.
    pub(super) fn target(self, base: &Url, spec: &EndpointSpec) -> Url {
        match self {
            Self::OpenAi => openai::target(base, spec),
            Self::Azure => azure::target(base, spec),
            Self::Gemini => gemini::target(base, spec),
            Self::Anthropic => anthropic::target(base),
            Self::Transcription => transcription::target(base),
        }
    }

    /// The headers that carry the key and the version: names and values.
    pub(super) fn headers(self, spec: &EndpointSpec) -> Vec<(&'static str, String)> {
        let key = spec.key.as_ref().map(ApiKey::expose);
        let version = spec.api_version.clone();
        match self {
            Self::OpenAi | Self::Transcription => {
                key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
            }
            Self::Azure => key.map(|key| ("api-key", key.to_owned())).into_iter().collect(),
            Self::Gemini => key.map(|key| ("x-goog-api-key", key.to_owned())).into_iter().collect(),
            Self::Anthropic => {
                let key = key.map(|key| ("x-api-key", key.to_owned()));
                key.into_iter().chain(version.map(|version| ("anthropic-version", version))).collect()
            }
        }
    }

    /// The body of a request.
    pub(super) fn encode(self, request: &Prepared, spec: &EndpointSpec) -> Result<Body, Refusal> {
        match self {
            Self::OpenAi => openai::encode(request, spec),
            Self::Azure => azure::encode(request, spec),
            Self::Gemini => gemini::encode(request, spec),
            Self::Anthropic => anthropic::encode(request, spec),
            Self::Transcription => transcription::encode(request, spec),
        }
    }

    /// What a reply means.
    pub(super) fn classify(self, reply: &Reply) -> Classified {
        match self {
            Self::OpenAi => openai::classify(reply),
            Self::Azure => azure::classify(reply),
            Self::Gemini => gemini::classify(reply),
            Self::Anthropic => anthropic::classify(reply),
            Self::Transcription => transcription::classify(reply),
        }
    }
}

/// A piece of a turn.
#[derive(Clone, Debug)]
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    Audio(&'a AudioFile),
    Image(&'a ImageFile),
}

/// A message with its media at hand.
#[derive(Clone, Debug)]
pub(super) struct Turn<'a> {
    pub(super) role: Role,
    pub(super) pieces: Vec<Piece<'a>>,
}

impl Turn<'_> {
    /// The text of a turn without media.
    pub(super) fn text(&self) -> Option<String> {
        let text = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => Some(text.to_string()),
            Piece::Audio(_) | Piece::Image(_) => None,
        };
        self.pieces.iter().map(text).collect()
    }
}

/// The top-p that is sent: none without a draw, where it has no effect and servers that check for both at once refuse it,
/// nor where it is off and the server draws as it does by itself.
pub(super) fn top_p(generation: &Generation, spec: &EndpointSpec) -> Option<f64> {
    let drawn = generation.temperature.is_some_and(|temperature| temperature > 0.0);
    (spec.send.top_p && (drawn || generation.top_p != 1.0)).then_some(generation.top_p)
}

/// The turns of a chat: media found and held against the limits, a system message folded where it must be.
pub(super) fn turns<'a>(request: &'a Prepared, spec: &EndpointSpec) -> Result<Vec<Turn<'a>>, Refusal> {
    let Prompt::Chat(messages) = &request.prompt else {
        return Err(Refusal::Request(
            "this endpoint takes chats and the request is a finished prompt string; set completions = true for \
             an OpenAI-compatible server"
                .to_owned(),
        ));
    };
    let missing = || Refusal::Media("the request has fewer media than its prompt names".to_owned());
    let (mut clips, mut images) = (request.audio.iter(), request.images.iter());
    let mut turns = Vec::with_capacity(messages.len());
    for message in messages {
        let mut pieces = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            pieces.push(match part {
                Part::Text(text) => Piece::Text(Cow::Borrowed(text)),
                Part::Audio(_) => match &clips.next().ok_or_else(missing)?.content {
                    AudioContent::File(file) => Piece::Audio(taken(file, spec)?),
                    AudioContent::Features(_) | AudioContent::Windows(_) => {
                        return Err(Refusal::Media(
                            "an endpoint takes clips as files, not as features".into(),
                        ));
                    }
                },
                Part::Image(_) => {
                    let file = images.next().ok_or_else(missing)?.file().ok_or_else(|| {
                        Refusal::Media("an endpoint takes images as files, not as pixels".into())
                    })?;
                    Piece::Image(seen(file, spec)?)
                }
            });
        }
        turns.push(Turn { role: message.role, pieces });
    }
    if spec.system_role == SystemRole::Fold {
        fold(&mut turns);
    }
    Ok(turns)
}

/// Puts the text of system messages before the first user message.
fn fold(turns: &mut Vec<Turn<'_>>) {
    let mut system = Vec::new();
    turns.retain(|turn| {
        let is_system = turn.role == Role::System;
        if is_system {
            system.extend(turn.text());
        }
        !is_system
    });
    let Some(user) = turns.iter_mut().find(|turn| turn.role == Role::User).filter(|_| !system.is_empty())
    else {
        return;
    };
    let system = system.join("\n\n");
    match user.pieces.first_mut() {
        Some(Piece::Text(text)) => *text = Cow::Owned(format!("{system}\n\n{text}")),
        _ => user.pieces.insert(0, Piece::Text(Cow::Owned(system))),
    }
}

/// A clip that the endpoint takes.
pub(super) fn taken<'a>(file: &'a AudioFile, spec: &EndpointSpec) -> Result<&'a AudioFile, Refusal> {
    let limits = &spec.limits;
    if limits.audio_formats.is_empty() {
        return Err(Refusal::Media("this endpoint takes no audio".to_owned()));
    }
    within("clip", &file.format, &limits.audio_formats, file.bytes.len() as u64, limits.max_audio_bytes)?;
    if file.seconds > limits.max_seconds {
        return Err(Refusal::Media(format!(
            "the clip lasts {:.1} s and the endpoint takes {:.1} s; set a window or raise the limit",
            file.seconds, limits.max_seconds
        )));
    }
    Ok(file)
}

/// An image that the endpoint takes.
fn seen<'a>(file: &'a ImageFile, spec: &EndpointSpec) -> Result<&'a ImageFile, Refusal> {
    let limits = &spec.limits;
    if limits.image_formats.is_empty() {
        return Err(Refusal::Media("this endpoint takes no images".to_owned()));
    }
    within("image", &file.format, &limits.image_formats, file.bytes.len() as u64, limits.max_image_bytes)?;
    Ok(file)
}

fn within(what: &str, format: &str, formats: &[String], bytes: u64, most: u64) -> Result<(), Refusal> {
    if bytes == 0 {
        return Err(Refusal::Media(format!("the {what} is an empty file")));
    }
    if !formats.iter().any(|name| name == format) {
        let list = formats.join(", ");
        return Err(Refusal::Media(format!(
            "the {what} is {format} and the endpoint takes {list}; allow a transform or add the format to the \
             endpoint's limits"
        )));
    }
    if bytes > most {
        return Err(Refusal::Media(format!(
            "the {what} has {bytes} bytes and the endpoint takes {most}; allow a transform or raise the limit"
        )));
    }
    Ok(())
}

/// The media type of a clip.
pub(super) fn audio_type(format: &str) -> Cow<'static, str> {
    Cow::Borrowed(match format {
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        "flac" => "audio/flac",
        "ogg" | "opus" | "vorbis" => "audio/ogg",
        "aac" => "audio/aac",
        "m4a" | "mp4" => "audio/mp4",
        "aiff" => "audio/aiff",
        "webm" => "audio/webm",
        other => return Cow::Owned(format!("audio/{other}")),
    })
}

/// The media type of an image.
pub(super) fn image_type(format: &str) -> String {
    format!("image/{}", if format == "jpg" { "jpeg" } else { format })
}

/// A setting that the endpoint isn't sent must be neutral: it would be dropped silently otherwise.
pub(super) fn check_unsent(spec: &EndpointSpec, generation: &Generation) -> Result<(), Refusal> {
    let refuse = |name: &str, value: String| {
        Err(Refusal::Request(format!(
            "the setting {name} = {value} is not sent to this endpoint; add \"{name}\" to `send` under \
             [model.endpoint], or turn it off"
        )))
    };
    if !spec.send.top_k && generation.top_k != 0 {
        return refuse("top_k", generation.top_k.to_string());
    }
    if !spec.send.repetition_penalty && generation.repetition_penalty != 1.0 {
        return refuse("repetition_penalty", generation.repetition_penalty.to_string());
    }
    if !spec.send.top_p && generation.top_p != 1.0 {
        return refuse("top_p", generation.top_p.to_string());
    }
    Ok(())
}

/// The seed that is sent: the run's for greedy answers and for a judge's; for others that are drawn it depends on the
/// request too, so that repeats of a request differ. 31 bits, which every server takes.
pub(super) fn seed(request: &Prepared) -> u64 {
    let seed = if !request.generation.greedy() && !request.exact_seed {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&request.seed.to_le_bytes()).update(&request.key.0);
        hasher.finalize().as_bytes().iter().take(4).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
    } else {
        request.seed
    };
    seed & 0x7FFF_FFFF
}

/// Puts the spec's own fields over a body.
pub(super) fn finish(mut body: Object, spec: &EndpointSpec) -> Body {
    body.merge(&spec.extra_body);
    Body::json(body)
}

/// `base` with segments after its path; those that it ends in already are not repeated, so that both the
/// address of a server's API and that of the call itself are understood.
pub(super) fn join(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    let present: Vec<&str> = base.path().split('/').filter(|part| !part.is_empty()).collect();
    let overlap = (0..=segments.len().min(present.len()))
        .rev()
        .find(|count| present.iter().rev().take(*count).rev().eq(segments.iter().take(*count)))
        .unwrap_or(0);
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments.iter().skip(overlap));
    }
    url
}

/// A header's value as text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
pub(super) mod testing {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::Value;

    use super::*;
    use crate::types::{
        AudioRef, Digest, ImageContent, ImageRef, Message, PreparedAudio, PreparedImage, Window,
    };

    /// A part that names a clip.
    pub(in super::super) fn clip() -> Part {
        Part::Audio(AudioRef { name: "clip".into(), window: Window::Whole })
    }

    /// A part that names an image.
    pub(in super::super) fn image() -> Part {
        Part::Image(ImageRef { name: "image".into() })
    }

    /// A part of text.
    pub(in super::super) fn text(text: &str) -> Part {
        Part::Text(text.into())
    }

    /// A request of messages, with a clip `RIFF` and an image `PNG` wherever one is named.
    pub(in super::super) fn request(messages: &[(Role, &[Part])]) -> Prepared {
        let messages: Vec<_> =
            messages.iter().map(|(role, parts)| Message { role: *role, parts: parts.to_vec() }).collect();
        let parts = || messages.iter().flat_map(|message| &message.parts);
        let audio = parts().filter(|part| matches!(part, Part::Audio(_))).count();
        let images = parts().filter(|part| matches!(part, Part::Image(_))).count();
        let file = Arc::new(AudioFile::new(Bytes::from_static(b"RIFF"), "wav", 1.5));
        let picture = Arc::new(ImageFile::new(Bytes::from_static(b"PNG"), "png"));
        let clip = PreparedAudio { digest: Digest::of(b"RIFF"), content: AudioContent::File(file) };
        let image = PreparedImage { digest: Digest::of(b"PNG"), content: ImageContent::File(picture) };
        Prepared {
            key: Digest::of(b"key"),
            prompt: Prompt::Chat(messages),
            audio: vec![clip; audio],
            images: vec![image; images],
            generation: Generation::default(),
            seed: 443,
            exact_seed: false,
        }
    }

    /// The JSON of a body.
    pub(in super::super) fn encoded(request: &Prepared, spec: &EndpointSpec) -> Value {
        let body = spec.dialect.encode(request, spec).unwrap();
        assert_eq!(body.content_type, "application/json");
        serde_json::from_slice(&body.bytes()).unwrap()
    }

    /// The sentence of a refusal for the media's sake.
    pub(in super::super) fn media_refused(request: &Prepared, spec: &EndpointSpec) -> String {
        match spec.dialect.encode(request, spec) {
            Err(Refusal::Media(sentence)) => sentence,
            other => panic!("expected a refusal of the media, found {other:?}"),
        }
    }

    /// The sentence of a refusal of the request.
    pub(in super::super) fn request_refused(request: &Prepared, spec: &EndpointSpec) -> String {
        match spec.dialect.encode(request, spec) {
            Err(Refusal::Request(sentence)) => sentence,
            other => panic!("expected a refusal, found {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::testing::{clip, image, media_refused, request, request_refused, text};
    use super::*;

    fn spec() -> EndpointSpec {
        EndpointSpec::new(Dialect::OpenAi, "http://host/v1", "m")
    }

    #[test]
    fn addresses_are_understood_with_and_without_the_call() {
        let check = |base: &str, segments: &[&str], expected: &str| {
            assert_eq!(join(&Url::parse(base).unwrap(), segments).as_str(), expected);
        };
        let chat = ["v1", "chat", "completions"];
        check("http://h:8000", &chat, "http://h:8000/v1/chat/completions");
        check("http://h:8000/", &chat, "http://h:8000/v1/chat/completions");
        check("http://h/v1", &chat, "http://h/v1/chat/completions");
        check("http://h/v1/", &chat, "http://h/v1/chat/completions");
        check("http://h/proxy/v1/chat/completions", &chat, "http://h/proxy/v1/chat/completions");
        check("http://h/proxy", &chat[1..], "http://h/proxy/chat/completions");
        check("http://h", &["models", "a/b c:d"], "http://h/models/a%2Fb%20c:d");
    }

    #[test]
    fn media_beyond_the_limits_are_refused_with_what_to_do() {
        let mut spec = spec();
        let mut request = request(&[(Role::User, &[clip(), image()])]);
        spec.limits.audio_formats = vec!["mp3".into()];
        assert_eq!(
            media_refused(&request, &spec),
            "the clip is wav and the endpoint takes mp3; allow a transform or add the format to the endpoint's \
             limits"
        );
        spec.limits.audio_formats = vec!["wav".into()];
        spec.limits.max_audio_bytes = 3;
        assert!(media_refused(&request, &spec).starts_with("the clip has 4 bytes and the endpoint takes 3"));
        spec.limits.max_audio_bytes = 4;
        spec.limits.max_seconds = 1.0;
        assert!(
            media_refused(&request, &spec).starts_with("the clip lasts 1.5 s and the endpoint takes 1.0 s")
        );
        spec.limits.max_seconds = 2.0;
        spec.limits.image_formats = vec![];
        assert_eq!(media_refused(&request, &spec), "this endpoint takes no images");
        spec.limits.image_formats = vec!["png".into()];
        assert!(spec.dialect.encode(&request, &spec).is_ok());
        request.images.clear();
        assert_eq!(media_refused(&request, &spec), "the request has fewer media than its prompt names");
        let features =
            Arc::new(crate::types::LogMel { bins: 1, frames: 1, valid_frames: 1, data: vec![0.0] });
        request.audio[0].content = AudioContent::Features(features);
        assert!(media_refused(&request, &spec).contains("not as features"));
        request.audio[0].content = AudioContent::File(Arc::new(AudioFile::new("".into(), "wav", 0.0)));
        assert_eq!(media_refused(&request, &spec), "the clip is an empty file");
    }

    #[test]
    fn a_system_message_is_folded_into_the_first_user_message() {
        let spec = EndpointSpec { system_role: SystemRole::Fold, ..spec() };
        let check = |messages: &[(Role, &[Part])], expected: &[(Role, &[&str])]| {
            let request = request(messages);
            let found: Vec<(Role, Vec<String>)> = turns(&request, &spec)
                .unwrap()
                .iter()
                .map(|turn| {
                    let shown = |piece: &Piece<'_>| match piece {
                        Piece::Text(text) => text.to_string(),
                        Piece::Audio(_) => "<audio>".to_owned(),
                        Piece::Image(_) => "<image>".to_owned(),
                    };
                    (turn.role, turn.pieces.iter().map(shown).collect())
                })
                .collect();
            let expected: Vec<(Role, Vec<String>)> = expected
                .iter()
                .map(|(role, texts)| (*role, texts.iter().map(|text| (*text).to_owned()).collect()))
                .collect();
            assert_eq!(found, expected);
        };
        check(
            &[(Role::System, &[text("be brief")]), (Role::User, &[text("why?"), clip()])],
            &[(Role::User, &["be brief\n\nwhy?", "<audio>"])],
        );
        check(
            &[
                (Role::System, &[text("a")]),
                (Role::User, &[clip(), text("why?")]),
                (Role::Assistant, &[text("b")]),
            ],
            &[(Role::User, &["a", "<audio>", "why?"]), (Role::Assistant, &["b"])],
        );
        check(&[(Role::User, &[text("why?")])], &[(Role::User, &["why?"])]);
    }

    #[test]
    fn settings_that_would_be_dropped_are_refused() {
        let mut spec = spec();
        spec.send.top_k = false;
        spec.send.repetition_penalty = false;
        let mut request = request(&[(Role::User, &[text("why?")])]);
        assert!(spec.dialect.encode(&request, &spec).is_ok());
        request.generation.top_k = 20;
        assert_eq!(
            request_refused(&request, &spec),
            "the setting top_k = 20 is not sent to this endpoint; add \"top_k\" to `send` under [model.endpoint], or turn it off"
        );
        request.generation.top_k = 0;
        request.generation.repetition_penalty = 1.1;
        assert!(
            request_refused(&request, &spec).starts_with("the setting repetition_penalty = 1.1 is not sent")
        );
    }

    #[test]
    fn the_seed_is_the_runs_and_depends_on_the_request_where_answers_are_drawn() {
        let mut first = request(&[(Role::User, &[text("why?")])]);
        let mut second = first.clone();
        second.key = crate::types::Digest::of(b"another");
        assert_eq!((seed(&first), seed(&second)), (443, 443));
        first.generation.temperature = Some(1.0);
        second.generation.temperature = Some(1.0);
        assert_ne!(seed(&first), seed(&second));
        assert_eq!(seed(&first), seed(&first.clone()));
        first.seed += 1;
        assert_ne!(seed(&first), seed(&Prepared { seed: 443, ..first.clone() }));
        // Each run of a judge has the judge's seed plus its number.
        assert_eq!(seed(&Prepared { exact_seed: true, ..first.clone() }), 444);
    }
}
