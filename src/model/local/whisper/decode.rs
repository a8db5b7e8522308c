//! From what was heard to text: control tokens, language, suppressed tokens, and the rules of the fallback.

use candle_core::{Result, Tensor};

use super::Whisper;
use super::config::Task;
use crate::model::local::sampler::Sampler;
use crate::types::{Digest, Generation};

/// How a clip is to be transcribed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings<'a> {
    /// The most tokens of a window.
    pub max_tokens: usize,
    /// How tokens are picked; greedily where it is not said.
    pub generation: Option<&'a Generation>,
    /// Seeds of what is drawn: the run's,
    pub seed: u64,
    /// and the clip's own.
    pub key: Digest,
    /// What is done about windows that seem to have failed; nothing by default.
    pub fallback: Option<Fallback>,
}

impl Default for Settings<'_> {
    /// Greedy, as many tokens as the model has room for, no fallback.
    fn default() -> Self {
        Self { max_tokens: usize::MAX, generation: None, seed: 0, key: Digest([0; 32]), fallback: None }
    }
}

/// The fallback of the original implementation: a window whose text repeats itself, or whose tokens were unlikely, is
/// decoded again by drawing, at 0.2, 0.4, … 1.0; the last try stays. A window that is likely silent and whose tokens were
/// unlikely is empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fallback {
    /// The text's bytes over its zlib-compressed bytes: more is a failure.
    pub max_compression_ratio: f64,
    /// The mean natural logarithm of the tokens' probabilities: less is a failure.
    pub min_mean_logprob: f64,
    /// The probability of silence: more, with unlikely tokens, is silence.
    pub max_no_speech: f64,
}

impl Default for Fallback {
    /// As in the original implementation.
    fn default() -> Self {
        Self { max_compression_ratio: 2.4, min_mean_logprob: -1.0, max_no_speech: 0.6 }
    }
}

/// The temperatures of further tries.
const TEMPERATURES: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 1.0];

/// What was heard in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowTranscript {
    /// The text, blanks at its beginning included.
    pub text: String,
    /// The tokens, control tokens included.
    pub tokens: Vec<u32>,
    /// How many of them are the control tokens at the beginning.
    pub control_tokens: usize,
    /// The mean natural logarithm of the probabilities of the tokens behind them.
    pub mean_logprob: f64,
    /// The probability that nothing is said, as the model has it at the start; 0 where it has no token for that.
    pub no_speech: f64,
    /// The temperature at which it was decoded.
    pub temperature: f64,
    /// Whether the model ended it by itself.
    pub ended: bool,
}

/// One window to be decoded.
pub(super) struct Ask<'a> {
    /// The language's token, if it is known.
    pub language: Option<u32>,
    /// The row whose language it has, if it is not.
    pub leader: usize,
    /// Which window of its clip it is.
    pub window: usize,
    /// What is to be done.
    pub task: Task,
    /// How.
    pub settings: &'a Settings<'a>,
}

type Decoded = std::result::Result<(Option<u32>, WindowTranscript), String>;

/// One window under way.
struct Row {
    /// Its place among those that were asked.
    place: usize,
    ids: Vec<u32>,
    control: usize,
    sampler: Sampler,
    limit: usize,
    logprob: f64,
    no_speech: f64,
    temperature: f64,
    language: Option<u32>,
    ended: bool,
}

