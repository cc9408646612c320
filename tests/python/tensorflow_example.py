# SPDX-License-Identifier: Apache-2.0
"""Runs an example, or the first script of a page, as a test: tensorflow_example.py FILE ARGUMENTS."""
import os
import pathlib
import re
import runpy
import sys
import tempfile

import tensorflow_suite  # noqa: F401: skips, or sets the number of threads

sys.argv = sys.argv[1:]
path = pathlib.Path(sys.argv[0]).resolve()
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)  # for what a script saves
    if path.suffix == ".md":
        code = re.search(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M)[1]
        path = pathlib.Path("script.py")
        path.write_text(code)
    runpy.run_path(str(path), run_name="__main__")
