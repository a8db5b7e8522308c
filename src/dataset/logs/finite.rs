//! Bytes of JSON in which Python's `NaN` and `Infinity` have become numbers of the same length.

use std::io::Read;

/// What stands in for a word. JSON has no other word that begins with these letters.
fn stand_in(first: u8) -> Option<(&'static [u8], &'static [u8])> {
    match first {
        b'N' => Some((b"NaN", b"0.0")),
        b'I' => Some((b"Infinity", b"1.000000")),
        _ => None,
    }
}

/// Reads JSON, and lets no number through that is none.
pub(super) struct Finite<R> {
    inner: R,
    text: bool,
    escaped: bool,
    /// The word that is being replaced, and how far.
    word: Option<(u8, usize)>,
}

impl<R> Finite<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, text: false, escaped: false, word: None }
    }

    fn pass(&mut self, byte: u8) -> u8 {
        if byte == b'\n' {
            // No string goes over a line: what was not closed is an error of its line alone.
            (self.text, self.escaped, self.word) = (false, false, None);
            return byte;
        }
        if self.text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.text = false,
                _ => {}
            }
            return byte;
        }
        let (first, at) = self.word.take().unwrap_or((byte, 0));
        if let Some((word, number)) = stand_in(first)
            && let (Some(expected), Some(replaced)) = (word.get(at), number.get(at))
            && *expected == byte
        {
            self.word = (at + 1 < word.len()).then_some((first, at + 1));
            return *replaced;
        }
        self.text = byte == b'"';
        byte
    }
}

impl<R: Read> Read for Finite<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(bytes)?;
        for byte in bytes.iter_mut().take(read) {
            *byte = self.pass(*byte);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passed(text: &str) -> String {
        let mut out = String::new();
        Finite::new(text.as_bytes()).read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn words_outside_strings_become_numbers() {
        assert_eq!(
            passed(r#"{"NaN": NaN, "a": [-Infinity,Infinity], "b": "\"NaN"}"#),
            r#"{"NaN": 0.0, "a": [-1.000000,1.000000], "b": "\"NaN"}"#
        );
        assert_eq!(passed("{\"open: 1\n{\"a\": NaN}"), "{\"open: 1\n{\"a\": 0.0}");
        let value: serde_json::Value = serde_json::from_str(&passed(r#"[NaN, "Nan", Infinity]"#)).unwrap();
        assert_eq!(value, serde_json::json!([0.0, "Nan", 1.0]));
    }

    proptest! {
        #[test]
        fn what_is_json_stays_as_it_is(texts: Vec<String>, number: f64) {
            let number = if number.is_finite() { number } else { 0.5 };
            let json = serde_json::json!({"NaN": texts, "b": number}).to_string();
            prop_assert_eq!(passed(&json), json);
        }
    }
}
