use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::score::*;
use super::*;
use crate::benchmark::build::tests::section;
use crate::metric::text::py_round;
use crate::model::ModelIdentity;
use crate::prompt::sha256_hex;
use crate::types::testing::response;
use crate::types::{Digest, Generation, Outcome, Response};

pub(super) const CODES: [&str; 8] = ["cmn", "eng", "fra", "jpn", "kor", "rus", "spa", "yue"];

pub(super) fn built(conditions: &[&str], languages: &[&str], change: impl Fn(&mut BenchmarkConfig)) -> Ccfqa {
    let mut config = section(NAME);
    config.conditions = conditions.iter().map(|&name| name.to_owned()).collect();
    config.languages = languages.iter().map(|&code| code.to_owned()).collect();
    change(&mut config);
    Ccfqa::new(&config, crate::benchmark::harness_wording(NAME).unwrap(), Window::Whole).unwrap()
}

pub(super) fn row() -> Value {
    let entry = |code: &str| {
        let fields =
            json!({ "audio": format!("{code}/7.wav"), "question": format!("{code}?"), "answer": code });
        (code.to_owned(), fields)
    };
    let mut row: serde_json::Map<String, Value> = CODES.iter().map(|code| entry(code)).collect();
    row.extend([
        ("index".into(), json!(7)),
        ("source".into(), json!("mooc")),
        ("label".into(), json!("Art")),
    ]);
    Value::Object(row)
}

/// Scores of rows whose requests are answered by `answer`.
fn scored(
    benchmark: &Ccfqa,
    rows: impl IntoIterator<Item = Value>,
    answer: impl Fn(&Sample, &Draft) -> Option<Response>,
) -> BenchmarkScores {
    let mut scorer = benchmark.scorer(None);
    for (line, row) in (1..).zip(rows) {
        let sample = benchmark.sample(line, row).unwrap();
        for draft in benchmark.requests(&sample) {
            let answer = answer(&sample, &draft);
            let (planned, _) = draft.planned(Digest::of(sample.id.as_bytes()), NAME, &sample.id);
            scorer.add(&planned, answer.as_ref(), &[]);
        }
    }
    scorer.finish()
}

pub(super) fn value(
    scores: &BenchmarkScores,
    metric: &str,
    condition: &str,
    group: &[(&str, &str)],
) -> Option<f64> {
    scores.find(metric, condition, group).unwrap_or_else(|| panic!("{metric} {condition} {group:?}")).value
}

pub(super) fn jsonl(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A file beside the package that not every checkout has.
pub(super) fn shared(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols/ccfqa").join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("skipped: {} is not there", path.display());
    }
    text
}

#[test]
fn each_pair_is_asked_once_a_modality() {
    let benchmark = built(&["xsqa", "qa", "sqa"], &[], |_| {});
    assert_eq!(benchmark.conditions(), ["qa", "sqa", "xsqa"]);
    let drafts = benchmark.requests(&benchmark.sample(1, row()).unwrap());
    assert_eq!(drafts.len(), 8 + 64);
    let with = |conditions: &[&str]| drafts.iter().filter(|draft| draft.conditions == conditions).count();
    assert_eq!((with(&["qa"]), with(&["sqa", "xsqa"]), with(&["xsqa"])), (8, 8, 56));
    // The requests on one clip follow each other.
    let clips: Vec<String> =
        drafts.iter().filter_map(|d| d.prompt.audio().first().map(|clip| clip.name.clone())).collect();
    assert!(clips.is_sorted() && clips.len() == 64, "{clips:?}");
    assert_eq!(drafts[0].gold, ["cmn"]);

    let same = built(&["sqa"], &["yue", "eng"], |_| {});
    let drafts = same.requests(&same.sample(1, row()).unwrap());
    let pairs: Vec<_> = drafts.iter().map(|d| (d.tags["src"].as_str(), d.tags["tgt"].as_str())).collect();
    assert_eq!(pairs, [("eng", "eng"), ("yue", "yue")]);
    assert_eq!(drafts[0].tags["source"], "mooc");
    assert_eq!(drafts[0].tags["label"], "Art");
}

