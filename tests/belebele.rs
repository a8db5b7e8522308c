//! 2M-Belebele and cascades through the binary: what is asked, how often, and what is left of it.

#![cfg(feature = "endpoint")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;
#[path = "loopback/mod.rs"]
mod loopback;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Finished, Place, finish, harness, journaled, wav};
use loopback::{Loopback, Options, Piece, right_answer};
use serde_json::{Value, json};

const INSTRUCTION: &str = "Given the following passage, query, and answer choices, output the letter corresponding to the \
     correct answer. Do not write any explanation. Only output the letter within A, B, C, or D that corresponds to the \
     correct answer.";

/// The question of a row, with this in place of the passage.
fn prompt(number: usize, passage: &str) -> String {
    format!(
        "{INSTRUCTION}\n###\nPassage:\n{passage}\n###\nQuery:\nQuestion {number}?\n###\nChoices:\n(A) a{number}\n\
         (B) b{number}\n(C) c{number}\n(D) d{number}\n###\nAnswer:\n"
    )
}

/// A row; `sentences` are the clips of each sentence.
fn row(number: usize, passage: usize, language: &str, sentences: &[&[String]]) -> Value {
    let sentences: Vec<Value> = sentences
        .iter()
        .enumerate()
        .map(|(place, clips)| {
            let segments: Vec<Value> = clips.iter().map(|clip| json!({"audio": clip})).collect();
            json!({"text": format!("Sentence {place} of {passage}."), "segments": segments})
        })
        .collect();
    json!({"dialect": language, "link": format!("https://example.org/{passage}"), "question_number": number,
        "flores_passage": format!("Passage {passage}."), "question": format!("Question {number}?"),
        "mc_answer1": format!("a{number}"), "mc_answer2": format!("b{number}"), "mc_answer3": format!("c{number}"),
        "mc_answer4": format!("d{number}"), "correct_answer_num": (number % 4 + 1).to_string(), "sentences": sentences})
}

struct Scene {
    place: Place,
}

