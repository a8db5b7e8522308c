//! A hub with a data set and files beside it, a description of them, and a place to fetch them to.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::{Finished, finish, harness};
use crate::hub_server::{Host, HubServer, Repo, sha256};

/// Bytes that no compression and no repetition makes smaller.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

/// A tar archive of files, compressed.
pub(crate) fn tar_gz(files: &[(&str, &[u8])]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(gzip);
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        builder.append(&header, *bytes).expect("an entry");
    }
    builder.into_inner().expect("a tar").finish().expect("a gzip")
}

pub(crate) struct Scene {
    pub(crate) server: HubServer,
    pub(crate) dir: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self { server: HubServer::start(), dir: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the description of published data.
    pub(crate) fn describe(&self, parts: &str) {
        let text = format!(
            "benchmark = \"demo-set\"\nlicence = \"CC0, made for tests\"\n{parts}\n\n[expect]\nlanguages = [\"eng\", \"fra\"]\n"
        );
        std::fs::write(self.path("sources.toml"), text).expect("the description is written");
    }

    /// One large file of a data set, as `large.bin`.
    pub(crate) fn one_large(&self, bytes: &[u8]) {
        self.server.put("datasets/org/set", Repo::new([("large.bin", bytes.to_vec())]));
        self.describe(&hub_part("audio", "path = \"*\""));
    }

    /// One plain file, as `f.bin`; its hash is published or not.
    pub(crate) fn one_plain(&self, bytes: &[u8], published: bool) {
        self.server.put_web("/raw/own/repo/c0ffee/f.bin", bytes);
        self.describe(&web_part(bytes, published));
    }

    /// The binary with the environment of this place.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = harness();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        for name in ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HARNESS_MIRRORS"] {
            command.env_remove(name);
        }
        command
            .env("HF_HOME", self.path("hf"))
            .env("HF_ENDPOINT", self.server.url(Host::Hub))
            .env("HARNESS_GITHUB_RAW", format!("{}/raw", self.server.url(Host::Web)))
            .env("HF_HUB_DOWNLOAD_TIMEOUT", "2")
            .args(arguments);
        command
    }

    /// `harness fetch` of what is described, into `data`.
    pub(crate) fn fetch_command(&self, more: &[&str]) -> Command {
        let mut command = self.command(&["fetch"]);
        command.arg("--sources").arg(self.path("sources.toml")).arg("--to").arg(self.path("data")).args(more);
        command
    }

    pub(crate) fn fetch(&self, more: &[&str]) -> Finished {
        finish(&mut self.fetch_command(more))
    }

    /// Starts a fetch whose output can be read later.
    pub(crate) fn start(command: &mut Command) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    }

    /// A file of the data folder.
    pub(crate) fn data(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path("data").join(name)).ok()
    }

    pub(crate) fn record(&self) -> serde_json::Value {
        serde_json::from_slice(&self.data("fetch.json").expect("a record")).expect("JSON")
    }

    /// Files of the cache that are not whole, with their sizes.
    pub(crate) fn partials(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let is = entry.file_type().expect("a type");
                if is.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "incomplete") {
                    found.push((path, entry.metadata().expect("metadata").len()));
                }
            }
        }
        found
    }
}

/// A part of `org/set` on the hub.
pub(crate) fn hub_part(name: &str, file: &str) -> String {
    format!(
        "[[part]]\nname = \"{name}\"\nabout = \"files of the hub\"\n[part.origin.hub]\nrepo = \"org/set\"\n\
         revision = \"main\"\nkind = \"dataset\"\n[[part.file]]\n{file}\n"
    )
}

/// The part of one plain file.
pub(crate) fn web_part(bytes: &[u8], published: bool) -> String {
    let hash = if published {
        format!("bytes = {}\nsha256 = \"{}\"", bytes.len(), sha256(bytes))
    } else {
        String::new()
    };
    format!(
        "[[part]]\nname = \"plain\"\nabout = \"a plain file\"\n[part.origin.github]\nrepo = \"own/repo\"\n\
         commit = \"c0ffee\"\n[[part.file]]\npath = \"f.bin\"\n{hash}\n"
    )
}
