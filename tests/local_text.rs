//! Local text models against the reference implementation: transformers 5.24.0 in f32, on small random checkpoints and on
//! GGUF files with the same numbers.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::generate::Generated;
use harness::model::local::text::TextModel;
use harness::model::local::{LocalModel, LocalSpec, SpeechSpec, check};
use harness::model::{AudioNeed, ImageNeed, Model, Prepared};
use harness::types::{AudioRef, Digest, Generation, Message, Outcome, Part, Prompt, Role, Window};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/text")
}

fn reference() -> serde_json::Map<String, Value> {
    let bytes = std::fs::read(fixtures().join("reference.json")).unwrap();
    let mut all: serde_json::Map<String, Value> = serde_json::from_slice(&bytes).unwrap();
    all.retain(|name, _| !name.starts_with('_'));
    all
}

fn load(name: &str) -> TextModel {
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    TextModel::load(&fixtures().join(name), DtypeChoice::F32, &device).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn messages(case: &Value) -> Vec<Message> {
    let role = |message: &Value| match message["role"].as_str().unwrap() {
        "system" => Role::System,
        "user" => Role::User,
        _ => Role::Assistant,
    };
    let list = case["messages"].as_array().unwrap();
    list.iter().map(|message| Message::text(role(message), message["content"].as_str().unwrap())).collect()
}

fn request(prompt: Prompt, key: &str, generation: Generation) -> Prepared {
    Prepared {
        key: Digest::of(key.as_bytes()),
        prompt,
        audio: Vec::new(),
        images: Vec::new(),
        generation,
        seed: 11,
        exact_seed: false,
    }
}

fn greedy(max_new_tokens: usize) -> Generation {
    Generation { max_new_tokens, ..Generation::default() }
}

fn answers(model: &TextModel, requests: &[Prepared]) -> Vec<Generated> {
    model.answer(requests, true).unwrap().into_iter().map(|answer| answer.unwrap().1).collect()
}

/// Templates, tokens, logits and greedy tokens of every family, from safetensors and from GGUF files, each prompt alone.
#[test]
fn every_family_equals_the_reference() {
    let reference = reference();
    assert_eq!(reference.len(), 11);
    for (name, all) in &reference {
        let model = load(name);
        for probe in all["probes"].as_array().unwrap() {
            let text = probe[0].as_str().unwrap();
            assert_eq!(model.tokenizer().encode(text).unwrap(), ids(&probe[1]), "{name}: {text:?}");
        }
        for (case, decoded) in all["cases"].as_array().unwrap().iter().zip(all["decoded"].as_array().unwrap())
        {
            let messages = messages(case);
            assert_eq!(
                model.template().render_text(&messages).unwrap(),
                case["text"].as_str().unwrap(),
                "{name}"
            );
            let prompt = Prompt::Chat(messages);
            let prompt_ids = model.prompt_ids(&prompt).unwrap();
            assert_eq!(prompt_ids, ids(&case["ids"]), "{name}");
            let logits = model.next_logits(&prompt_ids).unwrap();
            for (found, expected) in logits.iter().zip(case["logits"].as_array().unwrap()) {
                let expected = expected.as_f64().unwrap();
                assert!((f64::from(*found) - expected).abs() < 1e-4, "{name}: {found} instead of {expected}");
            }
            let norm = logits.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            assert!((norm / case["norm"].as_f64().unwrap() - 1.0).abs() < 1e-5, "{name}: {norm}");
            let answer = answers(&model, &[request(prompt, "a", greedy(24))]).remove(0);
            assert_eq!(answer.ids, ids(&case["greedy"]), "{name}");
            assert_eq!(answer.text, decoded.as_str().unwrap(), "{name}");
        }
    }
}

/// Prompts of different lengths in one batch, with windows and without, drawn and greedy: each as alone.
#[test]
fn a_batch_answers_as_each_request_alone() {
    for name in ["llama", "qwen2", "qwen3", "gemma3", "gemma3-f16.gguf"] {
        let model = load(name);
        let cases = reference()[name]["cases"].as_array().unwrap().clone();
        let drawn = Generation {
            temperature: Some(1.0),
            top_p: 0.9,
            top_k: 40,
            repetition_penalty: 1.1,
            ..greedy(20)
        };
        let mut requests: Vec<Prepared> = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let prompt = || Prompt::Chat(messages(case));
            requests.push(request(prompt(), &format!("greedy {index}"), greedy(24 - 7 * index)));
            requests.push(request(prompt(), &format!("drawn {index}"), drawn.clone()));
        }
        let together = answers(&model, &requests);
        for (request, together) in requests.iter().zip(&together) {
            assert_eq!(&answers(&model, std::slice::from_ref(request))[0], together, "{name}");
        }
        assert_eq!(together[0].ids, ids(&cases[0]["greedy"]));
        assert_ne!(together[1].ids, together[0].ids[..20]);
    }
}

