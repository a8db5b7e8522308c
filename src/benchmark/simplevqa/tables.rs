//! The tables of SimpleVQA: figures overall, by language, task and domain; composite questions; calibration.

use super::score::{
    ACCURACY, ATTRIBUTION, CALIBRATION_ERROR, CFQ, CFQ_CORRECT, CFQ_ITEM, CONFIDENCE, CORRECT, Cause, EXACT,
    F_SCORE, GIVEN_ATTEMPTED, INCORRECT, NOT_ATTEMPTED,
};
use super::{Condition, DOMAINS, Language, NAME, TASKS};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::{BenchmarkScores, MetricValue, notes};
use crate::report::figure::{Figure, ReliabilityBin, reliability};
use crate::report::published::{self, Published};
use crate::report::table::{Cell, Table};
use crate::types::Profile;

/// The figures of a row, in the order of the paper's table, with their headings.
const COLUMNS: [(&str, &str); 5] = [
    ("CO", CORRECT),
    ("NA", NOT_ATTEMPTED),
    ("IN", INCORRECT),
    ("CGA", GIVEN_ATTEMPTED),
    ("F-score", F_SCORE),
];

/// What tables are made of.
pub(super) struct Tables<'a> {
    pub(super) scores: &'a BenchmarkScores,
    pub(super) published: &'a Published,
    pub(super) compare_to: Option<&'a str>,
}

/// A group of items, as tags are written.
type Group<'a> = &'a [(&'a str, &'a str)];

impl<'a> Tables<'a> {
    pub(super) fn all(&self) -> Vec<Table> {
        let conditions: Vec<Condition> =
            self.scores.conditions.iter().filter_map(|counts| Condition::parse(&counts.condition)).collect();
        let mut tables = vec![self.main(&conditions)];
        tables.extend(self.categories("task", &TASKS, &conditions));
        tables.extend(self.categories("domain", &DOMAINS, &conditions));
        tables.extend(self.composites());
        tables.extend(self.items());
        tables.extend(conditions.iter().filter_map(|condition| self.calibration(*condition)));
        tables
    }

