//! How near transcripts are to what is said: word and character error rates by language, and their table. And what they
//! took.

use std::collections::BTreeMap;

use super::cost::{self, Price};
use super::transcripts::Transcript;
use crate::benchmark::{BenchmarkScores, MetricValue, TranscribingScores};
use crate::config::CascadeConfig;
use crate::config::cascade::AsrLanguage;
use crate::metric::edit::{ErrorRate, Normaliser, char_edits, word_edits};
use crate::report::table::{Cell, Table};
use crate::types::{Outcome, Tags, listed};

/// What these figures stand under in place of a condition.
pub const CONDITION: &str = "transcripts";
/// Word errors.
pub const WER: &str = "transcript_wer";
/// Character errors.
pub const CER: &str = "transcript_cer";

/// How clips are counted whose language the recogniser was not told.
const UNTOLD: &str = "untold";

/// Languages that a sentence names.
const NAMED: usize = 8;

#[derive(Default)]
struct Rates {
    words: ErrorRate,
    characters: ErrorRate,
    clips: u64,
    failed: u64,
    cut: u64,
    empty: u64,
    untold: u64,
    without_reference: u64,
}

/// Whether the recogniser has written something down, if only nothing.
fn is_written(transcript: &Transcript) -> bool {
    matches!(transcript.outcome, Outcome::Ok | Outcome::Empty | Outcome::Length)
}

