//! Reading a journal from end to end, in blocks on all processors: a run of a million responses goes on in
//! seconds. It must not know what the texts in a journal mean.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use super::journal::{JournalError, check_header, header_line};
use super::journal_index::{Entry, Index, Line};
use crate::media::FileFacts;

/// Bytes of the blocks that are read at once. A line belongs to the block that it begins in.
const BLOCK: u64 = 1 << 20;
/// What is read on where a block's last line goes on behind it.
const MORE: u64 = 64 << 10;
/// Answers that are kept of the question whether media are as they were: responses on a clip stand near each
/// other.
const KEPT: usize = 4096;

/// Tells whether a clip or image is as it was when a response was made: the label of the benchmark section, the
/// name, and the file's size and time of change then.
pub type Unchanged<'a> = &'a (dyn Fn(&str, &str, FileFacts) -> bool + Sync);

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The end of the last whole line.
    pub(super) end: u64,
    pub(super) index: Index,
    /// Numbers of lines that are no responses.
    pub(super) damaged: Vec<u64>,
    /// Whether the last line has no end.
    pub(super) torn: bool,
}

/// What was read of one block.
#[derive(Default)]
struct Part {
    entries: Vec<Entry>,
    lines: u64,
    /// Numbers within the block, from 0.
    damaged: Vec<u64>,
    /// Where the line stands that has no end.
    torn: Option<u64>,
}

/// Reads a journal. Files that are none are refused.
pub(super) fn scan(path: &Path, file: &File, unchanged: Unchanged<'_>) -> Result<Scan, JournalError> {
    let io = |source| JournalError::Io { path: path.to_owned(), source };
    let length = file.metadata().map_err(io)?.len();
    let mut first = Vec::new();
    BufReader::new(file).read_until(b'\n', &mut first).map_err(io)?;
    if first.last() != Some(&b'\n') {
        if !header_line().starts_with(&first) {
            return Err(JournalError::Header(path.to_owned()));
        }
        return Ok(Scan { torn: !first.is_empty(), ..Scan::default() });
    }
    check_header(path, &first)?;
    let body = first.len() as u64;
    let blocks = Blocks { path, body, length, size: BLOCK, unchanged };
    blocks.scan().map_err(io)
}

/// The part of a journal behind its header.
struct Blocks<'a> {
    path: &'a Path,
    body: u64,
    length: u64,
    /// Of a block.
    size: u64,
    unchanged: Unchanged<'a>,
}

