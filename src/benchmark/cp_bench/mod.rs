//! CP-Bench: free-form questions on in-the-wild speech, content and paralinguistic, rated 0 to 5 by a judge
//! (arXiv 2509.16589).
//!
//! Each answer is judged five times. Models that take 30 seconds are asked about the first and about the last 30
//! seconds of a clip, and the better score counts: by default of the whole set, since choosing by item is inflated by
//! the judge's noise; both are given.

mod row;
mod score;
mod tables;

use std::collections::BTreeMap;

use super::build::{BuildError, Entry, PromptText, check_keys, check_names, check_prompts};
use super::judging::{Finding, JudgeKind, JudgeMode, JudgeQuestion, JudgeSetup, Judging, RatingRead, fitted};
use super::{Benchmark, BenchmarkScores, Draft, RunFacts, Scorer, temperature};
use crate::config::{BenchmarkConfig, WindowRule};
use crate::metric::verdict::{RatingRule, rating};
use crate::prompt::{PromptInfo, PromptSet, fill};
use crate::report::published::Published;
use crate::report::table::Table;
use crate::types::{
    AudioRef, Message, Outcome, Part, Planned, Profile, Prompt, Response, Role, Sample, Tags, Window,
};

/// The name that configs use.
pub const NAME: &str = "cp-bench";
/// The only condition.
const CONDITION: &str = "qa";
/// The paper's judging runs.
const JUDGE_RUNS: u32 = 5;
/// The paper's judge.
const JUDGE: &str = "LLaMA-3-70B-Instruct-AWQ";

const TASK: PromptText = PromptText::message("task_default", &["question"], &["question"]);
const JUDGE_DEFAULT: PromptText = PromptText::message(
    "judge_default",
    &["question", "reference", "prediction"],
    &["reference", "prediction"],
);
const JUDGE_RECIPE: PromptText =
    PromptText::message("judge_recipe", &["audio", "question", "prediction"], &["question", "prediction"]);
/// The system message beside it.
const JUDGE_RECIPE_SYSTEM: PromptText = PromptText::message("judge_recipe_system", &[], &[]);
pub(super) const TEXTS: [PromptText; 4] = [TASK, JUDGE_DEFAULT, JUDGE_RECIPE, JUDGE_RECIPE_SYSTEM];

/// What `harness list` says.
pub(super) fn entry() -> Entry {
    Entry {
        name: NAME,
        about: "free-form questions on in-the-wild speech, rated by a judge",
        paper: "CP-Bench, arXiv 2509.16589",
        conditions: vec![(CONDITION, "a question on a recording, answered freely")],
        default_conditions: vec![CONDITION],
        metrics: vec![score::SCORE],
        wording: include_str!("../../../prompts/cp-bench/harness.toml"),
        published: include_str!("../../../results/published/cp-bench.toml"),
        data: "recordings, questions and references: the Hugging Face dataset MERaLiON/CPQA-Evaluation-Set, or a \
               JSONL file of your own (id, audio, question, reference, category, set)",
    }
}

/// The texts that are needed before judging.
pub(super) fn prompt_texts() -> Vec<PromptText> {
    vec![TASK]
}

/// The benchmark of one section.
#[derive(Debug)]
pub struct CpBench {
    names: Vec<String>,
    fields: BTreeMap<String, String>,
    prompts: PromptSet,
    windows: Vec<Window>,
    profile: Profile,
}

impl CpBench {
    /// The benchmark of a section; see [`super::build`].
    pub fn new(config: &BenchmarkConfig, prompts: PromptSet, window: Window) -> Result<Self, BuildError> {
        check_keys(NAME, config, &["fields", "windows"])?;
        check_names("condition", &config.conditions, &[CONDITION])?;
        check_names("field", config.fields.keys(), &row::FIELDS)?;
        check_prompts(&prompts, &TEXTS, &[TASK])?;
        Ok(Self {
            names: vec![CONDITION.to_owned()],
            fields: config.fields.clone(),
            prompts,
            windows: match config.windows {
                WindowRule::Model => vec![window],
                WindowRule::FirstAndLast => vec![Window::First, Window::Last],
            },
            profile: config.profile,
        })
    }

