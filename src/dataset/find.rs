//! Which files of a folder are the dataset.
//!
//! Published sets come as one file, as numbered shards, as folders that `save_to_disk` of the `datasets` library
//! wrote, beside other files that must not be taken for it. What is taken is said in `docs/config.md`; where two
//! files could be meant, none is taken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::format::{SUFFIXES, suffix};
use super::{DatasetError, names, prepared};

/// Which part of a dataset is meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// The split; `test`, or else the only one, where none is named.
    pub split: Option<&'a str>,
    /// File names, with `*` for any letters, that are never taken: previews and other files that hold rows of the
    /// dataset a second time.
    pub ignore: &'a [&'a str],
    /// The sets that are wanted of data that were prepared in several, one for each language; all where none is named.
    pub sets: &'a [&'a str],
    /// Whether prepared data are taken as they are, with sets and media missing: for those who tell what is missing.
    pub lenient: bool,
    /// Whether the files are wanted as they were published, even where they were prepared.
    pub published: bool,
}

impl Choice<'_> {
    /// Whether a file is never taken.
    pub(super) fn ignores(&self, path: &Path) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        self.ignore.iter().any(|pattern| matches(pattern, &name))
    }
}

/// Whether a name matches a pattern with `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).filter_map(|at| name.get(at..)).any(|name| matches(rest, name))
        }),
    }
}

/// Files that stand beside the data and are none.
const BESIDE: [&str; 6] = [
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
    "fetch.json",
    "package.json",
];

/// Folders in a data folder that hold the data.
const FOLDERS: [&str; 2] = ["data", "jsonl"];

/// Where numbered shards stand in a name: `test-00003-of-00008` is `test`, 3 of 8.
fn shard(stem: &str) -> Option<(&str, u64, u64)> {
    let (rest, of) = stem.rsplit_once("-of-")?;
    let (base, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(of) && digits(number)).then_some(())?;
    Some((base, number.parse().ok()?, of.parse().ok()?))
}

/// The files of a dataset's folder, in order.
pub(super) fn find(folder: &Path, choice: &Choice<'_>) -> Result<Vec<PathBuf>, DatasetError> {
    if !choice.published
        && let Some(found) = prepared::find(folder, choice)?
    {
        return Ok(found);
    }
    if folder.join("dataset_dict.json").is_file() {
        return saved(&split_of_dict(folder, choice)?);
    }
    if folder.join("state.json").is_file() {
        return saved(folder);
    }
    let split = choice.split.unwrap_or("test");
    let known = match choice.split {
        None => vec!["test.jsonl".to_owned(), "jsonl/test.jsonl".to_owned(), "manifest.jsonl".to_owned()],
        Some(split) => vec![format!("{split}.jsonl"), format!("jsonl/{split}.jsonl")],
    };
    let known = known.iter().map(|name| folder.join(name));
    if let Some(found) = known.into_iter().find(|path| path.is_file() && !choice.ignores(path)) {
        return Ok(vec![found]);
    }
    let places = std::iter::once(folder.to_owned()).chain(FOLDERS.map(|name| folder.join(name)));
    let places = places.filter(|place| place.is_dir());
    let places = places.map(|place| Ok((families(&place, choice)?, place)));
    let places = places.collect::<Result<Vec<_>, DatasetError>>()?;
    for (families, place) in &places {
        let of_split = |base: &str| {
            base == split || base.ends_with(&format!("-{split}")) || base.ends_with(&format!("_{split}"))
        };
        // `test.parquet` goes before `other-test.parquet`.
        let exact = families.iter().filter(|((_, base), _)| base == split);
        let loose = families.iter().filter(|((_, base), _)| of_split(base));
        for named in [exact.collect::<Vec<_>>(), loose.collect()] {
            // One set in two formats is one set: the first format in the order of preference is taken.
            if let Some(((rank, _), files)) = named.first()
                && named.iter().filter(|((other, _), _)| other == rank).count() == 1
            {
                return whole((*files).clone(), place);
            }
        }
    }
    // A single set is the one that is meant. Lines are rows more surely than other files, a JSON file less so: it
    // may be anything.
    let json = SUFFIXES.len() - 1;
    let sure: [fn(usize, usize) -> bool; 3] = [|rank, _| rank == 0, |rank, json| rank != json, |_, _| true];
    for of in sure.into_iter().filter(|_| choice.split.is_none()) {
        for (families, place) in &places {
            let of = families.iter().filter(|((rank, _), _)| of(*rank, json)).collect::<Vec<_>>();
            if let [(_, files)] = &*of {
                return whole((*files).clone(), place);
            }
            if !of.is_empty() {
                break;
            }
        }
    }
    let found: Vec<PathBuf> = places.into_iter().flat_map(|(f, _)| f.into_values().flatten()).collect();
    let mut looked_for =
        vec![format!("{split}.jsonl"), format!("{split}.parquet"), format!("{split}-*.parquet")];
    looked_for.extend(["data/", "state.json", "dataset_dict.json"].map(str::to_owned));
    if choice.split.is_none() {
        looked_for.push(format!("manifest.jsonl, or a single file of .{}", SUFFIXES.join(" .")));
    }
    let name = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let found = found.iter().map(name).collect();
    Err(DatasetError::NoIndex { folder: folder.to_owned(), looked_for, found })
}