impl Scene {
    fn new(rows: &[Value]) -> Self {
        Self { place: Place::new(&(rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n")) }
    }

    /// A clip of its own sound.
    fn clip(&self, name: &str, number: usize) {
        let step = i16::try_from(number).unwrap() + 1;
        std::fs::write(self.place.path(name), wav((0..800_i16).map(|at| at.wrapping_mul(step)))).unwrap();
    }

    fn cascade(&self, asr: &Loopback, llm: &Loopback, more: &str) {
        let flow = "concurrency = 4\ndelay_seconds = 0.02\nmax_delay_seconds = 0.2\npatience_seconds = 1\n\
                    max_attempts = 3\n";
        let config = format!(
            "[model]\nkind = \"cascade\"\npublished_as = \"Whisper + Llama-3 70B\"\n\n\
             [model.asr]\nkind = \"transcription\"\nmodel = \"whisper-large-v3\"\nbase_url = \"{}/v1\"\nrevision = \"1\"\n\n\
             [model.asr.flow]\n{flow}\n\
             [model.llm]\nkind = \"openai\"\nmodel = \"llama-3-70b\"\nbase_url = \"{}/v1\"\nrevision = \"1\"\n\n\
             [model.llm.flow]\n{flow}\n\
             [generation]\nmax_new_tokens = 16\n\n\
             [[benchmark]]\nname = \"2m-belebele\"\ndata = \"rows.jsonl\"\nallow_other_data = true\n{more}",
            asr.url(),
            llm.url()
        );
        std::fs::write(self.place.path("c.toml"), config).unwrap();
    }

    /// The journal of transcripts; there is one.
    fn transcripts(&self) -> PathBuf {
        let folder = self.place.path("results/transcripts");
        let mut found = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let one = found.next().unwrap();
        assert!(found.next().is_none(), "one recogniser, one folder");
        one.join("responses.jsonl")
    }

    fn figure(&self, metric: &str, condition: &str, group: &Value) -> f64 {
        let scores = self.place.scores();
        let none = json!({});
        let metrics = scores["benchmarks"][0]["metrics"].as_array().unwrap().clone();
        let of = |value: &&Value| {
            value["metric"] == metric
                && value["condition"] == condition
                && value["profile"] != "official"
                && value.get("group").unwrap_or(&none) == group
        };
        metrics.iter().find(of).unwrap_or_else(|| panic!("{metric} {condition} {group}"))["value"]
            .as_f64()
            .unwrap()
    }
}

fn one_clip(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// 900 questions over 488 passages, as in each language of the data.
#[test]
fn a_passage_is_transcribed_once_whatever_is_asked_of_it_and_by_whom() {
    let asr = Loopback::start(Options::default()).unwrap();
    let llm = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let mut rows = Vec::new();
    for passage in 0..488 {
        let clips = one_clip(&format!("{passage}.wav"));
        for question in 0..if passage < 412 { 2 } else { 1 } {
            rows.push(row(2 * passage + question, passage, "eng_Latn", &[&clips]));
        }
    }
    assert_eq!(rows.len(), 900);
    let scene = Scene::new(&rows);
    (0..488).for_each(|passage| scene.clip(&format!("{passage}.wav"), passage));
    scene.cascade(&asr, &llm, "conditions = [\"speech\"]\n");
    let done = scene.place.run(&[]).exits_with(0).says("488 clips");
    assert_eq!((asr.counters().requests, asr.counters().answered), (488, 488));
    assert_eq!(llm.counters().with_media, 0, "the model gets text");
    assert_eq!(scene.place.responses().len(), 900);
    done.prints("runs=1 (deterministic)")
        .prints("79.1")
        .prints("transcripts: whisper-large-v3, language forced");

    // Another model hears nothing anew: the transcripts are the recogniser's, not the run's.
    let other = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    scene.cascade(&asr, &other, "conditions = [\"speech\"]\n");
    let config = std::fs::read_to_string(scene.place.path("c.toml")).unwrap();
    std::fs::write(scene.place.path("c.toml"), config.replace("llama-3-70b", "another")).unwrap();
    scene.place.run(&["--name", "second"]).exits_with(0).says("488 clips, 488 of them transcribed");
    assert_eq!(asr.counters().requests, 488);
    assert_eq!(other.counters().answered, 900);

    // Nor does a second command ask anyone.
    scene.place.run(&["--name", "second"]).exits_with(0);
    assert_eq!((asr.counters().requests, other.counters().requests), (488, other.counters().answered));

    // The error rates are there, and the run can be scored elsewhere by what it kept.
    let elsewhere = scene.place.path("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::rename(scene.place.path("results/c"), elsewhere.join("c")).unwrap();
    let mut score = harness();
    score.args(["score", "c", "--results"]).arg(&elsewhere);
    finish(&mut score).exits_with(0).prints("transcripts against the text");
}

/// The copy that a run keeps of its transcripts is made anew from those that runs share, with all answers there; without
/// them the answers can be scored still.
#[test]
fn a_lost_or_damaged_copy_of_the_transcripts_is_made_anew() {
    let asr = Loopback::start(Options::default()).unwrap();
    let llm = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let rows: Vec<Value> = (0..3).map(|n| row(n, n, "eng_Latn", &[&one_clip(&format!("{n}.wav"))])).collect();
    let scene = Scene::new(&rows);
    (0..3).for_each(|number| scene.clip(&format!("{number}.wav"), number));
    scene.cascade(&asr, &llm, "conditions = [\"speech\"]\n");
    scene.place.run(&[]).exits_with(0).prints("transcripts against the text");
    let copy = scene.place.result("transcripts.jsonl");
    let whole = std::fs::read_to_string(&copy).unwrap();
    let damage = || {
        let mut lines: Vec<&str> = whole.lines().collect();
        lines[2] = "{\"clip\": ";
        std::fs::write(&copy, lines.join("\n") + "\n").unwrap();
    };
    damage();
    scene.place.run(&[]).exits_with(0).says("is made anew from").prints("transcripts against the text");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), whole);
    std::fs::remove_file(&copy).unwrap();
    scene.place.run(&[]).exits_with(0).says("is made anew from").prints("transcripts against the text");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), whole);
    assert_eq!((asr.counters().requests, llm.counters().requests), (3, 3));

    // A folder that was copied without them.
    std::fs::remove_dir_all(scene.place.path("results/transcripts")).unwrap();
    damage();
    scene.place.run(&[]).exits_with(4).says("line 3 is no transcript").says("where they are gone, delete it");
    std::fs::remove_file(&copy).unwrap();
    scene.place.run(&[]).exits_with(0).says("transcripts.jsonl is not there: error rates");
    assert!(!copy.exists());
}

/// The seeds of a run with examples are three prompts a question and one transcript.
#[test]
fn examples_are_drawn_by_seed_and_stand_in_the_manifest() {
    let asr = Loopback::start(Options::default()).unwrap();
    let llm = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let rows: Vec<Value> =
        (0..6).map(|n| row(n, n / 2, "eng_Latn", &[&one_clip(&format!("{}.wav", n / 2))])).collect();
    let scene = Scene::new(&rows);
    (0..3).for_each(|passage| scene.clip(&format!("{passage}.wav"), passage));
    let mut table =
        "\tdataset\tsplit\tpassage_id\tquestion_id\tpassage\tquestion\tanswer1\tanswer2\tanswer3\tanswer4\t\
                     correct_answer\tcorrect_answer_num\n"
            .to_owned();
    for n in 0..40 {
        let split = if n % 8 == 7 { "dev" } else { "train" };
        let _ = write!(
            table,
            "{n}\trace\t{split}\tp{n}\tq{n}\t\"Of two\nlines, \"\"{n}\"\"\"\tWhy {n}?\ta\tb\tc\td\ta\t{}\n",
            n % 4 + 1
        );
    }
    std::fs::write(scene.place.path("belebele_training_set.tsv"), table).unwrap();
    scene.cascade(
        &asr,
        &llm,
        "conditions = [\"text\", \"speech\"]\nshots = 5\n\n[benchmark.belebele]\nshots_as = \"turns\"\n",
    );
    scene.place.run(&[]).exits_with(0).prints("runs=3: seeds 0, 1, 2").prints("race/p");
    assert_eq!(asr.counters().requests, 3);
    assert_eq!(scene.place.responses().len(), 6 * 2 * 3);
    let manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(scene.place.result("manifest.json")).unwrap()).unwrap();
    let texts = &manifest["benchmarks"][0]["prompts"]["texts"];
    let shots = |seed: usize| -> Vec<Value> {
        serde_json::from_str(texts[format!("shots_seed_{seed}")].as_str().unwrap()).unwrap()
    };
    assert!(shots(0) != shots(1) && shots(1) != shots(2));
    for seed in 0..3 {
        assert_eq!(shots(seed).len(), 5);
        for shot in shots(seed) {
            assert!(shot["id"].as_str().unwrap().starts_with("race/p"), "{shot}");
            assert!(shot["passage"].as_str().unwrap().starts_with("Of two\nlines, \""), "{shot}");
        }
    }
    // Without the file a run is refused at the line that asks for examples; scoring needs none.
    std::fs::remove_file(scene.place.path("belebele_training_set.tsv")).unwrap();
    scene.place.run(&[]).exits_with(2).says("assemble_training_set.py");
    let mut score = harness();
    score.args(["score", "c", "--results"]).arg(scene.place.path("results"));
    finish(&mut score).exits_with(0);
}

