//! The tokenizer of a checkpoint, with its special ids checked when it is loaded.

use std::path::Path;

use serde_json::Value;
use tokenizers::Tokenizer;

use super::config::{self, Config};
use super::error::LoadError;

/// A tokenizer with the special tokens that have a role.
pub struct TextTokenizer {
    inner: Tokenizer,
    /// Special tokens by their role (`eos_token`, `bos_token`…), for the chat template.
    pub roles: Vec<(String, String)>,
    /// The id of `eos_token`, if there is one.
    pub eos_id: Option<u32>,
}

impl TextTokenizer {
    /// Reads `tokenizer.json` and `tokenizer_config.json` of a model with a vocabulary of `vocabulary`.
    pub fn read(folder: &Path, vocabulary: usize) -> Result<Self, LoadError> {
        let inner = read_tokenizer(folder)?;
        let largest = inner.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= vocabulary {
            return Err(LoadError::Unfit {
                folder: folder.to_path_buf(),
                problem: format!(
                    "tokenizer.json has tokens up to {largest}, but config.json gives the model a vocabulary of \
                     {vocabulary}; the two files are of different models"
                ),
            });
        }
        let settings: Value = config::read_json(folder, "tokenizer_config.json")?;
        Ok(Self::new(inner, roles(&settings)))
    }

    /// A tokenizer that was made otherwise.
    pub(super) fn new(inner: Tokenizer, roles: Vec<(String, String)>) -> Self {
        let eos_id = roles
            .iter()
            .find(|(role, _)| role == "eos_token")
            .and_then(|(_, token)| inner.token_to_id(token));
        Self { inner, roles, eos_id }
    }

    /// The ids of a text in which special tokens are written out. Nothing is added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.inner
            .encode_fast(text, false)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| format!("the prompt cannot be tokenized: {error}"))
    }

    /// The text of ids, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.inner.decode(ids, true).map_err(|error| format!("the answer cannot be decoded: {error}"))
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token of an id.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }
}

/// `tokenizer.json` of a folder.
pub(super) fn read_tokenizer(folder: &Path) -> Result<Tokenizer, LoadError> {
    let (path, bytes) = config::read_file(folder, "tokenizer.json")?;
    let malformed = |problem: String| LoadError::Malformed { path: path.clone(), problem };
    if bytes.starts_with(super::weights::LFS_MARK) {
        return Err(malformed(super::weights::LFS_SENTENCE.to_owned()));
    }
    let mut inner = Tokenizer::from_bytes(&bytes)
        .map_err(|error| malformed(format!("is no tokenizer that can be read: {error}")))?;
    // Padding and truncation saved with a tokenizer would change prompts unseen.
    inner.with_padding(None);
    inner.with_truncation(None).map_err(|error| malformed(error.to_string()))?;
    Ok(inner)
}

/// A tokenizer whose placeholder for audio is known.
pub struct AudioTokenizer {
    /// The tokenizer.
    pub text: TextTokenizer,
    /// The placeholder as text: `<|AUDIO|>` in the published model.
    pub placeholder: String,
    /// Its id.
    pub placeholder_id: u32,
}

impl AudioTokenizer {
    /// Reads `tokenizer.json` and `tokenizer_config.json` and checks them against the config.
    pub fn read(folder: &Path, config: &Config) -> Result<Self, LoadError> {
        let text = TextTokenizer::read(folder, config.text.vocab_size)?;
        let placeholder_id = config.audio_token;
        let Some(placeholder) = text.token(placeholder_id) else {
            return Err(LoadError::Unfit {
                folder: folder.to_path_buf(),
                problem: format!(
                    "config.json says that token {placeholder_id} stands for audio (audio_token_index), but \
                     tokenizer.json has no such token; the two files are of different models"
                ),
            });
        };
        if text.encode(&placeholder).unwrap_or_default() != [placeholder_id] {
            return Err(LoadError::Unfit {
                folder: folder.to_path_buf(),
                problem: format!(
                    "token {placeholder_id} (`{placeholder}`) should stand for audio (audio_token_index in \
                     config.json), but tokenizer.json does not treat it as a special token"
                ),
            });
        }
        Ok(Self { text, placeholder, placeholder_id })
    }

    /// The ids of a text in which special tokens are written out. Nothing is added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.text.encode(text)
    }
}

/// Special tokens by role; a role holds a text, or an object with the text in `content`.
fn roles(settings: &Value) -> Vec<(String, String)> {
    let Some(settings) = settings.as_object() else { return Vec::new() };
    settings
        .iter()
        .filter(|(role, _)| role.ends_with("_token"))
        .filter_map(|(role, value)| {
            let token = value.as_str().or_else(|| value.get("content").and_then(Value::as_str))?;
            Some((role.clone(), token.to_owned()))
        })
        .collect()
}
