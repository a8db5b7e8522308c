//! Cascades on the command line: both models looked at, and the stage that transcribes.

use std::path::Path;
use std::sync::Arc;

use super::exit::{self, Failure};
use super::open::{self, At};
use super::run::{Drive, Ended, drive, say_state_of, transcode_of, transform_of, unchanged};
use super::serve::Serve;
use crate::config::cascade::TRANSCRIPTS;
use crate::config::secret::Secrets;
use crate::config::{CascadeConfig, Loaded, ModelConfig, ModelKind, RunConfig, Step};
use crate::model::{AudioNeed, ModelIdentity, Opened};
use crate::run::cost::{Account, Price};
use crate::run::folder::{Begin, FolderError, RunFolder};
use crate::run::journal::{Journal, Near, Stand};
use crate::run::plan::{Plan, Requests};
use crate::run::transcripts::{self, Asr, Transcribed, TranscriptPlan};
use crate::types::{Digest, Generation};

/// The models of a config: the one that answers, and of a cascade the one that hears.
pub(super) struct Models {
    /// The one that answers; of a cascade with the name and the identity of both.
    pub(super) answering: Opened,
    /// The secrets of that one.
    pub(super) secrets: Secrets,
    /// The recogniser.
    pub(super) recogniser: Option<Recogniser>,
}

/// A recogniser that was looked at.
pub(super) struct Recogniser {
    /// The model.
    pub(super) opened: Opened,
    secrets: Secrets,
    /// How it is asked.
    pub(super) asr: Asr,
}

/// Where the secrets of a model come from.
type Keys<'a> = &'a mut dyn FnMut(&ModelConfig, At<'_>) -> Result<Secrets, Failure>;

/// Looks at the models of a config without loading them.
pub(super) fn models(loaded: &Loaded) -> Result<Models, Failure> {
    with_keys(loaded, &mut open::secrets_of)
}

/// The same for a check: without its key an endpoint can be looked at, but not asked. Says which keys are missing.
pub(super) fn look(loaded: &Loaded, missing: &mut Vec<String>) -> Result<Models, Failure> {
    with_keys(loaded, &mut |model, at| {
        Ok(open::secrets_of(model, at).map_err(|e| missing.push(e.message)).unwrap_or_default())
    })
}

fn with_keys(loaded: &Loaded, keys: Keys<'_>) -> Result<Models, Failure> {
    let config = &loaded.config.model;
    let Some(cascade) = &config.cascade else {
        let secrets = keys(config, &|path, problem| open::problem_at(loaded, path, problem))?;
        let answering = open::model(loaded, &secrets)?;
        return Ok(Models { answering, secrets, recogniser: None });
    };
    let (asr, of_asr) = part(loaded, "asr", &cascade.asr, &Asr::generation(cascade), keys)?;
    let (mut answering, secrets) = part(loaded, "llm", &cascade.llm, &loaded.config.generation, keys)?;
    let asking = Asr::new(cascade, &asr.identity, takes_clips_alone(&cascade.asr));
    let identity = both(&config.name, cascade, &asr.identity, &answering.identity, &asking);
    answering.alone = Some(std::mem::replace(&mut answering.identity, identity));
    answering.about =
        format!("{}; its transcripts are of {} ({})", answering.about, asr.identity.name, asr.about);
    // What it gets are transcripts.
    answering.limits.audio = AudioNeed::None;
    answering.limits.max_seconds = f64::INFINITY;
    let recogniser = Recogniser { opened: asr, secrets: of_asr, asr: asking };
    Ok(Models { answering, secrets, recogniser: Some(recogniser) })
}

/// Whether a recogniser takes a clip and no words beside it.
fn takes_clips_alone(model: &ModelConfig) -> bool {
    model.kind == ModelKind::Transcription
        || model.local.as_ref().is_some_and(|local| local.architecture == "whisper")
}

/// Looks at one of the two.
fn part(
    loaded: &Loaded,
    name: &'static str,
    model: &ModelConfig,
    generation: &Generation,
    keys: Keys<'_>,
) -> Result<(Opened, Secrets), Failure> {
    // What is said of `[model]` is said of its part.
    let at = |path: &[Step], problem: &dyn std::fmt::Display| {
        let path: Vec<Step> = match path {
            [first, rest @ ..] if *first == Step::from("model") => {
                ["model".into(), name.into()].into_iter().chain(rest.iter().cloned()).collect()
            }
            path => path.to_vec(),
        };
        open::problem_at(loaded, &path, problem)
    };
    let secrets = keys(model, &at)?;
    Ok((open::model_of(model, &secrets, generation, &at)?, secrets))
}

/// The identity of both: whatever can change an answer is in it.
fn both(
    name: &str,
    cascade: &CascadeConfig,
    asr: &ModelIdentity,
    llm: &ModelIdentity,
    asking: &Asr,
) -> ModelIdentity {
    let plus = |asr: &str, llm: &str| match (asr, llm) {
        ("", "") => String::new(),
        (one, "") | ("", one) => one.to_owned(),
        (asr, llm) => format!("{asr} + {llm}"),
    };
    let transcripts = &cascade.transcripts;
    let how = serde_json::to_string(&(transcripts, cascade.asr.audio.window)).unwrap_or_default();
    let asked = Digest::of(format!("{}{how}", asking.digest()).as_bytes()).short();
    let shared = |asr: &str, llm: &str| if asr == llm { asr.to_owned() } else { plus(asr, llm) };
    ModelIdentity {
        name: name.to_owned(),
        kind: "cascade".to_owned(),
        model: plus(&asr.model, &llm.model),
        revision: format!("{}, transcripts {asked}", plus(&asr.revision, &llm.revision)),
        dtype: shared(&asr.dtype, &llm.dtype),
        device: shared(&asr.device, &llm.device),
    }
}

/// What became of the stage.
pub(super) enum Stage {
    /// All clips went through the recogniser: the plan with transcripts in place of clips.
    Done(Arc<dyn Requests>),
    /// It was stopped; the exit code.
    Stopped(u8),
}

/// The run whose clips are transcribed.
pub(super) struct Of<'a> {
    /// Its config.
    pub(super) config: &'a RunConfig,
    /// Its folder.
    pub(super) run: &'a Path,
    /// When it was begun: transcripts that are older cost it nothing.
    pub(super) since: &'a str,
    /// What the recogniser's tokens cost, and what the run may cost.
    pub(super) price: Option<Price>,
}

