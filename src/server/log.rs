//! The log of a server: every line that it writes, without secrets, and the last ones at hand.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::secret::ApiKey;

/// Lines that are kept at hand.
const KEPT: usize = 20;
/// The most bytes of a line; what is longer is more than one.
const LONGEST: usize = 64 << 10;
/// The most characters of a line that is kept at hand.
const SHOWN: usize = 400;

/// A log file, shared by what writes to it.
#[derive(Clone, Debug)]
pub(super) struct Log {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    secrets: Vec<ApiKey>,
    last: VecDeque<String>,
}

impl Log {
    /// Opens the file, behind what stands in it.
    pub(super) fn open(path: &Path, secrets: &[ApiKey]) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let inner = Inner { file, secrets: secrets.to_vec(), last: VecDeque::new() };
        Ok(Self { inner: Arc::new(Mutex::new(inner)) })
    }

    /// A line of ours. A disk that is full loses lines of the log, and stops no run.
    pub(super) fn mark(&self, text: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let text = inner.clean(text);
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let _ = writeln!(inner.file, "[harness {now}] {text}");
    }

    /// Takes all that a reader gives, to its end.
    pub(super) fn take(&self, mut from: impl Read) {
        let mut chunk = [0_u8; 8192];
        let mut line = Vec::new();
        loop {
            let read = match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            for &byte in chunk.get(..read).unwrap_or_default() {
                // Progress bars end their lines with a carriage return.
                if byte == b'\n' || byte == b'\r' {
                    self.line(&line);
                    line.clear();
                } else {
                    line.push(byte);
                    if line.len() >= LONGEST {
                        self.line(&line);
                        line.clear();
                    }
                }
            }
        }
        self.line(&line);
    }

    fn line(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if text.trim().is_empty() {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let text = inner.clean(text.trim_end());
        let _ = writeln!(inner.file, "{text}");
        if inner.last.len() == KEPT {
            inner.last.pop_front();
        }
        let plain = without_escapes(&text);
        inner.last.push_back(plain.chars().take(SHOWN).collect());
    }

    /// The last line.
    pub(super) fn last_line(&self) -> String {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last.back().cloned().unwrap_or_default()
    }

    /// The last lines.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last.iter().cloned().collect()
    }

    /// Forgets the lines at hand: another process begins to write.
    pub(super) fn forget(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).last.clear();
    }
}

impl Inner {
    fn clean(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.scrub(&text))
    }
}

/// A line without the sequences that colour terminals, and without other control characters.
fn without_escapes(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            if letters.next_if_eq(&'[').is_some() {
                // Parameters up to the letter that ends the sequence.
                while letters.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
        } else if letter == '\t' {
            text.push(' ');
        } else if !letter.is_control() {
            text.push(letter);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_without_secrets_and_colours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        std::fs::write(&path, "earlier\n").unwrap();
        let log = Log::open(&path, &[ApiKey::new("sk-0123456789"), ApiKey::new("x")]).unwrap();
        log.mark("starting: serve --key sk-0123456789");
        log.take(
            "loading 10%\rloading 20%\r\n\n\u{1b}[32mINFO\u{1b}[0m key=sk-0123456789, box\tx".as_bytes(),
        );
        assert_eq!(log.last_lines(), ["loading 10%", "loading 20%", "INFO key=***, box ***"]);
        assert_eq!(log.last_line(), "INFO key=***, box ***");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("earlier\n[harness 20") && text.contains("] starting: serve --key ***\n"));
        assert!(
            text.ends_with("\u{1b}[32mINFO\u{1b}[0m key=***, box\t***\n") && !text.contains("sk-0"),
            "{text}"
        );
        log.forget();
        assert_eq!(log.last_line(), "");
    }

    #[test]
    fn what_is_no_text_and_has_no_end_is_kept_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let log = Log::open(&path, &[]).unwrap();
        let mut bytes = vec![b'a'; 3 * LONGEST / 2];
        bytes.extend([0xff, 0xfe, b'\n']);
        (0..30).for_each(|n| bytes.extend(format!("line {n}\n").bytes()));
        log.take(&bytes[..]);
        assert_eq!(log.last_lines().len(), KEPT);
        assert_eq!(log.last_line(), "line 29");
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 32);
    }
}
