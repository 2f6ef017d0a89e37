"""mistral.rs as a worker: its Python Runner with LoRA, all requests as streams at once.

  mistralrs_worker.py MODEL_DIR ADAPTER_DIR...
"""

import sys
import time

import mistralrs
import worker


def open_peer():
    model_dir, adapters = sys.argv[1], sys.argv[2:]
    runner = mistralrs.Runner(
        mistralrs.Which.Lora(
            model_id=model_dir,
            adapters=[mistralrs.LoraAdapter(f"a{i}", path) for i, path in enumerate(adapters)],
            max_adapters=32,
            max_rank=64,
        ),
        max_seqs=32,
    )

    def ask(request):
        return runner.send_chat_completion_request(
            mistralrs.ChatCompletionRequest(
                model="default",
                messages=[{"role": "user", "content": request["prompt"]}],
                max_tokens=request["tokens"],
                temperature=0.0,
                ignore_eos=True,
                stream=True,
                adapter=None if request["adapter"] is None else f"a{request['adapter']}",
            )
        )

    def answer(requests):
        began = time.monotonic()
        # A call that is not streamed holds the runner until its answer is whole.
        streams = [ask(request) for request in requests]
        tokens, seconds = [], []
        for stream in streams:
            tokens.append(sum(1 for _ in stream))
            seconds.append(time.monotonic() - began)
        return tokens, seconds

    return "mistral.rs, f32", answer


worker.serve(open_peer)
