//! What goes wrong on the way, and that it comes right.

use std::process::Command;
use std::time::Duration;

use crate::common::Finished;
use crate::hub_server::{Fault, HubServer, Repo, sha256};
use crate::scene::{Scene, hub_part, noise, web_part};

/// Waits until so many bytes of a path were sent.
fn wait_for(server: &HubServer, part: &str, bytes: u64) {
    for _ in 0..2000 {
        if server.sent(part) >= bytes {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{bytes} bytes of {part} were not sent");
}

/// Ends a fetch in the middle, goes on, and looks at what was sent twice.
fn interrupted(scene: &Scene, part: &str, size: u64, end: impl Fn(u32)) {
    scene.server.pace(20_000, Duration::from_millis(10));
    for round in 1..=2 {
        let before = scene.server.sent(part);
        let mut child = Scene::start(&mut scene.fetch_command(&[]));
        wait_for(&scene.server, part, before + 200_000);
        end(child.id());
        child.wait().unwrap();
        let partials = scene.partials();
        assert_eq!(partials.len(), 1, "round {round}: {partials:?}");
        assert!(partials[0].1 >= 100_000 * round, "round {round}: {partials:?}");
    }
    scene.server.full_speed();
    scene.fetch(&[]).exits_with(0);
    let sent = scene.server.sent(part);
    // What was on its way when it ended, twice.
    assert!(sent <= size + 2 * 150_000, "{sent} bytes were sent of {size}");
    assert_eq!(scene.partials(), []);
}

fn kill(signal: &str) -> impl Fn(u32) {
    move |id| {
        assert!(Command::new("kill").arg(signal).arg(id.to_string()).status().unwrap().success());
    }
}

#[cfg(unix)]
#[test]
fn killed_in_the_middle_a_file_of_the_hub_is_gone_on_with() {
    let scene = Scene::new();
    let large = noise(1, 2_000_000);
    scene.one_large(&large);
    interrupted(&scene, "signature", 2_000_000, kill("-KILL"));
    assert_eq!(scene.data("large.bin"), Some(large));
}

#[cfg(unix)]
#[test]
fn killed_in_the_middle_a_plain_file_is_gone_on_with() {
    for published in [true, false] {
        let scene = Scene::new();
        let plain = noise(2, 2_000_000);
        scene.one_plain(&plain, published);
        interrupted(&scene, "f.bin", 2_000_000, kill("-KILL"));
        assert_eq!(scene.data("f.bin"), Some(plain));
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_cleanly_and_keeps_what_came() {
    let scene = Scene::new();
    let large = noise(3, 2_000_000);
    scene.one_large(&large);
    scene.server.pace(20_000, Duration::from_millis(10));
    let child = Scene::start(&mut scene.fetch_command(&[]));
    wait_for(&scene.server, "signature", 300_000);
    kill("-INT")(child.id());
    let done: Finished = child.wait_with_output().unwrap().into();
    done.exits_with(130).says("stopped; what came is kept");
    assert!(scene.partials()[0].1 >= 200_000);
    interrupted(&scene, "signature", 2_000_000 + 150_000, kill("-TERM"));
    assert_eq!(scene.data("large.bin"), Some(large));
}

#[test]
fn errors_that_pass_are_waited_out() {
    let scene = Scene::new();
    let large = noise(4, 400_000);
    scene
        .server
        .put("datasets/org/set", Repo::new([("large.bin", large.clone()), ("s.txt", b"small".to_vec())]));
    scene.describe(&hub_part("audio", "path = \"*\""));
    scene.server.fault("/revision/main", Fault::Status(503, None));
    scene.server.fault("/tree/", Fault::Status(429, Some("1")));
    scene.server.fault("resolve", Fault::Status(429, Some("0.2")));
    scene.server.fault("signature", Fault::Status(500, None));
    scene.server.fault("signature", Fault::Drop(100_000));
    scene.server.fault("signature", Fault::Stall(100_000));
    scene.server.fault("signature", Fault::NoRanges);
    let done = scene.fetch(&[]).exits_with(0);
    let done = done.says("answers 503; next attempt in").says("answers 429").says("the connection broke");
    done.says("nothing came for 2 s");
    assert_eq!(scene.server.faults_left(), 0);
    assert_eq!(scene.data("large.bin"), Some(large));
    // 100 kB came before each break; the server that knew no ranges sent all of it.
    assert!(scene.server.sent("signature") <= 100_000 + 100_000 + 400_000 + 50);
}

#[test]
fn who_is_down_for_good_is_given_up_with_a_sentence() {
    let scene = Scene::new();
    scene.one_plain(b"content", true);
    for _ in 0..20 {
        scene.server.fault("f.bin", Fault::Status(503, Some("0")));
    }
    scene.fetch(&[]).exits_with(1).says("f.bin: 127.0.0.1 answers 503; given up after 7 attempts");
    let longer = Scene::new();
    longer.one_plain(b"content", true);
    longer.server.fault("f.bin", Fault::Status(429, Some("7200")));
    longer.fetch(&[]).exits_with(1).says("asks to wait 120 min");
}

#[test]
fn wrong_bytes_are_refused() {
    let scene = Scene::new();
    let large = noise(5, 50_000);
    scene.one_large(&large);
    scene.server.fault("signature", Fault::Wrong);
    scene
        .fetch(&[])
        .exits_with(1)
        .says("large.bin: the bytes that came are not the published file: sha256 expected")
        .says("1 file was not fetched");
    assert_eq!(scene.data("large.bin"), None);
    assert_eq!(scene.partials(), [], "nothing of it is kept");
    scene.fetch(&[]).exits_with(0);
    assert_eq!(scene.data("large.bin"), Some(large));

    // A small file of the hub, whose git blob is known, and a plain file whose hash is published.
    let scene = Scene::new();
    scene.server.put("datasets/org/set", Repo::new([("s.txt", b"small".to_vec())]));
    scene.describe(&hub_part("audio", "path = \"*\""));
    scene.server.fault("s.txt", Fault::Wrong);
    scene
        .fetch(&[])
        .exits_with(1)
        .says("s.txt: the bytes that came are not the published file: git blob expected");
    let scene = Scene::new();
    scene.one_plain(b"content", true);
    scene.server.fault("f.bin", Fault::Wrong);
    scene.fetch(&[]).exits_with(1).says("sha256 expected");
}

#[test]
fn what_was_there_and_is_wrong_is_fetched_anew() {
    let scene = Scene::new();
    let large = noise(6, 200_000);
    scene.one_large(&large);
    scene.fetch(&[]).exits_with(0);
    let blob = scene.path("data/large.bin").canonicalize().unwrap();
    // As another program may leave it that was killed while its pages were not written.
    let mut partial = large[..120_000].to_vec();
    partial[60_000] ^= 1;
    std::fs::remove_file(&blob).unwrap();
    std::fs::write(blob.with_added_extension("incomplete"), partial).unwrap();
    scene.fetch(&[]).exits_with(0).says("what was there does not fit; it is fetched from the front");
    assert_eq!(scene.data("large.bin"), Some(large));
}

#[test]
fn two_versions_of_a_plain_file_are_never_put_together() {
    let (old, new) = (noise(7, 300_000), noise(8, 300_000));
    for told in [true, false] {
        let scene = Scene::new();
        scene.one_plain(&old, false);
        if !told {
            scene.server.put_web_without_etag("/raw/own/repo/c0ffee/f.bin", &old);
        }
        for _ in 0..10 {
            scene.server.fault("f.bin", Fault::Drop(100_000));
        }
        let mut child = Scene::start(&mut scene.fetch_command(&[]));
        wait_for(&scene.server, "f.bin", 100_000);
        std::thread::sleep(Duration::from_millis(100));
        kill("-KILL")(child.id());
        child.wait().unwrap();
        assert_eq!(scene.partials().len(), 1);
        scene.server.put_web("/raw/own/repo/c0ffee/f.bin", &new);
        while scene.server.faults_left() > 0 {
            // The rest of the breaks is used up by others.
            let address =
                format!("{}/raw/own/repo/c0ffee/f.bin", scene.server.url(crate::hub_server::Host::Web));
            let host = address.trim_start_matches("http://").split('/').next().unwrap().to_owned();
            let mut stream = std::net::TcpStream::connect(host).unwrap();
            std::io::Write::write_all(&mut stream, b"GET /raw/own/repo/c0ffee/f.bin HTTP/1.1\r\n\r\n")
                .unwrap();
            let mut sink = Vec::new();
            let _ = std::io::Read::read_to_end(&mut stream, &mut sink);
        }
        scene.fetch(&[]).exits_with(0).prints("not verified, no published hash: f.bin via 127.0.0.1");
        assert_eq!(scene.data("f.bin").unwrap(), new, "told {told}");
    }
}

#[test]
fn files_of_one_content_are_one_download_that_takes_one_place() {
    let scene = Scene::new();
    let (same, other) = (noise(1, 300_000), noise(2, 50_000));
    let files = [("a.bin", same.clone()), ("b.bin", same.clone()), ("c.bin", other.clone())];
    scene.server.put("datasets/org/set", Repo::new(files));
    scene.describe(&hub_part("audio", "path = \"*.bin\""));
    // It hangs and is begun again: meanwhile the second place is free for another content.
    scene.server.fault("a.bin?signature", Fault::Stall(100_000));
    scene.fetch(&["--jobs", "2"]).exits_with(0);
    for (name, bytes) in [("a.bin", &same), ("b.bin", &same), ("c.bin", &other)] {
        assert!(scene.data(name).as_ref() == Some(bytes), "{name}");
    }
    let log = scene.server.take_log();
    let asked = log.iter().filter(|logged| logged.method == "GET" && logged.path.contains("signature"));
    let asked: Vec<&str> =
        asked.filter_map(|logged| logged.path.split('?').next()?.rsplit('/').next()).collect();
    assert_eq!(asked.iter().filter(|name| **name == "a.bin").count(), 2, "{asked:?}");
    assert!(
        asked.last() == Some(&"a.bin") && asked.contains(&"c.bin") && !asked.contains(&"b.bin"),
        "{asked:?}"
    );
    let record = scene.record();
    let files =
        record["origins"]["hub:datasets/org/set"]["sets"]["*.bin"]["files"].as_array().unwrap().clone();
    assert_eq!(files.len(), 3);
    assert_eq!((&files[0]["sha256"], &files[0]["verified"]), (&files[1]["sha256"], &files[1]["verified"]));
    scene.fetch(&[]).exits_with(0).prints("complete");
}

#[test]
fn a_mirror_with_entity_tags_of_its_own_is_judged_by_the_bytes() {
    let bytes = noise(9, 20_000);
    let get = |etag: &str| {
        let scene = Scene::new();
        let repo = Repo::new([("large.bin", bytes.clone())]);
        scene.server.put("datasets/org/set", Repo { own_etag: Some(etag.to_owned()), ..repo });
        scene.describe(&hub_part("audio", "path = \"*\""));
        let done = scene.fetch(&[]);
        (scene, done)
    };
    // An MD5, the hash of a git blob where a SHA-256 is listed, and no hash at all.
    for etag in ["d41d8cd98f00b204e9800998ecf8427e", &"0".repeat(40), &"w".repeat(64)] {
        let (scene, done) = get(etag);
        done.exits_with(0);
        assert_eq!(scene.data("large.bin").as_deref(), Some(&*bytes));
    }
    let (scene, done) = get(&"0".repeat(64));
    let done = done.exits_with(1).says("large.bin: the server speaks of another file than the published one");
    done.says("entity tag expected").says("Nothing of it was taken");
    assert_eq!(scene.partials(), []);
}

#[test]
fn a_plain_file_of_a_published_hash_that_came_already_is_copied() {
    let scene = Scene::new();
    let bytes = noise(3, 20_000);
    let again = format!("[[part.file]]\npath = \"g.bin\"\nbytes = 20000\nsha256 = \"{}\"\n", sha256(&bytes));
    scene.describe(&format!("{}{again}", web_part(&bytes, true)));
    // Its server has one of them: the other is never asked for.
    scene.server.put_web("/raw/own/repo/c0ffee/f.bin", &bytes);
    scene.fetch(&[]).exits_with(0).prints("2 files");
    assert_eq!((scene.data("f.bin"), scene.data("g.bin")), (Some(bytes.clone()), Some(bytes)));
    assert_eq!(scene.server.sent("g.bin"), 0);
    scene.fetch(&["--verify"]).exits_with(0);
}
