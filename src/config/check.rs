//! What a file must be like: first key by key against the JSON schema, then what the schema cannot say.
//! Everything that is wrong is found in one pass, and a value that is wrong is not looked at twice.

mod model;

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::cascade::TRANSCRIPTS;
use super::endpoint::Transcode;
use super::overrides::label;
use super::problem::{Problem, nearest};
use super::raw::ARCHITECTURES;
use super::resolve::CP_BENCH;
use super::resolved::{LimitBy, ModelKind, RunConfig};
use super::schema;
use super::secret::holds_secrets;
use super::tree::{Locator, Node, Step, Value};
use crate::benchmark::judging::JudgeKind;
use crate::types::shown;

/// Everything that is wrong with a tree, in the order of the text. Of a judge alone no other section need be there.
pub(super) fn check(locator: &Locator, judge_alone: bool) -> Vec<Problem> {
    let mut walk = Walk { locator, judge_alone, problems: Vec::new(), model_section: "model" };
    walk.section(&locator.root, schema::root(), &Section::root());
    walk.beyond_the_schema(&locator.root);
    walk.problems
}

/// The name of a section, as it is typed.
struct Section {
    /// The keys to it, joined by dots; empty for the file itself.
    path: String,
    /// `[model]`, `[[benchmark]] 2`…
    shown: String,
}

impl Section {
    fn root() -> Self {
        Self { path: String::new(), shown: "the file".to_owned() }
    }

    fn below(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { shown: format!("[{path}]"), path }
    }

    fn item(key: &str, index: usize, of: usize) -> Self {
        let shown = if of > 1 { format!("[[{key}]] number {}", index + 1) } else { format!("[[{key}]]") };
        Self { path: key.to_owned(), shown }
    }
}

struct Walk<'a> {
    locator: &'a Locator,
    /// Whether the file may hold a judge alone.
    judge_alone: bool,
    problems: Vec<Problem>,
    /// The name of the section that is looked at as a model.
    model_section: &'static str,
}

