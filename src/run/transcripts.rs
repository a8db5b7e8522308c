//! Transcripts: the stage before a cascade's model, its journal, and what it leaves with the run.
//!
//! Clips go through a recogniser once, whatever number of questions, seeds or models follow: transcripts are known by
//! the clip's content and by how the recogniser was asked. The requests of the plan then hold text where they held
//! clips, and nothing else in them changes. A run keeps a copy of the transcripts that it used, so that it can be
//! scored elsewhere.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::alarms::seconds_used;
use super::cost;
use super::digests::DigestSet;
use super::folder::{FolderError, write_whole};
use super::journal::{Journal, JournalError};
use super::plan::{Plan, PlanError, PlannedRequest, Recipe, Requests, Settled};
use super::sorted::{Sorted, Sorter};
use crate::config::CascadeConfig;
use crate::config::cascade::{AsrLanguage, LANGUAGE_PLACE, TranscribeBy};
use crate::dataset::Dataset;
use crate::languages;
use crate::model::ModelIdentity;
use crate::prompt::fill;
use crate::types::{
    AudioRef, Digest, Generation, Message, Outcome, Part, Planned, Prompt, Response, Role, Tags, Usage,
    Window,
};

/// The version of the file that a run keeps.
pub const VERSION: u32 = 1;

const FORMAT: &str = "harness-transcripts";

/// Transcripts that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptsError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The run's copy.
    #[error(
        "{}: {reason}; run the config again where the transcripts that runs share are (`transcripts` in the results \
         folder), which makes the file anew; where they are gone, delete it: the run is then scored without its \
         transcripts' figures", .path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// How a recogniser is asked.
#[derive(Clone, Debug)]
pub struct Asr {
    recipe: Recipe,
    forced: bool,
    by: TranscribeBy,
    /// What a chat model is asked; `None` for recognisers that take a clip alone.
    chat: Option<String>,
    window: Window,
}

impl Asr {
    /// For a recogniser. `alone` where it takes a clip and no words beside it.
    pub fn new(config: &CascadeConfig, identity: &ModelIdentity, alone: bool) -> Self {
        let transcripts = &config.transcripts;
        // Greedy: neither the run's seed nor the settings of its answers matter.
        let recipe = Recipe::new(identity, config.asr.audio.max_seconds, &Self::generation(config), 0);
        Self {
            recipe,
            forced: transcripts.language == AsrLanguage::Forced,
            by: transcripts.by,
            chat: (!alone).then(|| transcripts.prompt.clone()),
            window: config.asr.audio.window,
        }
    }

    /// How transcripts are generated.
    pub fn generation(config: &CascadeConfig) -> Generation {
        Generation { max_new_tokens: config.transcripts.max_new_tokens, ..Generation::default() }
    }

    /// A name for its journal's folder: other settings have another one.
    pub fn digest(&self) -> Digest {
        let nothing = Prompt::Raw { text: String::new(), audio: Vec::new() };
        self.recipe.request("transcripts", "", &nothing, None)
    }

    /// The clips of which a clip is transcribed, one by one.
    fn pieces(&self, clip: &AudioRef) -> Vec<AudioRef> {
        let pieces = match self.by {
            TranscribeBy::Sentence => clip.pieces(),
            TranscribeBy::Clip => vec![clip.clone()],
        };
        pieces.into_iter().map(|piece| AudioRef { window: self.window, ..piece }).collect()
    }

