# SPDX-License-Identifier: Apache-2.0
"""What belongs to a process group beside its operations, on 2 ranks."""
import threading
import unittest
from unittest import mock

import torch_suite
import torch
import torch.distributed as dist
from echelon.torch import _process_group


class Device(torch_suite.Ranks):
    def test_gpu_of_the_caller(self):
        """A group that begins with host memory is made for the GPU that is current in the thread of
        the caller; torch.cuda is made up."""
        caller, used = threading.get_ident(), []

        def current_device():
            return 1 if threading.get_ident() == caller else 0

        def meet_in(store, rank, size, timeout, device):
            used.append((threading.get_ident() == caller, device))
            return real(store, rank, size, timeout, torch.device("cpu"))

        real = _process_group.meet_in
        group, mine = dist.new_group(), torch.ones(2)
        with mock.patch.object(torch.cuda, "is_initialized", lambda: True), \
                mock.patch.object(torch.cuda, "current_device", current_device), \
                mock.patch.object(_process_group, "meet_in", meet_in):
            dist.all_reduce(mine, group=group)
        self.same(mine, [self.size] * 2)
        self.assertEqual(used, [(False, torch.device("cuda", 1))])
        dist.destroy_process_group(group)


if __name__ == "__main__":
    torch_suite.main()
