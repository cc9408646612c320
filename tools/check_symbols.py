#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when the shared library exports a dynamic symbol that is not ech_*."""
import subprocess
import sys

out = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]],
                     capture_output=True, text=True, check=True).stdout
names = [line.split()[-1].split("@")[0] for line in out.splitlines()]
leaks = [s for s in names if not s.startswith(("ech_", "ECH_"))]
print("\n".join(leaks))
sys.exit(bool(leaks) or not names)
