//! What stands in the folder `prepared` of a data folder: a published set as files that can be read at any place, beside
//! its rows, and the record of what it was made from.
//!
//! Only the layout is known here: who makes such files is another room.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::find::Choice;
use super::{DatasetError, names};
use crate::media::FileFacts;
use crate::types::Digest;

/// The folder, in a data folder.
pub const FOLDER: &str = "prepared";
/// The record, in that folder.
pub const RECORD: &str = "prepare.json";
/// The version of the record's form.
pub const VERSION: u32 = 2;
/// Files whose sizes one thread looks at.
const LOOKED_AT: usize = 2000;
/// Threads that look at sizes: a network's file system answers many at once.
const LOOKING: usize = 8;
/// Folders below the data folder that published files lie in, at most.
const DEPTH: usize = 2;
/// Published files that an error names.
const NAMED: usize = 4;

/// The record: what was prepared from what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of its form.
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// The benchmark.
    pub benchmark: String,
    /// The sets: languages, or a split. The rows of set `x` are in `prepared/x.jsonl`.
    pub sets: BTreeMap<String, SetRecord>,
}

/// One set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRecord {
    /// What it was made from.
    pub sources: Vec<SourceRecord>,
    /// The size of its file of rows.
    pub bytes: u64,
    /// The blake3 hash of that file, whose rows name their media by content.
    pub blake3: Digest,
    /// The list of its files of media: `prepared/SET.files`.
    pub list: ListRecord,
    /// What was found.
    pub counts: Counts,
    /// The first problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A list of files of media: a line each, `[BYTES,"NAME"]`, names as the rows have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRecord {
    /// Its size.
    pub bytes: u64,
    /// Its blake3 hash.
    pub blake3: Digest,
}

/// A file that a set was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Its place in the data folder.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When it was last changed, in nanoseconds since 1970, where the file system says.
    pub modified: Option<u64>,
}

/// What was found in a set, and what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows.
    pub rows: u64,
    /// Files of media.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Milliseconds of audio in them.
    pub audio_ms: u64,
    /// Files that are the bytes that were published.
    pub original: u64,
    /// Files of samples as 16-bit integers, the same values.
    pub pcm16: u64,
    /// Files of samples as 32-bit floats, the same values.
    pub float32: u64,
    /// Files of samples of 64 bits that were rounded to floats of 32.
    pub rounded: u64,
    /// Files with samples beyond full scale, which are kept.
    pub loud: u64,
    /// Such samples.
    pub beyond: u64,
    /// Places without media where media could stand.
    pub absent: u64,
    /// Places whose media cannot be read, rows that cannot, and rows that are not what was published.
    pub problems: u64,
    /// Those of them that may pass: media and rows that the system did not give, and files beside the rows that are not
    /// what they should be. Whoever prepares the set again tries them again. What is wrong in the published rows stays.
    #[serde(default)]
    pub faults: u64,
    /// Sentences of passages that are spoken one by one; `None` in sets that have none, and where an older program did
    /// not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentences: Option<Sentences>,
}

/// What is recorded of the sentences of passages, each passage counted once however many rows ask about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentences {
    /// Those with a recording.
    pub recorded: u64,
    /// Those without any.
    pub missing: u64,
    /// Those of the recorded ones that more than one speaker reads.
    pub several: u64,
}

impl std::ops::AddAssign for Sentences {
    fn add_assign(&mut self, more: Self) {
        self.recorded += more.recorded;
        self.missing += more.missing;
        self.several += more.several;
    }
}

impl SourceRecord {
    /// The record of a file of a data folder.
    pub fn of(data: &Path, path: &Path) -> std::io::Result<Self> {
        let facts = FileFacts::of(path)?;
        let path = path.strip_prefix(data).unwrap_or(path).to_owned();
        Ok(Self { path, bytes: facts.bytes, modified: facts.modified })
    }
}

