//! Every kind of FLAC that our encoder writes, and every way of being broken.

use super::*;

fn check(channels: &[Vec<i32>], options: &Options) {
    let file = encode(channels, options);
    let clip = decode_bytes(&file, &DecodeSpec { rate: options.rate, ..spec(Window::Whole, 30.0) }).unwrap();
    let full = 2_f32.powi(options.bits as i32 - 1);
    let expect: Vec<f32> = (0..channels[0].len())
        .map(|frame| {
            let sum: f32 = channels.iter().map(|channel| channel[frame] as f32 / full).sum();
            sum / channels.len() as f32
        })
        .collect();
    assert!(clip.samples == expect, "{options:?}");
    assert_eq!(clip.record.source.frames, channels[0].len() as u64);
    assert_eq!(u32::from(clip.record.source.bits), options.bits);
}

fn check_error(file: &[u8], expect: &str) {
    match decode_bytes(file, &spec(Window::Whole, 30.0)) {
        Ok(clip) => panic!("{:?} / {expect}", clip.record),
        Err(error) => assert!(error.to_string().contains(expect), "{error} / {expect}"),
    }
}

#[test]
fn all_kinds_are_read() {
    let tone: Vec<i32> = (0..20_000).map(|i| (f64::from(i * i / 900).sin() * 9000.0) as i32).collect();
    let predictors = [Predictor::Verbatim, Predictor::Fixed(0), Predictor::Fixed(3), Predictor::Linear(8)];
    for predictor in predictors {
        for variable in [false, true] {
            let options = Options { predictor, variable, total: variable, ..Options::default() };
            check(std::slice::from_ref(&tone), &options);
            check(&noise(2, 9001, 16), &Options { block: 576, ..options.clone() });
            check(&noise(2, 9001, 16), &Options { mid_side: false, ..options.clone() });
            check(&noise(8, 5000, 24), &Options { bits: 24, ..options.clone() });
            check(&noise(1, 100, 8), &Options { bits: 8, ..options.clone() });
            check(&noise(3, 4097, 20), &Options { bits: 20, ..options.clone() });
            check(&[vec![0; 5000]], &options);
        }
    }
    check(&noise(1, 1, 16), &Options::default());
    check(&noise(1, 300_000, 16), &Options { padding: 1_000_000, ..Options::default() });
}

#[test]
fn tags_and_zeros_around_the_stream_are_skipped() {
    let file = encode(&noise(1, 5000, 16), &Options::default());
    let samples = decode_bytes(&file, &spec(Window::Whole, 30.0)).unwrap().samples;
    let mut tagged = b"ID3\x04\0\0\0\0\x01\0".to_vec();
    tagged.extend([0; 128]);
    tagged.extend(&file);
    tagged.extend([0; 1000]);
    tagged.extend(b"TAG");
    tagged.extend([b' '; 125]);
    for window in [Window::Whole, Window::First, Window::Last] {
        assert_eq!(decode_bytes(&tagged, &spec(window, 30.0)).unwrap().samples, samples);
    }
}

#[test]
fn a_stream_of_unknown_length_is_read_to_its_end() {
    let channels = noise(2, 200_000, 16);
    let file = encode(&channels, &Options { total: false, ..Options::default() });
    let clip = decode_bytes(&file, &spec(Window::Last, 1.0)).unwrap();
    assert_eq!(clip.record.source.frames, 200_000);
    assert_eq!(clip.record.start, 184_000);
}

#[test]
fn broken_files_are_refused() {
    let options = Options::default();
    let file = encode(&noise(1, 50_000, 16), &options);
    let frames = file.windows(2).filter(|pair| *pair == b"\xff\xf8").count();
    assert!(frames >= 13);

    check_error(b"fLaC", "ends within its header");
    check_error(&file[..20], "ends within its header");
    check_error(&file[..42], "is cut short: it has 0 of the 50000 samples");
    check_error(&file[..file.len() / 2], "of the 50000 samples a channel that its header declares");
    check_error(&file[..file.len() - 1], "is cut short: it has 49152 of the 50000 samples");

    let mut longer = file.clone();
    longer.extend(&file[42..]);
    check_error(&longer, "it is damaged at sample 50000 of 50000");
    let mut junk = file.clone();
    junk.extend([7; 50]);
    check_error(&junk, "is cut short: it has 49152 of the 50000");

    let with = |place: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[place..place + bytes.len()].copy_from_slice(bytes);
        file
    };
    // Total: 4 billion and then some, or fewer than there are.
    check_error(&with(21, &[0xff; 5]), "is cut short: it has 50000 of the 68719476735 samples");
    check_error(&with(21, &[0xf0, 0, 0, 0, 1]), "its header declares 1 samples a channel and 50000 follow");
    // Rate of 0; bits of 32; more channels than the frames have.
    check_error(&with(18, &[0, 0, 0x00]), "declares a rate of 0 Hz");
    check_error(&with(20, &[0x05]), "its samples have 32 bits");
    check_error(&with(20, &[0x0e]), "no sound follows its header");
    // No last metadata block.
    check_error(&with(4, &[0]), "");

    // A stream that begins in the middle.
    let body = body(&[&[1, 2, 3, 4, 5][..]], &options);
    let mut middle = header(1, 0, &options);
    middle.extend(seal(7, 5, 1, &body, &options));
    check_error(&middle, "its sound begins with sample 35");
    check_error(&header(1, 0, &options), "has no samples");
}

#[test]
fn damage_in_the_middle_is_never_skipped() {
    let file = encode(&noise(1, 50_000, 16), &Options::default());
    let mut places = Vec::new();
    for (place, pair) in file.windows(2).enumerate() {
        if pair == b"\xff\xf8" {
            places.push(place);
        }
    }
    // A bit in a body, a bit in a header, a frame lost, a frame twice.
    let mut body = file.clone();
    body[places[5] + 300] ^= 1;
    check_error(&body, "it is damaged at sample 20480 of 50000 (a wrong checksum)");
    let mut header = file.clone();
    header[places[5] + 4] ^= 1;
    check_error(&header, "it is damaged at sample 16384 of 50000");
    let mut lost = file.clone();
    lost.drain(places[5]..places[6]);
    check_error(&lost, "it is damaged at sample 20480 of 50000");
    let mut twice = file[..places[6]].to_vec();
    twice.extend(&file[places[5]..]);
    check_error(&twice, "it is damaged at sample 24576 of 50000");
}

#[test]
fn a_frame_of_nonsense_with_right_checksums_is_refused() {
    // Reserved subframe kinds, residuals that run over the end, bits that are all wasted.
    for nonsense in
        [&[0x04, 0, 0][..], &[0xff, 0xff], &[0x01, 0, 0, 0], &[0x12, 0xff, 0xff, 0xff, 0xff], &[0x42, 0, 0]]
    {
        for number in [0, 1] {
            let options = Options::default();
            let mut file = header(1, 0, &options);
            if number == 1 {
                let samples = noise(1, 4096, 16);
                file.extend(seal(0, 4096, 1, &body(&[&samples[0]], &options), &options));
            }
            file.extend(seal(number, 4096, 1, nonsense, &options));
            check_error(&file, "damaged at sample");
        }
    }
}
