//! Names of media: what a row may name, and how a place inside a dataset's file is written.

use std::path::{Component, Path, PathBuf};

use crate::types::shown;

/// A media name that is not followed. The text reads well after the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaNameError {
    /// No name.
    #[error("the row names no file: the name is empty")]
    Empty,
    /// A name that leads out of the folder.
    #[error(
        "{}: a media name must stay within the folder of the data, {}: nothing outside it is read; write it \
         relative to that folder, or name another folder as `media`", shown(.name), .folder.display()
    )]
    Outside {
        /// The name.
        name: String,
        /// The folder.
        folder: PathBuf,
    },
    /// A place in a file that the dataset does not have.
    #[error("{}: {reason}", shown(.name))]
    Place {
        /// The name.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

/// The file of a name, which must be relative to `folder` and stay in it. Links are followed: the files of a data
/// folder are often links into a cache.
pub(super) fn within(folder: &Path, name: &str) -> Result<PathBuf, MediaNameError> {
    if name.trim().is_empty() {
        return Err(MediaNameError::Empty);
    }
    // Both separators and drive letters count everywhere, so that a dataset is refused on all systems or on none.
    let mut pieces = name.split(['/', '\\']);
    let drive =
        name.as_bytes().get(1) == Some(&b':') && name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    let leaves = drive || name.starts_with(['/', '\\']) || pieces.any(|piece| piece == "..");
    let relative = Path::new(name);
    let normal = relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if leaves || !normal {
        return Err(MediaNameError::Outside { name: name.to_owned(), folder: folder.to_owned() });
    }
    Ok(folder.join(relative))
}

/// The folders in a folder in which media may lie, in order.
pub(super) fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let mut found: Vec<_> =
        entries.filter(named).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        let folder = Path::new("/data/x");
        assert_eq!(within(folder, "eng/1.wav").unwrap(), folder.join("eng/1.wav"));
        assert_eq!(within(folder, "./a..b/1.wav").unwrap(), folder.join("./a..b/1.wav"));
        for name in
            ["/etc/passwd", "../x.wav", "a/../../b", "a\\..\\b", "..", "\\\\server\\x", "c:\\x", "C:x"]
        {
            let error = within(folder, name).unwrap_err().to_string();
            assert!(error.contains("nothing outside it is read"), "{error}");
        }
        assert_eq!(within(folder, " "), Err(MediaNameError::Empty));
        let long = within(folder, &format!("../{}", "x".repeat(10_000))).unwrap_err().to_string();
        assert!(long.starts_with("../xxx") && long.contains("(10003 characters): a media name"), "{long}");
        assert!(long.len() < 400, "{long}");
    }

    proptest::proptest! {
        #[test]
        fn no_name_leads_out(name in "[a./\\\\:]{0,12}") {
            if let Ok(path) = within(Path::new("/data/x"), &name) {
                let mut depth = 0_i32;
                for part in path.strip_prefix("/data/x").unwrap().components() {
                    depth += if part == Component::ParentDir { -1 } else { 1 };
                    proptest::prop_assert!(depth >= 0);
                }
            }
        }
    }
}