impl Record {
    /// Reads the record of a data folder; `None` where nothing was prepared.
    pub fn read(folder: &Path) -> Result<Option<Self>, DatasetError> {
        let path = folder.join(FOLDER).join(RECORD);
        let text = match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|source| DatasetError::Io { path: path.clone(), source })?,
        };
        let damaged = |reason: String| DatasetError::Damaged { path: path.clone(), reason };
        let value: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|e| damaged(format!("is not valid JSON ({e}): delete it and prepare the data again")))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) if version > u64::from(VERSION) => {
                return Err(damaged(format!(
                    "is of version {version}, which a newer harness wrote: use that one, or delete the folder \
                     `{FOLDER}` and prepare the data again"
                )));
            }
            _ => {
                return Err(damaged(format!(
                    "has no version that is known: delete the folder `{FOLDER}` and prepare the data again"
                )));
            }
        }
        serde_json::from_value(value)
            .map(Some)
            .map_err(|e| damaged(format!("is no record of prepared data ({e}): prepare them again")))
    }
}

/// The rows that were prepared in a data folder: those of a split, or of `test`, or of the sets that are chosen, or of
/// all. `None` where there are none. Refused are rows that were made from other files than those that lie in the folder
/// now, media that are not whole, and a part of the published sets where all are wanted.
pub(super) fn find(folder: &Path, choice: &Choice<'_>) -> Result<Option<Vec<PathBuf>>, DatasetError> {
    let Some(record) = Record::read(folder)? else { return Ok(None) };
    let wanted: Vec<&str> = match choice.split {
        Some(split) => vec![split].into_iter().filter(|split| record.sets.contains_key(*split)).collect(),
        None if record.sets.contains_key("test") => vec!["test"],
        None if !choice.sets.is_empty() => choice.sets.to_vec(),
        None => record.sets.keys().map(String::as_str).collect(),
    };
    let unprepared = |what: String, more: String| DatasetError::Unprepared {
        folder: folder.to_owned(),
        what,
        command: format!("{}{more}", command(folder, &record)),
    };
    let not: Vec<&str> = wanted.iter().copied().filter(|name| !record.sets.contains_key(*name)).collect();
    if !not.is_empty() {
        let codes = not.join(",");
        return Err(unprepared(format!("nothing was prepared of {codes}"), format!(" --languages {codes}")));
    }
    // A part of the sets must not pass for all of them.
    let left = left_out(folder, &record);
    if choice.split.is_none() && choice.sets.is_empty() && !choice.lenient && !left.is_empty() {
        let names = left.iter().take(NAMED).map(|path| path.display().to_string()).collect::<Vec<_>>();
        let more =
            if left.len() > NAMED { format!(" and {} more", left.len() - NAMED) } else { String::new() };
        let what = format!("nothing was prepared of {}{more}, which would be missing", names.join(", "));
        return Err(unprepared(what, String::new()));
    }
    let mut found = Vec::new();
    for name in wanted {
        let Some(set) = record.sets.get(name) else { continue };
        found.push(check(folder, name, set, &record, choice.lenient)?);
    }
    Ok((!found.is_empty()).then_some(found))
}

/// The command that prepares the data of a folder.
fn command(folder: &Path, record: &Record) -> String {
    format!("harness prepare {} --data {}", record.benchmark, folder.display())
}

