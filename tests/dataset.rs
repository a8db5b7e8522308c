//! Datasets in the formats that they are published in, written by the libraries of their publishers
//! (`scripts/make_dataset_fixtures.py`), and what must be read from them.
#![cfg(feature = "parquet")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, BinaryArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::Field;
use common::root;
use harness::dataset::{Dataset, FingerprintKind, Rows};
use harness::media::{MediaContent, RawSamples, SampleValues};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/datasets").join(name)
}

fn expected(name: &str) -> Value {
    let text = std::fs::read(fixture(name).join("expected.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn values(rows: Rows) -> Vec<Value> {
    rows.map(|row| row.unwrap().value).collect()
}

/// What was read, as the script describes it.
fn described(content: &MediaContent) -> Value {
    let sha = |bytes: &[u8]| {
        Sha256::digest(bytes).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    };
    match content {
        MediaContent::File(bytes) => json!({"bytes": bytes.len(), "sha256": sha(bytes)}),
        MediaContent::Samples(RawSamples { rate, values }) => {
            let (kind, count, bytes): (_, _, Vec<u8>) = match values {
                SampleValues::F32(v) => ("f32", v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect()),
                SampleValues::F64(v) => ("f64", v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect()),
                SampleValues::I16(v) => ("i16", v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect()),
            };
            json!({"rate": rate, "kind": kind, "samples": count, "sha256": sha(&bytes)})
        }
    }
}

/// Reads a fixture and compares rows and media with what the script wrote.
#[track_caller]
fn check(name: &str, kind: FingerprintKind) -> Dataset {
    let data = Dataset::open(&fixture(name), None).unwrap();
    let expected = expected(name);
    let mut rows = data.rows().unwrap();
    let got: Vec<Value> = rows.by_ref().map(|row| row.unwrap().value).collect();
    assert_eq!(rows.fingerprint().kind, kind);
    assert_eq!(&got, expected["rows"].as_array().unwrap(), "{name}");
    for (media, what) in expected["media"].as_object().unwrap() {
        let source = data.media(media).unwrap();
        assert!(source.is_embedded(), "{media}");
        assert_eq!(&described(&source.read().unwrap()), what, "{name}: {media}");
    }
    data
}

#[test]
fn segments_of_2m_belebele_are_named_and_read_one_by_one() {
    for (name, file) in [("f32", "amh_Ethi"), ("f64", "heb_Hebr"), ("i16", "ibo_Latn")] {
        let name = format!("2m-belebele-{name}");
        let data = check(&name, FingerprintKind::ParquetFooter);
        let error = |name: &str| match data.media(&format!("{file}.parquet#{name}")) {
            Ok(source) => source.read().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error("0.audio_segments.9.0.audio.wav").contains("no such place"));
        assert!(error("1.question_audio.0.audio.wav").contains("is null"));
        assert!(error("5.question_audio.0.audio.wav").contains("no row 5"));
        assert!(error("0.audio_segments.0.0.audio").contains("no column of media"));
    }
}

#[test]
fn images_of_simplevqa_are_read_as_base64_and_as_structs_and_the_preview_is_not_taken() {
    let data = check("simplevqa", FingerprintKind::ParquetFooter);
    assert_eq!(data.index(), fixture("simplevqa").join("test.parquet"));
    let data = check("simplevqa-struct", FingerprintKind::ParquetFooter);
    let beside = data.media("images/5.png").unwrap();
    assert_eq!(beside.file(), fixture("simplevqa-struct/images/5.png"));
    assert!(matches!(beside.read(), Ok(MediaContent::File(_))));
}

#[test]
fn audio_columns_of_ccfqa_are_read_in_shards_and_from_pandas() {
    let data = check("ccfqa-datasets", FingerprintKind::ParquetFooter);
    assert_eq!(data.files(), 2);
    check("ccfqa-pandas", FingerprintKind::ParquetFooter);
}

#[test]
fn folders_of_save_to_disk_and_both_forms_of_arrow_are_read() {
    for name in ["cpqa-nested", "cpqa-flat", "arrow-file", "arrow-lz4", "arrow-zstd-file", "types-arrow"] {
        check(name, FingerprintKind::ArrowHeads);
    }
}

#[test]
fn both_shapes_of_evidence_are_kept() {
    check("cfever", FingerprintKind::Content);
}

#[test]
fn every_type_becomes_json() {
    check("types-parquet", FingerprintKind::ParquetFooter);
}

#[test]
fn media_in_plan_order_are_decoded_once() {
    let name = "pages";
    let data = check(name, FingerprintKind::ParquetFooter);
    // `check` asks in the order of the names' text: #0, #1, #10…
    let before = data.decoded();
    assert!(before.0 < 400, "{before:?}");
    let fresh = Dataset::open(&fixture(name), None).unwrap();
    assert_eq!(fresh.decoded(), (0, 0), "planning reads no media");
    for row in values(fresh.rows().unwrap()) {
        fresh.media(row["audio"].as_str().unwrap()).unwrap().read().unwrap();
    }
    assert_eq!(fresh.decoded().0, 40);
    assert!(fresh.decoded().1 <= 2, "{:?}", fresh.decoded());
}

#[test]
fn many_threads_decode_each_row_about_once() {
    let data = Dataset::open(&fixture("pages"), None).unwrap();
    let names: Vec<String> = (0..40).map(|row| format!("test.parquet#{row}.audio")).collect();
    std::thread::scope(|scope| {
        for start in 0..8 {
            let (data, names) = (&data, &names);
            scope.spawn(move || {
                for name in names.iter().skip(start).step_by(8) {
                    data.media(name).unwrap().read().unwrap();
                }
            });
        }
    });
    assert!(data.decoded().0 < 120, "{:?}", data.decoded());
}

/// A copy of a fixture's file, damaged.
fn damaged(name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = Path::new(name).file_name().unwrap();
    let mut bytes = std::fs::read(fixture(name)).unwrap();
    damage(&mut bytes);
    let path = dir.path().join(file);
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[track_caller]
fn refused(name: &str, damage: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let (_dir, path) = damaged(name, damage);
    let error = Dataset::open(&path, None).unwrap_err().to_string();
    assert!(error.starts_with(&path.display().to_string()) && error.contains(expected), "{error}");
}

#[test]
fn files_that_are_cut_or_something_else_are_refused_with_a_sentence() {
    let half = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    refused("pages/test.parquet", half, "does not end as a Parquet file does");
    refused("pages/test.parquet", |bytes| bytes.truncate(6), "is cut short");
    refused("pages/test.parquet", |bytes| bytes[0] = b'X', "is no Parquet file");
    refused("arrow-file/test.arrow", half, "is cut short");
    refused("cpqa-flat/data-00000-of-00001.arrow", half, "is cut short");
    refused("arrow-lz4/test.arrow", |bytes| bytes[4..8].fill(0x7f), "cut short");
    let footer = |bytes: &mut Vec<u8>| {
        let end = bytes.len() - 8;
        bytes[end..end + 4].fill(0xff);
    };
    refused("pages/test.parquet", footer, "more than it has");
    let footer = |bytes: &mut Vec<u8>| {
        let end = bytes.len() - 8;
        bytes[end - 200..end].fill(0x55);
    };
    refused("pages/test.parquet", footer, "its footer cannot be read");
}

/// The rows of the fixture `pages` whose media cannot be read where those of one row are damaged.
fn rows_lost_with(damaged_row: usize) -> Vec<usize> {
    // The bytes of its clip. They may stand in statistics too: before the data of their page, and in the footer.
    let data = Dataset::open(&fixture("pages"), None).unwrap();
    let name = format!("test.parquet#{damaged_row}.audio");
    let Ok(MediaContent::File(clip)) = data.media(&name).unwrap().read() else { panic!() };
    let (_dir, path) = damaged("pages/test.parquet", |bytes| {
        let [.., a, b, c, d, _, _, _, _] = bytes[..] else { panic!() };
        let footer = bytes.len() - 8 - u32::from_le_bytes([a, b, c, d]) as usize;
        let at = bytes[..footer].windows(clip.len()).rposition(|window| window == clip).unwrap();
        bytes[at + 100] ^= 0xff;
    });
    let data = Dataset::open(&path, None).unwrap();
    let rows = values(data.rows().unwrap());
    assert_eq!(rows.len(), 40, "the plan reads no media");
    let mut bad = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        if let Err(error) = data.media(row["audio"].as_str().unwrap()).unwrap().read() {
            let error = error.to_string();
            assert!(error.contains("cannot be decoded") && error.contains("CRC"), "{error}");
            bad.push(number);
        }
    }
    bad
}

#[test]
fn a_damaged_page_of_media_is_an_error_of_its_rows_and_no_others() {
    // Pages of this file hold two rows; eight are decoded at once.
    for row in [8, 13, 15, 39] {
        let bad = rows_lost_with(row);
        assert!(bad.contains(&row) && bad.len() <= 2, "{row}: {bad:?}");
    }
}

#[test]
fn a_damaged_page_of_text_loses_its_row_group_and_the_next_is_read() {
    let (_dir, path) = damaged("pages/test.parquet", |bytes| {
        let at = bytes.windows(5).position(|window| window == b"id-11").unwrap();
        bytes[at] ^= 0xff;
    });
    let data = Dataset::open(&path, None).unwrap();
    let rows: Vec<_> = data.rows().unwrap().collect();
    assert_eq!(rows.len(), 40, "each lost row is counted");
    assert!(rows[20..].iter().all(Result::is_ok));
    let error = rows[11].as_ref().unwrap_err().to_string();
    assert!(error.contains("test.parquet: row 12: cannot be read, like all rows up to 20"), "{error}");
}

/// Bytes and path of a clip.
type Clip<'a> = (Option<&'a [u8]>, Option<&'a str>);

/// A Parquet file of one Audio column: bytes and path of each row, if it has them.
fn audio_file(path: &Path, rows: &[Option<Clip<'_>>]) {
    let bytes: BinaryArray = rows.iter().map(|row| row.and_then(|(bytes, _)| bytes)).collect();
    let paths: StringArray = rows.iter().map(|row| row.and_then(|(_, path)| path)).collect();
    let fields = vec![
        Field::new("bytes", bytes.data_type().clone(), true),
        Field::new("path", paths.data_type().clone(), true),
    ];
    let there: NullBuffer = rows.iter().map(Option::is_some).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(bytes), Arc::new(paths)];
    let audio: ArrayRef = Arc::new(StructArray::new(fields.into(), columns, Some(there)));
    let batch = RecordBatch::try_from_iter_with_nullable([("audio", audio, true)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn bytes_go_before_paths_and_a_clip_with_neither_is_an_error_of_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.parquet");
    let rows =
        [Some((Some(&b"RIFF"[..]), Some("a.wav"))), Some((None, Some("b.wav"))), None, Some((None, None))];
    audio_file(&path, &rows);
    let data = Dataset::open(&path, None).unwrap();
    let got: Vec<_> = data.rows().unwrap().map(|row| row.map(|row| row.value["audio"].clone())).collect();
    assert_eq!(got[0], Ok(json!("test.parquet#0.audio")));
    assert_eq!((&got[1], &got[2]), (&Ok(json!("b.wav")), &Ok(Value::Null)));
    let error = got[3].as_ref().unwrap_err().to_string();
    assert!(error.contains("test.parquet: row 4: `audio` holds neither bytes nor a path"), "{error}");
    let read = |name: &str| data.media(name).unwrap().read();
    assert_eq!(read("test.parquet#0.audio"), Ok(MediaContent::File(b"RIFF"[..].into())));
    assert!(read("test.parquet#2.audio").unwrap_err().to_string().contains("is null"));
    assert!(read("test.parquet#3.audio").unwrap_err().to_string().contains("holds no bytes"));
    // Paths alone: nothing of the column `bytes` needs to be read to know that.
    audio_file(&path, &[Some((None, Some("a.wav"))), Some((None, Some("b.wav")))]);
    let data = Dataset::open(&path, None).unwrap();
    assert_eq!(values(data.rows().unwrap()), [json!({"audio": "a.wav"}), json!({"audio": "b.wav"})]);
}

#[test]
fn a_file_without_rows_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.parquet");
    audio_file(&path, &[]);
    let data = Dataset::open(&path, None).unwrap();
    assert!(values(data.rows().unwrap()).is_empty());
    assert!(data.media("test.parquet#0.audio").unwrap().read().unwrap_err().to_string().contains("no row 0"));
}

#[test]
fn any_damage_gives_errors_and_no_panic() {
    for name in [
        "pages/test.parquet",
        "2m-belebele-f32/amh_Ethi.parquet",
        "arrow-file/test.arrow",
        "arrow-lz4/test.arrow",
        "types-arrow/test.arrow",
        "types-parquet/test.parquet",
    ] {
        let length = std::fs::metadata(fixture(name)).unwrap().len() as usize;
        let mut state = 7_u64;
        for _ in 0..150 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % length;
            let (_dir, path) = damaged(name, |bytes| bytes[at] ^= 1 << (state % 8));
            let Ok(data) = Dataset::open(&path, None) else { continue };
            // A footer may come to declare any number of rows.
            for row in data.rows().unwrap().take(100).flatten() {
                let mut names = Vec::new();
                strings(&row.value, &mut names);
                for name in names.iter().filter(|name| name.contains('#')) {
                    if let Ok(source) = data.media(name) {
                        let _ = source.read();
                    }
                }
            }
        }
    }
}

fn strings<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, into)),
        Value::Object(object) => object.values().for_each(|item| strings(item, into)),
        _ => {}
    }
}
