#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a C or C++ file, tracked or new, is not as clang-format would write it."""
import subprocess
import sys

files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.hpp", "*.cc", "*.c",
                        "*.cu"], cwd=sys.argv[1], capture_output=True, text=True, check=True).stdout.split()
sys.exit(subprocess.run(["clang-format", "--dry-run", "--Werror", *files], cwd=sys.argv[1]).returncode)