/// The file of a set's rows, if it is the one that was prepared from the files that lie in the folder, and its media are
/// whole; for a lenient reader whatever its media are.
fn check(
    folder: &Path,
    name: &str,
    set: &SetRecord,
    record: &Record,
    lenient: bool,
) -> Result<PathBuf, DatasetError> {
    let path = folder.join(FOLDER).join(format!("{name}.jsonl"));
    let again = format!("prepare the data again with `{}`", command(folder, record));
    let damaged =
        |what: String| DatasetError::Damaged { path: path.clone(), reason: format!("{what}: {again}") };
    let Ok(facts) = FileFacts::of(&path) else { return Err(damaged("was prepared and is gone".to_owned())) };
    if facts.bytes != set.bytes {
        return Err(damaged("is not the file that was prepared (its size is another)".to_owned()));
    }
    // Rows that were edited may have the size of those that were written, and would pass for the published data.
    if !has_hash(&path, set.blake3)? {
        return Err(damaged("is not the file that was prepared (its content is another)".to_owned()));
    }
    // A source that is gone made room; one that is another has other rows.
    let changed = set
        .sources
        .iter()
        .find(|source| FileFacts::of(&folder.join(&source.path)).is_ok_and(|now| now.bytes != source.bytes));
    if let Some(source) = changed {
        let source = source.path.display();
        return Err(damaged(format!("was prepared from another {source} than the one that is there now")));
    }
    if !lenient && let Some(what) = broken_media(folder, name, set) {
        return Err(damaged(format!("names media that are not the ones that were written: {what}")));
    }
    Ok(path)
}

/// The hash of what a file holds.
pub fn hash_of(path: &Path) -> std::io::Result<Digest> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path)?)?;
    Ok(Digest(*hasher.finalize().as_bytes()))
}

fn has_hash(path: &Path, expected: Digest) -> Result<bool, DatasetError> {
    let found = hash_of(path).map_err(|source| DatasetError::Io { path: path.to_owned(), source })?;
    Ok(found == expected)
}

/// What counts here of the record beside rows of claims with their sentences, which lie in a folder of their own.
#[derive(Deserialize)]
struct ClaimsRecord {
    benchmark: String,
    facts: Vec<ClaimsFile>,
}

/// A file of such rows.
#[derive(Deserialize)]
struct ClaimsFile {
    split: String,
    blake3: Option<Digest>,
}

/// Refuses rows of claims with their sentences that are not the ones that the record beside them is of: rows that were
/// edited would pass for what was found.
pub(super) fn check_claims(file: &Path) -> Result<(), DatasetError> {
    let name = file.file_stem().and_then(|stem| stem.to_str());
    let Some((folder, name)) = file.parent().zip(name) else { return Ok(()) };
    if file.extension().is_none_or(|suffix| suffix != "jsonl") {
        return Ok(());
    }
    let Ok(text) = std::fs::read(folder.join(RECORD)) else { return Ok(()) };
    // Whatever else is called so says nothing of these rows.
    let Ok(record) = serde_json::from_slice::<ClaimsRecord>(&text) else { return Ok(()) };
    let written = record.facts.iter().find(|written| written.split == name);
    match written.and_then(|written| written.blake3) {
        Some(blake3) if !has_hash(file, blake3)? => Err(DatasetError::Damaged {
            path: file.to_owned(),
            reason: format!(
                "is not the file that was prepared (its content is another): run `harness prepare {}` again as it was \
                 run, or keep rows of your own in another folder",
                record.benchmark
            ),
        }),
        _ => Ok(()),
    }
}

/// A set and its name.
pub type NamedSet = (String, SetRecord);

/// The sets that files of rows are of, as they were prepared, and the published files beside them of which nothing was;
/// none for other files.
pub(super) fn sets_of(files: &[PathBuf]) -> Result<(Vec<NamedSet>, Vec<PathBuf>), DatasetError> {
    let folder = files.first().and_then(|file| data_folder(file));
    let record = folder.map(Record::read).transpose()?.flatten();
    let Some((folder, record)) = folder.zip(record) else { return Ok((Vec::new(), Vec::new())) };
    let named = files.iter().filter_map(|file| file.file_stem()?.to_str());
    let sets = named.filter_map(|name| Some((name.to_owned(), record.sets.get(name)?.clone())));
    Ok((sets.collect(), left_out(folder, &record)))
}

