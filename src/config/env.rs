//! The environment variables that the program reads, all of them. `docs/environment.md` says the same, and a
//! test compares the two.

/// A variable that the program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub purpose: &'static str,
    /// What happens without it, in one sentence.
    pub default: &'static str,
}

/// The filter of the log on standard error: a level, or a list of `module=level`.
pub const HARNESS_LOG: &str = "HARNESS_LOG";

/// Set to anything but the empty text, it turns colours off (<https://no-color.org>).
pub const NO_COLOR: &str = "NO_COLOR";

/// All variables, by name.
pub const ALL: [Variable; 2] = [
    Variable {
        name: HARNESS_LOG,
        purpose: "The filter of the log on standard error: a level (`error`, `warn`, `info`, `debug`, `trace`), \
                  or a list such as `info,harness::model=debug`.",
        default: "Warnings and errors are shown.",
    },
    Variable {
        name: NO_COLOR,
        purpose: "Turns colours off when it is set and not empty.",
        default: "Colours are shown on a terminal.",
    },
];

/// The log filter, if one is set.
pub fn log_filter() -> Option<String> {
    std::env::var(HARNESS_LOG).ok().filter(|filter| !filter.is_empty())
}

/// Whether colours are turned off.
pub fn no_color() -> bool {
    std::env::var_os(NO_COLOR).is_some_and(|value| !value.is_empty())
}

/// What a variable holds that a configuration names: a key, never to be shown.
pub(super) fn named(variable: &str) -> super::secret::Lookup {
    match std::env::var(variable) {
        Ok(text) if text.trim().is_empty() => Err("is empty"),
        Ok(text) => Ok(text),
        Err(std::env::VarError::NotPresent) => Err("is not set"),
        Err(std::env::VarError::NotUnicode(_)) => Err("does not hold UTF-8 text"),
    }
}

/// `docs/environment.md`.
#[cfg(test)]
fn page() -> String {
    let mut page = String::from(
        "# Environment variables\n\n\
         harness reads these variables; local models also follow `RAYON_NUM_THREADS`. Everything that can change a result is in the \
         configuration file. This page is made from `src/config/env.rs`; its test rewrites it when \
         `HARNESS_UPDATE=1` is set.\n\n\
         | variable | what it does | without it |\n|---|---|---|\n",
    );
    page.extend(
        ALL.iter()
            .map(|Variable { name, purpose, default }| format!("| `{name}` | {purpose} | {default} |\n")),
    );
    page.push_str(
        "\nBeside these it reads the variables that a configuration names: `model.api_key_env` (the key of an \
         endpoint), and `$NAME` in `model.endpoint.headers` and `model.endpoint.proxy`. They are read when the \
         endpoint is about to be asked; one that is not set is an error that names it and its line. What they \
         hold is sent to the endpoint and shown nowhere: logs, errors and the files of a run have the names \
         only. The usual proxy variables (`HTTPS_PROXY` and the like) are not looked at: a proxy is a key of \
         the configuration.\n\n\
         Where the system's certificates are trusted (`model.endpoint.ca_bundle` is not set), the TLS library \
         looks for them where `SSL_CERT_FILE` and `SSL_CERT_DIR` say, if these are set.\n",
    );
    page
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_up_to_date() {
        crate::config::tests::compare_with_file("docs/environment.md", &super::page());
    }
}
