#!/usr/bin/env python3
"""Compares Lorica's tokenizer with Hugging Face's `tokenizers`, and makes the test fixtures.

  tokenizer_oracle.py --fixtures tests/fixtures/tokenizers
      trains a tiny byte-level tokenizer of each family and writes it with expected ids
  tokenizer_oracle.py --cli PATH/tokenizer_cli --model PATH [--count N] [--seed N]
      compares any tokenizer.json, or a .gguf through its Hugging Face equivalent
  tokenizer_oracle.py --cli PATH/tokenizer_cli --random N
      compares N tokenizers of random components
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = CL100K % r"\p{N}{1,3}"
QWEN2 = CL100K % r"\p{N}"
NEMO = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

CORPUS = """The legion closed its ranks and every plate of the coat held. We'll see what they've done;
it isn't over, I'm told, and she'd rather wait until 1984 or 2026, whichever comes first.
def main(argc, argv):\n    for i in range(10):\n        print(i, argv[i])\n\n    return 0
Les soldats romains portaient une armure faite de bandes de fer, légère et très solide.
Die Rüstung wurde aus eisernen Bändern gefertigt, die übereinander lagen. Größe: 42 Zentimeter.
Римский доспех из стальных полос. Το πανοπλία των Ρωμαίων. درع روماني من شرائح الحديد
罗马军团的铠甲由铁片制成。ローマ軍団の鎧は鉄の帯でできている。로마 군단의 갑옷
{"name": "lorica", "rank": 16, "alpha": 32.0, "modules": ["q_proj", "v_proj"]}
SELECT count(*) FROM tenants WHERE adapter = 'none' AND tokens > 1000;
""".split("\n")

FRAGMENTS = [
    "the", " legion", "Hello", " World", "'s", "'S", "'ll", "'VE", "don't", "I'M", "'\u017f",
    "caf\u00e9", "cafe\u0301", "na\u0308ive", "e\u0323\u0307", "e\u0307\u0323", "\u212b", "\u00c5",
    "\u1e9b\u0323", "\u0958", "\u0915\u093c", "\u1112\u1161\u11ab", "\ud55c\uae00", "\ufb01n",
    "罗马", "軍団", "こんにちは", "カタカナ", "สวัสดี", "नमस्ते", "مرحبا", "שלום", "Ελληνικά", "Привет",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1eb\U0001f1f7",
    "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "0", "7", "42", "1984", "123456789", "3.14", "1,000",
    "\u0661\u0662\u0663", "\u096a\u096b", "\u00b2", "\u00bd", "\u2167", "\u4e00\u4e8c", "\u2460",
    "\U0001d7d8\U0001d7d9", "\uff11\uff12", "\u3007", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n",
    " \n", "\n ", "\u00a0", "\u3000", "\u2009", "\u180e", "\u200b", "\u0085", "\u2028", "\u1680",
    "\x0b", "\x0c", "\x00", "\x01", "\x1f", "\x7f", "\ufeff", "\ufffd", "\u00ad", ".", ",", "!?", "...",
    "--", "->", "=>", "/*", "*/", "//", "\\", "(", ")", "[]", "{}", "@", "#tag", "$9", "%", "_", "__x",
    "CamelCase", "UPPER", "mixedCASE9", "x1y2", "a_b", "\u0130", "\u01c5", "\u02b0", "\u0300",
    "https://a.b/c?d=e&f=1", "<", ">", "<|", "|>", "\U00010348", "\U000e0001", "\ue000", "\uffff",
]


def texts(rng, count, specials=()):
    pool = FRAGMENTS + [s for s in specials for _ in range(3)]
    yield ""
    for fragment in pool:
        yield fragment
    for _ in range(count):
        kind = rng.random()
        if kind < 0.6:
            yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 16)))
        elif kind < 0.75:
            yield " ".join(rng.choice(CORPUS)[: rng.randint(0, 80)] for _ in range(3))
        elif kind < 0.85:
            yield "".join(rng.choice(" \n\t\r a1\u00a0") for _ in range(rng.randint(1, 40)))
        else:
            yield "".join(random_char(rng) for _ in range(rng.randint(1, 24)))


ASSIGNED = None


def random_char(rng):
    # Only characters that old and new Unicode tables agree on: the libraries' versions differ.
    import unicodedata

    global ASSIGNED
    if ASSIGNED is None:
        ASSIGNED = [
            c for c in itertools.chain(range(0xD800), range(0xE000, 0x20000))
            if unicodedata.category(chr(c)) not in ("Cn", "Co")
            and unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"
        ]
    return chr(rng.choice(ASSIGNED))


def byte_level(use_regex, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def train(tokenizer, specials, vocab_size=500):
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)


def template(tokenizer, bos):
    return processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B",
        special_tokens=[(bos, tokenizer.token_to_id(bos))],
    )


def family(name):
    model = models.BPE(ignore_merges=name in ("llama3", "nemo"))
    tok = Tokenizer(model)
    tok.decoder = decoders.ByteLevel()
    if name == "llama3":
        tok.pre_tokenizer = pre_tokenizers.Sequence([split(LLAMA3), byte_level(False)])
        train(tok, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
        tok.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), template(tok, "<|begin_of_text|>")])
    elif name == "qwen2":
        tok.normalizer = normalizers.NFC()
        tok.pre_tokenizer = pre_tokenizers.Sequence([split(QWEN2), byte_level(False)])
        train(tok, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
        tok.post_processor = processors.ByteLevel(trim_offsets=False)
        tok.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    elif name == "smollm2":
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level(True)])
        train(tok, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    elif name == "nemo":
        tok.pre_tokenizer = pre_tokenizers.Sequence([split(NEMO), byte_level(False)])
        train(tok, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])
        tok.post_processor = template(tok, "<s>")
    elif name == "gpt2":
        tok.pre_tokenizer = byte_level(True, prefix=True)
        train(tok, ["<|endoftext|>"])
        tok.add_tokens([
            AddedToken("<word>", single_word=True, normalized=False),
            AddedToken("<left>", lstrip=True, normalized=False),
            AddedToken("<right>", rstrip=True, normalized=False),
            AddedToken("<both>", lstrip=True, rstrip=True, normalized=True),
            AddedToken("the legion", normalized=True),
            AddedToken("  ", normalized=False),
        ])
    return tok


FAMILIES = ["llama3", "qwen2", "smollm2", "nemo", "gpt2"]


def old_merges(data):
    """The first form of "merges": "a b" for ["a", "b"]."""
    data["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]


def expectation(tok, text):
    return {
        "text": text,
        "ids": tok.encode(text).ids,
        "plain": tok.encode(text, add_special_tokens=False).ids,
        "decoded": tok.decode(tok.encode(text).ids, skip_special_tokens=False),
    }


def write_fixtures(folder, seed):
    for name in FAMILIES:
        tok = family(name)
        data = json.loads(tok.to_str())
        if name in ("smollm2", "gpt2"):
            old_merges(data)
        rng = random.Random(seed)
        specials = [t["content"] for t in data["added_tokens"]]
        cases = list(dict.fromkeys(texts(rng, 4000, specials)))
        chosen = [""] + rng.sample([c for c in cases if 1 < len(c) < 60], 50)
        cases = [expectation(tok, c) for c in chosen]
        path = os.path.join(folder, name)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as out:
            json.dump(data, out, ensure_ascii=False, separators=(",", ":"))
        with open(os.path.join(path, "expected.json"), "w", encoding="utf-8") as out:
            json.dump(cases, out, ensure_ascii=True, separators=(",", ":"))
        print(name, len(chosen), "cases")


def from_gguf(path):
    """The Hugging Face tokenizer that a GGUF file was made from."""
    from gguf import GGUFReader

    reader = GGUFReader(path)

    def field(name):
        part = reader.get_field("tokenizer.ggml." + name)
        return None if part is None else part.contents()

    tokens, types, pre = field("tokens"), field("token_type"), field("pre")
    merges = [tuple(m.split(" ", 1)) for m in field("merges")]
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges,
                               ignore_merges=pre == "llama-bpe"))
    if pre == "smollm":
        steps = [pre_tokenizers.Digits(True), byte_level(True)]
    else:
        steps = [split(QWEN2 if pre == "qwen2" else LLAMA3), byte_level(False)]
    if pre == "qwen2":
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tok.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, types):
        if kind in (3, 4):
            tok.add_tokens([AddedToken(token, special=kind == 3, normalized=False)])
    if field("add_bos_token"):
        tok.post_processor = template(tok, tokens[field("bos_token_id")])
    return tok


def random_tokenizer(rng):
    tok = Tokenizer(models.BPE(ignore_merges=rng.random() < 0.5))
    tok.decoder = decoders.ByteLevel()
    if rng.random() < 0.4:
        tok.normalizer = rng.choice(
            [normalizers.NFC(), normalizers.Sequence([normalizers.NFC()]), normalizers.Sequence([])])
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    steps = []
    for _ in range(rng.randint(0, 3)):
        kind = rng.random()
        behavior, invert = rng.choice(behaviors), rng.random() < 0.3
        if kind < 0.5:
            pattern = rng.choice([
                LLAMA3, QWEN2, NEMO, r"\s+", r"\S+", r"\d{1,2}", r"[\r\n]", r"[^\s]", r"x*", r"\p{Lu}",
                r"(?<=a)\s", r"(?=[A-Z])", r" ?\p{L}+", r"a|b|e", r"[\S]", r"^.", r".$", r".", r"\p{P}+",
            ])
            steps.append(split(pattern, behavior, invert))
        elif kind < 0.75:
            steps.append(pre_tokenizers.Split(rng.choice([" ", "e", "the", "..", "罗", "\n"]), behavior, invert))
        else:
            steps.append(pre_tokenizers.Digits(rng.random() < 0.5))
    steps.append(byte_level(rng.random() < 0.5, rng.random() < 0.3))
    tok.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    train(tok, ["<s>", "</s>"], rng.choice([300, 500, 700]))
    contents = ["<w>", "<ww>", "<w", "w>", "the", "le", "legion", " ", "  ", "\n", "caf\u00e9", "cafe\u0301",
                "1", "42", "罗马", "<|x|>", "<|", "e\u0307\u0323", "a", "_", "Ġ", "é", "\u212b", "<s> "]
    for content in rng.sample(contents, rng.randint(0, 12)):
        flags = {k: rng.random() < 0.3 for k in ("single_word", "lstrip", "rstrip", "special", "normalized")}
        # The reference loses the mark of a special token that its normalizer changes.
        flags["special"] &= not flags["normalized"] and not content.startswith("caf")
        tok.add_tokens([AddedToken(content, **flags)])
    if rng.random() < 0.5:
        last = processors.TemplateProcessing(
            single="<s> $A </s> </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
        steps = [processors.ByteLevel(), rng.choice([template(tok, "<s>"), last])]
        rng.shuffle(steps)
        tok.post_processor = processors.Sequence(steps)
    return tok


def compare(cli, path, tok, rng, count, label):
    data = json.loads(tok.to_str())
    cases = list(texts(rng, count, [t["content"] for t in data["added_tokens"]]))
    modes = [(add, parse) for add in (True, False) for parse in (True, False)]
    picked = [rng.choice(modes) for _ in cases]
    lines = [("a" if a else "n") + ("p" if p else "q") + t.encode().hex() for t, (a, p) in zip(cases, picked)]
    run = subprocess.run([cli, path], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if run.returncode != 0:
        print(f"{label}: {run.stderr.strip()}")
        return 1
    bad = 0
    answers = run.stdout.split("\n")[:-1]
    assert len(answers) == len(cases), (len(answers), len(cases))
    for text, (add, parse), answer in zip(cases, picked, answers):
        tok.encode_special_tokens = not parse
        try:
            ids = tok.encode(text, add_special_tokens=add).ids
        except BaseException as panic:  # the reference has no answer where stripped tokens overlap
            if "bad split" not in str(panic):
                raise
            continue
        want = "\t".join([
            " ".join(map(str, ids)),
            tok.decode(ids, skip_special_tokens=False).encode().hex(),
            tok.decode(ids, skip_special_tokens=True).encode().hex(),
        ])
        if want != answer:
            bad += 1
            if bad <= 3:
                print(f"{label}: {text!r} add={add} parse={parse}\n  expected {want}\n  found    {answer}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures")
    parser.add_argument("--cli")
    parser.add_argument("--model")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.fixtures:
        write_fixtures(args.fixtures, args.seed)
    bad = 0
    if args.model:
        tok = from_gguf(args.model) if args.model.endswith(".gguf") else Tokenizer.from_file(args.model)
        bad = compare(args.cli, args.model, tok, random.Random(args.seed), args.count, args.model)
        print(f"{args.model}: {bad} differences in {args.count} random texts and {len(FRAGMENTS)} fragments")
    failed = 0
    for i in range(args.random):
        rng = random.Random(args.seed * 1000003 + i)
        tok = random_tokenizer(rng)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            tok.save(path)
            failed += compare(args.cli, path, tok, rng, 200, f"random {i}") > 0
    if args.random:
        print(f"{failed} of {args.random} random tokenizers differ")
    return 1 if bad or failed else 0


if __name__ == "__main__":
    sys.exit(main())
