//! GGUF files: metadata to a decoder's config, llama.cpp's names and orders of tensors to those of Hugging Face, and
//! quantised numbers to floats while they are loaded.
//!
//! Numbers are widened at load and computed with as all others are: candle's own quantised path gave other tokens than
//! the reference on a `Q4_1` file. So a quantised file saves disk and download, not memory.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{DType, Device, Tensor};

use super::Family;
use super::config::check;
use crate::model::local::decoder::{Biases, Decoder, DecoderConfig, LayerConfig};
use crate::model::local::engine::Inventory;
use crate::model::local::error::LoadError;
use crate::model::local::nn::rope::Rope;
use crate::model::local::weights::{Source, Weights, compare};
use crate::types::Digest;

/// Files up to this size go into the digest whole.
const WHOLE: u64 = 16 << 20;

/// Of each tensor of a larger file three blocks of this size go into the digest: its first bytes, its middle, its last.
const BLOCK: u64 = 4 << 10;

/// Factors that stretch the rotary frequencies, where a file has them.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// A GGUF file, known by its header.
pub(super) struct GgufFile {
    path: PathBuf,
    bytes: u64,
    content: Content,
    family: Family,
}

impl GgufFile {
    /// Reads the header of a file and checks that it is a model of a family that is built in, and whole.
    pub(super) fn open(path: &Path) -> Result<Self, LoadError> {
        let unreadable = |source| LoadError::Unreadable { path: path.to_path_buf(), source };
        let malformed = |problem: String| LoadError::Malformed { path: path.to_path_buf(), problem };
        let file = File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        let content = Content::read(&mut BufReader::new(file)).map_err(|error| {
            malformed(format!(
                "is no GGUF file that can be read: {}",
                crate::model::local::first_line(&error)
            ))
        })?;
        let family = match content.metadata.get("general.architecture").and_then(|v| v.to_string().ok()) {
            Some(name) => match name.as_str() {
                "llama" => Family::Llama,
                "qwen2" => Family::Qwen2,
                "qwen3" => Family::Qwen3,
                "gemma3" => Family::Gemma3,
                other => {
                    return Err(malformed(format!(
                        "holds a model of the architecture `{other}`; `llama`, `qwen2`, `qwen3` and `gemma3` are \
                         built in"
                    )));
                }
            },
            None => return Err(malformed("does not say which architecture it holds".to_owned())),
        };
        let file = Self { path: path.to_path_buf(), bytes, content, family };
        for name in file.content.tensor_infos.keys() {
            file.place(name).map_err(malformed)?;
        }
        Ok(file)
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Something wrong in the file.
    pub(super) fn malformed(&self, problem: impl Into<String>) -> LoadError {
        LoadError::Malformed { path: self.path.clone(), problem: problem.into() }
    }

    /// Where the data of a tensor begin and end.
    fn place(&self, name: &str) -> Result<(u64, u64), String> {
        let Some(info) = self.content.tensor_infos.get(name) else {
            return Err(format!("has no tensor {name}"));
        };
        let numbers = info.shape.dims().iter().try_fold(1_u64, |size, &n| size.checked_mul(n as u64));
        let (block, size) = (info.ggml_dtype.block_size() as u64, info.ggml_dtype.type_size() as u64);
        let length = numbers.filter(|n| n.is_multiple_of(block)).and_then(|n| (n / block).checked_mul(size));
        let start = self.content.tensor_data_offset.checked_add(info.offset);
        match start.zip(length).and_then(|(start, length)| Some((start, start.checked_add(length)?))) {
            Some((start, end)) if end <= self.bytes => Ok((start, end)),
            _ => Err(format!(
                "is cut short or damaged: tensor {name} lies outside the file; download it again"
            )),
        }
    }

    /// A value of the metadata.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.content.metadata.get(key)
    }

