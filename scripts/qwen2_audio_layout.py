"""The layout of the published Qwen2-Audio checkpoint: tokenizer, chat template, features, tensor names.

Shared by the scripts that make small checkpoints of that layout.
"""

import json

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"]

# How Qwen's tokenizers cut a text before byte-level BPE.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

CHAT_TEMPLATE = (
    "{% set audio_count = namespace(value=0) %}"
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}"
    "{% for content in message['content'] %}"
    "{% if 'audio' in content or 'audio_url' in content or message['type'] == 'audio'"
    " or content['type'] == 'audio' %}"
    "{% set audio_count.value = audio_count.value + 1 %}"
    "Audio {{ audio_count.value }}: <|audio_bos|><|AUDIO|><|audio_eos|>\n"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def qwen_tokenizer(texts, size, special, min_frequency=0):
    """A byte-level BPE tokenizer of Qwen's kind, with special tokens after the learned ones."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated", False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def tokenizer_config(special):
    """tokenizer_config.json"""
    return dict(
        tokenizer_class="PreTrainedTokenizerFast",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
        additional_special_tokens=special,
        chat_template=CHAT_TEMPLATE,
    )


def feature_extractor_config(bins):
    """preprocessor_config.json"""
    return dict(
        chunk_length=30,
        feature_extractor_type="WhisperFeatureExtractor",
        feature_size=bins,
        hop_length=160,
        n_fft=400,
        n_samples=480000,
        nb_max_frames=3000,
        padding_side="right",
        padding_value=0.0,
        return_attention_mask=True,
        sampling_rate=16000,
        processor_class="Qwen2AudioProcessor",
    )


def published_name(name):
    """The published name of a tensor: audio_tower.*, multi_modal_projector.*, language_model.model.* and
    language_model.lm_head.weight."""
    if name.startswith(("model.audio_tower", "model.multi_modal", "model.language_model")):
        name = name[len("model.") :]
    if name == "lm_head.weight":
        return "language_model.lm_head.weight"
    inner = ("language_model.model.", "language_model.lm_head")
    if name.startswith("language_model.") and not name.startswith(inner):
        name = "language_model.model." + name[len("language_model.") :]
    return name


def processor(folder):
    """The processor of a checkpoint of this layout, padding on the left."""
    from transformers import PreTrainedTokenizerFast, Qwen2AudioProcessor, WhisperFeatureExtractor

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.padding_side = "left"
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    with open(f"{folder}/chat_template.json") as file:
        template = json.load(file)["chat_template"]
    return Qwen2AudioProcessor(feature_extractor=extractor, tokenizer=tokenizer, chat_template=template)


def write_json(value, path):
    """Writes JSON with one space of indent, as all files of a checkpoint have it."""
    with open(path, "w") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
