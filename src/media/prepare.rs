//! Media ready for a model: read, decoded, cut and turned into features, once for all requests on a clip.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::audio::mel::{MelError, MelExtractor};
use super::audio::{AudioError, DecodeSpec};
use crate::model::{AudioNeed, MediaLimits};
use crate::types::{AudioContent, AudioRecord, AudioRef, PreparedAudio, Window};

/// Clips that are kept ready. Requests on one clip stand next to each other in a plan, so few are enough;
/// the features of 30 s take 1.5 MB.
const KEPT: usize = 32;

/// The rate of log-mel features, in Hz.
const RATE: u32 = 16_000;

/// Media that cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MediaError {
    /// The model takes no audio.
    #[error("the request holds audio, and the model hears none")]
    NotHeard,
    /// The clip is bad, or more than the model takes.
    #[error("{}: {reason}", .path.display())]
    Clip {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A clip that is ready, and what was done to it.
#[derive(Clone, Debug)]
pub struct Ready {
    /// What the model gets.
    pub audio: PreparedAudio,
    /// What was done.
    pub record: AudioRecord,
}

type Slot = Arc<OnceLock<Result<Arc<Ready>, MediaError>>>;

/// Makes clips ready for one model.
pub struct Preparer {
    extractor: Option<MelExtractor>,
    max_seconds: f64,
    kept: Mutex<VecDeque<(PathBuf, Window, Slot)>>,
}

impl Preparer {
    /// A preparer for a model's limits.
    pub fn new(limits: &MediaLimits) -> Result<Self, MelError> {
        let extractor = match limits.audio {
            AudioNeed::None | AudioNeed::File { .. } => None,
            AudioNeed::LogMel { bins } => Some(MelExtractor::new(bins)?),
        };
        Ok(Self { extractor, max_seconds: limits.max_seconds, kept: Mutex::default() })
    }

    /// A clip, ready. The first who asks reads the file; who asks meanwhile waits for the same result.
    pub fn audio(&self, path: &Path, audio: &AudioRef) -> Result<Arc<Ready>, MediaError> {
        let Some(extractor) = &self.extractor else { return Err(MediaError::NotHeard) };
        let slot = self.slot(path, audio.window);
        slot.get_or_init(|| {
            self.read(path, audio.window, extractor)
                .map(Arc::new)
                .map_err(|reason| MediaError::Clip { path: path.to_owned(), reason })
        })
        .clone()
    }

    fn slot(&self, path: &Path, window: Window) -> Slot {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, slot)) = kept.iter().find(|(p, w, _)| p == path && *w == window) {
            return Arc::clone(slot);
        }
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        let slot = Slot::default();
        kept.push_back((path.to_owned(), window, Arc::clone(&slot)));
        slot
    }

    fn read(&self, path: &Path, window: Window, extractor: &MelExtractor) -> Result<Ready, String> {
        let spec = DecodeSpec { rate: RATE, window, max_seconds: self.max_seconds };
        let clip = super::audio::decode_file(path, &spec).map_err(|e: AudioError| e.to_string())?;
        let features = extractor.compute(&clip.samples).map_err(|e| e.to_string())?;
        Ok(Ready {
            audio: PreparedAudio { digest: clip.digest, content: AudioContent::Features(Arc::new(features)) },
            record: clip.record,
        })
    }
}
