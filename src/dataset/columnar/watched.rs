//! A file that notes whether the system failed to read it: the Parquet library hands that on as a sentence among others,
//! and what may pass must be told from what is wrong with the file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

use crate::media::{Cause, ReadError};

/// Bytes of memory that are taken before they are read.
const MOST_AT_ONCE: usize = 64 << 20;

/// Whether the system failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Failed(Arc<AtomicBool>);

impl Failed {
    fn note(&self, error: &io::Error) {
        // A file that ends too early is a bad file, and a call that was interrupted is made again.
        if ReadError::system(error).cause == Cause::System && error.kind() != io::ErrorKind::Interrupted {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// An error of the decoder: the system's fault where that failed, else the content's.
    pub(super) fn or_content(&self, sentence: String) -> ReadError {
        let system = self.0.swap(false, Ordering::Relaxed);
        ReadError::new(if system { Cause::System } else { Cause::Content }, sentence)
    }
}

/// A file that is read through this.
pub(super) struct Watched {
    file: File,
    failed: Failed,
}

impl Watched {
    /// A file, and what tells whether it could be read.
    pub(super) fn new(file: File) -> (Self, Failed) {
        let failed = Failed::default();
        (Self { file, failed: failed.clone() }, failed)
    }

    fn at(&self, start: u64) -> Result<Noting<File>> {
        let place = self.file.try_clone().and_then(|mut file| {
            file.seek(SeekFrom::Start(start))?;
            Ok(file)
        });
        let file = place.inspect_err(|error| self.failed.note(error))?;
        Ok(Noting { reader: file, failed: self.failed.clone() })
    }
}

impl Length for Watched {
    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len())
    }
}

impl ChunkReader for Watched {
    type T = BufReader<Noting<File>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.at(start).map(BufReader::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // A damaged file may declare any length.
        let mut bytes = Vec::with_capacity(length.min(MOST_AT_ONCE));
        self.at(start)?.take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            let sentence = format!("the file ends within {length} bytes at {start}");
            return Err(parquet::errors::ParquetError::EOF(sentence));
        }
        Ok(bytes.into())
    }
}

/// Notes what the system says.
pub(super) struct Noting<R> {
    reader: R,
    failed: Failed,
}

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into).inspect_err(|error| self.failed.note(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
    }

    #[test]
    fn what_the_system_does_not_give_is_told_from_what_a_file_lacks() {
        let cause = |kind: io::ErrorKind| {
            let failed = Failed::default();
            let mut reader = Noting { reader: Broken(kind), failed: failed.clone() };
            assert!(reader.read(&mut [0; 4]).is_err());
            failed.or_content("x".to_owned()).cause
        };
        assert_eq!(cause(io::ErrorKind::TimedOut), Cause::System);
        assert_eq!(cause(io::ErrorKind::PermissionDenied), Cause::System);
        assert_eq!(cause(io::ErrorKind::UnexpectedEof), Cause::Content);
        assert_eq!(cause(io::ErrorKind::Interrupted), Cause::Content);
        // Told once: the next error is another.
        let failed = Failed::default();
        failed.note(&io::ErrorKind::TimedOut.into());
        assert_eq!(failed.or_content("x".to_owned()).cause, Cause::System);
        assert_eq!(failed.or_content("y".to_owned()).cause, Cause::Content);
    }

    #[test]
    fn a_file_that_ends_is_a_bad_file() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"0123456789").unwrap();
        let (file, failed) = Watched::new(file);
        assert_eq!((file.len(), &file.get_bytes(2, 3).unwrap()[..]), (10, &b"234"[..]));
        let mut rest = Vec::new();
        file.get_read(7).unwrap().read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"789");
        let error = file.get_bytes(8, 3).unwrap_err().to_string();
        assert_eq!(failed.or_content(error).cause, Cause::Content);
    }
}
