//! `config.json` of text models, resolved to what the decoder needs.
//!
//! Published configs leave out what equals the defaults of the reference implementation's classes (transformers 5.24.0),
//! so absent fields get those defaults. What would change the arithmetic in a way that is not built is refused.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::local::config::read_json;
use crate::model::local::decoder::{Biases, DecoderConfig, LayerConfig};
use crate::model::local::error::LoadError;
use crate::model::local::nn::rope::Rope;
use crate::model::local::weights::Names;

/// The families of text models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Llama and what shares its arithmetic, such as `SmolLM2`.
    Llama,
    /// Qwen2 and Qwen2.5.
    Qwen2,
    /// Qwen3 (dense).
    Qwen3,
    /// Gemma 3.
    Gemma3,
}

impl Family {
    /// The name in configs and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
        }
    }

    /// The family of a `model_type` of `config.json`.
    pub fn of_model_type(kind: &str) -> Option<Self> {
        match kind {
            "llama" => Some(Self::Llama),
            "qwen2" => Some(Self::Qwen2),
            "qwen3" => Some(Self::Qwen3),
            // The second is that of checkpoints that can see too.
            "gemma3_text" | "gemma3" => Some(Self::Gemma3),
            _ => None,
        }
    }

    /// What absent fields are.
    fn defaults(self) -> Value {
        let base = json!({
            "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": null, "max_position_embeddings": 32_768,
            "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
            "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28, "layer_types": null,
            "hidden_act": "silu", "rope_theta": 10_000.0
        });
        let own = match self {
            Self::Llama => json!({
                "vocab_size": 32_000, "intermediate_size": 11_008, "num_key_value_heads": null,
                "max_position_embeddings": 2048
            }),
            Self::Qwen2 => json!({}),
            Self::Qwen3 => json!({"head_dim": 128}),
            Self::Gemma3 => json!({
                "vocab_size": 262_208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
                "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                "max_position_embeddings": 131_072, "tie_word_embeddings": true, "query_pre_attn_scalar": 256.0,
                "sliding_window_pattern": 6, "rope_theta": 1_000_000.0, "rope_local_base_freq": 10_000.0,
                "hidden_act": "gelu_pytorch_tanh"
            }),
        };
        overlaid(base, &own)
    }
}

/// An object with the fields of another over its own. A `null` there leaves the field as it is.
fn overlaid(mut base: Value, over: &Value) -> Value {
    if let (Some(base), Some(over)) = (base.as_object_mut(), over.as_object()) {
        for (key, value) in over {
            if !value.is_null() || !base.contains_key(key) || key == "num_key_value_heads" {
                base.insert(key.clone(), value.clone());
            }
        }
    }
    base
}

#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "these are the config's own fields")]
struct Raw {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    tie_word_embeddings: bool,
    attention_bias: bool,
    mlp_bias: bool,
    use_sliding_window: bool,
    sliding_window: Option<usize>,
    max_window_layers: usize,
    layer_types: Option<Vec<String>>,
    hidden_act: String,
    hidden_activation: Option<String>,
    rope_theta: f64,
    rope_local_base_freq: Option<f64>,
    rope_scaling: Option<RawRope>,
    rope_parameters: Option<RawRopes>,
    query_pre_attn_scalar: Option<f64>,
    sliding_window_pattern: Option<usize>,
    final_logit_softcapping: Option<f64>,
    attn_logit_softcapping: Option<f64>,
    use_bidirectional_attention: Option<bool>,
}

