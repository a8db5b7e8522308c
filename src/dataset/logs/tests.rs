use std::io::Write as _;

use serde_json::json;

use super::*;

fn read(path: &Path, list: Option<&str>) -> (Result<LogHead, String>, Vec<Result<Value, String>>) {
    let mut rows = Vec::new();
    let head = log_rows(path, list, &mut |row| {
        rows.push(row.map(|row| row.value).map_err(|e| e.to_string()));
    });
    (head.map_err(|e| e.to_string()), rows)
}

fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    (dir, path)
}

fn zipped(entries: &[(&str, &str)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, content) in entries {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

const HEAD: &str = r#"{"version": 2, "status": "success", "eval": {"model": "openai/gpt-4o", "task": "t"}}"#;

#[test]
fn lines_with_numbers_that_json_does_not_know_are_read() {
    let (_dir, path) = file("a.jsonl", b"{\"a\": NaN}\n\n{\"a\": \"x\ny\"}\n{\"a\": \"NaN\"}");
    let (head, rows) = read(&path, None);
    assert_eq!(head, Ok(LogHead::default()));
    assert_eq!(rows[0], Ok(json!({"a": 0.0})));
    assert!(rows[1].as_ref().unwrap_err().contains("a.jsonl:3: not valid JSON"), "{rows:?}");
    assert!(rows[2].as_ref().unwrap_err().contains("a.jsonl:4"), "{rows:?}");
    assert_eq!(rows[3], Ok(json!({"a": "NaN"})));
    assert_eq!(rows.len(), 4);
}

#[test]
fn an_object_gives_the_elements_of_its_list() {
    let text = r#"{"x": {"samples": 1}, "details": [{"a": 1}, 2, {"a": Infinity}], "y": [NaN]}"#;
    let (_dir, path) = file("a.json", text.as_bytes());
    let (head, rows) = read(&path, Some("details"));
    assert_eq!(head, Ok(LogHead::default()));
    assert_eq!((&rows[0], rows.len()), (&Ok(json!({"a": 1})), 3));
    assert!(rows[1].as_ref().unwrap_err().contains("a.json: row 2: expected a JSON object"), "{rows:?}");
    let (head, _) = read(&path, Some("samples"));
    assert!(head.unwrap_err().contains("without the list `samples`"));
    // A log that was cut gives what is whole, and says so.
    let (_dir, path) = file("b.json", &text.as_bytes()[..text.len() - 30]);
    let (head, rows) = read(&path, Some("details"));
    assert!(head.unwrap().unfinished);
    assert!(
        rows.last().unwrap().as_ref().unwrap_err().contains("not valid JSON behind this row"),
        "{rows:?}"
    );
    let (_dir, path) = file("c.json", format!("{}\"samples\": null}}", HEAD.replace("}}", "}, ")).as_bytes());
    let (head, rows) = read(&path, Some("samples"));
    assert_eq!((head.unwrap().model.as_deref(), rows.len()), (Some("openai/gpt-4o"), 0));
}

#[test]
fn archives_of_inspect_give_their_samples() {
    let sample = r#"{"id": 1, "epoch": 1, "events": [{"x": NaN}], "output": {"completion": "A"}}"#;
    let entries = [
        ("_journal/start.json", HEAD),
        ("samples/1_epoch_1.json", sample),
        ("samples/2_epoch_1.json", "{"),
        ("summaries.json", "[]"),
        ("header.json", HEAD),
    ];
    let methods = [
        zip::CompressionMethod::Stored,
        zip::CompressionMethod::Deflated,
        #[cfg(feature = "parquet")]
        zip::CompressionMethod::Zstd,
    ];
    for method in methods {
        let (_dir, path) = file("a.eval", &zipped(&entries, method));
        let (head, rows) = read(&path, Some("samples"));
        assert_eq!(head, Ok(LogHead { model: Some("openai/gpt-4o".to_owned()), unfinished: false }));
        assert_eq!(rows.len(), 2);
        let row = rows[0].as_ref().unwrap();
        assert_eq!((&row["id"], &row["output"]["completion"]), (&json!(1), &json!("A")));
        assert!(row.get("events").is_none());
        assert!(rows[1].as_ref().unwrap_err().contains("row 2: samples/2_epoch_1.json: cannot be read"));
    }
    let (_dir, path) = file("b.eval", &zipped(&[("x.json", "{}")], zip::CompressionMethod::Stored));
    assert!(read(&path, Some("samples")).0.unwrap_err().contains("no log of Inspect"));
    assert!(read(&path, None).0.unwrap_err().contains("an archive: unpack it"));
    let mut torn = zipped(&entries, zip::CompressionMethod::Deflated);
    torn.truncate(torn.len() / 2);
    let (_dir, path) = file("c.eval", &torn);
    assert!(read(&path, Some("samples")).0.unwrap_err().contains("a damaged archive"));
}
