//! CCFQA: short factual questions in eight languages, asked as text or speech, answered in any of the eight
//! (arXiv 2508.07295).
//!
//! `qa` and `sqa` are the same-language pairs of `xqa` and `xsqa`: each pair is asked once a modality, and its
//! answer serves both. Both scoring profiles are always computed; accuracy and consistency are a judge's. `asr` has the
//! spoken questions written down, and stands by itself (see `asr`).

mod asr;
mod deviations;
mod judging;
mod row;
mod score;
mod tables;

use super::build::{BuildError, Entry, PromptText, check_keys, check_names, check_prompts};
use super::conditions::{Conditions, named, names_of};
use super::{Benchmark, BenchmarkScores, DataCheck, Draft, JudgeSetup, Judging, RunFacts, Scorer, sources};
use crate::config::BenchmarkConfig;
use crate::prompt::{PromptInfo, PromptSet, fill, places};
use crate::report::published::Published;
use crate::report::table::Table;
use crate::types::{AudioRef, Message, Part, Planned, Profile, Prompt, Role, Sample, Tags, Window};

/// The name that configs use.
pub const NAME: &str = "ccfqa";

/// A language of the benchmark.
#[derive(Debug, PartialEq, Eq)]
struct Language {
    /// The code of rows, configs and tables.
    code: &'static str,
    /// The English name that the paper's prompts use.
    name: &'static str,
}

/// The languages, in the order of the paper's tables. Cantonese is called by its script in prompts; the paper's
/// judge alone calls it "Yue Chinese".
static LANGUAGES: [Language; 8] = [
    Language { code: "cmn", name: "Chinese" },
    Language { code: "eng", name: "English" },
    Language { code: "fra", name: "French" },
    Language { code: "jpn", name: "Japanese" },
    Language { code: "kor", name: "Korean" },
    Language { code: "rus", name: "Russian" },
    Language { code: "spa", name: "Spanish" },
    Language { code: "yue", name: "Traditional Chinese" },
];

/// How a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modality {
    Text,
    Speech,
}

/// A condition, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Qa,
    Xqa,
    Sqa,
    Xsqa,
}

impl Conditions for Condition {
    const ALL: &'static [Self] = &[Self::Qa, Self::Xqa, Self::Sqa, Self::Xsqa];
    const DEFAULT: &'static [Self] = &[Self::Sqa, Self::Xsqa];

    fn name(self) -> &'static str {
        match self {
            Self::Qa => "qa",
            Self::Xqa => "xqa",
            Self::Sqa => "sqa",
            Self::Xsqa => "xsqa",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Qa => "written question, answer in its language",
            Self::Xqa => "written question, answer in each language",
            Self::Sqa => "spoken question, answer in its language",
            Self::Xsqa => "spoken question, answer in each language",
        }
    }
}

impl Condition {
    fn modality(self) -> Modality {
        match self {
            Self::Qa | Self::Xqa => Modality::Text,
            Self::Sqa | Self::Xsqa => Modality::Speech,
        }
    }

    /// Whether it has pairs of two languages, beside those of one.
    fn crosses(self) -> bool {
        matches!(self, Self::Xqa | Self::Xsqa)
    }

    /// The conditions of these names in the order of tables, each once, and whether `asr` is among them, which is none of
    /// these conditions; the default ones of no names.
    fn parse_all_and_asr(names: &[String]) -> Result<(Vec<Self>, bool), BuildError> {
        if names.is_empty() {
            return Ok((Self::DEFAULT.to_vec(), false));
        }
        check_names("condition", names, &[names_of(Self::ALL), vec![asr::ASR]].concat())?;
        Ok((named(names), names.iter().any(|name| name == asr::ASR)))
    }
}