impl Blocks<'_> {
    fn scan(&self) -> io::Result<Scan> {
        let mut scan = Scan { end: self.length.max(self.body), ..Scan::default() };
        let count = self.length.saturating_sub(self.body).div_ceil(self.size);
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        // Lines are numbered from 1, and the header is the first.
        let mut number = 2;
        let mut add = |part: Part| {
            scan.index.reserve(part.entries.len() * usize::try_from(count).unwrap_or(1));
            part.entries.into_iter().for_each(|entry| scan.index.insert(entry));
            scan.damaged.extend(part.damaged.iter().map(|line| number + line));
            number += part.lines;
            if let Some(at) = part.torn {
                (scan.end, scan.torn) = (at, true);
            }
        };
        if count <= 1 || processors == 1 {
            let mut reader = Reader::open(self)?;
            (0..count).try_for_each(|block| reader.read(block).map(&mut add))?;
            return Ok(scan);
        }
        let next = AtomicU64::new(0);
        let (parts_in, parts) = mpsc::sync_channel(2 * processors);
        std::thread::scope(|scope| -> io::Result<()> {
            for _ in 0..processors {
                let (parts_in, next) = (parts_in.clone(), &next);
                scope.spawn(move || {
                    let mut reader = match Reader::open(self) {
                        Ok(reader) => reader,
                        Err(e) => return drop(parts_in.send((0, Err(e)))),
                    };
                    loop {
                        let block = next.fetch_add(1, Ordering::Relaxed);
                        // Nobody listens any more after an error.
                        if block >= count || parts_in.send((block, reader.read(block))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(parts_in);
            // Later lines replace earlier ones, so blocks are taken in order.
            let (mut early, mut wanted) = (BTreeMap::new(), 0);
            for (block, part) in parts {
                early.insert(block, part?);
                while let Some(part) = early.remove(&wanted) {
                    add(part);
                    wanted += 1;
                }
            }
            Ok(())
        })?;
        Ok(scan)
    }
}

/// Reads blocks. Each thread has its own.
struct Reader<'a> {
    blocks: &'a Blocks<'a>,
    file: File,
    held: Vec<u8>,
    /// By the mark of its media, whether a response's media are as they were.
    known: HashMap<u64, bool>,
}

impl<'a> Reader<'a> {
    fn open(blocks: &'a Blocks<'a>) -> io::Result<Self> {
        Ok(Self { blocks, file: File::open(blocks.path)?, held: Vec::new(), known: HashMap::new() })
    }

    fn read(&mut self, block: u64) -> io::Result<Part> {
        let Blocks { body, length, size, .. } = *self.blocks;
        let begin = body + block * size;
        let stop = (begin + size).min(length);
        // The byte before the block tells whether a line begins with it: the end of the header, for the first.
        let from = begin - 1;
        self.file.seek(SeekFrom::Start(from))?;
        self.held.clear();
        self.read_on(stop - from)?;
        let mut part = Part::default();
        let Some(before) = memchr::memchr(b'\n', self.held.get(..self.held.len() - 1).unwrap_or_default())
        else {
            return Ok(part);
        };
        let mut at = before + 1;
        while from + (at as u64) < stop {
            let mut searched = at;
            let end = loop {
                let unsearched = self.held.get(searched..).unwrap_or_default();
                if let Some(found) = memchr::memchr(b'\n', unsearched) {
                    break Some(searched + found);
                }
                searched = self.held.len();
                let left = length.saturating_sub(from + searched as u64);
                if left == 0 {
                    break None;
                }
                self.read_on(left.min(MORE))?;
            };
            let Some(end) = end else {
                part.torn = Some(from + at as u64);
                break;
            };
            self.line(at, end, from, &mut part)?;
            part.lines += 1;
            at = end + 1;
        }
        Ok(part)
    }

    /// Reads more into what is held.
    fn read_on(&mut self, bytes: u64) -> io::Result<()> {
        let read = (&mut self.file).take(bytes).read_to_end(&mut self.held)?;
        if (read as u64) < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn line(&mut self, at: usize, end: usize, from: u64, part: &mut Part) -> io::Result<()> {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(self.held.get(at..end).unwrap_or_default()) else {
            part.damaged.push(part.lines);
            return Ok(());
        };
        let unchanged = self.blocks.unchanged;
        let as_it_was = line.media.is_empty() || {
            if self.known.len() >= KEPT {
                self.known.clear();
            }
            *self.known.entry(line.mark()).or_insert_with(|| {
                line.media.iter().all(|media| {
                    let then = FileFacts { bytes: media.bytes, modified: media.modified };
                    unchanged(&line.benchmark, &media.name, then)
                })
            })
        };
        let bytes = u32::try_from(end + 1 - at).map_err(io::Error::other)?;
        part.entries.push(Entry::new(&line, from + at as u64, bytes, as_it_was));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Digest, Outcome};

    fn line(number: u64, request: u64, outcome: &str) -> String {
        let digest = |text: String| Digest::of(text.as_bytes());
        let name = "x".repeat((number % 7) as usize);
        format!(
            r#"{{"key":"{}","request":"{}","benchmark":"b","sample":"s","outcome":"{outcome}","text":"{name}","usage":{{"prompt_tokens":1,"audio_tokens":0,"completion_tokens":{number}}},"media":[{{"name":"{name}.wav","digest":"","bytes":{number},"modified":null}}]}}"#,
            digest(format!("k{number}")),
            digest(format!("r{request}"))
        )
    }

    type State = (u64, u32, Outcome, bool);

    /// What is known of each request when the file is cut into blocks of a size.
    fn read(path: &Path, size: u64) -> (Scan, Vec<Option<State>>) {
        let length = std::fs::metadata(path).unwrap().len();
        let body = header_line().len() as u64 + 1;
        let unchanged: Unchanged<'_> = &|label, name, then| label == "b" && name.len() > 5 && then.bytes != 3;
        let scan = Blocks { path, body, length, size, unchanged }.scan().unwrap();
        let places = (0..12)
            .map(|request| {
                let place = scan.index.request(&Digest::of(format!("r{request}").as_bytes()))?;
                Some((place.offset, place.bytes, place.outcome, place.as_it_was))
            })
            .collect();
        (scan, places)
    }

    #[test]
    fn blocks_of_any_size_give_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let mut content = String::from_utf8(header_line()).unwrap() + "\n";
        for number in 0..40 {
            let outcome = ["ok", "request_error", "empty"][number as usize % 3];
            content += &(line(number, number % 11, outcome) + "\n");
            if number % 10 == 9 {
                content += "damaged\n\n";
            }
        }
        content += r#"{"key":"torn"#;
        std::fs::write(&path, &content).unwrap();
        let (whole, places) = read(&path, 1 << 20);
        assert_eq!(whole.damaged, [12, 13, 24, 25, 36, 37, 48, 49]);
        assert!(whole.torn && content[whole.end as usize..].starts_with(r#"{"key":"torn"#));
        assert_eq!(whole.index.requests(), 11);
        assert_eq!(places.iter().flatten().filter(|place| place.3).count(), 8);
        for size in [1, 2, 7, 100, 333, 334, 1000, 4096] {
            let (scan, again) = read(&path, size);
            assert_eq!((scan.end, scan.torn, &scan.damaged), (whole.end, true, &whole.damaged), "{size}");
            assert_eq!(again, places, "{size}");
            assert_eq!(scan.index.spent(), whole.index.spent(), "{size}");
        }
    }
}