impl Walk<'_> {
    fn value_problem(&mut self, node: &Node, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Problem::new(self.locator.value(node), message).help(help));
    }

    /// The keys of a section: known ones by their schemas, unknown ones and missing ones as problems.
    fn section(&mut self, node: &Node, schema: &Json, section: &Section) {
        let Value::Table(table) = &node.value else { return };
        for (key, child) in table {
            match schema::key(schema, key) {
                Some(schema) => self.key(key, child, schema, section),
                None if schema::is_free(schema) => {}
                None => self.unknown(key, child, schema, section),
            }
        }
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
        // The sections that a file must have are those of a run.
        let owed = !(self.judge_alone && section.path.is_empty());
        for key in required.filter_map(Json::as_str).filter(|key| owed && !table.contains_key(*key)) {
            let Some(wanted) = schema::key(schema, key) else { continue };
            let place =
                if section.path.is_empty() { self.locator.whole() } else { self.locator.header(node) };
            let problem = match schema::type_of(wanted) {
                "object" => Problem::new(place, format!("the section [{key}] is missing"))
                    .help(format!("add [{key}] with {}", needs(wanted))),
                "array" if section.path.is_empty() => {
                    let item = wanted.get("items").unwrap_or(wanted);
                    Problem::new(place, format!("there is no [[{key}]] section"))
                        .help(format!("add [[{key}]] with {}", needs(item)))
                }
                _ => Problem::new(place, format!("the key `{key}` is missing in {}", section.shown))
                    .help(format!("add {}: {}", example(key, wanted), about(wanted))),
            };
            self.problems.push(problem);
        }
    }

    fn unknown(&mut self, key: &str, node: &Node, schema: &Json, section: &Section) {
        let known: Vec<&str> = schema::keys(schema).map(|(key, _)| key).collect();
        let top = section.path.is_empty();
        let what = if top && matches!(node.value, Value::Table(_)) { "section" } else { "key" };
        let place = if top { String::new() } else { format!(" in {}", section.shown) };
        let mut message = format!("unknown {what} `{}`{place}", shown(key));
        if let Some(near) = nearest(key, known.iter().copied()) {
            message = format!("{message}; did you mean `{near}`?");
        } else if let Some(home) = home_of(key) {
            message = format!("{message}; it is a key of {home}");
        }
        let help = format!("known {}: {}", if top { "sections" } else { "keys" }, known.join(", "));
        if (section.path.starts_with("model") || section.path.starts_with("judge.model"))
            && holds_secrets(key)
        {
            let message = format!(
                "unknown key `{}`{place}: a key of an endpoint does not stand in the file",
                shown(key)
            );
            let help = "put it into an environment variable and name that: api_key_env = \"MY_KEY\"";
            self.problems.push(Problem::new(self.locator.header(node), message).help(help));
            return;
        }
        self.problems.push(Problem::new(self.locator.header(node), message).help(help));
    }

    /// A value by the schema of its key.
    fn key(&mut self, key: &str, node: &Node, schema: &Json, section: &Section) {
        if let Some(one) = schema::of_either(schema, node.as_str().is_some()) {
            return self.key(key, node, &one, section);
        }
        match (schema::type_of(schema), &node.value) {
            ("object", Value::Table(_)) => self.section(node, schema, &section.below(key)),
            ("array", Value::Array(items)) => self.list(key, node, items, schema, section),
            ("string", Value::String(text)) => self.text(key, node, text, schema),
            ("boolean", Value::Boolean(_)) => {}
            ("integer", Value::Integer(number)) => match number {
                Some(number) => self.bounds(key, node, *number as f64, schema),
                None => self.value_problem(
                    node,
                    format!("`{key}` is too large"),
                    format!(
                        "use at most {}",
                        schema.get("maximum").map_or("64 bits".to_owned(), Json::to_string)
                    ),
                ),
            },
            ("number", Value::Integer(_) | Value::Float(_)) => match node.as_f64() {
                Some(number) if number.is_finite() => self.bounds(key, node, number, schema),
                _ => self.value_problem(
                    node,
                    format!("`{key}` must be a finite number"),
                    format!("for example {}", example(key, schema)),
                ),
            },
            ("array", Value::Table(_)) if section.path.is_empty() => {
                let place = self.locator.header(node);
                self.problems.push(
                    Problem::new(place, format!("`{key}` can be given several times and takes two brackets"))
                        .help(format!("write [[{key}]] in place of [{key}]")),
                );
            }
            ("object", Value::Array(_)) => self.value_problem(
                node,
                format!("there can be one section `{key}` only"),
                format!("write [{}] once, with one pair of brackets", section.below(key).path),
            ),
            (wanted, _) => self.value_problem(
                node,
                format!("`{key}`: expected {}, found {}", in_words(wanted), node.kind()),
                format!("for example {}", example(key, schema)),
            ),
        }
    }

    fn list(&mut self, key: &str, node: &Node, items: &[Node], schema: &Json, section: &Section) {
        let Some(item_schema) = schema.get("items") else { return };
        if items.is_empty() && schema.get("minItems").is_some() {
            self.value_problem(node, format!("`{key}` is empty"), format!("add {}", about(schema)));
        }
        let unique = schema.get("uniqueItems").is_some();
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if let Value::Table(_) = item.value
                && schema::type_of(item_schema) == "object"
            {
                let name = Section::item(key, index, items.len());
                self.section(item, item_schema, &name);
            } else if item.as_str().is_none() && schema::type_of(item_schema) == "string" {
                self.value_problem(
                    item,
                    format!("`{key}`: expected a list of strings, found {} in it", item.kind()),
                    format!("for example {}", example(key, schema)),
                );
            } else {
                self.key(key, item, item_schema, section);
            }
            let named = match &item.value {
                Value::String(text) => text.clone(),
                Value::Integer(Some(number)) => number.to_string(),
                _ => continue,
            };
            if unique && seen.contains(&named) {
                self.value_problem(item, format!("`{}` is in `{key}` twice", shown(&named)), "name it once");
            }
            seen.insert(named);
        }
    }

    fn text(&mut self, key: &str, node: &Node, text: &str, schema: &Json) {
        if let Some(known) = schema::choices(schema) {
            if !known.contains(&text) {
                let mut problem = self.unknown_value(key, node, text, &known);
                // A model of two parts is `[model]` alone.
                if key == "kind"
                    && text == ModelKind::Cascade.as_str()
                    && known.contains(&ModelKind::Transcription.as_str())
                {
                    problem = Problem::new(
                        self.locator.value(node),
                        "a part of a cascade cannot itself be a cascade, nor can a judge",
                    )
                    .help(format!("known: {}", known.join(", ")));
                }
                // It could have been a number.
                if schema.get("default").is_some_and(Json::is_number) {
                    problem = problem.help(format!("known: {}, or a number", known.join(", ")));
                }
                self.problems.push(problem);
            }
        } else if text.is_empty() && schema.get("minLength").is_some() {
            self.value_problem(
                node,
                format!("`{key}` is empty"),
                "fill it in; a key that has a default can be left out",
            );
        }
    }

    fn unknown_value(&self, key: &str, node: &Node, text: &str, known: &[&str]) -> Problem {
        let near = nearest(text, known.iter().copied());
        let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Problem::new(self.locator.value(node), format!("unknown {key} `{}`{meant}", shown(text)))
            .help(format!("known: {}", known.join(", ")))
    }

    /// A number by the bounds of its schema.
    fn bounds(&mut self, key: &str, node: &Node, number: f64, schema: &Json) {
        let bound = |name: &str| schema.get(name).and_then(Json::as_f64);
        let (least, above, most) = (bound("minimum"), bound("exclusiveMinimum"), bound("maximum"));
        if least.is_none_or(|least| number >= least)
            && above.is_none_or(|above| number > above)
            && most.is_none_or(|most| number <= most)
        {
            return;
        }
        let low =
            least.map(|least| format!("at least {least}")).or(above.map(|above| format!("above {above}")));
        // The end of 64 bits is no bound that anyone needs to hear of.
        let high = most.filter(|most| *most < 1e18).map(|most| format!("at most {most}"));
        let range = [low, high].into_iter().flatten().collect::<Vec<_>>().join(" and ");
        self.value_problem(
            node,
            format!("`{key}` must be {range}, found {}", shown(self.locator.text(node).unwrap_or_default())),
            format!("for example {}", example(key, schema)),
        );
    }

    /// What the schema cannot say. Values of the wrong type have been reported and are passed over.
    fn beyond_the_schema(&mut self, root: &Node) {
        if let Some(run) = root.key("run") {
            if let Some(node) = run.key("name") {
                self.file_name("run name", node);
                if node.as_str() == Some(TRANSCRIPTS) {
                    self.value_problem(
                        node,
                        "the folder `transcripts` of the results is that of the transcripts of cascades",
                        "give the run another name",
                    );
                }
            }
            self.path(run.key("results"));
        }
        if let Some(model) = root.key("model") {
            self.whole_model(model);
        }
        if let Some(judge) = root.key("judge") {
            self.judge(judge);
        }
        let mut labels: Vec<String> = Vec::new();
        for benchmark in root.key("benchmark").map(Node::items).unwrap_or_default() {
            for key in ["data", "media", "prompt"] {
                self.path(benchmark.key(key));
            }
            if let Some(belebele) = benchmark.key("belebele") {
                self.path(belebele.key("shots_file"));
                let cascade = root.key("model").and_then(|model| model.key("kind")).and_then(Node::as_str);
                if let Some(node) = belebele.key("missing")
                    && node.as_str() == Some("text")
                    && cascade != Some("cascade")
                {
                    self.value_problem(
                        node,
                        "`missing = \"text\"` gives a model that hears the text of the sentence",
                        "take \"skip\" or \"drop_row\", or a model of kind = \"cascade\"",
                    );
                }
            }
            match (benchmark.key("label"), benchmark.key("name")) {
                (Some(label), _) => self.file_name("label", label),
                (None, Some(name)) => self.file_name("benchmark's name", name),
                (None, None) => {}
            }
            let Some(name) = label(benchmark).filter(|name| !name.is_empty()) else { continue };
            // Files are named after labels, and some file systems do not tell cases apart.
            if labels.contains(&name.to_lowercase()) {
                let node = benchmark.key("label").or_else(|| benchmark.key("name")).unwrap_or(benchmark);
                self.value_problem(
                    node,
                    format!("another [[benchmark]] section is called `{}`", shown(name)),
                    format!("give this one a label of its own: label = \"{}-2\"", shown(name)),
                );
            } else {
                labels.push(name.to_lowercase());
            }
        }
    }

    fn whole_model(&mut self, model: &Node) {
        self.path(model.key("weights"));
        self.device(model.key("device"));
        self.seconds(model);
        self.model(model);
    }

    fn judge(&mut self, judge: &Node) {
        let by_match = judge.key("kind").and_then(Node::as_str) == Some(JudgeKind::MATCH);
        if let Some(node) = judge.key("name") {
            self.file_name("judge's name", node);
            let kind = if by_match { JudgeKind::Match } else { JudgeKind::Model };
            if let Some((name, why)) =
                node.as_str().and_then(|name| Some((name, unfit_for_judge(name, kind)?)))
            {
                self.value_problem(
                    node,
                    format!("the judge's name `{}` {why}", shown(name)),
                    "give it another name",
                );
            }
        }
        self.path(judge.key("prompt"));
        self.path(judge.key("tokenizer"));
        if let Some(node) = judge.key("tokenizer")
            && judge.key("max_context").is_none()
        {
            self.value_problem(
                node,
                "`tokenizer` counts tokens for `max_context`, which is not there",
                "add max_context, or leave tokenizer out",
            );
        }
        match judge.key("model") {
            _ if by_match && judge.key("server").is_some() => {
                let place = self.locator.header(judge.key("server").unwrap_or(judge));
                self.problems.push(
                    Problem::new(place, "a judge by string match has no server")
                        .help("leave [judge.server] out, or set kind = \"model\""),
                );
            }
            Some(model) if by_match => self.value_problem(
                model,
                "a judge by string match has no model",
                "leave [judge.model] out, or set kind = \"model\"",
            ),
            Some(model) => {
                self.model_section = "judge.model";
                self.whole_model(model);
                self.model_section = "model";
                if let Some(server) = judge.key("server") {
                    self.judge_server(model, server);
                }
            }
            None if by_match => {}
            None => {
                let place = self.locator.header(judge);
                self.problems.push(Problem::new(place, "the section [judge.model] is missing").help(
                    "add [judge.model] with the model that judges, or set kind = \"match\" for a string match",
                ));
            }
        }
    }

    /// A name that becomes the name of a file or folder.
    fn file_name(&mut self, what: &str, node: &Node) {
        let Some(name) = node.as_str().filter(|name| !name.is_empty()) else { return };
        if let Some(why) = unfit_for_files(name) {
            self.value_problem(node, format!("the {what} `{}` {why}", shown(name)), FIT_FOR_FILES);
        }
    }

    fn path(&mut self, node: Option<&Node>) {
        let Some((node, text)) = node.and_then(|node| Some((node, node.as_str()?))) else { return };
        if text == "~" || text.starts_with("~/") {
            self.value_problem(node, "`~` is not expanded in a path", "write the folder in full");
        } else if text.contains('\0') {
            self.value_problem(node, "a path cannot hold a null character", "write the path without it");
        }
    }

    fn device(&mut self, node: Option<&Node>) {
        let Some((node, text)) = node.and_then(|node| Some((node, node.as_str()?))) else { return };
        if !is_device(text) {
            // Other programs' words first: `gpu` is but one letter from `cpu`.
            let known: &[&str] = match text.to_lowercase().as_str() {
                "gpu" => &["cuda"],
                "mps" => &["metal"],
                _ => &["auto", "cpu", "cuda", "metal"],
            };
            let problem = match known {
                [meant] => Problem::new(
                    self.locator.value(node),
                    format!("unknown device `{}`; did you mean `{meant}`?", shown(text)),
                ),
                _ => self.unknown_value("device", node, text, known),
            };
            self.problems
                .push(problem.help("known: auto, cpu, cuda, cuda:N with the number of a GPU, metal"));
        }
    }

    fn seconds(&mut self, model: &Node) {
        let Some(architecture) = model.key("architecture").and_then(Node::as_str) else { return };
        let Some((_, most)) = ARCHITECTURES.iter().find(|(name, _)| *name == architecture) else { return };
        let Some(node) = model.key("audio").and_then(|audio| audio.key("max_seconds")) else { return };
        if node.as_f64().is_some_and(|seconds| seconds.is_finite() && seconds > *most) {
            self.value_problem(
                node,
                format!("{architecture} takes at most {most} seconds of audio"),
                format!("use max_seconds = {most}, and choose the part of longer clips with `window`"),
            );
        }
    }
}

