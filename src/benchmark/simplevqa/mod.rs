//! SimpleVQA: short factual questions about one image, Chinese and English, which a judge calls correct, incorrect or
//! not attempted (arXiv 2502.13059).
//!
//! `original` asks the question. For items with a simpler question behind theirs, `atomic` asks that one and `hinted`
//! the original one with its answer told; together they say whether an error is one of looking or of knowing.
//! `text_only` shows no image.

mod judging;
mod row;
mod score;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::build::{BuildError, Entry, PromptText, check_keys, check_names, check_prompts};
use super::conditions::{Conditions, names_of};
use super::judging::{JudgeMode, JudgeSetup, Judging};
use super::{Benchmark, BenchmarkScores, DataCheck, Draft, JudgeKind, RunFacts, Scorer, sources};
use crate::config::{BenchmarkConfig, Categories, Variant};
use crate::prompt::official::Pins;
use crate::prompt::{PromptInfo, PromptSet, fill};
use crate::report::figure::Figure;
use crate::report::published::Published;
use crate::report::table::Table;
use crate::types::{ImageRef, Message, Part, Profile, Prompt, Role, Sample, Tags};
use row::Row;

/// The name that configs use.
pub const NAME: &str = "simplevqa";
/// The paper's judge.
const JUDGE_MODEL: &str = "gpt-4o";
/// Items that the published figures are of.
const ITEMS: u64 = 2025;

/// The tasks of the paper's tables: code, name, items.
const TASKS: [(&str, &str, u64); 9] = [
    ("LS", "Logic & Science", 102),
    ("OIR", "Object Identification Recognition", 285),
    ("TE", "Time & Event", 202),
    ("PE", "Person & Emotion", 275),
    ("LB", "Location & Building", 436),
    ("TP", "Text Processing", 204),
    ("QPR", "Quantity & Position Relationship", 205),
    ("AC", "Art & Culture", 184),
    ("OAR", "Object Attributes Recognition", 132),
];

/// The domains of the paper's tables: code, name, items.
const DOMAINS: [(&str, &str, u64); 9] = [
    ("LES", "Literature, Education & Sports", 273),
    ("EHC", "Euro-American History & Culture", 261),
    ("CS", "Contemporary Society", 233),
    ("ETA", "Engineering, Technology & Application", 161),
    ("FTM", "Film, Television & Media", 215),
    ("NS", "Natural Science", 256),
    ("AR", "Art", 155),
    ("CHC", "Chinese History & Culture", 196),
    ("LI", "Life", 275),
];

/// The language of a row, and of the wrapper of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Cn,
    En,
}

impl Language {
    const CODES: [&str; 2] = ["CN", "EN"];
    /// The first English id of the published rows.
    const FIRST_ENGLISH: i64 = 1012;

    fn code(self) -> &'static str {
        match self {
            Self::Cn => "CN",
            Self::En => "EN",
        }
    }

    fn parse(code: &str) -> Option<Self> {
        [Self::Cn, Self::En].into_iter().find(|language| language.code().eq_ignore_ascii_case(code.trim()))
    }

    /// As the authors' scripts decide.
    fn of_id(id: i64) -> Self {
        if id < Self::FIRST_ENGLISH { Self::Cn } else { Self::En }
    }
}

/// A condition, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Original,
    Atomic,
    Hinted,
    TextOnly,
}

impl Conditions for Condition {
    const ALL: &'static [Self] = &[Self::Original, Self::Atomic, Self::Hinted, Self::TextOnly];
    const DEFAULT: &'static [Self] = &[Self::Original];

    fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Atomic => "atomic",
            Self::Hinted => "hinted",
            Self::TextOnly => "text_only",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Original => "the question with its image",
            Self::Atomic => "the simpler question behind it, with the image",
            Self::Hinted => "the question with its image, the answer to the simpler one told",
            Self::TextOnly => "the question without its image",
        }
    }
}

