# SPDX-License-Identifier: Apache-2.0
"""Fewer bits on the way: what is reduced is a copy in 16 bits, which is what the sum is rounded to
as well."""
from __future__ import annotations

from typing import Any, Optional, Tuple, Type

import numpy as np

from ._errors import InvalidError


class Compressor:
    """Passes arrays on as they are. `dtype` is what the compressed elements are, where NumPy has no
    name for it."""

    dtype: Optional[str] = None

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """What is sent, and what decompress() has to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return tensor


def _is_wide(tensor: Any) -> bool:
    if not isinstance(tensor, np.ndarray):
        raise InvalidError(f"a {type(tensor).__name__} cannot be compressed: only NumPy arrays can")
    return tensor.dtype in (np.float32, np.float64)


class FP16Compressor(Compressor):
    """float16: 11 bits of precision, up to 65504. Sums beyond that are infinite."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return (tensor.astype(np.float16), tensor.dtype) if _is_wide(tensor) else (tensor, None)

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return tensor if context is None else tensor.astype(context)


class BF16Compressor(Compressor):
    """bfloat16: 8 bits of precision, the range of float32. NumPy has no such type, so the elements
    are kept as uint16."""

    dtype = "bfloat16"

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        if not _is_wide(tensor):
            raise InvalidError(f"a {tensor.dtype} array cannot be compressed to bfloat16: only "
                               "float32 and float64 can")
        bits = np.array(tensor, dtype=np.float32, order="C").view(np.uint32)
        nearest = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
        quiet_nan = (bits >> 16) | 0x40
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        return np.where(is_nan, quiet_nan, nearest).astype(np.uint16), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return (tensor.astype(np.uint32) << 16).view(np.float32).astype(context, copy=False)


class Compression:
    """What the compression argument takes; a class derived from Compressor will do as well."""

    none: Type[Compressor] = Compressor
    fp16: Type[Compressor] = FP16Compressor
    bf16: Type[Compressor] = BF16Compressor
