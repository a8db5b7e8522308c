//! Judge: answers of a run folder to a judge's replies, in `verdicts/NAME.jsonl`.
//!
//! It reads only what the earlier stages left in the folder: the plan, the responses and the manifest. Calls go the
//! same way as requests to the model under test, so they are journaled, resumed, counted and paced alike. What a
//! judge is asked, and what its replies say, is the benchmark's business.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::answered_as::AnsweredAs;
use super::cost::{self, Price};
use super::differences::Differences;
use super::folder::{FolderError, write_whole};
use super::journal::{Journal, JournalError, header_line};
use super::manifest::Session;
use super::plan::{PlanError, PlanFileError, PlannedRequest, Recipe, Requests, read_plan};
use super::sorted::{Sorted, Sorter};
use crate::benchmark::{Benchmark, BuildError, JudgeCall, JudgeSetup, Judging, UsageScores};
use crate::config::ChosenTemperature;
use crate::dataset::Dataset;
use crate::model::ModelIdentity;
use crate::prompt::PromptSet;
use crate::types::{About, Digest, Generation, JudgeRecord, Planned, Response, Tags};

/// The version of the format of `verdicts/NAME.json`.
pub const VERSION: u32 = 1;

/// Judging that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The journals.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    /// A benchmark whose judge cannot be set up.
    #[error("{label}: {source}")]
    Benchmark {
        /// The section.
        label: String,
        /// Why.
        source: BuildError,
    },
    /// No benchmark of the run has a judge.
    #[error("no benchmark of this run has answers for a judge: {}", .0.join(", "))]
    Nothing(Vec<String>),
    /// There is nothing to judge.
    #[error("{}: no responses.jsonl is there: generate answers first", .0.display())]
    NoResponses(PathBuf),
    /// The file that describes a judge.
    #[error(
        "{}: {reason}; move it and its verdicts, {}, away together, or judge under another name", .path.display(),
        .verdicts.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The verdicts that it describes.
        verdicts: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another judge under the same name.
    #[error(
        "{} holds verdicts of another judge, which {} describes: {}. Give this one another name (name = \"…\" under \
         [judge], or --name), or move both files away", .verdicts.display(), .path.display(), .differ.join("; ")
    )]
    Other {
        /// The file that describes it.
        path: PathBuf,
        /// Its verdicts.
        verdicts: PathBuf,
        /// How it differs.
        differ: Vec<String>,
    },
    /// Verdicts of nobody knows whom.
    #[error(
        "{} holds verdicts, and {}, which says what judge gave them, is not there. Put that file back, move both files \
         away, or give the judge another name (name = \"…\" under [judge], or --name)", .verdicts.display(),
        .path.display()
    )]
    Unowned {
        /// The file that is not there.
        path: PathBuf,
        /// The verdicts.
        verdicts: PathBuf,
    },
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// `verdicts/NAME.json`: what a judge is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgeFile {
    /// [`VERSION`]
    pub version: u32,
    /// The judge as protocols see it.
    pub setup: JudgeSetup,
    /// The model.
    pub model: ModelIdentity,
    /// How its replies are generated.
    pub generation: Generation,
    /// Where its temperature was given by a word: which, and what it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<ChosenTemperature>,
    /// Its seed; each run adds its number.
    pub seed: u64,
    /// What the command line of `harness judge` said of it when it judged last: a config of its own, another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What its tokens cost, where prices were configured when it judged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Its prompt texts, by the label of the section.
    pub prompts: Vec<(String, PromptSet)>,
    /// The times that calls were made.
    pub sessions: Vec<Session>,
}

impl JudgeFile {
    /// Where the description of a judge stands in a run folder.
    pub fn path(folder: &Path, name: &str) -> PathBuf {
        folder.join("verdicts").join(format!("{name}.json"))
    }

