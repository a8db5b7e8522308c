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

/// A part of one Parquet file of which neither size nor hash is published.
fn parquet_part() -> &'static str {
    "[[part]]\nname = \"speech\"\nabout = \"a plain file\"\n[part.origin.github]\nrepo = \"own/repo\"\n\
     commit = \"c0ffee\"\n[[part.file]]\npath = \"x.parquet\"\n"
}

#[test]
fn a_web_page_does_not_become_a_file_of_the_data() {
    let scene = Scene::new();
    let (place, page) = ("/raw/own/repo/c0ffee/x.parquet", b"<html>Please log in to this network</html>");
    scene.describe(parquet_part());
    scene.server.put_web(place, page);
    scene
        .fetch(&[])
        .exits_with(1)
        .says("x.parquet: the bytes that came are not the published file")
        .says("PAR1 at both ends, found a web page (HTML)");
    assert_eq!(scene.data("x.parquet"), None);
    assert_eq!(scene.partials(), []);
    // The same command gets it as soon as the network lets it through.
    let whole = b"PAR1 rows of speech PAR1";
    scene.server.put_web(place, whole);
    scene.fetch(&[]).exits_with(0);
    assert_eq!(scene.data("x.parquet").unwrap(), whole);

    // A page that an earlier program took for the file, with a record that calls it complete, is replaced.
    let mut record = scene.record();
    let origins = record["origins"].as_object_mut().unwrap();
    let file = &mut origins.values_mut().next().unwrap()["sets"]["x.parquet"]["files"][0];
    (file["bytes"], file["sha256"]) = (page.len().into(), crate::hub_server::sha256(page).into());
    file.as_object_mut().unwrap().remove("modified");
    for more in [&[][..], &["--verify"]] {
        std::fs::write(scene.path("data/x.parquet"), page).unwrap();
        std::fs::write(scene.path("data/fetch.json"), record.to_string()).unwrap();
        scene.fetch(more).exits_with(0).prints("such as a web page: it is fetched again");
        assert_eq!(scene.data("x.parquet").unwrap(), whole);
    }
    // One of the user's is not.
    std::fs::remove_file(scene.path("data/fetch.json")).unwrap();
    std::fs::write(scene.path("data/x.parquet"), page).unwrap();
    scene.fetch(&[]).exits_with(2).says("it should be a Parquet file").says("and is a web page (HTML)");
    assert_eq!(scene.data("x.parquet").unwrap(), page);
}

#[test]
fn a_folder_holds_one_benchmark() {
    let scene = Scene::new();
    scene.one_plain(b"published", true);
    scene.fetch(&[]).exits_with(0);
    let (record, text) =
        (scene.data("fetch.json"), std::fs::read_to_string(scene.path("sources.toml")).unwrap());
    std::fs::write(scene.path("sources.toml"), text.replace("\"demo-set\"", "\"other-set\"")).unwrap();
    for more in [&[][..], &["--dry-run"]] {
        let done = scene.fetch(more).exits_with(2);
        done.says("holds the data of demo-set, and those of other-set need a folder").says("--to");
    }
    assert_eq!(scene.data("fetch.json"), record);
}
