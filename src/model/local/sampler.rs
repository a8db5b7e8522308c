//! Picking the next token, in the order of the reference implementation (transformers): repetition penalty,
//! temperature, top-k, top-p.
//!
//! Each request has a generator of its own, seeded by the run's seed and the request's key, so an answer does not
//! depend on what else is in its batch.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::types::{Digest, Generation};

/// Picks the tokens of one response.
#[derive(Clone, Debug)]
pub struct Sampler {
    temperature: f64,
    top_p: f64,
    top_k: usize,
    penalty: f32,
    /// Tokens of the prompt and the response so far; kept only where there is a penalty.
    seen: Vec<u32>,
    is_seen: Vec<bool>,
    generator: ChaCha8Rng,
}

impl Sampler {
    /// A sampler for a request. `prompt` are the ids of the prompt, placeholders included: the repetition penalty
    /// counts them too.
    pub fn new(
        generation: &Generation,
        prompt: &[u32],
        vocabulary: usize,
        seed: u64,
        key: Digest,
    ) -> Result<Self, String> {
        let Generation { temperature, top_p, top_k, repetition_penalty, .. } = *generation;
        let temperature = temperature.ok_or(
            "the temperature is the model's own, and it was not looked up; expected 0 or a positive number",
        )?;
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(format!("temperature is {temperature}; expected 0 (greedy) or a positive number"));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(format!("top_p is {top_p}; expected a number above 0 and at most 1"));
        }
        if !(repetition_penalty.is_finite() && repetition_penalty > 0.0) {
            return Err(format!("repetition_penalty is {repetition_penalty}; expected a positive number"));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"harness sampler 1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(&key.0);
        let mut sampler = Self {
            temperature,
            top_p,
            top_k,
            penalty: repetition_penalty as f32,
            seen: Vec::new(),
            is_seen: Vec::new(),
            generator: ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()),
        };
        if sampler.has_penalty() {
            sampler.is_seen = vec![false; vocabulary];
            for &id in prompt {
                sampler.see(id);
            }
        }
        Ok(sampler)
    }

    fn has_penalty(&self) -> bool {
        self.penalty != 1.0
    }

    fn see(&mut self, id: u32) {
        if let Some(is_seen) = self.is_seen.get_mut(id as usize)
            && !std::mem::replace(is_seen, true)
        {
            self.seen.push(id);
        }
    }

    /// The next token behind `logits`, which are changed on the way.
    pub fn pick(&mut self, logits: &mut [f32]) -> Result<u32, String> {
        if logits.iter().any(|logit| !logit.is_finite()) {
            return Err(
                "the model's logits are not finite (NaN or infinity); with 16-bit weights try `dtype = \
                        \"f32\"`, and check the weights"
                    .to_owned(),
            );
        }
        for &id in &self.seen {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = if *logit < 0.0 { *logit * self.penalty } else { *logit / self.penalty };
            }
        }
        let id = if self.temperature == 0.0 { greedy(logits) } else { self.draw(logits) };
        let id = id.ok_or("the model has no logits")?;
        if self.has_penalty() {
            self.see(id);
        }
        Ok(id)
    }

    fn draw(&mut self, logits: &mut [f32]) -> Option<u32> {
        for logit in logits.iter_mut() {
            *logit = (f64::from(*logit) / self.temperature) as f32;
        }
        let mut candidates: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
        if self.top_k > 0 && self.top_k < candidates.len() {
            let mut sorted = logits.to_vec();
            let (_, &mut least, _) = sorted.select_nth_unstable_by(self.top_k - 1, |a, b| b.total_cmp(a));
            // All that equal the k-th stay.
            candidates.retain(|&(_, logit)| logit >= least);
        }
        let sharp = self.top_p < 1.0;
        if sharp {
            // The likeliest first; of equals the later id, as a stable ascending sort read backwards has them.
            candidates.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        }
        let top = candidates.iter().map(|&(_, logit)| logit).fold(f32::NEG_INFINITY, f32::max);
        let mut weights: Vec<f64> =
            candidates.iter().map(|&(_, logit)| (f64::from(logit) - f64::from(top)).exp()).collect();
        if sharp {
            // The smallest set that reaches top_p of what top-k left.
            let enough = self.top_p * weights.iter().sum::<f64>();
            let mut before = 0.0;
            let kept = weights
                .iter()
                .take_while(|&&weight| {
                    let kept = before < enough;
                    before += weight;
                    kept
                })
                .count();
            weights.truncate(kept.max(1));
        }
        // 53 random bits: a number in [0, 1).
        let share = (self.generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut left = share * weights.iter().sum::<f64>();
        let mut last = None;
        for (&(id, _), &weight) in candidates.iter().zip(&weights) {
            if weight > 0.0 {
                last = Some(id);
                if left < weight {
                    break;
                }
            }
            left -= weight;
        }
        last
    }
}

