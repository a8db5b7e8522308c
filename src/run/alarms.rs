//! What is suspicious about the responses of a section, whatever its protocol: media that did not go out or did
//! not arrive, answers that are empty or withheld, clips whose length is not what their headers say.
//!
//! Looks at responses one at a time and keeps sums only.

use crate::types::{Outcome, Response};

/// Fewer requests than this are too few to be suspicious.
const ENOUGH: u64 = 10;
/// Tokens for a second of sound that no model is below: the most frugal ones take 6, most 10 to 50.
const FEWEST_PER_SECOND: f64 = 3.0;
/// More empty or withheld answers than this are suspicious.
const MOST_EMPTY: f64 = 0.10;

/// Sums over the responses of a section.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    answers: u64,
    empty: u64,
    filtered: u64,
    /// Answers to requests with media that were sent to an endpoint, and those of them without any byte of it.
    with_media: u64,
    without_bytes: u64,
    tokens: Line,
    counted_audio: bool,
    odd_lengths: u64,
    first_odd: Option<String>,
}

impl Alarms {
    /// One response more. `reused` ones are looked at like others.
    pub(super) fn add(&mut self, response: &Response) {
        self.lengths(response);
        if !response.outcome.is_answer() {
            return;
        }
        self.answers += 1;
        self.empty += u64::from(response.outcome == Outcome::Empty);
        self.filtered += u64::from(response.outcome == Outcome::ContentFilter);
        if response.media.is_empty() {
            return;
        }
        if let Some(bytes) = response.media_bytes {
            self.with_media += 1;
            self.without_bytes += u64::from(bytes == 0);
        }
        let usage = &response.usage;
        self.counted_audio |= usage.audio_tokens > 0;
        let seconds: Option<f64> =
            response.media.iter().map(|media| seconds_used(media.audio.as_ref()?)).sum();
        if let Some(seconds) = seconds.filter(|_| usage.prompt_tokens > 0) {
            self.tokens.add(seconds, usage.prompt_tokens as f64);
        }
    }

    /// Whether what was used of a whole clip lasts as long as its header says.
    fn lengths(&mut self, response: &Response) {
        for media in &response.media {
            let Some(record) = &media.audio else { continue };
            let whole = !record.steps.iter().any(|step| step.starts_with("window:"));
            let source = &record.source;
            if !whole || source.rate == 0 || record.rate == 0 {
                continue;
            }
            let declared = source.frames as f64 / f64::from(source.rate);
            let used = record.samples as f64 / f64::from(record.rate);
            if (declared - used).abs() > 0.01 * declared + 0.01 {
                self.odd_lengths += 1;
                self.first_odd.get_or_insert_with(|| {
                    format!("{} is {used:.2} s long and its header says {declared:.2} s", media.name)
                });
            }
        }
    }

    /// The sentences.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.without_bytes > 0 {
            warnings.push(format!(
                "{} of {} answered requests had media and not one byte of them was sent: the model answered \
                 without hearing or seeing; these scores say nothing about it",
                self.without_bytes, self.with_media
            ));
        }
        warnings.extend(self.deafness());
        let odd = self.empty + self.filtered;
        if self.answers >= ENOUGH && odd as f64 > MOST_EMPTY * self.answers as f64 {
            warnings.push(format!(
                "{odd} of {} answers are empty ({}) or withheld by a filter ({}), more than {:.0} %",
                self.answers,
                self.empty,
                self.filtered,
                100.0 * MOST_EMPTY
            ));
        }
        if let Some(first) = &self.first_odd {
            warnings.push(format!(
                "{} clips do not last as long as their headers say, the first of them: {first}",
                self.odd_lengths
            ));
        }
        warnings
    }

    /// Whether the tokens of prompts show that clips did not arrive.
    fn deafness(&self) -> Option<String> {
        let line = &self.tokens;
        if self.counted_audio || line.n < ENOUGH {
            return None;
        }
        let per_second = line.mean_y() / line.mean_x().max(f64::EPSILON);
        let finding = if per_second < FEWEST_PER_SECOND {
            format!("{per_second:.1} for a second of sound in all")
        } else {
            let (slope, error) = line.slope()?;
            if slope + 2.0 * error >= FEWEST_PER_SECOND {
                return None;
            }
            format!("{:.1} more for each second of sound", slope.max(0.0))
        };
        Some(format!(
            "the prompt tokens that the server counted do not grow with the clips ({finding}, over {} requests): \
             the audio probably did not arrive, unless this model takes the same number of tokens for every clip; \
             `harness check --probe` asks it",
            line.n
        ))
    }
}

/// Seconds of a clip that went to the model, where they are known.
pub(super) fn seconds_used(record: &crate::types::AudioRecord) -> Option<f64> {
    (record.rate > 0).then(|| record.samples as f64 / f64::from(record.rate))
}

