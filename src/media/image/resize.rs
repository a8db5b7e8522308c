//! Resizing as Pillow does it, to the last bit: what vision models were trained on.
//!
//! Two passes with 8-bit values between them, the horizontal one first but for images that become much shorter. Weights are computed in `f64` and applied as integers
//! with 22 bits behind the point. The arithmetic is that of Pillow's `Resample.c`; the loops are our own, laid out so
//! that the compiler finds vectors in them. This module must not know formats, files or configs.

#![expect(clippy::inline_always, reason = "vector instructions reach only what is inlined")]

use std::f64::consts::PI;

/// Bits behind the point of a weight.
const PRECISION: u32 = 32 - 8 - 2;
/// One half, so that the shift rounds.
const HALF: i32 = 1 << (PRECISION - 1);
/// Values that the vertical pass works on at once.
const LANES: usize = 32;

/// How pixels between pixels are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// A triangle.
    Bilinear,
    /// Keys' cubic with a = -0.5.
    #[default]
    Bicubic,
    /// A sinc of three lobes.
    Lanczos,
}

impl Filter {
    /// The name used in configs and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bilinear => "bilinear",
            Self::Bicubic => "bicubic",
            Self::Lanczos => "lanczos",
        }
    }

    /// How far it reaches, in pixels of the smaller image.
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn at(self, x: f64) -> f64 {
        match self {
            Self::Bilinear => (1.0 - x.abs()).max(0.0),
            Self::Bicubic => {
                const A: f64 = -0.5;
                let x = x.abs();
                if x < 1.0 {
                    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
                } else if x < 2.0 {
                    (((x - 5.0) * x + 8.0) * x - 4.0) * A
                } else {
                    0.0
                }
            }
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Lanczos => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let x = x * PI;
    x.sin() / x
}

/// The weights of one side: for each value of the output the first value of the input and a weight for each from
/// there on.
struct Weights {
    starts: Vec<(usize, usize)>,
    /// `longest` weights for each value of the output.
    values: Vec<i32>,
    longest: usize,
}

impl Weights {
    fn new(from: usize, to: usize, filter: Filter) -> Self {
        let scale = from as f64 / to as f64;
        let stretch = scale.max(1.0);
        let support = filter.support() * stretch;
        let longest = (support.ceil() as usize * 2 + 1).min(from.max(1));
        let mut starts = Vec::with_capacity(to);
        let mut values = vec![0; to * longest];
        let mut row = Vec::with_capacity(longest);
        for (at, out) in values.chunks_exact_mut(longest).enumerate() {
            let centre = (at as f64 + 0.5) * scale;
            // Casts cut towards zero, and below zero at zero.
            let start = ((centre - support + 0.5) as usize).min(from);
            let end = ((centre + support + 0.5) as usize).clamp(start, from);
            row.clear();
            row.extend((start..end).map(|x| filter.at((x as f64 - centre + 0.5) * (1.0 / stretch))));
            let sum: f64 = row.iter().fold(0.0, |sum, weight| sum + weight);
            for (out, weight) in out.iter_mut().zip(&row) {
                let weight = if sum == 0.0 { *weight } else { *weight / sum } * f64::from(1 << PRECISION);
                *out = (if weight < 0.0 { weight - 0.5 } else { weight + 0.5 }) as i32;
            }
            starts.push((start, (end - start).min(longest)));
        }
        Self { starts, values, longest }
    }

    /// For each value of the output: the first input, and the weights.
    fn each(&self) -> impl Iterator<Item = (usize, &[i32])> {
        let rows = self.values.chunks_exact(self.longest);
        self.starts.iter().zip(rows).map(|((start, n), row)| (*start, row.get(..*n).unwrap_or(row)))
    }
}

#[inline(always)]
fn clip(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

/// An image of 8-bit values, row by row, the channels of a pixel next to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    width: usize,
    height: usize,
    channels: usize,
    data: Vec<u8>,
}

impl Pixels {
    /// An image. `None` where `data` has another length than the size says, a side is 0, or a pixel has no or more
    /// than four channels.
    pub fn new(width: usize, height: usize, channels: usize, data: Vec<u8>) -> Option<Self> {
        let length = width.checked_mul(height)?.checked_mul(channels)?;
        let fits = length == data.len() && length > 0 && channels <= 4;
        fits.then_some(Self { width, height, channels, data })
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Values of a pixel: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The values.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The values, given away.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// The image in another size, as `Image.resize((width, height), filter)` of Pillow gives it. Colours count by
    /// their alpha where there is one. A size of 0 is taken as 1.
    #[must_use]
    pub fn resized(self, width: usize, height: usize, filter: Filter) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        if (width, height) == (self.width, self.height) {
            return self;
        }
        let has_alpha = self.channels == 2 || self.channels == 4;
        let mut image = self;
        if has_alpha {
            image.premultiply();
        }
        if image.is_shorter_first(width, height) {
            image.stretch_down(height, filter);
            image.stretch_across(width, height, filter);
        } else {
            image.stretch_across(width, height, filter);
            image.stretch_down(height, filter);
        }
        if has_alpha {
            image.unpremultiply();
        }
        image
    }

    /// Whether Pillow makes the image shorter before it changes its width: where it loses more than twice as many rows
    /// as columns. Found by trying, with Pillow 13.0.0; the fixtures lie on both sides.
    fn is_shorter_first(&self, width: usize, height: usize) -> bool {
        let lost = |from: usize, to: usize| from as i64 - to as i64;
        let (rows, columns) = (lost(self.height, height), lost(self.width, width));
        rows > 0 && columns != 0 && rows > 2 * columns
    }

    /// Changes the width. `height` is what the image will have: rows that it does not need are left out.
    fn stretch_across(&mut self, width: usize, height: usize, filter: Filter) {
        if width == self.width {
            return;
        }
        let weights = Weights::new(self.width, width, filter);
        let used = if height == self.height {
            (0, height)
        } else {
            span(&Weights::new(self.height, height, filter), self.height)
        };
        let image = &*self;
        let data = pulp::Arch::new().dispatch(|| match image.channels {
            1 => across::<1>(image, &weights, used),
            2 => across::<2>(image, &weights, used),
            3 => across::<3>(image, &weights, used),
            _ => across::<4>(image, &weights, used),
        });
        (self.data, self.width) = (data, width);
    }

    /// Changes the height.
    fn stretch_down(&mut self, height: usize, filter: Filter) {
        if height == self.height {
            return;
        }
        let weights = Weights::new(self.height, height, filter);
        let image = &*self;
        let data = pulp::Arch::new().dispatch(|| down(image, &weights));
        (self.data, self.height) = (data, height);
    }

    fn premultiply(&mut self) {
        for pixel in self.data.chunks_exact_mut(self.channels) {
            let Some((alpha, colours)) = pixel.split_last_mut() else { continue };
            for colour in colours {
                // Pillow's MULDIV255.
                let product = u32::from(*colour) * u32::from(*alpha) + 128;
                *colour = ((product + (product >> 8)) >> 8) as u8;
            }
        }
    }

    fn unpremultiply(&mut self) {
        for pixel in self.data.chunks_exact_mut(self.channels) {
            let Some((alpha, colours)) = pixel.split_last_mut() else { continue };
            if matches!(*alpha, 0 | 255) {
                continue;
            }
            for colour in colours {
                *colour = (255 * u32::from(*colour) / u32::from(*alpha)).min(255) as u8;
            }
        }
    }
}

/// The rows of the input that any row of the output needs.
fn span(rows: &Weights, height: usize) -> (usize, usize) {
    let first = rows.starts.iter().map(|(start, _)| *start).min().unwrap_or(0);
    let last = rows.starts.iter().map(|(start, n)| start + n).max().unwrap_or(height);
    (first, last)
}

/// The horizontal pass. Rows that are not `used` stay zero.
#[inline(always)]
fn across<const CHANNELS: usize>(image: &Pixels, weights: &Weights, used: (usize, usize)) -> Vec<u8> {
    let out_row = weights.starts.len() * CHANNELS;
    let mut out = vec![0; out_row * image.height];
    // Pixels are read four bytes at a time: the last one needs bytes behind it.
    let mut padded = vec![0; image.width * CHANNELS + 4];
    let rows = image.data.chunks_exact(image.width * CHANNELS).zip(out.chunks_exact_mut(out_row));
    for (row, out) in rows.take(used.1).skip(used.0) {
        if let Some(room) = padded.get_mut(..row.len()) {
            room.copy_from_slice(row);
        }
        for ((start, weights), out) in weights.each().zip(out.chunks_exact_mut(CHANNELS)) {
            let mut sums = [HALF; 4];
            let first = start * CHANNELS;
            let Some(pixels) = padded.get(first..first + weights.len() * CHANNELS + 4 - CHANNELS) else {
                continue;
            };
            for (pixel, weight) in pixels.windows(4).step_by(CHANNELS).zip(weights) {
                let Some(pixel) = pixel.first_chunk::<4>() else { continue };
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum += i32::from(*value) * weight;
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = clip(sum);
            }
        }
    }
    out
}

/// The vertical pass.
#[inline(always)]
fn down(image: &Pixels, weights: &Weights) -> Vec<u8> {
    let row = image.width * image.channels;
    let mut out = vec![0; row * weights.starts.len()];
    for ((start, weights), out) in weights.each().zip(out.chunks_exact_mut(row)) {
        let Some(rows) = image.data.get(start * row..(start + weights.len()) * row) else { continue };
        let mut pieces = out.chunks_exact_mut(LANES);
        let mut at = 0;
        for piece in pieces.by_ref() {
            let mut sums = [HALF; LANES];
            for (values, weight) in rows.chunks_exact(row).zip(weights) {
                let Some(values) = values.get(at..).and_then(|values| values.first_chunk::<LANES>()) else {
                    continue;
                };
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += i32::from(*value) * weight;
                }
            }
            for (out, sum) in piece.iter_mut().zip(sums) {
                *out = clip(sum);
            }
            at += LANES;
        }
        for (offset, out) in pieces.into_remainder().iter_mut().enumerate() {
            let column = rows.iter().skip(at + offset).step_by(row);
            *out =
                clip(column.zip(weights).fold(HALF, |sum, (value, weight)| sum + i32::from(*value) * weight));
        }
    }
    out
}
