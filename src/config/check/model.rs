//! What the schema cannot say of `[model]`: which keys belong to which kinds, addresses, and that no secret
//! stands in the file.

use super::super::cascade::{AsrLanguage, LANGUAGE_PLACE};
use super::super::hub::is_repo;
use super::super::raw::ARCHITECTURES;
use super::super::resolve::{DEFAULT_CONCURRENCY, public_address};
use super::super::resolved::ModelKind;
use super::super::schema;
use super::super::secret::{Template, holds_secrets, is_secret_option, is_variable};
use super::super::tree::{Node, Value};
use super::{Walk, about, example};

use ModelKind::{Anthropic, Azure, Cascade, Gemini, Local, OpenAi, Replay, Transcription};

const CHAT: &[ModelKind] = &[OpenAi, Azure];
const ENDPOINTS: &[ModelKind] = &[OpenAi, Azure, Gemini, Anthropic, Transcription];

const SINGLE: &[ModelKind] = &[Local, OpenAi, Azure, Gemini, Anthropic, Transcription, Replay];

/// A key that some kinds have: its sections below `[model]`, its name, those kinds, and what they are called.
type Belongs = (&'static [&'static str], &'static str, &'static [ModelKind], &'static str);

const REPLAY: &[ModelKind] = &[Replay];

const BELONGS: &[Belongs] = &[
    (&[], "architecture", &[Local], "local models"),
    (&[], "weights", &[Local], "local models"),
    (&[], "device", &[Local], "local models"),
    (&[], "dtype", &[Local], "local models"),
    (&[], "batch_size", &[Local], "local models"),
    (&[], "model", ENDPOINTS, "endpoints"),
    (&[], "base_url", ENDPOINTS, "endpoints"),
    (&[], "base_urls", ENDPOINTS, "endpoints"),
    (&[], "api_key_env", ENDPOINTS, "endpoints"),
    (&[], "api_version", &[Azure, Gemini, Anthropic], "`azure`, `gemini` and `anthropic`"),
    (&[], "image", &[OpenAi, Azure, Gemini, Anthropic, Local], "chat models"),
    (&["image"], "max_side", &[OpenAi, Azure, Gemini, Anthropic], "endpoints"),
    (&["image"], "format", &[OpenAi, Azure, Gemini, Anthropic], "endpoints"),
    (&["image"], "quality", &[OpenAi, Azure, Gemini, Anthropic], "endpoints"),
    (&["image"], "alpha", &[OpenAi, Azure, Gemini, Anthropic], "endpoints"),
    (&["image"], "first_frame", &[OpenAi, Azure, Gemini, Anthropic], "endpoints"),
    (&["image"], "filter", &[OpenAi, Azure, Gemini, Anthropic], "endpoints"),
    (&[], "endpoint", ENDPOINTS, "endpoints"),
    (&[], "transcription", &[Transcription, Local], "`transcription` and local Whisper"),
    (&["transcription"], "prompt", &[Transcription], "`transcription`"),
    (&["transcription"], "fallback", &[Local], "local Whisper"),
    (&["transcription"], "verbose", &[Transcription], "`transcription`"),
    (&[], "files", REPLAY, "`replay`"),
    (&[], "preset", REPLAY, "`replay`"),
    (&[], "fields", REPLAY, "`replay`"),
    (&[], "match_by", REPLAY, "`replay`"),
    (
        &[],
        "revision",
        &[Local, OpenAi, Azure, Gemini, Anthropic, Transcription],
        "models that are asked; the revision of answers is the hash of their files",
    ),
    (&[], "flow", ENDPOINTS, "endpoints"),
    (&[], "price", ENDPOINTS, "endpoints"),
    (&[], "audio", SINGLE, "models that are none of two parts"),
    (&[], "asr", &[Cascade], "cascades"),
    (&[], "llm", &[Cascade], "cascades"),
    (&[], "transcripts", &[Cascade], "cascades"),
    (&[], "server", ENDPOINTS, "endpoints"),
    (&["audio"], "transcode", ENDPOINTS, "endpoints"),
    (&["audio"], "rate", ENDPOINTS, "endpoints"),
    (&["audio"], "form", CHAT, "`openai` and `azure`"),
    (&["audio"], "formats", ENDPOINTS, "endpoints"),
    (&["audio"], "max_bytes", ENDPOINTS, "endpoints"),
    (&["endpoint"], "max_tokens_field", CHAT, "`openai` and `azure`"),
    (&["endpoint"], "stream", CHAT, "`openai` and `azure`"),
    (&["endpoint"], "completions", CHAT, "`openai` and `azure`"),
    (&["endpoint"], "image_detail", CHAT, "`openai` and `azure`"),
    (&["endpoint"], "system_role", &[OpenAi, Azure, Gemini, Anthropic], "chat models"),
];