    /// What is asked about a clip of a language, and the language that the recogniser is told.
    fn prompt(&self, clip: &AudioRef, language: &str) -> (Prompt, Option<String>) {
        let user = |parts| Prompt::Chat(vec![Message { role: Role::User, parts }]);
        match (&self.chat, languages::whisper(language).filter(|_| self.forced)) {
            (Some(text), _) => {
                let name = languages::find(language).map_or(language, |found| found.name.as_str());
                // A prompt without a place for it tells none.
                let told = (self.forced && text.contains(LANGUAGE_PLACE)).then(|| name.to_owned());
                let text = fill(text, &[("language", name)]);
                (user(vec![Part::Audio(clip.clone()), Part::Text(text)]), told)
            }
            (None, Some(token)) => {
                let text = languages::whisper_prompt(token);
                (Prompt::Raw { text, audio: vec![clip.clone()] }, Some(token.to_owned()))
            }
            (None, None) => (user(vec![Part::Audio(clip.clone())]), None),
        }
    }
}

/// The language of a request's clips, as its tags have it.
fn language_of(tags: &Tags) -> &str {
    tags.get("language").or_else(|| tags.get("src")).map(String::as_str).unwrap_or_default()
}

/// One clip to be transcribed.
struct Wanted {
    request: Digest,
    clip: AudioRef,
    prompt: Prompt,
    told: Option<String>,
}

/// The clips of a plan, to be transcribed.
pub struct TranscriptPlan {
    plan: Plan,
    asr: Asr,
}

impl TranscriptPlan {
    /// The clips of a plan.
    pub fn new(plan: Plan, asr: Asr) -> Self {
        Self { plan, asr }
    }

    /// The data of a section: names of clips mean something there alone.
    fn place(&self, section: usize) -> String {
        let found = self.plan.sections.get(section);
        found.map(|section| section.dataset.index().display().to_string()).unwrap_or_default()
    }

    /// What is to be transcribed for one clip of a request.
    fn wanted(&self, request: &PlannedRequest, clip: &AudioRef) -> Vec<Wanted> {
        let language = language_of(&request.planned.tags);
        let place = self.place(request.section);
        let want = |clip: AudioRef| {
            let (prompt, told) = self.asr.prompt(&clip, language);
            let id = self.asr.recipe.request(&place, &clip.name, &prompt, None);
            Wanted { request: id, clip, prompt, told }
        };
        self.asr.pieces(clip).into_iter().map(want).collect()
    }

    /// What is to be transcribed for a request.
    fn all_wanted(&self, request: &PlannedRequest) -> Vec<Wanted> {
        request.prompt.audio().into_iter().flat_map(|clip| self.wanted(request, clip)).collect()
    }

    /// What is said in a clip, by the data; of joined clips what each of them says.
    fn said(&self, request: &PlannedRequest, clip: &AudioRef) -> Option<String> {
        let benchmark = &self.plan.sections.get(request.section)?.benchmark;
        let said = |piece: &AudioRef| benchmark.said(&request.planned, &piece.name);
        let said: Option<Vec<&str>> = clip.pieces().iter().map(said).collect();
        Some(said?.join(languages::between_sentences(language_of(&request.planned.tags))))
    }

    fn walk(&self, mut visit: impl FnMut(PlannedRequest) -> bool) -> Result<(), PlanError> {
        self.plan.walk(|request| {
            self.all_wanted(&request).into_iter().all(|wanted| {
                let language = language_of(&request.planned.tags).to_owned();
                let planned = Planned {
                    request: wanted.request,
                    benchmark: request.planned.benchmark.clone(),
                    conditions: Vec::new(),
                    sample: wanted.clip.name,
                    tags: Tags::from([("language".to_owned(), language)]),
                    gold: Vec::new(),
                    judging: Tags::new(),
                };
                visit(PlannedRequest {
                    section: request.section,
                    row: request.row,
                    planned,
                    prompt: wanted.prompt,
                    about: None,
                })
            })
        })
    }

    /// The clips in all, each once, by section, and how they stand.
    pub fn survey(&self, journal: &Journal) -> Result<(Vec<u64>, Sorted), PlanError> {
        let sections = self.plan.sections.len();
        let (mut counts, mut seen) = (vec![0; sections], DigestSet::default());
        let mut sorter = Sorter::new(journal, sections);
        self.walk(|request| {
            if seen.insert(request.planned.request) {
                if let Some(count) = counts.get_mut(request.section) {
                    *count += 1;
                }
                sorter.take(Some(request.section), request.planned.request);
            }
            true
        })?;
        Ok((counts, sorter.finish()))
    }