#[test]
fn a_spoken_question_can_be_written_down() {
    let benchmark = built(&["asr", "sqa"], &["eng", "jpn"], |_| {});
    assert_eq!(benchmark.conditions(), ["sqa", "asr"]);
    let heard = |draft: &Draft| match draft.tags["src"].as_str() {
        // One word of two is wrong; case, full-width forms and punctuation are none.
        "eng" => "<think>hm</think> How?",
        _ => "ＪＰＮです。",
    };
    let mut asked = row();
    asked["eng"]["question"] = json!("who how?");
    asked["jpn"]["question"] = json!("jpn です？");
    let rows = [asked.clone(), asked];
    let drafts = benchmark.requests(&benchmark.sample(1, rows[0].clone()).unwrap());
    let asr: Vec<&Draft> = drafts.iter().filter(|draft| draft.conditions == ["asr"]).collect();
    assert_eq!((asr.len(), drafts.len()), (2, 4));
    assert_eq!(asr[0].gold, ["who how?"]);
    let Prompt::Chat(messages) = &asr[1].prompt else { panic!("a chat") };
    let [Part::Audio(clip), Part::Text(text)] = messages[0].parts.as_slice() else {
        panic!("a clip and a text")
    };
    assert_eq!((messages.len(), clip.name.as_str()), (1, "jpn/7.wav"));
    assert!(text.contains("in Japanese") && !text.contains('{'), "{text}");

    let scores = scored(&benchmark, rows, |sample, draft| {
        let text = if draft.conditions == ["asr"] { heard(draft) } else { "x" };
        assert_eq!(sample.id, "7");
        Some(response(Outcome::Ok, text))
    });
    assert_eq!(value(&scores, "wer_corpus", "asr", &[("src", "eng")]), Some(50.0));
    let eng = scores.find("wer_corpus", "asr", &[("src", "eng")]).unwrap();
    assert_eq!((eng.n, eng.counts["deletions"], eng.counts["reference"]), (2, 2, 4));
    assert_eq!(value(&scores, "cer_corpus", "asr", &[("src", "jpn")]), Some(0.0));
    // No blanks, no words: the figure is there, and not the one that is shown.
    assert_eq!(value(&scores, "wer_corpus", "asr", &[("src", "jpn")]), Some(100.0));
    assert_eq!(scores.conditions.iter().map(|counts| counts.planned).collect::<Vec<_>>(), [4, 4]);
    assert!(scores.find("f1_char_set", "asr", &[]).is_none());
    let tables = benchmark.tables(&scores, &Published::default(), None);
    let table = tables.iter().find(|table| table.name == "ccfqa-asr").unwrap();
    assert_eq!(table.rows.len(), 2);
    assert!(table.rows[1].contains(&crate::report::table::Cell::text("cer")));
    assert!(
        table.notes.iter().any(|note| note.contains("(assumed: the paper's is not published) whisper: "))
    );
    assert!(!tables[0].title.contains("asr"));
    // Nobody judges a transcript.
    let setup = JudgeSetup { runs: 1, ..JudgeSetup::default() };
    let judge = benchmark.judging(&setup).unwrap().unwrap();
    for draft in drafts {
        let is_asr = draft.conditions == ["asr"];
        let (planned, _) = draft.planned(Digest::of(b"7"), NAME, "7");
        assert_eq!(judge.question(&planned, &response(Outcome::Ok, "x")).is_none(), is_asr);
    }

    // By itself it has one table, and a prompt file without its text is refused.
    let alone = built(&["asr"], &[], |_| {});
    let scores = scored(&alone, [row()], |_, _| None);
    assert_eq!(alone.tables(&scores, &Published::default(), None).len(), 1);
    assert_eq!(scores.conditions[0].missing, 8);
}

