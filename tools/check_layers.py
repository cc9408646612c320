#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file includes something its layer must not know (tools/layers.txt)."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
lines = (root / "tools/layers.txt").read_text().splitlines()
rules = [(p.strip(), allowed.split())
         for p, allowed in (line.split(":") for line in lines if line.strip() and line[0] != "#")]
rules.sort(key=lambda rule: -len(rule[0]))  # the longest prefix wins
bad = 0
for top in ("include", "lib", "algorithms", "transports", "tools", "bench", "mpi", "examples"):
    for path in sorted((root / top).rglob("*.[ch]*")):
        name = path.relative_to(root).as_posix()
        allowed = next(a for prefix, a in rules if name.startswith(prefix))
        for n, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'#include "([^"]+)"', line)
            if m and not any(m[1].startswith(a) for a in allowed):
                print(f"{name}:{n}: must not include {m[1]}")
                bad += 1
sys.exit(bad > 0)
