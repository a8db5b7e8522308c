use std::path::Path;

use futures::FutureExt as _;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::types::{Generation, Planned, Prompt, Tags};

/// Answers of one file.
fn answers(
    name: &str,
    content: &str,
    preset: Option<Preset>,
    fields: &[(&str, &str)],
    match_by: Option<MatchBy>,
) -> Result<Answers, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    let fields = fields.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect();
    let spec = ReplaySpec { name: "m".into(), files: vec![path], preset, fields, match_by };
    let shown = |e: ReplayError| e.to_string().replace(&format!("{}/", dir.path().display()), "");
    Answers::read(&spec).map_err(shown)
}

fn lines(rows: &[serde_json::Value]) -> String {
    rows.iter().fold(String::new(), |text, row| text + &row.to_string() + "\n")
}

fn planned(sample: &str, tags: &[(&str, &str)], conditions: &[&str], gold: &str) -> Planned {
    let tags: Tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let id = format!("{sample} {tags:?} {conditions:?}");
    Planned {
        request: Digest::of(id.as_bytes()),
        benchmark: "b".into(),
        conditions: conditions.iter().map(|name| (*name).to_owned()).collect(),
        sample: sample.into(),
        tags,
        gold: vec![gold.into()],
        judging: Tags::new(),
    }
}

