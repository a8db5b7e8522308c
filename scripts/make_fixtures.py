#!/usr/bin/env python3
"""Makes the reference files that the tests of audio and of local models compare with.

    scripts/make_fixtures.py audio       OUT/audio: deterministic clips at several rates, and audio.json
    scripts/make_fixtures.py mel         OUT/mel.*: WhisperFeatureExtractor on every clip
    scripts/make_fixtures.py checkpoint  OUT/local/qwen2-audio: a tiny random Qwen2-Audio
    scripts/make_fixtures.py templates   OUT/local/qwen2audio_templates.json: chat template, tokenizer
    scripts/make_fixtures.py reference   OUT/local/qwen2audio_ref.*: encoder, logits, greedy tokens
    scripts/make_fixtures.py all         all of them, in this order

Everything is made on the CPU in float32 from fixed seeds, with Python's transformers 5. Clips, weights,
tokenizer and templates come out the same every time (but for the time stamp that a float WAV file holds);
figures agree to about 1e-4 between machines. The one clip of speech, q_capital_16k.wav, is espeak-ng saying
"What is the capital of France?"; it is kept as a file, and has to be in OUT/audio before `audio` is run.

Needs from PyPI torch, transformers, tokenizers, safetensors, numpy, soundfile and librosa.
"""

import argparse
import hashlib
import json
import math
import os

from qwen2_audio_layout import (
    CHAT_TEMPLATE,
    SPECIAL,
    feature_extractor_config,
    processor,
    published_name,
    qwen_tokenizer,
    tokenizer_config,
    write_json,
)

SEED = 20240715
RATE = 16000
# Samples of 30 seconds.
WINDOW = 480000


class Folders:
    """Where everything is."""

    def __init__(self, out):
        self.out = out
        self.audio = f"{out}/audio"
        self.local = f"{out}/local"
        self.model = f"{out}/local/qwen2-audio"
        os.makedirs(self.audio, exist_ok=True)
        os.makedirs(self.local, exist_ok=True)

    def clips(self):
        """The names of the clips."""
        return sorted(name for name in os.listdir(self.audio) if name.endswith((".wav", ".flac")))


def figures(values, count=None):
    """Numbers with 7 digits, the first `count` of them."""
    import numpy as np

    values = np.asarray(values, dtype=np.float64).ravel()[:count]
    return [float(f"{value:.7g}") for value in values]


def dump(value, path):
    """Writes JSON and says so."""
    write_json(value, path)
    print("wrote", path, os.path.getsize(path))


# ---------------------------------------------------------------- audio


def synth(seconds, rate, seed, channels):
    """Three gliding tones under a slow envelope, with a little noise of a linear congruential generator: a
    formula that a test can repeat. float64, peak below 0.6."""
    import numpy as np

    count = int(round(seconds * rate))
    t = np.arange(count) / rate
    base = 180.0 + 40.0 * seed
    tones = 0.25 * np.sin(2 * np.pi * (base * t + 15.0 * np.sin(2 * np.pi * 0.7 * t)))
    tones = tones + 0.15 * np.sin(2 * np.pi * (2.5 * base * t))
    glide = 900.0 * t + 120.0 * t * np.sin(2 * np.pi * 0.05 * t)
    tones = tones + 0.10 * np.sin(2 * np.pi * glide)
    envelope = 0.55 + 0.45 * np.sin(2 * np.pi * 0.31 * t + seed)
    state = seed
    noise = np.empty(count)
    for i in range(count):
        state = (1664525 * state + 1013904223) & 0xFFFFFFFF
        noise[i] = state / 4294967296.0 - 0.5
    wave = tones * envelope + 0.02 * noise
    return np.stack([wave, 0.5 * wave[::-1]], 1) if channels == 2 else wave


# Name, seconds, rate, channels, seed, sample format.
CLIPS = [
    ("tone3_16k.wav", 3.0, 16000, 1, 1, "PCM_16"),
    ("tone30_16k.flac", 30.0, 16000, 1, 2, "PCM_16"),
    ("tone47_16k.flac", 47.0, 16000, 1, 3, "PCM_16"),
    ("tone3_8k.wav", 3.0, 8000, 1, 4, "PCM_16"),
    ("tone3_44k1_stereo.wav", 3.0, 44100, 2, 5, "PCM_16"),
    ("tone2_22k05_float.wav", 2.0, 22050, 1, 7, "FLOAT"),
    ("tone1_16k_odd.wav", 1.00019, 16000, 1, 8, "PCM_16"),
    ("tiny_0s05_16k.wav", 0.05, 16000, 1, 9, "PCM_16"),
]


