//! Sets and tables by digest. A digest is a hash already: its first bytes will do.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use crate::types::Digest;

/// Takes the first eight bytes of a digest.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte));
    }

    // The length of a slice comes first; digests are all of one length.
    fn write_usize(&mut self, _: usize) {}
}

/// The hash of a digest.
pub fn first_bytes(digest: &Digest) -> u64 {
    let mut hasher = FirstBytes::default();
    hasher.write(&digest.0);
    hasher.finish()
}

/// A set of digests.
pub type DigestSet = HashSet<Digest, BuildHasherDefault<FirstBytes>>;
