"""OpenVINO GenAI as a worker: continuous batching on a CPU, f16 weights.

  openvino_worker.py EXPORTED_DIR ADAPTER_DIR...

A call of its generate() takes one set of adapters a prompt; the batch is one call. The model's
folder is exported beforehand (optimum-cli export openvino --weight-format fp16).
"""

import json
import sys
import time

import openvino_genai as ov
import worker


def scale(path):
    with open(f"{path}/adapter_config.json") as text:
        config = json.load(text)
    return config["lora_alpha"] / config["r"]


def open_peer():
    model_dir, adapters = sys.argv[1], sys.argv[2:]
    loaded = [ov.Adapter(f"{path}/adapter_model.safetensors") for path in adapters]
    # alpha / r is left to the caller.
    weights = [scale(path) for path in adapters]
    config = ov.AdapterConfig()
    for adapter, weight in zip(loaded, weights):
        config.add(adapter, weight)
    scheduler = ov.SchedulerConfig()
    scheduler.cache_size = 1
    scheduler.max_num_seqs = 32
    pipe = ov.ContinuousBatchingPipeline(model_dir, scheduler, "CPU", {"adapters": config})

    def answer(requests):
        began = time.monotonic()
        groups = {}
        for index, request in enumerate(requests):
            groups.setdefault(request["adapter"], []).append(index)
        tokens, seconds = [0] * len(requests), [0.0] * len(requests)
        # One adapter set a call: the groups go one after another.
        for adapter, members in groups.items():
            options = []
            for index in members:
                option = ov.GenerationConfig()
                option.max_new_tokens = requests[index]["tokens"]
                option.ignore_eos = True
                option.do_sample = False
                option.adapters = (
                    ov.AdapterConfig()
                    if adapter is None
                    else ov.AdapterConfig(loaded[adapter], weights[adapter])
                )
                options.append(option)
            results = pipe.generate([requests[index]["prompt"] for index in members], options)
            for index, result in zip(members, results):
                # The end of a text is ignored, and the library's own count is the whole call's.
                tokens[index] = requests[index]["tokens"] if result.m_generation_ids else 0
                seconds[index] = time.monotonic() - began
        return tokens, seconds

    return f"OpenVINO GenAI {ov.__version__}, f16", answer


worker.serve(open_peer)
