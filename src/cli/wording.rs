//! Which prompt texts a section uses: the authors', ours or a file's.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::benchmark;
use crate::config::{BenchmarkConfig, Wording};
use crate::prompt::PromptSet;
use crate::prompt::official::{Found, Pins, UpstreamFile};

/// The most bytes of an upstream file; a longer one is another file.
const MAX_BYTES: u64 = 4 << 20;

/// The prompt texts of a section. Texts that exist officially are the official ones where the config asks for them
/// or their files are in the data folder; the others are ours. A finished prompt string is taken only for models
/// that take such.
pub(super) fn of(config: &BenchmarkConfig, pins: &Pins, takes_finished: bool) -> Result<PromptSet, String> {
    let ours = || benchmark::harness_wording(&config.name).map_err(|e| e.to_string());
    let must = match &config.prompt {
        Wording::File(file) => return read_prompts(file),
        Wording::Harness => return ours(),
        Wording::Official => true,
        Wording::Found => false,
    };
    let mut set = ours()?;
    let folders = folders(&config.data);
    let found = pins
        .find(&config.name, |file| read_upstream(file, &folders))
        .map_err(|e| format!("{e}, or set `prompt = \"harness\"` to use our own wording"))?;
    let known = benchmark::known_texts(&config.name);
    let mut any = false;
    for found in found.iter().filter(|found| found.pin.status.replaces()) {
        let Found { pin, file, text } = found;
        let Some(known) = known.iter().find(|known| known.name == pin.name) else { continue };
        any = true;
        match text {
            // The judge is another model.
            Some(_) if known.finished && !takes_finished && !known.for_judge() => {}
            Some(text) => {
                set.put(&pin.name, text.clone(), found.status(), pin.sha256.clone());
            }
            None if must => {
                let folder = folders.first().map(|folder| folder.display().to_string()).unwrap_or_default();
                return Err(format!(
                    "the official prompt {} is cut out of {folder}/{}, which is not there: get it with `harness fetch \
                     {} --only prompts --to {folder}`",
                    pin.full_name(),
                    file.place(),
                    config.name
                ));
            }
            None => {}
        }
    }
    if must && !any {
        return Err(format!("no official prompts of `{}` are known: remove `prompt`", config.name));
    }
    Ok(set)
}

/// The folders in which upstream files of these data are looked for: the data folder, or those around an index.
fn folders(data: &Path) -> Vec<PathBuf> {
    if data.is_dir() {
        return vec![data.to_owned()];
    }
    let here = |folder: &Path| folder.as_os_str().is_empty();
    let around = data.ancestors().skip(1).take(2);
    around.map(|folder| if here(folder) { PathBuf::from(".") } else { folder.to_owned() }).collect()
}

/// The text of an upstream file, out of the first of these folders that has it.
pub(super) fn read_upstream(file: &UpstreamFile, folders: &[PathBuf]) -> Result<Option<String>, String> {
    for folder in folders {
        let path = folder.join(file.place());
        let opened = match std::fs::File::open(&path) {
            Ok(opened) => opened,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e.to_string()),
        };
        let mut text = String::new();
        opened.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|e| e.to_string())?;
        if text.len() as u64 > MAX_BYTES {
            return Err(format!("has more than {MAX_BYTES} bytes, so it is another file; fetch it again"));
        }
        return Ok(Some(text));
    }
    Ok(None)
}

