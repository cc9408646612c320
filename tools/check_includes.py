#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file uses a name of a header that is precompiled (pch/), and neither it nor a file of the
project that it includes names that header: it might not compile where nothing is precompiled. What such
headers bring along themselves, <utility> for example, it does not look for."""
import functools
import pathlib
import re
import sys

# Of the standard headers: names in std::.
NAMES = {
    "algorithm": r"(ranges::)?(all_of|any_of|binary_search|clamp|copy|copy_if|copy_n|count|count_if|equal|equal_range|fill"
                 r"|fill_n|find|find_if|for_each|includes|is_sorted|lexicographical_compare|lower_bound|max|max_element|merge"
                 r"|min|min_element|minmax|mismatch|none_of|nth_element|partition|remove_if|replace|reverse|rotate|search"
                 r"|set_\w+|shuffle|sort|stable_\w+|swap_ranges|transform|unique|upper_bound)\(",
    "array": r"array\b",
    "atomic": r"(atomic|memory_order)",
    "chrono": r"chrono\b",
    "cstring": r"(mem(chr|cmp|cpy|move|set)|str(chr|cmp|error|len|ncmp|rchr|signal|str))\(",
    "functional": r"(function|plus|greater|less|hash|invoke|reference_wrapper)\b|(c?ref|bind\w*)\(",
    "map": r"(multi)?map\b",
    "memory": r"(unique|shared|weak)_ptr\b|make_(unique|shared)\b",
    "mutex": r"(recursive_)?mutex\b|(lock_guard|unique_lock|scoped_lock|call_once|once_flag)\b",
    "optional": r"(optional|nullopt|make_optional)\b",
    "span": r"(span|as_bytes|as_writable_bytes)\b",
    "string": r"(string|to_string|sto[a-z]+)\b",
    "string_view": r"string_view\b",
    "vector": r"vector\b",
    "filesystem": r"filesystem\b",
    "fstream": r"[io]?fstream\b",
    "random": r"(mt19937\w*|random_device|\w+_distribution)\b",
    "thread": r"(j?thread|this_thread)\b",
}
NAMED = {header: re.compile(r"\bstd::(" + names + ")") for header, names in NAMES.items()}
NAMED["cstdint"] = re.compile(r"\bu?int(8|16|32|64|ptr)_t\b")
NAMED["fmt/format.h"] = re.compile(r"\bfmt::")
NAMED["gtest/gtest.h"] = re.compile(r"\btesting::|\b(EXPECT|ASSERT)_[A-Z]+\(|\bTEST(_[FP])?\(")
# What comes with another header by its own documentation.
COMES_WITH = {"string_view": {"string"}, "fmt/format.h": {"fmt/ranges.h", "fmt/chrono.h"}, "cstdint": {"stdint.h"}}

root = pathlib.Path(sys.argv[1])
comment_or_text = re.compile(r'//[^\n]*|/\*.*?\*/|"(\\.|[^"\\\n])*"|\'(\\.|[^\'\\\n])*\'', re.S)


@functools.cache
def included(path):
    """By `path` itself: files of the project, and names of other headers."""
    files, others = set(), set()
    for name in re.findall(r'^#\s*include [<"]([^>"]+)', path.read_text(), re.M):
        places = [root / name, root / "include" / name, path.parent / name]
        own = next((place for place in places if place.is_file()), None)
        files.add(own) if own else others.add(name)
    return files, others


def headers(path):
    """Not of the project, that `path` includes, by itself or by files of the project."""
    found, seen, left = set(), set(), [path]
    while left:
        at = left.pop()
        if at not in seen:
            seen.add(at)
            files, others = included(at)
            found |= others
            left.extend(files)
    return found


bad = 0
for path in sorted((root / "pch").glob("*.h")):
    for header in included(path)[1] - NAMED.keys():
        print(f"{path.relative_to(root)}: no names are known here of <{header}>")
        bad += 1
for top in ("include", "lib", "algorithms", "transports", "tools", "bench", "mpi", "tests"):
    for path in sorted((root / top).rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        text = comment_or_text.sub("", path.read_text())
        for header, names in NAMED.items():
            use = names.search(text)
            if use and not headers(path) & ({header} | COMES_WITH.get(header, set())):
                print(f"{path.relative_to(root)}: {use[0]} needs <{header}>")
                bad += 1
sys.exit(bad > 0)
