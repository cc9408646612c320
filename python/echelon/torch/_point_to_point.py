# SPDX-License-Identifier: Apache-2.0
"""send and recv, which the library does not have, through PyTorch's store: right and in order, but
at the store's speed. What was sent lies there, in pieces that it takes, until it is received."""
from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch._C._distributed_c10d import Work as _Work

from .._errors import MismatchError, UnsupportedError
from ._meeting import wait_until
from ._work import seconds_of

_PIECE = 4 << 20  # The store takes 8 MiB at most.


def _bytes_of(tensor: torch.Tensor) -> bytes:
    host = tensor.detach().cpu().contiguous()
    return host.view(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b""


def _put_back(tensor: torch.Tensor, data: bytes) -> None:
    if len(data) != tensor.numel() * tensor.element_size():
        raise MismatchError(f"recv: {len(data)} bytes came for a tensor of "
                            f"{tensor.numel() * tensor.element_size()}")
    if data:
        read = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
        with torch.no_grad():
            tensor.copy_(read.view(tensor.dtype).view(tensor.shape))


class Sent(_Work):
    """What is in the store has been sent."""

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def get_future(self) -> Any:
        future: torch.futures.Future[List[torch.Tensor]] = torch.futures.Future()
        future.set_result([])
        return future

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> List[torch.Tensor]:
        return []


class Mailbox:
    """The messages of one rank. Those of one sender and one tag are received in their order."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float) -> None:
        self._store, self._rank, self._size, self.timeout = store, rank, size, timeout
        self._sent: "Counter[Tuple[int, int]]" = Counter()
        self._received: "Counter[Tuple[int, int]]" = Counter()
        self._lock = threading.Lock()

    def send(self, tensor: torch.Tensor, to: int, tag: int) -> Sent:
        data = _bytes_of(tensor)
        with self._lock:
            number = self._sent[to, tag]
            self._sent[to, tag] += 1
        name = self._name(self._rank, to, tag, number)
        pieces = range(0, len(data), _PIECE)
        for k, start in enumerate(pieces):
            self._store.set(f"{name}/{k}", data[start:start + _PIECE])
        self._store.set(name, str(len(pieces)))
        return Sent()

    def recv(self, tensor: torch.Tensor, source: Optional[int], tag: int) -> Received:
        return Received(self, tensor, source, tag)

    def reserve(self, source: int, tag: int) -> str:
        """The key of the next message of this sender: the receive after this gets the one after."""
        with self._lock:
            return self._next(source, tag)

    def there(self, key: str) -> bool:
        return bool(self._store.check([key]))

    def claim(self, tag: int) -> Optional[Tuple[str, int]]:
        """A message of any sender that is there, which no other receive gets, and whose it is."""
        with self._lock:
            for source in range(self._size):
                key = self._name(source, self._rank, tag, self._received[source, tag])
                if self.there(key):
                    return self._next(source, tag), source
        return None

    def take(self, key: str) -> bytes:
        names = [f"{key}/{k}" for k in range(int(self._store.get(key)))]
        data = b"".join(self._store.get(name) for name in names)
        for name in [*names, key]:
            self._store.delete_key(name)
        return data

    def _next(self, source: int, tag: int) -> str:
        number = self._received[source, tag]
        self._received[source, tag] += 1
        return self._name(source, self._rank, tag, number)

    @staticmethod
    def _name(source: int, to: int, tag: int, number: int) -> str:
        return f"echelon/from/{source}/to/{to}/{tag}/{number}"


class Received(_Work):
    """Comes when it is asked for: by wait(), or by is_completed(). One from any rank takes what is
    there first, in that moment."""

    def __init__(self, mailbox: Mailbox, tensor: torch.Tensor, source: Optional[int],
                 tag: int) -> None:
        super().__init__()
        self._mailbox, self._tensor, self._source, self._tag = mailbox, tensor, source, tag
        self._key = None if source is None else mailbox.reserve(source, tag)
        self._done = False
        self._error: Optional[Exception] = None
        self._lock = threading.Lock()

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        sender = "any rank" if self._key is None else f"rank {self._source}"
        seconds = seconds_of(timeout) or self._mailbox.timeout
        wait_until(self.is_completed, seconds, f"recv: nothing came from {sender}")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        with self._lock:
            if not self._done:
                key = self._found()
                self._done = key is not None
                if key is not None:
                    self._take(key)
            return self._done

    def _found(self) -> Optional[str]:
        if self._key is not None:
            return self._key if self._mailbox.there(self._key) else None
        claimed = self._mailbox.claim(self._tag)
        if claimed is None:
            return None
        key, self._source = claimed
        return key

    def _take(self, key: str) -> None:
        try:
            _put_back(self._tensor, self._mailbox.take(key))
        except Exception as error:  # also of the store: the message is gone with it
            self._error = error

    def is_success(self) -> bool:
        return self._done and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error

    def get_future(self) -> Any:
        raise UnsupportedError("a receive has no future: call wait()")

    def result(self) -> Sequence[torch.Tensor]:
        self.wait()
        return [self._tensor]

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        if self._source is None:
            raise UnsupportedError("the sender is known after wait()")
        return self._source

    _source_rank = source_rank
