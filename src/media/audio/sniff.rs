//! What a file is, by its first bytes.
//!
//! Names lie: datasets hold FLAC called `.wav`, and a failed download leaves a web page called `.wav`. What is
//! not read is named all the same, since that is what helps.

use std::io::{self, Read, Seek, SeekFrom};

use thiserror::Error;

use crate::media::boxed_image;

/// Bytes that are looked at.
const HEAD: usize = 512;
/// Length of an `ID3v2` header.
const ID3_HEADER: u64 = 10;

/// A container that is read, and where in the file it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Wav,
    Flac { start: u64 },
}

/// A file that is neither WAV nor FLAC.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OtherFile {
    /// No bytes.
    #[error("is empty (0 bytes): fetch or copy it again")]
    Empty,
    /// What `git clone` leaves where Git LFS is not set up.
    #[error("is a Git LFS pointer, not the file itself: run `git lfs pull` in its repository")]
    LfsPointer,
    /// A web page.
    #[error("is a web page (HTML), not audio: its download failed or needs a login; fetch it again")]
    Html,
    /// Audio or video of another format: what it is, and its name in lists of formats where it has one.
    #[error(
        "is {0}, and only WAV and FLAC are read: convert it, for example with `ffmpeg -i IN -c:a flac OUT.flac`"
    )]
    Convertible(&'static str, Option<&'static str>),
    /// Something else with a name.
    #[error("is {0}, not audio: check the media folder and the names in the dataset")]
    NotAudio(&'static str),
    /// Nothing known.
    #[error(
        "is neither WAV nor FLAC: it begins with the bytes {0}; convert it, for example with `ffmpeg -i IN -c:a flac OUT.flac`"
    )]
    Unknown(String),
}

impl OtherFile {
    /// What is said of a file that should be a clip or an image, where it is not known which.
    pub(crate) fn of_neither(&self) -> String {
        match self {
            Self::Html => {
                "is a web page (HTML), no clip and no image: its download failed or needs a login; fetch it again"
                    .to_owned()
            }
            Self::NotAudio(what) => format!("is {what}, no clip and no image that is read"),
            Self::Unknown(begin) => {
                format!("is no clip and no image of a known format: it begins with the bytes {begin}")
            }
            Self::Empty | Self::LfsPointer | Self::Convertible(..) => self.to_string(),
        }
    }
}

/// The name of a file's format in lists of formats, by its content; what is wrong with it where it is no audio
/// file that could be sent as it is.
pub(crate) fn format<R: Read + Seek>(reader: &mut R) -> io::Result<Result<&'static str, OtherFile>> {
    Ok(match sniff(reader)? {
        Ok(Container::Wav) => Ok("wav"),
        Ok(Container::Flac { .. }) => Ok("flac"),
        Err(OtherFile::Convertible(_, Some(format))) => Ok(format),
        Err(other) => Err(other),
    })
}

/// What `reader` holds.
pub(super) fn sniff<R: Read + Seek>(reader: &mut R) -> io::Result<Result<Container, OtherFile>> {
    let head = head(reader, 0)?;
    if head.starts_with(b"ID3") {
        // A tag that some tools put before FLAC, most before MP3. Its length has 7 bits a byte.
        let size = head
            .get(6..10)
            .map_or(0, |size| size.iter().fold(0, |size, byte| (size << 7) | u64::from(byte & 0x7f)));
        let footer = if head.get(5).is_some_and(|flags| flags & 0x10 != 0) { ID3_HEADER } else { 0 };
        let start = ID3_HEADER + size + footer;
        let after = self::head(reader, start)?;
        return Ok(if after.starts_with(b"fLaC") {
            Ok(Container::Flac { start })
        } else {
            Err(OtherFile::Convertible("an MP3 file", Some("mp3")))
        });
    }
    Ok(name(&head))
}

