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

/// The zeros of withheld answers are no score of a model whose other answers nobody has judged.
#[test]
fn a_judge_that_is_dead_leaves_no_score_of_zeros() {
    let blocked: Windows<'_> = &[(Outcome::ContentFilter, &[])];
    let dead: Windows<'_> = &[(OK, &["missing", "missing"])];
    let found = |scores: &BenchmarkScores, metric: &str, group: &[(&str, &str)]| {
        let figure = scores.find(metric, CONDITION, group).unwrap_or_else(|| panic!("{metric} {group:?}"));
        (figure.value, figure.n)
    };
    let benchmark = built(WindowRule::Model, |_| {});
    for on_error in [OnJudgeError::Fail, OnJudgeError::Exclude] {
        let setup = JudgeSetup { on_error, ..setup(2) };
        let scores = scored(&benchmark, &setup, &[("C", dead), ("C", dead), ("DP", blocked)]);
        for metric in [score::SCORE, score::SCORE_SD, score::UNBLOCKED] {
            assert_eq!(found(&scores, metric, &[]), (None, 0), "{metric}");
        }
        assert_eq!(found(&scores, score::BY_RUN, &[("run", "2")]), (None, 0));
        // Where all was withheld no verdict is owed.
        assert_eq!(found(&scores, score::SCORE, &[("category", "DP")]), (Some(0.0), 1));

        // One run of the judge was alive.
        let half: Windows<'_> = &[(OK, &["Rating: 4", "missing"])];
        let scores = scored(&benchmark, &setup, &[("C", half), ("C", dead), ("DP", blocked)]);
        assert_eq!(found(&scores, score::SCORE, &[]), (Some(40.0), 2));
        assert_eq!(found(&scores, score::BY_RUN, &[("run", "2")]), (None, 0));
        let notes = benchmark.tables(&scores, &Published::default(), None)[0].notes.join("\n");
        assert!(notes.contains("1 answers were withheld by a filter\n"), "{notes}");
        assert!(notes.contains("neither in a score nor in n; the zeros of withheld answers stay"), "{notes}");
        assert!(!notes.contains("is scored as the text that came with it"), "{notes}");
    }

    let benchmark = built(WindowRule::FirstAndLast, |_| {});
    let none: Windows<'_> = &[(OK, &["missing"]), (OK, &["missing"])];
    let items: [Item<'_>; 2] =
        [("C", none), ("DP", &[(Outcome::ContentFilter, &[]), (Outcome::ContentFilter, &[])])];
    let scores = scored(&benchmark, &setup(1), &items);
    for (metric, group) in [
        (score::SCORE, None),
        (score::MEAN_OF_MAX, None),
        (score::BY_WINDOW, Some(("window", "first"))),
        (score::BY_WINDOW, Some(("window", "last"))),
    ] {
        let group: Vec<(&str, &str)> = group.into_iter().collect();
        assert_eq!(found(&scores, metric, &group), (None, 0), "{metric}");
    }
    // What was withheld in either window is told beside what counts.
    let items: [Item<'_>; 1] = [("C", &[(Outcome::ContentFilter, &[]), (OK, &["Rating: 4"])])];
    let scores = scored(&benchmark, &setup(1), &items);
    near(value(&scores, score::SCORE, &[]), 80.0);
    let notes = benchmark.tables(&scores, &Published::default(), None)[0].notes.join("\n");
    assert!(
        notes.contains("1 answers were withheld by a filter, 0 of them in the window that counts"),
        "{notes}"
    );
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

/// Where a server draws as it likes, no `top_p` is said to have been sent.
#[test]
fn how_the_judge_answers_is_told_as_it_was_asked() {
    use crate::benchmark::JudgeFacts;
    use crate::model::ModelIdentity;
    use crate::types::Generation;

    let benchmark = built(WindowRule::Model, |_| {});
    let (model, of_model, setup) = (ModelIdentity::default(), Generation::default(), setup(5));
    for (temperature, top_p, expect) in [
        (None, 1.0, "the judge answers at the server's own temperature, its own top_p in at most 512 tokens"),
        (None, 0.5, "the judge answers at the server's own temperature, top_p 0.5 in at most 512 tokens"),
        (Some(0.5), 1.0, "the judge answers at temperature 0.5, top_p 1 in at most 512 tokens"),
    ] {
        let generation = Generation { temperature, top_p, max_new_tokens: 512, ..Generation::default() };
        let judge = JudgeFacts { setup: &setup, model: "j", generation: &generation };
        let facts = RunFacts {
            model: &model,
            generation: &of_model,
            seed: 0,
            samples: 1,
            subset: None,
            data_differs: &[],
            judge: Some(judge),
        };
        let found = benchmark.deviations(&facts);
        assert!(found.iter().any(|sentence| sentence.starts_with(expect)), "{expect}: {found:#?}");
    }
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
