#!/usr/bin/env python3
"""`lorica merge` against the unmerged adapter: writes the merged folder in f32 and compares the
log-probabilities of some prompts, by transformers if it can be imported, else by Lorica itself on
the written folder, with those of Lorica's dynamic path in fp32.

  check_merge.py --lorica PATH --model FOLDER_OR_GGUF --adapters FOLDER [--tolerance 2e-4] [--tokenizer FOLDER]
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import tempfile


def rate(lorica, model, prompts, name, *flags):
    """Log-probabilities of the prompts' tokens by Lorica in fp32."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                  "body": {"model": name, "prompt": p, "max_tokens": 0, "echo": True,
                           "logprobs": 0}} for i, p in enumerate(prompts)]
        source = pathlib.Path(folder, "in.jsonl")
        out = pathlib.Path(folder, "out.jsonl")
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        subprocess.run([lorica, "run-batch", str(model), "-i", str(source), "-o", str(out),
                        "--dtype", "float32", "--served-model-name", "base", *flags], check=True,
                       stderr=subprocess.DEVNULL)
        answers = {}
        for line in out.read_text().splitlines():
            line = json.loads(line)
            choice = line["response"]["body"]["choices"][0]
            answers[int(line["custom_id"])] = choice["logprobs"]["token_logprobs"][1:]
        return [answers[i] for i in range(len(prompts))]


def rate_by_transformers(model, prompts):
    import torch
    from transformers import AutoModelForCausalLM
    net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    rated = []
    with torch.no_grad():
        for prompt in prompts:
            rows = torch.log_softmax(net(torch.tensor([prompt])).logits[0].double(), -1)
            rated.append([rows[i, t].item() for i, t in enumerate(prompt[1:])])
    return rated


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lorica", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapters", required=True, type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=2e-4)
    parser.add_argument("--tokenizer", type=pathlib.Path,
                        help="a folder whose tokenizer Lorica takes where the merged has none")
    args = parser.parse_args()
    try:
        import transformers  # noqa: F401
        judge, rated_by = "transformers", rate_by_transformers
    except ImportError:
        judge = "lorica on the written folder"
        rated_by = lambda model, prompts: rate(args.lorica, model, prompts, "base")
    worst = 0.0
    for adapter in sorted(args.adapters.iterdir()):
        with tempfile.TemporaryDirectory() as folder:
            merged = pathlib.Path(folder, "merged")
            subprocess.run([args.lorica, "merge", args.model, str(adapter), str(merged)],
                           check=True)
            if args.tokenizer and not (merged / "tokenizer.json").exists():
                shutil.copy(args.tokenizer / "tokenizer.json", merged)
            vocab = json.loads((merged / "config.json").read_text())["vocab_size"]
            rng = random.Random(4)
            prompts = [[rng.randrange(vocab) for _ in range(n)] for n in (2, 17, 60)]
            theirs = rated_by(str(merged), prompts)
        ours = rate(args.lorica, args.model, prompts, adapter.name, "--adapters",
                    str(args.adapters))
        base = rate(args.lorica, args.model, prompts, "base")
        far = max(abs(a - b) for x, y in zip(ours, theirs) for a, b in zip(x, y))
        moved = max(abs(a - b) for x, y in zip(ours, base) for a, b in zip(x, y))
        print(f"{adapter.name}: merged (by {judge}) and unmerged differ by {far:.2e} at most; "
              f"the adapter moves the base by {moved:.2e}")
        if moved < 100 * far:
            raise SystemExit("FAIL: the adapter hardly acts; nothing is shown")
        worst = max(worst, far)
    if worst > args.tolerance:
        raise SystemExit(f"FAIL: {worst:.2e} is over {args.tolerance:.0e}")
    print(f"ok: {worst:.2e} is within {args.tolerance:.0e}")


if __name__ == "__main__":
    main()
