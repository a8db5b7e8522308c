//! The plan of a run: from dataset rows to requests with stable ids, without touching media.
//!
//! The plan is walked, never held: rows are read one at a time, so memory does not grow with the number of
//! samples. What scoring needs of each request goes to `plan.jsonl`.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::folder::{FolderError, write_whole};
use super::judge::JudgeError;
use super::manifest::{DatasetFacts, ManifestBenchmark};
use super::neighbours::Neighbours;
use super::plan_file::{Hashing, write_header};
use super::whole::MediaCheck;
use crate::benchmark::{Benchmark, sources};
use crate::config::{BenchmarkConfig, LimitBy};
use crate::dataset::{Dataset, DatasetError, Fingerprint, RowError};
use crate::model::ModelIdentity;
use crate::prompt::PromptSet;
use crate::types::{About, Digest, Generation, Planned, Prompt, SEED, Sample, Tags, shown};

pub use super::plan_file::{PlanFileError, PlanHashes, VERSION, plan_path, read_ids, read_plan};
pub use super::requests::{Requests, Settled};

/// Sentences on unreadable rows that are kept; the rest is counted.
const KEPT_SENTENCES: usize = 20;

/// A plan that cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The dataset.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The run's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What a judge is to be asked about.
    #[error(transparent)]
    Judge(Box<JudgeError>),
    /// Nothing to do.
    #[error("{label}: no sample to ask about: {reason}")]
    Empty {
        /// The section.
        label: String,
        /// Why.
        reason: String,
    },
}

/// One `[[benchmark]]` section, ready to be walked.
#[derive(Clone)]
pub struct Section {
    /// Its configuration.
    pub config: BenchmarkConfig,
    /// Its protocol.
    pub benchmark: Arc<dyn Benchmark>,
    /// Its prompt texts.
    pub prompts: PromptSet,
    /// Its data.
    pub dataset: Dataset,
}

/// Which samples of a section are taken.
#[derive(Clone, Debug)]
enum Selection {
    All,
    First(u64),
    /// Hashes of the ids drawn.
    Drawn(Arc<HashSet<u64>>),
}

/// All that can change an answer but prompt and media: the part of a request's key that a run has in common.
#[derive(Clone, Debug)]
pub struct Recipe {
    hasher: blake3::Hasher,
    /// How answers are generated.
    pub generation: Generation,
    /// The run's seed.
    pub seed: u64,
    /// Whether media are read: those of answers that exist already need not be there.
    reads_media: bool,
}

#[derive(Serialize)]
struct RecipeIdentity<'a> {
    format: &'static str,
    kind: &'a str,
    model: &'a str,
    revision: &'a str,
    dtype: &'a str,
    media: &'static str,
    max_seconds: f64,
    generation: &'a Generation,
    seed: u64,
}

impl Recipe {
    /// The recipe of a run.
    pub fn new(model: &ModelIdentity, max_seconds: f64, generation: &Generation, seed: u64) -> Self {
        let identity = RecipeIdentity {
            format: "harness-request-1",
            kind: &model.kind,
            model: &model.model,
            revision: &model.revision,
            dtype: &model.dtype,
            media: crate::media::PIPELINE,
            max_seconds,
            generation,
            seed,
        };
        let mut hasher = blake3::Hasher::new();
        update(&mut hasher, &identity);
        let reads_media = model.kind != crate::model::replay::KIND;
        Self { hasher, generation: generation.clone(), seed, reads_media }
    }

