//! A small FLAC encoder, for tests and benchmarks: no crate of ours writes FLAC, and files that are made on
//! the spot can be long, odd or damaged. Compression is what a usual encoder reaches: linear prediction,
//! partitioned Rice codes, mid-side stereo.

#![allow(dead_code, reason = "each user takes a part")]

/// How samples are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Predictor {
    /// They are not: raw samples.
    Verbatim,
    /// From the last `order` samples, 0 to 4.
    Fixed(u32),
    /// From the last `order` samples, up to 12, with coefficients fitted to each block.
    Linear(u32),
}

/// What the encoder does.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) rate: u32,
    pub(crate) bits: u32,
    /// Samples of a frame.
    pub(crate) block: usize,
    pub(crate) predictor: Predictor,
    /// Whether two channels are coded as mid and side.
    pub(crate) mid_side: bool,
    /// Whether frames number their samples and differ in length.
    pub(crate) variable: bool,
    /// Whether the header says how many samples there are.
    pub(crate) total: bool,
    /// Bytes of padding after the header.
    pub(crate) padding: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rate: 16_000,
            bits: 16,
            block: 4096,
            predictor: Predictor::Linear(8),
            mid_side: true,
            variable: false,
            total: true,
            padding: 0,
        }
    }
}

/// Encodes channels of equal length.
pub(crate) fn encode(channels: &[Vec<i32>], options: &Options) -> Vec<u8> {
    let total = channels[0].len();
    let mut file = header(channels.len(), total as u64, options);
    let mut start = 0;
    let mut frame = 0;
    while start < total {
        // Frames of a variable stream take turns in length.
        let block =
            if options.variable { options.block - frame % 3 * options.block / 4 } else { options.block };
        let end = (start + block).min(total);
        let planes: Vec<&[i32]> = channels.iter().map(|channel| &channel[start..end]).collect();
        let number = if options.variable { start } else { frame };
        file.extend(seal(number as u64, end - start, channels.len(), &body(&planes, options), options));
        start = end;
        frame += 1;
    }
    file
}

/// Marker and metadata.
pub(crate) fn header(channels: usize, total: u64, options: &Options) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.bytes(b"fLaC");
    bits.put(if options.padding == 0 { 0x80 } else { 0 }, 8);
    bits.put(34, 24);
    let least = if options.variable { 16 } else { options.block };
    bits.put(least as u64, 16);
    bits.put(options.block as u64, 16);
    bits.put(0, 48);
    bits.put(u64::from(options.rate), 20);
    bits.put(channels as u64 - 1, 3);
    bits.put(u64::from(options.bits) - 1, 5);
    bits.put(if options.total { total } else { 0 }, 36);
    bits.bytes(&[0; 16]);
    if options.padding > 0 {
        bits.put(0x81, 8);
        bits.put(options.padding as u64, 24);
        bits.bytes(&vec![0; options.padding]);
    }
    bits.finish()
}

/// The part of a frame that does not depend on its number, whole bytes.
pub(crate) fn body(planes: &[&[i32]], options: &Options) -> Vec<u8> {
    let mut bits = Bits::default();
    if let ([left, right], true) = (planes, options.mid_side) {
        let mid: Vec<i32> = left.iter().zip(*right).map(|(left, right)| (left + right) >> 1).collect();
        let side: Vec<i32> = left.iter().zip(*right).map(|(left, right)| left - right).collect();
        subframe(&mut bits, &mid, options.bits, options.predictor);
        subframe(&mut bits, &side, options.bits + 1, options.predictor);
    } else {
        for plane in planes {
            subframe(&mut bits, plane, options.bits, options.predictor);
        }
    }
    bits.finish()
}

/// A frame: header, body, checksums.
pub(crate) fn seal(number: u64, samples: usize, channels: usize, body: &[u8], options: &Options) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0xfff8 | u64::from(options.variable), 16);
    bits.put(0x7, 4);
    bits.put(0, 4);
    bits.put(if channels == 2 && options.mid_side { 10 } else { channels as u64 - 1 }, 4);
    bits.put(0, 4);
    coded_number(&mut bits, number);
    bits.put(samples as u64 - 1, 16);
    let mut frame = bits.finish();
    frame.push(crc(&frame, 8, 0x07) as u8);
    frame.extend(body);
    frame.extend(crc16(&frame).to_be_bytes());
    frame
}

/// The checksums of a frame's header and of the frame.
pub(crate) fn checksums(header: &[u8], frame: &[u8]) -> (u8, u16) {
    (crc(header, 8, 0x07) as u8, crc16(frame))
}

fn coded_number(bits: &mut Bits, number: u64) {
    let length = (1..=7)
        .find(|length| number < 1 << (if *length == 1 { 7 } else { 5 * length + 1 }))
        .expect("one fits");
    if length == 1 {
        bits.put(number, 8);
        return;
    }
    let ones = (0xff_u64 << (8 - length)) & 0xff;
    bits.put(ones | number >> (6 * (length - 1)), 8);
    for i in (0..length - 1).rev() {
        bits.put(0x80 | (number >> (6 * i) & 0x3f), 8);
    }
}

