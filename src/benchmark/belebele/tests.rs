//! Tests of the benchmark as a whole: prompts byte for byte, what is asked of which rows, and the scores.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::score::*;
use super::*;
use crate::benchmark::build::tests::section;
use crate::benchmark::published;
use crate::prompt::sha256_hex;
use crate::report::table::Cell;
use crate::types::testing::response;
use crate::types::{Digest, Message, Outcome, Prompt, Response, Role};

fn built(change: impl Fn(&mut BenchmarkConfig), prompts: PromptSet) -> Belebele {
    let mut config = section(NAME);
    config.profile = Profile::Recipe;
    change(&mut config);
    Belebele::new(&config, prompts, Window::Whole).unwrap()
}

fn wording() -> PromptSet {
    crate::benchmark::harness_wording(NAME).unwrap()
}

fn conditions(config: &mut BenchmarkConfig, names: &[&str]) {
    config.conditions = names.iter().map(|&name| name.to_owned()).collect();
}

/// The row of the protocol's examples, with recordings of two of three sentences by default.
fn bridge() -> Value {
    json!({"dialect": "eng_Latn", "link": "l", "question_number": 1,
    "flores_passage": "A note on the gate says the bridge is closed until May.",
    "question": "What does the note say about the bridge?", "mc_answer1": "It is closed", "mc_answer2": "It is new",
    "mc_answer3": "It is red", "mc_answer4": "It is long", "correct_answer_num": "1",
    "sentences": [
        {"text": "A note on the gate", "segments": [{"audio": "s0-a.wav"}, {"audio": "s0-b.wav"}]},
        {"text": "says", "segments": []},
        {"text": "the bridge is closed until May.", "segments": [{"audio": "s2.wav"}]},
    ]})
}

fn drafts(benchmark: &Belebele, row: Value) -> Vec<Draft> {
    benchmark.requests(&benchmark.sample(1, row).unwrap())
}

fn parts(draft: &Draft) -> &[Part] {
    let Prompt::Chat(messages) = &draft.prompt else { panic!("a chat") };
    &messages.last().unwrap().parts
}

fn written(draft: &Draft) -> &str {
    let [Part::Text(text)] = parts(draft) else { panic!("one text: {draft:?}") };
    text
}

/// The prompts of the protocol's examples with five shots.
fn five_shots(seeds: &[u64]) -> PromptSet {
    let mut prompts = wording();
    let shots: Vec<Value> = (1..)
        .zip("BDACB".chars())
        .map(|(k, gold)| {
            json!({"id": format!("d/{k}"), "gold": gold, "passage": format!("Passage {k}."),
                "query": format!("Query {k}?"), "options": ["a", "b", "c", "d"]})
        })
        .collect();
    for seed in seeds {
        let text = serde_json::to_string(&shots).unwrap();
        prompts.put(&shots::name_of(*seed), text, "drawn".to_owned(), String::new());
    }
    prompts
}

/// SHA-256 of the protocol's two rendered examples, which are our own text.
const ZERO_SHOT: &str = "223f06f34fd0a3e169e61434020c828da9fd8e7743b1aba341d53c1873a0ccdc";
const FIVE_SHOT: &str = "dce1049000ae48b4727b65d1efd98ddaa88c3bce1a693904f708467682ee8105";

