//! CFEVER: Chinese claims, to be supported or refuted by sentences of Wikipedia, or found undecidable
//! (arXiv 2402.13025).
//!
//! `claim_only` asks for the label of the bare claim. `bm25` shows sentences of the pages that a search found, `oracle`
//! those of the gold among others of the same pages; both ask for the label and the numbers of the sentences that it
//! rests on. What is shown stands in the rows: `harness prepare cfever` puts it there. Both scoring profiles are
//! always computed. The prompts of the paper's language models are not published: the words are ours.

mod deviations;
mod node;
mod published_scorer;
pub mod row;
mod score;
mod scorer;
mod submission;
mod tables;

use std::path::Path;

use serde_json::{Value, json};

use super::build::{BuildError, Entry, PromptText, check_keys, check_prompts};
use super::conditions::{Conditions, names_of};
use super::sources::Expect;
use super::{
    Benchmark, BenchmarkScores, DataCheck, Draft, JudgeSetup, RunFacts, Scorer, SubmissionScorer, sources,
};
use crate::config::BenchmarkConfig;
use crate::metric::fever::{Label, Sentence};
use crate::prompt::{PromptInfo, PromptSet, fill};
use crate::report::published::Published;
use crate::report::table::Table;
use crate::types::{Message, Planned, Profile, Prompt, Response, Role, Sample, Tags};
use row::{Candidate, Found, Row, Shot, distinct};

/// The name that configs use.
pub const NAME: &str = "cfever";
/// The split that can be scored.
const DEV: &str = "dev";
/// The split whose labels the authors keep.
const TEST: &str = "test";
/// The sentences that a model is shown where the config does not say it.
const CANDIDATES: usize = 20;

/// What a model is given beside the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    ClaimOnly,
    Bm25,
    Oracle,
}

impl Conditions for Condition {
    const ALL: &'static [Self] = &[Self::ClaimOnly, Self::Bm25, Self::Oracle];
    const DEFAULT: &'static [Self] = &[Self::ClaimOnly];

    fn name(self) -> &'static str {
        match self {
            Self::ClaimOnly => "claim_only",
            Self::Bm25 => "bm25",
            Self::Oracle => "oracle",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::ClaimOnly => "the claim alone; the label is asked for",
            Self::Bm25 => "the claim and sentences of pages that a search found; label and evidence",
            Self::Oracle => {
                "the claim and its gold sentences among others, for diagnosis; label and evidence"
            }
        }
    }
}

impl Condition {
    fn has_evidence(self) -> bool {
        self != Self::ClaimOnly
    }
}

const CLAIM_ONLY: PromptText = PromptText::message("claim_only", &["claim"], &["claim"]);
const WITH_EVIDENCE: PromptText =
    PromptText::message("with_evidence", &["claim", "candidates"], &["claim", "candidates"]);
const CANDIDATE_LINE: PromptText =
    PromptText::message("candidate_line", &["n", "page", "sentence"], &["n", "sentence"]);
pub(super) const TEXTS: [PromptText; 3] = [CLAIM_ONLY, WITH_EVIDENCE, CANDIDATE_LINE];

fn needed(conditions: &[Condition]) -> Vec<PromptText> {
    let mut texts = Vec::new();
    if conditions.contains(&Condition::ClaimOnly) {
        texts.push(CLAIM_ONLY);
    }
    if conditions.iter().any(|condition| condition.has_evidence()) {
        texts.extend([WITH_EVIDENCE, CANDIDATE_LINE]);
    }
    texts
}

/// The texts that the conditions of these names need.
pub(super) fn prompt_texts(conditions: &[String]) -> Result<Vec<PromptText>, BuildError> {
    Ok(needed(&Condition::parse_all(conditions)?))
}

/// What `harness list` says.
pub(super) fn entry() -> Entry {
    Entry {
        name: NAME,
        about: "Chinese claims: find evidence in Wikipedia, and support or refute them",
        paper: "CFEVER, arXiv 2402.13025",
        conditions: Condition::listed(),
        default_conditions: names_of(Condition::DEFAULT),
        metrics: vec![
            score::LABEL_ACCURACY,
            score::FEVER_SCORE,
            score::PRECISION,
            score::RECALL,
            score::F1,
            score::PAGE_RECALL,
            score::RECIPE_FEVER,
        ],
        wording: include_str!("../../../prompts/cfever/harness.toml"),
        published: include_str!("../../../results/published/cfever.toml"),
        data: "claims: data/dev.jsonl of https://github.com/IKMLab/CFEVER-data; pages and sentences for `bm25` and \
               `oracle`: the authors' dump of Wikipedia, by `harness prepare cfever`",
    }
}

