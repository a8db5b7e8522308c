//! Generation for a batch of prompts: what prompts share, with each other or with those before them, is computed once, new
//! tokens are computed together, and a row that has ended costs nothing more.

use candle_core::{Result, Tensor};

use super::decoder::{Decoder, Segment};
use super::kept::{KeptPrompts, MOST_PROMPTS};
use super::nn::cache::Cache;
use super::nn::rope::Position;
use super::sampler::Sampler;
use super::tokenizer::TextTokenizer;
use crate::types::Generation;

/// The most tokens of prompts that go through the model at once; bounds the memory of a large batch.
const MOST_TOKENS: usize = 8192;

/// A prompt with the vectors of its clips or images in place.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// Token ids, each placeholder repeated once for every token of its clip or image.
    pub ids: Vec<u32>,
    /// The clips or images, in order of their places.
    pub clips: Vec<Placed>,
    /// Where tokens stand, where that is not simply one behind the other.
    pub positions: Option<Positions>,
}

/// Where the tokens of a prompt stand, and those behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Positions {
    /// One for each token of the prompt.
    pub prompt: Vec<Position>,
    /// That of the first token behind it; each further one stands one later.
    pub next: u32,
}

/// A clip or an image within a prompt.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// The place of its first token.
    pub start: usize,
    /// Projected vectors, (tokens, width).
    pub vectors: Tensor,
    /// Equal for equal clips or images of a batch.
    pub identity: usize,
}

/// What stands at a place of a prompt: an id, and for media which clip or image and which of its vectors.
type Symbol = (u32, Option<(usize, usize)>);

impl Sequence {
    /// A prompt of nothing but text.
    pub(super) fn of_text(ids: Vec<u32>) -> Self {
        Self { ids, clips: Vec::new(), positions: None }
    }

    /// Whether the ids say all: no media, and no positions of its own.
    fn is_plain(&self) -> bool {
        self.clips.is_empty() && self.positions.is_none()
    }

    /// Where a token of the prompt or behind it stands.
    fn position(&self, index: usize) -> Position {
        let Some(positions) = &self.positions else { return [index as u32; 3] };
        let behind = |index: usize| [positions.next + (index - positions.prompt.len()) as u32; 3];
        positions.prompt.get(index).copied().unwrap_or_else(|| behind(index))
    }

    /// What stands at each place.
    fn symbols(&self) -> Result<Vec<Symbol>> {
        let mut symbols: Vec<Symbol> = self.ids.iter().map(|&id| (id, None)).collect();
        for clip in &self.clips {
            for at in 0..clip.vectors.dim(0)? {
                if let Some(symbol) = symbols.get_mut(clip.start + at) {
                    symbol.1 = Some((clip.identity, at));
                }
            }
        }
        Ok(symbols)
    }

    /// The embeddings of the tokens `from..to`, as pieces to be put together.
    fn embed(&self, text: &Decoder, from: usize, to: usize, pieces: &mut Vec<Tensor>) -> Result<()> {
        let mut at = from;
        for clip in &self.clips {
            let tokens = clip.vectors.dim(0)?;
            let (start, end) = (clip.start.max(at), (clip.start + tokens).min(to));
            if start >= end {
                continue;
            }
            if at < start {
                pieces.push(text.embed(&self.ids[at..start])?);
            }
            pieces.push(clip.vectors.narrow(0, start - clip.start, end - start)?);
            at = end;
        }
        if at < to {
            pieces.push(text.embed(&self.ids[at..to])?);
        }
        Ok(())
    }
}

/// How a prompt of a batch is answered.
struct Ask<'a> {
    /// How to generate.
    pub generation: &'a Generation,
    /// What picks its tokens.
    pub sampler: Sampler,
    /// The most tokens it may get.
    pub limit: usize,
}

/// How a response ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By a stop token, which is the last of the ids.
    Token,
    /// By a stop string.
    Text,
    /// At the most tokens it may have.
    Limit,
}

