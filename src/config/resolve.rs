//! From what was typed to what it means: defaults filled in, paths resolved.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::belebele::{BelebeleConfig, Speaker};
use super::cascade::{AUTO_PROMPT, AsrLanguage, CascadeConfig, FORCED_PROMPT, TranscriptsConfig};
use super::endpoint::{
    EndpointConfig, FlowConfig, PriceConfig, ServerConfig, TranscriptionConfig, WireConfig,
};
use super::hub::is_repo;
use super::image::{DEFAULT_QUALITY, ImageConfig};
use super::problem::Problem;
use super::raw::{
    ARCHITECTURES, RawAudio, RawBelebele, RawBenchmark, RawConfig, RawDtype, RawGeneration, RawImage,
    RawJudge, RawModel, RawRun, RawServer, RawTranscription, RawTranscripts,
};
use super::resolved::{
    AudioConfig, BenchmarkConfig, HubWeights, JudgeConfig, LocalConfig, ModelConfig, ModelKind, ReplayConfig,
    RunConfig, RunSection, Wording,
};
use super::temperature::{ChosenTemperature, RawTemperature, TemperatureWord, chosen};
use super::tree::{Locator, Node, Step};
use crate::benchmark::judging::JudgeKind;
use crate::benchmark::temperature;
use crate::types::{Generation, Profile};

/// The seed when none is given: that of CCFQA's published runs.
pub const DEFAULT_SEED: u64 = 443;

/// Requests to an endpoint that are under way at once, when the configuration doesn't say how many.
pub(super) const DEFAULT_CONCURRENCY: usize = 16;

/// Resolves a configuration that has passed the check. What one of a judge alone does not say is that of the run that
/// is judged. What is wrong now is a word for a temperature that stands for none.
pub(super) fn resolve(
    path: &Path,
    raw: RawConfig,
    locator: &Locator,
    judged: Option<&RunConfig>,
) -> Result<RunConfig, Vec<Problem>> {
    let folders =
        Folders { file: path.parent().unwrap_or(Path::new("")), locator, above: &[], model: &["model"] };
    let sections = raw.benchmark.unwrap_or_default();
    let names: Vec<&str> = match judged {
        Some(run) if sections.is_empty() => run.benchmarks.iter().map(|section| &*section.name).collect(),
        _ => sections.iter().map(|section| &*section.name).collect(),
    };
    let model = raw.model.map(|raw| model(raw, &folders)).or_else(|| judged.map(|run| run.model.clone()));
    let Some(model) = model else {
        // The check has refused it.
        return Err(vec![locator.problem(&[], "the section [model] is missing")]);
    };

    let mut problems = Vec::new();
    let mut settle = |section: &[&str], generation: &mut Generation, chosen: Result<Settled, String>| {
        let path: Vec<Step> = section.iter().chain(&["temperature"]).map(|key| Step::from(*key)).collect();
        match chosen {
            Ok((value, chosen)) => {
                generation.temperature = value;
                Some(chosen)
            }
            Err(sentence) => {
                problems.push(locator.problem(&path, sentence));
                None
            }
        }
    };
    let (mut generation, word) = generation(raw.generation.unwrap_or_default(), &Generation::default());
    let temperature = word.and_then(|word| {
        let answering = model.answering();
        let paper = |name: &str| temperature::of_model(name, answering.kind.as_str(), asked_for(answering));
        settle(&["generation"], &mut generation, chosen(word, Some(&model), &names, paper))
    });
    let for_judge = judge_generation(&names);
    let judge = raw.judge.map(|raw| {
        let (mut judge, word) = judge(raw, &Folders { above: &["judge"], ..folders }, &for_judge);
        judge.temperature = word.and_then(|word| {
            // Sections whose answers are not judged have no say.
            let mut with: Vec<&str> = names.clone();
            with.retain(|name| temperature::of_judge(name).is_some());
            let names = if with.is_empty() { &names } else { &with };
            let found = chosen(word, judge.model.as_ref(), names, temperature::of_judge);
            settle(&["judge", "generation"], &mut judge.generation, found)
        });
        judge
    });
    let greedy = generation.greedy();
    let run = run(path, raw.run.unwrap_or_default(), judged);
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(RunConfig {
        path: path.to_path_buf(),
        run,
        model,
        generation,
        temperature,
        judge,
        benchmarks: match judged {
            Some(run) if sections.is_empty() => run.benchmarks.clone(),
            _ => sections
                .into_iter()
                .enumerate()
                .map(|(index, raw)| benchmark(index, raw, &folders, greedy))
                .collect(),
        },
    })
}

