//! Score: the plan and the journal of a run folder to `scores.json` and tables.
//!
//! Reads only what the earlier stages left in the folder: no dataset, no media, no model.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::alarms::Alarms;
use super::answered_as::{self, AnsweredAs};
use super::cost::{self, Price};
use super::digests::DigestSet;
use super::fetched::{Fetched, Fetcher};
use super::folder::{FolderError, write_whole};
use super::journal::{Journal, JournalError};
use super::judge::{self, Asked, CallsTook, JudgeError, JudgeFile};
use super::manifest::{Manifest, ManifestBenchmark, ManifestError};
use super::plan::PlanFileError;
use super::transcripts::{self, TranscriptsError};
use super::{transcript_languages, transcript_rates};
use crate::benchmark::judging::OnJudgeError;
use crate::benchmark::{
    self, Benchmark, BenchmarkScores, BuildError, JudgeFacts, JudgeKind, JudgeScores, JudgeSetup, RunFacts,
    Scorer, UsageScores,
};
use crate::config::{BenchmarkConfig, ChosenTemperature, ModelConfig, RunConfig, WindowRule};
use crate::dataset::FingerprintKind;
use crate::model::ModelIdentity;
use crate::prompt::PromptSet;
use crate::report::figure::Figure;
use crate::report::published::PublishedError;
use crate::report::scores_file::{Scores, ScoresError};
use crate::report::table::Table;
use crate::types::{Generation, Response};

/// A run that cannot be scored or reported.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// There is no manifest.
    #[error("{}: no manifest.json is there; run the config first", .0.display())]
    NoManifest(PathBuf),
    /// There are no scores yet.
    #[error("{}: no scores.json is there; score the run first: harness score {}", .0.display(), .0.display())]
    NoScores(PathBuf),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The scores.
    #[error("{}: {source}", .path.display())]
    Scores {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ScoresError,
    },
    /// A judge.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// A judge that has judged nothing here.
    #[error(
        "{}: no verdicts of a judge `{name}` are there ({}); judge first: harness judge {}", .folder.display(),
        if .known.is_empty() { "there are none".to_owned() } else { format!("there are some of {}", .known.join(", ")) },
        .folder.display()
    )]
    NoJudge {
        /// The run's folder.
        folder: PathBuf,
        /// The judge.
        name: String,
        /// The judges that there are.
        known: Vec<String>,
    },
    /// The published figures that are built in.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The transcripts of a cascade.
    #[error(transparent)]
    Transcripts(#[from] TranscriptsError),
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A benchmark of the manifest that this program does not know.
    #[error("{}: the manifest's benchmark `{label}` cannot be set up: {source}", .path.display())]
    Benchmark {
        /// The manifest.
        path: PathBuf,
        /// The section.
        label: String,
        /// Why.
        source: BuildError,
    },
}

/// The manifest of a folder, which must be there.
pub fn manifest_of(folder: &Path) -> Result<Manifest, ScoreError> {
    Manifest::read(folder)?.ok_or_else(|| ScoreError::NoManifest(folder.to_owned()))
}

fn benchmark_of(
    folder: &Path,
    config: &RunConfig,
    section: &BenchmarkConfig,
    prompts: PromptSet,
) -> Result<Box<dyn Benchmark>, ScoreError> {
    benchmark::build(section, prompts, config.model.hearing().audio.window).map_err(|source| {
        ScoreError::Benchmark { path: Manifest::path(folder), label: section.label.clone(), source }
    })
}

/// The option of `harness judge` that names another config than the run's.
pub const OTHER_CONFIG: &str = "--judge";

/// The name that asks for a judge by string match.
pub const MATCH: &str = "match";

/// The judge whose verdicts are scored.
struct Judge {
    file: JudgeFile,
    verdicts: Option<Journal>,
}

