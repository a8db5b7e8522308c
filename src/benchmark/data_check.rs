//! Whether data are the published ones: rows, counts by column, copies, gold out of range.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::sources::{Expect, Gold};
use crate::types::{Digest, listed, shown};

/// Differences of one column that are told one by one.
const TOLD: usize = 3;

/// What a check asks of the clips and images that rows name: it opens nothing itself.
pub trait LookAtMedia {
    /// Whether a text in a row is the name of a clip or image.
    fn is_media(&self, name: &str) -> bool;

    /// A hash of what a clip or image holds; `None` where it cannot be read. It is asked for only where two rows are the
    /// same but for their media.
    fn content(&self, name: &str) -> Option<Digest>;
}

/// Rows without media.
#[cfg(test)]
pub(super) struct NoMedia;

#[cfg(test)]
impl LookAtMedia for NoMedia {
    fn is_media(&self, _: &str) -> bool {
        false
    }

    fn content(&self, _: &str) -> Option<Digest> {
        None
    }
}

/// Takes every row and says how the whole differs from what is published. It keeps a hash for each row, and the names of
/// its media.
#[derive(Debug)]
pub struct DataCheck {
    expect: Expect,
    rows: u64,
    counts: BTreeMap<String, BTreeMap<String, u64>>,
    seen: HashMap<[u8; 16], Rows>,
    copies: u64,
    /// Gold that is none, by its column, with the first of it.
    odd_gold: BTreeMap<String, (u64, String)>,
    /// The values of the columns that name a row.
    ids: HashSet<[u8; 16]>,
    same_ids: u64,
    /// Rows without one of these columns.
    nameless: u64,
    /// Rows by language, where a column names it.
    languages: BTreeMap<String, u64>,
    /// Rows that hold something of a language in a column of its name, by language.
    nested: BTreeMap<String, u64>,
}

/// Rows that are the same but for their media.
#[derive(Debug)]
enum Rows {
    /// One so far: the names of its media.
    One(Box<[String]>),
    /// Several: what the media of each hold.
    Several(HashSet<[u8; 16]>),
}

/// Columns that name the language of a row.
const LANGUAGE: [&str; 3] = ["language", "dialect", "lang"];

impl DataCheck {
    /// A check against what is expected; `None` where nothing is known of the rows.
    pub fn new(expect: Expect) -> Option<Self> {
        let known = expect.rows.is_some() || expect.rows_a_language.is_some();
        if !known && expect.unique.is_empty() && expect.gold.is_empty() {
            return None;
        }
        let counts = expect.counts.keys().map(|column| (column.clone(), BTreeMap::new())).collect();
        Some(Self {
            expect,
            rows: 0,
            counts,
            seen: HashMap::new(),
            copies: 0,
            odd_gold: BTreeMap::new(),
            ids: HashSet::new(),
            same_ids: 0,
            nameless: 0,
            languages: BTreeMap::new(),
            nested: BTreeMap::new(),
        })
    }

    /// A row, of which `media` knows what is a clip or image.
    pub fn add(&mut self, row: &Value, media: &dyn LookAtMedia) {
        self.rows += 1;
        for (column, counts) in &mut self.counts {
            *counts.entry(text(row.get(column))).or_default() += 1;
        }
        let unnamed = |column: &String| {
            row.get(column).is_none_or(|value| value.is_null() || value.as_str().is_some_and(str::is_empty))
        };
        if self.expect.unique.iter().any(unnamed) {
            self.nameless += 1;
        } else if !self.expect.unique.is_empty() {
            let mut hasher = blake3::Hasher::new();
            for column in &self.expect.unique {
                let value = text(row.get(column));
                hasher.update(&(value.len() as u64).to_le_bytes());
                hasher.update(value.as_bytes());
            }
            let mut hash = [0; 16];
            hasher.finalize_xof().fill(&mut hash);
            self.same_ids += u64::from(!self.ids.insert(hash));
        }
        if let Some(language) = LANGUAGE.iter().find_map(|column| row.get(column)?.as_str()) {
            *self.languages.entry(language.to_owned()).or_default() += 1;
        } else {
            for language in self.expect.languages.iter().filter(|language| row.get(language).is_some()) {
                *self.nested.entry(language.clone()).or_default() += 1;
            }
        }
        self.gold(row);
        if self.expect.repeats {
            return;
        }
        let (hash, names) = content(row, &self.expect.unique, media);
        match self.seen.get_mut(&hash) {
            None => {
                self.seen.insert(hash, Rows::One(names.into_boxed_slice()));
            }
            Some(Rows::One(first)) if first.is_empty() => self.copies += 1,
            Some(rows) => {
                if let Rows::One(first) = rows {
                    *rows = Rows::Several(HashSet::from([held(first, media)]));
                }
                if let Rows::Several(seen) = rows {
                    self.copies += u64::from(!seen.insert(held(&names, media)));
                }
            }
        }
    }

