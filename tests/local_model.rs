//! The local model as a run uses it, and what it says of folders that are wrong.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use harness::media::audio::mel::MelExtractor;
use harness::model::local::{LocalModel, LocalSpec, SpeechSpec, check};
use harness::model::{Answer, AudioNeed, ImageNeed, Model, Prepared};
use harness::types::{
    AudioContent, AudioRef, Digest, Generation, ImageRef, LogMel, Message, Outcome, Part, PreparedAudio,
    Prompt, Role, Window,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/local/qwen2-audio")
}

fn spec(dir: &Path) -> LocalSpec {
    LocalSpec {
        dir: dir.to_path_buf(),
        architecture: "qwen2_audio".to_owned(),
        device: "cpu".to_owned(),
        dtype: "auto".to_owned(),
        batch_size: 4,
        max_seconds: 30.0,
        name: "tiny".to_owned(),
        speech: SpeechSpec::default(),
    }
}

fn model() -> &'static LocalModel {
    static MODEL: OnceLock<LocalModel> = OnceLock::new();
    MODEL.get_or_init(|| LocalModel::load(&spec(&fixture())).unwrap())
}

/// A copy of the fixture that a test may spoil.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn edit(folder: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.join(file);
    let mut value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

fn problem(folder: &Path) -> String {
    let sentence = check(folder).unwrap_err().to_string();
    assert!(sentence.contains(&*folder.to_string_lossy()), "the folder is named: {sentence}");
    assert!(!sentence.contains('\n'), "{sentence}");
    sentence
}

fn clip(samples: usize, pitch: f32) -> PreparedAudio {
    let wave: Vec<f32> = (0..samples).map(|i| 0.3 * (i as f32 * pitch).sin()).collect();
    let features = MelExtractor::new(128).unwrap().compute(&wave).unwrap();
    PreparedAudio {
        digest: Digest::of(format!("{samples} {pitch}").as_bytes()),
        content: AudioContent::Features(Arc::new(features)),
    }
}

fn audio_part(name: &str) -> Part {
    Part::Audio(AudioRef { name: name.to_owned(), window: Window::Whole })
}

fn chat(parts: Vec<Part>) -> Prompt {
    Prompt::Chat(vec![Message { role: Role::User, parts }])
}

fn request(question: &str, audio: &[PreparedAudio], generation: Generation) -> Prepared {
    let mut parts: Vec<Part> = audio.iter().map(|_| audio_part("a.wav")).collect();
    parts.push(Part::Text(question.to_owned()));
    Prepared {
        key: Digest::of(question.as_bytes()),
        prompt: chat(parts),
        audio: audio.to_vec(),
        images: Vec::new(),
        generation,
        seed: 17,
        exact_seed: false,
    }
}

fn greedy(max_new_tokens: usize) -> Generation {
    Generation { max_new_tokens, ..Generation::default() }
}

fn ask(requests: Vec<Prepared>) -> Vec<Answer> {
    let count = requests.len();
    let answers = block_on(model().answer(requests));
    assert_eq!(answers.len(), count);
    answers
}

#[test]
fn the_model_says_who_it_is_and_what_it_takes() {
    let model = model();
    let inventory = check(&fixture()).unwrap();
    assert_eq!(model.identity().revision, inventory.digest.to_string());
    assert_eq!(
        (model.identity().kind.as_str(), model.identity().dtype.as_str(), model.identity().device.as_str()),
        ("local", "f32", "cpu")
    );
    assert_eq!(model.accepts().audio, AudioNeed::LogMel { bins: 128 });
    assert_eq!((model.accepts().max_seconds, model.accepts().images), (30.0, ImageNeed::None));
    assert_eq!((model.batch_size(), model.concurrency()), (4, 1));
    assert_eq!(inventory.parameters, 372_608);
    assert_eq!((inventory.bins, inventory.vocabulary, inventory.max_positions), (Some(128), 640, 8192));
    assert_eq!(
        (inventory.dtypes, inventory.files),
        (vec!["f32".to_owned()], vec!["model.safetensors".to_owned()])
    );
    let long = LocalModel::load(&LocalSpec { max_seconds: 90.0, ..spec(&fixture()) }).unwrap();
    assert_eq!(long.accepts().max_seconds, 30.0);
}

#[test]
fn answers_come_in_order_with_counts() {
    let clip = clip(48_000, 0.05);
    let answers = ask(vec![
        request("What sound is this?", std::slice::from_ref(&clip), greedy(5)),
        request("What is the capital of France?", &[], greedy(7)),
    ]);
    assert_eq!(answers[0].usage.audio_tokens, 75);
    assert_eq!(answers[0].usage.prompt_tokens, 113);
    assert_eq!(answers[1].usage.audio_tokens, 0);
    for (answer, most) in answers.iter().zip([5, 7]) {
        assert_eq!((answer.outcome, answer.attempts, answer.error.as_deref()), (Outcome::Length, 1, None));
        assert_eq!(answer.usage.completion_tokens, most);
        assert_eq!(answer.tokens.as_ref().unwrap().len() as u64, most);
        assert!(answer.seconds > 0.0);
    }
    let alone = ask(vec![request("What is the capital of France?", &[], greedy(7))]);
    assert_eq!((&alone[0].tokens, &alone[0].text), (&answers[1].tokens, &answers[1].text));
}

