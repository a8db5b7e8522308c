//! Rows of claims with the pages and sentences found for them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sources::{Sources, Split};
use super::{EvidenceAsked, EvidenceDone, EvidenceEvent, On, Retrieval, Settings, Unfinished, finish};
use crate::benchmark::cfever::row::{Candidate, Found, Shot, distinct, gold_of};
use crate::metric::fever::Gold;
use crate::prepare::PrepareError;
use crate::types::Digest;
use crate::wiki::{Index, Page, Searcher, Store, best_sentences, dump, pages_for};

/// Claims that are worked on together: enough for all processors, few enough for memory.
const TOGETHER: usize = 256;
/// Missing sentences and pages that are named.
const NAMED: usize = 5;
/// Of so many published pages, gold sentences and claims one may lack, or be without a sentence, without being a problem:
/// the authors' own code passes over titles that their dump does not have. More of them say that the dump is another.
const ONE_IN: u64 = 10;

/// What rows of a split came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) split: String,
    /// The size of the file.
    pub(super) bytes: u64,
    /// Its hash.
    pub(super) blake3: Option<Digest>,
    pub(super) rows: u64,
    /// Claims with evidence.
    verifiable: u64,
    /// Of these, those for which the pages of a whole set were found.
    found: u64,
    /// The published pages of all claims.
    pages: u64,
    /// Of these, those that the dump does not have.
    unknown_pages: u64,
    /// The first of them.
    unknown: Vec<String>,
    /// Claims with nothing to be shown.
    bare: u64,
    /// The gold sentences of all claims.
    gold: u64,
    /// Of these, those that the dump does not have.
    missing: u64,
    /// The first of them.
    examples: Vec<String>,
}

impl Facts {
    /// In a line.
    pub(super) fn describe(&self, retrieval: Retrieval) -> String {
        let mut parts = vec![format!("{} claims, {} pages", self.rows, retrieval.as_str())];
        if self.verifiable > 0 {
            let share = self.found as f64 * 100.0 / self.verifiable as f64;
            parts.push(format!(
                "those of a whole set for {} of {} claims with evidence ({share:.2} %)",
                self.found, self.verifiable
            ));
        }
        if self.unknown_pages > 0 {
            let among = self.unknown.join(", ");
            parts.push(format!("{} pages are not in the dump (among them {among})", self.unknown_pages));
        }
        if self.bare > 0 {
            parts.push(format!("{} claims without any sentence", self.bare));
        }
        parts.join(", ")
    }

    /// What is wrong where the dump is not the one that the published pages are of.
    pub(super) fn other_dump(&self) -> Option<String> {
        (self.unknown_pages * ONE_IN > self.pages).then(|| {
            format!(
                "{}: {} of {} published pages are not in the dump, among them {}: it is another dump than theirs, or a part \
                 of it. `harness fetch cfever` says where theirs is; --retrieval own searches the pages that are there",
                self.split,
                self.unknown_pages,
                self.pages,
                self.unknown.join(", ")
            )
        })
    }

    /// What is wrong where many claims have nothing to be shown: without gold nothing else tells it.
    pub(super) fn without_sentences(&self) -> Option<String> {
        (self.bare * ONE_IN > self.rows).then(|| {
            format!(
                "{}: no sentence was found for {} of {} claims: the dump is another than the authors', or a part of it. \
                 `harness fetch cfever` says where theirs is",
                self.split, self.bare, self.rows
            )
        })
    }

    /// What the dump lacks of the gold; `None` where it has all.
    pub(super) fn missing_gold(&self) -> Option<MissingGold> {
        let told = || {
            format!(
                "{}: {} of {} sentences of the gold are not in the dump, among them {}",
                self.split,
                self.missing,
                self.gold,
                self.examples.join(", ")
            )
        };
        match self.missing {
            0 => None,
            missing if missing * ONE_IN > self.gold => Some(MissingGold::Many(told())),
            _ => Some(MissingGold::Few(told())),
        }
    }
}

