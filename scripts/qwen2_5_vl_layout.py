"""The layout of the published Qwen2.5-VL checkpoints: special tokens, chat template, configuration, tensor names.

config.json is in the form of the published files: the settings of the decoder stand beside those of the model.
"""

from qwen2_audio_layout import qwen_tokenizer, write_json

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}"
    "{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
    "{% endfor %}"
    "{% endif %}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Pixels of an image as the model sees it: at least 4 squares of 28 by 28, at most 64.
MIN_PIXELS, MAX_PIXELS = 3136, 50176
MEAN = [0.48145466, 0.4578275, 0.40821073]
STD = [0.26862954, 0.26130258, 0.27577711]


def preprocessor_config():
    """preprocessor_config.json"""
    return dict(
        min_pixels=MIN_PIXELS,
        max_pixels=MAX_PIXELS,
        patch_size=14,
        temporal_patch_size=2,
        merge_size=2,
        image_mean=MEAN,
        image_std=STD,
        image_processor_type="Qwen2VLImageProcessor",
        processor_class="Qwen2_5_VLProcessor",
    )


def tokenizer_config():
    """tokenizer_config.json"""
    return dict(
        tokenizer_class="PreTrainedTokenizerFast",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
        additional_special_tokens=SPECIAL[1:],
        chat_template=CHAT_TEMPLATE,
    )


def config(ids, vocabulary, vision, text):
    """config.json. `vision` has depth, hidden_size, intermediate_size, num_heads and fullatt_block_indexes; `text`
    hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads and
    mrope_section."""
    text = dict(text)
    section = text.pop("mrope_section")
    return dict(
        architectures=["Qwen2_5_VLForConditionalGeneration"],
        attention_dropout=0.0,
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=ids["<|im_end|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        vision_token_id=ids["<|vision_pad|>"],
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        hidden_act="silu",
        **text,
        initializer_range=0.02,
        max_position_embeddings=4096,
        max_window_layers=text["num_hidden_layers"],
        model_type="qwen2_5_vl",
        rms_norm_eps=1e-06,
        rope_theta=1000000.0,
        sliding_window=4096,
        tie_word_embeddings=False,
        torch_dtype="float16",
        use_cache=True,
        use_sliding_window=False,
        vision_config=dict(
            **vision,
            hidden_act="silu",
            in_chans=3,
            out_hidden_size=text["hidden_size"],
            patch_size=14,
            spatial_merge_size=2,
            spatial_patch_size=14,
            window_size=112,
            tokens_per_second=2,
            temporal_patch_size=2,
        ),
        rope_scaling=dict(type="mrope", mrope_section=section),
        vocab_size=vocabulary,
    )


def generation_config(ids):
    """generation_config.json"""
    return dict(
        bos_token_id=ids["<|endoftext|>"],
        pad_token_id=ids["<|endoftext|>"],
        do_sample=False,
        eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]],
    )


def published_name(name):
    """The published name of a tensor: visual.*, model.* and lm_head.weight."""
    for now, then in (("model.visual.", "visual."), ("model.language_model.", "model.")):
        if name.startswith(now):
            return then + name[len(now) :]
    return name


def write_files(folder, tokenizer, ids, settings):
    """All files of a checkpoint but the weights."""
    tokenizer.save(f"{folder}/tokenizer.json")
    write_json(tokenizer_config(), f"{folder}/tokenizer_config.json")
    write_json(dict(chat_template=CHAT_TEMPLATE), f"{folder}/chat_template.json")
    write_json(preprocessor_config(), f"{folder}/preprocessor_config.json")
    write_json(generation_config(ids), f"{folder}/generation_config.json")
    write_json(settings, f"{folder}/config.json")


def save_weights(model, folder):
    """f16 weights under the published names."""
    import os

    from safetensors.torch import save_file

    state = model.state_dict()
    tensors = {published_name(name): tensor.detach().half().contiguous() for name, tensor in state.items()}
    path = f"{folder}/model.safetensors"
    save_file(tensors, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)


def tokenizer_of(texts, size):
    """A tokenizer that learned from texts, and the ids of its special tokens."""
    tokenizer = qwen_tokenizer(texts, size, SPECIAL, min_frequency=2)
    return tokenizer, {token: tokenizer.token_to_id(token) for token in SPECIAL}
