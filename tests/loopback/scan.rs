//! Finds texts and media in a JSON body while it arrives, without keeping it.
//!
//! A full parse of a 400 kB body costs more than receiving it. This walks the structure byte by byte but
//! strings by `memchr`, hashes those that matter and forgets the rest. It knows the bodies of all JSON dialects
//! at once, since the names of their fields do not clash. What it lets pass (wrong literals, control characters
//! in strings) is for [`super::strict`] to find.

use super::content::{Content, Form, Found, Kind};
use super::hash::Mixer;
use super::originals::Decoding;

/// Nesting beyond this is not a request.
const MAX_DEPTH: usize = 64;

/// Names, literals and short strings longer than this are cut; none that matters is.
const MAX_SMALL: usize = 512;

/// The fields that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Messages,
    Contents,
    System,
    SystemInstruction,
    Prompt,
    Content,
    Text,
    InputAudio,
    AudioUrl,
    ImageUrl,
    InlineData,
    Source,
    Data,
    Url,
    Mime,
    Model,
    Seed,
    Stream,
    StreamOptions,
    IncludeUsage,
    Other,
}

impl Name {
    fn of(name: &[u8]) -> Self {
        match name {
            b"messages" => Self::Messages,
            b"contents" => Self::Contents,
            b"system" => Self::System,
            b"systemInstruction" | b"system_instruction" => Self::SystemInstruction,
            b"prompt" => Self::Prompt,
            b"content" => Self::Content,
            b"text" => Self::Text,
            b"input_audio" => Self::InputAudio,
            b"audio_url" => Self::AudioUrl,
            b"image_url" => Self::ImageUrl,
            b"inlineData" | b"inline_data" => Self::InlineData,
            b"source" => Self::Source,
            b"data" => Self::Data,
            b"url" => Self::Url,
            b"mimeType" | b"mime_type" | b"media_type" => Self::Mime,
            b"model" => Self::Model,
            b"seed" => Self::Seed,
            b"stream" => Self::Stream,
            b"stream_options" => Self::StreamOptions,
            b"include_usage" => Self::IncludeUsage,
            _ => Self::Other,
        }
    }
}

/// What an open bracket stands for.
struct Frame {
    object: bool,
    /// The name that values in it go by: of the member under way, or of the array itself.
    name: Name,
    /// The MIME type that was seen in it.
    mime: Option<Kind>,
    /// The piece that was found in it.
    piece: Option<usize>,
}

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Value,
    ValueOrEnd,
    Name,
    NameOrEnd,
    Colon,
    CommaOrEnd,
    String,
    Literal,
    Done,
}

/// What the string under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Name,
    Piece(Form),
    /// The same as a data URL, of which the header is skipped.
    Url(Form),
    Short(Name),
    Nothing,
}

/// Where in an escape sequence the string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Backslash,
    Unicode { digits: u8, value: u32 },
}

/// The scan of one body.
pub(crate) struct Scan {
    state: State,
    stack: Vec<Frame>,
    target: Target,
    escape: Escape,
    /// The first half of a surrogate pair.
    high: Option<u32>,
    small: Vec<u8>,
    mixer: Mixer,
    /// Whether the SHA-256 of media is wanted, and that of the one under way.
    sha256: bool,
    decoding: Option<Decoding>,
    /// Bytes of the string under way that count.
    bytes: u64,
    /// Whether the header of a data URL is over.
    payload: bool,
    content: Content,
}

/// Why a body is no request.
pub(crate) type Wrong = &'static str;

const NOT_JSON: Wrong = "the body is not valid JSON";

impl Scan {
    /// A scan of nothing so far.
    pub(crate) fn new() -> Self {
        Self {
            state: State::Start,
            stack: Vec::with_capacity(8),
            target: Target::Nothing,
            escape: Escape::None,
            high: None,
            small: Vec::with_capacity(64),
            mixer: Mixer::new(),
            sha256: false,
            decoding: None,
            bytes: 0,
            payload: false,
            content: Content::default(),
        }
    }

    /// The same, with the SHA-256 of media where that is asked for.
    pub(crate) fn with_sha256(mut self, sha256: bool) -> Self {
        self.sha256 = sha256;
        self
    }

    /// What the body says, once it is whole.
    pub(crate) fn finish(self) -> Result<Content, Wrong> {
        match self.state {
            State::Done => Ok(self.content),
            State::Start => Err("the body is empty; expected a JSON object"),
            _ => Err("the body ends in the middle of its JSON"),
        }
    }

