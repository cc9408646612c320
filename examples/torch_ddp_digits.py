# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, by PyTorch's DistributedDataParallel on the backend "echelon".

    echelon run -n 4 -- python3 torch_ddp_digits.py --check

Every rank has its share of each batch. So losses and weights are those of a single process with
whole batches, which --check trains as well and compares. torchrun and mpirun start it as well."""
import argparse
import copy

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import echelon.torch  # noqa: F401: the backend

IMAGES, BATCH, RATE = 1680, 240, 0.5


def make_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()


def train(model, average, rank, size, epochs):
    """The mean loss of every batch."""
    images, labels = map(torch.from_numpy, load_digits(return_X_y=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for start in list(range(0, IMAGES, BATCH)) * epochs:
        mine = slice(start + rank * BATCH // size, start + (rank + 1) * BATCH // size)
        loss = nn.functional.cross_entropy(model(images[mine] / 16), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(average(loss.detach()))
    return torch.stack(losses)


def average(loss):
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    return loss


def check(losses, model, alone, epochs):
    expected = train(alone, lambda loss: loss, 0, 1, epochs)
    difference = (losses - expected).abs().max()
    assert difference < 1e-12, f"losses differ from a single process's by {difference}"
    bits = [None] * dist.get_world_size()
    dist.all_gather_object(bits, [p.detach().numpy().tobytes() for p in model.parameters()])
    assert all(other == bits[0] for other in bits), "the ranks have different weights"
    print(f"rank {dist.get_rank()}: losses differ by at most {difference:.1e}; same weights")


def main():
    parser = argparse.ArgumentParser(description="digits by PyTorch's DistributedDataParallel")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare with a single process")
    options = parser.parse_args()
    dist.init_process_group("echelon", init_method="echelon://")
    rank, size = dist.get_rank(), dist.get_world_size()
    if BATCH % size != 0:
        raise SystemExit(f"{BATCH} images cannot be shared out evenly to {size} ranks")
    torch.manual_seed(1)
    model = make_model()
    alone = copy.deepcopy(model)
    losses = train(DistributedDataParallel(model), average, rank, size, options.epochs)
    if rank == 0:
        for epoch, mean in enumerate(losses.view(options.epochs, -1).mean(1)):
            print(f"epoch {epoch}: loss {mean:.4f}")
    if options.check:
        check(losses, model, alone, options.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
