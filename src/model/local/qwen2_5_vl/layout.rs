//! The order in which the vision tower computes an image's patches, and where tokens stand.
//!
//! Patches come in blocks of `merge` x `merge`, each of which becomes a token. Most layers attend within windows of
//! tokens, so blocks are put window by window, and windows of one size side by side: they are computed together. Pure
//! arithmetic: this module must not know tensors.

use crate::model::local::generate::Positions;
use crate::model::local::nn::rope::Position;

/// The tokens of an image: rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Grid {
    /// How many.
    pub(super) fn tokens(self) -> usize {
        self.rows * self.columns
    }
}

/// The order of an image's tokens in the tower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The tokens, each by its place in the image (row by row), window by window.
    pub(super) order: Vec<usize>,
    /// The length of windows in tokens, and how many there are side by side.
    pub(super) windows: Vec<(usize, usize)>,
}

impl Layout {
    /// The order for windows of `side` x `side` tokens; those at the right and the bottom may be smaller.
    pub(super) fn new(grid: Grid, side: usize) -> Self {
        let side = side.max(1);
        let mut windows: Vec<Vec<usize>> = Vec::new();
        for top in (0..grid.rows).step_by(side) {
            for left in (0..grid.columns).step_by(side) {
                let rows = top..(top + side).min(grid.rows);
                let columns = left..(left + side).min(grid.columns);
                windows.push(
                    rows.flat_map(|row| columns.clone().map(move |column| row * grid.columns + column))
                        .collect(),
                );
            }
        }
        // Stable, so that the order is the same every time.
        windows.sort_by_key(|window| std::cmp::Reverse(window.len()));
        let mut lengths: Vec<(usize, usize)> = Vec::new();
        for window in &windows {
            match lengths.last_mut() {
                Some((length, count)) if *length == window.len() => *count += 1,
                _ => lengths.push((window.len(), 1)),
            }
        }
        Self { order: windows.concat(), windows: lengths }
    }

    /// For each token of the image, row by row, its place in the order.
    pub(super) fn inverse(&self) -> Vec<u32> {
        let mut inverse = vec![0; self.order.len()];
        for (at, &token) in self.order.iter().enumerate() {
            if let Some(place) = inverse.get_mut(token) {
                *place = at as u32;
            }
        }
        inverse
    }

    /// Row and column of each patch, in the order.
    pub(super) fn patch_positions(&self, grid: Grid, merge: usize) -> Vec<Position> {
        let columns = grid.columns.max(1);
        self.order
            .iter()
            .flat_map(|token| {
                let (top, left) = (token / columns * merge, token % columns * merge);
                (0..merge * merge).map(move |at| [(top + at / merge) as u32, (left + at % merge) as u32, 0])
            })
            .collect()
    }
}

/// Where the tokens of a prompt stand: text one behind the other, an image's tokens at their rows and columns, and what
/// follows an image behind its longer side. As `get_rope_index` of the reference has it for still images. `images` are
/// places of first tokens, in order, with their grids.
pub(super) fn positions(tokens: usize, images: &[(usize, Grid)]) -> Positions {
    let mut prompt = Vec::with_capacity(tokens);
    let mut next = 0_u32;
    let text = |prompt: &mut Vec<Position>, next: &mut u32, until: usize| {
        while prompt.len() < until {
            prompt.push([*next; 3]);
            *next += 1;
        }
    };
    for &(start, grid) in images {
        text(&mut prompt, &mut next, start.min(tokens));
        for row in 0..grid.rows as u32 {
            prompt.extend((0..grid.columns as u32).map(|column| [next, next + row, next + column]));
        }
        next += grid.rows.max(grid.columns) as u32;
    }
    text(&mut prompt, &mut next, tokens);
    Positions { prompt, next }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn windows_of_one_size_lie_side_by_side() {
        let layout = Layout::new(Grid { rows: 3, columns: 5 }, 2);
        // Two by two four times, then the smaller ones of the right and the bottom, then the corner.
        assert_eq!(layout.windows, [(4, 2), (2, 3), (1, 1)]);
        assert_eq!(layout.order, [0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14]);
        let whole = Layout::new(Grid { rows: 8, columns: 8 }, 4);
        assert_eq!(whole.windows, [(16, 4)]);
        assert_eq!(whole.order[..6], [0, 1, 2, 3, 8, 9]);
        let positions = layout.patch_positions(Grid { rows: 3, columns: 5 }, 2);
        assert_eq!(positions[..5], [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 2, 0]]);
        assert_eq!(positions[59], [5, 9, 0]);
    }

    #[test]
    fn images_take_the_room_of_their_longer_side() {
        let found = positions(9, &[(2, Grid { rows: 2, columns: 3 })]);
        assert_eq!(found.prompt[1..4], [[1, 1, 1], [2, 2, 2], [2, 2, 3]]);
        assert_eq!(found.prompt[5..9], [[2, 3, 2], [2, 3, 3], [2, 3, 4], [5, 5, 5]]);
        assert_eq!(found.next, 6);
        assert_eq!(positions(3, &[]), Positions { prompt: vec![[0; 3], [1; 3], [2; 3]], next: 3 });
    }

    proptest! {
        #[test]
        fn every_token_has_one_place(rows in 1..30_usize, columns in 1..30_usize, side in 1..9_usize) {
            let layout = Layout::new(Grid { rows, columns }, side);
            let lengths: usize = layout.windows.iter().map(|(length, count)| length * count).sum();
            prop_assert_eq!(lengths, rows * columns);
            prop_assert!(layout.windows.len() <= 4);
            for (token, &place) in layout.inverse().iter().enumerate() {
                prop_assert_eq!(layout.order[place as usize], token);
            }
        }
    }
}
