//! Which answer belongs to which request.
//!
//! An answer belongs to a request whose sample, tags, condition and section are those that its fields name. Where this
//! is said of two requests, or two answers say different things of one, nothing is guessed: the run is refused.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use unicode_normalization::UnicodeNormalization as _;

use super::read::KEPT;
use super::{Answers, MatchBy, ReplayFacts, Stored};
use crate::types::{Digest, Planned, shown};

/// Answers that cannot be matched with the requests of a run.
#[derive(Debug, thiserror::Error)]
pub enum MatchError {
    /// An answer that could belong to several requests.
    #[error(
        "{answer}: could be the answer to {requests} requests of the run, which differ in {differ}: {help} ({count} answers \
         are so)"
    )]
    Ambiguous {
        /// The first such answer.
        answer: String,
        /// How many requests.
        requests: usize,
        /// What they differ in.
        differ: String,
        /// What to do.
        help: String,
        /// Answers that are ambiguous.
        count: usize,
    },
    /// Two answers to one request.
    #[error(
        "{first} and {second} are different answers to the same request: remove one of them ({count} are so)"
    )]
    Twice {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// How many such answers.
        count: usize,
    },
    /// A tag that no request has.
    #[error("no request of this run has the tag `{tag}`; there are {}", .known.join(", "))]
    Tag {
        /// The tag.
        tag: String,
        /// The tags that there are.
        known: Vec<String>,
    },
    /// Nothing fits.
    #[error("none of the {answers} answers belongs to a request of this run, the first because {reason}")]
    None {
        /// How many there are.
        answers: u64,
        /// What is known of the first.
        reason: String,
    },
}

/// A planned request, as far as matching cares.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The request.
    pub planned: &'a Planned,
    /// What is asked in it.
    pub question: Option<&'a str>,
    /// The place of its sample's row in the data, from 0.
    pub row: u64,
}

/// Requests with their answers.
#[derive(Debug)]
pub struct Matched {
    requests: HashMap<Digest, Result<usize, String>>,
    facts: ReplayFacts,
}

impl Matched {
    /// What became of the answers.
    pub fn facts(&self) -> &ReplayFacts {
        &self.facts
    }

    pub(super) fn into_requests(self) -> HashMap<Digest, Result<usize, String>> {
        self.requests
    }
}

/// Takes the requests of a run, one after the other.
#[derive(Debug)]
pub struct Matcher<'a> {
    answers: &'a Answers,
    /// Answers by all that they name.
    by_name: HashMap<Vec<String>, usize>,
    facts: ReplayFacts,
    /// The request that an answer was given to.
    given: Vec<Option<Trace>>,
    /// Answers that could be given to more, with what these requests differ in.
    ambiguous: HashMap<usize, Several>,
    /// Answers that say something else than an earlier one, with that one.
    twice: Vec<(usize, usize)>,
    requests: HashMap<Digest, Result<usize, String>>,
    unanswered: u64,
    tags: Vec<String>,
    first: Option<Example>,
}

#[derive(Debug)]
struct Several {
    requests: usize,
    differ: Vec<String>,
}

/// Hashes of what tells a request apart: a plan of a million requests has its traces in memory.
#[derive(Debug)]
struct Trace {
    benchmark: u64,
    conditions: u64,
    sample: u64,
    /// By the place of the tag among all.
    tags: Box<[(usize, u64)]>,
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What a request is told apart by.
#[derive(Clone, Debug, PartialEq)]
struct Example {
    key: String,
    sample: String,
    tags: crate::types::Tags,
    conditions: Vec<String>,
    benchmark: String,
}

impl<'a> Matcher<'a> {
    /// For the answers of files.
    pub fn new(answers: &'a Answers) -> Self {
        let mut matcher = Self {
            answers,
            by_name: HashMap::with_capacity(answers.stored.len()),
            facts: answers.facts.clone(),
            given: answers.stored.iter().map(|_| None).collect(),
            ambiguous: HashMap::new(),
            twice: Vec::new(),
            requests: HashMap::new(),
            unanswered: 0,
            tags: Vec::new(),
            first: None,
        };
        for (at, stored) in answers.stored.iter().enumerate() {
            matcher.facts.failed += u64::from(stored.answer.is_err());
            let name = name(stored);
            match matcher.by_name.get(&name) {
                None => drop(matcher.by_name.insert(name, at)),
                Some(earlier) => matcher.again(*earlier, at),
            }
        }
        matcher
    }

