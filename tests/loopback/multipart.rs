//! Reads the multipart form of a transcription.

use sha2::{Digest as _, Sha256};

use super::content::{Content, Form, Found};
use super::hash::Mixer;

/// A field of a form.
#[derive(Debug)]
pub(crate) struct Field<'a> {
    /// Its name.
    pub(crate) name: String,
    /// The name of its file, for a file.
    pub(crate) file: Option<String>,
    /// The declared type of its content.
    pub(crate) content_type: Option<String>,
    /// The content.
    pub(crate) bytes: &'a [u8],
}

/// The boundary that a content type names.
pub(crate) fn boundary(content_type: &str) -> Option<&str> {
    let (kind, rest) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let parameters = rest.split(';').filter_map(|parameter| parameter.trim().split_once('='));
    let (_, value) = parameters.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    Some(value.trim_matches('"')).filter(|value| !value.is_empty())
}

/// The fields of a form.
pub(crate) fn fields<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Field<'a>>, &'static str> {
    const BROKEN: &str = "the form ends before its closing boundary";
    let opening = format!("--{boundary}");
    let delimiter = format!("\r\n--{boundary}");
    let finder = memchr::memmem::Finder::new(&delimiter);
    let mut rest =
        body.strip_prefix(opening.as_bytes()).ok_or("the body does not begin with the form's boundary")?;
    let mut fields = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Ok(fields);
        }
        rest = rest.strip_prefix(b"\r\n").ok_or(BROKEN)?;
        let end = finder.find(rest).ok_or(BROKEN)?;
        let (part, after) = rest.split_at(end);
        let split = memchr::memmem::find(part, b"\r\n\r\n").ok_or("a field of the form has no blank line")?;
        let head = std::str::from_utf8(&part[..split]).map_err(|_| "the head of a field is not UTF-8")?;
        fields.push(field(head, &part[split + 4..])?);
        rest = &after[delimiter.len()..];
    }
}

fn field<'a>(head: &str, bytes: &'a [u8]) -> Result<Field<'a>, &'static str> {
    let (mut name, mut file, mut content_type) = (None, None, None);
    for line in head.split("\r\n") {
        let Some((header, value)) = line.split_once(':') else { continue };
        match header.to_ascii_lowercase().as_str() {
            "content-disposition" => {
                for (key, value) in value.split(';').filter_map(|item| item.trim().split_once('=')) {
                    let value = Some(value.trim_matches('"').to_owned());
                    match key {
                        "name" => name = value,
                        "filename" => file = value,
                        _ => {}
                    }
                }
            }
            "content-type" => content_type = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    Ok(Field { name: name.ok_or("a field of the form has no name")?, file, content_type, bytes })
}

/// What a transcription's form says, with the SHA-256 of its clip where that is asked for.
pub(crate) fn content(fields: &[Field<'_>], sha256: bool) -> Content {
    let mut content = Content::default();
    for field in fields {
        let (hash, size) = (Mixer::of(field.bytes), field.bytes.len() as u64);
        match field.name.as_str() {
            "file" => {
                let sha256 = sha256.then(|| Sha256::digest(field.bytes).into());
                content.push(Found { sha256, ..Found::new(Form::Bytes, hash, size) });
            }
            "prompt" => content.push(Found::new(Form::System, hash, size)),
            "model" => content.model = Some(String::from_utf8_lossy(field.bytes).into_owned()),
            "language" => content.language = hash,
            "response_format" => {
                content.plain = field.bytes == b"text";
                content.verbose = field.bytes == b"verbose_json";
            }
            _ => {}
        }
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[u8] = b"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--x\r\n\
        content-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRI\r\n--FF\r\n--x--\r\n";

    #[test]
    fn a_form_is_read() {
        let fields = fields(FORM, "x").unwrap();
        assert_eq!(fields.len(), 2);
        assert_eq!((fields[0].name.as_str(), fields[0].bytes), ("model", &b"whisper-1"[..]));
        assert_eq!((fields[1].file.as_deref(), fields[1].bytes), (Some("a.wav"), &b"RI\r\n--FF"[..]));
        assert_eq!(fields[1].content_type.as_deref(), Some("audio/wav"));
    }

    #[test]
    fn a_form_cut_anywhere_is_refused() {
        for end in 0..FORM.len() - 4 {
            assert!(fields(&FORM[..end], "x").is_err(), "{end}");
        }
    }

    #[test]
    fn the_boundary_is_found() {
        assert_eq!(boundary("multipart/form-data; boundary=\"a b\""), Some("a b"));
        assert_eq!(boundary("Multipart/Form-Data;charset=utf-8; Boundary=x"), Some("x"));
        assert_eq!(boundary("application/json; boundary=x"), None);
    }
}
