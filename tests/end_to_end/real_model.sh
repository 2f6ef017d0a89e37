#!/usr/bin/env bash
# The program on SmolLM2 with the trained adapters: parity with PEFT in fp32 on the GGUF file and on a
# bf16 Hugging Face folder made from it, isolation in both dtypes. Fetches what is missing.
# Usage: real_model.sh LORICA [--full]; the full form takes every way to run a batch, every
# instruction set and every type of weights, and an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
lorica=$1
form=${2:-}
scripts/get_model.sh
gguf=models/SmolLM2-135M-Instruct.gguf
bf16=models/SmolLM2-135M-Instruct-bf16
if [ ! -f $bf16/model.safetensors ]; then
  python3 -m venv models/.venv
  models/.venv/bin/pip install --quiet --disable-pip-version-check gguf numpy
  models/.venv/bin/python tools/gguf_to_hf.py --dtype bfloat16 $gguf $bf16
fi

parity() {
  python3 tests/parity/check_parity.py --lorica "$lorica" --model "$1" \
    --adapters examples/adapters --goldens tests/parity/goldens/"$2".json
}
parity $gguf smollm2_gguf_f32
parity $bf16 smollm2_bf16
isolation() {
  python3 tests/end_to_end/isolation.py --lorica "$lorica" --model $gguf \
    --adapters examples/adapters "$@"
}
if [ "$form" = --full ]; then
  isolation --full
  isolation --full --isa all --dtype bfloat16 --weights int8 --weights q4 --weights gguf
  isolation --full --isa all --dtype bfloat16 --kv-cache-dtype int8
else
  isolation --dtype float32
  isolation --dtype bfloat16 --weights auto --weights gguf
fi
