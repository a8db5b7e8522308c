//! The local Qwen2-Audio against the reference implementation: transformers 5.24.0 in f32, on a small random checkpoint
//! in the published layout.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use harness::media::audio::mel::MelExtractor;
use harness::media::audio::{DecodeSpec, decode_file};
use harness::model::Prepared;
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::generate::{End, Generated};
use harness::model::local::qwen2_audio::{Expanded, Qwen2Audio};
use harness::types::{AudioContent, AudioRef, Digest, Generation, LogMel, PreparedAudio, Prompt, Window};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn folder() -> PathBuf {
    fixtures().join("local/qwen2-audio")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixtures().join("local").join(name)).unwrap()).unwrap()
}

/// The f32 tensors of a safetensors file, by name.
fn tensors(name: &str) -> BTreeMap<String, Vec<f32>> {
    let bytes = std::fs::read(fixtures().join(name)).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let data = &bytes[8 + length..];
    header
        .into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, entry)| {
            let offset = |index: usize| entry["data_offsets"][index].as_u64().unwrap() as usize;
            let values = data[offset(0)..offset(1)]
                .chunks_exact(4)
                .map(|value| f32::from_le_bytes(value.try_into().unwrap()))
                .collect();
            (name, values)
        })
        .collect()
}

/// The model, loaded once. Tests take turns.
fn model() -> MutexGuard<'static, Qwen2Audio> {
    static MODEL: OnceLock<Mutex<Qwen2Audio>> = OnceLock::new();
    MODEL
        .get_or_init(|| Mutex::new(load(&folder())))
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn load(folder: &Path) -> Qwen2Audio {
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    Qwen2Audio::load(folder, DtypeChoice::F32, &device).unwrap()
}

/// A clip by the name that the fixtures give it: the file, with `#last30` for its last 30 s. Longer clips are cut at 30 s, as
/// the reference's feature extractor does.
fn clip(name: &str) -> PreparedAudio {
    let (file, window) = match name.split_once('#') {
        Some((file, _)) => (file, Window::Last),
        None => (name, Window::First),
    };
    let spec = DecodeSpec { rate: 16_000, window, max_seconds: 30.0 };
    let clip = decode_file(&fixtures().join("audio").join(file), &spec).unwrap();
    let features = MelExtractor::new(128).unwrap().compute(&clip.samples).unwrap();
    PreparedAudio { digest: clip.digest, content: AudioContent::Features(Arc::new(features)) }
}

fn audio_ref(name: &str) -> AudioRef {
    AudioRef { name: name.to_owned(), window: Window::Whole }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[track_caller]
fn assert_close(found: impl IntoIterator<Item = f32>, expected: &[f64], what: &str) {
    let mut count = 0;
    for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        assert!((f64::from(found) - expected).abs() < 1e-4, "{what}[{index}]: {found} instead of {expected}");
        count += 1;
    }
    assert_eq!(count, expected.len(), "{what}");
}

