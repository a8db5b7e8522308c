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
            Some(_) if known.finished && !takes_finished => {}
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
    let around = data.ancestors().skip(1).take(2).map(|folder| match folder.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => folder.to_owned(),
    });
    around.collect()
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

fn read_prompts(file: &Path) -> Result<PromptSet, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    PromptSet::parse(&text, &name).map_err(|e| format!("{}: {e}", file.display()))
}