/// Questions on one passage are asked one after the other, wherever they stand in the data: a server that remembers how the
/// last prompts began has the passage still.
#[test]
fn questions_on_a_passage_are_asked_next_to_each_other() {
    let server = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let clips = one_clip("a.wav");
    let of = |number: usize, passage: usize, language: &str| row(number, passage, language, &[&clips]);
    let rows = [
        of(0, 0, "eng_Latn"),
        of(1, 1, "eng_Latn"),
        of(2, 2, "eng_Latn"),
        of(3, 1, "eng_Latn"),
        of(4, 0, "eng_Latn"),
        of(5, 0, "fra_Latn"),
        of(6, 1, "fra_Latn"),
        of(7, 0, "fra_Latn"),
    ];
    let scene = Scene::new(&rows);
    scene.clip("a.wav", 1);
    scene.cascade(&server, &server, "conditions = [\"text\"]\n");
    scene.place.run(&[]).exits_with(0);
    let order = || -> Vec<String> {
        let plan = journaled(&scene.place.result("plan.jsonl"));
        plan.iter()
            .map(|line| line["sample"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(order(), ["0", "4", "1", "3", "2", "5", "7", "6"]);
    // A limit takes the first rows, whatever order they are asked in.
    scene.place.run(&["--limit", "4", "--fresh"]).exits_with(0);
    assert_eq!(order(), ["0", "1", "3", "2"]);
}

/// Sentences are transcribed one by one, in their language, joined by its rule; what has no recording is told as text.
#[test]
fn a_prompt_holds_the_transcripts_and_nothing_else_of_it_changes() {
    let asr = Loopback::start(Options::of("--strict")).unwrap();
    let llm = Loopback::start(Options::of("--strict")).unwrap();
    let clips = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
    let (a, b) = (clips(&["a-0.wav", "a-1.wav"]), clips(&["b.wav"]));
    let none = clips(&[]);
    let rows = [
        row(0, 0, "eng_Latn", &[&a, &none, &b]),
        row(1, 1, "jpn_Jpan", &[&a, &b]),
        row(2, 2, "wol_Latn", &[&b]),
        row(3, 3, "eng_Latn", &[&none]),
    ];
    let scene = Scene::new(&rows);
    for (number, name) in ["a-0.wav", "a-1.wav", "b.wav"].iter().enumerate() {
        scene.clip(name, number);
    }
    scene.cascade(&asr, &llm, "conditions = [\"speech\"]\n\n[benchmark.belebele]\nmissing = \"text\"\n");
    let done = scene.place.run(&[]).exits_with(0);
    done.prints("speech: 1 of 4 samples could not be asked").prints("left to the recogniser: wol_Latn");
    // In three languages; the second speaker of a sentence is never heard.
    assert_eq!(asr.counters().requests, 5);
    let kept: Vec<Value> = journaled(&scene.place.result("transcripts.jsonl"));
    let told: Vec<(&str, Option<&str>)> =
        kept.iter().map(|line| (line["clip"].as_str().unwrap(), line["told"].as_str())).collect();
    assert_eq!(
        told,
        [
            ("a-0.wav", Some("en")),
            ("b.wav", Some("en")),
            ("a-0.wav", Some("ja")),
            ("b.wav", Some("ja")),
            ("b.wav", None),
        ]
    );
    assert_eq!(kept[1]["said"], "Sentence 2 of 0.");
    let said = |at: usize| kept[at]["text"].as_str().unwrap().trim().to_owned();
    let expected = [
        prompt(0, &format!("{} Sentence 1 of 0. {}", said(0), said(1))),
        prompt(1, &format!("{}{}", said(2), said(3))),
        prompt(2, &said(4)),
    ];
    let answers: Vec<String> =
        scene.place.responses().iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect();
    for text in expected {
        let right = right_answer(&[Piece::Text(&text)]);
        assert!(answers.contains(&right), "{text}\n{answers:?}");
    }
    assert!(scene.figure("transcript_wer", "transcripts", &json!({"language": "eng_Latn"})) > 0.0);

    // Found out by the recogniser it is another transcript.
    scene.place.edit("[model.llm]", "[model.transcripts]\nlanguage = \"auto\"\n\n[model.llm]");
    scene.place.run(&["--name", "auto"]).exits_with(0).prints("language auto");
    // Two clips, whatever language they are in; one of them was asked so before, of a language without a name.
    assert_eq!(asr.counters().requests, 6);
}

/// A chat model that hears writes down what it is asked to; a failed transcript fails its questions, and no others.
#[test]
fn recognisers_that_chat_are_asked_and_failures_stay_failures() {
    let asr = Loopback::start(Options::of("--strict")).unwrap();
    let llm = Loopback::start(Options::of("--strict --answers A,B,C,D")).unwrap();
    let rows = [
        row(0, 0, "deu_Latn", &[&one_clip("a.wav")]),
        row(1, 0, "deu_Latn", &[&one_clip("a.wav")]),
        row(2, 1, "deu_Latn", &[&one_clip("gone.wav")]),
    ];
    let scene = Scene::new(&rows);
    scene.clip("a.wav", 1);
    scene.cascade(&asr, &llm, "conditions = [\"text\", \"speech\"]\n");
    scene.place.edit("kind = \"transcription\"", "kind = \"openai\"");
    scene.place.run(&[]).exits_with(1).says("gone.wav");
    assert_eq!(asr.counters().requests, 1);
    let transcripts = journaled(&scene.transcripts());
    let heard = transcripts.iter().find(|line| line["outcome"] == "ok").unwrap();
    let sound = loopback::base64(&std::fs::read(scene.place.path("a.wav")).unwrap());
    let words =
        "Write down word for word what is said in the recording. It is in German. Give the words only.";
    let right = right_answer(&[Piece::Media(sound.as_bytes()), Piece::Text(words)]);
    assert_eq!(heard["text"], right.as_str());
    let outcomes: Vec<String> =
        scene.place.responses().iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "media_error").count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "ok").count(), 5);
    // Mended, the run goes on with what is missing.
    scene.clip("gone.wav", 2);
    scene.place.run(&[]).exits_with(0);
    assert_eq!((asr.counters().requests, llm.counters().requests), (2, 6));
}

