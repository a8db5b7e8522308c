//! The tokenizer that a GGUF file carries, made whole again: its metadata hold the tokens and merges (or scores), and the
//! name of the rule by which text is split first.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{NFC, NormalizerWrapper, Prepend, Replace};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use super::gguf::GgufFile;
use crate::model::local::error::LoadError;
use crate::model::local::tokenizer::TextTokenizer;

/// How Llama 3 splits text.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How Qwen2 splits text: as Llama 3, but digits one by one.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Kinds of tokens.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// The tokenizer of a file and the ids that end a response.
pub(super) fn read(file: &GgufFile, vocabulary: usize) -> Result<(TextTokenizer, Vec<u32>), LoadError> {
    let parts = Parts::read(file).map_err(|problem| file.malformed(problem))?;
    if parts.tokens.len() > vocabulary {
        return Err(file
            .malformed(format!("has {} tokens, and an embedding of {vocabulary} rows", parts.tokens.len())));
    }
    let inner = parts.build(file).map_err(|problem| file.malformed(problem))?;
    let id = |key: &str| {
        file.number(&format!("tokenizer.ggml.{key}_token_id")).and_then(|id| u32::try_from(id).ok())
    };
    let token = |id: u32| parts.tokens.get(id as usize).cloned();
    let mut roles = Vec::new();
    for (role, key) in
        [("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"), ("pad_token", "padding")]
    {
        if let Some(token) = id(key).and_then(token) {
            roles.push((role.to_owned(), token));
        }
    }
    // Where a turn ends, beside the end of a text: under their own keys, or by the names that these families give them.
    let mut stop_ids: Vec<u32> = ["eos", "eot", "eom"].iter().filter_map(|key| id(key)).collect();
    for name in
        ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>"]
    {
        let known =
            parts.tokens.iter().zip(&parts.kinds).position(|(token, &kind)| token == name && kind == CONTROL);
        stop_ids.extend(known.map(|id| id as u32));
    }
    stop_ids.sort_unstable();
    stop_ids.dedup();
    if stop_ids.is_empty() {
        return Err(file.malformed("does not say which token ends a response (tokenizer.ggml.eos_token_id)"));
    }
    Ok((TextTokenizer::new(inner, roles), stop_ids))
}

/// The tokenizer's metadata.
struct Parts {
    tokens: Vec<String>,
    kinds: Vec<i64>,
}

impl Parts {
    fn read(file: &GgufFile) -> Result<Self, String> {
        let tokens = texts(file, "tokenizer.ggml.tokens")?;
        let kinds = match file.get("tokenizer.ggml.token_type") {
            Some(Value::Array(kinds)) => kinds
                .iter()
                .map(|kind| match kind {
                    Value::I32(kind) => i64::from(*kind),
                    Value::U32(kind) => i64::from(*kind),
                    _ => 1,
                })
                .collect(),
            _ => vec![1; tokens.len()],
        };
        if kinds.len() != tokens.len() {
            return Err(format!("has {} tokens and the kinds of {}", tokens.len(), kinds.len()));
        }
        Ok(Self { tokens, kinds })
    }

    fn build(&self, file: &GgufFile) -> Result<Tokenizer, String> {
        let mut tokenizer = match file.text("tokenizer.ggml.model") {
            Some("gpt2") => self.byte_level(file)?,
            Some("llama") => self.sentence_piece(file)?,
            other => {
                return Err(format!(
                    "has a tokenizer of the kind `{}`; `gpt2` and `llama` are built in",
                    other.unwrap_or_default()
                ));
            }
        };
        let added = |wanted: i64| {
            let tokens = self.tokens.iter().zip(&self.kinds);
            tokens.filter(move |(_, kind)| **kind == wanted).map(|(token, _)| token.clone())
        };
        let control: Vec<AddedToken> =
            added(CONTROL).map(|token| AddedToken::from(token, true).normalized(false)).collect();
        let own: Vec<AddedToken> =
            added(USER_DEFINED).map(|token| AddedToken::from(token, false).normalized(false)).collect();
        tokenizer.add_special_tokens(control).map_err(|error| error.to_string())?;
        tokenizer.add_tokens(own).map_err(|error| error.to_string())?;
        Ok(tokenizer)
    }

    fn vocabulary(&self) -> Vocab {
        self.tokens.iter().cloned().zip(0..).collect()
    }

