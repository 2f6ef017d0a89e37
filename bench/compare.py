#!/usr/bin/env python3
"""Lorica against other servers: the same requests and adapters, in turn, on one machine.

  bench/compare.py --lorica build/release/cli/lorica --model DIR --adapters DIR \\
      --peer 'peft=/venv/bin/python bench/peers/peft_worker.py {model} {adapters}' \\
      --peer 'llama.cpp=openai+llama:llama-server -m base.gguf --port {port} ...' \\
      [--work W1,W2,W3,W4,one] [--turns 3] [--json out.json]

DIR of --adapters holds a00 to a19 (bench/make_adapters.py). A peer is a worker (bench/peers) or,
after "openai:" or "openai+llama:", a command that serves HTTP on {port} of 127.0.0.1; after
"openai:" may also stand a URL of a server that runs already. {model} and {adapters} are replaced.
"openai" names an adapter as the request's model; "openai+llama" as llama.cpp's "lora" list.

Works, all greedy, 64 words of prompt and 64 tokens unless said: W1, 20 requests at once on the
base; W2, 20 on one adapter; W3, each of 20 on an adapter of its own; W4, the first token of one
request of 512 words on the base; one, a single request on the base. In each turn every server does
each work once, one server at a time, after one run that is not timed. Printed: tokens per second
(W4: milliseconds) and the ratios of turns, median and quartiles.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import random
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

WORDS = (
    "river stone light garden market winter letter bridge music paper green engine quiet window"
    " story north silver bread cloud harbor table summer signal copper forest number"
).split()
TENANTS = 20
START_SECONDS = 180


def prompt(words, seed):
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words))


def works(tokens, turn):
    """Name to requests, of `tokens` each; an adapter is an index or None.

    No turn repeats a prompt of another, and no work one of another: a server that keeps K and V of
    prompts it has seen would be compared with itself.
    """

    def texts(work):
        return [prompt(64, f"{turn} {work} {i}") for i in range(TENANTS)]


    def batch(work, adapter_of):
        return [
            {"adapter": adapter_of(i), "prompt": text, "tokens": tokens}
            for i, text in enumerate(texts(work))
        ]

    return {
        "W1": batch("W1", lambda i: None),
        "W2": batch("W2", lambda i: 1),
        "W3": batch("W3", lambda i: i),
        "W4": [{"adapter": None, "prompt": prompt(512, f"{turn} W4"), "tokens": 1}],
        "one": [{"adapter": None, "prompt": texts("one")[0], "tokens": tokens}],
    }


class Worker:
    """A library in a process of its own; see bench/peers/worker.py."""

    def __init__(self, name, command):
        self.name = name
        self.log = tempfile.NamedTemporaryFile("w+", suffix=f".{name}.log", delete=False)
        self.process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True,
        )
        ready = self._read()
        self.about = ready["about"]

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: ended; its log is {self.log.name}")
        return json.loads(line)

    def run(self, requests):
        self.process.stdin.write(json.dumps({"requests": requests}) + "\n")
        self.process.stdin.flush()
        answer = self._read()
        return answer["tokens"], answer["seconds"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(30)


class Server:
    """A server of OpenAI's completions, started here or already running."""

    def __init__(self, name, kind, target, adapters):
        self.name = name
        self.kind = kind
        self.adapters = adapters
        self.process = None
        if target.startswith("http://"):
            self.url = target.rstrip("/")
        else:
            port = free_port()
            self.url = f"http://127.0.0.1:{port}"
            self.log = tempfile.NamedTemporaryFile("w+", suffix=f".{name}.log", delete=False)
            self.process = subprocess.Popen(
                shlex.split(target.replace("{port}", str(port))),
                stdout=self.log, stderr=subprocess.STDOUT,
            )
        self._wait()
        models = json.load(urllib.request.urlopen(self.url + "/v1/models"))
        self.base = models["data"][0]["id"]
        self.about = f"{name}, {self.base}"

    def _wait(self):
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).read()
                return
            except OSError as error:
                if self.process is not None and self.process.poll() is not None:
                    raise RuntimeError(f"{self.name}: ended; its log is {self.log.name}") from error
                if time.monotonic() > end:
                    raise RuntimeError(f"{self.name}: not ready in {START_SECONDS} s") from error
                time.sleep(0.1)

    def _body(self, request):
        adapter = request["adapter"]
        body = {
            "model": self.base,
            "prompt": request["prompt"],
            "max_tokens": request["tokens"],
            "temperature": 0,
            "ignore_eos": True,
        }
        if self.kind == "openai+llama":
            body["lora"] = [{"id": adapter or 0, "scale": 0 if adapter is None else 1}]
            body["cache_prompt"] = False
        elif adapter is not None:
            body["model"] = self.adapters[adapter].name
        return body

    def _ask(self, request, began):
        data = json.dumps(self._body(request)).encode()
        headers = {"Content-Type": "application/json"}
        call = urllib.request.Request(self.url + "/v1/completions", data, headers)
        answer = json.load(urllib.request.urlopen(call, timeout=600))
        return answer["usage"]["completion_tokens"], time.monotonic() - began

    def run(self, requests):
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
            done = list(threads.map(lambda request: self._ask(request, began), requests))
        return [tokens for tokens, _ in done], [seconds for _, seconds in done]

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def open_peer(text, args, adapters):
    name, _, target = text.partition("=")
    if not target.strip():
        sys.exit(f"--peer: expected NAME=COMMAND, found {text!r}")
    target = target.replace("{model}", str(args.model))
    target = target.replace("{adapters}", " ".join(map(str, adapters)))
    for kind in ("openai+llama", "openai"):
        if target.startswith(kind + ":"):
            return Server(name, kind, target[len(kind) + 1 :], adapters)
    return Worker(name, target)


