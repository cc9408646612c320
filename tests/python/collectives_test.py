# SPDX-License-Identifier: Apache-2.0
"""Every collective, with results that are exact: whole numbers, or the same roundings."""
import array
import os
import unittest

import rank_suite
import echelon
import numpy as np

RANK = SIZE = 0


def setUpModule():
    global RANK, SIZE
    RANK, SIZE = echelon.rank(), echelon.size()


class Foreign:
    """An array that only DLPack knows."""

    def __init__(self, inside):
        self.inside = inside

    def __dlpack__(self):
        return self.inside.__dlpack__()

    def __dlpack_device__(self):
        return self.inside.__dlpack_device__()


class Base(unittest.TestCase):
    def same(self, got, expected):
        expected = np.asarray(expected)
        self.assertEqual(np.asarray(got).dtype, expected.dtype)
        np.testing.assert_array_equal(got, expected)


class Allreduce(Base):
    def test_every_type_and_operator(self):
        for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32",
                     "float64"):
            dtype = np.dtype(name)
            ranks = [(np.arange(7) % 3 + r + 1).astype(dtype) for r in range(SIZE)]
            total = np.sum(ranks, axis=0, dtype=dtype)
            mean = total // dtype.type(SIZE) if dtype.kind in "iu" else total / dtype.type(SIZE)
            for op, expected in ((echelon.Sum, total), (echelon.Average, mean),
                                 (echelon.Min, np.min(ranks, axis=0)),
                                 (echelon.Max, np.max(ranks, axis=0)),
                                 (echelon.Product, np.prod(ranks, axis=0, dtype=dtype))):
                self.same(echelon.allreduce(ranks[RANK], op), expected)

    def test_average_is_the_default(self):
        self.same(echelon.allreduce(np.full((2, 3), 2.0 * RANK)), np.full((2, 3), SIZE - 1.0))

    def test_bfloat16_as_uint16(self):
        mine = np.full(3, 0x3F80, dtype=np.uint16)  # 1
        got = echelon.allreduce(mine, echelon.Sum, dtype="bfloat16")
        bits = np.array([SIZE], dtype=np.float32).view(np.uint32)[0] >> 16
        self.same(got, np.full(3, bits, dtype=np.uint16))

    def test_in_place_and_into_out(self):
        mine = np.full(5, RANK, dtype=np.int64)
        out = np.empty_like(mine)
        self.assertIs(echelon.allreduce(mine, echelon.Sum, out=out), out)
        self.same(out, np.full(5, SIZE * (SIZE - 1) // 2))
        self.same(mine, np.full(5, RANK))
        self.assertIs(echelon.allreduce(mine, echelon.Sum, out=mine), mine)
        self.same(mine, out)

    def test_numbers_and_buffers(self):
        got = echelon.allreduce(RANK + 0.5)
        self.assertIsInstance(got, np.float64)
        self.assertEqual(got, 0.5 + (SIZE - 1) / 2)
        self.same(echelon.allreduce(array.array("d", [1, RANK]), echelon.Max), [1.0, SIZE - 1.0])

    def test_no_elements(self):
        self.same(echelon.allreduce(np.empty((0, 3))), np.empty((0, 3)))

    def test_large(self):
        mine = np.arange(1 << 20, dtype=np.float64) + RANK
        self.same(echelon.allreduce(mine, echelon.Sum),
                  np.arange(1 << 20) * float(SIZE) + SIZE * (SIZE - 1) / 2)

    def test_scaled(self):
        mine = np.full(3, 1.0 + RANK)
        got = echelon.allreduce(mine, echelon.Sum, prescale_factor=0.5, postscale_factor=4.0)
        self.same(got, np.full(3, 2.0 * SIZE * (SIZE + 1) / 2))
        self.same(mine, np.full(3, 1.0 + RANK))
        mine = np.full(3, 0x3F80, dtype=np.uint16)  # 1
        self.same(echelon.allreduce(mine, dtype="bfloat16", prescale_factor=0.5), mine - 0x80)
        for factor in ("prescale_factor", "postscale_factor"):
            with self.assertRaisesRegex(echelon.InvalidError, "floating-point"):
                echelon.allreduce(np.arange(3), **{factor: 0.5})

    def test_compressed(self):
        for compression, precise, rounded in ((echelon.Compression.fp16, 1 + 2.0**-10, 2.0**-11),
                                              (echelon.Compression.bf16, 1 + 2.0**-7, 2.0**-8)):
            for dtype in (np.float32, np.float64):
                mine = np.array([precise, 1 + 1.5 * rounded, -2], dtype=dtype)
                out = np.empty(3, dtype=dtype)
                got = echelon.allreduce(mine, echelon.Max, compression=compression, out=out)
                self.assertIs(got, out)
                self.same(got, np.array([precise, 1 + 2 * rounded, -2], dtype=dtype))
        wide = np.array([np.nan, np.inf, 2.0**100, 0], dtype=np.float32)
        self.same(echelon.allreduce(wide, echelon.Max, compression=echelon.Compression.bf16), wide)

    def test_grouped(self):
        shapes = [(3,), (2, 2), (100000,), (), (1, 5)]
        kinds = [np.float32, np.float64, np.float32, np.float32, np.float64]
        mine = [np.full(s, RANK + k, dtype=t) for k, (s, t) in enumerate(zip(shapes, kinds))]
        for k, got in enumerate(echelon.grouped_allreduce(mine, echelon.Sum)):
            total = SIZE * (SIZE - 1) // 2 + k * SIZE
            self.same(got, np.full(shapes[k], total, dtype=kinds[k]))
        self.assertEqual(echelon.grouped_allreduce([]), [])

    def test_grouped_in_place_and_into_out(self):
        mine = [np.full(n, RANK + 1.0, dtype=np.float32) for n in (3, 0, 70000)]
        out = [np.empty_like(array) for array in mine]
        total = SIZE * (SIZE + 1) / 2
        for to in (out, mine):
            got = echelon.grouped_allreduce(mine, echelon.Sum, out=to)
            for array, result in zip(to, got):
                self.assertIs(result, array)
                self.same(array, np.full(array.shape, total, dtype=np.float32))
        with self.assertRaisesRegex(echelon.InvalidError, "out has 2 arrays, expected 3"):
            echelon.grouped_allreduce(mine, out=out[:2])

    def test_grouped_and_scaled(self):
        for compression in (echelon.Compression.none, echelon.Compression.fp16):
            mine = [np.full(n, 1.0 + RANK, dtype=np.float32) for n in (1, 5)]
            got = echelon.grouped_allreduce(mine, echelon.Sum, compression=compression,
                                            prescale_factor=0.5, postscale_factor=4.0)
            for array, result in zip(mine, got):
                self.same(result, np.full(array.shape, SIZE * (SIZE + 1), dtype=np.float32))
                self.same(array, np.full(array.shape, 1 + RANK, dtype=np.float32))
        with self.assertRaisesRegex(echelon.InvalidError, "floating-point"):
            echelon.grouped_allreduce([np.ones(2), np.arange(3)], prescale_factor=0.5)
        self.same(echelon.allreduce(np.ones(1), echelon.Sum), [float(SIZE)])  # all is well

    def test_a_group_is_one_operation_of_each_type(self):
        mine = [np.ones(2), np.ones(3, dtype=np.int32), np.ones(4)]
        handle = echelon.grouped_allreduce_async(mine, echelon.Sum, name="group")
        self.assertEqual(len(handle.requests), 2)
        other = echelon.grouped_allreduce_async(mine, echelon.Max)
        for array, result in zip(mine, other.wait()):
            self.same(result, array)
        for array, result in zip(mine, handle.wait()):
            self.same(result, array * array.dtype.type(SIZE))


class Others(Base):
    def test_allgather(self):
        self.same(echelon.allgather(np.array([[RANK, -RANK]])), [[r, -r] for r in range(SIZE)])
        self.same(echelon.allgather(np.array(RANK)), np.arange(SIZE))

    def test_allgather_of_unequal_lengths(self):
        parts = [np.full((r * 3 % 4, 2), r, dtype=np.float32) for r in range(SIZE)]
        self.same(echelon.allgather(parts[RANK]), np.concatenate(parts))
        words = [np.array([f"rank {r}"] * r) for r in range(SIZE)]
        words = [w.astype("U8") for w in words]
        self.same(echelon.allgather(words[RANK]), np.concatenate(words))

    def test_allgather_of_different_shapes(self):
        if SIZE == 1:
            self.skipTest("takes two ranks")
        with self.assertRaisesRegex(echelon.MismatchError, r"ranks \[1\] differ from rank 0"):
            echelon.allgather(np.zeros((2, 4 if RANK == 1 else 3)))
        self.same(echelon.allreduce(np.ones(1), echelon.Sum), [float(SIZE)])  # all is well

    def test_broadcast(self):
        for root in range(SIZE):
            for mine in (np.full((2, 3), RANK, dtype=np.int16), np.array([RANK + 1j])):
                expected = np.full_like(mine, root if mine.dtype.kind == "i" else root + 1j)
                self.same(echelon.broadcast(mine, root), expected)
        with self.assertRaisesRegex(echelon.InvalidError, "root -1"):
            echelon.broadcast(np.zeros(1), -1)

    def test_objects(self):
        root = SIZE - 1
        given = {"from": RANK, "list": ["x"] * 1000}
        self.assertEqual(echelon.broadcast_object(given if RANK == root else None, root),
                         {"from": root, "list": ["x"] * 1000})
        self.assertEqual(echelon.allgather_object("y" * RANK), ["y" * r for r in range(SIZE)])

    def test_reduce_scatter(self):
        mine = np.arange(SIZE * 6.0).reshape(SIZE * 2, 3) + RANK
        whole = np.arange(SIZE * 6.0).reshape(SIZE * 2, 3) * SIZE + SIZE * (SIZE - 1) / 2
        self.same(echelon.reduce_scatter(mine, echelon.Sum), whole[2 * RANK:2 * RANK + 2])
        with self.assertRaisesRegex(echelon.InvalidError, "not a multiple of the"):
            echelon.reduce_scatter(np.zeros(()))

    def test_barrier(self):
        self.assertIsNone(echelon.barrier())

    def test_asynchronous(self):
        handles = [echelon.allreduce_async(np.full(1000, RANK + k), echelon.Sum, name=f"g{k}")
                   for k in range(20)]
        while not echelon.poll(handles[0]):
            pass
        for k, handle in reversed(list(enumerate(handles))):
            expected = np.full(1000, SIZE * (SIZE - 1) // 2 + k * SIZE)
            self.same(echelon.synchronize(handle), expected)
            self.same(echelon.synchronize(handle), expected)  # once more
        # A handle that nobody holds keeps its arrays all the same.
        echelon.allreduce_async(np.ones(100000))
        echelon.barrier_async().wait()


class Arrays(Base):
    def test_dlpack(self):
        mine = Foreign(np.arange(4, dtype=np.float32) + RANK)
        out = Foreign(np.empty(4, dtype=np.float32))
        self.assertIs(echelon.allreduce(mine, echelon.Sum, out=out), out)
        expected = np.arange(4, dtype=np.float32) * SIZE + np.float32(SIZE * (SIZE - 1) / 2)
        self.same(out.inside, expected)
        self.same(echelon.allreduce(mine, echelon.Sum), expected)
        with self.assertRaisesRegex(echelon.InvalidError, "not C-contiguous"):
            echelon.allreduce(Foreign(np.zeros((4, 4))[:, 1]))
        shifted = Foreign(np.arange(8.0)[3:5])
        self.same(echelon.allreduce(shifted), [3.0, 4.0])

    def test_what_cannot_be_taken(self):
        fixed = np.zeros(3)
        fixed.flags.writeable = False
        for message, error, call in (
                ("complex128 cannot be reduced", ValueError,
                 lambda: echelon.allreduce(np.zeros(2, dtype=complex))),
                ("not C-contiguous", echelon.InvalidError,
                 lambda: echelon.allreduce(np.zeros((4, 4)).T[1:, :2])),
                ("own kind", echelon.InvalidError,
                 lambda: echelon.allreduce(np.zeros(2, dtype=">f8"))),
                ("own kind", echelon.InvalidError,
                 lambda: echelon.broadcast(np.array([None]), 0)),
                ("a dict is no array", echelon.InvalidError, lambda: echelon.allreduce({})),
                ("out is read-only", echelon.InvalidError,
                 lambda: echelon.allreduce(np.zeros(3), out=fixed)),
                ("out is float64 of shape", echelon.InvalidError,
                 lambda: echelon.allreduce(np.zeros(2), out=np.zeros(3))),
                ("out is int64 of shape", echelon.InvalidError,
                 lambda: echelon.allreduce(np.zeros(3), out=np.zeros(3, dtype=np.int64))),
                ('dtype "float12" is none', echelon.InvalidError,
                 lambda: echelon.allreduce(np.zeros(3), dtype="float12")),
                ("have 2 bytes", echelon.InvalidError,
                 lambda: echelon.allreduce(np.zeros(3), dtype="bfloat16")),
                ("overlap", echelon.InvalidError, self.overlapping)):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                call()

    def overlapping(self):
        both = np.zeros(6)
        echelon.allreduce(both[:4], out=both[2:])


class ProcessSets(Base):
    def test_split(self):
        part = echelon.split(RANK % 2, -RANK)
        mine = [r for r in reversed(range(SIZE)) if r % 2 == RANK % 2]
        self.assertEqual((part.size(), part.rank()), (len(mine), mine.index(RANK)))
        self.same(echelon.allgather(np.array([RANK]), process_set=part), mine)
        part.close()
        with self.assertRaisesRegex(echelon.InvalidError, "has ended"):
            echelon.barrier(process_set=part)

    def test_added(self):
        last = echelon.add_process_set([SIZE - 1])
        self.assertEqual(last.included(), RANK == SIZE - 1)
        if last.included():
            self.same(echelon.allreduce(np.array([RANK]), process_set=last), [RANK])
        else:
            with self.assertRaisesRegex(echelon.InvalidError, "not in the process set"):
                echelon.allreduce(np.array([RANK]), process_set=last)
        echelon.remove_process_set(last)
        with self.assertRaisesRegex(echelon.InvalidError, "not different ones"):
            echelon.add_process_set([0, 0])

    def test_close_ends_what_is_pending(self):
        part = echelon.split(0)
        handle = echelon.allreduce_async(np.ones(10), process_set=part)
        part.close()
        with self.assertRaisesRegex(echelon.InvalidError, "ended before its operation"):
            handle.wait()


class Knowledge(Base):
    def test_numbers(self):
        hosts = int(os.environ.get("EXPECTED_HOSTS", "1"))
        self.assertEqual(echelon.cross_size(), hosts)
        self.assertEqual(echelon.local_size() * hosts, SIZE)
        self.assertEqual(echelon.cross_rank() * echelon.local_size() + echelon.local_rank(), RANK)
        self.assertEqual(echelon.global_process_set.ranks, list(range(SIZE)))
        echelon.init()  # again: nothing happens
        self.assertTrue(echelon.is_initialized())

    def test_texts(self):
        self.assertEqual(len(echelon.topology()["host"]), echelon.cross_size())
        self.assertIn("host", echelon.topology("text"))
        self.assertIn("allreduce", echelon.explain(count=1000))
        self.assertIsInstance(echelon.explain("broadcast", 10, format="dict"), dict)
        for call in (lambda: echelon.topology("xml"), lambda: echelon.explain("gather"),
                     lambda: echelon.explain(dtype="int16")):
            with self.assertRaisesRegex(echelon.InvalidError, "is none; expected one of"):
                call()


if __name__ == "__main__":
    rank_suite.main()
