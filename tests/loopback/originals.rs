//! Whether media are the files that were to arrive, byte for byte, by their SHA-256.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// A SHA-256 hash.
pub(crate) type Sha = [u8; 32];

/// The hashes of a file that `sha256sum` wrote: each at the beginning of a line.
pub(crate) fn list(path: &Path) -> io::Result<HashSet<Sha>> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: cannot be read: {error}", path.display()))
    })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            hash(line.split_whitespace().next().unwrap_or_default()).ok_or_else(|| {
                let place = format!("{}:{}", path.display(), number + 1);
                let what = "expected a SHA-256 hash at the beginning of the line, as `sha256sum` writes it";
                io::Error::new(io::ErrorKind::InvalidData, format!("{place}: {what}"))
            })
        })
        .collect()
}

/// 64 hexadecimal digits.
fn hash(text: &str) -> Option<Sha> {
    let mut sha = [0; 32];
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != sha.len() {
        return None;
    }
    for (byte, [high, low]) in sha.iter_mut().zip(pairs) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
    }
    Some(sha)
}

/// The hash of the bytes that base64 stands for, taken while it arrives.
#[derive(Default)]
pub(crate) struct Decoding {
    sha: Sha256,
    /// Up to three digits that wait for the rest of their group.
    held: Vec<u8>,
    broken: bool,
}

impl Decoding {
    /// Takes in more digits; how they are cut into updates makes no difference.
    pub(crate) fn update(&mut self, mut digits: &[u8]) {
        if !self.held.is_empty() {
            let (first, rest) = digits.split_at(digits.len().min(4 - self.held.len()));
            self.held.extend_from_slice(first);
            digits = rest;
            if self.held.len() < 4 {
                return;
            }
            let held = std::mem::take(&mut self.held);
            self.groups(&held);
        }
        let (whole, rest) = digits.split_at(digits.len() / 4 * 4);
        self.groups(whole);
        self.held.extend_from_slice(rest);
    }

    fn groups(&mut self, digits: &[u8]) {
        match base64_simd::STANDARD.decode_to_vec(digits) {
            Ok(bytes) => self.sha.update(bytes),
            Err(_) => self.broken = true,
        }
    }

    /// The hash of all; `None` where it was no base64.
    pub(crate) fn finish(self) -> Option<Sha> {
        (!self.broken && self.held.is_empty()).then(|| self.sha.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::base64;
    use super::*;

    #[test]
    fn base64_is_hashed_however_it_is_cut() {
        for length in [0, 1, 2, 3, 100, 101] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * i % 251) as u8).collect();
            let (digits, wanted) = (base64(&bytes), Sha256::digest(&bytes).into());
            for step in [1, 2, 3, 4, 5, 64] {
                let mut decoding = Decoding::default();
                digits.as_bytes().chunks(step).for_each(|digits| decoding.update(digits));
                assert_eq!(decoding.finish(), Some(wanted), "{length} bytes by {step}");
            }
        }
        for broken in ["QUJ", "QU!D", "QUJDQ"] {
            let mut decoding = Decoding::default();
            decoding.update(broken.as_bytes());
            assert_eq!(decoding.finish(), None, "{broken}");
        }
    }

    #[test]
    fn lists_are_those_of_sha256sum() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        std::fs::write(file.path(), format!("{empty}  a b.png\n\n{}\n", empty.to_uppercase())).unwrap();
        assert_eq!(list(file.path()).unwrap(), HashSet::from([Sha256::digest(b"").into()]));
        std::fs::write(file.path(), format!("{empty}\na.png\n")).unwrap();
        let error = list(file.path()).unwrap_err().to_string();
        assert!(
            error.ends_with(
                ":2: expected a SHA-256 hash at the beginning of the line, as `sha256sum` writes it"
            )
        );
        assert!(list(Path::new("/none")).unwrap_err().to_string().starts_with("/none: cannot be read"));
    }
}
