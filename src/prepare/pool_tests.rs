//! Tests of who does what, without threads: jobs are taken one by one.
#![cfg(feature = "parquet")]

use std::path::Path;

use super::*;
use crate::dataset::prepared::FOLDER;
use crate::prepare::work::set_up;
use crate::prepare::{Asked, Event, Plan, carry_out, plan};

fn jobs(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn belebele(to: &Path) -> Plan {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/datasets/2m-belebele-f32");
    let asked =
        Asked { benchmark: "2m-belebele".to_owned(), data, to: Some(to.to_owned()), languages: Vec::new() };
    plan(&asked).unwrap()
}

fn take(work: &Work<'_>) -> Option<Job> {
    work.pool.take(&mut lock(&work.pool.state))
}

/// Rows that are begun, and the bytes that they hold.
fn held(work: &Work<'_>) -> (usize, usize) {
    let state = lock(&work.pool.state);
    (state.rows, state.bytes)
}

#[test]
fn the_clips_of_one_row_go_to_all_threads_and_no_row_is_read_where_memory_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let plan = belebele(dir.path());
    let quiet = |_: Event<'_>| {};
    let mut work = set_up(&plan, jobs(2), &quiet).unwrap();
    let Some(Job::Begin(Task::Part(part))) = take(&work) else { panic!("a part is begun") };
    work.begin(part).unwrap();
    let Some(Job::Read(reading)) = take(&work) else { panic!("its first row is read") };
    work.read(reading).unwrap();
    let (rows, bytes) = held(&work);
    assert!(rows == 1 && bytes > 0, "{rows} rows, {bytes} bytes");
    // Each of them is a job of its own: as many threads as there are clips in the row have something to do.
    let clips: Vec<Clip> = std::mem::take(&mut lock(&work.pool.state).clips).into();
    assert!(clips.len() > 2, "{}", clips.len());
    // While they are made and memory is full, nothing more is read; with room, the next row is.
    let most = std::mem::replace(&mut work.pool.most_bytes, bytes);
    assert!(take(&work).is_none());
    work.pool.most_bytes = most;
    let Some(Job::Read(reading)) = take(&work) else { panic!("there is room") };
    lock(&work.pool.state).readings.push_front(reading);
    work.pool.most_rows = 1;
    assert!(take(&work).is_none(), "a row is under way");
    // In any order.
    for clip in clips.iter().rev() {
        assert_eq!(held(&work).0, 1);
        work.clip(clip).unwrap();
    }
    assert_eq!(held(&work), (0, 0), "the row is noted");
    // The rest, one row at a time, ends as it does on many threads.
    work.run().unwrap();
    assert_eq!(held(&work), (0, 0));
    let other = tempfile::tempdir().unwrap();
    carry_out(&belebele(other.path()), jobs(4), &quiet).unwrap();
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(FOLDER).join(name)).unwrap();
    for name in ["amh_Ethi.jsonl", "amh_Ethi.files", "prepare.json"] {
        assert_eq!(read(dir.path(), name), read(other.path(), name), "{name}");
    }
}

#[test]
fn a_thread_that_fails_stops_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let plan = belebele(dir.path());
    let quiet = |_: Event<'_>| {};
    let work = set_up(&plan, jobs(1), &quiet).unwrap();
    // Nothing can be written where the set's folder is a file.
    let folder = dir.path().join(FOLDER).join("amh_Ethi");
    std::fs::remove_dir(&folder).unwrap();
    std::fs::write(&folder, "").unwrap();
    assert!(work.run().unwrap_err().is_disk());
    assert!(work.pool.next().is_none());
}
