//! A place with clips, questions about them and a config for a server; every reference is the answer that the
//! server owes to just this request.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{Finished, Place, wav};
use crate::loopback::{Loopback, Piece, base64, right_answer};

/// Clips that all questions share.
pub(crate) const CLIPS: usize = 20;

pub(crate) struct Scene {
    pub(crate) place: Place,
}

/// A WAV file of 16-bit mono at 16 kHz; no two are equal.
pub(crate) fn clip(number: usize, samples: usize) -> Vec<u8> {
    wav((0..samples).map(|sample| (sample * (number + 3) % 3001) as i16))
}

impl Scene {
    /// `count` questions. `flow` is what stands under `[model.flow]`.
    pub(crate) fn new(count: usize, url: &str, flow: &str) -> Self {
        let rows: String = {
            let clips: Vec<String> = (0..CLIPS).map(|n| base64(&clip(n, Self::samples(n)))).collect();
            let row = |number: usize| {
                let question = format!("What is said in recording {number}?");
                let wire = clips[number % CLIPS].as_bytes();
                let reference = right_answer(&[Piece::Media(wire), Piece::Text(&question)]);
                let row = serde_json::json!({
                    "id": format!("q{number}"),
                    "audio": format!("clips/{}.wav", number % CLIPS),
                    "question": question,
                    "reference": reference,
                });
                format!("{row}\n")
            };
            (0..count).map(row).collect()
        };
        let place = Place::new(&rows);
        std::fs::create_dir(place.path("clips")).unwrap();
        for number in 0..CLIPS {
            let name = format!("clips/{number}.wav");
            std::fs::write(place.path(&name), clip(number, Self::samples(number))).unwrap();
        }
        let config = format!(
            "[model]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}/v1\"\nrevision = \"1\"\n\n\
             [model.audio]\n# audio\n\n[model.flow]\ndelay_seconds = 0.02\nmax_delay_seconds = 0.2\n{flow}\n\n\
             [generation]\nmax_new_tokens = 64\n\n[[benchmark]]\nname = \"manifest\"\ndata = \"rows.jsonl\"\n\
             metrics = [\"exact_match\"]\n"
        );
        std::fs::write(place.path("c.toml"), config).unwrap();
        Self { place }
    }

    /// Clips of a tenth of a second to two seconds.
    fn samples(number: usize) -> usize {
        1600 * (number + 1)
    }

    /// Points the config at another server.
    pub(crate) fn turn_to(&self, server: &Loopback) {
        let text = std::fs::read_to_string(self.place.path("c.toml")).unwrap();
        let lines = text.lines().map(|line| {
            if line.starts_with("base_url") {
                format!("base_url = \"{}/v1\"", server.url())
            } else {
                line.into()
            }
        });
        std::fs::write(self.place.path("c.toml"), lines.collect::<Vec<_>>().join("\n")).unwrap();
    }

    /// The latest response to each sample, with all that must not depend on chance: key, request and text.
    pub(crate) fn answers(&self) -> BTreeMap<String, (String, String, String)> {
        let of = |r: &Value, key: &str| r[key].as_str().unwrap().to_owned();
        let ok = |r: &&Value| r["outcome"] == "ok";
        let responses = self.place.responses();
        let answer = |r: &Value| (of(r, "sample"), (of(r, "key"), of(r, "request"), of(r, "text")));
        responses.iter().filter(ok).map(answer).collect()
    }

    /// Checks that each of `count` samples has one `ok` response and no other, and that it is its own answer.
    #[track_caller]
    pub(crate) fn is_whole(&self, count: usize, what: &str) {
        let responses = self.place.responses();
        for response in &responses {
            assert_eq!(response["outcome"], "ok", "{what}: {response}");
        }
        assert_eq!(responses.len(), count, "{what}: one line a request");
        assert_eq!(self.answers().len(), count, "{what}: every sample");
        let scores = self.place.scores();
        let metric = &scores["benchmarks"][0]["metrics"][0];
        assert_eq!(metric["metric"], "exact_match", "{what}");
        assert_eq!(
            (metric["value"].as_f64(), metric["n"].as_u64()),
            (Some(100.0), Some(count as u64)),
            "{what}"
        );
    }

    /// `harness run`, to its end.
    pub(crate) fn run(&self, more: &[&str]) -> Finished {
        self.place.run(more)
    }
}
