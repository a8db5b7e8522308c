//! Archives: their regular files go below a folder, and nothing else goes anywhere.
//!
//! Refused are names that lead out of the folder, links, devices and whatever else is neither file nor folder. A
//! list of what was unpacked is written last; while it is there and fits, nothing is unpacked again.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use super::cache::{make_parent, write_beside};
use super::error::HubError;
use super::names::below;
use super::record::Unpacked;

/// A gzip stream of zeros grows a thousandfold: beyond this an archive is something else.
const LARGEST_RATIO: u64 = 200;

/// What is always allowed.
const SMALL: u64 = 64 << 20;

/// The list of what was unpacked.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    version: u32,
    /// The archive's SHA-256.
    sha256: String,
    /// Names below the data folder, with sizes.
    files: Vec<(String, u64)>,
}

/// The name of the list of an archive.
fn list_name(archive: &str) -> PathBuf {
    PathBuf::from(format!(".unpacked/{}.json", archive.replace('/', "--")))
}

/// Whether all that was unpacked from an archive is there.
pub(super) fn is_there(folder: &Path, unpacked: &Unpacked, sha256: &str) -> bool {
    if below(&unpacked.list.to_string_lossy()).is_none() {
        return false;
    }
    let list = std::fs::read(folder.join(&unpacked.list)).ok();
    let Some(list) = list.and_then(|text| serde_json::from_slice::<List>(&text).ok()) else { return false };
    let there = |(name, bytes): &(String, u64)| {
        below(name).is_some_and(|name| {
            std::fs::metadata(folder.join(name)).is_ok_and(|found| found.is_file() && found.len() == *bytes)
        })
    };
    list.version == 1 && list.sha256 == sha256 && list.files.iter().all(there)
}

/// Unpacks a `.tar.gz` into `into`, a folder below the data folder `folder`. `name` and `sha256` are the archive's.
pub(super) fn tar_gz(
    archive: &Path,
    name: &str,
    sha256: &str,
    folder: &Path,
    into: &Path,
) -> Result<Unpacked, HubError> {
    let list = list_name(name);
    let damaged = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => HubError::Full(folder.to_owned()),
        _ => HubError::Archive {
            archive: archive.to_owned(),
            why: format!("the archive cannot be unpacked: {error}; it may have been published damaged"),
        },
    };
    let refused = |why: String| HubError::Archive { archive: archive.to_owned(), why };
    let file = File::open(archive).map_err(HubError::io(archive, "cannot be read"))?;
    let size = file.metadata().map_err(HubError::io(archive, "cannot be read"))?.len();
    let most = size.saturating_mul(LARGEST_RATIO).max(SMALL);
    let mut tar = tar::Archive::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 18, file)));
    let (mut files, mut bytes) = (Vec::new(), 0_u64);
    for entry in tar.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() || kind.is_dir() {
            // Folders are made with what is in them.
            continue;
        }
        let raw = entry.path_bytes().into_owned();
        let found =
            String::from_utf8(raw).map_err(|_| refused("a file name in it is not UTF-8".to_owned()))?;
        let plain = found.trim_start_matches("./");
        let leads_out = || HubError::Unsafe { origin: archive.display().to_string(), name: found.clone() };
        let path = below(plain).ok_or_else(leads_out)?;
        if !kind.is_file() && !kind.is_contiguous() && !kind.is_gnu_sparse() {
            return Err(refused(format!(
                "`{found}` in it is a link or device; only files are unpacked. Unpack the archive by hand if you \
                 trust it"
            )));
        }
        // What the Finder adds to archives is no part of the data.
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("._")) {
            continue;
        }
        let length = entry.size();
        bytes = bytes.saturating_add(length);
        if bytes > most {
            return Err(refused(format!(
                "it unpacks to more than {LARGEST_RATIO} times its size; look at it by hand"
            )));
        }
        let path = into.join(path);
        let target = folder.join(&path);
        if !inside(folder, &target)? {
            return Err(leads_out());
        }
        write_entry(&mut entry, &target, length, damaged)?;
        files.push((path.to_string_lossy().into_owned(), length));
    }
    if files.is_empty() {
        return Err(refused("the archive holds no file".to_owned()));
    }
    let unpacked = Unpacked { list: list.clone(), files: files.len() as u64, bytes };
    let text = serde_json::to_vec(&List { version: 1, sha256: sha256.to_owned(), files })
        .map_err(|error| HubError::Internal(error.to_string()))?;
    write_beside(&folder.join(list), &text)?;
    Ok(unpacked)
}

