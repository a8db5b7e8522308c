//! The local Whisper against the reference implementation: transformers 5.24.0 in f32, on a small random checkpoint.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use harness::media::audio::mel::MelExtractor;
use harness::media::audio::windows::cut;
use harness::media::audio::{DecodeSpec, decode_file};
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::whisper::{Fallback, Settings, Speech, Task, Whisper};
use harness::model::local::{LocalModel, LocalSpec, SpeechSpec, check};
use harness::model::{AudioNeed, Model, Prepared};
use harness::types::{
    AudioContent, AudioRef, Digest, Generation, LogMel, Message, Outcome, Part, PreparedAudio, Prompt, Role,
    Window,
};
use serde_json::Value;

const CLIPS: [&str; 3] = ["tone3_16k.wav", "tone30_16k.flac", "q_capital_16k.wav"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn folder() -> PathBuf {
    fixtures().join("local/whisper")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixtures().join("local").join(name)).unwrap()).unwrap()
}

fn model() -> Whisper {
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    Whisper::load(&folder(), DtypeChoice::F32, &device).unwrap()
}

fn samples(name: &str) -> Vec<f32> {
    let spec = DecodeSpec { rate: 16_000, window: Window::Whole, max_seconds: 60.0 };
    decode_file(&fixtures().join("audio").join(name), &spec).unwrap().samples
}

fn features(name: &str) -> LogMel {
    MelExtractor::new(80).unwrap().compute(&samples(name)).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[track_caller]
fn assert_close(found: &[f32], expected: &Value, what: &str) {
    let expected = expected.as_array().unwrap();
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let expected = expected.as_f64().unwrap();
        assert!(
            (f64::from(*found) - expected).abs() < 1e-4,
            "{what}[{index}]: {found} instead of {expected}"
        );
    }
    assert!(found.len() >= expected.len());
}

