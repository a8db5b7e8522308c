//! From a config file to sections and model: what `run` and `check` have in common.

use std::path::PathBuf;
use std::sync::Arc;

use super::exit::{self, Failure};
use super::{ConfigArgs, open_data as data, shots, wording};
use crate::benchmark;
use crate::config::secret::{self, Secrets};
use crate::config::{self, BenchmarkConfig, Categories, Loaded, ModelConfig, Override, RunConfig, Step};
use crate::model::{self, Opened};
use crate::prompt::official::Pins;
use crate::run::plan::Section;
use crate::types::{Generation, shown};

/// Loads the config with what the command line changes in it.
pub(super) fn load(args: &ConfigArgs) -> Result<Loaded, Failure> {
    let mut set = args.set.clone();
    if let Some(name) = &args.name {
        set.push(Override::parse(&format!("run.name={}", toml::Value::from(name.as_str())))?);
    }
    let mut loaded = config::load(&args.config, &set)?;
    for benchmark in &mut loaded.config.benchmarks {
        if let Some(limit) = args.limit {
            benchmark.limit = Some(benchmark.limit.map_or(limit, |own| own.min(limit)));
        }
    }
    if let Some(results) = &args.results {
        loaded.config.run.results.clone_from(results);
    }
    read_categories(&mut loaded)?;
    warn(&loaded);
    for warning in unpublished(&loaded.config) {
        eprintln!("warning: {}", loaded.locator.problem(&["model".into(), "published_as".into()], warning));
    }
    Ok(loaded)
}

/// Reads the files of categories that sections name.
fn read_categories(loaded: &mut Loaded) -> Result<(), Failure> {
    for index in 0..loaded.config.benchmarks.len() {
        let Some(section) = loaded.config.benchmarks.get(index) else { continue };
        let Some(file) = &section.categories_file else { continue };
        let found = std::fs::read_to_string(file).map_err(|e| format!("cannot be read: {e}"));
        let found = found.and_then(|text| Categories::parse(&text)).map_err(|reason| {
            let place = loaded.locator.place(&["benchmark".into(), index.into(), "categories".into()]);
            Failure::new(exit::USAGE, format!("error: {place}: {}: {reason}", file.display()))
        })?;
        if let Some(section) = loaded.config.benchmarks.get_mut(index) {
            section.categories = Some(found);
        }
    }
    Ok(())
}

/// Says what does nothing in a config.
pub(super) fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
}

/// How many names of published rows are shown.
const NEAREST: usize = 5;

/// Says of which benchmarks no published table has the row that the run is to be compared with.
fn unpublished(config: &RunConfig) -> Vec<String> {
    let Some(name) = config.model.published_as.as_deref() else { return Vec::new() };
    let mut seen = Vec::new();
    let mut sentences = Vec::new();
    for benchmark in config.benchmarks.iter().map(|section| section.name.as_str()) {
        if seen.contains(&benchmark) {
            continue;
        }
        seen.push(benchmark);
        // Figures that cannot be read are told where they are needed.
        let Ok(published) = benchmark::published(benchmark) else { continue };
        let models = published.models();
        if models.contains(&name) {
            continue;
        }
        let name = shown(name);
        if models.is_empty() {
            sentences
                .push(format!("`{benchmark}` has no published tables, so `{name}` changes nothing there"));
            continue;
        }
        let nearest: Vec<_> = config::by_likeness(&name, models.iter().copied())
            .into_iter()
            .take(NEAREST)
            .map(|model| format!("`{model}`"))
            .collect();
        let which = if models.len() > NEAREST { "the nearest are " } else { "there are " };
        sentences.push(format!(
            "no row of the published tables of `{benchmark}` is called `{name}`, so no published figures will stand beside \
             this run's; {which}{}",
            nearest.join(", ")
        ));
    }
    sentences
}

/// The folder of a run.
pub(super) fn folder_of(config: &RunConfig) -> PathBuf {
    config.run.results.join(&config.run.name)
}

/// What is done with published data that must be prepared before they can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unprepared {
    /// It is said.
    Said,
    /// They are prepared now, where that does not take long.
    Prepared,
}

/// Sets up every section; all problems are reported together. Data are prepared where they must be.
pub(super) fn sections(loaded: &Loaded) -> Result<Vec<Section>, Failure> {
    let (sections, problems) = sections_and_problems(loaded, Unprepared::Prepared);
    if problems.is_empty() { Ok(sections) } else { Err(Failure::new(exit::USAGE, problems.join("\n"))) }
}

