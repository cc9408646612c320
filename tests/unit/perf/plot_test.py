#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench/plot draws what it is given, and says what it cannot draw. Usage: plot_test.py PLOT"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PLOT = pathlib.Path(sys.argv.pop(1)).resolve()


def row(size, time, **more):
    return json.dumps({"bytes": size, "type": "f32", "op": "sum", "time_us": time,
                       "p99_us": 2 * time, "bound_us": time / 1.5, "wrong": 0} | more)


class Plot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, *lines):
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def plot(self, *arguments):
        return subprocess.run([sys.executable, PLOT, *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, check=False)

    def test_svg_has_title_axes_and_one_curve_per_file(self):
        a = self.file("chosen.jsonl", *(f"[0 host0] {row(8 << n, 10 + n)}" for n in range(20)))
        b = self.file("ring.jsonl", "noise", *(row(8 << n, 30 + n) for n in range(20)))
        done = self.plot("-o", "out.svg", "-t", "4 hosts x 2 ranks", "-l", "by cost", a, b)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        svg = (self.folder / "out.svg").read_text()
        for text in ("f32 sum on 4 hosts x 2 ranks", "by cost", "ring", "time per operation",
                     "time / bound", "size of the vector", "64 B", "lower bound"):
            self.assertIn(text, svg)

    def test_png_of_rows_without_bound_and_of_size_zero(self):
        a = self.file("a.jsonl", row(0, 3, bound_us=None), row(8, 4, bound_us=None, p99_us=None))
        done = self.plot("-o", "out.png", a)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.folder / "out.png").read_bytes()[:4], b"\x89PNG")

    def test_collectives_of_one_file_are_told_apart(self):
        rows = [row(8 << n, n + 1, collective=c) for n in range(3) for c in ("reduce", "allgather")]
        self.assertEqual(self.plot("-o", "out.svg", self.file("a.jsonl", *rows)).returncode, 0)
        svg = (self.folder / "out.svg").read_text()
        self.assertIn("a: reduce f32 sum", svg)
        self.assertIn("a: allgather f32 sum", svg)

    def test_says_what_it_cannot_draw(self):
        good = self.file("good.jsonl", row(8, 1))
        empty = self.file("empty.jsonl", "{\"bytes\": 8}", "{nonsense", "[1]")
        for arguments in (("-o", "a.png", empty), ("-o", "a.xyz", good), ("-o", "a.png", "missing"),
                          ("-o", "a.png", "-l", "x", "-l", "y", good)):
            done = self.plot(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"^plot: .*\n$")


if __name__ == "__main__":
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        sys.exit(77)  # skipped
    unittest.main()
