//! Generate: requests through a model, outcomes into the journal.
//!
//! A producer walks the plan and skips what is answered; media are prepared on a thread pool, a bounded number
//! of requests ahead; one task owns batches, journal and counts. It must not know protocols, codecs, dialects
//! or candle: it moves requests through a [`Model`] and outcomes into a [`Journal`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};

use super::journal::{Journal, JournalError};
use super::plan::{Plan, PlanError, PlannedRequest};
use crate::dataset::Dataset;
use crate::media::{MediaError, Preparer, Ready};
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
        std::fs::metadata(dataset.media_path(&record.name))
            .map_or(true, |meta| meta.len() == record.bytes && modified(&meta) == record.modified)
    }))
}

fn modified(meta: &std::fs::Metadata) -> Option<u64> {
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

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

    let mut summary = Summary::default();
    let mut batch: Vec<(Item, Digest)> = Vec::with_capacity(batch_size);
    let mut under_way = FuturesUnordered::new();
    let (mut more, mut watching) = (true, true);
    loop {
        let full = batch.len() >= batch_size || (!more && !batch.is_empty());
        if full && under_way.len() < concurrency {
            under_way.push(ask(model, plan, std::mem::take(&mut batch)));
            continue;
        }
        tokio::select! {
            biased;
            Some(finished) = under_way.next(), if !under_way.is_empty() => {
                let finished: Vec<(Item, Digest, Answer)> = finished;
                for (item, key, answer) in finished {
                    let response = response(plan, &item, key, answer, None);
                    record(journal, &item, &response, &mut summary, observer)?;
                }
            }
            changed = stop.changed(), if more && watching => {
                watching = changed.is_ok();
                if *stop.borrow() {
                    // What is under way is finished; requests that no model has seen are not begun.
                    summary.interrupted = true;
                    more = false;
                    items.close();
                    batch.clear();
                }
            }
            item = items.recv(), if more && !full => match item {
                None => more = false,
                Some(item) => take(item, plan, journal, &mut batch, &mut summary, observer)?,
            },
            else => break,
        }
    }
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

/// Takes a prepared request: journals it at once where no model is needed, else puts it into the batch.
fn take(
    item: Item,
    plan: &Plan,
    journal: &mut Journal,
    batch: &mut Vec<(Item, Digest)>,
    summary: &mut Summary,
    observer: &mut dyn Observer,
) -> Result<(), GenerateError> {
    let digests = match &item.media {
        Ok(media) => media.iter().map(|ready| ready.audio.digest).collect::<Vec<_>>(),
        Err(failure) => {
            let answer = Answer { outcome: failure.outcome, ..Answer::failed(failure.error.clone()) };
            let key = plan.recipe().key(&item.request.prompt, &[]);
            let response = response(plan, &item, key, answer, None);
            return record(journal, &item, &response, summary, observer);
        }
    };
    let key = plan.recipe().key(&item.request.prompt, &digests);
    let Some(earlier) = journal.answer(&key)? else {
        batch.push((item, key));
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
    let response = response(plan, &item, key, answer, Some(from));
    record(journal, &item, &response, summary, observer)
}

async fn ask(model: &dyn Model, plan: &Plan, batch: Vec<(Item, Digest)>) -> Vec<(Item, Digest, Answer)> {
    let recipe = plan.recipe();
    let prepared = batch
        .iter()
        .map(|(item, key)| Prepared {
            key: *key,
            prompt: item.request.prompt.clone(),
            audio: item.media.iter().flatten().map(|ready| ready.audio.clone()).collect(),
            images: Vec::new(),
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

fn response(plan: &Plan, item: &Item, key: Digest, answer: Answer, reused_from: Option<Digest>) -> Response {
    let planned = &item.request.planned;
    let records = || -> Vec<MediaRecord> {
        let dataset = plan.sections.get(item.request.section).map(|section| &section.dataset);
        let media = item.media.iter().flatten();
        media
            .zip(item.request.prompt.audio())
            .map(|(ready, audio)| {
                let meta = dataset.and_then(|d| std::fs::metadata(d.media_path(&audio.name)).ok());
                MediaRecord {
                    name: audio.name.clone(),
                    digest: ready.audio.digest,
                    bytes: meta.as_ref().map_or(0, std::fs::Metadata::len),
                    modified: meta.as_ref().and_then(modified),
                    audio: Some(ready.record.clone()),
                }
            })
            .collect()
    };
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
        media: records(),
        reused_from,
        time: jiff::Timestamp::now().to_string(),
    }
}

fn record(
    journal: &mut Journal,
    item: &Item,
    response: &Response,
    summary: &mut Summary,
    observer: &mut dyn Observer,
) -> Result<(), GenerateError> {
    journal.append(response)?;
    *summary.outcomes.entry(response.outcome).or_default() += 1;
    let error = response.error.as_ref().map(|e| format!("sample {}: {e}", response.sample));
    observer.on(Event::Response { section: item.request.section, outcome: response.outcome, error });
    Ok(())
}
