# SPDX-License-Identifier: Apache-2.0
"""The CUDA context of a thread. By it the library knows the GPU for which a communicator is made, so
it goes along when another thread makes the call."""
from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from ctypes import byref, c_int, c_void_p
from typing import Iterator, Optional

_FILE = "libcuda.so.1"


def _driver() -> Optional[ctypes.CDLL]:
    """None where the process has not loaded it: then no thread has a context."""
    try:
        driver = ctypes.CDLL(_FILE, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        for name in ("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"):
            getattr(driver, name).restype = c_int
    except (OSError, AttributeError):
        return None
    return driver


def current_context() -> Optional[int]:
    """Of this thread."""
    driver, context = _driver(), c_void_p()
    if driver is None or driver.cuCtxGetCurrent(byref(context)) != 0:
        return None
    return context.value


@contextmanager
def within(context: Optional[int]) -> Iterator[None]:
    """Makes it this thread's for so long."""
    driver = None if context is None else _driver()
    if driver is None or driver.cuCtxPushCurrent_v2(c_void_p(context)) != 0:
        yield
        return
    try:
        yield
    finally:
        driver.cuCtxPopCurrent_v2(byref(c_void_p()))
