//! 2M-Belebele: a Parquet file a language, recordings as lists of numbers, by sentence and speaker.
//!
//! The README of facebookresearch/belebele names the columns but not their types, so whatever can be understood is
//! taken, and what cannot is a problem of its row, never a place without a recording. Passages are asked about once or
//! twice: their recordings have names by passage, so that each is one file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{At, CLIP, Found, Look, Made, Source, clip, missing, name_in, text};
use crate::benchmark::sources;
use crate::dataset::prepared::Sentences;
use crate::dataset::{Choice, Dataset};
use crate::prepare::PrepareError;
use crate::prepare::store::{STAYS, Saved, Store};
use crate::types::shown;

const NAME: &str = "2m-belebele";
const SEGMENTS: &str = "audio_segments";

/// Whether text is a code like `amh_Ethi`; some are published with a `^` at their end.
fn is_code(text: &str) -> bool {
    let lower = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
    text.split_once('_').is_some_and(|(language, script)| {
        let (head, rest) = script.split_at_checked(1).unwrap_or_default();
        language.len() == 3
            && lower(language)
            && script.len() == 4
            && head.bytes().all(|byte| byte.is_ascii_uppercase())
            && lower(rest)
    })
}

/// The files of languages, wherever the two publishers and a user may have put them.
fn files(data: &Path) -> BTreeMap<String, PathBuf> {
    let mut folders = vec![data.to_owned(), data.join("data")];
    for folder in folders.clone() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let hive = entries.map(|entry| entry.path()).filter(|path| {
            path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lang="))
        });
        folders.extend(hive);
    }
    let mut found = BTreeMap::new();
    for folder in folders {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let code = path.file_stem().map(|stem| stem.to_string_lossy().trim_end_matches('^').to_owned());
            let parquet = path.extension().is_some_and(|suffix| suffix == "parquet");
            if let Some(code) = code.filter(|code| parquet && is_code(code)) {
                found.entry(code).or_insert(path);
            }
        }
    }
    found
}

pub(super) fn look(data: &Path, languages: &[String]) -> Result<Look, PrepareError> {
    let files = files(data);
    let published = sources::sources(NAME)?.expect.languages;
    let missing_languages: Vec<&str> =
        languages.iter().filter(|code| !files.contains_key(*code)).map(String::as_str).collect();
    if let Some(code) = missing_languages.iter().find(|code| !published.iter().any(|known| known == **code)) {
        return Err(PrepareError::Languages(format!(
            "`{code}` is none of the published languages; they are {}",
            published.join(", ")
        )));
    }
    if !missing_languages.is_empty() || files.is_empty() {
        let (what, of) = match &*missing_languages {
            [] => ("no file of a language such as lang=amh_Ethi/amh_Ethi.parquet".to_owned(), String::new()),
            codes => {
                (format!("no file of {}", codes.join(", ")), format!(" --languages {}", codes.join(",")))
            }
        };
        let remedy = format!("get it with `harness fetch {NAME}{of}`, or name the folder with --data");
        return Err(missing(data, &what, NAME, remedy));
    }
    let wanted = files.into_iter().filter(|(code, _)| languages.is_empty() || languages.contains(code));
    let sets = wanted.map(|(name, path)| {
        let choice = Choice { published: true, ..Choice::default() };
        let dataset = Dataset::choose(&path, Some(data), &choice).map_err(|e| PrepareError::Data(e, NAME))?;
        Ok(Found { name, sources: vec![Source { label: None, dataset, in_place: true }] })
    });
    sets.collect::<Result<_, PrepareError>>().map(Look::Sets)
}

/// Where a recording came from, by whatever its metadata say.
fn origin(metadata: &Value) -> Option<&'static str> {
    let text = metadata.to_string().to_ascii_lowercase();
    ["fleurs", "meta"].into_iter().find(|name| {
        // A key called `metadata` says nothing.
        text.match_indices(name)
            .any(|(at, _)| !text.get(at..).is_some_and(|rest| rest.starts_with("metadata")))
    })
}

