//! The acceptance cases of the protocol, and what a run makes of them.

use serde_json::json;

use super::*;
use crate::benchmark::build::tests::section;
use crate::benchmark::judging::{JudgeCall, OnJudgeError};
use crate::types::{Digest, testing};

pub(super) fn built(windows: WindowRule, change: impl Fn(&mut BenchmarkConfig)) -> CpBench {
    let mut config = section(NAME);
    config.windows = windows;
    change(&mut config);
    let prompts = crate::benchmark::harness_wording(NAME).unwrap();
    CpBench::new(&config, prompts, Window::Whole).unwrap()
}

pub(super) fn setup(runs: u32) -> JudgeSetup {
    JudgeSetup { name: "j".into(), runs, reply_tokens: 512, ..JudgeSetup::default() }
}

fn response(outcome: Outcome, text: &str) -> Response {
    Response { sample: "s".into(), ..testing::response(outcome, text) }
}

/// The first request on an item.
pub(super) fn first(benchmark: &CpBench, category: &str) -> Planned {
    let draft = benchmark.requests(&Sample { id: "1".into(), row: row(category) }).remove(0);
    draft.planned(Digest::of(b"1"), NAME, "1").0
}

fn row(category: &str) -> serde_json::Value {
    json!({"audio": "a.wav", "question": "Who speaks?", "reference": "A child.", "category": category, "set": "long"})
}

/// Outcome and the judge's replies for each window of an item.
pub(super) type Windows<'a> = &'a [(Outcome, &'a [&'a str])];
/// A category, and what became of the item.
pub(super) type Item<'a> = (&'a str, Windows<'a>);

/// Scores of items, each with the outcome and the judge's replies for each of its windows.
pub(super) fn scored(benchmark: &CpBench, setup: &JudgeSetup, items: &[Item<'_>]) -> BenchmarkScores {
    let mut scorer = benchmark.scorer(Some(setup));
    for (at, (category, windows)) in items.iter().enumerate() {
        let sample = Sample { id: at.to_string(), row: row(category) };
        let drafts = benchmark.requests(&sample);
        assert_eq!(drafts.len(), windows.len());
        for (draft, (outcome, replies)) in drafts.into_iter().zip(*windows) {
            let calls: Vec<JudgeCall> = (0..)
                .zip(*replies)
                .filter(|(_, reply)| **reply != "missing")
                .map(|(run, reply)| JudgeCall {
                    run,
                    outcome: Outcome::Ok,
                    reply: (*reply).to_owned(),
                    shortened: false,
                })
                .collect();
            let response = response(*outcome, &format!("answer {at}"));
            let (planned, _) = draft.planned(Digest::of(sample.id.as_bytes()), NAME, &sample.id);
            scorer.add(&planned, Some(&response), &calls);
        }
    }
    scorer.finish()
}

pub(super) fn value(scores: &BenchmarkScores, metric: &str, group: &[(&str, &str)]) -> Option<f64> {
    scores.find(metric, CONDITION, group).unwrap_or_else(|| panic!("{metric} {group:?}")).value
}

pub(super) fn near(found: Option<f64>, expect: f64) {
    let found = found.unwrap();
    assert!((found - expect).abs() < 1e-9, "{found} instead of {expect}");
}

pub(super) const OK: Outcome = Outcome::Ok;

#[test]
fn five_runs_have_a_mean_a_deviation_and_a_success_rate() {
    let benchmark = built(WindowRule::Model, |_| {});
    let one = ["Rating: 5", "Rating: 5", "Rating: 4", "Rating: 5", "Rating: 4"];
    let two = ["Rating: 0", "Rating: 1", "Rating: 0", "no idea", "Rating: 0"];
    let scores = scored(&benchmark, &setup(5), &[("C", &[(OK, &one)]), ("DP", &[(OK, &two)])]);
    for (run, expect) in [("1", 50.0), ("2", 60.0), ("3", 40.0), ("4", 50.0), ("5", 40.0)] {
        near(value(&scores, score::BY_RUN, &[("run", run)]), expect);
    }
    near(value(&scores, score::SCORE, &[]), 48.0);
    near(value(&scores, score::SCORE_SD, &[]), 8.366_600_265_340_756);
    near(value(&scores, score::SUCCESS, &[]), 0.9);
    near(value(&scores, score::SCORE, &[("category", "C")]), 92.0);
    near(value(&scores, score::SCORE, &[("category", "DP"), ("set", "long")]), 4.0);
    let judged = scores.judge.as_ref().unwrap();
    assert_eq!((judged.calls, judged.missing, judged.unparsed, judged.unheard()), (10, 0, 1, 0));
    assert_eq!(judged.rules["cp-bench:no_rating"], 1);
}

#[test]
fn the_better_window_counts_for_the_whole_set() {
    let benchmark = built(WindowRule::FirstAndLast, |_| {});
    let windows = |first: &'static [&'static str], last: &'static [&'static str]| [(OK, first), (OK, last)];
    let one = windows(&["Rating: 3"], &["Rating: 4"]);
    let two = windows(&["Rating: 3.5"], &["Rating: 2"]);
    let scores = scored(&benchmark, &setup(1), &[("C", &one), ("DP", &two)]);
    near(value(&scores, score::SCORE, &[]), 65.0);
    near(value(&scores, score::MEAN_OF_MAX, &[]), 75.0);
    near(value(&scores, score::BY_WINDOW, &[("window", "last")]), 60.0);
    // Rows keep the window that won overall.
    near(value(&scores, score::SCORE, &[("category", "C")]), 60.0);
    let tables = benchmark.tables(&scores, &Published::default(), None);
    assert!(tables[0].markdown().contains("max_of_means"), "{}", tables[0].markdown());
}

