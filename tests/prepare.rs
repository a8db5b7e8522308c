//! `harness prepare` and `harness data`, by the binary, on data as their publishers write them.
#![cfg(feature = "parquet")]
#![expect(clippy::unwrap_used, reason = "its helpers are tests too")]

mod common;
#[path = "prepare/faults.rs"]
mod faults;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use common::{finish, harness, root};
use harness::dataset::{Choice, Dataset};
use harness::media::{self, MediaContent, SampleValues};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures/datasets").join(name)
}

/// A copy of files of a fixture in a data folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_name() != "expected.json" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn prepare(benchmark: &str, data: &Path, more: &[&str]) -> Command {
    let mut command = harness();
    command.args(["prepare", benchmark, "--data"]).arg(data).args(more);
    command
}

fn rows(data: &Path, set: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data.join(format!("prepared/{set}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn published(data: &Path) -> Dataset {
    let choice = Choice { published: true, ignore: &["view_*"], ..Choice::default() };
    Dataset::choose(data, None, &choice).unwrap()
}

/// The samples of a WAV file, and its rate.
fn samples(path: &Path) -> (u32, Vec<f32>) {
    let mut reader = hound::WavReader::open(path).unwrap();
    let spec = reader.spec();
    let values = match spec.sample_format {
        hound::SampleFormat::Float => reader.samples::<f32>().map(Result::unwrap).collect(),
        hound::SampleFormat::Int => {
            reader.samples::<i16>().map(|v| f32::from(v.unwrap()) / 32768.0).collect()
        }
    };
    (spec.sample_rate, values)
}

/// Checks a prepared clip against what was published at a place.
#[track_caller]
fn same_clip(data: &Path, clip: &Value, source: &Dataset, name: &str) {
    let MediaContent::Samples(wanted) = source.media(name).unwrap().read().unwrap() else { panic!("{name}") };
    let values: Vec<f32> = match wanted.values {
        SampleValues::F32(values) => values,
        SampleValues::F64(values) => values.iter().map(|value| *value as f32).collect(),
        SampleValues::I16(values) => values.iter().map(|value| f32::from(*value) / 32768.0).collect(),
    };
    let (rate, got) = samples(&data.join(clip["audio"].as_str().unwrap()));
    assert_eq!((rate, got.len()), (wanted.rate, values.len()), "{name}");
    assert_eq!(got, values, "{name}");
    assert_eq!(clip["rate"], wanted.rate);
    let seconds = values.len() as f64 / f64::from(rate);
    assert!((clip["seconds"].as_f64().unwrap() - seconds).abs() < 1e-6);
}

const LANGUAGES: [(&str, &str, &str); 3] = [
    ("amh_Ethi", "2m-belebele-f32", "lang=amh_Ethi"),
    ("heb_Hebr", "2m-belebele-f64", "data/lang=heb_Hebr"),
    ("ibo_Latn", "2m-belebele-i16", "."),
];

#[test]
fn every_recording_of_2m_belebele_becomes_a_file_with_the_same_values() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    for (_, from, to) in LANGUAGES {
        copy(&fixture(from), &data.join(to));
    }
    let done = finish(&mut prepare("2m-belebele", data, &["--jobs", "3"])).exits_with(0);
    let done = done.prints("2m-belebele: 3 sets of ").prints("amh_Ethi: 5 rows, ");
    done.prints("ibo_Latn: 5 rows, 19 files")
        .prints("with the same values in 16 bits")
        .prints("rounded from 64-bit")
        .prints("  in all      15 rows, ")
        .prints(" by more than one speaker (each passage counted once)")
        .prints("  bit-exact   ")
        .prints(" made from lists of samples: no value is cut off at full scale");
    for (code, from, _) in LANGUAGES {
        let source = Dataset::open(&fixture(from), None).unwrap();
        let originals: Vec<Value> = source.rows().unwrap().map(|row| row.unwrap().value).collect();
        let rows = rows(data, code);
        assert_eq!(rows.len(), 5);
        for (row, original) in rows.iter().zip(&originals) {
            for text in ["link", "question_number", "flores_passage", "dialect", "unmatched_audio"] {
                assert_eq!(row[text], original[text]);
            }
            assert_eq!(
                row["correct_answer_num"].to_string(),
                original["correct_answer_num"].as_str().unwrap()
            );
            assert!(row.get("audio_segments").is_none());
            let sentences = row["sentences"].as_array().unwrap();
            assert_eq!(sentences.len(), 3);
            for (number, sentence) in sentences.iter().enumerate() {
                assert_eq!(sentence["text"], original["flores_sentences"][number]);
                let segments = sentence["segments"].as_array().unwrap();
                let published = original["audio_segments"][number].as_array().unwrap();
                assert_eq!(segments.len(), published.len());
                for (segment, published) in segments.iter().zip(published) {
                    assert_eq!(segment["source"], published["metadata"]["source"]);
                    assert_eq!(segment["metadata"], published["metadata"]);
                    same_clip(data, segment, &source, published["audio"]["wav"].as_str().unwrap());
                }
            }
            match original["question_audio"].as_array() {
                None => assert_eq!(row["question_audio"], Value::Null),
                Some(published) => {
                    let name = published[0]["audio"]["wav"].as_str().unwrap();
                    same_clip(data, &row["question_audio"][0], &source, name);
                }
            }
        }
    }
    // Found by whoever reads the folder: all languages, or one.
    assert_eq!(Dataset::open(data, None).unwrap().rows().unwrap().count(), 15);
    let again = finish(&mut prepare("2m-belebele", data, &[])).exits_with(0);
    again.prints("amh_Ethi: prepared already; 5 rows");
    assert!(!data.join("prepared/.work").exists());
    // A file that went away is made again, the rest is left.
    let clip = rows(data, "amh_Ethi")[0]["sentences"][0]["segments"][0]["audio"].as_str().unwrap().to_owned();
    std::fs::remove_file(data.join(&clip)).unwrap();
    let again = finish(&mut prepare("2m-belebele", data, &[])).exits_with(0);
    again.prints("2m-belebele: 1 set of").prints("heb_Hebr: prepared already");
    assert!(data.join(clip).is_file());
}

#[test]
fn what_cannot_be_prepared_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    finish(&mut prepare("2m-belebele", data, &[])).exits_with(2).says("harness fetch 2m-belebele");
    finish(&mut prepare("2m-belebele", &data.join("no"), &[])).exits_with(2).says("no such file or folder");
    copy(&fixture("2m-belebele-f32"), data);
    let language = |codes: &str| finish(&mut prepare("2m-belebele", data, &["--languages", codes]));
    language("xxx_Latn").exits_with(2).says("`xxx_Latn` is none of the published languages");
    language("eng_Latn").exits_with(2).says("no file of eng_Latn").says("--languages eng_Latn");
    language("amh_Ethi").exits_with(0);
    finish(&mut prepare("simplevqa", data, &[])).exits_with(2).says("was prepared for 2m-belebele");
    finish(&mut prepare("cfever", data, &[])).exits_with(2).says("no pages of Wikipedia");
    finish(&mut prepare("ccfqa", data, &["--shots", "3"]))
        .exits_with(2)
        .says("--shots means nothing to ccfqa");
    finish(&mut prepare("nothing", data, &[])).exits_with(2).says("no published data are known of `nothing`");
    let demo = root().join("demo/ccfqa");
    finish(&mut prepare("ccfqa", &demo, &[])).exits_with(0).prints("nothing needs to be prepared");
    // Rows of another file than the one that is there are never read.
    std::fs::write(data.join("amh_Ethi.parquet"), "PAR1").unwrap();
    let error = Dataset::open(data, None).unwrap_err().to_string();
    assert!(error.contains("harness prepare 2m-belebele"), "{error}");
}

