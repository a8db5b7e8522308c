//! The generate stage with a scripted model: what is asked, how often, and what is journaled.

use std::sync::Mutex;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::*;
use crate::config::BenchmarkConfig;
use crate::dataset::Dataset;
use crate::model::{AudioNeed, ImageNeed, MediaLimits, ModelIdentity};
use crate::prompt::PromptSet;
use crate::run::plan::{Plan, Recipe, Section};
use crate::types::{Generation, Part, Usage, Window};

/// Answers each question with itself, as the script says.
struct Scripted {
    identity: ModelIdentity,
    limits: MediaLimits,
    batch: usize,
    concurrency: usize,
    asked: Mutex<Vec<String>>,
    script: fn(&str) -> Option<Answer>,
}

fn ok(text: &str) -> Answer {
    Answer {
        outcome: Outcome::Ok,
        text: text.to_owned(),
        language: None,
        tokens: None,
        usage: Usage::default(),
        seconds: 0.0,
        attempts: 1,
        error: None,
        media_bytes: None,
        answered_as: None,
    }
}

impl Scripted {
    fn new(batch: usize, concurrency: usize, script: fn(&str) -> Option<Answer>) -> Self {
        let text = || "scripted".to_owned();
        Self {
            identity: ModelIdentity {
                name: text(),
                kind: text(),
                model: text(),
                revision: text(),
                dtype: text(),
                device: text(),
            },
            limits: MediaLimits { audio: AudioNeed::None, max_seconds: 30.0, images: ImageNeed::None },
            batch,
            concurrency,
            asked: Mutex::default(),
            script,
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Model for Scripted {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn accepts(&self) -> &MediaLimits {
        &self.limits
    }

    fn batch_size(&self) -> usize {
        self.batch
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }

    fn answer(&self, batch: Vec<Prepared>) -> BoxFuture<'_, Vec<Answer>> {
        async move {
            tokio::task::yield_now().await;
            let question = |request: &Prepared| match &request.prompt {
                crate::types::Prompt::Chat(messages) => match &messages[0].parts[0] {
                    Part::Text(text) => text.clone(),
                    Part::Audio(_) | Part::Image(_) => String::new(),
                },
                crate::types::Prompt::Raw { text, .. } => text.clone(),
            };
            let questions: Vec<_> = batch.iter().map(question).collect();
            self.asked.lock().unwrap().extend(questions.iter().cloned());
            questions.iter().filter_map(|question| (self.script)(question)).collect()
        }
        .boxed()
    }
}

struct Nobody;

impl Observer for Nobody {
    fn on(&mut self, _event: Event) {}
}

/// A plan over rows of (id, question) and an empty journal.
fn place(rows: &[(&str, &str)], model: &Scripted) -> (tempfile::TempDir, Plan, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let lines = rows.iter().map(|(id, question)| {
        format!("{}\n", serde_json::json!({"id": id, "question": question, "reference": "x"}))
    });
    std::fs::write(dir.path().join("rows.jsonl"), lines.collect::<String>()).unwrap();
    let config = BenchmarkConfig {
        label: "m".to_owned(),
        data: dir.path().join("rows.jsonl"),
        ..crate::benchmark::section_with_defaults("manifest")
    };
    let benchmark = crate::benchmark::build(&config, PromptSet::default(), Window::Whole).unwrap();
    let section = Section {
        dataset: Dataset::open(&config.data, None).unwrap(),
        benchmark: Arc::from(benchmark),
        prompts: PromptSet::default(),
        config,
    };
    let recipe = Recipe::new(&model.identity, 30.0, &Generation::default(), 1);
    let plan = Plan::new(vec![section], recipe).unwrap();
    let journal = Journal::append_to(&dir.path().join("responses.jsonl"), &|_, _, _| true).unwrap();
    (dir, plan, journal)
}

/// Asks all that the plan holds.
fn run(
    plan: &Plan,
    journal: &mut Journal,
    model: &Scripted,
    stop_at_once: bool,
) -> Result<Summary, GenerateError> {
    let mut todo = Todo::default();
    plan.walk(|request| {
        todo.fresh.insert(request.planned.request);
        true
    })
    .unwrap();
    stage(plan, todo, journal, model, stop_at_once)
}

/// Asks what the journal leaves to be asked.
fn resume(plan: &Plan, journal: &mut Journal, model: &Scripted) -> Result<Summary, GenerateError> {
    let mut sorter = crate::run::sorted::Sorter::new(journal, 1);
    plan.walk(|request| {
        sorter.take(Some(request.section), request.planned.request);
        true
    })
    .unwrap();
    let todo = sorter.finish().todo;
    stage(plan, todo, journal, model, false)
}

fn stage(
    plan: &Plan,
    todo: Todo,
    journal: &mut Journal,
    model: &Scripted,
    stop_at_once: bool,
) -> Result<Summary, GenerateError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (stop_in, stop) = watch::channel(Stop::No);
    if stop_at_once {
        stop_in.send(Stop::Finish).unwrap();
    }
    let stage = Stage {
        requests: Arc::new(plan.clone()),
        todo,
        journal,
        model,
        preparer: Preparer::new(&model.limits, crate::media::Transcode::Never).unwrap(),
        account: crate::run::cost::Account::default(),
        stop,
        observer: &mut Nobody,
        reading: None,
    };
    runtime.block_on(generate(stage))
}

/// The texts in the journal by sample.
fn texts(plan: &Plan, journal: &Journal) -> Vec<(String, String, Outcome, bool)> {
    let mut all = Vec::new();
    plan.walk(|request| {
        if let Some(r) = journal.response(&request.planned.request).unwrap() {
            all.push((r.sample, r.text, r.outcome, r.reused_from.is_some()));
        }
        true
    })
    .unwrap();
    all
}

#[test]
fn the_same_question_is_asked_once_and_answered_everywhere() {
    for (batch, concurrency) in [(1, 1), (4, 1), (1, 3), (2, 2)] {
        let model = Scripted::new(batch, concurrency, |question| Some(ok(question)));
        let rows = [("a", "same"), ("b", "same"), ("c", "other"), ("d", "same")];
        let (_dir, plan, mut journal) = place(&rows, &model);
        let summary = run(&plan, &mut journal, &model, false).unwrap();
        assert_eq!(summary.outcomes[&Outcome::Ok], 4);
        let mut asked = model.asked();
        asked.sort();
        assert_eq!(asked, ["other", "same"], "batch {batch}, concurrency {concurrency}");
        let found = texts(&plan, &journal);
        assert_eq!(found.iter().map(|f| f.1.as_str()).collect::<Vec<_>>(), ["same", "same", "other", "same"]);
        assert_eq!(found.iter().filter(|f| f.3).count(), 2);
    }
}

#[test]
fn a_failure_is_not_shared_by_those_who_wait_for_the_same_answer() {
    let model = Scripted::new(1, 1, |_| Some(Answer::failed("no")));
    let (_dir, plan, mut journal) = place(&[("a", "same"), ("b", "same")], &model);
    run(&plan, &mut journal, &model, false).unwrap();
    assert_eq!(model.asked().len(), 2);
    assert!(texts(&plan, &journal).iter().all(|f| f.2 == Outcome::RequestError));
}

#[test]
fn a_model_that_gives_too_few_answers_fails_the_rest() {
    let model = Scripted::new(3, 1, |question| (question == "q1").then(|| ok("one")));
    let (_dir, plan, mut journal) = place(&[("a", "q1"), ("b", "q2"), ("c", "q3")], &model);
    let summary = run(&plan, &mut journal, &model, false).unwrap();
    assert_eq!((summary.outcomes[&Outcome::Ok], summary.outcomes[&Outcome::RequestError]), (1, 2));
}

#[test]
fn a_stop_begins_nothing_more_and_a_second_run_does_the_rest() {
    let model = Scripted::new(2, 1, |question| Some(ok(question)));
    let rows: Vec<(String, String)> = (0..50).map(|n| (format!("s{n}"), format!("q{n}"))).collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let (_dir, plan, mut journal) = place(&rows, &model);
    let summary = run(&plan, &mut journal, &model, true).unwrap();
    assert_eq!(summary.early, Some(Early::Stopped));
    assert!(journal.len() < 50);
    assert_eq!(journal.len(), model.asked().len(), "what was asked was journaled");
    let done = texts(&plan, &journal).len();
    let summary = run(&plan, &mut journal, &model, false).unwrap();
    assert_eq!(summary.early, None);
    assert_eq!(texts(&plan, &journal).len(), 50);
    assert_eq!(model.asked().len(), 50, "{done} were answered before");
}

#[test]
fn a_model_out_of_order_stops_the_run_instead_of_failing_all_of_it() {
    let model = Scripted::new(8, 1, |_| Some(Answer::failed("the device is gone")));
    let rows: Vec<(String, String)> = (0..500).map(|n| (format!("s{n}"), format!("q{n}"))).collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let (_dir, plan, mut journal) = place(&rows, &model);
    let error = run(&plan, &mut journal, &model, false).unwrap_err().to_string();
    assert!(error.contains("100 requests in a row") && error.contains("the device is gone"), "{error}");
    assert!(model.asked().len() < 120);
}

/// What makes requests fail may be in themselves: they must not keep the others from being asked.
#[test]
fn requests_that_failed_are_asked_after_those_that_nobody_was_asked() {
    let script: fn(&str) -> Option<Answer> = |question| {
        let bad = question.strip_prefix("bad ").is_some();
        Some(if bad { Answer::failed("this one is too large") } else { ok(question) })
    };
    let model = Scripted::new(1, 4, script);
    let rows: Vec<(String, String)> = (0..180)
        .map(|n| (format!("q{n}"), format!("{} {n}", if n < 130 { "bad" } else { "good" })))
        .collect();
    let rows: Vec<(&str, &str)> = rows.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let (_dir, plan, mut journal) = place(&rows, &model);
    run(&plan, &mut journal, &model, false).unwrap_err();
    // What was under way is not lost.
    assert_eq!(texts(&plan, &journal).len(), model.asked().len());

    let model = Scripted::new(1, 1, script);
    let done = resume(&plan, &mut journal, &model).unwrap();
    let asked = model.asked();
    let good = asked.iter().filter(|question| question.starts_with("good")).count();
    assert_eq!((good, done.early), (50, None));
    let last = asked.iter().rposition(|question| question.starts_with("good")).unwrap();
    assert!(last < 90, "they come first: {last}");
    assert_eq!(asked.len(), 180, "the others are tried again, and their failures end nothing");
}