impl Condition {
    /// Whether it is asked of items with a simpler question only.
    fn is_composite(self) -> bool {
        matches!(self, Self::Atomic | Self::Hinted)
    }
}

const QUESTION: &[&str] = &["question"];
const HINT: &[&str] = &["atomic_question", "atomic_fact", "question"];
const CN: PromptText = PromptText::message("vqa_cn_without_confidence", QUESTION, QUESTION);
const EN: PromptText = PromptText::message("vqa_en_without_confidence", QUESTION, QUESTION);
const CN_CONFIDENCE: PromptText = PromptText::message("vqa_cn_with_confidence", QUESTION, QUESTION);
const EN_CONFIDENCE: PromptText = PromptText::message("vqa_en_with_confidence", QUESTION, QUESTION);
const CN_TEXT: PromptText = PromptText::message("textonly_cn_with_confidence", QUESTION, QUESTION);
const EN_TEXT: PromptText = PromptText::message("textonly_en_with_confidence", QUESTION, QUESTION);
/// Stands for the question in the wrapper of `hinted`.
const CN_HINT: PromptText = PromptText::message("hint_cn", HINT, &["atomic_fact", "question"]);
const EN_HINT: PromptText = PromptText::message("hint_en", HINT, &["atomic_fact", "question"]);
const JUDGED: &[&str] = &["question", "answer", "candidates"];
const JUDGE: PromptText = PromptText::message("judge", JUDGED, JUDGED);
const JUDGE_LINE: PromptText =
    PromptText::message("judge_candidate_line", &["index", "response"], &["response"]);
pub(super) const TEXTS: [PromptText; 10] =
    [CN, EN, CN_CONFIDENCE, EN_CONFIDENCE, CN_TEXT, EN_TEXT, CN_HINT, EN_HINT, JUDGE, JUDGE_LINE];

/// The texts that conditions need.
fn needed(conditions: &[Condition], variant: Variant) -> Vec<PromptText> {
    let mut texts = Vec::new();
    if conditions.iter().any(|condition| *condition != Condition::TextOnly) {
        match variant {
            Variant::NamedEntity => texts.extend([CN, EN]),
            Variant::WithConfidence => texts.extend([CN_CONFIDENCE, EN_CONFIDENCE]),
            Variant::Bare => {}
        }
    }
    if conditions.contains(&Condition::Hinted) {
        texts.extend([CN_HINT, EN_HINT]);
    }
    if conditions.contains(&Condition::TextOnly) && variant != Variant::Bare {
        texts.extend([CN_TEXT, EN_TEXT]);
    }
    texts
}

/// The texts that the conditions of these names need.
pub(super) fn prompt_texts(conditions: &[String]) -> Result<Vec<PromptText>, BuildError> {
    Ok(needed(&Condition::parse_all(conditions)?, Variant::NamedEntity))
}

/// What `harness list` says.
pub(super) fn entry() -> Entry {
    Entry {
        name: NAME,
        about: "short factual questions about one image, Chinese and English, judged correct, incorrect or not attempted",
        paper: "SimpleVQA, arXiv 2502.13059",
        conditions: Condition::listed(),
        default_conditions: names_of(Condition::DEFAULT),
        metrics: vec![
            score::CORRECT,
            score::INCORRECT,
            score::NOT_ATTEMPTED,
            score::GIVEN_ATTEMPTED,
            score::F_SCORE,
            score::CFQ_CORRECT,
            score::ATTRIBUTION,
            score::ACCURACY,
            score::CALIBRATION_ERROR,
        ],
        wording: include_str!("../../../prompts/simplevqa/harness.toml"),
        published: include_str!("../../../results/published/simplevqa.toml"),
        data: "questions and images: test.parquet of the Hugging Face dataset m-a-p/SimpleVQA, or its \
               simpleVQA_final_modified.json beside simpleVQA_datasets.zip, unpacked",
    }
}