def figure(work, tokens, seconds):
    """Tokens per second; of W4 requests per second, so that more is better everywhere."""
    return (1 if work == "W4" else sum(tokens)) / max(seconds)


def quartiles(values):
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def machine():
    """The processor as the system names it, and what decides which kernels run."""
    try:
        facts = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    named = dict(line.split(":", 1) for line in facts.splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in named.items()}
    flags = named.get("flags", "").split()
    sets = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "avx512_vnni") if flag in flags]
    model = named.get("model name", platform.machine())
    return f"{model}, {os.cpu_count()} cores, {' '.join(sets)}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lorica", required=True, help="the program")
    parser.add_argument("--lorica-flags", default="--dtype bfloat16", help="of its serve command")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--lorica-model", type=pathlib.Path, help="where it is another")
    parser.add_argument("--adapters", type=pathlib.Path, required=True)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--work", default="W1,W2,W3,W4,one")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="every figure of every turn goes there")
    args = parser.parse_args()

    adapters = sorted(path for path in args.adapters.iterdir() if path.is_dir())[:TENANTS]
    if len(adapters) < TENANTS:
        sys.exit(f"{args.adapters}: expected {TENANTS} adapters, found {len(adapters)}")
    wanted = args.work.split(",")
    command = (
        f"{args.lorica} serve {args.lorica_model or args.model} --adapters {args.adapters}"
        f" --port {{port}} {args.lorica_flags}"
    )
    servers = [Server("lorica", "openai", command, adapters)]
    figures = {}
    try:
        for peer in args.peer:
            servers.append(open_peer(peer, args, adapters))
        for turn in range(args.turns + 1):
            for work, requests in works(args.tokens, turn).items():
                if work not in wanted:
                    continue
                for server in servers:
                    tokens, seconds = server.run(requests)
                    if turn == 0:
                        if sum(tokens) != sum(r["tokens"] for r in requests):
                            print(f"{server.name} {work}: gave {sum(tokens)} tokens")
                        continue
                    value = figure(work, tokens, seconds)
                    figures.setdefault(work, {}).setdefault(server.name, []).append(value)
    finally:
        for server in servers:
            server.stop()

    print(f"machine: {machine()}; {args.turns} turns, {args.tokens} tokens")
    for server in servers:
        print(f"  {server.name}: {server.about}")
    for work, by_name in figures.items():
        ours = by_name["lorica"]
        for name, values in by_name.items():
            middle, low, high = quartiles([a / b for a, b in zip(ours, values)])
            shown = (
                f"{1e3 / statistics.median(values):8.0f} ms"
                if work == "W4"
                else f"{statistics.median(values):8.1f} tokens/s"
            )
            ratio = f"  lorica is {middle:.2f} [{low:.2f} {high:.2f}] x"
            print(f"{work}  {name:12} {shown}{'' if name == 'lorica' else ratio}")
    if args.json:
        about = {server.name: server.about for server in servers}
        found = {"machine": machine(), "about": about, "tokens": args.tokens, "figures": figures}
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
