"""The test set of the image demo, and the answers that Python's transformers gives to it."""

import hashlib
import json
import os
import time

import numpy as np

from demo_answer import greedy
from demo_drawings import QUESTIONS, Artist, question
from demo_vision import Wording

# What is asked, the kind of drawing, its size, how it is kept, and whether it is a hard one. Each line makes one
# row in Chinese and one in English, of two drawings.
ROWS = [
    ("shape", "single", (84, 84), "png", False),
    ("shape", "single", (112, 90), "jpeg 90", True),
    ("colour", "single", (70, 98), "png palette", False),
    ("colour", "single", (300, 260), "jpeg 85", False),
    ("tips", "single", (96, 104), "webp 80", False),
    ("tips", "single", (44, 52), "png", False),
    ("count", "many", (112, 112), "png", False),
    ("count", "many", (140, 118), "jpeg 75", False),
    ("count", "many", (120, 86), "jpeg 20", True),
    ("largest", "sizes", (100, 84), "png", False),
    ("largest", "sizes", (126, 112), "webp lossless", False),
    ("largest", "sizes", (90, 120), "jpeg 20", True),
    ("country", "flag", (112, 84), "png", False),
    ("country", "flag", (128, 100), "jpeg 90", True),
    ("capital", "flag", (98, 76), "png rgba", False),
    ("capital", "flag", (150, 110), "jpeg 85", False),
    ("digit", "digit", (72, 88), "png", False),
    ("next", "digit", (84, 112), "jpeg 80", False),
]
FIRST_ENGLISH = 1012

CATEGORIES = """\
# The paper's codes for what the rows of the demo say. They are none of the paper's rows.

[task]
recognition = "OIR"
attributes = "OAR"
quantity = "QPR"
logic = "LS"
places = "LB"
text = "TP"

[domain]
geometry = "NS"
countries = "EHC"
numbers = "LES"
"""


def store(image, path, how):
    """Writes an image; returns the name of its file."""
    kind, _, detail = how.partition(" ")
    if kind == "jpeg":
        path += ".jpg"
        image.save(path, "JPEG", quality=int(detail))
    elif kind == "webp":
        path += ".webp"
        settings = dict(lossless=True) if detail == "lossless" else dict(quality=int(detail))
        image.save(path, "WEBP", **settings)
    else:
        path += ".png"
        if detail == "palette":
            image = image.quantize(64)
        elif detail == "rgba":
            image = image.convert("RGBA")
        image.save(path, "PNG", optimize=True)
    return os.path.basename(path)


def make_set(demo):
    """Draws the pictures and writes the rows."""
    folder = f"{demo}/simplevqa"
    os.makedirs(f"{folder}/images", exist_ok=True)
    rows = []
    for half, lang in enumerate(("cn", "en")):
        for index, (name, kind, size, how, hard) in enumerate(ROWS):
            data_id = index + half * FIRST_ENGLISH
            rng = np.random.default_rng([443, data_id])
            artist = Artist(rng, 1.0 if hard else 0.0)
            drawing = artist.draw(size, kind, how)
            while name not in drawing.answers:
                drawing = artist.draw(size, kind, how)
            file = store(drawing.image, f"{folder}/images/{data_id:04}", how)
            _, _, atomic, task, domain = QUESTIONS[name]
            rows.append(
                dict(
                    data_id=data_id,
                    image=f"images/{file}",
                    image_description="",
                    language=lang.upper(),
                    question=question(name, lang),
                    answer=drawing.answers[name][lang],
                    original_category="demo_hard" if hard else "demo",
                    source="drawn for the demo",
                    atomic_question=question(atomic, lang),
                    atomic_fact=drawing.answers[atomic][lang],
                    vqa_category=dict(task_category=task, subject_category=domain),
                )
            )
    with open(f"{folder}/test.jsonl", "w") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    with open(f"{folder}/categories.toml", "w") as file:
        file.write(CATEGORIES)
    sizes = [os.path.getsize(f"{folder}/{row['image']}") for row in rows]
    print(len(rows), "rows,", sum(sizes), "bytes of images")


