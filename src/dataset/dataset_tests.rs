//! Tests of datasets as a whole, in text formats.

use serde_json::json;

use super::*;
use crate::media::MediaContent;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    dir
}

#[test]
fn media_are_relative_to_the_folder_of_the_data() {
    let dir = folder(&[("jsonl/test.jsonl", "{}\n"), ("other.jsonl", "{}\n")]);
    let data = Dataset::open(dir.path(), None).unwrap();
    assert_eq!(data.index(), dir.path().join("jsonl/test.jsonl"));
    assert_eq!(data.media("eng/1.wav").unwrap().file(), dir.path().join("eng/1.wav"));
    let file = Dataset::open(&dir.path().join("jsonl/test.jsonl"), None).unwrap();
    assert_eq!(file.media("a.wav").unwrap().file(), dir.path().join("jsonl/a.wav"));
    let other = Dataset::open(&dir.path().join("jsonl"), Some(dir.path())).unwrap();
    assert_eq!(other.media("a.wav").unwrap().file(), dir.path().join("a.wav"));
    assert!(other.media("../a.wav").unwrap_err().to_string().contains("nothing outside it is read"));
}

#[test]
fn what_cannot_be_opened_is_refused_with_a_sentence() {
    let dir = folder(&[("view_200.jsonl", "{}\n"), ("b.jsonl", "{}\n")]);
    let error = |data: &str, media: Option<&Path>, ignore: &[&str]| {
        let choice = Choice { ignore, ..Choice::default() };
        Dataset::choose(&dir.path().join(data), media, &choice).unwrap_err().to_string()
    };
    assert!(error("", None, &[]).contains("name the file itself"));
    assert!(error("none", None, &[]).contains("no such file"));
    assert!(error("b.jsonl", Some(&dir.path().join("none")), &[]).contains("no such file or folder"));
    assert!(error("view_200.jsonl", None, &["view_*"]).contains("not the dataset but another file"));
}

#[test]
fn shards_of_text_are_counted_through_and_their_fingerprint_tells_them_apart() {
    let (a, b) = ("test-00000-of-00002.jsonl", "test-00001-of-00002.jsonl");
    let dir = folder(&[(a, "{\"x\":1}\n{\"x\":2}\n"), (b, "nonsense\n{\"x\":3}\n")]);
    let data = Dataset::open(dir.path(), None).unwrap();
    assert_eq!(data.files(), 2);
    let mut rows = data.rows().unwrap();
    let got: Vec<_> = rows.by_ref().collect();
    let numbers: Vec<_> =
        got.iter().flatten().map(|row| (row.number, row.line, row.value["x"].clone())).collect();
    assert_eq!(numbers, [(1, 1, json!(1)), (2, 2, json!(2)), (4, 2, json!(3))]);
    let error = got[2].as_ref().unwrap_err().to_string();
    assert!(error.contains(&format!("{b}:1: not valid JSON")), "{error}");
    let before = rows.fingerprint();
    assert_eq!((before.kind, before.bytes), (FingerprintKind::Content, 33));
    std::fs::write(dir.path().join(b), "nonsense\n{\"x\":4}\n").unwrap();
    let mut rows = data.rows().unwrap();
    rows.by_ref().for_each(drop);
    assert_ne!(rows.fingerprint().blake3, before.blake3);
}

