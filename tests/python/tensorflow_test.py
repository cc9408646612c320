# SPDX-License-Identifier: Apache-2.0
"""echelon.tensorflow, eagerly and in tf.function, with operations that run at the same time."""
import contextlib
import unittest
import unittest.mock

import rank_suite
import tensorflow_suite
import echelon
import echelon.tensorflow as ech
import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")  # retracing is what these tests do

RANK = SIZE = 0


def setUpModule():
    global RANK, SIZE
    RANK, SIZE = ech.rank(), ech.size()


def both_ways(function):
    """What it returns eagerly, and in a graph."""
    return [function(), tf.function(function)()]


class Base(unittest.TestCase):
    def same(self, got, expected):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


class Allreduce(Base):
    def test_types_and_operators(self):
        for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64):
            mine = tf.cast([RANK + 1, 2 * RANK, 7], dtype)
            for op, reduced in ((ech.Sum, np.sum), (ech.Min, np.min), (ech.Max, np.max),
                                (ech.Product, np.prod)):
                expected = reduced([[r + 1, 2 * r, 7] for r in range(SIZE)], axis=0)
                for got in both_ways(lambda: ech.allreduce(mine, op)):
                    self.assertEqual(got.dtype, dtype)
                    self.same(tf.cast(got, tf.float64), expected)

    def test_average_is_the_default(self):
        for got in both_ways(lambda: ech.allreduce(tf.fill([2, 3], 2.0 * RANK))):
            self.same(got, np.full((2, 3), SIZE - 1.0))

    def test_numbers_and_shapes(self):
        @tf.function
        def graph(tensor):
            reduced = ech.allreduce(tensor, ech.Max)
            self.assertEqual(reduced.shape.as_list(), tensor.shape.as_list())
            return reduced

        self.same(graph(tf.zeros([0, 3])), np.zeros((0, 3)))
        self.same(ech.allreduce(RANK, ech.Max), SIZE - 1)
        unknown = tf.function(graph, input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        self.same(unknown(tf.fill([3, 2], float(RANK))), np.full((3, 2), SIZE - 1.0))

    def test_gradient(self):
        def of_average():
            x = tf.constant([1.0, 2.0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(ech.allreduce(x) * float(RANK))
            return tape.gradient(y, x)

        for got in both_ways(of_average):
            self.same(got, np.full(2, (SIZE - 1) / 2))
        x = tf.constant(1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = ech.allreduce(x, ech.Max)
        with self.assertRaisesRegex(echelon.InvalidError, "Max has no gradient"):
            tape.gradient(y, x)

    def test_compression(self):
        mine = tf.constant([1 + 2**-12, 3.0])
        for got in both_ways(lambda: ech.allreduce(mine, compression=ech.Compression.fp16)):
            self.assertEqual(got.dtype, tf.float32)
            self.same(got, [1.0, 3.0])

    def test_process_set(self):
        evens = echelon.split(RANK % 2)
        members = [r for r in range(SIZE) if r % 2 == RANK % 2]
        for got in both_ways(lambda: ech.allreduce(float(RANK), ech.Sum, process_set=evens)):
            self.same(got, sum(members))
        evens.close()

    def test_errors_keep_their_text(self):
        if SIZE == 1:
            self.skipTest("one rank agrees with itself")
        part = echelon.split(0)
        wrong = tf.function(lambda: ech.allreduce(tf.zeros(2 + RANK), process_set=part))
        with self.assertRaisesRegex(tf.errors.OpError, "MismatchError: .*count"):
            wrong()
        with self.assertRaises(echelon.MismatchError):  # eagerly it is the exception itself
            ech.allreduce(tf.zeros(2), process_set=part)
        with contextlib.suppress(echelon.EchelonError):
            part.close()


class Order(Base):
    """Sizes differ, so ranks that do not agree on the order get a MismatchError."""

    def work(self, amount):
        x = tf.ones([64, 64]) / 64
        for _ in range(amount):
            x = x @ x * 1.0
        return tf.reduce_sum(x) / 64

    def test_operations_that_do_not_need_each_other(self):
        @tf.function
        def step():
            # What is ready first differs from rank to rank.
            slow, fast = self.work(60), self.work(0)
            first, second = (slow, fast) if RANK % 2 else (fast, slow)
            return (ech.allreduce(tf.fill([100], first), ech.Sum),
                    ech.allreduce(tf.fill([3], second), ech.Sum))

        for _ in range(50):
            first, second = step()
        np.testing.assert_allclose(first, [SIZE] * 100, rtol=1e-3)
        np.testing.assert_allclose(second, [SIZE] * 3, rtol=1e-3)

    def test_branches_and_loops(self):
        @tf.function
        def step(flag):
            slow = self.work(60 if RANK % 2 else 0)
            if flag:
                first = ech.allreduce(tf.fill([5], slow), ech.Sum)
            else:
                first = tf.zeros([5])
            total = 0.0
            for _ in tf.range(3):
                total += ech.allreduce(1.0, ech.Sum)
            return first, total, ech.allreduce(tf.ones([7]), ech.Sum)

        for k in range(20):
            first, total, last = step(tf.constant(k % 2 == 0))
            np.testing.assert_allclose(first, [SIZE * (k % 2 == 0)] * 5, rtol=1e-3)
            self.same(total, 3 * SIZE)
            self.same(last, [SIZE] * 7)

    def test_buckets(self):
        tensors = [tf.zeros([k]) for k in (100, 1, 50, 50, 7)]
        self.assertEqual(ech._buckets(tensors, 400), [[4, 3, 2], [1, 0]])
        self.assertEqual(ech._buckets(tensors, 1), [[4], [3], [2], [1], [0]])
        self.assertEqual(ech._buckets([], 1), [])


class Results(Base):
    def test_memory_is_used_again_when_nobody_has_it(self):
        rooms = ech.Rooms()
        rooms.prepare([400, 400, 80, 0])
        like = np.zeros(100, np.float32)
        arrays = [rooms.like(like) for _ in range(3)]  # the third is of new memory
        addresses = [array.ctypes.data for array in arrays]
        self.assertEqual(len(set(addresses)), 3)
        self.assertEqual([address % 64 for address in addresses], [0] * 3)
        part = arrays[1].reshape(10, 10)[3]
        del arrays[1]
        self.assertNotIn(rooms.like(like).ctypes.data, addresses[:2])
        del part
        again = rooms.like(np.zeros((5, 10), np.float64))
        self.assertEqual(again.ctypes.data, addresses[1])
        self.assertEqual((again.shape, again.dtype), ((5, 10), np.float64))
        self.assertEqual(rooms.like(np.zeros((3, 0))).shape, (3, 0))

    def gradients(self, size):
        """A step that gives its argument, added up over the ranks, as the gradient of `size` elements."""
        variable = tf.Variable(tf.ones([size]))

        @tf.function
        def step(x):
            with ech.DistributedGradientTape(tf.GradientTape(), op=ech.Sum) as tape:
                loss = tf.reduce_sum(variable) * x
            return tape.gradient(loss, [variable])[0]

        return step

    def test_what_is_kept_stays_as_it_is(self):
        step = self.gradients(100_000)
        kept = [step(tf.constant(float(k))) for k in range(4)]
        arrays = [step(tf.constant(float(k))).numpy() for k in range(4)]
        for k in range(4):
            self.same(kept[k], [k * SIZE] * 100_000)
            self.same(arrays[k], [k * SIZE] * 100_000)

    def test_steps_use_the_same_memory(self):
        given = []

        def recording(arrays, *arguments, out, **named):
            given.append(out[0].ctypes.data)
            return reduce(arrays, *arguments, out=out, **named)

        reduce = echelon.grouped_allreduce
        step = self.gradients(654_321)
        with unittest.mock.patch("echelon.grouped_allreduce", recording):
            for k in range(10):
                step(tf.constant(float(k)))
        prepared = {np.frombuffer(room.memory, np.uint8).ctypes.data
                    for room in ech._rooms._by_size[4 * 654_321]}
        self.assertGreater(sum(address in prepared for address in given), 1)

    def test_tensors_of_many_shapes_keep_no_memory(self):
        before = len(ech._rooms._by_size)
        for size in range(1001, 1006):
            self.same(tf.function(lambda: ech.allreduce(tf.ones([size]), ech.Sum))(), [SIZE] * size)
        self.assertEqual(len(ech._rooms._by_size), before)


class Names(Base):
    """What operations are called in the timeline."""

    def of_calls(self, function, step):
        with unittest.mock.patch.object(echelon, function, wraps=getattr(echelon, function)) as calls:
            step()
        return [call.kwargs["name"] for call in calls.call_args_list]

    def test_reductions(self):
        some = [tf.ones([3]), tf.ones([2])]
        one_each = ech.Reduction(bucket_bytes=1)
        for step, names in ((lambda: ech.allreduce(some[0], name="loss"), ["loss"]),
                            (lambda: ech.grouped_allreduce(some), ["bucket"]),
                            (lambda: one_each.of(some), ["bucket 0", "bucket 1"])):
            self.assertEqual(self.of_calls("grouped_allreduce", step), names)

    def test_broadcasts(self):
        variables = [tf.Variable(1.0, name="weight"), tf.Variable(2.0, name="bias")]
        names = self.of_calls("broadcast_async", lambda: ech.broadcast_variables(variables))
        self.assertEqual(names, ["weight:0", "bias:0"])
        names = self.of_calls("broadcast_async", lambda: ech.broadcast(variables[0], 0, name="it"))
        self.assertEqual(names, ["it"])


class Sparse(Base):
    def slices(self):
        """Rank r has r + 1 rows; the index 1 twice."""
        indices = [0, 1, 1, 3, 2][: RANK + 1]
        values = tf.reshape(tf.range(2.0 * (RANK + 1)), [-1, 2]) + 10.0 * RANK
        return tf.IndexedSlices(values, tf.constant(indices), tf.constant([5, 2]))

    def test_gathered_and_dense(self):
        for op in (ech.Sum, ech.Average):
            expected = echelon.allreduce(tf.convert_to_tensor(self.slices()).numpy(), op)
            for as_dense in (False, True):
                for got in both_ways(lambda: ech.allreduce(self.slices(), op,
                                                           sparse_as_dense=as_dense)):
                    self.assertEqual(isinstance(got, tf.IndexedSlices), not as_dense)
                    np.testing.assert_allclose(tf.convert_to_tensor(got), expected, rtol=1e-6)
        rows = sum(r + 1 for r in range(SIZE))
        self.assertEqual(ech.allreduce(self.slices()).values.shape, (rows, 2))

    def test_maximum_needs_dense(self):
        with self.assertRaisesRegex(echelon.InvalidError, "sparse_as_dense"):
            ech.allreduce(self.slices(), ech.Max)


class Tape(Base):
    def gradients(self, wrap):
        weights = [tf.Variable(tf.ones([3, 2])), tf.Variable([1.0, 2.0]), tf.Variable(5.0)]
        table = tf.Variable(tf.reshape(tf.range(8.0), [4, 2]))
        x = tf.reshape(tf.range(6.0), [2, 3]) + RANK

        def compute():
            with wrap(tf.GradientTape()) as tape:
                y = tf.square(x @ weights[0] + weights[1] + tf.gather(table, [RANK % 4, 1]))
                loss = tf.reduce_sum(y)
            return tape.gradient(loss, {"dense": weights, "table": table})

        return both_ways(compute)

    def test_averages(self):
        def distributed(tape):
            return ech.DistributedGradientTape(tape, bucket_bytes=8)

        for mine, got in zip(self.gradients(lambda tape: tape), self.gradients(distributed)):
            self.assertIsNone(got["dense"][2])
            self.assertIsInstance(got["table"], tf.IndexedSlices)
            for a, b in ((mine["dense"][0], got["dense"][0]), (mine["dense"][1], got["dense"][1]),
                         (mine["table"], got["table"])):
                a = tf.convert_to_tensor(a).numpy()
                np.testing.assert_allclose(tf.convert_to_tensor(b), echelon.allreduce(a), rtol=1e-6)

    def test_the_rest_is_the_tape(self):
        x = tf.constant(3.0)
        with ech.DistributedGradientTape(tf.GradientTape(persistent=True), op=ech.Sum) as tape:
            tape.watch(x)
            y = x * x * (RANK + 1.0)
        self.same(tape.gradient(y, x), 6 * sum(range(1, SIZE + 1)))
        self.same(tape.gradient(y, [x])[0], 6 * sum(range(1, SIZE + 1)))
        self.assertEqual(tape.watched_variables(), ())


class Broadcast(Base):
    def test_tensor(self):
        for root in range(SIZE):
            for got in both_ways(lambda: ech.broadcast(tf.constant([RANK, 7]), root)):
                self.same(got, [root, 7])

    def test_variables(self):
        variables = [tf.Variable(tf.fill([k + 1], float(10 * RANK + k))) for k in range(40)]
        variables.append(tf.Variable(RANK == 0))
        variables.append(tf.Variable(RANK, dtype=tf.int64))
        for root, run in ((0, ech.broadcast_variables), (SIZE - 1, None)):
            for k, v in enumerate(variables[:40]):
                v.assign(tf.fill([k + 1], float(10 * RANK + k)))
            if run is not None:
                run(variables, root)
                self.assertTrue(variables[40].numpy())
            else:
                tf.function(lambda: ech.broadcast_variables(variables, root_rank=SIZE - 1))()
            for k, v in enumerate(variables[:40]):
                self.same(v, np.full(k + 1, 10.0 * root + k))
        tensorflow_suite.same_on_all_ranks(self, variables)


if __name__ == "__main__":
    rank_suite.main()
