//! Images for models that cut them into patches: RGB in a size whose sides the patches divide.
//!
//! The rules are those of `Qwen2VLImageProcessor` of transformers 5.24.0 with Pillow: transparency over white, 8 bits a
//! channel, `smart_resize`, bicubic. An orientation tag is passed over, as the reference passes it over in images that
//! are open already, unless the config asks for `orient`. This module must not know what models make of the pixels.

use super::decode::{Decoded, Opened};
use super::error::ImageError;
use super::header::ImageFacts;
use super::resize::{Filter, Pixels};
use super::transform::{ImageTransform, over_white};
use crate::model::PatchNeed;
use crate::types::{ImageRecord, ImageSource, RgbImage};

/// The most that one side may be longer than the other: the reference refuses what is longer.
const MOST_RATIO: u32 = 200;

/// The size that an image of `width` x `height` pixels gets: both sides multiples of `patch * merge`, the number of
/// pixels within the limits, the proportions kept as far as that allows.
pub fn patched_size((width, height): (u32, u32), need: &PatchNeed) -> Result<(u32, u32), ImageError> {
    let (long, short) = (width.max(height), width.min(height));
    if short == 0 {
        return Err(ImageError::Zero { width, height });
    }
    if f64::from(long) / f64::from(short) > f64::from(MOST_RATIO) {
        return Err(ImageError::Thin { width, height, most: MOST_RATIO });
    }
    let unit = f64::from(need.patch.max(1)) * f64::from(need.merge.max(1));
    let (wide, high) = (f64::from(width), f64::from(height));
    // Python rounds halves to even.
    let nearest = |side: f64| (side / unit).round_ties_even() * unit;
    let pixels = nearest(wide) * nearest(high);
    let (to_width, to_height) = if pixels > need.max_pixels as f64 {
        let beta = (high * wide / need.max_pixels as f64).sqrt();
        let smaller = |side: f64| ((side / beta / unit).floor() * unit).max(unit);
        (smaller(wide), smaller(high))
    } else if pixels < need.min_pixels as f64 {
        let beta = (need.min_pixels as f64 / (high * wide)).sqrt();
        let larger = |side: f64| (side * beta / unit).ceil() * unit;
        (larger(wide), larger(high))
    } else {
        (nearest(wide), nearest(high))
    };
    // Limits that a config sets may be larger than what is decoded.
    let most = super::decode::MOST_PIXELS as f64;
    if to_width * to_height > most || to_width < unit || to_height < unit {
        return Err(ImageError::Patches { width, height, min: need.min_pixels, max: need.max_pixels });
    }
    Ok((to_width as u32, to_height as u32))
}

/// The size that an opened image gets.
fn size_of(opened: &Opened<'_>, need: &PatchNeed, asked: &ImageTransform) -> Result<(u32, u32), ImageError> {
    let need = PatchNeed { max_pixels: asked.max_pixels.unwrap_or(need.max_pixels), ..*need };
    let seen = if asked.orient { opened.upright() } else { opened.size };
    patched_size(seen, &need)
}

/// Format and size of an image; what [`fit`] would refuse it with by its header and its structure. Nothing is decoded.
pub fn probe_fit(bytes: &[u8], need: &PatchNeed, asked: &ImageTransform) -> Result<ImageFacts, ImageError> {
    let opened = Opened::new(bytes)?;
    size_of(&opened, need, asked)?;
    opened.check_whole()?;
    Ok(opened.facts())
}

/// The image of a file as the model gets it. Of `asked` only `max_pixels`, in place of the model's own, and `orient`
/// count.
pub fn fit(
    bytes: &[u8],
    need: &PatchNeed,
    asked: &ImageTransform,
) -> Result<(RgbImage, ImageRecord), ImageError> {
    let opened = Opened::new(bytes)?;
    let source =
        ImageSource { format: opened.format.to_owned(), width: opened.size.0, height: opened.size.1 };
    // Refused before the work of decoding.
    let (width, height) = size_of(&opened, need, asked)?;
    let Decoded { mut pixels, mut steps } = opened.decode(asked.orient)?;
    if matches!(pixels.channels(), 2 | 4) {
        pixels = over_white(pixels);
        steps.push("alpha:white".to_owned());
    }
    // Grey is resized as it is: three equal channels would come out equal.
    if (pixels.width(), pixels.height()) != (width as usize, height as usize) {
        pixels = pixels.resized(width as usize, height as usize, Filter::Bicubic);
        steps.push(format!("resize:bicubic:{width}x{height}"));
    }
    steps.push(format!("grid:1x{}x{}", height / need.patch.max(1), width / need.patch.max(1)));
    let image = RgbImage { width: width as usize, height: height as usize, data: coloured(pixels) };
    Ok((image, ImageRecord { source, width, height, steps }))
}

/// Three values a pixel.
fn coloured(pixels: Pixels) -> Vec<u8> {
    if pixels.channels() == 3 {
        return pixels.into_data();
    }
    pixels.data().iter().flat_map(|&grey| [grey; 3]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PUBLISHED: PatchNeed = PatchNeed { patch: 14, merge: 2, min_pixels: 3136, max_pixels: 12_845_056 };

    /// Expected sizes are those of `smart_resize` in transformers 5.24.0.
    #[test]
    fn sizes_are_those_of_the_reference() {
        let small = PatchNeed { min_pixels: 3136, max_pixels: 100_352, ..PUBLISHED };
        for (size, need, expected) in [
            ((1000, 750), PUBLISHED, (1008, 756)),
            ((640, 401), small, (392, 224)),
            ((23, 31), small, (56, 84)),
            ((56, 56), small, (56, 56)),
            // 42 lies halfway between 28 and 56, 70 between 56 and 84: to even multiples.
            ((42, 70), PatchNeed { min_pixels: 1, ..small }, (56, 56)),
            ((4000, 3000), PUBLISHED, (4004, 2996)),
            ((6000, 4000), PUBLISHED, (4368, 2912)),
            ((10, 2000), small, (28, 812)),
            ((1, 200), small, (28, 812)),
        ] {
            assert_eq!(patched_size(size, &need).unwrap(), expected, "{size:?}");
        }
        let thin = patched_size((1, 201), &small).unwrap_err().to_string();
        assert!(thin.contains("1 x 201") && thin.contains("200 times"), "{thin}");
        assert!(patched_size((0, 5), &small).is_err());
    }

    proptest! {
        #[test]
        fn sizes_can_be_cut_into_patches(width in 1..70_000_u32, height in 1..70_000_u32, most in 784..20_000_000_u64) {
            let need = PatchNeed { max_pixels: most, min_pixels: 784, ..PUBLISHED };
            if let Ok((wide, high)) = patched_size((width, height), &need) {
                prop_assert!(wide % 28 == 0 && high % 28 == 0 && wide > 0 && high > 0);
                // Only an image that is one patch across may have more.
                let pixels = u64::from(wide) * u64::from(high);
                prop_assert!(pixels <= most || wide == 28 || high == 28, "{wide} x {high} > {most}");
            }
        }
    }
}
