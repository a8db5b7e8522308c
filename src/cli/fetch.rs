//! `harness fetch`: a benchmark's published data, or a model, from where they are published to where configs look.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::Args;
use tokio::runtime::Runtime;

use super::exit::{self, Failure};
use super::fetch_progress::FetchProgress;
use super::print;
use super::progress::plural;
use super::run::wait_for_signal;
use crate::benchmark::sources::{Sources, sources};
use crate::config;
use crate::hub::carry_out::{Orders, carry_out, lock_folder};
use crate::hub::plan::{Choice, PartPlan, Plan, plan, room};
use crate::hub::record::{Record, Verified};
use crate::hub::{Hub, HubError, Lookup, ModelFiles, free_space};
use crate::types::size;

/// What to fetch, and how.
#[derive(Debug, Args)]
pub(super) struct FetchArgs {
    /// The benchmark whose data are wanted.
    #[arg(required_unless_present_any = ["model", "sources"])]
    benchmark: Option<String>,
    /// Fetch a model of the Hugging Face hub into the hub's cache instead: its config, tokenizer and safetensors.
    #[arg(long, value_name = "ORG/NAME", conflicts_with_all = ["benchmark", "sources", "languages", "only", "to"])]
    model: Option<String>,
    /// Only these languages, by the codes that the data use.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    languages: Vec<String>,
    /// Only these parts of the data; optional parts are fetched only so.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
    /// Another revision of the hub's repository than the known one: a branch, tag or commit.
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// The data folder [default: data/BENCHMARK].
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Files that are fetched at once.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Say what would be fetched, and fetch nothing.
    #[arg(long)]
    dry_run: bool,
    /// Read files that are there already, and check their hashes again.
    #[arg(long)]
    verify: bool,
    /// A description of published data to use instead of the known ones; see src/benchmark/sources for their form.
    #[arg(long, value_name = "FILE")]
    sources: Option<PathBuf>,
}

/// How work on the network ended.
pub(super) enum Ended<T> {
    /// By itself.
    Done(T),
    /// By a signal, which has this exit code.
    Stopped(u8),
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let code = if error.is_disk() {
            exit::FOLDER
        } else if error.is_usage() {
            exit::USAGE
        } else {
            exit::INCOMPLETE
        };
        Self::new(code, format!("error: {error}"))
    }
}

/// The hub as the environment describes it.
pub(super) fn hub() -> Result<Hub, Failure> {
    let settings = config::hub::settings();
    settings.map(Hub::new).map_err(|e| Failure::new(exit::USAGE, format!("error: {e}")))
}

/// A runtime for downloads.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::new(exit::FOLDER, format!("error: threads cannot be started: {e}")))
}

/// Works until it is done or a signal comes.
pub(super) fn until_signal<T>(runtime: &Runtime, work: impl Future<Output = T>) -> Ended<T> {
    runtime.block_on(async {
        tokio::select! {
            done = work => Ended::Done(done),
            code = wait_for_signal() => Ended::Stopped(code),
        }
    })
}

/// `harness fetch`
pub(super) fn fetch(args: &FetchArgs) -> Result<u8, Failure> {
    let (hub, runtime) = (hub()?, runtime()?);
    match &args.model {
        Some(model) => fetch_model(&hub, &runtime, model, args),
        None => fetch_benchmark(&hub, &runtime, args),
    }
}

fn described(args: &FetchArgs) -> Result<Sources, Failure> {
    let usage = |text: String| Failure::new(exit::USAGE, format!("error: {text}"));
    let Some(path) = &args.sources else {
        let name = args.benchmark.as_deref().unwrap_or_default();
        return sources(name).map_err(|e| usage(e.to_string()));
    };
    let text = std::fs::read_to_string(path).map_err(|e| usage(format!("{}: {e}", path.display())))?;
    toml::from_str(&text)
        .map_err(|e| usage(format!("{}: this describes no published data: {e}", path.display())))
}

