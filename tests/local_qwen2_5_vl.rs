//! The local Qwen2.5-VL against the reference implementation: transformers 5.24.0 in f32 with images sized by Pillow, on a
//! small random checkpoint in the published layout.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytes::Bytes;
use harness::media::ImageTransform;
use harness::media::image::fit;
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::generate::Generated;
use harness::model::local::qwen2_5_vl::{Expanded, QwenVl};
use harness::model::local::{LocalModel, LocalSpec, SpeechSpec, check};
use harness::model::{AudioNeed, ImageNeed, Model, PatchNeed, Prepared};
use harness::types::{
    AudioRef, Digest, Generation, ImageContent, ImageFile, ImageRecord, ImageRef, Message, Outcome, Part,
    PreparedImage, Prompt, RgbImage, Role, Window,
};
use serde_json::{Value, json};
use sha2::Digest as _;

/// The checkpoint's own limits.
const NEED: PatchNeed = PatchNeed { patch: 14, merge: 2, min_pixels: 3136, max_pixels: 100_352 };

/// JPEG decoders differ: libjpeg-turbo, which made the reference, and zune-jpeg, which decodes here, by up to so many
/// levels of 256 where colours are stored at half the size (measured on `photo.jpg`, 4:2:0)…
const JPEG_LEVELS: i32 = 6;
/// …and by two where they are not (`turned.jpg`, 4:4:4; one on processors whose vector units another path is for).
const JPEG_LEVELS_FULL: i32 = 2;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen2_5_vl")
}

fn reference() -> &'static Value {
    static REFERENCE: OnceLock<Value> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        serde_json::from_slice(&std::fs::read(fixtures().join("reference.json")).unwrap()).unwrap()
    })
}

/// The f32 tensors of the reference, by name.
fn tensors() -> BTreeMap<String, Vec<f32>> {
    let bytes = std::fs::read(fixtures().join("reference.safetensors")).unwrap();
    let (header, data) = split(&bytes);
    header
        .iter()
        .filter(|(name, _)| *name != "__metadata__")
        .map(|(name, entry)| {
            let offset = |index: usize| entry["data_offsets"][index].as_u64().unwrap() as usize;
            let values = data[offset(0)..offset(1)].chunks_exact(4);
            (name.clone(), values.map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect())
        })
        .collect()
}

/// Header and data of a safetensors file.
fn split(bytes: &[u8]) -> (serde_json::Map<String, Value>, &[u8]) {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[8..8 + length]).unwrap(), &bytes[8 + length..])
}

fn load(folder: &Path, dtype: DtypeChoice) -> QwenVl {
    let (device, _) = DeviceChoice::Cpu.open().unwrap();
    QwenVl::load(folder, dtype, &device).unwrap()
}

/// The model, loaded once. Tests take turns.
fn model() -> MutexGuard<'static, QwenVl> {
    static MODEL: OnceLock<Mutex<QwenVl>> = OnceLock::new();
    MODEL
        .get_or_init(|| Mutex::new(load(&fixtures().join("model"), DtypeChoice::F32)))
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn fitted(name: &str, need: &PatchNeed, asked: &ImageTransform) -> (RgbImage, ImageRecord) {
    fit(&std::fs::read(fixtures().join("images").join(name)).unwrap(), need, asked).unwrap()
}

fn image(name: &str) -> PreparedImage {
    // What the reference saw of a JPEG file; decoders differ.
    let name = name.replace(".jpg", "-decoded.png");
    let (pixels, _) = fitted(&name, &NEED, &ImageTransform::default());
    PreparedImage { digest: Digest::of(name.as_bytes()), content: ImageContent::Pixels(Arc::new(pixels)) }
}

/// The 8-bit values that normalised ones were made of, in the same order.
fn as_bytes(values: &[f32]) -> Vec<u8> {
    let (mean, deviation) =
        ([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_58, 0.275_777_11]);
    let back = |(index, value): (usize, &f32)| {
        let channel = index % 1176 / 392;
        (f64::from(*value) * deviation[channel] + mean[channel]) * 255.0
    };
    values.iter().enumerate().map(|value| back(value).round() as u8).collect()
}