/// The judge of this name. Without a name: the one of the config, or the only one that there is.
fn judge_of(folder: &Path, manifest: &Manifest, name: Option<&str>) -> Result<Option<Judge>, ScoreError> {
    let configured = manifest.config.judge.as_ref();
    let by_match = |name: &str| JudgeFile {
        version: judge::VERSION,
        setup: JudgeSetup { name: name.to_owned(), kind: JudgeKind::Match, ..JudgeSetup::default() },
        model: ModelIdentity::default(),
        generation: Generation::default(),
        temperature: None,
        seed: 0,
        options: Vec::new(),
        price: None,
        prompts: Vec::new(),
        sessions: Vec::new(),
    };
    if let (None, Some(config)) = (name, configured)
        && config.kind == JudgeKind::Match
    {
        return Ok(Some(Judge { file: by_match(&config.name), verdicts: None }));
    }
    let known = judge::judges_of(folder);
    let chosen = match (name, configured) {
        (Some(name), _) => Some(name.to_owned()),
        (None, Some(config)) => known.iter().find(|known| **known == config.name).cloned(),
        (None, None) => None,
    };
    let chosen = chosen.or_else(|| if let [only] = known.as_slice() { Some(only.clone()) } else { None });
    let Some(chosen) = chosen else { return Ok(None) };
    match JudgeFile::read(folder, &chosen)? {
        Some(mut file) => {
            // How replies are read may have been changed in the run's config since it judged last; not so where
            // another config judged.
            let own = !file.options.iter().any(|option| option == OTHER_CONFIG);
            if let Some(config) = configured.filter(|config| own && config.name == chosen) {
                (file.setup.rating, file.setup.on_error) = (config.rating, config.on_error);
                file.setup.retries = config.retries;
                // And so may prices.
                file.price = config.model.as_ref().and_then(price_of_model).or(file.price);
            }
            let verdicts = Journal::read(&judge::verdicts_path(folder, &chosen))?;
            Ok(Some(Judge { file, verdicts }))
        }
        None if chosen == MATCH => Ok(Some(Judge { file: by_match(MATCH), verdicts: None })),
        None => Err(ScoreError::NoJudge { folder: folder.to_owned(), name: chosen, known }),
    }
}

