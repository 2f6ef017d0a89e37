#!/usr/bin/env bash
# The clang-tidy list of .clang-tidy over every source, with a compilation database. A file whose
# preprocessed text, checks and tool are unchanged since it last passed is not read again.
# Usage: check_tidy.sh BUILD_FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
stamps=${XDG_CACHE_HOME:-$HOME/.cache}/lorica-tidy
mkdir -p "$stamps"
export build stamps
tidy_one() {
  local key
  key=$( { cat .clang-tidy; clang-tidy-14 --version; pwd
           g++ -std=c++20 -I. -E "$1" 2>/dev/null || cat "$1"; } | sha256sum | cut -c1-40)
  [ -e "$stamps/$key" ] && return 0
  clang-tidy-14 --quiet -p "$build" "$1" 2>/tmp/tidy.$$ || { cat /tmp/tidy.$$; rm -f /tmp/tidy.$$; return 1; }
  rm -f /tmp/tidy.$$
  touch "$stamps/$key"
}
export -f tidy_one
git ls-files -co --exclude-standard 'lorica/*.cc' 'cli/*.cc' 'bench/*.cc' | grep -v -e '_test\.cc$' \
  -e '^lorica/kernels/ascend/' |
  xargs -P "$(nproc)" -I{} bash -c 'tidy_one {}'
echo "tidy: clean"
