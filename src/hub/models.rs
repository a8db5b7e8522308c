//! The files of a published model that are needed to run it, and getting them.

use std::path::PathBuf;

use futures::StreamExt as _;

use super::api::Entry;
use super::cache::{Repo, RepoKind};
use super::carry_out::together;
use super::error::HubError;
use super::store::{Hub, Listing, Lookup};
use super::{Event, Observer};

/// Endings of files that hold the same weights in other formats, or that nothing here reads.
const OTHER: [&str; 14] = [
    "bin",
    "pth",
    "pt",
    "ckpt",
    "h5",
    "msgpack",
    "onnx",
    "onnx_data",
    "gguf",
    "ot",
    "tflite",
    "mlmodel",
    "nemo",
    "pdf",
];

/// A model of the hub, looked at.
#[derive(Clone, Debug)]
pub struct ModelFiles {
    /// All that its revision holds.
    pub listing: Listing,
    /// What is needed of it.
    pub wanted: Vec<Entry>,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes that are here already.
    pub have: u64,
    /// The folder that they are in, or will be.
    pub folder: PathBuf,
    /// The command that fetches them.
    pub command: String,
}

impl ModelFiles {
    /// Whether all of them are here.
    pub fn complete(&self) -> bool {
        self.have == self.bytes
    }
}

/// The command that fetches a model.
fn command(repo: &str, revision: &str) -> String {
    match revision {
        "main" => format!("harness fetch --model {repo}"),
        revision => format!("harness fetch --model {repo} --revision {revision}"),
    }
}

/// Picks the files that running a model needs: those of the top folder, weights as safetensors only.
fn wanted(entries: &[Entry]) -> Vec<Entry> {
    let is_shard = |name: &str| {
        let middle = name.strip_prefix("model-").and_then(|name| name.strip_suffix(".safetensors"));
        name == "model.safetensors" || middle.is_some_and(|middle| middle.contains("-of-"))
    };
    let named = entries.iter().any(|entry| is_shard(&entry.path));
    let fits = |entry: &&Entry| {
        let name = entry.path.as_str();
        if name.contains('/') || name.starts_with('.') {
            return false;
        }
        let end = name.rsplit_once('.').map_or("", |(_, end)| end);
        if end == "safetensors" {
            // `model.fp32-….safetensors` and the like are the same weights once more.
            return !named || is_shard(name);
        }
        !OTHER.contains(&end) && !name.ends_with(".bin.index.json") && entry.bytes < 64 << 20
    };
    entries.iter().filter(fits).cloned().collect()
}

impl Hub {
    /// Looks at a model: what running it needs, and what of that is here.
    pub async fn model(
        &self,
        id: &str,
        revision: &str,
        lookup: Lookup,
        observer: &dyn Observer,
    ) -> Result<ModelFiles, HubError> {
        let repo = Repo::new(RepoKind::Model, id)?;
        let command = command(id, revision);
        let listing = self.list(&repo, revision, lookup, &command, observer).await?;
        let wanted = wanted(&listing.entries);
        if !wanted.iter().any(|entry| entry.path.ends_with(".safetensors")) {
            return Err(HubError::Nothing {
                pattern: "*.safetensors".to_owned(),
                origin: format!("{repo} at {revision}"),
                page: format!("{}/{repo}", self.settings().endpoint),
            });
        }
        let have = wanted.iter().map(|entry| self.cache().have(&repo, &listing.commit, entry)).sum();
        Ok(ModelFiles {
            bytes: wanted.iter().map(|entry| entry.bytes).sum(),
            have,
            folder: self.cache().snapshot(&repo, &listing.commit),
            listing,
            wanted,
            command,
        })
    }

    /// Fetches the files of a model, `jobs` at a time; with `verify` those that were here are read and checked.
    /// What failed is told by file.
    pub async fn fetch_model(
        &self,
        files: &ModelFiles,
        jobs: usize,
        verify: bool,
        observer: &dyn Observer,
    ) -> Vec<(String, HubError)> {
        let one = |entry: Entry| async move {
            let here = self.cache().find(&files.listing.repo, &files.listing.commit, &entry).is_some();
            let fetched = self.fetch(&files.listing, &entry, &files.command, observer).await;
            let result = match fetched {
                Ok((path, _)) if here && verify => {
                    let entry = entry.clone();
                    let checked = super::download::blocking(move || Self::verify(&path, &entry)).await;
                    checked.and_then(|checked| checked).map(drop)
                }
                fetched => fetched.map(drop),
            };
            observer.on(&entry.path, if result.is_ok() { Event::Done } else { Event::Failed });
            result.map_err(|error| (entry.path, error)).err()
        };
        // Files of one content are one download, which takes one place.
        let groups = together(files.wanted.iter().cloned(), |entry| Some(entry.etag().to_owned()));
        let group = |entries: Vec<Entry>| async move {
            let mut failed = Vec::new();
            for entry in entries {
                failed.extend(one(entry).await);
                if failed.last().is_some_and(|(_, error): &(String, HubError)| error.ends_all()) {
                    break;
                }
            }
            failed
        };
        let mut failed = Vec::new();
        let mut results = futures::stream::iter(groups.into_iter().map(group)).buffer_unordered(jobs.max(1));
        while let Some(results) = results.next().await {
            let ends = results.iter().any(|(_, error)| error.ends_all());
            failed.extend(results);
            if ends {
                break;
            }
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: &[&str]) {
        let entry = |name: &&str| Entry {
            path: (*name).to_owned(),
            bytes: 1,
            blob_id: "a".repeat(40),
            sha256: None,
            xet_hash: None,
        };
        let entries: Vec<Entry> = names.iter().map(entry).collect();
        let found: Vec<String> = wanted(&entries).into_iter().map(|entry| entry.path).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn weights_are_taken_once_and_small_files_all() {
        check(
            &[
                ".gitattributes",
                "LICENSE",
                "config.json",
                "merges.txt",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
                "model.fp32-00001-of-00002.safetensors",
                "model.safetensors.index.json",
                "onnx/model.onnx",
                "original/consolidated.safetensors",
                "pytorch_model.bin",
                "pytorch_model.bin.index.json",
                "tf_model.h5",
                "tokenizer.json",
            ],
            &[
                "LICENSE",
                "config.json",
                "merges.txt",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
                "model.safetensors.index.json",
                "tokenizer.json",
            ],
        );
        check(&["weights.safetensors", "a.bin"], &["weights.safetensors"]);
    }
}
