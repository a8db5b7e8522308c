//! Languages by code: how they are called, how recognisers of speech know them, and how their sentences are joined.
//!
//! Plain facts for whoever needs them. This module must not know benchmarks, models or files.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// A language.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Language {
    /// Its English name.
    pub name: String,
    /// Its folder in FLEURS.
    pub fleurs: String,
    /// Its token in Whisper, without brackets; empty where there is none.
    pub whisper: String,
    /// Its code as speech input of `SeamlessM4T`; empty where there is none.
    pub seamless: String,
}

static LANGUAGES: LazyLock<BTreeMap<String, Language>> = LazyLock::new(|| {
    // The file is part of the program; a test reads it.
    toml::from_str(include_str!("languages.toml")).unwrap_or_default()
});

/// All languages, by FLORES code such as `eng_Latn`.
pub fn all() -> &'static BTreeMap<String, Language> {
    &LANGUAGES
}

/// The language of a code: one of FLORES (`deu_Latn`, also with the `^` that some are published with), or the part of
/// one before the script (`deu`; `cmn` is Mandarin).
pub fn find(code: &str) -> Option<&'static Language> {
    let code = code.trim_end_matches('^');
    let code = if code == "cmn" { "zho" } else { code };
    let by_start = || {
        let starts = |known: &&String| known.strip_prefix(code).is_some_and(|rest| rest.starts_with('_'));
        LANGUAGES.keys().find(starts).and_then(|known| LANGUAGES.get(known))
    };
    LANGUAGES.get(code).or_else(|| if code.len() == 3 { by_start() } else { None })
}

/// Whisper's token of a language, without brackets: `None` where it has none. A two-letter code is taken as it is.
pub fn whisper(code: &str) -> Option<&str> {
    // A token of the third version only, and no language of FLEURS' speech.
    if code == "yue" || code.starts_with("yue_") {
        return Some("yue");
    }
    match find(code) {
        Some(language) => Some(language.whisper.as_str()).filter(|token| !token.is_empty()),
        None => Some(code).filter(|code| code.len() == 2 && code.bytes().all(|b| b.is_ascii_lowercase())),
    }
}

/// Whisper's languages by the names that its servers give them, each behind its token.
const WHISPER_NAMES: &str = "en english zh chinese de german es spanish ru russian ko korean fr french ja japanese \
    pt portuguese tr turkish pl polish ca catalan nl dutch ar arabic sv swedish it italian id indonesian hi hindi fi finnish \
    vi vietnamese he hebrew uk ukrainian el greek ms malay cs czech ro romanian da danish hu hungarian ta tamil \
    no norwegian th thai ur urdu hr croatian bg bulgarian lt lithuanian la latin mi maori ml malayalam cy welsh sk slovak \
    te telugu fa persian lv latvian bn bengali sr serbian az azerbaijani sl slovenian kn kannada et estonian \
    mk macedonian br breton eu basque is icelandic hy armenian ne nepali mn mongolian bs bosnian kk kazakh sq albanian \
    sw swahili gl galician mr marathi pa punjabi si sinhala km khmer sn shona yo yoruba so somali af afrikaans \
    oc occitan ka georgian be belarusian tg tajik sd sindhi gu gujarati am amharic yi yiddish lo lao uz uzbek fo faroese \
    ht haitian_creole ps pashto tk turkmen nn nynorsk mt maltese sa sanskrit lb luxembourgish my myanmar bo tibetan \
    tl tagalog mg malagasy as assamese tt tatar haw hawaiian ln lingala ha hausa ba bashkir jw javanese su sundanese \
    yue cantonese zh mandarin jw jv he iw";

/// The code of a language that a recogniser names, by a code (`en`) or in words (`english`): Whisper's token where it is
/// one of Whisper's, else the name as it came, in small letters. `None` where nothing is named.
pub fn named_by_recogniser(name: &str) -> Option<String> {
    let name = name.trim().to_lowercase().replace(' ', "_");
    let words: Vec<&str> = WHISPER_NAMES.split_whitespace().collect();
    let token = words.chunks_exact(2).find_map(|pair| match pair {
        [token, known] if *known == name => Some((*token).to_owned()),
        _ => None,
    });
    token.or(Some(name)).filter(|name| !name.is_empty())
}

