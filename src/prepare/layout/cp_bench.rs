//! What may be CP-Bench: folders that `save_to_disk` of the `datasets` library wrote, each perhaps a set of its own.
//! Columns are nested (`context.audio`, `instruction.text`, `answer.text`) or flat, as the institute's sets have both.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{At, Found, Look, Made, Source, first, is_text, missing, name_in, text};
use crate::dataset::{Choice, Dataset};
use crate::prepare::PrepareError;
use crate::prepare::store::{Store, plain};

const NAME: &str = "cp-bench";

/// Folders that were saved, at most two below the data folder.
fn saved(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if ["state.json", "dataset_dict.json"].iter().any(|name| folder.join(name).is_file()) {
        found.push(folder.to_owned());
        return;
    }
    if depth == 0 {
        return;
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    for folder in folders {
        saved(&folder, depth - 1, found);
    }
}

pub(super) fn look(data: &Path) -> Result<Look, PrepareError> {
    let choice = Choice { published: true, ..Choice::default() };
    let mut folders = Vec::new();
    saved(data, 2, &mut folders);
    let several = folders.len() > 1;
    let sources = folders.iter().map(|folder| {
        let dataset = Dataset::choose(folder, None, &choice).map_err(|e| PrepareError::Data(e, NAME))?;
        let label = folder.file_name().map(|name| name.to_string_lossy().into_owned()).filter(|_| several);
        Ok(Source { label, dataset, in_place: folder == data })
    });
    let mut sources = sources.collect::<Result<Vec<_>, PrepareError>>()?;
    if sources.is_empty() {
        match Dataset::choose(data, None, &choice) {
            Ok(dataset) if is_text(&dataset) => {
                let sentence = format!(
                    "the rows of {} name files already: nothing needs to be prepared",
                    dataset.index().display()
                );
                return Ok(Look::Nothing(sentence));
            }
            Ok(dataset) => sources.push(Source { label: None, dataset, in_place: true }),
            Err(_) => {
                let remedy = format!("get it with `harness fetch {NAME}`, or name the folder with --data");
                return Err(missing(data, "no folder that `save_to_disk` wrote", NAME, remedy));
            }
        }
    }
    Ok(Look::Sets(vec![Found { name: "test".to_owned(), sources }]))
}

/// That the rows are of another split than `test`, whose name the set has all the same: a sentence.
pub(super) fn other_split(dataset: &Dataset) -> Option<String> {
    let split = dataset.index().parent()?;
    let folder = split.parent().filter(|folder| folder.join("dataset_dict.json").is_file())?;
    let name = split.file_name()?.to_string_lossy();
    (name != "test").then(|| {
        let folder = folder.display();
        format!("the rows of {folder} are of its split `{name}`, and are taken as the set `test`")
    })
}

pub(super) fn row(row: &Map<String, Value>, at: At<'_>, store: &mut Store) -> Result<Made, PrepareError> {
    let found = |paths: &[&str]| first(row, paths).and_then(text);
    let id = found(&["id", "index", "other_attributes.id", "other_attributes.index"]);
    let label = at.label.map(str::to_owned);
    let id = id.unwrap_or_else(|| {
        format!("{}{}", label.as_ref().map(|l| format!("{l}-")).unwrap_or_default(), at.row)
    });
    let question = found(&["instruction.text", "question.text", "instruction", "question"]);
    let reference = found(&["answer.text", "reference.text", "answer", "reference"]);
    let category = found(&[
        "category",
        "other_attributes.category",
        "other_attributes.question_type",
        "other_attributes.type",
        "other_attributes.kind",
        "question_type",
        "type",
    ]);
    for (what, value) in [("question", &question), ("answer", &reference)] {
        if value.is_none() {
            store.problems.push(format!("row {}: it has no {what}", at.row));
        }
    }
    let audio = if let Some(name) = first(row, &["context.audio", "audio", "context"]).and_then(name_in) {
        store.keep(name, &plain(&id))?
    } else {
        store.problems.push(format!("row {}: it has no recording", at.row));
        None
    };
    let mut out = Map::new();
    out.insert("id".to_owned(), id.clone().into());
    out.insert("audio".to_owned(), audio.map(|saved| saved.name).into());
    out.insert("question".to_owned(), question.into());
    out.insert("reference".to_owned(), reference.into());
    if let Some(category) = category {
        out.insert("category".to_owned(), category.into());
    }
    if let Some(set) = found(&["set", "other_attributes.set"]).or(label) {
        out.insert("set".to_owned(), set.into());
    }
    if let Some(attributes) = first(row, &["other_attributes"]) {
        out.insert("attributes".to_owned(), attributes.clone());
    }
    Ok(Made { row: Value::Object(out), key: format!("{}\0{id}", at.label.unwrap_or_default()) })
}
