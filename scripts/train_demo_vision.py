#!/usr/bin/env python3
"""Makes the image demo: a small vision-language model in the published Qwen2.5-VL layout, and its test set.

    scripts/train_demo_vision.py train --model MODEL                train until --minutes are over
    scripts/train_demo_vision.py sets  --demo DEMO                  draw the test set
    scripts/train_demo_vision.py eval  --model MODEL --demo DEMO    write the answers of transformers

Needs torch, transformers, tokenizers, safetensors, numpy and Pillow from PyPI; run it in the repository's root,
or name the wording with --prompts.

The training drawings are made while it trains, of seeds that no picture of the test set has. The test set comes
out the same every time with the same Pillow and numpy. Training does not: it ends when so much processor time is
spent, so its weights are the fixture, and the expected answers belong to them. With --state it goes on where it
was interrupted.
"""

import argparse
import collections
import multiprocessing
import os
import time

HEADS = dict(shape=6, colour=8, count=5, country=12, digit=10, large_shape=6, large_colour=8)


def batches(args):
    """Batches for ever, made by another process a few steps ahead."""
    from demo_vision import batch_of

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        waiting = collections.deque()
        seed = args.seed
        while True:
            while len(waiting) < 8:
                job = (seed, args.pictures, args.asked, args.prompts, args.hard)
                waiting.append(pool.apply_async(batch_of, job))
                seed += 1
            yield waiting.popleft().get()


