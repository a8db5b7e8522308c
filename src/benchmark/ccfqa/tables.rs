//! The tables: figures by condition, figures by pair of languages, and the paper's models beside this run.

use super::score::{
    COMPARED, CONSISTENCY, EXACT, F1_CHAR_SET, F1_CHAR_SET_OFF_DIAGONAL, F1_CHAR_SET_ROW_MEAN, F1_TOKEN_SET,
    F1_TOKEN_SET_OFF_DIAGONAL, LLM_ACCURACY, MATCH_ACCURACY, SECONDS,
};
use super::{Ccfqa, Condition, Language, NAME, asr};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::{BenchmarkScores, MetricValue, notes};
use crate::report::published::{Figure, Published};
use crate::report::table::{Cell, Table};
use crate::types::Profile;

/// The metrics of the main table, each with what it is.
const METRICS: [(&str, Option<Profile>, &str); 14] = [
    (
        LLM_ACCURACY,
        Some(Profile::Official),
        "share of answers that the judge calls right, rounded by pair of languages and as the mean of these pairs; a \
         reply that is neither yes nor no counts as wrong",
    ),
    (
        "llm_accuracy_row_mean",
        Some(Profile::Official),
        "llm_accuracy as the mean of the rounded averages by language of the question",
    ),
    ("llm_accuracy_off_diagonal", Some(Profile::Official), "llm_accuracy without the same-language pairs"),
    (
        "llm_accuracy_micro",
        Some(Profile::Recipe),
        "share of answers that the judge calls right, of all answers",
    ),
    (
        MATCH_ACCURACY,
        Some(Profile::Official),
        "no LLM judge: string match: share of answers that hold the gold as whole words and numbers, both normalised \
         (NFKC, lower-cased, without punctuation), rounded by pair of languages and as the mean of these pairs",
    ),
    (
        "match_accuracy_row_mean",
        Some(Profile::Official),
        "match_accuracy as the mean of the rounded row averages",
    ),
    (
        "match_accuracy_off_diagonal",
        Some(Profile::Official),
        "match_accuracy without the same-language pairs",
    ),
    ("match_accuracy_micro", Some(Profile::Recipe), "no LLM judge: string match, of all answers"),
    (
        F1_CHAR_SET,
        Some(Profile::Official),
        "F1 on sets of code points, rounded by answer, by pair of languages and as the mean of these pairs",
    ),
    (
        F1_CHAR_SET_ROW_MEAN,
        Some(Profile::Official),
        "f1_char_set as the mean of the rounded averages by language of the question",
    ),
    (F1_CHAR_SET_OFF_DIAGONAL, Some(Profile::Official), "f1_char_set without the same-language pairs"),
    (
        F1_TOKEN_SET,
        Some(Profile::Recipe),
        "F1 on sets of lower-cased words, mean of all answers; near exact match for cmn, jpn and yue, which write \
         no blanks",
    ),
    (F1_TOKEN_SET_OFF_DIAGONAL, Some(Profile::Recipe), "f1_token_set without the same-language pairs"),
    (EXACT, None, "share of answers that are the gold, code point for code point"),
];

/// Names and values of tags that say what a figure is for.
type Group<'a> = &'a [(&'a str, &'a str)];

/// All that the tables are made of.
pub(super) struct Tables<'a> {
    pub(super) benchmark: &'a Ccfqa,
    pub(super) scores: &'a BenchmarkScores,
    pub(super) published: &'a Published,
    /// The paper's name of the model.
    pub(super) compare_to: Option<&'a str>,
}

