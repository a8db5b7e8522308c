//! The keys of `2m-belebele`: examples, seeds, and how the sentences of a passage become what is heard.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::belebele::{Layout, MissingSentence, ShotsAs, Speaker};

/// What only `2m-belebele` has: examples, seeds, and how the sentences of a passage become what is heard.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawBelebele {
    /// The file that examples are drawn from, as `assemble_training_set.py` of facebookresearch/belebele makes it.
    /// `belebele_training_set.tsv` in the data folder by default.
    #[schemars(length(min = 1), example = &"../data/belebele/belebele_training_set.tsv")]
    pub shots_file: Option<String>,
    /// Whether examples stand in the message of the question, or are turns of the conversation.
    #[schemars(extend("default" = "single_message"), example = &"turns")]
    pub shots_as: Option<ShotsAs>,
    /// The seeds, one run each; figures are their mean. Where nothing depends on them (no examples, temperature 0) the
    /// first one alone is run.
    #[schemars(
        length(min = 1),
        inner(range(min = 0, max = 9_223_372_036_854_775_807_i64)),
        extend("default" = [0, 1, 2], "uniqueItems" = true),
        example = [0, 1, 2]
    )]
    pub seeds: Option<Vec<u64>>,
    /// The layout of the question: `hash` with headings behind `###`, or `pq` with `P:` and `Q:`.
    #[schemars(extend("default" = "hash"), example = &"pq")]
    pub template: Option<Layout>,
    /// Which of several speakers of a sentence is heard: the first, or one that is drawn by seed and sentence.
    #[schemars(extend("default" = "first"), example = &"seeded")]
    pub speaker: Option<Speaker>,
    /// Milliseconds of silence between the sentences of a passage.
    #[schemars(range(min = 0, max = 10_000), extend("default" = 0), example = 200)]
    pub gap_ms: Option<u64>,
    /// What becomes of a passage of which a sentence has no recording: `skip` leaves the sentence out, `drop_row` the
    /// question, and `text` gives the sentence as text (for cascades alone).
    #[schemars(extend("default" = "skip"), example = &"drop_row")]
    pub missing: Option<MissingSentence>,
    /// Whether the official reading takes off "The correct answer is " first, as the authors did at times.
    #[schemars(extend("default" = false), example = true)]
    pub strip_prefix: Option<bool>,
}
