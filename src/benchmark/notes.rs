//! The sentences that stand under every table, whatever the benchmark: prompts, counts, deviations, warnings.

use std::collections::BTreeMap;

use super::{BenchmarkScores, ConditionCounts, JudgeScores};
use crate::types::{Outcome, counted};

/// What every table of a benchmark says below itself.
pub(super) fn common(scores: &BenchmarkScores) -> Vec<String> {
    let mut notes = Vec::new();
    if !scores.prompts.is_empty() {
        let prompts = scores.prompts.iter().map(|prompt| {
            let hash: String = prompt.sha256.chars().take(12).collect();
            format!("{} ({}, sha256 {hash})", prompt.name, prompt.status)
        });
        notes.push(format!("prompts: {}", prompts.collect::<Vec<_>>().join(", ")));
    }
    notes.extend(answered_as(&scores.answered_as).map(|models| format!("answered as {models}")));
    notes.extend(scores.conditions.iter().map(counts));
    notes.push(format!("rows that could not be read: {}", scores.unreadable_rows));
    if let Some(judge) = &scores.judge {
        notes.extend(judged(judge));
    }
    let filtered: u64 = scores.conditions.iter().map(|counts| counts.of(Outcome::ContentFilter)).sum();
    if filtered > 0 && !scores.tells_withheld {
        notes.push(
            "an answer withheld by a filter is scored as the text that came with it, which is mostly none"
                .to_owned(),
        );
    }
    if let Some((usage, cost)) = scores.usage.as_ref().and_then(|usage| Some((usage, usage.cost?))) {
        notes.push(format!(
            "cost {cost:.4} for {} prompt tokens and {} answer tokens, at the prices of the config",
            usage.tokens.prompt_tokens, usage.tokens.completion_tokens
        ));
    }
    if let Some(took) = &scores.transcribing {
        let cost = took.cost.map(|cost| format!("; cost {cost:.4}, at the prices of [model.asr.price]"));
        let earlier = match took.earlier {
            0 => String::new(),
            earlier => format!("; {earlier} of them were there before this run, and cost it nothing"),
        };
        notes.push(format!(
            "transcripts: {} clips of different content, {:.1} s of sound, took {} prompt tokens and {} answer \
             tokens{}{earlier}",
            took.requests,
            took.audio_seconds,
            took.tokens.prompt_tokens,
            took.tokens.completion_tokens,
            cost.unwrap_or_default()
        ));
    }
    notes.extend(scores.deviations.iter().map(|text| format!("deviation: {text}")));
    notes.extend(scores.warnings.iter().map(|text| format!("warning: {text}")));
    notes
}

/// What judging came to, every count named.
fn judged(judge: &JudgeScores) -> Vec<String> {
    let outcomes = Outcome::ALL.into_iter().map(|outcome| {
        format!("{} {}", outcome.as_str(), judge.outcomes.get(&outcome).copied().unwrap_or_default())
    });
    let rules = judge.rules.iter().map(|(rule, count)| format!("{rule} {count}"));
    let prompts = judge.prompts.iter().map(|prompt| {
        let hash: String = prompt.sha256.chars().take(12).collect();
        format!("{} ({}, sha256 {hash})", prompt.name, prompt.status)
    });
    let mut notes = vec![
        format!(
            "judge {} ({}), asked in mode {}: prompts: {}",
            judge.judge,
            judge.model,
            judge.mode.as_str(),
            prompts.collect::<Vec<_>>().join(", ")
        ),
        format!(
            "judge {}: {} runs, {} calls: {}, missing {}; replies: {}; unparsed {}",
            judge.judge,
            judge.runs,
            judge.calls,
            outcomes.collect::<Vec<_>>().join(", "),
            judge.missing,
            rules.collect::<Vec<_>>().join(", "),
            judge.unparsed
        ),
    ];
    let models = answered_as(&judge.answered_as);
    notes.extend(models.map(|models| format!("judge {}: answered as {models}", judge.judge)));
    if let Some(usage) = &judge.usage {
        let cost = usage.cost.map(|cost| format!("; cost {cost:.4}, at the prices of its config"));
        let replies = judge.outcomes.iter().filter(|(outcome, _)| outcome.is_answer());
        let replies: u64 = replies.map(|(_, count)| count).sum();
        // With calls that were made again it is not known of which the others are.
        let equal = match (replies + judge.asked_again).saturating_sub(usage.requests) {
            0 => String::new(),
            _ if judge.asked_again > 0 => "; calls on one answer are made once".to_owned(),
            more => format!("; {more} more calls are on an answer of one of these, and were not made again"),
        };
        notes.push(format!(
            "judge {}: {} replies took {} prompt tokens and {} reply tokens{}{equal}",
            judge.judge,
            usage.requests,
            usage.tokens.prompt_tokens,
            usage.tokens.completion_tokens,
            cost.unwrap_or_default()
        ));
    }
    if judge.retries > 0 {
        notes.push(format!(
            "judge {}: replies that cannot be read are asked for again, at most {} times, with 1000 more for a seed each \
             time: {} calls were made again, {} replies could then be read",
            judge.judge, judge.retries, judge.asked_again, judge.read_again
        ));
    }
    if judge.shortened > 0 {
        let by = match &judge.tokenizer {
            Some(digest) => {
                format!(
                    "tokens counted by its tokenizer, blake3 {}",
                    digest.chars().take(12).collect::<String>()
                )
            }
            None => "tokens estimated".to_owned(),
        };
        notes.push(format!(
            "judge {}: {} answers were shortened to fit its context ({by})",
            judge.judge, judge.shortened
        ));
    }
    notes
}

