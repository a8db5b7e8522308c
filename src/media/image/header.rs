//! What the header of an image says: size, frames, alpha. Nothing is decoded.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};

use super::error::ImageError;
use super::sniff;
use crate::media::source::{MediaContent, MediaSource, SampleValues};
use crate::media::{audio, sentence};
use crate::types::AudioSource;

/// What the header of an image says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFacts {
    /// `png`, `jpeg`, `webp` or `gif`; where the image is to be decoded, `bmp` or `tiff` too.
    pub format: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels, before any rotation that the file asks for.
    pub height: u32,
}

/// Format and size of an image that is to go as it is. An error is a sentence that reads well after the source's name.
pub fn probe_image(source: &MediaSource) -> Result<ImageFacts, String> {
    if let MediaSource::File(path) = source {
        return facts(&mut BufReader::new(File::open(path).map_err(sentence)?)).map_err(|e| e.to_string());
    }
    match source.read()? {
        MediaContent::File(bytes) => facts_of(&bytes).map_err(|e| e.to_string()),
        MediaContent::Samples(_) => Err("holds audio samples, not an image".to_owned()),
    }
}

/// What a clip or image is, by its header.
#[derive(Clone, Debug, PartialEq)]
pub enum Facts {
    /// Audio; rate and length are 0 for formats whose headers are not read.
    Audio(AudioSource),
    /// An image.
    Image(ImageFacts),
}

/// What a clip or image is, by the header of its content; nothing is decoded. An error is a sentence that reads well
/// after the source's name.
pub fn look(source: &MediaSource) -> Result<Facts, String> {
    fn of(reader: &mut (impl Read + Seek)) -> Result<Facts, String> {
        let mut head = Vec::new();
        reader.by_ref().take(512).read_to_end(&mut head).map_err(sentence)?;
        reader.seek(SeekFrom::Start(0)).map_err(sentence)?;
        if sniff::is_picture(&head) {
            // One that is not sent gets its sentence here.
            return facts(reader).map(Facts::Image).map_err(|e| e.to_string());
        }
        let format = audio::format(reader).map_err(sentence)?.map_err(|other| other.of_neither())?;
        if matches!(format, "wav" | "flac") {
            reader.seek(SeekFrom::Start(0)).map_err(sentence)?;
            return audio::probe(reader).map(Facts::Audio).map_err(sentence);
        }
        let format = format.to_owned();
        Ok(Facts::Audio(AudioSource { format, rate: 0, channels: 0, bits: 0, frames: 0 }))
    }
    if let MediaSource::File(path) = source {
        return of(&mut BufReader::new(File::open(path).map_err(sentence)?));
    }
    match source.read()? {
        MediaContent::File(bytes) => of(&mut Cursor::new(bytes)),
        MediaContent::Samples(samples) => {
            let frames = match &samples.values {
                SampleValues::I16(values) => values.len(),
                SampleValues::F32(values) => values.len(),
                SampleValues::F64(values) => values.len(),
            };
            let format = "samples".to_owned();
            Ok(Facts::Audio(AudioSource {
                format,
                rate: samples.rate,
                channels: 1,
                bits: 0,
                frames: frames as u64,
            }))
        }
    }
}

fn facts(reader: &mut (impl Read + Seek)) -> Result<ImageFacts, ImageError> {
    let mut head = Vec::new();
    reader.by_ref().take(512).read_to_end(&mut head).map_err(unread)?;
    let format = sniff::format(&head).map_err(ImageError::Other)?;
    let size = match format {
        "png" => png(&head),
        "gif" => gif(&head),
        "webp" => webp(&head),
        _ => jpeg(reader).map_err(unread)?.filter(|frame| frame.whole).map(|frame| frame.size),
    };
    let (width, height) = size.ok_or(ImageError::Header { format })?;
    if width == 0 || height == 0 {
        return Err(ImageError::Zero { width, height });
    }
    Ok(ImageFacts { format, width, height })
}

/// Format and size of an image in memory.
pub(super) fn facts_of(bytes: &[u8]) -> Result<ImageFacts, ImageError> {
    facts(&mut Cursor::new(bytes))
}

/// The size that the header of an image of this format declares, where it stands at a fixed place or is easily found;
/// zeros are given as they are.
pub(super) fn declared(bytes: &[u8], format: &str) -> Option<(u32, u32)> {
    let little32 =
        |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| i32::from_le_bytes(*bytes).unsigned_abs());
    match format {
        "png" => big(bytes, 16).zip(big(bytes, 20)),
        "gif" => little16(bytes, 6).zip(little16(bytes, 8)),
        "webp" => webp(bytes),
        "jpeg" => jpeg(&mut Cursor::new(bytes)).ok()?.map(|frame| frame.size),
        "bmp" if bytes.get(14) == Some(&12) => little16(bytes, 18).zip(little16(bytes, 20)),
        "bmp" => little32(18).zip(little32(22)),
        _ => None,
    }
}

