#!/usr/bin/env bash
# Fuzzes every reader with libFuzzer under ASan and UBSan. SECONDS is for all of them together.
# Usage: fuzz.sh [SECONDS]. A crash leaves its input in build/fuzz/crashes and ends with status 1.
set -euo pipefail
cd "$(dirname "$0")/.."
total=${1:-3600}

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers -- --quiet
mapfile -t fuzzers < <(find build/fuzz/tests/fuzz -maxdepth 1 -name '*_fuzz' -type f | sort)
each=$((total / ${#fuzzers[@]}))
[ "$each" -ge 1 ] || each=1
mkdir -p build/fuzz/crashes
export each

fuzz_one() {
  local fuzzer=$1 name corpus seeds runs
  name=$(basename "$fuzzer")
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=tests/fuzz/${name%_fuzz}_corpus
  [ -d "$seeds" ] || seeds=
  if ! "$fuzzer" -max_total_time="$each" -timeout=10 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/crashes/"$name"- "$corpus" $seeds >build/fuzz/"$name".log 2>&1; then
    tail -40 build/fuzz/"$name".log
    echo "fuzz: $name failed"
    return 1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' build/fuzz/"$name".log)
  echo "fuzz: $name $runs runs in $each s, no failure"
}
export -f fuzz_one
# One on each core.
printf '%s\n' "${fuzzers[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