    /// A later answer to what an earlier one answers.
    fn again(&mut self, earlier: usize, at: usize) {
        let (Some(one), Some(other)) = (self.answers.get(earlier), self.answers.get(at)) else { return };
        if one.answer == other.answer && one.outcome == other.outcome {
            self.facts.repeated += 1;
            // It is claimed with the earlier one.
            self.facts.answers = self.facts.answers.saturating_sub(1);
        } else {
            self.twice.push((earlier, at));
        }
    }

    /// The next request of the plan.
    pub fn take(&mut self, asked: &Asked<'_>) {
        let planned = asked.planned;
        let trace = self.trace(planned);
        if self.requests.contains_key(&planned.request) {
            // The same request with another reference.
            return;
        }
        let key = match self.answers.by {
            MatchBy::Id => planned.sample.clone(),
            MatchBy::Question => asked.question.unwrap_or_default().trim().to_owned(),
            MatchBy::Row => asked.row.to_string(),
        };
        let example = || Example {
            key: key.clone(),
            sample: planned.sample.clone(),
            tags: planned.tags.clone(),
            conditions: planned.conditions.clone(),
            benchmark: planned.benchmark.clone(),
        };
        if self.first.is_none() {
            self.first = Some(example());
        }
        let found = self.find(planned, &key);
        for other in found.iter().skip(1) {
            // Named by another of its conditions.
            self.again(found.first().copied().unwrap_or_default(), *other);
        }
        let Some(at) = found.first().copied() else {
            self.unanswered += 1;
            self.requests.insert(planned.request, Err("no answer in the files belongs to it".to_owned()));
            return;
        };
        let Some(given) = self.given.get_mut(at) else { return };
        if let Some(earlier) = given {
            let several =
                self.ambiguous.entry(at).or_insert_with(|| Several { requests: 1, differ: Vec::new() });
            several.requests += 1;
            for what in difference(earlier, &trace, &self.tags) {
                if !several.differ.contains(&what) {
                    several.differ.push(what);
                }
            }
            return;
        }
        *given = Some(trace);
        let answer = match self.contradiction(at, asked) {
            None => Ok(at),
            Some(sentence) => {
                self.facts.contradicting += 1;
                if self.facts.sentences.len() < KEPT {
                    self.facts.sentences.push(sentence.clone());
                }
                Err(sentence)
            }
        };
        self.requests.insert(planned.request, answer);
    }

    fn trace(&mut self, planned: &Planned) -> Trace {
        let mut tags = Vec::with_capacity(planned.tags.len());
        for (tag, value) in &planned.tags {
            let at = self.tags.iter().position(|known| known == tag).unwrap_or_else(|| {
                self.tags.push(tag.clone());
                self.tags.len() - 1
            });
            tags.push((at, hash(value)));
        }
        Trace {
            benchmark: hash(&planned.benchmark),
            conditions: hash(&planned.conditions),
            sample: hash(&planned.sample),
            tags: tags.into(),
        }
    }

    /// The answers that name this request. One that serves two conditions may be named by either.
    fn find(&self, planned: &Planned, key: &str) -> Vec<usize> {
        let tags = self.answers.tags.iter().map(|tag| planned.tags.get(tag).cloned());
        let tags: Option<Vec<String>> = tags.collect();
        let (Some(tags), Some(stored)) = (tags, self.answers.stored.first()) else { return Vec::new() };
        let with = |condition: &str, benchmark: &str| {
            let mut name = vec![key.to_owned(), condition.to_owned(), benchmark.to_owned()];
            name.extend(tags.iter().cloned());
            self.by_name.get(&name).copied()
        };
        let benchmark = stored.benchmark.as_ref().map_or("", |_| planned.benchmark.as_str());
        match &stored.condition {
            None => with("", benchmark).into_iter().collect(),
            Some(_) => planned.conditions.iter().filter_map(|condition| with(condition, benchmark)).collect(),
        }
    }

