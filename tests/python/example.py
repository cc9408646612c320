# SPDX-License-Identifier: Apache-2.0
"""Runs an example, or the scripts of a page, as a test: example.py SUITE [--first] FILE ARGUMENTS. The
module SUITE skips where its framework is missing. --first: only the first script of the page."""
import importlib
import os
import pathlib
import re
import runpy
import sys
import tempfile

importlib.import_module(sys.argv[1])
first = sys.argv[2] == "--first"
sys.argv = sys.argv[3 if first else 2:]
path = pathlib.Path(sys.argv[0]).resolve()
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)  # for what a script saves
    scripts = [path]
    if path.suffix == ".md":
        scripts = []
        for code in re.findall(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M):
            scripts.append(pathlib.Path(f"script{len(scripts)}.py"))
            scripts[-1].write_text(code)
    for script in scripts[:1] if first else scripts:
        runpy.run_path(str(script), run_name="__main__")
