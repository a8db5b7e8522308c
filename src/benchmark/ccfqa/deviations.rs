//! How a run departs from the paper's protocol.

use super::judging::{PAPER_JUDGE, PAPER_JUDGE_TOKENS};
use super::{
    Ccfqa, JUDGE, JUDGE_RAW, LANGUAGES, Modality, NAME, SPEECH_FULL, SPEECH_SYSTEM, SPEECH_USER, TEXT_SYSTEM,
    TEXT_USER,
};
use crate::benchmark::RunFacts;
use crate::benchmark::judging::{JudgeKind, JudgeMode};
use crate::prompt::official::Pins;
use crate::types::{Generation, Window};

/// Items of the test split that the published figures are of.
const TEST_ITEMS: u64 = 1000;
/// The settings of the paper's script.
const MAX_NEW_TOKENS: usize = 256;
const SEED: u64 = 443;

impl Ccfqa {
    /// All sentences, the gravest first.
    pub(super) fn departures(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let mut found = Vec::new();
        if facts.replayed() {
            found.extend(self.data_departures(facts));
            found.extend(self.scoring_departures(facts));
            return found;
        }
        found.extend(self.prompt_departures());
        found.extend(self.data_departures(facts));
        found.extend(generation_departures(facts.generation));
        // Not a word of that prompt is asked.
        if self.asr && facts.model.kind == "cascade" {
            found.push(
                "asr: what is measured are the transcripts of the cascade's recogniser, asked as [model.transcripts] says"
                    .to_owned(),
            );
        }
        if facts.seed != SEED {
            let greedy = if is_greedy(facts.generation) { "; greedy decoding draws nothing" } else { "" };
            found.push(format!("seed {}, the paper's script has {SEED}{greedy}", facts.seed));
        }
        if facts.model.kind == "local" && facts.model.dtype != "f16" {
            found.push(format!("the model computes in {}, the paper's script in f16", facts.model.dtype));
        }
        if self.window != Window::Whole {
            found.push(format!(
                "clips longer than the model takes are cut to a part (window `{}`)",
                self.window.as_str()
            ));
        }
        found.extend(self.scoring_departures(facts));
        found
    }

    fn scoring_departures(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let mut found = Vec::new();
        if !self.strip_output {
            found.push(
                "answers are scored without the official post-processing (`strip_output` is off)".to_owned(),
            );
        }
        found.extend(self.judge_departures(facts));
        found
    }

    fn judge_departures(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let Some(judge) = &facts.judge else {
            return vec![
                "no LLM judge: accuracy and consistency, the paper's other figures, are not computed"
                    .to_owned(),
            ];
        };
        if judge.setup.kind == JudgeKind::Match {
            return vec![
                "no LLM judge: string match (an answer that holds the gold as whole words, both normalised, is right)"
                    .to_owned(),
            ];
        }
        let mut found = Vec::new();
        if !judge.model.to_lowercase().contains(PAPER_JUDGE) {
            found.push(format!("judged by {}; the paper's judge is google/{PAPER_JUDGE}", judge.model));
        }
        let name = match judge.setup.mode {
            JudgeMode::Raw => JUDGE_RAW.name,
            JudgeMode::Chat => JUDGE.name,
        };
        if !self.words_are_official(&[name]) {
            found.push(format!(
                "the judge is asked in other words than the paper's ({})",
                self.origins(&[name])
            ));
        } else if judge.setup.mode == JudgeMode::Chat {
            found.push("the judge is asked in a chat; the paper's script sends a finished string".to_owned());
        }
        let generation = judge.generation;
        if !is_greedy(generation) || generation.max_new_tokens != PAPER_JUDGE_TOKENS {
            found.push(format!(
                "the judge answers at {} in at most {} tokens; in the paper greedily in at most \
                 {PAPER_JUDGE_TOKENS}",
                generation.temperature_by_name(),
                generation.max_new_tokens
            ));
        }
        if judge.setup.runs != 1 {
            found.push(format!("{} judging runs, the paper has 1", judge.setup.runs));
        }
        found
    }

    /// Whether all these texts are the pinned ones of the paper's own script or made of them, wherever they came
    /// from.
    fn words_are_official(&self, names: &[&str]) -> bool {
        let Ok(pins) = Pins::embedded() else { return false };
        names.iter().all(|name| {
            let found = self.prompts.info(name).map(|info| info.sha256);
            pins.of(NAME).any(|pin| pin.name == *name && found.as_ref() == Some(&pin.sha256))
        })
    }

    /// Where these texts came from, each origin once.
    fn origins(&self, names: &[&str]) -> String {
        let mut origins: Vec<&str> = Vec::new();
        for name in names {
            let origin = self.prompts.status(name);
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        origins.join(", ")
    }

    fn prompt_departures(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.asks(Modality::Speech) {
            let names: &[&str] = if self.raw_speech().is_some() {
                &[SPEECH_FULL.name]
            } else {
                &[SPEECH_SYSTEM.name, SPEECH_USER.name]
            };
            if !self.words_are_official(names) {
                found.push(format!(
                    "spoken questions are asked in other words than the paper's ({})",
                    self.origins(names)
                ));
            } else if self.raw_speech().is_none() {
                found.push(
                    "the paper's words go through the model's chat template, the paper sends one finished string"
                        .to_owned(),
                );
            }
        }
        if self.asks(Modality::Text) {
            let names = [TEXT_SYSTEM.name, TEXT_USER.name];
            let words = if self.words_are_official(&names) {
                "reconstructed from its speech prompts".to_owned()
            } else {
                self.origins(&names)
            };
            found.push(format!("the paper publishes no prompts for written questions; these are {words}"));
        }
        found
    }

    fn data_departures(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let mut found = Vec::new();
        let items = facts.subset.map_or(facts.samples, |(_, all)| all);
        if !facts.data_differs.is_empty() {
            found.push(format!("the data are not the published ones: {}", facts.data_differs.join("; ")));
        } else if items != TEST_ITEMS {
            found.push(format!("the data hold {items} items, the paper's test split 1,000"));
        }
        if let Some((taken, all)) = facts.subset.filter(|(taken, all)| taken != all) {
            found.push(format!("a subset: {taken} of {all} items"));
        }
        if self.languages.len() < LANGUAGES.len() {
            let codes: Vec<&str> = self.languages.iter().map(|language| language.code).collect();
            found.push(format!(
                "{} of {} languages ({}): averages are over these only",
                codes.len(),
                LANGUAGES.len(),
                codes.join(", ")
            ));
        }
        found
    }
}

fn is_greedy(generation: &Generation) -> bool {
    generation.greedy() || generation.top_k == 1
}

fn generation_departures(generation: &Generation) -> Vec<String> {
    let mut found = Vec::new();
    if !is_greedy(generation) {
        found.push(format!(
            "answers are drawn ({}, top_p {}, top_k {}), the paper's script decodes greedily",
            generation.temperature_by_name(),
            generation.top_p,
            generation.top_k
        ));
    }
    if generation.max_new_tokens != MAX_NEW_TOKENS {
        found.push(format!(
            "at most {} new tokens, the paper's script allows {MAX_NEW_TOKENS}",
            generation.max_new_tokens
        ));
    }
    if generation.repetition_penalty != 1.0 {
        found.push(format!(
            "repetition penalty {}, the paper's script has none",
            generation.repetition_penalty
        ));
    }
    if !generation.stop.is_empty() {
        found.push("answers end at stop strings, the paper's script has none".to_owned());
    }
    found
}
