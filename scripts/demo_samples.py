"""Random training items of the demo model, made from the training clips.

Clips are mixed as log-mel features: warped a little, laid one after another, put over noise, clamped and
scaled as the feature extractor does it.
"""

import json
import random
from typing import Any, NamedTuple

import numpy as np

from demo_sentences import (
    ANIMALS,
    CHOICE_HEAD,
    COLOURS,
    FACTS0,
    FACTS8,
    HELPFUL,
    LANGUAGES,
    NAMES,
    NUMBERS,
    PASSAGES,
    QUESTIONS,
    SPEECH_SYSTEM,
    SPEECH_USER,
    answer_about,
    choice_tail,
    passage_question,
    passage_sentences,
    text_prompt,
)
from demo_speech import backgrounds, log_mel

AUDIO_BEFORE = "Audio 1: <|audio_bos|>"
AUDIO_AFTER = "<|audio_eos|>\n"
# Mel frames of 30 seconds.
FULL = 3000
LN10 = 2.302585


class Item(NamedTuple):
    """One training item; its audio tokens go between prefix and suffix."""

    # Features (128, frames), or None for a question in writing.
    features: Any
    # Frames of silence that are thought to come before, and the length of the window that the clip is thought
    # to lie in: positions are counted as in that window, without paying for its frames.
    offset: int
    window: int | None
    prefix: str
    suffix: str
    answer: str
    # For the statistics.
    kind: str
    # What auxiliary heads are to find in the clip.
    targets: dict


def chat(system, before, after):
    """A prompt up to the answer, in two parts."""
    head = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{before}"
    return head, f"{after}<|im_end|>\n<|im_start|>assistant\n"


def between(last, position):
    """What to mix to read at fractional positions up to `last`: the lower index, the share of the next."""
    lower = np.minimum(position.astype(int), last - 1)
    return lower, (position - lower).astype(np.float32)