/// The files of a folder that may be data, by the rank of their suffix and their name without shard numbers.
fn families(
    folder: &Path,
    choice: &Choice<'_>,
) -> Result<BTreeMap<(usize, String), Vec<PathBuf>>, DatasetError> {
    let entries =
        std::fs::read_dir(folder).map_err(|source| DatasetError::Io { path: folder.to_owned(), source })?;
    let mut families: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(suffix) = suffix(&path) else { continue };
        if name.starts_with('.') || BESIDE.contains(&name) || choice.ignores(&path) || !path.is_file() {
            continue;
        }
        let rank = SUFFIXES.iter().position(|known| *known == suffix).unwrap_or(SUFFIXES.len());
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let base = shard(stem).map_or(stem, |(base, _, _)| base);
        families.entry((rank, base.to_owned())).or_default().push(path);
    }
    for files in families.values_mut() {
        files.sort();
    }
    Ok(families)
}

/// The shards of a family, if all are there.
fn whole(files: Vec<PathBuf>, folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let numbers = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        shard(stem).map(|(_, number, of)| (number, of))
    };
    let found: Vec<_> = files.iter().filter_map(numbers).collect();
    let Some(&(_, of)) = found.first() else { return Ok(files) };
    let missing = (0..of).find(|number| !found.iter().any(|(shard, _)| shard == number));
    if missing.is_none() && found.len() == files.len() && found.iter().all(|(_, each)| *each == of) {
        return Ok(files);
    }
    let missing = missing.map_or_else(
        || "shards of different sets stand beside each other".to_owned(),
        |number| format!("shard {number} of {of} (counted from 0) is not there"),
    );
    Err(DatasetError::Shards { folder: folder.to_owned(), reason: missing })
}

fn json(path: &Path) -> Result<Value, DatasetError> {
    let text = std::fs::read(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|e| DatasetError::Damaged {
        path: path.to_owned(),
        reason: format!("is not valid JSON ({e}): save the set again"),
    })
}

/// The folder of the split of a `DatasetDict`.
fn split_of_dict(folder: &Path, choice: &Choice<'_>) -> Result<PathBuf, DatasetError> {
    let path = folder.join("dataset_dict.json");
    let dict = json(&path)?;
    let splits = dict.get("splits").and_then(Value::as_array).into_iter().flatten();
    let splits: Vec<&str> = splits.filter_map(Value::as_str).collect();
    let wanted = match (choice.split, &*splits) {
        (Some(split), _) => split,
        (None, [only]) => only,
        (None, _) => "test",
    };
    if !splits.contains(&wanted) {
        let reason = format!(
            "has no split `{wanted}`, only {}: name the folder of the split itself as `data`",
            splits.join(", ")
        );
        return Err(DatasetError::Damaged { path, reason });
    }
    let damaged = |reason: String| DatasetError::Damaged { path: path.clone(), reason };
    let place = names::within(folder, wanted)
        .map_err(|e| damaged(format!("names a split outside its folder: {e}")))?;
    if !place.join("state.json").is_file() {
        return Err(damaged(format!(
            "names the split `{wanted}`, and no state.json is in the folder `{wanted}` beside it: get that folder again, or \
             name the folder of another split itself as `data`"
        )));
    }
    Ok(place)
}

/// The shards of a folder that `save_to_disk` wrote.
fn saved(folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let path = folder.join("state.json");
    let state = json(&path)?;
    let damaged = |reason: &str| DatasetError::Damaged { path: path.clone(), reason: reason.to_owned() };
    let indices = ["_indices_files", "_indices_data_files"].into_iter().find_map(|key| state.get(key));
    if indices.and_then(Value::as_array).is_some_and(|files| !files.is_empty()) {
        return Err(damaged(
            "was saved with an index of its rows, which is not read: save it again after \
                            `flatten_indices()`",
        ));
    }
    let files = state.get("_data_files").and_then(Value::as_array);
    let files = files.filter(|files| !files.is_empty());
    let files = files.ok_or_else(|| damaged("names no data files: save the set again"))?;
    let file = |entry: &Value| {
        let name = entry.get("filename").and_then(Value::as_str);
        let name = name.ok_or_else(|| damaged("has a data file without a name: save the set again"))?;
        let file = names::within(folder, name).map_err(|e| damaged(&e.to_string()))?;
        if file.exists() { Ok(file) } else { Err(DatasetError::Missing(file)) }
    };
    files.iter().map(file).collect()
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