impl Tables<'_> {
    pub(super) fn all(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if !self.benchmark.conditions.is_empty() {
            tables.push(self.main());
        }
        for &condition in &self.benchmark.conditions {
            if condition.crosses() {
                for (metric, profile) in self.grids() {
                    tables.push(self.grid(condition, metric, profile));
                    tables.extend(self.grid_of_differences(condition, metric));
                }
            } else {
                tables.push(self.diagonal(condition));
            }
        }
        tables.extend(self.durations());
        tables.extend(self.consistency());
        for (metric, _) in self.grids() {
            tables.extend(self.models(metric));
        }
        tables.extend(self.benchmark.asr.then(|| self.transcripts()));
        tables
    }

    /// Error rates of what was written down.
    fn transcripts(&self) -> Table {
        let find = |metric: &str, src: &str| self.scores.find(metric, asr::ASR, &[("src", src)]);
        let rows = asr::rows(&self.benchmark.languages, find);
        let title = "CCFQA asr: spoken questions written down, error rates by language".to_owned();
        self.table(asr::ASR, title, asr::COLUMNS.to_vec(), rows, asr::notes())
    }

    /// The stem of a table's files.
    fn stem(&self, rest: &str) -> String {
        let label = if self.scores.label.is_empty() { super::NAME } else { &self.scores.label };
        format!("{label}-{rest}")
    }

    fn find(&self, condition: Condition, metric: &str, group: Group<'_>) -> Option<&MetricValue> {
        self.scores.find(metric, condition.name(), group)
    }

    /// The published figure of the model to compare with.
    fn figure(&self, condition: Condition, metric: &str, group: Group<'_>) -> Option<&Figure> {
        self.published.find(self.compare_to?, condition.name(), metric, group)
    }

    /// Conditions by name, for titles.
    fn conditions(&self) -> String {
        self.benchmark.conditions.iter().map(|condition| condition.name()).collect::<Vec<_>>().join(", ")
    }

    /// The metric of the headline profile.
    fn headline(&self) -> (&'static str, Profile) {
        match self.scores.profile {
            Profile::Official => (F1_CHAR_SET, Profile::Official),
            Profile::Recipe => (F1_TOKEN_SET, Profile::Recipe),
        }
    }

    /// The name of the judge's figure, where there is a judge.
    fn accuracy(&self) -> Option<&'static str> {
        let shown = |metric: &&str| self.scores.metrics.iter().any(|value| value.metric == *metric);
        [LLM_ACCURACY, MATCH_ACCURACY].into_iter().find(shown)
    }

    /// The figures that have grids: the headline, and the judge's.
    fn grids(&self) -> Vec<(&'static str, Profile)> {
        std::iter::once(self.headline())
            .chain(self.accuracy().map(|accuracy| (accuracy, Profile::Official)))
            .collect()
    }

    /// The stem of a table of a figure: that of the headline has none of its own.
    fn stem_of(&self, stem: &str, metric: &str) -> String {
        if metric == self.headline().0 { stem.to_owned() } else { format!("{stem}-accuracy") }
    }

    /// Figures by the length of the clip.
    fn durations(&self) -> Option<Table> {
        let accuracy = self.accuracy();
        let metrics: Vec<&str> = accuracy.into_iter().chain([F1_CHAR_SET]).collect();
        let mut columns = vec!["condition", "seconds"];
        columns.extend(&metrics);
        columns.push("n");
        let compare = self.compare_to.is_some() && accuracy == Some(LLM_ACCURACY);
        if compare {
            columns.extend(["published", "difference", "status"]);
        }
        let (mut rows, mut used) = (Vec::new(), Vec::new());
        for &condition in &self.benchmark.conditions {
            for (seconds, ..) in SECONDS {
                let group = [("seconds", seconds)];
                let Some(n) = self.find(condition, F1_CHAR_SET, &group).map(|found| found.n) else {
                    continue;
                };
                let value = |metric| self.find(condition, metric, &group).and_then(|found| found.value);
                let mut row = vec![Cell::text(condition.name()), Cell::text(seconds)];
                row.extend(metrics.iter().map(|metric| Cell::number(value(metric), 1)));
                row.push(Cell::Count(n));
                if compare {
                    let figure = self.figure(condition, LLM_ACCURACY, &group);
                    row.extend(beside(value(LLM_ACCURACY), figure));
                    used.extend(figure);
                }
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return None;
        }
        let mut notes = vec![
            "seconds: length of the clip, above the first number and up to the second; plain means of answers, since \
             no formula is published"
                .to_owned(),
        ];
        notes.extend(self.comparison_notes(&used));
        let title = format!("CCFQA {}: by length of the question", self.conditions());
        Some(self.table("seconds", title, columns, rows, notes))
    }

    /// How much of the better condition's accuracy the other one keeps.
    fn consistency(&self) -> Option<Table> {
        let accuracy = self.accuracy()?;
        let mut columns = vec!["conditions", "across", "consistency", "n"];
        if self.compare_to.is_some() {
            columns.extend(["published", "difference", "status"]);
        }
        let (mut rows, mut used) = (Vec::new(), Vec::new());
        for (at, (one, other)) in COMPARED.into_iter().enumerate() {
            let condition = format!("{}/{}", one.name(), other.name());
            let Some(found) = self.scores.find(CONSISTENCY, &condition, &[]) else { continue };
            let across = if at < 2 { "languages" } else { "modalities" };
            let mut row = vec![
                Cell::text(condition.clone()),
                Cell::text(across),
                Cell::number(found.value, 1),
                Cell::Count(found.n),
            ];
            if let Some(model) = self.compare_to {
                let figure = self.published.find(model, &condition, CONSISTENCY, &[]);
                row.extend(beside(found.value, figure));
                used.extend(figure);
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return None;
        }
        let mut notes = vec![format!(
            "consistency: 100 * min / max of the two conditions' {accuracy}: a ratio of averages, not an agreement of \
             answers; the formula is derived from the published figures"
        )];
        notes.extend(self.comparison_notes(&used));
        Some(self.table("consistency", "CCFQA: consistency".to_owned(), columns, rows, notes))
    }

    /// One row for each condition and metric, the headline profile first.
    fn main(&self) -> Table {
        let mut metrics = METRICS.to_vec();
        metrics.sort_by_key(|(_, profile, _)| match profile {
            Some(profile) => u8::from(*profile != self.scores.profile),
            None => 2,
        });
        let mut columns = vec!["condition", "metric", "profile", "this run", "n"];
        if self.compare_to.is_some() {
            columns.extend(["published", "difference", "status"]);
        }
        let (mut rows, mut shown, mut used) = (Vec::new(), Vec::new(), Vec::new());
        for &condition in &self.benchmark.conditions {
            for &(metric, profile, about) in &metrics {
                let Some(ours) = self.find(condition, metric, &[]) else { continue };
                let mut row = vec![
                    Cell::text(condition.name()),
                    Cell::text(metric),
                    profile.map_or(Cell::Empty, |profile| Cell::text(profile.as_str())),
                    Cell::number(ours.value, 1),
                    Cell::Count(ours.n),
                ];
                if self.compare_to.is_some() {
                    let figure = self.figure(condition, metric, &[]);
                    row.extend(beside(ours.value, figure));
                    used.extend(figure);
                }
                rows.push(row);
                if !shown.contains(&(metric, about)) {
                    shown.push((metric, about));
                }
            }
        }
        let mut notes: Vec<String> =
            shown.into_iter().map(|(metric, about)| format!("{metric}: {about}")).collect();
        notes.extend(self.comparison_notes(&used));
        notes.extend(self.post_processing_notes());
        let title =
            format!("CCFQA {}: both profiles, in percent, headline {}", self.conditions(), self.headline().0);
        self.table("main", title, columns, rows, notes)
    }

    /// Source languages down, answer languages across, averages at the edges.
    fn grid(&self, condition: Condition, metric: &str, profile: Profile) -> Table {
        let value = |group: Group<'_>| {
            Cell::number(self.find(condition, metric, group).and_then(|found| found.value), 1)
        };
        let title = format!(
            "CCFQA {}: {metric} ({}) by pair, language of the question down, of the answer across",
            condition.name(),
            profile.as_str()
        );
        let corner = value(&[]);
        let n: Vec<u64> = self
            .pairs()
            .filter_map(|(src, tgt)| self.find(condition, metric, &[("src", src), ("tgt", tgt)]).map(|v| v.n))
            .collect();
        let range = match (n.iter().min(), n.iter().max()) {
            (Some(low), Some(high)) if low == high => low.to_string(),
            (Some(low), Some(high)) => format!("{low} to {high}"),
            _ => "0".to_owned(),
        };
        let notes = vec![format!("answers a pair: {range}")];
        let stem = self.stem_of(&format!("{}-pairs", condition.name()), metric);
        self.square(&stem, title, &value, corner, notes)
    }

    /// This run less the published figures, where there are any for pairs.
    fn grid_of_differences(&self, condition: Condition, metric: &str) -> Option<Table> {
        let group = |src, tgt| [("src", src), ("tgt", tgt)];
        let mut used = self.pairs().filter_map(|(src, tgt)| self.figure(condition, metric, &group(src, tgt)));
        let first = used.next()?;
        let value = |group: Group<'_>| {
            let ours = self.find(condition, metric, group).and_then(|found| found.value);
            let theirs = self.figure(condition, metric, group).map(|figure| figure.value);
            Cell::delta(difference(ours, theirs), 1)
        };
        let title = format!(
            "CCFQA {}: {metric} by pair, this run less the published figures of {}",
            condition.name(),
            first.model
        );
        let mut notes = self.comparison_notes(&[first]);
        notes.push("an empty cell: nothing is published, or this run has no answers".to_owned());
        let corner = value(&[]);
        let stem = self.stem_of(&format!("{}-differences", condition.name()), metric);
        Some(self.square(&stem, title, &value, corner, notes))
    }

    /// A table of all pairs with averages at its edges.
    fn square(
        &self,
        stem: &str,
        title: String,
        value: &dyn Fn(Group<'_>) -> Cell,
        corner: Cell,
        notes: Vec<String>,
    ) -> Table {
        let codes: Vec<&str> = self.benchmark.languages.iter().map(|language| language.code).collect();
        let columns = std::iter::once("src").chain(codes.iter().copied()).chain(["mean"]).collect();
        let mut rows: Vec<Vec<Cell>> = codes
            .iter()
            .map(|&src| {
                let cells = codes.iter().map(|&tgt| value(&[("src", src), ("tgt", tgt)]));
                std::iter::once(Cell::text(src)).chain(cells).chain([value(&[("src", src)])]).collect()
            })
            .collect();
        let below = codes.iter().map(|&tgt| value(&[("tgt", tgt)]));
        rows.push(std::iter::once(Cell::text("mean")).chain(below).chain([corner]).collect());
        self.table(stem, title, columns, rows, notes)
    }

    /// One row for each language of a condition without pairs of two.
    fn diagonal(&self, condition: Condition) -> Table {
        let metrics: Vec<&str> =
            [F1_CHAR_SET, F1_TOKEN_SET, EXACT].into_iter().chain(self.accuracy()).collect();
        let mut columns = vec!["language"];
        columns.extend(&metrics);
        columns.push("n");
        let figure = |language: &Language| {
            self.figure(condition, F1_CHAR_SET, &[("src", language.code), ("tgt", language.code)])
        };
        let used: Vec<&Figure> = self.benchmark.languages.iter().filter_map(|&l| figure(l)).collect();
        if !used.is_empty() {
            columns.extend(["published", "difference", "status"]);
        }
        let rows = self.benchmark.languages.iter().map(|&language| {
            let group = [("src", language.code), ("tgt", language.code)];
            let found = |metric| self.find(condition, metric, &group);
            let value = |metric| found(metric).and_then(|found| found.value);
            let mut row = vec![Cell::text(language.code)];
            row.extend(metrics.iter().map(|metric| Cell::number(value(metric), 1)));
            row.push(Cell::Count(found(F1_CHAR_SET).map_or(0, |found| found.n)));
            if !used.is_empty() {
                row.extend(beside(value(F1_CHAR_SET), figure(language)));
            }
            row
        });
        let rows = rows.collect();
        let judged = self.accuracy().map(|accuracy| format!(", {accuracy} (official)")).unwrap_or_default();
        let title = format!(
            "CCFQA {} by language: {F1_CHAR_SET} (official), {F1_TOKEN_SET} (recipe), {EXACT}{judged}",
            condition.name()
        );
        let notes = self.comparison_notes(&used);
        self.table(&format!("{}-languages", condition.name()), title, columns, rows, notes)
    }

    /// The paper's table of models with this run below, when there is a model to compare with.
    fn models(&self, metric: &str) -> Option<Table> {
        self.compare_to?;
        // The table is of the official figures.
        let metric = if metric == F1_TOKEN_SET { F1_CHAR_SET } else { metric };
        let conditions = &self.benchmark.conditions;
        let mut used = Vec::new();
        let mut rows = Vec::new();
        for model in self.published.models() {
            let find = |&c: &Condition| self.published.find(model, c.name(), metric, &[]);
            let figures: Vec<Option<&Figure>> = conditions.iter().map(find).collect();
            let Some(status) = figures.iter().flatten().map(|figure| figure.status).max() else { continue };
            let cells = figures.iter().map(|figure| Cell::number(figure.map(|figure| figure.value), 1));
            rows.push(
                std::iter::once(Cell::text(model))
                    .chain(cells)
                    .chain([Cell::text(status.as_str())])
                    .collect::<Vec<_>>(),
            );
            used.extend(figures.into_iter().flatten());
        }
        if rows.is_empty() {
            return None;
        }
        let ours = conditions
            .iter()
            .map(|&c| Cell::number(self.find(c, metric, &[]).and_then(|found| found.value), 1));
        rows.push(
            std::iter::once(Cell::text("this run")).chain(ours).chain([Cell::text("measured")]).collect(),
        );
        let names = conditions.iter().map(|c| c.name());
        let columns = std::iter::once("model").chain(names).chain(["status"]).collect();
        let title =
            format!("CCFQA {}: {metric} (official) of the paper's models and of this run", self.conditions());
        let mut notes = vec!["an empty cell: no figure was found, or this run has no answers".to_owned()];
        notes.extend(source_notes(&used));
        let stem = if metric == F1_CHAR_SET { "models" } else { "models-accuracy" };
        Some(self.table(stem, title, columns, rows, notes))
    }

    fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let languages = &self.benchmark.languages;
        languages.iter().flat_map(move |src| languages.iter().map(move |tgt| (src.code, tgt.code)))
    }

    /// What there is to say about published figures that stand beside ours.
    fn comparison_notes(&self, used: &[&Figure]) -> Vec<String> {
        let Some(model) = self.compare_to else { return Vec::new() };
        if used.is_empty() {
            let known = self.published.models();
            return if known.contains(&model) {
                vec![format!("published: no such figures of {model} were found")]
            } else {
                vec![format!("published: no figures of `{model}`; there are some of {}", known.join(", "))]
            };
        }
        let mut notes = vec![format!(
            "published: {model} in {}; figures have one decimal, a difference within 0.1 is none",
            self.published.paper
        )];
        notes.extend(source_notes(used));
        notes
    }

    fn post_processing_notes(&self) -> Vec<String> {
        let count = |condition: Condition, name: &str| {
            let found = self.find(condition, F1_CHAR_SET, &[]);
            found.and_then(|found| found.counts.get(name)).copied().unwrap_or_default()
        };
        let mut notes = Vec::new();
        for &condition in &self.benchmark.conditions {
            let name = condition.name();
            let (changed, emptied) = (
                count(condition, "changed_by_post_processing"),
                count(condition, "emptied_by_post_processing"),
            );
            if changed > 0 {
                notes
                    .push(format!("{name}: post-processing changed {changed} answers and emptied {emptied}"));
            }
            let without = count(condition, "pairs_without_answers");
            if without > 0 {
                notes.push(format!("{name}: {without} pairs without answers are skipped in averages"));
            }
        }
        notes
    }

    /// A table with the notes that all have.
    fn table(
        &self,
        stem: &str,
        title: String,
        columns: Vec<&str>,
        rows: Vec<Vec<Cell>>,
        mut notes: Vec<String>,
    ) -> Table {
        if self.benchmark.languages.len() > 1 && stem != asr::ASR {
            notes.push(format!(
                "do not compare languages by {F1_CHAR_SET}: another item's gold scores about 35 in eng, fra and spa, \
                 31 in rus, and 5 to 9 in cmn, jpn, kor and yue"
            ));
        }
        notes.extend(notes::common(self.scores));
        let columns = columns.into_iter().map(str::to_owned).collect();
        // Two sections on one benchmark are told apart by their labels.
        let title = match self.scores.label.as_str() {
            NAME => title,
            label => format!("{label}: {title}"),
        };
        Table { name: self.stem(stem), title, columns, rows, notes }
    }
}

/// Published figure, difference and status.
fn beside(ours: Option<f64>, figure: Option<&Figure>) -> [Cell; 3] {
    let theirs = figure.map(|figure| figure.value);
    [
        Cell::number(theirs, 1),
        Cell::delta(difference(ours, theirs), 1),
        figure.map_or(Cell::Empty, |figure| Cell::text(figure.status.as_str())),
    ]
}

fn difference(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    Some(ours? - theirs?)
}

/// The sources of figures, each once, and what is said of single ones.
fn source_notes(used: &[&Figure]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for figure in used {
        let source = format!("{}: {}", figure.status.as_str(), figure.source);
        if !notes.contains(&source) {
            notes.push(source);
        }
    }
    for figure in used {
        if let Some(comment) = &figure.comment {
            notes.push(format!("{} {} {}: {comment}", figure.model, figure.condition, figure.metric));
        }
    }
    notes
}
