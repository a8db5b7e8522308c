//! `harness data`: what data hold, before anything is asked of a model.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::exit::{self, Failure};
use super::print;
use super::progress::{EVERY, duration};
use crate::benchmark;
use crate::benchmark::sources::{self, sources};
use crate::config;
use crate::dataset::{Choice, Dataset, DatasetError};
use crate::prepare::{self, Asked};
use crate::run::manifest::Manifest;
use crate::survey::{Survey, Surveyor};

/// Which data, and how they are shown.
#[derive(Debug, Args)]
pub(super) struct DataArgs {
    /// A benchmark (its folder is data/BENCHMARK), a config, a run, or a data folder or file.
    #[arg(value_name = "BENCHMARK|CONFIG|RUN|PATH")]
    what: String,
    /// The benchmark whose published data a folder is compared with [default: by the folder's records or name].
    #[arg(long, value_name = "BENCHMARK")]
    benchmark: Option<String>,
    /// Print JSON: one object with a key for each data set.
    #[arg(long)]
    json: bool,
}

/// Data that are looked at.
#[derive(Clone, Debug)]
struct Place {
    label: String,
    benchmark: Option<String>,
    data: PathBuf,
    media: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    data: &'a Path,
    benchmark: Option<&'a str>,
    #[serde(flatten)]
    survey: &'a Survey,
}

/// `harness data`
pub(super) fn data(args: &DataArgs) -> Result<u8, Failure> {
    let mut json = serde_json::Map::new();
    let mut whole = true;
    for place in places(args)? {
        let survey = survey(&place)?;
        whole &= survey.missing + survey.broken + survey.unreadable == 0
            && survey.differs.as_ref().is_none_or(Vec::is_empty);
        if args.json {
            let shown = Shown { data: &place.data, benchmark: place.benchmark.as_deref(), survey: &survey };
            json.insert(place.label.clone(), serde_json::to_value(shown).unwrap_or(Value::Null));
        } else {
            print(&table(&place, &survey))?;
        }
    }
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&json).unwrap_or_default()))?;
    }
    Ok(if whole { exit::DONE } else { exit::INCOMPLETE })
}

/// The data that are meant.
fn places(args: &DataArgs) -> Result<Vec<Place>, Failure> {
    let path = Path::new(&args.what);
    if path.extension().is_some_and(|suffix| suffix == "toml") {
        let loaded = config::load(path, &[])?;
        return Ok(loaded.config.benchmarks.iter().map(|section| of_section(args, section)).collect());
    }
    for run in [path.to_owned(), Path::new("results").join(path)] {
        if run.join("manifest.json").is_file()
            && run.join("plan.jsonl").is_file()
            && let Some(manifest) = Manifest::read(&run)?
        {
            return Ok(manifest.config.benchmarks.iter().map(|section| of_section(args, section)).collect());
        }
    }
    let known = |name: &str| sources::names().any(|known| known == name);
    let name = args.what.clone();
    let data = if known(&name) && !path.exists() { Path::new("data").join(&name) } else { path.to_owned() };
    if !data.exists() {
        let get =
            if known(&name) { format!(": get the data with `harness fetch {name}`") } else { String::new() };
        let text = format!(
            "error: {}: no such benchmark, config, run, file or folder{get}; benchmarks are {}",
            data.display(),
            sources::names().collect::<Vec<_>>().join(", ")
        );
        return Err(Failure::new(exit::USAGE, text));
    }
    let benchmark =
        args.benchmark.clone().or_else(|| of_folder(&data)).or(Some(name).filter(|name| known(name)));
    if let Some(unknown) = benchmark.as_deref().filter(|name| !known(name)) {
        return Err(Failure::new(
            exit::USAGE,
            format!("error: {}", sources::SourcesError::Unknown(unknown.to_owned())),
        ));
    }
    let label = benchmark.clone().unwrap_or_else(|| "data".to_owned());
    Ok(vec![Place { label, benchmark, data, media: None }])
}

fn of_section(args: &DataArgs, section: &config::BenchmarkConfig) -> Place {
    let named = args.benchmark.clone().unwrap_or_else(|| section.name.clone());
    Place {
        label: section.label.clone(),
        benchmark: Some(named).filter(|name| sources::names().any(|known| known == *name)),
        data: section.data.clone(),
        media: section.media.clone(),
    }
}

/// The benchmark of a folder, by the records in it or by its name.
fn of_folder(folder: &Path) -> Option<String> {
    let recorded = ["fetch.json", "prepared/prepare.json"].iter().find_map(|name| {
        let text = std::fs::read(folder.join(name)).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        Some(value.get("benchmark")?.as_str()?.to_owned())
    });
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    recorded.or(name).filter(|name| sources::names().any(|known| known == *name))
}

