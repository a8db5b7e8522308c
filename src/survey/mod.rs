//! What is in data: rows by the columns that group them, clips by length and format, images by size, what is missing,
//! and how the whole differs from what is published. Headers are read, nothing is decoded.
//!
//! It knows no protocol: which columns group rows is a list of names, and a medium is what a dataset names as one. It
//! must not know codecs, models or runs.

mod look;
mod spoken;

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::benchmark::sources::Expect;
use crate::benchmark::{DataCheck, LookAtMedia as _};
use crate::dataset::{Dataset, DatasetError};
use crate::media::{self, Cause, Facts, MediaSource};
use crate::types::shown;

pub use spoken::Spoken;

/// Columns that group rows.
const GROUPS: [&str; 9] =
    ["language", "dialect", "lang", "split", "set", "category", "label", "source", "domain"];
/// Values of a column that are told apart; of a column with more, only their number is told.
const VALUES: usize = 200;
/// Problems that are named.
const NAMED: usize = 10;
/// The longest clip that the encoders of most models take, in seconds.
const LONG: f64 = 30.0;
/// Keys whose text is the name of a clip or image, whatever it looks like.
const MEDIA: [&str; 4] = ["audio", "image", "images", "wav"];
/// Fields of a structure in which a clip may stand.
const CLIP: [&str; 5] = ["audio", "wav", "array", "bytes", "path"];

/// What is in data.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// Rows that could be read.
    pub rows: u64,
    /// Rows that could not.
    pub unreadable: u64,
    /// Rows by value of each column that groups them.
    pub by: BTreeMap<String, BTreeMap<String, u64>>,
    /// Clips.
    pub audio: Clips,
    /// Images.
    pub images: Images,
    /// How much of passages is recorded, where rows hold passages by sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spoken: Option<Spoken>,
    /// Media that are named and not there.
    pub missing: u64,
    /// Media that are there and cannot be used.
    pub broken: u64,
    /// The first unreadable rows and missing or broken media, each a sentence.
    pub problems: Vec<String>,
    /// How the rows differ from the published ones; `None` where nothing is known of them.
    pub differs: Option<Vec<String>>,
}

/// Clips, each counted once however many rows name it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Clips {
    /// Clips.
    pub files: u64,
    /// Clips whose length is not told by their header, or that stand as lists of numbers in a file.
    pub unmeasured: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// The shortest, the 5th percentile, the median, the 95th and the longest, in seconds.
    pub quantiles: Option<[f64; 5]>,
    /// Clips longer than 30 seconds.
    pub over_30_s: u64,
    /// Clips by format, rate, channels and bits: `wav 16000 Hz mono 16 bit`.
    pub formats: BTreeMap<String, u64>,
}

/// Images, each counted once however many rows name it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Images {
    /// Images.
    pub files: u64,
    /// By format.
    pub formats: BTreeMap<String, u64>,
    /// The smallest and the largest, by pixels: width and height.
    pub sizes: Option<[(u32, u32); 2]>,
}

/// Looks at data one row at a time.
#[derive(Debug)]
pub struct Surveyor {
    survey: Survey,
    check: Option<DataCheck>,
    seen: HashSet<u64>,
    /// What preparing the data could not do.
    unprepared: Vec<String>,
    spoken: Spoken,
    lengths: Vec<f32>,
}

impl Surveyor {
    /// One that compares with what is expected of the rows.
    pub fn new(expect: Option<Expect>) -> Self {
        let check = expect.and_then(DataCheck::new);
        Self {
            survey: Survey::default(),
            check,
            seen: HashSet::new(),
            unprepared: Vec::new(),
            spoken: Spoken::default(),
            lengths: Vec::new(),
        }
    }

    /// Looks at all rows of a dataset, and at the headers of their media.
    pub fn add(&mut self, data: &Dataset, mut tell: impl FnMut(u64)) -> Result<(), DatasetError> {
        self.unprepared.extend(data.unprepared());
        for row in data.rows()? {
            match row {
                Ok(row) => self.row(data, &row.value),
                Err(error) => {
                    self.survey.unreadable += 1;
                    self.problem(error.to_string());
                }
            }
            tell(self.survey.rows + self.survey.unreadable);
        }
        Ok(())
    }