/// What stands between two sentences: a blank, and nothing in scripts that know none.
pub fn between_sentences(code: &str) -> &'static str {
    const NONE: [&str; 8] = ["zho", "cmn", "yue", "jpn", "tha", "khm", "mya", "lao"];
    let start = code.get(..3).unwrap_or(code);
    if NONE.contains(&start) { "" } else { " " }
}

/// The prompt of Whisper's decoder that has a clip written down in its language, without time stamps. Who transcribes
/// for a request is asked with this string where the language is settled before; else the clip alone is the request.
pub fn whisper_prompt(token: &str) -> String {
    format!("<|startoftranscript|><|{token}|><|transcribe|><|notimestamps|>")
}

/// The language of such a prompt.
pub fn of_whisper_prompt(prompt: &str) -> Option<&str> {
    let rest = prompt.strip_prefix("<|startoftranscript|><|")?;
    let (token, rest) = rest.split_once("|>")?;
    (rest == "<|transcribe|><|notimestamps|>").then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_that_of_the_published_files() {
        assert_eq!(all().len(), 73);
        assert_eq!(all().values().filter(|l| !l.whisper.is_empty() && !l.seamless.is_empty()).count(), 64);
        assert!(all().values().all(|language| !language.name.is_empty() && !language.fleurs.is_empty()));
        assert_eq!(
            (all()["jav_Latn"].whisper.as_str(), all()["zho_Hans"].fleurs.as_str()),
            ("jw", "cmn_hans_cn")
        );
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../shared/protocols/2m-belebele/languages.toml");
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("skipped: {} is not there", path.display());
            return;
        };
        let agreed: toml::Table = toml::from_str(&text).unwrap();
        let agreed = agreed["lang"].as_table().unwrap();
        assert_eq!(agreed.len(), all().len());
        for (code, language) in all() {
            for (key, found) in [
                ("fleurs", &language.fleurs),
                ("whisper", &language.whisper),
                ("seamless", &language.seamless),
            ] {
                assert_eq!(agreed[code][key].as_str(), Some(found.as_str()), "{code} {key}");
            }
        }
    }

    #[test]
    fn languages_are_found_by_all_their_codes() {
        for (code, token) in [
            ("eng_Latn", Some("en")),
            ("cmn", Some("zh")),
            ("kor", Some("ko")),
            ("yue", Some("yue")),
            ("amh_Ethi^", Some("am")),
            ("wol_Latn", None),
            ("de", Some("de")),
            ("", None),
            ("xyz", None),
        ] {
            assert_eq!(whisper(code), token, "{code}");
        }
        assert_eq!((between_sentences("jpn_Jpan"), between_sentences("deu_Latn")), ("", " "));
        assert_eq!(find("zho_Hans").unwrap().name, "Mandarin Chinese");
    }

    #[test]
    fn recognisers_name_languages_in_codes_or_words() {
        for (name, code) in [
            ("english", Some("en")),
            ("Haitian Creole", Some("ht")),
            ("de", Some("de")),
            ("jv", Some("jw")),
            ("Klingon", Some("klingon")),
            (" ", None),
        ] {
            assert_eq!(named_by_recogniser(name).as_deref(), code, "{name}");
        }
        // Every token of the list of languages has a name, and is its own code.
        let words: Vec<&str> = WHISPER_NAMES.split_whitespace().collect();
        assert_eq!(words.len() % 2, 0);
        for language in all().values().filter(|language| !language.whisper.is_empty()) {
            let token = language.whisper.as_str();
            assert!(words.chunks_exact(2).any(|pair| pair[0] == token), "{token}");
            assert_eq!(named_by_recogniser(token).as_deref(), Some(token));
        }
    }

    #[test]
    fn prompts_of_whisper_name_their_language() {
        assert_eq!(of_whisper_prompt(&whisper_prompt("jw")), Some("jw"));
        for other in ["", "<|startoftranscript|>", "<|startoftranscript|><|en|><|translate|><|notimestamps|>"]
        {
            assert_eq!(of_whisper_prompt(other), None, "{other}");
        }
    }
}
