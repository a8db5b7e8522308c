//! A plan over a million rows: the data, made here, the plan, and what both may take. For the bench that shows how long it
//! takes and for the test that fails where it takes too long.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray, StructArray};
use harness::benchmark;
use harness::config;
use harness::dataset::Dataset;
use harness::model::ModelIdentity;
use harness::prompt::PromptSet;
use harness::run::plan::{Plan, PlanHashes, Recipe, Section};
use harness::types::Window;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

const CLIP: usize = 20 << 10;
/// Rows that are written at once, and rows of a group.
const BATCH: usize = 1000;
const GROUP: usize = 10_000;
/// What a million rows may take.
const MOST_SECONDS: f64 = 10.0;
const MOST_KB: u64 = 500_000;

/// Writes a Parquet file with clips of 20 kB inside. They repeat, so that 20 GB of them take little room.
pub(crate) fn data(path: &Path, rows: usize) {
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
pub(crate) fn plan(folder: &Path) -> Plan {
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

/// Makes the plan and leaves it in the folder.
pub(crate) fn write_plan(folder: &Path) -> PlanHashes {
    let plan = plan(folder);
    let (_, hashes) = plan.write(folder, plan.digest().expect("a digest"), |_| {}).expect("a written plan");
    hashes
}

/// The most memory that this process had, in kB, where the system tells.
pub(crate) fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Fails where a step over so many rows took too long, or too much memory.
pub(crate) fn check(name: &str, rows: u64, seconds: f64, kb: Option<u64>) {
    let share = (rows as f64 / 1e6).max(1.0);
    assert!(seconds <= MOST_SECONDS * share, "{name} took {seconds:.1} s, more than {MOST_SECONDS} s");
    assert!(
        kb.is_none_or(|kb| kb as f64 <= MOST_KB as f64 * share),
        "{name} took {kb:?} kB, more than {MOST_KB}"
    );
}
