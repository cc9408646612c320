# SPDX-License-Identifier: Apache-2.0
"""Memory for results, which is used again when nobody has it any more."""
from __future__ import annotations

import threading
import weakref
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence

import numpy as np

ALIGNMENT = 64  # bytes: TensorFlow copies what begins elsewhere (EIGEN_MAX_ALIGN_BYTES)


def _nobody() -> None:
    return None


@dataclass
class _Room:
    memory: memoryview
    user: Callable[[], Any] = _nobody  # the array that was made of it, while there is one


class Rooms:
    """With new memory for the results of every step the kernel clears page after page while the
    ranks wait for each other's data: a fifth to a third of two cores' time. What is prepared is
    cleared before, and kept until the process ends. Several threads may call at once."""

    def __init__(self) -> None:
        self._by_size: Dict[int, List[_Room]] = {}
        self._lock = threading.Lock()

    def prepare(self, sizes: Sequence[int]) -> None:
        """Memory for results of so many bytes each that are needed at the same time."""
        with self._lock:
            for size, count in Counter(sizes).items():
                rooms = self._by_size.setdefault(size, [])
                while size > 0 and len(rooms) < count:
                    rooms.append(_Room(_touched(size)))

    def like(self, array: Any) -> Any:
        """An array of the type and shape of `array`, its elements undefined. New memory where all
        that was prepared is in use."""
        return self._free(array.nbytes).view(array.dtype).reshape(array.shape)

    def _free(self, size: int) -> Any:
        with self._lock:
            for room in self._by_size.get(size, []):
                if room.user() is None:
                    # Whatever is made of this array keeps it alive. Of an array that owned its
                    # memory views would keep only that owner.
                    array = np.frombuffer(room.memory, np.uint8)
                    room.user = weakref.ref(array)
                    return array
        return _aligned(size)


def _aligned(size: int) -> Any:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + size]


def _touched(size: int) -> memoryview:
    memory = _aligned(size)
    memory.fill(0)
    return memory.data
