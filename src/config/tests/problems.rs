//! What is wrong with a file: which sentence, at which line.

use super::*;

#[test]
fn a_report_shows_the_lines() {
    let text = "[generation]\ntemprature = 0.5\ntop_p = \"x\"\n";
    let error = read(&format!("{text}{SMALL}"), &["model.device=cude"]).map(|l| l.config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "settings/small.toml:2:1: unknown key `temprature` in [generation]; did you mean `temperature`?\n  \
         |\n\
         2 | temprature = 0.5\n  \
         | ^^^^^^^^^^\n  \
         = known keys: temperature, top_p, top_k, repetition_penalty, max_new_tokens, stop\n\
         \n\
         settings/small.toml:3:9: `top_p`: expected a number, found a string\n  \
         |\n\
         3 | top_p = \"x\"\n  \
         |         ^^^\n  \
         = for example top_p = 0.9\n\
         \n\
         --set: column 14: unknown device `cude`; did you mean `cuda`?\n  \
         |\n\
         1 | model.device=cude\n  \
         |              ^^^^\n  \
         = known: auto, cpu, cuda, cuda:N with the number of a GPU, metal"
    );
}

#[test]
fn syntax_errors_are_told_in_plain_words() {
    for (text, expect) in [
        ("a = b\n", "settings/small.toml:1:5: not valid TOML: this is neither a number nor a text in quotes"),
        ("a = \nb = 1", "settings/small.toml:1:5: not valid TOML: a value is missing"),
        ("\n[model", "settings/small.toml:2:7: not valid TOML: the name of a section does not end"),
        ("[model]\n[model]\n", "settings/small.toml:2:2: not valid TOML: this is here twice"),
        ("a = \"x\nb = 1\n", "settings/small.toml:1:7: not valid TOML: invalid basic string, expected `\"`"),
    ] {
        assert_eq!(problems(text, &[]), [expect], "{text}");
    }
    let two = problems("a = b\nc = 1\nd = e\n", &[]);
    assert_eq!(two.len(), 2, "{two:?}");
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        problems("", &[]),
        [
            "settings/small.toml: the section [model] is missing",
            "settings/small.toml: there is no [[benchmark]] section",
        ]
    );
    assert_eq!(
        problems("[model]\nkind = 'local'\n[[benchmark]]\nname = 'a'\n[[benchmark]]\nname = 'b'\n", &[]),
        [
            "settings/small.toml:1:2: the key `architecture` is missing in [model]",
            "settings/small.toml:1:2: the key `weights` is missing in [model]",
            "settings/small.toml:3:1: the key `data` is missing in [[benchmark]] number 1",
            "settings/small.toml:5:1: the key `data` is missing in [[benchmark]] number 2",
        ]
    );
}

#[test]
fn sections_of_the_wrong_shape() {
    assert_eq!(
        problems(&SMALL.replace("[model]", "[models]"), &[]),
        [
            "settings/small.toml: the section [model] is missing",
            "settings/small.toml:2:2: unknown section `models`; did you mean `model`?",
        ]
    );
}

#[test]
fn values_out_of_range() {
    check("[generation]", "temperature = -0.1", "`temperature` must be at least 0, found -0.1");
    check("[generation]", "temperature = true", "`temperature`: expected a number, found true or false");
    check("[generation]", "temperature = \"papre\"", "unknown temperature `papre`; did you mean `paper`?");
    check("[generation]", "temperature = nan", "`temperature` must be a finite number");
    check("[generation]", "temperature = 1e999", "`temperature` must be a finite number");
    check("[generation]", "top_p = 0", "`top_p` must be above 0 and at most 1, found 0");
    check("[generation]", "top_p = 1.5", "`top_p` must be above 0 and at most 1, found 1.5");
    check("[generation]", "top_k = -2", "`top_k` must be at least -1 and at most 1000000, found -2");
    check("[generation]", "repetition_penalty = 0.0", "`repetition_penalty` must be above 0, found 0.0");
    check(
        "[generation]",
        "max_new_tokens = 0",
        "`max_new_tokens` must be at least 1 and at most 1000000, found 0",
    );
    check("[generation]", "stop = ['']", "`stop` is empty");
    check("[model]", "batch_size = 0", "`batch_size` must be at least 1 and at most 4096, found 0");
    check("[model]", "audio.max_seconds = 0", "`max_seconds` must be above 0 and at most 1000000, found 0");
    check("[model]", "audio.max_seconds = 30.5", "qwen2_audio takes at most 30 seconds of audio");
    check("[[benchmark]]", "limit = 0", "`limit` must be at least 1, found 0");
    check("[run]", "seed = -1", "`seed` must be at least 0, found -1");
    check("[run]", "seed = 99999999999999999999", "`seed` is too large");
    check("[run]", "seed = 1.0", "`seed`: expected a whole number, found a decimal number");
}

