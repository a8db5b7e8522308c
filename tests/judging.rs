//! Judging against model servers: five runs are five draws, nothing is asked twice, and what failed is no score.

#![cfg(feature = "endpoint")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;
#[path = "loopback/mod.rs"]
mod loopback;
#[path = "judging/told.rs"]
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::{Finished, Place, finish, harness, journaled, wav};
use loopback::{Loopback, Options};
use serde_json::Value;

const RATINGS: &str = "Rating:0,Rating:1,Rating:2,Rating:3,Rating:4,Rating:5";

/// Questions on recordings of half a second, a model server and a judge.
struct Bench {
    place: Place,
    rows: usize,
}

impl Bench {
    fn new(rows: usize, model: &Loopback, judge: &Loopback) -> Self {
        let row = |n: usize| {
            let category = ["C", "CP", "DP"][n % 3];
            format!(
                "{{\"id\":\"q{n}\",\"audio\":\"a.wav\",\"question\":\"Question {n}?\",\"reference\":\"r{n}\",\
                 \"category\":\"{category}\",\"set\":\"long\"}}\n"
            )
        };
        let place = Place::new(&(0..rows).map(row).collect::<String>());
        std::fs::write(place.path("a.wav"), wav((0..8000).map(|sample| sample % 3001))).unwrap();
        let bench = Self { place, rows };
        bench.configure(&model.url(), &judge.url());
        bench
    }

    fn configure(&self, model: &str, judge: &str) {
        let config = format!(
            "[model]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{model}/v1\"\nrevision = \"1\"\n\n\
             [generation]\ntemperature = 1.0\nmax_new_tokens = 64\n\n\
             [judge]\nname = \"ann\"\nmax_context = 4096\n\n\
             [judge.model]\nkind = \"openai\"\nmodel = \"llama-3-70b-instruct-awq\"\nbase_url = \"{judge}/v1\"\n\
             revision = \"1\"\n\n\
             [judge.model.flow]\nconcurrency = 8\ndelay_seconds = 0.02\nmax_delay_seconds = 0.2\n\
             patience_seconds = 1\nmax_attempts = 3\n\n\
             [judge.generation]\ntemperature = 1.0\nmax_new_tokens = 512\n\n\
             [[benchmark]]\nname = \"cp-bench\"\ndata = \"rows.jsonl\"\n"
        );
        std::fs::write(self.place.path("c.toml"), config).unwrap();
    }

    fn verdicts(&self) -> Vec<Value> {
        journaled(&self.place.result("verdicts/ann.jsonl"))
    }

    fn judge(&self, more: &[&str]) -> Finished {
        let mut command = harness();
        command.arg("judge").arg("c").arg("--results").arg(self.place.path("results")).args(more);
        finish(&mut command)
    }

    fn figure(&self, metric: &str, group: &Value) -> f64 {
        let scores = self.place.scores();
        let metrics = scores["benchmarks"][0]["metrics"].as_array().unwrap().clone();
        let none = serde_json::json!({});
        let of = |m: &&Value| m["metric"] == metric && m.get("group").unwrap_or(&none) == group;
        metrics.iter().find(of).unwrap_or_else(|| panic!("{metric} {group}"))["value"].as_f64().unwrap()
    }
}

/// The ratings that were journaled, by judging run.
fn by_run(verdicts: &[Value]) -> BTreeMap<u64, Vec<f64>> {
    let mut runs: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for line in verdicts {
        let run = line["judge"]["about"]["run"].as_u64().unwrap();
        runs.entry(run).or_default().push(line["judge"]["value"].as_f64().unwrap());
    }
    runs
}

fn requests(server: &Loopback) -> u64 {
    server.counters().requests
}

