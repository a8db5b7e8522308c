//! CFEVER from the dump to the submission, on made-up pages and claims: prepare, run against a model server, score,
//! export, and score the exported file.

#![cfg(feature = "endpoint")]
#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]

mod common;
#[path = "loopback/mod.rs"]
mod loopback;

use std::path::PathBuf;

use common::{Finished, finish, harness, journaled, root};
use loopback::{Loopback, Options};
use serde_json::{Value, json};

/// Pages of lakes, hills and towns: title and sentences.
fn pages() -> Vec<(String, Vec<String>)> {
    let names = "甲乙丙丁戊己庚辛壬癸".chars().enumerate();
    let page = |(n, name): (usize, char)| {
        let title = if n % 3 == 0 { format!("{name}湖_(測試)") } else { format!("{name}城") };
        let texts = vec![
            format!("{name}地在北方，有{n}座橋。"),
            String::new(),
            format!("{name}地人口{}萬。", n + 2),
            "每年有魚。".to_owned(),
        ];
        (title, texts)
    };
    names.map(page).collect()
}

fn claims(first: usize, count: usize) -> Vec<Value> {
    let pages = pages();
    let claim = |n: usize| {
        let (title, _) = &pages[n % pages.len()];
        let name = title.chars().next().unwrap();
        let id = 100 + n;
        match n % 3 {
            0 => json!({"id": id, "label": "supports", "claim": format!("{name}地在北方的第{n}處"),
                "evidence": [[[1, 2, title, 0]]], "domain": "世界地理"}),
            1 => json!({"id": id, "label": "refutes", "claim": format!("{name}地人口{n}百萬"),
                "evidence": [[[1, 2, title, 2], [1, 2, title, 0]], [[3, 4, title, 2]]], "domain": "人物"}),
            _ => json!({"id": id, "label": "NOT ENOUGH INFO", "claim": format!("{name}地的山高{n}尺"),
                "evidence": [[5, null, null, null]], "domain": "人物"}),
        }
    };
    (first..first + count).map(claim).collect()
}