fn is_jpeg(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "jpg")
}

fn sha256(bytes: &[u8]) -> String {
    harness::types::hex(&sha2::Sha256::digest(bytes))
}

fn grid(image: &RgbImage) -> Value {
    json!([1, image.height / 14, image.width / 14])
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn messages(case: &Value) -> Vec<Message> {
    let part = |part: &Value| match part["type"].as_str().unwrap() {
        "image" => Part::Image(ImageRef { name: part["image"].as_str().unwrap().to_owned() }),
        _ => Part::Text(part["text"].as_str().unwrap().to_owned()),
    };
    let message = |message: &Value| match message["role"].as_str().unwrap() {
        "system" => Message::text(Role::System, message["content"].as_str().unwrap()),
        _ => Message {
            role: Role::User,
            parts: message["content"].as_array().unwrap().iter().map(part).collect(),
        },
    };
    case["messages"].as_array().unwrap().iter().map(message).collect()
}

fn images(case: &Value) -> Vec<PreparedImage> {
    case["images"].as_array().unwrap().iter().map(|name| image(name.as_str().unwrap())).collect()
}

fn cases() -> &'static [Value] {
    reference()["cases"].as_array().unwrap()
}

fn greedy(max_new_tokens: usize) -> Generation {
    Generation { max_new_tokens, ..Generation::default() }
}

fn request(case: &Value, key: &str, generation: Generation) -> Prepared {
    Prepared {
        key: Digest::of(key.as_bytes()),
        prompt: Prompt::Chat(messages(case)),
        audio: Vec::new(),
        images: images(case),
        generation,
        seed: 11,
        exact_seed: false,
    }
}

fn answers(model: &mut QwenVl, requests: &[Prepared]) -> Vec<Generated> {
    model.answer(requests, true).unwrap().into_iter().map(|answer| answer.unwrap().1).collect()
}

fn largest_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Grids and pixel values: the 8-bit values of all patches in their order by hash, some normalised ones by value.
#[test]
fn pixel_values_are_those_of_the_reference() {
    let model = model();
    assert_eq!(model.need(), NEED);
    let all = reference()["images"].as_object().unwrap();
    assert_eq!(all.len(), 15);
    for (name, expected) in all {
        let exact = !is_jpeg(name);
        let (pixels, record) = fitted(name, &NEED, &ImageTransform::default());
        assert_eq!(grid(&pixels), expected["grid"], "{name}");
        assert_eq!(
            record.steps.last().unwrap(),
            &format!("grid:1x{}x{}", pixels.height / 14, pixels.width / 14)
        );
        let values = model.pixel_values(&pixels).unwrap();
        assert_eq!(values.len(), pixels.width / 14 * (pixels.height / 14) * 1176);
        if !exact {
            continue;
        }
        assert_eq!(sha256(&as_bytes(&values)), expected["sha256"].as_str().unwrap(), "{name}");
        let ends = [(&values[..1176], "first"), (&values[values.len() - 1176..], "last")];
        for (patch, which) in ends {
            for (value, expected) in patch.iter().step_by(49).zip(expected[which].as_array().unwrap()) {
                assert!((f64::from(*value) - expected.as_f64().unwrap()).abs() < 1e-6, "{name}");
            }
        }
        for limits in expected["limits"].as_array().into_iter().flatten() {
            let own = |key: &str| limits[key].as_u64().unwrap();
            let need = PatchNeed { min_pixels: own("min_pixels"), max_pixels: own("max_pixels"), ..NEED };
            let (pixels, _) = fitted(name, &need, &ImageTransform::default());
            assert_eq!(grid(&pixels), limits["grid"], "{name}");
            let values = model.pixel_values(&pixels).unwrap();
            assert_eq!(sha256(&as_bytes(&values)), limits["sha256"].as_str().unwrap(), "{name}");
            // A limit of the run stands for the model's own.
            let asked = ImageTransform { max_pixels: Some(need.max_pixels), ..ImageTransform::default() };
            let (asked, _) = fitted(name, &PatchNeed { max_pixels: NEED.max_pixels, ..need }, &asked);
            assert_eq!(asked, pixels, "{name}");
        }
    }
}

