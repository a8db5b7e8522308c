//! Examples of a benchmark, drawn from the user's training set and put among the section's prompt texts.

use std::path::Path;

use crate::benchmark::belebele::Draw;
use crate::config::BenchmarkConfig;
use crate::dataset::{Dataset, DatasetError, Row, RowError};
use crate::prompt::PromptSet;

/// Puts the examples that a section asks for among its prompt texts.
pub(super) fn put(config: &BenchmarkConfig, prompts: &mut PromptSet) -> Result<(), String> {
    let Some(settings) = config.belebele.as_ref().filter(|settings| settings.shots > 0) else {
        return Ok(());
    };
    let file = &settings.shots_file;
    let dataset = Dataset::open(file, None).map_err(|e| match e {
        DatasetError::Missing(_) => format!(
            "{}: the training set that examples are drawn from is not there: make it with \
             assemble_training_set.py of facebookresearch/belebele, and name it with shots_file",
            file.display()
        ),
        other => other.to_string(),
    })?;
    let mut draw = Draw::new(settings.shots, &settings.seeds);
    walk(&dataset, |row| draw.look(row.number, &row.value))?;
    let about = |reason: String| format!("{}: {reason}", file.display());
    draw.draw().map_err(about)?;
    walk(&dataset, |row| draw.take(row.number, &row.value))?;
    let name = Path::file_name(file).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    draw.put(prompts, &name).map_err(about)
}

/// Walks all rows: one that cannot be read would change what is drawn.
fn walk(dataset: &Dataset, mut visit: impl FnMut(&Row) -> Result<(), String>) -> Result<(), String> {
    for row in dataset.rows().map_err(|e| e.to_string())? {
        let row = row.map_err(|e: RowError| e.to_string())?;
        visit(&row).map_err(|reason| row.place().error(reason).to_string())?;
    }
    Ok(())
}
