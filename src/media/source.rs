//! Where the bytes of a clip or image are: in a file of their own, or inside a dataset's file.
//!
//! Whoever names media hands out a [`MediaSource`]; who prepares them reads it. Neither knows how the other
//! works: this room knows no dataset format, the dataset knows no codec.

use std::fmt;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use crate::types::{AudioSource, buffer, share, shown};

/// A file as it was when it was read: what tells whether it has changed since. Media inside a dataset's file
/// have the size and time of that file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last changed, in nanoseconds since 1970, where the file system says.
    pub modified: Option<u64>,
}

impl FileFacts {
    /// The facts of a file that is there.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        std::fs::metadata(path).map(|meta| Self::from(&meta))
    }
}

impl From<&std::fs::Metadata> for FileFacts {
    fn from(meta: &std::fs::Metadata) -> Self {
        let since = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Self { bytes: meta.len(), modified }
    }
}

/// What a dataset's file holds of a clip or image.
#[derive(Clone, Debug, PartialEq)]
pub enum MediaContent {
    /// The bytes of a whole file: WAV, PNG…
    File(Bytes),
    /// Samples without any container.
    Samples(RawSamples),
}

/// Mono samples as they stand in a dataset, without a container.
#[derive(Clone, Debug, PartialEq)]
pub struct RawSamples {
    /// Their rate in Hz.
    pub rate: u32,
    /// Their values.
    pub values: SampleValues,
}

/// The values of samples.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleValues {
    /// Full scale at 32768.
    I16(Vec<i16>),
    /// Full scale at 1.
    F32(Vec<f32>),
    /// Full scale at 1.
    F64(Vec<f64>),
}

/// Why there is nothing to read where samples could stand: null in their place. Sets hold such places on purpose.
pub const NO_SAMPLES: &str = "holds no samples";
/// The same, for a list without items.
pub const EMPTY_SAMPLES: &str = "has no samples: its list is empty";

/// What keeps media from being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing stands in a place where something could: sets hold such places on purpose.
    Nothing,
    /// What stands there is not what it should be. It stays so until the data are other ones.
    Content,
    /// The system did not give it, and may at another time.
    System,
}

/// Media that cannot be read: a sentence that reads well after their name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct ReadError {
    /// What is the cause.
    pub cause: Cause,
    sentence: String,
}

impl ReadError {
    /// An error of a cause.
    pub fn new(cause: Cause, sentence: String) -> Self {
        Self { cause, sentence }
    }

    /// Nothing stands there.
    pub fn nothing(sentence: &str) -> Self {
        Self { cause: Cause::Nothing, sentence: sentence.to_owned() }
    }

    /// The system's words on a file. That it ends too early is a fault of the file, which does not pass, and a name that is
    /// too long stays so.
    pub fn system(error: &std::io::Error) -> Self {
        let cause = match error.kind() {
            std::io::ErrorKind::UnexpectedEof
            | std::io::ErrorKind::InvalidData
            | std::io::ErrorKind::InvalidFilename => Cause::Content,
            _ => Cause::System,
        };
        Self { cause, sentence: format!("cannot be read: {error}") }
    }

    /// The same error in other words.
    #[must_use]
    pub fn in_words(self, words: impl FnOnce(&str) -> String) -> Self {
        Self { sentence: words(&self.sentence), ..self }
    }
}

/// A sentence without anything said of its cause is on what was read.
impl From<String> for ReadError {
    fn from(sentence: String) -> Self {
        Self { cause: Cause::Content, sentence }
    }
}

impl From<&str> for ReadError {
    fn from(sentence: &str) -> Self {
        sentence.to_owned().into()
    }
}

/// For those who have nothing to do but to tell of it.
impl From<ReadError> for String {
    fn from(error: ReadError) -> Self {
        error.sentence
    }
}

/// All of a file.
pub(super) fn whole_file(path: &Path) -> std::io::Result<Bytes> {
    let mut file = File::open(path)?;
    let expected = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    // One more: then the end of the file is found without asking for more room.
    let mut bytes = buffer(expected.saturating_add(1));
    file.read_to_end(&mut bytes)?;
    Ok(share(bytes))
}

/// Something that reads media inside a dataset's file, when they are wanted.
pub trait ReadMedia: Send + Sync {
    /// The media of a name.
    fn read_media(&self, name: &str) -> Result<MediaContent, ReadError>;
}