/// Gold sentences that a dump lacks, told in a sentence.
pub(super) enum MissingGold {
    /// So few that it may be the authors' dump, which lacks titles too.
    Few(String),
    /// So many that it is another dump.
    Many(String),
}

/// What a claim's sentences are taken from.
pub(super) struct Wiki<'a> {
    pub(super) store: &'a Store,
    pub(super) searcher: Option<Searcher<'a>>,
}

impl<'a> Wiki<'a> {
    pub(super) fn new(store: &'a Store, index: Option<&'a Index>) -> Self {
        Self { store, searcher: index.map(Index::searcher) }
    }

    /// The pages for a claim by our own search.
    pub(super) fn pages(&mut self, claim: &str, k: usize) -> Result<Vec<Page>, PrepareError> {
        Ok(pages_for(self.store, self.searcher.as_mut(), claim, k)?)
    }
}

/// The `k` sentences of pages that fit a claim best, the best first; empty ones and those that `not` names left out.
pub(super) fn sentences(claim: &str, pages: &[Page], k: usize, not: &[Candidate]) -> Vec<Candidate> {
    let all: Vec<(&str, u32, &str)> = pages
        .iter()
        .flat_map(|page| page.sentences().map(|(number, text)| (page.title(), number, text)))
        .filter(|(_, _, text)| !text.trim().is_empty())
        .filter(|(title, number, _)| {
            not.iter().all(|other| other.page != *title || other.line != i64::from(*number))
        })
        .collect();
    let texts: Vec<(&str, &str)> = all.iter().map(|(title, _, text)| (*title, *text)).collect();
    let candidate = |place: usize| {
        let (title, number, text) = all.get(place)?;
        Some(Candidate { page: (*title).to_owned(), line: i64::from(*number), text: (*text).to_owned() })
    };
    best_sentences(claim, &texts, k).into_iter().filter_map(candidate).collect()
}

/// What a dump has of the gold evidence of a claim.
#[derive(Default)]
pub(super) struct GoldSentences {
    /// The sentences, each once.
    pub(super) found: Vec<Candidate>,
    /// Those that the dump lacks: title and number.
    pub(super) missing: Vec<String>,
    /// Their pages, each once.
    pub(super) pages: Vec<Page>,
}

/// The gold sentences. Titles stay as the data write them, by which predictions are compared.
pub(super) fn gold_sentences(store: &Store, gold: &Gold<'_>) -> Result<GoldSentences, PrepareError> {
    let mut all = GoldSentences::default();
    for sentence in distinct(gold) {
        let page = store.page(&sentence.page)?;
        let number = u32::try_from(sentence.line).ok();
        let text = number.and_then(|number| page.as_ref()?.sentence(number)).filter(|text| !text.is_empty());
        match text {
            Some(text) => all.found.push(Candidate {
                page: sentence.page.clone().into_owned(),
                line: sentence.line,
                text: text.to_owned(),
            }),
            None => all.missing.push(format!("{} {}", sentence.page, sentence.line)),
        }
        if let Some(page) = page
            && all.pages.iter().all(|other| other.title() != page.title())
        {
            all.pages.push(page);
        }
    }
    Ok(all)
}

/// What becomes of one row.
#[derive(Default)]
struct Made {
    line: Vec<u8>,
    facts: Facts,
}

/// The rows of one split, shared by those who make them.
struct Rows<'a> {
    store: &'a Store,
    settings: &'a Settings,
    retrieval: Retrieval,
    shots: &'a [Shot],
    /// The published pages of each claim.
    published: HashMap<i64, Vec<String>>,
    path: &'a Path,
}