/// What is allowed but probably not meant: one sentence each, with its place. Of a judge alone the rest is another file's.
pub(super) fn warnings(config: &RunConfig, locator: &Locator, judge_alone: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |path: &[Step], text: String| warnings.push(format!("{}: {text}", locator.place(path)));
    if let Some(judge) = config.judge.as_ref().filter(|judge| judge.kind == JudgeKind::Model) {
        let paper = config.benchmarks.iter().any(|benchmark| benchmark.name == CP_BENCH);
        let several = judge.runs.map_or(paper, |runs| runs > 1);
        if several && judge.generation.greedy() {
            let text = "at temperature 0 all runs of the judge say the same, and their mean is that of one: set \
                        temperature (the paper of cp-bench has 1), or runs = 1";
            warn(&["judge".into(), "generation".into()], text.to_owned());
        }
        if judge.retries > 0 && judge.generation.greedy() {
            let text =
                "at temperature 0 a judge that is asked again says the same: set temperature, or retries = 0";
            warn(&["judge".into(), "retries".into()], text.to_owned());
        }
    }
    if judge_alone {
        return warnings;
    }
    let generation = &config.generation;
    if generation.greedy() {
        let idle = [("top_p", generation.top_p < 1.0), ("top_k", generation.top_k > 1)];
        for (key, _) in idle.into_iter().filter(|(_, set)| *set) {
            warn(
                &["generation".into(), key.into()],
                format!("`{key}` does nothing at temperature 0, where the most likely token is always taken"),
            );
        }
    } else if let Some(hot) = generation.temperature.filter(|temperature| *temperature > 2.0) {
        let text = format!("a temperature of {hot} makes answers close to random");
        warn(&["generation".into(), "temperature".into()], text);
    }
    if config.model.replay.is_some() && locator.root.key("generation").is_some() {
        warn(&["generation".into()], "[generation] does nothing: the answers exist already".to_owned());
    }
    let audio = &config.model.hearing().audio;
    if audio.rate.is_some() && audio.transcode == Transcode::Never {
        let text = "`rate` does nothing with transcode = \"never\": clips are sent as they are".to_owned();
        let part = config.model.cascade.is_some().then_some("asr");
        let path: Vec<Step> =
            ["model"].into_iter().chain(part).chain(["audio", "rate"]).map(Step::from).collect();
        warn(&path, text);
    }
    for (index, benchmark) in config.benchmarks.iter().enumerate() {
        let key = |key: &str| [Step::from("benchmark"), Step::from(index), Step::from(key)];
        if benchmark.limit.is_none() && benchmark.limit_by != LimitBy::First {
            warn(&key("limit_by"), "`limit_by` does nothing without `limit`".to_owned());
        }
    }
    warnings
}

