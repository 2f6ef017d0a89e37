#!/usr/bin/env bash
# Everything that has to hold, on a bare Debian 12: installs what is missing, runs the checks, builds
# and tests under sanitizers and in release, fuzzes briefly, and runs the program on the real model
# where it can be fetched. The first failure ends it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly FUZZ_SECONDS=${FUZZ_SECONDS:-120}  # all fuzzers together

stage_begin=$SECONDS
stage() {
  [ -z "${stage_name:-}" ] || echo "--- $stage_name: $((SECONDS - stage_begin)) s"
  stage_name=$1
  stage_begin=$SECONDS
}

stage "packages"
scripts/install_packages.sh build test model

stage "checks"
python3 tests/checks/check_layers_test.py
python3 tests/checks/check_layers.py
python3 tests/mutations/mutate.py --check
python3 scripts/performance_page.py --check
tests/checks/check_format.sh
tests/checks/check_headers.sh

stage "dev: debug with ASan and UBSan"
cmake --preset dev >/dev/null
cmake --build --preset dev --target all_tests -- --quiet
ctest --preset dev

stage "clang-tidy"
tests/checks/check_tidy.sh build/dev

stage "tsan"
cmake --preset tsan >/dev/null
cmake --build --preset tsan --target tsan_tests -- --quiet
ctest --preset tsan

stage "release"
cmake --preset release >/dev/null
# What the optimiser can break: the kernels and what the promises of exactness and isolation rest on.
cmake --build --preset release --target lorica kernels_test model_test scenarios_test soak \
  counted_work -- --quiet
ctest --preset release -R '^((kernels|model|scenarios)_test|soak)$'  # the soak: 10,000 requests
scripts/instruction_counts.py build/release

stage "fuzz"
scripts/fuzz.sh "$FUZZ_SECONDS"

stage "program"
lorica=$(find build/release -name lorica -type f -perm -u+x)
tests/end_to_end/tiny.sh "$lorica"
tests/end_to_end/real_model.sh "$lorica"

stage "end"
echo "test.sh: all of it passed in $SECONDS s"
