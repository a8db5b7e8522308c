//! The way of requests before a model: a planner walks the plan and skips what is answered; media are prepared
//! on a thread pool, a bounded number of requests ahead. Requests come out in plan order.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::plan::{PlanError, PlannedRequest, Requests, Settled};
use super::sorted::Todo;
use crate::dataset::{Dataset, MediaNameError};
use crate::media::{MediaError, MediaSource, Preparer, Ready, ReadyImage};
use crate::types::{Digest, MediaRecord, Outcome};

/// The most bytes that the media of requests under way may take, by estimate. A single request may take more.
const MEDIA_BYTES: u64 = 1 << 30;

/// What a clip or image inside a dataset's file is taken to have.
const EMBEDDED_BYTES: u64 = 4 << 20;

/// What room is counted in.
const UNIT: u64 = 64 << 10;

/// Room for a file's media: held by every request that uses them, given back with the last.
type Room = Arc<OwnedSemaphorePermit>;

/// The media of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Media {
    pub(super) clips: Vec<Arc<Ready>>,
    pub(super) images: Vec<Arc<ReadyImage>>,
}

/// A request with its media, or what comes of it without the model.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) request: PlannedRequest,
    pub(super) media: Result<Media, Settled>,
    /// Given back when the request is done with.
    _room: Vec<Room>,
}

/// A request with the room for its media.
type Roomed = (PlannedRequest, Vec<Room>);

/// Gives out room for media, in plan order.
struct Rooms {
    free: Arc<Semaphore>,
    /// All that there is.
    units: u64,
    /// Room that may still be held.
    held: HashMap<MediaSource, Weak<OwnedSemaphorePermit>>,
    runtime: tokio::runtime::Handle,
}

impl Rooms {
    /// Files that are remembered before those that nobody holds are forgotten.
    const REMEMBERED: usize = 1024;

    fn new(bytes: u64) -> Self {
        let units = bytes / UNIT;
        let free = Arc::new(Semaphore::new(units as usize));
        Self { free, units, held: HashMap::new(), runtime: tokio::runtime::Handle::current() }
    }

    /// Room for the media of a request. Waits until there is some.
    fn take(&mut self, request: &PlannedRequest, dataset: &Dataset, preparer: &Preparer) -> Vec<Room> {
        let (audio, images) = (request.prompt.audio(), request.prompt.images());
        let names = audio.iter().map(|audio| &audio.name).chain(images.iter().map(|image| &image.name));
        let mut rooms: Vec<Room> = Vec::new();
        for name in names {
            // What cannot be named takes no room.
            let Ok(source) = dataset.media(name) else { continue };
            if let Some(held) = self.held.get(&source).and_then(Weak::upgrade) {
                rooms.push(held);
                continue;
            }
            // Nor does a file that is not there. The size of media inside a dataset's file is not known.
            let bytes = source.pieces().iter().try_fold(0_u64, |sum, piece| {
                let facts = piece.facts().ok()?;
                Some(sum.saturating_add(if piece.is_embedded() { EMBEDDED_BYTES } else { facts.bytes }))
            });
            let Some(bytes) = bytes else { continue };
            let bytes = preparer.estimate(bytes);
            // All the room that there is will do for a request that is larger: it goes alone.
            let held: u64 = rooms.iter().map(|room| room.num_permits() as u64).sum();
            let units = bytes.div_ceil(UNIT).min(self.units.saturating_sub(held)) as u32;
            if units == 0 {
                continue;
            }
            let wait = Arc::clone(&self.free).acquire_many_owned(units);
            let Ok(room) = self.runtime.block_on(wait) else { continue };
            let room = Arc::new(room);
            if self.held.len() >= Self::REMEMBERED {
                self.held.retain(|_, held| held.strong_count() > 0);
            }
            self.held.insert(source, Arc::downgrade(&room));
            rooms.push(room);
        }
        rooms
    }
}

impl Item {
    /// A request without media that follows on the answer to another.
    pub(super) fn following(request: PlannedRequest) -> Self {
        Self { request, media: Ok(Media::default()), _room: Vec::new() }
    }

    /// The hashes of what the model gets, clips first; or of what the answer is made of that it need not give.
    pub(super) fn digests(&self) -> Vec<Digest> {
        let media = match &self.media {
            Ok(media) => media,
            Err(settled) => return settled.made_of.clone(),
        };
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
            image: None,
            sent: ready.sent(),
        });
        let images = media.images.iter().zip(prompt.images()).map(|(ready, image)| MediaRecord {
            name: image.name.clone(),
            digest: ready.image.digest,
            bytes: ready.file.bytes,
            modified: ready.file.modified,
            audio: None,
            image: Some(ready.record.clone()),
            sent: ready.sent(),
        });
        clips.chain(images).collect()
    }
}

