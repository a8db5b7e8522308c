#!/usr/bin/env python3
"""What transformers makes of the clips with the small random Whisper of tests/fixtures/local/whisper: encoder, logits and
greedy tokens without rules (whisper_ref.*), and with the rules of generate(): suppressed tokens, language given or found,
tasks (whisper_generate.json). The rules are written out here, over the logits of the model alone: generate() itself takes
the time tokens that a random model writes for the ends of segments, and listens again behind them.

    pip install torch transformers soundfile librosa safetensors
    python scripts/make_whisper_reference.py
"""
import json
from pathlib import Path

import numpy as np
import soundfile
import torch
import transformers
from safetensors.numpy import save_file
from transformers import PreTrainedTokenizerFast, WhisperFeatureExtractor, WhisperForConditionalGeneration

ROOT = Path(__file__).resolve().parent.parent / "tests" / "fixtures"
LOCAL = ROOT / "local"
CLIPS = ["tone3_16k.wav", "tone30_16k.flac", "q_capital_16k.wav"]


def main():
    torch.set_num_threads(1)
    folder = LOCAL / "whisper"
    model = WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval().float()
    features = WhisperFeatureExtractor.from_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    ids = {t: tokenizer.convert_tokens_to_ids(t) for t in ("<|startoftranscript|>", "<|en|>", "<|zh|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>")}
    prompt = [ids[t] for t in ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")]
    plain, arrays, ruled, inputs = {"_transformers": transformers.__version__}, {}, {"_transformers": transformers.__version__}, []
    numbers = lambda x: [float(f"{v:.7g}") for v in x]
    for name in CLIPS:
        path = ROOT / "audio" / name
        if not path.exists():
            continue
        samples, rate = soundfile.read(path)
        assert rate == 16000
        inputs.append((name, features(samples, sampling_rate=16000, return_tensors="pt").input_features))
    for name, x in inputs:
        with torch.no_grad():
            heard = model.model.encoder(x).last_hidden_state
            logits = model(encoder_outputs=(heard,), decoder_input_ids=torch.tensor([prompt])).logits
            seq, gaps = list(prompt), []
            for _ in range(24):
                last = model(encoder_outputs=(heard,), decoder_input_ids=torch.tensor([seq])).logits[0, -1]
                top = last.topk(2).values
                gaps.append(float(top[0] - top[1]))
                seq.append(int(last.argmax()))
        plain[name] = dict(
            prompt_ids=prompt, enc_norm=float(heard.double().norm()), enc_t0_first8=numbers(heard[0, 0, :8]), enc_t100_first8=numbers(heard[0, 100, :8]),
            prefill_last_logits_first32=numbers(logits[0, -1, :32]), prefill_last_logits_norm=float(logits[0, -1].double().norm()),
            prefill_argmax=logits[0].argmax(-1).tolist(), greedy24_no_suppress=seq[4:], min_gap=min(gaps))
        if name == "tone3_16k.wav":
            arrays["tone3/enc_first200"] = heard[0, :200].numpy().copy()
            arrays["tone3/prefill_logits"] = logits[0].numpy().copy()
    rules = model.generation_config

    def generate(heard, prompt):
        ids, gaps = list(prompt), []
        while len(ids) < len(prompt) + 20:
            last = model(encoder_outputs=(heard,), decoder_input_ids=torch.tensor([ids])).logits[0, -1]
            banned = rules.suppress_tokens + (rules.begin_suppress_tokens if len(ids) == len(prompt) else [])
            last[banned] = -torch.inf
            top = last.topk(2).values
            gaps.append(float(top[0] - top[1]))
            ids.append(int(last.argmax()))
            if ids[-1] == rules.eos_token_id:
                break
        return dict(tokens=ids[len(prompt):], min_gap=min(gaps))

    languages = ("<|en|>", "<|zh|>", "<|de|>")
    for name, x in inputs:
        with torch.no_grad():
            heard = model.model.encoder(x).last_hidden_state
            start = ids["<|startoftranscript|>"]
            first = model(encoder_outputs=(heard,), decoder_input_ids=torch.tensor([[start]])).logits[0, -1]
            detected = max(languages, key=lambda token: float(first[ids[token]]))
            ruled[name] = {"detected": detected} | {
                key: generate(heard, [start, ids[language], ids[task], ids["<|notimestamps|>"]])
                for key, language, task in (
                    ("auto", detected, "<|transcribe|>"),
                    ("zh", "<|zh|>", "<|transcribe|>"),
                    ("de_translate", "<|de|>", "<|translate|>"),
                )
            }
    (LOCAL / "whisper_ref.json").write_text(json.dumps(plain, indent=1))
    save_file(arrays, LOCAL / "whisper_ref.safetensors")
    (LOCAL / "whisper_generate.json").write_text(json.dumps(ruled, indent=1) + "\n")
    for name, found in ruled.items():
        if not name.startswith("_"):
            print(name, found)


if __name__ == "__main__":
    main()
