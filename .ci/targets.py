# SPDX-License-Identifier: Apache-2.0
"""Prints the targets of Ninja that the tests of some suites need, and all that is installed, which one
of them tries: targets.py BUILD_DIRECTORY --suite=NAME... [--no-suite=NAME...]"""
import json
import os
import sys

build = sys.argv[1]
wanted, unwanted = ({word.removeprefix(option) for word in sys.argv[2:] if word.startswith(option)}
                    for option in ("--suite=", "--no-suite="))


def read(name):
    with open(os.path.join(build, "meson-info", f"intro-{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def belongs(test):
    suites = {suite.rpartition(":")[2] for suite in test["suite"]}
    return bool(suites & wanted) and not suites & unwanted


targets = {target["id"]: target for target in read("targets")}
needed = {name for name, target in targets.items() if target["installed"]}
for test in read("tests"):
    if belongs(test):
        needed.update(test["depends"])
files = {file for name in needed for file in targets[name]["filename"]}
print("\n".join(sorted(os.path.relpath(file, os.path.abspath(build)) for file in files)))