/// The rotary embedding of newer configs; in Gemma 3 one for each kind of layer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawRopes {
    full_attention: Option<RawRope>,
    sliding_attention: Option<RawRope>,
    rope_theta: Option<f64>,
    rope_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawRope {
    rope_theta: Option<f64>,
    #[serde(alias = "type")]
    rope_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

/// Reads and checks `config.json`; says too how the checkpoint names its tensors.
pub(super) fn read(folder: &Path, family: Family) -> Result<(DecoderConfig, Names), LoadError> {
    let path = folder.join("config.json");
    let value: Value = read_json(folder, "config.json")?;
    let (config, naming) = match value.get("text_config") {
        Some(text) if family == Family::Gemma3 => (resolve(family, text), Names::Composite),
        _ => (resolve(family, &value), Names::Plain),
    };
    let mut config = config.map_err(|problem| LoadError::Malformed { path, problem })?;
    if naming == Names::Composite {
        config.prefix = "language_model.";
    }
    Ok((config, naming))
}

/// The decoder of a config.
fn resolve(family: Family, value: &Value) -> Result<DecoderConfig, String> {
    let raw: Raw =
        serde_json::from_value(overlaid(family.defaults(), value)).map_err(|error| error.to_string())?;
    raw.check()?;
    let gemma = family == Family::Gemma3;
    let heads = raw.num_attention_heads;
    let kv_heads = raw.num_key_value_heads.unwrap_or(heads);
    let width = raw.head_dim.unwrap_or(raw.hidden_size / heads);
    let (frequencies, layers) = if gemma { raw.gemma_layers(width)? } else { raw.layers(width)? };
    let scale = if gemma { raw.query_pre_attn_scalar.unwrap_or(256.0) } else { width as f64 }.powf(-0.5);
    let config = DecoderConfig {
        prefix: "",
        vocabulary: raw.vocab_size,
        hidden: raw.hidden_size,
        ffn: raw.intermediate_size,
        heads,
        kv_heads,
        width,
        positions: raw.max_position_embeddings,
        epsilon: raw.rms_norm_eps,
        scale,
        tied: raw.tie_word_embeddings,
        biases: Biases {
            qkv: raw.attention_bias || family == Family::Qwen2,
            out: raw.attention_bias,
            mlp: raw.mlp_bias,
        },
        head_norms: matches!(family, Family::Qwen3 | Family::Gemma3),
        gemma,
        norms_less_one: gemma,
        frequencies,
        layers,
    };
    check(&config)?;
    Ok(config)
}

/// Sizes that can be computed with.
pub(super) fn check(config: &DecoderConfig) -> Result<(), String> {
    let counts = [
        ("vocabulary", config.vocabulary, 1 << 26),
        ("width", config.hidden, 1 << 20),
        ("width of the feed-forward part", config.ffn, 1 << 22),
        ("number of heads", config.heads, 4096),
        ("number of key and value heads", config.kv_heads, 4096),
        ("width of a head", config.width, 4096),
        ("number of positions", config.positions, 1 << 24),
        ("number of layers", config.layers.len(), 4096),
    ];
    for (name, value, most) in counts {
        if value == 0 || value > most {
            return Err(format!("the {name} is {value}; expected 1 to {most}"));
        }
    }
    if !config.heads.is_multiple_of(config.kv_heads) {
        return Err(format!(
            "{} heads are no multiple of {} key and value heads",
            config.heads, config.kv_heads
        ));
    }
    if !config.width.is_multiple_of(2) {
        return Err(format!("the width of a head is {}; expected an even number", config.width));
    }
    let positive = |x: f64| x.is_finite() && x > 0.0;
    if !positive(config.epsilon) || !positive(config.scale) {
        return Err("the epsilon of norms or the scale of attention is no positive number".to_owned());
    }
    if !config.frequencies.iter().flatten().all(|f| f.is_finite()) {
        return Err("the rotary frequencies are not finite; see rope_theta and rope_scaling".to_owned());
    }
    Ok(())
}

type Layers = (Vec<Vec<f32>>, Vec<LayerConfig>);

impl Raw {
    /// What is not built in, or cannot be divided by.
    fn check(&self) -> Result<(), String> {
        if self.num_attention_heads == 0 || self.num_key_value_heads == Some(0) {
            return Err("num_attention_heads or num_key_value_heads is 0".to_owned());
        }
        if self.num_hidden_layers > 4096 {
            return Err(format!("num_hidden_layers is {}; expected at most 4096", self.num_hidden_layers));
        }
        if self.head_dim.is_none() && !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(format!(
                "hidden_size {} is no multiple of num_attention_heads {}",
                self.hidden_size, self.num_attention_heads
            ));
        }
        let gemma = self.rope_local_base_freq.is_some();
        let built = if gemma { "gelu_pytorch_tanh" } else { "silu" };
        let asked = self.hidden_activation.as_ref().filter(|_| gemma).unwrap_or(&self.hidden_act);
        if asked != built {
            return Err(format!("the activation is `{asked}`; only `{built}` is built in"));
        }
        if self.final_logit_softcapping.is_some() || self.attn_logit_softcapping.is_some() {
            return Err("soft caps on logits are not built in".to_owned());
        }
        if self.use_bidirectional_attention == Some(true) {
            return Err("attention in both directions is not built in".to_owned());
        }
        Ok(())
    }

    /// The layers of all families but Gemma.
    fn layers(&self, width: usize) -> Result<Layers, String> {
        let rope = match (&self.rope_parameters, &self.rope_scaling) {
            (Some(ropes), _) => ropes.flat(),
            (None, Some(rope)) => rope.clone(),
            (None, None) => RawRope::default(),
        };
        let frequencies = rope.frequencies(width, self.rope_theta)?;
        let sliding = self.use_sliding_window.then_some(self.sliding_window).flatten();
        let kinds = self.kinds(|layer| sliding.is_some() && layer >= self.max_window_layers)?;
        let window = |slides: bool| if slides { sliding } else { None };
        let layers = kinds.into_iter().map(|slides| LayerConfig { rope: 0, window: window(slides) });
        Ok((vec![frequencies], layers.collect()))
    }

    /// The layers of Gemma 3: most of them see a window, and have frequencies of their own.
    fn gemma_layers(&self, width: usize) -> Result<Layers, String> {
        let ropes = self.rope_parameters.as_ref();
        let own = ropes.and_then(|ropes| ropes.full_attention.clone());
        let full = own.or_else(|| self.rope_scaling.clone()).unwrap_or_default();
        let sliding = ropes.and_then(|ropes| ropes.sliding_attention.clone()).unwrap_or_default();
        let frequencies = vec![
            full.frequencies(width, self.rope_theta)?,
            sliding.frequencies(width, self.rope_local_base_freq.unwrap_or(10_000.0))?,
        ];
        let pattern = self.sliding_window_pattern.filter(|&pattern| pattern > 0).unwrap_or(6);
        let kinds = self.kinds(|layer| !(layer + 1).is_multiple_of(pattern))?;
        let layers = kinds.into_iter().map(|slides| LayerConfig {
            rope: usize::from(slides),
            window: if slides { self.sliding_window } else { None },
        });
        Ok((frequencies, layers.collect()))
    }

    /// Which layers see a window: as `layer_types` says, else by the rule.
    fn kinds(&self, rule: impl Fn(usize) -> bool) -> Result<Vec<bool>, String> {
        let Some(types) = &self.layer_types else {
            return Ok((0..self.num_hidden_layers).map(rule).collect());
        };
        if types.len() != self.num_hidden_layers {
            return Err(format!(
                "layer_types names {} layers, and num_hidden_layers is {}",
                types.len(),
                self.num_hidden_layers
            ));
        }
        types
            .iter()
            .map(|kind| match kind.as_str() {
                "full_attention" => Ok(false),
                "sliding_attention" => Ok(true),
                other => Err(format!("layer_types names `{other}`, which is not built in")),
            })
            .collect()
    }
}

