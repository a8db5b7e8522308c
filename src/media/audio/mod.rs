//! Audio: sniff, decode, downmix, resample, window; log-mel for local models.