/// What a name that becomes a file's name must be like.
const FIT_FOR_FILES: &str = "use a name of at most 100 bytes that can be a folder: letters, digits, `-`, `_`";

/// Why a judge of this kind cannot have a name, if it cannot.
pub fn unfit_for_judge(name: &str, kind: JudgeKind) -> Option<&'static str> {
    (kind == JudgeKind::Model && name == JudgeKind::MATCH).then_some("is that of the judge by string match")
}

/// Why a name cannot be that of a file or folder on every system, if it cannot.
pub fn unfit_for_files(name: &str) -> Option<&'static str> {
    const FORBIDDEN: [char; 9] = ['/', '\\', ':', '*', '?', '"', '<', '>', '|'];
    if name.is_empty() {
        Some("is empty")
    } else if name.contains(['/', '\\']) {
        Some("holds a path separator")
    } else if name.starts_with('.') || name.ends_with('.') {
        Some("begins or ends with a dot")
    } else if name.trim() != name {
        Some("begins or ends with a blank")
    } else if name.contains(FORBIDDEN) || name.contains(char::is_control) {
        Some("holds a character that file names cannot have")
    } else if name.len() > 100 {
        Some("is too long")
    } else {
        None
    }
}

/// Whether a device name is one that the program understands.
fn is_device(text: &str) -> bool {
    match text.split_once(':') {
        Some(("cuda", number)) => {
            number.bytes().all(|digit| digit.is_ascii_digit()) && number.parse::<u16>().is_ok()
        }
        Some(_) => false,
        None => matches!(text, "auto" | "cpu" | "cuda" | "metal"),
    }
}

