"""The speech of the demo: voices, synthesis with espeak-ng, features, training clips and test sets."""

import io
import json
import os
import random
import subprocess
import time

import numpy as np

from demo_sentences import (
    ANIMALS,
    CATEGORY,
    COLOURS,
    FACTS8,
    LANGUAGES,
    NUMBERS,
    PASSAGES,
    QUESTIONS,
    answer_about,
    held,
    passage_question,
    passage_sentences,
)

RATE = 16000

# Variants of espeak-ng voices. Those of the test sets are never used for training.
MEN = ["m1", "m2", "m3", "m5", "m6", "m7", "m8", "Alex", "Lee", "Denis", "Marco", "Michael"]
WOMEN = ["f1", "f3", "f4", "f5", "Annie", "linda", "steph", "Andrea", "aunty", "anika"]
TEST_MEN = ["m4", "victor"]
TEST_WOMEN = ["f2", "belinda"]
# Odd voices, spoken fast: the harder test set.
HARD = ["whisper", "croak", "Tweaky", "Storm", "grandpa", "UniRobot", "whisperf"]
# espeak-ng's plain "cmn" spells pinyin in English; "cmn-latn-pinyin" speaks.
VOICE = dict(
    cmn="cmn-latn-pinyin", eng="en-us", fra="fr-fr", jpn="ja", kor="ko", rus="ru", spa="es", yue="yue"
)
ACCENTS = ["en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp"]


def say(text, voice, variant, speed, pitch):
    """Speech at 16 kHz as float32, with the silence at both ends cut."""
    import soundfile
    import soxr

    command = ["espeak-ng", "-v", f"{voice}+{variant}", "-s", str(speed), "-p", str(pitch), "--stdout", text]
    wav = subprocess.run(command, capture_output=True, check=True).stdout
    wave, rate = soundfile.read(io.BytesIO(wav), dtype="float32")
    wave = soxr.resample(wave, rate, RATE, quality="HQ").astype(np.float32)
    loud = np.flatnonzero(np.abs(wave) > 0.01 * max(1e-6, np.abs(wave).max()))
    return wave[max(0, loud[0] - 320) : loud[-1] + 480] if len(loud) else wave


def spoken(fact, lang):
    """What is said for a question: its text, or the kana of a Japanese one."""
    return fact[lang][2] if len(fact[lang]) > 2 else fact[lang][0]


_MEL = None


