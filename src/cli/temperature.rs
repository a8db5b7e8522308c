//! Temperatures that are a local model's own: looked up in its files, once these are here.

use super::exit::{self, Failure};
use super::open::{self, At};
use crate::config::{ChosenTemperature, JudgeConfig, Loaded, ModelConfig};
use crate::model;
use crate::types::Generation;

/// Settles the temperature of a run's model.
pub(super) fn settle(loaded: &mut Loaded) -> Result<(), Failure> {
    let mut config = loaded.config.clone();
    let at = |problem: &dyn std::fmt::Display| {
        open::problem_at(loaded, &["generation".into(), "temperature".into()], problem)
    };
    of(&config.model, &mut config.generation, config.temperature.as_mut(), &at)?;
    loaded.config = config;
    Ok(())
}

/// Settles the temperature of a judge. `at` shows problems of `[judge]`.
pub(super) fn settle_judge(judge: &mut JudgeConfig, at: At<'_>) -> Result<(), Failure> {
    let JudgeConfig { model: Some(model), generation, temperature, .. } = judge else { return Ok(()) };
    let at = |problem: &dyn std::fmt::Display| at(&["generation".into(), "temperature".into()], problem);
    of(model, generation, temperature.as_mut(), &at)
}

/// Takes what the model's files say, in place of all settings of the draw that are off.
fn of(
    model: &ModelConfig,
    generation: &mut Generation,
    chosen: Option<&mut ChosenTemperature>,
    at: &dyn Fn(&dyn std::fmt::Display) -> String,
) -> Result<(), Failure> {
    let (Some(local), Some(chosen), None) = (&model.answering().local, chosen, generation.temperature) else {
        return Ok(());
    };
    let own = model::own_sampling(local).map_err(|e| Failure::new(exit::USAGE, at(&e)))?;
    take(generation, chosen, &own);
    Ok(())
}

fn take(generation: &mut Generation, chosen: &mut ChosenTemperature, own: &Generation) {
    generation.temperature = own.temperature;
    if generation.top_p == 1.0 {
        generation.top_p = own.top_p;
    }
    if generation.top_k == 0 {
        generation.top_k = own.top_k;
    }
    if generation.repetition_penalty == 1.0 {
        generation.repetition_penalty = own.repetition_penalty;
    }
    let separator = if chosen.rule.is_empty() { "" } else { "; " };
    let says = format!(
        "{separator}its generation_config.json has temperature {}, top_p {}, top_k {}, repetition penalty {}",
        own.temperature_in_words(),
        own.top_p,
        own.top_k,
        own.repetition_penalty
    );
    chosen.rule.push_str(&says);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TemperatureWord;

    #[test]
    fn what_is_off_is_the_model_s_own_and_what_is_said_stays() {
        let own = Generation {
            temperature: Some(0.7),
            top_p: 0.5,
            top_k: 20,
            repetition_penalty: 1.1,
            ..Generation::default()
        };
        let mut generation =
            Generation { temperature: None, top_p: 0.9, max_new_tokens: 7, ..Generation::default() };
        let mut chosen = ChosenTemperature { word: TemperatureWord::ModelDefault, rule: String::new() };
        take(&mut generation, &mut chosen, &own);
        assert_eq!(generation, Generation { top_p: 0.9, max_new_tokens: 7, ..own });
        assert_eq!(
            chosen.to_string(),
            "model_default: its generation_config.json has temperature 0.7, top_p 0.5, top_k 20, repetition penalty 1.1"
        );
    }
}
