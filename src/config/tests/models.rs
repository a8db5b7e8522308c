//! Endpoints and judges: the keys of their kinds, and what they resolve to.

use super::*;
use crate::model::replay::{MatchBy, Preset};

#[test]
fn a_judge_is_resolved_like_a_model() {
    let judge = "[judge]\n[judge.model]\nkind = 'openai'\nmodel = 'j'\nbase_url = 'http://localhost:1/v1'\n";
    let resolved = config(&format!("{judge}{SMALL}"), &[]).judge.unwrap();
    let schema = &schema()["properties"]["judge"]["properties"];
    let found = serde_json::to_value(&resolved).unwrap();
    for key in ["kind", "name", "mode", "rating", "on_error"] {
        assert_eq!(schema[key]["default"], found[key], "{key}");
    }
    assert_eq!((resolved.runs, resolved.max_context, resolved.prompt), (None, None, None));
    assert_eq!(resolved.model.unwrap().name, "j");
    assert_eq!(resolved.generation, Generation::default());

    let local = "[judge]\nprompt = 'p.toml'\n[judge.model]\nkind = 'local'\narchitecture = 'qwen2_audio'\n\
                 weights = 'w'\n";
    let resolved = config(&format!("{local}{SMALL}"), &[]).judge.unwrap();
    assert_eq!(resolved.prompt, Some(PathBuf::from("settings/p.toml")));
    assert_eq!(resolved.model.unwrap().local.unwrap().weights, PathBuf::from("settings/w"));

    for (text, expect) in [
        ("[judge]\n", "1:2: the section [judge.model] is missing"),
        (
            "[judge]\nkind = 'match'\n[judge.model]\nkind = 'openai'\nmodel = 'm'\n",
            "a judge by string match has no model",
        ),
        ("[judge.model]\nkind = 'openai'\n", "the key `model` is missing in [judge.model]"),
        ("[judge]\nname = 'a/b'\nkind = 'match'\n", "the judge's name `a/b`"),
        ("[judge]\nkind = 'math'\n", "unknown kind `math`; did you mean `match`?"),
    ] {
        let found = problems(&format!("{text}{SMALL}"), &[]);
        assert!(found.iter().any(|problem| problem.contains(expect)), "{expect}: {found:?}");
    }
    assert!(config(&format!("[judge]\nkind = 'match'\n{SMALL}"), &[]).judge.unwrap().model.is_none());
}