/// Requests: the plan's line, its question, its row.
type Plan<'a> = &'a [(Planned, Option<&'a str>, u64)];

fn matched(answers: &Answers, plan: Plan<'_>) -> Result<Matched, String> {
    let mut matcher = Matcher::new(answers);
    for (planned, question, row) in plan {
        matcher.take(&Asked { planned, question: *question, row: *row });
    }
    matcher.finish().map_err(|e| {
        // Without the folder of the test.
        let text = e.to_string();
        text.split(' ').map(|word| word.rsplit('/').next().unwrap_or(word)).collect::<Vec<_>>().join(" ")
    })
}

/// What each request of a plan gets: the outcome, and the text or the sentence.
fn given(answers: Answers, plan: Plan<'_>) -> (Vec<(Outcome, String)>, ReplayFacts) {
    let matched = matched(&answers, plan).unwrap();
    let facts = matched.facts().clone();
    let model = Replay::new(answers, matched);
    let batch = plan.iter().map(|(planned, ..)| Prepared {
        key: planned.request,
        prompt: Prompt::Chat(Vec::new()),
        audio: Vec::new(),
        images: Vec::new(),
        generation: Generation::default(),
        seed: 0,
        exact_seed: false,
    });
    let given = model.answer(batch.collect()).now_or_never().unwrap();
    let text = |answer: Answer| (answer.outcome, answer.error.unwrap_or(answer.text));
    (given.into_iter().map(text).collect(), facts)
}

#[test]
fn answers_go_to_the_requests_that_they_name() {
    let rows = lines(&[
        json!({"id": 2, "out": {"text": "two"}}),
        json!({"id": "1", "out": {"text": " "}}),
        json!({"id": "9", "out": {"text": "nobody's"}}),
        json!({"id": "3", "out": {"text": null}}),
    ]) + "{\n";
    let fields = [("id", "id"), ("answer", "out.text")];
    let read = answers("a.jsonl", &rows, None, &fields, None).unwrap();
    let plan: Vec<_> = ["1", "2", "3", "4"].map(|id| (planned(id, &[], &["qa"], "g"), None, 0)).into();
    let (given, facts) = given(read, &plan);
    assert_eq!(given[0], (Outcome::Empty, " ".into()));
    assert_eq!(given[1], (Outcome::Ok, "two".into()));
    for (outcome, sentence) in &given[2..] {
        assert_eq!(
            (*outcome, sentence.as_str()),
            (Outcome::RequestError, "no answer in the files belongs to it")
        );
    }
    assert_eq!((facts.answers, facts.taken, facts.unclaimed, facts.unanswered), (3, 2, 1, 2));
    assert_eq!((facts.unreadable, facts.matched_by.as_str()), (2, "id"));
    assert!(facts.sentences[0].contains("a.jsonl:4: the row has no answer (`out.text`)"), "{facts:?}");
    assert!(facts.sentences[1].contains("a.jsonl:5: not valid JSON"), "{facts:?}");
    let notes = facts.notes().join("\n");
    for part in ["a.jsonl (blake3 ", "2 requests have no answer", "1 answers belong to no request", "2 rows"]
    {
        assert!(notes.contains(part), "{notes}");
    }
}

#[test]
fn tables_of_text_ends_and_failures_are_read() {
    let rows = "key,said,why,err\nx,one,length,\ny,,content_filter,\nz,,,the server was down\n";
    let fields = [("id", "key"), ("answer", "said"), ("finish", "why"), ("error", "err")];
    let read = answers("a.csv", rows, None, &fields, None).unwrap();
    let plan: Vec<_> = ["x", "y", "z"].map(|id| (planned(id, &[], &["qa"], "g"), None, 0)).into();
    let (given, facts) = given(read, &plan);
    assert_eq!(given[0], (Outcome::Length, "one".into()));
    assert_eq!(given[1], (Outcome::ContentFilter, String::new()));
    assert_eq!(given[2].0, Outcome::RequestError);
    assert!(given[2].1.contains("a.csv: row 3: the request failed there: the server was down"), "{given:?}");
    assert_eq!((facts.failed, facts.taken), (1, 3));
    let error = answers("a.csv", "key,said,why\nx,one,tired\n", None, &fields[..3], None).unwrap_err();
    assert!(error.contains("the files hold no answer") && error.contains("`tired` is not known"), "{error}");
}

/// The authors' files say neither what their ids count nor whether the question was heard or read.
#[test]
fn files_of_ccfqa_are_matched_by_question_and_languages() {
    let row = |src: &str, tgt: &str, answer: &str| {
        json!({"id": 5, "src_lang": src, "tgt_lang": tgt, "src_q": format!("{src}?"), "tgt_a": format!("{tgt}!"),
            "lang_a": answer})
    };
    let rows = lines(&[
        row("eng", "fra", "A"),
        row("fra", "eng", "B"),
        row("eng", "eng", "C"),
        row("fra", "fra", "D"),
    ]);
    let request = |src: &str, tgt: &str, conditions: &[&str]| {
        planned("7", &[("src", src), ("tgt", tgt), ("label", "Art")], conditions, &format!("{tgt}!"))
    };
    let plan = [
        (request("eng", "eng", &["sqa", "xsqa"]), Some("eng?"), 0),
        (request("eng", "fra", &["xsqa"]), Some("eng?"), 0),
        (request("fra", "eng", &["xsqa"]), Some("fra?"), 0),
        (request("fra", "fra", &["sqa", "xsqa"]), Some("fra?"), 0),
    ];
    let read = || answers("x.jsonl", &rows, Some(Preset::Ccfqa), &[], None).unwrap();
    let (texts, facts) = given(read(), &plan);
    assert_eq!(texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["C", "A", "B", "D"]);
    assert_eq!(facts.matched_by, "the text of the question, src, tgt");
    assert_eq!((facts.compared.as_str(), facts.unclaimed), ("reference", 0));
    // One file cannot answer spoken and written questions alike.
    let written = (request("eng", "eng", &["qa"]), Some("eng?"), 0);
    let both: Vec<_> = plan.iter().cloned().chain([written]).collect();
    let error = matched(&read(), &both).unwrap_err();
    assert!(error.contains("x.jsonl:3: could be the answer to 2 requests"), "{error}");
    assert!(
        error.contains("which differ in condition: run the conditions that the files are of alone"),
        "{error}"
    );
    // Without `tgt` one answer would be given to every language.
    let fields = [("question", "src_q"), ("answer", "lang_a"), ("src", "src_lang")];
    let read = answers("x.jsonl", &rows, None, &fields, Some(MatchBy::Question)).unwrap();
    let error = matched(&read, &plan).unwrap_err();
    assert!(error.contains("fields = { tgt = \"…\" }"), "{error}");
    let fields = [("id", "id"), ("answer", "lang_a"), ("scr", "src_lang")];
    let read = answers("x.jsonl", &rows, None, &fields, None).unwrap();
    assert_eq!(
        matched(&read, &plan).unwrap_err(),
        "no request of this run has the tag `scr`; there are label, src, tgt"
    );
}

#[test]
fn what_is_said_twice_is_named_and_what_is_said_otherwise_refused() {
    let fields = [("id", "id"), ("answer", "a")];
    let read = |rows: &[serde_json::Value]| answers("a.jsonl", &lines(rows), None, &fields, None).unwrap();
    let plan = [(planned("1", &[], &["qa"], "g"), None, 0)];
    let (texts, facts) = given(
        read(&[json!({"id": 1, "a": "x"}), json!({"id": 1, "a": "x"}), json!({"id": 2, "a": "x"})]),
        &plan,
    );
    assert_eq!((texts[0].1.as_str(), facts.repeated, facts.answers, facts.unclaimed), ("x", 1, 2, 1));
    let error = matched(&read(&[json!({"id": 1, "a": "x"}), json!({"id": 1, "a": "y"})]), &plan).unwrap_err();
    assert_eq!(
        error,
        "a.jsonl:1 and a.jsonl:2 are different answers to the same request: remove one of them (1 are so)"
    );
    // Nobody asks for the second one.
    let other = [json!({"id": 1, "a": "x"}), json!({"id": 2, "a": "x"}), json!({"id": 2, "a": "y"})];
    assert_eq!(matched(&read(&other), &plan).unwrap().facts().taken, 1);
    // A request that serves two conditions, answered in each.
    let fields = [("id", "id"), ("answer", "a"), ("condition", "c")];
    let read = |second: &str| {
        let rows = [json!({"id": 1, "a": "x", "c": "sqa"}), json!({"id": 1, "a": second, "c": "xsqa"})];
        answers("a.jsonl", &lines(&rows), None, &fields, None).unwrap()
    };
    let plan = [(planned("1", &[], &["sqa", "xsqa"], "g"), None, 0)];
    let facts = matched(&read("x"), &plan).unwrap().facts().clone();
    assert_eq!((facts.repeated, facts.unclaimed, facts.matched_by.as_str()), (1, 0, "id, condition"));
    assert!(matched(&read("y"), &plan).unwrap_err().contains("are different answers"));
}

#[test]
fn logs_of_audiobench_follow_the_order_of_the_data_and_are_compared_with_it() {
    let item = |question: &str, answer: &str, said: &str| json!({"text": question, "answer": answer, "task_type": "SQA", "model_prediction": said});
    let log = [item("Q1", "R1", "A1"), item("Q2", "R2", "Dummy model generation."), item("Q1", "R3", "A3")];
    let plan: Vec<_> = [("a", "Q1", "R1", 0), ("b", "Q2", "R2", 1), ("c", "Q1", "R3", 2)]
        .map(|(id, question, gold, row)| (planned(id, &[], &["qa"], gold), Some(question), row))
        .into();
    let predictions = serde_json::to_string_pretty(&log).unwrap();
    let read = |text: &str| answers("log.json", text, Some(Preset::AudioBench), &[], None).unwrap();
    let (texts, facts) = given(read(&predictions), &plan);
    assert_eq!((texts[0].1.as_str(), texts[2].1.as_str()), ("A1", "A3"));
    assert!(texts[1].1.contains("row 2") && texts[1].1.contains("this is no answer"), "{texts:?}");
    assert_eq!(facts.matched_by, "the order of the data's rows");
    assert_eq!((facts.compared.as_str(), facts.failed), ("question and reference", 1));

    // The details of a judge's scores, under other names.
    let detail = |question: &str, reference: &str, said: &str| json!({"question": question, "reference": reference, "model_prediction": said, "rate_score": 2.0});
    let details = [detail("Q1", "R1", "A1"), detail("Q1", "R3", "A3"), detail("Q2", "R2", "A2")];
    let scores = json!({"llama3_70b_judge": {"judge_score": 64.5}, "details": details}).to_string();
    // Shuffled: the answers to other questions are not taken.
    let (texts, facts) = given(read(&scores), &plan);
    assert_eq!((facts.taken, facts.contradicting, texts[0].1.as_str()), (1, 2, "A1"));
    assert!(texts[1].1.ends_with("its question is `Q1`, and that of sample b is `Q2`"), "{texts:?}");
    let shuffled = json!({"details": [&details[2], &details[0]]}).to_string();
    let error = matched(&read(&shuffled), &plan[..2]).unwrap_err();
    assert!(error.starts_with("none of the 2 answers belongs to a request of this run"), "{error}");
}

/// Answers to the rows beside them: their questions are the same, and each reference holds the other.
#[test]
fn a_reference_within_another_is_another() {
    let item =
        |answer: &str, said: &str| json!({"text": "Who speaks?", "answer": answer, "model_prediction": said});
    let log = json!([item("woman", "A1"), item("man", "A2"), item(" A  Child", "A3")]).to_string();
    let plan: Vec<_> = [("a", "man", 0), ("b", "woman", 1), ("c", "a child", 2)]
        .map(|(id, gold, row)| (planned(id, &[], &["qa"], gold), Some("Who speaks?"), row))
        .into();
    let read = answers("log.json", &log, Some(Preset::AudioBench), &[], None).unwrap();
    let (texts, facts) = given(read, &plan);
    assert_eq!((facts.taken, facts.contradicting, texts[2].1.as_str()), (1, 2, "A3"));
    assert!(texts[0].1.ends_with("its reference is `woman`, and that of sample a is `man`"), "{texts:?}");
}

#[test]
fn samples_of_lmms_eval_give_the_reply_as_it_came() {
    let rows = lines(&[
        json!({"doc_id": 1, "input": "Listen. Q2", "target": "R2", "resps": [["(B) two"]], "filtered_resps": ["B"]}),
        json!({"doc_id": 0, "input": "Listen. Q1", "target": "R1", "filtered_resps": ["one"], "acc": 1.0}),
        json!({"doc_id": 2, "input": "Q3", "target": "R3", "resps": [["a", "b"]]}),
        json!({"doc_id": 3, "input": "Q4", "target": "R4", "resps": [[[-1.5, false]]]}),
    ]);
    let read = answers("t_samples_x.jsonl", &rows, Some(Preset::LmmsEval), &[], None).unwrap();
    let plan: Vec<_> = [("a", "Q1", "R1", 0), ("b", "Q2", "R2", 1), ("c", "Q3", "R3", 2)]
        .map(|(id, question, gold, row)| (planned(id, &[], &["qa"], gold), Some(question), row))
        .into();
    let (texts, facts) = given(read, &plan);
    assert_eq!((texts[0].1.as_str(), texts[1].1.as_str()), ("one", "(B) two"));
    assert_eq!((facts.unreadable, facts.unanswered), (2, 1));
    assert!(facts.sentences[0].contains(":3: `resps` holds 2 different replies"), "{facts:?}");
}

#[test]
fn logs_of_inspect_give_ends_failures_and_tokens() {
    let output = |content: serde_json::Value, stop: &str| {
        json!({"choices": [{"message": {"role": "assistant", "content": content}, "stop_reason": stop}],
            "usage": {"input_tokens": 7, "output_tokens": 2}})
    };
    let parts = json!([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Oslo"}]);
    let log = json!({"version": 2, "status": "error", "eval": {"model": "openai/gpt-4o"}, "samples": [
        {"id": "s1", "epoch": 1, "input": "Q1", "target": "Oslo", "output": output(parts, "stop")},
        {"id": "s1", "epoch": 2, "input": "Q1", "target": "Oslo", "output": output(json!("Rome"), "stop")},
        {"id": "s2", "epoch": 1, "target": ["R2"], "output": output(json!("attachment://k"), "max_tokens"),
            "input": [{"role": "user", "content": [{"type": "text", "text": "Q2"}]}], "attachments": {"k": "long"}},
        {"id": "s3", "epoch": 1, "input": "Q3", "target": "R3", "output": output(json!(""), "content_filter")},
        {"id": "s4", "epoch": 1, "input": "Q4", "target": "R4", "error": {"message": "time out"}},
    ]});
    let read = answers("log.json", &log.to_string(), Some(Preset::Inspect), &[], None).unwrap();
    assert_eq!(read.get(0).unwrap().usage.completion_tokens, 2);
    let plan: Vec<_> = [("s1", "Q1", "Oslo"), ("s2", "Q2", "R2"), ("s3", "Q3", "R3"), ("s4", "Q4", "R4")]
        .map(|(id, question, gold)| (planned(id, &[], &["qa"], gold), Some(question), 0))
        .into();
    let (given, facts) = given(read, &plan);
    assert_eq!(given[0], (Outcome::Ok, "Oslo".into()));
    assert_eq!(given[1], (Outcome::Length, "long".into()));
    assert_eq!(given[2].0, Outcome::ContentFilter);
    assert!(given[3].1.ends_with("row 5: the request failed there: time out"), "{given:?}");
    assert_eq!(
        (facts.later_epochs, facts.failed, facts.models.as_slice()),
        (1, 1, &["openai/gpt-4o".to_owned()][..])
    );
    assert!(facts.sentences[0].contains("the log was not finished"), "{facts:?}");
}

#[test]
fn files_without_a_way_to_read_them_are_refused() {
    let fields = [("answer", "a")];
    assert!(answers("a.jsonl", "{}\n", None, &[("id", "id")], None).unwrap_err().contains("name the tool"));
    assert!(answers("a.jsonl", "{}\n", None, &fields, None).unwrap_err().contains("matched by `id`"));
    let error = answers("a.jsonl", "{\"a\": \"x\"}\n", Some(Preset::AudioBench), &[], Some(MatchBy::Id));
    assert!(error.unwrap_err().contains("matched by `id`"));
    assert!(
        answers("a.jsonl", "", None, &fields, Some(MatchBy::Row)).unwrap_err().contains("they are empty")
    );
    assert!(answers("a.xlsx", "x", None, &fields, Some(MatchBy::Row)).unwrap_err().contains("of no format"));
    let spec = ReplaySpec {
        name: "m".into(),
        files: vec![Path::new("/none/x.jsonl").into()],
        preset: Some(Preset::Inspect),
        fields: FieldMap::new(),
        match_by: None,
    };
    assert_eq!(Answers::read(&spec).unwrap_err().key(), "files");
    // Answers in the order of the data need no other field.
    let read =
        answers("a.jsonl", "{\"a\": \"x\"}\n{\"a\": \"y\"}\n", None, &fields, Some(MatchBy::Row)).unwrap();
    let plan: Vec<_> = [0, 1].map(|row| (planned(&row.to_string(), &[], &["qa"], "g"), None, row)).into();
    assert_eq!(given(read, &plan).0[1].1, "y");
}

#[test]
fn the_files_and_how_they_are_read_are_the_identity() {
    let identity = |content: &str, fields: &[(&str, &str)], by| {
        answers("a.jsonl", content, None, fields, Some(by)).unwrap().identity().clone()
    };
    let (text, fields) = ("{\"id\": 0, \"a\": \"x\", \"b\": \"y\"}\n", [("id", "id"), ("answer", "a")]);
    let first = identity(text, &fields, MatchBy::Id);
    assert_eq!((first.kind.as_str(), first.model.as_str(), first.revision.len()), ("replay", "a.jsonl", 64));
    assert_eq!(identity(text, &fields, MatchBy::Id), first);
    for other in [
        identity(&text.replace('x', "z"), &fields, MatchBy::Id),
        identity(text, &[("id", "id"), ("answer", "b")], MatchBy::Id),
        identity(text, &fields, MatchBy::Row),
    ] {
        assert_ne!(other.revision, first.revision);
    }
}

proptest! {
    /// Whatever stands in a file, it gives answers or a sentence.
    #[test]
    fn any_file_is_read(
        pieces in proptest::collection::vec(
            prop::sample::select(&[
                "{\"id\": 1, \"lang_a\": \"x\", \"src_q\": \"q\", \"src_lang\": \"eng\"}", "{\"samples\": [", "{\"id\": \"a\"",
                "]}", "}", "\n", "[", ",", "\"doc_id\": 3", "{\"resps\": [[1, \"x\"]], \"doc_id\": 0}", "NaN", "null",
                "{\"model_prediction\": \"p\"}", "\u{feff}", "id,answer\n", "1,\"x", "{\"output\": {\"choices\": [{}]}, \"id\": 2}",
            ][..]),
            0..10,
        ),
        preset in prop::sample::select(&[None, Some(Preset::Ccfqa), Some(Preset::AudioBench), Some(Preset::LmmsEval),
            Some(Preset::Inspect)][..]),
        suffix in prop::sample::select(&["jsonl", "json", "csv", "eval"][..]),
    ) {
        let fields: &[(&str, &str)] = if preset.is_none() { &[("id", "id"), ("answer", "answer")] } else { &[] };
        if let Ok(read) = answers(&format!("a.{suffix}"), &pieces.concat(), preset, fields, None) {
            let plan = [(planned("1", &[("src", "eng"), ("tgt", "eng")], &["qa"], "g"), Some("q"), 0)];
            let _ = matched(&read, &plan);
        }
    }
}