/// The benchmark of one section.
#[derive(Debug)]
pub struct SimpleVqa {
    conditions: Vec<Condition>,
    names: Vec<String>,
    languages: Vec<String>,
    variant: Variant,
    categories: Categories,
    other_data: bool,
    prompts: PromptSet,
    profile: Profile,
}

impl SimpleVqa {
    /// The benchmark of a section; see [`super::build`].
    pub fn new(config: &BenchmarkConfig, prompts: PromptSet) -> Result<Self, BuildError> {
        check_keys(NAME, config, &["languages", "variant", "categories"])?;
        let conditions = Condition::parse_all(&config.conditions)?;
        check_names("language", &config.languages, &Language::CODES)?;
        let variant = config.variant.unwrap_or_default();
        check_prompts(&prompts, &TEXTS, &needed(&conditions, variant))?;
        let categories = config.categories.clone().unwrap_or_default();
        check_names("task", categories.task.values(), &TASKS.map(|(code, ..)| code))?;
        check_names("domain", categories.domain.values(), &DOMAINS.map(|(code, ..)| code))?;
        Ok(Self {
            names: conditions.iter().map(|condition| condition.name().to_owned()).collect(),
            conditions,
            languages: config.languages.clone(),
            variant,
            categories,
            other_data: config.allow_other_data,
            prompts,
            profile: config.profile,
        })
    }

    /// Whether answers to a condition state their confidence.
    fn asks_confidence(&self, condition: Condition) -> bool {
        match condition {
            // The authors' scripts have no other text for models that only read.
            Condition::TextOnly => self.variant != Variant::Bare,
            _ => self.variant == Variant::WithConfidence,
        }
    }

    fn asks_language(&self, language: Language) -> bool {
        self.languages.is_empty() || self.languages.iter().any(|code| code == language.code())
    }

    /// Whether an item is one of the paper's study of composite questions.
    fn is_composite(&self, row: &Row) -> bool {
        let ids = &self.categories.cfq;
        row.composite().is_some() && (ids.is_empty() || ids.iter().any(|id| *id == row.id.to_string()))
    }

    fn text(&self, text: PromptText) -> &str {
        self.prompts.get(text.name).unwrap_or_default()
    }

    /// What the model reads.
    fn question(&self, row: &Row, condition: Condition) -> Option<String> {
        let pick = |cn, en| if row.language == Language::Cn { cn } else { en };
        let question = match condition {
            Condition::Original | Condition::TextOnly => row.question.clone(),
            Condition::Atomic => row.composite()?.0.to_owned(),
            Condition::Hinted => {
                let (question, fact) = row.composite()?;
                let values =
                    [("atomic_question", question), ("atomic_fact", fact), ("question", &row.question)];
                fill(self.text(pick(CN_HINT, EN_HINT)), &values)
            }
        };
        let wrapper = match (condition, self.variant) {
            (_, Variant::Bare) => return Some(question),
            (Condition::TextOnly, _) => pick(CN_TEXT, EN_TEXT),
            (_, Variant::NamedEntity) => pick(CN, EN),
            (_, Variant::WithConfidence) => pick(CN_CONFIDENCE, EN_CONFIDENCE),
        };
        Some(fill(self.text(wrapper), &[("question", &question)]))
    }

    fn draft(&self, row: &Row, condition: Condition) -> Option<Draft> {
        if condition.is_composite() && !self.is_composite(row) {
            return None;
        }
        let text = Part::Text(self.question(row, condition)?);
        let parts = match condition {
            Condition::TextOnly => vec![text],
            _ => vec![Part::Image(ImageRef { name: row.image.clone()? }), text],
        };
        let (asked, gold) = match condition {
            Condition::Atomic => row.composite()?,
            _ => (row.question.as_str(), row.answer.as_str()),
        };
        let mapped = |map: &std::collections::BTreeMap<String, String>, name: &Option<String>| {
            map.get(name.as_deref()?.trim()).cloned()
        };
        let tags = [
            ("language", Some(row.language.code().to_owned())),
            ("task", mapped(&self.categories.task, &row.task)),
            ("domain", mapped(&self.categories.domain, &row.domain)),
            (score::CFQ, self.is_composite(row).then(|| "yes".to_owned())),
        ];
        Some(Draft {
            conditions: vec![condition.name().to_owned()],
            tags: tags.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect(),
            gold: vec![gold.to_owned()],
            judging: Tags::from([("question".to_owned(), asked.to_owned())]),
            prompt: Prompt::Chat(vec![Message { role: Role::User, parts }]),
        })
    }
}