#[test]
fn prompts_are_a_system_message_and_clip_then_text() {
    let benchmark = built(&["qa", "xsqa"], &["eng", "yue"], |_| {});
    let drafts = benchmark.requests(&benchmark.sample(1, row()).unwrap());
    let find = |tgt: &str, speech: bool| {
        let fits = |d: &&Draft| {
            d.tags["src"] == "yue" && d.tags["tgt"] == tgt && speech != d.prompt.audio().is_empty()
        };
        match &drafts.iter().find(fits).unwrap().prompt {
            Prompt::Chat(messages) => messages.clone(),
            Prompt::Raw { .. } => panic!("expected messages"),
        }
    };
    let speech = find("eng", true);
    assert_eq!(speech[0].role, Role::System);
    let clip = AudioRef { name: "yue/7.wav".into(), window: Window::Whole };
    let text = "The question is spoken in Traditional Chinese. Answer it in English.";
    assert_eq!(speech[1].parts, [Part::Audio(clip), Part::Text(text.into())]);
    let written = find("yue", false);
    let text = "yue?\nThe question is in Traditional Chinese. Answer it in Traditional Chinese.";
    assert_eq!(written[1], Message::text(Role::User, text));
    let names: Vec<String> = benchmark.prompts().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["speech_system", "speech_user", "text_system", "text_user"]);
}

#[test]
fn raw_string_stands_in_for_the_speech_messages() {
    let texts = BTreeMap::from([("speech_full".to_owned(), "<a>{src}>{tgt}".to_owned())]);
    let benchmark = Ccfqa::new(&section(NAME), PromptSet::new("mine", texts), Window::First).unwrap();
    let drafts = benchmark.requests(&benchmark.sample(1, row()).unwrap());
    let clip = AudioRef { name: "cmn/7.wav".into(), window: Window::First };
    assert_eq!(drafts[1].prompt, Prompt::Raw { text: "<a>Chinese>English".into(), audio: vec![clip] });
    assert_eq!(benchmark.prompts()[0].name, "speech_full");
}

#[test]
fn wrong_rows_get_a_sentence() {
    let check = |conditions: &[&str], pointer: &str, value: Option<Value>, expect: &str| {
        let mut row = row();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let object = row.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        object.remove(key);
        object.extend(value.map(|value| (key.to_owned(), value)));
        let found = built(conditions, &["eng", "yue"], |_| {}).sample(1, row).map(|_| ());
        assert_eq!(found.err().unwrap_or_default(), expect);
    };
    check(&[], "/index", Some(json!(7)), "");
    check(&[], "/index", None, "the row has no `index`: expected a whole number");
    check(&[], "/index", Some(json!("7")), "`index` must be a whole number, found a string");
    check(&[], "/index", Some(json!(7.5)), "`index` must be a whole number, found the number 7.5");
    check(&[], "/label", None, "the row has no `label`");
    check(&[], "/source", Some(json!(null)), "`source` must be a string, found null");
    check(&[], "/yue", None, "the row has no `yue`: add it, or name the `languages` that the data have");
    check(
        &[],
        "/yue",
        Some(json!([])),
        "`yue` must be an object with `audio`, `question` and `answer`, found a list",
    );
    check(&[], "/yue/answer", None, "the row has no `yue.answer`");
    check(&[], "/yue/answer", Some(json!(1788)), "`yue.answer` must be a string, found the number 1788");
    check(&[], "/yue/audio", Some(json!("")), "`yue.audio` is empty");
    // What nobody asks for may be missing.
    check(&[], "/fra", None, "");
    check(&["sqa"], "/yue/question", None, "");
    check(&["qa"], "/yue/audio", None, "");
    check(&["qa"], "/yue/question", None, "the row has no `yue.question`");
    assert!(
        built(&[], &[], |_| {}).sample(1, json!([1])).unwrap_err().starts_with("a row must be a JSON object")
    );
}