#[test]
fn rendered_prompts_are_the_agreed_ones_byte_for_byte() {
    let benchmark = built(|c| conditions(c, &["text", "speech", "no_passage"]), wording());
    let found = drafts(&benchmark, bridge());
    assert_eq!(found.len(), 3, "one run: nothing depends on the seed");
    let zero = written(&found[0]).to_owned();
    assert_eq!(sha256_hex(&zero), ZERO_SHOT);
    let [Part::Text(before), Part::Audio(clip), Part::Text(after)] = parts(&found[1]) else {
        panic!("{found:?}")
    };
    let passage = "A note on the gate says the bridge is closed until May.";
    assert_eq!(format!("{before}{passage}{after}"), zero);
    assert!(before.ends_with("Passage:\n") && after.starts_with("\n###\nQuery:\n"));
    assert_eq!(clip.name, AudioRef::joined(&["s0-a.wav", "s2.wav"], 0, Window::Whole).name);
    assert_eq!(written(&found[2]), zero.replace(passage, ""));

    let shots = |config: &mut BenchmarkConfig| {
        conditions(config, &["text", "speech"]);
        let settings = config.belebele.as_mut().unwrap();
        (settings.shots, settings.deterministic, settings.seeds) = (5, false, vec![7]);
    };
    let benchmark = built(shots, five_shots(&[7]));
    let found = drafts(&benchmark, bridge());
    let five = written(&found[0]).to_owned();
    assert_eq!(sha256_hex(&five), FIVE_SHOT);
    let [Part::Text(before), Part::Audio(_), Part::Text(after)] = parts(&found[1]) else {
        panic!("{found:?}")
    };
    assert_eq!(format!("{before}{passage}{after}"), five, "examples are text, also before speech");

    // The same words as turns.
    let benchmark = built(
        |config| {
            shots(config);
            config.belebele.as_mut().unwrap().shots_as = ShotsAs::Turns;
        },
        five_shots(&[7]),
    );
    let found = drafts(&benchmark, bridge());
    let Prompt::Chat(messages) = &found[0].prompt else { panic!("a chat") };
    assert_eq!(messages.len(), 11);
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert!(
        roles
            .chunks(2)
            .all(|pair| pair[0] == Role::User && pair.get(1).is_none_or(|r| *r == Role::Assistant))
    );
    let joined: String = messages
        .iter()
        .map(|message: &Message| match (message.role, message.parts.as_slice()) {
            (Role::Assistant, [Part::Text(text)]) => format!("{text}\n\n"),
            (_, [Part::Text(text)]) => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(joined, five);
}

/// The agreed file itself, where it is at hand.
#[test]
fn hashes_are_those_of_the_agreed_file() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols/2m-belebele/prompts.toml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let agreed: toml::Table = toml::from_str(&text).unwrap();
    let found = drafts(&built(|c| conditions(c, &["text", "speech"]), wording()), bridge());
    assert_eq!(agreed["example"][0]["expected"].as_str(), Some(written(&found[0])));
    let [Part::Text(before), _, Part::Text(after)] = parts(&found[1]) else { panic!("{found:?}") };
    assert_eq!(agreed["example_speech_parts"]["text_before"].as_str(), Some(before.as_str()));
    assert_eq!(agreed["example_speech_parts"]["text_after"].as_str(), Some(after.as_str()));
    assert_eq!(agreed["example_five_shot"]["sha256"].as_str(), Some(FIVE_SHOT));
    assert_eq!(agreed["instruction"]["text"].as_str(), Some(PAPERS_INSTRUCTION));
}

#[test]
fn the_other_layout_has_the_instruction_before_it() {
    let pq = |shots: usize| {
        move |config: &mut BenchmarkConfig| {
            conditions(config, &["text"]);
            let settings = config.belebele.as_mut().unwrap();
            (settings.template, settings.shots) = (Layout::Pq, shots);
        }
    };
    let found = drafts(&built(pq(0), wording()), bridge());
    let question = "P: A note on the gate says the bridge is closed until May.\nQ: What does the note say about the \
                    bridge?\nA: It is closed\nB: It is new\nC: It is red\nD: It is long\nAnswer:";
    assert_eq!(written(&found[0]), format!("{PAPERS_INSTRUCTION}\n{question}"));
    let found = drafts(&built(pq(1), five_shots(&[0])), bridge());
    let example = "P: Passage 1.\nQ: Query 1?\nA: a\nB: b\nC: c\nD: d\nAnswer: B\n\n";
    assert_eq!(written(&found[0]), format!("{PAPERS_INSTRUCTION}\n{example}{question}"));
}

#[test]
fn each_seed_is_a_run_where_something_depends_on_it() {
    let benchmark = built(
        |config| {
            conditions(config, &["text"]);
            config.belebele.as_mut().unwrap().deterministic = false;
        },
        wording(),
    );
    let found = drafts(&benchmark, bridge());
    let seeds: Vec<&str> = found.iter().map(|draft| draft.tags[SEED].as_str()).collect();
    assert_eq!(seeds, ["0", "1", "2"]);
    let one = drafts(&built(|c| conditions(c, &["text"]), wording()), bridge());
    assert!(!one[0].tags.contains_key(SEED));
}

#[test]
fn sentences_without_a_recording_are_left_out_dropped_or_written() {
    let with = |missing: MissingSentence, row: Value| {
        let benchmark = built(
            |config| {
                conditions(config, &["speech"]);
                config.belebele.as_mut().unwrap().missing = missing;
            },
            wording(),
        );
        drafts(&benchmark, row)
    };
    let skipped = with(MissingSentence::Skip, bridge());
    assert_eq!(skipped[0].tags["heard"], "some");
    assert_eq!(parts(&skipped[0]).len(), 3);
    assert_eq!(with(MissingSentence::DropRow, bridge()), []);
    let told = with(MissingSentence::Text, bridge());
    let [Part::Text(_), Part::Audio(first), Part::Text(said), Part::Audio(last), Part::Text(_)] =
        parts(&told[0])
    else {
        panic!("{told:?}")
    };
    let alone = |name: &str| AudioRef::joined(&[name], 0, Window::Whole).name;
    assert_eq!((&first.name, said.as_str(), &last.name), (&alone("s0-a.wav"), " says ", &alone("s2.wav")));
    // Nothing is heard: the row is no question of speech.
    let mut row = bridge();
    row["sentences"] = json!([{"text": "x", "segments": []}]);
    for missing in [MissingSentence::Skip, MissingSentence::DropRow, MissingSentence::Text] {
        assert_eq!(with(missing, row.clone()), []);
    }
    let mut whole = bridge();
    whole["sentences"][1]["segments"] = json!([{"audio": "s1.wav"}]);
    let heard = with(MissingSentence::DropRow, whole);
    assert_eq!(heard[0].tags["heard"], "all");
    // What the recordings say is told to those who compare transcripts.
    assert_eq!(heard[0].judging["said:s1.wav"], "says");
}

#[test]
fn one_speaker_is_heard_a_sentence_and_a_drawn_one_depends_on_the_seed() {
    let mut row = bridge();
    let speakers: Vec<Value> = (0..8).map(|n| json!({"audio": format!("speaker-{n}.wav")})).collect();
    row["sentences"] = json!([{"text": "x", "segments": speakers}]);
    let benchmark = built(
        |config| {
            conditions(config, &["speech"]);
            let settings = config.belebele.as_mut().unwrap();
            (settings.speaker, settings.deterministic) = (Speaker::Seeded, false);
            settings.seeds = (0..20).collect();
        },
        wording(),
    );
    let heard = |drafts: &[Draft]| -> Vec<String> {
        drafts
            .iter()
            .flat_map(|draft| draft.prompt.audio().into_iter().map(|clip| clip.name.clone()))
            .collect()
    };
    let first = heard(&drafts(&benchmark, row.clone()));
    assert_eq!(first.len(), 20);
    assert!(first.iter().all(|name| name.contains("speaker-")));
    assert!(first.iter().collect::<std::collections::HashSet<_>>().len() > 3);
    assert_eq!(heard(&drafts(&benchmark, row)), first);
}

#[test]
fn question_and_options_are_spoken_where_all_are_recorded() {
    let benchmark = built(|c| conditions(c, &["full_speech"]), wording());
    let mut row = bridge();
    row["question_audio"] = json!(null);
    assert_eq!(drafts(&benchmark, row.clone()), []);
    row["question_audio"] = json!([{"audio": "q.wav"}]);
    for number in 1..=4 {
        row[format!("answer_{number}_audio")] = json!([{"audio": format!("a{number}.wav")}]);
    }
    let found = drafts(&benchmark, row);
    let names: Vec<String> =
        found[0].prompt.audio().into_iter().skip(1).map(|clip| clip.name.clone()).collect();
    assert_eq!(names, ["q.wav", "a1.wav", "a2.wav", "a3.wav", "a4.wav"]);
    let texts: Vec<&str> = parts(&found[0])
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        texts[1..],
        ["\n###\nQuery:\n", "\n###\nChoices:\n(A) ", "\n(B) ", "\n(C) ", "\n(D) ", "\n###\nAnswer:\n"]
    );
}

