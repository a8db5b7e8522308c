//! Tests of the preparation of clips and images for endpoints.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::*;
use crate::media::{RawSamples, ReadError, ReadMedia, SampleValues};

fn limits(formats: &[&str], max_seconds: f64) -> MediaLimits {
    let formats = formats.iter().map(|&name| name.to_owned()).collect();
    MediaLimits {
        audio: AudioNeed::File { formats, max_bytes: 100_000 },
        max_seconds,
        images: ImageNeed::File,
    }
}

struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// A ramp of 8 kHz stereo.
    fn wav(&self, name: &str, frames: u32) -> PathBuf {
        let path = self.dir.path().join(name);
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: 8000,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut writer = hound::WavWriter::create(&path, spec).unwrap();
        for frame in 0..frames {
            writer.write_sample((frame % 1000) as i16).unwrap();
            writer.write_sample((frame % 1000) as i16).unwrap();
        }
        writer.finalize().unwrap();
        path
    }
}

fn ask(
    limits: &MediaLimits,
    transcode: Transcode,
    path: &Path,
    window: Window,
) -> Result<Arc<Ready>, String> {
    let preparer = Preparer::new(limits, transcode).unwrap();
    let audio = AudioRef { name: String::new(), window };
    preparer.audio(&path.into(), &audio).map_err(|error| error.to_string())
}

fn sent(ready: &Ready) -> &AudioFile {
    match &ready.audio.content {
        AudioContent::File(file) => file,
        AudioContent::Features(_) | AudioContent::Windows(_) => panic!("features"),
    }
}

#[test]
fn a_format_that_is_taken_goes_untouched() {
    let case = Case::new();
    let path = case.wav("a.flac", 8000);
    let bytes = std::fs::read(&path).unwrap();
    let ready =
        ask(&limits(&["wav"], 30.0), Transcode::Wav { rate: Some(16_000) }, &path, Window::Whole).unwrap();
    assert_eq!(sent(&ready).bytes, bytes);
    assert_eq!((sent(&ready).format.as_str(), sent(&ready).seconds), ("wav", 1.0));
    assert_eq!(ready.audio.digest, Digest::of(&bytes));
    assert_eq!((ready.record.source.channels, ready.record.source.frames), (2, 8000));
    assert!(ready.record.steps.is_empty());
    // A window that holds the whole clip changes nothing.
    let again = ask(&limits(&["wav"], 1.0), Transcode::Never, &path, Window::Last).unwrap();
    assert_eq!(sent(&again).bytes, bytes);
    // Formats that are not decoded go too, where any length will do.
    let m4a = case.put("b", b"\0\0\0\x20ftypM4A ................");
    let ready = ask(&limits(&["mp4"], 86_400.0), Transcode::Never, &m4a, Window::Whole).unwrap();
    assert_eq!((sent(&ready).format.as_str(), sent(&ready).seconds), ("mp4", 0.0));
    assert_eq!((ready.record.source.format.as_str(), ready.record.source.rate), ("m4a", 0));
    for (bytes, format) in [
        (&b"ID3\x04\0\0\0\0\0\x02ab\xff\xfb"[..], "mp3"),
        (b"\xff\xfb\x90\x64", "mp3"),
        (b"OggS\0\x02OpusHead", "ogg"),
        (b"\x1a\x45\xdf\xa3", "webm"),
    ] {
        let path = case.put("c.wav", bytes);
        let ready = ask(&limits(&[format], 86_400.0), Transcode::Never, &path, Window::Whole).unwrap();
        assert_eq!((sent(&ready).format.as_str(), &sent(&ready).bytes[..]), (format, bytes));
    }
}

#[test]
fn what_is_not_taken_is_made_a_wav_where_that_is_allowed() {
    let case = Case::new();
    let path = case.wav("a.wav", 16_000);
    let wav = Transcode::Wav { rate: None };
    let first = ask(&limits(&["wav"], 1.0), wav, &path, Window::First).unwrap();
    assert_eq!(first.record.steps, ["downmix", "window:first", "encode:wav16"]);
    assert_eq!((first.record.rate, first.record.samples, sent(&first).seconds), (8000, 8000, 1.0));
    assert_eq!(first.audio.digest, Digest::of(&sent(&first).bytes));
    let mut reader = hound::WavReader::new(std::io::Cursor::new(sent(&first).bytes.to_vec())).unwrap();
    let expected: Vec<i16> = (0..8000).map(|frame| (frame % 1000) as i16).collect();
    assert_eq!(reader.samples::<i16>().map(Result::unwrap).collect::<Vec<_>>(), expected);

    let at_16k = Transcode::Wav { rate: Some(16_000) };
    let last = ask(&limits(&["wav"], 0.5), at_16k, &path, Window::Last).unwrap();
    assert_eq!(last.record.steps, ["downmix", "resample:soxr_hq", "window:last", "encode:wav16"]);
    assert_eq!((last.record.rate, last.record.samples), (16_000, 8000));

    // Too many bytes as it is, and few enough as mono.
    let large = case.wav("large.wav", 30_000);
    let small = ask(&limits(&["wav"], 30.0), wav, &large, Window::Whole).unwrap();
    assert_eq!(small.record.steps, ["downmix", "encode:wav16"]);
}