/// Media inside a dataset's file.
#[derive(Clone)]
pub struct Embedded {
    file: Arc<Path>,
    name: String,
    reader: Arc<dyn ReadMedia>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("file", &self.file).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where the bytes of a clip or image are. Equal sources give equal bytes while their file is not changed.
#[derive(Clone, Debug)]
pub enum MediaSource {
    /// A file of its own.
    File(PathBuf),
    /// A part of a dataset's file.
    Embedded(Embedded),
    /// Several clips, one behind the other.
    Joined(Joined),
}

/// Clips that are heard as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Joined {
    pieces: Arc<[MediaSource]>,
    /// Milliseconds of silence between them.
    gap_ms: u32,
}

impl Joined {
    /// What is joined.
    pub(super) fn join(&self) -> Result<super::joined::Joint, String> {
        super::joined::join(&self.pieces, self.gap_ms)
    }

    /// What the headers of the pieces come to.
    pub(super) fn probe(&self) -> Result<AudioSource, String> {
        super::joined::probe(&self.pieces, self.gap_ms)
    }
}

impl MediaSource {
    /// Clips one behind the other, with so many milliseconds of silence between them.
    pub fn joined(pieces: Vec<Self>, gap_ms: u32) -> Self {
        Self::Joined(Joined { pieces: pieces.into(), gap_ms })
    }

    /// Media inside `file`, which `reader` reads by their `name`.
    pub fn embedded(file: Arc<Path>, name: impl Into<String>, reader: Arc<dyn ReadMedia>) -> Self {
        Self::Embedded(Embedded { file, name: name.into(), reader })
    }

    /// The clips that it is joined of; else itself alone.
    pub fn pieces(&self) -> &[Self] {
        match self {
            Self::Joined(joined) => &joined.pieces,
            Self::File(_) | Self::Embedded(_) => std::slice::from_ref(self),
        }
    }

    /// The file on disk: its own, or the one that it is inside of.
    pub fn file(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Embedded(embedded) => &embedded.file,
            // Of several, the first.
            Self::Joined(joined) => joined.pieces.first().map_or(Path::new(""), Self::file),
        }
    }

    /// Whether it, or a part of it, lies inside a dataset's file.
    pub fn is_embedded(&self) -> bool {
        self.pieces().iter().any(|piece| matches!(piece, Self::Embedded(_)))
    }

    /// Size and time of [`Self::file`], as they are now; of several clips the sizes together and the latest time.
    pub fn facts(&self) -> std::io::Result<FileFacts> {
        let Self::Joined(joined) = self else { return FileFacts::of(self.file()) };
        joined.pieces.iter().try_fold(FileFacts { bytes: 0, modified: None }, |all, piece| {
            let facts = piece.facts()?;
            let bytes = all.bytes.saturating_add(facts.bytes);
            Ok(FileFacts { bytes, modified: all.modified.max(facts.modified) })
        })
    }

    /// All bytes, or samples.
    pub fn read(&self) -> Result<MediaContent, ReadError> {
        match self {
            Self::File(path) => whole_file(path).map(MediaContent::File).map_err(|e| ReadError::system(&e)),
            Self::Embedded(embedded) => embedded.reader.read_media(&embedded.name),
            Self::Joined(joined) => Ok(MediaContent::File(joined.join()?.file)),
        }
    }

    fn identity(&self) -> (&Path, Option<&str>, Option<&Joined>) {
        match self {
            Self::File(path) => (path, None, None),
            Self::Embedded(embedded) => (&embedded.file, Some(&embedded.name), None),
            Self::Joined(joined) => (Path::new(""), None, Some(joined)),
        }
    }
}

impl PartialEq for MediaSource {
    fn eq(&self, other: &Self) -> bool {
        // Names differ more often than the file that holds all of them.
        let ((file, name, joined), (other_file, other_name, other_joined)) =
            (self.identity(), other.identity());
        name == other_name && file == other_file && joined == other_joined
    }
}

impl Eq for MediaSource {}

impl Hash for MediaSource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl From<PathBuf> for MediaSource {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&Path> for MediaSource {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

/// The path of a file; for media inside one, that of the file's folder followed by the media's name.
impl fmt::Display for MediaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&shown(&path.to_string_lossy())),
            Self::Embedded(Embedded { file, name, .. }) => {
                let place = name.rsplit_once('#').map_or(&**name, |(_, place)| place);
                write!(f, "{}#{}", file.display(), shown(place))
            }
            Self::Joined(joined) => match joined.pieces.as_ref() {
                [] => f.write_str("no clips"),
                [one] => one.fmt(f),
                [first, rest @ ..] => write!(f, "{first} and {} more", rest.len()),
            },
        }
    }
}