    fn problem(&mut self, problem: String) {
        if self.survey.problems.len() < NAMED {
            self.survey.problems.push(problem);
        }
    }

    fn row(&mut self, data: &Dataset, row: &Value) {
        self.survey.rows += 1;
        if let Some(check) = &mut self.check {
            check.add(row, data);
        }
        let Value::Object(fields) = row else { return };
        for name in GROUPS {
            let value = match fields.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
                _ => continue,
            };
            *self.survey.by.entry(name.to_owned()).or_default().entry(value).or_default() += 1;
        }
        // Rows that hold all languages have a column for each.
        let has_audio = |value: &Value| value.get("audio").is_some_and(|audio| !audio.is_null());
        for name in fields.iter().filter(|(_, value)| has_audio(value)).map(|(name, _)| name) {
            let languages = self.survey.by.entry("column with audio".to_owned()).or_default();
            *languages.entry(name.clone()).or_default() += 1;
        }
        self.spoken.add(fields);
        self.object(data, fields, false, true);
    }

    /// Looks at the media below a value; `named` says that the value stands where a medium must.
    fn media(&mut self, data: &Dataset, value: &Value, named: bool) {
        match value {
            Value::Null if named => self.nameless("null"),
            Value::String(name) if named && name.trim().is_empty() => self.nameless("an empty name"),
            Value::String(name) if named || data.is_media(name) => self.medium(data, name),
            Value::Array(items) if named && items.is_empty() => self.nameless("an empty list"),
            Value::Array(items) => items.iter().for_each(|item| self.media(data, item, named)),
            Value::Object(fields) => self.object(data, fields, named, false),
            _ => {}
        }
    }

    /// Looks at the media below an object, which may be a whole row.
    fn object(&mut self, data: &Dataset, fields: &Map<String, Value>, named: bool, is_row: bool) {
        let samples = ["wav", "array"].iter().find_map(|name| fields.get(*name)?.as_str());
        let rate = fields.get("sampling_rate").and_then(Value::as_f64);
        if let (Some(name), Some(rate)) = (samples, rate)
            && data.holds(name)
            && let Ok(source) = data.media(name)
        {
            if !self.is_new(&source, name) {
                return;
            }
            if let Some(sentence) = data.odd_samples(name) {
                // Nothing is wrong with a place that is null or empty, whatever the type of its column.
                if source.read().is_err_and(|error| error.cause == Cause::Nothing) {
                    return;
                }
                self.survey.broken += 1;
                return self.problem(format!("{}: {sentence}", shown(name)));
            }
            // To know how long it is, all of it would have to be decoded.
            self.survey.audio.files += 1;
            self.survey.audio.unmeasured += 1;
            let format = format!("list of numbers {rate} Hz mono");
            *self.survey.audio.formats.entry(format).or_default() += 1;
            return;
        }
        let rated = || named || fields.keys().any(|key| key.ends_with("rate"));
        let odd = |name: &str| fields.get(name).and_then(unread);
        if let Some(what) = odd("wav").or_else(|| odd("array").filter(|_| rated())) {
            self.survey.broken += 1;
            let row = self.survey.rows;
            return self.problem(format!(
                "row {row}: {what} where a clip should be named; samples are read from Parquet and Arrow files \
                 where `sampling_rate` stands beside `wav` or `array`, as floats or 16-bit integers"
            ));
        }
        // A structure of the `datasets` library: the bytes go before the path.
        let places = ["bytes", "path"].map(|name| fields.get(name));
        let is_text = |value: &&Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        let place = places.iter().flatten().copied().find(is_text).or(places[1]).or(places[0]);
        let samples = fields.contains_key("array") || fields.contains_key("wav");
        if let Some(place) = place.filter(|_| named && !samples) {
            return self.media(data, place, true);
        }
        let text = fields.get("text").and_then(Value::as_str).unwrap_or_default();
        for (key, field) in fields {
            // Sets whose questions are spoken or written have null in place of the sound of those that are written.
            let written = key == "audio" && field.is_null() && !is_row && !text.trim().is_empty();
            // Only where it stands: `audio` may be a structure with other text in it.
            self.media(data, field, MEDIA.contains(&key.as_str()) && !written);
        }
    }

    /// A place where a medium must be named, and none is.
    fn nameless(&mut self, what: &str) {
        self.survey.missing += 1;
        let row = self.survey.rows;
        self.problem(format!("row {row}: {what} where a clip or image should be named"));
    }

    /// Whether a medium was not met before: several datasets may use one name for different files.
    fn is_new(&mut self, source: &MediaSource, name: &str) -> bool {
        let mut hasher = blake3::Hasher::new();
        hasher.update(source.file().as_os_str().as_encoded_bytes());
        if source.is_embedded() {
            hasher.update(b"\0").update(name.as_bytes());
        }
        let hash = hasher.finalize();
        let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
        self.seen.insert(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    fn medium(&mut self, data: &Dataset, name: &str) {
        let source = match data.media(name) {
            Ok(source) => source,
            Err(error) => {
                self.survey.broken += 1;
                return self.problem(error.to_string());
            }
        };
        if !self.is_new(&source, name) {
            return;
        }
        let name = shown(name);
        if !source.file().exists() {
            self.survey.missing += 1;
            return self.problem(format!("{name}: is not there"));
        }
        match media::look(&source) {
            Err(sentence) => {
                self.survey.broken += 1;
                self.problem(format!("{name}: {sentence}"));
            }
            Ok(Facts::Image(image)) => {
                let images = &mut self.survey.images;
                images.files += 1;
                *images.formats.entry(image.format.to_owned()).or_default() += 1;
                let size = (image.width, image.height);
                let pixels = |(width, height): (u32, u32)| u64::from(width) * u64::from(height);
                let [small, large] = images.sizes.get_or_insert([size, size]);
                if pixels(size) < pixels(*small) {
                    *small = size;
                }
                if pixels(size) > pixels(*large) {
                    *large = size;
                }
            }
            Ok(Facts::Audio(audio)) => {
                let clips = &mut self.survey.audio;
                clips.files += 1;
                if audio.rate == 0 {
                    clips.unmeasured += 1;
                    *clips.formats.entry(audio.format).or_default() += 1;
                    return;
                }
                let channels = match audio.channels {
                    1 => "mono".to_owned(),
                    2 => "stereo".to_owned(),
                    n => format!("{n} channels"),
                };
                let format = format!("{} {} Hz {channels} {} bit", audio.format, audio.rate, audio.bits);
                *clips.formats.entry(format).or_default() += 1;
                let seconds = audio.frames as f64 / f64::from(audio.rate);
                clips.seconds += seconds;
                clips.over_30_s += u64::from(seconds > LONG);
                self.lengths.push(seconds as f32);
            }
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Survey {
        self.lengths.sort_by(f32::total_cmp);
        let last = self.lengths.len().saturating_sub(1);
        // The nearest rank.
        let at = |share: f64| {
            let rank = (share * self.lengths.len() as f64).ceil() as usize;
            self.lengths.get(rank.saturating_sub(1).min(last)).copied().map(f64::from)
        };
        let quantiles = [0.0, 0.05, 0.5, 0.95, 1.0].map(at);
        if let [Some(a), Some(b), Some(c), Some(d), Some(e)] = quantiles {
            let round = |seconds: f64| (seconds * 1000.0).round() / 1000.0;
            self.survey.audio.quantiles = Some([a, b, c, d, e].map(round));
        }
        for counts in self.survey.by.values_mut().filter(|counts| counts.len() > VALUES) {
            let (values, rows) = (counts.len(), counts.values().sum());
            *counts = BTreeMap::from([(format!("({values} values)"), rows)]);
        }
        self.survey.spoken = Some(self.spoken).filter(Spoken::is_any);
        let differs = self.check.map(DataCheck::finish);
        self.survey.differs = match (differs, self.unprepared.is_empty()) {
            (differs, true) => differs,
            (differs, false) => Some([differs.unwrap_or_default(), self.unprepared].concat()),
        };
        self.survey
    }
}

/// Of a list that no dataset took for a clip and that names none: what it holds. `None` for other values, and for lists that
/// hold nothing.
fn unread(value: &Value) -> Option<&'static str> {
    if value.is_array() && !is_name(value) { held(value) } else { None }
}

/// Whether a clip is named in a value, in any of the ways that are followed.
fn is_name(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => items.iter().any(is_name),
        Value::Object(fields) => CLIP.iter().any(|name| fields.get(*name).is_some_and(is_name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What a value that names no clip holds in place of one; `None` where it is null or empty.
fn held(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null | Value::String(_) => None,
        Value::Bool(_) => Some("booleans"),
        Value::Number(_) => Some("numbers"),
        Value::Array(items) => items.iter().find_map(held),
        Value::Object(fields) => {
            let mut places = CLIP.iter().filter_map(|name| fields.get(*name)).peekable();
            let is_held = if places.peek().is_some() {
                places.any(|place| held(place).is_some())
            } else {
                !fields.is_empty()
            };
            is_held.then_some("structures")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav(seconds: f64, rate: u32) -> Vec<u8> {
        let size = (seconds * f64::from(rate)) as u32 * 2;
        let mut out = b"RIFF".to_vec();
        out.extend((size + 36).to_le_bytes());
        out.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
        out.extend(rate.to_le_bytes());
        out.extend((rate * 2).to_le_bytes());
        out.extend(b"\x02\0\x10\0data");
        out.extend(size.to_le_bytes());
        out.resize(44 + size as usize, 0);
        out
    }

    #[test]
    fn clips_of_the_same_name_in_two_datasets_are_two_clips() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let mut surveyor = Surveyor::new(None);
        for (folder, seconds) in folders.iter().zip([1.0, 2.0]) {
            std::fs::write(folder.path().join("0.wav"), wav(seconds, 8000)).unwrap();
            std::fs::write(folder.path().join("test.jsonl"), "{\"audio\": \"0.wav\"}\n").unwrap();
            let data = Dataset::open(folder.path(), None).unwrap();
            surveyor.add(&data, |_| {}).unwrap();
            surveyor.add(&data, |_| {}).unwrap();
        }
        let audio = surveyor.finish().audio;
        assert_eq!((audio.files, audio.seconds), (2, 3.0));
    }

    #[test]
    fn what_stands_where_a_medium_must_is_one_whatever_it_looks_like() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("clip"), wav(1.0, 8000)).unwrap();
        let rows = [
            r#"{"audio": "clip", "note": null, "text": "", "caption": "clip"}"#,
            r#"{"audio": null}"#,
            r#"{"audio": " "}"#,
            r#"{"images": []}"#,
            r#"{"images": ["clip", ""]}"#,
            r#"{"image": {"bytes": null, "path": null}}"#,
            r#"{"audio": {"bytes": null, "path": "gone"}}"#,
            r#"{"audio": "/etc/hostname"}"#,
            r#"{"x": {"audio": "../../secret"}}"#,
            r#"{"wav": "no suffix"}"#,
            r#"{"audio": 7, "image": {"caption": "a clip"}}"#,
            r#"{"question": {"audio": null, "text": "Why?"}, "context": {"audio": "clip", "text": null}}"#,
            r#"{"question": {"audio": null, "text": " "}}"#,
            r#"{"audio": null, "text": "what is said"}"#,
            r#"{"x": [{"wav": [[0.5, 1]]}, {"array": [1], "sample_rate": 8000}, {"array": [1], "size": 1}]}"#,
        ];
        std::fs::write(dir.path().join("test.jsonl"), rows.join("\n")).unwrap();
        let mut surveyor = Surveyor::new(None);
        surveyor.add(&Dataset::open(dir.path(), None).unwrap(), |_| {}).unwrap();
        let survey = surveyor.finish();
        assert_eq!((survey.audio.files, survey.missing, survey.broken), (1, 9, 4), "{:?}", survey.problems);
        assert!(survey.problems[0].starts_with("row 2: null where a clip or image should be named"));
    }

    #[test]
    fn lists_that_are_no_samples_are_broken_and_empty_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let rows = [
            r#"{"audio": {"wav": [true, false], "sampling_rate": 16000}}"#,
            r#"{"audio": {"array": [{"value": 0.5}], "sampling_rate": 16000}}"#,
            r#"{"audio": {"wav": [null, {"left": 0.5, "right": 0.5}]}}"#,
            r#"{"audio": {"array": [], "sampling_rate": 16000}}"#,
            r#"{"audio": {"array": [[]], "sampling_rate": 16000}}"#,
            r#"{"array": [true], "size": 1}"#,
        ];
        std::fs::write(dir.path().join("test.jsonl"), rows.join("\n")).unwrap();
        let mut surveyor = Surveyor::new(None);
        surveyor.add(&Dataset::open(dir.path(), None).unwrap(), |_| {}).unwrap();
        let survey = surveyor.finish();
        assert_eq!((survey.rows, survey.broken), (6, 3), "{:?}", survey.problems);
        assert!(survey.problems[0].starts_with("row 1: booleans where a clip should be named"));
        assert!(survey.problems[1].starts_with("row 2: structures where a clip should be named"));
    }

    #[test]
    fn a_column_whose_audio_is_null_is_none_with_audio() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wav"), wav(1.0, 8000)).unwrap();
        let row =
            r#"{"context": {"audio": "a.wav", "text": null}, "answer": {"audio": null, "text": "Yes."}}"#;
        std::fs::write(dir.path().join("test.jsonl"), row).unwrap();
        let mut surveyor = Surveyor::new(None);
        surveyor.add(&Dataset::open(dir.path(), None).unwrap(), |_| {}).unwrap();
        let by = surveyor.finish().by;
        assert_eq!(by["column with audio"], BTreeMap::from([("context".to_owned(), 1)]));
    }

    #[test]
    fn rows_clips_images_and_what_is_missing_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (n, seconds) in [1.0, 2.0, 3.0, 31.0].into_iter().enumerate() {
            std::fs::write(path(&format!("{n}.wav")), wav(seconds, 8000)).unwrap();
        }
        std::fs::write(path("a.gif"), b"GIF89a\x6a\0\x38\0\0\0\0").unwrap();
        std::fs::write(path("cut.wav"), b"RIFF").unwrap();
        let rows = [
            r#"{"id": 1, "language": "x", "clips": ["0.wav", {"audio": "1.wav"}], "q": "What is a .wav file?"}"#,
            r#"{"id": 2, "language": "y", "clips": ["1.wav", "2.wav", "3.wav"], "page": "http://x/y.png"}"#,
            r#"{"id": 2, "language": "x", "image": "a.gif", "clips": ["gone.wav", "cut.wav", "../out.wav"]}"#,
            "{",
        ];
        std::fs::write(path("test.jsonl"), rows.join("\n")).unwrap();
        let expect = toml::from_str("rows = 3\nunique = ['id']").unwrap();
        let mut surveyor = Surveyor::new(Some(expect));
        surveyor.add(&Dataset::open(dir.path(), None).unwrap(), |_| {}).unwrap();
        let survey = surveyor.finish();
        assert_eq!((survey.rows, survey.unreadable, survey.missing, survey.broken), (3, 1, 1, 2));
        assert_eq!(survey.by["language"], BTreeMap::from([("x".to_owned(), 2), ("y".to_owned(), 1)]));
        let audio = &survey.audio;
        assert_eq!((audio.files, audio.unmeasured, audio.over_30_s, audio.seconds), (4, 0, 1, 37.0));
        assert_eq!(audio.quantiles, Some([1.0, 1.0, 2.0, 31.0, 31.0]));
        assert_eq!(audio.formats, BTreeMap::from([("wav 8000 Hz mono 16 bit".to_owned(), 4)]));
        assert_eq!((survey.images.files, survey.images.sizes), (1, Some([(106, 56), (106, 56)])));
        assert_eq!(survey.problems.len(), 4, "{:?}", survey.problems);
        assert_eq!(survey.differs, Some(vec!["a row has the id of another".to_owned()]));
    }
}
