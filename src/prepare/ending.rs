//! The end of a set whose parts are done: its rows in their order, what was found in them, and the record that says so.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::Value;

use super::PrepareError;
use super::counting::Counting;
use super::files::{clear_out, listed, sync_folder};
use super::layout::Layout;
use super::part;
use super::pool::lock;
use super::work::{Event, Under, Work};
use crate::dataset::prepared::{FOLDER, ListRecord, RECORD, SetRecord, list_path};
use crate::types::{Digest, shown};

impl Work<'_> {
    /// Writes the rows and the record of a set whose parts are done.
    pub(super) fn end(&self, under: &Under<'_>) -> Result<(), PrepareError> {
        let name = &under.set.name;
        let path = self.prepared.join(format!("{name}.jsonl"));
        let mut counting = Counting::default();
        let layout = self.plan.layout;
        let (bytes, blake3) = match layout.joins() {
            None => whole(&path, |write| gather(under, layout, &mut counting, write))?,
            Some(join) => {
                let mut rows = Vec::new();
                gather(under, layout, &mut counting, &mut |row| {
                    rows.push(row.clone());
                    Ok(())
                })?;
                let mut problems = Vec::new();
                let rows = join(rows, &mut problems);
                for problem in problems {
                    counting.problem(problem);
                }
                counting.counts.rows = rows.len() as u64;
                whole(&path, |write| rows.iter().try_for_each(write))?
            }
        };
        // Before the list is written over.
        let earlier = lock(&self.record).sets.get(name).map(|set| set.list);
        let earlier = earlier.map(|list| listed(&self.plan.to, name, &list)).unwrap_or_default();
        let list = beside_and_synced(&list_path(&self.plan.to, name), &counting.list)?;
        sync_folder(&self.prepared)?;
        let set = SetRecord {
            sources: under.set.sources.clone(),
            bytes,
            blake3,
            list,
            counts: counting.counts,
            problems: std::mem::take(&mut counting.problems),
        };
        {
            let mut record = lock(&self.record);
            record.sets.insert(name.clone(), set);
            let text = serde_json::to_vec_pretty(&*record);
            let text = text.map_err(|_| PrepareError::Internal("the record is no JSON"))?;
            beside_and_synced(&self.prepared.join(RECORD), &text)?;
            sync_folder(&self.prepared)?;
        }
        // Only now: rows of an earlier source name them until then.
        let is_named = |file: &str| counting.has(&format!("{FOLDER}/{name}/{file}"));
        clear_out(&self.prepared.join(name), &earlier, is_named);
        // What could not be read is tried again from the first row of its part on; the other parts are kept for that.
        if counting.counts.faults == 0 {
            for journal in &under.journals {
                let _ = std::fs::remove_file(journal);
            }
        }
        (self.observe)(Event::Set { name, counts: &counting.counts });
        Ok(())
    }
}

type Write<'a> = &'a mut dyn FnMut(&Value) -> Result<(), PrepareError>;

/// Gives the rows of all parts, and counts what they hold.
fn gather(
    under: &Under<'_>,
    layout: Layout,
    counting: &mut Counting,
    write: Write<'_>,
) -> Result<(), PrepareError> {
    for journal in &under.journals {
        for line in part::lines(journal)? {
            let line = line?;
            line.files.iter().for_each(|file| counting.file(file));
            counting.counts.absent += line.absent;
            counting.counts.faults += line.faults;
            line.problems.into_iter().for_each(|problem| counting.problem(problem));
            let Value::Array(pair) = line.row else { continue };
            let [Value::String(key), row] = &*pair else { continue };
            if counting.again(key) {
                counting.problem(format!("a row is there twice: {}", shown(&key.replace('\0', ", "))));
            }
            counting.counts.rows += 1;
            if let Some((passage, found)) = layout.sentences(row) {
                counting.sentences(&passage, found);
            }
            write(row)?;
        }
    }
    Ok(())
}

/// Writes a file of rows whole, and gives its size and hash.
fn whole(
    path: &Path,
    fill: impl FnOnce(Write<'_>) -> Result<(), PrepareError>,
) -> Result<(u64, Digest), PrepareError> {
    let beside = path.with_added_extension("partial");
    let mut file = BufWriter::new(File::create(&beside).map_err(PrepareError::disk(&beside))?);
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    fill(&mut |row| {
        let mut text = serde_json::to_vec(row).map_err(|_| PrepareError::Internal("a row is no JSON"))?;
        text.push(b'\n');
        hasher.update(&text);
        bytes += text.len() as u64;
        file.write_all(&text).map_err(PrepareError::disk(path))
    })?;
    let synced =
        file.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|file| file.sync_all());
    synced.and_then(|()| std::fs::rename(&beside, path)).map_err(PrepareError::disk(path))?;
    Ok((bytes, Digest(*hasher.finalize().as_bytes())))
}

/// Writes a small file whole or not at all, and gives its size and hash.
fn beside_and_synced(path: &Path, text: &[u8]) -> Result<ListRecord, PrepareError> {
    let beside = path.with_added_extension("partial");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&beside, path)).map_err(PrepareError::disk(path))?;
    Ok(ListRecord { bytes: text.len() as u64, blake3: Digest::of(text) })
}