/// The architecture of local models that sees images.
const SEES: &str = "qwen2_5_vl";

/// Names of formats that sniffing gives, or that a server may take.
const FORMATS: [&str; 12] =
    ["wav", "mp3", "flac", "ogg", "opus", "aac", "aiff", "mp4", "m4a", "webm", "amr", "wma"];

/// Fields of a body that the request is made of, and where they are set.
const RESERVED: [&str; 6] = ["model", "messages", "contents", "prompt", "stream", "file"];

impl Walk<'_> {
    pub(super) fn model(&mut self, model: &Node) {
        let typed = model.key("kind").and_then(Node::as_str);
        let Some(kind) = ModelKind::ALL.into_iter().find(|kind| Some(kind.as_str()) == typed) else { return };
        // The schema has refused a cascade in a cascade; its keys are those of the model that is meant.
        if kind == Cascade && self.model_section != "model" {
            return;
        }
        // A local model that sees no images. One whose architecture is not known is told so elsewhere.
        let architecture = model.key("architecture").and_then(Node::as_str);
        let blind = kind == Local
            && architecture
                .is_some_and(|name| name != SEES && ARCHITECTURES.iter().any(|(known, _)| *known == name));
        for (sections, key, kinds, owner) in BELONGS {
            let section = sections.iter().try_fold(model, |node, section| node.key(section));
            let Some(node) = section.and_then(|section| section.key(key)) else { continue };
            // What its section was refused for is not said again of the key.
            let refused = match sections {
                _ if kind == Cascade => !sections.is_empty(),
                ["endpoint"] => matches!(kind, Local | Replay),
                ["transcription"] => !matches!(kind, Local | Transcription),
                ["image"] => matches!(kind, Transcription | Replay) || blind,
                _ => false,
            };
            if !kinds.contains(&kind) && !refused {
                self.foreign(key, node, kind, owner);
            }
        }
        if kind == Cascade {
            return self.cascade(model);
        }
        if kind == Local {
            self.needed(model, &["architecture", "weights"]);
            let weights = model.key("weights").and_then(Node::as_str);
            if let Some(revision) = model.key("revision")
                && weights.is_some_and(|weights| !is_repo(weights))
            {
                self.value_problem(
                    revision,
                    "`revision` is for models of the hub, and `weights` names a folder",
                    "leave it out, or name the model: weights = \"Qwen/Qwen2-Audio-7B-Instruct\"",
                );
            }
            if let Some(told) = model.key("transcription") {
                self.local_transcription(model, told);
            }
            if let Some(image) = model.key("image").filter(|_| blind) {
                self.foreign("image", image, kind, "chat models and local models that see images");
            }
            return;
        }
        if kind == Replay {
            self.replay(model);
            return;
        }
        self.needed(model, &["model"]);
        self.addresses(model, kind);
        self.key_variable(model);
        if let Some(audio) = model.key("audio") {
            self.endpoint_audio(audio);
        }
        if let Some(wire) = model.key("endpoint") {
            self.path(wire.key("ca_bundle"));
            self.wire(wire);
        }
        if let Some(flow) = model.key("flow") {
            self.flow(flow);
        }
        if let Some(server) = model.key("server") {
            self.server(model, server);
        }
        if let Some(price) = model.key("price") {
            let paid = |key: &str| price.key(key).and_then(Node::as_f64).is_some_and(|price| price > 0.0);
            if let Some(node) = price.key("max_cost")
                && !paid("input_per_million")
                && !paid("output_per_million")
            {
                self.value_problem(
                    node,
                    "`max_cost` needs prices to count with",
                    "add input_per_million and output_per_million, in the same currency",
                );
            }
        }
    }

    /// The two parts of a cascade.
    fn cascade(&mut self, model: &Node) {
        for (key, section) in [("asr", "model.asr"), ("llm", "model.llm")] {
            let Some(part) = model.key(key) else {
                let place = self.locator.header(model);
                self.problems.push(super::Problem::new(place, format!("the section [{section}] is missing")).help(
                    "a cascade has two models: [model.asr] writes down what is said, [model.llm] answers by it",
                ));
                continue;
            };
            let above = std::mem::replace(&mut self.model_section, section);
            self.whole_model(part);
            self.model_section = above;
            let kind = part.key("kind");
            match kind.and_then(Node::as_str) {
                Some("transcription") if key == "llm" => self.value_problem(
                    kind.unwrap_or(part),
                    "a `transcription` endpoint answers no questions",
                    "put it under [model.asr], and a model that chats under [model.llm]",
                ),
                Some("anthropic") if key == "asr" => self.value_problem(
                    kind.unwrap_or(part),
                    "models of `anthropic` hear nothing",
                    "take a `transcription` endpoint, a chat model that hears, or a local one",
                ),
                Some("local") => self.local_part(key, part),
                _ => {}
            }
        }
        self.language_of_clips(model);
    }

    /// The language of a cascade's clips: it is settled in one place, or the record of what was told is not true.
    fn language_of_clips(&mut self, model: &Node) {
        const BESIDE: [&[&str]; 2] =
            [&["asr", "transcription", "language"], &["asr", "endpoint", "extra_body", "language"]];
        for path in BESIDE {
            if let Some(node) = path.iter().try_fold(model, |node, key| node.key(key)) {
                self.value_problem(
                    node,
                    "this language would be told with clips whatever `language` under [model.transcripts] says",
                    "leave it out: `forced` tells the language of each clip as the data name it (rows of `manifest` in a field \
                     `language`), `auto` tells none",
                );
            }
        }
        let Some(transcripts) = model.key("transcripts") else { return };
        let auto = transcripts.key("language").and_then(Node::as_str) == Some(AsrLanguage::Auto.as_str());
        if let Some(node) = transcripts.key("prompt").filter(|_| auto)
            && node.as_str().is_some_and(|prompt| prompt.contains(LANGUAGE_PLACE))
        {
            self.value_problem(
                node,
                format!("`{LANGUAGE_PLACE}` in the prompt tells the language, which `auto` leaves to the recogniser"),
                "take it out of the prompt, or set language = \"forced\"",
            );
        }
    }

    /// A local model as a part of a cascade.
    fn local_part(&mut self, key: &str, part: &Node) {
        let Some(node) = part.key("architecture") else { return };
        let Some(architecture) = node.as_str() else { return };
        if key == "llm" && architecture == "whisper" {
            self.value_problem(
                node,
                "`whisper` answers no questions",
                "put it under [model.asr], and a model that reads under [model.llm]",
            );
        }
        let deaf = ARCHITECTURES.iter().any(|(known, seconds)| *known == architecture && *seconds == 0.0);
        if key == "asr" && deaf {
            self.value_problem(
                node,
                format!("`{architecture}` hears nothing"),
                "take `whisper` or `qwen2_audio`, or an endpoint that hears",
            );
        }
    }

    /// `[judge.server]`, which stands for `[judge.model.server]`.
    pub(super) fn judge_server(&mut self, model: &Node, server: &Node) {
        if model.key("server").is_some() {
            let place = self.locator.header(server);
            self.problems.push(
                super::Problem::new(place, "`judge.server` and `judge.model.server` are both here")
                    .help("keep one: they mean the same"),
            );
        } else if model.key("kind").and_then(Node::as_str) == Some(Local.as_str()) {
            let place = self.locator.header(server);
            self.problems.push(
                super::Problem::new(place, "`server` belongs to endpoints; this judge is `local`")
                    .help("leave it out, or name the kind of the endpoint under [judge.model]"),
            );
        } else {
            self.server(model, server);
        }
    }

    fn server(&mut self, model: &Node, server: &Node) {
        self.path(server.key("folder"));
        if model.key("base_url").is_none() && model.key("base_urls").is_none() {
            let place = self.locator.header(server);
            self.problems.push(
                super::Problem::new(place, "a server that is started here needs an address of its own")
                    .help("add base_url with the port that the command names: base_url = \"http://localhost:8000/v1\""),
            );
        }
        if let Some(node) = server.key("ready_url") {
            self.address("ready_url", node);
        }
        // A key among the arguments is stored with the run, and every user of the machine can see it.
        let words = server.key("command").map(Node::items).unwrap_or_default();
        for (at, node) in words.iter().enumerate() {
            let Some(word) = node.as_str() else { continue };
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let value = value.or_else(|| words.get(at + 1).and_then(Node::as_str));
            if is_secret_option(name) && value.is_some_and(|value| !value.starts_with('-')) {
                self.value_problem(
                    node,
                    format!("`{name}` takes a secret, and what is in the file is stored with the run"),
                    "give it to the server in its environment: env = { VLLM_API_KEY = \"$MY_KEY\" }",
                );
            }
        }
        if let Some(node) = server.key("env")
            && let Value::Table(variables) = &node.value
        {
            for (name, value) in variables {
                if !is_variable(name) {
                    let place = self.locator.header(value);
                    self.problems.push(
                        super::Problem::new(place, format!("`{name}` cannot be the name of a variable"))
                            .help("use letters, digits and `_`"),
                    );
                }
                let secret = value.as_str().is_some_and(|text| !text.is_empty()) && holds_secrets(name);
                self.template(name, value, secret);
            }
        }
    }

    fn replay(&mut self, model: &Node) {
        self.needed(model, &["files"]);
        if self.model_section != "model" {
            let node = model.key("kind").unwrap_or(model);
            let message = match self.model_section {
                "judge.model" => "a judge is asked: its replies cannot come from files",
                _ => "the parts of a cascade are asked: their answers cannot come from files",
            };
            self.value_problem(
                node,
                message,
                "name the kind of its model: local, openai, azure, gemini or anthropic",
            );
        }
        for file in model.key("files").map(Node::items).unwrap_or_default() {
            self.path(Some(file));
        }
        if model.key("preset").is_none()
            && model.key("fields").and_then(|fields| fields.key("answer")).is_none()
        {
            let place = self.locator.header(model);
            self.problems.push(
                super::Problem::new(place, "nothing says where the answers stand in the files").help(
                    "name the tool that wrote them: preset = \"ccfqa\", \"audiobench\", \"lmms-eval\" or \"inspect\"; or \
                     the fields of a row: fields = { id = \"id\", answer = \"answer\" }",
                ),
            );
        }
    }

    /// What a local recogniser is told.
    fn local_transcription(&mut self, model: &Node, told: &Node) {
        let architecture = model.key("architecture").and_then(Node::as_str);
        if architecture.is_some_and(|architecture| architecture != "whisper") {
            return self.foreign("transcription", told, Local, "`transcription` and local Whisper");
        }
        if let Some(text) = told.key("text").filter(|text| text.as_str() == Some("prompt")) {
            self.value_problem(
                text,
                "a local Whisper takes no prompt",
                "use `refuse`, or `drop` to leave the text of requests away",
            );
        }
    }

    fn foreign(&mut self, key: &str, node: &Node, kind: ModelKind, owner: &str) {
        let help = match (key, kind) {
            ("files" | "preset" | "fields" | "match_by", Cascade) => {
                "leave it out: both parts of a cascade are asked".to_owned()
            }
            (_, Cascade) => "write it under [model.asr] or [model.llm], whose it is".to_owned(),
            ("asr" | "llm" | "transcripts", _) => {
                "leave it out, or set kind = \"cascade\" for a recogniser with a model behind it".to_owned()
            }
            (_, Replay) => "leave it out: nothing is asked, the answers exist already".to_owned(),
            ("files" | "preset" | "fields" | "match_by", _) => {
                "leave it out, or set kind = \"replay\"".to_owned()
            }
            ("batch_size", _) => {
                "requests to an endpoint go out one by one: set concurrency under [model.flow]".to_owned()
            }
            ("dtype" | "device" | "weights" | "architecture", _) => {
                "the server has settled it: leave the key out, or set kind = \"local\"".to_owned()
            }
            ("max_side" | "format" | "quality" | "alpha" | "first_frame" | "filter", Local) => {
                "leave it out: a local model gets images in the size and form that it was trained on; `max_pixels` makes \
                 them smaller"
                    .to_owned()
            }
            ("image", Local) => {
                format!("leave it out, or name a model that sees images: architecture = \"{SEES}\"")
            }
            (_, Local) => {
                "leave it out, or name the kind of the endpoint: openai, azure, gemini, anthropic or \
                           transcription"
                    .to_owned()
            }
            _ => "leave it out".to_owned(),
        };
        let message = format!("`{key}` belongs to {owner}; this model is `{}`", kind.as_str());
        let place = self.locator.header(node);
        self.problems.push(super::Problem::new(place, message).help(help));
    }

    /// Keys that the kind cannot do without.
    fn needed(&mut self, model: &Node, keys: &[&str]) {
        let Some(section) = schema::key(schema::root(), "model") else { return };
        for key in keys.iter().filter(|key| model.key(key).is_none()) {
            let Some(wanted) = schema::key(section, key) else { continue };
            let place = self.locator.header(model);
            let problem =
                super::Problem::new(place, format!("the key `{key}` is missing in [{}]", self.model_section));
            self.problems.push(problem.help(format!("add {}: {}", example(key, wanted), about(wanted))));
        }
    }

    fn addresses(&mut self, model: &Node, kind: ModelKind) {
        match (model.key("base_url"), model.key("base_urls")) {
            (Some(_), Some(several)) => {
                let place = self.locator.header(several);
                self.problems.push(
                    super::Problem::new(place, "`base_url` and `base_urls` are both here")
                        .help("keep one: base_url for one server, base_urls for several of the same model"),
                );
            }
            (None, None) if public_address(kind).is_none() => {
                let place = self.locator.header(model);
                self.problems.push(
                    super::Problem::new(
                        place,
                        format!("the key `base_url` is missing in [{}]", self.model_section),
                    )
                    .help("add the address of your resource: base_url = \"https://NAME.openai.azure.com\""),
                );
            }
            (one, several) => {
                let several = several.map(Node::items).unwrap_or_default();
                for node in one.into_iter().chain(several) {
                    self.address("base_url", node);
                }
            }
        }
    }

    /// An address that can be asked and holds no secrets.
    fn address(&mut self, key: &str, node: &Node) {
        let Some(text) = node.as_str().filter(|text| !text.is_empty()) else { return };
        let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
            return self.value_problem(
                node,
                format!("`{key}` must begin with http:// or https://"),
                "for example base_url = \"http://localhost:8000/v1\"",
            );
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.contains('@') {
            self.value_problem(
                node,
                format!("`{key}` holds credentials, and it is stored with the run"),
                "put the key into an environment variable and name that: api_key_env = \"MY_KEY\"",
            );
        } else if rest.contains(['?', '#']) {
            self.value_problem(
                node,
                format!("`{key}` holds a query"),
                "leave it out; a version goes into api_version, a key into the variable of api_key_env",
            );
        } else if host.is_empty() || host.contains(char::is_whitespace) {
            self.value_problem(
                node,
                format!("`{key}` names no server"),
                "for example base_url = \"http://localhost:8000/v1\"",
            );
        }
    }

    fn key_variable(&mut self, model: &Node) {
        let Some(node) = model.key("api_key_env") else { return };
        let Some(name) = node.as_str().filter(|name| !name.is_empty()) else { return };
        if !is_variable(name) {
            self.value_problem(
                node,
                "`api_key_env` takes the name of an environment variable, not the key itself",
                "export the key, MY_KEY=…, and write api_key_env = \"MY_KEY\"",
            );
        }
    }

    fn endpoint_audio(&mut self, audio: &Node) {
        let transcode = audio.key("transcode").and_then(Node::as_str).unwrap_or("never");
        if let Some(node) = audio.key("window")
            && let Some(window @ ("first" | "last")) = node.as_str()
            && transcode == "never"
        {
            self.value_problem(
                node,
                format!("to send the {window} seconds of a clip it has to be written anew"),
                "allow it with transcode = \"wav\", or take window = \"whole\"",
            );
        }
        let formats = audio.key("formats").map(Node::items).unwrap_or_default();
        for node in formats {
            if let Some(text) = node.as_str().filter(|text| !text.is_empty() && !FORMATS.contains(text)) {
                let problem = self.unknown_value("format", node, text, &FORMATS);
                self.problems.push(problem);
            }
        }
        if let Some(node) = audio.key("formats")
            && transcode == "wav"
            && !formats.is_empty()
            && !formats.iter().any(|format| format.as_str() == Some("wav"))
        {
            self.value_problem(
                node,
                "clips are transcoded to wav, which is not among the formats that the endpoint takes",
                "add \"wav\" to formats, or set transcode = \"never\"",
            );
        }
    }

    fn wire(&mut self, wire: &Node) {
        if let Some(node) = wire.key("extra_body") {
            for field in RESERVED {
                if let Some(field_node) = node.key(field) {
                    let place = self.locator.header(field_node);
                    self.problems.push(
                        super::Problem::new(place, format!("`extra_body` must not set `{field}`"))
                            .help("the request itself does; use the keys of [model] and [model.endpoint]"),
                    );
                }
            }
            self.json("extra_body", node);
        }
        if let Some(node) = wire.key("headers")
            && let Value::Table(headers) = &node.value
        {
            for (name, value) in headers {
                let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
                if name.is_empty() || !name.chars().all(token) {
                    let place = self.locator.header(value);
                    self.problems.push(
                        super::Problem::new(place, format!("`{name}` cannot be the name of a header"))
                            .help("use letters, digits and `-`"),
                    );
                }
                self.template(name, value, holds_secrets(name));
            }
        }
        if let Some(node) = wire.key("proxy")
            && let Some(text) = node.as_str().filter(|text| !text.is_empty())
        {
            let credentials = text.split("://").nth(1).is_some_and(|rest| rest.contains('@'));
            self.template("proxy", node, credentials);
        }
    }

    /// A text with `$NAME` in it; one that is a secret must have such a place.
    fn template(&mut self, key: &str, node: &Node, secret: bool) {
        let Some(text) = node.as_str() else { return };
        match Template::parse(text) {
            Err(reason) => self.value_problem(
                node,
                format!("`{key}`: {reason}"),
                "write $NAME for an environment variable, and $$ for a dollar",
            ),
            Ok(template) if secret && template.variables().next().is_none() => self.value_problem(
                node,
                format!("`{key}` holds a secret, and what is in the file is stored with the run"),
                "put the secret into an environment variable and write its name: $MY_SECRET",
            ),
            Ok(_) => {}
        }
    }

    /// Values that JSON can hold.
    fn json(&mut self, key: &str, node: &Node) {
        match &node.value {
            Value::Datetime => {
                self.value_problem(node, format!("`{key}`: JSON has no dates"), "write it as text in quotes");
            }
            Value::Float(number) if !number.is_finite() => {
                self.value_problem(node, format!("`{key}`: JSON has finite numbers only"), "leave it out");
            }
            Value::Integer(None) => {
                self.value_problem(node, format!("`{key}`: this number is too large"), "use at most 64 bits");
            }
            Value::Array(items) => items.iter().for_each(|item| self.json(key, item)),
            Value::Table(table) => table.values().for_each(|item| self.json(key, item)),
            Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => {}
        }
    }

    fn flow(&mut self, flow: &Node) {
        let number = |key: &str| flow.key(key).and_then(Node::as_f64);
        if let Some(node) = flow.key("min_concurrency")
            && let Some(least) = number("min_concurrency")
            && least > number("concurrency").unwrap_or(DEFAULT_CONCURRENCY as f64)
        {
            self.value_problem(
                node,
                "`min_concurrency` is above `concurrency`",
                "lower it, or raise concurrency",
            );
        }
        if let Some(node) = flow.key("deadline_seconds")
            && let (Some(deadline), Some(timeout)) = (number("deadline_seconds"), number("timeout_seconds"))
            && deadline < timeout
        {
            self.value_problem(
                node,
                "`deadline_seconds` is below `timeout_seconds`, so no attempt would have its time",
                "a deadline holds all attempts of a request: raise it, or lower timeout_seconds",
            );
        }
    }
}
