"""A greedy answer of a demo's model, in the form that the expected answers have."""

import hashlib


def greedy(model, tokenizer, ids, tokens, **inputs):
    """What transformers answers to the prompt of these ids with at most so many tokens, and how near the choice was."""
    import torch

    with torch.no_grad():
        output = model.generate(
            **inputs,
            max_new_tokens=tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
    answer = output.sequences[0, len(ids) :].tolist()
    best = [logits[0].float().topk(2).values for logits in output.logits]
    return dict(
        token_ids=answer,
        text=tokenizer.decode(answer, skip_special_tokens=True),
        min_gap=round(min(float(two[0] - two[1]) for two in best), 4),
        prompt_ids_sha256=hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest(),
    )
