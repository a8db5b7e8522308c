//! Tables as plain data, and their Markdown and CSV.
//!
//! Markdown is for people, in a terminal too: aligned, rounded, with the notes below. CSV is for programs: every
//! number in full, no notes.

use std::fmt::Write as _;
use std::io::Write;

use unicode_width::UnicodeWidthStr as _;

/// A table of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The stem of its files, unique within a run: `ccfqa-pairs`.
    pub name: String,
    /// The line above it.
    pub title: String,
    /// The headings; cells of numeric columns are right-aligned.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// Sentences below it.
    pub notes: Vec<String>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing: no figure exists.
    Empty,
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number shown with so many decimals; CSV files get it in full.
    Number(f64, usize),
    /// A difference, shown with its sign and so many decimals.
    Delta(f64, usize),
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number with so many decimals, or nothing.
    pub fn number(value: Option<f64>, decimals: usize) -> Self {
        value.map_or(Self::Empty, |value| Self::Number(value, decimals))
    }

    /// A difference with so many decimals, or nothing.
    pub fn delta(value: Option<f64>, decimals: usize) -> Self {
        value.map_or(Self::Empty, |value| Self::Delta(value, decimals))
    }

    fn is_numeric(&self) -> bool {
        matches!(self, Self::Count(_) | Self::Number(..) | Self::Delta(..))
    }

    /// What Markdown shows.
    fn markdown(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => escaped(text),
            Self::Count(count) => count.to_string(),
            Self::Number(value, decimals) => shown(*value, *decimals, false),
            Self::Delta(value, decimals) => shown(*value, *decimals, true),
        }
    }

    /// What CSV holds.
    fn csv(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Number(value, _) | Self::Delta(value, _) => value.to_string(),
        }
    }
}

/// A number with so many decimals; zero has no sign.
fn shown(value: f64, decimals: usize, sign: bool) -> String {
    let decimals = decimals.min(17);
    let text = if sign { format!("{value:+.decimals$}") } else { format!("{value:.decimals$}") };
    let is_zero = text.bytes().all(|b| matches!(b, b'0' | b'.' | b'+' | b'-'));
    if is_zero { text.trim_start_matches(['+', '-']).to_owned() } else { text }
}

/// A text that stays in its cell: pipes and backslashes escaped, line ends and control characters blank.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '|' | '\\' => out.extend(['\\', c]),
            c if is_break(c) => out.push(' '),
            c => out.push(c),
        }
        out
    })
}

/// A text on one line that moves no cursor.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if is_break(c) { ' ' } else { c }).collect()
}

fn is_break(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

impl Table {
    /// The table for people: title, aligned columns (display width, so CJK lines up in a terminal), notes.
    pub fn markdown(&self) -> String {
        let width = self.columns.len();
        let headings: Vec<String> = self.columns.iter().map(|heading| escaped(heading)).collect();
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| (0..width).map(|i| row.get(i).map(Cell::markdown).unwrap_or_default()).collect())
            .collect();
        let columns: Vec<(usize, bool)> = (0..width)
            .map(|i| {
                let texts = std::iter::once(&headings).chain(&rows).filter_map(|row| row.get(i));
                (texts.map(|text| text.width()).max().unwrap_or(0).max(3), self.is_numeric(i))
            })
            .collect();
        let mut out = format!("### {}\n\n", on_one_line(&self.title));
        write_line(&mut out, &headings, &columns);
        for &(width, right) in &columns {
            let dashes = "-".repeat(width + 1);
            let _ = if right { write!(out, "|{dashes}:") } else { write!(out, "|:{dashes}") };
        }
        out.push_str("|\n");
        for row in &rows {
            write_line(&mut out, row, &columns);
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "- {}", on_one_line(note));
        }
        out
    }

    /// The table for programs: a line of headings, then the rows, numbers in full precision.
    pub fn write_csv(&self, out: impl Write) -> csv::Result<()> {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(out);
        writer.write_record(&self.columns)?;
        for row in &self.rows {
            writer.write_record(row.iter().map(Cell::csv))?;
        }
        writer.flush()?;
        Ok(())
    }

    /// Whether a column holds numbers only, and at least one.
    fn is_numeric(&self, column: usize) -> bool {
        let mut cells = self
            .rows
            .iter()
            .filter_map(|row| row.get(column))
            .filter(|cell| !matches!(cell, Cell::Empty))
            .peekable();
        cells.peek().is_some() && cells.all(Cell::is_numeric)
    }
}

