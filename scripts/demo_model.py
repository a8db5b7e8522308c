"""Tokenizer, configuration and weights of the demo model, in the published layout of Qwen2-Audio."""

import json
import math
import os

from demo_sentences import (
    CHOICE_HEAD,
    CHOICE_TAIL,
    FACTS0,
    FACTS8,
    HELPFUL,
    LANGUAGES,
    NAMES,
    PASSAGES,
    QUESTIONS,
    SPEECH_SYSTEM,
    SPEECH_USER,
    TEXT_SYSTEM,
    TEXT_USER,
)
from qwen2_audio_layout import (
    CHAT_TEMPLATE,
    SPECIAL,
    feature_extractor_config,
    published_name,
    qwen_tokenizer,
    tokenizer_config,
    write_json,
)


def corpus(prompts):
    """The texts that the tokenizer learns from; what is repeated becomes whole tokens."""
    prompts = prompts or {}
    text_system = prompts.get("text_system", TEXT_SYSTEM)
    text_user = prompts.get("text_user", TEXT_USER)
    fixed = [SPEECH_SYSTEM, SPEECH_USER, text_system, text_user, HELPFUL, CHOICE_HEAD]
    texts = [*fixed, "Audio 1: \nsystem\nuser\nassistant\n", "unknown speech beep noise man woman"]
    texts += [question for kind in QUESTIONS.values() for question in kind]
    texts += [text for lang in LANGUAGES for fact in FACTS8 for text in fact[lang][:2]] * 2
    texts += list(NAMES.values()) * 4
    texts += list(FACTS0) + list(FACTS0.values())
    texts += [f"in {name}." for name in NAMES.values()]
    texts += [f"spoken in {name}." for name in NAMES.values()]
    for passage in PASSAGES.values():
        for key in "ncavf":
            for word in passage[key]:
                options = "".join(f"({letter}) {word}\n" for letter in "ABCD")
                texts += [options, f" {word} {word}."] * 2 + [word]
            texts += [passage["questions"][key].format(p=name) for name in passage["names"]]
        texts += [f"{name} " for name in passage["names"]]
        texts += passage["others"] + [passage["first"]]
    texts += ["a man about a woman about"] * 3
    texts += [CHOICE_TAIL] * 3
    texts += [*fixed, "system\nuser\nassistant\n"] * 12
    texts += [fact[lang][1] for lang in LANGUAGES for fact in FACTS8] * 4
    about = [
        text
        for passage in PASSAGES.values()
        for name in passage["names"]
        for text in (f"{name} has", f"{name} tiene", "She lives He lives likes", f"does {name}")
    ]
    texts += about * 3
    if "speech_full" in prompts:
        texts += [prompts["speech_full"]] * 12
    return texts


def build(args, prompts):
    """A new model, its tokenizer and the ids of its special tokens; writes all files but the weights."""
    import torch
    from transformers import Qwen2AudioConfig, Qwen2AudioForConditionalGeneration

    tokenizer = qwen_tokenizer(corpus(prompts) * 2, args.vocab, SPECIAL, min_frequency=2)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    vocabulary = (tokenizer.get_vocab_size() + 31) // 32 * 32
    os.makedirs(args.model, exist_ok=True)
    tokenizer.save(f"{args.model}/tokenizer.json")
    write_json(tokenizer_config(SPECIAL), f"{args.model}/tokenizer_config.json")
    write_json(dict(chat_template=CHAT_TEMPLATE), f"{args.model}/chat_template.json")
    write_json(feature_extractor_config(128), f"{args.model}/preprocessor_config.json")

    width = args.enc_dim
    config = Qwen2AudioConfig(
        audio_config=dict(
            model_type="qwen2_audio_encoder",
            d_model=width,
            encoder_layers=args.enc_layers,
            encoder_attention_heads=4,
            encoder_ffn_dim=3 * width,
            num_mel_bins=128,
            max_source_positions=1500,
            activation_function="gelu",
        ),
        text_config=dict(
            model_type="qwen2",
            hidden_size=args.dec_dim,
            intermediate_size=args.inter,
            num_hidden_layers=args.dec_layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=vocabulary,
            max_position_embeddings=8192,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            tie_word_embeddings=False,
            bos_token_id=ids["<|endoftext|>"],
            eos_token_id=ids["<|im_end|>"],
        ),
        audio_token_index=ids["<|AUDIO|>"],
        ignore_index=-100,
    )
    torch.manual_seed(1)
    model = Qwen2AudioForConditionalGeneration._from_config(config, attn_implementation="sdpa").float()
    initialise(model, args)
    position = torch.arange(1500)[:, None]
    frequency = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))[None]
    table = torch.cat([torch.sin(position * frequency), torch.cos(position * frequency)], 1)
    model.model.audio_tower.embed_positions.weight.data = table
    model.generation_config.update(
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=[ids["<|endoftext|>"], ids["<|im_end|>"]],
        pad_token_id=ids["<|endoftext|>"],
        do_sample=False,
    )
    return model, tokenizer, ids


def initialise(model, args):
    """Weights scaled by fan-in. The library's initialisation (std 0.02) suits wide models; at this width it
    leaves the mel features far below the position embedding."""
    import torch

    closing = ("o_proj.weight", "out_proj.weight", "down_proj.weight", "fc2.weight")
    for name, weight in model.named_parameters():
        if weight.dim() < 2 or "embed_positions" in name:
            continue
        if "embed_tokens" in name:
            std = 0.5
        else:
            std = (2 if "conv" in name else 1) ** 0.5 * weight[0].numel() ** -0.5
            if name.endswith(closing):
                std *= (2 * (args.dec_layers if "language" in name else args.enc_layers)) ** -0.5
        torch.nn.init.normal_(weight, 0, std)


def save(model, folder, ids):
    """Saves f16 weights with the published tensor names, whatever the library calls them."""
    from safetensors.torch import load_file, save_file

    model.save_pretrained(folder)
    path = f"{folder}/model.safetensors"
    tensors = {published_name(name): tensor.half().contiguous() for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)
    with open(f"{folder}/config.json") as file:
        config = json.load(file)
    config["text_config"].setdefault("rope_theta", 10000.0)
    config["audio_token_index"] = ids["<|AUDIO|>"]
    config["torch_dtype"] = config["dtype"] = "float16"
    config["text_config"]["pad_token_id"] = None
    config.setdefault("vocab_size", config["text_config"]["vocab_size"])
    write_json(config, f"{folder}/config.json")