/// A file like those of 2M-Belebele: rows of one sentence and one recording, each passage asked about twice.
fn large(path: &Path, count: usize, seconds: f64, group: usize) {
    let batch = |first: usize, count: usize| {
        let numbers = first..first + count;
        let mut wav = ListBuilder::new(Float32Builder::new());
        for number in numbers.clone() {
            let passage = number / 2;
            for at in 0..(seconds * 16_000.0) as usize {
                wav.values().append_value(((at * (passage + 3)) % 2003) as f32 / 32768.0);
            }
            wav.append(true);
        }
        let wav: ArrayRef = Arc::new(wav.finish());
        let rates: ArrayRef = Arc::new(Int64Array::from(vec![16_000; count]));
        let audio: ArrayRef =
            Arc::new(StructArray::try_from(vec![("wav", wav), ("sampling_rate", rates)]).unwrap());
        let segment: ArrayRef = Arc::new(StructArray::try_from(vec![("audio", audio)]).unwrap());
        let list = |values: ArrayRef| -> ArrayRef {
            let field = Arc::new(Field::new("item", values.data_type().clone(), true));
            Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(vec![1; count]), values, None))
        };
        let text = |make: &dyn Fn(usize) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(numbers.clone().map(make)))
        };
        RecordBatch::try_from_iter([
            ("link", text(&|number| format!("https://example.org/{}", number / 2))),
            (
                "question_number",
                Arc::new(Int64Array::from_iter_values(numbers.clone().map(|n| n as i64 % 2 + 1))) as _,
            ),
            ("flores_passage", text(&|number| format!("Passage {}.", number / 2))),
            ("correct_answer_num", text(&|number| (number % 4 + 1).to_string())),
            ("dialect", text(&|_| "eng_Latn".to_owned())),
            ("audio_segments", list(list(segment))),
        ])
        .unwrap()
    };
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch(0, 1).schema(), Some(properties)).unwrap();
    for first in (0..count).step_by(group) {
        writer.write(&batch(first, group.min(count - first))).unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn killed_anywhere_it_goes_on_and_ends_as_if_it_had_not_been() {
    let dir = tempfile::tempdir().unwrap();
    let (data, other) = (dir.path().join("a"), dir.path().join("b"));
    for folder in [&data, &other] {
        std::fs::create_dir(folder).unwrap();
    }
    large(&data.join("eng_Latn.parquet"), 120, 2.0, 40);
    std::fs::copy(data.join("eng_Latn.parquet"), other.join("eng_Latn.parquet")).unwrap();
    let work = data.join("prepared/.work");
    let lines = || {
        let journals = std::fs::read_dir(&work).into_iter().flatten().flatten();
        let texts = journals.filter_map(|entry| std::fs::read(entry.path()).ok());
        texts.map(|text| text.split(|byte| *byte == b'\n').count() - 1).sum::<usize>()
    };
    let mut kills = 0;
    for _ in 0..6 {
        let before = lines();
        let mut command = prepare("2m-belebele", &data, &["--jobs", "2"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let ended = loop {
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            if lines() > before + 6 {
                break false;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        if ended {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(lines() > before, "what was done is kept");
        // Half a file is no file: the folder is not taken for prepared data.
        if !data.join("prepared/prepare.json").exists() {
            assert!(!data.join("prepared/eng_Latn.jsonl").exists());
        }
    }
    assert!(kills > 0, "it was too fast to be killed");
    finish(&mut prepare("2m-belebele", &data, &[])).exits_with(0).prints("eng_Latn: ");
    finish(&mut prepare("2m-belebele", &other, &[])).exits_with(0).prints("120 rows, 60 files");
    let text = |folder: &Path| std::fs::read(folder.join("prepared/eng_Latn.jsonl")).unwrap();
    assert!(text(&data) == text(&other), "the rows differ");
    let record = |folder: &Path| -> Value {
        let text = std::fs::read(folder.join("prepared/prepare.json")).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["sets"]["eng_Latn"]["counts"].clone()
    };
    assert_eq!(record(&data), record(&other));
    let names = |folder: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder.join("prepared/eng_Latn")).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(&data), names(&other));
}

/// Of one row group, and of few rows: what the threads leave is the same, whatever they did first.
#[test]
fn one_row_group_is_made_by_all_threads_and_ends_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let made = ["1", "2", "7"].map(|jobs| {
        let data = dir.path().join(jobs);
        std::fs::create_dir(&data).unwrap();
        large(&data.join("eng_Latn.parquet"), 30, 1.0, 30);
        let done = finish(&mut prepare("2m-belebele", &data, &["--jobs", jobs])).exits_with(0);
        done.prints("30 rows, 15 files").prints(&format!("/s on {jobs} threads")).prints(
            "  sentences   15 recorded, 0 missing, 0 by more than one speaker (each passage counted once)",
        );
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for entry in std::fs::read_dir(data.join("prepared/eng_Latn")).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            files.push((name, std::fs::read(entry.path()).unwrap()));
        }
        files.sort();
        for name in ["eng_Latn.jsonl", "eng_Latn.files"] {
            files.push((name.to_owned(), std::fs::read(data.join("prepared").join(name)).unwrap()));
        }
        files
    });
    assert_eq!(made[0].len(), 17);
    assert!(made[0] == made[1] && made[0] == made[2], "they differ by the number of threads");
    let rows = String::from_utf8(made[0][15].1.clone()).unwrap();
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row["link"], format!("https://example.org/{}", number / 2), "in the order of the source");
    }
}

