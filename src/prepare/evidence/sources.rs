//! Which files lie in a data folder of CFEVER.

use std::path::{Path, PathBuf};

use super::Retrieval;
use crate::prepare::PrepareError;

/// A split whose rows are made.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    /// The published pages for its claims.
    pub(super) pages: Option<PathBuf>,
}

/// The files that rows are made of.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) dump: Vec<PathBuf>,
    pub(super) splits: Vec<Split>,
    /// The train split, where worked examples are asked for.
    pub(super) train: Option<PathBuf>,
    pub(super) retrieval: Retrieval,
}

impl Sources {
    /// Looks at a data folder.
    pub(super) fn find(data: &Path, retrieval: Option<Retrieval>, shots: bool) -> Result<Self, PrepareError> {
        let missing = |what: &str, remedy: &str| missing(data, what, remedy);
        let dump = dump(data)?;
        if dump.is_empty() {
            return Err(missing(
                "no pages of Wikipedia (looked for wiki-pages/*.jsonl)",
                "`harness fetch cfever` says where the dump is; unpack it into the data folder. For the condition `claim_only` \
                 alone, --no-evidence does without",
            ));
        }
        let pages = |split: &str| {
            let name = format!("{split}_doc10.jsonl");
            let places = ["simple_baseline/data/bm25_test", "bm25_test", "."];
            places.map(|place| data.join(place).join(&name)).into_iter().find(|path| path.is_file())
        };
        let mut splits = Self::claims_alone(data)?;
        for split in &mut splits {
            split.pages = pages(split.name);
        }
        let without = splits.iter().find(|split| split.pages.is_none());
        let retrieval = match (retrieval, without) {
            (Some(Retrieval::Published), Some(split)) => {
                let what =
                    format!("no published pages for the split {} (looked for {0}_doc10.jsonl)", split.name);
                return Err(missing(&what, "get them with `harness fetch cfever`, or use --retrieval own"));
            }
            (Some(retrieval), _) => retrieval,
            (None, Some(_)) => Retrieval::Own,
            (None, None) => Retrieval::Published,
        };
        let train = shots.then(|| train(data)).transpose()?;
        Ok(Self { dump, splits, train, retrieval })
    }

    /// The splits that are there, without pages for their claims.
    pub(super) fn claims_alone(data: &Path) -> Result<Vec<Split>, PrepareError> {
        let split = |name: &'static str| claims(data, name).map(|path| Split { name, path, pages: None });
        let splits: Vec<Split> = ["dev", "test"].into_iter().filter_map(split).collect();
        if splits.is_empty() {
            return Err(missing(data, "no claims (looked for data/dev.jsonl and data/test.jsonl)", FETCH));
        }
        Ok(splits)
    }

    /// The files that rows depend on beside the store.
    pub(super) fn of_rows(&self) -> Vec<&PathBuf> {
        let mut files: Vec<&PathBuf> = self.splits.iter().map(|split| &split.path).collect();
        if self.retrieval == Retrieval::Published {
            files.extend(self.splits.iter().filter_map(|split| split.pages.as_ref()));
        }
        files.extend(&self.train);
        files
    }
}

/// How claims are got.
const FETCH: &str = "get the claims with `harness fetch cfever`";

fn missing(data: &Path, what: &str, remedy: &str) -> PrepareError {
    PrepareError::Missing { folder: data.to_owned(), what: what.to_owned(), remedy: remedy.to_owned() }
}

/// The train split, of which worked examples are drawn.
pub(super) fn train(data: &Path) -> Result<PathBuf, PrepareError> {
    let what = "no train split, of which worked examples are drawn (data/train.jsonl)";
    claims(data, "train").ok_or_else(|| missing(data, what, FETCH))
}

/// The claims of a split, as the authors' repository lays them, or bare.
fn claims(data: &Path, split: &str) -> Option<PathBuf> {
    let name = format!("{split}.jsonl");
    [data.join("data").join(&name), data.join(&name)].into_iter().find(|path| path.is_file())
}

/// The files of the dump, in the order of their names.
fn dump(data: &Path) -> Result<Vec<PathBuf>, PrepareError> {
    for folder in [data.join("wiki-pages"), data.join("wiki-pages").join("wiki-pages")] {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(PrepareError::Read { path: folder, source }),
        };
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "jsonl"))
            .filter(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')))
            .collect();
        if !found.is_empty() {
            found.sort();
            return Ok(found);
        }
    }
    Ok(Vec::new())
}