#[test]
fn killed_while_it_transcribes_a_run_keeps_its_transcripts() {
    let asr = Loopback::start(Options::of("--latency 40ms")).unwrap();
    let llm = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let rows: Vec<Value> =
        (0..80).map(|n| row(n, n / 2, "eng_Latn", &[&one_clip(&format!("{}.wav", n / 2))])).collect();
    let scene = Scene::new(&rows);
    (0..40).for_each(|passage| scene.clip(&format!("{passage}.wav"), passage));
    scene.cascade(&asr, &llm, "conditions = [\"speech\"]\n");
    let mut child = scene.place.start(&[]);
    let begun = Instant::now();
    let written = || {
        let folder = scene.place.path("results/transcripts");
        if folder.is_dir() { journaled(&scene.transcripts()).len() } else { 0 }
    };
    while written() < 8 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing is transcribed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = written();
    assert!((8..40).contains(&kept), "{kept} of 40 when it was killed");
    assert_eq!(llm.counters().requests, 0);
    scene.place.run(&[]).exits_with(0).says("40 clips").says("of them transcribed");
    // What was under way when it was killed is asked again, and nothing else.
    let requests = asr.counters().requests;
    assert!((40..=44).contains(&requests), "{requests} requests for 40 clips");
    assert_eq!(journaled(&scene.transcripts()).len(), 40);
    assert_eq!(scene.place.responses().len(), 80);
}

