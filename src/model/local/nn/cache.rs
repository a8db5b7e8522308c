//! Keys and values of the tokens so far, in memory that is taken once.
//!
//! Rows are aligned at their last prompt token: a row shorter than the longest begins at a later column (left padding),
//! so that every new token of a batch goes into the same column.

use candle_core::{DType, Device, Result, Tensor};

/// Keys and values of all layers, each (rows, kv heads, columns, head width).
#[derive(Debug)]
pub(crate) struct Cache {
    layers: Vec<(Tensor, Tensor)>,
}

impl Cache {
    /// An empty cache.
    pub(crate) fn new(
        layers: usize,
        (rows, kv_heads, columns, width): (usize, usize, usize, usize),
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let empty = || Tensor::zeros((rows, kv_heads, columns, width), dtype, device);
        let layers = (0..layers).map(|_| Ok((empty()?, empty()?))).collect::<Result<Vec<_>>>()?;
        Ok(Self { layers })
    }

    /// The keys and values of a layer, whole.
    pub(crate) fn layer(&self, layer: usize) -> Result<&(Tensor, Tensor)> {
        match self.layers.get(layer) {
            Some(tensors) => Ok(tensors),
            None => candle_core::bail!("the cache has no layer {layer}"),
        }
    }

    /// Writes (kv heads, tokens, width) into a row from a column on.
    pub(crate) fn write_row(
        &self,
        layer: usize,
        row: usize,
        column: usize,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<()> {
        let (all_keys, all_values) = self.layer(layer)?;
        all_keys.narrow(0, row, 1)?.slice_set(&keys.unsqueeze(0)?.contiguous()?, 2, column)?;
        all_values.narrow(0, row, 1)?.slice_set(&values.unsqueeze(0)?.contiguous()?, 2, column)
    }

    /// Writes (rows, kv heads, 1, width) into one column of all rows.
    pub(crate) fn write_column(
        &self,
        layer: usize,
        column: usize,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<()> {
        let (all_keys, all_values) = self.layer(layer)?;
        all_keys.slice_set(&keys.contiguous()?, 2, column)?;
        all_values.slice_set(&values.contiguous()?, 2, column)
    }

    /// The keys and values of a row's columns, each (kv heads, columns, width).
    pub(crate) fn row(&self, layer: usize, row: usize, from: usize, to: usize) -> Result<(Tensor, Tensor)> {
        let (keys, values) = self.layer(layer)?;
        let part = |all: &Tensor| all.narrow(0, row, 1)?.squeeze(0)?.narrow(1, from, to - from);
        Ok((part(keys)?, part(values)?))
    }

    /// What a token takes of memory, in all layers.
    pub(crate) fn bytes_of_token(&self) -> Result<usize> {
        let Some((keys, _)) = self.layers.first() else { return Ok(0) };
        let (_, kv_heads, _, width) = keys.dims4()?;
        Ok(2 * self.layers.len() * kv_heads * width * keys.dtype().size_in_bytes())
    }

    /// `tokens` columns of a row from a column on, as a cache of their own with one row.
    pub(crate) fn cut(&self, row: usize, column: usize, tokens: usize) -> Result<Self> {
        let part = |all: &Tensor| all.narrow(0, row, 1)?.narrow(2, column, tokens)?.force_contiguous();
        let layers = self.layers.iter().map(|(keys, values)| Ok((part(keys)?, part(values)?)));
        Ok(Self { layers: layers.collect::<Result<Vec<_>>>()? })
    }

    /// Copies the first `tokens` columns of another cache's first row into a row from a column on.
    pub(crate) fn copy_from(&self, other: &Self, tokens: usize, (row, column): (usize, usize)) -> Result<()> {
        for layer in 0..self.layers.len() {
            let (keys, values) = other.row(layer, 0, 0, tokens)?;
            self.write_row(layer, row, column, &keys, &values)?;
        }
        Ok(())
    }

    /// Copies `tokens` columns of one row into another.
    pub(crate) fn copy_row(
        &self,
        (from_row, from_column): (usize, usize),
        (to_row, to_column): (usize, usize),
        tokens: usize,
    ) -> Result<()> {
        for layer in 0..self.layers.len() {
            let (keys, values) = self.row(layer, from_row, from_column, from_column + tokens)?;
            // A copy of its own: source and target share their storage. It is one of these columns alone, where `copy`
            // would copy the whole storage.
            self.write_row(layer, to_row, to_column, &keys.force_contiguous()?, &values.force_contiguous()?)?;
        }
        Ok(())
    }

    /// Keeps the named rows and drops the others.
    pub(crate) fn keep(&mut self, rows: &[u32]) -> Result<()> {
        for (keys, values) in &mut self.layers {
            let index = Tensor::new(rows, keys.device())?;
            *keys = keys.index_select(&index, 0)?;
            *values = values.index_select(&index, 0)?;
        }
        Ok(())
    }
}
