//! `/v1/audio/transcriptions` as OpenAI and vLLM serve it: one clip as a multipart form, its words back.
//!
//! Source: OpenAI's API reference (createTranscription).

use reqwest::Url;
use serde_json::Value;

use super::body::{Body, Writer};
use super::dialect::{Piece, Refusal, audio_type, check_unsent, turns};
use super::openai;
use super::reply::{Classified, Reply, count};
use super::spec::{EndpointSpec, TranscriptionText};
use crate::languages;
use crate::model::Prepared;
use crate::types::{AudioFile, AudioRef, Message, Outcome, Part, Prompt, Role, Usage};

/// `BASE/audio/transcriptions`; a base without a path is given `/v1`.
pub(super) fn target(base: &Url) -> Url {
    openai::api(base, &["audio", "transcriptions"])
}

/// The form: the clip's file as it is, and the fields around it.
pub(super) fn encode(request: &Prepared, spec: &EndpointSpec) -> Result<Body, Refusal> {
    check_unsent(spec, &request.generation)?;
    // A finished prompt of Whisper's says which language is spoken; else the clip alone is the request.
    let (told, request) = &match &request.prompt {
        Prompt::Raw { text, audio } => match languages::of_whisper_prompt(text) {
            Some(language) => (Some(language.to_owned()), alone(request, audio)),
            None => {
                return Err(Refusal::Request(
                    "a transcription takes no finished prompt string but one of Whisper's, such as \
                     `<|startoftranscript|><|de|><|transcribe|><|notimestamps|>`"
                        .to_owned(),
                ));
            }
        },
        Prompt::Chat(_) => (None, request.clone()),
    };
    let turns = turns(request, spec)?;
    let pieces = || turns.iter().flat_map(|turn| &turn.pieces);
    let clips: Vec<&AudioFile> = pieces()
        .filter_map(|piece| match piece {
            Piece::Audio(file) => Some(*file),
            Piece::Text(_) | Piece::Image(_) => None,
        })
        .collect();
    let [clip] = clips.as_slice() else {
        return Err(Refusal::Media(format!("a transcription takes one clip, not {}", clips.len())));
    };
    let texts: Vec<&str> = pieces()
        .filter_map(|piece| match piece {
            Piece::Text(text) if !text.trim().is_empty() => Some(text.as_ref()),
            _ => None,
        })
        .collect();
    let mut prompt: Vec<&str> = spec.transcription.prompt.as_deref().into_iter().collect();
    match spec.transcription.text {
        TranscriptionText::Drop => {}
        TranscriptionText::Prompt => prompt.extend(texts),
        TranscriptionText::Refuse if texts.is_empty() => {}
        TranscriptionText::Refuse => {
            return Err(Refusal::Request(
                "a transcription takes a clip and no text; say what becomes of the text: text = \"prompt\" or \
                 \"drop\""
                    .to_owned(),
            ));
        }
    }

    let mut form = Form::new(request);
    form.field("model", &spec.model);
    if let Some(language) = told.as_ref().or(spec.transcription.language.as_ref()) {
        form.field("language", language);
    }
    if !prompt.is_empty() {
        form.field("prompt", &prompt.join("\n"));
    }
    if let Some(temperature) = request.generation.temperature.filter(|_| spec.send.temperature) {
        form.field("temperature", &temperature.to_string());
    }
    form.field("response_format", if spec.transcription.verbose { "verbose_json" } else { "json" });
    for (key, value) in &spec.extra_body {
        match value {
            Value::Array(items) => items.iter().for_each(|item| form.field(key, &plain(item))),
            value => form.field(key, &plain(value)),
        }
    }
    form.file(clip);
    Ok(form.finish())
}

/// The request with its clips and nothing else.
fn alone(request: &Prepared, audio: &[AudioRef]) -> Prepared {
    let parts = audio.iter().cloned().map(Part::Audio).collect();
    Prepared { prompt: Prompt::Chat(vec![Message { role: Role::User, parts }]), ..request.clone() }
}

/// A value as forms write it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A multipart form (RFC 7578). Its boundary is made of the request's key, so that it repeats.
struct Form {
    boundary: String,
    writer: Writer,
}

impl Form {
    fn new(request: &Prepared) -> Self {
        Self { boundary: format!("harness-{}", request.key), writer: Writer::default() }
    }

    fn field(&mut self, name: &str, value: &str) {
        let boundary = &self.boundary;
        let name = quoted(name);
        self.writer.text(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }

    fn file(&mut self, file: &AudioFile) {
        let boundary = &self.boundary;
        let (name, kind) = (quoted(&format!("clip.{}", file.format)), audio_type(&file.format));
        self.writer.text(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: {kind}\r\n\r\n"
        ));
        self.writer.media(file.bytes.clone());
        self.writer.text("\r\n");
    }

    fn finish(mut self) -> Body {
        self.writer.text(&format!("--{}--\r\n", self.boundary));
        self.writer.finish(format!("multipart/form-data; boundary={}", self.boundary))
    }
}