#[test]
fn failures_are_in_no_score_and_all_outcomes_are_counted() {
    let benchmark = built(&["sqa", "xsqa"], &["eng", "fra"], |_| {});
    let scores = scored(&benchmark, [row()], |_, draft| match (&*draft.tags["src"], &*draft.tags["tgt"]) {
        ("eng", "eng") => Some(response(Outcome::Ok, "Answer: eng")),
        ("eng", "fra") => Some(response(Outcome::RequestError, "")),
        ("fra", "eng") => Some(response(Outcome::Empty, "")),
        _ => None,
    });
    let xsqa = &scores.conditions[1];
    let of = |outcome| xsqa.of(outcome);
    assert_eq!((xsqa.planned, xsqa.missing, xsqa.unanswered()), (4, 1, 2));
    assert_eq!((of(Outcome::Ok), of(Outcome::Empty), of(Outcome::RequestError)), (1, 1, 1));
    // 100 and 0: the failed and the missing pair are skipped, the empty answer is not.
    assert_eq!(value(&scores, F1_CHAR_SET, "xsqa", &[]), Some(50.0));
    assert_eq!(value(&scores, F1_CHAR_SET, "sqa", &[]), Some(100.0));
    assert_eq!(value(&scores, F1_CHAR_SET, "xsqa", &[("src", "eng"), ("tgt", "fra")]), None);
    assert_eq!(value(&scores, F1_CHAR_SET, "xsqa", &[("tgt", "fra")]), None);
    assert_eq!(value(&scores, F1_CHAR_SET_OFF_DIAGONAL, "xsqa", &[]), Some(0.0));
    let overall = scores.find(F1_CHAR_SET, "xsqa", &[]).unwrap();
    assert_eq!((overall.n, overall.counts["pairs"], overall.counts["pairs_without_answers"]), (2, 2, 2));
    assert_eq!(overall.counts["changed_by_post_processing"], 1);

    let raw = built(&["sqa"], &["eng"], |config| config.strip_output = false);
    let scores = scored(&raw, [row()], |_, _| Some(response(Outcome::Length, "<think> eng")));
    assert_eq!(value(&scores, EXACT, "sqa", &[]), Some(0.0));
    assert_eq!(scores.warnings.len(), 1);
    assert!(scores.warnings[0].starts_with("sqa: 1 answers end inside `<think>`"));
}

#[test]
fn same_answer_to_everything_is_a_warning() {
    let rows = (0..10).map(|i| {
        let mut row = row();
        row["index"] = json!(i);
        row["eng"]["answer"] = json!(format!("gold {i}"));
        row
    });
    let benchmark = built(&["sqa"], &["eng"], |_| {});
    let scores = scored(&benchmark, rows, |_, _| Some(response(Outcome::Ok, "I hear nothing")));
    assert!(scores.warnings[0].starts_with("10 of 10 answers to spoken questions are the same text"));
}

/// SPEC: the authors' sheet from its own 64 pairs.
#[test]
fn averages_of_the_published_pairs_are_the_published_averages() {
    let published = crate::benchmark::published(NAME).unwrap();
    let model = "Qwen2.5-Omni-7B";
    let find = |metric: &str, group: &[_]| published.find(model, "xsqa", metric, group).map(|f| f.value);
    for (metric, diagonal, all, cross, row_mean) in
        [("f1_char_set", 44.0, 38.5, 37.7, 38.5), ("llm_accuracy", 33.2, 29.6, 29.0, 29.5)]
    {
        let average = |of: &dyn Fn(&str, &str) -> bool| {
            let pairs = CODES.iter().flat_map(|&src| CODES.iter().map(move |&tgt| (src, tgt)));
            macro_average(
                pairs.filter(|(s, t)| of(s, t)).map(|(s, t)| find(metric, &[("src", s), ("tgt", t)])),
            )
        };
        let rows = CODES.map(|code| average(&|src, _| src == code));
        assert_eq!(rows, CODES.map(|code| find(metric, &[("src", code)])), "{metric}");
        assert_eq!(average(&|src, tgt| src == tgt), Some(diagonal));
        assert_eq!(average(&|_, _| true), Some(all));
        assert_eq!(average(&|src, tgt| src != tgt), Some(cross));
        assert_eq!(macro_average(rows), Some(row_mean));
        assert_eq!(published.find(model, "sqa", metric, &[]).map(|f| f.value), Some(diagonal));
        assert_eq!(find(metric, &[]), Some(all));
    }
}

