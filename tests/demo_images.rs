//! The image demo against what the reference implementation answered: prompts, tokens and texts of every request of
//! `configs/demo-images.toml`. `scripts/train_demo_vision.py eval` wrote the answers, `demo/vision/expected.json`.
//!
//! Where the model's weights are not there, the tests say so and skip; the data are always looked at.

#![cfg(feature = "local")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says why it skips"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use common::{finish, harness, journaled, root};
use harness::benchmark;
use harness::config::{self, RunConfig};
use harness::dataset::Dataset;
use harness::media::image::{ImageTransform, decode, fit};
use harness::model::ModelIdentity;
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::qwen2_5_vl::QwenVl;
use harness::prompt::sha256_hex;
use harness::run::plan::{Plan, Recipe, Section};
use harness::types::{RgbImage, Window, hex};
use serde_json::Value;
use sha2::Digest as _;

/// A request: label of its section, data id, condition.
type Name = (String, String, String);

/// The smallest distance between the two best logits of an answer below which other instructions may choose the other
/// token, where the pixels are the reference's…
const NEAR_TIE: f64 = 0.01;
/// …and where they are not: decoders of lossy formats differ by a few levels of 256.
const NEAR_TIE_LOSSY: f64 = 0.1;
/// Answers that may differ for these reasons, of all.
const MOST_DIFFERENT: usize = 3;

fn demo() -> PathBuf {
    root().join("demo/vision")
}

/// The reference's answers by request; `None` where the model is not there.
fn expected() -> Option<(Value, BTreeMap<Name, Value>)> {
    let weights = demo().join("model/model.safetensors");
    if !weights.is_file() {
        println!("skipped: {} is not there", weights.display());
        return None;
    }
    let whole: Value = serde_json::from_slice(&std::fs::read(demo().join("expected.json")).unwrap()).unwrap();
    let name = |request: &Value| {
        let label = match request["variant"].as_str().unwrap() {
            "named_entity" => "simplevqa",
            "with_confidence" => "simplevqa-confidence",
            other => panic!("no section asks with the variant {other}"),
        };
        let condition = request["condition"].as_str().unwrap().to_owned();
        (label.to_owned(), request["data_id"].to_string(), condition)
    };
    let requests = whole["requests"].as_array().unwrap();
    let by_name: BTreeMap<_, _> = requests.iter().map(|request| (name(request), request.clone())).collect();
    assert_eq!(by_name.len(), requests.len(), "every request is there once");
    Some((whole, by_name))
}

fn loaded() -> RunConfig {
    config::load(&root().join("configs/demo-images.toml"), &[]).unwrap().config
}

/// The plan of the config, made by the library: it has what is asked, which no file of a run has.
fn plan(config: &RunConfig) -> Plan {
    let section = |section: &config::BenchmarkConfig| {
        let prompts = benchmark::harness_wording(&section.name).unwrap();
        Section {
            config: section.clone(),
            benchmark: Arc::from(benchmark::build(section, prompts.clone(), Window::Whole).unwrap()),
            prompts,
            dataset: Dataset::open(&section.data, section.media.as_deref()).unwrap(),
        }
    };
    let model = ModelIdentity {
        name: "m".to_owned(),
        kind: "local".to_owned(),
        model: "m".to_owned(),
        revision: String::new(),
        dtype: String::new(),
        device: String::new(),
    };
    let recipe = Recipe::new(&model, 30.0, &config.generation, config.run.seed);
    Plan::new(config.benchmarks.iter().map(section).collect(), recipe).unwrap()
}

/// SHA-256 of an image as RGB, as Pillow makes it of one without transparency.
fn rgb_sha256(file: &[u8]) -> String {
    let (pixels, _) = decode(file).unwrap();
    let rgb = pixels.data().chunks_exact(pixels.channels()).flat_map(|pixel| match pixel {
        [grey] | [grey, _] => [*grey; 3],
        [red, green, blue, ..] => [*red, *green, *blue],
        [] => unreachable!("a pixel has a channel"),
    });
    hex(&sha2::Sha256::digest(rgb.collect::<Vec<u8>>()))
}

#[test]
fn the_drawings_are_whole_and_the_sets_ask_about_all_of_them() {
    let config = loaded();
    let mut asked = BTreeMap::new();
    let mut images = BTreeSet::new();
    let plan = plan(&config);
    plan.walk(|request| {
        let key = (request.planned.benchmark.clone(), request.planned.conditions.join("+"));
        *asked.entry(key).or_insert(0) += 1;
        for image in request.prompt.images() {
            let file = demo().join("simplevqa").join(&image.name);
            let (pixels, _) = decode(&std::fs::read(file).unwrap()).unwrap();
            assert!(pixels.width() >= 28 && pixels.height() >= 28, "{}", image.name);
            images.insert(image.name.clone());
        }
        true
    })
    .unwrap();
    let count = |label: &str, condition: &str| asked[&(label.to_owned(), condition.to_owned())];
    assert_eq!(images.len(), 36);
    assert_eq!(count("simplevqa", "original"), 36);
    assert_eq!(count("simplevqa", "text_only"), 36);
    assert_eq!(count("simplevqa-confidence", "original"), 36);
    // Ten ask what is simplest already.
    assert_eq!((count("simplevqa", "atomic"), count("simplevqa", "hinted")), (26, 26));
    assert_eq!(asked.len(), 5);
}