fn lines(rows: &[Value]) -> String {
    let line = |row: &Value| format!("{row}\n");
    rows.iter().map(line).collect()
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let page = |(title, texts): &(String, Vec<String>)| {
            let numbered: Vec<String> = (0..).zip(texts).map(|(n, text)| format!("{n}\t{text}\tx")).collect();
            json!({"id": title, "text": "", "lines": numbered.join("\n")})
        };
        place.write("d/wiki-pages/wiki-001.jsonl", &lines(&pages().iter().map(page).collect::<Vec<_>>()));
        place.write("d/data/dev.jsonl", &lines(&claims(0, 24)));
        place.write("d/data/train.jsonl", &lines(&claims(50, 12)));
        let bare = |row: &Value| json!({"id": row["id"], "claim": row["claim"]});
        place.write("d/data/test.jsonl", &lines(&claims(24, 6).iter().map(bare).collect::<Vec<_>>()));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn rows(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn prepare(&self, more: &[&str]) -> Finished {
        finish(harness().args(["prepare", "cfever", "--data"]).arg(self.path("d")).args(more))
    }

    fn config(&self, name: &str, model: &str, benchmark: &str) {
        let text = format!(
            "[model]\n{model}\n\n[generation]\nmax_new_tokens = 256\n\n[[benchmark]]\nname = \"cfever\"\n{benchmark}\n"
        );
        self.write(&format!("{name}.toml"), &text);
    }

    fn run(&self, name: &str) -> Finished {
        let mut command = harness();
        command.arg("run").arg(self.path(&format!("{name}.toml"))).arg("--results").arg(self.path("results"));
        finish(&mut command)
    }

    fn export(&self, more: &[&str]) -> Finished {
        let mut command = harness();
        finish(
            command
                .args(["export", "c", "--format", "cfever", "--results"])
                .arg(self.path("results"))
                .args(more),
        )
    }

    fn score(&self, predictions: &str) -> Finished {
        self.score_by(predictions, "d/data/dev.jsonl", &[])
    }

    fn score_by(&self, predictions: &str, gold: &str, more: &[&str]) -> Finished {
        let mut command = harness();
        command.args(["score", "--benchmark", "cfever", "--predictions"]).arg(self.path(predictions));
        finish(command.arg("--data").arg(self.path(gold)).args(more))
    }
}

/// A server that answers with one of these, chosen by what it is asked.
fn server() -> Loopback {
    let answers = [
        r#"{"label": "supports", "evidence": [1]}"#,
        "```json\n{\"label\": \"refutes\", \"evidence\": [1, 2]}\n```",
        r#"{"label": "NOT ENOUGH INFO", "evidence": []}"#,
        "It cannot be said.",
    ];
    Loopback::start(Options { answers: answers.map(str::to_owned).into(), ..Options::default() }).unwrap()
}

fn openai(server: &Loopback) -> String {
    format!("kind = \"openai\"\nmodel = \"m\"\nbase_url = \"{}/v1\"\nrevision = \"1\"", server.url())
}

/// Whether a group of a score is none.
fn no_fields(group: &Value) -> bool {
    group.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The cell of a table: the row that begins with these words, and the column.
fn cell(markdown: &str, begins: &[&str], column: usize) -> String {
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = markdown.lines().filter(|line| line.starts_with('|')).map(cells);
    let found = rows
        .into_iter()
        .find(|row| row[1..].starts_with(&begins.iter().map(|b| (*b).to_owned()).collect::<Vec<_>>()));
    found.unwrap_or_else(|| panic!("no row {begins:?} in\n{markdown}"))[column].clone()
}

#[test]
fn from_the_dump_to_the_submission() {
    let place = Place::new();
    place
        .prepare(&["--shots", "3", "--jobs", "2"])
        .exits_with(0)
        .prints("10 pages, 40 sentences")
        .prints("24 claims, own pages, those of a whole set for 16 of 16 claims with evidence (100.00 %)");
    place.prepare(&["--shots", "3"]).exits_with(0).prints("made already");

    let server = server();
    let benchmark = "data = \"d/evidence/dev.jsonl\"\nconditions = [\"claim_only\", \"bm25\", \"oracle\"]\nshots = 3\n\
                     max_candidates = 6\nallow_other_data = true";
    place.config("c", &openai(&server), benchmark);
    let done = place.run("c").exits_with(0);
    assert_eq!(server.counters().requests, 72);
    for text in [
        "deviation: dev split",
        "deviation: 3 worked examples of the train split",
        "GPT-4 (3-shot)",
        "published figures, test split",
        "24 rows instead of 3,000",
        "cfever:no_json",
    ] {
        assert!(done.stdout.contains(text), "`{text}` is not in\n{}", done.stdout);
    }
    assert_eq!(cell(&done.stdout, &["claim_only", "official"], 4), "NA");

    // The figures are those of the answers, counted anew from the plan and the journal.
    let plan = journaled(&place.path("results/c/plan.jsonl"));
    let responses = journaled(&place.path("results/c/responses.jsonl"));
    let (mut right, mut strict, mut of) = (0, 0, 0);
    let gold = place.rows("d/data/dev.jsonl");
    for planned in plan.iter().filter(|planned| planned["conditions"] == json!(["bm25"])) {
        let response = responses.iter().find(|r| r["request"] == planned["request"]).unwrap();
        let row = gold
            .iter()
            .find(|row| row["id"] == planned["sample"].as_str().unwrap().parse::<u64>().unwrap())
            .unwrap();
        let text = response["text"].as_str().unwrap();
        let label = row["label"].as_str().unwrap();
        let shown: Vec<Value> = serde_json::from_str(planned["judging"]["shown"].as_str().unwrap()).unwrap();
        let cited = &shown[..if text.contains("[1, 2]") { 2 } else { usize::from(text.contains("[1]")) }];
        let is_right = text.contains(&format!("\"{label}\""));
        let whole = |set: &Value| {
            set.as_array().unwrap().iter().all(|item| cited.contains(&json!([item[2], item[3]])))
        };
        right += usize::from(is_right);
        let found = label == "NOT ENOUGH INFO" || row["evidence"].as_array().unwrap().iter().any(whole);
        strict += usize::from(is_right && found);
        of += 1;
    }
    assert_eq!(of, 24);
    assert!(right > 0 && strict > 0, "{right} {strict}");
    let percent = |count: usize| format!("{:.2}", count as f64 * 100.0 / 24.0);
    let bm25 = ["bm25", "official"];
    assert_eq!(cell(&done.stdout, &bm25, 3), percent(right));
    assert_eq!(cell(&done.stdout, &bm25, 4), percent(strict));

    // Exported and scored as a file the figures are the same.
    place.export(&[]).exits_with(2).says("--condition: claim_only, bm25, oracle");
    place
        .export(&["--condition", "bm25", "--out", place.path("p.jsonl").to_str().unwrap()])
        .exits_with(0)
        .prints("24 lines");
    let rows = place.rows("p.jsonl");
    let ids = |rows: &[Value]| rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&rows), ids(&gold), "in the order of the data");
    let scored = place.score("p.jsonl").exits_with(0);
    for column in 3..8 {
        let of_file = cell(&scored.stdout, &["predictions", "official"], column);
        assert_eq!(of_file, cell(&done.stdout, &bm25, column), "{}", scored.stdout);
    }
    let recipe = |text: &str, condition| cell(text, &[condition, "recipe"], 4);
    assert_eq!(recipe(&scored.stdout, "predictions"), recipe(&done.stdout, "bm25"));
    assert!(scored.stdout.contains("dev split"), "{}", scored.stdout);

    // In another order, and with gold in it, a file has the same scores.
    let mut other = rows.clone();
    other.reverse();
    other[0]["label"] = json!("supports");
    place.write("other.jsonl", &lines(&other));
    let again = place.score("other.jsonl").exits_with(0).says("1 predictions carry `label` or `evidence`");
    assert_eq!(cell(&again.stdout, &["predictions", "official"], 4), percent(strict));
    assert!(again.stdout.contains("predictions were put in the order of the gold"), "{}", again.stdout);

    // In full precision, with every cap of the reference.
    let mut command = harness();
    command.args(["score", "--benchmark", "cfever", "--json", "--predictions"]).arg(place.path("p.jsonl"));
    let scored = finish(command.arg("--data").arg(place.path("d/data/dev.jsonl"))).exits_with(0);
    let scores: Value = serde_json::from_str(&scored.stdout).unwrap();
    let metrics = scores["metrics"].as_array().unwrap();
    let fever = metrics.iter().find(|m| m["metric"] == "fever_score" && m.get("group").is_none_or(no_fields));
    let found = fever.unwrap()["value"].as_f64().unwrap();
    assert!((found - strict as f64 * 100.0 / 24.0).abs() < 1e-12, "{found}");
    for cap in ["1", "3", "none"] {
        let of_cap = metrics.iter().filter(|m| m["group"] == json!({"cap": cap})).count();
        assert_eq!(of_cap, 5, "{cap}");
    }
    // Without any sentence the figures are those that the published scorer gives, with what they mean.
    let mut bare = rows.clone();
    for row in &mut bare {
        row["predicted_evidence"] = json!([]);
    }
    place.write("bare.jsonl", &lines(&bare));
    let scored = place.score("bare.jsonl").exits_with(0).says("no prediction names a sentence");
    let official = |column| cell(&scored.stdout, &["predictions", "official"], column);
    let undecidable = |row: &&Value| row["predicted_label"] == "NOT ENOUGH INFO";
    let right = gold.iter().zip(&bare).filter(|(gold, row)| gold["label"] == row["predicted_label"]);
    let strict = right.map(|(_, row)| row).filter(undecidable).count();
    assert_eq!([4, 5, 6].map(official), [percent(strict), "100.00".to_owned(), "0.00".to_owned()]);

    // What is wrong is told with ids; nothing is scored.
    let mut broken = rows.clone();
    broken[0]["predicted_evidence"] = Value::Null;
    broken[1]["predicted_evidence"] = json!([["甲", "0"]]);
    place.write("broken.jsonl", &lines(&broken));
    let said = place
        .score("broken.jsonl")
        .exits_with(2)
        .says("broken.jsonl:1: prediction of id 100: `predicted_evidence` must be a list, found null")
        .says("broken.jsonl:2: prediction of id 101: item 1");
    assert_eq!(said.stdout, "");
    place.write("list.jsonl", &Value::from(rows.clone()).to_string());
    place.score("list.jsonl").exits_with(2).says("list.jsonl:1: expected one object a line, found a list");
    let mut twice = rows.clone();
    twice.push(rows[3].clone());
    place.write("twice.jsonl", &lines(&twice));
    place.score("twice.jsonl").exits_with(2).says("twice.jsonl:25: there are two predictions of id 103");
    place.write("short.jsonl", &lines(&rows[1..]));
    place.score("short.jsonl").exits_with(2).says("there is no prediction of id 100");
    let mut strange = rows;
    strange[0]["id"] = json!(7);
    place.write("strange.jsonl", &lines(&strange));
    place.score("strange.jsonl").exits_with(2).says("id 7 is not among the gold rows");
    let mut command = harness();
    let command = command.args(["score", "--benchmark", "ccfqa", "--predictions", "x"]);
    finish(command).exits_with(2).says("`ccfqa` has no form of files of predictions");
}

