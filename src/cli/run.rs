//! `harness run` and `harness generate`: the walk through all stages.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::cascade::{self, Models};
use super::exit::{self, Failure};
use super::progress::{Progress, Voice};
use super::serve::{Serve, Served};
use super::{RunArgs, judge, open, replay, report, temperature, weights};
use crate::benchmark::JudgeKind;
use crate::config::{ImageConfig, ModelConfig, RunConfig, endpoint, image};
use crate::media::image::{Filter, ImageFormat};
use crate::media::{FileFacts, ImageTransform, Preparer, Transcode};
use crate::model::{self, ModelIdentity, Opened};
use crate::run::cost::{Account, Price};
use crate::run::differences::Differences;
use crate::run::folder::{Begin, RunFolder};
use crate::run::generate::{Early, Reading, Stage, Stop, Summary, generate};
use crate::run::journal::Journal;
use crate::run::manifest::{Manifest, ManifestBenchmark, Session, VERSION};
use crate::run::plan::{DataDiffers, Plan, PlanHashes, PlannedRequest, Recipe, Requests, read_ids};
use crate::run::score;
use crate::run::sorted::{Sorted, Sorter, Todo};
use crate::run::transcripts;
use crate::types::{Digest, Outcome};

/// How far to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stages {
    /// Plan, generate, score, report.
    All,
    /// Plan and generate.
    Generate,
}

