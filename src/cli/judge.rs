//! `harness judge`, and the judge stage of `harness run`.

use std::path::Path;
use std::sync::Arc;

use super::exit::{self, Failure};
use super::open::{At, Show};
use super::run::{Drive, Ended, drive, transcode_of, transform_of};
use super::serve::Serve;
use super::{JudgeArgs, open, report, wording};
use crate::benchmark::judging::TokenCounter;
use crate::benchmark::{self, JudgeKind, JudgeSetup};
use crate::config::{self, JudgeConfig};
use crate::prompt::PromptSet;
use crate::run::cost::Price;
use crate::run::folder::{Begin, RunFolder, find_run};
use crate::run::journal::Journal;
use crate::run::judge::{JudgeFile, JudgePlan, JudgedSection, VERSION, verdicts_path};
use crate::run::manifest::{Manifest, Session};
use crate::run::plan::Recipe;
use crate::run::score;

/// What a judge stage is told.
pub(super) struct Orders<'a> {
    /// The run's folder, which this process holds.
    pub(super) folder: &'a Path,
    /// What the run is made of.
    pub(super) manifest: &'a Manifest,
    /// The judge.
    pub(super) judge: &'a JudgeConfig,
    /// The seed; each judging run adds its number.
    pub(super) seed: u64,
    /// What it may cost.
    pub(super) max_cost: Option<f64>,
    /// Shows a problem at a key below `[judge]`.
    pub(super) at: At<'a>,
}

/// `harness judge RUN`
pub(super) fn judge(args: &JudgeArgs) -> Result<u8, Failure> {
    let path = find_run(&args.run, &args.results)?;
    let manifest = score::manifest_of(&path)?;
    let loaded = args.judge.as_ref().map(|path| config::load(path, &[])).transpose()?;
    loaded.iter().for_each(open::warn);
    let config = match &loaded {
        Some(loaded) => loaded.config.judge.as_ref(),
        None => manifest.config.judge.as_ref(),
    };
    let Some(config) = config else {
        let sentence = match &args.judge {
            Some(file) => format!("error: {}: there is no section [judge]", file.display()),
            None => format!(
                "error: the config of {} has no section [judge]: name a config that has one with --judge",
                path.display()
            ),
        };
        return Err(Failure::new(exit::USAGE, sentence));
    };
    let mut config = config.clone();
    if let Some(name) = &args.name {
        if let Some(why) = config::unfit_for_files(name) {
            return Err(Failure::new(exit::USAGE, format!("error: the judge's name `{name}` {why}")));
        }
        config.name.clone_from(name);
    }
    if let Some(runs) = args.runs {
        config.runs = Some(runs);
    }
    let folder = RunFolder::open(&path, Begin::Resume)?;
    let seed = loaded.as_ref().map_or(manifest.config.run.seed, |loaded| loaded.config.run.seed);
    let at: Box<Show<'_>> = match &loaded {
        Some(loaded) => Box::new(open::problems_below(loaded, "judge")),
        None => Box::new(|_, problem| format!("error: [judge]: {problem}")),
    };
    if config.kind == JudgeKind::Model {
        let orders = Orders {
            folder: folder.path(),
            manifest: &manifest,
            judge: &config,
            seed,
            max_cost: args.max_cost,
            at: &*at,
        };
        if let Some(code) = stage(&orders)? {
            return Ok(code);
        }
    }
    let by_match = (config.kind == JudgeKind::Match).then_some(score::MATCH);
    let scores = score::score(folder.path(), by_match.or(Some(&config.name)))?;
    report::tables(folder.path(), &scores)?;
    report::warnings(folder.path(), &scores);
    Ok(report::code(&scores, args.allow_incomplete))
}

/// The judge as protocols see it.
pub(super) fn setup_of(config: &JudgeConfig) -> JudgeSetup {
    JudgeSetup {
        name: config.name.clone(),
        kind: config.kind,
        mode: config.mode,
        runs: config.runs.unwrap_or(0),
        rating: config.rating,
        on_error: config.on_error,
        context: config.max_context,
        reply_tokens: config.generation.max_new_tokens as u64,
        ..JudgeSetup::default()
    }
}

/// Has tokens counted by the judge's own tokenizer, where its file is named.
fn count_tokens(setup: &mut JudgeSetup, config: &JudgeConfig, at: At<'_>) -> Result<(), Failure> {
    let Some(path) = &config.tokenizer else { return Ok(()) };
    let counter = crate::model::Tokens::open(path)
        .map_err(|e| Failure::new(exit::USAGE, at(&["tokenizer".into()], &e)))?;
    setup.tokenizer = Some(counter.digest.to_string());
    setup.counter = TokenCounter::new(move |text| counter.count(text));
    Ok(())
}

