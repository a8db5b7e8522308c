//! Which models the answers of a section are of, by what an endpoint says. It is asked for one: a name without a version,
//! or that of a deployment, hides which model that is, and it may change while a run goes on.

use std::collections::BTreeMap;

use crate::types::{Outcome, Response, counted};

/// Answers by the model that they are of.
#[derive(Clone, Debug, Default)]
pub(super) struct AnsweredAs {
    named: BTreeMap<String, u64>,
    /// Answers that name the model that was asked for, or none.
    asked: u64,
}

impl AnsweredAs {
    /// One response more.
    pub(super) fn take(&mut self, response: &Response) {
        match &response.answered_as {
            Some(model) => *self.named.entry(model.clone()).or_default() += 1,
            // A filter that stands before a model names none.
            None if response.outcome == Outcome::ContentFilter => {}
            None => self.asked += u64::from(response.outcome.is_answer()),
        }
    }

    /// Others more.
    pub(super) fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        for (model, count) in &other.named {
            *self.named.entry(model.clone()).or_default() += count;
        }
    }

    /// Answers by model, and none where all are of the one that was asked for, by this name.
    pub(super) fn by_model(self, asked: &str) -> BTreeMap<String, u64> {
        let Self { named: mut models, asked: count } = self;
        if count > 0 && !models.is_empty() {
            *models.entry(asked.to_owned()).or_default() += count;
        }
        models
    }
}

/// What is suspicious in that: answers of several models are no figures of one. `who` is asked.
pub(super) fn warning(who: &str, models: &BTreeMap<String, u64>) -> Option<String> {
    (models.len() > 1).then(|| {
        format!(
            "{who} answered as {} different models: {}; the figures are of a mixture: ask for one version by its name, \
             in a run of its own",
            models.len(),
            counted(models)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::testing;

    #[test]
    fn several_models_are_told_and_silence_is_the_one_asked_for() {
        let of = |said: &[(Outcome, Option<&str>)]| {
            let mut found = AnsweredAs::default();
            for (outcome, model) in said {
                let answered_as = model.map(str::to_owned);
                found.take(&Response { answered_as, ..testing::response(*outcome, "x") });
            }
            let mut sum = AnsweredAs::default();
            sum.add(&found);
            sum.by_model("m")
        };
        let ok = Outcome::Ok;
        assert_eq!(of(&[(ok, None), (ok, None)]), BTreeMap::new());
        let one = of(&[(ok, Some("m-1")), (Outcome::ContentFilter, None), (Outcome::RequestError, None)]);
        assert_eq!(one, BTreeMap::from([("m-1".to_owned(), 1)]));
        assert_eq!(warning("the endpoint", &one), None);
        let two = of(&[(ok, Some("m-1")), (ok, None), (ok, None)]);
        assert_eq!(two, BTreeMap::from([("m".to_owned(), 2), ("m-1".to_owned(), 1)]));
        let told = warning("the endpoint", &two).unwrap();
        assert!(told.starts_with("the endpoint answered as 2 different models: m (2), m-1 (1); "), "{told}");
    }
}
