//! What is journaled and told of how answers and verdicts came about: replies that were asked for again, the models that
//! answered, and temperatures that were given by a word.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Bench, RATINGS, requests};
use crate::common::finish;
use crate::loopback::{Loopback, Options};

/// Whatever cannot be read is asked for again with another seed: each time a line, and no more often than is owed.
#[test]
fn replies_that_cannot_be_read_are_asked_for_again() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of("--seeded --answers hmm,well,Rating:2,Rating:4")).unwrap();
    let bench = Bench::new(20, &model, &judge);
    bench.place.edit("max_context = 4096", "max_context = 4096\nretries = 2");
    let done = bench.place.run(&[]).exits_with(0).says("judge ann: 100 calls");

    // The attempts of each call, by answer and judging run.
    let calls = || {
        let mut calls: BTreeMap<(String, u64), BTreeMap<u64, Value>> = BTreeMap::new();
        for line in bench.verdicts() {
            let about = &line["judge"]["about"];
            let call = (about["response"].as_str().unwrap().to_owned(), about["run"].as_u64().unwrap());
            let attempt = about.get("attempt").map_or(0, |attempt| attempt.as_u64().unwrap());
            let twice = calls.entry(call).or_default().insert(attempt, line["judge"].clone());
            assert_eq!(twice, None, "no attempt is made twice");
        }
        calls
    };
    let value = |judged: &Value| judged.get("value").and_then(Value::as_f64);
    let found = calls();
    assert_eq!(found.len(), 100);
    for ((_, run), attempts) in &found {
        let numbers: Vec<u64> = attempts.keys().copied().collect();
        assert_eq!(numbers, (0..attempts.len() as u64).collect::<Vec<_>>());
        for (attempt, judged) in attempts {
            assert_eq!(judged["seed"], 443 + run + 1000 * attempt);
            let last = *attempt + 1 == attempts.len() as u64;
            assert!(value(judged).is_none() || last, "nothing is asked for that can be read");
            assert!(
                value(judged).is_some() || !last || *attempt == 2,
                "what cannot be read is owed two more"
            );
        }
    }
    let last = |attempts: &BTreeMap<u64, Value>| value(attempts.values().next_back().unwrap());
    let lines: usize = found.values().map(BTreeMap::len).sum();
    assert_eq!(requests(&judge), lines as u64);
    let unread = found.values().filter(|attempts| last(attempts).is_none()).count();
    let first = found.values().filter(|attempts| value(&attempts[&0]).is_none()).count();
    assert!(unread > 2 && first > 30 && unread < first, "{unread} of {first}");
    let score = found.values().filter_map(last).sum::<f64>() / 100.0 * 20.0;
    assert!((bench.figure("judge_score", &serde_json::json!({})) - score).abs() < 1e-9);
    let judged = &bench.place.scores()["benchmarks"][0]["judge"];
    assert_eq!((&judged["calls"], &judged["missing"]), (&Value::from(100), &Value::from(0)));
    assert_eq!(judged["unparsed"], unread);
    assert_eq!(judged["asked_again"], lines - 100);
    assert_eq!(judged["read_again"], first - unread);
    assert!(done.stdout.contains(&format!("{} calls were made again", lines - 100)), "{}", done.stdout);
    assert!(done.stdout.contains("deviation: the judge is asked again, at most 2 times"), "{}", done.stdout);

    // Nothing is owed now; with more retries those alone whose replies cannot be read; and with none the first replies
    // count, as the papers have it, without a call.
    bench.judge(&[]).exits_with(0).says("100 of them made");
    assert_eq!(requests(&judge), lines as u64);
    bench.place.edit("retries = 2", "retries = 3");
    bench.place.run(&[]).exits_with(0).says(&format!("100 calls, {} of them made", 100 - unread));
    assert_eq!(requests(&judge), (lines + unread) as u64);
    assert_eq!(calls().values().map(BTreeMap::len).sum::<usize>(), lines + unread);
    bench.place.edit("retries = 3", "retries = 0");
    let done = bench.place.run(&[]).exits_with(0).says("100 calls, 100 of them made");
    assert_eq!(bench.place.scores()["benchmarks"][0]["judge"]["unparsed"], first);
    assert!(!done.stdout.contains("asked again"), "{}", done.stdout);
    assert_eq!(requests(&judge), (lines + unread) as u64);
}