#[test]
fn answers_that_a_filter_withheld_have_0_and_no_judge() {
    let benchmark = built(WindowRule::Model, |_| {});
    let blocked: Windows<'_> = &[(Outcome::ContentFilter, &[])];
    let items: Vec<Item<'_>> = vec![
        ("C", &[(OK, &["Rating: 4"])]),
        ("C", &[(OK, &["Rating: 3"])]),
        ("C", &[(OK, &["Rating: 2"])]),
        ("DP", blocked),
    ];
    let scores = scored(&benchmark, &setup(1), &items);
    near(value(&scores, score::SCORE, &[]), 45.0);
    near(value(&scores, score::UNBLOCKED, &[]), 60.0);
    assert_eq!(scores.judge.as_ref().unwrap().calls, 3);
    let setup = setup(1);
    let judge = benchmark.judging(&setup).unwrap().unwrap();
    let planned = first(&benchmark, "DP");
    assert_eq!(judge.question(&planned, &response(Outcome::ContentFilter, "")), None);
    assert_eq!(judge.question(&planned, &response(Outcome::RequestError, "")), None);
    assert!(judge.question(&planned, &response(Outcome::Empty, "")).is_some());
}

#[test]
fn calls_without_a_reply_are_in_no_score() {
    let benchmark = built(WindowRule::Model, |_| {});
    let items: &[Item<'_>] =
        &[("C", &[(OK, &["Rating: 5", "missing"])]), ("C", &[(OK, &["Rating: 1", "Rating: 1"])])];
    let scores = scored(&benchmark, &setup(2), items);
    near(value(&scores, score::BY_RUN, &[("run", "1")]), 60.0);
    near(value(&scores, score::BY_RUN, &[("run", "2")]), 20.0);
    assert_eq!(scores.judge.as_ref().unwrap().unheard(), 1);
    // An answer with one verdict is judged, one with none is not counted among the judged.
    let none: &[Item<'_>] =
        &[("C", &[(OK, &["missing", "missing"])]), ("C", &[(OK, &["Rating: 1", "missing"])])];
    let found = scored(&benchmark, &setup(2), none);
    let figure = found.find(score::SCORE, CONDITION, &[]).unwrap();
    assert_eq!((figure.n, figure.counts["unjudged"]), (1, 1));
    let wrong = JudgeSetup { on_error: OnJudgeError::Wrong, ..setup(2) };
    near(value(&scored(&benchmark, &wrong, items), score::BY_RUN, &[("run", "2")]), 10.0);
}

#[test]
fn the_judge_sees_question_reference_and_answer_shortened_where_it_must_be() {
    let benchmark = built(WindowRule::Model, |_| {});
    let planned = first(&benchmark, "C");
    let ask = |setup: &JudgeSetup, text: &str| {
        let judge = benchmark.judging(setup).unwrap().unwrap();
        let question = judge.question(&planned, &response(OK, text)).unwrap();
        let Prompt::Chat(messages) = question.prompt else { panic!("a chat") };
        let Part::Text(text) = messages.last().unwrap().parts[0].clone() else { panic!("a text") };
        (messages.len(), text, question.shortened)
    };
    let (messages, text, shortened) = ask(&setup(5), "A woman.");
    assert_eq!((messages, shortened), (1, false));
    assert!(
        text.contains(
            "Question:\nWho speaks?\n\nReference answer:\nA child.\n\nAnswer to grade:\nA woman.\n"
        )
    );
    let narrow = JudgeSetup { context: Some(4096), ..setup(5) };
    let (_, text, shortened) = ask(&narrow, &"word ".repeat(4000));
    assert!(shortened && text.len() <= 3 * (4096 - 512) && text.contains("Reference answer:\nA child."));

    let recipe = built(WindowRule::Model, |config| config.profile = Profile::Recipe);
    let setup = setup(5);
    let judge = recipe.judging(&setup).unwrap().unwrap();
    let Prompt::Chat(messages) = judge.question(&planned, &response(OK, "A woman.")).unwrap().prompt else {
        panic!("a chat")
    };
    let expect = "Audio: s, Question: Who speaks?, Answer: A woman.";
    assert_eq!(messages[1], Message::text(Role::User, expect.replace("Audio: s", "Audio: 1")));
}

#[test]
fn windows_are_two_requests_on_one_clip() {
    let benchmark = built(WindowRule::FirstAndLast, |_| {});
    let drafts = benchmark.requests(&Sample { id: "1".into(), row: row("CP") });
    let windows: Vec<Window> = drafts.iter().map(|draft| draft.prompt.audio()[0].window).collect();
    assert_eq!(windows, [Window::First, Window::Last]);
    assert_eq!(drafts[1].tags["window"], "last");
    assert_eq!(drafts[0].judging["question"], "Who speaks?");
}

#[test]
fn only_what_the_benchmark_knows_is_taken() {
    let prompts = || crate::benchmark::harness_wording(NAME).unwrap();
    let error = |change: fn(&mut BenchmarkConfig)| {
        let mut config = section(NAME);
        change(&mut config);
        CpBench::new(&config, prompts(), Window::Whole).unwrap_err().to_string()
    };
    assert!(error(|c| c.conditions = vec!["sqa".into()]).contains("unknown condition `sqa`"));
    assert!(error(|c| c.languages = vec!["eng".into()]).contains("`languages` means nothing"));
    assert!(error(|c| c.fields = [("clip".into(), "x".into())].into()).contains("unknown field `clip`"));
    let raw = JudgeSetup { mode: JudgeMode::Raw, ..setup(5) };
    let benchmark = built(WindowRule::Model, |_| {});
    assert!(benchmark.judging(&raw).err().unwrap().to_string().contains("asked in chats"));
}
