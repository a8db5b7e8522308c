//! Generate: requests through a model, outcomes into the journal.
//!
//! Requests with their media come out of a pipeline in plan order; one task owns batches, journal and counts. It
//! must not know protocols, codecs, dialects or candle: it moves requests through a [`Model`] and outcomes into
//! a [`Journal`].

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::cost::Account;
use super::digests::DigestSet;
use super::journal::{Journal, JournalError};
use super::judge::again_id;
use super::pipeline::{self, Item};
use super::plan::{PlanError, PlannedRequest, Recipe, Requests, Settled};
use super::sorted::Todo;
use crate::benchmark::Finding;
use crate::media::Preparer;
use crate::model::{Answer, AudioNeed, Model, Prepared};
use crate::types::{About, Digest, JudgeRecord, Outcome, Response, Usage, shown};

/// How often those who watch hear how the model stands.
const TICK: Duration = Duration::from_millis(500);

/// Requests that may fail one after the other before the model is taken to be out of order.
const FAILURES_IN_A_ROW: u64 = 100;

/// A generate stage that could not go on. What was journaled is safe.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The model answers nothing any more.
    #[error(
        "the model failed {failures} requests in a row, the last because: {sentence}. The run was stopped so that \
         the rest is not failed as well; what was answered is kept. Mend that, then give the same command again: it \
         asks those first that nobody was asked yet"
    )]
    Model {
        /// How many.
        failures: u64,
        /// What the model said last.
        sentence: String,
    },
    /// A fault of this program.
    #[error("internal error: {0}; what was answered so far is kept, please report this")]
    Internal(String),
}

/// What happens while responses are made, for those who watch.
#[derive(Clone, Debug)]
pub enum Event {
    /// A response was journaled.
    Response {
        /// The index of its section.
        section: usize,
        /// What came of it.
        outcome: Outcome,
        /// The sentence of a failure, with the sample that it is about.
        error: Option<String>,
    },
    /// Some time has passed.
    Tick {
        /// What the model says of itself.
        status: Option<String>,
        /// Tokens in the stage's journal so far, earlier sessions included.
        spent: Usage,
    },
}

/// Someone who watches. Called from the task that owns the run: it must return quickly.
pub trait Observer {
    /// Something happened.
    fn on(&mut self, event: Event);
}

/// A wish from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// None.
    #[default]
    No,
    /// End after what is under way.
    Finish,
    /// End now; what is under way is dropped, and asked again when the run goes on.
    Now,
}

/// Why a stage ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// Someone wished it.
    Stopped,
    /// The run has cost what it may.
    Cost,
}

/// What a generate stage did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Responses journaled by this stage, by outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Why it ended early, if it did.
    pub early: Option<Early>,
}

/// All that a generate stage needs.
pub struct Stage<'a> {
    /// What is to be asked.
    pub requests: Arc<dyn Requests>,
    /// The requests that need work.
    pub todo: Todo,
    /// Where responses go.
    pub journal: &'a mut Journal,
    /// What answers.
    pub model: &'a dyn Model,
    /// What makes media ready for it.
    pub preparer: Preparer,
    /// What the stage costs and may cost.
    pub account: Account,
    /// Wishes from outside.
    pub stop: watch::Receiver<Stop>,
    /// Who watches.
    pub observer: &'a mut dyn Observer,
    /// Of a judge: reads a reply about a section's answer.
    pub reading: Option<Reading<'a>>,
}

/// Reads a judge's replies.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Reads a reply about an answer of the section of this index.
    pub read: &'a (dyn Fn(usize, &str) -> Finding + Sync),
    /// How often the judge is asked again for a reply that cannot be read.
    pub retries: u32,
}

/// How many requests are made ready before the model wants them: enough that the next ones are there when it
/// does, and no more, since media take memory.
fn ahead(model: &dyn Model) -> usize {
    let at_once = model.batch_size().max(1).saturating_mul(model.concurrency().max(1));
    match model.accepts().audio {
        // A file is read much faster than a server answers.
        AudioNeed::File { .. } | AudioNeed::None => (at_once / 4).clamp(4, 16),
        // What is there already costs nothing to make ready.
        AudioNeed::Unread => at_once.clamp(4, 1024),
        AudioNeed::LogMel { .. } | AudioNeed::LogMelWindows { .. } => at_once.saturating_add(1).clamp(4, 64),
    }
}