    /// Looks at the gold of a row.
    fn gold(&mut self, row: &Value) {
        for Gold { column, values } in &self.expect.gold {
            let mut one = |column: &str| {
                let found = column.split('.').try_fold(row, |value, key| value.get(key));
                let found = number_or_text(found);
                if found.is_empty() || !(values.is_empty() || values.contains(&found)) {
                    let found =
                        if found.is_empty() { "none".to_owned() } else { format!("`{}`", shown(&found)) };
                    self.odd_gold.entry(column.to_owned()).or_insert((0, found)).0 += 1;
                }
            };
            if column.contains("{language}") {
                for language in self.expect.languages.iter().filter(|language| row.get(language).is_some()) {
                    one(&column.replace("{language}", language));
                }
            } else {
                one(column);
            }
        }
    }

    /// How the data differ from the published ones, in fragments of sentences; nothing where they do not.
    pub fn finish(self) -> Vec<String> {
        let mut found = Vec::new();
        // Where each language has its own rows, the whole depends on how many languages are there.
        let expected = self.expect.rows.unwrap_or(self.rows);
        if self.rows != expected {
            let rows = if self.rows == 1 { "row" } else { "rows" };
            found.push(format!("{} {rows} instead of {}", grouped(self.rows), grouped(expected)));
        }
        found.extend(self.of_rows());
        found.extend(self.of_languages());
        // With other rows the counts differ by themselves.
        if self.rows == expected {
            for (column, expected) in &self.expect.counts {
                let counts = self.counts.get(column).cloned().unwrap_or_default();
                found.extend(differences(column, &counts, expected));
            }
        }
        found
    }

    /// The same where a part of the rows is used: how many there are says nothing then.
    pub fn finish_part(self) -> Vec<String> {
        let mut found = self.of_rows();
        found.extend(self.unknown_languages());
        found
    }
}

impl DataCheck {
    /// What is wrong with single rows, however many there are.
    fn of_rows(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.copies > 0 {
            let names = self.expect.unique.join(", ");
            found.push(match self.copies {
                1 => format!("a row is a copy of another but for {names}"),
                n => format!("{} rows are copies of others but for {names}", grouped(n)),
            });
        }
        if self.same_ids > 0 {
            let names = self.expect.unique.join(", ");
            found.push(match self.same_ids {
                1 => format!("a row has the {names} of another"),
                n => format!("{} rows have the {names} of others", grouped(n)),
            });
        }
        if self.nameless > 0 {
            let names = match &*self.expect.unique {
                [one] => one.clone(),
                names => format!("value in one of {}", names.join(", ")),
            };
            found.push(match self.nameless {
                1 => format!("a row has no {names}"),
                n => format!("{} rows have no {names}", grouped(n)),
            });
        }
        for (column, (rows, first)) in &self.odd_gold {
            let rows = if *rows == 1 { "1 row".to_owned() } else { format!("{} rows", grouped(*rows)) };
            found.push(format!(
                "{rows} without a gold answer that can be one in {column} (the first has {first})"
            ));
        }
        found
    }

    /// Languages that are none of the published ones, in one fragment.
    fn unknown_languages(&self) -> Option<String> {
        let known = &self.expect.languages;
        let unknown = self.languages.keys().filter(|language| !known.contains(language));
        let unknown: Vec<&str> = unknown.map(String::as_str).collect();
        let said = || format!("languages that are not published: {}", unknown.join(", "));
        (!known.is_empty() && !unknown.is_empty()).then(said)
    }