impl Whisper {
    /// Decodes windows together; gives the language's token and the transcript of each.
    pub(super) fn decode(&self, heard: &[Tensor], asks: &[Ask<'_>]) -> Result<Vec<Decoded>> {
        let mut results: Vec<Option<Decoded>> = (0..asks.len()).map(|_| None).collect();
        let first: Vec<(usize, Option<f64>)> = (0..asks.len()).map(|place| (place, None)).collect();
        let mut again = self.attempt(heard, asks, &first, &mut results)?;
        for temperature in TEMPERATURES {
            if again.is_empty() {
                break;
            }
            let tries: Vec<(usize, Option<f64>)> =
                again.iter().map(|&place| (place, Some(temperature))).collect();
            again = self.attempt(heard, asks, &tries, &mut results)?;
        }
        Ok(results
            .into_iter()
            .map(|result| result.unwrap_or_else(|| Err("no token came".to_owned())))
            .collect())
    }

    /// One try at some of the windows, at a temperature of its own or that of the request. Gives the windows that failed.
    fn attempt(
        &self,
        heard: &[Tensor],
        asks: &[Ask<'_>],
        tries: &[(usize, Option<f64>)],
        results: &mut [Option<Decoded>],
    ) -> Result<Vec<usize>> {
        let chosen: Vec<Tensor> = tries.iter().map(|&(place, _)| heard[place].clone()).collect();
        let room = self.config.positions;
        let most = asks.iter().map(|ask| ask.settings.max_tokens).max().unwrap_or(0);
        let mut state = self.decoder.begin(&chosen, most.saturating_add(8).min(room))?;
        let control = &self.control;

        // The start token tells language and silence.
        let hidden = self.decoder.step(&vec![control.start; tries.len()], &mut state)?;
        let beginnings = self.decoder.logits(&hidden)?;
        let found: Vec<Option<u32>> =
            beginnings.iter().map(|logits| self.likeliest_language(logits)).collect();
        let mut rows = Vec::with_capacity(tries.len());
        for ((&(place, temperature), logits), found) in tries.iter().zip(&beginnings).zip(&found) {
            let ask = &asks[place];
            let known = || results[ask.leader].as_ref().and_then(|result| result.as_ref().ok()?.0);
            let leader = tries.iter().position(|&(other, _)| other == ask.leader);
            let language = ask
                .language
                .or_else(known)
                .or_else(|| leader.and_then(|leader| rows.get(leader)).and_then(|row: &Row| row.language))
                .or(*found);
            let ids = control.prompt(language, ask.task);
            let mut generation = ask.settings.generation.cloned().unwrap_or_default();
            if let Some(temperature) = temperature {
                generation.temperature = Some(temperature);
            }
            let key = [&ask.settings.key.0[..], &ask.window.to_le_bytes()].concat();
            let sampler =
                Sampler::new(&generation, &ids, self.config.vocabulary, ask.settings.seed, Digest::of(&key));
            let sampler = match sampler {
                Ok(sampler) => sampler,
                Err(sentence) => candle_core::bail!("{sentence}"),
            };
            rows.push(Row {
                place,
                control: ids.len(),
                limit: ask.settings.max_tokens.min(room.saturating_sub(ids.len())),
                sampler,
                ids,
                logprob: 0.0,
                no_speech: control.no_speech.map_or(0.0, |id| log_probability(logits, id).exp()),
                // The sampler takes none without.
                temperature: generation.temperature.unwrap_or_default(),
                language,
                ended: false,
            });
        }
        // All prompts have the same length.
        let length = rows.first().map_or(1, |row| row.control);
        let mut hidden = hidden;
        for at in 1..length {
            let ids: Vec<u32> = rows.iter().filter_map(|row| row.ids.get(at).copied()).collect();
            hidden = self.decoder.step(&ids, &mut state)?;
        }
        let mut failed = Vec::new();
        loop {
            let mut going_on = Vec::with_capacity(rows.len());
            let mut kept = Vec::new();
            for (index, (mut row, mut logits)) in
                rows.into_iter().zip(self.decoder.logits(&hidden)?).enumerate()
            {
                match self.next(&mut row, &mut logits) {
                    Ok(true) => {
                        kept.push(index as u32);
                        going_on.push(row);
                    }
                    Ok(false) => {
                        let place = row.place;
                        let last = row.temperature >= 1.0;
                        let fallback = asks[place].settings.fallback;
                        results[place] = Some(self.finish(row).map(|(language, mut window)| {
                            if let Some(rule) = fallback {
                                match judge(rule, &window) {
                                    Finding::Silent => window.text.clear(),
                                    Finding::Failed if !last => failed.push(place),
                                    Finding::Failed | Finding::Good => {}
                                }
                            }
                            (language, window)
                        }));
                    }
                    Err(sentence) => results[row.place] = Some(Err(sentence)),
                }
            }
            rows = going_on;
            if rows.is_empty() {
                return Ok(failed);
            }
            if kept.len() < hidden.dim(0)? {
                state.keep(&kept)?;
            }
            let ids: Vec<u32> = rows.iter().filter_map(|row| row.ids.last().copied()).collect();
            hidden = self.decoder.step(&ids, &mut state)?;
        }
    }

    /// Picks the next token of a row; whether it goes on.
    fn next(&self, row: &mut Row, logits: &mut [f32]) -> std::result::Result<bool, String> {
        if row.ids.len() - row.control >= row.limit {
            return Ok(false);
        }
        let first = row.ids.len() == row.control;
        let begin = if first { &self.control.suppressed_first[..] } else { &[] };
        for &id in self.control.suppressed.iter().chain(begin) {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = f32::MIN;
            }
        }
        let before = logits.to_vec();
        let id = row.sampler.pick(logits)?;
        row.logprob += log_probability(&before, id);
        row.ids.push(id);
        row.ended = id == self.control.end;
        Ok(!row.ended && row.ids.len() - row.control < row.limit)
    }

    fn finish(&self, row: Row) -> Decoded {
        let spoken = row.ids.get(row.control..).unwrap_or_default();
        let written: Vec<u32> = spoken.iter().copied().filter(|&id| id < self.control.first_time).collect();
        let text = self.tokenizer.decode(&written)?;
        let window = WindowTranscript {
            text,
            control_tokens: row.control,
            mean_logprob: row.logprob / spoken.len().max(1) as f64,
            no_speech: row.no_speech,
            temperature: row.temperature,
            ended: row.ended,
            tokens: row.ids,
        };
        Ok((row.language, window))
    }

    /// The likeliest language behind the start token.
    fn likeliest_language(&self, logits: &[f32]) -> Option<u32> {
        let ids = self.control.languages.values().copied();
        let scored = ids.filter_map(|id| Some((id, *logits.get(id as usize)?)));
        // Of equals the lower id.
        scored
            .reduce(
                |best, one| if one.1 > best.1 || (one.1 == best.1 && one.0 < best.0) { one } else { best },
            )
            .map(|(id, _)| id)
    }
}

/// What the fallback's rules say of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Good,
    Failed,
    Silent,
}