/// A right label for each claim, and no sentence.
fn labels(gold: &[Value]) -> Vec<Value> {
    let label =
        |row: &Value| json!({"id": row["id"], "predicted_label": row["label"], "predicted_evidence": []});
    gold.iter().map(label).collect()
}

#[test]
fn faults_of_predictions_and_of_gold_are_told_where_they_stand() {
    let place = Place::new();
    let gold = place.rows("d/data/dev.jsonl");
    let rows = labels(&gold);
    let reversed: Vec<Value> = rows.iter().rev().cloned().collect();
    place.write("p.jsonl", &lines(&rows));
    place.write("r.jsonl", &lines(&reversed));
    // A fault of the gold is one of its file, in whichever order the predictions are.
    let mut odd = gold.clone();
    odd[2]["label"] = json!("yes");
    place.write("odd.jsonl", &lines(&odd));
    for predictions in ["p.jsonl", "r.jsonl"] {
        let told = "odd.jsonl:3: gold row 102: `label` is `yes`";
        place.score_by(predictions, "odd.jsonl", &[]).exits_with(2).says(told);
    }
    // A fault of a prediction has its line in another order too.
    let mut broken = reversed.clone();
    broken[4]["predicted_evidence"] = Value::Null;
    place.write("broken.jsonl", &lines(&broken));
    place
        .score("broken.jsonl")
        .exits_with(2)
        .says("broken.jsonl:5: prediction of id 119: `predicted_evidence`");
    let mut bytes = lines(&reversed).into_bytes();
    bytes.extend(b"\xff\n");
    std::fs::write(place.path("bytes.jsonl"), bytes).unwrap();
    place.score("bytes.jsonl").exits_with(2).says("bytes.jsonl:25: not valid UTF-8");
    // Two rows with one id, and no row at all.
    let twice = |rows: &[Value]| [rows, &rows[..1]].concat();
    place.write("twice-gold.jsonl", &lines(&twice(&gold)));
    place.write("twice.jsonl", &lines(&twice(&rows)));
    let told = "twice-gold.jsonl: there are 2 gold rows of id 100";
    for predictions in ["twice.jsonl", "r.jsonl"] {
        place.score_by(predictions, "twice-gold.jsonl", &[]).exits_with(2).says(told);
    }
    place.write("blank.jsonl", "\n");
    for predictions in ["blank.jsonl", "r.jsonl"] {
        place.score_by(predictions, "blank.jsonl", &[]).exits_with(2).says("blank.jsonl: holds no rows");
    }
    // No row falls out of the label accuracy.
    let mut pages = rows.clone();
    pages[3] = json!({"id": 103, "predicted_pages": ["甲湖_(測試)"]});
    place.write("pages.jsonl", &lines(&pages));
    place
        .score("pages.jsonl")
        .exits_with(2)
        .says("pages.jsonl:4: prediction of id 103: there is no `predicted_label`");
}

