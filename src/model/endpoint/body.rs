//! The body of a request as a sequence of chunks.
//!
//! Nearly all bytes of a request are the base64 of a clip that many requests use. So a body is never one
//! string: the JSON around the media is written into small chunks, the media chunks are shared, and a retry
//! sends the same chunks again. hyper hands them to the kernel in one vectored write, so nothing is copied
//! on the way out but by the kernel itself. This module must not know what the JSON means.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use serde_json::Value;

/// JSON that may hold media.
#[derive(Clone, Debug)]
pub(super) enum Json {
    /// Plain JSON.
    Plain(Value),
    /// A string of base64 after a prefix, which is a data URL's head or nothing.
    Media { prefix: String, base64: Bytes },
    /// An array.
    List(Vec<Json>),
    /// An object; keys are unique and keep their order.
    Object(Object),
}

/// An object of [`Json`].
#[derive(Clone, Debug, Default)]
pub(super) struct Object(Vec<(String, Json)>);

impl Object {
    /// An empty object.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// With a field set; one that is there already is replaced.
    pub(super) fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.set(key, value);
        self
    }

    /// Sets a field; one that is there already is replaced.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Json>) {
        let value = value.into();
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Puts the fields of `extra` over those that are there; objects are merged key by key, so that one
    /// setting can be added to a section of the program's own.
    pub(super) fn merge(&mut self, extra: &serde_json::Map<String, Value>) {
        for (key, value) in extra {
            match (self.0.iter_mut().find(|(name, _)| name == key).map(|(_, old)| old), value) {
                (Some(Json::Object(old)), Value::Object(new)) => old.merge(new),
                (Some(old), new) => *old = Json::Plain(new.clone()),
                (None, new) => self.0.push((key.clone(), Json::Plain(new.clone()))),
            }
        }
    }
}