/// The number of colour components of a JPEG image.
pub(super) fn jpeg_components(bytes: &[u8]) -> Option<u8> {
    jpeg(&mut Cursor::new(bytes)).ok()?.map(|frame| frame.components)
}

fn big(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn little16(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from(u16::from_le_bytes(*bytes)))
}

/// The size in the first chunk, which must be whole and have the right checksum.
fn png(head: &[u8]) -> Option<(u32, u32)> {
    let chunk = head.get(8..33)?;
    let (length, rest) = chunk.split_at_checked(4)?;
    let (body, sum) = rest.split_at_checked(17)?;
    let whole = length == [0, 0, 0, 13] && body.starts_with(b"IHDR") && sum == crc32(body).to_be_bytes();
    if whole { big(head, 16).zip(big(head, 20)) } else { None }
}

/// The checksum of PNG's chunks. Only 17 bytes of an image are ever summed here, so there is no table.
fn crc32(bytes: &[u8]) -> u32 {
    let byte = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    };
    !bytes.iter().fold(u32::MAX, byte)
}

fn gif(head: &[u8]) -> Option<(u32, u32)> {
    // What describes the screen ends there.
    head.get(12)?;
    little16(head, 6).zip(little16(head, 8))
}

fn webp(head: &[u8]) -> Option<(u32, u32)> {
    let little24 = |at| Some(little16(head, at)? | u32::from(*head.get(at + 2)?) << 16);
    match head.get(12..16)? {
        b"VP8X" => Some((little24(24)? + 1, little24(27)? + 1)),
        b"VP8L" if head.get(20) == Some(&0x2f) => {
            let bits = head.get(21..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " if head.get(23..26)? == [0x9d, 0x01, 0x2a] => {
            Some((little16(head, 26)? & 0x3fff, little16(head, 28)? & 0x3fff))
        }
        _ => None,
    }
}

/// What stands in the frame header of a JPEG image.
struct Frame {
    size: (u32, u32),
    /// The number of colour components; 0 where the file ends before it.
    components: u8,
    /// Whether the file goes on to the header's end.
    whole: bool,
}

/// Walks the segments to the frame header. Every step moves forward, so the walk ends with the file.
fn jpeg(reader: &mut (impl Read + Seek)) -> std::io::Result<Option<Frame>> {
    let mut place = reader.seek(SeekFrom::Start(2))?;
    loop {
        let mut head = [0; 10];
        let mut got = 0;
        while got < head.len() {
            match reader.read(head.get_mut(got..).unwrap_or_default())? {
                0 => break,
                n => got += n,
            }
        }
        let [first, marker, a, b, _, c, d, e, f, components] = head;
        let length = u16::from_be_bytes([a, b]);
        let step = match marker {
            // Stray bytes between segments, which decoders pass over too: on to the next marker.
            _ if first != 0xff => head.iter().position(|byte| *byte == 0xff).unwrap_or(got) as u64,
            // Padding: on to the last of it.
            0xff => head.iter().take_while(|byte| **byte == 0xff).count() as u64 - 1,
            // A stuffed byte, and markers without a body.
            0x00 | 0x01 | 0xd0..=0xd8 => 2,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let of = |pair| u32::from(u16::from_be_bytes(pair));
                let size = (of([e, f]), of([c, d]));
                let least = 8 + 3 * u16::from(components);
                let end = place + 2 + u64::from(length);
                let whole = components > 0 && length >= least && reader.seek(SeekFrom::End(0))? >= end;
                return Ok((got >= 9).then_some(Frame { size, components, whole }));
            }
            // The end, or a picture whose size was not told before it.
            0xd9 | 0xda => return Ok(None),
            _ if length < 2 => return Ok(None),
            _ => 2 + u64::from(length),
        };
        // Fewer are left than the shortest segment has.
        if got < 4 {
            return Ok(None);
        }
        place += step;
        // From where it stands: a reader with a buffer keeps it, so that many short steps cost little.
        reader.seek_relative(step as i64 - got as i64)?;
    }
}

