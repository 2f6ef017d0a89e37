#!/usr/bin/env bash
# Compiles every header alone (syntax only): a header includes what it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
compile_alone() {
  printf '#include "%s"\n' "$1" |
    g++ -std=c++20 -fsyntax-only -Wall -Wextra -Wno-unused-parameter -I. -x c++ - ||
    { echo "$1: does not compile alone"; return 1; }
}
export -f compile_alone
# -inl.h files are compiled once an instruction set, inside the file that includes them.
git ls-files -co --exclude-standard 'lorica/*.h' 'cli/*.h' 'bench/*.h' | grep -v -e '-inl\.h$' \
  -e '^lorica/kernels/ascend/' |
  xargs -P "$(nproc)" -I{} bash -c 'compile_alone {}'
echo "headers: every one compiles alone"