/// SPEC: every answer is the gold of the source language.
#[test]
fn echo_of_the_source_gold_scores_as_the_official_script() {
    let Some(text) = shared("sample.jsonl") else { return };
    let benchmark = built(&["sqa", "xsqa"], &[], |config| config.strip_output = false);
    let scores = scored(&benchmark, jsonl(&text), |sample, draft| {
        let src = &draft.tags["src"];
        Some(response(Outcome::Ok, sample.row[src]["answer"].as_str().unwrap()))
    });
    let of = |metric, condition, group: &[_]| value(&scores, metric, condition, group).unwrap();
    let overall = scores.find(F1_CHAR_SET, "xsqa", &[]).unwrap();
    assert_eq!((overall.n, overall.value), (2560, Some(35.0)));
    assert_eq!((of(F1_CHAR_SET, "sqa", &[]), of(EXACT, "sqa", &[])), (100.0, 100.0));
    let rows = [33.4, 42.9, 43.0, 29.2, 26.9, 26.6, 43.2, 34.5];
    assert_eq!(CODES.map(|code| of(F1_CHAR_SET, "xsqa", &[("src", code)])), rows);
    let same = [26.9, 30.0, 29.4, 24.7, 23.4, 23.4, 29.7, 26.9];
    assert_eq!(CODES.map(|code| py_round(of(EXACT, "xsqa", &[("src", code)]), 1)), same);
    for (src, tgt, f1, same) in
        [("cmn", "yue", 66.4, 35.0), ("eng", "fra", 81.1, 37.5), ("eng", "spa", 82.5, 40.0)]
    {
        let group = [("src", src), ("tgt", tgt)];
        assert_eq!((of(F1_CHAR_SET, "xsqa", &group), of(EXACT, "xsqa", &group)), (f1, same));
    }
    assert!((of(F1_TOKEN_SET, "xsqa", &[]) - 28.466_703_869).abs() < 1e-9);
    assert!((of(EXACT, "xsqa", &[]) - 26.796_875).abs() < 1e-12);
    assert_eq!(scores.warnings, Vec::<String>::new());
}

/// SPEC: strings stay raw.
#[test]
fn stray_blanks_and_control_characters_of_the_data_are_kept() {
    let Some(text) = shared("sample.jsonl") else { return };
    let rows = jsonl(&text);
    assert_eq!(rows.len(), 40);
    let benchmark = built(&["qa", "sqa"], &[], |_| {});
    let mut labels: BTreeMap<String, u64> = BTreeMap::new();
    let mut gold = BTreeMap::new();
    for row in rows {
        *labels.entry(row["label"].as_str().unwrap().to_owned()).or_default() += 1;
        let sample = benchmark.sample(1, row).unwrap();
        let drafts = benchmark.requests(&sample);
        assert_eq!(drafts.len(), 16);
        for draft in drafts {
            gold.insert((sample.id.clone(), draft.tags["tgt"].clone()), draft.clone());
        }
    }
    assert!(labels.len() == 20 && labels.values().all(|&n| n == 2), "{labels:?}");
    let draft = |id: &str, tgt: &str| &gold[&(id.to_owned(), tgt.to_owned())];
    assert!(draft("1911", "cmn").gold[0].starts_with(' '));
    assert!(draft("1971", "yue").gold[0].starts_with("\t "));
    let text = benchmark.requests(
        &benchmark.sample(1, jsonl(&text).into_iter().find(|r| r["index"] == 1911).unwrap()).unwrap(),
    );
    let asked = text.iter().find(|d| d.tags["src"] == "yue" && d.prompt.audio().is_empty()).unwrap();
    assert!(
        matches!(&asked.prompt, Prompt::Chat(m) if matches!(&m[1].parts[0], Part::Text(t) if t.contains('\u{8}')))
    );
}

