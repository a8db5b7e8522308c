//! Reading lines of a journal again, and telling the disk to keep what was written, without waiting for it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::thread::JoinHandle;

/// Bytes that are read at once where lines are wanted one after the other.
const AHEAD: u64 = 256 << 10;
/// Bytes before a line that are read with it: answers do not come in the order of the plan.
const BEHIND: u64 = 64 << 10;
/// A line that stands farther than this from the one before was not wanted after it.
const NEAR: u64 = 1 << 20;

/// Reads lines. Those that stand near each other are read together.
#[derive(Debug, Default)]
pub(super) struct Reader {
    start: u64,
    held: Vec<u8>,
    last: u64,
}

impl Reader {
    /// The `bytes` bytes at `offset` of a journal that ends at `end`.
    pub(super) fn read(&mut self, mut file: &File, offset: u64, bytes: usize, end: u64) -> io::Result<&[u8]> {
        let within = |start: u64, held: usize| {
            let first = usize::try_from(offset.checked_sub(start)?).ok()?;
            (first.checked_add(bytes)? <= held).then_some(first)
        };
        if within(self.start, self.held.len()).is_none() {
            let (start, length) = if offset.abs_diff(self.last) <= NEAR {
                let start = offset.saturating_sub(BEHIND);
                let wanted = (offset - start) + bytes as u64;
                (start, wanted.max(AHEAD).min(end.saturating_sub(start)).max(wanted))
            } else {
                (offset, bytes as u64)
            };
            self.held.clear();
            self.start = start;
            file.seek(SeekFrom::Start(start))?;
            file.take(length).read_to_end(&mut self.held)?;
        }
        self.last = offset;
        within(self.start, self.held.len())
            .and_then(|first| self.held.get(first..first + bytes))
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Tells the disk to keep a file, on a thread of its own: a disk may take a tenth of a second for it.
#[derive(Debug, Default)]
pub(super) struct Syncer(Option<JoinHandle<io::Result<()>>>);

impl Syncer {
    /// Begins, unless it is still at it. The error is that of the last time.
    pub(super) fn begin(&mut self, file: &File) -> io::Result<()> {
        if self.0.as_ref().is_some_and(|running| !running.is_finished()) {
            return Ok(());
        }
        self.end()?;
        let file = file.try_clone()?;
        let running = std::thread::Builder::new().name("sync".to_owned()).spawn(move || file.sync_data())?;
        self.0 = Some(running);
        Ok(())
    }

    /// Waits for what was begun.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.0.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => {
                Err(io::Error::other("the thread that tells the disk to keep the file has ended"))
            }
        }
    }
}