fn judge(rule: Fallback, window: &WindowTranscript) -> Finding {
    let unlikely = window.mean_logprob < rule.min_mean_logprob;
    if unlikely && window.no_speech > rule.max_no_speech {
        return Finding::Silent;
    }
    if unlikely || compression_ratio(window.text.trim()) > rule.max_compression_ratio {
        return Finding::Failed;
    }
    Finding::Good
}

/// The text's bytes over its compressed bytes.
fn compression_ratio(text: &str) -> f64 {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    match encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()) {
        Ok(compressed) => text.len() as f64 / compressed.len().max(1) as f64,
        Err(_) => 0.0,
    }
}

/// The natural logarithm of the probability of a token.
fn log_probability(logits: &[f32], id: u32) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - top).exp()).sum();
    logits.get(id as usize).map_or(f64::NEG_INFINITY, |&logit| f64::from(logit - top) - sum.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, mean_logprob: f64, no_speech: f64) -> WindowTranscript {
        WindowTranscript {
            text: text.to_owned(),
            tokens: Vec::new(),
            control_tokens: 0,
            mean_logprob,
            no_speech,
            temperature: 0.0,
            ended: true,
        }
    }

    #[test]
    fn the_rules_of_the_fallback() {
        let rule = Fallback::default();
        let repeated = " and then".repeat(40);
        for (found, finding) in [
            (window("What is the capital of France?", -0.3, 0.9), Finding::Good),
            (window("What is the capital of France?", -1.1, 0.5), Finding::Failed),
            (window("What is the capital of France?", -1.1, 0.7), Finding::Silent),
            (window(&repeated, -0.1, 0.0), Finding::Failed),
            (window("", -0.1, 0.0), Finding::Good),
        ] {
            assert_eq!(judge(rule, &found), finding, "{found:?}");
        }
    }

    #[test]
    fn probabilities_add_up() {
        let logits = [0.0, 1.0, -2.0, f32::MIN];
        let total: f64 = (0..4).map(|id| log_probability(&logits, id).exp()).sum();
        assert!((total - 1.0).abs() < 1e-9);
        assert_eq!(log_probability(&logits, 9), f64::NEG_INFINITY);
    }
}