#[test]
fn languages_that_are_not_asked_for_are_passed_over() {
    let benchmark = built(|config| config.languages = vec!["deu_Latn".to_owned()], wording());
    assert!(!benchmark.wants(&benchmark.sample(1, bridge()).unwrap()));
    let mut row = bridge();
    row["dialect"] = json!("deu_Latn^");
    assert!(benchmark.wants(&benchmark.sample(1, row).unwrap()));
    let mut wrong = bridge();
    wrong["correct_answer_num"] = json!(0);
    assert!(benchmark.sample(1, wrong).unwrap_err().contains("must be 1, 2, 3 or 4, found 0"));
}

/// Scores of rows of a language, `answer` gives what is said to a question of a condition.
fn scored(
    benchmark: &Belebele,
    rows: &[Value],
    answer: impl Fn(&str, usize, &Draft) -> Option<Response>,
) -> BenchmarkScores {
    let mut scorer = benchmark.scorer(None);
    for (number, row) in rows.iter().enumerate() {
        let sample = benchmark.sample(1, row.clone()).unwrap();
        for draft in benchmark.requests(&sample) {
            let answer = answer(&draft.conditions[0].clone(), number, &draft);
            let (planned, _) = draft.planned(Digest([0; 32]), NAME, &sample.id);
            scorer.add(&planned, answer.as_ref(), &[]);
        }
    }
    scorer.taken(rows.len() as u64);
    scorer.finish()
}

