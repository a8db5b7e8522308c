//! Tests of the whole way from text to configuration.

use std::path::PathBuf;

use proptest::prelude::*;
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
            }),
            endpoint: None,
        },
        generation: Generation::default(),
        judge: None,
        benchmarks: vec![BenchmarkConfig {
            windows: WindowRule::Model,
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
    for text in [SMALL, ENDPOINT, &ENDPOINT.replace("\"openai\"", "\"transcription\"")] {
        let mut resolved = serde_json::to_value(config(text, &[])).unwrap();
        resolved["benchmark"] = resolved["benchmarks"].take();
        // What is resolved stands as it is typed, but for the halves of a model.
        let model = resolved["model"].as_object_mut().unwrap();
        if let Some(local) = model.remove("local") {
            model.extend(local.as_object().unwrap().clone());
        }
        if let Some(mut endpoint) = model.remove("endpoint") {
            model["audio"]["form"] = endpoint["form"].take();
            model["audio"]["rate"] = Json::from(model["audio"]["rate"].as_u64().unwrap_or(0));
            for (typed, key) in [
                ("endpoint", "wire"),
                ("transcription", "transcription"),
                ("flow", "flow"),
                ("price", "price"),
            ] {
                model.insert(typed.to_owned(), endpoint[key].take());
            }
        } else {
            model["audio"].as_object_mut().unwrap().remove("rate");
        }
        walk(&schema(), &resolved, "", &mut seen);
    }
    assert_eq!(seen.len(), 42, "{seen:#?}");
}

#[test]
fn a_judge_is_resolved_like_a_model() {
    let judge = "[judge]\n[judge.model]\nkind = 'openai'\nmodel = 'j'\nbase_url = 'http://localhost:1/v1'\n";
    let resolved = config(&format!("{judge}{SMALL}"), &[]).judge.unwrap();
    let schema = &schema()["properties"]["judge"]["properties"];
    let found = serde_json::to_value(&resolved).unwrap();
    for key in ["kind", "name", "mode", "rating", "on_error"] {
        assert_eq!(schema[key]["default"], found[key], "{key}");
    }
    assert_eq!((resolved.runs, resolved.max_context, resolved.prompt), (None, None, None));
    assert_eq!(resolved.model.unwrap().name, "j");
    assert_eq!(resolved.generation, Generation::default());

    let local = "[judge]\nprompt = 'p.toml'\n[judge.model]\nkind = 'local'\narchitecture = 'qwen2_audio'\n\
                 weights = 'w'\n";
    let resolved = config(&format!("{local}{SMALL}"), &[]).judge.unwrap();
    assert_eq!(resolved.prompt, Some(PathBuf::from("settings/p.toml")));
    assert_eq!(resolved.model.unwrap().local.unwrap().weights, PathBuf::from("settings/w"));

    for (text, expect) in [
        ("[judge]\n", "1:2: the section [judge.model] is missing"),
        (
            "[judge]\nkind = 'match'\n[judge.model]\nkind = 'openai'\nmodel = 'm'\n",
            "a judge by string match has no model",
        ),
        ("[judge.model]\nkind = 'openai'\n", "the key `model` is missing in [judge.model]"),
        ("[judge]\nname = 'a/b'\nkind = 'match'\n", "the judge's name `a/b`"),
        ("[judge]\nkind = 'math'\n", "unknown kind `math`; did you mean `match`?"),
    ] {
        let found = problems(&format!("{text}{SMALL}"), &[]);
        assert!(found.iter().any(|problem| problem.contains(expect)), "{expect}: {found:?}");
    }
    assert!(config(&format!("[judge]\nkind = 'match'\n{SMALL}"), &[]).judge.unwrap().model.is_none());
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
    assert_eq!(config.generation.temperature, 1.0);
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
fn a_report_shows_the_lines() {
    let text = "[generation]\ntemprature = 0.5\ntop_p = \"x\"\n";
    let error = read(&format!("{text}{SMALL}"), &["model.device=cude"]).map(|l| l.config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "settings/small.toml:2:1: unknown key `temprature` in [generation]; did you mean `temperature`?\n  \
         |\n\
         2 | temprature = 0.5\n  \
         | ^^^^^^^^^^\n  \
         = known keys: temperature, top_p, top_k, repetition_penalty, max_new_tokens, stop\n\
         \n\
         settings/small.toml:3:9: `top_p`: expected a number, found a string\n  \
         |\n\
         3 | top_p = \"x\"\n  \
         |         ^^^\n  \
         = for example top_p = 0.9\n\
         \n\
         --set: column 14: unknown device `cude`; did you mean `cuda`?\n  \
         |\n\
         1 | model.device=cude\n  \
         |              ^^^^\n  \
         = known: auto, cpu, cuda, cuda:N with the number of a GPU, metal"
    );
}

#[test]
fn syntax_errors_are_told_in_plain_words() {
    for (text, expect) in [
        ("a = b\n", "settings/small.toml:1:5: not valid TOML: this is neither a number nor a text in quotes"),
        ("a = \nb = 1", "settings/small.toml:1:5: not valid TOML: a value is missing"),
        ("\n[model", "settings/small.toml:2:7: not valid TOML: the name of a section does not end"),
        ("[model]\n[model]\n", "settings/small.toml:2:2: not valid TOML: this is here twice"),
        ("a = \"x\nb = 1\n", "settings/small.toml:1:7: not valid TOML: invalid basic string, expected `\"`"),
    ] {
        assert_eq!(problems(text, &[]), [expect], "{text}");
    }
    let two = problems("a = b\nc = 1\nd = e\n", &[]);
    assert_eq!(two.len(), 2, "{two:?}");
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        problems("", &[]),
        [
            "settings/small.toml: the section [model] is missing",
            "settings/small.toml: there is no [[benchmark]] section",
        ]
    );
    assert_eq!(
        problems("[model]\nkind = 'local'\n[[benchmark]]\nname = 'a'\n[[benchmark]]\nname = 'b'\n", &[]),
        [
            "settings/small.toml:1:2: the key `architecture` is missing in [model]",
            "settings/small.toml:1:2: the key `weights` is missing in [model]",
            "settings/small.toml:3:1: the key `data` is missing in [[benchmark]] number 1",
            "settings/small.toml:5:1: the key `data` is missing in [[benchmark]] number 2",
        ]
    );
}

#[test]
fn sections_of_the_wrong_shape() {
    assert_eq!(
        problems(&SMALL.replace("[model]", "[models]"), &[]),
        [
            "settings/small.toml: the section [model] is missing",
            "settings/small.toml:2:2: unknown section `models`; did you mean `model`?",
        ]
    );
}

#[test]
fn values_out_of_range() {
    check("[generation]", "temperature = -0.1", "`temperature` must be at least 0, found -0.1");
    check("[generation]", "temperature = nan", "`temperature` must be a finite number");
    check("[generation]", "temperature = 1e999", "`temperature` must be a finite number");
    check("[generation]", "top_p = 0", "`top_p` must be above 0 and at most 1, found 0");
    check("[generation]", "top_p = 1.5", "`top_p` must be above 0 and at most 1, found 1.5");
    check("[generation]", "top_k = -2", "`top_k` must be at least -1 and at most 1000000, found -2");
    check("[generation]", "repetition_penalty = 0.0", "`repetition_penalty` must be above 0, found 0.0");
    check(
        "[generation]",
        "max_new_tokens = 0",
        "`max_new_tokens` must be at least 1 and at most 1000000, found 0",
    );
    check("[generation]", "stop = ['']", "`stop` is empty");
    check("[model]", "batch_size = 0", "`batch_size` must be at least 1 and at most 4096, found 0");
    check("[model]", "audio.max_seconds = 0", "`max_seconds` must be above 0 and at most 1000000, found 0");
    check("[model]", "audio.max_seconds = 30.5", "qwen2_audio takes at most 30 seconds of audio");
    check("[[benchmark]]", "limit = 0", "`limit` must be at least 1, found 0");
    check("[run]", "seed = -1", "`seed` must be at least 0, found -1");
    check("[run]", "seed = 99999999999999999999", "`seed` is too large");
    check("[run]", "seed = 1.0", "`seed`: expected a whole number, found a decimal number");
}

#[test]
fn unknown_words() {
    check("[model]", "device = 'gpu'", "unknown device `gpu`; did you mean `cuda`?");
    check("[model]", "device = 'cuda:'", "unknown device `cuda:`; did you mean `cuda`?");
    check("[model]", "dtype = 'fp16'", "unknown dtype `fp16`; did you mean `f16`?");
    check("[model]", "audio.window = 'frist'", "unknown window `frist`; did you mean `first`?");
    check("[[benchmark]]", "profile = 'oficial'", "unknown profile `oficial`; did you mean `official`?");
    check("[[benchmark]]", "limit_by = 'random'", "unknown limit_by `random`");
    check("[model]", "temperature = 1", "unknown key `temperature` in [model]; it is a key of [generation]");
    check(
        "[[benchmark]]",
        "strip-output = true",
        "unknown key `strip-output` in [[benchmark]]; did you mean `strip_output`?",
    );
    let kind = SMALL.replace("\"local\"", "\"locl\"").replace("qwen2_audio", "qwen2-audio");
    assert_eq!(
        problems(&kind, &[]),
        [
            "settings/small.toml:3:8: unknown kind `locl`; did you mean `local`?",
            "settings/small.toml:4:16: unknown architecture `qwen2-audio`; did you mean `qwen2_audio`?",
        ]
    );
}

#[test]
fn wrong_types() {
    check("[generation]", "stop = 'x'", "`stop`: expected a list, found a string");
    check("[generation]", "stop = [1]", "`stop`: expected a list of strings, found a whole number in it");
    check("[[benchmark]]", "strip_output = 'yes'", "`strip_output`: expected true or false, found a string");
    check("[[benchmark]]", "fields = ['a']", "there can be one section `fields` only");
    check("[[benchmark]]", "fields = { audio = 1 }", "`audio`: expected a string, found a whole number");
    check("[[benchmark]]", "languages = ['eng', 'eng']", "`eng` is in `languages` twice");
    check("[run]", "name = 2026-01-01", "`name`: expected a string, found a date");
    assert_eq!(
        problems(&SMALL.replace("[[benchmark]]", "[benchmark]"), &[]),
        ["settings/small.toml:7:2: `benchmark` can be given several times and takes two brackets"]
    );
    assert_eq!(
        problems(&SMALL.replace("[model]", "[[model]]"), &[]),
        ["settings/small.toml:2:1: there can be one section `model` only"]
    );
}

#[test]
fn names_that_cannot_be_folders() {
    check("[run]", "name = ''", "`name` is empty");
    check("[run]", "name = 'a/b'", "the run name `a/b` holds a path separator");
    check("[run]", "name = '..'", "the run name `..` begins or ends with a dot");
    check("[run]", "name = ' a'", "the run name ` a` begins or ends with a blank");
    check("[run]", "name = 'a:b'", "the run name `a:b` holds a character that file names cannot have");
    check("[[benchmark]]", "label = '../a'", "the label `../a` holds a path separator");
    let long = "a".repeat(101);
    check("[run]", &format!("name = '{long}'"), &format!("the run name `{long}` is too long"));
    let unnamed = load_text(Path::new("configs/.toml"), SMALL, &[]).map(|l| l.config).unwrap_err();
    assert!(unnamed.to_string().contains("the file's name, which names the run"), "{unnamed}");
    let named = load_text(Path::new("configs/.toml"), &with("[run]", "name = 'x'"), &[]).unwrap();
    assert_eq!(named.config.run.name, "x");
}

#[test]
fn labels_are_unique() {
    let second = "[[benchmark]]\nname = 'CCFQA'\ndata = 'x'\n";
    assert_eq!(
        problems(&format!("{SMALL}{second}"), &[]),
        ["settings/small.toml:11:8: another [[benchmark]] section is called `CCFQA`"]
    );
    assert_eq!(config(&format!("{SMALL}{second}label = 'x'\n"), &[]).benchmarks[1].label, "x");
}

#[test]
fn paths_that_a_shell_would_expand() {
    let text = SMALL.replace("models/tiny", "~/models");
    assert_eq!(problems(&text, &[]), ["settings/small.toml:5:11: `~` is not expanded in a path"]);
}

#[test]
fn overrides_replace_values() {
    let two = format!("{SMALL}\n[[benchmark]]\nname = 'ccfqa'\nlabel = 'hard.er'\ndata = 'x'\n");
    let config = config(
        &two,
        &[
            "generation.temperature=0.7",
            "generation.temperature = 0.9",
            "model.device=cuda:0",
            "model.audio.window=last",
            "run.name=2026",
            "benchmark.0.limit=5",
            "benchmark.ccfqa.languages=[\"eng\"]",
            "benchmark.'hard.er'.limit=6",
            "benchmark.1.data=local/rows.jsonl",
            "generation.stop=['=']",
        ],
    );
    assert_eq!(config.generation.temperature, 0.9);
    assert_eq!(config.model.local.unwrap().device, "cuda:0");
    assert_eq!(config.model.audio.window, Window::Last);
    assert_eq!(config.run.name, "2026");
    assert_eq!(config.benchmarks.iter().map(|b| b.limit).collect::<Vec<_>>(), [Some(5), Some(6)]);
    assert_eq!(config.benchmarks[0].languages, ["eng"]);
    // From the command line, so relative to the current folder.
    assert_eq!(config.benchmarks[1].data, Path::new("local/rows.jsonl"));
    assert_eq!(config.generation.stop, ["="]);
}

#[test]
fn overrides_can_make_a_whole_configuration() {
    let sets = [
        "model={ kind = \"local\", architecture = \"qwen2_audio\", weights = \"w\" }",
        "benchmark=[{ name = \"ccfqa\", data = \"d\" }]",
    ];
    assert_eq!(config("", &sets).benchmarks[0].data, Path::new("d"));
}

#[test]
fn errors_in_overrides_point_at_them() {
    for (set, expect) in [
        (
            "generation.temprature=1",
            "--set: column 12: unknown key `temprature` in [generation]; did you mean `temperature`?",
        ),
        ("generation.temperature=warm", "--set: column 24: `temperature`: expected a number, found a string"),
        (
            "generation.stop=[x]",
            "--set: column 18: not valid TOML: this is neither a number nor a text in quotes",
        ),
        ("benchmark.7.limit=1", "--set: column 11: there is no `7` in this list"),
        ("benchmark.ccfq.limit=1", "--set: column 11: there is no `ccfq` in this list"),
        ("model.weights.x=1", "--set: column 15: nothing can be set inside a string"),
        ("model=1", "--set: column 7: `model`: expected a section, found a whole number"),
        ("run.name=", "--set: column 10: `name` is empty"),
        ("benchmark.0.limit=0", "--set: column 19: `limit` must be at least 1, found 0"),
    ] {
        assert_eq!(problems(SMALL, &[set]), [expect], "{set}");
    }
    for (set, expect) in [
        ("", "--set: column 1: a key is missing"),
        ("=1", "--set: column 1: a key is missing"),
        ("a..b=1", "--set: column 3: a key is missing"),
        ("a.b", "--set: column 4: expected `=` and a value"),
        ("a.\"b=1", "--set: column 3: a quoted key does not end"),
        ("'a'b=1", "--set: column 4: expected `.` or `=` after the quoted key"),
    ] {
        let error = Override::parse(set).unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(format!("{}: {}", problem.place, problem.message), expect, "{set}");
    }
    assert!(problems("", &["benchmark.0.limit=1"])[2].contains("there is no `0` in this list"));
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
    // A judge's model and generation have the keys of [model] and [generation].
    let (twins, all): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(path, _)| path.starts_with("judge.model.") || path.starts_with("judge.generation."));
    let of = |section: &str| all.iter().filter(|(path, _)| path.starts_with(section)).count();
    assert_eq!(twins.len(), of("model.") + of("generation."));
    assert_eq!(all.len(), 82);
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

/// Lines of configurations, whole and broken, to be put together at random.
fn lines() -> impl Strategy<Value = String> {
    let known = prop::sample::select(
        SMALL
            .lines()
            .chain([
                "[generation]",
                "[run]",
                "[model.audio]",
                "[[benchmark]]",
                "[benchmark.fields]",
                "[[model]]",
            ])
            .chain([
                "temperature = 1",
                "top_p = nan",
                "stop = ['a', 1]",
                "fields = { a = 'b' }",
                "audio = []",
            ])
            .chain([
                "name = \"日本\u{0}\"",
                "seed = 0xFFFF_FFFF_FFFF_FFFF_FF",
                "limit = 1979-05-27",
                "a.b.c = [",
            ])
            .chain(["benchmark = 3", "window = 'last'", "max_seconds = inf", "\"\" = ''"])
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    prop::collection::vec(prop_oneof![4 => known, 1 => any::<String>()], 0..12)
        .prop_map(|lines| lines.join("\n"))
}

/// Thousandths, as people type numbers. (Figures of 17 digits may come back from JSON off by the last bit.)
fn decimal(thousandths: impl Strategy<Value = i32>) -> impl Strategy<Value = f64> {
    thousandths.prop_map(|n| f64::from(n) / 1000.0)
}

proptest! {
    #[test]
    fn no_text_breaks_the_loader(text in prop_oneof![any::<String>(), lines()], set in any::<String>()) {
        let sets: Vec<Override> = Override::parse(&set).into_iter().collect();
        if let Err(error) = load_text(Path::new("x.toml"), &text, &sets) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_override_breaks_the_loader(
        path in prop::sample::select(vec!["run.name", "benchmark.0.limit", "benchmark.ccfqa.fields", "model", "a.b", "generation.stop"]),
        value in any::<String>(),
    ) {
        let set = Override::parse(&format!("{path}={value}")).unwrap();
        if let Err(error) = load_text(Path::new("x.toml"), SMALL, &[set]) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_configuration_survives_the_manifest(
        name in "[a-zé日][a-zA-Z0-9 é日_-]{0,20}[a-z]",
        seed in 0..=i64::MAX,
        temperature in decimal(0..10_000),
        top_p in decimal(1..=1000),
        top_k in -1..1000i64,
        penalty in decimal(1..4000),
        seconds in decimal(1..=30_000),
        limit in prop::option::of(1..=i64::MAX),
        stop in prop::collection::btree_set("[^\\p{C}]{1,5}", 0..3),
        device in "auto|cpu|metal|cuda(:[0-9])?",
    ) {
        let stop = serde_json::to_string(&stop).unwrap();
        let mut sets = vec![
            format!("run.name={name}"), format!("run.seed={seed}"), format!("generation.temperature={temperature}"),
            format!("generation.top_p={top_p}"), format!("generation.top_k={top_k}"), format!("generation.stop={stop}"),
            format!("generation.repetition_penalty={penalty}"), format!("model.audio.max_seconds={seconds}"),
            format!("model.device={device}"),
        ];
        sets.extend(limit.map(|limit| format!("benchmark.0.limit={limit}")));
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let config = config(SMALL, &sets);
        prop_assert_eq!(&config.run.name, &name);
        prop_assert_eq!(config.generation.temperature, temperature);
        let json = serde_json::to_string(&config).unwrap();
        prop_assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = vec!["a"; 100_000].join(".");
    for text in [format!("{deep} = 1"), format!("[{deep}]"), format!("a = {}", "[".repeat(100_000))] {
        assert!(read(&text, &[]).is_err());
    }
    assert!(Override::parse(&format!("{deep}=1")).is_err());
    let spread = vec!["\"a\\\"\""; 100_000].join(" . ");
    assert_eq!(
        problems(&format!("{spread} = 1"), &[]),
        ["settings/small.toml:1:807: this key has too many parts"]
    );
    // Not keys: dots in texts and numbers.
    let text = with(
        "[generation]",
        &format!("stop = ['{}', \"\"\"{}\"\"\"]", "a.".repeat(500), "It's so. ".repeat(500)),
    );
    assert!(read(&text, &[]).is_ok());
    assert!(read(SMALL, &[&format!("a={}", "[".repeat(100_000))]).is_err());
}

/// The messages about the endpoint configuration with lines put behind its model's own.
fn endpoint_problems(lines: &str) -> Vec<String> {
    let text = ENDPOINT.replace("[[benchmark]]", &format!("{lines}\n[[benchmark]]"));
    let found = problems(&text, &[]);
    found.iter().filter_map(|text| Some(text.split_once(": ")?.1.to_owned())).collect()
}

#[test]
fn an_endpoint_is_resolved() {
    let model = config(ENDPOINT, &[]).model;
    assert_eq!((model.kind, model.name.as_str()), (ModelKind::OpenAi, "org/m"));
    assert_eq!(model.local, None);
    assert_eq!(model.audio, audio(86_400.0, Window::Whole));
    let endpoint = model.endpoint.unwrap();
    assert_eq!(endpoint.base_urls, ["http://localhost:8000/v1"]);
    assert_eq!(endpoint.api_key_env.as_deref(), Some("MY_KEY"));
    assert_eq!((endpoint.flow.concurrency, endpoint.formats), (16, None));
    // Providers have addresses of their own.
    let text = ENDPOINT.replace("base_url = \"http://localhost:8000/v1\"\n", "");
    for (kind, url) in [
        ("openai", "https://api.openai.com/v1"),
        ("gemini", "https://generativelanguage.googleapis.com"),
        ("anthropic", "https://api.anthropic.com"),
    ] {
        let config = config(&text.replace("openai", kind), &[]);
        assert_eq!(config.model.endpoint.unwrap().base_urls, [url]);
    }
    assert_eq!(
        problems(&text.replace("openai", "azure"), &[]),
        ["settings/small.toml:2:2: the key `base_url` is missing in [model]"]
    );
}

#[test]
fn keys_of_another_kind_are_refused() {
    for (lines, expect) in [
        ("weights = 'w'", "`weights` belongs to local models; this model is `openai`"),
        ("batch_size = 4", "`batch_size` belongs to local models; this model is `openai`"),
        (
            "api_version = 'v1'",
            "`api_version` belongs to `azure`, `gemini` and `anthropic`; this model is `openai`",
        ),
        (
            "[model.transcription]\nlanguage = 'en'",
            "`transcription` belongs to `transcription`; this model is `openai`",
        ),
    ] {
        assert_eq!(endpoint_problems(lines), [expect]);
    }
    check("[model]", "base_url = 'http://h/v1'", "`base_url` belongs to endpoints; this model is `local`");
    check("[model.flow]", "rpm = 3", "`flow` belongs to endpoints; this model is `local`");
    check("[model.endpoint]", "stream = true", "`endpoint` belongs to endpoints; this model is `local`");
    check("[model.audio]", "transcode = 'wav'", "`transcode` belongs to endpoints; this model is `local`");
    let gemini = ENDPOINT.replace("openai", "gemini");
    assert_eq!(
        problems(&gemini, &["model.audio.form=audio_url"]),
        ["--set: column 13: `form` belongs to `openai` and `azure`; this model is `gemini`"]
    );
    assert_eq!(
        problems(&gemini.replace("model = \"org/m\"\n", ""), &["model.endpoint.stream=true"]),
        [
            "settings/small.toml:2:2: the key `model` is missing in [model]",
            "--set: column 16: `stream` belongs to `openai` and `azure`; this model is `gemini`",
        ]
        .map(str::to_owned)
    );
}

#[test]
fn endpoint_values_that_make_no_sense() {
    for (lines, expect) in [
        ("[model.audio]\nwindow = 'first'", "to send the first seconds of a clip it has to be written anew"),
        ("[model.audio]\nformats = ['wave']", "unknown format `wave`; did you mean `wav`?"),
        (
            "[model.audio]\nformats = ['mp3']\ntranscode = 'wav'",
            "clips are transcoded to wav, which is not among the formats that the endpoint takes",
        ),
        ("[model.audio]\ntranscode = 'mp3'", "unknown transcode `mp3`"),
        ("[model.audio]\nform = 'audio-url'", "unknown form `audio-url`; did you mean `audio_url`?"),
        ("[model.flow]\nmin_concurrency = 17", "`min_concurrency` is above `concurrency`"),
        (
            "[model.flow]\ntimeout_seconds = 5\ndeadline_seconds = 4",
            "`deadline_seconds` is below `timeout_seconds`, so no attempt would have its time",
        ),
        ("[model.flow]\nrpm = 0", "`rpm` must be at least 1 and at most 4294967295, found 0"),
        ("[model.price]\nmax_cost = 1", "`max_cost` needs prices to count with"),
        ("[model.endpoint]\nsend = ['topp']", "unknown send `topp`; did you mean `top_p`?"),
        ("[model.endpoint]\nextra_body = { messages = [] }", "`extra_body` must not set `messages`"),
        ("[model.endpoint]\nextra_body = { a = [nan] }", "`extra_body`: JSON has finite numbers only"),
        ("[model.endpoint]\nextra_body = { a = { b = 2026-01-01 } }", "`extra_body`: JSON has no dates"),
        ("[model.endpoint]\nheaders = { 'a b' = 'c' }", "`a b` cannot be the name of a header"),
        ("[model.endpoint]\nheaders = { a = '$' }", "`a`: a `$` is not followed by the name of a variable"),
        ("base_urls = ['http://h']", "`base_url` and `base_urls` are both here"),
    ] {
        assert_eq!(endpoint_problems(lines), [expect], "{lines}");
    }
    for (url, expect) in [
        ("localhost:8000/v1", "`base_url` must begin with http:// or https://"),
        ("http:///v1", "`base_url` names no server"),
        ("http://h/v1?a=b", "`base_url` holds a query"),
        ("", "`base_url` is empty"),
    ] {
        let found = problems(&ENDPOINT.replace("http://localhost:8000/v1", url), &[]);
        assert_eq!(found, [format!("settings/small.toml:5:12: {expect}")]);
    }
    let rate = read(ENDPOINT, &["model.audio.rate=16000"]).unwrap().warnings;
    assert_eq!(rate.len(), 1);
    assert!(read(ENDPOINT, &["model.audio={window='first', transcode='wav'}"]).is_ok());
}

/// Whatever is wrong with a file, its errors show no key that stands in it.
#[test]
fn errors_show_no_secrets() {
    for (from, to) in [
        ("base_url = \"", "api_key = \"s3cret-0123456789\"\nbase_url = \""),
        ("base_url = \"", "api_key = s3cret-0123456789\nbase_url = \""),
        ("\"MY_KEY\"", "\"s3cret-0123456789\""),
        ("http://localhost", "http://me:s3cret-0123456789@localhost"),
        ("[[benchmark]]", "[model.endpoint]\nproxy = 'http://me:s3cret-0123456789@p'\n[[benchmark]]"),
        (
            "[[benchmark]]",
            "[model.endpoint]\nheaders = { Authorization = 'Bearer s3cret-0123456789' }\n[[benchmark]]",
        ),
        ("[[benchmark]]", "[model.endpoint.headers]\nx-api-key = 's3cret-0123456789'\n[[benchmark]]"),
    ] {
        let error = read(&ENDPOINT.replace(from, to), &[]).map(|l| l.config).unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
    let error = read(ENDPOINT, &["model.api_key=s3cret-0123456789"]).map(|l| l.config).unwrap_err();
    assert!(error.to_string().contains("name that: api_key_env = \"MY_KEY\""), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

/// The manifest holds the resolved configuration: names of variables, and the numbers as they are.
#[test]
fn an_endpoint_survives_the_manifest() {
    let sets = [
        "model.endpoint.headers={ x-key = \"$K\" }",
        "model.endpoint.extra_body={ a = [1, 2.5, { b = true }] }",
    ];
    let config = config(ENDPOINT, &sets);
    let json = serde_json::to_string(&config).unwrap();
    assert!(json.contains("\"$K\"") && json.contains("\"MY_KEY\""), "{json}");
    assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
}
