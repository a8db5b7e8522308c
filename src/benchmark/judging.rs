//! The part of judging that belongs to protocols: what a judge is asked about an answer, and what its reply says.
//!
//! A judge is a model like any other; calling it, and keeping what it said, is the run's business. Its replies are
//! kept as they came, so that reading them by another rule never costs a call. This module must not know dialects,
//! journals or files.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scores::UsageScores;
use crate::prompt::PromptInfo;
use crate::types::{Outcome, Planned, Prompt, Response};

/// Who judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JudgeKind {
    /// A model, as the papers have it.
    #[default]
    Model,
    /// No model: an answer is right that holds a reference, once both are normalised.
    Match,
}

impl JudgeKind {
    /// The name of [`Self::Match`] in configs.
    pub const MATCH: &'static str = "match";
}

/// How a judge is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JudgeMode {
    /// A chat: the judge's own template makes the string.
    #[default]
    Chat,
    /// A finished string with control tokens, for endpoints of completions and local models.
    Raw,
}

impl JudgeMode {
    /// The name used in configs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Raw => "raw",
        }
    }
}

/// How ratings are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RatingRead {
    /// The number behind the last `Rating`.
    #[default]
    Lenient,
    /// As `AudioBench` has it: the last word of the reply.
    StrictAudiobench,
}

impl RatingRead {
    /// The name used in configs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lenient => "lenient",
            Self::StrictAudiobench => "strict_audiobench",
        }
    }
}

/// What becomes of answers whose judging failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnJudgeError {
    /// They are in no score, and the run is incomplete until they are judged.
    #[default]
    Fail,
    /// They are in no score.
    Exclude,
    /// They count as wrong.
    Wrong,
    /// They count as not attempted, where the protocol has that; as wrong elsewhere.
    Na,
}

impl OnJudgeError {
    /// The name used in configs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Exclude => "exclude",
            Self::Wrong => "wrong",
            Self::Na => "na",
        }
    }
}

/// A judge, as far as protocols care.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgeSetup {
    /// Its name: verdicts are kept under it, and tables show it.
    pub name: String,
    /// Who judges.
    pub kind: JudgeKind,
    /// How it is asked.
    pub mode: JudgeMode,
    /// How often each answer is judged; 0 is as often as the paper has it.
    pub runs: u32,
    /// How ratings are read.
    pub rating: RatingRead,
    /// What becomes of answers whose judging failed.
    pub on_error: OnJudgeError,
    /// How often it is asked again for a reply that cannot be read.
    #[serde(default)]
    pub retries: u32,
    /// Tokens that prompt and reply may take together, where the judge has such a limit.
    pub context: Option<u64>,
    /// Tokens of these that are kept for the reply.
    pub reply_tokens: u64,
    /// The digest of the tokenizer that they are counted with; without one they are estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// That tokenizer, while questions are made.
    #[serde(skip)]
    pub counter: TokenCounter,
}

/// Counts the tokens of a text; by an estimate where no tokenizer is at hand.
#[derive(Clone, Default)]
pub struct TokenCounter(Option<Arc<Count>>);

/// The tokens of a text.
type Count = dyn Fn(&str) -> u64 + Send + Sync;

impl TokenCounter {
    /// A counter that counts.
    pub fn new(count: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(count)))
    }

    /// The tokens of a text.
    pub fn count(&self, text: &str) -> u64 {
        self.0.as_ref().map_or_else(|| estimated_tokens(text), |count| count(text))
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "TokenCounter(tokenizer)" } else { "TokenCounter(estimate)" })
    }
}

/// Two setups are told apart by the digests of their tokenizers.
impl PartialEq for TokenCounter {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl JudgeSetup {
    /// The setup for a benchmark whose paper judges each answer so often: runs that are not said are the paper's.
    #[must_use]
    pub fn with_runs_of(&self, paper: u32) -> Self {
        let runs = match (self.kind, self.runs) {
            (JudgeKind::Match, _) => 1,
            (JudgeKind::Model, 0) => paper,
            (JudgeKind::Model, runs) => runs,
        };
        Self { runs, ..self.clone() }
    }
}

/// A question to a judge.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgeQuestion {
    /// What is asked.
    pub prompt: Prompt,
    /// Whether the answer was shortened to fit the judge's context.
    pub shortened: bool,
}

/// How one benchmark has its answers judged.
pub trait Judging: Send + Sync {
    /// What the judge is asked about a response; `None` where it is not judged: failures, and answers that a filter
    /// withheld where the protocol gives them a score of their own.
    fn question(&self, planned: &Planned, response: &Response) -> Option<JudgeQuestion>;

    /// What a reply says, and the rule that found it: a value for the journal. Scores are made from the reply.
    fn finding(&self, reply: &str) -> Finding;

    /// The prompt texts in use.
    fn prompts(&self) -> Vec<PromptInfo>;

