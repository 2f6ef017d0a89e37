#!/usr/bin/env python3
"""The server as a client sees it: completions with and without a stream, models, health, errors,
a client that leaves in the middle, many clients at once, a stop on SIGTERM. Standard library only.

  http_api.py --lorica PATH --model FOLDER --adapters FOLDER
"""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time


class Server:
    def __init__(self, args, *flags):
        command = [args.lorica, "serve", args.model, "--adapters", args.adapters, "--port", "0",
                   "--served-model-name", "base", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            raise SystemExit("FAIL: the server did not start")

    def call(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if isinstance(body, dict):
            body = json.dumps(body)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, response.getheader("Content-Type"), data

    def complete(self, **fields):
        body = {"model": "base", "prompt": [1, 2, 3], "max_tokens": 8, "temperature": 0,
                "ignore_eos": True}
        body.update(fields)
        return self.call("POST", "/v1/completions", body)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)


class Checks:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def __call__(self, what, good, detail=""):
        print(f"{'ok  ' if good else 'FAIL'} {what}" + ("" if good else f": {detail}"))
        self.passed += bool(good)
        self.failed += not good


def events(data):
    return [line[6:] for line in data.decode().split("\n\n") if line.startswith("data: ")]


def answers(server, check, names):
    status, kind, data = server.complete(return_token_ids=True, logprobs=2)
    whole = json.loads(data)
    choice = whole["choices"][0]
    check("completion", status == 200 and kind == "application/json", data[:300])
    check("completion: fields", whole["object"] == "text_completion"
          and choice["finish_reason"] == "length" and len(choice["token_ids"]) == 8
          and choice["prompt_token_ids"] == [1, 2, 3]
          and len(choice["logprobs"]["token_logprobs"]) == 8
          and whole["usage"] == {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11},
          data[:600])
    status, kind, data = server.complete(stream=True, stream_options={"include_usage": True})
    parts = events(data)
    chunks = [json.loads(part) for part in parts[:-1]]
    text = "".join(c["choices"][0]["text"] for c in chunks if c["choices"])
    check("stream", status == 200 and kind == "text/event-stream" and parts[-1] == "[DONE]",
          data[-300:])
    check("stream: the same text", text == choice["text"], f"{text!r} {choice['text']!r}")
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
    check("stream: only the last chunk has a finish_reason", len(reasons) > 1
          and set(reasons[:-1]) == {None} and reasons[-1] == "length", reasons)
    check("stream: usage at the end", chunks[-1]["usage"]["completion_tokens"] == 8, chunks[-1])
    status, _, data = server.complete(echo=True, logprobs=0, max_tokens=0)
    echo = json.loads(data)["choices"][0]
    check("echo with max_tokens 0", status == 200 and echo["logprobs"]["token_logprobs"][0] is None
          and len(echo["logprobs"]["token_logprobs"]) == 3, data[:400])
    status, _, data = server.complete(n=3, seed=5, temperature=1.0, prompt=["a b", "c d"])
    check("n choices of several prompts", status == 200
          and [c["index"] for c in json.loads(data)["choices"]] == list(range(6)), data[:300])
    texts = {}
    for name in ["base"] + names:
        status, _, data = server.complete(model=name, prompt="The quick brown fox", max_tokens=16)
        texts[name] = json.loads(data)["choices"][0]["text"] if status == 200 else None
    check("every adapter answers by its name", None not in texts.values(), texts)
    check("adapters act", len(set(texts.values())) > 1, texts)

    def alone_or_together(name):
        return name, json.loads(server.complete(model=name, prompt="The quick brown fox",
                                                max_tokens=16)[2])["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        together = list(pool.map(alone_or_together, (["base"] + names) * 8))
    check("forty clients at once get what each got alone",
          all(texts[name] == text for name, text in together))


def errors(server, check):
    cases = [
        ("not JSON", server.call("POST", "/v1/completions", "{"), 400, "request body"),
        ("no body", server.call("POST", "/v1/completions"), 400, "request body"),
        ("unknown model", server.complete(model="nobody"), 404, "nobody"),
        ("unknown field", server.complete(temprature=1), 400, "temprature"),
        ("too long", server.complete(prompt=[1] * 50000), 400, "50000"),
        ("unknown path", server.call("GET", "/v2"), 404, "/v2"),
        ("wrong method", server.call("GET", "/v1/completions"), 405, "POST"),
        ("unknown model's page", server.call("GET", "/v1/models/nobody"), 404, "nobody"),
        ("a body over the limit", server.call("POST", "/v1/completions", b" " * (17 << 20)), 413,
         "bytes"),
    ]
    for what, (status, _, data), want, part in cases:
        try:
            error = json.loads(data)["error"]
            good = status == want and part in error["message"] and set(error) == {
                "message", "type", "param", "code"}
        except (ValueError, KeyError):
            good = False
        check(f"error: {what}", good, f"{status} {data[:300]}")
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(b"\x16\x03\x01 not http\r\n\r\n")
        check("error: not HTTP", b"400" in raw.recv(1000))


def raw_call(server, head, body=None, half_close=False):
    """All that the server sends until it closes, but for interim answers."""
    body = b"" if body is None else json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(f"{head}\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}"
                    "\r\n\r\n".encode() + body)
        if half_close:
            raw.shutdown(socket.SHUT_WR)
        data = b""
        try:
            while part := raw.recv(65536):
                data += part
        except OSError as error:
            data += f"<{error}>".encode()
    head, _, rest = data.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 1"):
        head, _, rest = rest.partition(b"\r\n\r\n")
    return head.decode(), rest


def transport(server, check):
    ask = {"model": "base", "prompt": [1, 2, 3], "max_tokens": 64, "temperature": 0,
           "ignore_eos": True}
    post = "POST /v1/completions HTTP/1.1"
    head, rest = raw_call(server, post, ask, half_close=True)
    check("a client that shut its sending side gets its answer", "200 OK" in head
          and json.loads(rest)["usage"]["completion_tokens"] == 64, (head, rest[:200]))
    head, rest = raw_call(server, post, {**ask, "stream": True}, half_close=True)
    check("and its stream", b"[DONE]" in rest, (head, rest[-200:]))
    head, rest = raw_call(server, "POST /v1/completions HTTP/1.0", {**ask, "stream": True})
    check("HTTP/1.0: a stream without chunks", "hunked" not in head
          and rest.startswith(b"data: {") and rest.endswith(b"data: [DONE]\n\n"),
          (head, rest[:100]))
    for path, status in [("/v1/models", 200), ("/v2", 404), ("/v1/adapters", 200)]:
        head, rest = raw_call(server, f"HEAD {path} HTTP/1.1")
        check(f"HEAD {path} has no body", f" {status} " in head and rest == b"", (head, rest))
    # A prompt that takes long to tokenize is nobody else's wait.
    big = concurrent.futures.ThreadPoolExecutor(1)
    text = "".join(chr(97 + i * i % 23) + " " * (i % 3) for i in range(4 << 20))
    running = big.submit(server.complete, prompt=text, max_tokens=1)
    longest, began = 0.0, time.monotonic()
    while not running.done():
        before = time.monotonic()
        server.call("GET", "/health")
        longest = max(longest, time.monotonic() - before)
    whole = time.monotonic() - began
    check("health answers beside a prompt of megabytes", running.result()[0] == 400
          and longest < max(0.1, whole / 3), f"{longest:.3f} s of {whole:.3f} s")


def offsets(server, check):
    """text_offset of a prompt whose text holds special tokens points into the text."""
    for prompt in ["<|im_start|>user\nhi<|im_end|>\n", "a <|im_end|><|im_end|> b"]:
        status, _, data = server.complete(prompt=prompt, echo=True, logprobs=0, max_tokens=2)
        choice = json.loads(data)["choices"][0]
        names, places = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]
        shown = list(zip(places, names))
        good = all(choice["text"][at:].startswith(name) for at, name in shown[:-2]
                   if not name.startswith("token_id:"))
        check(f"text_offset with special tokens: {prompt!r}", status == 200 and good
              and places[-2] == len(prompt), (choice["text"], shown))


def leave_in_the_middle(server, check):
    for _ in range(8):
        raw = socket.create_connection(("127.0.0.1", server.port))
        body = json.dumps({"model": "base", "prompt": [1], "max_tokens": 400, "stream": True,
                           "ignore_eos": True})
        raw.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
                    f"\r\n\r\n{body}".encode())
        raw.recv(200)
        raw.close()
    time.sleep(0.5)
    status, _, _ = server.complete()
    check("clients that leave in the middle disturb nobody", status == 200)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--lorica", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--adapters", required=True)
    args = p.parse_args()
    names = sorted(x.name for x in pathlib.Path(args.adapters).iterdir() if x.is_dir())
    check = Checks()
    server = Server(args)
    try:
        status, _, _ = server.call("GET", "/health")
        check("health", status == 200)
        status, _, data = server.call("GET", "/v1/models")
        listed = json.loads(data)["data"]
        check("models", [m["id"] for m in listed] == ["base"] + names
              and listed[1]["parent"] == "base", data)
        answers(server, check, names)
        errors(server, check)
        leave_in_the_middle(server, check)
        transport(server, check)
        offsets(server, check)
        # One that is still running when the server is told to end.
        late = socket.create_connection(("127.0.0.1", server.port))
        body = json.dumps({"model": "base", "prompt": [1], "max_tokens": 400, "ignore_eos": True})
        late.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}"
                     f"\r\n\r\n{body}".encode())
        time.sleep(0.05)
    finally:
        code = server.stop()
    check("SIGTERM ends it with 0", code == 0, code)
    guarded = Server(args, "--api-key", "secret")
    try:
        check("api key: none", guarded.complete()[0] == 401)
        check("api key: wrong", guarded.call("GET", "/v1/models",
                                             headers={"Authorization": "Bearer x"})[0] == 401)
        check("api key: right", guarded.call("GET", "/v1/models", headers={
            "Authorization": "Bearer secret"})[0] == 200)
    finally:
        guarded.stop()
    print(f"http: {check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