/// What was generated for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Ids, the stop token included.
    pub ids: Vec<u32>,
    /// The text, without special tokens and without the stop string.
    pub text: String,
    /// How it ended.
    pub end: End,
}

/// What prompts share: `leader[i]` is the row whose first `shared[i]` tokens row `i` takes over.
fn shared_prefixes(prompts: &[Sequence]) -> Result<Vec<(usize, usize)>> {
    let symbols = prompts.iter().map(Sequence::symbols).collect::<Result<Vec<_>>>()?;
    let common = |a: usize, b: usize| symbols[a].iter().zip(&symbols[b]).take_while(|(a, b)| a == b).count();
    let mut plan: Vec<(usize, usize)> = (0..prompts.len()).map(|row| (row, 0)).collect();
    for row in 0..prompts.len() {
        // At least half of the shorter prompt, or sharing would join prompts that have only the system line in common.
        let leader = (0..row)
            .filter(|&leader| plan[leader].0 == leader)
            .find(|&leader| common(leader, row) * 2 >= symbols[leader].len().min(symbols[row].len()));
        plan[row].0 = leader.unwrap_or(row);
    }
    for leader in 0..prompts.len() {
        let group: Vec<usize> = (0..prompts.len()).filter(|&row| plan[row].0 == leader).collect();
        if group.len() < 2 {
            continue;
        }
        // Each row keeps at least its last token to compute.
        let shared =
            group.iter().map(|&row| common(leader, row).min(symbols[row].len() - 1)).min().unwrap_or(0);
        for row in group {
            plan[row].1 = shared;
        }
    }
    Ok(plan)
}

/// The logits behind each of several prompts, computed together; `kept` are prompts that were computed before.
pub(super) fn next_logits(
    text: &Decoder,
    prompts: &[Sequence],
    kept: Option<&mut KeptPrompts>,
) -> Result<Vec<Vec<f32>>> {
    let cache = text.cache(prompts.len(), longest(prompts))?;
    prefill(text, prompts, &cache, kept)
}

/// The tokens of the longest prompt.
fn longest(prompts: &[Sequence]) -> usize {
    prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0)
}

/// Refuses settings under which there is nothing to generate.
pub(super) fn check(generation: &Generation) -> std::result::Result<(), String> {
    if generation.max_new_tokens == 0 {
        return Err("max_new_tokens is 0; a response needs at least one token".to_owned());
    }
    Ok(())
}

/// Generates for the requests whose prompts are good, together; the others keep their sentence. `most` are the positions
/// of the model, `kept` prompts that were computed before.
pub(super) fn respond(
    text: &Decoder,
    tokenizer: &TextTokenizer,
    stop_ids: &[u32],
    most: usize,
    requests: Vec<std::result::Result<(Sequence, Sampler, &Generation), String>>,
    kept: Option<&mut KeptPrompts>,
) -> Result<Vec<std::result::Result<Generated, String>>> {
    let (mut prompts, mut asks) = (Vec::new(), Vec::new());
    let mut sentences = Vec::with_capacity(requests.len());
    for request in requests {
        sentences.push(request.map(|(sequence, sampler, generation)| {
            let limit = generation.max_new_tokens.min(most.saturating_sub(sequence.ids.len()));
            prompts.push(sequence);
            asks.push(Ask { generation, sampler, limit });
        }));
    }
    let generated =
        if asks.is_empty() { Vec::new() } else { generate(text, tokenizer, stop_ids, &prompts, asks, kept)? };
    let mut generated = generated.into_iter();
    Ok(sentences
        .into_iter()
        .map(|sentence| {
            sentence?;
            generated.next().unwrap_or_else(|| Err("the batch gave too few answers".to_owned()))
        })
        .collect())
}