class Trainer:
    """The model, its auxiliary heads and its optimiser."""

    def __init__(self, args):
        import torch

        from demo_vision import Wording, build

        torch.set_num_threads(args.threads)
        self.torch = torch
        self.model, self.tokenizer, self.ids = build(args.model, Wording(args.prompts))
        # Heads that are thrown away after training. They tell the encoder what is where, long before the
        # decoder learns to look.
        width = self.model.config.text_config.hidden_size
        torch.manual_seed(2)
        heads = {name: torch.nn.Linear(width, size) for name, size in HEADS.items()}
        heads["colours"], heads["shapes"] = torch.nn.Linear(width, 9), torch.nn.Linear(width, 7)
        self.heads = torch.nn.ModuleDict(heads)
        self.parameters = [*self.model.parameters(), *self.heads.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.02)
        self.bf16 = args.bf16
        self.stats = {}
        self.known = {}

    def note(self, name, value, keep):
        """Keeps the last values of a statistic."""
        self.stats.setdefault(name, collections.deque(maxlen=keep)).append(value)

    def token_ids(self, text):
        """The token ids of a text, remembered."""
        if text not in self.known:
            self.known[text] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.known[text]

    def encode(self, pixels, grid):
        """Image embeddings [images, squares, width] of images of one grid. All patches of an image stand in one
        row, and a mask keeps windows apart: the same as windows one by one."""
        torch = self.torch
        rows, columns = grid
        tower = self.model.model.visual
        images, count = pixels.shape[:2]
        square = torch.arange(rows * columns).repeat_interleave(4)
        inner = torch.arange(4).repeat(rows * columns)
        y = square // columns * 2 + inner // 2
        x = square % columns * 2 + inner % 2
        window = (y // 8) * 1000 + x // 8
        mask = window[:, None] == window[None]
        mask = None if bool(mask.all()) else mask
        cos, sin = tower.rotary_pos_emb(pixels, torch.stack([y, x], 1))
        hidden = pixels.reshape(-1, pixels.shape[-1]) @ tower.patch_embed.proj.weight.flatten(1).T
        hidden = hidden.reshape(images, count, -1)
        for index, block in enumerate(tower.blocks):
            attention = block.attn
            heads = attention.num_heads
            qkv = attention.qkv(block.norm1(hidden)).reshape(images, count, 3, heads, -1)
            query, key, value = qkv.permute(2, 0, 3, 1, 4)

            def turn(part):
                low, high = part.chunk(2, -1)
                return part * cos + torch.cat([-high, low], -1) * sin

            seen = torch.nn.functional.scaled_dot_product_attention(
                turn(query).to(value.dtype),
                turn(key).to(value.dtype),
                value,
                attn_mask=None if index in tower.fullatt_block_indexes else mask,
            )
            hidden = hidden + attention.proj(seen.transpose(1, 2).reshape(images, count, -1))
            hidden = hidden + block.mlp(block.norm2(hidden))
        return tower.merger(hidden.reshape(-1, hidden.shape[-1])).reshape(images, count // 4, -1)

    def sequence(self, item, grid):
        """Token ids, labels and positions (3 lists) of an item."""
        from demo_vision import ASSISTANT, IMAGE, SYSTEM

        at, user, answer, _ = item
        rows, columns = grid
        before = self.token_ids(SYSTEM)
        after = self.token_ids(user + ASSISTANT)
        said = self.token_ids(answer) + [self.ids["<|im_end|>"]]
        if at < 0:
            tokens = before + after + said
            place = list(range(len(tokens)))
            positions = [place, place, place]
        else:
            before = before + self.token_ids(IMAGE[0])
            after = self.token_ids(IMAGE[1] + user + ASSISTANT)
            squares = range(rows * columns)
            tokens = before + [self.ids["<|image_pad|>"]] * len(squares) + after + said
            start, end = len(before), len(before) + max(rows, columns)
            tail = list(range(end, end + len(after) + len(said)))
            image = [[0] * len(squares), [s // columns for s in squares], [s % columns for s in squares]]
            positions = [list(range(start)) + [start + p for p in axis] + tail for axis in image]
        labels = [-100] * (len(tokens) - len(said)) + said
        return tokens, labels, positions

    def loss(self, batch, asking):
        """The loss of a batch: of the heads, and of the answers if `asking`."""
        import numpy as np

        torch = self.torch
        pixels = torch.from_numpy(np.stack(batch["pixels"]).astype(np.float32))
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            images = self.encode(pixels, batch["grid"])
        loss = self.aux * self.looking(batch, images.float())
        if asking:
            loss = loss + self.answering(batch, images)
        return loss

    def looking(self, batch, images):
        """The loss of the heads: what is where, square by square, and what is in the whole picture."""
        import numpy as np

        torch = self.torch
        cross_entropy = torch.nn.functional.cross_entropy
        loss = 0
        for name in ("colours", "shapes"):
            labels = torch.from_numpy(np.stack(batch[name]))
            found = self.heads[name](images)
            rare = torch.ones(found.shape[-1])
            rare[0] = 0.3
            loss = loss + cross_entropy(found.flatten(0, 1), labels.flatten(), rare)
            drawn = labels > 0
            if bool(drawn.any()):
                self.note("~" + name, (found.argmax(-1) == labels)[drawn].float().mean().item(), 40)
        mean = images.mean(1)
        for name in HEADS:
            targets = batch["targets"]
            of = [at for at, target in enumerate(targets) if name in target]
            if of:
                found = self.heads[name](mean[of])
                truth = torch.tensor([targets[at][name] for at in of])
                loss = loss + len(of) / len(targets) * cross_entropy(found, truth)
                self.note("~" + name, (found.argmax(-1) == truth).float().mean().item(), 40)
        return loss

    def answering(self, batch, images):
        """The loss of the answers; every item weighs with the square root of its answer's length."""
        torch = self.torch
        items, grid = batch["items"], batch["grid"]
        rows = [self.sequence(item, grid) for item in items]
        shape = (len(rows), max(len(tokens) for tokens, _, _ in rows))
        ids = torch.full(shape, self.ids["<|endoftext|>"])
        labels = torch.full(shape, -100)
        positions = torch.zeros((3, *shape), dtype=torch.long)
        for row, (tokens, wanted, places) in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            labels[row, : len(wanted)] = torch.tensor(wanted)
            positions[:, row, : len(tokens)] = torch.tensor(places)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            embeds = self.model.get_input_embeddings()(ids)
            shown = torch.tensor([item[0] for item in items if item[0] >= 0])
            places = (ids == self.ids["<|image_pad|>"])[..., None]
            embeds = embeds.masked_scatter(places, images[shown].to(embeds.dtype))
            hidden = self.model.model.language_model(
                inputs_embeds=embeds, position_ids=positions, use_cache=False
            ).last_hidden_state
            asked = labels[:, 1:] != -100
            logits = self.model.lm_head(hidden[:, :-1][asked]).float()
        wanted = labels[:, 1:][asked]
        row = asked.nonzero()[:, 0]
        weight = 1 / torch.bincount(row, minlength=len(items)).float()[row].sqrt()
        losses = torch.nn.functional.cross_entropy(logits, wanted, reduction="none")
        loss = (losses * weight).sum() / weight.sum()
        self.note("loss", loss.item(), 100)
        right = (logits.argmax(-1) == wanted).float()
        for index, item in enumerate(items):
            self.note(item[3], right[row == index].min().item(), 300)
        return loss

    def resume(self, path):
        """Goes on with what `keep` wrote."""
        kept = self.torch.load(path)
        self.model.load_state_dict(kept["model"])
        self.heads.load_state_dict(kept["heads"])
        self.optimizer.load_state_dict(kept["optimizer"])
        return kept["step"], kept["spent"]

    def keep(self, path, step, spent):
        """Writes all that is needed to go on."""
        parts = dict(model=self.model, heads=self.heads, optimizer=self.optimizer)
        state = {name: part.state_dict() for name, part in parts.items()}
        self.torch.save(dict(step=int(step), spent=float(spent), **state), path + ".new")
        os.replace(path + ".new", path)


def train(args):
    """Trains until the time is over."""
    import numpy as np
    import torch

    from qwen2_5_vl_layout import save_weights

    trainer = Trainer(args)
    trainer.aux = args.aux
    print("parameters", sum(p.numel() for p in trainer.model.parameters()), flush=True)
    print("vocabulary", trainer.model.config.text_config.vocab_size, flush=True)
    step, before, warm = 0, 0.0, 60
    if args.state and os.path.exists(args.state):
        step, before = trainer.resume(args.state)
    args.seed += 10 * step
    begun = time.process_time()
    rng = np.random.default_rng(step)
    old = []
    fresh = batches(args)
    while True:
        spent = before + (time.process_time() - begun) / 60
        done = spent / args.minutes
        if done >= 1:
            break
        # Drawing costs as much as learning: every batch is seen about twice.
        if step % 2 == 0 or len(old) < 10:
            batch = next(fresh)
            old.append(batch)
            del old[:-40]
        else:
            batch = old[rng.integers(len(old))]
        # First it learns to look, then to answer.
        fall = 1 if done < 0.5 else 0.5 + 0.5 * np.cos(np.pi * (done - 0.5) / 0.5)
        rate = args.rate * min(1, (step + 1) / warm) * max(0.02, fall)
        for group in trainer.optimizer.param_groups:
            group["lr"] = rate
        trainer.optimizer.zero_grad()
        trainer.loss(batch, done > args.look).backward()
        torch.nn.utils.clip_grad_norm_(trainer.parameters, 1.0)
        trainer.optimizer.step()
        step += 1
        if step % 50 == 0 or step in (5, 20):
            shown = {name: round(float(np.mean(v)), 2) for name, v in sorted(trainer.stats.items())}
            print(step, f"{spent:.1f}min", f"lr {rate:.1e}", shown, flush=True)
        if step % 100 == 0:
            save_weights(trainer.model, args.model)
            if args.state:
                trainer.keep(args.state, step, spent)
    save_weights(trainer.model, args.model)
    if args.state:
        trainer.keep(args.state, step, spent)
    print("saved after", step, "steps,", round(spent, 1), "min of processor time")
    fresh.close()


def sets(args):
    """Draws the test set."""
    from demo_vision_sets import make_set

    make_set(args.demo)


def evaluate(args):
    """Writes the expected answers."""
    from demo_vision_sets import expected

    expected(args.model, args.demo, args.out or f"{args.demo}/expected.json", args.prompts, args.threads)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = dict(train=train, sets=sets, eval=evaluate)
    parser.add_argument("command", choices=commands)
    parser.add_argument("--model", help="folder of the model; training writes to it")
    parser.add_argument("--demo", default="demo/vision", help="folder of the test set (default: demo/vision)")
    parser.add_argument("--out", help="file of the expected answers (default: expected.json in --demo)")
    parser.add_argument("--prompts", default="prompts/simplevqa/harness.toml", help="TOML file of the wording")
    parser.add_argument("--minutes", type=float, default=25.0, help="processor time of the training")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--pictures", type=int, default=40, help="drawings a step, fewer where they are large")
    parser.add_argument("--asked", type=int, default=1, help="questions a drawing")
    parser.add_argument("--hard", type=float, default=0.12, help="share of hard drawings")
    parser.add_argument("--aux", type=float, default=0.7, help="weight of the auxiliary heads")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=1_000_000, help="seed of the first batch")
    parser.add_argument("--state", help="file to go on from and to keep the state in")
    parser.add_argument("--look", type=float, default=0.35, help="share of the time without questions")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16 while training")
    args = parser.parse_args()
    if args.command in ("train", "eval") and not args.model:
        parser.error(f"{args.command} needs --model; the checked-in one is demo/vision/model")
    commands[args.command](args)


if __name__ == "__main__":
    main()
