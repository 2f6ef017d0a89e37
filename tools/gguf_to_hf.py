#!/usr/bin/env python3
"""Dequantises a llama-type GGUF file into a Hugging Face folder.

The folder holds the very values that the GGUF blocks stand for, so a Hugging Face model and Lorica
can be compared on the same weights. With --dtype float32 nothing is rounded; --dtype bfloat16
rounds each value once, to nearest even.

  python3 tools/gguf_to_hf.py models/SmolLM2-135M-Instruct.gguf models/SmolLM2-135M-Instruct-f32
  python3 tools/gguf_to_hf.py --dtype bfloat16 models/SmolLM2-135M-Instruct.gguf OUT

Needs numpy and gguf. Only byte-level BPE vocabularies (kind gpt2, pre smollm) are written.
"""

import argparse
import json
import pathlib
import struct

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4

BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def hf_name(name):
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    blk, layer, part, kind = name.split(".")
    if blk != "blk" or part not in BLOCK_NAMES or kind != "weight":
        raise SystemExit(f"tensor {name}: not a tensor of a llama-type model")
    return f"model.layers.{layer}.{BLOCK_NAMES[part]}.weight"


def to_hf_row_order(w, heads):
    """GGUF interleaves the two rotary halves of each head's rows; Hugging Face keeps them apart."""
    rows, cols = w.shape
    half = rows // heads // 2
    return np.ascontiguousarray(
        w.reshape(heads, half, 2, cols).swapaxes(1, 2).reshape(rows, cols)
    )


def to_bf16_bits(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path, tensors, dtype):
    """tensors: name -> f32 array. Written by hand because numpy has no bf16."""
    header = {"__metadata__": {"format": "pt"}}
    size, begin = (4 if dtype == "float32" else 2), 0
    for name in sorted(tensors):
        end = begin + tensors[name].size * size
        header[name] = {
            "dtype": "F32" if dtype == "float32" else "BF16",
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            x = tensors[name]
            (x if dtype == "float32" else to_bf16_bits(x)).tofile(f)


def tokenizer_json(meta):
    tokens, types = meta("tokenizer.ggml.tokens"), meta("tokenizer.ggml.token_type")
    added = [
        {
            "id": i,
            "content": tokens[i],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": kind == USER_DEFINED,
            "special": kind == CONTROL,
        }
        for i, kind in enumerate(types)
        if kind in (CONTROL, USER_DEFINED)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**byte_level, "use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {t: i for i, t in enumerate(tokens)},
            "merges": list(meta("tokenizer.ggml.merges")),
        },
    }


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("gguf", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--dtype", choices=["float32", "bfloat16", "f32", "bf16"], default="float32")
    args = p.parse_args()
    dtype = {"f32": "float32", "bf16": "bfloat16"}.get(args.dtype, args.dtype)

    reader = GGUFReader(args.gguf)

    def meta(key, default=None):
        field = reader.fields.get(key)
        return default if field is None else field.contents()

    if meta("general.architecture") != "llama" or meta("tokenizer.ggml.pre") != "smollm":
        raise SystemExit(f"{args.gguf}: expected architecture llama with pre-tokenizer smollm")
    heads = meta("llama.attention.head_count")
    kv_heads = meta("llama.attention.head_count_kv", heads)

    tensors = {}
    for t in reader.tensors:
        shape = tuple(int(d) for d in reversed(t.shape))
        w = dequantize(t.data, t.tensor_type).astype(np.float32, copy=False).reshape(shape)
        if t.name.endswith("attn_q.weight"):
            w = to_hf_row_order(w, heads)
        elif t.name.endswith("attn_k.weight"):
            w = to_hf_row_order(w, kv_heads)
        tensors[hf_name(t.name)] = np.ascontiguousarray(w)
    tied = "lm_head.weight" not in tensors
    bos, eos = meta("tokenizer.ggml.bos_token_id"), meta("tokenizer.ggml.eos_token_id")
    pad = meta("tokenizer.ggml.padding_token_id", eos)
    tokens = meta("tokenizer.ggml.tokens")

    args.out.mkdir(parents=True, exist_ok=True)

    def write(name, value, indent=2):
        text = json.dumps(value, indent=indent, ensure_ascii=False)
        (args.out / name).write_text(text + "\n", encoding="utf-8")

    write_safetensors(args.out / "model.safetensors", tensors, dtype)
    write(
        "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": bos,
            "eos_token_id": eos,
            "pad_token_id": pad,
            "head_dim": meta("llama.rope.dimension_count"),
            "hidden_act": "silu",
            "hidden_size": meta("llama.embedding_length"),
            "initializer_range": 0.041666666666666664,
            "intermediate_size": meta("llama.feed_forward_length"),
            "max_position_embeddings": meta("llama.context_length"),
            "mlp_bias": False,
            "num_attention_heads": heads,
            "num_hidden_layers": meta("llama.block_count"),
            "num_key_value_heads": kv_heads,
            # The file keeps an f32; the nearest short decimal is what the model was made with.
            "rms_norm_eps": float(f"{meta('llama.attention.layer_norm_rms_epsilon'):.6g}"),
            "rope_scaling": None,
            "rope_theta": float(meta("llama.rope.freq_base")),
            "tie_word_embeddings": tied,
            "torch_dtype": dtype,
            "use_cache": True,
            "vocab_size": tensors["model.embed_tokens.weight"].shape[0],
        },
    )
    write("generation_config.json", {"bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad})
    write("tokenizer.json", tokenizer_json(meta), indent=None)
    write(
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": False,
            "add_prefix_space": False,
            "bos_token": tokens[bos],
            "eos_token": tokens[eos],
            "pad_token": tokens[pad],
            "unk_token": tokens[meta("tokenizer.ggml.unknown_token_id", 0)],
            "clean_up_tokenization_spaces": False,
            "model_max_length": meta("llama.context_length"),
            "chat_template": meta("tokenizer.chat_template"),
        },
    )
    print(f"{args.out}: {len(tensors)} tensors, {dtype}, {'tied' if tied else 'untied'} head")


if __name__ == "__main__":
    main()
