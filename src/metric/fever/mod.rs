//! FEVER's figures of claim verification, as CFEVER has them: label accuracy, FEVER Score, evidence precision, recall
//! and F1, document recall, and the confusion of labels.
//!
//! A claim is supported, refuted or undecidable. Its gold is a list of sets of sentences: sets are alternatives, the
//! sentences of a set are all needed. A prediction is a label and a list of sentences, the best first. There are two
//! readings: [`official`] (`fever-scorer` 2.0.39 and CFEVER's own script, which agree) and [`recipe`]; they differ in
//! the match, the cap, and what an undecidable claim counts. Strings are compared as they are: titles are neither
//! folded nor converted. All figures are fractions from 0 to 1.

pub mod reply;

use std::borrow::Cow;
use std::collections::HashSet;

/// Sentences of a prediction that the official scorer looks at.
pub const CAP: usize = 5;

/// What can be said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// The evidence bears it out.
    Supports,
    /// The evidence contradicts it.
    Refutes,
    /// Neither.
    NotEnoughInfo,
}

impl Label {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Supports, Self::Refutes, Self::NotEnoughInfo];

    /// The spelling of the data.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Supports => "supports",
            Self::Refutes => "refutes",
            Self::NotEnoughInfo => "NOT ENOUGH INFO",
        }
    }

    /// The label of the data's spelling, and of no other.
    pub fn exact(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.as_str() == text)
    }

    /// The label that the official scorer takes a text for: compared in upper case, nothing trimmed.
    pub fn upper(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.is_upper(text))
    }

    fn is_upper(self, text: &str) -> bool {
        let own = self.as_str();
        // Upper case can make ASCII of other letters: `ſ` is `S`.
        own.eq_ignore_ascii_case(text)
            || (!text.is_ascii() && text.to_uppercase() == own.to_ascii_uppercase())
    }

    /// Whether its claims have evidence.
    pub fn is_verifiable(self) -> bool {
        self != Self::NotEnoughInfo
    }

    fn index(self) -> usize {
        match self {
            Self::Supports => 0,
            Self::Refutes => 1,
            Self::NotEnoughInfo => 2,
        }
    }
}

/// A sentence: the title of its page and its number there, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sentence<'a> {
    /// The title, as the data write it.
    pub page: Cow<'a, str>,
    /// The number.
    pub line: i64,
}

impl<'a> Sentence<'a> {
    /// A sentence of a page.
    pub fn new(page: impl Into<Cow<'a, str>>, line: i64) -> Self {
        Self { page: page.into(), line }
    }
}

/// What is known of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gold<'a> {
    /// The label.
    pub label: Label,
    /// Sets of sentences, each of which is enough. None for an undecidable claim.
    pub sets: Vec<Vec<Sentence<'a>>>,
}

impl Gold<'_> {
    /// The pages of its evidence.
    fn pages(&self) -> HashSet<&str> {
        self.sets.iter().flatten().map(|sentence| &*sentence.page).collect()
    }
}

/// What a system says of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction<'a> {
    /// The label, as it was given.
    pub label: Cow<'a, str>,
    /// The sentences, the best first.
    pub evidence: Vec<Sentence<'a>>,
}

/// What the official scorer finds in one claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The label is right.
    pub label: bool,
    /// The label is right, and of a verifiable claim at least one set is there as a whole.
    pub strict: bool,
    /// Of a verifiable claim: the share of the sentences that are in any set; 1 of none.
    pub precision: Option<f64>,
    /// Of a verifiable claim: whether at least one set is there as a whole.
    pub recall: Option<bool>,
}

/// The official reading. `cap`: how many sentences count, in list order, before anything else is done to them; all
/// where it is `None`. Repeated sentences count each time.
pub fn official(gold: &Gold<'_>, prediction: &Prediction<'_>, cap: Option<usize>) -> Finding {
    let evidence = capped(&prediction.evidence, cap);
    let label = gold.label.is_upper(&prediction.label);
    if !gold.label.is_verifiable() {
        return Finding { label, strict: label, precision: None, recall: None };
    }
    let right = evidence.iter().filter(|sentence| gold.sets.iter().any(|set| set.contains(sentence))).count();
    let precision = if evidence.is_empty() { 1.0 } else { right as f64 / evidence.len() as f64 };
    let complete = gold.sets.iter().any(|set| is_within(set, evidence));
    // As the scorer has it: nothing to be found is found, and yet such a claim is never strictly right.
    let recall = complete || gold.sets.iter().all(Vec::is_empty);
    Finding { label, strict: label && complete, precision: Some(precision), recall: Some(recall) }
}

