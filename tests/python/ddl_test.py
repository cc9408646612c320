# SPDX-License-Identifier: Apache-2.0
"""echelon.ddl: the names of PowerAI DDL."""
import unittest

import rank_suite
import tensorflow_suite
import echelon
import echelon.ddl as ddl
import keras
import numpy as np
import tensorflow as tf


def make_model(seed):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(keras.optimizers.Adadelta(1.0 * ddl.size()), "mse")
    return model


class Names(unittest.TestCase):
    def test_numbers(self):
        ddl.init("-mode p:1x2 -dbg_level 1")
        self.assertEqual((ddl.rank(), ddl.size()), (echelon.rank(), echelon.size()))
        self.assertEqual(ddl.local_rank(), echelon.local_rank())
        self.assertEqual(ddl.num_hosts(), echelon.cross_size())

    def test_bcast(self):
        np.testing.assert_array_equal(ddl.bcast(tf.constant([ddl.rank() + 5, 3])), [5, 3])

    def test_allreduce_n(self):
        mine = [tf.fill([2, 2], float(ddl.rank())), tf.constant(1.0)]
        total = sum(range(ddl.size()))
        for average, expected in ((True, (total / ddl.size(), 1)), (False, (total, ddl.size()))):
            first, second = ddl.allreduce_n(mine, average)
            np.testing.assert_array_equal(first, np.full((2, 2), expected[0]))
            self.assertEqual(float(second), expected[1])


class Training(unittest.TestCase):
    def fit(self, model, callbacks):
        random = np.random.default_rng(ddl.rank())
        x = random.standard_normal((32, 4))
        return model.fit(x, x[:, :3] + 1, batch_size=8, epochs=2, verbose=0, callbacks=callbacks)

    def test_with_both_callbacks(self):
        model = make_model(ddl.rank())
        callbacks = [ddl.DDLCallback(), ddl.DDLGlobalVariablesCallback()]
        losses = [self.fit(model, callbacks).history["loss"][-1] for _ in range(2)]
        self.assertLess(losses[1], losses[0])
        tensorflow_suite.same_on_all_ranks(self, [*model.get_weights(), *losses])

    def test_each_callback_averages_gradients(self):
        for callback in (ddl.DDLCallback, ddl.DDLGlobalVariablesCallback):
            model = make_model(1)
            self.fit(model, [callback()])
            tensorflow_suite.same_on_all_ranks(self, model.get_weights())

    def test_model_that_was_fit_before(self):
        model = make_model(1)
        self.fit(model, [])
        self.fit(model, [ddl.DDLGlobalVariablesCallback()])
        tensorflow_suite.same_on_all_ranks(self, model.get_weights())


if __name__ == "__main__":
    rank_suite.main()
