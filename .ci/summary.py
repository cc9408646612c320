#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up Meson test logs: summary.py STATUS LOG [STATUS LOG]...

Prints the tests that failed and, as last line, the numbers. A step that failed without a failed
test, because it did not build for example, counts as one failure."""
import json
import pathlib
import sys

PASSED, SKIPPED = ("OK", "EXPECTEDFAIL"), ("SKIP",)
passed = failed = skipped = 0
for status, log in zip(sys.argv[1::2], map(pathlib.Path, sys.argv[2::2])):
    step = log.parent.parent.name
    tests = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    bad = [t for t in tests if t["result"] not in PASSED + SKIPPED]
    passed += sum(t["result"] in PASSED for t in tests)
    skipped += sum(t["result"] in SKIPPED for t in tests)
    failed += len(bad)
    for t in bad:
        print(f"failed: {step}: {t['name']} ({t['result'].lower()})")
    if not bad and (status != "0" or not tests):
        print(f"failed: {step}: exit status {status}, {len(tests)} tests ran")
        failed += 1
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0)