fn capped<T>(list: &[T], cap: Option<usize>) -> &[T] {
    cap.and_then(|cap| list.get(..cap)).unwrap_or(list)
}

fn is_within(set: &[Sentence<'_>], evidence: &[Sentence<'_>]) -> bool {
    set.iter().all(|sentence| evidence.contains(sentence))
}

/// Of a verifiable claim: whether the first `k` of ranked sentences hold a set as a whole. With `k` 5 it is the
/// sentence recall of the paper.
pub fn sentence_recall(gold: &Gold<'_>, ranked: &[Sentence<'_>], k: Option<usize>) -> Option<bool> {
    let found = capped(ranked, k);
    gold.label.is_verifiable().then(|| gold.sets.iter().any(|set| is_within(set, found)))
}

/// What the recipe finds in one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeFinding {
    /// The predicted sentences, all of them, are the same as one of the sets.
    pub evidence: bool,
    /// They are, and the label is right to the letter.
    pub fever: bool,
}

/// The reading of the recipe: equality with a set, no cap, labels compared exactly. An undecidable claim can never be
/// right.
pub fn recipe(gold: &Gold<'_>, prediction: &Prediction<'_>) -> RecipeFinding {
    let evidence = gold.label.is_verifiable()
        && gold.sets.iter().any(|set| {
            is_within(set, &prediction.evidence) && prediction.evidence.iter().all(|s| set.contains(s))
        });
    RecipeFinding { evidence, fever: evidence && prediction.label == gold.label.as_str() }
}

/// What came of ranked pages for a verifiable claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageFinding {
    /// All pages of at least one set are among them.
    pub recall: bool,
    /// The share of the pages that are pages of any set; 1 of none.
    pub precision: f64,
}

/// The first `k` of ranked pages against the pages of the evidence, each page once (CFEVER,
/// `eval_doc_retrieval.py`). `None` for an undecidable claim.
pub fn pages<S: AsRef<str>>(gold: &Gold<'_>, ranked: &[S], k: Option<usize>) -> Option<PageFinding> {
    if !gold.label.is_verifiable() {
        return None;
    }
    let found: HashSet<&str> = capped(ranked, k).iter().map(AsRef::as_ref).collect();
    let recall = gold.sets.iter().any(|set| set.iter().all(|sentence| found.contains(&*sentence.page)));
    let right = found.intersection(&gold.pages()).count();
    let precision = if found.is_empty() { 1.0 } else { right as f64 / found.len() as f64 };
    Some(PageFinding { recall, precision })
}

/// The sums of the official reading over claims.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Claims.
    pub claims: u64,
    /// Claims whose label is right.
    pub labels: u64,
    /// Claims that are strictly right.
    pub strict: u64,
    /// Claims with evidence.
    pub verifiable: u64,
    /// Of these, those of which a set was found.
    pub found: u64,
    precision: f64,
}

/// The official figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// FEVER Score: strictly right, of all claims.
    pub strict: f64,
    /// Labels that are right, of all claims.
    pub label_accuracy: f64,
    /// The mean precision of verifiable claims; 1 where there are none.
    pub precision: f64,
    /// The mean recall of verifiable claims; 0 where there are none.
    pub recall: f64,
    /// The harmonic mean of these two means; 0 where both are 0.
    pub f1: f64,
}

impl Tally {
    /// One claim more.
    pub fn add(&mut self, finding: &Finding) {
        self.claims += 1;
        self.labels += u64::from(finding.label);
        self.strict += u64::from(finding.strict);
        if let (Some(precision), Some(recall)) = (finding.precision, finding.recall) {
            self.verifiable += 1;
            self.precision += precision;
            self.found += u64::from(recall);
        }
    }

