//! What `harness check` knows of images: the header of each is read, so that a run does not find out after it was paid for.

use std::collections::{BTreeMap, HashSet};

use super::exit::Failure;
use super::progress::plural;
use crate::media::{self, MediaSource};
use crate::run::plan::Requests;

/// Problems that are shown; the rest is counted.
const SHOWN: usize = 10;

/// Images inside the data's files that are looked at in each section: they are read whole.
const LOOKED_AT_INSIDE: usize = 100;

/// Looks at the header of every image once; of those inside the data's files, at that of the first ones. Gives a line about
/// them, none where there are none.
pub(super) fn images(requests: &dyn Requests, problems: &mut Vec<String>) -> Result<Option<String>, Failure> {
    let mut seen: HashSet<MediaSource> = HashSet::new();
    let mut formats: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut smallest, mut largest) = (None, None);
    let (mut bad, mut inside, mut more_inside) = (0_usize, 0_usize, false);
    requests.each(&mut |request| {
        let Some(dataset) = requests.dataset(request.section) else { return true };
        let mut wrong = |sentence: String| {
            bad += 1;
            if bad <= SHOWN {
                problems.push(format!("error: sample {}: {sentence}", request.planned.sample));
            }
        };
        for image in request.prompt.images() {
            let source = match dataset.media(&image.name) {
                Ok(source) => source,
                Err(error) => {
                    wrong(error.to_string());
                    continue;
                }
            };
            if source.is_embedded() && inside >= LOOKED_AT_INSIDE {
                more_inside = true;
                continue;
            }
            if !seen.insert(source.clone()) {
                continue;
            }
            inside += usize::from(source.is_embedded());
            match media::probe_image(&source) {
                Ok(facts) => {
                    *formats.entry(facts.format).or_default() += 1;
                    let size = (u64::from(facts.width) * u64::from(facts.height), facts.width, facts.height);
                    smallest = Some(smallest.map_or(size, |known: (u64, u32, u32)| known.min(size)));
                    largest = Some(largest.map_or(size, |known: (u64, u32, u32)| known.max(size)));
                }
                Err(reason) => wrong(format!("{source}: {reason}")),
            }
        }
        // Where all images lie inside the data's files, the rest of the plan tells nothing new.
        !(more_inside && inside == seen.len())
    })?;
    if bad > SHOWN {
        problems.push(format!("error: {} more have such problems", plural((bad - SHOWN) as u64, "image")));
    }
    let all: u64 = formats.values().sum();
    let kinds = formats.iter().map(|(format, n)| format!("{n} {format}")).collect::<Vec<_>>().join(", ");
    Ok(smallest.zip(largest).map(|((_, w, h), (_, wide, high))| {
        let rest = if more_inside { "; the first of those inside the data's files" } else { "" };
        format!("{all}, {w} x {h} to {wide} x {high} pixels ({kinds}){rest}")
    }))
}
