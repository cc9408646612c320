# SPDX-License-Identifier: Apache-2.0
"""Operations that are under way, and the handles by which callers know them."""
from __future__ import annotations

import os
import threading
import time
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence

from . import _library
from ._errors import EchelonError
from ._waiting import interruptible

if TYPE_CHECKING:
    from ._process_sets import ProcessSet

# How long a rank polls before a helper thread waits, in seconds. That thread costs some 0.1 ms.
_SPIN = 200e-6


class Request:
    """One ech_request. It keeps the arrays, and its process set keeps it, until it has ended: the
    library writes to them though nobody may hold the handle any more."""

    def __init__(self, process_set: ProcessSet, keep: Sequence[Any]) -> None:
        self.process_set = process_set
        self.pointer = c_void_p()
        self.error: Optional[EchelonError] = None
        self.waited_for = False  # a thread is in the library, perhaps one that was given up
        self._keep = keep

    @property
    def ended(self) -> bool:
        return not self.pointer

    def test(self) -> bool:
        with self.process_set.driving():
            return self.ended or _library.test(self.pointer)

    def wait(self) -> None:
        """Raises nothing of its own: `error` has what came of it."""
        with self.process_set.driving():
            if self.ended:
                return
            try:
                if self._in_main_thread() and not self._poll():
                    interruptible(self._finish, self.process_set.abort)
                else:
                    self._finish()
            except EchelonError as error:
                self.error = error
            except BaseException:  # what a signal handler raises
                self.process_set.abort()
                raise
            self.process_set.forget(self)
            self._keep = ()

    def drop(self, error: EchelonError) -> None:
        """For a process set that has ended, and the request with it: by this error, if nothing
        else was."""
        if not self.ended:
            self.error = error
        self.pointer = c_void_p()

    @staticmethod
    def _in_main_thread() -> bool:
        """Only that one needs the helper; any other waits in the library, which polls better."""
        return threading.current_thread() is threading.main_thread()

    def _finish(self) -> None:
        self.waited_for = True
        try:
            _library.call("wait", byref(self.pointer))
        finally:
            self.waited_for = False

    def _poll(self) -> bool:
        end = time.perf_counter() + _SPIN
        while not _library.test(self.pointer):
            if time.perf_counter() > end:
                return False
            os.sched_yield()
        return True


class Handle:
    """An operation that was started. The arrays belong to it until wait() has returned, or
    poll() True."""

    def __init__(self, requests: List[Request], result: Callable[[], Any],
                 name: Optional[str] = None) -> None:
        self.name = name
        self.requests = requests
        self._result = result
        self._value: Any = None
        self._has_value = False

    def poll(self) -> bool:
        """Makes progress; whether the operation has ended. Does not block."""
        return all([request.test() for request in self.requests])

    def wait(self) -> Any:
        """Blocks until the operation has ended and returns its result; may be called again."""
        for request in self.requests:
            request.wait()
        for request in self.requests:
            if request.error is not None:
                raise request.error
        if not self._has_value:
            self._value, self._has_value = self._result(), True
            self._result = lambda: None
        return self._value


def poll(handle: Handle) -> bool:
    """Whether the operation has ended. Does not block."""
    return handle.poll()


def synchronize(handle: Handle) -> Any:
    """Waits for the operation and returns its result."""
    return handle.wait()
