//! What could not be prepared, what was damaged since, and runs over data that are not prepared yet.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int32Builder, ListBuilder};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use parquet::arrow::ArrowWriter;
use serde_json::Value;

use super::common::{Finished, finish, harness, root};
use super::{copy, fixture, prepare, rows};

fn record(data: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(data.join("prepared/prepare.json")).unwrap()).unwrap()
}

#[test]
fn what_could_not_be_read_is_shown_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&fixture("simplevqa-struct"), data);
    // A file that a network's file system does not give at this moment.
    let (image, away) = (data.join("images/5.png"), data.join("away.png"));
    std::fs::rename(&image, &away).unwrap();
    let again = "1 of them may pass: the same command tries again";
    let first = finish(&mut prepare("simplevqa", data, &[])).exits_with(1).prints(again);
    first.says("test: images/5.png: cannot be read");
    assert_eq!(record(data)["sets"]["test"]["counts"]["faults"], 1);
    let shown = finish(harness().arg("data").arg(data).args(["--benchmark", "simplevqa"]));
    shown.exits_with(1).prints("preparing test left a problem, the first: images/5.png");
    // It is tried again as long as it is not there, and no further once it is.
    finish(&mut prepare("simplevqa", data, &[])).exits_with(1).prints("simplevqa: 1 set of").prints(again);
    std::fs::rename(&away, &image).unwrap();
    finish(&mut prepare("simplevqa", data, &[])).exits_with(0).prints("simplevqa: 1 set of");
    assert_eq!(record(data)["sets"]["test"]["counts"]["problems"], 0);
    assert!(rows(data, "test").iter().all(|row| row["image"].is_string()));
    assert!(!data.join("prepared/.work").exists());
    finish(&mut prepare("simplevqa", data, &[])).exits_with(0).prints("prepared already");
}

