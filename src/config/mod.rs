//! TOML to a validated, resolved configuration; errors point at the line that is wrong.
//!
//! What was typed ([`raw`]) and what it means ([`RunConfig`]) are two types. The JSON schema is made from the
//! first, and a file is checked against that schema, so there is one list of keys. This room alone may read
//! environment variables ([`mod@env`]). It must not open datasets, models or sockets: whether the files that a
//! configuration names exist is for those who open them, and [`Locator`] lets them point at the line.
//!
//! The way of a file: `tree` (TOML with places) -> `overrides` -> `check` -> [`raw`] -> `resolve`.

pub mod belebele;
pub mod cascade;
mod categories;
mod check;
pub mod endpoint;
pub mod env;
pub mod hub;
pub mod image;
mod overrides;
mod problem;
pub mod raw;
mod resolve;
mod resolved;
mod schema;
pub mod secret;
mod temperature;
#[cfg(test)]
mod tests;
mod tree;

use std::path::Path;

use serde::Deserialize as _;

pub use belebele::BelebeleConfig;
pub use cascade::CascadeConfig;
pub use categories::Categories;
pub use check::{unfit_for_files, unfit_for_judge};
pub use endpoint::{EndpointConfig, ServerConfig};
pub use image::ImageConfig;
pub use overrides::Override;
pub use problem::{ConfigError, Place, Problem, Spot, by_likeness, nearest};
pub use raw::ARCHITECTURES;
pub use resolve::DEFAULT_SEED;
pub use resolved::{
    AudioConfig, BenchmarkConfig, HubWeights, JudgeConfig, LimitBy, LocalConfig, ModelConfig, ModelKind,
    ReplayConfig, RunConfig, RunSection, Variant, WindowRule, Wording,
};
pub use schema::schema;
pub use temperature::{ChosenTemperature, TemperatureWord};
pub use tree::{Locator, Step};

/// A configuration, and what is needed to speak about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it means.
    pub config: RunConfig,
    /// What is allowed but probably not meant: one sentence each, with its place.
    pub warnings: Vec<String>,
    /// Where its keys were written.
    pub locator: Locator,
}

/// The most bytes that a configuration may have; a longer file is something else, named by mistake.
const MAX_BYTES: u64 = 4 << 20;

/// Reads a configuration file and puts overrides over it, the last one winning.
///
/// All that is wrong is reported together. Whether the files that it names exist is not looked at.
pub fn load(path: &Path, overrides: &[Override]) -> Result<Loaded, ConfigError> {
    load_text(path, &read(path)?, overrides)
}

/// Reads the configuration of a judge for answers that are there. Of what it does not say, for it may have `[judge]`
/// alone, the run's model, seed and benchmarks count.
pub fn load_judge(path: &Path, run: &RunConfig) -> Result<Loaded, ConfigError> {
    load_for(path, &read(path)?, &[], Some(run))
}

/// The text of a configuration file.
fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable { path: path.to_path_buf(), reason };
    let found = std::fs::metadata(path)
        .map_err(|error| unreadable(format!("cannot read the configuration: {error}; name a .toml file")))?;
    if found.is_dir() {
        return Err(unreadable("this is a folder; name a configuration file, such as demo.toml".to_owned()));
    }
    if found.len() > MAX_BYTES {
        let size = found.len();
        return Err(unreadable(format!(
            "this file has {size} bytes, more than any configuration; name a .toml file"
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| {
        unreadable(format!("cannot read the configuration: {error}; check its permissions"))
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        unreadable(format!("line {line} is not UTF-8 text; save the configuration as UTF-8"))
    })
}

/// The same for a text that was read already; `path` is where it came from.
pub fn load_text(path: &Path, text: &str, overrides: &[Override]) -> Result<Loaded, ConfigError> {
    load_for(path, text, overrides, None)
}

/// Reads a configuration; one of a judge alone for the run that it is to judge.
fn load_for(
    path: &Path,
    text: &str,
    overrides: &[Override],
    run: Option<&RunConfig>,
) -> Result<Loaded, ConfigError> {
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text).to_owned();
    let file = problem::Source { name: path.display().to_string(), text };
    let sources: Vec<_> = std::iter::once(file).chain(overrides.iter().map(Override::source)).collect();
    let invalid = |problems: Vec<Problem>| ConfigError::Invalid { problems };

    let root = tree::parse(&sources).map_err(invalid)?;
    let mut locator = Locator { sources, root };
    let mut problems = Vec::new();
    for (index, change) in overrides.iter().enumerate() {
        if let Err(problem) = change.apply(&mut locator.root, index + 1) {
            problems.push(problem);
        }
    }
    problems.extend(check::check(&locator, run.is_some()));
    if run.is_none()
        && locator.root.get(&"run".into()).and_then(|run| run.key("name")).is_none()
        && let Some(why) = check::unfit_for_files(&resolve::default_name(path))
    {
        problems.push(
            Problem::new(locator.place(&[]), format!("the file's name, which names the run, {why}"))
                .help("give the run a name: [run] name = \"my-run\""),
        );
    }
    if !problems.is_empty() {
        problems.sort_by_key(|problem| Locator::order(&problem.place));
        return Err(invalid(problems));
    }
    // The check has gone through the same schema, so this fails only where the two disagree.
    let raw = raw::RawConfig::deserialize(locator.root.to_toml())
        .map_err(|error| Problem::new(locator.place(&[]), error.message().to_owned()))?;
    let config = resolve::resolve(path, raw, &locator, run).map_err(invalid)?;
    let warnings = check::warnings(&config, &locator, run.is_some());
    Ok(Loaded { config, warnings, locator })
}
