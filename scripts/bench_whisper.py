#!/usr/bin/env python3
"""Times Whisper in transformers on the CPU, beside what `cargo run --release --example bench_whisper` says of ours.

    scripts/fetch_test_models.sh
    pip install torch transformers
    python3 scripts/bench_whisper.py target/test-models/whisper-base 12

Prints wall and processor seconds of the encoder for one window of 30 s and of so many decoded tokens (greedy, with a
cache), the least of five each, in float32 on all processors. What the window holds does not matter to the time.
"""

import os
import sys
import time

import torch
import transformers


def least(run):
    best = [float("inf")] * 2
    for _ in range(5):
        wall, used = time.perf_counter(), time.process_time()
        run()
        best = [min(best[0], time.perf_counter() - wall), min(best[1], time.process_time() - used)]
    return "{:.3f} s, {:.3f} processor s".format(*best)


@torch.no_grad()
def main():
    folder, tokens = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(os.cpu_count())
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    window = torch.randn(1, model.config.num_mel_bins, 3000, generator=torch.Generator().manual_seed(0))
    print("torch", torch.__version__, "transformers", transformers.__version__)
    print("encoder, one window of 30 s:", least(lambda: model.model.encoder(window)))
    heard = model.model.encoder(window)
    start = torch.tensor([[model.config.decoder_start_token_id] * 4])

    def decode():
        cache, ids = None, start
        for _ in range(tokens):
            out = model(decoder_input_ids=ids, encoder_outputs=heard, past_key_values=cache, use_cache=True)
            cache, ids = out.past_key_values, out.logits[:, -1:].argmax(-1)

    print(tokens, "tokens:", least(decode))


main()