/// A temperature that was given by a word.
type Settled = (Option<f64>, ChosenTemperature);

/// What a model is known by: the name that its server is asked for, or its architecture.
fn asked_for(model: &ModelConfig) -> &str {
    let endpoint = model.endpoint.as_ref().map(|endpoint| &*endpoint.model);
    endpoint.or_else(|| model.local.as_ref().map(|local| &*local.architecture)).unwrap_or(&model.name)
}

/// The name of a run whose configuration doesn't give one: that of the file.
pub(super) fn default_name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn run(path: &Path, raw: RawRun, judged: Option<&RunConfig>) -> RunSection {
    RunSection {
        name: raw.name.unwrap_or_else(|| default_name(path)),
        seed: raw.seed.unwrap_or_else(|| judged.map_or(DEFAULT_SEED, |run| run.run.seed)),
        results: PathBuf::from(raw.results.as_deref().unwrap_or("results")),
        note: raw.note,
    }
}

/// The longest clip in seconds where the configuration doesn't say it. Gemini documents 9.5 hours; the other
/// servers bound bytes and tokens, and a day stands for no bound.
fn longest(kind: ModelKind, architecture: &str) -> f64 {
    match kind {
        ModelKind::Local => {
            ARCHITECTURES.iter().find(|(name, _)| *name == architecture).map_or(30.0, |(_, seconds)| *seconds)
        }
        ModelKind::Gemini => 9.5 * 3600.0,
        ModelKind::OpenAi
        | ModelKind::Azure
        | ModelKind::Anthropic
        | ModelKind::Transcription
        | ModelKind::Cascade
        | ModelKind::Replay => 86_400.0,
    }
}

/// The address of a kind that is one provider's.
pub(super) fn public_address(kind: ModelKind) -> Option<&'static str> {
    match kind {
        ModelKind::OpenAi | ModelKind::Transcription => Some("https://api.openai.com/v1"),
        ModelKind::Gemini => Some("https://generativelanguage.googleapis.com"),
        ModelKind::Anthropic => Some("https://api.anthropic.com"),
        ModelKind::Local | ModelKind::Azure | ModelKind::Cascade | ModelKind::Replay => None,
    }
}

fn cascade(raw: &mut RawModel, folders: &Folders<'_>) -> Option<CascadeConfig> {
    let (asr, llm) = (raw.asr.take()?, raw.llm.take()?);
    let part = |part: &'static [&'static str]| Folders { model: part, ..*folders };
    Some(CascadeConfig {
        asr: model(*asr, &part(&["model", "asr"])),
        llm: model(*llm, &part(&["model", "llm"])),
        transcripts: transcripts(raw.transcripts.take().unwrap_or_default()),
    })
}

fn transcripts(raw: RawTranscripts) -> TranscriptsConfig {
    let language = raw.language.unwrap_or_default();
    let prompt = match language {
        AsrLanguage::Forced => FORCED_PROMPT,
        AsrLanguage::Auto => AUTO_PROMPT,
    };
    TranscriptsConfig {
        language,
        by: raw.by.unwrap_or_default(),
        prompt: raw.prompt.unwrap_or_else(|| prompt.to_owned()),
        max_new_tokens: raw.max_new_tokens.map_or(448, size),
    }
}

