//! The temperature of each paper: what the word `paper` stands for in a configuration.
//!
//! A paper names few models; which rule another one falls under is said in words, for the record of the run. This module
//! must not know configurations or models beyond their names.

use super::{ccfqa, cp_bench, simplevqa};

/// The temperature that a paper has for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperTemperature {
    /// The number; absent where the paper says nothing to the model, and its own default holds.
    pub value: Option<f64>,
    /// Why it is that one, in words.
    pub rule: String,
}

impl PaperTemperature {
    fn new(value: Option<f64>, rule: impl Into<String>) -> Self {
        Self { value, rule: rule.into() }
    }
}

/// What the paper of a benchmark has for a model that answers. `kind` is that of the model, `model` the name that its
/// server is asked for, or the architecture of a local one. `None` where the paper states none.
pub fn of_model(benchmark: &str, kind: &str, model: &str) -> Option<PaperTemperature> {
    match benchmark {
        cp_bench::NAME => Some(of_cp_bench(kind, model)),
        ccfqa::NAME => {
            let rule = if is_qwen2_audio(model) {
                "the authors' script decodes Qwen2-Audio greedily".to_owned()
            } else {
                format!(
                    "the authors' script decodes greedily; it is published for Qwen2-Audio alone, and {model} is asked alike"
                )
            };
            Some(PaperTemperature::new(Some(0.0), rule))
        }
        simplevqa::NAME if model.to_lowercase().contains("ernie") => {
            Some(PaperTemperature::new(Some(0.2), "the authors' script has 0.2 for ERNIE"))
        }
        simplevqa::NAME => Some(PaperTemperature::new(
            None,
            "the authors' scripts say none to any model but ERNIE, so that its own default holds",
        )),
        _ => None,
    }
}

/// What the paper of a benchmark has for its judge; `None` where it has no judge.
pub fn of_judge(benchmark: &str) -> Option<PaperTemperature> {
    match benchmark {
        cp_bench::NAME => Some(PaperTemperature::new(Some(1.0), "the paper's judge draws at 1")),
        ccfqa::NAME => Some(PaperTemperature::new(Some(0.0), "the paper's judge answers greedily")),
        simplevqa::NAME => Some(PaperTemperature::new(
            Some(1.0),
            "the paper's judge is asked without a temperature, and the default of its API is 1",
        )),
        _ => None,
    }
}

/// "0.7 for GPT, 1.0 for others".
fn of_cp_bench(kind: &str, model: &str) -> PaperTemperature {
    const RULE: &str = "the paper has 0.7 for GPT models and 1 for others";
    // Of a cascade the one that answers.
    let name = model.rsplit(" + ").next().unwrap_or(model).to_lowercase();
    let gpt = name.contains("gpt");
    if gpt || kind == "azure" {
        let rule = if name.contains("gpt-4o") {
            RULE.to_owned()
        } else if gpt {
            format!("{RULE}; it does not name {model}, which is a GPT model by its name")
        } else {
            format!(
                "{RULE}; it does not name {model}, which is taken for a GPT model because Azure serves it"
            )
        };
        return PaperTemperature::new(Some(0.7), rule);
    }
    let rule = if is_qwen2_audio(&name) {
        RULE.to_owned()
    } else {
        format!("{RULE}; it does not name {model}, which is one of the others")
    };
    PaperTemperature::new(Some(1.0), rule)
}

fn is_qwen2_audio(model: &str) -> bool {
    model.to_lowercase().replace('_', "-").contains("qwen2-audio")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_bench_has_one_value_for_gpt_and_one_for_others_and_says_which_rule_it_was() {
        let unnamed = "does not name";
        for (kind, model, value, says) in [
            ("openai", "gpt-4o-audio-preview", 0.7, None),
            ("openai", "gpt-5", 0.7, Some("which is a GPT model by its name")),
            ("azure", "my-deployment", 0.7, Some("because Azure serves it")),
            ("local", "qwen2_audio", 1.0, None),
            ("openai", "Qwen/Qwen2-Audio-7B-Instruct", 1.0, None),
            ("gemini", "gemini-2.5-flash", 1.0, Some("which is one of the others")),
            // What transcribes is not what answers.
            ("cascade", "gpt-4o-transcribe + llama", 1.0, Some("which is one of the others")),
        ] {
            let found = of_model(cp_bench::NAME, kind, model).unwrap();
            assert_eq!(found.value, Some(value), "{model}");
            assert!(found.rule.contains("0.7 for GPT models and 1 for others"), "{}", found.rule);
            assert_eq!(found.rule.contains(unnamed), says.is_some(), "{}", found.rule);
            assert!(says.is_none_or(|says| found.rule.contains(says)), "{}", found.rule);
        }
    }

    #[test]
    fn papers_without_a_temperature_have_none() {
        for name in ["cfever", "2m-belebele", "manifest", "nothing"] {
            assert_eq!(of_model(name, "openai", "m"), None, "{name}");
            assert_eq!(of_judge(name), None, "{name}");
        }
        assert_eq!(of_model("ccfqa", "openai", "m").unwrap().value, Some(0.0));
        assert_eq!(of_model("simplevqa", "openai", "m").unwrap().value, None);
        assert_eq!(of_model("simplevqa", "openai", "ERNIE-4.5").unwrap().value, Some(0.2));
        let judges = ["cp-bench", "ccfqa", "simplevqa"].map(|name| of_judge(name).unwrap().value);
        assert_eq!(judges, [Some(1.0), Some(0.0), Some(1.0)]);
    }
}
