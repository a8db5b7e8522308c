//! Answers that exist already: the same scores as when the same answers come from a server, and every count told.

#![cfg(feature = "endpoint")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;
#[path = "loopback/mod.rs"]
mod loopback;

use common::{Finished, Place, finish, harness, journaled};
use loopback::{Loopback, Options};
use serde_json::{Value, json};

const ANSWERS: &str = "--answers Oslo,Rome,Bergen,Roma";

/// Six items in two languages, to be asked in writing: no clip is there.
struct Bench {
    place: Place,
    judge: Loopback,
}

impl Bench {
    fn new() -> Self {
        let language = |code: &str, n: u32, answer: &str| json!({"audio": format!("{code}/{n}.wav"), "question": format!("{code} {n}?"), "answer": answer});
        let row = |n: u32| {
            let row = json!({"index": n, "source": "mooc", "label": "Geography", "eng": language("eng", n, "Oslo"),
                "fra": language("fra", n, "Rome")});
            format!("{row}\n")
        };
        let place = Place::new(&(1..=6).map(row).collect::<String>());
        Self { place, judge: Loopback::start(Options::of("--answers yes,no")).unwrap() }
    }

    /// A run of written questions that a server has answered.
    fn answered() -> Self {
        let model = Loopback::start(Options::of(ANSWERS)).unwrap();
        let bench = Self::new();
        std::fs::create_dir(bench.place.path("gone")).unwrap();
        let server =
            format!("kind = \"openai\"\nmodel = \"m\"\nbase_url = \"{}/v1\"\nrevision = \"1\"", model.url());
        bench.configure(&server, "\"qa\", \"xqa\"");
        bench.place.run(&[]).exits_with(0);
        bench
    }

    fn configure(&self, model: &str, conditions: &str) {
        let config = format!(
            "[model]\n{model}\n\n[judge]\nname = \"ann\"\n\n[judge.model]\nkind = \"openai\"\nmodel = \"gemma-3-27b-it\"\n\
             base_url = \"{}/v1\"\nrevision = \"1\"\n\n[judge.model.price]\ninput_per_million = 2.0\n\
             output_per_million = 10.0\n\n[judge.generation]\nmax_new_tokens = 64\n\n\
             [[benchmark]]\nname = \"ccfqa\"\ndata = \"rows.jsonl\"\nmedia = \"gone\"\nconditions = [{conditions}]\n\
             languages = [\"eng\", \"fra\"]\nallow_other_data = true\n",
            self.judge.url()
        );
        std::fs::write(self.place.path("c.toml"), config).unwrap();
    }

    /// The answers of a run in the form of the authors' files: rows of the crossed data with `lang_a`.
    fn authors_file(&self, responses: &[Value], name: &str, leave_out: usize) {
        let row = |response: &Value| {
            let (src, tgt) =
                (response["tags"]["src"].as_str().unwrap(), response["tags"]["tgt"].as_str().unwrap());
            let sample = response["sample"].as_str().unwrap();
            let gold = if tgt == "eng" { "Oslo" } else { "Rome" };
            let row = json!({"id": 1000, "source": "mooc", "src_lang": src, "tgt_lang": tgt,
                "src_audio": format!("{src}/{sample}.wav"), "src_q": format!("{src} {sample}?"), "tgt_a": gold,
                "lang_a": response["text"]});
            format!("{row}\n")
        };
        let text: String = responses.iter().skip(leave_out).map(row).collect();
        std::fs::write(self.place.path(name), text).unwrap();
    }
}

fn metrics(scores: &Value) -> Value {
    scores["benchmarks"][0]["metrics"].clone()
}