/// SPEC: prompt strings and their renderings, byte for byte.
#[test]
fn official_prompts_have_their_hashes_and_renderings() {
    let Some(text) = shared("prompts.toml") else { return };
    let file: toml::Table = toml::from_str(&text).unwrap();
    let mut checked = 0;
    for (name, block) in &file {
        if let (Some(text), Some(hash)) = (block.get("text"), block.get("sha256")) {
            let (text, hash) = (text.as_str().unwrap(), hash.as_str().unwrap());
            assert_eq!(sha256_hex(text), hash, "{name}");
            if let Some(ours) = name.strip_prefix("harness_") {
                assert_eq!(crate::benchmark::harness_wording(NAME).unwrap().get(ours), Some(text), "{name}");
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 12);
    for example in file["example"].as_array().unwrap() {
        let inputs: Vec<(&str, &str)> = example["inputs"]
            .as_table()
            .unwrap()
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str().unwrap()))
            .collect();
        let template = file[example["prompt"].as_str().unwrap()]["text"].as_str().unwrap();
        let filled = fill(template, &inputs);
        assert_eq!(filled, example["expected"].as_str().unwrap());
        assert_eq!(sha256_hex(&filled), example["sha256"].as_str().unwrap());
    }
    for language in &LANGUAGES {
        assert_eq!(file["names_inference"][language.code].as_str(), Some(language.name));
    }
    // The official words, sent raw, are no deviation; sent as messages they are one.
    let text = |name: &str| (name.to_owned(), file[name]["text"].as_str().unwrap().to_owned());
    let departures = |names: &[&str]| {
        let texts = names.iter().map(|name| text(name)).collect();
        let benchmark = Ccfqa::new(&section(NAME), PromptSet::new("official", texts), Window::Whole).unwrap();
        departures(&benchmark, &Generation::default(), 443, (1000, None))
    };
    let rest = vec![
        "no LLM judge: accuracy and consistency, the paper's other figures, are not computed".to_owned(),
    ];
    assert_eq!(departures(&["speech_full"]), rest);
    let chat = departures(&["speech_system", "speech_user"]);
    assert!(chat.len() == 2 && chat[0].contains("chat template"), "{chat:?}");
}

fn departures(
    benchmark: &Ccfqa,
    generation: &Generation,
    seed: u64,
    samples: (u64, Option<(u64, u64)>),
) -> Vec<String> {
    let model = ModelIdentity {
        name: "m".into(),
        kind: "local".into(),
        model: "qwen2_audio".into(),
        revision: String::new(),
        dtype: "f16".into(),
        device: "cpu".into(),
    };
    let facts = RunFacts {
        model: &model,
        generation,
        seed,
        samples: samples.0,
        subset: samples.1,
        data_differs: &[],
        judge: None,
    };
    let found = benchmark.deviations(&facts);
    let differs = ["999 rows instead of 1,000".to_owned()];
    let other = benchmark.deviations(&RunFacts { data_differs: &differs, ..facts });
    assert!(
        other.contains(&"the data are not the published ones: 999 rows instead of 1,000".to_owned()),
        "{other:?}"
    );
    found
}

#[test]
fn data_are_checked_against_what_is_published() {
    let benchmark = built(&[], &[], |_| {});
    let mut check = benchmark.data_check().unwrap();
    let row = serde_json::json!({"index": 1, "source": "mooc", "label": "Art"});
    check.add(&row, &crate::benchmark::data_check::NoMedia);
    assert_eq!(check.finish(), ["1 row instead of 1,000"]);
}

