#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file has more than 400 lines, a function more than 40, or there is a goto.

Functions are found by counting braces, which is rough but never needs a compiler."""
import pathlib
import re
import subprocess
import sys

FILE_LINES, FUNCTION_LINES = 400, 40
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                      r"|(?<!\w)'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
# What may stand between a parameter list and the body.
FUNCTION_HEAD = re.compile(r"\)\s*((const|override|final|mutable|noexcept|try)\b\s*|->[^;{}]*"
                           r"|:[^;{}]*\)\s*)*$")


def blank(match):
    """Keeps line numbers right; a string stays something that is not a brace."""
    return "\n" * match[0].count("\n") or " "


def functions(code):
    """(first line, lines, head) of each outermost brace pair that looks like a function."""
    head, stack, line, first_line = "", [], 1, 1
    for c in code:
        line += c == "\n"
        if c == "{":
            inside = any(s[0] for s in stack)
            stack.append((not inside and bool(FUNCTION_HEAD.search(head)), first_line, head))
            head = ""
        elif c == "}" and stack:
            is_function, begin, opened_by = stack.pop()
            if is_function:
                yield begin, line - begin + 1, opened_by
            # A braced initialiser belongs to the statement it stands in.
            plain = is_function or re.search(r"\b(namespace|class|struct|enum|union)\b", opened_by)
            head = "" if plain else opened_by + "()"
        elif c == ";":
            head = ""
        else:
            if not head.strip():
                first_line = line
            head += c


def problems(path):
    text = path.read_text()
    if text.count("\n") > FILE_LINES:
        yield 1, f"{text.count(chr(10))} lines, at most {FILE_LINES}"
    code = NOT_CODE.sub(blank, text)
    for match in re.finditer(r"\bgoto\b", code):
        yield code[:match.start()].count("\n") + 1, "goto"
    for line, length, head in functions(code):
        if length > FUNCTION_LINES:
            name = " ".join(head.split())[:60]
            yield line, f"function of {length} lines, at most {FUNCTION_LINES}: {name}"


root = pathlib.Path(sys.argv[1])
names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.hpp", "*.cc",
                        "*.c", "*.cu"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
found = [f"{name}:{line}: {what}" for name in names if (root / name).is_file()
         for line, what in problems(root / name)]
if found:
    print("\n".join(found))
sys.exit(bool(found))