/// `harness run CONFIG`
pub(super) fn run(args: &RunArgs, stages: Stages) -> Result<u8, Failure> {
    let mut loaded = open::load(&args.config)?;
    let sections = open::sections(&loaded)?;
    if let Some(code) = weights::ready(&mut loaded)? {
        return Ok(code);
    }
    temperature::settle(&mut loaded)?;
    if stages == Stages::All
        && let Some(mut judge) = loaded.config.judge.take()
    {
        let settled = temperature::settle_judge(&mut judge, &open::problems_below(&loaded, "judge"));
        loaded.config.judge = Some(judge);
        settled?;
    }
    let config = &loaded.config;
    let Models { answering: mut opened, secrets, recogniser } = cascade::models(&loaded)?;
    let recipe =
        Recipe::new(&opened.identity, config.model.audio.max_seconds, &config.generation, config.run.seed);
    let plan = Plan::new(sections, recipe)?;
    let made_of = plan.digest()?;
    // Rows that were compared with the published ones when the same plan was made need not be read for it again.
    let known = Manifest::read(&open::folder_of(config)).ok().flatten();
    let known = known.filter(|known| known.plan.is_some_and(|hashes| hashes.made_of == made_of));
    // Differences may have been mended since: media that were missing need not be any more.
    let known =
        known.filter(|known| known.benchmarks.iter().all(|section| section.dataset.differs.is_empty()));
    let differences = match known {
        // None of them has any.
        Some(known) => known.benchmarks.iter().map(|_| DataDiffers::default()).collect(),
        None => plan.differences()?,
    };
    let other_data: Vec<String> = differences
        .iter()
        .enumerate()
        .filter(|(_, differs)| !differs.of_part)
        .filter_map(|(index, differs)| open::other_data(&loaded, index, &differs.found))
        .collect();
    if !other_data.is_empty() {
        return Err(Failure::new(exit::USAGE, other_data.join("\n")));
    }

    let replayed = replay::matched(&loaded, &opened, &plan)?.map(|found| {
        replay::say(&found);
        let facts = found.facts().clone();
        opened.match_with(found);
        facts
    });

    let seed = config.run.seed;
    let judge = config.judge.as_ref().filter(|judge| stages == Stages::All && judge.kind == JudgeKind::Model);
    // What is wrong with the judge is said before answers are paid for.
    let judge = judge
        .map(|judge| {
            let judged: Vec<judge::Judged<'_>> =
                plan.sections.iter().map(|section| (&section.config, &section.prompts)).collect();
            let at = open::problems_below(&loaded, "judge");
            let ready = judge::prepare(judge, &judged, config.model.hearing().audio.window, &at);
            Ok::<_, Failure>((judge, ready.map_err(judge::one_failure)?))
        })
        .transpose()?;

    // The folder and its files come first: a place that cannot be written fails before the long work.
    let begin = match (args.resume, args.fresh) {
        (true, _) => Begin::Resume,
        (_, true) => Begin::Fresh,
        _ => Begin::Either,
    };
    let folder = RunFolder::open(&open::folder_of(config), begin)?;
    if let Some(aside) = folder.set_aside() {
        eprintln!("the earlier run is now {}", aside.display());
    }
    let earlier = Manifest::read(folder.path())?;
    if let Some(earlier) = &earlier {
        same_run(earlier, config, &opened.identity, folder.path())?;
    }
    if let Some((judge, ready)) = &judge {
        ready.same_as_earlier(judge, seed, folder.path())?;
    }
    let journal_path = folder.path().join("responses.jsonl");
    let mut journal =
        Journal::append_to(&journal_path, &|label, name, then| unchanged(&plan, label, name, then))?;
    say_state_of(&journal);

    let (price, of_recogniser) = (score::price_of(config), score::price_of_recogniser(config));
    if args.max_cost.is_some() && price.is_none() && of_recogniser.is_none() {
        let sections = if config.model.cascade.is_some() {
            "[model.llm.price] or [model.asr.price]"
        } else {
            "[model.price]"
        };
        return Err(Failure::new(
            exit::USAGE,
            format!(
                "error: --max-cost needs prices: set input_per_million and output_per_million under {sections}"
            ),
        ));
    }
    let price = Price::bounded(price, args.max_cost);
    let Survey { hashes, mut benchmarks, sorted } =
        survey(&plan, made_of, earlier.as_ref(), &folder, &journal)?;
    let Sorted { todo, answered } = sorted;
    let pending = todo.len() as u64;
    for (section, differs) in benchmarks.iter_mut().zip(differences) {
        section.dataset.differs = differs.found;
    }
    say_unreadable(&benchmarks);
    let requests: u64 = benchmarks.iter().map(|b| b.requests).sum();
    let done_count: u64 = answered.iter().sum();
    let now = jiff::Timestamp::now().to_string();
    let mut sessions = earlier.as_ref().map(|earlier| earlier.sessions.clone()).unwrap_or_default();
    if pending > 0 {
        sessions.push(Session::new(now.clone(), &opened.identity, config.model.answering().local.as_ref()));
    }
    let mut manifest = Manifest {
        version: VERSION,
        run: config.run.name.clone(),
        harness: env!("CARGO_PKG_VERSION").to_owned(),
        created: earlier.as_ref().map_or_else(|| now.clone(), |earlier| earlier.created.clone()),
        planned: now.clone(),
        plan: Some(hashes),
        sessions,
        config: config.clone(),
        model: opened.identity.clone(),
        replay: replayed,
        benchmarks,
    };
    manifest.write(folder.path())?;
    let verb = if folder.resumed() { "going on with" } else { "run" };
    let state = if done_count > 0 { format!(", {done_count} of them answered") } else { String::new() };
    eprintln!("{verb} {}: {requests} requests{state}", folder.path().display());

    let mut failed = 0;
    let mut _listening = None;
    if pending == 0 {
        if let Some(recogniser) = &recogniser {
            let of =
                cascade::Of { config, run: folder.path(), since: &manifest.created, price: of_recogniser };
            cascade::restore(recogniser, plan, &of)?;
        }
    } else {
        let requests: Arc<dyn Requests> = match recogniser {
            None => Arc::new(plan),
            Some(recogniser) => {
                let of = cascade::Of {
                    config,
                    run: folder.path(),
                    since: &manifest.created,
                    price: Price::bounded(of_recogniser, args.max_cost),
                };
                match cascade::transcribe(recogniser, plan, &of)? {
                    cascade::Stage::Done(requests) => requests,
                    cascade::Stage::Stopped(code) => return Ok(code),
                }
            }
        };
        let before = transcripts_cost(folder.path(), of_recogniser)?;
        let totals = manifest.benchmarks.iter().map(|b| (b.label.clone(), b.requests));
        let ended = drive(Drive {
            opened,
            transcode: transcode_of(config.model.answering()),
            images: transform_of(&config.model.answering().image),
            requests,
            todo,
            journal: &mut journal,
            sections: totals.zip(answered.iter().copied()).collect(),
            account: Account { price, before, ..Account::default() },
            reading: None,
            server: Serve::of(config.model.answering(), &secrets, folder.path(), "server.log"),
        });
        if let Some(session) = manifest.sessions.last_mut().filter(|_| !journal.answered_as().is_empty()) {
            session.answered_as = journal.answered_as();
            manifest.write(folder.path())?;
        }
        let ended = ended?;
        match ended {
            Ended::All { journaled, .. } if journaled < pending => {
                return Err(Failure::new(
                    exit::FOLDER,
                    format!(
                        "error: internal error: {journaled} of {pending} requests were worked on; what was answered \
                         is kept. Give the same command again, and please report this"
                    ),
                ));
            }
            Ended::All { failed: count, runtime, .. } => {
                failed = count;
                // It goes on to listen to Ctrl-C while scores are made.
                _listening = Some(runtime);
            }
            Ended::Stopped(code) => {
                eprintln!(
                    "stopped; all answers so far are in {}. To go on, give the same command again",
                    folder.path().display()
                );
                return Ok(code);
            }
            Ended::Cost { cost, most } => {
                eprintln!(
                    "stopped: the run has cost {cost:.4} and may cost {most}; all answers so far are in {}. To go \
                     on, give the same command again with a higher --max-cost, or score what is there: harness \
                     score {0}",
                    folder.path().display()
                );
                return Ok(exit::INCOMPLETE);
            }
        }
    }
    let answers_cost = price.map_or(0.0, |price| price.of(&journal.spent()));
    drop(journal);
    if stages == Stages::Generate {
        eprintln!("answers are in {}; score them with: harness score {0}", folder.path().display());
        let incomplete = failed > 0 || manifest.benchmarks.iter().any(|b| b.dataset.unreadable_rows > 0);
        return Ok(if incomplete && !args.allow_incomplete { exit::INCOMPLETE } else { exit::DONE });
    }
    if let Some((judge, ready)) = judge {
        // What the answers have cost is not there for the judge.
        let priced = judge.model.as_ref().and_then(score::price_of_model).is_some();
        let spent = answers_cost + transcripts_cost(folder.path(), of_recogniser)?;
        let left = args.max_cost.filter(|_| priced).map(|max| (max - spent).max(0.0));
        let orders = judge::Orders { folder: folder.path(), judge, seed, max_cost: left, options: &[] };
        if let Some(code) = judge::stage(&orders, ready)? {
            return Ok(code);
        }
    }
    let scores = score::score(folder.path(), None)?;
    report::tables(folder.path(), &scores)?;
    eprintln!("answers, scores and tables are in {}", folder.path().display());
    report::warnings(folder.path(), &scores);
    Ok(report::code(&scores, args.allow_incomplete))
}

