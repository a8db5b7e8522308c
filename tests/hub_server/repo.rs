//! A repository of the hub: its files at one commit.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// Files of at least this size are large ones (git LFS).
const LARGE: usize = 10_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Repo {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) private: bool,
    /// A name that the listing has beside those of the files.
    pub(crate) odd_name: Option<String>,
    /// Files whose listed SHA-256 is another than theirs.
    pub(crate) lies: bool,
    /// As some mirrors do it: all files come from the hub itself, with this entity tag and without its own headers.
    pub(crate) own_etag: Option<String>,
}

impl Repo {
    pub(crate) fn new<const N: usize>(files: [(&str, Vec<u8>); N]) -> Self {
        Self { files: files.map(|(name, bytes)| (name.to_owned(), bytes)).into(), ..Self::default() }
    }

    pub(crate) fn private(self) -> Self {
        Self { private: true, ..self }
    }

    /// Depends on all that it holds.
    pub(crate) fn commit(&self) -> String {
        let line = |(name, bytes): (&String, &Vec<u8>)| format!("{name} {}", sha256(bytes));
        let all = self.files.iter().map(line).collect::<Vec<_>>().join("\n");
        git_blob(all.as_bytes())
    }

    pub(crate) fn is_large(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|bytes| bytes.len() >= LARGE)
    }

    pub(crate) fn sha256_of(&self, path: &str) -> String {
        let sha256 = sha256(&self.files[path]);
        if self.lies { sha256.chars().rev().collect() } else { sha256 }
    }

    /// The rows of a listing.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let mut rows = vec![json!({ "type": "directory", "path": "data", "oid": "0".repeat(40), "size": 0 })];
        for (path, bytes) in &self.files {
            let mut row =
                json!({ "type": "file", "path": path, "size": bytes.len(), "oid": git_blob(bytes) });
            if self.is_large(path) {
                let sha256 = self.sha256_of(path);
                let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\n");
                row["oid"] = json!(git_blob(pointer.as_bytes()));
                row["lfs"] = json!({ "oid": sha256, "size": bytes.len(), "pointerSize": pointer.len() });
            }
            rows.push(row);
        }
        if let Some(name) = &self.odd_name {
            rows.push(json!({ "type": "file", "path": name, "size": 1, "oid": "1".repeat(40) }));
        }
        rows
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn git_blob(bytes: &[u8]) -> String {
    hex(&Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
}
