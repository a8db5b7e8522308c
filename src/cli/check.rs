//! `harness check`: everything that can be known without running.

use std::fmt::Write as _;

use super::check_media::{self, Lines, Look, SHOWN, Sight};
use super::exit::{self, Failure};
use super::progress::plural;
use super::{CheckArgs, cascade, judge, open, print, probe, replay, temperature, weights};
use crate::benchmark::JudgeKind;
use crate::config::{ChosenTemperature, Loaded, ModelConfig, RunConfig};
use crate::model::{AudioNeed, ModelIdentity};
use crate::run::journal::Journal;
use crate::run::manifest::{Manifest, ManifestBenchmark};
use crate::run::plan::{Plan, Recipe, Requests, Section};
use crate::run::score::draw_in_words;
use crate::run::transcripts::TranscriptPlan;
use crate::types::{Generation, Response};

/// `harness check CONFIG`
pub(super) fn check(args: &CheckArgs) -> Result<u8, Failure> {
    let mut loaded = open::load(&args.config)?;
    let absent = weights::look(&mut loaded);
    let mut problems = Vec::new();
    if matches!(&absent, Ok(lines) if lines.is_empty())
        && let Err(failure) = temperature::settle(&mut loaded)
    {
        problems.push(failure.message);
    }
    let config = &loaded.config;
    let mut out = format!("config  {}\n", config.path.display());

    // Without its key an endpoint can still be looked at; it cannot be asked.
    let mut missing = Vec::new();
    let opened = match absent {
        Ok(lines) if lines.is_empty() => cascade::look(&loaded, &mut missing).map_err(|e| vec![e]),
        Ok(lines) => {
            for line in lines {
                let _ = writeln!(out, "model   {}: {line}", config.model.name);
            }
            Err(Vec::new())
        }
        Err(failures) => Err(failures),
    };
    let opened = opened
        .map_err(|failures| {
            let messages = failures.into_iter().map(|failure| failure.message);
            problems.extend(messages.filter(|message| !message.is_empty()));
        })
        .ok();
    let keyed = missing.is_empty();
    problems.extend(missing);
    let (opened, recogniser) =
        opened.map_or((None, None), |models| (Some(models.answering), models.recogniser));
    if let Some(opened) = &opened {
        let _ = writeln!(out, "model   {}: {}", opened.identity.name, opened.about);
    }
    for (model, stage) in config
        .model
        .cascade
        .iter()
        .map(|cascade| (&cascade.asr, "stage that transcribes"))
        .chain([(config.model.answering(), "stage")])
    {
        if let Some(server) = model.endpoint.as_ref().and_then(|endpoint| endpoint.server.as_ref()) {
            let _ = writeln!(out, "server  started for the {stage}: {}", server.command.join(" "));
        }
    }
    if config.model.replay.is_none() {
        let _ = writeln!(
            out,
            "draws   {}",
            draws(&config.model, &config.generation, config.temperature.as_ref())
        );
    }
    let (sections, of_sections) = open::sections_and_problems(&loaded, open::Unprepared::Said);
    problems.extend(of_sections);
    // Without the model the plan can still be checked; only the requests' ids mean nothing then.
    let identity = opened.as_ref().map_or_else(|| nobody(config), |opened| opened.identity.clone());
    let limits = opened.as_ref().map(|opened| opened.limits.clone());
    let recipe = Recipe::new(&identity, config.model.audio.max_seconds, &config.generation, config.run.seed);
    let folder = open::folder_of(config);
    let state = if opened.is_some() { state_of(&folder) } else { String::new() };
    let _ = writeln!(out, "run     {}{state}", folder.display());

    let plan = Plan::new(sections.clone(), recipe)?;
    for (index, section) in sections.iter().enumerate() {
        let one = plan.only(index);
        match one.survey(|_| {}) {
            Ok(facts) => {
                for facts in &facts {
                    describe(&mut out, section, facts, &mut problems);
                    let position = config.benchmarks.iter().position(|b| b.label == facts.label);
                    let differs = &facts.dataset.differs;
                    // A part of the samples is refused for nothing.
                    let position = position.filter(|_| facts.samples == facts.dataset.samples);
                    problems.extend(position.and_then(|at| open::other_data(&loaded, at, differs)));
                }
            }
            Err(e) => problems.push(format!("error: {e}")),
        }
        // Media of answers that are there already need not be there.
        let unread = matches!(limits.as_ref().map(|limits| &limits.audio), Some(AudioNeed::Unread));
        let sight = Some(Sight::new(config, limits.as_ref()));
        let lines = match &recogniser {
            _ if unread => Lines::default(),
            None => {
                let all = Look { clips: Some((config, limits.as_ref())), images: sight };
                check_media::look(&one, all, &mut problems)?
            }
            // A recogniser gets the clips one by one, as it is asked about them.
            Some(recogniser) => {
                let seen = check_media::look(&one, Look { clips: None, images: sight }, &mut problems)?;
                let one = TranscriptPlan::new(one, recogniser.asr.clone());
                let heard = Look { clips: Some((config, Some(&recogniser.opened.limits))), images: None };
                Lines { images: seen.images, ..check_media::look(&one, heard, &mut problems)? }
            }
        };
        if let Some(clips) = lines.clips {
            let _ = writeln!(out, "  clips     {clips}");
        }
        if let Some(images) = lines.images {
            let _ = writeln!(out, "  images    {images}");
        }
        for prompt in section.benchmark.prompts() {
            let sha = prompt.sha256.get(..12).unwrap_or(&prompt.sha256);
            let _ = writeln!(out, "  prompt    {} ({}, sha256 {sha})", prompt.name, prompt.status);
        }
        tracing::debug!(index, "section checked");
    }
    if config.judge.is_some() {
        judge_of(&mut out, &loaded, &plan, &mut problems)?;
    }
    if let Some(opened) = &opened {
        match replay::matched(&loaded, opened, &plan) {
            Ok(None) => {}
            Ok(Some(found)) => {
                let _ = writeln!(out, "\nanswers");
                for note in found.facts().notes() {
                    let _ = writeln!(out, "  {note}");
                }
                problems.extend(found.facts().sentences.iter().map(|sentence| format!("error: {sentence}")));
            }
            Err(failure) => problems.push(failure.message),
        }
    }
    let mut probed = true;
    if args.probe {
        match opened.as_ref().filter(|_| keyed) {
            Some(opened) => {
                if let Some(recogniser) = &recogniser {
                    let clips = TranscriptPlan::new(plan.clone(), recogniser.asr.clone());
                    probed = probe::probe(&mut out, "probe of [model.asr]", &recogniser.opened, &clips)?;
                    probed &= probe::probe(&mut out, "probe of [model.llm]", opened, &plan)?;
                } else {
                    probed = probe::probe(&mut out, "probe", opened, &plan)?;
                }
            }
            None => {
                let _ = writeln!(out, "\nprobe\n  not asked: the problems with the model come first");
            }
        }
    }
    if problems.is_empty() && probed {
        let _ = writeln!(out, "\nall is well: harness run {}", config.path.display());
        print(&out)?;
        return Ok(exit::DONE);
    }
    print(&out)?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    let found = match problems.len() as u64 {
        0 => String::new(),
        n => format!("{} found; ", plural(n, "problem")),
    };
    if !probed {
        let message = format!("{found}the endpoint does not do what the run needs: see the probe");
        return Err(Failure::new(exit::MODEL, message));
    }
    Err(Failure::new(exit::USAGE, format!("{found}nothing was run")))
}

