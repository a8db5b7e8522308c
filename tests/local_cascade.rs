//! Published models, real and small: a spoken question through Whisper base, and its words to `SmolLM2`.
//!
//! `scripts/fetch_test_models.sh` gets them; then `cargo test --release --test local_cascade -- --ignored`.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use harness::media::audio::mel::MelExtractor;
use harness::media::audio::windows::cut;
use harness::media::audio::{DecodeSpec, decode_file};
use harness::model::Prepared;
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::text::TextModel;
use harness::model::local::whisper::{Settings, Speech, Task, Whisper};
use harness::types::{Digest, Generation, LogMel, Message, Prompt, Role, Window};

const QUESTION: &str = "What is the capital of France?";

/// A file or folder among the test models.
fn models(name: &str) -> PathBuf {
    let folder = std::env::var_os("HARNESS_TEST_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-models"), PathBuf::from);
    let path = folder.join(name);
    assert!(path.exists(), "{} is missing: run scripts/fetch_test_models.sh", path.display());
    path
}

fn windows(path: &Path, bins: usize) -> Vec<LogMel> {
    let spec = DecodeSpec { rate: 16_000, window: Window::Whole, max_seconds: 60.0 };
    let samples = decode_file(path, &spec).unwrap().samples;
    let extractor = MelExtractor::new(bins).unwrap();
    cut(&samples).into_iter().map(|part| extractor.compute(part).unwrap()).collect()
}

#[test]
#[ignore = "needs models that scripts/fetch_test_models.sh gets"]
fn a_spoken_question_is_answered() {
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    let whisper = Whisper::load(&models("whisper-base"), DtypeChoice::Auto, &device).unwrap();
    // Spoken by espeak-ng: the clip of the fixtures, and the one that the script made, if it could.
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/audio/q_capital_16k.wav");
    let made = models("").join("question.wav");
    for path in [fixture, made].iter().filter(|path| path.exists()) {
        let windows = windows(path, whisper.bins());
        let clip = |language| Speech { windows: &windows, language, task: Task::Transcribe };
        let found = whisper.transcribe(&[clip(Some("en")), clip(None)], &Settings::default()).unwrap();
        for transcript in found {
            let transcript = transcript.unwrap();
            assert_eq!(
                (transcript.text.as_str(), transcript.language.as_str()),
                (QUESTION, "en"),
                "{}",
                path.display()
            );
            assert!(transcript.windows[0].ended && transcript.windows[0].no_speech < 0.5);
        }
    }

    let path = models("smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf");
    let llm = TextModel::load(&path, DtypeChoice::Auto, &device).unwrap();
    let request = Prepared {
        key: Digest::of(QUESTION.as_bytes()),
        prompt: Prompt::Chat(vec![Message::text(Role::User, QUESTION)]),
        audio: Vec::new(),
        images: Vec::new(),
        generation: Generation { max_new_tokens: 48, ..Generation::default() },
        seed: 1,
    };
    // What transformers has for the same prompt.
    let ids = llm.prompt_ids(&request.prompt).unwrap();
    assert_eq!(llm.tokenizer().decode(&ids).unwrap().matches(QUESTION).count(), 1);
    let (_, answer) = llm.answer(std::slice::from_ref(&request), false).unwrap().remove(0).unwrap();
    assert_eq!(answer.text, "The capital of France is Paris.");
}