/// The rows of a place: prepared, or as they are published.
fn datasets(place: &Place) -> Result<Vec<Dataset>, Failure> {
    let published = place.benchmark.as_deref().and_then(|name| sources(name).ok());
    let ignored = published.iter().flat_map(|sources| &sources.ignore).map(String::as_str);
    // Previews that repeat rows are never the data, whoever published them.
    let ignore: Vec<&str> = ignored.chain(["view_*.parquet"]).collect();
    let split = published.as_ref().and_then(sources::split);
    let choice = Choice { split, ignore: &ignore, lenient: true, ..Choice::default() };
    let found = Dataset::choose(&place.data, place.media.as_deref(), &choice);
    match (found, &place.benchmark) {
        (Err(none @ DatasetError::NoIndex { .. }), Some(benchmark)) => {
            let asked = Asked {
                benchmark: benchmark.clone(),
                data: place.data.clone(),
                to: None,
                languages: Vec::new(),
            };
            let plan = prepare::plan(&asked)?;
            if plan.sets.is_empty() {
                return Err(Failure::new(exit::USAGE, format!("error: {none}")));
            }
            Ok(plan.sets.iter().flat_map(prepare::PlannedSet::datasets).cloned().collect())
        }
        (found, _) => match found {
            Ok(dataset) => Ok(vec![dataset]),
            Err(e) => Err(Failure::new(exit::USAGE, format!("error: {e}"))),
        },
    }
}

fn survey(place: &Place) -> Result<Survey, Failure> {
    let datasets = datasets(place)?;
    let file = datasets.first().map_or(place.data.as_path(), Dataset::index);
    let expect = place.benchmark.as_deref().and_then(|name| benchmark::expected(name, file));
    let mut surveyor = Surveyor::new(expect);
    let mut last = Instant::now();
    for dataset in &datasets {
        let tell = |rows: u64| {
            if last.elapsed() >= EVERY && std::io::stderr().is_terminal() {
                last = Instant::now();
                eprintln!("{}: {rows} rows", place.label);
            }
        };
        surveyor.add(dataset, tell).map_err(|e| Failure::new(exit::USAGE, format!("error: {e}")))?;
    }
    Ok(surveyor.finish())
}

fn table(place: &Place, survey: &Survey) -> String {
    let mut out = format!("{}: {}\n", place.label, place.data.display());
    let unreadable = match survey.unreadable {
        0 => String::new(),
        n => format!(", {n} unreadable"),
    };
    let _ = writeln!(out, "  rows        {}{unreadable}", survey.rows);
    for (column, counts) in &survey.by {
        let counts: Vec<String> = counts.iter().map(|(value, n)| format!("{value} {n}")).collect();
        let _ = writeln!(out, "    by {column}: {}", counts.join(", "));
    }
    let audio = &survey.audio;
    if audio.files > 0 {
        let _ = writeln!(out, "  clips       {}, {} in all", audio.files, duration(audio.seconds));
        if let Some([min, p5, median, p95, max]) = audio.quantiles {
            let _ = writeln!(
                out,
                "    seconds   min {min:.2}, 5 % {p5:.2}, median {median:.2}, 95 % {p95:.2}, max {max:.2}; {} over 30 s",
                audio.over_30_s
            );
        }
        for (format, n) in &audio.formats {
            let _ = writeln!(out, "    {n} {format}");
        }
        if audio.unmeasured > 0 {
            let prepare = match &place.benchmark {
                Some(name) => format!("`harness prepare {name}` makes files of lists of numbers"),
                None => "their headers do not tell".to_owned(),
            };
            let _ = writeln!(out, "    {} without a length: {prepare}", audio.unmeasured);
        }
    }
    if let Some(spoken) = &survey.spoken {
        let counts = |counts: &std::collections::BTreeMap<String, u64>| {
            counts.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
        };
        let _ = writeln!(
            out,
            "  passages    all sentences recorded {}, some {}, none {}",
            spoken.all, spoken.some, spoken.none
        );
        let _ = writeln!(out, "    segments by source: {}", counts(&spoken.segments));
        if !spoken.columns.is_empty() {
            let _ = writeln!(out, "    rows with a recording: {}", counts(&spoken.columns));
        }
    }
    let images = &survey.images;
    if images.files > 0 {
        let formats: Vec<String> = images.formats.iter().map(|(format, n)| format!("{format} {n}")).collect();
        let _ = writeln!(out, "  images      {} ({})", images.files, formats.join(", "));
        if let Some([small, large]) = images.sizes {
            let _ = writeln!(out, "    from {}x{} to {}x{} pixels", small.0, small.1, large.0, large.1);
        }
    }
    let _ = writeln!(out, "  media       {} missing, {} broken", survey.missing, survey.broken);
    for problem in &survey.problems {
        let _ = writeln!(out, "    {problem}");
    }
    let published = match &survey.differs {
        None => "nothing is known to compare with".to_owned(),
        // Nobody knows what rows that cannot be read would be.
        Some(differs) if differs.is_empty() && survey.unreadable > 0 => {
            format!("no difference in the rows that can be read; {} cannot", survey.unreadable)
        }
        Some(differs) if differs.is_empty() => "no difference".to_owned(),
        Some(differs) => differs.join("; "),
    };
    let _ = writeln!(out, "  published   {published}");
    out
}