    /// Byte pairs over bytes written as letters, as GPT-2 has them.
    fn byte_level(&self, file: &GgufFile) -> Result<Tokenizer, String> {
        let merges = texts(file, "tokenizer.ggml.merges")?;
        let merges = merges
            .iter()
            .map(|merge| {
                let pair = merge.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
                pair.ok_or_else(|| format!("has a merge without two parts, `{merge}`"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let rule = file.text("tokenizer.ggml.pre").unwrap_or("default");
        let whole_words_first = matches!(rule, "llama-bpe" | "llama3" | "llama-v3");
        let model = BPE::builder()
            .vocab_and_merges(self.vocabulary(), merges)
            .ignore_merges(whole_words_first)
            .build()
            .map_err(|error| format!("has a tokenizer that cannot be built: {error}"))?;
        let bytes = |split: bool| PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, split));
        let split = |pattern: &str| {
            Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false)
                .map(PreTokenizerWrapper::Split)
                .map_err(|error| error.to_string())
        };
        let first = match rule {
            "llama-bpe" | "llama3" | "llama-v3" => vec![split(LLAMA3)?, bytes(false)],
            "qwen2" => vec![split(QWEN2)?, bytes(false)],
            "smollm" => vec![PreTokenizerWrapper::Digits(Digits::new(true)), bytes(true)],
            "gpt-2" => vec![bytes(true)],
            other => {
                return Err(format!(
                    "splits text by the rule `{other}` (tokenizer.ggml.pre); `llama-bpe`, `qwen2`, `smollm` and \
                     `gpt-2` are built in: use the model's safetensors"
                ));
            }
        };
        let mut tokenizer = Tokenizer::new(model);
        if rule == "qwen2" {
            tokenizer
                .with_normalizer(Some(NormalizerWrapper::NFC(NFC)))
                .map_err(|error| error.to_string())?;
        }
        tokenizer.with_pre_tokenizer(Some(PreTokenizerWrapper::Sequence(Sequence::new(first))));
        tokenizer.with_decoder(Some(DecoderWrapper::ByteLevel(ByteLevel::new(false, true, true))));
        Ok(tokenizer)
    }

    /// Pieces with scores, as sentencepiece has them: the merges are all ways to put a piece together of two others, the
    /// best score first.
    fn sentence_piece(&self, file: &GgufFile) -> Result<Tokenizer, String> {
        let Some(Value::Array(scores)) = file.get("tokenizer.ggml.scores") else {
            return Err("has a tokenizer without scores (tokenizer.ggml.scores)".to_owned());
        };
        if scores.len() != self.tokens.len() {
            return Err(format!("has {} tokens and the scores of {}", self.tokens.len(), scores.len()));
        }
        let ids: HashMap<&str, u32> = self.tokens.iter().map(String::as_str).zip(0..).collect();
        let added = |id: u32| matches!(self.kinds.get(id as usize), Some(&(CONTROL | USER_DEFINED)));
        let mut ranked: Vec<(f32, u32, u32, &str, &str)> = Vec::new();
        for (token, score) in self.tokens.iter().zip(scores) {
            let Value::F32(score) = score else { return Err("has scores that are no numbers".to_owned()) };
            if ids.get(token.as_str()).is_none_or(|&id| added(id)) {
                continue;
            }
            for (at, _) in token.char_indices().skip(1) {
                let (left, right) = token.split_at(at);
                if let (Some(&a), Some(&b)) = (ids.get(left), ids.get(right))
                    && !added(a)
                    && !added(b)
                {
                    ranked.push((*score, a, b, left, right));
                }
            }
        }
        ranked.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)).then(x.2.cmp(&y.2)));
        let merges =
            ranked.into_iter().map(|(_, _, _, left, right)| (left.to_owned(), right.to_owned())).collect();
        let unknown =
            file.number("tokenizer.ggml.unknown_token_id").and_then(|id| self.tokens.get(id as usize));
        let mut model =
            BPE::builder().vocab_and_merges(self.vocabulary(), merges).byte_fallback(true).fuse_unk(true);
        if let Some(unknown) = unknown {
            model = model.unk_token(unknown.clone());
        }
        let model =
            model.build().map_err(|error| format!("has a tokenizer that cannot be built: {error}"))?;
        let mut tokenizer = Tokenizer::new(model);
        let prefix = !matches!(file.get("tokenizer.ggml.add_space_prefix"), Some(Value::Bool(false)));
        let spaces = Replace::new(" ", "▁").map_err(|error| error.to_string())?;
        let mut normalizers = Vec::new();
        if prefix {
            normalizers.push(NormalizerWrapper::Prepend(Prepend::new("▁".to_owned())));
        }
        normalizers.push(NormalizerWrapper::Replace(spaces));
        let normalizers = NormalizerWrapper::Sequence(tokenizers::normalizers::Sequence::new(normalizers));
        tokenizer.with_normalizer(Some(normalizers)).map_err(|error| error.to_string())?;
        let blanks = tokenizers::normalizers::Replace::new("▁", " ").map_err(|error| error.to_string())?;
        let mut decoders = vec![
            DecoderWrapper::Replace(blanks),
            DecoderWrapper::ByteFallback(ByteFallback::new()),
            DecoderWrapper::Fuse(Fuse::new()),
        ];
        if prefix {
            decoders.push(DecoderWrapper::Strip(Strip::new(' ', 1, 0)));
        }
        tokenizer.with_decoder(Some(DecoderWrapper::Sequence(
            tokenizers::decoders::sequence::Sequence::new(decoders),
        )));
        Ok(tokenizer)
    }
}

/// A list of texts of the metadata.
fn texts(file: &GgufFile, key: &str) -> Result<Vec<String>, String> {
    let Some(Value::Array(values)) = file.get(key) else { return Err(format!("has no list {key}")) };
    values
        .iter()
        .map(|value| {
            value.to_string().cloned().map_err(|_| format!("has something else than texts in {key}"))
        })
        .collect()
}
