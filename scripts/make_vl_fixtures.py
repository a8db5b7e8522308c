#!/usr/bin/env python3
"""A small random Qwen2.5-VL and what transformers makes of images with it.

Writes tests/fixtures/qwen2_5_vl/: `model/` in the layout of the published checkpoints (flat text keys, names of 2025),
`nested.json` (its config as transformers 5 writes it), `images/`, and what the reference makes of them: `reference.json`
(grids, hashes of pixel values, prompts, ids, positions, greedy tokens) and `reference.safetensors` (vectors of images,
logits). Images are sized by Pillow: that is what the published processor of the time did.

    pip install torch==2.15.0 transformers==5.24.0 pillow==13.0.0 safetensors
    python scripts/make_vl_fixtures.py
"""
import hashlib
import json
import math
import shutil
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image, ImageDraw
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

OUT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "qwen2_5_vl"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
           "<|image_pad|>", "<|video_pad|>"]
WORDS = """What is in the picture? Name the tower, the bridge and the year in which it was built. 图中的建筑叫什么名字？
you are a helpful assistant. user system assistant Answer in one word. Compare both pictures; which one is older?"""
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = (
    "{% for m in messages %}"
    "{% if loop.first and m['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' or 'image' in part or 'image_url' in part %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The largest image of the model's preprocessor_config.json; the published one has 12845056.
MAX_PIXELS = 100_352


def tokenizer():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([WORDS], trainers.BpeTrainer(
        vocab_size=300, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in SPECIAL])
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def config(fast):
    """In the flat form of the published checkpoints."""
    ids = {x: fast.convert_tokens_to_ids(x) for x in SPECIAL}
    return dict(
        architectures=["Qwen2_5_VLForConditionalGeneration"], model_type="qwen2_5_vl",
        bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|im_end|>"],
        vision_start_token_id=ids["<|vision_start|>"], vision_end_token_id=ids["<|vision_end|>"],
        vision_token_id=ids["<|vision_pad|>"], image_token_id=ids["<|image_pad|>"], video_token_id=ids["<|video_pad|>"],
        hidden_act="silu", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, max_window_layers=2, sliding_window=512, use_sliding_window=False,
        rms_norm_eps=1e-6, rope_theta=1000000.0, rope_scaling=dict(type="mrope", mrope_section=[2, 3, 3]),
        tie_word_embeddings=False, torch_dtype="float16", vocab_size=(len(fast) + 31) // 32 * 32,
        vision_config=dict(
            depth=3, hidden_act="silu", hidden_size=32, intermediate_size=52, num_heads=2, in_chans=3, out_hidden_size=64,
            patch_size=14, spatial_merge_size=2, spatial_patch_size=14, window_size=112, fullatt_block_indexes=[1],
            tokens_per_second=2, temporal_patch_size=2),
    )


def randomise(model, seed):
    """Weights that give logits far enough apart, rounded to 16 bits so that files are small."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if p.ndim == 1:
            noise = torch.randn(p.shape, generator=g)
            p.data = 0.3 * noise if "bias" in name else 1.0 + 0.2 * noise
        elif "embed_tokens" in name or "lm_head" in name:
            p.data = torch.randn(p.shape, generator=g) * 0.3
        else:
            p.data = 2.0 / math.sqrt(p[0].numel()) * torch.randn(p.shape, generator=g)
        p.data = p.data.half().float()
    return model.eval()


def scene(width, height, seed, mode="RGB"):
    """A drawing with flat and with busy parts."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    base = np.stack([255 * x, 255 * y, 128 + 127 * np.sin(9 * x * y + seed)], axis=-1)
    image = Image.fromarray(base.clip(0, 255).astype(np.uint8), "RGB")
    draw = ImageDraw.Draw(image)
    for _ in range(6):
        a, b = rng.integers(0, width, 2), rng.integers(0, height, 2)
        box = [int(min(a)), int(min(b)), int(max(a)), int(max(b))]
        colour = tuple(int(c) for c in rng.integers(0, 256, 3))
        (draw.rectangle if rng.random() < 0.5 else draw.ellipse)(box, fill=colour)
    return image.convert(mode)


def images():
    """Writes the images; gives their names."""
    folder = OUT / "images"
    folder.mkdir(parents=True, exist_ok=True)

    def png(name, image, **kwargs):
        image.save(folder / f"{name}.png", optimize=True, **kwargs)

    png("wide", scene(130, 61, 1))  # not square, smaller than a window
    png("tall", scene(90, 210, 2))  # windows that are not full
    png("tiny", scene(23, 31, 3))  # fewer pixels than the least
    png("large", scene(640, 401, 4).quantize(32))  # more pixels than the most; a palette
    png("exact", scene(224, 224, 5))  # whole windows, no change of size
    png("least", scene(56, 56, 6))  # the least size, no change
    png("strip", scene(400, 30, 7))  # one row of merged patches
    png("grey", scene(140, 112, 8, "L"))
    alpha = scene(120, 90, 9, "RGBA")
    alpha.putalpha(Image.fromarray(np.linspace(0, 255, 120 * 90).reshape(90, 120).astype(np.uint8)))
    png("clear", alpha)
    png("clear-grey", alpha.convert("LA"))
    png("clear-palette", scene(100, 84, 10).quantize(16), transparency=3)
    photo = scene(300, 220, 11)
    photo.save(folder / "photo.jpg", quality=92)
    exif = Image.Exif()
    exif[0x0112] = 6
    scene(160, 100, 12).save(folder / "turned.jpg", quality=95, subsampling=0, exif=exif)
    # What Pillow's decoder makes of the JPEG files: decoders differ, and this is what the reference saw.
    for name in ("photo", "turned"):
        Image.open(folder / f"{name}.jpg").convert("RGB").save(folder / f"{name}-decoded.png", optimize=True)
    return sorted(p.name for p in folder.iterdir())


MEAN, STD = np.float32([0.48145466, 0.4578275, 0.40821073]), np.float32([0.26862954, 0.26130258, 0.27577711])


def as_bytes(values):
    """The 8-bit values that normalised ones were made of, in the same order."""
    by_channel = values.reshape(len(values), 3, -1).astype(np.float64)
    back = (by_channel * STD[None, :, None] + MEAN[None, :, None]) * 255
    assert np.abs(back - back.round()).max() < 1e-3
    return back.round().astype(np.uint8).reshape(len(values), -1)


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    shutil.rmtree(OUT, ignore_errors=True)
    folder = OUT / "model"
    folder.mkdir(parents=True)
    fast = tokenizer()
    flat = config(fast)
    model = randomise(Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**flat, attn_implementation="eager")), 7)
    assert model.config.text_config.rope_parameters["mrope_section"] == [2, 3, 3]

    # The published names.
    published = {}
    for name, p in model.state_dict().items():
        name = name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")
        published[name] = p.half().contiguous()
    save_file(published, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(flat, indent=1) + "\n")
    (OUT / "nested.json").write_text(json.dumps(model.config.to_dict(), indent=1, default=str) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(
        dict(do_sample=True, eos_token_id=[flat["eos_token_id"], flat["bos_token_id"]], repetition_penalty=1.05, temperature=1e-6)) + "\n")
    (folder / "preprocessor_config.json").write_text(json.dumps(dict(
        min_pixels=3136, max_pixels=MAX_PIXELS, patch_size=14, temporal_patch_size=2, merge_size=2,
        image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711],
        image_processor_type="Qwen2VLImageProcessor", processor_class="Qwen2_5_VLProcessor"), indent=1) + "\n")
    fast.chat_template = None
    fast.save_pretrained(folder)
    (folder / "chat_template.json").write_text(json.dumps(dict(chat_template=TEMPLATE)) + "\n")
    fast.chat_template = TEMPLATE
    processor = Qwen2VLImageProcessorPil(min_pixels=3136, max_pixels=MAX_PIXELS)

    names, arrays = images(), {}
    out = dict(transformers=transformers.__version__, images={}, cases=[])
    features = {}

    def process(name, processor=processor):
        made = processor(images=[Image.open(OUT / "images" / name)], return_tensors="pt")
        return made["pixel_values"], made["image_grid_thw"]

    for name in names:
        values, grid = process(name)
        with torch.no_grad():
            vectors = model.model.visual(values, grid_thw=grid).pooler_output
        features[name] = (values, grid)
        arrays[f"vision.{name}"] = vectors.clone()
        raw = values.numpy()
        out["images"][name] = dict(
            grid=grid[0].tolist(), sha256=hashlib.sha256(as_bytes(raw).tobytes()).hexdigest(),
            first=[float(x) for x in raw[0, ::49]], last=[float(x) for x in raw[-1, ::49]])
    # The same with other limits: images that a limit of the run makes smaller, and one that it makes larger.
    for name, least, most in (("exact.png", 3136, 20_000), ("large.png", 3136, 12_845_056), ("tiny.png", 40_000, MAX_PIXELS)):
        values, grid = process(name, Qwen2VLImageProcessorPil(min_pixels=least, max_pixels=most))
        out["images"][name].setdefault("limits", []).append(dict(
            min_pixels=least, max_pixels=most, grid=grid[0].tolist(), sha256=hashlib.sha256(as_bytes(values.numpy()).tobytes()).hexdigest()))
    # Two at once, as the tower gets them: windows of both, one after the other.
    pair = ["tall.png", "wide.png"]
    with torch.no_grad():
        both = model.model.visual(torch.cat([features[n][0] for n in pair]), grid_thw=torch.cat([features[n][1] for n in pair])).pooler_output
    assert torch.allclose(both, torch.cat([arrays[f"vision.{n}"] for n in pair]), atol=1e-5)

    def chat(*parts, system=None):
        content = [dict(type="image", image=p) if p.split(".")[-1] in ("png", "jpg") else dict(type="text", text=p) for p in parts]
        return ([dict(role="system", content=system)] if system else []) + [dict(role="user", content=content)]

    chats = [
        chat("wide.png", "What is in the picture?"),
        chat("photo.jpg", "Name the tower and the year in which it was built."),
        chat("tall.png", "exact.png", "Compare both pictures; which one is older?"),
        chat("What is a tower?"),
        chat("图中的建筑叫什么名字？", "grey.png", "Answer in one word.", "strip.png", system="Answer in one word."),
        chat("clear.png", "tiny.png", "wide.png", "Compare."),
        chat("large.png", "What is it?"),
    ]
    prompts = []
    for messages in chats:
        text = fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        used = [p["image"] for p in messages[-1]["content"] if p["type"] == "image"]
        expanded = text
        for name in used:
            _, h, w = out["images"][name]["grid"]
            expanded = expanded.replace("<|image_pad|>", "<|video_pad|>" * (h * w // 4), 1)
        ids = fast(expanded.replace("<|video_pad|>", "<|image_pad|>"), add_special_tokens=False).input_ids
        prompts.append((messages, text, used, ids))

    def inputs(rows):
        """Rows padded at the left, as the processor of the reference pads them."""
        longest = max(len(ids) for *_, ids in rows)
        pads = [longest - len(ids) for *_, ids in rows]
        ids = torch.tensor([[fast.pad_token_id] * n + row[-1] for n, row in zip(pads, rows)])
        mask = torch.tensor([[0] * n + [1] * (longest - n) for n in pads])
        made = dict(input_ids=ids, attention_mask=mask, mm_token_type_ids=(ids == flat["image_token_id"]).int())
        used = [name for row in rows for name in row[2]]
        if used:
            made["pixel_values"] = torch.cat([features[name][0] for name in used])
            made["image_grid_thw"] = torch.cat([features[name][1] for name in used])
        return made

    def run(rows, count=20):
        model.model.rope_deltas = None
        made = inputs(rows)
        with torch.no_grad():
            found = model.generate(
                **made, do_sample=False, max_new_tokens=count, min_new_tokens=count, repetition_penalty=1.0, temperature=1.0,
                eos_token_id=None, pad_token_id=fast.pad_token_id, output_logits=True, return_dict_in_generate=True)
        logits = torch.stack(found.logits, 1)
        top = logits.topk(2, -1).values
        return found.sequences[:, made["input_ids"].shape[1]:], logits, (top[..., 0] - top[..., 1]).amin()

    for index, row in enumerate(prompts):
        messages, text, used, ids = row
        tokens, logits, gap = run([row])
        positions = [list(range(len(ids)))] * 3
        delta = 0
        if used:
            made = inputs([row])
            found, deltas = model.model.get_rope_index(made["input_ids"], made["mm_token_type_ids"], image_grid_thw=made["image_grid_thw"])
            positions, delta = found[:, 0].tolist(), int(deltas)
        arrays[f"logits.{index}"] = logits[0, [0, -1]].clone()
        out["cases"].append(dict(messages=messages, text=text, images=used, ids=ids, positions=positions, delta=delta,
                                 greedy=tokens[0].tolist(), gap=float(gap),
                                 decoded=fast.decode(tokens[0], skip_special_tokens=True, clean_up_tokenization_spaces=False)))
    # All in one batch, padded at the left: the same.
    tokens, logits, gap = run(prompts)
    for index, case in enumerate(out["cases"]):
        assert tokens[index].tolist() == case["greedy"], index
        assert torch.allclose(logits[index, [0, -1]], arrays[f"logits.{index}"], atol=1e-3), index
    # Nothing but the images tells these apart: the prompt is heard, the image seen.
    assert len({tuple(c["greedy"]) for c in out["cases"]}) == len(out["cases"])

    save_file({k: v.contiguous() for k, v in arrays.items()}, OUT / "reference.safetensors")
    (OUT / "reference.json").write_text(json.dumps(out, ensure_ascii=False) + "\n")
    for path in OUT.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    print("smallest gap", min(c["gap"] for c in out["cases"]), "bytes", sum(p.stat().st_size for p in OUT.rglob("*") if p.is_file()))
    for name, found in out["images"].items():
        print(name, found["grid"])
    for case in out["cases"]:
        print(len(case["ids"]), case["delta"], round(case["gap"], 4), case["greedy"][:10])


if __name__ == "__main__":
    main()