/// The split of a file, by its name: `dev.jsonl`, `cfever-dev.parquet` and `dev-00000-of-00001.parquet` are all `dev`.
fn split_of(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let is_part = |name: &str| stem.split(['-', '_', '.']).any(|part| part == name);
    let known: Vec<&str> = [DEV, TEST, "train"].into_iter().filter(|name| is_part(name)).collect();
    match known.as_slice() {
        [one] => (*one).to_owned(),
        _ => stem,
    }
}

/// What is published of the rows of a file.
pub(super) fn expected(file: &Path) -> Option<Expect> {
    expected_of(&split_of(file))
}

fn expected_of(split: &str) -> Option<Expect> {
    let expect = sources::sources(NAME).ok()?.expect;
    if split != TEST {
        return Some(expect);
    }
    // What is expected is the dev split; of the test split neither labels nor domains are published. Without these its
    // rows are an id and a claim, and claims repeat.
    let rows = expect.files.iter().find(|file| file.path.ends_with("/test.jsonl")).map(|file| file.rows);
    Some(Expect { rows, unique: expect.unique, repeats: true, ..Expect::default() })
}

/// A scorer of files of predictions.
pub(super) fn submission_scorer() -> Box<dyn SubmissionScorer> {
    Box::new(submission::Scorer::default())
}

/// The benchmark of one section.
#[derive(Debug)]
pub struct Cfever {
    conditions: Vec<Condition>,
    names: Vec<String>,
    prompts: PromptSet,
    profile: Profile,
    candidates: usize,
    shots: usize,
    /// The split, as the file of the rows is called.
    split: String,
}

impl Cfever {
    /// The benchmark of a section; see [`super::build`].
    pub fn new(config: &BenchmarkConfig, prompts: PromptSet) -> Result<Self, BuildError> {
        check_keys(NAME, config, &["max_candidates", "shots"])?;
        let conditions = Condition::parse_all(&config.conditions)?;
        check_prompts(&prompts, &TEXTS, &needed(&conditions))?;
        Ok(Self {
            names: conditions.iter().map(|condition| condition.name().to_owned()).collect(),
            conditions,
            prompts,
            profile: config.profile,
            candidates: config.max_candidates.map_or(CANDIDATES, |n| n as usize),
            shots: config.shots as usize,
            split: split_of(&config.data),
        })
    }

    fn text(&self, text: PromptText) -> &str {
        self.prompts.get(text.name).unwrap_or_default()
    }

    /// The sentences that a condition shows, the order that they are shown in.
    fn shown<'a>(&self, condition: Condition, row: &'a Row) -> Vec<&'a Candidate> {
        let Some(found) = &row.found else { return Vec::new() };
        match condition {
            Condition::ClaimOnly => Vec::new(),
            Condition::Bm25 => found.bm25.iter().take(self.candidates).collect(),
            Condition::Oracle => {
                let gold = row.gold.as_ref();
                let is_gold = |candidate: &&Candidate| {
                    let sentence = Sentence::new(candidate.page.as_str(), candidate.line);
                    gold.is_some_and(|gold| distinct(gold).contains(&&sentence))
                };
                let (gold, others): (Vec<&Candidate>, Vec<&Candidate>) =
                    found.oracle.iter().partition(is_gold);
                let mut shown: Vec<_> = gold.into_iter().chain(others).take(self.candidates).collect();
                // Where a sentence stands must not tell whether it is gold.
                shown.sort_by(|a, b| (&a.page, a.line).cmp(&(&b.page, b.line)));
                shown
            }
        }
    }

    /// The question about a claim.
    fn question<'a>(
        &self,
        condition: Condition,
        claim: &str,
        shown: impl IntoIterator<Item = &'a Candidate>,
    ) -> String {
        if !condition.has_evidence() {
            return fill(self.text(CLAIM_ONLY), &[("claim", claim)]);
        }
        let line = |(n, candidate): (usize, &Candidate)| {
            // A line of the prompt is one sentence.
            let sentence = candidate.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let n = (n + 1).to_string();
            fill(self.text(CANDIDATE_LINE), &[("n", &n), ("page", &candidate.page), ("sentence", &sentence)])
        };
        let lines: Vec<String> = shown.into_iter().enumerate().map(line).collect();
        fill(self.text(WITH_EVIDENCE), &[("claim", claim), ("candidates", &lines.join("\n"))])
    }

    /// The worked examples as turns of the chat.
    fn examples(&self, condition: Condition, shots: &[Shot]) -> Vec<Message> {
        let turns = |shot: &Shot| {
            let question = self.question(condition, &shot.claim, &shot.candidates);
            let label = Value::from(shot.label.as_str());
            let answer = if condition.has_evidence() {
                let numbers: Vec<String> = shot.evidence.iter().map(usize::to_string).collect();
                format!("{{\"label\": {label}, \"evidence\": [{}]}}", numbers.join(", "))
            } else {
                format!("{{\"label\": {label}}}")
            };
            [Message::text(Role::User, question), Message::text(Role::Assistant, answer)]
        };
        shots.iter().take(self.shots).flat_map(turns).collect()
    }

    fn draft(&self, condition: Condition, row: &Row) -> Draft {
        let shown = self.shown(condition, row);
        let shots = row.found.as_ref().map(|found| &*found.shots).unwrap_or_default();
        let mut messages = self.examples(condition, shots);
        messages.push(Message::text(Role::User, self.question(condition, &row.claim, shown.iter().copied())));
        let mut tags = Tags::new();
        tags.extend(row.domain.clone().map(|domain| ("domain".to_owned(), domain)));
        if self.shots > 0 {
            let ids: Vec<String> = shots.iter().take(self.shots).map(|shot| shot.id.to_string()).collect();
            tags.insert("shots".to_owned(), ids.join(","));
        }
        let mut told = Tags::new();
        if let Some(gold) = &row.gold {
            let item = |sentence: &Sentence<'_>| json!([sentence.page, sentence.line]);
            let sets: Vec<Vec<Value>> = gold.sets.iter().map(|set| set.iter().map(item).collect()).collect();
            told.insert(scorer::GOLD.to_owned(), json!(sets).to_string());
        }
        if condition.has_evidence() {
            let places: Vec<Value> = shown.iter().map(|shown| json!([shown.page, shown.line])).collect();
            told.insert(scorer::SHOWN.to_owned(), json!(places).to_string());
        }
        if let Some(Found { retrieval, pages, .. }) =
            row.found.as_ref().filter(|_| condition == Condition::Bm25)
        {
            told.insert(scorer::PAGES.to_owned(), json!(pages).to_string());
            tags.insert("retrieval".to_owned(), retrieval.clone());
        }
        told.insert(scorer::CLAIM.to_owned(), row.claim.clone());
        Draft {
            conditions: vec![condition.name().to_owned()],
            tags,
            gold: row.gold.iter().map(|gold| gold.label.as_str().to_owned()).collect(),
            judging: told,
            prompt: Prompt::Chat(messages),
        }
    }
}