/// What comes from a pipe can be read once, which is enough in the order of the gold.
#[cfg(unix)]
#[test]
fn predictions_from_a_pipe_are_scored_in_the_order_of_the_gold() {
    use std::io::Write as _;
    use std::process::Stdio;

    let place = Place::new();
    let mut rows = labels(&place.rows("d/data/dev.jsonl"));
    let piped = |text: String| -> Finished {
        let mut command = harness();
        command.args(["score", "--benchmark", "cfever", "--predictions", "/dev/stdin", "--data"]);
        command.arg(place.path("d/data/dev.jsonl")).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    };
    piped(lines(&rows)).exits_with(0);
    piped(lines(&rows[..20])).exits_with(2).says("no prediction of id 120: the predictions end before it");
    piped(lines(&rows) + "{\"id\": 1}\n").exits_with(2).says("/dev/stdin:25: the gold rows end before");
    rows.reverse();
    piped(lines(&rows)).exits_with(2).says("/dev/stdin: can be read only once").says("save it to a file");
}

/// Some editors begin a file with it.
#[test]
fn a_byte_order_mark_before_predictions_is_passed_over() {
    let place = Place::new();
    let mut rows = labels(&place.rows("d/data/dev.jsonl"));
    for name in ["p.jsonl", "other.jsonl"] {
        place.write(name, &format!("\u{feff}{}", lines(&rows)));
        place.score(name).exits_with(0);
        rows.reverse();
    }
}