fn norm(values: impl IntoIterator<Item = f32>) -> f64 {
    values.into_iter().map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn encoder_and_logits_equal_the_reference() {
    let (model, reference) = (model(), json("whisper_ref.json"));
    let windows: Vec<LogMel> = CLIPS.iter().map(|name| features(name)).collect();
    let heard = model.audio_vectors(&windows).unwrap();
    for ((name, heard), window) in CLIPS.iter().zip(&heard).zip(&windows) {
        let case = &reference[*name];
        assert_eq!(heard.len(), 1500);
        assert_close(&heard[0], &case["enc_t0_first8"], name);
        assert_close(&heard[100], &case["enc_t100_first8"], name);
        let found = norm(heard.iter().flatten().copied());
        assert!((found - case["enc_norm"].as_f64().unwrap()).abs() < 1e-3, "{name}: {found}");
        let prompt = ids(&case["prompt_ids"]);
        let logits = model.logits(window, &prompt).unwrap();
        let last = logits.last().unwrap();
        assert_close(&last[..32], &case["prefill_last_logits_first32"], name);
        let found = norm(last.iter().copied());
        assert!((found - case["prefill_last_logits_norm"].as_f64().unwrap()).abs() < 1e-3, "{name}: {found}");
        let best =
            |logits: &Vec<f32>| (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        assert_eq!(
            logits.iter().map(|l| best(l) as u32).collect::<Vec<_>>(),
            ids(&case["prefill_argmax"]),
            "{name}"
        );
        // Greedy tokens without any rule.
        let mut sequence = prompt.clone();
        let expected = ids(&case["greedy24_no_suppress"]);
        sequence.extend(&expected);
        let all = model.logits(window, &sequence).unwrap();
        let greedy: Vec<u32> =
            all[prompt.len() - 1..sequence.len() - 1].iter().map(|l| best(l) as u32).collect();
        assert_eq!(greedy, expected, "{name}");
    }
}

fn speech<'a>(windows: &'a [LogMel], language: Option<&'a str>, task: Task) -> Speech<'a> {
    Speech { windows, language, task }
}

/// The rules of `generate()` over the logits of the reference: suppressed tokens, the language given or found, both tasks; in one batch and alone.
#[test]
fn transcripts_equal_the_reference_in_a_batch_and_alone() {
    let (model, reference) = (model(), json("whisper_generate.json"));
    let windows: Vec<LogMel> = CLIPS.iter().map(|name| features(name)).collect();
    let mut clips = Vec::new();
    let mut expected = Vec::new();
    for (name, window) in CLIPS.iter().zip(&windows) {
        let windows = std::slice::from_ref(window);
        let detected =
            reference[*name]["detected"].as_str().unwrap().trim_matches(['<', '|', '>']).to_owned();
        for (key, language, task) in [
            ("auto", None, Task::Transcribe),
            ("zh", Some("zh"), Task::Transcribe),
            ("de_translate", Some("de"), Task::Translate),
        ] {
            clips.push(speech(windows, language, task));
            expected.push((
                ids(&reference[*name][key]["tokens"]),
                language.map_or(detected.clone(), str::to_owned),
            ));
        }
    }
    let settings = Settings { max_tokens: 20, ..Settings::default() };
    let together = model.transcribe(&clips, &settings).unwrap();
    for ((clip, together), (tokens, language)) in clips.iter().zip(&together).zip(&expected) {
        let together = together.as_ref().unwrap();
        let window = &together.windows[0];
        assert_eq!(&window.tokens[window.control_tokens..], &tokens[..]);
        assert_eq!((&together.language, window.control_tokens), (language, 4));
        assert!(window.mean_logprob < 0.0 && window.no_speech > 0.0 && window.temperature == 0.0);
        let alone = model.transcribe(std::slice::from_ref(clip), &settings).unwrap().remove(0).unwrap();
        assert_eq!((&alone.tokens, &alone.text), (&together.tokens, &together.text));
        assert!((alone.windows[0].mean_logprob - window.mean_logprob).abs() < 1e-4);
    }
}

/// Windows of a long clip are heard each by itself, with the language of the first.
#[test]
fn a_long_clip_is_its_windows_one_behind_the_other() {
    let model = model();
    let long = samples("tone47_16k.flac");
    let extractor = MelExtractor::new(80).unwrap();
    let windows: Vec<LogMel> = cut(&long).into_iter().map(|part| extractor.compute(part).unwrap()).collect();
    assert_eq!(windows.len(), 2);
    let settings = Settings { max_tokens: 6, ..Settings::default() };
    let whole =
        model.transcribe(&[speech(&windows, None, Task::Transcribe)], &settings).unwrap().remove(0).unwrap();
    assert_eq!(whole.windows.len(), 2);
    let language = whole.language.clone();
    let text: String = whole.windows.iter().map(|window| window.text.as_str()).collect();
    assert_eq!(whole.text, text.trim());
    for (window, found) in windows.iter().zip(&whole.windows) {
        let alone = speech(std::slice::from_ref(window), Some(&language), Task::Transcribe);
        let alone = model.transcribe(&[alone], &settings).unwrap().remove(0).unwrap();
        assert_eq!((&alone.windows[0].tokens, &alone.windows[0].text), (&found.tokens, &found.text));
    }
    assert_eq!(
        whole.tokens.iter().filter(|&&id| Some(id) == model.token_id("<|startoftranscript|>")).count(),
        2
    );
}

/// A random model is never sure of itself, so that every rule of the fallback can be seen.
#[test]
fn the_fallback_tries_again_and_repeats_itself() {
    let model = model();
    let window = [features("q_capital_16k.wav")];
    let clip = speech(&window, Some("en"), Task::Transcribe);
    let strict = Fallback { max_compression_ratio: 0.0, min_mean_logprob: 0.0, max_no_speech: 1.0 };
    let settings = Settings { max_tokens: 12, fallback: Some(strict), ..Settings::default() };
    let tried = model.transcribe(&[clip, clip], &settings).unwrap();
    let first = tried[0].as_ref().unwrap();
    assert_eq!(first.windows[0].temperature, 1.0);
    assert_eq!(first.tokens, tried[1].as_ref().unwrap().tokens, "the same seed and key draw the same");
    let silent = Fallback { max_no_speech: -1.0, ..strict };
    let settings = Settings { fallback: Some(silent), ..settings };
    let found = model.transcribe(&[clip], &settings).unwrap().remove(0).unwrap();
    assert_eq!((found.text.as_str(), found.windows[0].temperature), ("", 0.0));
    let lenient = Fallback { max_compression_ratio: 1e9, min_mean_logprob: -1e9, max_no_speech: 1.0 };
    let settings = Settings { fallback: Some(lenient), ..settings };
    let found = model.transcribe(&[clip], &settings).unwrap();
    let plain = model.transcribe(&[clip], &Settings { fallback: None, ..settings }).unwrap();
    assert_eq!(found, plain);
}

#[test]
fn clips_that_are_wrong_fail_alone() {
    let model = model();
    let window = [features("tone3_16k.wav")];
    let settings = Settings { max_tokens: 2, ..Settings::default() };
    let clips = [
        speech(&window, Some("xx"), Task::Transcribe),
        speech(&[], None, Task::Transcribe),
        speech(&window, Some("de"), Task::Transcribe),
    ];
    let found = model.transcribe(&clips, &settings).unwrap();
    assert!(
        found[0].as_ref().unwrap_err().contains("no language `xx`; it knows de, en, zh"),
        "{:?}",
        found[0]
    );
    assert!(found[1].as_ref().unwrap_err().contains("no windows"));
    assert_eq!(found[2].as_ref().unwrap().language, "de");
    assert_eq!(model.languages().collect::<Vec<_>>(), ["de", "en", "zh"]);
}

fn spec(speech: SpeechSpec) -> LocalSpec {
    LocalSpec {
        dir: folder(),
        architecture: "whisper".to_owned(),
        device: "cpu".to_owned(),
        dtype: "auto".to_owned(),
        batch_size: 4,
        max_seconds: 60.0,
        name: "tiny".to_owned(),
        speech,
    }
}

#[test]
fn whisper_is_a_local_model() {
    let inventory = check(&folder()).unwrap();
    assert_eq!((inventory.architecture.as_str(), inventory.bins), ("whisper", Some(80)));
    assert_eq!((inventory.vocabulary, inventory.max_positions), (2012, 448));
    let told = SpeechSpec { language: Some("zh".to_owned()), ..SpeechSpec::default() };
    let model = LocalModel::load(&spec(told)).unwrap();
    assert_eq!(model.identity().model, "whisper, language zh");
    assert_eq!(model.accepts().audio, AudioNeed::LogMelWindows { bins: 80 });
    assert_eq!(model.accepts().max_seconds, 60.0);

    let reference = json("whisper_generate.json");
    let audio = || Part::Audio(AudioRef { name: "a.wav".to_owned(), window: Window::Whole });
    let chat = |parts: Vec<Part>| Prompt::Chat(vec![Message { role: Role::User, parts }]);
    let raw = |text: &str| Prompt::Raw {
        text: text.to_owned(),
        audio: vec![AudioRef { name: "a.wav".to_owned(), window: Window::Whole }],
    };
    let clip = PreparedAudio {
        digest: Digest::of(b"q"),
        content: AudioContent::Windows(vec![features("q_capital_16k.wav")].into()),
    };
    let one = PreparedAudio {
        digest: Digest::of(b"q"),
        content: AudioContent::Features(Arc::new(features("q_capital_16k.wav"))),
    };
    let request = |prompt: Prompt, audio: Vec<PreparedAudio>| Prepared {
        key: Digest::of(b"k"),
        prompt,
        audio,
        images: Vec::new(),
        generation: Generation { max_new_tokens: 20, ..Generation::default() },
        seed: 1,
        exact_seed: false,
    };
    let control = "<|startoftranscript|><|de|><|translate|><|notimestamps|>";
    let requests = vec![
        request(chat(vec![audio()]), vec![clip.clone()]),
        request(raw(control), vec![one]),
        request(chat(vec![audio(), Part::Text("What is said?".to_owned())]), vec![clip.clone()]),
        request(raw("What is said?"), vec![clip.clone()]),
        request(chat(vec![audio(), audio()]), vec![clip.clone(), clip.clone()]),
        request(chat(vec![Part::Text("Hello".to_owned())]), Vec::new()),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = runtime.block_on(model.answer(requests));
    for (answer, key) in answers.iter().zip(["zh", "de_translate"]) {
        let expected = ids(&reference["q_capital_16k.wav"][key]["tokens"]);
        assert_eq!(answer.tokens.as_ref().unwrap()[4..], expected[..], "{key}");
        assert!(matches!(answer.outcome, Outcome::Length | Outcome::Ok | Outcome::Empty), "{answer:?}");
        assert_eq!(answer.usage.prompt_tokens, 4);
        assert_eq!(answer.usage.completion_tokens as usize, expected.len());
        assert_eq!(answer.language, None, "{key}: what was told was not heard");
    }
    // Told nothing, it names the language that it heard.
    let untold = LocalModel::load(&spec(SpeechSpec::default())).unwrap();
    let heard = runtime.block_on(untold.answer(vec![request(chat(vec![audio()]), vec![clip])]));
    let detected = reference["q_capital_16k.wav"]["detected"].as_str().unwrap();
    assert_eq!(heard[0].language.as_deref(), Some(detected.trim_matches(['<', '|', '>'])));
    for (answer, part) in answers[2..].iter().zip([
        "takes a clip and no text",
        "made of control tokens",
        "one clip, not 2",
        "one clip, not 0",
    ]) {
        assert!(answer.error.as_ref().unwrap().contains(part), "{answer:?}");
    }
    let wrong = SpeechSpec { language: Some("fr".to_owned()), ..SpeechSpec::default() };
    let error = LocalModel::load(&spec(wrong)).unwrap_err();
    assert!(error.key() == "transcription" && error.to_string().contains("no language `fr`"), "{error}");
}
