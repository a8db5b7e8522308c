//! How long scoring takes of as many answers and verdicts as a full CCFQA run has, and how much memory.
#![cfg(feature = "endpoint")]
#![expect(clippy::unwrap_used, reason = "its helpers are tests too")]

mod common;
#[path = "loopback/mod.rs"]
mod loopback;

use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Place, harness};
use loopback::{Loopback, Options};
use serde_json::json;

/// Languages, and what their made-up texts are of.
const LANGUAGES: [(&str, &str); 8] = [
    ("cmn", "山 水 城 河 东 西 南 北 大 小 年 月 花 海"),
    ("eng", "North River Stone Mill Harbour Upper Lake Saint Green Valley Bridge"),
    ("fra", "Rivière Pierre Moulin Port Lac Saint Vert Vallée Pont Haut"),
    ("jpn", "やま かわ まち うみ ひがし にし みなみ きた はな さくら"),
    ("kor", "산 강 도시 바다 동 서 남 북 꽃 달"),
    ("rus", "Река Камень Мельница Порт Озеро Святой Зелёный Долина Мост"),
    ("spa", "Río Piedra Molino Puerto Lago San Verde Valle Puente Alto"),
    ("yue", "山 水 城 河 東 西 南 北 大 細 年 月 花 海"),
];
const ITEMS: u64 = 1000;
/// Answers, to written and to spoken questions.
const ANSWERS: usize = 128_000;
/// What scoring them may take.
const MOST_SECONDS: f64 = 2.0;
const MOST_KB: u64 = 500_000;

/// Numbers that are the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn words(&mut self, from: &str, count: u64) -> String {
        let words: Vec<&str> = from.split(' ').collect();
        let drawn: Vec<&str> = (0..count).map(|_| words[self.below(words.len() as u64) as usize]).collect();
        drawn.join(" ")
    }
}

/// Items in eight languages, and answers to each in every pair of them; a third are right.
fn data() -> (String, String) {
    let mut draw = Draw(443);
    let (mut rows, mut answers) = (String::new(), String::new());
    for index in 1..=ITEMS {
        let gold = LANGUAGES.map(|(_, words)| {
            let count = 1 + draw.below(4);
            draw.words(words, count)
        });
        let mut row = json!({"index": index, "source": "mooc", "label": format!("Topic {}", index % 20)});
        for ((code, words), answer) in LANGUAGES.iter().zip(&gold) {
            let question = format!("{}?", draw.words(words, 10));
            let audio = format!("{code}/{index}-20250101000000.wav");
            row[*code] = json!({"audio": audio, "question": question, "answer": answer});
        }
        writeln!(rows, "{row}").unwrap();
        for condition in ["xqa", "xsqa"] {
            for (src, _) in LANGUAGES {
                for ((tgt, words), right) in LANGUAGES.iter().zip(&gold) {
                    let other = draw.words(words, 6);
                    let answer = if draw.below(3) == 0 { right } else { &other };
                    let line = json!({"id": index, "src": src, "tgt": tgt, "condition": condition,
                        "answer": answer});
                    writeln!(answers, "{line}").unwrap();
                }
            }
        }
    }
    (rows, answers)
}

/// Waits for a process; the most memory that it had, in kB, where the system tells.
fn peak_of(child: &mut Child) -> Option<u64> {
    let path = format!("/proc/{}/status", child.id());
    let mut most = None;
    loop {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        most = most.max(now);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return most;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
#[ignore = "a measurement: in release, on a quiet machine (README: Benchmarks of the program itself)"]
#[expect(clippy::assertions_on_constants, reason = "the message is for those who run it in a debug build")]
fn the_answers_and_verdicts_of_a_full_run_are_scored_in_2_seconds_and_500_mb() {
    assert!(
        !cfg!(debug_assertions),
        "debug builds are slow: cargo test --release --test scale_score -- --ignored"
    );
    let judge = Loopback::start(Options::of("--answers yes,no")).unwrap();
    let (rows, answers) = data();
    let place = Place::new(&rows);
    std::fs::write(place.path("answers.jsonl"), answers).unwrap();
    let config = format!(
        "[model]\nkind = \"replay\"\nfiles = [\"answers.jsonl\"]\n\
         fields = {{ id = \"id\", src = \"src\", tgt = \"tgt\", condition = \"condition\", answer = \"answer\" }}\n\n\
         [judge]\nname = \"ann\"\n\n[judge.model]\nkind = \"openai\"\nmodel = \"gemma-3-27b-it\"\n\
         base_url = \"{}/v1\"\nrevision = \"1\"\n\n[judge.model.flow]\nconcurrency = 64\n\n\
         [judge.generation]\nmax_new_tokens = 64\n\n\
         [[benchmark]]\nname = \"ccfqa\"\ndata = \"rows.jsonl\"\nconditions = [\"qa\", \"xqa\", \"sqa\", \"xsqa\"]\n\
         prompt = \"harness\"\nallow_other_data = true\n",
        judge.url()
    );
    std::fs::write(place.path("c.toml"), config).unwrap();
    place.run(&[]).exits_with(0).says(&format!("requests that have theirs: {ANSWERS}"));
    let scores = std::fs::read_to_string(place.result("scores.json")).unwrap();

    let mut command = harness();
    command.args(["score", "c", "--results"]).arg(place.path("results"));
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let kb = peak_of(&mut child);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{ANSWERS} answers and verdicts: {seconds:.2} s, {kb:?} kB");
    assert_eq!(std::fs::read_to_string(place.result("scores.json")).unwrap(), scores);
    if cfg!(target_os = "linux") {
        assert!(kb.is_some(), "the system tells how much memory it was");
    }
    assert!(seconds <= MOST_SECONDS, "scoring took {seconds:.1} s, more than {MOST_SECONDS} s");
    assert!(kb.is_none_or(|kb| kb <= MOST_KB), "scoring took {kb:?} kB, more than {MOST_KB}");
}
