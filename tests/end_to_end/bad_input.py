#!/usr/bin/env python3
"""Every kind of bad input: each ends in one clear sentence that names the thing, and whatever else
was asked goes on. Prints the command and the sentence, a row each; exit 1 if one is not as it
should be. Standard library only.

  bad_input.py --lorica PATH --model FOLDER --adapters FOLDER     (a tiny model in safetensors)
"""
import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile


class Case:
    def __init__(self, args, work):
        self.args = args
        self.work = pathlib.Path(work)
        self.failed = []
        self.count = 0

    def run(self, *command):
        done = subprocess.run([self.args.lorica, *map(str, command)], capture_output=True,
                              timeout=120)
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def report(self, what, sentence, good):
        self.count += 1
        print(f"{'ok  ' if good else 'FAIL'} {what}\n       {sentence.strip()}")
        if not good:
            self.failed.append(what)

    def expect(self, what, command, code, *parts):
        """The command leaves with `code`, and one line holds every part."""
        got, text = self.run(*command)
        lines = [line for line in text.splitlines() if all(part in line for part in parts)]
        sentence = lines[0] if lines else f"exit {got}: {text.strip()[-400:]}"
        self.report(what, sentence, got == code and bool(lines))

    # --- models -------------------------------------------------------------------------------
    def model_copy(self, name):
        target = self.work / name
        shutil.copytree(self.args.model, target,
                        ignore=shutil.ignore_patterns("adapters", "goldens.json"))
        return target

    def models(self):
        self.expect("model: missing", ["run", self.work / "none", "-p", "x"], 1, "none")
        empty = self.work / "empty"
        empty.mkdir()
        self.expect("model: an empty folder", ["run", empty, "-p", "x"], 1, "config.json")
        foreign = self.work / "foreign.gguf"
        foreign.write_bytes(b"PK\x03\x04 not a model at all")
        self.expect("model: a foreign file", ["run", foreign, "-p", "x"], 1, "foreign.gguf", "GGUF")
        cut = self.model_copy("cut")
        weights = cut / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1000])
        self.expect("model: truncated weights", ["run", cut, "-p", "x"], 1, "model.safetensors")
        none = self.model_copy("zero")
        (none / "model.safetensors").write_bytes(b"")
        self.expect("model: empty weights", ["run", none, "-p", "x"], 1, "model.safetensors")
        bad = self.model_copy("shape")
        config = json.loads((bad / "config.json").read_text())
        config["intermediate_size"] += 16
        (bad / "config.json").write_text(json.dumps(config))
        self.expect("model: a shape that does not fit", ["run", bad, "-p", "x"], 1, "expected",
                    "found")
        family = self.model_copy("family")
        config["model_type"] = "mamba"
        (family / "config.json").write_text(json.dumps(config))
        self.expect("model: another family", ["run", family, "-p", "x"], 1, "mamba")
        tokenizer = self.model_copy("tokenizer")
        (tokenizer / "tokenizer.json").write_text('{"version": "1.0"')
        self.expect("model: truncated tokenizer.json", ["run", tokenizer, "-p", "x"], 1,
                    "tokenizer.json")
        adapter = next(pathlib.Path(self.args.adapters).iterdir())
        self.expect("model: it is an adapter", ["run", adapter, "-p", "x"], 1, "adapter")

    # --- adapters: each refused, the base and the others go on -----------------------------------
    def tensors(self, path):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        return json.loads(data[8:8 + size]), bytearray(data[8 + size:])

    def write(self, path, header, data):
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))

    def adapter(self, name, change_config=None, change_tensors=None):
        folder = self.work / "adapters" / name
        shutil.copytree(next(p for p in pathlib.Path(self.args.adapters).iterdir()
                             if p.name == "plain"), folder)
        if change_config:
            config = json.loads((folder / "adapter_config.json").read_text())
            change_config(config)
            (folder / "adapter_config.json").write_text(json.dumps(config))
        if change_tensors:
            file = folder / "adapter_model.safetensors"
            header, data = self.tensors(file)
            header, data = change_tensors(header, data)
            self.write(file, header, data)
        return folder

    def adapters(self):
        root = self.work / "adapters"
        root.mkdir()
        good = self.adapter("good")
        cut = self.adapter("cut") / "adapter_model.safetensors"
        cut.write_bytes(cut.read_bytes()[:-7])
        (self.adapter("empty") / "adapter_model.safetensors").write_bytes(b"")
        (self.adapter("missing") / "adapter_model.safetensors").unlink()
        (self.adapter("foreign") / "adapter_model.safetensors").write_bytes(b"\x80\x04pickle" * 9)
        self.adapter("dora", lambda c: c.update(use_dora=True))
        self.adapter("unknown_field", lambda c: c.update(kasa_config={"a": 1}))
        self.adapter("rank", lambda c: c.update(r=c["r"] + 1))
        self.adapter("method", lambda c: c.update(peft_type="LOHA"))

        def nan(header, data):
            first = min((v for k, v in header.items() if k != "__metadata__"),
                        key=lambda v: v["data_offsets"][0])
            width = {"F32": 4, "F16": 2, "BF16": 2}[first["dtype"]]
            data[0:width] = {"F32": struct.pack("<I", 0x7fc00000), "F16": b"\x00\x7e",
                             "BF16": b"\xc0\x7f"}[first["dtype"]]
            return header, data

        def drop_b(header, data):
            name = next(k for k in header if "lora_B" in k)
            rest = sorted((k for k in header if k not in (name, "__metadata__")),
                          key=lambda k: header[k]["data_offsets"][0])
            out, packed = {}, bytearray()
            for key in rest:
                begin, end = header[key]["data_offsets"]
                out[key] = dict(header[key], data_offsets=[len(packed), len(packed) + end - begin])
                packed += data[begin:end]
            return out, packed

        def rename(header, data):
            name = next(k for k in header if "lora_A" in k)
            return {k.replace(name, name.replace("q_proj", "router").replace("v_proj", "router")): v
                    for k, v in header.items()}, data

        def dtype(header, data):
            for key, entry in header.items():
                if key != "__metadata__" and entry["dtype"] == "F32":
                    entry["dtype"] = "I32"
                elif key != "__metadata__":
                    entry["dtype"] = "I16"
            return header, data

        self.adapter("nan", None, nan)
        self.adapter("half", None, drop_b)
        self.adapter("stray", None, rename)
        self.adapter("dtype", None, dtype)
        (root / "out").symlink_to(pathlib.Path(self.args.adapters).resolve() / "plain")

        requests = self.work / "refused.jsonl"
        names = sorted(p.name for p in root.iterdir())
        with requests.open("w") as file:
            for name in ["base"] + names:
                file.write(json.dumps({
                    "custom_id": name, "method": "POST", "url": "/v1/completions",
                    "body": {"model": name, "prompt": [1, 2, 3], "max_tokens": 2,
                             "temperature": 0}}) + "\n")
        out = self.work / "refused.out"
        code, text = self.run("run-batch", self.args.model, "-i", requests, "-o", out,
                              "--adapters", root, "--served-model-name", "base",
                              "--lora-modules", f"good={good}")
        answers = {}
        if out.exists():
            answers = {json.loads(line)["custom_id"]: json.loads(line)["response"]
                       for line in out.read_text().splitlines()}
        for name in ["base", "good"]:
            good_answer = answers.get(name, {}).get("status_code") == 200
            self.report(f"adapters: {name} is served beside the refused ones",
                        f"exit {code}, status {answers.get(name, {}).get('status_code')}",
                        code == 0 and good_answer)
        for name in names:
            if name == "good":
                continue
            answer = answers.get(name, {})
            message = answer.get("body", {}).get("error", {}).get("message", text[-300:])
            logged = f"adapter {name} is refused" in text
            self.report(f"adapter: {name}", message,
                        answer.get("status_code") == 404 and logged and len(message) > 20)
        taken = [line for line in text.splitlines() if "the name is taken" in line]
        self.report("adapter: a name used twice", taken[0] if taken else text[-300:], bool(taken))
        small = self.run("run", self.args.model, "-p", "x", "--as", "good", "--lora-modules",
                         f"good={good}", "--adapter-bytes", "1K")
        self.report("adapter: larger than the arena", small[1], small[0] == 1 and "1024" in small[1])
        self.expect("adapter: rank over --max-lora-rank",
                    ["run", self.args.model, "-p", "x", "--as", "good", "--lora-modules",
                     f"good={good}", "--max-lora-rank", "1"], 1, "rank", "limit")
        self.expect("inspect: every reason",
                    ["inspect", root / "dora", "--model", self.args.model], 1, "use_dora")

    # --- requests ------------------------------------------------------------------------------
    def requests(self):
        lines = {
            "good": '{"custom_id":"good","method":"POST","url":"/v1/completions",'
                    '"body":{"model":"base","prompt":[1,2],"max_tokens":2,"temperature":0}}',
            "not JSON": '{"custom_id": "x", ',
            "not an object": '[1, 2]',
            "no custom_id": '{"url":"/v1/completions","body":{}}',
            "a custom_id used twice": '{"custom_id":"good","url":"/v1/completions","body":{}}',
            "another url": '{"custom_id":"u","url":"/v1/images","body":{}}',
            "an unknown adapter": '{"custom_id":"a","url":"/v1/completions",'
                                  '"body":{"model":"nobody","prompt":"x"}}',
            "an unknown field": '{"custom_id":"f","url":"/v1/completions",'
                                '"body":{"model":"base","prompt":"x","temprature":1}}',
            "a prompt longer than the context": '{"custom_id":"l","url":"/v1/completions",'
                                                '"body":{"model":"base","prompt":'
                                                + json.dumps([5] * 100000) + '}}',
            "a token that is not in the vocabulary":
                '{"custom_id":"t","url":"/v1/completions",'
                '"body":{"model":"base","prompt":[1,99999999]}}',
            "an empty prompt": '{"custom_id":"e","url":"/v1/completions",'
                               '"body":{"model":"base","prompt":[]}}',
            "bytes that are not UTF-8": '{"custom_id":"b","url":"/v1/completions",'
                                        '"body":{"model":"base","prompt":"\udcff"}}',
        }
        source = self.work / "lines.jsonl"
        source.write_bytes("\n".join(lines.values()).encode(errors="surrogateescape") + b"\n")
        out = self.work / "lines.out"
        code, text = self.run("run-batch", self.args.model, "-i", source, "-o", out,
                              "--served-model-name", "base")
        answers = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        self.report("batch file: a line out for a line in",
                    f"exit {code}, {len(answers)} lines for {len(lines)}",
                    code == 0 and len(answers) == len(lines))
        for (what, _), answer in zip(lines.items(), answers):
            status = answer["response"]["status_code"]
            message = answer["response"]["body"].get("error", {}).get("message", "")
            if what == "good":
                self.report("batch file: the good line", f"status {status}", status == 200)
            else:
                self.report(f"batch line: {what}", message,
                            400 <= status < 500 and len(message) > 20 and "\n" not in message)
        self.expect("batch file: missing", ["run-batch", self.args.model, "-i", self.work / "nope",
                                            "-o", out], 1, "nope")
        self.expect("run: unknown tenant", ["run", self.args.model, "-p", "x", "--as", "base,who"],
                    0, "who")
        self.expect("usage: unknown flag", ["run", self.args.model, "-p", "x", "--nope"], 2, "nope")
        self.expect("usage: no command", [], 2, "subcommand")
        self.expect("usage: a dtype that is not served",
                    ["run", self.args.model, "-p", "x", "--dtype", "float16"], 2, "float16")
        for flag, value in (("--lora-modules", "foo"), ("--kv-cache-dtype", "int4"),
                            ("--kv-bytes", "-5"), ("--max-num-batched-tokens", "100000"),
                            ("--as", "")):
            self.expect(f"usage: {flag} {value}",
                        ["run", self.args.model, "-p", "x", flag, value], 2, flag)
        self.expect("usage: no prompt", ["run", self.args.model], 2, "prompt")
        self.expect("run: a prompt file that is a folder",
                    ["run", self.args.model, "--prompt-file", self.work], 1, "folder")
        same = self.work / "same.jsonl"
        same.write_text("{}\n")
        self.expect("batch file: the output is the input",
                    ["run-batch", self.args.model, "-i", same, "-o", same], 2, "another file")
        self.report("batch file: and the input is unharmed", same.read_text(),
                    same.read_text() == "{}\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--lorica", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--adapters", required=True)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        case = Case(args, work)
        case.models()
        case.adapters()
        case.requests()
    print(f"bad input: {case.count - len(case.failed)} passed, {len(case.failed)} failed")
    return 1 if case.failed else 0


if __name__ == "__main__":
    sys.exit(main())