/// More than is held at a time, with long rows and in another order.
#[test]
fn the_order_of_predictions_changes_no_figure() {
    let place = Place::new();
    let gold = claims(0, 1200);
    place.write("gold.jsonl", &lines(&gold));
    let mut rows = labels(&gold);
    for (n, row) in rows.iter_mut().enumerate() {
        row["claim"] = json!("甲".repeat(if n.is_multiple_of(3) { 18_000 } else { 10 }));
        let evidence = gold[(n * 5) % gold.len()]["evidence"][0][0].clone();
        row["predicted_evidence"] =
            if evidence.is_array() { json!([[evidence[2], evidence[3]]]) } else { json!([]) };
    }
    place.write("p.jsonl", &lines(&rows));
    let other: Vec<Value> = (0..rows.len()).map(|n| rows[(n * 7) % rows.len()].clone()).collect();
    place.write("other.jsonl", &lines(&other));
    let scores = |name| place.score_by(name, "gold.jsonl", &["--json"]).exits_with(0).stdout;
    assert_eq!(scores("other.jsonl"), scores("p.jsonl"));
}

#[test]
fn the_test_split_is_asked_and_exported_without_scores() {
    let place = Place::new();
    let server = server();
    // A split of another size is not the published one.
    place.config("o", &openai(&server), "data = \"d/data/test.jsonl\"");
    place.run("o").exits_with(2).says("6 rows instead of 3,000");
    place.config("c", &openai(&server), "data = \"d/data/test.jsonl\"\nallow_other_data = true");
    let done = place.run("c").exits_with(0).says("harness export");
    assert!(done.stdout.contains("test split"), "{}", done.stdout);
    place.export(&[]).exits_with(0).prints("cfever-claim_only.jsonl: 6 lines");
    let rows = place.rows("results/c/cfever-claim_only.jsonl");
    assert!(
        rows.iter().all(|row| row["predicted_evidence"] == json!([]) && row["predicted_label"].is_string())
    );
    finish(harness().args(["export", "c", "--format", "x", "--results"]).arg(place.path("results")))
        .exits_with(2)
        .says("no benchmark of this run has the form `x`: there are cfever");
    // A part of the split is no submission.
    place.config("c", &openai(&server), "data = \"d/data/test.jsonl\"\nlimit = 4");
    finish(harness().arg("run").arg(place.path("c.toml")).arg("--results").arg(place.path("part")))
        .exits_with(0);
    let export = |more: &[&str]| {
        let mut command = harness();
        command.args(["export", "c", "--format", "cfever", "--results"]).arg(place.path("part")).args(more);
        finish(&mut command)
    };
    export(&[]).exits_with(1).says("4 of 6 claims").says("run the config without `limit`");
    assert!(!place.path("part/c/cfever-claim_only.jsonl").exists());
    export(&["--allow-incomplete"]).exits_with(0).prints("4 lines").says("incomplete: 4 of 6 claims");
    // Nor is one without the claims that cannot be read.
    let text = std::fs::read_to_string(place.path("d/data/test.jsonl")).unwrap();
    place.write("odd/test.jsonl", &format!("{text}{{\"id\": 7}}\n"));
    place.config("c", &openai(&server), "data = \"odd/test.jsonl\"\nallow_other_data = true");
    finish(harness().arg("run").arg(place.path("c.toml")).arg("--results").arg(place.path("odd-results")))
        .exits_with(1);
    let mut command = harness();
    command.args(["export", "c", "--format", "cfever", "--results"]).arg(place.path("odd-results"));
    finish(&mut command).exits_with(1).says("6 of 7 claims").says("repair the rows");
    // Evidence needs rows that were prepared.
    place.config(
        "e",
        &openai(&server),
        "data = \"d/data/dev.jsonl\"\nconditions = [\"bm25\"]\nallow_other_data = true",
    );
    place.run("e").exits_with(2).says("has no sentences for `bm25`: run `harness prepare cfever`");
}

