//! Decoding against the fixtures, and what holds for every file: windows, records, digests.

mod flac;
mod mutations;
mod wav;

use std::sync::atomic::{AtomicU64, Ordering};

use super::fixtures::flac_writer::{Options, Predictor, body, checksums, encode, header, seal};
use super::fixtures::wav_of;
use super::*;

const RATE: u32 = 16_000;

fn spec(window: Window, max_seconds: f64) -> DecodeSpec {
    DecodeSpec { rate: RATE, window, max_seconds }
}

fn path(name: &str) -> std::path::PathBuf {
    fixtures::path(&format!("audio/{name}"))
}

fn whole(name: &str) -> Clip {
    decode_file(&path(name), &spec(Window::Whole, 60.0)).unwrap()
}

#[test]
fn files_are_read_as_soundfile_reads_them() {
    let json = fixtures::json("audio/audio.json");
    for (name, entry) in json.as_object().unwrap() {
        let rate = entry["rate"].as_u64().unwrap() as u32;
        let clip =
            decode_file(&path(name), &DecodeSpec { rate, ..spec(Window::Whole, f64::INFINITY) }).unwrap();
        let source = probe_file(&path(name)).unwrap();
        assert_eq!(source, clip.record.source);
        assert_eq!(source.rate, rate);
        assert_eq!(source.frames, entry["frames"].as_u64().unwrap());
        assert_eq!(u64::from(source.channels), entry["channels"].as_u64().unwrap());
        assert_eq!(source.bits, if entry["subtype"] == "FLOAT" { 32 } else { 16 });
        assert_eq!(Some(source.format.as_str()), name.rsplit('.').next());
        assert_eq!(clip.samples.len() as u64, source.frames);
        assert_eq!(clip.digest, Digest::of(&std::fs::read(path(name)).unwrap()));
        if source.channels > 1 {
            continue;
        }
        let sum: f64 = clip.samples.iter().map(|sample| f64::from(*sample)).sum();
        let squares: f64 = clip.samples.iter().map(|sample| f64::from(*sample).powi(2)).sum();
        assert!((sum - entry["sum_ch0"].as_f64().unwrap()).abs() < 1e-9, "{name}");
        assert!((squares - entry["sumsq_ch0"].as_f64().unwrap()).abs() < 1e-9, "{name}");
        for (ours, theirs) in clip.samples.iter().zip(entry["first16_ch0"].as_array().unwrap()) {
            assert!((f64::from(*ours) - theirs.as_f64().unwrap()).abs() < 1e-6, "{name}");
        }
    }
}

/// Signal over difference in dB, without the first and last 400 samples.
fn snr(ours: &[f32], theirs: &[f32]) -> f64 {
    let inner = 400..ours.len() - 400;
    let pairs = ours[inner.clone()].iter().zip(&theirs[inner]);
    let (signal, noise) = pairs.fold((0.0, 0.0), |(signal, noise), (ours, theirs)| {
        let (ours, theirs) = (f64::from(*ours), f64::from(*theirs));
        (signal + theirs * theirs, noise + (ours - theirs).powi(2))
    });
    10.0 * (signal / noise).log10()
}

#[test]
fn resampling_agrees_with_soxr() {
    let mut waves = 0;
    for (key, (_, theirs)) in fixtures::arrays("mel.safetensors") {
        if let Some(name) = key.strip_suffix("/wave16k") {
            let ours = whole(name);
            assert_eq!(ours.samples.len(), theirs.len());
            let snr = snr(&ours.samples, &theirs);
            println!("{name}: {snr:.1} dB");
            assert!(snr > 80.0, "{name}: {snr} dB");
            waves += 1;
        }
    }
    assert_eq!(waves, 3);
}

