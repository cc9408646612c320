# SPDX-License-Identifier: Apache-2.0
"""Waiting in the main thread with signals seen to.

Python runs signal handlers in the main thread between two instructions of its own, so not while
that is inside the library. What may take long is therefore called in a helper thread, and the main
thread waits for it at a lock, where handlers run. One that raises, as that of Ctrl-C does, ends the
wait."""
from __future__ import annotations

import queue
import threading
from typing import Callable, Generic, Optional, TypeVar

T = TypeVar("T")

# How long the other side may take to see that a call was given up, in seconds.
_PATIENCE = 2.0


class _Errand(Generic[T]):
    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._result: Optional[T] = None
        self._error: Optional[BaseException] = None
        self._running = threading.Lock()
        self._running.acquire()
        self.done = False

    def carry_out(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # for the thread that waits
            self._error = error
        self.done = True
        self._running.release()

    def wait(self, seconds: float = -1) -> None:
        if not self.done:
            self._running.acquire(timeout=seconds)

    def result(self) -> T:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]


class _Helper(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="echelon", daemon=True)
        self.errands: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            self.errands.get()()


_helper: Optional[_Helper] = None


def _living_helper() -> _Helper:
    """A process that was forked has none."""
    global _helper
    if _helper is None or not _helper.is_alive():
        _helper = _Helper()
        _helper.start()
    return _helper


def interruptible(function: Callable[[], T], give_up: Optional[Callable[[], None]] = None) -> T:
    """function(), which a signal handler that raises ends: `give_up` is called and must make the
    function return soon. Without it the function goes on by itself."""
    global _helper
    if threading.current_thread() is not threading.main_thread():
        return function()
    errand = _Errand(function)
    try:
        _living_helper().errands.put(errand.carry_out)
        errand.wait()
    except BaseException:
        if give_up is not None:
            give_up()
            errand.wait(_PATIENCE)
        if not errand.done:
            _helper = None
        raise
    return errand.result()
