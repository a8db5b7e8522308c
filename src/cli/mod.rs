//! The command line: clap types and one file a command. The only room that prints.

/// As the standard one, but nobody's listening is no reason to end: `harness run … 2>&1 | head` goes on.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::cli::say(format_args!($($text)*)) };
}

/// Prints a line for the user.
fn say(text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

mod cascade;
mod check;
mod check_media;
mod data;
mod exit;
mod export;
#[cfg(feature = "hub")]
mod fetch;
#[cfg(feature = "hub")]
mod fetch_progress;
mod judge;
mod list;
mod open;
mod open_data;
mod predictions;
mod prepare;
mod prepare_evidence;
mod prepare_progress;
mod prepare_summary;
mod probe;
mod progress;
mod prompts;
mod replay;
mod report;
mod run;
mod serve;
mod shots;
mod temperature;
mod weights;
mod wording;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::Override;
use exit::Failure;

/// Evaluate models that take audio and images, by the protocols of published benchmarks.
#[derive(Debug, Parser)]
#[command(name = "harness", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Begin with:
  harness check configs/demo.toml     see what a config would do, and what is wrong with it
  harness run configs/demo.toml       ask the model, score, print the tables
  harness fetch ccfqa                 get a benchmark's published data
  harness prepare 2m-belebele         turn published data into files, where they are none yet
  harness list                        which benchmarks, conditions and model kinds there are

A run lives in results/NAME: manifest.json (what it is made of), plan.jsonl (every request),
responses.jsonl (every answer, written as it comes), scores.json and tables/. A run that was stopped,
by whatever, goes on when the same command is given again.

Tables go to standard output; progress and problems to standard error.

Exit codes:
  0    done
  1    done, but requests failed or rows were unreadable (0 with --allow-incomplete), or files could not be
       fetched
  2    the command line, the config or its data are wrong; nothing was asked
  3    the model cannot be loaded, its server cannot be had or died, or `check --probe` found that it does not
       do what the run needs
  4    the run's folder cannot be used: locked, not writable, disk full, another format version
  130  stopped by Ctrl-C; 143 by SIGTERM; the same command goes on from there

Environment:
  HARNESS_LOG   what to log to standard error, like `info` or `harness::run=debug`
  NO_COLOR      no colours
  HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and more: docs/environment.md
  Keys of endpoints are read from the variables that the config names.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask the model what is not answered yet, score, and print the tables.
    ///
    /// Goes on with an earlier run of the same name where there is one: answers are never asked for twice, and
    /// requests that failed are tried again.
    Run(RunArgs),
    /// Ask the model what is not answered yet, without scoring.
    Generate(RunArgs),
    /// Validate a config without running it: keys, files, model folder, prompts, every row and every clip's
    /// header; then print the plan.
    Check(CheckArgs),
    /// Score the answers of a run again, and print the tables. Needs neither model nor data.
    ///
    /// With --predictions: score a file of predictions in the form of a benchmark's authors, without a run.
    Score(ScoreArgs),
    /// Have a run's answers judged, by the judge of its config or of another one.
    ///
    /// Needs neither the data nor the model of the run: its folder can be copied to another machine. What was stopped
    /// goes on where it was when the same command is given again. Several judges can judge one run, each under its name.
    Judge(JudgeArgs),
    /// Print the tables of a run's scores and write them to its tables/ folder.
    Report(FolderArgs),
    /// Write the answers of a run as a file in the form that a benchmark's authors take.
    Export(export::ExportArgs),
    /// Fetch the published data of a benchmark, or a model of the Hugging Face hub.
    ///
    /// Says first what it fetches, how large it is and under which licence. What was stopped, by whatever, goes on
    /// where it was when the same command is given again; what is there is not fetched again.
    #[cfg(feature = "hub")]
    Fetch(fetch::FetchArgs),
    /// Turn published data that can only be read from the front into files: clips, images and rows.
    ///
    /// Once, before any run: what is written into DATA/prepared is found by every later command. Clips keep their
    /// rate and values. What was stopped, by whatever, goes on where it was when the same command is given again.
    Prepare(prepare::PrepareArgs),
    /// Say what data hold: rows, languages, lengths and formats of clips, sizes of images, what is missing, and how
    /// they differ from the published ones.
    ///
    /// Headers are read, nothing is decoded.
    Data(data::DataArgs),
    /// List benchmarks, conditions, metrics and model kinds.
    List,
    /// List the prompts of all benchmarks: the authors' own, where they stand and whether they are here, and
    /// ours. `prompts show` prints one.
    Prompts(PromptsArgs),
    /// Print the JSON schema of config files.
    Schema,
    /// The role of this program between itself and a server that it has started; for no user.
    #[cfg(all(feature = "endpoint", unix))]
    #[command(hide = true, name = GUARD)]
    Guard(GuardArgs),
}

