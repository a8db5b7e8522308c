//! Tests of the cursor: how often rows are decoded, whatever the order in which they are asked for.

use bytes::Bytes;

use super::*;

/// A file of rows that weigh something, in groups of ten; row 13 cannot be decoded, row 14 makes the decoder panic.
struct Groups {
    rows: u64,
    weight: usize,
    faults: bool,
}

struct Walk {
    at: u64,
    rows: u64,
    weight: usize,
    faults: bool,
}

struct One(u64, usize);

impl Cells for One {
    fn weight(&self) -> usize {
        self.1
    }

    fn media(&self, path: &[&str]) -> Result<MediaContent, ReadError> {
        Ok(MediaContent::File(Bytes::from(format!("{} {}", self.0, path.join(".")))))
    }
}

impl Forward for Walk {
    fn next_row(&mut self) -> Option<(u64, Decoded)> {
        let at = self.at;
        self.at += 1;
        assert!(!(self.faults && at == 14), "as a decoder may");
        let decoded: Decoded = if self.faults && at == 13 {
            Err("is damaged".into())
        } else {
            Ok(Arc::new(One(at, self.weight)))
        };
        (at < self.rows).then_some((at, decoded))
    }
}

impl Start for Groups {
    fn start(&self, row: u64) -> Result<Box<dyn Forward>, ReadError> {
        let at = if self.faults { row } else { row / 10 * 10 };
        Ok(Box::new(Walk { at, rows: self.rows, weight: self.weight, faults: self.faults }))
    }

    fn leaps(&self, from: u64, to: u64) -> bool {
        from / 10 < to / 10
    }
}

fn cursor_of(rows: u64, weight: usize, faults: bool) -> (Cursor, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (Cursor::new(Box::new(Groups { rows, weight, faults }), Arc::clone(&counts)), counts)
}

fn text(cursor: &Cursor, row: u64) -> String {
    match cursor.row(row).unwrap().media(&["a", "0"]).unwrap() {
        MediaContent::File(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        MediaContent::Samples(_) => panic!("samples"),
    }
}

fn decoded(counts: &Counts) -> (u64, u64) {
    (counts.rows.load(Ordering::Relaxed), counts.starts.load(Ordering::Relaxed))
}

#[test]
fn rows_in_order_are_decoded_once() {
    let (cursor, counts) = cursor_of(100, 10, false);
    for row in 0..100 {
        assert_eq!(text(&cursor, row), format!("{row} a.0"));
    }
    assert_eq!(decoded(&counts), (100, 1));
    assert!(cursor.row(100).err().unwrap().to_string().contains("no row 100"));
}

#[test]
fn rows_that_were_passed_are_kept_and_far_ones_start_their_group() {
    let (cursor, counts) = cursor_of(100, 10, false);
    assert_eq!(text(&cursor, 7), "7 a.0");
    assert_eq!(text(&cursor, 2), "2 a.0");
    assert_eq!(decoded(&counts), (8, 1));
    assert_eq!(text(&cursor, 55), "55 a.0");
    assert_eq!(decoded(&counts), (8 + 6, 2), "row 55 is the sixth of its group");
}

#[test]
fn heavy_rows_are_not_kept_for_ever() {
    let (cursor, counts) = cursor_of(100, 50 << 20, false);
    for row in 0..100 {
        text(&cursor, row);
    }
    assert!(cursor.lock().bytes <= KEPT_BYTES + (50 << 20));
    let before = decoded(&counts);
    text(&cursor, 3);
    assert_eq!(decoded(&counts), (before.0 + 4, before.1 + 1), "row 3 starts its group again");
}

#[test]
fn many_who_ask_at_once_are_served_in_order() {
    let (cursor, counts) = cursor_of(10, 60 << 20, false);
    std::thread::scope(|scope| {
        for row in (0..10).rev() {
            let cursor = &cursor;
            scope.spawn(move || assert_eq!(text(cursor, row), format!("{row} a.0")));
        }
    });
    let (rows, _) = decoded(&counts);
    // Threads may begin one after the other, from the last: more than one pass then, never a pass a row.
    assert!((10..=55).contains(&rows), "{rows}");
}

#[test]
fn a_damaged_row_and_a_panic_harm_no_other_row() {
    let (cursor, _) = cursor_of(20, 10, true);
    assert_eq!(text(&cursor, 12), "12 a.0");
    assert_eq!(cursor.row(13).err().unwrap().to_string(), "is damaged");
    assert!(cursor.row(14).err().unwrap().to_string().contains("the decoder of its file failed"));
    assert_eq!(text(&cursor, 15), "15 a.0");
}