fn fetch_benchmark(hub: &Hub, runtime: &Runtime, args: &FetchArgs) -> Result<u8, Failure> {
    let sources = described(args)?;
    let folder = args.to.clone().unwrap_or_else(|| Path::new("data").join(&sources.benchmark));
    let choice = Choice {
        parts: args.only.clone(),
        languages: args.languages.clone(),
        revision: args.revision.clone(),
        command: command(args, &sources.benchmark),
    };
    // Before the folder is made.
    choice.check(&sources)?;
    let progress = FetchProgress::new();
    let planned = until_signal(runtime, async {
        let lock = if args.dry_run { None } else { Some(lock_folder(&folder, &progress).await?) };
        let mut record =
            Record::read(&folder)?.unwrap_or_else(|| Record::new(&sources.benchmark, &sources.licence));
        if record.benchmark != sources.benchmark {
            return Err(HubError::Choice(format!(
                "{} holds the data of {}, and those of {} need a folder of their own: name one with --to",
                folder.display(),
                record.benchmark,
                sources.benchmark
            )));
        }
        let noted = record.look_again(&folder).await?;
        if noted && !args.dry_run {
            // That a file was read again is a help for the next time, no need.
            if let Err(error) = record.write(&folder) {
                tracing::info!("the record is not written: {error}");
            }
        }
        let plan = plan(hub, &sources, &choice, &folder, &record, &progress).await?;
        Ok::<_, HubError>((lock, record, plan))
    });
    let (_lock, mut record, plan) = match planned {
        Ended::Done(planned) => planned?,
        Ended::Stopped(code) => return Ok(code),
    };
    sources.licence.clone_into(&mut record.licence);
    print(&describe(hub, &sources, &plan))?;
    if args.dry_run {
        print("nothing was fetched (--dry-run)\n")?;
        return Ok(exit::DONE);
    }
    if plan.done() && !args.verify {
        print(&format!("complete, fetched on {}: {}\n", day(&record.time), counts(&plan)))?;
        print(&not_verified(&record))?;
        return print_by_hand(&plan).map(|()| exit::DONE);
    }
    plan.room(hub)?;
    let known: u64 = plan.files().filter(|file| !file.done).filter_map(|file| file.bytes).sum();
    progress.begin(plan.files().filter(|file| !file.done || args.verify).count(), known);
    let orders = Orders { jobs: args.jobs.into(), verify: args.verify };
    let record = Mutex::new(record);
    let ended = until_signal(runtime, carry_out(hub, &plan, &record, orders, &progress));
    progress.finish();
    let mut record = record.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    record.write(&plan.folder)?;
    match ended {
        Ended::Stopped(code) => {
            eprintln!("stopped; what came is kept. To go on, give the same command again");
            Ok(code)
        }
        Ended::Done(failed) if failed.is_empty() => {
            let came = progress.came();
            print(&format!("{} in {}: {} fetched now\n", counts(&plan), plan.folder.display(), size(came)))?;
            print(&not_verified(&record))?;
            print_by_hand(&plan)?;
            Ok(exit::DONE)
        }
        Ended::Done(failed) => Err(failure(&failed)),
    }
}

/// The command as it can be given again.
fn command(args: &FetchArgs, benchmark: &str) -> String {
    let mut command = match &args.sources {
        Some(path) => format!("harness fetch --sources {}", path.display()),
        None => format!("harness fetch {benchmark}"),
    };
    for (name, values) in [("--only", &args.only), ("--languages", &args.languages)] {
        if !values.is_empty() {
            let _ = write!(command, " {name} {}", values.join(","));
        }
    }
    if let Some(revision) = &args.revision {
        let _ = write!(command, " --revision {revision}");
    }
    if let Some(to) = &args.to {
        let _ = write!(command, " --to {}", to.display());
    }
    command
}

/// All failures, one a line, and the code of the gravest.
fn failure(failed: &[(String, HubError)]) -> Failure {
    let code = if failed.iter().any(|(_, error)| error.is_disk()) { exit::FOLDER } else { exit::INCOMPLETE };
    let mut lines: Vec<String> = failed.iter().map(|(_, error)| format!("error: {error}")).collect();
    lines.sort();
    lines.dedup();
    lines.push(format!(
        "{} not fetched; what came is kept. To go on, give the same command again",
        match failed.len() {
            1 => "1 file was".to_owned(),
            n => format!("{n} files were"),
        }
    ));
    Failure::new(code, lines.join("\n"))
}

fn counts(plan: &Plan) -> String {
    let bytes = plan.parts.iter().map(PartPlan::bytes).sum();
    format!("{}, {}", plural(plan.files().count() as u64, "file"), size(bytes))
}

fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

/// What will be fetched, before it is.
fn describe(hub: &Hub, sources: &Sources, plan: &Plan) -> String {
    let mut out = format!("{} -> {}\n", sources.benchmark, plan.folder.display());
    let width = plan.parts.iter().map(|part| part.name.len()).max().unwrap_or_default();
    for part in &plan.parts {
        let total = match part.unsized_files() {
            0 => size(part.bytes()),
            n if n == part.files.len() => "of unknown size".to_owned(),
            n => format!("{} and {n} of unknown size", size(part.bytes())),
        };
        let here = match part.have() {
            _ if part.done() => ", there already".to_owned(),
            0 => String::new(),
            have => format!(", {} here already", size(have)),
        };
        let files = plural(part.files.len() as u64, "file");
        let _ = writeln!(out, "  {:width$}  {files}, {total}{here}", part.name);
        let _ = writeln!(out, "  {:width$}  {}: {}", "", part.from, part.about);
        for note in &part.notes {
            let _ = writeln!(out, "  {:width$}  note: {note}", "");
        }
        if let Some(licence) = &part.licence {
            let _ = writeln!(out, "  {:width$}  licence: {licence}", "");
        }
    }
    for (name, about) in &plan.optional {
        let _ = writeln!(out, "  optional: {about} (--only {name})");
    }
    let _ = writeln!(out, "licence: {}", sources.licence);
    if let Some(note) = &sources.note {
        let _ = writeln!(out, "note: {note}");
    }
    let cache = hub.cache().root();
    let free = |path: &Path| free_space(path).map_or("unknown".to_owned(), size);
    let _ = writeln!(out, "free: {} in {}", free(&plan.folder), plan.folder.display());
    if plan.parts.iter().any(PartPlan::is_hub) {
        let _ = writeln!(out, "free: {} in the hub's cache, {}", free(cache), cache.display());
    }
    out
}

