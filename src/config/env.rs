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

/// Where raw files of GitHub repositories are served.
pub const HARNESS_GITHUB_RAW: &str = "HARNESS_GITHUB_RAW";

/// Mirrors of other addresses.
pub const HARNESS_MIRRORS: &str = "HARNESS_MIRRORS";

/// The hub's address.
pub const HF_ENDPOINT: &str = "HF_ENDPOINT";

/// The folder of the hub's cache and token.
pub const HF_HOME: &str = "HF_HOME";

/// The hub's cache.
pub const HF_HUB_CACHE: &str = "HF_HUB_CACHE";

/// No token is sent.
pub const HF_HUB_DISABLE_IMPLICIT_TOKEN: &str = "HF_HUB_DISABLE_IMPLICIT_TOKEN";

/// Seconds of silence that end a connection.
pub const HF_HUB_DOWNLOAD_TIMEOUT: &str = "HF_HUB_DOWNLOAD_TIMEOUT";

/// Nothing is asked over the network.
pub const HF_HUB_OFFLINE: &str = "HF_HUB_OFFLINE";

/// The user's token for the hub.
pub const HF_TOKEN: &str = "HF_TOKEN";

/// The file of the user's token.
pub const HF_TOKEN_PATH: &str = "HF_TOKEN_PATH";

/// The folder of caches.
pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";

/// The proxy for every address.
pub const ALL_PROXY: &str = "ALL_PROXY";

/// The proxy for `http://`.
pub const HTTP_PROXY: &str = "HTTP_PROXY";

/// The proxy for `https://`.
pub const HTTPS_PROXY: &str = "HTTPS_PROXY";

/// Hosts without a proxy.
pub const NO_PROXY: &str = "NO_PROXY";

/// All variables, by name.
pub const ALL: [Variable; 17] = [
    Variable {
        name: ALL_PROXY,
        purpose: "The proxy for downloads where the two next do not say another; lower case counts too, for all four.",
        default: "No proxy.",
    },
    Variable {
        name: HARNESS_GITHUB_RAW,
        purpose: "Where downloads find raw files of GitHub repositories, for mirrors.",
        default: "`https://raw.githubusercontent.com`",
    },
    Variable {
        name: HARNESS_LOG,
        purpose: "The filter of the log on standard error: a level (`error`, `warn`, `info`, `debug`, `trace`), \
                  or a list such as `info,harness::model=debug`.",
        default: "Warnings and errors are shown.",
    },
    Variable {
        name: HARNESS_MIRRORS,
        purpose: "Mirrors for downloads over plain HTTPS: pairs `https://host/path=https://mirror/path`, separated by blanks.",
        default: "Every address is asked as published.",
    },
    Variable {
        name: HF_ENDPOINT,
        purpose: "The address of the Hugging Face hub, for mirrors.",
        default: "`https://huggingface.co`",
    },
    Variable {
        name: HF_HOME,
        purpose: "The folder that holds the hub's cache (`hub/`) and token (`token`), shared with Python's `huggingface_hub`.",
        default: "`$XDG_CACHE_HOME/huggingface`, else `~/.cache/huggingface`",
    },
    Variable { name: HF_HUB_CACHE, purpose: "The hub's cache.", default: "`$HF_HOME/hub`" },
    Variable {
        name: HF_HUB_DISABLE_IMPLICIT_TOKEN,
        purpose: "With `1`, no token is sent to the hub.",
        default: "The token is sent to the hub, where there is one.",
    },
    Variable {
        name: HF_HUB_DOWNLOAD_TIMEOUT,
        purpose: "Seconds of silence after which a download's connection is given up and tried again.",
        default: "30",
    },
    Variable {
        name: HF_HUB_OFFLINE,
        purpose: "With `1`, nothing is downloaded: what is needed must be there already.",
        default: "Files that are missing are downloaded.",
    },
    Variable {
        name: HF_TOKEN,
        purpose: "The token for the hub, for files that need one. Sent to the hub's own address only, and shown nowhere.",
        default: "The token of `HF_TOKEN_PATH` is taken.",
    },
    Variable {
        name: HF_TOKEN_PATH,
        purpose: "The file that holds the token, as `hf auth login` writes it.",
        default: "`$HF_HOME/token`",
    },
    Variable {
        name: HTTPS_PROXY,
        purpose: "The proxy for downloads over `https://`.",
        default: "That of `ALL_PROXY`.",
    },
    Variable {
        name: HTTP_PROXY,
        purpose: "The proxy for downloads over `http://`.",
        default: "That of `ALL_PROXY`.",
    },
    Variable {
        name: NO_COLOR,
        purpose: "Turns colours off when it is set and not empty.",
        default: "Colours are shown on a terminal.",
    },
    Variable {
        name: NO_PROXY,
        purpose: "Hosts that downloads reach without a proxy, separated by commas.",
        default: "Every host is reached through the proxy, where there is one.",
    },
    Variable {
        name: XDG_CACHE_HOME,
        purpose: "The folder of caches, where `HF_HOME` is not set.",
        default: "`~/.cache`",
    },
];

/// What a variable holds, if it is set to anything but the empty text.
pub(super) fn text(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|text| !text.is_empty())
}

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
         endpoint), and `$NAME` in `model.endpoint.headers`, `model.endpoint.proxy` and `model.server.env`. They are read when the \
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