    /// Whether answers were drawn at another temperature than the paper's.
    fn temperature_departs(facts: &RunFacts<'_>) -> Option<String> {
        let paper = temperature::of_model(NAME, &facts.model.kind, &facts.model.model)?;
        (!facts.replayed() && facts.generation.temperature != paper.value).then(|| {
            format!("answers are generated at {}; {}", facts.generation.temperature_by_name(), paper.rule)
        })
    }

    /// The judge's texts of this profile.
    fn judge_texts(&self) -> Vec<PromptText> {
        match self.profile {
            Profile::Official => vec![JUDGE_DEFAULT],
            Profile::Recipe => vec![JUDGE_RECIPE_SYSTEM, JUDGE_RECIPE],
        }
    }
}

/// How ratings are read.
fn rating_rule(read: RatingRead) -> RatingRule {
    match read {
        RatingRead::Lenient => RatingRule::Lenient,
        RatingRead::StrictAudiobench => RatingRule::StrictAudioBench,
    }
}

impl Benchmark for CpBench {
    fn conditions(&self) -> &[String] {
        &self.names
    }

    fn sample(&self, line: u64, row: serde_json::Value) -> Result<Sample, String> {
        let id = row::Row::read(&row, &self.fields)?.id;
        Ok(Sample { id: id.unwrap_or_else(|| format!("line-{line}")), row })
    }

    fn requests(&self, sample: &Sample) -> Vec<Draft> {
        let Ok(row) = row::Row::read(&sample.row, &self.fields) else { return Vec::new() };
        let text = fill(self.prompts.get(TASK.name).unwrap_or_default(), &[("question", &row.question)]);
        let tag = |key: &str, value: &Option<String>| Some((key.to_owned(), value.clone()?));
        let draft = |&window: &Window| {
            let clip = AudioRef { name: row.audio.clone(), window };
            let parts = vec![Part::Audio(clip), Part::Text(text.clone())];
            let window = Some(window.as_str().to_owned());
            let tags = [("category", &row.category), ("set", &row.set), ("window", &window)];
            Draft {
                conditions: self.names.clone(),
                tags: tags.into_iter().filter_map(|(key, value)| tag(key, value)).collect(),
                gold: vec![row.reference.clone()],
                judging: Tags::from([("question".to_owned(), row.question.clone())]),
                prompt: Prompt::Chat(vec![Message { role: Role::User, parts }]),
            }
        };
        self.windows.iter().map(draft).collect()
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        self.prompts.info(TASK.name).into_iter().collect()
    }

    fn deviations(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let mut found = Vec::new();
        if let Some((taken, all)) = facts.subset.filter(|(taken, all)| taken != all) {
            found.push(format!("a subset: {taken} of {all} samples"));
        }
        if !facts.data_differs.is_empty() {
            found.push(format!("the data are not whole: {}", facts.data_differs.join("; ")));
        }
        found.push(
            "the paper publishes neither its question nor its judge prompt, nor the size of its data: no figure can be \
             proven to be comparable"
                .to_owned(),
        );
        if let ([window @ (Window::First | Window::Last)], false) =
            (self.windows.as_slice(), facts.replayed())
        {
            found.push(format!(
                "clips longer than the model takes are cut to one part (window `{}`); the paper takes the better of \
                 the first and the last 30 s",
                window.as_str()
            ));
        }
        found.extend(Self::temperature_departs(facts));
        match &facts.judge {
            None => found.push("not judged: the paper's scores are a judge's".to_owned()),
            Some(judge) if judge.setup.kind == JudgeKind::Match => found.push(
                "no LLM judge: string match (an answer that holds the reference as whole words, both normalised, has \
                 100, others 0)"
                    .to_owned(),
            ),
            Some(judge) => {
                if !judge.model.to_lowercase().contains("llama-3-70b") {
                    found.push(format!("judged by {}; the paper's judge is {JUDGE}", judge.model));
                }
                if judge.setup.runs != JUDGE_RUNS {
                    found.push(format!("{} judging runs, the paper has {JUDGE_RUNS}", judge.setup.runs));
                }
                let generation = &judge.generation;
                if generation.temperature != Some(1.0)
                    || generation.top_p != 1.0
                    || generation.max_new_tokens != 512
                {
                    // 1 is sent beside a temperature alone.
                    let top_p = if generation.temperature.is_none() && generation.top_p == 1.0 {
                        "its own top_p".to_owned()
                    } else {
                        format!("top_p {}", generation.top_p)
                    };
                    found.push(format!(
                        "the judge answers at {}, {top_p} in at most {} tokens; in the paper at 1, 1 and 512",
                        generation.temperature_by_name(),
                        generation.max_new_tokens
                    ));
                }
                if generation.greedy() && judge.setup.runs > 1 {
                    found.push(format!(
                        "the judge answers greedily (temperature 0), so its {} runs are one draw repeated, and their SD \
                         says nothing",
                        judge.setup.runs
                    ));
                }
                if self.profile == Profile::Recipe {
                    found.push(
                        "the recipe's judge sees no reference, and the clip's name in place of the clip".to_owned(),
                    );
                }
            }
        }
        found
    }