/// What can be known of the judge without asking it.
fn judge_of(
    out: &mut String,
    loaded: &Loaded,
    plan: &Plan,
    problems: &mut Vec<String>,
) -> Result<(), Failure> {
    let Some(mut config) = loaded.config.judge.clone() else { return Ok(()) };
    if config.kind == JudgeKind::Match {
        let _ = writeln!(out, "\njudge {}\n  model     none: string match", config.name);
        return Ok(());
    }
    let judged: Vec<judge::Judged<'_>> =
        plan.sections.iter().map(|section| (&section.config, &section.prompts)).collect();
    let at = open::problems_below(loaded, "judge");
    if let Err(failure) = temperature::settle_judge(&mut config, &at) {
        problems.push(failure.message);
    }
    let ready = match judge::prepare(&config, &judged, loaded.config.model.hearing().audio.window, &at) {
        // Sections that could not be set up have been told of, and may be all that is judged.
        Err(failures) => {
            if !judged.is_empty() {
                problems.extend(failures.into_iter().map(|failure| failure.message));
            }
            return Ok(());
        }
        Ok(ready) => ready,
    };
    let _ = writeln!(out, "\njudge {}", config.name);
    let _ = writeln!(out, "  model     {}: {}", ready.opened.identity.name, ready.opened.about);
    if let Some(model) = &config.model {
        let _ =
            writeln!(out, "  draws     {}", draws(model, &config.generation, config.temperature.as_ref()));
    }
    let answer = Response::stand_in();
    for (index, section) in ready.sections.iter().enumerate() {
        let Some(judging) = section.judge().ok().flatten() else { continue };
        let mut answers = 0_u64;
        plan.only(index).each(&mut |request| {
            answers += u64::from(judging.question(&request.planned, &answer).is_some());
            true
        })?;
        let (calls, runs) = (answers * u64::from(section.runs()), u64::from(section.runs()));
        let _ = writeln!(
            out,
            "  calls     {}: {calls}, {} of {}; those on one answer are made once",
            section.label(),
            plural(runs, "run"),
            plural(answers, "answer")
        );
        for prompt in judging.prompts() {
            let sha = prompt.sha256.get(..12).unwrap_or(&prompt.sha256);
            let _ = writeln!(out, "  prompt    {} ({}, sha256 {sha})", prompt.name, prompt.status);
        }
    }
    Ok(())
}

