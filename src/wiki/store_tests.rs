use std::io::Cursor;

use proptest::prelude::*;

use super::super::StoreBuilder;
use super::*;

type Pages<'a> = &'a [(&'a str, &'a [(u32, &'a str)])];

fn bytes(pages: Pages<'_>) -> Vec<u8> {
    let mut builder = StoreBuilder::new(Cursor::new(Vec::new())).unwrap();
    for (title, sentences) in pages {
        assert!(builder.add(title, sentences).unwrap());
    }
    builder.finish("made of nothing").unwrap().0.into_inner()
}

fn store(bytes: &[u8]) -> (tempfile::TempDir, Result<Store, WikiError>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pages");
    std::fs::write(&path, bytes).unwrap();
    let store = Store::open(&path);
    (dir, store)
}

const PAGES: Pages<'static> = &[
    ("甲湖", &[(0, "甲湖面積十平方公里。"), (1, ""), (2, "湖水深。")]),
    ("乙山_(測試)", &[(0, "乙山高。"), (7, "其後。"), (3, "無序。")]),
    ("空", &[]),
    ("甲湖", &[(0, "甲湖的另一頁。")]),
    ("HBO", &[(0, "電視。")]),
];

/// The bytes of titles and sentences of the pages that count.
const TEXT: u64 = 15 + 30 + 3 + 6 + 21 + 3 + 9;

#[test]
fn pages_that_are_superseded_are_counted() {
    let mut builder = StoreBuilder::new(Cursor::new(Vec::new())).unwrap();
    for title in ["甲", "乙", "甲", "丙", "甲"] {
        builder.add(title, &[(0, "一")]).unwrap();
    }
    assert_eq!(builder.superseded(), 2);
    builder.add("乙", &[]).unwrap();
    assert_eq!(builder.superseded(), 3);
    assert_eq!(builder.finish("").unwrap().1, StoreFacts { pages: 3, sentences: 2, text: 15 });
}

#[test]
fn pages_are_found_by_title_and_by_number() {
    let (_dir, store) = store(&bytes(PAGES));
    let store = store.unwrap();
    assert_eq!(store.facts(), StoreFacts { pages: 4, sentences: 5, text: TEXT });
    assert_eq!(store.note(), "made of nothing");
    let sentence = |title: &str, line| store.sentence(title, line).unwrap();
    assert_eq!(sentence("甲湖", 0).as_deref(), Some("甲湖的另一頁。"), "the later page of a title counts");
    assert_eq!(sentence("乙山_(測試)", 3).as_deref(), Some("無序。"));
    assert_eq!(sentence("乙山_(測試)", 7).as_deref(), Some("其後。"));
    assert_eq!(sentence("乙山 (測試)", 0).as_deref(), Some("乙山高。"), "the dump writes `_` for a blank");
    for (title, line) in [("乙山_(測試)", 1), ("空", 0), ("hbo", 0), ("甲", 0), ("", 0)] {
        assert_eq!(sentence(title, line), None, "{title} {line}");
    }
    // By number there are those that a title leads to, and no other.
    for (number, (title, sentences)) in (0..).zip(&PAGES[1..]) {
        let page = store.by_number(number).unwrap().unwrap();
        assert_eq!(page.title(), *title);
        assert_eq!(page.sentences().collect::<Vec<_>>(), *sentences);
    }
    assert_eq!(store.by_number(4).unwrap(), None);
    assert_eq!(store.page("空").unwrap().unwrap().sentences().count(), 0);
}

#[test]
fn a_damaged_store_is_an_error() {
    let whole = bytes(PAGES);
    let error = |bytes: &[u8]| store(bytes).1.unwrap_err().to_string();
    assert!(error(&whole[..100]).contains("too short to be a store of pages: delete it and make it again"));
    assert!(error(&whole[..whole.len() - 1]).contains("cut short or damaged"));
    let mut other = whole.clone();
    other[0] = b'X';
    assert!(error(&other).contains("is no store of pages"));
    other[..8].copy_from_slice(b"HWIKI\x00\x03\x00");
    assert!(error(&other).contains("of another version"));
    let mut other = whole.clone();
    let end = other.len();
    other[end - FOOT - 3] ^= 1;
    assert!(error(&other).contains("damaged at its end"));
    // The text of the first page named `HBO`.
    let at = whole.windows(9).position(|text| text == "電視。".as_bytes()).unwrap();
    let mut other = whole;
    other[at] ^= 1;
    let (_dir, store) = store(&other);
    let error = store.unwrap().page("HBO").unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
}

/// Search reads pages by number: what it shows is checked as well.
#[test]
fn a_damaged_page_or_place_is_an_error_by_number_too() {
    let whole = bytes(PAGES);
    let at = whole.windows(9).position(|text| text == "電視。".as_bytes()).unwrap();
    let mut other = whole.clone();
    other[at] ^= 1;
    let error = store(&other).1.unwrap().by_number(3).unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
    // The order lies before buckets, note and foot.
    let order = whole.len() - FOOT - "made of nothing".len() - BUCKETS * 4 - 4 * PLACE;
    for at in order..order + 4 * PLACE {
        let mut other = whole.clone();
        other[at] ^= 4;
        let number = ((at - order) / PLACE) as u32;
        let (_dir, store) = store(&other);
        assert!(store.unwrap().by_number(number).is_err(), "byte {at}");
    }
}

proptest! {
    #[test]
    fn what_was_put_in_comes_out(pages in prop::collection::vec(("\\PC{1,8}", prop::collection::vec("\\PC{0,12}", 0..6)), 0..30)) {
        let pages: Vec<(String, Vec<(u32, &str)>)> = pages
            .iter()
            .map(|(title, texts)| (title.clone(), (0..).zip(texts.iter().map(String::as_str)).collect()))
            .collect();
        let borrowed: Vec<(&str, &[(u32, &str)])> = pages.iter().map(|(t, s)| (&**t, &**s)).collect();
        let (_dir, store) = store(&bytes(&borrowed));
        let store = store.unwrap();
        let counts = |at: usize| pages[at + 1..].iter().all(|(title, _)| *title != pages[at].0);
        let counting = (0..pages.len()).filter(|at| counts(*at)).map(|at| &pages[at]);
        for (number, (title, sentences)) in (0..).zip(counting) {
            let page = store.by_number(number).unwrap().unwrap();
            prop_assert_eq!(page.title(), title);
            prop_assert_eq!(&page.sentences().collect::<Vec<_>>(), sentences);
        }
        for (title, _) in &pages {
            let last = pages.iter().rev().find(|(other, _)| other == title).unwrap();
            let page = store.page(title).unwrap().unwrap();
            prop_assert_eq!(page.sentences().collect::<Vec<_>>(), last.1.clone());
            for (number, text) in &last.1 {
                prop_assert_eq!(page.sentence(*number), Some(*text));
            }
        }
    }

    /// Nothing in a file makes the reader panic.
    #[test]
    fn damage_anywhere_is_no_panic(at in 0usize..1_000_000, bit in 0u8..8) {
        let mut damaged = bytes(PAGES);
        // Beyond the buckets damage is in the check; within them most of the file is alike.
        let at = at % damaged.len();
        damaged[at] ^= 1 << bit;
        let (_dir, store) = store(&damaged);
        if let Ok(store) = store {
            for (title, _) in PAGES {
                if let Ok(Some(page)) = store.page(title) {
                    let _ = page.sentences().count() + page.title().len();
                }
            }
            for number in 0..6 {
                if let Ok(Some(page)) = store.by_number(number) {
                    let _ = page.sentences().count();
                }
            }
        }
    }
}