    /// Takes in more of the body.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Wrong> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.state {
                State::String => {
                    bytes = self.string(bytes)?;
                    continue;
                }
                State::Literal => {
                    if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') {
                        self.keep(&[byte]);
                    } else {
                        self.literal();
                        continue;
                    }
                }
                _ if byte.is_ascii_whitespace() => {}
                state => self.structure(state, byte)?,
            }
            bytes = rest;
        }
        Ok(())
    }

    /// One byte outside strings and literals.
    fn structure(&mut self, state: State, byte: u8) -> Result<(), Wrong> {
        match (state, byte) {
            (State::Start | State::Value | State::ValueOrEnd, b'{') => self.open(true),
            (State::Start, _) => Err("the body is not a JSON object"),
            (State::Value | State::ValueOrEnd, b'[') => self.open(false),
            (State::Value | State::ValueOrEnd, b'"') => {
                self.begin(self.target());
                Ok(())
            }
            (State::Value | State::ValueOrEnd, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                self.small.clear();
                self.keep(&[byte]);
                self.state = State::Literal;
                Ok(())
            }
            (State::Name | State::NameOrEnd, b'"') => {
                self.begin(Target::Name);
                Ok(())
            }
            (State::Colon, b':') => {
                self.state = State::Value;
                Ok(())
            }
            (State::CommaOrEnd, b',') => {
                let object = self.stack.last().is_some_and(|frame| frame.object);
                self.state = if object { State::Name } else { State::Value };
                Ok(())
            }
            (State::NameOrEnd | State::CommaOrEnd, b'}') => self.close(true),
            (State::ValueOrEnd | State::CommaOrEnd, b']') => self.close(false),
            (State::Done, _) => Err("the body goes on after its JSON object"),
            _ => Err(NOT_JSON),
        }
    }

    fn open(&mut self, object: bool) -> Result<(), Wrong> {
        if self.stack.len() >= MAX_DEPTH {
            return Err("the body is nested more deeply than any request");
        }
        let name = if object { Name::Other } else { self.name() };
        self.stack.push(Frame { object, name, mime: None, piece: None });
        self.state = if object { State::NameOrEnd } else { State::ValueOrEnd };
        Ok(())
    }

    fn close(&mut self, object: bool) -> Result<(), Wrong> {
        let frame = self.stack.pop().filter(|frame| frame.object == object).ok_or(NOT_JSON)?;
        // The type may stand before or after the data that it describes.
        if let (Some(kind), Some(piece)) =
            (frame.mime, frame.piece.and_then(|i| self.content.pieces.get_mut(i)))
        {
            piece.kind = Some(kind);
        }
        self.state = if self.stack.is_empty() { State::Done } else { State::CommaOrEnd };
        Ok(())
    }

    /// The name that the value at hand goes by.
    fn name(&self) -> Name {
        self.stack.last().map_or(Name::Other, |frame| frame.name)
    }

    /// The name of the object that the value at hand is in.
    fn owner(&self) -> Name {
        self.stack.iter().rev().nth(1).map_or(Name::Other, |frame| frame.name)
    }

    /// What a string here is.
    fn target(&self) -> Target {
        let root = self.stack.first().map_or(Name::Other, |frame| frame.name);
        match (root, self.name()) {
            (Name::Messages, Name::Content | Name::Text)
            | (Name::Contents, Name::Text)
            | (Name::Prompt, Name::Prompt) => Target::Piece(Form::Text),
            (Name::System, Name::System | Name::Text) | (Name::SystemInstruction, Name::Text) => {
                Target::Piece(Form::System)
            }
            (Name::Messages | Name::Contents, Name::Data) => match self.owner() {
                Name::InputAudio => Target::Piece(Form::InputAudio),
                Name::InlineData => Target::Piece(Form::InlineData),
                Name::Source => Target::Piece(Form::Source),
                _ => Target::Nothing,
            },
            (Name::Messages, Name::Url) => match self.owner() {
                Name::AudioUrl => Target::Url(Form::AudioUrl),
                Name::ImageUrl => Target::Url(Form::ImageUrl),
                _ => Target::Nothing,
            },
            (_, name @ Name::Mime) => Target::Short(name),
            (_, name @ Name::Model) if self.stack.len() == 1 => Target::Short(name),
            _ => Target::Nothing,
        }
    }

    fn begin(&mut self, target: Target) {
        self.target = target;
        self.state = State::String;
        self.escape = Escape::None;
        self.high = None;
        self.small.clear();
        self.mixer = Mixer::new();
        let medium = match target {
            Target::Piece(form) | Target::Url(form) => !matches!(form, Form::Text | Form::System),
            Target::Name | Target::Short(_) | Target::Nothing => false,
        };
        self.decoding = (self.sha256 && medium).then(Decoding::default);
        self.bytes = 0;
        self.payload = false;
    }

    /// A stretch of the string under way; returns what comes after.
    fn string<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Wrong> {
        if self.escape != Escape::None {
            let Some((&byte, rest)) = bytes.split_first() else { return Ok(bytes) };
            self.escaped(byte)?;
            return Ok(rest);
        }
        let Some(at) = memchr::memchr2(b'"', b'\\', bytes) else {
            self.take(bytes);
            return Ok(&[]);
        };
        let (plain, rest) = bytes.split_at(at);
        self.take(plain);
        match rest.split_first() {
            Some((b'"', after)) => {
                self.lone_surrogate();
                self.end();
                Ok(after)
            }
            Some((_, after)) => {
                self.escape = Escape::Backslash;
                Ok(after)
            }
            None => Ok(&[]),
        }
    }

    /// One byte of an escape sequence.
    fn escaped(&mut self, byte: u8) -> Result<(), Wrong> {
        match self.escape {
            Escape::Unicode { digits, value } => {
                let digit = char::from(byte).to_digit(16).ok_or(NOT_JSON)?;
                let value = value << 4 | digit;
                if digits < 3 {
                    self.escape = Escape::Unicode { digits: digits + 1, value };
                } else {
                    self.escape = Escape::None;
                    self.unicode(value);
                }
            }
            Escape::Backslash | Escape::None => {
                self.escape = Escape::None;
                let plain = match byte {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'b' => 8,
                    b'f' => 12,
                    b'"' | b'\\' | b'/' => byte,
                    b'u' => {
                        self.escape = Escape::Unicode { digits: 0, value: 0 };
                        return Ok(());
                    }
                    _ => return Err(NOT_JSON),
                };
                self.take(&[plain]);
            }
        }
        Ok(())
    }

    /// One UTF-16 unit of `\u` sequences.
    fn unicode(&mut self, value: u32) {
        if let Some(high) = self.high
            && (0xdc00..0xe000).contains(&value)
        {
            self.high = None;
            self.character(0x1_0000 + ((high - 0xd800) << 10) + (value - 0xdc00));
            return;
        }
        self.lone_surrogate();
        if (0xd800..0xdc00).contains(&value) {
            self.high = Some(value);
        } else {
            self.character(value);
        }
    }

    /// Half a pair whose other half did not come.
    fn lone_surrogate(&mut self) {
        if self.high.take().is_some() {
            self.character(0xfffd);
        }
    }

    fn character(&mut self, value: u32) {
        let character = char::from_u32(value).unwrap_or('\u{fffd}');
        let mut buffer = [0; 4];
        let text = character.encode_utf8(&mut buffer);
        self.take(text.as_bytes());
    }

    /// Plain bytes of the string under way.
    fn take(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.lone_surrogate();
        match self.target {
            Target::Piece(_) => self.count(bytes),
            Target::Url(_) => self.url(bytes),
            Target::Name | Target::Short(_) => self.keep(bytes),
            Target::Nothing => {}
        }
    }

    /// A data URL counts from its comma on; any other URL as a whole.
    fn url(&mut self, bytes: &[u8]) {
        if self.payload {
            return self.count(bytes);
        }
        let look = &bytes[..bytes.len().min(MAX_SMALL.saturating_sub(self.small.len()))];
        let comma = memchr::memchr(b',', look);
        self.keep(&look[..comma.unwrap_or(look.len())]);
        let data = self.small.starts_with(&b"data:"[..self.small.len().min(5)]);
        match comma {
            Some(at) if data => {
                self.payload = true;
                self.url(&bytes[at + 1..]);
            }
            None if data && look.len() == bytes.len() => {}
            _ => {
                self.plain_url();
                self.url(&bytes[comma.unwrap_or(look.len())..]);
            }
        }
    }

    /// Counts what was kept of a URL that turned out to hold no data.
    fn plain_url(&mut self) {
        self.payload = true;
        let url = std::mem::take(&mut self.small);
        self.count(&url);
    }

    /// Bytes of the piece under way.
    fn count(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.mixer.update(bytes);
        if let Some(decoding) = &mut self.decoding {
            decoding.update(bytes);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_SMALL.saturating_sub(self.small.len());
        self.small.extend(bytes.iter().take(room));
    }

    /// The string under way is whole.
    fn end(&mut self) {
        self.state = State::CommaOrEnd;
        match self.target {
            Target::Name => {
                let name = Name::of(&self.small);
                if let Some(frame) = self.stack.last_mut() {
                    frame.name = name;
                }
                self.state = State::Colon;
            }
            Target::Piece(form) => self.piece(form, None),
            Target::Url(form) => {
                if !self.payload {
                    self.plain_url();
                }
                let kind = self.small.strip_prefix(b"data:").and_then(Kind::of_mime);
                self.piece(form, kind);
            }
            Target::Short(Name::Mime) => {
                let kind = Kind::of_mime(&self.small);
                if let Some(frame) = self.stack.last_mut() {
                    frame.mime = kind;
                }
            }
            Target::Short(_) => self.content.model = Some(String::from_utf8_lossy(&self.small).into_owned()),
            Target::Nothing => {}
        }
    }

    fn piece(&mut self, form: Form, kind: Option<Kind>) {
        let hash = std::mem::replace(&mut self.mixer, Mixer::new()).finish();
        let mut found = Found::new(form, hash, self.bytes);
        found.kind = kind.or(found.kind);
        found.sha256 = self.decoding.take().and_then(Decoding::finish);
        if let Some(frame) = self.stack.last_mut() {
            frame.piece = Some(self.content.pieces.len());
        }
        self.content.push(found);
    }

    /// The literal under way is whole.
    fn literal(&mut self) {
        self.state = State::CommaOrEnd;
        let yes = self.small == b"true";
        match (self.name(), self.stack.len()) {
            (Name::Seed, 1 | 2) => self.content.seed = Mixer::of(&self.small),
            (Name::Stream, 1) => self.content.stream = yes,
            (Name::IncludeUsage, 2) if self.owner() == Name::StreamOptions => {
                self.content.include_usage = yes;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