    /// The id of a planned request: all that is known before its media are read.
    pub fn request(&self, label: &str, sample: &str, prompt: &Prompt, seed: Option<u64>) -> Digest {
        let mut hasher = self.hasher.clone();
        update(&mut hasher, &("request", label, sample, prompt));
        if let Some(seed) = seed {
            update(&mut hasher, &("seed", seed));
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// The key of a request: all that can change its answer. Media count by content, not by name. Two runs of a
    /// judge are two draws.
    ///
    /// `seed` is that of a request with one of its own.
    pub fn key(&self, prompt: &Prompt, media: &[Digest], about: Option<&About>, seed: Option<u64>) -> Digest {
        let mut hasher = self.hasher.clone();
        update(&mut hasher, &("key", without_names(prompt), media));
        if let Some(seed) = seed {
            update(&mut hasher, &("seed", seed));
        }
        if let Some(about) = about {
            update(&mut hasher, &("judge", about));
        }
        Digest(*hasher.finalize().as_bytes())
    }
}

/// Hashes a value by its JSON, with its length, so that no two sequences of values hash alike.
fn update(hasher: &mut blake3::Hasher, value: &impl Serialize) {
    // Serialising plain structs of strings and numbers to memory cannot fail.
    let json = serde_json::to_vec(value).unwrap_or_default();
    hasher.update(&(json.len() as u64).to_le_bytes());
    hasher.update(&json);
}

/// A prompt without what the hash of its media says already: names, and windows. A short clip is the same in
/// each window and is asked about once.
fn without_names(prompt: &Prompt) -> Prompt {
    use crate::types::{AudioRef, Part, Window};
    let blank = |audio: &mut AudioRef| {
        audio.name.clear();
        audio.window = Window::Whole;
    };
    let mut prompt = prompt.clone();
    match &mut prompt {
        Prompt::Raw { audio, .. } => audio.iter_mut().for_each(blank),
        Prompt::Chat(messages) => {
            for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
                match part {
                    Part::Text(_) => {}
                    Part::Audio(audio) => blank(audio),
                    Part::Image(image) => image.name.clear(),
                }
            }
        }
    }
    prompt
}

/// A request of the plan.
#[derive(Clone, Debug)]
pub struct PlannedRequest {
    /// The index of its section.
    pub section: usize,
    /// The place of its sample's row in the data, from 0.
    pub row: u64,
    /// Its line in the plan.
    pub planned: Planned,
    /// What is asked.
    pub prompt: Prompt,
    /// Of a judge's request: what it is about.
    pub about: Option<About>,
}

impl PlannedRequest {
    /// Its own seed, where it has one: that of one of a benchmark's runs.
    pub fn own_seed(&self) -> Option<u64> {
        own_seed(&self.planned.tags)
    }

    /// The seed of its draws: each run of a judge draws its own, and draws another where it is asked again.
    pub fn seed(&self, recipe: &Recipe) -> u64 {
        /// More than a judge has runs.
        const ATTEMPT: u64 = 1000;
        let of_judge =
            self.about.as_ref().map_or(0, |about| u64::from(about.run) + ATTEMPT * u64::from(about.attempt));
        self.own_seed().unwrap_or(recipe.seed).wrapping_add(of_judge)
    }
}

/// The seed that a request's tags give it.
fn own_seed(tags: &Tags) -> Option<u64> {
    tags.get(SEED)?.parse().ok()
}

impl Requests for Plan {
    fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    fn each(&self, visit: &mut dyn FnMut(PlannedRequest) -> bool) -> Result<(), PlanError> {
        self.walk(visit)
    }

    fn dataset(&self, section: usize) -> Option<&Dataset> {
        self.sections.get(section).map(|section| &section.dataset)
    }
}

impl Section {
    /// Whether its data are published ones, which can be others than they should be.
    fn is_published(&self) -> bool {
        sources::names().any(|name| name == self.config.name)
    }

    /// Which samples are taken. A seeded draw reads the index once, for the ids.
    fn selection(&self, seed: u64) -> Result<Selection, DatasetError> {
        let Some(limit) = self.config.limit else { return Ok(Selection::All) };
        if self.config.limit_by == LimitBy::First {
            return Ok(Selection::First(limit));
        }
        // The samples with the smallest hashes: a draw that does not depend on the order of the rows.
        let mut ranks = std::collections::BinaryHeap::new();
        let mut seen = HashSet::new();
        let mut more = false;
        for row in self.dataset.rows()? {
            let Some(sample) = row.ok().and_then(|row| self.benchmark.sample(row.number, row.value).ok())
            else {
                continue;
            };
            if !self.benchmark.wants(&sample) {
                continue;
            }
            let id = id_hash(&sample.id);
            if !seen.insert(id) {
                continue;
            }
            ranks.push((rank(seed, &sample.id), id));
            if ranks.len() as u64 > limit {
                more = true;
                ranks.pop();
            }
        }
        // A limit that takes all samples takes no part of them.
        if !more {
            return Ok(Selection::All);
        }
        Ok(Selection::Drawn(Arc::new(ranks.into_iter().map(|(_, id)| id).collect())))
    }