def log_mel(wave):
    """log10 mel power as `WhisperFeatureExtractor` has it before clamping: (128, ceil(n / 160))."""
    import torch

    global _MEL
    if _MEL is None:
        from transformers import WhisperFeatureExtractor

        filters = np.asarray(WhisperFeatureExtractor(feature_size=128).mel_filters, dtype=np.float32)
        _MEL = torch.tensor(filters), torch.hann_window(400)
    filters, window = _MEL
    frames = -(-len(wave) // 160)
    wave = torch.from_numpy(np.ascontiguousarray(wave))
    wave = torch.nn.functional.pad(wave, (0, frames * 160 - len(wave) + 400))
    spectrum = torch.stft(wave, 400, 160, window=window, center=True, pad_mode="reflect", return_complex=True)
    power = spectrum.abs()[:, :frames] ** 2
    return torch.log10(torch.clamp(filters.T @ power, min=1e-10)).numpy()


def backgrounds(seed):
    """30 seconds of white and of low-passed noise, as log-mel features."""
    generator = np.random.default_rng(seed)
    white = generator.standard_normal(30 * RATE).astype(np.float32) * 0.1
    soft = np.convolve(white, np.ones(8, np.float32) / 4, "same").astype(np.float32)
    return [log_mel(white), log_mel(soft)]


# ---------------------------------------------------------------- training clips


def training_jobs():
    """What is to be spoken for training: (what is known of the clip, text, voice, variant, speed, pitch)."""
    rng = random.Random(7)
    jobs = []

    def speed_and_pitch():
        return rng.randint(150, 200), rng.randint(35, 65)

    def unheld(draw):
        while True:
            words = draw()
            if not held(words["n"], words["c"], words["a"]):
                return words

    for variant in MEN + WOMEN:
        gender = "man" if variant in MEN else "woman"
        for _ in range(2):
            for index, fact in enumerate(FACTS8):
                for lang in LANGUAGES:
                    known = dict(t=1, k=index, l=lang, g=gender, voice=variant)
                    jobs.append((known, spoken(fact, lang), VOICE[lang], variant, *speed_and_pitch()))
        for _ in range(100):
            words = unheld(lambda: dict(n=rng.choice(NUMBERS), c=rng.choice(COLOURS), a=rng.choice(ANIMALS)))
            known = dict(t=2, **words, g=gender, s="speech", voice=variant)
            text = f"{words['n']} {words['c']} {words['a']}"
            jobs.append((known, text, rng.choice(ACCENTS), variant, *speed_and_pitch()))
        for lang, count in (("eng", 50), ("spa", 32)):
            passage = PASSAGES[lang]
            speed, pitch = rng.randint(165, 195), rng.randint(40, 60)

            def draw():
                return dict(
                    p=rng.choice(passage["names"]),
                    n=rng.choice(passage["n"]),
                    c=rng.choice(passage["c"]),
                    a=rng.choice(passage["a"]),
                )

            for _ in range(count):
                words = unheld(draw)
                known = dict(t=3, l=lang, voice=variant, i=0, **words)
                jobs.append(
                    (known, passage["first"].format(**words), passage["voice"], variant, speed, pitch)
                )
            for he in sorted(set(passage["he"].values())) or [""]:
                for place, key in ((1, "v"), (2, "f")):
                    for word in passage[key]:
                        known = dict(t=3, l=lang, voice=variant, i=place, he=he, **{key: word})
                        text = passage["others"][place - 1].format(He=he, **{key: word})
                        jobs.append((known, text, passage["voice"], variant, speed, pitch))
    return jobs


def speak_job(job):
    """Carries out one job in a worker process: what is known of the clip, and its features in f16."""
    known, text, voice, variant, speed, pitch = job
    wave = say(text, voice, variant, speed, pitch)
    wave = wave / max(1e-6, np.abs(wave).max()) * 0.6
    return known, log_mel(wave).astype(np.float16)


def one_thread():
    """Keeps a worker process to one thread."""
    import torch

    torch.set_num_threads(1)


def make_training_clips(work):
    """Speaks the training clips into the folder `work`: train_mel.npy, train_off.npy, train.json."""
    import multiprocessing

    jobs = training_jobs()
    print(len(jobs), "jobs", flush=True)
    start = time.time()
    known, mels = [], []
    os.makedirs(work, exist_ok=True)
    with multiprocessing.Pool(2, initializer=one_thread) as pool:
        for index, (clip, mel) in enumerate(pool.imap(speak_job, jobs, chunksize=32)):
            known.append(clip)
            mels.append(mel)
            if index % 1000 == 0:
                print(index, round(time.time() - start, 1), "s", flush=True)
    offsets = np.cumsum([0] + [mel.shape[1] for mel in mels])
    np.save(f"{work}/train_mel.npy", np.concatenate(mels, 1))
    np.save(f"{work}/train_off.npy", offsets)
    with open(f"{work}/train.json", "w") as file:
        json.dump(known, file, ensure_ascii=False)
    minutes = round(offsets[-1] / 6000, 1)
    print("frames", int(offsets[-1]), "=", minutes, "minutes; took", round(time.time() - start), "s")


# ---------------------------------------------------------------- test sets


def silence(seconds):
    """Silence of some seconds."""
    return np.zeros(int(seconds * RATE), np.float32)


def level(wave, peak=0.25):
    """A clip scaled to a peak."""
    return wave / max(1e-6, np.abs(wave).max()) * peak


class TestSets:
    """Writes the test sets below a folder: FLAC files and manifests."""

    def __init__(self, folder):
        self.folder = folder
        self.rng = random.Random(2026)
        self.noise = np.random.default_rng(2026)
        self.voices = TEST_MEN + TEST_WOMEN

    def path(self, name):
        path = f"{self.folder}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write_clip(self, name, wave):
        import soundfile

        soundfile.write(self.path(name), wave.astype(np.float32), RATE, subtype="PCM_16")

    def write_rows(self, name, rows):
        with open(self.path(name), "w") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def ccfqa(self, name, voices, speeds, rng):
        """Facts asked aloud, in the row format of CCFQA."""
        rows = []
        for k, fact in enumerate(fact for fact in FACTS8 if fact["test"]):
            row = dict(index=k + 1, source="demo", label=fact["label"])
            for j, lang in enumerate(LANGUAGES):
                variant = voices[(k + j) % len(voices)]
                wave = say(
                    spoken(fact, lang), VOICE[lang], variant, rng.randint(*speeds), rng.randint(42, 58)
                )
                clip = f"{lang}/{k + 1}-20260101{k:02d}{j:02d}00.flac"
                self.write_clip(f"{name}/{clip}", np.concatenate([silence(0.06), level(wave), silence(0.04)]))
                row[lang] = dict(audio=clip, question=fact[lang][0], answer=fact[lang][1])
            rows.append(row)
        self.write_rows(f"{name}/test.jsonl", rows)

    def cp_bench(self, name="cp-bench"):
        """Questions about short clips, and about long ones with speech in one 30-second window only."""
        rng = self.rng
        combinations = [(n, c, a) for n in NUMBERS for c in COLOURS for a in ANIMALS if held(n, c, a)]
        rng.shuffle(combinations)
        rows = []
        for k, kind in enumerate("TNGPSATPGCNP"):
            n, c, a = combinations[k]
            variant = self.voices[k % 4]
            gender = "man" if variant in TEST_MEN else "woman"
            clip = dict(n=n, c=c, a=a, g=gender, s="speech")
            speech = say(
                f"{n} {c} {a}", rng.choice(ACCENTS), variant, rng.randint(155, 185), rng.randint(42, 58)
            )
            wave = level(speech)
            if k == 4:
                clip = dict(s="beep")
                wave = 0.2 * np.sin(2 * np.pi * 880 * np.arange(RATE) / RATE)
            if k < 6:
                kept = np.concatenate([silence(0.3 * (k % 3)), wave, silence(0.2)])
            else:
                # The words lie wholly outside the last 30 seconds, or wholly outside the first 30.
                total = [36.0, 41.0, 38.5, 47.0, 44.0, 50.0][k - 6]
                length = len(wave) / RATE
                at = rng.uniform(0.2, total - 30 - length - 0.3)
                start = int((at if k % 2 == 0 else total - at - length) * RATE)
                kept = silence(total)
                kept[start : start + len(wave)] += wave
                if k == 9:  # one clip with a low noise floor
                    kept = kept + self.noise.standard_normal(len(kept)) * 6e-5
            sample = f"demo{k + 1:02d}"
            self.write_clip(f"{name}/audio/{sample}.flac", kept)
            rows.append(
                dict(
                    id=sample,
                    audio=f"audio/{sample}.flac",
                    question=QUESTIONS[kind][k % len(QUESTIONS[kind])],
                    reference=answer_about(clip, kind),
                    category=CATEGORY[kind],
                    set="short" if k < 6 else "long",
                )
            )
        self.write_rows(f"{name}/manifest.jsonl", rows)

    def belebele(self, name="2m-belebele"):
        """Passages, one clip a sentence, with one or two questions each."""
        rng = self.rng
        rows = []
        for k in range(8):
            lang = "spa" if k in (2, 5) else "eng"
            passage = PASSAGES[lang]
            while True:
                words = dict(p=passage["names"][k % 6], **{key: rng.choice(passage[key]) for key in "ncavf"})
                if held(words["n"], words["c"], words["a"]):
                    break
            variant = self.voices[(k // 2 + k) % 4]
            speed, pitch = rng.randint(165, 185), rng.randint(45, 55)
            sentences = passage_sentences(lang, words)
            clips = []
            for j, sentence in enumerate(sentences):
                wave = level(say(sentence, passage["voice"], variant, speed, pitch))
                clips.append(f"audio/p{k + 1}_s{j + 1}.flac")
                self.write_clip(f"{name}/{clips[-1]}", np.concatenate([silence(0.03), wave, silence(0.02)]))
            for number in range(1, 3 if k < 4 else 2):
                key = "ncavfncavfav"[len(rows) % 12]
                question, options, right = passage_question(lang, words, rng, key)
                rows.append(
                    dict(
                        link=f"demo://passage/{k + 1}",
                        question_number=number,
                        flores_passage=" ".join(sentences),
                        question=question,
                        **{f"mc_answer{i + 1}": option for i, option in enumerate(options)},
                        correct_answer_num=right + 1,
                        dialect="spa_Latn" if lang == "spa" else "eng_Latn",
                        audio=clips,
                    )
                )
        self.write_rows(f"{name}/manifest.jsonl", rows)


def make_test_sets(folder):
    """Writes all test sets below a folder."""
    sets = TestSets(folder)
    sets.ccfqa("ccfqa", sets.voices, (160, 190), sets.rng)
    sets.ccfqa("ccfqa-hard", HARD, (215, 270), random.Random(77))
    sets.cp_bench()
    sets.belebele()
    size = sum(os.path.getsize(f"{root}/{file}") for root, _, files in os.walk(folder) for file in files)
    print("bytes", size)
