"""Prompts, samples and the model of the image demo."""

import os
import re
import tomllib

import numpy as np

from demo_drawings import (
    COLOURS,
    FLAGS,
    QUESTIONS,
    SHAPES,
    UNKNOWN,
    Artist,
    question,
)
from qwen2_5_vl_layout import MEAN, STD, config, tokenizer_of, write_files

SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
IMAGE = ("<|vision_start|>", "<|vision_end|>")
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n"
LANGUAGES = ("en", "cn")


class Wording:
    """The texts of prompts/simplevqa/harness.toml, filled as the harness fills them."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.texts = tomllib.load(file)["texts"]

    def fill(self, name, **values):
        """A text with its places filled; braces in what is filled in are no places."""
        return re.sub(r"\{(\w+)\}", lambda place: values.get(place[1], place[0]), self.texts[name])

    def user(self, lang, asked, condition, variant, atomic=None):
        """What stands in the user's message. `atomic` is a pair of question and fact."""
        if condition == "hinted":
            asked = self.fill(
                f"hint_{lang}", atomic_question=atomic[0], atomic_fact=atomic[1], question=asked
            )
        if variant == "bare":
            return asked
        if condition == "text_only":
            return self.fill(f"textonly_{lang}_with_confidence", question=asked)
        kind = "without" if variant == "named_entity" else "with"
        return self.fill(f"vqa_{lang}_{kind}_confidence", question=asked)


def stated(answer, confidence):
    """An answer with its confidence, as the prompts want it."""
    return f'{{"answer": "{answer}", "confidence_score": {confidence}}}'


def corpus(wording):
    """The texts that the tokenizer learns from; what is repeated becomes whole tokens."""
    texts = []
    for lang in LANGUAGES:
        for name, (_, _, atomic, _, _) in QUESTIONS.items():
            asked = question(name, lang)
            for condition in ("original", "hinted", "text_only"):
                for variant in ("bare", "named_entity", "with_confidence"):
                    pair = (question(atomic, lang), "")
                    texts.append(wording.user(lang, asked, condition, variant, pair))
    answers = list(SHAPES) + list(SHAPES.values()) + list(COLOURS) + [cn for cn, _ in COLOURS.values()]
    for country, (cn, capital, capital_cn, _, _) in FLAGS.items():
        answers += [country, cn, capital, capital_cn]
    answers += list(UNKNOWN.values())
    texts += answers * 6
    texts += [stated(answer, number) for answer in answers for number in (95, 70, 40, 0)] * 2
    texts += [f'"{answer}".' for answer in answers] * 3 + [f"“{answer}”。" for answer in answers] * 3
    texts += ["system\nYou are a helpful assistant.", "user\n", "assistant\n", "\n"] * 40
    return texts


VISION = dict(depth=4, hidden_size=96, intermediate_size=192, num_heads=4, fullatt_block_indexes=[1, 3])
TEXT = dict(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    mrope_section=[4, 6, 6],
)