/// Runs share the transcripts of a recogniser: what is wrong with these is told, and two never write at once.
#[test]
fn damaged_transcripts_are_told_and_a_second_run_waits_for_the_first() {
    let asr = Loopback::start(Options::default()).unwrap();
    let llm = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let rows = [0, 1].map(|n| row(n, n, "eng_Latn", &[&one_clip(&format!("{n}.wav"))]));
    let scene = Scene::new(&rows);
    (0..2).for_each(|passage| scene.clip(&format!("{passage}.wav"), passage));
    scene.cascade(&asr, &llm, "conditions = [\"speech\"]\n");
    scene.place.run(&[]).exits_with(0);
    let path = scene.transcripts();
    let whole = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    lines[1] = "{\"damaged";
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let again = scene.place.run(&["--name", "second"]).exits_with(0);
    again.says(&format!("{}: 1 damaged lines (the first is line 2)", path.display()));
    assert_eq!(asr.counters().requests, 3, "the damaged one alone");

    let lock = std::fs::File::create(path.with_file_name(".lock")).unwrap();
    lock.lock().unwrap();
    let refused = scene.place.run(&["--name", "third"]).exits_with(4);
    let refused = refused.says("another run is transcribing with this recogniser");
    assert!(!refused.stderr.contains("--name"), "another name does not help: {}", refused.stderr);
    drop(lock);
    scene.place.run(&["--name", "third"]).exits_with(0);
}