#[test]
fn records_tell_what_was_done() {
    let clip = whole("tone3_44k1_stereo.wav");
    let expect = AudioRecord {
        source: AudioSource { format: "wav".into(), rate: 44_100, channels: 2, bits: 16, frames: 132_300 },
        window: Window::Whole,
        start: 0,
        samples: 48_000,
        rate: 16_000,
        steps: vec!["downmix".into(), "resample:soxr_hq".into()],
    };
    assert_eq!(clip.record, expect);

    let clip = decode_file(&path("tone47_16k.flac"), &spec(Window::Last, 30.0)).unwrap();
    assert_eq!((clip.record.start, clip.record.samples), (272_000, 480_000));
    assert_eq!(clip.record.steps, ["window:last"]);
    // A clip that is shorter than the window is used whole, and nothing was done to it.
    let clip = decode_file(&path("tone3_16k.wav"), &spec(Window::First, 30.0)).unwrap();
    assert_eq!((clip.record.start, clip.record.samples, clip.record.steps.len()), (0, 48_000, 0));
}

#[test]
fn a_clip_that_is_too_long_is_refused_by_its_header() {
    let error = decode_file(&path("tone47_16k.flac"), &spec(Window::Whole, 30.0)).unwrap_err();
    let expect = "is 47.0 s long, the model takes 30.0 s: set `window = \"first\"` or `\"last\"` under \
                  [model.audio], or leave the clip out";
    assert_eq!(error.to_string(), expect);
    // Exactly as long as allowed, and by less than a sample longer.
    assert_eq!(whole("tone30_16k.flac").samples.len(), 480_000);
    let exact = spec(Window::Whole, 30.0);
    assert_eq!(decode_file(&path("tone30_16k.flac"), &exact).unwrap().samples.len(), 480_000);
    let error = decode_file(&path("tone1_16k_odd.wav"), &spec(Window::Whole, 1.0)).unwrap_err();
    assert!(error.to_string().starts_with("is 1.0002 s long, the model takes 1.0000 s"), "{error}");
}

#[test]
fn impossible_wishes_are_refused() {
    for (spec, expect) in [
        (spec(Window::First, 0.0), "`max_seconds` is 0: it must be more than 0"),
        (spec(Window::First, f64::NAN), "`max_seconds` is NaN"),
        (spec(Window::Whole, -1.0), "`max_seconds` is -1"),
        (DecodeSpec { rate: 0, ..spec(Window::Whole, 30.0) }, "the model's rate is 0 Hz"),
    ] {
        let error = decode_file(&path("tone3_16k.wav"), &spec).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
    let error = decode_file(&path("no such file.wav"), &spec(Window::Whole, 30.0)).unwrap_err();
    assert!(error.to_string().starts_with("cannot be read: "), "{error}");
    assert!(decode_file(&path(""), &spec(Window::Whole, 30.0)).is_err());
}

/// Windows of a file equal slices of the whole, to the bit.
fn check_windows(bytes: &[u8], rate: u32) {
    let whole = decode_bytes(bytes, &DecodeSpec { rate, ..spec(Window::Whole, f64::INFINITY) }).unwrap();
    let total = whole.samples.len();
    for seconds in [0.01, 0.1, 0.377, 1.0, 1.999, 2.5, 1000.0] {
        let length = ((seconds * f64::from(rate)).round() as usize).min(total);
        for window in [Window::First, Window::Last] {
            let clip = decode_bytes(bytes, &DecodeSpec { rate, window, max_seconds: seconds }).unwrap();
            let slice = match window {
                Window::Last => &whole.samples[total - length..],
                _ => &whole.samples[..length],
            };
            assert!(clip.samples == slice, "{rate} Hz, {window:?} {seconds} s");
            assert_eq!(clip.record.samples, length as u64);
            let start = if window == Window::Last { total - length } else { 0 };
            assert_eq!(clip.record.start, start as u64);
        }
    }
}

/// CP-Bench's rule: the first and the last 30 seconds of 45 overlap by 15; of 30 seconds both are the clip.
#[test]
fn windows_of_45_seconds_overlap_and_those_of_30_are_one() {
    let clip = |seconds: usize| {
        let samples = (0..seconds * 44_100).map(|n| ((n * n / 7) % 20_011) as i32 - 10_000).collect();
        wav_of(&[samples], 16, 44_100)
    };
    let windows = |seconds: usize| {
        let bytes = clip(seconds);
        [Window::First, Window::Last].map(|window| decode_bytes(&bytes, &spec(window, 30.0)).unwrap())
    };
    let [first, last] = windows(45);
    assert_eq!((first.record.start, first.samples.len()), (0, 480_000));
    assert_eq!((last.record.start, last.samples.len()), (240_000, 480_000));
    let overlap = 480_000 - 240_000;
    assert_eq!(overlap, 15 * RATE as usize);
    assert!(first.samples[overlap..] == last.samples[..overlap]);
    assert_ne!(first.digest, last.digest);
    let [first, last] = windows(30);
    assert_eq!((first.record.start, first.samples.len(), last.record.start), (0, 480_000, 0));
    assert_eq!(first.digest, last.digest);
}

#[test]
fn windows_are_slices_of_the_whole() {
    let names = [
        "tone3_16k.wav",
        "tone3_44k1_stereo.wav",
        "tone3_8k.wav",
        "tone2_22k05_float.wav",
        "tone30_16k.flac",
        "tone1_16k_odd.wav",
    ];
    for name in names {
        let bytes = std::fs::read(path(name)).unwrap();
        for rate in [16_000, 44_100, 11_025, 15_999] {
            check_windows(&bytes, rate);
        }
    }
}

/// Noise that a predictor can't guess, in channels.
fn noise(channels: usize, frames: usize, bits: u32) -> Vec<Vec<i32>> {
    let mut state = 7_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state as i32) >> (32 - bits)
    };
    (0..channels).map(|_| (0..frames).map(|_| next() / 2).collect()).collect()
}

