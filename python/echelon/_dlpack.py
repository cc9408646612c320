# SPDX-License-Identifier: Apache-2.0
"""Reads DLPack capsules: DLManagedTensor of dlpack.h, before and after version 1."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Tuple

from ._errors import InvalidError, UnsupportedError

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}

# The stream that orders itself with all others, by the name that both CUDA and DLPack give it.
LEGACY_STREAM = 1


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.argtypes, _pointer_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def _dtype_name(dtype: _DataType) -> Tuple[str, int]:
    kind, bits = _KINDS.get(dtype.code), dtype.bits * dtype.lanes
    if kind is None or bits % 8 != 0:
        raise UnsupportedError(f"DLPack type {dtype.code} of {dtype.bits} bits")
    lanes = f"x{dtype.lanes}" if dtype.lanes != 1 else ""
    return (kind if kind == "bool" else f"{kind}{dtype.bits}") + lanes, bits // 8


def _is_contiguous(shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]]) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


class Tensor:
    """The memory stays as long as this object does: the capsule, which nobody else takes over,
    gives it back at its end."""

    def __init__(self, source: Any, stream: Optional[int]) -> None:
        device = int(source.__dlpack_device__()[0])
        if device not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
            raise UnsupportedError(f"memory of DLPack device type {device} is neither the host's "
                                   "nor CUDA's")
        self.on_gpu = device in (_CUDA, _CUDA_MANAGED)
        self._capsule = (
            source.__dlpack__(stream=stream or LEGACY_STREAM) if self.on_gpu else source.__dlpack__()
        )
        try:
            address = _pointer_of(self._capsule, b"dltensor")
        except ValueError as error:
            raise InvalidError(f"__dlpack__ of {type(source).__name__} gave no capsule that is "
                               "a dltensor") from error
        tensor = _DLTensor.from_address(address)
        self.shape: Tuple[int, ...] = tuple(tensor.shape[: tensor.ndim])
        strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        self.contiguous = _is_contiguous(self.shape, strides)
        self.dtype, self.itemsize = _dtype_name(tensor.dtype)
        self.address: int = (tensor.data or 0) + tensor.byte_offset
