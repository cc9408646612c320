# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, by PyTorch with an optimizer that averages gradients, in Horovod's way.

    echelon run -n 4 -- python3 torch_optimizer_digits.py --check

Every rank has its share of each batch. So losses and weights are those of a single process with
whole batches, which --check trains as well and compares. torchrun and mpirun start it as well."""
import argparse
import copy

import torch
from sklearn.datasets import load_digits
from torch import nn

import echelon.torch as ech

IMAGES, BATCH, RATE = 1680, 240, 0.1


def make_model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)


def train(model, optimizer, average, rank, size, epochs):
    """The mean loss of every batch."""
    images, labels = map(torch.from_numpy, load_digits(return_X_y=True))
    losses = []
    for start in list(range(0, IMAGES, BATCH)) * epochs:
        mine = slice(start + rank * BATCH // size, start + (rank + 1) * BATCH // size)
        loss = nn.functional.cross_entropy(model(images[mine] / 16), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(average(loss.detach()))
    return torch.stack(losses)


def check(losses, model, alone, epochs):
    expected = train(alone, make_optimizer(alone), lambda loss: loss, 0, 1, epochs)
    difference = (losses - expected).abs().max()
    assert difference < 1e-12, f"losses differ from a single process's by {difference}"
    bits = ech.allgather_object([p.detach().numpy().tobytes() for p in model.parameters()])
    assert all(other == bits[0] for other in bits), "the ranks have different weights"
    print(f"rank {ech.rank()}: losses differ by at most {difference:.1e}; same weights")


def main():
    parser = argparse.ArgumentParser(description="digits by PyTorch and DistributedOptimizer")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare with a single process")
    options = parser.parse_args()
    ech.init()
    if BATCH % ech.size() != 0:
        raise SystemExit(f"{BATCH} images cannot be shared out evenly to {ech.size()} ranks")
    torch.manual_seed(ech.rank())  # every rank begins with other weights
    model = make_model()
    ech.broadcast_parameters(model.state_dict())
    alone = copy.deepcopy(model)
    optimizer = ech.DistributedOptimizer(make_optimizer(model), model.named_parameters())
    losses = train(model, optimizer, ech.allreduce, ech.rank(), ech.size(), options.epochs)
    if ech.rank() == 0:
        for epoch, mean in enumerate(losses.view(options.epochs, -1).mean(1)):
            print(f"epoch {epoch}: loss {mean:.4f}")
    if options.check:
        check(losses, model, alone, options.epochs)
    optimizer.close()
    ech.shutdown()


if __name__ == "__main__":
    main()
