#!/usr/bin/env python3
"""Makes the demo: a small audio-language model in the published Qwen2-Audio layout, and its test sets.

    scripts/train_demo_model.py data  --work WORK                   speak the training clips
    scripts/train_demo_model.py train --work WORK --model MODEL     train until --minutes are over
    scripts/train_demo_model.py sets  --demo DEMO                   speak the test sets
    scripts/train_demo_model.py eval  --model MODEL --demo DEMO     write the answers of transformers

Needs espeak-ng, and from PyPI torch, transformers, tokenizers, safetensors, numpy, soundfile and soxr.

The test sets come out the same every time. Training does not: it ends by the clock, so the weights in
demo/model are the fixture, and the expected answers belong to them. Those weights were trained with
--prompts, a file of other prompts: its speech prompt for three in ten of the spoken facts, its text prompts
for all facts in writing. Without the file the wording is that of harness.
"""

import argparse
import json
import os
import time

from demo_sentences import FACTS8, load_prompts

# Items a step and process: `long` every fourth step, `passage` every second. --mix FILE changes it meanwhile.
MIX = dict(
    fact=10,
    window=6,
    text=4,
    mc_text=0,
    passage=0,
    one_sentence=0.3,
    long=2,
    aug=1.0,
    aux=0.5,
    lr=1.5e-3,
    hold=0.5,
)