    /// A text of the metadata.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(|value| value.to_string().ok()).map(String::as_str)
    }

    /// A whole number of the metadata that is not negative.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        let value = self.get(key)?;
        value.to_u64().ok().or_else(|| match value {
            Value::I8(n) => u64::try_from(*n).ok(),
            Value::I16(n) => u64::try_from(*n).ok(),
            Value::I32(n) => u64::try_from(*n).ok(),
            Value::I64(n) => u64::try_from(*n).ok(),
            _ => None,
        })
    }

    /// A number of the metadata.
    fn real(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Value::F32(value) => Some(f64::from(*value)),
            Value::F64(value) => Some(*value),
            _ => None,
        }
    }

    /// The chat template.
    pub(super) fn chat_template(&self) -> Result<&str, LoadError> {
        self.text("tokenizer.chat_template").ok_or_else(|| {
            self.malformed(
                "has no chat template (tokenizer.chat_template): use a file of an instruction-tuned model",
            )
        })
    }

    fn has(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }

    /// What the decoder is made of, checked against the tensors.
    pub(super) fn config(&self) -> Result<DecoderConfig, LoadError> {
        let config = self.resolve().map_err(|problem| self.malformed(problem))?;
        let mut shapes = BTreeMap::new();
        Decoder::shapes(&config, &mut shapes);
        let names: HashMap<String, String> =
            self.names(&config).into_iter().map(|(ours, theirs)| (theirs, ours)).collect();
        let found =
            self.content.tensor_infos.iter().map(|(name, info)| {
                (names.get(name).map_or(name.as_str(), String::as_str), info.shape.dims())
            });
        let report = compare(found, &shapes, &[ROPE_FACTORS]);
        if report.is_empty() {
            Ok(config)
        } else {
            Err(LoadError::Tensors { folder: self.path.clone(), report })
        }
    }

    fn resolve(&self) -> Result<DecoderConfig, String> {
        let arch = self.family.as_str();
        let maybe = |key: &str| {
            let number = self.number(&format!("{arch}.{key}"));
            number.map(|n| usize::try_from(n).unwrap_or(usize::MAX))
        };
        let needed = |key: &str| maybe(key).ok_or_else(|| format!("has no whole number {arch}.{key}"));
        let real = |key: &str| self.real(&format!("{arch}.{key}"));
        let gemma = self.family == Family::Gemma3;
        let hidden = needed("embedding_length")?;
        let heads = needed("attention.head_count")?;
        let layers = needed("block_count")?;
        if heads == 0 || layers > 4096 {
            return Err(format!("has {heads} heads and {layers} layers, which cannot be"));
        }
        let width = maybe("attention.key_length").unwrap_or(hidden / heads);
        if maybe("attention.value_length").is_some_and(|value| value != width) {
            return Err("has keys and values of different widths, which is not built in".to_owned());
        }
        if maybe("rope.dimension_count").is_some_and(|turned| turned != width) {
            return Err("turns a part of each head only, which is not built in".to_owned());
        }
        let theta = real("rope.freq_base").unwrap_or(if gemma { 1e6 } else { 1e4 });
        let mut frequencies = Rope::frequencies(width.min(1 << 16), theta);
        let factor = match self.text(&format!("{arch}.rope.scaling.type")) {
            None | Some("none") => 1.0,
            Some("linear") => real("rope.scaling.factor").unwrap_or(1.0),
            Some(other) => return Err(format!("has rotary scaling `{other}`; `linear` is built in")),
        };
        for frequency in &mut frequencies {
            *frequency /= factor as f32;
        }
        if self.has(ROPE_FACTORS) {
            let factors =
                self.tensor(ROPE_FACTORS).and_then(|factors| factors.flatten_all()?.to_vec1::<f32>());
            let factors = factors.map_err(|error| crate::model::local::first_line(&error))?;
            if factors.len() != frequencies.len() {
                return Err(format!(
                    "has {} rotary factors for {} frequencies",
                    factors.len(),
                    frequencies.len()
                ));
            }
            for (frequency, factor) in frequencies.iter_mut().zip(factors) {
                *frequency /= factor;
            }
        }
        let embedding = self.content.tensor_infos.get("token_embd.weight");
        let Some(&[vocabulary, _]) = embedding.map(|info| info.shape.dims()) else {
            return Err("has no embedding (token_embd.weight)".to_owned());
        };
        let mut scale = (width as f64).powf(-0.5);
        let mut all_frequencies = vec![frequencies];
        let mut kinds = vec![LayerConfig { rope: 0, window: None }; layers];
        if gemma {
            // Not in the metadata: what llama.cpp has in its code. Only the largest (62 layers) scales by another width.
            if layers == 62 {
                scale = (hidden as f64 / heads as f64).powf(-0.5);
            }
            all_frequencies.push(Rope::frequencies(width.min(1 << 16), 1e4));
            let window = maybe("attention.sliding_window");
            for (layer, kind) in kinds.iter_mut().enumerate() {
                if !(layer + 1).is_multiple_of(6) {
                    *kind = LayerConfig { rope: 1, window };
                }
            }
        }
        let config = DecoderConfig {
            prefix: "",
            vocabulary,
            hidden,
            ffn: needed("feed_forward_length")?,
            heads,
            kv_heads: maybe("attention.head_count_kv").unwrap_or(heads),
            width,
            positions: needed("context_length")?,
            epsilon: real("attention.layer_norm_rms_epsilon").unwrap_or(1e-6),
            scale,
            tied: !self.has("output.weight"),
            biases: Biases {
                qkv: self.has("blk.0.attn_q.bias"),
                out: self.has("blk.0.attn_output.bias"),
                mlp: self.has("blk.0.ffn_gate.bias"),
            },
            head_norms: matches!(self.family, Family::Qwen3 | Family::Gemma3),
            gemma,
            // The converter has added the one.
            norms_less_one: false,
            frequencies: all_frequencies,
            layers: kinds,
        };
        if config.kv_heads == 0 {
            return Err("has no key and value heads".to_owned());
        }
        check(&config)?;
        Ok(config)
    }

    /// The tensors' names in the file by their published names.
    fn names(&self, config: &DecoderConfig) -> HashMap<String, String> {
        let gemma = self.family == Family::Gemma3;
        let mut shapes = BTreeMap::new();
        Decoder::shapes(config, &mut shapes);
        let theirs = |ours: &str| -> Option<String> {
            let named = match ours {
                "model.embed_tokens.weight" => "token_embd.weight",
                "model.norm.weight" => "output_norm.weight",
                "lm_head.weight" => "output.weight",
                _ => {
                    let (layer, part) = ours.strip_prefix("model.layers.")?.split_once('.')?;
                    let (part, kind) = part.rsplit_once('.')?;
                    let part = match part {
                        "self_attn.q_proj" => "attn_q",
                        "self_attn.k_proj" => "attn_k",
                        "self_attn.v_proj" => "attn_v",
                        "self_attn.o_proj" => "attn_output",
                        "self_attn.q_norm" => "attn_q_norm",
                        "self_attn.k_norm" => "attn_k_norm",
                        "mlp.gate_proj" => "ffn_gate",
                        "mlp.up_proj" => "ffn_up",
                        "mlp.down_proj" => "ffn_down",
                        "input_layernorm" => "attn_norm",
                        "post_attention_layernorm" if gemma => "post_attention_norm",
                        "post_attention_layernorm" | "pre_feedforward_layernorm" => "ffn_norm",
                        "post_feedforward_layernorm" => "post_ffw_norm",
                        _ => return None,
                    };
                    return Some(format!("blk.{layer}.{part}.{kind}"));
                }
            };
            Some(named.to_owned())
        };
        shapes.into_keys().filter_map(|ours| theirs(&ours).map(|theirs| (ours, theirs))).collect()
    }

    /// A tensor as floats on the CPU.
    fn tensor(&self, name: &str) -> candle_core::Result<Tensor> {
        let Some(info) = self.content.tensor_infos.get(name) else {
            candle_core::bail!("the file has no tensor {name}");
        };
        let mut reader = BufReader::new(File::open(&self.path)?);
        let tensor = info.read(&mut reader, self.content.tensor_data_offset, &Device::Cpu)?;
        tensor.dequantize(&Device::Cpu)
    }

    /// The weights, to be read one by one.
    pub(super) fn weights(self, config: &DecoderConfig, dtype: DType, device: &Device) -> Weights {
        let names = self.names(config);
        let turned = (self.family == Family::Llama).then_some((config.heads, config.kv_heads));
        Weights::new(Box::new(Tensors { file: self, turned }), names, dtype, device)
    }

    /// What the file holds.
    pub(super) fn inventory(&self, config: &DecoderConfig) -> Result<Inventory, LoadError> {
        let infos = self.content.tensor_infos.values();
        let mut formats: BTreeMap<String, usize> = BTreeMap::new();
        let mut parameters = 0;
        for info in infos {
            *formats.entry(format!("{:?}", info.ggml_dtype).to_lowercase()).or_default() +=
                info.shape.elem_count();
            parameters += info.shape.elem_count() as u64;
        }
        let mut dtypes: Vec<(String, usize)> = formats.into_iter().collect();
        dtypes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let digest =
            self.digest().map_err(|source| LoadError::Unreadable { path: self.path.clone(), source })?;
        Ok(Inventory {
            architecture: self.family.as_str().to_owned(),
            parameters,
            dtypes: dtypes.into_iter().map(|(name, _)| name).collect(),
            bytes: self.bytes,
            files: vec![self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()],
            bins: None,
            vocabulary: config.vocabulary,
            max_positions: config.positions,
            digest,
        })
    }

    /// The digest of the file: all of its header, which holds tokenizer and template, and of every tensor the first,
    /// middle and last 4 KiB (all of a file of at most 16 MiB).
    fn digest(&self) -> std::io::Result<Digest> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"harness gguf 1");
        hasher.update(&self.bytes.to_le_bytes());
        let mut file = File::open(&self.path)?;
        let mut block = Vec::new();
        let mut give = |from: u64, to: u64| -> std::io::Result<()> {
            block.resize(to.saturating_sub(from) as usize, 0);
            file.seek(SeekFrom::Start(from))?;
            file.read_exact(&mut block)?;
            hasher.update(&block);
            Ok(())
        };
        let header = self.content.tensor_data_offset.min(self.bytes);
        if self.bytes <= WHOLE {
            give(0, self.bytes)?;
        } else {
            let mut at = 0;
            while at < header {
                let next = header.min(at + (1 << 20));
                give(at, next)?;
                at = next;
            }
            let names = self.content.tensor_infos.keys();
            let mut places: Vec<(u64, u64)> = names.filter_map(|name| self.place(name).ok()).collect();
            places.sort_unstable();
            for (from, to) in places {
                let middle = from + (to - from) / 2;
                give(from, to.min(from + BLOCK))?;
                give(middle, to.min(middle + BLOCK))?;
                give(from.max(to.saturating_sub(BLOCK)), to)?;
            }
        }
        Ok(Digest(*hasher.finalize().as_bytes()))
    }
}

/// The tensors of a file in the order of Hugging Face.
struct Tensors {
    file: GgufFile,
    /// Heads and key and value heads, where the converter has put the two halves of each head's rows in turn.
    turned: Option<(usize, usize)>,
}

impl Source for Tensors {
    fn load(&self, name: &str) -> candle_core::Result<Tensor> {
        let tensor = self.file.tensor(name)?;
        let heads = match self.turned {
            Some((heads, _)) if name.contains(".attn_q.") => heads,
            Some((_, kv_heads)) if name.contains(".attn_k.") => kv_heads,
            _ => return Ok(tensor),
        };
        let dims = tensor.dims().to_vec();
        let rows = dims.first().copied().unwrap_or(0);
        let inner = dims.get(1).copied().unwrap_or(1);
        let pairs = tensor.reshape((heads, rows / heads / 2, 2, inner))?;
        pairs.transpose(1, 2)?.contiguous()?.reshape(dims)
    }
}
