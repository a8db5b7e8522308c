//! Which languages a recogniser heard where it was told none: how often it was the one of the data, and what else it was.

use std::collections::BTreeMap;

use super::transcript_rates::CONDITION;
use super::transcripts::Transcript;
use crate::benchmark::{BenchmarkScores, MetricValue};
use crate::languages;
use crate::report::table::{Cell, Table};
use crate::types::Tags;

/// The share of clips whose language was heard right, of those of which a language was named.
pub const LANGUAGE: &str = "transcript_language";

/// How a count is called that belongs to a language that was heard: `heard:de`.
const HEARD: &str = "heard:";
/// Clips of which the recogniser, told nothing, has named no language.
const UNNAMED: &str = "unnamed";

#[derive(Default)]
struct Tally {
    heard: BTreeMap<String, u64>,
    unnamed: u64,
    right: u64,
}

/// The figures of a section's transcripts, by language and of all; none where every language was told, or none named.
pub fn metrics(transcripts: &[Transcript]) -> Vec<MetricValue> {
    let untold = transcripts.iter().filter(|found| found.told.is_none() && found.outcome.is_answer());
    let mut tallies: BTreeMap<Option<&str>, Tally> = BTreeMap::new();
    for transcript in untold {
        let language = transcript.language.as_str();
        for group in [None, Some(language)] {
            let tally = tallies.entry(group).or_default();
            let Some(heard) = &transcript.heard else {
                tally.unnamed += 1;
                continue;
            };
            tally.right += u64::from(languages::whisper(language) == Some(heard.as_str()));
            *tally.heard.entry(heard.clone()).or_default() += 1;
        }
    }
    if tallies.values().all(|tally| tally.heard.is_empty()) {
        return Vec::new();
    }
    let figure = |(language, tally): (Option<&str>, Tally)| {
        let n: u64 = tally.heard.values().sum();
        let heard = tally.heard.into_iter().map(|(code, count)| (format!("{HEARD}{code}"), count));
        MetricValue {
            metric: LANGUAGE.to_owned(),
            profile: None,
            condition: CONDITION.to_owned(),
            group: language
                .map(|code| ("language".to_owned(), code.to_owned()))
                .into_iter()
                .collect::<Tags>(),
            value: (n > 0).then(|| tally.right as f64 / n as f64),
            n,
            counts: heard.chain([(UNNAMED.to_owned(), tally.unnamed)]).collect(),
        }
    };
    tallies.into_iter().map(figure).collect()
}

/// The table of these figures: a line for each language of the data, with the languages that were heard in it, the
/// commonest first. `None` where a section has none.
pub fn table(scores: &BenchmarkScores) -> Option<Table> {
    let mut values: Vec<&MetricValue> =
        scores.metrics.iter().filter(|value| value.metric == LANGUAGE).collect();
    // All of them last.
    values.sort_by(|a, b| {
        (a.group.is_empty(), a.group.get("language")).cmp(&(b.group.is_empty(), b.group.get("language")))
    });
    if values.is_empty() {
        return None;
    }
    let row = |value: &&MetricValue| {
        let language = value.group.get("language").map_or("all", String::as_str);
        let heard = value.counts.iter().filter_map(|(name, count)| Some((name.strip_prefix(HEARD)?, count)));
        let mut heard: Vec<(&str, &u64)> = heard.collect();
        heard.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let heard: Vec<String> = heard.into_iter().map(|(code, count)| format!("{code} {count}")).collect();
        vec![
            Cell::text(language),
            Cell::text(languages::whisper(language).unwrap_or_default()),
            Cell::number(value.value.map(|share| 100.0 * share), 1),
            Cell::Count(value.n),
            Cell::Count(value.counts.get(UNNAMED).copied().unwrap_or_default()),
            Cell::text(heard.join(", ")),
        ]
    };
    Some(Table {
        name: format!("{}-transcripts-languages", scores.label),
        title: format!("{}: languages heard by the recogniser, which was told none", scores.label),
        columns: ["language", "its code", "heard right, %", "n", "unnamed", "heard"].map(str::to_owned).to_vec(),
        rows: values.iter().map(row).collect(),
        notes: vec![
            "codes are Whisper's; a language without a code is one that it does not know, and is never heard right"
                .to_owned(),
            "n: clips of which the recogniser named the language; unnamed: those of which it named none (an endpoint names it \
             with verbose = true under [model.asr.transcription]); heard: how many clips were taken for which language"
                .to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Digest, Outcome};

    fn transcript(language: &str, told: Option<&str>, heard: Option<&str>) -> Transcript {
        Transcript {
            benchmark: "b".to_owned(),
            clip: "a.wav".to_owned(),
            language: language.to_owned(),
            told: told.map(str::to_owned),
            heard: heard.map(str::to_owned),
            outcome: Outcome::Ok,
            text: "x".to_owned(),
            said: None,
            took: None,
            key: Digest::default(),
        }
    }

    #[test]
    fn languages_are_counted_where_none_was_told() {
        let mut transcripts: Vec<Transcript> =
            [Some("de"), Some("nl"), Some("nl"), Some("de"), Some("de"), None]
                .into_iter()
                .map(|heard| transcript("deu_Latn", None, heard))
                .collect();
        transcripts.push(transcript("wol_Latn", None, Some("fr")));
        transcripts.push(transcript("eng_Latn", Some("en"), None));
        let metrics = metrics(&transcripts);
        let scores = BenchmarkScores { label: "b".to_owned(), metrics, ..BenchmarkScores::default() };
        let german = scores.find(LANGUAGE, CONDITION, &[("language", "deu_Latn")]).unwrap();
        assert_eq!((german.value, german.n), (Some(0.6), 5));
        assert_eq!((german.counts["heard:nl"], german.counts["unnamed"]), (2, 1));
        assert_eq!(scores.find(LANGUAGE, CONDITION, &[]).unwrap().value, Some(0.5));
        // What was told is not counted.
        assert!(scores.find(LANGUAGE, CONDITION, &[("language", "eng_Latn")]).is_none());
        let table = table(&scores).unwrap();
        let first: Vec<&Cell> = table.rows.iter().map(|row| &row[0]).collect();
        assert_eq!(first, [&Cell::text("deu_Latn"), &Cell::text("wol_Latn"), &Cell::text("all")]);
        assert_eq!(table.rows[0][5], Cell::text("de 3, nl 2"));
        assert_eq!((&table.rows[1][1], &table.rows[1][2]), (&Cell::text(""), &Cell::Number(0.0, 1)));
    }

    #[test]
    fn there_is_no_table_where_no_language_was_named() {
        assert!(metrics(&[transcript("eng_Latn", Some("en"), None)]).is_empty());
        assert!(metrics(&[transcript("eng_Latn", None, None)]).is_empty());
        assert!(table(&BenchmarkScores::default()).is_none());
    }
}