#[test]
fn a_server_is_resolved_and_holds_no_secret() {
    let server = "[model.server]\ncommand = ['vllm', 'serve']\nenv = { HF_TOKEN = '$HF_TOKEN', A = 'b' }\n\
                  folder = 'here'\nrestarts = 0\n";
    let text = ENDPOINT.replace("[[benchmark]]", &format!("{server}\n[[benchmark]]"));
    let found = config(&text, &[]).model.endpoint.unwrap().server.unwrap();
    assert_eq!(found.command, ["vllm", "serve"]);
    assert_eq!(found.folder, Some(PathBuf::from("settings/here")));
    assert_eq!((found.restarts, found.reuse, found.ready_seconds), (0, false, 1800.0));

    // A judge's server stands beside its model.
    let judge = "[judge]\nserver = { command = ['s'], folder = 'there' }\n[judge.model]\nkind = 'openai'\n\
                 model = 'j'\nbase_url = 'http://localhost:1/v1'\n";
    let judged = config(&format!("{judge}{SMALL}"), &[]).judge.unwrap();
    let found = judged.model.unwrap().endpoint.unwrap().server.unwrap();
    assert_eq!(found.folder, Some(PathBuf::from("settings/there")));
    let local = "[judge]\nserver = { command = ['s'] }\n[judge.model]\nkind = 'local'\n\
                 architecture = 'qwen2_audio'\nweights = 'w'\n";
    let matched = "[judge]\nkind = 'match'\nserver = { command = ['s'] }\n";
    for (text, expect) in [
        (local.to_owned(), "`server` belongs to endpoints; this judge is `local`"),
        (matched.to_owned(), "a judge by string match has no server"),
        (
            format!("{judge}server = {{ command = ['s'] }}\n"),
            "`judge.server` and `judge.model.server` are both",
        ),
        (judge.replace("base_url = 'http://localhost:1/v1'\n", ""), "needs an address of its own"),
        (
            "[judge]\nkind = 'match'\ntokenizer = 't'\n".to_owned(),
            "`tokenizer` counts tokens for `max_context`",
        ),
    ] {
        let found = problems(&format!("{text}{SMALL}"), &[]);
        assert!(found.iter().any(|problem| problem.contains(expect)), "{expect}: {found:?}");
    }
    for (lines, expect) in [
        ("command = []", "`command` is empty"),
        ("command = ['']", "`command` is empty"),
        ("restarts = 1", "the key `command` is missing in [model.server]"),
        ("command = ['s']\nready_url = 'localhost'", "`ready_url` must begin with http:// or https://"),
        (
            "command = ['s', '--api-key', 'sk-1']",
            "`--api-key` takes a secret, and what is in the file is stored with the run",
        ),
        (
            "command = ['s']\nenv = { VLLM_API_KEY = 'sk-1' }",
            "`VLLM_API_KEY` holds a secret, and what is in the file is stored with the run",
        ),
        ("command = ['s']\nenv = { 'A-B' = 'c' }", "`A-B` cannot be the name of a variable"),
    ] {
        assert_eq!(endpoint_problems(&format!("[model.server]\n{lines}")), [expect]);
    }
    check("[model.server]", "command = ['s']", "`server` belongs to endpoints; this model is `local`");
}

/// The messages about the endpoint configuration with lines put behind its model's own.
fn endpoint_problems(lines: &str) -> Vec<String> {
    let text = ENDPOINT.replace("[[benchmark]]", &format!("{lines}\n[[benchmark]]"));
    let found = problems(&text, &[]);
    found.iter().filter_map(|text| Some(text.split_once(": ")?.1.to_owned())).collect()
}

#[test]
fn an_endpoint_is_resolved() {
    let model = config(ENDPOINT, &[]).model;
    assert_eq!((model.kind, model.name.as_str()), (ModelKind::OpenAi, "org/m"));
    assert_eq!(model.local, None);
    assert_eq!(model.audio, audio(86_400.0, Window::Whole));
    let endpoint = model.endpoint.unwrap();
    assert_eq!(endpoint.base_urls, ["http://localhost:8000/v1"]);
    assert_eq!(endpoint.api_key_env.as_deref(), Some("MY_KEY"));
    assert_eq!((endpoint.flow.concurrency, endpoint.formats), (16, None));
    // Providers have addresses of their own.
    let text = ENDPOINT.replace("base_url = \"http://localhost:8000/v1\"\n", "");
    for (kind, url) in [
        ("openai", "https://api.openai.com/v1"),
        ("gemini", "https://generativelanguage.googleapis.com"),
        ("anthropic", "https://api.anthropic.com"),
    ] {
        let config = config(&text.replace("openai", kind), &[]);
        assert_eq!(config.model.endpoint.unwrap().base_urls, [url]);
    }
    assert_eq!(
        problems(&text.replace("openai", "azure"), &[]),
        ["settings/small.toml:2:2: the key `base_url` is missing in [model]"]
    );
}