    /// The labels of the sections.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.plan.sections.iter().map(|section| section.config.label.as_str())
    }

    /// Tokens of the plan's transcripts that were written since a time, each once.
    pub fn spent_since(&self, journal: &Journal, since: &str) -> Result<Usage, TranscriptsError> {
        let (mut sum, mut seen, mut failed) = (Usage::default(), DigestSet::default(), None);
        self.walk(|request| {
            if !seen.insert(request.planned.request) {
                return true;
            }
            match journal.response(&request.planned.request) {
                Ok(found) => {
                    let took = found.and_then(|response| Took::of(&response, since));
                    if let Some(took) = took.filter(|took| !took.earlier) {
                        cost::add(&mut sum, &took.tokens);
                    }
                    true
                }
                Err(e) => {
                    failed = Some(e);
                    false
                }
            }
        })?;
        failed.map_or(Ok(sum), |failed| Err(failed.into()))
    }

    /// Writes the transcripts that the plan uses into the folder of the run that was begun at a time.
    pub fn keep(&self, folder: &Path, journal: &Journal, since: &str) -> Result<(), TranscriptsError> {
        let mut failed: Option<TranscriptsError> = None;
        let mut seen: HashSet<(usize, Digest)> = HashSet::new();
        let mut counted = DigestSet::default();
        let written = write_whole(&path(folder), |out| {
            serde_json::to_writer(&mut *out, &Header { format: FORMAT.to_owned(), version: VERSION })?;
            out.write_all(b"\n")?;
            let mut stopped: std::io::Result<()> = Ok(());
            let walked = self.plan.walk(|request| {
                for wanted in self.all_wanted(&request) {
                    if !seen.insert((request.section, wanted.request)) {
                        continue;
                    }
                    let line = match journal.response(&wanted.request) {
                        Ok(Some(response)) => {
                            let said = self.said(&request, &wanted.clip);
                            let took = Took::of(&response, since);
                            let took = took.filter(|_| counted.insert(wanted.request));
                            Transcript { took, ..Transcript::new(&request, &wanted, said, &response) }
                        }
                        Ok(None) => continue,
                        Err(e) => {
                            failed = Some(e.into());
                            return false;
                        }
                    };
                    let line = serde_json::to_writer(&mut *out, &line).map_err(std::io::Error::from);
                    stopped = line.and_then(|()| out.write_all(b"\n"));
                    if stopped.is_err() {
                        return false;
                    }
                }
                true
            });
            if let Err(e) = walked {
                failed = Some(e.into());
            }
            stopped?;
            if failed.is_some() {
                Err(std::io::Error::other("the transcripts could not be read"))
            } else {
                Ok(())
            }
        });
        match failed {
            Some(failed) => Err(failed),
            None => written.map_err(Into::into),
        }
    }
}

impl Requests for TranscriptPlan {
    fn recipe(&self) -> &Recipe {
        &self.asr.recipe
    }

    fn each(&self, visit: &mut dyn FnMut(PlannedRequest) -> bool) -> Result<(), PlanError> {
        self.walk(visit)
    }

    fn dataset(&self, section: usize) -> Option<&Dataset> {
        self.plan.dataset(section)
    }
}

/// A plan whose clips are transcripts.
pub struct Transcribed {
    clips: TranscriptPlan,
    // Read by one thread at a time.
    journal: Mutex<Journal>,
}

impl Transcribed {
    /// A plan with the transcripts of a journal in place of its clips.
    pub fn new(clips: TranscriptPlan, journal: Journal) -> Self {
        Self { clips, journal: Mutex::new(journal) }
    }