/// A Parquet file of SimpleVQA whose second image has neither bytes nor a path.
fn without_an_image(path: &Path) {
    let image = std::fs::read(fixture("simplevqa-struct").join("images/5.png")).unwrap();
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter([Some(&image), None]));
    let paths: ArrayRef = Arc::new(StringArray::from(vec![Some("1.png"), None]));
    let images = StructArray::try_from(vec![("bytes", bytes), ("path", paths)]).unwrap();
    let text = |values: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let batch = RecordBatch::try_from_iter([
        ("data_id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("image", Arc::new(images) as ArrayRef),
        ("question", text(vec!["What is it?", "And this?"])),
        ("answer", text(vec!["A", "B"])),
    ]);
    let batch = batch.unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn what_is_wrong_in_the_published_rows_is_not_tried_again() {
    let stays = "only another published file helps";
    let check = |data: &Path, problems: u64, says: &[&str]| {
        let first = finish(&mut prepare("simplevqa", data, &[])).exits_with(1);
        assert!(first.stdout.contains("which the same command would meet again"), "{}", first.stdout);
        let mut said = first.says(stays);
        for text in says {
            said = said.says(text);
        }
        let counts = record(data)["sets"]["test"]["counts"].clone();
        assert_eq!((&counts["problems"], &counts["faults"]), (&problems.into(), &0.into()), "{counts}");
        // Nothing is left for another time, and nothing is done again.
        assert!(!data.join("prepared/.work").exists());
        finish(&mut prepare("simplevqa", data, &[]))
            .exits_with(1)
            .prints("test: prepared already; ")
            .says(stays);
    };
    let dir = tempfile::tempdir().unwrap();
    let rubbish = "neither base64 nor a path, ".repeat(50);
    let rows =
        [("1", rubbish.as_str()), ("2", "../../out.png"), ("3", "/etc/hostname")].map(|(id, image)| {
            let row = serde_json::json!({"data_id": id, "image": image, "question": "?", "answer": "a"});
            row.to_string()
        });
    std::fs::write(dir.path().join("test.jsonl"), rows.join("\n") + "\nno row at all\n").unwrap();
    let says = [
        "test: test.jsonl#0.image: is ",
        "correct the row, or get the file again",
        "test: ../../out.png: a media name must stay within the folder of the data",
        "test: /etc/hostname: a media name must stay within",
        "test.jsonl:4: not valid JSON",
    ];
    check(dir.path(), 4, &says);
    let dir = tempfile::tempdir().unwrap();
    without_an_image(&dir.path().join("test.parquet"));
    let says = ["test.parquet: row 2: `image` holds neither bytes nor a path", "get it again"];
    check(dir.path(), 1, &says);
}

/// A Parquet file of 2M-Belebele: a row with one recording in this form.
fn with_recording(path: &Path, audio: Vec<(&str, ArrayRef)>) {
    let list = |values: ArrayRef| -> ArrayRef {
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([1]), values, None))
    };
    let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let audio: ArrayRef = Arc::new(StructArray::try_from(audio).unwrap());
    let segment: ArrayRef = Arc::new(StructArray::try_from(vec![("audio", audio)]).unwrap());
    let batch = RecordBatch::try_from_iter([
        ("link", text("https://example.org")),
        ("question_number", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("flores_passage", text("A passage.")),
        ("correct_answer_num", text("1")),
        ("dialect", text("eng_Latn")),
        ("audio_segments", list(list(segment))),
    ])
    .unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn recordings_in_a_form_that_is_not_read_are_no_missing_ones() {
    let rate = || -> ArrayRef { Arc::new(Int64Array::from(vec![16_000])) };
    let floats = || -> ArrayRef {
        let mut list = ListBuilder::new(Float32Builder::new());
        list.append_value([Some(0.5_f32), Some(-0.5)]);
        Arc::new(list.finish())
    };
    let integers = || -> ArrayRef {
        let mut list = ListBuilder::new(Int32Builder::new());
        list.append_value([Some(1_i32), Some(-32_768)]);
        Arc::new(list.finish())
    };
    let nested = || -> ArrayRef {
        let mut list = ListBuilder::new(ListBuilder::new(Float32Builder::new()));
        list.values().append_value([Some(0.5_f32)]);
        list.append(true);
        Arc::new(list.finish())
    };
    let forms = [
        (vec![("wav", integers()), ("sampling_rate", rate())], "has samples of type Int32; expected floats"),
        (vec![("wav", nested()), ("sampling_rate", rate())], "has samples of type List("),
        (
            vec![("wav", floats())],
            "row 1: audio_segments holds {audio: {wav: [number]}} in place of a recording",
        ),
        (
            vec![("array", floats()), ("sample_rate", rate())],
            "row 1: audio_segments holds {audio: {array: [number], sample_rate: number}} in place",
        ),
    ];
    for (audio, said) in forms {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        with_recording(&data.join("eng_Latn.parquet"), audio);
        let look = || finish(harness().arg("data").arg(data).args(["--benchmark", "2m-belebele"]));
        look().exits_with(1).prints("media       0 missing, 1 broken");
        finish(&mut prepare("2m-belebele", data, &[])).exits_with(1).says(said);
        let counts = record(data)["sets"]["eng_Latn"]["counts"].clone();
        let found = (&counts["absent"], &counts["problems"], &counts["faults"]);
        assert_eq!(found, (&0.into(), &1.into(), &0.into()), "{counts}");
        look().exits_with(1).prints("preparing eng_Latn left a problem, the first: ").prints(said);
    }
    // A place that is null is none without a recording that could not be read.
    let dir = tempfile::tempdir().unwrap();
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append(false);
    let null: ArrayRef = Arc::new(list.finish());
    with_recording(&dir.path().join("eng_Latn.parquet"), vec![("wav", null), ("sampling_rate", rate())]);
    let shown = finish(harness().arg("data").arg(dir.path()).args(["--benchmark", "2m-belebele"]));
    shown.prints("media       0 missing, 0 broken");
    finish(&mut prepare("2m-belebele", dir.path(), &[])).exits_with(0);
    assert_eq!(record(dir.path())["sets"]["eng_Latn"]["counts"]["absent"], 1);
}

#[test]
fn a_clip_that_was_cut_since_is_refused_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&fixture("2m-belebele-f32"), data);
    finish(&mut prepare("2m-belebele", data, &[])).exits_with(0);
    let name = rows(data, "amh_Ethi")[0]["sentences"][0]["segments"][0]["audio"].as_str().unwrap().to_owned();
    let whole = std::fs::read(data.join(&name)).unwrap();
    std::fs::write(data.join(&name), &whole[..whole.len() / 2]).unwrap();
    let error = harness::dataset::Dataset::open(data, None).unwrap_err().to_string();
    assert!(error.contains(&format!("{name} has {} bytes", whole.len() / 2)), "{error}");
    assert!(error.contains("harness prepare 2m-belebele --data"), "{error}");
    let again = finish(&mut prepare("2m-belebele", data, &[])).exits_with(0);
    again.prints("2m-belebele: 1 set of");
    assert_eq!(std::fs::read(data.join(&name)).unwrap(), whole);
    harness::dataset::Dataset::open(data, None).unwrap();
}