#[test]
fn five_runs_are_five_draws_and_a_second_command_makes_none() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(24, &model, &judge);
    let done = bench.place.run(&[]).exits_with(0).says("judge ann: 120 calls");
    assert_eq!(requests(&judge), 120, "five requests for each of 24 answers");
    let verdicts = bench.verdicts();
    let keys: BTreeSet<&str> = verdicts.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!((verdicts.len(), keys.len()), (120, 120));

    // Each answer has five draws, most of them not all the same.
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in &verdicts {
        let texts = drawn.entry(line["sample"].as_str().unwrap().to_owned()).or_default();
        texts.insert(line["text"].as_str().unwrap().to_owned());
    }
    let various = drawn.values().filter(|texts| texts.len() > 1).count();
    assert!(various > 20, "{various} of 24 answers have different verdicts");

    let runs = by_run(&verdicts);
    let means: Vec<f64> =
        runs.values().map(|run| run.iter().sum::<f64>() / run.len() as f64 * 20.0).collect();
    assert_eq!(means.len(), 5);
    for (run, mean) in means.iter().enumerate() {
        let group = serde_json::json!({"run": (run + 1).to_string()});
        assert!((bench.figure("judge_score_run", &group) - mean).abs() < 1e-9);
    }
    let score = means.iter().sum::<f64>() / 5.0;
    assert!((bench.figure("judge_score", &serde_json::json!({})) - score).abs() < 1e-9);
    assert!(done.stdout.contains("5 runs, 120 calls: ok 120"), "{}", done.stdout);

    // Judging again, scoring and reporting ask nobody.
    bench.judge(&[]).exits_with(0).says("120 of them made");
    let mut score = harness();
    score.args(["score", "c", "--judge", "ann", "--results"]).arg(bench.place.path("results"));
    finish(&mut score).exits_with(0);
    assert_eq!((requests(&judge), requests(&model)), (120, 24));

    // A string match needs no judge, and says what it is.
    let mut score = harness();
    score.args(["score", "c", "--judge", "match", "--results"]).arg(bench.place.path("results"));
    finish(&mut score).exits_with(0).prints("no LLM judge: string match");
    let mut score = harness();
    score.args(["score", "c", "--judge", "bob", "--results"]).arg(bench.place.path("results"));
    finish(&mut score).exits_with(2).says("no verdicts of a judge `bob`").says("ann");
}

#[test]
fn another_judge_stands_beside_the_first_and_never_mixes_with_it() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(4, &model, &judge);
    bench.place.run(&[]).exits_with(0);
    bench.place.edit("model = \"llama-3-70b-instruct-awq\"", "model = \"other\"");
    let config = bench.place.path("c.toml");
    let config = config.to_str().unwrap();
    bench.judge(&["--judge", config]).exits_with(2).says("holds verdicts of another judge").says("other");
    let done = bench.judge(&["--judge", config, "--name", "bob", "--runs", "2"]).exits_with(0);
    assert!(done.stdout.contains("judge bob (other)"), "{}", done.stdout);
    assert!(done.stdout.contains("2 judging runs, the paper has 5"), "{}", done.stdout);
    assert_eq!(requests(&judge), 20 + 8);
    assert!(bench.place.result("verdicts/bob.jsonl").is_file());
}

/// Whoever moves one of a judge's two files away leaves verdicts behind that another judge would take for its own.
#[test]
fn verdicts_without_the_file_that_says_whose_they_are_are_refused() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(2, &model, &judge);
    bench.place.run(&[]).exits_with(0);
    bench.place.edit("model = \"llama-3-70b-instruct-awq\"", "model = \"other\"");
    let config = bench.place.path("c.toml");
    let config = config.to_str().unwrap();
    let (described, verdicts) =
        (bench.place.result("verdicts/ann.json"), bench.place.result("verdicts/ann.jsonl"));
    let away = |path: &std::path::Path| std::fs::rename(path, path.with_added_extension("old")).unwrap();
    bench
        .judge(&["--judge", config])
        .exits_with(2)
        .says(&format!("{} holds verdicts of another judge", verdicts.display()))
        .says(&format!("which {} describes", described.display()))
        .says("move both files away");
    away(&described);
    let says = format!("{} holds verdicts, and {}, which says", verdicts.display(), described.display());
    bench.judge(&["--judge", config]).exits_with(2).says(&says).says("move both files");
    let mut score = harness();
    score.args(["score", "c", "--results"]).arg(bench.place.path("results"));
    finish(&mut score).exits_with(4).says(&says);
    assert_eq!(requests(&judge), 10, "nobody was asked meanwhile");
    away(&verdicts);
    // What a process leaves that is killed before it has asked: nobody's verdicts.
    let header = std::fs::read_to_string(verdicts.with_added_extension("old")).unwrap();
    std::fs::write(&verdicts, header.split_inclusive('\n').next().unwrap()).unwrap();
    let done = bench.judge(&["--judge", config]).exits_with(0);
    assert!(done.stdout.contains("judge ann (other)"), "{}", done.stdout);
    assert_eq!(requests(&judge), 20);
}

