//! The condition `asr`: the model writes down the spoken question, and is measured against the written one.
//!
//! A model that mishears a question cannot answer it: this is what tells the two apart. The paper has no such condition; it
//! gives error rates of Whisper-large-v3 on some of its recordings, with a normaliser that is not published.

use std::collections::BTreeMap;

use super::{LANGUAGES, Language};
use crate::benchmark::build::PromptText;
use crate::benchmark::watch::SameAnswer;
use crate::benchmark::{ConditionCounts, Draft, MetricValue};
use crate::metric::edit::{ErrorRate, Normaliser, char_edits, word_edits};
use crate::report::table::Cell;
use crate::types::{Planned, Prompt, Response, Tags};

/// Its name.
pub(super) const ASR: &str = "asr";
/// What `harness list` says.
pub(super) const ABOUT: &str = "spoken question, to be written down: error rates against the written one";
/// What the model is told beside the clip; nothing where the text is empty.
pub(super) const TEXT: PromptText = PromptText::message("asr", &["src"], &[]);

/// Word errors over all reference words.
pub(super) const WER: &str = "wer_corpus";
/// Character errors over all reference characters.
pub(super) const CER: &str = "cer_corpus";
/// The paper's normaliser is not published; this one is imported by its authors' script.
const NORMALISER: Normaliser = Normaliser::Whisper;
/// The means of the items' own rates.
const MEANS: [(&str, &str); 2] = [(WER, "wer_mean"), (CER, "cer_mean")];

/// The language's rate: languages that write no blanks have no words to count.
fn rate_of(language: &Language) -> &'static str {
    if matches!(language.code, "cmn" | "jpn" | "yue") { CER } else { WER }
}

/// Whether a planned request is of this condition.
pub(super) fn is_asr(planned: &Planned) -> bool {
    planned.conditions.iter().any(|condition| condition == ASR)
}

/// The request on a clip.
pub(super) fn draft(tags: Tags, question: &str, prompt: Prompt) -> Draft {
    Draft {
        conditions: vec![ASR.to_owned()],
        tags,
        gold: vec![question.to_owned()],
        judging: Tags::new(),
        prompt,
    }
}

/// Errors in one language.
#[derive(Debug)]
struct Tally {
    language: &'static Language,
    words: ErrorRate,
    characters: ErrorRate,
}

/// Scores of the condition.
#[derive(Debug)]
pub(super) struct AsrScorer {
    counts: ConditionCounts,
    tallies: Vec<Tally>,
    same: SameAnswer,
    unplaced: u64,
}

impl AsrScorer {
    pub(super) fn new(languages: &[&'static Language]) -> Self {
        let tally = |&language: &&'static Language| Tally {
            language,
            words: ErrorRate::default(),
            characters: ErrorRate::default(),
        };
        Self {
            counts: ConditionCounts::new(ASR),
            tallies: languages.iter().map(tally).collect(),
            same: SameAnswer::default(),
            unplaced: 0,
        }
    }

    pub(super) fn add(&mut self, planned: &Planned, response: Option<&Response>) {
        self.counts.count(response.map(|response| response.outcome));
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        let src = planned.tags.get("src").map(String::as_str).unwrap_or_default();
        let tally = self.tallies.iter_mut().find(|tally| tally.language.code == src);
        let (Some(tally), Some(question)) = (tally, planned.gold.first()) else {
            self.unplaced += 1;
            return;
        };
        // What a model thinks before it writes is no part of the transcript.
        let heard = response.text.rsplit("</think>").next().unwrap_or_default();
        tally.words.add(word_edits(question, heard, NORMALISER));
        tally.characters.add(char_edits(question, heard, NORMALISER));
        self.same.add(&response.text, &planned.sample, &planned.gold);
    }

    /// Counts, figures by language, and warnings.
    pub(super) fn finish(self) -> (ConditionCounts, Vec<MetricValue>, Vec<String>) {
        let figures = self.tallies.iter().flat_map(|tally| {
            let both = [(WER, &tally.words), (CER, &tally.characters)];
            both.into_iter().flat_map(|(metric, errors)| figures(tally.language, metric, errors))
        });
        let metrics = figures.collect();
        let mut warnings: Vec<String> = self.same.warning("clips to be written down").into_iter().collect();
        if self.unplaced > 0 {
            warnings.push(format!(
                "{} planned transcripts name no language of this section, and are in no score",
                self.unplaced
            ));
        }
        (self.counts, metrics, warnings)
    }
}

fn figures(language: &Language, metric: &str, errors: &ErrorRate) -> Vec<MetricValue> {
    let total = errors.total();
    let counts = [
        ("substitutions", total.substitutions),
        ("insertions", total.insertions),
        ("deletions", total.deletions),
        ("reference", total.reference),
    ];
    let figure = |name: &str, rate: Option<f64>, n: u64, counts: BTreeMap<String, u64>| MetricValue {
        metric: name.to_owned(),
        profile: None,
        condition: ASR.to_owned(),
        group: Tags::from([("src".to_owned(), language.code.to_owned())]),
        value: rate.map(|rate| rate * 100.0),
        n,
        counts,
    };
    let mean = MEANS.iter().find(|(corpus, _)| *corpus == metric).map_or(metric, |(_, mean)| mean);
    vec![
        figure(
            metric,
            errors.corpus(),
            errors.samples(),
            counts.map(|(name, count)| (name.to_owned(), count)).into(),
        ),
        figure(mean, errors.mean(), errors.samples() - errors.empty_references(), BTreeMap::new()),
    ]
}

/// The columns of the table.
pub(super) const COLUMNS: [&str; 9] =
    ["language", "rate", "%", "mean of items", "substitutions", "insertions", "deletions", "reference", "n"];

/// A row for each language of a section; `find` gives figures by metric and language.
pub(super) fn rows<'a>(
    languages: &[&'static Language],
    find: impl Fn(&str, &str) -> Option<&'a MetricValue>,
) -> Vec<Vec<Cell>> {
    let row = |language: &&'static Language| {
        let metric = rate_of(language);
        let found = find(metric, language.code);
        let mean = MEANS.iter().find(|(corpus, _)| *corpus == metric).map_or(metric, |(_, mean)| mean);
        let count = |name: &str| {
            Cell::Count(found.and_then(|found| found.counts.get(name).copied()).unwrap_or_default())
        };
        vec![
            Cell::text(language.code),
            Cell::text(if metric == CER { "cer" } else { "wer" }),
            Cell::number(found.and_then(|found| found.value), 1),
            Cell::number(find(mean, language.code).and_then(|found| found.value), 1),
            count("substitutions"),
            count("insertions"),
            count("deletions"),
            count("reference"),
            Cell::Count(found.map_or(0, |found| found.n)),
        ]
    };
    languages.iter().map(row).collect()
}

/// What is to be said of the table.
pub(super) fn notes() -> Vec<String> {
    let unspaced: Vec<&str> =
        LANGUAGES.iter().filter(|language| rate_of(language) == CER).map(|language| language.code).collect();
    vec![
        format!(
            "errors of the transcript against the written question, over the reference: in words (wer), and in characters \
             (cer) for {}, which write no blanks; both are in scores.json for every language",
            unspaced.join(", ")
        ),
        format!("normaliser (assumed: the paper's is not published) {}", NORMALISER.about()),
        "the paper has no such condition: the wording is ours, simplified and traditional characters count as different \
         ones, and numbers are not spelled out"
            .to_owned(),
    ]
}
