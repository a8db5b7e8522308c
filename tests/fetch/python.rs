//! Python's `huggingface_hub` and we share a cache. Not run by default: it needs a Python that has the library.
//!
//! ```sh
//! HARNESS_TEST_PYTHON=python3 cargo test --test fetch -- --ignored python
//! ```

use std::process::Command;

use crate::hub_server::{Host, Repo};
use crate::scene::{Scene, hub_part, noise};

fn python(scene: &Scene, code: &str, offline: bool) -> String {
    let python = std::env::var("HARNESS_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    let output = command
        .env("HF_HOME", scene.path("hf"))
        .env("HF_ENDPOINT", scene.server.url(Host::Hub))
        .env("HF_HUB_OFFLINE", if offline { "1" } else { "0" })
        .env("HF_HUB_DISABLE_TELEMETRY", "1")
        .args(["-c", code])
        .output()
        .expect("Python starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

const SNAPSHOT: &str = "from huggingface_hub import snapshot_download\n\
                        print(snapshot_download('org/set', repo_type='dataset'))";

fn repo() -> Repo {
    Repo::new([
        ("README.md", b"a card".to_vec()),
        ("data/a.txt", b"a".to_vec()),
        ("data/deep/large.bin", noise(1, 100_000)),
        ("z.bin", noise(2, 20_000)),
    ])
}

#[test]
#[ignore = "needs Python with huggingface_hub, named by HARNESS_TEST_PYTHON"]
fn python_finds_offline_what_we_fetched() {
    let scene = Scene::new();
    scene.server.put("datasets/org/set", repo());
    scene.describe(&hub_part("all", "path = \"*\""));
    scene.fetch(&[]).exits_with(0);
    let sent = scene.server.sent("resolve") + scene.server.sent("signature");
    // Offline, a snapshot is given only where its listing says that it is complete.
    let folder = std::path::PathBuf::from(python(&scene, SNAPSHOT, true));
    for (name, bytes) in repo().files {
        assert_eq!(std::fs::read(folder.join(&name)).unwrap(), bytes, "{name}");
    }
    assert_eq!(std::path::PathBuf::from(python(&scene, SNAPSHOT, false)), folder);
    let one = "from huggingface_hub import hf_hub_download\n\
               print(hf_hub_download('org/set', 'data/deep/large.bin', repo_type='dataset'))";
    assert_eq!(std::path::PathBuf::from(python(&scene, one, false)), folder.join("data/deep/large.bin"));
    assert_eq!(
        scene.server.sent("resolve") + scene.server.sent("signature"),
        sent,
        "nothing was fetched again"
    );
}

#[test]
#[ignore = "needs Python with huggingface_hub, named by HARNESS_TEST_PYTHON"]
fn we_find_what_python_fetched() {
    let scene = Scene::new();
    scene.server.put("datasets/org/set", repo());
    scene.describe(&hub_part("all", "path = \"*\""));
    python(&scene, SNAPSHOT, false);
    let sent = scene.server.sent("resolve") + scene.server.sent("signature");
    assert!(sent > 120_000, "{sent}");
    let done = crate::common::finish(scene.fetch_command(&[]).env("HF_HUB_OFFLINE", "1")).exits_with(0);
    done.prints("0 bytes fetched now").prints("verified against published hashes");
    scene.fetch(&["--verify"]).exits_with(0);
    assert_eq!(
        scene.server.sent("resolve") + scene.server.sent("signature"),
        sent,
        "nothing was fetched again"
    );
    // As older versions leave it: without a listing.
    std::fs::remove_dir_all(scene.path("hf/hub/datasets--org--set/trees")).unwrap();
    std::fs::remove_dir_all(scene.path("data")).unwrap();
    let done = crate::common::finish(scene.fetch_command(&[]).env("HF_HUB_OFFLINE", "1")).exits_with(0);
    done.prints("what is there is taken to be all");
    assert_eq!(scene.data("z.bin"), repo().files.get("z.bin").cloned());
}
