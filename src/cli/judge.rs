//! `harness judge`, and the judge stage of `harness run`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::exit::{self, Failure};
use super::open::{At, Show};
use super::run::{Drive, Ended, drive, say_state_of, transcode_of, transform_of};
use super::serve::Serve;
use super::{JudgeArgs, open, report, temperature, wording};
use crate::benchmark::judging::{JudgeMode, TokenCounter};
use crate::benchmark::{self, BuildError, JudgeKind, JudgeSetup};
use crate::config::secret::Secrets;
use crate::config::{self, BenchmarkConfig, JudgeConfig, Step};
use crate::model::Opened;
use crate::prompt::PromptSet;
use crate::run::cost::Price;
use crate::run::folder::{Begin, RunFolder, find_run};
use crate::run::generate::Reading;
use crate::run::journal::Journal;
use crate::run::judge::{JudgeError, JudgeFile, JudgePlan, JudgedSection, VERSION, verdicts_path};
use crate::run::manifest::Session;
use crate::run::plan::Recipe;
use crate::run::score;
use crate::types::Window;

/// What a judge stage is told.
pub(super) struct Orders<'a> {
    /// The run's folder, which this process holds.
    pub(super) folder: &'a Path,
    /// The judge.
    pub(super) judge: &'a JudgeConfig,
    /// The seed; each judging run adds its number.
    pub(super) seed: u64,
    /// What it may cost.
    pub(super) max_cost: Option<f64>,
    /// What the command line says of the judge.
    pub(super) options: &'a [String],
}

/// `harness judge RUN`
pub(super) fn judge(args: &JudgeArgs) -> Result<u8, Failure> {
    let path = find_run(&args.run, &args.results)?;
    let manifest = score::manifest_of(&path)?;
    let loaded = args.judge.as_ref().map(|path| config::load_judge(path, &manifest.config)).transpose()?;
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
        let why = config::unfit_for_files(name).or_else(|| config::unfit_for_judge(name, config.kind));
        if let Some(why) = why {
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
        temperature::settle_judge(&mut config, &*at)?;
        let sections = manifest.config.benchmarks.iter().zip(&manifest.benchmarks);
        let judged: Vec<Judged<'_>> = sections.map(|(section, facts)| (section, &facts.prompts)).collect();
        let window = manifest.config.model.hearing().audio.window;
        let ready = prepare(&config, &judged, window, &*at).map_err(one_failure)?;
        let orders = Orders {
            folder: folder.path(),
            judge: &config,
            seed,
            max_cost: args.max_cost,
            options: &options(args),
        };
        if let Some(code) = stage(&orders, ready)? {
            return Ok(code);
        }
    }
    let by_match = (config.kind == JudgeKind::Match).then_some(score::MATCH);
    let scores = score::score(folder.path(), by_match.or(Some(&config.name)))?;
    report::tables(folder.path(), &scores)?;
    report::warnings(folder.path(), &scores);
    Ok(report::code(&scores, args.allow_incomplete))
}

/// What a command line says of a judge, to be said again.
fn options(args: &JudgeArgs) -> Vec<String> {
    let runs = args.runs.map(|runs| runs.to_string());
    let file = args.judge.as_ref().map(|file| file.display().to_string());
    [(score::OTHER_CONFIG, file), ("--name", args.name.clone()), ("--runs", runs)]
        .into_iter()
        .filter_map(|(option, value)| Some([option.to_owned(), value?]))
        .flatten()
        .collect()
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
        retries: config.retries,
        context: config.max_context,
        reply_tokens: config.generation.max_new_tokens as u64,
        ..JudgeSetup::default()
    }
}

/// A section whose answers may be judged: its config and its prompt texts.
pub(super) type Judged<'a> = (&'a BenchmarkConfig, &'a PromptSet);

/// A judge that was looked at, with all that can be wrong with it before it is asked.
pub(super) struct Ready {
    /// Its model.
    pub(super) opened: Opened,
    secrets: Secrets,
    setup: JudgeSetup,
    /// The sections, set up with its texts.
    pub(super) sections: Vec<JudgedSection>,
    prompts: Vec<(String, PromptSet)>,
}