#[test]
fn what_cannot_go_is_refused_with_the_key_to_set() {
    let case = Case::new();
    let check = |formats: &[&str], seconds: f64, transcode, path: &Path, window, expected: &str| {
        let error = ask(&limits(formats, seconds), transcode, path, window).unwrap_err();
        assert!(error.starts_with(&path.display().to_string()) && error.contains(expected), "{error}");
    };
    let wav = case.wav("a.wav", 16_000);
    let large = case.wav("large.wav", 60_000);
    let mp3 = case.put("b.mp3", b"\xff\xfb\x90\x64");
    let page = case.put("c.wav", b"<html>");
    let (never, to_wav) = (Transcode::Never, Transcode::Wav { rate: None });
    let whole = Window::Whole;
    check(&["mp3"], 9.0, never, &wav, whole, "is wav, and the endpoint takes mp3: set `transcode = \"wav\"`");
    check(&["mp3"], 9.0, to_wav, &wav, whole, "does not take WAV either");
    check(&["wav"], 9.0, to_wav, &mp3, whole, "is mp3, and the endpoint takes wav, and only WAV and FLAC");
    check(
        &["mp3"],
        9.0,
        never,
        &mp3,
        whole,
        "how long it is cannot be read from mp3, and clips may have at most 9 s",
    );
    check(&["mp3"], 9.0, to_wav, &mp3, Window::First, "is to be cut to its first 9 s");
    check(&["wav"], 1.0, never, &wav, Window::First, "which changes the file: set `transcode = \"wav\"`");
    check(&["wav"], 1.0, to_wav, &wav, whole, "is 2.0 s long, the model takes 1.0 s: set `window");
    check(
        &["wav"],
        9.0,
        never,
        &large,
        whole,
        "has 240044 bytes, and the endpoint takes 100000: set `transcode",
    );
    check(&["wav"], 9.0, to_wav, &large, whole, "has 120044 bytes as 16-bit WAV of 8000 Hz");
    check(&["wav"], 9.0, to_wav, &page, whole, "is a web page (HTML)");
    check(&["wav"], 9.0, to_wav, &case.dir.path().join("none"), whole, "cannot be read");
    let cut = case.put("cut.wav", &std::fs::read(&wav).unwrap()[..1000]);
    check(&["wav"], 9.0, never, &cut, whole, "is cut short");
}

#[test]
fn a_clip_is_read_once_and_images_are_sniffed() {
    let case = Case::new();
    let preparer = Preparer::new(&limits(&["wav"], 9.0), Transcode::Never).unwrap();
    let file = case.wav("a.wav", 100);
    let path = MediaSource::from(&*file);
    let audio = AudioRef { name: String::new(), window: Window::Whole };
    assert!(preparer.hot_audio(&path, &audio).is_none());
    let first = preparer.audio(&path, &audio).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(Arc::ptr_eq(&first, &preparer.audio(&path, &audio).unwrap()));
    assert!(Arc::ptr_eq(&first, &preparer.hot_audio(&path, &audio).unwrap().unwrap()));

    // Whole in its header, and no more than that: what is behind is not looked at.
    let content = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0j\0\0\0\x38\x08\x02\0\0\0\x9a\x05\xfa\x3c";
    let png = case.put("x.jpg", content);
    let ready = preparer.image(&png.as_path().into()).unwrap();
    let sent = ready.sent().unwrap();
    assert_eq!((sent.format.as_str(), sent.bytes, ready.file.bytes), ("png", 33, 33));
    assert_eq!(ready.image.digest, Digest::of(content));
    assert_eq!((ready.record.width, ready.record.height, ready.record.steps.len()), (106, 56, 0));
    let cut = case.put("cut.png", &content[..32]);
    let error = preparer.image(&cut.as_path().into()).unwrap_err().to_string();
    let reason =
        "is a png image whose header is damaged or cut short: get the file again, or leave its row out";
    assert_eq!(error, format!("{}: {reason}", cut.display()));
    let empty = case.put("empty.gif", b"GIF89a\0\0\x38\0\0\0\0");
    assert!(preparer.image(&empty.into()).unwrap_err().to_string().contains("declares 0 x 56 pixels"));
    let tiff = case.put("x.tif", b"II*\0");
    assert!(preparer.image(&tiff.into()).unwrap_err().to_string().contains("is a TIFF image"));
    let blind = MediaLimits { images: ImageNeed::None, ..limits(&["wav"], 9.0) };
    let blind = Preparer::new(&blind, Transcode::Never).unwrap();
    assert!(matches!(blind.image(&png.into()), Err(MediaError::NotSeen)));
}

