//! `scores.json`: the scores of a run on disk, with the version of their layout.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::benchmark::BenchmarkScores;
use crate::model::ModelIdentity;

/// The layout that this program writes and reads.
pub const SCORES_VERSION: u32 = 1;

/// The scores of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scores {
    /// The layout of the file: [`SCORES_VERSION`].
    pub version: u32,
    /// The run's name.
    pub run: String,
    /// The model that was evaluated.
    pub model: ModelIdentity,
    /// The scores, one for each `[[benchmark]]` section, in its order.
    pub benchmarks: Vec<BenchmarkScores>,
}

/// Why a file of scores cannot be read.
#[derive(Debug, Error)]
pub enum ScoresError {
    /// Not scores at all.
    #[error("not a file of scores: {0}; run `harness score` to write it again")]
    Layout(#[from] serde_json::Error),
    /// Written by a later version of the program.
    #[error(
        "written in layout {found}, and this program reads layout {SCORES_VERSION}: use the newer program that \
         wrote it, or run `harness score` to write it again with this one"
    )]
    Newer {
        /// The layout of the file.
        found: u32,
    },
    /// Written by an earlier version of the program.
    #[error(
        "written in the older layout {found}, and this program reads layout {SCORES_VERSION}: run `harness score` \
         to write it again"
    )]
    Older {
        /// The layout of the file.
        found: u32,
    },
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

impl Scores {
    /// Scores in the present layout.
    pub fn new(run: impl Into<String>, model: ModelIdentity, benchmarks: Vec<BenchmarkScores>) -> Self {
        Self { version: SCORES_VERSION, run: run.into(), model, benchmarks }
    }

    /// The scores of a file's text. The version is looked at before anything else.
    pub fn parse(text: &str) -> Result<Self, ScoresError> {
        let VersionOnly { version: found } = serde_json::from_str(text)?;
        match found.cmp(&SCORES_VERSION) {
            std::cmp::Ordering::Greater => Err(ScoresError::Newer { found }),
            std::cmp::Ordering::Less => Err(ScoresError::Older { found }),
            std::cmp::Ordering::Equal => Ok(serde_json::from_str(text)?),
        }
    }

    /// The text of the file, indented, with a line feed at its end.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::{ConditionCounts, MetricValue};
    use crate::types::{Outcome, Profile};

    fn scores() -> Scores {
        let mut counts = ConditionCounts::new("sqa");
        counts.count(Some(Outcome::ContentFilter));
        counts.count(None);
        let metric = MetricValue {
            metric: "f1_char_set".into(),
            profile: Some(Profile::Official),
            condition: "sqa".into(),
            group: [("src".to_owned(), "eng".to_owned())].into(),
            value: Some(44.0),
            n: 1,
            counts: [("pairs".to_owned(), 8)].into(),
        };
        let model = ModelIdentity {
            name: "m".into(),
            kind: "local".into(),
            model: "qwen2_audio".into(),
            revision: "r".into(),
            dtype: "f32".into(),
            device: "cpu".into(),
        };
        let benchmark =
            BenchmarkScores { conditions: vec![counts], metrics: vec![metric], ..BenchmarkScores::default() };
        Scores::new("demo", model, vec![benchmark])
    }

    #[test]
    fn what_is_written_is_read() {
        let text = scores().to_json().unwrap();
        assert_eq!(Scores::parse(&text).unwrap(), scores());
        assert!(text.contains("\"content_filter\": 1"));
    }

    #[test]
    fn other_layouts_are_refused_by_a_sentence() {
        let with = |version: u32| {
            let text =
                scores().to_json().unwrap().replacen("\"version\": 1", &format!("\"version\": {version}"), 1);
            Scores::parse(&text).unwrap_err().to_string()
        };
        assert!(with(2).starts_with("written in layout 2, and this program reads layout 1: use the newer"));
        assert!(with(0).starts_with("written in the older layout 0") && with(0).contains("harness score"));
        // A layout of the future may hold anything beside its version.
        assert!(matches!(Scores::parse("{\"version\": 9, \"x\": []}"), Err(ScoresError::Newer { found: 9 })));
        for text in ["", "[]", "{}", "{\"version\": -1}", "{\"version\": 1}"] {
            assert!(matches!(Scores::parse(text), Err(ScoresError::Layout(_))), "{text}");
        }
    }

    #[test]
    fn schema_names_the_version() {
        let schema = schemars::schema_for!(Scores).to_value();
        assert!(schema.pointer("/properties/version").is_some());
    }
}