/// What the run's transcripts have cost it: those that were there before it cost it nothing.
fn transcripts_cost(folder: &Path, price: Option<Price>) -> Result<f64, Failure> {
    let Some(price) = price else { return Ok(0.0) };
    Ok(price.of(&transcripts::spent(folder)?))
}

/// What a survey of the plan found.
struct Survey {
    hashes: PlanHashes,
    benchmarks: Vec<ManifestBenchmark>,
    sorted: Sorted,
}

/// Whether a clip or image is as it was when a response was made. Media that are not on this machine cannot have
/// changed here.
pub(super) fn unchanged(plan: &Plan, label: &str, name: &str, then: FileFacts) -> bool {
    let section = plan.sections.iter().find(|section| section.config.label == label);
    let now = section.and_then(|section| section.dataset.media(name).ok()?.facts().ok());
    now.is_none_or(|now| now == then)
}

/// Finds what is answered. The plan is written, unless the earlier one is the same.
fn survey(
    plan: &Plan,
    made_of: Digest,
    earlier: Option<&Manifest>,
    folder: &RunFolder,
    journal: &Journal,
) -> Result<Survey, Failure> {
    let sorter = || Sorter::new(journal, plan.sections.len());
    let kept = earlier.and_then(|earlier| {
        let hashes = earlier.plan.filter(|hashes| hashes.made_of == made_of)?;
        let mut sorter = sorter();
        let index = |label: &str| plan.sections.iter().position(|section| section.config.label == label);
        let read = read_ids(folder.path(), &hashes, |label, request| sorter.take(index(label), request));
        let benchmarks = earlier.benchmarks.clone();
        read.then(|| Survey { hashes, benchmarks, sorted: sorter.finish() })
    });
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let mut sorter = sorter();
    let visit = |request: &PlannedRequest| sorter.take(Some(request.section), request.planned.request);
    let (benchmarks, hashes) = plan.write(folder.path(), made_of, visit)?;
    Ok(Survey { hashes, benchmarks, sorted: sorter.finish() })
}