/// Scores a run folder and writes `scores.json`. `judge` names the judge whose verdicts count; without it those of the
/// config's judge do, or of the only one that there is.
pub fn score(folder: &Path, judge: Option<&str>) -> Result<Scores, ScoreError> {
    let manifest = manifest_of(folder)?;
    let mut judge = judge_of(folder, &manifest, judge)?;
    let responses = Journal::read(&folder.join("responses.jsonl"))?;
    let verdicts = judge.as_mut().and_then(|judge| judge.verdicts.take());
    let journals = [&responses, &verdicts].into_iter().flatten();
    let damaged: Vec<String> = journals.filter_map(damaged).collect();
    let sections = sections(folder, &manifest, judge.as_ref().map(|judge| &judge.file))?;
    let put: Vec<Option<Asked<'_>>> = sections
        .iter()
        .map(|(_, _, benchmark)| {
            let setup = judge.as_ref()?.file.setup.with_runs_of(benchmark.judge_runs());
            Some(Asked::by(&**benchmark, setup))
        })
        .collect();
    let mut scorers: Vec<Box<dyn Scorer>> = sections
        .iter()
        .zip(&put)
        .map(|((_, _, benchmark), put)| benchmark.scorer(put.as_ref().map(|put| &put.setup)))
        .collect();
    let by_label: HashMap<&str, usize> =
        sections.iter().enumerate().map(|(i, (config, ..))| (config.label.as_str(), i)).collect();
    let mut watches: Vec<Watch> = sections.iter().map(|_| Watch::default()).collect();
    // What the judge's calls took, by section.
    let mut judging: Vec<CallsTook> = vec![CallsTook::default(); sections.len()];
    let mut seen = DigestSet::default();
    let fetcher = Fetcher { folder, by_label: &by_label, asked: &put, responses, verdicts };
    std::thread::scope(|scope| -> Result<(), ScoreError> {
        let (out, fetched) = std::sync::mpsc::sync_channel(8);
        scope.spawn(move || fetcher.send(&out));
        for batch in fetched {
            for Fetched { section, planned, response, calls, took } in batch? {
                if let Some(sum) = judging.get_mut(section) {
                    sum.add(&took);
                }
                if let Some(scorer) = scorers.get_mut(section) {
                    scorer.add(&planned, response.as_ref(), &calls);
                }
                // Two planned requests may be one, with two references.
                if let (Some(watch), Some(response)) = (watches.get_mut(section), &response)
                    && seen.insert(planned.request)
                {
                    watch.add(response);
                }
            }
        }
        Ok(())
    })?;
    let price = price_of(&manifest.config);
    // Of a cascade the one that answers.
    let answering = manifest.config.model.answering();
    let asked =
        answering.endpoint.as_ref().map_or_else(|| answering.name.clone(), |endpoint| endpoint.model.clone());
    let heard = transcripts::read(folder)?;
    // Answers can be scored without it.
    let unheard = (heard.is_none() && manifest.config.model.cascade.is_some()).then(|| {
        format!(
            "{} is not there: error rates, languages and cost of the transcripts are left out. Run the config again where \
             the transcripts that runs share are (`transcripts` in the results folder), which makes it anew",
            transcripts::path(folder).display()
        )
    });
    let heard = heard.unwrap_or_default();
    let benchmarks = sections
        .iter()
        .zip(scorers)
        .zip(watches)
        .zip(&put)
        .zip(judging)
        .map(|(((((config, facts, benchmark), scorer), watch), put), judging)| {
            let taken = facts.samples;
            let run = RunFacts {
                model: &manifest.model,
                generation: &manifest.config.generation,
                seed: manifest.config.run.seed,
                samples: taken,
                subset: (taken != facts.dataset.samples).then_some((taken, facts.dataset.samples)),
                data_differs: &facts.dataset.differs,
                judge: judge.as_ref().zip(put.as_ref()).map(|(judge, put)| JudgeFacts {
                    setup: &put.setup,
                    model: &judge.file.model.name,
                    generation: &judge.file.generation,
                }),
            };
            let mut scorer = scorer;
            scorer.taken(taken);
            let mut scores = scorer.finish();
            if let (Some(judged), Some(Asked { setup, judging: reads, .. }), Some(judge)) =
                (&mut scores.judge, put, &judge)
            {
                judged.judge.clone_from(&setup.name);
                judged.tokenizer.clone_from(&setup.tokenizer);
                judged.model.clone_from(&judge.file.model.name);
                (judged.mode, judged.runs) = (setup.mode, setup.runs);
                judged.required = setup.on_error == OnJudgeError::Fail;
                judged.prompts = reads.as_ref().map(|reads| reads.prompts()).unwrap_or_default();
                let cost = judge.file.price.map(|price| price.of(&judging.usage.tokens));
                judged.usage = Some(UsageScores { cost, ..judging.usage });
                judged.retries = setup.retries;
                (judged.asked_again, judged.read_again) = (judging.asked_again, judging.read_again);
                judged.answered_as = judging.answered_as.by_model(&judge.file.model.model);
            }
            let of_judge = scores.judge.as_ref().map(JudgeScores::warnings).unwrap_or_default();
            scores.label.clone_from(&config.label);
            scores.benchmark.clone_from(&config.name);
            scores.profile = config.profile;
            // What other tools asked with is not known.
            scores.prompts = if run.replayed() { Vec::new() } else { benchmark.prompts() };
            scores.unreadable_rows = facts.dataset.unreadable_rows;
            scores.deviations = replayed(&run).into_iter().chain(benchmark.deviations(&run)).collect();
            scores.deviations.extend(scores.judge.as_ref().and_then(asks_again));
            if manifest.config.model.cascade.is_some() {
                let of_section = heard.get(&config.label).map(Vec::as_slice).unwrap_or_default();
                scores.metrics.extend(transcript_rates::metrics(of_section));
                scores.metrics.extend(transcript_languages::metrics(of_section));
                scores.warnings.extend(transcript_rates::warnings(of_section));
                let price = price_of_recogniser(&manifest.config);
                scores.transcribing =
                    (!of_section.is_empty()).then(|| transcript_rates::usage(of_section, price));
            }
            scores.warnings.extend(unheard.iter().cloned());
            scores.warnings.extend(damaged.iter().cloned());
            scores.warnings.extend(watch.alarms.warnings());
            scores.warnings.extend(of_judge);
            scores.answered_as = watch.answered_as.by_model(&asked);
            scores.warnings.extend(answered_as::warning("the endpoint", &scores.answered_as));
            let of_judge = scores.judge.as_ref();
            let of_judge = of_judge.and_then(|judge| {
                answered_as::warning(&format!("the judge {}", judge.judge), &judge.answered_as)
            });
            scores.warnings.extend(of_judge);
            let cost = price.map(|price| price.of(&watch.usage.tokens));
            scores.usage = Some(UsageScores { cost, ..watch.usage });
            scores
        })
        .collect();
    let scores = Scores::new(manifest.run.clone(), manifest.model.clone(), benchmarks);
    write_whole(&folder.join("scores.json"), |out| out.write_all(scores.to_json()?.as_bytes()))?;
    Ok(scores)
}

