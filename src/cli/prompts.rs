//! `harness prompts`: which wordings there are, where the authors' own stand, and what one looks like.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::exit::{DONE, Failure, USAGE};
use super::{PromptsArgs, ShowArgs, print, wording};
use crate::benchmark::{harness_wording, with_prompts};
use crate::config::nearest;
use crate::prompt::official::{OfficialError, Pins};
use crate::prompt::{fill, places};

/// A prompt in the list.
#[derive(Debug, Serialize)]
struct Row {
    benchmark: &'static str,
    prompt: String,
    /// `official`, `reconstructed`, `ancestor`, `harness wording`…
    status: String,
    /// `owner/name@commit:path`; nothing for ours.
    source: Option<String>,
    /// The licence of the source.
    licence: Option<String>,
    sha256: String,
    /// Whether it can be used here and now.
    found: Presence,
    #[serde(skip)]
    text: Option<String>,
}

/// Whether a prompt is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Presence {
    /// Part of the program.
    Builtin,
    /// Its upstream file is here, and it has the pinned hash.
    Yes,
    /// Its upstream file is not here.
    No,
    /// Its upstream file is here and another one than was pinned.
    Wrong,
}

impl Presence {
    fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "built in",
            Self::Yes => "yes",
            Self::No => "no",
            Self::Wrong => "WRONG",
        }
    }
}

/// Where upstream files of a benchmark are looked for.
fn folders(data: Option<&Path>, benchmark: &str) -> Vec<PathBuf> {
    match data {
        Some(folder) => vec![folder.to_owned(), folder.join(benchmark)],
        None => vec![Path::new("data").join(benchmark)],
    }
}

/// All prompts, by benchmark, the authors' first; and what is wrong with upstream files.
fn rows(data: Option<&Path>) -> Result<(Vec<Row>, Vec<OfficialError>), Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::new(USAGE, format!("error: {e}"));
    let pins = Pins::embedded().map_err(|e| wrong(&e))?;
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for benchmark in with_prompts() {
        let folders = folders(data, benchmark);
        for (pin, file, found) in pins.find_each(benchmark, |file| wording::read_upstream(file, &folders)) {
            let (found, text) = match found {
                Ok(Some(text)) => (Presence::Yes, Some(text)),
                Ok(None) => (Presence::No, None),
                Err(error) => {
                    errors.push(error);
                    (Presence::Wrong, None)
                }
            };
            rows.push(Row {
                benchmark,
                prompt: pin.name,
                status: pin.status.as_str().to_owned(),
                source: Some(format!("{}@{}:{}", file.repository, file.commit, file.path)),
                licence: Some(file.licence),
                sha256: pin.sha256,
                found,
                text,
            });
        }
        let ours = harness_wording(benchmark).map_err(|e| wrong(&e))?;
        rows.extend(ours.names().filter_map(|name| {
            let info = ours.info(name)?;
            Some(Row {
                benchmark,
                prompt: info.name,
                status: info.status,
                source: None,
                licence: None,
                sha256: info.sha256,
                found: Presence::Builtin,
                text: ours.get(name).map(str::to_owned),
            })
        }));
    }
    Ok((rows, errors))
}

/// `harness prompts`
pub(super) fn list(args: &PromptsArgs) -> Result<u8, Failure> {
    let (rows, errors) = rows(args.data.as_deref())?;
    if args.json {
        let json = serde_json::to_string_pretty(&rows).unwrap_or_default();
        print(&format!("{json}\n"))?;
    } else {
        print(&table(&rows))?;
    }
    if errors.is_empty() {
        return Ok(DONE);
    }
    let sentences: Vec<String> = errors.iter().map(|e| format!("error: {e}")).collect();
    Err(Failure::new(USAGE, sentences.join("\n")))
}

fn table(rows: &[Row]) -> String {
    let short = |source: &str| match source.split_once('@') {
        Some((repository, rest)) => {
            let (commit, path) = rest.split_once(':').unwrap_or((rest, ""));
            format!("{repository}@{}:{path}", commit.get(..7).unwrap_or(commit))
        }
        None => source.to_owned(),
    };
    let mut lines = vec![["benchmark", "prompt", "found", "sha256", "status", "source"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        [
            row.benchmark.to_owned(),
            row.prompt.clone(),
            row.found.as_str().to_owned(),
            row.sha256.get(..12).unwrap_or(&row.sha256).to_owned(),
            row.status.clone(),
            row.source.as_deref().map(short).unwrap_or_default(),
        ]
    }));
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    if rows.iter().any(|row| row.found == Presence::No) {
        out.push_str("\nWhat is not here comes with `harness fetch BENCHMARK --only prompts`.\n");
    }
    out
}

