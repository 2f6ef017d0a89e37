#!/usr/bin/env python3
"""Writes the 20 adapters of the comparison: PEFT folders of random factors for a base in a folder.

  python3 bench/make_adapters.py MODEL_DIR OUT_DIR

Ranks 8, 16, 32 and 64 in turn, on all seven linears; every fourth acts on q and v alone. Values are
small normals that bf16 holds exactly, stored as f32, so that no server loses any. Needs numpy.
"""

import argparse
import json
import pathlib

import numpy as np

COUNT = 20
RANKS = (8, 16, 32, 64)
PROJECTIONS = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}


def shapes(config):
    """(outputs, inputs) of each projection of a Llama."""
    width = config["hidden_size"]
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or width // heads
    queries = heads * head
    keys = config.get("num_key_value_heads", heads) * head
    ffn = config["intermediate_size"]
    return {
        "q_proj": (queries, width),
        "k_proj": (keys, width),
        "v_proj": (keys, width),
        "o_proj": (width, queries),
        "gate_proj": (ffn, width),
        "up_proj": (ffn, width),
        "down_proj": (width, ffn),
    }


def bf16_exact(values):
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def write_safetensors(path, tensors):
    """The format of huggingface/safetensors: length, JSON header, bytes."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            out.write(array.tobytes())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    config = json.loads((args.model / "config.json").read_text())
    sizes = shapes(config)
    random = np.random.default_rng(1)
    for index in range(COUNT):
        rank = RANKS[index // 4 % 4] if index % 4 == 3 else RANKS[index % 4]
        targets = ["q_proj", "v_proj"] if index % 4 == 3 else list(sizes)
        tensors = {}
        for layer in range(config["num_hidden_layers"]):
            for block, names in PROJECTIONS.items():
                for name in (name for name in names if name in targets):
                    n, k = sizes[name]
                    key = f"base_model.model.model.layers.{layer}.{block}.{name}.lora_"
                    a = random.standard_normal((rank, k)) / np.sqrt(k)
                    b = random.standard_normal((n, rank)) * 0.02
                    tensors[key + "A.weight"] = bf16_exact(a)
                    tensors[key + "B.weight"] = bf16_exact(b)
        folder = args.out / f"a{index:02}"
        folder.mkdir(parents=True, exist_ok=True)
        write_safetensors(folder / "adapter_model.safetensors", tensors)
        (folder / "adapter_config.json").write_text(
            json.dumps(
                {
                    "peft_type": "LORA",
                    "task_type": "CAUSAL_LM",
                    "base_model_name_or_path": str(args.model.name),
                    "r": rank,
                    "lora_alpha": 16,
                    "lora_dropout": 0.0,
                    "bias": "none",
                    "target_modules": targets,
                },
                indent=1,
            )
        )
    print(f"{COUNT} adapters in {args.out}")


if __name__ == "__main__":
    main()
