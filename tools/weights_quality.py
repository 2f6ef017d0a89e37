#!/usr/bin/env python3
"""What --weights and --kv-cache-dtype cost in quality: perplexity of a public text and greedy
agreement, against bf16.

The text is that of the licences in Debian's base-files (/usr/share/common-licenses) unless --text
names others. It is cut into windows, each an echoed prompt of run-batch with its log-probabilities;
perplexity is over all tokens but the first of each window. Greedy agreement is over the tokens of
the answers to --prompts beginnings of paragraphs: how many of them are equal before the first that
differs, and how many answers are equal to the end. Needs Python's standard library alone.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

LICENCES = "/usr/share/common-licenses"


def read_texts(paths):
    found = []
    for path in map(pathlib.Path, paths):
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        # Links name the same text again.
        found += [f.read_text(errors="replace") for f in files if not f.is_symlink()]
    return found


def windows(texts, characters, count):
    cut = [t[i : i + characters] for t in texts for i in range(0, len(t) - characters, characters)]
    step = max(1, len(cut) // count)
    return cut[::step][:count]


def beginnings(texts, count):
    paragraphs = [" ".join(p.split()) for t in texts for p in t.split("\n\n")]
    long = [p[:160].rsplit(" ", 1)[0] for p in paragraphs if len(p) > 200]
    return long[:: max(1, len(long) // count)][:count]


def line_of(name, body):
    return {"custom_id": name, "method": "POST", "url": "/v1/completions", "body": body}


def run(args, weights, kv, lines):
    with tempfile.TemporaryDirectory() as work:
        source, target = pathlib.Path(work) / "in.jsonl", pathlib.Path(work) / "out.jsonl"
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [args.lorica, "run-batch", args.model, "-i", source, "-o", target]
        command += ["--dtype", args.dtype, "--weights", weights, "--served-model-name", "base"]
        command += ["--kv-cache-dtype", kv]
        subprocess.run([str(c) for c in command], check=True, stderr=subprocess.DEVNULL)
        records = map(json.loads, target.read_text().splitlines())
        return {r["custom_id"]: r["response"]["body"]["choices"][0] for r in records}


def perplexity(answers):
    logprobs = []
    for name, choice in answers.items():
        if name.startswith("w"):
            logprobs += choice["logprobs"]["token_logprobs"][1:]
    return math.exp(-sum(logprobs) / len(logprobs)), len(logprobs)


def agreement(base, other):
    equal = whole = total = 0
    for name in (n for n in base if n.startswith("p")):
        a, b = base[name]["token_ids"], other[name]["token_ids"]
        same = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))
        equal, total, whole = equal + same, total + len(a), whole + (same == len(a))
    return f"{100 * equal / total:5.1f} % of tokens before the first that differs, {whole} answers whole"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--lorica", required=True, help="the program")
    p.add_argument("--model", required=True)
    p.add_argument("--dtype", default="bfloat16")
    p.add_argument("--weights", action="append", help="to compare with bf16 (int8, q4, gguf)")
    p.add_argument("--kv-cache-dtype", action="append", help="to compare with auto (int8)")
    p.add_argument("--text", action="append", help="files or folders of text")
    p.add_argument("--windows", type=int, default=60)
    p.add_argument("--characters", type=int, default=2000, help="of a window")
    p.add_argument("--prompts", type=int, default=50)
    p.add_argument("--tokens", type=int, default=32, help="of an answer")
    args = p.parse_args()
    texts = read_texts(args.text or [LICENCES])
    scored = {"model": "base", "max_tokens": 0, "echo": True, "logprobs": 0, "temperature": 0}
    greedy = {"model": "base", "max_tokens": args.tokens, "temperature": 0, "ignore_eos": True}
    lines = [
        line_of(f"w{i}", {**scored, "prompt": w})
        for i, w in enumerate(windows(texts, args.characters, args.windows))
    ] + [
        line_of(f"p{i}", {**greedy, "prompt": b, "return_token_ids": True})
        for i, b in enumerate(beginnings(texts, args.prompts))
    ]
    base = run(args, "bf16", "auto", lines)
    want, tokens = perplexity(base)
    print(f"{tokens} tokens, {args.dtype}; {'bf16':5} perplexity {want:.4f}", flush=True)
    kinds = [(weights, "auto") for weights in args.weights or []]
    kinds += [("bf16", kv) for kv in args.kv_cache_dtype or []]
    for weights, kv in kinds or [("int8", "auto"), ("q4", "auto")]:
        got = run(args, weights, kv, lines)
        found, _ = perplexity(got)
        print(
            f"{weights:5} K/V {kv} perplexity {found:.4f} ({100 * (found / want - 1):+.3f} %); "
            f"greedy: {agreement(base, got)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