/// Judges the answers in a run folder. The exit code where it ended early.
pub(super) fn stage(orders: &Orders<'_>) -> Result<Option<u8>, Failure> {
    let Orders { folder, manifest, judge: config, seed, .. } = *orders;
    let at = orders.at;
    let Some(model_config) = &config.model else {
        return Err(Failure::new(exit::USAGE, at(&[], &"there is no model that judges: add [judge.model]")));
    };
    let secrets = open::secrets_of(model_config, at)?;
    let opened = open::model_of(model_config, &secrets, &config.generation, at)?;
    let own = config.prompt.as_ref().map(|path| wording::read_prompts(path)).transpose();
    let own = own.map_err(|e| Failure::new(exit::USAGE, at(&["prompt".into()], &e)))?;
    let (mut setup, none) = (setup_of(config), PromptSet::default());
    count_tokens(&mut setup, config, at)?;
    let mut sections = Vec::new();
    let mut prompts = Vec::new();
    for (section, facts) in manifest.config.benchmarks.iter().zip(&manifest.benchmarks) {
        let texts = facts.prompts.clone().with(own.as_ref().unwrap_or(&none));
        // What the model under test was told is the run's business.
        let known = benchmark::known_texts(&section.name);
        let for_judge = |name: &str| known.iter().any(|text| text.name == name && text.for_judge());
        prompts.push((section.label.clone(), texts.only(for_judge)));
        let benchmark = benchmark::build(section, texts, manifest.config.model.hearing().audio.window)
            .map_err(|e| {
                Failure::new(exit::USAGE, at(&["prompt".into()], &format!("{}: {e}", section.label)))
            })?;
        sections.push(JudgedSection::new(&section.label, benchmark, &setup));
    }
    let max_seconds = model_config.audio.max_seconds;
    let recipe = Recipe::new(&opened.identity, max_seconds, &config.generation, seed);
    let plan = Arc::new(JudgePlan::new(folder, sections, recipe)?);

    let earlier = JudgeFile::read(folder, &config.name)?;
    let mut file = JudgeFile {
        version: VERSION,
        setup,
        model: opened.identity.clone(),
        generation: config.generation.clone(),
        seed,
        price: score::price_of_model(model_config),
        prompts,
        sessions: earlier.as_ref().map(|earlier| earlier.sessions.clone()).unwrap_or_default(),
    };
    if let Some(earlier) = &earlier {
        file.same_judge(earlier, folder)?;
    }
    let verdicts = verdicts_path(folder, &config.name);
    if let Some(parent) = verdicts.parent() {
        std::fs::create_dir_all(parent).map_err(|e| {
            Failure::new(exit::FOLDER, format!("error: {}: the folder cannot be made: {e}", parent.display()))
        })?;
    }
    let mut journal = Journal::append_to(&verdicts, &|_, _, _| true)?;
    let (calls, sorted) = plan.survey(&journal)?;
    if !sorted.todo.is_empty() {
        let begun = jiff::Timestamp::now().to_string();
        file.sessions.push(Session::new(begun, &opened.identity, model_config.local.as_ref()));
    }
    file.write(folder)?;
    let answered: u64 = sorted.answered.iter().sum();
    let state = if answered > 0 { format!(", {answered} of them made") } else { String::new() };
    eprintln!("judge {}: {} calls{state}", config.name, calls.iter().sum::<u64>());
    if sorted.todo.is_empty() {
        return Ok(None);
    }
    let price = score::price_of_model(model_config);
    if orders.max_cost.is_some() && price.is_none() {
        let sentence =
            "--max-cost needs prices: set input_per_million and output_per_million under [judge.model.price]";
        return Err(Failure::new(exit::USAGE, format!("error: {sentence}")));
    }
    let price = price.map(|price| Price { max_cost: orders.max_cost.or(price.max_cost), ..price });
    let labels = plan.labels().map(str::to_owned).zip(calls);
    let sections = labels.zip(sorted.answered).collect();
    let judges = plan.judges()?;
    let reading = |section: usize, reply: &str| {
        let judge = judges.get(section).and_then(Option::as_ref);
        judge.map(|judge| judge.finding(reply)).unwrap_or_default()
    };
    let ended = drive(Drive {
        opened,
        transcode: transcode_of(model_config),
        images: transform_of(&model_config.image),
        sections,
        requests: Arc::clone(&plan) as _,
        todo: sorted.todo,
        journal: &mut journal,
        price,
        reading: Some(&reading),
        server: Serve::of(model_config, &secrets, folder, "judge-server.log"),
    })?;
    match ended {
        Ended::All { runtime, .. } => {
            // The process may go on to scores; nothing is left to listen to.
            runtime.shutdown_background();
            Ok(None)
        }
        Ended::Stopped(code) => {
            eprintln!(
                "stopped; all verdicts so far are in {}. To go on, give the same command again",
                verdicts.display()
            );
            Ok(Some(code))
        }
        Ended::Cost { cost, most } => {
            eprintln!(
                "stopped: judging has cost {cost:.4} and may cost {most}; all verdicts so far are in {}",
                verdicts.display()
            );
            Ok(Some(exit::INCOMPLETE))
        }
    }
}
