//! Speed of a plan's rows and of media within files, in the order of a plan.
//!
//! Run with `cargo bench --bench dataset`. The file is made here: 2,000 clips of 64 kB, in row groups of 100 rows, as
//! the `datasets` library writes them. For a million rows see `scripts/make_large_dataset.py` and
//! `/usr/bin/time -v harness check CONFIG`.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray, StructArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use harness::dataset::Dataset;
use harness::media::MediaContent;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

const ROWS: usize = 2000;
const GROUP: usize = 100;
const CLIP: usize = 64 << 10;

/// Bytes that compress badly, as audio does.
fn clip(seed: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    };
    (0..CLIP).map(|_| next()).collect()
}

fn write(path: &Path) {
    let batch = |start: usize| {
        let rows = start..start + GROUP;
        let clips: Vec<Vec<u8>> = rows.clone().map(clip).collect();
        let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(&clips));
        let paths: ArrayRef =
            Arc::new(StringArray::from_iter_values(rows.clone().map(|row| format!("{row}.wav"))));
        let audio = StructArray::try_from(vec![("bytes", bytes), ("path", paths)]).expect("a struct");
        let ids: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|row| format!("id-{row}"))));
        RecordBatch::try_from_iter([("id", ids), ("audio", Arc::new(audio) as ArrayRef)]).expect("a batch")
    };
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP))
        .build();
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch(0).schema(), Some(properties)).expect("a writer");
    for start in (0..ROWS).step_by(GROUP) {
        writer.write(&batch(start)).expect("rows");
    }
    writer.close().expect("a footer");
}

fn bench(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("test.parquet");
    write(&path);
    let data = Dataset::open(&path, None).expect("a dataset");
    let mut group = c.benchmark_group("dataset");
    group.sample_size(10);
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("rows", |b| {
        b.iter(|| assert_eq!(data.rows().expect("rows").flatten().count(), ROWS));
    });
    group.throughput(Throughput::Bytes((ROWS * CLIP) as u64));
    group.bench_function("media_in_plan_order", |b| {
        b.iter(|| {
            for row in 0..ROWS {
                let source = data.media(&format!("test.parquet#{row}.audio")).expect("a name");
                assert!(matches!(source.read(), Ok(MediaContent::File(bytes)) if bytes.len() == CLIP));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