    /// The figures; `None` of no claims, at which the scorer stops.
    pub fn figures(&self) -> Option<Figures> {
        let of_all = |count: u64| count as f64 / self.claims as f64;
        let (precision, recall) = match self.verifiable {
            0 => (1.0, 0.0),
            n => (self.precision / n as f64, self.found as f64 / n as f64),
        };
        (self.claims > 0).then(|| Figures {
            strict: of_all(self.strict),
            label_accuracy: of_all(self.labels),
            precision,
            recall,
            f1: f1(precision, recall),
        })
    }
}

/// The harmonic mean; 0 where both are 0.
pub fn f1(precision: f64, recall: f64) -> f64 {
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

/// The sums of the recipe over claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecipeTally {
    /// Claims.
    pub claims: u64,
    /// Claims whose sentences are a set.
    pub evidence: u64,
    /// Of these, those whose label is right.
    pub fever: u64,
}

impl RecipeTally {
    /// One claim more.
    pub fn add(&mut self, finding: RecipeFinding) {
        self.claims += 1;
        self.evidence += u64::from(finding.evidence);
        self.fever += u64::from(finding.fever);
    }

    /// Evidence recall and FEVER score, both of all claims; `None` of none.
    pub fn figures(&self) -> Option<(f64, f64)> {
        let of_all = |count: u64| count as f64 / self.claims as f64;
        (self.claims > 0).then(|| (of_all(self.evidence), of_all(self.fever)))
    }
}

/// The sums of page retrieval over claims.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PageTally {
    /// Verifiable claims.
    pub claims: u64,
    /// Of these, those whose pages were found.
    pub found: u64,
    precision: f64,
}

impl PageTally {
    /// One claim more; `None` counts nothing.
    pub fn add(&mut self, finding: Option<PageFinding>) {
        if let Some(finding) = finding {
            self.claims += 1;
            self.found += u64::from(finding.recall);
            self.precision += finding.precision;
        }
    }

    /// Recall, precision and F1; `None` of no claims.
    pub fn figures(&self) -> Option<(f64, f64, f64)> {
        let of_all = |sum: f64| sum / self.claims as f64;
        (self.claims > 0).then(|| {
            let (recall, precision) = (of_all(self.found as f64), of_all(self.precision));
            (recall, precision, f1(precision, recall))
        })
    }
}

/// Which labels were given to claims of which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion([[u64; 4]; 3]);

impl Confusion {
    /// One claim more; `None` is a label outside the three.
    pub fn add(&mut self, gold: Label, predicted: Option<Label>) {
        let column = predicted.map_or(3, Label::index);
        if let Some(cell) = self.0.get_mut(gold.index()).and_then(|row| row.get_mut(column)) {
            *cell += 1;
        }
    }

    /// How many claims of `gold` were given `predicted`.
    pub fn of(&self, gold: Label, predicted: Option<Label>) -> u64 {
        let column = predicted.map_or(3, Label::index);
        self.0.get(gold.index()).and_then(|row| row.get(column)).copied().unwrap_or_default()
    }

    /// How many claims of `gold` there are.
    pub fn claims(&self, gold: Label) -> u64 {
        self.0.get(gold.index()).map_or(0, |row| row.iter().sum())
    }

    /// Precision and recall of a label; `None` where nothing was given it, and where no claim has it.
    pub fn class(&self, label: Label) -> (Option<f64>, Option<f64>) {
        let right = self.of(label, Some(label));
        let share = |of: u64| (of > 0).then(|| right as f64 / of as f64);
        let given = Label::ALL.into_iter().map(|gold| self.of(gold, Some(label))).sum();
        (share(given), share(self.claims(label)))
    }

    /// The mean over the three labels of their F1, where each label has claims.
    pub fn macro_f1(&self) -> Option<f64> {
        let of = |label| {
            let (precision, recall) = self.class(label);
            recall.map(|recall| f1(precision.unwrap_or_default(), recall))
        };
        let all: Option<Vec<f64>> = Label::ALL.into_iter().map(of).collect();
        all.map(|all| all.iter().sum::<f64>() / 3.0)
    }
}

#[cfg(test)]
mod tests;
