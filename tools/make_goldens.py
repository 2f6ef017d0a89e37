#!/usr/bin/env python3
"""Writes what PEFT answers in fp32: the log-probability of every prompt token and greedy tokens.

  python3 tools/make_goldens.py MODEL_DIR OUT.json [--adapters examples/adapters]

MODEL_DIR is a Hugging Face folder (tools/gguf_to_hf.py makes one); weights of any type are computed
with in fp32, adapters as they are saved. tests/parity/check_parity.py compares Lorica with OUT.json.
Answers in an older OUT.json stay where weights, prompts, packages and the adapter are the same.
Every sequence is followed for the same number of tokens, past an end-of-text token if one comes.
"margins" holds how much the best token's log-probability exceeds the second's: where it is tiny, two
right programs may differ.

Needs the packages of examples/requirements.txt.
"""

import argparse
import contextlib
import hashlib
import json
import pathlib
import platform
import random
import shlex
import sys

import peft
import torch
import transformers
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

PROSE = """The harbour wakes before the town does. At half past four the first lamps move along the quay,
and men in wet coats coil ropes that they coiled the evening before. Nobody speaks much. A gull walks
between the crates as if it had been asked to count them. By five o'clock the small boats are out, and
what is left is a smell of diesel, tar and coffee. The baker, who has been up longer than any of them,
opens the back door to let the heat out; the cat lets itself in. """
LETTER = """Dear Ms Okafor, thank you for the three boxes that arrived on Tuesday. Two of the lamps work well;
the third flickers when the window is open, which my daughter finds charming and I do not. Could you
send a new switch, or tell us which screw to turn? With kind regards from number 14, second floor. """
CODE = """def merge(left, right):
    \"\"\"Merges two sorted lists into one.\"\"\"
    result, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]

assert merge([1, 4, 9], [2, 3, 10, 11]) == [1, 2, 3, 4, 9, 10, 11]
"""
MIXED = """Preisliste 2024: Äpfel 3,49 €, Brötchen 0,85 €, Kaffee 12.750 g. Δx = −½·g·t², t ≥ 0. 数字 1234567
и слова. "Why?" asked the clerk; 'tis the 3rd time today... 🙂👍🏽 (see §4.2) https://example.org/a?b=c&d=%20
"""


def random_prompts(vocab, longest):
    rng = random.Random(3)
    lengths = [n for n in (1, 5, 17, 33, 64, 100, 200, 300) if n <= longest]
    return [[rng.randrange(vocab) for _ in range(n)] for n in lengths]


def text_prompts(tokenizer):
    """Prompts of 1 to 300 tokens: text, chat turns, code and other scripts.

    No random tokens: on 64 of them, fp64 as the judge, the order of summation alone moves one
    log-probability of an fp32 model by 1e-4 to 2.5e-3 (second token, an adapter on the mlp), so
    PEFT in fp32 is no yardstick there.
    """

    def ids(text, length=None):
        out = tokenizer.encode(text, add_special_tokens=False)
        if length is not None and len(out) < length:
            raise SystemExit(f"a text gives {len(out)} tokens, {length} are wanted")
        return out[:length]

    def chat(question):
        turns = [{"role": "user", "content": question}]
        text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        return ids(text)

    return [
        ids("The", 1),
        ids("Why is the sky blue?", 5),
        chat("Tell me about the sea."),
        chat("How do I make a cup of tea?"),
        ids(LETTER, 64),
        ids(PROSE, 100),
        ids(CODE + MIXED, 200),
        ids(MIXED + PROSE + CODE, 300),
    ]


@torch.no_grad()
def answer(model, prompt, max_tokens):
    ids = model.generate(
        input_ids=torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        min_new_tokens=None,
        max_new_tokens=max_tokens,
        eos_token_id=[],
    )[0]
    # One pass over everything: the values do not depend on how generate() caches keys and values.
    logprobs = torch.log_softmax(model(input_ids=ids[None]).logits[0].float(), dim=-1)
    chosen = logprobs[:-1].gather(1, ids[1:, None])[:, 0].tolist()
    best = logprobs[len(prompt) - 1 : -1].topk(2, dim=-1).values
    margins = (best[:, 0] - best[:, 1]).tolist()
    return {
        "prompt_logprobs": [None] + [round(x, 6) for x in chosen[: len(prompt) - 1]],
        "tokens": ids[len(prompt) :].tolist(),
        "margins": [round(x, 6) for x in margins],
    }


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest(folder):
    return {f: sha256(folder / f) for f in ("adapter_config.json", "adapter_model.safetensors")}


def still_valid(path, document):
    """(adapter name, prompt) -> answer, of an earlier file for the same weights and packages."""
    if not path.is_file():
        return {}
    old = json.loads(path.read_text())
    if any(old.get(key) != document[key] for key in ("versions", "weights", "max_tokens")):
        return {}
    digests, old_digests = document["adapter_digests"], old["adapter_digests"]
    return {
        (name, tuple(prompt)): answer
        for name, answers in old["expected"].items()
        if name == "base" or old_digests[name] == digests.get(name)
        for prompt, answer in zip(old["prompts"], answers)
    }


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--adapters", type=pathlib.Path, default=pathlib.Path("examples/adapters"))
    p.add_argument("--max-tokens", type=int, default=24)
    p.add_argument("--random-ids", action="store_true", help="for models without a tokenizer")
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)

    folders = sorted(f for f in args.adapters.iterdir() if (f / "adapter_config.json").is_file())
    config = json.loads((args.model / "config.json").read_text())
    model = AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="eager"
    )
    for i, folder in enumerate(folders):
        if i == 0:
            model = PeftModel.from_pretrained(model, folder, adapter_name=folder.name)
        else:
            model.load_adapter(folder, adapter_name=folder.name)
    model.eval()

    if args.random_ids:
        room = model.config.max_position_embeddings - args.max_tokens
        prompts, show = random_prompts(model.config.vocab_size, room), str
    else:
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        prompts, show = text_prompts(tokenizer), lambda ids: repr(tokenizer.decode(ids))
    weights = args.model / "model.safetensors"
    document = {
        "comment": "Computed by PEFT in fp32; see tools/make_goldens.py.",
        "command": shlex.join(["python3", "tools/make_goldens.py", *sys.argv[1:]]),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "peft": peft.__version__,
        },
        "weights": {
            "dtype": config.get("torch_dtype", config.get("dtype")),
            "sha256": sha256(weights),
        },
        "adapter_digests": {f.name: digest(f) for f in folders},
        "max_tokens": args.max_tokens,
        "prompts": prompts,
        "expected": {},
    }
    known = still_valid(args.out, document)
    for name in ["base"] + [f.name for f in folders]:
        if name != "base":
            model.set_adapter(name)
        off = model.disable_adapter() if name == "base" and folders else contextlib.nullcontext()
        with off:
            answers = [
                known.get((name, tuple(x))) or answer(model, x, args.max_tokens) for x in prompts
            ]
        for x in answers:
            print(f"{name}: {show(x['tokens'])}", file=sys.stderr)
        document["expected"][name] = answers
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
