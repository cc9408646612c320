# SPDX-License-Identifier: Apache-2.0
"""Gradients with fewer bits on the way."""
from __future__ import annotations

from typing import Optional

import torch


class Compressor:
    """`dtype` is what gradients are sent as; as they are without one. A class derived from this one
    is taken as well."""

    dtype: Optional[torch.dtype] = None


class FP16Compressor(Compressor):
    """float16: 11 bits of precision, up to 65504."""

    dtype = torch.float16


class BF16Compressor(Compressor):
    """bfloat16: 8 bits of precision, the range of float32."""

    dtype = torch.bfloat16


class Compression:
    """What the compression argument takes."""

    none = Compressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