/// One line of a table.
fn write_line(out: &mut String, texts: &[String], columns: &[(usize, bool)]) {
    for (text, &(width, right)) in texts.iter().zip(columns) {
        let gap = " ".repeat(width.saturating_sub(text.width()));
        let _ = if right { write!(out, "| {gap}{text} ") } else { write!(out, "| {text}{gap} ") };
    }
    out.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(rows: Vec<Vec<Cell>>) -> Table {
        Table {
            name: "t".into(),
            title: "A\ntitle".into(),
            columns: vec!["name".into(), "f1".into(), "Δ".into()],
            rows,
            notes: vec!["one\nnote".into()],
        }
    }

    #[test]
    fn markdown_lines_up() {
        let table = table(vec![
            vec![Cell::text("普通话"), Cell::Number(100.0 / 3.0, 1), Cell::Delta(0.04, 1)],
            vec![Cell::text("a|b\\|"), Cell::Empty, Cell::Delta(-1.25, 1)],
            vec![Cell::text("n"), Cell::Count(1200), Cell::Empty],
        ]);
        let expect = "\
### A title

| name     |   f1 |    Δ |
|:---------|-----:|-----:|
| 普通话   | 33.3 |  0.0 |
| a\\|b\\\\\\| |      | -1.2 |
| n        | 1200 |      |

- one note
";
        assert_eq!(table.markdown(), expect);
    }

    #[test]
    fn csv_keeps_every_digit() {
        let table = table(vec![vec![Cell::text("a,\"b\""), Cell::Number(100.0 / 3.0, 1), Cell::Empty]]);
        let mut out = Vec::new();
        table.write_csv(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name,f1,Δ\n\"a,\"\"b\"\"\",33.333333333333336,\n");
    }

    #[test]
    fn differences_have_signs_and_zero_has_none() {
        for (value, expect) in [(0.0, "0.0"), (-0.0, "0.0"), (-0.04, "0.0"), (0.16, "+0.2"), (-3.0, "-3.0")] {
            assert_eq!(Cell::Delta(value, 1).markdown(), expect, "{value}");
        }
        assert_eq!(Cell::Number(-0.01, 1).markdown(), "0.0");
    }

    fn cell() -> impl Strategy<Value = Cell> {
        prop_oneof![
            Just(Cell::Empty),
            any::<String>().prop_map(Cell::Text),
            "[|\\\\ \n\r\ta蓝]{0,8}".prop_map(Cell::Text),
            any::<u64>().prop_map(Cell::Count),
            (any::<f64>(), 0usize..400).prop_map(|(v, d)| Cell::Number(v, d)),
            (any::<f64>(), 0usize..4).prop_map(|(v, d)| Cell::Delta(v, d)),
        ]
    }

    /// Pipes that end a cell: those that no backslash escapes.
    fn borders(line: &str) -> usize {
        let mut escaped = false;
        line.chars()
            .filter(|&c| {
                let border = c == '|' && !escaped;
                escaped = c == '\\' && !escaped;
                border
            })
            .count()
    }

    proptest! {
        #[test]
        fn every_row_is_one_line_of_all_cells(rows in prop::collection::vec(prop::collection::vec(cell(), 0..5), 0..5)) {
            let table = table(rows);
            let text = table.markdown();
            let lines: Vec<&str> = text.lines().collect();
            prop_assert_eq!(lines.len(), 2 + 2 + table.rows.len() + 2);
            for line in &lines[2..4 + table.rows.len()] {
                prop_assert_eq!(borders(line), 4, "{}", line);
                prop_assert_eq!(line.width(), lines[2].width());
            }
        }

        #[test]
        fn csv_gives_back_what_went_in(rows in prop::collection::vec(prop::collection::vec(cell(), 3), 0..5)) {
            let table = table(rows);
            let mut out = Vec::new();
            table.write_csv(&mut out).unwrap();
            let mut reader = csv::Reader::from_reader(out.as_slice());
            let back: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            prop_assert_eq!(back.len(), table.rows.len());
            for (record, row) in back.iter().zip(&table.rows) {
                for (field, cell) in record.iter().zip(row) {
                    match cell {
                        Cell::Text(text) => prop_assert_eq!(field, text),
                        Cell::Number(value, _) | Cell::Delta(value, _) => {
                            prop_assert_eq!(field.parse::<f64>().unwrap().to_bits(), value.to_bits());
                        }
                        Cell::Count(count) => prop_assert_eq!(field.parse::<u64>().unwrap(), *count),
                        Cell::Empty => prop_assert_eq!(field, ""),
                    }
                }
            }
        }
    }
}
