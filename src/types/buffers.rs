//! Buffers for whole files on their way to a server, used again and again: a new one of this size is pages of the
//! system that must be cleared first, and clearing them costs as much as sending them.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Smaller ones cost less than to look for one here.
const SMALLEST: usize = 64 << 10;
/// What is kept of buffers that nobody uses, together.
const MOST: usize = 32 << 20;

/// Buffers that nobody uses, and the bytes of all of them.
#[derive(Debug)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { buffers: Vec::new(), bytes: 0 });

/// An empty buffer with room for so many bytes; with none where there is no memory for them, so that whoever fills it is
/// told.
pub fn buffer(bytes: usize) -> Vec<u8> {
    take(&KEPT, bytes).unwrap_or_else(|| {
        let mut buffer = Vec::new();
        let _ = buffer.try_reserve_exact(bytes);
        buffer
    })
}

/// Shares what a buffer holds. When the last one is done with it, the buffer is kept for the next file.
pub fn share(buffer: Vec<u8>) -> Bytes {
    if buffer.capacity() < SMALLEST { Bytes::from(buffer) } else { Bytes::from_owner(Lent(buffer)) }
}

/// One that is large enough and not much too large, of those that came back last.
fn take(kept: &Mutex<Kept>, bytes: usize) -> Option<Vec<u8>> {
    if bytes < SMALLEST {
        return None;
    }
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |buffer: &Vec<u8>| (bytes..=bytes.saturating_mul(2)).contains(&buffer.capacity());
    let at = kept.buffers.iter().rposition(fits)?;
    let buffer = kept.buffers.swap_remove(at);
    kept.bytes -= buffer.capacity();
    Some(buffer)
}

/// Keeps a buffer, in place of the oldest ones where there is no room for it.
fn keep(kept: &Mutex<Kept>, mut buffer: Vec<u8>) {
    buffer.clear();
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.bytes += buffer.capacity();
    kept.buffers.push(buffer);
    let mut old = 0;
    while kept.bytes > MOST {
        let Some(buffer) = kept.buffers.get(old) else { break };
        (kept.bytes, old) = (kept.bytes - buffer.capacity(), old + 1);
    }
    kept.buffers.drain(..old);
}

/// A buffer that comes back.
struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        keep(&KEPT, std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Mutex<Kept> {
        Mutex::new(Kept { buffers: Vec::new(), bytes: 0 })
    }

    #[test]
    fn a_buffer_that_fits_is_used_again() {
        let kept = none();
        keep(&kept, vec![1; 100_000]);
        assert_eq!(take(&kept, 10), None, "small ones are not kept for");
        assert_eq!(take(&kept, 100_001), None, "too small");
        assert_eq!(take(&kept, 49_999), None, "too small to look for");
        let again = take(&kept, 80_000).unwrap();
        assert!(again.is_empty() && again.capacity() >= 100_000);
        assert_eq!(take(&kept, 80_000), None, "it is taken");
        assert_eq!(kept.lock().unwrap().bytes, 0);
        keep(&kept, vec![1; 1_000_000]);
        assert_eq!(take(&kept, 80_000), None, "much too large");
    }

    #[test]
    fn the_oldest_go_where_there_is_no_room() {
        let kept = none();
        keep(&kept, vec![1; MOST / 2]);
        keep(&kept, vec![2; MOST / 4]);
        keep(&kept, vec![3; MOST / 2]);
        let sizes: Vec<usize> = kept.lock().unwrap().buffers.iter().map(Vec::capacity).collect();
        assert_eq!(sizes, [MOST / 4, MOST / 2]);
        keep(&kept, vec![4; MOST + 1]);
        assert!(kept.lock().unwrap().buffers.is_empty());
        assert_eq!(kept.lock().unwrap().bytes, 0);
    }

    #[test]
    fn what_is_shared_is_what_the_buffer_held() {
        for length in [0, 10, SMALLEST - 1, SMALLEST, 3 * SMALLEST] {
            let mut made = buffer(length);
            made.extend((0..length).map(|at| at as u8));
            let expected = made.clone();
            let shared = share(made);
            let part = shared.slice(length / 2..);
            drop(shared.clone());
            assert_eq!(shared, expected);
            drop(shared);
            assert_eq!(part, &expected[length / 2..]);
        }
    }
}
