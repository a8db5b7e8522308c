//! `harness export`: the answers of a run in the form that a benchmark's authors take.

use std::path::PathBuf;

use clap::Args;

use super::exit::{self, Failure};
use super::print;
use crate::run::export::{ExportAsked, ExportError, chosen, export};
use crate::run::folder::{find_run, write_whole};

/// What to export, and where to.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The run: its name in the results folder, or the path of its folder.
    run: String,
    /// The form: `cfever` is the submission file of its authors, for the test split whose labels they keep.
    #[arg(long, value_name = "FORM")]
    format: String,
    /// The label of the benchmark section, where the run has several.
    #[arg(long, value_name = "LABEL")]
    benchmark: Option<String>,
    /// The condition, where the run has several.
    #[arg(long, value_name = "NAME")]
    condition: Option<String>,
    /// The file to write [default: LABEL-CONDITION.jsonl in the run's folder].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The folder of results.
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Write the file even if requests have no answer (what counts as wrong stands in their place), or if the run is of
    /// fewer rows than the data hold.
    #[arg(long)]
    allow_incomplete: bool,
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let code = match &error {
            ExportError::Run(_) | ExportError::Plan(_) | ExportError::Journal(_) | ExportError::Write(_) => {
                exit::FOLDER
            }
            ExportError::Choice(_) => exit::USAGE,
            ExportError::Incomplete { .. } | ExportError::Part { .. } => exit::INCOMPLETE,
        };
        match error {
            ExportError::Run(error) => error.into(),
            error => Self::new(code, format!("error: {error}")),
        }
    }
}

/// `harness export RUN --format FORM`
pub(super) fn run(args: &ExportArgs) -> Result<u8, Failure> {
    let folder = find_run(&args.run, &args.results)?;
    let asked = ExportAsked {
        format: &args.format,
        section: args.benchmark.as_deref(),
        condition: args.condition.as_deref(),
        allow_incomplete: args.allow_incomplete,
    };
    let (section, condition) = chosen(&folder, &asked)?;
    let path = args.out.clone().unwrap_or_else(|| folder.join(format!("{section}-{condition}.jsonl")));
    let mut result = None;
    let written = write_whole(&path, |out| {
        let done = export(&folder, (&section, &condition), args.allow_incomplete, out);
        let failed = done.is_err();
        result = Some(done);
        // Nothing half-written stays.
        if failed { Err(std::io::ErrorKind::Other.into()) } else { Ok(()) }
    });
    match (result, written) {
        (Some(Err(error)), _) => return Err(error.into()),
        (_, Err(error)) => return Err(error.into()),
        (Some(Ok(done)), Ok(())) => {
            print(&format!("{}: {} lines\n", path.display(), done.lines))?;
            if done.lines < done.rows {
                eprintln!("incomplete: {} of {} claims", done.lines, done.rows);
            }
            if done.unanswered > 0 {
                eprintln!("incomplete: {} lines are of requests without an answer", done.unanswered);
            }
        }
        (None, Ok(())) => {}
    }
    Ok(exit::DONE)
}
