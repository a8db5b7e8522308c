//! Names from outside: of repositories, commits, hashes and files. What is not of the expected form is refused
//! before it becomes part of a path or an address.

use std::path::PathBuf;

/// Whether a text is a commit: 40 hexadecimal digits.
pub(super) fn is_commit(text: &str) -> bool {
    is_hex(text, 40)
}

/// Whether a text is `digits` lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A name of a file below a folder as a path, if it can lead nowhere else: no empty part, no `..`, no root, no
/// backslash or control character, nothing that Windows reads as a drive or stream.
pub(super) fn below(name: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    if name.len() > 4096 || name.contains(['\\', ':']) || name.chars().any(char::is_control) {
        return None;
    }
    for part in name.split('/') {
        if matches!(part, "" | "." | "..") {
            return None;
        }
        path.push(part);
    }
    Some(path)
}

/// Whether a name fits a pattern, in which `*` stands for any characters, slashes too.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The nearest of some names, as the beginning of a sentence; empty where none is near.
pub(super) fn hint<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    crate::config::nearest(found, known).map(|name| format!("did you mean `{name}`? ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern, name, expected| assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        check("a.json", "a.json", true);
        check("a.json", "b/a.json", false);
        check("*", "x/y", true);
        check("*.gz", "a/b.gz", true);
        check("*.gz", "a/b.gzip", false);
        check("*wiki-*.jsonl", "d/wiki-001.jsonl", true);
        check("*wiki-*.jsonl", "wiki-.jsonl", true);
        check("a*a", "a", false);
        check("a*a", "aa", true);
        check("data/*/x", "data/x", false);
    }

    proptest! {
        #[test]
        fn no_name_leads_out(name in "[a./\\\\: ]{0,12}|[^x]{0,6}") {
            if let Some(path) = below(&name) {
                prop_assert!(path.is_relative());
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert_eq!(path.to_string_lossy(), name);
            }
        }

        #[test]
        fn a_pattern_without_stars_is_a_name(name in "[a-c*]{0,8}") {
            prop_assert!(fits("*", &name));
            prop_assert_eq!(fits("abc", &name), name == "abc");
        }
    }
}