/// The hidden command that guards a server.
#[cfg(all(feature = "endpoint", unix))]
const GUARD: &str = "guard-server";

#[cfg(all(feature = "endpoint", unix))]
#[derive(Debug, Args)]
struct GuardArgs {
    /// Seconds that the server has to end by itself.
    #[arg(value_parser = grace)]
    grace: std::time::Duration,
    /// The server's command.
    #[arg(last = true, required = true)]
    command: Vec<std::ffi::OsString>,
}

#[cfg(all(feature = "endpoint", unix))]
fn grace(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let time = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| format!("`{text}` is no number of seconds"))
}

#[derive(Debug, Args)]
struct ConfigArgs {
    /// The config file.
    config: PathBuf,
    /// Set a key of the config, for example `generation.temperature=0.7`, `model.device=cuda`,
    /// `benchmark.0.limit=5` or `benchmark.ccfqa.limit=5`. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Override::parse)]
    set: Vec<Override>,
    /// Take at most N samples of every benchmark. The tables say that it is a subset.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// The run's name, instead of the config's.
    #[arg(long)]
    name: Option<String>,
    /// The folder of results [default: the config's, or results].
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Go on with an earlier run; refuse where there is none.
    #[arg(long, conflicts_with = "fresh")]
    resume: bool,
    /// Begin anew; an earlier run of that name is set aside, not deleted.
    #[arg(long)]
    fresh: bool,
    /// Exit with 0 even if requests failed or rows were unreadable. The tables show the counts either way.
    #[arg(long)]
    allow_incomplete: bool,
    /// Stop when the run has cost this much, by the prices under [model.price] and in their currency. What is
    /// under way then is finished. A cascade's transcripts count, by the prices under [model.asr.price].
    #[arg(long, value_name = "COST", value_parser = cost)]
    max_cost: Option<f64>,
}