impl Benchmark for SimpleVqa {
    fn conditions(&self) -> &[String] {
        &self.names
    }

    fn sample(&self, _line: u64, row: serde_json::Value) -> Result<Sample, String> {
        let read = Row::read(&row, self.other_data)?;
        let sees = self.conditions.iter().any(|condition| *condition != Condition::TextOnly);
        if sees && read.image.is_none() {
            return Err("the row has no `image`".to_owned());
        }
        Ok(Sample { id: read.id.to_string(), row })
    }

    fn data_check(&self) -> Option<DataCheck> {
        DataCheck::new(sources::sources(NAME).ok()?.expect)
    }

    fn requests(&self, sample: &Sample) -> Vec<Draft> {
        let Ok(row) = Row::read(&sample.row, self.other_data) else { return Vec::new() };
        if !self.asks_language(row.language) {
            return Vec::new();
        }
        self.conditions.iter().filter_map(|condition| self.draft(&row, *condition)).collect()
    }

    fn has_clips(&self) -> bool {
        false
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        needed(&self.conditions, self.variant)
            .iter()
            .filter_map(|text| self.prompts.info(text.name))
            .collect()
    }

    fn deviations(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let mut found = Vec::new();
        if !facts.data_differs.is_empty() {
            found.push(format!("the data are not the published ones: {}", facts.data_differs.join("; ")));
        }
        if let Some((taken, all)) = facts.subset.filter(|(taken, all)| taken != all) {
            found.push(format!("a subset: {taken} of {all} items"));
        } else if facts.samples != ITEMS && facts.data_differs.is_empty() {
            found.push(format!("the data hold {} items, the paper's set 2,025", facts.samples));
        }
        if self.languages.len() == 1 {
            found.push(format!("one of two languages: {}", self.languages.join(", ")));
        }
        found.extend(self.prompt_departures());
        found.extend(judge_departures(facts));
        if facts.judge.as_ref().is_some_and(|judge| judge.setup.kind == JudgeKind::Model)
            && !self.words_are_official(&[JUDGE, JUDGE_LINE])
        {
            found.push(format!(
                "the judge is asked in other words than the paper's ({})",
                self.prompts.status(JUDGE.name)
            ));
        }
        found
    }

    fn judging(&self, setup: &JudgeSetup) -> Result<Option<Box<dyn Judging + '_>>, BuildError> {
        check_prompts(&self.prompts, &TEXTS, &[JUDGE, JUDGE_LINE])?;
        if setup.mode == JudgeMode::Raw {
            return Err(BuildError::Judge(
                "the judge of `simplevqa` is asked in chats: set mode = \"chat\" under [judge]".to_owned(),
            ));
        }
        Ok(Some(Box::new(judging::SimpleVqaJudge { benchmark: self, setup: setup.clone() })))
    }

    fn scorer(&self, judge: Option<&JudgeSetup>) -> Box<dyn Scorer> {
        let confidence = self.conditions.iter().map(|c| (*c, self.asks_confidence(*c))).collect();
        let Categories { task, domain, cfq } = &self.categories;
        let ids: BTreeSet<&String> = cfq.iter().collect();
        let mapped = score::Mapped {
            task: !task.is_empty(),
            domain: !domain.is_empty(),
            composites: ids.len() as u64,
        };
        Box::new(score::SimpleVqaScorer::new(confidence, judge, self.profile, mapped))
    }

    fn tables(
        &self,
        scores: &BenchmarkScores,
        published: &Published,
        compare_to: Option<&str>,
    ) -> Vec<Table> {
        tables::Tables { scores, published, compare_to }.all()
    }

    fn figures(&self, scores: &BenchmarkScores) -> Vec<Figure> {
        tables::diagrams(scores)
    }
}

