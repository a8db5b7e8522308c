//! From what was typed to what it means: defaults filled in, paths resolved.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::raw::{RawBenchmark, RawConfig, RawDtype, RawGeneration, RawModel, RawRun};
use super::resolved::{AudioConfig, BenchmarkConfig, ModelConfig, RunConfig, RunSection};
use super::tree::{Locator, Node, Step};
use crate::types::Generation;

/// The seed when none is given: that of CCFQA's published runs.
pub const DEFAULT_SEED: u64 = 443;

/// Resolves a configuration that has passed the check.
pub(super) fn resolve(path: &Path, raw: RawConfig, locator: &Locator) -> RunConfig {
    let folders = Folders { file: path.parent().unwrap_or(Path::new("")), locator };
    RunConfig {
        path: path.to_path_buf(),
        run: run(path, raw.run.unwrap_or_default()),
        model: model(raw.model, &folders),
        generation: generation(raw.generation.unwrap_or_default()),
        benchmarks: raw
            .benchmark
            .into_iter()
            .enumerate()
            .map(|(index, raw)| benchmark(index, raw, &folders))
            .collect(),
    }
}

/// The name of a run whose configuration doesn't give one: that of the file.
pub(super) fn default_name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn run(path: &Path, raw: RawRun) -> RunSection {
    RunSection {
        name: raw.name.unwrap_or_else(|| default_name(path)),
        seed: raw.seed.unwrap_or(DEFAULT_SEED),
        results: PathBuf::from(raw.results.as_deref().unwrap_or("results")),
        note: raw.note,
    }
}

fn model(raw: RawModel, folders: &Folders<'_>) -> ModelConfig {
    let weights = folders.path(&raw.weights, &["model".into(), "weights".into()]);
    let audio = raw.audio.unwrap_or_default();
    ModelConfig {
        kind: raw.kind,
        name: raw.name.unwrap_or_else(|| {
            // `weights = "."` has no name to give.
            weights.file_name().unwrap_or(OsStr::new(&raw.architecture)).to_string_lossy().into_owned()
        }),
        architecture: raw.architecture,
        weights,
        device: raw.device.unwrap_or_else(|| "auto".to_owned()),
        dtype: raw.dtype.unwrap_or(RawDtype::Auto).as_str().to_owned(),
        batch_size: raw.batch_size.map_or(8, size),
        audio: AudioConfig {
            max_seconds: audio.max_seconds.unwrap_or(30.0),
            window: audio.window.unwrap_or_default(),
        },
        published_as: raw.published_as,
    }
}

fn generation(raw: RawGeneration) -> Generation {
    let default = Generation::default();
    Generation {
        temperature: raw.temperature.unwrap_or(default.temperature),
        top_p: raw.top_p.unwrap_or(default.top_p),
        // -1 is how some servers write "off".
        top_k: raw.top_k.map_or(default.top_k, |k| usize::try_from(k).unwrap_or(0)),
        repetition_penalty: raw.repetition_penalty.unwrap_or(default.repetition_penalty),
        max_new_tokens: raw.max_new_tokens.map_or(default.max_new_tokens, size),
        stop: raw.stop.unwrap_or(default.stop),
    }
}

fn benchmark(index: usize, raw: RawBenchmark, folders: &Folders<'_>) -> BenchmarkConfig {
    let path = |text: &str, key: &str| folders.path(text, &["benchmark".into(), index.into(), key.into()]);
    BenchmarkConfig {
        label: raw.label.unwrap_or_else(|| raw.name.clone()),
        name: raw.name,
        data: path(&raw.data, "data"),
        media: raw.media.map(|text| path(&text, "media")),
        conditions: raw.conditions.unwrap_or_default(),
        languages: raw.languages.unwrap_or_default(),
        profile: raw.profile.unwrap_or_default(),
        limit: raw.limit,
        limit_by: raw.limit_by.unwrap_or_default(),
        prompt: raw.prompt.map(|text| path(&text, "prompt")),
        strip_output: raw.strip_output.unwrap_or(true),
        metrics: raw.metrics.unwrap_or_default(),
        fields: raw.fields.unwrap_or_default(),
        system: raw.system,
    }
}

/// A size that the check has bounded.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What relative paths are relative to.
struct Folders<'a> {
    /// The folder of the configuration file.
    file: &'a Path,
    locator: &'a Locator,
}

impl Folders<'_> {
    /// A path that is written in the file is relative to the file, one from the command line to the current
    /// folder.
    fn path(&self, text: &str, key: &[Step]) -> PathBuf {
        let node = key.iter().try_fold(&self.locator.root, Node::get);
        let in_file = node.is_none_or(|node| node.source == 0);
        let path = Path::new(text);
        if in_file { shorten(&self.file.join(path)) } else { path.to_path_buf() }
    }
}

/// Takes `.` and `folder/..` out of a path, the latter only where the folder is known not to be a link: then
/// the path means the same.
fn shorten(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(short.components().next_back(), Some(Component::Normal(_)))
                    && short.symlink_metadata().is_ok_and(|found| found.is_dir()) =>
            {
                short.pop();
            }
            other => short.push(other),
        }
    }
    if short.as_os_str().is_empty() { PathBuf::from(".") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shortened_only_where_they_mean_the_same() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        assert_eq!(shorten(&root.join("real/./inner/../x")), root.join("real/x"));
        assert_eq!(shorten(&root.join("missing/../x")), root.join("missing/../x"));
        assert_eq!(shorten(Path::new("../x")), Path::new("../x"));
        assert_eq!(shorten(Path::new("./")), Path::new("."));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.join("real/inner"), root.join("link")).unwrap();
            assert_eq!(shorten(&root.join("link/../x")), root.join("link/../x"));
        }
    }
}
