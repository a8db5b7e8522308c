#!/usr/bin/env python3
"""Makes a Parquet file of a million rows and 20 GB of clips, on 100 MB of disk, to measure plans with.

    scripts/make_large_dataset.py OUT.parquet [ROWS]

The clips are 64 tones of 20 kB that repeat: Parquet keeps each once a row group. Readers see 20 GB all the same. Rows
are for the benchmark `manifest`: `id`, `audio`, `question`, `reference`. Needs pyarrow and numpy from PyPI.
"""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from make_dataset_fixtures import wav

GROUP = 10_000


def main():
    out, rows = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    clips = pa.array([wav(200 + 10 * i, seconds=0.64) for i in range(64)], pa.binary())
    audio = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    text = [("id", pa.string()), ("question", pa.string()), ("reference", pa.string())]
    schema = pa.schema([*text, ("audio", audio)])
    options = {"use_dictionary": ["audio.bytes"], "dictionary_pagesize_limit": 4 << 20, "write_statistics": True}
    with pq.ParquetWriter(out, schema, compression="zstd", store_schema=False, **options) as writer:
        for start in range(0, rows, GROUP):
            ids = range(start, min(start + GROUP, rows))
            which = np.arange(len(ids), dtype=np.int32) % 64
            paths = pa.array([f"{row}.wav" for row in ids])
            column = pa.StructArray.from_arrays([clips.take(pa.array(which)), paths], fields=list(audio))
            texts = [[f"sample-{row}" for row in ids], [f"What is said in clip {row}?" for row in ids], [f"tone {row}" for row in ids]]
            writer.write_table(pa.table([*map(pa.array, texts), column], schema=schema), row_group_size=GROUP)


if __name__ == "__main__":
    main()
