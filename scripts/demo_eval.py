"""The answers that Python's transformers gives on the demo's test sets: what tests compare ours with."""

import json
import os
import time

import numpy as np

from demo_answer import greedy
from demo_sentences import (
    CHOICE_HEAD,
    FACTS0,
    HELPFUL,
    LANGUAGES,
    NAMES,
    SPEECH_SYSTEM,
    SPEECH_USER,
    choice_tail,
    text_prompt,
)

# Samples of 30 seconds at 16 kHz.
WINDOW = 480000


def char_f1(gold, answer):
    """F1 of the sets of characters in percent, as CCFQA's official profile has it."""
    gold, answer = set(gold), set(answer)
    if not gold and not answer:
        return 100.0
    common = len(gold & answer)
    if not common:
        return 0.0
    precision, recall = common / len(answer), common / len(gold)
    return round(2 * precision * recall / (precision + recall) * 100, 1)


def mean(values):
    """The mean, to one decimal."""
    return round(float(np.mean(list(values))), 1)


class Reference:
    """The demo model in transformers: float32, greedy."""

    def __init__(self, folder, threads):
        import torch
        from transformers import Qwen2AudioForConditionalGeneration

        from qwen2_audio_layout import processor

        torch.set_num_threads(threads)
        self.model = Qwen2AudioForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor = processor(folder)
        self.tokenizer = self.processor.tokenizer
        self.audio_id = self.tokenizer.convert_tokens_to_ids("<|AUDIO|>")

    def chat(self, system, parts):
        """The prompt of one user turn; a part that is None is the audio."""
        content = [
            dict(type="audio", audio_url="x") if part is None else dict(type="text", text=part)
            for part in parts
        ]
        turns = [dict(role="system", content=system)] if system else []
        turns.append(dict(role="user", content=content))
        return self.processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    def ask(self, text, waves=None, tokens=24):
        """The answer to a prompt, with all that tests compare."""
        if waves:
            inputs = self.processor(text=[text], audio=waves, sampling_rate=16000, return_tensors="pt")
        else:
            inputs = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
        inputs = dict(inputs)
        inputs.pop("token_type_ids", None)
        prompt = inputs["input_ids"][0].tolist()
        return dict(
            prompt_tokens=len(prompt),
            audio_tokens=prompt.count(self.audio_id),
            **greedy(self.model, self.tokenizer, prompt, tokens, **inputs),
        )


def read_rows(path):
    """The rows of a JSONL file."""
    with open(path) as file:
        return [json.loads(line) for line in file]


def read_wave(path):
    """A clip at its own rate."""
    import soundfile

    return soundfile.read(path, dtype="float32")[0]


def ccfqa(reference, folder, prompt, speech=True):
    """All 64 pairs of a set of facts: rows and summary. `prompt` makes the prompt of (row, src, tgt)."""
    rows = []
    for row in read_rows(f"{folder}/test.jsonl"):
        for src in LANGUAGES:
            waves = [read_wave(f"{folder}/{row[src]['audio']}")] if speech else None
            for tgt in LANGUAGES:
                answer = reference.ask(prompt(row, src, tgt), waves)
                gold = row[tgt]["answer"]
                rows.append(
                    dict(
                        index=row["index"],
                        src=src,
                        tgt=tgt,
                        gold=gold,
                        **answer,
                        exact=answer["text"] == gold,
                        f1_char_set=char_f1(gold, answer["text"]),
                    )
                )
    pairs = {}
    for row in rows:
        pairs.setdefault((row["src"], row["tgt"]), []).append(row)
    f1 = {pair: mean(row["f1_char_set"] for row in pairs[pair]) for pair in pairs}
    exact = {pair: mean(100 * row["exact"] for row in pairs[pair]) for pair in pairs}
    summary = dict(
        n=len(rows),
        exact=sum(row["exact"] for row in rows),
        xsqa_f1=mean(f1.values()),
        sqa_f1=mean(f1[lang, lang] for lang in LANGUAGES),
        exact_by_src={src: mean(exact[src, tgt] for tgt in LANGUAGES) for src in LANGUAGES},
        exact_by_tgt={tgt: mean(exact[src, tgt] for src in LANGUAGES) for tgt in LANGUAGES},
        sqa_exact=mean(exact[lang, lang] for lang in LANGUAGES),
        pair_f1={f"{src}-{tgt}": value for (src, tgt), value in f1.items()},
        min_gap=min(row["min_gap"] for row in rows),
    )
    return rows, summary


