#!/usr/bin/env python3
"""Breaks the code on purpose, one at a time, and shows that a test fails each time.

  mutate.py [NAME ...]     (all of them without a name; needs some minutes a mutation; "live" names
                           all mutations of live adapters, "step" all of a step, "kernels" orders of
                           sums, prefetch bounds and tails)
  mutate.py --check        (only that the code still holds the text that each of them replaces)

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

REPLACED = "replaced = std::exchange(current, version);"
PUBLISH = "impl_->registry.Publish(name, *std::move(hold));"
COMMIT = "LORICA_RETURN_IF_ERROR(state_->Commit(entry, staging));"
STATE = "lorica/server/adapter_state.cc"
DISK = "lorica/base/file_system.cc"

# name: ([(file, text, what stands there instead), ...], preset, test program, tests)
STEP = {
    "permutation": (
        [("lorica/kernels/cpu/packed_input-inl.h",
         "row_of[next++] = row;",
         "row_of[next] = static_cast<int32_t>(next) + 0 * row;\n    ++next;")],
        "release", "kernels_test", "*"),
    "scale": (
        [("lorica/kernels/cpu/lora-inl.h",
         "Splat<8>(args.scale[t])",
         "Splat<8>(1.0f)")],
        "release", "kernels_test", "*"),
    "padding of one tile": (
        [("lorica/kernels/cpu/packing.cc",
         "std::min<int64_t>(kTileRanks, factors.rank - rank_begin);",
         "kTileRanks;  // what lies behind the factor instead of zeros")],
        "release", "kernels_test", "*"),
    "slot of one token": (
        [("lorica/engine/batch_builder.cc",
         SLOT,
         "batch.slots.push_back(batch.slots.size() == 2 ? lora::kBaseModel : sequence->slot);")],
        "release", "scenarios_test", "*"),
    "barrier between shrink and expand": (
        [("lorica/kernels/cpu/linear-inl.h",
         "if (!state.x_is_packed || state.has_lora) member.Sync();",
         "if (!state.x_is_packed && !state.has_lora) member.Sync();")],
        "tsan", "kernels_test", "*Linear*:*Lora*"),
    "page table of one sequence": (
        [("lorica/engine/batch_builder.cc",
         PAGES,
         "begin,\n         (batch.sequences.size() == 1 ? scheduled.front().sequence : sequence)"
         "->pages.data()});")],
        "release", "scenarios_test", "*"),
}
LIVE = {
    "the identity in the hash of a page": (
        [("lorica/engine/page_keys.cc",
          "hash_.Update(std::as_bytes(std::span(identity_.digest)));", "")],
        "release", "engine_test", "PrefixReuse.*"),
    "an old version until its last request": (
        [("lorica/lora/registry.cc", REPLACED,
          REPLACED + "\n  if (replaced) const_cast<AdapterHold&>(replaced->adapter()).reset();")],
        "release", "engine_test", "LiveAdapters.*"),
    "tiles of an old version until its last request": (
        [("lorica/engine/engine.cc", PUBLISH,
          "const auto old = impl_->registry.Acquire(name);\n  if (old.ok() && impl_->cache->FindSlot("
          "old->version().digest())) {\n    impl_->cache->Evict(old->version().digest());\n  }\n  "
          + PUBLISH)],
        "release", "engine_test", "LiveAdapters.*"),
    "no eviction in flight": (
        [("lorica/lora/adapter_tiers.cc", "state.pins > 0 || state.running > 0 ||",
          "state.pins > 0 ||"),
         ("lorica/lora/adapter_fetch.cc",
          "LORICA_CHECK(victim->state.running == 0 && victim->state.slot.has_value());", "")],
        "release", "engine_test", "Crowded.*:LiveAdapters.*"),
    "the sync of an uploaded file": (
        [(STATE, "LORICA_RETURN_IF_ERROR(out->Sync());\n  }\n  return files_->SyncFolder(staging);",
          "}\n  return files_->SyncFolder(staging);")],
        "release", "server_test", "AdapterState.*"),
    "the sync of an upload's folder": (
        [(STATE, "return files_->SyncFolder(staging);", "return OkStatus();")],
        "release", "server_test", "AdapterState.*"),
    "the sync of the folder of uploads": (
        [(STATE, "LORICA_RETURN_IF_ERROR(files_->SyncFolder(folder_ + kAdapters));", "")],
        "release", "server_test", "AdapterState.*"),
    "the sync of the manifest": (
        [(STATE, "LORICA_RETURN_IF_ERROR(out->Append(std::as_bytes(std::span(text))));\n"
          "    LORICA_RETURN_IF_ERROR(out->Sync());",
          "LORICA_RETURN_IF_ERROR(out->Append(std::as_bytes(std::span(text))));")],
        "release", "server_test", "AdapterState.*"),
    "the sync of the manifest's folder": (
        [(STATE, "LORICA_RETURN_IF_ERROR(files_->SyncFolder(folder_));\n  manifest_unsynced_",
          "manifest_unsynced_")],
        "release", "server_test", "AdapterState.*"),
    "the sync of a new state folder": (
        [(STATE, "LORICA_RETURN_IF_ERROR(files->SyncFolder(ParentOf(folder)));", "")],
        "release", "server_test", "AdapterState.*"),
    "the sync of the folders in a new state folder": (
        [(STATE, "LORICA_RETURN_IF_ERROR(files->SyncFolder(folder));", "")],
        "release", "server_test", "AdapterState.*"),
    "the sync after one that failed": (
        [(STATE, "next == manifest_ && !manifest_unsynced_", "next == manifest_")],
        "release", "server_test", "AdapterState.*"),
    "the system's sync of a file": (
        [(DISK, "fsync(fd_) == 0 ? OkStatus()", "true ? OkStatus()")],
        "release", "base_test", "PosixFileSystem.*"),
    "the system's sync of a folder": (
        [(DISK, "const int error = fsync(fd) == 0 ? 0 : errno;", "const int error = 0;")],
        "release", "base_test", "PosixFileSystem.*"),
    "an upload durable before it is answered": (
        [("lorica/server/adapter_admin.cc", COMMIT, "(void)state_->Commit(entry, staging);")],
        "release", "server_test", "AdapterAdminTest.*"),
    "an upload durable before it is served": (
        [("lorica/server/adapter_admin.cc", COMMIT,
          "const auto early = loaded;\n    LORICA_RETURN_IF_ERROR(Publish(upload.name, early));\n"
          "    " + COMMIT)],
        "release", "server_test", "AdapterAdminTest.*"),
}
CPU = "lorica/kernels/cpu/"
WHOLE_LIST = "line += line < last ? 1 : 0;"
QUANT = CPU + "quant-inl.h"
# Prefetches of weights run past the end of what they fetch from, and no test can see how far: a
# prefetch never faults. What can be seen is what a prefetch needs: the lists of lines and pages
# from which its addresses are read.
KERNELS = {
    "the block border of the base product and the shrink": (
        [(CPU + "packing.h", "kChainPairs = 128;", "kChainPairs = 96;")],
        "release", "kernels_test", "SumOrder.*"),
    "the chains of the shrink": (
        [(CPU + "lora-inl.h", "chain = chains->v[half][r][t];", "chain = chains->v[0][r][t];")],
        "release", "kernels_test", "SumOrder.*"),
    "the chains of the dot's shrink": (
        [(CPU + "dot.cc", "chain[half][r][t] = Dot(chain[half][r][t], factors[t], xs);",
          "chain[0][r][t] = Dot(chain[0][r][t], factors[t], xs);")],
        "release", "kernels_test", "SumOrder.*:Dot*"),
    "the order of the ranks in the expand": (
        [(CPU + "lora-inl.h",
          "for (int pair = 0; pair < 4; ++pair, b += Format::kPairBytes, s += 2) {",
          "b += 3 * Format::kPairBytes;\n  s += 6;\n"
          "  for (int pair = 0; pair < 4; ++pair, b -= Format::kPairBytes, s -= 2) {")],
        "release", "kernels_test", "SumOrder.*"),
    "the order in which 4-bit blocks are added": (
        [(QUANT, "        total.v[r][p] = AddFloats(total.v[r][p], "
          "MulFloats(sum, SplatFloats(x_scale[r])));\n",
          "        const Floats part = MulFloats(sum, SplatFloats(x_scale[r]));\n"
          "        if constexpr (S != DType::kQ4_1) total.v[r][p] = AddFloats(total.v[r][p], part);"
          "\n"),
         (QUANT, "total.v[r][p] = AddFloats(total.v[r][p], MulFloats(m, SplatFloats(x_sum[r])));",
          "total.v[r][p] = AddFloats(total.v[r][p], "
          "AddFloats(part, MulFloats(m, SplatFloats(x_sum[r]))));")],
        "release", "kernels_test", "QuantKernels.*"),
    "the order in which a block's scales are applied": (
        [(QUANT, "if constexpr (S != DType::kI8) sum = MulFloats(sum, d);",
          "if constexpr (S == DType::kQ8_0) sum = MulFloats(SplatFloats(x_scale[r]), sum);\n"
          "        if constexpr (S == DType::kQ4_0 || S == DType::kQ4_1) sum = MulFloats(sum, d);"),
         (QUANT, "MulFloats(sum, SplatFloats(x_scale[r])));",
          "MulFloats(sum, S == DType::kQ8_0 ? d : SplatFloats(x_scale[r])));")],
        "release", "kernels_test", "QuantKernels.*"),
    "the block border of attention": (
        [("lorica/kernels/params.h", "kAttentionBlock = 256;", "kAttentionBlock = 128;")],
        "release", "kernels_test", "Attention.*"),
    "the end of the list of lines to fetch": (
        [(CPU + "gemm-inl.h", WHOLE_LIST, "++line;")],
        "dev", "kernels_test", "LinearTest.*"),
    "the end of the dot's list": (
        [(CPU + "dot.cc", WHOLE_LIST, "++line;")],
        "dev", "kernels_test", "LinearTest.*:BitEqualAcrossM.*"),
    "the end of the quantised kernels' list": (
        [(QUANT, "walk->line += walk->line < args.prefetch_last ? 1 : 0;", "++walk->line;")],
        "dev", "kernels_test", "QuantKernels.*"),
    "the room of the list of lines": (
        [(CPU + "output_block-inl.h", "std::min(other.count, kMost - count);", "other.count;"),
         (CPU + "output_block-inl.h", "std::min(bytes / kBufferAlignment, kMost - count);",
          "bytes / kBufferAlignment;")],
        "dev", "kernels_test", "LinearTest.*"),
    "the last page whose successor is fetched": (
        [(CPU + "attention-inl.h", "page + i < page_end ? KeysOf", "page + i <= page_end ? KeysOf")],
        "dev", "kernels_test", "Attention.*"),
    "the tail of K in the base product": (
        [(CPU + "packed_input-inl.h", "float value = k < p.k ? x[k] : 0.0f;", "float value = x[k];")],
        "dev", "kernels_test", "LinearTest.*"),
    "the tail of K of the dot": (
        [(CPU + "dot.cc", "std::min(2 * count, args.k - 2 * pair);", "2 * count;")],
        "dev", "kernels_test", "LinearTest.*:BitEqualAcrossM.*"),
    "the tail of N": (
        [(CPU + "output_block-inl.h", "const int64_t columns = std::min(kPanelColumns, n - column);",
          "const int64_t columns = kPanelColumns + 0 * n;")],
        "release", "kernels_test", "LinearTest.*"),
    "the tail of K of quantised products": (
        [(QUANT, "first + i < args.k ? x[i] : 0.0f;", "x[i];")],
        "release", "kernels_test", "LinearTest.*:QuantKernels.*"),
    "the last quad of a block of int8 and Q8_0": (
        [(QUANT, "for (int quad = 0; quad < kBlockQuads; ++quad) {",
          "for (int quad = 0; quad < kBlockQuads - 1; ++quad) {")],
        "release", "kernels_test", "QuantKernels.*"),
    "the last quads of a 4-bit block": (
        [(QUANT, "pair < kBlockQuads / 2; ++pair", "pair < kBlockQuads / 2 - 1; ++pair")],
        "release", "kernels_test", "QuantKernels.*"),
    "the zero of Q4_0": (
        [(QUANT, "SplatInts(offsets[r] / 16);", "SplatInts(offsets[r] / 32);")],
        "release", "kernels_test", "QuantKernels.*"),
    "the small scales of the halves of a Q6_K block": (
        [(QUANT, "MulFloats(ToFloats(sum), w.scales[half]);",
          "MulFloats(ToFloats(sum), w.scales[0]);")],
        "release", "kernels_test", "QuantKernels.*"),
    "the super-block whose scale a block takes": (
        [(QUANT, "of_panel + block / kBlocksOfSuper * SuperStride(S);",
          "of_panel + 0 * block * SuperStride(S);")],
        "release", "kernels_test", "QuantKernels.*"),
    "the tail of a head in K": (
        [(CPU + "attention_tile-inl.h", "for (; d < head_dim; ++d) ScoreDim",
          "for (; d + 1 < head_dim; ++d) ScoreDim")],
        "release", "kernels_test", "Attention.*"),
    "the tail of a head in V": (
        [(CPU + "attention_tile-inl.h", "LoadKvFirst<Kv>(values, a.head_dim - a.column)",
          "LoadKvFirst<Kv>(values, 16)")],
        "dev", "kernels_test", "Attention.*"),
    "the tail of the positions": (
        [(CPU + "attention-inl.h", "const W16 kept = SelectFirst(e, count - whole, 0.0f);",
          "const W16 kept = e;")],
        "release", "kernels_test", "Attention.*"),
    "the tail of K in the shrink": (
        [(CPU + "lora-inl.h", "  if (k < range.end) {", "  if (k + 3 < range.end) {")],
        "release", "kernels_test", "LinearTest.*"),
    "the tail of an adapter's rank tiles in the shrink": (
        [(CPU + "shrink-inl.h",
          "int now = ShrinkTilesFor(rows);\n      while (now > item.tile_end - t) now /= 2;",
          "int now = ShrinkTilesFor(rows);")],
        "dev", "kernels_test", "LinearTest.*"),
    "the tail of the rows in the expand": (
        [(CPU + "lora-inl.h", "const int64_t now = rows < kExpandRows ? rows : kExpandRows;",
          "const int64_t now = kExpandRows;")],
        "dev", "kernels_test", "LinearTest.*"),
    "the tail of the panels in the expand": (
        [(CPU + "lora-inl.h", "const int64_t now = panels >= 2 ? 2 : 1;", "const int64_t now = 2;")],
        "dev", "kernels_test", "LinearTest.*"),
}
MUTATIONS = {**STEP, **LIVE, **KERNELS}
GROUPS = {"step": STEP, "live": LIVE, "kernels": KERNELS}


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


def check_texts():
    stale = [f"{name}: expected once in {file}: {old}"
             for name, (edits, *_) in MUTATIONS.items() for file, old, _ in edits
             if (ROOT / file).read_text().count(old) != 1]
    print("\n".join(stale) or f"mutations: the code holds the texts of all {len(MUTATIONS)}")
    return 1 if stale else 0


def main():
    if sys.argv[1:] == ["--check"]:
        return check_texts()
    names = [name for given in sys.argv[1:] for name in GROUPS.get(given, [given])]
    names = names or list(MUTATIONS)
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "lorica"
        tree.mkdir()
        copy_tree(tree)
        for name in names:
            edits, preset, program, tests = MUTATIONS[name]
            whole = {file: (tree / file).read_text() for file, _, _ in edits}
            for file, old, new in edits:
                text = (tree / file).read_text()
                if text.count(old) != 1:
                    raise SystemExit(f"{name}: expected its text once in {file}, found it "
                                     f"{text.count(old)} times")
                (tree / file).write_text(text.replace(old, new))
            binary = build(tree, preset, program)
            done = subprocess.run([binary, f"--gtest_filter={tests}", "--gtest_fail_fast"],
                                  cwd=tree, capture_output=True, text=True, timeout=1800)
            for file, text in whole.items():
                (tree / file).write_text(text)
            if done.returncode == 0:
                survived.append(name)
                print(f"SURVIVED  {name}")
                continue
            seen = [line for line in (done.stdout + done.stderr).splitlines()
                    if "[  FAILED  ]" in line or "WARNING: ThreadSanitizer" in line
                    or "ERROR: AddressSanitizer" in line]
            print(f"caught    {name}: {program}: {seen[0].strip() if seen else 'died'}",
                  flush=True)
    print(f"mutations: {len(names) - len(survived)} passed, {len(survived)} failed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