    /// Walks the samples: those taken, and errors for rows that cannot be read. `visit` returns `false` to stop.
    fn walk(
        &self,
        selection: &Selection,
        mut visit: impl FnMut(u64, Result<Sample, RowError>) -> bool,
    ) -> Result<WalkFacts, DatasetError> {
        let mut rows = self.dataset.rows()?;
        let mut seen: HashSet<u64> = HashSet::new();
        let (mut samples, mut taken) = (0_u64, 0_u64);
        let mut finished = true;
        let mut check = self.benchmark.data_check();
        // Unreadable rows behind the last sample of a limit: they count where no other sample follows.
        let mut held = Vec::new();
        for (at, row) in (0..).zip(rows.by_ref()) {
            if let (Some(check), Ok(row)) = (&mut check, &row) {
                check.add(&row.value, &self.dataset);
            }
            let sample = row.and_then(|row| {
                let place = row.place();
                let sample = self.benchmark.sample(row.number, row.value).map_err(|e| place.error(e))?;
                if !self.benchmark.wants(&sample) {
                    return Ok(None);
                }
                if seen.insert(id_hash(&sample.id)) {
                    Ok(Some(sample))
                } else {
                    Err(place
                        .error(format!("the sample id `{}` was used by an earlier row", shown(&sample.id))))
                }
            });
            let Some(sample) = sample.transpose() else { continue };
            let wanted = match (&sample, selection) {
                (_, Selection::First(limit)) => taken < *limit,
                (Ok(sample), Selection::Drawn(ids)) => ids.contains(&id_hash(&sample.id)),
                (Err(_), _) | (Ok(_), Selection::All) => true,
            };
            samples += u64::from(sample.is_ok());
            if wanted {
                taken += u64::from(sample.is_ok());
                if !visit(at, sample) {
                    finished = false;
                    break;
                }
            } else if sample.is_err() && samples == taken {
                held.push((at, sample));
            }
        }
        // A limit that takes all samples takes no part of them.
        if finished && samples == taken {
            finished = held.into_iter().all(|(at, error)| visit(at, error));
        }
        let differs = match check.filter(|_| finished) {
            Some(check) if samples == taken => check.finish(),
            Some(check) => check.finish_part(),
            None => Vec::new(),
        };
        Ok(WalkFacts { fingerprint: rows.fingerprint(), samples, taken, differs, finished })
    }
}

/// How the data of a section differ from the published ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataDiffers {
    /// Fragments of sentences; none where nothing differs.
    pub found: Vec<String>,
    /// Whether the section takes a part of the samples: a look at them is no figure of a paper, and refused for nothing.
    pub of_part: bool,
}

/// What a walk saw.
struct WalkFacts {
    fingerprint: Fingerprint,
    samples: u64,
    taken: u64,
    differs: Vec<String>,
    /// Whether it went to the end.
    finished: bool,
}

pub(super) fn id_hash(id: &str) -> u64 {
    first_u64(blake3::hash(id.as_bytes()))
}

fn rank(seed: u64, id: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"harness-draw-1");
    hasher.update(&seed.to_le_bytes());
    hasher.update(id.as_bytes());
    first_u64(hasher.finalize())
}