/// The likeliest token; of equals the first.
fn greedy(logits: &[f32]) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for (id, &logit) in (0..).zip(logits) {
        if best.is_none_or(|(_, most)| logit > most) {
            best = Some((id, logit));
        }
    }
    best.map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn sampler(generation: &Generation, prompt: &[u32], key: u8) -> Sampler {
        Sampler::new(generation, prompt, 8, 7, Digest([key; 32])).unwrap()
    }

    /// How often each token is drawn from the same logits by 4000 requests.
    fn shares(generation: &Generation, logits: &[f32]) -> BTreeMap<u32, f64> {
        let mut shares = BTreeMap::new();
        for key in 0..4000_u32 {
            let key = Digest::of(&key.to_le_bytes());
            let mut sampler = Sampler::new(generation, &[], logits.len(), 1, key).unwrap();
            *shares.entry(sampler.pick(&mut logits.to_vec()).unwrap()).or_insert(0.0) += 1.0 / 4000.0;
        }
        shares
    }

    fn drawn(temperature: f64, top_k: usize, top_p: f64) -> Generation {
        Generation { temperature: Some(temperature), top_p, top_k, ..Generation::default() }
    }

    #[test]
    fn greedy_takes_the_first_of_equals_and_the_penalty_still_counts() {
        let mut plain = sampler(&Generation::default(), &[], 0);
        assert_eq!(plain.pick(&mut [0.0, 2.0, 2.0]), Ok(1));
        let generation = Generation { repetition_penalty: 2.0, ..Generation::default() };
        let mut penalised = sampler(&generation, &[1, 4], 0);
        // 2 / 2 = 1 for the prompt's token, so 1.5 wins; once drawn it is 0.75 and the prompt's 1.0 wins.
        assert_eq!(penalised.pick(&mut [0.0, 2.0, 1.5]), Ok(2));
        assert_eq!(penalised.pick(&mut [0.0, 2.0, 1.5]), Ok(1));
        // Negative logits are multiplied.
        assert_eq!(penalised.pick(&mut [-1.5, -1.0, -1.0]), Ok(0));
    }

    #[test]
    fn temperature_sharpens_and_flattens() {
        let logits = [0.0_f32, 1.0, 2.0];
        for temperature in [0.5, 1.0, 2.0] {
            let exact: Vec<f64> = logits.iter().map(|&l| (f64::from(l) / temperature).exp()).collect();
            let total: f64 = exact.iter().sum();
            let shares = shares(&drawn(temperature, 0, 1.0), &logits);
            for (id, exact) in (0..).zip(exact) {
                assert!((shares.get(&id).copied().unwrap_or(0.0) - exact / total).abs() < 0.03);
            }
        }
    }

    #[test]
    fn top_k_keeps_ties_with_the_last() {
        let kept =
            |top_k, logits: &[f32]| shares(&drawn(1.0, top_k, 1.0), logits).into_keys().collect::<Vec<_>>();
        assert_eq!(kept(1, &[0.0, 3.0, 1.0]), [1]);
        assert_eq!(kept(2, &[1.0, 3.0, 1.0, 0.0]), [0, 1, 2]);
        assert_eq!(kept(9, &[1.0, 1.0]), [0, 1]);
    }

    /// Probabilities 1/2, 1/4, 1/8, 1/8: exact in binary, so that the boundaries are exact too.
    #[test]
    fn top_p_keeps_the_smallest_set_that_reaches_it() {
        let logits = [0.5_f32.ln(), 0.25_f32.ln(), 0.125_f32.ln(), 0.125_f32.ln()];
        let kept = |top_k, top_p| shares(&drawn(1.0, top_k, top_p), &logits).into_keys().collect::<Vec<_>>();
        assert_eq!(kept(0, 0.01), [0]);
        assert_eq!(kept(0, 0.4999), [0]);
        assert_eq!(kept(0, 0.5001), [0, 1]);
        assert_eq!(
            kept(0, 0.7501),
            [0, 1, 3],
            "of equals the later id is the likelier in a stable ascending sort"
        );
        assert_eq!(kept(0, 0.99), [0, 1, 2, 3]);
        // After top-k 2 the first has 2/3 of what is left.
        assert_eq!(kept(2, 0.66), [0]);
        assert_eq!(kept(2, 0.67), [0, 1]);
    }

    #[test]
    fn broken_logits_and_settings_are_told() {
        let mut plain = sampler(&Generation::default(), &[], 0);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(plain.pick(&mut [0.0, bad]).unwrap_err().contains("not finite"));
        }
        assert!(plain.pick(&mut []).is_err());
        for wrong in [
            drawn(-1.0, 0, 1.0),
            drawn(f64::NAN, 0, 1.0),
            drawn(1.0, 0, 0.0),
            drawn(1.0, 0, 1.5),
            Generation { repetition_penalty: 0.0, ..Generation::default() },
        ] {
            assert!(Sampler::new(&wrong, &[], 8, 0, Digest([0; 32])).unwrap_err().contains("expected"));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_finite_logits_give_a_token(
            mut logits in proptest::collection::vec(-1e30_f32..1e30, 1..40),
            temperature in 0.0..3.0_f64, top_k in 0..50_usize, top_p in 0.001..1.0_f64, penalty in 0.1..3.0_f64,
        ) {
            let generation = Generation {
                temperature: Some(temperature), top_k, top_p, repetition_penalty: penalty, ..Generation::default()
            };
            let mut sampler = sampler(&generation, &[1, 2, 900], 3);
            let count = logits.len();
            if let Ok(id) = sampler.pick(&mut logits) {
                proptest::prop_assert!((id as usize) < count);
            }
        }
    }
}
