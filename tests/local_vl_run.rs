//! Runs of the program with a local model that sees: the small Qwen2.5-VL of the fixtures on made-up rows of SimpleVQA and
//! on a user's own images.
#![cfg(feature = "local")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;

use common::{Place, finish, root};
use serde_json::{Value, json};

/// Rows of SimpleVQA and the user's own; two images of the former are broken.
fn place() -> Place {
    let place = Place::new("");
    let fixtures = root().join("tests/fixtures/qwen2_5_vl");
    std::fs::create_dir(place.path("images")).unwrap();
    for entry in std::fs::read_dir(fixtures.join("images")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, place.path("images").join(path.file_name().unwrap())).unwrap();
    }
    let photo = std::fs::read(fixtures.join("images/photo.jpg")).unwrap();
    std::fs::write(place.path("images/cut.jpg"), &photo[..photo.len() / 2]).unwrap();
    // A PNG that declares 60,000 x 60,000 pixels.
    let mut bomb = std::fs::read(fixtures.join("images/wide.png")).unwrap();
    for at in [16, 20] {
        bomb[at..at + 4].copy_from_slice(&60_000_u32.to_be_bytes());
    }
    std::fs::write(place.path("images/bomb.png"), bomb).unwrap();
    let row = |id: u32, image: &str| {
        let language = if id.is_multiple_of(2) { "CN" } else { "EN" };
        json!({"data_id": id, "image": image, "language": language, "question": "What is in the picture?",
            "answer": "A tower", "atomic_question": "What is it?", "atomic_fact": "A tower",
            "vqa_category": {"task_category": "Objective recognition", "subject_category": "Architecture"}})
    };
    let images = ["wide.png", "photo.jpg", "cut.jpg", "large.png", "bomb.png", "wide.png", "clear.png"];
    let rows = images.iter().zip(1..).map(|(image, id)| format!("{}\n", row(id, image)));
    std::fs::write(place.path("vqa.jsonl"), rows.collect::<String>()).unwrap();
    let own = [
        json!({"id": "one", "image": "wide.png", "question": "What is in the picture?", "reference": "x"}),
        json!({"id": "two", "image": ["tall.png", "exact.png"],
            "question": "Compare both pictures; which one is older?", "reference": "x"}),
        json!({"id": "none", "question": "What is a tower?", "reference": "x"}),
    ];
    std::fs::write(place.path("own.jsonl"), own.map(|row| format!("{row}\n")).concat()).unwrap();
    let config = format!(
        "[model]\nkind = \"local\"\narchitecture = \"qwen2_5_vl\"\nweights = \"{}\"\ndevice = \"cpu\"\nbatch_size = 3\n\n\
         [generation]\nmax_new_tokens = 12\n\n[judge]\nkind = \"match\"\n\n\
         [[benchmark]]\nname = \"simplevqa\"\ndata = \"vqa.jsonl\"\nmedia = \"images\"\nallow_other_data = true\n\
         conditions = [\"original\", \"text_only\"]\n\n\
         [[benchmark]]\nname = \"manifest\"\ndata = \"own.jsonl\"\nmedia = \"images\"\nmetrics = [\"exact_match\"]\n",
        fixtures.join("model").display()
    );
    std::fs::write(place.path("c.toml"), config).unwrap();
    place
}

fn steps(response: &Value) -> Vec<&str> {
    let steps = response["media"][0]["image"]["steps"].as_array().unwrap();
    steps.iter().map(|step| step.as_str().unwrap()).collect()
}

