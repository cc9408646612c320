# SPDX-License-Identifier: Apache-2.0
"""Operators, element types and collectives, with the numbers that echelon.h gives them."""
from __future__ import annotations

import enum
from typing import Dict, NamedTuple


class ReduceOp(enum.IntEnum):
    """How elements of several ranks become one."""

    Sum = 0
    Product = 1
    Min = 2
    Max = 3
    Average = 4


Sum = ReduceOp.Sum
Product = ReduceOp.Product
Min = ReduceOp.Min
Max = ReduceOp.Max
Average = ReduceOp.Average


class Collective(enum.IntEnum):
    ALLREDUCE = 0
    REDUCE_SCATTER = 1
    ALLGATHER = 2
    BROADCAST = 3
    REDUCE = 4
    BARRIER = 5


class ElementType(NamedTuple):
    name: str
    code: int
    size: int


UINT8 = ElementType("uint8", 1, 1)

# What the library can reduce.
TYPES: Dict[str, ElementType] = {
    t.name: t
    for t in (
        ElementType("int8", 0, 1),
        UINT8,
        ElementType("int32", 2, 4),
        ElementType("uint32", 3, 4),
        ElementType("int64", 4, 8),
        ElementType("uint64", 5, 8),
        ElementType("float16", 6, 2),
        ElementType("bfloat16", 7, 2),
        ElementType("float32", 8, 4),
        ElementType("float64", 9, 8),
    )
}

FLOATING = ("float16", "bfloat16", "float32", "float64")
