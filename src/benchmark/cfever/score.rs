//! From findings on claims to figures, in percent, by label and by domain.

use std::collections::BTreeMap;

use super::NAME;
use crate::benchmark::{BenchmarkScores, ConditionCounts, MetricValue};
use crate::metric::fever::{
    CAP, Confusion, Gold, Label, PageFinding, PageTally, Prediction, RecipeTally, Sentence, Tally, f1,
    official, recipe, sentence_recall,
};
use crate::types::{Profile, Tags};

/// Right labels, of all claims.
pub(super) const LABEL_ACCURACY: &str = "label_accuracy";
/// Right labels with a whole set of evidence in the first five, of all claims.
pub(super) const FEVER_SCORE: &str = "fever_score";
/// The mean share of sentences that are evidence.
pub(super) const PRECISION: &str = "evidence_precision";
/// Verifiable claims with a whole set in the first five: the paper's sentence recall at 5.
pub(super) const RECALL: &str = "evidence_recall";
/// Of these two means.
pub(super) const F1: &str = "evidence_f1";
/// The recipe's score.
pub(super) const RECIPE_FEVER: &str = "fever_score_recipe";
/// The recipe's evidence recall.
pub(super) const RECIPE_RECALL: &str = "evidence_recall_recipe";
/// Of the claims that were given a label, those that have it.
pub(super) const LABEL_PRECISION: &str = "label_precision";
/// Of the precision and recall of a label.
pub(super) const LABEL_F1: &str = "label_f1";
/// The mean of these over the labels.
pub(super) const MACRO_F1: &str = "label_macro_f1";
/// Verifiable claims whose pages are among the first k.
pub(super) const PAGE_RECALL: &str = "document_recall";
/// The mean share of pages that are pages of evidence.
pub(super) const PAGE_PRECISION: &str = "document_precision";
/// Of these two.
pub(super) const PAGE_F1: &str = "document_f1";
/// Verifiable claims with a whole set among the first k sentences that the model was shown: nothing that it answers
/// can be strictly right beyond this.
pub(super) const CANDIDATE_RECALL: &str = "candidate_recall";
/// How replies were read, by rule; its counts are all there is to it.
pub(super) const REPLIES: &str = "replies";

/// The k of page retrieval; `None` is all pages.
const PAGE_KS: [Option<usize>; 6] = [Some(1), Some(3), Some(5), Some(7), Some(10), None];
/// The caps that figures are given for beside the five of [`CAP`]: those of the reference; `None` is none.
const CAPS: [Option<usize>; 3] = [Some(1), Some(3), None];
/// The k of sentences shown.
const SENTENCE_KS: [Option<usize>; 3] = [Some(CAP), Some(10), None];

/// The group of a k.
pub(super) fn of_k(k: Option<usize>) -> Tags {
    k.map(|k| ("k".to_owned(), k.to_string())).into_iter().collect()
}

/// What a label outside the three is called.
pub(super) const OTHER: &str = "other";

/// The sums over claims.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    all: Tally,
    capped: [Tally; CAPS.len()],
    recipe: RecipeTally,
    labels: BTreeMap<Label, Tally>,
    domains: BTreeMap<String, Tally>,
    confusion: Confusion,
    pages: [PageTally; PAGE_KS.len()],
    shown: [(u64, u64); SENTENCE_KS.len()],
}

impl Sheet {
    /// One claim more. `label` is the predicted one as far as it is one of the three.
    pub(super) fn add(
        &mut self,
        gold: &Gold<'_>,
        prediction: &Prediction<'_>,
        label: Option<Label>,
        domain: Option<&str>,
    ) {
        let found = official(gold, prediction, Some(CAP));
        self.all.add(&found);
        for (cap, tally) in CAPS.into_iter().zip(&mut self.capped) {
            tally.add(&official(gold, prediction, cap));
        }
        self.recipe.add(recipe(gold, prediction));
        self.labels.entry(gold.label).or_default().add(&found);
        self.confusion.add(gold.label, label);
        if let Some(domain) = domain {
            match self.domains.get_mut(domain) {
                Some(tally) => tally.add(&found),
                None => self.domains.entry(domain.to_owned()).or_default().add(&found),
            }
        }
    }

    /// The pages that were found for a claim: what came of the first k.
    pub(super) fn add_pages(&mut self, found: impl Fn(Option<usize>) -> Option<PageFinding>) {
        for (k, tally) in PAGE_KS.into_iter().zip(&mut self.pages) {
            tally.add(found(k));
        }
    }