#[test]
fn two_at_once_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&fixture("2m-belebele-f32"), data);
    std::fs::create_dir(data.join("prepared")).unwrap();
    let lock = std::fs::File::create(data.join("prepared/.lock")).unwrap();
    lock.lock().unwrap();
    finish(&mut prepare("2m-belebele", data, &[])).exits_with(4).says("another harness prepares data");
}

#[test]
fn images_of_simplevqa_keep_their_bytes() {
    for name in ["simplevqa", "simplevqa-struct"] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        copy(&fixture(name), data);
        finish(&mut prepare("simplevqa", data, &[])).exits_with(0).prints("test: 6 rows, 6 files");
        let source = published(data);
        let originals = source.rows().unwrap().map(|row| row.unwrap().value);
        for (row, original) in rows(data, "test").iter().zip(originals) {
            let Ok(MediaContent::File(bytes)) =
                source.media(original["image"].as_str().unwrap()).unwrap().read()
            else {
                panic!()
            };
            assert_eq!(std::fs::read(data.join(row["image"].as_str().unwrap())).unwrap(), bytes);
            assert_eq!(row["question"], original["question"]);
        }
        let shown = finish(harness().arg("data").arg(data).args(["--benchmark", "simplevqa", "--json"]));
        let shown: Value = serde_json::from_str(&shown.exits_with(1).stdout).unwrap();
        let shown = &shown["simplevqa"];
        assert_eq!(
            (&shown["rows"], &shown["images"]["files"], &shown["missing"]),
            (&json!(6), &json!(6), &json!(0))
        );
        assert_eq!(shown["by"]["language"], json!({"CN": 3, "EN": 3}));
        assert_eq!(shown["differs"], json!(["6 rows instead of 2,025"]));
        // To another folder everything goes, files of their own too.
        let to = tempfile::tempdir().unwrap();
        let there = to.path().to_str().unwrap();
        finish(&mut prepare("simplevqa", data, &["--to", there])).exits_with(0).prints("6 rows, 6 files");
        for row in rows(to.path(), "test") {
            assert!(to.path().join(row["image"].as_str().unwrap()).is_file());
        }
    }
}