#[test]
fn windows_of_flac_are_slices_of_the_whole() {
    for options in [
        Options { rate: 44_100, block: 1152, ..Options::default() },
        Options { rate: 22_050, variable: true, padding: 5000, ..Options::default() },
        Options { rate: 48_000, total: false, predictor: Predictor::Fixed(2), ..Options::default() },
    ] {
        let bytes = encode(&noise(2, options.rate as usize * 5 / 2, 16), &options);
        check_windows(&bytes, 16_000);
    }
}

#[test]
fn digests_tell_windows_apart() {
    let digest = |name: &str, window: Window, max_seconds: f64| {
        decode_file(&path(name), &spec(window, max_seconds)).unwrap().digest
    };
    let name = "tone3_44k1_stereo.wav";
    let digests = [
        digest(name, Window::Whole, 30.0),
        digest(name, Window::First, 30.0),
        digest(name, Window::First, 1.0),
        digest(name, Window::Last, 1.0),
        digest(name, Window::Last, 1.1),
        digest("tone3_8k.wav", Window::Last, 1.0),
    ];
    for (i, digest) in digests.iter().enumerate() {
        assert!(!digests[..i].contains(digest), "{i}");
    }
    // Both windows of a shorter clip are the whole clip.
    assert_eq!(digest(name, Window::Last, 30.0), digests[1]);
    // A window's digest is that of its samples, whatever container they were in.
    let samples = noise(1, 40_000, 16);
    let flac = encode(&samples, &Options::default());
    let wav = wav_of(&samples, 16, RATE);
    let of = |bytes: &[u8]| decode_bytes(bytes, &spec(Window::Last, 1.0)).unwrap();
    assert_eq!(of(&flac).samples, of(&wav).samples);
    assert_eq!(of(&flac).digest, of(&wav).digest);
}

/// A window's digest is part of what a journal is resumed by: it must not change from version to version.
#[test]
fn digests_of_windows_stay() {
    let clip = decode_file(&path("tone3_44k1_stereo.wav"), &spec(Window::Last, 1.0)).unwrap();
    assert_eq!(clip.digest.to_string(), "f8e63ba143f015f58ab18897d5a35f59eca76f5aa79694abb48e35bdb8cd1509");
}

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    read: AtomicU64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(into)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Reads a window of a long file; gives the clip and how many bytes were read.
fn counted<R: Read + Seek>(inner: R, window: Window) -> (Clip, u64) {
    let mut reader = Counted { inner, read: AtomicU64::new(0) };
    let clip = decode(&mut reader, &spec(window, 30.0)).unwrap();
    (clip, reader.read.into_inner())
}

/// A WAV file of two hours that is made while it is read: 16-bit stereo at 44.1 kHz, each sample a function of its
/// place.
struct LongWav {
    position: u64,
}

const LONG_FRAMES: u64 = 2 * 3600 * 44_100;