/// `harness prompts show BENCHMARK/NAME`
pub(super) fn show(args: &ShowArgs) -> Result<u8, Failure> {
    let usage = |message: String| Failure::new(USAGE, message);
    let (rows, errors) = rows(args.data.as_deref())?;
    let full_name = |row: &Row| format!("{}/{}", row.benchmark, row.prompt);
    let named: Vec<&Row> = rows.iter().filter(|row| full_name(row) == args.prompt).collect();
    if named.is_empty() {
        let known: BTreeSet<String> = rows.iter().map(full_name).collect();
        let hint = nearest(&args.prompt, known.iter().map(String::as_str))
            .map(|near| format!("did you mean `{near}`? "))
            .unwrap_or_default();
        return Err(usage(format!(
            "error: no prompt is called `{}`: {hint}`harness prompts` lists them",
            args.prompt
        )));
    }
    if !args.harness
        && let Some(error) = errors.iter().find(|error| error.prompt() == Some(args.prompt.as_str()))
    {
        return Err(usage(format!("error: {error}, or give --harness for our own wording")));
    }
    let usable = |row: &&&Row| row.text.is_some() && (!args.harness || row.found == Presence::Builtin);
    let Some((row, template)) = named.iter().find(usable).and_then(|row| Some((row, row.text.as_deref()?)))
    else {
        let reason = if args.harness {
            "there is no wording of our own".to_owned()
        } else {
            let benchmark = named.first().map(|row| row.benchmark).unwrap_or_default();
            format!(
                "its upstream file is not in {}: get it with `harness fetch {benchmark} --only prompts`, or name the \
                 data folder with --data",
                folders(args.data.as_deref(), benchmark)
                    .iter()
                    .map(|folder| folder.display().to_string())
                    .collect::<Vec<_>>()
                    .join(" or ")
            )
        };
        return Err(usage(format!("error: {}: {reason}", args.prompt)));
    };
    let known: BTreeSet<&str> = places(template).into_iter().collect();
    if let Some((place, _)) = args.set.iter().find(|(place, _)| !known.contains(place.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        return Err(usage(format!(
            "error: {} has no place `{place}`; it has {}",
            args.prompt,
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )));
    }
    let source = row.source.as_ref().map(|source| format!(", {source}")).unwrap_or_default();
    eprintln!("{}: {}{source}, sha256 {}", args.prompt, row.status, row.sha256);
    // A place can be another prompt: the instruction of a layout.
    let others = rows.iter().filter(|other| other.benchmark == row.benchmark);
    let others = others.filter_map(|other| Some((other.prompt.as_str(), other.text.as_deref()?)));
    let given = args.set.iter().map(|(place, value)| (place.as_str(), value.as_str()));
    let values: Vec<(&str, &str)> = given.chain(others).chain(EXAMPLES).collect();
    let text = if args.template { template.to_owned() } else { fill(template, &values) };
    print(&format!("{text}\n"))?;
    Ok(DONE)
}

/// What places are filled with where nothing is given. Places that are not here stay as they are.
const EXAMPLES: [(&str, &str); 22] = [
    ("src", "French"),
    ("tgt", "English"),
    ("question", "Which river runs through Paris?"),
    ("src_q", "Quel fleuve traverse Paris ?"),
    ("tgt_a", "The Seine"),
    ("lang_a", "It is the Seine."),
    ("reference", "The Seine"),
    ("prediction", "It is the Seine."),
    ("audio", "clip.wav"),
    ("claim", "塞納河流經巴黎。"),
    ("candidates", "[1]《巴黎》塞納河流經巴黎。"),
    ("n", "1"),
    ("page", "巴黎"),
    ("sentence", "塞納河流經巴黎。"),
    ("passage", "A note on the gate says the bridge is closed until May."),
    ("query", "What does the note say about the bridge?"),
    ("a", "It is closed"),
    ("b", "It is new"),
    ("c", "It is red"),
    ("d", "It is long"),
    ("answer", "The Seine"),
    ("response", "It is the Seine."),
];

/// `PLACE=VALUE`
pub(super) fn place(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((place, value)) if !place.is_empty() => Ok((place.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` names no place; expected something such as src=French")),
    }
}
