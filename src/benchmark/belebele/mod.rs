//! 2M-Belebele: reading comprehension with four options, the passage as text or spoken, in up to 73 languages
//! (arXiv 2412.08274).
//!
//! The authors published their instruction, seeds and metric, and no code. What they left open (layout, examples,
//! joining of recordings, reading of letters) is settled here and stated under every table.

mod ask;
mod figures;
mod row;
mod score;
mod shots;
mod tables;

use ask::{Question, Sheet, clip, push, text};
use row::{Heard, Row};
pub use shots::Draw;

use super::build::{BuildError, Entry, PromptText, check_keys, check_names, check_prompts};
use super::conditions::{Conditions, names_of};
use super::{Benchmark, BenchmarkScores, DataCheck, Draft, JudgeSetup, RunFacts, Scorer, sources};
use crate::config::belebele::{Layout, MissingSentence, ShotsAs, Speaker};
use crate::config::{BelebeleConfig, BenchmarkConfig};
use crate::languages;
use crate::prompt::{PromptInfo, PromptSet};
use crate::report::published::Published;
use crate::report::table::Table;
use crate::types::{AudioRef, Part, Planned, Profile, SEED, Sample, Tags, Window};

/// The name that configs use.
pub const NAME: &str = "2m-belebele";

/// What a clip of a request says stands among its tags under this and the clip's name.
const SAID: &str = "said:";

/// A condition, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Condition {
    Text,
    Speech,
    FullSpeech,
    NoPassage,
}

impl Conditions for Condition {
    const ALL: &'static [Self] = &[Self::Text, Self::Speech, Self::FullSpeech, Self::NoPassage];
    const DEFAULT: &'static [Self] = &[Self::Text, Self::Speech];

    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Speech => "speech",
            Self::FullSpeech => "full_speech",
            Self::NoPassage => "no_passage",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Text => "the passage as text",
            Self::Speech => "the passage spoken, question and options as text",
            Self::FullSpeech => "passage, question and options spoken, where all are recorded",
            Self::NoPassage => "no passage: what can be answered without it",
        }
    }
}

impl Condition {
    fn is_spoken(self) -> bool {
        matches!(self, Self::Speech | Self::FullSpeech)
    }
}

const OPTIONS: [&str; 4] = ["a", "b", "c", "d"];
const PLACES: &[&str] = &["passage", "query", "a", "b", "c", "d"];
const INSTRUCTION: PromptText = PromptText::message("instruction", &[], &[]);
const TEMPLATE_HASH: PromptText =
    PromptText::message("template_hash", &["instruction", "passage", "query", "a", "b", "c", "d"], PLACES);
const BLOCK_HASH: PromptText = PromptText::message("block_hash", PLACES, PLACES);
const TEMPLATE_PQ: PromptText = PromptText::message("template_pq", PLACES, PLACES);
pub(super) const TEXTS: [PromptText; 4] = [INSTRUCTION, TEMPLATE_HASH, BLOCK_HASH, TEMPLATE_PQ];

/// The texts that are needed.
pub(super) fn prompt_texts() -> Vec<PromptText> {
    TEXTS.to_vec()
}

/// What `harness list` says.
pub(super) fn entry() -> Entry {
    Entry {
        name: NAME,
        about: "reading comprehension with four options, the passage as text or spoken, in 73 languages",
        paper: "2M-Belebele, arXiv 2412.08274",
        conditions: Condition::listed(),
        default_conditions: names_of(Condition::DEFAULT),
        metrics: vec![score::ACCURACY, score::LENIENT, score::AVERAGE, score::GE_50, score::GE_70],
        wording: include_str!("../../../prompts/2m-belebele/harness.toml"),
        published: include_str!("../../../results/published/2m-belebele.toml"),
        data: "a Parquet file a language (harness fetch 2m-belebele --languages eng_Latn,…), made readable once by \
               harness prepare 2m-belebele; for text alone the JSONL files of facebook/belebele",
    }
}

/// The settings of a section that says nothing of its own.
#[cfg(test)]
pub(super) fn defaults() -> BelebeleConfig {
    BelebeleConfig {
        shots: 0,
        shots_file: "data/belebele_training_set.tsv".into(),
        shots_as: ShotsAs::default(),
        seeds: vec![0, 1, 2],
        template: Layout::default(),
        speaker: Speaker::default(),
        gap_ms: 0,
        missing: MissingSentence::default(),
        strip_prefix: false,
        deterministic: true,
    }
}

