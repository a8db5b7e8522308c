//! What is the same for all models that take vectors of clips or images in place of placeholders in their prompts: media
//! are encoded once however many prompts have them, put into prompts, and the text model answers. This module must not
//! know encoders.

use std::collections::HashMap;

use candle_core::{Result, Tensor};

use super::decoder::Decoder;
use super::generate::{self, Generated, Placed, Sequence};
use super::sampler::Sampler;
use super::tokenizer::TextTokenizer;
use crate::model::Prepared;
use crate::types::Digest;

/// The text half of a model.
pub(super) struct TextHalf<'a> {
    /// What computes.
    pub decoder: &'a Decoder,
    /// Its tokenizer.
    pub tokenizer: &'a TextTokenizer,
    /// The tokens that end a response.
    pub stop_ids: &'a [u32],
    /// The most tokens of prompt and response together.
    pub positions: usize,
}

/// A model with an encoder of clips or images before its text model.
pub(super) trait Placing {
    /// What is put into prompts.
    type Medium;
    /// A prompt whose placeholders were repeated for the tokens of their media.
    type Expanded;

    /// The text half.
    fn text_half(&self) -> TextHalf<'_>;

    /// The media of a request.
    fn media(request: &Prepared) -> &[Self::Medium];

    /// What tells a medium from others.
    fn digest(medium: &Self::Medium) -> Digest;

    /// The prompt of a request, and what picks the tokens behind it. An error is a sentence about this request.
    fn prepare(&self, request: &Prepared) -> std::result::Result<(Self::Expanded, Sampler), String>;

    /// The prompt without its media.
    fn sequence(expanded: &Self::Expanded) -> Sequence;

    /// The first place and the number of tokens of each medium.
    fn places(expanded: &Self::Expanded) -> &[(usize, usize)];

    /// The vectors of media, each of another digest.
    fn vectors(&mut self, media: &[&Self::Medium]) -> Result<Vec<Tensor>>;

    /// Puts the vectors of their media into prompts. Each medium is encoded once, however many prompts have it.
    fn place<'a>(
        &mut self,
        prompts: impl Iterator<Item = (&'a Self::Expanded, &'a [Self::Medium])> + Clone,
    ) -> Result<Vec<Sequence>>
    where
        Self::Medium: 'a,
        Self::Expanded: 'a,
    {
        let mut identities: HashMap<Digest, usize> = HashMap::new();
        let mut media: Vec<&Self::Medium> = Vec::new();
        for medium in prompts.clone().flat_map(|(_, media)| media) {
            identities.entry(Self::digest(medium)).or_insert_with(|| {
                media.push(medium);
                media.len() - 1
            });
        }
        let vectors = self.vectors(&media)?;
        let placed = prompts.map(|(expanded, media)| {
            let placed = Self::places(expanded).iter().zip(media).filter_map(|(&(start, _), medium)| {
                let identity = identities.get(&Self::digest(medium)).copied()?;
                Some(Placed { start, vectors: vectors.get(identity)?.clone(), identity })
            });
            Sequence { clips: placed.collect(), ..Self::sequence(expanded) }
        });
        Ok(placed.collect())
    }

    /// The logits behind each of several prompts, computed together.
    fn logits_behind(&mut self, prompts: &[(Self::Expanded, Vec<Self::Medium>)]) -> Result<Vec<Vec<f32>>> {
        let sequences = self.place(prompts.iter().map(|(prompt, media)| (prompt, &media[..])))?;
        generate::next_logits(self.text_half().decoder, &sequences, None)
    }

    /// Answers requests together. With `ignore_stops` only the limit of tokens ends a response. A request that is wrong
    /// in itself fails alone; an error of the device fails all.
    #[expect(
        clippy::type_complexity,
        reason = "each answer with its prompt, or a sentence; an error of the device"
    )]
    fn answer_together(
        &mut self,
        requests: &[Prepared],
        ignore_stops: bool,
    ) -> Result<Vec<std::result::Result<(Self::Expanded, Generated), String>>> {
        let expanded: Vec<std::result::Result<(Self::Expanded, Sampler), String>> = requests
            .iter()
            .map(|request| {
                generate::check(&request.generation)?;
                self.prepare(request)
            })
            .collect();
        let good = requests
            .iter()
            .zip(&expanded)
            .filter_map(|(request, expanded)| Some((&expanded.as_ref().ok()?.0, Self::media(request))));
        let mut sequences = self.place(good)?.into_iter();
        let asked = requests.iter().zip(&expanded).map(|(request, expanded)| {
            let (_, sampler) = expanded.as_ref().map_err(String::clone)?;
            let sequence = sequences.next().ok_or("a prompt got lost")?;
            Ok((sequence, sampler.clone(), &request.generation))
        });
        let TextHalf { decoder, tokenizer, stop_ids, positions } = self.text_half();
        let stop_ids = if ignore_stops { &[][..] } else { stop_ids };
        let generated = generate::respond(decoder, tokenizer, stop_ids, positions, asked.collect(), None)?;
        Ok(expanded
            .into_iter()
            .zip(generated)
            .map(|(expanded, generated)| Ok((expanded?.0, generated?)))
            .collect())
    }
}
