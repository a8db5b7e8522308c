//! Cascades of local models: with small random checkpoints through the binary, and with published models, real and small,
//! a spoken question through Whisper base and its words to `SmolLM2`.
//!
//! `scripts/fetch_test_models.sh` gets the latter; then `cargo test --release --test local_cascade -- --ignored`.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};

use common::{Place, finish, journaled, root};
use harness::media::audio::mel::MelExtractor;
use harness::media::audio::windows::cut;
use harness::media::audio::{DecodeSpec, decode_file};
use harness::model::Prepared;
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::text::TextModel;
use harness::model::local::whisper::{Settings, Speech, Task, Whisper};
use harness::types::{Digest, Generation, LogMel, Message, Prompt, Role, Window};
use serde_json::{Value, json};

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
    let request = written(QUESTION, 48);
    // What transformers has for the same prompt.
    let ids = llm.prompt_ids(&request.prompt).unwrap();
    assert_eq!(llm.tokenizer().decode(&ids).unwrap().matches(QUESTION).count(), 1);
    let (_, answer) = llm.answer(std::slice::from_ref(&request), false).unwrap().remove(0).unwrap();
    assert_eq!(answer.text, "The capital of France is Paris.");
}

/// A question in words.
fn written(text: &str, max_new_tokens: usize) -> Prepared {
    Prepared {
        key: Digest::of(text.as_bytes()),
        prompt: Prompt::Chat(vec![Message::text(Role::User, text)]),
        audio: Vec::new(),
        images: Vec::new(),
        generation: Generation { max_new_tokens, ..Generation::default() },
        seed: 1,
        exact_seed: false,
    }
}

/// The config of a cascade of two local models.
fn cascade(place: &Place, whisper: &Path, llm: (&str, &Path), max_new_tokens: usize, benchmark: &str) {
    let config = format!(
        "[model]\nkind = \"cascade\"\nname = \"both\"\n\n\
         [model.asr]\nkind = \"local\"\narchitecture = \"whisper\"\nweights = \"{}\"\ndevice = \"cpu\"\n\n\
         [model.llm]\nkind = \"local\"\narchitecture = \"{}\"\nweights = \"{}\"\ndevice = \"cpu\"\n\n\
         [generation]\nmax_new_tokens = {max_new_tokens}\n\n[[benchmark]]\n{benchmark}",
        whisper.display(),
        llm.0,
        llm.1.display()
    );
    std::fs::write(place.path("c.toml"), config).unwrap();
}

/// The random Whisper of the fixtures, made to end: it never writes its own last token.
fn whisper_that_ends(place: &Place) -> PathBuf {
    let (from, to) = (root().join("tests/fixtures/local/whisper"), place.path("whisper"));
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        std::fs::copy(&path, to.join(name)).unwrap();
        if name == "config.json" || name == "generation_config.json" {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut config: Value = serde_json::from_str(&text).unwrap();
            config["eos_token_id"] = json!(596);
            std::fs::write(to.join(name), config.to_string()).unwrap();
        }
    }
    to
}

fn row(number: usize, passage: &str, clips: &[&str]) -> String {
    let sentences: Vec<Value> = clips
        .iter()
        .map(|clip| json!({"text": format!("Said in {clip}."), "segments": [{"audio": clip}]}))
        .collect();
    let row = json!({"dialect": "deu_Latn", "link": "https://example.org", "question_number": number,
        "flores_passage": passage, "question": format!("Question {number}?"), "mc_answer1": "a", "mc_answer2": "b",
        "mc_answer3": "c", "mc_answer4": "d", "correct_answer_num": "1", "sentences": sentences});
    format!("{row}\n")
}

