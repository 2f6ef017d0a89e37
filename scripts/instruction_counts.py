#!/usr/bin/env python3
"""Counts the instructions of hot cases and fails when one has grown unasked.

  instruction_counts.py BUILD_FOLDER             against bench/instruction_counts.json
  instruction_counts.py BUILD_FOLDER --update    accepts the counts as they are now

Callgrind runs BUILD_FOLDER/bench/counted_work, a fixed amount of work on one thread, and counts
inside its function CountedWork alone. The instruction set is AVX2, as valgrind knows no AVX-512.
Counts belong to a compiler: of another one they are printed and not judged.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEPT = ROOT / "bench" / "instruction_counts.json"
CASES = ("bf16_linear_with_adapters", "decode_step", "int8_linear", "q4_linear")
MOST_GROWTH = 0.03


def compiler_of(build):
    cache = (build / "CMakeCache.txt").read_text()
    path = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M).group(1)
    kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache, re.M).group(1)
    version = subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True,
                             check=True).stdout.strip()
    return f"{pathlib.Path(path).name} {version} {kind}".replace("c++", "g++", 1)


def count(program, case):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
             "--toggle-collect=CountedWork", program, case],
            env=dict(os.environ, LORICA_ISA="avx2"), capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not collected or int(collected.group(1)) == 0:
        raise SystemExit(f"{case}: nothing was counted: {done.stderr[-1000:]}")
    return int(collected.group(1))


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--update"]):
        raise SystemExit(__doc__)
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        print("instruction counts: this processor has no AVX2: nothing is counted")
        return 0
    build = pathlib.Path(sys.argv[1])
    compiler = compiler_of(build)
    counts = {case: count(build / "bench" / "counted_work", case) for case in CASES}
    if sys.argv[2:]:
        KEPT.write_text(json.dumps({"compiler": compiler, "instructions": counts}, indent=2) + "\n")
        print(f"instruction counts: {KEPT.relative_to(ROOT)} is written")
        return 0
    kept = json.loads(KEPT.read_text())
    judged = kept["compiler"] == compiler
    grown = []
    for case, now in counts.items():
        before = kept["instructions"].get(case)
        change = now / before - 1 if before else 0.0
        print(f"{case:26} {now:12,} {change:+7.2%}")
        if before is None:
            grown.append(f"{case}: no count is kept for it")
        elif change > MOST_GROWTH:
            grown.append(f"{case}: {before:,} -> {now:,} instructions, {change:+.1%}: more than "
                         f"{MOST_GROWTH:.0%}")
        elif change < -MOST_GROWTH:
            print(f"  fewer than kept: --update holds the gain")
    if not judged:
        print(f"instruction counts: kept for {kept['compiler']}, this is {compiler}: not judged")
        return 0
    for line in grown:
        print(f"FAILED {line}")
    if grown:
        print("If the growth is worth it, say why in the commit that accepts it: "
              f"scripts/instruction_counts.py {sys.argv[1]} --update")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
