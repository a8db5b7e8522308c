//! Whatever a file or an override holds, it gives a configuration or sentences.

use proptest::prelude::*;

use super::*;

/// Lines of configurations, whole and broken, to be put together at random.
fn lines() -> impl Strategy<Value = String> {
    let known = prop::sample::select(
        SMALL
            .lines()
            .chain([
                "[generation]",
                "[run]",
                "[model.audio]",
                "[[benchmark]]",
                "[benchmark.fields]",
                "[[model]]",
            ])
            .chain([
                "temperature = 1",
                "top_p = nan",
                "stop = ['a', 1]",
                "fields = { a = 'b' }",
                "audio = []",
            ])
            .chain([
                "name = \"日本\u{0}\"",
                "seed = 0xFFFF_FFFF_FFFF_FFFF_FF",
                "limit = 1979-05-27",
                "a.b.c = [",
            ])
            .chain(["benchmark = 3", "window = 'last'", "max_seconds = inf", "\"\" = ''"])
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    prop::collection::vec(prop_oneof![4 => known, 1 => any::<String>()], 0..12)
        .prop_map(|lines| lines.join("\n"))
}

/// Thousandths, as people type numbers. (Figures of 17 digits may come back from JSON off by the last bit.)
fn decimal(thousandths: impl Strategy<Value = i32>) -> impl Strategy<Value = f64> {
    thousandths.prop_map(|n| f64::from(n) / 1000.0)
}

proptest! {
    #[test]
    fn no_text_breaks_the_loader(text in prop_oneof![any::<String>(), lines()], set in any::<String>()) {
        let sets: Vec<Override> = Override::parse(&set).into_iter().collect();
        if let Err(error) = load_text(Path::new("x.toml"), &text, &sets) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_override_breaks_the_loader(
        path in prop::sample::select(vec!["run.name", "benchmark.0.limit", "benchmark.ccfqa.fields", "model", "a.b", "generation.stop"]),
        value in any::<String>(),
    ) {
        let set = Override::parse(&format!("{path}={value}")).unwrap();
        if let Err(error) = load_text(Path::new("x.toml"), SMALL, &[set]) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_configuration_survives_the_manifest(
        name in "[a-zé日][a-zA-Z0-9 é日_-]{0,20}[a-z]",
        seed in 0..=i64::MAX,
        temperature in decimal(0..10_000),
        top_p in decimal(1..=1000),
        top_k in -1..1000i64,
        penalty in decimal(1..4000),
        seconds in decimal(1..=30_000),
        limit in prop::option::of(1..=i64::MAX),
        stop in prop::collection::btree_set("[^\\p{C}]{1,5}", 0..3),
        device in "auto|cpu|metal|cuda(:[0-9])?",
    ) {
        let stop = serde_json::to_string(&stop).unwrap();
        let mut sets = vec![
            format!("run.name={name}"), format!("run.seed={seed}"), format!("generation.temperature={temperature}"),
            format!("generation.top_p={top_p}"), format!("generation.top_k={top_k}"), format!("generation.stop={stop}"),
            format!("generation.repetition_penalty={penalty}"), format!("model.audio.max_seconds={seconds}"),
            format!("model.device={device}"),
        ];
        sets.extend(limit.map(|limit| format!("benchmark.0.limit={limit}")));
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let config = config(SMALL, &sets);
        prop_assert_eq!(&config.run.name, &name);
        prop_assert_eq!(config.generation.temperature, Some(temperature));
        let json = serde_json::to_string(&config).unwrap();
        prop_assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let deep = vec!["a"; 100_000].join(".");
    for text in [format!("{deep} = 1"), format!("[{deep}]"), format!("a = {}", "[".repeat(100_000))] {
        assert!(read(&text, &[]).is_err());
    }
    assert!(Override::parse(&format!("{deep}=1")).is_err());
    let spread = vec!["\"a\\\"\""; 100_000].join(" . ");
    assert_eq!(
        problems(&format!("{spread} = 1"), &[]),
        ["settings/small.toml:1:807: this key has too many parts"]
    );
    // Not keys: dots in texts and numbers.
    let text = with(
        "[generation]",
        &format!("stop = ['{}', \"\"\"{}\"\"\"]", "a.".repeat(500), "It's so. ".repeat(500)),
    );
    assert!(read(&text, &[]).is_ok());
    assert!(read(SMALL, &[&format!("a={}", "[".repeat(100_000))]).is_err());
}
