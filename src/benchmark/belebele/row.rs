//! A row of 2M-Belebele: as `harness prepare` writes it, as the authors publish it, or of the text twin Belebele, which
//! has no recordings.

use serde_json::{Map, Value};

use crate::types::shown;

/// What a row asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The FLORES code of its language.
    pub(super) language: String,
    pub(super) link: String,
    /// Its number within the passage.
    pub(super) number: String,
    pub(super) passage: String,
    pub(super) question: String,
    pub(super) options: [String; 4],
    /// `A` to `D`.
    pub(super) gold: char,
    /// In the order of the passage; none in the text twin.
    pub(super) sentences: Vec<Sentence>,
    /// The recording of the question, where there is one.
    pub(super) question_audio: Option<String>,
    pub(super) option_audio: [Option<String>; 4],
}

/// A sentence of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) text: String,
    /// Its recordings, one a speaker.
    pub(super) clips: Vec<String>,
}

/// How much of a passage can be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    All,
    Some,
    None,
}

impl Heard {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Some => "some",
            Self::None => "none",
        }
    }
}

impl Row {
    pub(super) fn read(row: &Value) -> Result<Self, String> {
        let row = row.as_object().ok_or("a row must be a JSON object")?;
        let dialect = text(row, "dialect")?;
        let option = |number: usize| text(row, &format!("mc_answer{number}"));
        let audio = |number: usize| {
            row.get(&format!("answer_{number}_audio")).and_then(|value| clips_of(value).into_iter().next())
        };
        Ok(Self {
            language: dialect.trim_end_matches('^').to_owned(),
            link: text(row, "link")?,
            number: number(row.get("question_number")),
            passage: text(row, "flores_passage")?,
            question: text(row, "question")?,
            options: [option(1)?, option(2)?, option(3)?, option(4)?],
            gold: gold(row.get("correct_answer_num").unwrap_or(&Value::Null))?,
            sentences: sentences(row),
            question_audio: row.get("question_audio").and_then(|value| clips_of(value).into_iter().next()),
            option_audio: [audio(1), audio(2), audio(3), audio(4)],
        })
    }

    /// A hash that names the passage in its language and no other.
    pub(super) fn passage_id(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.link, &self.passage] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().chars().take(16).collect()
    }

    /// Unique within the data: language, passage, number of the question.
    pub(super) fn id(&self) -> String {
        format!("{}/{}/{}", self.language, self.passage_id(), self.number)
    }

    pub(super) fn heard(&self) -> Heard {
        let heard = self.sentences.iter().filter(|sentence| !sentence.clips.is_empty()).count();
        match heard {
            0 => Heard::None,
            n if n == self.sentences.len() => Heard::All,
            _ => Heard::Some,
        }
    }

    /// The recordings of question and options, where all are there.
    pub(super) fn spoken_question(&self) -> Option<(&str, [&str; 4])> {
        let [a, b, c, d] = &self.option_audio;
        Some((self.question_audio.as_deref()?, [a.as_deref()?, b.as_deref()?, c.as_deref()?, d.as_deref()?]))
    }
}

/// A text that is there. It may be empty where the data have it so, as single options are.
fn text(row: &Map<String, Value>, name: &str) -> Result<String, String> {
    match row.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) if name.starts_with("mc_answer") => Ok(number.to_string()),
        Some(other) => Err(format!("`{name}` must be a string, found {}", shown(&other.to_string()))),
        None => Err(format!("the row has no `{name}`: take rows of 2M-Belebele or Belebele")),
    }
}

/// A number as a name: 1, 1.0, "1" and "1.0" are the same.
fn number(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.trim().trim_end_matches(".0").to_owned(),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(value) if value.fract() == 0.0 => format!("{value:.0}"),
            _ => number.to_string(),
        },
        _ => String::new(),
    }
}

/// The letter of `correct_answer_num`, which counts from 1: "2", 2, 2.0 and "2.0" all are published somewhere.
pub(super) fn gold(value: &Value) -> Result<char, String> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(1.0) => Ok('A'),
        Some(2.0) => Ok('B'),
        Some(3.0) => Ok('C'),
        Some(4.0) => Ok('D'),
        _ => Err(format!("`correct_answer_num` must be 1, 2, 3 or 4, found {}", shown(&value.to_string()))),
    }
}

