//! What a run costs, where prices are configured.

use serde::{Deserialize, Serialize};

use crate::benchmark::UsageScores;
use crate::types::{Response, Usage};

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

    /// Prices with a bound from elsewhere, where one is given: what has no price costs nothing.
    pub fn bounded(price: Option<Self>, max_cost: Option<f64>) -> Option<Self> {
        match max_cost {
            None => price,
            Some(_) => Some(Self { max_cost, ..price.unwrap_or_default() }),
        }
    }
}

/// What a stage costs and may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// What its tokens cost, where prices are configured.
    pub price: Option<Price>,
    /// What the run's stages before it have cost; it counts against the most that a run may cost.
    pub before: f64,
    /// Tokens in its journal that other runs have spent: they do not count.
    pub others: Usage,
}

impl From<Option<Price>> for Account {
    fn from(price: Option<Price>) -> Self {
        Self { price, ..Self::default() }
    }
}

impl Account {
    /// What the run itself has spent of all that was spent in the stage's journal.
    pub fn own(&self, spent: &Usage) -> Usage {
        let others = &self.others;
        Usage {
            prompt_tokens: spent.prompt_tokens.saturating_sub(others.prompt_tokens),
            audio_tokens: spent.audio_tokens.saturating_sub(others.audio_tokens),
            completion_tokens: spent.completion_tokens.saturating_sub(others.completion_tokens),
        }
    }

    /// What the run has cost so far.
    pub fn cost(&self, spent: &Usage) -> f64 {
        self.before + self.price.map_or(0.0, |price| price.of(&self.own(spent)))
    }

    /// Whether that is as much as a run may cost.
    pub fn reached(&self, spent: &Usage) -> bool {
        let most = self.price.and_then(|price| price.max_cost);
        most.is_some_and(|most| self.cost(spent) >= most)
    }
}

/// Adds tokens to a sum.
pub fn add(sum: &mut Usage, more: &Usage) {
    sum.prompt_tokens = sum.prompt_tokens.saturating_add(more.prompt_tokens);
    sum.audio_tokens = sum.audio_tokens.saturating_add(more.audio_tokens);
    sum.completion_tokens = sum.completion_tokens.saturating_add(more.completion_tokens);
}

/// Adds what a response took to a sum: nothing where it is that of an earlier request.
pub fn count(sum: &mut UsageScores, response: &Response) {
    if response.reused_from.is_none() {
        sum.requests += u64::from(response.outcome.is_answer());
        add(&mut sum.tokens, &response.usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_cost_enough_when_it_has_cost_the_most() {
        let price = Price { input_per_million: 2.5, output_per_million: 10.0, max_cost: Some(1.0) };
        let mut usage = Usage { prompt_tokens: 200_000, audio_tokens: 150_000, completion_tokens: 49_999 };
        let account = Account::from(Some(price));
        assert!((price.of(&usage) - 0.999_99).abs() < 1e-12 && !account.reached(&usage));
        add(&mut usage, &Usage { completion_tokens: 1, ..Usage::default() });
        assert!(account.reached(&usage));
        assert!(!Account::from(Some(Price { max_cost: None, ..price })).reached(&usage));
    }

    #[test]
    fn stages_before_count_and_other_runs_do_not() {
        let spent = Usage { prompt_tokens: 1_000_000, audio_tokens: 0, completion_tokens: 1_000 };
        let price = Price { input_per_million: 2.0, output_per_million: 0.0, max_cost: Some(1.5) };
        let others = Usage { prompt_tokens: 500_000, audio_tokens: 9, completion_tokens: 1_000 };
        let account = Account { price: Some(price), before: 0.0, others };
        assert_eq!(account.own(&spent), Usage { prompt_tokens: 500_000, ..Usage::default() });
        assert!((account.cost(&spent) - 1.0).abs() < 1e-12 && !account.reached(&spent));
        let account = Account { before: 0.5, ..account };
        assert!((account.cost(&spent) - 1.5).abs() < 1e-12 && account.reached(&spent));
        // A stage without prices ends where those before it have cost enough.
        let unpriced = Account { price: Price::bounded(None, Some(0.5)), before: 0.5, ..Account::default() };
        assert!(unpriced.reached(&Usage::default()));
        assert_eq!(Price::bounded(Some(price), None), Some(price));
        assert_eq!(Price::bounded(Some(price), Some(3.0)).unwrap().max_cost, Some(3.0));
    }
}