/// Which files were checked against nothing.
fn not_verified(record: &Record) -> String {
    let files = record.origins.values().flat_map(|origin| origin.sets.values()).flat_map(|set| &set.files);
    let names: Vec<String> = files
        .filter(|file| file.verified == Verified::NotVerified)
        .map(|file| match &file.via {
            Some(via) => format!("{} via {via}", file.path.display()),
            None => file.path.display().to_string(),
        })
        .collect();
    match names.as_slice() {
        [] => "verified against published hashes\n".to_owned(),
        names => format!(
            "not verified, no published hash: {} (their own are in fetch.json)\n",
            names.iter().take(5).cloned().collect::<Vec<_>>().join(", ")
                + if names.len() > 5 { " and more" } else { "" }
        ),
    }
}

fn print_by_hand(plan: &Plan) -> Result<(), Failure> {
    for part in plan.by_hand.iter().filter(|part| !part.there) {
        let instead = part.instead.as_ref().map(|name| format!(" (or: --only {name})")).unwrap_or_default();
        print(&format!(
            "by hand: {}, {}: begin at {}; {}, {}{instead}\n",
            part.name,
            part.about,
            part.page,
            part.steps,
            plan.folder.display()
        ))?;
    }
    Ok(())
}

fn fetch_model(hub: &Hub, runtime: &Runtime, id: &str, args: &FetchArgs) -> Result<u8, Failure> {
    let revision = args.revision.as_deref().unwrap_or("main");
    let progress = FetchProgress::new();
    let files = match until_signal(runtime, hub.model(id, revision, Lookup::Now, &progress)) {
        Ended::Done(files) => files?,
        Ended::Stopped(code) => return Ok(code),
    };
    print(&format!("{}\n", describe_model(&files)))?;
    if let Some(why) = &files.listing.stale {
        eprintln!("warning: the hub could not be asked ({why}); the cache's listing is used");
    }
    print(&format!("licence: see {}/{id}\n", hub.settings().endpoint))?;
    if let Some(free) = free_space(hub.cache().root()) {
        print(&format!("free: {} in {}\n", size(free), hub.cache().root().display()))?;
    }
    if args.dry_run {
        print("nothing was fetched (--dry-run)\n")?;
        return Ok(exit::DONE);
    }
    if let Some(code) = get_model(hub, runtime, &files, args.jobs.into(), args.verify, &progress)? {
        return Ok(code);
    }
    print(&format!(
        "{} in {}: {} fetched now\nin a config: weights = \"{id}\", revision = \"{}\"\n",
        plural(files.wanted.len() as u64, "file"),
        files.folder.display(),
        size(progress.came()),
        files.listing.commit
    ))?;
    Ok(exit::DONE)
}

/// `org/name at main (0123456): 12 files, 16.8 GB, 3.0 GB here already`
pub(super) fn describe_model(files: &ModelFiles) -> String {
    let here = match files.have {
        _ if files.complete() => ", there already".to_owned(),
        0 => String::new(),
        have => format!(", {} here already", size(have)),
    };
    format!(
        "{} at {} ({}): {}, {}{here}",
        files.listing.repo,
        files.listing.revision,
        files.listing.commit.get(..7).unwrap_or_default(),
        plural(files.wanted.len() as u64, "file"),
        size(files.bytes)
    )
}

/// Fetches a model's files; the exit code where it was stopped.
pub(super) fn get_model(
    hub: &Hub,
    runtime: &Runtime,
    files: &ModelFiles,
    jobs: usize,
    verify: bool,
    progress: &FetchProgress,
) -> Result<Option<u8>, Failure> {
    let missing = files.bytes.saturating_sub(files.have);
    room(hub.cache().root(), missing, "or name another place with HF_HUB_CACHE")?;
    progress.begin(files.wanted.len(), files.bytes);
    let ended = until_signal(runtime, hub.fetch_model(files, jobs, verify, progress));
    progress.finish();
    match ended {
        Ended::Stopped(code) => {
            eprintln!("stopped; what came is kept. To go on, give the same command again");
            Ok(Some(code))
        }
        Ended::Done(failed) if failed.is_empty() => Ok(None),
        Ended::Done(failed) => Err(failure(&failed)),
    }
}
