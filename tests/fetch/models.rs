//! Models of the hub: fetched by name, and used by configs that name them.

use crate::common::{Place, finish, root, spoken_rows};
use crate::hub_server::Repo;
use crate::scene::{Scene, noise};

/// The demo model as a repository, with files that nobody needs.
fn published() -> Repo {
    let mut repo = Repo::new([
        (".gitattributes", b"x".to_vec()),
        ("README.md", b"a card".to_vec()),
        ("onnx/model.onnx", noise(1, 30_000)),
        ("pytorch_model.bin", noise(2, 30_000)),
    ]);
    for entry in std::fs::read_dir(root().join("demo/model")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        repo.files.insert(name, std::fs::read(entry.path()).unwrap());
    }
    repo
}

#[test]
fn a_model_is_fetched_without_its_duplicates() {
    let scene = Scene::new();
    let repo = published();
    let weights = repo.files["model.safetensors"].len() as u64;
    let commit = repo.commit();
    scene.server.put("models/org/demo", repo);
    let run = |more: &[&str]| {
        let mut command = scene.command(&["fetch", "--model", "org/demo"]);
        finish(command.args(more))
    };
    run(&["--dry-run"]).exits_with(0).prints("org/demo at main (").prints("nothing was fetched");
    assert_eq!(scene.server.sent("signature"), 0);
    run(&[]).exits_with(0).prints(&format!("weights = \"org/demo\", revision = \"{commit}\""));
    let snapshot = scene.path("hf/hub/models--org--demo/snapshots").join(&commit);
    assert!(snapshot.join("config.json").is_file() && snapshot.join("model.safetensors").is_file());
    assert!(!snapshot.join("pytorch_model.bin").exists() && !snapshot.join("onnx").exists());
    assert_eq!(std::fs::read_to_string(scene.path("hf/hub/models--org--demo/refs/main")).unwrap(), commit);
    run(&[]).exits_with(0).prints("there already").prints("0 bytes fetched now");
    assert_eq!(scene.server.sent("model.safetensors?signature"), weights);
    run(&["--verify"]).exits_with(0);
    // A blob that was damaged on the disk.
    let blob = snapshot.join("model.safetensors").canonicalize().unwrap();
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    run(&["--verify"]).exits_with(1).says("a file is there that is not the published one (sha256 expected");
    run(&["--revision", "v9"]).exits_with(1).says("there is no such revision");
    finish(&mut scene.command(&["fetch", "--model", "org/none"])).exits_with(1).says("or set HF_TOKEN");
}

#[cfg(feature = "local")]
#[test]
fn a_config_can_name_a_model_of_the_hub() {
    let scene = Scene::new();
    let repo = published();
    let commit = repo.commit();
    scene.server.put("models/org/demo", repo);
    let place = Place::new(&spoken_rows(2));
    place.edit(&format!("weights = \"{}\"", root().join("demo/model").display()), "weights = \"org/demo\"");
    let run = |verb: &str, offline: bool, more: &[&str]| {
        let mut command = scene.command(&[verb]);
        command.arg(place.path("c.toml")).arg("--results").arg(place.path("results")).args(more);
        if offline {
            command.env("HF_HUB_OFFLINE", "1");
        }
        finish(&mut command)
    };
    run("check", true, &[])
        .exits_with(2)
        .says("there is no folder ")
        .says("the list of files of org/demo at main is not in the hub's cache")
        .says("where there is a network: harness fetch --model org/demo");
    run("check", false, &[])
        .exits_with(0)
        .prints("demo: org/demo at main (")
        .prints("a run fetches them into")
        .prints("harness fetch --model org/demo");
    assert_eq!(scene.server.sent("resolve") + scene.server.sent("signature"), 0, "check fetches nothing");
    // The listing is known by now, the files are not.
    run("check", true, &[])
        .exits_with(2)
        .says("org/demo at main is not whole in the hub's cache (0 bytes of ");
    run("run", true, &[]).exits_with(3).says("org/demo at main is not whole in the hub's cache");
    run("run", false, &[]).exits_with(0).says("fetching org/demo at main (");
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.result("manifest.json")).unwrap()).unwrap();
    let hub = &manifest["config"]["model"]["local"]["hub"];
    assert_eq!((hub["repo"].as_str(), hub["commit"].as_str()), (Some("org/demo"), Some(commit.as_str())));
    // The same files in a folder are the same model.
    let folder = Place::new(&spoken_rows(2));
    folder.run(&[]).exits_with(0);
    let local: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.result("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["model"]["revision"], local["model"]["revision"]);
    // From now on nothing is asked.
    scene.server.take_log();
    run("check", false, &[]).exits_with(0);
    run("run", false, &["--name", "again"]).exits_with(0);
    run("run", true, &["--name", "offline"]).exits_with(0);
    assert_eq!(scene.server.take_log().len(), 0);
    // A revision that is not there.
    run("check", false, &["--set", "model.revision=v9"]).exits_with(2).says("there is no such revision");
    run("check", true, &["--set", "model.weights=/nowhere", "--set", "model.revision=v9"])
        .exits_with(2)
        .says("`revision` is for models of the hub");
}

/// Each of a cascade's models that cannot be had is told, at the line that names it.
#[cfg(feature = "local")]
#[test]
fn both_models_of_a_cascade_are_told_at_their_own_lines() {
    let scene = Scene::new();
    let place = Place::new(&spoken_rows(2));
    let media = root().join("demo");
    let config = format!(
        "[model]\nkind = \"cascade\"\nname = \"both\"\n\n\
         [model.asr]\nkind = \"local\"\narchitecture = \"whisper\"\nweights = \"org/ears\"\n\n\
         [model.llm]\nkind = \"local\"\narchitecture = \"qwen2\"\nweights = \"org/words\"\n\n\
         [generation]\nmax_new_tokens = 16\n\n[[benchmark]]\nname = \"manifest\"\ndata = \"rows.jsonl\"\n\
         media = \"{}\"\nmetrics = [\"exact_match\"]\n",
        media.display()
    );
    std::fs::write(place.path("c.toml"), config).unwrap();
    for (verb, code) in [("check", 2), ("run", 3)] {
        let mut command = scene.command(&[verb]);
        command.arg(place.path("c.toml")).arg("--results").arg(place.path("results"));
        finish(command.env("HF_HUB_OFFLINE", "1"))
            .exits_with(code)
            .says("c.toml:8:")
            .says("the list of files of org/ears at main is not in the hub's cache")
            .says("c.toml:13:")
            .says("the list of files of org/words at main is not in the hub's cache");
    }
}