/// Runs the stage: every request of the plan that has no answer yet goes through the model.
pub async fn generate(stage: Stage<'_>) -> Result<Summary, GenerateError> {
    let Stage { requests, todo, journal, model, preparer, account, mut stop, observer, reading } = stage;
    let batch_size = model.batch_size().max(1);
    let concurrency = model.concurrency().max(1);
    let failed_before = todo.again.clone();
    let (mut items, producer) =
        pipeline::spawn(Arc::clone(&requests), todo, Arc::new(preparer), ahead(model));
    let recipe = requests.recipe();

    let (unread, gives_up) = (model.accepts().audio == AudioNeed::Unread, model.gives_up());
    let summary = Summary::default();
    let mut desk = Desk {
        recipe,
        journal,
        observer,
        reading,
        account,
        summary,
        failed_before,
        failures: 0,
        broken: None,
        unread,
        gives_up,
    };
    let mut queue = Queue::default();
    let mut under_way = FuturesUnordered::new();
    let (mut more, mut watching) = (true, true);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if more && account.reached(&desk.journal.spent()) {
            desk.summary.early = Some(Early::Cost);
            more = false;
            items.close();
            queue = Queue::default();
        }
        if more && desk.broken.is_some() {
            // What is under way has been paid for, and may be answered.
            more = false;
            items.close();
            queue = Queue::default();
        }
        let full = queue.batch.len() >= batch_size || (!more && !queue.batch.is_empty());
        if full && under_way.len() < concurrency {
            // Requests that follow on answers can be more than a batch.
            let next = queue.batch.len().min(batch_size);
            under_way.push(ask(model, recipe, queue.batch.drain(..next).collect()));
            continue;
        }
        tokio::select! {
            biased;
            changed = stop.changed(), if watching => {
                watching = changed.is_ok();
                let wish = *stop.borrow();
                if wish != Stop::No && more {
                    // What is under way is finished; requests that no model has seen are not begun.
                    desk.summary.early = Some(Early::Stopped);
                    more = false;
                    items.close();
                    queue = Queue::default();
                    model.finish();
                }
                if wish == Stop::Now {
                    desk.summary.early.get_or_insert(Early::Stopped);
                    break;
                }
            }
            Some(finished) = under_way.next(), if !under_way.is_empty() => {
                let finished: Vec<(Item, Digest, Answer)> = finished;
                for (item, key, answer) in finished {
                    let following = desk.answered(&item, key, answer)?;
                    for item in queue.done(&key).into_iter().chain(following) {
                        desk.take(item, &mut queue)?;
                    }
                }
            }
            _ = ticks.tick() => {
                let spent = desk.journal.spent();
                desk.observer.on(Event::Tick { status: model.status(), spent });
            }
            item = items.recv(), if more && !full => match item {
                None => more = false,
                Some(item) => desk.take(item, &mut queue)?,
            },
        }
        if !more && queue.batch.is_empty() && under_way.is_empty() {
            break;
        }
        // What still waits for its turn, or for a server that is down, is not waited for.
        if desk.summary.early == Some(Early::Stopped) && model.is_idle() {
            break;
        }
    }
    let spent = desk.journal.spent();
    desk.observer.on(Event::Tick { status: model.status(), spent });
    drop(items);
    drop(under_way);
    desk.journal.sync()?;
    if let Some(error) = desk.broken {
        return Err(error);
    }
    let summary = desk.summary;
    match producer.await {
        Ok(result) => result?,
        Err(e) => return Err(GenerateError::Internal(format!("the planner stopped: {e}"))),
    }
    Ok(summary)
}

async fn ask(model: &dyn Model, recipe: &Recipe, batch: Vec<(Item, Digest)>) -> Vec<(Item, Digest, Answer)> {
    let prepared = batch
        .iter()
        .map(|(item, key)| Prepared {
            key: *key,
            prompt: item.request.prompt.clone(),
            audio: item.media.iter().flat_map(|m| &m.clips).map(|ready| ready.audio.clone()).collect(),
            images: item.media.iter().flat_map(|m| &m.images).map(|ready| ready.image.clone()).collect(),
            generation: recipe.generation.clone(),
            seed: item.request.seed(recipe),
            exact_seed: item.request.about.is_some(),
        })
        .collect();
    let answers = model.answer(prepared).await;
    // A model owes one answer each; one that gives fewer has failed the rest.
    let answers = answers.into_iter().map(Some).chain(std::iter::repeat(None));
    batch
        .into_iter()
        .zip(answers)
        .map(|((item, key), answer)| {
            (item, key, answer.unwrap_or_else(|| Answer::failed("the model gave no answer")))
        })
        .collect()
}

/// Requests that wait for the model.
#[derive(Default)]
struct Queue {
    /// The next batch.
    batch: Vec<(Item, Digest)>,
    /// Keys that are in the batch or under way, with further requests for the same answer.
    asked: HashMap<Digest, Vec<Item>>,
}

impl Queue {
    /// Puts a request into the batch, or behind the one that asks the same already.
    fn push(&mut self, item: Item, key: Digest) {
        match self.asked.entry(key) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push(item),
            Entry::Vacant(first) => {
                first.insert(Vec::new());
                self.batch.push((item, key));
            }
        }
    }

    /// A key is answered: the requests that waited for it.
    fn done(&mut self, key: &Digest) -> Vec<Item> {
        self.asked.remove(key).unwrap_or_default()
    }
}

/// Where answers become responses.
struct Desk<'a> {
    recipe: &'a Recipe,
    journal: &'a mut Journal,
    observer: &'a mut dyn Observer,
    reading: Option<Reading<'a>>,
    account: Account,
    summary: Summary,
    /// Requests that an earlier stage has failed: they say nothing new of the model.
    failed_before: DigestSet,
    /// Other requests that the model failed since its last answer.
    failures: u64,
    /// Why nothing more is asked.
    broken: Option<GenerateError>,
    /// Whether media are not read: then a request is known by its id.
    unread: bool,
    /// Whether many failures in a row end the stage.
    gives_up: bool,
}

