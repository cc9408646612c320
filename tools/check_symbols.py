#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a shared library exports a dynamic symbol that does not begin as the arguments after
its path say: ech_, unless there are some."""
import subprocess
import sys

out = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]],
                     capture_output=True, text=True, check=True).stdout
names = [line.split()[-1].split("@")[0] for line in out.splitlines()]
prefixes = tuple(sys.argv[2:]) or ("ech_", "ECH_")
leaks = [s for s in names if not s.startswith(prefixes)]
print("\n".join(leaks))
sys.exit(bool(leaks) or not names)
