# SPDX-License-Identifier: Apache-2.0
"""What the tests that start ranks themselves have in common."""
import os
import socket
import subprocess
import sys
import unittest


def torchrun_variables(ranks):
    """Of each rank, as torchrun sets them for one host."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    return [{"RANK": str(r), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(r),
             "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            for r in range(ranks)]


def run_all(command, environments, timeout=90):
    """(exit code, output, errors) of each process. Those that do not end are killed."""
    ranks = [subprocess.Popen(command, env={**os.environ, **more}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
             for more in environments]
    try:
        ended = [rank.communicate(timeout=timeout) for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
    return [(rank.returncode, *texts) for rank, texts in zip(ranks, ended)]


def main():
    try:
        import numpy  # noqa: F401
    except ImportError:
        print(f"skipped: {sys.executable} has no NumPy (Debian: python3-numpy)")
        sys.exit(77)
    unittest.main(module="__main__")
