//! Generate: requests through a model, outcomes into the journal.
//!
//! A producer walks the plan and skips what is answered; media are prepared on a thread pool, a bounded number
//! of requests ahead; one task owns batches, journal and counts. It must not know protocols, codecs, dialects
//! or candle: it moves requests through a [`Model`] and outcomes into a [`Journal`].

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};

use super::journal::{Journal, JournalError};
use super::plan::{Plan, PlanError, PlannedRequest};
use crate::dataset::Dataset;
use crate::media::{FileStamp, MediaError, Preparer, Ready};
use crate::model::{Answer, Model, Prepared};
use crate::types::{Digest, MediaRecord, Outcome, Response};

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
         the rest is not failed as well; what was answered is kept. Mend that, then give the same command again"
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
}

/// Someone who watches. Called from the task that owns the run: it must return quickly.
pub trait Observer {
    /// Something happened.
    fn on(&mut self, event: Event);
}

/// What a generate stage did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Responses journaled by this stage, by outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// The requests that need no work.
pub type Done = std::collections::HashSet<Digest>;

/// Whether a request needs no work: it is answered, and its media are as they were. Media that are not on this
/// machine cannot have changed here.
pub fn is_answered(journal: &Journal, request: &Digest, dataset: &Dataset) -> Result<bool, JournalError> {
    if !journal.outcome(request).is_some_and(Outcome::is_answer) {
        return Ok(false);
    }
    Ok(journal.media(request)?.iter().all(|record| {
        FileStamp::of(&dataset.media_path(&record.name))
            .is_none_or(|found| found == FileStamp { bytes: record.bytes, modified: record.modified })
    }))
}

/// Requests that may fail one after the other before the model is taken to be out of order.
const FAILURES_IN_A_ROW: u64 = 100;

/// A request with its media, or the reason why they are not there.
struct Item {
    request: PlannedRequest,
    media: Result<Vec<Arc<Ready>>, Failure>,
}

/// A request that never reaches the model.
struct Failure {
    outcome: Outcome,
    error: String,
}

/// Runs the stage: every request of the plan that has no answer yet goes through the model.
///
/// `done` says which requests need no work (by [`is_answered`]); `stop` turns true to end early, after what is
/// under way.
pub async fn generate(
    plan: &Plan,
    done: Arc<Done>,
    journal: &mut Journal,
    model: &dyn Model,
    preparer: Arc<Preparer>,
    mut stop: watch::Receiver<bool>,
    observer: &mut dyn Observer,
) -> Result<Summary, GenerateError> {
    let batch_size = model.batch_size().max(1);
    let concurrency = model.concurrency().max(1);
    // Far enough ahead that the next batches are ready when the model is, and no further: features take memory.
    let ahead = (batch_size * concurrency + 1).clamp(4, 64);
    let (mut items, producer) = spawn_pipeline(plan, done, preparer, model, ahead);

    let mut state = State { plan, journal, observer, summary: Summary::default(), failures: 0 };
    let mut queue = Queue::default();
    let mut under_way = FuturesUnordered::new();
    let (mut more, mut watching) = (true, true);
    loop {
        let full = queue.batch.len() >= batch_size || (!more && !queue.batch.is_empty());
        if full && under_way.len() < concurrency {
            under_way.push(ask(model, plan, std::mem::take(&mut queue.batch)));
            continue;
        }
        tokio::select! {
            biased;
            Some(finished) = under_way.next(), if !under_way.is_empty() => {
                let finished: Vec<(Item, Digest, Answer)> = finished;
                for (item, key, answer) in finished {
                    state.answered(&item, key, answer)?;
                    for waiting in queue.done(&key) {
                        state.take(waiting, &mut queue)?;
                    }
                }
            }
            changed = stop.changed(), if more && watching => {
                watching = changed.is_ok();
                if *stop.borrow() {
                    // What is under way is finished; requests that no model has seen are not begun.
                    state.summary.interrupted = true;
                    more = false;
                    items.close();
                    queue = Queue::default();
                }
            }
            item = items.recv(), if more && !full => match item {
                None => more = false,
                Some(item) => state.take(item, &mut queue)?,
            },
            else => break,
        }
    }
    let State { summary, .. } = state;
    drop(items);
    journal.sync()?;
    match producer.await {
        Ok(result) => result?,
        Err(e) => return Err(GenerateError::Internal(format!("the planner stopped: {e}"))),
    }
    Ok(summary)
}

/// Starts the planner and the media pool; prepared requests come out in plan order.
fn spawn_pipeline(
    plan: &Plan,
    done: Arc<Done>,
    preparer: Arc<Preparer>,
    model: &dyn Model,
    ahead: usize,
) -> (mpsc::Receiver<Item>, tokio::task::JoinHandle<Result<(), PlanError>>) {
    let (planned_in, planned_out) = mpsc::channel::<PlannedRequest>(ahead);
    let walker = plan.clone();
    let producer = tokio::task::spawn_blocking(move || {
        let mut begun = std::collections::HashSet::new();
        walker.walk(|request| {
            let id = request.planned.request;
            // Two planned requests with one id are one request with two golds: it is asked once.
            if done.contains(&id) || !begun.insert(id) {
                return true;
            }
            // The receiver is gone when the run ends early.
            planned_in.blocking_send(request).is_ok()
        })
    });

    let images = model.accepts().images;
    let sections = Arc::clone(&plan.sections);
    let prepared = futures::stream::unfold(planned_out, |mut planned| async {
        planned.recv().await.map(|request| (request, planned))
    })
    .map(move |request| {
        let preparer = Arc::clone(&preparer);
        let sections = Arc::clone(&sections);
        let kept = request.clone();
        async move {
            let work = tokio::task::spawn_blocking(move || {
                let media = prepare(&request, &sections, &preparer, images);
                Item { request, media }
            });
            // A panic in a decoder is one request's failure, not the run's.
            work.await.unwrap_or_else(|e| Item {
                request: kept,
                media: Err(Failure {
                    outcome: Outcome::MediaError,
                    error: format!("internal error while the media were read: {e}; please report this"),
                }),
            })
        }
    })
    .buffered(ahead);
    let (ready_in, ready_out) = mpsc::channel(ahead);
    tokio::spawn(async move {
        let mut prepared = std::pin::pin!(prepared);
        while let Some(item) = prepared.next().await {
            if ready_in.send(item).await.is_err() {
                break;
            }
        }
    });
    (ready_out, producer)
}