/// How answers are drawn, in words.
fn draws(model: &ModelConfig, generation: &Generation, chosen: Option<&ChosenTemperature>) -> String {
    match chosen {
        Some(chosen) if generation.temperature.is_none() && model.answering().local.is_some() => {
            format!("the model's own temperature, which its files do not tell yet ({})", chosen.word.as_str())
        }
        chosen => draw_in_words(generation, chosen),
    }
}

fn nobody(config: &RunConfig) -> ModelIdentity {
    ModelIdentity {
        name: config.model.name.clone(),
        kind: "none".to_owned(),
        model: String::new(),
        revision: String::new(),
        dtype: String::new(),
        device: String::new(),
    }
}

/// What is in the run's folder already.
fn state_of(folder: &std::path::Path) -> String {
    match (Manifest::read(folder), Journal::read(&folder.join("responses.jsonl"))) {
        (Ok(Some(manifest)), Ok(Some(journal))) => {
            format!(
                " (begun {}, {} in the journal)",
                manifest.created,
                plural(journal.len() as u64, "response")
            )
        }
        (Ok(_), Ok(_)) => " (new)".to_owned(),
        (Err(e), _) => format!(" (cannot be used: {e})"),
        (_, Err(e)) => format!(" (cannot be used: {e})"),
    }
}

fn describe(out: &mut String, section: &Section, facts: &ManifestBenchmark, problems: &mut Vec<String>) {
    let of = match facts.dataset.samples {
        all if all == facts.samples => String::new(),
        all => format!(" of {all}"),
    };
    let more = match facts.dataset.files {
        0 | 1 => String::new(),
        files => format!(" and {}", plural((files - 1) as u64, "more file")),
    };
    let _ = writeln!(
        out,
        "\n{} ({})\n  data      {}{more}: {}{of} samples",
        facts.label,
        facts.name,
        section.dataset.index().display(),
        facts.samples
    );
    if !facts.dataset.differs.is_empty() {
        let _ = writeln!(out, "  differs   {}", facts.dataset.differs.join("; "));
    }
    for (condition, requests) in &facts.conditions {
        let _ = writeln!(out, "  {condition:<9} {}", plural(*requests, "request"));
    }
    let _ = writeln!(out, "  in all    {}", plural(facts.requests, "request"));
    problems.extend(facts.dataset.unreadable.iter().take(SHOWN).map(|sentence| format!("error: {sentence}")));
    let more = facts.dataset.unreadable_rows.saturating_sub(SHOWN.min(facts.dataset.unreadable.len()) as u64);
    if more > 0 {
        problems.push(format!(
            "error: {}: {} more cannot be read",
            facts.dataset.index.display(),
            plural(more, "row")
        ));
    }
}
