//! The tables: scores by condition, labels, retrieval, domains, and the authors' leaderboard by itself: it is of
//! another split.

use super::score::{
    CANDIDATE_RECALL, F1, FEVER_SCORE, LABEL_ACCURACY, LABEL_F1, LABEL_PRECISION, MACRO_F1, OTHER, PAGE_F1,
    PAGE_PRECISION, PAGE_RECALL, PRECISION, RECALL, RECIPE_FEVER, RECIPE_RECALL, REPLIES,
};
use super::{Condition, NAME, submission};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::{BenchmarkScores, ConditionCounts, MetricValue, notes};
use crate::metric::fever::Label;
use crate::report::published::Published;
use crate::report::table::{Cell, Table};

/// What the leaderboard prints where there is no FEVER Score.
const NA: &str = "NA";

pub(super) fn all(
    scores: &BenchmarkScores,
    published: &Published,
    compare_to: Option<&str>,
    split: &str,
) -> Vec<Table> {
    let sheet = Sheet { scores, split };
    let mut tables = vec![sheet.main()];
    tables.extend([sheet.labels(), sheet.retrieval(), sheet.domains()].into_iter().flatten());
    tables.extend(leaderboard(sheet.label(), published, compare_to));
    tables
}

struct Sheet<'a> {
    scores: &'a BenchmarkScores,
    split: &'a str,
}