/// A name between quotation marks, as browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// What a reply means.
pub(super) fn classify(reply: &Reply) -> Classified {
    let body = match reply.json() {
        Ok(body) => body,
        Err(classified) => return classified,
    };
    match body.get("text").and_then(Value::as_str) {
        Some(text) if reply.status.is_success() && body.get("error").is_none_or(Value::is_null) => {
            let usage = Usage {
                prompt_tokens: count(&body, &["usage", "input_tokens"]),
                audio_tokens: count(&body, &["usage", "input_token_details", "audio_tokens"]),
                completion_tokens: count(&body, &["usage", "output_tokens"]),
            };
            let language = body.get("language").and_then(Value::as_str);
            Classified::heard(Outcome::Ok, text.to_owned(), usage)
                .by(body.get("model"))
                .in_language(language.and_then(languages::named_by_recogniser))
        }
        _ => openai::error_of(reply, &body).unwrap_or_else(|| Classified::malformed("the reply has no text")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::testing::{clip, image, media_refused, request, request_refused, text};
    use super::super::reply::testing::{failed, reply, retried};
    use super::*;
    use crate::model::endpoint::{Cause, Dialect, Transcription};
    use crate::types::Role;

    fn spec() -> EndpointSpec {
        EndpointSpec::new(Dialect::Transcription, "http://host:8000", "whisper-1")
    }

    #[test]
    fn the_wire_form() {
        let request = request(&[(Role::User, &[text("Bonjour,"), clip()])]);
        let mut spec = spec();
        spec.transcription = Transcription {
            language: Some("fr".into()),
            prompt: Some("Salut.".into()),
            text: TranscriptionText::Prompt,
            verbose: false,
        };
        spec.extra_body.insert("timestamp_granularities[]".into(), serde_json::json!(["word", 1]));
        let body = encode(&request, &spec).unwrap();
        let boundary = format!("harness-{}", request.key);
        assert_eq!(body.content_type, format!("multipart/form-data; boundary={boundary}"));
        let fields: String = [
            ("model", "whisper-1"),
            ("language", "fr"),
            ("prompt", "Salut.\nBonjour,"),
            ("temperature", "0"),
            ("response_format", "json"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "1"),
        ]
        .map(|(name, value)| {
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        })
        .concat();
        let expected = format!(
            "{fields}--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"clip.wav\"\r\n\
             Content-Type: audio/wav\r\n\r\nRIFF\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(body.bytes()).unwrap(), expected);
        assert_eq!(body.media_bytes(), 4);
        spec.transcription.verbose = true;
        let verbose = String::from_utf8(encode(&request, &spec).unwrap().bytes()).unwrap();
        assert!(verbose.contains("name=\"response_format\"\r\n\r\nverbose_json\r\n"), "{verbose}");
        assert_eq!(
            target(&Url::parse("http://host:8000").unwrap()).as_str(),
            "http://host:8000/v1/audio/transcriptions"
        );
    }

    #[test]
    fn it_takes_one_clip_and_text_only_when_told_what_to_do_with_it() {
        let mut spec = spec();
        let said = request(&[(Role::User, &[text("Transcribe."), clip()])]);
        assert!(request_refused(&said, &spec).starts_with("a transcription takes a clip and no text"));
        spec.transcription.text = TranscriptionText::Drop;
        let form = String::from_utf8(encode(&said, &spec).unwrap().bytes()).unwrap();
        assert!(!form.contains("Transcribe."));
        let two = request(&[(Role::User, &[clip(), clip()])]);
        assert_eq!(media_refused(&two, &spec), "a transcription takes one clip, not 2");
        let none = request(&[(Role::User, &[image()])]);
        assert_eq!(media_refused(&none, &spec), "this endpoint takes no images");
    }

    #[test]
    fn replies() {
        let heard = |body: &str| match classify(&reply(200, &[], body.to_owned())) {
            Classified::Answer(heard) => (heard.outcome, heard.text, heard.usage),
            other => panic!("{other:?}"),
        };
        let body = r#"{"text":"Bonjour.","usage":{"type":"tokens","input_tokens":14,"input_token_details":
            {"text_tokens":0,"audio_tokens":14},"output_tokens":45,"total_tokens":59}}"#;
        let usage = Usage { prompt_tokens: 14, audio_tokens: 14, completion_tokens: 45 };
        assert_eq!(heard(body), (Outcome::Ok, "Bonjour.".into(), usage));
        assert_eq!(heard(r#"{"text":" ","usage":{"type":"duration","seconds":3}}"#).0, Outcome::Empty);

        for (named, code) in [("english", Some("en")), ("de", Some("de")), ("", None)] {
            let body =
                format!(r#"{{"task":"transcribe","language":"{named}","duration":1.5,"text":"Yes."}}"#);
            let Classified::Answer(heard) = classify(&reply(200, &[], body)) else { panic!("{named}") };
            assert_eq!((heard.text.as_str(), heard.language.as_deref()), ("Yes.", code));
        }

        let old = r#"{"object":"error","message":"Invalid or unsupported audio file.","type":"BadRequestError","code":400}"#;
        for status in [200, 400] {
            assert_eq!(
                failed(classify(&reply(status, &[], old))),
                "the server refuses the request (400): Invalid or unsupported audio file."
            );
        }
        assert_eq!(retried(classify(&reply(200, &[], "{}"))).0, Cause::Malformed);
        assert_eq!(retried(classify(&reply(200, &[], r#"{"error":{"code":500}}"#))).0, Cause::Server);
    }
}