#[test]
fn every_departure_is_told() {
    let greedy = Generation::default();
    let benchmark = built(&[], &[], |_| {});
    let found = departures(&benchmark, &greedy, 443, (1000, None));
    assert_eq!(
        found,
        [
            "spoken questions are asked in other words than the paper's (harness wording)",
            "no LLM judge: accuracy and consistency, the paper's other figures, are not computed",
        ]
    );
    let mut config = section(NAME);
    config.languages = vec!["eng".into()];
    config.conditions = vec!["qa".into(), "sqa".into()];
    config.strip_output = false;
    let prompts = crate::benchmark::harness_wording(NAME).unwrap();
    let benchmark = Ccfqa::new(&config, prompts, Window::First).unwrap();
    let drawn = Generation {
        temperature: Some(0.7),
        top_p: 0.9,
        top_k: 20,
        repetition_penalty: 1.1,
        max_new_tokens: 32,
        stop: vec!["\n".into()],
    };
    let found = departures(&benchmark, &drawn, 1, (5, Some((5, 800))));
    let expect = [
        "spoken questions are asked in other words",
        "the paper publishes no prompts for written questions; these are harness wording",
        "the data hold 800 items, the paper's test split 1,000",
        "a subset: 5 of 800 items",
        "1 of 8 languages (eng)",
        "answers are drawn (temperature 0.7, top_p 0.9, top_k 20)",
        "at most 32 new tokens",
        "repetition penalty 1.1",
        "answers end at stop strings",
        "seed 1, the paper's script has 443",
        "clips longer than the model takes are cut to a part (window `first`)",
        "answers are scored without the official post-processing",
        "no LLM judge",
    ];
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    found.iter().zip(expect).for_each(|(found, expect)| assert!(found.starts_with(expect), "{found}"));
}

#[derive(serde::Deserialize)]
struct Demo {
    summary: DemoSummary,
    answers: Vec<(i64, String, String, String)>,
}

#[derive(serde::Deserialize)]
struct DemoSummary {
    sqa_f1: f64,
    xsqa_f1: f64,
    sqa_exact: f64,
    exact: u64,
    pair_f1: BTreeMap<String, f64>,
    exact_by_src: BTreeMap<String, f64>,
    exact_by_tgt: BTreeMap<String, f64>,
}

fn demo() -> (Ccfqa, BenchmarkScores, DemoSummary) {
    let fixture = include_str!("../../../tests/fixtures/ccfqa/demo_answers.json");
    let rows = jsonl(include_str!("../../../tests/fixtures/ccfqa/demo_rows.jsonl"));
    let demo: Demo = serde_json::from_str(fixture).unwrap();
    let answers: BTreeMap<(String, String, String), String> = demo
        .answers
        .into_iter()
        .map(|(index, src, tgt, text)| ((index.to_string(), src, tgt), text))
        .collect();
    let benchmark = built(&[], &[], |_| {});
    let scores = scored(&benchmark, rows, |sample, draft| {
        let key = (sample.id.clone(), draft.tags["src"].clone(), draft.tags["tgt"].clone());
        Some(response(Outcome::Ok, &answers[&key]))
    });
    (benchmark, scores, demo.summary)
}

/// Answers of the demo model to fast speech, scored by another implementation.
#[test]
fn answers_of_the_demo_model_score_as_another_implementation_says() {
    let (_, scores, summary) = demo();
    let of = |metric, condition, group: &[_]| value(&scores, metric, condition, group).unwrap();
    assert_eq!(of(F1_CHAR_SET, "sqa", &[]), summary.sqa_f1);
    assert_eq!(of(F1_CHAR_SET, "xsqa", &[]), summary.xsqa_f1);
    assert_eq!(py_round(of(EXACT, "sqa", &[]), 1), summary.sqa_exact);
    assert!((of(EXACT, "xsqa", &[]) - summary.exact as f64 * 100.0 / 384.0).abs() < 1e-9);
    for (pair, &f1) in &summary.pair_f1 {
        let (src, tgt) = pair.split_once('-').unwrap();
        assert_eq!(of(F1_CHAR_SET, "xsqa", &[("src", src), ("tgt", tgt)]), f1, "{pair}");
    }
    for (key, by) in [("src", &summary.exact_by_src), ("tgt", &summary.exact_by_tgt)] {
        for (code, exact) in by {
            let ours = of(EXACT, "xsqa", &[(key, code.as_str())]);
            assert!((ours - exact).abs() < 0.051, "{key} {code}: {ours} {exact}");
        }
    }
}

