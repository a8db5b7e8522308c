//! What `harness check` knows of clips and images: the header of each is looked at as the model gets it, so that a run does not
//! find out after it was paid for.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;

use super::exit::Failure;
use super::progress::plural;
use super::run::transform_of;
use crate::config::RunConfig;
use crate::config::endpoint::Transcode;
use crate::media::{self, ImageFacts, ImageTransform, MediaSource};
use crate::model::{AudioNeed, ImageNeed, MediaLimits, PatchNeed};
use crate::run::plan::Requests;
use crate::types::{AudioSource, Window, shown};

/// Problems of one kind that are shown; the rest is counted.
pub(super) const SHOWN: usize = 10;

/// Media inside the data's files that are looked at in each section: they are read to be looked at, and a few tell as much
/// as a million.
const LOOKED_AT_INSIDE: usize = 100;

/// A kind of media, each looked at once; of those inside the data's files, the first ones.
struct Looked<K> {
    kind: &'static str,
    seen: HashSet<K>,
    inside: usize,
    more_inside: bool,
    bad: usize,
    problems: Vec<String>,
}

impl<K: Eq + Hash> Looked<K> {
    fn new(kind: &'static str) -> Self {
        Self { kind, seen: HashSet::new(), inside: 0, more_inside: false, bad: 0, problems: Vec::new() }
    }

    /// Looks at a medium of a sample. `key` tells it from others; an error of `look` reads well after its name.
    fn at(
        &mut self,
        sample: &str,
        source: Result<MediaSource, impl Display>,
        key: impl FnOnce(&MediaSource) -> K,
        look: impl FnOnce(&MediaSource) -> Result<(), String>,
    ) {
        let source = match source {
            Ok(source) => source,
            Err(error) => return self.problem(sample, &error),
        };
        if source.is_embedded() && self.inside >= LOOKED_AT_INSIDE {
            self.more_inside = true;
            return;
        }
        if !self.seen.insert(key(&source)) {
            return;
        }
        self.inside += usize::from(source.is_embedded());
        if let Err(reason) = look(&source) {
            self.problem(sample, &format_args!("{source}: {reason}"));
        }
    }

    fn problem(&mut self, sample: &str, what: &dyn Display) {
        self.bad += 1;
        if self.bad <= SHOWN {
            self.problems.push(format!("error: sample {}: {what}", shown(sample)));
        }
    }

    /// Whether all lie inside the data's files and enough of them were looked at: then the rest of the plan tells nothing
    /// new.
    fn is_done(&self) -> bool {
        self.more_inside && self.inside == self.seen.len()
    }

    /// Tells what was wrong; gives what is to be said behind the line about them.
    fn finish(self, problems: &mut Vec<String>) -> &'static str {
        problems.extend(self.problems);
        if let Some(more) = self.bad.checked_sub(SHOWN).filter(|more| *more > 0) {
            problems.push(format!("error: {} more have such problems", plural(more as u64, self.kind)));
        }
        if self.more_inside { "; the first of those inside the data's files" } else { "" }
    }
}

/// What of a plan's media is looked at.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    /// The config, and what the model that hears takes; clips are not looked at without.
    pub(super) clips: Option<(&'a RunConfig, Option<&'a MediaLimits>)>,
    /// For what images are looked at; not at all without.
    pub(super) images: Option<Sight>,
}

/// What becomes of images on their way to a model: what it wants of them, and what may be done to them.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    need: ImageNeed,
    transform: ImageTransform,
}

/// What a local model wants whose files are not at hand: only what all of them refuse is known.
const ANY_PATCHES: PatchNeed = PatchNeed { patch: 1, merge: 1, min_pixels: 1, max_pixels: u64::MAX };

impl Sight {
    /// That of the model that sees. `limits` is what it takes, where that is known.
    pub(super) fn new(config: &RunConfig, limits: Option<&MediaLimits>) -> Self {
        let model = config.model.answering();
        let unknown = if model.local.is_some() { ImageNeed::Pixels(ANY_PATCHES) } else { ImageNeed::File };
        Self { need: limits.map_or(unknown, |limits| limits.images), transform: transform_of(&model.image) }
    }
}

/// A line about the clips and one about the images of a plan; none where there are none.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) clips: Option<String>,
    pub(super) images: Option<String>,
}

/// Looks at the media of a plan, in one pass.
pub(super) fn look(
    requests: &dyn Requests,
    look: Look<'_>,
    problems: &mut Vec<String>,
) -> Result<Lines, Failure> {
    let mut clips = look.clips.map(|(config, limits)| Clips::new(config, limits));
    let mut images = look.images.map(Images::new);
    requests.each(&mut |request| {
        let Some(dataset) = requests.dataset(request.section) else { return true };
        let sample = &request.planned.sample;
        if let Some(Clips { looked, facts }) = &mut clips {
            for audio in request.prompt.audio() {
                let key = |source: &MediaSource| (source.clone(), audio.window);
                looked.at(sample, dataset.media(&audio.name), key, |source| facts.add(source, audio.window));
            }
        }
        if let Some(Images { looked, facts }) = &mut images {
            for image in request.prompt.images() {
                looked.at(sample, dataset.media(&image.name), MediaSource::clone, |source| facts.add(source));
            }
        }
        !(clips.as_ref().is_none_or(|clips| clips.looked.is_done())
            && images.as_ref().is_none_or(|images| images.looked.is_done()))
    })?;
    Ok(Lines {
        clips: clips.and_then(|clips| clips.finish(problems)),
        images: images.and_then(|images| images.finish(problems)),
    })
}

