//! What the server can be told. Tests and the command line use the same words.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use super::content::{Form, Kind};
use super::fault::{Latency, Rate, duration};

/// How the server behaves; `Options::default()` answers everything at once.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Clone, Debug, Parser)]
pub(crate) struct Options {
    /// The loopback address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_parser = loopback)]
    pub(crate) host: IpAddr,
    /// The port; 0 takes any that is free.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Decides which requests the faults hit, and distributed latencies.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Time before an answer: 50ms, or lognormal:50ms,0.5 (median, spread). Errors come at once.
    #[arg(long, default_value = "0")]
    pub(crate) latency: Latency,
    /// What goes wrong how often: 429=0.2,reset=5%. An unknown kind lists all of them.
    #[arg(long = "fault", value_name = "KIND=RATE", value_delimiter = ',')]
    pub(crate) faults: Vec<Rate>,
    /// Fail the first N attempts at each content, and none after; the rates then say only how (500 by default).
    #[arg(long, value_name = "N")]
    pub(crate) fail_first: Option<u32>,
    /// How long a 429 tells the client to wait.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) retry_after: Duration,
    /// How long a slow body takes.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) slow_body: Duration,
    /// After N requests, once, reset all connections and refuse new ones.
    #[arg(long, value_name = "N")]
    pub(crate) down_after: Option<u64>,
    /// For how long.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) down_for: Duration,
    /// The largest body in bytes; a larger one gets 413.
    #[arg(long, default_value_t = 256 << 20)]
    pub(crate) max_body: u64,
    /// The most requests at once; more get 503.
    #[arg(long, value_name = "N")]
    pub(crate) max_concurrency: Option<u64>,
    /// Close the connection after each response.
    #[arg(long)]
    pub(crate) close: bool,
    /// Check the exact wire form and answer 400 with a sentence where it is off.
    #[arg(long)]
    pub(crate) strict: bool,
    /// The key that requests must bear; others get 401.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The models that are served; others get 404. All names are served where none is given.
    #[arg(long, value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// The media that are taken; others get 400: `input_audio`, `audio_url`, `inline_audio`, image, none.
    #[arg(long, value_delimiter = ',', default_value = "input_audio,audio_url,inline_audio,image")]
    pub(crate) takes: Vec<Take>,
    /// Answer one of these, chosen by the request's content, in place of its hashes.
    #[arg(long, value_delimiter = ',')]
    pub(crate) answers: Vec<String>,
    /// Say that one of these models has answered, chosen by the request's content, in place of the one asked for.
    #[arg(long, value_delimiter = ',')]
    pub(crate) answers_as: Vec<String>,
    /// Let the seed choose among the answers too, as it does for a model that draws.
    #[arg(long)]
    pub(crate) seeded: bool,
    /// Ignore all media, as a server does whose template has no place for them: they count in neither answer nor usage.
    #[arg(long)]
    pub(crate) deaf: bool,
    /// A file with the SHA-256 of every medium that is to arrive, as `sha256sum` writes it: /counters then tells
    /// how many that arrived are of them (`media_original`), and how many are not (`media_other`).
    #[arg(long, value_name = "FILE")]
    pub(crate) originals: Option<PathBuf>,
    /// A file that gets a line of JSON for each request.
    #[arg(long)]
    pub(crate) log: Option<PathBuf>,
}

/// A form of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Take {
    /// `input_audio` parts.
    InputAudio,
    /// `audio_url` parts.
    AudioUrl,
    /// Audio in Gemini's `inline_data`.
    InlineAudio,
    /// Images in any form.
    Image,
    /// No media.
    None,
}

impl Options {
    /// The options of a command line, without the program's name; panics with clap's message where it is wrong.
    pub(crate) fn of(line: &str) -> Self {
        Self::try_parse_from(std::iter::once("loopback").chain(line.split_whitespace()))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether media of this form and kind are taken.
    pub(crate) fn takes(&self, form: Form, kind: Option<Kind>) -> bool {
        let take = match (form, kind) {
            (Form::Text | Form::System | Form::Bytes, _) => return true,
            (_, Some(Kind::Image)) => Take::Image,
            (Form::AudioUrl, _) => Take::AudioUrl,
            (Form::InlineData, _) => Take::InlineAudio,
            _ => Take::InputAudio,
        };
        self.takes.contains(&take)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::of("")
    }
}

/// The server is a toy without any protection, so only this machine may reach it.
fn loopback(text: &str) -> Result<IpAddr, String> {
    let address = if text == "localhost" { "127.0.0.1" } else { text };
    match address.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => Ok(address),
        _ => Err(format!("`{text}` is not a loopback address; expected 127.0.0.1 or ::1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_taken() {
        for host in ["127.0.0.1", "::1", "localhost", "127.0.0.9"] {
            assert!(Options::try_parse_from(["loopback", "--host", host]).is_ok(), "{host}");
        }
        for host in ["0.0.0.0", "192.168.0.1", "::", "example.org"] {
            assert!(Options::try_parse_from(["loopback", "--host", host]).is_err(), "{host}");
        }
    }

    #[test]
    fn lists_are_read() {
        let options = Options::of("--fault 429=0.2,reset=0.1 --fault 500=5% --takes image --models a,b");
        assert_eq!(options.faults.len(), 3);
        assert_eq!(options.models, ["a", "b"]);
        assert!(options.takes(Form::Source, Some(Kind::Image)));
        assert!(!options.takes(Form::InputAudio, Some(Kind::Audio)));
    }
}