    /// What beside texts and answers decides what the judge is shown: settings of the section, by name. A verdict
    /// under other settings is one on something else.
    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// What a reply says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The verdict: 1 or 0 for right or wrong, a rating; absent where the reply could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The rule that gave it, or that failed.
    pub rule: String,
}

/// One call of a judge about one response.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgeCall {
    /// Which of its runs, from 0.
    pub run: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// The reply.
    pub reply: String,
    /// Whether the answer was shortened for it.
    pub shortened: bool,
}

impl JudgeCall {
    /// The reply, where the judge gave one. One that was cut at its token limit is read as far as it goes.
    pub fn heard(&self) -> Option<&str> {
        self.outcome.is_reply().then_some(self.reply.as_str())
    }
}

/// The share of replies from which on unread ones are warned of.
const UNPARSED: f64 = 0.05;

/// What the judging of a section came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeScores {
    /// The judge's name.
    pub judge: String,
    /// Its model's.
    pub model: String,
    /// Whether answers that it did not judge leave the run incomplete.
    pub required: bool,
    /// Its prompt texts.
    pub prompts: Vec<PromptInfo>,
    /// How it was asked.
    #[serde(default)]
    pub mode: JudgeMode,
    /// How often each answer is judged.
    pub runs: u32,
    /// Calls that the protocol wants.
    pub calls: u64,
    /// Calls by outcome; absent is zero.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Calls that were not made yet.
    pub missing: u64,
    /// Replies by the rule that read them or could not.
    pub rules: BTreeMap<String, u64>,
    /// Replies that no rule could read.
    pub unparsed: u64,
    /// How often it was asked again for a reply that could not be read, at most.
    #[serde(default)]
    pub retries: u32,
    /// Calls that were made again for that.
    #[serde(default)]
    pub asked_again: u64,
    /// Replies that could be read when they came again.
    #[serde(default)]
    pub read_again: u64,
    /// Answers that were shortened to fit the judge's context.
    pub shortened: u64,
    /// The digest of the tokenizer that counted for it; without one tokens were estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// What its calls took: those that are scored, and none that was made for an answer that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageScores>,
    /// Replies by the model that the endpoint says they are of, where that is not the one that it was asked for alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answered_as: BTreeMap<String, u64>,
    /// Replies that no rule could read, where the protocol has no score for such.
    #[serde(default)]
    pub unusable: u64,
}

impl JudgeScores {
    /// Counts what was made of one response, of which `runs` calls are wanted.
    pub fn count(&mut self, runs: u32, calls: &[JudgeCall]) {
        self.calls += u64::from(runs);
        for run in 0..runs {
            match calls.iter().find(|call| call.run == run) {
                Some(call) => *self.outcomes.entry(call.outcome).or_default() += 1,
                None => self.missing += 1,
            }
        }
        self.shortened += u64::from(calls.iter().any(|call| call.shortened));
    }

    /// Counts the rule of a reply.
    pub fn rule(&mut self, rule: &str, parsed: bool) {
        *self.rules.entry(rule.to_owned()).or_default() += 1;
        self.unparsed += u64::from(!parsed);
    }

    /// Replies that a filter withheld: asking again would not change them.
    pub fn withheld(&self) -> u64 {
        self.outcomes.get(&Outcome::ContentFilter).copied().unwrap_or_default()
    }

    /// Replies that a rule read or could not.
    pub fn replies(&self) -> u64 {
        self.rules.values().sum()
    }

    /// Whether there are replies and none of them could be read: then the scores are none.
    pub fn unreadable(&self) -> bool {
        self.unparsed > 0 && self.unparsed == self.replies()
    }

    /// What is suspicious in the replies, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let (judge, replies) = (&self.judge, self.replies());
        let mut found = Vec::new();
        let of = |outcome| self.outcomes.get(&outcome).copied().unwrap_or_default();
        let (cut, empty) = (of(Outcome::Length), of(Outcome::Empty));
        if cut > 0 {
            found.push(format!(
                "{cut} of {replies} replies of the judge {judge} were cut at their token limit, perhaps before the \
                 verdict: raise max_new_tokens under [judge.generation]"
            ));
        }
        if empty > 0 {
            found.push(format!("{empty} of {replies} replies of the judge {judge} are empty"));
        }
        if self.unparsed as f64 > UNPARSED * replies as f64 {
            found.push(format!(
                "{} of {replies} replies of the judge {judge} hold no verdict that can be read: look at them in \
                 verdicts/{judge}.jsonl before you trust the scores",
                self.unparsed
            ));
        }
        found
    }

    /// Calls that gave no reply: failed, withheld by a filter, or not made.
    pub fn unheard(&self) -> u64 {
        let heard = [Outcome::Ok, Outcome::Length, Outcome::Empty];
        let failed: u64 =
            self.outcomes.iter().filter(|(outcome, _)| !heard.contains(outcome)).map(|(_, n)| n).sum();
        self.missing + failed
    }
}

/// About how many tokens a text takes, where the judge's tokenizer is not at hand: one for three bytes, which is
/// more than the tokenizers of current models need for any of the benchmarks' languages.
pub fn estimated_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(3)
}