/// Makes the folder of a file and says whether it is really below the data folder: a link in it, of whoever made
/// it, may lead elsewhere.
fn inside(folder: &Path, target: &Path) -> Result<bool, HubError> {
    make_parent(target)?;
    let parent = target.parent().unwrap_or(folder);
    let real = |path: &Path| path.canonicalize().map_err(HubError::io(path, "cannot be read"));
    Ok(real(parent)?.starts_with(real(folder)?))
}

fn write_entry(
    entry: &mut impl io::Read,
    target: &Path,
    length: u64,
    damaged: impl Fn(io::Error) -> HubError,
) -> Result<(), HubError> {
    // Files are renamed into place whole, so one of this size is whole; but only the list says that it is of this
    // archive, and there was none.
    let beside = target.with_added_extension("incomplete");
    let mut file = File::create(&beside).map_err(HubError::io(&beside, "cannot be written"))?;
    let written = io::copy(&mut entry.take(length), &mut file).map_err(&damaged)?;
    if written != length {
        return Err(damaged(io::Error::from(io::ErrorKind::UnexpectedEof)));
    }
    file.flush()
        .and_then(|()| std::fs::rename(&beside, target))
        .map_err(HubError::io(target, "cannot be written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(dir: &Path, entries: &[(&str, tar::EntryType, &str)]) -> PathBuf {
        let path = dir.join("a.tar.gz");
        let gzip = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(gzip);
        for (name, kind, text) in entries {
            let mut header = tar::Header::new_gnu();
            // `set_path` itself refuses what is to be tested.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            let text = if *kind == tar::EntryType::Regular { text } else { "" };
            header.set_size(text.len() as u64);
            if *kind == tar::EntryType::Symlink {
                header.set_link_name("/etc").unwrap();
            }
            header.set_cksum();
            builder.append(&header, text.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        path
    }

    use tar::EntryType::{Directory, Regular, Symlink};

    #[test]
    fn files_are_unpacked_once_and_missed_when_gone() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let path = archive(
            dir.path(),
            &[("./eng/", Directory, ""), ("./eng/a.wav", Regular, "sound"), ("eng/._a.wav", Regular, "x")],
        );
        let unpacked = tar_gz(&path, "sub/a.tar.gz", "s", &data, Path::new("audio")).unwrap();
        assert_eq!((unpacked.files, unpacked.bytes), (1, 5));
        assert_eq!(std::fs::read(data.join("audio/eng/a.wav")).unwrap(), b"sound");
        assert!(!data.join("audio/eng/._a.wav").exists());
        assert!(is_there(&data, &unpacked, "s"));
        assert!(!is_there(&data, &unpacked, "t"), "another archive");
        std::fs::write(data.join("audio/eng/a.wav"), "soun").unwrap();
        assert!(!is_there(&data, &unpacked, "s"), "a file that was cut");
    }

    #[test]
    fn nothing_leaves_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let check = |entries: &[(&str, tar::EntryType, &str)], expected: &str| {
            let path = archive(dir.path(), entries);
            let error = tar_gz(&path, "a", "s", &data, Path::new("")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[("../x", Regular, "x")], "`../x`, which leads out");
        check(&[("/x", Regular, "x")], "`/x`, which leads out");
        check(&[("a/../../x", Regular, "x")], "leads out");
        check(&[("link", Symlink, "")], "is a link or device");
        check(&[("d/", Directory, "")], "holds no file");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(dir.path(), data.join("out")).unwrap();
            check(&[("out/x", Regular, "x")], "leads out");
        }
        assert!(!dir.path().join("x").exists());
        let path = archive(dir.path(), &[("a", Regular, "aaaa")]);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(tar_gz(&path, "a", "s", &data, Path::new("")).is_err());
        assert!(!data.join(".unpacked/a.json").exists());
    }
}
