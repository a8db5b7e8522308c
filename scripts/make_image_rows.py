#!/usr/bin/env python3
"""Makes a data folder of SimpleVQA with many images, to measure what sending them costs. Needs nothing but Python.

    python3 scripts/make_image_rows.py OUT [ROWS] [BYTES]        # 10,000 images of 200,000 bytes: 2 GB

In OUT: `images/`, PNG files of noise of which no two are equal; `test.jsonl`, a question about each; `images.sha256`,
their hashes as `sha256sum` writes them; `c.toml`, a config that sends each image once, 64 at a time, to a server on
port 8000. To measure (two terminals, or `&`):

    cargo build --release --bin harness --example loopback_server
    target/release/examples/loopback_server --port 8000 --originals OUT/images.sha256
    time target/release/harness generate OUT/c.toml --results OUT/results
    curl -s http://127.0.0.1:8000/counters

`user` and `sys` of `time` together are the CPU seconds of the client: for 10,000 images a tenth of them is what 1000
requests cost. `media_original` of the counters must be the number of rows, and `media_other`, `repeats` and `gone` 0:
then every image arrived byte for byte, once. `requests` over `seconds` is the rate. Run it twice: the first run may
wait for the disk, which costs no CPU but time. A run that is done sends nothing: add `--fresh` to repeat it.
"""
import hashlib
import json
import pathlib
import random
import struct
import sys
import zlib

CONFIG = """# Made by scripts/make_image_rows.py, which says what it is for.
[run]
name = "images"

[model]
kind = "openai"
model = "m"
base_url = "http://127.0.0.1:8000/v1"

[model.flow]
concurrency = 64

[[benchmark]]
name = "simplevqa"
data = "test.jsonl"
allow_other_data = true
"""


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def noise(number, size):
    """A PNG image of noise of exactly `size` bytes: what is too much of its pixels is too little of a text beside them."""
    side = max(8, int(((size - 400) / 3) ** 0.5))
    pixels = random.Random(number).randbytes(side * side * 3)
    rows = b"".join(b"\0" + pixels[at : at + side * 3] for at in range(0, len(pixels), side * 3))
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")
    room = size - len(head) - len(body) - 12
    text = chunk(b"tEXt", b"Comment\0" + b"." * (room - 8)) if room >= 8 else b""
    return head + text + body


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    size = int(sys.argv[3]) if len(sys.argv) > 3 else 200_000
    (out / "images").mkdir(parents=True, exist_ok=True)
    with open(out / "test.jsonl", "w") as index, open(out / "images.sha256", "w") as hashes:
        for number in range(rows):
            name = f"images/{number:06}.png"
            data = noise(number, size)
            (out / name).write_bytes(data)
            hashes.write(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
            row = {"data_id": number, "image": name, "language": "CN" if number < 1012 else "EN",
                   "question": f"What is to be seen in picture {number}?", "answer": "noise"}
            index.write(json.dumps(row) + "\n")
    (out / "c.toml").write_text(CONFIG)
    print(f"{rows} images of {size} bytes in {out}: what to do with them stands at the head of this script")


if __name__ == "__main__":
    main()