/// The longest beginning of an answer with which the prompt fits the judge's context, and whether something had to go.
/// `whole` gives the prompt with an answer in it.
pub fn fitted<'a>(answer: &'a str, whole: impl Fn(&str) -> String, setup: &JudgeSetup) -> (&'a str, bool) {
    let Some(context) = setup.context else { return (answer, false) };
    let room = context.saturating_sub(setup.reply_tokens);
    let fits = |answer: &str| setup.counter.count(&whole(answer)) <= room;
    if fits(answer) {
        return (answer, false);
    }
    // The ends of beginnings: each is known to fit up to `low`, and none is that was tried from `high` on.
    let ends: Vec<usize> = answer.char_indices().map(|(at, _)| at).collect();
    let beginning = |index: usize| ends.get(index).and_then(|end| answer.get(..*end)).unwrap_or_default();
    let (mut low, mut high) = (0, ends.len());
    while low + 1 < high {
        let middle = low.midpoint(high);
        if fits(beginning(middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (beginning(low), !answer.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(run: u32, outcome: Outcome) -> JudgeCall {
        JudgeCall { run, outcome, reply: "Rating: 3".to_owned(), shortened: run == 0 }
    }

    #[test]
    fn every_call_is_counted_once() {
        let mut scores = JudgeScores::default();
        scores.count(3, &[call(0, Outcome::Ok), call(2, Outcome::ContentFilter), call(7, Outcome::Ok)]);
        scores.count(3, &[]);
        assert_eq!((scores.calls, scores.missing, scores.unheard(), scores.shortened), (6, 4, 5, 1));
        assert_eq!(call(0, Outcome::ContentFilter).heard(), None);
        assert_eq!(call(0, Outcome::Length).heard(), Some("Rating: 3"));
        assert_eq!(scores.withheld(), 1);
    }

    #[test]
    fn replies_that_cannot_be_read_are_warned_of() {
        let judged = |unparsed: u64, outcomes: &[(Outcome, u64)]| JudgeScores {
            judge: "ann".to_owned(),
            unparsed,
            rules: BTreeMap::from([("x:read".to_owned(), 100 - unparsed), ("x:none".to_owned(), unparsed)]),
            outcomes: outcomes.iter().copied().collect(),
            ..JudgeScores::default()
        };
        assert_eq!(judged(5, &[(Outcome::Ok, 100)]).warnings(), [""; 0]);
        let found = judged(6, &[(Outcome::Ok, 100)]).warnings();
        assert!(found[0].contains("6 of 100 replies of the judge ann hold no verdict"), "{found:?}");
        let found = judged(0, &[(Outcome::Length, 2), (Outcome::Empty, 1)]).warnings();
        assert!(found[0].contains("2 of 100 replies of the judge ann were cut"), "{found:?}");
        assert!(found[1].contains("1 of 100 replies of the judge ann are empty"), "{found:?}");
        assert!(judged(100, &[]).unreadable() && !judged(99, &[]).unreadable());
        assert!(!JudgeScores::default().unreadable());
    }

    #[test]
    fn answers_are_shortened_to_the_context() {
        let setup = JudgeSetup { context: Some(30), reply_tokens: 10, ..JudgeSetup::default() };
        let after = |rest: &str| {
            let rest = rest.to_owned();
            move |answer: &str| format!("{rest}{answer}")
        };
        assert_eq!(fitted("abc", after("0123456789"), &setup), ("abc", false));
        let long = "é".repeat(100);
        let (cut, shortened) = fitted(&long, after(&"x".repeat(30)), &setup);
        assert_eq!((cut.chars().count(), shortened), (15, true));
        assert_eq!(fitted(&long, after(&"x".repeat(300)), &setup), ("", true));
        assert_eq!(fitted("", after(&"x".repeat(300)), &setup), ("", false));
        assert_eq!(fitted(&long, after(""), &JudgeSetup::default()), (long.as_str(), false));

        // A tokenizer counts the prompt as it is sent: here each word is a token.
        let counter = TokenCounter::new(|text| text.split_whitespace().count() as u64);
        let setup = JudgeSetup { context: Some(6), reply_tokens: 2, counter, ..JudgeSetup::default() };
        assert_eq!(fitted("one two three four", after("judge this: "), &setup), ("one two ", true));
        assert_eq!(fitted("one two", after("judge this: "), &setup), ("one two", false));
    }

    proptest! {
        #[test]
        fn what_is_left_fits(answer: String, rest: String, context in 0_u64..200) {
            let setup = JudgeSetup { context: Some(context), reply_tokens: 20, ..JudgeSetup::default() };
            let whole = |answer: &str| format!("{rest}{answer}");
            let (cut, shortened) = fitted(&answer, whole, &setup);
            prop_assert!(answer.starts_with(cut) && shortened == (cut.len() < answer.len()));
            let room = context.saturating_sub(20);
            prop_assert!(cut.is_empty() || estimated_tokens(&whole(cut)) <= room);
        }
    }
}