    /// What is wrong with the languages.
    fn of_languages(&self) -> Vec<String> {
        let known = &self.expect.languages;
        if known.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<String> = self.unknown_languages().into_iter().collect();
        if let Some(each) = self.expect.rows_a_language {
            let expected = self.languages.keys().map(|language| (language.clone(), each)).collect();
            found.extend(differences("language", &self.languages, &expected));
        }
        // Where rows hold all languages, each must hold all.
        if !self.nested.is_empty() {
            let expected = known.iter().map(|language| (language.clone(), self.rows)).collect();
            found.extend(differences("language", &self.nested, &expected));
        }
        found
    }
}

/// A value of a row as text.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// Gold as text: whole numbers without a point, however they are written.
fn number_or_text(value: Option<&Value>) -> String {
    let number = match value {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        _ => None,
    };
    match number.filter(|number| number.fract() == 0.0 && number.abs() < 1e15) {
        Some(number) => (number as i64).to_string(),
        None => match value {
            None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => String::new(),
            value => text(value).trim().to_owned(),
        },
    }
}

/// A hash of a row without the columns that name it and without the names of its media, and these names.
fn content(row: &Value, unique: &[String], media: &dyn LookAtMedia) -> ([u8; 16], Vec<String>) {
    let mut walk = Content { hasher: blake3::Hasher::new(), names: Vec::new(), media };
    match row {
        Value::Object(row) => {
            let mut fields: Vec<(&String, &Value)> =
                row.iter().filter(|(name, _)| !unique.contains(name)).collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, value) in fields {
                walk.text(b'k', name);
                walk.value(value);
            }
        }
        other => walk.value(other),
    }
    let mut hash = [0; 16];
    walk.hasher.finalize_xof().fill(&mut hash);
    (hash, walk.names)
}

/// A walk through a row.
struct Content<'a> {
    hasher: blake3::Hasher,
    names: Vec<String>,
    media: &'a dyn LookAtMedia,
}

impl Content<'_> {
    fn text(&mut self, kind: u8, text: &str) {
        self.hasher.update(&[kind]);
        self.hasher.update(&(text.len() as u64).to_le_bytes());
        self.hasher.update(text.as_bytes());
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(name) if self.media.is_media(name) => {
                self.hasher.update(b"m");
                self.names.push(name.clone());
            }
            Value::String(text) => self.text(b's', text),
            Value::Array(items) => {
                self.text(b'a', &items.len().to_string());
                for item in items {
                    self.value(item);
                }
            }
            Value::Object(fields) => {
                self.text(b'o', &fields.len().to_string());
                for (name, value) in fields {
                    self.text(b'k', name);
                    self.value(value);
                }
            }
            other => self.text(b'v', &other.to_string()),
        }
    }
}

/// A hash of what the media of a row hold. What cannot be read is taken for itself alone.
fn held(names: &[String], media: &dyn LookAtMedia) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for name in names {
        match media.content(name) {
            Some(content) => hasher.update(&content.0),
            None => hasher.update(name.as_bytes()),
        };
    }
    let mut hash = [0; 16];
    hasher.finalize_xof().fill(&mut hash);
    hash
}

/// How the counts of a column differ, in one fragment.
fn differences(
    column: &str,
    found: &BTreeMap<String, u64>,
    expected: &BTreeMap<String, u64>,
) -> Option<String> {
    let of = |counts: &BTreeMap<String, u64>, value: &str| counts.get(value).copied().unwrap_or_default();
    let mut values: Vec<&String> = expected.keys().chain(found.keys()).collect();
    values.sort();
    values.dedup();
    let differ: Vec<String> = values
        .into_iter()
        .filter(|value| of(found, value) != of(expected, value))
        .map(|value| format!("{value} {} instead of {}", of(found, value), of(expected, value)))
        .collect();
    (!differ.is_empty()).then(|| format!("rows by {column}: {}", listed(&differ, TOLD)))
}

