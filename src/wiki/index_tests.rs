use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering as Atomic};

use proptest::prelude::*;

use super::super::terms::terms;
use super::super::{StoreBuilder, build_index};
use super::*;

struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new(pages: &[(String, Vec<String>)], jobs: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pages");
        let mut builder = StoreBuilder::new(std::fs::File::create(&path).unwrap()).unwrap();
        for (title, texts) in pages {
            let sentences: Vec<(u32, &str)> = (0..).zip(texts.iter().map(String::as_str)).collect();
            builder.add(title, &sentences).unwrap();
        }
        builder.finish("note").unwrap();
        let store = Store::open(&path).unwrap();
        let read = AtomicU64::new(0);
        let on = |bytes| _ = read.fetch_add(bytes, Atomic::Relaxed);
        build_index(&store, &dir.path().join("index"), NonZeroUsize::new(jobs).unwrap(), &on).unwrap();
        assert_eq!(read.into_inner(), store.facts().text, "all text is read once");
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 2, "nothing is left beside the two files");
        Self { dir, store }
    }

    fn open(&self) -> Result<Index, WikiError> {
        Index::open(&self.dir.path().join("index"), &self.store)
    }
}

fn pages(texts: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    texts.iter().map(|(title, texts)| ((*title).to_owned(), own(texts))).collect()
}

/// BM25 as it is defined, page by page.
fn plain(pages: &[(String, Vec<String>)], text: &str) -> Vec<(u32, f64)> {
    let of = |text: &str, into: &mut Vec<Term>| terms(text, |term| into.push(term));
    let all: Vec<Vec<Term>> = pages
        .iter()
        .map(|(title, texts)| {
            let mut found = Vec::new();
            (0..3).for_each(|_| of(title, &mut found));
            for text in texts {
                of(text, &mut found);
            }
            found
        })
        .collect();
    let mean = (all.iter().map(Vec::len).sum::<usize>() as f64 / all.len() as f64).max(1.0);
    let (k1, b) = (f64::from(K1), f64::from(B));
    let mut asked = Vec::new();
    of(text, &mut asked);
    let mut scores: HashMap<u32, f64> = HashMap::new();
    for term in asked {
        let with = all.iter().filter(|page| page.contains(&term)).count() as f64;
        let idf = (1.0 + (all.len() as f64 - with + 0.5) / (with + 0.5)).ln();
        for (number, page) in (0..).zip(&all) {
            let count = page.iter().filter(|other| **other == term).count() as f64;
            if count > 0.0 {
                let norm = k1 * (1.0 - b + b * page.len() as f64 / mean);
                *scores.entry(number).or_default() += idf * count * (k1 + 1.0) / (count + norm);
            }
        }
    }
    let mut scores: Vec<(u32, f64)> = scores.into_iter().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scores
}

#[test]
fn the_page_that_a_claim_is_about_goes_first() {
    let made = pages(&[
        ("甲湖", &["甲湖面積十平方公里。", "湖水深。"]),
        ("乙山_(測試)", &["乙山高三百公尺。"]),
        ("丙", &["丙是人。", "生於甲湖。"]),
        ("HBO", &["HBO是電視台。"]),
    ]);
    let place = Place::new(&made, 2);
    let index = place.open().unwrap();
    let mut searcher = index.searcher();
    let mut titles = |text: &str, k| {
        let hits = searcher.search(text, k).unwrap();
        let title = |hit: &Hit| place.store.by_number(hit.page).unwrap().unwrap().title().to_owned();
        hits.iter().map(title).collect::<Vec<_>>()
    };
    assert_eq!(titles("甲湖的面積有十平方公里", 10), ["甲湖", "丙"]);
    assert_eq!(titles("甲湖的面積有十平方公里", 1), ["甲湖"]);
    assert_eq!(titles("ｈｂｏ是電視臺", 1), ["HBO"]);
    assert_eq!(titles("無關", 10), [""; 0]);
    assert_eq!(titles("甲湖", 0), [""; 0]);
}

#[test]
fn an_index_of_other_pages_or_a_damaged_one_is_refused() {
    let place = Place::new(&pages(&[("甲", &["一二三"])]), 1);
    let other = Place::new(&pages(&[("甲", &["一二三"]), ("乙", &["四"])]), 1);
    let error = Index::open(&other.dir.path().join("index"), &place.store).unwrap_err();
    assert!(error.to_string().contains("the index of other pages"), "{error}");
    let path = place.dir.path().join("index");
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 7, 20, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(place.open().is_err(), "{cut}");
    }
    // Damage anywhere is an error or another answer, never a panic.
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(index) = place.open() {
            let _ = index.searcher().search("一二三", 3);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The scores are those of the definition, whatever the number of threads.
    #[test]
    fn scores_are_their_definition(
        made in prop::collection::vec(("[甲乙丙]{1,2}", prop::collection::vec("[甲乙丙丁ab ，]{0,12}", 0..4)), 1..24),
        text in "[甲乙丙丁ab]{0,8}", jobs in 1usize..4,
    ) {
        let place = Place::new(&made, jobs);
        let index = place.open().unwrap();
        // Pages that a later one supersedes are not found, and do not count.
        let counts = |at: usize| made[at + 1..].iter().all(|(title, _)| *title != made[at].0);
        let made: Vec<_> = (0..made.len()).filter(|at| counts(*at)).map(|at| made[at].clone()).collect();
        let found = index.searcher().search(&text, made.len()).unwrap();
        let expect = plain(&made, &text);
        prop_assert_eq!(found.len(), expect.len());
        let expect: HashMap<u32, f64> = expect.into_iter().collect();
        for hit in &found {
            prop_assert!((f64::from(hit.score) - expect[&hit.page]).abs() < 1e-3);
        }
        prop_assert!(found.is_sorted());
        let fewer = index.searcher().search(&text, 3).unwrap();
        prop_assert_eq!(&fewer[..], &found[..found.len().min(3)]);
    }
}
