#!/usr/bin/env bash
# The long form of the benchmarks: every figure of docs/performance.md that needs no peer, measured
# on this machine, for each instruction set that runs here.
#
#   scripts/bench.sh [--isa ISA]... [CASE...]     all cases without a name; some minutes each
#
# Each case replaces its file docs/performance/CASE-ISA.csv; scripts/performance_page.py then makes
# the page of them. Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly data=docs/performance
# What `lorica bench` is called with, by case. 1.2B is synthetic; SmolLM2 has random weights of its
# shape. The adapters of smollm2-peers are 235 MB: those that the servers of other makers were given.
declare -A cases=(
  [linear]="linear --rounds 60"
  [lora]="lora --rounds 100"
  [int8]="linear --weights int8 --rounds 100"
  [q4]="linear --weights q4 --rounds 100"
  [attention]="attention --rounds 25"
  [step-smollm2]="step --shape smollm2 --dtype bfloat16 --sequences 1,8,20,64 --turns 7"
  [step-1.2b]="step --shape 1.2b --dtype bfloat16 --sequences 1,8,20,64 --steps 4 --turns 5"
  [smollm2-peers]="step --shape smollm2 --dtype bfloat16 --sequences 20 --ranks 8,8,16,32,32 --turns 7"
  [prefill-smollm2]="step --shape smollm2 --dtype bfloat16 --prefill 512 --turns 15"
  [prefill-1.2b]="step --shape 1.2b --dtype bfloat16 --prefill 512 --turns 5"
  [distinct-smollm2]="step --shape smollm2 --dtype bfloat16 --scaling distinct --ranks 16 --steps 4 --turns 7"
  [distinct-1.2b]="step --shape 1.2b --dtype bfloat16 --scaling distinct --ranks 16 --steps 2 --turns 5"
  [rank]="step --shape smollm2 --dtype bfloat16 --scaling rank --steps 8 --turns 7"
  [batch]="step --shape smollm2 --dtype bfloat16 --scaling batch --ranks 16 --steps 8 --turns 7"
  [context]="step --shape smollm2 --dtype bfloat16 --scaling context --ranks 16 --steps 8 --turns 7"
  [loaded]="step --shape smollm2 --dtype bfloat16 --scaling loaded --steps 8 --turns 9"
  [threads]="step --shape smollm2 --dtype bfloat16 --scaling threads --ranks 16 --steps 8 --turns 7"
)
readonly order=(linear lora int8 q4 attention step-smollm2 step-1.2b smollm2-peers prefill-smollm2
                prefill-1.2b distinct-smollm2 distinct-1.2b rank batch context loaded threads)

isas=()
while [ "${1:-}" = --isa ]; do
  isas+=("$2")
  shift 2
done
[ ${#isas[@]} -gt 0 ] || isas=(avx2 avx512)
[ $# -gt 0 ] || set -- "${order[@]}"

lorica=$(find build/release -name lorica -type f -perm -u+x 2>/dev/null | head -1)
[ -n "$lorica" ] || { echo "$0: build it first: cmake --preset release && cmake --build --preset release --target lorica" >&2; exit 2; }
mkdir -p "$data"
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
for case in "$@"; do
  arguments=${cases[$case]:-}
  [ -n "$arguments" ] || { echo "$0: no case '$case': expected ${order[*]}" >&2; exit 2; }
  for isa in "${isas[@]}"; do
    if ! LORICA_ISA=$isa "$lorica" bench linear --rounds 1 >/dev/null 2>&1; then
      echo "--- $case: this processor has no $isa"
      continue
    fi
    echo "--- LORICA_ISA=$isa lorica bench $arguments"
    # shellcheck disable=SC2086
    LORICA_ISA=$isa "$lorica" bench $arguments --csv "$figures"
    { echo "# LORICA_ISA=$isa lorica bench $arguments"; cat "$figures"; } >"$data/$case-$isa.csv"
  done
done
