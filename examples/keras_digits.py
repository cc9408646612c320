# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, by Keras: a script for one process, and what it needs to run as several.

    echelon run -n 4 -- python3 keras_digits.py --check

Every rank fits its share of each batch. So losses and weights are those of a single process with
whole batches, which --check trains as well and compares."""
import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import echelon
import echelon.keras as ech
import keras
import numpy as np
from sklearn.datasets import load_digits

IMAGES, BATCH, RATE = 1680, 240, 0.5


def make_model():
    return keras.Sequential([
        keras.Input((64,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ])


def load(rank, size):
    """This rank's share of every batch."""
    images, labels = load_digits(return_X_y=True)
    batches = np.arange(IMAGES).reshape(-1, BATCH)
    mine = np.array_split(batches, size, axis=1)[rank].ravel()
    return images[mine] / 16, labels[mine]


def train(model, optimizer, rank, size, epochs):
    images, labels = load(rank, size)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model.fit(images, labels, batch_size=BATCH // size, epochs=epochs, shuffle=False,
                     verbose=2 if rank == 0 and size > 1 else 0,
                     callbacks=[ech.BroadcastGlobalVariables(), ech.MetricAverage()]).history


def check(model, history, start, epochs):
    alone = make_model()
    alone.set_weights(start)
    expected = train(alone, keras.optimizers.SGD(RATE), 0, 1, epochs)
    difference = max(np.abs(np.subtract(history[name], expected[name])).max() for name in history)
    assert difference < 1e-12, f"losses differ from a single process's by {difference}"
    bits = echelon.allgather_object([weight.tobytes() for weight in model.get_weights()])
    assert all(other == bits[0] for other in bits), "the ranks have different weights"
    print(f"rank {ech.rank()}: losses differ by at most {difference:.1e}; same weights")


def main():
    parser = argparse.ArgumentParser(description="digits by Keras")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare with a single process")
    options = parser.parse_args()
    ech.init()
    if BATCH % ech.size() != 0:
        raise SystemExit(f"{BATCH} images cannot be shared out evenly to {ech.size()} ranks")
    if options.check:
        keras.config.set_floatx("float64")
        keras.utils.set_random_seed(1)  # all ranks know what rank 0 begins with
    model = make_model()
    start = model.get_weights()
    optimizer = ech.DistributedOptimizer(keras.optimizers.SGD(RATE))
    history = train(model, optimizer, ech.rank(), ech.size(), options.epochs)
    if options.check:
        check(model, history, start, options.epochs)
    ech.shutdown()


if __name__ == "__main__":
    main()