impl<'a> Sheet<'a> {
    fn label(&self) -> &'a str {
        if self.scores.label.is_empty() { NAME } else { &self.scores.label }
    }

    /// The conditions that have figures or requests.
    fn conditions(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        let counted = self.scores.conditions.iter().map(|counts| &*counts.condition);
        for name in counted.chain(self.scores.metrics.iter().map(|value| &*value.condition)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn find(&self, metric: &str, condition: &str, group: &[(&str, &str)]) -> Option<&'a MetricValue> {
        self.scores.find(metric, condition, group)
    }

    fn number(&self, metric: &str, condition: &str, group: &[(&str, &str)]) -> Cell {
        Cell::number(self.find(metric, condition, group).and_then(|value| value.value), 2)
    }

    fn n(&self, metric: &str, condition: &str, group: &[(&str, &str)]) -> Cell {
        self.find(metric, condition, group).map_or(Cell::Empty, |value| Cell::Count(value.n))
    }

    fn table(&self, name: &str, title: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
        Table {
            name: format!("{}-{name}", self.label()),
            title: format!("{}: {title}, {} split", self.label(), self.split),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows,
            notes: Vec::new(),
        }
    }

    fn main(&self) -> Table {
        let columns = [
            "condition",
            "profile",
            "label accuracy",
            "FEVER Score",
            "evidence P",
            "evidence R",
            "evidence F1",
            "n",
            "unparsed",
        ];
        let mut rows = Vec::new();
        for condition in self.conditions() {
            // Neither have predictions of pages alone.
            let with_evidence = Condition::parse(condition)
                .map_or_else(|| self.find(FEVER_SCORE, condition, &[]).is_some(), Condition::has_evidence);
            let unparsed = self.find(REPLIES, condition, &[]).and_then(|value| value.counts.get("unparsed"));
            let unparsed = unparsed.map_or(Cell::Empty, |count| Cell::Count(*count));
            let fever = if with_evidence { self.number(FEVER_SCORE, condition, &[]) } else { Cell::text(NA) };
            let number = |metric| self.number(metric, condition, &[]);
            if self.find(LABEL_ACCURACY, condition, &[]).is_none() && condition == submission::CONDITION {
                continue;
            }
            rows.push(vec![
                Cell::text(condition),
                Cell::text("official"),
                number(LABEL_ACCURACY),
                fever,
                number(PRECISION),
                number(RECALL),
                number(F1),
                self.n(LABEL_ACCURACY, condition, &[]),
                unparsed,
            ]);
            if with_evidence && self.find(RECIPE_FEVER, condition, &[]).is_some() {
                let (empty, n) = (Cell::Empty, self.n(RECIPE_FEVER, condition, &[]));
                let row = [
                    Cell::text(condition),
                    Cell::text("recipe"),
                    empty.clone(),
                    number(RECIPE_FEVER),
                    empty.clone(),
                    number(RECIPE_RECALL),
                    empty.clone(),
                    n,
                    empty,
                ];
                rows.push(row.into());
            }
        }
        let mut table = self.table("main", "claim verification, in percent", &columns, rows);
        table.notes.push(
            "official: a whole set of gold sentences within the first five and the right label (upper case), of all \
             claims with an answer (n); an undecidable claim needs the label alone; evidence over claims with evidence, its recall is the \
             paper's sentence recall at 5"
                .to_owned(),
        );
        table.notes.push(
            "recipe: all predicted sentences equal to a set, of all claims with an answer, and the label to the letter; an undecidable \
             claim can never be right"
                .to_owned(),
        );
        if self.conditions().contains(&Condition::ClaimOnly.name()) {
            table.notes.push(
                "claim_only asks for no evidence, so it has no FEVER Score: right undecidable claims alone would make it"
                    .to_owned(),
            );
        }
        table.notes.extend(self.scores.conditions.iter().filter_map(|counts| self.failures_as_wrong(counts)));
        for condition in self.conditions() {
            if let Some(uncapped) = self.find(FEVER_SCORE, condition, &[("cap", "none")])
                && let Some(value) = uncapped.value
            {
                table.notes.push(format!(
                    "{condition}: without the cap of five sentences the FEVER Score is {value:.2}"
                ));
            }
            if let Some(replies) = self.find(REPLIES, condition, &[]) {
                let counts: Vec<String> =
                    replies.counts.iter().map(|(rule, count)| format!("{rule} {count}")).collect();
                table.notes.push(format!("{condition}: replies read by rule: {}", counts.join(", ")));
            }
        }
        table.notes.extend(notes::common(self.scores));
        table
    }

    /// The scores where claims without an answer count as wrong, as they do for the authors.
    fn failures_as_wrong(&self, counts: &ConditionCounts) -> Option<String> {
        let (condition, unanswered) = (&*counts.condition, counts.unanswered());
        let labels = self.find(LABEL_ACCURACY, condition, &[]).filter(|_| unanswered > 0)?;
        let all = labels.n.saturating_add(unanswered);
        let share = |value: &MetricValue| {
            let right = value.counts.get("right").copied().unwrap_or_default();
            format!("{:.2}", right as f64 * 100.0 / all as f64)
        };
        let fever = self.find(FEVER_SCORE, condition, &[]);
        let fever = fever.map(|fever| format!(", the FEVER Score {}", share(fever))).unwrap_or_default();
        Some(format!(
            "{condition}: {unanswered} of {all} claims have no answer; with these as wrong the label accuracy is \
             {}{fever}",
            share(labels)
        ))
    }

    fn labels(&self) -> Option<Table> {
        let columns = [
            "condition",
            "gold",
            "supports",
            "refutes",
            "NOT ENOUGH INFO",
            OTHER,
            "recall",
            "precision",
            "F1",
            "FEVER Score",
        ];
        let mut rows = Vec::new();
        let mut notes = vec![
            "rows: the gold label; columns: the predicted one, in claims; recall is the label accuracy of \
                              the row's claims"
                .to_owned(),
        ];
        for condition in self.conditions() {
            for label in Label::ALL {
                let group = [("label", label.as_str())];
                let Some(value) = self.find(LABEL_PRECISION, condition, &group) else { continue };
                let count = |name: &str| Cell::Count(value.counts.get(name).copied().unwrap_or_default());
                rows.push(vec![
                    Cell::text(condition),
                    Cell::text(label.as_str()),
                    count(Label::Supports.as_str()),
                    count(Label::Refutes.as_str()),
                    count(Label::NotEnoughInfo.as_str()),
                    count(OTHER),
                    self.number(LABEL_ACCURACY, condition, &group),
                    self.number(LABEL_PRECISION, condition, &group),
                    self.number(LABEL_F1, condition, &group),
                    self.number(FEVER_SCORE, condition, &group),
                ]);
            }
            if let Some(mean) = self.find(MACRO_F1, condition, &[]).and_then(|value| value.value) {
                notes.push(format!("{condition}: macro F1 of the labels {mean:.2}"));
            }
        }
        let table = self.table("labels", "labels", &columns, rows);
        (!table.rows.is_empty()).then_some(Table { notes, ..table })
    }

    fn retrieval(&self) -> Option<Table> {
        let columns =
            ["condition", "first", "document R", "document P", "document F1", "sentences shown R", "n"];
        let ks: [(&str, &[(&str, &str)]); 6] = [
            ("1", &[("k", "1")]),
            ("3", &[("k", "3")]),
            ("5", &[("k", "5")]),
            ("7", &[("k", "7")]),
            ("10", &[("k", "10")]),
            ("all", &[]),
        ];
        let mut rows = Vec::new();
        for condition in self.conditions() {
            for (name, group) in ks {
                let shown = self.find(CANDIDATE_RECALL, condition, group);
                let Some(any) = self.find(PAGE_RECALL, condition, group).or(shown) else { continue };
                rows.push(vec![
                    Cell::text(condition),
                    Cell::text(name),
                    self.number(PAGE_RECALL, condition, group),
                    self.number(PAGE_PRECISION, condition, group),
                    self.number(PAGE_F1, condition, group),
                    self.number(CANDIDATE_RECALL, condition, group),
                    Cell::Count(any.n),
                ]);
            }
        }
        let table = self.table("retrieval", "what was found for claims with evidence", &columns, rows);
        let notes = vec![
            "document R: the pages of a whole set are among the first k; sentences shown R: a whole set is among the \
             first k sentences of the prompt. The last row bounds what any answer can reach"
                .to_owned(),
        ];
        (!table.rows.is_empty()).then_some(Table { notes, ..table })
    }

    fn domains(&self) -> Option<Table> {
        let mut rows = Vec::new();
        for value in &self.scores.metrics {
            let (LABEL_ACCURACY, Some(domain)) = (&*value.metric, value.group.get("domain")) else {
                continue;
            };
            let group = [("domain", &**domain)];
            rows.push(vec![
                Cell::text(&value.condition),
                Cell::text(domain),
                Cell::number(value.value, 2),
                self.number(FEVER_SCORE, &value.condition, &group),
                Cell::Count(value.n),
            ]);
        }
        let columns = ["condition", "domain", "label accuracy", "FEVER Score", "n"];
        let table = self.table("domains", "by domain, in percent", &columns, rows);
        (!table.rows.is_empty()).then_some(table)
    }
}

