//! Tables as plain data, and their Markdown and CSV.

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