/// Transcribes the clips of a plan that have no transcript yet.
pub(super) fn transcribe(recogniser: Recogniser, plan: Plan, of: &Of<'_>) -> Result<Stage, Failure> {
    let Of { config, run, since, price } = *of;
    let Recogniser { opened, secrets, asr } = recogniser;
    let Some(cascade) = &config.model.cascade else {
        return Err(Failure::new(exit::USAGE, "error: internal error: no cascade; please report this"));
    };
    // It is that of all runs with this recogniser: another name would not help.
    let folder =
        RunFolder::open(&journal_folder(config, cascade, &asr), Begin::Either).map_err(|e| match e {
            FolderError::Locked(path) => FolderError::Transcribing(path),
            other => other,
        })?;
    let path = folder.path().join("responses.jsonl");
    let mut journal = Journal::append_to(&path, &|label, name, then| unchanged(&plan, label, name, then))?;
    say_state_of(&journal);
    let clips = Arc::new(TranscriptPlan::new(plan.clone(), asr.clone()));
    let (counts, sorted) = clips.survey(&journal)?;
    let answered: u64 = sorted.answered.iter().sum();
    let state = if answered > 0 { format!(", {answered} of them transcribed") } else { String::new() };
    eprintln!("transcripts in {}: {} clips{state}", folder.path().display(), counts.iter().sum::<u64>());
    if !sorted.todo.is_empty() {
        // The journal is that of all runs with this recogniser.
        let own = clips.spent_since(&journal, since)?;
        let others = Account { price, before: 0.0, others: own }.own(&journal.spent());
        let labels = clips.labels().map(|label| format!("{label} clips")).zip(counts);
        let ended = drive(Drive {
            opened,
            transcode: transcode_of(&cascade.asr),
            images: transform_of(&cascade.asr.image),
            sections: labels.zip(sorted.answered).collect(),
            requests: Arc::clone(&clips) as _,
            todo: sorted.todo,
            journal: &mut journal,
            account: Account { price, before: 0.0, others },
            reading: None,
            server: Serve::of(&cascade.asr, &secrets, run, "asr-server.log"),
        })?;
        match ended {
            Ended::All { runtime, .. } => runtime.shutdown_background(),
            Ended::Stopped(code) => {
                eprintln!(
                    "stopped; all transcripts so far are in {}. To go on, give the same command again",
                    path.display()
                );
                return Ok(Stage::Stopped(code));
            }
            Ended::Cost { cost, most } => {
                eprintln!(
                    "stopped: transcribing has cost {cost:.4} and may cost {most}; all transcripts so far are in {}. To \
                     go on, give the same command again with a higher --max-cost",
                    path.display()
                );
                return Ok(Stage::Stopped(exit::INCOMPLETE));
            }
        }
    }
    clips.keep(run, &journal, since)?;
    Ok(Stage::Done(Arc::new(Transcribed::new(TranscriptPlan::new(plan, asr), journal))))
}

/// Makes the copy that a run keeps of its transcripts anew where it is missing or cannot be read, from those that runs
/// share: once all is answered nothing else would, and the recogniser need not be asked for it.
pub(super) fn restore(recogniser: &Recogniser, plan: Plan, of: &Of<'_>) -> Result<(), Failure> {
    let (asr, run) = (&recogniser.asr, of.run);
    let Some(cascade) = &of.config.model.cascade else { return Ok(()) };
    if matches!(transcripts::read(run), Ok(Some(_))) {
        return Ok(());
    }
    let path = journal_folder(of.config, cascade, asr).join("responses.jsonl");
    // Scores can be made without them: that they are missing is said there.
    let journal = match Journal::read(&path) {
        Ok(Some(journal)) => journal,
        Ok(None) => return Ok(()),
        Err(e) => {
            eprintln!("warning: {e}");
            return Ok(());
        }
    };
    let clips = TranscriptPlan::new(plan, asr.clone());
    // A part of them would give figures that look like those of all.
    let (mut whole, mut near) = (true, Near::default());
    clips.each(&mut |request| {
        whole = journal.stand(&request.planned.request, &mut near) != Stand::Unasked;
        whole
    })?;
    if whole {
        clips.keep(run, &journal, of.since)?;
        eprintln!("{} is made anew from {}", transcripts::path(run).display(), path.display());
    }
    Ok(())
}

/// Where transcripts of a recogniser stand: beside the runs of one results folder, which share them.
fn journal_folder(config: &RunConfig, cascade: &CascadeConfig, asr: &Asr) -> std::path::PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = cascade.asr.name.chars().map(plain).take(60).collect();
    config.run.results.join(TRANSCRIPTS).join(format!("{}-{}", name.trim_matches('.'), asr.digest().short()))
}