fn subframe(bits: &mut Bits, samples: &[i32], width: u32, predictor: Predictor) {
    if samples.iter().all(|sample| *sample == samples[0]) {
        bits.put(0, 8);
        bits.put_signed(i64::from(samples[0]), width);
        return;
    }
    match predictor {
        Predictor::Fixed(order) if samples.len() > order as usize => {
            const COEFFICIENTS: [&[i64]; 5] = [&[], &[1], &[2, -1], &[3, -3, 1], &[4, -6, 4, -1]];
            bits.put(u64::from(0x08 | order) << 1, 8);
            let order = order as usize;
            bits.put_samples(&samples[..order], width);
            residual(bits, order, samples.len(), &residuals(samples, COEFFICIENTS[order], 0));
        }
        Predictor::Linear(order) if samples.len() > 4 * order as usize => {
            const PRECISION: u32 = 13;
            let (coefficients, shift) = fit(samples, order as usize, PRECISION);
            bits.put(u64::from(0x20 | (order - 1)) << 1, 8);
            let order = order as usize;
            bits.put_samples(&samples[..order], width);
            bits.put(u64::from(PRECISION) - 1, 4);
            bits.put_signed(i64::from(shift), 5);
            for coefficient in &coefficients {
                bits.put_signed(*coefficient, PRECISION);
            }
            residual(bits, order, samples.len(), &residuals(samples, &coefficients, shift));
        }
        _ => {
            bits.put(0x01 << 1, 8);
            bits.put_samples(samples, width);
        }
    }
}

fn residuals(samples: &[i32], coefficients: &[i64], shift: u32) -> Vec<i64> {
    (coefficients.len()..samples.len())
        .map(|i| {
            let past = samples[i - coefficients.len()..i].iter().rev();
            let sum: i64 = coefficients.iter().zip(past).map(|(c, sample)| c * i64::from(*sample)).sum();
            i64::from(samples[i]) - (sum >> shift)
        })
        .collect()
}

/// Rice codes in partitions, each with the parameter that suits its mean.
fn residual(bits: &mut Bits, warm_up: usize, samples: usize, residuals: &[i64]) {
    let order = (0..=4)
        .rev()
        .find(|order| samples.is_multiple_of(1 << order) && samples >> order > warm_up)
        .expect("one fits");
    bits.put(1, 2);
    bits.put(order, 4);
    let mut rest = residuals;
    for partition in 0..1 << order {
        let count = (samples >> order) - if partition == 0 { warm_up } else { 0 };
        let (own, others) = rest.split_at(count);
        rest = others;
        let folded = |value: &i64| ((value << 1) ^ (value >> 63)) as u64;
        let mean = own.iter().map(folded).sum::<u64>() / (count as u64).max(1);
        let parameter = (mean / 2 + 1).ilog2().min(30);
        bits.put(u64::from(parameter), 5);
        for value in own.iter().map(folded) {
            bits.zeros(value >> parameter);
            bits.put(1, 1);
            bits.put(value & ((1 << parameter) - 1), parameter);
        }
    }
}

/// Coefficients of linear prediction, quantised, and their scale.
fn fit(samples: &[i32], order: usize, precision: u32) -> (Vec<i64>, u32) {
    let length = samples.len() as f64;
    let windowed: Vec<f64> = samples
        .iter()
        .enumerate()
        .map(|(i, sample)| f64::from(*sample) * (std::f64::consts::PI * (i as f64 + 0.5) / length).sin())
        .collect();
    let correlation = |lag: usize| windowed.iter().zip(&windowed[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let r: Vec<f64> = (0..=order).map(correlation).collect();
    let mut error = r[0] * (1.0 + 1e-9) + 1.0;
    let mut a = vec![0.0; order];
    for i in 0..order {
        let reflection = (r[i + 1] - (0..i).map(|j| a[j] * r[i - j]).sum::<f64>()) / error;
        let before = a.clone();
        a[i] = reflection;
        for j in 0..i {
            a[j] = before[j] - reflection * before[i - 1 - j];
        }
        error *= 1.0 - reflection * reflection;
    }
    let largest = a.iter().fold(1e-9_f64, |largest, a| largest.max(a.abs()));
    let shift = (f64::from(precision) - 2.0 - largest.log2().floor()).clamp(0.0, 15.0);
    let limit = f64::from(1 << (precision - 1)) - 1.0;
    (a.iter().map(|a| (a * shift.exp2()).round().clamp(-limit, limit) as i64).collect(), shift as u32)
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// Bits that wait for a whole byte.
    rest: u64,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u64, count: u32) {
        self.rest = self.rest << count | value;
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.bytes.push((self.rest >> self.count) as u8);
        }
        self.rest &= (1 << self.count) - 1;
    }

    fn put_signed(&mut self, value: i64, count: u32) {
        self.put(value as u64 & ((1 << count) - 1), count);
    }

    fn put_samples(&mut self, samples: &[i32], width: u32) {
        for sample in samples {
            self.put_signed(i64::from(*sample), width);
        }
    }

    fn zeros(&mut self, mut count: u64) {
        while count > 0 {
            let now = count.min(32) as u32;
            self.put(0, now);
            count -= u64::from(now);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.put(u64::from(*byte), 8);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        self.bytes
    }
}

fn crc(bytes: &[u8], width: u32, polynomial: u32) -> u32 {
    let top = 1 << (width - 1);
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << (width - 8), |crc, _| {
            (crc << 1 ^ if crc & top == 0 { 0 } else { polynomial }) & ((top << 1) - 1)
        })
    })
}

fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut crc = (i as u16) << 8;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    bytes.iter().fold(0, |crc, byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}