fn cost(text: &str) -> Result<f64, String> {
    let cost = text.parse::<f64>().ok().filter(|cost| cost.is_finite() && *cost >= 0.0);
    cost.ok_or_else(|| format!("`{text}` is no cost; expected a number such as 2.50"))
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Ask the endpoint as well: is it there, has it the model, does it take clips and images as configured. A
    /// handful of tiny requests.
    #[arg(long)]
    probe: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
struct PromptsArgs {
    #[command(subcommand)]
    show: Option<PromptsCommand>,
    /// The data folder in which upstream files are looked for, or a folder of such folders
    /// [default: data/BENCHMARK].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum PromptsCommand {
    /// Print a prompt with its places filled: the authors' wording where it is here, ours else.
    Show(ShowArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The prompt, for example `ccfqa/speech_user`.
    #[arg(value_name = "BENCHMARK/NAME")]
    prompt: String,
    /// Fill a place with this text instead of an example. May be given several times.
    #[arg(long = "set", value_name = "PLACE=VALUE", value_parser = prompts::place)]
    set: Vec<(String, String)>,
    /// Our own wording, even where the authors' is here.
    #[arg(long)]
    harness: bool,
    /// As it stands, places not filled.
    #[arg(long, conflicts_with = "set")]
    template: bool,
    /// The data folder in which upstream files are looked for, or a folder of such folders
    /// [default: data/BENCHMARK].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct FolderArgs {
    /// The run: its name in the results folder, or the path of its folder.
    run: String,
    /// The folder of results.
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Exit with 0 even if requests failed or rows were unreadable.
    #[arg(long)]
    allow_incomplete: bool,
}

#[derive(Args, Debug)]
struct ScoreArgs {
    /// The run: its name in the results folder, or the path of its folder.
    #[arg(required_unless_present = "predictions")]
    run: Option<String>,
    /// The folder of results.
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Exit with 0 even if requests failed or rows were unreadable.
    #[arg(long)]
    allow_incomplete: bool,
    /// A file of predictions to score in place of a run.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "judge"], requires = "benchmark")]
    predictions: Option<PathBuf>,
    /// Print the scores of the predictions as JSON, in full precision, in place of tables.
    #[arg(long, requires = "predictions")]
    json: bool,
    /// The benchmark that the predictions are for.
    #[arg(long, value_name = "NAME", requires = "predictions")]
    benchmark: Option<String>,
    /// The gold rows of the predictions [default: the dev split in data/BENCHMARK].
    #[arg(long, value_name = "FILE", requires = "predictions")]
    data: Option<PathBuf>,
    /// The judge whose verdicts count: a name under verdicts/ of the run's folder, or `match` for a string match. That of
    /// the run's config, or the only one that there is, by default.
    #[arg(long, value_name = "NAME")]
    judge: Option<String>,
}

#[derive(Args, Debug)]
struct JudgeArgs {
    /// The run: its name in the results folder, or the path of its folder.
    run: String,
    /// The config whose [judge] judges; that of the run itself by default.
    #[arg(long, value_name = "CONFIG")]
    judge: Option<PathBuf>,
    /// The judge's name, in place of the config's.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How often each answer is judged, in place of the config's number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Stop when judging has cost this much, in the currency of the configured prices.
    #[arg(long, value_name = "COST")]
    max_cost: Option<f64>,
    /// The folder of results.
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Exit with 0 even if requests or calls failed or rows were unreadable.
    #[arg(long)]
    allow_incomplete: bool,
}

/// Parses the command line, does what it says, and gives the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // clap's own code for usage errors is 2 as well; help and version exit with 0.
            let code = if e.use_stderr() { exit::USAGE } else { exit::DONE };
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    log_to_stderr();
    let result = match cli.command {
        Command::Run(args) => run::run(&args, run::Stages::All),
        Command::Generate(args) => run::run(&args, run::Stages::Generate),
        Command::Check(args) => check::check(&args),
        Command::Judge(args) => judge::judge(&args),
        Command::Score(args) => report::score(&args),
        Command::Report(args) => report::report(&args),
        Command::Export(args) => export::run(&args),
        #[cfg(feature = "hub")]
        Command::Fetch(args) => fetch::fetch(&args),
        Command::Prepare(args) => prepare::prepare(&args),
        Command::Data(args) => data::data(&args),
        Command::List => list::list(),
        Command::Prompts(args) => match &args.show {
            Some(PromptsCommand::Show(args)) => prompts::show(args),
            None => prompts::list(&args),
        },
        Command::Schema => list::schema(),
        #[cfg(all(feature = "endpoint", unix))]
        Command::Guard(args) => Ok(crate::server::guard(&args.command, args.grace)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, message }) => {
            if !message.is_empty() {
                eprintln!("{message}");
            }
            ExitCode::from(code)
        }
    }
}

fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = crate::config::env::log_filter().unwrap_or_else(|| "warn".to_owned());
    let filter = EnvFilter::try_new(&filter).unwrap_or_else(|e| {
        eprintln!("warning: {}: {e}; logging warnings only", crate::config::env::HARNESS_LOG);
        EnvFilter::new("warn")
    });
    // A second subscriber in one process (tests) is no reason to fail.
    let colour = std::io::stderr().is_terminal() && !crate::config::env::no_color();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = log.with_ansi(colour).try_init();
}

/// Prints to standard output; a reader who has gone away is not an error.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(exit::FOLDER, format!("error: standard output: {e}")))
        }
        _ => Ok(()),
    }
}