/// Refuses to mix two runs in one folder.
fn same_run(
    earlier: &Manifest,
    config: &RunConfig,
    model: &ModelIdentity,
    folder: &Path,
) -> Result<(), Failure> {
    let mut differ = Differences::default();
    differ.compare("the model's kind", &earlier.model.kind, &model.kind);
    differ.compare("the model", &earlier.model.model, &model.model);
    if earlier.model.kind == model.kind {
        let (what, shown): (_, fn(&str) -> String) = if config.model.local.is_some() {
            ("the model's files", short)
        } else if config.model.cascade.is_some() {
            ("the models, or how clips are transcribed", str::to_owned)
        } else if config.model.replay.is_some() {
            ("the files of answers, or how they are read", short)
        } else {
            ("the endpoint", str::to_owned)
        };
        differ.compare(what, &shown(&earlier.model.revision), &shown(&model.revision));
    }
    differ.compare("dtype", &earlier.model.dtype, &model.dtype);
    differ.compare("seed", &earlier.config.run.seed, &config.run.seed);
    differ.generation(&earlier.config.generation, &config.generation);
    let (was, is) = (&earlier.config.model.hearing().audio, &config.model.hearing().audio);
    differ.compare("max_seconds", &was.max_seconds, &is.max_seconds);
    differ.compare("window", was.window.as_str(), is.window.as_str());
    differ.compare("transcode", was.transcode.as_str(), is.transcode.as_str());
    if is.transcode != endpoint::Transcode::Never {
        let rate = |rate: Option<u32>| rate.map_or("the clip's own".to_owned(), |rate| format!("{rate} Hz"));
        differ.compare("rate", &rate(was.rate), &rate(is.rate));
    }
    let words =
        |config: &ModelConfig| config.answering().image.words().unwrap_or_else(|| "as they are".to_owned());
    differ.compare("images", &words(&earlier.config.model), &words(&config.model));
    let differ = differ.finish();
    if differ.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        exit::USAGE,
        format!(
            "error: {} holds another run: {}. Give this one another name with --name, or set the earlier one \
             aside with --fresh",
            folder.display(),
            differ.join("; ")
        ),
    ))
}

/// What may be done to clips for an endpoint.
pub(super) fn transcode_of(model: &ModelConfig) -> Transcode {
    let audio = &model.audio;
    match audio.transcode {
        endpoint::Transcode::Never => Transcode::Never,
        endpoint::Transcode::Wav => Transcode::Wav { rate: audio.rate },
    }
}