/// The benchmark of one section.
#[derive(Debug)]
pub struct Belebele {
    conditions: Vec<Condition>,
    names: Vec<String>,
    languages: Vec<String>,
    prompts: PromptSet,
    window: Window,
    profile: Profile,
    settings: BelebeleConfig,
    /// The examples of each seed that is run, filled in.
    examples: Vec<Vec<ask::Example>>,
}

impl Belebele {
    /// The benchmark of a section; see [`super::build`].
    pub fn new(config: &BenchmarkConfig, prompts: PromptSet, window: Window) -> Result<Self, BuildError> {
        check_keys(NAME, config, &["languages", "shots", "belebele"])?;
        let conditions = Condition::parse_all(&config.conditions)?;
        let known: Vec<&'static str> = languages::all().keys().map(String::as_str).collect();
        check_names("language", &config.languages, &known)?;
        check_prompts(&prompts.only(|name| !shots::is_shots(name)), &TEXTS, &TEXTS)?;
        let Some(settings) = config.belebele.clone() else {
            return Err(BuildError::Judge(
                "the section lacks its settings; load it from a configuration".to_owned(),
            ));
        };
        let mut benchmark = Self {
            names: conditions.iter().map(|condition| condition.name().to_owned()).collect(),
            conditions,
            languages: config.languages.clone(),
            prompts,
            window,
            profile: config.profile,
            settings,
            examples: Vec::new(),
        };
        benchmark.examples = benchmark.seeds().iter().map(|seed| benchmark.examples_of(*seed)).collect();
        if benchmark.examples.iter().any(|examples| examples.len() != benchmark.settings.shots) {
            let sentence =
                "the examples of the section were not drawn: plan the run from its configuration again";
            return Err(BuildError::Judge(sentence.to_owned()));
        }
        Ok(benchmark)
    }

    /// The seeds that are run.
    fn seeds(&self) -> &[u64] {
        let most = if self.settings.deterministic { 1 } else { usize::MAX };
        self.settings.seeds.get(..most.min(self.settings.seeds.len())).unwrap_or_default()
    }

    fn text(&self, text: PromptText) -> &str {
        self.prompts.get(text.name).unwrap_or_default()
    }