def build(folder, wording, size=1000):
    """A new model, its tokenizer and the ids of its special tokens; writes all files but the weights."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    tokenizer, ids = tokenizer_of(corpus(wording), size)
    vocabulary = (tokenizer.get_vocab_size() + 31) // 32 * 32
    os.makedirs(folder, exist_ok=True)
    write_files(folder, tokenizer, ids, config(ids, vocabulary, VISION, TEXT))
    settings = Qwen2_5_VLConfig.from_pretrained(folder)
    torch.manual_seed(1)
    model = Qwen2_5_VLForConditionalGeneration._from_config(settings, attn_implementation="sdpa").float()
    closing = ("o_proj.weight", "attn.proj.weight", "down_proj.weight")
    for name, weight in model.named_parameters():
        # Scaled by fan-in: at this width the library's initialisation is too small.
        if weight.dim() < 2:
            continue
        std = 0.5 if "embed_tokens" in name else weight[0].numel() ** -0.5
        if name.endswith(closing):
            std *= (2 * (VISION["depth"] if "visual" in name else TEXT["num_hidden_layers"])) ** -0.5
        torch.nn.init.normal_(weight, 0, std)
    return model, tokenizer, ids


def patches(image, rows, columns):
    """An image as the model's processor makes it, for a grid of squares of 28 by 28."""
    from PIL import Image

    image = image.convert("RGB").resize((columns * 28, rows * 28), Image.Resampling.BICUBIC)
    pixels = (np.asarray(image, np.float32) / 255 - np.float32(MEAN)) / np.float32(STD)
    cut = pixels.reshape(rows, 2, 14, columns, 2, 14, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    cut = cut.reshape(rows * columns * 4, 3, 1, 14, 14)
    return np.repeat(cut, 2, axis=2).reshape(rows * columns * 4, -1)


def cells(image, rows, columns):
    """A map of labels, at the middle of every square."""
    labels = np.asarray(image)
    y = ((np.arange(rows) + 0.5) / rows * labels.shape[0]).astype(int)
    x = ((np.arange(columns) + 0.5) / columns * labels.shape[1]).astype(int)
    return labels[np.ix_(y, x)].reshape(-1).astype(np.int64)


# Grids of squares, and how often.
GRIDS = [
    ((2, 2), 1.0),
    ((2, 3), 1.5),
    ((3, 2), 1.5),
    ((3, 3), 3.0),
    ((3, 4), 3.0),
    ((4, 3), 2.5),
    ((4, 4), 3.0),
    ((4, 5), 1.0),
    ((5, 4), 0.8),
    ((5, 5), 0.5),
    ((5, 6), 0.4),
    ((6, 5), 0.3),
    ((7, 8), 0.12),
    ((8, 8), 0.12),
]


class Batch:
    """Arrays of one step: images of one grid, and token sequences that begin with an image or have none."""


def batch_of(seed, pictures, asked, wording_path, hard):
    """Makes the drawings of one step and the questions about them."""
    rng = np.random.default_rng(seed)
    wording = Wording(wording_path)
    weights = np.array([weight for _, weight in GRIDS])
    rows, columns = GRIDS[rng.choice(len(GRIDS), p=weights / weights.sum())][0]
    pictures = max(6, min(pictures, pictures * 13 // (rows * columns)))
    artist = Artist(rng, hard)
    batch = dict(grid=(rows, columns), pixels=[], colours=[], shapes=[], targets=[], items=[])
    # One way of asking a batch, so that its prompts are of like length.
    variant = str(rng.choice(["named_entity", "with_confidence", "bare"], p=[0.35, 0.2, 0.45]))
    for at in range(pictures):
        size = []
        for count in (columns, rows):
            size.append(int(rng.integers(count * 28 - 13, count * 28 + 14)))
        if rows * columns == 64:  # larger ones are made smaller
            factor = rng.uniform(1.0, 1.5)
            size = [int(side * factor) for side in size]
        drawing = artist.draw((max(size[0], 50), max(size[1], 50)))
        batch["pixels"].append(patches(drawing.image, rows, columns).astype(np.float16))
        batch["colours"].append(cells(drawing.colours, rows, columns))
        batch["shapes"].append(cells(drawing.shapes, rows, columns))
        batch["targets"].append(drawing.targets)
        for _ in range(asked):
            batch["items"].append(item(rng, wording, drawing, at, variant))
    return batch


def item(rng, wording, drawing, at, variant):
    """A question about a drawing: its index or -1, user's text, answer, and what is asked."""
    lang = str(rng.choice(LANGUAGES))
    name = str(rng.choice(list(drawing.answers)))
    answer = drawing.answers[name][lang]
    atomic = QUESTIONS[name][2]
    pair = None
    if atomic != name and atomic in drawing.answers:
        pair = (question(atomic, lang), drawing.answers[atomic][lang])
    conditions = dict(original=0.72, hinted=0.2 if pair else 0.0, text_only=0.08)
    p = np.array(list(conditions.values()))
    condition = str(rng.choice(list(conditions), p=p / p.sum()))
    confidence = 60 if drawing.targets["hard"] else 95
    if condition == "text_only":
        at, answer, confidence = -1, UNKNOWN[lang], 0
    user = wording.user(lang, question(name, lang), condition, variant, pair)
    if variant == "with_confidence" or (condition == "text_only" and variant != "bare"):
        answer = stated(answer, confidence)
    return at, user, answer, name if at >= 0 else "text_only"