    /// Why an answer cannot be that of the request that it names.
    fn contradiction(&self, at: usize, asked: &Asked<'_>) -> Option<String> {
        let stored = self.answers.get(at)?;
        let sample = &asked.planned.sample;
        let told = |what: &str, theirs: &str, ours: &str| {
            let (theirs, ours) = (quoted(theirs), quoted(ours));
            stored
                .place
                .error(format!("its {what} is {theirs}, and that of sample {} is {ours}", shown(sample)))
                .to_string()
        };
        if let (Some(theirs), Some(ours)) = (&stored.question, asked.question)
            && !one_question(theirs, ours)
        {
            return Some(told("question", theirs, ours));
        }
        let gold = &asked.planned.gold;
        let known =
            stored.references.iter().any(|theirs| gold.iter().any(|ours| one_reference(theirs, ours)));
        match (stored.references.first(), gold.first()) {
            (Some(theirs), Some(ours)) if !known => Some(told("reference", theirs, ours)),
            _ => None,
        }
    }

    /// What was found, once all requests were taken.
    pub fn finish(mut self) -> Result<Matched, MatchError> {
        let place = |at: usize| {
            self.answers.get(at).map(|stored| stored.place.error("").to_string()).unwrap_or_default()
        };
        let place = |at: usize| place(at).trim_end_matches([':', ' ']).to_owned();
        if let Some(tag) = self.answers.tags.iter().find(|tag| !self.tags.contains(tag)) {
            return Err(MatchError::Tag { tag: tag.clone(), known: self.tags.clone() });
        }
        if let Some((at, several)) = self.ambiguous.iter().min_by_key(|(at, _)| **at) {
            return Err(MatchError::Ambiguous {
                answer: place(*at),
                requests: several.requests,
                differ: several.differ.join(", "),
                help: help(&several.differ),
                count: self.ambiguous.len(),
            });
        }
        // Of answers that nobody asks for it does not matter which is right.
        let claimed = |(earlier, _): &&(usize, usize)| self.given.get(*earlier).is_some_and(Option::is_some);
        let mut twice = self.twice.iter().filter(claimed);
        if let Some((first, second)) = twice.next() {
            let count = 1 + twice.count();
            return Err(MatchError::Twice { first: place(*first), second: place(*second), count });
        }
        let facts = &mut self.facts;
        facts.unanswered = self.unanswered;
        let claimed = self.given.iter().flatten().count() as u64;
        facts.taken = self.requests.values().filter(|answer| answer.is_ok()).count() as u64;
        facts.unclaimed = facts.answers.saturating_sub(claimed);
        facts.matched_by = matched_by(self.answers);
        facts.compared = compared(self.answers);
        if facts.taken == 0 {
            let stored = self.answers.stored.first();
            let reason =
                match (facts.sentences.first().filter(|_| facts.contradicting > 0), stored, &self.first) {
                    (Some(sentence), ..) => sentence.clone(),
                    (None, Some(stored), Some(first)) => format!(
                        "{} names {}, and the first request of the run is {}",
                        place(0),
                        named(self.answers, stored),
                        requested(self.answers, first)
                    ),
                    _ => "the run has no requests".to_owned(),
                };
            return Err(MatchError::None { answers: facts.answers, reason });
        }
        Ok(Matched { requests: self.requests, facts: self.facts })
    }
}

/// All that an answer names.
fn name(stored: &Stored) -> Vec<String> {
    let or_none = |name: &Option<String>| name.clone().unwrap_or_default();
    let mut name = vec![stored.key.clone(), or_none(&stored.condition), or_none(&stored.benchmark)];
    name.extend(stored.tags.iter().cloned());
    name
}

/// In what two requests that an answer fits differ.
fn difference(one: &Trace, other: &Trace, tags: &[String]) -> Vec<String> {
    let whole = [
        ("benchmark", one.benchmark != other.benchmark),
        ("condition", one.conditions != other.conditions),
        ("sample", one.sample != other.sample),
    ];
    let mut differ: Vec<String> =
        whole.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect();
    let value =
        |trace: &Trace, tag: usize| trace.tags.iter().find(|(at, _)| *at == tag).map(|(_, hash)| *hash);
    let named = tags.iter().enumerate().filter(|(tag, _)| value(one, *tag) != value(other, *tag));
    differ.extend(named.map(|(_, name)| name.clone()));
    differ
}

/// What to do about answers that fit several requests.
fn help(differ: &[String]) -> String {
    let has = |what: &str| differ.iter().any(|name| name == what);
    if has("benchmark") {
        "run one [[benchmark]] section at a time, or name the field that holds the section's label: fields = { benchmark = \
         \"…\" }"
            .to_owned()
    } else if has("sample") {
        "their samples have the same question: match by `id`, or by `row`".to_owned()
    } else if has("window") {
        "the files hold one answer to each clip: set windows = \"model\", or name the field that holds the window: fields = \
         { window = \"…\" }"
            .to_owned()
    } else if has("condition") && differ.len() == 1 {
        "run the conditions that the files are of alone (`conditions`), or name the field that holds the condition: fields = \
         { condition = \"…\" }"
            .to_owned()
    } else {
        // The condition follows from the tags, mostly.
        let tags = differ.iter().filter(|name| *name != "condition");
        let fields: Vec<String> = tags.map(|name| format!("{name} = \"…\"")).collect();
        format!("name the fields that tell them apart: fields = {{ {} }}", fields.join(", "))
    }
}

/// Whether two texts may be one question: the same, or one within the other, as a prompt holds its question.
fn one_question(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    one == other || (!one.is_empty() && !other.is_empty() && (one.contains(other) || other.contains(one)))
}

/// Whether two texts are one reference: equal but for the form of their letters and white space. No tool writes a
/// reference into other words, and "woman" holds "man": within one another they are two.
fn one_reference(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let folded = text.nfkc().collect::<String>().to_lowercase();
        folded.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    one == other || plain(one) == plain(other)
}

fn matched_by(answers: &Answers) -> String {
    let key = match answers.by {
        MatchBy::Id => "id",
        MatchBy::Question => "the text of the question",
        MatchBy::Row => "the order of the data's rows",
    };
    let has = |of: fn(&Stored) -> bool| answers.stored.first().is_some_and(of);
    let more = [
        ("condition", has(|stored| stored.condition.is_some())),
        ("benchmark", has(|stored| stored.benchmark.is_some())),
    ];
    let more = more.into_iter().filter(|(_, there)| *there).map(|(name, _)| name);
    std::iter::once(key)
        .chain(more)
        .chain(answers.tags.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(", ")
}

fn compared(answers: &Answers) -> String {
    let some = |of: fn(&Stored) -> bool| answers.stored.iter().any(of);
    let what = [
        ("question", some(|stored| stored.question.is_some())),
        ("reference", some(|stored| !stored.references.is_empty())),
    ];
    let what = what.into_iter().filter(|(_, there)| *there).map(|(name, _)| name);
    what.collect::<Vec<_>>().join(" and ")
}

/// What an answer names, for a sentence.
fn named(answers: &Answers, stored: &Stored) -> String {
    let pairs = answers.tags.iter().zip(&stored.tags).map(|(tag, value)| format!("{tag} {}", quoted(value)));
    let more = [("condition", &stored.condition), ("benchmark", &stored.benchmark)];
    let more =
        more.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", quoted(value.as_ref()?))));
    let key = format!("{} {}", answers.by.as_str(), quoted(&stored.key));
    std::iter::once(key).chain(more).chain(pairs).collect::<Vec<_>>().join(", ")
}

fn requested(answers: &Answers, first: &Example) -> String {
    let tags = answers.tags.iter().filter_map(|tag| Some(format!("{tag} {}", quoted(first.tags.get(tag)?))));
    let stored = answers.stored.first();
    let condition = stored.and_then(|stored| stored.condition.as_ref());
    let condition = condition.map(|_| format!("condition `{}`", first.conditions.join("` or `")));
    let benchmark = stored.and_then(|stored| stored.benchmark.as_ref());
    let benchmark = benchmark.map(|_| format!("benchmark {}", quoted(&first.benchmark)));
    let key = format!("{} {}", answers.by.as_str(), quoted(&first.key));
    std::iter::once(key).chain(condition).chain(benchmark).chain(tags).collect::<Vec<_>>().join(", ")
}

/// A text in a sentence.
fn quoted(text: &str) -> String {
    format!("`{}`", shown(text).replace('`', " "))
}
