//! Tests of the whole way from text to configuration.

mod models;
mod overrides;
mod problems;
mod random;
mod temperatures;

use std::path::PathBuf;

use serde_json::Value as Json;

use super::*;
use crate::types::{Generation, Profile, Window};

/// Compares a generated file with the one that is checked in; rewrites it when `HARNESS_UPDATE=1` is set.
pub(super) fn compare_with_file(name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var("HARNESS_UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(&path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{name} is out of date; run the tests with HARNESS_UPDATE=1 to rewrite it");
}

const SMALL: &str = r#"
[model]
kind = "local"
architecture = "qwen2_audio"
weights = "models/tiny"

[[benchmark]]
name = "ccfqa"
data = "data/test.jsonl"
"#;

const ENDPOINT: &str = r#"
[model]
kind = "openai"
model = "org/m"
base_url = "http://localhost:8000/v1"
api_key_env = "MY_KEY"

[[benchmark]]
name = "ccfqa"
data = "data/test.jsonl"
"#;

const REPLAY: &str = r#"
[model]
kind = "replay"
files = ["answers/x.jsonl"]
preset = "ccfqa"

[[benchmark]]
name = "ccfqa"
data = "data/test.jsonl"
"#;

fn read(text: &str, sets: &[&str]) -> Result<Loaded, ConfigError> {
    let sets: Vec<Override> = sets.iter().map(|set| Override::parse(set).unwrap()).collect();
    load_text(Path::new("settings/small.toml"), text, &sets)
}

fn config(text: &str, sets: &[&str]) -> RunConfig {
    read(text, sets).map_or_else(|error| panic!("{error}"), |loaded| loaded.config)
}

/// The problems of a text, without quotes and help: `line:column: message`.
fn problems(text: &str, sets: &[&str]) -> Vec<String> {
    let error = read(text, sets).map(|loaded| loaded.config).unwrap_err();
    error.problems().iter().map(|p| format!("{}: {}", p.place, p.message)).collect()
}

/// The small configuration with lines put into a section.
fn with(section: &str, lines: &str) -> String {
    if SMALL.contains(section) {
        SMALL.replace(section, &format!("{section}\n{lines}"))
    } else {
        format!("{section}\n{lines}\n{SMALL}")
    }
}

/// The one problem of the small configuration with a line put into a section.
#[track_caller]
fn check(section: &str, line: &str, expect: &str) {
    let found = problems(&with(section, line), &[]);
    let messages: Vec<&str> =
        found.iter().filter_map(|text| text.split_once(": ").map(|(_, message)| message)).collect();
    assert_eq!(messages, [expect], "{section} {line}");
}

fn audio(max_seconds: f64, window: Window) -> AudioConfig {
    AudioConfig { max_seconds, window, transcode: endpoint::Transcode::Never, rate: None }
}