impl<T: Into<Value>> From<T> for Json {
    fn from(value: T) -> Self {
        Self::Plain(value.into())
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

/// A body, ready to be sent any number of times.
#[derive(Clone, Debug)]
pub(super) struct Body {
    /// The `Content-Type`.
    pub(super) content_type: String,
    chunks: Arc<[Bytes]>,
    len: u64,
    media: u64,
}

impl Body {
    /// A body of JSON.
    pub(super) fn json(object: Object) -> Self {
        let mut writer = Writer::default();
        writer.json(&Json::Object(object));
        writer.finish("application/json".to_owned())
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// How many of its bytes are media.
    pub(super) fn media_bytes(&self) -> u64 {
        self.media
    }

    /// The body as one text, for tests.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    /// For the transport: the chunks in order, not copied.
    pub(super) fn frames(&self) -> Frames {
        Frames { chunks: Arc::clone(&self.chunks), next: 0, left: self.len }
    }
}

/// Writes a body: small pieces into one buffer, large ones as chunks of their own.
#[derive(Default)]
pub(super) struct Writer {
    chunks: Vec<Bytes>,
    small: BytesMut,
    media: u64,
}

impl Writer {
    /// Appends a copy of `text`.
    pub(super) fn text(&mut self, text: &str) {
        self.small.extend_from_slice(text.as_bytes());
    }

    /// Appends media, shared with whoever else holds them.
    pub(super) fn media(&mut self, bytes: Bytes) {
        self.media += bytes.len() as u64;
        self.flush();
        if !bytes.is_empty() {
            self.chunks.push(bytes);
        }
    }

    fn flush(&mut self) {
        if !self.small.is_empty() {
            self.chunks.push(self.small.split().freeze());
        }
    }

    fn json(&mut self, json: &Json) {
        match json {
            Json::Plain(value) => self.plain(value),
            Json::Media { prefix, base64 } => {
                self.text("\"");
                // Prefixes hold nothing that JSON escapes, but then that is for the writer to see to.
                let quoted = Value::from(prefix.as_str()).to_string();
                self.text(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default());
                self.media(base64.clone());
                self.text("\"");
            }
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.text(if index == 0 { "[" } else { "," });
                    self.json(item);
                }
                self.text(if items.is_empty() { "[]" } else { "]" });
            }
            Json::Object(Object(fields)) => {
                self.text("{");
                for (index, (key, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        self.text(",");
                    }
                    self.plain(&Value::from(key.as_str()));
                    self.text(":");
                    self.json(value);
                }
                self.text("}");
            }
        }
    }

    fn plain(&mut self, value: &Value) {
        // A buffer in memory takes everything, and JSON values have string keys.
        let written = serde_json::to_writer((&mut self.small).writer(), value);
        debug_assert!(written.is_ok(), "JSON values can always be written");
    }

    /// The body.
    pub(super) fn finish(mut self, content_type: String) -> Body {
        self.flush();
        let len = self.chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Body { content_type, chunks: self.chunks.into(), len, media: self.media }
    }
}

/// One sending of a body.
#[derive(Debug)]
pub(super) struct Frames {
    chunks: Arc<[Bytes]>,
    next: usize,
    left: u64,
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.get(self.next).cloned();
        Poll::Ready(chunk.map(|chunk| {
            self.next += 1;
            self.left = self.left.saturating_sub(chunk.len() as u64);
            Ok(Frame::data(chunk))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_body_is_json_and_media_are_not_copied() {
        let clip = Bytes::from(vec![b'A'; 1000]);
        let audio = Object::new().with("data", Json::Media { prefix: String::new(), base64: clip.clone() });
        let url = Json::Media { prefix: "data:image/\"png\";base64,".to_owned(), base64: clip.clone() };
        let object = Object::new()
            .with("model", "m\"\n\u{0}")
            .with("list", Json::List(vec![audio.into(), url, Json::List(vec![])]))
            .with("model", "n\u{1F600}")
            .with("last", json!({"a": [1, null]}));
        let body = Body::json(object);
        let a = "A".repeat(1000);
        let expected = json!({
            "model": "n\u{1F600}",
            "list": [{"data": a}, format!("data:image/\"png\";base64,{a}"), []],
            "last": {"a": [1, null]},
        });
        assert_eq!(String::from_utf8(body.bytes()).unwrap(), expected.to_string());
        assert_eq!(body.len(), body.bytes().len() as u64);
        assert_eq!(body.media_bytes(), 2000);
        assert_eq!(body.content_type, "application/json");
        let shared = body.chunks.iter().filter(|chunk| chunk.as_ptr() == clip.as_ptr()).count();
        assert_eq!(shared, 2);
        assert_eq!(body.chunks.len(), 5);
    }

    #[test]
    fn extra_fields_go_over_and_into_what_is_there() {
        let mut object = Object::new()
            .with("a", 1)
            .with("config", Object::new().with("x", 1).with("y", 2))
            .with("b", json!({"x": 1}));
        let extra = json!({"a": {"z": 0}, "config": {"y": 3, "z": 4}, "b": {"y": 2}, "c": "new"});
        object.merge(extra.as_object().unwrap());
        let body = String::from_utf8(Body::json(object).bytes()).unwrap();
        assert_eq!(body, r#"{"a":{"z":0},"config":{"x":1,"y":3,"z":4},"b":{"y":2},"c":"new"}"#);
    }

    #[test]
    fn a_body_can_be_sent_again_and_knows_its_length() {
        let body =
            Body::json(Object::new().with("x", Json::Media { prefix: "p".into(), base64: "QUJD".into() }));
        for _ in 0..2 {
            let mut frames = body.frames();
            let mut sent = Vec::new();
            assert_eq!(frames.size_hint().exact(), Some(body.len()));
            while let Poll::Ready(Some(Ok(frame))) =
                Pin::new(&mut frames).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
            {
                sent.extend_from_slice(&frame.into_data().unwrap());
                assert_eq!(frames.size_hint().exact(), Some(body.len() - sent.len() as u64));
            }
            assert!(frames.is_end_stream());
            assert_eq!(sent, br#"{"x":"pQUJD"}"#);
        }
    }
}
