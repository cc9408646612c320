#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a tracked text file holds an absolute path of somebody's machine."""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
machine_path = re.compile(r"(?<![\w.$})-])/(work|root|home)(?=/)")
bad = 0
for name in subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=root,
                           capture_output=True, text=True, check=True).stdout.split("\0"):
    path = root / name
    if not name or not path.is_file():
        continue
    data = path.read_bytes()
    if b"\0" in data[:1024]:
        continue  # not text
    for n, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        if machine_path.search(line):
            print(f"{name}:{n}: absolute path: {line.strip()[:100]}")
            bad += 1
sys.exit(bad > 0)
