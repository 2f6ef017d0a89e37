#!/usr/bin/env bash
# The program on the tiny models of the repository: parity with PEFT, isolation, bad input, HTTP.
# Usage: tiny.sh LORICA [--full]; the full form holds isolation over every type of weights with every
# type of K and V, activations and instruction set, each with and without speculation.
set -euo pipefail
cd "$(dirname "$0")/../.."
lorica=$1
form=${2:-}
tiny=tests/fixtures/tiny

for folder in "$tiny"/*/; do
  model=${folder%/}
  gguf=$(find "$model" -maxdepth 1 -name '*.gguf')
  [ -z "$gguf" ] || model=$gguf
  python3 tests/parity/check_parity.py --lorica "$lorica" --model "$model" \
    --adapters "$folder/adapters" --goldens "$folder/goldens.json" --tolerance 2e-5
done
isolation() {
  local folder=$1 model
  model=$(find "$1" -maxdepth 1 -name '*.gguf')
  shift
  python3 tests/end_to_end/isolation.py --lorica "$lorica" --model "${model:-$folder}" \
    --adapters "$folder/adapters" "$@"
}
qwen=$tiny/qwen3
gguf=$tiny/llama_gguf
isolation $qwen --full
if [ "$form" = --full ]; then
  every=(--isa all --dtype float32 --dtype bfloat16 --kv-cache-dtype auto --kv-cache-dtype float32
         --kv-cache-dtype bfloat16 --kv-cache-dtype float16 --kv-cache-dtype int8)
  isolation $qwen "${every[@]}" --weights auto --weights bf16 --weights int8 --weights q4
  isolation $gguf --config $tiny/llama "${every[@]}" --weights gguf
else
  isolation $qwen --isa all --weights int8 --weights q4
  isolation $qwen --isa all --kv-cache-dtype int8
  isolation $qwen --isa all --dtype bfloat16 --weights int8 --weights q4 --kv-cache-dtype int8
  isolation $gguf --config $tiny/llama --isa all --dtype bfloat16 --weights gguf \
    --kv-cache-dtype auto --kv-cache-dtype int8
fi
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
