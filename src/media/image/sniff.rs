//! What an image is, by its first bytes: names of files and headers of servers are never asked.

use crate::media::boxed_image;

/// The name of the format of an image that can go on the wire as it is, or a sentence on what the file is instead.
pub(in crate::media) fn format(bytes: &[u8]) -> Result<&'static str, String> {
    let wrong = |what| {
        Err(format!(
            "is {what}, and only PNG, JPEG, WebP and GIF are sent: convert it, or set `format = \"png\"` under \
             [model.image]"
        ))
    };
    match kind(bytes)? {
        "bmp" => wrong("a BMP image"),
        "tiff" => wrong("a TIFF image"),
        sent => Ok(sent),
    }
}

/// The name of the format of an image that can be decoded, or a sentence on what the file is instead.
pub(super) fn kind(bytes: &[u8]) -> Result<&'static str, String> {
    let at = |place: usize, magic: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(magic));
    if at(0, b"\x89PNG\r\n\x1a\n") {
        return Ok("png");
    }
    if at(0, &[0xff, 0xd8, 0xff]) {
        return Ok("jpeg");
    }
    if at(0, b"RIFF") && at(8, b"WEBP") {
        return Ok("webp");
    }
    if at(0, b"GIF87a") || at(0, b"GIF89a") {
        return Ok("gif");
    }
    // Other files begin with these two letters too: the size of the header is one of a few.
    if at(0, b"BM")
        && bytes.get(14).is_none_or(|size| matches!(size, 12 | 16 | 40 | 52 | 56 | 64 | 108 | 124))
    {
        return Ok("bmp");
    }
    if at(0, b"II*\0") || at(0, b"MM\0*") {
        return Ok("tiff");
    }
    Err(match other(bytes) {
        Some(Other::NotRead(what)) => {
            format!("is {what}, which is not read: convert it to PNG, JPEG or WebP")
        }
        Some(Other::NoFile(sentence)) => sentence.to_owned(),
        None => {
            let bytes: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!(
                "is no image that is known: it begins with the bytes {}; expected PNG, JPEG, WebP, GIF, BMP or TIFF",
                bytes.join(" ")
            )
        }
    })
}

/// A file that is known, and no image that can be decoded.
enum Other {
    /// A picture, or pages, of another format.
    NotRead(&'static str),
    /// What stands in place of a file: a sentence on it.
    NoFile(&'static str),
}

/// Whether a file is a picture, sent or not: then it is no clip.
pub(super) fn is_picture(bytes: &[u8]) -> bool {
    kind(bytes).is_ok() || matches!(other(bytes), Some(Other::NotRead(_)))
}

fn other(bytes: &[u8]) -> Option<Other> {
    let at = |place: usize, magic: &[u8]| bytes.get(place..).is_some_and(|rest| rest.starts_with(magic));
    let text = || bytes.get(..512).unwrap_or(bytes).trim_ascii_start().to_ascii_lowercase();
    let what = if bytes.is_empty() {
        return Some(Other::NoFile("is empty (0 bytes): fetch or copy it again"));
    } else if at(0, b"version https://git-lfs") {
        return Some(Other::NoFile(
            "is a Git LFS pointer, not the file itself: run `git lfs pull` in its repository",
        ));
    } else if [&b"<!doctype html"[..], b"<html", b"<head"].iter().any(|start| text().starts_with(start)) {
        return Some(Other::NoFile(
            "is a web page (HTML), not an image: its download failed or needs a login; fetch it again",
        ));
    } else if text().starts_with(b"<svg") || (text().starts_with(b"<?xml") && find(&text(), b"<svg")) {
        "an SVG drawing"
    } else if let Some(what) = boxed_image(bytes) {
        what
    } else if at(0, b"II+\0") || at(0, b"MM\0+") {
        "a BigTIFF image"
    } else if at(0, b"\0\0\x01\0") && !at(4, b"ftyp") {
        "a Windows icon"
    } else if at(0, b"8BPS") {
        "a Photoshop file"
    } else if at(0, b"%PDF") {
        "a PDF document"
    } else if at(0, b"\xff\x0a") || at(0, b"\0\0\0\x0cJXL ") {
        "a JPEG XL image"
    } else {
        return None;
    };
    Some(Other::NotRead(what))
}

fn find(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_content() {
        let check = |bytes: &[u8], expected: Result<&str, &str>| match (format(bytes), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        };
        check(b"\x89PNG\r\n\x1a\n\0\0", Ok("png"));
        check(b"\xff\xd8\xff\xe0\0\x10JFIF", Ok("jpeg"));
        check(b"RIFF\x10\0\0\0WEBPVP8 ", Ok("webp"));
        check(b"GIF89a", Ok("gif"));
        check(b"BM\x10\0", Err("is a BMP image, and only PNG, JPEG, WebP and GIF are sent"));
        check(b"II*\0", Err("is a TIFF image, and only"));
        check(b"\0\0\0\x1cftypavif", Err("is an AVIF image, which is not read"));
        check(b"BMW owners' club, member list", Err("begins with the bytes 42 4d"));
        check(b"\0\0\0\x18ftypmsf1", Err("is a HEIF image, which is not read"));
        check(b"\0\0\0\x18ftyphevs", Err("is a HEIF image, which is not read"));
        assert!(is_picture(b"\0\0\0\x18ftypmiaf") && !is_picture(b"\0\0\0\x18ftypM4A "));
        check(b"<?xml version=\"1.0\"?><svg>", Err("an SVG drawing"));
        check(b" <!DOCTYPE html>", Err("is a web page"));
        check(b"", Err("is empty"));
        check(b"RIFF\x10\0\0\0WAVE", Err("begins with the bytes 52 49 46 46"));
        check(b"\x89PN", Err("is no image that is known"));
    }
}