class Reference:
    """The model in transformers: float32, greedy."""

    def __init__(self, folder, threads):
        import torch
        from transformers import PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        torch.set_num_threads(threads)
        self.torch = torch
        model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.model = model.eval()
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        self.images = Qwen2VLImageProcessorPil.from_pretrained(folder)
        self.image_id = model.config.image_token_id

    def ask(self, user, image, tokens):
        """The answer to a user's message, with all that tests compare."""
        torch = self.torch
        content = [dict(type="text", text=user)]
        if image is not None:
            content.insert(0, dict(type="image"))
        turns = [dict(role="user", content=content)]
        text = self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        inputs = {}
        found = {}
        if image is not None:
            seen = self.images(images=[image], return_tensors="pt")
            grid = seen["image_grid_thw"]
            at = ids.index(self.image_id)
            count = int(grid[0].prod()) // 4
            ids = ids[:at] + [self.image_id] * count + ids[at + 1 :]
            inputs = dict(pixel_values=seen["pixel_values"], image_grid_thw=grid)
            found["image_grid_thw"] = grid[0].tolist()
        prompt = torch.tensor([ids])
        inputs["mm_token_type_ids"] = (prompt == self.image_id).int()
        inputs.update(input_ids=prompt, attention_mask=torch.ones_like(prompt))
        return dict(
            prompt_tokens=len(ids),
            image_tokens=ids.count(self.image_id),
            **found,
            **greedy(self.model, self.tokenizer, ids, tokens, **inputs),
        )


def holds(text, gold):
    """Whether an answer, or the one in a JSON object, holds the gold."""
    try:
        text = str(json.loads(text)["answer"])
    except (ValueError, KeyError, TypeError):
        pass
    return gold.casefold() in text.casefold()


# Sections of configs/demo-images.toml: variant, conditions.
SECTIONS = [
    ("named_entity", ("original", "atomic", "hinted", "text_only")),
    ("with_confidence", ("original",)),
]


def expected(model, demo, out, prompts, threads, tokens=32):
    """Asks everything and writes the answers to the file `out`."""
    import PIL
    import torch
    import transformers
    from PIL import Image

    start = time.time()
    reference, wording = Reference(model, threads), Wording(prompts)
    folder = f"{demo}/simplevqa"
    with open(f"{folder}/test.jsonl") as file:
        rows = [json.loads(line) for line in file]
    images, requests, summary = {}, [], {}
    for row in rows:
        with Image.open(f"{folder}/{row['image']}") as image:
            rgb = image.convert("RGB")
            digest = hashlib.sha256(rgb.tobytes()).hexdigest()
            images[row["image"]] = dict(
                format=image.format, mode=image.mode, size=list(image.size), rgb_sha256=digest
            )
        lang = row["language"].lower()
        pair = (row["atomic_question"], row["atomic_fact"])
        for variant, conditions in SECTIONS:
            for condition in conditions:
                if condition in ("atomic", "hinted") and pair[0] == row["question"]:
                    continue
                asked, gold = pair if condition == "atomic" else (row["question"], row["answer"])
                user = wording.user(lang, asked, condition, variant, pair)
                answer = reference.ask(user, None if condition == "text_only" else rgb, tokens)
                right = holds(answer["text"], gold)
                request = dict(data_id=row["data_id"], variant=variant, condition=condition, gold=gold)
                requests.append(dict(**request, **answer, right=right))
                of = summary.setdefault(f"{variant} {condition}", [0, 0])
                of[0] += right
                of[1] += 1
    for name, (right, asked) in summary.items():
        print(f"{name}: {right} of {asked}")
    closest = min(request["min_gap"] for request in requests)
    print("smallest gap", closest, "in", round(time.time() - start), "s")
    note = (
        "greedy, float32 weights upcast from the f16 file; token_ids include the final <|im_end|>; min_gap = "
        "smallest top1-top2 logit difference over the generated steps; prompt_ids_sha256 = SHA-256 of the ids "
        "with the image tokens expanded, joined by commas; rgb_sha256 = SHA-256 of the pixels as Pillow decodes them"
    )
    whole = dict(
        note=note,
        transformers=transformers.__version__,
        torch=torch.__version__,
        pillow=PIL.__version__,
        max_new_tokens=tokens,
        summary={name: f"{right}/{asked}" for name, (right, asked) in summary.items()},
        min_gap=closest,
        images=images,
        requests=requests,
    )
    with open(out, "w") as file:
        json.dump(whole, file, ensure_ascii=False, separators=(",", ":"))