/// Checks a file of rows that was named itself, where it was prepared.
pub(super) fn check_file(file: &Path, choice: &Choice<'_>) -> Result<(), DatasetError> {
    let Some(folder) = data_folder(file) else { return Ok(()) };
    let Some(record) = Record::read(folder)? else { return Ok(()) };
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match record.sets.get(name) {
        Some(set) if file.extension().is_some_and(|suffix| suffix == "jsonl") => {
            check(folder, name, set, &record, choice.lenient).map(drop)
        }
        _ => Ok(()),
    }
}

/// Where the list of a set's files of media is.
pub(crate) fn list_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(FOLDER).join(format!("{name}.files"))
}

/// What is wrong with the media of a set, by their sizes; `None` where nothing is.
pub(crate) fn broken_media(folder: &Path, name: &str, set: &SetRecord) -> Option<String> {
    let path = list_path(folder, name);
    let text = std::fs::read(&path)
        .ok()
        .filter(|text| text.len() as u64 == set.list.bytes && Digest::of(text) == set.list.blake3);
    let Some(text) = text else { return Some(format!("{} is gone or is another list", path.display())) };
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let each = lines.len().div_ceil(LOOKING).max(LOOKED_AT);
    let wrong = std::thread::scope(|scope| {
        let look = |lines: &[&[u8]]| lines.iter().filter_map(|line| wrong(folder, line)).collect::<Vec<_>>();
        let threads: Vec<_> = lines.chunks(each).map(|lines| scope.spawn(move || look(lines))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| vec!["?".to_owned()]));
        joined.collect::<Vec<_>>().concat()
    });
    let more = match wrong.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    wrong.first().map(|first| format!("{first}{more}"))
}

/// What is wrong with a file of a list, by its size.
fn wrong(folder: &Path, line: &[u8]) -> Option<String> {
    let Ok((bytes, name)) = serde_json::from_slice::<(u64, String)>(line) else {
        return Some("a line of the list cannot be read".to_owned());
    };
    let facts = names::within(folder, &name).ok().map(|path| FileFacts::of(&path));
    match facts {
        Some(Ok(facts)) if facts.bytes == bytes => None,
        Some(Ok(facts)) => Some(format!("{name} has {} bytes instead of {bytes}", facts.bytes)),
        _ => Some(format!("{name} is not there")),
    }
}

/// Published files of which nothing was prepared, by their place in the data folder: those that are called like the
/// files of prepared sets, but for the set's name. Where a split was prepared, others are other sets.
fn left_out(folder: &Path, record: &Record) -> Vec<PathBuf> {
    if record.sets.contains_key("test") {
        return Vec::new();
    }
    let sources = record.sets.iter().flat_map(|(name, set)| set.sources.iter().map(move |file| (name, file)));
    let patterns: std::collections::BTreeSet<_> = sources
        .filter_map(|(name, source)| {
            let (before, after) = source.path.file_name()?.to_str()?.split_once(name.as_str())?;
            Some((before.to_owned(), after.trim_start_matches('^').to_owned(), kind_of(name)))
        })
        .collect();
    let mut found = BTreeMap::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((place, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder.join(&place)).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = place.join(&name);
            if entry.path().is_dir() {
                if depth < DEPTH && !name.starts_with('.') && name != FOLDER {
                    folders.push((path, depth + 1));
                }
                continue;
            }
            let set = patterns.iter().find_map(|(before, after, kind)| {
                let set = name.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                let set = set.trim_end_matches('^');
                (kind_of(set) == *kind).then(|| set.to_owned())
            });
            if let Some(set) = set.filter(|set| !record.sets.contains_key(set)) {
                found.entry(set).or_insert(path);
            }
        }
    }
    found.into_values().collect()
}

/// Names of one kind, like those of languages: `aaa_Aaaa`.
fn kind_of(name: &str) -> String {
    let kind = |c: char| match c {
        c if c.is_lowercase() => 'a',
        c if c.is_uppercase() => 'A',
        c if c.is_numeric() => '0',
        c => c,
    };
    name.chars().map(kind).collect()
}