/// What may be done to images for an endpoint.
pub(super) fn transform_of(config: &ImageConfig) -> ImageTransform {
    ImageTransform {
        max_side: config.max_side,
        max_pixels: config.max_pixels,
        format: match config.format {
            image::ImageFormat::Original => ImageFormat::Original,
            image::ImageFormat::Png => ImageFormat::Png,
            image::ImageFormat::Jpeg => ImageFormat::Jpeg,
        },
        quality: config.quality,
        orient: config.orient,
        flatten: config.alpha == image::ImageAlpha::White,
        first_frame: config.first_frame,
        filter: match config.filter {
            image::ImageFilter::Bilinear => Filter::Bilinear,
            image::ImageFilter::Bicubic => Filter::Bicubic,
            image::ImageFilter::Lanczos => Filter::Lanczos,
        },
    }
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// Says what of a journal that is gone on with cannot be read.
pub(super) fn say_state_of(journal: &Journal) {
    if journal.was_torn() {
        eprintln!(
            "the last line of {} was cut short when the earlier run ended; it is done again",
            journal.name()
        );
    }
    if let Some(damage) = journal.damage() {
        eprintln!("warning: {damage}; their requests are done again");
    }
}

fn say_unreadable(benchmarks: &[ManifestBenchmark]) {
    for benchmark in benchmarks {
        for sentence in &benchmark.dataset.unreadable {
            eprintln!("warning: {sentence}; the row is left out");
        }
        let more =
            benchmark.dataset.unreadable_rows.saturating_sub(benchmark.dataset.unreadable.len() as u64);
        if more > 0 {
            eprintln!("warning: {}: {more} more rows are unreadable", benchmark.dataset.index.display());
        }
    }
}

/// How a generate stage ended.
pub(super) enum Ended {
    /// All was asked.
    All {
        /// Requests that failed.
        failed: u64,
        /// Requests that were journaled.
        journaled: u64,
        /// What listens to signals.
        runtime: tokio::runtime::Runtime,
    },
    /// It was stopped from outside; the exit code.
    Stopped(u8),
    /// The run has cost what it may.
    Cost {
        /// What it has cost.
        cost: f64,
        /// What it may cost.
        most: f64,
    },
}

/// A stage of requests to a model.
pub(super) struct Drive<'a> {
    /// The model.
    pub(super) opened: Opened,
    /// What may be done to clips for it.
    pub(super) transcode: Transcode,
    /// What may be done to images for it.
    pub(super) images: ImageTransform,
    /// What is to be asked.
    pub(super) requests: Arc<dyn Requests>,
    /// What is still to be asked of it.
    pub(super) todo: Todo,
    /// Where responses go.
    pub(super) journal: &'a mut Journal,
    /// Sections: label, requests, and those that are answered.
    pub(super) sections: Vec<((String, u64), u64)>,
    /// What the stage costs and may cost.
    pub(super) account: Account,
    /// Of a judge: reads replies.
    pub(super) reading: Option<Reading<'a>>,
    /// A server that is started for this stage.
    pub(super) server: Option<Serve<'a>>,
}

