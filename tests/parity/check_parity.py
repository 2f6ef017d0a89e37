#!/usr/bin/env python3
"""Compares Lorica with PEFT: the goldens of tools/make_goldens.py against one mixed run-batch.

  python3 tests/parity/check_parity.py --lorica build/release/cli/lorica \\
      --model models/SmolLM2-135M-Instruct.gguf --adapters examples/adapters \\
      --goldens tests/parity/goldens/smollm2_gguf_f32.json

Greedy tokens must be PEFT's, and prompt log-probabilities lie within --tolerance. Where PEFT's own
best two tokens are nearer than --margin another choice is right too; that sequence is followed no
further. Needs Python's standard library alone. Exit: 0 equal, 1 not, 2 usage.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

BASE = "base"


def load(path):
    """The goldens; those of the tiny models (tools/make_tiny_models.py) are brought to one form."""
    goldens = json.loads(path.read_text())
    if "variants" not in goldens:
        return goldens
    expected = {}
    for name, variant in goldens["variants"].items():
        rows = [
            {"prompt_logprobs": [None] + x, "tokens": [], "margins": []}
            for x in variant["logprobs"]
        ]
        for index, greedy in zip(goldens["greedy_prompts"], variant["greedy"]):
            rows[index].update(tokens=greedy["tokens"], margins=greedy["gaps"])
        expected[name] = rows
    longest = max(len(row["tokens"]) for rows in expected.values() for row in rows)
    return {"prompts": goldens["prompts"], "max_tokens": longest, "expected": expected}


def requests(goldens):
    """One line for every (adapter, prompt), adapters alternating, so that steps are mixed."""
    for index, prompt in enumerate(goldens["prompts"]):
        for name in goldens["expected"]:
            yield {
                "custom_id": f"{name}/{index}",
                "method": "POST",
                "url": "/v1/completions",
                "body": {
                    "model": name,
                    "prompt": prompt,
                    "max_tokens": goldens["max_tokens"],
                    "temperature": 0,
                    "logprobs": 1,
                    "echo": True,
                    "ignore_eos": True,
                    "return_token_ids": True,
                },
            }


def run_batch(args, lines, work):
    source, target = work / "in.jsonl", work / "out.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [args.lorica, "run-batch", args.model, "-i", str(source), "-o", str(target)]
    command += ["--dtype", args.dtype, "--served-model-name", BASE]
    if args.adapters:
        command += ["--adapters", args.adapters]
    done = subprocess.run(command + args.extra, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.stdout.write(done.stdout.decode(errors="replace"))
        raise SystemExit(f"FAIL: {' '.join(command)} left with {done.returncode}")
    answers = {}
    for line in target.read_text().splitlines():
        record = json.loads(line)
        answers[record["custom_id"]] = record
    return answers


def body_of(record):
    """Returns (choice, None) or (None, why there is none)."""
    if record is None:
        return None, "no output line"
    if record.get("error"):
        return None, f"error {record['error']}"
    response = record["response"]
    if response["status_code"] != 200:
        return None, f"status {response['status_code']}: {json.dumps(response['body'])[:200]}"
    return response["body"]["choices"][0], None


def compare(choice, prompt, want, margin):
    """Returns (worst log-probability difference, tokens compared, near ties, reasons)."""
    reasons, worst, ties = [], 0.0, 0
    if choice.get("prompt_token_ids", prompt) != prompt:
        reasons.append("prompt_token_ids are not the prompt's")
    got = choice["logprobs"]["token_logprobs"][: len(prompt)]
    if len(got) != len(prompt) or got[0] is not None:
        return worst, 0, ties, reasons + ["token_logprobs do not start with null and the prompt"]
    for position, (a, b) in enumerate(zip(got, want["prompt_logprobs"])):
        if b is None:
            continue
        if a is None or a != a:
            return worst, 0, ties, reasons + [f"prompt token {position}: log-probability {a}"]
        worst = max(worst, abs(a - b))
    tokens = choice["token_ids"]
    for position, (b, gap) in enumerate(zip(want["tokens"], want["margins"])):
        a = tokens[position] if position < len(tokens) else None
        if a != b:
            if gap < margin and a is not None:
                return worst, position, 1, reasons
            reasons.append(f"token {position}: {a}, PEFT has {b} (its best two are {gap} apart)")
            return worst, position, ties, reasons
    return worst, len(want["tokens"]), ties, reasons


def stale(goldens, adapters):
    for name, files in goldens.get("adapter_digests", {}).items():
        for file, digest in files.items():
            path = pathlib.Path(adapters or ".") / name / file
            if not path.is_file():
                yield f"{path} is missing"
            elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                yield f"{path} has changed since the goldens were made"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--lorica", required=True, help="the program")
    p.add_argument("--model", required=True)
    p.add_argument("--adapters")
    p.add_argument("--goldens", required=True, type=pathlib.Path)
    p.add_argument("--dtype", default="float32")
    p.add_argument("--tolerance", type=float, default=2e-4, help="of prompt log-probabilities")
    p.add_argument("--margin", type=float, default=1e-3, help="below it PEFT itself is undecided")
    p.add_argument("extra", nargs="*", help="further arguments of run-batch, after --")
    args = p.parse_args()

    goldens = load(args.goldens)
    failures = list(stale(goldens, args.adapters))
    lines = list(requests(goldens))
    with tempfile.TemporaryDirectory() as work:
        answers = run_batch(args, lines, pathlib.Path(work))

    print(f"{args.goldens}: {len(lines)} requests in one batch, {args.dtype}")
    print(f"{'adapter':<12}{'prompts':>8}{'max |Δ logprob|':>18}{'tokens equal':>14}{'near ties':>11}")
    for name, wanted in goldens["expected"].items():
        worst, equal, ties = 0.0, 0, 0
        for index, (prompt, want) in enumerate(zip(goldens["prompts"], wanted)):
            where = f"{name}/{index}"
            choice, why = body_of(answers.get(where))
            if choice is None:
                failures.append(f"{where}: {why}")
                continue
            delta, tokens, near, reasons = compare(choice, prompt, want, args.margin)
            worst, equal, ties = max(worst, delta), equal + tokens, ties + near
            failures += [f"{where}: {reason}" for reason in reasons]
            if delta > args.tolerance:
                failures.append(f"{where}: log-probability off by {delta:.2e}")
        print(f"{name:<12}{len(wanted):>8}{worst:>18.2e}{equal:>14}{ties:>11}")
    for failure in failures:
        print(f"FAIL {failure}")
    print("parity: " + ("FAILED" if failures else f"ok (tolerance {args.tolerance:g})"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
