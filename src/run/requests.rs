//! What a generate stage walks, wherever its requests come from: a plan, a plan with transcripts in place of clips, or what a
//! judge is asked.

use super::plan::{PlanError, PlannedRequest, Recipe};
use crate::dataset::Dataset;
use crate::types::{Digest, Outcome};

/// Requests that a stage works through.
pub trait Requests: Send + Sync {
    /// What they have in common.
    fn recipe(&self) -> &Recipe;

    /// Walks them in order. `visit` returns `false` to stop.
    fn each(&self, visit: &mut dyn FnMut(PlannedRequest) -> bool) -> Result<(), PlanError>;

    /// The data of a section, where its requests hold clips or images.
    fn dataset(&self, section: usize) -> Option<&Dataset>;

    /// What is known of a request that is not asked: what an earlier stage owes it is not there, or is its answer.
    fn settled(&self, _request: &PlannedRequest) -> Option<Settled> {
        None
    }
}

/// What comes of a request that never reaches the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// What came of it.
    pub outcome: Outcome,
    /// The answer; empty for failures.
    pub text: String,
    /// The sentence of a failure.
    pub error: Option<String>,
    /// Keys of the responses that an answer is made of; they stand in its own key for its media.
    pub made_of: Vec<Digest>,
}

impl Settled {
    /// A failure.
    pub fn failed(outcome: Outcome, error: impl Into<String>) -> Self {
        Self { outcome, text: String::new(), error: Some(error.into()), made_of: Vec::new() }
    }
}
