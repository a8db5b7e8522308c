//! What the tests of the binary share: running it, and folders to run it in.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The binary, to be started in the repository.
pub(crate) fn harness() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.current_dir(root()).env_remove("HARNESS_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

impl Finished {
    /// Checks the exit code, and shows everything where it is another.
    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that a sentence stands on standard error.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "`{text}` is not in\n{}", self.stderr);
        self
    }

    /// Checks that a text stands on standard output.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "`{text}` is not in\n{}", self.stdout);
        self
    }
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    command.output().expect("the binary starts").into()
}

/// A WAV file of these samples, 16-bit mono at 16 kHz.
pub(crate) fn wav(samples: impl Iterator<Item = i16>) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = std::io::Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut file, spec).expect("a WAV file begins");
    samples.for_each(|sample| writer.write_sample(sample).expect("a sample is written"));
    writer.finalize().expect("a WAV file ends");
    file.into_inner()
}

/// The responses of a journal, the header and a torn last line left out.
pub(crate) fn journaled(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.skip(1).map(|line| serde_json::from_str(line).expect("a response")).collect()
}

/// A temporary place with a config that runs the demo model over a user's own JSONL.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
}

impl Place {
    /// A place with the rows and a config for them. Media names are relative to `demo/`.
    pub(crate) fn new(rows: &str) -> Self {
        let place = Self { dir: tempfile::tempdir().expect("a temporary folder") };
        std::fs::write(place.path("rows.jsonl"), rows).expect("rows are written");
        let config = format!(
            "[model]\nkind = \"local\"\narchitecture = \"qwen2_audio\"\nweights = \"{weights}\"\ndevice = \"cpu\"\n\
             batch_size = 4\n\n[generation]\nmax_new_tokens = 16\n\n[[benchmark]]\nname = \"manifest\"\n\
             data = \"rows.jsonl\"\nmedia = \"{media}\"\nmetrics = [\"exact_match\"]\n",
            weights = root().join("demo/model").display(),
            media = root().join("demo").display(),
        );
        std::fs::write(place.path("c.toml"), config).expect("the config is written");
        place
    }

    /// A file of the place.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The config with a part of it replaced.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path("c.toml")).expect("the config is there");
        assert!(text.contains(from), "`{from}` is not in {text}");
        std::fs::write(self.path("c.toml"), text.replace(from, to)).expect("the config is written");
    }

    /// `harness VERB c.toml --results …`
    pub(crate) fn command(&self, verb: &str, more: &[&str]) -> Command {
        let mut command = harness();
        command.arg(verb).arg(self.path("c.toml")).arg("--results").arg(self.path("results")).args(more);
        command
    }

    /// `harness run`, to its end.
    pub(crate) fn run(&self, more: &[&str]) -> Finished {
        finish(&mut self.command("run", more))
    }

    /// `harness run`, started.
    pub(crate) fn start(&self, more: &[&str]) -> Child {
        let mut command = self.command("run", more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    }

    /// A file of the run.
    pub(crate) fn result(&self, name: &str) -> PathBuf {
        self.path("results/c").join(name)
    }

    /// The responses of the run, the header left out.
    pub(crate) fn responses(&self) -> Vec<serde_json::Value> {
        journaled(&self.result("responses.jsonl"))
    }

    /// The scores of the run.
    pub(crate) fn scores(&self) -> serde_json::Value {
        let text = std::fs::read_to_string(self.result("scores.json")).expect("scores are there");
        serde_json::from_str(&text).expect("scores are JSON")
    }
}

/// Rows that ask about the clean demo clips: `n` of the 48, in a fixed order.
pub(crate) fn spoken_rows(n: usize) -> String {
    let text = std::fs::read_to_string(root().join("demo/ccfqa/test.jsonl")).expect("the demo is there");
    let names =
        [("eng", "English"), ("fra", "French"), ("spa", "Spanish"), ("rus", "Russian"), ("kor", "Korean")];
    let facts = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a row"));
    let rows = facts.flat_map(|fact| {
        names.map(|(code, name)| {
            let row = serde_json::json!({
                "id": format!("{}-{code}", fact["index"]),
                "audio": format!("ccfqa/{}", fact[code]["audio"].as_str().expect("a clip")),
                "question": format!("The question is spoken in {name}. Answer it in {name}."),
                "reference": fact[code]["answer"],
                "category": code,
            });
            format!("{row}\n")
        })
    });
    rows.take(n).collect()
}
