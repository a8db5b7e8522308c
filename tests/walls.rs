//! The walls between the rooms (ARCHITECTURE.md): what a room must not know does not stand in its code.

mod common;

use std::path::{Path, PathBuf};

use common::root;

/// The sources of a room, tests left out, with comment lines removed.
fn sources(room: &str) -> Vec<(PathBuf, String)> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        if path.is_dir() {
            for entry in std::fs::read_dir(path).expect("a folder").flatten() {
                walk(&entry.path(), found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") && !path.to_string_lossy().contains("tests") {
            found.push(path.to_owned());
        }
    }
    let mut files = Vec::new();
    walk(&root().join("src").join(room), &mut files);
    assert!(!files.is_empty(), "no sources in {room}");
    let code = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        (path, lines.collect::<Vec<_>>().join("\n"))
    };
    files.into_iter().map(code).collect()
}

#[track_caller]
fn check(rooms: &[&str], banned: &[&str]) {
    for room in rooms {
        for (path, code) in sources(room) {
            // The presets of `replay` are called by the tool whose files they read, and one tool by its benchmark.
            let code =
                if path.ends_with("model/replay/mod.rs") { code.replace("\"ccfqa\"", "") } else { code };
            for word in banned {
                assert!(!code.contains(word), "{} holds `{word}`", path.display());
            }
        }
    }
}

const ALL: [&str; 19] = [
    "benchmark",
    "cli",
    "config",
    "dataset",
    "http.rs",
    "hub",
    "languages.rs",
    "media",
    "metric",
    "model",
    "prepare",
    "prompt",
    "report",
    "run",
    "server",
    "survey",
    "types",
    "types.rs",
    "wiki",
];

#[test]
fn all_rooms_are_walled() {
    let found =
        std::fs::read_dir(root().join("src")).expect("the sources").map(|entry| entry.expect("a room"));
    let mut found: Vec<String> =
        found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    // The crate's two ends, and a list that is no code.
    found.retain(|name| !["lib.rs", "main.rs", "languages.toml"].contains(&name.as_str()));
    found.sort_unstable();
    assert_eq!(found, ALL);
}

#[test]
fn metric_is_pure() {
    check(
        &["metric"],
        &["std::fs", "std::io", "std::net", "std::time", "std::env", "tokio", "async ", "crate::"],
    );
}

#[test]
fn benchmarks_open_nothing() {
    check(
        &["benchmark"],
        &["std::fs", "File::open", "std::net", "tokio", "symphonia", "crate::media", "crate::run"],
    );
}

#[test]
fn only_the_room_of_local_models_knows_candle() {
    let others = ALL.iter().filter(|room| **room != "model");
    check(&others.copied().collect::<Vec<_>>(), &["candle"]);
    check(&["model/mod.rs", "model/open.rs"], &["candle_core", "candle_nn"]);
}

#[test]
fn only_config_reads_the_environment() {
    let others = ALL.iter().filter(|room| **room != "config");
    check(&others.copied().collect::<Vec<_>>(), &["std::env::var", "env::var("]);
}

#[test]
fn only_media_knows_codecs() {
    let others = ALL.iter().filter(|room| **room != "media");
    check(&others.copied().collect::<Vec<_>>(), &["symphonia", "hound"]);
}

#[test]
fn the_engine_knows_no_protocol_and_benchmarks_are_named_in_their_room_only() {
    check(
        &["run", "model", "media", "dataset", "prompt", "report", "types", "types.rs"],
        &["\"ccfqa\"", "\"cp-bench\"", "\"manifest\""],
    );
    check(
        &["model", "media", "dataset", "metric", "prompt"],
        &["crate::benchmark", "crate::run", "crate::cli"],
    );
}

#[test]
fn servers_are_started_without_knowing_what_they_serve() {
    check(
        &["server"],
        &[
            "reqwest",
            "crate::model",
            "crate::benchmark",
            "crate::run",
            "crate::cli",
            "ServerConfig",
            "println!",
        ],
    );
}

#[test]
fn data_are_prepared_and_described_without_runs_and_models() {
    check(&["prepare", "survey"], &["crate::run", "crate::model", "crate::cli", "tokio"]);
    check(&["wiki"], &["crate::", "tokio"]);
}

#[test]
fn only_dataset_knows_arrow_and_parquet() {
    let others = ALL.iter().filter(|room| **room != "dataset");
    check(&others.copied().collect::<Vec<_>>(), &["arrow_", "parquet::"]);
}
