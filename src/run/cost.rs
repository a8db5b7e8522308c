//! What a run costs, where prices are configured.

use serde::{Deserialize, Serialize};

use crate::types::Usage;

/// Prices of tokens, in a currency of the user's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// For a million tokens of prompts.
    pub input_per_million: f64,
    /// For a million tokens of answers.
    pub output_per_million: f64,
    /// What a run may cost; it stops when it has cost as much.
    pub max_cost: Option<f64>,
}

impl Price {
    /// What tokens cost.
    pub fn of(&self, usage: &Usage) -> f64 {
        let million = |tokens: u64| tokens as f64 / 1e6;
        million(usage.prompt_tokens) * self.input_per_million
            + million(usage.completion_tokens) * self.output_per_million
    }

    /// Whether tokens cost as much as a run may.
    pub fn reached(&self, usage: &Usage) -> bool {
        self.max_cost.is_some_and(|most| self.of(usage) >= most)
    }
}

/// Adds tokens to a sum.
pub fn add(sum: &mut Usage, more: &Usage) {
    sum.prompt_tokens = sum.prompt_tokens.saturating_add(more.prompt_tokens);
    sum.audio_tokens = sum.audio_tokens.saturating_add(more.audio_tokens);
    sum.completion_tokens = sum.completion_tokens.saturating_add(more.completion_tokens);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_cost_enough_when_it_has_cost_the_most() {
        let price = Price { input_per_million: 2.5, output_per_million: 10.0, max_cost: Some(1.0) };
        let mut usage = Usage { prompt_tokens: 200_000, audio_tokens: 150_000, completion_tokens: 49_999 };
        assert!((price.of(&usage) - 0.999_99).abs() < 1e-12 && !price.reached(&usage));
        add(&mut usage, &Usage { completion_tokens: 1, ..Usage::default() });
        assert!(price.reached(&usage));
        assert!(!Price { max_cost: None, ..price }.reached(&usage));
    }
}
