//! Pins and cutting, on made-up upstream files of the shapes that the real ones have.

use super::*;

const FULL: &str = "<s>Answer.</s><u>Answer this spoken {src} question.</u>";
const USER: &str = "{q}\nAnswer this {src} question.";
const JUDGE: &str = "Is it right? {{\"a\": 1}} {q}";

/// A script that asks, and one that judges.
const ASK: &str =
    "import x\n        ask = f'''<s>Answer.</s><u>Answer this spoken {NAMES[s]} question.</u>'''\n";
const JUDGING: &str =
    "# prompt = \"\"\"old\"\"\"\r\nprompt = \"\"\"\r\nIs it right? {{\"a\": 1}} {q}\r\n\"\"\".strip()\r\n";

fn pins() -> Pins {
    let text = PINS
        .replace("FULL", &sha256_hex(FULL))
        .replace("USER", &sha256_hex(USER))
        .replace("JUDGE", &sha256_hex(JUDGE));
    Pins::parse(&text).unwrap()
}

/// The strings of `x` where these files are there.
fn find(ask: Option<&str>, judging: Option<&str>) -> Result<Vec<Found>, OfficialError> {
    pins().find("x", |file| {
        let text = if file.path == "judge.py" { judging } else { ask };
        Ok(text.map(str::to_owned))
    })
}

fn error(text: &str) -> String {
    Pins::parse(text).unwrap_err().to_string()
}

const PINS: &str = r#"
version = 1
[[file]]
id = "a"
repository = "someone/thing"
commit = "0123456789012345678901234567890123456789"
path = "eval/ask.py"
licence = "MIT"
[[file]]
id = "b"
repository = "someone/thing"
commit = "0123456789012345678901234567890123456789"
path = "judge.py"
licence = "MIT"

[[text]]
benchmark = "x"
name = "full"
status = "official"
file = "a"
cut.python = { after = "ask = ", expressions = { "NAMES[s]" = "src" } }
places = ["src"]
sha256 = "FULL"

[[text]]
benchmark = "x"
name = "user"
status = "reconstructed"
of = "full"
steps = [{ between = ["<u>", "</u>"] }, { replace = ["spoken ", ""] }, { prepend = "{q}\n" }]
places = ["q", "src"]
sha256 = "USER"

[[text]]
benchmark = "x"
name = "judge"
status = "ancestor"
file = "b"
cut.python = { line = 2, after = "prompt = " }
steps = ["strip"]
fill.format = []
places = ["q"]
sha256 = "JUDGE"

[[text]]
benchmark = "y"
name = "full"
status = "official"
file = "b"
cut.lines = { from = 1, to = 1 }
places = []
sha256 = "0"
"#;

#[test]
fn strings_are_cut_checked_and_made_templates() {
    let found = find(Some(ASK), Some(JUDGING)).unwrap();
    let texts: Vec<_> = found.iter().map(|f| (f.pin.name.as_str(), f.text.as_deref().unwrap())).collect();
    assert_eq!(texts, [("full", FULL), ("user", USER), ("judge", "Is it right? {\"a\": 1} {q}")]);
    assert_eq!(found[0].status(), "official (someone/thing@0123456)");
    assert_eq!(found[1].status(), "reconstructed (someone/thing@0123456)");
    assert_eq!(found[2].pin.sha256, sha256_hex(JUDGE), "the hash is of what stands upstream");
    assert!(!found[2].pin.status.replaces());
}

#[test]
fn files_that_are_not_there_give_no_strings() {
    let found = find(Some(ASK), None).unwrap();
    assert_eq!(found.iter().map(|f| f.text.is_some()).collect::<Vec<_>>(), [true, true, false]);
    let unreadable = pins().find("x", |_| Err("is a folder".to_owned())).unwrap_err().to_string();
    assert_eq!(
        unreadable,
        "official/someone+thing/0123456789012345678901234567890123456789/eval/ask.py: is a folder"
    );
}

