//! Speed of `harness prepare` on data in the shape of 2M-Belebele: `cargo run --release --example bench_prepare --
//! [ROWS] [JOBS] [exact|fine|f64] [GROUP]`.
//!
//! The file is made here: recordings of noise as lists of numbers, four sentences a row and two speakers a sentence,
//! 6 s each at 16 kHz, two rows a passage. `exact` floats are multiples of 1/32768 and become 16-bit files, `fine`
//! ones stay floats, `f64` are exact ones in 64 bits. GROUP is the number of rows of a row group: as many as there are rows
//! make it one.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use harness::prepare::{Asked, carry_out, plan};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

const SENTENCES: usize = 4;
const SPEAKERS: usize = 2;
const SAMPLES: usize = 6 * 16_000;
/// Rows of a group.
const GROUP: usize = 50;

fn list(values: ArrayRef, each: usize) -> ArrayRef {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let lists = values.len() / each;
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(vec![each; lists]), values, None))
}

fn batch(first: usize, count: usize, kind: &str) -> RecordBatch {
    let clips = count * SENTENCES * SPEAKERS;
    let mut state = 0_u64;
    let noise = (0..clips * SAMPLES).map(|at| {
        if at.is_multiple_of(SAMPLES) {
            // The two rows of a passage hold the same clips.
            let row = first + at / (SAMPLES * SENTENCES * SPEAKERS);
            state = (row / 2 * SENTENCES * SPEAKERS + at / SAMPLES % (SENTENCES * SPEAKERS)) as u64 + 1;
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = ((state >> 52) as i32 - 2048) as f32;
        if kind == "fine" { value / 32767.0 } else { value / 32768.0 }
    });
    let samples: ArrayRef = if kind == "f64" {
        Arc::new(Float64Array::from_iter_values(noise.map(f64::from)))
    } else {
        Arc::new(Float32Array::from_iter_values(noise))
    };
    let rates: ArrayRef = Arc::new(Int64Array::from(vec![16_000; clips]));
    let audio = StructArray::try_from(vec![("wav", list(samples, SAMPLES)), ("sampling_rate", rates)]);
    let segment = StructArray::try_from(vec![("audio", Arc::new(audio.expect("a struct")) as ArrayRef)]);
    let segments = list(list(Arc::new(segment.expect("a struct")), SPEAKERS), SENTENCES);
    let rows = first..first + count;
    let text = |make: &dyn Fn(usize) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.clone().map(make)))
    };
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64 % 2 + 1)));
    RecordBatch::try_from_iter([
        ("link", text(&|row| format!("https://example.org/{}", row / 2))),
        ("question_number", numbers),
        ("flores_passage", text(&|row| format!("Passage {}.", row / 2))),
        ("correct_answer_num", text(&|row| (row % 4 + 1).to_string())),
        ("dialect", text(&|_| "eng_Latn".to_owned())),
        ("audio_segments", segments),
    ])
    .expect("a batch")
}

fn write(path: &Path, rows: usize, kind: &str, group: usize) {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(group))
        .build();
    let file = std::fs::File::create(path).expect("a file");
    let mut writer =
        ArrowWriter::try_new(file, batch(0, 1, kind).schema(), Some(properties)).expect("a writer");
    for first in (0..rows).step_by(GROUP) {
        writer.write(&batch(first, GROUP.min(rows - first), kind)).expect("rows");
    }
    writer.close().expect("a footer");
}

/// The most memory that this process had, in kB, where the system tells.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rows = args.next().and_then(|text| text.parse().ok()).unwrap_or(200);
    let jobs = args.next().and_then(|text| text.parse().ok()).unwrap_or(NonZeroUsize::MIN);
    let kind = args.next().unwrap_or_else(|| "exact".to_owned());
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("eng_Latn.parquet");
    let group = args.next().and_then(|text| text.parse().ok()).unwrap_or(GROUP);
    write(&path, rows, &kind, group);
    let source = std::fs::metadata(&path).expect("a file").len();
    let before = peak();
    let asked = Asked {
        benchmark: "2m-belebele".to_owned(),
        data: dir.path().to_owned(),
        to: None,
        languages: Vec::new(),
    };
    let begun = Instant::now();
    let plan = plan(&asked).expect("a plan");
    carry_out(&plan, jobs, &|_| {}).expect("prepared data");
    let seconds = begun.elapsed().as_secs_f64();
    let width = if kind == "f64" { 8 } else { 4 };
    let samples = rows * SENTENCES * SPEAKERS * SAMPLES * width;
    println!(
        "{rows} rows, {kind}, {jobs} threads: {seconds:.2} s; {:.0} MB/s of file, {:.0} MB/s of samples; most memory {} \
         (before: {before})",
        source as f64 / 1e6 / seconds,
        samples as f64 / 1e6 / seconds,
        peak()
    );
}
