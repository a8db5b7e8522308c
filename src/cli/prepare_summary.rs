//! What `harness prepare` says at its end: what was found in all sets together, and how true to it the files are.

use std::fmt::Write as _;

use super::progress::{duration, plural};
use crate::dataset::prepared::{Counts, Sentences};
use crate::types::size;

/// The sum of several sets; `Counts` of a set knows no other.
fn sum(sets: &[Counts]) -> Counts {
    let mut all = Counts::default();
    for set in sets {
        // Named one by one, so that a count that is added is not forgotten here.
        let Counts {
            rows,
            files,
            file_bytes,
            audio_ms,
            original,
            pcm16,
            float32,
            rounded,
            loud,
            beyond,
            absent,
            problems,
            faults,
            sentences,
        } = *set;
        for (all, one) in [
            (&mut all.rows, rows),
            (&mut all.files, files),
            (&mut all.file_bytes, file_bytes),
            (&mut all.audio_ms, audio_ms),
            (&mut all.original, original),
            (&mut all.pcm16, pcm16),
            (&mut all.float32, float32),
            (&mut all.rounded, rounded),
            (&mut all.loud, loud),
            (&mut all.beyond, beyond),
            (&mut all.absent, absent),
            (&mut all.problems, problems),
            (&mut all.faults, faults),
        ] {
            *all += one;
        }
        if let Some(sentences) = sentences {
            *all.sentences.get_or_insert_default() += sentences;
        }
    }
    all
}

/// A few lines on what was found, for as many sets as there are.
pub(super) fn summary(sets: &[Counts]) -> String {
    let all = sum(sets);
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:12}{text}");
    };
    let audio = match all.audio_ms {
        0 => String::new(),
        ms => format!(", {} of audio", duration(ms as f64 / 1000.0)),
    };
    let files = plural(all.files, "file");
    line("in all", format!("{}, {files}, {}{audio}", plural(all.rows, "row"), size(all.file_bytes)));
    if let Some(Sentences { recorded, missing, several }) = all.sentences {
        let text = format!(
            "{recorded} recorded, {missing} missing, {several} by more than one speaker (each passage counted once)"
        );
        line("sentences", text);
    }
    let exact = [
        (all.original, "as published"),
        (all.pcm16, "16-bit with the same values"),
        (all.float32, "32-bit floats with the same values"),
    ];
    let kinds: Vec<_> = exact.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let exactly = exact.iter().map(|(n, _)| n).sum();
    let kinds = if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
    line("bit-exact", format!("{}{kinds}", plural(exactly, "file")));
    let rounded = match all.rounded {
        0 => "no file".to_owned(),
        n => format!("{}: 64-bit floats rounded to 32 bits", plural(n, "file")),
    };
    line("not exact", rounded);
    // Files that are kept as they were published are not decoded: nothing is known of their peaks.
    let made = all.pcm16 + all.float32 + all.rounded;
    if made > 0 {
        let of = format!("of {} made from lists of samples", plural(made, "file"));
        let loud = match all.loud {
            0 => format!("none {of}"),
            n => format!("{n} {of}: {} beyond full scale, kept", plural(all.beyond, "sample")),
        };
        line("peak > 1", loud);
        line("clipped", format!("none {of}: no value is cut off at full scale"));
    }
    if all.absent > 0 {
        line("empty", format!("{} without a recording", plural(all.absent, "place")));
    }
    if all.problems > 0 {
        let text = match all.faults {
            0 => format!("{}, which the same command would meet again", plural(all.problems, "problem")),
            n => format!("{}, of which the same command tries {n} again", plural(all.problems, "problem")),
        };
        line("problems", text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sets_are_told_together_and_what_is_not_there_is_left_out() {
        let one = Counts {
            rows: 900,
            files: 10,
            file_bytes: 2_000_000,
            audio_ms: 3_000,
            pcm16: 7,
            float32: 2,
            rounded: 1,
            loud: 1,
            beyond: 17,
            absent: 4,
            sentences: Some(Sentences { recorded: 8, missing: 2, several: 3 }),
            ..Counts::default()
        };
        let other = Counts { rows: 100, problems: 3, faults: 1, ..one };
        let text = summary(&[one, other]);
        for line in [
            "  in all      1000 rows, 20 files, 4.0 MB, ",
            "  sentences   16 recorded, 4 missing, 6 by more than one speaker (each passage counted once)\n",
            "  bit-exact   18 files: 14 16-bit with the same values, 4 32-bit floats with the same values\n",
            "  not exact   2 files: 64-bit floats rounded to 32 bits\n",
            "  peak > 1    2 of 20 files made from lists of samples: 34 samples beyond full scale, kept\n",
            "  clipped     none of 20 files made from lists of samples: no value is cut off at full scale\n",
            "  empty       8 places without a recording\n",
            "  problems    3 problems, of which the same command tries 1 again\n",
        ] {
            assert!(text.contains(line), "`{line}` is not in\n{text}");
        }
        let images = summary(&[Counts { rows: 6, files: 6, original: 6, ..Counts::default() }]);
        assert!(images.contains("  bit-exact   6 files: 6 as published\n"), "{images}");
        assert!(images.contains("  not exact   no file\n"), "{images}");
        for word in ["sentences", "problems", "peak", "clipped", "audio"] {
            assert!(!images.contains(word), "{images}");
        }
    }
}