pub(super) fn read_prompts(file: &Path) -> Result<PromptSet, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    PromptSet::parse(&text, &name).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::section_with_defaults;
    use crate::prompt::sha256_hex;

    const FULL: &str = "<s>Answer.</s><u>In {src}; answer in {tgt}.</u>";
    const ASK: &str = "full = f'<s>Answer.</s><u>In {src}; answer in {tgt}.</u>'\n";

    /// Pins of made-up words for the texts of spoken questions and for the judge.
    fn pins() -> Pins {
        let file = |id: &str| {
            format!(
                "[[file]]\nid = '{id}'\nrepository = 'some/one'\ncommit = '{}'\npath = '{id}.py'\nlicence = 'MIT'\n",
                "0123456789".repeat(4)
            )
        };
        let text = |name: &str, how: &str, places: &str, words: &str| {
            format!(
                "[[text]]\nbenchmark = 'ccfqa'\nname = '{name}'\nstatus = 'official'\n{how}\nplaces = [{places}]\n\
                 sha256 = '{}'\n",
                sha256_hex(words)
            )
        };
        let between =
            |a: &str, b: &str| format!("of = 'speech_full'\nsteps = [{{ between = ['{a}', '{b}'] }}]");
        let pins = [
            "version = 1\n".to_owned(),
            file("ask"),
            file("judge"),
            text("speech_full", "file = 'ask'\ncut.python = { after = 'full = ' }", "'src', 'tgt'", FULL),
            text("speech_system", &between("<s>", "</s>"), "", "Answer."),
            text("speech_user", &between("<u>", "</u>"), "'src', 'tgt'", "In {src}; answer in {tgt}."),
            text("judge", "file = 'judge'\ncut.json = ''", "'tgt_a', 'lang_a'", "{tgt_a} {lang_a}?"),
        ];
        Pins::parse(&pins.concat()).unwrap()
    }

    /// A data folder with these upstream files.
    fn data(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("official/some+one").join("0123456789".repeat(4));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        dir
    }

    fn section(data: &Path, prompt: Wording) -> BenchmarkConfig {
        BenchmarkConfig { data: data.to_owned(), prompt, ..section_with_defaults("ccfqa") }
    }

    const OFFICIAL: &str = "official (some/one@0123456)";

    #[test]
    fn official_words_are_used_where_their_files_are_and_ours_for_the_rest() {
        let dir = data(&[("ask.py", ASK)]);
        let set = of(&section(dir.path(), Wording::Found), &pins(), false).unwrap();
        assert_eq!((set.status("speech_user"), set.get("speech_system")), (OFFICIAL, Some("Answer.")));
        assert_eq!(set.status("text_user"), "harness wording");
        assert_eq!(set.status("judge"), "harness wording", "its file is not there");
        assert_eq!(set.get("speech_full"), None, "a chat server takes messages");
        let local = of(&section(dir.path(), Wording::Found), &pins(), true).unwrap();
        assert_eq!((local.get("speech_full"), local.status("speech_full")), (Some(FULL), OFFICIAL));
        // The index file stands for its folder, and for the one around that.
        for index in ["test.jsonl", "jsonl/test.jsonl"] {
            let set = of(&section(&dir.path().join(index), Wording::Found), &pins(), false).unwrap();
            assert_eq!(set.status("speech_user"), OFFICIAL, "{index}");
        }
        let ours = of(&section(dir.path(), Wording::Harness), &pins(), true).unwrap();
        assert_eq!((ours.status("speech_user"), ours.get("speech_full")), ("harness wording", None));
        let empty = data(&[]);
        let none = of(&section(empty.path(), Wording::Found), &pins(), true).unwrap();
        assert_eq!(none, crate::benchmark::harness_wording("ccfqa").unwrap());
    }

    #[test]
    fn official_words_that_are_asked_for_must_all_be_there() {
        let dir = data(&[("ask.py", ASK)]);
        let error = of(&section(dir.path(), Wording::Official), &pins(), false).unwrap_err();
        let folder = dir.path().display();
        assert_eq!(
            error,
            format!(
                "the official prompt ccfqa/judge is cut out of {folder}/official/some+one/{}/judge.py, which is not \
                 there: get it with `harness fetch ccfqa --only prompts --to {folder}`",
                "0123456789".repeat(4)
            )
        );
        let dir = data(&[("ask.py", ASK), ("judge.py", "\"{tgt_a} {lang_a}?\"")]);
        let set = of(&section(dir.path(), Wording::Official), &pins(), false).unwrap();
        assert_eq!((set.status("judge"), set.status("text_user")), (OFFICIAL, "harness wording"));
        let none = BenchmarkConfig { prompt: Wording::Official, ..section_with_defaults("manifest") };
        assert!(of(&none, &pins(), false).unwrap_err().contains("no official prompts of `manifest`"));
    }

    #[test]
    fn another_file_is_refused_even_where_nothing_was_asked_for() {
        let dir = data(&[("ask.py", &ASK.replace("Answer.", "Reply."))]);
        let error = of(&section(dir.path(), Wording::Found), &pins(), false).unwrap_err();
        assert!(
            error.starts_with("the official prompt ccfqa/speech_full, cut out of official/some+one/"),
            "{error}"
        );
        assert!(error.contains(&sha256_hex(FULL)) && error.ends_with("to use our own wording"), "{error}");
        assert!(of(&section(dir.path(), Wording::Harness), &pins(), false).is_ok());
    }
}
