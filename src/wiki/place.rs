//! Reading and writing numbers, and reading a file at a place, from many threads.

use std::fs::File;
use std::io;

/// Reads exactly `into.len()` bytes at a place. The file's own position is not used.
#[cfg(unix)]
pub(super) fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

/// Reads exactly `into.len()` bytes at a place.
#[cfg(windows)]
pub(super) fn read_at(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                into = into.get_mut(read..).unwrap_or_default();
                at += read as u64;
            }
        }
    }
    Ok(())
}

/// A part of a file. `length` must have been checked against the size of the file.
pub(super) fn part(file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    read_at(file, &mut bytes, at)?;
    Ok(bytes)
}

/// The little-endian number at a place; `None` beyond the end.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

/// The little-endian number at a place; `None` beyond the end.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
}

/// Writes a number in groups of seven bits, the lowest first.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes such a number off the front; `None` where there is none.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte < 0x80 {
            *bytes = bytes.get(at + 1..)?;
            return Some(number);
        }
    }
    None
}

/// The first eight bytes of the blake3 hash, as a number: what parts of our files are checked by.
pub(super) fn check(bytes: &[u8]) -> u64 {
    u64_at(blake3::hash(bytes).as_bytes(), 0).unwrap_or_default()
}

/// The eight bytes of the hash that follow those of [`check`].
pub(super) fn more_of_check(bytes: &[u8]) -> u64 {
    u64_at(blake3::hash(bytes).as_bytes(), 8).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut bytes = Vec::new();
            for number in &numbers {
                put_varint(&mut bytes, *number);
            }
            let mut rest = &bytes[..];
            for number in numbers {
                prop_assert_eq!(take_varint(&mut rest), Some(number));
            }
            prop_assert_eq!(take_varint(&mut rest), None);
        }

        #[test]
        fn damaged_numbers_do_not_panic(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take_varint(&mut rest).is_some() {}
        }
    }
}
