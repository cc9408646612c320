#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/run without a GPU, and with one but without anything to run."""
import os
import pathlib
import subprocess
import sys
import tempfile


def run(path, *arguments):
    return subprocess.run([sys.executable, sys.argv[1], *arguments], capture_output=True,
                          text=True, timeout=50, env=os.environ | {"PATH": str(path)})


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    build = folder / "build"
    done = run(folder, "--build", build)
    assert done.returncode == 77, done
    assert "there is no GPU" in done.stdout, done
    assert not build.exists(), "it built something first"

    tool = folder / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho NVIDIA Test, 580.1, 9.0\n")
    tool.chmod(0o755)
    done = run(folder, "--build", build, "--no-compile")
    assert done.returncode == 1, done
    assert "NVIDIA Test" in done.stdout, done
    table = done.stdout.split("\n\n")[-1].splitlines()
    assert len(table) == 22, done.stdout
    for row in table:
        assert "not possible here" in row, row
    for part in ("kernels: reference", "kernels: memcheck", "suite: gpu_streams",
                 "network: speed, 4 hosts", "nccl: ", "pytorch: training, -n 2"):
        assert part in done.stdout, part
    assert f"{build}/tests/gpu/gpu_kernels_test was not built" in done.stdout, done.stdout
