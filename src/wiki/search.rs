//! The pages that a text is about: those whose titles stand in it, and those that share its words.

use super::WikiError;
use super::index::Searcher;
use super::store::{Page, Store};

/// The longest title that is looked for in a text, in characters.
const LONGEST: usize = 16;
/// The shortest one: single characters are in every text.
const SHORTEST: usize = 2;

/// The pages whose titles stand in a text as they are (blanks as `_`), the longest titles first, then in the order of
/// the text. A title within a longer one that was found is not named.
pub fn pages_named(store: &Store, text: &str) -> Result<Vec<Page>, WikiError> {
    let text = text.replace(' ', "_");
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut found: Vec<Page> = Vec::new();
    for length in (SHORTEST..=LONGEST).rev() {
        for ends in places.windows(length + 1) {
            let (Some(from), Some(to)) = (ends.first(), ends.last()) else { continue };
            let title = text.get(*from..*to).unwrap_or_default();
            if found.iter().any(|page| page.title().contains(title)) {
                continue;
            }
            found.extend(store.page(title)?);
        }
    }
    Ok(found)
}

/// The `k` pages for a text, the best first: up to half of them pages whose titles stand in it, the rest by BM25.
/// Without a searcher only the former.
pub fn pages_for(
    store: &Store,
    searcher: Option<&mut Searcher<'_>>,
    text: &str,
    k: usize,
) -> Result<Vec<Page>, WikiError> {
    let mut found = pages_named(store, text)?;
    let Some(searcher) = searcher else {
        found.truncate(k);
        return Ok(found);
    };
    found.truncate(k.div_ceil(2));
    for hit in searcher.search(text, 2 * k)? {
        if found.len() >= k {
            break;
        }
        if let Some(page) = store.by_number(hit.page)?
            && found.iter().all(|other| other.title() != page.title())
        {
            found.push(page);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::super::{Index, StoreBuilder, build_index};
    use super::*;

    #[test]
    fn named_pages_go_first_and_each_page_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pages");
        let mut builder = StoreBuilder::new(std::fs::File::create(&path).unwrap()).unwrap();
        for (title, text) in [
            ("甲湖", "甲湖在北方。"),
            ("湖", "湖是水。"),
            ("甲湖大學", "甲湖大學是學校。"),
            ("大學", "大學是學校。"),
            ("Big_Lake", "Big Lake是湖。"),
            ("面積", "面積。"),
            ("丁", "甲湖的面積是十平方公里，面積很大。"),
        ] {
            builder.add(title, &[(0, text)]).unwrap();
        }
        builder.finish("n").unwrap();
        let store = Store::open(&path).unwrap();
        let titles = |pages: &[Page]| pages.iter().map(|p| p.title().to_owned()).collect::<Vec<_>>();
        let named = |text: &str| titles(&pages_named(&store, text).unwrap());
        assert_eq!(named("甲湖的面積"), ["甲湖", "面積"]);
        assert_eq!(named("甲湖大學的Big Lake"), ["Big_Lake", "甲湖大學"]);
        assert_eq!(named(""), [""; 0]);
        let index = dir.path().join("index");
        build_index(&store, &index, NonZeroUsize::MIN, &|_| ()).unwrap();
        let index = Index::open(&index, &store).unwrap();
        let mut searcher = index.searcher();
        let found = pages_for(&store, Some(&mut searcher), "甲湖的面積是十平方公里", 3).unwrap();
        assert_eq!(titles(&found), ["甲湖", "面積", "丁"]);
        let found = pages_for(&store, None, "甲湖的面積是十平方公里", 1).unwrap();
        assert_eq!(titles(&found), ["甲湖"]);
    }

    /// What search shows of a title is what a look-up of the title gives.
    #[test]
    fn a_page_that_is_superseded_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pages");
        let mut builder = StoreBuilder::new(std::fs::File::create(&path).unwrap()).unwrap();
        for (title, text) in [("樹高城", "舊版由雨羊人創立。"), ("丙", "丙是人。"), ("樹高城", "新版。")]
        {
            builder.add(title, &[(0, text)]).unwrap();
        }
        builder.finish("n").unwrap();
        let store = Store::open(&path).unwrap();
        let index = dir.path().join("index");
        build_index(&store, &index, NonZeroUsize::MIN, &|_| ()).unwrap();
        let index = Index::open(&index, &store).unwrap();
        let mut searcher = index.searcher();
        assert!(pages_for(&store, Some(&mut searcher), "由雨羊人創立", 3).unwrap().is_empty());
        let found = pages_for(&store, Some(&mut searcher), "高城的新版", 3).unwrap();
        assert_eq!(found.iter().map(|page| page.sentence(0)).collect::<Vec<_>>(), [Some("新版。")]);
    }
}