def make_audio(folders):
    """The clips, and for each what a decoder must find in it."""
    import numpy as np
    import soundfile

    for name, seconds, rate, channels, seed, subtype in CLIPS:
        soundfile.write(
            f"{folders.audio}/{name}", synth(seconds, rate, seed, channels), rate, subtype=subtype
        )
    found = {}
    for name in folders.clips():
        path = f"{folders.audio}/{name}"
        info = soundfile.info(path)
        first = soundfile.read(path, dtype="float32", always_2d=True)[0][:, 0]
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        found[name] = dict(
            rate=info.samplerate,
            channels=info.channels,
            frames=info.frames,
            subtype=info.subtype,
            sha256=digest,
            first16_ch0=figures(first[:16]),
            sum_ch0=float(first.astype(np.float64).sum()),
            sumsq_ch0=float((first.astype(np.float64) ** 2).sum()),
        )
    dump(found, f"{folders.audio}/audio.json")


def load_16k(folders, name):
    """A clip as `librosa.load(sr=16000)` gives it: mean of the channels, soxr's HQ resampler, float32."""
    import librosa

    return librosa.load(f"{folders.audio}/{name}", sr=RATE, mono=True, res_type="soxr_hq")[0]


# ---------------------------------------------------------------- log-mel features

# Clips whose features, and whose resampled waves, are kept in full.
FULL_FEATURES = ("tone3_16k", "tone3_44k1_stereo.wav", "tone3_8k", "q_capital")
FULL_WAVES = ("tone3_44k1_stereo.wav", "tone3_8k", "tone2_22k")