/// `1,000`
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expect() -> Expect {
        toml::from_str("rows = 3\nunique = ['id']\n[counts.label]\na = 2\nb = 1").unwrap()
    }

    /// Clips are called `CONTENT-anything.wav`.
    struct Clips;

    impl LookAtMedia for Clips {
        fn is_media(&self, name: &str) -> bool {
            name.strip_suffix(".wav").is_some()
        }

        fn content(&self, name: &str) -> Option<Digest> {
            Some(Digest::of(name.split('-').next()?.as_bytes()))
        }
    }

    fn found(expect: &str, rows: &[Value]) -> Vec<String> {
        let mut check = DataCheck::new(toml::from_str(expect).unwrap()).unwrap();
        for row in rows {
            check.add(row, &Clips);
        }
        check.finish()
    }

    fn check(rows: &[Value]) -> Vec<String> {
        let mut check = DataCheck::new(expect()).unwrap();
        for row in rows {
            check.add(row, &Clips);
        }
        check.finish()
    }

    #[test]
    fn copies_are_found_whatever_their_media_are_called() {
        let row = |id: u64, clips: &[&str]| json!({"id": id, "clips": clips, "q": "What is this?"});
        let expect = "unique = ['id']";
        // The same question about other clips is another row.
        let rows = [
            row(1, &["a-1.wav", "b-1.wav"]),
            row(2, &["a-2.wav", "c-1.wav"]),
            row(3, &["b-1.wav", "a-1.wav"]),
        ];
        assert_eq!(found(expect, &rows), Vec::<String>::new());
        let copies =
            [&rows[..], &[row(4, &["a-7.wav", "c-9.wav"]), row(5, &["a-8.wav", "b-8.wav"])]].concat();
        assert_eq!(found(expect, &copies), ["2 rows are copies of others but for id"]);
        // Without media, the text alone decides.
        let text = [json!({"id": 1, "q": "x"}), json!({"id": 2, "q": "x"})];
        assert_eq!(found(expect, &text), ["a row is a copy of another but for id"]);
        assert_eq!(found("unique = ['id']\nrepeats = true", &text), Vec::<String>::new());
        let twice = [json!({"id": 1, "q": "x"}), json!({"id": 1, "q": "x"})];
        assert_eq!(found("unique = ['id']\nrepeats = true", &twice), ["a row has the id of another"]);
    }

    #[test]
    fn gold_that_is_none_is_told() {
        let expect = "[[gold]]\ncolumn = 'n'\nvalues = ['1', '2']";
        let rows =
            [json!({"n": "2"}), json!({"n": 2.0}), json!({"n": " 1"}), json!({"n": 1})].map(|mut row| {
                row["id"] = row.to_string().into();
                row
            });
        assert_eq!(found(expect, &rows), Vec::<String>::new());
        for (gold, said) in [
            (json!(3), "`3`"),
            (json!(1.5), "`1.5`"),
            (json!("B"), "`B`"),
            (json!(null), "none"),
            (json!([1]), "none"),
        ] {
            let said = format!("1 row without a gold answer that can be one in n (the first has {said})");
            assert_eq!(found(expect, &[json!({"n": gold})]), [said]);
        }
        let expect = "languages = ['eng', 'yue']\n[[gold]]\ncolumn = '{language}.answer'";
        let rows = [
            json!({"id": 1, "eng": {"answer": "x"}, "yue": {"answer": " "}}),
            json!({"eng": {"answer": "y"}}),
        ];
        let said = "1 row without a gold answer that can be one in yue.answer (the first has none)";
        assert!(found(expect, &rows).contains(&said.to_owned()));
    }

    #[test]
    fn published_data_pass() {
        let rows = [
            json!({"id": 1, "label": "a", "q": "x"}),
            json!({"id": 2, "label": "a", "q": "y"}),
            json!({"id": 3, "label": "b", "q": "x"}),
        ];
        assert_eq!(check(&rows), Vec::<String>::new());
        assert!(DataCheck::new(Expect::default()).is_none(), "nothing is known, so nothing is checked");
    }

    #[test]
    fn missing_rows_are_told_without_the_counts_that_follow() {
        assert_eq!(check(&[json!({"id": 1, "label": "a"})]), ["1 row instead of 3"]);
        assert_eq!(check(&[]), ["0 rows instead of 3"]);
    }

    #[test]
    fn copies_under_another_name_are_found_in_any_order_of_fields() {
        let rows = [
            json!({"id": 1, "label": "a", "q": "x"}),
            json!({"id": 2, "q": "x", "label": "a"}),
            json!({"id": 3, "label": "b", "q": "x"}),
        ];
        assert_eq!(check(&rows), ["a row is a copy of another but for id"]);
    }

    #[test]
    fn ids_and_languages_are_checked() {
        let expect = "rows_a_language = 2\nunique = ['dialect', 'n']\nlanguages = ['a_A', 'b_B']";
        let found = |rows: &[Value]| found(expect, rows);
        let row = |dialect: &str, n: u64| json!({"dialect": dialect, "n": n, "q": format!("{dialect}{n}")});
        // A language that was not fetched is no difference.
        assert_eq!(found(&[row("a_A", 1), row("a_A", 2)]), Vec::<String>::new());
        assert_eq!(
            found(&[row("a_A", 1), row("b_B", 2), row("b_B", 3)]),
            ["rows by language: a_A 1 instead of 2"]
        );
        assert_eq!(found(&[row("c_C", 1), row("c_C", 2)]), ["languages that are not published: c_C"]);
        let same = json!({"dialect": "a_A", "n": 1, "q": "another"});
        assert_eq!(found(&[row("a_A", 1), same]), ["a row has the dialect, n of another"]);
        let nested = "rows = 2\nlanguages = ['eng', 'yue']";
        let rows = [json!({"id": 1, "eng": {}, "yue": {}}), json!({"id": 2, "eng": {}})];
        assert_eq!(super::tests::found(nested, &rows), ["rows by language: yue 1 instead of 2"]);
    }

    #[test]
    fn rows_without_a_name_are_counted_apart() {
        let expect = "unique = ['data_id']";
        let rows = [
            json!({"index": 1, "q": "a"}),
            json!({"index": 2, "data_id": null, "q": "b"}),
            json!({"data_id": "", "q": "c"}),
            json!({"data_id": 0, "q": "d"}),
        ];
        assert_eq!(found(expect, &rows), ["3 rows have no data_id"]);
        assert_eq!(found(expect, &rows[2..]), ["a row has no data_id"]);
    }

    #[test]
    fn of_a_part_no_numbers_are_compared() {
        let expect = "rows = 5\nrows_a_language = 5\nunique = ['id']\nlanguages = ['a']\n[counts.label]\nx = 5\n\
                      [[gold]]\ncolumn = 'n'";
        let rows = [
            json!({"id": 1, "language": "a", "n": 1, "label": "x"}),
            json!({"id": 2, "language": "b", "n": null, "label": "x"}),
            json!({"id": 3, "language": "a", "n": 1, "label": "x"}),
        ];
        let mut check = DataCheck::new(toml::from_str(expect).unwrap()).unwrap();
        for row in &rows {
            check.add(row, &Clips);
        }
        assert_eq!(
            check.finish_part(),
            [
                "a row is a copy of another but for id",
                "1 row without a gold answer that can be one in n (the first has none)",
                "languages that are not published: b",
            ]
        );
    }

    #[test]
    fn counts_by_column_are_compared() {
        let row = |id: u64, label: Value| json!({"id": id, "label": label});
        let rows = [row(1, json!("a")), row(2, json!("c")), row(3, json!(7))];
        assert_eq!(
            check(&rows),
            ["rows by label: 7 1 instead of 0, a 1 instead of 2, b 0 instead of 1 and 1 more"]
        );
    }

    #[test]
    fn numbers_are_grouped() {
        for (n, expect) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (24012, "24,012"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(n), expect);
        }
    }

    /// The rows as they are published, where they are at hand.
    #[test]
    fn the_descriptions_fit_the_published_rows() {
        let Some(file) = std::env::var_os("HARNESS_TEST_CCFQA") else {
            eprintln!("skipped: HARNESS_TEST_CCFQA names no test.jsonl");
            return;
        };
        let text = std::fs::read_to_string(file).unwrap();
        let mut check = DataCheck::new(super::super::sources::sources("ccfqa").unwrap().expect).unwrap();
        for line in text.lines() {
            check.add(&serde_json::from_str(line).unwrap(), &Clips);
        }
        assert_eq!(check.finish(), Vec::<String>::new());
    }
}