/// Sets up the sections that can be, and says what is wrong with the others.
pub(super) fn sections_and_problems(loaded: &Loaded, unprepared: Unprepared) -> (Vec<Section>, Vec<String>) {
    let mut sections = Vec::new();
    let mut problems = Vec::new();
    for (index, config) in loaded.config.benchmarks.iter().enumerate() {
        match section(loaded, index, config, unprepared) {
            Ok(section) => sections.push(section),
            Err(problem) => problems.push(problem),
        }
    }
    (sections, problems)
}

fn section(
    loaded: &Loaded,
    index: usize,
    config: &BenchmarkConfig,
    unprepared: Unprepared,
) -> Result<Section, String> {
    let pins = Pins::embedded().map_err(|e| format!("error: {e}"))?;
    let at = |key: &str, problem: &dyn std::fmt::Display| {
        problem_at(loaded, &["benchmark".into(), index.into(), key.into()], problem)
    };
    let mut prompts = wording::of(config, &pins, model::takes_finished_prompts(&loaded.config.model))
        .map_err(|e| at("prompt", &e))?;
    shots::put(config, &mut prompts).map_err(|e| at("shots", &e))?;
    let window = loaded.config.model.hearing().audio.window;
    let mut benchmark = benchmark::build(config, prompts.clone(), window).map_err(|e| at(e.key(), &e))?;
    // The media of answers that are there already need not be there.
    let there =
        loaded.config.model.replay.is_some().then(|| BenchmarkConfig { media: None, ..config.clone() });
    let dataset = data::open(there.as_ref().unwrap_or(config), unprepared)
        .map_err(|(key, sentence)| at(key, &sentence))?;
    benchmark.rows_in(dataset.index());
    Ok(Section { config: config.clone(), benchmark: Arc::from(benchmark), prompts, dataset })
}

/// What is to be said of data that are not the published ones, where the config does not allow them.
pub(super) fn other_data(loaded: &Loaded, index: usize, differs: &[String]) -> Option<String> {
    let config = loaded.config.benchmarks.get(index)?;
    if differs.is_empty() || config.allow_other_data {
        return None;
    }
    let sentence = format!(
        "the data are not the ones that the paper's figures are of: {}; get the published ones with `harness fetch {}`, \
         try a part with --limit, or set `allow_other_data = true` here: then every table says how the data differ",
        differs.join("; "),
        config.name
    );
    Some(problem_at(loaded, &["benchmark".into(), index.into(), "data".into()], &sentence))
}

/// A problem that was found after the config was read, shown at the line that it comes from.
pub(super) fn problem_at(loaded: &Loaded, path: &[Step], problem: &dyn std::fmt::Display) -> String {
    format!("error: {}", loaded.locator.problem(path, problem.to_string()))
}

/// Shows a problem at the keys to where it comes from.
pub(super) type At<'a> = &'a Show<'a>;
pub(super) type Show<'a> = dyn Fn(&[Step], &dyn std::fmt::Display) -> String + 'a;

/// Shows problems of a section of the config.
pub(super) fn problems_below<'a>(
    loaded: &'a Loaded,
    section: &'static str,
) -> impl Fn(&[Step], &dyn std::fmt::Display) -> String + 'a {
    move |path, problem| {
        let path: Vec<Step> = std::iter::once(section.into()).chain(path.iter().cloned()).collect();
        problem_at(loaded, &path, problem)
    }
}

/// The secrets that a model's section names.
pub(super) fn secrets_of(model: &ModelConfig, at: At<'_>) -> Result<Secrets, Failure> {
    secret::secrets(model).map_err(|errors| {
        let problems: Vec<String> = errors.iter().map(|e| at(&e.path, e)).collect();
        Failure::new(exit::USAGE, problems.join("\n"))
    })
}

/// Looks at the model without loading it.
pub(super) fn model(loaded: &Loaded, secrets: &Secrets) -> Result<Opened, Failure> {
    let at: At<'_> = &|path, problem| problem_at(loaded, path, problem);
    model_of(&loaded.config.model, secrets, &loaded.config.generation, at)
}

/// Looks at a model that is to answer with these settings.
pub(super) fn model_of(
    model: &ModelConfig,
    secrets: &Secrets,
    generation: &Generation,
    at: At<'_>,
) -> Result<Opened, Failure> {
    let opened = model::open(model, secrets)
        .map_err(|e| Failure::new(exit::MODEL, at(&["model".into(), e.key().into()], &e)))?;
    match opened.refuses(generation) {
        Some(sentence) => Err(Failure::new(exit::USAGE, at(&["generation".into()], &sentence))),
        None => Ok(opened),
    }
}
