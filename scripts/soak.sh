#!/usr/bin/env bash
# N requests with churn against a server on the tiny model: publish, replace, delete, evict, cancel,
# hang up. Usage: soak.sh [N]. A tenth of N runs under the thread sanitizer first.
set -euo pipefail
cd "$(dirname "$0")/.."
n=${1:-100000}
for preset in tsan release; do
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" --target soak -- --quiet
  count=$n
  [ "$preset" = release ] || count=$((n / 10))
  echo "soak: $preset"
  "$(find "build/$preset" -name soak -type f -perm -u+x)" --requests "$count"
done