class Trainer:
    """The model, its auxiliary heads and its optimiser."""

    def __init__(self, args, rank):
        import torch

        from demo_model import build
        from demo_samples import Samples

        self.args = args
        self.torch = torch
        prompts = load_prompts(args.prompts)
        torch.set_num_threads(args.threads)
        self.model, self.tokenizer, self.ids = build(args, prompts)
        self.samples = Samples(args.work, prompts, 3 + rank)
        if args.init:
            weights = type(self.model).from_pretrained(args.init, dtype=torch.float32).state_dict()
            self.model.load_state_dict(weights)
        # Heads on the mean audio embedding, thrown away after training: they teach the encoder long before
        # the decoder learns to listen. Fact, number, colour, animal, gender.
        torch.manual_seed(2)
        sizes = dict(f=len(FACTS8) * 8, n=8, c=8, a=8, g=2)
        heads = {name: torch.nn.Linear(args.dec_dim, size) for name, size in sizes.items()}
        self.heads = torch.nn.ModuleDict(heads)
        named = self.model.named_parameters()
        self.parameters = [p for name, p in named if "embed_positions" not in name]
        self.parameters += list(self.heads.parameters())
        self.model.model.audio_tower.embed_positions.weight.requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
        self.mix = dict(MIX)
        self.stats = {}
        self.known_ids = {}

    def token_ids(self, text):
        """The token ids of a text, remembered."""
        if text not in self.known_ids:
            if len(self.known_ids) > 50000:
                self.known_ids.clear()
            self.known_ids[text] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self.known_ids[text]

    def encode(self, mel, lengths, offsets):
        """Audio embeddings of a padded batch, and how many of them each clip has."""
        torch = self.torch
        gelu = torch.nn.functional.gelu
        tower = self.model.model.audio_tower
        hidden = gelu(tower.conv1(mel))
        hidden = gelu(tower.conv2(hidden)).permute(0, 2, 1)
        frames = hidden.shape[1]
        positions = (offsets[:, None] // 2 + torch.arange(frames)[None]).clamp(max=1499)
        hidden = hidden + tower.embed_positions.weight[positions]
        kept = (lengths - 1) // 2 + 1
        mask = (torch.arange(frames)[None] < kept[:, None])[:, None, None, :].expand(-1, 1, frames, frames)
        for layer in tower.layers:
            hidden = layer(hidden, mask)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        if frames % 2:
            hidden = hidden[:, :-1]
        pooled = tower.avg_pooler(hidden.permute(0, 2, 1)).permute(0, 2, 1)
        return self.model.model.multi_modal_projector(tower.layer_norm(pooled)), (kept - 2) // 2 + 1

    def sequence(self, item, audio_tokens):
        """Token ids, labels and positions of an item."""
        prefix = self.token_ids(item.prefix)
        suffix = self.token_ids(item.suffix) if item.suffix else []
        answer = self.token_ids(item.answer) + [self.ids["<|im_end|>"]]
        # Positions as in the whole window that the clip is thought to lie in.
        before = len(prefix) + item.offset // 4
        after = len(prefix) + max((item.window or 0) // 4, item.offset // 4 + audio_tokens)
        positions = list(range(len(prefix))) + [before + j for j in range(audio_tokens)]
        positions += range(after, after + len(suffix) + len(answer))
        tokens = prefix + [self.ids["<|AUDIO|>"]] * audio_tokens + suffix + answer
        labels = [-100] * (len(tokens) - len(answer)) + answer
        return tokens, labels, positions

    def batch(self, items, counts):
        """Ids, labels, mask and positions of items, padded on the right."""
        torch = self.torch
        counts = iter(counts.tolist())
        rows = [self.sequence(item, 0 if item.features is None else next(counts)) for item in items]
        shape = (len(rows), max(len(tokens) for tokens, _, _ in rows))
        ids = torch.full(shape, self.ids["<|endoftext|>"])
        labels = torch.full(shape, -100)
        mask = torch.zeros(shape, dtype=torch.long)
        positions = torch.zeros(shape, dtype=torch.long)
        for row, (tokens, wanted, places) in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            labels[row, : len(wanted)] = torch.tensor(wanted)
            mask[row, : len(tokens)] = 1
            positions[row, : len(places)] = torch.tensor(places)
        return ids, labels, mask, positions

    def loss(self, items):
        """The loss of a batch; every item weighs with the square root of its answer's length."""
        import numpy as np

        torch = self.torch
        cross_entropy = torch.nn.functional.cross_entropy
        spoken = [item for item in items if item.features is not None]
        lengths = torch.tensor([item.features.shape[1] for item in spoken])
        frames = int(lengths.max()) + 4
        frames += frames % 2
        mel = np.zeros((len(spoken), 128, frames), np.float32)
        for row, item in enumerate(spoken):
            mel[row] = item.features.min()
            mel[row, :, : item.features.shape[1]] = item.features
        with torch.autocast("cpu", torch.bfloat16, enabled=self.args.bf16):
            offsets = torch.tensor([item.offset for item in spoken])
            audio, counts = self.encode(torch.from_numpy(mel), lengths, offsets)
            real = torch.arange(audio.shape[1])[None] < counts[:, None]
            ids, labels, mask, positions = self.batch(items, counts)
            embeds = self.model.get_input_embeddings()(ids)
            places = (ids == self.ids["<|AUDIO|>"])[..., None]
            embeds = embeds.masked_scatter(places, audio[real].to(embeds.dtype))
            hidden = self.model.model.language_model(
                inputs_embeds=embeds, attention_mask=mask, position_ids=positions, use_cache=False
            ).last_hidden_state
            asked = labels[:, 1:] != -100
            logits = self.model.lm_head(hidden[:, :-1][asked]).float()
        wanted = labels[:, 1:][asked]
        row = asked.nonzero()[:, 0]
        weight = 1 / torch.bincount(row, minlength=len(items)).float()[row].sqrt()
        loss = (cross_entropy(logits, wanted, reduction="none") * weight).sum() / weight.sum()

        mean = (audio.float() * real[..., None]).sum(1) / counts[:, None]
        for name, head in self.heads.items():
            rows = [row for row, item in enumerate(spoken) if name in item.targets]
            if rows:
                found = head(mean[rows])
                targets = torch.tensor([spoken[row].targets[name] for row in rows])
                share = (0.3 if name == "g" else 1) * len(rows) / len(spoken)
                loss = loss + self.mix["aux"] * share * cross_entropy(found, targets)
                self.note("~" + name, float((found.argmax(-1) == targets).float().mean()), 30)
        right = (logits.argmax(-1) == wanted).float()
        for index, item in enumerate(items):
            self.note(item.kind, float(right[row == index].min()), 150)
        return loss

    def note(self, name, value, keep):
        """Keeps the last values of a statistic."""
        values = self.stats.setdefault(name, [])
        values.append(value)
        del values[:-keep]

    def step(self, step):
        """Gradients of one step; returns the loss of its main batch."""
        mix, samples = self.mix, self.samples
        rng = samples.rng
        self.optimizer.zero_grad()
        items = [samples.fact() for _ in range(mix["fact"])]
        items += [samples.phrase(False) for _ in range(mix["window"])]
        items += [samples.text() for _ in range(mix["text"])]
        items += [samples.written_passage() for _ in range(mix["mc_text"])]
        loss = self.loss(items)
        loss.backward()
        if mix["passage"] and step % 2 == 0:
            items = [
                samples.passage(rng.choice(["eng", "eng", "spa"]), rng.random() < mix["one_sentence"])
                for _ in range(mix["passage"])
            ]
            (0.5 * self.loss(items)).backward()
        if mix["long"] and step % 4 == 1:
            (0.4 * self.loss([samples.phrase(True) for _ in range(mix["long"])])).backward()
        return loss.item()

    def share_gradients(self, processes, clock):
        """Averages the gradients over the processes; the last element carries the clock of process 0."""
        import torch.distributed as distributed

        torch = self.torch
        parts = [(torch.zeros(p.shape) if p.grad is None else p.grad).reshape(-1) for p in self.parameters]
        flat = torch.cat([*parts, torch.tensor([clock * processes])])
        distributed.all_reduce(flat)
        flat /= processes
        at = 0
        for parameter in self.parameters:
            parameter.grad = flat[at : at + parameter.numel()].view(parameter.shape)
            at += parameter.numel()
        return float(flat[-1])


def train(args):
    """Trains until the time is over, in `args.procs` processes."""
    rank = 0
    if args.procs > 1:
        os.makedirs(args.work, exist_ok=True)
        meeting = os.path.abspath(f"{args.work}/ddp_{os.getpid()}")
        for other in range(1, args.procs):  # fork before torch is loaded
            if os.fork() == 0:
                rank = other
                break
        import torch.distributed as distributed

        init = f"file://{meeting}"
        distributed.init_process_group("gloo", init_method=init, rank=rank, world_size=args.procs)
    import numpy as np
    import torch

    from demo_model import save

    trainer = Trainer(args, rank)
    count = sum(p.numel() for p in trainer.model.parameters())
    print("parameters", count, "vocabulary", trainer.model.config.text_config.vocab_size, flush=True)
    start = time.time()
    step, done, losses = 0, 0.0, []
    while done <= 1:
        mix = trainer.mix
        if args.mix and step % 20 == 0:
            with open(args.mix) as file:
                mix.update(json.load(file))
        trainer.samples.augment = mix["aug"]
        fall = 1 if done < mix["hold"] else max(0.03, 1 - (done - mix["hold"]) / (1 - mix["hold"]))
        rate = mix["lr"] * min(1, (step + 1) / 60) * fall
        for group in trainer.optimizer.param_groups:
            group["lr"] = rate
        losses.append(trainer.step(step))
        clock = (time.time() - start) / 60 / args.minutes
        done = trainer.share_gradients(args.procs, clock if rank == 0 else 0.0) if args.procs > 1 else clock
        torch.nn.utils.clip_grad_norm_(trainer.parameters, 1.0)
        trainer.optimizer.step()
        step += 1
        if rank:
            continue
        if step % 100 == 0 or step in (10, 30):
            right = {name: round(float(np.mean(values)), 2) for name, values in sorted(trainer.stats.items())}
            minutes = f"{done * args.minutes:.1f}min"
            print(step, minutes, f"loss {np.mean(losses[-100:]):.3f}", f"lr {rate:.1e}", right, flush=True)
        if step % 250 == 0:
            save(trainer.model, args.model, trainer.ids)
    if rank:
        os._exit(0)
    save(trainer.model, args.model, trainer.ids)
    print("saved after", step, "steps", round((time.time() - start) / 60, 1), "min")


def data(args):
    """Speaks the training clips."""
    from demo_speech import make_training_clips

    make_training_clips(args.work)


def sets(args):
    """Speaks the test sets."""
    from demo_speech import make_test_sets

    make_test_sets(args.demo)


def evaluate(args):
    """Writes the expected answers."""
    from demo_eval import expected

    expected(args.model, args.demo, args.out, load_prompts(args.prompts), args.threads)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = dict(data=data, train=train, sets=sets, eval=evaluate)
    parser.add_argument("command", choices=commands)
    parser.add_argument("--work", default="work", help="folder of the training clips (default: work)")
    parser.add_argument("--model", help="folder of the model; training writes to it")
    parser.add_argument("--demo", default="demo", help="folder of the test sets (default: demo)")
    parser.add_argument("--out", default="expected.json", help="file of the expected answers")
    parser.add_argument("--prompts", help="TOML file of other prompts: speech_full, text_system, text_user")
    parser.add_argument("--minutes", type=float, default=35.0, help="how long to train")
    parser.add_argument("--threads", type=int, default=1, help="threads a process")
    parser.add_argument("--procs", type=int, default=2, help="processes that train together")
    parser.add_argument("--init", help="folder of a model to start from")
    parser.add_argument("--mix", help="JSON file that changes the mixture of items while training")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16 while training")
    for name, default in (
        ("vocab", 1500),
        ("enc-dim", 128),
        ("enc-layers", 3),
        ("dec-dim", 128),
        ("dec-layers", 4),
        ("inter", 320),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"size of the model ({default})")
    args = parser.parse_args()
    if args.command in ("train", "eval") and not args.model:
        parser.error(f"{args.command} needs --model; the checked-in one is demo/model")
    commands[args.command](args)


if __name__ == "__main__":
    main()
