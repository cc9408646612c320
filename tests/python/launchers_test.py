# SPDX-License-Identifier: Apache-2.0
"""Ranks that others start: torchrun's variables, mpirun, a unique id. And how a rank ends, and what
is in its timeline then."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import processes

RANK = """
import echelon, numpy, sys
{init}
total = echelon.allreduce(numpy.ones(1), echelon.Sum)[0]
sys.stdout.write(f"{{echelon.rank()}} {{echelon.size()}} {{total}}\\n")  # at once: ranks share a pipe
{end}
"""


def script(init="echelon.init()", end=""):
    return [sys.executable, "-c", RANK.format(init=init, end=end)]


class Launchers(unittest.TestCase):
    def torchrun(self, command):
        return processes.run_all(command, processes.torchrun_variables(2))

    def test_torchrun(self):
        self.assertEqual(self.torchrun(script()), [(0, "0 2 2.0\n", ""), (0, "1 2 2.0\n", "")])

    def test_a_rank_that_ends_with_an_exception(self):
        end = "if echelon.rank() == 1: raise ValueError('mine')\nechelon.barrier()"
        first, second = self.torchrun(script(end=end))
        self.assertEqual((first[0], second[0]), (1, 1))
        self.assertIn("AbortedError", first[2])
        self.assertIn("rank 1", first[2])
        self.assertIn("ValueError: mine", second[2])

    def test_exit_without_the_others(self):
        """What a rank ends with by sys.exit() is seen, although another never ends."""
        end = ("import signal\nechelon._process_sets._FAREWELL = 4\n"
               "if echelon.rank() == 1: sys.exit(3)\nsignal.pause()")
        first, second = [subprocess.Popen(
            script(end=end), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, **more}) for more in processes.torchrun_variables(2)]
        try:
            _, errors = second.communicate(timeout=60)
            self.assertEqual(second.returncode, 3)
            self.assertRegex(errors, "echelon: .*rank 0 ")
        finally:
            for rank in (first, second):
                rank.kill()
                rank.communicate()

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        command = ["mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", *script()]
        (code, said, errors), = processes.run_all(command, [{}])
        self.assertEqual((code, sorted(said.split("\n"))), (0, ["", "0 2 2.0", "1 2 2.0"]), errors)

    def test_unique_id(self):
        init = "echelon.init(unique_id=echelon.unique_id('lo'), rank=0, size=1)"
        self.assertEqual(processes.run_all(script(init), [{}]), [(0, "0 1 1.0\n", "")])

    def test_names_in_the_timeline(self):
        more = "a = numpy.ones(9)\n" + "\n".join([
            "echelon.allreduce(a, name='one')", "echelon.grouped_allreduce([a, a + 1], name='two')",
            "echelon.broadcast(a, 0, name='three')", "echelon.allgather(a, name='four')",
            "echelon.reduce_scatter(a, name='five')", "echelon.shutdown()"])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.json"
            init = "echelon.init(unique_id=echelon.unique_id('lo'), rank=0, size=1)"
            ended = processes.run_all(script(init, more), [{"ECHELON_TIMELINE": str(path)}])
            self.assertEqual(ended, [(0, "0 1 1.0\n", "")])
            events = json.loads(path.read_text())["traceEvents"]
        names = [e["name"] for e in events if e.get("cat") == "operation"]
        for name in ("allreduce #0", "one", "two", "three", "four", "five"):
            self.assertIn(name, names)

    def test_before_init(self):
        (code, _, errors), = processes.run_all(script(init=""), [{}])
        self.assertEqual(code, 1)
        self.assertIn("echelon is not initialized: call echelon.init()", errors)


if __name__ == "__main__":
    processes.main()
