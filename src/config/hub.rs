//! What the environment says about downloads: the hub's address, its cache, the token, mirrors and proxies.
//!
//! The names and their meaning are those of Python's `huggingface_hub`, so that both find the same cache and the
//! same token. This module must not know HTTP, nor what is downloaded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::env;
use super::secret::ApiKey;

/// Where GitHub itself serves raw files of repositories.
pub const GITHUB_RAW: &str = "https://raw.githubusercontent.com";

/// Where files come from and go to.
#[derive(Clone, Debug, PartialEq)]
pub struct HubSettings {
    /// The hub's address, without a slash at its end.
    pub endpoint: String,
    /// The user's token: sent to the hub's own address and nowhere else.
    pub token: Option<ApiKey>,
    /// The hub's cache: `models--org--name` and so on.
    pub cache: PathBuf,
    /// Nothing may be asked over the network.
    pub offline: bool,
    /// Where raw files of GitHub repositories are served, without a slash at its end.
    pub github: String,
    /// Beginnings of addresses, each with what stands in its place.
    pub mirrors: Vec<(String, String)>,
    /// The proxy for addresses of `http://`.
    pub http_proxy: Option<ApiKey>,
    /// The proxy for addresses of `https://`.
    pub https_proxy: Option<ApiKey>,
    /// Hosts that are asked without a proxy.
    pub no_proxy: Option<String>,
    /// How long a connection may stay silent before it is given up and tried again.
    pub stall: Duration,
}

impl HubSettings {
    /// An address with the first mirror that fits.
    pub fn mirrored(&self, address: &str) -> String {
        let mirror = self.mirrors.iter().find_map(|(from, to)| {
            let rest = address.strip_prefix(from.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{to}{rest}"))
        });
        mirror.unwrap_or_else(|| address.to_owned())
    }
}

/// Whether a text is the name of a repository with its owner: `org/name`.
pub fn is_repo(text: &str) -> bool {
    let good = |part: &str| {
        !part.is_empty()
            && part.len() <= 96
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && !part.starts_with(['.', '-'])
            && !part.ends_with(['.', '-'])
            && !part.contains("--")
            && !part.contains("..")
    };
    text.split_once('/').is_some_and(|(owner, name)| good(owner) && good(name))
}

/// Reads the settings. The error is a sentence that names the variable.
pub fn settings() -> Result<HubSettings, String> {
    settings_from(env::text, |path| std::fs::read_to_string(path).ok(), std::env::home_dir().as_deref())
}

fn settings_from(
    look_up: impl Fn(&str) -> Option<String>,
    read: impl Fn(&Path) -> Option<String>,
    home: Option<&Path>,
) -> Result<HubSettings, String> {
    let path = |name: &str| {
        let text = look_up(name)?;
        // As Python does it: `HF_HOME=~/hf` in a file of variables reaches the program unexpanded.
        Some(match (text.strip_prefix('~'), home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(text),
        })
    };
    let on = |name: &str| {
        look_up(name).is_some_and(|text| {
            matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true")
        })
    };
    let hub_home = path(env::HF_HOME)
        .or_else(|| path(env::XDG_CACHE_HOME).map(|cache| cache.join("huggingface")))
        .or_else(|| home.map(|home| home.join(".cache/huggingface")))
        .unwrap_or_else(|| PathBuf::from(".cache/huggingface"));
    let token_file = path(env::HF_TOKEN_PATH).unwrap_or_else(|| hub_home.join("token"));
    let token = if on(env::HF_HUB_DISABLE_IMPLICIT_TOKEN) {
        None
    } else {
        look_up(env::HF_TOKEN)
            .or_else(|| read(&token_file))
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let base = |name: &str, default: &str| {
        let text = look_up(name).unwrap_or_else(|| default.to_owned());
        let text = text.trim().trim_end_matches('/').to_owned();
        if text.starts_with("https://") || text.starts_with("http://") {
            Ok(text)
        } else {
            Err(format!("{name} is no address; expected one such as {default}"))
        }
    };
    let any_case = |name: &str| look_up(name).or_else(|| look_up(&name.to_ascii_lowercase()));
    let all_proxy = any_case(env::ALL_PROXY);
    let seconds = match look_up(env::HF_HUB_DOWNLOAD_TIMEOUT) {
        None => 30.0,
        Some(text) => {
            text.trim().parse::<f64>().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds)).ok_or_else(
                || format!("{} is `{text}`; expected seconds, such as 30", env::HF_HUB_DOWNLOAD_TIMEOUT),
            )?
        }
    };
    Ok(HubSettings {
        endpoint: base(env::HF_ENDPOINT, "https://huggingface.co")?,
        token: token.map(ApiKey::new),
        cache: path(env::HF_HUB_CACHE).unwrap_or_else(|| hub_home.join("hub")),
        offline: on(env::HF_HUB_OFFLINE),
        github: base(env::HARNESS_GITHUB_RAW, GITHUB_RAW)?,
        mirrors: mirrors(&look_up(env::HARNESS_MIRRORS).unwrap_or_default())?,
        http_proxy: any_case(env::HTTP_PROXY).or_else(|| all_proxy.clone()).map(ApiKey::new),
        https_proxy: any_case(env::HTTPS_PROXY).or(all_proxy).map(ApiKey::new),
        no_proxy: any_case(env::NO_PROXY),
        stall: Duration::from_secs_f64(seconds),
    })
}

