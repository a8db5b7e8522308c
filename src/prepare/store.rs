//! The media of a row, as the layouts ask for them.
//!
//! A row is made twice of the same values: first it only asks, and nothing is read; then the media that it asked for are
//! made, each by whichever thread is free; then it is made of what became of them. So a layout reads like one pass from
//! top to bottom, and yet the clips of a single row keep all processors busy.

use super::PrepareError;
use super::counting::FileNote;
use super::files::{Files, hash};
use crate::dataset::MediaNameError;
use crate::dataset::prepared::FOLDER;
use crate::media::{self, Cause, MediaSource};
use crate::types::shown;

/// A clip or image that a row asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Want {
    /// Its name in the published data.
    pub(super) name: String,
    /// How the name of its file begins.
    pub(super) stem: String,
}

/// A clip or image that has a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Saved {
    /// Its name in the data folder.
    pub(super) name: String,
    /// Its length, where it is audio whose header is read.
    pub(super) seconds: Option<f64>,
    /// Its rate, likewise.
    pub(super) rate: Option<u32>,
}

/// What became of a clip or image.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kept {
    /// It has a file.
    Saved(Saved, FileNote),
    /// Nothing stands in its place.
    Absent,
    /// It cannot be had: a sentence, and whether it may be another time.
    Broken { problem: String, may_pass: bool },
}

/// What a row asks for, or what became of that; and what is noted of the row.
#[derive(Debug)]
pub(super) struct Store {
    media: Media,
    pub(super) files: Vec<FileNote>,
    pub(super) absent: u64,
    pub(super) problems: Vec<String>,
    /// Those of the problems that may pass.
    pub(super) faults: u64,
}

#[derive(Debug)]
enum Media {
    Asked(Vec<Want>),
    Made(std::vec::IntoIter<(Want, Kept)>),
}

/// A name as a part of a file's name on any system.
pub(super) fn plain(text: &str) -> String {
    let plain = text.chars().take(60).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    plain.collect::<String>().trim_matches('-').to_owned()
}

impl Store {
    fn new(media: Media) -> Self {
        Self { media, files: Vec::new(), absent: 0, problems: Vec::new(), faults: 0 }
    }

    /// Takes down what a row asks for.
    pub(super) fn asking() -> Self {
        Self::new(Media::Asked(Vec::new()))
    }

    /// What was asked for.
    pub(super) fn wants(self) -> Vec<Want> {
        match self.media {
            Media::Asked(wants) => wants,
            Media::Made(_) => Vec::new(),
        }
    }

    /// Answers with what became of it, in the order in which it was asked for.
    pub(super) fn answering(made: Vec<(Want, Kept)>) -> Self {
        Self::new(Media::Made(made.into_iter()))
    }

    /// The file of a clip or image, whose name begins with `stem`; `None` where there is none, or it cannot be read, which
    /// is noted. What is asked for must not depend on what earlier calls answered.
    pub(super) fn keep(&mut self, name: &str, stem: &str) -> Result<Option<Saved>, PrepareError> {
        let made = match &mut self.media {
            Media::Asked(wants) => {
                wants.push(Want { name: name.to_owned(), stem: stem.to_owned() });
                return Ok(None);
            }
            Media::Made(made) => made.next().filter(|(want, _)| want.name == name && want.stem == stem),
        };
        let Some((_, kept)) = made else {
            return Err(PrepareError::Internal("a row asks for other media than it did before"));
        };
        match kept {
            Kept::Saved(saved, file) => {
                self.files.push(file);
                return Ok(Some(saved));
            }
            Kept::Absent => self.absent += 1,
            Kept::Broken { problem, may_pass } => {
                self.problems.push(problem);
                self.faults += u64::from(may_pass);
            }
        }
        Ok(None)
    }
}

/// What is said of a problem that may pass.
pub(super) const AGAIN: &str = "the same command tries it again";
/// And of one that does not.
pub(super) const STAYS: &str = "only another published file helps";

/// Where the media of a set go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The data folder that is written to.
    pub(super) to: &'a std::path::Path,
    /// The set.
    pub(super) set: &'a str,
    /// Whether files of their own may stay where they are.
    pub(super) in_place: bool,
    pub(super) files: &'a Files,
}

/// Makes a file of a clip or image, or says why there is none. Only a disk that is not written to is an error.
pub(super) fn make(
    source: &Result<MediaSource, MediaNameError>,
    want: &Want,
    target: Target<'_>,
) -> Result<Kept, PrepareError> {
    let name = &want.name;
    let source = match source {
        Ok(source) => source,
        // Such a name leads nowhere as long as the row has it.
        Err(error) => return Ok(Kept::Broken { problem: format!("{error}; {STAYS}"), may_pass: false }),
    };
    // Of a file beside the rows another content may be put in its place, and nothing that the record of a set holds would
    // tell: it is looked at again. What lies in a file of rows stays as it is as long as that file does, whose size and
    // time the record has.
    let broken = |sentence: &str, may_pass: bool| {
        // Beside the rows nothing can be put under a name that no file can have, such as that of a text that is no name.
        let may_pass = may_pass || !(source.is_embedded() || is_no_name(source));
        let then = if may_pass { AGAIN } else { STAYS };
        Ok(Kept::Broken { problem: format!("{}: {sentence}; {then}", shown(name)), may_pass })
    };
    let content = match source.read() {
        Ok(content) => content,
        Err(error) => match error.cause {
            Cause::Nothing => return Ok(Kept::Absent),
            cause @ (Cause::Content | Cause::System) => {
                return broken(&error.to_string(), cause == Cause::System);
            }
        },
    };
    let file = match media::as_file(content) {
        Ok(file) => file,
        Err(sentence) => return broken(&sentence, false),
    };
    let audio = file.audio.as_ref().filter(|audio| audio.rate > 0);
    let seconds = audio.map(|audio| audio.frames as f64 / f64::from(audio.rate));
    let place = if source.is_embedded() || !target.in_place {
        let place = format!("{FOLDER}/{}/{}-{}.{}", target.set, want.stem, hash(&file.bytes), file.suffix);
        target.files.write(target.to, &place, &file.bytes)?;
        place
    } else {
        // A file of its own already.
        name.clone()
    };
    let note = FileNote {
        name: place.clone(),
        bytes: file.bytes.len() as u64,
        seconds: seconds.unwrap_or(0.0),
        form: file.form.into(),
        beyond: file.beyond,
    };
    Ok(Kept::Saved(Saved { name: place, seconds, rate: audio.map(|audio| audio.rate) }, note))
}

/// Whether no file can have the name of a source, because it is too long.
fn is_no_name(source: &MediaSource) -> bool {
    let found = std::fs::metadata(source.file());
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::InvalidFilename)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
