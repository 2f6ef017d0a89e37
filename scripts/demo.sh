#!/usr/bin/env bash
# Builds Lorica, fetches SmolLM2-135M-Instruct, and answers one prompt as the base model and as four
# tenants in one mixed batch. Usage: demo.sh [PROMPT]
set -euo pipefail
cd "$(dirname "$0")/.."
prompt=${1:-What is the capital of France?}

scripts/install_packages.sh build model
cmake --preset release >/dev/null
cmake --build --preset release --target lorica -- --quiet
scripts/get_model.sh

lorica=$(find build/release -name lorica -type f -perm -u+x)
echo
echo "prompt: $prompt"
"$lorica" run models/SmolLM2-135M-Instruct.gguf --adapters examples/adapters \
  --as base,json,pirate,french,haiku --max-tokens 60 --stats \
  --prompt "<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
$prompt<|im_end|>
<|im_start|>assistant
"