/// What was done to images is told.
#[test]
fn records_tell_what_was_done() {
    let none = ImageTransform::default();
    let steps = |name: &str, asked: &ImageTransform| fitted(name, &NEED, asked).1.steps;
    assert_eq!(steps("exact.png", &none), ["grid:1x16x16"]);
    assert_eq!(steps("large.png", &none), ["resize:bicubic:392x224", "grid:1x16x28"]);
    assert_eq!(steps("clear-palette.png", &none), ["alpha:white", "resize:bicubic:112x84", "grid:1x6x8"]);
    let small = ImageTransform { max_pixels: Some(20_000), ..none };
    assert_eq!(steps("exact.png", &small), ["resize:bicubic:140x140", "grid:1x10x10"]);
    // A tag that turns is passed over, as in the reference, unless the run asks for it.
    assert_eq!(steps("turned.jpg", &none), ["resize:bicubic:168x112", "grid:1x8x12"]);
    let upright = ImageTransform { orient: true, ..none };
    assert_eq!(steps("turned.jpg", &upright), ["orient:6", "resize:bicubic:112x168", "grid:1x12x8"]);
    let record = fitted("large.png", &NEED, &none).1;
    assert_eq!(
        (record.source.width, record.source.height, record.width, record.height),
        (640, 401, 392, 224)
    );
}

/// JPEG files come out a little different from different decoders, and no more than that: pixels by a few levels, and the
/// model says the same.
#[test]
fn jpeg_files_are_near_what_the_reference_saw() {
    let mut model = model();
    for (name, most) in [("photo", JPEG_LEVELS), ("turned", JPEG_LEVELS_FULL)] {
        let read = |name: String| std::fs::read(fixtures().join("images").join(name)).unwrap();
        let (theirs, _) = harness::media::image::decode(&read(format!("{name}-decoded.png"))).unwrap();
        // The least that is asked for is what there is: the size stays.
        let need = PatchNeed { patch: 2, merge: 1, min_pixels: 1, max_pixels: 1 << 30 };
        let ours = fit(&read(format!("{name}.jpg")), &need, &ImageTransform::default()).unwrap().0;
        assert_eq!(ours.data.len(), theirs.data().len());
        let apart = |(a, b): (&u8, &u8)| (i32::from(*a) - i32::from(*b)).abs();
        let largest = ours.data.iter().zip(theirs.data()).map(apart).max().unwrap();
        assert!(largest <= most, "{name}: {largest} levels");
    }
    let case = &cases()[1];
    assert_eq!(case["images"], json!(["photo.jpg"]));
    let (pixels, _) = fitted("photo.jpg", &NEED, &ImageTransform::default());
    let mut request = request(case, "jpeg", greedy(4));
    request.images[0] =
        PreparedImage { digest: Digest::of(b"photo"), content: ImageContent::Pixels(Arc::new(pixels)) };
    let answer = answers(&mut model, &[request]).remove(0);
    assert_eq!(answer.ids, ids(&case["greedy"])[..4]);
}

/// The vision tower, alone and with images of other sizes in one pass.
#[test]
fn image_vectors_are_those_of_the_reference() {
    let (model, tensors) = (model(), tensors());
    let names: Vec<&String> =
        reference()["images"].as_object().unwrap().keys().filter(|name| !is_jpeg(name)).collect();
    let pixels: Vec<RgbImage> =
        names.iter().map(|name| fitted(name, &NEED, &ImageTransform::default()).0).collect();
    let together = model.image_vectors(&pixels.iter().collect::<Vec<_>>()).unwrap();
    for ((name, pixels), together) in names.iter().zip(&pixels).zip(together) {
        let expected = &tensors[&format!("vision.{name}")];
        let alone = model.image_vectors(&[pixels]).unwrap().remove(0).concat();
        let difference = largest_difference(&alone, expected);
        assert!(difference < 1e-4, "{name}: {difference}");
        let difference = largest_difference(&together.concat(), expected);
        assert!(difference < 1e-4, "{name} among others: {difference}");
    }
}

