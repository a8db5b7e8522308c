//! Tests of which files of a folder are taken.

use super::*;

fn folder(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "{}\n").unwrap();
    }
    dir
}

#[track_caller]
fn check(files: &[&str], choice: Choice<'_>, expected: Result<&[&str], &str>) {
    let dir = folder(files);
    match (find(dir.path(), &choice), expected) {
        (Ok(found), Ok(expected)) => {
            let expected: Vec<_> = expected.iter().map(|name| dir.path().join(name)).collect();
            assert_eq!(found, expected);
        }
        (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
        (found, _) => panic!("{found:?}"),
    }
}

#[test]
fn the_test_split_is_taken_and_previews_are_not() {
    let none = Choice::default();
    check(&["jsonl/test.jsonl", "other.jsonl"], none, Ok(&["jsonl/test.jsonl"]));
    check(&["test.parquet", "view_200.parquet", "final.json"], none, Ok(&["test.parquet"]));
    check(&["data/test.csv", "data/train.csv", "readme.md"], none, Ok(&["data/test.csv"]));
    check(&["test.parquet", "test.csv"], none, Ok(&["test.parquet"]));
    check(&["cpqa-test.arrow", "cpqa-train.arrow"], none, Ok(&["cpqa-test.arrow"]));
    check(&["amh_Ethi.parquet", "fetch.json"], none, Ok(&["amh_Ethi.parquet"]));
    check(&["a.csv", "b.csv"], none, Err("found a.csv, b.csv"));
    check(&["a.jsonl", "b.jsonl"], none, Err("name the file itself"));
    check(&["rows.jsonl", "b.csv"], none, Ok(&["rows.jsonl"]));
    let valid = Choice { split: Some("valid"), ..none };
    check(&["test.jsonl", "valid.jsonl"], valid, Ok(&["valid.jsonl"]));
    check(&["test.jsonl"], valid, Err("valid.parquet"));
    let dev = Choice { split: Some("dev"), ..none };
    check(&["data/dev.jsonl", "data/test.jsonl", "data/train.jsonl"], dev, Ok(&["data/dev.jsonl"]));
    let ignore = Choice { ignore: &["view_*"], ..none };
    check(&["view_200.parquet"], ignore, Err("holds no file"));
    check(&["view_200.parquet", "a.parquet"], ignore, Ok(&["a.parquet"]));
}

#[test]
fn shards_are_one_dataset_in_the_order_of_their_names_if_all_are_there() {
    let (a, b) = ("data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet");
    let none = Choice::default();
    check(&[b, a, "data/train-00000-of-00001.parquet"], none, Ok(&[a, b]));
    check(&[b], none, Err("shard 0 of 2 (counted from 0) is not there"));
    check(&["x-00000-of-00001.arrow"], none, Ok(&["x-00000-of-00001.arrow"]));
}

#[test]
fn saved_folders_name_their_shards() {
    let dir = folder(&["test/data-00001-of-00002.arrow", "test/data-00000-of-00002.arrow"]);
    let state = |text: &str| std::fs::write(dir.path().join("test/state.json"), text).unwrap();
    state(
        r#"{"_data_files": [{"filename": "data-00000-of-00002.arrow"}, {"filename": "data-00001-of-00002.arrow"}]}"#,
    );
    std::fs::write(dir.path().join("dataset_dict.json"), r#"{"splits": ["train", "test"]}"#).unwrap();
    let found = find(dir.path(), &Choice::default()).unwrap();
    assert_eq!(found.len(), 2);
    assert!(found[0].ends_with("test/data-00000-of-00002.arrow"));
    assert_eq!(found, find(&dir.path().join("test"), &Choice::default()).unwrap());
    let error = |choice| find(dir.path(), &choice).unwrap_err().to_string();
    let other = Choice { split: Some("valid"), ..Choice::default() };
    assert!(error(other).contains("has no split `valid`, only train, test"));
    let train = Choice { split: Some("train"), ..Choice::default() };
    assert!(error(train).contains("names the split `train`, and no state.json is in the folder `train`"));
    state(r#"{"_data_files": [{"filename": "../../../etc/passwd"}]}"#);
    assert!(error(Choice::default()).contains("nothing outside it is read"));
    state(r#"{"_data_files": [{"filename": "none.arrow"}]}"#);
    assert!(error(Choice::default()).contains("no such file"));
    state(r#"{"_data_files": []}"#);
    assert!(error(Choice::default()).contains("names no data files"));
    state(r#"{"_data_files": [{"filename": "x"}], "_indices_files": [{"filename": "i.arrow"}]}"#);
    assert!(error(Choice::default()).contains("flatten_indices"));
}

#[test]
fn stars_stand_for_any_letters() {
    assert!(matches("view_*", "view_200.parquet") && matches("*.csv", "a.csv") && matches("a*c*e", "abcde"));
    assert!(!matches("view_*", "review_1") && !matches("a*c", "abd"));
}