#[test]
fn judging_needs_neither_model_nor_data_and_goes_on_after_a_kill() {
    let model = Loopback::start(Options::default()).unwrap();
    let slow = Loopback::start(Options::of(&format!("--seeded --latency 40ms --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(30, &model, &slow);
    finish(&mut bench.place.command("generate", &[])).exits_with(0);
    drop(model);
    std::fs::remove_file(bench.place.path("rows.jsonl")).unwrap();
    std::fs::remove_file(bench.place.path("a.wav")).unwrap();
    let start = || {
        let mut command = harness();
        command.args(["judge", "c", "--results"]).arg(bench.place.path("results"));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    for _ in 0..3 {
        let mut child = start();
        let before = bench.verdicts().len();
        while bench.verdicts().len() < before + 15 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(bench.verdicts().len() < 150, "the kills came before the end");
    bench.judge(&[]).exits_with(0);
    let verdicts = bench.verdicts();
    let ids: BTreeSet<&str> = verdicts.iter().map(|line| line["request"].as_str().unwrap()).collect();
    assert_eq!((verdicts.len(), ids.len()), (150, 150), "none lost, none twice");
    // Eight calls may have been under way at each kill; what was journaled was not asked again.
    assert!(requests(&slow) <= 150 + 3 * 8, "{}", requests(&slow));
    assert_eq!(bench.rows, 30);
}

#[test]
fn a_judge_that_is_down_or_talks_rubbish_gives_no_wrong_score() {
    let model = Loopback::start(Options::default()).unwrap();
    // One reply in six has no rating.
    let rubbish = RATINGS.replace("Rating:0", "hmm");
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {rubbish}"))).unwrap();
    let bench = Bench::new(40, &model, &judge);
    bench.place.run(&[]).exits_with(0);
    let verdicts = bench.verdicts();
    let unparsed = verdicts.iter().filter(|line| line["judge"].get("value").is_none()).count();
    assert!(unparsed > 10, "{unparsed}");
    let sum: f64 = verdicts.iter().filter_map(|line| line["judge"]["value"].as_f64()).sum();
    let score = sum / 200.0 * 20.0;
    assert!(
        (bench.figure("judge_score", &serde_json::json!({})) - score).abs() < 1e-9,
        "unparsed ones are 0"
    );
    let judged = &bench.place.scores()["benchmarks"][0]["judge"];
    assert_eq!(judged["unparsed"], unparsed);
    assert_eq!(judged["rules"]["cp-bench:no_rating"], unparsed);

    // A filter withholds every reply: no score at all, and the run is incomplete.
    let model = Loopback::start(Options::default()).unwrap();
    let filtered = Loopback::start(Options::of("--fault content-filter=1")).unwrap();
    let bench = Bench::new(3, &model, &filtered);
    let done = bench
        .place
        .run(&[])
        .exits_with(1)
        .says("incomplete: cp-bench: 15 of 15 replies of the judge ann were withheld by a filter");
    assert!(!done.stderr.contains("To make just these"), "{}", done.stderr);
    assert!(done.stdout.contains("content_filter 15"), "{}", done.stdout);
    let scores = bench.place.scores();
    let metrics = scores["benchmarks"][0]["metrics"].as_array().unwrap();
    let score = metrics.iter().find(|m| m["metric"] == "judge_score").unwrap();
    assert_eq!((score.get("value").and_then(Value::as_f64), &score["n"]), (None, &0.into()));
    assert_eq!(score["counts"]["unjudged"], 3);
    // Where they may be missing nothing is incomplete.
    bench.place.edit("max_context = 4096", "max_context = 4096\non_error = \"exclude\"");
    bench
        .place
        .run(&[])
        .exits_with(0)
        .says("note: cp-bench: 15 of 15 replies of the judge ann were withheld");

    // A judge that is gone: what was judged stays, the rest is named.
    let model = Loopback::start(Options::default()).unwrap();
    let gone = Loopback::start(Options::of("--fault 400=1")).unwrap();
    let bench = Bench::new(3, &model, &gone);
    bench.place.run(&[]).exits_with(1).says("15 of 15 calls of the judge ann gave no reply");
    let back = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let text = std::fs::read_to_string(bench.place.path("c.toml")).unwrap();
    std::fs::write(bench.place.path("c.toml"), text.replace(&gone.url(), &back.url())).unwrap();
    let config = bench.place.path("c.toml");
    bench.judge(&["--judge", config.to_str().unwrap(), "--name", "back"]).exits_with(0);
}

/// A line that cannot be read is missing from the scores, and nobody is left to wonder why.
#[test]
fn damaged_lines_are_told_by_every_stage_that_reads_them() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(3, &model, &judge);
    bench.place.run(&[]).exits_with(0);
    let damage = |name: &str, line: usize| {
        let path = bench.place.result(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().map(|(at, text)| if at + 1 == line { "\0\0" } else { text });
        std::fs::write(&path, lines.fold(String::new(), |text, line| text + line + "\n")).unwrap();
    };
    let score = || {
        let mut score = harness();
        score.args(["score", "c", "--results"]).arg(bench.place.path("results"));
        finish(&mut score)
    };
    damage("verdicts/ann.jsonl", 4);
    damage("verdicts/ann.jsonl", 6);
    let told = "verdicts/ann.jsonl: 2 damaged lines (the first is line 4)";
    let passed = format!("warning: cp-bench: {told} are passed over");
    score().exits_with(1).says(&passed).prints(&format!("warning: {told} are passed over"));
    // What stood there is asked again.
    bench.judge(&[]).exits_with(0).says(&format!("warning: {told}; their requests are done again"));
    assert_eq!(requests(&judge), 17);
    damage("responses.jsonl", 2);
    let told = "responses.jsonl: 1 damaged lines (the first is line 2)";
    score().exits_with(1).says(&format!("warning: cp-bench: {told}")).prints(&format!("warning: {told}"));
}

#[test]
fn a_judge_section_that_is_wrong_is_named_with_its_line() {
    let model = Loopback::start(Options::default()).unwrap();
    let bench = Bench::new(1, &model, &model);
    bench.place.edit("[judge.model]\nkind = \"openai\"", "[judge.model]\nkind = \"opnai\"");
    bench.place.run(&[]).exits_with(2).says("did you mean `openai`?");
    bench.place.edit("kind = \"opnai\"", "kind = \"openai\"\napi_key_env = \"HARNESS_TEST_NO_SUCH_KEY\"");
    bench.place.run(&[]).exits_with(2).says("HARNESS_TEST_NO_SUCH_KEY").says("c.toml:");
    assert_eq!(requests(&model), 0, "nothing was asked before the judge could be");
}

/// What is wrong with a judge is found by a check, and by a run before the first answer is paid for.
#[test]
fn mistakes_in_a_judge_are_found_before_anything_is_asked() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let mistakes: [(&str, &str, &str); 6] = [
        ("max_context = 4096", "mode = \"raw\"", "completions = true"),
        ("max_context = 4096", "max_context = 512", "nothing is left for the answer"),
        ("max_context = 4096", "max_context = 4096\ntokenizer = \"no-such.json\"", "no-such.json"),
        ("max_context = 4096", "prompt = \"no-such.toml\"", "no-such.toml"),
        ("max_context = 4096", "prompt = \"placeless.toml\"", "has no place `{"),
        ("max_context = 4096", "prompt = \"other.toml\"", "the text `judge_line`"),
    ];
    for (from, to, says) in mistakes {
        let bench = Bench::new(1, &model, &judge);
        std::fs::write(bench.place.path("placeless.toml"), "[texts]\njudge_default = \"Good?\"\n").unwrap();
        std::fs::write(bench.place.path("other.toml"), "[texts]\njudge_line = \"{response}\"\n").unwrap();
        bench.place.edit(from, to);
        finish(&mut bench.place.command("check", &[])).exits_with(2).says(says).says("c.toml:");
        bench.place.run(&[]).exits_with(2).says(says);
    }
    assert_eq!((requests(&model), requests(&judge)), (0, 0));
    let bench = Bench::new(4, &model, &judge);
    finish(&mut bench.place.command("check", &[]))
        .exits_with(0)
        .prints("judge ann\n  model     llama-3-70b-instruct-awq")
        .prints("calls     cp-bench: 20, 5 runs of 4 answers")
        .prints("judge_default (harness wording, sha256 ");
}

/// A verdict is one on what the judge was shown: another profile, or answers with their wrapping, are asked about anew.
#[test]
fn verdicts_on_what_was_shown_otherwise_are_not_taken() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(3, &model, &judge);
    bench.place.run(&[]).exits_with(0);
    bench.place.edit("name = \"cp-bench\"", "name = \"cp-bench\"\nprofile = \"recipe\"");
    let done = bench.place.run(&[]).exits_with(0);
    assert!(done.stderr.contains("judge ann: 15 calls\n"), "{}", done.stderr);
    assert_eq!(requests(&judge), 30);
    // Back again all verdicts are there.
    bench.place.edit("profile = \"recipe\"", "profile = \"official\"");
    bench.place.run(&[]).exits_with(0).says("15 calls, 15 of them made");
    assert_eq!(requests(&judge), 30);

    let model =
        Loopback::start(Options { answers: vec!["The answer is: Oslo".to_owned()], ..Options::default() })
            .unwrap();
    let judge = Loopback::start(Options::of("--answers yes,no")).unwrap();
    let bench = Bench::new(1, &model, &judge);
    let language = serde_json::json!({"audio": "a.wav", "question": "Where?", "answer": "Oslo"});
    let row = serde_json::json!({"index": 1, "source": "mooc", "label": "Geography", "eng": language});
    std::fs::write(bench.place.path("rows.jsonl"), format!("{row}\n")).unwrap();
    bench.place.edit(
        "name = \"cp-bench\"",
        "name = \"ccfqa\"\nconditions = [\"qa\"]\nlanguages = [\"eng\"]\nallow_other_data = true",
    );
    bench.place.run(&[]).exits_with(0);
    let first = requests(&judge);
    bench.place.edit("allow_other_data = true", "allow_other_data = true\nstrip_output = false");
    bench.place.run(&[]).exits_with(0);
    assert_eq!((first, requests(&judge)), (1, 2));
}

/// Each run has the judge's seed plus its number, which is sent as it is and journaled.
#[test]
fn the_seeds_of_judging_runs_are_journaled() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(2, &model, &judge);
    bench.place.run(&[]).exits_with(0);
    for line in bench.verdicts() {
        let of = |value: &Value| value.as_u64().unwrap();
        assert_eq!(of(&line["judge"]["seed"]), 443 + of(&line["judge"]["about"]["run"]));
    }
}

/// A config with a judge alone will do, and how it reads replies counts.
#[test]
fn a_config_of_a_judge_alone_judges_and_is_the_one_that_counts() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge =
        Loopback::start(Options { answers: vec!["Rating: (3)".to_owned()], ..Options::default() }).unwrap();
    let bench = Bench::new(2, &model, &judge);
    bench.place.run(&[]).exits_with(0);
    let score = |bench: &Bench| bench.figure("judge_score", &serde_json::json!({}));
    assert!((score(&bench) - 60.0).abs() < 1e-9);
    let alone = format!(
        "[judge]\nname = \"ann\"\nmax_context = 4096\nrating = \"strict_audiobench\"\n\n[judge.model]\n\
         kind = \"openai\"\nmodel = \"llama-3-70b-instruct-awq\"\nbase_url = \"{}/v1\"\nrevision = \"1\"\n",
        judge.url()
    );
    std::fs::write(bench.place.path("alone.toml"), alone).unwrap();
    let alone = bench.place.path("alone.toml");
    // Temperature and most tokens are the paper's where it does not say them, and so it is the same judge. The strict
    // reading finds no rating at all, and that is no result.
    let strict = bench
        .judge(&["--judge", alone.to_str().unwrap()])
        .exits_with(1)
        .says("10 of them made")
        .says("none of the 10 replies of the judge ann could be read");
    assert!(strict.stderr.trim_end().ends_with("before you trust the scores"), "{}", strict.stderr);
    assert!(score(&bench).abs() < 1e-9);
    let mut again = harness();
    again.args(["score", "c", "--results"]).arg(bench.place.path("results"));
    finish(&mut again).exits_with(1);
    assert!(score(&bench).abs() < 1e-9, "the judge's own config still counts");
    bench.judge(&[]).exits_with(0);
    assert!((score(&bench) - 60.0).abs() < 1e-9);
    assert_eq!(requests(&judge), 10);
    bench.judge(&["--name", "match"]).exits_with(2).says("is that of the judge by string match");
}

/// What a judge was asked with is told of it, and of the model what that was asked with.
#[test]
fn a_judge_s_own_prompt_is_told_as_its_own() {
    let model = Loopback::start(Options::of("--answers Oslo,Rome")).unwrap();
    let judge = Loopback::start(Options::of("--answers yes,no")).unwrap();
    let language =
        |answer: &str| serde_json::json!({"audio": "a.wav", "question": "Where?", "answer": answer});
    let row = |n: u32| {
        let (source, label) = ("mooc", "Geography");
        let row = serde_json::json!({"index": n, "source": source, "label": label, "eng": language("Oslo"),
            "fra": language("Rome")});
        format!("{row}\n")
    };
    let bench = Bench::new(1, &model, &judge);
    std::fs::write(bench.place.path("rows.jsonl"), (1..=6).map(row).collect::<String>()).unwrap();
    bench.place.edit(
        "name = \"cp-bench\"",
        "name = \"ccfqa\"\nconditions = [\"qa\", \"xqa\"]\nlanguages = [\"eng\", \"fra\"]\nallow_other_data = true",
    );
    bench.place.edit("max_context = 4096", "prompt = \"my.toml\"");
    std::fs::write(bench.place.path("my.toml"), "[texts]\njudge = \"{tgt_a} or {lang_a}?\"\n").unwrap();
    let done = bench.place.run(&[]).exits_with(0).says("judge ann: 24 calls");
    assert!(done.stdout.contains("judge (my.toml, sha256"), "{}", done.stdout);
    assert!(
        done.stdout.contains("the judge is asked in other words than the paper's (my.toml)"),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout.contains("no prompts for written questions; these are harness wording"),
        "{}",
        done.stdout
    );
    let scores = bench.place.scores();
    let metrics = scores["benchmarks"][0]["metrics"].as_array().unwrap();
    let of = |m: &&Value| {
        m["metric"] == "llm_accuracy_micro" && m["condition"] == "xqa" && m.get("group").is_none()
    };
    let found = metrics.iter().find(of).unwrap()["value"].as_f64().unwrap();
    let verdicts = bench.verdicts();
    let yes = verdicts.iter().filter(|line| line["text"] == "yes").count();
    assert!((found - yes as f64 / 24.0 * 100.0).abs() < 1e-9, "{found}");

    // Another wording for the model makes no other judge of it.
    bench.place.edit("[[benchmark]]\n", "[[benchmark]]\nprompt = \"harness\"\n");
    bench.place.run(&[]).exits_with(0).says("24 of them made");
}

/// Copies a folder of files and folders.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Answers come from one machine, verdicts and scores from another, which has the run's folder and a judge.
#[test]
fn a_copy_of_the_run_s_folder_is_judged_and_scored_without_model_and_data() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(9, &model, &judge);
    finish(&mut bench.place.command("generate", &[])).exits_with(0);
    let there = tempfile::tempdir().unwrap();
    let moved = there.path().join("moved");
    copy(&bench.place.path("results/c"), &moved);

    // What the first machine would have come to.
    bench.judge(&[]).exits_with(0);
    let here = bench.place.scores();
    assert_eq!((requests(&model), requests(&judge)), (9, 45));
    // Config, rows, clips and model are gone.
    drop(bench);
    drop(model);

    let run = moved.to_str().unwrap();
    let harness_there = || {
        let mut command = harness();
        command.current_dir(there.path());
        command
    };
    let config = format!(
        "[model]\nkind = \"local\"\narchitecture = \"qwen2_audio\"\nweights = \"no/such/folder\"\n\n\
         [judge]\nname = \"ann\"\nmax_context = 4096\n\n[judge.model]\nkind = \"openai\"\n\
         model = \"llama-3-70b-instruct-awq\"\nbase_url = \"{}/v1\"\nrevision = \"1\"\n\n\
         [judge.generation]\ntemperature = 1.0\nmax_new_tokens = 512\n\n\
         [[benchmark]]\nname = \"cp-bench\"\ndata = \"no/such/rows.jsonl\"\n",
        judge.url()
    );
    std::fs::write(there.path().join("judge.toml"), config).unwrap();
    finish(harness_there().args(["judge", run, "--judge", "judge.toml"]))
        .exits_with(0)
        .says("judge ann: 45 calls");
    assert_eq!(requests(&judge), 90);
    let scored = finish(harness_there().args(["score", run])).exits_with(0).prints("judge ann");
    let text = std::fs::read_to_string(moved.join("scores.json")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["benchmarks"], here["benchmarks"]);
    let printed = finish(harness_there().args(["report", run])).exits_with(0);
    assert_eq!(printed.stdout, scored.stdout);
    assert_eq!(requests(&judge), 90, "scoring asks nobody");
}