#[test]
fn a_model_that_sees_answers_simplevqa_and_broken_images_fail_alone() {
    let place = place();
    place.run(&[]).exits_with(1);
    let responses = place.responses();
    // Seven rows with their images, seven without, three of the user's own.
    assert_eq!(responses.len(), 17);
    let of = |benchmark: &'static str| responses.iter().filter(move |r| r["benchmark"] == benchmark);
    let failed: Vec<&Value> = responses.iter().filter(|r| r["outcome"] == "media_error").collect();
    let sentence = |name: &str| {
        let found = failed.iter().find(|r| r["error"].as_str().unwrap().contains(name));
        found.unwrap_or_else(|| panic!("{name} did not fail: {failed:?}"))["error"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(failed.len(), 2);
    assert!(sentence("cut.jpg").contains("cut short"));
    assert!(sentence("bomb.png").contains("60000 x 60000 pixels"));
    let seen: Vec<&Value> = of("simplevqa").filter(|r| r["media"].is_array()).collect();
    assert_eq!(seen.len(), 5);
    for response in &seen {
        let outcome = response["outcome"].as_str().unwrap();
        assert!(matches!(outcome, "ok" | "length" | "empty"), "{response}");
        let media = &response["media"][0];
        let grid = match media["name"].as_str().unwrap() {
            "wide.png" => (vec!["resize:bicubic:140x56", "grid:1x4x10"], (130, 61), (140, 56)),
            "photo.jpg" => (vec!["resize:bicubic:308x224", "grid:1x16x22"], (300, 220), (308, 224)),
            "large.png" => (vec!["resize:bicubic:392x224", "grid:1x16x28"], (640, 401), (392, 224)),
            _ => (vec!["alpha:white", "resize:bicubic:112x84", "grid:1x6x8"], (120, 90), (112, 84)),
        };
        assert_eq!(steps(response), grid.0);
        let size = |value: &Value| (value["width"].as_u64().unwrap(), value["height"].as_u64().unwrap());
        assert_eq!((size(&media["image"]["source"]), size(&media["image"])), (grid.1, grid.2));
        // No file goes anywhere.
        assert_eq!(media["sent"], Value::Null);
    }
    // The same image under the same question in the same language is asked about once.
    let same: Vec<&&Value> = seen.iter().filter(|r| r["media"][0]["name"] == "wide.png").collect();
    assert_eq!(same[0]["media"][0]["digest"], same[1]["media"][0]["digest"]);
    // The user's own prompts are those of the reference, and so are the answers.
    let reference: Value = serde_json::from_slice(
        &std::fs::read(root().join("tests/fixtures/qwen2_5_vl/reference.json")).unwrap(),
    )
    .unwrap();
    for (id, case) in [("one", 0), ("two", 2), ("none", 3)] {
        let response = of("manifest").find(|r| r["sample"] == id).unwrap();
        let tokens = response["tokens"].as_array().unwrap();
        assert_eq!(
            tokens[..],
            reference["cases"][case]["greedy"].as_array().unwrap()[..tokens.len()],
            "{id}"
        );
        let ids = reference["cases"][case]["ids"].as_array().unwrap().len();
        assert_eq!(response["usage"]["prompt_tokens"], ids);
    }
    // What failed is tried again, and nothing else.
    place.run(&[]).exits_with(1);
    let again = place.responses();
    assert_eq!(again[..17], responses[..]);
    assert!(again[17..].iter().all(|r| r["outcome"] == "media_error"));
}

#[test]
fn a_limit_of_pixels_is_kept_and_told() {
    let place = place();
    place.edit("[generation]", "[model.image]\nmax_pixels = 20000\n\n[generation]");
    let done = place.run(&[]).exits_with(1);
    for response in place.responses().iter().filter(|r| r["media"].is_array()) {
        for media in response["media"].as_array().unwrap() {
            let image = &media["image"];
            let pixels = image["width"].as_u64().unwrap() * image["height"].as_u64().unwrap();
            assert!((3136..=20_000).contains(&pixels), "{media}");
        }
    }
    assert!(done.stdout.contains("images changed: at most 20000 pixels"), "{}", done.stdout);
    assert!(!done.stdout.contains("clips of at most"), "the model hears none: {}", done.stdout);
}

#[test]
fn a_clip_is_refused_with_a_sentence() {
    let place = place();
    std::fs::write(place.path("images/a.wav"), common::wav((0..800).map(|sample| sample % 300))).unwrap();
    let row = json!({"id": "clip", "audio": "a.wav", "question": "What is said?", "reference": "x"});
    std::fs::write(place.path("own.jsonl"), format!("{row}\n")).unwrap();
    place.run(&[]).exits_with(1);
    let responses = place.responses();
    let heard = responses.iter().find(|r| r["sample"] == "clip").unwrap();
    assert_eq!(heard["outcome"], "request_error");
    assert!(heard["error"].as_str().unwrap().contains("the model hears none"), "{heard}");
}

#[test]
fn a_check_says_of_images_what_a_run_would() {
    let place = place();
    image::RgbImage::new(7, 2000).save(place.path("images/thin.png")).unwrap();
    image::RgbImage::new(80, 60).save(place.path("images/small.bmp")).unwrap();
    let rows = ["thin.png", "small.bmp"].map(|name| {
        let row = json!({"id": name, "image": name, "question": "What is in the picture?", "reference": "x"});
        format!("{row}\n")
    });
    std::fs::write(place.path("own.jsonl"), rows.concat()).unwrap();
    let check = finish(&mut place.command("check", &[])).exits_with(2).says("3 problems found");
    assert!(!check.stderr.contains("small.bmp"), "a bitmap is decoded: {}", check.stderr);
    place.run(&[]).exits_with(1);
    let responses = place.responses();
    let failed: Vec<&Value> = responses.iter().filter(|r| r["outcome"] == "media_error").collect();
    assert_eq!(failed.len(), 3);
    for text in ["cut short", "60000 x 60000 pixels", "more than 200 times"] {
        let mut errors = failed.iter().map(|response| response["error"].as_str().unwrap());
        let error = errors.find(|error| error.contains(text)).unwrap();
        assert!(check.stderr.contains(error), "{error}\n{}", check.stderr);
        assert!(!error.contains("format ="), "a key that is refused for a local model: {error}");
    }
}