#[test]
fn rows_of_simplevqa_are_read_from_json_with_paths_where_there_is_no_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let images = data.join("simpleVQA_datasets/MME");
    std::fs::create_dir_all(&images).unwrap();
    let source = published(&fixture("simplevqa"));
    let mut rows = Vec::new();
    for (number, row) in source.rows().unwrap().enumerate() {
        let mut row = row.unwrap().value;
        let image = source.media(row["image"].as_str().unwrap()).unwrap().read();
        let Ok(MediaContent::File(bytes)) = image else { panic!("row {number} has no image") };
        std::fs::write(images.join(format!("{number}.png")), bytes).unwrap();
        // With the folder of the archive, and from within it.
        let folder = if number % 2 == 0 { "simpleVQA_datasets/" } else { "" };
        row["image"] = json!(format!("{folder}MME/{number}.png"));
        rows.push(row);
    }
    std::fs::write(data.join("simpleVQA_final_modified.json"), json!(rows).to_string()).unwrap();
    std::fs::write(data.join("SimpleVQA_category_of_final.json"), "[{\"task\": 1}]").unwrap();
    let shown = || {
        let shown = finish(harness().arg("data").arg(data).args(["--benchmark", "simplevqa", "--json"]));
        let shown: Value = serde_json::from_str(&shown.exits_with(1).stdout).unwrap();
        shown["simplevqa"].clone()
    };
    let read = shown();
    assert_eq!(
        (&read["rows"], &read["images"]["files"], &read["missing"]),
        (&json!(6), &json!(6), &json!(0)),
        "{read}"
    );
    assert_eq!(read["by"]["language"], json!({"CN": 3, "EN": 3}));
    assert_eq!(read["differs"], json!(["6 rows instead of 2,025"]));
    // Beside the Parquet file it is not read, so its images need not be there.
    std::fs::copy(fixture("simplevqa").join("test.parquet"), data.join("test.parquet")).unwrap();
    std::fs::remove_dir_all(data.join("simpleVQA_datasets")).unwrap();
    let read = shown();
    assert_eq!((&read["rows"], &read["missing"]), (&json!(6), &json!(0)), "{read}");
}

