//! The content of a source, open for the audio code: a file that is read where it is needed, or bytes in memory.

use std::fs::File;
use std::io::Cursor;
use std::path::Path;

use bytes::Bytes;

use super::audio::{self, AudioError, Clip, DecodeSpec};
use super::joined::Joint;
use super::source::{MediaContent, MediaSource, RawSamples, whole_file};
use super::{sentence, wav};
use crate::types::AudioSource;

/// The content of a source.
pub(super) enum Content<'a> {
    /// A file on disk: only what is needed of it is read.
    File(&'a Path),
    /// A file in memory.
    Memory(Bytes),
    /// Samples that had no container, as a WAV file in memory.
    Samples(Bytes),
    /// Several clips as one, in the same form.
    Joined(Joint),
}

impl<'a> Content<'a> {
    /// Opens a source.
    pub(super) fn open(source: &'a MediaSource) -> Result<Self, String> {
        if let MediaSource::File(path) = source {
            return Ok(Self::File(path));
        }
        if let MediaSource::Joined(joined) = source {
            return joined.join().map(Self::Joined);
        }
        match source.read()? {
            MediaContent::File(bytes) => Ok(Self::Memory(bytes)),
            MediaContent::Samples(RawSamples { rate, values }) => {
                wav::container(&values, rate).map(Self::Samples)
            }
        }
    }

    /// The name of the audio format.
    pub(super) fn format(&self) -> Result<&'static str, String> {
        match self {
            Self::File(path) => audio::format(&mut File::open(path).map_err(sentence)?),
            Self::Memory(bytes) | Self::Samples(bytes) | Self::Joined(Joint { file: bytes, .. }) => {
                audio::format(&mut Cursor::new(bytes))
            }
        }
        .map_err(sentence)?
        .map_err(|other| other.to_string())
    }

    /// What the header says.
    pub(super) fn probe(&self) -> Result<AudioSource, AudioError> {
        match self {
            Self::File(path) => audio::probe_file(path),
            Self::Memory(bytes) | Self::Samples(bytes) | Self::Joined(Joint { file: bytes, .. }) => {
                audio::probe_bytes(bytes)
            }
        }
    }

    /// The samples.
    pub(super) fn decode(&self, spec: &DecodeSpec) -> Result<Clip, AudioError> {
        match self {
            Self::File(path) => audio::decode_file(path, spec),
            Self::Memory(bytes) | Self::Samples(bytes) | Self::Joined(Joint { file: bytes, .. }) => {
                audio::decode_bytes(bytes, spec)
            }
        }
    }

    /// What was done before there was one clip.
    pub(super) fn steps(&self) -> Vec<String> {
        match self {
            Self::Joined(joint) => joint.steps.clone(),
            Self::File(_) | Self::Memory(_) | Self::Samples(_) => Vec::new(),
        }
    }

    /// Size in bytes.
    pub(super) fn len(&self) -> Result<u64, String> {
        match self {
            Self::File(path) => std::fs::metadata(path).map(|meta| meta.len()).map_err(sentence),
            Self::Memory(bytes) | Self::Samples(bytes) | Self::Joined(Joint { file: bytes, .. }) => {
                Ok(bytes.len() as u64)
            }
        }
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> Result<Bytes, String> {
        match self {
            Self::File(path) => whole_file(path).map_err(sentence),
            Self::Memory(bytes) | Self::Samples(bytes) | Self::Joined(Joint { file: bytes, .. }) => {
                Ok(bytes.clone())
            }
        }
    }
}

/// What the header of a clip says; nothing is decoded. An error is a sentence that reads well after the source's
/// name.
/// Of several clips that are heard as one: what they come to at the rate that they are joined at.
pub fn probe(source: &MediaSource) -> Result<AudioSource, String> {
    if let MediaSource::Joined(joined) = source {
        return joined.probe();
    }
    Content::open(source)?.probe().map_err(sentence)
}
