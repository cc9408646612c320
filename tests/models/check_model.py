#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a state model with spin, and that spin would have noticed: without the line that a
mutation takes away, it must find an error.

  check_model.py MODEL [TEXT_OF_A_LINE...]
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def errors_of(text):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.pml").write_text(text)
        run = subprocess.run(["spin", "-run", "-safety", "model.pml"], cwd=folder,
                             capture_output=True, text=True, timeout=100)
    found = re.search(r"errors: (\d+)", run.stdout)
    if found is None:
        sys.exit(f"spin says nothing of errors:\n{run.stdout}{run.stderr}")
    return int(found[1]), run.stdout


model = Path(sys.argv[1]).read_text()
count, output = errors_of(model)
if count != 0:
    sys.exit(output)
for mutation in sys.argv[2:]:
    lines = model.splitlines(keepends=True)
    kept = [line for line in lines if mutation not in line]
    if len(kept) != len(lines) - 1:
        sys.exit(f'"{mutation}" is not in exactly one line of the model')
    if errors_of("".join(kept))[0] == 0:
        sys.exit(f'no error without the line with "{mutation}"')
print("no errors; every mutation was noticed")
