#!/usr/bin/env python3
"""Breaks the code on purpose, one place at a time, and shows that a test fails each time.

  mutate.py [NAME ...]     (all of them without a name; needs some minutes a mutation)

Works on a copy of the checkout; builds it in release (or under the thread sanitizer where the
break is a race). A mutation that no test notices is a failure of the tests.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOT = "batch.slots.push_back(sequence->slot);"
PAGES = "begin, sequence->pages.data()});"

# name: (file, text, what stands there instead, preset, test program, tests)
MUTATIONS = {
    "permutation": (
        "lorica/kernels/cpu/packed_input-inl.h",
        "row_of[next++] = row;",
        "row_of[next] = static_cast<int32_t>(next) + 0 * row;\n    ++next;",
        "release", "kernels_test", "*"),
    "scale": (
        "lorica/kernels/cpu/lora-inl.h",
        "Splat<8>(args.scale[t])",
        "Splat<8>(1.0f)",
        "release", "kernels_test", "*"),
    "padding of one tile": (
        "lorica/kernels/cpu/packing.cc",
        "std::min<int64_t>(kTileRanks, factors.rank - rank_begin);",
        "kTileRanks;  // what lies behind the factor instead of zeros",
        "release", "kernels_test", "*"),
    "slot of one token": (
        "lorica/engine/batch_builder.cc",
        SLOT,
        "batch.slots.push_back(batch.slots.size() == 2 ? lora::kBaseModel : sequence->slot);",
        "release", "scenarios_test", "*"),
    "barrier between shrink and expand": (
        "lorica/kernels/cpu/linear-inl.h",
        "if (!state.x_is_packed || state.has_lora) member.Sync();",
        "if (!state.x_is_packed && !state.has_lora) member.Sync();",
        "tsan", "kernels_test", "*Linear*:*Lora*"),
    "page table of one sequence": (
        "lorica/engine/batch_builder.cc",
        PAGES,
        "begin,\n         (batch.sequences.size() == 1 ? scheduled.front().sequence : sequence)"
        "->pages.data()});",
        "release", "scenarios_test", "*"),
}


def copy_tree(target):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def build(tree, preset, program):
    env = dict(os.environ, CCACHE_BASEDIR=str(tree), CCACHE_NOHASHDIR="1")
    for command in (["cmake", "--preset", preset],
                    ["cmake", "--build", "--preset", preset, "--target", program]):
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"does not build: {done.stdout[-2000:]}{done.stderr[-500:]}")
    return next((tree / "build" / preset).rglob(program))


def main():
    names = sys.argv[1:] or list(MUTATIONS)
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "lorica"
        tree.mkdir()
        copy_tree(tree)
        for name in names:
            file, old, new, preset, program, tests = MUTATIONS[name]
            path = tree / file
            text = path.read_text()
            if text.count(old) != 1:
                raise SystemExit(f"{name}: expected its text once in {file}, found it "
                                 f"{text.count(old)} times")
            path.write_text(text.replace(old, new))
            binary = build(tree, preset, program)
            done = subprocess.run([binary, f"--gtest_filter={tests}", "--gtest_fail_fast"],
                                  cwd=tree, capture_output=True, text=True, timeout=1800)
            path.write_text(text)
            if done.returncode == 0:
                survived.append(name)
                print(f"SURVIVED  {name} ({file})")
                continue
            seen = [line for line in (done.stdout + done.stderr).splitlines()
                    if "[  FAILED  ]" in line or "WARNING: ThreadSanitizer" in line]
            print(f"caught    {name} ({file}): {program}: {seen[0].strip() if seen else 'died'}",
                  flush=True)
    print(f"mutations: {len(names) - len(survived)} passed, {len(survived)} failed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
