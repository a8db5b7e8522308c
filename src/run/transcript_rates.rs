//! How near transcripts are to what is said: word and character error rates by language, and their table. And what they
//! took.

use std::collections::BTreeMap;

use super::cost::{self, Price};
use super::transcripts::Transcript;
use crate::benchmark::{BenchmarkScores, MetricValue, TranscribingScores};
use crate::config::CascadeConfig;
use crate::metric::edit::{ErrorRate, Normaliser, char_edits, word_edits};
use crate::report::table::{Cell, Table};
use crate::types::{Outcome, Tags};

/// What these figures stand under in place of a condition.
pub const CONDITION: &str = "transcripts";
/// Word errors.
pub const WER: &str = "transcript_wer";
/// Character errors.
pub const CER: &str = "transcript_cer";

#[derive(Default)]
struct Rates {
    words: ErrorRate,
    characters: ErrorRate,
    clips: u64,
    failed: u64,
    cut: u64,
    empty: u64,
    without_reference: u64,
}

/// The figures of a section's transcripts, by language and of all.
pub fn metrics(transcripts: &[Transcript]) -> Vec<MetricValue> {
    let mut by_language: BTreeMap<Option<&str>, Rates> = BTreeMap::new();
    for transcript in transcripts {
        for language in [None, Some(transcript.language.as_str())] {
            let rates = by_language.entry(language).or_default();
            rates.clips += 1;
            if !matches!(transcript.outcome, Outcome::Ok | Outcome::Empty | Outcome::Length) {
                rates.failed += 1;
                continue;
            }
            rates.cut += u64::from(transcript.outcome == Outcome::Length);
            rates.empty += u64::from(transcript.text.trim().is_empty());
            let Some(said) = &transcript.said else {
                rates.without_reference += 1;
                continue;
            };
            rates.words.add(word_edits(said, &transcript.text, Normaliser::Basic));
            rates.characters.add(char_edits(said, &transcript.text, Normaliser::Basic));
        }
    }
    let figure = |metric: &str, language: Option<&str>, rates: &Rates, of: &ErrorRate| {
        let total = of.total();
        let counts = [
            ("clips", rates.clips),
            ("failed", rates.failed),
            ("cut", rates.cut),
            ("empty", rates.empty),
            ("without_reference", rates.without_reference),
            ("substitutions", total.substitutions),
            ("insertions", total.insertions),
            ("deletions", total.deletions),
            ("reference", total.reference),
        ];
        let group = language.map(|code| ("language".to_owned(), code.to_owned()));
        MetricValue {
            metric: metric.to_owned(),
            profile: None,
            condition: CONDITION.to_owned(),
            group: group.into_iter().collect::<Tags>(),
            value: of.corpus(),
            n: of.samples(),
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
        }
    };
    by_language
        .iter()
        .flat_map(|(language, rates)| {
            [figure(WER, *language, rates, &rates.words), figure(CER, *language, rates, &rates.characters)]
        })
        .collect()
}

