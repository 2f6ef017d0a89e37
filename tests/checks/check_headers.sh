#!/usr/bin/env bash
# Compiles every header alone (syntax only): a header includes what it uses.
set -euo pipefail
cd "$(dirname "$0")/../.."
# -inl.h files are compiled once an instruction set, inside the file that includes them.
git ls-files -co --exclude-standard 'lorica/*.h' 'cli/*.h' 'bench/*.h' | grep -v -e '-inl\.h$' \
  -e '^lorica/kernels/ascend/' |
  tests/checks/run_once.py headers -- \
    g++ -std=c++20 -fsyntax-only -Wall -Wextra -Wno-unused-parameter -I. \
    -x c++ -include {} /dev/null