/// Without a cascade the model hears a passage as one clip, and the record says how it was made.
#[test]
fn a_model_that_hears_gets_the_sentences_as_one_clip() {
    let server = Loopback::start(Options::of("--strict --answers A,B,C,D")).unwrap();
    let clips = [one_clip("a.wav"), one_clip("b.wav")];
    let rows = [
        row(0, 0, "eng_Latn", &[&clips[0], &clips[1]]),
        row(1, 1, "eng_Latn", &[&clips[0]]),
        row(2, 2, "fra_Latn", &[&clips[0], &clips[1]]),
    ];
    let scene = Scene::new(&rows);
    scene.clip("a.wav", 1);
    scene.clip("b.wav", 2);
    let config = format!(
        "[model]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{}/v1\"\nrevision = \"1\"\n\n[generation]\n\
         max_new_tokens = 16\n\n[[benchmark]]\nname = \"2m-belebele\"\ndata = \"rows.jsonl\"\nlanguages = [\"eng_Latn\"]\n\
         allow_other_data = true\nconditions = [\"text\", \"speech\", \"no_passage\"]\n",
        server.url()
    );
    std::fs::write(scene.place.path("c.toml"), config).unwrap();
    finish(&mut {
        let mut check = harness();
        check.arg("check").arg(scene.place.path("c.toml"));
        check
    })
    .exits_with(0)
    .prints("2 samples");
    let done: Finished = scene.place.run(&[]).exits_with(0);
    let responses = scene.place.responses();
    assert_eq!(responses.len(), 6, "one language, three conditions");
    let media = |number: &str| -> Value {
        let found = responses
            .iter()
            .find(|line| line["sample"].as_str().unwrap().ends_with(number) && !line["media"].is_null());
        found.unwrap()["media"][0].clone()
    };
    let joined = media("/0");
    assert_eq!(joined["audio"]["steps"], json!(["join:2", "encode:wav16"]));
    assert_eq!(joined["audio"]["samples"], 1600);
    let alone = media("/1");
    assert_eq!(alone["audio"]["steps"], json!(["encode:wav16"]), "one recording goes the way of several");
    assert_eq!(alone["name"], "join:0:[\"a.wav\"]");
    done.prints("chance").prints("no_passage").prints("abstract of arXiv 2412.08274v3");
}

/// Told nothing, a recogniser names the language that it heard; what it took stands apart from what the model took.
#[test]
fn languages_that_were_heard_and_what_transcripts_took_are_told() {
    let asr = Loopback::start(Options::of("--strict")).unwrap();
    let llm = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let rows = [
        row(0, 0, "eng_Latn", &[&one_clip("a.wav")]),
        row(1, 1, "deu_Latn", &[&one_clip("b.wav")]),
        row(2, 1, "deu_Latn", &[&one_clip("b.wav")]),
    ];
    let scene = Scene::new(&rows);
    scene.clip("a.wav", 1);
    scene.clip("b.wav", 2);
    scene.cascade(&asr, &llm, "conditions = [\"speech\"]\n");
    scene.place.edit(
        "[model.llm]",
        "[model.asr.price]\ninput_per_million = 1000\noutput_per_million = 2000\n\n[model.asr.transcription]\n\
         verbose = true\n\n[model.transcripts]\nlanguage = \"auto\"\n\n[model.llm]",
    );
    let done = scene.place.run(&[]).exits_with(0);
    done.prints("languages heard by the recogniser")
        .prints("transcripts: 2 clips of different content, 0.1 s of sound");
    // The server takes everything for English.
    let share =
        |language: &str| scene.figure("transcript_language", "transcripts", &json!({ "language": language }));
    assert_eq!((share("eng_Latn"), share("deu_Latn")), (1.0, 0.0));
    let heard = journaled(&scene.transcripts());
    assert!(heard.len() == 2 && heard.iter().all(|line| line["language"] == "en"), "{heard:?}");
    let took = scene.place.scores()["benchmarks"][0]["transcribing"].clone();
    let tokens = |name: &str| -> u64 { heard.iter().map(|line| line["usage"][name].as_u64().unwrap()).sum() };
    let (input, output) = (tokens("prompt_tokens"), tokens("completion_tokens"));
    assert!(input > 0 && output > 0);
    assert_eq!((took["requests"].as_u64(), took["earlier"].as_u64()), (Some(2), Some(0)));
    assert_eq!(
        (took["prompt_tokens"].as_u64(), took["completion_tokens"].as_u64()),
        (Some(input), Some(output))
    );
    assert!((took["audio_seconds"].as_f64().unwrap() - 0.1).abs() < 1e-9, "{took}");
    let cost = input as f64 / 1e3 + output as f64 / 500.0;
    assert!((took["cost"].as_f64().unwrap() - cost).abs() < 1e-9, "{took}");

    // Another run finds them there: they cost it nothing, whatever it may cost.
    let done = scene.place.run(&["--name", "second", "--max-cost", "0.000001"]).exits_with(0);
    done.prints("2 of them were there before this run, and cost it nothing");
    assert_eq!(asr.counters().requests, 2);
}