#[test]
fn prompts_are_those_of_the_reference() {
    let Some((_, mut wanted)) = expected() else { return };
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    let model = QwenVl::load(&demo().join("model"), DtypeChoice::F32, &device).unwrap();
    let config = loaded();
    let plan = plan(&config);
    plan.walk(|request| {
        let planned = &request.planned;
        let name = (planned.benchmark.clone(), planned.sample.clone(), planned.conditions.join("+"));
        let wanted = wanted.remove(&name).unwrap_or_else(|| panic!("the reference was not asked {name:?}"));
        let sized = |image: &str| {
            let file = std::fs::read(demo().join("simplevqa").join(image)).unwrap();
            fit(&file, &model.need(), &ImageTransform::default()).unwrap().0
        };
        let images: Vec<RgbImage> = request.prompt.images().iter().map(|image| sized(&image.name)).collect();
        for image in &images {
            let grid = serde_json::json!([1, image.height / 14, image.width / 14]);
            assert_eq!(grid, wanted["image_grid_thw"], "{name:?}");
        }
        let text = model.prompt_text(&request.prompt).unwrap();
        let prompt = model.expand(&text, &images.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(prompt.ids.len() as u64, wanted["prompt_tokens"].as_u64().unwrap(), "{name:?}");
        let of_images: usize = prompt.places.iter().map(|(_, tokens)| tokens).sum();
        assert_eq!(of_images as u64, wanted["image_tokens"].as_u64().unwrap(), "{name:?}");
        let joined = prompt.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(sha256_hex(&joined), wanted["prompt_ids_sha256"].as_str().unwrap(), "{name:?}");
        assert_eq!(planned.gold, [wanted["gold"].as_str().unwrap()], "{name:?}");
        true
    })
    .unwrap();
    assert!(wanted.is_empty(), "not asked: {:?}", wanted.keys());
}

#[test]
fn every_token_of_the_image_demo_is_the_reference_s() {
    let Some((whole, wanted)) = expected() else { return };
    let results = tempfile::tempdir().unwrap();
    let mut command = harness();
    command.args(["run", "configs/demo-images.toml", "--results"]).arg(results.path());
    finish(&mut command).exits_with(0).prints("simplevqa-confidence");
    let folder = results.path().join("demo-images");
    let of = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let responses: BTreeMap<String, Value> = journaled(&folder.join("responses.jsonl"))
        .into_iter()
        .map(|response| (of(&response, "request"), response))
        .collect();
    let planned = journaled(&folder.join("plan.jsonl"));
    assert_eq!(planned.len(), wanted.len());
    let mut different = Vec::new();
    for planned in planned {
        let conditions: Vec<String> = serde_json::from_value(planned["conditions"].clone()).unwrap();
        let name = (of(&planned, "benchmark"), of(&planned, "sample"), conditions.join("+"));
        let (wanted, got) = (&wanted[&name], &responses[&of(&planned, "request")]);
        assert_eq!(got["outcome"], "ok", "{name:?}: {got}");
        assert_eq!(got["usage"]["prompt_tokens"], wanted["prompt_tokens"], "{name:?}");
        if got["tokens"] == wanted["token_ids"] {
            assert_eq!(got["text"], wanted["text"], "{name:?}");
            continue;
        }
        let image = got["media"][0]["name"].as_str();
        let exact = image.is_none_or(|image| {
            let file = std::fs::read(demo().join("simplevqa").join(image)).unwrap();
            rgb_sha256(&file) == whole["images"][image]["rgb_sha256"].as_str().unwrap()
        });
        let least = if exact { NEAR_TIE } else { NEAR_TIE_LOSSY };
        assert!(
            wanted["min_gap"].as_f64().unwrap() < least,
            "{name:?}: {} instead of {}, and nothing is near",
            got["text"],
            wanted["text"]
        );
        different.push(name);
    }
    assert!(different.len() <= MOST_DIFFERENT, "{different:?}");
    println!("{} of {} answers differ at near ties", different.len(), responses.len());
}

#[test]
fn lossless_drawings_are_decoded_as_the_reference_saw_them() {
    let Some((whole, _)) = expected() else { return };
    let images = whole["images"].as_object().unwrap();
    for (name, image) in images {
        let file = std::fs::read(demo().join("simplevqa").join(name)).unwrap();
        let same = rgb_sha256(&file) == image["rgb_sha256"].as_str().unwrap();
        assert!(same || image["format"] != "PNG", "{name} has other pixels than Pillow's");
    }
    let lossless = images.values().filter(|image| image["format"] == "PNG").count();
    assert_eq!((images.len(), lossless), (36, 16));
}
