//! `--set`: values and whole sections from the command line.

use super::*;

#[test]
fn overrides_replace_values() {
    let two = format!("{SMALL}\n[[benchmark]]\nname = 'ccfqa'\nlabel = 'hard.er'\ndata = 'x'\n");
    let config = config(
        &two,
        &[
            "generation.temperature=0.7",
            "generation.temperature = 0.9",
            "model.device=cuda:0",
            "model.audio.window=last",
            "run.name=2026",
            "benchmark.0.limit=5",
            "benchmark.ccfqa.languages=[\"eng\"]",
            "benchmark.'hard.er'.limit=6",
            "benchmark.1.data=local/rows.jsonl",
            "generation.stop=['=']",
        ],
    );
    assert_eq!(config.generation.temperature, Some(0.9));
    assert_eq!(config.model.local.unwrap().device, "cuda:0");
    assert_eq!(config.model.audio.window, Window::Last);
    assert_eq!(config.run.name, "2026");
    assert_eq!(config.benchmarks.iter().map(|b| b.limit).collect::<Vec<_>>(), [Some(5), Some(6)]);
    assert_eq!(config.benchmarks[0].languages, ["eng"]);
    // From the command line, so relative to the current folder.
    assert_eq!(config.benchmarks[1].data, Path::new("local/rows.jsonl"));
    assert_eq!(config.generation.stop, ["="]);
}

#[test]
fn overrides_can_make_a_whole_configuration() {
    let sets = [
        "model={ kind = \"local\", architecture = \"qwen2_audio\", weights = \"w\" }",
        "benchmark=[{ name = \"ccfqa\", data = \"d\" }]",
    ];
    assert_eq!(config("", &sets).benchmarks[0].data, Path::new("d"));
}

#[test]
fn errors_in_overrides_point_at_them() {
    for (set, expect) in [
        (
            "generation.temprature=1",
            "--set: column 12: unknown key `temprature` in [generation]; did you mean `temperature`?",
        ),
        ("generation.temperature=warm", "--set: column 24: unknown temperature `warm`"),
        ("generation.top_p=warm", "--set: column 18: `top_p`: expected a number, found a string"),
        (
            "generation.stop=[x]",
            "--set: column 18: not valid TOML: this is neither a number nor a text in quotes",
        ),
        ("benchmark.7.limit=1", "--set: column 11: there is no `7` in this list"),
        ("benchmark.ccfq.limit=1", "--set: column 11: there is no `ccfq` in this list"),
        ("model.weights.x=1", "--set: column 15: nothing can be set inside a string"),
        ("model=1", "--set: column 7: `model`: expected a section, found a whole number"),
        ("run.name=", "--set: column 10: `name` is empty"),
        ("benchmark.0.limit=0", "--set: column 19: `limit` must be at least 1, found 0"),
    ] {
        assert_eq!(problems(SMALL, &[set]), [expect], "{set}");
    }
    for (set, expect) in [
        ("", "--set: column 1: a key is missing"),
        ("=1", "--set: column 1: a key is missing"),
        ("a..b=1", "--set: column 3: a key is missing"),
        ("a.b", "--set: column 4: expected `=` and a value"),
        ("a.\"b=1", "--set: column 3: a quoted key does not end"),
        ("'a'b=1", "--set: column 4: expected `.` or `=` after the quoted key"),
    ] {
        let error = Override::parse(set).unwrap_err();
        let problem = &error.problems()[0];
        assert_eq!(format!("{}: {}", problem.place, problem.message), expect, "{set}");
    }
    assert!(problems("", &["benchmark.0.limit=1"])[2].contains("there is no `0` in this list"));
}
