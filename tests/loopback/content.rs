//! What a request says, and what the right answer to it is.
//!
//! The content of a request is its pieces in the order of the body: texts (every text of every message, the
//! prompt of a completion or transcription) and media (clips and images). System texts that stand outside the
//! conversation (Anthropic, Gemini) and the prompt of a transcription count as first, wherever they stand. The
//! right answer is
//!
//! ```text
//! t{texts}:{hash of the texts} m{media}:{hash of the media}
//! ```
//!
//! with both hashes as 16 hexadecimal digits. The hash of one piece is [`Mixer::of`] its bytes: a text as
//! UTF-8 without JSON's escapes; a medium as it is on the wire, which is its base64 (without `data:…,`) in JSON
//! and the file's bytes in a multipart form. The hash of several is that of the pairs (position among all
//! pieces, hash of the piece). So no byte, no order and no mix-up of two requests goes unnoticed, and
//! [`right_answer`] computes the same from sample files.
//!
//! The key of a content adds what may change a real model's answer: model, seed and language.

use super::hash::Mixer;
use super::originals::Sha;

/// Bytes of sound or image for one token of the prompt: 40 ms of 16 kHz 16-bit sound, as Qwen2-Audio counts.
pub(crate) const MEDIA_BYTES_PER_TOKEN: u64 = 1280;

/// Bytes of text for one token.
pub(crate) const TEXT_BYTES_PER_TOKEN: u64 = 4;

/// A piece of a request, to compute its right answer from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece<'a> {
    /// A text.
    Text(&'a str),
    /// A clip or an image as it is on the wire: base64, or plain bytes in a multipart form.
    Media(&'a [u8]),
}

/// The right answer to a request of these pieces.
pub(crate) fn right_answer(pieces: &[Piece<'_>]) -> String {
    let mut content = Content::default();
    for piece in pieces {
        let (form, bytes) = match piece {
            Piece::Text(text) => (Form::Text, text.as_bytes()),
            Piece::Media(wire) => (Form::Bytes, *wire),
        };
        content.push(Found::new(form, Mixer::of(bytes), bytes.len() as u64));
    }
    content.sum().answer()
}

/// Standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// How a piece was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A text of the conversation.
    Text,
    /// A system text outside the conversation.
    System,
    /// `OpenAI`'s `input_audio`: base64 and a format.
    InputAudio,
    /// `audio_url`, a data URL.
    AudioUrl,
    /// `image_url`, a data URL.
    ImageUrl,
    /// Gemini's `inline_data`.
    InlineData,
    /// Anthropic's `source`.
    Source,
    /// A file of a multipart form.
    Bytes,
}

/// What a medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sound.
    Audio,
    /// An image.
    Image,
}

impl Kind {
    /// What a MIME type says.
    pub(crate) fn of_mime(mime: &[u8]) -> Option<Self> {
        if mime.starts_with(b"audio/") {
            Some(Self::Audio)
        } else if mime.starts_with(b"image/") {
            Some(Self::Image)
        } else {
            None
        }
    }
}

/// A piece that was found in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// How it was written.
    pub(crate) form: Form,
    /// What the medium is, as far as known.
    pub(crate) kind: Option<Kind>,
    /// The hash of its bytes on the wire.
    pub(crate) hash: u64,
    /// Its size: bytes of the text or of the medium (for base64 3/4 of its length).
    pub(crate) bytes: u64,
    /// The SHA-256 of the medium itself, where that is asked for.
    pub(crate) sha256: Option<Sha>,
}

impl Found {
    /// A piece of which `wire` bytes were read.
    pub(crate) fn new(form: Form, hash: u64, wire: u64) -> Self {
        let (kind, bytes) = match form {
            Form::Text | Form::System => (None, wire),
            Form::Bytes => (Some(Kind::Audio), wire),
            Form::InputAudio | Form::AudioUrl => (Some(Kind::Audio), wire * 3 / 4),
            Form::ImageUrl | Form::Source => (Some(Kind::Image), wire * 3 / 4),
            Form::InlineData => (None, wire * 3 / 4),
        };
        Self { form, kind, hash, bytes, sha256: None }
    }

    /// Whether it is a text.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.form, Form::Text | Form::System)
    }
}

/// What a request says.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a request has as many switches")]
pub(crate) struct Content {
    /// The pieces in the order of the body.
    pub(crate) pieces: Vec<Found>,
    /// The model that is asked.
    pub(crate) model: Option<String>,
    /// The hash of the seed as it was written.
    pub(crate) seed: u64,
    /// The hash of the language of a transcription.
    pub(crate) language: u64,
    /// Whether the answer is to come as events.
    pub(crate) stream: bool,
    /// Whether the events end with one of the usage.
    pub(crate) include_usage: bool,
    /// Whether the answer is to be plain text (a transcription's `response_format`).
    pub(crate) plain: bool,
    /// Whether the answer is to name the language (a transcription's `verbose_json`).
    pub(crate) verbose: bool,
}

