//! What a text is searched by: pairs of neighbouring Han, kana or Hangul characters, and words of other letters and
//! digits.
//!
//! Pairs need no dictionary, so they serve names, which claims are about, as well as words; segmentation by a dictionary
//! cuts a name in one way in the page and in another in the claim. A character that stands alone is a term by itself.
//! For searching alone (never for titles, which are compared to the letter) full-width letters are taken as ASCII,
//! letters in lower case, and some characters that are written in two ways in traditional Chinese as one.

/// A term, as a number: two characters of 21 bits each, or the hash of a word with the highest bit set.
pub type Term = u64;

const WORD: Term = 1 << 63;

/// Characters of which texts use both forms, each with the form it is taken for.
const VARIANTS: [(char, char); 26] = [
    ('爲', '為'),
    ('台', '臺'),
    ('裡', '裏'),
    ('羣', '群'),
    ('衆', '眾'),
    ('着', '著'),
    ('峯', '峰'),
    ('啓', '啟'),
    ('綫', '線'),
    ('牀', '床'),
    ('僞', '偽'),
    ('産', '產'),
    ('説', '說'),
    ('鷄', '雞'),
    ('麪', '麵'),
    ('硏', '研'),
    ('衛', '衞'),
    ('温', '溫'),
    ('嬀', '媯'),
    ('籤', '簽'),
    ('菸', '煙'),
    ('佈', '布'),
    ('週', '周'),
    ('並', '并'),
    ('鍾', '鐘'),
    ('巖', '岩'),
];

/// Calls `on` with each term of a text, in order, repeats too.
pub fn terms(text: &str, mut on: impl FnMut(Term)) {
    let mut run: Option<(char, bool)> = None;
    let mut word = Word::default();
    let single = |run: &mut Option<(char, bool)>, on: &mut dyn FnMut(Term)| {
        if let Some((c, false)) = run.take() {
            on(pair(c, '\0'));
        }
    };
    for c in text.chars() {
        let c = folded(c);
        if is_ideographic(c) {
            word.end(&mut on);
            if let Some((before, _)) = run {
                on(pair(before, c));
                run = Some((c, true));
            } else {
                run = Some((c, false));
            }
        } else if c.is_alphanumeric() {
            single(&mut run, &mut on);
            word.add(c);
        } else {
            single(&mut run, &mut on);
            word.end(&mut on);
        }
    }
    single(&mut run, &mut on);
    word.end(&mut on);
}

/// The terms of a text, sorted, each with how often it stands there.
pub fn counted(text: &str) -> Vec<(Term, u32)> {
    let mut all = Vec::new();
    terms(text, |term| all.push(term));
    all.sort_unstable();
    all.chunk_by(|a, b| a == b).filter_map(|same| Some((*same.first()?, same.len() as u32))).collect()
}

fn pair(first: char, second: char) -> Term {
    u64::from(u32::from(first)) << 21 | u64::from(u32::from(second))
}

/// The hash of a word (FNV-1a), letter by letter.
#[derive(Default)]
struct Word(Option<u64>);

impl Word {
    fn add(&mut self, c: char) {
        let mut hash = self.0.unwrap_or(0xcbf2_9ce4_8422_2325);
        let mut step = |c: char| {
            for byte in u32::from(c).to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        if c.is_ascii() {
            step(c.to_ascii_lowercase());
        } else {
            c.to_lowercase().for_each(step);
        }
        self.0 = Some(hash);
    }

    fn end(&mut self, on: &mut impl FnMut(Term)) {
        if let Some(hash) = self.0.take() {
            on(hash | WORD);
        }
    }
}

fn folded(c: char) -> char {
    match u32::from(c) {
        0..0x3007 => c,
        code @ 0xff01..=0xff5e => char::from_u32(code - 0xfee0).unwrap_or(c),
        _ => VARIANTS.iter().find(|(from, _)| *from == c).map_or(c, |(_, to)| *to),
    }
}

fn is_ideographic(c: char) -> bool {
    matches!(u32::from(c),
        0x3005..=0x3007 | 0x3041..=0x30ff | 0x3105..=0x312f | 0x3400..=0x4dbf | 0x4e00..=0x9fff
        | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Vec<Term> {
        let mut found = Vec::new();
        terms(text, |term| found.push(term));
        found
    }

    #[test]
    fn pairs_singles_and_words() {
        assert_eq!(of("甲湖大"), [pair('甲', '湖'), pair('湖', '大')]);
        assert_eq!(of("甲，乙丙"), [pair('甲', '\0'), pair('乙', '丙')]);
        assert_eq!(of("HBO臺1990"), of("ＨＢＯ台１９９０"));
        assert_eq!(of("HBO臺1990").len(), 3);
        assert_eq!(of("abc ABC"), [of("abc")[0]; 2]);
        assert_ne!(of("abc"), of("acb"));
        assert_eq!(of("、。 _()"), [0u64; 0]);
        assert_eq!(of("一個爲"), of("一個為"));
        assert_eq!(counted("甲乙甲乙"), [(pair('乙', '甲'), 1), (pair('甲', '乙'), 2)]);
        assert!(
            VARIANTS.iter().all(|(_, to)| VARIANTS.iter().all(|(from, _)| from != to)),
            "folding is done once"
        );
    }

    proptest! {
        #[test]
        fn counts_add_up(text in "[甲乙丙ab1 ，]{0,30}|\\PC{0,20}") {
            let sum: u32 = counted(&text).iter().map(|(_, n)| n).sum();
            prop_assert_eq!(sum as usize, of(&text).len());
        }
    }
}
