# SPDX-License-Identifier: Apache-2.0
"""Training that goes on without a rank that has died, as docs/frameworks.md says."""
import signal
import unittest

import torch_suite  # noqa: F401: skips
import shrink_test

BEGIN = """
import os, signal, sys
import torch, torch.distributed as dist
import echelon.torch as ech
torch.set_num_threads(1)
ech.init()
me, step = ech.rank(), 0
torch.manual_seed(me)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""
END = """
parameters = [float(p.double().sum()) for p in model.parameters()]
sys.stdout.write(f"{ech.rank()} {ech.size()} {step} {parameters}\\n")
"""
WITH_OPTIMIZER = BEGIN + """
def connected():
    ech.broadcast_parameters(model.state_dict())
    ech.broadcast_optimizer_state(optimizer)
    return ech.DistributedOptimizer(optimizer, model.named_parameters())

optimizer = connected()
while step < 4:
    try:
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().sum().backward()
        if me == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
        step += 1
    except ech.RankLostError:
        optimizer.close()
        ech.shrink()
        step = ech.broadcast_object(step)
        optimizer = connected()
""" + END
WITH_DDP = BEGIN + """
def connected():
    dist.init_process_group("echelon", init_method="echelon://")
    ech.broadcast_optimizer_state(optimizer)
    return torch.nn.parallel.DistributedDataParallel(model)

wrapped = connected()
while step < 4:
    try:
        optimizer.zero_grad()
        loss = wrapped(torch.randn(8, 4)).square().sum()
        if me == 0 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        optimizer.step()
        step += 1
    except RuntimeError:
        if dist.group.WORLD.failure() is None:
            raise
        dist.destroy_process_group()
        ech.shrink()
        step = ech.broadcast_object(step)
        wrapped = connected()
dist.destroy_process_group()
""" + END


class GoesOn(unittest.TestCase):
    def check(self, script, dead):
        ranks = shrink_test.four(script)
        self.assertEqual(ranks.pop(dead)[0], -signal.SIGKILL)
        self.assertEqual([code for code, _, _ in ranks], [0] * 3, ranks)
        said = [words.split(" ", 3) for _, words, _ in ranks]
        self.assertEqual([words[:3] for words in said], [[str(r), "3", "4"] for r in range(3)])
        self.assertEqual(len({words[3] for words in said}), 1, said)

    def test_optimizer(self):
        self.check(WITH_OPTIMIZER, 1)

    def test_ddp(self):
        """Rank 0, which has PyTorch's store."""
        self.check(WITH_DDP, 0)


if __name__ == "__main__":
    unittest.main()
