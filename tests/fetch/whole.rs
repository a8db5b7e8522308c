//! What a fetch leaves, and what a second one does.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::hub_server::{Host, Repo, TOKEN, sha256};
use crate::scene::{Scene, hub_part, noise, tar_gz, web_part};

/// A set of everything: small and large files of the hub on several pages, an archive, plain files by language.
fn everything(scene: &Scene) -> (Vec<u8>, Vec<u8>) {
    let (large, plain) = (noise(1, 300_000), noise(2, 5_000));
    let archive = tar_gz(&[("./eng/1.wav", b"one"), ("./fra/1.wav", &noise(3, 20_000))]);
    let small = |text: &str| text.as_bytes().to_vec();
    scene.server.put(
        "datasets/org/set",
        Repo::new([
            (".gitattributes", small("*.bin lfs")),
            ("README.md", small("a card")),
            ("audio.tar.gz", archive),
            ("data/a b+c.jsonl", small("{}\n")),
            ("data/empty.txt", Vec::new()),
            ("data/large.bin", large.clone()),
            ("data/z.txt", small("z")),
        ]),
    );
    scene.server.put_web("/raw/own/repo/c0ffee/f.bin", &plain);
    scene.server.put_web("/files/eng/x.bin", b"english");
    scene.server.put_web("/files/fra/x.bin", b"french");
    let by_language = "[[part]]\nname = \"by-language\"\nabout = \"plain files\"\nper_language = true\n\
         [part.origin.https]\nbase = \"https://files.example/\"\n[[part.file]]\n\
         path = \"{language}/x.bin\"\nto = \"lang/{language}.bin\"\n";
    let optional = "[[part]]\nname = \"more\"\nabout = \"what few need\"\noptional = true\n[part.origin.manual]\n\
         page = \"https://page.example\"\nsteps = \"look\"\n[[part.file]]\npath = \"more.txt\"\n";
    let manual = "[[part]]\nname = \"wiki\"\nabout = \"pages\"\n[part.origin.manual]\n\
         page = \"https://drive.example/1\"\nsteps = \"download wiki.zip and unpack it into\"\n[[part.file]]\n\
         path = \"wiki/*.jsonl\"\n";
    scene.describe(&format!(
        "{}{}{}{by_language}{optional}{manual}",
        hub_part("questions", "path = \"*\"\nexclude = [\".gitattributes\", \"*.tar.gz\"]"),
        hub_part("audio", "path = \"*.tar.gz\"\nto = \"audio/\"\nunpack = \"tar.gz\""),
        web_part(&plain, true),
    ));
    (large, plain)
}

fn mirrored(scene: &Scene, more: &[&str]) -> std::process::Command {
    let mut command = scene.fetch_command(more);
    command.env("HARNESS_MIRRORS", format!("https://files.example={}/files", scene.server.url(Host::Web)));
    command
}

