//! Times the scoring of predictions for CFEVER on made-up ones: `cargo run --release --example bench_fever -- [PREDICTIONS]`
//! scores a million, as `harness score --predictions` does, and says time and memory. Lines are made as they are scored, in
//! time that is not counted.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::unwrap_used, reason = "a failure is the report")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use harness::benchmark::submission_scorer;

/// Lines that are made at a time.
const TOGETHER: u64 = 10_000;

/// Numbers that look random and are the same each time.
fn number(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A gold row and a prediction for it: a third of the claims undecidable, up to three sentences in a set, two to five
/// sentences predicted, labels right for two thirds.
fn pair(id: u64) -> (String, String) {
    const LABELS: [&str; 3] = ["supports", "refutes", "NOT ENOUGH INFO"];
    let label = (id % 3) as usize;
    let sentence = |n: u64| format!("\"芝加哥_(第{}頁)\", {}", number(id) % 500, (number(id) >> 9) % 30 + n);
    let evidence = if label == 2 {
        "[[54, null, null, null]]".to_owned()
    } else {
        let items: Vec<String> =
            (0..=number(id + 1) % 3).map(|n| format!("[92, 59, {}]", sentence(n))).collect();
        format!("[[{}]]", items.join(", "))
    };
    let mut gold = format!("{{\"id\": {id}, \"label\": \"{}\", \"claim\": \"", LABELS[label]);
    write!(
        gold,
        "芝加哥人口數將近約三百萬人，這是第{id}個主張\", \"evidence\": {evidence}, \"domain\": \"世界地理\"}}"
    )
    .unwrap();
    let said = LABELS[(label + usize::from(number(id + 2).is_multiple_of(3))) % 3];
    let items: Vec<String> =
        (0..2 + number(id + 3) % 4).map(|n| format!("[{}]", sentence(n + number(id + 4) % 2))).collect();
    let prediction = format!(
        "{{\"id\": {id}, \"predicted_label\": \"{said}\", \"predicted_evidence\": [{}]}}",
        items.join(", ")
    );
    (gold, prediction)
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().unwrap());
    let mut scorer = submission_scorer("cfever").unwrap();
    let (mut took, mut bytes) = (Duration::ZERO, 0);
    for first in (0..count).step_by(TOGETHER as usize) {
        let pairs: Vec<(String, String)> = (first..count.min(first + TOGETHER)).map(pair).collect();
        let begun = Instant::now();
        for (gold, prediction) in &pairs {
            scorer.add(gold, prediction).unwrap();
            bytes += gold.len() + prediction.len();
        }
        took += begun.elapsed();
        if first == 0 {
            println!("after {} predictions: peak {}", pairs.len(), memory());
        }
    }
    let scores = scorer.finish();
    println!(
        "{count} predictions, {:.0} MB with their gold: {:.2} s; peak {}",
        bytes as f64 / 1e6,
        took.as_secs_f64(),
        memory()
    );
    for value in scores.metrics.iter().filter(|value| value.group.is_empty()) {
        println!("{}: {:?} of {}", value.metric, value.value, value.n);
    }
}