/// Starts the model's server where it has one, loads the model, generates, and ends the server.
pub(super) fn drive(drive: Drive<'_>) -> Result<Ended, Failure> {
    let Drive { opened, transcode, images, requests, todo, journal, sections, account, reading, server } =
        drive;
    let preparer = Preparer::new(&opened.limits, transcode)
        .map_err(|e| Failure::new(exit::MODEL, format!("error: {}: {e}", opened.identity.name)))?
        .with_images(images);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::new(exit::FOLDER, format!("error: threads cannot be started: {e}")))?;
    let (stop_in, stop_out) = watch::channel(Stop::No);
    let voice = Voice::default();
    // Ended with this function, whatever way it goes.
    let mut served =
        server.map(|serve| Served::start(&serve, &opened, &voice, stop_in.clone())).transpose()?;
    if let Some(served) = &mut served
        && let Some(code) = runtime.block_on(served.ready())?
    {
        return Ok(Ended::Stopped(code));
    }
    let begun = std::time::Instant::now();
    // Of a cascade the recogniser is gone by now.
    let who = opened.alone.as_ref().unwrap_or(&opened.identity);
    match (who.dtype.as_str(), who.device.as_str()) {
        _ if opened.answers().is_some() => eprintln!("taking {}: {}", who.name, opened.about),
        // An endpoint has neither, and nothing to load.
        ("", _) => eprintln!("asking {}: {}", who.name, opened.about),
        (dtype, device) => eprintln!("loading {} ({dtype}, {device})", who.name),
    }
    let model = model::load(opened)?;
    tracing::info!(seconds = begun.elapsed().as_secs_f64(), "model loaded");

    let mut progress = Progress::new(sections.into_iter(), account).journaled_in(journal.name());
    progress.lend(&voice);
    let (summary, signal) = runtime.block_on(async {
        let (code_in, code) = watch::channel(None);
        let signals = tokio::spawn(signals(stop_in, code_in));
        let result = generate(Stage {
            requests,
            todo,
            journal,
            model: model.as_ref(),
            preparer,
            account,
            stop: stop_out,
            observer: &mut progress,
            reading,
        })
        .await;
        signals.abort();
        let code = *code.borrow();
        (result, code)
    });
    progress.finish();
    if let Some(served) = served {
        let lost = served.failure().filter(|_| summary.as_ref().is_ok_and(|summary| summary.early.is_some()));
        served.stop();
        if let Some(failure) = lost {
            return Err(failure);
        }
    }
    let summary: Summary = summary?;
    Ok(match (summary.early, account.price) {
        (Some(Early::Cost), Some(price)) => {
            Ended::Cost { cost: account.cost(&journal.spent()), most: price.max_cost.unwrap_or_default() }
        }
        (Some(_), _) => Ended::Stopped(signal.unwrap_or(exit::INTERRUPTED)),
        (None, _) => {
            let failures = Outcome::ALL.into_iter().filter(|outcome| !outcome.is_answer());
            let failed = failures.filter_map(|outcome| summary.outcomes.get(&outcome)).sum();
            if signal.is_some() {
                eprintln!("the run was at its end already; going on to the scores");
            }
            // What is written from here on is written whole or not at all: a signal just ends the process.
            runtime.spawn(async { std::process::exit(wait_for_signal().await.into()) });
            Ended::All { failed, journaled: summary.outcomes.values().sum(), runtime }
        }
    })
}

/// Waits for Ctrl-C or SIGTERM and asks the run to stop, at the second one at once. A third ends the process.
async fn signals(stop: watch::Sender<Stop>, code: watch::Sender<Option<u8>>) {
    let first = wait_for_signal().await;
    let _ = code.send(Some(first));
    eprintln!(
        "\nstopping: what is under way is finished first; press Ctrl-C again to drop it and stop at once"
    );
    let _ = stop.send(Stop::Finish);
    let second = wait_for_signal().await;
    let _ = code.send(Some(second));
    eprintln!("\nstopping at once: what is under way is dropped, and asked again when the run goes on");
    let _ = stop.send(Stop::Now);
    let third = wait_for_signal().await;
    std::process::exit(third.into());
}

#[cfg(unix)]
pub(super) async fn wait_for_signal() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return exit::INTERRUPTED;
    };
    tokio::select! {
        _ = terminate.recv() => exit::TERMINATED,
        _ = tokio::signal::ctrl_c() => exit::INTERRUPTED,
    }
}

#[cfg(not(unix))]
pub(super) async fn wait_for_signal() -> u8 {
    let _ = tokio::signal::ctrl_c().await;
    exit::INTERRUPTED
}