    /// What is written down of a clip and what came of that, or why there is nothing.
    fn text(&self, request: &PlannedRequest, clip: &AudioRef) -> Result<Settled, Settled> {
        let (mut cut, mut made_of) = (false, Vec::new());
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said: Vec<String> = Vec::new();
        for wanted in self.clips.wanted(request, clip) {
            let name = &wanted.clip.name;
            let failed = |outcome, why: String| {
                Err(Settled::failed(outcome, format!("the transcript of {name} {why}")))
            };
            match journal.response(&wanted.request) {
                Err(e) => return failed(Outcome::RequestError, format!("cannot be read: {e}")),
                Ok(None) => return failed(Outcome::RequestError, "is not there".to_owned()),
                Ok(Some(found)) => match found.outcome {
                    // One that was cut is what the recogniser wrote: mostly a loop. It is counted in the tables.
                    Outcome::Ok | Outcome::Empty | Outcome::Length => {
                        cut |= found.outcome == Outcome::Length;
                        made_of.push(found.key);
                        said.push(found.text.trim().to_owned());
                    }
                    Outcome::ContentFilter => {
                        return failed(Outcome::RequestError, "was withheld by a filter".to_owned());
                    }
                    outcome @ (Outcome::MediaError | Outcome::RequestError) => {
                        let why = found.error.unwrap_or_else(|| "no reason was given".to_owned());
                        return failed(outcome, format!("failed: {why}"));
                    }
                },
            }
        }
        said.retain(|text| !text.is_empty());
        let text = said.join(languages::between_sentences(language_of(&request.planned.tags)));
        let outcome = if text.is_empty() {
            Outcome::Empty
        } else if cut {
            Outcome::Length
        } else {
            Outcome::Ok
        };
        Ok(Settled { outcome, text, error: None, made_of })
    }

    /// Whether the transcript is the answer.
    fn is_answer(&self, request: &PlannedRequest) -> bool {
        let section = self.clips.plan.sections.get(request.section);
        section.is_some_and(|section| section.benchmark.wants_transcript(&request.planned))
    }

    fn read(&self, mut request: PlannedRequest) -> PlannedRequest {
        let Prompt::Chat(messages) = &request.prompt else { return request };
        // Words about a clip say nothing of a text; `settled` has the answer.
        if self.is_answer(&request) {
            return request;
        }
        let part = |part: &Part| match part {
            Part::Audio(clip) => self.text(&request, clip).map(|heard| Part::Text(heard.text)),
            other => Ok(other.clone()),
        };
        let heard: Result<Vec<Message>, _> = messages
            .iter()
            .map(|message| {
                let parts = message.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
                Ok::<_, Settled>(Message { role: message.role, parts: merged(parts) })
            })
            .collect();
        // What has no transcript stays as it is, and `settled` says why.
        if let Ok(messages) = heard {
            request.prompt = Prompt::Chat(messages);
        }
        request
    }
}

/// Parts of which texts next to each other are one.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (out.last_mut(), part) {
            (Some(Part::Text(before)), Part::Text(text)) => before.push_str(&text),
            (_, part) => out.push(part),
        }
    }
    out
}

impl Requests for Transcribed {
    fn recipe(&self) -> &Recipe {
        self.clips.plan.recipe()
    }

    fn each(&self, visit: &mut dyn FnMut(PlannedRequest) -> bool) -> Result<(), PlanError> {
        self.clips.plan.walk(|request| visit(self.read(request)))
    }

    fn dataset(&self, section: usize) -> Option<&Dataset> {
        self.clips.plan.dataset(section)
    }

