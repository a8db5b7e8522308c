//! Images on their way to a server: untouched by default at any concurrency, changed where the config says so, and the
//! journal tells which.

use serde_json::{Value, json};

use crate::loopback::{Loopback, Options, Piece, base64, right_answer};
use crate::scene::Scene;

/// A PNG file of noise in stored blocks: about as many bytes as asked for, no two alike.
fn png(seed: u32, bytes: usize) -> Vec<u8> {
    let side = ((bytes / 3) as f64).sqrt() as u32;
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    let pixels: Vec<u8> = std::iter::repeat_with(noise).take((side * side * 3) as usize).collect();
    let mut file = std::io::Cursor::new(Vec::new());
    image::RgbImage::from_raw(side, side, pixels)
        .unwrap()
        .write_to(&mut file, image::ImageFormat::Png)
        .unwrap();
    file.into_inner()
}

const QUESTION: &str = "What is seen?";

/// Rows on images of a scene; each reference is what the server owes to just these bytes.
fn ask(scene: &Scene, images: &[(String, Vec<u8>)]) {
    let rows = images.iter().map(|(name, bytes)| {
        std::fs::write(scene.place.path(name), bytes).unwrap();
        let reference = right_answer(&[Piece::Media(base64(bytes).as_bytes()), Piece::Text(QUESTION)]);
        format!("{}\n", json!({"id": name, "image": name, "question": QUESTION, "reference": reference}))
    });
    std::fs::write(scene.place.path("rows.jsonl"), rows.collect::<String>()).unwrap();
}

#[test]
fn images_go_byte_for_byte_at_concurrency_64() {
    let server = Loopback::start(Options::of("--strict --takes image")).unwrap();
    let scene = Scene::new(1, &server.url(), "concurrency = 64");
    let images: Vec<(String, Vec<u8>)> = (0..150).map(|n| (format!("{n}.png"), png(n, 200_000))).collect();
    ask(&scene, &images);
    scene.run(&[]).exits_with(0);
    // Each answer is the hash of its own image and question.
    scene.is_whole(150, "images");
    let counters = server.counters();
    assert_eq!((counters.requests, counters.with_media), (150, 150));
    for response in scene.place.responses() {
        let media = &response["media"][0];
        let bytes = std::fs::read(scene.place.path(media["name"].as_str().unwrap())).unwrap();
        assert_eq!(media["digest"], blake3::hash(&bytes).to_hex().to_string());
        assert_eq!(media["sent"], json!({"format": "png", "bytes": bytes.len()}));
        let side = media["image"]["width"].as_u64().unwrap();
        let source = json!({"format": "png", "width": side, "height": side});
        assert_eq!(media["image"], json!({"source": source, "width": side, "height": side}));
    }
}

#[test]
fn images_are_changed_where_the_config_says_so_and_the_tables_tell() {
    let server = Loopback::start(Options::of("--strict --takes image")).unwrap();
    let scene = Scene::new(1, &server.url(), "");
    let small = png(1, 30_000);
    ask(&scene, &[("small.png".to_owned(), small), ("large.png".to_owned(), png(2, 120_000))]);
    scene.place.edit("[model.audio]", "[model.image]\nmax_side = 150\nfilter = \"lanczos\"\n\n[model.audio]");
    let done = scene.run(&[]).exits_with(0);
    assert!(done.stdout.contains("images changed: at most 150 pixels a side (lanczos)"), "{}", done.stdout);
    let steps = |name: &str| -> Value {
        let responses = scene.place.responses();
        let response = responses.iter().find(|response| response["sample"] == name).unwrap();
        response["media"][0]["image"].get("steps").cloned().unwrap_or(json!([]))
    };
    assert_eq!(steps("small.png"), json!([]));
    assert_eq!(steps("large.png"), json!(["resize:lanczos:150x150", "encode:png"]));
    // Another transform is another run.
    scene.place.edit("max_side = 150", "max_side = 100");
    scene.run(&[]).exits_with(2).says("images");
}

#[test]
fn a_check_reads_the_header_of_every_image() {
    let server = Loopback::start(Options::of("--strict --takes image")).unwrap();
    let scene = Scene::new(1, &server.url(), "");
    let page = b"<html><body>Please log in</body></html>".to_vec();
    let cut = png(3, 3_000)[..20].to_vec();
    ask(
        &scene,
        &[
            ("good.png".to_owned(), png(1, 30_000)),
            ("page.jpg".to_owned(), page),
            ("cut.png".to_owned(), cut),
            ("empty.png".to_owned(), Vec::new()),
        ],
    );
    let done = crate::common::finish(&mut scene.place.command("check", &[])).exits_with(2);
    assert!(done.stdout.contains("images    1, 100 x 100 to 100 x 100 pixels (1 png)"), "{}", done.stdout);
    for text in ["sample page.jpg: ", "sample cut.png: ", "sample empty.png: "] {
        assert!(done.stderr.contains(text), "{text}: {}", done.stderr);
    }
    assert_eq!(server.counters().requests, 0);
}

#[test]
fn a_check_looks_at_images_as_they_are_to_be_changed() {
    let server = Loopback::start(Options::of("--strict --takes image")).unwrap();
    let scene = Scene::new(1, &server.url(), "");
    let mut bitmap = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(8, 6).write_to(&mut bitmap, image::ImageFormat::Bmp).unwrap();
    let mut bomb = png(1, 30_000);
    for at in [16, 20] {
        bomb[at..at + 4].copy_from_slice(&100_000_u32.to_be_bytes());
    }
    ask(&scene, &[("small.bmp".to_owned(), bitmap.into_inner()), ("bomb.png".to_owned(), bomb)]);
    let check = || crate::common::finish(&mut scene.place.command("check", &[])).exits_with(2);
    check().says("small.bmp: is a BMP image, and only PNG, JPEG, WebP and GIF are sent");
    scene.place.edit("[model.audio]", "[model.image]\nformat = \"png\"\n\n[model.audio]");
    let done = check().prints("images    1, 8 x 6 to 8 x 6 pixels (1 bmp)").says("1 problem found");
    // What a run says of it, word for word.
    scene.run(&[]).exits_with(1);
    let responses = scene.place.responses();
    let failed: Vec<&Value> = responses.iter().filter(|r| r["outcome"] == "media_error").collect();
    assert_eq!((failed.len(), &failed[0]["sample"]), (1, &json!("bomb.png")));
    let error = failed[0]["error"].as_str().unwrap();
    assert!(error.contains("declares 100000 x 100000 pixels") && done.stderr.contains(error), "{error}");
}
