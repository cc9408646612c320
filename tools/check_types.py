#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when two types have one name in one namespace: then a program that has both in it has
inline functions of the one called for the other. Nested types and those of a file itself (in an
unnamed namespace) may share names. Relies on the format: what begins a line is not nested."""
import collections
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
definition = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum(?: class| struct)?) "
                        r"(?:alignas\([^)]*\) |\[\[[^]]*\]\] )?(\w+)(?![\w:<])(?:[^;{]*\{.*|[^;]*)$")
bad = 0
places = collections.defaultdict(list)
for top in ("include", "lib", "algorithms", "transports", "tools", "mpi"):
    for path in sorted((root / top).rglob("*.[ch]*")):
        name = path.relative_to(root).as_posix()
        namespaces, opened = [], 0
        for n, line in enumerate(path.read_text().splitlines(), 1):
            if m := re.match(r"namespace ?([\w:]*) \{$", line):
                namespaces.append(m[1])
                opened = n
            elif line.startswith("}  // namespace") or (line == "}" and opened == n - 2):
                namespaces.pop()
            elif (m := definition.match(line)) and "" not in namespaces:
                places["::".join([*namespaces, m[1]])].append(f"{name}:{n}")
        if namespaces:
            print(f"{name}: the end of namespace {namespaces[-1]} has no comment")
            bad += 1
for type_name, where in places.items():
    if len(where) > 1:
        print(f"{type_name} is defined more than once: {', '.join(where)}")
        bad += 1
sys.exit(bad > 0 or not places)
