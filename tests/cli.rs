//! The command line itself: help, exit codes, lists.

mod common;

use common::{Place, finish, harness, root};

#[test]
fn help_teaches_the_tool() {
    let help = finish(harness().arg("--help")).exits_with(0);
    for text in ["run", "check", "score", "report", "list", "schema", "Exit codes", "HARNESS_LOG"] {
        assert!(help.stdout.contains(text), "`{text}` is not in\n{}", help.stdout);
    }
    let run = finish(harness().args(["run", "--help"])).exits_with(0);
    for flag in ["--set", "--limit", "--name", "--results", "--resume", "--fresh", "--allow-incomplete"] {
        assert!(run.stdout.contains(flag), "`{flag}` is not in\n{}", run.stdout);
    }
}

#[test]
fn wrong_command_lines_exit_with_2() {
    finish(harness().arg("rum")).exits_with(2).says("run");
    finish(harness().args(["run"])).exits_with(2).says("CONFIG");
    finish(harness().args(["run", "no.toml"])).exits_with(2).says("no.toml");
    finish(harness().args(["run", "configs/demo.toml", "--limit", "0"])).exits_with(2);
    finish(harness().args(["score", "no-such-run"])).exits_with(2).says("no run is there");
}

#[test]
fn a_typo_is_shown_with_its_line_and_the_nearest_key() {
    let place = Place::new("");
    place.edit("max_new_tokens", "max_new_token");
    finish(&mut place.command("run", &[])).exits_with(2).says("c.toml:9:1").says("max_new_tokens");
}

#[test]
fn missing_data_points_at_the_line_of_the_config() {
    let place = Place::new("");
    place.edit("rows.jsonl", "none.jsonl");
    finish(&mut place.command("run", &[])).exits_with(2).says("c.toml:13").says("none.jsonl: no such file");
}

#[test]
fn empty_data_are_nothing_to_run() {
    let place = Place::new("\n");
    finish(&mut place.command("run", &[])).exits_with(2).says("holds no rows");
}

#[test]
fn list_and_schema_are_for_people_and_editors() {
    finish(harness().arg("list")).exits_with(0).prints("ccfqa").prints("xsqa").prints("qwen2_audio");
    let schema = finish(harness().arg("schema")).exits_with(0);
    let checked_in = std::fs::read_to_string(root().join("configs/harness.schema.json")).unwrap();
    assert_eq!(schema.stdout, checked_in);
}