fn prepare(
    request: &PlannedRequest,
    sections: &[super::plan::Section],
    preparer: &Preparer,
    images: bool,
) -> Result<Vec<Arc<Ready>>, Failure> {
    if request.prompt.has_image() && !images {
        let error = "the request holds an image, and the model sees none".to_owned();
        return Err(Failure { outcome: Outcome::RequestError, error });
    }
    let Some(section) = sections.get(request.section) else { return Ok(Vec::new()) };
    let clips = request.prompt.audio();
    clips
        .into_iter()
        .map(|audio| {
            let path = section.dataset.media_path(&audio.name);
            preparer.audio(&path, audio).map_err(|error| {
                let outcome = match error {
                    MediaError::NotHeard => Outcome::RequestError,
                    MediaError::Clip { .. } => Outcome::MediaError,
                };
                Failure { outcome, error: error.to_string() }
            })
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

/// What the task that owns the run holds.
struct State<'a> {
    plan: &'a Plan,
    journal: &'a mut Journal,
    observer: &'a mut dyn Observer,
    summary: Summary,
    /// Requests that the model failed since its last answer.
    failures: u64,
}

impl State<'_> {
    /// Takes a prepared request: journals it at once where no model is needed, else queues it.
    fn take(&mut self, item: Item, queue: &mut Queue) -> Result<(), GenerateError> {
        let digests = match &item.media {
            Ok(media) => media.iter().map(|ready| ready.audio.digest).collect::<Vec<_>>(),
            Err(failure) => {
                let answer = Answer { outcome: failure.outcome, ..Answer::failed(failure.error.clone()) };
                let key = self.plan.recipe().key(&item.request.prompt, &[]);
                return self.record(&item, &response(&item, key, answer, None));
            }
        };
        let key = self.plan.recipe().key(&item.request.prompt, &digests);
        let Some(earlier) = self.journal.answer(&key)? else {
            queue.push(item, key);
            return Ok(());
        };
        // The same question on the same clip was answered before, for another request or under another time stamp.
        let answer = Answer {
            outcome: earlier.outcome,
            text: earlier.text,
            tokens: earlier.tokens,
            usage: earlier.usage,
            seconds: earlier.seconds,
            attempts: earlier.attempts,
            error: earlier.error,
        };
        let from = earlier.reused_from.unwrap_or(earlier.request);
        self.record(&item, &response(&item, key, answer, Some(from)))
    }

    /// Journals what the model made of a request.
    fn answered(&mut self, item: &Item, key: Digest, answer: Answer) -> Result<(), GenerateError> {
        let failed = answer.outcome == Outcome::RequestError;
        self.failures = if failed { self.failures + 1 } else { 0 };
        let response = response(item, key, answer, None);
        self.record(item, &response)?;
        if self.failures >= FAILURES_IN_A_ROW {
            let sentence = response.error.unwrap_or_else(|| "no reason was given".to_owned());
            return Err(GenerateError::Model { failures: self.failures, sentence });
        }
        Ok(())
    }

    fn record(&mut self, item: &Item, response: &Response) -> Result<(), GenerateError> {
        self.journal.append(response)?;
        *self.summary.outcomes.entry(response.outcome).or_default() += 1;
        let error = response.error.as_ref().map(|e| format!("sample {}: {e}", response.sample));
        self.observer.on(Event::Response { section: item.request.section, outcome: response.outcome, error });
        Ok(())
    }
}

async fn ask(model: &dyn Model, plan: &Plan, batch: Vec<(Item, Digest)>) -> Vec<(Item, Digest, Answer)> {
    let recipe = plan.recipe();
    let prepared = batch
        .iter()
        .map(|(item, key)| Prepared {
            key: *key,
            prompt: item.request.prompt.clone(),
            audio: item.media.iter().flatten().map(|ready| ready.audio.clone()).collect(),
            generation: recipe.generation.clone(),
            seed: recipe.seed,
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

fn response(item: &Item, key: Digest, answer: Answer, reused_from: Option<Digest>) -> Response {
    let planned = &item.request.planned;
    let media = item.media.iter().flatten().zip(item.request.prompt.audio());
    let media = media
        .map(|(ready, audio)| MediaRecord {
            name: audio.name.clone(),
            digest: ready.audio.digest,
            bytes: ready.file.bytes,
            modified: ready.file.modified,
            audio: Some(ready.record.clone()),
        })
        .collect();
    Response {
        key,
        request: planned.request,
        benchmark: planned.benchmark.clone(),
        sample: planned.sample.clone(),
        tags: planned.tags.clone(),
        outcome: answer.outcome,
        text: answer.text,
        error: answer.error,
        tokens: answer.tokens,
        usage: answer.usage,
        seconds: answer.seconds,
        attempts: answer.attempts,
        media,
        reused_from,
        time: jiff::Timestamp::now().to_string(),
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
