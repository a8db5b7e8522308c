//! Killed at any moment and resumed, a run ends like one that was left alone, and what was answered is never
//! asked again.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::loopback::{Loopback, Options};
use crate::scene::Scene;

const REQUESTS: usize = 300;

/// A quick generator (xorshift): the moments are different and can be repeated.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn killed_at_random_moments_a_run_loses_nothing_and_asks_nothing_twice() {
    // More rounds for a thorough look: HARNESS_TEST_KILLS=20.
    let rounds = std::env::var("HARNESS_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let flow = "concurrency = 8";
    let quiet = Loopback::start(Options::default()).unwrap();
    let whole = Scene::new(REQUESTS, &quiet.url(), flow);
    whole.run(&[]).exits_with(0);

    let scene = Scene::new(REQUESTS, &quiet.url(), flow);
    let log = scene.place.path("requests.log");
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let (mut killed, mut cut_short) = (0, 0);
    for round in 0..=rounds {
        let options = format!("--latency 60ms --log {}", log.display());
        let server = Loopback::start(Options::of(&options)).unwrap();
        scene.turn_to(&server);
        let before: BTreeSet<String> = scene.answers().into_values().map(|(_, _, text)| text).collect();
        if round < rounds {
            let mut child = scene.place.start(&[]);
            std::thread::sleep(Duration::from_millis(40 + next(&mut state) % 160));
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                killed += 1;
            }
            child.wait().unwrap();
        } else {
            scene.run(&[]).exits_with(0);
        }
        drop(server);
        let text = std::fs::read_to_string(&log).unwrap();
        let asked: Vec<String> = text
            .lines()
            .filter_map(|line| {
                serde_json::from_str::<Value>(line).ok()?["answer"].as_str().map(str::to_owned)
            })
            .collect();
        assert!(
            asked.iter().all(|answer| !before.contains(answer)),
            "round {round}: an answer was asked for again"
        );
        let journal = std::fs::read(scene.place.result("responses.jsonl")).unwrap_or_default();
        cut_short += usize::from(journal.last().is_some_and(|byte| *byte != b'\n'));
    }
    assert!(killed > rounds / 2, "{killed} of {rounds} runs were killed in the middle");
    assert!(cut_short <= killed);
    scene.is_whole(REQUESTS, "after the kills");
    assert_eq!(scene.answers(), whole.answers(), "like a run that was left alone");
    assert_eq!(scene.place.scores()["benchmarks"], whole.place.scores()["benchmarks"]);
}