    /// Calls with the layout.
    fn with_sheet<T>(&self, call: impl FnOnce(Sheet<'_>) -> T) -> T {
        let instruction = self.text(INSTRUCTION);
        match self.settings.template {
            Layout::Hash => call(Sheet {
                instruction,
                alone: self.text(TEMPLATE_HASH),
                block: self.text(BLOCK_HASH),
                before_answer: "",
            }),
            Layout::Pq => {
                let block = self.text(TEMPLATE_PQ);
                let alone = format!("{{instruction}}\n{block}");
                call(Sheet { instruction, alone: &alone, block, before_answer: " " })
            }
        }
    }

    fn examples_of(&self, seed: u64) -> Vec<ask::Example> {
        let shots = shots::of(&self.prompts, seed).unwrap_or_default();
        self.with_sheet(|sheet| {
            let example = |shot: &shots::Shot| {
                sheet.example(
                    &shot.passage,
                    &shot.query,
                    shot.options.each_ref().map(String::as_str),
                    shot.gold,
                )
            };
            shots.iter().take(self.settings.shots).map(example).collect()
        })
    }

    /// What is heard of a passage: the sentences in their order, joined. `None` where nothing is, or the row is dropped.
    fn spoken_passage(&self, row: &Row, seed: u64) -> Option<ask::Filling> {
        let heard = row.heard();
        if heard == Heard::None || (heard == Heard::Some && self.settings.missing == MissingSentence::DropRow)
        {
            return None;
        }
        let between = languages::between_sentences(&row.language);
        let mut parts: ask::Filling = Vec::new();
        let mut together: Vec<&str> = Vec::new();
        let joined = |together: &mut Vec<&str>| {
            let clips = std::mem::take(together);
            Part::Audio(AudioRef::joined(&clips, self.settings.gap_ms, self.window))
        };
        for (number, sentence) in row.sentences.iter().enumerate() {
            match (self.speaker(row, number, &sentence.clips, seed), self.settings.missing) {
                (Some(clip), _) => together.push(clip),
                (None, MissingSentence::Text) => {
                    if !together.is_empty() {
                        parts.push(joined(&mut together));
                    }
                    // Transcripts bring no blanks of their own.
                    let before = if parts.is_empty() { "" } else { between };
                    let after = if number + 1 < row.sentences.len() { between } else { "" };
                    let trimmed = sentence.text.trim();
                    let doubled = matches!(parts.last(), Some(Part::Text(_)));
                    push(
                        &mut parts,
                        Part::Text(format!("{}{trimmed}{after}", if doubled { "" } else { before })),
                    );
                }
                (None, MissingSentence::Skip | MissingSentence::DropRow) => {}
            }
        }
        if !together.is_empty() {
            parts.push(joined(&mut together));
        }
        Some(parts)
    }

    /// The recording of a sentence: one speaker.
    fn speaker<'a>(&self, row: &Row, sentence: usize, clips: &'a [String], seed: u64) -> Option<&'a str> {
        let place = match self.settings.speaker {
            Speaker::First => 0,
            Speaker::Seeded => {
                let mut hasher = blake3::Hasher::new();
                hasher.update(b"harness-speaker-1");
                hasher.update(&seed.to_le_bytes());
                hasher.update(row.passage_id().as_bytes());
                hasher.update(&(sentence as u64).to_le_bytes());
                let hash = hasher.finalize();
                let number =
                    hash.as_bytes().iter().take(8).fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
                usize::try_from(number % (clips.len().max(1) as u64)).unwrap_or_default()
            }
        };
        clips.get(place).map(String::as_str)
    }

    /// The question of a condition; `None` where the row has not what it takes.
    fn question(&self, row: &Row, condition: Condition, seed: u64) -> Option<Question> {
        let written = || row.options.each_ref().map(|option| text(option));
        let hear = |name: &str| clip(AudioRef { name: name.to_owned(), window: self.window });
        let (query, options) = match condition {
            Condition::FullSpeech => {
                let (query, options) = row.spoken_question()?;
                (hear(query), options.map(hear))
            }
            _ => (text(&row.question), written()),
        };
        let passage = match condition {
            Condition::Text => text(&row.passage),
            Condition::NoPassage => text(""),
            Condition::Speech | Condition::FullSpeech => self.spoken_passage(row, seed)?,
        };
        Some(Question { passage, query, options })
    }

    fn draft(&self, row: &Row, condition: Condition, run: usize, seed: u64) -> Option<Draft> {
        let question = self.question(row, condition, seed)?;
        let examples = self.examples.get(run).map(Vec::as_slice).unwrap_or_default();
        let turns = self.settings.shots_as == ShotsAs::Turns;
        let prompt = self.with_sheet(|sheet| sheet.prompt(examples, &question, turns));
        let mut tags = Tags::from([
            ("language".to_owned(), row.language.clone()),
            ("passage".to_owned(), row.passage_id()),
            ("heard".to_owned(), row.heard().as_str().to_owned()),
        ]);
        if self.seeds().len() > 1 {
            tags.insert(SEED.to_owned(), seed.to_string());
        }
        let mut judging: Tags = OPTIONS
            .iter()
            .zip(&row.options)
            .map(|(name, option)| ((*name).to_owned(), option.clone()))
            .collect();
        if condition.is_spoken() {
            judging.extend(said(row, condition));
        }
        Some(Draft {
            conditions: vec![condition.name().to_owned()],
            tags,
            gold: vec![row.gold.to_string()],
            judging,
            prompt,
        })
    }
}

/// What the recordings say, by the names of the clips.
fn said(row: &Row, condition: Condition) -> Vec<(String, String)> {
    let entry = |clip: &str, text: &str| (format!("{SAID}{clip}"), text.to_owned());
    let sentences = row.sentences.iter();
    let mut said: Vec<(String, String)> = sentences
        .flat_map(|sentence| sentence.clips.iter().map(|clip| entry(clip, &sentence.text)))
        .collect();
    if let Some((query, options)) = row.spoken_question().filter(|_| condition == Condition::FullSpeech) {
        said.push(entry(query, &row.question));
        said.extend(options.iter().zip(&row.options).map(|(clip, option)| entry(clip, option)));
    }
    said
}

impl Benchmark for Belebele {
    fn conditions(&self) -> &[String] {
        &self.names
    }

    fn sample(&self, _line: u64, row: serde_json::Value) -> Result<Sample, String> {
        Ok(Sample { id: Row::read(&row)?.id(), row })
    }

