# SPDX-License-Identifier: Apache-2.0
"""Prints the targets of Ninja that the tests of some suites need, and all that is installed, which one
of them tries: targets.py BUILD_DIRECTORY SUITE..."""
import json
import os
import sys

build, suites = sys.argv[1], sys.argv[2:]


def read(name):
    with open(os.path.join(build, "meson-info", f"intro-{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def belongs(test):
    return any(suite.rpartition(":")[2] in suites for suite in test["suite"])


targets = {target["id"]: target for target in read("targets")}
needed = {name for name, target in targets.items() if target["installed"]}
for test in read("tests"):
    if belongs(test):
        needed.update(test["depends"])
files = {file for name in needed for file in targets[name]["filename"]}
print("\n".join(sorted(os.path.relpath(file, os.path.abspath(build)) for file in files)))
