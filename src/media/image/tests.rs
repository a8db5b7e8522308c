//! Images against Pillow, odd files, transforms, damage. `scripts/make_image_fixtures.py` says what is in the fixtures.

use std::path::PathBuf;
use std::sync::LazyLock;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use sha2::Digest as _;

use super::*;

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/images")
}

fn list(name: &str) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(fixtures().join(name)).unwrap()).unwrap()
}

fn odd(name: &str) -> Bytes {
    std::fs::read(fixtures().join("odd").join(name)).unwrap().into()
}

fn to_png() -> ImageTransform {
    ImageTransform { format: ImageFormat::Png, orient: true, first_frame: true, ..ImageTransform::default() }
}

fn steps(made: &Made) -> Vec<String> {
    made.record.steps.clone()
}

/// Values as the script makes them.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 12345_u64;
    let next = || {
        state = (state * 1_103_515_245 + 12345) & 0x7fff_ffff;
        match (state >> 16) & 511 {
            401.. => 255,
            301..=400 => 0,
            value => value as u8,
        }
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn sizes_are_changed_as_pillow_does_it() {
    let cases = list("resized.json");
    assert!(cases.len() > 100);
    for case in cases {
        let side = |key: &str, at: usize| case[key][at].as_u64().unwrap() as usize;
        let channels = case["channels"].as_u64().unwrap() as usize;
        let filter = match case["filter"].as_str().unwrap() {
            "bilinear" => Filter::Bilinear,
            "bicubic" => Filter::Bicubic,
            _ => Filter::Lanczos,
        };
        let (width, height) = (side("from", 0), side("from", 1));
        let image = Pixels::new(width, height, channels, noise(width * height * channels)).unwrap();
        let made = image.resized(side("to", 0), side("to", 1), filter);
        let found = crate::types::hex(&sha2::Sha256::digest(made.data()));
        assert_eq!(found, case["sha256"].as_str().unwrap(), "{case}");
    }
}

/// Looks at one odd file both ways.
fn check(case: &Value) -> Result<(), String> {
    let name = case["name"].as_str().unwrap();
    let bytes = odd(name);
    let text = |key: &str| case[key].as_str().unwrap();
    match ImageTransform::default().carry_out(&bytes) {
        Ok(made) if made.format == text("passes") && made.bytes == bytes => {}
        Ok(made) => return Err(format!("passes as {} of {} bytes", made.format, made.bytes.len())),
        Err(error) if error.to_string().contains(text("passes")) => {}
        Err(error) => return Err(format!("does not pass: {error}")),
    }
    let (pixels, did) = match (decode(&bytes), case["refused"].as_str()) {
        (Err(error), Some(expected)) if error.to_string().contains(expected) => return Ok(()),
        (Err(error), _) => return Err(format!("is refused: {error}")),
        (Ok((_, did)), Some(_)) => return Err(format!("is decoded: {did:?}")),
        (Ok(decoded), None) => decoded,
    };
    let wanted = &case["becomes"];
    let size = [pixels.width() as u64, pixels.height() as u64];
    if size.map(Value::from) != [wanted["size"][0].clone(), wanted["size"][1].clone()] {
        return Err(format!("has the size {size:?}"));
    }
    let channels = ["", "L", "LA", "RGB", "RGBA"].iter().position(|mode| *mode == wanted["mode"]).unwrap();
    let expected = base64_simd::STANDARD.decode_to_vec(wanted["pixels"].as_str().unwrap()).unwrap();
    let found = as_channels(&pixels, channels);
    let off = found.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
    if found.len() != expected.len() || u64::from(off) > case["tolerance"].as_u64().unwrap() {
        return Err(format!("has {} channels and is off by {off}", pixels.channels()));
    }
    let wanted: Vec<String> = serde_json::from_value(case["steps"].clone()).unwrap();
    if did != wanted {
        return Err(format!("{did:?}"));
    }
    // What is a PNG file already, upright and still, stays as it is; what is not becomes one of the same pixels.
    let made = to_png().carry_out(&bytes).map_err(|error| format!("is not written: {error}"))?;
    if made.bytes == bytes {
        let still = wanted.iter().all(|step| step == "depth:8" || step == "icc:dropped");
        return if made.format == "png" && still { Ok(()) } else { Err("is left as it is".to_owned()) };
    }
    let (again, _) = decode(&made.bytes).map_err(|error| format!("cannot be read again: {error}"))?;
    if steps(&made) != [wanted, vec!["encode:png".to_owned()]].concat() || again != pixels {
        return Err(format!("is written by {:?}", steps(&made)));
    }
    Ok(())
}

/// The pixels with as many channels as another program has for the same picture: grey may be RGB, a full alpha none.
fn as_channels(pixels: &Pixels, channels: usize) -> Vec<u8> {
    let convert = |pixel: &[u8]| -> Vec<u8> {
        let grey = pixel.len() <= 2;
        let alpha = if pixel.len().is_multiple_of(2) { pixel[pixel.len() - 1] } else { 255 };
        let colours = if grey { [pixel[0]; 3] } else { [pixel[0], pixel[1], pixel[2]] };
        match channels {
            1 => vec![colours[0]],
            2 => vec![colours[0], alpha],
            3 => colours.to_vec(),
            _ => [&colours[..], &[alpha]].concat(),
        }
    };
    pixels.data().chunks_exact(pixels.channels()).flat_map(convert).collect()
}

#[test]
fn odd_images_pass_byte_for_byte_or_become_what_pillow_sees_or_get_a_sentence() {
    let cases = list("odd.json");
    assert!(cases.len() >= 60);
    let wrong: Vec<String> =
        cases.iter().filter_map(|case| check(case).err().map(|e| format!("{}: {e}", case["name"]))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_is_as_it_should_be_goes_untouched() {
    let (jpeg, png) = (odd("jpeg-orientation-6.jpg"), odd("png-rgba.png"));
    let check = |bytes: &Bytes, transform: ImageTransform, expected: &[&str]| {
        let made = transform.carry_out(bytes).unwrap();
        assert_eq!(steps(&made), expected, "{transform:?}");
        assert_eq!(made.bytes == *bytes, expected.is_empty());
        let record = made.record;
        let (pixels, _) = decode(&made.bytes).unwrap();
        if !expected.is_empty() {
            assert_eq!((pixels.width(), pixels.height()), (record.width as usize, record.height as usize));
        }
    };
    let none = ImageTransform::default();
    check(&jpeg, ImageTransform { max_side: Some(24), max_pixels: Some(24 * 18), ..none }, &[]);
    check(&jpeg, ImageTransform { format: ImageFormat::Jpeg, flatten: true, first_frame: true, ..none }, &[]);
    check(&jpeg, ImageTransform { orient: true, ..none }, &["orient:6", "encode:jpeg:90"]);
    // What is written anew loses its tag, so it is turned, asked for or not.
    let small = ImageTransform { max_side: Some(12), quality: 80, ..none };
    check(&jpeg, small, &["orient:6", "resize:bicubic:9x12", "encode:jpeg:80"]);
    let few = ImageTransform { max_pixels: Some(100), filter: Filter::Lanczos, ..none };
    check(&png, few, &["resize:lanczos:11x8", "encode:png"]);
    check(&png, ImageTransform { flatten: true, ..none }, &["alpha:white", "encode:png"]);
    check(&png, ImageTransform { format: ImageFormat::Jpeg, ..none }, &["alpha:white", "encode:jpeg:90"]);
    check(&odd("png-rgb.png"), ImageTransform { flatten: true, ..none }, &[]);
    check(
        &odd("gif-animated.gif"),
        ImageTransform { first_frame: true, ..none },
        &["first_frame", "encode:png"],
    );
    check(&odd("webp-lossy.webp"), ImageTransform { max_side: Some(100), ..none }, &[]);
    let tiff = ImageTransform { max_side: Some(100), ..none }.carry_out(&odd("tiff-raw.tiff"));
    assert!(tiff.unwrap_err().to_string().contains("set `format = \"png\"`"));
}

/// Wherever a PNG is cut, what looks at it without decoding says what decoding it would say.
#[test]
fn a_png_that_is_cut_is_refused_before_it_is_decoded() {
    let small = ImageTransform { max_side: Some(2), ..ImageTransform::default() };
    for name in ["png-rgb.png", "png-rgba.png"] {
        let whole = odd(name);
        for end in 0..=whole.len() {
            let cut = whole.slice(..end);
            assert_eq!(small.probe(&cut).is_ok(), small.carry_out(&cut).is_ok(), "{name}, {end} bytes");
        }
        let error = small.probe(&whole.slice(..whole.len() - 12)).unwrap_err().to_string();
        assert!(error.contains("is a png image that is cut short"), "{error}");
    }
}

#[test]
fn chunks_are_named_without_what_else_the_decoder_knows_of_them() {
    let mut damaged = odd("png-rgb.png").to_vec();
    // The last byte of the checksum of the header.
    damaged[32] ^= 1;
    let error = decode(&damaged).unwrap_err().to_string();
    assert!(error.contains("while decoding IHDR chunk") && !error.contains('{'), "{error}");
}

#[test]
fn what_is_transparent_gets_white_behind_it() {
    let made = ImageTransform { flatten: true, ..ImageTransform::default() }
        .carry_out(&odd("png-rgba.png"))
        .unwrap();
    let ((flat, _), (was, _)) = (decode(&made.bytes).unwrap(), decode(&odd("png-rgba.png")).unwrap());
    assert_eq!((flat.channels(), was.channels()), (3, 4));
    for (flat, was) in flat.data().chunks_exact(3).zip(was.data().chunks_exact(4)) {
        for (flat, colour) in flat.iter().zip(was) {
            let alpha = f64::from(was[3]) / 255.0;
            let exact = f64::from(*colour) * alpha + 255.0 * (1.0 - alpha);
            assert!((f64::from(*flat) - exact).abs() <= 0.5);
        }
    }
}

#[test]
fn sizes_keep_proportions_and_stay_within_limits() {
    let check = |size, max_side, max_pixels, expected| {
        let transform = ImageTransform { max_side, max_pixels, ..ImageTransform::default() };
        assert_eq!(transform.target(size), expected);
    };
    check((4000, 3000), Some(1288), None, (1288, 966));
    check((3000, 4000), Some(1288), None, (966, 1288));
    check((4000, 3000), None, Some(1_000_000), (1154, 866));
    check((4000, 3000), Some(2000), Some(1_000_000), (1154, 866));
    check((65535, 1), Some(10), None, (10, 1));
    check((65535, 1), None, Some(100), (100, 1));
    check((10, 10), Some(10), Some(100), (10, 10));
}

/// All odd files.
static FILES: LazyLock<Vec<Bytes>> =
    LazyLock::new(|| list("odd.json").iter().map(|case| odd(case["name"].as_str().unwrap())).collect());

/// Damage of a file: bytes changed, taken out, put in, cut off.
fn damaged(mut bytes: Vec<u8>, damage: &[(u8, usize, u8)]) -> Vec<u8> {
    for &(kind, at, value) in damage {
        let at = at % bytes.len().max(1);
        match kind {
            0 | 1 => bytes.get_mut(at).into_iter().for_each(|byte| *byte = value),
            2 => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << (value % 8)),
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..(at + usize::from(value)).min(bytes.len()))),
            _ => bytes.insert(at, value),
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_files_give_an_image_or_a_sentence(
        file in 0..10_000_usize,
        damage in prop::collection::vec((0..6_u8, any::<prop::sample::Index>().prop_map(|at| at.index(4000)), any::<u8>()), 1..5),
    ) {
        let bytes = Bytes::from(damaged(FILES[file % FILES.len()].to_vec(), &damage));
        for transform in [ImageTransform::default(), to_png(), ImageTransform { max_side: Some(9), ..to_png() }] {
            match transform.carry_out(&bytes) {
                Ok(made) if made.bytes == bytes => {}
                Ok(made) => {
                    let record = made.record;
                    let (pixels, _) = decode(&made.bytes).unwrap();
                    prop_assert_eq!((pixels.width(), pixels.height()), (record.width as usize, record.height as usize));
                }
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }
    }

    #[test]
    fn any_size_is_reached_and_flat_colours_stay(
        (width, height, channels) in (1..40_usize, 1..40_usize, 1..5_usize),
        (to_width, to_height) in (1..60_usize, 1..60_usize),
        value: u8,
    ) {
        let mut data = vec![value; width * height * channels];
        if channels % 2 == 0 {
            data.chunks_exact_mut(channels).for_each(|pixel| pixel[channels - 1] = 255);
        }
        for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
            let image = Pixels::new(width, height, channels, data.clone()).unwrap();
            let made = image.resized(to_width, to_height, filter);
            prop_assert_eq!((made.width(), made.height(), made.channels()), (to_width, to_height, channels));
            let first = made.data().chunks_exact(channels).next().unwrap().to_vec();
            prop_assert_eq!(first[0], value);
            prop_assert!(made.data().chunks_exact(channels).all(|pixel| pixel == first));
        }
    }
}

/// A profile that unpacks to a gigabyte is not unpacked, and is told like any that is left out.
#[test]
#[cfg(feature = "hub")]
fn a_bomb_in_a_colour_profile_is_not_unpacked() {
    use std::io::Write as _;

    let mut small = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(4, 4).write_to(&mut small, image::ImageFormat::Png).unwrap();
    let small = small.into_inner();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..256 {
        zlib.write_all(&zeros).unwrap();
    }
    let body = [b"iCCPx\0\0".as_slice(), &zlib.finish().unwrap()].concat();
    let mut sum = flate2::Crc::new();
    sum.update(&body);
    let mut bomb = small[..33].to_vec();
    bomb.extend(u32::try_from(body.len() - 4).unwrap().to_be_bytes());
    bomb.extend(&body);
    bomb.extend(sum.sum().to_be_bytes());
    bomb.extend(&small[33..]);
    let made = ImageTransform { max_side: Some(2), ..ImageTransform::default() }.carry_out(&bomb.into());
    match made {
        Ok(made) => assert!(steps(&made).contains(&"icc:dropped".to_owned()), "{:?}", steps(&made)),
        Err(error) => assert!(error.to_string().contains("limit"), "{error}"),
    }
}
