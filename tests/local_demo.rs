//! The trained demo model against what the reference implementation answered: prompts, tokens and texts.
//!
//! Reads `../shared/demo`, which is not part of the repository, and says so where it is absent.
#![cfg(feature = "local")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says why it skips"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use harness::media::audio::mel::MelExtractor;
use harness::media::audio::{DecodeSpec, decode_file};
use harness::model::Prepared;
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::qwen2_audio::Qwen2Audio;
use harness::prompt::sha256_hex;
use harness::types::{
    AudioContent, AudioRef, Digest, Generation, Message, Part, PreparedAudio, Prompt, Role, Window,
};
use serde_json::Value;

const LANGUAGES: [(&str, &str); 8] = [
    ("cmn", "Chinese"),
    ("eng", "English"),
    ("fra", "French"),
    ("jpn", "Japanese"),
    ("kor", "Korean"),
    ("rus", "Russian"),
    ("spa", "Spanish"),
    ("yue", "Traditional Chinese"),
];

fn demo() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/demo");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is not there", folder.display());
    None
}

fn load(folder: &Path) -> Qwen2Audio {
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    Qwen2Audio::load(&folder.join("model"), DtypeChoice::F32, &device).unwrap()
}

fn expected(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn clip(path: &Path, window: Window) -> PreparedAudio {
    let clip = decode_file(path, &DecodeSpec { rate: 16_000, window, max_seconds: 30.0 }).unwrap();
    let features = MelExtractor::new(128).unwrap().compute(&clip.samples).unwrap();
    PreparedAudio { digest: clip.digest, content: AudioContent::Features(Arc::new(features)) }
}

fn request(system: &str, user: String, audio: Option<&PreparedAudio>) -> Prepared {
    let mut parts = vec![Part::Text(user)];
    if audio.is_some() {
        parts.insert(0, Part::Audio(AudioRef { name: "clip".to_owned(), window: Window::Whole }));
    }
    Prepared {
        key: Digest::of(b"key"),
        prompt: Prompt::Chat(vec![Message::text(Role::System, system), Message { role: Role::User, parts }]),
        audio: audio.cloned().into_iter().collect(),
        images: Vec::new(),
        generation: Generation { max_new_tokens: 24, ..Generation::default() },
        seed: 0,
        exact_seed: false,
    }
}

/// Whether an answer is the expected one. Where two tokens are closer than `least_gap` another order of summation may
/// pick the other.
fn check(model: &mut Qwen2Audio, requests: &[Prepared], expected: &[&Value], least_gap: f64) -> usize {
    let mut different = 0;
    for (answer, expected) in model.answer(requests, false).unwrap().into_iter().zip(expected) {
        let (prompt, generated) = answer.unwrap();
        let joined = prompt.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(sha256_hex(&joined), expected["prompt_ids_sha256"].as_str().unwrap());
        assert_eq!(prompt.audio_tokens() as u64, expected["audio_tokens"].as_u64().unwrap());
        let ids: Vec<u64> = generated.ids.iter().map(|&id| u64::from(id)).collect();
        let wanted: Vec<u64> =
            expected["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        if ids == wanted {
            assert_eq!(generated.text, expected["text"].as_str().unwrap());
        } else {
            assert!(expected["min_gap"].as_f64().unwrap() < least_gap, "{expected}: {generated:?}");
            different += 1;
        }
    }
    different
}

fn ccfqa(set: &str, data: &str, least_gap: f64) {
    let Some(folder) = demo() else { return };
    let mut model = load(&folder);
    let expected = expected(&folder);
    let mut answers = expected[set].as_array().unwrap().iter();
    let (mut count, mut different) = (0, 0);
    for row in lines(&folder.join(data).join("test.jsonl")) {
        for (source, source_name) in LANGUAGES {
            let path = folder.join(data).join(row[source]["audio"].as_str().unwrap());
            let audio = clip(&path, Window::Whole);
            let requests: Vec<Prepared> = LANGUAGES
                .iter()
                .map(|(_, target)| {
                    let user = format!("The question is spoken in {source_name}. Answer it in {target}.");
                    request(
                        "You answer spoken questions. Reply with the answer alone: a name, a place, a number or a date. \
                         Do not explain and do not repeat the question.",
                        user,
                        Some(&audio),
                    )
                })
                .collect();
            let expected: Vec<&Value> = answers.by_ref().take(8).collect();
            different += check(&mut model, &requests, &expected, least_gap);
            count += 8;
        }
    }
    assert_eq!(count, 384);
    assert_eq!(model.encoded_clips(), 48);
    println!("{set}: {different} of {count} differ");
}

#[test]
fn ccfqa_speech() {
    ccfqa("ccfqa_speech", "ccfqa", 0.0);
}

#[test]
fn ccfqa_speech_hard() {
    ccfqa("ccfqa_speech_hard", "ccfqa-hard", 0.005);
}

#[test]
fn cp_bench_windows() {
    let Some(folder) = demo() else { return };
    let mut model = load(&folder);
    let expected = expected(&folder);
    let rows = lines(&folder.join("cp-bench/manifest.jsonl"));
    for (row, expected) in rows.iter().zip(expected["cp_bench"].as_array().unwrap()) {
        let path = folder.join("cp-bench").join(row["audio"].as_str().unwrap());
        let question = row["question"].as_str().unwrap();
        for (name, expected) in expected["windows"].as_object().unwrap() {
            let window = match name.as_str() {
                "first" => Window::First,
                "last" => Window::Last,
                _ => Window::Whole,
            };
            let request =
                request("You are a helpful assistant.", question.to_owned(), Some(&clip(&path, window)));
            assert_eq!(check(&mut model, &[request], &[expected], 0.0), 0);
        }
    }
}

#[test]
fn text_facts() {
    let Some(folder) = demo() else { return };
    let mut model = load(&folder);
    let expected = expected(&folder);
    let rows: Vec<&Value> = expected["text_facts"].as_array().unwrap().iter().collect();
    let requests: Vec<Prepared> = rows
        .iter()
        .map(|row| {
            request("You are a helpful assistant.", row["question"].as_str().unwrap().to_owned(), None)
        })
        .collect();
    assert_eq!(check(&mut model, &requests, &rows, 0.0), 0);
}