/// What is to be said of a journal with lines that cannot be read.
fn damaged(journal: &Journal) -> Option<String> {
    let damage = journal.damage()?;
    Some(format!("{damage} are passed over: what no other line holds counts as missing"))
}

/// What is to be said of answers that were not asked for.
fn replayed(run: &RunFacts<'_>) -> Option<String> {
    run.replayed().then(|| {
        "the answers come from files: which words and media were sent, to which model, and how answers were generated, is \
         not known here"
            .to_owned()
    })
}

/// What is to be said of a judge that is asked again.
fn asks_again(judge: &JudgeScores) -> Option<String> {
    (judge.retries > 0).then(|| {
        format!(
            "the judge is asked again, at most {} times, for a reply that cannot be read; the papers ask once",
            judge.retries
        )
    })
}

/// What is kept of the responses of a section beside its scores.
#[derive(Default)]
struct Watch {
    alarms: Alarms,
    usage: UsageScores,
    answered_as: AnsweredAs,
}

impl Watch {
    fn add(&mut self, response: &Response) {
        self.alarms.add(response);
        self.answered_as.take(response);
        cost::count(&mut self.usage, response);
    }
}

/// The prices of a run, where they are configured.
pub fn price_of(config: &RunConfig) -> Option<Price> {
    price_of_model(config.model.answering())
}

/// The prices of a cascade's recogniser, where they are configured.
pub fn price_of_recogniser(config: &RunConfig) -> Option<Price> {
    price_of_model(&config.model.cascade.as_ref()?.asr)
}

/// The prices of a model, where they are configured.
pub fn price_of_model(model: &ModelConfig) -> Option<Price> {
    let price = &model.endpoint.as_ref()?.price;
    let given = price.input_per_million > 0.0 || price.output_per_million > 0.0;
    given.then_some(Price {
        input_per_million: price.input_per_million,
        output_per_million: price.output_per_million,
        max_cost: price.max_cost,
    })
}

type SectionOf<'a> = (&'a BenchmarkConfig, &'a ManifestBenchmark, Box<dyn Benchmark>);

/// The sections of a manifest, set up. With a judge's file with the texts that the judge was asked with.
pub(super) fn sections<'a>(
    folder: &Path,
    manifest: &'a Manifest,
    judge: Option<&JudgeFile>,
) -> Result<Vec<SectionOf<'a>>, ScoreError> {
    let pairs = manifest.config.benchmarks.iter().zip(&manifest.benchmarks);
    pairs
        .map(|(config, facts)| {
            let asked =
                judge.and_then(|judge| judge.prompts.iter().find(|(label, _)| *label == config.label));
            let prompts = match asked {
                Some((_, texts)) => facts.prompts.clone().with(texts),
                None => facts.prompts.clone(),
            };
            let mut benchmark = benchmark_of(folder, &manifest.config, config, prompts)?;
            benchmark.rows_in(&facts.dataset.index);
            Ok((config, facts, benchmark))
        })
        .collect()
}