/// Generates for all requests. A request whose logits break fails alone; an error of the device fails all.
fn generate(
    text: &Decoder,
    tokenizer: &TextTokenizer,
    stop_ids: &[u32],
    prompts: &[Sequence],
    mut asks: Vec<Ask<'_>>,
    kept: Option<&mut KeptPrompts>,
) -> Result<Vec<std::result::Result<Generated, String>>> {
    let longest = longest(prompts);
    let most = asks.iter().map(|ask| ask.limit).max().unwrap_or(0);
    if prompts.iter().any(|prompt| prompt.ids.is_empty()) || asks.iter().any(|ask| ask.limit == 0) {
        candle_core::bail!("a prompt without tokens, or no tokens to generate");
    }
    let mut results: Vec<Option<std::result::Result<Generated, String>>> = vec![None; asks.len()];
    // The last token is never computed, so it needs no column.
    let mut cache = text.cache(asks.len(), longest + most - 1)?;
    let mut logits = prefill(text, prompts, &cache, kept)?;
    let mut responses: Vec<Vec<u32>> = vec![Vec::new(); asks.len()];
    // Requests that go on, in the order of the cache's rows.
    let mut active: Vec<usize> = (0..asks.len()).collect();
    let mut column = longest;
    loop {
        let mut going_on = Vec::with_capacity(active.len());
        let mut rows = Vec::with_capacity(active.len());
        for (row, (&index, logits)) in active.iter().zip(&mut logits).enumerate() {
            let (ask, ids) = (&mut asks[index], &mut responses[index]);
            match next(tokenizer, stop_ids, ask, ids, logits) {
                Ok(None) => {
                    going_on.push(index);
                    rows.push(row as u32);
                }
                Ok(Some(generated)) => results[index] = Some(Ok(generated)),
                Err(sentence) => results[index] = Some(Err(sentence)),
            }
        }
        if going_on.is_empty() {
            break;
        }
        if rows.len() < active.len() {
            cache.keep(&rows)?;
        }
        active = going_on;
        let ids: Vec<u32> = active.iter().filter_map(|&index| responses[index].last().copied()).collect();
        let firsts: Vec<usize> = active.iter().map(|&index| longest - prompts[index].ids.len()).collect();
        let positions: Vec<Position> = active
            .iter()
            .zip(&firsts)
            .map(|(&index, first)| prompts[index].position(column - first))
            .collect();
        let hidden = text.step(text.embed(&ids)?, column, &firsts, &positions, &cache)?;
        logits = text.logits(&hidden)?;
        column += 1;
    }
    Ok(results.into_iter().map(|result| result.unwrap_or_else(|| Err("no token came".to_owned()))).collect())
}

/// Computes all prompts and gives the logits behind each.
fn prefill(
    text: &Decoder,
    prompts: &[Sequence],
    cache: &Cache,
    mut kept: Option<&mut KeptPrompts>,
) -> Result<Vec<Vec<f32>>> {
    let plan = shared_prefixes(prompts)?;
    let longest = longest(prompts);
    let pad = |row: usize| longest - prompts[row].ids.len();
    let mut prefixes = Vec::new();
    let mut rests = Vec::new();
    for (row, &(leader, shared)) in plan.iter().enumerate() {
        let sequence = &prompts[row];
        // The other rows of a group have of the leader what the leader has taken over.
        let known = match kept.as_deref_mut().filter(|_| leader == row && sequence.is_plain()) {
            Some(kept) => kept.take_over(&sequence.ids, cache, (row, pad(row)))?,
            None => 0,
        };
        if leader == row && shared > known {
            prefixes.push(Segment { row, pad: pad(row), done: known, tokens: shared - known, wanted: false });
        }
        let done = shared.max(known);
        rests.push(Segment { row, pad: pad(row), done, tokens: sequence.ids.len() - done, wanted: true });
    }
    run(text, prompts, &prefixes, cache)?;
    for (row, &(leader, shared)) in plan.iter().enumerate() {
        if leader != row {
            cache.copy_row((leader, pad(leader)), (row, pad(row)), shared)?;
        }
    }
    let logits = run(text, prompts, &rests, cache)?;
    if let Some(kept) = kept {
        for row in lasts(&plan) {
            if prompts[row].is_plain() {
                kept.keep(&prompts[row].ids, cache, (row, pad(row)))?;
            }
        }
    }
    Ok(logits)
}

