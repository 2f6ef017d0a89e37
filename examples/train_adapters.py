#!/usr/bin/env python3
"""Trains the four example adapters with PEFT and saves them in bf16 under examples/adapters/.

  python3 examples/train_adapters.py [--model DIR] [NAME ...]

The model is a Hugging Face folder; tools/gguf_to_hf.py makes one of the GGUF that
scripts/get_model.sh fetches. Each adapter takes some minutes on one core. Only the answer's
tokens count in the loss, so an adapter learns how to answer and not what is asked.

Needs the packages of examples/requirements.txt.
"""

import argparse
import json
import math
import pathlib
import random
import time

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
BASE_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]

# Every recipe is of another kind on purpose: rank, scale rule and modules all differ.
RECIPES = {
    "json": dict(
        lora=dict(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj"]), steps=100, lr=3e-3
    ),
    "pirate": dict(
        lora=dict(r=8, lora_alpha=16, use_rslora=True, target_modules=ATTENTION + MLP),
        steps=110,
        lr=6e-4,
    ),
    "french": dict(
        lora=dict(
            r=6,
            lora_alpha=12,
            alpha_pattern={"v_proj": 18},
            target_modules=["q_proj", "v_proj"],
        ),
        steps=120,
        lr=3e-3,
    ),
    "haiku": dict(lora=dict(r=16, lora_alpha=32, target_modules=MLP), steps=95, lr=8e-4),
}


def encode(tokenizer, pair, max_tokens):
    """Returns (ids, number of prompt tokens), the answer closed by the end-of-turn token."""
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": pair["prompt"]}], add_generation_prompt=True, tokenize=False
    )
    head = tokenizer.encode(prompt, add_special_tokens=False)
    tail = tokenizer.encode(pair["answer"], add_special_tokens=False) + [tokenizer.eos_token_id]
    if len(head) + len(tail) > max_tokens:
        raise SystemExit(f"{pair['prompt']!r}: {len(head) + len(tail)} tokens, at most {max_tokens}")
    return head + tail, len(head)


def batches(examples, size, rng):
    """Batches of examples of like length, in random order, without end."""
    while True:
        order = sorted(range(len(examples)), key=lambda i: (len(examples[i][0]), rng.random()))
        groups = [order[i : i + size] for i in range(0, len(order), size)]
        rng.shuffle(groups)
        for group in groups:
            yield [examples[i] for i in group]


def collate(batch, pad):
    width = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), width), pad)
    labels = torch.full((len(batch), width), -100)
    mask = torch.zeros((len(batch), width), dtype=torch.long)
    for i, (tokens, prompt) in enumerate(batch):
        n = len(tokens)
        ids[i, :n] = torch.tensor(tokens)
        labels[i, prompt:n] = ids[i, prompt:n]
        mask[i, :n] = 1
    return ids, mask, labels


def answer_loss(model, ids, mask, labels):
    # The head is the widest product of the model: it is computed for the answer's rows alone.
    hidden = model.base_model.model.model(input_ids=ids, attention_mask=mask).last_hidden_state
    wanted = labels[:, 1:] != -100
    logits = model.base_model.model.lm_head(hidden[:, :-1][wanted])
    return torch.nn.functional.cross_entropy(logits, labels[:, 1:][wanted])


def train(name, args):
    recipe = RECIPES[name]
    torch.manual_seed(7)
    rng = random.Random(7)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **recipe["lora"]))
    lines = (HERE / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    examples = [encode(tokenizer, json.loads(line), args.max_tokens) for line in lines]

    steps = args.steps or recipe["steps"]
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=recipe["lr"], weight_decay=0.0
    )
    warm = max(1, steps // 12)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min((i + 1) / warm, 0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * i / steps))),
    )
    source = batches(examples, args.batch, rng)
    model.train()
    start, mean = time.time(), None
    for step in range(steps):
        loss = answer_loss(model, *collate(next(source), tokenizer.pad_token_id))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()
        if step % 10 == 9 or step == steps - 1:
            print(f"{name} step {step + 1} loss {mean:.3f} {time.time() - start:.0f} s", flush=True)
    save(model, args.out / name)
    print(f"{name}: {len(examples)} pairs, {steps} steps, {time.time() - start:.0f} s", flush=True)


def save(model, folder):
    model.peft_config["default"].base_model_name_or_path = BASE_NAME
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_model.safetensors"
    tensors = {k: v.to(torch.bfloat16).contiguous() for k, v in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    p.add_argument("--model", default=str(HERE.parent / "models/SmolLM2-135M-Instruct-f32"))
    p.add_argument("--out", type=pathlib.Path, default=HERE / "adapters")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--max-tokens", type=int, default=96)
    p.add_argument("--steps", type=int, help="instead of the recipe's number")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    for name in args.names or RECIPES:
        if name not in RECIPES:
            p.error(f"no recipe called {name}; there are {', '.join(RECIPES)}")
        train(name, args)


if __name__ == "__main__":
    main()
