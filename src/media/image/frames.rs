//! What an image holds beside its first frame, and whether a JPEG or PNG image ends where it should: walks over the structure
//! of files, without decoding. Every step moves forward, so walks end.

/// Whether an image of this format has more than one frame.
pub(super) fn is_animated(bytes: &[u8], format: &str) -> bool {
    match format {
        "gif" => gif_frames(bytes) > 1,
        "png" => png_chunk(bytes, *b"acTL")
            .and_then(|body| body.first_chunk())
            .is_some_and(|n| u32::from_be_bytes(*n) > 1),
        // The animation bit of the extended header.
        "webp" => bytes.get(12..16) == Some(b"VP8X") && bytes.get(20).is_some_and(|flags| flags & 2 != 0),
        "tiff" => tiff_pages(bytes).is_some_and(|more| more),
        _ => false,
    }
}

/// Whether a TIFF image has a second page: whether its first directory names a next one.
fn tiff_pages(bytes: &[u8]) -> Option<bool> {
    let little = bytes.starts_with(b"II");
    let short = |at: usize| {
        let found = *bytes.get(at..)?.first_chunk()?;
        Some(usize::from(if little { u16::from_le_bytes(found) } else { u16::from_be_bytes(found) }))
    };
    let long = |at: usize| {
        let found = *bytes.get(at..)?.first_chunk()?;
        usize::try_from(if little { u32::from_le_bytes(found) } else { u32::from_be_bytes(found) }).ok()
    };
    let first = long(4)?;
    let entries = short(first)?;
    Some(long(first.checked_add(2 + 12 * entries)?)? != 0)
}

/// Whether a PNG comes with a colour profile.
pub(super) fn has_profile(png: &[u8]) -> bool {
    png_chunk(png, *b"iCCP").is_some()
}

/// The content of the first chunk of a name before the pixels.
fn png_chunk(bytes: &[u8], name: [u8; 4]) -> Option<&[u8]> {
    let mut rest = bytes.get(8..)?;
    loop {
        let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
        let found = rest.get(4..8)?;
        if found == name {
            return rest.get(8..8_usize.checked_add(length)?);
        }
        if found == b"IDAT" || found == b"IEND" {
            return None;
        }
        rest = rest.get(length.checked_add(12)?..)?;
    }
}

/// Whether the pixels of a PNG are all there: whether another chunk begins behind them, without which the decoder does not
/// take them either.
pub(super) fn png_is_whole(bytes: &[u8]) -> bool {
    fn walk(bytes: &[u8]) -> Option<()> {
        let mut rest = bytes.get(8..)?;
        let mut pixels = false;
        loop {
            let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
            let found = rest.get(4..8)?;
            if found == b"IDAT" {
                pixels = true;
            } else if pixels {
                return Some(());
            }
            rest = rest.get(length.checked_add(12)?..)?;
        }
    }
    walk(bytes).is_some()
}

/// The frames of a GIF image, counted up to the second.
fn gif_frames(bytes: &[u8]) -> usize {
    fn walk(bytes: &[u8], frames: &mut usize) -> Option<()> {
        let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
        let mut at = 13 + table(*bytes.get(10)?);
        loop {
            match *bytes.get(at)? {
                0x2c => {
                    *frames += 1;
                    if *frames > 1 {
                        return None;
                    }
                    // Its colours, then the size of its codes.
                    at += 10 + table(*bytes.get(at + 9)?) + 1;
                }
                0x21 => at += 2,
                _ => return None,
            }
            // Blocks up to an empty one.
            loop {
                let length = usize::from(*bytes.get(at)?);
                at += 1 + length;
                if length == 0 {
                    break;
                }
            }
        }
    }
    let mut frames = 0;
    let _ = walk(bytes, &mut frames);
    frames
}

/// Whether a JPEG image ends with its end marker. Decoders fill up what is missing with grey, and nobody would know.
pub(super) fn jpeg_is_whole(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(rest) = bytes.get(at..) {
        let [0xff, marker, ..] = rest else {
            // Stray bytes between segments, or compressed data: on to the next marker.
            match memchr::memchr(0xff, rest.get(1..).unwrap_or_default()) {
                Some(found) => at += 1 + found,
                None => return false,
            }
            continue;
        };
        match marker {
            0xd9 => return true,
            // Padding, a stuffed byte, and markers without a body.
            0xff => at += 1,
            0x00 | 0x01 | 0xd0..=0xd8 => at += 2,
            _ => match rest.get(2..4).and_then(<[u8]>::first_chunk) {
                Some(length) => at += 2 + usize::from(u16::from_be_bytes(*length)).max(2),
                None => return false,
            },
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_jpeg_is_found_behind_its_scans() {
        let whole: &[u8] = b"\xff\xd8\xff\xe0\0\x04\xff\xd9\xff\xda\0\x02ab\xff\0c\xff\xd0d\xff\xd9";
        assert!(jpeg_is_whole(whole));
        for cut in 2..whole.len() {
            assert!(!jpeg_is_whole(&whole[..cut]), "{cut}");
        }
        assert!(jpeg_is_whole(&[whole, b"behind"].concat()));
    }

    #[test]
    fn frames_are_counted_up_to_the_second() {
        let frame: &[u8] = b"\x21\xf9\x02ab\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
        let head: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0abcdef";
        for (frames, expect) in [(0, false), (1, false), (2, true), (3, true)] {
            let file = [head, &frame.repeat(frames), b"\x3b"].concat();
            assert_eq!(is_animated(&file, "gif"), expect, "{frames}");
        }
        let chunk: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x01IHDRxcrcc\0\0\0\x08acTL\0\0\0\x02\0\0\0\0crcc";
        assert!(is_animated(chunk, "png"));
        assert!(!is_animated(&chunk[..30], "png"));
    }

    proptest::proptest! {
        #[test]
        fn walks_end(start in 0..4_usize, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let (format, start): (&str, &[u8]) = [
                ("gif", &b"GIF89a\x01\0\x01\0\x80\0\0abcdef"[..]), ("png", b"\x89PNG\r\n\x1a\n"), ("jpeg", b"\xff\xd8"), ("webp", b""),
            ][start];
            let bytes = [start, &bytes].concat();
            let _ = (is_animated(&bytes, format), jpeg_is_whole(&bytes), png_is_whole(&bytes));
        }
    }
}