fn expanded(model: &QwenVl, case: &Value) -> Expanded {
    let text = model.prompt_text(&Prompt::Chat(messages(case))).unwrap();
    assert_eq!(text, case["text"].as_str().unwrap());
    let images = images(case);
    let pixels: Vec<&RgbImage> = images.iter().map(|image| image.pixels().unwrap()).collect();
    model.expand(&text, &pixels).unwrap()
}

/// Prompts, ids, positions, logits and greedy tokens: one image, two, three, none, behind and between text.
#[test]
fn answers_are_those_of_the_reference() {
    let (mut model, tensors) = (model(), tensors());
    assert_eq!(cases().len(), 7);
    for (index, case) in cases().iter().enumerate() {
        let expanded = expanded(&model, case);
        assert_eq!(expanded.ids, ids(&case["ids"]), "{index}");
        for axis in 0..3 {
            let found: Vec<u32> = expanded.positions.iter().map(|position| position[axis]).collect();
            assert_eq!(found, ids(&case["positions"][axis]), "{index}");
        }
        let delta = i64::from(expanded.next) - expanded.ids.len() as i64;
        assert_eq!(delta, case["delta"].as_i64().unwrap(), "{index}");
        let logits = model.next_logits(&[(expanded, images(case))]).unwrap().remove(0);
        let expected = &tensors[&format!("logits.{index}")][..logits.len()];
        let difference = largest_difference(&logits, expected);
        assert!(difference < 1e-4, "{index}: {difference}");
        let answer = answers(&mut model, &[request(case, "a", greedy(20))]).remove(0);
        assert_eq!(answer.ids, ids(&case["greedy"]), "{index}");
        assert_eq!(answer.text, case["decoded"].as_str().unwrap(), "{index}");
    }
}

/// Prompts of different lengths and images in one batch, drawn and greedy: each as alone. Equal images are computed once.
#[test]
fn a_batch_answers_as_each_request_alone() {
    let mut model = load(&fixtures().join("model"), DtypeChoice::F32);
    let drawn =
        Generation { temperature: Some(1.0), top_p: 0.9, top_k: 40, repetition_penalty: 1.05, ..greedy(15) };
    let mut requests = Vec::new();
    for (index, case) in cases().iter().enumerate() {
        requests.push(request(case, &format!("greedy {index}"), greedy(20 - 2 * index)));
        requests.push(request(case, &format!("drawn {index}"), drawn.clone()));
    }
    let together = answers(&mut model, &requests);
    // wide, photo, tall, exact, grey, strip, clear, tiny, large.
    assert_eq!(model.encoded_images(), 9);
    for (index, case) in cases().iter().enumerate() {
        assert_eq!(together[2 * index].ids, ids(&case["greedy"])[..20 - 2 * index], "{index}");
    }
    for (request, together) in requests.iter().zip(&together) {
        assert_eq!(&answers(&mut model, std::slice::from_ref(request))[0], together);
    }
    assert_eq!(model.encoded_images(), 9);
    assert_ne!(together[1].ids, together[0].ids[..15]);
}