#[test]
fn images_in_lines_and_tables_are_named_and_read_later() {
    let image = |byte: u8| base64_simd::STANDARD.encode_to_string(vec![byte; 900]);
    let broken = format!("{}\n{}", &image(2)[..600], &image(2)[600..]);
    let rubbish = "not base64, ".repeat(100);
    let lines = [
        json!({"id": 0, "image": image(1), "text": "x".repeat(2000)}),
        json!({"id": 1, "image": "pictures/1.png"}),
        json!({"id": 2, "images": [broken, image(3)]}),
        json!({"id": 3, "image": rubbish}),
    ];
    let lines = lines.map(|row| row.to_string()).join("\n");
    let table = format!("index\timage\n0\t{}\n1\tx.png\n", image(4));
    let dir = folder(&[("a.jsonl", &lines), ("b.tsv", &table)]);
    let data = Dataset::open(&dir.path().join("a.jsonl"), None).unwrap();
    let rows: Vec<_> = data.rows().unwrap().map(|row| row.unwrap().value).collect();
    assert_eq!(rows[0]["image"], "a.jsonl#0.image");
    assert_eq!(rows[0]["text"].as_str().unwrap().len(), 2000, "only images are taken for media");
    assert_eq!(rows[1]["image"], "pictures/1.png");
    assert_eq!(rows[2]["images"], json!(["a.jsonl#2.images.0", "a.jsonl#2.images.1"]));
    let read = |data: &Dataset, name: &str| data.media(name).unwrap().read();
    let file = |byte: u8| Ok(MediaContent::File(vec![byte; 900].into()));
    assert_eq!(read(&data, "a.jsonl#2.images.1"), file(3));
    assert_eq!(read(&data, "a.jsonl#2.images.0"), file(2), "line breaks are passed over");
    assert_eq!(read(&data, "a.jsonl#0.image"), file(1));
    assert!(read(&data, "a.jsonl#3.image").unwrap_err().to_string().contains("neither base64 nor a path"));
    assert!(read(&data, "a.jsonl#9.image").unwrap_err().to_string().contains("no row 9"));
    let error = data.media("a.jsonl#0.text").unwrap_err().to_string();
    assert!(error.contains("no column of media `text`"), "{error}");
    let data = Dataset::open(&dir.path().join("b.tsv"), None).unwrap();
    let rows: Vec<_> = data.rows().unwrap().map(|row| row.unwrap().value).collect();
    assert_eq!((&rows[0]["image"], &rows[1]["image"]), (&json!("b.tsv#0.image"), &json!("x.png")));
    assert_eq!(read(&data, "b.tsv#0.image"), file(4));
}

#[test]
fn a_shard_that_is_gone_is_an_error_and_the_later_ones_are_read() {
    let names = [0, 1, 2].map(|number| format!("test-0000{number}-of-00003.jsonl"));
    let files = [0, 1, 2].map(|number| (&*names[number], "{\"x\":1}\n{\"x\":2}\n"));
    for (gone, name) in names.iter().enumerate() {
        let dir = folder(&files);
        let data = Dataset::open(dir.path(), None).unwrap();
        std::fs::remove_file(dir.path().join(name)).unwrap();
        let rows: Vec<_> = data.rows().unwrap().collect();
        assert_eq!(rows.iter().filter(|row| row.is_ok()).count(), 4, "{gone}: {rows:?}");
        let errors: Vec<_> = rows.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1);
        let error = errors[0].to_string();
        assert!(error.contains(name) && error.contains("none of its rows can be read"), "{error}");
    }
    let dir = folder(&[("test.jsonl", "{}\n")]);
    let data = Dataset::open(dir.path(), None).unwrap();
    std::fs::remove_file(dir.path().join("test.jsonl")).unwrap();
    assert!(data.rows().is_err(), "nothing can be read of a single file");
}

#[test]
fn media_may_lie_in_one_folder_more() {
    let dir = folder(&[
        ("test.jsonl", "{}\n"),
        ("audio/eng/1.wav", "a"),
        ("eng/2.wav", "b"),
        ("audio/eng/2.wav", "c"),
    ]);
    let data = Dataset::open(dir.path(), None).unwrap();
    let file = |name: &str| data.media(name).unwrap().file().strip_prefix(dir.path()).unwrap().to_owned();
    assert_eq!(file("eng/1.wav"), Path::new("audio/eng/1.wav"));
    assert_eq!(file("eng/2.wav"), Path::new("eng/2.wav"), "its own place goes first");
    assert_eq!(file("eng/3.wav"), Path::new("eng/3.wav"));
    // Where two could be meant, neither is.
    let dir = folder(&[("test.jsonl", "{}\n"), ("a/eng/1.wav", "a"), ("b/eng/1.wav", "b")]);
    let data = Dataset::open(dir.path(), None).unwrap();
    assert_eq!(data.media("eng/1.wav").unwrap().file(), dir.path().join("eng/1.wav"));
}