/// The data folder of a file of rows that was prepared: its media are named from there.
pub(super) fn data_folder(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    let is = folder.file_name().is_some_and(|name| name == FOLDER) && folder.join(RECORD).is_file();
    if is { folder.parent() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Choice, Dataset};

    const LIST: &str = "[3,\"prepared/a.wav\"]\n[0,\"prepared/b.wav\"]\n";

    fn record(sets: &[(&str, &str)]) -> Record {
        let sets = sets.iter().map(|(name, rows)| {
            let path =
                if *name == "test" { "x.parquet".into() } else { format!("lang={name}/{name}.parquet") };
            let source = SourceRecord { path: path.into(), bytes: 3, modified: None };
            let set = SetRecord {
                sources: vec![source],
                bytes: rows.len() as u64,
                blake3: Digest::of(rows.as_bytes()),
                list: ListRecord { bytes: LIST.len() as u64, blake3: Digest::of(LIST.as_bytes()) },
                counts: Counts::default(),
                problems: Vec::new(),
            };
            ((*name).to_owned(), set)
        });
        Record { version: VERSION, program: "x".into(), benchmark: "b".into(), sets: sets.collect() }
    }

    fn prepared(sets: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        for (name, rows) in sets {
            std::fs::write(folder.join(format!("{name}.jsonl")), rows).unwrap();
            std::fs::write(folder.join(format!("{name}.files")), LIST).unwrap();
        }
        std::fs::write(folder.join("a.wav"), "abc").unwrap();
        std::fs::write(folder.join("b.wav"), "").unwrap();
        std::fs::write(folder.join(RECORD), serde_json::to_vec(&record(sets)).unwrap()).unwrap();
        dir
    }

    fn rows(data: &Path, split: Option<&str>) -> Vec<String> {
        let choice = Choice { split, ..Choice::default() };
        let data = Dataset::choose(data, None, &choice).unwrap();
        data.rows().unwrap().map(|row| row.unwrap().value["id"].to_string()).collect()
    }

    #[test]
    fn prepared_rows_go_before_published_ones_and_name_media_from_the_data_folder() {
        let dir = prepared(&[("test", "{\"id\": 1}\n")]);
        std::fs::write(dir.path().join("test.jsonl"), "{\"id\": 2}\n").unwrap();
        assert_eq!(rows(dir.path(), None), ["1"]);
        let file = dir.path().join("prepared/test.jsonl");
        let data = Dataset::open(&file, None).unwrap();
        assert_eq!(data.media("prepared/a.wav").unwrap().file(), dir.path().join("prepared/a.wav"));
        // Half a set is none: without its record the published rows are read.
        std::fs::remove_file(dir.path().join("prepared/prepare.json")).unwrap();
        assert_eq!(rows(dir.path(), None), ["2"]);
    }

    #[test]
    fn languages_are_read_one_after_the_other_or_by_name() {
        let dir = prepared(&[("b_Latn", "{\"id\": 2}\n"), ("a_Latn", "{\"id\": 1}\n")]);
        assert_eq!(rows(dir.path(), None), ["1", "2"]);
        assert_eq!(rows(dir.path(), Some("b_Latn")), ["2"]);
    }

    #[test]
    fn a_part_of_the_languages_does_not_pass_for_all() {
        let dir = prepared(&[("aaa_Latn", "{\"id\": 1}\n"), ("bbb_Latn", "{\"id\": 2}\n")]);
        for (name, content) in [
            ("lang=aaa_Latn/aaa_Latn.parquet", "abc"),
            ("lang=ccc_Latn/ccc_Latn.parquet", "abc"),
            ("data/lang=ddd_Arab/ddd_Arab^.parquet", "abc"),
            ("text/ccc_Latn.jsonl", "{}"),
            ("view_200.parquet", "abc"),
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let error = |choice: Choice<'_>| Dataset::choose(dir.path(), None, &choice).unwrap_err().to_string();
        let all = error(Choice::default());
        let left = "nothing was prepared of lang=ccc_Latn/ccc_Latn.parquet, data/lang=ddd_Arab/ddd_Arab^.parquet, which";
        assert!(all.contains(left), "{all}");
        assert!(all.ends_with(&format!("harness prepare b --data {}`", dir.path().display())), "{all}");
        let some = error(Choice { sets: &["aaa_Latn", "ccc_Latn"], ..Choice::default() });
        assert!(
            some.contains("nothing was prepared of ccc_Latn: ") && some.ends_with("--languages ccc_Latn`"),
            "{some}"
        );
        // Who names what is there, or looks at whatever is there, gets it.
        for choice in [
            Choice { sets: &["bbb_Latn"], ..Choice::default() },
            Choice { lenient: true, ..Choice::default() },
        ] {
            let data = Dataset::choose(dir.path(), None, &choice).unwrap();
            assert_eq!(data.rows().unwrap().count(), if choice.lenient { 2 } else { 1 });
        }
        assert_eq!(rows(dir.path(), Some("aaa_Latn")), ["1"]);
    }

    #[test]
    fn media_that_are_short_or_gone_do_not_count_as_whole() {
        let dir = prepared(&[("test", "{\"id\": 1}\n")]);
        let error = |data: &Path| Dataset::open(data, None).unwrap_err().to_string();
        std::fs::write(dir.path().join("prepared/a.wav"), "ab").unwrap();
        let short = error(dir.path());
        assert!(
            short.contains("prepared/a.wav has 2 bytes instead of 3") && short.contains("harness prepare b"),
            "{short}"
        );
        assert_eq!(error(&dir.path().join("prepared/test.jsonl")), short, "the rows may be named themselves");
        std::fs::remove_file(dir.path().join("prepared/b.wav")).unwrap();
        assert!(error(dir.path()).contains("instead of 3 (and 1 more)"));
        std::fs::write(dir.path().join("prepared/test.files"), "").unwrap();
        assert!(error(dir.path()).contains("is gone or is another list"));
        let lenient = Choice { lenient: true, ..Choice::default() };
        assert!(Dataset::choose(dir.path(), None, &lenient).is_ok());
    }

    #[test]
    fn edited_rows_of_the_same_size_are_refused() {
        let dir = prepared(&[("test", "{\"id\": 1}\n")]);
        let file = dir.path().join("prepared/test.jsonl");
        std::fs::write(&file, "{\"id\": 2}\n").unwrap();
        for (data, lenient) in [(dir.path(), false), (dir.path(), true), (file.as_path(), false)] {
            let choice = Choice { lenient, ..Choice::default() };
            let error = Dataset::choose(data, None, &choice).unwrap_err().to_string();
            assert!(
                error.contains("its content is another") && error.contains("harness prepare b"),
                "{error}"
            );
        }
    }

    #[test]
    fn rows_of_other_sources_are_refused() {
        let dir = prepared(&[("test", "{\"id\": 1}\n")]);
        std::fs::write(dir.path().join("x.parquet"), "abc").unwrap();
        assert_eq!(rows(dir.path(), None), ["1"]);
        std::fs::write(dir.path().join("x.parquet"), "abcd").unwrap();
        let error = Dataset::open(dir.path(), None).unwrap_err().to_string();
        assert!(error.contains("another x.parquet than the one that is there now"), "{error}");
        assert!(error.contains("harness prepare b --data"), "{error}");
        std::fs::remove_file(dir.path().join("x.parquet")).unwrap();
        std::fs::write(dir.path().join("prepared/test.jsonl"), "{}").unwrap();
        assert!(Dataset::open(dir.path(), None).unwrap_err().to_string().contains("its size is another"));
        let path = dir.path().join("prepared/prepare.json");
        for (text, expected) in [
            ("{", "not valid JSON"),
            ("{\"version\": 9}", "a newer harness"),
            ("{\"version\": 1}", "no version"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Dataset::open(dir.path(), None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