    /// Reads a judge's description; `None` where there is none. Verdicts without one are refused: nothing in them says
    /// what judge they are of, and another one of that name would take them for its own.
    pub fn read(folder: &Path, name: &str) -> Result<Option<Self>, JudgeError> {
        let (path, verdicts) = (Self::path(folder, name), verdicts_path(folder, name));
        let bad =
            |reason: String| JudgeError::File { path: path.clone(), verdicts: verdicts.clone(), reason };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return if has_lines(&verdicts) {
                    Err(JudgeError::Unowned { path, verdicts })
                } else {
                    Ok(None)
                };
            }
            Err(e) => return Err(bad(e.to_string())),
        };
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| bad(format!("not the description of a judge: {e}")))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => serde_json::from_value(value)
                .map(Some)
                .map_err(|e| bad(format!("not the description of a judge: {e}"))),
            Some(found) => {
                Err(bad(format!("written in version {found}, this program reads version {VERSION}")))
            }
            None => Err(bad("not the description of a judge: it names no version".to_owned())),
        }
    }

    /// Writes it whole or not at all.
    pub fn write(&self, folder: &Path) -> Result<(), FolderError> {
        write_whole(&Self::path(folder, &self.setup.name), |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        })
    }

    /// Refuses to mix the verdicts of two judges. How replies are read, how many runs there are and how long a run
    /// took may change.
    pub fn same_judge(&self, earlier: &Self, folder: &Path) -> Result<(), JudgeError> {
        let mut differ = Differences::default();
        let (was, is) = (&earlier.model, &self.model);
        differ.compare("the model's kind", &was.kind, &is.kind);
        differ.compare("the model", &was.model, &is.model);
        differ.compare("its revision or address", &was.revision, &is.revision);
        differ.compare("dtype", &was.dtype, &is.dtype);
        differ.compare("mode", earlier.setup.mode.as_str(), self.setup.mode.as_str());
        differ.compare("seed", &earlier.seed, &self.seed);
        differ.generation(&earlier.generation, &self.generation);
        let context = |context: Option<u64>| context.map_or("none".to_owned(), |tokens| tokens.to_string());
        differ.compare("max_context", &context(earlier.setup.context), &context(self.setup.context));
        let tokenizer = |setup: &JudgeSetup| setup.tokenizer.as_deref().unwrap_or("none").to_owned();
        differ.compare("the tokenizer", &tokenizer(&earlier.setup), &tokenizer(&self.setup));
        for (label, prompts) in &self.prompts {
            if earlier.prompts.iter().any(|(other, then)| other == label && then != prompts) {
                differ.add(format!("the prompt texts of {label} are others"));
            }
        }
        let differ = differ.finish();
        if differ.is_empty() {
            return Ok(());
        }
        let name = &self.setup.name;
        Err(JudgeError::Other {
            path: Self::path(folder, name),
            verdicts: verdicts_path(folder, name),
            differ,
        })
    }
}

/// Where a judge's replies stand in a run folder.
pub fn verdicts_path(folder: &Path, name: &str) -> PathBuf {
    folder.join("verdicts").join(format!("{name}.jsonl"))
}

/// Whether a file of verdicts has a line beside its header, which a process that is killed early may leave alone.
fn has_lines(verdicts: &Path) -> bool {
    let header = header_line().len() as u64 + 1;
    std::fs::metadata(verdicts).is_ok_and(|facts| facts.len() > header)
}