/// What a prompt has in common with one before it is taken over: logits and tokens are those of a model that remembers
/// nothing, alone and in a batch, with windows and without.
#[test]
fn what_prompts_have_in_common_with_the_last_ones_is_not_computed_again() {
    let passage = "The bridge over the river was closed for the winter. ".repeat(4);
    let prompt =
        |question: &str| Prompt::Chat(vec![Message::text(Role::User, format!("{passage}{question}"))]);
    for name in ["llama", "qwen2", "qwen3", "gemma3", "gemma3-f16.gguf", "llama-q8_0.gguf"] {
        let model = load(name);
        let (first, second) = (prompt("When was it closed?"), prompt("What does it cross, and why?"));
        let [first_ids, second_ids] = [&first, &second].map(|prompt| model.prompt_ids(prompt).unwrap());
        let common = first_ids.iter().zip(&second_ids).take_while(|(a, b)| a == b).count();
        assert!(common >= 40 && common + 1 < second_ids.len(), "{name}: {common} of {}", second_ids.len());
        let alone = model.next_logits(&second_ids).unwrap();
        assert_eq!(model.taken_over(), 0);
        model.forget();
        model.next_logits(&first_ids).unwrap();
        let behind = model.next_logits(&second_ids).unwrap();
        assert_eq!(model.taken_over(), common as u64, "{name}");
        for (found, expected) in behind.iter().zip(&alone) {
            assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0), "{name}: {found} {expected}");
        }
        // Other prompts between them, batches of several prompts, drawn tokens: nothing changes an answer.
        let other = Prompt::Chat(vec![Message::text(Role::User, "Something else entirely. ".repeat(9))]);
        let drawn = Generation { temperature: Some(1.0), ..greedy(12) };
        let requests = [
            request(first, "1", greedy(12)),
            request(other, "2", greedy(12)),
            request(second.clone(), "3", greedy(12)),
            request(second, "4", drawn),
        ];
        let fresh = |request: &Prepared| {
            model.forget();
            answers(&model, std::slice::from_ref(request)).remove(0)
        };
        let expected: Vec<Generated> = requests.iter().map(fresh).collect();
        model.forget();
        for batches in [vec![0..1, 1..2, 2..3, 3..4], vec![0..2, 2..4], vec![0..4, 0..4]] {
            for rows in batches {
                let before = model.taken_over();
                assert_eq!(
                    answers(&model, &requests[rows.clone()]),
                    expected[rows.clone()],
                    "{name}: {rows:?}"
                );
                assert!(rows.start == 0 || model.taken_over() > before || rows == (1..2), "{name}: {rows:?}");
            }
        }
    }
}

fn spec(name: &str, architecture: &str) -> LocalSpec {
    LocalSpec {
        dir: fixtures().join(name),
        architecture: architecture.to_owned(),
        device: "cpu".to_owned(),
        dtype: "auto".to_owned(),
        batch_size: 3,
        max_seconds: 30.0,
        name: "tiny".to_owned(),
        speech: SpeechSpec::default(),
    }
}