/// A JSON type as people say it.
fn in_words(kind: &str) -> &'static str {
    match kind {
        "string" => "a string",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        _ => "a section",
    }
}

/// The first sentence of a schema's description.
fn about(schema: &Json) -> String {
    let text = schema.get("description").and_then(Json::as_str).unwrap_or_default();
    let sentence = text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.');
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The keys that a section needs, with examples.
fn needs(section: &Json) -> String {
    let required = section.get("required").and_then(Json::as_array).into_iter().flatten();
    let lines: Vec<String> = required
        .filter_map(Json::as_str)
        .filter_map(|key| Some(example(key, schema::key(section, key)?)))
        .collect();
    lines.join(", ")
}

/// `key = value` with the example of the schema.
fn example(key: &str, schema: &Json) -> String {
    let value = schema
        .get("examples")
        .and_then(|examples| examples.get(0))
        .or_else(|| schema.get("default"))
        .map_or("\"text\"".to_owned(), toml_text);
    format!("{key} = {value}")
}

/// A JSON value in TOML.
fn toml_text(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", ")),
        Json::Object(table) => {
            let pairs: Vec<_> =
                table.iter().map(|(key, value)| format!("{key} = {}", toml_text(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        // Strings of examples are plain: JSON's quotes and escapes are TOML's too.
        other => other.to_string(),
    }
}

/// The section that has a key, for one that stands in another.
fn home_of(key: &str) -> Option<String> {
    fn find(schema: &Json, path: &str, key: &str) -> Option<String> {
        schema::keys(schema).find_map(|(name, schema)| {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let (shown, section) = match schema.get("items") {
                Some(items) if items.get("properties").is_some() => (format!("[[{path}]]"), items),
                _ => (format!("[{path}]"), schema),
            };
            let here = schema::keys(section).any(|(name, _)| name == key);
            if here { Some(shown) } else { find(section, &path, key) }
        })
    }
    find(schema::root(), "", key)
}
