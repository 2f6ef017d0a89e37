#!/usr/bin/env python3
"""Shows promise 1: a request's answer is the same, bit for bit, alone and in any mix of tenants.

  python3 tests/end_to_end/isolation.py --lorica build/release/cli/lorica \\
      --model models/SmolLM2-135M-Instruct.gguf --adapters examples/adapters [--full]

24 requests over the base and up to four adapters, prompts of 1 to 300 tokens, two with a common
prefix, some of repeated tokens, some sampled with a seed, are run by run-batch in many ways: all at
once, shuffled, alone, with other numbers of threads, sequences and tokens a step, with so few pages
that sequences are preempted, with speculation. The choices of every custom_id must be the same text
each time. Then an adapter whose finite weights overflow joins the batch, and nobody else's bits may
change.

Without --full: one dtype, the processor's best instruction set, a few ways that mix these. Answers are
compared within one dtype, instruction set and type of weights. Needs Python's standard library alone.
Exit: 0 equal, 1 not, 2 usage.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

BASE = "base"
LENGTHS = [1, 2, 300, 3, 5, 200, 7, 8, 64, 9, 255, 15, 16, 128, 17, 24, 31, 150, 33, 48, 65, 63, 257, 100]
PREFIX_PAIR, PREFIX_LENGTH = (5, 10), 120
MAX_TOKENS = 40
CPU_FLAGS = {"scalar": set(), "sse4": {"sse4_2"}, "avx2": {"avx2", "fma"}, "avx512": {"avx512f"}}


def read_config(model):
    path = pathlib.Path(model) / "config.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def adapter_names(folder):
    return sorted(p.parent.name for p in pathlib.Path(folder).glob("*/adapter_config.json"))[:4]


def make_requests(names, vocab, longest):
    rng = random.Random(11)
    tenants = [BASE] + names
    prompts = [[rng.randrange(vocab) for _ in range(min(n, longest))] for n in LENGTHS]
    # What a guess can be made of.
    for i in range(3, len(prompts), 5):
        prompts[i] = (prompts[i][:6] * len(prompts[i]))[: len(prompts[i])]
    first, second = PREFIX_PAIR
    shared = min(PREFIX_LENGTH, len(prompts[first]), len(prompts[second]))
    prompts[second][:shared] = prompts[first][:shared]
    lines = []
    for i, prompt in enumerate(prompts):
        tenant = tenants[i % len(tenants)]
        if i == second:
            tenant = tenants[first % len(tenants)]
        body = {
            "model": tenant,
            "prompt": prompt,
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "logprobs": 2,
        }
        if i % 3 == 0:
            body.update(temperature=1, seed=1000 + i)
        if i % 4 == 1:
            body.update(echo=True)
        lines.append(line_of(f"r{i:02}", body))
    return lines


def line_of(custom_id, body):
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/completions", "body": body}


def choices_of(record):
    """The choices as text in which every number stands as it was printed; None for an error."""
    if record.get("error") or record["response"]["status_code"] != 200:
        return None
    return json.dumps(record["response"]["body"]["choices"])


class Runner:
    def __init__(self, args, work):
        self.args, self.work, self.runs = args, work, 0
        self.preemptions = 0  # of the last run
        self.guessed, self.right = 0, 0  # likewise
        self.weights = "auto"
        self.kv = "auto"  # the type of K and V

    def __call__(self, lines, isa, dtype, flags=(), adapters=None):
        """Returns custom_id -> record, numbers kept as the text that was printed."""
        self.runs += 1
        source, target = self.work / "in.jsonl", self.work / "out.jsonl"
        target.unlink(missing_ok=True)
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [self.args.lorica, "run-batch", self.args.model, "-i", source, "-o", target]
        command += ["--dtype", dtype, "--served-model-name", BASE, "--weights", self.weights]
        command += ["--kv-cache-dtype", self.kv, *flags]
        adapters = adapters or self.args.adapters
        if adapters:
            command += ["--adapters", adapters]
        environment = dict(os.environ, LORICA_ISA=isa) if isa else None
        done = subprocess.run(
            [str(c) for c in command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=self.args.timeout,
        )
        if done.returncode != 0:
            sys.stdout.write(done.stdout.decode(errors="replace"))
            raise SystemExit(f"FAIL: exit {done.returncode} of {' '.join(map(str, command))}")
        said = re.search(rb"(\d+) preemptions", done.stdout)
        self.preemptions = int(said.group(1)) if said else 0
        said = re.search(rb"(\d+) tokens guessed, (\d+) of them right", done.stdout)
        self.guessed, self.right = map(int, said.groups()) if said else (0, 0)
        records = [
            json.loads(x, parse_float=str, parse_int=str, parse_constant=str)
            for x in target.read_text().splitlines()
        ]
        for record in records:
            if record.get("response"):
                record["response"]["status_code"] = int(record["response"]["status_code"])
        return {r["custom_id"]: r for r in records}


def differences(want, got):
    """Yields a sentence for every request of `got` whose choices are not those of `want`."""
    for name in sorted(got):
        a, b = choices_of(want[name]), choices_of(got[name])
        if a == b:
            continue
        if a is None or b is None:
            yield f"{name}: {json.dumps(got[name])[:300]}"
            continue
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        yield f"{name}: expected …{a[max(0, at - 40) : at + 24]}… found …{b[max(0, at - 40) : at + 24]}…"


def small_kv_bytes(config, dtype, kv):
    """Room for about half of all tokens, so that sequences are preempted."""
    if "num_hidden_layers" not in config:
        return "32M"
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    token = 2 * config["num_hidden_layers"] * (config.get("num_key_value_heads") or heads) * head_dim
    tokens = (sum(LENGTHS) + len(LENGTHS) * MAX_TOKENS) // 2
    kv = dtype if kv == "auto" else kv
    element = {"float32": 4, "int8": 1 + 4 / head_dim}.get(kv, 2)
    return str(max(1, int(tokens * token * element) // 1024)) + "K"


def small_kv_bytes_guessing(config, dtype, kv):
    """The same with speculation: answers end in fewer steps, so fewer pages are wanted at once."""
    if "num_hidden_layers" in config:
        return small_kv_bytes(config, dtype, kv)
    return "18M" if dtype == "float32" else "9M"  # the longest request alone needs 16 and 8


def ways(lines, config, dtype, kv, full):
    """(name, lists of lines to run one after another, flags) for each way to run the requests.

    Without `full` one way holds several changes: a difference shows, and --full says whose it is.
    """
    shuffled = random.Random(5).sample(lines, len(lines))
    small = small_kv_bytes(config, dtype, kv)
    smaller = small_kv_bytes_guessing(config, dtype, kv)
    guess = ["--speculate", "ngram"]
    yield f"--kv-bytes {small}", [shuffled], ["--kv-bytes", small, "--max-num-seqs", 32]
    few = [*guess, "--kv-bytes", smaller, "--max-num-seqs", 32]
    yield f"--speculate ngram --kv-bytes {smaller}", [shuffled], few
    if not full:
        yield "alone", [[lines[2]], [lines[5]], [lines[12]]], []
        mixed = ["--threads", 3, "--max-num-batched-tokens", 16]
        yield "shuffled, 3 threads, 16 tokens a step", [shuffled], mixed
        mixed = ["--threads", 1, "--max-num-seqs", 3]
        yield "1 thread, 3 sequences", [lines], mixed
        return
    yield "shuffled", [shuffled], []
    yield "alone", [[x] for x in lines], []
    for n in (1, 2, 3):
        yield f"--threads {n}", [lines], ["--threads", n]
    for n in (1, 2, 4, 8, 16, 32):
        yield f"--max-num-seqs {n}", [lines], ["--max-num-seqs", n]
    for n in (16, 64, 512):
        yield f"--max-num-batched-tokens {n}", [lines], ["--max-num-batched-tokens", n]
    yield "--speculate ngram", [lines], guess
    yield "--speculate ngram, in turn", [lines], [*guess, "--max-num-seqs", 3, "--threads", 3]


def read_shapes(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    return {k: v["shape"] for k, v in header.items() if k != "__metadata__"}


def write_overflowing_adapter(adapters, names, target):
    """Takes the shapes of one pair and fills it with huge, finite numbers.

    A pair of a value projection if there is one: what overflows then lies in pages that the next
    tenant gets.
    """
    shapes, first = {}, []
    for name in names:
        shapes = read_shapes(pathlib.Path(adapters) / name / "adapter_model.safetensors")
        pairs = sorted(k for k in shapes if k.endswith(".lora_A.weight"))
        first = [k for k in pairs if "v_proj" in k] or pairs
        if "v_proj" in first[0]:
            break
    tensors = [first[0], first[0].replace(".lora_A.", ".lora_B.")]
    out, blob = {}, b""
    for name in tensors:
        shape = shapes[name]
        values = struct.pack("<f", 3e37) * (shape[0] * shape[1])
        offsets = [len(blob), len(blob) + len(values)]
        out[name] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        blob += values
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    target.mkdir()
    (target / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + blob)
    rank = shapes[tensors[0]][0]
    module = tensors[0].split(".lora_")[0].rsplit(".", 1)[1]
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": [module]}
    (target / "adapter_config.json").write_text(json.dumps(config))


def overflow_lines(lines, vocab):
    """The tenant that overflows, before, between and after the others."""
    rng, mixed = random.Random(17), []
    for i, line in enumerate(lines):
        if i % 4 == 0:
            body = {"model": "overflow", "prompt": [rng.randrange(vocab) for _ in range(40)]}
            mixed.append(line_of(f"overflow{i}", {**body, "max_tokens": 8, "temperature": 0}))
        mixed.append(line)
    return mixed


def check_overflow(runner, lines, vocab, isa, dtype, flags, want, folder):
    got = runner(overflow_lines(lines, vocab), isa, dtype, flags, folder)
    bad = sum(1 for k, r in got.items() if k.startswith("overflow") and choices_of(r) is None)
    others = {k: r for k, r in got.items() if not k.startswith("overflow")}
    failures = list(differences(want, others))
    if len(others) != len(lines):
        failures.append(f"{len(others)} answers of the other tenants, expected {len(lines)}")
    if bad == 0:
        failures.append("no request of the overflowing adapter ended with an error")
    return failures


def report(isa, dtype, runner, way, failures):
    said = "ok" if not failures else "FAILED"
    print(f"{isa or 'best':<8}{dtype:<10}{runner.weights:<6}{runner.kv:<9}{way:<42}{said}", flush=True)
    for failure in failures:
        print(f"  {failure}")
    return len(failures)


def check_all(args, runner, isa, dtype):
    config = read_config(args.config or args.model)
    vocab = args.vocab or config.get("vocab_size", 1000)
    longest = config.get("max_position_embeddings", 8192) - MAX_TOKENS
    lines = make_requests(adapter_names(args.adapters), vocab, longest)
    want = runner(lines, isa, dtype)
    answered = [k for k, r in want.items() if choices_of(r) is not None]
    failures = [f"{k}: {json.dumps(r)[:300]}" for k, r in want.items() if choices_of(r) is None]
    if len(answered) != len(lines):
        failures.append(f"{len(answered)} of {len(lines)} requests were answered")
    failed = report(isa, dtype, runner, "all at once", failures)
    if failed:
        return failed
    for way, parts, flags in ways(lines, config, dtype, runner.kv, args.full):
        failures = []
        for part in parts:
            got = runner(part, isa, dtype, flags)
            missing = {x["custom_id"] for x in part} - got.keys()
            failures += [f"{x}: no output line" for x in sorted(missing)]
            failures += differences(want, got)
        if "--kv-bytes" in way and runner.preemptions == 0:
            failures.append("nothing was preempted, so this way shows nothing")
        if "--speculate" in way and not 0 < runner.right < runner.guessed:
            failures.append(f"{runner.right} of {runner.guessed} guesses were right: shows nothing")
        failed += report(isa, dtype, runner, way, failures)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "adapters"
        names = adapter_names(args.adapters)
        folder.mkdir()
        for name in names:
            shutil.copytree(pathlib.Path(args.adapters) / name, folder / name)
        write_overflowing_adapter(args.adapters, names, folder / "overflow")
        small = ["--kv-bytes", small_kv_bytes(config, dtype, runner.kv)]
        overflows = [("overflowing tenant, few pages", small)]
        if args.full:
            overflows.append(("overflowing tenant", []))
        for way, flags in overflows:
            failures = check_overflow(runner, lines, vocab, isa, dtype, flags, want, folder)
            failed += report(isa, dtype, runner, way, failures)
    return failed


def runnable_isas():
    flags = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split(":", 1)[1].split())
            break
    return [isa for isa, needs in CPU_FLAGS.items() if needs <= flags]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--lorica", required=True, help="the program")
    p.add_argument("--model", required=True)
    p.add_argument("--adapters", required=True, help="a folder with at least one PEFT adapter")
    p.add_argument("--full", action="store_true", help="every way, dtype and instruction set")
    p.add_argument("--isa", action="append", help="only these (scalar, sse4, avx2, avx512, all)")
    p.add_argument("--dtype", action="append", help="only these (float32, bfloat16)")
    p.add_argument("--weights", action="append", help="of the base (auto, bf16, int8, q4, gguf)")
    p.add_argument("--kv-cache-dtype", action="append", help="of K and V (auto, int8, …)")
    p.add_argument("--config", help="a folder whose config.json has the shapes of a GGUF file")
    p.add_argument("--vocab", type=int, help="token ids stay below it")
    p.add_argument("--timeout", type=float, default=1800, help="seconds for one run")
    args = p.parse_args()
    if not adapter_names(args.adapters):
        p.error(f"{args.adapters}: no adapter folder in it")
    every = args.full and not args.isa or args.isa == ["all"]
    isas = runnable_isas() if every else args.isa or [None]
    dtypes = args.dtype or (["float32", "bfloat16"] if args.full else ["float32"])
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(args, pathlib.Path(work))
        for isa in isas:
            for dtype in dtypes:
                for runner.weights in args.weights or ["auto"]:
                    for runner.kv in args.kv_cache_dtype or ["auto"]:
                        failed += check_all(args, runner, isa, dtype)
    print(f"isolation: {'FAILED' if failed else 'ok'} ({runner.runs} runs)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