#[test]
fn another_wording_is_refused_with_both_hashes() {
    let changed = ASK.replace("Answer.", "Answer!");
    let message = find(Some(&changed), None).unwrap_err().to_string();
    let other = FULL.replace("Answer.", "Answer!");
    assert_eq!(
        message,
        format!(
            "the official prompt x/full, cut out of \
             official/someone+thing/0123456789012345678901234567890123456789/eval/ask.py, has the SHA-256 {}, not the \
             pinned {}: the file is not the one of the pinned commit; fetch it again",
            sha256_hex(&other),
            sha256_hex(FULL)
        )
    );
    let message = find(Some("nothing"), None).unwrap_err().to_string();
    assert!(message.starts_with("the official prompt x/full cannot be cut out of official/"), "{message}");
    assert!(message.contains("`ask = ` is not there"), "{message}");
}

#[test]
fn other_places_than_the_pinned_ones_are_refused() {
    let text = PINS.replace("FULL", &sha256_hex(FULL)).replace(r#"places = ["src"]"#, r#"places = ["tgt"]"#);
    let message =
        Pins::parse(&text).unwrap().find("x", |_| Ok(Some(ASK.to_owned()))).unwrap_err().to_string();
    assert_eq!(message, "the official prompt x/full has the places src, not tgt");
}

#[test]
fn pins_that_do_not_hold_together_are_refused() {
    assert!(error("version = 2").contains("version 2 of the format"));
    assert!(
        error(&PINS.replace("cut.lines", "# cut.lines")).contains("y/full: give `file` and `cut`, or `of`")
    );
    assert!(error(&PINS.replace("name = \"user\"", "name = \"full\"")).contains("x/full: is there twice"));
    assert!(error(&PINS.replace("of = \"full\"", "of = \"user\"")).contains("comes out of no file"));
    assert!(error(&PINS.replace("file = \"b\"", "file = \"c\"")).contains("comes out of no file"));
    assert!(error(&PINS.replace("licence", "license")).contains("unknown field"));
}

#[test]
fn files_are_listed_once_and_by_benchmark() {
    let paths = |benchmark| pins().files(benchmark).iter().map(UpstreamFile::place).collect::<Vec<_>>();
    let folder = "official/someone+thing/0123456789012345678901234567890123456789";
    assert_eq!(paths("x"), [format!("{folder}/eval/ask.py"), format!("{folder}/judge.py")]);
    assert_eq!(paths("y"), [format!("{folder}/judge.py")]);
    assert!(paths("z").is_empty());
}

#[test]
fn embedded_pins_are_whole() {
    let pins = Pins::embedded().unwrap();
    let hex = |text: &str, digits| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    for file in &pins.files {
        assert!(hex(&file.commit, 40), "{}", file.id);
        assert!(file.sha256.as_ref().is_none_or(|hash| hex(hash, 64)), "{}", file.id);
        assert!(!file.path.contains("..") && !file.path.starts_with('/'), "{}", file.path);
        assert!(
            pins.texts.iter().any(|pin| pins.file_of(pin) == Some(file)),
            "{} is used by nothing",
            file.id
        );
    }
    for pin in &pins.texts {
        assert!(hex(&pin.sha256, 64), "{}", pin.full_name());
    }
    assert_eq!(pins.of("ccfqa").count(), 7);
    assert_eq!(pins.of("simplevqa").count(), 9);
}

/// The hashes are those of the strings that the protocols were written down with, where these are at hand.
#[test]
fn embedded_hashes_are_those_of_the_protocols() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/protocols");
    if !folder.is_dir() {
        eprintln!("skipped: {} is not there", folder.display());
        return;
    }
    let pins = Pins::embedded().unwrap();
    for pin in &pins.texts {
        let file = folder.join(&pin.benchmark).join("prompts.toml");
        let blocks: toml::Table = toml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let name = match pin.full_name().as_str() {
            "ccfqa/judge" => "judge_chat",
            _ => &pin.name,
        };
        let hash = blocks[name]["sha256"].as_str().unwrap();
        assert_eq!(pin.sha256, hash, "{}", pin.full_name());
    }
}