/// Reads the scores of a run folder.
pub fn read_scores(folder: &Path) -> Result<Scores, ScoreError> {
    let path = folder.join("scores.json");
    match std::fs::read_to_string(&path) {
        Ok(text) => Scores::parse(&text).map_err(|source| ScoreError::Scores { path, source }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(ScoreError::NoScores(folder.to_owned())),
        Err(source) => Err(FolderError::Io { path, action: "cannot be read", source }.into()),
    }
}

/// Makes the tables of a run's scores, writes each as Markdown and CSV under `tables/`, and gives them back.
pub fn report(folder: &Path, scores: &Scores) -> Result<Vec<Table>, ScoreError> {
    let manifest = manifest_of(folder)?;
    let mut tables = Vec::new();
    let mut figures = Vec::new();
    let mut section_of: HashMap<String, TableOf<'_>> = HashMap::new();
    for (config, facts, benchmark) in sections(folder, &manifest, None)? {
        let Some(of_section) = scores.benchmarks.iter().find(|s| s.label == config.label) else { continue };
        let published = benchmark::published(&config.name)?;
        let compare_to = manifest.config.model.published_as.as_deref();
        let of = TableOf { facts, scores: of_section, has_clips: benchmark.has_clips() };
        for table in benchmark.tables(of_section, &published, compare_to) {
            section_of.insert(table.name.clone(), of);
            tables.push(table);
        }
        let of_transcripts = [transcript_rates::table(of_section), transcript_languages::table(of_section)];
        for table in of_transcripts.into_iter().flatten() {
            section_of.insert(table.name.clone(), TableOf { has_clips: true, ..of });
            tables.push(table);
        }
        figures.extend(benchmark.figures(of_section));
    }
    for table in &mut tables {
        table.notes.splice(0..0, whose(&manifest, section_of.get(&table.name).copied()));
    }
    let to = folder.join("tables");
    std::fs::create_dir_all(&to).map_err(|source| FolderError::Io {
        path: to.clone(),
        action: "the folder cannot be made",
        source,
    })?;
    remove_others(&to, &tables, &figures);
    for table in &tables {
        write_whole(&to.join(format!("{}.md", table.name)), |out| {
            out.write_all(table.markdown().as_bytes())
        })?;
        write_whole(&to.join(format!("{}.csv", table.name)), |out| table.write_csv(out).map_err(Into::into))?;
    }
    for figure in &figures {
        write_whole(&to.join(format!("{}.svg", figure.name)), |out| out.write_all(figure.svg.as_bytes()))?;
    }
    Ok(tables)
}

/// Removes tables and diagrams of an earlier config: they would stand beside the new ones as if they were of this run.
fn remove_others(folder: &Path, tables: &[Table], figures: &[Figure]) {
    for path in std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
        let is = |name: &str| path.extension().is_some_and(|extension| extension == name);
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let table = (is("md") || is("csv")) && tables.iter().all(|table| table.name != stem);
        let figure = is("svg") && figures.iter().all(|figure| figure.name != stem);
        if table || figure {
            // One that cannot be removed is an old table too many, nothing worse.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How tokens are drawn, in words. `chosen` is the word that gave the temperature, where one did.
pub fn draw_in_words(generation: &Generation, chosen: Option<&ChosenTemperature>) -> String {
    let why = chosen.map(|chosen| format!(" ({chosen})")).unwrap_or_default();
    let top_k = if generation.top_k == 0 { "off".to_owned() } else { generation.top_k.to_string() };
    match generation.temperature {
        _ if generation.greedy() => format!("greedy{why}"),
        Some(_) => {
            let temperature = generation.temperature_by_name();
            format!("{temperature}{why}, top_p {}, top_k {top_k}", generation.top_p)
        }
        None => {
            let top_p = (generation.top_p != 1.0).then(|| format!("top_p {}", generation.top_p));
            let top_k = (generation.top_k != 0).then(|| format!("top_k {top_k}"));
            let words = std::iter::once(format!("{}{why}", generation.temperature_by_name()));
            words.chain(top_p).chain(top_k).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A revision with the digests in it shortened.
fn shortened(revision: &str) -> String {
    let short = |word: &str| {
        let (digest, rest) = word.split_at(word.trim_end_matches(',').len());
        if digest.len() >= 40 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            format!("{}{rest}", digest.get(..12).unwrap_or(digest))
        } else {
            word.to_owned()
        }
    };
    revision.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

/// The section that a table is of.
#[derive(Clone, Copy)]
struct TableOf<'a> {
    facts: &'a ManifestBenchmark,
    scores: &'a BenchmarkScores,
    /// Whether it may ask about clips.
    has_clips: bool,
}

/// What a table must still say when it is pasted elsewhere: whose it is, how and from what it was made.
fn whose(manifest: &Manifest, of: Option<TableOf<'_>>) -> Vec<String> {
    let facts = of.map(|of| of.facts);
    let Manifest { config, model, sessions, .. } = manifest;
    let distinct = |values: Vec<String>| -> String {
        let mut seen = Vec::new();
        for value in values {
            if !seen.contains(&value) {
                seen.push(value);
            }
        }
        seen.join(" and ")
    };
    let devices = distinct(sessions.iter().map(|session| session.device.clone()).collect());
    let batches = distinct(sessions.iter().map(|session| session.batch_size.to_string()).collect());
    let versions = distinct(sessions.iter().map(|session| session.harness.clone()).collect());
    let digest = shortened(&model.revision);
    let of_data = |facts: &ManifestBenchmark| {
        let name = facts.dataset.index.file_name().map(|name| name.to_string_lossy().into_owned());
        let (files, hashed) = (facts.dataset.files, facts.dataset.hashed);
        let more = if files > 1 { format!(" and {} more", files - 1) } else { String::new() };
        let of = match hashed {
            FingerprintKind::Content => String::new(),
            other => format!(" of {}", other.as_str()),
        };
        format!("data: {}{more} (blake3{of} {})", name.unwrap_or_default(), facts.dataset.blake3.short())
    };
    if let Some(replay) = &manifest.replay {
        let mut notes =
            vec![format!("model: {} ({digest}), run {}, harness {versions}", model.name, manifest.run)];
        notes.extend(config.run.note.iter().map(|note| format!("note: {note}")));
        notes.extend(replay.notes());
        notes.extend(facts.map(of_data));
        return notes;
    }
    // An endpoint has neither number format nor device.
    let runs_here = if model.dtype.is_empty() {
        String::new()
    } else {
        format!(", {} on {devices}, batches of {batches}", model.dtype)
    };
    let mut notes = vec![format!(
        "model: {} ({} {digest}{runs_here}), run {}, harness {versions}",
        model.name, model.model, manifest.run
    )];
    notes.extend(
        config.model.cascade.iter().map(|cascade| transcript_rates::note(cascade, of.map(|of| of.scores))),
    );
    notes.extend(config.run.note.iter().map(|note| format!("note: {note}")));
    let generation = &config.generation;
    let mut settings = vec![draw_in_words(generation, config.temperature.as_ref())];
    if generation.repetition_penalty != 1.0 {
        settings.push(format!("repetition penalty {}", generation.repetition_penalty));
    }
    settings.push(format!("at most {} new tokens", generation.max_new_tokens));
    if !generation.stop.is_empty() {
        settings.push(format!("stop at {:?}", generation.stop));
    }
    settings.push(format!("seed {}", config.run.seed));
    let audio = &config.model.hearing().audio;
    let section = facts.and_then(|facts| config.benchmarks.iter().find(|b| b.label == facts.label));
    let windows = match section.map(|section| section.windows) {
        Some(WindowRule::FirstAndLast) => "windows first and last".to_owned(),
        _ => format!("window {}", audio.window.as_str()),
    };
    // A model that hears nothing takes no clips, whatever is asked.
    let heard = of.is_none_or(|of| of.has_clips) && audio.max_seconds > 0.0;
    settings.extend(heard.then(|| format!("clips of at most {} s, {windows}", audio.max_seconds)));
    settings.extend(config.model.image.words().map(|words| format!("images changed: {words}")));
    notes.push(format!("settings: {}", settings.join(", ")));
    notes.extend(facts.map(of_data));
    notes
}
