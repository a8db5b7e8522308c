//! From an archive on a hub to clips that a benchmark reads: the layout of CCFQA, in small.

use harness::dataset::Dataset;
use harness::media::MediaContent;
use serde_json::{Value, json};

use crate::common::{finish, harness, root};
use crate::hub_server::{Repo, sha256};
use crate::scene::{Scene, hub_part};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(root().join("tests/fixtures/datasets/ccfqa-archive").join(name)).unwrap()
}

/// The parts of `src/benchmark/sources/ccfqa.toml`: rows at a commit, recordings in an archive of the hub.
fn published(scene: &Scene, archive: Vec<u8>) {
    let questions = fixture("jsonl/test.jsonl");
    scene.server.put("datasets/org/set", Repo::new([("audio.tar.gz", archive)]));
    scene.server.put_web("/raw/own/repo/c0ffee/jsonl/test.jsonl", &questions);
    let part = format!(
        "[[part]]\nname = \"questions\"\nabout = \"rows\"\n[part.origin.github]\nrepo = \"own/repo\"\n\
         commit = \"c0ffee\"\n[[part.file]]\npath = \"jsonl/test.jsonl\"\nbytes = {}\nsha256 = \"{}\"\n",
        questions.len(),
        sha256(&questions)
    );
    scene.describe(&format!("{part}{}", hub_part("audio", "path = \"*.tar.gz\"\nunpack = \"tar.gz\"")));
}

/// The same files without a folder around them.
fn without_folder(archive: &[u8]) -> Vec<u8> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut out = tar::Builder::new(gzip);
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        let mut header = entry.header().clone();
        let path = path.strip_prefix("data").unwrap_or(&path).to_owned();
        out.append_data(&mut header, path, &mut entry).unwrap();
    }
    out.into_inner().unwrap().finish().unwrap()
}

#[test]
fn recordings_of_an_archive_are_found_with_a_folder_around_them_and_without() {
    let expected: Value = serde_json::from_slice(&fixture("expected.json")).unwrap();
    let with_folder = fixture("audio.tar.gz");
    for (archive, place) in [(without_folder(&with_folder), ""), (with_folder, "data/")] {
        let scene = Scene::new();
        published(&scene, archive);
        scene.fetch(&[]).exits_with(0).prints("2 files");
        assert!(scene.data(&format!("{place}eng/61-20250101000001.wav")).is_some());
        assert!(scene.data("._data").is_none(), "what the Finder adds is no data");

        let folder = scene.path("data");
        let data = Dataset::open(&folder, None).unwrap();
        let rows: Vec<Value> = data.rows().unwrap().map(|row| row.unwrap().value).collect();
        assert_eq!(&rows, expected["rows"].as_array().unwrap());
        let mut clips = 0;
        for row in &rows {
            for entry in row.as_object().unwrap().values().filter(|entry| entry.is_object()) {
                let name = entry["audio"].as_str().unwrap();
                let Ok(MediaContent::File(bytes)) = data.media(name).unwrap().read() else {
                    panic!("{name}")
                };
                assert_eq!(expected["media"][name], json!({"bytes": bytes.len(), "sha256": sha256(&bytes)}));
                clips += 1;
            }
        }
        assert_eq!(clips, 24);

        let shown = finish(harness().arg("data").arg(&folder).args(["--benchmark", "ccfqa", "--json"]));
        let shown: Value = serde_json::from_str(&shown.exits_with(1).stdout).unwrap();
        let shown = &shown["ccfqa"];
        assert_eq!(
            (&shown["rows"], &shown["audio"]["files"], &shown["missing"]),
            (&json!(3), &json!(24), &json!(0))
        );
        assert_eq!(shown["differs"], json!(["3 rows instead of 1,000"]));
        finish(&mut scene.command(&["prepare", "ccfqa", "--data", folder.to_str().unwrap()]))
            .exits_with(0)
            .prints("nothing needs to be prepared");
    }
}