    fn settled(&self, request: &PlannedRequest) -> Option<Settled> {
        let clips = request.prompt.audio();
        if let (Prompt::Raw { .. }, [_, ..]) = (&request.prompt, clips.as_slice()) {
            let why = "a finished prompt string has no place for a transcript: set prompt = \"harness\"";
            return Some(Settled::failed(Outcome::RequestError, why));
        }
        if let ([clip], true) = (clips.as_slice(), self.is_answer(request)) {
            return Some(self.text(request, clip).unwrap_or_else(|failed| failed));
        }
        clips.into_iter().find_map(|clip| self.text(request, clip).err())
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
}

/// One transcript, as a run keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transcript {
    /// The label of the benchmark section.
    pub benchmark: String,
    /// The clip.
    pub clip: String,
    /// Its language, by the data.
    pub language: String,
    /// The language that the recogniser was told; none where it found it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// The language that the recogniser heard, where it was told none and names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// What was written down.
    pub text: String,
    /// What is said, by the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// What it took; absent for one that is that of another clip, or counts in another section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Took>,
    /// Hash of all that can change it.
    pub key: Digest,
}

/// What a transcript took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// Tokens.
    pub tokens: Usage,
    /// Seconds of sound, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio_seconds: Option<f64>,
    /// Whether it was there before the run was begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
}

impl Took {
    /// What a response took, for a run that was begun at a time; nothing where it is that of an earlier request.
    fn of(response: &Response, since: &str) -> Option<Self> {
        if response.reused_from.is_some() {
            return None;
        }
        let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let seconds: Option<f64> =
            response.media.iter().map(|media| seconds_used(media.audio.as_ref()?)).sum();
        Some(Self {
            tokens: response.usage,
            audio_seconds: seconds.filter(|_| !response.media.is_empty()),
            earlier: time(&response.time).zip(time(since)).is_some_and(|(written, begun)| written < begun),
        })
    }
}

impl Transcript {
    fn new(request: &PlannedRequest, wanted: &Wanted, said: Option<String>, response: &Response) -> Self {
        Self {
            benchmark: request.planned.benchmark.clone(),
            clip: wanted.clip.name.clone(),
            language: language_of(&request.planned.tags).to_owned(),
            told: wanted.told.clone(),
            heard: response.language.clone().filter(|_| wanted.told.is_none()),
            outcome: response.outcome,
            text: response.text.clone(),
            said,
            took: None,
            key: response.key,
        }
    }
}

/// Where a run keeps its transcripts.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("transcripts.jsonl")
}

/// The transcripts of a run, by the label of their section; `None` where there are none.
pub fn read(folder: &Path) -> Result<Option<BTreeMap<String, Vec<Transcript>>>, TranscriptsError> {
    let path = path(folder);
    let bad = |reason: String| TranscriptsError::File { path: path.clone(), reason };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(bad(e.to_string())),
    };
    let mut lines = text.lines();
    let header = lines.next().and_then(|line| serde_json::from_str::<Header>(line).ok());
    match header {
        Some(header) if header.format == FORMAT && header.version == VERSION => {}
        Some(header) if header.format == FORMAT => {
            return Err(bad(format!(
                "is of version {}, this program reads version {VERSION}",
                header.version
            )));
        }
        _ => return Err(bad("is no file of transcripts".to_owned())),
    }
    let mut found: BTreeMap<String, Vec<Transcript>> = BTreeMap::new();
    for (number, line) in (2..).zip(lines) {
        let transcript: Transcript =
            serde_json::from_str(line).map_err(|e| bad(format!("line {number} is no transcript ({e})")))?;
        found.entry(transcript.benchmark.clone()).or_default().push(transcript);
    }
    Ok(Some(found))
}

/// Tokens that a run has spent on its transcripts: none on those that were there before it, or where it has none.
pub fn spent(folder: &Path) -> Result<Usage, TranscriptsError> {
    let mut sum = Usage::default();
    for transcript in read(folder)?.unwrap_or_default().values().flatten() {
        if let Some(took) = transcript.took.filter(|took| !took.earlier) {
            cost::add(&mut sum, &took.tokens);
        }
    }
    Ok(sum)
}

#[cfg(test)]
#[path = "transcripts_tests.rs"]
mod tests;