fn norm(rows: &[Vec<f32>]) -> f64 {
    rows.iter().flatten().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

/// One prompt of a reference case.
struct Row {
    text: String,
    clips: Vec<PreparedAudio>,
    input_ids: Vec<u32>,
    last_logits: Vec<f64>,
    greedy: Vec<u32>,
}

/// The prompts of a case; clips go to the prompts in order of their placeholders.
fn rows(case: &Value) -> Vec<Row> {
    let mut clips = strings(&case["audios"]).into_iter();
    let pads: Vec<usize> = numbers(&case["attention_mask_sum"])
        .into_iter()
        .map(|sum| case["seq_len"].as_u64().unwrap() as usize - sum as usize)
        .collect();
    strings(&case["texts"])
        .into_iter()
        .enumerate()
        .map(|(index, text)| Row {
            clips: (0..text.matches("<|AUDIO|>").count()).map(|_| clip(&clips.next().unwrap())).collect(),
            text,
            input_ids: ids(&case["input_ids"][index]).split_off(pads[index]),
            last_logits: numbers(&case["last_logits"][index]),
            greedy: ids(&case["greedy_ids"][index]),
        })
        .collect()
}

fn features(row: &Row) -> Vec<&LogMel> {
    row.clips.iter().map(|clip| clip.features().unwrap()).collect()
}

fn expand(model: &Qwen2Audio, row: &Row) -> (Expanded, Vec<PreparedAudio>) {
    (model.expand(&row.text, &features(row)).unwrap(), row.clips.clone())
}

fn request(row: &Row, max_new_tokens: usize) -> Prepared {
    let audio = row.clips.iter().map(|_| audio_ref("clip")).collect();
    Prepared {
        key: Digest::of(row.text.as_bytes()),
        prompt: Prompt::Raw { text: row.text.clone(), audio },
        audio: row.clips.clone(),
        images: Vec::new(),
        generation: Generation { max_new_tokens, ..Generation::default() },
        seed: 1,
        exact_seed: false,
    }
}

fn cases() -> Vec<(String, Value)> {
    let Value::Object(reference) = json("qwen2audio_ref.json") else { panic!("no object") };
    let cases: Vec<_> = reference.into_iter().filter(|(name, _)| !name.starts_with('_')).collect();
    assert_eq!(cases.len(), 7);
    cases
}

#[test]
fn templates_render_as_in_the_reference() {
    let Value::Object(templates) = json("qwen2audio_templates.json") else { panic!("no object") };
    let model = model();
    let mut count = 0;
    for (name, conversations) in templates.iter().filter(|(name, _)| !name.starts_with('_')) {
        for conversation in conversations.as_array().unwrap() {
            let messages = conversation["messages"].as_array().unwrap();
            for (key, add) in [("with_generation_prompt", true), ("without", false)] {
                let rendered = model.template().render_values(messages, add).unwrap();
                assert_eq!(rendered, conversation[key].as_str().unwrap(), "{name}");
            }
            count += 1;
        }
    }
    assert_eq!(count, 15);
}

#[test]
fn the_tokenizer_gives_the_ids_of_the_reference() {
    let templates = json("qwen2audio_templates.json");
    let model = model();
    for (text, expected) in templates["_tokenizer_probe"].as_object().unwrap() {
        assert_eq!(model.tokenizer().encode(text).unwrap(), ids(expected), "{text}");
    }
}

#[test]
fn prompts_expand_to_the_ids_of_the_reference() {
    let model = model();
    for (name, case) in cases() {
        let counts = case.get("audio_tokens").map(ids).unwrap_or_default();
        let mut found = Vec::new();
        for row in rows(&case) {
            let (expanded, _) = expand(&model, &row);
            assert_eq!(expanded.ids, row.input_ids, "{name}");
            found.extend(expanded.places.iter().map(|&(_, tokens)| tokens as u32));
        }
        assert_eq!(found, counts, "{name}");
    }
}

#[test]
fn encoder_and_projector_give_the_vectors_of_the_reference() {
    let model = model();
    let whole = tensors("local/qwen2audio_ref.safetensors");
    for (name, case) in cases() {
        let clips: Vec<PreparedAudio> = rows(&case).into_iter().flat_map(|row| row.clips).collect();
        for (index, clip) in clips.iter().enumerate() {
            let vectors = model.audio_vectors(clip.features().unwrap()).unwrap();
            for (kind, rows) in [("enc", &vectors.encoded), ("proj", &vectors.projected)] {
                let expected = &case[kind][index];
                let what = format!("{name} {kind} {index}");
                assert_close(rows[0][..8].iter().copied(), &numbers(&expected["first8_t0"]), &what);
                let last = &rows[rows.len() - 1];
                assert_close(last[..8].iter().copied(), &numbers(&expected["first8_last"]), &what);
                let expected = expected["norm"].as_f64().unwrap();
                assert!((norm(rows) - expected).abs() / expected < 1e-5, "{what}");
            }
            if let Some(expected) = whole.get(&format!("{name}/proj{index}")) {
                let expected: Vec<f64> = expected.iter().map(|&x| f64::from(x)).collect();
                assert_close(vectors.projected.iter().flatten().copied(), &expected, &name);
            }
        }
    }
}

#[test]
fn logits_are_those_of_the_reference_alone_and_in_a_batch() {
    let mut model = model();
    for (name, case) in cases() {
        let rows = rows(&case);
        let prompts: Vec<_> = rows.iter().map(|row| expand(&model, row)).collect();
        let together = model.next_logits(&prompts).unwrap();
        for (index, (row, prompt)) in rows.iter().zip(&prompts).enumerate() {
            let alone = model.next_logits(std::slice::from_ref(prompt)).unwrap().swap_remove(0);
            assert_close(alone, &row.last_logits, &name);
            assert_close(together[index].iter().copied(), &row.last_logits, &name);
        }
    }
}

/// The logits at every place of a prompt, from prompts that are cut there.
#[test]
fn logits_at_every_place_are_those_of_the_reference() {
    let mut model = model();
    let whole = tensors("local/qwen2audio_ref.safetensors");
    for name in ["text_only", "one_audio_3s"] {
        let case = cases().into_iter().find(|(case, _)| case == name).unwrap().1;
        let (expanded, clips) = expand(&model, &rows(&case)[0]);
        let expected = &whole[&format!("{name}/logits")];
        let width = expected.len() / expanded.ids.len();
        let cut: Vec<_> = (1..=expanded.ids.len())
            .map(|length| {
                let places = expanded.places.iter().filter(|place| place.0 < length).copied().collect();
                (Expanded { ids: expanded.ids[..length].to_vec(), places }, clips.clone())
            })
            .collect();
        for (logits, expected) in model.next_logits(&cut).unwrap().into_iter().zip(expected.chunks(width)) {
            let expected: Vec<f64> = expected.iter().map(|&x| f64::from(x)).collect();
            assert_close(logits, &expected, name);
        }
    }
}

fn generate(model: &mut Qwen2Audio, requests: &[Prepared], ignore_stops: bool) -> Vec<Generated> {
    let answers = model.answer(requests, ignore_stops).unwrap();
    answers.into_iter().map(|answer| answer.unwrap().1).collect()
}

#[test]
fn greedy_tokens_are_those_of_the_reference() {
    let mut model = model();
    for (name, case) in cases() {
        let rows = rows(&case);
        let requests: Vec<Prepared> = rows.iter().map(|row| request(row, 24)).collect();
        let together = generate(&mut model, &requests, true);
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(together[index].ids, row.greedy, "{name}");
            assert_eq!(together[index].end, End::Limit);
            let alone = generate(&mut model, &requests[index..=index], true);
            assert_eq!(alone[0], together[index], "{name}");
        }
    }
}

/// All cases as one batch: lengths from 31 to 798 tokens, several clips, shared beginnings.
#[test]
fn one_large_batch_gives_the_same_tokens() {
    let mut model = model();
    let rows: Vec<Row> = cases().iter().flat_map(|(_, case)| rows(case)).collect();
    // Rows end at different times, so the batch shrinks on its way.
    let requests: Vec<Prepared> =
        rows.iter().enumerate().map(|(index, row)| request(row, 24 - 2 * index)).collect();
    let before = model.encoded_clips();
    let answers = generate(&mut model, &requests, true);
    assert!(model.encoded_clips() - before <= 4, "each of the four clips is encoded at most once");
    for (index, (answer, row)) in answers.iter().zip(&rows).enumerate() {
        assert_eq!(answer.ids, row.greedy[..24 - 2 * index]);
    }
}
