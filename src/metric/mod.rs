//! Metrics: pure functions from values to values. No I/O, no async, no clock; they cannot panic on any input.