/// Half of the requests are wrong in themselves: each gets its sentence, and the others are answered.
#[test]
fn a_wrong_request_fails_alone() {
    let short = clip(320, 0.05);
    let fine = clip(321, 0.05);
    let raw = |text: &str| Prepared {
        prompt: Prompt::Raw { text: text.to_owned(), audio: Vec::new() },
        ..request("x", &[], greedy(3))
    };
    let image = Prepared {
        prompt: chat(vec![Part::Image(ImageRef { name: "cat.png".to_owned() })]),
        ..request("x", &[], greedy(3))
    };
    let wrong_bins = PreparedAudio {
        digest: Digest::of(b"wrong"),
        content: AudioContent::Features(Arc::new(LogMel {
            bins: 80,
            frames: 3000,
            valid_frames: 100,
            data: vec![0.0; 240_000],
        })),
    };
    let cases = [
        (request("short", &[short], greedy(3)), Some("longer than 20 ms")),
        (request("fine", std::slice::from_ref(&fine), greedy(3)), None),
        (raw("<|AUDIO|>"), Some("1 audio placeholders (`<|AUDIO|>`) and 0 clips")),
        (raw(""), Some("the prompt is empty")),
        (raw("What"), None),
        (image, Some("cat.png")),
        (request("none", &[], greedy(0)), Some("max_new_tokens is 0")),
        (raw(&"What ".repeat(9000)), Some("fewer than 8192")),
        (request("hot", &[], Generation { temperature: Some(-1.0), ..greedy(3) }), Some("temperature is -1")),
    ];
    let answers = ask(cases.iter().map(|(request, _)| request.clone()).collect());
    for (answer, (_, sentence)) in answers.iter().zip(&cases) {
        match sentence {
            None => assert!(answer.outcome.is_answer(), "{answer:?}"),
            Some(sentence) => {
                assert_eq!(answer.outcome, Outcome::RequestError);
                let error = answer.error.as_deref().unwrap();
                assert!(error.contains(sentence), "{error}");
                assert_eq!((answer.text.as_str(), &answer.tokens), ("", &None));
            }
        }
    }
    // Features that the encoder refuses break the batch; then each request is tried alone.
    let answers = ask(vec![
        request("broken", &[wrong_bins], greedy(3)),
        request("fine", std::slice::from_ref(&fine), greedy(3)),
    ]);
    assert_eq!((answers[0].outcome, answers[0].attempts), (Outcome::RequestError, 2));
    assert!(answers[0].error.as_deref().unwrap().contains("expected log-mel features of 128 bins"));
    assert!(answers[1].outcome.is_answer() && answers[1].attempts == 2);
    assert!(ask(Vec::new()).is_empty());
}

#[test]
fn a_raw_prompt_equals_the_chat_that_renders_to_it() {
    let clip = clip(16_000, 0.1);
    let text = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nAudio 1: \
                <|audio_bos|><|AUDIO|><|audio_eos|>\nTranscribe the speech.<|im_end|>\n<|im_start|>assistant\n";
    let chat = request("Transcribe the speech.", std::slice::from_ref(&clip), greedy(6));
    let audio = chat.prompt.audio().into_iter().cloned().collect();
    let raw = Prepared { prompt: Prompt::Raw { text: text.to_owned(), audio }, ..chat.clone() };
    let answers = ask(vec![chat, raw]);
    assert_eq!(answers[0].tokens, answers[1].tokens);
    assert_eq!(answers[0].usage, answers[1].usage);
}

/// Stop strings cut the text, also where one begins in the middle of a token or runs over several.
#[test]
fn stop_strings_end_a_response() {
    let question = "What is the capital of France?";
    let whole = ask(vec![request(question, &[], greedy(24))]).swap_remove(0);
    let characters: Vec<char> = whole.text.chars().collect();
    assert!(characters.len() > 12, "{}", whole.text);
    let mut tried = 0;
    for start in 1..characters.len() - 4 {
        let stop: String = characters[start..start + 4].iter().collect();
        if stop.contains('\u{fffd}') {
            // Half a character may be completed by the next token.
            continue;
        }
        let generation = Generation { stop: vec!["never there".to_owned(), stop.clone()], ..greedy(24) };
        let answer = ask(vec![request(question, &[], generation)]).swap_remove(0);
        let before = whole.text.find(&stop).unwrap();
        assert_eq!(answer.text, whole.text[..before], "{stop}");
        let expected = if answer.text.trim().is_empty() { Outcome::Empty } else { Outcome::Ok };
        assert_eq!(answer.outcome, expected);
        assert!(whole.tokens.as_ref().unwrap().starts_with(answer.tokens.as_ref().unwrap()));
        tried += 1;
    }
    assert!(tried > 0);
}

