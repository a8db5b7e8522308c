//! Words in place of a temperature.

use super::*;

fn sections(names: &[&str]) -> String {
    let section = |name: &&str| format!("\n[[benchmark]]\nname = \"{name}\"\ndata = \"x.jsonl\"\n");
    names.iter().map(section).collect()
}

fn model(name: &str) -> String {
    format!("[model]\nkind = \"openai\"\nmodel = \"{name}\"\nbase_url = \"http://localhost:8000/v1\"\n")
}

/// A configuration with a word for the temperature.
fn with_word(model: &str, word: &str, names: &[&str]) -> String {
    format!("{model}\n[generation]\ntemperature = \"{word}\"\n{}", sections(names))
}

#[test]
fn the_paper_s_temperature_is_that_of_its_rule_for_the_model() {
    let found = |name: &str| {
        let config = config(&with_word(&model(name), "paper", &["cp-bench"]), &[]);
        (config.generation.temperature, config.temperature.unwrap().to_string())
    };
    let (value, rule) = found("gpt-4o-audio-preview");
    assert_eq!(value, Some(0.7));
    assert_eq!(rule, "paper: cp-bench: the paper has 0.7 for GPT models and 1 for others");
    let (value, rule) = found("phi-4");
    assert_eq!(value, Some(1.0));
    assert!(rule.ends_with("it does not name phi-4, which is one of the others"), "{rule}");

    let text = SMALL.replace("ccfqa", "cp-bench");
    let local = config(&text, &["generation.temperature=paper"]);
    assert_eq!(local.generation.temperature, Some(1.0));
    // The word and what it came to stand in the manifest, which is read again.
    let json = serde_json::to_value(&local).unwrap();
    assert_eq!(json["generation"]["temperature"], 1.0);
    assert_eq!(json["temperature"]["word"], "paper");
    assert_eq!(serde_json::from_value::<RunConfig>(json).unwrap(), local);
}

#[test]
fn a_paper_without_a_temperature_is_an_error_at_the_word() {
    let found = problems(&with_word(&model("m"), "paper", &["cfever"]), &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("settings/small.toml:7:15: `paper`: for `cfever` no paper states"),
        "{found:?}"
    );
    let found = problems(&with_word(&model("m"), "paper", &["cp-bench", "manifest"]), &[]);
    assert!(found[0].contains("for `manifest` no paper states"), "{found:?}");
    let found = problems(&with_word(&model("m"), "paper", &["cp-bench", "ccfqa"]), &[]);
    assert!(found[0].contains("is 1 for `cp-bench` and 0 for `ccfqa`"), "{found:?}");
}

#[test]
fn a_model_s_own_temperature_is_not_sent() {
    let own = config(&with_word(&model("m"), "model_default", &["manifest"]), &[]);
    assert_eq!(own.generation, Generation { temperature: None, ..Generation::default() });
    let chosen = own.temperature.as_ref().unwrap();
    assert_eq!(
        chosen.to_string(),
        "model_default: nothing is sent, and the server does as it does by itself"
    );
    let json = serde_json::to_value(&own).unwrap();
    assert!(json["generation"]["temperature"].is_null());
    assert_eq!(serde_json::from_value::<RunConfig>(json).unwrap(), own);
    // SimpleVQA's scripts say none either.
    let paper = config(&with_word(&model("m"), "paper", &["simplevqa"]), &[]);
    assert_eq!(paper.generation.temperature, None);
    assert!(paper.temperature.unwrap().rule.contains("nothing is sent"));
}

/// Sections that are not judged have no say in what the judge's paper has.
#[test]
fn a_judge_has_the_paper_s_temperature_too() {
    let text = format!("{JUDGED}{}", sections(&["manifest"]));
    let judge = config(&text, &["judge.generation.temperature=paper"]).judge.unwrap();
    assert_eq!(judge.generation.temperature, Some(1.0));
    assert_eq!(judge.temperature.unwrap().to_string(), "paper: cp-bench: the paper's judge draws at 1");
    let own = config(JUDGED, &["judge.generation.temperature=model_default"]).judge.unwrap();
    assert_eq!((own.generation.temperature, own.generation.max_new_tokens), (None, 512));
    let both = format!("{JUDGED}{}", sections(&["ccfqa"]));
    let found = problems(&both, &["judge.generation.temperature=paper"]);
    assert!(found[0].contains("is 1 for `cp-bench` and 0 for `ccfqa`"), "{found:?}");
}
