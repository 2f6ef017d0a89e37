#!/usr/bin/env bash
# The program on the tiny models of the repository: parity with PEFT, isolation, bad input, HTTP.
# Usage: tiny.sh LORICA
set -euo pipefail
cd "$(dirname "$0")/../.."
lorica=$1
tiny=tests/fixtures/tiny

for folder in "$tiny"/*/; do
  model=${folder%/}
  gguf=$(find "$model" -maxdepth 1 -name '*.gguf')
  [ -z "$gguf" ] || model=$gguf
  python3 tests/parity/check_parity.py --lorica "$lorica" --model "$model" \
    --adapters "$folder/adapters" --goldens "$folder/goldens.json" --tolerance 2e-5
done
python3 tests/end_to_end/isolation.py --lorica "$lorica" --model $tiny/qwen3 \
  --adapters $tiny/qwen3/adapters --full
python3 tests/end_to_end/isolation.py --lorica "$lorica" --model $tiny/qwen3 \
  --adapters $tiny/qwen3/adapters --isa all --weights int8 --weights q4
python3 tests/end_to_end/isolation.py --lorica "$lorica" --model $tiny/qwen3 \
  --adapters $tiny/qwen3/adapters --isa all --kv-cache-dtype int8
python3 tests/end_to_end/bad_input.py --lorica "$lorica" --model $tiny/llama \
  --adapters $tiny/llama/adapters
python3 tests/end_to_end/http_api.py --lorica "$lorica" --model $tiny/llama \
  --adapters $tiny/llama/adapters
python3 tests/end_to_end/live_adapters.py --lorica "$lorica" --model $tiny/llama \
  --adapters $tiny/llama/adapters
python3 tests/parity/check_merge.py --lorica "$lorica" --model $tiny/llama \
  --adapters $tiny/llama/adapters
python3 tests/parity/check_merge.py --lorica "$lorica" --model $tiny/llama_gguf/model.gguf \
  --adapters $tiny/llama_gguf/adapters --tokenizer $tiny/llama