#[test]
fn keys_of_another_kind_are_refused() {
    for (lines, expect) in [
        ("weights = 'w'", "`weights` belongs to local models; this model is `openai`"),
        ("batch_size = 4", "`batch_size` belongs to local models; this model is `openai`"),
        (
            "api_version = 'v1'",
            "`api_version` belongs to `azure`, `gemini` and `anthropic`; this model is `openai`",
        ),
        (
            "[model.transcription]\nlanguage = 'en'",
            "`transcription` belongs to `transcription` and local Whisper; this model is `openai`",
        ),
    ] {
        assert_eq!(endpoint_problems(lines), [expect]);
    }
    check("[model]", "base_url = 'http://h/v1'", "`base_url` belongs to endpoints; this model is `local`");
    check("[model.flow]", "rpm = 3", "`flow` belongs to endpoints; this model is `local`");
    check("[model.endpoint]", "stream = true", "`endpoint` belongs to endpoints; this model is `local`");
    check(
        "[model.transcription]",
        "language = 'en'",
        "`transcription` belongs to `transcription` and local Whisper; this model is `local`",
    );
    check("[model.audio]", "transcode = 'wav'", "`transcode` belongs to endpoints; this model is `local`");
    let gemini = ENDPOINT.replace("openai", "gemini");
    assert_eq!(
        problems(&gemini, &["model.audio.form=audio_url"]),
        ["--set: column 13: `form` belongs to `openai` and `azure`; this model is `gemini`"]
    );
    assert_eq!(
        problems(&gemini.replace("model = \"org/m\"\n", ""), &["model.endpoint.stream=true"]),
        [
            "settings/small.toml:2:2: the key `model` is missing in [model]",
            "--set: column 16: `stream` belongs to `openai` and `azure`; this model is `gemini`",
        ]
        .map(str::to_owned)
    );
}

#[test]
fn a_local_whisper_is_told_language_and_text() {
    let whisper = SMALL.replace("qwen2_audio", "whisper");
    let told = "[model.transcription]\nlanguage = 'de'\ntext = 'drop'\nfallback = true\n\n[[benchmark]]";
    let told = whisper.replacen("[[benchmark]]", told, 1);
    let local = config(&told, &[]).model.local.unwrap();
    assert_eq!(local.transcription.language.as_deref(), Some("de"));
    assert!(
        local.transcription.fallback
            && local.transcription.text == crate::config::endpoint::TranscriptionText::Drop
    );
    assert_eq!(config(&whisper, &[]).model.audio.max_seconds, 3600.0);
    for (was, now, part) in [
        ("text = 'drop'", "text = 'prompt'", "a local Whisper takes no prompt"),
        ("text = 'drop'", "prompt = 'Names'", "`prompt` belongs to `transcription`; this model is `local`"),
    ] {
        let found = problems(&told.replace(was, now), &[]);
        assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
    }
}

#[test]
fn a_local_model_that_sees_takes_limits_of_pixels() {
    let sees = SMALL.replace("qwen2_audio", "qwen2_5_vl");
    let told = |lines: &str| format!("[model.image]\n{lines}\n\n[[benchmark]]");
    let with = |text: &str, lines: &str| text.replacen("[[benchmark]]", &told(lines), 1);
    let image = config(&with(&sees, "max_pixels = 1003520\norient = true"), &[]).model.image;
    assert_eq!((image.max_pixels, image.orient), (Some(1_003_520), true));
    for (text, lines, parts) in [
        (&sees, "max_side = 900", vec!["`max_side` belongs to endpoints; this model is `local`"]),
        (&sees, "format = 'png'\nfilter = 'lanczos'", vec!["`format` belongs", "`filter` belongs"]),
        // Once for the section, not again for its keys.
        (
            &SMALL.to_owned(),
            "max_side = 900",
            vec!["`image` belongs to chat models and local models that see"],
        ),
    ] {
        let found = problems(&with(text, lines), &[]);
        assert_eq!(found.len(), parts.len(), "{found:?}");
        assert!(found.iter().zip(&parts).all(|(found, part)| found.contains(part)), "{found:?}");
    }
}

