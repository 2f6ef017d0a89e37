#!/usr/bin/env python3
"""Adapters that come and go as a client sees them: uploads, replacements, If-Match, pins, unloads that
are remembered, bad uploads, two uploads of one name at once, a full disk where one can be mounted,
and kill -9 at random moments, after each of which the registry must be one that was acknowledged.
Standard library only.

  live_adapters.py --lorica PATH --model FOLDER --adapters FOLDER [--crashes N]
"""
import argparse
import concurrent.futures
import http.client
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time


class Server:
    def __init__(self, args, state, adapters=None, *flags):
        command = [args.lorica, "serve", args.model, "--port", "0", "--served-model-name", "base",
                   "--threads", "1", "--kv-bytes", "2M", *flags]
        if state:
            command += ["--state", str(state)]
        if "--adapter-bytes" not in flags:
            command += ["--adapter-bytes", "4M"]
        if adapters:
            command += ["--adapters", str(adapters)]
        self.log = []
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            raise SystemExit("FAIL: the server did not start: " + "".join(self.log))

    def call(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if isinstance(body, dict):
            body = json.dumps(body)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def put(self, name, body, **headers):
        return self.call("PUT", "/v1/adapters/" + name, body,
                         {k.replace("_", "-"): v for k, v in headers.items()})

    def answer(self, model, **fields):
        body = {"model": model, "prompt": [1, 2, 3, 4], "max_tokens": 6, "temperature": 0,
                "ignore_eos": True, "logprobs": 1, "return_token_ids": True, **fields}
        status, text = self.call("POST", "/v1/completions", body)
        return status, json.loads(text)

    def digests(self):
        data = json.loads(self.call("GET", "/v1/adapters")[1])["data"]
        return {entry["name"]: entry["digest"] for entry in data if entry["state"] == "served"}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


def make_tar(folder, alpha=None, entries=()):
    """The folder as a tar; with another alpha it is other content of the same shapes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.iterdir()):
            data = path.read_bytes()
            if path.name == "adapter_config.json" and alpha is not None:
                config = json.loads(data)
                config["lora_alpha"] = alpha
                data = json.dumps(config).encode()
            info = tarfile.TarInfo("adapter/" + path.name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Checks:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def __call__(self, what, good, detail=""):
        print(f"{'ok  ' if good else 'FAIL'} {what}" + ("" if good else f": {detail}"), flush=True)
        self.passed += bool(good)
        self.failed += not good


def check_calls(args, check, scratch):
    source = args.adapters / "plain"
    adapters = scratch / "adapters"
    shutil.copytree(args.adapters, adapters)
    state = scratch / "state"
    server = Server(args, state, adapters)
    names = sorted(p.name for p in args.adapters.iterdir())
    check("the folder's adapters are served", sorted(server.digests()) == names)

    status, text = server.put("up", make_tar(source, 3))
    first = json.loads(text)
    check("an upload answers digest, ranks, modules and bytes",
          status == 200 and first["ranks"] and first["modules"] and first["bytes"] > 0
          and len(first["digest"]) == 64, text)
    check("and is served", server.answer("up")[0] == 200)
    status, text = server.put("up", make_tar(source, 5), If_Match='"' + "0" * 64 + '"')
    check("If-Match with another digest is 412", status == 412 and first["digest"] in text, text)
    check("nothing changed by it", server.digests()["up"] == first["digest"])
    status, text = server.put("up", make_tar(source, 5), If_Match='"' + first["digest"] + '"')
    second = json.loads(text)["digest"]
    check("If-Match with the right one replaces", status == 200 and second != first["digest"])
    check("an answer names the version", second[:12] in
          server.answer("up")[1]["system_fingerprint"])

    weighted = server.answer("up", lora=[{"name": "up", "scale": 0.5}])[1]
    plain = server.answer("up")[1]
    check("a weight changes the answer's log-probabilities",
          weighted["choices"][0]["logprobs"] != plain["choices"][0]["logprobs"])
    named = server.answer("base", lora=[{"name": "up", "scale": 1.0}])[1]
    check("`lora` names the adapter too", named["choices"][0]["logprobs"]["token_logprobs"] ==
          plain["choices"][0]["logprobs"]["token_logprobs"])
    for lora in ([], [{}], [{"name": "up", "scale": "x"}], [{"name": "none", "scale": 1}],
                 [{"name": "up", "more": 1}], "up"):
        status, body = server.answer("base", lora=lora)
        check(f"lora {lora} is refused", status in (400, 404), body)

    bad = {
        "a link": [(linked("x.json", tarfile.SYMTYPE), b"")],
        "a hard link": [(linked("x.json", tarfile.LNKTYPE), b"")],
        "a device": [(linked("x.json", tarfile.CHRTYPE), b"")],
        "..": [(sized("../x.json", 2), b"{}")],
        "an absolute path": [(sized("/tmp/lorica-evil.json", 2), b"{}")],
    }
    for what, entries in bad.items():
        status, text = server.put("bad", make_tar(source, 3, entries))
        check(f"an upload with {what} is refused", status == 400, text)
    whole = make_tar(source, 3)
    for size in (0, 100, 700, len(whole) // 2):
        status, text = server.put("bad", whole[:size])
        check(f"an upload of {size} bytes of {len(whole)} is refused", status in (400, 500), text)
    for name in ("base", "a%2Fb", "..%2Fx", ".hidden", "a%00b", "%zz"):
        status, text = server.put(name, whole)
        check(f"the name {name} is refused", status in (400, 404, 405), text)
    check("no path of the server is in a refusal", str(scratch) not in
          server.put("bad", make_tar(args.adapters / "plain", "many"))[1])
    check("what was refused is not listed", "bad" not in server.digests())

    # The connection ends in the middle of the body.
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.putrequest("PUT", "/v1/adapters/cut")
    connection.putheader("Content-Length", str(len(whole)))
    connection.endheaders()
    connection.send(whole[: len(whole) // 2])
    connection.close()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda alpha: server.put("both", make_tar(source, alpha)),
                                range(10, 26)))
    digests = {json.loads(text)["digest"] for _, text in results}
    check("uploads of one name at once all end well", all(s == 200 for s, _ in results))
    check("the name is one of them", server.digests()["both"] in digests)
    check("and its files alone are left", len(list((state / "adapters").iterdir())) <= 3,
          list((state / "adapters").iterdir()))
    check("nothing is left in staging", not list((state / "staging").iterdir()))

    status, text = server.call("POST", "/v1/adapters/both/pin")
    check("a pin", status == 200 and json.loads(text)["pinned"], text)
    check("a second pin is the same", server.call("POST", "/v1/adapters/both/pin")[0] == 200)
    check("an unpin", not json.loads(server.call("DELETE", "/v1/adapters/both/pin")[1])["pinned"])

    load = lambda **fields: server.call("POST", "/v1/load_lora_adapter", fields)
    unload = lambda **fields: server.call("POST", "/v1/unload_lora_adapter", fields)
    check("load by a path inside the folder", load(lora_name="l", lora_path="plain")[0] == 200)
    check("an absolute path inside it", load(lora_name="l2", lora_path=str(adapters / "plain"))[0]
          == 200)
    check("a name that is loaded is 400", load(lora_name="l", lora_path="plain")[0] == 400)
    check("unless in place", load(lora_name="l", lora_path="mlp", load_inplace=True)[0] == 200)
    os.symlink(args.adapters / "plain", adapters / "out")
    for path in ("nowhere", "../state", "/etc", "out", ""):
        status, text = load(lora_name="n", lora_path=path)
        check(f"load of {path!r} is refused without a path", status in (400, 404)
              and str(scratch) not in text, text)
    check("a missing field is 400", load(lora_name="x")[0] == 400 and unload()[0] == 400)
    check("an unknown name is 404", unload(lora_name="never")[0] == 404)
    check("unload", unload(lora_name="mlp")[0] == 200)
    check("its requests are 404", server.answer("mlp")[0] == 404)
    check("its files stay", (adapters / "mlp" / "adapter_config.json").exists())
    check("delete", server.call("DELETE", "/v1/adapters/up")[0] == 200)
    check("a second delete is 404", server.call("DELETE", "/v1/adapters/up")[0] == 404)

    before = server.digests()
    check("a clean stop", server.stop() == 0)
    os.remove(adapters / "out")
    server = Server(args, state, adapters)
    check("a restart serves the same, and what was unloaded stays so", server.digests() == before,
          (server.digests(), before))
    server.kill()

    # A tampered manifest loses one entry.
    manifest = state / "manifest"
    lines = manifest.read_text().splitlines(True)
    target = next(i for i, line in enumerate(lines) if '"name":"both"' in line)
    lines[target] = lines[target].replace('"pinned":false', '"pinned":true ')
    manifest.write_text("".join(lines))
    server = Server(args, state, adapters)
    check("a tampered entry is dropped and named", "both" not in server.digests()
          and any("both" in line and "dropped" in line for line in server.log), server.log)
    server.kill()

    # The user's own files change under a version that is stored only.
    server = Server(args, scratch / "state2", adapters, "--cold-bytes", "0")
    digest = server.digests()["plain"]
    for i in range(600):
        if server.put(f"fill{i}", make_tar(args.adapters / "mlp", 100 + i))[0] != 200:
            break
        server.answer(f"fill{i}")
        tier = json.loads(server.call("GET", "/v1/adapters/plain")[1])["tier"]
        if tier == "stored":
            break
    check("an idle adapter is evicted to its files", tier == "stored", tier)
    config = adapters / "plain" / "adapter_config.json"
    text = config.read_text()
    changed = json.loads(text)
    changed["lora_alpha"] = 77
    config.write_text(json.dumps(changed))
    status, body = server.answer("plain")
    found = re.findall(r"[0-9a-f]{64}", json.dumps(body))
    check("changed files are 409 with both digests", status == 409 and digest in found
          and len(set(found)) == 2, body)
    config.write_text(text)
    check("as they were, they are served again", server.answer("plain")[0] == 200)
    server.kill()


def check_watching(args, check, scratch):
    adapters = scratch / "watched"
    adapters.mkdir()
    server = Server(args, scratch / "watched-state", adapters, "--watch-adapters")
    source = args.adapters / "plain"
    (adapters / "new").mkdir()
    shutil.copy(source / "adapter_config.json", adapters / "new")
    time.sleep(2)
    check("half a folder is not served", "new" not in server.digests())
    shutil.copy(source / "adapter_model.safetensors", adapters / "new")
    deadline = time.time() + 15
    while "new" not in server.digests() and time.time() < deadline:
        time.sleep(0.1)
    first = server.digests().get("new")
    check("a whole one is, after a while", first and server.answer("new")[0] == 200)
    config = adapters / "new" / "adapter_config.json"
    changed = json.loads(config.read_text())
    changed["lora_alpha"] = 55
    config.write_text(json.dumps(changed))
    while server.digests().get("new") == first and time.time() < deadline:
        time.sleep(0.1)
    second = server.digests().get("new")
    check("a change is taken in", second not in (None, first))

    # Gone for less than a second, as when a folder is replaced: it stays.
    os.rename(adapters / "new", scratch / "aside")
    time.sleep(0.4)
    os.rename(scratch / "aside", adapters / "new")
    time.sleep(1.5)
    check("one that was gone for a moment stays", server.digests().get("new") == second)
    whole = make_tar(source, 9)
    server.put("uploaded", whole)
    shutil.copytree(source, adapters / "uploaded")
    stream = Stream(server, "new", 300)
    os.rename(adapters / "new", scratch / "aside")
    shutil.rmtree(adapters / "uploaded")
    check("one whose folder is gone is unloaded", wait(lambda: "new" not in server.digests(), 15))
    check("its requests are 404", server.answer("new")[0] == 404)
    check("what was in flight ends on it", stream.end() == "length")
    check("an upload of the name of a folder stays", "uploaded" in server.digests())
    os.rename(scratch / "aside", adapters / "new")
    check("one that comes back is served", wait(lambda: server.digests().get("new") == second, 15))
    server.kill()

    module = "module=" + str(adapters / "new")
    server = Server(args, None, adapters, "--watch-adapters", "--lora-modules", module)
    check("a module inside the folder is served", "module" in server.digests())
    os.rename(adapters / "new", scratch / "aside")
    wait(lambda: "new" not in server.digests(), 15)
    check("and stays when the entry of the folder goes", "module" in server.digests()
          and "new" not in server.digests() and server.answer("module")[0] == 200)
    server.kill()


def check_use(args, check, scratch):
    """Deletes while in use, adapters that are too large, those of another base, and a tiny arena."""
    source = args.adapters / "plain"
    state = scratch / "use"
    server = Server(args, state, None, "--adapter-bytes", "128K")
    server.put("used", make_tar(source, 3))
    stream = Stream(server, "used", 400)
    check("delete while in use", server.call("DELETE", "/v1/adapters/used")[0] == 200)
    check("new requests are 404 at once", server.answer("used")[0] == 404)
    check("the one in flight ends whole", stream.end() == "length")
    server.put("other", make_tar(source, 4))
    check("then its files go", wait(lambda: len(list((state / "adapters").iterdir())) == 1, 5))

    status, text = server.put("foreign", make_tar(source, 5))
    other = json.loads(text)["warnings"]
    check("an adapter that names another base is a warning", status == 200
          and any("base_model_name_or_path" in line for line in other), text)
    print("     " + "".join(other))
    status, text = server.put("giant", giant_tar(args.model, 512))
    figures = re.findall(r"[0-9]{5,}", text)
    check("one larger than the arena is refused with both figures", status in (400, 413, 507)
          and len(figures) >= 2 and "giant" not in server.digests(), text)
    print("     " + json.loads(text)["error"]["message"])
    server.kill()

    server = Server(args, None, args.adapters, "--adapter-bytes", "1K")
    check("with an arena too small for any, the base is served", server.answer("base")[0] == 200
          and not server.digests())
    status, body = server.answer("plain")
    check("and an adapter says why it is not", status == 404 and "1024" in json.dumps(body), body)
    server.kill()


def check_names(args, check, scratch, count=10000):
    """10,000 names: what each costs while it is stored, and that they are served."""
    adapters = scratch / "names"
    config = json.loads((args.adapters / "plain" / "adapter_config.json").read_text())
    weights = args.adapters / "plain" / "adapter_model.safetensors"
    first = adapters / "name00000"
    first.mkdir(parents=True)
    shutil.copy(weights, first)
    for i in range(count):
        folder = adapters / f"name{i:05}"
        folder.mkdir(exist_ok=True)
        config["lora_alpha"] = 1 + i
        (folder / "adapter_config.json").write_text(json.dumps(config))
        if i:
            os.link(first / weights.name, folder / weights.name)

    def anonymous(server):
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024

    flags = ("--adapter-bytes", "256K", "--cold-bytes", "0")
    few = scratch / "few"
    few.mkdir()
    for i in range(100):
        shutil.copytree(adapters / f"name{i:05}", few / f"name{i:05}")
    server = Server(args, None, few, *flags)
    before = anonymous(server)
    server.kill()
    began = time.time()
    server = Server(args, None, adapters, *flags)
    started = time.time() - began
    each = (anonymous(server) - before) / (count - 100)
    check(f"{count} names are served", len(server.digests()) == count)
    check("each costs less than 1 KiB while stored", each < 1024, each)
    good = all(server.answer(f"name{i:05}")[0] == 200 for i in range(0, count, count // 50))
    check("any of them answers", good)
    print(f"     {count} names: start {started:.1f} s, {each:.0f} bytes of memory a name")
    server.kill()


def wait(condition, seconds):
    deadline = time.time() + seconds
    while time.time() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


class Stream:
    """A streamed completion that has begun."""

    def __init__(self, server, model, tokens):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        body = {"model": model, "prompt": [1, 2, 3], "max_tokens": tokens, "ignore_eos": True,
                "temperature": 0, "stream": True}
        self.connection.request("POST", "/v1/completions", json.dumps(body))
        self.response = self.connection.getresponse()
        self.first = self.response.readline()

    def end(self):
        lines = [line for line in self.response.read().decode().splitlines() if line]
        self.connection.close()
        if lines[-1] != "data: [DONE]":
            return "cut"
        reasons = [json.loads(line[6:])["choices"][0].get("finish_reason") for line in lines[:-1]]
        return next(filter(None, reversed(reasons)), None)


def giant_tar(model, rank):
    """An adapter of q_proj alone with a rank beyond the arena."""
    config = json.loads(pathlib.Path(model, "config.json").read_text())
    k = config["hidden_size"]
    n = config["num_attention_heads"] * config.get("head_dim", k // config["num_attention_heads"])
    header, at = {}, 0
    for layer in range(config["num_hidden_layers"]):
        stem = f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_"
        for name, shape in (("A", [rank, k]), ("B", [n, rank])):
            size = shape[0] * shape[1] * 4
            header[f"{stem}{name}.weight"] = {"dtype": "F32", "shape": shape,
                                              "data_offsets": [at, at + size]}
            at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    values = bytes([0, 0, 1, 60] * (at // 4))
    files = {"adapter_config.json": json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": rank,
         "target_modules": ["q_proj"]}).encode(),
        "adapter_model.safetensors": len(text).to_bytes(8, "little") + text + values}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            tar.addfile(sized(name, len(data)), io.BytesIO(data))
    return out.getvalue()


def linked(name, kind):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = "/etc/passwd"
    return info


def sized(name, size):
    info = tarfile.TarInfo(name)
    info.size = size
    return info


def check_full_disk(args, check, scratch):
    mount = scratch / "small"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(mount)],
                          capture_output=True)
    if made.returncode != 0:
        print("     no tmpfs can be mounted here: a full disk is not tried")
        return
    try:
        server = Server(args, mount / "state")
        statuses = []
        for i in range(40):
            status, text = server.put(f"n{i}", make_tar(args.adapters / "mlp", 200 + i))
            statuses.append(status)
        failed = [s for s in statuses if s != 200]
        check("a full disk refuses uploads", failed and statuses[0] == 200
              and all(s in (429, 503, 507) for s in failed), statuses)
        served = server.digests()
        check("what was acknowledged is served", len(served) == statuses.count(200))
        server.kill()
        server = Server(args, mount / "state")
        check("also after a restart", server.digests() == served)
        server.kill()
    finally:
        subprocess.run(["umount", "-l", str(mount)], capture_output=True)


def check_crashes(args, check, scratch):
    """Three clients change a name each until the server is killed."""
    state = scratch / "crash"
    source = args.adapters / "plain"
    tars = {}
    acknowledged = {}  # name: digest or None
    possible = {}      # name: what it may be, as the call in flight was cut
    problems = []
    rng = random.Random(11)
    changes = 0
    for crash in range(args.crashes + 1):
        server = Server(args, state)
        found = server.digests()
        for name in ("a", "b", "c"):
            allowed = possible.get(name, {acknowledged.get(name)})
            if found.get(name) not in allowed:
                problems.append((crash, name, found.get(name), allowed))
            acknowledged[name] = found.get(name)
            if found.get(name) and server.answer(name)[0] != 200:
                problems.append((crash, name, "does not answer"))
        on_disk = {p.name for p in (state / "adapters").iterdir()}
        if on_disk != set(found.values()):
            problems.append((crash, "files", on_disk, found))
        if list((state / "staging").iterdir()):
            problems.append((crash, "staging is not empty"))
        if any("dropped" in line or "refused" in line for line in server.log):
            problems.append((crash, server.log))
        if crash == args.crashes:
            server.kill()
            break
        possible = {name: {acknowledged[name]} for name in ("a", "b", "c")}
        seeds = [rng.random() for _ in range(3)]

        def change(name, seed):
            nonlocal changes
            own = random.Random(seed)
            while True:
                alpha = own.randrange(2, 12)
                delete = own.random() < 0.25
                body = None if delete else tars.setdefault(alpha, make_tar(source, alpha))
                digest = None if delete else digest_of(alpha)
                possible[name] = {acknowledged[name], digest}
                try:
                    if delete:
                        status, _ = server.call("DELETE", "/v1/adapters/" + name)
                        good = status in (200, 404)
                    else:
                        status, text = server.put(name, body)
                        good = status == 200
                        if good:
                            digests[alpha] = json.loads(text)["digest"]
                            digest = digests[alpha]
                            possible[name] = {acknowledged[name], digest}
                except (OSError, http.client.HTTPException):
                    return
                if not good:
                    problems.append((crash, name, status))
                    return
                acknowledged[name] = digest
                possible[name] = {digest}
                changes += 1

        digests = check_crashes.__dict__.setdefault("digests", {})

        def digest_of(alpha):
            return digests.get(alpha, "unknown")

        if crash == 0:
            for alpha in range(2, 12):  # what each upload's digest will be
                body = tars.setdefault(alpha, make_tar(source, alpha))
                digests[alpha] = json.loads(server.put("c", body)[1])["digest"]
            acknowledged["c"] = digests[11]
        threads = [threading.Thread(target=change, args=(n, s)) for n, s in zip("abc", seeds)]
        for thread in threads:
            thread.start()
        time.sleep(rng.random() * 0.15)
        server.kill()
        for thread in threads:
            thread.join()
    check(f"{args.crashes} times kill -9 among {changes} acknowledged changes: each restart serves a "
          "consistent registry, nothing is lost or left over", not problems, problems[:3])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lorica", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapters", required=True, type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--crashes", type=int, default=20)
    args = parser.parse_args()
    check = Checks()
    with tempfile.TemporaryDirectory(prefix="lorica-live-") as scratch:
        scratch = pathlib.Path(scratch)
        check_calls(args, check, scratch)
        check_watching(args, check, scratch)
        check_use(args, check, scratch)
        check_names(args, check, scratch)
        check_full_disk(args, check, scratch)
        check_crashes(args, check, scratch)
    print(f"{check.passed} ok, {check.failed} failed")
    raise SystemExit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