/// A run with a server, and its answers once more out of a file.
#[test]
fn the_scores_are_those_of_the_same_answers_from_a_server() {
    let bench = Bench::answered();
    let asked = bench.place.scores();
    let responses = journaled(&bench.place.result("responses.jsonl"));
    assert_eq!(responses.len(), 24);
    bench.authors_file(&responses, "x_test_x.jsonl", 0);

    std::fs::remove_dir(bench.place.path("gone")).unwrap();
    bench.configure("kind = \"replay\"\nfiles = [\"x_test_x.jsonl\"]\npreset = \"ccfqa\"", "\"qa\", \"xqa\"");
    let mut check = harness();
    check.arg("check").arg(bench.place.path("c.toml"));
    finish(&mut check).exits_with(0).prints("answers in the files: 24, requests that have theirs: 24");
    // Another model is another run.
    bench.place.run(&[]).exits_with(2).says("holds another run").says("--fresh");
    let done = bench.place.run(&["--fresh"]).exits_with(0);
    let replayed = bench.place.scores();
    assert_eq!(metrics(&replayed), metrics(&asked));
    assert_eq!(replayed["benchmarks"][0]["conditions"], asked["benchmarks"][0]["conditions"]);
    assert_eq!(replayed["model"]["name"], "x_test_x");
    assert_eq!(replayed["model"]["kind"], "replay");
    for told in [
        "answers were not asked for: they come from x_test_x.jsonl (blake3 ",
        "matched by the text of the question, src, tgt and compared by reference",
        "deviation: the answers come from files",
    ] {
        assert!(done.stdout.contains(told), "{told}: {}", done.stdout);
    }
    // Nothing is claimed of prompts and settings that nobody here knows.
    for untold in ["settings:", "prompts: text_system", "no prompts for written questions"] {
        assert!(!done.stdout.contains(untold), "{untold}: {}", done.stdout);
    }

    // What judging took stands beside it.
    let judged = &replayed["benchmarks"][0]["judge"];
    let verdicts = journaled(&bench.place.result("verdicts/ann.jsonl"));
    let sum = |name: &str| verdicts.iter().map(|line| line["usage"][name].as_u64().unwrap()).sum::<u64>();
    let (prompt, completion) = (sum("prompt_tokens"), sum("completion_tokens"));
    assert!(prompt > 0 && completion > 0);
    assert_eq!(judged["usage"]["requests"], 24);
    assert_eq!(judged["usage"]["prompt_tokens"], prompt);
    assert_eq!(judged["usage"]["completion_tokens"], completion);
    let cost = (prompt as f64 * 2.0 + completion as f64 * 10.0) / 1e6;
    assert!((judged["usage"]["cost"].as_f64().unwrap() - cost).abs() < 1e-12);
    let line = format!(
        "judge ann: 24 replies took {prompt} prompt tokens and {completion} reply tokens; cost {cost:.4}"
    );
    let mut report = harness();
    report.args(["report", "c", "--results"]).arg(bench.place.path("results"));
    finish(&mut report).exits_with(0).prints(&line);

    // The run is at its end: nothing is done again.
    bench.place.run(&[]).exits_with(0).says("24 of them answered").says("24 of them made");
}

#[test]
fn missing_answers_are_failures_and_everything_is_told() {
    let bench = Bench::answered();
    let responses = journaled(&bench.place.result("responses.jsonl"));
    bench.authors_file(&responses, "x.jsonl", 3);
    let mut text = std::fs::read_to_string(bench.place.path("x.jsonl")).unwrap();
    text += "{\"src_lang\": \"eng\", \"tgt_lang\": \"eng\", \"src_q\": \"eng 77?\", \"tgt_a\": \"?\", \"lang_a\": \"x\"}\n";
    text += "{\"src_lang\": \"eng\"\n";
    std::fs::write(bench.place.path("x.jsonl"), text).unwrap();
    bench.configure("kind = \"replay\"\nfiles = [\"x.jsonl\"]\npreset = \"ccfqa\"", "\"qa\", \"xqa\"");
    let done = bench.place.run(&["--fresh"]).exits_with(1);
    let done = done
        .says("answers in the files: 22, requests that have theirs: 21")
        .says("3 requests have no answer in the files")
        .says("1 answers belong to no request of this run")
        .says("x.jsonl:23: not valid JSON")
        .says("3 of 24 requests have no answer");
    assert!(
        done.stdout.contains("xqa: 24 requests: ok 21") && done.stdout.contains("request_error 3"),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout.contains("3 requests have no answer in the files: they count as failed"),
        "{}",
        done.stdout
    );
    let journal = journaled(&bench.place.result("responses.jsonl"));
    let failed: Vec<&Value> = journal.iter().filter(|line| line["outcome"] == "request_error").collect();
    assert_eq!(failed.len(), 3);
    assert!(
        failed
            .iter()
            .all(|line| line["error"] == "no answer in the files belongs to it" && line["text"] == "")
    );

    let refused = |edit: &dyn Fn(String) -> String, code: i32| -> Finished {
        let text = std::fs::read_to_string(bench.place.path("x.jsonl")).unwrap();
        std::fs::write(bench.place.path("x.jsonl"), edit(text)).unwrap();
        bench.place.run(&["--fresh"]).exits_with(code)
    };
    // A second answer in other words is refused, with both places.
    let twice = |text: String| {
        let first = text.lines().next().unwrap().replace("\"lang_a\":\"", "\"lang_a\":\"not ");
        format!("{first}\n{text}")
    };
    refused(&twice, 2).says("x.jsonl:1 and ").says("x.jsonl:2 are different answers to the same request");
    // Nothing fits: the first of each is shown.
    let other = |text: String| text.replace("eng ", "English ").replace("fra ", "French ");
    refused(&other, 2).says("none of the ").says("and the first request of the run is question `eng 1?`");
}

