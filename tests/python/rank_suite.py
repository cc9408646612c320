# SPDX-License-Identifier: Apache-2.0
"""What the tests that run as ranks have in common: every rank runs the same tests in the same
order. Without NumPy the tests are skipped, by the exit code that Meson knows."""
import sys
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    print(f"skipped: {sys.executable} has no NumPy (Debian: python3-numpy)")
    sys.exit(77)
import echelon


def main():
    echelon.init()
    outcome = unittest.main(module="__main__", exit=False, failfast=True).result
    if not outcome.wasSuccessful():
        echelon.abort()
        sys.exit(1)
    echelon.shutdown()