/// A straight line through points, by least squares.
#[derive(Debug, Default)]
struct Line {
    n: u64,
    x: f64,
    y: f64,
    /// Sums of products of the distances from the means (Welford).
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1;
        let n = self.n as f64;
        let (dx, dy) = (x - self.x, y - self.y);
        self.x += dx / n;
        self.y += dy / n;
        self.xx += dx * (x - self.x);
        self.yy += dy * (y - self.y);
        self.xy += dx * (y - self.y);
    }

    fn mean_x(&self) -> f64 {
        self.x
    }

    fn mean_y(&self) -> f64 {
        self.y
    }

    /// The slope and its standard error; `None` where all `x` are about the same.
    fn slope(&self) -> Option<(f64, f64)> {
        let n = self.n as f64;
        if self.n < 3 || (self.xx / n).sqrt() < 0.1 {
            return None;
        }
        let slope = self.xy / self.xx;
        let rest = (self.yy - slope * self.xy).max(0.0);
        Some((slope, (rest / (n - 2.0) / self.xx).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{AudioRecord, AudioSource, Digest, MediaRecord, Usage, Window, testing};

    fn response(seconds: f64, prompt_tokens: u64, bytes: Option<u64>, outcome: Outcome) -> Response {
        let samples = (seconds * 16_000.0) as u64;
        let source =
            AudioSource { format: "wav".into(), rate: 16_000, channels: 1, bits: 16, frames: samples };
        let record =
            AudioRecord { source, window: Window::Whole, start: 0, samples, rate: 16_000, steps: vec![] };
        let media = MediaRecord {
            name: "a.wav".into(),
            digest: Digest::of(b"x"),
            bytes: 1,
            modified: None,
            audio: Some(record),
            image: None,
            sent: None,
        };
        Response {
            usage: Usage { prompt_tokens, ..Usage::default() },
            media: vec![media],
            media_bytes: bytes,
            ..testing::response(outcome, "")
        }
    }

    fn check(responses: impl Iterator<Item = Response>, expected: Option<&str>) {
        let mut alarms = Alarms::default();
        responses.for_each(|response| alarms.add(&response));
        let found = alarms.warnings();
        match expected {
            None => assert!(found.is_empty(), "{found:?}"),
            Some(text) => assert!(found.len() == 1 && found[0].contains(text), "{found:?}"),
        }
    }

    /// Texts of different lengths, in tokens.
    fn text(i: u64) -> u64 {
        40 + i * 7 % 23
    }

    #[test]
    fn tokens_that_do_not_grow_with_the_clips_are_suspicious() {
        let with = |tokens: fn(u64, f64) -> u64| {
            (0..40).map(move |i| {
                let seconds = 2.0 + (i * 5 % 13) as f64;
                response(seconds, tokens(i, seconds), Some(9), Outcome::Ok)
            })
        };
        check(with(|i, seconds| text(i) + (25.0 * seconds) as u64), None);
        check(with(|i, seconds| text(i) + (6.25 * seconds) as u64), None);
        check(with(|i, _| text(i)), Some("the audio probably did not arrive"));
        check(with(|_, _| 700), Some("do not grow with the clips (0.0 more for each second"));
        check(with(|_, _| 0), None);
        check(with(|i, _| text(i)).take(9), None);
    }

    #[test]
    fn clips_of_one_length_tell_by_the_sum() {
        let with = |tokens: u64| (0..20).map(move |_| response(30.0, tokens, None, Outcome::Ok));
        check(with(60), Some("2.0 for a second of sound in all"));
        check(with(800), None);
        let mut counted = response(30.0, 60, None, Outcome::Ok);
        counted.usage.audio_tokens = 5;
        check((0..20).map(|_| counted.clone()), None);
    }

    #[test]
    fn media_that_were_not_sent_empty_answers_and_odd_lengths_are_told() {
        let ok = |bytes| response(1.0, 0, bytes, Outcome::Ok);
        check([ok(Some(5)), ok(Some(0)), ok(None)].into_iter(), Some("1 of 2 answered requests had media"));
        let empty = |n: usize| {
            let odd = [Outcome::Empty, Outcome::ContentFilter].into_iter().cycle().take(n);
            let all = odd.chain(std::iter::repeat(Outcome::Ok)).take(20);
            all.map(|outcome| response(1.0, 0, None, outcome))
        };
        check(empty(2), None);
        check(empty(3), Some("3 of 20 answers are empty (2) or withheld by a filter (1), more than 10 %"));
        let mut odd = ok(None);
        odd.media[0].audio.as_mut().unwrap().source.frames = 32_000;
        check([odd.clone()].into_iter(), Some("a.wav is 1.00 s long and its header says 2.00 s"));
        odd.media[0].audio.as_mut().unwrap().steps.push("window:first".into());
        check([odd].into_iter(), None);
    }
}