impl Rows<'_> {
    fn make(&self, wiki: &mut Wiki<'_>, number: u64, line: &str) -> Result<Made, PrepareError> {
        let wrong =
            |problem: String| PrepareError::Evidence(format!("{}:{number}: {problem}", self.path.display()));
        let mut row: Value = serde_json::from_str(line).map_err(|e| wrong(format!("not valid JSON: {e}")))?;
        let gold = gold_of(&row).map_err(&wrong)?;
        let claim = row.get("claim").and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = row.get("id").and_then(Value::as_i64).unwrap_or_default();
        let mut facts = Facts { rows: 1, ..Facts::default() };
        let Settings { pages: most, sentences: k, .. } = *self.settings;
        let (titles, found_pages) = match self.retrieval {
            Retrieval::Own => {
                let pages = wiki.pages(&claim, most)?;
                (pages.iter().map(|page| page.title().to_owned()).collect(), pages)
            }
            Retrieval::Published => {
                let titles = self.published.get(&id);
                let titles =
                    titles.ok_or_else(|| wrong(format!("there are no published pages for claim {id}")))?;
                let titles: Vec<String> = titles.iter().take(most).cloned().collect();
                facts.pages = titles.len() as u64;
                let mut pages = Vec::new();
                for title in &titles {
                    match self.store.page(title)? {
                        Some(page) => pages.push(page),
                        None => facts.unknown.push(title.clone()),
                    }
                }
                (titles, pages)
            }
        };
        facts.unknown_pages = facts.unknown.len() as u64;
        let bm25 = sentences(&claim, &found_pages, k, &[]);
        facts.bare = u64::from(bm25.is_empty());
        let mut oracle = Vec::new();
        if let Some(gold) = &gold {
            if let Some(found) = crate::metric::fever::pages(gold, &titles, None) {
                facts.verifiable = 1;
                facts.found = u64::from(found.recall);
            }
            let GoldSentences { found: gold, missing, pages } = gold_sentences(self.store, gold)?;
            facts.gold = (gold.len() + missing.len()) as u64;
            facts.missing = missing.len() as u64;
            facts.examples = missing;
            oracle = gold;
            // As many for every label: how many are shown must not tell it. The pages of the gold alone would give fewer
            // than the pages found do where there is no gold.
            let mut from = pages;
            for page in found_pages {
                if from.iter().all(|other| other.title() != page.title()) {
                    from.push(page);
                }
            }
            let others = sentences(&claim, &from, k.saturating_sub(oracle.len()), &oracle);
            oracle.extend(others);
        }
        let retrieval = self.retrieval.as_str().to_owned();
        let found = Found { retrieval, pages: titles, bm25, oracle, shots: self.shots.to_vec() };
        let found = serde_json::to_value(found).map_err(|e| wrong(e.to_string()))?;
        if let Value::Object(row) = &mut row {
            row.insert("found".to_owned(), found);
        }
        let mut line = serde_json::to_vec(&row).map_err(|e| wrong(e.to_string()))?;
        line.push(b'\n');
        Ok(Made { line, facts })
    }
}