#[test]
fn text_models_are_local_models() {
    let model = LocalModel::load(&spec("qwen3-q4_0.gguf", "qwen3")).unwrap();
    assert_eq!((model.identity().model.as_str(), model.identity().dtype.as_str()), ("qwen3", "f32"));
    assert_eq!((model.accepts().audio.clone(), model.accepts().images), (AudioNeed::None, ImageNeed::None));
    let text = |text: &str| Prompt::Chat(vec![Message::text(Role::User, text)]);
    let clip = Part::Audio(AudioRef { name: "a.wav".to_owned(), window: Window::Whole });
    let heard = Prompt::Chat(vec![Message { role: Role::User, parts: vec![clip] }]);
    let requests = vec![
        request(text("What is the capital of France?"), "1", greedy(5)),
        request(heard, "2", greedy(5)),
        request(text(&"long ".repeat(600)), "3", greedy(5)),
        request(text("x"), "4", greedy(0)),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = runtime.block_on(model.answer(requests));
    assert!(matches!(answers[0].outcome, Outcome::Length | Outcome::Ok), "{:?}", answers[0]);
    assert_eq!(
        answers[0].usage.prompt_tokens,
        ids(&reference()["qwen3-q4_0.gguf"]["cases"][0]["ids"]).len() as u64
    );
    for (answer, part) in
        answers[1..].iter().zip(["a text model hears none", "fewer than 512", "max_new_tokens is 0"])
    {
        assert!(answer.error.as_ref().unwrap().contains(part), "{answer:?}");
    }
}

#[test]
fn inventories_tell_what_a_model_is() {
    for (name, architecture, dtype) in [
        ("llama", "llama", "f16"),
        ("llama-q4_1.gguf", "llama", "q4_1"),
        ("qwen2-q5_0.gguf", "qwen2", "q5_0"),
        ("gemma3-seeing", "gemma3", "f16"),
        ("gemma3-f16.gguf", "gemma3", "f16"),
    ] {
        let inventory = check(&fixtures().join(name)).unwrap();
        assert_eq!((inventory.architecture.as_str(), inventory.bins), (architecture, None));
        assert_eq!(inventory.dtypes[0], dtype, "{name}");
        assert_eq!(inventory.max_positions, 512);
    }
    let error = LocalModel::load(&spec("llama", "qwen2")).unwrap_err().to_string();
    assert!(error.contains("architecture = \"llama\""), "{error}");
    let told = LocalSpec {
        speech: SpeechSpec { fallback: true, ..SpeechSpec::default() },
        ..spec("llama", "llama")
    };
    let error = LocalModel::load(&told).unwrap_err().to_string();
    assert!(error.contains("belongs to `whisper`"), "{error}");
}

/// A copy of a fixture that a test may spoil.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixtures().join(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

#[test]
fn folders_that_are_wrong_get_a_sentence() {
    let spoiled = |file: &str, change: &dyn Fn(&mut Value)| {
        let folder = copy("qwen3");
        let path = folder.path().join(file);
        let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(path, value.to_string()).unwrap();
        check(folder.path()).unwrap_err().to_string()
    };
    for (error, part) in [
        (spoiled("config.json", &|c| c["model_type"] = json!("mamba")), "model_type is `mamba`"),
        (
            spoiled("config.json", &|c| c["model_type"] = json!("qwen2")),
            "unexpected (model.layers.0.self_attn.k_norm",
        ),
        (spoiled("config.json", &|c| c["num_hidden_layers"] = json!(4)), "layer_types names 3"),
        (spoiled("config.json", &|c| c["vocab_size"] = json!(50)), "vocabulary of 50"),
        (spoiled("config.json", &|c| c["intermediate_size"] = json!(65)), "wrong shape"),
        (spoiled("generation_config.json", &|c| c["eos_token_id"] = json!("x")), "eos_token_id"),
    ] {
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    let folder = copy("llama");
    std::fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    assert!(check(folder.path()).unwrap_err().to_string().contains("a chat template is missing"));
}

#[test]
fn gguf_files_that_are_wrong_get_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let whole = std::fs::read(fixtures().join("llama-q4_1.gguf")).unwrap();
    std::fs::write(&path, &whole).unwrap();
    // A folder with one file is that file.
    assert_eq!(check(folder.path()).unwrap(), check(&path).unwrap());
    let first = check(&path).unwrap().digest;
    let mut other = whole.clone();
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &other).unwrap();
    assert_ne!(check(&path).unwrap().digest, first);
    for (bytes, part) in [
        (&whole[..whole.len() - 40], "cut short or damaged"),
        (&whole[..2000], "no GGUF file that can be read"),
        (&b"GGUF"[..], "no GGUF file that can be read"),
        (&[][..], "no GGUF file that can be read"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = check(&path).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("model.gguf"), "{error}");
    }
    std::fs::write(folder.path().join("other.gguf"), b"").unwrap();
    assert!(check(folder.path()).unwrap_err().to_string().contains("holds 2 GGUF files"));
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, b"").unwrap();
    assert!(check(&text).unwrap_err().to_string().contains("ends in `.gguf`"));
    assert!(check(&folder.path().join("nothing")).unwrap_err().to_string().contains("no such folder"));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    /// A header in which bytes were changed is refused, or read: never a panic.
    #[test]
    fn damaged_headers_do_not_panic(changes in proptest::collection::vec((0..16_000_usize, proptest::num::u8::ANY), 1..6)) {
        let mut bytes = std::fs::read(fixtures().join("llama-q8_0.gguf")).unwrap();
        for (at, byte) in changes {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, bytes).unwrap();
        let _ = check(&path);
    }
}