fn rows(language: &str, n: usize, segments: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n)
        .map(|number| {
            let mut row = bridge();
            row["dialect"] = json!(language);
            row["link"] = json!(format!("l{}", number / 2));
            row["question_number"] = json!(number % 2 + 1);
            row["sentences"] = segments(number);
            row
        })
        .collect()
}

fn one_sentence(_: usize) -> Value {
    json!([{"text": "x", "segments": [{"audio": "a.wav"}]}])
}

fn figure<'a>(
    scores: &'a BenchmarkScores,
    metric: &str,
    profile: Profile,
    condition: &str,
    group: &[(&str, &str)],
) -> &'a crate::benchmark::MetricValue {
    let group: BTreeMap<String, String> =
        group.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let found = scores.metrics.iter().find(|value| {
        value.metric == metric
            && value.profile == Some(profile)
            && value.condition == condition
            && value.group == group
    });
    found.unwrap_or_else(|| panic!("{metric} {condition} {group:?}"))
}

#[test]
fn accuracy_is_the_mean_over_seeds_then_languages_and_readings_stand_apart() {
    let benchmark = built(
        |config| {
            conditions(config, &["text"]);
            config.belebele.as_mut().unwrap().deterministic = false;
        },
        wording(),
    );
    let mut all = rows("eng_Latn", 10, one_sentence);
    all.extend(rows("deu_Latn", 4, one_sentence));
    let scores = scored(&benchmark, &all, |_, number, draft| {
        let seed: usize = draft.tags[SEED].parse().unwrap();
        // English: 6, 7 and 8 of 10 right. German: right in form only for the recipe.
        let text = match (draft.tags["language"].as_str(), number) {
            ("eng_Latn", n) => if n < 6 + seed { "A" } else { "B" }.to_owned(),
            (_, 10 | 11) => "The answer is (A).".to_owned(),
            (_, 12) => "It is closed, I would say: the note says so".to_owned(),
            _ => "I'm sorry, I can't hear the recording.".to_owned(),
        };
        Some(response(Outcome::Ok, &text))
    });
    let of = |metric: &str, profile, group: &[(&str, &str)]| {
        figure(&scores, metric, profile, "text", group).clone()
    };
    let english = of(ACCURACY, Profile::Recipe, &[("language", "eng_Latn")]);
    assert!((english.value.unwrap() - 0.7).abs() < 1e-12);
    assert_eq!((english.n, english.counts["items"], english.counts["runs"]), (30, 10, 3));
    let german = of(ACCURACY, Profile::Recipe, &[("language", "deu_Latn")]);
    assert_eq!(german.value, Some(0.5));
    assert_eq!((german.counts["unparsed"], german.counts["refusals"]), (6, 3));
    // Each reading counts what it finds no letter in.
    let without =
        |value: &crate::benchmark::MetricValue| (value.counts["unparsed"], value.counts["refusals"]);
    assert_eq!(without(&of(ACCURACY, Profile::Official, &[("language", "deu_Latn")])), (12, 3));
    assert_eq!(without(scores.find(LENIENT, "text", &[("language", "deu_Latn")]).unwrap()), (3, 3));
    for (profile, expected) in [(Profile::Official, 12), (Profile::Recipe, 6)] {
        let scores = BenchmarkScores { profile, ..scores.clone() };
        let tables = benchmark.tables(&scores, &Published::default(), None);
        let cell = |table: &Table| {
            let column = table.columns.iter().position(|column| column == "unparsed").unwrap();
            let of_german = |row: &&Vec<Cell>| [Cell::text("text"), Cell::text("deu_Latn")].contains(&row[0]);
            table.rows.iter().find(of_german).unwrap()[column].clone()
        };
        assert_eq!(cell(&tables[0]), Cell::Count(expected), "all languages");
        assert_eq!(cell(&tables[1]), Cell::Count(expected));
    }
    assert_eq!(of(ACCURACY, Profile::Official, &[("language", "deu_Latn")]).value, Some(0.0));
    assert!((of(AVERAGE, Profile::Recipe, &[]).value.unwrap() - 0.6).abs() < 1e-12);
    assert_eq!(of(GE_50, Profile::Recipe, &[]).value, Some(1.0), "half is enough");
    assert_eq!(of(GE_70, Profile::Recipe, &[]).value, Some(0.5), "21 of 30 are enough");
    let lenient = scores.find(LENIENT, "text", &[("language", "deu_Latn")]).unwrap();
    assert_eq!(lenient.value, Some(0.75));
    let low = of(LOW, Profile::Recipe, &[("language", "eng_Latn")]);
    let high = of(HIGH, Profile::Recipe, &[("language", "eng_Latn")]);
    assert_eq!(low.n, 5, "passages, not questions");
    assert!(low.value.unwrap() <= 0.7 && high.value.unwrap() >= 0.7);
}

