#!/usr/bin/env python3
"""Makes tests/fixtures/super_blocks.gguf: random super-blocks of ggml's K types (tensors q4_k and
q6_k) beside what the package gguf reads in them (q4_k.f32, q6_k.f32).

Needs gguf and numpy. Seeded, so a second run writes the same bytes.
"""

from pathlib import Path

import gguf
import numpy as np

OUT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "super_blocks.gguf"
ROWS, COLUMNS = 3, 512


def main():
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(str(OUT), "llama")
    for name, halves in (("Q4_K", [0, 2]), ("Q6_K", [208])):
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (ROWS * COLUMNS // elements, size), dtype=np.uint8)
        for at in halves:
            # Any bits are a block, but its scales have to be finite.
            scale = rng.normal(0.0, 0.01, len(blocks)).astype(np.float16)
            blocks[:, at:at + 2] = scale[:, None].view(np.uint8)
        blocks = blocks.reshape(ROWS, -1)
        writer.add_tensor(name.lower(), blocks, raw_dtype=kind)
        writer.add_tensor(name.lower() + ".f32", gguf.quants.dequantize(blocks, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    OUT.chmod(0o644)
    print(OUT, OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