#[test]
fn endpoint_values_that_make_no_sense() {
    for (lines, expect) in [
        ("[model.audio]\nwindow = 'first'", "to send the first seconds of a clip it has to be written anew"),
        ("[model.audio]\nformats = ['wave']", "unknown format `wave`; did you mean `wav`?"),
        (
            "[model.audio]\nformats = ['mp3']\ntranscode = 'wav'",
            "clips are transcoded to wav, which is not among the formats that the endpoint takes",
        ),
        ("[model.audio]\ntranscode = 'mp3'", "unknown transcode `mp3`"),
        ("[model.audio]\nform = 'audio-url'", "unknown form `audio-url`; did you mean `audio_url`?"),
        ("[model.flow]\nmin_concurrency = 17", "`min_concurrency` is above `concurrency`"),
        (
            "[model.flow]\ntimeout_seconds = 5\ndeadline_seconds = 4",
            "`deadline_seconds` is below `timeout_seconds`, so no attempt would have its time",
        ),
        ("[model.flow]\nrpm = 0", "`rpm` must be at least 1 and at most 4294967295, found 0"),
        ("[model.price]\nmax_cost = 1", "`max_cost` needs prices to count with"),
        ("[model.endpoint]\nsend = ['topp']", "unknown send `topp`; did you mean `top_p`?"),
        ("[model.endpoint]\nextra_body = { messages = [] }", "`extra_body` must not set `messages`"),
        ("[model.endpoint]\nextra_body = { a = [nan] }", "`extra_body`: JSON has finite numbers only"),
        ("[model.endpoint]\nextra_body = { a = { b = 2026-01-01 } }", "`extra_body`: JSON has no dates"),
        ("[model.endpoint]\nheaders = { 'a b' = 'c' }", "`a b` cannot be the name of a header"),
        ("[model.endpoint]\nheaders = { a = '$' }", "`a`: a `$` is not followed by the name of a variable"),
        ("base_urls = ['http://h']", "`base_url` and `base_urls` are both here"),
    ] {
        assert_eq!(endpoint_problems(lines), [expect], "{lines}");
    }
    for (url, expect) in [
        ("localhost:8000/v1", "`base_url` must begin with http:// or https://"),
        ("http:///v1", "`base_url` names no server"),
        ("http://h/v1?a=b", "`base_url` holds a query"),
        ("", "`base_url` is empty"),
    ] {
        let found = problems(&ENDPOINT.replace("http://localhost:8000/v1", url), &[]);
        assert_eq!(found, [format!("settings/small.toml:5:12: {expect}")]);
    }
    let rate = read(ENDPOINT, &["model.audio.rate=16000"]).unwrap().warnings;
    assert_eq!(rate.len(), 1);
    assert!(read(ENDPOINT, &["model.audio={window='first', transcode='wav'}"]).is_ok());
}