/// The number of an answer: 2, 2.0, "2" and "2.0" all are published somewhere.
fn answer(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    [1.0, 2.0, 3.0, 4.0].contains(&number).then_some(number as u64)
}

/// What a row says of a recording that its file does not bear out, in a sentence.
fn contradicts(item: &Value, saved: &Saved) -> Option<String> {
    let said = |name: &str| {
        let inner = ["audio", "wav"].iter().find_map(|key| item.get(*key)?.get(name));
        inner.or_else(|| item.get(name))
    };
    let rate = said("sampling_rate").and_then(Value::as_f64);
    if let Some((rate, found)) = rate.zip(saved.rate).filter(|(rate, found)| *rate != f64::from(*found)) {
        return Some(format!("the row says {rate} Hz, and the file has {found} Hz"));
    }
    let format = said("format").and_then(Value::as_str)?.trim_start_matches('.').to_ascii_lowercase();
    let found = saved.name.rsplit_once('.')?.1;
    let known = ["wav", "flac", "mp3", "ogg", "m4a"].contains(&&*format);
    (known && format != found).then(|| format!("the row says {format}, and the file is {found}"))
}

/// Whether nothing stands in the place of a recording: null or an empty list, in it or instead of it.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_absent),
        Value::Object(fields) => {
            let mut places = CLIP.iter().filter_map(|name| fields.get(*name)).peekable();
            if places.peek().is_some() { places.all(is_absent) } else { fields.is_empty() }
        }
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What a value is made of: `{wav: [number], rate: number}`.
fn form(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "text".to_owned(),
        Value::Array(items) => format!("[{}]", items.first().map(form).unwrap_or_default()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}: {}", form(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// What is said of a place that holds something else than a recording.
fn no_recording(place: &str, value: &Value) -> String {
    format!(
        "{place} holds {} in place of a recording; expected `wav` or `array` (a list of floats or 16-bit integers) with \
         `sampling_rate` beside it, the bytes of a file, or the name of one; {STAYS}",
        shown(&form(value))
    )
}

/// The recordings of a sentence, question or answer. `place` says where they stand.
fn clips(
    value: &Value,
    place: &str,
    stem: &str,
    with_origin: bool,
    store: &mut Store,
) -> Result<Value, PrepareError> {
    let one = std::slice::from_ref(value);
    let nothing = value.is_null() || value.as_str().is_some_and(str::is_empty);
    let items = match value {
        _ if nothing => {
            store.absent += u64::from(with_origin);
            return Ok(Value::Null);
        }
        Value::Array(items) => {
            // A sentence without any recording.
            store.absent += u64::from(with_origin && items.is_empty());
            items.as_slice()
        }
        // Not a list but the recording itself.
        _ => one,
    };
    let mut out = Vec::new();
    for (number, item) in items.iter().enumerate() {
        // Before its name is looked for: that may be an empty one.
        if is_absent(item) {
            store.absent += 1;
            continue;
        }
        let Some(name) = name_in(item) else {
            store.problems.push(no_recording(place, item));
            continue;
        };
        let stem = if with_origin || items.len() > 1 { format!("{stem}-{number}") } else { stem.to_owned() };
        let Some(saved) = store.keep(name, &stem)? else { continue };
        store.problems.extend(contradicts(item, &saved).map(|said| format!("{}: {said}", shown(name))));
        let mut clip = clip(saved);
        let metadata = item.get("metadata").filter(|metadata| !metadata.is_null());
        if with_origin {
            clip.insert("source".to_owned(), metadata.and_then(origin).into());
        }
        if let Some(metadata) = metadata {
            clip.insert("metadata".to_owned(), metadata.clone());
        }
        out.push(Value::Object(clip));
    }
    Ok(Value::Array(out))
}

/// The passage of a row that was made, and what is recorded of its sentences.
pub(super) fn sentences(row: &Value) -> Option<(String, Sentences)> {
    let mut found = Sentences::default();
    for sentence in row.get("sentences")?.as_array()? {
        match sentence.get("segments").and_then(Value::as_array).map_or(0, Vec::len) {
            0 => found.missing += 1,
            recordings => {
                found.recorded += 1;
                // Each speaker has a recording of their own.
                found.several += u64::from(recordings > 1);
            }
        }
    }
    let field = |name: &str| row.get(name).and_then(text).unwrap_or_default();
    Some((format!("{}\0{}", field("link"), field("flores_passage")), found))
}

pub(super) fn row(row: &Map<String, Value>, at: At<'_>, store: &mut Store) -> Result<Made, PrepareError> {
    let field = |name: &str| row.get(name).and_then(text).unwrap_or_default();
    let (link, passage, number) = (field("link"), field("flores_passage"), field("question_number"));
    let dialect = field("dialect");
    if !dialect.is_empty() && dialect.trim_end_matches('^') != at.set {
        let sentence = format!("row {}: its dialect is {}, not {}", at.row, shown(&dialect), at.set);
        store.problems.push(sentence);
    }
    let hash = blake3::hash(format!("{link}\0{passage}").as_bytes()).to_hex();
    let stem = hash.get(..8).unwrap_or(&hash).to_owned();
    let mut out = Map::new();
    for (name, value) in row {
        let short = match &**name {
            SEGMENTS => continue,
            "correct_answer_num" => {
                let found = answer(value);
                if found.is_none() {
                    let found = value.to_string();
                    let sentence =
                        format!("row {}: correct_answer_num is {}, not 1 to 4", at.row, shown(&found));
                    store.problems.push(sentence);
                }
                out.insert(name.clone(), found.map_or_else(|| value.clone(), Value::from));
                continue;
            }
            "question_audio" => Some("q".to_owned()),
            name => name
                .strip_prefix("answer_")
                .and_then(|rest| rest.strip_suffix("_audio"))
                .filter(|digit| ["1", "2", "3", "4"].contains(digit))
                .map(|digit| format!("a{digit}")),
        };
        let value = match short {
            Some(short) => {
                let number = super::super::store::plain(&number);
                let place = format!("row {}: {name}", at.row);
                clips(value, &place, &format!("{stem}-{number}{short}"), false, store)?
            }
            None => value.clone(),
        };
        out.insert(name.clone(), value);
    }
    let none = Vec::new();
    let list = |name: &str| row.get(name).and_then(Value::as_array).unwrap_or(&none);
    let (texts, segments) = (list("flores_sentences"), list(SEGMENTS));
    let place = format!("row {}: {SEGMENTS}", at.row);
    if let Some(other) = row.get(SEGMENTS).filter(|value| !value.is_null() && !value.is_array()) {
        store.problems.push(no_recording(&place, other));
    }
    if !texts.is_empty() && !segments.is_empty() && texts.len() != segments.len() {
        let sentence =
            format!("row {}: {} sentences, but recordings of {}", at.row, texts.len(), segments.len());
        store.problems.push(sentence);
    }
    let mut sentences = Vec::new();
    for number in 0..texts.len().max(segments.len()) {
        let mut sentence = Map::new();
        sentence.insert("text".to_owned(), texts.get(number).cloned().unwrap_or(Value::Null));
        let recordings = segments.get(number).unwrap_or(&Value::Null);
        let clips = match clips(recordings, &place, &format!("{stem}-s{number:02}"), true, store)? {
            Value::Null => Value::Array(Vec::new()),
            clips => clips,
        };
        sentence.insert("segments".to_owned(), clips);
        sentences.push(Value::Object(sentence));
    }
    out.insert("sentences".to_owned(), Value::Array(sentences));
    let key = serde_json::to_string(&[&dialect, &link, &passage, &number]).unwrap_or_default();
    Ok(Made { row: Value::Object(out), key })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_are_told_from_other_names() {
        for code in ["amh_Ethi", "zho_Hans"] {
            assert!(is_code(code), "{code}");
        }
        for other in ["test", "ary_arab", "amh_Ethiop", "am_Ethi", "AMH_Ethi", "amh_éthi", "_", ""] {
            assert!(!is_code(other), "{other}");
        }
    }

    #[test]
    fn answers_are_read_in_all_their_forms() {
        for value in [json!("2"), json!(2), json!(2.0), json!("2.0"), json!(" 2")] {
            assert_eq!(answer(&value), Some(2), "{value}");
        }
        for value in [json!("0"), json!(5), json!("B"), json!(1.5), json!(null), json!([2])] {
            assert_eq!(answer(&value), None, "{value}");
        }
    }

    #[test]
    fn a_file_that_is_not_as_its_row_says_is_told() {
        let saved = |name: &str, rate| Saved { name: name.to_owned(), seconds: None, rate };
        let item = json!({"audio": {"wav": "x", "sampling_rate": 16000, "format": "WAV"}});
        assert_eq!(contradicts(&item, &saved("a/b.wav", Some(16000))), None);
        let said = contradicts(&item, &saved("a/b.wav", Some(48000))).unwrap();
        assert_eq!(said, "the row says 16000 Hz, and the file has 48000 Hz");
        let said = contradicts(&item, &saved("a/b.flac", Some(16000))).unwrap();
        assert_eq!(said, "the row says wav, and the file is flac");
        let bare = json!({"audio": {"bytes": "x"}, "sampling_rate": 8000});
        assert!(contradicts(&bare, &saved("a.wav", Some(16000))).is_some());
        assert_eq!(contradicts(&json!({"audio": {"bytes": "x"}}), &saved("a.wav", Some(16000))), None);
        assert_eq!(contradicts(&json!("x"), &saved("a.mp3", None)), None);
    }

    #[test]
    fn only_null_and_empty_places_are_without_a_recording() {
        for absent in [
            json!(null),
            json!([]),
            json!({"audio": null, "metadata": {"speaker": 1}}),
            json!({"audio": {"wav": null, "sampling_rate": 16000}}),
            json!({"audio": {"wav": [], "sampling_rate": 16000}}),
            json!({"bytes": null, "path": null}),
        ] {
            assert!(is_absent(&absent), "{absent}");
        }
        for held in [
            json!({"audio": {"wav": [0.5], "sample_rate": 16000}}),
            json!({"audio": {"wav": [[0.5]]}}),
            json!({"speech": {"wav": null}}),
            json!({"audio": {"samples": [1]}}),
            json!([{"wav": "a.wav"}]),
            json!(7),
        ] {
            assert!(!is_absent(&held), "{held}");
        }
        let said = no_recording("row 1: x", &json!({"audio": {"wav": [[0.5]]}, "n": null, "t": ["a"]}));
        assert!(
            said.starts_with("row 1: x holds {audio: {wav: [[number]]}, n: null, t: [text]} in "),
            "{said}"
        );
    }

    #[test]
    fn sentences_are_recorded_missing_or_read_by_several() {
        let clips = |n: usize| json!({"text": "a", "segments": vec![json!({"audio": "a.wav"}); n]});
        let row = json!({"link": "l", "flores_passage": "p", "question_number": 2,
                         "sentences": [clips(1), clips(0), clips(3), clips(2), {"text": "b"}]});
        let (passage, found) = sentences(&row).unwrap();
        assert_eq!(passage, "l\0p");
        assert_eq!(found, Sentences { recorded: 3, missing: 2, several: 2 });
        assert_eq!(sentences(&json!({"audio": "x"})), None);
    }

    #[test]
    fn origins_are_found_in_any_metadata() {
        assert_eq!(origin(&json!({"source": "FLEURS", "speaker": 1})), Some("fleurs"));
        assert_eq!(origin(&json!({"a": ["meta_0012.wav"]})), Some("meta"));
        assert_eq!(origin(&json!("{'metadata': 1}")), None);
        assert_eq!(origin(&json!({"speaker": 1})), None);
    }
}
