use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::benchmark::build::tests::section;
use crate::types::{AudioRef, Digest, ImageRef, Outcome, Part, testing};

fn built(change: impl Fn(&mut BenchmarkConfig)) -> Manifest {
    let mut config = section(NAME);
    change(&mut config);
    Manifest::new(&config, &PromptSet::default(), Window::Whole).unwrap()
}

fn draft(benchmark: &Manifest, row: Value) -> (String, Draft) {
    let sample = benchmark.sample(4, row).unwrap();
    let mut drafts = benchmark.requests(&sample);
    assert_eq!(drafts.len(), 1);
    (sample.id, drafts.remove(0))
}

fn messages(draft: &Draft) -> &[Message] {
    match &draft.prompt {
        Prompt::Chat(messages) => messages,
        Prompt::Raw { .. } => panic!("expected messages"),
    }
}

fn clip(name: &str) -> Part {
    Part::Audio(AudioRef { name: name.into(), window: Window::Whole })
}

#[test]
fn parts_are_clips_images_then_words() {
    let benchmark = built(|config| config.system = Some("Be brief.".into()));
    let (id, draft) = draft(
        &benchmark,
        json!({ "question": "Who?", "text": "A story.", "image": ["a.png", "b.png"], "audio": "c.wav",
            "reference": "Ann", "category": 3, "mood": "glad", "note": "x".repeat(65), "score": 0.5 }),
    );
    assert_eq!(id, "line-4");
    let image = |name: &str| Part::Image(ImageRef { name: name.into() });
    let user = vec![clip("c.wav"), image("a.png"), image("b.png"), Part::Text("A story.\nWho?".into())];
    let expect = [Message::text(Role::System, "Be brief."), Message { role: Role::User, parts: user }];
    assert_eq!(messages(&draft), expect);
    let tags = [("category", "3"), ("mood", "glad")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(draft.tags, Tags::from(tags));
    assert_eq!(draft.gold, ["Ann"]);
    assert_eq!(benchmark.prompts()[0].status, "config");
}

#[test]
fn fields_may_have_other_names() {
    let names = [("question", "prompt"), ("reference", "target"), ("id", "uid")];
    let benchmark = built(|config| {
        config.fields = names.map(|(ours, theirs)| (ours.to_owned(), theirs.to_owned())).into();
    });
    let (id, draft) =
        draft(&benchmark, json!({ "uid": 12, "prompt": "Q", "target": ["a", "b"], "question": "a tag" }));
    assert_eq!((id.as_str(), draft.gold), ("12", vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(draft.tags["question"], "a tag");
    let wrong = benchmark.sample(1, json!({ "prompt": "Q", "reference": "a" })).unwrap_err();
    assert_eq!(wrong, "the row has no `target`: a sample needs one to be scored");
}

#[test]
fn messages_of_a_row_are_taken_as_they_are() {
    let benchmark = built(|config| config.system = Some("of the config".into()));
    let content = json!([{ "type": "audio", "audio": "a.wav" }, { "type": "text", "text": "What is said?" }]);
    let asked = json!([
        { "role": "user", "content": "Hello" },
        { "role": "assistant", "content": "Hello." },
        { "role": "user", "content": content },
    ]);
    let (id, found) = draft(&benchmark, json!({ "id": "x", "messages": asked, "answer": "nothing" }));
    assert_eq!((id.as_str(), found.gold.as_slice()), ("x", &["nothing".to_owned()][..]));
    let roles: Vec<Role> = messages(&found).iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
    assert_eq!(messages(&found)[3].parts, [clip("a.wav"), Part::Text("What is said?".into())]);
    let own = json!([{ "role": "system", "content": "own" }, { "role": "user", "content": "Q" }]);
    let (_, found) = draft(&benchmark, json!({ "messages": own, "references": ["a"] }));
    assert_eq!(messages(&found)[0], Message::text(Role::System, "own"));
    assert_eq!(messages(&found).len(), 2);
}

#[test]
fn wrong_rows_get_a_sentence() {
    let part = json!([{ "role": "user", "content": [{ "type": "input_audio", "input_audio": {} }] }]);
    for (row, expect) in [
        (json!([]), "a row must be a JSON object"),
        (json!({ "question": "Q" }), "the row has no `reference`"),
        (json!({ "question": "Q", "reference": [] }), "`reference` is an empty list"),
        (json!({ "question": "Q", "reference": 42 }), "`reference` must be a string or a list of strings"),
        (json!({ "question": "Q", "answer": ["a", 1] }), "`answer` must be a string or a list of strings"),
        (json!({ "question": 1, "reference": "a" }), "`question` must be a string"),
        (json!({ "question": "", "reference": "a" }), "the row asks nothing"),
        (json!({ "id": 1.5, "question": "Q", "reference": "a" }), "`id` must be a string or a whole number"),
        (json!({ "audio": [""], "reference": "a" }), "`audio` must be a file name, or a list of them"),
        (json!({ "image": {}, "reference": "a" }), "`image` must be a file name, or a list of them"),
        (json!({ "messages": [], "reference": "a" }), "`messages` must be a list of messages"),
        (
            json!({ "messages": [{ "role": "user", "content": "Q" }], "audio": "a", "reference": "a" }),
            "the row has both `messages` and `audio`: keep one",
        ),
        (
            json!({ "messages": [{ "role": "tool", "content": "Q" }], "reference": "a" }),
            "`messages[0]` must have the `role`",
        ),
        (
            json!({ "messages": [{ "role": "user" }], "reference": "a" }),
            "`messages[0]` must have a `content`",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "content": "Q" }], "reference": "a" }),
            "the last of `messages` must",
        ),
        (json!({ "messages": part, "reference": "a" }), "`messages[0]` has a part that is none of"),
    ] {
        let found = built(|_| {}).sample(1, row.clone()).map(|_| ()).unwrap_err();
        assert!(found.starts_with(expect), "{row}: {found}");
    }
    // A spoken question needs no words, null is absent, silence may be the reference.
    for row in [
        json!({ "audio": "a.wav", "reference": "a" }),
        json!({ "question": "Q", "image": null, "reference": null, "answer": "a" }),
        json!({ "audio": "a.wav", "reference": "" }),
    ] {
        built(|_| {}).sample(1, row).unwrap();
    }
}

