#!/usr/bin/env python3
"""Makes tests/fixtures/tiny: models of two layers, one a family, with PEFT adapters and goldens.

Needs torch, transformers, peft, tokenizers, safetensors and gguf. Everything is seeded, so a
second run writes the same numbers. A golden holds, for the base and each adapter, the
log-probability of every prompt token after the first, and greedy tokens, from PEFT in fp32.

    python tools/make_tiny_models.py [FAMILY ...]
"""

import json
import math
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

OUT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "tiny"
VOCAB = 320
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
EOS = 2
PROMPT_LENGTHS = [1, 2, 15, 16, 17, 64, 300]
GREEDY_PROMPTS = [2, 4, 5]
GREEDY_TOKENS = 12
TEXT = """The lorica was a coat of many plates, each tied to its neighbours, and one man wore it.
A legion marched at dawn; the smith stayed behind and mended what the day before had broken.
Every plate is its own piece of work, yet the coat is one. 12 hoops, 34 hinges, 560 rivets.
When the rain came they sang, and when the sun came they sang louder, as soldiers always do.
"""
CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
                 "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SIZES = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
             bos_token_id=1, eos_token_id=EOS, pad_token_id=None, attn_implementation="eager")
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64, rope_theta=10000.0)


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=SPECIALS, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    assert tokenizer.get_vocab_size() == VOCAB
    return tokenizer


