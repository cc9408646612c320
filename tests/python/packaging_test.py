# SPDX-License-Identifier: Apache-2.0
"""python/meson.build installs every file of the package: a forgotten one is missed only by those
who install it. packaging_test.py SOURCE_ROOT"""
import pathlib
import re
import sys

folder = pathlib.Path(sys.argv[1]) / "python"
there = {str(path.relative_to(folder)) for path in (folder / "echelon").rglob("*")
         if path.is_file() and "__pycache__" not in path.parts}
listed = set(re.findall(r"'(echelon/[^']+[.][^']+)'", (folder / "meson.build").read_text()))
if there != listed:
    sys.exit(f"python/meson.build: not listed {there - listed}, not there {listed - there}")
