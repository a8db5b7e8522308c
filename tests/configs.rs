//! The configurations that come with the program.

use std::path::{Path, PathBuf};

use harness::config;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(root().join("configs"))
        .expect("the folder of configurations")
        .map(|entry| entry.expect("an entry of it").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_configuration_loads_without_problems() {
    let files = files();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let loaded = config::load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.warnings, Vec::<String>::new(), "{}", file.display());
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("#:schema ./harness.schema.json\n"), "{} names no schema", file.display());
    }
}

/// Every endpoint is complete without a request, and sends every setting that its configuration asks for.
#[cfg(feature = "endpoint")]
#[test]
fn every_endpoint_opens_and_sends_all_settings() {
    let mut kinds = std::collections::BTreeSet::new();
    for file in files() {
        let config = config::load(&file, &[]).unwrap().config;
        if config.model.endpoint.is_none() {
            continue;
        }
        let opened = harness::model::open(&config.model, &config::secret::Secrets::default());
        let opened = opened.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(opened.refuses(&config.generation), None, "{}", file.display());
        assert_eq!(opened.identity.kind, config.model.kind.as_str());
        kinds.insert(opened.identity.kind);
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["anthropic", "azure", "gemini", "openai"]);
}

/// CCFQA's runs with this model, whoever runs it.
#[test]
fn qwen2audio_behind_a_server_has_the_settings_of_the_paper() {
    let read = |name: &str| config::load(&root().join("configs").join(name), &[]).unwrap().config;
    let (local, served) = (read("qwen2audio.toml"), read("qwen2audio-vllm.toml"));
    assert_eq!(local.generation, served.generation);
    assert_eq!(local.run.seed, served.run.seed);
    assert_eq!(local.benchmarks, served.benchmarks);
    assert_eq!(local.model.audio, served.model.audio);
}

/// What can run offline names only what is in the repository.
#[test]
fn the_files_of_the_demo_are_there() {
    for name in ["demo", "demo-images", "manifest"] {
        let file = root().join("configs").join(name).with_extension("toml");
        let config = config::load(&file, &[]).unwrap().config;
        assert!(config.model.local.unwrap().weights.join("model.safetensors").is_file());
        for benchmark in config.benchmarks {
            assert!(benchmark.data.is_file(), "{}", benchmark.data.display());
        }
    }
}

/// The published settings of CCFQA's runs with this model.
#[test]
fn qwen2audio_has_the_settings_of_the_paper() {
    let file = root().join("configs/qwen2audio.toml");
    let config = config::load(&file, &[]).unwrap().config;
    assert_eq!((config.run.seed, config.generation.temperature), (443, Some(0.0)));
    assert_eq!((config.generation.top_k, config.generation.max_new_tokens), (1, 256));
    assert_eq!(config.model.published_as.as_deref(), Some("Qwen2-Audio"));
}