/// The figures of a section's transcripts, by language and of all.
pub fn metrics(transcripts: &[Transcript]) -> Vec<MetricValue> {
    let mut by_language: BTreeMap<Option<&str>, Rates> = BTreeMap::new();
    for transcript in transcripts {
        for language in [None, Some(transcript.language.as_str())] {
            let rates = by_language.entry(language).or_default();
            rates.clips += 1;
            if !is_written(transcript) {
                rates.failed += 1;
                continue;
            }
            rates.cut += u64::from(transcript.outcome == Outcome::Length);
            rates.empty += u64::from(transcript.text.trim().is_empty());
            rates.untold += u64::from(transcript.told.is_none());
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
            (UNTOLD, rates.untold),
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

/// What is to be said of transcripts that were cut, or hold nothing.
pub fn warnings(transcripts: &[Transcript]) -> Vec<String> {
    were_cut(transcripts).into_iter().chain(are_empty(transcripts)).collect()
}

fn were_cut(transcripts: &[Transcript]) -> Option<String> {
    let cut = transcripts.iter().filter(|transcript| transcript.outcome == Outcome::Length).count();
    (cut > 0).then(|| {
        format!(
            "{cut} of {} transcripts were cut at their most tokens: a recogniser that repeats itself, or too small a \
             max_new_tokens under [model.transcripts]; the questions were asked with what was there",
            transcripts.len()
        )
    })
}

/// Single clips may be silent. Where one in ten of a language or more is empty, the recogniser or its server is at fault.
fn are_empty(transcripts: &[Transcript]) -> Option<String> {
    let (mut by_language, mut empty, mut all) = (BTreeMap::<&str, (u64, u64)>::new(), 0_u64, 0_u64);
    for transcript in transcripts.iter().filter(|transcript| is_written(transcript)) {
        let count = u64::from(transcript.text.trim().is_empty());
        let of_language = by_language.entry(transcript.language.as_str()).or_default();
        *of_language = (of_language.0 + count, of_language.1 + 1);
        (empty, all) = (empty + count, all + 1);
    }
    let many: Vec<String> = by_language
        .into_iter()
        .filter(|(_, (empty, clips))| *empty > 0 && 10 * *empty >= *clips)
        .map(|(language, (empty, clips))| format!("{} {empty} of {clips}", called(language)))
        .collect();
    (!many.is_empty()).then(|| {
        format!(
            "{empty} of {all} transcripts are empty ({}): the recogniser wrote nothing down, or what its server sent holds \
             no text; the questions were asked without these words",
            listed(&many, NAMED)
        )
    })
}

/// A language as it stands in sentences.
fn called(language: &str) -> &str {
    if language.is_empty() { "clips without a language" } else { language }
}

/// How the recogniser of a cascade was asked, for the foot of tables. `scores` are those of the table's section.
pub fn note(cascade: &CascadeConfig, scores: Option<&BenchmarkScores>) -> String {
    let transcripts = &cascade.transcripts;
    let fallback = cascade.asr.local.as_ref().is_some_and(|local| local.transcription.fallback);
    let forced = transcripts.language == AsrLanguage::Forced;
    let untold = scores.filter(|_| forced).map(untold).unwrap_or_default();
    let left = if untold.is_empty() {
        String::new()
    } else {
        format!(" (left to the recogniser: {})", listed(&untold, NAMED))
    };
    format!(
        "transcripts: {}, language {}{left}, by {}, {}, at most {} tokens",
        cascade.asr.name,
        transcripts.language.as_str(),
        transcripts.by.as_str(),
        // What a fallback writes again is drawn.
        if fallback { "greedy, with fallback" } else { "greedy" },
        transcripts.max_new_tokens
    )
}

/// The languages with clips of which the recogniser was told none.
fn untold(scores: &BenchmarkScores) -> Vec<String> {
    let of_language = |value: &MetricValue| {
        let untold = value.counts.get(UNTOLD).is_some_and(|count| *count > 0);
        let language = value.group.get("language").filter(|_| value.metric == WER && untold)?;
        Some(called(language).to_owned())
    };
    scores.metrics.iter().filter_map(of_language).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::transcripts::Took;
    use super::*;
    use crate::config::load_text;
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
    fn many_empty_transcripts_are_warned_of_and_a_few_are_not() {
        let of = |language: &str, n: usize, text: &str| {
            let outcome = if text.is_empty() { Outcome::Empty } else { Outcome::Ok };
            vec![transcript(language, outcome, text, None); n]
        };
        let few = [of("eng_Latn", 19, "x"), of("eng_Latn", 1, "")].concat();
        assert!(warnings(&few).is_empty());
        // One in ten of a language is much, whatever the share of the section.
        let many = [few, of("deu_Latn", 9, "x"), of("deu_Latn", 1, " ")].concat();
        let warned = warnings(&many);
        assert!(
            warned.len() == 1 && warned[0].starts_with("2 of 30 transcripts are empty (deu_Latn 1 of 10):"),
            "{warned:?}"
        );
        let all: Vec<Transcript> = (10..20).flat_map(|n| of(&format!("l{n}"), 1, "")).collect();
        let warned = warnings(&all);
        assert!(warned[0].contains("l17 1 of 1 and 2 more): "), "{warned:?}");
    }

    #[test]
    fn the_note_names_languages_that_were_left_to_the_recogniser_and_fallback() {
        let cascade = |more: &str| {
            let text = format!(
                "[model]\nkind = \"cascade\"\n[model.asr]\nkind = \"local\"\narchitecture = \"whisper\"\n\
                 weights = \"w\"\n{more}\n[model.llm]\nkind = \"openai\"\nmodel = \"l\"\n[[benchmark]]\n\
                 name = \"2m-belebele\"\ndata = \"d\"\n"
            );
            let loaded = load_text(Path::new("c.toml"), &text, &[]).unwrap();
            *loaded.config.model.cascade.unwrap()
        };
        let told =
            Transcript { told: Some("en".to_owned()), ..transcript("eng_Latn", Outcome::Ok, "x", None) };
        let transcripts = [told, transcript("wol_Latn", Outcome::Ok, "x", None)];
        let scores = BenchmarkScores { metrics: metrics(&transcripts), ..BenchmarkScores::default() };
        assert_eq!(
            note(&cascade(""), Some(&scores)),
            "transcripts: w, language forced (left to the recogniser: wol_Latn), by sentence, greedy, at most 448 tokens"
        );
        let auto = "transcription = { fallback = true }\n[model.transcripts]\nlanguage = \"auto\"";
        assert_eq!(
            note(&cascade(auto), Some(&scores)),
            "transcripts: w, language auto, by sentence, greedy, with fallback, at most 448 tokens"
        );
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
        let warned = warnings(&transcripts);
        assert!(warned[0].starts_with("1 of 4 transcripts were cut"), "{warned:?}");
        assert!(warned[1].starts_with("1 of 3 transcripts are empty (jpn_Jpan 1 of 1)"), "{warned:?}");
        assert_eq!(warnings(&transcripts[..2]), Vec::<String>::new());
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