/// Whatever is wrong with a file, its errors show no key that stands in it.
#[test]
fn errors_show_no_secrets() {
    for (from, to) in [
        ("base_url = \"", "api_key = \"s3cret-0123456789\"\nbase_url = \""),
        ("base_url = \"", "api_key = s3cret-0123456789\nbase_url = \""),
        ("\"MY_KEY\"", "\"s3cret-0123456789\""),
        ("http://localhost", "http://me:s3cret-0123456789@localhost"),
        ("[[benchmark]]", "[model.endpoint]\nproxy = 'http://me:s3cret-0123456789@p'\n[[benchmark]]"),
        (
            "[[benchmark]]",
            "[model.endpoint]\nheaders = { Authorization = 'Bearer s3cret-0123456789' }\n[[benchmark]]",
        ),
        ("[[benchmark]]", "[model.endpoint.headers]\nx-api-key = 's3cret-0123456789'\n[[benchmark]]"),
    ] {
        let error = read(&ENDPOINT.replace(from, to), &[]).map(|l| l.config).unwrap_err().to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
    let error = read(ENDPOINT, &["model.api_key=s3cret-0123456789"]).map(|l| l.config).unwrap_err();
    assert!(error.to_string().contains("name that: api_key_env = \"MY_KEY\""), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

/// A secret is one by the name of the variable that it comes from too: the server may know it by another.
#[test]
fn secrets_of_a_server_s_environment_are_known_by_either_name() {
    let lookup = |name: &str| Ok(format!("value of {name}"));
    let of = |env: &str| {
        let config =
            config(ENDPOINT, &["model.server.command=['serve']", &format!("model.server.env={env}")]);
        let secrets = secret::secrets_from(&config.model, lookup).unwrap();
        secrets.all().iter().map(|secret| secret.expose().to_owned()).collect::<Vec<String>>()
    };
    // The token for the hub a server inherits.
    let always = ["value of MY_KEY", "value of MY_KEY", "value of HF_TOKEN"];
    assert_eq!(of("{ CUDA_VISIBLE_DEVICES = '0', FOLDER = '$HOME', MONKEY = '$TOKENS' }"), always);
    for (env, secret) in [
        ("{ PGPASSWORD = '$MINE' }", "value of MINE"),
        ("{ A = '$MYTOKEN' }", "value of MYTOKEN"),
        ("{ VLLM_AUTH = 'Bearer $HF_TOKEN' }", "value of HF_TOKEN"),
        ("{ VLLM_API_KEY = '$MINE' }", "value of MINE"),
    ] {
        let found = of(env);
        assert!(found.iter().any(|known| known == secret), "{env}: {found:?}");
    }
}

/// The manifest holds the resolved configuration: names of variables, and the numbers as they are.
#[test]
fn an_endpoint_survives_the_manifest() {
    let sets = [
        "model.endpoint.headers={ x-key = \"$K\" }",
        "model.endpoint.extra_body={ a = [1, 2.5, { b = true }] }",
    ];
    let config = config(ENDPOINT, &sets);
    let json = serde_json::to_string(&config).unwrap();
    assert!(json.contains("\"$K\"") && json.contains("\"MY_KEY\""), "{json}");
    assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
}

#[test]
fn answers_that_exist_already_are_files_and_a_way_to_read_them() {
    let found = config(REPLAY, &["model.match_by=row"]).model;
    assert_eq!((found.kind, found.name.as_str()), (ModelKind::Replay, "x"));
    let replay = found.replay.unwrap();
    assert_eq!(replay.files, [PathBuf::from("settings/answers/x.jsonl")]);
    assert_eq!((replay.preset, replay.match_by), (Some(Preset::Ccfqa), Some(MatchBy::Row)));
    let own = REPLAY.replace("preset = \"ccfqa\"", "fields = { id = 'a.b', answer = 'c', src = 'd' }");
    assert_eq!(config(&own, &[]).model.replay.unwrap().fields["src"], "d");
    let warned = read(&format!("{REPLAY}[generation]\nseed = 1\n").replace("seed", "temperature"), &[]);
    assert_eq!(
        warned.unwrap().warnings,
        ["settings/small.toml:10:2: [generation] does nothing: the answers exist already"]
    );
    for (lines, message) in [
        ("revision = 'x'", "`revision` belongs to models that are asked"),
        ("audio = { form = 'audio_url' }", "`form` belongs to `openai` and `azure`"),
        ("flow = { rpm = 1 }", "`flow` belongs to endpoints"),
        ("match_by = 'name'", "unknown match_by `name`"),
    ] {
        let text = REPLAY.replace("preset = \"ccfqa\"", &format!("preset = \"ccfqa\"\n{lines}"));
        let found = problems(&text, &[]);
        assert!(found.len() == 1 && found[0].contains(message), "{lines}: {found:?}");
    }
}

/// A cascade of two endpoints, with more lines in `[model]`, `[model.asr]` and `[model.llm]`.
fn cascade([model, asr, llm]: [&str; 3]) -> String {
    format!(
        "[model]\nkind = 'cascade'\n{model}\n[model.asr]\nkind = 'transcription'\nmodel = 'w'\n{asr}\n[model.llm]\n\
         kind = 'openai'\nmodel = 'l'\n{llm}\n[[benchmark]]\nname = '2m-belebele'\ndata = 'd.jsonl'\n"
    )
}

#[test]
fn a_cascade_is_two_models() {
    let found = config(&cascade(["", "", ""]), &[]).model;
    assert_eq!((found.name.as_str(), found.kind), ("w + l", ModelKind::Cascade));
    let parts = found.cascade.clone().unwrap();
    assert_eq!((found.answering(), found.hearing()), (&parts.llm, &parts.asr));
    assert!(found.endpoint.is_none() && found.local.is_none());
    assert_eq!(parts.transcripts.max_new_tokens, 448);
    // The paths of a part are relative to the file, as all are.
    let server = "base_url = 'http://localhost:1/v1'\nserver = { command = ['s'], folder = 'here' }";
    let asr = config(&cascade(["", server, ""]), &[]).model.cascade.unwrap().asr;
    assert_eq!(asr.endpoint.unwrap().server.unwrap().folder, Some(PathBuf::from("settings/here")));

    for (lines, expect) in [
        (["weights = 'x'", "", ""], "`weights` belongs to local models; this model is `cascade`"),
        (["audio = { rate = 8000 }", "", ""], "`audio` belongs to models that are none of two parts"),
        (["files = ['x']", "", ""], "`files` belongs to `replay`; this model is `cascade`"),
        (["", "llm = { kind = 'openai', model = 'x' }", ""], "unknown key `llm` in [model.asr]"),
        (["transcripts = { language = 'forces' }", "", ""], "did you mean `forced`?"),
        // One place settles the language, or what is recorded of it is not what was told.
        (
            ["", "transcription = { language = 'de' }", ""],
            "whatever `language` under [model.transcripts] says",
        ),
        (
            ["", "endpoint = { extra_body = { language = 'de' } }", ""],
            "whatever `language` under [model.transcripts] says",
        ),
        (
            ["transcripts = { language = 'auto', prompt = 'Write {language}:' }", "", ""],
            "`{language}` in the prompt tells the language",
        ),
        (["", "", "device = 'cpu'"], "`device` belongs to local models; this model is `openai`"),
    ] {
        let found = problems(&cascade(lines), &[]);
        assert!(found.iter().any(|problem| problem.contains(expect)), "{expect}: {found:?}");
    }
    for (set, expect) in [
        ("model.llm.kind=transcription", "a `transcription` endpoint answers no questions"),
        ("model.asr.kind=anthropic", "models of `anthropic` hear nothing"),
        ("model.llm.kind=replay", "the parts of a cascade are asked"),
        ("run.name=transcripts", "the folder `transcripts` of the results is that of the transcripts"),
    ] {
        let found = problems(&cascade(["", "", ""]), &[set]);
        assert!(found.iter().any(|problem| problem.contains(expect)), "{expect}: {found:?}");
    }
    for set in ["model.asr.kind=cascade", "model.llm.kind=cascade"] {
        let found = problems(&cascade(["", "", ""]), &[set]);
        let expected = "--set: column 16: a part of a cascade cannot itself be a cascade, nor can a judge";
        assert_eq!(found, [expected]);
    }
    let forced = ["transcripts = { prompt = 'Write {language}:' }", "", ""];
    assert!(config(&cascade(forced), &[]).model.cascade.is_some());
    let alone = "[model]\nkind = 'cascade'\n[model.llm]\nkind = 'openai'\nmodel = 'l'\n[[benchmark]]\nname = 'x'\n\
                 data = 'd'\n";
    let found = problems(alone, &[]);
    assert!(found[0].contains("the section [model.asr] is missing"), "{found:?}");
    let local = "[model]\nkind = 'local'\narchitecture = 'qwen2_audio'\nweights = 'w'\n[model.transcripts]\n\
                 by = 'clip'\n[[benchmark]]\nname = 'x'\ndata = 'd'\n";
    let found = problems(local, &[]);
    assert!(found[0].contains("`transcripts` belongs to cascades"), "{found:?}");
}