#[test]
fn utterances_of_ccfqa_become_items_and_what_lacks_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&fixture("ccfqa-datasets"), data);
    // A run says what to do first.
    let config = std::fs::read_to_string(root().join("configs/demo.toml")).unwrap();
    let config = config.replace("../demo/ccfqa/test.jsonl", &data.display().to_string());
    let config = config.replace("../demo/", &format!("{}/demo/", root().display()));
    std::fs::write(data.join("c.toml"), config).unwrap();
    let refused = finish(harness().arg("check").arg(data.join("c.toml")));
    refused.exits_with(2).says("run `harness prepare ccfqa --data");
    let done = finish(&mut prepare("ccfqa", data, &["--jobs", "2"])).exits_with(1);
    done.prints("test: 6 rows, 12 files").says("row 1: it has no answer").says("and 2 more");
    let source = published(data);
    let rows = rows(data, "test");
    for original in source.rows().unwrap().map(|row| row.unwrap().value) {
        let language = original["lang"].as_str().unwrap();
        let row = rows.iter().find(|row| row["index"] == original["id"]).unwrap();
        assert_eq!(row[language]["question"], original[format!("{language}_q")]);
        let Ok(MediaContent::File(bytes)) = source.media(original["audio"].as_str().unwrap()).unwrap().read()
        else {
            panic!()
        };
        assert_eq!(std::fs::read(data.join(row[language]["audio"].as_str().unwrap())).unwrap(), bytes);
    }
    assert_eq!((&rows[0]["source"], &rows[0]["label"]), (&json!("mooc"), &json!("1")));
    assert_eq!(rows.iter().map(|row| row["index"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn folders_of_cp_bench_become_one_set() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&fixture("cpqa-nested"), &data.join("nested"));
    copy(&fixture("cpqa-flat"), &data.join("flat"));
    let done = finish(&mut prepare("cp-bench", data, &[])).exits_with(1).prints("cp-bench: 1 set of");
    // Made so: a row without its clip.
    done.prints("test: 11 rows, 10 files").prints("; 1 problem").says("row 3: it has no recording");
    let rows = rows(data, "test");
    let of = |set: &str| rows.iter().filter(|row| row["set"] == set).cloned().collect::<Vec<_>>();
    let (nested, flat) = (of("nested"), of("flat"));
    assert_eq!(nested.len() + flat.len(), rows.len());
    assert_eq!(
        (&nested[0]["question"], &nested[0]["reference"]),
        (&json!("Question 0?"), &json!("Answer 0."))
    );
    assert_eq!((&nested[0]["category"], &flat[0]["question"]), (&json!("CP"), &json!("Instruction 0")));
    for (folder, rows) in [("nested", nested), ("flat", flat)] {
        let source = published(&data.join(folder));
        for (row, original) in rows.iter().zip(source.rows().unwrap().map(|row| row.unwrap().value)) {
            let Some(name) = original["context"].get("audio").unwrap_or(&original["context"]).as_str() else {
                assert_eq!(row["audio"], Value::Null);
                continue;
            };
            let Ok(MediaContent::File(bytes)) = source.media(name).unwrap().read() else { panic!() };
            let clip = data.join(row["audio"].as_str().unwrap());
            assert_eq!(std::fs::read(&clip).unwrap(), bytes);
            assert!(media::probe(&clip.into()).is_ok());
        }
    }
}

#[test]
fn data_are_described_as_published_and_as_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("2m-belebele");
    copy(&fixture("2m-belebele-f32"), &data.join("lang=amh_Ethi"));
    let look = || finish(harness().arg("data").arg(&data)).exits_with(1);
    look()
        .prints("by dialect: amh_Ethi 5")
        .prints("without a length: `harness prepare 2m-belebele`")
        .prints("passages    all sentences recorded ")
        .prints("segments by source: fleurs ")
        .prints("rows with a recording: question_audio ");
    finish(&mut prepare("2m-belebele", &data, &[])).exits_with(0);
    let shown = look();
    let shown = shown
        .prints("min 0.01")
        .prints("16000 Hz mono")
        .prints("48000 Hz mono")
        .prints("0 missing, 0 broken");
    shown.prints("rows by language: amh_Ethi 5 instead of 900");
    let clip =
        rows(&data, "amh_Ethi")[0]["sentences"][0]["segments"][0]["audio"].as_str().unwrap().to_owned();
    std::fs::remove_file(data.join(&clip)).unwrap();
    look().prints("1 missing, 0 broken").prints(&format!("{clip}: is not there"));
    finish(harness().args(["data", "nowhere"]))
        .exits_with(2)
        .says("no such benchmark, config, run, file or folder");
    let config = root().join("configs/demo.toml");
    finish(harness().arg("data").arg(config)).prints("by column with audio: ").prints("0 missing, 0 broken");
}

#[test]
fn a_folder_without_the_split_that_is_asked_about_is_no_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("test.jsonl"), "{\"id\": 1}\n").unwrap();
    let shown = finish(harness().arg("data").arg(dir.path()).args(["--benchmark", "cfever"])).exits_with(2);
    shown.says("looked for dev.jsonl").says("found test.jsonl");
}

/// Rows as text name recordings that are files: nothing that lies beside them may be taken in their place.
#[test]
fn a_table_beside_the_authors_rows_is_not_prepared_in_their_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("demo/ccfqa/test.jsonl"), dir.path().join("test.jsonl")).unwrap();
    std::fs::write(dir.path().join("durations.csv"), "name,seconds\na.wav,1.5\nb.wav,2\n").unwrap();
    let done = finish(&mut prepare("ccfqa", dir.path(), &[])).exits_with(0);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("nothing needs to be prepared"), "{said}");
    assert!(!dir.path().join("prepared/test.jsonl").exists());
    finish(&mut prepare("ccfqa", &dir.path().join("test.jsonl"), &[]))
        .exits_with(2)
        .says("name the folder that it lies in");
}