#[test]
fn everything_comes_once_and_is_recorded() {
    let scene = Scene::new();
    let (large, plain) = everything(&scene);
    let run = |more: &[&str]| crate::common::finish(&mut mirrored(&scene, more));

    run(&["--dry-run"])
        .exits_with(0)
        .prints("questions    5 files, 300.0 kB")
        .prints("plain        1 file, 5.0 kB")
        .prints("by-language  2 files, 13 bytes")
        .prints("optional: what few need (--only more)")
        .prints("`main` is not pinned")
        .prints("licence: CC0, made for tests")
        .prints("free: ")
        .prints("nothing was fetched");
    assert!(!scene.path("data").exists(), "a dry run leaves no folder");
    assert_eq!(scene.server.sent("/resolve/") + scene.server.sent("signature"), 0);

    run(&[])
        .exits_with(0)
        .prints("9 files")
        .prints("note: it comes via 127.0.0.1 (HARNESS_MIRRORS), and no published hash vouches for lang/eng.bin, lang/fra.bin")
        .prints("not verified, no published hash: lang/eng.bin via 127.0.0.1, lang/fra.bin via 127.0.0.1")
        .prints("by hand: wiki, pages: begin at https://drive.example/1; download wiki.zip");
    assert_eq!(scene.data("data/large.bin"), Some(large.clone()));
    assert_eq!(scene.data("data/a b+c.jsonl").as_deref(), Some(&b"{}\n"[..]));
    assert_eq!(scene.data("data/empty.txt").as_deref(), Some(&b""[..]));
    assert_eq!(scene.data("f.bin"), Some(plain));
    assert_eq!(scene.data("audio/eng/1.wav").as_deref(), Some(&b"one"[..]));
    assert_eq!(scene.data("lang/fra.bin").as_deref(), Some(&b"french"[..]));
    assert_eq!(scene.data(".gitattributes"), None);
    assert_eq!(scene.server.sent("large.bin"), large.len() as u64);
    let cached = scene.path("hf/hub/datasets--org--set/blobs").join(sha256(&large));
    assert!(cached.is_file());
    assert_eq!(scene.path("data/data/large.bin").canonicalize().unwrap(), cached.canonicalize().unwrap());

    let record = scene.record();
    assert_eq!((&record["version"], &record["licence"]), (&json!(1), &json!("CC0, made for tests")));
    // The mirror is named where nothing else vouches for what it sent, and nowhere else.
    let sets = &record["origins"]["https://files.example/"]["sets"];
    let text = record.to_string();
    assert_eq!(
        (text.matches("\"via\"").count(), sets.to_string().matches("\"via\"").count()),
        (2, 2),
        "{text}"
    );
    let of_hub = &record["origins"]["hub:datasets/org/set"];
    assert_eq!(of_hub["commit"].as_str().unwrap().len(), 40);
    let files = of_hub["sets"]["*"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == "data/large.bin").unwrap();
    assert_eq!((&file["sha256"], &file["verified"]), (&json!(sha256(&large)), &json!("sha256")));
    let small = files.iter().find(|file| file["path"] == "README.md").unwrap();
    assert_eq!((&small["sha256"], &small["verified"]), (&json!(sha256(b"a card")), &json!("git_blob")));

    // Again: nothing is asked.
    scene.server.take_log();
    run(&[])
        .exits_with(0)
        .prints("complete, fetched on 20")
        .prints("not verified, no published hash: lang/eng.bin");
    assert_eq!(scene.server.take_log().len(), 0, "a second fetch asks nothing");

    // A changed file is found by --verify, and one that is gone is fetched again, alone.
    let changed = scene.path("data/lang/eng.bin");
    std::fs::write(&changed, "english".replace('g', "k")).unwrap();
    run(&["--verify"]).exits_with(2).says("eng.bin: a file is there that is not the published one");
    run(&[])
        .exits_with(2)
        .says("it was changed since it was fetched: its sha256 is not the one in fetch.json");
    std::fs::remove_file(&changed).unwrap();
    scene.server.take_log();
    run(&[]).exits_with(0);
    let asked: Vec<_> = scene.server.take_log().into_iter().filter(|l| l.method == "GET").collect();
    assert!(asked.iter().all(|l| l.path == "/files/eng/x.bin") && asked.len() == 1, "{asked:?}");
    // An unpacked file that is gone is unpacked again, without the network.
    std::fs::remove_file(scene.path("data/audio/eng/1.wav")).unwrap();
    crate::common::finish(mirrored(&scene, &[]).env("HF_HUB_OFFLINE", "1")).exits_with(0);
    assert_eq!(scene.data("audio/eng/1.wav").as_deref(), Some(&b"one"[..]));
    run(&["--verify"]).exits_with(0);
    assert_eq!(scene.partials(), []);
}

#[test]
fn parts_and_languages_can_be_chosen() {
    let scene = Scene::new();
    everything(&scene);
    let run = |more: &[&str]| crate::common::finish(&mut mirrored(&scene, more));
    run(&["--only", "by-language", "--languages", "fra"]).exits_with(0);
    assert!(scene.data("lang/fra.bin").is_some() && scene.data("lang/eng.bin").is_none());
    assert!(scene.data("f.bin").is_none());
    run(&["--languages", "fre"])
        .exits_with(2)
        .says("unknown language `fre`: did you mean `fra`? there are eng, fra");
    run(&["--only", "plain", "--languages", "fra"])
        .exits_with(2)
        .says("--languages: nothing that is to be fetched of demo-set is published by language (plain)");
    run(&["--only", "by-language,plain", "--languages", "fra", "--dry-run"])
        .exits_with(0)
        .prints("note: it is not published by language: all of it is fetched");
    run(&["--only", "audios"]).exits_with(2).says("unknown part `audios`: did you mean `audio`?");
    run(&["--revision", "main"]).exits_with(2).says("name one with --only");
    run(&["--only", "plain", "--revision", "main"])
        .exits_with(2)
        .says("the part `plain` is pinned to c0ffee of github.com/own/repo; leave it out");
    run(&["--only", "by-language", "--revision", "main"]).exits_with(2).says("which has no revisions");
    run(&["--only", "questions", "--revision", "v9"]).exits_with(1).says("there is no such revision");
    run(&["--only", "more"]).exits_with(0).prints("by hand: more, what few need");
}