    /// The sentences that the model was shown, the best first.
    pub(super) fn add_shown(&mut self, gold: &Gold<'_>, ranked: &[Sentence<'_>]) {
        for (k, (claims, found)) in SENTENCE_KS.into_iter().zip(&mut self.shown) {
            if let Some(whole) = sentence_recall(gold, ranked, k) {
                *claims += 1;
                *found += u64::from(whole);
            }
        }
    }

    /// The figures of a condition. Without evidence there is no FEVER Score: undecidable claims alone would have one.
    pub(super) fn metrics(&self, condition: &str, evidence: bool) -> Vec<MetricValue> {
        let mut list = List { condition, metrics: Vec::new() };
        list.tally(&self.all, &Tags::new(), evidence);
        if evidence && let Some((recall, fever)) = self.recipe.figures() {
            let none = Tags::new();
            list.evidence(&self.all, &none);
            for (cap, tally) in CAPS.into_iter().zip(&self.capped) {
                let cap = cap.map_or_else(|| "none".to_owned(), |cap| cap.to_string());
                let cap = Tags::from([("cap".to_owned(), cap)]);
                list.tally(tally, &cap, true);
                list.evidence(tally, &cap);
            }
            list.push(RECIPE_FEVER, &none, Some(fever), self.recipe.claims, &[("right", self.recipe.fever)]);
            let found = [("found", self.recipe.evidence)];
            list.push(RECIPE_RECALL, &none, Some(recall), self.recipe.claims, &found);
        }
        for (label, tally) in &self.labels {
            let group = Tags::from([("label".to_owned(), label.as_str().to_owned())]);
            list.tally(tally, &group, evidence);
            let (precision, recall) = self.confusion.class(*label);
            let n = self.confusion.claims(*label);
            let names = Label::ALL.map(Some).into_iter().chain([None]);
            let counts =
                names.map(|said| (said.map_or(OTHER, Label::as_str), self.confusion.of(*label, said)));
            list.push(LABEL_PRECISION, &group, precision, n, &counts.collect::<Vec<_>>());
            let f1 = recall.map(|recall| f1(precision.unwrap_or_default(), recall));
            list.push(LABEL_F1, &group, f1, n, &[]);
        }
        if self.all.claims > 0 {
            list.push(MACRO_F1, &Tags::new(), self.confusion.macro_f1(), self.all.claims, &[]);
        }
        for (domain, tally) in &self.domains {
            list.tally(tally, &Tags::from([("domain".to_owned(), domain.clone())]), evidence);
        }
        for (k, tally) in PAGE_KS.into_iter().zip(&self.pages) {
            if let Some((recall, precision, f1)) = tally.figures() {
                let group = of_k(k);
                list.push(PAGE_RECALL, &group, Some(recall), tally.claims, &[("found", tally.found)]);
                list.push(PAGE_PRECISION, &group, Some(precision), tally.claims, &[]);
                list.push(PAGE_F1, &group, Some(f1), tally.claims, &[]);
            }
        }
        for (k, (claims, found)) in SENTENCE_KS.into_iter().zip(self.shown) {
            if claims > 0 {
                let recall = found as f64 / claims as f64;
                list.push(CANDIDATE_RECALL, &of_k(k), Some(recall), claims, &[("found", found)]);
            }
        }
        list.metrics
    }
}

struct List<'a> {
    condition: &'a str,
    metrics: Vec<MetricValue>,
}

impl List<'_> {
    /// A figure from a fraction.
    fn push(&mut self, metric: &str, group: &Tags, value: Option<f64>, n: u64, counts: &[(&str, u64)]) {
        self.metrics.push(MetricValue {
            metric: metric.to_owned(),
            profile: metric.ends_with("_recipe").then_some(Profile::Recipe),
            condition: self.condition.to_owned(),
            group: group.clone(),
            value: value.map(|value| value * 100.0),
            n,
            counts: counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        });
    }

    /// Precision, recall and F1 of evidence.
    fn evidence(&mut self, tally: &Tally, group: &Tags) {
        let (figures, n) = (tally.figures().filter(|_| tally.verifiable > 0), tally.verifiable);
        self.push(PRECISION, group, figures.map(|figures| figures.precision), n, &[]);
        self.push(RECALL, group, figures.map(|figures| figures.recall), n, &[("found", tally.found)]);
        self.push(F1, group, figures.map(|figures| figures.f1), n, &[]);
    }

    fn tally(&mut self, tally: &Tally, group: &Tags, evidence: bool) {
        let Some(figures) = tally.figures() else { return };
        let n = tally.claims;
        self.push(LABEL_ACCURACY, group, Some(figures.label_accuracy), n, &[("right", tally.labels)]);
        if evidence {
            self.push(FEVER_SCORE, group, Some(figures.strict), n, &[("right", tally.strict)]);
        }
    }
}

/// A figure that is counts alone: how replies were read.
pub(super) fn replies(condition: &str, counts: BTreeMap<String, u64>, n: u64) -> MetricValue {
    MetricValue {
        metric: REPLIES.to_owned(),
        profile: None,
        condition: condition.to_owned(),
        group: Tags::new(),
        value: None,
        n,
        counts,
    }
}

/// The scores of a section.
pub(super) fn scores_of(
    profile: Profile,
    conditions: Vec<ConditionCounts>,
    metrics: Vec<MetricValue>,
    warnings: Vec<String>,
) -> BenchmarkScores {
    BenchmarkScores {
        label: NAME.to_owned(),
        benchmark: NAME.to_owned(),
        profile,
        conditions,
        metrics,
        warnings,
        ..BenchmarkScores::default()
    }
}