fn model(mut raw: RawModel, folders: &Folders<'_>) -> ModelConfig {
    let audio = raw.audio.take().unwrap_or_default();
    let image = image(&raw.image.take().unwrap_or_default());
    let architecture = raw.architecture.clone().unwrap_or_default();
    let config = AudioConfig {
        max_seconds: audio.max_seconds.unwrap_or_else(|| longest(raw.kind, &architecture)),
        window: audio.window.unwrap_or_default(),
        transcode: audio.transcode.unwrap_or_default(),
        rate: audio.rate.and_then(|rate| u32::try_from(rate).ok()).filter(|rate| *rate > 0),
    };
    let (kind, name, published_as) = (raw.kind, raw.name.take(), raw.published_as.take());
    let cascade = cascade(&mut raw, folders).map(Box::new);
    let (local, endpoint, replay) = match kind {
        ModelKind::Local => (Some(local(raw, architecture, folders)), None, None),
        ModelKind::Cascade => (None, None, None),
        ModelKind::Replay => (None, None, Some(replay(raw, folders))),
        _ => (None, Some(endpoint(raw, audio, folders)), None),
    };
    let of_cascade = |cascade: &CascadeConfig| format!("{} + {}", cascade.asr.name, cascade.llm.name);
    let name = name.unwrap_or_else(|| match (&local, &endpoint) {
        _ if replay.is_some() => {
            let first = replay.iter().flat_map(|replay| &replay.files).find_map(|file| file.file_stem());
            first.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
        }
        (Some(local), _) => {
            // `weights = "."` has no name to give.
            let folder = local.weights.file_name().unwrap_or(OsStr::new(&local.architecture));
            folder.to_string_lossy().into_owned()
        }
        (None, Some(endpoint)) => endpoint.model.clone(),
        (None, None) => cascade.as_deref().map(of_cascade).unwrap_or_default(),
    });
    ModelConfig { kind, name, audio: config, image, published_as, local, endpoint, replay, cascade }
}

fn replay(raw: RawModel, folders: &Folders<'_>) -> ReplayConfig {
    let file =
        |(at, text): (usize, &String)| folders.path(text, &["model".into(), "files".into(), at.into()]);
    ReplayConfig {
        files: raw.files.unwrap_or_default().iter().enumerate().map(file).collect(),
        preset: raw.preset,
        fields: raw.fields.unwrap_or_default(),
        match_by: raw.match_by,
    }
}

fn image(raw: &RawImage) -> ImageConfig {
    ImageConfig {
        max_side: raw.max_side.and_then(|side| u32::try_from(side).ok()),
        max_pixels: raw.max_pixels,
        format: raw.format.unwrap_or_default(),
        quality: raw.quality.and_then(|quality| u8::try_from(quality).ok()).unwrap_or(DEFAULT_QUALITY),
        orient: raw.orient.unwrap_or(false),
        alpha: raw.alpha.unwrap_or_default(),
        first_frame: raw.first_frame.unwrap_or(false),
        filter: raw.filter.unwrap_or_default(),
    }
}

fn local(raw: RawModel, architecture: String, folders: &Folders<'_>) -> LocalConfig {
    let weights = raw.weights.unwrap_or_default();
    LocalConfig {
        architecture,
        weights: folders.path(&weights, &folders.of_model(&["weights"])),
        hub: is_repo(&weights).then(|| HubWeights {
            repo: weights,
            revision: raw.revision.unwrap_or_else(|| "main".to_owned()),
            commit: None,
        }),
        device: raw.device.unwrap_or_else(|| "auto".to_owned()),
        dtype: raw.dtype.unwrap_or(RawDtype::Auto).as_str().to_owned(),
        batch_size: raw.batch_size.map_or(8, size),
        transcription: transcription(raw.transcription),
    }
}