impl Desk<'_> {
    /// Takes a prepared request: journals it at once where no model is needed, else queues it.
    fn take(&mut self, item: Item, queue: &mut Queue) -> Result<(), GenerateError> {
        let mut next = Some(item);
        while let Some(item) = next {
            next = self.take_one(item, queue)?;
        }
        Ok(())
    }

    /// Takes one, and gives the request that follows on its answer, where it has one already.
    fn take_one(&mut self, item: Item, queue: &mut Queue) -> Result<Option<Item>, GenerateError> {
        let about = item.request.about.as_ref();
        let key = if self.unread {
            item.request.planned.request
        } else {
            self.recipe.key(&item.request.prompt, &item.digests(), about, item.request.own_seed())
        };
        if let Err(settled) = &item.media {
            let Settled { outcome, text, error, .. } = settled.clone();
            let answer = Answer { outcome, text, error, ..Answer::failed("") };
            return self.record(&item, key, answer, None);
        }
        let Some(earlier) = self.journal.answer(&key)? else {
            queue.push(item, key);
            return Ok(None);
        };
        // The same question on the same media was answered before, for another request or under another time
        // stamp.
        let from = earlier.reused_from.unwrap_or(earlier.request);
        let answer = Answer {
            outcome: earlier.outcome,
            text: earlier.text,
            language: earlier.language,
            tokens: earlier.tokens,
            usage: earlier.usage,
            seconds: earlier.seconds,
            attempts: earlier.attempts,
            error: earlier.error,
            media_bytes: earlier.media_bytes,
            answered_as: earlier.answered_as,
        };
        self.record(&item, key, answer, Some(from))
    }

    /// Journals what the model made of a request. Gives the request that follows on it.
    fn answered(&mut self, item: &Item, key: Digest, answer: Answer) -> Result<Option<Item>, GenerateError> {
        let failed = answer.outcome == Outcome::RequestError;
        if !failed {
            self.failures = 0;
        } else if !self.failed_before.contains(&item.request.planned.request) {
            self.failures += 1;
        }
        if self.gives_up && self.failures >= FAILURES_IN_A_ROW && self.broken.is_none() {
            let sentence = answer.error.clone().unwrap_or_else(|| "no reason was given".to_owned());
            self.broken = Some(GenerateError::Model { failures: self.failures, sentence });
        }
        self.record(item, key, answer, None)
    }

    fn record(
        &mut self,
        item: &Item,
        key: Digest,
        answer: Answer,
        reused_from: Option<Digest>,
    ) -> Result<Option<Item>, GenerateError> {
        let planned = &item.request.planned;
        let heard = answer.outcome.is_reply();
        let judge = item.request.about.clone().map(|about| {
            let reading = self.reading.filter(|_| heard);
            let found = reading.map(|reading| (reading.read)(item.request.section, &answer.text));
            let (value, rule) = found.map(|found| (found.value, found.rule)).unwrap_or_default();
            JudgeRecord { about, value, rule, seed: Some(item.request.seed(self.recipe)) }
        });
        let response = Response {
            key,
            request: planned.request,
            benchmark: planned.benchmark.clone(),
            sample: planned.sample.clone(),
            tags: planned.tags.clone(),
            outcome: answer.outcome,
            text: answer.text,
            language: answer.language,
            error: answer.error,
            tokens: answer.tokens,
            usage: answer.usage,
            seconds: answer.seconds,
            attempts: answer.attempts,
            media: item.records(),
            media_bytes: answer.media_bytes,
            reused_from,
            judge,
            answered_as: answer.answered_as,
            time: jiff::Timestamp::now().to_string(),
        };
        self.journal.append(&response)?;
        *self.summary.outcomes.entry(response.outcome).or_default() += 1;
        let unread = heard && response.judge.as_ref().is_some_and(|judge| judge.value.is_none());
        if unread && let Some(following) = self.again(&item.request) {
            // Of all that is said to it the last counts for those who watch.
            return Ok(Some(Item::following(following)));
        }
        let error = response.error.map(|error| format!("sample {}: {error}", shown(&response.sample)));
        self.observer.on(Event::Response { section: item.request.section, outcome: response.outcome, error });
        Ok(None)
    }

    /// The request to a judge that cannot be read once more, where it is owed one.
    fn again(&mut self, request: &PlannedRequest) -> Option<PlannedRequest> {
        let about = request.about.clone()?;
        if about.attempt >= self.reading?.retries || self.summary.early.is_some() || self.broken.is_some() {
            return None;
        }
        if self.account.reached(&self.journal.spent()) {
            self.summary.early = Some(Early::Cost);
            return None;
        }
        let mut following = request.clone();
        following.planned.request = again_id(&request.planned.request);
        following.about = Some(About { attempt: about.attempt + 1, ..about });
        Some(following)
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