#[test]
fn text_is_scored_on_the_rows_of_speech_and_fully_recorded_rows_stand_apart() {
    let benchmark = built(|c| conditions(c, &["text", "speech"]), wording());
    let all = rows("eng_Latn", 10, |number| match number {
        0..4 => json!([{"text": "x", "segments": [{"audio": "a.wav"}]}]),
        4..8 => json!([{"text": "x", "segments": [{"audio": "a.wav"}]}, {"text": "y", "segments": []}]),
        _ => json!([]),
    });
    let scores = scored(&benchmark, &all, |condition, number, _| match (condition, number) {
        ("speech", 3) => Some(response(Outcome::MediaError, "")),
        ("speech", 0..=2) | ("text", 0..5) => Some(response(Outcome::Ok, "A")),
        ("speech", 4) => Some(response(Outcome::ContentFilter, "")),
        _ => Some(response(Outcome::Ok, "B")),
    });
    let of = |condition: &str, rows: &[(&str, &str)]| {
        let group: Vec<(&str, &str)> = [("language", "eng_Latn")].iter().chain(rows).copied().collect();
        let found = figure(&scores, ACCURACY, Profile::Recipe, condition, &group);
        (found.counts["right"], found.n)
    };
    assert_eq!(
        of("speech", &[]),
        (3, 7),
        "a clip that could not be read is in no score, a filter's is wrong"
    );
    assert_eq!(of("speech", &[("rows", "matched")]), (3, 3));
    assert_eq!(of("text", &[]), (5, 10));
    assert_eq!(of("text", &[("rows", "speech")]), (4, 7));
    assert_eq!(of("text", &[("rows", "matched")]), (4, 4));
    let speech = figure(&scores, ACCURACY, Profile::Recipe, "speech", &[("language", "eng_Latn")]);
    assert_eq!((speech.counts["partial_audio"], speech.counts["withheld"]), (4, 1));
    let text = figure(&scores, ACCURACY, Profile::Recipe, "text", &[("language", "eng_Latn")]);
    assert_eq!(text.counts["no_audio"], 2);
    assert_eq!(scores.find(UNHEARD, "speech", &[]).unwrap().value, Some(2.0));
}

#[test]
fn text_is_scored_on_the_rows_of_each_spoken_condition() {
    let benchmark = built(|c| conditions(c, &["text", "full_speech"]), wording());
    let mut all = rows("eng_Latn", 6, one_sentence);
    // Question and options of the first three alone are recorded.
    for row in &mut all[..3] {
        row["question_audio"] = json!([{"audio": "q.wav"}]);
        for number in 1..=4 {
            row[format!("answer_{number}_audio")] = json!([{"audio": format!("a{number}.wav")}]);
        }
    }
    let scores = scored(&benchmark, &all, |condition, number, _| {
        let right = number == 0 || (number == 1 && condition == "text");
        Some(response(Outcome::Ok, if right { "A" } else { "B" }))
    });
    let group = [("language", "eng_Latn"), ("rows", "full_speech")];
    let same = figure(&scores, ACCURACY, Profile::Recipe, "text", &group);
    assert_eq!((same.counts["right"], same.n), (2, 3));
    let tables = benchmark.tables(&scores, &Published::default(), None);
    let of = |name: &str| {
        let column = tables[1].columns.iter().position(|column| column == name).unwrap();
        tables[1].rows[0][column].clone()
    };
    let (Cell::Number(text, _), Cell::Delta(points, _)) =
        (of("text, rows of full_speech"), of("full_speech - text"))
    else {
        panic!("{:?}", tables[1].rows)
    };
    assert!((text - 200.0 / 3.0).abs() < 1e-9 && (points + 100.0 / 3.0).abs() < 1e-9, "{text} {points}");
    assert!(tables.iter().all(|table| table.rows.iter().all(|row| row.len() == table.columns.len())));
    assert!(tables[0].rows.iter().any(|row| row[1] == Cell::text("those of full_speech")));
    assert!(tables[1].notes.join("\n").contains("those of `text`"));
}