const PAIR: &[&str] = &["src", "tgt"];
const SPEECH_SYSTEM: PromptText = PromptText::message("speech_system", PAIR, &[]);
const SPEECH_USER: PromptText = PromptText::message("speech_user", PAIR, &[]);
const TEXT_SYSTEM: PromptText = PromptText::message("text_system", PAIR, &[]);
const TEXT_USER: PromptText = PromptText::message("text_user", &["question", "src", "tgt"], &["question"]);
/// A finished prompt string for one clip: where a set holds it, it stands in for the two speech messages.
const SPEECH_FULL: PromptText = PromptText::finished("speech_full", PAIR, &[]);
const JUDGED: &[&str] = &["src", "tgt", "src_q", "tgt_a", "lang_a"];
/// For a judging stage: a message, and a finished string with the control tokens of the paper's judge.
const JUDGE: PromptText = PromptText::message("judge", JUDGED, &["tgt_a", "lang_a"]);
const JUDGE_RAW: PromptText = PromptText::finished("judge_raw", JUDGED, &["tgt_a", "lang_a"]);
pub(super) const TEXTS: [PromptText; 8] =
    [SPEECH_SYSTEM, SPEECH_USER, TEXT_SYSTEM, TEXT_USER, SPEECH_FULL, asr::TEXT, JUDGE, JUDGE_RAW];

/// The texts that conditions need, whether or not the set has the raw string.
fn needed(conditions: &[Condition], asr: bool, raw_speech: bool) -> Vec<PromptText> {
    let asks = |modality| conditions.iter().any(|condition| condition.modality() == modality);
    let mut texts = Vec::new();
    if asks(Modality::Speech) {
        texts.extend(if raw_speech { vec![SPEECH_FULL] } else { vec![SPEECH_SYSTEM, SPEECH_USER] });
    }
    if asks(Modality::Text) {
        texts.extend([TEXT_SYSTEM, TEXT_USER]);
    }
    texts.extend(asr.then_some(asr::TEXT));
    texts
}

/// A model that is to answer in several languages must be told in which: one of the texts of each modality that
/// crosses languages must hold `{tgt}`.
fn check_target(conditions: &[Condition], prompts: &PromptSet) -> Result<(), BuildError> {
    for condition in conditions.iter().filter(|condition| condition.crosses()) {
        let texts = needed(&[*condition], false, prompts.get(SPEECH_FULL.name).is_some());
        let told = |text: &PromptText| places(prompts.get(text.name).unwrap_or_default()).contains(&"tgt");
        if let (false, Some(last)) = (texts.iter().any(told), texts.last()) {
            return Err(BuildError::MissingPlace { text: last.name, place: "tgt" });
        }
    }
    Ok(())
}

/// The texts that the conditions of these names need.
pub(super) fn prompt_texts(conditions: &[String]) -> Result<Vec<PromptText>, BuildError> {
    let (conditions, asr) = Condition::parse_all_and_asr(conditions)?;
    Ok(needed(&conditions, asr, false))
}

/// What `harness list` says.
pub(super) fn entry() -> Entry {
    Entry {
        name: NAME,
        about: "short factual questions in eight languages, as text or speech, answered in any of the eight",
        paper: "CCFQA, arXiv 2508.07295",
        conditions: [Condition::listed(), vec![(asr::ASR, asr::ABOUT)]].concat(),
        default_conditions: names_of(Condition::DEFAULT),
        metrics: vec![
            score::F1_CHAR_SET,
            score::F1_TOKEN_SET,
            score::EXACT,
            score::LLM_ACCURACY,
            asr::WER,
            asr::CER,
        ],
        wording: include_str!("../../../prompts/ccfqa/harness.toml"),
        published: include_str!("../../../results/published/ccfqa.toml"),
        data: "questions: jsonl/test.jsonl of https://github.com/yxduir/ccfqa; recordings: the archive of the \
               Hugging Face dataset yxdu/ccfqa_test, unpacked beside it (eng/*.wav, cmn/*.wav, …)",
    }
}

/// The benchmark of one section.
#[derive(Debug)]
pub struct Ccfqa {
    languages: Vec<&'static Language>,
    conditions: Vec<Condition>,
    /// Whether the spoken questions are to be written down, too.
    asr: bool,
    names: Vec<String>,
    prompts: PromptSet,
    window: Window,
    profile: Profile,
    strip_output: bool,
}