fn transcription(raw: Option<RawTranscription>) -> TranscriptionConfig {
    let raw = raw.unwrap_or_default();
    TranscriptionConfig {
        language: raw.language,
        prompt: raw.prompt,
        text: raw.text.unwrap_or_default(),
        fallback: raw.fallback.unwrap_or(false),
        verbose: raw.verbose.unwrap_or(false),
    }
}

/// How a judge answers where the configuration does not say it: greedily, as most papers have it, but as CP-Bench's
/// paper has it where it judges nothing else. That one averages several draws.
fn judge_generation(benchmarks: &[&str]) -> Generation {
    let is = |names: &[&str]| benchmarks.iter().any(|benchmark| names.contains(benchmark));
    if is(&[CP_BENCH]) && !is(&["ccfqa", "simplevqa"]) {
        Generation { temperature: Some(1.0), max_new_tokens: 512, ..Generation::default() }
    } else {
        Generation::default()
    }
}

/// A judge, and the word that gives its temperature, where one does.
fn judge(
    raw: RawJudge,
    folders: &Folders<'_>,
    default: &Generation,
) -> (JudgeConfig, Option<TemperatureWord>) {
    let kind = raw.kind.unwrap_or_default();
    let mut model = raw.model.filter(|_| kind == JudgeKind::Model).map(|raw| model(raw, folders));
    // Its own section stands for that of its model.
    if let Some((raw, endpoint)) = raw.server.zip(model.as_mut().and_then(|model| model.endpoint.as_mut())) {
        endpoint.server = Some(server(raw, folders, &["server".into(), "folder".into()]));
    }
    let (generation, word) = generation(raw.generation.unwrap_or_default(), default);
    let judge = JudgeConfig {
        name: raw.name.unwrap_or_else(|| "judge".to_owned()),
        kind,
        runs: raw.runs.and_then(|runs| u32::try_from(runs).ok()),
        mode: raw.mode.unwrap_or_default(),
        rating: raw.rating.unwrap_or_default(),
        on_error: raw.on_error.unwrap_or_default(),
        retries: raw.retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(0),
        max_context: raw.max_context,
        tokenizer: raw.tokenizer.map(|text| folders.path(&text, &["tokenizer".into()])),
        prompt: raw.prompt.map(|text| folders.path(&text, &["prompt".into()])),
        model,
        generation,
        temperature: None,
    };
    (judge, word)
}

fn endpoint(raw: RawModel, audio: RawAudio, folders: &Folders<'_>) -> EndpointConfig {
    let public = || public_address(raw.kind).map(str::to_owned);
    let wire = raw.endpoint.unwrap_or_default();
    let flow = raw.flow.unwrap_or_default();
    let price = raw.price.unwrap_or_default();
    let rate = |number: Option<u64>| number.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    EndpointConfig {
        base_urls: raw
            .base_urls
            .or_else(|| raw.base_url.map(|url| vec![url]))
            .unwrap_or_else(|| public().into_iter().collect()),
        model: raw.model.unwrap_or_default(),
        api_key_env: raw.api_key_env,
        api_version: raw.api_version,
        revision: raw.revision,
        form: audio.form.unwrap_or_default(),
        formats: audio.formats,
        max_bytes: audio.max_bytes,
        wire: WireConfig {
            system_role: wire.system_role.unwrap_or_default(),
            max_tokens_field: wire.max_tokens_field.unwrap_or_default(),
            send: wire.send,
            stream: wire.stream.unwrap_or(false),
            completions: wire.completions.unwrap_or(false),
            image_detail: wire.image_detail,
            extra_body: wire.extra_body.unwrap_or_default(),
            headers: wire.headers.unwrap_or_default(),
            proxy: wire.proxy,
            ca_bundle: wire
                .ca_bundle
                .map(|text| folders.path(&text, &folders.of_model(&["endpoint", "ca_bundle"]))),
        },
        transcription: transcription(raw.transcription),
        flow: FlowConfig {
            concurrency: flow.concurrency.map_or(DEFAULT_CONCURRENCY, size),
            min_concurrency: flow.min_concurrency.map_or(1, size),
            adaptive: flow.adaptive.unwrap_or(true),
            rpm: rate(flow.rpm),
            tpm: rate(flow.tpm),
            timeout_seconds: flow.timeout_seconds.unwrap_or(300.0),
            deadline_seconds: flow.deadline_seconds.unwrap_or(1800.0),
            max_attempts: rate(flow.max_attempts).unwrap_or(30),
            delay_seconds: flow.delay_seconds.unwrap_or(0.5),
            max_delay_seconds: flow.max_delay_seconds.unwrap_or(30.0),
            patience_seconds: flow.patience_seconds.unwrap_or(600.0),
        },
        price: PriceConfig {
            input_per_million: price.input_per_million.unwrap_or(0.0),
            output_per_million: price.output_per_million.unwrap_or(0.0),
            max_cost: price.max_cost,
        },
        server: raw.server.map(|raw| server(raw, folders, &folders.of_model(&["server", "folder"]))),
    }
}