impl Benchmark for Cfever {
    fn conditions(&self) -> &[String] {
        &self.names
    }

    fn sample(&self, _line: u64, row: Value) -> Result<Sample, String> {
        let read = Row::read(&row)?;
        let evidence = self.conditions.iter().find(|condition| condition.has_evidence());
        let prepare = "run `harness prepare cfever` and name its evidence/dev.jsonl as `data`";
        let looked = read.found.as_ref().filter(|found| found.retrieval != row::NO_RETRIEVAL);
        if let (Some(condition), None) = (evidence, looked) {
            let name = condition.name();
            return Err(format!("row {} has no sentences for `{name}`: {prepare}", read.id));
        }
        if self.conditions.contains(&Condition::Oracle) && read.gold.is_none() {
            return Err(format!("row {} has no gold, which `oracle` shows: use the dev split", read.id));
        }
        let shots = read.found.as_ref().map_or(0, |found| found.shots.len());
        if shots < self.shots {
            let (option, folder) =
                if evidence.is_some() { ("", "evidence") } else { (" --no-evidence", "claims") };
            return Err(format!(
                "row {} holds {shots} worked examples, and `shots` asks for {}: run `harness prepare cfever --shots {}{option}` \
                 and name its {folder}/dev.jsonl as `data`",
                read.id, self.shots, self.shots
            ));
        }
        Ok(Sample { id: read.id.to_string(), row })
    }

    fn rows_in(&mut self, file: &Path) {
        self.split = split_of(file);
    }

    fn data_check(&self) -> Option<DataCheck> {
        expected_of(&self.split).and_then(DataCheck::new)
    }

    fn requests(&self, sample: &Sample) -> Vec<Draft> {
        let Ok(row) = Row::read(&sample.row) else { return Vec::new() };
        self.conditions.iter().map(|condition| self.draft(*condition, &row)).collect()
    }

    fn has_clips(&self) -> bool {
        false
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        needed(&self.conditions).iter().filter_map(|text| self.prompts.info(text.name)).collect()
    }

    fn deviations(&self, facts: &RunFacts<'_>) -> Vec<String> {
        self.departures(facts)
    }

    fn scorer(&self, _judge: Option<&JudgeSetup>) -> Box<dyn Scorer> {
        Box::new(scorer::CfeverScorer::new(&self.conditions, self.profile, self.candidates))
    }

    fn tables(
        &self,
        scores: &BenchmarkScores,
        published: &Published,
        compare_to: Option<&str>,
    ) -> Vec<Table> {
        tables::all(scores, published, compare_to, &self.split)
    }

    fn exports(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn export(&self, planned: &Planned, response: Option<&Response>) -> Option<Value> {
        Some(scorer::submission_line(planned, response))
    }
}

/// The label of a response, as a submission writes it.
fn written(label: Option<Label>) -> &'static str {
    label.map_or("unparsed", Label::as_str)
}

#[cfg(test)]
mod tests;