impl Ccfqa {
    /// The benchmark of a section; see [`super::build`].
    pub fn new(config: &BenchmarkConfig, prompts: PromptSet, window: Window) -> Result<Self, BuildError> {
        check_keys(NAME, config, &["languages"])?;
        let (conditions, asr) = Condition::parse_all_and_asr(&config.conditions)?;
        check_prompts(&prompts, &TEXTS, &needed(&conditions, asr, prompts.get(SPEECH_FULL.name).is_some()))?;
        let languages = languages(&config.languages)?;
        if languages.len() > 1 {
            check_target(&conditions, &prompts)?;
        }
        Ok(Self {
            languages,
            names: conditions
                .iter()
                .map(|condition| condition.name())
                .chain(asr.then_some(asr::ASR))
                .map(str::to_owned)
                .collect(),
            conditions,
            asr,
            prompts,
            window,
            profile: config.profile,
            strip_output: config.strip_output,
        })
    }

    fn asks(&self, modality: Modality) -> bool {
        self.conditions.iter().any(|condition| condition.modality() == modality)
    }

    /// The conditions that a pair serves, in the order of tables; none for a pair that nobody asked for.
    fn serves(&self, modality: Modality, same_language: bool) -> Vec<String> {
        let serves = |c: &&Condition| c.modality() == modality && (same_language || c.crosses());
        self.conditions.iter().filter(serves).map(|c| c.name().to_owned()).collect()
    }

    fn raw_speech(&self) -> Option<&str> {
        self.prompts.get(SPEECH_FULL.name)
    }

    fn text_prompt(&self, question: &str, src: &Language, tgt: &Language) -> Prompt {
        let values = [("src", src.name), ("tgt", tgt.name), ("question", question)];
        self.chat(TEXT_SYSTEM, TEXT_USER, &values, None)
    }

    fn speech_prompt(&self, clip: &str, src: &Language, tgt: &Language) -> Prompt {
        let values = [("src", src.name), ("tgt", tgt.name)];
        let clip = AudioRef { name: clip.to_owned(), window: self.window };
        match self.raw_speech() {
            Some(text) => Prompt::Raw { text: fill(text, &values), audio: vec![clip] },
            None => self.chat(SPEECH_SYSTEM, SPEECH_USER, &values, Some(clip)),
        }
    }

    fn asr_prompt(&self, clip: &str, src: &Language) -> Prompt {
        let text = fill(self.prompts.get(asr::TEXT.name).unwrap_or_default(), &[("src", src.name)]);
        let clip = Part::Audio(AudioRef { name: clip.to_owned(), window: self.window });
        let parts = std::iter::once(clip).chain((!text.is_empty()).then_some(Part::Text(text))).collect();
        Prompt::Chat(vec![Message { role: Role::User, parts }])
    }

    /// A system message, unless its text is empty, and a user message: the clip, then the text.
    fn chat(
        &self,
        system: PromptText,
        user: PromptText,
        values: &[(&str, &str)],
        clip: Option<AudioRef>,
    ) -> Prompt {
        let text = |text: PromptText| fill(self.prompts.get(text.name).unwrap_or_default(), values);
        let system = text(system);
        let mut messages = Vec::new();
        if !system.is_empty() {
            messages.push(Message::text(Role::System, system));
        }
        let parts = clip.map(Part::Audio).into_iter().chain([Part::Text(text(user))]).collect();
        messages.push(Message { role: Role::User, parts });
        Prompt::Chat(messages)
    }
}

/// The languages of these codes in the paper's order, each once; all of no codes.
fn languages(codes: &[String]) -> Result<Vec<&'static Language>, BuildError> {
    check_names("language", codes, &LANGUAGES.each_ref().map(|language| language.code))?;
    let asked = |language: &&Language| codes.is_empty() || codes.iter().any(|code| code == language.code);
    Ok(LANGUAGES.iter().filter(asked).collect())
}

impl Benchmark for Ccfqa {
    fn conditions(&self) -> &[String] {
        &self.names
    }

