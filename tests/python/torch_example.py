# SPDX-License-Identifier: Apache-2.0
"""Runs an example, or all scripts of a page, as a test: torch_example.py FILE ARGUMENTS."""
import pathlib
import re
import runpy
import sys

try:
    import numpy  # noqa: F401
    import torch
except ImportError as missing:
    print(f"skipped: {missing} ({sys.executable}); ./dev setup-frameworks installs it")
    sys.exit(77)

torch.set_num_threads(1)
sys.argv = sys.argv[1:]
path = pathlib.Path(sys.argv[0])
if path.suffix == ".md":
    for code in re.findall(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M):
        exec(compile(code, str(path), "exec"), {"__name__": "__main__"})
else:
    runpy.run_path(str(path), run_name="__main__")