/// The authors' leaderboard, or the row of it that the config names.
fn leaderboard(label: &str, published: &Published, compare_to: Option<&str>) -> Option<Table> {
    let group = [("split", "test")];
    let figure = |model: &str, metric| published.find(model, "leaderboard", metric, &group);
    let mut notes = vec![
        "test split, whose labels are not published: no row is comparable with a figure of the dev split".to_owned(),
        "the GPT rows: prompts, shots and model snapshots are not published, nor whether evidence was shown; they \
         compare with claim_only in kind only"
            .to_owned(),
    ];
    let mut rows = Vec::new();
    for model in published.models() {
        let Some(accuracy) = figure(model, LABEL_ACCURACY) else { continue };
        let fever = figure(model, FEVER_SCORE);
        let mark = if compare_to == Some(model) { "named in the config" } else { "" };
        rows.push(vec![
            Cell::text(model),
            Cell::Number(accuracy.value, 2),
            fever.map_or_else(|| Cell::text(NA), |fever| Cell::Number(fever.value, 2)),
            Cell::text(accuracy.status.as_str()),
            Cell::text(mark),
        ]);
        let source = format!("{}: {}", accuracy.status.as_str(), accuracy.source);
        if !notes.contains(&source) {
            notes.push(source);
        }
    }
    let columns = ["system", "label accuracy", "FEVER Score", "status", ""];
    (!rows.is_empty()).then(|| Table {
        name: format!("{label}-leaderboard"),
        title: format!("{label}: published figures, test split, in percent"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        notes,
    })
}
