//! Made-up pages and claims, from the dump to rows.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::dataset::Dataset;

const PAGES: [(&str, &[&str]); 6] = [
    ("", &[]),
    ("甲湖", &["甲湖面積十平方公里。", "", "湖水深。"]),
    ("乙山_(測試)", &["乙山高三百公尺。", "山上有樹。"]),
    ("丙", &["丙是人。"]),
    ("丁城", &["丁城在甲湖之北。", "丁城人口三萬。"]),
    ("戊", &["戊。"]),
];

fn lines(rows: &[Value]) -> String {
    let line = |row: &Value| format!("{row}\n");
    rows.iter().map(line).collect()
}

fn claim(id: i64, label: &str, text: &str, evidence: &Value) -> Value {
    json!({"id": id, "label": label, "claim": text, "evidence": evidence, "domain": "其他"})
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let page = |(title, texts): &(&str, &[&str])| {
            let lines: Vec<String> =
                texts.iter().enumerate().map(|(n, text)| format!("{n}\t{text}\t{title}")).collect();
            json!({"id": title, "text": "", "lines": lines.join("\n")})
        };
        let (first, second) = PAGES.split_at(3);
        place.write("wiki-pages/wiki-001.jsonl", &lines(&first.iter().map(page).collect::<Vec<_>>()));
        place.write("wiki-pages/wiki-002.jsonl", &lines(&second.iter().map(page).collect::<Vec<_>>()));
        let nei = json!([[9, null, null, null]]);
        let dev = [
            claim(1, "supports", "甲湖的面積是十平方公里。", &json!([[[1, 2, "甲湖", 0]]])),
            claim(
                2,
                "refutes",
                "乙山高五百公尺。",
                &json!([[[1, 2, "乙山_(測試)", 0]], [[1, 2, "無此頁", 0]]]),
            ),
            claim(3, "NOT ENOUGH INFO", "丁城有三座橋。", &nei),
        ];
        place.write("data/dev.jsonl", &lines(&dev));
        place.write("data/test.jsonl", &lines(&[json!({"id": 4, "claim": "丙不是人。"})]));
        let train: Vec<Value> = (10..22)
            .map(|id| match id % 3 {
                0 => {
                    claim(id, "supports", &format!("丁城人口是三萬，第{id}。"), &json!([[[1, 2, "丁城", 1]]]))
                }
                1 => claim(id, "refutes", &format!("丙是山，第{id}。"), &json!([[[1, 2, "丙", 0]]])),
                _ => claim(id, "NOT ENOUGH INFO", &format!("丁城很遠，第{id}。"), &nei),
            })
            .collect();
        place.write("data/train.jsonl", &lines(&train));
        place
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn asked(&self) -> EvidenceAsked {
        EvidenceAsked {
            data: self.0.path().to_owned(),
            to: None,
            retrieval: None,
            settings: Settings { pages: 3, sentences: 4, shots: 0, seed: 1 },
            bare: false,
            jobs: NonZeroUsize::new(2).unwrap(),
        }
    }

    fn rows(&self, split: &str) -> Vec<Value> {
        let path = self.0.path().join(EVIDENCE).join(format!("{split}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn rows_hold_what_was_found_for_them() {
    let place = Place::new();
    let units = AtomicU64::new(0);
    let on = |event| {
        if let EvidenceEvent::Done(n) = event {
            units.fetch_add(n, Ordering::Relaxed);
        }
    };
    let done = prepare_evidence(&place.asked(), &on).unwrap();
    assert!(units.load(Ordering::Relaxed) > 0);
    assert_eq!(done.count, 1, "{:?}", done.problems);
    assert!(
        done.problems[0].contains("1 of 3 sentences of the gold are not in the dump, among them 無此頁 0")
    );
    let rows = place.rows("dev");
    assert_eq!(rows[0]["label"], "supports", "the published columns stay");
    let found = &rows[0]["found"];
    assert_eq!((&found["retrieval"], &found["pages"][0]), (&json!("own"), &json!("甲湖")));
    assert_eq!(found["bm25"][0], json!({"page": "甲湖", "line": 0, "text": "甲湖面積十平方公里。"}));
    let candidates = found["bm25"].as_array().unwrap();
    assert!(candidates.len() <= 4 && candidates.iter().all(|c| c["text"] != ""), "empty sentences are none");
    let oracle = rows[1]["found"]["oracle"].as_array().unwrap();
    assert_eq!(oracle[0]["page"], "乙山_(測試)");
    assert_eq!(rows[2]["found"]["oracle"], rows[2]["found"]["bm25"], "an undecidable claim has no gold");
    let test = &place.rows("test")[0];
    assert!(
        test.get("label").is_none() && test["found"]["pages"][0] == "丙"
            || test["found"]["bm25"][0]["page"] == "丙"
    );

    // Made once; and again where how rows are made, or a file, has changed.
    let again = prepare_evidence(&place.asked(), &|event| {
        assert!(!matches!(event, EvidenceEvent::Begins(..)), "{event:?}");
    });
    assert_eq!(again.unwrap().rows, done.rows);
    let fewer =
        EvidenceAsked { settings: Settings { sentences: 1, ..place.asked().settings }, ..place.asked() };
    prepare_evidence(&fewer, &|_| ()).unwrap();
    assert_eq!(place.rows("dev")[0]["found"]["bm25"].as_array().unwrap().len(), 1);
    place.write("wiki-pages/wiki-003.jsonl", "{\"id\": \"無此頁\", \"lines\": \"0\\t有了。\"}\nbroken\n");
    let done = prepare_evidence(&place.asked(), &|_| ()).unwrap();
    assert_eq!(done.count, 1, "{:?}", done.problems);
    assert!(done.problems[0].contains("wiki-003.jsonl:2: not a page"), "{:?}", done.problems);
    // What was wrong with the dump is said again where its store is kept.
    let again = prepare_evidence(&place.asked(), &|_| ()).unwrap();
    assert!(again.lines[0].contains("made already"), "{:?}", again.lines);
    assert_eq!((again.count, again.problems), (1, done.problems));
}

#[test]
fn pages_that_stand_in_the_dump_twice_are_told() {
    let place = Place::new();
    place.write(
        "wiki-pages/wiki-003.jsonl",
        "{\"id\": \"甲湖\", \"lines\": \"0\\t甲湖的面積變了。\"}\n[\"己\", \"0\\t己。\"]\n",
    );
    for _ in 0..2 {
        let done = prepare_evidence(&place.asked(), &|_| ()).unwrap();
        assert!(
            done.lines.iter().any(|line| line.contains("one page twice, of which the later one counts")),
            "{:?}",
            done.lines
        );
        assert!(done.problems[0].contains("wiki-003.jsonl:2: not a page (expected an object"), "{done:?}");
    }
    let rows = place.rows("dev");
    let shown = rows.iter().flat_map(|row| row["found"]["bm25"].as_array().unwrap());
    let shown: Vec<&Value> = shown.filter(|candidate| candidate["page"] == "甲湖").collect();
    assert!(!shown.is_empty() && shown.iter().all(|candidate| candidate["text"] == "甲湖的面積變了。"));
}

/// How many sentences are shown must not tell the label.
#[test]
fn the_oracle_shows_as_many_for_every_label() {
    let place = Place::new();
    for (published, sentences) in [(false, 2), (true, 2), (true, 3), (true, 4)] {
        if published {
            let pages = |id: i64| json!({"id": id, "predicted_pages": ["丁城", "丙", "戊"]});
            place.write("dev_doc10.jsonl", &lines(&[1, 2, 3].map(pages)));
            place.write("test_doc10.jsonl", &lines(&[pages(4)]));
        }
        let settings = Settings { sentences, ..place.asked().settings };
        prepare_evidence(&EvidenceAsked { settings, ..place.asked() }, &|_| ()).unwrap();
        let rows = place.rows("dev");
        let count = |row: &Value| row["found"]["oracle"].as_array().unwrap().len();
        assert_eq!(rows.iter().map(count).collect::<Vec<_>>(), [sentences; 3], "{published}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let place = Place::new();
    prepare_evidence(&place.asked(), &|_| ()).unwrap();
    let rows = place.rows("dev");
    std::fs::remove_dir_all(place.0.path().join(EVIDENCE)).unwrap();
    std::fs::remove_dir_all(place.0.path().join(WIKI)).unwrap();
    prepare_evidence(&EvidenceAsked { jobs: NonZeroUsize::MIN, ..place.asked() }, &|_| ()).unwrap();
    assert_eq!(place.rows("dev"), rows);
}

#[test]
fn published_pages_are_taken_where_they_are() {
    let place = Place::new();
    let pages = |id: i64, titles: &[&str]| json!({"id": id, "predicted_pages": titles, "label": "x"});
    place.write(
        "bm25_test/dev_doc10.jsonl",
        &lines(&[pages(1, &["戊", "甲湖"]), pages(2, &["戊", "沒有"]), pages(3, &[])]),
    );
    let published = EvidenceAsked { retrieval: Some(Retrieval::Published), ..place.asked() };
    let error = prepare_evidence(&published, &|_| ()).unwrap_err().to_string();
    assert!(error.contains("no published pages for the split test (looked for test_doc10.jsonl)"), "{error}");
    place.write("bm25_test/test_doc10.jsonl", &lines(&[pages(4, &["丙"])]));
    let done = prepare_evidence(&place.asked(), &|_| ()).unwrap();
    let line = done.lines.iter().find(|line| line.contains("dev.jsonl")).unwrap();
    assert!(line.contains("3 claims, published pages, those of a whole set for 1 of 2"), "{line}");
    let lacks = "(50.00 %), 1 pages are not in the dump (among them 沒有), 1 claims without any sentence";
    assert!(line.contains(lacks), "{line}");
    let rows = place.rows("dev");
    assert_eq!(rows[0]["found"]["pages"], json!(["戊", "甲湖"]));
    assert_eq!(rows[0]["found"]["bm25"][0]["page"], "甲湖");
    assert_eq!(rows[2]["found"]["bm25"], json!([]));
    assert!(!place.0.path().join(WIKI).join("index.bin").exists(), "no index is needed");
    place.write("bm25_test/dev_doc10.jsonl", &lines(&[pages(1, &[])]));
    let error = prepare_evidence(&place.asked(), &|_| ()).unwrap_err().to_string();
    assert!(error.contains("dev.jsonl:2: there are no published pages for claim 2"), "{error}");
}

/// With another dump than the authors' hardly any published page is found, and claims would be asked without sentences.
#[test]
fn a_dump_without_the_published_pages_is_a_problem() {
    let place = Place::new();
    let published = |unknown: usize| {
        let titles: Vec<&str> =
            ["沒有", "也沒有", "還是沒有"][..unknown].iter().copied().chain(["丙"; 10]).collect();
        let pages = |id: i64| json!({"id": id, "predicted_pages": titles[..10]});
        place.write("dev_doc10.jsonl", &lines(&[1, 2, 3].map(pages)));
        place.write("test_doc10.jsonl", &lines(&[pages(4)]));
        let settings = Settings { pages: 10, ..place.asked().settings };
        prepare_evidence(&EvidenceAsked { settings, ..place.asked() }, &|_| ()).unwrap()
    };
    // One in ten is passed over, as the authors' own code does.
    let done = published(1);
    assert!(done.problems.iter().all(|problem| !problem.contains("published pages")), "{:?}", done.problems);
    assert!(done.warnings[0].contains("2 files with 5 pages in all, the authors' of 24 files"), "{done:?}");
    let told = "dev: 9 of 30 published pages are not in the dump, among them 沒有, 也沒有, 還是沒有: it is another dump";
    // It is said again where the rows are kept.
    for _ in 0..2 {
        let done = published(3);
        assert!(done.problems.iter().any(|problem| problem.contains(told)), "{:?}", done.problems);
        assert_eq!(done.warnings.len(), 1, "{:?}", done.warnings);
    }
}

/// Without gold only the claims that are left without a sentence tell that the dump is of no use.
#[test]
fn a_dump_without_a_sentence_for_the_claims_is_a_problem() {
    let place = Place::new();
    std::fs::remove_file(place.0.path().join("data/dev.jsonl")).unwrap();
    place.write("wiki-pages/wiki-001.jsonl", "{\"id\": \"Q\", \"lines\": \"0\\tqqq\"}\n");
    std::fs::remove_file(place.0.path().join("wiki-pages/wiki-002.jsonl")).unwrap();
    // It is said again where the rows are kept.
    for _ in 0..2 {
        let done = prepare_evidence(&place.asked(), &|_| ()).unwrap();
        assert_eq!(done.count, 1, "{done:?}");
        assert!(done.problems[0].contains("test: no sentence was found for 1 of 1 claims"), "{done:?}");
    }
}

/// The authors' dump may lack a title: one sentence of many is told, and is no problem.
#[test]
fn a_gold_sentence_that_the_dump_lacks_is_warned_of() {
    let place = Place::new();
    let prepared = |whole: i64| {
        let found = |id: i64| claim(id, "supports", "丁城人口三萬。", &json!([[[1, 2, "丁城", 1]]]));
        let lacking = claim(100, "supports", "丙是人。", &json!([[[1, 2, "無此頁", 0]]]));
        let rows: Vec<Value> = (0..whole).map(found).chain([lacking]).collect();
        place.write("data/dev.jsonl", &lines(&rows));
        prepare_evidence(&place.asked(), &|_| ()).unwrap()
    };
    let few = prepared(9);
    assert_eq!(few.count, 0, "{few:?}");
    let told = "dev: 1 of 10 sentences of the gold are not in the dump, among them 無此頁 0";
    assert!(few.warnings.iter().any(|warning| warning.contains(told)), "{few:?}");
    let many = prepared(8);
    assert_eq!(many.count, 1, "{many:?}");
    assert!(many.problems[0].contains("dev: 1 of 9 sentences of the gold"), "{many:?}");
}

/// The record holds the hash of the rows: what was changed since is refused and made anew, be it as long as before.
#[test]
fn rows_that_were_changed_are_made_anew() {
    let place = Place::new();
    prepare_evidence(&place.asked(), &|_| ()).unwrap();
    let path = place.0.path().join(EVIDENCE).join("dev.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    let other = whole.replace("甲湖面積十平方公里。", "甲湖面積千平方公里。");
    assert!(other != whole && other.len() == whole.len());
    assert!(Dataset::open(&path, None).is_ok());
    for changed in [other, format!("{whole}{{}}\n")] {
        std::fs::write(&path, changed).unwrap();
        let error = Dataset::open(&path, None).unwrap_err().to_string();
        assert!(
            error.contains("its content is another") && error.contains("harness prepare cfever"),
            "{error}"
        );
        prepare_evidence(&place.asked(), &|_| ()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    }
    assert!(Dataset::open(&path, None).is_ok());
}

#[test]
fn worked_examples_are_drawn_by_the_seed_with_labels_in_turn() {
    let place = Place::new();
    let drawn = |seed: u64| {
        let settings = Settings { shots: 4, seed, ..place.asked().settings };
        prepare_evidence(&EvidenceAsked { settings, ..place.asked() }, &|_| ()).unwrap();
        let rows = place.rows("dev");
        assert_eq!(rows[0]["found"]["shots"], rows[2]["found"]["shots"], "the same for every claim");
        rows[0]["found"]["shots"].as_array().unwrap().clone()
    };
    let shots = drawn(1);
    let labels: Vec<&str> = shots.iter().map(|shot| shot["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["supports", "refutes", "NOT ENOUGH INFO", "supports"]);
    let number = shots[0]["evidence"][0].as_u64().unwrap() as usize;
    assert_eq!(shots[0]["candidates"][number - 1]["text"], "丁城人口三萬。");
    assert_eq!(shots[2]["evidence"], json!([]));
    assert!(!shots[2]["candidates"].as_array().unwrap().is_empty());
    assert_eq!(drawn(1), shots);
    assert!((2..9).any(|seed| drawn(seed) != shots), "another seed draws others");
    // With the published pages there is no index: what has no sentence then is no example.
    let pages = |id: i64| json!({"id": id, "predicted_pages": ["丙"]});
    place.write("dev_doc10.jsonl", &lines(&[1, 2, 3].map(pages)));
    place.write("test_doc10.jsonl", &lines(&[pages(4)]));
    let train = std::fs::read_to_string(place.0.path().join("data/train.jsonl")).unwrap();
    let nowhere = |id: i64| claim(id, "NOT ENOUGH INFO", "無名之地。", &json!([[9, null, null, null]]));
    place.write("data/train.jsonl", &format!("{train}{}", lines(&(30..60).map(nowhere).collect::<Vec<_>>())));
    let shots = drawn(1);
    assert_eq!(shots[2]["label"], "NOT ENOUGH INFO");
    assert_eq!(shots[2]["candidates"][0]["page"], "丁城");
    std::fs::remove_file(place.0.path().join("dev_doc10.jsonl")).unwrap();
    place.write("data/train.jsonl", &train);
    let settings = Settings { shots: 20, ..place.asked().settings };
    let error = prepare_evidence(&EvidenceAsked { settings, ..place.asked() }, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("only 12 claims fit as worked examples, 20 are asked for"), "{error}");
}

/// Claims that are judged alone want no sentence, neither do their examples.
#[test]
fn worked_examples_of_claims_alone_need_no_dump() {
    let place = Place::new();
    std::fs::remove_dir_all(place.0.path().join("wiki-pages")).unwrap();
    let settings = Settings { shots: 4, ..place.asked().settings };
    let bare = || EvidenceAsked { bare: true, settings, ..place.asked() };
    let error = prepare_evidence(&EvidenceAsked { settings, ..place.asked() }, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("--no-evidence does without"), "{error}");
    let done = prepare_evidence(&bare(), &|_| ()).unwrap();
    assert!(
        done.lines[0].ends_with("dev.jsonl: 3 claims without sentences, 4 worked examples"),
        "{:?}",
        done.lines
    );
    assert_eq!(done.rows.len(), 2);
    let rows = || {
        let text = std::fs::read_to_string(&done.rows[0]).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let first = rows();
    assert_eq!((first.len(), &first[1]["claim"]), (3, &json!("乙山高五百公尺。")));
    let shots = first[0]["found"]["shots"].as_array().unwrap();
    let labels: Vec<&str> = shots.iter().map(|shot| shot["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["supports", "refutes", "NOT ENOUGH INFO", "supports"]);
    assert!(shots.iter().all(|shot| shot["candidates"] == json!([]) && shot["evidence"] == json!([])));
    assert!(!place.0.path().join(WIKI).exists() && !place.0.path().join(EVIDENCE).exists());
    prepare_evidence(&bare(), &|_| ()).unwrap();
    assert_eq!(rows(), first, "the same seed draws the same");
    std::fs::remove_file(place.0.path().join("data/train.jsonl")).unwrap();
    let error = prepare_evidence(&bare(), &|_| ()).unwrap_err().to_string();
    assert!(error.contains("no train split"), "{error}");
}

#[test]
fn what_is_missing_is_named() {
    let place = Place::new();
    let error = || prepare_evidence(&place.asked(), &|_| ()).unwrap_err().to_string();
    place.write(
        "data/dev.jsonl",
        "{\"id\": 1, \"claim\": \"x\", \"label\": \"SUPPORTS\", \"evidence\": []}\n",
    );
    assert!(error().contains("dev.jsonl:1: row 1: `label` is \"SUPPORTS\""), "{}", error());
    assert!(!place.0.path().join(EVIDENCE).join("dev.part").exists(), "no half of a file stays");
    std::fs::remove_dir_all(place.0.path().join("data")).unwrap();
    assert!(error().contains("holds no claims (looked for data/dev.jsonl"), "{}", error());
    std::fs::remove_dir_all(place.0.path().join("wiki-pages")).unwrap();
    assert!(error().contains("no pages of Wikipedia (looked for wiki-pages/*.jsonl)"), "{}", error());
}

#[test]
fn two_at_once_are_refused() {
    let place = Place::new();
    let wiki = place.0.path().join(WIKI);
    std::fs::create_dir_all(&wiki).unwrap();
    let _held = lock(&wiki).unwrap();
    let error = prepare_evidence(&place.asked(), &|_| ()).unwrap_err();
    assert!(matches!(error, PrepareError::Locked(_)), "{error}");
}
