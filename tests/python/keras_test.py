# SPDX-License-Identifier: Apache-2.0
"""echelon.keras: training in fit(), which ends where one process with all data does."""
import os
import tempfile
import unittest

import rank_suite
import tensorflow_suite
import echelon
import echelon.keras as ech
import keras
import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")  # tracing again is what these tests do
RANK = SIZE = 0
BATCH, STEPS = 24, 4
SGD = keras.optimizers.SGD


def setUpModule():
    global RANK, SIZE
    RANK, SIZE = ech.rank(), ech.size()
    keras.config.set_floatx("float64")


def dense_model(seed=1):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh"),
                             keras.layers.Dense(3, "softmax")])


def dense_data():
    random = np.random.default_rng(1)
    return random.standard_normal((BATCH * STEPS, 6)), random.integers(3, size=BATCH * STEPS)


def embedding_model(seed=1):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((4,), dtype="int64"), keras.layers.Embedding(20, 3),
                             keras.layers.Flatten(), keras.layers.Dense(3, "softmax")])


def embedding_data():
    random = np.random.default_rng(2)
    return random.integers(20, size=(BATCH * STEPS, 4)), random.integers(3, size=BATCH * STEPS)


def mine(array):
    """This rank's part of every batch."""
    share = BATCH // SIZE
    return np.concatenate([array[k + RANK * share:k + (RANK + 1) * share]
                           for k in range(0, len(array), BATCH)])


def fit(model, data, batch=None, **more):
    """Of this rank's part, or of everything where the batch is given."""
    parts = data if batch else [mine(array) for array in data]
    return model.fit(*parts, batch_size=batch or BATCH // SIZE, shuffle=False, verbose=0, **more)


def compiled(model, optimizer, **more):
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], **more)
    return model


def callbacks():
    return [ech.BroadcastGlobalVariables(), ech.MetricAverage()]


