//! A plan over a million rows, and going on with a run of a million responses: `cargo run --release --example bench_plan
//! -- [ROWS]`.
//!
//! The data are made here: a Parquet file with clips of 20 kB inside (they repeat, so that 20 GB of them take little
//! room), and a journal of all responses but a thousand. Each step is a process of its own, so that its memory can be
//! told. It fails where a million rows take more than 10 s or 500 MB.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray, StructArray};
use harness::benchmark;
use harness::config;
use harness::dataset::Dataset;
use harness::media::FileFacts;
use harness::model::ModelIdentity;
use harness::prompt::PromptSet;
use harness::run::journal::Journal;
use harness::run::plan::{Plan, PlanHashes, Recipe, Section, read_ids};
use harness::run::sorted::Sorter;
use harness::types::{Digest, MediaRecord, Response, Window};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

const CLIP: usize = 20 << 10;
/// Rows that are written at once, and rows of a group.
const BATCH: usize = 1000;
const GROUP: usize = 10_000;
/// Responses that are still to come.
const LEFT: u64 = 1000;
/// What a million rows may take.
const MOST_SECONDS: f64 = 10.0;
const MOST_KB: u64 = 500_000;

fn data(path: &Path, rows: usize) {
    let clip = vec![7_u8; CLIP];
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..BATCH).map(|_| &clip)));
    let paths: ArrayRef = Arc::new(StringArray::from_iter_values((0..BATCH).map(|row| format!("{row}.wav"))));
    let audio = StructArray::try_from(vec![("bytes", bytes), ("path", paths)]).expect("a struct");
    let batch = |first: usize, count: usize| {
        let text = |make: &dyn Fn(usize) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values((first..first + count).map(make)))
        };
        let audio: ArrayRef = Arc::new(audio.slice(0, count));
        RecordBatch::try_from_iter([
            ("id", text(&|row| format!("id-{row}"))),
            ("audio", audio),
            ("question", text(&|row| format!("What is said in clip {row}?"))),
            ("reference", text(&|row| format!("Answer {row}"))),
        ])
        .expect("a batch")
    };
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP))
        .build();
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch(0, 1).schema(), Some(properties)).expect("a writer");
    for first in (0..rows).step_by(BATCH) {
        writer.write(&batch(first, BATCH.min(rows - first))).expect("rows");
    }
    writer.close().expect("a footer");
}

/// The plan of a config beside the data.
fn plan(folder: &Path) -> Plan {
    let path = folder.join("c.toml");
    let text = "[model]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\n[[benchmark]]\n\
                name = \"manifest\"\ndata = \"test.parquet\"\nmetrics = [\"exact_match\"]\n";
    std::fs::write(&path, text).expect("a config");
    let config = config::load(&path, &[]).expect("a config").config;
    let section = config.benchmarks.first().expect("a section");
    let benchmark =
        benchmark::build(section, PromptSet::default(), Window::Whole).expect("the benchmark `manifest`");
    let model = ModelIdentity {
        name: "m".to_owned(),
        kind: "openai".to_owned(),
        model: "m".to_owned(),
        revision: String::new(),
        dtype: String::new(),
        device: String::new(),
    };
    let section = Section {
        config: section.clone(),
        benchmark: Arc::from(benchmark),
        prompts: PromptSet::default(),
        dataset: Dataset::open(&section.data, None).expect("a dataset"),
    };
    Plan::new(vec![section], Recipe::new(&model, 30.0, &config.generation, 0)).expect("a plan")
}

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

/// The most memory that this process had, in kB, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

fn step(name: &str, folder: &Path, rows: u64) {
    let begun = Instant::now();
    match name {
        "data" => data(&folder.join("test.parquet"), rows as usize),
        "plan" => {
            let plan = plan(folder);
            let (_, hashes) =
                plan.write(folder, plan.digest().expect("a digest"), |_| {}).expect("a written plan");
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
        let share = (rows as f64 / 1e6).max(1.0);
        assert!(seconds <= MOST_SECONDS * share, "{name} took more than {MOST_SECONDS} s");
        assert!(kb.is_none_or(|kb| kb as f64 <= MOST_KB as f64 * share), "{name} took more than 500 MB");
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
