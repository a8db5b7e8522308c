//! Images that stand in a column as base64: how they are known, and what they are.

use bytes::Bytes;

use crate::media::MediaContent;

/// Text of this length in a column of images is an image and no path, whatever it begins with.
const LONG: usize = 1000;

/// How PNG, JPEG, GIF, WebP and data URLs begin in base64.
const STARTS: [&str; 5] = ["iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "data:image/"];

/// Whether text under this name may be an image in base64.
pub(super) fn is_image_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("image") || name.eq_ignore_ascii_case("images")
}

/// Whether text in a column of images is the image itself.
pub(super) fn is_image(text: &str) -> bool {
    let text = text.trim_start();
    text.len() >= LONG
        || (text.len() >= 64 && !text.contains('.') && STARTS.iter().any(|start| text.starts_with(start)))
}

/// The bytes of an image. Line breaks are passed over, padding may lack, the URL alphabet is taken too.
pub(super) fn decode(text: &str) -> Result<MediaContent, String> {
    let text = text.trim();
    let body = match text.strip_prefix("data:") {
        Some(url) => match url.split_once(',') {
            Some((head, body)) if head.ends_with(";base64") => body,
            _ => {
                return Err("is a data URL without base64; expected `data:image/png;base64,…`: correct the row, or get the file \
                            again"
                    .to_owned());
            }
        },
        None => text,
    };
    let decoded = if body.contains(['-', '_']) {
        base64_simd::forgiving_decode_to_vec(body.replace('-', "+").replace('_', "/").as_bytes())
    } else {
        base64_simd::forgiving_decode_to_vec(body.as_bytes())
    };
    let bytes = decoded.map_err(|_| {
        let start: String = body.chars().take(24).collect();
        format!(
            "is {} characters of text that is neither base64 nor a path; it begins `{start}`: correct the row, or get the \
             file again",
            body.len()
        )
    })?;
    Ok(MediaContent::File(Bytes::from(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_from_paths() {
        assert!(!is_image("images/0001.png"));
        assert!(!is_image("/9j/a.jpg"));
        assert!(is_image(&format!("iVBORw0KGgo{}", "A".repeat(60))));
        assert!(is_image(&"x".repeat(1000)));
    }

    #[test]
    fn line_breaks_and_both_alphabets_are_taken_and_rubbish_is_named() {
        let file = |bytes: &[u8]| Ok(MediaContent::File(Bytes::copy_from_slice(bytes)));
        assert_eq!(decode("+/8A\nAQ==\r\n"), file(&[0xfb, 0xff, 0, 1]));
        assert_eq!(decode("-_8AAQ"), file(&[0xfb, 0xff, 0, 1]));
        assert_eq!(decode("data:image/png;base64,AAE="), file(&[0, 1]));
        let rubbish = decode("not base64 at all!").unwrap_err();
        assert!(rubbish.contains("neither base64 nor a path; it begins `not base64"), "{rubbish}");
        assert!(decode("data:image/png,AAE=").is_err());
    }
}
