//! Times a local Whisper: `cargo run --release --example bench_whisper -- FOLDER CLIP [BATCH]`.
//!
//! Prints wall and processor seconds of the encoder for 30 s, and of the whole transcription, the least of three each.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use harness::media::audio::mel::MelExtractor;
use harness::media::audio::windows::cut;
use harness::media::audio::{DecodeSpec, decode_file};
use harness::model::local::device::{DeviceChoice, DtypeChoice};
use harness::model::local::whisper::{Settings, Speech, Task, Whisper};
use harness::types::{LogMel, Window};

/// Processor seconds of this process so far, where the system tells them.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The least wall and processor seconds of three runs.
fn least(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<(f64, f64), Box<dyn Error>> {
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        let (wall, used) = (Instant::now(), processor());
        run()?;
        best = (best.0.min(wall.elapsed().as_secs_f64()), best.1.min(processor() - used));
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, clip, rest @ ..] = &args[..] else {
        return Err("usage: bench_whisper FOLDER CLIP [BATCH]".into());
    };
    let batch: usize = rest.first().map_or(Ok(1), |text| text.parse())?;
    let (device, name) = DeviceChoice::Auto.open()?;
    let model = Whisper::load(Path::new(folder), DtypeChoice::Auto, &device)?;
    let spec = DecodeSpec { rate: 16_000, window: Window::Whole, max_seconds: 3600.0 };
    let samples = decode_file(Path::new(clip), &spec)?.samples;
    let extractor = MelExtractor::new(model.bins())?;
    let windows =
        cut(&samples).into_iter().map(|part| extractor.compute(part)).collect::<Result<Vec<LogMel>, _>>()?;
    let one = windows.first().cloned().ok_or("no window")?;
    let encoder = least(|| {
        model.audio_vectors(std::slice::from_ref(&one))?;
        Ok(())
    })?;
    println!("{name}: encoder, one window of 30 s: {:.3} s, {:.3} processor s", encoder.0, encoder.1);
    let clips = vec![Speech { windows: &windows, language: Some("en"), task: Task::Transcribe }; batch];
    let mut tokens = 0;
    let mut text = String::new();
    let whole = least(|| {
        let found = model.transcribe(&clips, &Settings::default())?;
        tokens = found.iter().flatten().map(|transcript| transcript.tokens.len()).sum();
        text = found.into_iter().flatten().next().map(|transcript| transcript.text).unwrap_or_default();
        Ok(())
    })?;
    println!("{batch} clips, {tokens} tokens in all: {:.3} s, {:.3} processor s: {text}", whole.0, whole.1);
    Ok(())
}