#[test]
fn tables_show_chance_published_figures_and_that_one_run_is_enough() {
    let benchmark = built(|c| conditions(c, &["text", "speech"]), wording());
    let scores =
        scored(&benchmark, &rows("eng_Latn", 4, one_sentence), |_, _, _| Some(response(Outcome::Ok, "A")));
    let published = published(NAME).unwrap();
    let tables = benchmark.tables(&scores, &published, Some("Whisper + Llama-3 70B"));
    let [main, languages] = tables.as_slice() else { panic!("two tables") };
    assert!(main.rows.iter().all(|row| row.len() == main.columns.len()));
    assert!(languages.rows.iter().all(|row| row.len() == languages.columns.len()));
    let column = |name: &str| main.columns.iter().position(|column| column == name).unwrap();
    let speech = main.rows.iter().find(|row| row[0] == Cell::text("speech")).unwrap();
    assert_eq!(speech[column("published")], Cell::Number(79.1, 1));
    assert_eq!(speech[column("published English")], Cell::Number(95.7, 1));
    assert_eq!(speech[column("status")], Cell::text("unverified"));
    assert_eq!(speech[column(">= 50 %")], Cell::text("n/a"), "of one language");
    assert_eq!(main.rows.last().unwrap()[column("average")], Cell::Number(25.0, 1));
    let notes = main.notes.join("\n");
    assert!(notes.contains("runs=1 (deterministic)"), "{notes}");
    assert!(notes.contains("abstract of arXiv 2412.08274v1") && notes.contains("-8 points"), "{notes}");
    assert!(notes.contains("-3 to -2 points"), "{notes}");
}

#[test]
fn zero_shot_figures_do_not_stand_beside_answers_with_examples() {
    let benchmark = built(
        |config| {
            conditions(config, &["speech"]);
            let settings = config.belebele.as_mut().unwrap();
            (settings.shots, settings.deterministic, settings.seeds) = (5, false, vec![7]);
        },
        five_shots(&[7]),
    );
    let scores =
        scored(&benchmark, &rows("eng_Latn", 4, one_sentence), |_, _, _| Some(response(Outcome::Ok, "A")));
    let published = published(NAME).unwrap();
    let tables = benchmark.tables(&scores, &published, Some("Whisper + Llama-3 70B"));
    let main = &tables[0];
    let column = |name: &str| main.columns.iter().position(|column| column == name).unwrap();
    let speech = main.rows.iter().find(|row| row[0] == Cell::text("speech")).unwrap();
    for name in ["published", "published English", "status"] {
        assert_eq!(speech[column(name)], Cell::Empty, "{name}");
    }
    let notes = main.notes.join("\n");
    assert!(notes.contains("published figures are left out") && !notes.contains("Table 2"), "{notes}");
    assert!(!notes.contains("abstract of"), "{notes}");
    // Nothing is left out where no published model was named.
    let alone = benchmark.tables(&scores, &published, None);
    assert!(!alone[0].notes.join("\n").contains("left out"));
}

#[test]
fn published_figures_are_those_of_the_agreed_file() {
    let figures = published(NAME).unwrap();
    let of = |model: &str, metric: &str, group: &[(&str, &str)]| {
        figures.find(model, "speech", metric, group).unwrap().value
    };
    assert_eq!(of("SeamlessM4T + Llama-3 70B", AVERAGE, &[]), 0.848);
    assert_eq!(of("Whisper + Llama-3 70B", ACCURACY, &[("language", "eng_Latn")]), 0.957);
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols/2m-belebele/tables.toml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not there", path.display());
        return;
    };
    let agreed: toml::Table = toml::from_str(&text).unwrap();
    for row in agreed["result"].as_array().unwrap() {
        let system = row["system"].as_str().unwrap();
        let same = |key: &str, value: f64| (row[key].as_float().unwrap() - 100.0 * value).abs() < 1e-9;
        assert!(same("avg_39", of(system, AVERAGE, &[])), "{system}");
        assert!(same("eng_Latn", of(system, ACCURACY, &[("language", "eng_Latn")])), "{system}");
    }
}