/// Where the judge's tokenizer is there, its tokens decide what fits, and not a guess.
#[cfg(feature = "local")]
#[test]
fn a_judge_s_context_is_counted_in_its_own_tokens() {
    const CONTEXT: usize = 1900;
    let long = "Oslo ".repeat(400);
    let model = Loopback::start(Options { answers: vec![long], ..Options::default() }).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let shortened = |bench: &Bench| {
        let about = |line: &Value| line["judge"]["about"].get("shortened") == Some(&true.into());
        bench.verdicts().iter().filter(|line| about(line)).count()
    };
    let with = |tokenizer: &str| {
        let bench = Bench::new(2, &model, &judge);
        bench.place.edit("max_context = 4096", &format!("max_context = {CONTEXT}\n{tokenizer}"));
        (bench.place.run(&[]), bench)
    };
    let folder = common::root().join("demo/model");
    let counts = harness::model::Tokens::open(&folder).unwrap();
    let wanted = counts.count(&"Oslo ".repeat(400));
    // The demo's tokenizer knows no such word: it takes more tokens than the guess of one for three bytes.
    assert!(wanted > 1000, "{wanted}");

    let (guessed, bench) = with("");
    guessed.exits_with(0);
    assert_eq!(shortened(&bench), 0, "667 and 512 tokens, and the prompt");
    let (counted, bench) = with(&format!("tokenizer = \"{}\"", folder.display()));
    let counted = counted
        .exits_with(0)
        .prints("2 answers were shortened to fit its context (tokens counted by its tokenizer");
    assert_eq!(shortened(&bench), 10, "five runs of two answers");
    drop(counted);
    // Another tokenizer would send other prompts under the same name.
    bench.place.edit("tokenizer = ", "# tokenizer = ");
    bench
        .judge(&["--judge", bench.place.path("c.toml").to_str().unwrap()])
        .exits_with(2)
        .says("the tokenizer");

    let (refused, _bench) = with("tokenizer = \"no-such-file.json\"");
    refused.exits_with(2).says("no-such-file.json").says("c.toml:");
}