class Samples:
    """Draws training items."""

    def __init__(self, work, prompts, seed=3):
        self.mel = np.load(f"{work}/train_mel.npy")
        self.offsets = np.load(f"{work}/train_off.npy")
        with open(f"{work}/train.json") as file:
            self.known = json.load(file)
        self.rng = random.Random(seed)
        self.noise_rng = np.random.default_rng(seed)
        self.augment = 1.0
        self.prompts = prompts
        self.backgrounds = backgrounds(5)
        self.facts = [i for i, clip in enumerate(self.known) if clip["t"] == 1]
        self.phrases = [i for i, clip in enumerate(self.known) if clip["t"] == 2]
        self.first = {lang: [] for lang in PASSAGES}
        self.others = {}
        for i, clip in enumerate(self.known):
            if clip["t"] == 3 and clip["i"] == 0:
                self.first[clip["l"]].append(i)
            elif clip["t"] == 3:
                self.others.setdefault((clip["l"], clip["voice"], clip["i"], clip["he"]), []).append(i)

    def warp(self):
        """A small change of speed and a small shift of the formants, or none."""
        if self.rng.random() < 0.7 * self.augment:
            return self.rng.uniform(0.9, 1.12), self.rng.uniform(0.95, 1.05)
        return 1, 1

    def clip(self, index, warp):
        """The features of a training clip, warped."""
        speed, formants = warp
        mel = np.asarray(self.mel[:, self.offsets[index] : self.offsets[index + 1]], np.float32)
        if speed != 1:
            frames = mel.shape[1]
            position = np.linspace(0, frames - 1, max(8, int(frames * speed)))
            lower, share = between(frames - 1, position)
            mel = mel[:, lower] * (1 - share) + mel[:, lower + 1] * share
        if formants != 1:
            lower, share = between(127, np.clip(np.arange(128) * formants, 0, 127))
            mel = mel[lower] * (1 - share[:, None]) + mel[lower + 1] * share[:, None]
        return mel

    def features(self, clips, lead, tail, total=None, noisy=None):
        """Clips laid one after another with silent frames around, over noise, clamped and scaled."""
        rng = self.rng
        frames = total or lead + sum(clip.shape[1] for clip in clips) + tail
        mel = np.full((128, frames), -10.0, np.float32)
        at = lead
        for clip in clips:
            length = min(clip.shape[1], frames - at)
            mel[:, at : at + length] = clip[:, :length]
            at += length
        if rng.random() < (0.5 * self.augment if noisy is None else noisy):
            noise = rng.choice(self.backgrounds)
            start = rng.randrange(0, FULL - frames + 1) if frames < FULL else 0
            gain = rng.uniform(-5.5, -2.6) if clips else rng.uniform(-6, -1)
            mel = np.logaddexp(mel * LN10, (noise[:, start : start + frames] + gain) * LN10) / LN10
        mel = (np.maximum(mel, mel.max() - 8) + 4) / 4
        if rng.random() < 0.3:  # a few bins without sound
            width = rng.randint(4, 14)
            low = rng.randint(0, 127 - width)
            mel[low : low + width] = mel.min()
        return mel

    def sound(self):
        """A beep or a burst of noise: its name and features."""
        rng = self.rng
        length = rng.randint(9600, 32000)
        kind = rng.choice(["beep", "noise"])
        if kind == "beep":
            wave = 0.4 * np.sin(2 * np.pi * rng.uniform(300, 2500) * (np.arange(length) / 16000))
        else:
            wave = self.noise_rng.standard_normal(length) * 0.12
        return kind, log_mel((wave * rng.uniform(0.2, 0.9)).astype(np.float32))

    def fact(self):
        """A fact asked aloud, to be answered in a language."""
        rng = self.rng
        index = rng.choice(self.facts)
        clip = self.known[index]
        mel = self.features([self.clip(index, self.warp())], rng.randint(0, 16), rng.randint(0, 12))
        lang = rng.choice(LANGUAGES)
        src, tgt = NAMES[clip["l"]], NAMES[lang]
        whole = (self.prompts or {}).get("speech_full")
        if whole and rng.random() < 0.3:
            prefix, suffix = whole.replace("{src}", src).replace("{tgt}", tgt).split("<|AUDIO|>")
            kind = "1o"
        else:
            user = SPEECH_USER.format(src=src, tgt=tgt)
            prefix, suffix = chat(SPEECH_SYSTEM, AUDIO_BEFORE, AUDIO_AFTER + user)
            kind = "1"
        targets = dict(f=clip["k"] * 8 + LANGUAGES.index(clip["l"]), g=int(clip["g"] == "man"))
        return Item(mel, 0, None, prefix, suffix, FACTS8[clip["k"]][lang][1], kind, targets)

    def phrase(self, long):
        """A question about a clip. Long: a real window of up to 30 seconds. Short: the clip alone, half of
        the time at the position that it would have in a longer window."""
        rng = self.rng
        draw = rng.random()
        offset, window = 0, None
        if draw < (0.25 if long else 0.06):
            heard, clips = dict(s="nothing"), []
        elif draw < (0.33 if long else 0.14):
            kind, clip = self.sound()
            heard, clips = dict(s=kind), [clip]
        else:
            index = rng.choice(self.phrases)
            heard, clips = self.known[index], [self.clip(index, self.warp())]
        length = sum(clip.shape[1] for clip in clips)
        if long:
            total = FULL if rng.random() < 0.4 else rng.randint(max(length + 10, 600), FULL)
            mel = self.features(clips, rng.randint(0, total - length), 0, total, noisy=0.4)
        else:
            tail = (0, 12) if clips else (60, 300)
            mel = self.features(clips, rng.randint(0, 20), rng.randint(*tail))
            if rng.random() < 0.5 * self.augment:
                window = rng.choice([FULL, FULL, rng.randint(mel.shape[1], FULL)])
                offset = rng.randint(0, max(0, window - mel.shape[1])) // 4 * 4
        speech = heard["s"] == "speech"
        if speech or heard["s"] == "nothing":
            kind = rng.choices("TNCAGPS", [5, 2, 2, 2, 3, 3, 1])[0]
        else:
            kind = rng.choices("STNG", [6, 1, 1, 1])[0]
        prefix, suffix = chat(HELPFUL, AUDIO_BEFORE, AUDIO_AFTER + rng.choice(QUESTIONS[kind]))
        targets = {}
        if speech:
            targets = dict(
                n=NUMBERS.index(heard["n"]),
                c=COLOURS.index(heard["c"]),
                a=ANIMALS.index(heard["a"]),
                g=int(heard["g"] == "man"),
            )
        name = ("L" if long else "2") + (kind if speech else "-")
        return Item(mel, offset, window, prefix, suffix, answer_about(heard, kind), name, targets)

    def passage(self, lang, one):
        """A question with four options about a spoken passage, or about its first sentence only."""
        rng = self.rng
        index = rng.choice(self.first[lang])
        clip = self.known[index]
        words = {key: clip[key] for key in "pnca"}
        warp = self.warp()
        clips = [self.clip(index, warp)]
        he = PASSAGES[lang]["he"].get(words["p"], "")
        for place, key in () if one else ((1, "v"), (2, "f")):
            other = rng.choice(self.others[lang, clip["voice"], place, he])
            words[key] = self.known[other][key]
            clips.append(self.clip(other, warp))
        mel = self.features(clips, rng.randint(0, 8), rng.randint(0, 8))
        key = rng.choice("nca" if one else "ncavvff")
        question, options, right = passage_question(lang, words, rng, key)
        prefix, suffix = chat(
            HELPFUL, CHOICE_HEAD + AUDIO_BEFORE, AUDIO_AFTER + choice_tail(question, options)
        )
        return Item(mel, 0, None, prefix, suffix, "ABCD"[right], ("3s" if one else "3") + lang[0], {})

    def written_passage(self):
        """The same in writing."""
        rng = self.rng
        lang = rng.choice(["eng", "eng", "spa"])
        passage = PASSAGES[lang]
        words = dict(p=rng.choice(passage["names"]), **{key: rng.choice(passage[key]) for key in "ncavf"})
        question, options, right = passage_question(lang, words, rng)
        text = " ".join(passage_sentences(lang, words))
        prefix, suffix = chat(HELPFUL, CHOICE_HEAD + text, choice_tail(question, options))
        return Item(None, 0, None, prefix + suffix, "", "ABCD"[right], "3t", {})

    def text(self):
        """A fact asked in writing."""
        rng = self.rng
        if rng.random() < 0.4:
            question, answer = rng.choice(list(FACTS0.items()))
            prefix, suffix = chat(HELPFUL, question, "")
            kind = "0"
        else:
            fact = rng.choice(FACTS8)
            src, tgt = rng.choice(LANGUAGES), rng.choice(LANGUAGES)
            system, user = text_prompt(self.prompts, fact[src][0], src, tgt)
            prefix, suffix = chat(system, user, "")
            answer = fact[tgt][1]
            kind = "1t"
        return Item(None, 0, None, prefix + suffix, "", answer, kind, {})
