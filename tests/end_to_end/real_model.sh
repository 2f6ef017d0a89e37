#!/usr/bin/env bash
# The program on SmolLM2 with the trained adapters: parity with PEFT in fp32 on the GGUF file and on a
# bf16 Hugging Face folder made from it, isolation in both dtypes. Fetches what is missing.
# Usage: real_model.sh LORICA
set -euo pipefail
cd "$(dirname "$0")/../.."
lorica=$1
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
for dtype in float32 bfloat16; do
  python3 tests/end_to_end/isolation.py --lorica "$lorica" --model $gguf \
    --adapters examples/adapters --dtype $dtype
done
python3 tests/end_to_end/isolation.py --lorica "$lorica" --model $gguf \
  --adapters examples/adapters --dtype bfloat16 --weights int8 --weights q4 --weights gguf
