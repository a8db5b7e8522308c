//! How long planning takes over as many rows as any set has, and how much memory.
#![cfg(all(feature = "endpoint", feature = "parquet"))]
#![expect(clippy::unwrap_used, reason = "its helpers are tests too")]

#[path = "support/scale.rs"]
mod scale;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The folder of the data, for the process that plans.
const FOLDER: &str = "HARNESS_TEST_SCALE";
const ROWS: u64 = 1_000_000;
/// Bytes of all clips.
const LOGICAL: u64 = 20_000_000_000;

#[test]
#[ignore = "a measurement: in release, on a quiet machine (README: Benchmarks of the program itself)"]
#[expect(clippy::assertions_on_constants, reason = "the message is for those who run it in a debug build")]
fn a_million_rows_of_20_gb_are_planned_in_10_seconds_and_500_mb() {
    let name = "a_million_rows_of_20_gb_are_planned_in_10_seconds_and_500_mb";
    // The process that plans does nothing else: what it had at most is what planning takes.
    if let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) {
        let begun = Instant::now();
        scale::write_plan(&folder);
        let (seconds, kb) = (begun.elapsed().as_secs_f64(), scale::peak());
        return std::fs::write(folder.join("took.json"), serde_json::json!([seconds, kb]).to_string())
            .unwrap();
    }
    assert!(!cfg!(debug_assertions), "debug builds are slow: cargo test --release --test scale -- --ignored");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.parquet");
    scale::data(&path, ROWS as usize);
    assert!(logical(&path) >= LOGICAL, "{} bytes of clips", logical(&path));
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--ignored", "--exact", name]).env(FOLDER, dir.path());
    assert!(again.status().unwrap().success(), "the plan failed");
    let took = std::fs::read(dir.path().join("took.json")).unwrap();
    let (seconds, kb): (f64, Option<u64>) = serde_json::from_slice(&took).unwrap();
    let plan = std::fs::read(dir.path().join("plan.jsonl")).unwrap();
    assert!(memchr::memchr_iter(b'\n', &plan).count() as u64 >= ROWS, "a line a request");
    if cfg!(target_os = "linux") {
        assert!(kb.is_some(), "the system tells how much memory it was");
    }
    scale::check("the plan", ROWS, seconds, kb);
}

/// Bytes of the column of clips as it would be without dictionary and compression: clips times their size.
fn logical(path: &Path) -> u64 {
    let data = harness::dataset::Dataset::open(path, None).unwrap();
    let rows: u64 =
        data.stretches().iter().filter_map(|part| part.rows.as_ref()).map(|r| r.end - r.start).sum();
    let first = data.rows().unwrap().next().unwrap().unwrap().value["audio"].as_str().unwrap().to_owned();
    let harness::media::MediaContent::File(clip) = data.media(&first).unwrap().read().unwrap() else {
        panic!("a clip")
    };
    rows * clip.len() as u64
}
