//! Speed of what every local request pays before its model runs: decoding, resampling, log-mel features; images decoded
//! and made smaller.
//!
//! Run with `cargo bench --bench media`. The photograph is left in the target folder, where `scripts/bench_pillow.py` can
//! time Pillow on the same file. The clips are made here: 60 s of 44.1 kHz stereo that compress as
//! recorded speech does, as FLAC and as WAV.

#[path = "../tests/support/flac_writer.rs"]
mod flac_writer;

use std::f64::consts::TAU;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use harness::media::audio::mel::MelExtractor;
use harness::media::audio::{DecodeSpec, decode_file};
use harness::media::image::{Filter, decode};
use harness::types::Window;

const RATE: u32 = 44_100;
const SECONDS: u32 = 60;

/// Two channels of voice-like sound: gliding harmonics that come and go, over noise.
fn voice() -> Vec<Vec<i32>> {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / f64::from(u32::MAX) - 0.5
    };
    let mut phase = 0.0;
    let mut slow = 0.0;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for i in 0..RATE * SECONDS {
        let t = f64::from(i) / f64::from(RATE);
        phase += (120.0 + 40.0 * (TAU * 0.3 * t).sin()) / f64::from(RATE);
        let voice: f64 = (1..20).map(|k| (TAU * phase * f64::from(k)).sin() * 0.3 / f64::from(k)).sum();
        let envelope =
            ((TAU * 1.7 * t).sin() + 0.3).clamp(0.0, 1.0) * (0.5 + 0.5 * (TAU * 0.11 * t).sin().powi(2));
        slow = 0.7 * slow + 0.3 * noise();
        let sample = 0.5 * voice * envelope + 0.12 * slow * (0.3 + envelope);
        left.push((sample * 28_000.0) as i32);
        right.push((sample * 22_000.0 + noise() * 400.0) as i32);
    }
    vec![left, right]
}

fn write_wav(path: &Path, channels: &[Vec<i32>]) {
    let spec = hound::WavSpec {
        channels: 2,
        sample_rate: RATE,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(path, spec).expect("a WAV file in the temporary folder");
    for (left, right) in channels[0].iter().zip(&channels[1]) {
        writer.write_sample(*left).expect("a sample");
        writer.write_sample(*right).expect("a sample");
    }
    writer.finalize().expect("the end of the file");
}

fn media(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (flac, wav) = (folder.path().join("60s.flac"), folder.path().join("60s.wav"));
    let channels = voice();
    let options = flac_writer::Options { rate: RATE, ..Default::default() };
    std::fs::write(&flac, flac_writer::encode(&channels, &options)).expect("a FLAC file");
    write_wav(&wav, &channels);

    let whole = DecodeSpec { rate: 16_000, window: Window::Whole, max_seconds: 60.0 };
    let last = DecodeSpec { rate: 16_000, window: Window::Last, max_seconds: 30.0 };
    let mut group = criterion.benchmark_group("decode");
    group.bench_function("flac_60s_44k1_stereo", |b| b.iter(|| decode_file(black_box(&flac), &whole)));
    group.bench_function("flac_last_30s_of_60s", |b| b.iter(|| decode_file(black_box(&flac), &last)));
    group.bench_function("wav_60s_44k1_stereo", |b| b.iter(|| decode_file(black_box(&wav), &whole)));
    group.finish();

    let clip = decode_file(&flac, &DecodeSpec { window: Window::First, ..last }).expect("30 s");
    let mut group = criterion.benchmark_group("log_mel");
    for bins in [80, 128] {
        let extractor = MelExtractor::new(bins).expect("80 or 128 bands");
        group.bench_function(format!("30s_{bins}_bands"), |b| {
            b.iter(|| extractor.compute(black_box(&clip.samples)));
        });
        let short = &clip.samples[..16_000 * 5];
        group.bench_function(format!("5s_{bins}_bands"), |b| b.iter(|| extractor.compute(black_box(short))));
    }
    group.finish();
}

/// A JPEG of 4000 x 3000 pixels, with the soft forms and the grain of a photograph.
fn photograph() -> Vec<u8> {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 24) / 16.0
    };
    let image = image::RgbImage::from_fn(4000, 3000, |x, y| {
        let (x, y) = (f64::from(x), f64::from(y));
        let wave = |a: f64, b: f64| 110.0 + 90.0 * (TAU * (x / a + y / b)).sin();
        image::Rgb(
            [(700.0, 500.0), (-900.0, 650.0), (1300.0, -400.0)].map(|(a, b)| (wave(a, b) + noise()) as u8),
        )
    });
    let mut file = Vec::new();
    let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut file, 90);
    image.write_with_encoder(encoder).expect("a JPEG file");
    file
}

fn images(criterion: &mut Criterion) {
    let jpeg = photograph();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("photograph.jpg");
    std::fs::write(&path, &jpeg).expect("a file in the target folder");
    let mut group = criterion.benchmark_group("image");
    group.sample_size(20);
    group.bench_function("jpeg_4000x3000", |b| b.iter(|| decode(black_box(&jpeg)).expect("pixels")));
    group.bench_function("jpeg_4000x3000_to_1288x966_bicubic", |b| {
        b.iter(|| decode(black_box(&jpeg)).expect("pixels").0.resized(1288, 966, Filter::Bicubic));
    });
    group.finish();
}

criterion_group!(benches, media, images);
criterion_main!(benches);