impl RawRopes {
    /// The one that all layers share.
    fn flat(&self) -> RawRope {
        self.full_attention.clone().unwrap_or_else(|| RawRope {
            rope_theta: self.rope_theta,
            rope_type: self.rope_type.clone(),
            factor: self.factor,
            low_freq_factor: self.low_freq_factor,
            high_freq_factor: self.high_freq_factor,
            original_max_position_embeddings: self.original_max_position_embeddings,
            partial_rotary_factor: self.partial_rotary_factor,
        })
    }
}

impl RawRope {
    /// The frequencies, with `theta` where the embedding names none.
    fn frequencies(&self, width: usize, theta: f64) -> Result<Vec<f32>, String> {
        let theta = self.rope_theta.unwrap_or(theta);
        if !(theta.is_finite() && theta > 0.0) {
            return Err(format!("rope_theta is {theta}; expected a positive number"));
        }
        if self.partial_rotary_factor.is_some_and(|factor| factor != 1.0) {
            return Err("partial_rotary_factor is not built in".to_owned());
        }
        let mut frequencies = Rope::frequencies(width.min(1 << 16), theta);
        let needed = |name: &str, value: Option<f64>| match value {
            Some(value) if value.is_finite() && value > 0.0 => Ok(value as f32),
            _ => Err(format!("{name} of the rotary embedding is not a positive number")),
        };
        match self.rope_type.as_deref().unwrap_or("default") {
            "default" => {}
            "linear" => {
                let factor = needed("factor", self.factor)?;
                for frequency in &mut frequencies {
                    *frequency /= factor;
                }
            }
            "llama3" => {
                let factor = needed("factor", self.factor)?;
                let low = needed("low_freq_factor", self.low_freq_factor)?;
                let high = needed("high_freq_factor", self.high_freq_factor)?;
                let trained =
                    needed("original_max_position_embeddings", self.original_max_position_embeddings)?;
                for frequency in &mut frequencies {
                    let wave = 2.0 * std::f32::consts::PI / *frequency;
                    // Slow waves are stretched, fast ones left, those between in between.
                    *frequency = if wave > trained / low {
                        *frequency / factor
                    } else if wave < trained / high {
                        *frequency
                    } else {
                        let share = (trained / wave - low) / (high - low);
                        (1.0 - share) * *frequency / factor + share * *frequency
                    };
                }
            }
            other => {
                return Err(format!("rope_type is `{other}`; `default`, `linear` and `llama3` are built in"));
            }
        }
        Ok(frequencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_configs_are_completed_with_class_defaults() {
        // The text part of Gemma 3 4B as published.
        let gemma = resolve(
            Family::Gemma3,
            &json!({"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                "sliding_window": 1024}),
        )
        .unwrap();
        assert_eq!((gemma.heads, gemma.kv_heads, gemma.width, gemma.vocabulary), (8, 4, 256, 262_208));
        assert!((gemma.scale - 0.0625).abs() < 1e-12 && gemma.tied && gemma.norms_less_one);
        assert_eq!(gemma.layers[4], LayerConfig { rope: 1, window: Some(1024) });
        assert_eq!(gemma.layers[5], LayerConfig { rope: 0, window: None });
        assert_eq!(gemma.frequencies[0][0], 0.125);
        assert_eq!(gemma.frequencies[1][0], 1.0);
        // Llama 3.2 1B, whose frequencies are stretched.
        let llama = resolve(
            Family::Llama,
            &json!({"vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 8192,
                "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
                "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0,
                "tie_word_embeddings": true, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
                "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}}),
        )
        .unwrap();
        assert_eq!(llama.frequencies[0][0], 1.0);
        let slowest = 1.0 / 500_000_f32.powf(62.0 / 64.0) / 32.0;
        assert!((llama.frequencies[0][31] / slowest - 1.0).abs() < 1e-6);
        let old = resolve(Family::Llama, &json!({"num_key_value_heads": null})).unwrap();
        assert_eq!((old.kv_heads, old.width, old.biases), (32, 128, Biases::default()));
        let qwen3 = resolve(
            Family::Qwen3,
            &json!({"hidden_size": 1024, "num_attention_heads": 16,
            "num_key_value_heads": 8, "sliding_window": null}),
        );
        // Of what transformers 5 saves, this one is read by nobody: `layer_types` says it.
        let saved = json!({"_sliding_window_pattern": 2, "num_hidden_layers": 6});
        assert_eq!(resolve(Family::Gemma3, &saved).unwrap().layers[1].window, Some(4096));
        let qwen3 = qwen3.unwrap();
        assert_eq!((qwen3.width, qwen3.head_norms, qwen3.biases.qkv), (128, true, false));
    }

    #[test]
    fn what_is_not_built_in_is_refused_with_a_sentence() {
        for (family, value, part) in [
            (Family::Qwen2, json!({"rope_scaling": {"type": "yarn", "factor": 4.0}}), "`yarn`"),
            (Family::Qwen2, json!({"hidden_act": "gelu"}), "`gelu`"),
            (Family::Llama, json!({"num_attention_heads": 0}), "is 0"),
            (Family::Llama, json!({"num_attention_heads": 7}), "no multiple"),
            (Family::Llama, json!({"num_key_value_heads": 5}), "no multiple"),
            (Family::Llama, json!({"vocab_size": "x"}), "invalid type"),
            (Family::Llama, json!({"vocab_size": 0}), "the vocabulary is 0"),
            (Family::Llama, json!({"rms_norm_eps": 0.0}), "epsilon"),
            (Family::Llama, json!({"rope_theta": -1.0}), "rope_theta is -1"),
            (Family::Llama, json!({"rope_scaling": {"rope_type": "llama3"}}), "factor"),
            (Family::Qwen3, json!({"layer_types": ["full_attention"]}), "names 1 layers"),
            (Family::Qwen3, json!({"num_hidden_layers": 1, "layer_types": ["x"]}), "names `x`"),
            (Family::Gemma3, json!({"final_logit_softcapping": 30.0}), "soft caps"),
            (Family::Gemma3, json!({"hidden_activation": "silu"}), "`silu`"),
        ] {
            let error = resolve(family, &value).unwrap_err();
            assert!(error.contains(part), "{value}: {error}");
        }
    }
}
