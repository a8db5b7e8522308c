//! Passages that are spoken sentence by sentence, as 2M-Belebele has them: how much of each was recorded, and from where
//! the recordings come. Rows as they are published and as they are prepared are read alike.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

/// What is recorded of passages, questions and answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spoken {
    /// Rows with all sentences of their passage recorded.
    pub all: u64,
    /// Rows with some.
    pub some: u64,
    /// Rows with none.
    pub none: u64,
    /// Recordings of sentences by where they come from; of some nothing is said.
    pub segments: BTreeMap<String, u64>,
    /// Rows with a recording by the column that holds it: `question_audio`, `answer_1_audio`…
    pub columns: BTreeMap<String, u64>,
}

impl Spoken {
    /// Looks at a row; one of another kind counts for nothing.
    pub(super) fn add(&mut self, row: &Map<String, Value>) {
        let list = |name: &str| row.get(name).and_then(Value::as_array);
        let (sentences, recorded): (usize, Vec<&Value>) = if let Some(sentences) = list("sentences") {
            (sentences.len(), sentences.iter().filter_map(|sentence| sentence.get("segments")).collect())
        } else if row.contains_key("audio_segments") {
            let segments: Vec<&Value> = list("audio_segments").into_iter().flatten().collect();
            (list("flores_sentences").map_or(0, Vec::len).max(segments.len()), segments)
        } else {
            return;
        };
        let clips = |value: &Value| match value {
            Value::Array(items) => items.iter().filter(|item| !item.is_null()).count(),
            value => usize::from(!value.is_null()),
        };
        let with = recorded.iter().filter(|value| clips(value) > 0).count();
        match with {
            0 => self.none += 1,
            n if n >= sentences => self.all += 1,
            _ => self.some += 1,
        }
        let segments =
            recorded.into_iter().filter_map(Value::as_array).flatten().filter(|item| !item.is_null());
        for segment in segments {
            *self.segments.entry(source(segment)).or_default() += 1;
        }
        for (column, value) in row.iter().filter(|(column, _)| column.ends_with("_audio")) {
            let is_clip = matches!(value, Value::Array(_) | Value::Object(_));
            if is_clip || value.is_null() {
                *self.columns.entry(column.clone()).or_default() += u64::from(clips(value) > 0);
            }
        }
    }

    /// Whether any row was of this kind.
    pub(super) fn is_any(&self) -> bool {
        self.all + self.some + self.none > 0
    }
}

/// Where a recording comes from, as the row says it.
fn source(segment: &Value) -> String {
    let said = segment.get("source").or_else(|| segment.get("metadata")?.get("source"));
    let said = said.and_then(Value::as_str).unwrap_or("not said");
    said.chars().take(40).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(rows: &[Value]) -> Spoken {
        let mut spoken = Spoken::default();
        for row in rows {
            spoken.add(row.as_object().unwrap());
        }
        spoken
    }

    #[test]
    fn published_and_prepared_rows_are_counted_alike() {
        let clip = |source: &str| json!({"metadata": {"source": source}, "audio": {"wav": "x#0.y"}});
        let row = |segments: Value, question: Value| {
            json!({"flores_sentences": ["a", "b"], "audio_segments": segments, "question_audio": question,
                   "unmatched_audio": true})
        };
        let published = of(&[
            row(json!([[clip("FLEURS"), clip("meta")], [clip("meta")]]), json!([clip("meta")])),
            row(json!([[clip("fleurs")], []]), json!(null)),
            row(json!([[clip("fleurs")]]), json!([])),
            row(json!([null, []]), json!(null)),
            row(json!(null), json!(null)),
        ]);
        assert_eq!((published.all, published.some, published.none), (1, 2, 2));
        let counts = |pairs: &[(&str, u64)]| pairs.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect();
        assert_eq!(published.segments, counts(&[("fleurs", 3), ("meta", 2)]));
        assert_eq!(published.columns, counts(&[("question_audio", 1)]));
        let clip = |source: Value| json!({"audio": "prepared/a.wav", "source": source});
        let sentence = |clips: Vec<Value>| json!({"text": "a", "segments": clips});
        let prepared = of(&[
            json!({"sentences": [sentence(vec![clip(json!("meta"))])], "answer_1_audio": [clip(json!(null))]}),
            json!({"sentences": [sentence(vec![]), sentence(vec![clip(json!(null))])]}),
        ]);
        assert_eq!((prepared.all, prepared.some, prepared.none), (1, 1, 0));
        assert_eq!(prepared.segments, counts(&[("meta", 1), ("not said", 1)]));
        assert_eq!(prepared.columns, counts(&[("answer_1_audio", 1)]));
        assert!(!of(&[json!({"question": "x", "audio": "a.wav"})]).is_any());
    }
}
