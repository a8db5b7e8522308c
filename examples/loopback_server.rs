//! A mock of model servers on this machine, to rehearse a configuration before it costs money.
//!
//! ```text
//! cargo run --release --example loopback_server -- --port 8000 --latency lognormal:400ms,0.5 \
//!     --fault 429=10%,500=2%,reset=1%,truncated-json=1%
//! ```
//!
//! The first line on standard output is its address, `http://127.0.0.1:8000`. It speaks the dialects of
//!
//! | server | path |
//! |---|---|
//! | `OpenAI`, vLLM, `SGLang`, llama.cpp | `/v1/chat/completions` (streaming too), `/v1/completions`, `/v1/models` |
//! | transcription | `/v1/audio/transcriptions` |
//! | Azure | `/openai/deployments/{name}/chat/completions?api-version=…`, `/openai/v1/chat/completions` |
//! | Gemini | `/v1beta/models/{name}:generateContent` |
//! | Anthropic | `/v1/messages` |
//!
//! To rehearse a run:
//!
//! 1. Start the server as above. `--strict` makes it check the exact wire form and say what is off;
//!    `--key`, `--models` and `--takes` make it refuse wrong keys, unknown models and forms of media.
//! 2. Run the configuration with the endpoint's address set to the server's, the rest unchanged. Every answer is
//!    a hash of the texts and media that arrived, so scores mean nothing, but all else is real: what is sent, how
//!    fast, at what cost in CPU and memory, what a kill and a resume do. `--answers A,B,C,D` answers letters.
//! 3. Look at `curl http://127.0.0.1:8000/counters`. After a good run `answered` is the number of distinct
//!    requests, `repeats` (work paid for twice) and `early` (retries before the server allowed them) are 0, and
//!    `with_media` and `media_bytes` say that the clips arrived. `--log FILE` writes a line for each request.
//!    `--originals FILE`, a list as `sha256sum` writes it, adds how many media arrived byte for byte
//!    (`media_original`) and how many did not (`media_other`).
//! 4. Make it worse: `--fault 429=60%`, `--fail-first 3`, `--down-after 500 --down-for 30s`, `--deaf` (a server
//!    whose template drops the audio). The same seed hits the same requests each time.
//! 5. `curl -X POST http://127.0.0.1:8000/shutdown` ends it.
//!
//! `--blast URL` turns the program into a client that posts ready-made bodies as fast as it can, checks each
//! answer, and prints requests a second and CPU: the ceiling that a real client is compared with.
//!
//! It listens on loopback addresses only and has no protection of any kind.

#[path = "../tests/loopback/mod.rs"]
mod loopback;

#[path = "loopback/blast.rs"]
mod blast;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

/// A mock of model servers on this machine, to rehearse a configuration before it costs money.
#[derive(Parser)]
#[command(name = "loopback_server")]
struct Cli {
    #[command(flatten)]
    server: loopback::Options,
    #[command(flatten)]
    blast: blast::Options,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = if cli.blast.url.is_some() { blast::run(&cli.blast) } else { serve(cli.server) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: loopback::Options) -> std::io::Result<()> {
    let server = loopback::Loopback::start(options)?;
    writeln!(std::io::stdout(), "{}", server.url())?;
    std::io::stdout().flush()?;
    server.wait();
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&server.counters())?)
}