/// The table of these figures; `None` where a section has none.
pub fn table(scores: &BenchmarkScores) -> Option<Table> {
    let of = |metric: &str, group: &Tags| {
        let same = |value: &&MetricValue| {
            value.metric == metric && value.condition == CONDITION && value.group == *group
        };
        scores.metrics.iter().find(same)
    };
    let mut groups: Vec<&Tags> =
        scores.metrics.iter().filter(|value| value.metric == WER).map(|value| &value.group).collect();
    // All of them last.
    groups.sort_by(|a, b| (a.is_empty(), a.get("language")).cmp(&(b.is_empty(), b.get("language"))));
    if groups.is_empty() {
        return None;
    }
    let rows = groups.into_iter().map(|group| {
        let (words, characters) = (of(WER, group), of(CER, group));
        let percent = |value: Option<&MetricValue>| {
            Cell::number(value.and_then(|value| value.value).map(|rate| 100.0 * rate), 1)
        };
        let count = |name: &str| {
            Cell::Count(words.and_then(|value| value.counts.get(name).copied()).unwrap_or_default())
        };
        vec![
            Cell::text(group.get("language").map_or("all", String::as_str)),
            percent(words),
            percent(characters),
            Cell::Count(words.map_or(0, |value| value.n)),
            count("clips"),
            count("failed"),
            count("cut"),
            count("empty"),
        ]
    });
    let rows = rows.collect();
    let notes = vec![
        format!(
            "WER, CER: errors in words (at white space) and characters over all references together; {}",
            Normaliser::Basic.about()
        ),
        "languages without blanks between words have no use for WER".to_owned(),
        "n: transcripts with a reference; failed: without a transcript, and their questions without an answer; \
         cut: at the most tokens, and used as far as they go; empty: nothing was written down"
            .to_owned(),
    ];
    Some(Table {
        name: format!("{}-transcripts", scores.label),
        title: format!("{}: transcripts against the text, errors in percent", scores.label),
        columns: ["language", "WER", "CER", "n", "clips", "failed", "cut", "empty"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        notes,
    })
}

/// What the transcripts of a section took.
pub fn usage(transcripts: &[Transcript], price: Option<Price>) -> TranscribingScores {
    let mut sum = TranscribingScores::default();
    for transcript in transcripts {
        let Some(took) = &transcript.took else { continue };
        cost::add(&mut sum.tokens, &took.tokens);
        if transcript.outcome.is_answer() {
            sum.requests += 1;
            sum.earlier += u64::from(took.earlier);
            sum.audio_seconds += took.audio_seconds.unwrap_or_default();
        }
    }
    sum.cost = price.map(|price| price.of(&sum.tokens));
    sum
}

/// What is to be said of transcripts that were cut.
pub fn warning(transcripts: &[Transcript]) -> Option<String> {
    let cut = transcripts.iter().filter(|transcript| transcript.outcome == Outcome::Length).count();
    (cut > 0).then(|| {
        format!(
            "{cut} of {} transcripts were cut at their most tokens: a recogniser that repeats itself, or too small a \
             max_new_tokens under [model.transcripts]; the questions were asked with what was there",
            transcripts.len()
        )
    })
}

/// How the recogniser of a cascade was asked, for the foot of tables.
pub fn note(cascade: &CascadeConfig) -> String {
    let transcripts = &cascade.transcripts;
    format!(
        "transcripts: {}, language {}, by {}, greedy, at most {} tokens",
        cascade.asr.name,
        transcripts.language.as_str(),
        transcripts.by.as_str(),
        transcripts.max_new_tokens
    )
}

#[cfg(test)]
mod tests {
    use super::super::transcripts::Took;
    use super::*;
    use crate::types::{Digest, Usage};

    fn transcript(language: &str, outcome: Outcome, text: &str, said: Option<&str>) -> Transcript {
        Transcript {
            benchmark: "b".to_owned(),
            clip: "a.wav".to_owned(),
            language: language.to_owned(),
            told: None,
            heard: None,
            outcome,
            text: text.to_owned(),
            said: said.map(str::to_owned),
            took: None,
            key: Digest([0; 32]),
        }
    }

    #[test]
    fn what_transcripts_took_is_summed_without_those_that_took_nothing() {
        let took = |earlier, audio_seconds| Took {
            tokens: Usage { prompt_tokens: 100, audio_tokens: 90, completion_tokens: 10 },
            audio_seconds,
            earlier,
        };
        let of = |outcome, took| Transcript { took, ..transcript("eng_Latn", outcome, "x", None) };
        let transcripts = [
            of(Outcome::Ok, Some(took(false, Some(1.5)))),
            of(Outcome::Length, Some(took(true, None))),
            of(Outcome::Ok, None),
            of(Outcome::RequestError, Some(Took::default())),
        ];
        let price = Price { input_per_million: 1e4, output_per_million: 1e5, max_cost: None };
        let found = usage(&transcripts, Some(price));
        assert_eq!((found.requests, found.earlier, found.audio_seconds), (2, 1, 1.5));
        assert_eq!((found.tokens.prompt_tokens, found.tokens.completion_tokens), (200, 20));
        assert!((found.cost.unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(usage(&transcripts, None).cost, None);
    }

    #[test]
    fn rates_are_by_language_and_failures_are_counted() {
        let transcripts = [
            transcript("eng_Latn", Outcome::Ok, "the bridge is shut", Some("The bridge is closed.")),
            transcript("eng_Latn", Outcome::MediaError, "", Some("gone")),
            transcript("eng_Latn", Outcome::Length, "no reference", None),
            transcript("jpn_Jpan", Outcome::Empty, "", Some("橋")),
        ];
        let metrics = metrics(&transcripts);
        assert!(warning(&transcripts).unwrap().starts_with("1 of 4 transcripts were cut"));
        assert_eq!(warning(&transcripts[..2]), None);
        let scores = BenchmarkScores { label: "b".to_owned(), metrics, ..BenchmarkScores::default() };
        let of = |metric: &str, group: &[(&str, &str)]| scores.find(metric, CONDITION, group).unwrap();
        let english = of(WER, &[("language", "eng_Latn")]);
        assert_eq!((english.value, english.n), (Some(0.25), 1));
        assert_eq!((english.counts["failed"], english.counts["without_reference"]), (1, 1));
        assert_eq!(english.counts["cut"], 1);
        assert_eq!(of(CER, &[("language", "jpn_Jpan")]).value, Some(1.0));
        assert_eq!(of(WER, &[]).counts["clips"], 4);
        let table = table(&scores).unwrap();
        assert_eq!(table.rows.len(), 3);
        assert_eq!(table.rows[2][0], Cell::text("all"));
        assert!(super::table(&BenchmarkScores::default()).is_none());
    }
}