/// `https://a.example=https://b.example/a https://c.example=…`
fn mirrors(text: &str) -> Result<Vec<(String, String)>, String> {
    text.split_whitespace()
        .map(|pair| {
            let is_address = |text: &str| text.starts_with("https://") || text.starts_with("http://");
            // An address may hold `=` itself.
            let at = ["=https://", "=http://"].iter().filter_map(|mark| pair.find(mark)).min();
            match at.and_then(|at| Some((pair.get(..at)?, pair.get(at + 1..)?))) {
                Some((from, to)) if is_address(from) && is_address(to) => {
                    Ok((from.trim_end_matches('/').to_owned(), to.trim_end_matches('/').to_owned()))
                }
                _ => Err(format!(
                    "{} holds `{pair}`; expected pairs such as https://a.example=https://mirror.example/a",
                    env::HARNESS_MIRRORS
                )),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)], files: &[(&str, &str)]) -> Result<HubSettings, String> {
        let find = |pairs: &[(&str, &str)], name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        settings_from(
            |name| find(pairs, name),
            |path| find(files, path.to_str().unwrap()),
            Some(Path::new("/home/u")),
        )
    }

    #[test]
    fn repositories_have_an_owner_and_a_name() {
        for good in ["Qwen/Qwen2-Audio-7B-Instruct", "m-a-p/SimpleVQA", "a/b.c_d"] {
            assert!(is_repo(good), "{good}");
        }
        for bad in
            ["", "gpt2", "/a", "a/", "a/b/c", "../b", "a/..", "./model", "a--b/c", "a b/c", "~/m", "a/.b"]
        {
            assert!(!is_repo(bad), "{bad}");
        }
    }

    #[test]
    fn the_cache_is_where_python_has_it() {
        let cache = |pairs: &[(&str, &str)]| from(pairs, &[]).unwrap().cache;
        assert_eq!(cache(&[]), Path::new("/home/u/.cache/huggingface/hub"));
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(cache(&[("HF_HOME", "~/hf"), ("XDG_CACHE_HOME", "/x")]), Path::new("/home/u/hf/hub"));
        assert_eq!(cache(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/c")]), Path::new("/c"));
    }

    #[test]
    fn the_token_comes_from_the_variable_or_from_a_file_and_is_never_shown() {
        let files = [("/home/u/.cache/huggingface/token", "hf_home\n"), ("/t", "hf_file\r\n")];
        let token = |pairs: &[(&str, &str)]| {
            from(pairs, &files).unwrap().token.map(|token| token.expose().to_owned())
        };
        assert_eq!(token(&[]).as_deref(), Some("hf_home"));
        assert_eq!(token(&[("HF_TOKEN_PATH", "/t")]).as_deref(), Some("hf_file"));
        assert_eq!(token(&[("HF_TOKEN_PATH", "/t"), ("HF_TOKEN", "hf_env")]).as_deref(), Some("hf_env"));
        assert_eq!(token(&[("HF_TOKEN_PATH", "/none")]), None);
        assert_eq!(token(&[("HF_TOKEN", "a"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]), None);
        let shown = format!("{:?}", from(&[("HF_TOKEN", "hf_env"), ("HTTPS_PROXY", "http://u:pw@p")], &[]));
        assert!(!shown.contains("hf_env") && !shown.contains("pw@p"), "{shown}");
    }

    #[test]
    fn addresses_and_numbers_are_checked() {
        assert_eq!(
            from(&[("HF_ENDPOINT", "http://127.0.0.1:9/")], &[]).unwrap().endpoint,
            "http://127.0.0.1:9"
        );
        let error = |pairs: &[(&str, &str)]| from(pairs, &[]).unwrap_err();
        assert!(error(&[("HF_ENDPOINT", "hf-mirror")]).starts_with("HF_ENDPOINT is no address"));
        assert!(error(&[("HF_HUB_DOWNLOAD_TIMEOUT", "soon")]).contains("expected seconds"));
        assert!(error(&[("HARNESS_MIRRORS", "https://a.example")]).contains("expected pairs"));
        assert!(from(&[("HF_HUB_OFFLINE", "True")], &[]).unwrap().offline);
        assert!(!from(&[("HF_HUB_OFFLINE", "0")], &[]).unwrap().offline);
    }

    #[test]
    fn a_mirror_stands_for_whole_beginnings_only() {
        let settings = from(&[("HARNESS_MIRRORS", "https://a.example/x=http://m/y")], &[]).unwrap();
        assert_eq!(settings.mirrored("https://a.example/x/f.zip"), "http://m/y/f.zip");
        assert_eq!(settings.mirrored("https://a.example/xyz"), "https://a.example/xyz");
        let pairs = "https://a.example/version=1=http://m/v=2 https://b.example=https://n/of=b";
        let settings = from(&[("HARNESS_MIRRORS", pairs)], &[]).unwrap();
        assert_eq!(settings.mirrored("https://a.example/version=1/lang=x"), "http://m/v=2/lang=x");
        assert_eq!(settings.mirrored("https://b.example/f"), "https://n/of=b/f");
    }
}