def save_tokenizer(tokenizer, folder):
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIALS[1],
              "eos_token": SPECIALS[2], "unk_token": SPECIALS[0], "add_bos_token": False,
              "clean_up_tokenization_spaces": False, "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def randomise(model, dtype, seed):
    """Weights that make peaked, varied distributions, each exact in `dtype`."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                value = 1.0 + 0.2 * noise
            elif name.endswith("bias"):
                value = 0.3 * noise
            elif "embed_tokens" in name:
                value = 0.25 * noise
            else:
                value = noise * (1.0 / math.sqrt(p.shape[1]))
            p.copy_(value.to(dtype).float())
    return model.float().eval()


ADAPTERS = {
    # name: (LoraConfig fields, dtype of the file)
    "plain": (dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]), torch.bfloat16),
    "rslora": (dict(r=8, lora_alpha=4, use_rslora=True,
                    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                                    "up_proj", "down_proj"]), torch.float16),
    "pattern": (dict(r=6, lora_alpha=12, target_modules=["q_proj", "v_proj"],
                     alpha_pattern={"layers.1.self_attn.v_proj": 3}), torch.float32),
    "mlp": (dict(r=16, lora_alpha=16, target_modules=["gate_proj", "up_proj", "down_proj"]),
            torch.bfloat16),
}


def make_adapters(model, folder, seed):
    for index, (name, (fields, dtype)) in enumerate(ADAPTERS.items()):
        wrapped = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **fields))
        generator = torch.Generator().manual_seed(seed * 100 + index)
        with torch.no_grad():
            for key, p in wrapped.named_parameters():
                if "lora_" not in key:
                    continue
                scale = 1.0 / math.sqrt(p.shape[1]) if "lora_A" in key else 0.1
                p.copy_((torch.randn(p.shape, generator=generator) * scale).to(dtype).float())
        target = folder / "adapters" / name
        wrapped.save_pretrained(str(target))
        path = target / "adapter_model.safetensors"
        save_file({k: v.to(dtype).contiguous() for k, v in load_file(path).items()}, path,
                  metadata={"format": "pt"})
        config = json.loads((target / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = "tiny"
        config["target_modules"] = sorted(config["target_modules"])
        (target / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
        (target / "README.md").unlink(missing_ok=True)
        model = wrapped.unload()
    return model


def log_probs(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    table = torch.log_softmax(logits, dim=-1)
    return [round(float(table[i, ids[i + 1]]), 7) for i in range(len(ids) - 1)]


def greedy(model, ids):
    """Tokens, and for each how far the second best logit lay behind."""
    ids, tokens, gaps = list(ids), [], []
    for _ in range(GREEDY_TOKENS):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1].double()
        best = torch.topk(logits, 2)
        tokens.append(int(best.indices[0]))
        gaps.append(round(float(best.values[0] - best.values[1]), 5))
        ids.append(tokens[-1])
    return {"tokens": tokens, "gaps": gaps}


def make_goldens(model, folder, seed):
    rng = np.random.default_rng(seed)
    prompts = [[int(t) for t in rng.integers(3, VOCAB, n)] for n in PROMPT_LENGTHS]
    result = {"prompts": prompts, "greedy_prompts": GREEDY_PROMPTS, "variants": {}}
    for name in ["base", *ADAPTERS]:
        runner = model
        if name != "base":
            runner = PeftModel.from_pretrained(model, str(folder / "adapters" / name),
                                               autocast_adapter_dtype=True).float().eval()
        result["variants"][name] = {
            "logprobs": [log_probs(runner, p) for p in prompts],
            "greedy": [greedy(runner, prompts[i]) for i in GREEDY_PROMPTS]}
        if name != "base":
            model = runner.unload()
    (folder / "goldens.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")


def save_model(model, dtype, folder):
    tied = model.config.tie_word_embeddings
    tensors = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()
               if not (tied and k == "lm_head.weight")}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.dtype = dtype
    model.config.save_pretrained(folder)
    model.config.dtype = torch.float32
    (folder / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [EOS], "do_sample": False}) + "\n")


GGUF_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
              "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
              "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GGUF_TYPES = {"token_embd": "Q8_0", "attn_q": "Q4_0", "attn_k": "Q4_1", "attn_v": "Q8_0",
              "attn_output": "F16", "ffn_gate": "Q4_0", "ffn_up": "F32", "ffn_down": "BF16"}


def gguf_name(name):
    name = name.removesuffix(".weight")
    if name == "model.embed_tokens":
        return "token_embd"
    if name == "model.norm":
        return "output_norm"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}"


def save_gguf(model, tokenizer, path):
    """Writes the model with mixed types, and gives `model` the values that the file now holds."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(LLAMA3["rope_theta"])
    writer.add_vocab_size(VOCAB)
    spec = json.loads(tokenizer.to_str())
    vocab = sorted(spec["model"]["vocab"].items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([token for token, _ in vocab])
    writer.add_token_types([3 if token in SPECIALS else 1 for token, _ in vocab])
    writer.add_token_merges([" ".join(m) if isinstance(m, list) else m
                             for m in spec["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(EOS)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)

    base = np.float32(LLAMA3["rope_theta"]) ** (
        np.arange(0, config.head_dim, 2, dtype=np.float32) / np.float32(config.head_dim))
    divisors = []
    for frequency in 1.0 / base:
        wave = 2 * math.pi / frequency
        old = LLAMA3["original_max_position_embeddings"]
        low, high = LLAMA3["low_freq_factor"], LLAMA3["high_freq_factor"]
        if wave < old / high:
            divisors.append(1.0)
        elif wave > old / low:
            divisors.append(LLAMA3["factor"])
        else:
            smooth = (old / wave - low) / (high - low)
            divisors.append(1.0 / ((1 - smooth) / LLAMA3["factor"] + smooth))
    divisors = np.array(divisors, dtype=np.float32)
    writer.add_tensor("rope_freqs.weight", divisors)
    # The file's frequencies are these quotients, an ulp away from transformers' own formula.
    model.model.rotary_emb.inv_freq.copy_(torch.from_numpy(np.float32(1.0) / base / divisors))

    with torch.no_grad():
        for name, p in model.named_parameters():
            stored = gguf_name(name)
            kind = gguf.GGMLQuantizationType[GGUF_TYPES.get(stored.split(".")[-1], "F32")]
            data = gguf.quants.quantize(p.numpy(), kind)
            p.copy_(torch.from_numpy(gguf.quants.dequantize(data, kind).reshape(p.shape)))
            heads = {"attn_q": config.num_attention_heads,
                     "attn_k": config.num_key_value_heads}.get(stored.split(".")[-1])
            if heads:
                # llama.cpp's order: the two halves of a head interleaved, row by row.
                rows = data.shape[0]
                data = (data.reshape(heads, 2, rows // heads // 2, -1).swapaxes(1, 2)
                        .reshape(data.shape))
            writer.add_tensor(stored + ".weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama(rope, tied):
    return LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16, tie_word_embeddings=tied,
                                        rms_norm_eps=1e-5, rope_parameters=rope))


def make_family(name, tokenizer):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seed = 1 + ["llama", "llama_gguf", "qwen2", "qwen3"].index(name)
    torch.manual_seed(seed)
    if name == "llama":
        dtype = torch.bfloat16
        model = randomise(llama(LLAMA3, tied=False), dtype, seed)
    elif name == "llama_gguf":
        dtype = torch.float32
        model = randomise(llama(LLAMA3, tied=True), dtype, seed)
    elif name == "qwen2":
        dtype = torch.float16
        rope = dict(rope_type="linear", factor=2.0, rope_theta=10000.0)
        model = randomise(Qwen2ForCausalLM(Qwen2Config(
            **SIZES, tie_word_embeddings=True, rope_parameters=rope)), dtype, seed)
    else:
        dtype = torch.float32
        sizes = SIZES | dict(intermediate_size=64)
        rope = dict(rope_type="default", rope_theta=1000000.0)
        model = randomise(Qwen3ForCausalLM(Qwen3Config(
            **sizes, head_dim=32, tie_word_embeddings=True, rope_parameters=rope)), dtype, seed)
    if name == "llama_gguf":
        save_gguf(model, tokenizer, str(folder / "model.gguf"))
    else:
        save_model(model, dtype, folder)
        save_tokenizer(tokenizer, folder)
    model = make_adapters(model, folder, seed)
    make_goldens(model, folder, seed)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def main():
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    for name in sys.argv[1:] or ["llama", "llama_gguf", "qwen2", "qwen3"]:
        make_family(name, tokenizer)
        print(name, sum(f.stat().st_size for f in (OUT / name).rglob("*") if f.is_file()), "bytes")


if __name__ == "__main__":
    main()