def make_mel(folders):
    """The features of Whisper's extractor with 80 and 128 mels: statistics, slices, the short clips whole."""
    import numpy as np
    from safetensors.numpy import save_file
    from transformers import WhisperFeatureExtractor

    out, arrays = {}, {}
    for bins in (80, 128):
        extractor = WhisperFeatureExtractor(
            feature_size=bins,
            sampling_rate=RATE,
            hop_length=160,
            chunk_length=30,
            n_fft=400,
            return_attention_mask=True,
        )
        filters = np.asarray(extractor.mel_filters, dtype=np.float32)  # (201, bins)
        arrays[f"mel_filters_{bins}"] = filters
        out[f"mel_filters_{bins}"] = dict(
            shape=list(filters.shape),
            sum=float(filters.astype(np.float64).sum()),
            nonzero=int((filters != 0).sum()),
            col0=figures(filters[:8, 0]),
            collast=figures(filters[-8:, -1]),
        )
        for name in folders.clips():
            wave = load_16k(folders, name)
            features = extractor(
                wave,
                sampling_rate=RATE,
                return_tensors="np",
                padding="max_length",
                return_attention_mask=True,
            )
            mel = features.input_features[0]
            frames = int(features.attention_mask[0].sum())
            middle = len(wave) // 2
            kept_frames = (0, 1, 50, 99, 150, 299, 300, 1499, 2998, 2999)
            out[f"{name}@{bins}"] = dict(
                n_samples_16k=len(wave),
                wave_first16=figures(wave[:16]),
                wave_mid8=figures(wave[middle : middle + 8]),
                wave_sumsq=float((wave.astype(np.float64) ** 2).sum()),
                shape=list(mel.shape),
                mask_frames=frames,
                mean=float(mel.mean(dtype=np.float64)),
                std=float(mel.std(dtype=np.float64)),
                min=float(mel.min()),
                max=float(mel.max()),
                norm=float(np.linalg.norm(mel.astype(np.float64))),
                bins_frame0=figures(mel[:, 0]),
                row0_first12=figures(mel[0, :12]),
                row_mid_first12=figures(mel[bins // 2, :12]),
                frames_at={str(frame): figures(mel[::16, frame]) for frame in kept_frames},
                frame_norms_every50=figures(np.linalg.norm(mel[:, ::50].astype(np.float64), axis=0)),
            )
            if name.startswith(FULL_FEATURES):
                arrays[f"{name}@{bins}/mel"] = mel[:, : frames + 4].astype(np.float32)
            if name.startswith(FULL_WAVES) and bins == 80:
                arrays[f"{name}/wave16k"] = wave.astype(np.float32)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(arrays, f"{folders.out}/mel.safetensors")
    out["_note"] = (
        "waves are librosa.load(sr=16000, mono=True, res_type='soxr_hq'); mel arrays in mel.safetensors hold "
        "the first mask_frames+4 columns of the 3000; every later column equals the last one (log floor)"
    )
    dump(out, f"{folders.out}/mel.json")


# ---------------------------------------------------------------- a tiny checkpoint

CORPUS = """\
What is the capital of France? The capital of France is Paris. \
Please listen to the audio and answer the question.
Answer with a single word or short phrase. Choose the correct option: A, B, C or D. \
What emotion does the speaker express? happy, sad, angry, neutral.
Transcribe the speech. How many people are speaking? What sound is this? Describe the image in one sentence. \
Is the claim supported, refuted or not enough information?
You are a helpful assistant. system user assistant Audio 1: Audio 2: \
the of and to in is that for it with as on by at from this are was be an or
两个人在说话。请听音频并回答问题。法国的首都是巴黎。这张图片里有什么？ ¿Cuál es la capital de Francia? \
Wie heißt die Hauptstadt von Frankreich? 0 1 2 3 4 5 6 7 8 9 10 2024 """


def randomise(model, embedding_std, seed):
    """Fills every tensor from numpy's PCG64 in the order of the names, so that no library's initialisation
    matters."""
    import numpy as np
    import torch

    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            drawn = generator.standard_normal(tuple(tensor.shape)).astype(np.float32)
            if tensor.ndim == 1 and "norm" in name and name.endswith("weight"):
                values = 1 + 0.1 * drawn
            elif tensor.ndim == 1:
                values = 0.05 * drawn
            elif "embed_positions" in name:
                values = 0.1 * drawn
            else:
                fan_in = int(np.prod(tensor.shape[1:]))
                std = embedding_std if "embed_tokens" in name else min(1.6 / math.sqrt(fan_in), 1.0)
                values = drawn * std
            tensor.copy_(torch.from_numpy(values))


def make_checkpoint(folders):
    """A random Qwen2-Audio of 64 dimensions in the published layout. Its vocabulary is larger than its
    tokenizer, as in the published model."""
    from safetensors.torch import load_file, save_file
    from transformers import Qwen2AudioConfig, Qwen2AudioForConditionalGeneration

    folder = folders.model
    os.makedirs(folder, exist_ok=True)
    tokenizer = qwen_tokenizer([CORPUS] * 4, 700, SPECIAL)
    tokenizer.save(f"{folder}/tokenizer.json")
    write_json(tokenizer_config(SPECIAL), f"{folder}/tokenizer_config.json")
    write_json(dict(chat_template=CHAT_TEMPLATE), f"{folder}/chat_template.json")
    write_json(feature_extractor_config(128), f"{folder}/preprocessor_config.json")
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    vocabulary = (tokenizer.get_vocab_size() + 31) // 32 * 32
    config = Qwen2AudioConfig(
        audio_config=dict(
            model_type="qwen2_audio_encoder",
            d_model=64,
            encoder_layers=2,
            encoder_attention_heads=4,
            encoder_ffn_dim=128,
            num_mel_bins=128,
            max_source_positions=1500,
            activation_function="gelu",
            scale_embedding=False,
        ),
        text_config=dict(
            model_type="qwen2",
            hidden_size=64,
            intermediate_size=160,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=vocabulary,
            max_position_embeddings=8192,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            hidden_act="silu",
            tie_word_embeddings=False,
            bos_token_id=ids["<|endoftext|>"],
            eos_token_id=ids["<|im_end|>"],
            pad_token_id=None,
            use_sliding_window=False,
        ),
        audio_token_index=ids["<|AUDIO|>"],
        ignore_index=-100,
    )
    model = Qwen2AudioForConditionalGeneration(config).eval()
    randomise(model, 0.5, SEED)
    model.generation_config.update(
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=[ids["<|endoftext|>"], ids["<|im_end|>"]],
        pad_token_id=ids["<|endoftext|>"],
        do_sample=False,
    )
    model.save_pretrained(folder)
    path = f"{folder}/model.safetensors"
    tensors = {published_name(name): tensor.contiguous() for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    config["text_config"].setdefault("rope_theta", 10000.0)
    config["audio_token_index"] = ids["<|AUDIO|>"]
    config.setdefault("vocab_size", vocabulary)
    config["torch_dtype"] = "float32"
    dump(config, f"{folder}/config.json")


# ---------------------------------------------------------------- conversations

SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def user(*parts):
    """A user turn; a part that begins with @ is a clip."""
    content = [
        {"type": "audio", "audio_url": part[1:]} if part.startswith("@") else {"type": "text", "text": part}
        for part in parts
    ]
    return {"role": "user", "content": content}


def plain(text):
    """A user turn that is a string."""
    return {"role": "user", "content": text}


def reply(text):
    """A turn of the model."""
    return {"role": "assistant", "content": text}


# Conversations by name; several make a batch, padded on the left.
CONVERSATIONS = {
    "text_only": [[SYSTEM, plain("What is the capital of France?")]],
    "one_audio_3s": [[SYSTEM, user("@tone3_16k.wav", "What sound is this?")]],
    "speech_q": [[user("@q_capital_16k.wav", "Please listen to the audio and answer the question.")]],
    "two_audios": [[SYSTEM, user("@tone3_16k.wav", "@q_capital_16k.wav", "How many people are speaking?")]],
    "multi_turn": [
        [
            SYSTEM,
            user("@tone3_16k.wav", "What sound is this?"),
            reply("A tone."),
            user("@q_colors_16k.wav", "How about this one?"),
        ]
    ],
    "audio_30s": [[SYSTEM, user("@tone30_16k.flac", "Transcribe the speech.")]],
    "audio_47s_first30": [[SYSTEM, user("@tone47_16k.flac", "Transcribe the speech.")]],
    "audio_47s_last30": [[SYSTEM, user("@tone47_16k.flac#last30", "Transcribe the speech.")]],
    "batch2_diff_len": [
        [SYSTEM, user("@tone3_16k.wav", "What sound is this?")],
        [SYSTEM, user("@tone30_16k.flac", "Choose the correct option: A, B, C or D.")],
    ],
    "batch2_audio_and_text": [
        [SYSTEM, user("@q_capital_16k.wav", "Answer with a single word or short phrase.")],
        [SYSTEM, plain("两个人在说话。")],
    ],
}
# Those that are only rendered.
RENDERED = {
    "no_system_string": [[plain("hi")]],
    "assistant_list": [
        [
            SYSTEM,
            user("@a.wav"),
            {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
            user("again", "@b.wav"),
        ]
    ],
    "system_list": [
        [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            user("text first", "@a.wav"),
        ]
    ],
}
# Those that the model answers.
ANSWERED = [
    "text_only",
    "one_audio_3s",
    "speech_q",
    "two_audios",
    "audio_30s",
    "audio_47s_first30",
    "batch2_diff_len",
]
PROBES = [
    "What is the capital of France?",
    "<|im_start|>user\nAudio 1: <|audio_bos|><|AUDIO|><|audio_eos|>\nhi<|im_end|>\n",
    "两个人在说话。",
    "don't  stop\n\n 42!",
    "é e\u0301",
]


def make_templates(folders):
    """Renderings of the chat template, and token ids of difficult texts."""
    tools = processor(folders.model)

    def render(turns, generate):
        return tools.apply_chat_template(turns, add_generation_prompt=generate, tokenize=False)

    out = {
        name: [
            dict(messages=turns, with_generation_prompt=render(turns, True), without=render(turns, False))
            for turns in batch
        ]
        for name, batch in (CONVERSATIONS | RENDERED).items()
    }
    out["_tokenizer_probe"] = {
        text: tools.tokenizer(text, add_special_tokens=False).input_ids for text in PROBES
    }
    dump(out, f"{folders.local}/qwen2audio_templates.json")


# ---------------------------------------------------------------- references


def clip_names(batch):
    """The clips of a batch of conversations, in order."""
    return [
        part["audio_url"]
        for turns in batch
        for turn in turns
        if isinstance(turn["content"], list)
        for part in turn["content"]
        if part["type"] == "audio"
    ]


def slices(states, counts):
    """What is kept of the states of each clip."""
    return [
        dict(
            first8_t0=figures(state[0, :8]),
            first8_last=figures(state[count - 1, :8]),
            norm=float(state[:count].double().norm()),
        )
        for state, count in zip(states, counts)
    ]


def make_reference(folders):
    """What transformers computes: prompt ids, encoder and projector, logits, 24 greedy tokens without end."""
    import numpy as np
    import torch
    import transformers
    from safetensors.numpy import save_file
    from transformers import Qwen2AudioForConditionalGeneration

    torch.set_num_threads(2)
    model = Qwen2AudioForConditionalGeneration.from_pretrained(
        folders.model, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tools = processor(folders.model)
    core = model.model
    out = dict(_transformers=transformers.__version__, _torch=torch.__version__)
    arrays = {}
    states = {}
    core.audio_tower.register_forward_hook(lambda _, __, found: states.update(enc=found.last_hidden_state))
    core.multi_modal_projector.register_forward_hook(lambda _, __, found: states.update(proj=found))

    for name in ANSWERED:
        batch = CONVERSATIONS[name]
        texts = [
            tools.apply_chat_template(turns, add_generation_prompt=True, tokenize=False) for turns in batch
        ]
        names = clip_names(batch)
        audio = dict(audio=[load_16k(folders, clip) for clip in names], sampling_rate=RATE) if names else {}
        inputs = tools(text=texts, return_tensors="pt", padding=True, **audio)
        wanted = ("input_ids", "attention_mask", "input_features", "feature_attention_mask")
        inputs = {key: value for key, value in inputs.items() if key in wanted}
        case = dict(
            texts=texts,
            audios=names,
            input_ids=inputs["input_ids"].tolist(),
            attention_mask_sum=inputs["attention_mask"].sum(-1).tolist(),
            seq_len=inputs["input_ids"].shape[1],
        )
        with torch.no_grad():
            logits = model(**inputs).logits.float()
            last = logits[:, -1]
            case["logits_shape"] = list(logits.shape)
            case["last_logits"] = [figures(row) for row in last]
            case["last_top5"] = [row.topk(5).indices.tolist() for row in last]
            case["pos_logit_norms"] = [figures(row.norm(dim=-1)[-24:]) for row in logits]
            case["argmax_last24"] = [row.argmax(-1)[-24:].tolist() for row in logits]
            if names:
                frames = inputs["feature_attention_mask"].sum(-1)
                convolved = (frames - 1) // 2 + 1
                pooled = ((convolved - 2) // 2 + 1).tolist()
                case.update(mel_frames=frames.tolist(), enc_frames=convolved.tolist(), audio_tokens=pooled)
                case["enc"] = slices(states["enc"], pooled)
                case["proj"] = slices(states["proj"], pooled)
                if name in ("one_audio_3s", "two_audios"):
                    for index, (state, count) in enumerate(zip(states["proj"], pooled)):
                        arrays[f"{name}/proj{index}"] = state[:count].numpy().copy()
            if name in ("text_only", "one_audio_3s"):
                arrays[f"{name}/logits"] = logits[0].numpy().copy()
            output = model.generate(
                **inputs,
                max_new_tokens=24,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=tools.tokenizer.pad_token_id,
                output_logits=True,
                return_dict_in_generate=True,
            )
        tokens = output.sequences[:, -24:]
        case["greedy_ids"] = tokens.tolist()
        case["greedy_text"] = [tools.tokenizer.decode(row, skip_special_tokens=False) for row in tokens]
        best = [step.float().topk(2).values for step in output.logits]
        case["greedy_top1_top2_gap_min"] = [
            min(float(f"{(two[row, 0] - two[row, 1]).item():.4g}") for two in best)
            for row in range(len(batch))
        ]
        out[name] = case
        gap = case["greedy_top1_top2_gap_min"]
        print(name, case["seq_len"], case.get("audio_tokens"), case["greedy_ids"][0][:10], "gap", gap)
    alone, batched = out["one_audio_3s"]["greedy_ids"][0], out["batch2_diff_len"]["greedy_ids"][0]
    out["_checks"] = dict(batch_row0_equals_single=alone == batched)
    print(out["_checks"])
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(arrays, f"{folders.local}/qwen2audio_ref.safetensors")
    dump(out, f"{folders.local}/qwen2audio_ref.json")


PARTS = dict(
    audio=make_audio,
    mel=make_mel,
    checkpoint=make_checkpoint,
    templates=make_templates,
    reference=make_reference,
)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"], metavar="PART", help="what to make")
    parser.add_argument(
        "--out", default="tests/fixtures", help="folder to write to (default: tests/fixtures)"
    )
    args = parser.parse_args()
    folders = Folders(args.out)
    for part in PARTS if "all" in args.parts else args.parts:
        print("==", part)
        PARTS[part](folders)


if __name__ == "__main__":
    main()