    fn sample(&self, _line: u64, row: serde_json::Value) -> Result<Sample, String> {
        let index = row::Row::read(&row)?.index;
        for language in &self.languages {
            let entry = row::Entry::read(&row, language.code)?;
            entry.answer?;
            if self.asr || self.asks(Modality::Text) {
                entry.question?;
            }
            if self.asr || self.asks(Modality::Speech) {
                entry.audio?;
            }
        }
        Ok(Sample { id: index.to_string(), row })
    }

    fn data_check(&self) -> Option<DataCheck> {
        DataCheck::new(sources::sources(NAME).ok()?.expect)
    }

    fn requests(&self, sample: &Sample) -> Vec<Draft> {
        let entries: Vec<(&Language, row::Entry<'_>)> = self
            .languages
            .iter()
            .filter_map(|&language| Some((language, row::Entry::read(&sample.row, language.code).ok()?)))
            .collect();
        let Ok(row) = row::Row::read(&sample.row) else { return Vec::new() };
        let mut drafts = Vec::new();
        let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        for (src, asked) in &entries {
            if let (true, Ok(question), Ok(clip)) = (self.asr, &asked.question, &asked.audio) {
                let tags =
                    Tags::from([tag("src", src.code), tag("source", row.source), tag("label", row.label)]);
                drafts.push(asr::draft(tags, question, self.asr_prompt(clip, src)));
            }
            for modality in [Modality::Text, Modality::Speech] {
                for (tgt, answered) in &entries {
                    let conditions = self.serves(modality, src == tgt);
                    let prompt = match modality {
                        Modality::Text => {
                            asked.question.as_ref().map(|text| self.text_prompt(text, src, tgt))
                        }
                        Modality::Speech => {
                            asked.audio.as_ref().map(|clip| self.speech_prompt(clip, src, tgt))
                        }
                    };
                    let (Ok(prompt), Ok(gold)) = (prompt, &answered.answer) else { continue };
                    if conditions.is_empty() {
                        continue;
                    }
                    let tags = Tags::from([
                        tag("src", src.code),
                        tag("tgt", tgt.code),
                        tag("source", row.source),
                        tag("label", row.label),
                    ]);
                    let question = asked.question.as_ref().ok();
                    let judging = question.map(|text| (score::QUESTION.to_owned(), (*text).to_owned()));
                    let (gold, judging) = (vec![(*gold).to_owned()], judging.into_iter().collect());
                    drafts.push(Draft { conditions, tags, gold, judging, prompt });
                }
            }
        }
        drafts
    }

    fn question<'a>(&self, planned: &'a Planned) -> Option<&'a str> {
        planned.judging.get(score::QUESTION).map(String::as_str)
    }

    /// A clip is a question that is read out.
    fn said<'a>(&self, planned: &'a Planned, _clip: &str) -> Option<&'a str> {
        // Where it is to be written down, that is the reference.
        let written = || planned.gold.first().filter(|_| asr::is_asr(planned)).map(String::as_str);
        self.question(planned).or_else(written)
    }

    fn wants_transcript(&self, planned: &Planned) -> bool {
        asr::is_asr(planned)
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        needed(&self.conditions, self.asr, self.raw_speech().is_some())
            .iter()
            .filter_map(|text| self.prompts.info(text.name))
            .collect()
    }

    fn deviations(&self, facts: &RunFacts<'_>) -> Vec<String> {
        self.departures(facts)
    }

    fn judging(&self, setup: &JudgeSetup) -> Result<Option<Box<dyn Judging + '_>>, BuildError> {
        Ok(Some(Box::new(self.judge(setup)?)))
    }

    fn scorer(&self, judge: Option<&JudgeSetup>) -> Box<dyn Scorer> {
        Box::new(score::CcfqaScorer::new(
            &self.languages,
            self.conditions.clone(),
            self.asr,
            self.profile,
            self.strip_output,
            judge,
        ))
    }

    fn tables(
        &self,
        scores: &BenchmarkScores,
        published: &Published,
        compare_to: Option<&str>,
    ) -> Vec<Table> {
        tables::Tables { benchmark: self, scores, published, compare_to }.all()
    }
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