class Recorder(keras.callbacks.Callback):
    """The learning rate of every batch."""

    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_end(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


class Training(unittest.TestCase):
    def compare(self, make, data, optimizer, *, wrap=None, tolerance=1e-12, **options):
        alone = compiled(make(), optimizer())
        expected = fit(alone, data, BATCH, epochs=3).history
        seed = 1 + RANK  # the weights of rank 0 are those of the model alone
        model = compiled(make(seed), (wrap or ech.DistributedOptimizer)(optimizer()), **options)
        got = fit(model, data, epochs=3, callbacks=callbacks()).history
        for name in ("loss", "accuracy"):
            np.testing.assert_allclose(got[name], expected[name], rtol=0, atol=tolerance)
        for one, other in zip(model.get_weights(), alone.get_weights()):
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
        self.assertLess(got["loss"][-1], got["loss"][0])
        tensorflow_suite.same_on_all_ranks(
            self, [*model.get_weights(), *[v.numpy() for v in model.optimizer.variables]])

    def test_is_that_of_one_process(self):
        self.compare(dense_model, dense_data(), lambda: SGD(0.3, momentum=0.9))

    def test_adam_with_clipping_and_decay(self):
        self.compare(dense_model, dense_data(), lambda: keras.optimizers.AdamW(
            0.02, weight_decay=0.01, global_clipnorm=0.1), tolerance=1e-9)

    def test_accumulation(self):
        """Of two batches, which is what a batch of twice the size is."""
        self.compare(dense_model, dense_data(),
                     lambda: SGD(0.3, momentum=0.9, gradient_accumulation_steps=2))

    def test_eager(self):
        self.compare(dense_model, dense_data(), lambda: SGD(0.3), run_eagerly=True)

    def test_several_steps_per_execution(self):
        self.compare(dense_model, dense_data(), lambda: SGD(0.3), steps_per_execution=2)

    def test_xla_is_turned_off(self):
        self.compare(dense_model, dense_data(), lambda: SGD(0.3), jit_compile=True)

    def test_small_buckets(self):
        self.compare(dense_model, dense_data(), lambda: SGD(0.3),
                     wrap=lambda o: ech.DistributedOptimizer(o, bucket_bytes=1))

    def test_embedding(self):
        for as_dense in (False, True):
            self.compare(embedding_model, embedding_data(), lambda: SGD(0.3, momentum=0.9),
                         wrap=lambda o: ech.DistributedOptimizer(o, sparse_as_dense=as_dense))

    def test_float32(self):
        keras.config.set_floatx("float32")
        self.addCleanup(keras.config.set_floatx, "float64")
        self.compare(dense_model, dense_data(), lambda: SGD(0.3), tolerance=1e-5)


class Optimizer(unittest.TestCase):
    def test_stays_what_it_was(self):
        plain = SGD(0.1, momentum=0.5)
        wrapped = ech.DistributedOptimizer(plain)
        self.assertIs(wrapped, plain)
        self.assertIs(type(wrapped), SGD)
        self.assertTrue(ech.is_distributed(wrapped))
        self.assertFalse(ech.is_distributed(SGD()))
        with self.assertRaisesRegex(echelon.InvalidError, "already"):
            ech.DistributedOptimizer(wrapped)

    def test_is_saved_and_loaded(self):
        model = compiled(dense_model(), ech.DistributedOptimizer(SGD(0.3, momentum=0.9)))
        fit(model, dense_data(), callbacks=callbacks())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.keras")
            model.save(path)
            loaded = keras.models.load_model(path)
        self.assertIs(type(loaded.optimizer), SGD)
        self.assertFalse(ech.is_distributed(loaded.optimizer))
        ech.DistributedOptimizer(loaded.optimizer)
        for one in (model, loaded):
            fit(one, dense_data(), callbacks=callbacks())
        for one, other in zip(model.get_weights(), loaded.get_weights()):
            np.testing.assert_array_equal(one, other)

    def test_loss_scale(self):
        """An overflow on one rank: all leave the step out."""
        scaled = keras.optimizers.LossScaleOptimizer(SGD(0.1), initial_scale=8.0)
        ech.DistributedOptimizer(scaled)
        weight = keras.Variable([1.0, 2.0])
        scaled.build([weight])
        scaled.apply([tf.constant([np.inf if RANK == 0 else 1.0, 1.0], tf.float64)], [weight])
        np.testing.assert_array_equal(weight.numpy(), [1.0, 2.0])
        scaled.apply([tf.constant([8.0 * RANK, 8.0], tf.float64)], [weight])
        self.assertNotEqual(weight.numpy()[1], 2.0)
        tensorflow_suite.same_on_all_ranks(self, [weight.numpy()])

    def test_loss_scale_around_it_is_refused(self):
        inner = ech.DistributedOptimizer(SGD(0.1))
        model = compiled(dense_model(), keras.optimizers.LossScaleOptimizer(inner))
        with self.assertRaisesRegex(echelon.InvalidError, "LossScaleOptimizer"):
            fit(model, dense_data(), callbacks=callbacks())


class Late(keras.Model):
    """Makes its weights when it sees the first batch."""

    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(3, "softmax")

    def call(self, x):
        return self.inner(x)


class Callbacks(unittest.TestCase):
    def test_broadcast(self):
        root = SIZE - 1
        optimizer = ech.DistributedOptimizer(SGD(0.1 + RANK, momentum=0.9))
        model = compiled(dense_model(seed=1 + RANK), optimizer)
        fit(model, dense_data(), epochs=0, callbacks=[ech.BroadcastGlobalVariables(root)])
        for one, other in zip(model.get_weights(), dense_model(1 + root).get_weights()):
            np.testing.assert_array_equal(one, other)
        self.assertEqual(float(optimizer.learning_rate), 0.1 + root)

    def test_weights_made_late(self):
        keras.utils.set_random_seed(1 + RANK)
        model = compiled(Late(), ech.DistributedOptimizer(SGD(0.1)))
        fit(model, dense_data(), callbacks=callbacks())
        tensorflow_suite.same_on_all_ranks(self, model.get_weights())

    def test_seeds_stay_different(self):
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dropout(0.5, seed=1 + RANK),
                                  keras.layers.Dense(3)])
        compiled(model, ech.DistributedOptimizer(SGD(0.1)))
        fit(model, dense_data(), callbacks=callbacks())
        seeds = echelon.allgather_object(model.layers[0].seed_generator.state.numpy().tobytes())
        self.assertEqual(len(set(seeds)), SIZE)

    def test_metrics(self):
        logs = {"loss": 1.0 + RANK, "accuracy": np.float32(RANK), "name": "text"}
        ech.MetricAverage().on_epoch_end(0, logs)
        mean = (SIZE - 1) / 2
        self.assertEqual(logs, {"loss": 1 + mean, "accuracy": mean, "name": "text"})

    def test_validation_metrics(self):
        model = compiled(dense_model(), ech.DistributedOptimizer(SGD(0.1)))
        x, y = dense_data()
        history = fit(model, (x, y), validation_data=(mine(x), mine(y)),
                      callbacks=callbacks()).history
        expected = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
        self.assertAlmostEqual(history["val_loss"][0], expected["loss"], delta=1e-12)

    def test_warm_up(self):
        recorder = Recorder()
        model = compiled(dense_model(), ech.DistributedOptimizer(SGD(1e-9)))
        fit(model, dense_data(), epochs=3, callbacks=[ech.LearningRateWarmup(0.8, 2), recorder])
        rising = [0.8 * (1 + k / (2 * STEPS) * (SIZE - 1)) / SIZE for k in range(1, 2 * STEPS + 1)]
        np.testing.assert_allclose(recorder.rates, rising + [0.8] * STEPS, rtol=1e-7)

    def test_schedule(self):
        recorder = Recorder()
        model = compiled(dense_model(), SGD(0.5))
        fit(model, dense_data(), epochs=4, callbacks=[
            ech.LearningRateSchedule(0.1, SIZE, start_epoch=1, end_epoch=3),
            ech.LearningRateSchedule(0.1, lambda epoch: 0.5 ** epoch, start_epoch=3), recorder])
        expected = [0.5, 0.1 * SIZE, 0.1 * SIZE, 0.1 / 8]
        np.testing.assert_allclose(recorder.rates, np.repeat(expected, STEPS), rtol=1e-7)

    def test_warm_up_needs_the_number_of_batches(self):
        data = tf.data.Dataset.from_generator(
            lambda: iter([dense_data()]), output_signature=(
                tf.TensorSpec((BATCH * STEPS, 6), tf.float64), tf.TensorSpec(BATCH * STEPS)))
        for steps, rates in ((None, None), (10, [0.8 / SIZE * (1 + 0.1 * (SIZE - 1))])):
            recorder = Recorder()
            warmup = ech.LearningRateWarmup(0.8, 1, steps_per_epoch=steps)
            model = compiled(dense_model(), SGD(0.1))
            if steps is None:
                with self.assertRaisesRegex(echelon.InvalidError, "LearningRateWarmup"):
                    model.fit(data, verbose=0, callbacks=[warmup])
            else:
                model.fit(data, verbose=0, callbacks=[warmup, recorder])
                np.testing.assert_allclose(recorder.rates, rates, rtol=1e-7)


if __name__ == "__main__":
    rank_suite.main()