#[test]
fn clips_of_a_source_that_was_replaced_do_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let made = |seconds: f64| -> Vec<String> {
        super::large(&data.join("eng_Latn.parquet"), 4, seconds, 4);
        finish(&mut prepare("2m-belebele", data, &[])).exits_with(0).prints("4 rows, 2 files");
        let entries = std::fs::read_dir(data.join("prepared/eng_Latn")).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    let first = made(0.1);
    assert_eq!(first.len(), 2);
    // What a user put there is not touched, though it is called like the files that are written there.
    let copy = format!("copy-of-{}", first[0]);
    let mine = ["mine.wav", "notes-0123456789abcdef.txt", &copy];
    for name in mine {
        std::fs::write(data.join("prepared/eng_Latn").join(name), "mine").unwrap();
    }
    let second = made(0.2);
    assert_eq!(second.len(), 2 + mine.len(), "{second:?}");
    assert!(mine.iter().all(|name| second.iter().any(|found| found == name)), "{second:?}");
    assert!(first.iter().all(|name| !second.contains(name)), "{second:?}");
}

#[test]
fn a_part_of_the_languages_is_no_whole_set() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&fixture("2m-belebele-f32"), &data.join("lang=amh_Ethi"));
    copy(&fixture("2m-belebele-i16"), &data.join("lang=ibo_Latn"));
    finish(&mut prepare("2m-belebele", data, &["--languages", "amh_Ethi"])).exits_with(0);
    let left = "nothing was prepared of lang=ibo_Latn/ibo_Latn.parquet";
    let error = harness::dataset::Dataset::open(data, None).unwrap_err().to_string();
    assert!(error.contains(left) && error.contains("run `harness prepare 2m-belebele --data"), "{error}");
    finish(harness().arg("data").arg(data)).exits_with(1).prints(left);
    finish(&mut prepare("2m-belebele", data, &[])).exits_with(0);
    assert_eq!(harness::dataset::Dataset::open(data, None).unwrap().rows().unwrap().count(), 10);
}

/// The demo's first two items as Parquet: a row an utterance, recordings inside.
fn as_parquet(folder: &Path) {
    let text = std::fs::read_to_string(root().join("demo/ccfqa/test.jsonl")).unwrap();
    let items: Vec<Value> = text.lines().take(2).map(|line| serde_json::from_str(line).unwrap()).collect();
    let languages = ["cmn", "eng", "fra", "jpn", "kor", "rus", "spa", "yue"];
    let cells: Vec<(&Value, &str)> =
        items.iter().flat_map(|item| languages.map(|language| (item, language))).collect();
    let text = |of: &dyn Fn(&Value, &str) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(cells.iter().map(|(item, language)| of(item, language))))
    };
    let clips = cells.iter().map(|(item, language)| {
        std::fs::read(root().join("demo/ccfqa").join(item[*language]["audio"].as_str().unwrap())).unwrap()
    });
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(clips));
    let audio = StructArray::try_from(vec![("bytes", bytes), ("path", text(&|_, l| format!("{l}.flac")))]);
    let indices = cells.iter().map(|(item, _)| item["index"].as_i64().unwrap());
    let field = |name: &'static str| move |item: &Value, l: &str| item[l][name].as_str().unwrap().to_owned();
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(indices)) as ArrayRef),
        ("label", text(&|item, _| item["label"].as_str().unwrap().to_owned())),
        ("lang", text(&|_, language| language.to_owned())),
        ("audio", Arc::new(audio.unwrap()) as ArrayRef),
        ("src_q", text(&field("question"))),
        ("src_a", text(&field("answer"))),
    ])
    .unwrap();
    let file = std::fs::File::create(folder.join("test.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// A config in a folder that runs the demo's model over the data of the same folder.
fn config(folder: &Path, more: &str) {
    let config = format!(
        "[model]\nkind = \"local\"\narchitecture = \"qwen2_audio\"\nweights = \"{}\"\ndevice = \"cpu\"\n\n\
         [generation]\nmax_new_tokens = 24\n\n[[benchmark]]\nname = \"ccfqa\"\nconditions = [\"sqa\"]\n\
         data = \".\"\n{more}\n",
        root().join("demo/model").display()
    );
    std::fs::write(folder.join("c.toml"), config).unwrap();
}

fn on(verb: &str, folder: &Path) -> Finished {
    let mut command = harness();
    command.arg(verb).arg(folder.join("c.toml")).arg("--results").arg(folder.join("results"));
    finish(&mut command)
}

#[cfg(feature = "local")]
#[test]
fn a_run_prepares_what_it_needs_on_its_first_day() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    as_parquet(data);
    config(data, "allow_other_data = true");
    let check = on("check", data).exits_with(2);
    check.says("to be prepared): run `harness prepare ccfqa --data").says("or let `harness run` do it first");
    assert!(!data.join("prepared").exists());
    let first = on("run", data).exits_with(0).says("preparing ").says(" of ccfqa in ");
    first.says("16 requests").prints("2 rows instead of 1,000");
    let again = on("run", data).exits_with(0);
    assert!(!again.stderr.contains("preparing"), "{}", again.stderr);
    on("check", data).exits_with(0);
}

#[test]
fn missing_clips_are_counted_and_refused_where_they_are_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&root().join("demo/ccfqa"), data);
    config(data, "");
    std::fs::remove_file(data.join("eng/1-20260101000100.flac")).unwrap();
    let missing = "1 clip or image is missing: eng/1-20260101000100.flac";
    on("check", data).exits_with(2).says("6 rows instead of 1,000").says(missing);
    // A run of written questions needs none.
    let text = std::fs::read_to_string(data.join("c.toml")).unwrap();
    std::fs::write(data.join("c.toml"), text.replace("\"sqa\"", "\"qa\"")).unwrap();
    let written = on("check", data).exits_with(2).says("6 rows instead of 1,000");
    assert!(!written.stderr.contains("missing"), "{}", written.stderr);
    // Gold that is none is told beside the row that lacks it.
    let rows = std::fs::read_to_string(data.join("test.jsonl")).unwrap();
    std::fs::write(data.join("test.jsonl"), rows.replacen("\"answer\": \"Paris\"", "\"answer\": \" \"", 1))
        .unwrap();
    let said = "1 row without a gold answer that can be one in eng.answer (the first has none)";
    on("check", data).exits_with(2).says(said);
}