#[test]
fn tables_show_this_run_beside_the_paper() {
    let (benchmark, mut scores, _) = demo();
    scores.label = "demo".into();
    scores.prompts = benchmark.prompts();
    scores.deviations = vec!["a subset".into()];
    let published = crate::benchmark::published(NAME).unwrap();
    let tables = benchmark.tables(&scores, &published, Some("Qwen2.5-Omni-7B"));
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(
        names,
        ["demo-main", "demo-sqa-languages", "demo-xsqa-pairs", "demo-xsqa-differences", "demo-models"]
    );
    for table in &tables {
        println!("{}", table.markdown());
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.name);
        for needed in [
            "sha256 20597f5a04f1",
            "xsqa: 384 requests: ok 384, length 0",
            "deviation: a subset",
            "could not be read: 0",
        ] {
            assert!(table.notes.iter().any(|note| note.contains(needed)), "{}: {needed}", table.name);
        }
    }
    let main = tables[0].markdown();
    let line = |start: &str| {
        let cells: Vec<&str> =
            main.lines().find(|l| l.starts_with(start)).unwrap().split('|').map(str::trim).collect();
        cells[1..cells.len() - 1].join(" ")
    };
    assert_eq!(line("| sqa       | f1_char_set "), "sqa f1_char_set official 73.2 48 44.0 +29.2 primary");
    assert_eq!(line("| xsqa      | f1_char_set "), "xsqa f1_char_set official 75.5 384 38.5 +37.0 primary");
    assert_eq!(tables[2].rows.len(), 9);
    assert_eq!(tables[2].columns.len(), 10);

    let alone = benchmark.tables(&scores, &published, None);
    assert_eq!(alone.len(), 3);
    assert_eq!(alone[0].columns, ["condition", "metric", "profile", "this run", "n"]);
    let unknown = benchmark.tables(&scores, &published, Some("Qwen9"));
    assert!(
        unknown[0]
            .notes
            .iter()
            .any(|note| note.starts_with("published: no figures of `Qwen9`; there are some of GPT"))
    );

    scores.profile = Profile::Recipe;
    let recipe = benchmark.tables(&scores, &published, None);
    assert!(recipe[1].title.contains("by language") && recipe[2].title.contains("f1_token_set (recipe)"));
    assert_eq!(recipe[0].rows[0][1], crate::report::table::Cell::text("f1_token_set"));
}

proptest! {
    #[test]
    fn any_answer_can_be_scored(texts in prop::collection::vec(any::<String>(), 4), strip: bool) {
        let benchmark = built(&["xqa", "xsqa"], &["eng", "kor"], |config| config.strip_output = strip);
        let scores = scored(&benchmark, [row()], |_, draft| {
            let at = usize::from(draft.tags["src"] == "eng") * 2 + usize::from(draft.tags["tgt"] == "eng");
            Some(response(Outcome::Ok, &texts[at]))
        });
        let in_range = |value: f64| (0.0..=100.0).contains(&value);
        prop_assert!(scores.metrics.iter().all(|metric| metric.value.is_some_and(in_range)));
        prop_assert!(!benchmark.tables(&scores, &Published::default(), Some("x")).is_empty());
    }

    #[test]
    fn any_row_gives_a_sample_or_a_sentence(index in any::<Option<i64>>(), text: String) {
        let benchmark = built(&[], &["eng"], |_| {});
        let row = json!({ "index": index, "source": text, "label": "x", "eng": { "audio": text, "answer": text } });
        match benchmark.sample(1, row) {
            Ok(sample) => prop_assert_eq!(benchmark.requests(&sample).len(), 1),
            Err(sentence) => prop_assert!(sentence.contains('`')),
        }
    }
}