/// The token that ends a response is among its tokens and not in its text.
#[test]
fn stop_tokens_end_a_response() {
    let folder = copy();
    let question = "What is the capital of France?";
    let tokens = ask(vec![request(question, &[], greedy(6))]).swap_remove(0).tokens.unwrap();
    let ask_with = |stops: Value| {
        edit(folder.path(), "generation_config.json", |config| config["eos_token_id"] = stops);
        let model = LocalModel::load(&spec(folder.path())).unwrap();
        block_on(model.answer(vec![request(question, &[], greedy(6))])).swap_remove(0)
    };
    let third = ask_with(json!([tokens[2], 612]));
    assert_eq!(third.outcome, Outcome::Ok);
    assert_eq!(third.tokens.as_deref().unwrap(), &tokens[..3]);
    let two = Generation { max_new_tokens: 2, ..Generation::default() };
    assert_eq!(third.text, ask(vec![request(question, &[], two)])[0].text);
    let first = ask_with(json!(tokens[0]));
    assert_eq!((first.outcome, first.text.as_str()), (Outcome::Empty, ""));
    assert_eq!(first.usage.completion_tokens, 1);
}

#[test]
fn broken_weights_give_an_error_and_no_token() {
    let folder = copy();
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for value in bytes[start..end].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    let model = LocalModel::load(&spec(folder.path())).unwrap();
    let answer = block_on(model.answer(vec![request("x", &[clip(16_000, 0.1)], greedy(3))])).swap_remove(0);
    assert_eq!(answer.outcome, Outcome::RequestError);
    assert!(answer.error.unwrap().contains("not finite"));
}

#[test]
fn other_number_formats_are_possible_on_the_cpu() {
    let question = "What is the capital of France?";
    for dtype in ["f16", "bf16"] {
        let model = LocalModel::load(&LocalSpec { dtype: dtype.to_owned(), ..spec(&fixture()) }).unwrap();
        assert_eq!(model.identity().dtype, dtype);
        let requests =
            vec![request(question, &[clip(16_000, 0.1)], greedy(4)), request(question, &[], greedy(4))];
        for answer in block_on(model.answer(requests)) {
            assert_eq!(answer.outcome, Outcome::Length, "{answer:?}");
        }
    }
}

#[test]
fn what_cannot_be_loaded_is_told() {
    let folder = copy();
    let fails = |change: &dyn Fn(&mut LocalSpec)| {
        let mut spec = spec(folder.path());
        change(&mut spec);
        LocalModel::load(&spec).unwrap_err().to_string()
    };
    assert!(
        fails(&|spec| spec.architecture = "whisper".to_owned()).contains("architecture = \"qwen2_audio\"")
    );
    assert!(fails(&|spec| spec.device = "tpu".to_owned()).contains("`cuda:N`"));
    assert!(fails(&|spec| spec.dtype = "int4".to_owned()).contains("`bf16`"));
    #[cfg(not(feature = "cuda"))]
    assert!(fails(&|spec| spec.device = "cuda:0".to_owned()).contains("--features cuda"));
    #[cfg(not(feature = "metal"))]
    assert!(fails(&|spec| spec.device = "metal".to_owned()).contains("--features metal"));
}

#[test]
fn each_missing_file_is_named() {
    let absent = Path::new("there/is/no/such/folder");
    assert!(check(absent).unwrap_err().to_string().contains("no such folder"));
    for file in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "preprocessor_config.json",
        "model.safetensors",
    ] {
        let folder = copy();
        std::fs::remove_file(folder.path().join(file)).unwrap();
        let sentence = problem(folder.path());
        assert!(sentence.contains(&format!("{file} ")) && sentence.contains("download"), "{sentence}");
    }
    let folder = copy();
    std::fs::remove_file(folder.path().join("chat_template.json")).unwrap();
    check(folder.path()).unwrap();
    edit(folder.path(), "tokenizer_config.json", |config| config["chat_template"] = Value::Null);
    assert!(problem(folder.path()).contains("a chat template is missing"));
    std::fs::write(folder.path().join("chat_template.jinja"), "{{ messages[0].role }}").unwrap();
    check(folder.path()).unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), "{% if %}").unwrap();
    assert!(problem(folder.path()).contains("cannot be compiled"));
}

