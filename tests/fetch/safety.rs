//! Names and archives that mean harm, and files of the user's that must stay.

use crate::hub_server::Repo;
use crate::scene::{Scene, hub_part, tar_gz};

#[test]
fn a_listing_that_leads_out_is_refused_whole() {
    for name in ["../x", "a/../../x", "/x", "a\\..\\x", "a//x"] {
        let scene = Scene::new();
        let mut repo = Repo::new([("good.txt", b"good".to_vec())]);
        repo.odd_name = Some(name.to_owned());
        scene.server.put("datasets/org/set", repo);
        scene.describe(&hub_part("audio", "path = \"*\""));
        let done = scene.fetch(&[]).exits_with(1);
        done.says(&format!("datasets/org/set holds the file name `{name}`, which leads out of its folder"));
        assert_eq!(scene.data("good.txt"), None);
        assert!(!scene.path("x").exists());
    }
}

#[test]
fn an_archive_that_leads_out_is_refused() {
    let scene = Scene::new();
    let archive = tar_gz(&[("ok.txt", b"ok"), ("../../out.txt", b"out")]);
    scene.server.put("datasets/org/set", Repo::new([("a.tar.gz", archive)]));
    scene.describe(&hub_part("audio", "path = \"*.tar.gz\"\nunpack = \"tar.gz\""));
    scene.fetch(&[]).exits_with(1).says("holds the file name `../../out.txt`, which leads out");
    assert!(!scene.path("out.txt").exists() && !scene.dir.path().join("../out.txt").exists());
}

#[test]
fn a_description_that_leads_out_is_refused() {
    let scene = Scene::new();
    scene.server.put("datasets/org/set", Repo::new([("x.txt", b"x".to_vec())]));
    scene.describe(&hub_part("audio", "path = \"x.txt\"\nto = \"../x.txt\""));
    scene.fetch(&[]).exits_with(1).says("the file name `../x.txt`, which leads out");
    scene.describe(&hub_part("audio", "path = \"*.txt\"\nto = \"same.txt\""));
    scene.server.put("datasets/org/set", Repo::new([("x.txt", b"x".to_vec()), ("y.txt", b"y".to_vec())]));
    scene.fetch(&[]).exits_with(2).says("two files of the published data would become `same.txt`");
    scene.describe(&hub_part("audio", "path = \"*.wav\""));
    scene.fetch(&[]).exits_with(1).says("no file fits `*.wav` in datasets/org/set at ");
}

#[test]
fn a_hub_that_speaks_of_other_files_than_it_sends_is_not_believed() {
    let scene = Scene::new();
    let mut repo = Repo::new([("large.bin", crate::scene::noise(1, 20_000))]);
    repo.lies = true;
    scene.server.put("datasets/org/set", repo);
    scene.describe(&hub_part("audio", "path = \"*\""));
    scene.fetch(&[]).exits_with(1).says("sha256 expected");
}

#[test]
fn files_of_the_user_stay() {
    let scene = Scene::new();
    scene.one_plain(b"published", true);
    std::fs::create_dir(scene.path("data")).unwrap();
    std::fs::write(scene.path("data/f.bin"), "mine").unwrap();
    scene
        .fetch(&[])
        .exits_with(2)
        .says("f.bin: a file is there that is not the published one (it has 4 bytes");
    assert_eq!(scene.data("f.bin").unwrap(), b"mine");
    // The published file, put there by hand, is taken.
    std::fs::write(scene.path("data/f.bin"), "published").unwrap();
    scene.fetch(&[]).exits_with(0).prints("verified against published hashes");
    assert_eq!(scene.server.sent("f.bin"), 0);

    let scene = Scene::new();
    scene.server.put("datasets/org/set", Repo::new([("x.txt", b"x".to_vec())]));
    scene.describe(&hub_part("audio", "path = \"*\""));
    std::fs::create_dir(scene.path("data")).unwrap();
    std::fs::write(scene.path("data/x.txt"), "y").unwrap();
    scene.fetch(&[]).exits_with(1).says("x.txt: a file is there that is not the published one");
    assert_eq!(scene.data("x.txt").unwrap(), b"y");
}

#[test]
fn wrong_settings_and_names_get_a_sentence() {
    let scene = Scene::new();
    scene.one_plain(b"x", false);
    let finish = crate::common::finish;
    finish(scene.fetch_command(&[]).env("HF_ENDPOINT", "hf-mirror"))
        .exits_with(2)
        .says("HF_ENDPOINT is no address");
    finish(&mut scene.command(&["fetch", "nothing-known"]))
        .exits_with(2)
        .says("no published data are known of `nothing-known`");
    finish(&mut scene.command(&["fetch"])).exits_with(2);
    finish(&mut scene.command(&["fetch", "--model", "gpt2"])).exits_with(2).says("expected owner/name");
    std::fs::write(scene.path("sources.toml"), "a = 1").unwrap();
    scene.fetch(&[]).exits_with(2).says("this describes no published data");
}

#[test]
fn a_file_that_lies_there_cut_does_not_pass_for_whole() {
    let scene = Scene::new();
    // Neither its size nor its hash is published.
    scene.one_plain(b"published", false);
    std::fs::create_dir(scene.path("data")).unwrap();
    std::fs::write(scene.path("data/f.bin"), "publi").unwrap();
    let cut = "f.bin: a file is there that is not the published one (it has 5 bytes, the published one 9)";
    scene.fetch(&[]).exits_with(2).says(cut);
    assert_eq!(scene.data("f.bin").unwrap(), b"publi", "it may be the user's");
    crate::common::finish(scene.fetch_command(&[]).env("HF_HUB_OFFLINE", "1"))
        .exits_with(2)
        .says("fetch.json says nothing of it");
    std::fs::write(scene.path("data/f.bin"), "published").unwrap();
    scene.fetch(&[]).exits_with(0);
    // Once it is recorded nothing is asked again, and a file that was cut since is not taken.
    scene.server.take_log();
    scene.fetch(&[]).exits_with(0).prints("complete");
    assert_eq!(scene.server.take_log().len(), 0);
    std::fs::write(scene.path("data/f.bin"), "publi").unwrap();
    scene.fetch(&[]).exits_with(2).says(cut);
}
