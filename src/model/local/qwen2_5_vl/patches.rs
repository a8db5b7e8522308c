//! From pixels to the rows that the vision tower takes: one for each patch, normalised.

use candle_core::Result;

use super::config::{CHANNELS, Processor, VisionConfig};
use super::layout::Grid;
use crate::types::RgbImage;

/// The tokens that an image becomes.
pub(super) fn grid(image: &RgbImage, vision: &VisionConfig) -> std::result::Result<Grid, String> {
    let side = vision.patch * vision.merge;
    let fits = |length: usize| length > 0 && length.is_multiple_of(side);
    let values = image.width.checked_mul(image.height).and_then(|pixels| pixels.checked_mul(CHANNELS));
    if !fits(image.width) || !fits(image.height) || values != Some(image.data.len()) {
        return Err(format!(
            "an image came with {} x {} pixels, and the model takes sides that are multiples of {side}",
            image.width, image.height
        ));
    }
    Ok(Grid { rows: image.height / side, columns: image.width / side })
}

/// Appends the patches of an image to `out`, block by block in the order that is given, each block row by row. A patch
/// has its channels one behind the other; each has `frames` copies of its rows. In the image's own order this is
/// `pixel_values` of the reference.
pub(super) fn append(
    image: &RgbImage,
    vision: &VisionConfig,
    processor: &Processor,
    order: &[usize],
    out: &mut Vec<f32>,
) -> Result<()> {
    let (side, merge) = (vision.patch, vision.merge);
    let columns = (image.width / (side * merge)).max(1);
    out.reserve(order.len() * merge * merge * vision.patch_values());
    for &token in order {
        for at in 0..merge * merge {
            let top = (token / columns * merge + at / merge) * side;
            let left = (token % columns * merge + at % merge) * side;
            for (channel, table) in processor.tables.iter().enumerate() {
                let first = out.len();
                for y in top..top + side {
                    let start = (y * image.width + left) * CHANNELS;
                    let Some(row) = image.data.get(start..start + side * CHANNELS) else {
                        candle_core::bail!("a patch lies outside of its image");
                    };
                    out.extend(row.chunks_exact(CHANNELS).map(|pixel| table[usize::from(pixel[channel])]));
                }
                let last = out.len();
                for _ in 1..vision.frames {
                    out.extend_from_within(first..last);
                }
            }
        }
    }
    Ok(())
}