/// Several failures as one: all sentences, and the first code.
pub(super) fn one_failure(failures: Vec<Failure>) -> Failure {
    let code = failures.first().map_or(exit::USAGE, |failure| failure.code);
    let sentences: Vec<String> = failures.into_iter().map(|failure| failure.message).collect();
    Failure::new(code, sentences.join("\n"))
}

/// Looks at a judge without asking it: its key, model, texts, tokenizer, and whether they fit together. Everything that
/// is wrong is said. `window` is that of the run's model.
pub(super) fn prepare(
    config: &JudgeConfig,
    judged: &[Judged<'_>],
    window: Window,
    at: At<'_>,
) -> Result<Ready, Vec<Failure>> {
    let Some(model_config) = &config.model else {
        return Err(vec![Failure::new(
            exit::USAGE,
            at(&[], &"there is no model that judges: add [judge.model]"),
        )]);
    };
    let mut failures = Vec::new();
    let secrets = open::secrets_of(model_config, at).map_err(|e| failures.push(e)).unwrap_or_default();
    let opened = open::model_of(model_config, &secrets, &config.generation, at);
    let opened = opened.map_err(|e| failures.push(e)).ok();
    let mut wrong = |key: &[Step], problem: &dyn std::fmt::Display| {
        failures.push(Failure::new(exit::USAGE, at(key, problem)));
    };
    let mut setup = setup_of(config);
    if let Some(path) = &config.tokenizer {
        match crate::model::Tokens::open(path) {
            Ok(counter) => {
                setup.tokenizer = Some(counter.digest.to_string());
                setup.counter = TokenCounter::new(move |text| counter.count(text));
            }
            Err(e) => wrong(&["tokenizer".into()], &e),
        }
    }
    if let Some(context) = config.max_context.filter(|context| *context <= setup.reply_tokens) {
        let sentence = format!(
            "of {context} tokens for prompt and reply together the reply may take {}, and nothing is left for the \
             answer: raise max_context, or lower max_new_tokens under [judge.generation]",
            setup.reply_tokens
        );
        wrong(&["max_context".into()], &sentence);
    }
    let finished = model_config.endpoint.as_ref().is_none_or(|endpoint| endpoint.wire.completions);
    if config.mode == JudgeMode::Raw && !finished {
        wrong(
            &["mode".into()],
            &"a finished prompt string is sent to an endpoint of completions: set completions = true under \
              [judge.model.endpoint], or mode = \"chat\"",
        );
    }
    let own = config.prompt.as_ref().map(|path| wording::read_prompts(path)).transpose();
    let own = own.map_err(|e| wrong(&["prompt".into()], &e)).ok().flatten().unwrap_or_default();
    // What the model under test was told is the run's business.
    let for_judge = |section: &BenchmarkConfig, name: &str| {
        let known = benchmark::known_texts(&section.name);
        known.iter().any(|text| text.name == name && text.for_judge())
    };
    for name in own.names().filter(|name| !judged.iter().any(|(section, _)| for_judge(section, name))) {
        let known: BTreeSet<&str> = judged
            .iter()
            .flat_map(|(section, _)| benchmark::known_texts(&section.name))
            .filter(|text| text.for_judge())
            .map(|text| text.name)
            .collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let sentence = format!(
            "it holds the text `{name}`, which the judge of this run is not asked with: it may hold {known}"
        );
        wrong(&["prompt".into()], &sentence);
    }
    let (mut sections, mut prompts, mut any) = (Vec::new(), Vec::new(), false);
    for (section, texts) in judged {
        let texts = (*texts).clone().with(&own.only(|name| for_judge(section, name)));
        prompts.push((section.label.clone(), texts.only(|name| for_judge(section, name))));
        let key = |e: &BuildError| match e {
            BuildError::Judge(_) => "mode",
            BuildError::MissingText(_) if config.mode == JudgeMode::Raw => "mode",
            _ => "prompt",
        };
        match benchmark::build(section, texts, window) {
            Err(e) => wrong(&[key(&e).into()], &format!("{}: {e}", section.label)),
            Ok(benchmark) => {
                let section = JudgedSection::new(&section.label, benchmark, &setup);
                match section.judge() {
                    Ok(judge) => any |= judge.is_some(),
                    Err(e) => {
                        any = true;
                        wrong(&[key(&e).into()], &format!("{}: {}", section.label(), without_text(&e)));
                    }
                }
                sections.push(section);
            }
        }
    }
    if !any && sections.len() == judged.len() {
        let labels = judged.iter().map(|(section, _)| section.label.clone()).collect();
        wrong(&[], &JudgeError::Nothing(labels));
    }
    match opened {
        Some(opened) if failures.is_empty() => Ok(Ready { opened, secrets, setup, sections, prompts }),
        _ => Err(failures),
    }
}

/// What is said of a judge that cannot be asked.
fn without_text(error: &BuildError) -> String {
    match error {
        BuildError::MissingText(name) => format!(
            "the judge's text `{name}` is not there: get the official prompts with `harness fetch`, or give the text in \
             a file of your own with `prompt` under [judge]"
        ),
        other => other.to_string(),
    }
}

impl Ready {
    /// What is kept of the judge beside its verdicts.
    fn file(&self, config: &JudgeConfig, seed: u64) -> JudgeFile {
        JudgeFile {
            version: VERSION,
            setup: self.setup.clone(),
            model: self.opened.identity.clone(),
            generation: config.generation.clone(),
            temperature: config.temperature.clone(),
            seed,
            options: Vec::new(),
            price: config.model.as_ref().and_then(score::price_of_model),
            prompts: self.prompts.clone(),
            sessions: Vec::new(),
        }
    }

    /// Refuses a judge that is not the one whose verdicts a folder holds under its name.
    pub(super) fn same_as_earlier(
        &self,
        config: &JudgeConfig,
        seed: u64,
        folder: &Path,
    ) -> Result<(), Failure> {
        match JudgeFile::read(folder, &config.name)? {
            Some(earlier) => Ok(self.file(config, seed).same_judge(&earlier, folder)?),
            None => Ok(()),
        }
    }
}

/// Judges the answers in a run folder. The exit code where it ended early.
pub(super) fn stage(orders: &Orders<'_>, ready: Ready) -> Result<Option<u8>, Failure> {
    let Orders { folder, judge: config, seed, .. } = *orders;
    let mut file = ready.file(config, seed);
    let Ready { opened, secrets, sections, .. } = ready;
    let Some(model_config) = &config.model else { return Ok(None) };
    let max_seconds = model_config.audio.max_seconds;
    let recipe = Recipe::new(&opened.identity, max_seconds, &config.generation, seed);
    let plan = Arc::new(JudgePlan::new(folder, sections, recipe)?);

    let earlier = JudgeFile::read(folder, &config.name)?;
    file.options = orders.options.to_vec();
    if let Some(earlier) = earlier {
        file.same_judge(&earlier, folder)?;
        file.sessions = earlier.sessions;
    }
    let verdicts = verdicts_path(folder, &config.name);
    if let Some(parent) = verdicts.parent() {
        std::fs::create_dir_all(parent).map_err(|e| {
            Failure::new(exit::FOLDER, format!("error: {}: the folder cannot be made: {e}", parent.display()))
        })?;
    }
    let mut journal = Journal::append_to(&verdicts, &|_, _, _| true)?;
    say_state_of(&journal);
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
        account: price.into(),
        reading: Some(Reading { read: &reading, retries: config.retries }),
        server: Serve::of(model_config, &secrets, folder, "judge-server.log"),
    });
    if let Some(session) = file.sessions.last_mut().filter(|_| !journal.answered_as().is_empty()) {
        session.answered_as = journal.answered_as();
        file.write(folder)?;
    }
    let ended = ended?;
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
