"""transformers and PEFT as a worker: a static batch of generate() with adapter_names, bf16.

  peft_worker.py MODEL_DIR ADAPTER_DIR...
"""

import sys
import time

import peft
import torch
import transformers
import worker


def open_peer():
    torch.set_num_threads(2)
    model_dir, adapters = sys.argv[1], sys.argv[2:]
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16)
    model = peft.PeftModel.from_pretrained(model, adapters[0], adapter_name="a0")
    for index, path in enumerate(adapters[1:], 1):
        model.load_adapter(path, adapter_name=f"a{index}")
    model.eval()

    def answer(requests):
        began = time.monotonic()
        names = ["__base__" if r["adapter"] is None else f"a{r['adapter']}" for r in requests]
        batch = tokenizer([r["prompt"] for r in requests], return_tensors="pt", padding=True)
        most = max(r["tokens"] for r in requests)
        with torch.inference_mode():
            out = model.generate(
                **batch,
                adapter_names=names,
                do_sample=False,
                min_new_tokens=most,
                max_new_tokens=most,
            )
        given = out.shape[1] - batch["input_ids"].shape[1]
        return [given] * len(requests), [time.monotonic() - began] * len(requests)

    return f"transformers {transformers.__version__} + peft {peft.__version__}, bf16", answer


worker.serve(open_peer)
