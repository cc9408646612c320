#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs a build into a folder of its own and uses what is there as a stranger would:
check_install.py BUILD EXAMPLE.c CC [no-link]"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SONAME = "libechelon.so.0"


def output(*command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def expect(condition, what):
    if not condition:
        sys.exit(what)


def dynamic(path, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "-d", path))


def only(stage, name):
    found = sorted(stage.rglob(name))
    expect(len(found) == 1, f"{name} is installed {len(found)} times")
    return found[0]


def check(stage, build, example, cc, link):
    output("meson", "install", "-C", build, "--no-rebuild", "--destdir", stage)
    header, library = only(stage, "echelon.h"), only(stage, SONAME)
    only(stage, "echelon.hpp")
    expect(dynamic(library, "SONAME") == [SONAME], f"soname {dynamic(library, 'SONAME')}")
    expect(library.resolve() == only(stage, "libechelon.so").resolve(), "two libraries")
    version = ".".join(re.findall(r"ECH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text()))
    env = dict(os.environ, PKG_CONFIG_LIBDIR=str(only(stage, "echelon.pc").parent),
               PKG_CONFIG_SYSROOT_DIR=str(stage), PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1",
               PKG_CONFIG_ALLOW_SYSTEM_LIBS="1", LD_LIBRARY_PATH=str(library.parent))
    said = output("pkg-config", "--modversion", "echelon", env=env).strip()
    expect(said == version, f"pkg-config says version {said}, the header {version}")
    flags = output("pkg-config", "--cflags", "--libs", "echelon", env=env).split()
    want = [f"-I{header.parent.parent}", f"-L{library.parent}", "-lechelon"]
    expect(flags == want, f"pkg-config says {flags}, not {want}")
    compile_only = [] if link else ["-c"]
    program = stage / "program"
    output(*shlex.split(cc), "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", example,
           *compile_only, "-o", program, *(flags if link else flags[:1]))
    if not link:
        return
    expect(SONAME in dynamic(program, "NEEDED"), "the program needs another library")
    said = output(program, env=env)
    expect(said.startswith("rank 0 of 1: "), f"the program says {said}")


with tempfile.TemporaryDirectory() as folder:
    check(pathlib.Path(folder).resolve(), sys.argv[1], sys.argv[2], sys.argv[3],
          len(sys.argv) == 4)