fn server(raw: RawServer, folders: &Folders<'_>, folder: &[Step]) -> ServerConfig {
    ServerConfig {
        command: raw.command,
        env: raw.env.unwrap_or_default(),
        folder: raw.folder.map(|text| folders.path(&text, folder)),
        ready_url: raw.ready_url,
        ready_seconds: raw.ready_seconds.unwrap_or(1800.0),
        stop_seconds: raw.stop_seconds.unwrap_or(30.0),
        restarts: raw.restarts.and_then(|number| u32::try_from(number).ok()).unwrap_or(2),
        reuse: raw.reuse.unwrap_or(false),
    }
}

/// How answers are generated, and the word that gives the temperature, where one does.
fn generation(raw: RawGeneration, default: &Generation) -> (Generation, Option<TemperatureWord>) {
    let (temperature, word) = match raw.temperature {
        None => (default.temperature, None),
        Some(RawTemperature::Number(number)) => (Some(number), None),
        Some(RawTemperature::Word(word)) => (None, Some(word)),
    };
    let generation = Generation {
        temperature,
        top_p: raw.top_p.unwrap_or(default.top_p),
        // -1 is how some servers write "off".
        top_k: raw.top_k.map_or(default.top_k, |k| usize::try_from(k).unwrap_or(0)),
        repetition_penalty: raw.repetition_penalty.unwrap_or(default.repetition_penalty),
        max_new_tokens: raw.max_new_tokens.map_or(default.max_new_tokens, size),
        stop: raw.stop.unwrap_or_else(|| default.stop.clone()),
    };
    (generation, word)
}

fn benchmark(index: usize, raw: RawBenchmark, folders: &Folders<'_>, greedy: bool) -> BenchmarkConfig {
    let path = |text: &str, key: &str| folders.path(text, &["benchmark".into(), index.into(), key.into()]);
    let data = path(&raw.data, "data");
    let is_belebele = raw.name == BELEBELE;
    let belebele = (is_belebele || raw.belebele.is_some()).then(|| {
        let key = |key: &'static str| ["benchmark".into(), index.into(), "belebele".into(), key.into()];
        belebele(
            raw.belebele.unwrap_or_default(),
            raw.shots.map_or(0, size),
            &data,
            &|text| folders.path(text, &key("shots_file")),
            greedy,
        )
    });
    BenchmarkConfig {
        label: raw.label.unwrap_or_else(|| raw.name.clone()),
        name: raw.name,
        data,
        media: raw.media.map(|text| path(&text, "media")),
        conditions: raw.conditions.unwrap_or_default(),
        languages: raw.languages.unwrap_or_default(),
        profile: raw.profile.unwrap_or(if is_belebele { Profile::Recipe } else { Profile::default() }),
        limit: raw.limit,
        limit_by: raw.limit_by.unwrap_or_default(),
        prompt: match Wording::from(raw.prompt) {
            Wording::File(file) => Wording::File(path(&file.to_string_lossy(), "prompt")),
            word => word,
        },
        allow_other_data: raw.allow_other_data.unwrap_or(false),
        strip_output: raw.strip_output.unwrap_or(true),
        metrics: raw.metrics.unwrap_or_default(),
        windows: raw.windows.unwrap_or_default(),
        max_candidates: raw.max_candidates,
        shots: raw.shots.unwrap_or(0),
        fields: raw.fields.unwrap_or_default(),
        system: raw.system,
        variant: raw.variant,
        categories_file: raw.categories.map(|text| path(&text, "categories")),
        categories: None,
        belebele,
    }
}

