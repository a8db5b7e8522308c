//! The bridge from the audio encoder to the text model: one linear layer.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};

use super::config::Config;
use super::nn::linear::Linear;
use super::weights::Weights;

/// The projector.
pub(super) struct Projector(Linear);

impl Projector {
    /// Adds the projector's tensors to `shapes`, by published name.
    pub(super) fn shapes(config: &Config, shapes: &mut BTreeMap<String, Vec<usize>>) {
        let (from, to) = (config.audio.d_model, config.text.hidden_size);
        shapes.insert("multi_modal_projector.linear.weight".to_owned(), vec![to, from]);
        shapes.insert("multi_modal_projector.linear.bias".to_owned(), vec![to]);
    }

    pub(super) fn load(weights: &Weights) -> Result<Self> {
        Ok(Self(Linear::load(weights, "multi_modal_projector.linear")?))
    }

    /// (tokens, encoder width) to (tokens, text width).
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }
}
