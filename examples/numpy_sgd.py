# SPDX-License-Identifier: Apache-2.0
"""Logistic regression on images of 8 x 8 pixels in ten classes, by plain SGD in NumPy.

    echelon run -n 4 -- python3 numpy_sgd.py --check

Every rank has its share of each batch; the gradients are averaged. So the losses are those of a
single process with the whole batch, which --check computes as well and compares."""
import argparse

import echelon
import numpy as np

CLASSES, PIXELS, IMAGES, BATCH, RATE = 10, 64, 1920, 240, 0.5


def make_images():
    """The same on all ranks: a pattern for each class, and noise."""
    random = np.random.default_rng(1)
    patterns = random.random((CLASSES, PIXELS))
    labels = random.integers(CLASSES, size=IMAGES)
    return patterns[labels] + 0.8 * random.standard_normal((IMAGES, PIXELS)), labels


def loss_and_gradient(weights, images, labels):
    scores = images @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels]).mean()
    chances[rows, labels] -= 1
    return loss, images.T @ chances / len(labels)


def train(rank, size, average, epochs):
    """The losses of all steps, and the weights."""
    images, labels = make_images()
    weights, losses = np.zeros((PIXELS, CLASSES)), []
    for start in list(range(0, IMAGES, BATCH)) * epochs:
        mine = slice(start + rank * BATCH // size, start + (rank + 1) * BATCH // size)
        loss, gradient = loss_and_gradient(weights, images[mine], labels[mine])
        loss, gradient = average([loss, gradient])
        weights -= RATE * gradient
        losses.append(float(loss))
    return losses, weights


def check(losses, weights, epochs):
    alone, _ = train(0, 1, lambda values: values, epochs)
    difference = np.abs(np.array(losses) - alone).max()
    assert difference < 1e-12, f"losses differ from a single process's by {difference}"
    bits = echelon.allgather_object(weights.tobytes())
    assert len(set(bits)) == 1, "the ranks have different weights"
    print(f"rank {echelon.rank()}: losses differ by at most {difference:.1e}; same weights")


def main():
    parser = argparse.ArgumentParser(description="logistic regression by SGD")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare with a single process")
    options = parser.parse_args()
    echelon.init()
    if BATCH % echelon.size() != 0:
        raise SystemExit(f"{BATCH} images cannot be shared out evenly to {echelon.size()} ranks")
    losses, weights = train(echelon.rank(), echelon.size(), echelon.grouped_allreduce,
                            options.epochs)
    if echelon.rank() == 0:
        steps = len(losses) // options.epochs
        for epoch in range(options.epochs):
            print(f"epoch {epoch}: loss {np.mean(losses[epoch * steps:(epoch + 1) * steps]):.4f}")
    if options.check:
        check(losses, weights, options.epochs)
    echelon.shutdown()


if __name__ == "__main__":
    main()
