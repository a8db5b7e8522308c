//! What the header of an image says: size, frames, alpha. Nothing is decoded.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};

use super::sniff;
use crate::media::source::{MediaContent, MediaSource, SampleValues};
use crate::media::{audio, sentence};
use crate::types::AudioSource;

/// What the header of an image says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFacts {
    /// `png`, `jpeg`, `webp` or `gif`.
    pub format: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels, before any rotation that the file asks for.
    pub height: u32,
}

/// Format and size of an image. An error is a sentence that reads well after the source's name.
pub fn probe_image(source: &MediaSource) -> Result<ImageFacts, String> {
    if let MediaSource::File(path) = source {
        return facts(&mut BufReader::new(File::open(path).map_err(sentence)?));
    }
    match source.read()? {
        MediaContent::File(bytes) => facts(&mut Cursor::new(bytes)),
        MediaContent::Samples(_) => Err("is audio, not an image".to_owned()),
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
        reader.by_ref().take(64).read_to_end(&mut head).map_err(sentence)?;
        reader.seek(SeekFrom::Start(0)).map_err(sentence)?;
        if sniff::format(&head).is_ok() {
            return facts(reader).map(Facts::Image);
        }
        let format = audio::format(reader).map_err(sentence)?.map_err(|other| other.to_string())?;
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

fn facts(reader: &mut (impl Read + Seek)) -> Result<ImageFacts, String> {
    let mut head = Vec::new();
    reader.by_ref().take(512).read_to_end(&mut head).map_err(sentence)?;
    let format = sniff::format(&head)?;
    let size = match format {
        "png" => big(&head, 16).zip(big(&head, 20)),
        "gif" => little16(&head, 6).zip(little16(&head, 8)),
        "webp" => webp(&head),
        _ => jpeg(reader).map_err(sentence)?.map(|(width, height, _)| (width, height)),
    };
    let size = size.filter(|(width, height)| *width > 0 && *height > 0);
    let (width, height) =
        size.ok_or_else(|| format!("is a {format} image whose header is damaged or cut short"))?;
    Ok(ImageFacts { format, width, height })
}

/// Format and size of an image in memory.
pub(super) fn facts_of(bytes: &[u8]) -> Result<ImageFacts, String> {
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
        "jpeg" => jpeg(&mut Cursor::new(bytes)).ok()?.map(|(width, height, _)| (width, height)),
        "bmp" if bytes.get(14) == Some(&12) => little16(bytes, 18).zip(little16(bytes, 20)),
        "bmp" => little32(18).zip(little32(22)),
        _ => None,
    }
}

/// The number of colour components of a JPEG image.
pub(super) fn jpeg_components(bytes: &[u8]) -> Option<u8> {
    jpeg(&mut Cursor::new(bytes)).ok()?.map(|(_, _, components)| components)
}

fn big(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn little16(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from(u16::from_le_bytes(*bytes)))
}

fn webp(head: &[u8]) -> Option<(u32, u32)> {
    let little24 = |at| Some(little16(head, at)? | u32::from(*head.get(at + 2)?) << 16);
    match head.get(12..16)? {
        b"VP8X" => Some((little24(24)? + 1, little24(27)? + 1)),
        b"VP8L" => {
            let bits = head.get(21..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((little16(head, 26)? & 0x3fff, little16(head, 28)? & 0x3fff)),
        _ => None,
    }
}

/// Walks the segments to the frame header: width, height, components (0 where the file ends before their number).
fn jpeg(reader: &mut (impl Read + Seek)) -> std::io::Result<Option<(u32, u32, u8)>> {
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
        let [0xff, marker, a, b, _, c, d, e, f, components] = head else { return Ok(None) };
        let length = u16::from_be_bytes([a, b]);
        match marker {
            // Padding, and markers without a body.
            0xff => place += 1,
            0x01 | 0xd0..=0xd8 => place += 2,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let of = |pair| u32::from(u16::from_be_bytes(pair));
                return Ok((got >= 9).then(|| (of([e, f]), of([c, d]), components)));
            }
            _ if length < 2 || got < 4 => return Ok(None),
            _ => place += 2 + u64::from(length),
        }
        if reader.seek(SeekFrom::Start(place))? != place || got < 4 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Result<(&'static str, u32, u32), String> {
        facts(&mut Cursor::new(bytes)).map(|facts| (facts.format, facts.width, facts.height))
    }

    const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x03x\xff\xc2\0\x11\x08\0\x38\0\x6a\x03";

    #[test]
    fn sizes_stand_in_headers() {
        assert_eq!(of(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x6a\0\0\0\x38"), Ok(("png", 106, 56)));
        assert_eq!(of(b"GIF89a\x6a\0\x38\0"), Ok(("gif", 106, 56)));
        assert_eq!(of(JPEG), Ok(("jpeg", 106, 56)));
        let mut large = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
        large.extend([0x69, 0, 0, 0x37, 0, 0]);
        assert_eq!(of(&large), Ok(("webp", 106, 56)));
        let bits = (106_u32 - 1) | (56 - 1) << 14;
        let mut lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f".to_vec();
        lossless.extend(bits.to_le_bytes());
        assert_eq!(of(&lossless), Ok(("webp", 106, 56)));
        assert_eq!(of(b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x6a\0\x38\0"), Ok(("webp", 106, 56)));
    }

    #[test]
    fn damaged_headers_are_named() {
        for cut in 2..JPEG.len() - 1 {
            assert!(of(&JPEG[..cut]).is_err(), "{cut}");
        }
        assert!(of(b"\x89PNG\r\n\x1a\n\0\0").unwrap_err().contains("header is damaged or cut short"));
        assert!(of(b"GIF89a\0\0\0\0").is_err());
        assert!(of(b"BM").unwrap_err().contains("BMP"));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic_or_hang(start in 0..5_usize, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let starts: [&[u8]; 5] = [b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8 ", b""];
            let _ = of(&[starts[start], &bytes].concat());
        }
    }
}
