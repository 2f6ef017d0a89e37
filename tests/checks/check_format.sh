#!/usr/bin/env bash
# clang-format, as errors.
set -euo pipefail
cd "$(dirname "$0")/../.."
git ls-files -co --exclude-standard '*.h' '*.cc' '*.cpp' |
  xargs -P "$(nproc)" -n 20 clang-format-14 --dry-run -Werror
echo "format: clean"
