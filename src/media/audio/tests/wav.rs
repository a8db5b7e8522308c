//! Every kind of WAV that research data hold, and every way of being broken.

use super::*;

/// A file of chunks, each padded to an even length.
fn riff(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVE".to_vec();
    for (name, body) in chunks {
        file.extend(*name);
        file.extend((body.len() as u32).to_le_bytes());
        file.extend(*body);
        file.extend(&[0][..body.len() % 2]);
    }
    let size = file.len() as u32 - 8;
    file[4..8].copy_from_slice(&size.to_le_bytes());
    file
}

fn fmt(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let block = channels.wrapping_mul(bits.div_ceil(8));
    let mut chunk = Vec::new();
    chunk.extend(tag.to_le_bytes());
    chunk.extend(channels.to_le_bytes());
    chunk.extend(rate.to_le_bytes());
    chunk.extend(rate.wrapping_mul(u32::from(block)).to_le_bytes());
    chunk.extend(block.to_le_bytes());
    chunk.extend(bits.to_le_bytes());
    chunk
}

/// The extensible form of a `fmt ` chunk, where `tag` is in the identifier.
fn extensible(tag: u16, channels: u16, rate: u32, bits: u16, valid: u16) -> Vec<u8> {
    let mut chunk = fmt(0xfffe, channels, rate, bits);
    chunk.extend(22_u16.to_le_bytes());
    chunk.extend(valid.to_le_bytes());
    chunk.extend(0_u32.to_le_bytes());
    chunk.extend(tag.to_le_bytes());
    chunk.extend(b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71");
    chunk
}

fn samples(file: &[u8]) -> Result<Vec<f32>, AudioError> {
    decode_bytes(file, &spec(Window::Whole, 30.0)).map(|clip| clip.samples)
}

fn check(file: &[u8], expect: &[f32]) {
    assert_eq!(samples(file).unwrap(), expect);
}

fn check_error(file: &[u8], expect: &str) {
    for window in [Window::Whole, Window::First, Window::Last] {
        match decode_bytes(file, &spec(window, 30.0)) {
            Ok(clip) => panic!("{:?} / {expect}", clip.record),
            Err(error) => assert!(error.to_string().contains(expect), "{error} / {expect}"),
        }
    }
}

const I16: &[u8] = b"\0\0\0\x40\0\x80\xff\x7f";
const I16_VALUES: &[f32] = &[0.0, 0.5, -1.0, 32_767.0 / 32_768.0];

#[test]
fn all_widths_are_read() {
    let file = |tag, bits, data: &[u8]| riff(&[(b"fmt ", &fmt(tag, 1, RATE, bits)), (b"data", data)]);
    check(&file(1, 8, &[128, 192, 0, 255]), &[0.0, 0.5, -1.0, 127.0 / 128.0]);
    check(&file(1, 16, I16), I16_VALUES);
    check(&file(1, 24, b"\0\0\x40\0\0\x80\x01\0\0"), &[0.5, -1.0, 1.0 / 8_388_608.0]);
    check(&file(1, 32, b"\0\0\0\x40\0\0\0\x80"), &[0.5, -1.0]);
    // Twelve bits are left-justified in two bytes.
    check(&file(1, 12, I16), I16_VALUES);
    let floats: Vec<u8> = [0.25_f32, -1.5, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    check(&file(3, 32, &floats), &[0.25, -1.5, 3.0]);
    let doubles: Vec<u8> = [0.25_f64, -1.5, 0.1].iter().flat_map(|value| value.to_le_bytes()).collect();
    check(&file(3, 64, &doubles), &[0.25, -1.5, 0.1]);
}

#[test]
fn extensible_headers_are_read() {
    let file = |chunk: &[u8], data: &[u8]| riff(&[(b"fmt ", chunk), (b"data", data)]);
    check(&file(&extensible(1, 1, RATE, 16, 16), I16), I16_VALUES);
    // 20 valid bits of 24 are left-justified.
    check(&file(&extensible(1, 1, RATE, 24, 20), b"\0\0\x40\0\0\x80"), &[0.5, -1.0]);
    check(&file(&extensible(3, 1, RATE, 32, 32), &0.1_f32.to_le_bytes()), &[0.1]);
    check_error(&file(&extensible(7, 1, RATE, 8, 8), &[0; 8]), "its samples are 8-bit mu-law");
}

#[test]
fn channels_are_averaged() {
    let file = |channels, data: &[u8]| riff(&[(b"fmt ", &fmt(1, channels, RATE, 16)), (b"data", data)]);
    check(&file(2, I16), &[0.25, -1.0 / 65_536.0]);
    check(&file(4, I16), &[(-0.5 + 32_767.0 / 32_768.0) / 4.0]);
    let many: Vec<u8> = (0..1024_i16).flat_map(i16::to_le_bytes).collect();
    check(&file(1024, &many), &[511.5 / 32_768.0]);
}

#[test]
fn channels_are_averaged_before_resampling() {
    let left = noise(1, 8000, 16).remove(0);
    let right: Vec<i32> = left.iter().map(|sample| -sample).collect();
    let silence = decode_bytes(&wav_of(&[left, right], 16, 8000), &spec(Window::Whole, 30.0)).unwrap();
    assert_eq!(silence.samples, vec![0.0; 16_000]);
}

#[test]
fn chunks_may_come_in_any_order() {
    let (fmt, data) = (fmt(1, 1, RATE, 16), I16);
    check(&riff(&[(b"JUNK", &[7; 29]), (b"fmt ", &fmt), (b"LIST", b"INFO"), (b"data", data)]), I16_VALUES);
    check(&riff(&[(b"bext", &[0; 602]), (b"data", data), (b"fmt ", &fmt)]), I16_VALUES);
    check(
        &riff(&[(b"fmt ", &fmt), (b"fact", &[4, 0, 0, 0]), (b"data", data), (b"LIST", &[0; 9])]),
        I16_VALUES,
    );
    let mut long = fmt.clone();
    long.extend([0; 5]);
    check(&riff(&[(b"fmt ", &long), (b"data", data)]), I16_VALUES);
}

#[test]
fn odd_chunks_are_padded_or_not() {
    let fmt = fmt(1, 1, RATE, 16);
    let padded = riff(&[(b"note", b"odd"), (b"fmt ", &fmt), (b"data", I16)]);
    check(&padded, I16_VALUES);
    let mut unpadded = padded.clone();
    assert_eq!(unpadded.remove(12 + 8 + 3), 0);
    check(&unpadded, I16_VALUES);
}

#[test]
fn sizes_that_pipes_leave_mean_the_rest_of_the_file() {
    let file = riff(&[(b"fmt ", &fmt(1, 1, RATE, 16)), (b"data", I16)]);
    let sized = |riff: u32, data: u32| {
        let mut file = file.clone();
        file[4..8].copy_from_slice(&riff.to_le_bytes());
        file[40..44].copy_from_slice(&data.to_le_bytes());
        file
    };
    check(&sized(u32::MAX, u32::MAX), I16_VALUES);
    check(&sized(0, 0), I16_VALUES);
    check(&sized(36, 0), I16_VALUES);
    check(&sized(0x7fff_f024, 0x7fff_f000), I16_VALUES);
    // An odd byte at the end is no sample.
    let mut odd = sized(u32::MAX, u32::MAX);
    odd.push(1);
    check(&odd, I16_VALUES);
    // Empty on purpose.
    let empty = riff(&[(b"fmt ", &fmt(1, 1, RATE, 16)), (b"data", &[]), (b"LIST", b"INFO")]);
    check_error(&empty, "has no samples");
}

#[test]
fn files_of_more_than_four_gigabytes_are_read() {
    let mut ds64 = 0_u64.to_le_bytes().to_vec();
    ds64.extend((I16.len() as u64).to_le_bytes());
    ds64.extend([0; 12]);
    let mut file =
        riff(&[(b"ds64", &ds64), (b"fmt ", &fmt(1, 1, RATE, 16)), (b"data", I16), (b"LIST", &[1; 40])]);
    file[..8].copy_from_slice(b"RF64\xff\xff\xff\xff");
    let data = file.windows(4).position(|window| window == b"data").unwrap();
    file[data + 4..data + 8].fill(0xff);
    check(&file, I16_VALUES);
    file[20..28].fill(0xff);
    file[28..36].fill(0xff);
    check_error(&file, "is cut short");
}

#[test]
fn hound_agrees() {
    for (channels, bits) in [(1, 8), (2, 16), (3, 24), (5, 32)] {
        let written = noise(channels, 500, u32::from(bits));
        let file = wav_of(&written, bits, RATE);
        let mut reader = hound::WavReader::new(&file[..]).unwrap();
        let full = 2_f32.powi(i32::from(bits) - 1);
        let read: Vec<i32> = reader.samples::<i32>().map(Result::unwrap).collect();
        let mono: Vec<f32> = read
            .chunks(channels)
            .map(|frame| frame.iter().map(|sample| *sample as f32 / full).sum::<f32>() / channels as f32)
            .collect();
        check(&file, &mono);
    }
}

#[test]
fn broken_files_are_refused() {
    let file = |chunk: &[u8], data: &[u8]| riff(&[(b"fmt ", chunk), (b"data", data)]);
    let good = file(&fmt(1, 1, RATE, 16), I16);

    check_error(&[], "is empty (0 bytes)");
    check_error(&good[..12], "it has no `data` chunk");
    check_error(&good[..36], "it has no `data` chunk");
    check_error(&good[..20], "its `fmt ` chunk is cut short or has fewer than 16 bytes (16)");
    check_error(&riff(&[(b"data", I16)]), "it has no `fmt ` chunk");
    check_error(&good[..44], "is cut short: it has 0 of the 4 samples");
    check_error(&good[..49], "is cut short: it has 2 of the 4 samples a channel that its header declares");
    check_error(
        &file(&fmt(1, 1, RATE, 16)[..14], I16),
        "its `fmt ` chunk is cut short or has fewer than 16 bytes (14)",
    );

    check_error(&file(&fmt(1, 0, RATE, 16), I16), "declares 0 channels");
    check_error(&file(&fmt(1, 65_535, RATE, 8), I16), "declares 65535 channels instead of 1 to 1024");
    check_error(&file(&fmt(1, 1, 0, 16), I16), "declares a rate of 0 Hz");
    check_error(&file(&fmt(1, 1, u32::MAX, 16), I16), "declares a rate of 4294967295 Hz");
    check_error(&file(&fmt(1, 1, RATE, 0), I16), "its samples are 0-bit integer");
    check_error(&file(&fmt(1, 1, RATE, 33), I16), "its samples are 33-bit integer");
    check_error(&file(&fmt(3, 1, RATE, 16), I16), "its samples are 16-bit float");
    check_error(&file(&fmt(2, 1, RATE, 4), I16), "4-bit ADPCM");
    check_error(&file(&fmt(0x1234, 1, RATE, 16), I16), "unknown (tag 0x1234)");
    let mut block = fmt(1, 1, RATE, 16);
    block[12..14].fill(0);
    check_error(&file(&block, I16), "in frames of 0 bytes");

    // A header that declares 4 billion bytes is believed no further than the file goes.
    let mut huge = good.clone();
    huge[40..44].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    check_error(&huge, "is cut short: it has 4 of the 2147483640 samples");
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = vec![0.5_f32; 300_000];
        values[250_001] = bad;
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let file = riff(&[(b"fmt ", &fmt(3, 1, RATE, 32)), (b"data", &data)]);
        check_error(&file, "has a sample that is no finite number (frame 250001, counted from 0)");
        let stereo = riff(&[(b"fmt ", &fmt(3, 2, RATE, 32)), (b"data", &data)]);
        check_error(&stereo, "(frame 125000,");
    }
    let data = f64::MAX.to_le_bytes();
    check_error(&riff(&[(b"fmt ", &fmt(3, 1, RATE, 64)), (b"data", &data)]), "no finite number (frame 0");
}

#[test]
fn endless_chunks_end() {
    let chunks = vec![(b"JUNK", &b""[..]); 200_000];
    check_error(&riff(&chunks), "it has no `data` chunk");
}
