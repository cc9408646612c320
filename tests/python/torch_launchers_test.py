# SPDX-License-Identifier: Apache-2.0
"""The backend "echelon" under torchrun and mpirun, and when a rank dies."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import processes
import torch_suite  # noqa: F401: skips

BEGIN = """
import os, signal, sys
import torch, torch.distributed as dist
import echelon, echelon.torch
torch.set_num_threads(1)
dist.init_process_group("echelon"{more})
rank, mine = dist.get_rank(), torch.ones(3)
dist.all_reduce(mine)
def say(*words):  # at once: ranks share a pipe
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()
"""
TOTAL = BEGIN + "say(rank, dist.get_backend(), mine.tolist())\ndist.destroy_process_group()"
# One without destroy_process_group(), of which the others know nothing: its end is an orderly one.
UNENDED = BEGIN + "say(rank, mine.tolist())"
DEATH = BEGIN + """
part = dist.new_group()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    model(torch.ones(1, 4)).sum().backward()
except RuntimeError as error:
    say("backward:", error)
try:
    dist.all_reduce(mine)
except echelon.PeerError as error:
    say("all_reduce:", error)
"""
IDLE = BEGIN + """
import time
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(3)  # nothing is under way when the group hears of it
try:
    dist.all_reduce(mine)
except echelon.RankLostError as error:
    say(dist.group.WORLD.failure() is error)
"""
RAISES = BEGIN + """
if rank == 1:
    raise ValueError("mine")
dist.barrier()
"""
# What it leaves behind is more than the default group, and the other rank is in none of it.
LEAVES = BEGIN + """
part = dist.new_group()
dist.barrier(part)
if rank == 1:
    sys.exit(3)
while True:
    signal.pause()
"""


class Launchers(unittest.TestCase):
    def torchrun(self, script):
        """By torch's own launcher. (exit code, output, errors)"""
        with tempfile.TemporaryDirectory() as logs:  # else it leaves a folder in /tmp
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--log-dir", logs,
                       "--nproc-per-node=2", "--no-python", sys.executable, "-c",
                       script.format(more="")]
            return self.run_it(command)

    def run_it(self, command):
        """Ends what it started: it has a session of its own."""
        job = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
        try:
            said, errors = job.communicate(timeout=240)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        return job.returncode, sorted(said.split("\n")), errors

    def test_torchrun(self):
        code, said, errors = self.torchrun(TOTAL)
        self.assertEqual((code, said), (0, ["", "0 echelon [2.0, 2.0, 2.0]",
                                            "1 echelon [2.0, 2.0, 2.0]"]), errors)

    def test_without_destroying(self):
        code, said, errors = self.torchrun(UNENDED)
        self.assertEqual((code, said), (0, ["", "0 [2.0, 2.0, 2.0]", "1 [2.0, 2.0, 2.0]"]), errors)
        self.assertNotIn("echelon:", errors)

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        script = TOTAL.format(more=", init_method='echelon://'")
        code, said, errors = self.run_it(
            ["mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", sys.executable, "-c",
             script])
        self.assertEqual((code, said), (0, ["", "0 echelon [2.0, 2.0, 2.0]",
                                            "1 echelon [2.0, 2.0, 2.0]"]), errors)

    def two(self, script):
        """Two ranks that no launcher looks after. (output, errors, exit code) of each."""
        command = [sys.executable, "-c", script.format(more="")]
        ended = processes.run_all(command, processes.torchrun_variables(2), 240)
        return [(said, errors, code) for code, said, errors in ended]

    def test_death(self):
        """Named in backward(), which C++ waits for, and in what Python waits for."""
        first, second = self.two(DEATH)
        self.assertEqual(second[2], -signal.SIGKILL)
        self.assertRegex(first[0], r"backward: .*PeerError.*rank 1 .*died", first[1])
        self.assertRegex(first[0], r"all_reduce: .*rank 1 .*died", first[1])

    def test_death_between_operations(self):
        first, _ = self.two(IDLE)
        self.assertEqual(first[0], "True\n", first[1])

    def test_exception(self):
        first, second = self.two(RAISES)
        self.assertEqual((first[2], second[2]), (1, 1))
        self.assertIn("ValueError: mine", second[1])
        self.assertRegex(first[1], "AbortedError: .*rank 1 ")

    def test_exit(self):
        """Whoever started the rank learns how it ended, although another never says goodbye."""
        code, _, errors = self.torchrun(LEAVES)
        self.assertNotEqual(code, 0)
        self.assertRegex(errors, r"exitcode\s*: 3 ")


if __name__ == "__main__":
    unittest.main()