/// Of the test split less is published than of the dev split, with which it is not compared.
#[test]
fn data_of_the_test_split_are_compared_with_what_is_published_of_it() {
    let place = Place::new();
    let rows = (0..3000).map(|id| json!({"id": id, "claim": format!("甲地的第{}處", id % 2900)}));
    place.write("d/data/test.jsonl", &lines(&rows.collect::<Vec<_>>()));
    let data = |file: &str| {
        let mut command = harness();
        finish(command.arg("data").arg(place.path(file)).args(["--benchmark", "cfever"]))
    };
    data("d/data/test.jsonl").exits_with(0).prints("published   no difference");
    data("d/data/dev.jsonl").prints("24 rows instead of 3,000");
}

#[test]
fn answers_that_are_missing_are_not_exported_unasked() {
    let place = Place::new();
    let server =
        Loopback::start(Options { faults: vec!["400=1".parse().unwrap()], ..Options::default() }).unwrap();
    place.config("c", &openai(&server), "data = \"d/data/test.jsonl\"\nallow_other_data = true");
    place.run("c").exits_with(1);
    place.export(&[]).exits_with(1).says("6 of 6 requests have no answer");
    assert!(!place.path("results/c/cfever-claim_only.jsonl").exists());
    place.export(&["--allow-incomplete"]).exits_with(0).says("6 lines are of requests without an answer");
    let rows = place.rows("results/c/cfever-claim_only.jsonl");
    assert!(rows.iter().all(|row| row["predicted_label"] == "unparsed"));
}

/// Of a folder the split is that of the file in it, and its data are looked at whatever the folder is called.
#[test]
fn a_folder_of_any_name_holds_the_split_that_it_holds() {
    let place = Place::new();
    let server = server();
    let text = std::fs::read_to_string(place.path("d/data/dev.jsonl")).unwrap();
    place.write("test/dev.jsonl", &text);
    place.config("o", &openai(&server), "data = \"test\"");
    place.run("o").exits_with(2).says("24 rows instead of 3,000");
    place.config("c", &openai(&server), "data = \"test\"\nallow_other_data = true");
    let done = place.run("c").exits_with(0);
    for text in
        ["claim verification, in percent, dev split", "deviation: dev split", "24 rows instead of 3,000"]
    {
        assert!(done.stdout.contains(text), "`{text}` is not in\n{}", done.stdout);
    }
    assert!(!done.stdout.contains("by the name of its file"), "{}", done.stdout);
}