/// The benchmark whose judge draws.
pub(super) const CP_BENCH: &str = "cp-bench";

/// The benchmark whose keys stand in a section of their own.
const BELEBELE: &str = "2m-belebele";

fn belebele(
    raw: RawBelebele,
    shots: usize,
    data: &Path,
    path: &dyn Fn(&str) -> PathBuf,
    greedy: bool,
) -> BelebeleConfig {
    let folder = if data.is_dir() { data } else { data.parent().unwrap_or(Path::new("")) };
    let speaker = raw.speaker.unwrap_or_default();
    BelebeleConfig {
        shots,
        shots_file: raw
            .shots_file
            .map_or_else(|| folder.join("belebele_training_set.tsv"), |text| path(&text)),
        shots_as: raw.shots_as.unwrap_or_default(),
        seeds: raw.seeds.unwrap_or_else(|| vec![0, 1, 2]),
        template: raw.template.unwrap_or_default(),
        speaker,
        gap_ms: raw.gap_ms.and_then(|gap| u32::try_from(gap).ok()).unwrap_or(0),
        missing: raw.missing.unwrap_or_default(),
        strip_prefix: raw.strip_prefix.unwrap_or(false),
        deterministic: greedy && shots == 0 && speaker == Speaker::First,
    }
}

/// A size that the check has bounded.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What relative paths are relative to.
struct Folders<'a> {
    /// The folder of the configuration file.
    file: &'a Path,
    locator: &'a Locator,
    /// The sections above the keys that are asked for.
    above: &'a [&'static str],
    /// The section of the model, below these.
    model: &'a [&'static str],
}

impl Folders<'_> {
    /// The place of a key of the model's section.
    fn of_model(&self, key: &[&'static str]) -> Vec<Step> {
        self.model.iter().chain(key).map(|key| Step::from(*key)).collect()
    }

    /// A path that is written in the file is relative to the file, one from the command line to the current
    /// folder.
    fn path(&self, text: &str, key: &[Step]) -> PathBuf {
        let above: Vec<Step> = self.above.iter().map(|key| Step::from(*key)).collect();
        let node = above.iter().chain(key).try_fold(&self.locator.root, Node::get);
        let in_file = node.is_none_or(|node| node.source == 0);
        let path = Path::new(text);
        if in_file { shorten(&self.file.join(path)) } else { path.to_path_buf() }
    }
}

/// Takes `.` and `folder/..` out of a path, the latter only where the folder is known not to be a link: then
/// the path means the same.
fn shorten(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(short.components().next_back(), Some(Component::Normal(_)))
                    && short.symlink_metadata().is_ok_and(|found| found.is_dir()) =>
            {
                short.pop();
            }
            other => short.push(other),
        }
    }
    if short.as_os_str().is_empty() { PathBuf::from(".") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shortened_only_where_they_mean_the_same() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        assert_eq!(shorten(&root.join("real/./inner/../x")), root.join("real/x"));
        assert_eq!(shorten(&root.join("missing/../x")), root.join("missing/../x"));
        assert_eq!(shorten(Path::new("../x")), Path::new("../x"));
        assert_eq!(shorten(Path::new("./")), Path::new("."));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.join("real/inner"), root.join("link")).unwrap();
            assert_eq!(shorten(&root.join("link/../x")), root.join("link/../x"));
        }
    }
}