/// What the system says of a file that cannot be read.
fn unread(error: std::io::Error) -> ImageError {
    ImageError::Other(sentence(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Result<(&'static str, u32, u32), String> {
        let facts = facts_of(bytes).map_err(|error| error.to_string())?;
        Ok((facts.format, facts.width, facts.height))
    }

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x6a\0\0\0\x38\x08\x02\0\0\0\x9a\x05\xfa\x3c";
    const GIF: &[u8] = b"GIF89a\x6a\0\x38\0\0\0\0";
    const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x03x\xff\xc2\0\x11\x08\0\x38\0\x6a\x03\x01\x11\0\x02\x11\0\x03\x11\0";
    const WEBP: &[u8] = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x6a\0\x38\0";
    const WEBP_LARGE: &[u8] = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x69\0\0\x37\0\0";

    /// 106 x 56 pixels, each side less one, in 14 bits.
    fn lossless() -> Vec<u8> {
        let bits = (106_u32 - 1) | (56 - 1) << 14;
        [&b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f"[..], &bits.to_le_bytes()].concat()
    }

    #[test]
    fn sizes_stand_in_headers() {
        for (bytes, format) in [
            (PNG, "png"),
            (GIF, "gif"),
            (JPEG, "jpeg"),
            (WEBP, "webp"),
            (WEBP_LARGE, "webp"),
            (&lossless()[..], "webp"),
        ] {
            assert_eq!(of(bytes), Ok((format, 106, 56)));
        }
    }

    #[test]
    fn stray_bytes_between_the_segments_of_a_jpeg_are_passed_over() {
        for stray in
            [&b"\0"[..], b"stray", b"more than the ten bytes of one look", b"\xff\0", b"\0\xff\xff\xff"]
        {
            // Behind the first segment, and before the one with the size.
            for at in [8, 14] {
                let file = [&JPEG[..at], stray, &JPEG[at..]].concat();
                assert_eq!(of(&file), Ok(("jpeg", 106, 56)), "{stray:?} at {at}");
            }
        }
        // A size behind the picture, or behind the end, is none.
        for marker in [b"\xff\xda\0\x02", b"\xff\xd9\0\x02"] {
            let file = [&JPEG[..8], marker, &JPEG[8..]].concat();
            assert!(of(&file).unwrap_err().contains("header is damaged"), "{marker:?}");
        }
        assert!(of(&[&b"\xff\xd8\xff\xe0\0\x02"[..], &[7; 5000]].concat()).is_err());
    }

    #[test]
    fn damaged_headers_are_named() {
        let lossless = lossless();
        for whole in [PNG, GIF, JPEG, WEBP, WEBP_LARGE, &lossless[..]] {
            // Before the 16th byte some are not known for what they are, and refused with another sentence.
            for cut in 2..whole.len() {
                let error = of(&whole[..cut]).unwrap_err();
                assert!(cut < 16 || error.contains("header is damaged or cut short"), "{cut}: {error}");
            }
        }
        let changed = |bytes: &[u8], at: usize, with: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[at..at + with.len()].copy_from_slice(with);
            of(&bytes).unwrap_err()
        };
        let damaged = |bytes: &[u8], at, with: &[u8]| {
            let error = changed(bytes, at, with);
            assert!(error.contains("header is damaged or cut short: get the file again"), "{error}");
        };
        // A bit of the width, the length of the chunk, its name, its checksum.
        for (at, with) in [(19, 0x6b), (11, 12), (12, b'J'), (32, 0)] {
            damaged(PNG, at, &[with]);
        }
        damaged(WEBP, 23, b"\0");
        damaged(WEBP, 12, b"VP9 ");
        damaged(&lossless, 20, b"\0");
        // No components, and a segment too short for its own.
        damaged(JPEG, JPEG.len() - 10, b"\0");
        damaged(JPEG, 17, b"\x08");
        for (bytes, at) in
            [(GIF, 6), (GIF, 8), (JPEG, JPEG.len() - 14), (JPEG, JPEG.len() - 12), (WEBP, 26), (WEBP, 28)]
        {
            let error = changed(bytes, at, b"\0\0");
            assert!(error.contains(" x ") && error.contains("there is nothing to see"), "{error}");
        }
        assert!(of(b"BM").unwrap_err().contains("BMP"));
    }

    #[test]
    fn pictures_that_are_not_sent_are_no_clips() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        for (bytes, expected) in [
            (
                &b"BM\x10\0\0\0\0\0\0\0\x36\0\0\0\x28\0"[..],
                "is a BMP image, and only PNG, JPEG, WebP and GIF are sent",
            ),
            (b"II*\0\x08\0\0\0", "is a TIFF image, and only"),
            (b"\0\0\0\x1cftypavif\0\0\0\0", "is an AVIF image, which is not read"),
            (b"\0\0\0\x18ftypmsf1\0\0\0\0", "is a HEIF image, which is not read"),
            (b"8BPS\0\x01", "is a Photoshop file, which is not read"),
            (b"<html>login</html>", "is a web page (HTML), no clip and no image"),
            (b"{\"error\": 404}", "is a text file, no clip and no image"),
            (
                b"\x07\x01\x02\xfe",
                "is no clip and no image of a known format: it begins with the bytes 07 01 02 fe",
            ),
            (b"", "is empty"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = look(&path.as_path().into()).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("ffmpeg"), "{error}");
        }
        std::fs::write(&path, b"\0\0\0\x20ftypM4A \0\0\0\0").unwrap();
        assert!(matches!(look(&path.as_path().into()), Ok(Facts::Audio(audio)) if audio.format == "m4a"));
    }

    #[test]
    fn checksums_are_those_of_png() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic_or_hang(start in 0..5_usize, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let starts: [&[u8]; 5] = [b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8 ", b""];
            let _ = of(&[starts[start], &bytes].concat());
        }
    }
}