    fn judge_runs(&self) -> u32 {
        JUDGE_RUNS
    }

    fn judging(&self, setup: &JudgeSetup) -> Result<Option<Box<dyn Judging + '_>>, BuildError> {
        check_prompts(&self.prompts, &TEXTS, &self.judge_texts())?;
        if setup.mode == JudgeMode::Raw {
            return Err(BuildError::Judge(
                "the judge of `cp-bench` is asked in chats: set mode = \"chat\" under [judge]".to_owned(),
            ));
        }
        Ok(Some(Box::new(CpJudge { benchmark: self, setup: setup.clone() })))
    }

    fn scorer(&self, judge: Option<&JudgeSetup>) -> Box<dyn Scorer> {
        Box::new(score::CpBenchScorer::new(judge, self.profile))
    }

    fn tables(
        &self,
        scores: &BenchmarkScores,
        published: &Published,
        compare_to: Option<&str>,
    ) -> Vec<Table> {
        tables::all(scores, published, compare_to)
    }
}

/// What CP-Bench's judge is asked.
struct CpJudge<'a> {
    benchmark: &'a CpBench,
    setup: JudgeSetup,
}

impl CpJudge<'_> {
    fn text(&self, text: PromptText) -> &str {
        self.benchmark.prompts.get(text.name).unwrap_or_default()
    }
}

impl Judging for CpJudge<'_> {
    fn question(&self, planned: &Planned, response: &Response) -> Option<JudgeQuestion> {
        // What a filter withheld has the score 0 by the protocol, and no judge is asked.
        if !response.outcome.is_answer() || response.outcome == Outcome::ContentFilter {
            return None;
        }
        let question = planned.judging.get("question").map(String::as_str).unwrap_or_default();
        let reference = planned.gold.first().map(String::as_str).unwrap_or_default();
        let audio = response.media.first().map_or(planned.sample.as_str(), |media| media.name.as_str());
        let with = |text: &str, prediction: &str| {
            fill(
                text,
                &[
                    ("question", question),
                    ("reference", reference),
                    ("prediction", prediction),
                    ("audio", audio),
                ],
            )
        };
        let (system, user) = match self.benchmark.profile {
            Profile::Official => ("", self.text(JUDGE_DEFAULT)),
            Profile::Recipe => (self.text(JUDGE_RECIPE_SYSTEM), self.text(JUDGE_RECIPE)),
        };
        let whole = |prediction: &str| format!("{system}{}", with(user, prediction));
        let (prediction, shortened) = fitted(&response.text, whole, &self.setup);
        let mut messages = Vec::new();
        if !system.is_empty() {
            messages.push(Message::text(Role::System, system));
        }
        messages.push(Message::text(Role::User, with(user, prediction)));
        Some(JudgeQuestion { prompt: Prompt::Chat(messages), shortened })
    }

    fn finding(&self, reply: &str) -> Finding {
        match rating(reply, rating_rule(self.setup.rating)) {
            Ok((value, rule)) => Finding { value: Some(value), rule: rule.to_owned() },
            Err(rule) => Finding { value: None, rule: rule.to_owned() },
        }
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        let texts = self.benchmark.judge_texts();
        texts.iter().filter_map(|text| self.benchmark.prompts.info(text.name)).collect()
    }
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