/// The last row of each group of prompts that share a prefix, the latest groups, in order: the next batch goes on there.
fn lasts(plan: &[(usize, usize)]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (row, (leader, _)) in plan.iter().enumerate().rev() {
        if found.len() < MOST_PROMPTS && !found.iter().any(|&other| plan[other].0 == *leader) {
            found.push(row);
        }
    }
    found.reverse();
    found
}

/// Computes segments, as many at once as memory allows.
fn run(text: &Decoder, prompts: &[Sequence], segments: &[Segment], cache: &Cache) -> Result<Vec<Vec<f32>>> {
    let mut logits = Vec::new();
    let mut start = 0;
    while start < segments.len() {
        let (mut end, mut tokens) = (start, 0);
        while end < segments.len() && (end == start || tokens + segments[end].tokens <= MOST_TOKENS) {
            tokens += segments[end].tokens;
            end += 1;
        }
        let mut pieces = Vec::new();
        let mut positions = Vec::with_capacity(tokens);
        for segment in &segments[start..end] {
            let (from, to) = (segment.done, segment.done + segment.tokens);
            let sequence = &prompts[segment.row];
            sequence.embed(text, from, to, &mut pieces)?;
            positions.extend((from..to).map(|index| sequence.position(index)));
        }
        let x = Tensor::cat(&pieces, 0)?;
        if let Some(hidden) = text.prefill(x, &positions, &segments[start..end], cache)? {
            logits.extend(text.logits(&hidden)?);
        }
        start = end;
    }
    Ok(logits)
}

/// Picks the next token of a response; gives the response if it ends with it.
fn next(
    tokenizer: &TextTokenizer,
    stop_ids: &[u32],
    ask: &mut Ask<'_>,
    ids: &mut Vec<u32>,
    logits: &mut [f32],
) -> std::result::Result<Option<Generated>, String> {
    let id = ask.sampler.pick(logits)?;
    ids.push(id);
    if stop_ids.contains(&id) {
        let text = tokenizer.decode(&ids[..ids.len() - 1])?;
        return Ok(Some(Generated { ids: std::mem::take(ids), text, end: End::Token }));
    }
    if !ask.generation.stop.is_empty() {
        let mut text = tokenizer.decode(ids)?;
        if let Some(at) = first_stop(&text, &ask.generation.stop) {
            text.truncate(at);
            return Ok(Some(Generated { ids: std::mem::take(ids), text, end: End::Text }));
        }
    }
    if ids.len() >= ask.limit {
        let text = tokenizer.decode(ids)?;
        return Ok(Some(Generated { ids: std::mem::take(ids), text, end: End::Limit }));
    }
    Ok(None)
}

/// Where the first stop string begins. Empty stop strings stop nothing.
fn first_stop(text: &str, stops: &[String]) -> Option<usize> {
    stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop.as_str())).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_prompts_of_the_latest_groups_are_kept() {
        assert_eq!(lasts(&[(0, 5), (1, 0), (0, 5), (0, 5)]), [1, 3]);
        let alone: Vec<(usize, usize)> = (0..6).map(|row| (row, 0)).collect();
        assert_eq!(lasts(&alone), [2, 3, 4, 5]);
        assert!(lasts(&[]).is_empty());
    }

    #[test]
    fn the_earliest_stop_string_counts() {
        let stops = ["\n".to_owned(), String::new(), "END".to_owned()];
        assert_eq!(first_stop("one END two\n", &stops), Some(4));
        assert_eq!(first_stop("one\nEND", &stops), Some(3));
        assert_eq!(first_stop("one", &stops), None);
    }
}
