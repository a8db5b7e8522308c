//! Rows of claims with worked examples and no sentences: all that claims need that are judged alone. No page of Wikipedia
//! has to be there.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use super::claims::read_lines;
use super::sources::{self, Sources};
use super::{EvidenceAsked, EvidenceDone, EvidenceEvent, On, Unfinished, count_lines, finish, lock, shots};
use crate::benchmark::cfever::row::{Found, NO_RETRIEVAL, gold_of};
use crate::prepare::PrepareError;

/// The folder of these rows, in a data folder: those with sentences stay as they are.
pub const CLAIMS: &str = "claims";

/// Makes the rows of every split that is there. They are few, and made anew each time.
pub(super) fn prepare(asked: &EvidenceAsked, on: On<'_>) -> Result<EvidenceDone, PrepareError> {
    let splits = Sources::claims_alone(&asked.data)?;
    let shots = if asked.settings.shots > 0 {
        shots::draw(&sources::train(&asked.data)?, &asked.settings, None)?
    } else {
        Vec::new()
    };
    let folder = asked.to.as_ref().unwrap_or(&asked.data).join(CLAIMS);
    std::fs::create_dir_all(&folder).map_err(PrepareError::disk(&folder))?;
    let _lock = lock(&folder)?;
    let found = Found { retrieval: NO_RETRIEVAL.to_owned(), shots, ..Found::default() };
    let found = serde_json::to_value(found).map_err(|e| PrepareError::Evidence(e.to_string()))?;
    let mut done = EvidenceDone::default();
    for split in splits {
        on(EvidenceEvent::Begins(split.name, count_lines(&split.path)?));
        let path = folder.join(format!("{}.jsonl", split.name));
        let rows = write(&split.path, &found, &path, on)?;
        if rows == 0 {
            done.problem(format!("{}: holds no claims", split.path.display()));
        }
        done.lines.push(format!(
            "{}: {rows} claims without sentences, {} worked examples",
            path.display(),
            asked.settings.shots
        ));
        done.rows.push(path);
    }
    Ok(done)
}

/// Writes the claims of a file with `found` added; gives their number.
fn write(claims: &Path, found: &Value, path: &Path, on: On<'_>) -> Result<u64, PrepareError> {
    let part = path.with_extension("part");
    let _unfinished = Unfinished(&part);
    let disk = || PrepareError::disk(&part);
    let mut out = BufWriter::new(File::create(&part).map_err(disk())?);
    let mut rows = 0;
    for (number, line) in read_lines(claims)? {
        let wrong =
            |problem: String| PrepareError::Evidence(format!("{}:{number}: {problem}", claims.display()));
        let mut row: Value =
            serde_json::from_str(&line).map_err(|e| wrong(format!("not valid JSON: {e}")))?;
        gold_of(&row).map_err(&wrong)?;
        if let Value::Object(row) = &mut row {
            row.insert("found".to_owned(), found.clone());
        }
        serde_json::to_writer(&mut out, &row).map_err(|e| disk()(e.into()))?;
        out.write_all(b"\n").map_err(disk())?;
        rows += 1;
        on(EvidenceEvent::Done(1));
    }
    finish(out, &part, path)?;
    Ok(rows)
}