/// The models that answers are of, with their counts where there are several.
fn answered_as(models: &BTreeMap<String, u64>) -> Option<String> {
    let mut names = models.keys();
    match (names.next(), names.next()) {
        (None, _) => None,
        (Some(only), None) => Some(only.clone()),
        _ => Some(counted(models)),
    }
}

/// What came of the requests of a condition, every outcome named.
fn counts(counts: &ConditionCounts) -> String {
    let outcomes =
        Outcome::ALL.into_iter().map(|outcome| format!("{} {}", outcome.as_str(), counts.of(outcome)));
    let unanswered = match counts.unanswered() {
        0 => String::new(),
        n => format!("; without an answer and in no score: {n}"),
    };
    format!(
        "{}: {} requests: {}, missing {}{unanswered}",
        counts.condition,
        counts.planned,
        outcomes.collect::<Vec<_>>().join(", "),
        counts.missing
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::TranscribingScores;
    use crate::prompt::PromptInfo;
    use crate::types::Usage;

    /// Two windows of a short clip are one: what a server got is less than the calls.
    #[test]
    fn calls_that_are_equal_are_told() {
        use crate::benchmark::UsageScores;

        let note = |requests: u64, asked_again: u64| {
            let judge = JudgeScores {
                judge: "ann".into(),
                calls: 8,
                outcomes: BTreeMap::from([(Outcome::Ok, 6), (Outcome::Empty, 1), (Outcome::RequestError, 1)]),
                usage: Some(UsageScores { requests, ..UsageScores::default() }),
                asked_again,
                ..JudgeScores::default()
            };
            judged(&judge).into_iter().find(|note| note.contains("replies took")).unwrap()
        };
        let took =
            |requests: u64| format!("judge ann: {requests} replies took 0 prompt tokens and 0 reply tokens");
        assert_eq!(note(7, 0), took(7));
        assert_eq!(
            note(5, 0),
            took(5) + "; 2 more calls are on an answer of one of these, and were not made again"
        );
        assert_eq!(note(6, 1), took(6) + "; calls on one answer are made once");
    }

    #[test]
    fn every_count_is_named() {
        let mut counts = ConditionCounts::new("sqa");
        for outcome in [Some(Outcome::Ok), Some(Outcome::ContentFilter), Some(Outcome::MediaError), None] {
            counts.count(outcome);
        }
        let prompt =
            PromptInfo { name: "p".into(), status: "mine".into(), sha256: "0123456789abcdef".into() };
        let scores = BenchmarkScores {
            conditions: vec![counts],
            prompts: vec![prompt],
            deviations: vec!["d".into()],
            warnings: vec!["w".into()],
            unreadable_rows: 2,
            transcribing: Some(TranscribingScores {
                requests: 5,
                earlier: 2,
                audio_seconds: 12.34,
                tokens: Usage { prompt_tokens: 7, audio_tokens: 7, completion_tokens: 9 },
                cost: Some(0.25),
            }),
            answered_as: BTreeMap::from([("m-1".to_owned(), 2), ("m-2".to_owned(), 1)]),
            ..BenchmarkScores::default()
        };
        assert_eq!(
            common(&scores),
            [
                "prompts: p (mine, sha256 0123456789ab)",
                "answered as m-1 (2), m-2 (1)",
                "sqa: 4 requests: ok 1, length 0, content_filter 1, empty 0, media_error 1, request_error 0, \
                 missing 1; without an answer and in no score: 2",
                "rows that could not be read: 2",
                "an answer withheld by a filter is scored as the text that came with it, which is mostly none",
                "transcripts: 5 clips of different content, 12.3 s of sound, took 7 prompt tokens and 9 answer tokens; \
                 cost 0.2500, at the prices of [model.asr.price]; 2 of them were there before this run, and cost it nothing",
                "deviation: d",
                "warning: w",
            ]
        );
    }
}