/// A hundred failures in a row tell of a server that is out of order; missing answers are just missing.
#[test]
fn many_missing_answers_do_not_stop_a_run() {
    let row = |n: u32| {
        format!(
            "{{\"id\":\"q{n}\",\"audio\":\"gone/{n}.wav\",\"question\":\"Question {n}?\",\"reference\":\"r{n}\"}}\n"
        )
    };
    let place = Place::new(&(0..150).map(row).collect::<String>());
    std::fs::write(place.path("mine.csv"), "id,said\nq149,r149\nq3,\n").unwrap();
    let config = "[model]\nkind = \"replay\"\nfiles = [\"mine.csv\"]\nfields = { id = \"id\", answer = \"said\" }\n\n\
                  [[benchmark]]\nname = \"manifest\"\ndata = \"rows.jsonl\"\nmetrics = [\"exact_match\"]\n";
    std::fs::write(place.path("c.toml"), config).unwrap();
    let done = place.run(&[]).exits_with(1).says("148 requests have no answer in the files");
    assert!(
        done.stdout.contains("150 requests: ok 1, length 0, content_filter 0, empty 1"),
        "{}",
        done.stdout
    );
    let scores = place.scores();
    let exact = &scores["benchmarks"][0]["metrics"][0];
    assert_eq!((exact["value"].as_f64(), exact["n"].as_u64()), (Some(50.0), Some(2)));
    place.run(&["--allow-incomplete"]).exits_with(0).says("2 of them answered");
}

#[test]
fn a_section_that_is_wrong_is_named_with_its_line() {
    let bench = Bench::new();
    for (model, sentence) in [
        ("kind = \"replay\"\npreset = \"ccfqa\"", "the key `files` is missing"),
        ("kind = \"replay\"\nfiles = [\"x.jsonl\"]", "nothing says where the answers stand"),
        ("kind = \"replay\"\nfiles = [\"x.jsonl\"]\npreset = \"ccfa\"", "did you mean `ccfqa`?"),
        (
            "kind = \"replay\"\nfiles = [\"x.jsonl\"]\npreset = \"ccfqa\"\nmodel = \"m\"",
            "`model` belongs to endpoints",
        ),
        ("kind = \"openai\"\nmodel = \"m\"\nfiles = [\"x.jsonl\"]", "`files` belongs to `replay`"),
        ("kind = \"replay\"\nfiles = [\"none.jsonl\"]\npreset = \"ccfqa\"", "none.jsonl"),
    ] {
        bench.configure(model, "\"qa\"");
        let done = bench.place.run(&[]);
        assert!(done.code == Some(2) || done.code == Some(3), "{model}: {done:?}");
        assert!(
            done.stderr.contains(sentence) && done.stderr.contains("c.toml:"),
            "{model}: {}",
            done.stderr
        );
    }
    bench.configure("kind = \"replay\"\nfiles = [\"x.jsonl\"]\npreset = \"ccfqa\"", "\"qa\"");
    bench.place.edit("kind = \"openai\"", "kind = \"replay\"\nfiles = [\"x.jsonl\"]\npreset = \"ccfqa\"");
    bench.place.run(&[]).exits_with(2).says("its replies cannot come from files");
}