/// What answers under a name is told wherever the name is, and a mixture is warned of.
#[test]
fn the_models_that_answered_are_journaled_and_told() {
    let model = Loopback::start(Options::of("--answers-as m-2024-08-06,m-2024-11-20")).unwrap();
    let judge =
        Loopback::start(Options::of(&format!("--seeded --answers {RATINGS} --answers-as llama-9"))).unwrap();
    let bench = Bench::new(24, &model, &judge);
    let done = bench
        .place
        .run(&[])
        .exits_with(0)
        .says("the endpoint answered as 2 different models: m-2024-08-06 (");
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in bench.place.responses() {
        *counts.entry(line["answered_as"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(counts.len(), 2, "{counts:?}");
    let scores = &bench.place.scores()["benchmarks"][0];
    assert_eq!(scores["answered_as"], serde_json::json!(counts));
    let words = format!("answered as m-2024-08-06 ({}), m-2024-11-20 (", counts["m-2024-08-06"]);
    assert!(done.stdout.contains(&words), "{}", done.stdout);

    // One model under another name is told, and nothing to be warned of.
    assert!(bench.verdicts().iter().all(|line| line["answered_as"] == "llama-9"));
    assert_eq!(scores["judge"]["answered_as"], serde_json::json!({"llama-9": 120}));
    assert!(done.stdout.contains("judge ann: answered as llama-9"), "{}", done.stdout);
    assert!(!done.stderr.contains("the judge ann answered as"), "{}", done.stderr);
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(bench.place.result(name)).unwrap()).unwrap()
    };
    let session = |name: &str| read(name)["sessions"][0]["answered_as"].clone();
    assert_eq!(session("manifest.json"), serde_json::json!(["m-2024-08-06", "m-2024-11-20"]));
    assert_eq!(session("verdicts/ann.json"), serde_json::json!(["llama-9"]));

    // The name that was asked for is not worth a word.
    let plain = Loopback::start(Options::default()).unwrap();
    let bench = Bench::new(1, &plain, &judge);
    let done = bench.place.run(&[]).exits_with(0);
    assert!(bench.place.responses().iter().all(|line| line.get("answered_as").is_none()));
    assert!(!done.stdout.contains("- answered as"), "{}", done.stdout);
}

/// The temperature that a word stands for is sent, or is not, and stands wherever the run is described.
#[test]
fn a_word_for_a_temperature_is_settled_before_anything_is_asked() {
    let model = Loopback::start(Options::default()).unwrap();
    let judge = Loopback::start(Options::of(&format!("--seeded --answers {RATINGS}"))).unwrap();
    let bench = Bench::new(2, &model, &judge);
    bench
        .place
        .edit("temperature = 1.0\nmax_new_tokens = 64", "temperature = \"paper\"\nmax_new_tokens = 64");
    let rule = "temperature 1 (paper: cp-bench: the paper has 0.7 for GPT models and 1 for others; it does not name m";
    finish(&mut bench.place.command("check", &[])).exits_with(0).prints(&format!("draws   {rule}"));
    let done = bench.place.run(&[]).exits_with(0);
    assert!(done.stdout.contains(rule), "{}", done.stdout);
    assert!(!done.stdout.contains("answers are generated at"), "{}", done.stdout);
    let manifest = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(bench.place.result("manifest.json")).unwrap()).unwrap()
    };
    assert_eq!(manifest()["config"]["generation"]["temperature"], 1.0);
    assert_eq!(manifest()["config"]["temperature"]["word"], "paper");
    // The same number in digits is the same run: nothing is asked again.
    bench.place.edit("temperature = \"paper\"", "temperature = 1");
    bench.place.run(&[]).exits_with(0);
    assert_eq!((requests(&model), requests(&judge)), (2, 10));

    // The server's own is another one.
    bench.place.edit("temperature = 1\nmax", "temperature = \"model_default\"\nmax");
    bench.place.run(&[]).exits_with(2).says("temperature was 1 and is now the server's own");
    let done = bench.place.run(&["--fresh"]).exits_with(0);
    assert!(
        done.stdout.contains("settings: the server's own temperature (model_default:"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("answers are generated at the server's own temperature"), "{}", done.stdout);
    assert!(manifest()["config"]["generation"]["temperature"].is_null());
    assert_eq!(requests(&model), 4, "under another key");

    // A paper that states none.
    bench.place.edit("\"model_default\"", "\"paper\"");
    bench.place.edit("name = \"cp-bench\"", "name = \"manifest\"");
    bench.place.run(&[]).exits_with(2).says("c.toml:").says("for `manifest` no paper states a temperature");
}
