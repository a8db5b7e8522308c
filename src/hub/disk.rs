//! How much room there is.

use std::path::Path;

/// The bytes that this user can still write where `path` is or will be; `None` where the system does not tell.
#[cfg(unix)]
pub fn free(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(existing(path)?).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// The bytes that this user can still write where `path` is or will be; `None` where the system does not tell.
#[cfg(not(unix))]
pub fn free(_: &Path) -> Option<u64> {
    None
}

/// Whether two places are on the same file system; where that is not known, they are taken to be.
#[cfg(unix)]
pub(super) fn together(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| Some(std::fs::metadata(existing(path)?).ok()?.dev());
    device(a) == device(b)
}

/// Whether two places are on the same file system; where that is not known, they are taken to be.
#[cfg(not(unix))]
pub(super) fn together(_: &Path, _: &Path) -> bool {
    true
}

/// The nearest folder above a path that is there.
#[cfg(unix)]
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors()
        .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
        .find(|folder| folder.exists())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_there_yet_has_the_room_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free(&dir.path().join("a/b/c")).unwrap() > 0);
        assert!(free(Path::new("relative/nowhere")).unwrap() > 0);
        assert!(together(dir.path(), &dir.path().join("x/y")));
    }
}