fn first_u64(hash: blake3::Hash) -> u64 {
    hash.as_bytes().iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The plan of a run.
#[derive(Clone)]
pub struct Plan {
    /// The sections, in the order of the config.
    pub sections: Arc<Vec<Section>>,
    selections: Vec<Selection>,
    recipe: Recipe,
}

impl Plan {
    /// A plan over sections.
    pub fn new(sections: Vec<Section>, recipe: Recipe) -> Result<Self, PlanError> {
        let selections = sections.iter().map(|s| s.selection(recipe.seed)).collect::<Result<_, _>>()?;
        Ok(Self { sections: Arc::new(sections), selections, recipe })
    }

    /// The plan of one section alone: empty where there is no such section.
    #[must_use]
    pub fn only(&self, index: usize) -> Self {
        Self {
            sections: Arc::new(self.sections.get(index).cloned().into_iter().collect()),
            selections: self.selections.get(index).cloned().into_iter().collect(),
            recipe: self.recipe.clone(),
        }
    }

    /// How the data of each section differ from the published ones. Of sections that take a part of their samples the
    /// number of rows says nothing, and sections without published data have nothing to compare.
    pub fn differences(&self) -> Result<Vec<DataDiffers>, PlanError> {
        let sections = self.sections.iter().enumerate();
        sections
            .map(|(index, section)| {
                if !section.is_published() {
                    return Ok(DataDiffers::default());
                }
                let facts = self.walk_section(index, |_| true)?;
                Ok(DataDiffers { found: facts.differs, of_part: facts.taken < facts.samples })
            })
            .collect()
    }

    /// Walks the requests of all sections in plan order. `visit` returns `false` to stop.
    pub fn walk(&self, mut visit: impl FnMut(PlannedRequest) -> bool) -> Result<(), PlanError> {
        for index in 0..self.sections.len() {
            let mut go_on = true;
            self.walk_section(index, |request| {
                if let Ok(request) = request {
                    go_on = visit(request);
                }
                go_on
            })?;
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    fn walk_section(
        &self,
        index: usize,
        mut visit: impl FnMut(Result<PlannedRequest, RowError>) -> bool,
    ) -> Result<WalkFacts, PlanError> {
        let (Some(section), Some(selection)) = (self.sections.get(index), self.selections.get(index)) else {
            return Err(PlanError::Empty { label: index.to_string(), reason: "no such section".to_owned() });
        };
        let looked_at = section.is_published() && self.recipe.reads_media;
        let mut media = looked_at.then(MediaCheck::default);
        let mut ask = |row, sample: Result<Sample, RowError>| match sample {
            Err(error) => visit(Err(error)),
            Ok(sample) => section.benchmark.requests(&sample).into_iter().all(|draft| {
                let label = &section.config.label;
                let request = self.recipe.request(label, &sample.id, &draft.prompt, own_seed(&draft.tags));
                let (planned, prompt) = draft.planned(request, label, &sample.id);
                let request = PlannedRequest { section: index, row, planned, prompt, about: None };
                if let Some(media) = &mut media {
                    media.add(&section.dataset, &request);
                }
                visit(Ok(request))
            }),
        };
        let mut neighbours = Neighbours::default();
        let mut facts = section.walk(selection, |row, sample| match sample {
            Err(error) => ask(row, Err(error)),
            Ok(sample) => {
                let shares = section.benchmark.shares(&sample);
                let shares = shares.map(|(within, shared)| (within.to_owned(), shared.to_owned()));
                neighbours.take(row, sample, shares).into_iter().all(|(row, sample)| ask(row, Ok(sample)))
            }
        })?;
        if facts.finished {
            facts.finished = neighbours.rest().into_iter().all(|(row, sample)| ask(row, Ok(sample)));
        }
        if let Some(media) = media.filter(|_| facts.finished) {
            facts.differs.extend(media.finish(&section.dataset));
        }
        Ok(facts)
    }

    /// A hash of all that the plan is made of: this program, the recipe, and the configuration, prompts and
    /// index of each section. Two plans with the same hash hold the same requests.
    pub fn digest(&self) -> Result<Digest, PlanError> {
        let mut hasher = self.recipe.hasher.clone();
        // Versions in development have one number.
        let program = std::env::current_exe().and_then(std::fs::metadata);
        let program = program.ok().map(|meta| (meta.len(), meta.modified().ok()));
        update(&mut hasher, &("plan", VERSION, env!("CARGO_PKG_VERSION"), program));
        for section in self.sections.iter() {
            let state = section.dataset.state()?;
            update(&mut hasher, &(&section.config, &section.prompts, section.dataset.index(), state));
        }
        Ok(Digest(*hasher.finalize().as_bytes()))
    }

    /// Walks the whole plan, telling `visit` each request, and gives what the manifest says of each section.
    pub fn survey(
        &self,
        mut visit: impl FnMut(&PlannedRequest),
    ) -> Result<Vec<ManifestBenchmark>, PlanError> {
        let nowhere = &mut std::io::sink();
        let survey = |index| self.survey_section(index, nowhere, &mut visit);
        // Writing to nowhere cannot fail: what failed is the plan.
        (0..self.sections.len()).map(survey).collect::<Result<_, _>>().map_err(|e| match e {
            SurveyError::Plan(e) => e,
            SurveyError::Write(e) => PlanError::Empty { label: String::new(), reason: e.to_string() },
        })
    }

    /// The same, and writes `plan.jsonl` into a run's folder. `made_of` is [`digest`](Self::digest).
    pub fn write(
        &self,
        folder: &Path,
        made_of: Digest,
        mut visit: impl FnMut(&PlannedRequest),
    ) -> Result<(Vec<ManifestBenchmark>, PlanHashes), PlanError> {
        let (mut facts, mut failed, mut content) = (Vec::new(), None, made_of);
        let survey = |out: &mut dyn std::io::Write| -> std::io::Result<()> {
            let mut hashing = std::io::BufWriter::with_capacity(1 << 16, Hashing::new(out));
            let out = &mut hashing;
            write_header(out, made_of)?;
            for index in 0..self.sections.len() {
                match self.survey_section(index, out, &mut visit) {
                    Ok(section) => facts.push(section),
                    Err(SurveyError::Write(e)) => return Err(e),
                    Err(SurveyError::Plan(e)) => {
                        failed = Some(e);
                        return Err(std::io::Error::other("the plan could not be made"));
                    }
                }
            }
            out.flush()?;
            content = out.get_ref().digest();
            Ok(())
        };
        let written = write_whole(&plan_path(folder), survey);
        if let Some(error) = failed {
            return Err(error);
        }
        written?;
        Ok((facts, PlanHashes { made_of, content }))
    }

    fn survey_section(
        &self,
        index: usize,
        out: &mut dyn std::io::Write,
        visit: &mut impl FnMut(&PlannedRequest),
    ) -> Result<ManifestBenchmark, SurveyError> {
        let mut conditions: BTreeMap<String, u64> = BTreeMap::new();
        let (mut requests, mut unreadable_rows, mut unreadable) = (0, 0, Vec::new());
        let mut write_error = None;
        let facts = self.walk_section(index, |request| {
            match request {
                Ok(request) => {
                    requests += 1;
                    for condition in &request.planned.conditions {
                        *conditions.entry(condition.clone()).or_default() += 1;
                    }
                    let written = serde_json::to_writer(&mut *out, &request.planned)
                        .map_err(std::io::Error::from)
                        .and_then(|()| out.write_all(b"\n"));
                    if let Err(e) = written {
                        write_error = Some(e);
                        return false;
                    }
                    visit(&request);
                }
                Err(error) => {
                    unreadable_rows += 1;
                    if unreadable.len() < KEPT_SENTENCES {
                        unreadable.push(error.to_string());
                    }
                }
            }
            true
        })?;
        if let Some(error) = write_error {
            return Err(SurveyError::Write(error));
        }
        let Some(section) = self.sections.get(index) else { return Err(SurveyError::none(index)) };
        if requests == 0 {
            let reason = match unreadable.first() {
                Some(first) => format!("none of the rows can be read, the first because of this: {first}"),
                None => format!("{} holds no rows", section.dataset.index().display()),
            };
            return Err(PlanError::Empty { label: section.config.label.clone(), reason }.into());
        }
        let in_order = section.benchmark.conditions().iter();
        Ok(ManifestBenchmark {
            label: section.config.label.clone(),
            name: section.config.name.clone(),
            dataset: DatasetFacts {
                index: section.dataset.index().to_owned(),
                files: section.dataset.files(),
                bytes: facts.fingerprint.bytes,
                blake3: facts.fingerprint.blake3,
                hashed: facts.fingerprint.kind,
                samples: facts.samples,
                differs: facts.differs,
                unreadable_rows,
                unreadable,
            },
            prompts: section.prompts.clone(),
            samples: facts.taken,
            requests,
            conditions: in_order
                .map(|condition| (condition.clone(), conditions.get(condition).copied().unwrap_or_default()))
                .collect(),
        })
    }
}

enum SurveyError {
    Write(std::io::Error),
    Plan(PlanError),
}

impl SurveyError {
    fn none(index: usize) -> Self {
        PlanError::Empty { label: index.to_string(), reason: "no such section".to_owned() }.into()
    }
}

impl<E: Into<PlanError>> From<E> for SurveyError {
    fn from(error: E) -> Self {
        Self::Plan(error.into())
    }
}