/// Both models in this process, one after the other: what the first one writes is what the second one reads.
#[test]
fn a_wholly_local_cascade_runs_through_the_binary() {
    let rows =
        row(1, "One.", &["q.wav"]) + &row(2, "One.", &["q.wav"]) + &row(1, "Two.", &["same.wav", "q.wav"]);
    let place = Place::new(&rows);
    let clip = root().join("tests/fixtures/audio/q_capital_16k.wav");
    for name in ["q.wav", "same.wav"] {
        std::fs::copy(&clip, place.path(name)).unwrap();
    }
    let whisper = whisper_that_ends(&place);
    let llm = root().join("tests/fixtures/text/llama");
    let benchmark =
        "name = \"2m-belebele\"\ndata = \"rows.jsonl\"\nallow_other_data = true\nconditions = [\"speech\"]\n";
    cascade(&place, &whisper, ("llama", &llm), 8, benchmark);
    finish(&mut place.command("check", &[])).exits_with(0).prints("2, ").prints("all is well");
    place.run(&[]).exits_with(0).prints("transcripts against the text").says("2 clips");

    // The same sound is heard once, whatever it is called.
    let folder =
        std::fs::read_dir(place.path("results/transcripts")).unwrap().next().unwrap().unwrap().path();
    let heard = journaled(&folder.join("responses.jsonl"));
    assert_eq!(heard.len(), 2);
    assert_eq!(heard.iter().filter(|line| line["reused_from"].is_null()).count(), 1, "{heard:?}");
    assert_eq!(heard[0]["outcome"], "ok", "{heard:?}");
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    let model = Whisper::load(&whisper, DtypeChoice::Auto, &device).unwrap();
    let windows = windows(&clip, model.bins());
    let speech = Speech { windows: &windows, language: Some("de"), task: Task::Transcribe };
    let expected = model.transcribe(&[speech], &Settings::default()).unwrap().remove(0).unwrap().text;
    assert!(!expected.is_empty());
    assert_eq!(heard[0]["text"], expected.as_str());

    let llm = TextModel::load(&llm, DtypeChoice::Auto, &device).unwrap();
    let kept = journaled(&place.result("transcripts.jsonl"));
    assert_eq!((kept.len(), kept[0]["told"].as_str()), (2, Some("de")));
    let responses = place.responses();
    assert_eq!(responses.len(), 3);
    let template = "Given the following passage, query, and answer choices, output the letter corresponding to the \
                    correct answer. Do not write any explanation. Only output the letter within A, B, C, or D that \
                    corresponds to the correct answer.\n###\nPassage:\n{passage}\n###\nQuery:\nQuestion {number}?\n###\nChoices:\n\
                    (A) a\n(B) b\n(C) c\n(D) d\n###\nAnswer:\n";
    let two = format!("{expected} {expected}");
    for (passage, number) in [(&expected, "1"), (&expected, "2"), (&two, "1")] {
        let text = template.replace("{passage}", passage).replace("{number}", number);
        let (_, answer) = llm.answer(&[written(&text, 8)], false).unwrap().remove(0).unwrap();
        let found = responses.iter().any(|line| line["text"] == answer.text.as_str());
        assert!(found, "{text}\n{}\n{responses:#?}", answer.text);
    }

    // Another name, the same transcripts: the recogniser is not even loaded.
    let again = place.run(&["--name", "again"]).exits_with(0).says("2 clips, 2 of them transcribed");
    assert_eq!(again.stderr.matches("loading").count(), 1, "{}", again.stderr);
}

/// Which models can be what is said at their line, before anything is loaded.
#[test]
fn what_cannot_hear_is_no_recogniser_and_what_only_hears_answers_nothing() {
    let place = Place::new("");
    let (whisper, llm) =
        (root().join("tests/fixtures/local/whisper"), root().join("tests/fixtures/text/llama"));
    let benchmark = "name = \"2m-belebele\"\ndata = \"rows.jsonl\"\n";
    cascade(&place, &llm, ("llama", &llm), 8, benchmark);
    place.edit("\"whisper\"", "\"llama\"");
    place.run(&[]).exits_with(2).says("`llama` hears nothing").says("c.toml:7:");
    cascade(&place, &whisper, ("whisper", &whisper), 8, benchmark);
    place.run(&[]).exits_with(2).says("`whisper` answers no questions").says("[model.asr]");
    // A folder that is not there is said of the part that names it.
    cascade(&place, &place.path("nowhere"), ("llama", &llm), 8, benchmark);
    place.run(&[]).exits_with(3).says("c.toml:8:").says("nowhere");
}

/// The same by the binary: a spoken question of a user's own, answered by its transcript.
#[test]
#[ignore = "needs models that scripts/fetch_test_models.sh gets"]
fn a_spoken_question_is_answered_through_the_binary() {
    let place = Place::new(
        "{\"id\": \"1\", \"audio\": \"q_capital_16k.wav\", \"reference\": \"Paris\", \"language\": \"eng\"}\n",
    );
    let media = root().join("tests/fixtures/audio");
    let benchmark = format!(
        "name = \"manifest\"\ndata = \"rows.jsonl\"\nmedia = \"{}\"\nmetrics = [\"contains\"]\n",
        media.display()
    );
    let llm = models("smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf");
    cascade(&place, &models("whisper-base"), ("llama", &llm), 48, &benchmark);
    place.run(&[]).exits_with(0).says("1 clips");
    let kept = journaled(&place.result("transcripts.jsonl"));
    assert_eq!(kept[0]["text"], QUESTION);
    assert_eq!(place.responses()[0]["text"], "The capital of France is Paris.");
}
