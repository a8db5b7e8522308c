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

/// What can run offline names only what is in the repository.
#[test]
fn the_files_of_the_demo_are_there() {
    for name in ["demo", "manifest"] {
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
    assert_eq!((config.run.seed, config.generation.temperature), (443, 0.0));
    assert_eq!((config.generation.top_k, config.generation.max_new_tokens), (1, 256));
    assert_eq!(config.model.published_as.as_deref(), Some("Qwen2-Audio"));
}