fn scored(benchmark: &Manifest, answers: &[(Value, Outcome, &str)]) -> BenchmarkScores {
    let mut scorer = benchmark.scorer(None);
    for (line, (row, outcome, text)) in (1..).zip(answers) {
        let sample = benchmark.sample(line, row.clone()).unwrap();
        let draft = benchmark.requests(&sample).remove(0);
        let (planned, _) = draft.planned(Digest([0; 32]), NAME, &sample.id);
        let response = testing::response(*outcome, text);
        scorer.add(&planned, Some(&response), &[]);
    }
    scorer.finish()
}

#[test]
fn metrics_are_those_asked_for_overall_and_by_group() {
    let all = Metric::ALL.map(|metric| metric.name().to_owned());
    let benchmark = built(|config| config.metrics = all.to_vec());
    let row = |reference: Value, set: &str| json!({ "question": "Q", "reference": reference, "set": set, "language": "eng" });
    let scores = scored(
        &benchmark,
        &[
            (row(json!(["the cat", "a cat"]), "one"), Outcome::Ok, "A cat."),
            (row(json!("a b c d"), "two"), Outcome::Length, "a b x"),
            (row(json!(""), "two"), Outcome::Ok, "noise"),
            (row(json!("lost"), "two"), Outcome::RequestError, ""),
        ],
    );
    let of = |metric: &str, group: &[_]| {
        let found = scores.find(metric, CONDITION, group).unwrap_or_else(|| panic!("{metric}"));
        (found.value.map(|v| (v * 1000.0).round() / 1000.0), found.n)
    };
    assert_eq!(of("exact_match", &[]), (Some(0.0), 3));
    assert_eq!(of("exact_match_norm", &[]), (Some(33.333), 3));
    assert_eq!(of("contains", &[]), (Some(0.0), 3));
    assert_eq!(of("contains_norm", &[]), (Some(33.333), 3));
    assert_eq!(of("wer_corpus", &[]), (Some(50.0), 3));
    assert_eq!(of("wer_mean", &[]), (Some(25.0), 2));
    assert_eq!(of("wer_raw_corpus", &[("set", "one")]), (Some(100.0), 1));
    assert_eq!(of("wer_corpus", &[("set", "two")]), (Some(75.0), 2));
    assert_eq!(of("exact_match_norm", &[("set", "one")]), (Some(100.0), 1));
    assert!(
        scores.find("wer_mean", CONDITION, &[("language", "eng")]).is_none(),
        "one value makes no groups"
    );
    let counts = &scores.find("wer_corpus", CONDITION, &[]).unwrap().counts;
    let count = |name: &str| counts[name];
    let found = ["substitutions", "insertions", "deletions", "reference", "empty_references"].map(count);
    assert_eq!(found, [1, 1, 1, 6, 1]);
    assert_eq!(scores.conditions[0].of(Outcome::RequestError), 1);

    let tables = benchmark.tables(&scores, &Published::default(), None);
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["manifest-main", "manifest-set"]);
    for table in &tables {
        println!("{}", table.markdown());
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
        assert!(table.notes.iter().any(|note| note.contains("default: 4 requests: ok 2, length 1")));
    }
    assert_eq!(tables[0].rows.len(), 14);
    assert_eq!(tables[1].rows.len(), 2);
}

#[test]
fn default_metrics_and_too_many_groups() {
    let benchmark = built(|_| {});
    let answers: Vec<(Value, Outcome, &str)> = (0..21)
        .map(|i| {
            (
                json!({ "question": "Q", "reference": i.to_string(), "category": i, "set": i % 2 }),
                Outcome::Ok,
                "0",
            )
        })
        .collect();
    let scores = scored(&benchmark, &answers);
    let metrics: Vec<&str> =
        scores.metrics.iter().filter(|m| m.group.is_empty()).map(|m| m.metric.as_str()).collect();
    assert_eq!(metrics, ["exact_match", "exact_match_norm", "f1_token_set"]);
    assert!(scores.metrics.iter().all(|metric| !metric.group.contains_key("category")));
    assert_eq!(scores.metrics.iter().filter(|metric| metric.group.contains_key("set")).count(), 6);
    assert!(scores.warnings[0].starts_with("21 of 21 answers to questions are the same text, `0`"));
}

proptest! {
    #[test]
    fn any_row_and_answer_can_be_taken(question: String, reference: String, answer: String) {
        let benchmark = built(|config| config.metrics = Metric::ALL.map(|m| m.name().to_owned()).to_vec());
        let row = json!({ "question": format!("{question}?"), "reference": reference, "note": question });
        let scores = scored(&benchmark, &[(row, Outcome::Ok, &answer)]);
        prop_assert!(scores.metrics.iter().all(|metric| metric.value.is_none_or(|v| v >= 0.0)));
    }
}