/// What is not answered is in no score, and beside it stands what it would be as wrong.
#[test]
fn failures_are_told_beside_the_scores() {
    let place = Place::new();
    place.prepare(&["--sentences", "2"]).exits_with(0);
    let answers = vec![r#"{"label": "supports", "evidence": [1]}"#.to_owned()];
    let faults = vec!["400=0.5".parse().unwrap()];
    let server = Loopback::start(Options { faults, answers, ..Options::default() }).unwrap();
    let benchmark = "data = \"d/evidence\"\nconditions = [\"bm25\"]\nallow_other_data = true";
    place.config("c", &openai(&server), benchmark);
    let done = place.run("c").exits_with(1);
    let n: u64 = cell(&done.stdout, &["bm25", "official"], 8).parse().unwrap();
    assert!((1..24).contains(&n), "{}", done.stdout);
    let accuracy: f64 = cell(&done.stdout, &["bm25", "official"], 3).parse().unwrap();
    let right = (accuracy * n as f64 / 100.0).round();
    let all = format!("bm25: {} of 24 claims have no answer", 24 - n);
    let wrong =
        format!("with these as wrong the label accuracy is {:.2}, the FEVER Score", right * 100.0 / 24.0);
    for text in [&*all, &wrong, "of all claims with an answer (n)"] {
        assert!(done.stdout.contains(text), "`{text}` is not in\n{}", done.stdout);
    }
    // The rows hold fewer sentences than may be shown.
    done.says(
        "no claim was shown more than 2 sentences: the rows hold no more, though `max_candidates` is 20",
    );
}

/// A text model that hears nothing, on the claim alone.
#[cfg(feature = "local")]
#[test]
fn a_local_text_model_judges_claims() {
    let place = Place::new();
    // Its context is of 512 tokens, and the wording of the harness takes more of its letters than that.
    place.write("short.toml", "[texts]\nclaim_only = \"{claim} supports?\"\n");
    let weights = root().join("tests/fixtures/text/qwen2");
    let model = format!(
        "kind = \"local\"\narchitecture = \"qwen2\"\ndevice = \"cpu\"\nbatch_size = 2\nweights = \"{}\"",
        weights.display()
    );
    let benchmark = "data = \"d/data\"\nlimit = 6\nprompt = \"short.toml\"\nallow_other_data = true";
    place.config("c", &model, benchmark);
    let text = std::fs::read_to_string(place.path("c.toml")).unwrap();
    place.write("c.toml", &text.replace("max_new_tokens = 256", "max_new_tokens = 8"));
    let done = place.run("c").exits_with(0);
    assert!(done.stdout.contains("a subset: 6 of 24 claims"), "{}", done.stdout);
    assert_eq!(cell(&done.stdout, &["claim_only", "official"], 8), "6");
    assert_eq!(cell(&done.stdout, &["claim_only", "official"], 4), "NA");
    let responses = journaled(&place.path("results/c/responses.jsonl"));
    assert_eq!(responses.iter().filter(|response| response["text"].is_string()).count(), 6);
}

#[cfg(feature = "local")]
#[test]
fn a_local_model_judges_claims() {
    let place = Place::new();
    place.prepare(&[]).exits_with(0);
    let weights = root().join("demo/model");
    let model = format!(
        "kind = \"local\"\narchitecture = \"qwen2_audio\"\ndevice = \"cpu\"\nbatch_size = 2\nweights = \"{}\"",
        weights.display()
    );
    let benchmark = "data = \"d/evidence/dev.jsonl\"\nconditions = [\"claim_only\", \"bm25\"]\nlimit = 2\nmax_candidates = 2\n\
                     allow_other_data = true";
    place.config("c", &model, benchmark);
    let text = std::fs::read_to_string(place.path("c.toml")).unwrap();
    place.write("c.toml", &text.replace("max_new_tokens = 256", "max_new_tokens = 4"));
    let done = place.run("c").exits_with(0);
    assert!(done.stdout.contains("a subset: 2 of 24 claims"), "{}", done.stdout);
    assert_eq!(cell(&done.stdout, &["bm25", "official"], 8), "2");
}