impl LongWav {
    fn value(frame: u64, channel: u64) -> i16 {
        let mixed = (frame * 2 + channel).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 50) as i16
    }

    fn header() -> Vec<u8> {
        let mut header = wav_of(&[vec![0], vec![0]], 16, 44_100);
        header.truncate(44);
        header[40..44].copy_from_slice(&(LONG_FRAMES as u32 * 4).to_le_bytes());
        header
    }
}

impl Read for LongWav {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let header = Self::header();
        let mut count = 0;
        for byte in into.iter_mut() {
            *byte = if let Some(byte) = header.get(self.position as usize) {
                *byte
            } else {
                let place = self.position - 44;
                if place >= LONG_FRAMES * 4 {
                    break;
                }
                Self::value(place / 4, place / 2 % 2).to_le_bytes()[place as usize % 2]
            };
            self.position += 1;
            count += 1;
        }
        Ok(count)
    }
}

impl Seek for LongWav {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.position = match to {
            SeekFrom::Start(place) => place,
            SeekFrom::End(back) => (44 + LONG_FRAMES * 4).saturating_add_signed(back),
            SeekFrom::Current(forth) => self.position.saturating_add_signed(forth),
        };
        Ok(self.position)
    }
}

#[test]
fn the_last_half_minute_of_two_hours_of_wav_reads_no_more() {
    let (clip, read) = counted(LongWav { position: 0 }, Window::Last);
    assert_eq!(clip.samples.len(), 480_000);
    assert_eq!(clip.record.source.frames, LONG_FRAMES);
    // 30 s, the filter's reach, and the header.
    assert!(read < 30 * 44_100 * 4 + 4096, "{read} bytes");
    // The same samples at the end of a shorter file, whose length keeps the phase.
    let frames = 40 * 44_100;
    let channel = |channel: u64| {
        let values = LONG_FRAMES - frames..LONG_FRAMES;
        values.map(|frame| i32::from(LongWav::value(frame, channel))).collect::<Vec<_>>()
    };
    let short = wav_of(&[channel(0), channel(1)], 16, 44_100);
    assert!(decode_bytes(&short, &spec(Window::Last, 30.0)).unwrap().samples == clip.samples);

    let (clip, read) = counted(LongWav { position: 0 }, Window::First);
    assert_eq!(clip.samples.len(), 480_000);
    assert!(read < 30 * 44_100 * 4 + 4096, "{read} bytes");
}

#[test]
fn the_last_half_minute_of_two_hours_of_flac_reads_little_more() {
    // Every frame has the same samples, so that the file is quickly made; frames differ in their numbers.
    let options = Options { block: 4096, predictor: Predictor::Fixed(0), ..Options::default() };
    let samples = noise(1, options.block, 4);
    let body = body(&[&samples[0]], &options);
    let frames = 2 * 3600 * u64::from(RATE) / options.block as u64;
    let total = frames * options.block as u64;
    let mut file = header(1, total, &options);
    for number in 0..frames {
        file.extend(seal(number, options.block, 1, &body, &options));
    }
    for window in [Window::First, Window::Last] {
        let (clip, read) = counted(Cursor::new(&file), window);
        assert_eq!(clip.record.source.frames, total);
        let offset = clip.record.start as usize % options.block;
        let expect = samples[0].iter().cycle().skip(offset).map(|sample| *sample as f32 / 32_768.0);
        assert!(clip.samples.iter().copied().eq(expect.take(480_000)));
        let window_bytes = file.len() as u64 / 240;
        assert!(read < 2 * window_bytes + 1_500_000, "{read} of {} bytes", file.len());
        assert!(read < file.len() as u64 / 10, "{read} of {} bytes", file.len());
    }
}

#[test]
fn one_hour_is_not_decoded_to_say_that_it_is_too_long() {
    let mut reader = Counted { inner: LongWav { position: 0 }, read: AtomicU64::new(0) };
    let error = decode(&mut reader, &spec(Window::Whole, 30.0)).unwrap_err();
    assert!(error.to_string().starts_with("is 7200.0 s long, the model takes 30.0 s"), "{error}");
    assert!(reader.read.into_inner() < 4096);
}