    fn label(&self) -> &'a str {
        if self.scores.label.is_empty() { NAME } else { &self.scores.label }
    }

    /// A figure in the headline's rounding.
    fn find(&self, metric: &str, condition: Condition, group: Group<'_>) -> Option<&'a MetricValue> {
        let ending = if self.scores.profile == Profile::Recipe { EXACT } else { "" };
        self.scores.find(&format!("{metric}{ending}"), condition.name(), group)
    }

    fn theirs(&self, metric: &str, condition: Condition, group: Group<'_>) -> Option<&'a published::Figure> {
        self.published.find(self.compare_to?, condition.name(), metric, group)
    }

    /// The row of a group, and below it the published one where there is one.
    fn rows(
        &self,
        lead: &[&str],
        condition: Condition,
        group: Group<'_>,
        used: &mut Vec<&'a published::Figure>,
    ) -> Vec<Vec<Cell>> {
        let n = self.find(F_SCORE, condition, group).map_or(0, |value| value.n);
        let value =
            |metric| Cell::number(self.find(metric, condition, group).and_then(|found| found.value), 1);
        let lead_cells = || lead.iter().map(|text| Cell::text(*text));
        let ours = COLUMNS.iter().map(|(_, metric)| value(metric));
        let mut rows: Vec<Vec<Cell>> =
            vec![lead_cells().chain([Cell::text("this run")]).chain(ours).chain([Cell::Count(n)]).collect()];
        let theirs = COLUMNS.map(|(_, metric)| self.theirs(metric, condition, group));
        if let Some(model) = self.compare_to
            && theirs.iter().any(Option::is_some)
        {
            used.extend(theirs.iter().flatten());
            let cells = theirs.map(|found| Cell::number(found.map(|figure| figure.value), 1));
            let name = Cell::text(format!("published: {model}"));
            rows.push(lead_cells().chain([name]).chain(cells).chain([Cell::Empty]).collect());
        }
        rows
    }

    fn main(&self, conditions: &[Condition]) -> Table {
        let mut used = Vec::new();
        let mut rows = Vec::new();
        for condition in conditions {
            rows.extend(self.rows(&[condition.name(), "all"], *condition, &[], &mut used));
            for code in Language::CODES {
                let group = [("language", code)];
                if self.find(F_SCORE, *condition, &group).is_some() {
                    rows.extend(self.rows(&[condition.name(), code], *condition, &group, &mut used));
                }
            }
        }
        let mut notes = self.about();
        notes.extend(self.judge_errors());
        self.table(
            "main",
            "answers by the judge, in percent",
            &["condition", "items", "whose"],
            rows,
            notes,
            &used,
        )
    }

    /// What the headings mean.
    fn about(&self) -> Vec<String> {
        let rounding = match self.scores.profile {
            Profile::Official => {
                "CO, NA and IN are rounded to four decimals as in the authors' scorer, and CGA and F computed of the \
                 rounded ones"
            }
            Profile::Recipe => "no figure is rounded before it is printed",
        };
        vec![
            "CO correct, NA not attempted, IN incorrect; CGA: correct of those attempted; F-score: harmonic mean of CO and \
             CGA; languages are pooled"
                .to_owned(),
            format!("profile {}: {rounding}", self.scores.profile.as_str()),
        ]
    }

    fn judge_errors(&self) -> Vec<String> {
        let of = |name: &str| -> u64 {
            let all =
                self.scores.metrics.iter().filter(|value| value.metric == F_SCORE && value.group.is_empty());
            all.filter_map(|value| value.counts.get(name)).sum()
        };
        let mut notes = Vec::new();
        if self.scores.judge.is_some() {
            notes.push(format!("judge_error = {}", of("judge_error")));
        }
        if of("blocked") > 0 {
            notes.push(format!(
                "answers withheld by a filter or empty, which count as not attempted without being judged: {}",
                of("blocked")
            ));
        }
        notes
    }

    fn categories(&self, key: &str, known: &[(&str, &str, u64)], conditions: &[Condition]) -> Option<Table> {
        let mut used = Vec::new();
        let mut rows = Vec::new();
        for condition in conditions {
            for (code, name, _) in known {
                let group = [(key, *code)];
                if self.find(F_SCORE, *condition, &group).is_some() {
                    let lead = [condition.name(), &format!("{code}: {name}")];
                    rows.extend(self.rows(&lead, *condition, &group, &mut used));
                }
            }
        }
        (!rows.is_empty()).then(|| {
            let title = format!("answers by {key}, in percent");
            self.table(key, &title, &["condition", key, "whose"], rows, self.about(), &used)
        })
    }

    fn table(
        &self,
        name: &str,
        title: &str,
        lead: &[&str],
        rows: Vec<Vec<Cell>>,
        mut notes: Vec<String>,
        used: &[&published::Figure],
    ) -> Table {
        let columns = lead.iter().copied().chain(COLUMNS.map(|(heading, _)| heading)).chain(["n"]);
        notes.extend(sources(used));
        notes.extend(notes::common(self.scores));
        Table {
            name: format!("{}-{name}", self.label()),
            title: format!("{}: {title}", self.label()),
            columns: columns.map(str::to_owned).collect(),
            rows,
            notes,
        }
    }

    /// Said under figures for which each answer counts once, where it is judged several times.
    fn of_first_run(&self) -> Option<String> {
        let runs = self.scores.judge.as_ref()?.runs;
        (runs > 1).then(|| {
            format!("of {runs} judging runs the first with a verdict counts here; these figures are no means over runs")
        })
    }

    /// The paper's Table 5, and why answers are wrong.
    fn composites(&self) -> Option<Table> {
        let asked = |condition: &Condition| {
            self.scores.conditions.iter().any(|counts| counts.condition == condition.name())
        };
        let conditions = [Condition::Original, Condition::Atomic, Condition::Hinted];
        let found = conditions.map(|condition| self.scores.find(CFQ_CORRECT, condition.name(), &[]));
        found.iter().any(Option::is_some).then(|| {
            let mut rows = Vec::new();
            let mut used = Vec::new();
            let values = conditions.into_iter().zip(found);
            for (condition, value) in values.filter(|(condition, _)| asked(condition)) {
                let theirs = self.theirs(CFQ_CORRECT, condition, &[]);
                used.extend(theirs);
                rows.push(vec![
                    Cell::text(format!("CO, {}", condition.name())),
                    Cell::number(value.and_then(|value| value.value), 2),
                    value.map_or(Cell::Empty, |value| Cell::Count(value.counts.get("correct").copied().unwrap_or(0))),
                    value.map_or(Cell::Empty, |value| Cell::Count(value.n)),
                    Cell::number(theirs.map(|figure| figure.value), 2),
                ]);
            }
            let (n, causes) = self.causes();
            for (what, items) in causes {
                let share = (n > 0).then(|| items as f64 / n as f64 * 100.0);
                rows.push(vec![
                    Cell::text(what),
                    Cell::number(share, 2),
                    Cell::Count(items),
                    Cell::Count(n),
                    Cell::Empty,
                ]);
            }
            let mut notes = vec![
                "items with a simpler (atomic) question behind theirs: asked as they are, the atomic question alone, and \
                 with its answer told (hinted)"
                    .to_owned(),
                "a wrong answer is for want of understanding the image where the atomic question is not answered either, \
                 and for want of background knowledge where it stays wrong with the answer told; not attempted is wrong"
                    .to_owned(),
            ];
            let unasked = [Condition::Atomic, Condition::Hinted].into_iter();
            notes.extend(unasked.filter(|condition| !asked(condition)).map(|condition| {
                format!("`{}` was not asked, so its cause is not looked for", condition.name())
            }));
            notes.extend(self.of_first_run());
            if self.published.find("GPT-4o", Condition::Original.name(), CFQ_CORRECT, &[]).is_some() {
                notes.push("the paper speaks of 559 items; its figures fit 569".to_owned());
            }
            notes.extend(sources(&used));
            notes.extend(notes::common(self.scores));
            Table {
                name: format!("{}-cfq", self.label()),
                title: format!("{}: composite questions, in percent", self.label()),
                columns: ["figure", "%", "items", "n", "published"].map(str::to_owned).into(),
                rows,
                notes,
            }
        })
    }

    /// Wrong answers to composite questions, and how many of them are for which cause: as far as the questions that were asked
    /// tell.
    fn causes(&self) -> (u64, Vec<(&'static str, u64)>) {
        let of = |cause: Cause| {
            let value = self.scores.find(ATTRIBUTION, CFQ, &[("cause", cause.name())])?;
            Some((value.counts.get("items").copied().unwrap_or(0), value.n))
        };
        let (want_of_image, want_of_knowledge) =
            ("wrong for want of understanding the image", "wrong for want of background knowledge");
        match Cause::ALL.map(of) {
            [Some((image, n)), Some((knowledge, _)), Some((both, _)), Some((unnamed, _))] => (
                n,
                vec![
                    (want_of_image, image + both),
                    (want_of_knowledge, knowledge + both),
                    ("of these, only for want of understanding the image", image),
                    ("of these, only for want of background knowledge", knowledge),
                    ("of these, for both", both),
                    ("of these, for neither", unnamed),
                ],
            ),
            [Some((image, n)), None, None, Some((others, _))] => {
                (n, vec![(want_of_image, image), ("wrong, and the atomic question is answered", others)])
            }
            [None, Some((knowledge, n)), None, Some((others, _))] => {
                (n, vec![(want_of_knowledge, knowledge), ("wrong, and right with the answer told", others)])
            }
            _ => (0, Vec::new()),
        }
    }

    fn items(&self) -> Option<Table> {
        let items = self.scores.metrics.iter().filter(|value| value.metric == CFQ_ITEM);
        let rows: Vec<Vec<Cell>> = items
            .map(|item| {
                let right = |name: &str| match item.counts.get(name) {
                    None => Cell::Empty,
                    Some(0) => Cell::text("wrong"),
                    Some(_) => Cell::text("right"),
                };
                let tag =
                    |key: &str| item.group.get(key).map_or(Cell::Empty, |text| Cell::text(text.as_str()));
                vec![tag("item"), right("original"), right("atomic"), right("hinted"), tag("cause")]
            })
            .collect();
        (!rows.is_empty()).then(|| Table {
            name: format!("{}-cfq-items", self.label()),
            title: format!("{}: composite questions one by one", self.label()),
            columns: ["data_id", "original", "atomic", "hinted", "cause"].map(str::to_owned).into(),
            rows,
            notes: self.of_first_run().into_iter().chain(notes::common(self.scores)).collect(),
        })
    }

    fn calibration(&self, condition: Condition) -> Option<Table> {
        let error = self.scores.find(CALIBRATION_ERROR, condition.name(), &[])?;
        let mut used = Vec::new();
        let mut rows = Vec::new();
        for middle in (0..=100).step_by(5).map(|middle| middle.to_string()) {
            let group = [("confidence", middle.as_str())];
            let accuracy = self.scores.find(ACCURACY, condition.name(), &group);
            let confidence = self.scores.find(CONFIDENCE, condition.name(), &group);
            let theirs = self.theirs(ACCURACY, condition, &group);
            used.extend(theirs);
            rows.push(vec![
                Cell::text(middle.as_str()),
                Cell::number(accuracy.and_then(|value| value.value), 1),
                Cell::number(confidence.and_then(|value| value.value), 1),
                Cell::Count(accuracy.map_or(0, |value| value.n)),
                Cell::number(theirs.map(|figure| figure.value), 1),
            ]);
        }
        let mut notes = vec![
            format!(
                "expected calibration error {}: how far accuracy and mean confidence are apart, weighted by answers",
                error.value.map_or("unknown".to_owned(), |value| format!("{value:.1}"))
            ),
            format!(
                "answers without a confidence that can be read, in no bin: {}",
                error.counts.get("unreadable").copied().unwrap_or_default()
            ),
            "confidences are rounded to the nearest multiple of 5; the paper does not say how its bins were made, and may \
             draw empty ones at 0"
                .to_owned(),
        ];
        notes.extend(self.of_first_run());
        notes.extend(sources(&used));
        notes.extend(notes::common(self.scores));
        Some(Table {
            name: format!("{}-calibration-{}", self.label(), condition.name()),
            title: format!(
                "{}: {}, accuracy by stated confidence, in percent",
                self.label(),
                condition.name()
            ),
            columns: ["confidence", "accuracy", "mean confidence", "n", "published"]
                .map(str::to_owned)
                .into(),
            rows,
            notes,
        })
    }
}

/// Where published figures were found, each source once, and what there is to say of them.
fn sources(used: &[&published::Figure]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for figure in used {
        let mut add = |text: String| {
            if !found.contains(&text) {
                found.push(text);
            }
        };
        add(format!("published, {}: {}", figure.status.as_str(), figure.source));
        if let Some(comment) = &figure.comment {
            add(format!("published, {}: {comment}", figure.model));
        }
    }
    found
}

/// A reliability diagram for each condition whose answers state their confidence.
pub(super) fn diagrams(scores: &BenchmarkScores) -> Vec<Figure> {
    let label = if scores.label.is_empty() { NAME } else { &scores.label };
    let diagram = |condition: Condition| {
        let error = scores.find(CALIBRATION_ERROR, condition.name(), &[])?;
        let bins: Vec<ReliabilityBin> = (0..=100_u64)
            .step_by(5)
            .filter_map(|middle| {
                let accuracy =
                    scores.find(ACCURACY, condition.name(), &[("confidence", &middle.to_string())])?;
                Some(ReliabilityBin { middle: middle as f64, accuracy: accuracy.value, n: accuracy.n })
            })
            .collect();
        let title = match error.value {
            Some(value) => format!(
                "{label}, {}: expected calibration error {value:.1}, n = {}",
                condition.name(),
                error.n
            ),
            None => format!("{label}, {}", condition.name()),
        };
        Some(Figure {
            name: format!("{label}-calibration-{}", condition.name()),
            svg: reliability(&title, &bins),
        })
    };
    Condition::ALL.iter().copied().filter_map(diagram).collect()
}