#[test]
fn offline_takes_what_is_there_and_says_what_is_not() {
    let scene = Scene::new();
    let large = noise(4, 50_000);
    scene.one_large(&large);
    let offline = |scene: &Scene, more: &[&str]| {
        crate::common::finish(scene.fetch_command(more).env("HF_HUB_OFFLINE", "1"))
    };
    offline(&scene, &[])
        .exits_with(1)
        .says("the list of files of datasets/org/set at main is not in the hub's cache")
        .says("where there is a network: harness fetch --sources ");
    scene.fetch(&[]).exits_with(0);
    scene.server.take_log();
    offline(&scene, &[]).exits_with(0).prints("complete");
    // Another folder is served from the cache.
    std::fs::remove_dir_all(scene.path("data")).unwrap();
    offline(&scene, &[]).exits_with(0);
    assert_eq!(scene.data("large.bin"), Some(large));
    assert_eq!(scene.server.take_log().len(), 0);
}

#[test]
fn the_token_goes_to_the_hub_alone_and_is_never_shown() {
    let scene = Scene::new();
    let large = noise(5, 50_000);
    scene
        .server
        .put("datasets/org/set", Repo::new([("large.bin", large.clone()), ("s", b"s".to_vec())]).private());
    scene.describe(&format!("{}{}", hub_part("audio", "path = \"*\""), web_part(b"plain", false)));
    scene.server.put_web("/raw/own/repo/c0ffee/f.bin", b"plain");
    scene.fetch(&[]).exits_with(1).says("401 (Invalid username or password.)").says("or set HF_TOKEN");
    scene.server.take_log();
    let mut command = scene.fetch_command(&[]);
    let done =
        crate::common::finish(command.env("HF_TOKEN", TOKEN).env("HARNESS_LOG", "trace")).exits_with(0);
    assert!(!done.stderr.contains(TOKEN) && !done.stdout.contains(TOKEN));
    assert!(!done.stderr.contains("very-secret"), "signed addresses are secrets too");
    assert!(!String::from_utf8(scene.data("fetch.json").unwrap()).unwrap().contains(TOKEN));
    let log = scene.server.take_log();
    for logged in &log {
        assert_eq!(logged.authorization.is_some(), logged.host == Host::Hub, "{logged:?}");
    }
    assert!(log.iter().any(|l| l.host == Host::Cdn) && log.iter().any(|l| l.host == Host::Web));
    // From the file that `hf auth login` writes, too.
    std::fs::remove_dir_all(scene.path("hf")).unwrap();
    std::fs::remove_dir_all(scene.path("data")).unwrap();
    std::fs::create_dir(scene.path("hf")).unwrap();
    std::fs::write(scene.path("hf/token"), format!("{TOKEN}\n")).unwrap();
    scene.fetch(&[]).exits_with(0);
    assert_eq!(scene.data("large.bin"), Some(large));
}

#[test]
fn two_processes_at_once_fetch_each_byte_once() {
    let scene = Scene::new();
    let (large, plain) = (noise(6, 600_000), noise(7, 300_000));
    scene.server.put("datasets/org/set", Repo::new([("large.bin", large.clone())]));
    scene.server.put_web("/raw/own/repo/c0ffee/f.bin", &plain);
    scene.describe(&format!("{}{}", hub_part("audio", "path = \"*\""), web_part(&plain, true)));
    scene.server.pace(50_000, Duration::from_millis(100));
    let begun = Instant::now();
    // One of them into another folder: they share only the cache.
    let mut children: Vec<_> = (0..3)
        .map(|n| {
            let mut command = scene.fetch_command(&[]);
            if n == 2 {
                command = scene.command(&["fetch", "--only", "audio", "--sources"]);
                command.arg(scene.path("sources.toml")).arg("--to").arg(scene.path("other"));
            }
            Scene::start(&mut command)
        })
        .collect();
    let outputs: Vec<crate::common::Finished> =
        children.drain(..).map(|child| child.wait_with_output().unwrap().into()).collect();
    let waited = outputs.iter().filter(|done| done.stderr.contains("another process is fetching it")).count();
    for done in outputs {
        done.exits_with(0);
    }
    assert!(begun.elapsed() >= Duration::from_millis(500));
    // Two must, but one may have begun late.
    assert!(waited >= 1);
    assert_eq!(scene.server.sent("large.bin"), large.len() as u64);
    assert_eq!(scene.server.sent("f.bin"), plain.len() as u64);
    assert_eq!(std::fs::read(scene.path("other/large.bin")).unwrap(), large);
    assert_eq!(scene.data("f.bin"), Some(plain));
}
