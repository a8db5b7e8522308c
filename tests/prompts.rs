//! Whose words are asked, and of which data, through the binary.

mod common;

use std::path::{Path, PathBuf};

use common::{Finished, finish, harness, root};

/// The pinned place of CCFQA's inference script in a data folder.
const ASKING: &str =
    "official/yxduir+ccfqa/6555b26def85154a300e86857e512ff589abaf7c/eval/audio_language_ccfqa.py";
/// The pinned place of its judging script.
const JUDGING: &str = "official/yxduir+ccfqa/74f8173bbde7ceaba2a066b8eb88fd3ef1dabc71/output/vllm_eval.py";
/// The pinned hash of its speech prompt.
const SPEECH: &str = "2f7dfb840a998e42611b18cdbc5462b119f7d42c8bf7fa994735b9f03a8a9b10";

/// A data folder with the demo's rows, and a config for them.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new(model: &str) -> Self {
        let place = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        std::fs::create_dir(place.path("data")).expect("a folder");
        std::fs::copy(root().join("demo/ccfqa/test.jsonl"), place.path("data/test.jsonl")).expect("rows");
        let config = format!(
            "[model]\n{model}\n[generation]\nmax_new_tokens = 24\n\n[[benchmark]]\nname = \"ccfqa\"\ndata = \"data\"\n\
             media = \"{}\"\nconditions = [\"sqa\"]\nlanguages = [\"eng\"]\n",
            root().join("demo/ccfqa").display()
        );
        std::fs::write(place.path("c.toml"), config).expect("the config is written");
        place
    }

    /// With the demo's model.
    fn local() -> Self {
        Self::new(&format!(
            "kind = \"local\"\narchitecture = \"qwen2_audio\"\nweights = \"{}\"\ndevice = \"cpu\"\n",
            root().join("demo/model").display()
        ))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An upstream file of the data folder.
    fn upstream(&self, place: &str, text: &str) {
        let path = self.path("data").join(place);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    fn harness(&self, verb: &str, more: &[&str]) -> Finished {
        let results = self.path("results");
        finish(harness().arg(verb).arg(self.path("c.toml")).arg("--results").arg(results).args(more))
    }

    fn prompts(&self, more: &[&str]) -> Finished {
        finish(harness().arg("prompts").args(more).arg("--data").arg(self.path("data")))
    }
}

#[test]
fn all_wordings_are_listed() {
    let empty = tempfile::tempdir().unwrap();
    let listed = finish(harness().arg("prompts").arg("--data").arg(empty.path())).exits_with(0);
    for text in
        ["ccfqa", "cp-bench", "cfever", "2m-belebele", "simplevqa", "harness wording", "reconstructed"]
    {
        assert!(listed.stdout.contains(text), "`{text}` is not in\n{}", listed.stdout);
    }
    let line = listed.stdout.lines().find(|line| line.contains("speech_full")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    let source = "yxduir/ccfqa@6555b26:eval/audio_language_ccfqa.py";
    assert_eq!(cells, ["ccfqa", "speech_full", "no", &SPEECH[..12], "official", source]);
    assert!(listed.stdout.contains("harness fetch BENCHMARK --only prompts"));

    let json = finish(harness().args(["prompts", "--json", "--data"]).arg(empty.path())).exits_with(0);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json.stdout).unwrap();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in &rows {
        assert_eq!(row["sha256"].as_str().unwrap().len(), 64, "{row}");
        assert_eq!(row["source"].is_null(), row["found"] == "builtin", "{row}");
        assert_eq!(row["source"].is_null(), row["licence"].is_null(), "{row}");
    }
    let list = finish(harness().arg("list")).exits_with(0);
    assert!(list.stdout.contains("simplevqa"), "what can be run is offered:\n{}", list.stdout);
}

#[test]
fn a_prompt_is_shown_with_its_places_filled() {
    let show = |args: &[&str]| finish(harness().args(["prompts", "show"]).args(args));
    show(&["ccfqa/speech_user", "--harness"])
        .exits_with(0)
        .prints("The question is spoken in French. Answer it in English.\n")
        .says("ccfqa/speech_user: harness wording, sha256 f660fd6f7c0d");
    show(&["ccfqa/speech_user", "--harness", "--set", "src={tgt}"])
        .exits_with(0)
        .prints("The question is spoken in {tgt}. Answer it in English.\n");
    show(&["ccfqa/speech_user", "--harness", "--template"])
        .exits_with(0)
        .prints("spoken in {src}. Answer it in {tgt}");
    show(&["2m-belebele/template_hash", "--harness"])
        .exits_with(0)
        .prints("Do not write any explanation.")
        .prints("(D) ");
    show(&["ccfqa/speech_user", "--harness", "--set", "language=x"])
        .exits_with(2)
        .says("ccfqa/speech_user has no place `language`; it has src, tgt");
    show(&["ccfqa/speech_usr"]).exits_with(2).says("did you mean `ccfqa/speech_user`?");
    show(&["ccfqa/speech_user", "--set", "src"]).exits_with(2).says("names no place");
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    show(&["ccfqa/speech_full", "--data", empty]).exits_with(2).says("harness fetch ccfqa --only prompts");
    show(&["ccfqa/speech_full", "--harness"]).exits_with(2).says("no wording of our own");
}

#[test]
fn another_upstream_file_is_refused_with_prompt_file_and_hashes() {
    let place = Place::local();
    place.upstream(ASKING, "prompt_template = f'''made up {LANGUAGE_MAPPING[src_lang]}'''\n");
    let listed =
        place.prompts(&[]).exits_with(2).prints("WRONG").says("ccfqa/speech_full").says(SPEECH).says(ASKING);
    assert_eq!(listed.stdout.matches("WRONG").count(), 5, "{}", listed.stdout);
    place.prompts(&["show", "ccfqa/speech_full"]).exits_with(2).says(SPEECH);
    place.prompts(&["show", "cfever/claim_only"]).exits_with(0);

    let limited = ["--limit", "1"];
    place
        .harness("check", &limited)
        .exits_with(2)
        .says("ccfqa/speech_full")
        .says(SPEECH)
        .says("fetch it again");
    place.harness("run", &limited).exits_with(2).says("`prompt = \"harness\"`");
    place
        .harness("check", &["--limit", "1", "--set", "benchmark.0.prompt=harness"])
        .exits_with(0)
        .prints("harness wording");
    std::fs::remove_file(place.path("data").join(ASKING)).unwrap();
    place
        .harness("check", &["--limit", "1", "--set", "benchmark.0.prompt=official"])
        .exits_with(2)
        .says("ccfqa/speech_full is cut out of")
        .says("harness fetch ccfqa --only prompts --to ");
    place.harness("check", &limited).exits_with(0).prints("speech_user (harness wording");
}

/// A Python script of the shape of the real one, with a prompt of the protocols in it.
fn script(before: &str, quotes: &str, template: &str, renames: &[(&str, &str)]) -> String {
    let mut text = template.replace('\\', "\\\\").replace('\n', "\\n");
    for (place, expression) in renames {
        text = text.replace(&format!("{{{place}}}"), &format!("{{{expression}}}"));
    }
    format!("import json\n\n        {before}f{quotes}{text}{quotes})\n")
}

/// The authors' real words, where the protocols are at hand: they are asked as they should be, and are no deviation.
#[test]
fn the_authors_words_are_asked_and_named() {
    let protocols = root().join("../shared/protocols/ccfqa/prompts.toml");
    let Ok(text) = std::fs::read_to_string(&protocols) else {
        eprintln!("skipped: {} is not there", protocols.display());
        return;
    };
    let strings: toml::Table = toml::from_str(&text).unwrap();
    let names = [("src", "LANGUAGE_MAPPING[src_lang]"), ("tgt", "LANGUAGE_MAPPING[tgt_lang]")];
    let judged = [names[0], names[1], ("src_q", "question"), ("tgt_a", "answer"), ("lang_a", "response")];
    let asking =
        script("prompt_template = ", "'''", strings["speech_full"]["text"].as_str().unwrap(), &names);
    let judging = script("qa_prompt = (", "\"\"\"", strings["judge_raw"]["text"].as_str().unwrap(), &judged);
    let fetched = |place: &Place| {
        place.upstream(ASKING, &asking);
        place.upstream(JUDGING, &judging);
    };

    let local = Place::local();
    fetched(&local);
    let listed = local.prompts(&[]).exits_with(0);
    let found = |line: &&str| line.starts_with("ccfqa") && line.contains("  yes  ");
    assert_eq!(listed.stdout.lines().filter(found).count(), 7, "{}", listed.stdout);
    local
        .prompts(&["show", "ccfqa/text_user", "--set", "question=Who?"])
        .exits_with(0)
        .prints("Who?\nAnswer this French question in English.")
        .says("ccfqa/text_user: reconstructed, yxduir/ccfqa@6555b26");
    let done = local.harness("run", &["--limit", "1", "--set", "benchmark.0.prompt=official"]).exits_with(0);
    let named = format!("speech_full (official (yxduir/ccfqa@6555b26), sha256 {})", &SPEECH[..12]);
    assert!(done.stdout.contains(&named), "{}", done.stdout);
    assert!(!done.stdout.contains("other words"), "{}", done.stdout);
    assert!(
        !done.stdout.contains("speech_system"),
        "a local model is sent the finished string:\n{}",
        done.stdout
    );
    // Scores are made anew without the data folder.
    std::fs::remove_dir_all(local.path("data")).unwrap();
    let again = finish(harness().args(["score", "c", "--results"]).arg(local.path("results"))).exits_with(0);
    assert!(again.stdout.contains(&named), "{}", again.stdout);

    if cfg!(feature = "endpoint") {
        let served = Place::new("kind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n");
        fetched(&served);
        let checked =
            served.harness("check", &["--limit", "1", "--set", "benchmark.0.conditions=['qa', 'sqa']"]);
        let checked = checked.exits_with(0);
        for text in [
            "speech_system (official (yxduir/ccfqa@6555b26)",
            "speech_user (official (yxduir/ccfqa@6555b26)",
            "text_system (reconstructed (yxduir/ccfqa@6555b26)",
            "text_user (reconstructed (yxduir/ccfqa@6555b26)",
        ] {
            assert!(checked.stdout.contains(text), "`{text}` is not in\n{}", checked.stdout);
        }
        assert!(
            !checked.stdout.contains("speech_full"),
            "a chat server is sent messages:\n{}",
            checked.stdout
        );
    }
}

#[test]
fn other_data_than_the_published_ones_are_refused_unless_they_are_allowed() {
    let place = Place::local();
    let sentence = "the data are not the ones that the paper's figures are of: 6 rows instead of 1,000";
    place.harness("run", &[]).exits_with(2).says(sentence).says("c.toml:").says("allow_other_data = true");
    assert!(!Path::new(&place.path("results")).exists(), "nothing was begun");
    place.harness("check", &[]).exits_with(2).says(sentence).prints("differs   6 rows instead of 1,000");
    // A part of the rows is not held against the whole set; a limit that takes all of them is none.
    place.harness("check", &["--limit", "5"]).exits_with(0);
    place.harness("check", &["--limit", "6"]).exits_with(2).says(sentence);

    let allowed = ["--set", "benchmark.0.allow_other_data=true"];
    place.harness("check", &allowed).exits_with(0).prints("differs   6 rows instead of 1,000");
    let done = place.harness("run", &allowed).exits_with(0);
    let line = "deviation: the data are not the published ones: 6 rows instead of 1,000";
    let (tables, lines) =
        (done.stdout.matches("rows that could not be read").count(), done.stdout.matches(line).count());
    assert!(tables > 0 && tables == lines, "{tables} tables, {lines} lines\n{}", done.stdout);

    let rows = std::fs::read_to_string(place.path("data/test.jsonl")).unwrap();
    let (first, copy) = (
        rows.lines().next().unwrap(),
        rows.lines().next().unwrap().replacen("\"index\": 1,", "\"index\": 77,", 1),
    );
    assert_ne!(first, copy, "the copy has another index");
    std::fs::write(place.path("data/test.jsonl"), format!("{first}\n{copy}\n")).unwrap();
    place
        .harness("check", &[])
        .exits_with(2)
        .says("2 rows instead of 1,000; a row is a copy of another but for index");
}
