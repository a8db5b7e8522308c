//! SimpleVQA's judge: correct, incorrect or not attempted, as a JSON object. It sees no image.

use super::{Condition, JUDGE, JUDGE_LINE, SimpleVqa};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::judging::{Finding, JudgeQuestion, JudgeSetup, Judging, fitted};
use crate::metric::attempts::stated;
use crate::metric::verdict::{Grade, grade};
use crate::prompt::{PromptInfo, fill};
use crate::types::{Message, Outcome, Planned, Prompt, Response, Role};

/// What the authors' scripts put in place of an answer that was to be JSON and is not.
pub(super) const UNREADABLE: &str = "答案解析失败";

/// What the judge is shown of a reply: all of it, or the answer in it where one was asked for with its confidence.
pub(super) fn candidate(text: &str, with_confidence: bool) -> String {
    if with_confidence {
        stated(text).map_or_else(|| UNREADABLE.to_owned(), |stated| stated.answer)
    } else {
        text.to_owned()
    }
}

/// Whether a provider withheld the answer, with a word or without: such answers count as not attempted, and apart.
pub(super) fn is_blocked(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::ContentFilter | Outcome::Empty)
}

/// What SimpleVQA's judge is asked.
pub(super) struct SimpleVqaJudge<'a> {
    pub(super) benchmark: &'a SimpleVqa,
    pub(super) setup: JudgeSetup,
}

impl Judging for SimpleVqaJudge<'_> {
    fn question(&self, planned: &Planned, response: &Response) -> Option<JudgeQuestion> {
        // Where nothing came, nothing was attempted, and no judge is asked: one that errs would give it any grade.
        if !response.outcome.is_answer() || is_blocked(response.outcome) {
            return None;
        }
        let condition = Condition::of(planned)?;
        let answer = candidate(&response.text, self.benchmark.asks_confidence(condition));
        let question = planned.judging.get("question").map(String::as_str).unwrap_or_default();
        let gold = planned.gold.first().map(String::as_str).unwrap_or_default();
        let with = |answer: &str| {
            let line = fill(self.benchmark.text(JUDGE_LINE), &[("index", "0"), ("response", answer)]);
            let values = [("question", question), ("answer", gold), ("candidates", &*line)];
            fill(self.benchmark.text(JUDGE), &values)
        };
        let (answer, shortened) = fitted(&answer, with, &self.setup);
        let prompt = Prompt::Chat(vec![Message::text(Role::User, with(answer))]);
        Some(JudgeQuestion { prompt, shortened })
    }

    fn finding(&self, reply: &str) -> Finding {
        match grade(reply) {
            // 1 for right answers, 0 for others; the rule tells which were not attempted.
            Ok((Grade::NotAttempted, rule)) => {
                Finding { value: Some(0.0), rule: format!("{rule}:not_attempted") }
            }
            Ok((grade, rule)) => Finding {
                value: Some(if grade == Grade::Correct { 1.0 } else { 0.0 }),
                rule: rule.to_owned(),
            },
            Err(rule) => Finding { value: None, rule: rule.to_owned() },
        }
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        [JUDGE, JUDGE_LINE].iter().filter_map(|text| self.benchmark.prompts.info(text.name)).collect()
    }
}
