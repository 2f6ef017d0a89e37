#!/usr/bin/env bash
# The clang-tidy list of .clang-tidy over every source, with a compilation database.
# Usage: check_tidy.sh BUILD_FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
git ls-files -co --exclude-standard 'lorica/*.cc' 'cli/*.cc' 'bench/*.cc' | grep -v -e '_test\.cc$' \
  -e '^lorica/kernels/ascend/' |
  tests/checks/run_once.py tidy --database "$1/compile_commands.json" --also .clang-tidy -- \
    clang-tidy-14 --quiet -p "$1" {}