#[test]
fn a_file_that_changed_since_it_was_fetched_is_not_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    copy(&fixture("2m-belebele-f32"), data);
    let fetched = |sha256: &str| {
        let file = serde_json::json!({"path": "amh_Ethi.parquet", "bytes": 1, "sha256": sha256, "verified": "sha256"});
        let sets = serde_json::json!({"x": {"complete": true, "files": [file]}});
        let record = serde_json::json!({"version": 1, "benchmark": "2m-belebele", "harness": "0", "time": "",
            "licence": "CC", "origins": {"https://x.example": {"sets": sets}}});
        std::fs::write(data.join("fetch.json"), record.to_string()).unwrap();
    };
    fetched(&"0".repeat(64));
    let refused = finish(&mut prepare("2m-belebele", data, &[])).exits_with(2);
    let refused = refused.says("amh_Ethi.parquet: was changed since it was fetched: its sha256 is ");
    let refused = refused.says("`harness fetch 2m-belebele`");
    assert!(!data.join("prepared/prepare.json").exists());
    let said = refused.stderr.split("its sha256 is ").nth(1).unwrap();
    // A record that cannot be read vouches for nothing, and is not passed over.
    std::fs::write(data.join("fetch.json"), "{").unwrap();
    let refused = finish(&mut prepare("2m-belebele", data, &[])).exits_with(2);
    refused.says("fetch.json: this is no record of a fetch").says("move it away");
    fetched(&said[..64]);
    finish(&mut prepare("2m-belebele", data, &[])).exits_with(0);
}

#[cfg(feature = "local")]
#[test]
fn a_limit_that_takes_all_is_no_part_and_a_part_is_looked_at_too() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let text = std::fs::read_to_string(root().join("demo/ccfqa/test.jsonl")).unwrap();
    let mut rows: Vec<Value> = text.lines().take(2).map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.push(rows[0].clone());
    rows[2]["index"] = 99.into();
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    std::fs::write(data.join("test.jsonl"), lines.join("\n")).unwrap();
    let with = |limit: &str| {
        config(data, limit);
        let text = std::fs::read_to_string(data.join("c.toml")).unwrap();
        std::fs::write(data.join("c.toml"), text.replace("\"sqa\"", "\"qa\"")).unwrap();
        on("check", data)
    };
    let copy = "a row is a copy of another but for index";
    for limit in ["limit = 3", "limit = 9", "limit = 3\nlimit_by = \"seeded\"", ""] {
        with(limit).exits_with(2).says("3 rows instead of 1,000").says(copy);
    }
    for limit in ["limit = 1", "limit = 1\nlimit_by = \"seeded\""] {
        let part = with(limit).exits_with(0).prints("differs   ").prints(copy);
        assert!(!part.stdout.contains("instead of 1,000"), "{}", part.stdout);
    }
}
