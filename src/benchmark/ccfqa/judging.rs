//! CCFQA's judge: does the answer, measured by the reference, answer the question? Yes or no.

use super::{Ccfqa, JUDGE, JUDGE_RAW, LANGUAGES, asr, score};
use crate::benchmark::build::{BuildError, PromptText, check_prompts};
use crate::benchmark::judging::{Finding, JudgeMode, JudgeQuestion, JudgeSetup, Judging, fitted};
use crate::metric::text::ccfqa_answer;
use crate::metric::verdict::{YesNo, yes_no};
use crate::prompt::{PromptInfo, fill};
use crate::types::{Message, Planned, Prompt, Response, Role};

/// The paper's judge.
pub(super) const PAPER_JUDGE: &str = "gemma-3-27b-it";
/// The most tokens of its replies.
pub(super) const PAPER_JUDGE_TOKENS: usize = 64;

impl Ccfqa {
    /// The judge of this section.
    pub(super) fn judge(&self, setup: &JudgeSetup) -> Result<CcfqaJudge<'_>, BuildError> {
        let text = match setup.mode {
            JudgeMode::Chat => JUDGE,
            JudgeMode::Raw => JUDGE_RAW,
        };
        check_prompts(&self.prompts, &super::TEXTS, &[text])?;
        Ok(CcfqaJudge { benchmark: self, text, setup: setup.clone() })
    }
}

/// What CCFQA's judge is asked.
pub(super) struct CcfqaJudge<'a> {
    benchmark: &'a Ccfqa,
    text: PromptText,
    setup: JudgeSetup,
}

/// The English name of a language in the judge's prompt: Cantonese is called by its name there, by its script in
/// questions.
fn name(code: &str) -> &'static str {
    match code {
        "yue" => "Yue Chinese",
        code => LANGUAGES.iter().find(|language| language.code == code).map_or("", |language| language.name),
    }
}

impl Judging for CcfqaJudge<'_> {
    fn question(&self, planned: &Planned, response: &Response) -> Option<JudgeQuestion> {
        // A transcript is measured, not judged.
        if !response.outcome.is_answer() || asr::is_asr(planned) {
            return None;
        }
        let tag = |key: &str| planned.tags.get(key).map(String::as_str).unwrap_or_default();
        let gold = planned.gold.first().map(String::as_str).unwrap_or_default();
        let question = planned.judging.get(score::QUESTION).map(String::as_str).unwrap_or_default();
        let answer =
            if self.benchmark.strip_output { ccfqa_answer(&response.text) } else { response.text.clone() };
        let text = self.benchmark.prompts.get(self.text.name).unwrap_or_default();
        let with = |answer: &str| {
            let (src, tgt) = (name(tag("src")), name(tag("tgt")));
            fill(
                text,
                &[("src", src), ("tgt", tgt), ("src_q", question), ("tgt_a", gold), ("lang_a", answer)],
            )
        };
        let (answer, shortened) = fitted(&answer, with, &self.setup);
        let prompt = match self.setup.mode {
            JudgeMode::Chat => Prompt::Chat(vec![Message::text(Role::User, with(answer))]),
            JudgeMode::Raw => Prompt::Raw { text: with(answer), audio: Vec::new() },
        };
        Some(JudgeQuestion { prompt, shortened })
    }

    fn finding(&self, reply: &str) -> Finding {
        let verdict = yes_no(reply);
        let value = match verdict {
            YesNo::Yes => Some(1.0),
            YesNo::No => Some(0.0),
            YesNo::Other => None,
        };
        Finding { value, rule: verdict.rule().to_owned() }
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        self.benchmark.prompts.info(self.text.name).into_iter().collect()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("strip_output", self.benchmark.strip_output.to_string())]
    }
}