/// Starts the planner and the media pool. The planner ends when the plan does, or when nobody wants more.
pub(super) fn spawn(
    requests: Arc<dyn Requests>,
    todo: Todo,
    preparer: Arc<Preparer>,
    ahead: usize,
) -> (mpsc::Receiver<Item>, tokio::task::JoinHandle<Result<(), PlanError>>) {
    let (planned_in, planned_out) = mpsc::channel::<Roomed>(ahead);
    let (walker, measure) = (Arc::clone(&requests), Arc::clone(&preparer));
    let producer = tokio::task::spawn_blocking(move || {
        let mut rooms = Rooms::new(MEDIA_BYTES);
        for mut todo in [todo.fresh, todo.again] {
            if todo.is_empty() {
                continue;
            }
            walker.each(&mut |request| {
                // Two planned requests with one id are one request with two golds: it is asked once.
                if !todo.remove(&request.planned.request) {
                    return true;
                }
                // The receiver is gone when the run ends early.
                if planned_in.is_closed() {
                    return false;
                }
                let dataset = walker.dataset(request.section).filter(|_| !measure.reads_nothing());
                let room = dataset.map(|dataset| rooms.take(&request, dataset, &measure));
                planned_in.blocking_send((request, room.unwrap_or_default())).is_ok()
            })?;
        }
        Ok(())
    });

    let prepared = futures::stream::unfold(planned_out, |mut planned| async {
        planned.recv().await.map(|request| (request, planned))
    })
    .map(move |request| ready(request, Arc::clone(&requests), Arc::clone(&preparer)))
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

async fn ready((request, room): Roomed, requests: Arc<dyn Requests>, preparer: Arc<Preparer>) -> Item {
    // What is at hand is not worth a thread.
    if let Some(media) = prepare(&request, &*requests, &preparer, false) {
        return Item { request, media, _room: room };
    }
    let kept = (request.clone(), room.clone());
    let work = tokio::task::spawn_blocking(move || {
        let media = prepare(&request, &*requests, &preparer, true);
        Item { request, media: media.unwrap_or_else(|| Ok(Media::default())), _room: room }
    });
    // A panic in a decoder is one request's failure, not the run's.
    work.await.unwrap_or_else(|e| Item {
        request: kept.0,
        _room: kept.1,
        media: Err(Settled::failed(
            Outcome::MediaError,
            format!("internal error while the media were read: {e}; please report this"),
        )),
    })
}

/// The media of a request. `None` where a file must be read for them and `read` does not allow it.
fn prepare(
    request: &PlannedRequest,
    requests: &dyn Requests,
    preparer: &Preparer,
    read: bool,
) -> Option<Result<Media, Settled>> {
    let mut media = Media::default();
    if let Some(settled) = requests.settled(request) {
        return Some(Err(settled));
    }
    let dataset = requests.dataset(request.section).filter(|_| !preparer.reads_nothing());
    let Some(dataset) = dataset else { return Some(Ok(media)) };
    for audio in request.prompt.audio() {
        let source = match dataset.media(&audio.name) {
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
        let source = match dataset.media(&image.name) {
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

fn unnamed(error: &MediaNameError) -> Settled {
    Settled::failed(Outcome::MediaError, error.to_string())
}

fn failure(error: &MediaError) -> Settled {
    let outcome = match error {
        MediaError::NotHeard | MediaError::NotSeen => Outcome::RequestError,
        MediaError::File { .. } => Outcome::MediaError,
    };
    Settled::failed(outcome, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Transcode;
    use crate::model::{AudioNeed, ImageNeed, MediaLimits};
    use crate::types::{AudioRef, Message, Part, Planned, Prompt, Role, Tags, Window};

    fn request(clips: &[&str]) -> PlannedRequest {
        let clip = |name: &&str| Part::Audio(AudioRef { name: (*name).to_owned(), window: Window::Whole });
        let prompt =
            Prompt::Chat(vec![Message { role: Role::User, parts: clips.iter().map(clip).collect() }]);
        let planned = Planned {
            request: Digest::of(clips.concat().as_bytes()),
            benchmark: String::new(),
            conditions: Vec::new(),
            sample: String::new(),
            tags: Tags::new(),
            gold: Vec::new(),
            judging: Tags::new(),
        };
        PlannedRequest { section: 0, row: 0, planned, prompt, about: None }
    }

    #[tokio::test]
    async fn media_wait_for_room_and_one_file_takes_it_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rows.jsonl"), "").unwrap();
        // 7/3 of it and not quite 30 units.
        for name in ["a", "b", "c", "huge"] {
            let bytes = if name == "huge" { 100 } else { 1 } * 12 * UNIT as usize;
            std::fs::write(dir.path().join(name), vec![0; bytes]).unwrap();
        }
        let dataset = Dataset::open(&dir.path().join("rows.jsonl"), None).unwrap();
        let audio = AudioNeed::File { formats: vec!["wav".to_owned()], max_bytes: u64::MAX };
        let limits = MediaLimits { audio, max_seconds: 30.0, images: ImageNeed::None };
        let preparer = Preparer::new(&limits, Transcode::Never).unwrap();
        let (rooms_in, mut rooms_out) = mpsc::unbounded_channel();
        let walker = tokio::task::spawn_blocking(move || {
            let mut rooms = Rooms::new(64 * UNIT);
            let clips = [&["a"][..], &["a", "gone"], &["a", "b"], &["c"], &["huge"], &["b"]];
            for clips in clips {
                rooms_in.send(rooms.take(&request(clips), &dataset, &preparer)).unwrap();
            }
        });
        let mut next = async || {
            tokio::time::timeout(std::time::Duration::from_millis(200), rooms_out.recv()).await.ok().flatten()
        };
        let first = [next().await.unwrap(), next().await.unwrap(), next().await.unwrap()];
        assert_eq!(first.each_ref().map(Vec::len), [1, 1, 2]);
        assert!(next().await.is_none(), "a and b take 56 of 64 units: c waits");
        let [first, second, third] = first;
        drop((first, second));
        assert!(next().await.is_none(), "a is held by the third still");
        drop(third);
        let c = next().await.unwrap();
        assert!(next().await.is_none(), "what is larger than all room goes alone");
        drop(c);
        let huge = next().await.unwrap();
        assert!(next().await.is_none());
        drop(huge);
        assert_eq!(next().await.unwrap().len(), 1);
        walker.await.unwrap();
    }
}