#[test]
fn files_that_do_not_fit_each_other_are_told() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &str); 7] = [
        ("config.json", |c| c["model_type"] = json!("qwen2_5_omni"), "`qwen2_5_omni`"),
        ("config.json", |c| c["audio_token_index"] = json!(630), "no such token"),
        ("config.json", |c| c["audio_token_index"] = json!(300), "special token"),
        ("config.json", |c| c["text_config"]["vocab_size"] = json!(617), "vocabulary of 617"),
        ("config.json", |c| c["text_config"]["num_hidden_layers"] = json!(3), "12 missing"),
        ("config.json", |c| c["text_config"]["num_hidden_layers"] = json!(1), "12 unexpected"),
        ("preprocessor_config.json", |c| c["feature_size"] = json!(80), "feature_size is 80"),
    ];
    for (file, change, part) in cases {
        let folder = copy();
        edit(folder.path(), file, change);
        let sentence = problem(folder.path());
        assert!(sentence.contains(part), "{sentence}");
    }
    let folder = copy();
    edit(folder.path(), "config.json", |config| config["text_config"]["intermediate_size"] = json!(161));
    let sentence = problem(folder.path());
    assert!(
        sentence.contains("wrong shape") && sentence.contains("expected [161, 64], found [160, 64]"),
        "{sentence}"
    );
    std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    assert!(problem(folder.path()).contains("tokenizer.json"));
}

/// The same weights under the names of transformers 5, in two shards.
#[test]
fn the_other_layout_gives_the_same_answers() {
    let folder = copy();
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Map<String, Value> = serde_json::from_slice(&bytes[8..start]).unwrap();
    let mut shards = [(serde_json::Map::new(), Vec::new()), (serde_json::Map::new(), Vec::new())];
    let mut map = serde_json::Map::new();
    for (index, (name, entry)) in header.iter().filter(|(name, _)| *name != "__metadata__").enumerate() {
        let offset = |index: usize| start + entry["data_offsets"][index].as_u64().unwrap() as usize;
        let name = match name.as_str() {
            "language_model.lm_head.weight" => "lm_head.weight".to_owned(),
            other => format!("model.{}", other.replace("language_model.model.", "language_model.")),
        };
        let (header, data) = &mut shards[index % 2];
        let from = data.len();
        data.extend_from_slice(&bytes[offset(0)..offset(1)]);
        header.insert(
            name.clone(),
            json!({"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": [from, data.len()]}),
        );
        map.insert(name, json!(format!("model-{}.safetensors", index % 2)));
    }
    for (index, (header, data)) in shards.into_iter().enumerate() {
        let header = serde_json::to_vec(&header).unwrap();
        let file = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
        std::fs::write(folder.path().join(format!("model-{index}.safetensors")), file).unwrap();
    }
    let index = json!({"metadata": {}, "weight_map": map});
    std::fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    std::fs::remove_file(path).unwrap();
    let other = LocalModel::load(&spec(folder.path())).unwrap();
    assert_ne!(other.identity().revision, model().identity().revision);
    let requests = vec![request("What sound is this?", &[clip(40_000, 0.2)], greedy(12))];
    let answers = block_on(other.answer(requests.clone()));
    assert_eq!(answers[0].tokens, ask(requests)[0].tokens);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A drawn answer depends on the seed and the request, not on what else is in its batch.
    #[test]
    fn drawn_answers_do_not_depend_on_the_batch(
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
        size in 1..6_usize,
        temperature in 0.3..1.5_f64,
        top_k in 0..40_usize,
        top_p in 0.3..1.0_f64,
        repetition_penalty in 1.0..1.4_f64,
    ) {
        let generation = Generation {
            temperature: Some(temperature), top_k, top_p, repetition_penalty, max_new_tokens: 8, ..Generation::default()
        };
        let clips = [clip(48_000, 0.05), clip(8_000, 0.11)];
        let questions = ["one", "two", "What is the capital of France?", "Transcribe the speech.", "x", "y"];
        let requests: Vec<Prepared> = questions
            .iter()
            .enumerate()
            .map(|(index, question)| {
                let audio = clips.get(index % 3).map(std::slice::from_ref).unwrap_or_default();
                request(question, audio, Generation { max_new_tokens: 4 + index, ..generation.clone() })
            })
            .collect();
        let together = ask(requests.clone());
        let shuffled: Vec<Prepared> = order.iter().map(|&index| requests[index].clone()).collect();
        let batches = shuffled.chunks(size).flat_map(|batch| ask(batch.to_vec()));
        for (&index, answer) in order.iter().zip(batches) {
            prop_assert_eq!(&answer.tokens, &together[index].tokens);
            prop_assert_eq!(answer.outcome, together[index].outcome);
        }
        let other_seed = Prepared { seed: 18, ..requests[2].clone() };
        prop_assert!(ask(vec![other_seed])[0].tokens.is_some());
    }
}