/// The judges whose verdicts a run folder holds, in the order of their names. Verdicts that no file describes are
/// named too: who reads that judge is told.
pub fn judges_of(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("verdicts")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            match file.strip_suffix(".jsonl") {
                Some(name) => has_lines(&entry.path()).then(|| name.to_owned()),
                None => file.strip_suffix(".json").map(str::to_owned),
            }
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// How the answers of a section are put to a judge: a hash of the texts in use and of the settings that decide what
/// of an answer is shown. Verdicts on answers that were put in another way are others.
pub fn put_by(judge: &dyn Judging) -> Digest {
    let mut hasher = blake3::Hasher::new();
    let texts = judge.prompts().into_iter().map(|text| (text.name, text.sha256));
    let settings = judge.settings().into_iter().map(|(name, value)| (name.to_owned(), value));
    for (name, value) in texts.chain(settings) {
        for part in [&name, &value] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The id of one call: what is judged, by what it is judged, in which run. The answer counts as well as its key: where
/// tokens are drawn, or a server answers, another answer may come under the same key. `put` is that of [`put_by`].
pub fn call_id(planned: &Planned, response: &Response, put: &Digest, run: u32) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"harness-judge-2");
    hasher.update(&put.0);
    hasher.update(&planned.request.0);
    hasher.update(&response.key.0);
    hasher.update(&run.to_le_bytes());
    let told = planned.judging.iter().flat_map(|(name, text)| [name, text]);
    for text in std::iter::once(&response.text).chain(&planned.gold).chain(told) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The id of a call that is made again, because the reply to the one of this id cannot be read.
pub fn again_id(call: &Digest) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"harness-judge-again-1");
    hasher.update(&call.0);
    Digest(*hasher.finalize().as_bytes())
}

/// How many replies to a call cannot be read, one after the other; no more than there are retries.
fn unread(journal: &Journal, judge: &dyn Judging, call: &Digest, retries: u32) -> Result<u32, JournalError> {
    let mut id = *call;
    for attempt in 0..retries {
        let reply = journal.to_score(&id)?.filter(|reply| reply.outcome.is_reply());
        if reply.is_none_or(|reply| judge.finding(&reply.text).value.is_some()) {
            return Ok(attempt);
        }
        id = again_id(&id);
    }
    Ok(retries)
}

/// One section whose answers are judged.
pub struct JudgedSection {
    label: String,
    /// Its protocol, with the judge's prompt texts.
    benchmark: Box<dyn Benchmark>,
    setup: JudgeSetup,
}

impl JudgedSection {
    /// A section with its protocol, which holds the judge's prompt texts.
    pub fn new(label: &str, benchmark: Box<dyn Benchmark>, setup: &JudgeSetup) -> Self {
        let setup = setup.with_runs_of(benchmark.judge_runs());
        Self { label: label.to_owned(), benchmark, setup }
    }

    /// How its answers are judged; `None` where it has none for a judge.
    pub fn judge(&self) -> Result<Option<Box<dyn Judging + '_>>, BuildError> {
        self.benchmark.judging(&self.setup)
    }

    /// Its label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How often each answer is judged.
    pub fn runs(&self) -> u32 {
        self.setup.runs
    }

    fn built(&self) -> Result<Option<Box<dyn Judging + '_>>, JudgeError> {
        let failed = |source| JudgeError::Benchmark { label: self.label.clone(), source };
        self.judge().map_err(failed)
    }
}

/// The calls of a judge about a run's answers, in plan order.
pub struct JudgePlan {
    folder: PathBuf,
    sections: Vec<JudgedSection>,
    recipe: Recipe,
    // Read by one thread at a time.
    responses: Mutex<Journal>,
    /// Calls with replies that cannot be read: how many, by the id of the first call.
    unread: Mutex<HashMap<Digest, u32>>,
}

impl JudgePlan {
    /// The calls of a judge about the answers in a run folder.
    pub fn new(folder: &Path, sections: Vec<JudgedSection>, recipe: Recipe) -> Result<Self, JudgeError> {
        let responses = Journal::read(&folder.join("responses.jsonl"))?
            .ok_or_else(|| JudgeError::NoResponses(folder.to_owned()))?;
        let responses = Mutex::new(responses);
        let plan = Self { folder: folder.to_owned(), sections, recipe, responses, unread: Mutex::default() };
        if plan.judges()?.iter().all(Option::is_none) {
            return Err(JudgeError::Nothing(plan.labels().map(str::to_owned).collect()));
        }
        Ok(plan)
    }

