//! What a data file is: by its content where that tells, by its suffix where it does not.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::DatasetError;
use super::table::Separator;

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Jsonl,
    JsonArray,
    Table(Separator),
    Parquet,
    Arrow,
}

/// The suffixes of data files, the ones that are preferred first.
pub(super) const SUFFIXES: [&str; 7] = ["jsonl", "ndjson", "parquet", "arrow", "csv", "tsv", "json"];

/// The suffix of a data file, in lower case.
pub(super) fn suffix(path: &Path) -> Option<&'static str> {
    let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
    SUFFIXES.into_iter().find(|known| *known == suffix)
}

/// What a file is.
pub(super) fn format(path: &Path) -> Result<Format, DatasetError> {
    let io = |source| DatasetError::Io { path: path.to_owned(), source };
    let mut head = Vec::new();
    File::open(path).map_err(io)?.take(512).read_to_end(&mut head).map_err(io)?;
    let refused =
        |reason: &str| Err(DatasetError::Format { path: path.to_owned(), reason: reason.to_owned() });
    let suffix = suffix(path);
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
    if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
        return Ok(Format::Parquet);
    }
    // A stream begins with the mark of a message, or, as older ones do, with the length of its schema.
    if head.starts_with(b"ARROW1") || head.starts_with(&[0xff; 4]) {
        return Ok(Format::Arrow);
    }
    if text.starts_with(b"version https://git-lfs") {
        return refused("a Git LFS pointer, not the file itself: run `git lfs pull` in its repository");
    }
    let lower = text.to_ascii_lowercase();
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
        return refused("a web page (HTML): its download failed or needs a login; fetch it again");
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(&[0x1f, 0x8b]) {
        return refused("an archive: unpack it, and name what was in it");
    }
    match suffix {
        Some("arrow") if head.len() >= 4 => return Ok(Format::Arrow),
        Some("parquet" | "arrow") if head.is_empty() => return refused("empty (0 bytes): fetch it again"),
        Some("parquet") => return refused("no Parquet file: it does not begin as one does; fetch it again"),
        _ => {}
    }
    if text.starts_with(b"[") && suffix != Some("csv") && suffix != Some("tsv") {
        return Ok(Format::JsonArray);
    }
    match suffix {
        Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
        Some("csv") => Ok(Format::Table(Separator::Comma)),
        Some("tsv") => Ok(Format::Table(Separator::Tab)),
        Some("json") if text.starts_with(b"{") && is_line(&head) => Ok(Format::Jsonl),
        Some("json") => refused(
            "a JSON file that holds neither an array of objects nor an object a line: write its rows as one of these",
        ),
        _ if text.starts_with(b"{") => Ok(Format::Jsonl),
        _ => refused(
            "of no format that is read; expected JSON Lines, a JSON array, CSV, TSV, Parquet or Arrow, with the \
             suffix .jsonl, .json, .csv, .tsv, .parquet or .arrow",
        ),
    }
}

/// Whether the first line may be a whole object.
fn is_line(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.len() == head.len() || serde_json::from_slice::<serde_json::Value>(line.trim_ascii()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_goes_before_the_suffix() {
        let dir = tempfile::tempdir().unwrap();
        let check = |name: &str, content: &[u8], expected: Result<Format, &str>| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            match (format(&path), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{name}"),
                (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
                (found, _) => panic!("{name}: {found:?}"),
            }
        };
        check("a.jsonl", b"{\"a\": 1}\n", Ok(Format::Jsonl));
        check("a.json", b"{\"a\": 1}\n{\"a\": 2}", Ok(Format::Jsonl));
        check("b.jsonl", b"\xef\xbb\xbf [{}]", Ok(Format::JsonArray));
        check("a.arrow", b"PAR1....PAR1", Ok(Format::Parquet));
        check("a.parquet", b"ARROW1\0\0", Ok(Format::Arrow));
        check("a.csv", b"[a],b\n", Ok(Format::Table(Separator::Comma)));
        check("a.tsv", b"a\tb\n", Ok(Format::Table(Separator::Tab)));
        check("rows", b"{\"a\": 1}\n", Ok(Format::Jsonl));
        check("b.json", b"{\n \"a\": 1}\n", Err("neither an array of objects"));
        check("b.parquet", b"version https://git-lfs.github.com/spec/v1\n", Err("git lfs pull"));
        check("c.parquet", b"<!DOCTYPE html>", Err("a web page"));
        check("d.parquet", b"", Err("is empty (0 bytes)"));
        check("e.parquet", b"PAR2", Err("is no Parquet file"));
        check("f.zip", b"PK\x03\x04", Err("an archive"));
        check("g.xlsx", b"xyz", Err("of no format that is read"));
    }
}
