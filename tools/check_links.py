#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a link of a Markdown file, or a comment's `bench/results, "heading"`, leads nowhere.

Links to the web are not looked at.
"""
import functools
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
fence = re.compile(r"^```.*?^```", re.M | re.S)
code = re.compile(r"`[^`\n]*`")
heading = re.compile(r"^#+ (.*)$", re.M)
link = re.compile(r"\]\(([^)\s]+)\)")
record = re.compile(r'bench/results,\s+"([^"]+)"')


@functools.cache
def headings(path):
    return heading.findall(fence.sub("", path.read_text()))


@functools.cache
def anchors(path):
    """Names of the headings, as GitHub makes them."""
    names, seen = set(), {}
    for text in headings(path):
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        n = seen[name] = seen.get(name, -1) + 1
        names.add(f"{name}-{n}" if n else name)
    return names


def leads_nowhere(path, target):
    if re.match(r"[a-z]+:", target):
        return False
    name, _, anchor = target.partition("#")
    other = path.parent / name if name else path
    if not other.exists():
        return True
    return bool(anchor) and other.suffix == ".md" and anchor not in anchors(other)


def dead_links(path):
    text = code.sub("", fence.sub("", path.read_text()))
    return [target for target in link.findall(text) if leads_nowhere(path, target)]


def dead_records(path, records):
    text = re.sub(r"\n\s*//\s*", " ", path.read_text())
    return [name for name in record.findall(text)
            if not any(known.endswith(name.lower()) for known in records)]


def main():
    names = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=root,
                           capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [root / name for name in names if name and (root / name).is_file()]
    records = {text.lower() for path in paths if path.parent == root / "bench/results"
               for text in headings(path)}
    bad = [(path, target) for path in paths if path.suffix == ".md" for target in dead_links(path)]
    bad += [(path, name) for path in paths if path.suffix in (".cc", ".h")
            for name in dead_records(path, records)]
    for path, target in bad:
        print(f"{path.relative_to(root)}: nothing is at {target}")
    return bool(bad)


sys.exit(main())
