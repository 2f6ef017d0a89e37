#!/usr/bin/env python3
"""Shows that check_layers.py fails on each thing that it forbids."""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).with_name("check_layers.py")
CASES = {
    "lorica/lora/up.h": '#include "lorica/model/model.h"\n',
    "lorica/base/up.cc": '#include "lorica/formats/json.h"\n',
    "lorica/engine/cli.cc": '#include "cli/main.h"\n',
    "lorica/stray/a.h": "#pragma once\n",
    "lorica/model/vendor.cc": "#include <cuda_runtime.h>\n",
    "lorica/model/long.cc": "int a;\n" * 601,
    "lorica/lora/lost_test.cc": "  rc::check([] {});\n",
    "CMakeLists.txt": "add_compile_options(-march=" + "native)\n",
}
CLEAN = {
    "lorica/lora/kept_test.cc": "  EXPECT_TRUE(rc::check([] {}));\n",
    "lorica/engine/down.h": '#include "lorica/lora/plan.h"\n',
    "lorica/model/long_test.cc": "int a;\n" * 601,
}


def run(content):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        for name, text in content.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return subprocess.run([sys.executable, CHECK, root], capture_output=True).returncode


failed = [name for name, text in CASES.items() if run({name: text}) != 1]
failed += [name for name, text in CLEAN.items() if run({name: text}) != 0]
print(f"{len(CASES) + len(CLEAN) - len(failed)} passed, {len(failed)} failed", *failed)
sys.exit(1 if failed else 0)