impl Content {
    /// Adds a piece.
    pub(crate) fn push(&mut self, piece: Found) {
        self.pieces.push(piece);
    }

    /// What the answer and the usage are made of.
    pub(crate) fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        let (mut texts, mut media) = (Mixer::new(), Mixer::new());
        let outside = self.pieces.iter().filter(|piece| piece.form == Form::System);
        let inside = self.pieces.iter().filter(|piece| piece.form != Form::System);
        for (position, piece) in outside.chain(inside).enumerate() {
            let mixer = if piece.is_text() {
                sum.texts += 1;
                sum.text_bytes += piece.bytes;
                &mut texts
            } else {
                sum.media += 1;
                if piece.kind == Some(Kind::Image) {
                    sum.image_bytes += piece.bytes;
                } else {
                    sum.audio_bytes += piece.bytes;
                }
                sum.media_tokens[usize::from(piece.kind == Some(Kind::Image))] +=
                    piece.bytes.div_ceil(MEDIA_BYTES_PER_TOKEN);
                &mut media
            };
            mixer.update(&(position as u64).to_le_bytes());
            mixer.update(&piece.hash.to_le_bytes());
        }
        sum.text_hash = texts.finish();
        sum.media_hash = media.finish();
        sum
    }

    /// The key: equal keys are requests that ask the same.
    pub(crate) fn key(&self, sum: &Sum) -> u64 {
        let model = Mixer::of(self.model.as_deref().unwrap_or_default().as_bytes());
        Mixer::of_numbers(&[sum.text_hash, sum.media_hash, model, self.seed, self.language])
    }
}

/// The sum of a content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    /// Number of texts.
    pub(crate) texts: u64,
    /// Number of media.
    pub(crate) media: u64,
    /// Bytes of all texts.
    pub(crate) text_bytes: u64,
    /// Bytes of all clips.
    pub(crate) audio_bytes: u64,
    /// Bytes of all images.
    pub(crate) image_bytes: u64,
    /// Tokens of clips and of images.
    media_tokens: [u64; 2],
    text_hash: u64,
    media_hash: u64,
}

impl Sum {
    /// The right answer.
    pub(crate) fn answer(&self) -> String {
        format!("t{}:{:016x} m{}:{:016x}", self.texts, self.text_hash, self.media, self.media_hash)
    }

    /// A hash of the answer, to choose with.
    pub(crate) fn hash(&self) -> u64 {
        Mixer::of_numbers(&[self.text_hash, self.media_hash])
    }

    /// Tokens of the texts.
    pub(crate) fn text_tokens(&self) -> u64 {
        self.text_bytes.div_ceil(TEXT_BYTES_PER_TOKEN)
    }

    /// Tokens of the clips.
    pub(crate) fn audio_tokens(&self) -> u64 {
        self.media_tokens[0]
    }

    /// Tokens of the images.
    pub(crate) fn image_tokens(&self) -> u64 {
        self.media_tokens[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_does_not_depend_on_how_the_stream_is_cut() {
        let bytes: Vec<u8> = (0..1000_u32).map(|i| (i * i % 251) as u8).collect();
        for step in [1, 7, 63, 64, 65, 300] {
            let mut mixer = Mixer::new();
            bytes.chunks(step).for_each(|chunk| mixer.update(chunk));
            assert_eq!(mixer.finish(), Mixer::of(&bytes), "step {step}");
        }
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let mut bytes = vec![0_u8; 500];
        let zeros = Mixer::of(&bytes);
        assert_ne!(zeros, Mixer::of(&bytes[..499]));
        for i in 0..bytes.len() {
            bytes[i] = 1;
            assert_ne!(zeros, Mixer::of(&bytes), "byte {i}");
            bytes[i] = 0;
        }
    }

    /// Computed by another implementation (Python integers) of what the documentation says.
    #[test]
    fn answers_are_what_is_documented() {
        assert_eq!(right_answer(&[]), "t0:eea327d09d10e249 m0:eea327d09d10e249");
        let clip: Vec<u8> = (0..1000_u32).map(|i| (i % 251) as u8).collect();
        let clip = base64(&clip);
        let pieces = [Piece::Text("What is said?"), Piece::Media(clip.as_bytes()), Piece::Text("Réponds.")];
        assert_eq!(right_answer(&pieces), "t2:2ae89d72a52e1190 m1:422d65599f6f8576");
    }

    #[test]
    fn order_shows() {
        let (a, b) = (Piece::Text("a"), Piece::Text("b"));
        let clip = Piece::Media(b"UklGRg==");
        assert_ne!(right_answer(&[a, b]), right_answer(&[b, a]));
        assert_ne!(right_answer(&[a, b, clip]), right_answer(&[a, clip, b]));
        assert_ne!(right_answer(&[a, b]), right_answer(&[Piece::Text("ab")]));
    }

    #[test]
    fn base64_is_the_standard_one() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}\u{3f}", "w78/"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