    fn wants(&self, sample: &Sample) -> bool {
        let language = sample.id.split('/').next().unwrap_or_default();
        self.languages.is_empty() || self.languages.iter().any(|wanted| wanted == language)
    }

    /// A passage has one or two questions, which need not stand next to each other.
    fn shares<'a>(&self, sample: &'a Sample) -> Option<(&'a str, &'a str)> {
        let (language, rest) = sample.id.split_once('/')?;
        Some((language, rest.split_once('/')?.0))
    }

    fn data_check(&self) -> Option<DataCheck> {
        let mut expect = sources::sources(NAME).ok()?.expect;
        if !self.languages.is_empty() {
            expect.languages.clone_from(&self.languages);
        }
        DataCheck::new(expect)
    }

    fn requests(&self, sample: &Sample) -> Vec<Draft> {
        let Ok(row) = Row::read(&sample.row) else { return Vec::new() };
        let runs = || self.seeds().iter().enumerate();
        self.conditions
            .iter()
            .flat_map(|condition| runs().filter_map(|(run, seed)| self.draft(&row, *condition, run, *seed)))
            .collect()
    }

    fn said<'a>(&self, planned: &'a Planned, clip: &str) -> Option<&'a str> {
        planned.judging.get(&format!("{SAID}{clip}")).map(String::as_str)
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        let layout = match (self.settings.template, self.settings.shots) {
            (Layout::Pq, _) => TEMPLATE_PQ,
            (Layout::Hash, 0) => TEMPLATE_HASH,
            (Layout::Hash, _) => BLOCK_HASH,
        };
        let shots = self.seeds().iter().map(|seed| shots::name_of(*seed));
        [INSTRUCTION.name.to_owned(), layout.name.to_owned()]
            .into_iter()
            .chain(shots.filter(|_| self.settings.shots > 0))
            .filter_map(|name| self.prompts.info(&name))
            .collect()
    }

    fn deviations(&self, facts: &RunFacts<'_>) -> Vec<String> {
        deviations(self, facts)
    }

    fn scorer(&self, _judge: Option<&JudgeSetup>) -> Box<dyn Scorer> {
        Box::new(score::BelebeleScorer::new(&self.conditions, self.profile, &self.settings))
    }

    fn tables(
        &self,
        scores: &BenchmarkScores,
        published: &Published,
        compare_to: Option<&str>,
    ) -> Vec<Table> {
        tables::all(scores, published, compare_to, &self.conditions, &self.settings)
    }
}

/// How a run departs from the paper's, and what the paper leaves open.
fn deviations(benchmark: &Belebele, facts: &RunFacts<'_>) -> Vec<String> {
    let settings = &benchmark.settings;
    let mut found = Vec::new();
    if let Some((taken, all)) = facts.subset.filter(|(taken, all)| taken != all) {
        found.push(format!("a subset: {taken} of {all} samples"));
    }
    found.extend(
        facts.data_differs.iter().map(|differs| format!("the data are not the published ones: {differs}")),
    );
    found.push(
        "the paper publishes neither its 39 languages nor the layout of its prompts, its examples, its reading of \
         letters, its decoding or its speech recognition: what is used here stands in the notes"
            .to_owned(),
    );
    if !matches!(settings.shots, 0 | 5) {
        found.push(format!("{} examples; the paper has 0 and 5", settings.shots));
    }
    if settings.seeds != [0, 1, 2] {
        let seeds: Vec<String> = settings.seeds.iter().map(u64::to_string).collect();
        found.push(format!("seeds {}; the paper has 0, 1 and 2", seeds.join(", ")));
    }
    if benchmark.conditions.iter().any(|condition| condition.is_spoken())
        && let window @ (Window::First | Window::Last) = benchmark.window
    {
        found.push(format!(
            "passages longer than the model takes are cut to one part (window `{}`): the answer may lie outside it",
            window.as_str()
        ));
    }
    if benchmark.prompts.get(INSTRUCTION.name) != Some(PAPERS_INSTRUCTION) {
        found.push("another instruction than the paper's".to_owned());
    }
    found
}

/// The paper's instruction, for zero-shot and 5-shot.
const PAPERS_INSTRUCTION: &str = "Given the following passage, query, and answer choices, output the letter \
     corresponding to the correct answer. Do not write any explanation. Only output the letter within A, B, C, or D \
     that corresponds to the correct answer.";

#[cfg(test)]
mod tests;