    /// How the answers of each section are judged.
    pub fn judges(&self) -> Result<Vec<Option<Box<dyn Judging + '_>>>, JudgeError> {
        self.sections.iter().map(JudgedSection::built).collect()
    }

    /// Finds the replies in a journal that cannot be read: such calls are made again, as often as the judge's settings
    /// have it, and from then on they stand in the plan with the id of the last one.
    fn find_unread(&self, journal: &Journal) -> Result<(), PlanError> {
        let unread_of = || self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        unread_of().clear();
        if self.sections.iter().all(|section| section.setup.retries == 0) {
            return Ok(());
        }
        let failed = |e: JudgeError| PlanError::Judge(Box::new(e));
        let judges = self.judges().map_err(failed)?;
        let (mut found, mut error) = (HashMap::new(), None);
        self.each(&mut |request| {
            let section = self.sections.get(request.section).zip(judges.get(request.section));
            let Some((section, Some(judge))) = section else { return true };
            let call = request.planned.request;
            match unread(journal, &**judge, &call, section.setup.retries) {
                Ok(0) => {}
                Ok(count) => drop(found.insert(call, count)),
                Err(e) => error = Some(e),
            }
            error.is_none()
        })?;
        if let Some(e) = error {
            return Err(failed(e.into()));
        }
        *unread_of() = found;
        Ok(())
    }

    /// The calls in all, by section, and how they stand.
    pub fn survey(&self, journal: &Journal) -> Result<(Vec<u64>, Sorted), PlanError> {
        self.find_unread(journal)?;
        let mut calls = vec![0; self.sections.len()];
        let mut sorter = Sorter::new(journal, calls.len());
        self.each(&mut |request| {
            if let Some(count) = calls.get_mut(request.section) {
                *count += 1;
            }
            sorter.take(Some(request.section), request.planned.request);
            true
        })?;
        Ok((calls, sorter.finish()))
    }

    /// The labels of the sections.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.label.as_str())
    }

    fn walk(&self, visit: &mut dyn FnMut(PlannedRequest) -> bool) -> Result<(), JudgeError> {
        let judges = self.judges()?;
        let puts: Vec<Digest> =
            judges.iter().map(|judge| judge.as_deref().map(put_by).unwrap_or_default()).collect();
        let responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        for planned in read_plan(&self.folder)? {
            let planned = planned?;
            let sections = self.sections.iter().zip(&judges).enumerate();
            let mut judged = sections.filter(|(_, (section, _))| section.label == planned.benchmark);
            let found = judged.find_map(|(at, (section, judge))| Some((at, section, judge.as_ref()?)));
            let Some((at, section, judge)) = found else { continue };
            let Some(response) = responses.response(&planned.request)? else { continue };
            let Some(question) = judge.question(&planned, &response) else { continue };
            let put = puts.get(at).copied().unwrap_or_default();
            for run in 0..section.setup.runs {
                let first = call_id(&planned, &response, &put, run);
                let attempt = unread.get(&first).copied().unwrap_or(0);
                let about = About { response: response.key, run, attempt, shortened: question.shortened };
                let call = PlannedRequest {
                    section: at,
                    row: 0,
                    planned: Planned {
                        request: (0..attempt).fold(first, |id, _| again_id(&id)),
                        benchmark: planned.benchmark.clone(),
                        conditions: Vec::new(),
                        sample: planned.sample.clone(),
                        tags: planned.tags.clone(),
                        gold: Vec::new(),
                        judging: Tags::new(),
                    },
                    prompt: question.prompt.clone(),
                    about: Some(about),
                };
                if !visit(call) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Requests for JudgePlan {
    fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    fn each(&self, visit: &mut dyn FnMut(PlannedRequest) -> bool) -> Result<(), PlanError> {
        self.walk(visit).map_err(|e| PlanError::Judge(Box::new(e)))
    }

    fn dataset(&self, _: usize) -> Option<&Dataset> {
        None
    }
}

/// What was asked of a judge about the answers of a section.
pub struct Asked<'a> {
    /// How it judged.
    pub setup: JudgeSetup,
    /// How answers were put to it.
    pub put: Digest,
    /// What reads its replies, where there is something to read.
    pub judging: Option<Box<dyn Judging + 'a>>,
}

impl<'a> Asked<'a> {
    /// What a judge of this setup was asked by a benchmark.
    pub fn by(benchmark: &'a dyn Benchmark, setup: JudgeSetup) -> Self {
        let judging = benchmark.judging(&setup).ok().flatten();
        Self { put: judging.as_deref().map(put_by).unwrap_or_default(), judging, setup }
    }
}

/// What calls of a judge took and came to, beside what a scorer takes.
#[derive(Clone, Debug, Default)]
pub struct CallsTook {
    /// Replies and tokens, all attempts counted.
    pub usage: UsageScores,
    /// Calls that were made again because a reply could not be read.
    pub asked_again: u64,
    /// Those of them whose reply counts, because it can be read.
    pub read_again: u64,
    /// The models that the replies are of.
    pub(super) answered_as: AnsweredAs,
}

impl CallsTook {
    /// One reply.
    fn take(&mut self, reply: &Response) {
        self.answered_as.take(reply);
        cost::count(&mut self.usage, reply);
    }

    /// What further calls took.
    pub fn add(&mut self, other: &Self) {
        self.usage.requests += other.usage.requests;
        cost::add(&mut self.usage.tokens, &other.usage.tokens);
        self.asked_again += other.asked_again;
        self.read_again += other.read_again;
        self.answered_as.add(&other.answered_as);
    }
}

/// The calls of a judge about a response, as a scorer takes them, and what they took. Of a call that was made several
/// times, because replies could not be read, the last reply counts that can be.
pub fn calls_about(
    verdicts: &Journal,
    Asked { setup, put, judging }: &Asked<'_>,
    planned: &Planned,
    response: &Response,
) -> Result<(Vec<JudgeCall>, CallsTook), JournalError> {
    let (mut calls, mut took) = (Vec::new(), CallsTook::default());
    for run in 0..setup.runs {
        let mut id = call_id(planned, response, put, run);
        let Some(mut reply) = verdicts.to_score(&id)? else { continue };
        took.take(&reply);
        let can_be_read = |reply: &Response| {
            reply.outcome.is_reply()
                && judging.as_ref().is_some_and(|judging| judging.finding(&reply.text).value.is_some())
        };
        let mut readable = setup.retries > 0 && can_be_read(&reply);
        for _ in 0..setup.retries {
            id = again_id(&id);
            let Some(later) = verdicts.to_score(&id)? else { break };
            took.take(&later);
            took.asked_again += 1;
            if can_be_read(&later) {
                took.read_again += 1;
                (reply, readable) = (later, true);
            } else if !readable && (later.outcome.is_reply() || !later.outcome.is_answer()) {
                // A call that failed is owed still; what a filter withheld is no better than what cannot be read.
                reply = later;
            }
        }
        let shortened = reply.judge.as_ref().is_some_and(|JudgeRecord { about, .. }| about.shortened);
        calls.push(JudgeCall { run, outcome: reply.outcome, reply: reply.text, shortened });
    }
    Ok((calls, took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Outcome, testing};

    fn response(text: &str) -> Response {
        testing::response(Outcome::Ok, text)
    }

    fn planned(gold: &str, question: &str) -> Planned {
        Planned {
            request: Digest([2; 32]),
            benchmark: "b".into(),
            conditions: Vec::new(),
            sample: "s".into(),
            tags: Tags::new(),
            gold: vec![gold.into()],
            judging: Tags::from([("question".to_owned(), question.to_owned())]),
        }
    }

    /// A verdict on another answer, or to another question, is none on this one.
    #[test]
    fn a_call_is_known_by_all_that_the_judge_sees() {
        let (put, other) = (Digest([3; 32]), Digest([4; 32]));
        let calls = [
            call_id(&planned("g", "q"), &response("a"), &put, 0),
            call_id(&planned("g", "q"), &response("a"), &put, 1),
            call_id(&planned("g", "q"), &response("a"), &other, 0),
            call_id(&planned("g", "q"), &response("other"), &put, 0),
            call_id(&planned("other", "q"), &response("a"), &put, 0),
            call_id(&planned("g", "other"), &response("a"), &put, 0),
        ];
        let different: std::collections::HashSet<_> = calls.iter().collect();
        assert_eq!(different.len(), calls.len());
        assert_eq!(calls[0], call_id(&planned("g", "q"), &response("a"), &put, 0));
    }

    /// Reads a reply that is a number.
    struct Numbers;

    impl Judging for Numbers {
        fn question(&self, _: &Planned, _: &Response) -> Option<crate::benchmark::judging::JudgeQuestion> {
            None
        }

        fn finding(&self, reply: &str) -> crate::benchmark::Finding {
            crate::benchmark::Finding { value: reply.parse().ok(), rule: String::new() }
        }

        fn prompts(&self) -> Vec<crate::prompt::PromptInfo> {
            Vec::new()
        }
    }

    #[test]
    fn the_last_reply_that_can_be_read_counts_and_a_failure_is_owed() {
        use Outcome::{ContentFilter, Ok, RequestError};

        let (planned, answer, put) = (planned("g", "q"), response("a"), Digest([3; 32]));
        let check =
            |replies: &[(Outcome, &str)], retries: u32, expected: (Outcome, &str), counts: (u64, u64)| {
                let dir = tempfile::tempdir().unwrap();
                let mut journal = Journal::append_to(&dir.path().join("v.jsonl"), &|_, _, _| true).unwrap();
                let first = call_id(&planned, &answer, &put, 0);
                let mut id = first;
                for (outcome, text) in replies {
                    journal.append(&Response { request: id, ..testing::response(*outcome, text) }).unwrap();
                    id = again_id(&id);
                }
                let setup = JudgeSetup { runs: 1, retries, ..JudgeSetup::default() };
                let asked = Asked { setup, put, judging: Some(Box::new(Numbers)) };
                let (calls, took) = calls_about(&journal, &asked, &planned, &answer).unwrap();
                let found: Vec<_> = calls.iter().map(|call| (call.outcome, call.reply.as_str())).collect();
                assert_eq!(found, [expected], "{replies:?}");
                assert_eq!((took.asked_again, took.read_again), counts, "{replies:?}");
                unread(&journal, &Numbers, &first, retries).unwrap()
            };
        assert_eq!(check(&[(Ok, "3")], 2, (Ok, "3"), (0, 0)), 0);
        assert_eq!(check(&[(Ok, "hm"), (Ok, "3")], 2, (Ok, "3"), (1, 1)), 1);
        // Owed: the second is asked for when judging goes on.
        assert_eq!(check(&[(Ok, "hm"), (RequestError, "")], 2, (RequestError, ""), (1, 0)), 1);
        assert_eq!(check(&[(Ok, "hm"), (ContentFilter, "")], 2, (Ok, "hm"), (1, 0)), 1);
        assert_eq!(check(&[(Ok, "hm"), (Ok, "h"), (Ok, "?")], 2, (Ok, "?"), (2, 0)), 2);
        // What is not wanted any more does not count.
        assert_eq!(check(&[(Ok, "hm"), (Ok, "3")], 0, (Ok, "hm"), (0, 0)), 0);
        // Another rule may read what was not read before: the last counts.
        assert_eq!(check(&[(Ok, "1"), (Ok, "2"), (Ok, "?")], 2, (Ok, "2"), (2, 1)), 0);
    }
}