/// Prompts that begin alike share what was computed of the beginning: with another image behind it, and within an image.
#[test]
fn shared_beginnings_change_nothing() {
    let mut model = model();
    let asked = |images: &[&str], text: &str| {
        let mut parts: Vec<Part> =
            images.iter().map(|name| Part::Image(ImageRef { name: (*name).to_owned() })).collect();
        parts.push(Part::Text(text.to_owned()));
        Prepared {
            key: Digest::of(text.as_bytes()),
            prompt: Prompt::Chat(vec![Message { role: Role::User, parts }]),
            audio: Vec::new(),
            images: images.iter().map(|name| image(name)).collect(),
            generation: greedy(12),
            seed: 0,
            exact_seed: false,
        }
    };
    let requests = [
        asked(&["exact.png"], "What is in the picture?"),
        asked(&["exact.png"], "What is in the picture? Answer in one word."),
        asked(&["exact.png", "tiny.png"], "What is it?"),
        asked(&["large.png"], "What is in the picture?"),
    ];
    let together = answers(&mut model, &requests);
    for (request, together) in requests.iter().zip(&together) {
        assert_eq!(&answers(&mut model, std::slice::from_ref(request))[0], together);
    }
    assert_ne!(together[0].ids, together[3].ids);
}

/// A copy of the checkpoint that a test may change.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixtures().join("model")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// What transformers 5 writes: nested config, other names of tensors, the image processor within `processor_config.json`.
#[test]
fn the_newer_layout_is_the_same_model() {
    let folder = copy();
    std::fs::copy(fixtures().join("nested.json"), folder.path().join("config.json")).unwrap();
    std::fs::remove_file(folder.path().join("preprocessor_config.json")).unwrap();
    let processor = json!({"processor_class": "Qwen2_5_VLProcessor", "image_processor": {
        "size": {"shortest_edge": 3136, "longest_edge": 100_352}, "patch_size": 14, "merge_size": 2,
        "temporal_patch_size": 2, "resample": 3, "rescale_factor": 0.003_921_568_627_450_98,
        "image_processor_type": "Qwen2VLImageProcessor"}});
    std::fs::write(folder.path().join("processor_config.json"), processor.to_string()).unwrap();
    let bytes = std::fs::read(folder.path().join("model.safetensors")).unwrap();
    let (header, data) = split(&bytes);
    let renamed: serde_json::Map<String, Value> = header
        .into_iter()
        .map(|(name, entry)| match name.split_once('.') {
            Some(("visual", _)) => (format!("model.{name}"), entry),
            Some(("model", rest)) => (format!("model.language_model.{rest}"), entry),
            _ => (name, entry),
        })
        .collect();
    let header = serde_json::to_vec(&renamed).unwrap();
    let file = [&(header.len() as u64).to_le_bytes()[..], &header, data].concat();
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    let mut newer = load(folder.path(), DtypeChoice::F32);
    assert_eq!(newer.need(), NEED);
    let request = request(&cases()[2], "a", greedy(20));
    assert_eq!(answers(&mut newer, &[request]).remove(0).ids, ids(&cases()[2]["greedy"]));
}

/// Half as many digits: near the reference, not equal.
#[test]
fn it_computes_in_16_bits_too() {
    let mut model = load(&fixtures().join("model"), DtypeChoice::Bf16);
    let case = &cases()[2];
    let prompt = expanded(&model, case);
    let logits = model.next_logits(&[(prompt, images(case))]).unwrap().remove(0);
    let expected = &tensors()["logits.2"][..logits.len()];
    let scale = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    assert!(largest_difference(&logits, expected) < 0.1 * scale);
}

fn spec() -> LocalSpec {
    LocalSpec {
        dir: fixtures().join("model"),
        architecture: "qwen2_5_vl".to_owned(),
        device: "cpu".to_owned(),
        dtype: "auto".to_owned(),
        batch_size: 3,
        max_seconds: 30.0,
        name: "tiny".to_owned(),
        speech: SpeechSpec::default(),
    }
}