fn head<R: Read + Seek>(reader: &mut R, start: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    reader.seek(SeekFrom::Start(start))?;
    reader.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn name(head: &[u8]) -> Result<Container, OtherFile> {
    use OtherFile::{Convertible, NotAudio};

    let at = |place: usize, bytes: &[u8]| head.get(place..).is_some_and(|rest| rest.starts_with(bytes));
    let has = |bytes: &[u8]| head.windows(bytes.len()).any(|window| window == bytes);
    let two = |mask: u8, value: u8| at(0, &[0xff]) && head.get(1).is_some_and(|byte| byte & mask == value);

    if head.is_empty() {
        return Err(OtherFile::Empty);
    }
    if at(0, b"fLaC") {
        return Ok(Container::Flac { start: 0 });
    }
    if (at(0, b"RIFF") || at(0, b"RF64") || at(0, b"BW64")) && at(8, b"WAVE") {
        return Ok(Container::Wav);
    }
    Err(if at(0, b"RIFF") && at(8, b"AVI ") {
        Convertible("an AVI video", None)
    } else if at(0, b"RIFF") && at(8, b"WEBP") {
        NotAudio("a WebP image")
    } else if at(0, b"RIFX") {
        Convertible("a big-endian WAV file (RIFX)", None)
    } else if at(0, b"riff") && at(4, &[0x2e, 0x91, 0xcf, 0x11]) {
        Convertible("a Wave64 file", None)
    } else if at(0, b"OggS") && has(b"OpusHead") {
        Convertible("an Ogg Opus file", Some("ogg"))
    } else if at(0, b"OggS") && has(b"\x01vorbis") {
        Convertible("an Ogg Vorbis file", Some("ogg"))
    } else if at(0, b"OggS") && has(b"\x7fFLAC") {
        Convertible("FLAC in an Ogg container", Some("ogg"))
    } else if at(0, b"OggS") {
        Convertible("an Ogg file", Some("ogg"))
    } else if let Some(what) = boxed_image(head) {
        NotAudio(what)
    } else if at(4, b"ftyp") {
        Convertible("an MP4 or M4A file", Some("m4a"))
    } else if at(0, &[0x1a, 0x45, 0xdf, 0xa3]) {
        Convertible("a WebM or Matroska file", Some("webm"))
    } else if at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC")) {
        Convertible("an AIFF file", Some("aiff"))
    } else if at(0, b"caff") {
        Convertible("an Apple CAF file", None)
    } else if at(0, b".snd") {
        Convertible("a Sun AU file", None)
    } else if at(0, b"NIST_1A") {
        Convertible("an NIST SPHERE file", None)
    } else if at(0, b"#!AMR") {
        Convertible("an AMR file", Some("amr"))
    } else if at(0, b"wvpk") {
        Convertible("a WavPack file", None)
    } else if at(0, b"MAC ") {
        Convertible("a Monkey's Audio file", None)
    } else if at(0, &[0x30, 0x26, 0xb2, 0x75]) {
        Convertible("a Windows Media file", None)
    } else if two(0xf6, 0xf0) {
        Convertible("an AAC (ADTS) file", Some("aac"))
    } else if two(0xe0, 0xe0) {
        Convertible("an MP3 file", Some("mp3"))
    } else if at(0, &[0x1f, 0x8b]) {
        NotAudio("a gzip archive")
    } else if at(0, b"PK\x03\x04") {
        NotAudio("a ZIP archive")
    } else if at(0, b"PAR1") {
        NotAudio("a Parquet table")
    } else if at(0, b"\x89PNG") {
        NotAudio("a PNG image")
    } else if at(0, &[0xff, 0xd8, 0xff]) {
        NotAudio("a JPEG image")
    } else if at(0, b"%PDF") {
        NotAudio("a PDF document")
    } else if at(0, b"version https://git-lfs") {
        OtherFile::LfsPointer
    } else if is_html(head) {
        OtherFile::Html
    } else if is_text(head) {
        NotAudio("a text file")
    } else {
        let bytes: Vec<String> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        OtherFile::Unknown(bytes.join(" "))
    })
}

fn is_html(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start().to_ascii_lowercase();
    [&b"<!doctype html"[..], b"<html", b"<head", b"<body"].iter().any(|start| head.starts_with(start))
}

fn is_text(head: &[u8]) -> bool {
    let text = match str::from_utf8(head) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty() && text.chars().all(|char| !char.is_control() || char.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use crate::media::HEIF_BRANDS;

    use super::*;
    use std::io::Cursor;

    fn check(bytes: &[u8], expect: &str) {
        let sentence = match sniff(&mut Cursor::new(bytes)).unwrap() {
            Ok(container) => format!("{container:?}"),
            Err(other) => other.to_string(),
        };
        assert!(sentence.contains(expect), "{sentence} / {expect}");
    }

    #[test]
    fn files_are_known_by_their_content() {
        check(b"RIFF\0\0\0\0WAVEfmt ", "Wav");
        check(b"RF64\xff\xff\xff\xffWAVEds64", "Wav");
        check(b"fLaC\0\0\0\x22", "Flac { start: 0 }");
        check(b"ID3\x04\0\0\0\0\0\x03abcfLaC", "Flac { start: 13 }");
        check(b"ID3\x04\0\0\0\0\x02\x01", "is an MP3 file, and only WAV and FLAC are read: convert it");
        check(b"\xff\xfb\x90\x64", "an MP3 file");
        check(b"\xff\xf1\x50\x80", "an AAC (ADTS) file");
        check(b"OggS\0\x02\0\0\0\0\0\0\0\0..............\x01\x13OpusHead", "an Ogg Opus file");
        check(b"OggS\0\x02\0\0\0\0\0\0\0\0..............\x01\x1e\x01vorbis", "an Ogg Vorbis file");
        check(b"OggS", "an Ogg file");
        check(b"\0\0\0\x20ftypM4A ", "an MP4 or M4A file");
        check(b"\0\0\0\x1cftypavif", "is an AVIF image, not audio");
        check(b"\0\0\0\x18ftypmif1", "is a HEIF image, not audio");
        for brand in HEIF_BRANDS {
            check(&[&b"\0\0\0\x18ftyp"[..], brand].concat(), "is a HEIF image, not audio");
        }
        check(b"\0\0\0\x18ftyphevx", "is a HEIF image, not audio");
        check(b"\0\0\0\x18ftypmiaf", "is a HEIF image, not audio");
        check(b"\x1a\x45\xdf\xa3", "a WebM or Matroska file");
        check(b"RIFX\0\0\0\0WAVE", "big-endian");
        check(b"RIFF\0\0\0\0WEBP", "a WebP image, not audio");
        check(b"NIST_1A\n   1024", "NIST SPHERE");
        check(b"\xff\xd8\xff\xe0", "JPEG");
        check(b"version https://git-lfs.github.com/spec/v1\noid", "run `git lfs pull`");
        check(b"\n <!DOCTYPE HTML><html>", "is a web page (HTML)");
        check(b"\xef\xbb\xbf<html lang=en>", "is a web page (HTML)");
        check(b"{\"error\": \"not found\"}", "is a text file, not audio");
        check("Datei fehlt: schön".as_bytes(), "is a text file");
        check(b"", "is empty (0 bytes)");
        check(b"\0\x01\x02\xfe", "begins with the bytes 00 01 02 fe");
        check(b"RIFF", "text");
    }
}
