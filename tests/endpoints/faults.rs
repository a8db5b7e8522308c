//! For each kind of fault, at 20 % and at 60 %: every sample ends with its own right answer.

use std::sync::Mutex;
use std::time::Duration;

use crate::loopback::{Loopback, Options};
use crate::scene::Scene;

/// The faults that a later attempt heals.
const KINDS: [&str; 20] = [
    "408",
    "409",
    "429",
    "429-ms",
    "429-reset",
    "429-date",
    "429-bare",
    "500",
    "503",
    "529",
    "reset",
    "reset-early",
    "stall",
    "slow-body",
    "200-error",
    "truncated-json",
    "wrong-content-type",
    "html",
    "html-200",
    "empty-choices",
];
const REQUESTS: usize = 200;
/// Runs at once: they mostly wait.
const AT_ONCE: usize = 8;

fn survives(kind: &str, percent: u32) {
    let what = format!("{kind} at {percent} %");
    let options = format!("--fault {kind}={percent}% --retry-after 50ms --slow-body 100ms --seed {percent}");
    let server = Loopback::start(Options::of(&options)).unwrap();
    let flow = "concurrency = 64\nmin_concurrency = 32\ntimeout_seconds = 1";
    let scene = Scene::new(REQUESTS, &server.url(), flow);
    let done = scene.run(&[]);
    assert_eq!(done.code, Some(0), "{what}: {}", done.stderr);
    scene.is_whole(REQUESTS, &what);
    let counters = server.counters();
    assert!(counters.faults.get(kind).is_some_and(|hit| *hit > 20), "{what}: {counters:?}");
    if kind != "wrong-content-type" && kind != "slow-body" {
        let attempts: u64 = scene.place.responses().iter().map(|r| r["attempts"].as_u64().unwrap()).sum();
        // On a machine that is busy with other things an attempt may time out before the server has read it.
        assert!(attempts >= counters.requests, "{what}: every attempt is told: {attempts} of {counters:?}");
    }
    let right = REQUESTS as u64;
    assert!(kind == "wrong-content-type" || counters.answered == right, "{what}: {counters:?}");
    assert_eq!((counters.repeats, counters.early), (0, 0), "{what}: {counters:?}");
}

#[test]
fn every_request_survives_every_kind_of_fault() {
    let queue: Vec<_> = KINDS.iter().flat_map(|kind| [(*kind, 20), (*kind, 60)]).collect();
    let queue = Mutex::new(queue.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((kind, percent)) = { queue.lock().unwrap().next() } {
                    survives(kind, percent);
                }
            });
        }
    });
}

#[test]
fn a_server_that_is_dead_for_a_while_is_waited_for() {
    let server = Loopback::start(Options::of("--down-after 60 --down-for 7s --latency 20ms")).unwrap();
    let scene = Scene::new(REQUESTS, &server.url(), "concurrency = 16\nmax_attempts = 3");
    let done = scene.run(&[]).exits_with(0).says("server is down, waiting since").says("(up to 600 s)");
    scene.is_whole(REQUESTS, "a dead server");
    assert_eq!(server.counters().repeats, 0, "{}", done.stderr);
}

#[test]
fn a_server_that_stays_dead_fails_the_rest_and_a_resume_asks_just_that() {
    let server = Loopback::start(Options::of(
        "--down-after 60 --down-for 1h --latency 5ms".replace("1h", "60m").as_str(),
    ));
    let server = server.unwrap();
    let scene = Scene::new(100, &server.url(), "concurrency = 8\npatience_seconds = 1");
    let begun = std::time::Instant::now();
    scene.run(&[]).exits_with(1).says("has been down for").says("incomplete: manifest:");
    assert!(begun.elapsed() < Duration::from_secs(30));
    let ok = scene.answers().len();
    assert!((40..100).contains(&ok), "{ok}");
    let failed = scene.place.responses().len() - ok;
    assert_eq!(failed + ok, 100, "failures are journaled");
    let again = Loopback::start(Options::default()).unwrap();
    scene.turn_to(&again);
    scene.run(&[]).exits_with(0);
    assert_eq!(again.counters().requests as usize, failed, "just these are tried again");
    assert_eq!(scene.answers().len(), 100);
}