def cp_bench(reference, folder):
    """Questions about clips; a clip of more than 30 seconds is asked about by its first and its last ones."""
    rows = []
    for row in read_rows(f"{folder}/manifest.jsonl"):
        wave = read_wave(f"{folder}/{row['audio']}")
        windows = dict(whole=wave) if len(wave) <= WINDOW else dict(first=wave[:WINDOW], last=wave[-WINDOW:])
        prompt = reference.chat(HELPFUL, [None, row["question"]])
        answers = {
            name: dict(samples=len(part), **reference.ask(prompt, [part])) for name, part in windows.items()
        }
        kept = {key: row[key] for key in ("id", "set", "category", "question", "reference")}
        exact = {name: answer["text"] == row["reference"] for name, answer in answers.items()}
        rows.append(dict(**kept, windows=answers, exact=exact))
    short = [row["exact"] for row in rows if row["set"] == "short"]
    long = [row["exact"] for row in rows if row["set"] == "long"]
    summary = dict(
        short=f"{sum(exact['whole'] for exact in short)}/{len(short)}",
        long_first=f"{sum(exact['first'] for exact in long)}/{len(long)}",
        long_last=f"{sum(exact['last'] for exact in long)}/{len(long)}",
        long_best_of_two=f"{sum(max(exact.values()) for exact in long)}/{len(long)}",
        min_gap=min(answer["min_gap"] for row in rows for answer in row["windows"].values()),
    )
    return rows, summary


def belebele(reference, folder):
    """Passages with four options, spoken and in writing."""
    rows = []
    for row in read_rows(f"{folder}/manifest.jsonl"):
        wave = np.concatenate([read_wave(f"{folder}/{clip}") for clip in row["audio"]])
        tail = choice_tail(row["question"], [row[f"mc_answer{i}"] for i in range(1, 5)])
        gold = "ABCD"[row["correct_answer_num"] - 1]
        speech = reference.ask(reference.chat(HELPFUL, [CHOICE_HEAD, None, tail]), [wave])
        text = reference.ask(reference.chat(HELPFUL, [CHOICE_HEAD + row["flores_passage"] + tail]))
        rows.append(
            dict(
                link=row["link"],
                question_number=row["question_number"],
                dialect=row["dialect"],
                gold=gold,
                speech=dict(samples=len(wave), **speech),
                text_condition=text,
                correct_speech=speech["text"].strip() == gold,
                correct_text=text["text"].strip() == gold,
            )
        )
    summary = dict(n=len(rows))
    for condition in ("speech", "text"):
        for lang in ("eng", "spa"):
            of = [row for row in rows if row["dialect"].startswith(lang)]
            summary[f"{condition}_{lang}"] = f"{sum(row['correct_' + condition] for row in of)}/{len(of)}"
    summary["min_gap"] = min(min(row["speech"]["min_gap"], row["text_condition"]["min_gap"]) for row in rows)
    return rows, summary


def expected(model, demo, out, prompts, threads):
    """Asks everything and writes the answers to the file `out`."""
    import torch
    import transformers

    start = time.time()
    reference = Reference(model, threads)
    results, summary = {}, {}

    def keep(name, found):
        results[name], summary[name] = found
        shown = {key: value for key, value in summary[name].items() if key != "pair_f1"}
        print(name, shown, round(time.time() - start), "s", flush=True)

    def speech(row, src, tgt):
        user = SPEECH_USER.format(src=NAMES[src], tgt=NAMES[tgt])
        return reference.chat(SPEECH_SYSTEM, [None, user])

    def given(row, src, tgt):
        return prompts["speech_full"].replace("{src}", NAMES[src]).replace("{tgt}", NAMES[tgt])

    def text(row, src, tgt):
        system, user = text_prompt(prompts, row[src]["question"], src, tgt)
        return reference.chat(system, [user])

    keep("ccfqa_speech", ccfqa(reference, f"{demo}/ccfqa", speech))
    keep("ccfqa_speech_hard", ccfqa(reference, f"{demo}/ccfqa-hard", speech))
    if prompts and "speech_full" in prompts:
        keep("ccfqa_speech_given", ccfqa(reference, f"{demo}/ccfqa", given))
    keep("cp_bench", cp_bench(reference, f"{demo}/cp-bench"))
    if os.path.exists(f"{demo}/2m-belebele/manifest.jsonl"):
        keep("belebele", belebele(reference, f"{demo}/2m-belebele"))
    facts = [
        dict(question=question, gold=gold, **reference.ask(reference.chat(HELPFUL, [question])))
        for question, gold in FACTS0.items()
    ]
    results["text_facts"] = facts
    summary["text_facts"] = f"{sum(row['text'] == row['gold'] for row in facts)}/{len(facts)}"
    keep("ccfqa_text", ccfqa(reference, f"{demo}/ccfqa", text, speech=False))
    note = (
        "greedy, float32 weights upcast from the f16 file; token_ids include the final <|im_end|>; min_gap = "
        "smallest top1-top2 logit difference over the generated steps"
    )
    versions = dict(transformers=transformers.__version__, torch=torch.__version__)
    with open(out, "w") as file:
        whole = dict(note=note, **versions, summary=summary, **results)
        json.dump(whole, file, ensure_ascii=False, separators=(",", ":"))
    print("done", round(time.time() - start), "s")