#[test]
fn it_is_a_local_model_that_sees_and_does_not_hear() {
    let model = LocalModel::load(&spec()).unwrap();
    assert_eq!(model.identity().model, "qwen2_5_vl");
    assert_eq!(
        (model.accepts().audio.clone(), model.accepts().images),
        (AudioNeed::None, ImageNeed::Pixels(NEED))
    );
    let clip = Part::Audio(AudioRef { name: "a.wav".to_owned(), window: Window::Whole });
    let mut heard = request(&cases()[0], "heard", greedy(4));
    heard.prompt = Prompt::Chat(vec![Message { role: Role::User, parts: vec![clip] }]);
    let mut file = request(&cases()[0], "file", greedy(4));
    let png = Arc::new(ImageFile::new(Bytes::from_static(b"PNG"), "png"));
    file.images[0] = PreparedImage { digest: Digest::of(b"PNG"), content: ImageContent::File(png) };
    let mut fewer = request(&cases()[2], "fewer", greedy(4));
    fewer.images.pop();
    let mut odd = request(&cases()[0], "odd", greedy(4));
    let pixels = RgbImage { width: 30, height: 28, data: vec![0; 30 * 28 * 3] };
    odd.images[0] =
        PreparedImage { digest: Digest::of(b"odd"), content: ImageContent::Pixels(Arc::new(pixels)) };
    let mut long = request(&cases()[0], "long", greedy(4));
    let pixels = RgbImage { width: 28 * 40, height: 28 * 20, data: vec![0; 28 * 40 * 28 * 20 * 3] };
    long.images[0] =
        PreparedImage { digest: Digest::of(b"long"), content: ImageContent::Pixels(Arc::new(pixels)) };
    let mut none = request(&cases()[0], "none", greedy(4));
    none.generation.max_new_tokens = 0;
    let good = request(&cases()[0], "good", greedy(4));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = runtime.block_on(model.answer(vec![heard, file, fewer, odd, long, none, good]));
    for (answer, part) in answers.iter().zip([
        "this model hears none",
        "takes pixels",
        "2 placeholders of images (`<|image_pad|>`) and 1 images",
        "30 x 28 pixels, and the model takes sides that are multiples of 28",
        "(800 of them images), and the model takes fewer than 512",
        "max_new_tokens is 0",
    ]) {
        assert_eq!(answer.outcome, Outcome::RequestError);
        assert!(answer.error.as_ref().unwrap().contains(part), "{answer:?}");
    }
    let good = &answers[6];
    assert!(matches!(good.outcome, Outcome::Length | Outcome::Ok), "{good:?}");
    assert_eq!(good.tokens.as_ref().unwrap()[..4], ids(&cases()[0]["greedy"])[..4]);
    assert_eq!(good.usage.prompt_tokens, ids(&cases()[0]["ids"]).len() as u64);
}

#[test]
fn folders_that_are_wrong_get_a_sentence() {
    let inventory = check(&fixtures().join("model")).unwrap();
    assert_eq!((inventory.architecture.as_str(), inventory.bins), ("qwen2_5_vl", None));
    let spoiled = |file: &str, change: &dyn Fn(&mut Value)| {
        let folder = copy();
        let path = folder.path().join(file);
        let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(path, value.to_string()).unwrap();
        check(folder.path()).unwrap_err().to_string()
    };
    let config = "config.json";
    for (error, part) in [
        (
            spoiled(config, &|c| c["vision_config"]["depth"] = json!(4)),
            "missing (visual.blocks.3.attn.proj.bias",
        ),
        (spoiled(config, &|c| c["vision_config"]["intermediate_size"] = json!(56)), "wrong shape"),
        (spoiled(config, &|c| c["rope_scaling"]["mrope_section"] = json!([2, 3, 4])), "add up to 9"),
        (spoiled(config, &|c| c["image_token_id"] = json!(220)), "does not treat it as a special token"),
        (spoiled(config, &|c| c["image_token_id"] = json!(319)), "has no such token"),
        (spoiled("preprocessor_config.json", &|c| c["patch_size"] = json!(16)), "patch_size is 16"),
    ] {
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    let folder = copy();
    std::fs::remove_file(folder.path().join("preprocessor_config.json")).unwrap();
    assert!(check(folder.path()).unwrap_err().to_string().contains("preprocessor_config.json is missing"));
}
