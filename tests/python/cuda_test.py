# SPDX-License-Identifier: Apache-2.0
"""Arrays in CUDA memory, on the stand-in for libcuda: each rank makes its GPU current on the main
thread, as frameworks do, which is not the one that makes the communicator."""
import ctypes
import os
import threading
import unittest
from ctypes import byref, c_int, c_size_t, c_void_p

import rank_suite
import echelon
import numpy as np
from echelon import _cuda, _dlpack

cuda = ctypes.CDLL("libcuda.so.1")
_CUDA = 2  # DLPack's number of the device type
_named = ctypes.pythonapi.PyCapsule_New
_named.restype, _named.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]


def check(result):
    assert result == 0, f"CUDA error {result}"


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _dlpack._DLTensor), ("context", c_void_p), ("deleter", c_void_p)]


class OnGpu:
    """Some float32 there. What DLPack needs, and the way from and to NumPy."""

    def __init__(self, values):
        self.count, self.address, self.stream = len(values), c_void_p(), c_void_p()
        self._shape = (ctypes.c_int64 * 1)(self.count)
        check(cuda.cuMemAlloc_v2(byref(self.address), c_size_t(4 * self.count)))
        check(cuda.cuStreamCreateWithPriority(byref(self.stream), 1, 0))
        check(cuda.cuMemcpyHtoDAsync_v2(self.address, values.ctypes.data_as(c_void_p),
                                        c_size_t(values.nbytes), self.stream))
        check(cuda.cuStreamSynchronize(self.stream))

    def __dlpack_device__(self):
        return _CUDA, echelon.local_rank()

    def __dlpack__(self, stream=None):
        kind = _dlpack._DataType(2, 32, 1)
        self._managed = _Managed(_dlpack._DLTensor(self.address, *self.__dlpack_device__(), 1, kind,
                                                   self._shape, None, 0))
        return _named(ctypes.addressof(self._managed), b"dltensor", None)

    def values(self):
        got = np.empty(self.count, dtype=np.float32)
        check(cuda.cuMemcpyDtoHAsync_v2(got.ctypes.data_as(c_void_p), self.address,
                                        c_size_t(got.nbytes), self.stream))
        check(cuda.cuStreamSynchronize(self.stream))
        return got


class Memory(unittest.TestCase):
    def test_allreduce(self):
        array = OnGpu(np.arange(1000, dtype=np.float32) * (echelon.rank() + 1))
        try:
            echelon.allreduce(array, echelon.Sum, out=array, stream=array.stream.value)
        except echelon.UnsupportedError as error:
            self.assertNotIn("no CUDA device was current", str(error))
            self.skipTest(str(error))
        check(cuda.cuStreamSynchronize(array.stream))
        size = echelon.size()
        expected = np.arange(1000, dtype=np.float32) * (size * (size + 1) // 2)
        np.testing.assert_array_equal(array.values(), expected)

    def test_context_of_a_thread(self):
        """It is each thread's own, and what within() changes ends with it."""
        mine, seen = _cuda.current_context(), []

        def other():
            seen.append(_cuda.current_context())
            with _cuda.within(mine):
                seen.append(_cuda.current_context())
            seen.append(_cuda.current_context())

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        self.assertIsNotNone(mine)
        self.assertEqual(seen, [None, mine, None])


if __name__ == "__main__":
    context, device = c_void_p(), c_int()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(byref(device), int(os.environ["ECHELON_LOCAL_RANK"])))
    check(cuda.cuDevicePrimaryCtxRetain(byref(context), device))
    check(cuda.cuCtxPushCurrent_v2(context))
    rank_suite.main()
