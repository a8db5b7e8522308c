//! Audio: sniff, decode, downmix, resample, window; log-mel for local models.

pub mod mel;

#[cfg(test)]
mod fixtures;
