//! The papers' figures: `results/published/<benchmark>.toml`, each with its source and status.
//!
//! The files are part of the program. This module knows no benchmark: models, conditions, metrics and groups are
//! names, the same ones that scores use.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use thiserror::Error;

use crate::types::Tags;

/// How far a published figure can be trusted, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// From the authors' own files or the paper itself.
    Primary,
    /// From others, not compared with the paper.
    Unverified,
    /// Our arithmetic on published figures.
    Derived,
}

impl Status {
    /// The word that tables show.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Unverified => "unverified",
            Self::Derived => "derived",
        }
    }
}

/// One published figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The paper's name of the model.
    pub model: String,
    /// The condition, by our name.
    pub condition: String,
    /// The metric, by our name.
    pub metric: String,
    /// What it is for: empty for the condition as a whole.
    pub group: Tags,
    /// The figure, in the unit of our metric.
    pub value: f64,
    /// Where it was found, in words.
    pub source: String,
    /// How far it can be trusted.
    pub status: Status,
    /// What there is to say about it.
    pub comment: Option<String>,
}

/// The published figures of one benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// The paper, in words.
    pub paper: String,
    figures: Vec<Figure>,
}

/// What can be wrong with a file of published figures.
#[derive(Debug, Error)]
pub enum PublishedError {
    /// Not the layout of such a file.
    #[error("not a file of published figures: {0}")]
    Layout(#[from] toml::de::Error),
    /// A figure of another benchmark.
    #[error("the file is of benchmark `{found}`, not of `{expected}`")]
    Benchmark {
        /// The benchmark that was asked for.
        expected: String,
        /// The benchmark that the file names.
        found: String,
    },
    /// A source that is not described.
    #[error("{figure} names the source `{source_key}`, which `sources` does not describe")]
    Source {
        /// The figure, in words.
        figure: String,
        /// The source that it names.
        source_key: String,
    },
    /// The same figure twice from one source.
    #[error("{0} is there twice from the same source: keep one")]
    Twice(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    benchmark: String,
    paper: String,
    sources: BTreeMap<String, Source>,
    figures: Vec<RawFigure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    status: Status,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFigure {
    model: String,
    condition: String,
    metric: String,
    #[serde(default)]
    group: Tags,
    value: f64,
    source: String,
    #[serde(default)]
    comment: Option<String>,
}

impl Published {
    /// The figures of a file's text.
    pub fn parse(benchmark: &str, text: &str) -> Result<Self, PublishedError> {
        let file: File = toml::from_str(text)?;
        if file.benchmark != benchmark {
            return Err(PublishedError::Benchmark { expected: benchmark.to_owned(), found: file.benchmark });
        }
        let mut seen = HashSet::new();
        let figures = file
            .figures
            .into_iter()
            .map(|raw| {
                let name =
                    format!("the figure {} {} {} {:?}", raw.model, raw.condition, raw.metric, raw.group);
                let Some(source) = file.sources.get(&raw.source) else {
                    return Err(PublishedError::Source { figure: name, source_key: raw.source });
                };
                if !seen.insert((name.clone(), raw.source)) {
                    return Err(PublishedError::Twice(name));
                }
                Ok(Figure {
                    model: raw.model,
                    condition: raw.condition,
                    metric: raw.metric,
                    group: raw.group,
                    value: raw.value,
                    source: source.text.clone(),
                    status: source.status,
                    comment: raw.comment,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { paper: file.paper, figures })
    }

    /// All figures, in file order.
    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// The models that have figures, in file order.
    pub fn models(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        self.figures.iter().map(|figure| figure.model.as_str()).filter(|model| seen.insert(*model)).collect()
    }

    /// A figure, from the source that is to be trusted most. The group must be exactly the one named.
    pub fn find(
        &self,
        model: &str,
        condition: &str,
        metric: &str,
        group: &[(&str, &str)],
    ) -> Option<&Figure> {
        self.figures
            .iter()
            .filter(|figure| {
                figure.model == model
                    && figure.condition == condition
                    && figure.metric == metric
                    && figure.group.len() == group.len()
                    && group.iter().all(|(key, wanted)| figure.group.get(*key).is_some_and(|v| v == wanted))
            })
            .min_by_key(|figure| figure.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_ccfqa_are_found_by_the_best_source() {
        let published = crate::benchmark::published("ccfqa").unwrap();
        assert_eq!(published.figures().len(), 275);
        let find = |model, condition, metric, group: &[_]| {
            published.find(model, condition, metric, group).map(|f| (f.value, f.status))
        };
        let omni = "Qwen2.5-Omni-7B";
        assert_eq!(find(omni, "xsqa", "f1_char_set", &[]), Some((38.5, Status::Primary)));
        assert_eq!(find(omni, "xsqa", "llm_accuracy", &[]), Some((29.6, Status::Primary)));
        assert_eq!(find(omni, "qa", "f1_char_set", &[]), Some((46.5, Status::Unverified)));
        let pair = [("tgt", "fra"), ("src", "yue")];
        assert_eq!(find(omni, "xsqa", "f1_char_set", &pair), Some((19.0, Status::Primary)));
        assert_eq!(find(omni, "xsqa", "f1_char_set_off_diagonal", &[]), Some((37.7, Status::Derived)));
        assert_eq!(find("Qwen2.5-Omni-3B", "xqa", "f1_char_set", &[]), None);
        assert_eq!(find("Qwen2-Audio", "sqa", "f1_char_set", &[]), Some((27.7, Status::Unverified)));
        assert_eq!(published.models().first(), Some(&"GPT-4o-mini"));
        let percent = |figure: &Figure| (0.0..=100.0).contains(&figure.value) && !figure.source.is_empty();
        assert!(published.figures().iter().all(percent));
    }

    #[test]
    fn benchmark_without_a_paper_has_none() {
        assert_eq!(crate::benchmark::published("manifest").unwrap().figures(), []);
    }

    #[test]
    fn wrong_files_get_a_sentence() {
        let file = |figures: &str| {
            let text = format!(
                "benchmark = \"b\"\npaper = \"p\"\nsources.s = {{ status = \"primary\", text = \"t\" }}\nfigures = [{figures}]"
            );
            Published::parse("b", &text).map_err(|e| e.to_string())
        };
        let one = r#"{ model = "m", condition = "c", metric = "x", value = 1, source = "s" }"#;
        assert_eq!(file(one).unwrap().figures().len(), 1);
        assert!(file(&format!("{one}, {one}")).unwrap_err().contains("is there twice"));
        assert!(file(&one.replace("\"s\"", "\"z\"")).unwrap_err().contains("`z`, which `sources` does not"));
        assert!(file(&one.replace("metric", "metrik")).unwrap_err().starts_with("not a file of"));
        assert!(Published::parse("a", "benchmark = \"b\"\npaper = \"\"\nfigures = []\n[sources]").is_err());
    }
}