#[test]
fn defaults_are_filled_in() {
    let expected = RunConfig {
        path: PathBuf::from("settings/small.toml"),
        run: RunSection {
            name: "small".to_owned(),
            seed: 443,
            results: PathBuf::from("results"),
            note: None,
        },
        model: ModelConfig {
            kind: ModelKind::Local,
            name: "tiny".to_owned(),
            audio: audio(30.0, Window::Whole),
            image: ImageConfig::default(),
            published_as: None,
            local: Some(LocalConfig {
                architecture: "qwen2_audio".to_owned(),
                weights: PathBuf::from("settings/models/tiny"),
                // It may be a name of the hub as well: whoever opens the model sees whether the folder is there.
                hub: Some(HubWeights {
                    repo: "models/tiny".to_owned(),
                    revision: "main".to_owned(),
                    commit: None,
                }),
                device: "auto".to_owned(),
                dtype: "auto".to_owned(),
                batch_size: 8,
                transcription: super::endpoint::TranscriptionConfig::default(),
            }),
            endpoint: None,
            cascade: None,
            replay: None,
        },
        generation: Generation::default(),
        temperature: None,
        judge: None,
        benchmarks: vec![BenchmarkConfig {
            windows: WindowRule::Model,
            max_candidates: None,
            shots: 0,
            label: "ccfqa".to_owned(),
            name: "ccfqa".to_owned(),
            data: PathBuf::from("settings/data/test.jsonl"),
            media: None,
            conditions: vec![],
            languages: vec![],
            profile: Profile::Official,
            limit: None,
            limit_by: LimitBy::First,
            prompt: Wording::Found,
            allow_other_data: false,
            strip_output: true,
            metrics: vec![],
            fields: std::collections::BTreeMap::new(),
            system: None,
            belebele: None,
            variant: None,
            categories_file: None,
            categories: None,
        }],
    };
    assert_eq!(config(SMALL, &[]), expected);
    assert_eq!(read(SMALL, &[]).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn defaults_of_the_schema_are_those_that_are_used() {
    fn walk(schema: &Json, found: &Json, path: &str, seen: &mut std::collections::BTreeSet<String>) {
        for (key, schema) in schema["properties"].as_object().unwrap() {
            let path = format!("{path}.{key}");
            // A key of another kind of model.
            let Some(found) = found.get(key) else { continue };
            if let Some(default) = schema.get("default") {
                assert!(
                    default == found || default.as_f64().zip(found.as_f64()).is_some_and(|(a, b)| a == b),
                    "{path}: {default} {found}"
                );
                seen.insert(path);
            } else if schema["type"] == "object" {
                walk(schema, found, &path, seen);
            } else if let Some(section) = schema.get("items").filter(|items| items["type"] == "object") {
                walk(section, &found[0], &path, seen);
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    let transcription = ENDPOINT.replace("\"openai\"", "\"transcription\"");
    let server = format!("{ENDPOINT}\n[model.server]\ncommand = [\"serve\"]\n");
    for text in [SMALL, ENDPOINT, &transcription, &server, REPLAY] {
        let mut resolved = serde_json::to_value(config(text, &[])).unwrap();
        resolved["benchmark"] = resolved["benchmarks"].take();
        // What is resolved stands as it is typed, but for the halves of a model.
        let model = resolved["model"].as_object_mut().unwrap();
        if let Some(local) = model.remove("local") {
            model.extend(local.as_object().unwrap().clone());
        }
        if let Some(replay) = model.remove("replay") {
            model.extend(replay.as_object().unwrap().clone());
        }
        if let Some(mut endpoint) = model.remove("endpoint") {
            model["audio"]["form"] = endpoint["form"].take();
            model["audio"]["rate"] = Json::from(model["audio"]["rate"].as_u64().unwrap_or(0));
            for (typed, key) in [
                ("endpoint", "wire"),
                ("transcription", "transcription"),
                ("flow", "flow"),
                ("price", "price"),
                ("server", "server"),
            ] {
                model.insert(typed.to_owned(), endpoint[key].take());
            }
        } else {
            model["audio"].as_object_mut().unwrap().remove("rate");
        }
        walk(&schema(), &resolved, "", &mut seen);
    }
    assert_eq!(seen.len(), 57, "{seen:#?}");
}

#[test]
fn everything_can_be_typed() {
    let text = r#"
        run = { name = "a b", seed = 1, results = "/out" }
        [model]
        kind = "local"
        architecture = "qwen2_audio"
        weights = "/w/x"
        name = "X"
        device = "cuda:1"
        dtype = "bf16"
        batch_size = 2
        published_as = "Qwen2-Audio"
        audio = { max_seconds = 20, window = "last" }
        [generation]
        temperature = 1
        top_p = 0.5
        top_k = -1
        repetition_penalty = 1.1
        max_new_tokens = 7
        stop = ["\n", "END"]
        [[benchmark]]
        name = "manifest"
        label = "mine"
        data = "/d/x.jsonl"
        media = "/d"
        conditions = ["a"]
        languages = ["eng"]
        profile = "recipe"
        limit = 3
        limit_by = "seeded"
        prompt = "p.toml"
        strip_output = false
        metrics = ["contains"]
        fields = { audio = "path" }
        system = ""
    "#;
    let config = config(text, &[]);
    assert_eq!(
        config.run,
        RunSection { name: "a b".to_owned(), seed: 1, results: PathBuf::from("/out"), note: None }
    );
    assert_eq!(config.model.audio, audio(20.0, Window::Last));
    let local = config.model.local.as_ref().unwrap();
    assert_eq!((local.device.as_str(), local.dtype.as_str()), ("cuda:1", "bf16"));
    assert_eq!((config.generation.temperature, config.temperature), (Some(1.0), None));
    assert_eq!((config.generation.top_k, config.generation.max_new_tokens), (0, 7));
    assert_eq!(config.generation.stop, ["\n", "END"]);
    let benchmark = &config.benchmarks[0];
    assert_eq!(benchmark.prompt, Wording::File(PathBuf::from("settings/p.toml")));
    assert_eq!(
        (benchmark.limit, benchmark.limit_by, benchmark.profile),
        (Some(3), LimitBy::Seeded, Profile::Recipe)
    );
    assert_eq!(benchmark.fields["audio"], "path");
    assert_eq!(benchmark.system.as_deref(), Some(""));
}

#[test]
fn what_does_nothing_is_warned_of() {
    let text = with("[generation]", "top_p = 0.5\ntop_k = 1");
    let text = format!("{text}limit_by = 'seeded'\n");
    assert_eq!(
        read(&text, &[]).unwrap().warnings,
        [
            "settings/small.toml:2:9: `top_p` does nothing at temperature 0, where the most likely token is always taken",
            "settings/small.toml:13:12: `limit_by` does nothing without `limit`",
        ]
    );
    let hot = read(SMALL, &["generation.temperature=3"]).unwrap().warnings;
    assert_eq!(hot, ["--set: column 24: a temperature of 3 makes answers close to random"]);
}

#[test]
fn later_checks_can_point_at_lines() {
    let loaded = read(SMALL, &["benchmark.0.media=m"]).unwrap();
    let place = |path: &[Step]| loaded.locator.place(path).to_string();
    assert_eq!(place(&["benchmark".into(), 0.into(), "data".into()]), "settings/small.toml:9:8");
    assert_eq!(place(&["model".into(), "weights".into()]), "settings/small.toml:5:11");
    assert_eq!(place(&["benchmark".into(), 0.into(), "media".into()]), "--set: column 19");
    // What was left out is in its section.
    assert_eq!(place(&["model".into(), "device".into()]), "settings/small.toml:2:2");
    assert_eq!(place(&["benchmark".into(), 0.into(), "label".into()]), "settings/small.toml:7:1");
    assert_eq!(place(&["run".into(), "name".into()]), "settings/small.toml");
    let path = ["model".into(), "weights".into()];
    let problem = loaded.locator.problem(&path, "the folder models/tiny does not exist; download it");
    assert_eq!(
        ConfigError::from(problem).to_string(),
        "settings/small.toml:5:11: the folder models/tiny does not exist; download it\n  \
         |\n\
         5 | weights = \"models/tiny\"\n  \
         |           ^^^^^^^^^^^^^"
    );
}

#[test]
fn files_that_are_no_configurations() {
    let folder = tempfile::tempdir().unwrap();
    let message =
        |name: &str| load(&folder.path().join(name), &[]).map(|l| l.config).unwrap_err().to_string();
    assert!(message("missing.toml").contains("cannot read the configuration"));
    assert!(message("").contains("this is a folder"));
    std::fs::write(folder.path().join("latin.toml"), b"a = 1\n# caf\xe9\n").unwrap();
    assert!(message("latin.toml").contains("line 2 is not UTF-8 text"));
    std::fs::File::create(folder.path().join("big")).unwrap().set_len(5 << 20).unwrap();
    assert!(message("big").contains("more than any configuration"));
    std::fs::write(folder.path().join("bom.toml"), format!("\u{feff}{SMALL}")).unwrap();
    assert_eq!(load(&folder.path().join("bom.toml"), &[]).unwrap().config.run.name, "bom");
}

#[test]
fn the_schema_is_up_to_date() {
    let text = serde_json::to_string_pretty(&schema()).unwrap();
    compare_with_file("configs/harness.schema.json", &format!("{text}\n"));
}

/// Every key of the schema has a heading in the reference, in the order of the schema, with its default.
#[test]
fn the_reference_names_every_key() {
    fn keys<'a>(schema: &'a Json, path: &str, out: &mut Vec<(String, &'a Json)>) {
        for (key, schema) in schema["properties"].as_object().unwrap() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match schema.get("items").filter(|items| items["type"] == "object").unwrap_or(schema) {
                section if section.get("properties").is_some() => keys(section, &path, out),
                _ => out.push((path, schema)),
            }
        }
    }
    let page = include_str!("../../docs/config.md");
    let mut all = Vec::new();
    keys(schema::root(), "", &mut all);
    // A judge's model, generation and server have the keys of [model], [generation] and [model.server]; so have the
    // parts of a cascade.
    let twins = ["judge.model.", "judge.generation.", "judge.server.", "model.asr.", "model.llm."];
    let twin = |path: &str| twins.iter().any(|section| path.starts_with(section));
    let (twins, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|(path, _)| twin(path));
    let of = |section: &str| all.iter().filter(|(path, _)| path.starts_with(section)).count();
    let of_model = of("model.") - of("model.transcripts.");
    assert_eq!(twins.len(), 3 * of_model + of("generation.") + of("model.server."));
    assert_eq!(all.len(), 122);
    for (path, schema) in &all {
        let heading = format!("\n### `{path}`\n");
        let at = page.find(&heading).unwrap_or_else(|| panic!("docs/config.md lacks the heading {heading}"));
        let entry = &page[at + heading.len()..];
        let entry = &entry[..entry.find("\n##").unwrap_or(entry.len())];
        if let Some(default) = schema.get("default") {
            let text = default.to_string();
            let short = text.strip_suffix(".0").unwrap_or(&text);
            assert!(
                entry.contains(&format!("Default: `{short}`")),
                "docs/config.md: `{path}` has the default {short}"
            );
        } else {
            assert!(!entry.contains("Default: `"), "docs/config.md: `{path}` has no default of one value");
        }
        for word in schema::choices(schema).unwrap_or_default() {
            assert!(entry.contains(&format!("`\"{word}\"`")), "docs/config.md: `{path}` takes {word}");
        }
    }
    assert_eq!(page.matches("\n### `").count(), all.len(), "docs/config.md has a key that does not exist");
}

const JUDGED: &str = r#"
[model]
kind = "openai"
model = "m"
base_url = "http://localhost:8000/v1"

[judge]
name = "ann"

[judge.model]
kind = "openai"
model = "j"
base_url = "http://localhost:8001/v1"

[[benchmark]]
name = "cp-bench"
data = "rows.jsonl"
"#;

/// CP-Bench's judge draws five times; greedy runs would all say the same.
#[test]
fn the_judge_of_cp_bench_draws_unless_it_is_told_otherwise() {
    let judge = |text: &str, sets: &[&str]| config(text, sets).judge.unwrap().generation;
    let paper = judge(JUDGED, &[]);
    assert_eq!((paper.temperature, paper.max_new_tokens), (Some(1.0), 512));
    assert_eq!(judge(JUDGED, &["judge.generation.max_new_tokens=64"]).temperature, Some(1.0));
    let both = format!("{JUDGED}\n[[benchmark]]\nname = \"ccfqa\"\ndata = \"x.jsonl\"\n");
    assert!(judge(&both, &[]).greedy());
    let warned = |sets: &[&str]| {
        let warnings = read(JUDGED, sets).unwrap().warnings;
        warnings.iter().any(|warning| warning.contains("all runs of the judge say the same"))
    };
    assert!(!warned(&[]));
    assert!(warned(&["judge.generation.temperature=0.0"]));
    assert!(!warned(&["judge.generation.temperature=0.0", "judge.runs=1"]));
    let found = problems(JUDGED, &["judge.name=match"]);
    assert!(found[0].contains("is that of the judge by string match"), "{found:?}");
}

#[test]
fn a_judge_alone_is_judged_by_what_the_run_says() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alone.toml");
    let (_, rest) = JUDGED.split_once("[judge]").unwrap();
    let (section, _) = rest.split_once("[[benchmark]]").unwrap();
    std::fs::write(&file, format!("[judge]{section}")).unwrap();
    assert!(load(&file, &[]).is_err());
    let run = config(JUDGED, &["run.seed=7"]);
    let alone = load_judge(&file, &run).unwrap().config;
    // The rest is the run's, and nothing is made up.
    assert_eq!((&alone.judge, alone.run.seed), (&run.judge, 7));
    assert_eq!((&alone.model, &alone.benchmarks), (&run.model, &run.benchmarks));
    std::fs::write(&file, format!("[judge]{section}[judge.generation]\ntemperature = \"paper\"\n")).unwrap();
    let drawn = load_judge(&file, &run).unwrap().config.judge.unwrap();
    assert_eq!((drawn.generation.temperature, drawn.temperature.is_some()), (Some(1.0), true));
    // Elsewhere a run must have a model.
    let error = load(&file, &[]).unwrap_err().to_string();
    assert!(error.contains("the section [model] is missing"), "{error}");
    assert!(error.contains("there is no [[benchmark]] section"), "{error}");
    // What the run's own file is warned of is no business of the judge's.
    let mut rated = run.clone();
    rated.model.audio.rate = Some(16_000);
    assert_eq!(load_judge(&file, &rated).unwrap().warnings, Vec::<String>::new());
    std::fs::write(&file, format!("[run]\nseed = 8\n[judge]{section}")).unwrap();
    assert_eq!(load_judge(&file, &run).unwrap().config.run.seed, 8);
    std::fs::write(&file, "[judge]\nnmae = 1\n").unwrap();
    assert!(load_judge(&file, &run).unwrap_err().to_string().contains("nmae"));
}
