//! Counting tokens of a model that is not here, with its tokenizer's file.

use std::path::{Path, PathBuf};

use crate::types::Digest;

/// The largest file that is read as a tokenizer.
#[cfg(feature = "local")]
const LARGEST: u64 = 256 << 20;

/// A tokenizer that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file.
    #[error("{}: {reason}; name the tokenizer.json of the model, or the folder that it is in", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The build lacks tokenizers.
    #[error(
        "this build of harness has no tokenizers; build it with the cargo feature `local` (it is a default feature), or \
         leave the tokenizer out: then tokens are estimated"
    )]
    NotBuilt,
}

/// Counts tokens.
pub struct Tokens {
    /// The digest of its file.
    pub digest: Digest,
    #[cfg(feature = "local")]
    inner: tokenizers::Tokenizer,
}

#[cfg(feature = "local")]
impl Tokens {
    /// Reads a `tokenizer.json`, or that of a folder.
    pub fn open(path: &Path) -> Result<Self, TokensError> {
        let path = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let wrong = |reason: String| TokensError::File { path: path.clone(), reason };
        let size = std::fs::metadata(&path).map_err(|e| wrong(e.to_string()))?.len();
        if size > LARGEST {
            return Err(wrong(format!("it has {}, more than any tokenizer", crate::types::size(size))));
        }
        let bytes = std::fs::read(&path).map_err(|e| wrong(e.to_string()))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(&bytes)
            .map_err(|e| wrong(format!("it is no tokenizer that can be read: {e}")))?;
        // What was saved with it would hide what does not fit.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| wrong(e.to_string()))?;
        Ok(Self { digest: Digest::of(&bytes), inner })
    }

    /// The tokens of a text, with those that the tokenizer puts before and behind every text. A text that it cannot take
    /// counts as one token a byte, which is the most.
    pub fn count(&self, text: &str) -> u64 {
        self.inner.encode_fast(text, true).map_or(text.len(), |found| found.get_ids().len()) as u64
    }
}

#[cfg(not(feature = "local"))]
impl Tokens {
    /// Says that there are no tokenizers.
    pub fn open(_: &Path) -> Result<Self, TokensError> {
        Err(TokensError::NotBuilt)
    }

    /// The tokens of a text.
    pub fn count(&self, text: &str) -> u64 {
        text.len() as u64
    }
}

#[cfg(all(test, feature = "local"))]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_file() {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/model");
        let tokens = Tokens::open(&model).unwrap();
        assert_eq!(tokens.count(""), 0);
        // A special token is one; the words of the demo are few.
        assert_eq!(tokens.count("<|im_end|>"), 1);
        let text = "The question is spoken in English. Answer it in French.";
        let count = tokens.count(text);
        assert!(count >= 10 && count < text.len() as u64, "{count}");
        assert_eq!(tokens.digest, Tokens::open(&model.join("tokenizer.json")).unwrap().digest);
    }

    #[test]
    fn what_is_no_tokenizer_gets_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| Tokens::open(path).err().unwrap().to_string();
        assert!(error(folder.path()).contains("name the tokenizer.json"));
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, "{}").unwrap();
        assert!(error(folder.path()).contains("no tokenizer that can be read"), "{}", error(&path));
    }
}
