//! A plan over a million rows, and going on with a run of a million responses: `cargo run --release --example bench_plan
//! -- [ROWS]`.
//!
//! The data are made first: a Parquet file with clips of 20 kB inside (`tests/support/scale.rs`, which `tests/scale.rs`
//! shares), and a journal of all responses but a thousand. Each step is a process of its own, so that its memory can be
//! told. It fails where a million rows take more than 10 s or 500 MB.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

#[path = "../tests/support/scale.rs"]
mod scale;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use harness::media::FileFacts;
use harness::run::journal::Journal;
use harness::run::plan::{PlanHashes, read_ids};
use harness::run::sorted::Sorter;
use harness::types::{Digest, MediaRecord, Response};
use scale::{check, data, peak, plan, write_plan};

/// Responses that are still to come.
const LEFT: u64 = 1000;
fn hashes(folder: &Path) -> PlanHashes {
    serde_json::from_slice(&std::fs::read(folder.join("hashes.json")).expect("hashes")).expect("hashes")
}

/// Answers all requests but the last ones.
fn answer(folder: &Path, rows: u64) {
    let facts = FileFacts::of(&folder.join("test.parquet")).expect("the data");
    let mut journal =
        Journal::append_to(&folder.join("responses.jsonl"), &|_, _, _| true).expect("a journal");
    let mut number = 0;
    let walk = plan(folder).walk(|request| {
        let audio = request.prompt.audio().first().map(|audio| audio.name.clone()).unwrap_or_default();
        let media = MediaRecord {
            name: audio,
            digest: Digest::of(b"clip"),
            bytes: facts.bytes,
            modified: facts.modified,
            audio: None,
            image: None,
            sent: None,
        };
        let response = Response {
            key: request.planned.request,
            request: request.planned.request,
            benchmark: "manifest".to_owned(),
            sample: request.planned.sample,
            text: "An answer of a few words.".to_owned(),
            seconds: 0.1,
            media: vec![media],
            time: "2026-01-01T00:00:00Z".to_owned(),
            ..Response::stand_in()
        };
        journal.append(&response).expect("a line");
        number += 1;
        number + LEFT < rows
    });
    walk.expect("a walk");
    journal.sync().expect("a journal");
}

/// What a run does before its first request, when it goes on.
fn resume(folder: &Path, rows: u64) {
    let plan = plan(folder);
    let hashes = hashes(folder);
    assert_eq!(plan.digest().expect("a digest"), hashes.made_of, "the same plan");
    let dataset = plan.sections.first().map(|section| section.dataset.clone()).expect("a section");
    let unchanged = |_: &str, name: &str, then: FileFacts| {
        dataset.media(name).ok().and_then(|media| media.facts().ok()).is_none_or(|now| now == then)
    };
    let journal = Journal::append_to(&folder.join("responses.jsonl"), &unchanged).expect("a journal");
    let mut sorter = Sorter::new(&journal, 1);
    assert!(
        read_ids(folder, &hashes, |_, request| sorter.take(Some(0), request)),
        "the plan is the one written"
    );
    let sorted = sorter.finish();
    assert_eq!((sorted.todo.len() as u64, sorted.answered), (LEFT, vec![rows - LEFT]));
}

fn step(name: &str, folder: &Path, rows: u64) {
    let begun = Instant::now();
    match name {
        "data" => data(&folder.join("test.parquet"), rows as usize),
        "plan" => {
            let hashes = write_plan(folder);
            std::fs::write(folder.join("hashes.json"), serde_json::to_vec(&hashes).expect("JSON"))
                .expect("a file");
        }
        "answer" => answer(folder, rows),
        _ => resume(folder, rows),
    }
    let (seconds, kb) = (begun.elapsed().as_secs_f64(), peak());
    let memory = kb.map_or("unknown".to_owned(), |kb| format!("{} MB", kb / 1000));
    println!("{name:7} {rows} rows: {seconds:.2} s, most memory {memory}");
    if matches!(name, "plan" | "resume") {
        check(name, rows, seconds, kb);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [name, folder, rows] = &*args {
        step(name, Path::new(folder), rows.parse().expect("a number of rows"));
        return;
    }
    let rows = args.first().map_or("1000000", String::as_str);
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["data", "plan", "answer", "resume"] {
        let program = std::env::current_exe().expect("this program");
        let status = Command::new(program).arg(name).arg(dir.path()).arg(rows).status();
        assert!(status.expect("this program starts").success(), "{name} failed");
    }
}
