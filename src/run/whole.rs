//! Whether the media that requests name are there, and what preparing them left: a part of the check of the data that
//! needs to know what is asked, since a run of written questions needs no clips.

use std::collections::HashSet;

use super::plan::PlannedRequest;
use crate::dataset::Dataset;
use crate::media::MediaSource;
use crate::types::shown;

/// Looks at the media of requests, each once.
#[derive(Debug, Default)]
pub(super) struct MediaCheck {
    seen: HashSet<u64>,
    missing: u64,
    /// The first that is missing, and why.
    first: String,
}

impl MediaCheck {
    /// Looks at the media of a request.
    pub(super) fn add(&mut self, data: &Dataset, request: &PlannedRequest) {
        let prompt = &request.prompt;
        let clips = prompt.audio().into_iter().map(|audio| &audio.name);
        for name in clips.chain(prompt.images().into_iter().map(|image| &image.name)) {
            if self.seen.insert(super::plan::id_hash(name)) {
                self.look(data, name);
            }
        }
    }

    fn look(&mut self, data: &Dataset, name: &str) {
        let why = match data.media(name) {
            Ok(source) => {
                // Files that were prepared were looked at when the data were opened.
                let gone = |piece: &&MediaSource| !piece.is_embedded() && !piece.file().exists();
                match (&source, source.pieces().iter().find(gone)) {
                    (_, None) => return,
                    (MediaSource::Joined(_), Some(piece)) => piece.to_string(),
                    (_, Some(_)) => shown(name).into_owned(),
                }
            }
            Err(error) => error.to_string(),
        };
        self.missing += 1;
        if self.missing == 1 {
            self.first = why;
        }
    }

    /// How the media differ from what was published: fragments of sentences.
    pub(super) fn finish(self, data: &Dataset) -> Vec<String> {
        let mut found = data.unprepared();
        match self.missing {
            0 => {}
            1 => found.push(format!("1 clip or image is missing: {}", self.first)),
            n => found.push(format!("{n} clips or images are missing, the first is {}", self.first)),
        }
        found
    }
}