struct Clips {
    looked: Looked<(MediaSource, Window)>,
    facts: ClipFacts,
}

struct ClipFacts {
    max_seconds: f64,
    /// Whether files are sent as they are, for nothing may be done to them.
    untouched: bool,
    rates: BTreeMap<u32, u64>,
    shortest: f64,
    longest: f64,
    seconds: f64,
    good: u64,
}

impl Clips {
    fn new(config: &RunConfig, limits: Option<&MediaLimits>) -> Self {
        let audio = &config.model.hearing().audio;
        let as_files = limits.is_some_and(|limits| matches!(limits.audio, AudioNeed::File { .. }));
        let facts = ClipFacts {
            max_seconds: limits.map_or(audio.max_seconds, |limits| limits.max_seconds.min(audio.max_seconds)),
            untouched: audio.transcode == Transcode::Never && as_files,
            rates: BTreeMap::new(),
            shortest: f64::INFINITY,
            longest: 0.0,
            seconds: 0.0,
            good: 0,
        };
        Self { looked: Looked::new("clip"), facts }
    }

    fn finish(self, problems: &mut Vec<String>) -> Option<String> {
        let Self { looked, facts: ClipFacts { rates, shortest, longest, seconds, good, .. } } = self;
        let rest = looked.finish(problems);
        let rates = rates.iter().map(|(rate, n)| format!("{n} at {rate} Hz")).collect::<Vec<_>>().join(", ");
        (good > 0).then(|| {
            format!(
                "{good}, {shortest:.1} to {longest:.1} s, {:.1} min in all ({rates}){rest}",
                seconds / 60.0
            )
        })
    }
}

impl ClipFacts {
    fn add(&mut self, clip: &MediaSource, window: Window) -> Result<(), String> {
        let source = media::probe(clip)?;
        let (length, max_seconds) = (length(&source), self.max_seconds);
        let too_long = length > max_seconds + 0.001;
        if window == Window::Whole && too_long {
            return Err(format!(
                "is {length:.1} s long, the model takes {max_seconds} s: set `window = \"first\"` or `\"last\"` under \
                 [model.audio]"
            ));
        }
        // Samples and joined clips are written anew in any case.
        if self.untouched && matches!(clip, MediaSource::File(_)) && too_long {
            return Err(format!(
                "is {length:.1} s long and is to be cut to its {} {max_seconds} s, which changes the file: set \
                 `transcode = \"wav\"` under [model.audio]",
                window.as_str()
            ));
        }
        self.good += 1;
        *self.rates.entry(source.rate).or_default() += 1;
        self.shortest = self.shortest.min(length);
        self.longest = self.longest.max(length);
        self.seconds += length;
        Ok(())
    }
}

fn length(source: &AudioSource) -> f64 {
    source.frames as f64 / f64::from(source.rate.max(1))
}

struct Images {
    looked: Looked<MediaSource>,
    facts: ImagesFacts,
}

struct ImagesFacts {
    sight: Sight,
    formats: BTreeMap<&'static str, u64>,
    smallest: Option<ImageFacts>,
    largest: Option<ImageFacts>,
}

impl Images {
    fn new(sight: Sight) -> Self {
        let facts = ImagesFacts { sight, formats: BTreeMap::new(), smallest: None, largest: None };
        Self { looked: Looked::new("image"), facts }
    }

    fn finish(self, problems: &mut Vec<String>) -> Option<String> {
        let Self { looked, facts: ImagesFacts { formats, smallest, largest, .. } } = self;
        let rest = looked.finish(problems);
        let all: u64 = formats.values().sum();
        let kinds = formats.iter().map(|(format, n)| format!("{n} {format}")).collect::<Vec<_>>().join(", ");
        smallest.zip(largest).map(|(small, large)| {
            format!(
                "{all}, {} x {} to {} x {} pixels ({kinds}){rest}",
                small.width, small.height, large.width, large.height
            )
        })
    }
}

impl ImagesFacts {
    fn add(&mut self, image: &MediaSource) -> Result<(), String> {
        let facts = media::probe_image(image, &self.sight.need, &self.sight.transform)?;
        let size = |facts: &ImageFacts| (u64::from(facts.width) * u64::from(facts.height), facts.width);
        *self.formats.entry(facts.format).or_default() += 1;
        if self.smallest.is_none_or(|known| size(&facts) < size(&known)) {
            self.smallest = Some(facts);
        }
        if self.largest.is_none_or(|known| size(&facts) > size(&known)) {
            self.largest = Some(facts);
        }
        Ok(())
    }
}
