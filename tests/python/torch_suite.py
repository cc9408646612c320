# SPDX-License-Identifier: Apache-2.0
"""What the tests with PyTorch have in common: ranks in a process group of the backend "echelon".
Tensors lie on the device that ECHELON_TEST_DEVICE names ("cuda"), as tests/gpu/run has it. Without
PyTorch the tests are skipped, by the exit code that Meson knows."""
import importlib.util
import os
import sys
import time
import unittest

_MISSING = [name for name in ("numpy", "torch", "sklearn") if importlib.util.find_spec(name) is None]
if _MISSING:
    print(f"skipped: {sys.executable} has no {' and no '.join(_MISSING)} "
          "(./dev setup-frameworks installs them)")
    sys.exit(77)
import torch
import torch.distributed as dist
import echelon
import echelon.torch


class Ranks(unittest.TestCase):
    def setUp(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def same(self, got, expected):
        right = torch.as_tensor(expected, dtype=got.dtype, device=got.device)
        torch.testing.assert_close(got, right, rtol=0, atol=0)

    def until(self, condition):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)


def main():
    torch.set_num_threads(1)
    torch.set_default_device(os.environ.get("ECHELON_TEST_DEVICE", "cpu"))
    torch.zeros(1)  # makes a GPU current, for which communicators are made
    echelon.init()
    dist.init_process_group("echelon", init_method="echelon://")
    outcome = unittest.main(module="__main__", exit=False, failfast=True).result
    if not outcome.wasSuccessful():
        for group in list(dist.distributed_c10d._world.pg_map):
            group.abort()
        echelon.abort()
        sys.exit(1)
    dist.destroy_process_group()
    echelon.shutdown()
