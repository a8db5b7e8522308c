//! Whether a file can be what its name says, by its first and last bytes: the only check there is where nothing is
//! published to compare it with. A network that wants a login answers every address with a page, and calls that success.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Bytes of the beginning that are looked at.
const HEAD: u64 = 1024;
/// What stands at both ends of a Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// The smallest Parquet file: both marks and the length of a footer.
const SMALLEST: u64 = 12;
/// What a clone without Git LFS leaves in a file's place.
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// What a file should be by its name, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Odd {
    pub(super) expected: &'static str,
    pub(super) found: &'static str,
}

/// Looks at the file at `path`, which is called `name`.
pub(super) fn odd(path: &Path, name: &Path) -> io::Result<Option<Odd>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head)?;
    let suffix = name.extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase());
    let suffix = suffix.unwrap_or_default();
    let found = instead(&head, size);
    let (expected, fits) = match &*suffix {
        "parquet" => {
            let mut tail = [0; 4];
            let whole = size >= SMALLEST && {
                file.seek(SeekFrom::End(-4))?;
                file.read_exact(&mut tail)?;
                tail == PARQUET
            };
            ("a Parquet file, which has PAR1 at both ends", head.starts_with(PARQUET) && whole)
        }
        "jsonl" | "ndjson" => ("lines of JSON", matches!(first(&head), Some(b'{' | b'['))),
        "json" => ("JSON", first(&head).is_some_and(|byte| b"{[\"-0123456789tfn".contains(&byte))),
        "gz" | "tgz" => ("a gzip archive", head.starts_with(&[0x1f, 0x8b])),
        "zip" => ("a zip archive", head.starts_with(b"PK")),
        "wav" => ("a WAV file", head.starts_with(b"RIFF")),
        "flac" => ("a FLAC file", head.starts_with(b"fLaC") || head.starts_with(b"ID3")),
        "html" | "htm" | "xhtml" => return Ok(None),
        _ => ("the published file", true),
    };
    let page = matches!(found, PAGE | LFS);
    Ok((page || !fits).then_some(Odd { expected, found }))
}

const PAGE: &str = "a web page (HTML)";
const LFS: &str = "a Git LFS pointer";

/// What a file is instead of what its name says.
fn instead(head: &[u8], size: u64) -> &'static str {
    match head {
        _ if size == 0 => "an empty file",
        head if head.starts_with(POINTER) => LFS,
        head if is_page(head) => PAGE,
        _ => "something else",
    }
}

/// The first byte of text, behind a mark of its order and blanks.
fn first(head: &[u8]) -> Option<u8> {
    text(head).first().copied()
}

fn text(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

/// Whether text begins as a web page does, comments before it left out.
fn is_page(head: &[u8]) -> bool {
    let mut rest = text(head);
    while let Some(comment) = rest.strip_prefix(b"<!--") {
        let Some(end) = comment.windows(3).position(|bytes| bytes == b"-->") else { return false };
        rest = comment.get(end + 3..).unwrap_or_default().trim_ascii_start();
    }
    [&b"<!doctype html"[..], b"<html", b"<head>", b"<body"]
        .iter()
        .any(|tag| rest.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_are_compared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let look = |name: &str, bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            odd(&path, Path::new(name)).unwrap().map(|odd| odd.found)
        };
        let page = b"\xef\xbb\xbf \n<!-- a proxy --><!DOCTYPE HTML><p>Log in";
        for name in ["a.parquet", "a.jsonl", "a.json", "a.py", "a", "a.tar.gz", "a.wav", "a.tsv"] {
            assert_eq!(look(name, page), Some(PAGE), "{name}");
            assert_eq!(look(name, b"<HTML lang=en>"), Some(PAGE), "{name}");
        }
        assert_eq!(look("a.html", page), None);
        assert_eq!(look("a.bin", b"version https://git-lfs.github.com/spec/v1\n"), Some(LFS));
        assert_eq!(look("a.parquet", b"PAR1\0\0\0\0\0\0\0\0PAR1"), None);
        assert_eq!(look("a.parquet", b"PAR1\0\0\0\0\0\0\0\0\0"), Some("something else"), "cut at its end");
        assert_eq!(look("a.parquet", b"PAR1"), Some("something else"));
        assert_eq!(look("a.parquet", b""), Some("an empty file"));
        for (name, good, bad) in [
            ("a.jsonl", &b" \n{\"a\": 1}"[..], &b"Moved"[..]),
            ("a.json", b"[1]", b"<a>"),
            ("a.tar.gz", b"\x1f\x8b\x08", b"tar"),
            ("a.wav", b"RIFFxxxxWAVE", b"\0\0"),
        ] {
            assert_eq!((look(name, good), look(name, bad)), (None, Some("something else")), "{name}");
        }
        // Of other names nothing is known but that they are no web page.
        assert_eq!((look("a.py", b"<x>"), look("a.txt", b"")), (None, None));
    }
}