#[test]
fn transcripts_count_in_what_a_run_may_cost() {
    let asr = Loopback::start(Options::of("--latency 5ms")).unwrap();
    let llm = Loopback::start(Options::of("--answers A,B,C,D")).unwrap();
    let rows: Vec<Value> =
        (0..60).map(|n| row(n, n, "eng_Latn", &[&one_clip(&format!("{n}.wav"))])).collect();
    let scene = Scene::new(&rows);
    (0..60).for_each(|n| scene.clip(&format!("{n}.wav"), n));
    scene.cascade(&asr, &llm, "conditions = [\"speech\"]\n");
    scene.place.run(&["--max-cost", "1"]).exits_with(2).says("[model.llm.price] or [model.asr.price]");
    scene.place.edit(
        "[model.llm]",
        "[model.asr.price]\ninput_per_million = 1000\noutput_per_million = 2000\n\n[model.llm]",
    );
    scene.place.run(&["--max-cost", "0.05"]).exits_with(1).says("stopped: transcribing has cost 0.");
    let asked = asr.counters().requests;
    assert!((1..60).contains(&asked), "{asked}");
    // What was spent counts: the same limit stops at once.
    scene.place.run(&["--max-cost", "0.05"]).exits_with(1).says("stopped: transcribing has cost 0.");
    assert_eq!((asr.counters().requests, llm.counters().requests), (asked, 0));
    scene.place.run(&["--max-cost", "1000"]).exits_with(0).says("of it for transcripts)");
    assert_eq!((asr.counters().requests, llm.counters().requests), (60, 60));
    let took = scene.place.scores()["benchmarks"][0]["transcribing"].clone();
    assert_eq!((took["requests"].as_u64(), took["earlier"].as_u64()), (Some(60), Some(0)));
    // The transcripts alone have used up the bound: no question is asked.
    let spent = took["cost"].as_f64().unwrap();
    std::fs::remove_file(scene.place.result("responses.jsonl")).unwrap();
    let bound = format!("{}", spent / 2.0);
    scene.place.run(&["--max-cost", &bound]).exits_with(1).says("stopped: the run has cost");
    assert_eq!((asr.counters().requests, llm.counters().requests), (60, 60));
}

/// Where a question is to be written down, a cascade has done so already: its model is not asked.
#[test]
fn what_a_cascade_has_written_down_is_its_answer_where_nothing_else_is_wanted() {
    let asr = Loopback::start(Options::of("--strict")).unwrap();
    let llm = Loopback::start(Options::of("--strict")).unwrap();
    let scene = Scene::new(&[]);
    scene.cascade(&asr, &llm, "conditions = [\"sqa\", \"asr\"]\nlanguages = [\"eng\", \"fra\"]\n");
    let data = common::root().join("demo/ccfqa/test.jsonl");
    scene.place.edit(
        "name = \"2m-belebele\"\ndata = \"rows.jsonl\"",
        &format!("name = \"ccfqa\"\ndata = \"{}\"", data.display()),
    );
    let done = scene.place.run(&[]).exits_with(0);
    done.prints("deviation: asr: what is measured are the transcripts of the cascade's recogniser");
    assert_eq!((asr.counters().requests, llm.counters().requests), (12, 12), "the model has the 12 of sqa");
    let kept = journaled(&scene.place.result("transcripts.jsonl"));
    assert!(kept.len() == 12 && kept.iter().all(|line| line["said"].is_string()), "{kept:?}");
    let responses = scene.place.responses();
    let mut keys = std::collections::BTreeSet::new();
    for planned in journaled(&scene.place.result("plan.jsonl")) {
        if planned["conditions"] != json!(["asr"]) {
            continue;
        }
        let response = responses.iter().find(|line| line["request"] == planned["request"]).unwrap();
        let written = kept.iter().find(|line| line["said"] == planned["gold"][0]).unwrap();
        assert_eq!((&response["text"], &response["outcome"]), (&written["text"], &json!("ok")));
        assert_eq!(response["usage"]["prompt_tokens"], 0);
        keys.insert(response["key"].as_str().unwrap().to_owned());
    }
    assert_eq!(keys.len(), 12, "each clip has an answer of its own");
    let scores = scene.place.scores();
    let asr = |value: &&Value| value["metric"] == "wer_corpus" && value["condition"] == "asr";
    let found = scores["benchmarks"][0]["metrics"].as_array().unwrap().iter().filter(asr);
    assert_eq!(found.map(|value| value["n"].as_u64().unwrap()).collect::<Vec<_>>(), [6, 6]);
}