impl SimpleVqa {
    /// Whether all these texts are the authors' own.
    fn words_are_official(&self, texts: &[PromptText]) -> bool {
        let Ok(pins) = Pins::embedded() else { return false };
        texts.iter().all(|text| {
            let found = self.prompts.info(text.name).map(|info| info.sha256);
            pins.of(NAME).any(|pin| pin.name == text.name && found.as_ref() == Some(&pin.sha256))
        })
    }

    fn prompt_departures(&self) -> Vec<String> {
        let mut found = Vec::new();
        let hints = [CN_HINT, EN_HINT].map(|text| text.name);
        let texts: Vec<PromptText> = needed(&self.conditions, self.variant)
            .into_iter()
            .filter(|text| !hints.contains(&text.name))
            .collect();
        if !self.words_are_official(&texts) {
            let mut origins: Vec<&str> = texts.iter().map(|text| self.prompts.status(text.name)).collect();
            origins.dedup();
            found.push(format!(
                "questions are asked in other words than the paper's ({})",
                origins.join(", ")
            ));
        }
        match self.variant {
            Variant::NamedEntity => {
                found.push("which wording the paper's main table was made with is not published; this is `named_entity`".to_owned());
            }
            Variant::WithConfidence => {
                found.push("which wording the paper's main table was made with is not published; this is `with_confidence`".to_owned());
            }
            Variant::Bare => found.push("questions are sent alone, without the paper's wording".to_owned()),
        }
        if self.conditions.contains(&Condition::Hinted) {
            found.push(format!(
                "the paper publishes no wording of its hint; this is {}",
                self.prompts.status(CN_HINT.name)
            ));
        }
        if self.conditions.iter().any(|condition| condition.is_composite()) && self.categories.cfq.is_empty()
        {
            found.push(
                "the ids of the paper's composite questions are not published: all items with another atomic question are \
                 taken"
                    .to_owned(),
            );
        }
        found
    }
}

fn judge_departures(facts: &RunFacts<'_>) -> Vec<String> {
    let Some(judge) = &facts.judge else {
        return vec!["not judged: the paper's figures are a judge's".to_owned()];
    };
    if judge.setup.kind == JudgeKind::Match {
        return vec![
            "no LLM judge: string match (an answer that holds the gold as whole words, both normalised, is correct, \
             every other incorrect)"
                .to_owned(),
        ];
    }
    let mut found = Vec::new();
    let name = judge.model.to_lowercase();
    if !name.contains(JUDGE_MODEL) || name.contains("mini") {
        found.push(format!("judged by {}; the paper's judge is {JUDGE_MODEL}", judge.model));
    } else {
        found.push(format!(
            "judged by {}; which version the paper's {JUDGE_MODEL} was is not published",
            judge.model
        ));
    }
    // What the paper's script leaves to the API may be left to it here too.
    if judge.generation.temperature.is_some_and(|temperature| temperature != 1.0)
        || judge.generation.top_p != 1.0
    {
        found.push(format!(
            "the judge answers at {}, top_p {}; in the paper at the defaults of the API, 1 and 1",
            judge.generation.temperature_by_name(),
            judge.generation.top_p
        ));
    }
    if judge.setup.runs != 1 {
        found.push(format!(
            "{} judging runs, the paper has 1: figures are means over runs, but composite questions and \
             stated confidence go by the first run with a verdict",
            judge.setup.runs
        ));
    }
    found
}
