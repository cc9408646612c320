# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed gives for an operation that is under way."""
from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import Work as _Work

from .._errors import TimeoutError


def seconds_of(timeout: Optional[timedelta]) -> Optional[float]:
    """None for what PyTorch means by no timeout of its own: nothing, zero or less."""
    seconds = 0.0 if timeout is None else timeout.total_seconds()
    return seconds if seconds > 0 else None


class Work(_Work):
    """Ended by the thread that drives the communicator."""

    def __init__(self, outputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._outputs = list(outputs)
        self._error: Optional[BaseException] = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._begun: Optional[torch.futures.Future[None]] = None
        self._future: Optional[torch.futures.Future[Any]] = None

    def end(self, error: Optional[BaseException] = None) -> None:
        with self._lock:
            self._error = error
            self._ended.set()
            begun = self._begun
        if begun is not None:
            begun.set_result(None)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        if not self._ended.wait(seconds_of(timeout)):
            raise TimeoutError(f"the operation has not ended within {timeout}")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Any:
        """The part after the first holds the error as C++ knows errors: set_exception would make
        it a value there, and gradients that were never reduced would be used."""
        with self._lock:
            if self._future is None:
                devices = list({t.device for t in self._outputs if t.is_cuda})
                self._begun = torch.futures.Future(devices=devices)
                self._future = self._begun.then(self._deliver)
                if self._ended.is_set():
                    self._begun.set_result(None)
            return self._future

    def _deliver(self, _: Any) -> List[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._outputs

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return self._outputs

    def synchronize(self) -> None:
        self.wait()


class Together(_Work):
    """Several of them as one."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__()
        self._works = list(works)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
        return True

    def get_future(self) -> Any:
        return torch.futures.collect_all([work.get_future() for work in self._works]).then(
            lambda all: [tensor for future in all.value() for tensor in future.value()])

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Optional[BaseException]:
        return next((error for error in (w.exception() for w in self._works) if error), None)

    def result(self) -> List[torch.Tensor]:
        return [tensor for work in self._works for tensor in work.result()]

    def synchronize(self) -> None:
        self.wait()
