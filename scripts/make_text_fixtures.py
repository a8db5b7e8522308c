#!/usr/bin/env python3
"""Small random checkpoints of text models and what transformers makes of them.

Writes tests/fixtures/text/: for each family a folder in the layout of Hugging Face, GGUF files, and reference.json with
rendered prompts, token ids, logits and greedy tokens. The GGUF files hold quantised weights; their reference is the model
of transformers with the same numbers, dequantised by the gguf package.

    pip install torch transformers gguf safetensors
    python scripts/make_text_fixtures.py
"""
import copy
import json
import math
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM,
    PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
)

OUT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "text"
WORDS = """What is the capital of France? The capital of France is Paris. Answer with a single letter: A, B, C or D.
Read the passage and choose. Two people are talking about the weather in the north; it's 17 degrees, isn't it?
Schöne Grüße aus Köln! Où est la gare? 两个人在说话。今天天气怎么样？ Какая столица Франции? 1234567890 3.14 == 22/7
you are a helpful assistant. user system model assistant think respond question passage correct option language"""
PROBES = [
    "What is the capital of France?", "  two  blanks\n\n\tand tabs ", "it's 1234567, isn't it?", "两个人在说话。", "Köln: Grüße!",
    "e\u0301 is e with an accent", "emoji \U0001f600 and \u200b", "CamelCase_snake-kebab", "", "<|im_end|> inside",
]
CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "system", "content": "You are a helpful assistant."},
     {"role": "user", "content": " Read the passage and choose: A, B, C or D. 今天天气怎么样？ "}],
    [{"role": "user", "content": "it's 17 degrees"}, {"role": "assistant", "content": "isn't it?"},
     {"role": "user", "content": "Two people are talking about the weather in the north. Answer with a single letter."}],
]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BYTE_LEVEL = {
    "llama-bpe": [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)],
    "qwen2": [pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)],
}
LLAMA_TEMPLATE = (
    "{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- set date_string = '26 Jul 2024' %}\n{%- endif %}\n"
    "{%- if tools is not none %}{{ raise_exception('no tools') }}{%- endif %}\n"
    "{%- for message in messages %}\n    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}\n"
    "    {{- message['content'] | trim + '<|eot_id|>' }}\n{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n"
)
CHATML_TEMPLATE = (
    "{%- if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
QWEN3_TEMPLATE = (
    "{%- set ns = namespace(last=messages|length - 1) %}\n"
    "{%- for message in messages[::-1] %}\n    {%- if message.role == 'user' and ns.last == messages|length - 1 %}\n"
    "        {%- set ns.last = messages|length - 1 - loop.index0 %}\n    {%- endif %}\n{%- endfor %}\n"
    "{%- for message in messages %}\n    {%- set content = message.content %}\n"
    "    {%- if message.role == 'assistant' %}\n        {%- if '</think>' in content %}\n"
    "            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n        {%- endif %}\n    {%- endif %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n"
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "    {%- endif %}\n{%- endif %}"
)
GEMMA_TEMPLATE = (
    "{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- set first = messages[0]['content'] + '\\n\\n' -%}\n"
    "    {%- set loop_messages = messages[1:] -%}\n{%- else -%}\n    {%- set first = '' -%}\n"
    "    {%- set loop_messages = messages -%}\n{%- endif -%}\n{%- for message in loop_messages -%}\n"
    "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}\n        {{ raise_exception('roles must alternate') }}\n"
    "    {%- endif -%}\n    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}\n"
    "    {{ '<start_of_turn>' + role + '\\n' + (first if loop.first else '') }}\n"
    "    {%- if message['content'] is string -%}\n        {{ message['content'] | trim }}\n    {%- endif -%}\n"
    "    {{ '<end_of_turn>\\n' }}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n    {{ '<start_of_turn>model\\n' }}\n{%- endif -%}\n"
)


def byte_level(rule, special, own=()):
    """A byte-level tokenizer with the rule of splitting that GGUF files call `rule`."""
    t = Tokenizer(models.BPE(ignore_merges=rule == "llama-bpe"))
    if rule == "qwen2":
        t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(BYTE_LEVEL[rule])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([WORDS], trainers.BpeTrainer(
        vocab_size=300, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in special])
    t.add_tokens([AddedToken(x, special=False, normalized=False) for x in own])
    return t


def sentence_piece(special):
    """A tokenizer of pieces with scores and bytes, as Gemma has it; and the scores."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.train_from_iterator([WORDS], trainers.BpeTrainer(vocab_size=130, show_progress=False))
    pieces = sorted(trained.get_vocab().items(), key=lambda x: x[1])
    tokens = special + [f"<0x{b:02X}>" for b in range(256)]
    # Merged pieces first, by the order of training; then single letters, as Gemma has them.
    merged = [p for p, _ in pieces if len(p) > 1]
    tokens += merged + [p for p, _ in pieces if len(p) == 1]
    vocab = {p: i for i, p in enumerate(tokens)}
    scores = {p: -float(i) for i, p in enumerate(merged)}
    scores.update({p: -1000.0 for p in tokens if p not in scores})
    merges = []
    for p in merged:
        cuts = [(p[:i], p[i:]) for i in range(1, len(p)) if p[:i] in vocab and p[i:] in vocab]
        merges += sorted(cuts, key=lambda c: (vocab[c[0]], vocab[c[1]]))
    t = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens([AddedToken(x, special=True, normalized=False) for x in special])
    return t, [scores[p] for p in tokens]


def randomise(model, seed):
    """Weights that give logits far enough apart, rounded to 16 bits so that files are small."""
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if p.ndim == 1 and "bias" not in name:
            base = 0.0 if "gemma" in model.config.model_type else 1.0
            p.data = base + 0.2 * torch.randn(p.shape, generator=g)
        elif p.ndim == 1:
            p.data = 0.3 * torch.randn(p.shape, generator=g)
        elif "embed" in name or "lm_head" in name:
            # Small, so that a tied head does not always find the last token again.
            p.data = torch.randn(p.shape, generator=g) * (0.15 if "gemma" in model.config.model_type else 0.3)
        else:
            p.data = 2.0 / math.sqrt(p.shape[-1]) * torch.randn(p.shape, generator=g)
        p.data = p.data.half().float()
    return model.eval()


def greedy(model, ids, count=24):
    """Greedy tokens whatever they are, the last logits of the prompt, and the smallest gap between the two best."""
    seq, gap, first = list(ids), 1e9, None
    with torch.no_grad():
        for _ in range(count):
            logits = model(input_ids=torch.tensor([seq])).logits[0, -1].float()
            first = logits if first is None else first
            top = torch.topk(logits, 2).values
            gap = min(gap, float(top[0] - top[1]))
            seq.append(int(logits.argmax()))
    return seq[len(ids):], first, gap


def cases(model, fast):
    found = []
    for messages in CHATS:
        text = fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = fast(text, add_special_tokens=False).input_ids
        tokens, logits, gap = greedy(model, ids)
        found.append(dict(messages=messages, text=text, ids=ids, greedy=tokens, min_gap=gap, logits=[float(f"{x:.7g}") for x in logits[:24]],
                          norm=float(logits.norm())))
    return dict(cases=found, decoded=[fast.decode(c["greedy"], skip_special_tokens=True, clean_up_tokenization_spaces=False) for c in found],
                probes=[[p, fast(p, add_special_tokens=False).input_ids] for p in PROBES])


def save(name, model, fast, template):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    copy.deepcopy(model).half().save_pretrained(folder)
    fast.chat_template = template
    fast.save_pretrained(folder)
    for extra in folder.glob("*"):
        extra.chmod(0o644)
    return cases(model, fast)


def fast_of(t, eos, bos=None, pad=None):
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token=eos, bos_token=bos, pad_token=pad)


class Gguf:
    """A GGUF file under way, and the numbers that its quantised tensors hold."""

    def __init__(self, name, arch, config, kind):
        self.path, self.kind, self.state = OUT / f"{name}.gguf", kind, {}
        OUT.mkdir(parents=True, exist_ok=True)
        self.w = w = gguf.GGUFWriter(self.path, arch)
        w.add_context_length(config.max_position_embeddings)
        w.add_embedding_length(config.hidden_size)
        w.add_block_count(config.num_hidden_layers)
        w.add_feed_forward_length(config.intermediate_size)
        w.add_head_count(config.num_attention_heads)
        w.add_head_count_kv(config.num_key_value_heads)
        w.add_layer_norm_rms_eps(config.rms_norm_eps)
        w.add_key_length(config.head_dim)
        w.add_value_length(config.head_dim)

    def tokenizer(self, t, kind, pre=None, special=(), own=(), scores=None, template="", ids=()):
        w, size = self.w, t.get_vocab_size()
        tokens = [t.id_to_token(i) for i in range(size)]
        w.add_tokenizer_model(kind)
        w.add_token_list(tokens)
        w.add_token_types([3 if x in special else 4 if x in own else 6 if x.startswith("<0x") else 1 for x in tokens])
        if pre:
            w.add_tokenizer_pre(pre)
            w.add_token_merges([" ".join(m) for m in json.loads(t.to_str())["model"]["merges"]])
        if scores:
            w.add_token_scores(scores)
            w.add_add_space_prefix(False)
        w.add_chat_template(template)
        for key, token in ids:
            getattr(w, f"add_{key}_token_id")(t.token_to_id(token))

    def tensors(self, model, gemma=False, llama_heads=None):
        for name, p in model.state_dict().items():
            if name == "lm_head.weight" and model.config.tie_word_embeddings:
                continue
            x, theirs = p.float().numpy(), self.name(name, gemma)
            if gemma and name.endswith("norm.weight"):
                x = x + 1
            turn = back = lambda v: v
            if llama_heads and ("q_proj" in name or "k_proj" in name):
                h = llama_heads[0 if "q_proj" in name else 1]
                turn = lambda v, h=h: v.reshape(h, 2, v.shape[0] // h // 2, *v.shape[1:]).swapaxes(1, 2).reshape(v.shape)
                back = lambda v, h=h: v.reshape(h, v.shape[0] // h // 2, 2, *v.shape[1:]).swapaxes(1, 2).reshape(v.shape)
            x = np.ascontiguousarray(turn(x))
            if x.ndim == 1:
                self.w.add_tensor(theirs, x)
                kept = x
            else:
                q = gguf.quants.quantize(x, self.kind)
                self.w.add_tensor(theirs, q, raw_dtype=self.kind)
                kept = gguf.quants.dequantize(q, self.kind).reshape(x.shape)
            kept = back(kept)
            self.state[name] = torch.tensor(kept - 1 if gemma and name.endswith("norm.weight") else kept)

    @staticmethod
    def name(name, gemma):
        name = name.replace("model.embed_tokens", "token_embd").replace("model.norm", "output_norm").replace("lm_head", "output")
        for ours, theirs in (
            ("model.layers", "blk"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm"),
            ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"), ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "post_attention_norm" if gemma else "ffn_norm"),
            ("pre_feedforward_layernorm", "ffn_norm"), ("post_feedforward_layernorm", "post_ffw_norm"),
        ):
            name = name.replace(ours, theirs)
        return name

    def done(self, model, fast, template):
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file()
        self.w.close()
        same = copy.deepcopy(model)
        missing = same.load_state_dict(self.state, strict=False)
        assert not missing.unexpected_keys and all("lm_head" in k for k in missing.missing_keys), missing
        same.tie_weights()
        fast.chat_template = template
        return cases(same.eval(), fast)


def main():
    torch.set_num_threads(1)
    base = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                max_position_embeddings=512, attn_implementation="eager")
    out = {"_transformers": transformers.__version__}
    transformers.utils.logging.disable_progress_bar()

    def vocab(t):
        return (t.get_vocab_size() + 31) // 32 * 32

    # Llama 3: stretched frequencies, tied head.
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    t = byte_level("llama-bpe", special)
    ids = dict(bos_token_id=t.token_to_id("<|begin_of_text|>"), eos_token_id=[t.token_to_id("<|end_of_text|>"), t.token_to_id("<|eot_id|>")])
    scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
    config = LlamaConfig(**base, vocab_size=vocab(t), rms_norm_eps=1e-5, tie_word_embeddings=True, rope_parameters=dict(rope_theta=500000.0, **scaling), **ids)
    model = randomise(LlamaForCausalLM(config), 1)
    fast = fast_of(t, "<|eot_id|>", "<|begin_of_text|>")
    out["llama"] = save("llama", model, fast, LLAMA_TEMPLATE)
    g = Gguf("llama-q8_0", "llama", config, gguf.GGMLQuantizationType.Q8_0)
    g.w.add_rope_freq_base(500000.0)
    g.w.add_rope_dimension_count(8)
    plain = 1.0 / 500000.0 ** (np.arange(0, 8, 2, dtype=np.float32) / 8)
    g.w.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32))
    g.tokenizer(t, "gpt2", "llama-bpe", special, template=LLAMA_TEMPLATE, ids=[("bos", "<|begin_of_text|>"), ("eos", "<|eot_id|>")])
    g.tensors(model, llama_heads=(4, 2))
    out["llama-q8_0.gguf"] = g.done(model, fast, LLAMA_TEMPLATE)

    # SmolLM2 is a Llama with a plain embedding of positions; biases, which few have, are tried on it too.
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    t = byte_level("smollm", special)
    ids = dict(bos_token_id=t.token_to_id("<|im_start|>"), eos_token_id=t.token_to_id("<|im_end|>"))
    config = LlamaConfig(**base, vocab_size=vocab(t), rms_norm_eps=1e-5, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
                         rope_parameters=dict(rope_theta=10000.0, rope_type="linear", factor=2.0), **ids)
    model = randomise(LlamaForCausalLM(config), 2)
    fast = fast_of(t, "<|im_end|>", "<|im_start|>")
    out["llama-biased"] = save("llama-biased", model, fast, CHATML_TEMPLATE)
    g = Gguf("llama-q4_1", "llama", config, gguf.GGMLQuantizationType.Q4_1)
    g.w.add_rope_freq_base(10000.0)
    g.w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    g.w.add_rope_scaling_factor(2.0)
    g.tokenizer(t, "gpt2", "smollm", special, template=CHATML_TEMPLATE, ids=[("bos", "<|im_start|>"), ("eos", "<|im_end|>")])
    g.tensors(model, llama_heads=(4, 2))
    out["llama-q4_1.gguf"] = g.done(model, fast, CHATML_TEMPLATE)

    # Qwen2.5; with a window in its later layers, which few have.
    special, own = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<tool_call>", "</tool_call>"]
    t = byte_level("qwen2", special, own)
    ids = dict(bos_token_id=t.token_to_id("<|endoftext|>"), eos_token_id=t.token_to_id("<|im_end|>"))
    config = Qwen2Config(**{k: v for k, v in base.items() if k != "head_dim"}, vocab_size=vocab(t), rms_norm_eps=1e-6, tie_word_embeddings=True,
                         use_sliding_window=True, sliding_window=12, max_window_layers=1, rope_parameters=dict(rope_theta=1000000.0, rope_type="default"), **ids)
    model = randomise(Qwen2ForCausalLM(config), 3)
    fast = fast_of(t, "<|im_end|>", pad="<|endoftext|>")
    out["qwen2"] = save("qwen2", model, fast, CHATML_TEMPLATE)
    config = Qwen2Config(**{k: v for k, v in base.items() if k != "head_dim"}, vocab_size=vocab(t), rms_norm_eps=1e-6, tie_word_embeddings=True,
                         rope_parameters=dict(rope_theta=1000000.0, rope_type="default"), **ids)
    config.head_dim = 8
    model = randomise(Qwen2ForCausalLM(config), 3)
    g = Gguf("qwen2-q5_0", "qwen2", config, gguf.GGMLQuantizationType.Q5_0)
    g.w.add_rope_freq_base(1000000.0)
    g.tokenizer(t, "gpt2", "qwen2", special, own, template=CHATML_TEMPLATE, ids=[("eos", "<|im_end|>"), ("pad", "<|endoftext|>")])
    g.tensors(model)
    out["qwen2-q5_0.gguf"] = g.done(model, fast, CHATML_TEMPLATE)

    # Qwen3: norms of heads, heads wider than the model divided by their number.
    own += ["<think>", "</think>"]
    t = byte_level("qwen2", special, own)
    config = Qwen3Config(**{**base, "head_dim": 16}, vocab_size=vocab(t), rms_norm_eps=1e-6, tie_word_embeddings=False,
                         rope_parameters=dict(rope_theta=1000000.0, rope_type="default"), **ids)
    model = randomise(Qwen3ForCausalLM(config), 4)
    fast = fast_of(t, "<|im_end|>", pad="<|endoftext|>")
    out["qwen3"] = save("qwen3", model, fast, QWEN3_TEMPLATE)
    g = Gguf("qwen3-q4_0", "qwen3", config, gguf.GGMLQuantizationType.Q4_0)
    g.w.add_rope_freq_base(1000000.0)
    g.tokenizer(t, "gpt2", "qwen2", special, own, template=QWEN3_TEMPLATE, ids=[("eos", "<|im_end|>"), ("pad", "<|endoftext|>")])
    g.tensors(model)
    out["qwen3-q4_0.gguf"] = g.done(model, fast, QWEN3_TEMPLATE)

    # Gemma 3: windows, two rotary embeddings, norms everywhere; and the layout of checkpoints that can see.
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    t, scores = sentence_piece(special)
    ids = dict(bos_token_id=2, eos_token_id=[1, 5], pad_token_id=0)
    text = {k: v for k, v in base.items() if k != "attn_implementation"} | dict(
        num_hidden_layers=7, vocab_size=vocab(t), rms_norm_eps=1e-6, sliding_window=9, query_pre_attn_scalar=12,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
                             sliding_attention=dict(rope_type="default", rope_theta=10000.0)), **ids)
    config = Gemma3TextConfig(**text, attn_implementation="eager")
    model = randomise(Gemma3ForCausalLM(config), 5)
    fast = fast_of(t, "<eos>", "<bos>", "<pad>")
    out["gemma3"] = save("gemma3", model, fast, GEMMA_TEMPLATE)
    seeing = Gemma3ForConditionalGeneration(Gemma3Config(
        text_config=Gemma3TextConfig(**{**text, "num_hidden_layers": 2}),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14),
        mm_tokens_per_image=4, image_token_index=3, boi_token_index=3, eoi_token_index=3, attn_implementation="eager"))
    out["gemma3-seeing"] = save("gemma3-seeing", randomise(seeing, 6), fast, GEMMA_TEMPLATE)
    config = Gemma3TextConfig(**{**text, "query_pre_attn_scalar": 8}, attn_implementation="eager")
    model = randomise(Gemma3ForCausalLM(config), 5)
    g = Gguf("gemma3-f16", "gemma3", config, gguf.GGMLQuantizationType.F16)
    g.w.add_rope_freq_base(1000000.0)
    g.w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    g.w.add_rope_scaling_factor(8.0)
    g.w.add_sliding_window(9)
    g.tokenizer(t, "llama", special=special, scores=scores, template=GEMMA_TEMPLATE, ids=[("bos", "<bos>"), ("eos", "<eos>"), ("pad", "<pad>"), ("unk", "<unk>")])
    g.tensors(model, gemma=True)
    out["gemma3-f16.gguf"] = g.done(model, fast, GEMMA_TEMPLATE)

    (OUT / "reference.json").write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
    for name, case in out.items():
        if not name.startswith("_"):
            print(name, "smallest gap", min(c["min_gap"] for c in case["cases"]), "tokens", case["cases"][0]["greedy"][:8])


if __name__ == "__main__":
    main()
