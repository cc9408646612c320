# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, by a script in the way of PowerAI DDL's example of MNIST with Keras. What it
says to DDL is what it would say there, but for the import.

    echelon run -n 4 -- python3 ddl_digits.py"""
import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import echelon
import echelon.ddl as ddl
import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

IMAGES, TRAINED, BATCH = 1797, 1600, 32


def load():
    """Each rank trains with, and tests with, an equal part of the images."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).reshape(-1, 8, 8, 1).astype(np.float32)
    whole = tf.data.Dataset.from_tensor_slices((images, keras.utils.to_categorical(labels, 10)))
    mine = whole.take(TRAINED).shard(ddl.size(), ddl.rank())
    test = whole.skip(TRAINED)
    return (mine.cache().shuffle(1000, seed=ddl.rank()).batch(BATCH).repeat(), test.batch(BATCH),
            test.shard(ddl.size(), ddl.rank()).batch(BATCH).repeat())


def make_model():
    layers = keras.layers
    return keras.Sequential([
        keras.Input((8, 8, 1)),
        layers.Conv2D(16, kernel_size=3, activation="relu"),
        layers.MaxPooling2D(pool_size=2),
        layers.Dropout(0.1),
        layers.Flatten(),
        layers.Dense(32, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ])


def main():
    parser = argparse.ArgumentParser(description="digits by Keras, with the names of DDL")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--check", action="store_true", help="whether it learns, and all the same")
    options = parser.parse_args()
    train, whole_test, test = load()
    model = make_model()
    # Batches of all ranks together are larger, and so can the steps be.
    model.compile(keras.optimizers.Adadelta(learning_rate=1.0 * ddl.size()),
                  "categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, epochs=options.epochs, verbose=2 if ddl.rank() == 0 else 0,
              steps_per_epoch=TRAINED // ddl.size() // BATCH, validation_data=test,
              validation_steps=(IMAGES - TRAINED) // ddl.size() // BATCH + 1,
              callbacks=[ddl.DDLCallback(), ddl.DDLGlobalVariablesCallback()])
    if ddl.rank() == 0:
        loss, accuracy = model.evaluate(whole_test, verbose=0)
        print(f"test: loss {loss:.3f}, accuracy {accuracy:.3f}")
        assert not options.check or accuracy > 0.7
    if options.check:
        bits = echelon.allgather_object([weight.tobytes() for weight in model.get_weights()])
        assert all(other == bits[0] for other in bits), "the ranks have different weights"


if __name__ == "__main__":
    main()