/// Stands for a dataset's file that holds a WAV file and samples without a container.
struct Inside(Bytes);

impl ReadMedia for Inside {
    fn read_media(&self, name: &str) -> Result<MediaContent, ReadError> {
        match name {
            "d.parquet#0.audio" => Ok(MediaContent::File(self.0.clone())),
            "d.parquet#1.wav" => {
                let values = SampleValues::F32(vec![0.5; 8000]);
                Ok(MediaContent::Samples(RawSamples { rate: 8000, values }))
            }
            _ => Err("row 2 holds no clip".into()),
        }
    }
}

#[test]
fn media_inside_a_file_are_prepared_like_files_and_have_the_facts_of_that_file() {
    let case = Case::new();
    let wav = case.wav("a.wav", 16_000);
    let container = case.put("d.parquet", b"PAR1");
    let reader: Arc<dyn ReadMedia> = Arc::new(Inside(std::fs::read(&wav).unwrap().into()));
    let source = |name: &str| MediaSource::embedded(container.as_path().into(), name, Arc::clone(&reader));
    let audio = AudioRef { name: String::new(), window: Window::First };
    let preparer = Preparer::new(&limits(&["wav"], 1.0), Transcode::Wav { rate: None }).unwrap();
    let inside = preparer.audio(&source("d.parquet#0.audio"), &audio).unwrap();
    let beside = preparer.audio(&wav.as_path().into(), &audio).unwrap();
    assert_eq!((&inside.record, inside.audio.digest), (&beside.record, beside.audio.digest));
    assert_eq!(inside.file, FileFacts::of(&container).unwrap());

    // Samples without a container become 16-bit WAV even where nothing may be transcoded.
    let preparer = Preparer::new(&limits(&["wav"], 1.0), Transcode::Never).unwrap();
    let samples = preparer.audio(&source("d.parquet#1.wav"), &audio).unwrap();
    assert_eq!(samples.record.steps, ["encode:wav16"]);
    assert_eq!(sent(&samples).bytes.len(), 44 + 16_000);
    let error = preparer.audio(&source("d.parquet#2.audio"), &audio).unwrap_err().to_string();
    assert_eq!(error, format!("{}#2.audio: row 2 holds no clip", container.display()));
}

#[test]
fn a_recogniser_gets_the_whole_clip_in_windows() {
    let case = Case::new();
    let limits = |max_seconds| MediaLimits {
        audio: AudioNeed::LogMelWindows { bins: 80 },
        max_seconds,
        images: ImageNeed::None,
    };
    for (seconds, windows) in [(1, 1), (30, 1), (31, 2), (70, 3)] {
        let path = case.wav("a.wav", seconds * 8000);
        let ready = ask(&limits(100.0), Transcode::Never, &path, Window::Whole).unwrap();
        let features = ready.audio.windows().unwrap();
        assert_eq!(features.len(), windows);
        let frames: usize = features.iter().map(|window| window.valid_frames).sum();
        assert!(frames.abs_diff(seconds as usize * 100) < windows, "{seconds} s: {frames}");
        let step = (windows > 1).then(|| format!("windows:{windows}"));
        assert_eq!(ready.record.steps.last() == step.as_ref(), windows > 1, "{:?}", ready.record.steps);
        assert!(ready.audio.features().is_none() && ready.weight() == windows * 80 * 3000 * 4);
    }
    let path = case.wav("a.wav", 31 * 8000);
    assert!(ask(&limits(30.0), Transcode::Never, &path, Window::Whole).is_err());
    assert_eq!(
        ask(&limits(30.0), Transcode::Never, &path, Window::First).unwrap().audio.windows().unwrap().len(),
        1
    );
}
