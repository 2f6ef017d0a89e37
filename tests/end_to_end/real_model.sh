#!/usr/bin/env bash
# The program on SmolLM2 with the trained adapters: parity with PEFT, isolation.
# Usage: real_model.sh LORICA
set -euo pipefail
cd "$(dirname "$0")/../.."
lorica=$1
model=models/SmolLM2-135M-Instruct.gguf
python3 tests/parity/check_parity.py --lorica "$lorica" --model "$model" \
  --adapters examples/adapters --goldens tests/parity/goldens/smollm2_gguf_f32.json
python3 tests/end_to_end/isolation.py --lorica "$lorica" --model "$model" \
  --adapters examples/adapters
