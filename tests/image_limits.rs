//! Damaged images, within limits of memory and time that the system holds: this program starts itself again under
//! `ulimit`, since a process without `unsafe` code cannot limit itself.

#![expect(clippy::unwrap_used, reason = "a panic of a helper is the report of its test")]
#![expect(clippy::print_stdout, reason = "a skipped test says so, and the limited one what it did")]

mod common;

use std::hint::black_box;
use std::process::{Command, Output};

use bytes::Bytes;
use harness::media::image::{ImageFormat, ImageTransform, decode, fit};
use harness::model::PatchNeed;

/// Bytes of address space: what decoders may take (1 GiB), as much for the decoded image and its copies, and the program
/// itself.
const MEMORY: usize = 5 << 29;

/// Seconds of CPU time. Nothing here takes a tenth of them.
const SECONDS: u64 = 60;

/// Says that this process is one of those that are limited.
const LIMITED: &str = "HARNESS_TEST_LIMITED";

/// Damaged copies of each file.
const COPIES: usize = 5;

/// Runs an ignored test of this program in a process of its own, which may not take more than that.
fn limited(test: &str, seconds: u64) -> Output {
    let script = "ulimit -v \"$1\" || exit 90; ulimit -t \"$2\" || exit 91; shift 2; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", &(MEMORY / 1024).to_string(), &seconds.to_string()]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(LIMITED, "1").output().unwrap()
}

/// Whether such processes can be had here.
fn has_limits() -> bool {
    if cfg!(target_os = "linux") {
        return true;
    }
    println!("skipped: only Linux holds a process to the limits of `ulimit -v`");
    false
}

#[test]
fn damaged_images_take_bounded_memory_and_time() {
    if !has_limits() {
        return;
    }
    let done = limited("limited_images", SECONDS);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{:?}\n{out}\n{err}", done.status);
    assert!(out.contains("1 passed") && out.contains("damaged images"), "{out}\n{err}");
}

#[test]
fn a_process_that_takes_longer_than_its_limit_is_ended() {
    if !has_limits() {
        return;
    }
    let done = limited("limited_endless", 1);
    assert_eq!(done.status.code(), None, "{:?}: it was to end by a signal", done.status);
}

#[test]
#[ignore = "is started by another test, in a process of limited time"]
fn limited_endless() {
    if std::env::var_os(LIMITED).is_none() {
        println!("skipped: it never ends in a process without a limit");
        return;
    }
    loop {
        let _ = black_box(0);
    }
}

#[test]
#[ignore = "is started by another test, in a process of limited memory and time"]
fn limited_images() {
    if std::env::var_os(LIMITED).is_none() {
        println!("skipped: this process has no limit");
        return;
    }
    let mut more = Vec::<u8>::new();
    assert!(black_box(&mut more).try_reserve_exact(MEMORY).is_err(), "the limit of memory is not in force");
    drop(more);
    let files = files();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut count, mut made, mut refused) = (0, 0, 0);
    let mut look = |bytes: Vec<u8>, what: &str| {
        count += 1;
        for outcome in outcomes(&bytes.into()) {
            match outcome {
                Ok(()) => made += 1,
                Err(sentence) => {
                    refused += 1;
                    assert!(!sentence.is_empty() && !sentence.contains('\n'), "{what}: {sentence}");
                }
            }
        }
    };
    for (name, whole) in &files {
        for copy in 0..COPIES {
            look(damaged(whole.clone(), &mut random), &format!("{name}, copy {copy}"));
        }
    }
    // Headers that declare as much as is decoded, or as can be decoded in a short time, and nothing behind them.
    for (name, width, height) in [
        ("png-rgba-16.png", 9000, 9900),
        ("bmp-24.bmp", 9000, 9900),
        ("jpeg-444.jpg", 3000, 2000),
        ("jpeg-progressive.jpg", 3000, 2000),
        ("gif.gif", 8000, 2000),
    ] {
        let (_, whole) = files.iter().find(|(file, _)| file == name).unwrap();
        look(declaring(name, whole.clone(), width, height), name);
    }
    println!("{count} damaged images: {made} taken, {refused} refused");
    assert!(count > 500 && made > 100 && refused > 100);
}

/// All odd files of the fixtures, by name.
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = common::root().join("tests/fixtures/images/odd");
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = entries.map(read).collect();
    files.sort();
    files
}

/// What becomes of a file in each way that it can take.
fn outcomes(bytes: &Bytes) -> Vec<Result<(), String>> {
    let as_it_is = ImageTransform::default();
    let png = ImageTransform { format: ImageFormat::Png, orient: true, first_frame: true, ..as_it_is };
    let small = ImageTransform { max_side: Some(9), flatten: true, ..png };
    let need = PatchNeed { patch: 14, merge: 2, min_pixels: 3136, max_pixels: 100_000 };
    let mut outcomes: Vec<_> = [as_it_is, png, small]
        .iter()
        .map(|transform| transform.carry_out(bytes).map(drop).map_err(|error| error.to_string()))
        .collect();
    outcomes.push(fit(bytes, &need, &as_it_is).map(drop).map_err(|error| error.to_string()));
    outcomes.push(decode(bytes).map(drop).map_err(|error| error.to_string()));
    outcomes
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as usize % end.max(1)
    }
}

/// A file with one to four faults: bytes changed, bits turned, the end cut off, a piece taken out or put in.
fn damaged(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..=random.below(4) {
        // Every other fault is in the first bytes, where the headers are.
        let reach = if random.below(2) == 0 { bytes.len().min(64) } else { bytes.len() };
        let (at, value) = (random.below(reach), random.below(256) as u8);
        match random.below(6) {
            0 | 1 => bytes.get_mut(at).into_iter().for_each(|byte| *byte = value),
            2 => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << (value % 8)),
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
            _ => bytes.insert(at.min(bytes.len()), value),
        }
    }
    bytes
}

/// A file whose header declares another size.
fn declaring(name: &str, mut bytes: Vec<u8>, width: u16, height: u16) -> Vec<u8> {
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let (wide, high) = (u32::from(width), u32::from(height));
    match name.rsplit_once('.').unwrap().1 {
        "png" => {
            put(16, &wide.to_be_bytes());
            put(20, &high.to_be_bytes());
            let sum = crc32(&bytes[12..29]);
            bytes[29..33].copy_from_slice(&sum.to_be_bytes());
        }
        "bmp" => {
            put(18, &wide.to_le_bytes());
            put(22, &high.to_le_bytes());
        }
        "gif" => {
            put(6, &width.to_le_bytes());
            put(8, &height.to_le_bytes());
        }
        "jpg" => {
            let progressive = name.contains("progressive");
            let frame = if progressive { [0xff, 0xc2] } else { [0xff, 0xc0] };
            let at = bytes.windows(2).position(|pair| pair == frame).unwrap();
            bytes[at + 5..at + 7].copy_from_slice(&height.to_be_bytes());
            bytes[at + 7..at + 9].copy_from_slice(&width.to_be_bytes());
        }
        other => panic!("no size is put into {other}"),
    }
    bytes
}

/// The checksum of PNG.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |sum: u32| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| bit(sum)))
}
