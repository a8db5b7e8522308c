//! The temperature as it is typed, a number or a word, and what a word comes to.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::resolved::ModelConfig;
use crate::benchmark::temperature::PaperTemperature;

/// A temperature as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RawTemperature {
    /// This one.
    Number(f64),
    /// The one that the word stands for.
    Word(TemperatureWord),
}

/// A word in place of a temperature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemperatureWord {
    /// The one that the paper has for the model.
    Paper,
    /// The model's own: an endpoint is told none, of a local model it stands in its `generation_config.json`.
    ModelDefault,
}

impl TemperatureWord {
    const ALL: [Self; 2] = [Self::Paper, Self::ModelDefault];

    /// The word that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::ModelDefault => "model_default",
        }
    }
}

/// A temperature that was given by a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenTemperature {
    /// The word.
    pub word: TemperatureWord,
    /// By which rule it came to be what it is.
    pub rule: String,
}

impl fmt::Display for ChosenTemperature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.word.as_str(), self.rule)
    }
}

impl JsonSchema for RawTemperature {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Temperature".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = TemperatureWord::ALL.map(TemperatureWord::as_str);
        json_schema!({ "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string", "enum": words }] })
    }
}

/// What a word comes to for benchmarks, by name. `of` gives what a benchmark's paper has. The sentence says why there is
/// no one temperature.
pub(super) fn chosen(
    word: TemperatureWord,
    model: Option<&ModelConfig>,
    benchmarks: &[&str],
    of: impl Fn(&str) -> Option<PaperTemperature>,
) -> Result<(Option<f64>, ChosenTemperature), String> {
    let local = model.is_some_and(|model| model.answering().local.is_some());
    let own = if local { "" } else { "nothing is sent, and the server does as it does by itself" };
    if word == TemperatureWord::ModelDefault {
        return Ok((None, ChosenTemperature { word, rule: own.to_owned() }));
    }
    let mut found: Option<(&str, PaperTemperature)> = None;
    for &name in benchmarks {
        let paper = of(name).ok_or_else(|| {
            format!(
                "`paper`: for `{name}` no paper states a temperature; give a number, or \"model_default\""
            )
        })?;
        match &found {
            None => found = Some((name, paper)),
            Some((first, earlier)) if earlier.value != paper.value => {
                let words =
                    |value: Option<f64>| value.map_or("the model's own".to_owned(), |v| v.to_string());
                return Err(format!(
                    "`paper` is {} for `{first}` and {} for `{name}`, and a run has one temperature; give each a \
                     configuration of its own, or a number",
                    words(earlier.value),
                    words(paper.value)
                ));
            }
            Some(_) => {}
        }
    }
    let Some((name, paper)) = found else {
        return Err("`paper`: there is no benchmark whose paper could be asked".to_owned());
    };
    let own = if paper.value.is_none() && !own.is_empty() { format!("; {own}") } else { String::new() };
    let rule = format!("{name}: {}{own}", paper.rule);
    Ok((paper.value, ChosenTemperature { word, rule }))
}