/// Sentences as they are prepared, or as they are published: texts in one list, recordings in another.
fn sentences(row: &Map<String, Value>) -> Vec<Sentence> {
    let said = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(Value::Array(sentences)) = row.get("sentences") {
        return sentences
            .iter()
            .map(|sentence| Sentence {
                text: said(sentence.get("text")),
                clips: sentence.get("segments").map(clips_of).unwrap_or_default(),
            })
            .collect();
    }
    let list = |name: &str| row.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (texts, segments) = (list("flores_sentences"), list("audio_segments"));
    (0..texts.len().max(segments.len()))
        .map(|number| Sentence {
            text: said(texts.get(number)),
            clips: segments.get(number).map(clips_of).unwrap_or_default(),
        })
        .collect()
}

/// The names of recordings: one, or a list of them; null and empty places are none.
fn clips_of(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(clip_in).collect(),
        other => clip_in(other).into_iter().collect(),
    }
}

fn clip_in(value: &Value) -> Option<String> {
    match value {
        Value::String(name) if !name.is_empty() => Some(name.clone()),
        Value::Object(fields) => {
            ["audio", "wav", "array", "bytes", "path"].iter().find_map(|name| clip_in(fields.get(*name)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row() -> Value {
        json!({"dialect": "amh_Ethi^", "link": "https://x", "question_number": 1, "flores_passage": "P. Q.",
            "question": "Why?", "mc_answer1": "a", "mc_answer2": "b", "mc_answer3": "c", "mc_answer4": "d",
            "correct_answer_num": "2"})
    }

    #[test]
    fn gold_is_read_in_all_its_forms_and_nothing_else_is() {
        for value in [json!("1"), json!(1), json!(1.0), json!("1.0")] {
            assert_eq!(gold(&value), Ok('A'), "{value}");
        }
        assert_eq!((gold(&json!(4)), gold(&json!("3.0"))), (Ok('D'), Ok('C')));
        for value in [json!(0), json!(5), json!("x"), json!(null), json!(1.5), json!([1])] {
            assert!(gold(&value).unwrap_err().contains("must be 1, 2, 3 or 4"), "{value}");
        }
    }

    #[test]
    fn rows_are_read_with_and_without_recordings() {
        let mut value = row();
        let plain = Row::read(&value).unwrap();
        assert_eq!((plain.language.as_str(), plain.gold, plain.heard()), ("amh_Ethi", 'B', Heard::None));
        assert_eq!(plain.spoken_question(), None);
        value["sentences"] = json!([
            {"text": "P.", "segments": [{"audio": "prepared/a.wav", "seconds": 1.0}, {"audio": "prepared/b.wav"}]},
            {"text": "Q.", "segments": []},
        ]);
        value["question_audio"] = json!(null);
        let heard = Row::read(&value).unwrap();
        assert_eq!(heard.sentences[0].clips, ["prepared/a.wav", "prepared/b.wav"]);
        assert_eq!(heard.heard(), Heard::Some);
        assert_eq!(heard.id(), plain.id(), "recordings name no row");
        value["sentences"][1]["segments"] = json!([{"audio": "prepared/c.wav"}]);
        value["question_audio"] = json!([{"audio": "q.wav"}]);
        for number in 1..=4 {
            value[format!("answer_{number}_audio")] = json!([{"audio": format!("{number}.wav")}]);
        }
        let full = Row::read(&value).unwrap();
        assert_eq!(full.heard(), Heard::All);
        assert_eq!(full.spoken_question(), Some(("q.wav", ["1.wav", "2.wav", "3.wav", "4.wav"])));
        value["answer_3_audio"] = json!([]);
        assert_eq!(Row::read(&value).unwrap().spoken_question(), None);
    }

    #[test]
    fn published_rows_are_read_as_well() {
        let mut value = row();
        value["flores_sentences"] = json!(["P.", "Q."]);
        value["audio_segments"] = json!([[{"metadata": {}, "audio": {"wav": "s.wav"}}], null]);
        let read = Row::read(&value).unwrap();
        assert_eq!(read.sentences[0], Sentence { text: "P.".into(), clips: vec!["s.wav".into()] });
        assert_eq!(read.sentences[1], Sentence { text: "Q.".into(), clips: vec![] });
    }

    #[test]
    fn questions_on_one_passage_differ_and_missing_fields_are_named() {
        let mut value = row();
        let first = Row::read(&value).unwrap();
        value["question_number"] = json!("2.0");
        let second = Row::read(&value).unwrap();
        assert_eq!(first.passage_id(), second.passage_id());
        assert_ne!(first.id(), second.id());
        value.as_object_mut().unwrap().remove("mc_answer3");
        assert!(Row::read(&value).unwrap_err().contains("no `mc_answer3`"));
    }
}
