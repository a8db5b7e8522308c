//! The way of requests before a model: a planner walks the plan and skips what is answered; media are prepared
//! on a thread pool, a bounded number of requests ahead. Requests come out in plan order.

use std::sync::Arc;

use futures::StreamExt as _;
use tokio::sync::mpsc;

use super::digests::DigestSet;
use super::plan::{Plan, PlanError, PlannedRequest, Section};
use crate::dataset::MediaNameError;
use crate::media::{MediaError, Preparer, Ready, ReadyImage};
use crate::types::{Digest, MediaRecord, Outcome};

/// The media of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Media {
    pub(super) clips: Vec<Arc<Ready>>,
    pub(super) images: Vec<Arc<ReadyImage>>,
}

/// A request with its media, or the reason why they are not there.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) request: PlannedRequest,
    pub(super) media: Result<Media, Failure>,
}

/// A request that never reaches the model.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) outcome: Outcome,
    pub(super) error: String,
}

impl Item {
    /// The hashes of what the model gets, clips first.
    pub(super) fn digests(&self) -> Vec<Digest> {
        let Ok(media) = &self.media else { return Vec::new() };
        let clips = media.clips.iter().map(|ready| ready.audio.digest);
        clips.chain(media.images.iter().map(|ready| ready.image.digest)).collect()
    }

    /// What the journal keeps of the media, in the same order.
    pub(super) fn records(&self) -> Vec<MediaRecord> {
        let Ok(media) = &self.media else { return Vec::new() };
        let prompt = &self.request.prompt;
        let clips = media.clips.iter().zip(prompt.audio()).map(|(ready, audio)| MediaRecord {
            name: audio.name.clone(),
            digest: ready.audio.digest,
            bytes: ready.file.bytes,
            modified: ready.file.modified,
            audio: Some(ready.record.clone()),
            sent: ready.sent(),
        });
        let images = media.images.iter().zip(prompt.images()).map(|(ready, image)| MediaRecord {
            name: image.name.clone(),
            digest: ready.image.digest,
            bytes: ready.file.bytes,
            modified: ready.file.modified,
            audio: None,
            sent: Some(ready.sent()),
        });
        clips.chain(images).collect()
    }
}

/// Starts the planner and the media pool. The planner ends when the plan does, or when nobody wants more.
pub(super) fn spawn(
    plan: &Plan,
    done: Arc<DigestSet>,
    preparer: Arc<Preparer>,
    ahead: usize,
) -> (mpsc::Receiver<Item>, tokio::task::JoinHandle<Result<(), PlanError>>) {
    let (planned_in, planned_out) = mpsc::channel::<PlannedRequest>(ahead);
    let walker = plan.clone();
    let producer = tokio::task::spawn_blocking(move || {
        let mut begun = DigestSet::default();
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

    let sections = Arc::clone(&plan.sections);
    let prepared = futures::stream::unfold(planned_out, |mut planned| async {
        planned.recv().await.map(|request| (request, planned))
    })
    .map(move |request| ready(request, Arc::clone(&sections), Arc::clone(&preparer)))
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

async fn ready(request: PlannedRequest, sections: Arc<Vec<Section>>, preparer: Arc<Preparer>) -> Item {
    // What is at hand is not worth a thread.
    if let Some(media) = prepare(&request, &sections, &preparer, false) {
        return Item { request, media };
    }
    let kept = request.clone();
    let work = tokio::task::spawn_blocking(move || {
        let media = prepare(&request, &sections, &preparer, true);
        Item { request, media: media.unwrap_or_else(|| Ok(Media::default())) }
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

/// The media of a request. `None` where a file must be read for them and `read` does not allow it.
fn prepare(
    request: &PlannedRequest,
    sections: &[Section],
    preparer: &Preparer,
    read: bool,
) -> Option<Result<Media, Failure>> {
    let mut media = Media::default();
    let Some(section) = sections.get(request.section) else { return Some(Ok(media)) };
    for audio in request.prompt.audio() {
        let source = match section.dataset.media(&audio.name) {
            Ok(source) => source,
            Err(error) => return Some(Err(unnamed(&error))),
        };
        let made =
            if read { Some(preparer.audio(&source, audio)) } else { preparer.hot_audio(&source, audio) };
        match made? {
            Ok(clip) => media.clips.push(clip),
            Err(error) => return Some(Err(failure(&error))),
        }
    }
    for image in request.prompt.images() {
        let source = match section.dataset.media(&image.name) {
            Ok(source) => source,
            Err(error) => return Some(Err(unnamed(&error))),
        };
        let made = if read { Some(preparer.image(&source)) } else { preparer.hot_image(&source) };
        match made? {
            Ok(image) => media.images.push(image),
            Err(error) => return Some(Err(failure(&error))),
        }
    }
    Some(Ok(media))
}

fn unnamed(error: &MediaNameError) -> Failure {
    Failure { outcome: Outcome::MediaError, error: error.to_string() }
}

fn failure(error: &MediaError) -> Failure {
    let outcome = match error {
        MediaError::NotHeard | MediaError::NotSeen => Outcome::RequestError,
        MediaError::File { .. } => Outcome::MediaError,
    };
    Failure { outcome, error: error.to_string() }
}
