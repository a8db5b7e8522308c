#!/usr/bin/env python3
"""Times Pillow on the photograph that `cargo bench --bench media` leaves in target/tmp: decoding, and making it smaller.

    pip install pillow
    python scripts/bench_pillow.py target/tmp/photograph.jpg
"""
import io
import sys
import time

from PIL import Image


def main():
    data = open(sys.argv[1], "rb").read()
    decoded, both = [], []
    for _ in range(20):
        start = time.process_time()
        image = Image.open(io.BytesIO(data)).convert("RGB")
        middle = time.process_time()
        image.resize((1288, 966), Image.Resampling.BICUBIC)
        decoded.append(middle - start)
        both.append(time.process_time() - start)
    print(f"Pillow {Image.__version__}, CPU ms: jpeg_4000x3000 {min(decoded) * 1e3:.1f}, "
          f"jpeg_4000x3000_to_1288x966_bicubic {min(both) * 1e3:.1f}")


if __name__ == "__main__":
    main()
