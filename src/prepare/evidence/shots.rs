//! Worked examples: claims of the train split, drawn by a seed, with sentences and those that they rest on.

use std::path::Path;

use serde_json::Value;

use super::Settings;
use super::claims::{GoldSentences, Wiki, gold_sentences, read_lines, sentences};
use crate::benchmark::cfever::row::{Candidate, Shot, gold_of};
use crate::metric::fever::{Gold, Label, Sentence};
use crate::prepare::PrepareError;

/// Sentences of an example.
const SENTENCES: usize = 5;
/// Pages that are searched for an undecidable claim.
const PAGES: usize = 5;

/// Draws as many examples as are asked for, the labels in turn. The draw depends on the seed and the ids alone. With pages
/// to take sentences from, a claim whose sentences the dump does not have, or has more than an example shows, is passed
/// over, and so is an undecidable one for which no page is found. Without them examples are claims and labels alone.
pub(super) fn draw(
    train: &Path,
    settings: &Settings,
    mut wiki: Option<&mut Wiki<'_>>,
) -> Result<Vec<Shot>, PrepareError> {
    let mut drawn: Vec<([u8; 32], u64, String)> = Vec::new();
    let wrong = |number: u64, problem: String| {
        PrepareError::Evidence(format!("{}:{number}: {problem}", train.display()))
    };
    for (number, line) in read_lines(train)? {
        let row: Value = serde_json::from_str(&line).map_err(|e| wrong(number, e.to_string()))?;
        let id = row.get("id").and_then(Value::as_i64);
        let id = id.ok_or_else(|| wrong(number, "the row has no `id` that is a whole number".to_owned()))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&settings.seed.to_le_bytes());
        hasher.update(&id.to_le_bytes());
        drawn.push((*hasher.finalize().as_bytes(), number, line));
    }
    drawn.sort_unstable();
    let mut shots: Vec<Shot> = Vec::new();
    let mut of_label: [std::collections::VecDeque<Shot>; 3] = Default::default();
    let each = settings.shots.div_ceil(Label::ALL.len());
    for (_, number, line) in drawn {
        if of_label.iter().all(|of| of.len() >= each) {
            break;
        }
        let row: Value = serde_json::from_str(&line).map_err(|e| wrong(number, e.to_string()))?;
        let gold = gold_of(&row).map_err(|e| wrong(number, e))?;
        let Some(gold) = gold else { return Err(wrong(number, "the row has no label".to_owned())) };
        let place = Label::ALL.iter().position(|label| *label == gold.label).unwrap_or_default();
        let Some(of) = of_label.get_mut(place).filter(|of| of.len() < each) else { continue };
        let claim = row.get("claim").and_then(Value::as_str).unwrap_or_default();
        let id = row.get("id").and_then(Value::as_i64).unwrap_or_default();
        let shown = match &mut wiki {
            Some(wiki) => shown(wiki, claim, &gold)?,
            None => Some((Vec::new(), Vec::new())),
        };
        let Some((candidates, evidence)) = shown else { continue };
        let label = gold.label.as_str().to_owned();
        of.push_back(Shot { id, claim: claim.to_owned(), label, candidates, evidence });
    }
    while shots.len() < settings.shots {
        let before = shots.len();
        shots.extend(of_label.iter_mut().filter_map(std::collections::VecDeque::pop_front));
        if shots.len() == before {
            return Err(PrepareError::Evidence(format!(
                "{}: only {before} claims fit as worked examples, {} are asked for",
                train.display(),
                settings.shots
            )));
        }
    }
    shots.truncate(settings.shots);
    Ok(shots)
}

/// The sentences of an example, and the numbers of those that it rests on.
type Shown = (Vec<Candidate>, Vec<usize>);

/// What an example shows; `None` where the claim makes none.
fn shown(wiki: &mut Wiki<'_>, claim: &str, gold: &Gold<'_>) -> Result<Option<Shown>, PrepareError> {
    let GoldSentences { found: known, missing, pages } = gold_sentences(wiki.store, gold)?;
    if !missing.is_empty() || known.len() > SENTENCES {
        return Ok(None);
    }
    let pages = if gold.label.is_verifiable() { pages } else { wiki.pages(claim, PAGES)? };
    let others = sentences(claim, &pages, SENTENCES - known.len(), &known);
    let mut candidates: Vec<Candidate> = known.into_iter().chain(others).collect();
    // An example without a sentence would teach that such claims are the undecidable ones.
    if candidates.is_empty() {
        return Ok(None);
    }
    candidates.sort_by(|a, b| (&a.page, a.line).cmp(&(&b.page, b.line)));
    // The first set alone: it is enough.
    let set = gold.sets.first().map(Vec::as_slice).unwrap_or_default();
    let is_gold =
        |candidate: &Candidate| set.contains(&Sentence::new(candidate.page.as_str(), candidate.line));
    let evidence = (1..).zip(&candidates).filter(|(_, c)| is_gold(c)).map(|(n, _)| n).collect();
    Ok(Some((candidates, evidence)))
}
