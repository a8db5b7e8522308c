//! The cost of scoring: what a full run of 64,000 answers spends in metrics.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use harness::metric::{edit, f1};

/// A text of `words` words that depends on `seed` alone.
fn text(words: u64, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..words).fold(String::new(), |mut text, _| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = write!(text, "w{} ", (state >> 33) % 500);
        text
    })
}

/// The same text with about one word in ten changed, dropped or doubled.
fn misheard(text: &str) -> String {
    text.split(' ').enumerate().fold(String::new(), |mut out, (i, word)| {
        let _ = match i % 30 {
            7 => write!(out, "x{word} "),
            17 => Ok(()),
            27 => write!(out, "{word} {word} "),
            _ => write!(out, "{word} "),
        };
        out
    })
}

fn error_rates(c: &mut Criterion) {
    let reference = text(100, 1);
    let (near, far) = (misheard(&reference), text(100, 2));
    c.bench_function("wer/100 words/10 % wrong", |b| {
        b.iter(|| edit::word_edits(black_box(&reference), black_box(&near), edit::Normaliser::Basic));
    });
    c.bench_function("wer/100 words/unrelated", |b| {
        b.iter(|| edit::word_edits(black_box(&reference), black_box(&far), edit::Normaliser::Basic));
    });
    let reference = text(20_000, 3);
    let near = misheard(&reference);
    let mut group = c.benchmark_group("slow");
    group.sample_size(10);
    group.bench_function("cer/100,000 characters/10 % wrong", |b| {
        b.iter(|| edit::char_edits(black_box(&reference), black_box(&near), edit::Normaliser::Basic));
    });
    group.finish();
}

fn f1_pairs(c: &mut Criterion) {
    let pairs: Vec<(String, String)> = (0..100_000).map(|i| (text(3, i), text(3, i / 2))).collect();
    let mut group = c.benchmark_group("f1");
    group.sample_size(10).throughput(Throughput::Elements(pairs.len() as u64));
    group.bench_function("char_set/100,000 pairs", |b| {
        b.iter(|| pairs.iter().map(|(gold, answer)| f1::char_set(gold, answer)).sum::<f64>());
    });
    group.bench_function("token_set/100,000 pairs", |b| {
        b.iter(|| pairs.iter().map(|(gold, answer)| f1::token_set(gold, answer)).sum::<f64>());
    });
    group.finish();
}

criterion_group!(benches, error_rates, f1_pairs);
criterion_main!(benches);