/// Makes the rows of a split and writes them.
#[expect(clippy::too_many_arguments, reason = "a stage with all that it is made of")]
pub(super) fn write(
    asked: &EvidenceAsked,
    sources: &Sources,
    split: &Split,
    store: &Store,
    index: Option<&Index>,
    shots: &[Shot],
    path: &Path,
    on: On<'_>,
    done: &mut EvidenceDone,
) -> Result<Facts, PrepareError> {
    let published = match (sources.retrieval, &split.pages) {
        (Retrieval::Published, Some(pages)) => read_pages(pages)?,
        _ => HashMap::new(),
    };
    let rows = Rows {
        store,
        settings: &asked.settings,
        retrieval: sources.retrieval,
        shots,
        published,
        path: &split.path,
    };
    let part = path.with_extension("part");
    let _unfinished = Unfinished(&part);
    let disk = || PrepareError::disk(&part);
    let mut out = BufWriter::new(File::create(&part).map_err(disk())?);
    let mut hasher = blake3::Hasher::new();
    let mut facts = Facts { split: split.name.to_owned(), ..Facts::default() };
    let mut wikis: Vec<Wiki<'_>> = (0..asked.jobs.get()).map(|_| Wiki::new(store, index)).collect();
    let lines = read_lines(&split.path)?;
    for lines in lines.chunks(TOGETHER) {
        for made in all(&rows, &mut wikis, lines)? {
            out.write_all(&made.line).map_err(disk())?;
            hasher.update(&made.line);
            facts.bytes += made.line.len() as u64;
            facts.rows += 1;
            facts.verifiable += made.facts.verifiable;
            facts.found += made.facts.found;
            facts.pages += made.facts.pages;
            facts.unknown_pages += made.facts.unknown_pages;
            for title in made.facts.unknown {
                if facts.unknown.len() < NAMED && !facts.unknown.contains(&title) {
                    facts.unknown.push(title);
                }
            }
            facts.bare += made.facts.bare;
            facts.gold += made.facts.gold;
            facts.missing += made.facts.missing;
            let room = NAMED.saturating_sub(facts.examples.len());
            facts.examples.extend(made.facts.examples.into_iter().take(room));
        }
        on(EvidenceEvent::Done(lines.len() as u64));
    }
    if facts.rows == 0 {
        done.problem(format!("{}: holds no claims", split.path.display()));
    }
    facts.blake3 = Some(Digest(*hasher.finalize().as_bytes()));
    finish(out, &part, path)?;
    Ok(facts)
}

/// Makes rows on as many threads as there are searchers, and gives them in order.
fn all(rows: &Rows<'_>, wikis: &mut [Wiki<'_>], lines: &[(u64, String)]) -> Result<Vec<Made>, PrepareError> {
    let next = AtomicUsize::new(0);
    // Rows are taken in order and a thread ends with its first fault, so the first of all is always among them: the one
    // that is told does not hang on which thread was faster.
    let work = |wiki: &mut Wiki<'_>| {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((number, line)) = lines.get(at) else { return made };
            let row = rows.make(wiki, *number, line);
            let wrong = row.is_err();
            made.push((at, row));
            if wrong {
                return made;
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = wikis.iter_mut().map(|wiki| scope.spawn(|| work(wiki))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut all = Vec::with_capacity(lines.len());
    for result in results {
        all.extend(result.map_err(|_| PrepareError::Internal("a thread that makes rows ended early"))?);
    }
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, made)| made).collect()
}

/// The lines of a small file, with their numbers.
pub(super) fn read_lines(path: &Path) -> Result<Vec<(u64, String)>, PrepareError> {
    let read = |source| PrepareError::Read { path: path.to_owned(), source };
    let reader = BufReader::new(File::open(path).map_err(read)?);
    let mut lines = Vec::new();
    let mut wrong = None;
    dump::each_line(reader, |number, line| {
        match line {
            Ok(line) => lines.push((number, line.to_owned())),
            Err(problem) => wrong = wrong.take().or(Some(format!("{}:{number}: {problem}", path.display()))),
        }
        Ok(())
    })
    .map_err(read)?;
    wrong.map_or(Ok(lines), |wrong| Err(PrepareError::Evidence(wrong)))
}

#[derive(Deserialize)]
struct PagesRow {
    id: i64,
    predicted_pages: Vec<String>,
}

fn read_pages(path: &Path) -> Result<HashMap<i64, Vec<String>>, PrepareError> {
    let row = |(number, line): (u64, String)| {
        let wrong = |e: &dyn std::fmt::Display| {
            PrepareError::Evidence(format!(
                "{}:{number}: expected an object with `id` and `predicted_pages`, a list of titles: {e}",
                path.display()
            ))
        };
        // A list of the values alone would be read as well.
        if !line.trim_start().starts_with('{') {
            return Err(wrong(&"found something else"));
        }
        let row: PagesRow = serde_json::from_str(&line).map_err(|e| wrong(&e))?;
        Ok((row.id, row.predicted_pages))
    };
    read_lines(path)?.into_iter().map(row).collect()
}