#[test]
fn unknown_words() {
    check("[model]", "device = 'gpu'", "unknown device `gpu`; did you mean `cuda`?");
    check("[model]", "device = 'cuda:'", "unknown device `cuda:`; did you mean `cuda`?");
    check("[model]", "dtype = 'fp16'", "unknown dtype `fp16`; did you mean `f16`?");
    check("[model]", "audio.window = 'frist'", "unknown window `frist`; did you mean `first`?");
    check("[[benchmark]]", "profile = 'oficial'", "unknown profile `oficial`; did you mean `official`?");
    check("[[benchmark]]", "limit_by = 'random'", "unknown limit_by `random`");
    check("[model]", "temperature = 1", "unknown key `temperature` in [model]; it is a key of [generation]");
    check(
        "[[benchmark]]",
        "strip-output = true",
        "unknown key `strip-output` in [[benchmark]]; did you mean `strip_output`?",
    );
    let kind = SMALL.replace("\"local\"", "\"locl\"").replace("qwen2_audio", "qwen2-audio");
    assert_eq!(
        problems(&kind, &[]),
        [
            "settings/small.toml:3:8: unknown kind `locl`; did you mean `local`?",
            "settings/small.toml:4:16: unknown architecture `qwen2-audio`; did you mean `qwen2_audio`?",
        ]
    );
}

#[test]
fn wrong_types() {
    check("[generation]", "stop = 'x'", "`stop`: expected a list, found a string");
    check("[generation]", "stop = [1]", "`stop`: expected a list of strings, found a whole number in it");
    check("[[benchmark]]", "strip_output = 'yes'", "`strip_output`: expected true or false, found a string");
    check("[[benchmark]]", "fields = ['a']", "there can be one section `fields` only");
    check("[[benchmark]]", "fields = { audio = 1 }", "`audio`: expected a string, found a whole number");
    check("[[benchmark]]", "languages = ['eng', 'eng']", "`eng` is in `languages` twice");
    // A seed that is there twice would count its answers twice.
    check("[[benchmark]]", "belebele = { seeds = [0, 1, 0x1] }", "`1` is in `seeds` twice");
    check("[run]", "name = 2026-01-01", "`name`: expected a string, found a date");
    assert_eq!(
        problems(&SMALL.replace("[[benchmark]]", "[benchmark]"), &[]),
        ["settings/small.toml:7:2: `benchmark` can be given several times and takes two brackets"]
    );
    assert_eq!(
        problems(&SMALL.replace("[model]", "[[model]]"), &[]),
        ["settings/small.toml:2:1: there can be one section `model` only"]
    );
}

#[test]
fn names_that_cannot_be_folders() {
    check("[run]", "name = ''", "`name` is empty");
    check("[run]", "name = 'a/b'", "the run name `a/b` holds a path separator");
    check("[run]", "name = '..'", "the run name `..` begins or ends with a dot");
    check("[run]", "name = ' a'", "the run name ` a` begins or ends with a blank");
    check("[run]", "name = 'a:b'", "the run name `a:b` holds a character that file names cannot have");
    check("[[benchmark]]", "label = '../a'", "the label `../a` holds a path separator");
    let long = "a".repeat(101);
    check("[run]", &format!("name = '{long}'"), &format!("the run name `{long}` is too long"));
    let long = format!("{}…{} (10000 characters)", "a".repeat(80), "a".repeat(20));
    check(
        "[run]",
        &format!("name = '{}'", "a".repeat(10_000)),
        &format!("the run name `{long}` is too long"),
    );
    check("[model]", &format!("device = '{}'", "a".repeat(10_000)), &format!("unknown device `{long}`"));
    let unnamed = load_text(Path::new("configs/.toml"), SMALL, &[]).map(|l| l.config).unwrap_err();
    assert!(unnamed.to_string().contains("the file's name, which names the run"), "{unnamed}");
    let named = load_text(Path::new("configs/.toml"), &with("[run]", "name = 'x'"), &[]).unwrap();
    assert_eq!(named.config.run.name, "x");
}

#[test]
fn labels_are_unique() {
    let second = "[[benchmark]]\nname = 'CCFQA'\ndata = 'x'\n";
    assert_eq!(
        problems(&format!("{SMALL}{second}"), &[]),
        ["settings/small.toml:11:8: another [[benchmark]] section is called `CCFQA`"]
    );
    assert_eq!(config(&format!("{SMALL}{second}label = 'x'\n"), &[]).benchmarks[1].label, "x");
}

#[test]
fn paths_that_a_shell_would_expand() {
    let text = SMALL.replace("models/tiny", "~/models");
    assert_eq!(problems(&text, &[]), ["settings/small.toml:5:11: `~` is not expanded in a path"]);
}
